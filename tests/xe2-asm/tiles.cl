/* SPDX-License-Identifier: MIT */
/* What the machine code beside this file was made from: tests/test_xe2_model.sh says how. Nothing runs it.
 * qw_matmul_t_x8: a product in the shape of those of cl/xe2, without its last steps. pick: a loop through
 * a pointer that is one of two, and one without memory. */
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
__attribute__((intel_reqd_sub_group_size(16))) kernel void
qw_matmul_t_x8(global const uint *w, global const ushort *q, global const float *scale, global const int *sum,
               global float *y, global const int *cycle, int K, int N, int ldy, int y0, int mode)
{
    const int lane = get_sub_group_local_id(), p = get_local_id(1), P = get_local_size(1);
    const int tile = get_group_id(0), groups = K / 256;
    float acc[8] = {0};
    for (int g = p; g < groups; g += P) {
        global const uint *wg = w + ((size_t)tile * groups + g) * 576;
        const half8 sw = as_half8(intel_sub_group_block_read_us8((global const ushort *)(wg + 512)));
#pragma unroll
        for (int j = 0; j < 8; j++) {
            const short8 a = as_short8(intel_sub_group_block_read_us8(q + (8 * g + j) * 128));
            const int4 b = as_int4(intel_sub_group_block_read4(wg + 64 * j));
            const int8 c = intel_sub_group_i8_i4_matrix_mad_k32(a, b, (int8)0);
#pragma unroll
            for (int r = 0; r < 8; r++)
                acc[r] = fma(convert_float(c[r]), convert_float(sw[j]), acc[r]);
        }
    }
    for (int r = 0; r < 8; r++)
        y[(size_t)r * ldy + y0 + 16 * tile + lane] = acc[r];
}

__attribute__((intel_reqd_sub_group_size(16))) kernel void
pick(global const float *from, global float *to, global const int *cycle, int n)
{
    const int i = get_global_id(0);
    global const float *p = cycle[0] > 3 ? from : to;
    float s = 0.0f;
    for (int k = 0; k < n; k++) {
        float x = p[16 * k + i];
        for (int t = cycle[1]; t != 1; t = t & 1 ? 3 * t + 1 : t / 2)
            x = native_exp2(x) * 0.5f;
        s += x;
    }
    to[i] = s;
}
