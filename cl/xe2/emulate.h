/* SPDX-License-Identifier: MIT */
/* emulate.h - what the kernels of this folder use of Xe2 beyond OpenCL C 1.2, twice: by Intel's
 * built-ins, and with QW_EMULATED in plain OpenCL C, so that the same kernels run bit for bit on any
 * device. A sub-group is 16 consecutive work-items of dimension 0; its number is local id 1.
 *
 * What differs between lanes natively stays inside this file: an operand A lies spread over the lanes
 * of a sub-group (lane i holds bytes 2 i and 2 i + 1 of each row), emulated it is the place in memory
 * that it was read from. Loads that come out spread say what a lane gets. So nothing emulated needs a
 * barrier, and loops may differ between sub-groups as they may on the card.
 *
 * Sums and maxima over lanes go through a scratch of 16 words for each sub-group when emulated, with
 * barriers: all of a group's items must come there together, and not in a branch, even a uniform one
 * (PoCL 3.1 then leaves out what follows, without a word); loops around them count the same for all.
 *
 * A of M rows: M x 32 int8. B: 32 x 16, a lane holds its column: int8 as 8 dwords, k = 4 j + byte;
 * 4 bits as 4 dwords, k = 8 j + nibble. qw_dpas<M>_<type of B>(a, h, b, c): lane n gets
 * c[m] + sum over k of A[m][k] B[k][n], exact. */

#if QW_EMULATED

#define QW_SG16
#define QW_UNROLL
#define QW_ROLLED

int qw_lane(void)
{
    return (int)get_local_id(0);
}

int qw_sub_group(void)
{
    return (int)get_local_id(1);
}

/* (uint8)(a, b): element by element, as a shuffle from 4 to 8 crashes oclgrind 21.10 */
uint8 qw_join(uint4 a, uint4 b)
{
    return (uint8)(a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w);
}

/* ---- loads: n elements a lane, element i of lane l at place 16 i + l ---- */

uint4 qw_read_uint4(global const uchar *p)
{
    global const uint *w = (global const uint *)p + qw_lane();
    return (uint4)(w[0], w[16], w[32], w[48]);
}

uint8 qw_read_uint8(global const uchar *p)
{
    return qw_join(qw_read_uint4(p), qw_read_uint4(p + 256));
}

uint2 qw_read_uint2(global const uchar *p)
{
    global const uint *w = (global const uint *)p + qw_lane();
    return (uint2)(w[0], w[16]);
}

ushort8 qw_read_ushort8(global const uchar *p)
{
    global const ushort *w = (global const ushort *)p + qw_lane();
    return (ushort8)(w[0], w[16], w[32], w[48], w[64], w[80], w[96], w[112]);
}

uchar8 qw_read_uchar8(global const uchar *p)
{
    p += qw_lane();
    return (uchar8)(p[0], p[16], p[32], p[48], p[64], p[80], p[96], p[112]);
}

float8 qw_read_half8(global const uchar *p)
{
    float v[8];
    for (int i = 0; i < 8; i++)
        v[i] = vload_half(16 * i + qw_lane(), (global const half *)p);
    return vload8(0, v);
}

float qw_read_half(global const uchar *p)
{
    return vload_half(qw_lane(), (global const half *)p);
}

float qw_read_float(global const float *p)
{
    return p[qw_lane()];
}

void qw_write_float(global float *p, float x)
{
    p[qw_lane()] = x;
}

/* ---- at most 32 floats, `step` apart, each for all lanes ---- */

typedef struct {
    global const float *p;
    int step;
} qw_shared;

qw_shared qw_read_shared(global const float *p, int step, int n)
{
    const qw_shared s = {p, step};
    return s;
}

float qw_shared_at(qw_shared s, int i)
{
    return s.p[i * s.step];
}

/* ---- over the lanes of a sub-group ---- */

uint qw_max_lanes(uint x, local uint *scratch)
{
    local uint *s = scratch + 16 * qw_sub_group();
    uint most = 0;
    s[qw_lane()] = x;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = 0; i < 16; i++)
        most = max(most, s[i]);
    barrier(CLK_LOCAL_MEM_FENCE);
    return most;
}

int qw_sum_lanes(int x, local uint *scratch)
{
    local uint *s = scratch + 16 * qw_sub_group();
    int sum = 0;
    s[qw_lane()] = (uint)x;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = 0; i < 16; i++)
        sum += (int)s[i];
    barrier(CLK_LOCAL_MEM_FENCE);
    return sum;
}

/* ---- operand A: two blocks of 32 columns from `col` on. Rows at or beyond `rows` are zeros. ---- */

typedef struct {
    global const char *at;
    int pitch, live;
} qw_a8;
typedef qw_a8 qw_a1;

qw_a8 qw_read_a8(global const char *q, int pitch, int rows, int row, int col)
{
    const qw_a8 a = {q + (size_t)row * pitch + col, pitch, rows - row};
    return a;
}

qw_a1 qw_read_a1(global const char *q, int pitch, int rows, int row, int col)
{
    return qw_read_a8(q, pitch, rows, row, col);
}

/* ---- dpas ---- */

/* The lane's column of B, eight k a vector. */
int8 qw_bytes8(uint a, uint b)
{
    const uint8 up = (uint8)(24, 16, 8, 0, 24, 16, 8, 0);
    return as_int8((uint8)(a, a, a, a, b, b, b, b) << up) >> 24;
}

void qw_column_i8(uint8 b, int8 *k)
{
    k[0] = qw_bytes8(b.s0, b.s1), k[1] = qw_bytes8(b.s2, b.s3);
    k[2] = qw_bytes8(b.s4, b.s5), k[3] = qw_bytes8(b.s6, b.s7);
}

int8 qw_nibbles8(uint a)
{
    return as_int8((uint8)(a) << (uint8)(28, 24, 20, 16, 12, 8, 4, 0)) >> 28;
}

void qw_column_i4(uint4 b, int8 *k)
{
    k[0] = qw_nibbles8(b.x), k[1] = qw_nibbles8(b.y);
    k[2] = qw_nibbles8(b.z), k[3] = qw_nibbles8(b.w);
}

void qw_column_u4(uint4 b, int8 *k)
{
    qw_column_i4(b, k);
    for (int i = 0; i < 4; i++)
        k[i] &= 15;
}

int qw_row_dot(global const char *a, const int8 *k)
{
    const int8 s = convert_int8(vload8(0, a)) * k[0] + convert_int8(vload8(1, a)) * k[1] +
                   convert_int8(vload8(2, a)) * k[2] + convert_int8(vload8(3, a)) * k[3];
    const int4 t = s.lo + s.hi;
    return (t.x + t.y) + (t.z + t.w);
}

int8 qw_rows8(qw_a8 a, int h, const int8 *k, int8 c)
{
    int v[8];
    vstore8(c, 0, v);
    for (int m = 0; m < min(8, a.live); m++)
        v[m] += qw_row_dot(a.at + (size_t)m * a.pitch + 32 * h, k);
    return vload8(0, v);
}

int qw_rows1(qw_a1 a, int h, const int8 *k, int c)
{
    return a.live > 0 ? c + qw_row_dot(a.at + 32 * h, k) : c;
}

#define QW_DPAS(M, V, T, TB)                                                                   \
    V qw_dpas##M##_##T(qw_a##M a, int h, TB b, V c)                                            \
    {                                                                                          \
        int8 k[4];                                                                             \
        qw_column_##T(b, k);                                                                   \
        return qw_rows##M(a, h, k, c);                                                         \
    }
QW_DPAS(1, int, i8, uint8)
QW_DPAS(1, int, i4, uint4)
QW_DPAS(1, int, u4, uint4)
QW_DPAS(8, int8, i8, uint8)
QW_DPAS(8, int8, i4, uint4)
QW_DPAS(8, int8, u4, uint4)

#else /* the card */

#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#define QW_SG16 __attribute__((intel_reqd_sub_group_size(16)))
#define QW_UNROLL _Pragma("unroll")
#define QW_ROLLED _Pragma("unroll 1") /* what is hoisted out of unrolled ones would spill */

int qw_lane(void)
{
    return (int)get_sub_group_local_id();
}

int qw_sub_group(void)
{
    return (int)get_sub_group_id();
}

uint8 qw_join(uint4 a, uint4 b)
{
    return (uint8)(a, b);
}

uint4 qw_read_uint4(global const uchar *p)
{
    return intel_sub_group_block_read_ui4((global const uint *)p);
}

uint8 qw_read_uint8(global const uchar *p)
{
    return intel_sub_group_block_read_ui8((global const uint *)p);
}

uint2 qw_read_uint2(global const uchar *p)
{
    return intel_sub_group_block_read_ui2((global const uint *)p);
}

ushort8 qw_read_ushort8(global const uchar *p)
{
    return intel_sub_group_block_read_us8((global const ushort *)p);
}

uchar8 qw_read_uchar8(global const uchar *p)
{
    return intel_sub_group_block_read_uc8(p);
}

float8 qw_read_half8(global const uchar *p)
{
    return convert_float8(as_half8(qw_read_ushort8(p)));
}

float qw_read_half(global const uchar *p)
{
    return convert_float(as_half(intel_sub_group_block_read_us((global const ushort *)p)));
}

float qw_read_float(global const float *p)
{
    return as_float(intel_sub_group_block_read((global const uint *)p));
}

void qw_write_float(global float *p, float x)
{
    intel_sub_group_block_write((global uint *)p, as_uint(x));
}

typedef float2 qw_shared; /* lane i has elements i and 16 + i; i below must be a constant */

qw_shared qw_read_shared(global const float *p, int step, int n)
{
    return (float2)(p[min(qw_lane(), n - 1) * step], p[min(qw_lane() + 16, n - 1) * step]);
}

float qw_shared_at(qw_shared s, int i)
{
    return sub_group_broadcast(i < 16 ? s.x : s.y, (uint)i % 16);
}

uint qw_max_lanes(uint x, local uint *scratch)
{
    return sub_group_reduce_max(x);
}

int qw_sum_lanes(int x, local uint *scratch)
{
    return sub_group_reduce_add(x);
}

typedef short16 qw_a8; /* eight rows of one block, eight of the next */
typedef short2 qw_a1;

/* One message. The surface is the live rows: what lies beyond reads as zeros. */
qw_a8 qw_read_a8(global const char *q, int pitch, int rows, int row, int col)
{
    ushort v[16];
    intel_sub_group_2d_block_read_16b_8r16x2c((global void *)q, pitch, rows, pitch,
                                              (int2)(col / 2, row), v);
    return as_short16(vload16(0, v));
}

qw_a1 qw_read_a1(global const char *q, int pitch, int rows, int row, int col)
{
    q += (size_t)row * pitch + col;
    return as_short2(intel_sub_group_block_read_us2((global const ushort *)q));
}

/* A as the unit takes it; a choice of two shorts is an int, for which there is another built-in */
#define QW_DPAS(M, TA, V, T, TB, AS)                                                           \
    V qw_dpas##M##_##T(qw_a##M a, int h, TB b, V c)                                            \
    {                                                                                          \
        const TA x = h ? a.hi : a.lo;                                                          \
        return intel_sub_group_i8_##T##_matrix_mad_k32(x, AS(b), c);                           \
    }
QW_DPAS(1, short, int, i8, uint8, as_int8)
QW_DPAS(1, short, int, i4, uint4, as_int4)
QW_DPAS(1, short, int, u4, uint4, as_uint4)
QW_DPAS(8, short8, int8, i8, uint8, as_int8)
QW_DPAS(8, short8, int8, i4, uint4, as_int4)
QW_DPAS(8, short8, int8, u4, uint4, as_uint4)

#endif
