/* SPDX-License-Identifier: MIT */
/* model.h - the target's weights on the device: const once loaded. */
#ifndef QW_MODEL_H
#define QW_MODEL_H

#include "dev.h"
#include "hparams.h"
#include "ops.h"

struct qw_model {
    struct qw_hparams hp;
    const struct qw_gguf *file; /* borrowed; only while loading */
    struct qw_dev *dev;         /* NULL until loaded */
    struct qw_mat embed, head;  /* head.n_parts is 0 when tied */
    cl_mem out_norm;
    struct qw_layer *layer;
    uint64_t bytes;      /* of all its buffers */
    int max_k, max_cols; /* widest activation row and product of a layer */
};

/* Lay the weights out for a device whose largest buffer is max_alloc; touches no device.
 * The file must outlive qw_model_load. */
int qw_model_plan(struct qw_model **out, const struct qw_gguf *g, uint64_t max_alloc,
                  struct qw_err *err);
/* Fill buffers of dev with the weights; progress on a terminal when show. */
int qw_model_load(struct qw_model *m, struct qw_dev *dev, bool show, struct qw_err *err);
void qw_model_close(struct qw_model *m);
/* The matrix that makes logits: head, or embed when tied. */
const struct qw_mat *qw_model_head(const struct qw_model *m);
#endif
