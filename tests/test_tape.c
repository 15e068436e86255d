/* SPDX-License-Identifier: MIT */
/* The tape contract, in whole networks: verify steps of every width in which every number
 * of drafted tokens is kept, at positions all over a context, must leave a timeline whose
 * logits are those of decoding one by one, bit for bit, and whose settled state has the
 * same digest. */

#include "net_util.h"

#include "cycle.h"
#include "state_io.h"

enum { CONTEXT = 384, WIDEST = QW_MAX_DRAFT + 1, SEED = 40961 };

struct timeline {
    struct net net;
    int32_t id[CONTEXT];
    float *want;        /* [CONTEXT][n_vocab], one by one */
    char (*digest)[65]; /* [CONTEXT + 1], of the state at each position, one by one */
    unsigned long long seed;
    const char *label;
};

static void digest_now(struct timeline *l, char hex[65])
{
    OK(qw_state_digest(qw_target_state(l->net.t), hex, &err));
}

/* Settle; the state must be that of decoding one by one. */
static bool settled(struct timeline *l, int rows, int keep)
{
    const int pos = qw_target_state(l->net.t)->pos;
    char got[65];
    OK(qw_target_settle(l->net.t, &err));
    digest_now(l, got);
    const bool same = strcmp(got, l->digest[pos]) == 0;
    CHECK(same, "%s: state at %d, after %d rows of which %d stayed", l->label, pos, rows,
          keep);
    return same;
}

static void open_timeline(struct timeline *l, const char *label, const char *path,
                          int kv_bits, bool gpu_shape)
{
    const struct net_opts o = {.kv_bits = kv_bits,
                               .context = CONTEXT,
                               .prefill = 64,
                               .gpu_shape = gpu_shape,
                               .all_logits = true,
                               .verify = WIDEST};
    *l = (struct timeline){.label = label, .seed = SEED};
    printf("%s, seed %llu\n", label, l->seed);
    net_open(&l->net, path, &o);
    for (int i = 0; i < CONTEXT; i++)
        l->id[i] = (int32_t)(check_rand(&l->seed) % (unsigned long long)l->net.n_vocab);
    l->want = qw_alloc((size_t)CONTEXT * (size_t)l->net.n_vocab, sizeof(float));
    l->digest = qw_alloc(CONTEXT + 1, sizeof(*l->digest));
    for (int i = 0; i < CONTEXT; i++) {
        digest_now(l, l->digest[i]);
        net_feed(&l->net, l->id + i, 1, 1, l->want + (size_t)i * (size_t)l->net.n_vocab);
    }
    digest_now(l, l->digest[CONTEXT]);
    net_reset(&l->net);
}

static void close_timeline(struct timeline *l)
{
    free(l->want);
    free(l->digest);
    net_close(&l->net);
}

/* Verify `rows` rows of which `keep` stay: the first keep - 1 drafted tokens are the
 * timeline's own, the next is wrong, the rest is anything. */
static bool step(struct timeline *l, int rows, int keep)
{
    const size_t V = (size_t)l->net.n_vocab;
    const int pos = qw_target_state(l->net.t)->pos;
    float *got = qw_alloc((size_t)rows * V, sizeof(float));
    int32_t draft[WIDEST] = {0};
    bool same = true;
    for (int i = 0; i < rows - 1; i++)
        draft[i] = i < keep - 1 ? l->id[pos + 1 + i]
                   : i == keep - 1
                       ? (l->id[pos + 1 + i] + 1) % l->net.n_vocab
                       : (int32_t)(check_rand(&l->seed) % (unsigned long long)V);
    net_verify(&l->net, l->id[pos], draft, rows - 1, keep, got);
    for (int r = 0; same && r < keep; r++)
        same = memcmp(got + (size_t)r * V, l->want + (size_t)(pos + r) * V, V * 4) == 0;
    CHECK(same, "%s: %d rows at %d, %d kept", l->label, rows, pos, keep);
    free(got);
    return same;
}

/* Every (rows, kept), or up to 8 rows and some of the wider ones, each twice in a row,
 * with plain steps, settling and prefill between some of them; the whole from a random
 * place when the context is used up. */
static void contract(struct timeline *l, bool every)
{
    struct qw_state *s = qw_target_state(l->net.t);
    for (int rows = 1; rows <= WIDEST; rows += every || rows < 8 ? 1 : 8)
        for (int keep = 1; keep <= rows; keep += every || rows < 9 ? 1 : 5) {
            if (s->pos + 3 * WIDEST + 8 > CONTEXT) {
                net_reset(&l->net);
                net_feed(&l->net, l->id, 1 + (int)(check_rand(&l->seed) % 140), 64, NULL);
            }
            if (!step(l, rows, keep) || !step(l, rows, keep))
                return;
            if (keep == 1) /* certain rows after a refused draft */
                net_feed(&l->net, l->id + s->pos, 1 + rows % 3, 64, NULL);
            if ((rows + keep) % 2 == 0 && !step(l, rows, keep)) /* and a settled start */
                return;
            if (!settled(l, rows, keep))
                return;
        }
}

static void run(const char *label, const char *path, int kv_bits, bool gpu_shape)
{
    struct timeline l;
    open_timeline(&l, label, path, kv_bits, gpu_shape);
    contract(&l, kv_bits == 16 && !gpu_shape);
    close_timeline(&l);
}

static void shipped(const char *label, int kv_bits, bool gpu_shape)
{
    char *path = net_source("models/tiny/tiny-qwen35-q4_0.gguf");
    run(label, path, kv_bits, gpu_shape);
    free(path);
}

static void f16_cache(void)
{
    shipped("F16 cache", 16, false);
}

static void q8_cache(void)
{
    shipped("Q8_0 cache", 8, false);
}

static void f32_cache(void)
{
    shipped("F32 cache", 32, false);
}

static void gpu_shape(void)
{
    shipped("GPU shape", 16, true);
}

QW_TESTS(T(f16_cache), T(q8_cache), T(f32_cache), T(gpu_shape))
