/* SPDX-License-Identifier: MIT */
#include "quant.h"

#include <math.h>
#include <string.h>

/* ggml's list. Ids 4, 5, 31-33 and 36-38 were withdrawn; blocks that are not decoded have
 * their sizes here all the same, so that a file that holds some can be checked and
 * listed. */
static const struct qw_type_info types[] = {
    {QW_F32, "F32", 1, 4, true},       {QW_F16, "F16", 1, 2, true},
    {QW_Q4_0, "Q4_0", 32, 18, true},   {QW_Q4_1, "Q4_1", 32, 20, true},
    {QW_Q5_0, "Q5_0", 32, 22, true},   {QW_Q5_1, "Q5_1", 32, 24, true},
    {QW_Q8_0, "Q8_0", 32, 34, true},   {9, "Q8_1", 32, 36, false},
    {10, "Q2_K", 256, 84, false},      {11, "Q3_K", 256, 110, false},
    {QW_Q4_K, "Q4_K", 256, 144, true}, {QW_Q5_K, "Q5_K", 256, 176, true},
    {QW_Q6_K, "Q6_K", 256, 210, true}, {15, "Q8_K", 256, 292, false},
    {16, "IQ2_XXS", 256, 66, false},   {17, "IQ2_XS", 256, 74, false},
    {18, "IQ3_XXS", 256, 98, false},   {19, "IQ1_S", 256, 50, false},
    {20, "IQ4_NL", 32, 18, false},     {21, "IQ3_S", 256, 110, false},
    {22, "IQ2_S", 256, 82, false},     {23, "IQ4_XS", 256, 136, false},
    {24, "I8", 1, 1, false},           {25, "I16", 1, 2, false},
    {26, "I32", 1, 4, false},          {27, "I64", 1, 8, false},
    {28, "F64", 1, 8, false},          {29, "IQ1_M", 256, 56, false},
    {QW_BF16, "BF16", 1, 2, true},     {34, "TQ1_0", 256, 54, false},
    {35, "TQ2_0", 256, 66, false},     {39, "MXFP4", 32, 17, false},
    {40, "NVFP4", 64, 36, false},
};

const struct qw_type_info *qw_type_info(uint32_t id)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (types[i].id == id)
            return &types[i];
    return NULL;
}

/* ---- half precision ---- */

static float from_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof(f));
    return f;
}

static uint32_t to_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof(u));
    return u;
}

float qw_half_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = (h >> 10) & 31,
             m = h & 0x3ff;
    if (exponent == 31)
        return from_bits(sign | 0x7f800000 | m << 13);
    if (exponent != 0)
        return from_bits(sign | (exponent + 112) << 23 | m << 13);
    float f = (float)m * 0x1p-24f; /* subnormal or zero; the product is exact */
    return sign ? -f : f;
}

uint16_t qw_float_to_half(float f)
{
    uint32_t u = to_bits(f), sign = (u >> 16) & 0x8000, a = u & 0x7fffffff;
    if (a > 0x7f800000) /* NaN: keep what fits of the payload, make it quiet */
        return (uint16_t)(sign | 0x7e00 | (a >> 13 & 0x3ff));
    if (a >= 0x477ff000) /* 65520 and more round to infinity */
        return (uint16_t)(sign | 0x7c00);
    if (a < 0x38800000) {
        /* Below 2^-14 the result counts units of 2^-24. Adding 0.5 puts that unit at the
         * last place of the sum, so the addition itself rounds to nearest even. */
        uint32_t sum = to_bits(from_bits(a) + 0.5f);
        return (uint16_t)(sign | (sum - to_bits(0.5f)));
    }
    a += 0xfff +
         (a >> 13 & 1); /* to nearest even; a carry moves the exponent up, as it must */
    return (uint16_t)(sign | ((a >> 13) - (112 << 10)));
}

/* ---- decode: one function a block ---- */

static float load_half(const unsigned char *p)
{
    return qw_half_to_float((uint16_t)(p[0] | p[1] << 8));
}

static void decode_f32(const unsigned char *b, float *x)
{
    memcpy(x, b, sizeof(*x));
}

static void decode_f16(const unsigned char *b, float *x)
{
    *x = load_half(b);
}

static void decode_bf16(const unsigned char *b, float *x)
{
    *x = from_bits((uint32_t)b[0] << 16 | (uint32_t)b[1] << 24);
}

/* Blocks of 32: element j is the low nibble of byte j, element j + 16 its high nibble. */
static int nibble(const unsigned char *qs, int e)
{
    return e < 16 ? qs[e] & 15 : qs[e - 16] >> 4;
}

/* The fifth bits of the 32 elements lie in one little-endian word. */
static int fifth(const unsigned char *qh, int e)
{
    return (qh[e / 8] >> (e % 8) & 1) << 4;
}

static void decode_q4_0(const unsigned char *b, float *x)
{
    float d = load_half(b);
    for (int e = 0; e < 32; e++)
        x[e] = d * (float)(nibble(b + 2, e) - 8);
}

static void decode_q4_1(const unsigned char *b, float *x)
{
    float d = load_half(b), m = load_half(b + 2);
    for (int e = 0; e < 32; e++)
        x[e] = d * (float)nibble(b + 4, e) + m;
}

static void decode_q5_0(const unsigned char *b, float *x)
{
    float d = load_half(b);
    for (int e = 0; e < 32; e++)
        x[e] = d * (float)((nibble(b + 6, e) | fifth(b + 2, e)) - 16);
}

static void decode_q5_1(const unsigned char *b, float *x)
{
    float d = load_half(b), m = load_half(b + 2);
    for (int e = 0; e < 32; e++)
        x[e] = d * (float)(nibble(b + 8, e) | fifth(b + 4, e)) + m;
}

static void decode_q8_0(const unsigned char *b, float *x)
{
    float d = load_half(b);
    for (int e = 0; e < 32; e++)
        x[e] = d * (float)(int8_t)b[2 + e];
}

/* Scale and minimum, six bits each, of sub-block j of a Q4_K or Q5_K block. */
static void scale_min(const unsigned char *s, int j, int *sc, int *mn)
{
    if (j < 4) {
        *sc = s[j] & 63;
        *mn = s[j + 4] & 63;
    } else {
        *sc = (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
        *mn = s[j + 4] >> 4 | (s[j] >> 6) << 4;
    }
}

/* Sub-blocks 2i and 2i + 1 are the low and high nibbles of the same 32 bytes. qh holds
 * the fifth bits of Q5_K, NULL for Q4_K. */
static void decode_k(const unsigned char *b, const unsigned char *qh,
                     const unsigned char *qs, float *x)
{
    float d = load_half(b), dmin = load_half(b + 2);
    for (int j = 0; j < 8; j++) {
        int sc, mn;
        scale_min(b + 4, j, &sc, &mn);
        float scale = d * (float)sc, min = dmin * (float)mn;
        for (int l = 0; l < 32; l++) {
            int q = qs[32 * (j / 2) + l] >> 4 * (j % 2) & 15;
            if (qh != NULL)
                q |= (qh[l] >> j & 1) << 4;
            x[32 * j + l] = scale * (float)q - min;
        }
    }
}

static void decode_q4_k(const unsigned char *b, float *x)
{
    decode_k(b, NULL, b + 16, x);
}

static void decode_q5_k(const unsigned char *b, float *x)
{
    decode_k(b, b + 16, b + 48, x);
}

static void decode_q6_k(const unsigned char *b, float *x)
{
    const unsigned char *ql = b, *qh = b + 128, *scales = b + 192;
    float d = load_half(b + 208);
    for (int e = 0; e < 256; e++) {
        int k = e / 128, g = e % 128 / 32, l = e % 32;
        int lo = ql[64 * k + 32 * (g & 1) + l] >> 4 * (g >> 1) & 15;
        int hi = qh[32 * k + l] >> 2 * g & 3;
        x[e] = d * (float)(int8_t)scales[e / 16] * (float)((lo | hi << 4) - 32);
    }
}

bool qw_decode(uint32_t type, const void *src, float *dst, size_t n)
{
    static void (*const decode[])(const unsigned char *, float *) = {
        [QW_F32] = decode_f32,   [QW_F16] = decode_f16,   [QW_BF16] = decode_bf16,
        [QW_Q4_0] = decode_q4_0, [QW_Q4_1] = decode_q4_1, [QW_Q5_0] = decode_q5_0,
        [QW_Q5_1] = decode_q5_1, [QW_Q8_0] = decode_q8_0, [QW_Q4_K] = decode_q4_k,
        [QW_Q5_K] = decode_q5_k, [QW_Q6_K] = decode_q6_k,
    };
    const struct qw_type_info *info = qw_type_info(type);
    if (info == NULL || !info->decodes || n % info->block != 0)
        return false;
    const unsigned char *b = src;
    for (size_t i = 0; i < n; i += info->block, b += info->bytes)
        decode[type](b, dst + i);
    return true;
}

/* ---- encode ---- */

static void store_half(unsigned char *p, float f)
{
    uint16_t h = qw_float_to_half(f);
    p[0] = (unsigned char)(h & 0xff);
    p[1] = (unsigned char)(h >> 8);
}

/* To an integer in lo..hi, which hold 0. Finite numbers of usual size are in range by
 * themselves; this keeps the conversion defined for NaN, infinities and reciprocals that
 * overflowed. */
static int to_int(float f, int lo, int hi)
{
    if (isnan(f))
        return 0;
    if (f <= (float)lo)
        return lo;
    return f < (float)hi ? (int)f : hi;
}

static void encode_f32(const float *x, unsigned char *b)
{
    memcpy(b, x, sizeof(*x));
}

static void encode_f16(const float *x, unsigned char *b)
{
    store_half(b, *x);
}

static void encode_bf16(const float *x, unsigned char *b)
{
    uint32_t u = to_bits(*x);
    u = (u & 0x7fffffff) > 0x7f800000 ? u | 0x400000 : u + 0x7fff + (u >> 16 & 1);
    b[0] = (unsigned char)(u >> 16 & 0xff);
    b[1] = (unsigned char)(u >> 24);
}

/* The element of largest magnitude, the first one on ties, with its sign. */
static float extreme(const float *x)
{
    float m = x[0];
    for (int e = 1; e < 32; e++)
        if (fabsf(x[e]) > fabsf(m))
            m = x[e];
    return m;
}

static void encode_q8_0(const float *x, unsigned char *b)
{
    float d = fabsf(extreme(x)) / 127.0f;
    float id = d != 0.0f ? 1.0f / d : 0.0f;
    store_half(b, d);
    for (int e = 0; e < 32; e++)
        b[2 + e] = (unsigned char)(int8_t)to_int(roundf(x[e] * id), -127, 127);
}

static void encode_q4_0(const float *x, unsigned char *b)
{
    float d = extreme(x) / -8.0f;
    float id = d != 0.0f ? 1.0f / d : 0.0f;
    store_half(b, d);
    for (int j = 0; j < 16; j++) {
        int lo = to_int(x[j] * id + 8.5f, 0, 15);
        int hi = to_int(x[j + 16] * id + 8.5f, 0, 15);
        b[2 + j] = (unsigned char)(lo | hi << 4);
    }
}

bool qw_encode(uint32_t type, const float *src, void *dst, size_t n)
{
    static void (*const encode[])(const float *, unsigned char *) = {
        [QW_F32] = encode_f32,   [QW_F16] = encode_f16,   [QW_BF16] = encode_bf16,
        [QW_Q8_0] = encode_q8_0, [QW_Q4_0] = encode_q4_0,
    };
    const struct qw_type_info *info = qw_type_info(type);
    if (info == NULL || !info->decodes || encode[type] == NULL || n % info->block != 0)
        return false;
    unsigned char *b = dst;
    for (size_t i = 0; i < n; i += info->block, b += info->bytes)
        encode[type](src + i, b);
    return true;
}

/* ---- activations ---- */

/* The block's own maximum gives the factor, unrounded; only the stored scale is rounded
 * to half. What is not finite stays visible: an infinity gives an infinite scale, a NaN a
 * NaN one, both with quants of zero, so every product with the block is NaN. */
void qw_quant_act(const float x[32], int8_t q[32], float *scale)
{
    float amax = 0.0f;
    for (int e = 0; e < 32; e++)
        if (!(fabsf(x[e]) <= amax)) {
            amax = fabsf(x[e]);
            if (isnan(amax))
                break;
        }
    float id = amax > 0.0f ? 127.0f / amax : 0.0f;
    if (!isfinite(amax))
        id = 0.0f;
    *scale = qw_half_to_float(qw_float_to_half(amax / 127.0f));
    for (int e = 0; e < 32; e++)
        q[e] = (int8_t)to_int(rintf(x[e] * id), -127, 127);
}
