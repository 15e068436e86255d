/* SPDX-License-Identifier: MIT */
/* test_draft_model.c - weights of a drafter file on the device: every buffer holds
 * what the file says, and none is left behind. */
#include <math.h>

#include "draft_model.h"
#include "net_util.h"

static struct qw_err refusal;

/* ---- what a buffer must hold ---- */

static void pack_tensor(struct qw_buf *out, enum qw_layout layout,
                        const struct qw_gguf_tensor *t)
{
    const struct qw_type_info *info = qw_type_info(t->type);
    const int K = (int)t->ne[0], rows = (int)t->ne[1], tiles = (rows + 15) / 16;
    const size_t size = qw_pack_tile_bytes(layout, K) * (size_t)tiles;
    void *packed = qw_alloc(size, 1);
    qw_pack_tiles(layout, t->type, t->data, (size_t)K / info->block * info->bytes, rows,
                  K, tiles, packed);
    qw_buf_add(out, packed, size);
    free(packed);
}

static void check_part(const struct qw_mat *m, const struct qw_part *p, const char *what)
{
    struct qw_buf want = {0};
    size_t at = 0;
    for (int i = 0; i < p->n_tensors; i++)
        pack_tensor(&want, p->layout, m->tensor[p->tensor[i]]);
    char *got = qw_alloc(want.len, 1);
    for (int i = 0; i < p->n_slabs; i++) {
        MUST(at + p->slab[i].bytes <= want.len, "%s is too long", what);
        OK(qw_dev_read(net_dev(), p->slab[i].buf, 0, got + at, p->slab[i].bytes, &err));
        at += p->slab[i].bytes;
    }
    CHECK(at == want.len && memcmp(got, want.data, at) == 0, "%s", what);
    free(got);
    qw_buf_free(&want);
}

/* The matrix is these tensors, in this order. */
static void check_mat(const struct qw_gguf *g, const struct qw_mat *m, int layer, int n,
                      const char *const *suffix)
{
    CHECK(m->n_tensors == n && m->n_parts > 0, "%s", suffix[0]);
    for (int i = 0; i < n && i < m->n_tensors; i++)
        CHECK(m->tensor[i] == qw_tensor(g, layer, suffix[i]), "%s", suffix[i]);
    for (int p = 0; p < m->n_parts; p++)
        check_part(m, &m->part[p], suffix[0]);
}
#define MAT(g, m, layer, ...)                                                            \
    check_mat(g, m, layer,                                                               \
              (int)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)),             \
              (const char *[]){__VA_ARGS__})

static void check_vector(const struct qw_gguf *g, cl_mem buf, int layer,
                         const char *suffix)
{
    const struct qw_gguf_tensor *t = qw_tensor(g, layer, suffix);
    const size_t n = (size_t)t->ne[0];
    float *want = qw_alloc(n, sizeof(*want)), *got = qw_alloc(n, sizeof(*got));
    MUST(buf != NULL && qw_decode(t->type, t->data, want, n), "%s", suffix);
    OK(qw_dev_read(net_dev(), buf, 0, got, n * sizeof(*got), &err));
    CHECK(memcmp(got, want, n * sizeof(*got)) == 0, "blk.%d.%s", layer, suffix);
    free(got);
    free(want);
}

/* ---- drafter files ---- */

static struct qw_hparams target_of(const char *path)
{
    struct qw_gguf *g;
    struct qw_hparams hp;
    OK(qw_gguf_open(&g, path, &err));
    OK(qw_hparams_read(g, &hp, &err));
    qw_gguf_close(g);
    return hp;
}

static void check_draft(const struct qw_gguf *g, const struct qw_draft_model *m)
{
    MAT(g, &m->fc, -1, "fc.weight");
    check_vector(g, m->enc_norm, -1, "enc.output_norm.weight");
    check_vector(g, m->out_norm, -1, "output_norm.weight");
    for (int i = 0; i < m->hp.n_layer; i++) {
        const struct qw_draft_layer *l = &m->layer[i];
        MAT(g, &l->q, i, "attn_q.weight");
        MAT(g, &l->kv, i, "attn_k.weight", "attn_v.weight");
        MAT(g, &l->out, i, "attn_output.weight");
        MAT(g, &l->gate_up, i, "ffn_gate.weight", "ffn_up.weight");
        MAT(g, &l->down, i, "ffn_down.weight");
        check_vector(g, l->attn_norm, i, "attn_norm.weight");
        check_vector(g, l->ffn_norm, i, "ffn_norm.weight");
        check_vector(g, l->q_norm, i, "attn_q_norm.weight");
        check_vector(g, l->k_norm, i, "attn_k_norm.weight");
        CHECK(l->kv.col[0] == 0 && l->kv.col[1] == m->hp.n_head_kv * m->hp.head_dim);
    }
}

/* Load it all, compare, release it all. most: largest buffer, 0 for the device's. own: it
 * has a token_embd and a head. */
static void run_draft(const char *path, const struct qw_hparams *target, uint64_t most,
                      bool own)
{
    struct qw_gguf *g;
    struct qw_draft_model *m;
    struct qw_dev *dev = net_dev();
    const uint64_t used = dev->used;
    const int buffers = dev->n_buffers;
    OK(qw_gguf_open(&g, path, &err));
    OK(qw_draft_model_plan(&m, g, target, most > 0 ? most : dev->max_alloc, &err));
    CHECK(dev->used == used, "a plan took device memory");
    OK(qw_draft_model_load(m, dev, false, &err));
    CHECK(dev->used == used + m->bytes, "%llu bytes, planned %llu",
          (unsigned long long)(dev->used - used), (unsigned long long)m->bytes);
    check_draft(g, m);
    CHECK((m->embed.n_parts > 0) == own && (m->head.n_parts > 0) == own);
    if (own) {
        MAT(g, &m->embed, -1, "token_embd.weight");
        MAT(g, &m->head, -1, "output.weight");
    }
    CHECK((m->fc.part[0].n_slabs > 1) == (most > 0), "%d slabs", m->fc.part[0].n_slabs);
    const int k = m->fc.K > m->hp.n_ff ? m->fc.K : m->hp.n_ff;
    CHECK(m->max_k == k && m->max_cols == 2 * m->hp.n_ff, "%d, %d", m->max_k,
          m->max_cols);
    qw_draft_model_close(m);
    qw_gguf_close(g);
    CHECK(dev->used == used && dev->n_buffers == buffers, "%d buffers are left",
          dev->n_buffers - buffers);
}

static void shipped_draft(void)
{
    char *t = net_source("models/tiny/tiny-qwen35-q4_0.gguf");
    char *d = net_source("models/tiny/tiny-qwen35-dflash-q8_0.gguf");
    char *own = net_temp("own.gguf");
    const struct qw_hparams hp = target_of(t);
    struct net_image m;
    run_draft(d, &hp, 0, false);
    run_draft(d, &hp, 64 << 10, false);
    net_image_read(&m, d);
    memset(net_image_add(&m, "token_embd.weight", QW_Q4_0, 256, 4096)->data, 0x35,
           4096 * 144);
    memset(net_image_add(&m, "output.weight", QW_Q6_K, 256, 4096)->data, 0x2c,
           4096 * 210);
    net_tensor_retype(net_image_find(&m, "blk.1.attn_v.weight"), QW_Q4_0);
    net_image_write(&m, own, 32);
    net_image_free(&m);
    run_draft(own, &hp, 0, true);
    free(own);
    free(d);
    free(t);
}

/* A device that cannot hold one tile of fc. */
static void small_device(void)
{
    char *t = net_source("models/tiny/tiny-qwen35-q4_0.gguf");
    char *d = net_source("models/tiny/tiny-qwen35-dflash-q8_0.gguf");
    const struct qw_hparams hp = target_of(t);
    struct qw_gguf *g;
    struct qw_draft_model *m = NULL;
    OK(qw_gguf_open(&g, d, &err));
    CHECK(qw_draft_model_plan(&m, g, &hp, 4096, &refusal) == QW_EDEVICE && m == NULL);
    CHECK(strstr(refusal.msg, "largest buffer (4096 bytes)"), "%s", refusal.msg);
    qw_gguf_close(g);
    free(d);
    free(t);
}

/* ---- the reference's files ---- */

static char *target_path, *draft_path;

static void make_oracle(void)
{
    char *dir = net_temp("tiny"), *make = net_script("make_tiny.py");
    char *cmd = qw_sprintf("exec 2>&1; mkdir '%s' && %s '%s' Q8_0", dir, make, dir);
    net_wait(net_start(cmd));
    target_path = net_temp("tiny/t.gguf");
    draft_path = net_temp("tiny/d.gguf");
    free(cmd);
    free(make);
    free(dir);
}

static void oracle_draft(void)
{
    const struct qw_hparams target = target_of(target_path);
    struct qw_gguf *g;
    struct qw_draft_hparams hp;
    OK(qw_gguf_open(&g, draft_path, &err));
    OK(qw_draft_hparams_read(g, &target, &hp, &err));
    qw_gguf_close(g);
    CHECK(hp.n_layer == 3 && hp.n_embd == 128 && hp.n_ff == 192 && hp.n_head == 4);
    CHECK(hp.n_head_kv == 2 && hp.head_dim == 32 && hp.block_size == 8);
    CHECK(hp.n_taps == 3 && hp.tap[0] == 2 && hp.tap[1] == 4 && hp.tap[2] == 7);
    CHECK(hp.window == 16 && hp.sliding[0] && hp.sliding[1] && !hp.sliding[2]);
    CHECK(hp.mask_id == 299 && !hp.causal);
    run_draft(draft_path, &target, 0, false);
}

static void done(void)
{
    free(target_path);
    free(draft_path);
}

QW_TESTS(T(shipped_draft), T(small_device), T(make_oracle), T(oracle_draft), T(done))
