/* SPDX-License-Identifier: MIT */
/* qw_embed_L: x[r] = row ids[r] of the embedding, decoded from layout L; no rounding, no sums.
 * Layout: w holds rows [first, end) (first a multiple of 16); x [rows][K] f32; ids in the cycle
 * block. Launch: 64 items a row; an id of another slab is left to that slab's launch. */
#define QW_EMBED(L)                                                                            \
    kernel void qw_embed_##L(global const uchar *w, global const int *cycle, int K, int first,  \
                             int end, global float *x)                                         \
    {                                                                                          \
        const int row = (int)get_global_id(1), id = cycle[QW_CYC_IDS + row];                   \
        if (row >= cycle[QW_CYC_ROWS] || id < first || id >= end)                              \
            return;                                                                            \
        global const uchar *tile =                                                             \
            w + (size_t)((id - first) / 16) * ((K + 255) / 256) * QW_GROUP_##L;                \
        for (int k = (int)get_global_id(0); k < K; k += 64)                                    \
            x[(size_t)row * K + k] = qw_w_##L(tile + (size_t)(k / 256) * QW_GROUP_##L,         \
                                              k / 32 % 8, k % 32, id % 16);                    \
    }
QW_EMBED(q4_0)
QW_EMBED(q4_1)
QW_EMBED(q4_k)
QW_EMBED(q8_0)
QW_EMBED(q8_1)
QW_EMBED(q8_k)
QW_EMBED(q6_k)
QW_EMBED(x4_0)
QW_EMBED(x4_1)
QW_EMBED(x4_k)

kernel void qw_embed_f32(global const uchar *w, global const int *cycle, int K, int first, int end,
                         global float *x)
{
    const int row = (int)get_global_id(1), id = cycle[QW_CYC_IDS + row];
    if (row >= cycle[QW_CYC_ROWS] || id < first || id >= end)
        return;
    global const float *tile = (global const float *)w + (size_t)((id - first) / 16) * K * 16;
    for (int k = (int)get_global_id(0); k < K; k += 64)
        x[(size_t)row * K + k] = tile[(size_t)k * 16 + id % 16];
}
