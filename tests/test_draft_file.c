/* SPDX-License-Identifier: MIT */
/* test_draft_file.c - the shipped drafter reads as documented; each wrong key or tensor
 * is refused by name; damaged files are refused or read, never worse. */
#include <math.h>
#include <sys/stat.h>

#include "draft_model.h"
#include "ggufw.h"

enum { E = 64, FF = 96, VOCAB = 10, LAYERS = 2, HD = 32, HEADS = 4, KV = 2, TAPS = 3 };

static char dir[4096], file[4200];
static struct qw_err err;
static struct ggufw w;
static const char *arch = "dflash";
static const struct qw_hparams target = {.n_layer = 4, .n_embd = E, .n_vocab = VOCAB};

/* One change to the good drafter below: a key or tensor is left out, or put in its place.
 * A name that starts with a dot is a key of the architecture. */
struct edit {
    const char *name;
    enum { DROP, AS_U32, AS_I32, AS_F32, AS_STR, AS_BOOL, AS_LIST, AS_TENSOR } as;
    double number; /* value, or tensor type */
    const char *text;
    uint32_t elem;
    uint64_t n[18];  /* shape, or how many entries and then their values */
    const char *why; /* part of the message; NULL where it must read */
};
#define WITHOUT(key, reason)                                                             \
    {                                                                                    \
        .name = key, .as = DROP, .why = reason                                           \
    }
#define U32(key, v, reason)                                                              \
    {                                                                                    \
        .name = key, .as = AS_U32, .number = v, .why = reason                            \
    }
#define I32(key, v, reason)                                                              \
    {                                                                                    \
        .name = key, .as = AS_I32, .number = v, .why = reason                            \
    }
#define F32(key, v, reason)                                                              \
    {                                                                                    \
        .name = key, .as = AS_F32, .number = v, .why = reason                            \
    }
#define STR(key, v, reason)                                                              \
    {                                                                                    \
        .name = key, .as = AS_STR, .text = v, .why = reason                              \
    }
#define FLAG(key, v, reason)                                                             \
    {                                                                                    \
        .name = key, .as = AS_BOOL, .number = v, .why = reason                           \
    }
#define INTS(key, reason, ...)                                                           \
    {                                                                                    \
        .name = key, .as = AS_LIST, .elem = QW_GGUF_I32, .n = {__VA_ARGS__},             \
        .why = reason                                                                    \
    }
#define BOOLS(key, reason, ...)                                                          \
    {                                                                                    \
        .name = key, .as = AS_LIST, .elem = QW_GGUF_BOOL, .n = {__VA_ARGS__},            \
        .why = reason                                                                    \
    }
#define TENSOR(key, type, a, b, reason)                                                  \
    {                                                                                    \
        .name = key, .as = AS_TENSOR, .number = type, .n = {a, b}, .why = reason         \
    }

static const struct edit *edits;
static int n_edits;

static const char *full_name(const char *name, char text[128])
{
    snprintf(text, 128, "%s%s", name[0] == '.' ? arch : "", name);
    return text;
}

static bool edited(const char *name)
{
    char text[128];
    for (int i = 0; i < n_edits; i++)
        if (strcmp(full_name(edits[i].name, text), name) == 0)
            return true;
    return false;
}

static void put_list(const char *name, uint32_t elem, const uint64_t *n)
{
    int32_t ints[17] = {0};
    uint8_t bools[17] = {0};
    for (uint64_t i = 0; i < 17; i++) {
        ints[i] = (int32_t)n[i + 1];
        bools[i] = (uint8_t)n[i + 1];
    }
    if (elem == QW_GGUF_BOOL)
        gw_key_arr(&w, name, elem, n[0], bools, n[0]);
    else
        gw_key_arr(&w, name, elem, n[0], ints, n[0] * 4);
}

static void put(const struct edit *e)
{
    char text[128];
    const char *name = full_name(e->name, text);
    const int32_t i32 = (int32_t)e->number;
    const uint8_t flag = e->number != 0;
    if (e->as == AS_U32)
        gw_key_u32(&w, name, (uint32_t)e->number);
    else if (e->as == AS_I32)
        gw_key(&w, name, QW_GGUF_I32, &i32, sizeof(i32));
    else if (e->as == AS_F32)
        gw_key_f32(&w, name, (float)e->number);
    else if (e->as == AS_STR)
        gw_key_str(&w, name, e->text);
    else if (e->as == AS_BOOL)
        gw_key(&w, name, QW_GGUF_BOOL, &flag, sizeof(flag));
    else if (e->as == AS_LIST)
        put_list(name, e->elem, e->n);
    else if (e->as == AS_TENSOR)
        gw_tensor(&w, name, (uint32_t)e->number, e->n[0], e->n[1]);
}

static const struct edit good_keys[] = {
    U32(".block_count", LAYERS, NULL),
    U32(".context_length", 128, NULL),
    U32(".embedding_length", E, NULL),
    U32(".feed_forward_length", FF, NULL),
    U32(".attention.head_count", HEADS, NULL),
    U32(".attention.head_count_kv", KV, NULL),
    U32(".attention.key_length", HD, NULL),
    U32(".attention.value_length", HD, NULL),
    F32(".attention.layer_norm_rms_epsilon", 1e-6, NULL),
    F32(".rope.freq_base", 1e7, NULL),
    INTS(".target_layers", NULL, TAPS, 4, 0, 2),
    U32(".attention.sliding_window", 8, NULL),
    BOOLS(".attention.sliding_window_pattern", NULL, LAYERS, 1, 0),
    U32("tokenizer.ggml.mask_token_id", VOCAB - 1, NULL),
};
static const struct edit good_tensors[] = {
    TENSOR("fc.weight", QW_Q8_0, TAPS *E, E, NULL),
    TENSOR("enc.output_norm.weight", QW_F32, E, 1, NULL),
    TENSOR("output_norm.weight", QW_F32, E, 1, NULL),
};
/* Of each layer. */
static const struct edit good_layer[] = {
    TENSOR("attn_norm.weight", QW_F32, E, 1, NULL),
    TENSOR("ffn_norm.weight", QW_F16, E, 1, NULL),
    TENSOR("attn_q.weight", QW_Q8_0, E, HEADS *HD, NULL),
    TENSOR("attn_k.weight", QW_Q8_0, E, KV *HD, NULL),
    TENSOR("attn_v.weight", QW_F16, E, KV *HD, NULL),
    TENSOR("attn_output.weight", QW_Q4_0, HEADS *HD, E, NULL),
    TENSOR("attn_q_norm.weight", QW_F32, HD, 1, NULL),
    TENSOR("attn_k_norm.weight", QW_BF16, HD, 1, NULL),
    TENSOR("ffn_gate.weight", QW_Q8_0, E, FF, NULL),
    TENSOR("ffn_up.weight", QW_Q8_0, E, FF, NULL),
    TENSOR("ffn_down.weight", QW_Q5_1, FF, E, NULL),
};
#define COUNT(rows) ((int)(sizeof(rows) / sizeof((rows)[0])))

static void put_unedited(const struct edit *e, const char *prefix)
{
    struct edit named = *e;
    char name[128], text[128];
    snprintf(name, sizeof(name), "%s%s", prefix, e->name);
    named.name = name;
    if (!edited(full_name(name, text)))
        put(&named);
}

static void write_drafter(const struct edit *e, int n)
{
    edits = e;
    n_edits = n;
    gw_init(&w);
    if (!edited("general.architecture"))
        gw_key_str(&w, "general.architecture", arch);
    for (int i = 0; i < COUNT(good_keys); i++)
        put_unedited(&good_keys[i], "");
    for (int i = 0; i < COUNT(good_tensors); i++)
        put_unedited(&good_tensors[i], "");
    for (int k = 0; k < LAYERS * COUNT(good_layer); k++) {
        char prefix[16];
        snprintf(prefix, sizeof(prefix), "blk.%d.", k / COUNT(good_layer));
        put_unedited(&good_layer[k % COUNT(good_layer)], prefix);
    }
    for (int i = 0; i < n; i++)
        put(&e[i]);
    gw_write(&w, file, 0);
    gw_free(&w);
}

static int read_file(const struct qw_hparams *of, struct qw_draft_hparams *hp)
{
    struct qw_gguf *g = NULL;
    err.msg[0] = '\0';
    int rc = qw_gguf_open(&g, file, &err);
    MUST(rc == QW_OK, "%s", err.msg);
    rc = qw_draft_hparams_read(g, of, hp, &err);
    qw_gguf_close(g);
    return rc;
}

static int read_edited(const struct edit *e, int n, struct qw_draft_hparams *hp)
{
    write_drafter(e, n);
    return read_file(&target, hp);
}

static void check_refused(int rc, const char *why, const char *what)
{
    CHECK(rc == QW_EFILE, "%s: code %d: %s", what, rc, err.msg);
    CHECK(strstr(err.msg, why) && strstr(err.msg, file), "%s: '%s' lacks '%s'", what,
          err.msg, why);
}

static void check_rows(const struct edit *rows, int n)
{
    struct qw_draft_hparams hp;
    for (int i = 0; i < n; i++) {
        const int rc = read_edited(&rows[i], 1, &hp);
        if (rows[i].why == NULL)
            CHECK(rc == QW_OK, "row %d, %s: %s", i, rows[i].name, err.msg);
        else
            check_refused(rc, rows[i].why, rows[i].name);
    }
}
#define CHECK_ROWS(rows) check_rows(rows, COUNT(rows))

/* ---- what reads ---- */

static void check_good(const struct qw_draft_hparams *hp)
{
    CHECK(hp->n_layer == LAYERS && hp->n_embd == E && hp->n_ff == FF);
    CHECK(hp->n_head == HEADS && hp->n_head_kv == KV && hp->head_dim == HD);
    CHECK(hp->n_ctx_train == 128 && hp->block_size == 16 && hp->mask_id == VOCAB - 1);
    CHECK(hp->n_taps == 3 && hp->tap[0] == 4 && hp->tap[1] == 0 && hp->tap[2] == 2);
    CHECK(hp->window == 8 && hp->sliding[0] && !hp->sliding[1] && !hp->sliding[2]);
    CHECK(!hp->causal && !hp->own_embed && !hp->own_head);
    CHECK(hp->eps == 1e-6f && hp->rope_base == 1e7f);
}

/* Both prefixes; keys under the other one are not seen. */
static void test_good(void)
{
    static const char *const names[] = {"dflash-draft", "dflash"};
    static const struct edit other[] = {
        STR("general.architecture", "dflash-draft",
            "'dflash-draft.block_count' is missing"),
    };
    struct qw_draft_hparams hp;
    for (int i = 0; i < 2; i++) {
        arch = names[i];
        MUST(read_edited(NULL, 0, &hp) == QW_OK, "%s", err.msg);
        check_good(&hp);
    }
    CHECK_ROWS(other);
}

static void shipped_path(char *path, size_t size, const char *name)
{
    const char *top = getenv("srcdir");
    snprintf(path, size, "%s/models/tiny/%s", top ? top : ".", name);
}

static struct qw_hparams shipped_target(void)
{
    struct qw_gguf *g = NULL;
    struct qw_hparams hp;
    char path[4200];
    shipped_path(path, sizeof(path), "tiny-qwen35-q4_0.gguf");
    MUST(qw_gguf_open(&g, path, &err) == QW_OK, "%s", err.msg);
    MUST(qw_hparams_read(g, &hp, &err) == QW_OK, "%s", err.msg);
    qw_gguf_close(g);
    return hp;
}

static void test_shipped(void)
{
    struct qw_gguf *g = NULL;
    struct qw_draft_hparams hp;
    struct qw_hparams of = shipped_target();
    char path[4200];
    shipped_path(path, sizeof(path), "tiny-qwen35-dflash-q8_0.gguf");
    MUST(qw_gguf_open(&g, path, &err) == QW_OK, "%s", err.msg);
    MUST(qw_draft_hparams_read(g, &of, &hp, &err) == QW_OK, "%s", err.msg);
    CHECK(hp.n_layer == 3 && hp.n_embd == 256 && hp.n_ff == 768);
    CHECK(hp.n_head == 4 && hp.n_head_kv == 1 && hp.head_dim == 128);
    CHECK(hp.n_ctx_train == 4096 && hp.block_size == 16 && hp.mask_id == 4089);
    CHECK(hp.n_taps == 3 && hp.tap[0] == 2 && hp.tap[1] == 4 && hp.tap[2] == 7);
    CHECK(hp.window == 512 && hp.sliding[0] && hp.sliding[1] && !hp.sliding[2]);
    CHECK(!hp.causal && !hp.own_embed && !hp.own_head);
    CHECK(hp.eps == 1e-6f && hp.rope_base == 1e7f);
    of.n_vocab = 5000;
    CHECK(qw_draft_hparams_read(g, &of, &hp, &err) == QW_EFILE);
    CHECK(strstr(err.msg, "4096 tokens") && strstr(err.msg, "vocabulary has 5000"), "%s",
          err.msg);
    of.n_embd = 512;
    CHECK(qw_draft_hparams_read(g, &of, &hp, &err) == QW_EFILE);
    CHECK(strstr(err.msg, "256, but the target's is 512"), "%s", err.msg);
    qw_gguf_close(g);
    shipped_path(path, sizeof(path), "tiny-qwen35-q4_0.gguf");
    MUST(qw_gguf_open(&g, path, &err) == QW_OK, "%s", err.msg);
    CHECK(qw_draft_hparams_read(g, &of, &hp, &err) == QW_EFILE);
    CHECK(strstr(err.msg, "'qwen35' is not a drafter"), "%s", err.msg);
    qw_gguf_close(g);
}

/* Defaults spelled out, other integer types, neutral values, other sound sizes. */
static void test_accepted(void)
{
    static const struct edit rows[] = {
        I32(".block_count", LAYERS, NULL),
        U32(".rope.dimension_count", HD, NULL),
        INTS(".rope.dimension_sections", NULL, 4, HD / 2, 0, 0, 0),
        INTS(".rope.dimension_sections", NULL, 1, HD / 2),
        STR(".rope.scaling.type", "none", NULL),
        F32(".rope.scaling.factor", 1, NULL),
        U32(".block_size", 2, NULL),
        U32(".block_size", 256, NULL),
        INTS(".target_layers", NULL, 3, 0, 4, 4),
        FLAG(".attention.causal", 0, NULL),
        U32("tokenizer.ggml.mask_token_id", 0, NULL),
        U32(".vocab_size", VOCAB, NULL),
        F32(".embedding_scale", 1, NULL),
        F32(".attention.scale", 0.17677669, NULL),
        F32(".attention.value_scale", 1, NULL),
        F32(".logit_scale", 0, NULL),
        F32(".logit_scale", 1, NULL),
        F32(".final_logit_softcapping", 0, NULL),
        STR(".hidden_activation", "silu", NULL),
        BOOLS(".attention.sliding_window_pattern", NULL, LAYERS, 0, 0),
        TENSOR("fc.weight", QW_Q6_K, TAPS * E + 64, E, "must be {192, 64}"),
        TENSOR("fc.weight", QW_F16, TAPS * E, E, NULL),
        TENSOR("blk.1.attn_norm.weight", QW_BF16, E, 1, NULL),
        TENSOR("blk.2.attn_norm.weight", QW_F32, E, 1, NULL),
        TENSOR("note.weight", QW_F32, 3, 3, NULL),
    };
    CHECK_ROWS(rows);
}

/* What changes the result. */
static void test_variants(void)
{
    static const struct edit causal[] = {FLAG(".attention.causal", 1, NULL)},
                             block[] = {U32(".block_size", 8, NULL)},
                             embed[] = {TENSOR("token_embd.weight", QW_Q4_0, E, VOCAB,
                                               NULL)},
                             head[] = {TENSOR("output.weight", QW_Q8_0, E, VOCAB, NULL)};
    struct qw_draft_hparams hp;
    CHECK(read_edited(causal, 1, &hp) == QW_OK && hp.causal, "%s", err.msg);
    CHECK(read_edited(block, 1, &hp) == QW_OK && hp.block_size == 8, "%s", err.msg);
    CHECK(read_edited(embed, 1, &hp) == QW_OK && hp.own_embed && !hp.own_head, "%s",
          err.msg);
    CHECK(read_edited(head, 1, &hp) == QW_OK && !hp.own_embed && hp.own_head, "%s",
          err.msg);
}

/* Without a window every layer is full, whatever the pattern says. */
static void test_no_window(void)
{
    static const struct edit rows[][2] = {
        {WITHOUT(".attention.sliding_window", NULL),
         WITHOUT(".attention.sliding_window_pattern", NULL)},
        {WITHOUT(".attention.sliding_window", NULL),
         BOOLS(".attention.sliding_window_pattern", NULL, 2, 1, 1)},
        {U32(".attention.sliding_window", 0, NULL),
         WITHOUT(".attention.sliding_window_pattern", NULL)},
    };
    for (int i = 0; i < COUNT(rows); i++) {
        struct qw_draft_hparams hp;
        CHECK(read_edited(rows[i], 2, &hp) == QW_OK, "%s", err.msg);
        CHECK(hp.window == 0 && !hp.sliding[0] && !hp.sliding[1], "row %d", i);
    }
}

/* ---- what is refused ---- */

static void check_missing(const char *name)
{
    const struct edit e = WITHOUT(name, NULL);
    struct qw_draft_hparams hp;
    char text[128], why[160];
    snprintf(why, sizeof(why), "'%s' is missing", full_name(name, text));
    check_refused(read_edited(&e, 1, &hp), why, name);
}

static void test_missing(void)
{
    check_missing("general.architecture");
    for (int i = 0; i < COUNT(good_keys); i++)
        if (strcmp(good_keys[i].name, ".attention.sliding_window") != 0)
            check_missing(good_keys[i].name);
    for (int i = 0; i < COUNT(good_tensors); i++)
        check_missing(good_tensors[i].name);
    for (int k = 0; k < LAYERS * COUNT(good_layer); k++) {
        char name[128];
        snprintf(name, sizeof(name), "blk.%d.%s", k / COUNT(good_layer),
                 good_layer[k % COUNT(good_layer)].name);
        check_missing(name);
    }
}

/* Every tensor one row longer, one block wider, and of a type that does not fit. */
static void check_shape(const char *prefix, const struct edit *good)
{
    const bool vector = good->n[1] == 1;
    char name[128], why[200];
    struct qw_draft_hparams hp;
    struct edit e = *good;
    snprintf(name, sizeof(name), "%s%s", prefix, good->name);
    e.name = name;
    e.n[1]++;
    snprintf(why, sizeof(why),
             "tensor '%s': its shape is {%d, %d, 1, 1}, must be {%d, %d}", name,
             (int)e.n[0], (int)e.n[1], (int)good->n[0], (int)good->n[1]);
    check_refused(read_edited(&e, 1, &hp), why, name);
    e.n[1]--;
    e.n[0] += 32;
    check_refused(read_edited(&e, 1, &hp), "its shape is", name);
    e.n[0] -= 32;
    e.number = vector ? QW_Q8_0 : 20;
    snprintf(why, sizeof(why), "tensor '%s': %s", name,
             vector ? "has type Q8_0, must be F32, F16 or BF16" : "type IQ4_NL (20) is");
    check_refused(read_edited(&e, 1, &hp), why, name);
}

static void test_shapes(void)
{
    static const struct edit own[] = {
        TENSOR("token_embd.weight", QW_Q8_0, E, VOCAB, NULL),
        TENSOR("output.weight", QW_Q8_0, E, VOCAB, NULL),
    };
    static const struct edit rows[] = {
        TENSOR("output.weight", QW_Q8_0, 32, VOCAB, "must be {64, 10}"),
        TENSOR("token_embd.weight", QW_Q8_0, 32, VOCAB, "must be {64, 10}"),
        TENSOR("output.weight", 20, E, VOCAB, "type IQ4_NL (20)"),
        TENSOR("blk.0.attn_q.scale", QW_F32, 1, 1, "NVFP4"),
    };
    for (int i = 0; i < COUNT(good_tensors); i++)
        check_shape("", &good_tensors[i]);
    for (int i = 0; i < COUNT(good_layer); i++) {
        check_shape("blk.0.", &good_layer[i]);
        check_shape("blk.1.", &good_layer[i]);
    }
    CHECK_ROWS(rows);
    for (int i = 0; i < 2; i++) {
        struct edit e = own[i];
        struct qw_draft_hparams hp;
        e.n[1] = 12;
        check_refused(read_edited(&e, 1, &hp),
                      "12 rows, but the target's vocabulary has 10", e.name);
    }
}

static void test_bad_sizes(void)
{
    static const struct edit rows[] = {
        STR("general.architecture", "eagle3", "'eagle3' is not a drafter"),
        STR("general.architecture", "a\033[0m", "a\\x1b[0m"),
        STR("general.architecture", "dflash2", "(supported: dflash, dflash-draft)"),
        U32("general.architecture", 35, "has type u32, must be string"),
        U32(".block_count", 0, "block_count': 0 is out of range"),
        U32(".block_count", 513, "513 is out of range"),
        F32(".block_count", 2, "has type f32"),
        U32(".block_count", 1, "pattern': 2 entries for 1 layers"),
        U32(".context_length", 0, "context_length': 0"),
        U32(".embedding_length", 65537, "65537 is out of range"),
        U32(".embedding_length", 128, "embedding_length': 128, but the target's is 64"),
        U32(".feed_forward_length", 1 << 21, "2097152 is out of range"),
        U32(".feed_forward_length", 128, "must be {64, 128}"),
        U32(".attention.head_count", 1025, "1025 is out of range"),
        U32(".attention.head_count", 5, "2 does not divide the 5"),
        U32(".attention.head_count_kv", 0, "0 is out of range"),
        U32(".attention.head_count_kv", 3, "3 does not divide the 4"),
        U32(".attention.key_length", 64, "32 differs from 'dflash.attention.key_len"),
        U32(".attention.value_length", 64, "64 differs from 'dflash.attention.key_len"),
        U32(".attention.key_length", 1056, "1056 is out of range"),
        F32(".attention.layer_norm_rms_epsilon", 0, "epsilon': 0"),
        F32(".attention.layer_norm_rms_epsilon", 1, "epsilon': 1"),
        U32(".attention.layer_norm_rms_epsilon", 1, "must be f32 or f64"),
        U32(".vocab_size", 11, "vocab_size': 11, but the target's vocabulary has 10"),
        INTS("tokenizer.ggml.tokens", "must be array of string", 2, 1, 2),
        U32("tokenizer.ggml.mask_token_id", VOCAB, "10 is out of range"),
        I32("tokenizer.ggml.mask_token_id", -1, "-1 is out of range"),
        STR("tokenizer.ggml.mask_token_id", "x", "has type string"),
    };
    CHECK_ROWS(rows);
}

static void test_bad_block(void)
{
    static const struct edit rows[] = {
        U32(".block_size", 1, "block_size': 1 is out of range"),
        U32(".block_size", 257, "block_size': 257 is out of range"),
        FLAG(".block_size", 1, "has type bool"),
        U32(".attention.causal", 1, "has type u32"),
        INTS(".target_layers", "0 entries", 0),
        INTS(".target_layers", "17 entries (allowed: 1 to 16)", 17),
        INTS(".target_layers", "entry 1: 5 is out of range (allowed: 0 to 4", 3, 0, 5, 2),
        INTS(".target_layers", "entry 2: -1 is", 3, 0, 1, (uint64_t)-1),
        INTS(".target_layers", "must be {128, 64}", 2, 0, 1),
        BOOLS(".target_layers", "array of bool, must be array of i32", 3, 1, 1, 1),
        U32(".target_layers", 2, "has type u32"),
        I32(".attention.sliding_window", -1, "-1 is out of range"),
        F32(".attention.sliding_window", 8, "has type f32"),
        BOOLS(".attention.sliding_window_pattern", "1 entries for 2", 1, 1),
        BOOLS(".attention.sliding_window_pattern", "3 entries for 2", 3, 1, 0, 0),
        INTS(".attention.sliding_window_pattern", "must be array of bool", 2, 1, 0),
        FLAG(".attention.sliding_window_pattern", 1, "has type bool, must be array"),
        U32(".rope.dimension_count", 16, "dimension_count': 16 is not supported"),
        U32(".rope.dimension_count", 64, "64 is not supported: it must be the head"),
        INTS(".rope.dimension_sections", "sum is 8", 4, 8, 0, 0, 0),
        INTS(".rope.dimension_sections", "entry 3: 8", 4, 8, 0, 0, 8),
        INTS(".rope.dimension_sections", "5 entries", 5, 16, 0, 0, 0, 0),
        STR(".rope.dimension_sections", "x", "has type string"),
        STR(".rope.scaling.type", "yarn", "'yarn' is not supported"),
        F32(".rope.scaling.factor", 4, "factor': 4"),
        F32(".rope.freq_base", 0, "freq_base': 0"),
        F32(".rope.freq_base", -1, "freq_base': -1"),
    };
    CHECK_ROWS(rows);
}

/* Values of networks that compute something else. */
static void test_not_neutral(void)
{
    static const struct edit rows[] = {
        F32(".embedding_scale", 2, "'dflash.embedding_scale': 2 is not supported"),
        F32(".embedding_scale", 0, "'dflash.embedding_scale': 0 is not supported"),
        F32(".embedding_scale", NAN, "embedding_scale': "),
        F32(".attention.scale", 0.125, "'dflash.attention.scale': 0.125 is not"),
        F32(".attention.scale", 0.18, "'dflash.attention.scale': 0.18 is not"),
        F32(".attention.scale", 1, "'dflash.attention.scale': 1 is not"),
        F32(".attention.value_scale", 0.5, "'dflash.attention.value_scale': 0.5"),
        F32(".logit_scale", 0.5, "'dflash.logit_scale': 0.5"),
        F32(".final_logit_softcapping", 30, "'dflash.final_logit_softcapping': 30"),
        U32(".final_logit_softcapping", 30, "has type u32"),
        STR(".hidden_activation", "gelu", "hidden_activation': 'gelu' is not"),
        STR(".hidden_activation", "silu2", "'silu2' is not"),
        U32(".hidden_activation", 1, "has type u32"),
    };
    CHECK_ROWS(rows);
}

static void test_other_kinds(void)
{
    static const struct edit rows[] = {
        U32(".conv_kernel_size", 4, "'dflash.conv_kernel_size': a DFlash2 drafter"),
        U32(".conv_group_size", 0, "'dflash.conv_group_size': a DFlash2 drafter"),
        U32(".selector_rank", 8, "'dflash.selector_rank': a DFlash2 drafter"),
        U32(".selector_top_k", 8, "'dflash.selector_top_k': a DFlash2 drafter"),
        TENSOR("d2t", QW_F32, VOCAB, 1, "'d2t': a drafter with a vocabulary"),
        TENSOR("markov_w1.weight", QW_F32, E, E, "'markov_w1.weight': a DSpark"),
        TENSOR("selector_proj.weight", QW_F32, E, E, "'selector_proj.weight': a DFl"),
        TENSOR("blk.1.attn_conv_q.weight", QW_F32, 4, E, "'blk.1.attn_conv_q.weight'"),
        TENSOR("blk.0.ffn_conv_in.weight", QW_F32, 4, E, "'blk.0.ffn_conv_in.weight'"),
        TENSOR("conf_proj.weight", QW_F32, E, 1, "'conf_proj.weight': a drafter with"),
    };
    CHECK_ROWS(rows);
}

/* Sound shapes of a size that the kernels do not take. */
static void test_limits(void)
{
    static const struct edit rows[] = {
        U32(".feed_forward_length", 80, NULL),
        TENSOR("blk.0.ffn_gate.weight", QW_F32, E, 80, NULL),
        TENSOR("blk.0.ffn_up.weight", QW_F32, E, 80, NULL),
        TENSOR("blk.0.ffn_down.weight", QW_F32, 80, E, NULL),
        TENSOR("blk.1.ffn_gate.weight", QW_F32, E, 80, NULL),
        TENSOR("blk.1.ffn_up.weight", QW_F32, E, 80, NULL),
        TENSOR("blk.1.ffn_down.weight", QW_F32, 80, E, NULL),
    };
    struct qw_draft_hparams hp;
    check_refused(read_edited(rows, COUNT(rows), &hp),
                  "'dflash.feed_forward_length': 80 is not supported: the kernels",
                  "width 80");
}

/* ---- damage ---- */

/* Open and, as far as it goes, read and plan what is now in the file. */
static bool try_file(const struct qw_hparams *of)
{
    struct qw_gguf *g = NULL;
    struct qw_draft_model *m = NULL;
    err.msg[0] = '\0';
    int rc = qw_gguf_open(&g, file, &err);
    if (rc == QW_OK)
        rc = qw_draft_model_plan(&m, g, of, 1 << 20, &err);
    if (rc == QW_OK) {
        const struct qw_draft_hparams *hp = &m->hp;
        CHECK(hp->n_embd == of->n_embd && hp->n_taps >= 1 && hp->n_taps <= QW_MAX_TAPS);
        CHECK(hp->mask_id >= 0 && hp->mask_id < of->n_vocab && hp->block_size >= 2);
        for (int i = 0; i < hp->n_taps; i++)
            CHECK(hp->tap[i] >= 0 && hp->tap[i] <= of->n_layer);
    } else {
        CHECK(rc == QW_EFILE && err.msg[0] != '\0', "code %d: %s", rc, err.msg);
    }
    qw_draft_model_close(m);
    qw_gguf_close(g);
    return rc == QW_OK;
}

static size_t read_whole(const char *path, unsigned char **data)
{
    struct stat st;
    int fd = open(path, O_RDONLY);
    MUST(fd >= 0 && fstat(fd, &st) == 0, "%s", path);
    *data = qw_alloc((size_t)st.st_size, 1);
    MUST(read(fd, *data, (size_t)st.st_size) == st.st_size, "%s", path);
    close(fd);
    return (size_t)st.st_size;
}

static void flip(int fd, const unsigned char *data, size_t at, int mask,
                 const struct qw_hparams *of, int count[2])
{
    const unsigned char b = (unsigned char)(data[at] ^ mask);
    MUST(pwrite(fd, &b, 1, (off_t)at) == 1, "%s", file);
    count[try_file(of)]++;
    MUST(pwrite(fd, &data[at], 1, (off_t)at) == 1, "%s", file);
}

/* Every bit of the head of the small drafter, and every length it can be cut to. */
static void test_small_damage(void)
{
    unsigned char *data;
    int count[2] = {0, 0};
    write_drafter(NULL, 0);
    const size_t size = read_whole(file, &data), head = size - w.offset;
    int fd = open(file, O_RDWR);
    MUST(fd >= 0 && try_file(&target), "%s", err.msg);
    for (size_t i = 0; i < head; i++)
        for (int bit = 0; bit < 8; bit++)
            flip(fd, data, i, 1 << bit, &target, count);
    printf("  %zu bytes of head: %d flips refused, %d read\n", head, count[0], count[1]);
    CHECK(try_file(&target), "%s", err.msg);
    for (size_t n = size - 1; n<size; n -= n> head ? 97 : 1) {
        MUST(ftruncate(fd, (off_t)n) == 0, "%s", file);
        CHECK(!try_file(&target), "cut to %zu bytes, it reads", n);
    }
    close(fd);
    free(data);
}

/* The shipped one: its keys and tensors byte by byte, its token lists here and there. */
static void test_shipped_damage(void)
{
    enum { KEYS = 1000, TAIL = 124410, HEAD = 126607 }; /* before and after the lists */
    const struct qw_hparams of = shipped_target();
    char path[4200];
    unsigned char *data;
    int count[2] = {0, 0};
    shipped_path(path, sizeof(path), "tiny-qwen35-dflash-q8_0.gguf");
    const size_t size = read_whole(path, &data);
    int fd = open(file, O_RDWR | O_CREAT | O_TRUNC, 0600);
    MUST(fd >= 0 && write(fd, data, size) == (ssize_t)size, "%s", file);
    MUST(try_file(&of), "%s", err.msg);
    for (size_t i = 0; i < HEAD; i += i < KEYS || i >= TAIL ? 1 : 509)
        flip(fd, data, i, 1 << i % 8, &of, count);
    printf("  %d flips refused, %d read\n", count[0], count[1]);
    for (size_t n = size - 1; n<size; n -= n> HEAD ? 99991 : n > 1009 ? 1009 : 1) {
        MUST(ftruncate(fd, (off_t)n) == 0, "%s", file);
        CHECK(!try_file(&of), "cut to %zu bytes, it reads", n);
    }
    close(fd);
    free(data);
}

static void test_setup(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof(dir), "%s/qw_draft_XXXXXX", tmp && *tmp ? tmp : P_tmpdir);
    MUST(mkdtemp(dir) != NULL, "%s", dir);
    snprintf(file, sizeof(file), "%s/d.gguf", dir);
}

static void test_clean_up(void)
{
    unlink(file);
    CHECK(rmdir(dir) == 0, "%s", dir);
}

QW_TESTS(T(test_setup), T(test_good), T(test_shipped), T(test_accepted), T(test_variants),
         T(test_no_window), T(test_missing), T(test_shapes), T(test_bad_sizes),
         T(test_bad_block), T(test_not_neutral), T(test_other_kinds), T(test_limits),
         T(test_small_damage), T(test_shipped_damage), T(test_clean_up))
