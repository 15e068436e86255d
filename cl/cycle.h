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
    QW_CYC_SPARE,
    QW_CYC_IDS /* the rows' token ids follow */
};

enum {
    QW_KV_TILE = 16,     /* positions side by side in the K cache */
    QW_ATTN_BLOCK = 128, /* positions of one partial softmax: part of the order of sums */
    QW_ARGMAX_CHUNK = 2048,
    QW_CONV_RING = 64 /* rows of pre-convolution history, indexed by position */
};
#endif
