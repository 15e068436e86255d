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
    int verify;      /* rows of the widest verify step, drafts + 1; 0: none */
    /* What the drafter reads of every row: residual rows entering layers tap[0..n_taps)
     * side by side, as activations (tap_want as in qw_mat); the normed hidden row. */
    const int *tap;
    int n_taps, tap_want;
    bool hidden;
    /* Of the drafter: all its bytes beside a target of so many positions and rows (NULL:
     * no drafter), and those already on the device. */
    uint64_t (*drafter_bytes)(const void *arg, int context, int rows);
    const void *drafter_arg;
    uint64_t drafter_loaded;
};

/* Bytes by part, all known before anything is loaded. */
struct qw_budget {
    uint64_t weights, drafter, kv, gdn, conv, activations, attention, logits, rope,
        control, total;
    int context, prefill,
        n_pages; /* in force: prefill shrinks to fit a small largest buffer */
};

/* Rows of features that may wait in front of a step's own. */
enum { QW_TAP_BACKLOG = 48 };

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
/* Its plans: step (one row), prefill, head, verify; those that it has. */
void qw_target_plans(const struct qw_target *t, struct qw_plan_list *out);
struct qw_dev *qw_target_dev(const struct qw_target *t);
struct qw_kern *qw_target_kern(const struct qw_target *t);
struct qw_state *qw_target_state(struct qw_target *t);
int qw_target_reset(struct qw_target *t, struct qw_err *err); /* to position 0 */
int qw_target_prefill_rows(const struct qw_target *t);

/* Feed n <= prefill ids at the committed position and commit them. Enqueues only; head:
 * also computes logits of the last row (all rows with all_logits) and their argmax. The
 * caller waits (or reads) before the next forward or verify. */
int qw_target_forward(struct qw_target *t, const int32_t *id, int n, bool head,
                      struct qw_err *err);
/* Feed id at the committed position and up to `most` tokens of the draft block behind it,
 * most < verify; logits and argmax of every row. Enqueues only. Row 0 is certain;
 * qw_target_commit says how many rows stay, at least one. */
int qw_target_verify(struct qw_target *t, int32_t id, int most, struct qw_err *err);
void qw_target_commit(struct qw_target *t, int count);
/* A forward of no rows: S becomes that of the committed position. */
int qw_target_settle(struct qw_target *t, struct qw_err *err);

/* Buffers of the last step, for the drafter's own plans: the block with its rows and ids,
 * the argmax of its head [rows][2], features and hidden rows (NULL when not asked for).
 */
cl_mem qw_target_cycle(const struct qw_target *t);
cl_mem qw_target_draft(const struct qw_target *t); /* cycle.h; drafters fill it */
cl_mem qw_target_best(const struct qw_target *t);
const struct qw_acts *qw_target_features(const struct qw_target *t);
/* Features of the next step's rows go to rows `row`.. of that buffer, row <=
 * QW_TAP_BACKLOG. 0 unless told. */
void qw_target_tap_row(struct qw_target *t, int row);
cl_mem qw_target_hidden(const struct qw_target *t);
int qw_target_rows(const struct qw_target *t); /* of the widest step */
int qw_target_verify_rows(const struct qw_target *t);

/* Wait and read what the last head made: ids of the largest logit [rows]; QW_EDEVICE when
 * a row is not finite. rows = 1 after a forward unless all_logits. */
int qw_target_read_argmax(struct qw_target *t, int32_t *id, int rows, struct qw_err *err);
/* Wait and read rows of logits [rows][n_vocab]. */
int qw_target_read_logits(struct qw_target *t, float *logits, int rows,
                          struct qw_err *err);
/* Wait and read what a verify step fed: its rows (the return of *rows) and their ids. */
int qw_target_read_fed(struct qw_target *t, int32_t *id, int *rows, struct qw_err *err);
/* Wait and read the normed hidden rows [rows][n_embd] the last head read (all_logits
 * only). */
int qw_target_read_hidden(struct qw_target *t, float *hidden, int rows,
                          struct qw_err *err);
int qw_target_wait(struct qw_target *t, struct qw_err *err);

/* A row of the rope table: n_rot/2 cosines, then the sines, of pos * base^(-2k/n_rot).
 * The angle is the reference's iterated product in f32: angle *= base^(-2/n_rot). */
void qw_rope_row(float *cs, int pos, int n_rot, float base);
/* n_pages buffers of `page` such rows. *out, also after an error, is the caller's: its
 * buffers to release and the array to free. */
int qw_rope_table(struct qw_dev *dev, int page, int n_pages, int n_rot, float base,
                  cl_mem **out, struct qw_err *err);
#endif
