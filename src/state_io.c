/* SPDX-License-Identifier: MIT */
#include "state_io.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cycle.h"
#include "hash.h"

/* The numbers of a state, in the order of the section "state". */
enum { LAYERS, FULL, KV_HEADS, HEAD, KV_BITS, S_BYTES, ROW_BYTES, TAPS, POS, N_NUMBERS };
static const char *const number_name[N_NUMBERS] = {[LAYERS] = "layers",
                                                   [FULL] = "full-attention layers",
                                                   [KV_HEADS] = "KV heads",
                                                   [HEAD] = "head size",
                                                   [KV_BITS] = "bits of the cache",
                                                   [S_BYTES] = "bytes of GDN state",
                                                   [ROW_BYTES] = "bytes of a history row",
                                                   [TAPS] = "convolution taps",
                                                   [POS] = "positions"};

static uint64_t u(int n)
{
    return (uint64_t)n;
}

static bool is_full(const struct qw_state *s, int layer)
{
    return s->S[layer] == NULL;
}

static void numbers_of(const struct qw_state *s, uint64_t v[N_NUMBERS])
{
    v[LAYERS] = u(s->n_layer);
    v[FULL] = 0;
    for (int i = 0; i < s->n_layer; i++)
        v[FULL] += is_full(s, i);
    v[KV_HEADS] = u(s->attn.kv_heads);
    v[HEAD] = u(s->attn.hd);
    v[KV_BITS] = u(s->kv_bits);
    v[S_BYTES] = s->s_bytes;
    v[ROW_BYTES] = s->ring_bytes / QW_CONV_RING;
    v[TAPS] = u(s->taps);
    v[POS] = u(s->pos);
}

/* As they stand in files and digests. */
static void encode(const uint64_t v[N_NUMBERS], unsigned char b[8 * N_NUMBERS])
{
    for (int i = 0; i < 8 * N_NUMBERS; i++)
        b[i] = (unsigned char)(v[i / 8] >> i % 8 * 8);
}

static void decode(const unsigned char b[8 * N_NUMBERS], uint64_t v[N_NUMBERS])
{
    memset(v, 0, N_NUMBERS * sizeof(*v));
    for (int i = 0; i < 8 * N_NUMBERS; i++)
        v[i / 8] |= (uint64_t)b[i] << i % 8 * 8;
}

struct qw_kv_span qw_state_span(const struct qw_state *s, int layer, int last)
{
    return (struct qw_kv_span){.kv_heads = s->attn.kv_heads,
                               .hd = s->attn.hd,
                               .kv_bits = s->kv_bits,
                               .page = &s->page[layer * s->n_pages],
                               .n_pages = s->n_pages,
                               .slots = s->page[layer * s->n_pages + s->n_pages - 1].p1,
                               .last = last};
}

/* The history rows that the convolution of position pos reads, oldest first. */
struct history {
    int first, n;
    uint64_t row;
};

static struct history history_of(const struct qw_state *s, int pos)
{
    const int n = pos < s->taps - 1 ? pos : s->taps - 1;
    return (struct history){pos - n, n, s->ring_bytes / QW_CONV_RING};
}

static uint64_t ring_at(const struct history *h, int i)
{
    return u((h->first + i) % QW_CONV_RING) * h->row;
}

/* ---- to a file, to a digest ---- */

struct sink {
    struct qw_save_writer *w; /* one of the two */
    struct qw_hash *hash;
};

static int put(void *arg, const void *data, uint64_t bytes, struct qw_err *err)
{
    struct sink *k = arg;
    if (k->w != NULL)
        return qw_save_append(k->w, data, bytes, err);
    qw_hash_add(k->hash, data, (size_t)bytes);
    return QW_OK;
}

static int begin(struct sink *k, const char *what, int layer, struct qw_err *err)
{
    char name[QW_SAVE_NAME];
    snprintf(name, sizeof(name), "%s.%d", what, layer);
    return k->w != NULL ? qw_save_begin(k->w, name, err) : QW_OK;
}

static int end(struct sink *k, struct qw_err *err)
{
    return k->w != NULL ? qw_save_end(k->w, err) : QW_OK;
}

static int put_piece(struct sink *k, struct qw_dev *d, cl_mem buf, uint64_t at,
                     unsigned char *piece, uint64_t bytes, struct qw_err *err)
{
    int rc = qw_dev_read(d, buf, at, piece, bytes, err);
    return rc == QW_OK ? put(k, piece, bytes, err) : rc;
}

static int put_gdn(struct sink *k, const struct qw_state *s, int i, struct qw_err *err)
{
    const struct history h = history_of(s, s->pos);
    const uint64_t most = (uint64_t)4 << 20;
    unsigned char *piece = qw_alloc(1, h.row > most ? h.row : most);
    int rc = begin(k, "s", i, err);
    for (uint64_t at = 0, n; rc == QW_OK && at < s->s_bytes; at += n) {
        n = s->s_bytes - at < most ? s->s_bytes - at : most;
        rc = put_piece(k, s->dev, s->S[i], at, piece, n, err);
    }
    if (rc == QW_OK)
        rc = end(k, err);
    if (rc == QW_OK)
        rc = begin(k, "conv", i, err);
    for (int j = 0; rc == QW_OK && j < h.n; j++)
        rc = put_piece(k, s->dev, s->ring[i], ring_at(&h, j), piece, h.row, err);
    free(piece);
    return rc == QW_OK ? end(k, err) : rc;
}

static int put_cache(struct sink *k, const struct qw_state *s, int i, struct qw_err *err)
{
    const struct qw_kv_span span = qw_state_span(s, i, s->pos);
    int rc = begin(k, "kv", i, err);
    if (rc == QW_OK)
        rc = qw_kv_span_read(s->dev, &span, put, k, err);
    return rc == QW_OK ? end(k, err) : rc;
}

static int put_state(struct sink *k, const struct qw_state *s, struct qw_err *err)
{
    int rc = QW_OK;
    for (int i = 0; rc == QW_OK && i < s->n_layer; i++)
        rc = is_full(s, i) ? put_cache(k, s, i, err) : put_gdn(k, s, i, err);
    return rc;
}

int qw_state_write(const struct qw_state *s, struct qw_save_writer *w, struct qw_err *err)
{
    struct sink k = {.w = w};
    uint64_t v[N_NUMBERS];
    unsigned char b[8 * N_NUMBERS];
    assert(s->pos == s->stored);
    numbers_of(s, v);
    encode(v, b);
    int rc = qw_save_add(w, "state", b, sizeof(b), err);
    return rc == QW_OK ? put_state(&k, s, err) : rc;
}

int qw_state_digest(const struct qw_state *s, char hex[65], struct qw_err *err)
{
    struct sink k = {.hash = qw_hash_open()};
    uint64_t v[N_NUMBERS];
    unsigned char b[8 * N_NUMBERS], md[QW_HASH_BYTES];
    assert(s->pos == s->stored);
    numbers_of(s, v);
    encode(v, b);
    qw_hash_add(k.hash, b, sizeof(b));
    int rc = put_state(&k, s, err);
    if (!qw_hash_end(k.hash, md) && rc == QW_OK)
        rc = qw_fail(err, QW_EFAIL, "SHA-256 failed in libcrypto");
    if (rc == QW_OK)
        qw_hash_hex(md, hex);
    return rc;
}

/* ---- from a file ---- */

/* The view of a layer's section, which must have `bytes`. */
static int layer_section(const struct qw_save_reader *r, const char *what, int layer,
                         uint64_t bytes, const unsigned char **data, struct qw_err *err)
{
    char name[QW_SAVE_NAME];
    const void *view;
    uint64_t got;
    snprintf(name, sizeof(name), "%s.%d", what, layer);
    int rc = qw_save_section(r, name, &view, &got, err);
    if (rc != QW_OK)
        return rc;
    if (got != bytes)
        return qw_fail(
            err, QW_EFILE, "%s: section %s has %llu bytes, this session's %llu",
            qw_save_name(r), name, (unsigned long long)got, (unsigned long long)bytes);
    *data = view;
    return QW_OK;
}

struct layer_views {
    const unsigned char *kv, *S, *conv;
};

static int find_layer(const struct qw_state *s, const struct qw_save_reader *r, int i,
                      int pos, struct layer_views *v, struct qw_err *err)
{
    const struct history h = history_of(s, pos);
    if (is_full(s, i)) {
        const struct qw_kv_span span = qw_state_span(s, i, pos);
        return layer_section(r, "kv", i, qw_kv_span_bytes(&span), &v->kv, err);
    }
    int rc = layer_section(r, "s", i, s->s_bytes, &v->S, err);
    return rc == QW_OK ? layer_section(r, "conv", i, u(h.n) * h.row, &v->conv, err) : rc;
}

static int read_layer(struct qw_state *s, const struct layer_views *v, int i, int pos,
                      struct qw_err *err)
{
    if (is_full(s, i)) {
        const struct qw_kv_span span = qw_state_span(s, i, pos);
        return qw_kv_span_write(s->dev, &span, v->kv, err);
    }
    const struct history h = history_of(s, pos);
    int rc = qw_dev_write(s->dev, s->S[i], 0, v->S, s->s_bytes, true, err);
    for (int j = 0; rc == QW_OK && j < h.n; j++)
        rc = qw_dev_write(s->dev, s->ring[i], ring_at(&h, j), v->conv + u(j) * h.row,
                          h.row, true, err);
    return rc;
}

int qw_state_check(const struct qw_state *s, const struct qw_save_reader *r, int *pos,
                   struct qw_err *err)
{
    uint64_t want[N_NUMBERS], got[N_NUMBERS], bytes;
    const void *view;
    int rc = qw_save_section(r, "state", &view, &bytes, err);
    if (rc != QW_OK)
        return rc;
    if (bytes != sizeof(got))
        return qw_fail(err, QW_EFILE, "%s: section state has %llu bytes instead of %d",
                       qw_save_name(r), (unsigned long long)bytes, 8 * N_NUMBERS);
    decode(view, got);
    numbers_of(s, want);
    for (int i = 0; i < POS; i++)
        if (got[i] != want[i])
            return qw_fail(err, QW_EFILE,
                           "%s: %s: %llu in the file, %llu in this session",
                           qw_save_name(r), number_name[i], (unsigned long long)got[i],
                           (unsigned long long)want[i]);
    if (got[POS] > u(s->context))
        return qw_fail(
            err, QW_EFILE, "%s: %s: %llu in the file, more than the context of %d",
            qw_save_name(r), number_name[POS], (unsigned long long)got[POS], s->context);
    *pos = (int)got[POS];
    return QW_OK;
}

/* A state that was overwritten in part is of no use: back to position 0. */
static void give_up(struct qw_state *s)
{
    struct qw_err second; /* the first one is the cause */
    qw_state_reset(s, &second);
}

int qw_state_read(struct qw_state *s, const struct qw_save_reader *r, struct qw_err *err)
{
    struct layer_views *v = qw_alloc((size_t)s->n_layer, sizeof(*v));
    int pos = 0;
    int rc = qw_state_check(s, r, &pos, err);
    for (int i = 0; rc == QW_OK && i < s->n_layer; i++)
        rc = find_layer(s, r, i, pos, &v[i], err);
    if (rc != QW_OK) {
        free(v);
        return rc;
    }
    for (int i = 0; rc == QW_OK && i < s->n_layer; i++)
        rc = read_layer(s, &v[i], i, pos, err);
    free(v);
    if (rc == QW_OK)
        s->pos = s->stored = pos;
    else
        give_up(s);
    return rc;
}

/* ---- to another session ---- */

static int check_copy(const struct qw_state *dst, const struct qw_state *src,
                      struct qw_err *err)
{
    uint64_t to[N_NUMBERS], from[N_NUMBERS];
    numbers_of(dst, to);
    numbers_of(src, from);
    for (int i = 0; i < POS; i++)
        if (to[i] != from[i])
            return qw_fail(
                err, QW_EUSAGE, "fork: %s: %llu in one session, %llu in the other",
                number_name[i], (unsigned long long)from[i], (unsigned long long)to[i]);
    for (int i = 0; i < src->n_layer; i++)
        if (is_full(dst, i) != is_full(src, i))
            return qw_fail(err, QW_EUSAGE, "fork: layer %d is of another kind", i);
    return src->pos <= dst->context
               ? QW_OK
               : qw_fail(err, QW_EUSAGE,
                         "fork: %d positions, more than the context of %d", src->pos,
                         dst->context);
}

static int copy_layer(struct qw_state *dst, const struct qw_state *src, int i,
                      struct qw_err *err)
{
    if (is_full(src, i)) {
        const struct qw_kv_span to = qw_state_span(dst, i, src->pos);
        const struct qw_kv_span from = qw_state_span(src, i, src->pos);
        return qw_kv_span_copy(src->dev, &to, &from, err);
    }
    int rc = qw_dev_copy(src->dev, dst->S[i], 0, src->S[i], 0, src->s_bytes, err);
    return rc == QW_OK ? qw_dev_copy(src->dev, dst->ring[i], 0, src->ring[i], 0,
                                     src->ring_bytes, err)
                       : rc;
}

int qw_state_copy(struct qw_state *dst, const struct qw_state *src, struct qw_err *err)
{
    assert(src->pos == src->stored && dst->dev == src->dev && dst != src);
    int rc = check_copy(dst, src, err);
    if (rc != QW_OK)
        return rc;
    for (int i = 0; rc == QW_OK && i < src->n_layer; i++)
        rc = copy_layer(dst, src, i, err);
    if (rc == QW_OK)
        rc = qw_dev_finish(src->dev, err);
    if (rc == QW_OK)
        dst->pos = dst->stored = src->pos;
    else
        give_up(dst);
    return rc;
}
