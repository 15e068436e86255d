#!/bin/sh
# SPDX-License-Identifier: MIT
# Whole products of the 27B model through the kernels of cl/xe2, emulated. Takes minutes: part of
# `make check-long`.
exec "${builddir:-.}/tests/test_xe2" --large
