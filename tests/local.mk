# SPDX-License-Identifier: MIT
check_PROGRAMS += tests/test_gguf
TESTS += tests/test_gguf
tests_test_gguf_SOURCES = tests/test_gguf.c tests/ggufw.h tests/check.h
EXTRA_DIST += tests/oracle tests/cases/gguf
check_PROGRAMS += tests/test_quant
TESTS += tests/test_quant
tests_test_quant_SOURCES = tests/test_quant.c tests/check.h
EXTRA_DIST += tests/golden/make_quant.py tests/golden/quant.bin
check_PROGRAMS += tests/test_hparams
TESTS += tests/test_hparams
tests_test_hparams_SOURCES = tests/test_hparams.c tests/ggufw.h tests/check.h
check_PROGRAMS += tests/fuzz/replay_gguf
TESTS += tests/fuzz/replay.sh
tests_fuzz_replay_gguf_SOURCES = tests/fuzz/fuzz_gguf.c tests/fuzz/replay.c
EXTRA_DIST += tests/fuzz/replay.sh tests/fuzz/corpus/gguf
