/* SPDX-License-Identifier: MIT */
/* test_draft_model.c - weights of a drafter file and of a target's MTP block on the
 * device: every buffer holds what the file says, none is left behind, and a file without
 * a usable MTP block says why. */
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
        CHECK(l->kv.col[0] == l->q.cols &&
              l->kv.col[1] == l->q.cols + m->hp.n_head_kv * m->hp.head_dim);
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
    OK(qw_draft_model_load(m, &(struct qw_kern){.dev = dev}, NULL, false, &err));
    CHECK(dev->used == used + m->bytes, "%llu bytes, planned %llu",
          (unsigned long long)(dev->used - used), (unsigned long long)m->bytes);
    check_draft(g, m);
    CHECK((m->embed.n_parts > 0) == own && (m->head.n_parts > 0) == own);
    if (own) {
        MAT(g, &m->embed, -1, "token_embd.weight");
        MAT(g, &m->head, -1, "output.weight");
    }
    CHECK((m->fc.part[0].n_slabs > 1) == (most > 0), "%d slabs", m->fc.part[0].n_slabs);
    int k = m->hp.n_ff, cols = 2 * m->hp.n_ff; /* fc reads the target's features */
    const int heads = m->hp.n_head * m->hp.head_dim;
    const int qkv = heads + 2 * m->hp.n_head_kv * m->hp.head_dim;
    k = heads > k ? heads : k;
    k = m->hp.n_embd > k ? m->hp.n_embd : k;
    cols = qkv > cols ? qkv : cols;
    CHECK(m->max_k == k && m->max_cols == cols, "%d, %d", m->max_k, m->max_cols);
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

/* ---- MTP ---- */

enum { BLOCK = 8, EMBD = 128, VOCAB = 300 };

static void check_mtp(const struct qw_gguf *g, const struct qw_mtp *y, bool fused)
{
    const struct qw_layer *l = &y->layer;
    CHECK(l->full && l->conv == NULL && l->a == NULL);
    if (fused)
        MAT(g, &l->in, BLOCK, "attn_qkv.weight");
    else
        MAT(g, &l->in, BLOCK, "attn_q.weight", "attn_k.weight", "attn_v.weight");
    CHECK(l->in.col[1] == 512 && l->in.col[2] == 640, "%d, %d", l->in.col[1],
          l->in.col[2]);
    MAT(g, &l->out, BLOCK, "attn_output.weight");
    MAT(g, &l->gate_up, BLOCK, "ffn_gate.weight", "ffn_up.weight");
    MAT(g, &l->down, BLOCK, "ffn_down.weight");
    MAT(g, &y->eh_proj, BLOCK, QW_MTP_EH_PROJ);
    check_vector(g, l->attn_norm, BLOCK, "attn_norm.weight");
    check_vector(g, l->post_norm, BLOCK, "post_attention_norm.weight");
    check_vector(g, l->q_norm, BLOCK, "attn_q_norm.weight");
    check_vector(g, l->k_norm, BLOCK, "attn_k_norm.weight");
    check_vector(g, y->enorm, BLOCK, QW_MTP_ENORM);
    check_vector(g, y->hnorm, BLOCK, QW_MTP_HNORM);
    CHECK((y->head_norm != NULL) == (qw_tensor(g, BLOCK, QW_MTP_HEAD_NORM) != NULL));
    CHECK((y->embed.n_parts > 0) == (qw_tensor(g, BLOCK, QW_MTP_EMBED) != NULL));
    CHECK((y->head.n_parts > 0) == (qw_tensor(g, BLOCK, QW_MTP_HEAD) != NULL));
    if (y->head_norm != NULL)
        check_vector(g, y->head_norm, BLOCK, QW_MTP_HEAD_NORM);
    if (y->embed.n_parts > 0)
        MAT(g, &y->embed, BLOCK, QW_MTP_EMBED);
    if (y->head.n_parts > 0)
        MAT(g, &y->head, BLOCK, QW_MTP_HEAD);
}

/* Load a target with its MTP block and without; returns the bytes of the block. */
static uint64_t run_mtp(const char *path, bool fused)
{
    struct qw_dev *dev = net_dev();
    const uint64_t used = dev->used;
    uint64_t bytes[2];
    for (int mtp = 0; mtp < 2; mtp++) {
        struct qw_gguf *g;
        struct qw_model *m;
        OK(qw_gguf_open(&g, path, &err));
        OK(qw_model_plan(&m, g, dev->max_alloc, mtp != 0, &err));
        OK(qw_model_load(m, &(struct qw_kern){.dev = dev}, NULL, false, &err));
        CHECK(m->hp.mtp && m->hp.mtp_why[0] == '\0' && m->hp.n_layer == BLOCK);
        CHECK((m->mtp != NULL) == (mtp != 0));
        CHECK(dev->used == used + m->bytes, "%llu bytes, planned %llu",
              (unsigned long long)(dev->used - used), (unsigned long long)m->bytes);
        if (m->mtp != NULL)
            check_mtp(g, m->mtp, fused);
        bytes[mtp] = m->bytes;
        qw_model_close(m);
        qw_gguf_close(g);
        CHECK(dev->used == used, "buffers are left");
    }
    return bytes[1] - bytes[0];
}

static void write_and_free(struct net_image *m, const char *path)
{
    net_image_write(m, path, 32);
    net_image_free(m);
}

static struct net_tensor *block_find(struct net_image *m, const char *suffix)
{
    char *name = qw_sprintf("blk.%d.%s", BLOCK, suffix);
    struct net_tensor *t = net_image_find(m, name);
    free(name);
    return t;
}

static struct net_tensor *block_add(struct net_image *m, const char *suffix, int ne0,
                                    int ne1)
{
    char *name = qw_sprintf("blk.%d.%s", BLOCK, suffix);
    struct net_tensor *t =
        net_image_add(m, name, ne1 == 1 ? QW_F32 : QW_Q8_0, (uint64_t)ne0, (uint64_t)ne1);
    free(name);
    return t;
}

static void mtp_whole(void)
{
    struct net_image m;
    char *path = net_temp("mtp.gguf");
    const uint64_t bytes = run_mtp(target_path, false);
    net_image_read(&m, target_path);
    net_image_drop(&m, "blk.8." QW_MTP_HEAD_NORM);
    write_and_free(&m, path);
    CHECK(run_mtp(path, false) == bytes - 4 * EMBD);
    net_image_read(&m, target_path);
    memset(block_add(&m, QW_MTP_HEAD, EMBD, VOCAB)->data, 0x11, 1000);
    memset(block_add(&m, QW_MTP_EMBED, EMBD, VOCAB)->data, 0x12, 1000);
    write_and_free(&m, path);
    CHECK(run_mtp(path, false) > bytes);
    net_image_read(&m, target_path);
    net_image_drop(&m, "blk.8.attn_q.weight");
    net_image_drop(&m, "blk.8.attn_k.weight");
    net_image_drop(&m, "blk.8.attn_v.weight");
    memset(block_add(&m, "attn_qkv.weight", EMBD, 768)->data, 0x13, 1000);
    write_and_free(&m, path);
    CHECK(run_mtp(path, true) == bytes);
    free(path);
}

/* Runs without MTP; with it, the reason is given. */
static void check_unusable(const char *path, const char *why)
{
    struct qw_gguf *g;
    struct qw_model *m = NULL;
    OK(qw_gguf_open(&g, path, &err));
    OK(qw_model_plan(&m, g, 1 << 20, false, &err));
    CHECK(!m->hp.mtp && m->hp.n_layer == BLOCK && m->mtp == NULL);
    CHECK(strncmp(m->hp.mtp_why, why, strlen(why)) == 0, "'%s', want '%s'", m->hp.mtp_why,
          why);
    qw_model_close(m);
    m = NULL;
    CHECK(qw_model_plan(&m, g, 1 << 20, true, &refusal) == QW_EFILE && m == NULL);
    CHECK(strstr(refusal.msg, path) && strstr(refusal.msg, why), "'%s' lacks '%s'",
          refusal.msg, why);
    qw_gguf_close(g);
}

static const char *const required[] = {
    QW_MTP_EH_PROJ,       QW_MTP_ENORM,
    QW_MTP_HNORM,         "attn_norm.weight",
    "ffn_gate.weight",    "ffn_up.weight",
    "ffn_down.weight",    "attn_q.weight",
    "attn_k.weight",      "attn_v.weight",
    "attn_output.weight", "attn_q_norm.weight",
    "attn_k_norm.weight", "post_attention_norm.weight"};
enum { N_REQUIRED = sizeof(required) / sizeof(required[0]) };

static void mtp_missing(void)
{
    char *path = net_temp("mtp.gguf");
    for (int i = 0; i < N_REQUIRED; i++) {
        struct net_image m;
        char *why = qw_sprintf("tensor 'blk.8.%s' is missing", required[i]);
        net_image_read(&m, target_path);
        net_image_drop(&m, block_find(&m, required[i])->name);
        write_and_free(&m, path);
        check_unusable(path, why);
        free(why);
    }
    free(path);
}

static void mtp_misshapen(void)
{
    static const char *const optional[] = {QW_MTP_HEAD_NORM, QW_MTP_HEAD, QW_MTP_EMBED};
    char *path = net_temp("mtp.gguf");
    for (int i = 0; i < N_REQUIRED + 3; i++) {
        struct net_image m;
        const char *suffix = i < N_REQUIRED ? required[i] : optional[i - N_REQUIRED];
        char *why = qw_sprintf("tensor 'blk.8.%s': its shape is {", suffix);
        net_image_read(&m, target_path);
        if (i > N_REQUIRED)
            block_add(&m, suffix, EMBD, VOCAB + 4);
        struct net_tensor *t = block_find(&m, suffix);
        t->ne[0] = t->ne[0] / 64 * 32; /* half of the rows' length; all bytes stay */
        t->size /= 2;
        write_and_free(&m, path);
        check_unusable(path, why);
        free(why);
    }
    free(path);
}

static void set_u32(struct net_image *m, const char *name, uint32_t v)
{
    char *at = memmem(m->head.keys.data, m->head.keys.len, name, strlen(name));
    MUST(at != NULL, "%s", name);
    memcpy(at + strlen(name) + 4, &v, sizeof(v)); /* behind the type */
}

/* Declared without tensors, and tensors that nothing declares. */
static void mtp_half(void)
{
    struct net_image m;
    char *path = net_temp("mtp.gguf");
    net_image_read(&m, target_path);
    for (int i = 0; i < N_REQUIRED; i++)
        net_image_drop(&m, block_find(&m, required[i])->name);
    net_image_drop(&m, "blk.8." QW_MTP_HEAD_NORM);
    write_and_free(&m, path);
    check_unusable(path, "tensor 'blk.8." QW_MTP_EH_PROJ "' is missing");
    net_image_read(&m, target_path);
    set_u32(&m, "qwen35.nextn_predict_layers", 0);
    set_u32(&m, "qwen35.block_count", BLOCK);
    write_and_free(&m, path);
    check_unusable(path, "key 'qwen35.nextn_predict_layers' declares no MTP block");
    free(path);
}

static void done(void)
{
    free(target_path);
    free(draft_path);
}

QW_TESTS(T(shipped_draft), T(small_device), T(make_oracle), T(oracle_draft), T(mtp_whole),
         T(mtp_missing), T(mtp_misshapen), T(mtp_half), T(done))
