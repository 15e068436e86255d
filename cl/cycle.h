/* SPDX-License-Identifier: MIT */
/* cycle.h - per-step scalars in device memory, ints only; included by C and by kernels.
 * A plan's kernels read one such block: nothing that changes per token is a kernel
 * argument. */
#ifndef QW_CYCLE_H
#define QW_CYCLE_H

enum {
    QW_CYC_ROWS,  /* live rows of this step; rows at or beyond it are dead */
    QW_CYC_POS,   /* absolute position of row 0 */
    QW_CYC_FIRST, /* row of x that row 0 reads (the head reads a tail of the chunk) */
    QW_CYC_SURE,   /* leading rows whose tokens stay whatever happens: the GDN state takes them */
    QW_CYC_STORED, /* position the GDN state is stored as of; the tape has [STORED, POS) */
    QW_CYC_TAP,    /* row of the features that row 0's are written to */
    QW_CYC_IDS /* the rows' token ids follow */
};

/* What a drafter proposes to follow the newest token. */
enum {
    QW_DRAFT_COUNT,
    QW_DRAFT_IDS, /* [QW_MAX_DRAFT] */
};

/* What a verify step found, read back by the host in one piece. */
enum {
    QW_RES_DRAFTED, /* drafted tokens it looked at */
    QW_RES_COUNT,   /* tokens decided: accepted drafts and one more */
    QW_RES_FINITE,  /* 0: a row that decided one of them was not finite */
    QW_RES_IDS,     /* [QW_MAX_DRAFT + 1] */
};

enum {
    QW_MAX_DRAFT = 15, /* tokens drafted in a cycle */
    QW_KV_TILE = 16,     /* positions side by side in the K cache */
    QW_ATTN_BLOCK = 128, /* positions of one partial softmax: part of the order of sums */
    QW_ARGMAX_CHUNK = 2048,
    QW_TAPE_RING = 32, /* GDN tape rows, indexed by position: twice the widest verify step */
    QW_HIDDEN_RING = 32, /* hidden rows a drafter keeps, indexed by position: the same */
    QW_CONV_RING = 64 /* rows of pre-convolution history, indexed by position */
};

/* What a product does with its result. */
enum {
    QW_STORE,
    QW_ADD_TO,
    QW_TOP, /* keep the best of each tile of 16 columns */
};
#endif
