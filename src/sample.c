/* SPDX-License-Identifier: MIT */
/*
 * One row of logits to one token.
 *
 * Every filter keeps a prefix of the same order: larger logit first, on a tie the lower
 * id. So what is kept is described by its last member alone (the cut), no list is sorted
 * beyond what the filters ask for, and the draw walks the kept tokens in order of their
 * ids.
 *
 * Probabilities of top_p and min_p are those at temperature 1 of what the filter before
 * kept.
 */
#include "sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct qw_sampler {
    struct qw_sampling set;
    struct qw_pcg64 rng;
    int n_vocab;
    int32_t *window; /* ring of the last repeat_last tokens */
    int n_window, next;
    int32_t *count; /* how often a token is in the window */
    double *logit;  /* the row after penalties */
    double *weight; /* of the kept tokens, in order of ids */
    int32_t *cand;  /* ids: the filters' heap, then the kept tokens */
};

enum { FEW = 128 }; /* candidates that are sorted by insertion */

struct cut { /* the last token kept */
    double logit;
    int32_t id;
};

/* The multiplier and the default increment of O'Neill's 128-bit generators. */
#define U128(hi, lo) ((unsigned __int128)(hi) << 64 | (lo))
#define PCG_MUL U128(0x2360ed051fc65da4u, 0x4385df649fccf645u)
#define PCG_INC U128(0x5851f42d4c957f2du, 0x14057b7ef767814fu)

static uint64_t splitmix64(uint64_t *x)
{
    uint64_t z = *x += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Two splitmix64 outputs make the 128-bit start (the first is the high half), so that
 * seeds next to each other share nothing; then PCG's own seeding on its default stream.
 */
void qw_pcg64_seed(struct qw_pcg64 *r, uint64_t seed)
{
    const uint64_t hi = splitmix64(&seed), lo = splitmix64(&seed);
    r->inc = PCG_INC;
    r->state = r->inc + U128(hi, lo);
    r->state = r->state * PCG_MUL + r->inc;
}

uint64_t qw_pcg64_next(struct qw_pcg64 *r)
{
    r->state = r->state * PCG_MUL + r->inc;
    const uint64_t x = (uint64_t)(r->state >> 64) ^ (uint64_t)r->state;
    const unsigned turn = (unsigned)(r->state >> 122);
    return x >> turn | x << (-turn & 63);
}

double qw_pcg64_double(struct qw_pcg64 *r)
{
    return (double)(qw_pcg64_next(r) >> 11) * 0x1p-53;
}

static bool penalised(const struct qw_sampling *s)
{
    return s->repeat_last > 0 && (s->repeat_penalty != 1 || s->presence_penalty != 0 ||
                                  s->frequency_penalty != 0);
}

struct qw_sampler *qw_sampler_open(const struct qw_sampling *set, int n_vocab)
{
    struct qw_sampler *s = qw_alloc(1, sizeof(*s));
    const size_t n = n_vocab > 0 ? (size_t)n_vocab : 0;
    s->set = *set;
    s->n_vocab = (int)n;
    qw_pcg64_seed(&s->rng, set->seed);
    if (penalised(set)) {
        s->window = qw_alloc((size_t)set->repeat_last, sizeof(*s->window));
        s->count = qw_alloc(n, sizeof(*s->count));
    }
    if (!qw_sampler_is_argmax(s)) {
        s->logit = qw_alloc(n, sizeof(*s->logit));
        s->weight = qw_alloc(n, sizeof(*s->weight));
        s->cand = qw_alloc(n, sizeof(*s->cand));
    }
    return s;
}

void qw_sampler_close(struct qw_sampler *s)
{
    if (s == NULL)
        return;
    free(s->window);
    free(s->count);
    free(s->logit);
    free(s->weight);
    free(s->cand);
    free(s);
}

bool qw_sampler_is_argmax(const struct qw_sampler *s)
{
    return s->set.temperature == 0 && !penalised(&s->set);
}

void qw_sampler_accept(struct qw_sampler *s, int32_t id)
{
    if (s->window == NULL || id < 0 || id >= s->n_vocab)
        return;
    if (s->n_window == s->set.repeat_last)
        s->count[s->window[s->next]]--;
    else
        s->n_window++;
    s->window[s->next] = id;
    s->count[id]++;
    s->next = (s->next + 1) % s->set.repeat_last;
}

static int check_finite(const float *logits, int n, struct qw_err *err)
{
    uint32_t bad =
        0; /* top bit set where an exponent is all ones; a loop without branches */
    for (int i = 0; i < n; i++) {
        uint32_t u;
        memcpy(&u, &logits[i], sizeof(u));
        bad |= (u & 0x7f800000u) + 0x00800000u;
    }
    if (!(bad & 0x80000000u))
        return QW_OK;
    int i = 0;
    while (isfinite(logits[i]))
        i++;
    return qw_fail(err, QW_EDEVICE,
                   "the logit of token %d is not finite (%f); nothing can be sampled", i,
                   (double)logits[i]);
}

static int32_t argmax(const float *x, int n)
{
    int32_t best = 0;
    float max = x[0];
    for (int32_t i = 1; i < n; i++)
        if (x[i] > max) {
            max = x[i];
            best = i;
        }
    return best;
}

/* The penalties of one token: repeat as llama.cpp has it (a positive logit is divided,
 * another multiplied), then frequency for each time it was seen and presence once. */
static double penalise(const struct qw_sampling *set, double x, int32_t count)
{
    x = x > 0 ? x / set->repeat_penalty : x * set->repeat_penalty;
    return x - count * set->frequency_penalty - set->presence_penalty;
}

/* The row in double, penalties taken off; its first largest token. */
static int32_t prepare(struct qw_sampler *s, const float *restrict logits)
{
    double *restrict x = s->logit;
    const int n = s->n_vocab;
    int32_t best = 0;
    for (int32_t i = 0; i < n; i++)
        x[i] = (double)logits[i];
    for (int i = 0; i < s->n_window;
         i++) { /* from the row itself, so twice does no harm */
        const int32_t id = s->window[i];
        x[id] = penalise(&s->set, (double)logits[id], s->count[id]);
    }
    double max = x[0];
    for (int32_t i = 1; i < n; i++)
        if (x[i] > max) {
            max = x[i];
            best = i;
        }
    return best;
}

/* Does a come before b: the one order of all filters. */
static bool before(const double *x, int32_t a, int32_t b)
{
    return x[a] > x[b] || (a < b && x[a] == x[b]);
}

/* Heap of ids. best: the root comes before all others; else it comes after all others. */
static void sift(const double *x, int32_t *h, int n, int i, bool best)
{
    const int32_t id = h[i];
    for (int child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && before(x, h[child + 1], h[child]) == best)
            child++;
        if (before(x, h[child], id) != best)
            break;
        h[i] = h[child];
    }
    h[i] = id;
}

static void heapify(const double *x, int32_t *h, int n, bool best)
{
    for (int i = n / 2 - 1; i >= 0; i--)
        sift(x, h, n, i, best);
}

/* The root leaves for the place behind the heap, which has one member less. */
static int32_t heap_pop(const double *x, int32_t *h, int *n, bool best)
{
    const int32_t root = h[0];
    h[0] = h[--*n];
    h[*n] = root;
    if (*n > 0)
        sift(x, h, *n, 0, best);
    return root;
}

static bool limits_k(const struct qw_sampler *s)
{
    return s->set.top_k > 0 && s->set.top_k < s->n_vocab;
}

/* The k first tokens go to cand as a heap whose root is the last of them. */
static void select_top_k(struct qw_sampler *s, int k)
{
    const double *x = s->logit;
    for (int32_t i = 0; i < k; i++)
        s->cand[i] = i;
    heapify(x, s->cand, k, false);
    for (int32_t i = k; i < s->n_vocab; i++)
        if (x[i] > x[s->cand[0]]) { /* on a tie the earlier id stays */
            s->cand[0] = i;
            sift(x, s->cand, k, 0, false);
        }
}

/* Take tokens off the front of the n candidates until their share reaches top_p. */
static struct cut cut_top_p(struct qw_sampler *s, int n, double max)
{
    const double *x = s->logit;
    double total = 0, sum = 0;
    for (int i = 0; i < n; i++)
        total += exp(x[s->cand[i]] - max);
    heapify(x, s->cand, n, true);
    int32_t id;
    do {
        id = heap_pop(x, s->cand, &n, true);
        sum += exp(x[id] - max);
    } while (n > 0 && sum < s->set.top_p * total);
    return (struct cut){x[id], id};
}

static struct cut find_cut(struct qw_sampler *s, double max)
{
    const struct qw_sampling *set = &s->set;
    const bool by_k = limits_k(s);
    int n = s->n_vocab;
    struct cut cut = {-INFINITY, 0};
    if (by_k) {
        n = set->top_k;
        select_top_k(s, n);
        cut = (struct cut){s->logit[s->cand[0]], s->cand[0]};
    }
    if (set->top_p < 1) {
        for (int32_t i = 0; !by_k && i < n; i++)
            s->cand[i] = i;
        cut = cut_top_p(s, n, max);
    }
    if (set->min_p > 0) { /* p >= min_p * p_max; at the floor itself every id is kept */
        const double floor_logit = max + log(set->min_p);
        if (floor_logit > cut.logit)
            cut = (struct cut){floor_logit, s->n_vocab};
    }
    return cut;
}

static bool kept(double x, int32_t id, struct cut cut)
{
    return x > cut.logit || (x == cut.logit && id <= cut.id);
}

/* The kept tokens in order of ids to cand: by a look at each token, or, where top_k has
 * left few candidates, by putting those in order. */
static int collect(struct qw_sampler *s, struct cut cut)
{
    const double *x = s->logit;
    const int k = s->set.top_k;
    int n = 0;
    if (k > FEW || !limits_k(s)) {
        for (int32_t i = 0; i < s->n_vocab; i++)
            if (kept(x[i], i, cut))
                s->cand[n++] = i;
        return n;
    }
    for (int i = 0; i < k; i++) {
        const int32_t id = s->cand[i];
        int at = n;
        if (!kept(x[id], id, cut))
            continue;
        for (; at > 0 && s->cand[at - 1] > id; at--)
            s->cand[at] = s->cand[at - 1];
        s->cand[at] = id;
        n++;
    }
    return n;
}

static int32_t draw(struct qw_sampler *s, double max, struct cut cut)
{
    const double *x = s->logit, t = s->set.temperature;
    const int n = collect(s, cut);
    double total = 0, sum = 0;
    for (int i = 0; i < n; i++) {
        s->weight[i] = exp((x[s->cand[i]] - max) / t);
        total += s->weight[i];
    }
    const double want = qw_pcg64_double(&s->rng) * total;
    int last =
        0; /* the last one with a weight: where rounding leaves want at the total */
    for (int i = 0; i < n; i++) {
        sum += s->weight[i];
        if (s->weight[i] > 0)
            last = i;
        if (sum > want)
            break;
    }
    return s->cand[last];
}

int qw_sampler_pick(struct qw_sampler *s, const float *logits, int32_t *id,
                    struct qw_err *err)
{
    if (s->n_vocab == 0)
        return qw_fail(err, QW_EDEVICE, "no logits to sample from");
    int rc = check_finite(logits, s->n_vocab, err);
    if (rc != QW_OK)
        return rc;
    if (qw_sampler_is_argmax(s)) {
        *id = argmax(logits, s->n_vocab);
        return QW_OK;
    }
    const int32_t top = prepare(s, logits);
    if (s->set.temperature == 0) {
        *id = top;
        return QW_OK;
    }
    const double max = s->logit[top];
    *id = draw(s, max, find_cut(s, max));
    return QW_OK;
}

struct qw_pcg64 *qw_sampler_rng(struct qw_sampler *s)
{
    return &s->rng;
}
