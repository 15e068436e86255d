# SPDX-License-Identifier: MIT
check_PROGRAMS += tests/test_gguf
TESTS += tests/test_gguf
tests_test_gguf_SOURCES = tests/test_gguf.c tests/ggufw.h tests/check.h
EXTRA_DIST += tests/oracle tests/cases/gguf
