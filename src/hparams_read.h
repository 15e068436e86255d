/* SPDX-License-Identifier: MIT */
/* hparams_read.h - what the readers of hyperparameters share: keys with their ranges,
 * tensors with their shapes, and messages that name the file and the key. For hparams*.c
 * alone. */
#ifndef QW_HPARAMS_READ_H
#define QW_HPARAMS_READ_H

#include "hparams.h"

enum {
    QW_MAX_WIDTH = 65536, /* of the residual stream */
    QW_MAX_FF = 1 << 20,
    QW_MAX_HEADS = 1024,
    QW_MAX_HEAD_DIM = 1024,
    QW_MAX_VOCAB = 1 << 24,
    QW_MAX_CONTEXT = 1 << 30,
    QW_SHOWN = 256, /* bytes of a text of the file in a message */
};

/* One read: what is read, and where the message goes. */
struct qw_hread {
    const struct qw_gguf *g;
    struct qw_err *err;
};

/* QW_EFILE with "file: " before the text. */
int qw_hread_bad(const struct qw_hread *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* The text alone of the last such message. */
const char *qw_hread_reason(const struct qw_hread *r);

/* Name of a key of this architecture, at most 127 bytes of it. */
struct qw_hread_name {
    char text[128];
};
struct qw_hread_name qw_hread_key(const char *arch, const char *suffix);

bool qw_hread_same(struct qw_str s, const char *text);
bool qw_hread_integers(const struct qw_gguf_key *k); /* its elements are integers */
const char *qw_hread_describe(const struct qw_gguf_key *k, char text[32]); /* its type */

int qw_hread_int(const struct qw_hread *r, const char *name, int lo, int hi, int *out);
int qw_hread_int_or(const struct qw_hread *r, const char *name, int dflt, int lo, int hi,
                    int *out);
/* Kernels work on blocks of 32 columns: refuse the value of the key when it is no
 * multiple. */
int qw_hread_blocks(const struct qw_hread *r, const char *name, int value);
/* rope.dimension_sections, for n_rot rotated dims. */
int qw_hread_sections(const struct qw_hread *r, const char *arch, int n_rot);
/* rope.scaling.*: refuse whatever changes positions. */
int qw_hread_scaling(const struct qw_hread *r, const char *arch);
int qw_hread_rope_base(const struct qw_hread *r, const char *arch, float *out);
int qw_hread_eps(const struct qw_hread *r, const char *arch, float *out);
/* tokenizer.ggml.tokens and vocab_size, where the file has them, against a size that
 * `whose` explains. */
int qw_hread_vocabulary(const struct qw_hread *r, const char *arch, int n_vocab,
                        const char *whose);

/* What a tensor must be. Matrices come in any type that decodes, vectors (and the taps of
 * the convolution) unquantised: the engine widens those to F32. */
struct qw_want {
    const char *suffix;
    int in, out; /* ne[0], ne[1]; out = 1 for a vector */
    bool plain;
};
/* All n of them, of one layer (or, layer < 0, of none). */
int qw_hread_tensors(const struct qw_hread *r, int layer, const struct qw_want *w, int n);
/* NVFP4 files keep factors beside their weights; read without them, every number is
 * wrong. */
int qw_hread_scales(const struct qw_hread *r);
#endif
