/* SPDX-License-Identifier: MIT */
/* The adaptive draft length against simulated steps of known cost and acceptance: within
 * 3 % of plain decoding where drafting does not pay, near the best fixed length where it
 * does, and back again when the text changes. */
#include "check.h"

#include "adapt.h"

enum { N_MAX = 7 };

struct world {
    double plain, draft, row; /* seconds: a plain step; a draft; each row verified */
    double p;                 /* that a drafted token is right */
    double noise;             /* share by which a step's time varies */
};

static double uniform(unsigned long long *seed)
{
    return (double)(check_rand(seed) >> 11) * 0x1p-53;
}

static double cost(const struct world *w, int k)
{
    return k == 0 ? w->plain : w->draft + w->plain + w->row * k;
}

/* Tokens per second of `tokens` tokens; fixed >= 0: always that length. */
static double run(struct qw_adapt *a, const struct world *w, int tokens, int fixed,
                  unsigned long long *seed)
{
    double time = 0.0;
    int made = 0;
    while (made < tokens) {
        const int k = fixed >= 0 ? fixed : qw_adapt_choose(a);
        int right = 0;
        while (right < k && uniform(seed) < w->p)
            right++;
        const double t = cost(w, k) * (1.0 + w->noise * (2.0 * uniform(seed) - 1.0));
        time += t;
        made += right + 1;
        if (fixed < 0)
            qw_adapt_note(a, k, right, t);
    }
    return made / time;
}

static double best_fixed(const struct world *w, int tokens, unsigned long long *seed)
{
    double best = 0.0;
    for (int k = 0; k <= N_MAX; k++) {
        const double r = run(NULL, w, tokens, k, seed);
        best = r > best ? r : best;
    }
    return best;
}

static const struct world worlds[] = {
    /* a flat verifier, and a processor's, where each row costs most of a step */
    {1.0, 0.2, 0.01, 0.9, 0.02},  {1.0, 0.2, 0.01, 0.5, 0.02},
    {1.0, 0.2, 0.01, 0.05, 0.02}, {1.0, 0.6, 0.6, 0.95, 0.1},
    {1.0, 0.6, 0.6, 0.5, 0.1},    {1.0, 0.6, 0.6, 0.02, 0.1},
    {1.0, 3.0, 1.0, 0.0, 0.1},    {1.0, 0.0, 0.3, 0.7, 0.3},
};
enum { N_WORLDS = sizeof(worlds) / sizeof(worlds[0]) };

static void never_much_worse_than_plain(void)
{
    unsigned long long seed = 77003;
    printf("seed %llu\n", seed);
    for (int i = 0; i < N_WORLDS; i++) {
        struct qw_adapt *a = qw_adapt_open(N_MAX);
        const double plain = run(NULL, &worlds[i], 4000, 0, &seed);
        const double got = run(a, &worlds[i], 4000, -1, &seed);
        CHECK(got >= 0.97 * plain, "world %d: %.4f tokens/s, plain %.4f", i, got, plain);
        qw_adapt_close(a);
    }
}

static void near_the_best_length(void)
{
    unsigned long long seed = 91011;
    printf("seed %llu\n", seed);
    for (int i = 0; i < N_WORLDS; i++) {
        struct qw_adapt *a = qw_adapt_open(N_MAX);
        const double best = best_fixed(&worlds[i], 4000, &seed);
        const double got = run(a, &worlds[i], 4000, -1, &seed);
        CHECK(got >= 0.9 * best, "world %d: %.4f tokens/s, best length %.4f", i, got,
              best);
        qw_adapt_close(a);
    }
}

/* Prose, then code, then prose: it stops and it recovers. */
static void recovers(void)
{
    unsigned long long seed = 50021;
    struct qw_adapt *a = qw_adapt_open(N_MAX);
    struct world w = {1.0, 0.2, 0.02, 0.02, 0.02};
    printf("seed %llu\n", seed);
    run(a, &w, 2000, -1, &seed);
    w.p = 0.95;
    run(a, &w, 200, -1, &seed);
    const double best = best_fixed(&w, 2000, &seed), got = run(a, &w, 2000, -1, &seed);
    CHECK(got >= 0.85 * best, "after prose: %.4f tokens/s, best length %.4f", got, best);
    w.p = 0.02;
    const double plain = run(NULL, &w, 2000, 0, &seed),
                 back = run(a, &w, 2000, -1, &seed);
    CHECK(back >= 0.97 * plain, "prose again: %.4f tokens/s, plain %.4f", back, plain);
    qw_adapt_close(a);
}

static void stays_in_range(void)
{
    unsigned long long seed = 3;
    for (int n = 1; n <= 15; n++) {
        struct qw_adapt *a = qw_adapt_open(n);
        for (int i = 0; i < 500; i++) {
            const int k = qw_adapt_choose(a);
            CHECK(k >= 0 && k <= n, "n_max %d: chose %d", n, k);
            qw_adapt_note(a, k, k ? (int)(check_rand(&seed) % (unsigned)(k + 1)) : 0,
                          i % 7 ? uniform(&seed) : 0.0);
        }
        qw_adapt_close(a);
    }
}

QW_TESTS(T(never_much_worse_than_plain), T(near_the_best_length), T(recovers),
         T(stays_in_range))
