/* SPDX-License-Identifier: MIT */
/* qw_matmul_L_c<n>, qw_matmul_L_g<n>: y[r][y0 + n] = W[n] . a[r] for the live rows and N rows of W in
 * layout L. mode QW_ADD_TO: y +=; mode QW_TOP: only the best of a tile's 16 columns is kept, y is int2
 * [rows][ldy / 2] = (ordered value, column in the tile) per tile from y0 / 2 on (qw_better).
 * c: CPU shape, g: GPU shape; <n> rows at a time (c4: up to 8).
 * Layout: w as in blocks.clh; a in blocks of 32: q [rows][K/32][32] chars, scale [rows][K/32] f32,
 * sum [rows][K/32]: the integer sums of the two half blocks, the first in the low 16 bits; for f32
 * weights ([K][16] floats a tile) a [rows][K] f32; y [rows][ldy].
 * Launch: (tile, 1, i): CPU one item each; GPU a work-group of 16 x P items, item (lane, p) = partial
 * p of row lane of the tile. Group i of n in dimension 2 makes row tiles i, i + n, ...: with n = 1
 * the weights are read from memory once. Groups beyond the live rows leave at once.
 * Order of sums, the same for every layout, shape and width: K in groups of 256, P partials
 * (QW_PARTIALS); partial p takes groups p, p + P, ...; in a group blocks of 32 ascending, each
 *   acc = fma((float)isum, sw * sa, acc); with a minimum then acc = fma((float)asum, m * sa, acc);
 * f32 weights: element by element, acc = fma(w, a, acc). Then p0 + p1 + ... in index order. */
#define QW_R1(X, a) X(0, a)
#define QW_R2(X, a) QW_R1(X, a) X(1, a)
#define QW_R4(X, a) QW_R2(X, a) X(2, a) X(3, a)

#define QW_ARGS                                                                                \
    global const uchar *w, global const char *q, global const float *scale,                    \
        global const int *sum, global float *y, global const int *cycle, int K, int N,         \
        int ldy, int y0, int mode

#if QW_CPU
/* ---- CPU shape: 8 rows of W (half h of the tile) are the lanes; names end in the row of a. Rows
 * have names, not indices: arrays of vectors would live in memory. ---- */

/* integer sums i<r> of block wb */
#define QW_W(j) (((global const int8 *)wb)[2 * (j) + h])
#define QW_ZERO(r, t) t##r = 0;
#define QW_SUM(r, op) i##r op qw_sum(s##r);

#define QW_NIBBLE(r, j) s##r += qw_mul_u8(lo, q##r[j]) + qw_mul_u8(hi, q##r[4 + (j)]);
#define QW_NIBBLES(R, j)                                                                       \
    {                                                                                          \
        const int8 x = QW_W(j);                                                                \
        const int8 lo = x & 0x0f0f0f0f;                                                        \
        const int8 hi = (x >> 4) & 0x0f0f0f0f;                                                 \
        R(QW_NIBBLE, j)                                                                        \
    }
#define QW_INT_q4_1(R)                                                                         \
    QW_NIBBLES(R, 0) QW_NIBBLES(R, 1) QW_NIBBLES(R, 2) QW_NIBBLES(R, 3) R(QW_SUM, =)
#define QW_INT_q4_k QW_INT_q4_1
#define QW_LESS_8(r, _) i##r += qw_mul_16((int8)(-458760), (int8)(a##r[0])); /* -8, -8 */
#define QW_INT_q4_0(R) QW_INT_q4_1(R) R(QW_LESS_8, )

#define QW_UBYTE(r, j) s##r += qw_mul_u8(x, q##r[j]);
#define QW_UBYTES(R, j)                                                                        \
    {                                                                                          \
        const int8 x = QW_W(j);                                                                \
        R(QW_UBYTE, j)                                                                         \
    }
#define QW_INT_q8_1(R)                                                                         \
    QW_UBYTES(R, 0) QW_UBYTES(R, 1) QW_UBYTES(R, 2) QW_UBYTES(R, 3) R(QW_SUM, =) R(QW_ZERO, s) \
    QW_UBYTES(R, 4) QW_UBYTES(R, 5) QW_UBYTES(R, 6) QW_UBYTES(R, 7) R(QW_SUM, +=)
#define QW_INT_q8_k QW_INT_q8_1

#define QW_SBYTE(r, j) i##r += qw_mul_i8(x, q##r[j]);
#define QW_SBYTES(R, j)                                                                        \
    {                                                                                          \
        const int8 x = QW_W(j);                                                                \
        R(QW_SBYTE, j)                                                                         \
    }
#define QW_INT_q8_0(R)                                                                         \
    QW_SBYTES(R, 0) QW_SBYTES(R, 1) QW_SBYTES(R, 2) QW_SBYTES(R, 3)                            \
    QW_SBYTES(R, 4) QW_SBYTES(R, 5) QW_SBYTES(R, 6) QW_SBYTES(R, 7)

/* 0..63, less 32 by the sums of a; two dwords at a time, more would not fit 16 bits */
#define QW_SIX(r, k) s##r = qw_mul_u8(u, q##r[k]) + qw_mul_u8(v, q##r[(k) + 1]);
#define QW_SIX_SUM(r, sc) i##r += qw_sum_scaled(s##r, sc);
#define QW_SIXES(R, k, j, shift, high, sc)                                                     \
    {                                                                                          \
        const int8 x = QW_W(j), z = QW_W((j) + 1);                                             \
        const int8 u = ((x >> shift) & 0x0f0f0f0f) | (((high >> (2 * (j))) & 0x03030303) << 4); \
        const int8 v =                                                                         \
            ((z >> shift) & 0x0f0f0f0f) | (((high >> (2 * (j) + 2)) & 0x03030303) << 4);       \
        R(QW_SIX, k)                                                                           \
        R(QW_SIX_SUM, sc)                                                                      \
    }
#define QW_LESS_32(r, _) i##r += qw_mul_16(offset, (int8)(a##r[0]));
#define QW_INT_q6_k(R)                                                                         \
    {                                                                                          \
        const int8 sc = convert_int8(vload8(2 * b + h, (global const ushort *)ws));            \
        const int8 c0 = (sc << 24) >> 24, c1 = (sc << 16) >> 24;                               \
        const int8 p0 = qw_pair(c0, c0), p1 = qw_pair(c1, c1);                                 \
        const int8 offset = qw_pair(-32 * c0, -32 * c1), h0 = QW_W(4), h1 = QW_W(5);           \
        QW_SIXES(R, 0, 0, 0, h0, p0)                                                           \
        QW_SIXES(R, 2, 2, 0, h0, p0)                                                           \
        QW_SIXES(R, 4, 0, 4, h1, p1)                                                           \
        QW_SIXES(R, 6, 2, 4, h1, p1)                                                           \
        R(QW_LESS_32, )                                                                        \
    }

/* scale, and minimum, of the block */
#define QW_SCALE_q4_0 const float8 sw = qw_half8(ws + 32 * b + 16 * h);
#define QW_SCALE_q8_0 QW_SCALE_q4_0
#define QW_SCALE_q4_1 QW_SCALE_q4_0 const float8 m = qw_half8(ws + 256 + 32 * b + 16 * h);
#define QW_SCALE_q8_1 QW_SCALE_q4_1
#define QW_SCALE_q4_k                                                                          \
    const float8 sw = qw_half8(ws + 256 + 16 * h) * convert_float8(vload8(2 * b + h, ws));     \
    const float8 m =                                                                           \
        -(qw_half8(ws + 288 + 16 * h) * convert_float8(vload8(2 * b + h, ws + 128)));
#define QW_SCALE_q8_k QW_SCALE_q4_k
#define QW_SCALE_q6_k const float8 sw = qw_half8(ws + 256 + 16 * h);

#define QW_ADD(r, n) acc[h * n + r] = fma(convert_float8(i##r), sw * d##r[0], acc[h * n + r]);
#define QW_ADD_MIN(r, n)                                                                       \
    {                                                                                          \
        const float8 t = fma(convert_float8(i##r), sw * d##r[0], acc[h * n + r]);              \
        const int8 asum = qw_mul_16((int8)(65537), (int8)(a##r[0]));                           \
        acc[h * n + r] = fma(convert_float8(asum), m * d##r[0], t);                            \
    }
#define QW_ADD_q4_0 QW_ADD
#define QW_ADD_q8_0 QW_ADD
#define QW_ADD_q6_k QW_ADD
#define QW_ADD_q4_1 QW_ADD_MIN
#define QW_ADD_q8_1 QW_ADD_MIN
#define QW_ADD_q4_k QW_ADD_MIN
#define QW_ADD_q8_k QW_ADD_MIN

/* dead rows repeat the last live one and are not stored */
#define QW_ROW(r, _)                                                                           \
    const size_t at##r = (size_t)min(r, live - 1) * (K / 32);                                  \
    global const int *q##r = (global const int *)q + 8 * at##r;                                \
    global const float *d##r = scale + at##r;                                                  \
    global const int *a##r = sum + at##r;
#define QW_NEXT(r, _) q##r += 8, d##r++, a##r++;
#define QW_DECLARE(r, _)                                                                       \
    int8 i##r = (int8)(0);                                                                     \
    qw_part8 s##r = (qw_part8)(0);

/* Add the partials up and store the product of n rows with a tile that has N rows. */
void qw_finish(const float8 *all, int P, int n, int live, global float *y, int ldy, int N, int mode)
{
    for (int r = 0; r < live; r++) {
        int2 top = QW_NOTHING;
        for (int h = 0; h < 2; h++) {
            float8 v = all[h * n + r];
            float each[8];
            for (int p = 1; p < P; p++)
                v += all[(2 * p + h) * n + r];
            global float *out = y + (size_t)r * ldy + 8 * h;
            if (mode != QW_TOP && 8 * h + 8 <= N) {
                vstore8(mode == QW_ADD_TO ? vload8(0, out) + v : v, 0, out);
                continue;
            }
            vstore8(v, 0, each);
            for (int i = 0; i < min(8, N - 8 * h); i++)
                if (mode == QW_TOP)
                    top = qw_better(top, qw_key(each[i], 8 * h + i));
                else
                    out[i] = mode == QW_ADD_TO ? out[i] + each[i] : each[i];
        }
        if (mode == QW_TOP)
            *(global int2 *)(y + (size_t)r * ldy) = top;
    }
}

#define QW_HALF(L, n, half)                                                                    \
    {                                                                                          \
        enum { h = half };                                                                     \
        QW_R##n(QW_DECLARE, )                                                                  \
        QW_INT_##L(QW_R##n)                                                                    \
        QW_SCALE_##L                                                                           \
        QW_R##n(QW_ADD_##L, n)                                                                 \
    }
#define QW_ROWS(L, n)                                                                          \
    void qw_rows_##L##_##n(global const uchar *w, global const char *q,                        \
                           global const float *scale, global const int *sum, global float *y,  \
                           int live, int K, int N, int ldy, int mode)                           \
    {                                                                                          \
        const int P = QW_PARTIALS(K);                                                          \
        float8 all[QW_MAX_PARTIALS * 2 * n];                                                   \
        for (int i = 0; i < P * 2 * n; i++)                                                    \
            all[i] = 0.0f;                                                                     \
        QW_R##n(QW_ROW, )                                                                      \
        for (int k = 0, p = 0; k < K; k += 256, p = p + 1 == P ? 0 : p + 1) {                  \
            float8 *acc = all + 2 * p * n;                                                     \
            const int blocks = min(8, (K - k) / 32);                                           \
            global const uchar *ws = w + 8 * QW_BLOCK_##L;                                     \
            for (int b = 0; b < blocks; b++) {                                                 \
                global const uchar *wb = w + QW_BLOCK_##L * b;                                 \
                global const uchar *ahead = w + 2 * QW_GROUP_##L + QW_GROUP_##L / 8 * b;       \
                for (int i = 0; i < QW_GROUP_##L / 8; i += 64)                                 \
                    QW_PREFETCH(ahead + i);                                                    \
                QW_HALF(L, n, 0)                                                               \
                QW_HALF(L, n, 1)                                                               \
                QW_R##n(QW_NEXT, )                                                             \
            }                                                                                  \
            w += QW_GROUP_##L;                                                                 \
        }                                                                                      \
        qw_finish(all, P, n, live, y, ldy, N, mode);                                            \
    }

#define QW_CALL(L, n)                                                                          \
    qw_rows_##L##_##n(w, q + (size_t)r * K, scale + (size_t)r * (K / 32),                      \
                      sum + (size_t)r * (K / 32), y + (size_t)r * ldy, min(rows - r, n), K,    \
                      N - 16 * tile, ldy, mode)

#define QW_MATMUL(L)                                                                           \
    QW_ROWS(L, 1)                                                                              \
    QW_ROWS(L, 2)                                                                              \
    QW_ROWS(L, 4)                                                                              \
    kernel __attribute__((reqd_work_group_size(1, 1, 1))) void qw_matmul_##L##_c(QW_ARGS)      \
    {                                                                                          \
        const int tile = (int)get_group_id(0), rows = cycle[QW_CYC_ROWS];                                \
        w += (size_t)tile * ((K + 255) / 256) * QW_GROUP_##L;                                  \
        y += y0 + (mode == QW_TOP ? 2 : 16) * tile;                                            \
        for (int r = 4 * (int)get_group_id(2); r < rows; r += 4 * (int)get_num_groups(2)) {    \
            if (rows - r == 1)                                                                 \
                QW_CALL(L, 1);                                                                 \
            else if (rows - r == 2)                                                            \
                QW_CALL(L, 2);                                                                 \
            else                                                                               \
                QW_CALL(L, 4);                                                                 \
        }                                                                                      \
    }

QW_MATMUL(q4_0)
QW_MATMUL(q4_1)
QW_MATMUL(q4_k)
QW_MATMUL(q8_0)
QW_MATMUL(q8_1)
QW_MATMUL(q8_k)
QW_MATMUL(q6_k)

/* f32 weights: n rows of a with 16 rows of W; the partials live in memory, one group at a time in
 * registers. */
#define QW_F32_ROW(r, _) global const float *a##r = a + (size_t)min(r, live - 1) * K;
#define QW_F32_LOAD(r, n) float8 u##r = acc[r], v##r = acc[n + r];
#define QW_F32_KEEP(r, n) acc[r] = u##r, acc[n + r] = v##r;
#define QW_F32_STEP(r, _) u##r = fma(lo, (float8)(a##r[k]), u##r), v##r = fma(hi, (float8)(a##r[k]), v##r);
#define QW_F32_AHEAD 64 /* columns */
#define QW_F32_ROWS(n)                                                                         \
    void qw_rows_f32_##n(global const float8 *w, global const float *a, global float *y,       \
                         int live, int K, int N, int ldy, int mode)                             \
    {                                                                                          \
        const int P = QW_PARTIALS(K);                                                          \
        float8 all[QW_MAX_PARTIALS * 2 * n];                                                   \
        for (int i = 0; i < P * 2 * n; i++)                                                    \
            all[i] = 0.0f;                                                                     \
        QW_R##n(QW_F32_ROW, )                                                                  \
        for (int k0 = 0, p = 0; k0 < K; k0 += 256, p = p + 1 == P ? 0 : p + 1) {               \
            float8 *acc = all + 2 * p * n;                                                     \
            QW_R##n(QW_F32_LOAD, n)                                                            \
            for (int k = k0; k < min(K, k0 + 256); k++) {                                      \
                const float8 lo = w[2 * (size_t)k], hi = w[2 * (size_t)k + 1];                 \
                QW_PREFETCH(w + 2 * (size_t)(k + QW_F32_AHEAD));                               \
                QW_R##n(QW_F32_STEP, )                                                         \
            }                                                                                  \
            QW_R##n(QW_F32_KEEP, n)                                                            \
        }                                                                                      \
        qw_finish(all, P, n, live, y, ldy, N, mode);                                            \
    }
QW_F32_ROWS(1)
QW_F32_ROWS(4)

kernel __attribute__((reqd_work_group_size(1, 1, 1))) void
qw_matmul_f32_c(global const float *w, global const float *a, global float *y,
                global const int *cycle, int K, int N, int ldy, int y0, int mode)
{
    const int tile = (int)get_group_id(0), rows = cycle[QW_CYC_ROWS];
    global const float8 *wt = (global const float8 *)w + (size_t)tile * K * 2;
    y += y0 + (mode == QW_TOP ? 2 : 16) * tile;
    for (int r = 4 * (int)get_group_id(2); r < rows; r += 4 * (int)get_num_groups(2))
        if (rows - r == 1)
            qw_rows_f32_1(wt, a + (size_t)r * K, y + (size_t)r * ldy, 1, K, N - 16 * tile, ldy, mode);
        else
            qw_rows_f32_4(wt, a + (size_t)r * K, y + (size_t)r * ldy, min(rows - r, 4), K,
                          N - 16 * tile, ldy, mode);
}

#else
/* ---- GPU shape: an item is one row of W in one partial ---- */
#define QW_W(j) (((global const int *)wb)[16 * (j) + lane])

/* four products of signed bytes, added to sum */
int qw_dot(int w, int a, int sum)
{
    const char4 x = as_char4(w), y = as_char4(a);
    return sum + x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w;
}

#define QW_NIBBLE(r, j) i##r = qw_dot(hi, q##r[4 + (j)], qw_dot(lo, q##r[j], i##r));
#define QW_NIBBLES(R, j)                                                                       \
    {                                                                                          \
        const int x = QW_W(j), lo = x & 0x0f0f0f0f, hi = (x >> 4) & 0x0f0f0f0f;                \
        R(QW_NIBBLE, j)                                                                        \
    }
#define QW_INT_q4_1(R) QW_NIBBLES(R, 0) QW_NIBBLES(R, 1) QW_NIBBLES(R, 2) QW_NIBBLES(R, 3)
#define QW_INT_q4_k QW_INT_q4_1
#define QW_LESS_8(r, _) i##r -= 8 * (t##r.x + t##r.y);
#define QW_INT_q4_0(R) QW_INT_q4_1(R) R(QW_LESS_8, )

#define QW_BYTE(r, j) i##r = qw_dot(x, q##r[j], i##r);
#define QW_BYTES(R, j)                                                                         \
    {                                                                                          \
        const int x = QW_W(j);                                                                 \
        R(QW_BYTE, j)                                                                          \
    }
#define QW_INT_q8_0(R)                                                                         \
    QW_BYTES(R, 0) QW_BYTES(R, 1) QW_BYTES(R, 2) QW_BYTES(R, 3)                                \
    QW_BYTES(R, 4) QW_BYTES(R, 5) QW_BYTES(R, 6) QW_BYTES(R, 7)
#define QW_INT_q8_1 QW_INT_q8_0
#define QW_INT_q8_k QW_INT_q8_0

#define QW_SIX_ZERO(r, _) int u##r = -32 * t##r.x, v##r = -32 * t##r.y;
#define QW_SIX(r, j) u##r = qw_dot(lo, q##r[j], u##r), v##r = qw_dot(hi, q##r[4 + (j)], v##r);
#define QW_SIXES(R, j)                                                                         \
    {                                                                                          \
        const int x = QW_W(j);                                                                 \
        const int lo = (x & 0x0f0f0f0f) | ((h0 >> (2 * (j))) & 0x03030303) << 4;               \
        const int hi = ((x >> 4) & 0x0f0f0f0f) | ((h1 >> (2 * (j))) & 0x03030303) << 4;        \
        R(QW_SIX, j)                                                                           \
    }
#define QW_SIX_SUM(r, _) i##r = c.x * u##r + c.y * v##r;
#define QW_INT_q6_k(R)                                                                         \
    {                                                                                          \
        const int h0 = QW_W(4), h1 = QW_W(5);                                                  \
        const char2 c = ((global const char2 *)ws)[16 * b + lane];                             \
        R(QW_SIX_ZERO, )                                                                       \
        QW_SIXES(R, 0) QW_SIXES(R, 1) QW_SIXES(R, 2) QW_SIXES(R, 3)                            \
        R(QW_SIX_SUM, )                                                                        \
    }

#define QW_SCALE_q4_0 const float sw = qw_half_at(ws, 16 * b + lane);
#define QW_SCALE_q8_0 QW_SCALE_q4_0
#define QW_SCALE_q4_1 QW_SCALE_q4_0 const float m = qw_half_at(ws + 256, 16 * b + lane);
#define QW_SCALE_q8_1 QW_SCALE_q4_1
#define QW_SCALE_q4_k                                                                          \
    const float sw = qw_half_at(ws + 256, lane) * (float)ws[16 * b + lane];                    \
    const float m = -(qw_half_at(ws + 288, lane) * (float)ws[128 + 16 * b + lane]);
#define QW_SCALE_q8_k QW_SCALE_q4_k
#define QW_SCALE_q6_k const float sw = qw_half_at(ws + 256, lane);

#define QW_ADD(r, _) c##r = fma((float)i##r, sw * d##r[kb], c##r);
#define QW_ADD_MIN(r, _) QW_ADD(r, _) c##r = fma((float)(t##r.x + t##r.y), m * d##r[kb], c##r);
#define QW_ADD_q4_0 QW_ADD
#define QW_ADD_q8_0 QW_ADD
#define QW_ADD_q6_k QW_ADD
#define QW_ADD_q4_1 QW_ADD_MIN
#define QW_ADD_q8_1 QW_ADD_MIN
#define QW_ADD_q4_k QW_ADD_MIN
#define QW_ADD_q8_k QW_ADD_MIN

#define QW_ROW(X, _)                                                                           \
    const size_t at##X = (size_t)min(r + X, rows - 1) * (K / 32);                              \
    global const float *d##X = scale + at##X;                                                  \
    float c##X = 0.0f;
#define QW_BLOCK(X, _)                                                                         \
    global const int *q##X = (global const int *)q + 8 * (at##X + kb);                         \
    const short2 s##X = as_short2(sum[at##X + kb]);                                            \
    const int2 t##X = convert_int2(s##X);                                                      \
    int i##X = 0;
#define QW_KEEP(X, n) part[(p * n + X) * 16 + lane] = c##X;

#define QW_MATMUL_G(L, n)                                                                      \
    kernel void qw_matmul_##L##_g##n(QW_ARGS)                                                  \
    {                                                                                          \
        local float part[QW_MAX_PARTIALS * n * 16];                                            \
        const int lane = (int)get_local_id(0), p = (int)get_local_id(1);                       \
        const int P = (int)get_local_size(1), tile = (int)get_group_id(0), rows = cycle[QW_CYC_ROWS];    \
        w += (size_t)tile * ((K + 255) / 256) * QW_GROUP_##L;                                  \
        y += y0 + (mode == QW_TOP ? 2 : 16) * tile;                                            \
        for (int r = n * (int)get_group_id(2); r < rows; r += n * (int)get_num_groups(2)) {    \
            QW_R##n(QW_ROW, )                                                                  \
            for (int g = p; g < (K + 255) / 256; g += P) {                                     \
                global const uchar *wg = w + (size_t)g * QW_GROUP_##L;                         \
                global const uchar *ws = wg + 8 * QW_BLOCK_##L;                                \
                for (int b = 0; b < min(8, K / 32 - 8 * g); b++) {                             \
                    global const uchar *wb = wg + QW_BLOCK_##L * b;                            \
                    const int kb = 8 * g + b;                                                  \
                    QW_R##n(QW_BLOCK, )                                                        \
                    QW_INT_##L(QW_R##n)                                                        \
                    QW_SCALE_##L                                                               \
                    QW_R##n(QW_ADD_##L, )                                                      \
                }                                                                              \
            }                                                                                  \
            QW_R##n(QW_KEEP, n)                                                                \
            qw_finish_group(part, P, n, min(rows - r, n), lane, p, y + (size_t)r * ldy, ldy,   \
                            N - 16 * tile, mode);                                              \
        }                                                                                      \
    }
#define QW_MATMUL(L)                                                                           \
    QW_MATMUL_G(L, 1)                                                                          \
    QW_MATMUL_G(L, 4)

QW_MATMUL(q4_0)
QW_MATMUL(q4_1)
QW_MATMUL(q4_k)
QW_MATMUL(q8_0)
QW_MATMUL(q8_1)
QW_MATMUL(q8_k)
QW_MATMUL(q6_k)

#define QW_F32_ROW(X, _)                                                                       \
    global const float *a##X = a + (size_t)min(r + X, rows - 1) * K;                           \
    float c##X = 0.0f;
#define QW_F32_STEP(X, _) c##X = fma(x, a##X[k], c##X);
#define QW_MATMUL_F32_G(n)                                                                     \
    kernel void qw_matmul_f32_g##n(global const float *w, global const float *a,               \
                                   global float *y, global const int *cycle, int K, int N,     \
                                   int ldy, int y0, int mode)                                   \
    {                                                                                          \
        local float part[QW_MAX_PARTIALS * n * 16];                                            \
        const int lane = (int)get_local_id(0), p = (int)get_local_id(1);                       \
        const int P = (int)get_local_size(1), tile = (int)get_group_id(0), rows = cycle[QW_CYC_ROWS];    \
        w += (size_t)tile * K * 16 + lane;                                                     \
        y += y0 + (mode == QW_TOP ? 2 : 16) * tile;                                            \
        for (int r = n * (int)get_group_id(2); r < rows; r += n * (int)get_num_groups(2)) {    \
            QW_R##n(QW_F32_ROW, )                                                              \
            for (int g = p; g < (K + 255) / 256; g += P)                                       \
                for (int k = 256 * g; k < min(K, 256 * g + 256); k++) {                        \
                    const float x = w[16 * (size_t)k];                                         \
                    QW_R##n(QW_F32_STEP, )                                                     \
                }                                                                              \
            QW_R##n(QW_KEEP, n)                                                                \
            qw_finish_group(part, P, n, min(rows - r, n), lane, p, y + (size_t)r * ldy, ldy,   \
                            N - 16 * tile, mode);                                              \
        }                                                                                      \
    }
QW_MATMUL_F32_G(1)
QW_MATMUL_F32_G(4)
#endif
