/* SPDX-License-Identifier: MIT */
/* The shipped models against llama.cpp's greedy text and against a float network's logits
 * and hidden rows (golden/prompts.json, golden/logits_*.f32). */
#include <jansson.h>
#include <math.h>

#include "net_util.h"

static const double near_tie = 0.05; /* a golden margin below which either id will do */

enum { PREFILL = 256, CONTEXT = 2048 };

static json_t *prompts(void)
{
    static json_t *root;
    json_error_t e;
    char *path = net_source("tests/golden/prompts.json");
    if (root == NULL)
        root = json_load_file(path, 0, &e);
    MUST(root != NULL, "%s: %s", path, e.text);
    free(path);
    return json_object_get(root, "prompts");
}

static int32_t *ids_of(const json_t *array, int *n)
{
    *n = (int)json_array_size(array);
    MUST(*n > 0, "no ids");
    int32_t *id = qw_alloc((size_t)*n, sizeof(*id));
    for (int i = 0; i < *n; i++)
        id[i] = (int32_t)json_integer_value(json_array_get(array, (size_t)i));
    return id;
}

static const char *name_of(const json_t *p)
{
    return json_string_value(json_object_get(p, "name"));
}

static char *model_path(const char *which)
{
    char *name = qw_sprintf("models/tiny/tiny-qwen35-%s.gguf", which);
    char *path = net_source(name);
    free(name);
    return path;
}

/* All but the last id without a head, then the last one with it. */
static void feed_prompt(struct net *n, const json_t *p)
{
    int count;
    int32_t *id = ids_of(json_object_get(p, "ids"), &count);
    net_reset(n);
    net_feed(n, id, count - 1, PREFILL, NULL);
    OK(qw_target_forward(n->t, id + count - 1, 1, true, &err));
    OK(qw_target_wait(n->t, &err));
    free(id);
}

/* ---- greedy ids ---- */

static int32_t next_id(struct net *n)
{
    int32_t got;
    OK(qw_target_read_argmax(n->t, &got, 1, &err));
    return got;
}

/* Feed the golden ids, or (own) what the network itself chooses, up to the first near
 * tie. */
static void check_greedy(struct net *n, const json_t *p, const char *which, bool own)
{
    const json_t *r = json_object_get(p, which),
                 *margin = json_object_get(r, "ref_margin");
    int count, near = 0;
    int32_t *want = ids_of(json_object_get(r, "llama_greedy"), &count);
    feed_prompt(n, p);
    for (int i = 0; i < count; i++) {
        int32_t got = next_id(n);
        const double m = json_number_value(json_array_get(margin, (size_t)i));
        CHECK(got == want[i] || m <= near_tie,
              "%s %s: token %d is %d, want %d (margin %.3f)", which, name_of(p), i, got,
              want[i], m);
        near += got != want[i];
        if (own && (m <= near_tie || got != want[i]))
            break;
        if (i + 1 < count)
            OK(qw_target_forward(n->t, own ? &got : &want[i], 1, true, &err));
    }
    if (near > 0)
        printf("  %s %s: %d of %d ids differ at a near tie\n", which, name_of(p), near,
               count);
    free(want);
}

/* Up to the first near tie the network's own text is the golden one as soon as each
 * choice on golden ids is: the ids fed are the same. So free running is shown on the
 * short prompts only. */
static void greedy(const char *which)
{
    struct net n;
    size_t i;
    json_t *p;
    char *path = model_path(which);
    net_open(&n, path,
             &(struct net_opts){.kv_bits = 16, .context = CONTEXT, .prefill = PREFILL});
    json_array_foreach(prompts(), i, p)
    {
        check_greedy(&n, p, which, false);
        if (json_array_size(json_object_get(p, "ids")) < 40)
            check_greedy(&n, p, which, true);
    }
    net_close(&n);
    free(path);
}

static void greedy_q4_0(void)
{
    greedy("q4_0");
}

static void greedy_q8_0(void)
{
    greedy("q8_0");
}

/* ---- float copies ---- */

/* The same weights with every block decoded: products then use unrounded activations. */
static char *float_copy(const char *which)
{
    struct net_image m;
    char *from = model_path(which), *to = net_temp("float.gguf");
    net_image_read(&m, from);
    for (int i = 0; i < m.n; i++)
        net_tensor_convert(&m.tensor[i], QW_F32);
    net_image_write(&m, to, 32);
    net_image_free(&m);
    free(from);
    return to;
}

static double worse(double a, double b)
{
    return b <= a ? a : b; /* a NaN wins */
}

static double rms_of(const float *x, int n)
{
    double s = 0;
    for (int i = 0; i < n; i++)
        s += (double)x[i] * (double)x[i];
    return sqrt(s / n);
}

/* |difference| of the last row's logits to ref_top5, and to the full row where there is
 * one. */
static double logits_error(struct net *n, const json_t *p, const char *which)
{
    const json_t *top = json_object_get(json_object_get(p, which), "ref_top5"), *e;
    float *got = qw_alloc((size_t)n->n_vocab, sizeof(*got));
    char *name = qw_sprintf("tests/golden/logits_%s_%s.f32", which, name_of(p));
    char *path = net_source(name);
    double most = 0;
    size_t i;
    OK(qw_target_read_logits(n->t, got, 1, &err));
    json_array_foreach(top, i, e) most =
        worse(most, fabs((double)got[json_integer_value(json_object_get(e, "id"))] -
                         json_number_value(json_object_get(e, "logit"))));
    MUST(i == 5, "%s: no ref_top5", name_of(p));
    if (access(path, R_OK) == 0) {
        float *want = net_floats(path, (size_t)n->n_vocab);
        most = worse(most, net_compare(got, want, (size_t)n->n_vocab).max);
        free(want);
    }
    free(path);
    free(name);
    free(got);
    return most;
}

static double row_error(const float *x, const json_t *want, int n, double scale)
{
    const json_t *first = json_object_get(want, "first8"), *v;
    const double rms = json_number_value(json_object_get(want, "rms"));
    double most = scale == 1.0 ? fabs(rms_of(x, n) - rms) : 0;
    size_t i;
    json_array_foreach(first, i, v) most =
        worse(most, fabs((double)x[i] - json_number_value(v) * scale));
    MUST(i == 8, "no first8");
    return most;
}

static double hidden_error(struct net *n, const json_t *p, const char *which)
{
    const json_t *h = json_object_get(json_object_get(p, which), "ref_hidden_last_token");
    float *got = qw_alloc((size_t)n->n_embd, sizeof(*got));
    OK(qw_target_read_hidden(n->t, got, 1, &err));
    const double e = row_error(got, json_object_get(h, "final_norm"), n->n_embd, 1.0);
    free(got);
    return e;
}

static void against_floats(const char *path, const char *which, int kv_bits, double bound)
{
    struct net n;
    size_t i;
    json_t *p;
    double logits = 0, hidden = 0;
    net_open(&n, path,
             &(struct net_opts){.kv_bits = kv_bits,
                                .context = CONTEXT,
                                .prefill = PREFILL,
                                .all_logits = true});
    json_array_foreach(prompts(), i, p)
    {
        feed_prompt(&n, p);
        const double l = logits_error(&n, p, which), h = hidden_error(&n, p, which);
        CHECK(l <= bound, "%s %s, cache %d: logits differ by %.2e", which, name_of(p),
              kv_bits, l);
        CHECK(h <= bound, "%s %s, cache %d: hidden differ by %.2e", which, name_of(p),
              kv_bits, h);
        logits = worse(logits, l);
        hidden = worse(hidden, h);
    }
    printf(
        "  %s as F32, cache %d bits: logits within %.2e, hidden within %.2e (bound %g)\n",
        which, kv_bits, logits, hidden, bound);
    net_close(&n);
}

static void float_copies(const char *which)
{
    char *path = float_copy(which);
    against_floats(path, which, 32, 1e-3);
    against_floats(path, which, 16, 1e-2);
    free(path);
}

static void floats_q4_0(void)
{
    float_copies("q4_0");
}

static void floats_q8_0(void)
{
    float_copies("q8_0");
}

/* ---- rows between layers ---- */

static void zero_mat(struct qw_mat *m)
{
    for (int p = 0; p < m->n_parts; p++)
        for (int s = 0; s < m->part[p].n_slabs; s++)
            OK(qw_dev_zero(net_dev(), m->part[p].slab[s].buf, m->part[p].slab[s].bytes,
                           &err));
}

/* Final-norm weights of one: the hidden row is then the residual row over its RMS. */
static void plain_norm(struct net *n)
{
    float *one = qw_alloc((size_t)n->n_embd, sizeof(*one));
    for (int i = 0; i < n->n_embd; i++)
        one[i] = 1.0f;
    OK(qw_dev_write(net_dev(), n->model->out_norm, 0, one, (uint64_t)n->n_embd * 4, true,
                    &err));
    free(one);
}

static double layer_error(struct net *n, const json_t *p, int layer)
{
    const json_t *h =
        json_object_get(json_object_get(p, "q4_0"), "ref_hidden_last_token");
    const json_t *want =
        layer < 0 ? json_object_get(h, "embedding")
                  : json_array_get(json_object_get(h, "layers"), (size_t)layer);
    const double rms = json_number_value(json_object_get(want, "rms"));
    float *got = qw_alloc((size_t)n->n_embd, sizeof(*got));
    MUST(rms > 0, "no golden row of layer %d", layer);
    feed_prompt(n, p);
    OK(qw_target_read_hidden(n->t, got, 1, &err));
    const double e = row_error(got, want, n->n_embd, 1.0 / rms);
    free(got);
    return e;
}

/* Layers whose output products are zero pass the residual on: silence them from the last
 * to the first, and the head sees each layer's output, at last the embedding. Rows are
 * compared over their RMS, which the last norm divides out. */
static void layers_q4_0(void)
{
    struct net n;
    char *path = float_copy("q4_0");
    double most = 0;
    net_open(
        &n, path,
        &(struct net_opts){
            .kv_bits = 32, .context = CONTEXT, .prefill = PREFILL, .all_logits = true});
    plain_norm(&n);
    for (int layer = n.model->hp.n_layer - 1; layer >= -1; layer--) {
        size_t i;
        json_t *p;
        json_array_foreach(prompts(), i, p)
        {
            if (json_array_size(json_object_get(p, "ids")) >= 40)
                continue;
            const double e = layer_error(&n, p, layer);
            CHECK(e <= 1e-3, "%s, layer %d: row differs by %.2e", name_of(p), layer, e);
            most = worse(most, e);
        }
        if (layer >= 0) {
            zero_mat(&n.model->layer[layer].out);
            zero_mat(&n.model->layer[layer].down);
        }
    }
    printf("  rows after each layer within %.2e of their RMS (bound 1e-3)\n", most);
    net_close(&n);
    free(path);
}

QW_TESTS(T(greedy_q4_0), T(greedy_q8_0), T(floats_q4_0), T(floats_q8_0), T(layers_q4_0))
