# SPDX-License-Identifier: MIT
# What every test sees: the program, a warm kernel cache of its own, and none of the user's settings.
# The cache may be shared between builds (make check POCL_CACHE_DIR=...).
POCL_CACHE_DIR = $(abs_builddir)/pocl-cache
AM_TESTS_ENVIRONMENT = \
	LC_ALL=C; export LC_ALL; \
	QWENRUN='$(abs_builddir)/src/qwenrun$(EXEEXT)'; export QWENRUN; \
	builddir='$(abs_builddir)'; export builddir; \
	POCL_CACHE_DIR='$(POCL_CACHE_DIR)'; export POCL_CACHE_DIR; \
	$(MKDIR_P) "$$POCL_CACHE_DIR"; \
	XDG_CONFIG_HOME='$(abs_builddir)/no-config'; export XDG_CONFIG_HOME; \
	$(SANITIZE_ENVIRONMENT)
if SANITIZE
# PoCL's compiler leaks; the quotes keep a path with a blank whole.
SANITIZE_ENVIRONMENT = \
	ASAN_LIBRARY=`$(CC) -print-file-name=libasan.so`; export ASAN_LIBRARY; \
	ASAN_OPTIONS=detect_leaks=1:leak_check_at_exit=0:abort_on_error=0; export ASAN_OPTIONS; \
	UBSAN_OPTIONS=print_stacktrace=1; export UBSAN_OPTIONS; \
	LSAN_OPTIONS="suppressions='$(abs_srcdir)/tests/lsan.supp':print_suppressions=0"; \
	export LSAN_OPTIONS;
# the check for leaks, in place of LeakSanitizer's own at exit
src_libqwenrun_a_SOURCES += tests/leaks.c
AM_LDFLAGS += -Wl,-u,qw_leaks
endif
EXTRA_DIST += tests/leaks.c
# A test that hangs is a failure with a log, not a build that never ends. Seconds a test.
TEST_LIMIT = 600
LOG_COMPILER = timeout -k 10 $(TEST_LIMIT)
SH_LOG_COMPILER = timeout -k 10 $(TEST_LIMIT) sh
TEST_EXTENSIONS = .sh
EXTRA_DIST += tests/lsan.supp tests/lint.sh tests/cppcheck.supp tests/skips.txt tests/summary.sh
clean-local:
	rm -rf pocl-cache xe2-check.dir
TESTS += tests/test_layers.sh
EXTRA_DIST += tests/test_layers.sh
check_PROGRAMS += tests/test_gguf
TESTS += tests/test_gguf
tests_test_gguf_SOURCES = tests/test_gguf.c tests/ggufw.h tests/check.h
EXTRA_DIST += tests/oracle/engine.py tests/oracle/ggufio.py tests/oracle/make_tiny.py tests/oracle/ref.py tests/oracle/tok.py tests/cases/gguf
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
check_PROGRAMS += tests/test_pack
TESTS += tests/test_pack
tests_test_pack_SOURCES = tests/test_pack.c tests/matmul_ref.c tests/matmul_ref.h tests/check.h
# a device that fails on purpose; a shared object, so built by hand
TESTS += tests/cli/run.sh tests/cli/info.sh tests/cli/fault.sh
EXTRA_DIST += tests/cli/run.sh tests/cli/info.sh tests/cli/fault.sh tests/cli/lib.sh tests/clfault.c
check_DATA = tests/clfault.so
CLEANFILES += tests/clfault.so
tests/clfault.so: tests/clfault.c
	$(AM_V_CCLD)$(MKDIR_P) tests && $(CC) $(DEPS_CFLAGS) -shared -fPIC -O1 -o $@ '$(srcdir)/tests/clfault.c' -ldl -lpthread
check_PROGRAMS += tests/test_golden
TESTS += tests/test_golden
tests_test_golden_SOURCES = tests/test_golden.c tests/net_util.c tests/net_util.h tests/ggufw.h tests/check.h
EXTRA_DIST += tests/golden/prompts.json tests/golden/logits_q4_0_chat_json.f32 \
	tests/golden/logits_q4_0_code.f32 tests/golden/logits_q4_0_long_needle.f32 \
	tests/golden/logits_q8_0_chat_json.f32 tests/golden/logits_q8_0_code.f32 \
	tests/golden/logits_q8_0_long_needle.f32
check_PROGRAMS += tests/test_options tests/list_options tests/fuzz/replay_ini
TESTS += tests/test_options tests/test_manual.sh tests/cli/config.sh
tests_test_options_SOURCES = tests/test_options.c tests/check.h
tests_list_options_SOURCES = tests/list_options.c
tests_fuzz_replay_ini_SOURCES = tests/fuzz/fuzz_ini.c tests/fuzz/replay.c
EXTRA_DIST += tests/test_manual.sh tests/cli/config.sh tests/cases/ini tests/fuzz/corpus/ini
check_PROGRAMS += tests/test_sample
TESTS += tests/test_sample
tests_test_sample_SOURCES = tests/test_sample.c tests/check.h
check_PROGRAMS += tests/test_oracle
TESTS += tests/test_oracle
tests_test_oracle_SOURCES = tests/test_oracle.c tests/net_util.c tests/net_util.h tests/ggufw.h tests/check.h
check_PROGRAMS += tests/test_invariance
TESTS += tests/test_invariance
tests_test_invariance_SOURCES = tests/test_invariance.c tests/net_util.c tests/net_util.h tests/ggufw.h tests/check.h
check_PROGRAMS += tests/test_kernels
TESTS += tests/test_kernels
tests_test_kernels_SOURCES = tests/test_kernels.c tests/test_kernels_gdn.c tests/test_kernels_attn.c tests/test_kernels_draft.c tests/test_kernels_cycle.c \
	tests/test_kernels.h tests/kern_util.c tests/kern_util.h tests/kern_ref.c tests/kern_ref.h tests/check.h
# oclgrind cannot be loaded before a sanitizer, and looks at kernels, which both builds share
if !SANITIZE
TESTS += tests/oclgrind.sh
endif
EXTRA_DIST += tests/oclgrind.sh tests/mutants.sh
# the kernels through the compiler of a card that is not here; both builds share them
if !SANITIZE
TESTS += tests/test_xe2_check.sh
endif
EXTRA_DIST += tools/xe2-check tests/test_xe2_check.sh tests/check_xe2.sh docs/xe2.md
check-xe2: src/qwenrun$(EXEEXT)
	@srcdir='$(srcdir)' QWENRUN='$(abs_builddir)/src/qwenrun$(EXEEXT)' \
		$(SHELL) '$(srcdir)/tests/check_xe2.sh' xe2-check.dir
# the table that it compares with, made anew
update-xe2-model: src/qwenrun$(EXEEXT)
	@srcdir='$(srcdir)' QWENRUN='$(abs_builddir)/src/qwenrun$(EXEEXT)' QW_UPDATE=1 \
		$(SHELL) '$(srcdir)/tests/check_xe2.sh' xe2-check.dir
.PHONY: check-xe2 update-xe2-model
TESTS += tests/test_xe2_model.sh
EXTRA_DIST += tests/test_xe2_model.sh tests/xe2_model_test.py tests/xe2-asm
# Too slow for every `make check`: each of these takes minutes.
LONG_TESTS = tests/mutants.sh
check-long: $(check_PROGRAMS)
	@$(AM_TESTS_ENVIRONMENT) srcdir='$(srcdir)'; export srcdir; \
	for t in $(LONG_TESTS); do echo "== $$t"; $(SHELL) '$(srcdir)'/$$t || [ $$? -eq 77 ] || exit 1; done
.PHONY: check-long
check_PROGRAMS += tests/test_tok tests/test_chat tests/tok_tool tests/fuzz/replay_tok
TESTS += tests/test_tok tests/test_chat
tests_test_tok_SOURCES = tests/test_tok.c tests/tok_util.h tests/ggufw.h tests/check.h
tests_test_chat_SOURCES = tests/test_chat.c tests/tok_util.h tests/ggufw.h tests/check.h
tests_tok_tool_SOURCES = tests/tok_tool.c
tests_fuzz_replay_tok_SOURCES = tests/fuzz/fuzz_tok.c tests/fuzz/replay.c
EXTRA_DIST += tests/golden/tokenizer.json tests/cases/chat tests/cases/text tests/fuzz/corpus/tok \
	tests/check_text.sh tests/check_text.py
LONG_TESTS += tests/check_text.sh
CLEANFILES += tests/vocab-248k.gguf
check_PROGRAMS += tests/test_hash
TESTS += tests/test_hash
tests_test_hash_SOURCES = tests/test_hash.c tests/check.h
check_PROGRAMS += tests/test_tape
TESTS += tests/test_tape
tests_test_tape_SOURCES = tests/test_tape.c tests/net_util.c tests/net_util.h tests/ggufw.h tests/check.h
check_PROGRAMS += tests/test_draft_file
TESTS += tests/test_draft_file
tests_test_draft_file_SOURCES = tests/test_draft_file.c tests/ggufw.h tests/check.h
check_PROGRAMS += tests/test_draft_model
TESTS += tests/test_draft_model
tests_test_draft_model_SOURCES = tests/test_draft_model.c tests/net_util.c tests/net_util.h tests/ggufw.h tests/check.h
TESTS += tests/cli/verify.sh
EXTRA_DIST += tests/cli/verify.sh tests/check_lossless.sh
LONG_TESTS += tests/check_lossless.sh
check_PROGRAMS += tests/test_base
TESTS += tests/test_base tests/cli/hostile.sh
tests_test_base_SOURCES = tests/test_base.c tests/check.h
EXTRA_DIST += tests/cli/hostile.sh
check_PROGRAMS += tests/test_adapt
TESTS += tests/test_adapt
tests_test_adapt_SOURCES = tests/test_adapt.c tests/check.h
check_PROGRAMS += tests/test_mtp
TESTS += tests/test_mtp
tests_test_mtp_SOURCES = tests/test_mtp.c tests/net_util.c tests/net_util.h tests/ggufw.h tests/check.h
EXTRA_DIST += tests/oracle/mtp.py
check_PROGRAMS += tests/test_save tests/test_state tests/fuzz/replay_save
TESTS += tests/test_save tests/test_state
tests_test_save_SOURCES = tests/test_save.c tests/check.h
tests_test_state_SOURCES = tests/test_state.c tests/net_util.c tests/net_util.h tests/ggufw.h tests/check.h
tests_fuzz_replay_save_SOURCES = tests/fuzz/fuzz_save.c tests/fuzz/replay.c
EXTRA_DIST += tests/fuzz/corpus/save
check_PROGRAMS += tests/test_dflash
TESTS += tests/test_dflash
tests_test_dflash_SOURCES = tests/test_dflash.c tests/draft_util.c tests/draft_util.h tests/net_util.c \
	tests/net_util.h tests/ggufw.h tests/check.h
EXTRA_DIST += tests/golden/drafts.json tests/oracle/draft.py
check_PROGRAMS += tests/test_session
TESTS += tests/test_session
tests_test_session_SOURCES = tests/test_session.c tests/session_util.c tests/session_util.h tests/check.h
check_PROGRAMS += tests/test_session_file
TESTS += tests/test_session_file
tests_test_session_file_SOURCES = tests/test_session_file.c tests/session_util.c tests/session_util.h tests/check.h
check_PROGRAMS += tests/test_timeline
TESTS += tests/test_timeline
tests_test_timeline_SOURCES = tests/test_timeline.c tests/session_util.c tests/session_util.h tests/check.h
check_PROGRAMS += tests/test_packs
TESTS += tests/test_packs tests/cli/pack.sh
tests_test_packs_SOURCES = tests/test_packs.c tests/net_util.c tests/net_util.h tests/ggufw.h tests/check.h
EXTRA_DIST += tests/cli/pack.sh
check_PROGRAMS += tests/test_fault
TESTS += tests/test_fault
tests_test_fault_SOURCES = tests/test_fault.c tests/clfault.c tests/session_util.c tests/session_util.h tests/check.h
check_PROGRAMS += tests/test_xe2
TESTS += tests/test_xe2 tests/cli/xe2.sh
EXTRA_DIST += tests/cli/xe2.sh tests/check_xe2_shapes.sh
LONG_TESTS += tests/check_xe2_shapes.sh
tests_test_xe2_SOURCES = tests/test_xe2.c tests/kern_util.c tests/kern_util.h tests/matmul_ref.c tests/matmul_ref.h tests/check.h
