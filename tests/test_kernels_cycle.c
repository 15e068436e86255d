/* SPDX-License-Identifier: MIT */
/* Ops of the cycle of drafting: taps of the target's rows, probability of a draft, what
 * becomes of a proposal, what is accepted. */
#include <math.h>
#include <string.h>

#include "check.h"
#include "cycle.h"
#include "kern_util.h"
#include "quant.h"
#include "test_kernels.h"

/* ---- taps ---- */

/* Columns [col, col + n) of rows TAP.. of wider activations; the rest is not touched. */
static void tap_case(int n, int col, int ld, int tap, bool cpu)
{
    const int rows = 6, live = 4, all = 12;
    float *x = ku_floats((size_t)rows * (size_t)n, 5.0f);
    float *f = ku_alloc((size_t)all * (size_t)ld * 4);
    int32_t *c = ku_alloc((QW_CYC_IDS + 1) * 4);
    memset(x, 0, 32 * 4); /* a block of zeros */
    for (int r = 0; r < live; r++)
        memcpy(f + (tap + r) * ld + col, x + r * n, (size_t)n * 4);
    memset(c, 0, (QW_CYC_IDS + 1) * 4);
    c[QW_CYC_ROWS] = live;
    c[QW_CYC_TAP] = tap;
    struct qw_plan p;
    struct qw_err err;
    const struct qw_acts a = ku_acts(all, ld);
    qw_plan_init(&p, ku_kern(KU_64_F16, cpu));
    ku_must(qw_op_tap(&p, ku_put(x, (size_t)rows * (size_t)n * 4),
                      ku_put(c, (QW_CYC_IDS + 1) * 4), n, col, ld, 3, &a, rows, &err),
            &err, "tap");
    ku_run(&p);
    const float *got = ku_get(a.f, (size_t)all * (size_t)ld * 4);
    const int8_t *q = ku_get(a.q, (size_t)all * (size_t)ld);
    const float *scale = ku_get(a.scale, (size_t)all * (size_t)ld / 8);
    ku_same_bytes("tap floats", got, f, (size_t)all * (size_t)ld * 4);
    for (int b = 0; b < all * ld / 32; b++) {
        const int row = b / (ld / 32), at = b % (ld / 32) * 32;
        int8_t rounded[32];
        float s;
        if (row < tap || row >= tap + live || at < col || at >= col + n) {
            ku_poison("tap", q + b * 32, 32);
            ku_poison("tap", scale + b, 4);
            continue;
        }
        qw_quant_act(f + b * 32, rounded, &s);
        ku_same_bytes("tap quants", q + b * 32, rounded, 32);
        ku_same("tap scale", scale + b, &s, 1);
    }
    ku_reset();
}

void tap(void)
{
    for (int cpu = 0; cpu < 2; cpu++) {
        tap_case(64, 64, 192, 0, cpu);
        tap_case(32 * 5, 0, 32 * 11, 7, cpu);
        if (!ku_small)
            tap_case(32 * 70, 32 * 70, 32 * 140, 3, cpu);
    }
}

/* ---- the probability of a draft ---- */

static double top10_of(const float *y, int n)
{
    double top[10], sum = 0.0;
    int have = 0;
    for (int i = 0; i < n; i++) {
        if (!isfinite(y[i]))
            return NAN;
        int at = have < 10 ? have++ : 10;
        for (; at > 0 && y[i] > top[at - 1]; at--)
            if (at < 10)
                top[at] = top[at - 1];
        if (at < 10)
            top[at] = (double)y[i];
    }
    for (int i = 0; i < have; i++)
        sum += exp(top[i] - top[0]);
    return 1.0 / sum;
}

static void top10_case(int n)
{
    enum { ROWS = 8, LIVE = 7 };
    const int ld = n + 5;
    float *y = ku_alloc((size_t)ROWS * (size_t)ld * 4);
    double want[LIVE];
    for (int r = 0; r < LIVE; r++) {
        float *row = y + r * ld;
        for (int i = 0; i < n; i++)
            row[i] = r == 1 ? 3.0f : ku_uniform(r == 2 ? 90.0f : 4.0f);
        for (int i = 0; r == 3 && i < n; i += 64) /* all of them in one item's share */
            row[i] = 4.0f + (float)(i % 640) / 640.0f;
        if (r == 4)
            row[n - 1] = 30.0f; /* sure */
        if (r == 5)
            row[n / 2] = NAN;
        if (r == 6)
            row[0] = -INFINITY;
        want[r] = top10_of(row, n);
    }
    cl_mem out = ku_new(ROWS * 4);
    struct qw_plan p;
    struct qw_err err;
    qw_plan_init(&p, ku_kern(KU_64_F16, true));
    ku_must(qw_op_top10(&p, ku_put(y, (size_t)ROWS * (size_t)ld * 4),
                        ku_cycle(LIVE, 3, 0, NULL, 0), n, ld, out, ROWS, &err),
            &err, "top10");
    ku_run(&p);
    const float *got = ku_get(out, ROWS * 4);
    for (int r = 0; r < LIVE; r++)
        CHECK(isnan(want[r]) ? isnan(got[r]) : fabs((double)got[r] - want[r]) < 1e-5,
              "n %d row %d: %.7f, want %.7f", n, r, (double)got[r], want[r]);
    ku_poison("top10", got + LIVE, (ROWS - LIVE) * 4);
    ku_reset();
}

void top10(void)
{
    top10_case(1);
    top10_case(7);
    top10_case(10);
    top10_case(11);
    top10_case(ku_small ? 700 : 4100);
}

/* ---- the end of a proposal ---- */

static void end_case(int rows, float p_min, int n_min, int not_finite, int want)
{
    enum { ROOM = QW_MAX_DRAFT + 3 };
    int32_t *best = ku_alloc(ROOM * 8);
    float *prob = ku_alloc(ROOM * 4);
    for (int i = 0; i < ROOM; i++) {
        best[2 * i] = 500 + i;
        best[2 * i + 1] = i != not_finite;
        prob[i] = 0.95f - 0.05f * (float)i;
    }
    cl_mem draft = ku_new((QW_DRAFT_IDS + ROOM) * 4);
    struct qw_plan p;
    struct qw_err err;
    qw_plan_init(&p, ku_kern(KU_64_F16, true));
    ku_must(qw_op_draft_end(&p, ku_put(best, ROOM * 8), ku_put(prob, ROOM * 4),
                            ku_cycle(rows, 9, 0, NULL, 0), p_min, n_min, draft, &err),
            &err, "draft_end");
    ku_run(&p);
    const int32_t *got = ku_get(draft, (QW_DRAFT_IDS + ROOM) * 4);
    CHECK(got[QW_DRAFT_COUNT] == want, "%d rows, p_min %.2f, n_min %d: %d, want %d", rows,
          (double)p_min, n_min, got[QW_DRAFT_COUNT], want);
    for (int i = 0; i < want; i++)
        CHECK(got[QW_DRAFT_IDS + i] == 500 + i, "id %d", i);
    ku_poison("draft_end", got + QW_DRAFT_IDS + QW_MAX_DRAFT, (ROOM - QW_MAX_DRAFT) * 4);
    ku_reset();
}

void draft_end(void)
{
    end_case(5, 0.0f, 0, -1, 5);
    end_case(0, 0.0f, 0, -1, 0);
    end_case(QW_MAX_DRAFT, 0.0f, 0, -1, QW_MAX_DRAFT);
    end_case(QW_MAX_DRAFT + 2, 0.0f, 0, -1, QW_MAX_DRAFT); /* never more than fit */
    end_case(5, 0.0f, 0, 3, 3);
    end_case(5, 0.0f, 0, 0, 0);
    end_case(8, 0.82f, 0, -1, 3); /* 0.95 0.90 0.85 | 0.80 */
    end_case(8, 0.96f, 0, -1, 0);
    end_case(8, 0.82f, 3, -1, 3);
    end_case(8, 0.82f, 4, -1, 0); /* too few are none */
    end_case(2, 0.0f, 3, -1, 0);
}

/* ---- verify and accept ---- */

static void begin_case(int drafted, int room, int want)
{
    enum { IDS = QW_MAX_DRAFT + 2 };
    int32_t draft[QW_DRAFT_IDS + QW_MAX_DRAFT], cycle[QW_CYC_IDS + IDS],
        head[QW_CYC_IDS + 1];
    draft[QW_DRAFT_COUNT] = drafted;
    for (int i = 0; i < QW_MAX_DRAFT; i++)
        draft[QW_DRAFT_IDS + i] = 70 + i;
    for (int i = 0; i < QW_CYC_IDS + IDS; i++)
        cycle[i] = -100 - i;
    for (int i = 0; i < QW_CYC_IDS + 1; i++)
        head[i] = -300 - i;
    cycle[QW_CYC_ROWS] = room;
    cl_mem c = ku_put(cycle, sizeof(cycle)), h = ku_put(head, sizeof(head));
    struct qw_plan p;
    struct qw_err err;
    qw_plan_init(&p, ku_kern(KU_64_F16, true));
    ku_must(qw_op_verify_begin(&p, ku_put(draft, sizeof(draft)), c, h, &err), &err,
            "verify_begin");
    ku_run(&p);
    cycle[QW_CYC_ROWS] = head[QW_CYC_ROWS] = want;
    for (int i = 1; i < want; i++)
        cycle[QW_CYC_IDS + i] = 70 + i - 1;
    ku_same_bytes("verify_begin", ku_get(c, sizeof(cycle)), cycle, sizeof(cycle));
    ku_same_bytes("verify_begin, head", ku_get(h, sizeof(head)), head, sizeof(head));
    ku_reset();
}

void verify_begin(void)
{
    begin_case(5, 6, 6);
    begin_case(5, 4, 4); /* the host left less room */
    begin_case(2, 6, 3);
    begin_case(0, 6, 1);
    begin_case(5, 1, 1);
    begin_case(QW_MAX_DRAFT, QW_MAX_DRAFT + 1, QW_MAX_DRAFT + 1);
    begin_case(-3, 6, 1);
}

/* Of `rows` rows the first `right` drafts are what the target decides; `bad`: a row of
 * the target that is not finite, -1: none. */
static void accept_case(int rows, int right, int bad)
{
    enum { MOST = QW_MAX_DRAFT + 1, POS = 41 };
    const int count = (right < rows - 1 ? right : rows - 1) + 1;
    int32_t ids[MOST], best[2 * MOST], want[QW_RES_IDS + MOST];
    for (int i = 0; i < MOST; i++) {
        best[2 * i] = 900 + i;
        best[2 * i + 1] = i != bad;
        ids[i] = i == 0                    ? 5
                 : i <= right || i >= rows ? 900 + i - 1 /* those are not looked at */
                                           : 3;
    }
    memset(want, 0xff, sizeof(want));
    want[QW_RES_DRAFTED] = rows - 1;
    want[QW_RES_COUNT] = count;
    want[QW_RES_FINITE] = bad < 0 || bad >= count;
    for (int i = 0; i < count; i++)
        want[QW_RES_IDS + i] = 900 + i;
    cl_mem result = ku_new(sizeof(want)), next = ku_new(4 * (QW_CYC_IDS + 1));
    struct qw_plan p;
    struct qw_err err;
    qw_plan_init(&p, ku_kern(KU_64_F16, true));
    ku_must(qw_op_accept(&p, ku_cycle(rows, POS, 0, ids, MOST),
                         ku_put(best, sizeof(best)), result, next, &err),
            &err, "accept");
    ku_run(&p);
    ku_same_bytes("accept", ku_get(result, sizeof(want)), want, sizeof(want));
    const int32_t *n = ku_get(next, 4 * (QW_CYC_IDS + 1));
    CHECK(n[QW_CYC_POS] == POS + count && n[QW_CYC_IDS] == 900 + count - 1,
          "next: position %d, id %d", n[QW_CYC_POS], n[QW_CYC_IDS]);
    ku_reset();
}

void accepting(void)
{
    static const int widths[] = {1, 2, 6, QW_MAX_DRAFT + 1};
    for (int i = 0; i < 4; i++)
        for (int right = 0; right < widths[i]; right++)
            accept_case(widths[i], right, -1);
    accept_case(6, 2, 1); /* a row that counts is not finite */
    accept_case(6, 2, 2);
    accept_case(6, 2, 3); /* one that does not */
}
