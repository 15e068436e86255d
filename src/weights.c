/* SPDX-License-Identifier: MIT */
#include "weights.h"

#include <stdlib.h>

#include "hparams.h"
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

int qw_weights_plan(struct qw_mat *m, const struct qw_gguf *g, int layer,
                    const char *const *suffix, int n, uint64_t max_alloc, uint64_t *bytes,
                    struct qw_err *err)
{
    const struct qw_gguf_tensor *t[QW_MAX_SIBLINGS] = {NULL};
    for (int i = 0; i < n; i++)
        t[i] = qw_tensor(g, layer, suffix[i]);
    return plan_mat(m, t, n, max_alloc, bytes, err);
}

/* ---- loading ---- */

void qw_loader_open(struct qw_loader *l, const struct qw_gguf *g,
                    const struct qw_kern *kern, struct qw_dev *dev,
                    const struct qw_pack_file *pack, struct qw_save_writer *to,
                    uint64_t total, bool show, struct qw_err *err)
{
    *l = (struct qw_loader){.file = g,
                            .kern = kern,
                            .dev = dev,
                            .pack = pack,
                            .to = to,
                            .total = total,
                            .err = err};
    qw_progress_start(&l->progress, to != NULL ? "packing" : "loading", show);
}

int qw_loader_close(struct qw_loader *l, int rc)
{
    qw_progress_end(&l->progress);
    free(l->stage);
    l->stage = NULL;
    return rc == QW_OK ? qw_gguf_unchanged(l->file, l->err) : rc;
}

/* Room for tiles of this size: STAGE bytes, or one tile where that is more. */
static void make_room(struct qw_loader *l, size_t tile)
{
    const size_t want = tile > STAGE ? tile : STAGE;
    if (want <= l->stage_size)
        return;
    free(l->stage);
    l->stage = qw_alloc(want, 1);
    l->stage_size = want;
}

/* The tensor that tile `at` of a part belongs to; *start: its first tile. */
static const struct qw_gguf_tensor *tensor_at(const struct qw_mat *mat,
                                              const struct qw_part *p, int at, int *start,
                                              int *tiles)
{
    int i = 0;
    *start = 0;
    *tiles = tiles_of((uint64_t)mat->rows[p->tensor[0]]);
    while (at >= *start + *tiles) {
        *start += *tiles;
        *tiles = tiles_of((uint64_t)mat->rows[p->tensor[++i]]);
    }
    return mat->tensor[p->tensor[i]];
}

/* Pack tiles [from, from + n) of a part, which may span several tensors, to the stage. */
static void pack_range(const struct qw_loader *l, const struct qw_mat *mat,
                       const struct qw_part *p, int from, int n)
{
    const enum qw_layout layout = qw_kern_layout(l->kern, p->layout, mat->K);
    const size_t tile = qw_pack_tile_bytes(layout, mat->K);
    unsigned char *stage = l->stage;
    for (int start, tiles, count; n > 0; from += count, n -= count) {
        const struct qw_gguf_tensor *t = tensor_at(mat, p, from, &start, &tiles);
        const struct qw_type_info *info = qw_type_info(t->type);
        const size_t row_bytes = (size_t)mat->K / info->block * info->bytes;
        const int first = from - start, left = (int)t->ne[1] - first * TILE;
        count = tiles - first < n ? tiles - first : n;
        qw_pack_tiles(layout, t->type,
                      (const unsigned char *)t->data + (size_t)first * TILE * row_bytes,
                      row_bytes, left < count * TILE ? left : count * TILE, mat->K, count,
                      stage);
        stage += tile * (size_t)count;
    }
}

/* Tiles [from, from + *n) of a part in the pack, or fewer: as far as they lie together.
 */
static const unsigned char *in_pack(const struct qw_loader *l, const struct qw_mat *mat,
                                    const struct qw_part *p, int from, int *n)
{
    const enum qw_layout layout = qw_kern_layout(l->kern, p->layout, mat->K);
    const size_t tile = qw_pack_tile_bytes(layout, mat->K);
    int start, tiles;
    const struct qw_gguf_tensor *t = tensor_at(mat, p, from, &start, &tiles);
    const unsigned char *at =
        qw_pack_tensor(l->pack, layout, t->name, tile * (uint64_t)tiles);
    *n = start + tiles - from < *n ? start + tiles - from : *n;
    return at != NULL ? at + tile * (size_t)(from - start) : NULL;
}

static int no_section(const struct qw_loader *l, const struct qw_gguf_tensor *t)
{
    return qw_fail(l->err, QW_EFILE, "the pack file has no %.*s as this program packs it",
                   (int)t->name.len, t->name.data);
}

/* Whether the pack has all of a matrix. */
static int look(const struct qw_loader *l, const struct qw_mat *mat)
{
    for (int p = 0; p < mat->n_parts; p++)
        for (int at = 0, n; at < mat->part[p].tiles; at += n) {
            int start, tiles;
            n = mat->part[p].tiles;
            if (in_pack(l, mat, &mat->part[p], at, &n) == NULL)
                return no_section(l, tensor_at(mat, &mat->part[p], at, &start, &tiles));
        }
    return QW_OK;
}

/* A matrix's tensors to sections of the pack. */
static int write_mat(struct qw_loader *l, const struct qw_mat *mat)
{
    int rc = QW_OK;
    for (int p = 0; p < mat->n_parts; p++) {
        const struct qw_part *part = &mat->part[p];
        const enum qw_layout layout = qw_kern_layout(l->kern, part->layout, mat->K);
        const size_t tile = qw_pack_tile_bytes(layout, mat->K);
        make_room(l, tile);
        const int step = tile < STAGE ? (int)(STAGE / tile) : 1;
        for (int at = 0, start, tiles; rc == QW_OK && at < part->tiles;
             at = start + tiles) {
            const struct qw_gguf_tensor *t = tensor_at(mat, part, at, &start, &tiles);
            rc = qw_pack_begin(l->to, layout, t->name, l->err);
            for (int i = 0; rc == QW_OK && i < tiles; i += step) {
                const int n = tiles - i < step ? tiles - i : step;
                pack_range(l, mat, part, start + i, n);
                rc = qw_save_append(l->to, l->stage, tile * (uint64_t)n, l->err);
                l->done += tile * (uint64_t)n;
                qw_progress_step(&l->progress, l->done, l->total);
            }
            if (rc == QW_OK)
                rc = qw_save_end(l->to, l->err);
        }
    }
    return rc;
}

static int load_mat(struct qw_loader *l, struct qw_mat *mat)
{
    struct qw_dev *dev = l->dev;
    int rc = QW_OK;
    for (int p = 0; p < mat->n_parts; p++) {
        struct qw_part *part = &mat->part[p];
        const size_t tile = qw_pack_tile_bytes(part->layout, mat->K);
        if (l->pack == NULL)
            make_room(l, tile);
        const int step = tile < STAGE ? (int)(STAGE / tile) : 1;
        for (int i = 0; rc == QW_OK && i < part->n_slabs; i++) {
            struct qw_slab *s = &part->slab[i];
            rc = qw_dev_buffer_raw(dev, s->bytes, "weights", &s->buf, l->err);
            for (int t = 0, n; rc == QW_OK && t < s->tiles; t += n) {
                const unsigned char *from = l->stage;
                n = s->tiles - t < step ? s->tiles - t : step;
                if (l->pack != NULL)
                    from = in_pack(l, mat, part, s->tile0 + t, &n);
                else
                    pack_range(l, mat, part, s->tile0 + t, n);
                if (from == NULL)
                    return look(l, mat);
                rc = qw_dev_write(dev, s->buf, tile * (uint64_t)t, from,
                                  tile * (uint64_t)n, true, l->err);
                l->done += tile * (uint64_t)n;
                qw_progress_step(&l->progress, l->done, l->total);
            }
        }
    }
    return rc;
}

int qw_loader_mat(struct qw_loader *l, struct qw_mat *mat)
{
    if (l->dev == NULL && l->to == NULL)
        return look(l, mat);
    int rc = l->to != NULL ? write_mat(l, mat) : load_mat(l, mat);
    for (int i = 0; i < mat->n_tensors; i++)
        qw_gguf_release_pages(l->file, mat->tensor[i]->data, mat->tensor[i]->size);
    return rc;
}

int qw_loader_vector(struct qw_loader *l, int layer, const char *suffix, int taps,
                     cl_mem *out)
{
    const struct qw_gguf_tensor *t = qw_tensor(l->file, layer, suffix);
    const size_t n = (size_t)(t->ne[0] * t->ne[1]), size = n * sizeof(float);
    if (l->dev == NULL)
        return QW_OK; /* a pack has matrices alone */
    float *f = qw_alloc(2 * n, sizeof(float)), *v = f;
    qw_decode(t->type, t->data, f, n);
    if (taps > 0) {
        v = f + n;
        for (size_t i = 0; i < n; i++)
            v[i % (size_t)taps * (n / (size_t)taps) + i / (size_t)taps] = f[i];
    }
    int rc = qw_dev_buffer_raw(l->dev, size, "weights", out, l->err);
    if (rc == QW_OK)
        rc = qw_dev_write(l->dev, *out, 0, v, size, true, l->err);
    free(f);
    l->done += size;
    return rc;
}

/* ---- closing ---- */

void qw_weights_close(struct qw_dev *dev, struct qw_mat *mat)
{
    for (int p = 0; p < mat->n_parts; p++) {
        for (int i = 0; i < mat->part[p].n_slabs; i++)
            qw_dev_release(dev, &mat->part[p].slab[i].buf);
        free(mat->part[p].slab);
    }
}
