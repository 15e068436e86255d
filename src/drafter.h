/* SPDX-License-Identifier: MIT */
/* drafter.h - what proposes tokens for the target to verify. A drafter reads what the
 * target's steps leave on the device, or the tokens so far, and fills the target's draft
 * block; it never touches the target's state. */
#ifndef QW_DRAFTER_H
#define QW_DRAFTER_H

#include "qwenrun.h"
#include "state_kv.h"
#include "target.h"

struct qw_drafter;
/* A layer's keys and values (span.page not NULL), or bytes of a buffer. The span must
 * stay valid as long as the drafter. */
struct qw_draft_part {
    char name[32];
    struct qw_kv_span span;
    cl_mem buf;
    uint64_t at, bytes;
};

struct qw_drafter_ops {
    const char *name;
    /* Enqueue: take in the rows of the target's last step (its cycle block, features and
     * hidden rows), at most `rows`. later: `rows` it is, from position pos on, and no
     * proposal comes next, so the work may wait for more rows. NULL: reads no rows. */
    int (*observe)(struct qw_drafter *d, int rows, int pos, bool later,
                   struct qw_err *err);
    /* Enqueue a proposal into the draft block. On the device (`next` not NULL) it starts
     * from the block `next`: the position and id of the newest token, which is in no
     * cache. Else from the tokens so far, id[n - 1] the newest, and *count is how many it
     * drafted; 0 leaves the block alone. */
    int (*propose)(struct qw_drafter *d, const int32_t *id, size_t n, int *count,
                   struct qw_err *err);
    /* Everything behind position pos is forgotten (0: an empty timeline). NULL: indexed
     * by position, nothing to do. */
    void (*rewind)(struct qw_drafter *d, size_t pos);
    /* What it keeps of the committed positions [0, pos), all of it on the device: *n
     * parts, the array to be freed. NULL: nothing is kept. */
    struct qw_draft_part *(*parts)(struct qw_drafter *d, int pos, int *n);
    /* Enqueue what still waits to be taken in, so that the parts are whole. NULL: none.
     */
    int (*settle)(struct qw_drafter *d, struct qw_err *err);
    /* The plans it runs on the device: "draft" a proposal (or its parts), "inject" what
     * takes in the rows of a verify step. NULL: none. */
    void (*plans)(const struct qw_drafter *d, struct qw_plan_list *out);
    void (*close)(struct qw_drafter *d);
};

struct qw_drafter {
    const struct qw_drafter_ops *ops;
    struct qw_target *target; /* borrowed */
    int n_max;                /* tokens it proposes at most */
    cl_mem next;              /* cycle block of its own plan, or NULL */
};

/* What every drafter may be asked for. */
struct qw_draft_params {
    int n_max, n_min;
    double p_min;
};

/* n-gram (prompt lookup): what followed the longest earlier occurrence of the last
 * tokens. */
int qw_ngram_open(struct qw_drafter **out, struct qw_target *t,
                  const struct qw_draft_params *p, struct qw_err *err);

/* Follows a script (qwenrun.h; borrowed). */
int qw_script_open(struct qw_drafter **out, struct qw_target *t,
                   const struct qw_script *script, int n_max, int n_vocab);

void qw_drafter_close(struct qw_drafter *d); /* NULL is fine */
#endif
