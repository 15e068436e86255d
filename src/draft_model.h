/* SPDX-License-Identifier: MIT */
/* draft_model.h - a DFlash drafter's weights on the device: const once loaded. */
#ifndef QW_DRAFT_MODEL_H
#define QW_DRAFT_MODEL_H

#include "dev.h"
#include "hparams_draft.h"
#include "ops.h"
#include "pack_file.h"

struct qw_draft_layer {
    cl_mem attn_norm, ffn_norm; /* [E] */
    cl_mem q_norm, k_norm;      /* [head_dim] */
    struct qw_mat q;
    struct qw_mat kv; /* k, v: apart from q, as rows that are injected need no q; their
                         columns of a product row stand behind q's */
    struct qw_mat out, gate_up, down;
};

struct qw_draft_model {
    struct qw_draft_hparams hp;
    const struct qw_gguf *file; /* borrowed; only while loading */
    struct qw_dev *dev;         /* NULL until loaded */
    struct qw_mat fc;           /* n_taps * E -> E */
    struct qw_mat embed, head;  /* n_parts 0: the target's */
    cl_mem enc_norm, out_norm;  /* after fc; before the head */
    struct qw_draft_layer *layer;
    uint64_t bytes;      /* of all its buffers */
    int max_k, max_cols; /* widest activation row and product of the layers */
};

/* Lay the weights out for a device whose largest buffer is max_alloc; touches no device.
 * The file must outlive qw_draft_model_load. */
int qw_draft_model_plan(struct qw_draft_model **out, const struct qw_gguf *g,
                        const struct qw_hparams *target, uint64_t max_alloc,
                        struct qw_err *err);
/* As qw_model_load, qw_model_pack and qw_model_packed (model.h). */
int qw_draft_model_load(struct qw_draft_model *m, const struct qw_kern *kern,
                        const struct qw_pack_file *pack, bool show, struct qw_err *err);
int qw_draft_model_pack(struct qw_draft_model *m, const struct qw_kern *kern,
                        struct qw_save_writer *to, bool show, struct qw_err *err);
int qw_draft_model_packed(struct qw_draft_model *m, const struct qw_kern *kern,
                          const struct qw_pack_file *pack, struct qw_err *err);
void qw_draft_model_close(struct qw_draft_model *m);
#endif
