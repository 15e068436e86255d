/* SPDX-License-Identifier: MIT */
/* qw_argmax_part, qw_argmax: the id of the largest logit of each row; ties take the lowest id.
 * Layout: y [rows][ldy] f32; part [rows][chunks][2] = (ordered value, id); out [rows][2] = (id,
 * 1 when every logit is finite).
 * Launch: part: a work-group of QW_ROW_WG items per (chunk of QW_ARGMAX_CHUNK, row); then one
 * work-group of QW_ROW_WG a row. A maximum has no order of sums. */
uint qw_ordered(float v)
{
    const uint u = as_uint(v + 0.0f); /* -0 and +0 tie */
    return (u & 0x80000000u) ? ~u : u | 0x80000000u;
}

/* Keep the better of two (value, id) pairs; id < 0 marks a row with something not finite. */
int2 qw_better(int2 a, int2 b)
{
    if (a.y < 0 || b.y < 0)
        return (int2)(0, -1);
    if ((uint)a.x != (uint)b.x)
        return (uint)a.x > (uint)b.x ? a : b;
    return a.y < b.y ? a : b;
}

int2 qw_fold(local int2 *best, int lane)
{
    for (int step = QW_ROW_WG / 2; step > 0; step /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane < step)
            best[lane] = qw_better(best[lane], best[lane + step]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    return best[0];
}

kernel __attribute__((reqd_work_group_size(QW_ROW_WG, 1, 1))) void
qw_argmax_part(global const float *y, global const int *cycle, int n, int ldy, global int2 *part)
{
    local int2 best[QW_ROW_WG];
    const int lane = (int)get_local_id(0), chunk = (int)get_group_id(0);
    const int row = (int)get_group_id(1);
    if (row >= cycle[QW_CYC_ROWS])
        return;
    const int end = min(n, (chunk + 1) * QW_ARGMAX_CHUNK);
    int2 b = (int2)(0, 0x7fffffff);
    for (int i = chunk * QW_ARGMAX_CHUNK + lane; i < end; i += QW_ROW_WG) {
        const float v = y[(size_t)row * ldy + i];
        b = qw_better(b, isfinite(v) ? (int2)((int)qw_ordered(v), i) : (int2)(0, -1));
    }
    best[lane] = b;
    b = qw_fold(best, lane);
    if (lane == 0)
        part[(size_t)row * get_num_groups(0) + chunk] = b;
}

kernel __attribute__((reqd_work_group_size(QW_ROW_WG, 1, 1))) void
qw_argmax(global const int2 *part, global const int *cycle, int chunks, global int2 *out)
{
    local int2 best[QW_ROW_WG];
    const int lane = (int)get_local_id(0), row = (int)get_group_id(0);
    if (row >= cycle[QW_CYC_ROWS])
        return;
    int2 b = (int2)(0, 0x7fffffff);
    for (int i = lane; i < chunks; i += QW_ROW_WG)
        b = qw_better(b, part[(size_t)row * chunks + i]);
    best[lane] = b;
    b = qw_fold(best, lane);
    if (lane == 0)
        out[row] = (int2)(b.y, b.y >= 0);
}
