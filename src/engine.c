/* SPDX-License-Identifier: MIT */
/* engine.c - a loaded model. The one place that turns options into each module's
 * arguments. */
#include "engine.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "config.h" /* with commit.h */
#include "hash.h"
#include "quant.h"

/* ---- options -> arguments ---- */

int qw_kv_bits(const char *type)
{
    return strcmp(type, "q8_0") == 0 ? 8 : strcmp(type, "f32") == 0 ? 32 : 16;
}

struct qw_drafting qw_engine_drafting(const struct qw_engine *e)
{
    struct qw_drafting d = {.e = e};
    qw_session_defaults(&d.p, e);
    return d;
}

struct qw_target_params qw_engine_target_params(const struct qw_engine *e,
                                                const struct qw_drafting *d)
{
    struct qw_target_params p = {.context = e->opt->model.context,
                                 .prefill = e->opt->batch.prefill,
                                 .kv_bits = qw_kv_bits(e->opt->kv.target),
                                 .all_logits = d->p.scoring};
    qw_engine_draft_target(d, &p);
    return p;
}

struct qw_sampling qw_engine_sampling(const struct qw_engine *e)
{
    const struct qw_options *o = e->opt;
    return (struct qw_sampling){.temperature = o->sampling.temperature,
                                .top_k = o->sampling.top_k,
                                .top_p = o->sampling.top_p,
                                .min_p = o->sampling.min_p,
                                .presence_penalty = o->sampling.presence_penalty,
                                .frequency_penalty = o->sampling.frequency_penalty,
                                .repeat_penalty = o->sampling.repeat_penalty,
                                .repeat_last = o->sampling.repeat_last,
                                .seed = o->sampling.seed};
}

int qw_engine_context(const struct qw_engine *e)
{
    return e->opt->model.context;
}

int qw_engine_max_tokens(const struct qw_engine *e)
{
    return e->opt->sampling.max_tokens;
}

int qw_engine_thinking_budget(const struct qw_engine *e)
{
    return e->opt->chat.thinking_budget > 0 ? e->opt->chat.thinking_budget : 0;
}

int qw_engine_n_vocab(const struct qw_engine *e)
{
    return e->hp.n_vocab;
}

static bool by_user(const struct qw_options *o, enum qw_option_id id)
{
    return o->source[id].line != QW_LINE_DEFAULT;
}

static const char *kernel_choice(const void *arg, const char *op)
{
    const struct qw_options *o = arg;
    for (int i = 0; i < QW_N_OPTIONS; i++) {
        const struct qw_option_desc *d = qw_option_desc((enum qw_option_id)i);
        if (strcmp(d->section, "kernels") == 0 && strcmp(d->key, op) == 0)
            return o->text[i];
    }
    return NULL;
}

/* What this version cannot do is refused when a file or -o asks for it, not passed over.
 */
static int refuse_unready(const struct qw_options *o, struct qw_err *err)
{
    if (strcmp(o->device.split, "none") != 0)
        return qw_fail(err, QW_EUSAGE,
                       "device.split: this version runs on one device; use none");
    return QW_OK;
}

/* ---- open ---- */

static int open_file(struct qw_engine *e, struct qw_err *err)
{
    const struct qw_options *o = e->opt;
    int rc = qw_gguf_open(&e->file, o->model.target, err);
    if (rc == QW_OK && e->level > QW_OPEN_TOKENIZER)
        rc = qw_hparams_read(e->file, &e->hp, err);
    if (rc == QW_OK)
        rc = qw_tok_open(&e->tok, e->file, strcmp(o->model.normalize, "nfc") == 0, err);
    if (rc == QW_OK)
        rc = qw_chat_open(&e->chat, e->file, o->chat.template, err);
    if (rc == QW_OK && e->level > QW_OPEN_TOKENIZER &&
        o->model.context > e->hp.n_ctx_train)
        rc = qw_fail(err, QW_EUSAGE,
                     "model.context = %d: %s was trained for at most %d tokens",
                     o->model.context, o->model.target, e->hp.n_ctx_train);
    return rc == QW_OK && e->level > QW_OPEN_TOKENIZER ? qw_engine_draft_file(e, err)
                                                       : rc;
}

static int open_device(struct qw_engine *e, struct qw_err *err)
{
    const struct qw_options *o = e->opt;
    const uint64_t reserve = o->device.memory_reserve == QW_SIZE_WORD
                                 ? QW_RESERVE_AUTO
                                 : o->device.memory_reserve;
    int rc = QW_OK;
    if (e->paper)
        e->dev = qw_dev_paper(reserve);
    else
        rc = qw_dev_open(&e->dev, o->device.platform, o->device.device, reserve, err);
    if (rc == QW_OK)
        rc = qw_model_plan(&e->model, e->file, e->dev->max_alloc,
                           qw_engine_drafts(e, "mtp"), err);
    return rc == QW_OK ? qw_engine_draft_plan(e, err) : rc;
}

static bool cpu_shape(const struct qw_engine *e)
{
    const char *shape = e->opt->device.shape;
    return strcmp(shape, "cpu") == 0 || (strcmp(shape, "gpu") != 0 && e->dev->cpu);
}

struct qw_kern_params qw_engine_kern_params(const struct qw_engine *e)
{
    return (struct qw_kern_params){.dk = e->hp.ssm_dk,
                                   .taps = e->hp.ssm_conv,
                                   .hd = e->hp.head_dim,
                                   .kv_bits = qw_kv_bits(e->opt->kv.target),
                                   .cpu_shape = cpu_shape(e),
                                   .backend = e->opt->device.backend,
                                   .kernel_dir = e->opt->device.kernel_dir,
                                   .choice = kernel_choice,
                                   .choice_arg = e->opt};
}

static int open_kernels(struct qw_engine *e, struct qw_err *err)
{
    const struct qw_kern_params p = qw_engine_kern_params(e);
    int rc = qw_kern_open(&e->kern, e->dev, &p, err);
    return rc == QW_OK ? qw_engine_draft_kernels(e, err) : rc;
}

static int open_model(struct qw_engine *e, bool show, struct qw_err *err)
{
    const struct qw_drafting d = qw_engine_drafting(e);
    const struct qw_target_params p = qw_engine_target_params(e, &d);
    struct qw_progress bar;
    int rc = qw_target_fits(e->model, &p, e->dev, err);
    if (rc == QW_OK) {
        qw_progress_start(&bar, "compiling kernels", show);
        qw_progress_step(&bar, 0, 0);
        rc = open_kernels(e, err);
        qw_progress_end(&bar);
    }
    if (rc == QW_OK)
        rc = qw_engine_packs(e, show, err);
    if (rc == QW_OK)
        rc = qw_model_load(e->model, e->kern, e->pack[QW_PACK_TARGET], show, err);
    if (rc == QW_OK)
        rc = qw_engine_draft_load(e, show, err);
    qw_engine_close_packs(e); /* what they held is on the device */
    return rc;
}

static int open_engine(struct qw_engine **out, const struct qw_options *options,
                       enum qw_open_level level, bool paper, bool show,
                       struct qw_err *err)
{
    struct qw_engine *e = qw_alloc(1, sizeof(*e));
    const double start = qw_now();
    e->opt = options;
    e->level = level;
    e->paper = paper;
    e->stop = options->sampling.stop.item;
    e->n_stop = (size_t)options->sampling.stop.n;
    int rc = refuse_unready(options, err);
    if (rc == QW_OK)
        rc = open_file(e, err);
    if (rc == QW_OK && level >= QW_OPEN_DEVICE)
        rc = open_device(e, err);
    if (rc == QW_OK && level == QW_OPEN_KERNELS)
        rc = open_kernels(e, err);
    if (rc == QW_OK && level == QW_OPEN_MODEL)
        rc = open_model(e, show, err);
    e->load_ms = 1e3 * (qw_now() - start);
    if (rc != QW_OK)
        qw_engine_close(e);
    else
        *out = e;
    return rc;
}

int qw_engine_open(struct qw_engine **out, const struct qw_options *options,
                   enum qw_open_level level, bool show, struct qw_err *err)
{
    return open_engine(out, options, level, false, show, err);
}

int qw_engine_open_paper(struct qw_engine **out, const struct qw_options *options,
                         enum qw_open_level level, struct qw_err *err)
{
    assert(level < QW_OPEN_MODEL);
    return open_engine(out, options, level, true, false, err);
}

void qw_engine_close(struct qw_engine *e)
{
    if (e == NULL)
        return;
    qw_engine_draft_close(e);
    qw_kern_close(e->kern);
    qw_model_close(e->model);
    qw_dev_close(e->dev);
    qw_chat_close(&e->chat);
    qw_tok_close(e->tok);
    qw_gguf_close(e->file);
    free(e);
}

double qw_engine_load_ms(const struct qw_engine *e)
{
    return e->load_ms;
}

/* ---- text ---- */

static int need_tok(const struct qw_engine *e, struct qw_err *err)
{
    if (e->tok != NULL)
        return QW_OK;
    return qw_fail(err, QW_EFILE,
                   "%s: no tokenizer in the file (tokenizer.ggml.model = none)",
                   e->opt->model.target);
}

int qw_engine_tokenize(struct qw_engine *e, const char *text, size_t len, bool specials,
                       struct qw_tokens *out, struct qw_err *err)
{
    struct qw_ids ids = {0};
    int rc = need_tok(e, err);
    if (rc != QW_OK)
        return rc;
    qw_tok_encode(e->tok, text, len, specials, &ids);
    *out = (struct qw_tokens){ids.id, ids.len};
    return QW_OK;
}

int qw_engine_detokenize(struct qw_engine *e, const int32_t *id, size_t n, char **text,
                         size_t *len, struct qw_err *err)
{
    struct qw_buf b = {0};
    struct qw_detok d;
    int rc = need_tok(e, err);
    if (rc != QW_OK)
        return rc;
    for (size_t i = 0; i < n; i++)
        if (id[i] < 0 || id[i] >= qw_tok_n_vocab(e->tok))
            return qw_fail(err, QW_EUSAGE, "token id %d is outside the vocabulary of %d",
                           id[i], qw_tok_n_vocab(e->tok));
    qw_detok_init(&d, e->tok, true);
    for (size_t i = 0; i < n; i++)
        qw_detok_feed(&d, id[i], &b);
    qw_detok_flush(&d, &b);
    qw_buf_add(&b, "", 0);
    *text = b.data;
    *len = b.len;
    return QW_OK;
}

int qw_engine_chat_prompt(struct qw_engine *e, const json_t *messages,
                          const json_t *tools, struct qw_tokens *out, struct qw_err *err)
{
    const char *thinking = e->opt->chat.thinking;
    const struct qw_chat_params p = {.thinking = strcmp(thinking, "on") == 0 ? QW_THINK_ON
                                                 : strcmp(thinking, "off") == 0
                                                     ? QW_THINK_OFF
                                                     : QW_THINK_AUTO,
                                     .tools = tools};
    struct qw_prompt prompt = {0};
    struct qw_ids ids = {0};
    int rc = need_tok(e, err);
    if (rc == QW_OK)
        rc = qw_chat_render(&e->chat, messages, &p, &prompt, err);
    if (rc != QW_OK)
        return rc;
    qw_chat_encode(e->tok, &prompt, &ids);
    qw_prompt_free(&prompt);
    *out = (struct qw_tokens){ids.id, ids.len};
    return QW_OK;
}

/* ---- descriptions ---- */

static json_t *json_text(const char *s)
{
    struct qw_buf b = {0};
    qw_buf_add_utf8(&b, s, strlen(s));
    json_t *text = json_stringn(b.data, b.len);
    qw_buf_free(&b);
    return text;
}

enum { SMALL_FILE = 64 << 20 }; /* hashed without being asked: a twentieth of a second */

/* Of a small file, a file hashed before, or when asked for. */
static bool model_hash(const char *path, const struct qw_gguf *file, bool always,
                       char hex[65])
{
    const bool small = qw_gguf_file_size(file) <= SMALL_FILE;
    char *cache = small ? NULL : qw_options_cache("sha256");
    const bool known = qw_hash_file(path, cache, !small && !always, hex);
    free(cache);
    return known;
}

bool qw_engine_target_hash(const struct qw_engine *e, bool always, char hex[65])
{
    return model_hash(e->opt->model.target, e->file, always, hex);
}

bool qw_engine_draft_hash(const struct qw_engine *e, bool always, char hex[65])
{
    return e->draft_file != NULL &&
           model_hash(e->opt->model.draft, e->draft_file, always, hex);
}

static json_t *target_hash(const struct qw_engine *e, bool sha256)
{
    char hex[65];
    return qw_engine_target_hash(e, sha256, hex) ? json_string(hex) : json_null();
}

static json_t *draft_hash(const struct qw_engine *e, bool sha256)
{
    char hex[65];
    return qw_engine_draft_hash(e, sha256, hex) ? json_string(hex) : json_null();
}

static json_t *kernel_table(const struct qw_engine *e)
{
    json_t *k = json_object();
    for (int i = 0; e->kern != NULL && i < qw_kern_n_ops(); i++)
        json_object_set_new(k, qw_kern_op(i), json_string(qw_kern_variant(e->kern, i)));
    return k;
}

static json_t *options_in_force(const struct qw_options *o)
{
    json_t *j = json_object();
    for (int i = 0; i < QW_N_OPTIONS; i++) {
        const struct qw_option_desc *d = qw_option_desc((enum qw_option_id)i);
        char *value = qw_option_format(o, (enum qw_option_id)i);
        char *name = qw_sprintf("%s.%s", d->section, d->key);
        if (by_user(o, (enum qw_option_id)i))
            json_object_set_new(j, name, json_text(value));
        free(name);
        free(value);
    }
    return j;
}

json_t *qw_engine_identity(struct qw_engine *e, bool sha256)
{
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:o}", "version", PACKAGE_VERSION,
        "commit", QW_COMMIT, "device", e->dev ? e->dev->name : "", "driver",
        e->dev ? e->dev->driver : "", "platform", e->dev ? e->dev->platform_name : "",
        "kernels", kernel_table(e), "target_sha256", target_hash(e, sha256),
        "draft_sha256", draft_hash(e, sha256), "options", options_in_force(e->opt));
}

static void add_device(void *arg, const struct qw_dev_desc *d)
{
    json_array_append_new(
        arg,
        json_pack("{s:i, s:s, s:i, s:s, s:s, s:s, s:s, s:I, s:I, s:i}", "platform",
                  d->platform, "platform_name", d->platform_name, "device", d->device,
                  "name", d->name, "version", d->version, "driver", d->driver, "type",
                  d->gpu   ? "gpu"
                  : d->cpu ? "cpu"
                           : "other",
                  "memory_bytes", (json_int_t)d->mem, "largest_buffer_bytes",
                  (json_int_t)d->max_alloc, "compute_units", (int)d->units));
}

/* Tensors by type: how many, how many bytes, the layout and kernel each takes. A type has
 * a second row for those whose columns the kernel of their op does not take. */
static json_t *tensor_table(const struct qw_engine *e)
{
    static const char *const generic[] = {"generic (gpu shape)", "generic (cpu shape)"};
    json_t *all = json_object();
    for (size_t i = 0; i < qw_gguf_n_tensors(e->file); i++) {
        const struct qw_gguf_tensor *t = qw_gguf_tensor_at(e->file, i);
        const struct qw_type_info *info = qw_type_info(t->type);
        const enum qw_layout base = qw_pack_layout(t->type);
        const int K = (int)t->ne[0], op = (int)qw_kern_matmul(base);
        const bool odd =
            e->kern->variant[op] != QW_GENERIC && !qw_kern_matmul_xe2(e->kern, base, K);
        char *name = qw_sprintf("%s%s", info->name, odd ? " odd" : "");
        json_t *row = json_object_get(all, name);
        if (row == NULL) {
            row = json_pack("{s:i, s:i, s:s, s:s, s:s}", "tensors", 0, "bytes", 0,
                            "layout", qw_layout_name(qw_kern_layout(e->kern, base, K)),
                            "kernel", qw_kern_op(op), "variant",
                            odd ? generic[e->kern->cpu_shape]
                                : qw_kern_variant(e->kern, op));
            json_object_set_new(all, name, row);
        }
        free(name);
        json_object_set_new(
            row, "tensors",
            json_integer(json_integer_value(json_object_get(row, "tensors")) + 1));
        json_object_set_new(
            row, "bytes",
            json_integer(json_integer_value(json_object_get(row, "bytes")) +
                         (json_int_t)t->size));
    }
    return all;
}

static json_t *model_table(struct qw_engine *e, bool sha256)
{
    const struct qw_hparams *hp = &e->hp;
    struct qw_str name = {"", 0};
    char text[128];
    int full = 0;
    for (int i = 0; i < hp->n_layer; i++)
        full += hp->full[i];
    if (qw_gguf_find(e->file, "general.name") != NULL)
        qw_gguf_string(e->file, "general.name", &name, NULL);
    qw_escape(text, sizeof(text), name.data, name.len);
    json_t *j = json_pack(
        "{s:o, s:s, s:s, s:I, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, "
        "s:i, s:b, s:i}",
        "file", json_text(e->opt->model.target), "name", text, "architecture", "qwen35",
        "file_bytes", (json_int_t)qw_gguf_file_size(e->file), "layers", hp->n_layer,
        "full_attention_layers", full, "embedding", hp->n_embd, "feed_forward", hp->n_ff,
        "heads", hp->n_head, "kv_heads", hp->n_head_kv, "head_size", hp->head_dim,
        "rotated_dims", hp->n_rot, "gdn_key_heads", hp->ssm_nk, "gdn_value_heads",
        hp->ssm_nv, "gdn_head_size", hp->ssm_dk, "vocabulary", hp->n_vocab,
        "tied_embedding", hp->tied, "trained_context", hp->n_ctx_train);
    json_object_set_new(j, "mtp_blocks", json_integer(hp->n_nextn));
    json_object_set_new(j, "chat_rule",
                        json_string(e->chat.rule == QW_CHAT_TINY ? "tiny" : "qwen3.6"));
    json_object_set_new(j, "chat_template_known", json_boolean(e->chat.known));
    json_object_set_new(j, "sha256", target_hash(e, sha256));
    json_object_set_new(j, "tensors", tensor_table(e));
    return j;
}

json_t *qw_engine_info(struct qw_engine *e, bool sha256)
{
    json_t *devices = json_array(), *kernels = json_array();
    qw_dev_list(add_device, devices, NULL);
    for (int i = 0; e->kern != NULL && i < qw_kern_n_ops(); i++)
        json_array_append_new(kernels, json_pack("{s:s, s:s, s:s}", "op", qw_kern_op(i),
                                                 "variant", qw_kern_variant(e->kern, i),
                                                 "why", qw_kern_why(e->kern, i)));
    return json_pack("{s:o, s:s, s:o, s:o, s:o}", "devices", devices, "device",
                     e->dev ? e->dev->name : "", "model", model_table(e, sha256),
                     "kernels", kernels, "identity", qw_engine_identity(e, sha256));
}

bool qw_engine_fits(struct qw_engine *e)
{
    const struct qw_drafting d = qw_engine_drafting(e);
    const struct qw_target_params p = qw_engine_target_params(e, &d);
    return qw_target_fits(e->model, &p, e->dev, NULL) == QW_OK;
}

int qw_engine_plan(struct qw_engine *e, json_t **out, struct qw_err *err)
{
    const struct qw_drafting d = qw_engine_drafting(e);
    const struct qw_target_params p = qw_engine_target_params(e, &d);
    const uint64_t free_bytes = qw_dev_free_bytes(e->dev);
    struct qw_budget b;
    int rc = qw_target_plan(&b, e->model, &p, e->dev->max_alloc, err);
    if (rc != QW_OK)
        return rc;
    json_t *parts = json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "weights_bytes",
        (json_int_t)b.weights, "kv_cache_bytes", (json_int_t)b.kv, "gdn_state_bytes",
        (json_int_t)b.gdn, "conv_history_bytes", (json_int_t)b.conv, "activations_bytes",
        (json_int_t)b.activations, "attention_bytes", (json_int_t)b.attention,
        "logits_bytes", (json_int_t)b.logits, "rope_bytes", (json_int_t)b.rope,
        "control_bytes", (json_int_t)b.control);
    *out = json_pack(
        "{s:s, s:o, s:o, s:I, s:I, s:I, s:I, s:b, s:i, s:i, s:i, s:s, s:I}", "device",
        e->dev->name, "model", json_text(e->opt->model.target), "parts", parts,
        "total_bytes", (json_int_t)b.total, "device_memory_bytes",
        (json_int_t)e->dev->mem, "reserved_bytes", (json_int_t)e->dev->reserve,
        "free_bytes", (json_int_t)free_bytes, "fits", b.total <= free_bytes, "context",
        b.context, "largest_context",
        qw_target_largest_context(e->model, &p, e->dev->max_alloc, free_bytes),
        "prefill_rows", b.prefill, "kv_type", e->opt->kv.target, "kv_bytes_per_token",
        (json_int_t)(b.kv / (uint64_t)((b.context + 127) / 128 * 128)));
    return QW_OK;
}
