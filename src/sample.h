/* SPDX-License-Identifier: MIT */
/* sample.h - logits -> token. Order: penalties, top_k, top_p, min_p, temperature, draw.
 */
#ifndef QW_SAMPLE_H
#define QW_SAMPLE_H

#include "base.h"

struct qw_sampling {
    double temperature; /* 0: greedy */
    int top_k;          /* 0: off */
    double top_p, min_p;
    double presence_penalty, frequency_penalty, repeat_penalty;
    int repeat_last;
    uint64_t seed;
};

/* PCG64 (XSL RR 128/64), O'Neill 2014; documented so that a seed means the same
 * everywhere. */
struct qw_pcg64 {
    unsigned __int128 state, inc;
};
void qw_pcg64_seed(struct qw_pcg64 *r, uint64_t seed);
uint64_t qw_pcg64_next(struct qw_pcg64 *r);
double qw_pcg64_double(struct qw_pcg64 *r); /* [0, 1), 53 bits */

struct qw_sampler; /* settings, PCG64 state, window of recent tokens */

struct qw_sampler *qw_sampler_open(const struct qw_sampling *s, int n_vocab);
void qw_sampler_close(struct qw_sampler *s);
/* Greedy with no penalty in force: the device's argmax is the answer and no logits are
 * needed. */
bool qw_sampler_is_argmax(const struct qw_sampler *s);
/* The token for one row of logits [n_vocab] (not changed); draws exactly one uniform
 * double when temperature > 0. Greedy ties take the lowest id. QW_EDEVICE when a logit is
 * not finite. */
int qw_sampler_pick(struct qw_sampler *s, const float *logits, int32_t *id,
                    struct qw_err *err);
/* Note a token of the prompt or the answer for the penalties. */
void qw_sampler_accept(struct qw_sampler *s, int32_t id);
/* The generator, to keep and to put back: with the same tokens noted, the same draws. */
struct qw_pcg64 *qw_sampler_rng(struct qw_sampler *s);

#endif
