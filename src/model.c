/* SPDX-License-Identifier: MIT */
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quant.h"

enum { TILE = 16, STAGE = 8 << 20 };
static const uint64_t MAX_BUFFER = (uint64_t)1 << 31; /* some drivers dislike more */

/* ---- layout, no device ---- */

static int tiles_of(uint64_t rows)
{
    return (int)((rows + TILE - 1) / TILE);
}

static int plan_slabs(struct qw_part *p, int K, uint64_t max_alloc, uint64_t *bytes,
                      struct qw_err *err)
{
    const uint64_t tile = qw_pack_tile_bytes(p->layout, K);
    const uint64_t limit = max_alloc < MAX_BUFFER ? max_alloc : MAX_BUFFER;
    if (tile > limit)
        return qw_fail(
            err, QW_EDEVICE,
            "the device's largest buffer (%llu bytes) cannot hold 16 rows of a weight "
            "(%llu bytes)",
            (unsigned long long)max_alloc, (unsigned long long)tile);
    const int per = (int)(limit / tile);
    p->n_slabs = (p->tiles + per - 1) / per;
    p->slab = qw_alloc((size_t)p->n_slabs, sizeof(*p->slab));
    for (int i = 0; i < p->n_slabs; i++) {
        struct qw_slab *s = &p->slab[i];
        s->tile0 = i * per;
        s->tiles = p->tiles - s->tile0 < per ? p->tiles - s->tile0 : per;
        s->bytes = tile * (uint64_t)s->tiles;
        *bytes += s->bytes;
    }
    return QW_OK;
}

/* Group the siblings by layout in order of appearance and place their columns. */
static int plan_mat(struct qw_mat *m, const struct qw_gguf_tensor *const *t, int n,
                    uint64_t max_alloc, uint64_t *bytes, struct qw_err *err)
{
    m->K = (int)t[0]->ne[0];
    m->n_tensors = n;
    for (int i = 0; i < n; i++) {
        const enum qw_layout layout = qw_pack_layout(t[i]->type);
        m->tensor[i] = t[i];
        m->rows[i] = (int)t[i]->ne[1];
        m->want |= layout == QW_L_F32 ? 2 : 1;
        int p = 0;
        while (p < m->n_parts && m->part[p].layout != layout)
            p++;
        if (p == m->n_parts)
            m->part[m->n_parts++].layout = layout;
        m->part[p].tensor[m->part[p].n_tensors++] = i;
    }
    for (int p = 0; p < m->n_parts; p++) {
        struct qw_part *part = &m->part[p];
        part->col = m->cols;
        for (int i = 0; i < part->n_tensors; i++) {
            m->col[part->tensor[i]] = m->cols;
            part->tiles += tiles_of((uint64_t)m->rows[part->tensor[i]]);
            m->cols = part->col + part->tiles * TILE;
        }
        int rc = plan_slabs(part, m->K, max_alloc, bytes, err);
        if (rc != QW_OK)
            return rc;
    }
    return QW_OK;
}

static int plan_named(struct qw_model *m, struct qw_mat *mat, int layer,
                      const char *const *suffix, int n, uint64_t max_alloc,
                      struct qw_err *err)
{
    const struct qw_gguf_tensor *t[QW_MAX_SIBLINGS] = {NULL};
    for (int i = 0; i < n; i++)
        t[i] = qw_tensor(m->file, layer, suffix[i]); /* qw_hparams_read saw them all */
    int rc = plan_mat(mat, t, n, max_alloc, &m->bytes, err);
    if (rc == QW_OK && layer >= 0) {
        m->max_k = mat->K > m->max_k ? mat->K : m->max_k;
        m->max_cols = mat->cols > m->max_cols ? mat->cols : m->max_cols;
    }
    return rc;
}

static int plan_layer(struct qw_model *m, int i, uint64_t max_alloc, struct qw_err *err)
{
    static const char *const gdn[] = {"attn_qkv.weight", "attn_gate.weight",
                                      "ssm_alpha.weight", "ssm_beta.weight"};
    static const char *const full[] = {"attn_q.weight", "attn_k.weight", "attn_v.weight"};
    static const char *const gu[] = {"ffn_gate.weight", "ffn_up.weight"};
    static const char *const down = "ffn_down.weight", *const ssm_out = "ssm_out.weight",
                             *const attn_out = "attn_output.weight";
    struct qw_layer *l = &m->layer[i];
    const struct qw_hparams *hp = &m->hp;
    const bool fused = hp->full[i] && qw_tensor(m->file, i, "attn_qkv.weight") != NULL;
    l->full = hp->full[i];
    int rc = plan_named(m, &l->in, i, !l->full || fused ? gdn : full,
                        !l->full ? 4
                        : fused  ? 1
                                 : 3,
                        max_alloc, err);
    if (rc == QW_OK)
        rc = plan_named(m, &l->out, i, l->full ? &attn_out : &ssm_out, 1, max_alloc, err);
    if (rc == QW_OK)
        rc = plan_named(m, &l->gate_up, i, gu, 2, max_alloc, err);
    if (rc == QW_OK)
        rc = plan_named(m, &l->down, i, &down, 1, max_alloc, err);
    if (rc == QW_OK && fused) { /* one tensor, three readers */
        l->in.col[1] = hp->n_head * 2 * hp->head_dim;
        l->in.col[2] = l->in.col[1] + hp->n_head_kv * hp->head_dim;
    }
    const uint64_t conv = (uint64_t)(2 * hp->ssm_nk + hp->ssm_nv) * (uint64_t)hp->ssm_dk;
    m->bytes += 4 * (uint64_t)(2 * hp->n_embd);
    m->bytes += l->full ? 4 * (uint64_t)(2 * hp->head_dim)
                        : 4 * (conv * (uint64_t)hp->ssm_conv + 2 * (uint64_t)hp->ssm_nv +
                               (uint64_t)hp->ssm_dk);
    return rc;
}

int qw_model_plan(struct qw_model **out, const struct qw_gguf *g, uint64_t max_alloc,
                  struct qw_err *err)
{
    static const char *const embed = "token_embd.weight", *const head = "output.weight";
    struct qw_model *m = qw_alloc(1, sizeof(*m));
    m->file = g;
    int rc = qw_hparams_read(g, &m->hp, err);
    if (rc == QW_OK) {
        m->layer = qw_alloc((size_t)m->hp.n_layer, sizeof(*m->layer));
        rc = plan_named(m, &m->embed, -1, &embed, 1, max_alloc, err);
    }
    if (rc == QW_OK && !m->hp.tied)
        rc = plan_named(m, &m->head, -1, &head, 1, max_alloc, err);
    for (int i = 0; rc == QW_OK && i < m->hp.n_layer; i++)
        rc = plan_layer(m, i, max_alloc, err);
    m->bytes += 4 * (uint64_t)m->hp.n_embd;
    if (rc != QW_OK)
        qw_model_close(m);
    else
        *out = m;
    return rc;
}

const struct qw_mat *qw_model_head(const struct qw_model *m)
{
    return m->hp.tied ? &m->embed : &m->head;
}

/* ---- loading ---- */

struct loader {
    struct qw_model *m;
    unsigned char *stage; /* one piece of packed tiles, then of decoded floats */
    struct qw_progress progress;
    uint64_t done;
    struct qw_err *err;
};

/* Pack tiles [from, from + n) of a part, which may span several tensors, to stage. */
static void pack_range(const struct qw_mat *mat, const struct qw_part *p, int from, int n,
                       unsigned char *stage)
{
    const size_t tile = qw_pack_tile_bytes(p->layout, mat->K);
    int start = 0;
    for (int i = 0; i < p->n_tensors && n > 0; i++) {
        const struct qw_gguf_tensor *t = mat->tensor[p->tensor[i]];
        const int rows = mat->rows[p->tensor[i]], have = tiles_of((uint64_t)rows);
        const struct qw_type_info *info = qw_type_info(t->type);
        const size_t row_bytes = (size_t)mat->K / info->block * info->bytes;
        if (from < start + have) {
            const int first = from - start, count = have - first < n ? have - first : n;
            const int left = rows - first * TILE;
            qw_pack_tiles(p->layout, t->type,
                          (const unsigned char *)t->data +
                              (size_t)first * TILE * row_bytes,
                          row_bytes, left < count * TILE ? left : count * TILE, mat->K,
                          count, stage);
            stage += tile * (size_t)count;
            from += count;
            n -= count;
        }
        start += have;
    }
}

static int load_mat(struct loader *l, struct qw_mat *mat)
{
    struct qw_dev *dev = l->m->dev;
    int rc = QW_OK;
    for (int p = 0; p < mat->n_parts; p++) {
        struct qw_part *part = &mat->part[p];
        const size_t tile = qw_pack_tile_bytes(part->layout, mat->K);
        const int step = tile < STAGE ? (int)(STAGE / tile) : 1;
        for (int i = 0; rc == QW_OK && i < part->n_slabs; i++) {
            struct qw_slab *s = &part->slab[i];
            rc = qw_dev_buffer_raw(dev, s->bytes, "weights", &s->buf, l->err);
            for (int t = 0; rc == QW_OK && t < s->tiles; t += step) {
                const int n = s->tiles - t < step ? s->tiles - t : step;
                pack_range(mat, part, s->tile0 + t, n, l->stage);
                rc = qw_dev_write(dev, s->buf, tile * (uint64_t)t, l->stage,
                                  tile * (uint64_t)n, true, l->err);
                l->done += tile * (uint64_t)n;
                qw_progress_step(&l->progress, l->done, l->m->bytes);
            }
        }
    }
    for (int i = 0; i < mat->n_tensors; i++)
        qw_gguf_release_pages(l->m->file, mat->tensor[i]->data, mat->tensor[i]->size);
    return rc;
}

/* A small tensor, decoded to f32. taps > 0: given as [n / taps][taps], wanted as [taps][n
 * / taps]. */
static int load_vector(struct loader *l, int layer, const char *suffix, int taps,
                       cl_mem *out)
{
    const struct qw_gguf_tensor *t = qw_tensor(l->m->file, layer, suffix);
    const size_t n = (size_t)(t->ne[0] * t->ne[1]), size = n * sizeof(float);
    float *f = qw_alloc(2 * n, sizeof(float)), *v = f;
    qw_decode(t->type, t->data, f, n);
    if (taps > 0) {
        v = f + n;
        for (size_t i = 0; i < n; i++)
            v[i % (size_t)taps * (n / (size_t)taps) + i / (size_t)taps] = f[i];
    }
    int rc = qw_dev_buffer_raw(l->m->dev, size, "weights", out, l->err);
    if (rc == QW_OK)
        rc = qw_dev_write(l->m->dev, *out, 0, v, size, true, l->err);
    free(f);
    l->done += size;
    return rc;
}

static int load_layer(struct loader *l, int i)
{
    struct qw_layer *y = &l->m->layer[i];
    int rc = load_mat(l, &y->in);
    if (rc == QW_OK)
        rc = load_mat(l, &y->out);
    if (rc == QW_OK)
        rc = load_mat(l, &y->gate_up);
    if (rc == QW_OK)
        rc = load_mat(l, &y->down);
    const struct {
        const char *suffix;
        int taps;
        cl_mem *out;
    } all[] = {{"attn_norm.weight", 0, &y->attn_norm},
               {"post_attention_norm.weight", 0, &y->post_norm},
               {"attn_q_norm.weight", 0, &y->q_norm},
               {"attn_k_norm.weight", 0, &y->k_norm},
               {"ssm_conv1d.weight", l->m->hp.ssm_conv, &y->conv},
               {"ssm_dt.bias", 0, &y->dt},
               {"ssm_a", 0, &y->a},
               {"ssm_norm.weight", 0, &y->ssm_norm}};
    for (int k = 0; rc == QW_OK && k < 8; k++)
        if (k < 2 || (k < 4) == y->full)
            rc = load_vector(l, i, all[k].suffix, all[k].taps, all[k].out);
    return rc;
}

static size_t largest_tile(const struct qw_model *m)
{
    size_t most = qw_pack_tile_bytes(m->embed.part[0].layout, m->embed.K);
    for (int i = -1; i < m->hp.n_layer; i++) {
        const struct qw_mat *mats[] = {&m->head, NULL, NULL, NULL};
        if (i >= 0) {
            mats[0] = &m->layer[i].in, mats[1] = &m->layer[i].out;
            mats[2] = &m->layer[i].gate_up, mats[3] = &m->layer[i].down;
        }
        for (int k = 0; k < 4 && mats[k] != NULL; k++)
            for (int p = 0; p < mats[k]->n_parts; p++) {
                size_t tile = qw_pack_tile_bytes(mats[k]->part[p].layout, mats[k]->K);
                most = tile > most ? tile : most;
            }
    }
    return most;
}

int qw_model_load(struct qw_model *m, struct qw_dev *dev, bool show, struct qw_err *err)
{
    struct loader l = {.m = m, .err = err};
    const size_t tile = largest_tile(m);
    m->dev = dev;
    l.stage = qw_alloc(tile > STAGE ? tile : STAGE, 1);
    qw_progress_start(&l.progress, "loading", show);
    int rc = load_mat(&l, &m->embed);
    if (rc == QW_OK && !m->hp.tied)
        rc = load_mat(&l, &m->head);
    if (rc == QW_OK)
        rc = load_vector(&l, -1, "output_norm.weight", 0, &m->out_norm);
    for (int i = 0; rc == QW_OK && i < m->hp.n_layer; i++)
        rc = load_layer(&l, i);
    qw_progress_end(&l.progress);
    free(l.stage);
    return rc == QW_OK ? qw_gguf_unchanged(m->file, err) : rc;
}

/* ---- closing ---- */

static void close_mat(struct qw_dev *dev, struct qw_mat *mat)
{
    for (int p = 0; p < mat->n_parts; p++) {
        for (int i = 0; i < mat->part[p].n_slabs; i++)
            if (mat->part[p].slab[i].buf != NULL)
                qw_dev_release(dev, &mat->part[p].slab[i].buf);
        free(mat->part[p].slab);
    }
}

void qw_model_close(struct qw_model *m)
{
    if (m == NULL)
        return;
    close_mat(m->dev, &m->embed);
    close_mat(m->dev, &m->head);
    for (int i = 0; m->layer != NULL && i < m->hp.n_layer; i++) {
        struct qw_layer *l = &m->layer[i];
        close_mat(m->dev, &l->in);
        close_mat(m->dev, &l->out);
        close_mat(m->dev, &l->gate_up);
        close_mat(m->dev, &l->down);
        cl_mem *v[] = {&l->attn_norm, &l->post_norm, &l->q_norm, &l->k_norm,
                       &l->conv,      &l->dt,        &l->a,      &l->ssm_norm};
        for (int k = 0; k < 8; k++)
            if (*v[k] != NULL)
                qw_dev_release(m->dev, v[k]);
    }
    if (m->out_norm != NULL)
        qw_dev_release(m->dev, &m->out_norm);
    free(m->layer);
    free(m);
}
