/* SPDX-License-Identifier: MIT */
/* kern_ref.h - what kernels compute, as host loops. Each exists twice: _f in f32 with the
 * written order of sums (equal bit for bit) and _d in double with libm (near). */
#ifndef KERN_REF_H
#define KERN_REF_H

#include <stdbool.h>
#include <stdint.h>

struct ref_gdn {
    int nk, nv, dk, ldu, z0, a0, b0;
    float eps;
    const float *dt, *a, *w;
};

/* Cache contents [position][kv head][hd]: values, or int8 with scales of 32. */
struct ref_kv {
    int heads, hd, bits;
    float *val, *scale;
    int8_t *q;
};

#define REF_DECLARE(R, S)                                                                \
    R ref_exp_##S(R x);                                                                  \
    R ref_log1p_##S(R y);                                                                \
    void ref_norm_##S(const float *x, const float *w, int n, int items, float eps,       \
                      R *y);                                                             \
    void ref_swiglu_##S(const float *g, const float *u, int n, R *y);                    \
    /* one head of one row; hist: the row's column 0 of u, earlier rows ld before it */  \
    void ref_conv_##S(const float *hist, int ld, const float *w, int width, int taps,    \
                      int pos, int dk, bool normed, float eps, R *y);                    \
    /* one row of one head; S [value][key], y [dk] */                                    \
    void ref_gdn_##S(const struct ref_gdn *g, int head, const float *c, const float *u,  \
                     R *S_, R *y);                                                       \
    /* norm and rotation of a head in place of qw_qk; w NULL: a copy */                  \
    void ref_rotate_##S(const float *x, const float *w, const float *cs, int hd,         \
                        int n_rot, float eps, R *y);                                     \
    void ref_hadamard_##S(R *x, int n, int size, R factor);                              \
    /* one head of one row: positions from .. to - 1; q or (q8, qs); gate may be NULL */ \
    void ref_attn_##S(const struct ref_kv *k, const struct ref_kv *v, int kv, int from,  \
                      int to, const float *q, const int8_t *q8, const float *qs,         \
                      const float *gate, R *y);
REF_DECLARE(float, f)
REF_DECLARE(double, d)
#endif
