/* SPDX-License-Identifier: MIT */
#include "kern_util.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cl_sources.h"
#include "quant.h"

enum { MAX_HELD = 4096 };
const struct ku_config ku_config[KU_CONFIGS] = {
    [KU_64_F16] = {32, 4, 64, 16, false},   [KU_256_Q8] = {128, 4, 256, 8, false},
    [KU_128_F32] = {64, 3, 128, 32, false}, [KU_192_Q8] = {32, 4, 192, 8, false},
    [KU_96_Q8] = {32, 4, 96, 8, false},     [KU_64_Q8] = {32, 4, 64, 8, false},
    [KU_DRAFT_F16] = {0, 0, 128, 16, true}, [KU_DRAFT_Q8] = {0, 0, 128, 8, true},
    [KU_DRAFT_F32] = {0, 0, 128, 32, true},
};
unsigned long long ku_seed = 715517;
bool ku_small;
const char *ku_dir;
struct qw_dev *ku_dev;

static struct qw_kern *kern[KU_CONFIGS][KU_SETS];
const char *const ku_set_name[KU_SETS] = {"gpu", "cpu", "xe2"};
static void *host[MAX_HELD];
static cl_mem held[MAX_HELD];
static int n_host, n_held;

void ku_must(int rc, const struct qw_err *err, const char *what)
{
    MUST(rc == QW_OK, "%s: %s", what, err->msg);
}

int ku_pick(int argc, char **argv, const struct check_test *all, int n_all,
            struct check_test *pick)
{
    int n = 0, names = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--small") == 0)
            ku_small = true;
        else if (strcmp(argv[i], "--kernels") == 0 && i + 1 < argc)
            ku_dir = argv[++i];
        else
            argv[1 + names++] = argv[i];
    }
    for (int t = 0; t < n_all; t++) {
        bool wanted = names == 0;
        for (int i = 1; i <= names; i++)
            wanted = wanted || strcmp(argv[i], all[t].name) == 0;
        if (wanted)
            pick[n++] = all[t];
    }
    MUST(n > 0, "no test of that name");
    return n;
}

void ku_open(void)
{
    struct qw_err err;
    ku_must(qw_dev_open(&ku_dev, NULL, NULL, 0, &err), &err, "device");
    printf("device %s, seed %llu\n", ku_dev->name, ku_seed);
}

void ku_close(void)
{
    for (int i = 0; i < KU_CONFIGS; i++)
        for (int s = 0; s < KU_SETS; s++)
            qw_kern_close(kern[i][s]);
    qw_dev_close(ku_dev);
}

/* test_xe2 has the products. */
static const char *no_products(const void *arg, const char *op)
{
    (void)arg;
    return strncmp(op, "matmul", 6) == 0 ? "generic" : "auto";
}

struct qw_kern *ku_kern(int config, int set)
{
    const struct ku_config *c = &ku_config[config];
    struct qw_kern_params p = {.dk = c->dk,
                               .taps = c->taps,
                               .hd = c->hd,
                               .kv_bits = c->kv,
                               .cpu_shape = set != KU_GPU,
                               .attn_only = c->attn_only,
                               .backend = set == KU_XE2 ? "xe2-emulated" : "generic",
                               .kernel_dir = ku_dir,
                               .choice = no_products};
    struct qw_kern **k = &kern[config][set];
    struct qw_err err;
    if (*k == NULL)
        ku_must(qw_kern_open(k, ku_dev, &p, &err), &err, "kernels");
    return *k;
}

char *ku_source(const char *name)
{
    if (ku_dir == NULL) {
        for (const struct qw_cl_source *s = qw_cl_sources; s->name != NULL; s++)
            if (strcmp(s->name, name) == 0)
                return qw_strdup((const char *)s->data);
        MUST(false, "no embedded file %s", name);
    }
    char *path = qw_sprintf("%s/%s", ku_dir, name), *text = qw_alloc(1 << 16, 1);
    FILE *f = fopen(path, "rb");
    MUST(f != NULL, "cannot read %s", path);
    const size_t n = fread(text, 1, (1 << 16) - 1, f);
    MUST(n > 0 && n < (1 << 16) - 1, "size of %s", path);
    fclose(f);
    free(path);
    return text;
}

/* ---- memory ---- */

void *ku_alloc(size_t bytes)
{
    MUST(n_host < MAX_HELD, "too many host arrays");
    return host[n_host++] = memset(qw_alloc(bytes ? bytes : 1, 1), 0xff, bytes);
}

cl_mem ku_put(const void *data, size_t bytes)
{
    struct qw_err err;
    MUST(n_held < MAX_HELD, "too many buffers");
    ku_must(qw_dev_buffer_raw(ku_dev, bytes, "test data", &held[n_held], &err), &err,
            "buffer");
    ku_must(qw_dev_write(ku_dev, held[n_held], 0, data, bytes, true, &err), &err,
            "write");
    return held[n_held++];
}

cl_mem ku_new(size_t bytes)
{
    void *poison = memset(qw_alloc(bytes, 1), 0xff, bytes);
    cl_mem buf = ku_put(poison, bytes);
    free(poison);
    return buf;
}

void *ku_get(cl_mem buf, size_t bytes)
{
    struct qw_err err;
    void *data = ku_alloc(bytes);
    ku_must(qw_dev_read(ku_dev, buf, 0, data, bytes, &err), &err, "read");
    return data;
}

float ku_uniform(float scale)
{
    return ((float)(check_rand(&ku_seed) >> 40) / 8388608.0f - 1.0f) * scale;
}

int ku_int(int lo, int hi)
{
    return lo + (int)(check_rand(&ku_seed) >> 33) % (hi - lo + 1);
}

float *ku_floats(size_t n, float scale)
{
    float *x = ku_alloc(n * sizeof(*x));
    for (size_t i = 0; i < n; i++)
        x[i] = ku_uniform(scale);
    return x;
}

cl_mem ku_cycle(int rows, int pos, int first, const int32_t *ids, int n_ids)
{
    int32_t *c = ku_alloc((size_t)(QW_CYC_IDS + n_ids + 1) * sizeof(*c));
    c[QW_CYC_ROWS] = rows;
    c[QW_CYC_POS] = pos;
    c[QW_CYC_FIRST] = first;
    c[QW_CYC_SURE] = rows;
    c[QW_CYC_STORED] = pos;
    c[QW_CYC_TAP] = 0;
    for (int i = 0; i < n_ids; i++)
        c[QW_CYC_IDS + i] = ids[i];
    return ku_put(c, (size_t)(QW_CYC_IDS + n_ids + 1) * sizeof(*c));
}

void ku_reset(void)
{
    for (int i = 0; i < n_host; i++)
        free(host[i]);
    for (int i = 0; i < n_held; i++)
        qw_dev_release(ku_dev, &held[i]);
    n_host = n_held = 0;
}

void ku_run(struct qw_plan *p)
{
    struct qw_err err;
    ku_must(qw_plan_run(p, &err), &err, "run");
    ku_must(qw_dev_finish(ku_dev, &err), &err, "finish");
    qw_plan_free(p);
}

/* ---- comparisons ---- */

static uint32_t bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    return u;
}

void ku_same(const char *what, const float *got, const float *want, size_t n)
{
    size_t bad = 0, first = 0;
    for (size_t i = 0; i < n; i++)
        if (bits(got[i]) != bits(want[i]) && !(isnan(got[i]) && isnan(want[i])) && !bad++)
            first = i;
    CHECK(bad == 0, "%s: %zu of %zu differ, first at %zu: got %.9g, want %.9g", what, bad,
          n, first, (double)got[first], (double)want[first]);
}

void ku_same_bytes(const char *what, const void *got, const void *want, size_t n)
{
    const unsigned char *g = got, *w = want;
    size_t bad = 0, first = 0;
    for (size_t i = 0; i < n; i++)
        if (g[i] != w[i] && !bad++)
            first = i;
    CHECK(bad == 0, "%s: %zu of %zu bytes differ, first at %zu: got %d, want %d", what,
          bad, n, first, n ? g[first] : 0, n ? w[first] : 0);
}

void ku_near(const char *what, const float *got, const double *want, size_t n, double tol)
{
    size_t bad = 0, first = 0;
    for (size_t i = 0; i < n; i++) {
        const double gap = fabs((double)got[i] - want[i]);
        const bool fine = isnan(want[i])   ? isnan(got[i])
                          : isinf(want[i]) ? (double)got[i] == want[i]
                                           : gap <= tol * (1.0 + fabs(want[i]));
        if (!fine && !bad++)
            first = i;
    }
    CHECK(bad == 0, "%s: %zu of %zu too far, first at %zu: got %.9g, want %.9g", what,
          bad, n, first, (double)got[first], want[first]);
}

void ku_poison(const char *what, const void *got, size_t n)
{
    const unsigned char *g = got;
    size_t bad = 0;
    for (size_t i = 0; i < n; i++)
        bad += g[i] != 0xff;
    CHECK(bad == 0, "%s: %zu of %zu bytes written that must not be", what, bad, n);
}

/* ---- activations ---- */

struct qw_acts ku_acts(int rows, int n)
{
    const size_t all = (size_t)rows * (size_t)n;
    return (struct qw_acts){ku_new(all), ku_new(all / 8), ku_new(all / 8),
                            ku_new(all * 4)};
}

static void check_block(const char *what, size_t at, const float *f, const int8_t *q,
                        float scale, int32_t sum)
{
    int8_t want[32];
    float want_scale;
    int half[2] = {0, 0};
    bool finite = true;
    for (int i = 0; i < 32; i++)
        finite = finite && isfinite(f[i]);
    if (!finite) { /* what is not finite must reach the output */
        CHECK(isnan(scale), "%s: block %zu: scale %g of a block that is not finite", what,
              at, (double)scale);
        return;
    }
    qw_quant_act(f, want, &want_scale);
    for (int i = 0; i < 32; i++)
        half[i / 16] += want[i];
    CHECK(memcmp(q, want, 32) == 0, "%s: block %zu: int8 values", what, at);
    CHECK(bits(scale) == bits(want_scale), "%s: block %zu: scale %.9g, want %.9g", what,
          at, (double)scale, (double)want_scale);
    CHECK(sum == (int32_t)(((uint32_t)half[0] & 0xffff) | (uint32_t)half[1] << 16),
          "%s: block %zu: sums %08x, want %d and %d", what, at, (unsigned)sum, half[0],
          half[1]);
}

void ku_acts_check(const char *what, const struct qw_acts *a, int rows, int live, int n,
                   int want, const float *want_f)
{
    const size_t all = (size_t)rows * (size_t)n, used = (size_t)live * (size_t)n;
    const int8_t *q = ku_get(a->q, all);
    const float *scale = ku_get(a->scale, all / 8), *f = ku_get(a->f, all * 4);
    const int32_t *sum = ku_get(a->sum, all / 8);
    const size_t used_q = want & 1 ? used : 0, used_f = want & 2 ? used : 0;
    const int before = check_now;
    for (size_t b = 0; b < used_q / 32 && check_now == before; b++)
        check_block(what, b, want_f + 32 * b, q + 32 * b, scale[b], sum[b]);
    ku_same(what, f, want_f, used_f);
    ku_poison(what, q + used_q, all - used_q);
    ku_poison(what, scale + used_q / 32, (all - used_q) / 8);
    ku_poison(what, sum + used_q / 32, (all - used_q) / 8);
    ku_poison(what, f + used_f, (all - used_f) * 4);
}
