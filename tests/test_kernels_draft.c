/* SPDX-License-Identifier: MIT */
/* Ops that only drafters use: norms side by side, hidden rows by position, a draft made
 * token by token. */
#include <math.h>
#include <string.h>

#include "check.h"
#include "cycle.h"
#include "kern_ref.h"
#include "kern_util.h"
#include "test_kernels.h"

/* Two norms beside each other are one row of activations, the rest is not touched. */
void norm_into(void)
{
    const int n = ku_small ? 64 : 32 * 70, rows = 5, live = 3, ld = 2 * n;
    float *f = ku_alloc((size_t)rows * (size_t)ld * 4), *x[2], *w[2];
    for (int h = 0; h < 2; h++) {
        x[h] = ku_floats((size_t)rows * (size_t)n, 3.0f);
        w[h] = ku_floats((size_t)n, 2.0f);
        for (int r = 0; r < live; r++)
            ref_norm_f(x[h] + r * n, w[h], n, ku_kern(KU_64_F16, true)->row_group, 1e-6f,
                       f + r * ld + h * n);
    }
    for (int cpu = 0; cpu < 2; cpu++) {
        struct qw_plan p;
        struct qw_err err;
        const struct qw_acts a = ku_acts(rows, ld);
        qw_plan_init(&p, ku_kern(KU_64_F16, cpu));
        for (int h = 1; h >= 0; h--)
            ku_must(qw_op_norm_into(&p, ku_put(x[h], (size_t)rows * (size_t)n * 4),
                                    ku_put(w[h], (size_t)n * 4),
                                    ku_cycle(live, 9, 0, NULL, 0), n, 1e-6f, h * n, ld, 3,
                                    &a, rows, &err),
                    &err, "norm_into");
        ku_run(&p);
        ku_acts_check("norm_into", &a, rows, live, ld, 3, f);
    }
    ku_reset();
}

/* Keep `live` rows from position pos on, then ask for the rows before those of a step
 * that starts `back` positions before their end. Row values name their position. */
static void hidden_case(int pos, int live, int back)
{
    enum { N = 70, MOST = QW_HIDDEN_RING + 9 };
    const int next = pos + live - back, asked = 3;
    float *x = ku_alloc(MOST * N * 4), *y = ku_alloc(4 * N * 4),
          *want = ku_alloc(3 * N * 4);
    for (int r = 0; r < live; r++)
        for (int i = 0; i < N; i++)
            x[r * N + i] = (float)((pos + r) * N + i);
    for (int i = 0; i < (asked - 1) * N; i++)
        y[i] = ku_uniform(1.0f);
    for (int i = 0; i < N; i++)
        want[i] = next > 0 ? (float)((next - 1) * N + i) : 0.0f;
    memcpy(want + N, y, (size_t)(asked - 1) * N * 4);
    cl_mem ring = ku_new(QW_HIDDEN_RING * N * 4), out = ku_new(5 * N * 4);
    struct qw_plan p;
    struct qw_err err;
    qw_plan_init(&p, ku_kern(KU_64_F16, true));
    ku_must(qw_op_hidden_keep(&p, ku_put(x, MOST * N * 4), ring,
                              ku_cycle(live, pos, 0, NULL, 0), N, MOST, &err),
            &err, "hidden_keep");
    ku_must(qw_op_hidden_before(&p, ku_put(y, 4 * N * 4), ring,
                                ku_cycle(asked, next, 0, NULL, 0), N, out, 5, &err),
            &err, "hidden_before");
    ku_run(&p);
    float *got = ku_get(out, 5 * N * 4), *kept = ku_get(ring, QW_HIDDEN_RING * N * 4);
    ku_same("hidden_before", got, want, 3 * N);
    ku_poison("hidden_before", got + asked * N, 2 * N * 4);
    for (int r = live; r < QW_HIDDEN_RING; r++)
        ku_poison("hidden_keep", kept + (pos + r) % QW_HIDDEN_RING * N, N * 4);
    ku_reset();
}

void hidden(void)
{
    hidden_case(0, 1, 0);
    hidden_case(0, 1, 1); /* position 0: zeros */
    hidden_case(5, 7, 3);
    hidden_case(QW_HIDDEN_RING - 2, 5, 1);
    hidden_case(3, QW_HIDDEN_RING, QW_HIDDEN_RING - 1);
    hidden_case(3, QW_HIDDEN_RING + 9, 0); /* a prefill step: its last rows are kept */
    hidden_case(40, QW_HIDDEN_RING + 9, QW_HIDDEN_RING - 1);
}

/* Passes 0, 1, ... with these (id, finite, prob): all that is counted is told. */
static void steps_case(float p_min, int finite2, int want)
{
    enum { PASSES = 4, BLOCK = QW_CYC_IDS + 1 };
    static const float prob[PASSES] = {0.9f, 0.5f, 0.2f, 0.8f};
    const int32_t id = 7;
    cl_mem step = ku_new(BLOCK * 4), drafted = ku_new(QW_CYC_IDS * 4),
           bests = ku_new(PASSES * 8), probs = ku_new(PASSES * 4);
    struct qw_plan p;
    struct qw_err err;
    qw_plan_init(&p, ku_kern(KU_64_F16, true));
    ku_must(qw_op_draft_begin(&p, ku_cycle(9, 30, 4, &id, 1), step, drafted, &err), &err,
            "draft_begin");
    for (int i = 0; i < PASSES; i++) {
        const int32_t best[2] = {100 + i, i == 2 ? finite2 : 1};
        ku_must(qw_op_draft_next(&p, ku_put(best, 8), ku_put(&prob[i], 4), p_min, step,
                                 drafted, bests, probs, &err),
                &err, "draft_next");
    }
    ku_run(&p);
    const int32_t *s = ku_get(step, BLOCK * 4), *d = ku_get(drafted, QW_CYC_IDS * 4),
                  *b = ku_get(bests, PASSES * 8);
    const float *q = ku_get(probs, PASSES * 4);
    CHECK(d[QW_CYC_ROWS] == want && s[QW_CYC_POS] == 30 + want && s[QW_CYC_FIRST] == 0 &&
              s[QW_CYC_IDS] == 100 + want - 1 && s[QW_CYC_ROWS] == (want == PASSES),
          "%d passes, position %d, id %d, %d rows; want %d passes", d[QW_CYC_ROWS],
          s[QW_CYC_POS], s[QW_CYC_IDS], s[QW_CYC_ROWS], want);
    for (int i = 0; i < want; i++)
        CHECK(b[2 * i] == 100 + i && (p_min == 0.0f || q[i] == prob[i]), "pass %d", i);
    ku_poison("draft_next", b + 2 * want, (size_t)(PASSES - want) * 8);
    ku_reset();
}

void draft_steps(void)
{
    steps_case(0.0f, 1, 4);
    steps_case(0.0f, 0, 3); /* not finite: told, and the last */
    steps_case(0.1f, 1, 4);
    steps_case(0.3f, 1, 3);
    steps_case(0.6f, 1, 2);
}
