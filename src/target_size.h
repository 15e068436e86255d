/* SPDX-License-Identifier: MIT */
/* target_size.h - how large every buffer of a target is, known before anything is
 * allocated; shared by target.c and target_size.c. */
#ifndef QW_TARGET_SIZE_H
#define QW_TARGET_SIZE_H

#include "target.h"

/* One slot per buffer of a step. A table of (size, buffer) drives both planning and
 * allocation. */
enum {
    CYCLE,      /* block of cycle.h: the step's rows */
    HEAD_CYCLE, /* the same for the head's rows */
    DRAFT,      /* block of cycle.h: what a drafter proposes */
    X,          /* [rows][E] residual stream */
    Y,          /* [rows][ld] products of sibling matrices */
    C,          /* [rows][2 kd + vd] after the convolution */
    O,          /* [rows][vd] scratch of qw_gdn */
    SPEC_S,     /* scratch of one S, for rows that may be refused */
    Q,          /* [rows][heads][hd] queries */
    QSCALE,
    ML, /* partial attention results */
    PO,
    CS,     /* [rows][n_rot] cos and sin */
    LOGITS, /* [head rows][cols] */
    PART,   /* argmax scratch */
    BEST,   /* [head rows][2] */
    AQ,     /* activations [rows][max K]: int8, scale, sum, f32 */
    ASCALE,
    ASUM,
    AF,
    FQ, /* features [rows][taps E]: the same; and normed hidden rows [rows][E] */
    FSCALE,
    FSUM,
    FF,
    HIDDEN,
    N_WORK
};

struct target_sizes {
    struct qw_state_sizes state;
    struct qw_attn_shape attn; /* columns are filled in layer by layer */
    int context, prefill, verify, head_rows, rope_page, n_rope;
    int rows;               /* the buffers hold: those of the widest step */
    uint64_t bytes[N_WORK]; /* 0: not needed */
    struct qw_budget budget;
};

int target_sizes(struct target_sizes *z, const struct qw_model *m,
                 const struct qw_target_params *p, uint64_t max_alloc,
                 struct qw_err *err);
/* QW_EDEVICE when the sizes exceed what dev has free. */
int target_refuse(const struct target_sizes *z, const struct qw_model *m,
                  const struct qw_target_params *p, const struct qw_dev *dev,
                  struct qw_err *err);
#endif
