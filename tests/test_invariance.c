/* SPDX-License-Identifier: MIT */
/* What must not change a bit of the logits: how ids are cut into steps, how many rows a
 * step is made for, the launch shape, what ran in the session before. */

#include "cycle.h"
#include "net_util.h"

enum { ROWS = 129, CONTEXT = 256 };

struct subject {
    const char *label, *path;
    int32_t id[CONTEXT];
    int n_vocab;
};

/* ---- subjects ---- */

static char *oracle_file(const char *type)
{
    char *dir = net_temp(type), *make = net_script("make_tiny.py");
    char *path = qw_sprintf("%s/t.gguf", dir);
    char *cmd =
        qw_sprintf("exec 2>&1; mkdir -p '%s' && %s '%s' %s", dir, make, dir, type);
    if (access(path, R_OK) != 0)
        net_wait(net_start(cmd));
    free(cmd);
    free(make);
    free(dir);
    return path;
}

static void fill_ids(struct subject *s)
{
    unsigned long long seed = 20261;
    for (int i = 0; i < CONTEXT; i++)
        s->id[i] = (int32_t)(check_rand(&seed) % (unsigned long long)s->n_vocab);
}

/* ---- runs ---- */

static struct net_opts opts(int kv_bits, bool gpu_shape, int prefill)
{
    return (struct net_opts){.kv_bits = kv_bits,
                             .gpu_shape = gpu_shape,
                             .context = CONTEXT,
                             .prefill = prefill,
                             .all_logits = true};
}

static float *rows_of(const struct subject *s, int count)
{
    return qw_alloc((size_t)count * (size_t)s->n_vocab, sizeof(float));
}

static void check_rows(const struct subject *s, const char *what, const float *got,
                       const float *want, int count)
{
    for (int r = 0; r < count; r++) {
        const size_t at = (size_t)r * (size_t)s->n_vocab;
        const bool same = memcmp(got + at, want + at, (size_t)s->n_vocab * 4) == 0;
        CHECK(same, "%s, %s: row %d of %d differs by %.2e", s->label, what, r, count,
              net_compare(got + at, want + at, (size_t)s->n_vocab).max);
        if (!same)
            return;
    }
}

/* From position 0: count ids in steps of chunk, the first of them of `first` rows. */
static void check_cut(struct net *n, const struct subject *s, int first, int chunk,
                      int count, const float *want)
{
    char what[64];
    float *got = rows_of(s, count);
    snprintf(what, sizeof(what), "%d ids cut %d + %d", count, first, chunk);
    net_reset(n);
    net_feed(n, s->id, first, first, got);
    if (count > first)
        net_feed(n, s->id + first, count - first, chunk,
                 got + (size_t)first * (size_t)s->n_vocab);
    check_rows(s, what, got, want, count);
    free(got);
}

static float *one_by_one(struct net *n, const struct subject *s, int count)
{
    float *want = rows_of(s, count);
    net_reset(n);
    net_feed(n, s->id, count, 1, want);
    return want;
}

/* Rows of a step: 1x40, 40x1 (the reference itself), 7+33, 33+7, widths, lengths. */
static void check_cuts(struct net *n, const struct subject *s, const float *want)
{
    static const int width[] = {2, 3, 4, 5, 6, 7, 8, 16};
    static const int length[] = {2, 3, 4, 63, 64, 65, 129};
    check_cut(n, s, 40, 1, 40, want);
    check_cut(n, s, 7, 33, 40, want);
    check_cut(n, s, 33, 7, 40, want);
    for (size_t i = 0; i < sizeof(width) / sizeof(width[0]); i++)
        check_cut(n, s, width[i], width[i], 40, want);
    for (size_t i = 0; i < sizeof(length) / sizeof(length[0]); i++)
        check_cut(n, s, length[i], 1, length[i], want);
}

/* The second run of a prompt, and a run after the session was full, equal the first. */
static void check_reset(struct net *n, const struct subject *s, const float *want)
{
    float *got = rows_of(s, CONTEXT);
    check_cut(n, s, 40, 1, 40, want);
    net_reset(n);
    net_feed(n, s->id, CONTEXT, ROWS, got);
    check_rows(s, "a full context", got, want, ROWS);
    check_cut(n, s, 5, 1, 5, want);
    check_cut(n, s, 1, 1, 5, want);
    free(got);
}

/* What a cache or history row held before must never be looked at, not even a NaN. */
static void poison(struct net *n)
{
    const struct qw_state *st = qw_target_state(n->t);
    const uint64_t size = (uint64_t)st->page_positions *
                          (uint64_t)n->model->hp.n_head_kv *
                          (uint64_t)n->model->hp.head_dim * (uint64_t)st->kv_bits / 8;
    unsigned char *ones = qw_alloc(size, 1);
    memset(ones, 0xff, size);
    for (int i = 0; i < st->n_layer * st->n_pages; i++)
        if (st->page[i].k != NULL) {
            OK(qw_dev_write(net_dev(), st->page[i].k, 0, ones, size, true, &err));
            OK(qw_dev_write(net_dev(), st->page[i].v, 0, ones, size, true, &err));
        }
    free(ones);
}

static void check_shape(struct subject *s, int kv_bits, bool gpu_shape, float **want)
{
    struct net n;
    const struct net_opts o = opts(kv_bits, gpu_shape, ROWS);
    net_open(&n, s->path, &o);
    s->n_vocab = n.n_vocab;
    fill_ids(s);
    if (*want == NULL) {
        *want = one_by_one(&n, s, ROWS);
        check_cuts(&n, s, *want);
        check_reset(&n, s, *want);
    } else { /* the other shape: fewer cuts, the same bits */
        check_cut(&n, s, 1, 1, 40, *want);
        check_cut(&n, s, 7, 33, 40, *want);
        check_cut(&n, s, 16, 16, 40, *want);
        check_cut(&n, s, ROWS, 1, ROWS, *want);
    }
    poison(&n);
    check_cut(&n, s, 5, 1, 20, *want);
    net_close(&n);
}

/* A step made for fewer rows than another session's. */
static void check_prefill(const struct subject *s, int kv_bits, const float *want)
{
    struct net n;
    const struct net_opts o = opts(kv_bits, false, 24);
    net_open(&n, s->path, &o);
    check_cut(&n, s, 24, 24, ROWS, want);
    net_close(&n);
}

static void invariant(const char *label, const char *path, int kv_bits)
{
    struct subject s = {.label = label, .path = path};
    float *want = NULL;
    check_shape(&s, kv_bits, false, &want);
    check_shape(&s, kv_bits, true, &want);
    check_prefill(&s, kv_bits, want);
    free(want);
}

static void oracle(const char *type, int kv_bits)
{
    char *path = oracle_file(type);
    invariant(type, path, kv_bits);
    free(path);
}

static void f32_f16_cache(void)
{
    oracle("F32", 16);
}

static void f32_q8_cache(void)
{
    oracle("F32", 8);
}

static void f32_f32_cache(void)
{
    oracle("F32", 32);
}

static void q8_0_f16_cache(void)
{
    oracle("Q8_0", 16);
}

static void q8_0_q8_cache(void)
{
    oracle("Q8_0", 8);
}

static void shipped(int kv_bits)
{
    char *path = net_source("models/tiny/tiny-qwen35-q4_0.gguf");
    invariant("shipped Q4_0", path, kv_bits);
    free(path);
}

static void shipped_f16_cache(void)
{
    shipped(16);
}

static void shipped_q8_cache(void)
{
    shipped(8);
}

/* Caches in pages that the context does not fill, as where the largest buffer is small:
 * the bits of one page. */
static void pages_of(const char *path, int kv_bits, bool gpu_shape)
{
    enum { N = CONTEXT, CHUNK = 8 };
    struct qw_dev *dev = net_dev();
    const uint64_t largest = dev->max_alloc;
    struct subject s = {.label = "pages", .path = path};
    float *rows[2];
    for (int i = 0; i < 2; i++) {
        struct net n;
        struct net_opts o = opts(kv_bits, gpu_shape, CHUNK);
        o.context = 4 * QW_ATTN_BLOCK;
        if (i == 1) /* three blocks of 128 positions of 2 heads of 64 */
            dev->max_alloc =
                (uint64_t)QW_ATTN_BLOCK * 2 * 64 * (uint64_t)kv_bits / 8 * 7 / 2;
        net_open(&n, path, &o);
        dev->max_alloc = largest;
        CHECK(qw_target_state(n.t)->n_pages == i + 1, "%d pages",
              qw_target_state(n.t)->n_pages);
        s.n_vocab = n.n_vocab;
        fill_ids(&s);
        rows[i] = rows_of(&s, N);
        net_feed(&n, s.id, N, CHUNK, rows[i]);
        net_close(&n);
    }
    check_rows(&s, gpu_shape ? "gpu" : "cpu", rows[1], rows[0], N);
    free(rows[0]);
    free(rows[1]);
}

static void pages(void)
{
    char *path = oracle_file("F32");
    pages_of(path, 16, false);
    pages_of(path, 32, true);
    free(path);
}

QW_TESTS(T(f32_f16_cache), T(f32_q8_cache), T(f32_f32_cache), T(q8_0_f16_cache),
         T(q8_0_q8_cache), T(shipped_f16_cache), T(shipped_q8_cache), T(pages))
