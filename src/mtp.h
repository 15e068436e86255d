/* SPDX-License-Identifier: MIT */
/* mtp.h - the drafter that a target file brings along: its MTP block, over a target that
 * keeps its hidden rows. */
#ifndef QW_MTP_H
#define QW_MTP_H

#include "drafter.h"

struct qw_mtp_params {
    struct qw_draft_params draft;
    int context, rows;    /* of the target; rows of its widest step */
    int kv_bits;          /* of the drafter's cache */
    struct qw_kern *attn; /* attention for that cache type; NULL: the target's own */
};

/* Device bytes besides the weights. m was planned with its MTP block. */
int qw_mtp_bytes(uint64_t *bytes, const struct qw_model *m, const struct qw_mtp_params *p,
                 uint64_t max_alloc, struct qw_err *err);
/* t was opened with hidden rows. Model, target and kernels outlive the drafter. */
int qw_mtp_open(struct qw_drafter **out, const struct qw_model *m, struct qw_target *t,
                const struct qw_mtp_params *p, struct qw_err *err);
/* Wait and read what the last pass of a proposal made, for tests: logits [n_vocab], only
 * with p_min > 0 (else NULL), and the hidden row [n_embd] that goes into the next. */
int qw_mtp_read(struct qw_drafter *d, float *logits, float *hidden, struct qw_err *err);
#endif
