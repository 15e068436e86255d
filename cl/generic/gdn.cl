/* SPDX-License-Identifier: MIT */
/* qw_gdn: the gated delta rule, with its tape.
 *   g = ssm_a softplus(a + dt), beta = sigmoid(b)
 *   S' = exp(g) S ; r = S' k ; d = beta (v - r) ; S = S' + d k^T ; o = S q / sqrt(dk)
 * S is stored as of position `stored`. The launch replays positions [stored, pos) from the tape (S =
 * exp(g) S + d k^T with the very k, d, exp(g) of the first time, hence the very bits), then steps the
 * live rows. S is written as of pos + sure, the rows whose tokens stay whatever the verifier finds;
 * rows from sure on work on the copy X and leave k, d, exp(g) on the tape at their position. Also
 * RMS(o) * silu(z), rounded to activation blocks for the out product, and the rows' pre-convolution
 * columns into their ring.
 * Layout: c [rows][(2 nk + nv) dk] = q | k | v after conv; u [rows][ldu] holds qkv at column 0 and
 * z, a, b at z0, a0, b0; S, X [nv][dk/16][dk key][16 values] f32; tape [QW_TAPE_RING][nk dk k | nv dk d
 * | nv exp(g)] at position mod QW_TAPE_RING; o [rows][nv dk] is scratch; value head h reads key head h
 * mod nk.
 * Order of sums: over keys in four chains (key mod 4) by fma, ((c0 + c1) + (c2 + c3)); the RMS in
 * 16 chains (value mod 16), then chains 0, 1, ... Both launch shapes keep it. */
#define QW_DK16 (QW_DK / 16)

#if QW_CPU
/* One item a head: the 16-value slices of S one after the other, each through all rows. */
void qw_gdn_slice(global const float *from, global float *to, global const float *q,
                  global const float *k, float16 v, float decay, float beta, float16 *d, float16 *o)
{
    float16 c0 = 0.0f, c1 = 0.0f, c2 = 0.0f, c3 = 0.0f;
    for (int i = 0; i < QW_DK; i += 4) {
        c0 = fma(vload16(i, from) * decay, (float16)(k[i]), c0);
        c1 = fma(vload16(i + 1, from) * decay, (float16)(k[i + 1]), c1);
        c2 = fma(vload16(i + 2, from) * decay, (float16)(k[i + 2]), c2);
        c3 = fma(vload16(i + 3, from) * decay, (float16)(k[i + 3]), c3);
    }
    *d = beta * (v - ((c0 + c1) + (c2 + c3)));
    c0 = c1 = c2 = c3 = 0.0f;
    for (int i = 0; i < QW_DK; i += 4) {
        const float16 s0 = fma(*d, (float16)(k[i]), vload16(i, from) * decay);
        const float16 s1 = fma(*d, (float16)(k[i + 1]), vload16(i + 1, from) * decay);
        const float16 s2 = fma(*d, (float16)(k[i + 2]), vload16(i + 2, from) * decay);
        const float16 s3 = fma(*d, (float16)(k[i + 3]), vload16(i + 3, from) * decay);
        vstore16(s0, i, to);
        vstore16(s1, i + 1, to);
        vstore16(s2, i + 2, to);
        vstore16(s3, i + 3, to);
        c0 = fma(s0, (float16)(q[i]), c0);
        c1 = fma(s1, (float16)(q[i + 1]), c1);
        c2 = fma(s2, (float16)(q[i + 2]), c2);
        c3 = fma(s3, (float16)(q[i + 3]), c3);
    }
    *o = (c0 + c1) + (c2 + c3);
}

void qw_gdn_replay(global float *S, global const float *k, float16 d, float decay)
{
    for (int i = 0; i < QW_DK; i++)
        vstore16(fma(d, (float16)(k[i]), vload16(i, S) * decay), i, S);
}

float16 qw_gdn_silu(float16 x)
{
    float v[16];
    vstore16(x, 0, v);
    for (int i = 0; i < 16; i++)
        v[i] = qw_silu(v[i]);
    return vload16(0, v);
}

kernel __attribute__((reqd_work_group_size(1, 1, 1))) void
qw_gdn(global const float *c, global const float *u, global float *S, global float *X,
       global float *tape, global float *ring, global const float *dt, global const float *a,
       global const float *w, global const int *cycle, int nk, int nv, int ldu, int z0, int a0,
       int b0, float eps, int want, global float *o, global qw_act *q8, global float *scale,
       global int *sum, global float *f)
{
    const int head = (int)get_group_id(0), rows = cycle[QW_CYC_ROWS];
    const int pos = cycle[QW_CYC_POS], sure = cycle[QW_CYC_SURE];
    const int width = (2 * nk + nv) * QW_DK, e = head % nk;
    const float root = 1.0f / sqrt((float)QW_DK);
    for (int s = 0; s < QW_DK16; s++) {
        global float *Sh = S + ((size_t)head * QW_DK16 + s) * QW_DK * 16;
        global float *Xh = X + ((size_t)head * QW_DK16 + s) * QW_DK * 16;
        for (int p = cycle[QW_CYC_STORED]; p < pos; p++) {
            global const float *tp = qw_tape_row(tape, nk, nv, p);
            qw_gdn_replay(Sh, tp + e * QW_DK, vload16(s, tp + (nk + head) * QW_DK),
                          tp[(nk + nv) * QW_DK + head]);
        }
        for (int t = 0; t < rows; t++) {
            global const float *ct = c + (size_t)t * width, *k = ct + (nk + e) * QW_DK;
            float decay, beta;
            float16 d, out;
            qw_gates(u + (size_t)t * ldu, dt, a, head, a0, b0, &decay, &beta);
            qw_gdn_slice(t <= sure ? Sh : Xh, t < sure ? Sh : Xh, ct + e * QW_DK, k,
                         vload16(s, ct + (2 * nk + head) * QW_DK), decay, beta, &d, &out);
            vstore16(out * root, s, o + ((size_t)t * nv + head) * QW_DK);
            if (t < sure)
                continue;
            global float *tp = qw_tape_row(tape, nk, nv, pos + t);
            vstore16(d, s, tp + (nk + head) * QW_DK);
            if (head < nk)
                vstore16(vload16(s, k), s, tp + head * QW_DK);
            if (s == 0)
                tp[(nk + nv) * QW_DK + head] = decay;
        }
    }
    for (int t = 0; t < rows; t++) {
        global const float *ot = o + ((size_t)t * nv + head) * QW_DK;
        global const float *z = u + (size_t)t * ldu + z0 + head * QW_DK;
        float16 sq = 0.0f;
        for (int s = 0; s < QW_DK16; s++)
            sq = fma(vload16(s, ot), vload16(s, ot), sq);
        float lanes[16], total = 0.0f;
        vstore16(sq, 0, lanes);
        for (int i = 0; i < 16; i++)
            total += lanes[i];
        const float r = 1.0f / sqrt(total / (float)QW_DK + eps);
        for (int b = 0; b < QW_DK / 32; b++) {
            const float16 lo = vload16(2 * b, ot) * r * vload16(2 * b, w) *
                               qw_gdn_silu(vload16(2 * b, z));
            const float16 hi = vload16(2 * b + 1, ot) * r * vload16(2 * b + 1, w) *
                               qw_gdn_silu(vload16(2 * b + 1, z));
            const size_t block = ((size_t)t * nv + head) * (QW_DK / 32) + b;
            qw_store_block(lo, hi, block, want, q8, scale, sum, f);
        }
    }
    qw_ring_keep(u, ring, rows, pos, ldu, width, head, nv, 0, 1);
}
#else
/* One work-group a head, one item a value row. */
kernel __attribute__((reqd_work_group_size(QW_DK, 1, 1))) void
qw_gdn(global const float *c, global const float *u, global float *S, global float *X,
       global float *tape, global float *ring, global const float *dt, global const float *a,
       global const float *w, global const int *cycle, int nk, int nv, int ldu, int z0, int a0,
       int b0, float eps, int want, global float *o, global qw_act *q8, global float *scale,
       global int *sum, global float *f)
{
    local float kq[2 * QW_DK], out[QW_DK], chain[16];
    const int head = (int)get_group_id(0), i = (int)get_local_id(0), rows = cycle[QW_CYC_ROWS];
    const int pos = cycle[QW_CYC_POS], sure = cycle[QW_CYC_SURE];
    const int width = (2 * nk + nv) * QW_DK, e = head % nk;
    const float root = 1.0f / sqrt((float)QW_DK);
    const size_t mine = (size_t)head * QW_DK * QW_DK + (i / 16) * QW_DK * 16 + i % 16;
    for (int p = cycle[QW_CYC_STORED]; p < pos; p++) {
        global const float *tp = qw_tape_row(tape, nk, nv, p), *k = tp + e * QW_DK;
        const float d = tp[(nk + head) * QW_DK + i], decay = tp[(nk + nv) * QW_DK + head];
        for (int j = 0; j < QW_DK; j++)
            S[mine + j * 16] = fma(d, k[j], S[mine + j * 16] * decay);
    }
    for (int t = 0; t < rows; t++) {
        global const float *ct = c + (size_t)t * width;
        global const float *from = (t <= sure ? S : X) + mine;
        global float *to = (t < sure ? S : X) + mine;
        float decay, beta;
        qw_gates(u + (size_t)t * ldu, dt, a, head, a0, b0, &decay, &beta);
        barrier(CLK_LOCAL_MEM_FENCE);
        kq[i] = ct[(nk + e) * QW_DK + i];
        kq[QW_DK + i] = ct[e * QW_DK + i];
        barrier(CLK_LOCAL_MEM_FENCE);
        float c0 = 0.0f, c1 = 0.0f, c2 = 0.0f, c3 = 0.0f;
        for (int j = 0; j < QW_DK; j += 4) {
            c0 = fma(from[j * 16] * decay, kq[j], c0);
            c1 = fma(from[j * 16 + 16] * decay, kq[j + 1], c1);
            c2 = fma(from[j * 16 + 32] * decay, kq[j + 2], c2);
            c3 = fma(from[j * 16 + 48] * decay, kq[j + 3], c3);
        }
        const float v = ct[(2 * nk + head) * QW_DK + i];
        const float d = beta * (v - ((c0 + c1) + (c2 + c3)));
        if (t >= sure) {
            global float *tp = qw_tape_row(tape, nk, nv, pos + t);
            tp[(nk + head) * QW_DK + i] = d;
            if (head < nk)
                tp[head * QW_DK + i] = kq[i];
            if (i == 0)
                tp[(nk + nv) * QW_DK + head] = decay;
        }
        c0 = c1 = c2 = c3 = 0.0f;
        for (int j = 0; j < QW_DK; j += 4) {
            const float s0 = fma(d, kq[j], from[j * 16] * decay);
            const float s1 = fma(d, kq[j + 1], from[j * 16 + 16] * decay);
            const float s2 = fma(d, kq[j + 2], from[j * 16 + 32] * decay);
            const float s3 = fma(d, kq[j + 3], from[j * 16 + 48] * decay);
            to[j * 16] = s0;
            to[j * 16 + 16] = s1;
            to[j * 16 + 32] = s2;
            to[j * 16 + 48] = s3;
            c0 = fma(s0, kq[QW_DK + j], c0);
            c1 = fma(s1, kq[QW_DK + j + 1], c1);
            c2 = fma(s2, kq[QW_DK + j + 2], c2);
            c3 = fma(s3, kq[QW_DK + j + 3], c3);
        }
        const float ov = ((c0 + c1) + (c2 + c3)) * root;
        out[i] = ov;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (i < 16) {
            float s = 0.0f;
            for (int j = i; j < QW_DK; j += 16)
                s = fma(out[j], out[j], s);
            chain[i] = s;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        float total = 0.0f;
        for (int j = 0; j < 16; j++)
            total += chain[j];
        const float r = 1.0f / sqrt(total / (float)QW_DK + eps);
        const float z = u[(size_t)t * ldu + z0 + head * QW_DK + i];
        o[((size_t)t * nv + head) * QW_DK + i] = ov * r * w[i] * qw_silu(z);
    }
    barrier(CLK_GLOBAL_MEM_FENCE);
    for (int b = i; b < rows * (QW_DK / 32); b += QW_DK) {
        const int t = b / (QW_DK / 32), in = b % (QW_DK / 32);
        global const float *src = o + ((size_t)t * nv + head) * QW_DK + 32 * in;
        const size_t block = ((size_t)t * nv + head) * (QW_DK / 32) + in;
        qw_store_block(vload16(0, src), vload16(1, src), block, want, q8, scale, sum, f);
    }
    qw_ring_keep(u, ring, rows, pos, ldu, width, head, nv, i, QW_DK);
}
#endif
