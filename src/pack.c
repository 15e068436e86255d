/* SPDX-License-Identifier: MIT */
#include "pack.h"

#include <string.h>

#include "quant.h"

enum { TILE = 16, GROUP = 8 /* blocks of 32 */ };

static const struct {
    const char *name;
    int quants; /* bytes of quants a block of 16 rows */
    int extra;  /* bytes of scales and high bits a group of 16 rows */
} layouts[QW_N_LAYOUTS] = {
    [QW_L_F32] = {"f32", 0, 0},       [QW_L_Q4_0] = {"q4_0", 256, 256},
    [QW_L_Q4_1] = {"q4_1", 256, 512}, [QW_L_Q4_K] = {"q4_k", 256, 320},
    [QW_L_Q8_0] = {"q8_0", 512, 256}, [QW_L_Q8_1] = {"q8_1", 512, 512},
    [QW_L_Q8_K] = {"q8_k", 512, 320}, [QW_L_Q6_K] = {"q6_k", 384, 288},
    [QW_L_X4_0] = {"x4_0", 256, 256}, [QW_L_X4_1] = {"x4_1", 256, 512},
    [QW_L_X4_K] = {"x4_k", 256, 320},
};

enum qw_layout qw_pack_layout(uint32_t type)
{
    switch (type) {
    case QW_Q4_0:
        return QW_L_Q4_0;
    case QW_Q4_1:
        return QW_L_Q4_1;
    case QW_Q4_K:
        return QW_L_Q4_K;
    case QW_Q5_0:
    case QW_Q8_0:
        return QW_L_Q8_0;
    case QW_Q5_1:
        return QW_L_Q8_1;
    case QW_Q5_K:
        return QW_L_Q8_K;
    case QW_Q6_K:
        return QW_L_Q6_K;
    default:
        return QW_L_F32;
    }
}

const char *qw_layout_name(enum qw_layout l)
{
    return layouts[l].name;
}

static int groups_of(int K)
{
    return (K + 255) / 256;
}

static size_t group_bytes(enum qw_layout l)
{
    return (size_t)(GROUP * layouts[l].quants + layouts[l].extra);
}

size_t qw_pack_tile_bytes(enum qw_layout l, int K)
{
    return l == QW_L_F32 ? (size_t)K * TILE * sizeof(float)
                         : (size_t)groups_of(K) * group_bytes(l);
}

int qw_partials(int K)
{
    return K < 6144 ? 4 : 8;
}

/* n dwords of a row's block to their places between those of the other rows. */
static void put_dwords(unsigned char *block, int lane, const unsigned char *src, int n)
{
    for (int i = 0; i < n; i++)
        memcpy(block + ((size_t)i * TILE + (size_t)lane) * 4, src + 4 * i, 4);
}

/* 16 bytes with element j low and j + 16 high: GGUF's order is ours. */
static void put_nibbles(unsigned char *block, int lane, const unsigned char *qs)
{
    put_dwords(block, lane, qs, 4);
}

/* 32 nibble values, one a byte. */
static void put_values4(unsigned char *block, int lane, const unsigned char *v)
{
    unsigned char qs[16];
    for (int i = 0; i < 16; i++)
        qs[i] = (unsigned char)(v[i] | v[i + 16] << 4);
    put_nibbles(block, lane, qs);
}

static void put_bytes(unsigned char *block, int lane, const void *v)
{
    put_dwords(block, lane, v, 8);
}

static void put16(unsigned char *at, int lane, const unsigned char *half)
{
    memcpy(at + 2 * lane, half, 2);
}

/* 32-element types: block b of a row. */
static void pack_block32(enum qw_layout l, uint32_t type, const unsigned char *src,
                         int lane, int b, unsigned char *group)
{
    unsigned char *quants = group + b * layouts[l].quants;
    unsigned char *scale = group + GROUP * layouts[l].quants + b * TILE * 2;
    int8_t v[32];
    uint32_t high = 0;
    put16(scale, lane, src);
    switch (type) {
    case QW_Q4_0:
        put_nibbles(quants, lane, src + 2);
        break;
    case QW_Q4_1:
        put16(scale + GROUP * TILE * 2, lane, src + 2);
        put_nibbles(quants, lane, src + 4);
        break;
    case QW_Q8_0:
        put_bytes(quants, lane, src + 2);
        break;
    default: /* Q5_0, Q5_1 */
        if (type == QW_Q5_1) {
            put16(scale + GROUP * TILE * 2, lane, src + 2);
            src += 2;
        }
        memcpy(&high, src + 2, 4);
        for (int i = 0; i < 32; i++) {
            const int low = i < 16 ? src[6 + i] & 15 : src[6 + i - 16] >> 4;
            v[i] =
                (int8_t)((low | (int)(high >> i & 1) << 4) - (type == QW_Q5_0 ? 16 : 0));
        }
        put_bytes(quants, lane, v);
    }
}

/* Q4_K, Q5_K: a super-block is a group. */
static void pack_k45(enum qw_layout l, uint32_t type, const unsigned char *src, int lane,
                     unsigned char *group)
{
    const unsigned char *s = src + 4, *qh = src + 16,
                        *qs = src + (type == QW_Q4_K ? 16 : 48);
    unsigned char *tail = group + GROUP * layouts[l].quants;
    for (int j = 0; j < 8; j++) {
        const int sc = j < 4 ? s[j] & 63 : (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
        const int mn = j < 4 ? s[j + 4] & 63 : s[j + 4] >> 4 | (s[j] >> 6) << 4;
        unsigned char v[32];
        tail[j * TILE + lane] = (unsigned char)sc;
        tail[128 + j * TILE + lane] = (unsigned char)mn;
        for (int i = 0; i < 32; i++) {
            v[i] = (unsigned char)(qs[32 * (j / 2) + i] >> 4 * (j % 2) & 15);
            if (type == QW_Q5_K)
                v[i] = (unsigned char)(v[i] | (qh[i] >> j & 1) << 4);
        }
        if (type == QW_Q4_K)
            put_values4(group + j * layouts[l].quants, lane, v);
        else
            put_bytes(group + j * layouts[l].quants, lane, v);
    }
    put16(tail + 256, lane, src);
    put16(tail + 288, lane, src + 2);
}

/* After the nibbles, a dword a half block whose byte j holds the two high bits of
 * elements j, 4 + j, 8 + j, 12 + j of the half, from bit 0 up. */
static void pack_q6(const unsigned char *src, int lane, unsigned char *group)
{
    const unsigned char *ql = src, *qh = src + 128;
    unsigned char *sc = group + GROUP * layouts[QW_L_Q6_K].quants;
    for (int b = 0; b < 8; b++) {
        const int k = b / 4, g = b % 4;
        unsigned char v[32], high[8] = {0};
        unsigned char *block = group + b * layouts[QW_L_Q6_K].quants;
        for (int i = 0; i < 32; i++) {
            const int two = qh[32 * k + i] >> 2 * g & 3;
            v[i] = (unsigned char)(ql[64 * k + 32 * (g & 1) + i] >> 4 * (g >> 1) & 15);
            high[i / 16 * 4 + i % 4] |= (unsigned char)(two << i % 16 / 4 * 2);
        }
        put_values4(block, lane, v);
        put_dwords(block + 256, lane, high, 2);
        memcpy(sc + (b * TILE + lane) * 2, src + 192 + 2 * b, 2);
    }
    put16(sc + 256, lane, src + 208);
}

static void pack_float(uint32_t type, const unsigned char *row, int lane, int K,
                       float *tile)
{
    float v[256];
    const size_t size = type == QW_F32 ? 4 : 2;
    for (int k = 0; k < K; k += 256) {
        const int n = K - k < 256 ? K - k : 256;
        qw_decode(type, row + (size_t)k * size, v, (size_t)n);
        for (int i = 0; i < n; i++)
            tile[(size_t)(k + i) * TILE + (size_t)lane] = v[i];
    }
}

static void pack_row(enum qw_layout l, uint32_t type, const unsigned char *row, int lane,
                     int K, unsigned char *tile)
{
    const struct qw_type_info *info = qw_type_info(type);
    if (l == QW_L_F32) {
        pack_float(type, row, lane, K, (float *)(void *)tile);
        return;
    }
    for (int g = 0; g < groups_of(K); g++) {
        unsigned char *group = tile + (size_t)g * group_bytes(l);
        if (info->block == 256) {
            const unsigned char *src = row + (size_t)g * info->bytes;
            if (type == QW_Q6_K)
                pack_q6(src, lane, group);
            else
                pack_k45(l, type, src, lane, group);
            continue;
        }
        for (int b = 0; b < GROUP && g * 256 + b * 32 < K; b++)
            pack_block32(l, type, row + (size_t)(g * GROUP + b) * info->bytes, lane, b,
                         group);
    }
}

void qw_pack_tiles(enum qw_layout l, uint32_t type, const void *rows, size_t row_bytes,
                   int n_rows, int K, int n_tiles, void *dst)
{
    const size_t bytes = qw_pack_tile_bytes(l, K);
    const bool ragged = n_rows < n_tiles * TILE || (l != QW_L_F32 && K % 256 != 0);
    if (ragged)
        memset(dst, 0, bytes * (size_t)n_tiles);
    for (int r = 0; r < n_rows && r < n_tiles * TILE; r++)
        pack_row(l, type, (const unsigned char *)rows + (size_t)r * row_bytes, r % TILE,
                 K, (unsigned char *)dst + bytes * (size_t)(r / TILE));
    if (l >= QW_L_X4_0)
        qw_pack_xe2(l, K, n_tiles, dst);
}
