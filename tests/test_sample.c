/* SPDX-License-Identifier: MIT */
/* test_sample.c - the generator against known streams, each filter against a sorted list
 * in double. */
#include <math.h>
#include <stdbool.h>

#include "check.h"
#include "sample.h"

static struct qw_err err;
static const struct qw_sampling off = {.temperature = 1, .top_p = 1, .repeat_penalty = 1};

/* ---- generator ---- */

/* The stream of PCG's own demonstration (seed 42, stream 54), and of numpy 1.24.2's PCG64
 * set to state and increment of our seeds. */
static void known_streams(void)
{
    static const uint64_t demo[] = {0x86b1da1d72062b68, 0x1304aa46c9853d39,
                                    0xa3670e9e0dd50358, 0xf9090e529a7dae00,
                                    0xc85b9fd837996f2c, 0x606121f8e3919196};
    static const struct {
        uint64_t seed, out[6];
    } numpy[] = {
        {0,
         {0xe24b31ff3208bf03, 0x6023534aa8869143, 0x592945df5568aa7b, 0x9b50eff23e30549f,
          0x6fb2aecc850d4a1a, 0xd16ab7eca42d0c45}},
        {1,
         {0xf625563ccb3d0b70, 0xf03513e6da176593, 0x496b6ff0ef3f42a7, 0x825d4cafad8858da,
          0x7bab56fa2df72871, 0x4e2549b9c75810e8}},
        {UINT64_MAX,
         {0xd865827aaf068375, 0x048bf6e176a16de1, 0x212ca945f8e93ab7, 0x6d3884c65f9b1142,
          0xa0416201e328352b, 0xf09de4226ff40758}},
    };
    struct qw_pcg64 r = {
        (unsigned __int128)0xde2bce05be013be3u << 64 | 0xd3f6c45a41e54320u, 109};
    for (int i = 0; i < 6; i++) {
        const uint64_t got = qw_pcg64_next(&r);
        CHECK(got == demo[i], "output %d is %llx", i, (unsigned long long)got);
    }
    for (int s = 0; s < 3; s++) {
        qw_pcg64_seed(&r, numpy[s].seed);
        for (int i = 0; i < 6; i++) {
            const uint64_t got = qw_pcg64_next(&r);
            CHECK(got == numpy[s].out[i], "seed %d output %d is %llx", s, i,
                  (unsigned long long)got);
        }
    }
    qw_pcg64_seed(&r, 0);
    CHECK(qw_pcg64_double(&r) == 0x1.c49663fe64117p-1, "first double");
    CHECK(qw_pcg64_double(&r) == 0x1.808d4d2aa21a4p-2, "second double");
    for (int i = 0; i < 100000; i++) {
        const double u = qw_pcg64_double(&r);
        CHECK(u >= 0 && u < 1, "%g", u);
    }
}

/* ---- the reference: a sorted list, every filter as it is defined ---- */

enum { MAX_N = 300 };

struct entry {
    double x;
    int id;
};

static int by_order(const void *a, const void *b)
{
    const struct entry *p = a, *q = b;
    return p->x > q->x ? -1 : p->x < q->x ? 1 : p->id - q->id;
}

static int by_id(const void *a, const void *b)
{
    return ((const struct entry *)a)->id - ((const struct entry *)b)->id;
}

static void ref_penalties(const struct qw_sampling *s, const float *logits, int n,
                          const int *seen, int n_seen, struct entry *e)
{
    for (int i = 0; i < n; i++) {
        int count = 0;
        for (int j = n_seen > s->repeat_last ? n_seen - s->repeat_last : 0; j < n_seen;
             j++)
            count += seen[j] == i;
        double x = (double)logits[i];
        if (count > 0) {
            x = x > 0 ? x / s->repeat_penalty : x * s->repeat_penalty;
            x -= count * s->frequency_penalty;
            x -= s->presence_penalty;
        }
        e[i] = (struct entry){x, i};
    }
}

/* How many of the sorted entries stay. */
static int ref_filter(const struct qw_sampling *s, const struct entry *e, int n)
{
    double total = 0, sum = 0;
    if (s->top_k > 0 && s->top_k < n)
        n = s->top_k;
    for (int i = 0; i < n; i++)
        total += exp(e[i].x - e[0].x);
    if (s->top_p < 1) {
        int k = 0;
        do
            sum += exp(e[k++].x - e[0].x);
        while (k < n && sum < s->top_p * total);
        n = k;
    }
    if (s->min_p > 0)
        while (n > 1 && e[n - 1].x < e[0].x + log(s->min_p))
            n--;
    return n;
}

static int ref_pick(const struct qw_sampling *s, const float *logits, int n,
                    const int *seen, int n_seen, struct qw_pcg64 *r, int *kept)
{
    struct entry e[MAX_N];
    double w[MAX_N], total = 0, sum = 0;
    ref_penalties(s, logits, n, seen, n_seen, e);
    qsort(e, (size_t)n, sizeof(e[0]), by_order);
    const double max = e[0].x;
    if (s->temperature == 0)
        return e[0].id;
    const int k = *kept = ref_filter(s, e, n);
    qsort(e, (size_t)k, sizeof(e[0]), by_id);
    for (int i = 0; i < k; i++)
        total += w[i] = exp((e[i].x - max) / s->temperature);
    const double want = qw_pcg64_double(r) * total;
    for (int i = 0; i < k; i++)
        if ((sum += w[i]) > want)
            return e[i].id;
    return e[k - 1].id;
}

/* ---- cases ---- */

static double unit(unsigned long long *seed)
{
    return (double)(check_rand(seed) >> 11) * 0x1p-53;
}

/* Logits with ties: a few levels for one row in three. */
static void make_row(float *x, int n, unsigned long long *seed)
{
    const bool coarse = check_rand(seed) % 3 == 0;
    for (int i = 0; i < n; i++) {
        const double g = 12 * (unit(seed) - 0.5) + 6 * (unit(seed) - 0.5);
        x[i] = (float)(coarse ? floor(g / 3) : g);
    }
}

static void against_reference(const struct qw_sampling *set, int n,
                              unsigned long long *seed)
{
    struct qw_sampler *s = qw_sampler_open(set, n);
    struct qw_pcg64 r;
    float x[MAX_N];
    int seen[64], n_seen = 0, kept = 0;
    qw_pcg64_seed(&r, set->seed);
    for (int step = 0; step < 24; step++) {
        int32_t id = -1;
        make_row(x, n, seed);
        CHECK(qw_sampler_pick(s, x, &id, &err) == QW_OK, "%s", err.msg);
        const int want = ref_pick(set, x, n, seen, n_seen, &r, &kept);
        CHECK(id == want,
              "n %d step %d: %d, want %d; t %g k %d p %g min %g pres %g freq %g rep %g "
              "last %d",
              n, step, id, want, set->temperature, set->top_k, set->top_p, set->min_p,
              set->presence_penalty, set->frequency_penalty, set->repeat_penalty,
              set->repeat_last);
        const int next =
            (int)(check_rand(seed) % (unsigned)n); /* what the text went on with */
        seen[n_seen++] = next;
        qw_sampler_accept(s, next);
    }
    qw_sampler_close(s);
}

static void each_filter_alone(void)
{
    unsigned long long seed = 20260101;
    printf("  seed %llu\n", seed);
    for (int n = 1; n <= 257; n += 64)
        for (int i = 0; i < 12; i++) {
            struct qw_sampling s = off;
            s.seed = (uint64_t)i;
            against_reference(&s, n, &seed);
            s.top_k = 1 + i * i;
            against_reference(&s, n, &seed);
            s = off;
            s.top_p = i / 12.0;
            against_reference(&s, n, &seed);
            s = off;
            s.min_p = i / 12.0;
            against_reference(&s, n, &seed);
            s = off;
            s.temperature = 0.1 + 0.3 * i;
            against_reference(&s, n, &seed);
        }
}

static void each_penalty_alone(void)
{
    unsigned long long seed = 20260102;
    for (int greedy = 0; greedy < 2; greedy++)
        for (int i = 0; i < 12; i++) {
            struct qw_sampling s = off;
            s.temperature = greedy ? 0 : 1;
            s.repeat_last = 1 + 5 * i;
            s.repeat_penalty = 0.5 + 0.25 * i;
            against_reference(&s, 7, &seed);
            s.repeat_penalty = 1;
            s.presence_penalty = -2 + i / 3.0;
            against_reference(&s, 7, &seed);
            s.presence_penalty = 0;
            s.frequency_penalty = -2 + i / 3.0;
            against_reference(&s, 7, &seed);
        }
}

static void all_together(void)
{
    unsigned long long seed = 20260103;
    for (int i = 0; i < 400; i++) {
        const struct qw_sampling s = {.temperature = 0.2 + 2 * unit(&seed),
                                      .top_k = (int)(check_rand(&seed) % 40),
                                      .top_p = 0.3 + 0.7 * unit(&seed),
                                      .min_p = i % 2 ? 0.2 * unit(&seed) : 0,
                                      .presence_penalty = unit(&seed),
                                      .frequency_penalty = unit(&seed),
                                      .repeat_penalty = 1 + unit(&seed),
                                      .repeat_last = (int)(check_rand(&seed) % 30),
                                      .seed = check_rand(&seed)};
        against_reference(&s, 1 + (int)(check_rand(&seed) % (MAX_N - 1)), &seed);
    }
}

static void greedy_ties(void)
{
    const struct qw_sampling set = {.temperature = 0, .top_p = 1, .repeat_penalty = 1};
    struct qw_sampler *s = qw_sampler_open(&set, 5);
    const float x[] = {-1, 3, 2, 3, 3}, low[] = {-4, -4, -4, -4, -4};
    int32_t id = -1;
    CHECK(qw_sampler_is_argmax(s), "plain greedy needs no logits");
    CHECK(qw_sampler_pick(s, x, &id, &err) == QW_OK && id == 1, "id %d", id);
    CHECK(qw_sampler_pick(s, low, &id, &err) == QW_OK && id == 0, "id %d", id);
    qw_sampler_close(s);
    struct qw_sampling pen = set;
    pen.presence_penalty = 1;
    s = qw_sampler_open(&pen, 5);
    CHECK(qw_sampler_is_argmax(s), "no window, no penalty");
    qw_sampler_close(s);
    pen.repeat_last = 2;
    s = qw_sampler_open(&pen, 5);
    CHECK(!qw_sampler_is_argmax(s), "penalties need logits");
    qw_sampler_accept(s, 1);
    qw_sampler_accept(s, -1); /* neither is a token */
    qw_sampler_accept(s, 5);
    CHECK(qw_sampler_pick(s, x, &id, &err) == QW_OK && id == 3, "id %d", id);
    qw_sampler_accept(s, 3);
    CHECK(qw_sampler_pick(s, x, &id, &err) == QW_OK && id == 4, "id %d", id);
    qw_sampler_accept(s, 4); /* 1 leaves the window */
    CHECK(qw_sampler_pick(s, x, &id, &err) == QW_OK && id == 1, "id %d", id);
    qw_sampler_close(s);
}

static void not_finite(void)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int greedy = 0; greedy < 2; greedy++)
        for (int b = 0; b < 3; b++)
            for (int at = 0; at < 9; at += 4) {
                struct qw_sampling set = off;
                set.temperature = greedy ? 0 : 1;
                struct qw_sampler *s = qw_sampler_open(&set, 9);
                float x[9] = {0, 3.4e38f, -3.4e38f};
                int32_t id = -7;
                CHECK(qw_sampler_pick(s, x, &id, &err) == QW_OK && id == 1,
                      "large is finite");
                x[at] = bad[b];
                err.msg[0] = '\0';
                CHECK(qw_sampler_pick(s, x, &id, &err) == QW_EDEVICE && id == 1 &&
                          err.msg[0],
                      "logit %d = %g", at, (double)bad[b]);
                qw_sampler_close(s);
            }
}

/* Any logits: exactly one uniform is drawn, so streams stay in step. */
static void one_draw_a_token(void)
{
    unsigned long long seed = 20260104;
    struct qw_sampling set = off;
    set.seed = 99;
    set.top_k = 1;
    struct qw_sampler *s = qw_sampler_open(&set, 2);
    float flat[2] = {0, 0};
    int32_t id;
    struct qw_pcg64 r;
    qw_pcg64_seed(&r, 99);
    for (int i = 0; i < 10; i++) {
        make_row(flat, 2, &seed);
        CHECK(qw_sampler_pick(s, flat, &id, &err) == QW_OK, "%s", err.msg);
        qw_pcg64_double(&r);
    }
    qw_sampler_close(s);
    set.top_k = 0;
    s = qw_sampler_open(&set, 2);
    qw_pcg64_seed(&r, 99);
    flat[0] = flat[1] = 0;
    for (int i = 0; i < 200; i++) {
        const int want = qw_pcg64_double(&r) * 2 < 1 ? 0 : 1;
        CHECK(qw_sampler_pick(s, flat, &id, &err) == QW_OK && id == want, "draw %d", i);
    }
    qw_sampler_close(s);
}

static void seeds_repeat(void)
{
    unsigned long long seed = 20260105;
    struct qw_sampling set = off;
    set.seed = 7;
    set.top_k = 20;
    struct qw_sampler *a = qw_sampler_open(&set, MAX_N),
                      *b = qw_sampler_open(&set, MAX_N);
    set.seed = 8;
    struct qw_sampler *c = qw_sampler_open(&set, MAX_N);
    float x[MAX_N];
    int other = 0;
    for (int i = 0; i < 100; i++) {
        int32_t p, q, o;
        make_row(x, MAX_N, &seed);
        MUST(qw_sampler_pick(a, x, &p, &err) == QW_OK &&
                 qw_sampler_pick(b, x, &q, &err) == QW_OK &&
                 qw_sampler_pick(c, x, &o, &err) == QW_OK,
             "%s", err.msg);
        CHECK(p == q, "same seed, other token");
        other += p != o;
    }
    CHECK(other > 20, "another seed gives nearly the same");
    qw_sampler_close(a);
    qw_sampler_close(b);
    qw_sampler_close(c);
    qw_sampler_close(NULL);
}

/* Shares of many draws lie near the probabilities. */
static void shares(void)
{
    const float x[] = {0, 1, 2, 3};
    struct qw_sampler *s = qw_sampler_open(&off, 4);
    int count[4] = {0}, n = 200000;
    double total = 0;
    for (int i = 0; i < n; i++) {
        int32_t id = 0;
        MUST(qw_sampler_pick(s, x, &id, &err) == QW_OK, "%s", err.msg);
        count[id]++;
    }
    for (int i = 0; i < 4; i++)
        total += exp(i);
    for (int i = 0; i < 4; i++) {
        const double p = exp(i) / total, sigma = sqrt(p * (1 - p) / n);
        CHECK(fabs((double)count[i] / n - p) < 5 * sigma, "token %d: %d of %d", i,
              count[i], n);
    }
    qw_sampler_close(s);
}

/* The large vocabulary, each way through: none may take long. */
static void large_vocabulary(void)
{
    enum { N = 248320 };
    unsigned long long seed = 20260106;
    float *x = malloc(N * sizeof(*x));
    MUST(x != NULL, "memory");
    for (int i = 0; i < N; i++)
        x[i] = (float)(20 * unit(&seed) * unit(&seed));
    struct qw_sampling set = off;
    for (int way = 0; way < 4; way++) {
        set.top_k = way == 1 ? 20 : 0;
        set.top_p = way == 2 ? 0.95 : 1;
        set.min_p = way == 3 ? 0.05 : 0;
        struct qw_sampler *s = qw_sampler_open(&set, N);
        int32_t id = -1;
        const double start = qw_now();
        for (int i = 0; i < 5; i++)
            CHECK(qw_sampler_pick(s, x, &id, &err) == QW_OK && id >= 0 && id < N, "%s",
                  err.msg);
        printf("  top_k %d top_p %g min_p %g: %.2f ms a token\n", set.top_k, set.top_p,
               set.min_p, 1e3 * (qw_now() - start) / 5);
        qw_sampler_close(s);
    }
    free(x);
}

QW_TESTS(T(known_streams), T(each_filter_alone), T(each_penalty_alone), T(all_together),
         T(greedy_ties), T(not_finite), T(one_draw_a_token), T(seeds_repeat), T(shares),
         T(large_vocabulary))
