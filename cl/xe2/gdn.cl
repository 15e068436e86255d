/* SPDX-License-Identifier: MIT */
/* qw_gdn: what the generic qw_gdn computes, with its arguments, S in registers from the first replayed
 * position to the last row: it is read once and written once. X is not used: rows from `sure` on go on
 * in registers. Nor is o.
 * Layout: as the generic kernel's; S [nv][dk/16][dk key][16 values].
 * Launch: a work-group of 16 x dk/4 items a value head. Sub-group 4 s + c has the keys c, c + 4, ... of
 * slice s of 16 values, its lanes are the values: dk/4 floats of S an item.
 * Order of sums: the generic kernel's; a sub-group is a chain, and (c0 + c1) + (c2 + c3) go through
 * local memory. RMS: lane i is chain i, then chains 0, 1, ... */
#define QW_DK16 (QW_DK / 16)
#define QW_SUBS (QW_DK / 4) /* sub-groups, and keys of one */
#define QW_CHUNK 32         /* rows whose gates and outputs are in local memory */

/* the sum of a slice's four chains */
float qw_four(local const float *part, int slice, int lane)
{
    part += 64 * slice + lane;
    return (part[0] + part[16]) + (part[32] + part[48]);
}

QW_SG16 kernel __attribute__((reqd_work_group_size(16, QW_SUBS, 1))) void
qw_gdn(global const float *c, global const float *u, global float *S, global float *X,
       global float *tape, global float *ring, global const float *dt, global const float *a,
       global const float *w, global const int *cycle, int nk, int nv, int ldu, int z0, int a0,
       int b0, float eps, int want, global float *o, global qw_act *q8, global float *scale,
       global int *sum, global float *f)
{
    local float kept[QW_SUBS * 16], read[QW_SUBS * 16], out[QW_CHUNK * QW_DK];
    local float decays[QW_CHUNK], betas[QW_CHUNK];
    local uint scratch[QW_SUBS * 16];
    const int lane = qw_lane(), sub = qw_sub_group(), slice = sub / 4, chain = sub % 4;
    const int head = (int)get_group_id(0), rows = cycle[QW_CYC_ROWS];
    const int pos = cycle[QW_CYC_POS], sure = cycle[QW_CYC_SURE], stored = cycle[QW_CYC_STORED];
    const int width = (2 * nk + nv) * QW_DK, e = head % nk;
    const float root = 1.0f / sqrt((float)QW_DK);
    const int value = 16 * slice + lane, item = 16 * sub + lane;
    float s[QW_SUBS];
    S += (((size_t)head * QW_DK16 + slice) * QW_DK + chain) * 16;

    QW_UNROLL
    for (int i = 0; i < QW_SUBS; i++)
        s[i] = qw_read_float(S + 64 * i);
    for (int p = stored; p < pos; p++) {
        global const float *tp = qw_tape_row(tape, nk, nv, p);
        const qw_shared k = qw_read_shared(tp + e * QW_DK + chain, 4, QW_SUBS);
        const float d = tp[(nk + head) * QW_DK + value], decay = tp[(nk + nv) * QW_DK + head];
        QW_UNROLL
        for (int i = 0; i < QW_SUBS; i++)
            s[i] = fma(d, qw_shared_at(k, i), s[i] * decay);
    }
    for (int t0 = 0; t0 < rows; t0 += QW_CHUNK) {
        const int n = min(QW_CHUNK, rows - t0);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item < n) {
            float decay, beta;
            qw_gates(u + (size_t)(t0 + item) * ldu, dt, a, head, a0, b0, &decay, &beta);
            decays[item] = decay;
            betas[item] = beta;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int t = t0; t < t0 + n; t++) {
            global const float *ct = c + (size_t)t * width;
            const qw_shared k = qw_read_shared(ct + (nk + e) * QW_DK + chain, 4, QW_SUBS);
            const qw_shared q = qw_read_shared(ct + e * QW_DK + chain, 4, QW_SUBS);
            const float decay = decays[t - t0];
            float sum_k = 0.0f, sum_q = 0.0f;
            if (t == sure && (sure > 0 || stored < pos)) {
                QW_UNROLL
                for (int i = 0; i < QW_SUBS; i++)
                    qw_write_float(S + 64 * i, s[i]);
            }
            QW_UNROLL
            for (int i = 0; i < QW_SUBS; i++) {
                s[i] *= decay;
                sum_k = fma(s[i], qw_shared_at(k, i), sum_k);
            }
            kept[item] = sum_k;
            barrier(CLK_LOCAL_MEM_FENCE);
            const float v = ct[(2 * nk + head) * QW_DK + value];
            const float d = betas[t - t0] * (v - qw_four(kept, slice, lane));
            if (t >= sure && chain == 0) {
                global float *tp = qw_tape_row(tape, nk, nv, pos + t);
                tp[(nk + head) * QW_DK + value] = d;
                if (head < nk)
                    tp[head * QW_DK + value] = ct[(nk + e) * QW_DK + value];
                if (item == 0)
                    tp[(nk + nv) * QW_DK + head] = decay;
            }
            QW_UNROLL
            for (int i = 0; i < QW_SUBS; i++) {
                s[i] = fma(d, qw_shared_at(k, i), s[i]);
                sum_q = fma(s[i], qw_shared_at(q, i), sum_q);
            }
            read[item] = sum_q;
            barrier(CLK_LOCAL_MEM_FENCE);
            if (chain == 0)
                out[(t - t0) * QW_DK + value] = qw_four(read, slice, lane) * root;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int t1 = 0; t1 < n; t1 += QW_SUBS) { /* a sub-group a row */
            const int t = min(t1 + sub, n - 1);
            global const float *z = u + (size_t)(t0 + t) * ldu + z0 + head * QW_DK;
            float square = 0.0f, total = 0.0f;
            QW_ROLLED
            for (int i = 0; i < QW_DK; i += 16) {
                const float x = out[t * QW_DK + i + lane];
                square = fma(x, x, square);
            }
            kept[item] = square;
            barrier(CLK_LOCAL_MEM_FENCE);
            for (int i = 0; i < 16; i++)
                total += kept[16 * sub + i];
            const float r = 1.0f / sqrt(total / (float)QW_DK + eps);
            QW_ROLLED
            for (int b = 0; b < QW_DK / 32; b++) {
                const int i = 32 * b + lane, j = i + 16;
                qw_store_spread(out[t * QW_DK + i] * r * w[i] * qw_silu(z[i]),
                                out[t * QW_DK + j] * r * w[j] * qw_silu(z[j]),
                                ((size_t)(t0 + t) * nv + head) * (QW_DK / 32) + b,
                                t1 + sub < n, want, q8, scale, sum, f, scratch);
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
    }
    if (rows <= sure && (rows > 0 || stored < pos)) {
        QW_UNROLL
        for (int i = 0; i < QW_SUBS; i++)
            qw_write_float(S + 64 * i, s[i]);
    }
    qw_ring_keep(u, ring, rows, pos, ldu, width, head, nv, item, 16 * QW_SUBS);
}
