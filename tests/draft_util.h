/* SPDX-License-Identifier: MIT */
/* draft_util.h - a target with a DFlash drafter for tests, driven step by step: the loop
 * is the test's own. Whatever cannot be set up ends the program with 99. */
#ifndef QW_DRAFT_UTIL_H
#define QW_DRAFT_UTIL_H

#include "cycle.h"
#include "dflash.h"
#include "net_util.h"

struct pair_opts {
    int context, prefill;
    int kv_bits, draft_bits; /* of the two caches; 0: 16 */
    int n_max, n_min;
    double p_min;     /* > 0: logits are written, too */
    bool gpu_shape;   /* of both launch shapes */
    bool no_rings;    /* caches of sliding layers cover the context, too */
    bool all_logits;  /* of the target */
    uint64_t largest; /* buffer of the drafter, 0: the device's */
};
struct pair {
    struct net net;
    struct qw_gguf *file;
    struct qw_draft_model *model;
    struct qw_drafter *d;
    bool rests; /* no proposal comes next: what pair_feed leaves for the drafter may wait
                 */
};
/* Every p_min above 0 has logits written; this one cuts no draft. */
#define PAIR_LOGITS 1e-30

void pair_open(struct pair *p, const char *target, const char *draft,
               const struct pair_opts *o);
void pair_close(struct pair *p);
void pair_reset(struct pair *p);
int pair_pos(const struct pair *p); /* committed position */

/* Feed ids, chunk at a time; the drafter sees them. */
void pair_feed(struct pair *p, const int32_t *id, int n, int chunk);
/* Propose what follows id, which stands at the committed position; returns how many. */
int pair_propose(struct pair *p, int32_t id, int32_t *draft);
/* Verify id and `drafts` tokens behind it, keep `count` rows; the drafter sees them all.
 */
void pair_verify(struct pair *p, int32_t id, const int32_t *draft, int drafts, int count);
/* Logits [n_max][n_vocab] of the last proposal. The caller frees. */
float *pair_logits(const struct pair *p);

/* Files of the oracle's model of a weight type (F32, F16, ...) and its golden rows, made
 * when first asked for: t.gguf, d.gguf, features.f32, block.f32 and more. The caller
 * frees. */
char *pair_oracle(const char *type, const char *name);
/* The shipped drafter, and the shipped target of this kind (q4_0, q8_0). */
char *pair_draft_path(void);
char *pair_target_path(const char *which);
#endif
