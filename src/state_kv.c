/* SPDX-License-Identifier: MIT */
#include "state_kv.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "cycle.h"

enum { PIECE = 4 << 20, MAX_PLANES = 4 };

/* One array of a page: [head][position][bytes], or, tiled, [head][tile][lines][16]. */
struct plane {
    bool v, scales;
    int unit;          /* positions that lie side by side: 1, or a tile of 16 */
    uint64_t elem;     /* bytes of a number */
    uint64_t position; /* bytes of a head's position */
};

/* Positions [from, to) of a head in one piece of one buffer. */
struct run {
    cl_mem buf;
    uint64_t at, bytes;
    int from, to;
};

static uint64_t u(int n)
{
    return (uint64_t)n;
}

static int planes(const struct qw_kv_span *s, struct plane p[MAX_PLANES])
{
    int n = 0;
    for (int v = 0; v < 2; v++) {
        const int unit = v ? 1 : QW_KV_TILE;
        const uint64_t elem = u(s->kv_bits) / 8;
        p[n++] = (struct plane){v, false, unit, elem, u(s->hd) * elem};
        if (s->kv_bits == 8)
            p[n++] = (struct plane){v, true, unit, 2, u(s->hd) / 32 * 2};
    }
    return n;
}

/* Where a plane's stream starts and ends: on whole units. */
static int start_of(const struct qw_kv_span *s, const struct plane *p)
{
    return s->first / p->unit * p->unit;
}

static int end_of(const struct qw_kv_span *s, const struct plane *p)
{
    return (s->last + p->unit - 1) / p->unit * p->unit;
}

uint64_t qw_kv_span_bytes(const struct qw_kv_span *s)
{
    struct plane p[MAX_PLANES];
    uint64_t bytes = 0;
    const int n = planes(s, p);
    for (int i = 0; i < n; i++)
        bytes +=
            u(s->kv_heads) * u(end_of(s, &p[i]) - start_of(s, &p[i])) * p[i].position;
    return bytes;
}

/* The longest run from position `from`, the start of a unit, up to `to`. */
static struct run locate(const struct qw_kv_span *s, const struct plane *p, int head,
                         int from, int to)
{
    const int slot = from % s->slots;
    const struct qw_kv_page *g = s->page;
    while (g->p1 <= slot)
        g++;
    assert(g < s->page + s->n_pages && g->p0 <= slot);
    const int positions = g->p1 - g->p0, end = g->p1 < s->slots ? g->p1 : s->slots;
    const int units = (int)(PIECE / (u(p->unit) * p->position));
    const int most = (units > 0 ? units : 1) * p->unit;
    struct run r = {.buf = p->v ? g->v : g->k, .from = from, .to = from + (end - slot)};
    if (r.to - from > most)
        r.to = from + most;
    if (r.to > to)
        r.to = to;
    /* the scales stand behind all heads' numbers */
    r.at = p->scales ? u(s->kv_heads) * u(positions) * u(s->hd) : 0;
    r.at += (u(head) * u(positions) + u(slot - g->p0)) * p->position;
    r.bytes = u(r.to - r.from) * p->position;
    return r;
}

static void check_span(const struct qw_kv_span *s)
{
    assert(s->slots % QW_ATTN_BLOCK == 0 && s->first >= 0 && s->first <= s->last &&
           s->last - s->first <= s->slots);
}

/* Visit the runs in the order of the stream; data walks along. */
typedef int visit_run(struct qw_dev *d, const struct qw_kv_span *s, const struct plane *p,
                      const struct run *r, void *arg, struct qw_err *err);

static int each_run(struct qw_dev *d, const struct qw_kv_span *s, visit_run *visit,
                    void *arg, struct qw_err *err)
{
    struct plane p[MAX_PLANES];
    const int n = planes(s, p);
    int rc = QW_OK;
    check_span(s);
    for (int i = 0; i < n; i++)
        for (int head = 0; head < s->kv_heads; head++)
            for (int at = start_of(s, &p[i]), end = end_of(s, &p[i]);
                 rc == QW_OK && at < end;) {
                const struct run r = locate(s, &p[i], head, at, end);
                rc = visit(d, s, &p[i], &r, arg, err);
                at = r.to;
            }
    return rc;
}

/* ---- read ---- */

struct reading {
    qw_kv_put *put;
    void *arg;
    unsigned char *piece;
    uint64_t room;
};

/* Is a position of the tile at `tile` one that was asked for? */
static bool wanted(const struct qw_kv_span *s, int tile, int lane)
{
    return tile + lane >= s->first && tile + lane < s->last;
}

/* Zero what a tile holds of other positions. */
static void clear_others(const struct qw_kv_span *s, const struct plane *p, int tile,
                         unsigned char *data)
{
    const uint64_t lines = p->position / p->elem;
    for (int lane = 0; lane < QW_KV_TILE; lane++)
        for (uint64_t i = 0; !wanted(s, tile, lane) && i < lines; i++)
            memset(data + (i * QW_KV_TILE + u(lane)) * p->elem, 0, p->elem);
}

static void make_room(unsigned char **piece, uint64_t *room, uint64_t bytes)
{
    if (bytes > *room) {
        *piece = qw_realloc(*piece, bytes, 1);
        *room = bytes;
    }
}

static int read_run(struct qw_dev *d, const struct qw_kv_span *s, const struct plane *p,
                    const struct run *r, void *arg, struct qw_err *err)
{
    struct reading *g = arg;
    make_room(&g->piece, &g->room, r->bytes);
    int rc = qw_dev_read(d, r->buf, r->at, g->piece, r->bytes, err);
    if (rc != QW_OK)
        return rc;
    for (int at = r->from; p->unit > 1 && at < r->to; at += p->unit)
        if (at < s->first || at + p->unit > s->last)
            clear_others(s, p, at, g->piece + u(at - r->from) * p->position);
    return g->put(g->arg, g->piece, r->bytes, err);
}

int qw_kv_span_read(struct qw_dev *d, const struct qw_kv_span *s, qw_kv_put *put,
                    void *arg, struct qw_err *err)
{
    struct reading g = {.put = put, .arg = arg};
    int rc = each_run(d, s, read_run, &g, err);
    free(g.piece);
    return rc;
}

/* ---- write ---- */

struct writing {
    const unsigned char *stream;
    unsigned char *tile;
    uint64_t room;
};

/* A tile of which some positions stay as they are: another position of a ring may stand
 * there. */
static int write_part(struct qw_dev *d, const struct qw_kv_span *s, const struct plane *p,
                      int tile, const struct run *r, struct writing *g,
                      struct qw_err *err)
{
    const uint64_t skip = u(tile - r->from) * p->position;
    const uint64_t bytes = u(QW_KV_TILE) * p->position, lines = p->position / p->elem;
    make_room(&g->tile, &g->room, bytes);
    int rc = qw_dev_read(d, r->buf, r->at + skip, g->tile, bytes, err);
    if (rc != QW_OK)
        return rc;
    for (int lane = 0; lane < QW_KV_TILE; lane++)
        for (uint64_t i = 0; wanted(s, tile, lane) && i < lines; i++) {
            const uint64_t at = (i * QW_KV_TILE + u(lane)) * p->elem;
            memcpy(g->tile + at, g->stream + skip + at, p->elem);
        }
    return qw_dev_write(d, r->buf, r->at + skip, g->tile, bytes, true, err);
}

static int write_run(struct qw_dev *d, const struct qw_kv_span *s, const struct plane *p,
                     const struct run *r, void *arg, struct qw_err *err)
{
    struct writing *g = arg;
    int from = r->from, to = r->to, rc = QW_OK;
    if (p->unit > 1 && from < s->first) { /* the first tile is not whole */
        rc = write_part(d, s, p, from, r, g, err);
        from += p->unit;
    }
    if (rc == QW_OK && p->unit > 1 && to > s->last && to > from) { /* nor the last */
        to -= p->unit;
        rc = write_part(d, s, p, to, r, g, err);
    }
    const uint64_t skip = u(from - r->from) * p->position;
    if (rc == QW_OK && to > from)
        rc = qw_dev_write(d, r->buf, r->at + skip, g->stream + skip,
                          u(to - from) * p->position, true, err);
    g->stream += r->bytes;
    return rc;
}

int qw_kv_span_write(struct qw_dev *d, const struct qw_kv_span *s, const void *stream,
                     struct qw_err *err)
{
    struct writing g = {.stream = stream};
    int rc = each_run(d, s, write_run, &g, err);
    free(g.tile);
    return rc;
}

/* ---- copy ---- */

static int copy_head(struct qw_dev *d, const struct qw_kv_span *dst,
                     const struct qw_kv_span *src, const struct plane *p, int head,
                     struct qw_err *err)
{
    int rc = QW_OK;
    for (int at = start_of(src, p), end = end_of(src, p); rc == QW_OK && at < end;) {
        const struct run from = locate(src, p, head, at, end);
        const struct run to = locate(dst, p, head, at, from.to);
        rc = qw_dev_copy(d, to.buf, to.at, from.buf, from.at, to.bytes, err);
        at = to.to;
    }
    return rc;
}

int qw_kv_span_copy(struct qw_dev *d, const struct qw_kv_span *dst,
                    const struct qw_kv_span *src, struct qw_err *err)
{
    struct plane p[MAX_PLANES];
    const int n = planes(src, p);
    int rc = QW_OK;
    check_span(src);
    assert(dst->kv_heads == src->kv_heads && dst->hd == src->hd &&
           dst->kv_bits == src->kv_bits && dst->slots % QW_ATTN_BLOCK == 0);
    /* whole tiles are copied: right where both rings put the same positions into one */
    assert(dst->slots == src->slots ||
           (src->last <= dst->slots && src->last <= src->slots));
    for (int i = 0; i < n; i++)
        for (int head = 0; rc == QW_OK && head < src->kv_heads; head++)
            rc = copy_head(d, dst, src, &p[i], head, err);
    return rc;
}
