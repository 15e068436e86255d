/* SPDX-License-Identifier: MIT */
/* model.h - the target's weights on the device: const once loaded. */
#ifndef QW_MODEL_H
#define QW_MODEL_H

#include "dev.h"
#include "hparams.h"
#include "ops.h"
#include "pack_file.h"

/* The block that predicts further tokens: one full-attention layer, what joins a token
 * with the hidden row before it, and what the target's own parts stand in for when
 * absent.
 */
struct qw_mtp {
    struct qw_layer layer;
    struct qw_mat
        eh_proj; /* columns [0, E) for the embedding, [E, 2 E) for the hidden row */
    cl_mem enorm, hnorm;
    cl_mem head_norm;          /* NULL: out_norm of the model */
    struct qw_mat embed, head; /* n_parts 0: those of the model */
};

struct qw_model {
    struct qw_hparams hp;
    const struct qw_gguf *file; /* borrowed; only while loading */
    struct qw_dev *dev;         /* NULL until loaded */
    struct qw_mat embed, head;  /* head.n_parts is 0 when tied */
    cl_mem out_norm;
    struct qw_layer *layer;
    struct qw_mtp *mtp; /* NULL unless asked for */
    uint64_t bytes;     /* of all its buffers */
    int max_k,
        max_cols; /* widest activation row and product of a layer (and of eh_proj) */
};

/* Lay the weights out for a device whose largest buffer is max_alloc; touches no device.
 * mtp: with the MTP block; refused with the reason where the file has no usable one.
 * The file must outlive qw_model_load. */
int qw_model_plan(struct qw_model **out, const struct qw_gguf *g, uint64_t max_alloc,
                  bool mtp, struct qw_err *err);
/* Fill buffers of kern's device with the weights as its kernels want them, packed here or
 * taken from a pack file (NULL: none); progress on a terminal when show. */
int qw_model_load(struct qw_model *m, const struct qw_kern *kern,
                  const struct qw_pack_file *pack, bool show, struct qw_err *err);
/* Every matrix to a pack file; QW_OK when a pack file has every matrix, else QW_EFILE. */
int qw_model_pack(struct qw_model *m, const struct qw_kern *kern,
                  struct qw_save_writer *to, bool show, struct qw_err *err);
int qw_model_packed(struct qw_model *m, const struct qw_kern *kern,
                    const struct qw_pack_file *pack, struct qw_err *err);
void qw_model_close(struct qw_model *m);
/* The matrix that makes logits: head, or embed when tied. */
const struct qw_mat *qw_model_head(const struct qw_model *m);
#endif
