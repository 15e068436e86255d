/* SPDX-License-Identifier: MIT */
#include "tok_special.h"

#include <stdlib.h>
#include <string.h>

/* Sorted by text, so that all tokens with a common beginning are neighbours. */
struct entry {
    struct qw_str text;
    int32_t id;
};
struct qw_special {
    struct entry *entry;
    size_t n;
    size_t first[257]; /* entries that begin with byte c: first[c] to first[c + 1] */
};

static int by_text(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    size_t n = x->text.len < y->text.len ? x->text.len : y->text.len;
    int c = memcmp(x->text.data, y->text.data, n);
    if (c != 0)
        return c;
    if (x->text.len != y->text.len)
        return x->text.len < y->text.len ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

struct qw_special *qw_special_new(const struct qw_str *text, const int32_t *id, size_t n)
{
    struct qw_special *s = qw_alloc(1, sizeof(*s));
    s->entry = qw_alloc(n, sizeof(*s->entry));
    for (size_t i = 0; i < n; i++)
        if (text[i].len > 0)
            s->entry[s->n++] = (struct entry){text[i], id[i]};
    qsort(s->entry, s->n, sizeof(*s->entry), by_text);
    size_t kept = 0; /* of equal texts the lowest id */
    for (size_t i = 0; i < s->n; i++)
        if (kept == 0 || s->entry[kept - 1].text.len != s->entry[i].text.len ||
            memcmp(s->entry[kept - 1].text.data, s->entry[i].text.data,
                   s->entry[i].text.len) != 0)
            s->entry[kept++] = s->entry[i];
    s->n = kept;
    for (size_t i = 0; i < s->n; i++)
        s->first[(unsigned char)s->entry[i].text.data[0] + 1]++;
    for (int c = 1; c < 257; c++)
        s->first[c] += s->first[c - 1];
    return s;
}

void qw_special_free(struct qw_special *s)
{
    if (s == NULL)
        return;
    free(s->entry);
    free(s);
}

/* Of the entries [lo, hi), which agree before place d and are longer: the first whose
 * byte there is at least c. */
static size_t lower_bound(const struct qw_special *s, size_t lo, size_t hi, size_t d,
                          unsigned c)
{
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if ((unsigned char)s->entry[mid].text.data[d] < c)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void add_match(struct qw_matches *m, struct qw_match x)
{
    if (m->n == m->cap) {
        m->cap = m->cap ? m->cap * 2 : 16;
        m->at = qw_realloc(m->at, m->cap, sizeof(*m->at));
    }
    m->at[m->n++] = x;
}

/* Every token whose text begins at start and ends by end. */
static void match_at(const struct qw_special *s, const char *text, size_t start,
                     size_t end, struct qw_matches *m)
{
    unsigned c = (unsigned char)text[start];
    size_t lo = s->first[c], hi = s->first[c + 1];
    for (size_t d = 1; lo < hi; d++) {
        if (s->entry[lo].text.len == d) {
            add_match(m, (struct qw_match){start, d, s->entry[lo].id});
            lo++;
        }
        if (lo == hi || start + d == end)
            break;
        c = (unsigned char)text[start + d];
        lo = lower_bound(s, lo, hi, d, c);
        hi = lower_bound(s, lo, hi, d, c + 1);
    }
}

int32_t qw_special_id(const struct qw_special *s, const char *text, size_t len)
{
    struct entry key = {{text, len}, -1}; /* -1: before any entry of the same text */
    size_t lo = 0, hi = s->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (by_text(&s->entry[mid], &key) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    bool same = lo < s->n && s->entry[lo].text.len == len &&
                memcmp(s->entry[lo].text.data, text, len) == 0;
    return same ? s->entry[lo].id : -1;
}

static int by_turn(const void *a, const void *b) /* the order in which tokens cut */
{
    const struct qw_match *x = a, *y = b;
    if (x->len != y->len)
        return x->len > y->len ? -1 : 1;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    return x->start < y->start ? -1 : x->start > y->start;
}

static int by_start(const void *a, const void *b)
{
    const struct qw_match *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

static bool is_set(const unsigned char *bits, size_t i)
{
    return bits[i / 8] >> (i % 8) & 1;
}

/* Keep those that do not touch one whose turn came earlier. The earlier one is at least
 * as long, so it covers an end of the later one if it touches it at all. */
static void resolve(size_t len, struct qw_matches *m)
{
    unsigned char *taken = qw_alloc(len / 8 + 1, 1);
    size_t kept = 0;
    qsort(m->at, m->n, sizeof(*m->at), by_turn);
    for (size_t i = 0; i < m->n; i++) {
        struct qw_match x = m->at[i];
        if (is_set(taken, x.start) || is_set(taken, x.start + x.len - 1))
            continue;
        for (size_t k = x.start; k < x.start + x.len; k++)
            taken[k / 8] |= (unsigned char)(1u << (k % 8));
        m->at[kept++] = x;
    }
    m->n = kept;
    qsort(m->at, m->n, sizeof(*m->at), by_start);
    free(taken);
}

void qw_special_find(const struct qw_special *s, const char *text, size_t len,
                     const struct qw_span *trusted, size_t n_trusted,
                     struct qw_matches *m)
{
    *m = (struct qw_matches){0};
    for (size_t k = 0; k < n_trusted; k++)
        for (size_t i = trusted[k].start; i < trusted[k].start + trusted[k].len; i++)
            if (s->first[(unsigned char)text[i]] < s->first[(unsigned char)text[i] + 1])
                match_at(s, text, i, trusted[k].start + trusted[k].len, m);
    if (m->n > 0)
        resolve(len, m);
}
