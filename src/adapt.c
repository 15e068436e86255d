/* SPDX-License-Identifier: MIT */
/* The estimates fade: seconds per plain step, seconds per drafted step for each length
 * tried, acceptance by position. A step of k drafts is expected to bring 1 + p1 + p1 p2 +
 * ... tokens; k is chosen for the most tokens per second, and plain steps when none beats
 * them. While drafting rests, a probe now and then looks whether it would pay again;
 * probes may cost at most PROBE_SHARE of the plain steps between them. */
#include "adapt.h"

#include <stdlib.h>

enum { MAX = 16, SHORTEST_REST = 8, LONGEST_REST = 1024 };
static const double FADE = 0.9, COST_FADE = 0.8, PROBE_SHARE = 0.015, MARGIN = 1.02;

struct qw_adapt {
    int n_max, choice;
    bool drafted;                  /* at least once */
    int rest;                      /* plain steps until the next probe */
    double plain, plain_n;         /* seconds of plain steps, how many (faded) */
    double cost[MAX];              /* seconds of a step with k drafts; 0: not tried */
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

/* Seconds of a step with k drafts. A length not tried yet lies on the line between its
 * neighbours that were; below the shortest of those, and above the longest, a row is
 * taken to cost half of a plain step's share of it. Once chosen, a length is known. */
static double drafted_cost(const struct qw_adapt *a, int k)
{
    int below = k, above = k;
    while (below > 0 && a->cost[below] == 0.0)
        below--;
    while (above < a->n_max && a->cost[above] == 0.0)
        above++;
    const bool low = below > 0, high = a->cost[above] > 0.0;
    if (low && below == k)
        return a->cost[k];
    if (low && high)
        return a->cost[below] +
               (a->cost[above] - a->cost[below]) * (k - below) / (double)(above - below);
    const int known = low ? below : above;
    const double over = a->cost[known] - plain_cost(a);
    return a->cost[known] + 0.5 * (over > 0.0 ? over : 0.0) / (known + 1.0) * (k - known);
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
    if (!a->drafted) {
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

void qw_adapt_note(struct qw_adapt *a, int asked, int accepted, double seconds)
{
    seconds = seconds > 1e-9 ? seconds : 1e-9;
    if (asked == 0) {
        a->plain = COST_FADE * a->plain + seconds;
        a->plain_n = COST_FADE * a->plain_n + 1.0;
    } else {
        double *cost = &a->cost[asked];
        *cost = *cost == 0.0 ? seconds : COST_FADE * *cost + (1.0 - COST_FADE) * seconds;
        a->drafted = true;
        for (int i = 0; i < asked && i <= accepted; i++) {
            a->tried[i] = FADE * a->tried[i] + 1.0;
            a->right[i] = FADE * a->right[i] + (i < accepted);
        }
    }
    decide(a);
}
