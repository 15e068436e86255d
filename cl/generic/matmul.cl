/* SPDX-License-Identifier: MIT */
/* qw_matmul_L_sR: y[r][y0 + n] (+)= sum over k of W[n][k] a[r][k] for N rows of W in layout L, in
 * launch shape s (c: CPU, g: GPU), R activation rows at a time.
 * Layout: w tiles of 16 rows (pack.h); a: quants [rows][K/32][32], scale and sum [rows][K/32] (f32
 * weights: a [rows][K]); y [rows][ldy].
 * Launch: (tile, 1, row tile); CPU: one item each; GPU: a work-group of 16 x P items, item (lane, p)
 * = partial p of row lane of the tile. Dead rows repeat the last live row and are not stored.
 * Order of sums, the same for all (canonical): K in groups of 256, P partials (qw_partials); partial
 * p takes groups p, p + P, ...; in a group blocks of 32 ascending, each
 *   acc = fma((float)(integer sum), sw * sa, acc), then for layouts with a minimum
 *   acc = fma((float)(sum of a), mw * sa, acc);
 * f32 weights: element by element, acc = fma(w, a, acc). Then p0 + p1 + ... in order. */

#define QW_ROWS_1(X) X(0)
#define QW_ROWS_4(X) X(0) X(1) X(2) X(3)

#if QW_CPU
/* ---- CPU shape: 16 rows of W are the lanes. Integer sums run in 16-bit lanes, two a row: even
 * lanes take k, odd ones k + 4 of a pair, so one 32-bit load broadcasts both activations. ---- */

int16 qw_pairs(short16 lo, short16 hi)
{
    const int8 a = as_int8(lo), b = as_int8(hi);
    return (int16)(((a << 16) >> 16) + (a >> 16), ((b << 16) >> 16) + (b >> 16));
}

float16 qw_scales16(global const uchar *p)
{
    return qw_half16((global const ushort *)p);
}

/* Per row r: a##r = its activations as pairs, s##r the sums of the block. */
#define QW_A_DECL(r)                                                                           \
    const int row##r = min(row_first + r, rows - 1);                                           \
    global const int *a##r = (global const int *)(q + (size_t)row##r * K);                     \
    global const float *sa##r = scale + (size_t)row##r * (K / 32);                             \
    global const int *as##r = asum + (size_t)row##r * (K / 32);
#define QW_LOAD(r) float16 c##r = acc[p][r];
#define QW_KEEP(r) acc[p][r] = c##r;
#define QW_BLOCK_ZERO(r) short16 lo##r = 0, hi##r = 0;
#define QW_MUL(r)                                                                              \
    {                                                                                          \
        const short16 av = as_short16((int8)(a##r[at]));                                       \
        lo##r += w0 * av;                                                                      \
        hi##r += w1 * av;                                                                      \
    }

/* Nibbles are unsigned here: 16 products of at most 15 * 127 stay below 2^15. */
#define QW_NIBBLES(R)                                                                          \
    QW_ROWS_##R(QW_BLOCK_ZERO)                                                                 \
    for (int j = 0; j < 4; j++) {                                                              \
        const ushort16 x0 = vload16(2 * j, (global const ushort *)(g + 256 * b));              \
        const ushort16 x1 = vload16(2 * j + 1, (global const ushort *)(g + 256 * b));          \
        QW_NIBBLE_STEP(R, 0)                                                                   \
        QW_NIBBLE_STEP(R, 1)                                                                   \
        QW_NIBBLE_STEP(R, 2)                                                                   \
        QW_NIBBLE_STEP(R, 3)                                                                   \
    }
#define QW_NIBBLE_STEP(R, i)                                                                   \
    {                                                                                          \
        const short16 w0 = as_short16((x0 >> (ushort)(4 * i)) & (ushort)15);                   \
        const short16 w1 = as_short16((x1 >> (ushort)(4 * i)) & (ushort)15);                   \
        const int at = blk * 16 + 4 * j + i;                                                   \
        QW_ROWS_##R(QW_MUL)                                                                    \
    }

#define QW_ADD_q4_0(r)                                                                         \
    c##r = fma(convert_float16(qw_pairs(lo##r, hi##r) - 8 * as##r[blk]), sw * sa##r[blk], c##r);
#define QW_BLOCK_q4_0(R)                                                                       \
    {                                                                                          \
        QW_NIBBLES(R)                                                                          \
        const float16 sw = qw_scales16(g + 2048 + 32 * b);                                     \
        QW_ROWS_##R(QW_ADD_q4_0)                                                               \
    }

#define QW_ADD_MIN(r)                                                                          \
    c##r = fma(convert_float16(qw_pairs(lo##r, hi##r)), sw * sa##r[blk], c##r);                \
    c##r = fma((float16)((float)as##r[blk]), mw * sa##r[blk], c##r);
#define QW_BLOCK_q4_1(R)                                                                       \
    {                                                                                          \
        QW_NIBBLES(R)                                                                          \
        const float16 sw = qw_scales16(g + 2048 + 32 * b), mw = qw_scales16(g + 2304 + 32 * b); \
        QW_ROWS_##R(QW_ADD_MIN)                                                                \
    }
#define QW_BLOCK_q4_k(R)                                                                       \
    {                                                                                          \
        QW_NIBBLES(R)                                                                          \
        const float16 sw =                                                                     \
            qw_scales16(g + 2304) * convert_float16(vload16(0, g + 2048 + 16 * b));            \
        const float16 mw =                                                                     \
            -(qw_scales16(g + 2336) * convert_float16(vload16(0, g + 2176 + 16 * b)));         \
        QW_ROWS_##R(QW_ADD_MIN)                                                                \
    }

/* int8: two products of at most 2^14 fit 16 bits; every two are widened. */
#define QW_BYTES_ZERO(r) int16 n##r = 0;
#define QW_BYTES_MUL(r)                                                                        \
    {                                                                                          \
        const short16 ae = as_short16((int8)(a##r[at])), ao = as_short16((int8)(a##r[at + 1])); \
        n##r += qw_pairs(e0 * ae + o0 * ao, e1 * ae + o1 * ao);                                \
    }
#define QW_BYTES(R)                                                                            \
    QW_ROWS_##R(QW_BYTES_ZERO)                                                                 \
    for (int j = 0; j < 8; j++) {                                                              \
        const short16 x0 = vload16(2 * j, (global const short *)(g + 512 * b));                \
        const short16 x1 = vload16(2 * j + 1, (global const short *)(g + 512 * b));            \
        const short16 e0 = (x0 << (short)8) >> (short)8, o0 = x0 >> (short)8;                  \
        const short16 e1 = (x1 << (short)8) >> (short)8, o1 = x1 >> (short)8;                  \
        const int at = blk * 16 + 2 * j;                                                       \
        QW_ROWS_##R(QW_BYTES_MUL)                                                              \
    }

#define QW_ADD_q8_0(r) c##r = fma(convert_float16(n##r), sw * sa##r[blk], c##r);
#define QW_BLOCK_q8_0(R)                                                                       \
    {                                                                                          \
        QW_BYTES(R)                                                                            \
        const float16 sw = qw_scales16(g + 4096 + 32 * b);                                     \
        QW_ROWS_##R(QW_ADD_q8_0)                                                               \
    }
#define QW_ADD_BYTES_MIN(r)                                                                    \
    c##r = fma(convert_float16(n##r), sw * sa##r[blk], c##r);                                  \
    c##r = fma((float16)((float)as##r[blk]), mw * sa##r[blk], c##r);
#define QW_BLOCK_q8_1(R)                                                                       \
    {                                                                                          \
        QW_BYTES(R)                                                                            \
        const float16 sw = qw_scales16(g + 4096 + 32 * b), mw = qw_scales16(g + 4352 + 32 * b); \
        QW_ROWS_##R(QW_ADD_BYTES_MIN)                                                          \
    }
#define QW_BLOCK_q8_k(R)                                                                       \
    {                                                                                          \
        QW_BYTES(R)                                                                            \
        const float16 sw =                                                                     \
            qw_scales16(g + 4352) * convert_float16(vload16(0, g + 4096 + 16 * b));            \
        const float16 mw =                                                                     \
            -(qw_scales16(g + 4384) * convert_float16(vload16(0, g + 4224 + 16 * b)));         \
        QW_ROWS_##R(QW_ADD_BYTES_MIN)                                                          \
    }

/* Six bits, signed: 8 products of at most 32 * 127 stay below 2^15, so each half block is summed by
 * itself, then scaled in integers: below 2^24, exact as a float. */
#define QW_SIX_ZERO(r) int16 n##r = 0;
#define QW_SIX_ADD(r) n##r += qw_pairs(lo##r, hi##r) * sc;
#define QW_SIX_STEP(R, i)                                                                      \
    {                                                                                          \
        const ushort16 h0 = ((y0v >> (ushort)(up + 2 * i)) & (ushort)3) << (ushort)4;          \
        const ushort16 h1 = ((y1v >> (ushort)(up + 2 * i)) & (ushort)3) << (ushort)4;          \
        const short16 w0 =                                                                     \
            as_short16(((x0 >> (ushort)(4 * i)) & (ushort)15) | h0) - (short)32;               \
        const short16 w1 =                                                                     \
            as_short16(((x1 >> (ushort)(4 * i)) & (ushort)15) | h1) - (short)32;               \
        const int at = blk * 16 + 4 * j + i;                                                   \
        QW_ROWS_##R(QW_MUL)                                                                    \
    }
#define QW_BLOCK_q6_k(R)                                                                       \
    {                                                                                          \
        QW_ROWS_##R(QW_SIX_ZERO)                                                               \
        for (int h = 0; h < 2; h++) {                                                          \
            QW_ROWS_##R(QW_BLOCK_ZERO)                                                         \
            const ushort16 y0v = vload16(2 * h, (global const ushort *)(g + 2048 + 128 * b));  \
            const ushort16 y1v = vload16(2 * h + 1, (global const ushort *)(g + 2048 + 128 * b)); \
            for (int j = 2 * h; j < 2 * h + 2; j++) {                                          \
                const ushort up = (ushort)(8 * (j & 1));                                       \
                const ushort16 x0 = vload16(2 * j, (global const ushort *)(g + 256 * b));      \
                const ushort16 x1 = vload16(2 * j + 1, (global const ushort *)(g + 256 * b));  \
                QW_SIX_STEP(R, 0)                                                              \
                QW_SIX_STEP(R, 1)                                                              \
                QW_SIX_STEP(R, 2)                                                              \
                QW_SIX_STEP(R, 3)                                                              \
            }                                                                                  \
            const int16 sc =                                                                   \
                convert_int16(vload16(2 * b + h, (global const char *)(g + 3072)));            \
            QW_ROWS_##R(QW_SIX_ADD)                                                            \
        }                                                                                      \
        const float16 sw = qw_scales16(g + 3328);                                              \
        QW_ROWS_##R(QW_ADD_q8_0)                                                               \
    }

#define QW_TOTAL(r)                                                                            \
    if (row_first + r < rows) {                                                                \
        float16 t = acc[0][r];                                                                 \
        for (int p = 1; p < P; p++)                                                            \
            t += acc[p][r];                                                                    \
        global float *out = y + (size_t)(row_first + r) * ldy + y0 + 16 * tile;                \
        vstore16(add ? vload16(0, out) + t : t, 0, out);                                       \
    }

#define QW_MATMUL(L, R)                                                                        \
    kernel __attribute__((reqd_work_group_size(1, 1, 1))) void qw_matmul_##L##_c##R(           \
        global const uchar *w, global const qw_act *q, global const float *scale,              \
        global const int *asum, global float *y, global const int *cycle, int K, int N,        \
        int ldy, int y0, int add)                                                              \
    {                                                                                          \
        const int rows = cycle[QW_CYC_ROWS], row_first = R * (int)get_global_id(2);            \
        const int tile = (int)get_global_id(0), P = qw_partials(K), groups = (K + 255) / 256;  \
        if (row_first >= rows)                                                                 \
            return;                                                                            \
        QW_ROWS_##R(QW_A_DECL) float16 acc[8][R];                                              \
        for (int p = 0; p < P; p++)                                                            \
            for (int r = 0; r < R; r++)                                                        \
                acc[p][r] = 0.0f;                                                              \
        global const uchar *g = w + (size_t)tile * groups * QW_GROUP_##L;                      \
        for (int group = 0; group < groups; group++, g += QW_GROUP_##L) {                      \
            const int p = group % P, blocks = min(8, K / 32 - 8 * group);                      \
            QW_ROWS_##R(QW_LOAD) for (int b = 0; b < blocks; b++)                              \
            {                                                                                  \
                const int blk = 8 * group + b;                                                 \
                QW_BLOCK_##L(R)                                                                \
            }                                                                                  \
            QW_ROWS_##R(QW_KEEP)                                                               \
        }                                                                                      \
        QW_ROWS_##R(QW_TOTAL)                                                                  \
    }

#define QW_F32_DECL(r)                                                                         \
    global const float *a##r = a + (size_t)min(row_first + r, rows - 1) * K;
#define QW_F32_STEP(r) c##r = fma(wv, (float16)(a##r[k]), c##r);
#define QW_MATMUL_F32(R)                                                                       \
    kernel __attribute__((reqd_work_group_size(1, 1, 1))) void qw_matmul_f32_c##R(             \
        global const float *w, global const float *a, global float *y,                         \
        global const int *cycle, int K, int N, int ldy, int y0, int add)                       \
    {                                                                                          \
        const int rows = cycle[QW_CYC_ROWS], row_first = R * (int)get_global_id(2);            \
        const int tile = (int)get_global_id(0), P = qw_partials(K), groups = (K + 255) / 256;  \
        if (row_first >= rows)                                                                 \
            return;                                                                            \
        QW_ROWS_##R(QW_F32_DECL) float16 acc[8][R];                                            \
        for (int p = 0; p < P; p++)                                                            \
            for (int r = 0; r < R; r++)                                                        \
                acc[p][r] = 0.0f;                                                              \
        for (int group = 0; group < groups; group++) {                                         \
            const int p = group % P, end = min(K, 256 * group + 256);                          \
            QW_ROWS_##R(QW_LOAD) for (int k = 256 * group; k < end; k++)                       \
            {                                                                                  \
                const float16 wv = vload16((size_t)tile * K + k, w);                           \
                QW_ROWS_##R(QW_F32_STEP)                                                       \
            }                                                                                  \
            QW_ROWS_##R(QW_KEEP)                                                               \
        }                                                                                      \
        QW_ROWS_##R(QW_TOTAL)                                                                  \
    }

#else
/* ---- GPU shape: item = (row of the tile, partial); scalar forms of the same sums ---- */

/* Integer sum of block b for this lane. */
int qw_dot4(global const uchar *g, int b, int lane, global const char *a)
{
    int s = 0;
    for (int j = 0; j < 4; j++) {
        const uint x = ((global const uint *)(g + 256 * b))[16 * j + lane];
        for (int i = 0; i < 8; i++)
            s += (int)((x >> (4 * i)) & 15) * a[8 * j + i];
    }
    return s;
}

int qw_dot8(global const uchar *g, int b, int lane, global const char *a)
{
    int s = 0;
    for (int d = 0; d < 8; d++) {
        const char4 x = as_char4(((global const uint *)(g + 512 * b))[16 * d + lane]);
        const int k = 8 * (d / 2) + 2 * (d % 2); /* pairs 2d, 2d + 1: k, k + 1, then k + 4, k + 5 */
        s += x.x * a[k] + x.y * a[k + 1] + x.z * a[k + 4] + x.w * a[k + 5];
    }
    return s;
}

int qw_dot6(global const uchar *g, int b, int lane, global const char *a)
{
    int total = 0;
    for (int h = 0; h < 2; h++) {
        int s = 0;
        const uint high = ((global const uint *)(g + 2048 + 128 * b))[16 * h + lane];
        for (int j = 2 * h; j < 2 * h + 2; j++) {
            const uint x = ((global const uint *)(g + 256 * b))[16 * j + lane];
            for (int i = 0; i < 8; i++) {
                const int two = (int)(high >> (16 * (i / 4) + 8 * (j & 1) + 2 * (i % 4))) & 3;
                s += (((int)(x >> (4 * i)) & 15) + 16 * two - 32) * a[8 * j + i];
            }
        }
        total += s * (char)g[3072 + 16 * (2 * b + h) + lane];
    }
    return total;
}

#define QW_SUM_q4_0 acc = fma((float)(qw_dot4(g, b, lane, a) - 8 * as[blk]), qw_half_at(g + 2048, 16 * b + lane) * sa[blk], acc);
#define QW_MIN(dot, sw, mw)                                                                    \
    acc = fma((float)dot(g, b, lane, a), (sw) * sa[blk], acc);                                 \
    acc = fma((float)as[blk], (mw) * sa[blk], acc);
#define QW_SUM_q4_1                                                                            \
    QW_MIN(qw_dot4, qw_half_at(g + 2048, 16 * b + lane), qw_half_at(g + 2304, 16 * b + lane))
#define QW_SUM_q4_k                                                                            \
    QW_MIN(qw_dot4, qw_half_at(g + 2304, lane) * (float)g[2048 + 16 * b + lane],               \
           -(qw_half_at(g + 2336, lane) * (float)g[2176 + 16 * b + lane]))
#define QW_SUM_q8_0                                                                            \
    acc = fma((float)qw_dot8(g, b, lane, a), qw_half_at(g + 4096, 16 * b + lane) * sa[blk], acc);
#define QW_SUM_q8_1                                                                            \
    QW_MIN(qw_dot8, qw_half_at(g + 4096, 16 * b + lane), qw_half_at(g + 4352, 16 * b + lane))
#define QW_SUM_q8_k                                                                            \
    QW_MIN(qw_dot8, qw_half_at(g + 4352, lane) * (float)g[4096 + 16 * b + lane],               \
           -(qw_half_at(g + 4384, lane) * (float)g[4224 + 16 * b + lane]))
#define QW_SUM_q6_k                                                                            \
    acc = fma((float)qw_dot6(g, b, lane, a), qw_half_at(g + 3328, lane) * sa[blk], acc);

/* Add the partials of a row in order and store; every item of the group comes here. */
void qw_total(local float *part, int lane, int p, int P, float acc, global float *out, int add)
{
    part[p * 16 + lane] = acc;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (p == 0) {
        float t = part[lane];
        for (int i = 1; i < P; i++)
            t += part[i * 16 + lane];
        *out = add ? *out + t : t;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

#define QW_MATMUL(L, R)                                                                        \
    kernel void qw_matmul_##L##_g##R(                                                          \
        global const uchar *w, global const qw_act *q, global const float *scale,              \
        global const int *asum, global float *y, global const int *cycle, int K, int N,        \
        int ldy, int y0, int add)                                                              \
    {                                                                                          \
        local float part[8 * 16];                                                              \
        const int rows = cycle[QW_CYC_ROWS], row_first = R * (int)get_group_id(2);             \
        const int tile = (int)get_group_id(0), P = qw_partials(K), groups = (K + 255) / 256;   \
        const int lane = (int)get_local_id(0), p = (int)get_local_id(1);                       \
        const int row_end = min(rows, row_first + R);                                          \
        for (int r = row_first; r < row_end; r++) {                                            \
            global const char *aq = (global const char *)q + (size_t)r * K;                    \
            global const float *sa = scale + (size_t)r * (K / 32);                             \
            global const int *as = asum + (size_t)r * (K / 32);                                \
            float acc = 0.0f;                                                                  \
            for (int group = p; group < groups; group += P) {                                  \
                global const uchar *g = w + ((size_t)tile * groups + group) * QW_GROUP_##L;    \
                for (int b = 0; b < min(8, K / 32 - 8 * group); b++) {                         \
                    const int blk = 8 * group + b;                                             \
                    global const char *a = aq + 32 * blk;                                      \
                    QW_SUM_##L                                                                 \
                }                                                                              \
            }                                                                                  \
            qw_total(part, lane, p, P, acc, y + (size_t)r * ldy + y0 + 16 * tile + lane, add); \
        }                                                                                      \
    }

#define QW_MATMUL_F32(R)                                                                       \
    kernel void qw_matmul_f32_g##R(global const float *w, global const float *a,               \
                                   global float *y, global const int *cycle, int K, int N,     \
                                   int ldy, int y0, int add)                                   \
    {                                                                                          \
        local float part[8 * 16];                                                              \
        const int rows = cycle[QW_CYC_ROWS], row_first = R * (int)get_group_id(2);             \
        const int tile = (int)get_group_id(0), P = qw_partials(K), groups = (K + 255) / 256;   \
        const int lane = (int)get_local_id(0), p = (int)get_local_id(1);                       \
        const int row_end = min(rows, row_first + R);                                          \
        for (int r = row_first; r < row_end; r++) {                                            \
            float acc = 0.0f;                                                                  \
            for (int group = p; group < groups; group += P)                                    \
                for (int k = 256 * group; k < min(K, 256 * group + 256); k++)                  \
                    acc = fma(w[((size_t)tile * K + k) * 16 + lane], a[(size_t)r * K + k], acc); \
            qw_total(part, lane, p, P, acc, y + (size_t)r * ldy + y0 + 16 * tile + lane, add); \
        }                                                                                      \
    }
#endif

#define QW_BOTH(L) QW_MATMUL(L, 1) QW_MATMUL(L, 4)
QW_BOTH(q4_0)
QW_BOTH(q4_1)
QW_BOTH(q4_k)
QW_BOTH(q8_0)
QW_BOTH(q8_1)
QW_BOTH(q8_k)
QW_BOTH(q6_k)
QW_MATMUL_F32(1)
QW_MATMUL_F32(4)
