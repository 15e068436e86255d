/* SPDX-License-Identifier: MIT */
/* dflash.h - the DFlash drafter over a target that keeps the features it asks for. */
#ifndef QW_DFLASH_H
#define QW_DFLASH_H

#include "draft_model.h"
#include "drafter.h"

struct qw_dflash_params {
    struct qw_draft_params draft; /* n_max < block_size */
    int context, rows;            /* of the target; rows of its widest step */
    int kv_bits;                  /* of the drafter's cache */
    struct qw_kern *attn; /* attention for its head size and cache type; outlives it */
};

/* Device bytes besides the weights. */
int qw_dflash_bytes(uint64_t *bytes, const struct qw_draft_model *m,
                    const struct qw_model *target, const struct qw_dflash_params *p,
                    uint64_t max_alloc, struct qw_err *err);
/* t was opened with the taps of m->hp. Models, target and kernels outlive the drafter. */
int qw_dflash_open(struct qw_drafter **out, const struct qw_draft_model *m,
                   const struct qw_model *target, struct qw_target *t,
                   const struct qw_dflash_params *p, struct qw_err *err);
/* For tests and scoring: logits [n_max][*ld] of the last proposal, row i those of the
 * token drafted i-th; NULL where none are written (p_min = 0). */
cl_mem qw_dflash_logits(const struct qw_drafter *d, int *ld);
#endif
