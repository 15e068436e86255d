/* SPDX-License-Identifier: MIT */
/* qw_attn: attention of live rows over one block of QW_ATTN_BLOCK cached positions:
 *   s_j = (q . k_j) / sqrt(hd) ; m = max s_j ; p_j = e^(s_j - m) ; l = sum p_j ; o = sum p_j v_j
 * over the positions that the row sees: causal: up to its own, else up to the last live row's;
 * window > 0: the `window` positions up to its own and any that are later, else from 0 on.
 * qw_merge puts the blocks together, so the result depends on absolute positions alone.
 * Layout: q and the cache pages (a ring of `blocks` blocks) as qw_qk leaves them; partial results for
 * rows row0 .. row0 + R - 1: ml [row - row0][head][place][2], po [row - row0][head][place][hd]; place
 * of absolute block b (from position 0): b mod blocks.
 * Launch: (block of this page, kv head, row - row0); CPU: one item each; GPU: a work-group of
 * QW_ATTN_BLOCK items, item = position for the scores, then = output dim. A block that the row does
 * not see leaves at once.
 * Order of sums: q . k over dims ascending by fma (Q8_0: over blocks of 32, the integer sum times
 * (dk dq) by fma); l in 16 chains (position mod 16), then chains 0, 1, ...; o over positions
 * ascending by fma. */
#if QW_KV == 8
/* Scores of 16 positions of a K tile: integer sums by block, scaled. */
float16 qw_score_tile(global const uchar *k, global const uchar *ks, global const uchar *q,
                      global const float *qs)
{
    float16 s = 0.0f;
    for (int b = 0; b < QW_HD / 32; b++) {
        int16 sum = 0;
        for (int i = 32 * b; i < 32 * b + 32; i++)
            sum += convert_int16(vload16(i, (global const char *)k)) * (int)(char)q[i];
        s = fma(convert_float16(sum), qw_half16((global const ushort *)ks + 16 * b) * qs[b], s);
    }
    return s;
}
#define QW_K_BYTES 1
#elif QW_KV == 16
float16 qw_score_tile(global const uchar *k, global const uchar *ks, global const uchar *q,
                      global const float *qs)
{
    float16 s = 0.0f;
    for (int i = 0; i < QW_HD; i++)
        s = fma((float16)(((global const float *)q)[i]),
                qw_half16((global const ushort *)k + 16 * i), s);
    return s;
}
#define QW_K_BYTES 2
#else
float16 qw_score_tile(global const uchar *k, global const uchar *ks, global const uchar *q,
                      global const float *qs)
{
    float16 s = 0.0f;
    for (int i = 0; i < QW_HD; i++)
        s = fma((float16)(((global const float *)q)[i]), vload16(i, (global const float *)k), s);
    return s;
}
#define QW_K_BYTES 4
#endif

/* 16 output dims of V at a position; at = (kv head, position) row of the page. */
float16 qw_value16(global const uchar *v, global const uchar *vs, size_t at, int d)
{
#if QW_KV == 8
    return convert_float16(vload16(d, (global const char *)v + at * QW_HD)) *
           qw_half_value(((global const ushort *)vs)[at * (QW_HD / 32) + d / 2]);
#elif QW_KV == 16
    return qw_half16((global const ushort *)v + at * QW_HD + 16 * d);
#else
    return vload16(d, (global const float *)v + at * QW_HD);
#endif
}

/* First position that a row sees, and the one after the last. */
int qw_attn_from(global const int *cycle, int row, int window)
{
    return window > 0 ? max(0, cycle[QW_CYC_POS] + row + 1 - window) : 0;
}

int qw_attn_to(global const int *cycle, int row, int causal)
{
    return cycle[QW_CYC_POS] + (causal ? row + 1 : cycle[QW_CYC_ROWS]);
}

/* What a row sees of the block at a place: positions [x, y) counted from the block's first; none when
 * x >= y. The place holds the newest of its blocks that a live row has reached; a block before
 * position 0, none yet, ends before what any row sees. */
int2 qw_attn_span(global const int *cycle, int row, int place, int blocks, int causal, int window)
{
    const int last = (cycle[QW_CYC_POS] + cycle[QW_CYC_ROWS] - 1) / QW_ATTN_BLOCK;
    const int block = last - (last - place + blocks) % blocks, first = block * QW_ATTN_BLOCK;
    return (int2)(max(0, qw_attn_from(cycle, row, window) - first),
                  min(QW_ATTN_BLOCK, qw_attn_to(cycle, row, causal) - first));
}

#if QW_CPU
kernel __attribute__((reqd_work_group_size(1, 1, 1))) void
qw_attn(global const uchar *q, global const float *qscale, global const uchar *kcache,
        global const uchar *vcache, global const int *cycle, int heads, int kv_heads, int row0,
        int p0, int p1, uint koff, uint voff, int blocks, int causal, int window, float root,
        global float *ml, global float *po)
{
    const int kv = (int)get_group_id(1), row = row0 + (int)get_group_id(2), page = p1 - p0;
    const int first = (int)get_group_id(0) * QW_ATTN_BLOCK; /* in the page */
    const int place = (p0 + first) / QW_ATTN_BLOCK;
    const int2 span = qw_attn_span(cycle, row, place, blocks, causal, window);
    const int from = span.x, n = span.y;
    const int group = heads / kv_heads, tiles = (n + QW_KV_TILE - 1) / QW_KV_TILE;
    if (row >= cycle[QW_CYC_ROWS] || from >= n)
        return;
    const size_t tile0 = (size_t)kv * (page / QW_KV_TILE) + first / QW_KV_TILE;
    const size_t at0 = (size_t)kv * page + first;
    for (int g = 0; g < group; g++) {
        const int head = kv * group + g;
        const size_t in = (size_t)row * heads + head;
        const size_t out = ((size_t)(row - row0) * heads + head) * blocks + place;
        float p[QW_ATTN_BLOCK], top = -INFINITY;
        for (int t = from / QW_KV_TILE; t < tiles; t++) {
            const float16 s =
                root * qw_score_tile(kcache + (tile0 + t) * QW_HD * QW_KV_TILE * QW_K_BYTES,
                                     kcache + koff + (tile0 + t) * (QW_HD / 32) * QW_KV_TILE * 2,
                                     q + in * QW_HD * (QW_KV == 8 ? 1 : 4),
                                     qscale + in * (QW_HD / 32));
            vstore16(s, t, p);
        }
        for (int j = from; j < n; j++)
            top = fmax(top, p[j]);
        float chain[QW_KV_TILE], l = 0.0f;
        for (int j = 0; j < QW_KV_TILE; j++)
            chain[j] = 0.0f;
        for (int j = from; j < n; j++) {
            p[j] = qw_exp(p[j] - top);
            chain[j % QW_KV_TILE] += p[j];
        }
        for (int j = 0; j < QW_KV_TILE; j++)
            l += chain[j];
        ml[2 * out] = top;
        ml[2 * out + 1] = l;
        for (int d = 0; d < QW_HD / 16; d += 2) {
            float16 o0 = 0.0f, o1 = 0.0f;
            for (int j = from; j < n; j++) {
                o0 = fma((float16)(p[j]), qw_value16(vcache, vcache + voff, at0 + j, d), o0);
                o1 = fma((float16)(p[j]), qw_value16(vcache, vcache + voff, at0 + j, d + 1), o1);
            }
            vstore16(o0, d, po + out * QW_HD);
            vstore16(o1, d + 1, po + out * QW_HD);
        }
    }
}
#else
/* One position's score, one output dim: the scalar forms of the two functions above. */
float qw_score(global const uchar *k, global const uchar *ks, global const uchar *q,
               global const float *qs, int lane)
{
    float s = 0.0f;
#if QW_KV == 8
    for (int b = 0; b < QW_HD / 32; b++) {
        int sum = 0;
        for (int i = 32 * b; i < 32 * b + 32; i++)
            sum += (int)(char)k[i * QW_KV_TILE + lane] * (int)(char)q[i];
        s = fma((float)sum, qw_half_value(((global const ushort *)ks)[b * QW_KV_TILE + lane]) * qs[b],
                s);
    }
#else
    for (int i = 0; i < QW_HD; i++)
#if QW_KV == 16
        s = fma(((global const float *)q)[i],
                qw_half_value(((global const ushort *)k)[i * QW_KV_TILE + lane]), s);
#else
        s = fma(((global const float *)q)[i], ((global const float *)k)[i * QW_KV_TILE + lane], s);
#endif
#endif
    return s;
}

float qw_value(global const uchar *v, global const uchar *vs, size_t at, int d)
{
#if QW_KV == 8
    return (float)(char)v[at * QW_HD + d] *
           qw_half_value(((global const ushort *)vs)[at * (QW_HD / 32) + d / 32]);
#elif QW_KV == 16
    return qw_half_value(((global const ushort *)v)[at * QW_HD + d]);
#else
    return ((global const float *)v)[at * QW_HD + d];
#endif
}

kernel __attribute__((reqd_work_group_size(QW_ATTN_BLOCK, 1, 1))) void
qw_attn(global const uchar *q, global const float *qscale, global const uchar *kcache,
        global const uchar *vcache, global const int *cycle, int heads, int kv_heads, int row0,
        int p0, int p1, uint koff, uint voff, int blocks, int causal, int window, float root,
        global float *ml, global float *po)
{
    local float p[QW_ATTN_BLOCK], fold[QW_ATTN_BLOCK], chain[QW_KV_TILE];
    const int kv = (int)get_group_id(1), row = row0 + (int)get_group_id(2), page = p1 - p0;
    const int first = (int)get_group_id(0) * QW_ATTN_BLOCK, i = (int)get_local_id(0);
    const int place = (p0 + first) / QW_ATTN_BLOCK;
    const int2 span = qw_attn_span(cycle, row, place, blocks, causal, window);
    const int from = span.x, n = span.y, group = heads / kv_heads;
    const bool seen = i >= from && i < n;
    if (row >= cycle[QW_CYC_ROWS] || from >= n)
        return;
    const size_t tile = (size_t)kv * (page / QW_KV_TILE) + (first + i) / QW_KV_TILE;
    const size_t at0 = (size_t)kv * page + first;
    for (int g = 0; g < group; g++) {
        const int head = kv * group + g;
        const size_t in = (size_t)row * heads + head;
        const size_t out = ((size_t)(row - row0) * heads + head) * blocks + place;
        float s = -INFINITY;
        if (seen)
            s = root * qw_score(kcache + tile * QW_HD * QW_KV_TILE * QW_K_BYTES,
                                kcache + koff + tile * (QW_HD / 32) * QW_KV_TILE * 2,
                                q + in * QW_HD * (QW_KV == 8 ? 1 : 4),
                                qscale + in * (QW_HD / 32), i % QW_KV_TILE);
        fold[i] = s;
        for (int step = QW_ATTN_BLOCK / 2; step > 0; step /= 2) {
            barrier(CLK_LOCAL_MEM_FENCE);
            if (i < step)
                fold[i] = fmax(fold[i], fold[i + step]);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        const float top = fold[0];
        p[i] = seen ? qw_exp(s - top) : 0.0f;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (i < QW_KV_TILE) {
            float c = 0.0f;
            for (int j = i; j < n; j += QW_KV_TILE)
                c += p[j];
            chain[i] = c;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (i == 0) {
            float l = 0.0f;
            for (int j = 0; j < QW_KV_TILE; j++)
                l += chain[j];
            ml[2 * out] = top;
            ml[2 * out + 1] = l;
        }
        for (int d = i; d < QW_HD; d += QW_ATTN_BLOCK) {
            float o = 0.0f;
            for (int j = from; j < n; j++)
                o = fma(p[j], qw_value(vcache, vcache + voff, at0 + j, d), o);
            po[out * QW_HD + d] = o;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
#endif

/* qw_merge: the blocks of a row and head in order of position, then (gated) the sigmoid gate, rounded to
 * activation blocks for the output product. With a Q8_0 cache V was turned by 64-wide Hadamard
 * matrices: turned back before the gate.
 * Layout: ml, po as above; gated: y [rows][ldy] holds q | gate per head from column q0, else y is not
 * read; outputs as qw_norm.
 * Launch: a work-group of hd/4 items per (head, row - row0).
 * Order of sums: absolute blocks that the row sees, ascending, by fma, for l and o alike. */
kernel void qw_merge(global const float *ml, global const float *po, global const float *y,
                     global const int *cycle, int heads, int row0, int blocks, int causal,
                     int window, int gated, int ldy, int q0, int want, global qw_act *q, global float *scale, global int *sum,
                     global float *f)
{
    local float x[QW_HD];
    const int lane = (int)get_local_id(0), head = (int)get_group_id(0);
    const int row = row0 + (int)get_group_id(1);
    if (row >= cycle[QW_CYC_ROWS])
        return;
    const int first = qw_attn_from(cycle, row, window) / QW_ATTN_BLOCK;
    const int n = (qw_attn_to(cycle, row, causal) - 1) / QW_ATTN_BLOCK + 1 - first;
    const size_t in = ((size_t)(row - row0) * heads + head) * blocks;
    const int place0 = first % blocks;
    float top = -INFINITY, l = 0.0f;
    for (int i = 0, place = place0; i < n; i++, place = place + 1 < blocks ? place + 1 : 0)
        top = fmax(top, ml[2 * (in + place)]);
    float4 o = (float4)(0.0f);
    for (int i = 0, place = place0; i < n; i++, place = place + 1 < blocks ? place + 1 : 0) {
        const float w = qw_exp(ml[2 * (in + place)] - top);
        l = fma(ml[2 * (in + place) + 1], w, l);
        o = fma(vload4(lane, po + (in + place) * QW_HD), (float4)(w), o);
    }
    vstore4(o / l, lane, x);
    barrier(CLK_LOCAL_MEM_FENCE);
#if QW_KV == 8 && QW_HD % 64 == 0
    qw_hadamard(x, lane, 64);
    vstore4(vload4(lane, x) * 0.125f, lane, x);
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
    if (gated) {
        global const float *gate = y + (size_t)row * ldy + q0 + head * 2 * QW_HD + QW_HD;
        for (int i = 4 * lane; i < 4 * lane + 4; i++)
            x[i] *= qw_sigmoid(gate[i]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (int b = lane; b < QW_HD / 32; b += QW_HD / 4) {
        const float16 lo = vload16(2 * b, x), hi = vload16(2 * b + 1, x);
        const size_t block = ((size_t)row * heads + head) * (QW_HD / 32) + b;
        qw_store_block(lo, hi, block, want, q, scale, sum, f);
    }
}
