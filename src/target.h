/* SPDX-License-Identifier: MIT */
/* target.h - the target's forward pass as plans over one session's state. */
#ifndef QW_TARGET_H
#define QW_TARGET_H

#include "model.h"
#include "state.h"

struct qw_target_params {
    int context;     /* positions asked for; rounded up to a whole attention block */
    int prefill;     /* rows a prefill step may have */
    int kv_bits;     /* 8, 16, 32 */
    bool all_logits; /* logits of every row of a step, not of its last alone (tests,
                        scoring) */
};

/* Bytes by part, all known before anything is loaded. */
struct qw_budget {
    uint64_t weights, kv, gdn, conv, activations, attention, logits, rope, control, total;
    int context, prefill,
        n_pages; /* in force: prefill shrinks to fit a small largest buffer */
};

struct qw_target;

/* The budget for a model on a device whose largest buffer is max_alloc. */
int qw_target_plan(struct qw_budget *b, const struct qw_model *m,
                   const struct qw_target_params *p, uint64_t max_alloc,
                   struct qw_err *err);
/* The largest context whose budget is within free bytes; 0 when none is. */
int qw_target_largest_context(const struct qw_model *m, const struct qw_target_params *p,
                              uint64_t max_alloc, uint64_t free_bytes);

/* QW_EDEVICE with bytes needed, free, and the keys that lower them, when it will not fit
 * dev. */
int qw_target_fits(const struct qw_model *m, const struct qw_target_params *p,
                   const struct qw_dev *dev, struct qw_err *err);

/* Allocate buffers and state, record the plans. Model and kernels outlive the target. */
int qw_target_open(struct qw_target **out, struct qw_model *m, struct qw_kern *k,
                   const struct qw_target_params *p, struct qw_err *err);
void qw_target_close(struct qw_target *t);
struct qw_state *qw_target_state(struct qw_target *t);
int qw_target_prefill_rows(const struct qw_target *t);

/* Feed n <= prefill ids at the committed position and commit them. Enqueues only; head:
 * also computes logits of the last row (all rows with all_logits) and their argmax. */
int qw_target_forward(struct qw_target *t, const int32_t *id, int n, bool head,
                      struct qw_err *err);
/* Wait and read what the last forward with head made: ids of the largest logit [rows];
 * QW_EDEVICE when a row is not finite. rows = 1 unless all_logits. */
int qw_target_read_argmax(struct qw_target *t, int32_t *id, int rows, struct qw_err *err);
/* Wait and read rows of logits [rows][n_vocab]. */
int qw_target_read_logits(struct qw_target *t, float *logits, int rows,
                          struct qw_err *err);
/* Wait and read the normed hidden rows [rows][n_embd] the last head read (all_logits
 * only). */
int qw_target_read_hidden(struct qw_target *t, float *hidden, int rows,
                          struct qw_err *err);
int qw_target_wait(struct qw_target *t, struct qw_err *err);

/* A row of the rope table: n_rot/2 cosines, then the sines, of pos * base^(-2k/n_rot).
 * The angle is the reference's iterated product in f32: angle *= base^(-2/n_rot). */
void qw_rope_row(float *cs, int pos, int n_rot, float base);
#endif
