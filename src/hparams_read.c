/* SPDX-License-Identifier: MIT */
#include "hparams_read.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "quant.h"

enum { BLOCK = 32 }; /* of a quantised activation row */

/* ---- messages ---- */

int qw_hread_bad(const struct qw_hread *r, const char *fmt, ...)
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

const char *qw_hread_reason(const struct qw_hread *r)
{
    char path[512];
    const char *p = qw_gguf_path(r->g);
    qw_escape(path, sizeof(path), p, strlen(p));
    const size_t skip = strlen(path) + strlen(": ");
    return strlen(r->err->msg) > skip ? r->err->msg + skip : r->err->msg;
}

/* ---- keys ---- */

struct qw_hread_name qw_hread_key(const char *arch, const char *suffix)
{
    struct qw_hread_name name;
    snprintf(name.text, sizeof(name.text), "%s.%s", arch, suffix);
    return name;
}

bool qw_hread_same(struct qw_str s, const char *text)
{
    return s.len == strlen(text) && memcmp(s.data, text, s.len) == 0;
}

bool qw_hread_integers(const struct qw_gguf_key *k)
{
    return k->elem != QW_GGUF_F32 && k->elem != QW_GGUF_F64 && k->elem != QW_GGUF_STR &&
           k->elem != QW_GGUF_BOOL;
}

const char *qw_hread_describe(const struct qw_gguf_key *k, char text[32])
{
    snprintf(text, 32, "%s%s", k->type == QW_GGUF_ARR ? "array of " : "",
             qw_gguf_type_name(k->elem));
    return text;
}

int qw_hread_int(const struct qw_hread *r, const char *name, int lo, int hi, int *out)
{
    int64_t v;
    int rc = qw_gguf_int(r->g, name, NULL, lo, hi, &v, r->err);
    if (rc == QW_OK)
        *out = (int)v;
    return rc;
}

int qw_hread_int_or(const struct qw_hread *r, const char *name, int dflt, int lo, int hi,
                    int *out)
{
    int64_t v, d = dflt;
    int rc = qw_gguf_int(r->g, name, &d, lo, hi, &v, r->err);
    if (rc == QW_OK)
        *out = (int)v;
    return rc;
}

int qw_hread_blocks(const struct qw_hread *r, const char *name, int value)
{
    if (value % BLOCK == 0)
        return QW_OK;
    return qw_hread_bad(
        r, "key '%s': %d is not supported: the kernels need a multiple of %d", name,
        value, BLOCK);
}

/* Sections say which of the three coordinates turns a pair. For text they are equal, so
 * only the sum matters, and that no pair falls to the fourth coordinate, which stays 0.
 */
int qw_hread_sections(const struct qw_hread *r, const char *arch, int n_rot)
{
    const struct qw_hread_name name = qw_hread_key(arch, "rope.dimension_sections");
    const struct qw_gguf_key *k = qw_gguf_find(r->g, name.text);
    int64_t sum = 0;
    char text[32];
    if (k == NULL)
        return qw_hread_bad(r, "key '%s' is missing", name.text);
    if (k->type != QW_GGUF_ARR || !qw_hread_integers(k))
        return qw_hread_bad(r, "key '%s': has type %s, must be array of i32", name.text,
                            qw_hread_describe(k, text));
    if (k->count < 1 || k->count > 4)
        return qw_hread_bad(r, "key '%s': %" PRIu64 " entries (allowed: 1 to 4)",
                            name.text, k->count);
    for (uint64_t i = 0; i < k->count; i++) {
        int64_t v = qw_gguf_elem_int(k, i), hi = i < 3 ? QW_MAX_HEAD_DIM : 0;
        if (v < 0 || v > hi)
            return qw_hread_bad(r,
                                "key '%s': entry %" PRIu64 ": %" PRId64
                                " is out of range (allowed: 0 to %" PRId64 ")",
                                name.text, i, v, hi);
        sum += v;
    }
    if (sum != n_rot / 2)
        return qw_hread_bad(r,
                            "key '%s': the sum is %" PRId64 ", must be %d, half of the "
                            "dims that are rotated",
                            name.text, sum, n_rot / 2);
    return QW_OK;
}

/* Positions are used as they are: nothing that stretches them is read. */
int qw_hread_scaling(const struct qw_hread *r, const char *arch)
{
    static const char *const factors[] = {"rope.scaling.factor", "rope.scale_linear"};
    const struct qw_hread_name name = qw_hread_key(arch, "rope.scaling.type");
    if (qw_gguf_find(r->g, name.text) != NULL) {
        struct qw_str type;
        char shown[QW_SHOWN];
        int rc = qw_gguf_string(r->g, name.text, &type, r->err);
        if (rc != QW_OK || qw_hread_same(type, "none"))
            return rc;
        qw_escape(shown, sizeof(shown), type.data, type.len);
        if (!qw_hread_same(type, "linear"))
            return qw_hread_bad(
                r,
                "key '%s': '%s' is not supported (supported: none, linear with factor 1)",
                name.text, shown);
    }
    for (size_t i = 0; i < sizeof(factors) / sizeof(factors[0]); i++) {
        const struct qw_hread_name key = qw_hread_key(arch, factors[i]);
        double factor, one = 1.0;
        int rc = qw_gguf_float(r->g, key.text, &one, &factor, r->err);
        if (rc != QW_OK)
            return rc;
        if (factor != 1.0)
            return qw_hread_bad(r, "key '%s': %g is not supported (supported: 1)",
                                key.text, factor);
    }
    return QW_OK;
}

int qw_hread_rope_base(const struct qw_hread *r, const char *arch, float *out)
{
    const struct qw_hread_name name = qw_hread_key(arch, "rope.freq_base");
    double base;
    int rc = qw_gguf_float(r->g, name.text, NULL, &base, r->err);
    if (rc != QW_OK)
        return rc;
    *out = (float)base;
    if (!(*out > 0.0f) || !isfinite(*out))
        return qw_hread_bad(r, "key '%s': %g (allowed: finite and above 0)", name.text,
                            base);
    return QW_OK;
}

int qw_hread_eps(const struct qw_hread *r, const char *arch, float *out)
{
    const struct qw_hread_name name =
        qw_hread_key(arch, "attention.layer_norm_rms_epsilon");
    double eps;
    int rc = qw_gguf_float(r->g, name.text, NULL, &eps, r->err);
    if (rc != QW_OK)
        return rc;
    *out = (float)eps;
    if (!(*out > 0.0f && *out < 1.0f))
        return qw_hread_bad(r, "key '%s': %g (allowed: between 0 and 1)", name.text, eps);
    return QW_OK;
}

int qw_hread_vocabulary(const struct qw_hread *r, const char *arch, int n_vocab,
                        const char *whose)
{
    const char *list = "tokenizer.ggml.tokens";
    const struct qw_hread_name name = qw_hread_key(arch, "vocab_size");
    const struct qw_gguf_key *k = qw_gguf_find(r->g, list);
    char text[32];
    if (k != NULL && (k->type != QW_GGUF_ARR || k->elem != QW_GGUF_STR))
        return qw_hread_bad(r, "key '%s': has type %s, must be array of string", list,
                            qw_hread_describe(k, text));
    if (k != NULL && k->count != (uint64_t)n_vocab)
        return qw_hread_bad(r, "key '%s': %" PRIu64 " tokens, but %s %d", list, k->count,
                            whose, n_vocab);
    int said, rc = qw_hread_int_or(r, name.text, n_vocab, 1, QW_MAX_VOCAB, &said);
    if (rc == QW_OK && said != n_vocab)
        return qw_hread_bad(r, "key '%s': %d, but %s %d", name.text, said, whose,
                            n_vocab);
    return rc;
}

/* ---- tensors ---- */

static int check_tensor(const struct qw_hread *r, int layer, const struct qw_want *w)
{
    const struct qw_gguf_tensor *t = qw_tensor(r->g, layer, w->suffix);
    char name[64];
    if (layer < 0)
        snprintf(name, sizeof(name), "%s", w->suffix);
    else
        snprintf(name, sizeof(name), "blk.%d.%s", layer, w->suffix);
    if (t == NULL)
        return qw_hread_bad(r, "tensor '%s' is missing", name);
    if (t->ne[0] != (uint64_t)w->in || t->ne[1] != (uint64_t)w->out || t->ne[2] != 1 ||
        t->ne[3] != 1)
        return qw_hread_bad(r,
                            "tensor '%s': its shape is {%" PRIu64 ", %" PRIu64
                            ", %" PRIu64 ", %" PRIu64 "}, must be {%d, %d}",
                            name, t->ne[0], t->ne[1], t->ne[2], t->ne[3], w->in, w->out);
    const struct qw_type_info *info = qw_type_info(t->type);
    if (info == NULL || !info->decodes)
        return qw_hread_bad(
            r, "tensor '%s': type %s (%" PRIu32 ") is not supported for a weight", name,
            info ? info->name : "unknown", t->type);
    if (w->plain && t->type != QW_F32 && t->type != QW_F16 && t->type != QW_BF16)
        return qw_hread_bad(r, "tensor '%s': has type %s, must be F32, F16 or BF16", name,
                            info->name);
    return QW_OK;
}

int qw_hread_tensors(const struct qw_hread *r, int layer, const struct qw_want *w, int n)
{
    int rc = QW_OK;
    for (int i = 0; i < n && rc == QW_OK; i++)
        rc = check_tensor(r, layer, &w[i]);
    return rc;
}

static bool ends_with(struct qw_str s, const char *end)
{
    size_t n = strlen(end);
    return s.len >= n && memcmp(s.data + s.len - n, end, n) == 0;
}

int qw_hread_scales(const struct qw_hread *r)
{
    for (size_t i = 0; i < qw_gguf_n_tensors(r->g); i++) {
        const struct qw_gguf_tensor *t = qw_gguf_tensor_at(r->g, i);
        if (ends_with(t->name, ".scale") || ends_with(t->name, ".input_scale")) {
            char shown[QW_SHOWN];
            qw_escape(shown, sizeof(shown), t->name.data, t->name.len);
            return qw_hread_bad(r,
                                "tensor '%s': scales beside the weights: NVFP4 files are "
                                "not supported",
                                shown);
        }
    }
    return QW_OK;
}
