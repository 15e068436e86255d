/* SPDX-License-Identifier: MIT */
#include "layer.h"

#include <stdlib.h>

#include "cycle.h"

/* ---- cache ---- */

int qw_layer_cache_plan(struct qw_layer_cache *c, const struct qw_attn_shape *s,
                        int kv_bits, uint64_t max_alloc, const char *what,
                        struct qw_err *err)
{
    const uint64_t block = qw_kv_page_bytes(s, kv_bits, QW_ATTN_BLOCK);
    const uint64_t limit = max_alloc < (uint64_t)1 << 31 ? max_alloc : (uint64_t)1 << 31;
    const uint64_t fit = limit / block;
    if (fit == 0)
        return qw_fail(err, QW_EDEVICE,
                       "the device's largest buffer (%llu bytes) is too small for a "
                       "block of %s (%llu bytes)",
                       (unsigned long long)max_alloc, what, (unsigned long long)block);
    const int blocks = fit < (uint64_t)s->blocks ? (int)fit : s->blocks;
    c->kv_bits = kv_bits;
    c->page_positions = blocks * QW_ATTN_BLOCK;
    c->n_pages = (s->blocks + blocks - 1) / blocks;
    c->page_bytes = qw_kv_page_bytes(s, kv_bits, c->page_positions);
    c->page = NULL;
    return QW_OK;
}

uint64_t qw_layer_cache_bytes(const struct qw_layer_cache *c)
{
    return 2 * c->page_bytes * (uint64_t)c->n_pages;
}

int qw_layer_cache_open(struct qw_layer_cache *c, struct qw_dev *dev, const char *k_name,
                        const char *v_name, struct qw_err *err)
{
    int rc = QW_OK;
    c->page = qw_alloc((size_t)c->n_pages, sizeof(*c->page));
    for (int i = 0; rc == QW_OK && i < c->n_pages; i++) {
        c->page[i].p0 = i * c->page_positions;
        c->page[i].p1 = c->page[i].p0 + c->page_positions;
        rc = qw_dev_buffer(dev, c->page_bytes, k_name, &c->page[i].k, err);
        if (rc == QW_OK)
            rc = qw_dev_buffer(dev, c->page_bytes, v_name, &c->page[i].v, err);
    }
    return rc;
}

struct qw_kv_span qw_layer_cache_span(const struct qw_layer_cache *c,
                                      const struct qw_attn_shape *s, int pos)
{
    return (struct qw_kv_span){.kv_heads = s->kv_heads,
                               .hd = s->hd,
                               .kv_bits = c->kv_bits,
                               .page = c->page,
                               .n_pages = c->n_pages,
                               .slots = s->blocks * QW_ATTN_BLOCK,
                               .first =
                                   s->window > 0 && pos > s->window ? pos - s->window : 0,
                               .last = pos};
}

void qw_layer_cache_close(struct qw_layer_cache *c, struct qw_dev *dev)
{
    for (int i = 0; c->page != NULL && i < c->n_pages; i++) {
        qw_dev_release(dev, &c->page[i].k);
        qw_dev_release(dev, &c->page[i].v);
    }
    free(c->page);
    c->page = NULL;
}

/* ---- launches ---- */

static struct qw_attn_shape columns(const struct qw_attn_shape *shape,
                                    const struct qw_layer *l)
{
    struct qw_attn_shape s = *shape;
    s.q0 = l->in.col[0];
    s.k0 = l->in.col[1];
    s.v0 = l->in.col[2];
    s.ldy = l->in.cols;
    return s;
}

/* y = q | gate, k, v of RMS(x) */
static int emit_in(struct qw_plan *p, const struct qw_layer_work *w,
                   const struct qw_layer *l, int rows, struct qw_err *err)
{
    int rc = qw_op_norm(p, w->x, l->attn_norm, w->cycle, w->n_embd, w->eps, l->in.want,
                        &w->acts, rows, err);
    return rc == QW_OK ? qw_op_matmul(p, &l->in, &w->acts, w->cycle, w->y, l->in.cols,
                                      false, rows, err)
                       : rc;
}

int qw_layer_attn(struct qw_plan *p, const struct qw_layer_work *w,
                  const struct qw_layer *l, const struct qw_attn_shape *shape,
                  const struct qw_layer_cache *c, int rows, struct qw_err *err)
{
    const struct qw_attn_shape s = columns(shape, l);
    int rc = emit_in(p, w, l, rows, err);
    if (rc == QW_OK)
        rc = qw_op_qk(p, &s, l->q_norm, l->k_norm, w->y, w->cs, w->cycle, c->page,
                      c->n_pages, c->kv_bits, w->q, w->qscale, rows, err);
    if (rc == QW_OK)
        rc = qw_op_attn(p, &s, w->y, w->q, w->qscale, w->cycle, c->page, c->n_pages,
                        c->kv_bits, w->ml, w->po, l->out.want, &w->acts, rows, err);
    return rc == QW_OK ? qw_op_matmul(p, &l->out, &w->acts, w->cycle, w->x, w->n_embd,
                                      true, rows, err)
                       : rc;
}

int qw_layer_kv(struct qw_plan *p, const struct qw_layer_work *w,
                const struct qw_layer *l, const struct qw_attn_shape *shape,
                const struct qw_layer_cache *c, int rows, struct qw_err *err)
{
    const struct qw_attn_shape s = columns(shape, l);
    int rc = emit_in(p, w, l, rows, err);
    return rc == QW_OK ? qw_op_kv(p, &s, l->k_norm, w->y, w->cs, w->cycle, c->page,
                                  c->n_pages, c->kv_bits, rows, err)
                       : rc;
}

int qw_layer_ffn(struct qw_plan *p, const struct qw_layer_work *w, cl_mem norm,
                 const struct qw_mat *gate_up, const struct qw_mat *down, int rows,
                 struct qw_err *err)
{
    int rc = qw_op_norm(p, w->x, norm, w->cycle, w->n_embd, w->eps, gate_up->want,
                        &w->acts, rows, err);
    if (rc == QW_OK)
        rc = qw_op_matmul(p, gate_up, &w->acts, w->cycle, w->y, gate_up->cols, false,
                          rows, err);
    if (rc == QW_OK)
        rc = qw_op_swiglu(p, w->y, w->cycle, w->n_ff, gate_up->cols, gate_up->col[0],
                          gate_up->col[1], down->want, &w->acts, rows, err);
    return rc == QW_OK ? qw_op_matmul(p, down, &w->acts, w->cycle, w->x, w->n_embd, true,
                                      rows, err)
                       : rc;
}
