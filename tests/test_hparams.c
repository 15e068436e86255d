/* SPDX-License-Identifier: MIT */
/* test_hparams.c - the shipped models load; each wrong number or tensor is refused by
 * name. */
#include "hparams.h"

#include "ggufw.h"

#define A "qwen35."

static char dir[4096], file[4200], log_file[4200];
static struct qw_err err;

/* What to change in the good model below. */
struct edit {
    const char *drop; /* key or tensor left out, NULL for none */
    enum { NOTHING, AS_U32, AS_I32, AS_F32, AS_STR, AS_INTS, AS_BOOLS, AS_TENSOR } add;
    const char *name; /* of what is added; NULL: the one dropped */
    double number;    /* value, or tensor type */
    const char *text; /* value of a string */
    uint64_t n[8];    /* shape, or how many entries and then their values */
    const char *why;  /* part of the message; NULL where it must load */
};

static const struct edit *now;
static struct ggufw w;

static bool dropped(const char *name)
{
    return now->drop != NULL && strcmp(now->drop, name) == 0;
}

static void u32(const char *name, uint32_t v)
{
    if (!dropped(name))
        gw_key_u32(&w, name, v);
}

static void f32(const char *name, float v)
{
    if (!dropped(name))
        gw_key_f32(&w, name, v);
}

static void tensor(const char *name, uint32_t type, uint64_t ne0, uint64_t ne1)
{
    if (!dropped(name))
        gw_tensor(&w, name, type, ne0, ne1);
}

static void block_tensor(int layer, const char *suffix, uint32_t type, uint64_t ne0,
                         uint64_t ne1)
{
    char name[64];
    snprintf(name, sizeof(name), "blk.%d.%s", layer, suffix);
    tensor(name, type, ne0, ne1);
}

enum {
    E = 64,
    FF = 96,
    VOCAB = 10,
    LAYERS = 4,
    HD = 32,
    HEADS = 4,
    KV = 2,
    DK = 32,
    NK = 1,
    NV = 2
};

static void put_keys(void)
{
    static const int32_t sections[] = {2, 1, 1, 0};
    if (!dropped("general.architecture"))
        gw_key_str(&w, "general.architecture", "qwen35");
    u32(A "block_count", LAYERS);
    u32(A "context_length", 128);
    u32(A "embedding_length", E);
    u32(A "feed_forward_length", FF);
    u32(A "attention.head_count", HEADS);
    u32(A "attention.head_count_kv", KV);
    u32(A "attention.key_length", HD);
    u32(A "attention.value_length", HD);
    u32(A "rope.dimension_count", 8);
    if (!dropped(A "rope.dimension_sections"))
        gw_key_arr(&w, A "rope.dimension_sections", QW_GGUF_I32, 4, sections,
                   sizeof(sections));
    f32(A "rope.freq_base", 1e7f);
    f32(A "attention.layer_norm_rms_epsilon", 1e-6f);
    u32(A "ssm.conv_kernel", 4);
    u32(A "ssm.state_size", DK);
    u32(A "ssm.group_count", NK);
    u32(A "ssm.time_step_rank", NV);
    u32(A "ssm.inner_size", NV * DK);
}

static void put_attention(int i)
{
    block_tensor(i, "attn_q.weight", QW_Q8_0, E, 2 * HEADS * HD);
    block_tensor(i, "attn_k.weight", QW_Q4_1, E, KV * HD);
    block_tensor(i, "attn_v.weight", QW_F16, E, KV * HD);
    block_tensor(i, "attn_output.weight", QW_Q5_0, HEADS * HD, E);
    block_tensor(i, "attn_q_norm.weight", QW_BF16, HD, 1);
    block_tensor(i, "attn_k_norm.weight", QW_F16, HD, 1);
}

static void put_gdn(int i)
{
    block_tensor(i, "attn_qkv.weight", QW_Q4_0, E, (2 * NK + NV) * DK);
    block_tensor(i, "attn_gate.weight", QW_Q4_0, E, NV * DK);
    block_tensor(i, "ssm_alpha.weight", QW_BF16, E, NV);
    block_tensor(i, "ssm_beta.weight", QW_F32, E, NV);
    block_tensor(i, "ssm_conv1d.weight", QW_F32, 4, (2 * NK + NV) * DK);
    block_tensor(i, "ssm_dt.bias", QW_F32, NV, 1);
    block_tensor(i, "ssm_a", QW_F32, NV, 1);
    block_tensor(i, "ssm_norm.weight", QW_F32, DK, 1);
    block_tensor(i, "ssm_out.weight", QW_Q5_1, NV * DK, E);
}

static void put_tensors(void)
{
    tensor("token_embd.weight", QW_Q4_0, E, VOCAB);
    tensor("output_norm.weight", QW_F32, E, 1);
    tensor("output.weight", QW_Q8_0, E, VOCAB);
    for (int i = 0; i < LAYERS; i++) {
        block_tensor(i, "attn_norm.weight", QW_F32, E, 1);
        block_tensor(i, "post_attention_norm.weight", QW_F32, E, 1);
        block_tensor(i, "ffn_gate.weight", QW_Q4_0, E, FF);
        block_tensor(i, "ffn_up.weight", QW_Q4_0, E, FF);
        block_tensor(i, "ffn_down.weight", QW_Q4_1, FF, E);
        if (i % 4 == 3)
            put_attention(i);
        else
            put_gdn(i);
    }
}

static void put_edit(const struct edit *e)
{
    const char *name = e->name ? e->name : e->drop;
    int32_t ints[8] = {0}, number = e->add == AS_I32 ? (int32_t)e->number : 0;
    uint8_t bools[8] = {0};
    for (int i = 0; i < 7; i++) {
        ints[i] = (int32_t)e->n[i + 1];
        bools[i] = (uint8_t)e->n[i + 1];
    }
    if (e->add == AS_U32)
        gw_key_u32(&w, name, (uint32_t)e->number);
    else if (e->add == AS_I32)
        gw_key(&w, name, QW_GGUF_I32, &number, sizeof(number));
    else if (e->add == AS_F32)
        gw_key_f32(&w, name, (float)e->number);
    else if (e->add == AS_STR)
        gw_key_str(&w, name, e->text);
    else if (e->add == AS_INTS)
        gw_key_arr(&w, name, QW_GGUF_I32, e->n[0], ints, e->n[0] * 4);
    else if (e->add == AS_BOOLS)
        gw_key_arr(&w, name, QW_GGUF_BOOL, e->n[0], bools, e->n[0]);
    else if (e->add == AS_TENSOR)
        gw_tensor(&w, name, (uint32_t)e->number, e->n[0], e->n[1]);
}

/* Build the model with n edits (all droppings are those of the first), read it, give the
 * code. */
static int read_edited(const struct edit *e, int n, struct qw_hparams *hp)
{
    struct qw_gguf *g = NULL;
    now = e;
    gw_init(&w);
    put_keys();
    put_tensors();
    for (int i = 0; i < n; i++)
        put_edit(&e[i]);
    gw_write(&w, file, 0);
    gw_free(&w);
    err.msg[0] = '\0';
    int rc = qw_gguf_open(&g, file, &err);
    MUST(rc == QW_OK, "%s", err.msg);
    rc = qw_hparams_read(g, hp, &err);
    qw_gguf_close(g);
    return rc;
}

static void check_rows(const struct edit *rows, size_t n)
{
    struct qw_hparams hp;
    for (size_t i = 0; i < n; i++) {
        const char *name = rows[i].name ? rows[i].name : rows[i].drop;
        int rc = read_edited(&rows[i], 1, &hp);
        CHECK((rc == QW_OK) == (rows[i].why == NULL), "row %zu, %s: code %d: %s", i,
              name ? name : "none", rc, err.msg);
        if (rc != QW_OK && rows[i].why != NULL)
            CHECK(strstr(err.msg, rows[i].why) && strstr(err.msg, file),
                  "row %zu: '%s' lacks '%s'", i, err.msg, rows[i].why);
    }
}
#define CHECK_ROWS(rows) check_rows(rows, sizeof(rows) / sizeof((rows)[0]))

/* ---- what loads ---- */

static void test_good(void)
{
    static const struct edit none;
    struct qw_hparams hp = {0};
    MUST(read_edited(&none, 0, &hp) == QW_OK, "%s", err.msg);
    CHECK(hp.n_layer == 4 && hp.n_nextn == 0 && hp.n_embd == E && hp.n_ff == FF);
    CHECK(hp.n_head == HEADS && hp.n_head_kv == KV && hp.head_dim == HD && hp.n_rot == 8);
    CHECK(hp.n_ctx_train == 128 && hp.n_vocab == VOCAB && !hp.tied);
    CHECK(hp.ssm_conv == 4 && hp.ssm_dk == DK && hp.ssm_nk == NK && hp.ssm_nv == NV);
    CHECK(hp.eps == 1e-6f && hp.rope_base == 1e7f);
    CHECK(!hp.full[0] && !hp.full[2] && hp.full[3] && !hp.full[4]);
}

static void check_shipped(const char *name)
{
    struct qw_gguf *g = NULL;
    struct qw_hparams hp;
    char path[4200];
    const char *top = getenv("srcdir");
    snprintf(path, sizeof(path), "%s/models/tiny/%s", top ? top : ".", name);
    MUST(qw_gguf_open(&g, path, &err) == QW_OK, "%s", err.msg);
    CHECK(qw_hparams_read(g, &hp, &err) == QW_OK, "%s", err.msg);
    CHECK(hp.n_layer == 8 && hp.n_embd == 256 && hp.n_ff == 512 && hp.n_vocab == 4096);
    CHECK(hp.n_head == 6 && hp.n_head_kv == 1 && hp.head_dim == 256 && hp.n_rot == 64);
    CHECK(hp.full[3] && hp.full[7] && !hp.full[6] && !hp.tied);
    CHECK(hp.ssm_nk == 2 && hp.ssm_nv == 6 && hp.ssm_dk == 128);
    const struct qw_gguf_tensor *t = qw_tensor(g, 7, "attn_q.weight");
    CHECK(t && t->ne[0] == 256 && t->ne[1] == 3072);
    CHECK(qw_tensor(g, -1, "output.weight") && !qw_tensor(g, 8, "attn_q.weight"));
    qw_gguf_close(g);
}

static void test_shipped(void)
{
    struct qw_gguf *g = NULL;
    struct qw_hparams hp;
    char path[4200];
    const char *top = getenv("srcdir");
    check_shipped("tiny-qwen35-q4_0.gguf");
    check_shipped("tiny-qwen35-q8_0.gguf");
    snprintf(path, sizeof(path), "%s/models/tiny/tiny-qwen35-dflash-q8_0.gguf",
             top ? top : ".");
    MUST(qw_gguf_open(&g, path, &err) == QW_OK, "%s", err.msg);
    CHECK(qw_hparams_read(g, &hp, &err) == QW_EFILE);
    CHECK(strstr(err.msg, "drafter") && strstr(err.msg, "qwen35"), "%s", err.msg);
    qw_gguf_close(g);
}

/* Other spellings of the same model. */
static void test_accepted(void)
{
    static const struct edit rows[] = {
        {A "block_count", AS_I32, NULL, LAYERS, NULL, {0}, NULL},
        {NULL, AS_U32, A "nextn_predict_layers", 0, NULL, {0}, NULL},
        {NULL, AS_U32, A "vocab_size", VOCAB, NULL, {0}, NULL},
        {NULL, AS_U32, A "full_attention_interval", 4, NULL, {0}, NULL},
        {NULL, AS_STR, A "rope.scaling.type", 0, "none", {0}, NULL},
        {NULL, AS_STR, A "rope.scaling.type", 0, "linear", {0}, NULL},
        {NULL, AS_F32, A "rope.scaling.factor", 1, NULL, {0}, NULL},
        {A "attention.head_count_kv", AS_INTS, NULL, 0, NULL, {4, 0, 0, 0, KV}, NULL},
        {A "attention.head_count", AS_INTS, NULL, 0, NULL, {5, 9, 8, 7, HEADS, 1}, NULL},
        {A "feed_forward_length", AS_INTS, NULL, 0, NULL, {4, FF, FF, FF, FF}, NULL},
        {A "rope.dimension_sections", AS_INTS, NULL, 0, NULL, {2, 2, 2}, NULL},
        {NULL,
         AS_BOOLS,
         A "attention.recurrent_layers",
         0,
         NULL,
         {5, 1, 1, 1, 0, 0},
         NULL},
        {NULL, AS_TENSOR, "v.patch.weight", QW_F32, NULL, {3, 3}, NULL},
        {NULL, AS_TENSOR, "blk.9.odd", 20, NULL, {32, 1}, NULL},
        {"output_norm.weight", AS_TENSOR, NULL, QW_F16, NULL, {E, 1}, NULL},
        {"blk.0.ssm_a", AS_TENSOR, NULL, QW_BF16, NULL, {NV, 1}, NULL},
    };
    CHECK_ROWS(rows);
}

static void test_tied(void)
{
    static const struct edit e = {"output.weight", NOTHING, NULL, 0, NULL, {0}, NULL};
    struct qw_hparams hp;
    CHECK(read_edited(&e, 1, &hp) == QW_OK && hp.tied, "%s", err.msg);
}

/* attn_qkv in place of three tensors, and beside them. */
static void test_fused(void)
{
    static const struct edit both = {
        NULL, AS_TENSOR, "blk.3.attn_qkv.weight", QW_Q4_0, NULL, {E, 3 * 128}, NULL};
    struct qw_hparams hp;
    CHECK(read_edited(&both, 1, &hp) == QW_EFILE);
    CHECK(strstr(err.msg, "'blk.3.attn_q.weight' is there beside"), "%s", err.msg);

    struct qw_gguf *g = NULL;
    now = &both;
    gw_init(&w);
    put_keys();
    tensor("token_embd.weight", QW_Q4_0, E, VOCAB);
    tensor("output_norm.weight", QW_F32, E, 1);
    for (int i = 0; i < LAYERS; i++) {
        block_tensor(i, "attn_norm.weight", QW_F32, E, 1);
        block_tensor(i, "post_attention_norm.weight", QW_F32, E, 1);
        block_tensor(i, "ffn_gate.weight", QW_Q4_0, E, FF);
        block_tensor(i, "ffn_up.weight", QW_Q4_0, E, FF);
        block_tensor(i, "ffn_down.weight", QW_Q4_1, FF, E);
        if (i < 3) {
            put_gdn(i);
            continue;
        }
        block_tensor(i, "attn_qkv.weight", QW_Q8_0, E, 2 * (HEADS + KV) * HD);
        block_tensor(i, "attn_output.weight", QW_Q8_0, HEADS * HD, E);
        block_tensor(i, "attn_q_norm.weight", QW_F32, HD, 1);
        block_tensor(i, "attn_k_norm.weight", QW_F32, HD, 1);
    }
    gw_write(&w, file, 0);
    gw_free(&w);
    MUST(qw_gguf_open(&g, file, &err) == QW_OK, "%s", err.msg);
    CHECK(qw_hparams_read(g, &hp, &err) == QW_OK, "%s", err.msg);
    qw_gguf_close(g);
}

/* ---- MTP: declared or not, present or not ---- */

static size_t log_lines(char *text, size_t size)
{
    FILE *f = fopen(log_file, "r");
    size_t n = 0, lines = 0;
    if (f != NULL) {
        n = fread(text, 1, size - 1, f);
        fclose(f);
    }
    text[n] = '\0';
    for (size_t i = 0; i < n; i++)
        lines += text[i] == '\n';
    return lines;
}

static void test_mtp(void)
{
    static const struct edit rows[][2] = {
        {{A "block_count", AS_U32, NULL, LAYERS + 1, NULL, {0}, NULL},
         {NULL, AS_U32, A "nextn_predict_layers", 1, NULL, {0}, NULL}},
        {{NULL, AS_TENSOR, "blk.4.nextn.eh_proj.weight", QW_Q8_0, NULL, {2 * E, E}, NULL},
         {NULL, AS_TENSOR, "blk.4.nextn.enorm.weight", QW_F32, NULL, {E, 1}, NULL}},
    };
    struct qw_hparams hp;
    char text[4096];
    MUST(qw_log_open(QW_INFO, log_file, &err) == QW_OK, "%s", err.msg);
    CHECK(read_edited(rows[0], 2, &hp) == QW_OK, "%s", err.msg);
    CHECK(hp.n_layer == LAYERS && hp.n_nextn == 1);
    CHECK(log_lines(text, sizeof(text)) == 1 &&
              strstr(text, "declared, its tensors are absent"),
          "%s", text);
    CHECK(read_edited(rows[1], 2, &hp) == QW_OK, "%s", err.msg);
    CHECK(hp.n_layer == LAYERS && hp.n_nextn == 0);
    CHECK(log_lines(text, sizeof(text)) == 2 && strstr(text, "not declared"), "%s", text);
    const struct edit all[3] = {rows[0][0], rows[0][1], rows[1][0]};
    CHECK(read_edited(all, 3, &hp) == QW_OK && hp.n_layer == LAYERS, "%s", err.msg);
    CHECK(log_lines(text, sizeof(text)) == 3, "%s", text);
}

/* ---- what is refused ---- */

static void test_missing(void)
{
    static const char *const names[] = {
        "general.architecture",
        A "block_count",
        A "context_length",
        A "embedding_length",
        A "feed_forward_length",
        A "attention.head_count",
        A "attention.head_count_kv",
        A "attention.key_length",
        A "attention.value_length",
        A "rope.dimension_count",
        A "rope.dimension_sections",
        A "rope.freq_base",
        A "attention.layer_norm_rms_epsilon",
        A "ssm.conv_kernel",
        A "ssm.state_size",
        A "ssm.group_count",
        A "ssm.time_step_rank",
        A "ssm.inner_size",
        "token_embd.weight",
        "output_norm.weight",
        "blk.0.attn_norm.weight",
        "blk.2.post_attention_norm.weight",
        "blk.1.ffn_gate.weight",
        "blk.3.ffn_up.weight",
        "blk.3.ffn_down.weight",
        "blk.3.attn_q.weight",
        "blk.3.attn_k.weight",
        "blk.3.attn_v.weight",
        "blk.3.attn_output.weight",
        "blk.3.attn_q_norm.weight",
        "blk.3.attn_k_norm.weight",
        "blk.0.attn_qkv.weight",
        "blk.1.attn_gate.weight",
        "blk.2.ssm_alpha.weight",
        "blk.0.ssm_beta.weight",
        "blk.1.ssm_conv1d.weight",
        "blk.2.ssm_dt.bias",
        "blk.0.ssm_a",
        "blk.1.ssm_norm.weight",
        "blk.2.ssm_out.weight",
    };
    struct qw_hparams hp;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct edit e = {names[i], NOTHING, NULL, 0, NULL, {0}, NULL};
        char want[128];
        snprintf(want, sizeof(want), "'%s' is missing", names[i]);
        CHECK(read_edited(&e, 1, &hp) == QW_EFILE, "%s", names[i]);
        CHECK(strstr(err.msg, want) != NULL, "%s: %s", names[i], err.msg);
    }
}

static void test_bad_layers(void)
{
    static const struct edit rows[] = {
        {"general.architecture", AS_STR, NULL, 0, "qwen35moe", {0}, "'qwen35moe' is not"},
        {"general.architecture", AS_STR, NULL, 0, "a\033[0m", {0}, "a\\x1b[0m"},
        {"general.architecture",
         AS_U32,
         NULL,
         35,
         NULL,
         {0},
         "has type u32, must be string"},
        {A "block_count", AS_U32, NULL, 0, NULL, {0}, "0 is out of range"},
        {A "block_count", AS_U32, NULL, 513, NULL, {0}, "513 is out of range"},
        {A "block_count",
         AS_U32,
         NULL,
         4294967295.0,
         NULL,
         {0},
         "4294967295 is out of range"},
        {A "block_count", AS_I32, NULL, -1, NULL, {0}, "-1 is out of range"},
        {A "block_count", AS_F32, NULL, 4, NULL, {0}, "has type f32, must be an integer"},
        {A "block_count",
         AS_U32,
         NULL,
         5,
         NULL,
         {0},
         "'blk.4.attn_norm.weight' is missing"},
        {NULL,
         AS_U32,
         A "nextn_predict_layers",
         2,
         NULL,
         {0},
         "nextn_predict_layers': 2"},
        {NULL,
         AS_U32,
         A "nextn_predict_layers",
         4,
         NULL,
         {0},
         "nextn_predict_layers': 4"},
        {NULL, AS_U32, A "full_attention_interval", 0, NULL, {0}, "interval': 0 is out"},
        {NULL, AS_U32, A "full_attention_interval", 9, NULL, {0}, "both kinds"},
        {NULL, AS_U32, A "full_attention_interval", 1, NULL, {0}, "both kinds"},
        {NULL,
         AS_BOOLS,
         A "attention.recurrent_layers",
         0,
         NULL,
         {3, 1, 1, 1},
         "3 entries"},
        {NULL,
         AS_INTS,
         A "attention.recurrent_layers",
         0,
         NULL,
         {4, 1, 1, 1, 0},
         "has type array of i32, must be array of bool"},
        {NULL,
         AS_BOOLS,
         A "attention.recurrent_layers",
         0,
         NULL,
         {4, 1, 1, 0, 1},
         "'blk.2.attn_q"},
    };
    CHECK_ROWS(rows);
}

static void test_bad_sizes(void)
{
    static const struct edit rows[] = {
        {A "context_length", AS_U32, NULL, 0, NULL, {0}, "context_length': 0"},
        {A "embedding_length", AS_U32, NULL, 65537, NULL, {0}, "65537 is out of range"},
        {A "embedding_length", AS_U32, NULL, 96, NULL, {0}, "shape is {64, 10, 1, 1}"},
        {A "feed_forward_length", AS_U32, NULL, 4294967295.0, NULL, {0}, "out of range"},
        {A "feed_forward_length",
         AS_INTS,
         NULL,
         0,
         NULL,
         {4, FF, FF, 64, FF},
         "in layer 2"},
        {A "feed_forward_length",
         AS_INTS,
         NULL,
         0,
         NULL,
         {3, FF, FF, FF},
         "3 entries for 4"},
        {A "feed_forward_length",
         AS_BOOLS,
         NULL,
         0,
         NULL,
         {4, 1, 1, 1, 1},
         "array of bool"},
        {A "attention.head_count", AS_U32, NULL, 1025, NULL, {0}, "1025 is out of range"},
        {A "attention.head_count", AS_U32, NULL, 5, NULL, {0}, "does not divide the 5"},
        {A "attention.head_count_kv", AS_U32, NULL, 0, NULL, {0}, "0 is out of range"},
        {A "attention.head_count_kv",
         AS_INTS,
         NULL,
         0,
         NULL,
         {4, 2, 2, 2, 0},
         "entry 3: 0"},
        {A "attention.head_count_kv",
         AS_U32,
         NULL,
         3,
         NULL,
         {0},
         "3 does not divide the 4"},
        {A "attention.key_length", AS_U32, NULL, 64, NULL, {0}, "32 differs from"},
        {A "attention.value_length", AS_STR, NULL, 0, "x", {0}, "has type string"},
        {A "ssm.conv_kernel", AS_U32, NULL, 1, NULL, {0}, "1 is out of range"},
        {A "ssm.conv_kernel", AS_U32, NULL, 17, NULL, {0}, "17 is out of range"},
        {A "ssm.group_count", AS_U32, NULL, 3, NULL, {0}, "3 does not divide the 2"},
        {A "ssm.inner_size", AS_U32, NULL, 65, NULL, {0}, "= 2 x 32"},
        {A "ssm.state_size", AS_U32, NULL, 64, NULL, {0}, "ssm.inner_size': 64"},
        {NULL, AS_U32, A "vocab_size", 11, NULL, {0}, "vocab_size': 11"},
        {NULL,
         AS_INTS,
         "tokenizer.ggml.tokens",
         0,
         NULL,
         {3, 1, 2, 3},
         "array of i32, must"},
    };
    CHECK_ROWS(rows);
}

static void test_bad_rope(void)
{
    static const struct edit rows[] = {
        {A "rope.dimension_count", AS_U32, NULL, 7, NULL, {0}, "dimension_count': 7"},
        {A "rope.dimension_count", AS_U32, NULL, 34, NULL, {0}, "dimension_count': 34"},
        {A "rope.dimension_sections",
         AS_INTS,
         NULL,
         0,
         NULL,
         {4, 1, 1, 1, 1},
         "entry 3: 1"},
        {A "rope.dimension_sections", AS_INTS, NULL, 0, NULL, {3, 5, 0, 0}, "sum is 5"},
        {A "rope.dimension_sections", AS_INTS, NULL, 0, NULL, {2, 5, -1}, "entry 1: -1"},
        {A "rope.dimension_sections",
         AS_INTS,
         NULL,
         0,
         NULL,
         {5, 4, 0, 0, 0, 0},
         "5 entries"},
        {A "rope.dimension_sections", AS_INTS, NULL, 0, NULL, {0}, "0 entries"},
        {A "rope.dimension_sections", AS_U32, NULL, 4, NULL, {0}, "has type u32"},
        {A "rope.freq_base", AS_F32, NULL, 0, NULL, {0}, "freq_base': 0"},
        {A "rope.freq_base", AS_F32, NULL, 1e39, NULL, {0}, "freq_base': inf"},
        {A "rope.freq_base", AS_U32, NULL, 5, NULL, {0}, "must be f32 or f64"},
        {A "attention.layer_norm_rms_epsilon", AS_F32, NULL, 1, NULL, {0}, "epsilon': 1"},
        {A "attention.layer_norm_rms_epsilon",
         AS_F32,
         NULL,
         -1e-6,
         NULL,
         {0},
         "epsilon': -1"},
        {NULL, AS_STR, A "rope.scaling.type", 0, "yarn", {0}, "'yarn' is not supported"},
        {NULL,
         AS_U32,
         A "rope.scaling.type",
         1,
         NULL,
         {0},
         "has type u32, must be string"},
        {NULL, AS_F32, A "rope.scaling.factor", 4, NULL, {0}, "factor': 4 is not"},
        {NULL, AS_F32, A "rope.scale_linear", 2, NULL, {0}, "scale_linear': 2 is not"},
    };
    CHECK_ROWS(rows);
}

static void test_bad_tensors(void)
{
    static const struct edit rows[] = {
        {"token_embd.weight",
         AS_TENSOR,
         NULL,
         QW_Q4_0,
         NULL,
         {32, VOCAB},
         "must be {64, 10}"},
        {"output.weight",
         AS_TENSOR,
         NULL,
         QW_Q4_0,
         NULL,
         {E, 9},
         "shape is {64, 9, 1, 1}"},
        {"output_norm.weight",
         AS_TENSOR,
         NULL,
         QW_Q8_0,
         NULL,
         {E, 1},
         "F32, F16 or BF16"},
        {"blk.0.ffn_up.weight",
         AS_TENSOR,
         NULL,
         QW_Q4_0,
         NULL,
         {FF, E},
         "'blk.0.ffn_up.weight'"},
        {"blk.0.ffn_up.weight", AS_TENSOR, NULL, 20, NULL, {E, FF}, "type IQ4_NL (20)"},
        {"blk.1.ssm_conv1d.weight",
         AS_TENSOR,
         NULL,
         QW_F32,
         NULL,
         {128, 4},
         "must be {4, 128}"},
        {"blk.1.ssm_out.weight", AS_TENSOR, NULL, 24, NULL, {64, E}, "type I8 (24)"},
        {NULL, AS_TENSOR, "blk.0.ffn_up.scale", QW_F32, NULL, {1, 1}, "NVFP4"},
        {NULL, AS_TENSOR, "blk.0.ffn_up.input_scale", QW_F32, NULL, {1, 1}, "NVFP4"},
    };
    CHECK_ROWS(rows);
}

/* What the rows above cannot say: a third dimension, a list of tokens of the wrong
 * length. */
static void test_bad_others(void)
{
    static const struct edit drop = {"blk.0.ssm_a", NOTHING, NULL, 0, NULL, {0}, NULL};
    static const uint64_t ne[] = {NV, 1, 2};
    struct qw_gguf *g = NULL;
    struct qw_hparams hp;
    for (int tokens = 0; tokens < 2; tokens++) {
        now = &drop;
        gw_init(&w);
        put_keys();
        if (tokens)
            gw_key_arr(&w, "tokenizer.ggml.tokens", QW_GGUF_STR, 2,
                       "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16);
        put_tensors();
        gw_tensor_at(&w, "blk.0.ssm_a", QW_F32, 3, ne, w.offset);
        w.offset += 32;
        gw_write(&w, file, 0);
        gw_free(&w);
        MUST(qw_gguf_open(&g, file, &err) == QW_OK, "%s", err.msg);
        CHECK(qw_hparams_read(g, &hp, &err) == QW_EFILE);
        const char *why = tokens ? "2 tokens, but" : "{2, 1, 2, 1}, must be {2, 1}";
        CHECK(strstr(err.msg, why) != NULL, "'%s' lacks '%s'", err.msg, why);
        qw_gguf_close(g);
    }
}

/* Sound files whose sizes the kernels do not take: every tensor fits, so the size itself
 * is named. */
static void check_limit(int head_dim, int dk, int ff, const char *why)
{
    struct qw_gguf *g = NULL;
    struct qw_hparams hp;
    static const struct edit none;
    static const int32_t sections[] = {4};
    now = &none;
    gw_init(&w);
    gw_key_str(&w, "general.architecture", "qwen35");
    static const char *const names[] = {A "block_count",
                                        A "context_length",
                                        A "embedding_length",
                                        A "feed_forward_length",
                                        A "attention.head_count",
                                        A "attention.head_count_kv",
                                        A "attention.key_length",
                                        A "attention.value_length",
                                        A "rope.dimension_count",
                                        A "ssm.conv_kernel",
                                        A "ssm.state_size",
                                        A "ssm.group_count",
                                        A "ssm.time_step_rank",
                                        A "ssm.inner_size",
                                        A "full_attention_interval"};
    const int values[] = {2, 8, 32, ff, 1, 1, head_dim, head_dim, 8, 4, dk, 1, 1, dk, 2};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        u32(names[i], (uint32_t)values[i]);
    gw_key_arr(&w, A "rope.dimension_sections", QW_GGUF_I32, 1, sections, 4);
    f32(A "rope.freq_base", 1e4f);
    f32(A "attention.layer_norm_rms_epsilon", 1e-6f);
    tensor("token_embd.weight", QW_F32, 32, 4);
    tensor("output_norm.weight", QW_F32, 32, 1);
    for (int i = 0; i < 2; i++) {
        block_tensor(i, "attn_norm.weight", QW_F32, 32, 1);
        block_tensor(i, "post_attention_norm.weight", QW_F32, 32, 1);
        block_tensor(i, "ffn_gate.weight", QW_F32, 32, (uint64_t)ff);
        block_tensor(i, "ffn_up.weight", QW_F32, 32, (uint64_t)ff);
        block_tensor(i, "ffn_down.weight", QW_F32, (uint64_t)ff, 32);
    }
    uint64_t hd = (uint64_t)head_dim, d = (uint64_t)dk;
    block_tensor(0, "attn_qkv.weight", QW_F32, 32, 3 * d);
    block_tensor(0, "attn_gate.weight", QW_F32, 32, d);
    block_tensor(0, "ssm_alpha.weight", QW_F32, 32, 1);
    block_tensor(0, "ssm_beta.weight", QW_F32, 32, 1);
    block_tensor(0, "ssm_conv1d.weight", QW_F32, 4, 3 * d);
    block_tensor(0, "ssm_dt.bias", QW_F32, 1, 1);
    block_tensor(0, "ssm_a", QW_F32, 1, 1);
    block_tensor(0, "ssm_norm.weight", QW_F32, d, 1);
    block_tensor(0, "ssm_out.weight", QW_F32, d, 32);
    block_tensor(1, "attn_q.weight", QW_F32, 32, 2 * hd);
    block_tensor(1, "attn_k.weight", QW_F32, 32, hd);
    block_tensor(1, "attn_v.weight", QW_F32, 32, hd);
    block_tensor(1, "attn_output.weight", QW_F32, hd, 32);
    block_tensor(1, "attn_q_norm.weight", QW_F32, hd, 1);
    block_tensor(1, "attn_k_norm.weight", QW_F32, hd, 1);
    gw_write(&w, file, 0);
    gw_free(&w);
    MUST(qw_gguf_open(&g, file, &err) == QW_OK, "%s", err.msg);
    int rc = qw_hparams_read(g, &hp, &err);
    CHECK((rc == QW_OK) == (why == NULL), "code %d: %s", rc, err.msg);
    CHECK(why == NULL || strstr(err.msg, why) != NULL, "'%s' lacks '%s'", err.msg,
          why ? why : "");
    qw_gguf_close(g);
}

static void test_limits(void)
{
    check_limit(32, 32, 32, NULL);
    check_limit(32, 256, 32, NULL);
    check_limit(48, 32, 32,
                "'" A "attention.key_length': 48 is not supported: the kernels need");
    check_limit(32, 16, 32, "'" A "ssm.state_size': 16 is not supported");
    check_limit(32, 288, 32, "'" A "ssm.state_size': 288 is not supported");
    check_limit(32, 32, 40, "'" A "feed_forward_length': 40 is not supported");
}

static void test_setup(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof(dir), "%s/qw_hparams_XXXXXX", tmp && *tmp ? tmp : P_tmpdir);
    MUST(mkdtemp(dir) != NULL, "%s", dir);
    snprintf(file, sizeof(file), "%s/t.gguf", dir);
    snprintf(log_file, sizeof(log_file), "%s/log", dir);
}

static void test_clean_up(void)
{
    unlink(file);
    unlink(log_file);
    CHECK(rmdir(dir) == 0, "%s", dir);
}

QW_TESTS(T(test_setup), T(test_good), T(test_shipped), T(test_accepted), T(test_tied),
         T(test_fused), T(test_missing), T(test_bad_layers), T(test_bad_sizes),
         T(test_bad_rope), T(test_bad_tensors), T(test_bad_others), T(test_limits),
         T(test_mtp), T(test_clean_up))
