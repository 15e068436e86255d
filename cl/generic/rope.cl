/* SPDX-License-Identifier: MIT */
/* qw_rope_rows: cos and sin of this step's positions, copied from the table to one row each.
 * Layout: table [positions of the page][n_rot] = n_rot/2 cosines then sines; out [rows][n_rot].
 * Launch: any; dimension 0 = n_rot, dimension 1 = rows. Positions outside [p0, p1) are another
 * page's. */
kernel void qw_rope_rows(global const float *table, global const int *cycle, int n_rot, int p0,
                         int p1, global float *out)
{
    const int i = (int)get_global_id(0), row = (int)get_global_id(1);
    const int pos = cycle[QW_CYC_POS] + row;
    if (row < cycle[QW_CYC_ROWS] && pos >= p0 && pos < p1)
        out[(size_t)row * n_rot + i] = table[(size_t)(pos - p0) * n_rot + i];
}

/* qw_qk: per head of a live row: q and k: RMS norm over the head, rotate (pairs i, i + n_rot/2), v:
 * as it is; q goes to its buffer, k and v into the caches at their position. With a Q8_0 cache q, k
 * and v are first turned by the orthonormal Hadamard matrix (q, k: the largest power of two that
 * divides the head; v: 64; not at all when the head is no multiple of 64), then rounded to blocks of
 * 32.
 * Layout: y [rows][ldy] holds the query heads from column q0 (gated: q | gate per head), k heads from
 * k0, v heads from v0. q out [rows][heads][hd] f32, or int8 with scales [rows][heads][hd/32].
 * K cache page: [kv head][tile of 16 positions][hd][16]; Q8_0: [hd/32][32][16] int8, and from byte
 * koff on scales (half) [kv head][tile][hd/32][16]. V cache page: [kv head][position][hd]; Q8_0:
 * scales (half) [kv head][position][hd/32] from byte voff on. The pages of a cache are a ring of
 * `blocks` blocks: position p lies at place p mod (blocks * QW_ATTN_BLOCK). p0, p1: places of this
 * page.
 * Launch: a work-group of hd/4 items per (head slot, row); slots: query heads, k heads, v heads,
 * starting at slot0 (a second page skips the query heads, and so do rows that ask nothing: then qw,
 * qout and qscale are not touched).
 * Order of the sum: item i adds its 4 squares by fma, then items 0, 1, ... */
void qw_hadamard(local float *x, int lane, int size)
{
    for (int h = 1; h < size; h *= 2) {
        for (int p = lane; p < QW_HD / 2; p += QW_HD / 4) {
            const int i = (p / h) * 2 * h + p % h;
            const float a = x[i], b = x[i + h];
            x[i] = a + b;
            x[i + h] = a - b;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

#if QW_KV == 8
/* Round block b of the head to int8; returns the scale. */
float qw_quant_head(local const float *x, int b, float root, local char *q)
{
    float top = 0.0f, bad = 0.0f;
    for (int i = 32 * b; i < 32 * b + 32; i++) {
        top = fmax(top, fabs(x[i] * root));
        bad += x[i] * 0.0f;
    }
    const float id = top > 0.0f ? 127.0f / top : 0.0f;
    for (int i = 32 * b; i < 32 * b + 32; i++)
        q[i] = (char)(as_int(x[i] * root * id + 12582912.0f) - 0x4b400000);
    return qw_round_half(top / 127.0f) + bad;
}
#endif

kernel void qw_qk(global const float *y, global const float *qw, global const float *kw,
                  global const float *cs, global const int *cycle, int ldy, int q0, int k0, int v0,
                  int heads, int kv_heads, int gated, int n_rot, float eps, int slot0, int blocks,
                  int p0, int p1, uint koff, uint voff, global uchar *qout, global float *qscale,
                  global uchar *kcache, global uchar *vcache)
{
    local float x[QW_HD], part[QW_HD / 4];
    const int lane = (int)get_local_id(0), slot = slot0 + (int)get_group_id(0);
    const int row = (int)get_group_id(1), d = 4 * lane;
    if (row >= cycle[QW_CYC_ROWS])
        return;
    const int place = (cycle[QW_CYC_POS] + row) % (blocks * QW_ATTN_BLOCK), kv = slot - heads;
    const bool isq = kv < 0, isk = kv >= 0 && kv < kv_heads;
    if (!isq && (place < p0 || place >= p1))
        return;
    global const float *src = y + (size_t)row * ldy +
                              (isq   ? q0 + slot * (gated ? 2 : 1) * QW_HD
                               : isk ? k0 + kv * QW_HD
                                     : v0 + (kv - kv_heads) * QW_HD);
    float4 v = vload4(lane, src);
    if (isq || isk) {
        part[lane] = fma(v.w, v.w, fma(v.z, v.z, fma(v.y, v.y, v.x * v.x)));
        barrier(CLK_LOCAL_MEM_FENCE);
        float s = 0.0f;
        for (int i = 0; i < QW_HD / 4; i++)
            s += part[i];
        v = v * (1.0f / sqrt(s / (float)QW_HD + eps)) * vload4(lane, isq ? qw : kw);
    }
    vstore4(v, lane, x);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (isq || isk) {
        const int half_rot = n_rot / 2;
        global const float *c = cs + (size_t)row * n_rot;
        for (int i = lane; i < half_rot; i += QW_HD / 4) {
            const float a = x[i], b = x[i + half_rot], co = c[i], si = c[half_rot + i];
            x[i] = fma(a, co, -(b * si));
            x[i + half_rot] = fma(a, si, b * co);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    const int in = place - p0, page = p1 - p0;
#if QW_KV == 8
    local char q8[QW_HD];
    local float sc[QW_HD / 32];
    const int size = QW_HD % 64 ? 1 : isq || isk ? (QW_HD & -QW_HD) : 64;
    qw_hadamard(x, lane, size);
    for (int b = lane; b < QW_HD / 32; b += QW_HD / 4)
        sc[b] = qw_quant_head(x, b, 1.0f / sqrt((float)size), q8);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (isq) {
        const size_t head = (size_t)row * heads + slot;
        for (int i = d; i < d + 4; i++)
            qout[head * QW_HD + i] = (uchar)q8[i];
        if (lane < QW_HD / 32)
            qscale[head * (QW_HD / 32) + lane] = sc[lane];
    } else if (isk) {
        const size_t tile = (size_t)kv * (page / QW_KV_TILE) + in / QW_KV_TILE;
        for (int i = d; i < d + 4; i++)
            kcache[(tile * QW_HD + i) * QW_KV_TILE + in % QW_KV_TILE] = (uchar)q8[i];
        if (lane < QW_HD / 32)
            ((global ushort *)(kcache + koff))[(tile * (QW_HD / 32) + lane) * QW_KV_TILE +
                                               in % QW_KV_TILE] = qw_half_bits(sc[lane]);
    } else {
        const size_t at = (size_t)(kv - kv_heads) * page + in;
        for (int i = d; i < d + 4; i++)
            vcache[at * QW_HD + i] = (uchar)q8[i];
        if (lane < QW_HD / 32)
            ((global ushort *)(vcache + voff))[at * (QW_HD / 32) + lane] = qw_half_bits(sc[lane]);
    }
#else
    const size_t tile = (size_t)kv * (page / QW_KV_TILE) + in / QW_KV_TILE;
    const size_t at = (size_t)(kv - kv_heads) * page + in;
    for (int i = d; i < d + 4; i++) {
        if (isq)
            ((global float *)qout)[((size_t)row * heads + slot) * QW_HD + i] = x[i];
#if QW_KV == 16
        else if (isk)
            ((global ushort *)kcache)[(tile * QW_HD + i) * QW_KV_TILE + in % QW_KV_TILE] =
                qw_half_bits(qw_round_half(x[i]));
        else
            ((global ushort *)vcache)[at * QW_HD + i] = qw_half_bits(qw_round_half(x[i]));
#else
        else if (isk)
            ((global float *)kcache)[(tile * QW_HD + i) * QW_KV_TILE + in % QW_KV_TILE] = x[i];
        else
            ((global float *)vcache)[at * QW_HD + i] = x[i];
#endif
    }
#endif
}
