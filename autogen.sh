#!/bin/sh
# SPDX-License-Identifier: MIT
# Make ./configure from configure.ac and Makefile.am (needs autoconf, automake, pkg-config).
set -eu
cd "$(dirname "$0")"
exec autoreconf -fi
