/* SPDX-License-Identifier: MIT */
/* ngram.c - prompt lookup (Saxena 2023): the last tokens are looked for earlier in the
 * text, longest match first, the latest of equal ones; what followed there is the draft.
 * A hash chain per match length makes a step cost what the longest chain costs, not the
 * length of the text. */
#include <stdlib.h>
#include <string.h>

#include "cycle.h"
#include "drafter.h"

enum {
    SHORTEST = 2, /* tokens that must match: a single one says nothing */
    LONGEST = 4,
    SIZES = LONGEST - SHORTEST + 1,
    BUCKETS = 1 << 12,
    LOOK = 64 /* places of a chain that are looked at */
};

struct ngram {
    struct qw_drafter d;
    int n_min;
    int32_t *id; /* the tokens indexed so far */
    size_t n, cap;
    int32_t head[SIZES][BUCKETS]; /* end of the latest match, or -1 */
    int32_t *before[SIZES];       /* [cap] the one before it in its chain */
    int32_t block[QW_DRAFT_IDS + QW_MAX_DRAFT];
};

static unsigned bucket(const int32_t *id, int n)
{
    uint32_t h = 2166136261u;
    for (int i = 0; i < n; i++)
        h = (h ^ (uint32_t)id[i]) * 16777619u;
    return (h ^ h >> 15) % BUCKETS;
}

static void forget(struct qw_drafter *base, size_t pos)
{
    struct ngram *g = (struct ngram *)base;
    if (pos >= g->n)
        return;
    g->n = 0; /* indexed anew when next asked */
    for (int s = 0; s < SIZES; s++)
        for (int b = 0; b < BUCKETS; b++)
            g->head[s][b] = -1;
}

/* Index id[g->n .. n): position e ends the match of s tokens before it. */
static void index_up_to(struct ngram *g, const int32_t *id, size_t n)
{
    if (n > g->cap) {
        g->cap = 2 * n;
        g->id = qw_realloc(g->id, g->cap, sizeof(*g->id));
        for (int s = 0; s < SIZES; s++)
            g->before[s] = qw_realloc(g->before[s], g->cap, sizeof(int32_t));
    }
    for (size_t e = g->n; e < n; e++) {
        g->id[e] = id[e];
        for (int s = 0; s < SIZES; s++)
            if (e + 1 >= (size_t)(s + SHORTEST)) {
                const unsigned b = bucket(g->id + e + 1 - (s + SHORTEST), s + SHORTEST);
                g->before[s][e] = g->head[s][b];
                g->head[s][b] = (int32_t)e;
            }
    }
    g->n = n;
}

/* The latest place e < n - 1 where id[e - size + 1 .. e] equals the last size tokens. */
static int32_t look_up(const struct ngram *g, int size)
{
    const int s = size - SHORTEST;
    const int32_t *tail = g->id + g->n - size;
    if (g->n < (size_t)size + 1)
        return -1;
    int32_t e = g->head[s][bucket(tail, size)];
    for (int k = 0; e >= 0 && k < LOOK; k++, e = g->before[s][e])
        if ((size_t)e + 1 < g->n &&
            memcmp(g->id + e + 1 - size, tail, (size_t)size * sizeof(*tail)) == 0)
            return e;
    return -1;
}

static int propose(struct qw_drafter *base, const int32_t *id, size_t n, int *count,
                   struct qw_err *err)
{
    struct ngram *g = (struct ngram *)base;
    int32_t e = -1;
    index_up_to(g, id, n);
    for (int size = LONGEST; e < 0 && size >= SHORTEST; size--)
        e = look_up(g, size);
    const size_t follow = e < 0 ? 0 : g->n - 1 - (size_t)e;
    *count = follow < (size_t)base->n_max ? (int)follow : base->n_max;
    if (*count < g->n_min)
        *count = 0;
    if (*count == 0)
        return QW_OK;
    g->block[QW_DRAFT_COUNT] = *count;
    memcpy(g->block + QW_DRAFT_IDS, g->id + e + 1, (size_t)*count * sizeof(*id));
    return qw_dev_write(qw_target_dev(base->target), qw_target_draft(base->target), 0,
                        g->block, 4 * (uint64_t)(QW_DRAFT_IDS + *count), false, err);
}

static void close_ngram(struct qw_drafter *base)
{
    struct ngram *g = (struct ngram *)base;
    for (int s = 0; s < SIZES; s++)
        free(g->before[s]);
    free(g->id);
    free(g);
}

static const struct qw_drafter_ops ops = {
    .name = "ngram", .propose = propose, .rewind = forget, .close = close_ngram};

int qw_ngram_open(struct qw_drafter **out, struct qw_target *t,
                  const struct qw_draft_params *p, struct qw_err *err)
{
    struct ngram *g = qw_alloc(1, sizeof(*g));
    (void)err;
    g->d = (struct qw_drafter){.ops = &ops, .target = t, .n_max = p->n_max};
    g->n_min = p->n_min;
    g->n = 1;
    forget(&g->d, 0);
    *out = &g->d;
    return QW_OK;
}
