# SPDX-License-Identifier: MIT
noinst_LIBRARIES += src/libqwenrun.a
src_libqwenrun_a_SOURCES = \
	src/base.c src/base.h \
	src/gguf.c src/gguf.h src/gguf_watch.c src/gguf_watch.h \
	src/quant.c src/quant.h \
	src/hparams.c src/hparams.h src/hparams_read.c src/hparams_read.h \
	src/tok.c src/tok.h \
	src/chat.c src/chat.h src/chat_parse.c src/chat_json.c src/chat_json.h \
	src/sample.c src/sample.h

# device and engine layers
src_libqwenrun_a_SOURCES += \
	src/dev.c src/dev.h src/kern.c src/kern.h src/kern_build.c src/kern_build.h src/kern_xe2.c src/kern_xe2.h src/plan.c src/plan.h \
	src/ops.c src/ops.h src/pack.c src/pack_xe2.c src/pack.h src/weights.c src/weights.h src/cl_sources.h \
	src/model.c src/model.h src/state.c src/state.h src/target.c src/target.h src/target_size.c src/target_size.h \
	src/engine.c src/engine.h src/generate.c src/qwenrun.h

# settings
src_libqwenrun_a_SOURCES += \
	src/options.c src/options_list.c src/options_ini.c src/options_ini.h src/options.h src/options.def
# the folders are compiled in, so another --prefix must reach an object that was built before
src/options.$(OBJEXT): Makefile

# the program
bin_PROGRAMS += src/qwenrun
src_qwenrun_SOURCES = src/main.c src/cmd.c src/cmd.h src/cmd_config.c
src_qwenrun_LDADD = $(LDADD)
src_qwenrun_SOURCES += src/cmd_run.c src/cmd_info.c src/cmd_verify.c

# the tokenizer's parts
src_libqwenrun_a_SOURCES += \
	src/tok_bpe.c src/tok_bpe.h src/tok_nfc.c src/tok_special.c src/tok_special.h \
	src/tok_split.c src/tok_split.h

src_libqwenrun_a_SOURCES += src/hash.c src/hash.h

# drafting
src_libqwenrun_a_SOURCES += \
	src/drafter.h src/ngram.c src/script.c src/engine_draft.c src/engine_launches.c src/spec.c src/spec.h src/adapt.c src/adapt.h src/dflash.c src/dflash.h \
	src/session.c src/session_save.c src/session.h src/draft_io.c src/draft_io.h
# drafters
src_libqwenrun_a_SOURCES += src/hparams_draft.c src/hparams_draft.h src/draft_model.c src/draft_model.h
src_libqwenrun_a_SOURCES += src/layer.c src/layer.h src/mtp.c src/mtp.h

# sessions on disk
src_libqwenrun_a_SOURCES += \
	src/save.c src/save_read.c src/save.h src/save_format.h \
	src/state_kv.c src/state_kv.h src/state_io.c src/state_io.h

# pack files
src_libqwenrun_a_SOURCES += src/pack_file.c src/pack_file.h src/engine_pack.c
src_qwenrun_SOURCES += src/cmd_pack.c
