/* SPDX-License-Identifier: MIT */
/* net_util.h - whole networks for tests: open a file on the test device, feed ids in
 * pieces, rewrite a model file tensor by tensor, run the reference programs. Whatever
 * cannot be set up ends the program with 99. */
#ifndef QW_NET_UTIL_H
#define QW_NET_UTIL_H

#include "ggufw.h"
#include "target.h"

/* A step that must work for the test to mean anything. */
#define OK(call)                                                                         \
    do {                                                                                 \
        struct qw_err err = {""};                                                        \
        MUST((call) == QW_OK, "%s", err.msg);                                            \
    } while (0)

struct net {
    struct qw_gguf *file;
    struct qw_model *model;
    struct qw_target *t;
    int n_vocab, n_embd;
};

struct net_opts {
    int kv_bits, context, prefill;
    bool gpu_shape, all_logits;
    bool mtp;       /* with the MTP block and the hidden rows it reads */
    int verify;     /* rows of the widest verify step */
    const int *tap; /* as in struct qw_target_params */
    int n_taps, tap_want;
};

/* One device and one kernel program per (head sizes, cache type, shape) serve all
 * networks. */
void net_open(struct net *n, const char *path, const struct net_opts *o);
void net_close(struct net *n);
struct qw_dev *net_dev(void);
struct qw_kern *net_program(const struct qw_kern_params *want); /* opened once */

void net_reset(struct net *n);
/* Feed count ids, chunk at a time; logits: NULL, or [count][n_vocab] of all_logits
 * networks. */
void net_feed(struct net *n, const int32_t *id, int count, int chunk, float *logits);

/* Verify id and `drafts` tokens behind it at the committed position; keep `count` rows.
 * logits: NULL, or [drafts + 1][n_vocab]. */
void net_verify(struct net *n, int32_t id, const int32_t *draft, int drafts, int count,
                float *logits);

/* A file of the source folder; a file of the test's own folder, which is deleted at the
 * end. The text is the caller's to free. */
char *net_source(const char *name);
char *net_temp(const char *name);
/* A file of floats, exactly count of them. The caller frees. */
float *net_floats(const char *path, size_t count);

/* Start `python3 tests/oracle/<script> args` (several scripts: "&&" and further ones are
 * given by net_script), and wait for it. */
FILE *net_start(const char *command);
void net_wait(FILE *child);
/* "<python> <srcdir>/tests/oracle/<name>", quoted for the shell. */
char *net_script(const char *name);
/* Ids of the oracle's golden rows: (37 i + 11) mod 300. */
void net_oracle_ids(int32_t *id, int count);

struct net_error {
    double max, mean; /* of |got - want| */
};
struct net_error net_compare(const float *got, const float *want, size_t count);
int net_argmax(const float *x, int n);

/* A model file in memory, to be changed and written back. */
struct net_tensor {
    char name[64];
    uint32_t type;
    uint64_t ne[2];
    size_t size;
    unsigned char *data;
};
struct net_image {
    struct ggufw head; /* its keys */
    struct net_tensor *tensor;
    int n;
};
void net_image_read(struct net_image *m, const char *path);
void net_image_write(const struct net_image *m, const char *path, uint32_t align);
void net_image_free(struct net_image *m);
struct net_tensor *net_image_find(struct net_image *m, const char *name);
struct net_tensor *net_image_add(struct net_image *m, const char *name, uint32_t type,
                                 uint64_t ne0, uint64_t ne1);
void net_image_drop(struct net_image *m, const char *name);
/* Decode and encode again (types of qw_encode). */
void net_tensor_convert(struct net_tensor *t, uint32_t type);
/* Give a tensor room for blocks of another type. */
void net_tensor_retype(struct net_tensor *t, uint32_t type);
#endif
