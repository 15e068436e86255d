/* SPDX-License-Identifier: MIT */
/* layer.h - what the layers of a target and of drafters have in common: the two halves of
 * a layer with full attention as launches, and the cache of one such layer. */
#ifndef QW_LAYER_H
#define QW_LAYER_H

#include "ops.h"
#include "state_kv.h"

/* The buffers a layer works in; the caller's. */
struct qw_layer_work {
    cl_mem cycle;
    cl_mem x;  /* [rows][n_embd] residual rows */
    cl_mem y;  /* [rows][widest product] */
    cl_mem cs; /* [rows][n_rot] of qw_op_rope_rows */
    cl_mem q, qscale, ml, po;
    struct qw_acts acts;
    int n_embd, n_ff;
    float eps;
};

/* Keys and values of one layer: pages as large as the device allows. */
struct qw_layer_cache {
    int kv_bits, page_positions, n_pages;
    uint64_t page_bytes; /* of one K or V page */
    struct qw_kv_page *page;
};

/* Lay out pages for shape->blocks; no device touched. what: "the drafter's cache". */
int qw_layer_cache_plan(struct qw_layer_cache *c, const struct qw_attn_shape *s,
                        int kv_bits, uint64_t max_alloc, const char *what,
                        struct qw_err *err);
uint64_t qw_layer_cache_bytes(const struct qw_layer_cache *c);
/* Allocate the pages of a planned cache. After an error too it is closed by
 * qw_layer_cache_close, which is fine with a cache that was never opened. k_name, v_name:
 * what messages call them. */
int qw_layer_cache_open(struct qw_layer_cache *c, struct qw_dev *dev, const char *k_name,
                        const char *v_name, struct qw_err *err);
/* Positions of the cache that a row at pos may still see, as state_kv.h names them. */
struct qw_kv_span qw_layer_cache_span(const struct qw_layer_cache *c,
                                      const struct qw_attn_shape *s, int pos);
void qw_layer_cache_close(struct qw_layer_cache *c, struct qw_dev *dev);

/* x += ATTN(RMS(x)): keys and values of the rows go to the cache. The columns of *shape
 * are filled in from l. */
int qw_layer_attn(struct qw_plan *p, const struct qw_layer_work *w,
                  const struct qw_layer *l, const struct qw_attn_shape *shape,
                  const struct qw_layer_cache *c, int rows, struct qw_err *err);
/* The rows' keys and values go to the cache, and that is all. */
int qw_layer_kv(struct qw_plan *p, const struct qw_layer_work *w,
                const struct qw_layer *l, const struct qw_attn_shape *shape,
                const struct qw_layer_cache *c, int rows, struct qw_err *err);
/* x += W_down(silu(W_gate g) * (W_up g)), g = RMS(x) */
int qw_layer_ffn(struct qw_plan *p, const struct qw_layer_work *w, cl_mem norm,
                 const struct qw_mat *gate_up, const struct qw_mat *down, int rows,
                 struct qw_err *err);
#endif
