/* SPDX-License-Identifier: MIT */
/* quant.h - block formats of GGUF: the numeric truth for tests and repacking. Ids are
 * ggml's. */
#ifndef QW_QUANT_H
#define QW_QUANT_H

#include "base.h"

enum qw_type {
    QW_F32 = 0,
    QW_F16 = 1,
    QW_Q4_0 = 2,
    QW_Q4_1 = 3,
    QW_Q5_0 = 6,
    QW_Q5_1 = 7,
    QW_Q8_0 = 8,
    QW_Q4_K = 12,
    QW_Q5_K = 13,
    QW_Q6_K = 14,
    QW_BF16 = 30
};

struct qw_type_info {
    uint32_t id;
    const char *name;
    uint32_t block; /* elements a block */
    uint32_t bytes; /* bytes a block */
    bool decodes;   /* qw_decode knows it: may be a weight here */
};

/* Row of the table for a ggml id; NULL when the id is unknown or withdrawn. Ids that ggml
 * has but qwenrun cannot use (Q2_K, IQ4_NL, MXFP4, I8, ...) are in the table with decodes
 * = false. */
const struct qw_type_info *qw_type_info(uint32_t id);

/* n elements (whole blocks) at src (unaligned) -> dst; false when the type is not one of
 * the eleven. */
bool qw_decode(uint32_t type, const void *src, float *dst, size_t n);
/* n floats -> blocks at dst; the reference quantisers (F32, F16, BF16, Q8_0, Q4_0). */
bool qw_encode(uint32_t type, const float *src, void *dst, size_t n);

float qw_half_to_float(uint16_t h); /* exact */
uint16_t qw_float_to_half(float f); /* to nearest even, overflow to infinity */

/* Activation rounding, x86 rule of llama.cpp: id = 127 / max|x|, q = round-half-even(x *
 * id), scale = float(half(max|x| / 127)). A block of 32; an all-zero block gives zeros.
 */
void qw_quant_act(const float x[32], int8_t q[32], float *scale);
#endif
