/* SPDX-License-Identifier: MIT */
#include "hparams.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "quant.h"

#define ARCH "qwen35"
#define KEY(name) ARCH "." name

enum {
    MAX_WIDTH = 65536, /* of the residual stream */
    MAX_FF = 1 << 20,
    MAX_HEADS = 1024,
    MAX_HEAD_DIM = 1024,
    MAX_VOCAB = 1 << 24,
    MAX_CONTEXT = 1 << 30,
    MAX_SSM_DIM = 256, /* what the GDN kernels hold */
    BLOCK = 32,        /* of a quantised activation row */
    SHOWN = 256,
};

/* One read: file, result, message. */
struct reader {
    const struct qw_gguf *g;
    struct qw_hparams *hp;
    struct qw_err *err;
};

static int bad(const struct reader *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static int bad(const struct reader *r, const char *fmt, ...)
{
    char text[1400], path[512];
    const char *p = qw_gguf_path(r->g);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    qw_escape(path, sizeof(path), p, strlen(p));
    return qw_fail(r->err, QW_EFILE, "%s: %s", path, text);
}

const struct qw_gguf_tensor *qw_tensor(const struct qw_gguf *g, int layer,
                                       const char *suffix)
{
    char name[128];
    if (layer < 0)
        return qw_gguf_tensor(g, suffix);
    snprintf(name, sizeof(name), "blk.%d.%s", layer, suffix);
    return qw_gguf_tensor(g, name);
}

/* ---- keys ---- */

static bool same(struct qw_str s, const char *text)
{
    return s.len == strlen(text) && memcmp(s.data, text, s.len) == 0;
}

static int check_architecture(const struct reader *r)
{
    struct qw_str arch;
    char shown[SHOWN];
    int rc = qw_gguf_string(r->g, "general.architecture", &arch, r->err);
    if (rc != QW_OK || same(arch, ARCH))
        return rc;
    qw_escape(shown, sizeof(shown), arch.data, arch.len);
    if (same(arch, "dflash") || same(arch, "dflash-draft"))
        return bad(r,
                   "key 'general.architecture': '%s' is a drafter, not a target model "
                   "(supported here: " ARCH "; drafters go in model.draft)",
                   shown);
    return bad(r,
               "key 'general.architecture': '%s' is not supported (supported: " ARCH ")",
               shown);
}

static int read_int(const struct reader *r, const char *name, int lo, int hi, int *out)
{
    int64_t v;
    int rc = qw_gguf_int(r->g, name, NULL, lo, hi, &v, r->err);
    if (rc == QW_OK)
        *out = (int)v;
    return rc;
}

static int read_int_or(const struct reader *r, const char *name, int dflt, int lo, int hi,
                       int *out)
{
    int64_t v, d = dflt;
    int rc = qw_gguf_int(r->g, name, &d, lo, hi, &v, r->err);
    if (rc == QW_OK)
        *out = (int)v;
    return rc;
}

static bool holds_integers(const struct qw_gguf_key *k)
{
    return k->elem != QW_GGUF_F32 && k->elem != QW_GGUF_F64 && k->elem != QW_GGUF_STR &&
           k->elem != QW_GGUF_BOOL;
}

static const char *describe(const struct qw_gguf_key *k, char text[32])
{
    snprintf(text, 32, "%s%s", k->type == QW_GGUF_ARR ? "array of " : "",
             qw_gguf_type_name(k->elem));
    return text;
}

/* A number that a file gives once or for each layer. Layers where use[i] equals which
 * must agree, because one set of kernels serves them all; which < 0 stands for every
 * layer. */
static int read_per_layer(const struct reader *r, const char *name, int which, int hi,
                          int *out)
{
    const struct qw_gguf_key *k = qw_gguf_find(r->g, name);
    char text[32];
    if (k == NULL || k->type != QW_GGUF_ARR)
        return read_int(r, name, 1, hi, out);
    if (!holds_integers(k))
        return bad(r, "key '%s': has type %s, must be an integer or an array of them",
                   name, describe(k, text));
    if (k->count < (uint64_t)r->hp->n_layer)
        return bad(r, "key '%s': %" PRIu64 " entries for %d layers", name, k->count,
                   r->hp->n_layer);
    int first = -1;
    for (int i = 0; i < r->hp->n_layer; i++) {
        if (which >= 0 && r->hp->full[i] != (which != 0))
            continue;
        int64_t v = qw_gguf_elem_int(k, (uint64_t)i);
        if (v < 1 || v > hi)
            return bad(
                r, "key '%s': entry %d: %" PRId64 " is out of range (allowed: 1 to %d)",
                name, i, v, hi);
        if (first >= 0 && v != *out)
            return bad(r,
                       "key '%s': %" PRId64 " in layer %d but %d in layer %d: layers of "
                       "different widths are not supported",
                       name, v, i, *out, first);
        if (first < 0)
            first = i;
        *out = (int)v;
    }
    return QW_OK;
}

/* Which layers are full attention: the list of the file, else every interval-th one. */
static int read_layer_kinds(const struct reader *r)
{
    const char *name = KEY("attention.recurrent_layers");
    const struct qw_gguf_key *k = qw_gguf_find(r->g, name);
    struct qw_hparams *hp = r->hp;
    char text[32];
    int interval, n_full = 0;
    int rc =
        read_int_or(r, KEY("full_attention_interval"), 4, 1, QW_MAX_LAYERS, &interval);
    if (rc != QW_OK)
        return rc;
    if (k != NULL && k->elem != QW_GGUF_BOOL)
        return bad(r, "key '%s': has type %s, must be array of bool", name,
                   describe(k, text));
    if (k != NULL && k->type == QW_GGUF_ARR && k->count < (uint64_t)hp->n_layer)
        return bad(r, "key '%s': %" PRIu64 " entries for %d layers", name, k->count,
                   hp->n_layer);
    for (int i = 0; i < hp->n_layer; i++) {
        uint64_t at = k != NULL && k->type == QW_GGUF_ARR ? (uint64_t)i : 0;
        hp->full[i] = k != NULL ? qw_gguf_elem_int(k, at) == 0 : (i + 1) % interval == 0;
        n_full += hp->full[i];
    }
    if (n_full == 0 || n_full == hp->n_layer)
        return bad(
            r,
            "key '%s': %d of %d layers are full attention: a model without layers of "
            "both kinds is not supported",
            k != NULL ? name : KEY("full_attention_interval"), n_full, hp->n_layer);
    return QW_OK;
}

static int read_layers(const struct reader *r)
{
    int blocks, rc;
    struct qw_hparams *hp = r->hp;
    if ((rc = read_int(r, KEY("block_count"), 1, QW_MAX_LAYERS, &blocks)) != QW_OK ||
        (rc = read_int_or(r, KEY("nextn_predict_layers"), 0, 0, 1, &hp->n_nextn)) !=
            QW_OK)
        return rc;
    hp->n_layer = blocks - hp->n_nextn;
    if (hp->n_layer < 1)
        return bad(r,
                   "key '" KEY("block_count") "': %d blocks, of which %d predict further "
                                              "tokens: no layer is left",
                   blocks, hp->n_nextn);
    return read_layer_kinds(r);
}

static int read_sizes(const struct reader *r)
{
    struct qw_hparams *hp = r->hp;
    int v_dim, rc;
    if ((rc = read_int(r, KEY("context_length"), 1, MAX_CONTEXT, &hp->n_ctx_train)) !=
            QW_OK ||
        (rc = read_int(r, KEY("embedding_length"), 1, MAX_WIDTH, &hp->n_embd)) != QW_OK ||
        (rc = read_per_layer(r, KEY("feed_forward_length"), -1, MAX_FF, &hp->n_ff)) !=
            QW_OK ||
        (rc = read_per_layer(r, KEY("attention.head_count"), 1, MAX_HEADS,
                             &hp->n_head)) != QW_OK ||
        (rc = read_per_layer(r, KEY("attention.head_count_kv"), 1, MAX_HEADS,
                             &hp->n_head_kv)) != QW_OK ||
        (rc = read_int(r, KEY("attention.key_length"), 1, MAX_HEAD_DIM, &hp->head_dim)) !=
            QW_OK ||
        (rc = read_int(r, KEY("attention.value_length"), 1, MAX_HEAD_DIM, &v_dim)) !=
            QW_OK)
        return rc;
    if (v_dim != hp->head_dim)
        return bad(
            r,
            "key '" KEY(
                "attention.value_length") "': %d differs from "
                                          "'" KEY(
                                              "attention.key_length") "', which is %d",
            v_dim, hp->head_dim);
    if (hp->head_dim % 2 != 0)
        return bad(r, "key '" KEY("attention.key_length") "': %d is odd", hp->head_dim);
    if (hp->n_head % hp->n_head_kv != 0)
        return bad(
            r,
            "key '" KEY("attention.head_count_kv") "': %d does not divide the %d of "
                                                   "'" KEY("attention.head_count") "'",
            hp->n_head_kv, hp->n_head);
    return QW_OK;
}

static int read_ssm(const struct reader *r)
{
    struct qw_hparams *hp = r->hp;
    int inner, rc;
    if ((rc = read_int(r, KEY("ssm.conv_kernel"), 2, 16, &hp->ssm_conv)) != QW_OK ||
        (rc = read_int(r, KEY("ssm.state_size"), 1, MAX_HEAD_DIM, &hp->ssm_dk)) !=
            QW_OK ||
        (rc = read_int(r, KEY("ssm.group_count"), 1, MAX_HEADS, &hp->ssm_nk)) != QW_OK ||
        (rc = read_int(r, KEY("ssm.time_step_rank"), 1, MAX_HEADS, &hp->ssm_nv)) !=
            QW_OK ||
        (rc = read_int(r, KEY("ssm.inner_size"), 1, MAX_HEADS * MAX_HEAD_DIM, &inner)) !=
            QW_OK)
        return rc;
    if (hp->ssm_nv % hp->ssm_nk != 0)
        return bad(r,
                   "key '" KEY("ssm.group_count") "': %d does not divide the %d of "
                                                  "'" KEY("ssm.time_step_rank") "'",
                   hp->ssm_nk, hp->ssm_nv);
    if (inner != hp->ssm_nv * hp->ssm_dk)
        return bad(
            r,
            "key '" KEY("ssm.inner_size") "': %d, must be time_step_rank x state_size "
                                          "= %d x %d",
            inner, hp->ssm_nv, hp->ssm_dk);
    return QW_OK;
}

/* Sections say which of the three coordinates turns a pair. For text they are equal, so
 * only the sum matters, and that no pair falls to the fourth coordinate, which stays 0.
 */
static int check_sections(const struct reader *r)
{
    const char *name = KEY("rope.dimension_sections");
    const struct qw_gguf_key *k = qw_gguf_find(r->g, name);
    int64_t sum = 0;
    char text[32];
    if (k == NULL)
        return bad(r, "key '%s' is missing", name);
    if (k->type != QW_GGUF_ARR || !holds_integers(k))
        return bad(r, "key '%s': has type %s, must be array of i32", name,
                   describe(k, text));
    if (k->count < 1 || k->count > 4)
        return bad(r, "key '%s': %" PRIu64 " entries (allowed: 1 to 4)", name, k->count);
    for (uint64_t i = 0; i < k->count; i++) {
        int64_t v = qw_gguf_elem_int(k, i), hi = i < 3 ? MAX_HEAD_DIM : 0;
        if (v < 0 || v > hi)
            return bad(r,
                       "key '%s': entry %" PRIu64 ": %" PRId64
                       " is out of range (allowed: 0 to %" PRId64 ")",
                       name, i, v, hi);
        sum += v;
    }
    if (sum != r->hp->n_rot / 2)
        return bad(r,
                   "key '%s': the sum is %" PRId64 ", must be %d, half of "
                   "'" KEY("rope.dimension_count") "'",
                   name, sum, r->hp->n_rot / 2);
    return QW_OK;
}

/* Positions are used as they are: nothing that stretches them is read. */
static int check_scaling(const struct reader *r)
{
    static const char *const factors[] = {KEY("rope.scaling.factor"),
                                          KEY("rope.scale_linear")};
    const char *name = KEY("rope.scaling.type");
    if (qw_gguf_find(r->g, name) != NULL) {
        struct qw_str type;
        char shown[SHOWN];
        int rc = qw_gguf_string(r->g, name, &type, r->err);
        if (rc != QW_OK || same(type, "none"))
            return rc;
        qw_escape(shown, sizeof(shown), type.data, type.len);
        if (!same(type, "linear"))
            return bad(r,
                       "key '%s': '%s' is not supported (supported: none, linear with "
                       "factor 1)",
                       name, shown);
    }
    for (size_t i = 0; i < sizeof(factors) / sizeof(factors[0]); i++) {
        double factor, one = 1.0;
        int rc = qw_gguf_float(r->g, factors[i], &one, &factor, r->err);
        if (rc != QW_OK)
            return rc;
        if (factor != 1.0)
            return bad(r, "key '%s': %g is not supported (supported: 1)", factors[i],
                       factor);
    }
    return QW_OK;
}

static int read_rope(const struct reader *r)
{
    struct qw_hparams *hp = r->hp;
    double base, eps;
    int rc = read_int(r, KEY("rope.dimension_count"), 2, MAX_HEAD_DIM, &hp->n_rot);
    if (rc != QW_OK)
        return rc;
    if (hp->n_rot % 2 != 0 || hp->n_rot > hp->head_dim)
        return bad(
            r,
            "key '" KEY("rope.dimension_count") "': %d (allowed: even numbers up to "
                                                "the head size, %d)",
            hp->n_rot, hp->head_dim);
    if ((rc = check_sections(r)) != QW_OK || (rc = check_scaling(r)) != QW_OK ||
        (rc = qw_gguf_float(r->g, KEY("rope.freq_base"), NULL, &base, r->err)) != QW_OK ||
        (rc = qw_gguf_float(r->g, KEY("attention.layer_norm_rms_epsilon"), NULL, &eps,
                            r->err)) != QW_OK)
        return rc;
    hp->rope_base = (float)base;
    hp->eps = (float)eps;
    if (!(hp->rope_base > 0.0f) || !isfinite(hp->rope_base))
        return bad(r, "key '" KEY("rope.freq_base") "': %g (allowed: finite and above 0)",
                   base);
    if (!(hp->eps > 0.0f && hp->eps < 1.0f))
        return bad(
            r,
            "key '" KEY("attention.layer_norm_rms_epsilon") "': %g (allowed: between "
                                                            "0 and 1)",
            eps);
    return QW_OK;
}

/* ---- vocabulary ---- */

static int check_vocabulary(const struct reader *r)
{
    const char *name = "tokenizer.ggml.tokens";
    const struct qw_gguf_key *k = qw_gguf_find(r->g, name);
    const struct qw_gguf_tensor *t = qw_gguf_tensor(r->g, "token_embd.weight");
    char text[32];
    if (k != NULL && (k->type != QW_GGUF_ARR || k->elem != QW_GGUF_STR))
        return bad(r, "key '%s': has type %s, must be array of string", name,
                   describe(k, text));
    if (t == NULL)
        return bad(r, "tensor 'token_embd.weight' is missing");
    if (t->ne[1] > MAX_VOCAB)
        return bad(r, "tensor 'token_embd.weight': %" PRIu64 " rows (allowed: up to %d)",
                   t->ne[1], MAX_VOCAB);
    r->hp->n_vocab = (int)t->ne[1];
    if (k != NULL && k->count != t->ne[1])
        return bad(r,
                   "key '%s': %" PRIu64
                   " tokens, but tensor 'token_embd.weight' has %" PRIu64 " rows",
                   name, k->count, t->ne[1]);
    int said, rc = read_int_or(r, KEY("vocab_size"), r->hp->n_vocab, 1, MAX_VOCAB, &said);
    if (rc == QW_OK && said != r->hp->n_vocab)
        return bad(
            r,
            "key '" KEY("vocab_size") "': %d, but tensor 'token_embd.weight' has %d "
                                      "rows",
            said, r->hp->n_vocab);
    return rc;
}

/* ---- tensors ---- */

/* What a tensor must be. Matrices come in any type that decodes, vectors (and the taps of
 * the convolution) unquantised: the engine widens those to F32. */
struct want {
    const char *suffix;
    int in, out; /* ne[0], ne[1]; out = 1 for a vector */
    bool plain;
};
enum { N_COMMON = 5, N_FULL = 6, N_FUSED = 4, N_GDN = 9 };

static int check_tensor(const struct reader *r, int layer, const struct want *w)
{
    const struct qw_gguf_tensor *t = qw_tensor(r->g, layer, w->suffix);
    char name[64];
    if (layer < 0)
        snprintf(name, sizeof(name), "%s", w->suffix);
    else
        snprintf(name, sizeof(name), "blk.%d.%s", layer, w->suffix);
    if (t == NULL)
        return bad(r, "tensor '%s' is missing", name);
    if (t->ne[0] != (uint64_t)w->in || t->ne[1] != (uint64_t)w->out || t->ne[2] != 1 ||
        t->ne[3] != 1)
        return bad(r,
                   "tensor '%s': its shape is {%" PRIu64 ", %" PRIu64 ", %" PRIu64
                   ", %" PRIu64 "}, must be {%d, %d}",
                   name, t->ne[0], t->ne[1], t->ne[2], t->ne[3], w->in, w->out);
    const struct qw_type_info *info = qw_type_info(t->type);
    if (info == NULL || !info->decodes)
        return bad(r, "tensor '%s': type %s (%" PRIu32 ") is not supported for a weight",
                   name, info ? info->name : "unknown", t->type);
    if (w->plain && t->type != QW_F32 && t->type != QW_F16 && t->type != QW_BF16)
        return bad(r, "tensor '%s': has type %s, must be F32, F16 or BF16", name,
                   info->name);
    return QW_OK;
}

static int check_all(const struct reader *r, int layer, const struct want *w, int n)
{
    int rc = QW_OK;
    for (int i = 0; i < n && rc == QW_OK; i++)
        rc = check_tensor(r, layer, &w[i]);
    return rc;
}

static int check_attention(const struct reader *r, int layer)
{
    const struct qw_hparams *hp = r->hp;
    int e = hp->n_embd, q = hp->n_head * hp->head_dim, kv = hp->n_head_kv * hp->head_dim;
    const struct want split[N_FULL] = {
        {"attn_q.weight", e, 2 * q, false},
        {"attn_k.weight", e, kv, false},
        {"attn_v.weight", e, kv, false},
        {"attn_output.weight", q, e, false},
        {"attn_q_norm.weight", hp->head_dim, 1, true},
        {"attn_k_norm.weight", hp->head_dim, 1, true},
    };
    const struct want fused[N_FUSED] = {
        {"attn_qkv.weight", e, 2 * q + 2 * kv, false}, split[3], split[4], split[5]};
    if (qw_tensor(r->g, layer, fused[0].suffix) == NULL)
        return check_all(r, layer, split, N_FULL);
    for (int i = 0; i < 3; i++)
        if (qw_tensor(r->g, layer, split[i].suffix) != NULL)
            return bad(
                r, "tensor 'blk.%d.%s' is there beside 'blk.%d.%s', which holds it too",
                layer, split[i].suffix, layer, fused[0].suffix);
    return check_all(r, layer, fused, N_FUSED);
}

static int check_gdn(const struct reader *r, int layer)
{
    const struct qw_hparams *hp = r->hp;
    int e = hp->n_embd, vd = hp->ssm_nv * hp->ssm_dk;
    int channels = 2 * hp->ssm_nk * hp->ssm_dk + vd;
    const struct want all[N_GDN] = {
        {"attn_qkv.weight", e, channels, false},
        {"attn_gate.weight", e, vd, false},
        {"ssm_alpha.weight", e, hp->ssm_nv, false},
        {"ssm_beta.weight", e, hp->ssm_nv, false},
        {"ssm_conv1d.weight", hp->ssm_conv, channels, true},
        {"ssm_dt.bias", hp->ssm_nv, 1, true},
        {"ssm_a", hp->ssm_nv, 1, true},
        {"ssm_norm.weight", hp->ssm_dk, 1, true},
        {"ssm_out.weight", vd, e, false},
    };
    return check_all(r, layer, all, N_GDN);
}

static int check_layers(const struct reader *r)
{
    const struct qw_hparams *hp = r->hp;
    const struct want common[N_COMMON] = {
        {"attn_norm.weight", hp->n_embd, 1, true},
        {"post_attention_norm.weight", hp->n_embd, 1, true},
        {"ffn_gate.weight", hp->n_embd, hp->n_ff, false},
        {"ffn_up.weight", hp->n_embd, hp->n_ff, false},
        {"ffn_down.weight", hp->n_ff, hp->n_embd, false},
    };
    int rc = QW_OK;
    for (int i = 0; i < hp->n_layer && rc == QW_OK; i++) {
        rc = check_all(r, i, common, N_COMMON);
        if (rc == QW_OK)
            rc = hp->full[i] ? check_attention(r, i) : check_gdn(r, i);
    }
    return rc;
}

static int check_model(const struct reader *r)
{
    struct qw_hparams *hp = r->hp;
    const struct want top[] = {
        {"token_embd.weight", hp->n_embd, hp->n_vocab, false},
        {"output_norm.weight", hp->n_embd, 1, true},
        {"output.weight", hp->n_embd, hp->n_vocab, false},
    };
    hp->tied = qw_gguf_tensor(r->g, top[2].suffix) == NULL;
    int rc = check_all(r, -1, top, hp->tied ? 2 : 3);
    return rc == QW_OK ? check_layers(r) : rc;
}

static bool ends_with(struct qw_str s, const char *end)
{
    size_t n = strlen(end);
    return s.len >= n && memcmp(s.data + s.len - n, end, n) == 0;
}

/* NVFP4 files keep factors beside their weights; read without them, every number is
 * wrong. */
static int check_scales(const struct reader *r)
{
    for (size_t i = 0; i < qw_gguf_n_tensors(r->g); i++) {
        const struct qw_gguf_tensor *t = qw_gguf_tensor_at(r->g, i);
        if (ends_with(t->name, ".scale") || ends_with(t->name, ".input_scale")) {
            char shown[SHOWN];
            qw_escape(shown, sizeof(shown), t->name.data, t->name.len);
            return bad(r,
                       "tensor '%s': scales beside the weights: NVFP4 files are not "
                       "supported",
                       shown);
        }
    }
    return QW_OK;
}

/* ---- what the kernels need beyond the format ---- */

static int check_limits(const struct reader *r)
{
    const struct qw_hparams *hp = r->hp;
    const struct {
        const char *key;
        int value;
    } multiples[] = {
        {KEY("embedding_length"), hp->n_embd},
        {KEY("feed_forward_length"), hp->n_ff},
        {KEY("attention.key_length"), hp->head_dim},
        {KEY("ssm.state_size"), hp->ssm_dk},
    };
    for (size_t i = 0; i < sizeof(multiples) / sizeof(multiples[0]); i++)
        if (multiples[i].value % BLOCK != 0)
            return bad(r,
                       "key '%s': %d is not supported: the kernels need a multiple of %d",
                       multiples[i].key, multiples[i].value, BLOCK);
    if (hp->ssm_dk > MAX_SSM_DIM)
        return bad(
            r, "key '" KEY("ssm.state_size") "': %d is not supported (allowed: up to %d)",
            hp->ssm_dk, MAX_SSM_DIM);
    return QW_OK;
}

/* Multi-token prediction is not run: say so once where a file has it. */
static void log_nextn(const struct reader *r)
{
    const struct qw_hparams *hp = r->hp;
    bool there = qw_tensor(r->g, hp->n_layer, "nextn.eh_proj.weight") != NULL;
    if (hp->n_nextn == 0 && !there)
        return;
    qw_log(QW_INFO, "block %d predicts further tokens (MTP, %s%s): not used", hp->n_layer,
           hp->n_nextn ? "declared" : "not declared",
           there ? "" : ", its tensors are absent");
}

int qw_hparams_read(const struct qw_gguf *g, struct qw_hparams *out, struct qw_err *err)
{
    struct qw_hparams hp = {0};
    const struct reader r = {g, &hp, err};
    static int (*const steps[])(const struct reader *) = {
        check_architecture, read_layers,  read_sizes,  read_ssm,     read_rope,
        check_vocabulary,   check_scales, check_model, check_limits,
    };
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        int rc = steps[i](&r);
        if (rc != QW_OK)
            return rc;
    }
    log_nextn(&r);
    *out = hp;
    return QW_OK;
}
