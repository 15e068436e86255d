/* SPDX-License-Identifier: MIT */
/* spec.h - the cycle: propose, verify, accept, commit. The drafter only saves steps: the
 * rows that decide tokens are the target's own, the same bits as in plain decoding. */
#ifndef QW_SPEC_H
#define QW_SPEC_H

#include "cycle.h"
#include "drafter.h"

struct qw_spec;

struct qw_spec_stats {
    long long cycles;   /* target steps that decided tokens, plain ones too */
    long long drafted;  /* drafted tokens that were verified */
    long long accepted; /* of them, emitted */
    long long emitted;
    long long tried[QW_MAX_DRAFT], kept[QW_MAX_DRAFT]; /* by position in the draft */
};

/* What a step left to decide: rows of logits, and the ids its rows were fed; row r + 1
 * counts only when row r decided fed[r + 1]. */
struct qw_step_rows {
    int rows;
    int32_t fed[QW_MAX_DRAFT + 1];
    int32_t best[QW_MAX_DRAFT + 1]; /* argmax of the first `decided` rows when the device
                                       decided them */
    int decided;                    /* rows up to the first that disagrees; 0: host's */
};

/* drafter may be NULL: plain steps. Both are borrowed. */
int qw_spec_open(struct qw_spec **out, struct qw_target *t, struct qw_drafter *drafter,
                 bool adaptive, struct qw_err *err);
void qw_spec_plans(const struct qw_spec *s, struct qw_plan_list *out);
void qw_spec_close(struct qw_spec *s);
/* Device bytes it takes for a drafter. */
uint64_t qw_spec_bytes(bool on_device);
void qw_spec_reset(struct qw_spec *s); /* the target's state was reset */

/* Feed n <= prefill ids that are certain, and let the drafter see them. Enqueues; the
 * caller waits or reads before the next step. */
int qw_spec_feed(struct qw_spec *s, const int32_t *id, int n, bool head,
                 struct qw_err *err);
/* One step: id[n - 1], the newest token, is fed (id[0 .. n - 1) are in the caches), with
 * drafted tokens behind it, at most `most`. host: logits are read and decided by the
 * host, from the target's rows; else the device has decided by argmax, and the next draft
 * is on its way. Waits once. */
int qw_spec_step(struct qw_spec *s, const int32_t *id, size_t n, int most, bool host,
                 struct qw_step_rows *rows, struct qw_err *err);
/* Keep `count` rows of the last step: they decided the tokens up to `newest`. */
void qw_spec_commit(struct qw_spec *s, int count, int32_t newest);
const struct qw_spec_stats *qw_spec_stats(const struct qw_spec *s);
#endif
