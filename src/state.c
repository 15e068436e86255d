/* SPDX-License-Identifier: MIT */
#include "state.h"

#include <assert.h>
#include <stdlib.h>

#include "cycle.h"

int qw_state_plan(struct qw_state_sizes *s, const struct qw_hparams *hp,
                  const struct qw_attn_shape *a, int context, int kv_bits,
                  uint64_t max_alloc, struct qw_err *err)
{
    const uint64_t block = qw_kv_page_bytes(a, kv_bits, QW_ATTN_BLOCK);
    const uint64_t limit = max_alloc < (uint64_t)1 << 31 ? max_alloc : (uint64_t)1 << 31;
    const uint64_t width = (uint64_t)(2 * hp->ssm_nk + hp->ssm_nv) * (uint64_t)hp->ssm_dk;
    const uint64_t dk = (uint64_t)hp->ssm_dk, nv = (uint64_t)hp->ssm_nv;
    const uint64_t S = nv * dk * dk * 4, ring = QW_CONV_RING * width * 4;
    const uint64_t tape = QW_TAPE_RING * (((uint64_t)hp->ssm_nk + nv) * dk + nv) * 4;
    if (block > limit || S > max_alloc || ring > max_alloc || tape > max_alloc)
        return qw_fail(
            err, QW_EDEVICE,
            "the device's largest buffer (%llu bytes) is too small for this model's "
            "state: %llu bytes for a cache block, %llu for GDN state, %llu for history",
            (unsigned long long)max_alloc, (unsigned long long)block,
            (unsigned long long)S, (unsigned long long)ring);
    const uint64_t blocks = limit / block, all = (uint64_t)context / QW_ATTN_BLOCK;
    *s = (struct qw_state_sizes){.s_bytes = S, .ring_bytes = ring, .tape_bytes = tape};
    s->page_positions = (int)(blocks < all ? blocks : all) * QW_ATTN_BLOCK;
    s->n_pages = (context + s->page_positions - 1) / s->page_positions;
    s->page_bytes = qw_kv_page_bytes(a, kv_bits, s->page_positions);
    /* the last page ends with the context: attention has no blocks beyond it */
    const int last = context - (s->n_pages - 1) * s->page_positions;
    const uint64_t cache =
        s->page_bytes * (uint64_t)(s->n_pages - 1) + qw_kv_page_bytes(a, kv_bits, last);
    for (int i = 0; i < hp->n_layer; i++)
        if (hp->full[i]) {
            s->kv += 2 * cache;
        } else {
            s->gdn += S + tape;
            s->conv += ring;
        }
    return QW_OK;
}

int qw_state_open(struct qw_state **out, struct qw_dev *dev, const struct qw_hparams *hp,
                  const struct qw_attn_shape *a, int context, int kv_bits,
                  struct qw_err *err)
{
    struct qw_state_sizes z;
    int rc = qw_state_plan(&z, hp, a, context, kv_bits, dev->max_alloc, err);
    if (rc != QW_OK)
        return rc;
    struct qw_state *s = qw_alloc(1, sizeof(*s));
    const size_t n = (size_t)hp->n_layer;
    s->dev = dev;
    s->n_layer = hp->n_layer;
    s->context = context;
    s->kv_bits = kv_bits;
    s->attn = *a;
    s->taps = hp->ssm_conv;
    s->page_positions = z.page_positions;
    s->n_pages = z.n_pages;
    s->page = qw_alloc(n * (size_t)z.n_pages, sizeof(*s->page));
    s->S = qw_alloc(n, sizeof(cl_mem));
    s->ring = qw_alloc(n, sizeof(cl_mem));
    s->tape = qw_alloc(n, sizeof(cl_mem));
    s->s_bytes = z.s_bytes;
    s->ring_bytes = z.ring_bytes;
    s->tape_bytes = z.tape_bytes;
    for (int i = 0; rc == QW_OK && i < hp->n_layer; i++) {
        for (int p = 0; rc == QW_OK && hp->full[i] && p < z.n_pages; p++) {
            struct qw_kv_page *g = &s->page[i * z.n_pages + p];
            g->p0 = p * z.page_positions;
            g->p1 =
                g->p0 + z.page_positions < context ? g->p0 + z.page_positions : context;
            const uint64_t bytes = qw_kv_page_bytes(a, kv_bits, g->p1 - g->p0);
            rc = qw_dev_buffer(dev, bytes, "K cache", &g->k, err);
            if (rc == QW_OK)
                rc = qw_dev_buffer(dev, bytes, "V cache", &g->v, err);
        }
        if (rc == QW_OK && !hp->full[i])
            rc = qw_dev_buffer(dev, s->s_bytes, "GDN state", &s->S[i], err);
        if (rc == QW_OK && !hp->full[i])
            rc = qw_dev_buffer(dev, s->ring_bytes, "convolution history", &s->ring[i],
                               err);
        if (rc == QW_OK && !hp->full[i])
            rc = qw_dev_buffer(dev, s->tape_bytes, "GDN tape", &s->tape[i], err);
    }
    if (rc != QW_OK)
        qw_state_close(s);
    else
        *out = s;
    return rc;
}

void qw_state_close(struct qw_state *s)
{
    if (s == NULL)
        return;
    for (int i = 0; i < s->n_layer; i++) {
        for (int p = 0; p < s->n_pages; p++) {
            qw_dev_release(s->dev, &s->page[i * s->n_pages + p].k);
            qw_dev_release(s->dev, &s->page[i * s->n_pages + p].v);
        }
        qw_dev_release(s->dev, &s->S[i]);
        qw_dev_release(s->dev, &s->ring[i]);
        qw_dev_release(s->dev, &s->tape[i]);
    }
    free(s->page);
    free(s->S);
    free(s->ring);
    free(s->tape);
    free(s);
}

int qw_state_reset(struct qw_state *s, struct qw_err *err)
{
    int rc = QW_OK;
    for (int i = 0; rc == QW_OK && i < s->n_layer; i++)
        if (s->S[i] != NULL) {
            rc = qw_dev_zero(s->dev, s->S[i], s->s_bytes, err);
            if (rc == QW_OK)
                rc = qw_dev_zero(s->dev, s->ring[i], s->ring_bytes, err);
        }
    s->pos = s->stored = 0;
    return rc;
}

void qw_state_stored(struct qw_state *s, int sure)
{
    assert(sure >= 0 && s->stored <= s->pos);
    s->stored = s->pos + sure;
}

void qw_state_commit(struct qw_state *s, int count)
{
    assert(count >= 0 && s->pos + count <= s->context && s->pos + count >= s->stored);
    s->pos += count;
    assert(s->pos - s->stored <= QW_TAPE_RING / 2);
}
