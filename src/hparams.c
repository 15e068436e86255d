/* SPDX-License-Identifier: MIT */
#include "hparams_read.h"

#include <inttypes.h>
#include <stdio.h>

#define ARCH "qwen35"
#define KEY(name) ARCH "." name

enum {
    N_COMMON = 5,
    N_FULL = 6,
    N_FUSED = 4,
    N_GDN = 9,
    MAX_SSM_DIM = 256, /* what the GDN kernels hold */
};

/* One read: file and message, result. */
struct reader {
    struct qw_hread in;
    struct qw_hparams *hp;
};

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

static int check_architecture(const struct reader *r)
{
    struct qw_str arch;
    char shown[QW_SHOWN];
    int rc = qw_gguf_string(r->in.g, "general.architecture", &arch, r->in.err);
    if (rc != QW_OK || qw_hread_same(arch, ARCH))
        return rc;
    qw_escape(shown, sizeof(shown), arch.data, arch.len);
    if (qw_hread_same(arch, "dflash") || qw_hread_same(arch, "dflash-draft"))
        return qw_hread_bad(
            &r->in,
            "key 'general.architecture': '%s' is a drafter, not a target model "
            "(supported here: " ARCH "; drafters go in model.draft)",
            shown);
    return qw_hread_bad(
        &r->in, "key 'general.architecture': '%s' is not supported (supported: " ARCH ")",
        shown);
}

/* A number that a file gives once or for each layer. Layers where use[i] equals which
 * must agree, because one set of kernels serves them all; which < 0 stands for every
 * layer. */
static int read_per_layer(const struct reader *r, const char *name, int which, int hi,
                          int *out)
{
    const struct qw_gguf_key *k = qw_gguf_find(r->in.g, name);
    char text[32];
    if (k == NULL || k->type != QW_GGUF_ARR)
        return qw_hread_int(&r->in, name, 1, hi, out);
    if (!qw_hread_integers(k))
        return qw_hread_bad(
            &r->in, "key '%s': has type %s, must be an integer or an array of them", name,
            qw_hread_describe(k, text));
    if (k->count < (uint64_t)r->hp->n_layer)
        return qw_hread_bad(&r->in, "key '%s': %" PRIu64 " entries for %d layers", name,
                            k->count, r->hp->n_layer);
    int first = -1;
    for (int i = 0; i < r->hp->n_layer; i++) {
        if (which >= 0 && r->hp->full[i] != (which != 0))
            continue;
        int64_t v = qw_gguf_elem_int(k, (uint64_t)i);
        if (v < 1 || v > hi)
            return qw_hread_bad(&r->in,
                                "key '%s': entry %d: %" PRId64
                                " is out of range (allowed: 1 to %d)",
                                name, i, v, hi);
        if (first >= 0 && v != *out)
            return qw_hread_bad(&r->in,
                                "key '%s': %" PRId64
                                " in layer %d but %d in layer %d: layers of "
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
    const struct qw_gguf_key *k = qw_gguf_find(r->in.g, name);
    struct qw_hparams *hp = r->hp;
    char text[32];
    int interval, n_full = 0;
    int rc = qw_hread_int_or(&r->in, KEY("full_attention_interval"), 4, 1, QW_MAX_LAYERS,
                             &interval);
    if (rc != QW_OK)
        return rc;
    if (k != NULL && k->elem != QW_GGUF_BOOL)
        return qw_hread_bad(&r->in, "key '%s': has type %s, must be array of bool", name,
                            qw_hread_describe(k, text));
    if (k != NULL && k->type == QW_GGUF_ARR && k->count < (uint64_t)hp->n_layer)
        return qw_hread_bad(&r->in, "key '%s': %" PRIu64 " entries for %d layers", name,
                            k->count, hp->n_layer);
    for (int i = 0; i < hp->n_layer; i++) {
        uint64_t at = k != NULL && k->type == QW_GGUF_ARR ? (uint64_t)i : 0;
        hp->full[i] = k != NULL ? qw_gguf_elem_int(k, at) == 0 : (i + 1) % interval == 0;
        n_full += hp->full[i];
    }
    if (n_full == 0 || n_full == hp->n_layer)
        return qw_hread_bad(
            &r->in,
            "key '%s': %d of %d layers are full attention: a model without layers of "
            "both kinds is not supported",
            k != NULL ? name : KEY("full_attention_interval"), n_full, hp->n_layer);
    return QW_OK;
}

static int read_layers(const struct reader *r)
{
    int blocks, rc;
    struct qw_hparams *hp = r->hp;
    if ((rc = qw_hread_int(&r->in, KEY("block_count"), 1, QW_MAX_LAYERS, &blocks)) !=
            QW_OK ||
        (rc = qw_hread_int_or(&r->in, KEY("nextn_predict_layers"), 0, 0, 1,
                              &hp->n_nextn)) != QW_OK)
        return rc;
    hp->n_layer = blocks - hp->n_nextn;
    if (hp->n_layer < 1)
        return qw_hread_bad(
            &r->in,
            "key '" KEY("block_count") "': %d blocks, of which %d predict further "
                                       "tokens: no layer is left",
            blocks, hp->n_nextn);
    return read_layer_kinds(r);
}

static int read_sizes(const struct reader *r)
{
    struct qw_hparams *hp = r->hp;
    int v_dim, rc;
    if ((rc = qw_hread_int(&r->in, KEY("context_length"), 1, QW_MAX_CONTEXT,
                           &hp->n_ctx_train)) != QW_OK ||
        (rc = qw_hread_int(&r->in, KEY("embedding_length"), 1, QW_MAX_WIDTH,
                           &hp->n_embd)) != QW_OK ||
        (rc = read_per_layer(r, KEY("feed_forward_length"), -1, QW_MAX_FF, &hp->n_ff)) !=
            QW_OK ||
        (rc = read_per_layer(r, KEY("attention.head_count"), 1, QW_MAX_HEADS,
                             &hp->n_head)) != QW_OK ||
        (rc = read_per_layer(r, KEY("attention.head_count_kv"), 1, QW_MAX_HEADS,
                             &hp->n_head_kv)) != QW_OK ||
        (rc = qw_hread_int(&r->in, KEY("attention.key_length"), 1, QW_MAX_HEAD_DIM,
                           &hp->head_dim)) != QW_OK ||
        (rc = qw_hread_int(&r->in, KEY("attention.value_length"), 1, QW_MAX_HEAD_DIM,
                           &v_dim)) != QW_OK)
        return rc;
    if (v_dim != hp->head_dim)
        return qw_hread_bad(
            &r->in,
            "key '" KEY(
                "attention.value_length") "': %d differs from "
                                          "'" KEY(
                                              "attention.key_length") "', which is %d",
            v_dim, hp->head_dim);
    if (hp->head_dim % 2 != 0)
        return qw_hread_bad(&r->in, "key '" KEY("attention.key_length") "': %d is odd",
                            hp->head_dim);
    if (hp->n_head % hp->n_head_kv != 0)
        return qw_hread_bad(
            &r->in,
            "key '" KEY("attention.head_count_kv") "': %d does not divide the %d of "
                                                   "'" KEY("attention.head_count") "'",
            hp->n_head_kv, hp->n_head);
    return QW_OK;
}

static int read_ssm(const struct reader *r)
{
    struct qw_hparams *hp = r->hp;
    int inner, rc;
    if ((rc = qw_hread_int(&r->in, KEY("ssm.conv_kernel"), 2, 16, &hp->ssm_conv)) !=
            QW_OK ||
        (rc = qw_hread_int(&r->in, KEY("ssm.state_size"), 1, QW_MAX_HEAD_DIM,
                           &hp->ssm_dk)) != QW_OK ||
        (rc = qw_hread_int(&r->in, KEY("ssm.group_count"), 1, QW_MAX_HEADS,
                           &hp->ssm_nk)) != QW_OK ||
        (rc = qw_hread_int(&r->in, KEY("ssm.time_step_rank"), 1, QW_MAX_HEADS,
                           &hp->ssm_nv)) != QW_OK ||
        (rc = qw_hread_int(&r->in, KEY("ssm.inner_size"), 1,
                           QW_MAX_HEADS * QW_MAX_HEAD_DIM, &inner)) != QW_OK)
        return rc;
    if (hp->ssm_nv % hp->ssm_nk != 0)
        return qw_hread_bad(
            &r->in,
            "key '" KEY("ssm.group_count") "': %d does not divide the %d of "
                                           "'" KEY("ssm.time_step_rank") "'",
            hp->ssm_nk, hp->ssm_nv);
    if (inner != hp->ssm_nv * hp->ssm_dk)
        return qw_hread_bad(
            &r->in,
            "key '" KEY("ssm.inner_size") "': %d, must be time_step_rank x state_size "
                                          "= %d x %d",
            inner, hp->ssm_nv, hp->ssm_dk);
    return QW_OK;
}

static int read_rope(const struct reader *r)
{
    struct qw_hparams *hp = r->hp;
    int rc =
        qw_hread_int(&r->in, KEY("rope.dimension_count"), 2, QW_MAX_HEAD_DIM, &hp->n_rot);
    if (rc != QW_OK)
        return rc;
    if (hp->n_rot % 2 != 0 || hp->n_rot > hp->head_dim)
        return qw_hread_bad(
            &r->in,
            "key '" KEY("rope.dimension_count") "': %d (allowed: even numbers up to "
                                                "the head size, %d)",
            hp->n_rot, hp->head_dim);
    if ((rc = qw_hread_sections(&r->in, ARCH, hp->n_rot)) != QW_OK ||
        (rc = qw_hread_scaling(&r->in, ARCH)) != QW_OK ||
        (rc = qw_hread_rope_base(&r->in, ARCH, &hp->rope_base)) != QW_OK)
        return rc;
    return qw_hread_eps(&r->in, ARCH, &hp->eps);
}

/* ---- vocabulary ---- */

static int check_vocabulary(const struct reader *r)
{
    const struct qw_gguf_tensor *t = qw_gguf_tensor(r->in.g, "token_embd.weight");
    if (t == NULL)
        return qw_hread_bad(&r->in, "tensor 'token_embd.weight' is missing");
    if (t->ne[1] > QW_MAX_VOCAB)
        return qw_hread_bad(
            &r->in, "tensor 'token_embd.weight': %" PRIu64 " rows (allowed: up to %d)",
            t->ne[1], QW_MAX_VOCAB);
    r->hp->n_vocab = (int)t->ne[1];
    return qw_hread_vocabulary(&r->in, ARCH, r->hp->n_vocab,
                               "the rows of tensor 'token_embd.weight' are");
}

/* ---- tensors ---- */

static int check_attention(const struct reader *r, int layer)
{
    const struct qw_hparams *hp = r->hp;
    int e = hp->n_embd, q = hp->n_head * hp->head_dim, kv = hp->n_head_kv * hp->head_dim;
    const struct qw_want split[N_FULL] = {
        {"attn_q.weight", e, 2 * q, false},
        {"attn_k.weight", e, kv, false},
        {"attn_v.weight", e, kv, false},
        {"attn_output.weight", q, e, false},
        {"attn_q_norm.weight", hp->head_dim, 1, true},
        {"attn_k_norm.weight", hp->head_dim, 1, true},
    };
    const struct qw_want fused[N_FUSED] = {
        {"attn_qkv.weight", e, 2 * q + 2 * kv, false}, split[3], split[4], split[5]};
    if (qw_tensor(r->in.g, layer, fused[0].suffix) == NULL)
        return qw_hread_tensors(&r->in, layer, split, N_FULL);
    for (int i = 0; i < 3; i++)
        if (qw_tensor(r->in.g, layer, split[i].suffix) != NULL)
            return qw_hread_bad(
                &r->in,
                "tensor 'blk.%d.%s' is there beside 'blk.%d.%s', which holds it too",
                layer, split[i].suffix, layer, fused[0].suffix);
    return qw_hread_tensors(&r->in, layer, fused, N_FUSED);
}

static int check_gdn(const struct reader *r, int layer)
{
    const struct qw_hparams *hp = r->hp;
    int e = hp->n_embd, vd = hp->ssm_nv * hp->ssm_dk;
    int channels = 2 * hp->ssm_nk * hp->ssm_dk + vd;
    const struct qw_want all[N_GDN] = {
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
    return qw_hread_tensors(&r->in, layer, all, N_GDN);
}

static int check_layer(const struct reader *r, int i, bool full)
{
    const struct qw_hparams *hp = r->hp;
    const struct qw_want common[N_COMMON] = {
        {"attn_norm.weight", hp->n_embd, 1, true},
        {"post_attention_norm.weight", hp->n_embd, 1, true},
        {"ffn_gate.weight", hp->n_embd, hp->n_ff, false},
        {"ffn_up.weight", hp->n_embd, hp->n_ff, false},
        {"ffn_down.weight", hp->n_ff, hp->n_embd, false},
    };
    int rc = qw_hread_tensors(&r->in, i, common, N_COMMON);
    if (rc != QW_OK)
        return rc;
    return full ? check_attention(r, i) : check_gdn(r, i);
}

static int check_model(const struct reader *r)
{
    struct qw_hparams *hp = r->hp;
    const struct qw_want top[] = {
        {"token_embd.weight", hp->n_embd, hp->n_vocab, false},
        {"output_norm.weight", hp->n_embd, 1, true},
        {"output.weight", hp->n_embd, hp->n_vocab, false},
    };
    hp->tied = qw_gguf_tensor(r->in.g, top[2].suffix) == NULL;
    int rc = qw_hread_scales(&r->in);
    if (rc == QW_OK)
        rc = qw_hread_tensors(&r->in, -1, top, hp->tied ? 2 : 3);
    for (int i = 0; i < hp->n_layer && rc == QW_OK; i++)
        rc = check_layer(r, i, hp->full[i]);
    return rc;
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
    for (size_t i = 0; i < sizeof(multiples) / sizeof(multiples[0]); i++) {
        int rc = qw_hread_blocks(&r->in, multiples[i].key, multiples[i].value);
        if (rc != QW_OK)
            return rc;
    }
    if (hp->ssm_dk > MAX_SSM_DIM)
        return qw_hread_bad(
            &r->in,
            "key '" KEY("ssm.state_size") "': %d is not supported (allowed: up to %d)",
            hp->ssm_dk, MAX_SSM_DIM);
    return QW_OK;
}

/* ---- the block that predicts further tokens (MTP) ---- */

static int check_mtp(const struct reader *r)
{
    const struct qw_hparams *hp = r->hp;
    const int e = hp->n_embd, layer = hp->n_layer;
    const struct qw_want all[] = {
        {QW_MTP_EH_PROJ, 2 * e, e, false},    {QW_MTP_ENORM, e, 1, true},
        {QW_MTP_HNORM, e, 1, true},           {QW_MTP_HEAD_NORM, e, 1, true},
        {QW_MTP_HEAD, e, hp->n_vocab, false}, {QW_MTP_EMBED, e, hp->n_vocab, false},
    };
    int rc = QW_OK;
    for (int i = 0; i < 6 && rc == QW_OK; i++)
        if (i < 3 || qw_tensor(r->in.g, layer, all[i].suffix) != NULL)
            rc = qw_hread_tensors(&r->in, layer, &all[i], 1);
    return rc == QW_OK ? check_layer(r, layer, true) : rc;
}

/* The target runs without the block, so a wrong one does not stop it; but whoever asks
 * for MTP gets the reason. Said once where a file has or declares one. */
static void find_mtp(const struct reader *r)
{
    struct qw_hparams *hp = r->hp;
    struct qw_err err = {""};
    const struct reader own = {{r->in.g, &err}, hp};
    const bool there = qw_tensor(r->in.g, hp->n_layer, QW_MTP_EH_PROJ) != NULL;
    hp->mtp = hp->n_nextn == 1 && check_mtp(&own) == QW_OK;
    if (hp->n_nextn == 0)
        snprintf(hp->mtp_why, sizeof(hp->mtp_why), "key '%s' declares no MTP block",
                 KEY("nextn_predict_layers"));
    else if (!hp->mtp)
        snprintf(hp->mtp_why, sizeof(hp->mtp_why), "%s", qw_hread_reason(&own.in));
    if (hp->mtp)
        qw_log(QW_INFO, "block %d predicts further tokens (MTP)", hp->n_layer);
    else if (hp->n_nextn != 0 || there)
        qw_log(QW_INFO,
               "block %d predicts further tokens (MTP, %s%s): cannot be used: %s",
               hp->n_layer, hp->n_nextn ? "declared" : "not declared",
               there ? "" : ", its tensors are absent", hp->mtp_why);
}

int qw_hparams_read(const struct qw_gguf *g, struct qw_hparams *out, struct qw_err *err)
{
    struct qw_hparams hp = {0};
    const struct reader r = {{g, err}, &hp};
    static int (*const steps[])(const struct reader *) = {
        check_architecture, read_layers,      read_sizes,  read_ssm,
        read_rope,          check_vocabulary, check_model, check_limits,
    };
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        int rc = steps[i](&r);
        if (rc != QW_OK)
            return rc;
    }
    find_mtp(&r);
    *out = hp;
    return QW_OK;
}
