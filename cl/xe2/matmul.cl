/* SPDX-License-Identifier: MIT */
/* qw_matmul_L_x<n>: what the generic qw_matmul_L computes, with its arguments, on the matrix unit;
 * <n> rows at a time (1, 8 or 16), for which each weight is read once. K is a multiple of 256.
 * dpas: qw_matmul_*
 * Layout: w as in blocks.clh. Four-bit weights go to the unit as they lie (QW_INT4: layouts x4_*, int8 x
 * int4) or are unpacked from the generic layouts (QW_INT8: q4_*, int8 x int8); all others are int8 x
 * int8 from the generic layouts.
 * Launch: (tile, 1, i): a work-group of 16 x P items, sub-group p makes partial p of the tile's 16
 * columns. Group i of n in dimension 2 makes row tiles i, i + n, ...
 * Order of sums: as the generic kernel's (P partials of groups of 256, blocks ascending, p0 + p1 + ...).
 * Sums of activations, for offsets and minima, are products with a constant B: exact as well. */

/* P partials are at most this many; QW_PARTIALS gives no more */
#define QW_X_PARTIALS 8

#define QW_ARGS                                                                                \
    global const uchar *w, global const char *q, global const float *scale,                    \
        global const int *sum, global float *y, global const int *cycle, int K, int N,         \
        int ldy, int y0, int mode

typedef int qw_int_1;
typedef int8 qw_int_8;
typedef float qw_float_1;
typedef float8 qw_float_8;
#define qw_to_float_1 convert_float
#define qw_to_float_8 convert_float8

/* the scale of block j for the rows of tile t */
#define QW_SA_1(t, j) sa[t][j]
#define QW_SA_8(t, j)                                                                          \
    (float8)(sa[8 * (t)][j], sa[8 * (t) + 1][j], sa[8 * (t) + 2][j], sa[8 * (t) + 3][j],       \
             sa[8 * (t) + 4][j], sa[8 * (t) + 5][j], sa[8 * (t) + 6][j], sa[8 * (t) + 7][j])

void qw_keep_1(local float *part, float v)
{
    part[0] = v;
}

void qw_keep_8(local float *part, float8 v)
{
    part[0] = v.s0, part[16] = v.s1, part[32] = v.s2, part[48] = v.s3;
    part[64] = v.s4, part[80] = v.s5, part[96] = v.s6, part[112] = v.s7;
}

/* ---- scales of a group: sw[j], and mw[j] with a minimum; ws points at them ---- */

#define QW_SCALES_D                                                                            \
    float sw[8];                                                                               \
    vstore8(qw_read_half8(ws), 0, sw);
#define QW_SCALES_DM                                                                           \
    QW_SCALES_D                                                                                \
    float mw[8];                                                                               \
    vstore8(qw_read_half8(ws + 256), 0, mw);
#define QW_SCALES_K                                                                            \
    float sw[8], mw[8];                                                                        \
    vstore8(qw_read_half(ws + 256) * convert_float8(qw_read_uchar8(ws)), 0, sw);               \
    vstore8(-(qw_read_half(ws + 288) * convert_float8(qw_read_uchar8(ws + 128))), 0, mw);
#define QW_SCALES_6                                                                            \
    const float d = qw_read_half(ws + 256);                                                    \
    const float sw[8] = {d, d, d, d, d, d, d, d};                                              \
    ushort sc[8];                                                                              \
    vstore8(qw_read_ushort8(ws), 0, sc);

#define QW_SCALES_x4_0 QW_SCALES_D
#define QW_SCALES_q4_0 QW_SCALES_D
#define QW_SCALES_q8_0 QW_SCALES_D
#define QW_SCALES_x4_1 QW_SCALES_DM
#define QW_SCALES_q4_1 QW_SCALES_DM
#define QW_SCALES_q8_1 QW_SCALES_DM
#define QW_SCALES_x4_k QW_SCALES_K
#define QW_SCALES_q4_k QW_SCALES_K
#define QW_SCALES_q8_k QW_SCALES_K
#define QW_SCALES_q6_k QW_SCALES_6

/* ---- the weights of block j as B; wb points at them ---- */

#define QW_B_4 const uint4 b = qw_read_uint4(wb);
#define QW_B_44                                                                                \
    const uint4 b4 = qw_read_uint4(wb);                                                        \
    const uint8 b = qw_join(b4 & 0x0f0f0f0fu, (b4 >> 4) & 0x0f0f0f0fu);
#define QW_B_8 const uint8 b = qw_read_uint8(wb);
/* 0..63; the two halves are products of their own, as each has its scale */
#define QW_B_6                                                                                 \
    const uint4 b4 = qw_read_uint4(wb);                                                        \
    const uint2 high = qw_read_uint2(wb + 256);                                                \
    const uint4 b0 = (b4 & 0x0f0f0f0fu) | QW_HIGH(high.x);                                     \
    const uint4 b1 = ((b4 >> 4) & 0x0f0f0f0fu) | QW_HIGH(high.y);
#define QW_HIGH(h) ((uint4)((h) << 4, (h) << 2, (h), (h) >> 2) & 0x30303030u)

#define QW_B_x4_0 QW_B_4
#define QW_B_x4_1 QW_B_4
#define QW_B_x4_k QW_B_4
#define QW_B_q4_0 QW_B_44
#define QW_B_q4_1 QW_B_44
#define QW_B_q4_k QW_B_44
#define QW_B_q8_0 QW_B_8
#define QW_B_q8_1 QW_B_8
#define QW_B_q8_k QW_B_8
#define QW_B_q6_k QW_B_6

/* ---- integer products of block j (half h of a[t]) with M rows ---- */

#define QW_ZERO(M) (qw_int_##M)(0)
#define QW_INT_x4_0(M) qw_dpas##M##_i4(a[t], h, b, QW_ZERO(M))
#define QW_INT_x4_1(M) qw_dpas##M##_u4(a[t], h, b, QW_ZERO(M))
#define QW_INT_x4_k(M) QW_INT_x4_1(M)
#define QW_INT_q8_0(M) qw_dpas##M##_i8(a[t], h, b, QW_ZERO(M))
#define QW_INT_q8_1(M) QW_INT_q8_0(M)
#define QW_INT_q8_k(M) QW_INT_q8_0(M)
#define QW_INT_q4_1(M) QW_INT_q8_0(M)
#define QW_INT_q4_k(M) QW_INT_q8_0(M)
/* 0..15 less 8 */
#define QW_INT_q4_0(M)                                                                         \
    qw_dpas##M##_i8(a[t], h, b, qw_dpas##M##_i8(a[t], h, (uint8)(0xf8f8f8f8u), QW_ZERO(M)))
/* 0..63 less 32, by halves */
#define QW_HALF_LO(x) qw_join(x, (uint4)(0))
#define QW_HALF_HI(x) qw_join((uint4)(0), x)
#define QW_HALF(M, part, x)                                                                    \
    qw_dpas##M##_i8(a[t], h, part(x),                                                          \
                    qw_dpas##M##_i8(a[t], h, part((uint4)(0xe0e0e0e0u)), QW_ZERO(M)))
#define QW_INT_q6_k(M)                                                                         \
    (int)(char)sc[j] * QW_HALF(M, QW_HALF_LO, b0) +                                            \
        ((int)(short)sc[j] >> 8) * QW_HALF(M, QW_HALF_HI, b1)

/* sums of the activations of the block */
#define QW_SUM_4(M) qw_dpas##M##_u4(a[t], h, (uint4)(0x11111111u), QW_ZERO(M))
#define QW_SUM_8(M) qw_dpas##M##_i8(a[t], h, (uint8)(0x01010101u), QW_ZERO(M))

#define QW_ADD(L, M)                                                                           \
    acc[t] = fma(qw_to_float_##M(QW_INT_##L(M)), sw[j] * QW_SA_##M(t, j), acc[t]);
#define QW_ADD_MIN(L, M, S)                                                                    \
    QW_ADD(L, M)                                                                               \
    acc[t] = fma(qw_to_float_##M(S(M)), mw[j] * QW_SA_##M(t, j), acc[t]);

#define QW_ADD_x4_0(M) QW_ADD(x4_0, M)
#define QW_ADD_x4_1(M) QW_ADD_MIN(x4_1, M, QW_SUM_4)
#define QW_ADD_x4_k(M) QW_ADD_MIN(x4_k, M, QW_SUM_4)
#define QW_ADD_q4_0(M) QW_ADD(q4_0, M)
#define QW_ADD_q4_1(M) QW_ADD_MIN(q4_1, M, QW_SUM_8)
#define QW_ADD_q4_k(M) QW_ADD_MIN(q4_k, M, QW_SUM_8)
#define QW_ADD_q8_0(M) QW_ADD(q8_0, M)
#define QW_ADD_q8_1(M) QW_ADD_MIN(q8_1, M, QW_SUM_8)
#define QW_ADD_q8_k(M) QW_ADD_MIN(q8_k, M, QW_SUM_8)
#define QW_ADD_q6_k(M) QW_ADD(q6_k, M)

/* ---- the kernels: T tiles of M rows ---- */

#define QW_MATMUL_X(L, M, T, n)                                                                \
    QW_SG16 kernel void qw_matmul_##L##_x##n(QW_ARGS)                                          \
    {                                                                                          \
        local float part[QW_X_PARTIALS * n * 16];                                              \
        const int lane = qw_lane(), p = qw_sub_group(), P = (int)get_local_size(1);            \
        const int tile = (int)get_group_id(0), rows = cycle[QW_CYC_ROWS], groups = K / 256;    \
        w += (size_t)tile * groups * QW_GROUP_##L;                                             \
        y += y0 + (mode == QW_TOP ? 2 : 16) * tile;                                            \
        for (int r = n * (int)get_group_id(2); r < rows; r += n * (int)get_num_groups(2)) {    \
            qw_float_##M acc[T];                                                               \
            QW_UNROLL                                                                          \
            for (int t = 0; t < T; t++)                                                        \
                acc[t] = 0.0f;                                                                 \
            for (int g = p; g < groups; g += P) {                                              \
                global const uchar *wg = w + (size_t)g * QW_GROUP_##L;                         \
                global const uchar *ws = wg + 8 * QW_BLOCK_##L;                                \
                float sa[n][8];                                                                \
                QW_UNROLL                                                                      \
                for (int i = 0; i < n; i++) /* dead rows repeat the last live one */           \
                    vstore8(vload8(g, scale + (size_t)min(r + i, rows - 1) * (K / 32)), 0,     \
                            sa[i]);                                                            \
                QW_SCALES_##L                                                                  \
                QW_UNROLL                                                                      \
                for (int pair = 0; pair < 4; pair++) {                                         \
                    qw_a##M a[T];                                                              \
                    QW_UNROLL                                                                  \
                    for (int t = 0; t < T; t++)                                                \
                        a[t] = qw_read_a##M(q, K, rows, r + M * t, 256 * g + 64 * pair);       \
                    QW_UNROLL                                                                  \
                    for (int h = 0; h < 2; h++) {                                              \
                        const int j = 2 * pair + h;                                            \
                        global const uchar *wb = wg + QW_BLOCK_##L * j;                        \
                        QW_B_##L                                                               \
                        QW_UNROLL                                                              \
                        for (int t = 0; t < T; t++) {                                          \
                            QW_ADD_##L(M)                                                      \
                        }                                                                      \
                    }                                                                          \
                }                                                                              \
            }                                                                                  \
            QW_UNROLL                                                                          \
            for (int t = 0; t < T; t++)                                                        \
                qw_keep_##M(part + (p * n + M * t) * 16 + lane, acc[t]);                       \
            qw_finish_group(part, P, n, min(rows - r, n), lane, p, y + (size_t)r * ldy, ldy,   \
                            N - 16 * tile, mode);                                              \
        }                                                                                      \
    }
#define QW_MATMUL(L)                                                                           \
    QW_MATMUL_X(L, 1, 1, 1)                                                                    \
    QW_MATMUL_X(L, 8, 1, 8)                                                                    \
    QW_MATMUL_X(L, 8, 2, 16)

#if QW_INT4
QW_MATMUL(x4_0)
QW_MATMUL(x4_1)
QW_MATMUL(x4_k)
#endif
#if QW_INT8
QW_MATMUL(q4_0)
QW_MATMUL(q4_1)
QW_MATMUL(q4_k)
#endif
QW_MATMUL(q8_0)
QW_MATMUL(q8_1)
QW_MATMUL(q8_k)
QW_MATMUL(q6_k)
