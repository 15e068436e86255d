/* SPDX-License-Identifier: MIT */
/* The estimates are sums that fade: of seconds per plain step, of seconds per drafted
 * step as a line over the number of drafts, of acceptance by position. A step of k drafts
 * is expected to bring 1 + p1 + p1 p2 + ... tokens; k is chosen for the most tokens per
 * second, and plain steps when none beats them. While drafting rests, a probe now and
 * then looks whether it would pay again; probes may cost at most PROBE_SHARE of the plain
 * steps between them. */
#include "adapt.h"

#include <stdlib.h>

enum { MAX = 16, SHORTEST_REST = 8, LONGEST_REST = 1024 };
static const double FADE = 0.9, COST_FADE = 0.8, PROBE_SHARE = 0.015, MARGIN = 1.02;

struct qw_adapt {
    int n_max, choice;
    int rest;                      /* plain steps until the next probe */
    double plain, plain_n;         /* seconds of plain steps, how many (faded) */
    double n, k, kk, t, kt;        /* sums over drafted steps of 1, k, k^2, t, k t */
    double tried[MAX], right[MAX]; /* by position */
};

struct qw_adapt *qw_adapt_open(int n_max)
{
    struct qw_adapt *a = qw_alloc(1, sizeof(*a));
    a->n_max = n_max;
    return a;
}

void qw_adapt_close(struct qw_adapt *a)
{
    free(a);
}

int qw_adapt_choose(const struct qw_adapt *a)
{
    return a->choice;
}

static double plain_cost(const struct qw_adapt *a)
{
    return a->plain / a->plain_n;
}

/* Seconds of a step with k drafts: the line through the drafted steps; where they all had
 * one length, a row is taken to cost what a plain step's share of it is. */
static double drafted_cost(const struct qw_adapt *a, int k)
{
    const double mean_k = a->k / a->n, mean_t = a->t / a->n;
    const double var = a->kk / a->n - mean_k * mean_k;
    double slope = (mean_t - plain_cost(a)) / (mean_k + 1.0);
    if (var > 0.05)
        slope = (a->kt / a->n - mean_k * mean_t) / var;
    if (slope < 0.0)
        slope = 0.0;
    const double cost = mean_t + slope * (k - mean_k), least = plain_cost(a);
    return cost > least ? cost : least;
}

/* Tokens a step with k drafts brings. A position not tried yet is taken to be like the
 * one before it. */
static double tokens(const struct qw_adapt *a, int k)
{
    double sum = 1.0, all = 1.0, p = 0.7;
    for (int i = 0; i < k; i++) {
        if (a->tried[i] > 0.01)
            p = (a->right[i] + 0.1 * p) / (a->tried[i] + 0.1);
        all *= p;
        sum += all;
    }
    return sum;
}

static int best_length(const struct qw_adapt *a, double *rate)
{
    int best = 1;
    *rate = 0.0;
    for (int k = 1; k <= a->n_max; k++) {
        const double r = tokens(a, k) / drafted_cost(a, k);
        if (r > *rate) {
            *rate = r;
            best = k;
        }
    }
    return best;
}

static void decide(struct qw_adapt *a)
{
    double rate;
    if (a->plain_n < 0.5) { /* the first step is plain, the second drafts */
        a->choice = 0;
        return;
    }
    if (a->n == 0.0) {
        a->choice = a->n_max;
        return;
    }
    const int k = best_length(a, &rate);
    const double cost = plain_cost(a);
    if (rate * cost >= MARGIN) {
        a->choice = k;
        a->rest = 0;
    } else if (a->choice >
               0) { /* drafting stops; what a probe would lose sets the rest */
        const double loss = drafted_cost(a, k) - tokens(a, k) * cost;
        const double rest = loss / (PROBE_SHARE * cost);
        a->choice = 0;
        a->rest = rest > LONGEST_REST    ? LONGEST_REST
                  : rest > SHORTEST_REST ? (int)rest
                                         : SHORTEST_REST;
    } else if (--a->rest <= 0) {
        a->choice = k;
    }
}

void qw_adapt_note(struct qw_adapt *a, int drafted, int accepted, double seconds)
{
    if (drafted == 0) {
        a->plain = COST_FADE * a->plain + seconds;
        a->plain_n = COST_FADE * a->plain_n + 1.0;
    } else {
        double *sum[] = {&a->n, &a->k, &a->kk, &a->t, &a->kt};
        const double x[] = {1.0, drafted, (double)drafted * drafted, seconds,
                            drafted * seconds};
        for (int i = 0; i < 5; i++)
            *sum[i] = COST_FADE * *sum[i] + x[i];
        for (int i = 0; i < drafted && i <= accepted; i++) {
            a->tried[i] = FADE * a->tried[i] + 1.0;
            a->right[i] = FADE * a->right[i] + (i < accepted);
        }
    }
    decide(a);
}
