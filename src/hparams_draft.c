/* SPDX-License-Identifier: MIT */
#include "hparams_draft.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "hparams_read.h"

enum { MAX_BLOCK = 256, MASKED_BLOCK = 16 };

/* One read: file and message, prefix of the keys, result. */
struct reader {
    struct qw_hread in;
    const char *arch;
    const struct qw_hparams *target;
    struct qw_draft_hparams *hp;
};

static struct qw_hread_name key(const struct reader *r, const char *suffix)
{
    return qw_hread_key(r->arch, suffix);
}

static int read_int(const struct reader *r, const char *suffix, int lo, int hi, int *out)
{
    return qw_hread_int(&r->in, key(r, suffix).text, lo, hi, out);
}

/* ---- which drafter it is ---- */

static int check_architecture(struct reader *r)
{
    static const char *const known[] = {"dflash", "dflash-draft"};
    struct qw_str arch;
    char shown[QW_SHOWN];
    int rc = qw_gguf_string(r->in.g, "general.architecture", &arch, r->in.err);
    if (rc != QW_OK)
        return rc;
    for (int i = 0; i < 2; i++)
        if (qw_hread_same(arch, known[i]))
            r->arch = known[i];
    if (r->arch != NULL)
        return QW_OK;
    qw_escape(shown, sizeof(shown), arch.data, arch.len);
    return qw_hread_bad(&r->in,
                        "key 'general.architecture': '%s' is not a drafter that is "
                        "supported (supported: %s, %s)",
                        shown, known[0], known[1]);
}

static bool begins_with(struct qw_str s, const char *text)
{
    const size_t n = strlen(text);
    return s.len >= n && memcmp(s.data, text, n) == 0;
}

/* The name behind "blk.<number>.". */
static struct qw_str inside_block(struct qw_str s)
{
    size_t at = strlen("blk.");
    if (!begins_with(s, "blk."))
        return s;
    while (at < s.len && s.data[at] >= '0' && s.data[at] <= '9')
        at++;
    if (at < s.len && s.data[at] == '.')
        at++;
    return (struct qw_str){s.data + at, s.len - at};
}

/* Drafters that look alike and compute something else: what gives each away. */
static int check_kind(struct reader *r)
{
    static const char *const keys[] = {"conv_kernel_size", "conv_group_size",
                                       "selector_rank", "selector_top_k"};
    static const struct {
        const char *name, *kind;
    } tensors[] = {
        {"d2t", "a drafter with a vocabulary of its own"},
        {"markov_w1", "a DSpark drafter"},
        {"selector_", "a DFlash2 drafter"},
        {"attn_conv_", "a DFlash2 drafter"},
        {"ffn_conv_", "a DFlash2 drafter"},
        {"conf_proj", "a drafter with a head for its confidence"},
    };
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        const struct qw_hread_name name = key(r, keys[i]);
        if (qw_gguf_find(r->in.g, name.text) != NULL)
            return qw_hread_bad(
                &r->in, "key '%s': a DFlash2 drafter, which is not supported", name.text);
    }
    for (size_t i = 0; i < qw_gguf_n_tensors(r->in.g); i++) {
        const struct qw_str whole = qw_gguf_tensor_at(r->in.g, i)->name;
        const struct qw_str name = inside_block(whole);
        char shown[QW_SHOWN];
        for (size_t k = 0; k < sizeof(tensors) / sizeof(tensors[0]); k++) {
            if (!begins_with(name, tensors[k].name))
                continue;
            qw_escape(shown, sizeof(shown), whole.data, whole.len);
            return qw_hread_bad(&r->in, "tensor '%s': %s, which is not supported", shown,
                                tensors[k].kind);
        }
    }
    return qw_hread_scales(&r->in);
}

/* ---- sizes ---- */

static int read_sizes(struct reader *r)
{
    struct qw_draft_hparams *hp = r->hp;
    const int max_hd = QW_MAX_HEAD_DIM, max_heads = QW_MAX_HEADS;
    const struct {
        const char *suffix;
        int hi, *out;
    } all[] = {
        {"block_count", QW_MAX_LAYERS, &hp->n_layer},
        {"context_length", QW_MAX_CONTEXT, &hp->n_ctx_train},
        {"embedding_length", QW_MAX_WIDTH, &hp->n_embd},
        {"feed_forward_length", QW_MAX_FF, &hp->n_ff},
        {"attention.head_count", max_heads, &hp->n_head},
        {"attention.head_count_kv", max_heads, &hp->n_head_kv},
        {"attention.key_length", max_hd, &hp->head_dim},
    };
    int v_dim, rc;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if ((rc = read_int(r, all[i].suffix, 1, all[i].hi, all[i].out)) != QW_OK)
            return rc;
    if ((rc = read_int(r, "attention.value_length", 1, max_hd, &v_dim)) != QW_OK)
        return rc;
    if (v_dim != hp->head_dim)
        return qw_hread_bad(&r->in,
                            "key '%s.attention.value_length': %d differs from "
                            "'%s.attention.key_length', which is %d",
                            r->arch, v_dim, r->arch, hp->head_dim);
    if (hp->n_head % hp->n_head_kv != 0)
        return qw_hread_bad(&r->in,
                            "key '%s.attention.head_count_kv': %d does not divide the %d "
                            "of '%s.attention.head_count'",
                            r->arch, hp->n_head_kv, hp->n_head, r->arch);
    if (hp->n_embd != r->target->n_embd)
        return qw_hread_bad(&r->in,
                            "key '%s.embedding_length': %d, but the target's is %d: a "
                            "drafter for another model",
                            r->arch, hp->n_embd, r->target->n_embd);
    return QW_OK;
}

/* Kernels work on whole blocks; the width was compared with the target, which was
 * checked. */
static int check_limits(struct reader *r)
{
    int rc =
        qw_hread_blocks(&r->in, key(r, "attention.key_length").text, r->hp->head_dim);
    if (rc == QW_OK)
        rc = qw_hread_blocks(&r->in, key(r, "feed_forward_length").text, r->hp->n_ff);
    return rc == QW_OK
               ? qw_hread_blocks(&r->in, key(r, "embedding_length").text, r->hp->n_embd)
               : rc;
}

static int read_rope(struct reader *r)
{
    struct qw_draft_hparams *hp = r->hp;
    const struct qw_hread_name count = key(r, "rope.dimension_count");
    const struct qw_hread_name sections = key(r, "rope.dimension_sections");
    int n_rot, rc = qw_hread_int_or(&r->in, count.text, hp->head_dim, 1, QW_MAX_HEAD_DIM,
                                    &n_rot);
    if (rc != QW_OK)
        return rc;
    if (n_rot != hp->head_dim)
        return qw_hread_bad(&r->in,
                            "key '%s': %d is not supported: it must be the head size, %d",
                            count.text, n_rot, hp->head_dim);
    if (qw_gguf_find(r->in.g, sections.text) != NULL)
        rc = qw_hread_sections(&r->in, r->arch, n_rot);
    if (rc == QW_OK)
        rc = qw_hread_scaling(&r->in, r->arch);
    if (rc == QW_OK)
        rc = qw_hread_rope_base(&r->in, r->arch, &hp->rope_base);
    return rc == QW_OK ? qw_hread_eps(&r->in, r->arch, &hp->eps) : rc;
}

/* ---- block, taps, window ---- */

static int read_block(struct reader *r)
{
    struct qw_draft_hparams *hp = r->hp;
    int rc = qw_hread_int_or(&r->in, key(r, "block_size").text, MASKED_BLOCK, 2,
                             MAX_BLOCK, &hp->block_size);
    if (rc == QW_OK)
        rc = qw_gguf_bool(r->in.g, key(r, "attention.causal").text, false, &hp->causal,
                          r->in.err);
    if (rc != QW_OK)
        return rc;
    return qw_hread_int(&r->in, "tokenizer.ggml.mask_token_id", 0, r->target->n_vocab - 1,
                        &hp->mask_id);
}

/* Ids count the streams that enter layers: the converter has already added one to the
 * checkpoint's. */
static int read_taps(struct reader *r)
{
    const struct qw_hread_name name = key(r, "target_layers");
    const struct qw_gguf_key *k = qw_gguf_find(r->in.g, name.text);
    char text[32];
    if (k == NULL)
        return qw_hread_bad(&r->in, "key '%s' is missing", name.text);
    if (k->type != QW_GGUF_ARR || !qw_hread_integers(k))
        return qw_hread_bad(&r->in, "key '%s': has type %s, must be array of i32",
                            name.text, qw_hread_describe(k, text));
    if (k->count < 1 || k->count > QW_MAX_TAPS)
        return qw_hread_bad(&r->in, "key '%s': %" PRIu64 " entries (allowed: 1 to %d)",
                            name.text, k->count, QW_MAX_TAPS);
    r->hp->n_taps = (int)k->count;
    for (int i = 0; i < r->hp->n_taps; i++) {
        const int64_t v = qw_gguf_elem_int(k, (uint64_t)i);
        if (v < 0 || v > r->target->n_layer)
            return qw_hread_bad(
                &r->in,
                "key '%s': entry %d: %" PRId64
                " is out of range (allowed: 0 to %d, the target's layers)",
                name.text, i, v, r->target->n_layer);
        r->hp->tap[i] = (int)v;
    }
    return QW_OK;
}

static int read_window(struct reader *r)
{
    const struct qw_hread_name name = key(r, "attention.sliding_window_pattern");
    const struct qw_gguf_key *k = qw_gguf_find(r->in.g, name.text);
    struct qw_draft_hparams *hp = r->hp;
    char text[32];
    int rc = qw_hread_int_or(&r->in, key(r, "attention.sliding_window").text, 0, 0,
                             QW_MAX_CONTEXT, &hp->window);
    if (rc != QW_OK || hp->window == 0)
        return rc;
    if (k == NULL)
        return qw_hread_bad(&r->in,
                            "key '%s' is missing: '%s.attention.sliding_window' is %d",
                            name.text, r->arch, hp->window);
    if (k->type != QW_GGUF_ARR || k->elem != QW_GGUF_BOOL)
        return qw_hread_bad(&r->in, "key '%s': has type %s, must be array of bool",
                            name.text, qw_hread_describe(k, text));
    if (k->count != (uint64_t)hp->n_layer)
        return qw_hread_bad(&r->in, "key '%s': %" PRIu64 " entries for %d layers",
                            name.text, k->count, hp->n_layer);
    for (int i = 0; i < hp->n_layer; i++)
        hp->sliding[i] = qw_gguf_elem_int(k, (uint64_t)i) != 0;
    return QW_OK;
}

/* ---- what is not computed ---- */

/* Keys that may be there as long as they change nothing. */
static int check_neutral(struct reader *r)
{
    const double scale = 1.0 / sqrt((double)r->hp->head_dim);
    const struct {
        const char *suffix;
        double value, also;
    } all[] = {
        {"embedding_scale", 1, 1},         {"attention.scale", scale, scale},
        {"attention.value_scale", 1, 1},   {"logit_scale", 1, 0},
        {"final_logit_softcapping", 0, 0},
    };
    const struct qw_hread_name act = key(r, "hidden_activation");
    struct qw_str s;
    char shown[QW_SHOWN];
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        const struct qw_hread_name name = key(r, all[i].suffix);
        double v;
        int rc = qw_gguf_float(r->in.g, name.text, &all[i].value, &v, r->in.err);
        if (rc != QW_OK)
            return rc;
        /* the file's float may be the neighbour of the root */
        if (!(fabs(v - all[i].value) <= 1e-6 * all[i].value) && v != all[i].also)
            return qw_hread_bad(&r->in, "key '%s': %g is not supported (supported: %g)",
                                name.text, v, all[i].value);
    }
    if (qw_gguf_find(r->in.g, act.text) == NULL)
        return QW_OK;
    int rc = qw_gguf_string(r->in.g, act.text, &s, r->in.err);
    if (rc != QW_OK || qw_hread_same(s, "silu"))
        return rc;
    qw_escape(shown, sizeof(shown), s.data, s.len);
    return qw_hread_bad(&r->in, "key '%s': '%s' is not supported (supported: silu)",
                        act.text, shown);
}

static int check_vocabulary(struct reader *r)
{
    static const char *const own[] = {"token_embd.weight", "output.weight"};
    const int n_vocab = r->target->n_vocab;
    for (int i = 0; i < 2; i++) {
        const struct qw_gguf_tensor *t = qw_tensor(r->in.g, -1, own[i]);
        if (t != NULL && t->ne[1] != (uint64_t)n_vocab)
            return qw_hread_bad(&r->in,
                                "tensor '%s': %" PRIu64
                                " rows, but the target's vocabulary has %d",
                                own[i], t->ne[1], n_vocab);
    }
    return qw_hread_vocabulary(&r->in, r->arch, n_vocab, "the target's vocabulary has");
}

/* ---- tensors ---- */

static int check_layer(const struct reader *r, int i)
{
    const struct qw_draft_hparams *hp = r->hp;
    const int e = hp->n_embd, ff = hp->n_ff, hd = hp->head_dim;
    const int q = hp->n_head * hd, kv = hp->n_head_kv * hd;
    const struct qw_want all[] = {
        {"attn_norm.weight", e, 1, true},    {"ffn_norm.weight", e, 1, true},
        {"attn_q.weight", e, q, false},      {"attn_k.weight", e, kv, false},
        {"attn_v.weight", e, kv, false},     {"attn_output.weight", q, e, false},
        {"attn_q_norm.weight", hd, 1, true}, {"attn_k_norm.weight", hd, 1, true},
        {"ffn_gate.weight", e, ff, false},   {"ffn_up.weight", e, ff, false},
        {"ffn_down.weight", ff, e, false},
    };
    return qw_hread_tensors(&r->in, i, all, sizeof(all) / sizeof(all[0]));
}

static int check_tensors(struct reader *r)
{
    struct qw_draft_hparams *hp = r->hp;
    const int e = hp->n_embd;
    const struct qw_want top[] = {
        {"fc.weight", hp->n_taps * e, e, false},
        {"enc.output_norm.weight", e, 1, true},
        {"output_norm.weight", e, 1, true},
        {"token_embd.weight", e, r->target->n_vocab, false},
        {"output.weight", e, r->target->n_vocab, false},
    };
    int rc = qw_hread_tensors(&r->in, -1, top, 3);
    hp->own_embed = qw_tensor(r->in.g, -1, top[3].suffix) != NULL;
    hp->own_head = qw_tensor(r->in.g, -1, top[4].suffix) != NULL;
    if (rc == QW_OK && hp->own_embed)
        rc = qw_hread_tensors(&r->in, -1, &top[3], 1);
    if (rc == QW_OK && hp->own_head)
        rc = qw_hread_tensors(&r->in, -1, &top[4], 1);
    for (int i = 0; i < hp->n_layer && rc == QW_OK; i++)
        rc = check_layer(r, i);
    return rc;
}

int qw_draft_hparams_read(const struct qw_gguf *g, const struct qw_hparams *target,
                          struct qw_draft_hparams *out, struct qw_err *err)
{
    struct qw_draft_hparams hp = {0};
    struct reader r = {{g, err}, NULL, target, &hp};
    static int (*const steps[])(struct reader *) = {
        check_architecture, check_kind,    read_sizes,   check_vocabulary,
        read_rope,          read_block,    read_taps,    read_window,
        check_neutral,      check_tensors, check_limits,
    };
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        int rc = steps[i](&r);
        if (rc != QW_OK)
            return rc;
    }
    *out = hp;
    return QW_OK;
}
