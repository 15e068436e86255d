/* SPDX-License-Identifier: MIT */
/* qw_norm: y = x / sqrt(mean(x^2) + eps) * w for each live row, rounded to activation blocks once
 * for all products that read it.
 * Layout: x [rows][n] f32 read at row first + r; outputs are columns [col, col + n) of rows of ld: q
 * [r][ld/32][32], scale and sum [r][ld/32], f [r][ld] f32. want: 1 blocks, 2 floats, 3 both.
 * Launch: one work-group of QW_ROW_WG items a row.
 * Order of the sum: item i adds x[i], x[i + WG], ... by fma; then the halves are folded together. */
kernel __attribute__((reqd_work_group_size(QW_ROW_WG, 1, 1))) void
qw_norm(global const float *x, global const float *w, global const int *cycle, int n, float eps,
        int col, int ld, int want, global qw_act *q, global float *scale, global int *sum,
        global float *f)
{
    local float part[QW_ROW_WG];
    const int lane = (int)get_local_id(0), row = (int)get_group_id(0);
    if (row >= cycle[QW_CYC_ROWS])
        return;
    global const float *xr = x + (size_t)(cycle[QW_CYC_FIRST] + row) * n;
    float s = 0.0f;
    for (int i = lane; i < n; i += QW_ROW_WG)
        s = fma(xr[i], xr[i], s);
    part[lane] = s;
    for (int step = QW_ROW_WG / 2; step > 0; step /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane < step)
            part[lane] += part[lane + step];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const float r = 1.0f / sqrt(part[0] / (float)n + eps);
    for (int b = lane; b < n / 32; b += QW_ROW_WG) {
        const float16 lo = vload16(2 * b, xr) * r * vload16(2 * b, w);
        const float16 hi = vload16(2 * b + 1, xr) * r * vload16(2 * b + 1, w);
        const size_t block = ((size_t)row * ld + col) / 32 + b;
        qw_store_block(lo, hi, block, want, q, scale, sum, f);
    }
}

/* qw_tap: x [rows][n] f32 as columns [col, col + n) of wider rows [ld] of activations, from row TAP of
 * the cycle block on, rounded to blocks as above without a norm.
 * Launch: dimension 0 = blocks of 32 (n/32 of them, any local size), dimension 1 = rows. */
kernel void qw_tap(global const float *x, global const int *cycle, int n, int col, int ld, int want,
                   global qw_act *q, global float *scale, global int *sum, global float *f)
{
    const int b = (int)get_global_id(0), row = (int)get_global_id(1);
    if (row >= cycle[QW_CYC_ROWS] || b >= n / 32)
        return;
    global const float *src = x + (size_t)row * n + 32 * b;
    const float16 lo = vload16(0, src), hi = vload16(1, src);
    const size_t block = ((size_t)(cycle[QW_CYC_TAP] + row) * ld + col) / 32 + b;
    qw_store_block(lo, hi, block, want, q, scale, sum, f);
}

/* qw_hidden_before, qw_hidden_keep: rows of the positions before, and rows for the next step.
 * Layout: x, out [rows][n] f32; ring [QW_HIDDEN_RING][n], position p at row p mod QW_HIDDEN_RING.
 * before: out[r] = x[r - 1], out[0] from the ring, zeros at position 0. keep: the last QW_HIDDEN_RING
 * live rows of x go to the ring.
 * Launch: 64 items a row. */
kernel void qw_hidden_before(global const float *x, global const float *ring, global const int *cycle,
                             int n, global float *out)
{
    const int row = (int)get_global_id(1), pos = cycle[QW_CYC_POS];
    if (row >= cycle[QW_CYC_ROWS])
        return;
    for (int i = (int)get_global_id(0); i < n; i += 64)
        out[(size_t)row * n + i] = row > 0   ? x[(size_t)(row - 1) * n + i]
                                   : pos > 0 ? ring[(size_t)((pos - 1) % QW_HIDDEN_RING) * n + i]
                                             : 0.0f;
}

kernel void qw_hidden_keep(global const float *x, global float *ring, global const int *cycle, int n)
{
    const int row = (int)get_global_id(1), rows = cycle[QW_CYC_ROWS];
    if (row >= rows || row < rows - QW_HIDDEN_RING)
        return;
    const int place = (cycle[QW_CYC_POS] + row) % QW_HIDDEN_RING;
    for (int i = (int)get_global_id(0); i < n; i += 64)
        ring[(size_t)place * n + i] = x[(size_t)row * n + i];
}
