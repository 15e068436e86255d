noinst_LIBRARIES += src/libqwenrun.a
src_libqwenrun_a_SOURCES = \
	src/base.c src/base.h \
	src/gguf.c src/gguf.h \
	src/quant.c src/quant.h \
	src/hparams.c src/hparams.h \
	src/tok.c src/tok.h \
	src/chat.c src/chat.h \
	src/sample.c src/sample.h
