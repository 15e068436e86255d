/* SPDX-License-Identifier: MIT */
/* Attention: cos/sin rows, norm-rotate-store, scores over cache pages, merge and gate; of
 * a target (causal, gated, all positions) and of a drafter (blocks, windows, rings). See
 * test_kernels.c. */
#include "test_kernels.h"

#include <math.h>

#include "kern_ref.h"
#include "kern_util.h"
#include "quant.h"

/* Three query heads a kv head, two of those (trap 17: head a reads a / 3, not a mod 2).
 */
enum { HEADS = 6, KV_HEADS = 2, CONTEXT = 512, PAGES = 3, MAX_HD = 256 };
static const int page_end[PAGES + 1] = {0, 128, 384, CONTEXT};
static const int configs[] = {KU_64_F16, KU_256_Q8, KU_128_F32, KU_192_Q8, KU_96_Q8};
static const int small_configs[] = {KU_64_F16, KU_64_Q8};
static const int draft_configs[] = {KU_DRAFT_F16, KU_DRAFT_Q8, KU_DRAFT_F32};
enum { N_DRAFT = 3, FULL = CONTEXT / QW_ATTN_BLOCK };

static bool is_draft(int config)
{
    return ku_config[config].attn_only;
}

static struct qw_attn_shape make_shape(int config)
{
    const bool draft = is_draft(config);
    const int hd = ku_config[config].hd, kv = KV_HEADS * hd;
    const int q = (draft ? 1 : 2) * HEADS * hd;
    return (struct qw_attn_shape){.heads = HEADS,
                                  .kv_heads = KV_HEADS,
                                  .hd = hd,
                                  .n_rot = draft || config == KU_128_F32 ? hd : hd / 4,
                                  .q0 = 16,
                                  .k0 = 32 + q,
                                  .v0 = 48 + q + kv,
                                  .ldy = 64 + q + 2 * kv,
                                  .blocks = FULL,
                                  .rows = 4,
                                  .causal = !draft,
                                  .gated = !draft,
                                  .eps = 1e-6f};
}

/* Columns of a query head in y. */
static int q_step(const struct qw_attn_shape *s)
{
    return s->gated ? 2 * s->hd : s->hd;
}

/* A plan, and the shape's kernels: those of a drafter come from a set that is not the
 * plan's.
 */
static void start_plan(struct qw_plan *p, struct qw_attn_shape *s, int config, bool cpu)
{
    const int other = config == KU_DRAFT_F16 ? KU_DRAFT_Q8 : KU_DRAFT_F16;
    s->kern = is_draft(config) ? ku_kern(config, cpu) : NULL;
    qw_plan_init(p, ku_kern(is_draft(config) ? other : config, cpu));
}

/* ---- rope_rows ---- */

/* Pages in both orders: a launch must not touch another page's rows. */
static void rope_case(int pos, int live, int rows)
{
    enum { N_ROT = 24, PAGE = 64, N_PAGES = 2 };
    float *table = ku_floats(N_PAGES * PAGE * N_ROT, 1.0f);
    const size_t page = PAGE * N_ROT, bytes = (size_t)rows * N_ROT * 4;
    float *want = ku_alloc(bytes);
    cl_mem cycle = ku_cycle(live, pos, 0, NULL, 0);
    memcpy(want, table + pos * N_ROT, (size_t)live * N_ROT * 4);
    for (int order = 0; order < 2; order++) {
        cl_mem cs = ku_new(bytes);
        struct qw_plan p;
        struct qw_err err;
        qw_plan_init(&p, ku_kern(KU_64_F16, true));
        for (int i = 0; i < N_PAGES; i++) {
            const int at = order ? N_PAGES - 1 - i : i;
            ku_must(qw_op_rope_rows(&p, ku_put(table + (size_t)at * page, page * 4),
                                    cycle, N_ROT, at * PAGE, (at + 1) * PAGE, cs, rows,
                                    &err),
                    &err, "rope");
        }
        ku_run(&p);
        ku_same_bytes("rope rows", ku_get(cs, bytes), want, bytes);
    }
    ku_reset();
}

void rope_rows(void)
{
    rope_case(0, 1, 1);
    rope_case(60, 9, 12); /* over the edge of a page */
    rope_case(63, 1, 2);
    rope_case(64, 3, 3);
    rope_case(127, 1, 4);
}

/* ---- cache pages ---- */

struct cache {
    struct ref_kv k, v; /* CONTEXT positions */
};

static struct ref_kv new_kv(int config)
{
    const int hd = ku_config[config].hd;
    const size_t n = (size_t)(CONTEXT * KV_HEADS * hd);
    return (struct ref_kv){.heads = KV_HEADS,
                           .hd = hd,
                           .bits = ku_config[config].kv,
                           .val = ku_alloc(n * 4),
                           .scale = ku_alloc(n / 8),
                           .q = ku_alloc(n)};
}

static int n_pages(const struct qw_attn_shape *s)
{
    int n = 0;
    while (n < PAGES && page_end[n] < s->blocks * QW_ATTN_BLOCK)
        n++;
    return n;
}

static int page_to(const struct qw_attn_shape *s, int i)
{
    const int ring = s->blocks * QW_ATTN_BLOCK;
    return page_end[i + 1] < ring ? page_end[i + 1] : ring;
}

/* Position from .. to - 1 as the device holds them, in a page image that is else 0xff. */
static unsigned char *page_image(const struct ref_kv *c, bool is_k, int i, int from,
                                 int to, const struct qw_attn_shape *s)
{
    const int p0 = page_end[i], n = page_to(s, i) - p0, hd = s->hd;
    unsigned char *img = ku_alloc(qw_kv_page_bytes(s, c->bits, n));
    unsigned char *scales = img + qw_kv_scales_at(s, n);
    for (int pos = from; pos < to; pos++) {
        const int in = pos % (s->blocks * QW_ATTN_BLOCK) - p0;
        for (int x = 0; in >= 0 && in < n && x < KV_HEADS * hd; x++) {
            const int h = x / hd, d = x % hd;
            const int tile = h * (n / QW_KV_TILE) + in / QW_KV_TILE;
            const int lane = in % QW_KV_TILE, row = h * n + in;
            const int at = is_k ? (tile * hd + d) * QW_KV_TILE + lane : row * hd + d;
            const int sat = is_k ? (tile * (hd / 32) + d / 32) * QW_KV_TILE + lane
                                 : row * (hd / 32) + d / 32;
            const int src = pos * KV_HEADS * hd + x;
            if (c->bits == 32) {
                memcpy(img + 4 * at, &c->val[src], 4);
            } else if (c->bits == 16) {
                const uint16_t half = qw_float_to_half(c->val[src]);
                memcpy(img + 2 * at, &half, 2);
            } else {
                const uint16_t half = qw_float_to_half(c->scale[src / 32]);
                img[at] = (unsigned char)c->q[src];
                memcpy(scales + 2 * sat, &half, 2);
            }
        }
    }
    return img;
}

static void make_pages(const struct cache *c, int from, int to,
                       const struct qw_attn_shape *s, struct qw_kv_page *page)
{
    for (int i = 0; i < n_pages(s); i++) {
        const size_t bytes = qw_kv_page_bytes(s, c->k.bits, page_to(s, i) - page_end[i]);
        page[i] =
            (struct qw_kv_page){ku_put(page_image(&c->k, true, i, from, to, s), bytes),
                                ku_put(page_image(&c->v, false, i, from, to, s), bytes),
                                page_end[i], page_to(s, i)};
    }
}

/* ---- qk (traps 3, 5, 6, 7; "KV cache numerics") ---- */

/* Turned as a Q8_0 cache wants it: size of the matrix, 1 for none. */
static int turn(const struct qw_attn_shape *s, int bits, bool is_v)
{
    return bits != 8 || s->hd % 64 ? 1 : is_v ? 64 : s->hd & -s->hd;
}

/* A head of y as the kernel leaves it: values, or int8 with scales. */
static void head_ref(const struct qw_attn_shape *s, int bits, const float *x,
                     const float *w, const float *cs, float *val, int8_t *q, float *scale)
{
    const int size = turn(s, bits, w == NULL);
    float t[MAX_HD];
    double exact[MAX_HD], got[MAX_HD], error = 0.0, most = 0.0;
    ref_rotate_f(x, w, cs, s->hd, s->n_rot, s->eps, t);
    ref_rotate_d(x, w, cs, s->hd, s->n_rot, s->eps, exact);
    memcpy(val, t, (size_t)s->hd * 4);
    ku_near("rotation", t, exact, (size_t)s->hd, 1e-6);
    if (bits != 8)
        return;
    ref_hadamard_f(t, s->hd, size, 1.0f / sqrtf((float)size));
    for (int b = 0; b < s->hd / 32; b++)
        qw_quant_act(t + 32 * b, q + 32 * b, scale + b);
    /* turned back by the formula, it is the head again, up to the rounding to int8 */
    for (int i = 0; i < s->hd; i++) {
        got[i] = (double)q[i] * (double)scale[i / 32];
        most = fmax(most, (double)scale[i / 32]);
    }
    ref_hadamard_d(got, s->hd, size, 1.0 / sqrt((double)size));
    for (int i = 0; i < s->hd; i++)
        error += (got[i] - exact[i]) * (got[i] - exact[i]);
    error = sqrt(error / s->hd);
    CHECK(error < 0.55 * most + 127.0 * 0x1p-25, "error %g of scale %g", error, most);
}

struct qk_data {
    float *y, *cs, *qw, *kw; /* y and cs by absolute position */
    struct cache c;
    float *q, *qs; /* [CONTEXT][HEADS] */
    int8_t *q8;
};

static struct qk_data make_qk(int config, int from, int to)
{
    const struct qw_attn_shape s = make_shape(config);
    const int hd = s.hd, bits = ku_config[config].kv;
    struct qk_data d = {ku_floats((size_t)(CONTEXT * s.ldy), 2.0f),
                        ku_alloc((size_t)(CONTEXT * s.n_rot) * 4),
                        ku_floats((size_t)hd, 2.0f),
                        ku_floats((size_t)hd, 2.0f),
                        {new_kv(config), new_kv(config)},
                        ku_alloc((size_t)(CONTEXT * HEADS * hd) * 4),
                        ku_alloc((size_t)(CONTEXT * HEADS * hd) / 8),
                        ku_alloc((size_t)(CONTEXT * HEADS * hd))};
    for (int p = from; p < to; p++) {
        float *y = d.y + p * s.ldy, *cs = d.cs + p * s.n_rot;
        for (int i = 0; i < s.n_rot / 2; i++) {
            cs[i] = cosf((float)(p * (i + 1)) * 0.1f);
            cs[s.n_rot / 2 + i] = sinf((float)(p * (i + 1)) * 0.1f);
        }
        for (int i = 0; i < hd; i++) { /* halves of every kind, a zero head */
            y[s.v0 + i] *= ldexpf(1.0f, p % 7 * 6 - 30);
            y[s.v0 + hd + i] = p % 5 == 2 ? 0.0f : y[s.v0 + hd + i];
        }
        if (bits == 16 && p % 7 == 1)
            y[s.v0] = 65519.0f, y[s.v0 + 1] = 65520.0f, y[s.v0 + 2] = -1e6f;
        for (int h = 0; h < HEADS; h++) {
            const int at = (p * HEADS + h) * hd;
            head_ref(&s, bits, y + s.q0 + h * q_step(&s), d.qw, cs, d.q + at, d.q8 + at,
                     d.qs + at / 32);
        }
        for (int h = 0; h < KV_HEADS; h++) {
            const int at = (p * KV_HEADS + h) * hd;
            struct ref_kv *k = &d.c.k, *v = &d.c.v;
            head_ref(&s, bits, y + s.k0 + h * hd, d.kw, cs, k->val + at, k->q + at,
                     k->scale + at / 32);
            head_ref(&s, bits, y + s.v0 + h * hd, NULL, NULL, v->val + at, v->q + at,
                     v->scale + at / 32);
        }
    }
    return d;
}

static cl_mem put_part(const float *x, int ld, int pos, int live, int rows)
{
    float *y = ku_alloc((size_t)(rows * ld) * 4);
    memcpy(y, x + (size_t)pos * (size_t)ld, (size_t)(live * ld) * 4);
    return ku_put(y, (size_t)(rows * ld) * 4);
}

struct qk_case {
    int pos, live, rows, blocks;
    bool kv_only;
};

static void qk_case(int config, bool cpu, const struct qk_data *d, struct qk_case t)
{
    const int pos = t.pos, live = t.live, rows = t.rows;
    struct qw_attn_shape s = make_shape(config);
    s.blocks = t.blocks;
    const int bits = ku_config[config].kv;
    const size_t n = (size_t)(rows * HEADS * s.hd), size = bits == 8 ? 1 : 4;
    const size_t used = t.kv_only ? 0 : (size_t)(live * HEADS * s.hd);
    const size_t at = (size_t)(pos * HEADS * s.hd);
    cl_mem qw = ku_put(d->qw, (size_t)s.hd * 4), kw = ku_put(d->kw, (size_t)s.hd * 4);
    cl_mem y = put_part(d->y, s.ldy, pos, live, rows);
    cl_mem cs = put_part(d->cs, s.n_rot, pos, live, rows);
    cl_mem cycle = ku_cycle(live, pos, 0, NULL, 0);
    struct qw_kv_page page[PAGES];
    struct qw_plan p;
    struct qw_err err;
    cl_mem q = ku_new(n * size), qs = ku_new(n / 8);
    make_pages(&d->c, 0, 0, &s, page);
    start_plan(&p, &s, config, cpu);
    ku_must(t.kv_only
                ? qw_op_kv(&p, &s, kw, y, cs, cycle, page, n_pages(&s), bits, rows, &err)
                : qw_op_qk(&p, &s, qw, kw, y, cs, cycle, page, n_pages(&s), bits, q, qs,
                           rows, &err),
            &err, "qk");
    ku_run(&p);
    void *got = ku_get(q, n * size);
    float *got_s = ku_get(qs, n / 8);
    if (bits == 8) {
        ku_same_bytes("q", got, d->q8 + at, used);
        ku_same("q scales", got_s, d->qs + at / 32, used / 32);
        ku_poison("q scales", got_s + used / 32, (n - used) / 8);
    } else {
        ku_same("q", got, d->q + at, used);
    }
    ku_poison("q", (unsigned char *)got + used * size, (n - used) * size);
    for (int i = 0; i < n_pages(&s); i++) {
        const size_t bytes = qw_kv_page_bytes(&s, bits, page_to(&s, i) - page_end[i]);
        ku_same_bytes("K page", ku_get(page[i].k, bytes),
                      page_image(&d->c.k, true, i, pos, pos + live, &s), bytes);
        ku_same_bytes("V page", ku_get(page[i].v, bytes),
                      page_image(&d->c.v, false, i, pos, pos + live, &s), bytes);
    }
}

/* What is not finite must stay so through the int8 blocks of a Q8_0 cache. */
static void qk_not_finite(int config)
{
    const struct qw_attn_shape s = make_shape(config);
    const int hd = s.hd, n = page_end[1];
    struct qk_data d = make_qk(config, 0, 1);
    cl_mem qw = ku_put(d.qw, (size_t)hd * 4), kw = ku_put(d.kw, (size_t)hd * 4);
    struct qw_kv_page page[PAGES];
    struct qw_plan p;
    struct qw_err err;
    cl_mem q = ku_new((size_t)(HEADS * hd)), qs = ku_new((size_t)(HEADS * hd) / 8);
    d.y[s.v0 + 3] = NAN;
    d.y[s.k0 + hd] = INFINITY;
    d.y[s.q0 + 2 * hd] = NAN;
    make_pages(&d.c, 0, 0, &s, page);
    qw_plan_init(&p, ku_kern(config, true));
    ku_must(qw_op_qk(&p, &s, qw, kw, put_part(d.y, s.ldy, 0, 1, 1),
                     put_part(d.cs, s.n_rot, 0, 1, 1), ku_cycle(1, 0, 0, NULL, 0), page,
                     PAGES, 8, q, qs, 1, &err),
            &err, "qk");
    ku_run(&p);
    const size_t bytes = qw_kv_page_bytes(&s, 8, n);
    const uint16_t *k = (const uint16_t *)((char *)ku_get(page[0].k, bytes) +
                                           qw_kv_scales_at(&s, n)),
                   *v = (const uint16_t *)((char *)ku_get(page[0].v, bytes) +
                                           qw_kv_scales_at(&s, n));
    const float *scale = ku_get(qs, (size_t)(HEADS * hd) / 8);
    CHECK(isnan(qw_half_to_float(v[0])) && isfinite(qw_half_to_float(v[n * (hd / 32)])),
          "V scales %04x %04x", v[0], v[n * (hd / 32)]);
    const int k1 = n / QW_KV_TILE * (hd / 32) * QW_KV_TILE; /* head 1 */
    CHECK(isfinite(qw_half_to_float(k[0])) && isnan(qw_half_to_float(k[k1])),
          "K scales %04x %04x", k[0], k[k1]);
    CHECK(isfinite(scale[0]) && isnan(scale[hd / 32]), "q scales %g %g", (double)scale[0],
          (double)scale[hd / 32]);
    ku_reset();
}

void qk(void)
{
    static const struct {
        int pos, live, rows;
    } cases[] = {{124, 9, 12}, {0, 1, 1},   {127, 1, 2},
                 {128, 3, 3},  {300, 8, 9}, {377, 16, 16}};
    enum { N_CASES = sizeof(cases) / sizeof(cases[0]) };
    for (int c = 0; c < (ku_small ? 2 : 5); c++)
        for (int i = 0; i < (ku_small ? 1 : c < 2 ? N_CASES : 2); i++) {
            const int config = ku_small ? small_configs[c] : configs[c],
                      pos = cases[i].pos, live = cases[i].live;
            const struct qk_data d = make_qk(config, pos, pos + live);
            for (int cpu = 0; cpu < 2; cpu++)
                qk_case(config, cpu, &d,
                        (struct qk_case){pos, live, cases[i].rows, FULL, false});
            ku_reset();
        }
    qk_not_finite(ku_small ? KU_64_Q8 : KU_192_Q8);
}

/* Heads without a gate, all dims rotated; into a ring, over its end; without queries. */
void qk_draft(void)
{
    static const struct qk_case cases[] = {{254, 4, 5, 2, false},
                                           {254, 4, 5, 2, true},
                                           {380, 9, 9, 3, false},
                                           {127, 3, 4, 1, true},
                                           {300, 8, 9, FULL, true}};
    enum { N_CASES = sizeof(cases) / sizeof(cases[0]) };
    for (int c = 0; c < (ku_small ? 2 : N_DRAFT); c++)
        for (int i = 0; i < (ku_small ? 2 : N_CASES); i++) {
            const struct qk_case t = cases[i];
            const struct qk_data d = make_qk(draft_configs[c], t.pos, t.pos + t.live);
            for (int cpu = 0; cpu < 2; cpu++)
                qk_case(draft_configs[c], cpu, &d, t);
            ku_reset();
        }
}

/* ---- attn and merge (traps 4, 17) ---- */

static void random_kv(struct ref_kv *c, float scale)
{
    const int n = CONTEXT * KV_HEADS * c->hd;
    for (int i = 0; i < n; i++) {
        c->val[i] = qw_half_to_float(qw_float_to_half(ku_uniform(scale)));
        c->q[i] = (int8_t)ku_int(-127, 127);
        if (i % 32 == 0)
            c->scale[i / 32] =
                qw_half_to_float(qw_float_to_half(fabsf(ku_uniform(scale)) / 100.0f));
    }
}

struct attn_case {
    int pos, live, rows, at_once;
};

struct view {
    bool causal;
    int window, blocks;
};
static const struct view whole = {true, 0, FULL};

static bool sees(struct attn_case t, struct view w, int pq, int pk)
{
    return pk >= 0 && pk < t.pos + t.live && (!w.causal || pk <= pq) &&
           (w.window == 0 || pq - pk < w.window);
}

/* Returns what the last launch shape gave, rows of HEADS * hd, where want has plain f32.
 */
static const float *attn_case(int config, const struct cache *c, struct attn_case t,
                              struct view w, int want)
{
    struct qw_attn_shape s = make_shape(config);
    const int hd = s.hd, bits = ku_config[config].kv, width = HEADS * hd;
    int oldest = 0;
    float *y = ku_floats((size_t)(t.rows * s.ldy), 4.0f),
          *qs = ku_alloc((size_t)(t.rows * width));
    float *q = ku_floats((size_t)(t.rows * width), 2.0f);
    int8_t *q8 = ku_alloc((size_t)(t.rows * width));
    float *f = ku_alloc((size_t)(t.rows * width) * 4);
    double *d = ku_alloc((size_t)(t.rows * width) * 8);
    s.rows = t.at_once;
    s.causal = w.causal;
    s.window = w.window;
    s.blocks = w.blocks;
    for (int i = 0; i < t.rows * width; i++) {
        q8[i] = (int8_t)ku_int(-127, 127);
        qs[i / 32] = 0.01f;
        if (i >= t.live * width)
            q[i] = qs[i / 32] = NAN;
    }
    for (int i = t.live * s.ldy; i < t.rows * s.ldy; i++)
        y[i] = NAN;
    while (!sees(t, w, t.pos, oldest))
        oldest++;
    for (int r = 0; r < t.live; r++) {
        int from = 0, to = CONTEXT;
        while (!sees(t, w, t.pos + r, from))
            from++;
        while (!sees(t, w, t.pos + r, to - 1))
            to--;
        for (int h = 0; h < HEADS; h++) {
            const int at = r * width + h * hd, kv = h / (HEADS / KV_HEADS);
            const float *gate = y + r * s.ldy + s.q0 + h * q_step(&s) + hd;
            gate = s.gated ? gate : NULL;
            ref_attn_f(&c->k, &c->v, kv, from, to, q + at, q8 + at, qs + at / 32, gate,
                       f + at);
            ref_attn_d(&c->k, &c->v, kv, from, to, q + at, q8 + at, qs + at / 32, gate,
                       d + at);
        }
    }
    struct qw_kv_page page[PAGES];
    /* what no row sees: NaN */
    make_pages(c, oldest, t.pos + t.live, &s, page);
    cl_mem by = s.gated ? ku_put(y, (size_t)(t.rows * s.ldy) * 4) : NULL,
           cycle = ku_cycle(t.live, t.pos, 0, NULL, 0);
    cl_mem bq = bits == 8 ? ku_put(q8, (size_t)(t.rows * width))
                          : ku_put(q, (size_t)(t.rows * width) * 4);
    cl_mem bs = ku_put(qs, (size_t)(t.rows * width) / 8);
    const float *got = NULL;
    for (int cpu = 0; cpu < 2; cpu++) {
        const size_t part = (size_t)(s.rows * HEADS * s.blocks);
        const struct qw_acts a = ku_acts(t.rows, width);
        struct qw_plan p;
        struct qw_err err;
        start_plan(&p, &s, config, cpu);
        ku_must(qw_op_attn(&p, &s, by, bq, bs, cycle, page, n_pages(&s), bits,
                           ku_new(part * 8), ku_new(part * (size_t)hd * 4), want, &a,
                           t.rows, &err),
                &err, "attn");
        ku_run(&p);
        ku_acts_check(cpu ? "attn cpu" : "attn gpu", &a, t.rows, t.live, width, want, f);
        got = ku_get(a.f, (size_t)(t.live * width) * 4);
        if (want & 2)
            ku_near("attn", got, d, (size_t)(t.live * width), 2e-5);
    }
    return got;
}

/* Positions around the edges of blocks and pages; a launch covers fewer rows than live.
 */
void attn(void)
{
    static const struct attn_case cases[] = {
        {124, 9, 11, 4}, {300, 8, 8, 3},   {0, 1, 1, 1},   {0, 3, 9, 4},
        {127, 1, 1, 1},  {128, 1, 2, 2},   {129, 2, 3, 2}, {250, 9, 9, 9},
        {383, 2, 2, 2},  {495, 16, 16, 16}};
    enum { N_CASES = sizeof(cases) / sizeof(cases[0]) };
    static const struct attn_case small_case = {126, 3, 4, 2};
    for (int c = 0; c < (ku_small ? 2 : 5); c++) {
        const int config = ku_small ? small_configs[c] : configs[c];
        for (int i = 0; i < (ku_small ? 1 : c < 2 ? N_CASES : 2); i++) {
            struct cache kv = {new_kv(config), new_kv(config)};
            random_kv(&kv.k, 2.0f);
            random_kv(&kv.v, 3.0f);
            attn_case(config, &kv, ku_small ? small_case : cases[i], whole, 3 - i % 3);
            ku_reset();
        }
    }
}

/* One value at position 126 that is not a number: rows before it do not hear of it, later
 * ones do, in the query heads of its kv head alone. */
void attn_not_finite(void)
{
    static const int where[] = {KU_64_F16, KU_256_Q8};
    for (int i = 0; i < (ku_small ? 0 : 4); i++) {
        const int config = where[i / 2];
        struct cache kv = {new_kv(config), new_kv(config)};
        random_kv(&kv.k, 2.0f);
        random_kv(&kv.v, 3.0f);
        const int at = (126 * KV_HEADS + 1) * kv.k.hd + 5;
        struct ref_kv *bad = i % 2 ? &kv.k : &kv.v;
        bad->val[at] = bad->scale[at / 32] = NAN;
        attn_case(config, &kv, (struct attn_case){124, 7, 8, 4}, whole, 3);
        ku_reset();
    }
}

static struct cache random_cache(int config)
{
    struct cache kv = {new_kv(config), new_kv(config)};
    random_kv(&kv.k, 2.0f);
    random_kv(&kv.v, 3.0f);
    return kv;
}

/* Blocks that see themselves, windows and rings; the edge of a window on both sides of
 * the edge of a block. In oclgrind the first alone. */
void attn_draft(void)
{
    static const struct {
        struct attn_case at;
        struct view view;
    } cases[] = {
        {{254, 4, 5, 3}, {false, 20, 2}},     {{300, 6, 8, 8}, {false, 0, FULL}},
        {{0, 6, 6, 4}, {false, 0, FULL}},     {{0, 1, 2, 2}, {false, 16, 2}},
        {{127, 6, 6, 6}, {false, 5, 2}},      {{260, 6, 7, 4}, {false, 131, 3}},
        {{379, 9, 9, 9}, {false, 124, 3}},    {{382, 9, 9, 4}, {true, 124, 3}},
        {{500, 12, 12, 12}, {false, 1, 2}},   {{505, 7, 7, 7}, {false, 250, FULL}},
        {{125, 6, 6, 6}, {false, 300, FULL}}, {{255, 2, 2, 1}, {true, 1, 2}}};
    enum { N_CASES = sizeof(cases) / sizeof(cases[0]) };
    for (int c = 0; c < (ku_small ? 2 : N_DRAFT); c++)
        for (int i = 0; i < (ku_small ? 1 : N_CASES); i++) {
            struct cache kv = random_cache(draft_configs[c]);
            attn_case(draft_configs[c], &kv, cases[i].at, cases[i].view, 3 - i % 3);
            ku_reset();
        }
}

/* A value that is not a number says who sees its position: of a window the last position
 * alone, of a block every row. */
void attn_seen(void)
{
    enum { WINDOW = 40, POS = 250, LIVE = 6 };
    static const int bad[] = {POS + 2 - WINDOW, POS + LIVE - 1};
    for (int i = 0; i < 4; i++) {
        const int config = draft_configs[0], at = bad[i / 2], hd = ku_config[config].hd;
        const bool causal = i % 2;
        struct cache kv = random_cache(config);
        for (int d = 0; d < KV_HEADS * hd; d++)
            kv.v.val[at * KV_HEADS * hd + d] = NAN;
        const float *f = attn_case(config, &kv, (struct attn_case){POS, LIVE, LIVE, 4},
                                   (struct view){causal, WINDOW, 2}, 2);
        for (int r = 0; r < LIVE; r++) {
            const bool seen =
                i / 2 == 0 ? POS + r - at <= WINDOW - 1 : !causal || r == LIVE - 1;
            CHECK((isnan(f[r * HEADS * hd]) != 0) == seen,
                  "row %d at %d, position %d: %s", r, POS + r, at,
                  seen ? "not seen" : "seen");
        }
        ku_reset();
    }
}

/* ---- a ring, step after step as a drafter takes them ---- */

enum { LONG = 2048, WINDOW = 100, INJECT = 150, BLOCK_ROWS = 6 };

struct ring {
    struct qw_attn_shape s;
    struct qw_kv_page page[2];
    struct qw_plan inject, block;
    struct qw_acts out;
};

struct ring_in {
    int config;
    bool cpu;
    struct qw_attn_shape s;
    cl_mem y, cs, cycle, qw, kw;
};

/* Pages that end at `split` and at the end of the ring; split 0: one page. */
static void open_ring(struct ring *g, const struct ring_in *in, int blocks, int split)
{
    const int bits = ku_config[in->config].kv, end[] = {split, blocks * QW_ATTN_BLOCK};
    const size_t part = (size_t)(BLOCK_ROWS * HEADS * blocks);
    const size_t n = (size_t)(BLOCK_ROWS * HEADS * in->s.hd);
    cl_mem q = ku_new(n * 4), qs = ku_new(n / 8);
    struct qw_err err;
    int pages = 0;
    *g = (struct ring){.s = in->s, .out = ku_acts(BLOCK_ROWS, HEADS * in->s.hd)};
    g->s.blocks = blocks;
    for (int i = split == 0; i < 2; i++) {
        const int p0 = i == 0 ? 0 : split;
        const size_t bytes = qw_kv_page_bytes(&g->s, bits, end[i] - p0);
        g->page[pages++] = (struct qw_kv_page){ku_new(bytes), ku_new(bytes), p0, end[i]};
    }
    start_plan(&g->inject, &g->s, in->config, in->cpu);
    start_plan(&g->block, &g->s, in->config, in->cpu);
    ku_must(qw_op_kv(&g->inject, &g->s, in->kw, in->y, in->cs, in->cycle, g->page, pages,
                     bits, INJECT, &err),
            &err, "kv");
    ku_must(qw_op_qk(&g->block, &g->s, in->qw, in->kw, in->y, in->cs, in->cycle, g->page,
                     pages, bits, q, qs, BLOCK_ROWS, &err),
            &err, "qk");
    ku_must(qw_op_attn(&g->block, &g->s, NULL, q, qs, in->cycle, g->page, pages, bits,
                       ku_new(part * 8), ku_new(part * (size_t)g->s.hd * 4), 2, &g->out,
                       BLOCK_ROWS, &err),
            &err, "attn");
}

static void fill(cl_mem buf, size_t n)
{
    struct qw_err err;
    ku_must(qw_dev_write(ku_dev, buf, 0, ku_floats(n, 1.5f), n * 4, true, &err), &err,
            "write");
}

/* Fresh rows at a position, the same for both caches. */
static void ring_step(const struct ring_in *in, struct qw_plan *a, struct qw_plan *b,
                      int pos, int rows)
{
    int32_t cycle[QW_CYC_IDS] = {[QW_CYC_ROWS] = rows, [QW_CYC_POS] = pos};
    struct qw_err err;
    fill(in->y, (size_t)(rows * in->s.ldy));
    fill(in->cs, (size_t)(rows * in->s.n_rot));
    ku_must(qw_dev_write(ku_dev, in->cycle, 0, cycle, sizeof(cycle), true, &err), &err,
            "write");
    ku_must(qw_plan_run(a, &err), &err, "run");
    ku_must(qw_plan_run(b, &err), &err, "run");
    ku_must(qw_dev_finish(ku_dev, &err), &err, "finish");
}

/* A ring of three blocks against a cache of all positions, until the ring has gone around
 * five times: inject rows, then a block beyond them that the next injection overwrites.
 */
static void ring_case(int config, bool cpu, bool causal)
{
    struct ring_in in = {.config = config, .cpu = cpu, .s = make_shape(config)};
    const size_t hd = (size_t)in.s.hd, n = (size_t)(BLOCK_ROWS * HEADS) * hd;
    struct ring small, all;
    in.s.causal = causal;
    in.s.window = WINDOW;
    in.s.rows = BLOCK_ROWS;
    in.y = ku_new((size_t)(INJECT * in.s.ldy) * 4);
    in.cs = ku_new((size_t)(INJECT * in.s.n_rot) * 4);
    in.cycle = ku_cycle(0, 0, 0, NULL, 0);
    in.qw = ku_put(ku_floats(hd, 2.0f), hd * 4);
    in.kw = ku_put(ku_floats(hd, 2.0f), hd * 4);
    open_ring(&small, &in, 3, 128);
    open_ring(&all, &in, LONG / QW_ATTN_BLOCK, 0);
    for (int pos = 0, rows; pos + INJECT + BLOCK_ROWS < LONG; pos += rows) {
        rows = pos % 3 ? ku_int(1, BLOCK_ROWS) : ku_int(100, INJECT);
        ring_step(&in, &small.inject, &all.inject, pos, rows);
        ring_step(&in, &small.block, &all.block, pos + rows, ku_int(1, BLOCK_ROWS));
        const float *a = ku_get(small.out.f, n * 4), *b = ku_get(all.out.f, n * 4);
        ku_same_bytes("ring", a, b, n * 4);
        CHECK(isfinite(a[0]) && isfinite(b[0]), "at %d: %g, %g", pos, (double)a[0],
              (double)b[0]);
    }
    qw_plan_free(&small.inject);
    qw_plan_free(&small.block);
    qw_plan_free(&all.inject);
    qw_plan_free(&all.block);
    ku_reset();
}

void ring(void)
{
    cl_kernel kernel = NULL;
    struct qw_err err;
    CHECK(qw_kern_make(ku_kern(KU_DRAFT_F16, true), "qw_norm", &kernel, &err) != QW_OK,
          "a set for attention alone has qw_norm");
    for (int c = 0; c < (ku_small ? 0 : N_DRAFT); c++)
        for (int i = 0; i < 4; i++)
            ring_case(draft_configs[c], i % 2, i / 2);
}
