/* SPDX-License-Identifier: MIT */
/* Random little networks against the float64 reference of oracle/ref.py: logits, hidden
 * rows and the state itself, for every weight type.
 *
 * The known mistakes in such a network (largest logit change in 40 rows of the F32 file),
 * and the check that fails. "logits" is f32_logits, bound 1e-4 of the logits' scale in
 * every row: 1 value head h reads key head h / 3 (4.1)        logits: 6 value and 2 key
 * heads 2 1 added to norm weights (8.7)                  logits 3 q and gate as two
 * halves (2.0)                 logits: 4 query heads 4 silu gate of attention (2.1)
 * logits 5 all dims of a head rotated (1.5)               logits, rows from 1 on 6
 * adjacent rope pairs (1.2)                      logits, rows from 1 on 7 q/k norm after
 * rope (0.18)                     logits: norm weights vary by dim; an arg-max alone
 * would pass it 8 decay after the read (1.4)                     logits and
 * state_after_20 9 beta on v alone (2.3)                          logits and
 * state_after_20 10 1/sqrt(dk) missing (1.7)                       logits 11 output read
 * before the update (4.6)            logits 12 no SiLU on v (4.1) logits and
 * state_after_20 13 taps reversed (5.1)                            logits and
 * state_after_20 14 gate before norm (4.5)                         logits 15 sigmoid(z)
 * (4.2)                               logits 16 silu on the up branch (4.7) logits 17
 * query head a reads KV head a % 2 (1.8)         logits: 4 query and 2 KV heads 18 head
 * from token_embd (80)                      logits; tied_head for the reverse 19 S kept
 * as F16 (6e-3)                           logits and state_after_20; arg-max passes it 20
 * L2 norm by max(|x|, eps) (1e-6)                not visible here: needs k rows of norm
 * 1e-3, the convolution op's own test State kept over a reset, stale cache rows, rows of
 * a step not independent: test_invariance. MTP block run as a layer: every logits check,
 * the files declare and hold one. softplus overflow, exp underflow: the gated delta op's
 * own test. History kept after SiLU: state_after_20. Rope angles: rope_far. One type for
 * all: mixed_types.
 */
#include <math.h>

#include "cycle.h"
#include "net_util.h"

enum { ROWS = 40, LONG_ROWS = 300, VOCAB = 300, EMBD = 128, N_TYPES = 5, CONTEXT = 512 };
static const char *const type_name[N_TYPES] = {"F32", "F16", "BF16", "Q8_0", "Q4_0"};
enum { F32, F16, BF16, Q8_0, Q4_0 };
static FILE *child[N_TYPES]; /* makes a type's files; NULL when it is done */
static bool started;

/* ---- reference programs ---- */

static char *type_file(int type, const char *name)
{
    char *part = qw_sprintf("%s/%s", type_name[type], name);
    char *path = net_temp(part);
    free(part);
    return path;
}

/* Two processors: the references of all types run while the first networks do. */
static void start_references(void)
{
    started = true;
    char *make = net_script("make_tiny.py"), *ref = net_script("ref.py"),
         *engine = net_script("engine.py");
    for (int i = 0; i < N_TYPES; i++) {
        char *dir = net_temp(type_name[i]), *t = type_file(i, "t.gguf");
        char *cmd = qw_sprintf("exec 2>&1; mkdir '%s' && %s '%s' %s && %s '%s' && "
                               "%s '%s' '%s/engine_f16.f32' f16 && "
                               "%s '%s' '%s/engine_long.f32' exact %d",
                               dir, make, dir, type_name[i], ref, dir, engine, t, dir,
                               engine, t, dir, i == F32 ? LONG_ROWS : ROWS);
        child[i] = net_start(cmd);
        free(cmd);
        free(dir);
        free(t);
    }
    free(make);
    free(ref);
    free(engine);
}

static void need(int type)
{
    if (!started)
        start_references();
    if (child[type] != NULL)
        net_wait(child[type]);
    child[type] = NULL;
}

static float *golden(int type, const char *name, size_t count)
{
    char *path = type_file(type, name);
    float *x = net_floats(path, count);
    free(path);
    return x;
}

static double scale_of(const float *x, size_t n)
{
    double top = 0;
    for (size_t i = 0; i < n; i++)
        top = fabs((double)x[i]) > top ? fabs((double)x[i]) : top;
    return top;
}

/* ---- logits ---- */

static float *run_file(const char *path, int kv_bits, int rows)
{
    struct net n;
    int32_t id[LONG_ROWS];
    float *logits = qw_alloc((size_t)rows * VOCAB, sizeof(*logits));
    net_oracle_ids(id, rows);
    net_open(
        &n, path,
        &(struct net_opts){
            .kv_bits = kv_bits, .context = CONTEXT, .prefill = 64, .all_logits = true});
    MUST(n.n_vocab == VOCAB && n.n_embd == EMBD, "another tiny model");
    net_feed(&n, id, rows, 64, logits);
    net_close(&n);
    return logits;
}

static float *run_type(int type, int kv_bits, int rows)
{
    need(type);
    char *path = type_file(type, "t.gguf");
    float *logits = run_file(path, kv_bits, rows);
    free(path);
    return logits;
}

/* Where the reference's two best are more than margin apart, the arg-max must be its own.
 */
static void check_argmax(const char *what, const float *got, const float *want,
                         double margin)
{
    int agree = 0;
    for (int r = 0; r < ROWS; r++) {
        const float *g = got + (size_t)r * VOCAB, *w = want + (size_t)r * VOCAB;
        const int a = net_argmax(g, VOCAB), b = net_argmax(w, VOCAB);
        double second = -INFINITY;
        for (int i = 0; i < VOCAB; i++)
            second = i != b && w[i] > second ? w[i] : second;
        CHECK(a == b || w[b] - second <= margin,
              "%s: row %d chooses %d, want %d (margin %.3f)", what, r, a, b,
              w[b] - second);
        agree += a == b;
    }
    printf("  %s: arg-max agrees in %d of %d rows\n", what, agree, ROWS);
}

/* Bounds are parts of the logits' scale. */
static void check_logits(int type, int kv_bits, const char *file, int rows, double max,
                         double mean)
{
    float *got = run_type(type, kv_bits, rows);
    float *want = golden(type, file, (size_t)rows * VOCAB);
    const double scale = scale_of(want, (size_t)rows * VOCAB);
    const struct net_error e = net_compare(got, want, (size_t)rows * VOCAB);
    printf("  %s, cache %d bits, %s: max %.2e (bound %.1e), mean %.2e (bound %.1e)\n",
           type_name[type], kv_bits, file, e.max, max * scale, e.mean, mean * scale);
    CHECK(e.max <= max * scale && e.mean <= mean * scale, "%s, cache %d bits against %s",
          type_name[type], kv_bits, file);
    free(got);
    free(want);
}

static void f32_logits(void)
{
    check_logits(F32, 32, "logits_exact.f32", ROWS, 1e-4, 1e-4);
    check_logits(F32, 16, "engine_f16.f32", ROWS, 1e-4, 1e-4);
}

/* 300 rows: three attention blocks, the convolution ring around four times. */
static void long_logits(void)
{
    check_logits(F32, 32, "engine_long.f32", LONG_ROWS, 1e-4, 1e-4);
}

/* Products of float types take unrounded activations. */
static void f16_bf16_logits(void)
{
    check_logits(F16, 32, "logits_exact.f32", ROWS, 1e-4, 1e-4);
    check_logits(F16, 16, "engine_f16.f32", ROWS, 1e-4, 1e-4);
    check_logits(BF16, 32, "logits_exact.f32", ROWS, 1e-4, 1e-4);
    check_logits(BF16, 16, "engine_f16.f32", ROWS, 1e-4, 1e-4);
}

/* A Q8_0 cache: q, K and V are turned and rounded, so a value next to a rounding edge may
 * fall on the other side than in float64. Measured: max 2.7e-3, mean 2e-4 on a scale
 * of 4. */
static void q8_cache_logits(void)
{
    check_logits(F32, 8, "logits_q8rot.f32", ROWS, 2e-3, 1e-4);
    check_logits(F16, 8, "logits_q8rot.f32", ROWS, 2e-3, 1e-4);
}

/* Block types round activations. Rows agree to the last bit or two until one value next
 * to a rounding edge falls on the other side than in float64; from there on the state
 * differs, and only the mean can be judged. The first flip comes at row 10 or later
 * (measured: 10 to 30). */
enum { EXACT_ROWS = 8 };
static void judge_rounded(const char *what, float *got, int type, const char *file)
{
    float *want = golden(type, file, (size_t)ROWS * VOCAB);
    const double scale = scale_of(want, (size_t)ROWS * VOCAB);
    int exact = 0;
    while (exact < ROWS &&
           net_compare(got + (size_t)exact * VOCAB, want + (size_t)exact * VOCAB, VOCAB)
                   .max <= 1e-6 * scale)
        exact++;
    const struct net_error e = net_compare(got, want, (size_t)ROWS * VOCAB);
    printf("  %s, %s: %d rows within %.1e, mean %.2e (bound %.1e), max %.2e\n", what,
           file, exact, 1e-6 * scale, e.mean, 5e-3 * scale, e.max);
    CHECK(exact >= EXACT_ROWS, "%s against %s: row %d is off", what, file, exact);
    CHECK(e.mean <= 5e-3 * scale, "%s against %s: mean %.2e", what, file, e.mean);
    check_argmax(what, got, want, 0.05);
    free(got);
    free(want);
}

static void check_rounded(int type, int kv_bits, const char *file)
{
    char *what = qw_sprintf("%s, cache %d bits", type_name[type], kv_bits);
    judge_rounded(what, run_type(type, kv_bits, ROWS), type, file);
    free(what);
}

static void quantised_logits(void)
{
    static const int type[] = {Q8_0, Q4_0};
    for (int i = 0; i < 2; i++) {
        check_rounded(type[i], 32, "logits_act.f32");
        check_rounded(type[i], 16, "engine_f16.f32");
        check_rounded(type[i], 8, "logits_act_q8rot.f32");
        /* llama.cpp's CPU build also rounds q; without any rounding of activations */
        check_logits(type[i], 16, "logits_act_f16.f32", ROWS, 1e-1, 7.5e-3);
        check_logits(type[i], 32, "logits_exact.f32", ROWS, 0.25, 2.5e-2);
    }
}

/* ---- hidden rows and state ---- */

static void feed_f32(struct net *n, int rows)
{
    int32_t id[ROWS];
    char *path = type_file(F32, "t.gguf");
    need(F32);
    net_oracle_ids(id, rows);
    net_open(n, path,
             &(struct net_opts){
                 .kv_bits = 32, .context = CONTEXT, .prefill = 64, .all_logits = true});
    OK(qw_target_forward(n->t, id, rows, true, &err));
    OK(qw_target_wait(n->t, &err));
    free(path);
}

static void hidden_rows(void)
{
    enum { N = 12 };
    struct net n;
    float got[N * EMBD];
    feed_f32(&n, N);
    float *want = golden(F32, "hidden.f32", sizeof(got) / sizeof(got[0]));
    OK(qw_target_read_hidden(n.t, got, N, &err));
    const struct net_error e = net_compare(got, want, N * EMBD);
    printf("  hidden rows: max %.2e on a scale of %.1f\n", e.max,
           scale_of(want, N * EMBD));
    CHECK(e.max <= 1e-4 * scale_of(want, N * EMBD), "hidden rows differ by %.2e", e.max);
    free(want);
    net_close(&n);
}

enum { NV = 6, DK = 32, CHANNELS = 320, GDN_LAYERS = 6, FED = 20, TAIL = 3 };

/* The device keeps [head][value / 16][key][value % 16], the reference [head][value][key].
 */
static double state_error(const float *dev, const float *want)
{
    double most = 0;
    for (int h = 0; h < NV; h++)
        for (int v = 0; v < DK; v++)
            for (int k = 0; k < DK; k++) {
                const float d = dev[((h * (DK / 16) + v / 16) * DK + k) * 16 + v % 16];
                const double e = fabs((double)d - (double)want[(h * DK + v) * DK + k]);
                most = e <= most ? most : e;
            }
    return most;
}

/* Columns 17, 18, 19 as they were before the convolution; [channel][3] in the reference.
 */
static double ring_error(const float *ring, const float *want)
{
    double most = 0;
    for (int t = 0; t < TAIL; t++)
        for (int c = 0; c < CHANNELS; c++) {
            const int at = (FED - TAIL + t) % QW_CONV_RING * CHANNELS + c;
            const double e = fabs((double)ring[at] - (double)want[c * TAIL + t]);
            most = e <= most ? most : e;
        }
    return most;
}

static void state_after_20(void)
{
    struct net n;
    const size_t s_count = NV * DK * DK, ring_count = QW_CONV_RING * CHANNELS;
    feed_f32(&n, FED);
    const struct qw_state *st = qw_target_state(n.t);
    float *S = golden(F32, "state_S_20.f32", GDN_LAYERS * s_count);
    float *conv = golden(F32, "state_conv_20.f32", GDN_LAYERS * CHANNELS * TAIL);
    float *got = qw_alloc(ring_count > s_count ? ring_count : s_count, sizeof(*got));
    double worst_s = 0, worst_ring = 0;
    int layer = 0;
    MUST(st->s_bytes == s_count * 4 && st->ring_bytes == ring_count * 4, "another state");
    for (int i = 0; i < st->n_layer; i++) {
        if (st->S[i] == NULL)
            continue;
        OK(qw_dev_read(net_dev(), st->S[i], 0, got, st->s_bytes, &err));
        worst_s = fmax(worst_s, state_error(got, S + (size_t)layer * s_count));
        OK(qw_dev_read(net_dev(), st->ring[i], 0, got, st->ring_bytes, &err));
        worst_ring = fmax(worst_ring, ring_error(got, conv + layer * CHANNELS * TAIL));
        layer++;
    }
    printf("  after %d tokens: S within %.2e, columns within %.2e (scale 2 and 3.5)\n",
           FED, worst_s, worst_ring);
    CHECK(layer == GDN_LAYERS, "%d layers with state", layer);
    CHECK(worst_s <= 1e-4 && worst_ring <= 1e-4, "state differs");
    free(got);
    free(conv);
    free(S);
    net_close(&n);
}

/* ---- files of mixed types ---- */

static struct net_tensor *layer_tensor(struct net_image *m, int layer, const char *suffix)
{
    char *name = qw_sprintf("blk.%d.%s", layer, suffix);
    struct net_tensor *t = net_image_find(m, name);
    free(name);
    return t;
}

static void read_type(struct net_image *m, int type)
{
    char *path = type_file(type, "t.gguf");
    need(type);
    net_image_read(m, path);
    free(path);
}

static float *run_image(const struct net_image *m, uint32_t align, int kv_bits)
{
    char *path = net_temp("image.gguf");
    net_image_write(m, path, align);
    float *logits = run_file(path, kv_bits, ROWS);
    free(path);
    return logits;
}

static void check_equal(const char *what, float *got, float *want)
{
    const struct net_error e = net_compare(got, want, ROWS * VOCAB);
    CHECK(memcmp(got, want, ROWS * VOCAB * sizeof(*got)) == 0,
          "%s: logits differ by %.2e", what, e.max);
    free(got);
    free(want);
}

/* A Q4_0 tensor in another type that holds the same values: d (q - 8), q = 0..15. */
static void widen(struct net_tensor *t, uint32_t type)
{
    enum { OLD = 18 };
    const size_t n = t->size / OLD;
    unsigned char *old = t->data;
    MUST(t->type == QW_Q4_0, "%s is not Q4_0", t->name);
    t->data = NULL;
    net_tensor_retype(t, type);
    memset(t->data, 0, t->size);
    const size_t bytes = t->size / n;
    for (size_t b = 0; b < n; b++) {
        const unsigned char *from = old + b * OLD;
        unsigned char *to = t->data + b * bytes;
        uint16_t d, min;
        memcpy(&d, from, 2);
        memcpy(to, &d, 2);
        min = qw_float_to_half(-8.0f * qw_half_to_float(d));
        if (type == QW_Q4_1) {
            memcpy(to + 2, &min, 2);
            memcpy(to + 4, from + 2, 16);
        }
        for (int i = 0; type != QW_Q4_1 && i < 32; i++) {
            const int q = (from[2 + i % 16] >> (i / 16 * 4)) & 15;
            if (type == QW_Q8_0) {
                to[2 + i] = (unsigned char)(q - 8);
            } else { /* Q5_0: q + 8 of 5 bits, the fifth apart */
                to[2 + i / 8] |= (unsigned char)(((q + 8) >> 4) << (i % 8));
                to[6 + i % 16] |= (unsigned char)(((q + 8) & 15) << (i / 16 * 4));
            }
        }
    }
    free(old);
}

/* The values stay, so whatever the type the integer sums and their scales do too. */
static void same_values_other_types(void)
{
    struct net_image m;
    float *want = run_type(Q4_0, 16, ROWS);
    read_type(&m, Q4_0);
    widen(layer_tensor(&m, 0, "ffn_down.weight"), QW_Q5_0);
    widen(layer_tensor(&m, 1, "ffn_down.weight"), QW_Q8_0);
    widen(layer_tensor(&m, 2, "ffn_gate.weight"), QW_Q8_0); /* its sibling stays Q4_0 */
    widen(layer_tensor(&m, 3, "attn_k.weight"), QW_Q5_0);
    widen(layer_tensor(&m, 4, "attn_gate.weight"), QW_Q5_0);
    widen(net_image_find(&m, "token_embd.weight"), QW_Q5_0);
    check_equal("Q5_0 and Q8_0 for Q4_0, alignment 4096", run_image(&m, 4096, 16), want);
    net_image_free(&m);
}

/* F16 weights as F32: one layout, the same values. */
static void same_values_as_f32(void)
{
    struct net_image m;
    float *want = run_type(F16, 16, ROWS);
    read_type(&m, F16);
    net_tensor_convert(layer_tensor(&m, 0, "ssm_alpha.weight"), QW_F32);
    net_tensor_convert(layer_tensor(&m, 0, "ssm_beta.weight"), QW_F32);
    net_tensor_convert(layer_tensor(&m, 1, "ssm_beta.weight"), QW_F32);
    net_tensor_convert(layer_tensor(&m, 3, "attn_output.weight"), QW_F32);
    check_equal("F32 for F16", run_image(&m, 32, 16), want);
    net_image_free(&m);
}

static void fuse(struct net_image *m, int layer)
{
    static const char *const part[] = {"attn_q.weight", "attn_k.weight", "attn_v.weight"};
    struct qw_buf rows = {0};
    uint64_t n = 0;
    const uint64_t ne0 = layer_tensor(m, layer, part[0])->ne[0];
    const uint32_t type = layer_tensor(m, layer, part[0])->type;
    for (int i = 0; i < 3; i++) {
        const struct net_tensor *t = layer_tensor(m, layer, part[i]);
        qw_buf_add(&rows, t->data, t->size);
        n += t->ne[1];
        net_image_drop(m, t->name);
    }
    char *name = qw_sprintf("blk.%d.attn_qkv.weight", layer);
    struct net_tensor *all = net_image_add(m, name, type, ne0, n);
    MUST(all->size == rows.len, "%s", name);
    memcpy(all->data, rows.data, rows.len);
    free(name);
    qw_buf_free(&rows);
}

static void fused_qkv(void)
{
    static const int type[] = {F32, Q4_0};
    for (int i = 0; i < 2; i++) {
        struct net_image m;
        float *want = run_type(type[i], 16, ROWS);
        read_type(&m, type[i]);
        fuse(&m, 3); /* layer 7 keeps its three */
        check_equal(type_name[type[i]], run_image(&m, 32, 16), want);
        net_image_free(&m);
    }
}

/* Without output.weight the head is token_embd: as if a copy of it were there. */
static void tied_head(void)
{
    static const int type[] = {F32, Q8_0};
    for (int i = 0; i < 2; i++) {
        struct net_image m;
        read_type(&m, type[i]);
        const struct net_tensor *embd = net_image_find(&m, "token_embd.weight");
        struct net_tensor *head = net_image_find(&m, "output.weight");
        MUST(embd->size == head->size, "head and embedding differ");
        memcpy(head->data, embd->data, head->size);
        float *want = run_image(&m, 32, 16);
        net_image_drop(&m, "output.weight");
        check_equal(type_name[type[i]], run_image(&m, 32, 16), want);
        net_image_free(&m);
    }
}

/* Random blocks of a type whose encoder nobody needs; halves at `at` get the value v. */
static void randomise(struct net_tensor *t, uint32_t type, int at0, float v0, int at1,
                      float v1)
{
    unsigned long long seed = 1000 + type;
    const uint16_t h0 = qw_float_to_half(v0), h1 = qw_float_to_half(v1);
    net_tensor_retype(t, type);
    for (size_t i = 0; i < t->size; i++)
        t->data[i] = (unsigned char)(check_rand(&seed) >> 56);
    for (size_t b = 0; b < t->size; b += qw_type_info(type)->bytes) {
        memcpy(t->data + b + at0, &h0, 2);
        if (at1 >= 0)
            memcpy(t->data + b + at1, &h1, 2);
    }
}

/* Every block type in one file, against the reference on that very file. */
static void mixed_types(void)
{
    struct net_image m;
    read_type(&m, Q4_0);
    widen(layer_tensor(&m, 0, "ffn_down.weight"), QW_Q4_1);
    widen(layer_tensor(&m, 1, "ffn_down.weight"), QW_Q5_0);
    widen(layer_tensor(&m, 2, "ffn_down.weight"), QW_Q8_0);
    randomise(layer_tensor(&m, 3, "ffn_down.weight"), QW_Q5_1, 0, 0.007f, 2, -0.11f);
    randomise(layer_tensor(&m, 4, "ffn_down.weight"), QW_Q4_K, 0, 2e-4f, 2, 1.5e-3f);
    randomise(layer_tensor(&m, 5, "ffn_down.weight"), QW_Q5_K, 0, 1e-4f, 2, 1.5e-3f);
    randomise(layer_tensor(&m, 6, "ffn_down.weight"), QW_Q6_K, 208, 5e-5f, -1, 0);
    net_tensor_convert(layer_tensor(&m, 0, "ssm_alpha.weight"), QW_F32);
    net_tensor_convert(layer_tensor(&m, 0, "ssm_beta.weight"), QW_F32);
    net_tensor_convert(layer_tensor(&m, 1, "ssm_alpha.weight"), QW_BF16);
    net_tensor_convert(layer_tensor(&m, 2, "ssm_beta.weight"), QW_F16);
    net_tensor_convert(layer_tensor(&m, 4, "ssm_out.weight"), QW_BF16);
    char *path = type_file(Q4_0, "mixed.gguf"), *out = type_file(Q4_0, "mixed.f32");
    char *engine = net_script("engine.py");
    net_image_write(&m, path, 4096);
    char *cmd = qw_sprintf("exec 2>&1; %s '%s' '%s' exact", engine, path, out);
    net_wait(net_start(cmd));
    float *got = run_file(path, 32, ROWS);
    judge_rounded("mixed types", got, Q4_0, "mixed.f32");
    free(cmd);
    free(engine);
    free(out);
    free(path);
    net_image_free(&m);
}

/* ---- rope ---- */

static void rope_far(void)
{
    enum { POS = 262143, N_ROT = 64 };
    const float base = 1e7f, step = powf(base, -2.0f / N_ROT);
    float cs[N_ROT], angle = POS;
    double most = 0;
    qw_rope_row(cs, POS, N_ROT, base);
    for (int k = 0; k < N_ROT / 2; k++, angle *= step) {
        const double exact = POS * pow(1e7, -2.0 * k / N_ROT);
        const float c = cosf(angle), s = sinf(angle);
        CHECK(memcmp(&c, &cs[k], 4) == 0 && memcmp(&s, &cs[N_ROT / 2 + k], 4) == 0,
              "pair %d is not of the iterated product", k);
        most = fmax(most, fabs((double)cs[k] - cos(exact)));
        most = fmax(most, fabs((double)cs[N_ROT / 2 + k] - sin(exact)));
    }
    printf("  cos and sin at position %d within %.2e of float64\n", POS, most);
    CHECK(most <= 0.01, "rope at position %d is off by %.3g", POS, most);
}

QW_TESTS(T(rope_far), T(f32_logits), T(long_logits), T(hidden_rows), T(state_after_20),
         T(f16_bf16_logits), T(q8_cache_logits), T(quantised_logits),
         T(same_values_other_types), T(same_values_as_f32), T(fused_qkv), T(tied_head),
         T(mixed_types))
