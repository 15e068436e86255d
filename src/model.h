/* SPDX-License-Identifier: MIT */
/* model.h - the target's weights on the device: const once loaded. */
#ifndef QW_MODEL_H
#define QW_MODEL_H

#include "dev.h"
#include "hparams.h"
#include "pack.h"

enum { QW_MAX_SIBLINGS = 4 };

/* Tiles [tile0, tile0 + tiles) of a part in one buffer no larger than the device allows.
 */
struct qw_slab {
    cl_mem buf;
    int tile0, tiles;
    uint64_t bytes;
};

/* Sibling tensors of one layout, their 16-row tiles one after the other: one launch per
 * slab. */
struct qw_part {
    enum qw_layout layout;
    int tiles, col; /* tiles in all; first column of the product it makes */
    int n_tensors, tensor[QW_MAX_SIBLINGS]; /* indices into qw_mat.tensor */
    struct qw_slab *slab;
    int n_slabs;
};

/* One or more matrices that multiply the same rows: y[r][col + n] = W[n] . x[r]. Each
 * tensor's columns start at a multiple of 16; the columns between hold zeros. */
struct qw_mat {
    int K, cols; /* columns of the product, padded */
    int n_tensors;
    const struct qw_gguf_tensor *tensor[QW_MAX_SIBLINGS];
    int rows[QW_MAX_SIBLINGS]; /* outputs of each tensor */
    int col[QW_MAX_SIBLINGS];  /* where they start */
    struct qw_part part[QW_MAX_SIBLINGS];
    int n_parts;
    int want; /* activations its parts read: 1 int8 blocks, 2 f32, 3 both */
};

struct qw_layer {
    bool full;
    cl_mem attn_norm, post_norm; /* [E] */
    struct qw_mat in; /* full: q|gate, k, v (or fused); GDN: qkv, z, alpha, beta */
    struct qw_mat out, gate_up, down;
    cl_mem q_norm, k_norm; /* full: [head_dim] */
    cl_mem conv;           /* GDN: [taps][2 kd + vd] */
    cl_mem dt, a;          /* [nv] */
    cl_mem ssm_norm;       /* [dk] */
};

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
