/* SPDX-License-Identifier: MIT */
/* The steps and ends of a draft and of a verify step, one item each; blocks of cycle.h.
 * qw_draft_begin, qw_draft_next: a draft made token by token. begin: step gets one row, position and id
 * of next; drafted has none. next: (id, finite) of best and prob of step's row become the last of bests
 * [rows][2] and probs [rows], drafted's in number; step's row becomes that token at the position behind.
 * What ends a draft (see qw_draft_end) leaves step without rows, and a step without rows adds nothing.
 * qw_draft_end: best [rows][2] = (id, finite) of the drafter's rows, cycle's in number, become the draft
 * block. A row that is not finite, or with p_min > 0 one whose prob [rows] is below it, ends the draft
 * before it; fewer than n_min tokens are none.
 * qw_verify_begin: the draft's tokens become rows 1.. of the step, at most as many as the host left
 * room for (it wrote ROWS as the most rows, and row 0's id); head gets the same number of rows.
 * qw_accept: best [rows][2] = (id, finite) per row. Row r decides a token; while that is the token row
 * r + 1 was fed, row r + 1 counts too. The block `next` of the following proposal then starts behind
 * the tokens decided, with the last of them as its row 0. */
kernel void qw_verify_begin(global const int *draft, global int *cycle, global int *head)
{
    const int k = max(0, min(draft[QW_DRAFT_COUNT], cycle[QW_CYC_ROWS] - 1));
    for (int i = 0; i < k; i++)
        cycle[QW_CYC_IDS + 1 + i] = draft[QW_DRAFT_IDS + i];
    cycle[QW_CYC_ROWS] = k + 1;
    head[QW_CYC_ROWS] = k + 1;
}

kernel void qw_accept(global const int *cycle, global const int *best, global int *result,
                      global int *next)
{
    const int rows = cycle[QW_CYC_ROWS];
    int n = 0, finite = 1;
    for (bool more = true; more; n++) {
        const int id = best[2 * n];
        finite &= best[2 * n + 1];
        result[QW_RES_IDS + n] = id;
        more = n + 1 < rows && id == cycle[QW_CYC_IDS + n + 1];
    }
    result[QW_RES_DRAFTED] = rows - 1;
    result[QW_RES_COUNT] = n;
    result[QW_RES_FINITE] = finite;
    next[QW_CYC_POS] = cycle[QW_CYC_POS] + n;
    next[QW_CYC_IDS] = result[QW_RES_IDS + n - 1];
}

kernel void qw_draft_begin(global const int *next, global int *step, global int *drafted)
{
    step[QW_CYC_ROWS] = 1;
    step[QW_CYC_POS] = next[QW_CYC_POS];
    step[QW_CYC_FIRST] = 0;
    step[QW_CYC_IDS] = next[QW_CYC_IDS];
    drafted[QW_CYC_ROWS] = 0;
}

kernel void qw_draft_next(global const int *best, global const float *prob, float p_min,
                          global int *step, global int *drafted, global int *bests,
                          global float *probs)
{
    const int n = drafted[QW_CYC_ROWS];
    if (step[QW_CYC_ROWS] == 0)
        return;
    bests[2 * n] = step[QW_CYC_IDS] = best[0];
    bests[2 * n + 1] = best[1];
    if (p_min > 0.0f)
        probs[n] = prob[0];
    drafted[QW_CYC_ROWS] = n + 1;
    step[QW_CYC_POS]++;
    step[QW_CYC_ROWS] = best[1] == 1 && !(p_min > 0.0f && prob[0] < p_min);
}

kernel void qw_draft_end(global const int *best, global const float *prob, global const int *cycle,
                         float p_min, int n_min, global int *draft)
{
    int n = 0;
    while (n < min(cycle[QW_CYC_ROWS], (int)QW_MAX_DRAFT) && best[2 * n + 1] == 1 &&
           !(p_min > 0.0f && prob[n] < p_min)) {
        draft[QW_DRAFT_IDS + n] = best[2 * n];
        n++;
    }
    draft[QW_DRAFT_COUNT] = n < n_min ? 0 : n;
}
