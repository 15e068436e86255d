/* SPDX-License-Identifier: MIT */
/* Every generic kernel but the products against host loops, through the emitters of
 * ops.h, in both launch shapes: equal bit for bit to an f32 loop in the written order of
 * sums (so rows depend neither on the shape nor on how they are split into launches),
 * near a loop in double. Dead rows hold NaN and must neither be written nor heard of.
 * Usage: test_kernels [--small] [--kernels FOLDER] [TEST...] */
#include "test_kernels.h"

#include <math.h>

#include "kern_ref.h"
#include "kern_util.h"
#include "quant.h"

/* ---- embed ---- */

enum { VOCAB = 37, EMBED_ROWS = 9 };

/* Random rows of a type; halves are finite. */
static unsigned char *random_rows(uint32_t type, int rows, int K)
{
    const struct qw_type_info *t = qw_type_info(type);
    const size_t blocks = (size_t)rows * (size_t)K / t->block, n = blocks * t->bytes;
    unsigned char *w = ku_alloc(n);
    for (size_t i = 0; i < n; i++)
        w[i] = (unsigned char)(check_rand(&ku_seed) >> 24);
    for (size_t b = 0; b < blocks; b++) {
        unsigned char *p = w + b * t->bytes;
        if (type == QW_F32 || type == QW_BF16)
            p[t->bytes - 1] &= 0xbf;
        else if (type == QW_Q6_K)
            p[209] &= 0xbf;
        else
            p[1] &= 0xbf, p[t->bytes > 3 ? 3 : 1] &= 0xbf; /* d and the minimum */
    }
    return w;
}

/* Ids at the edges of tiles and slabs, two beyond the vocabulary, one dead row. */
static void embed_type(uint32_t type, int K)
{
    static const int32_t ids[EMBED_ROWS] = {36, 0, 15, 16, 31, 32, VOCAB, 40, 1};
    enum { LIVE = EMBED_ROWS - 1, TILES = 3 };
    const enum qw_layout layout = qw_pack_layout(type);
    const size_t tile = qw_pack_tile_bytes(layout, K);
    const struct qw_type_info *t = qw_type_info(type);
    const size_t row = (size_t)K / t->block * t->bytes;
    const unsigned char *w = random_rows(type, VOCAB, K);
    unsigned char *packed = ku_alloc(TILES * tile);
    qw_pack_tiles(layout, type, w, row, VOCAB, K, TILES, packed);
    struct qw_slab slab[] = {{ku_put(packed, 2 * tile), 0, 2, 2 * tile},
                             {ku_put(packed + 2 * tile, tile), 2, 1, tile}};
    const struct qw_mat m = {
        .K = K, .part = {{.layout = layout, .slab = slab, .n_slabs = 2}}, .n_parts = 1};
    cl_mem x = ku_new(EMBED_ROWS * (size_t)K * 4);
    struct qw_plan p;
    struct qw_err err;
    qw_plan_init(&p, ku_kern(KU_64_F16, true));
    ku_must(qw_op_embed(&p, &m, VOCAB, ku_cycle(LIVE, 0, 0, ids, EMBED_ROWS), x,
                        EMBED_ROWS, &err),
            &err, t->name);
    ku_run(&p);
    float *want = ku_alloc(EMBED_ROWS * (size_t)K * 4);
    for (int r = 0; r < LIVE; r++)
        if (ids[r] < VOCAB)
            qw_decode(type, w + (size_t)ids[r] * row, want + r * K, (size_t)K);
    ku_same_bytes(t->name, ku_get(x, EMBED_ROWS * (size_t)K * 4), want,
                  EMBED_ROWS * (size_t)K * 4);
    ku_reset();
}

void embed(void)
{
    static const uint32_t types[] = {QW_F32,  QW_F16,  QW_BF16, QW_Q4_0, QW_Q4_1, QW_Q5_0,
                                     QW_Q5_1, QW_Q8_0, QW_Q4_K, QW_Q5_K, QW_Q6_K};
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        embed_type(types[i], qw_type_info(types[i])->block == 256 ? 512 : 288);
}

/* ---- norm ---- */

/* x is read from row `first` on, as the head does. */
static void norm_case(int n, int rows, int live, int first, int want)
{
    float *x = ku_floats((size_t)(first + rows) * (size_t)n, 3.0f),
          *w = ku_floats(n, 2.0f);
    for (int i = 0; i < (first + rows) * n; i++) /* all but the live rows: NaN */
        if (i < first * n || i >= (first + live) * n)
            x[i] = NAN;
    for (int i = 0; live > 2 && i < n; i++) {
        x[(first + 1) * n + i] = 0.0f;                          /* zeros, not NaN */
        x[(first + 2) * n + i] *= i == n - 1 ? INFINITY : 1.0f; /* must stay visible */
    }
    float *f = ku_alloc((size_t)rows * (size_t)n * 4);
    double *d = ku_alloc((size_t)rows * (size_t)n * 8);
    for (int r = 0; r < live; r++) {
        ref_norm_f(x + (first + r) * n, w, n, ku_kern(KU_64_F16, true)->row_group, 1e-6f,
                   f + r * n);
        ref_norm_d(x + (first + r) * n, w, n, 1, 1e-6f, d + r * n);
    }
    cl_mem bx = ku_put(x, (size_t)(first + rows) * (size_t)n * 4),
           bw = ku_put(w, (size_t)n * 4), cycle = ku_cycle(live, 5, first, NULL, 0);
    for (int cpu = 0; cpu < 2; cpu++) {
        struct qw_plan p;
        struct qw_err err;
        const struct qw_acts a = ku_acts(rows, n);
        qw_plan_init(&p, ku_kern(KU_64_F16, cpu));
        ku_must(qw_op_norm(&p, bx, bw, cycle, n, 1e-6f, want, &a, rows, &err), &err,
                "norm");
        ku_run(&p);
        ku_acts_check("norm", &a, rows, live, n, want, f);
        if (want & 2)
            ku_near("norm", ku_get(a.f, (size_t)live * (size_t)n * 4), d,
                    (size_t)live * (size_t)n, 1e-6);
    }
    ku_reset();
}

void norm(void)
{
    for (int live = 1; live <= (ku_small ? 3 : 9); live += 2)
        norm_case(ku_small ? 64 : 32 * (64 + live), 9, live, live % 3, 1 + live / 2 % 3);
    norm_case(32, 1, 1, 0, 3);
    norm_case(96, 4, 3, 4, 3);
}

/* With x = 1 and eps = 0 the outputs are the weights: chosen values meet the rounding.
 * Round half to even, scales in every range of a half: subnormal, largest, overflow. */
void norm_rounding(void)
{
    enum { BLOCKS = 256, N = 32 * BLOCKS };
    const int n = ku_small ? 128 : N;
    float *x = ku_alloc(N * 4), *w = ku_alloc(N * 4);
    for (int i = 0; i < n; i++) {
        const int b = i / 32, e = i % 32;
        const float top = b < 2 ? 127.0f : ldexpf(1.0f + ku_uniform(0.4f), b % 60 - 34);
        x[i] = 1.0f;
        w[i] = e == 0 ? top : b < 2 ? (float)(e - 16) + 0.5f : ku_uniform(1.0f) * top;
        if (b == 2)
            w[i] =
                e == 5 ? -127.0f * 65519.0f : 3.0f; /* the scale rounds down to 65504 */
        if (b == 3)
            w[i] = e % 2 ? 0.0f : -0.0f;
    }
    const struct qw_acts a = ku_acts(1, n);
    struct qw_plan p;
    struct qw_err err;
    qw_plan_init(&p, ku_kern(KU_64_F16, true));
    ku_must(qw_op_norm(&p, ku_put(x, (size_t)n * 4), ku_put(w, (size_t)n * 4),
                       ku_cycle(1, 0, 0, NULL, 0), n, 0.0f, 3, &a, 1, &err),
            &err, "norm");
    ku_run(&p);
    ku_acts_check("rounding", &a, 1, 1, n, 3, w);
    ku_reset();
}

/* ---- swiglu (trap 16: silu belongs to the gate) ---- */

static void swiglu_case(int n, int rows, int live, int want)
{
    const int ld = 2 * n + 48, g0 = 16, u0 = n + 32;
    float *y = ku_floats((size_t)rows * (size_t)ld, 8.0f);
    for (int i = live * ld; i < rows * ld; i++)
        y[i] = NAN;
    for (int r = 0; r < live; r++) { /* outside of both branches */
        y[r * ld + g0 - 1] = y[r * ld + g0 + n] = NAN;
        y[r * ld + u0 - 1] = y[r * ld + u0 + n] = NAN;
        y[r * ld + g0 + r] = r % 2 ? -150.0f : 150.0f; /* exp over- and underflows */
    }
    y[(live - 1) * ld + u0 + n - 1] = live > 1 ? NAN : 1.0f;
    float *f = ku_alloc((size_t)rows * (size_t)n * 4);
    double *d = ku_alloc((size_t)rows * (size_t)n * 8);
    for (int r = 0; r < live; r++) {
        ref_swiglu_f(y + r * ld + g0, y + r * ld + u0, n, f + r * n);
        ref_swiglu_d(y + r * ld + g0, y + r * ld + u0, n, d + r * n);
    }
    cl_mem by = ku_put(y, (size_t)rows * (size_t)ld * 4),
           cycle = ku_cycle(live, 0, 0, NULL, 0);
    for (int cpu = 0; cpu < 2; cpu++) {
        struct qw_plan p;
        struct qw_err err;
        const struct qw_acts a = ku_acts(rows, n);
        qw_plan_init(&p, ku_kern(KU_64_F16, cpu));
        ku_must(qw_op_swiglu(&p, by, cycle, n, ld, g0, u0, want, &a, rows, &err), &err,
                "swiglu");
        ku_run(&p);
        ku_acts_check("swiglu", &a, rows, live, n, want, f);
        if (want & 2)
            ku_near("swiglu", ku_get(a.f, (size_t)live * (size_t)n * 4), d,
                    (size_t)live * (size_t)n, 1e-6);
    }
    ku_reset();
}

void swiglu(void)
{
    for (int live = 1; live <= (ku_small ? 3 : 9); live += 2)
        swiglu_case(ku_small ? 64 : 32 * (31 + live), 9, live, 1 + live / 2 % 3);
    swiglu_case(32, 2, 1, 3);
}

/* ---- argmax ---- */

enum { ARGMAX_ROWS = 12, ARGMAX_LIVE = 10 };

/* One row a question; the answers are worked out by the plain loop below. */
static void argmax_row(float *y, int n, int r)
{
    for (int i = 0; i < n; i++)
        y[i] = r == 1 ? -5.0f : ku_uniform(1.0f) - (r == 2 ? 9.0f : 0.0f);
    switch (r) {
    case 3: /* a tie across chunks and items: the lowest id */
        y[n - 1] = y[n / 2] = y[n / 3] = 2.0f;
        break;
    case 4:
        y[n - 1] = 2.0f;
        break;
    case 5: /* -0 and +0 tie, too */
        for (int i = 0; i < n; i++)
            y[i] = i == n / 3 ? -0.0f : i == n / 2 ? 0.0f : -1.0f;
        break;
    case 6:
        y[n - 1] = NAN;
        break;
    case 7:
        y[n / 2] = INFINITY;
        break;
    case 8:
        y[0] = -INFINITY;
        break;
    case 9: /* the second last chunk ends with it */
        y[(n - 1) / QW_ARGMAX_CHUNK * QW_ARGMAX_CHUNK - (n > QW_ARGMAX_CHUNK)] = 2.0f;
        break;
    default:
        break;
    }
}

static void argmax_case(int n)
{
    const int ld = n + 19, chunks = (n + QW_ARGMAX_CHUNK - 1) / QW_ARGMAX_CHUNK;
    float *y = ku_alloc((size_t)ARGMAX_ROWS * (size_t)ld * 4); /* beyond n: NaN */
    int32_t *want = ku_alloc(ARGMAX_ROWS * 8);
    for (int r = 0; r < ARGMAX_LIVE; r++) {
        int best = 0;
        argmax_row(y + r * ld, n, r);
        for (int i = 0; i < n; i++) {
            if (!isfinite(y[r * ld + i])) {
                best = -1;
                break;
            }
            best = y[r * ld + i] > y[r * ld + best] ? i : best;
        }
        want[2 * r] = best;
        want[2 * r + 1] = best >= 0;
    }
    cl_mem by = ku_put(y, (size_t)ARGMAX_ROWS * (size_t)ld * 4);
    cl_mem part = ku_new((size_t)ARGMAX_ROWS * (size_t)chunks * 8),
           out = ku_new(ARGMAX_ROWS * 8);
    struct qw_plan p;
    struct qw_err err;
    qw_plan_init(&p, ku_kern(KU_64_F16, true));
    ku_must(qw_op_argmax(&p, by, ku_cycle(ARGMAX_LIVE, 3, 1, NULL, 0), n, ld, part, out,
                         ARGMAX_ROWS, &err),
            &err, "argmax");
    ku_run(&p);
    const int32_t *got = ku_get(out, ARGMAX_ROWS * 8);
    for (int r = 0; r < ARGMAX_LIVE; r++)
        CHECK(got[2 * r] == want[2 * r] && got[2 * r + 1] == want[2 * r + 1],
              "n %d row %d: id %d flag %d, want %d, %d", n, r, got[2 * r], got[2 * r + 1],
              want[2 * r], want[2 * r + 1]);
    ku_poison("argmax", got + 2 * ARGMAX_LIVE, (ARGMAX_ROWS - ARGMAX_LIVE) * 8);
    ku_reset();
}

void argmax(void)
{
    argmax_case(1);
    argmax_case(63);
    argmax_case(ku_small ? QW_ARGMAX_CHUNK + 5 : 2 * QW_ARGMAX_CHUNK + 77);
    if (!ku_small) {
        argmax_case(QW_ARGMAX_CHUNK);
        argmax_case(66 * QW_ARGMAX_CHUNK + 1); /* more chunks than items */
    }
}

/* ---- the functions of common.clh, by a kernel of our own ---- */

static const char probe[] =
    "kernel void probe(global const float *x, int n, global float *e, global float *l,\n"
    "                  global float *h, global ushort *bits, global float *back)\n"
    "{\n"
    "    const int i = (int)get_global_id(0);\n"
    "    if (i >= n)\n"
    "        return;\n"
    "    e[i] = qw_exp(x[i]);\n"
    "    l[i] = qw_log1p(fabs(x[i]));\n"
    "    h[i] = qw_round_half(x[i]);\n"
    "    bits[i] = qw_half_bits(h[i]);\n"
    "    back[i] = qw_half_value(bits[i]);\n"
    "}\n";

static struct qw_kern *probe_open(void)
{
    struct qw_kern *k = qw_alloc(1, sizeof(*k));
    char *cycle = ku_source("cycle.h"), *common = ku_source("common.clh");
    char *include = strstr(common, "#include \"cycle.h\"");
    cl_int rc;
    MUST(include != NULL, "common.clh does not include cycle.h");
    memset(include, ' ', strlen("#include \"cycle.h\""));
    const char *text[] = {cycle, common, probe};
    k->dev = ku_dev;
    k->program = clCreateProgramWithSource(ku_dev->ctx, 3, text, NULL, &rc);
    MUST(k->program != NULL, "%s", qw_cl_error(rc));
    rc = clBuildProgram(k->program, 1, &ku_dev->id, "-cl-std=CL1.2 -w", NULL, NULL);
    MUST(rc == CL_SUCCESS, "%s", qw_cl_error(rc));
    free(cycle);
    free(common);
    return k;
}

/* Values of every exponent, around the ends of exp's range and the steps of a half. */
static float number(int i)
{
    static const float edge[] = {0.0f,     -0.0f,    88.72f,   88.73f,   89.1f,
                                 -87.4f,   -103.9f,  -104.1f,  -1e4f,    1e9f,
                                 65504,    65519.9f, 65520.0f, 1e-8f,    2.98e-8f,
                                 5.97e-8f, 6.1e-5f,  20.0f,    INFINITY, -INFINITY};
    enum { N_EDGE = sizeof(edge) / sizeof(edge[0]) };
    if (i < N_EDGE)
        return edge[i];
    switch (i % 4) {
    case 0:
        return ku_uniform(104.0f);
    case 1:
        return ku_uniform(1.0f);
    case 2: /* half way between two halves, subnormal ones too, and its neighbours */
        return nextafterf(((float)ku_int(0, 2047) + 0.5f) * ldexpf(1.0f, ku_int(-24, 5)),
                          (float)ku_int(-1, 1) * 1e9f);
    default:
        return ldexpf(ku_uniform(2.0f), ku_int(-40, 20));
    }
}

static double ulps(float got, double want)
{
    const double ulp = ldexp(1.0, ilogb(want) < -126 ? -149 : ilogb(want) - 23);
    return fabs((double)got - want) / ulp;
}

void numbers(void)
{
    enum { N = 200000 };
    const int n = ku_small ? 400 : N;
    const size_t bytes = (size_t)n * 4, global[] = {(size_t)n};
    float *x = ku_alloc(bytes), *e = ku_alloc(bytes), *l = ku_alloc(bytes),
          *h = ku_alloc(bytes);
    uint16_t *half = ku_alloc(bytes / 2);
    double worst_e = 0.0, worst_l = 0.0;
    for (int i = 0; i < n; i++) {
        x[i] = number(i);
        e[i] = ref_exp_f(x[i]);
        l[i] = isinf(x[i]) ? 0.0f : ref_log1p_f(fabsf(x[i]));
        half[i] = qw_float_to_half(x[i]);
        h[i] = qw_half_to_float(half[i]);
    }
    cl_mem bx = ku_put(x, bytes), be = ku_new(bytes), bl = ku_new(bytes),
           bh = ku_new(bytes), bb = ku_new(bytes / 2), bv = ku_new(bytes);
    const struct qw_arg arg[] = {QW_ARG(bx), QW_ARG(n),  QW_ARG(be), QW_ARG(bl),
                                 QW_ARG(bh), QW_ARG(bb), QW_ARG(bv)};
    struct qw_kern *k = probe_open();
    struct qw_plan p;
    struct qw_err err;
    qw_plan_init(&p, k);
    ku_must(qw_plan_add(&p, "probe", 1, global, NULL, arg, 7, &err), &err, "probe");
    ku_run(&p);
    qw_kern_close(k);
    float *got_l = ku_get(bl, bytes);
    for (int i = 0; i < n; i++)
        got_l[i] = isinf(x[i]) ? 0.0f : got_l[i]; /* softplus never asks for it */
    ku_same("qw_exp", ku_get(be, bytes), e, (size_t)n);
    ku_same("qw_log1p", got_l, l, (size_t)n);
    ku_same("qw_round_half", ku_get(bh, bytes), h, (size_t)n);
    ku_same_bytes("qw_half_bits", ku_get(bb, bytes / 2), half, bytes / 2);
    ku_same("qw_half_value", ku_get(bv, bytes), h, (size_t)n);
    for (int i = 0; i < n; i++) {
        const double we = exp((double)x[i]), wl = log1p(fabs((double)x[i]));
        if (we < 3.402823e38 && we > 1e-45)
            worst_e = fmax(worst_e, ulps(e[i], we));
        if (wl > 0.0 && isfinite(wl))
            worst_l = fmax(worst_l, ulps(l[i], wl));
    }
    printf("  exp within %.2f ulp, log1p within %.2f ulp\n", worst_e, worst_l);
    CHECK(worst_e < 1.5 && worst_l < 4.0, "exp %.2f, log1p %.2f ulp", worst_e, worst_l);
    ku_reset();
}

/* ---- the program ---- */

static const struct check_test all[] = {
    T(numbers),   T(embed),      T(norm),         T(norm_rounding),
    T(swiglu),    T(argmax),     T(rope_rows),    T(conv),
    T(gdn),       T(gdn_splits), T(gdn_tape),     T(gdn_gates),
    T(l2_norm),   T(qk),         T(attn),         T(attn_not_finite),
    T(qk_draft),  T(attn_draft), T(attn_seen),    T(ring),
    T(norm_into), T(hidden),     T(draft_steps),  T(tap),
    T(top10),     T(draft_end),  T(verify_begin), T(accepting)};
enum { N_ALL = sizeof(all) / sizeof(all[0]) };

int main(int argc, char **argv)
{
    struct check_test pick[N_ALL];
    const int n = ku_pick(argc, argv, all, N_ALL, pick);
    ku_open();
    const int rc = check_run(pick, n);
    ku_close();
    return rc;
}
