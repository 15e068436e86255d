/* SPDX-License-Identifier: MIT */
/* qw_conv: causal depthwise convolution over QW_TAPS columns, SiLU, and for q and k heads the L2
 * norm x / sqrt(|x|^2 + eps).
 * Layout: u [rows][ldu] f32 (columns [0, heads * dk)); ring [QW_CONV_RING][heads * dk] holds the
 * columns of earlier positions at position mod QW_CONV_RING, zero before the first; w [QW_TAPS]
 * [heads * dk], oldest tap first; y [rows][heads * dk].
 * Launch: a work-group of dk/4 items per (head, row); the first nq heads are normed.
 * Order of sums: taps oldest first by fma; |x|^2: item i adds its 4 squares, then items 0, 1, ... */
kernel void qw_conv(global const float *u, global const float *ring, global const float *w,
                    global const int *cycle, int ldu, int heads, int nq, float eps,
                    global float *y)
{
    local float part[QW_DK / 4];
    const int lane = (int)get_local_id(0), head = (int)get_group_id(0);
    const int row = (int)get_group_id(1), width = heads * QW_DK;
    if (row >= cycle[QW_CYC_ROWS])
        return;
    const int pos = cycle[QW_CYC_POS] + row, col = head * QW_DK + 4 * lane;
    float4 c = (float4)(0.0f);
    for (int j = 0; j < QW_TAPS; j++) {
        const int back = QW_TAPS - 1 - j;
        float4 v = (float4)(0.0f);
        if (back <= row)
            v = vload4(0, u + (size_t)(row - back) * ldu + col);
        else if (back <= pos)
            v = vload4(0, ring + (size_t)((pos - back) % QW_CONV_RING) * width + col);
        c = fma(vload4(0, w + (size_t)j * width + col), v, c);
    }
    float4 r = (float4)(qw_silu(c.x), qw_silu(c.y), qw_silu(c.z), qw_silu(c.w));
    if (head < nq) {
        part[lane] = fma(r.w, r.w, fma(r.z, r.z, fma(r.y, r.y, r.x * r.x)));
        barrier(CLK_LOCAL_MEM_FENCE);
        float s = 0.0f;
        for (int i = 0; i < QW_DK / 4; i++)
            s += part[i];
        r *= 1.0f / sqrt(s + eps);
    }
    vstore4(r, 0, y + (size_t)row * width + col);
}
