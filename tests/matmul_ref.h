/* SPDX-License-Identifier: MIT */
/* matmul_ref.h - random weights and activations, and their product as host loops that
 * read the file's blocks: the one order of sums of MODEL.md section 6, bit for bit. */
#ifndef MATMUL_REF_H
#define MATMUL_REF_H

#include <stddef.h>
#include <stdint.h>

extern unsigned long long mr_seed;

/* Blocks of a type: any bits in the quants, sensible scales, some of them subnormal. */
void mr_random_rows(uint32_t type, unsigned char *w, size_t n_blocks);
size_t mr_row_bytes(uint32_t type, int K);

/* Rows of K activations as products read them (ops.h). */
struct mr_acts {
    int rows, K;
    float *x;     /* [rows][K] */
    int8_t *q;    /* x, rounded */
    float *scale; /* [rows][K / 32] */
    int32_t *sum; /* [rows][K / 32] */
};
/* Random rows; every fifth block has the largest sums there can be. */
void mr_acts_random(struct mr_acts *a, int rows, int K);
void mr_acts_free(struct mr_acts *a);

/* y[r][n] = w[n] . a[r] for N rows of a type; y has rows of ldy. */
void mr_product(uint32_t type, const unsigned char *w, int N, const struct mr_acts *a,
                float *y, int ldy);
#endif
