/* SPDX-License-Identifier: MIT */
/* qw_argmax_part, qw_argmax: the id of the largest logit of each row; ties take the lowest id.
 * Layout: y [rows][ldy] f32; part [rows][chunks][2] = (ordered value, id - chunk * step);
 * out [rows][2] = (id, 1 when every logit is finite).
 * Launch: part: a work-group of QW_ROW_WG items per (chunk of QW_ARGMAX_CHUNK, row); then one
 * work-group of QW_ROW_WG a row. A maximum has no order of sums. */
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
    int2 b = QW_NOTHING;
    for (int i = chunk * QW_ARGMAX_CHUNK + lane; i < end; i += QW_ROW_WG)
        b = qw_better(b, qw_key(y[(size_t)row * ldy + i], i));
    best[lane] = b;
    b = qw_fold(best, lane);
    if (lane == 0)
        part[(size_t)row * get_num_groups(0) + chunk] = b;
}

kernel __attribute__((reqd_work_group_size(QW_ROW_WG, 1, 1))) void
qw_argmax(global const int2 *part, global const int *cycle, int chunks, int step, global int2 *out)
{
    local int2 best[QW_ROW_WG];
    const int lane = (int)get_local_id(0), row = (int)get_group_id(0);
    if (row >= cycle[QW_CYC_ROWS])
        return;
    int2 b = QW_NOTHING;
    for (int i = lane; i < chunks; i += QW_ROW_WG) {
        const int2 c = part[(size_t)row * chunks + i];
        b = qw_better(b, (int2)(c.x, c.y < 0 ? c.y : c.y + i * step));
    }
    best[lane] = b;
    b = qw_fold(best, lane);
    if (lane == 0)
        out[row] = (int2)(b.y, b.y >= 0);
}

/* qw_top10: the probability of the largest logit among the ten largest of its row, temperature 1:
 * 1 / sum e^(y_i - y_0), largest first; NaN when a logit is not finite.
 * Layout: y [rows][ldy] f32; out [rows]. Launch: a work-group of QW_ROW_WG items a row: each keeps the
 * ten largest of its strided share in order, then item 0 merges the lists. */
enum { QW_TEN = 10 };

kernel __attribute__((reqd_work_group_size(QW_ROW_WG, 1, 1))) void
qw_top10(global const float *y, global const int *cycle, int n, int ldy, global float *out)
{
    local float top[QW_ROW_WG * QW_TEN], bad[QW_ROW_WG];
    const int lane = (int)get_local_id(0), row = (int)get_group_id(0);
    if (row >= cycle[QW_CYC_ROWS])
        return;
    local float *mine = top + lane * QW_TEN;
    float zero = 0.0f;
    for (int i = 0; i < QW_TEN; i++)
        mine[i] = -INFINITY;
    for (int i = lane; i < n; i += QW_ROW_WG) {
        const float v = y[(size_t)row * ldy + i];
        zero += v * 0.0f;
        if (v > mine[QW_TEN - 1]) {
            int at = QW_TEN - 1;
            for (; at > 0 && v > mine[at - 1]; at--)
                mine[at] = mine[at - 1];
            mine[at] = v;
        }
    }
    bad[lane] = zero;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane > 0)
        return;
    int next[QW_ROW_WG];
    float first = 0.0f, sum = 0.0f;
    for (int i = 0; i < QW_ROW_WG; i++) {
        next[i] = 0;
        zero += bad[i];
    }
    for (int k = 0; k < min((int)QW_TEN, n); k++) {
        int best = -1;
        float v = -INFINITY;
        for (int i = 0; i < QW_ROW_WG; i++)
            if (next[i] < QW_TEN && top[i * QW_TEN + next[i]] > v) {
                v = top[i * QW_TEN + next[i]];
                best = i;
            }
        if (best < 0)
            break;
        next[best]++;
        if (k == 0)
            first = v;
        sum += qw_exp(v - first);
    }
    out[row] = 1.0f / sum + zero;
}
