/* SPDX-License-Identifier: MIT */
#include "tok.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tok_bpe.h"
#include "tok_special.h"
#include "tok_split.h"

#define KEY "tokenizer.ggml."
enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };
enum { MAX_ENTRIES = 1 << 24 }; /* tokens, and merges: 60 times what the family has */

struct qw_tok {
    bool nfc;
    int32_t n_vocab;
    unsigned char *type, *eog; /* of each token */
    size_t *start;             /* n_vocab + 1 places in bytes */
    struct qw_buf bytes;       /* what each token decodes to */
    struct qw_bpe *bpe;
    struct qw_special *special;
};

/* The parts of the file that a vocabulary is made of. */
struct source {
    const struct qw_gguf *file;
    const struct qw_gguf_key *tokens, *types, *merges;
};

void qw_ids_add(struct qw_ids *ids, int32_t id)
{
    if (ids->len == ids->cap) {
        ids->cap = ids->cap ? ids->cap * 2 : 64;
        ids->id = qw_realloc(ids->id, ids->cap, sizeof(*ids->id));
    }
    ids->id[ids->len++] = id;
}

void qw_ids_free(struct qw_ids *ids)
{
    free(ids->id);
    *ids = (struct qw_ids){0};
}

/* ---- checks ---- */

static int bad(const struct qw_gguf *g, struct qw_err *err, const char *key,
               const char *fmt, ...) __attribute__((format(printf, 4, 5)));

static int bad(const struct qw_gguf *g, struct qw_err *err, const char *key,
               const char *fmt, ...)
{
    char path[512], text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    qw_escape(path, sizeof(path), qw_gguf_path(g), strlen(qw_gguf_path(g)));
    return qw_fail(err, QW_EFILE, "%s: key '%s': %s", path, key, text);
}

static bool is_text(struct qw_str s, const char *text)
{
    return s.len == strlen(text) && memcmp(s.data, text, s.len) == 0;
}

/* A key that must have one of two texts (the second may be NULL). */
static int check_name(const struct qw_gguf *g, const char *key, const char *a,
                      const char *b, struct qw_str *out, struct qw_err *err)
{
    char shown[128];
    int rc = qw_gguf_string(g, key, out, err);
    if (rc != QW_OK)
        return rc;
    if (is_text(*out, a) || (b != NULL && is_text(*out, b)))
        return QW_OK;
    qw_escape(shown, sizeof(shown), out->data, out->len);
    return bad(g, err, key, "'%s' is not supported (supported: %s%s%s)", shown, a,
               b != NULL ? ", " : "", b != NULL ? b : "");
}

static bool is_integer(enum qw_gguf_type t)
{
    return t <= QW_GGUF_I32 || t == QW_GGUF_U64 || t == QW_GGUF_I64;
}

/* An array of strings or of integers, of at most MAX_ENTRIES elements. */
static int check_array(const struct qw_gguf *g, const char *name, bool strings,
                       const struct qw_gguf_key **out, struct qw_err *err)
{
    const struct qw_gguf_key *k = qw_gguf_find(g, name);
    if (k == NULL)
        return bad(g, err, name, "is missing");
    if (k->type != QW_GGUF_ARR ||
        (strings ? k->elem != QW_GGUF_STR : !is_integer(k->elem)))
        return bad(g, err, name, "has type %s%s, must be array of %s",
                   k->type == QW_GGUF_ARR ? "array of " : "", qw_gguf_type_name(k->elem),
                   strings ? "string" : "i32");
    if (k->count > MAX_ENTRIES)
        return bad(g, err, name, "has %" PRIu64 " elements (at most %d)", k->count,
                   MAX_ENTRIES);
    *out = k;
    return QW_OK;
}

static int check_types(const struct source *s, struct qw_err *err)
{
    static const char name[] = KEY "token_type";
    if (s->types->count != s->tokens->count)
        return bad(s->file, err, name,
                   "has %" PRIu64 " elements, but there are %" PRIu64 " tokens",
                   s->types->count, s->tokens->count);
    for (uint64_t i = 0; i < s->types->count; i++) {
        int64_t type = qw_gguf_elem_int(s->types, i);
        if (type < NORMAL || type > BYTE)
            return bad(s->file, err, name,
                       "token %" PRIu64 " has type %" PRId64 " (allowed: %d to %d)", i,
                       type, NORMAL, BYTE);
    }
    return QW_OK;
}

static int find_source(const struct qw_gguf *g, struct source *s, struct qw_err *err)
{
    s->file = g;
    int rc = check_array(g, KEY "tokens", true, &s->tokens, err);
    if (rc == QW_OK && s->tokens->count == 0)
        rc = bad(g, err, KEY "tokens", "is empty");
    if (rc == QW_OK)
        rc = check_array(g, KEY "token_type", false, &s->types, err);
    if (rc == QW_OK)
        rc = check_types(s, err);
    return rc == QW_OK ? check_array(g, KEY "merges", true, &s->merges, err) : rc;
}

/* ---- vocabulary ---- */

/* A normal token is spelled in the byte alphabet; a character that is not part of it
 * stays. */
static void add_spelled(struct qw_buf *out, struct qw_str text)
{
    for (size_t i = 0; i < text.len;) {
        uint32_t cp;
        size_t n = qw_tok_char(text.data + i, text.len - i, &cp);
        int byte = qw_bpe_byte(cp);
        char c = (char)byte;
        if (byte >= 0)
            qw_buf_add(out, &c, 1);
        else
            qw_buf_add(out, text.data + i, n);
        i += n;
    }
}

static void add_token(struct qw_tok *t, struct qw_str text, int32_t id)
{
    t->start[id] = t->bytes.len;
    switch (t->type[id]) {
    case NORMAL:
    case BYTE:
        qw_bpe_token(t->bpe, text, id);
        add_spelled(&t->bytes, text);
        break;
    case UNUSED: /* room without meaning: no text makes it and it makes none */
        break;
    default:
        qw_buf_add(&t->bytes, text.data, text.len);
    }
    t->start[id + 1] = t->bytes.len;
}

static void read_tokens(struct qw_tok *t, const struct source *s)
{
    const unsigned char *pos = s->tokens->data;
    for (int32_t id = 0; id < t->n_vocab; id++) {
        t->type[id] = (unsigned char)qw_gguf_elem_int(s->types, (uint64_t)id);
        add_token(t, qw_gguf_next_string(&pos), id);
    }
    qw_buf_add(&t->bytes, "", 0);
}

/* "left right", parted by the first blank that is not the first byte. */
static int read_merges(struct qw_tok *t, const struct source *s, struct qw_err *err)
{
    static const char name[] = KEY "merges";
    const unsigned char *pos = s->merges->data;
    for (uint64_t rank = 0; rank < s->merges->count; rank++) {
        struct qw_str line = qw_gguf_next_string(&pos);
        const char *blank =
            line.len > 1 ? memchr(line.data + 1, ' ', line.len - 1) : NULL;
        if (blank == NULL || blank + 1 == line.data + line.len) {
            char shown[64];
            qw_escape(shown, sizeof(shown), line.data, line.len);
            return bad(s->file, err, name,
                       "entry %" PRIu64
                       " is '%s', must be two parts with a blank between",
                       rank, shown);
        }
        struct qw_str left = {line.data, (size_t)(blank - line.data)};
        struct qw_str right = {blank + 1, line.len - left.len - 1};
        qw_bpe_merge(t->bpe, left, right, (int32_t)rank);
    }
    int missing = qw_bpe_ready(t->bpe);
    if (missing >= 0)
        return bad(s->file, err, KEY "tokens", "no token for byte 0x%02x",
                   (unsigned)missing);
    return QW_OK;
}

static void read_specials(struct qw_tok *t)
{
    struct qw_str *text = NULL;
    int32_t *id = NULL;
    size_t n = 0, cap = 0;
    for (int32_t i = 0; i < t->n_vocab; i++) {
        if (t->type[i] != CONTROL && t->type[i] != USER_DEFINED)
            continue;
        if (n == cap) {
            cap = cap ? cap * 2 : 64;
            text = qw_realloc(text, cap, sizeof(*text));
            id = qw_realloc(id, cap, sizeof(*id));
        }
        text[n] = qw_tok_bytes(t, i);
        id[n++] = i;
    }
    t->special = qw_special_new(text, id, n);
    free(text);
    free(id);
}

/* The end-of-generation set: the file's eos and the family's other ends, by their texts.
 */
static int read_ends(struct qw_tok *t, const struct qw_gguf *g, struct qw_err *err)
{
    static const char *const end[] = {"<|endoftext|>", "<|im_end|>", "<|fim_pad|>",
                                      "<|repo_name|>", "<|file_sep|>"};
    static const char *const other[] = {KEY "bos_token_id", KEY "padding_token_id"};
    const int64_t none = -1;
    int64_t id = -1;
    int rc = qw_gguf_int(g, KEY "eos_token_id", &none, 0, t->n_vocab - 1, &id, err);
    if (rc == QW_OK && id >= 0)
        t->eog[id] = 1;
    for (size_t i = 0; i < sizeof(other) / sizeof(other[0]) && rc == QW_OK; i++)
        rc = qw_gguf_int(g, other[i], &none, 0, t->n_vocab - 1, &id, err);
    for (size_t i = 0; i < sizeof(end) / sizeof(end[0]); i++) {
        int32_t e = qw_tok_find(t, end[i]);
        if (e >= 0)
            t->eog[e] = 1;
    }
    return rc;
}

/* Nothing is ever put before or behind a text in this family. */
static int check_flags(const struct qw_gguf *g, struct qw_err *err)
{
    static const char *const key[] = {KEY "add_bos_token", KEY "add_eos_token"};
    for (size_t i = 0; i < sizeof(key) / sizeof(key[0]); i++) {
        bool on = false;
        int rc = qw_gguf_bool(g, key[i], false, &on, err);
        if (rc != QW_OK)
            return rc;
        if (on)
            qw_log(QW_WARN, "%s: key '%s' is true; ignored, this family adds no token",
                   qw_gguf_path(g), key[i]);
    }
    return QW_OK;
}

static int build(struct qw_tok *t, const struct source *s, struct qw_err *err)
{
    size_t n = (size_t)s->tokens->count;
    t->n_vocab = (int32_t)n;
    t->type = qw_alloc(n, 1);
    t->eog = qw_alloc(n, 1);
    t->start = qw_alloc(n + 1, sizeof(*t->start));
    t->bpe = qw_bpe_new(n, (size_t)s->merges->count);
    read_tokens(t, s);
    int rc = read_merges(t, s, err);
    if (rc != QW_OK)
        return rc;
    read_specials(t);
    rc = read_ends(t, s->file, err);
    return rc == QW_OK ? check_flags(s->file, err) : rc;
}

int qw_tok_open(struct qw_tok **out, const struct qw_gguf *g, bool nfc,
                struct qw_err *err)
{
    struct source s = {0};
    struct qw_str name;
    int rc = check_name(g, KEY "model", "gpt2", "none", &name, err);
    if (rc != QW_OK)
        return rc;
    if (is_text(name, "none")) {
        *out = NULL;
        return QW_OK;
    }
    if ((rc = check_name(g, KEY "pre", "qwen35", NULL, &name, err)) != QW_OK ||
        (rc = find_source(g, &s, err)) != QW_OK)
        return rc;
    struct qw_tok *t = qw_alloc(1, sizeof(*t));
    t->nfc = nfc;
    if ((rc = build(t, &s, err)) != QW_OK) {
        qw_tok_close(t);
        return rc;
    }
    *out = t;
    return QW_OK;
}

void qw_tok_close(struct qw_tok *t)
{
    if (t == NULL)
        return;
    qw_bpe_free(t->bpe);
    qw_special_free(t->special);
    qw_buf_free(&t->bytes);
    free(t->start);
    free(t->type);
    free(t->eog);
    free(t);
}

/* ---- tokens ---- */

int qw_tok_n_vocab(const struct qw_tok *t)
{
    return t->n_vocab;
}

static bool is_token(const struct qw_tok *t, int32_t id)
{
    return id >= 0 && id < t->n_vocab;
}

struct qw_str qw_tok_bytes(const struct qw_tok *t, int32_t id)
{
    if (!is_token(t, id))
        return (struct qw_str){"", 0};
    return (struct qw_str){t->bytes.data + t->start[id], t->start[id + 1] - t->start[id]};
}

bool qw_tok_is_control(const struct qw_tok *t, int32_t id)
{
    return is_token(t, id) && t->type[id] == CONTROL;
}

bool qw_tok_is_eog(const struct qw_tok *t, int32_t id)
{
    return is_token(t, id) && t->eog[id];
}

int32_t qw_tok_find(const struct qw_tok *t, const char *text)
{
    return qw_special_id(t->special, text, strlen(text));
}

/* ---- encoding ---- */

static void encode_words(const struct qw_tok *t, const char *text, size_t len,
                         struct qw_ids *out)
{
    while (len > 0) {
        size_t n = qw_tok_word(text, len);
        qw_bpe_encode(t->bpe, text, n, out);
        text += n;
        len -= n;
    }
}

/* Text between special tokens. */
static void encode_fragment(const struct qw_tok *t, const char *text, size_t len,
                            struct qw_ids *out)
{
    struct qw_buf composed = {0}, clean = {0};
    if (len == 0)
        return;
    if (t->nfc) {
        qw_tok_nfc(text, len, &composed);
        text = composed.data;
        len = composed.len;
    }
    if (!qw_tok_is_clean(text, len)) {
        qw_tok_clean(text, len, &clean);
        text = clean.data;
        len = clean.len;
    }
    encode_words(t, text, len, out);
    qw_buf_free(&composed);
    qw_buf_free(&clean);
}

void qw_tok_encode_spans(const struct qw_tok *t, const char *text, size_t len,
                         const struct qw_span *trusted, size_t n_trusted,
                         struct qw_ids *out)
{
    struct qw_matches m = {0};
    size_t done = 0;
    qw_special_find(t->special, text, len, trusted, n_trusted, &m);
    for (size_t i = 0; i < m.n; i++) {
        encode_fragment(t, text + done, m.at[i].start - done, out);
        qw_ids_add(out, m.at[i].id);
        done = m.at[i].start + m.at[i].len;
    }
    encode_fragment(t, text + done, len - done, out);
    free(m.at);
}

void qw_tok_encode(const struct qw_tok *t, const char *text, size_t len, bool specials,
                   struct qw_ids *out)
{
    const struct qw_span all = {0, len};
    if (len > 0)
        qw_tok_encode_spans(t, text, len, &all, specials ? 1 : 0, out);
}

/* ---- streaming decode ---- */

/* How many bytes at the end of s begin a character that more bytes could complete: 0
 * to 3. */
static size_t open_tail(const unsigned char *s, size_t len)
{
    for (size_t back = 1; back <= 3 && back <= len; back++) {
        unsigned char c = s[len - back];
        size_t want = c >= 0xc2 && c <= 0xdf   ? 2
                      : c >= 0xe0 && c <= 0xef ? 3
                      : c >= 0xf0 && c <= 0xf4 ? 4
                                               : 0;
        if ((c & 0xc0) == 0x80)
            continue;
        if (want <= back)
            return 0;
        if (back == 1)
            return back;
        unsigned char d =
            s[len - back + 1]; /* the second byte of some leads is limited */
        bool never = (c == 0xe0 && d < 0xa0) || (c == 0xed && d > 0x9f) ||
                     (c == 0xf0 && d < 0x90) || (c == 0xf4 && d > 0x8f);
        return never ? 0 : back;
    }
    return 0;
}

void qw_detok_init(struct qw_detok *d, const struct qw_tok *t, bool show_control)
{
    *d = (struct qw_detok){.tok = t, .show_control = show_control};
}

/* Whether a token's bytes are printed: <think> and its like are, the named rest only when
 * asked. */
static bool is_printed(const struct qw_detok *d, int32_t id)
{
    if (!is_token(d->tok, id))
        return false;
    unsigned char type = d->tok->type[id];
    return d->show_control || (type != CONTROL && type != UNKNOWN);
}

void qw_detok_feed(struct qw_detok *d, int32_t id, struct qw_buf *out)
{
    struct qw_str s =
        is_printed(d, id) ? qw_tok_bytes(d->tok, id) : (struct qw_str){"", 0};
    if (s.len == 0)
        return;
    size_t before = out->len;
    qw_buf_add(out, d->held, (size_t)d->n_held);
    qw_buf_add(out, s.data, s.len);
    size_t keep = open_tail((const unsigned char *)out->data + before, out->len - before);
    out->len -= keep;
    memcpy(d->held, out->data + out->len, keep);
    d->n_held = (int)keep;
    out->data[out->len] = '\0';
}

void qw_detok_flush(struct qw_detok *d, struct qw_buf *out)
{
    if (d->n_held > 0)
        qw_buf_add(out, "\xef\xbf\xbd", 3);
    d->n_held = 0;
}
