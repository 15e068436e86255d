/* SPDX-License-Identifier: MIT */
/* pack.h - weights into the layouts that kernels read. Host only; blocks.clh is the other
 * side. Every layout is made of tiles of 16 rows, one after the other; in a tile, groups
 * of 256 columns (the last one padded with scale 0), each block of 32 columns with its 16
 * rows side by side. */
#ifndef QW_PACK_H
#define QW_PACK_H

#include "base.h"

enum qw_layout {
    QW_L_F32,  /* [K][16] f32: F32, F16, BF16 */
    QW_L_Q4_0, /* nibbles; f16 d a block: Q4_0 */
    QW_L_Q4_1, /* nibbles; f16 d, f16 m a block: Q4_1 */
    QW_L_Q4_K, /* nibbles; u8 scale, u8 min a block, f16 d, f16 dmin a group: Q4_K */
    QW_L_Q8_0, /* int8; f16 d a block: Q8_0, Q5_0 */
    QW_L_Q8_1, /* int8; f16 d, f16 m a block: Q5_1 */
    QW_L_Q8_K, /* int8; scales as Q4_K: Q5_K */
    QW_L_Q6_K, /* nibbles, 2 high bits; int8 scale a half block, f16 d a group: Q6_K */
    QW_L_X4_0, /* the three with nibbles alone, these in the order of Xe2's matrix unit */
    QW_L_X4_1,
    QW_L_X4_K,
    QW_N_LAYOUTS
};

/* The layout a ggml type (one that qw_decode knows) is packed to, unless its kernel wants
 * another (kern.h). */
enum qw_layout qw_pack_layout(uint32_t type);
/* The form of a layout that Xe2's matrix unit takes as int4, of the same size; the layout
 * itself where there is none. */
enum qw_layout qw_pack_int4(enum qw_layout l);
const char *qw_layout_name(enum qw_layout l);
/* Bytes of one 16-row tile with K columns. */
size_t qw_pack_tile_bytes(enum qw_layout l, int K);
/* Partial sums of a product over K columns in the canonical order: 4, or 8 from K = 6144
 * on. */
int qw_partials(int K);

/* Pack n_rows rows (row_bytes apart, GGUF blocks of type) into n_tiles tiles at dst; rows
 * beyond n_rows are zero. Allocates nothing. */
void qw_pack_tiles(enum qw_layout l, uint32_t type, const void *rows, size_t row_bytes,
                   int n_rows, int K, int n_tiles, void *dst);
/* Tiles packed in the layout that l is the int4 form of: into l, in place. */
void qw_pack_xe2(enum qw_layout l, int K, int n_tiles, void *tiles);
#endif
