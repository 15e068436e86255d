/* SPDX-License-Identifier: MIT */
/* pack_xe2.c - four-bit weights in the order in which Xe2's matrix unit takes them. */
#include "pack.h"

#include <string.h>

enum { TILE = 16, GROUP = 8 /* blocks of 32 */, DWORDS = 4 };

enum qw_layout qw_pack_int4(enum qw_layout l)
{
    switch (l) {
    case QW_L_Q4_0:
        return QW_L_X4_0;
    case QW_L_Q4_1:
        return QW_L_X4_1;
    case QW_L_Q4_K:
        return QW_L_X4_K;
    default:
        return l;
    }
}

/* The low halves of four bytes side by side. */
static uint32_t squeeze(uint32_t x)
{
    x &= 0x0f0f0f0fu;
    x = (x | x >> 4) & 0x00ff00ffu;
    return (x | x >> 8) & 0xffffu;
}

/* A block comes with columns 4 i + j low and 16 + 4 i + j high in byte j of dword i, and
 * leaves with column 8 i + j in nibble j of dword i. flip 8 in each nibble makes 0..15,
 * which stand for -8..7, the signed numbers. */
static void reorder(unsigned char *block, uint32_t flip)
{
    uint32_t in[DWORDS][TILE], out[DWORDS][TILE];
    memcpy(in, block, sizeof(in));
    for (int i = 0; i < DWORDS; i++) {
        const int from = i % 2 * 2, shift = i / 2 * 4;
        for (int lane = 0; lane < TILE; lane++)
            out[i][lane] = (squeeze(in[from][lane] >> shift) |
                            squeeze(in[from + 1][lane] >> shift) << 16) ^
                           flip;
    }
    memcpy(block, out, sizeof(out));
}

void qw_pack_xe2(enum qw_layout l, int K, int n_tiles, void *tiles)
{
    const int groups = (K + 255) / 256;
    const size_t tile = qw_pack_tile_bytes(l, K), group = tile / (size_t)groups;
    for (int t = 0; t < n_tiles; t++)
        for (int g = 0; g < groups; g++) {
            unsigned char *at =
                (unsigned char *)tiles + (size_t)t * tile + (size_t)g * group;
            for (int b = 0; b < GROUP; b++)
                reorder(at + b * DWORDS * TILE * 4, l == QW_L_X4_0 ? 0x88888888u : 0);
        }
}
