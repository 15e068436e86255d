/* SPDX-License-Identifier: MIT */
/* qw_swiglu: silu(gate) * up for each live row, rounded to activation blocks for the down product.
 * Layout: y [rows][ldy] f32 holds gate at column g0 and up at u0; outputs as in qw_norm.
 * Launch: dimension 0 = blocks of 32 (n/32 of them, any local size), dimension 1 = rows.
 * Element by element: no sums. */
float16 qw_silu16(float16 x)
{
    float16 r;
    r.s0 = qw_silu(x.s0), r.s1 = qw_silu(x.s1), r.s2 = qw_silu(x.s2), r.s3 = qw_silu(x.s3);
    r.s4 = qw_silu(x.s4), r.s5 = qw_silu(x.s5), r.s6 = qw_silu(x.s6), r.s7 = qw_silu(x.s7);
    r.s8 = qw_silu(x.s8), r.s9 = qw_silu(x.s9), r.sa = qw_silu(x.sa), r.sb = qw_silu(x.sb);
    r.sc = qw_silu(x.sc), r.sd = qw_silu(x.sd), r.se = qw_silu(x.se), r.sf = qw_silu(x.sf);
    return r;
}

kernel void qw_swiglu(global const float *y, global const int *cycle, int n, int ldy, int g0, int u0,
                      int want, global qw_act *q, global float *scale, global int *sum,
                      global float *f)
{
    const int b = (int)get_global_id(0), row = (int)get_global_id(1);
    if (row >= cycle[QW_CYC_ROWS] || b >= n / 32)
        return;
    global const float *g = y + (size_t)row * ldy + g0 + 32 * b;
    global const float *u = y + (size_t)row * ldy + u0 + 32 * b;
    const float16 lo = qw_silu16(vload16(0, g)) * vload16(0, u);
    const float16 hi = qw_silu16(vload16(1, g)) * vload16(1, u);
    const size_t block = (size_t)row * (n / 32) + b;
    qw_store_block(lo, hi, block, want, q, scale, sum, f);
}
