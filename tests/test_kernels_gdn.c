/* SPDX-License-Identifier: MIT */
/* Convolution and gated delta rule. See test_kernels.c. */
#include "test_kernels.h"

#include <math.h>

#include "kern_ref.h"
#include "kern_util.h"

/* More value heads than key heads, and two of those (trap 1: head h reads key head h mod
 * nk, not h / (nv / nk)). */
enum { NK = 2, NV = 5 };

struct seq {
    const struct ku_config *c;
    struct qw_gdn_shape s;
    int config, width, n; /* columns of the convolution; positions */
    float *u;             /* [n][ldu]: qkv | gap | z | a | b, NaN in the gap */
    float *w, *dt, *a, *norm;
};

static struct seq make_seq(int config, int n)
{
    struct seq q = {.c = &ku_config[config], .config = config, .n = n};
    const int dk = q.c->dk, vd = NV * dk;
    q.width = (2 * NK + NV) * dk;
    q.s = (struct qw_gdn_shape){.nk = NK,
                                .nv = NV,
                                .dk = dk,
                                .taps = q.c->taps,
                                .z0 = q.width + 16,
                                .a0 = q.width + 16 + vd,
                                .b0 = q.width + 32 + vd,
                                .ldu = q.width + 48 + vd,
                                .eps = 1e-6f};
    q.u = ku_floats((size_t)n * (size_t)q.s.ldu, 2.0f);
    for (int t = 0; t < n; t++) {
        for (int i = q.width; i < q.s.z0; i++)
            q.u[t * q.s.ldu + i] = NAN;
        for (int i = NV; i < 16; i++)
            q.u[t * q.s.ldu + q.s.a0 + i] = q.u[t * q.s.ldu + q.s.b0 + i] = NAN;
    }
    q.w = ku_floats((size_t)(q.c->taps * q.width), 1.0f);
    q.dt = ku_floats(NV, 1.0f);
    q.a = ku_floats(NV, 1.0f);
    q.norm = ku_floats((size_t)dk, 2.0f);
    for (int h = 0; h < NV; h++)
        q.a[h] = -fabsf(q.a[h]) - 0.01f;
    return q;
}

/* The ring as of position pos: the last columns, NaN where nothing may be read. */
static float *make_ring(const struct seq *q, int pos)
{
    float *ring = ku_alloc((size_t)QW_CONV_RING * (size_t)q->width * 4);
    for (int t = pos > QW_CONV_RING ? pos - QW_CONV_RING : 0; t < pos; t++)
        memcpy(ring + t % QW_CONV_RING * q->width, q->u + t * q->s.ldu,
               (size_t)q->width * 4);
    return ring;
}

/* Rows pos .. pos + rows - 1 of u for the device; those from live on are NaN. */
static cl_mem put_rows(const float *x, int ld, int pos, int live, int rows)
{
    float *y = ku_alloc((size_t)rows * (size_t)ld * 4);
    memcpy(y, x + (size_t)pos * (size_t)ld, (size_t)live * (size_t)ld * 4);
    return ku_put(y, (size_t)rows * (size_t)ld * 4);
}

/* ---- conv (traps 12: silu on v too, 13: taps not reversed; history before silu) ---- */

static void conv_ref(const struct seq *q, float *f, double *d)
{
    const int dk = q->c->dk;
    for (int t = 0; t < q->n; t++)
        for (int h = 0; h < 2 * NK + NV; h++) {
            const float *hist = q->u + t * q->s.ldu + h * dk;
            const int at = t * q->width + h * dk;
            ref_conv_f(hist, q->s.ldu, q->w + h * dk, q->width, q->c->taps, t, dk,
                       h < 2 * NK, q->s.eps, f + at);
            ref_conv_d(hist, q->s.ldu, q->w + h * dk, q->width, q->c->taps, t, dk,
                       h < 2 * NK, q->s.eps, d + at);
        }
}

static void conv_case(const struct seq *q, const float *f, const double *d, int pos,
                      int live, int rows)
{
    struct qw_plan p;
    struct qw_err err;
    const size_t bytes = (size_t)rows * (size_t)q->width * 4,
                 used = (size_t)live * (size_t)q->width;
    cl_mem y = ku_new(bytes), u = put_rows(q->u, q->s.ldu, pos, live, rows);
    cl_mem ring = ku_put(make_ring(q, pos), (size_t)QW_CONV_RING * (size_t)q->width * 4);
    cl_mem w = ku_put(q->w, (size_t)(q->c->taps * q->width) * 4);
    for (int cpu = 0; cpu < 2; cpu++) {
        qw_plan_init(&p, ku_kern(q->config, cpu));
        ku_must(qw_op_conv(&p, &q->s, u, ring, w, ku_cycle(live, pos, 0, NULL, 0), y,
                           rows, &err),
                &err, "conv");
        ku_run(&p);
        const float *got = ku_get(y, bytes);
        ku_same("conv", got, f + pos * q->width, used);
        ku_near("conv", got, d + pos * q->width, used, 1e-5);
        ku_poison("conv", got + used, bytes - used * 4);
    }
}

void conv(void)
{
    static const int configs[] = {KU_64_F16, KU_256_Q8, KU_128_F32};
    static const struct {
        int pos, live, rows;
    } cases[] = {{0, 1, 1},  {0, 5, 9},  {1, 1, 2},  {2, 9, 9},    {3, 2, 4},
                 {62, 7, 9}, {63, 1, 1}, {64, 3, 9}, {66, 70, 72}, {130, 8, 8}};
    enum { N_CASES = sizeof(cases) / sizeof(cases[0]) };
    for (int c = 0; c < (ku_small ? 1 : 3); c++) {
        const struct seq q = make_seq(configs[c], ku_small ? 8 : 140);
        float *f = ku_alloc((size_t)q.n * (size_t)q.width * 4);
        double *d = ku_alloc((size_t)q.n * (size_t)q.width * 8);
        conv_ref(&q, f, d);
        for (int i = 0; i < (ku_small ? 3 : N_CASES); i++)
            conv_case(&q, f, d, cases[i].pos, cases[i].live, cases[i].rows);
        ku_reset();
    }
}

/* Trap 20: x / sqrt(|x|^2 + eps), not x / max(|x|, eps): |k| near 1e-3. */
void l2_norm(void)
{
    struct seq q = make_seq(KU_64_F16, 4);
    float *f = ku_alloc((size_t)q.n * (size_t)q.width * 4), length = 0.0f;
    double *d = ku_alloc((size_t)q.n * (size_t)q.width * 8);
    for (int i = 0; i < q.n * q.s.ldu; i++)
        q.u[i] *= 2e-4f;
    conv_ref(&q, f, d);
    for (int i = 0; i < q.c->dk; i++)
        length += f[i] * f[i];
    CHECK(length < 0.9f && length > 0.0f, "eps must show: |q|^2 = %g", (double)length);
    conv_case(&q, f, d, 0, 4, 5);
    ku_reset();
}

/* ---- gdn (traps 8 to 11, 14, 15, 19) ---- */

/* S between [value][key] of the reference and [head][dk/16][key][16] of the device. */
static void state_to_device(const float *S, int dk, float *out)
{
    for (int h = 0; h < NV; h++)
        for (int v = 0; v < dk; v++)
            for (int k = 0; k < dk; k++)
                out[((h * (dk / 16) + v / 16) * dk + k) * 16 + v % 16] =
                    S[(h * dk + v) * dk + k];
}

struct gdn_run {
    const struct seq *q;
    struct qw_layer l;
    const float *c; /* [n][width] */
    float *S;       /* the reference's state as of pos */
    double *Sd;
    float *ring; /* what the rows fed so far leave there */
    struct qw_gdn_state dev[KU_SETS];
    int pos, stored;
};

static struct gdn_run gdn_start(const struct seq *q, int pos)
{
    const int dk = q->c->dk;
    const size_t state = (size_t)(NV * dk * dk), ring = (size_t)(QW_CONV_RING * q->width);
    struct gdn_run g = {.q = q, .pos = pos, .stored = pos};
    float *first = ku_alloc(state * 4);
    g.c = ku_floats((size_t)q->n * (size_t)q->width, 0.4f);
    g.S = ku_floats(state, 0.5f);
    g.Sd = ku_alloc(state * 8);
    g.ring = make_ring(q, pos);
    for (size_t i = 0; i < state; i++)
        g.Sd[i] = g.S[i];
    state_to_device(g.S, dk, first);
    g.l.dt = ku_put(q->dt, NV * 4);
    g.l.a = ku_put(q->a, NV * 4);
    g.l.ssm_norm = ku_put(q->norm, (size_t)dk * 4);
    for (int set = 0; set < KU_SETS; set++)
        g.dev[set] = (struct qw_gdn_state){
            .S = ku_put(first, state * 4),
            .X = ku_new(state * 4),
            .tape = ku_new((size_t)QW_TAPE_RING * (size_t)((NK + NV) * dk + NV) * 4),
            .ring = ku_put(g.ring, ring * 4)};
    return g;
}

/* The rows to feed: those of the timeline, and from `keep` on others, which must leave
 * nothing behind. */
static float *fed_rows(const float *x, int ld, int pos, int keep, int live)
{
    float *y = ku_floats((size_t)(live + 1) * (size_t)ld, 0.7f);
    memcpy(y, x + (size_t)pos * (size_t)ld, (size_t)keep * (size_t)ld * 4);
    return y;
}

/* One launch of `live` rows at pos, every set, of which `sure` are taken into S at once
 * and `keep` stay; everything compared. */
static void gdn_verify(struct gdn_run *g, int live, int rows, int sure, int keep,
                       int want)
{
    const struct seq *q = g->q;
    const int dk = q->c->dk, vd = NV * dk, pos = g->pos;
    const size_t state = (size_t)(vd * dk), ring = (size_t)(QW_CONV_RING * q->width);
    const struct ref_gdn ref = {NK,      NV,       dk,    q->s.ldu, q->s.z0, q->s.a0,
                                q->s.b0, q->s.eps, q->dt, q->a,     q->norm};
    float *f = ku_alloc((size_t)(rows * vd + 1) * 4), *S = ku_alloc(state * 4);
    float *run = ku_alloc(state * 4), *fc = fed_rows(g->c, q->width, pos, keep, live);
    float *fu = fed_rows(q->u, q->s.ldu, pos, keep, live);
    double *d = ku_alloc((size_t)(rows * vd + 1) * 8), *rund = ku_alloc(state * 8);
    memcpy(run, g->S, state * 4);
    memcpy(rund, g->Sd, state * 8);
    for (int t = 0; t <= live; t++) {
        if (t == sure)
            state_to_device(run, dk, S);
        if (t == keep) {
            memcpy(g->S, run, state * 4);
            memcpy(g->Sd, rund, state * 8);
        }
        if (t == live)
            break;
        memcpy(g->ring + (pos + t) % QW_CONV_RING * q->width, fu + t * q->s.ldu,
               (size_t)q->width * 4);
        for (int h = 0; h < NV; h++) {
            const float *c = fc + t * q->width, *u = fu + t * q->s.ldu;
            ref_gdn_f(&ref, h, c, u, run + h * dk * dk, f + t * vd + h * dk);
            ref_gdn_d(&ref, h, c, u, rund + h * dk * dk, d + t * vd + h * dk);
        }
    }
    int32_t *block = ku_alloc(QW_CYC_IDS * 4);
    block[QW_CYC_ROWS] = live;
    block[QW_CYC_POS] = pos;
    block[QW_CYC_SURE] = sure;
    block[QW_CYC_STORED] = g->stored;
    g->stored = pos + sure;
    g->pos += keep;
    for (int set = 0; set < KU_SETS; set++) {
        struct qw_plan p;
        struct qw_err err;
        const struct qw_acts a = ku_acts(rows, vd);
        qw_plan_init(&p, ku_kern(q->config, set));
        ku_must(qw_op_gdn(&p, &q->s, &g->l, put_rows(fc, q->width, 0, live, rows),
                          put_rows(fu, q->s.ldu, 0, live, rows), &g->dev[set],
                          ku_put(block, QW_CYC_IDS * 4), want,
                          ku_new((size_t)(rows * vd) * 4), &a, rows, &err),
                &err, "gdn");
        ku_run(&p);
        char *what = qw_sprintf("%s gdn", ku_set_name[set]);
        ku_acts_check(what, &a, rows, live, vd, want, f);
        if (want & 2)
            ku_near("gdn", ku_get(a.f, (size_t)(live * vd) * 4), d, (size_t)(live * vd),
                    2e-4);
        ku_same(what, ku_get(g->dev[set].S, state * 4), S, state);
        ku_same_bytes("ring", ku_get(g->dev[set].ring, ring * 4), g->ring, ring * 4);
        free(what);
    }
    for (size_t i = 0; i < state; i += 7) /* f32 all the way (trap 19) */
        if (fabs(g->Sd[i] - (double)g->S[i]) > 1e-5 * (1.0 + fabs(g->Sd[i]))) {
            CHECK(false, "S[%zu] = %g, in double %g", i, (double)g->S[i], g->Sd[i]);
            break;
        }
}

static void gdn_step(struct gdn_run *g, int live, int rows, int want)
{
    gdn_verify(g, live, rows, live, live, want);
}

void gdn(void)
{
    static const int configs[] = {KU_64_F16, KU_256_Q8, KU_128_F32};
    for (int c = 0; c < (ku_small ? 1 : 3); c++) {
        const struct seq q = make_seq(configs[c], 30);
        struct gdn_run g = gdn_start(&q, 0);
        gdn_step(&g, 1, 1, 3);
        gdn_step(&g, 2, 3, 1);
        if (!ku_small)
            gdn_step(&g, 9, 9, 2);
        gdn_step(&g, 0, 2, 3); /* no live row: S and the ring stay */
        ku_reset();
    }
}

/* Splits of one timeline: the reference goes row by row, so every split must give its
 * bits. Chunks longer than the ring, and around its wrap. */
void gdn_splits(void)
{
    static const int live[] = {7, 1, 50, 6, 64, 65, 8, 130, 3, 16};
    enum { N_LIVE = sizeof(live) / sizeof(live[0]) };
    const struct seq q = make_seq(KU_64_F16, 360);
    struct gdn_run g = gdn_start(&q, 0);
    for (int i = 0; i < (ku_small ? 2 : N_LIVE); i++)
        gdn_step(&g, live[i], live[i] + i % 3, 3);
    ku_reset();
}

/* The tape: every (rows, rows kept) of a verify step, each twice in a row, around the
 * wraps of the tape; reject all, accept all, then nothing more (a step of no rows), then
 * a step of certain rows; rows whose place in S is not yet decided never reach it. */
void gdn_tape(void)
{
    const struct seq q = make_seq(ku_small ? KU_64_F16 : KU_128_F32, 2500);
    struct gdn_run g = gdn_start(&q, 0);
    const int widest = ku_small ? 3 : QW_MAX_DRAFT + 1;
    for (int live = 1; live <= widest; live += live < 8 ? 1 : 4)
        for (int keep = 1; keep <= live; keep += live < 8 ? 1 : 3) {
            gdn_verify(&g, live, live + keep % 2, 1, keep, 2);
            gdn_verify(&g, live, widest, 1, keep, 2);
            if (keep == live)
                gdn_step(&g, 0, 1, 2);
            if (keep == 2)
                gdn_step(&g, 3, 3, 2);
        }
    gdn_verify(&g, 2, 4, 0, 0, 1); /* certain of nothing, and nothing stays */
    gdn_step(&g, 1, 1, 2);
    ku_reset();
}

/* softplus(100) = 100 and the decay stays finite; a decay of e^-1e6 forgets all of S, so
 * S = d k^T; a row of zeros gives zeros; what is not finite reaches the output. */
void gdn_gates(void)
{
    struct seq q = make_seq(KU_64_F16, 4);
    const int dk = q.c->dk;
    for (int h = 0; h < NV; h++)
        for (int t = 0; t < q.n; t++)
            q.u[t * q.s.ldu + q.s.a0 + h] = h == 0   ? 100.0f - q.dt[0]
                                            : h == 1 ? 20.0f
                                                     : -30.0f;
    q.a[0] = -0.25f;
    q.a[2] = -1e4f;
    q.u[q.s.a0 + 2] = 100.0f;
    struct gdn_run g = gdn_start(&q, 0);
    for (int i = 0; i < q.width; i++) /* row 1 */
        ((float *)g.c)[q.width + i] = 0.0f;
    gdn_step(&g, 1, 1, 3);
    const float *S = g.S + 2 * dk * dk, *k = g.c + NK * dk; /* head 2 reads key head 0 */
    const float *v = g.c + (2 * NK + 2) * dk;
    const float beta = 1.0f / (1.0f + ref_exp_f(-q.u[q.s.b0 + 2]));
    for (int i = 0; i < dk * dk; i++)
        CHECK(S[i] == beta * v[i / dk] * k[i % dk], "S[%d] = %g", i, (double)S[i]);
    gdn_step(&g, 1, 2, 3);
    q.u[2 * q.s.ldu + q.s.z0 + 3] = NAN;
    q.u[2 * q.s.ldu + q.s.z0 + 2 * dk] = INFINITY;
    gdn_step(&g, 1, 1, 3);
    ku_reset();
}
