/* SPDX-License-Identifier: MIT */
/* The MTP drafter against the float64 reference (oracle/ref.py, oracle/mtp.py), and the
 * contract of a drafter: what it proposes depends on the tokens decided alone, and the
 * answer never changes.
 *
 * The known mistakes, and the check that fails (each was put in): the raw residual row in
 * place of the normed one, h of p in place of p - 1, the halves of eh_proj swapped,
 * output_norm in place of shared_head_norm: block_rows, bound 1e-4 of the scale. */
#include <math.h>

#include "cycle.h"
#include "mtp.h"
#include "net_util.h"
#include "options.h"
#include "qwenrun.h"

enum { GOLDEN = 12, VOCAB = 300, EMBD = 128, CONTEXT = 384, PASSES = QW_MAX_DRAFT };
static char *file; /* the oracle's target in F32 */

static const float some = 1e-9f; /* a p_min that cuts nothing, but has logits written */

struct drafting {
    struct net n;
    struct qw_drafter *d;
    uint64_t planned;
};

struct setting {
    int kv_bits, prefill, n_max, n_min;
    bool gpu_shape;
    double p_min;
    uint64_t max_alloc; /* while the drafter opens; 0: the device's */
};

static void open_drafting(struct drafting *g, const char *path, const struct setting *s)
{
    const struct net_opts o = {.kv_bits = s->kv_bits,
                               .context = CONTEXT,
                               .prefill = s->prefill,
                               .gpu_shape = s->gpu_shape,
                               .mtp = true,
                               .verify = s->n_max + 1};
    struct qw_dev *dev = net_dev();
    const uint64_t device = dev->max_alloc;
    net_open(&g->n, path, &o);
    MUST(g->n.n_vocab == VOCAB && g->n.n_embd == EMBD, "another tiny model");
    const struct qw_mtp_params p = {
        .draft = {.n_max = s->n_max, .n_min = s->n_min, .p_min = s->p_min},
        .context = CONTEXT,
        .rows = qw_target_rows(g->n.t),
        .kv_bits = s->kv_bits};
    dev->max_alloc = s->max_alloc > 0 ? s->max_alloc : device;
    OK(qw_mtp_bytes(&g->planned, g->n.model, &p, dev->max_alloc, &err));
    OK(qw_mtp_open(&g->d, g->n.model, g->n.t, &p, &err));
    dev->max_alloc = device;
}

static void close_drafting(struct drafting *g)
{
    qw_drafter_close(g->d);
    net_close(&g->n);
}

static void feed(struct drafting *g, const int32_t *id, int count, int chunk)
{
    for (int at = 0, rows; at < count; at += rows) {
        rows = count - at < chunk ? count - at : chunk;
        OK(qw_target_forward(g->n.t, id + at, rows, false, &err));
        OK(g->d->ops->observe(g->d, rows, 0, false, &err));
        OK(qw_target_wait(g->n.t, &err));
    }
}

/* A proposal behind the committed position; what it drafts. */
static int propose(struct drafting *g, int32_t id, int32_t *draft)
{
    int32_t pos = qw_target_state(g->n.t)->pos, block[QW_DRAFT_IDS + QW_MAX_DRAFT];
    OK(qw_dev_write(net_dev(), g->d->next, 4 * QW_CYC_POS, &pos, 4, true, &err));
    OK(qw_dev_write(net_dev(), g->d->next, 4 * QW_CYC_IDS, &id, 4, true, &err));
    OK(g->d->ops->propose(g->d, NULL, 0, NULL, &err));
    OK(qw_dev_read(net_dev(), qw_target_draft(g->n.t), 0, block, sizeof(block), &err));
    memcpy(draft, block + QW_DRAFT_IDS, (size_t)block[QW_DRAFT_COUNT] * sizeof(*draft));
    return block[QW_DRAFT_COUNT];
}

/* ---- against the reference ---- */

static double worst(const float *got, const float *want, int n, double so_far)
{
    const double e = net_compare(got, want, (size_t)n).max;
    return e <= so_far ? so_far : e;
}

static double scale_of(const float *x, int n)
{
    double top = 0;
    for (int i = 0; i < n; i++)
        top = fmax(top, fabs((double)x[i]));
    return top;
}

static void make_oracle(void)
{
    char *dir = net_temp("oracle"), *make = net_script("make_tiny.py"),
         *ref = net_script("ref.py");
    char *cmd = qw_sprintf("exec 2>&1; mkdir '%s' && %s '%s' F32 && %s '%s'", dir, make,
                           dir, ref, dir);
    net_wait(net_start(cmd));
    file = net_temp("oracle/t.gguf");
    free(cmd);
    free(dir);
    free(make);
    free(ref);
}

/* Row p of the block: the first pass of a proposal at p, on the cache that catching up
 * made of rows before it. */
static void check_rows(bool gpu_shape)
{
    struct drafting g;
    int32_t id[GOLDEN], draft[1];
    float logits[VOCAB], hidden[EMBD];
    char *lp = net_temp("oracle/mtp_logits.f32"), *hp = net_temp("oracle/mtp_hidden.f32");
    float *want_l = net_floats(lp, GOLDEN * VOCAB),
          *want_h = net_floats(hp, GOLDEN * EMBD);
    double el = 0, eh = 0;
    const struct setting s = {
        .kv_bits = 32, .prefill = 16, .n_max = 1, .p_min = some, .gpu_shape = gpu_shape};
    open_drafting(&g, file, &s);
    net_oracle_ids(id, GOLDEN);
    for (int p = 0; p < GOLDEN; p++) {
        net_reset(&g.n);
        feed(&g, id, p, 5);
        CHECK(propose(&g, id[p], draft) == 1);
        CHECK(draft[0] == net_argmax(want_l + p * VOCAB, VOCAB), "row %d", p);
        OK(qw_mtp_read(g.d, logits, hidden, &err));
        el = worst(logits, want_l + p * VOCAB, VOCAB, el);
        eh = worst(hidden, want_h + p * EMBD, EMBD, eh);
    }
    const double sl = scale_of(want_l, GOLDEN * VOCAB),
                 sh = scale_of(want_h, GOLDEN * EMBD);
    printf("  logits within %.1e (scale %.1f), hidden rows %.1e (%.1f)\n", el, sl, eh,
           sh);
    CHECK(el <= 1e-4 * sl && eh <= 1e-4 * sh, "%.2e, %.2e", el, eh);
    close_drafting(&g);
    free(lp);
    free(hp);
    free(want_l);
    free(want_h);
}

static void block_rows(void)
{
    check_rows(false);
    check_rows(true);
}

struct pass {
    float id, margin, p;
};
static const int place[] = {1, 2, 7, 20, 31, 64, 127, 140};
enum { PLACES = sizeof(place) / sizeof(place[0]) };

static struct pass *reference(const char *mode)
{
    char *out = qw_sprintf("drafts_%s.f32", mode), *path = net_temp(out);
    char *script = net_script("mtp.py");
    char *cmd =
        qw_sprintf("exec 2>&1; %s '%s' '%s' %s %d", script, file, path, mode, PASSES);
    for (int i = 0; i < PLACES; i++) {
        char *more = qw_sprintf("%s %d", cmd, place[i]);
        free(cmd);
        cmd = more;
    }
    net_wait(net_start(cmd));
    float *x = net_floats(path, PLACES * PASSES * 3);
    struct pass *all = qw_alloc(PLACES * PASSES, sizeof(*all));
    for (int i = 0; i < PLACES * PASSES; i++)
        all[i] = (struct pass){x[3 * i], x[3 * i + 1], x[3 * i + 2]};
    free(x);
    free(out);
    free(path);
    free(script);
    free(cmd);
    return all;
}

/* Whole proposals, up to a near tie; with p_min they end where the reference says. */
static void check_drafts(const struct pass *all, const struct setting *s)
{
    struct drafting g;
    int32_t id[CONTEXT], draft[QW_MAX_DRAFT];
    int compared = 0;
    open_drafting(&g, file, s);
    net_oracle_ids(id, CONTEXT);
    for (int i = 0; i < PLACES; i++) {
        const struct pass *want = all + i * PASSES;
        int tie = 0, low = 0;
        feed(&g, id + qw_target_state(g.n.t)->pos, place[i] - qw_target_state(g.n.t)->pos,
             s->prefill);
        const int n = propose(&g, id[place[i]], draft);
        while (tie < s->n_max && want[tie].margin > 0.05f)
            tie++;
        while (low < s->n_max && want[low].p >= (float)s->p_min)
            low++;
        if (low <= tie || tie == s->n_max)
            CHECK(n == (low < s->n_min ? 0 : low), "place %d: %d drafted, want %d",
                  place[i], n, low);
        for (int k = 0; k < n && k < tie; k++, compared++)
            CHECK(draft[k] == (int32_t)want[k].id, "place %d, draft %d: %d, want %d",
                  place[i], k, draft[k], (int)want[k].id);
    }
    printf("  cache %d bits, p_min %.2g: %d drafts compared\n", s->kv_bits, s->p_min,
           compared);
    close_drafting(&g);
}

static void draft_ids(void)
{
    struct pass *exact = reference("exact"), *f16 = reference("f16");
    check_drafts(exact, &(struct setting){.kv_bits = 32, .prefill = 16, .n_max = PASSES});
    check_drafts(f16, &(struct setting){.kv_bits = 16, .prefill = 64, .n_max = PASSES});
    check_drafts(f16, &(struct setting){.kv_bits = 16, .prefill = 64, .n_max = 4});
    check_drafts(
        exact,
        &(struct setting){.kv_bits = 32, .prefill = 16, .n_max = PASSES, .p_min = 0.135});
    check_drafts(
        exact,
        &(struct setting){
            .kv_bits = 32, .prefill = 16, .n_max = PASSES, .p_min = 0.165, .n_min = 2});
    free(exact);
    free(f16);
}

/* ---- the same bits however it came about ---- */

/* What a proposal leaves: its tokens, and the last pass's hidden row, which hangs on
 * every key, value and hidden row before it. */
struct proposal {
    int n;
    int32_t draft[QW_MAX_DRAFT];
    float hidden[EMBD];
};

static void take(struct drafting *g, int32_t id, struct proposal *p)
{
    *p = (struct proposal){.n = 0};
    p->n = propose(g, id, p->draft);
    OK(qw_mtp_read(g->d, NULL, p->hidden, &err));
}

static bool equal(const struct proposal *a, const struct proposal *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

static void splits(void)
{
    enum { N = 150, HALF = 40 };
    static const int chunk[] = {1, 2, 3, 4, 5, 31, 32, 33, 64};
    struct drafting g;
    struct proposal first = {.n = 0}, p;
    int32_t id[N + 1];
    net_oracle_ids(id, N + 1);
    for (int shape = 0; shape < 2; shape++) {
        open_drafting(&g, file,
                      &(struct setting){
                          .kv_bits = 32, .prefill = 64, .n_max = 3, .gpu_shape = shape});
        for (int i = 0; i < 9; i++)
            for (int twice = 0; twice < 2; twice++) {
                net_reset(&g.n);
                feed(&g, id, twice ? HALF : 0, 17);
                feed(&g, id + (twice ? HALF : 0), N - (twice ? HALF : 0), chunk[i]);
                take(&g, id[N], &p);
                if (i == 0 && !twice)
                    first = p;
                CHECK(p.n == 3 && equal(&p, &first), "steps of %d rows, %d before",
                      chunk[i], twice ? HALF : 0);
            }
        close_drafting(&g);
    }
}

/* A drafter on a device whose buffers are small: the cache has a page for each block. The
 * plan asked for what was taken. */
static void pages(void)
{
    enum { N = 300 };
    struct proposal one, many;
    struct drafting g;
    int32_t id[N + 1];
    net_oracle_ids(id, N + 1);
    for (int small = 0; small < 2; small++) {
        const uint64_t most = small ? (uint64_t)128 * 2 * 64 * 4 : 0;
        struct qw_dev *dev = net_dev();
        open_drafting(&g, file,
                      &(struct setting){
                          .kv_bits = 32, .prefill = 8, .n_max = 7, .max_alloc = most});
        feed(&g, id, N, 8);
        take(&g, id[N], small ? &many : &one);
        const uint64_t used = dev->used;
        qw_drafter_close(g.d);
        CHECK(used - dev->used == g.planned, "%llu bytes taken, %llu planned",
              (unsigned long long)(used - dev->used), (unsigned long long)g.planned);
        net_close(&g.n);
    }
    CHECK(one.n == 7 && equal(&one, &many));
}

/* Verify k drafts of which the first a are right, and propose on; a proposal before it
 * leaves its own rows behind. */
static void reject(struct drafting *g, const int32_t *id, int k, int a)
{
    const int pos = qw_target_state(g->n.t)->pos;
    int32_t draft[QW_MAX_DRAFT];
    for (int i = 0; i < k; i++)
        draft[i] = i < a ? id[pos + 1 + i] : (id[pos + 1 + i] + 1 + i) % VOCAB;
    net_verify(&g->n, id[pos], draft, k, a + 1, NULL);
    OK(g->d->ops->observe(g->d, k + 1, 0, false, &err));
}

static void rejections(void)
{
    enum { BEFORE = 25 };
    struct drafting g, fresh;
    struct proposal p, want[CONTEXT];
    int32_t id[CONTEXT];
    bool known[CONTEXT] = {false};
    const struct setting s = {.kv_bits = 16, .prefill = 64, .n_max = PASSES};
    net_oracle_ids(id, CONTEXT);
    open_drafting(&g, file, &s);
    open_drafting(&fresh, file, &s);
    for (int k = 1; k <= PASSES; k += k < 8 ? 1 : 7)
        for (int a = 0; a <= k; a++) {
            net_reset(&g.n);
            feed(&g, id, BEFORE, 64);
            for (int again = 0; again < 2; again++) {
                take(&g, id[qw_target_state(g.n.t)->pos], &p);
                reject(&g, id, k, a);
                const int pos = qw_target_state(g.n.t)->pos;
                take(&g, id[pos], &p);
                if (!known[pos]) {
                    net_reset(&fresh.n);
                    feed(&fresh, id, pos, 64);
                    take(&fresh, id[pos], &want[pos]);
                    known[pos] = true;
                }
                CHECK(p.n == PASSES && equal(&p, &want[pos]),
                      "%d drafts, %d right, at %d", k, a, pos);
            }
        }
    close_drafting(&fresh);
    close_drafting(&g);
}

/* ---- the answer never changes ---- */

/* A target whose logits hang mostly on its last token, and an MTP block that sees the
 * same: drafts that are accepted, and some that are not. */
static char *agreeing(void)
{
    struct net_image m;
    char *path = net_temp("agreeing.gguf");
    net_image_read(&m, file);
    struct net_tensor *embed = net_image_find(&m, "token_embd.weight"),
                      *eh = net_image_find(&m, "blk.8.nextn.eh_proj.weight"),
                      *enorm = net_image_find(&m, "blk.8.nextn.enorm.weight"),
                      *norm = net_image_find(&m, "blk.8.nextn.shared_head_norm.weight"),
                      *out = net_image_find(&m, "output_norm.weight");
    float *e = (void *)embed->data, *x = (void *)eh->data, *w = (void *)enorm->data;
    for (size_t i = 0; i < (size_t)VOCAB * EMBD; i++)
        e[i] *= 12.0f;
    for (int r = 0; r < EMBD; r++) {
        w[r] = 1.0f;
        for (int c = 0; c < 2 * EMBD; c++)
            x[r * 2 * EMBD + c] = r == c ? 12.0f : 0.1f * x[r * 2 * EMBD + c];
    }
    memcpy(norm->data, out->data, out->size);
    net_image_write(&m, path, 32);
    net_image_free(&m);
    return path;
}

static void set(struct qw_options *o, const char *text)
{
    OK(qw_options_set(o, text, &err));
}

static void options_for(struct qw_options *o, const char *path, const char *kv)
{
    char *model = qw_sprintf("model.target=%s", path),
         *type = qw_sprintf("kv.target=%s", kv);
    qw_options_init(o);
    set(o, model);
    set(o, type);
    set(o, "model.context=384");
    set(o, "speculation.method=mtp");
    set(o, "speculation.n_max=15");
    set(o, "sampling.max_tokens=32");
    OK(qw_options_resolve(o, &err));
    free(model);
    free(type);
}

static void generate(struct qw_engine *e, const struct qw_session_params *p, int prompt,
                     struct qw_result *r)
{
    struct qw_session *s;
    int32_t id[64];
    const struct qw_generate g = {.hash_logits = true};
    net_oracle_ids(id, prompt);
    OK(qw_session_open(&s, e, p, &err));
    OK(qw_session_generate(s, id, (size_t)prompt, &g, r, &err));
    qw_session_close(s);
}

static void check_lossless(struct qw_engine *e, struct qw_session_params p, int prompt)
{
    struct qw_result plain, r;
    long long drafted = 0, accepted = 0;
    p.method = "none";
    generate(e, &p, prompt, &plain);
    p.method = "mtp";
    for (int n = 1; n <= 10; n++) {
        p.n_max = n < 9 ? n : 15;
        p.p_min = n == 10 ? 0.3 : 0;
        p.adaptive = n == 10;
        generate(e, &p, prompt, &r);
        CHECK(strcmp(r.logits_sha256, plain.logits_sha256) == 0 &&
                  r.ids.n == plain.ids.n &&
                  memcmp(r.ids.id, plain.ids.id, r.ids.n * sizeof(int32_t)) == 0,
              "n_max %d, temperature %.1f: another answer", p.n_max, p.temperature);
        drafted += r.speculation.drafted;
        accepted += r.speculation.accepted;
        qw_result_free(&r);
    }
    printf("  temperature %.1f, prompt of %d: %lld of %lld drafts accepted\n",
           p.temperature, prompt, accepted, drafted);
    CHECK(drafted > 0 && accepted > 0 && accepted < drafted);
    qw_result_free(&plain);
}

static void lossless_with(const char *path, const char *kv)
{
    struct qw_options o;
    struct qw_engine *e;
    struct qw_session_params p;
    options_for(&o, path, kv);
    OK(qw_engine_open(&e, &o, QW_OPEN_MODEL, false, &err));
    qw_session_defaults(&p, e);
    p.temperature = 0;
    check_lossless(e, p, 33);
    p.temperature = 0.4;
    p.seed = 5;
    check_lossless(e, p, 1);
    qw_engine_close(e);
    qw_options_close(&o);
}

static void lossless(void)
{
    char *path = agreeing();
    lossless_with(path, "f16");
    lossless_with(path, "q8_0");
    free(path);
}

/* ---- files that cannot draft ---- */

static void refused(void)
{
    struct net_image m;
    struct qw_options o;
    struct qw_engine *e;
    struct qw_err err = {""};
    char *path = net_temp("without.gguf");
    net_image_read(&m, file);
    net_image_drop(&m, "blk.8.nextn.eh_proj.weight");
    net_image_write(&m, path, 32);
    net_image_free(&m);
    options_for(&o, path, "f16");
    CHECK(qw_engine_open(&e, &o, QW_OPEN_FILE, false, &err) == QW_EUSAGE, "%s", err.msg);
    CHECK(strstr(err.msg, path) != NULL && strstr(err.msg, "eh_proj") != NULL &&
              strstr(err.msg, "speculation.method") != NULL,
          "'%s'", err.msg);
    qw_options_close(&o);
    free(path);
}

static void done(void)
{
    free(file);
}

QW_TESTS(T(make_oracle), T(block_rows), T(draft_ids), T(splits), T(pages), T(rejections),
         T(lossless), T(refused), T(done))
