/* SPDX-License-Identifier: MIT */
/* The kernels of cl/xe2 through cl/xe2/emulate.h and the emitters of ops.h: products of
 * every type of weights against the host reference, zero differing words.
 * Usage: test_xe2 [--small | --large] [TEST...]; small: for a device that is slow
 * (oclgrind); large: products of the 27B model's largest shapes, and nothing else. */
#include <math.h>

#include "kern_util.h"
#include "matmul_ref.h"
#include "quant.h"

enum { MAX_ROWS = 37, EDGE = 5 /* columns beside the product */ };
static const uint32_t types[] = {QW_Q4_0, QW_Q4_1, QW_Q5_0, QW_Q5_1,
                                 QW_Q8_0, QW_Q4_K, QW_Q5_K, QW_Q6_K};
enum { N_TYPES = sizeof(types) / sizeof(types[0]) };
static bool large;

/* ---- two kernel sets: four-bit weights as int4, and unpacked to int8 ---- */

static const char *word_int8(const void *arg, const char *op)
{
    (void)arg;
    return strncmp(op, "matmul_q4", 9) == 0 ? "xe2-int8" : "auto";
}

static struct qw_kern *sets[2];

static struct qw_kern *set(bool int8)
{
    struct qw_kern_params p = {.dk = 32,
                               .taps = 4,
                               .hd = 64,
                               .kv_bits = 16,
                               .cpu_shape = true,
                               .backend = "xe2-emulated",
                               .kernel_dir = ku_dir,
                               .choice = int8 ? word_int8 : NULL};
    struct qw_err err;
    if (sets[int8] == NULL)
        ku_must(qw_kern_open(&sets[int8], ku_dev, &p, &err), &err, "kernels");
    return sets[int8];
}

/* ---- a product ---- */

struct product {
    uint32_t type;
    int N, K;
    unsigned char *w; /* rows as in a file */
    struct mr_acts a;
    cl_mem q, scale, sum, f;
    float *want; /* [rows][N] */
};

static void product_open(struct product *u, uint32_t type, int N, int K, int rows)
{
    *u = (struct product){.type = type, .N = N, .K = K};
    u->w = qw_alloc((size_t)N, mr_row_bytes(type, K));
    u->want = qw_alloc((size_t)rows * (size_t)N, sizeof(float));
    mr_random_rows(type, u->w, (size_t)N * (size_t)K / qw_type_info(type)->block);
    mr_acts_random(&u->a, rows, K);
    mr_product(type, u->w, N, &u->a, u->want, N);
    const size_t n = (size_t)rows * (size_t)K;
    u->q = ku_put(u->a.q, n);
    u->scale = ku_put(u->a.scale, n / 8);
    u->sum = ku_put(u->a.sum, n / 8);
    u->f = ku_put(u->a.x, n * 4);
}

static void product_close(struct product *u)
{
    mr_acts_free(&u->a);
    free(u->w);
    free(u->want);
    ku_reset();
}

/* The weights in the layout of a set, in slabs of at most `most` tiles. */
static void pack(const struct product *u, struct qw_kern *k, int most, struct qw_mat *m,
                 struct qw_slab *slab)
{
    const enum qw_layout base = qw_pack_layout(u->type),
                         layout = qw_kern_layout(k, base, u->K);
    const int tiles = (u->N + 15) / 16;
    const size_t tile = qw_pack_tile_bytes(layout, u->K),
                 row = mr_row_bytes(u->type, u->K);
    int n = 0;
    for (int t = 0; t < tiles; t += most, n++) {
        const int count = tiles - t < most ? tiles - t : most;
        unsigned char *p = qw_alloc((size_t)count, tile);
        qw_pack_tiles(layout, u->type, u->w + (size_t)t * 16 * row, row, u->N - 16 * t,
                      u->K, count, p);
        slab[n] = (struct qw_slab){.tile0 = t,
                                   .tiles = count,
                                   .bytes = tile * (size_t)count,
                                   .buf = ku_put(p, tile * (size_t)count)};
        free(p);
    }
    *m = (struct qw_mat){
        .K = u->K,
        .cols = 16 * tiles,
        .n_tensors = 1,
        .rows = {u->N},
        .part = {{.layout = base, .tiles = tiles, .slab = slab, .n_slabs = n}},
        .n_parts = 1};
}

/* A plan of `width` rows with `live` of them: live rows hold the product (the columns
 * that pad the last tile are weights of zeros), all else is untouched. */
static void check(const struct product *u, bool int8, int most, int width, int live,
                  bool add)
{
    struct qw_kern *k = set(int8);
    struct qw_slab slab[4];
    struct qw_mat m;
    struct qw_plan p;
    struct qw_err err;
    pack(u, k, most, &m, slab);
    const int ldy = m.cols + EDGE;
    const size_t n = (size_t)width * (size_t)ldy;
    const struct qw_acts acts = {u->q, u->scale, u->sum, u->f};
    float *y = ku_alloc(n * 4), *want = ku_alloc(n * 4);
    for (size_t i = 0; i < n; i++)
        y[i] = want[i] = add ? (float)(i % 1001) - 500.0f : (float)NAN;
    for (int r = 0; r < live; r++)
        for (int c = 0; c < m.cols; c++) {
            const float v = c < u->N ? u->want[r * u->N + c] : 0.0f;
            float *at = &want[(size_t)r * (size_t)ldy + (size_t)c];
            *at = add ? *at + v : v;
        }
    cl_mem out = ku_put(y, n * 4);
    qw_plan_init(&p, k);
    ku_must(qw_op_matmul(&p, &m, &acts, ku_cycle(live, 3, 0, NULL, 0), out, ldy, add,
                         width, &err),
            &err, "matmul");
    MUST(strstr(p.step[0].entry, "_x") != NULL || u->K % 256 != 0, "%s is not of cl/xe2",
         p.step[0].entry);
    ku_run(&p);
    char *what =
        qw_sprintf("%s%s N %d K %d, %d of %d rows%s", qw_type_info(u->type)->name,
                   int8 ? " int8" : "", u->N, u->K, live, width, add ? ", added" : "");
    const float *got = ku_get(out, n * 4);
    for (int r = 0; r < live; r++) /* zeros that pad: of either sign */
        for (int c = u->N; c < m.cols; c++)
            if (!add && got[r * ldy + c] == 0.0f)
                want[r * ldy + c] = got[r * ldy + c];
    ku_same_bytes(what, got, want, n * 4);
    free(what);
}

/* Types with a second form; when small, one of them. */
static bool has_int8(uint32_t type)
{
    return type == QW_Q4_0 || (!ku_small && (type == QW_Q4_1 || type == QW_Q4_K));
}

/* Types that share their kernel with another, or differ from it by the reading of scales.
 */
static bool skip(uint32_t type)
{
    return ku_small && (type == QW_Q5_0 || type == QW_Q5_1 || type == QW_Q5_K);
}

/* Every width from 1 to 16 and wider ones that repeat, with dead rows and without. */
static void widths(void)
{
    static const int N[] = {7, 17, 40, 33};
    for (int t = 0; t < N_TYPES; t++) {
        struct product u;
        if (skip(types[t]))
            continue;
        product_open(&u, types[t], ku_small ? 17 : N[t % 4], ku_small ? 256 : 512,
                     MAX_ROWS);
        for (int int8 = 0; int8 <= has_int8(types[t]); int8++)
            for (int width = 1; width <= MAX_ROWS; width++) {
                const bool some = ku_small ? width == 1 || width == 4 || width == 10
                                           : width <= 17 || width == MAX_ROWS;
                if (some && (!ku_small || width == 1))
                    check(&u, int8, 2, width, width, width % 2);
                if (some && width > 1)
                    check(&u, int8, 2, width, 1 + width / 2, width % 2 == 0);
            }
        product_close(&u);
    }
}

/* Columns: partials with none, one and more groups, unequal ones, both numbers of
 * partials; and those that are no whole groups, which are left to the generic kernel. */
static void columns(void)
{
    static const int K[] = {256, 768, 1024, 1280, 2048, 6144, 6400, 288, 96};
    for (int t = 0; t < N_TYPES; t++)
        for (size_t i = 0; i < sizeof(K) / sizeof(K[0]); i++) {
            struct product u;
            if (K[i] % (int)qw_type_info(types[t])->block != 0 ||
                (ku_small && K[i] > 768))
                continue;
            const int N = i % 3 == 0 ? 7 : i % 3 == 1 ? 17 : 40;
            product_open(&u, types[t], ku_small ? 7 : N, K[i], 9);
            /* a launch shape costs a second of PoCL's compiler: eight partials at one
             * width */
            for (int int8 = 0; int8 <= has_int8(types[t]); int8++) {
                check(&u, int8, 9, 6, 6, true);
                if (K[i] < 6144) {
                    check(&u, int8, 9, 1, 1, false);
                    check(&u, int8, 9, 9, 9, false);
                }
            }
            product_close(&u);
        }
}

/* What is not finite in a row reaches every column of it, and no other row; a dead row
 * may hold anything. */
static void not_finite(void)
{
    enum { K = 512, N = 17, ROWS = 6 };
    for (int t = 0; t < N_TYPES; t++) {
        struct product u;
        if (ku_small && t > 0)
            break;
        product_open(&u, types[t], N, K, ROWS);
        u.a.scale[2 * (K / 32) + 9] = INFINITY;
        u.a.scale[3 * (K / 32) + 4] = NAN;
        mr_product(u.type, u.w, N, &u.a, u.want, N);
        for (int i = 0; i < K / 32; i++)
            u.a.scale[5 * (K / 32) + i] = NAN;
        u.scale = ku_put(u.a.scale, ROWS * (K / 32) * 4);
        struct qw_slab slab[1];
        struct qw_mat m;
        struct qw_plan p;
        struct qw_err err;
        pack(&u, set(false), 9, &m, slab);
        cl_mem out = ku_new(ROWS * (size_t)m.cols * 4);
        const struct qw_acts acts = {u.q, u.scale, u.sum, u.f};
        qw_plan_init(&p, set(false));
        ku_must(qw_op_matmul(&p, &m, &acts, ku_cycle(5, 0, 0, NULL, 0), out, m.cols,
                             false, ROWS, &err),
                &err, "matmul");
        ku_run(&p);
        const float *y = ku_get(out, ROWS * (size_t)m.cols * 4);
        for (int r = 0; r < 5; r++)
            ku_same(qw_type_info(types[t])->name, y + r * m.cols, u.want + r * N, N);
        ku_poison("dead row", y + 5 * m.cols, (size_t)m.cols * 4);
        product_close(&u);
    }
}

/* The best column of each row without writing the product: the same pairs as from the
 * product that was written. */
static void tops(void)
{
    enum { N = 77, K = 256, ROWS = 9 };
    for (int t = 0; t < (ku_small ? 1 : N_TYPES); t++)
        for (int int8 = 0; int8 <= has_int8(types[t]); int8++) {
            struct product u;
            struct qw_slab slab[4];
            struct qw_mat m;
            struct qw_plan p;
            struct qw_err err;
            struct qw_kern *k = set(int8);
            product_open(&u, types[t], N, K, ROWS);
            pack(&u, k, 2, &m, slab);
            const struct qw_acts acts = {u.q, u.scale, u.sum, u.f};
            const int width = t % 2 ? ROWS : ku_small ? 3 : 8, live = width - 1;
            cl_mem part = ku_new((size_t)width * (size_t)m.part[0].tiles * 8),
                   out = ku_new((size_t)width * 8);
            qw_plan_init(&p, k);
            ku_must(qw_op_top(&p, &m, &acts, ku_cycle(live, 0, 0, NULL, 0), part, out,
                              width, &err),
                    &err, "top");
            ku_run(&p);
            const int32_t *got = ku_get(out, (size_t)width * 8);
            for (int r = 0; r < live; r++) {
                int best = 0;
                for (int c = 0; c < N; c++)
                    best = u.want[r * N + c] > u.want[r * N + best] ? c : best;
                CHECK(got[2 * r] == best && got[2 * r + 1] == 1, "%s row %d: %d, want %d",
                      qw_type_info(types[t])->name, r, got[2 * r], best);
            }
            ku_poison("dead rows", got + 2 * live, (size_t)(width - live) * 8);
            product_close(&u);
        }
}

/* Rows of the embedding from weights in the layout of the products. */
static void embed(void)
{
    static const int32_t ids[] = {0, 36, 15, 16, 31, 32, 8};
    enum { VOCAB = 37, ROWS = 7, K = 512 };
    for (int t = 0; t < N_TYPES; t++) {
        struct product u;
        struct qw_slab slab[2];
        struct qw_mat m;
        struct qw_plan p;
        struct qw_err err;
        float *want = ku_alloc(ROWS * K * 4);
        product_open(&u, types[t], VOCAB, K, 1);
        pack(&u, set(false), 2, &m, slab);
        for (int r = 0; r < ROWS; r++)
            qw_decode(types[t], u.w + (size_t)ids[r] * mr_row_bytes(types[t], K),
                      want + r * K, K);
        cl_mem x = ku_new(ROWS * K * 4);
        qw_plan_init(&p, set(false));
        ku_must(
            qw_op_embed(&p, &m, VOCAB, ku_cycle(ROWS, 0, 0, ids, ROWS), x, ROWS, &err),
            &err, "embed");
        ku_run(&p);
        ku_same_bytes(qw_type_info(types[t])->name, ku_get(x, ROWS * K * 4), want,
                      ROWS * K * 4);
        product_close(&u);
    }
}

/* Shapes of the 27B model and its drafter: all widths of columns, few rows of weights. */
static void shapes(void)
{
    static const struct {
        int N, K;
    } shape[] = {{6, 5120},   {48, 4096},  {48, 6144},
                 {48, 17408}, {33, 25600}, {1024, 5120}};
    for (size_t i = 0; i < sizeof(shape) / sizeof(shape[0]); i++)
        for (int t = 0; t < N_TYPES; t++) {
            struct product u;
            if (ku_small || ((size_t)t % 4 != i % 4 && shape[i].N > 6))
                continue;
            product_open(&u, types[t], shape[i].N, shape[i].K, 6);
            check(&u, false, 1 << 16, 6, 6, false);
            check(&u, has_int8(types[t]), 1 << 16, 5, 5, true);
            if (types[t] == QW_Q4_0)
                check(&u, false, 1 << 16, 1, 1, false);
            product_close(&u);
        }
}

/* Whole products of the 27B model: what one kernel call has to do there. */
static void whole(void)
{
    static const struct {
        int N, K;
    } shape[] = {{34816, 5120}, {5120, 17408}, {5120, 25600}, {5120, 6144},
                 {12288, 5120}, {10240, 5120}, {5120, 4096}};
    for (int t = 0; t < N_TYPES; t++)
        for (size_t i = 0; i < sizeof(shape) / sizeof(shape[0]); i++) {
            struct product u;
            if (i > 1 && types[t] != QW_Q4_0 && types[t] != QW_Q8_0)
                continue;
            product_open(&u, types[t], shape[i].N, shape[i].K, 16);
            check(&u, false, 1 << 16, 8, 8, false);
            check(&u, has_int8(types[t]), 1 << 16, 16, 16, false);
            check(&u, false, 1 << 16, 1, 1, false);
            product_close(&u);
        }
}

/* ---- the choice ---- */

static struct qw_kern_params params(const char *backend)
{
    return (struct qw_kern_params){.dk = 32,
                                   .taps = 4,
                                   .hd = 64,
                                   .kv_bits = 16,
                                   .cpu_shape = true,
                                   .backend = backend,
                                   .kernel_dir = ku_dir};
}

static const char *word_one(const void *arg, const char *op)
{
    const char *const *pair = arg;
    return strcmp(op, pair[0]) == 0 ? pair[1] : "auto";
}

/* Which variant an op takes under a backend and the word for one op; NULL: refused, and
 * the message has `part`. */
static void choice(const char *backend, const char *op, const char *word, int of,
                   const char *variant, const char *part)
{
    const char *const pair[] = {op, word};
    struct qw_kern_params p = params(backend);
    struct qw_kern *k = NULL;
    struct qw_err err = {""};
    p.choice = word_one;
    p.choice_arg = pair;
    const int rc = qw_kern_open(&k, ku_dev, &p, &err);
    if (variant == NULL) {
        CHECK(rc == QW_EUSAGE && strstr(err.msg, part) != NULL, "%s %s = %s: %d, %s",
              backend, op, word, rc, err.msg);
    } else {
        CHECK(rc == QW_OK, "%s %s = %s: %s", backend, op, word, err.msg);
        if (rc == QW_OK)
            CHECK(strncmp(qw_kern_variant(k, of), variant, strlen(variant)) == 0 &&
                      strstr(qw_kern_why(k, of), part) != NULL,
                  "%s %s = %s: %s, %s", backend, op, word, qw_kern_variant(k, of),
                  qw_kern_why(k, of));
    }
    qw_kern_close(k);
}

static void choices(void)
{
    const bool capable =
        qw_dev_has(ku_dev, "cl_intel_subgroup_matrix_multiply_accumulate");
    const char *e = "xe2-emulated";
    CHECK_STR(qw_kern_variant(set(true), QW_OP_MATMUL_Q4_K), "xe2-int8 (emulated)");
    CHECK_STR(qw_kern_variant(set(true), QW_OP_MATMUL_Q8_0), "xe2 (emulated)");
    choice("generic", "gdn", "auto", QW_OP_MATMUL_Q4_0, "generic", "backend = generic");
    choice(e, "gdn", "auto", QW_OP_MATMUL_Q4_0, "xe2 (emulated)", "self-test passed");
    choice(e, "gdn", "auto", QW_OP_EMBED, "generic", "only variant");
    choice(e, "matmul_q4_0", "generic", QW_OP_MATMUL_Q4_0, "generic", "named");
    choice(e, "matmul_q4_0", "generic", QW_OP_MATMUL_Q4_1, "xe2", "backend");
    choice(e, "matmul_q8_0", "xe2-int8", 0, NULL, "known: auto, generic, xe2)");
    choice(e, "matmul_q4_0", "xe3", 0, NULL, "known: auto, generic, xe2, xe2-int8)");
    choice(e, "matmul_q4_0", "xe2:QW_WG=4", 0, NULL, "no build parameters");
    choice(e, "embed", "xe2", 0, NULL, "known: auto, generic)");
    if (capable)
        return;
    choice("auto", "gdn", "auto", QW_OP_MATMUL_Q4_0, "generic",
           "has no cl_intel_subgroup_matrix_multiply_accumulate");
    choice("xe2", "gdn", "auto", 0, NULL, "device.backend = xe2");
    choice("auto", "matmul_q4_0", "xe2", 0, NULL, "kernels.matmul_q4_0 = xe2: ");
    choice("generic", "matmul_q4_0", "xe2", 0, NULL, "kernels.matmul_q4_0 = xe2: ");
}

/* ---- the program ---- */

static const struct check_test all[] = {T(widths), T(columns), T(not_finite), T(tops),
                                        T(embed),  T(shapes),  T(choices)};
static const struct check_test long_ones[] = {T(whole)};
enum { N_ALL = sizeof(all) / sizeof(all[0]) };

int main(int argc, char **argv)
{
    struct check_test pick[N_ALL];
    large = argc > 1 && strcmp(argv[1], "--large") == 0;
    const int n = ku_pick(argc - large, argv + large, all, N_ALL, pick);
    ku_open();
    const int rc = large ? check_run(long_ones, 1) : check_run(pick, n);
    for (int i = 0; i < 2; i++)
        qw_kern_close(sets[i]);
    ku_close();
    return rc;
}
