/* SPDX-License-Identifier: MIT */
#include "chat.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

/* SHA-256 of the templates we know. */
static const struct {
    const char *sha256;
    enum qw_chat_rule rule;
} known[] = {
    {"02cb4e03a7125d573dcde7d529438c7d038908518186c597a9799cc9534a84b5", QW_CHAT_TINY},
};

int qw_chat_open(struct qw_chat *c, const struct qw_gguf *g, const char *name,
                 struct qw_err *err)
{
    struct qw_str text;
    unsigned char md[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    char hex[2 * EVP_MAX_MD_SIZE + 1];
    *c = (struct qw_chat){.rule = QW_CHAT_QWEN36};
    if (strcmp(name, "auto") != 0) {
        c->rule = strcmp(name, "tiny") == 0 ? QW_CHAT_TINY : QW_CHAT_QWEN36;
        c->known = true;
        return QW_OK;
    }
    if (qw_gguf_find(g, "tokenizer.chat_template") == NULL)
        return QW_OK;
    int rc = qw_gguf_string(g, "tokenizer.chat_template", &text, err);
    if (rc != QW_OK)
        return rc;
    EVP_Digest(text.data, text.len, md, &len, EVP_sha256(), NULL);
    for (unsigned i = 0; i < len; i++)
        snprintf(hex + 2 * i, 3, "%02x", md[i]);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(known[i].sha256, hex) == 0) {
            c->rule = known[i].rule;
            c->known = true;
            return QW_OK;
        }
    qw_log(QW_WARN,
           "%s: unknown chat template, taking the rules of qwen3.6 (chat.template)",
           qw_gguf_path(g));
    return QW_OK;
}

void qw_chat_close(struct qw_chat *c)
{
    *c = (struct qw_chat){0};
}

/* ---- rendering ---- */

struct render {
    const struct qw_chat *c;
    const struct qw_chat_params *p;
    struct qw_prompt *out;
    struct qw_err *err;
};

static void piece(struct render *r, bool trusted, const char *text, size_t len)
{
    struct qw_prompt *o = r->out;
    if (len == 0)
        return;
    if (o->n_pieces > 0 && o->piece[o->n_pieces - 1].trusted == trusted) {
        o->piece[o->n_pieces - 1].len += len;
    } else {
        o->piece = qw_realloc(o->piece, o->n_pieces + 1, sizeof(*o->piece));
        o->piece[o->n_pieces++] = (struct qw_piece){trusted, o->text.len, len};
    }
    qw_buf_add(&o->text, text, len);
}

static void fixed(struct render *r, const char *text)
{
    piece(r, true, text, strlen(text));
}

static struct qw_str trim(struct qw_str s)
{
    static const char blank[] = "\t\n\v\f\r ";
    while (s.len > 0 && memchr(blank, s.data[0], 6) != NULL)
        s.data++, s.len--;
    while (s.len > 0 && memchr(blank, s.data[s.len - 1], 6) != NULL)
        s.len--;
    return s;
}

/* The text of a message's content, joined where it is a list of text parts; free buf
 * after use. */
static int content_of(struct render *r, const json_t *message, struct qw_buf *buf)
{
    const json_t *c = json_object_get(message, "content"), *part;
    size_t i;
    qw_buf_add(buf, "", 0);
    if (c == NULL || json_is_null(c))
        return QW_OK;
    if (json_is_string(c)) {
        qw_buf_add(buf, json_string_value(c), json_string_length(c));
        return QW_OK;
    }
    if (!json_is_array(c))
        return qw_fail(r->err, QW_EUSAGE,
                       "message content is neither text nor a list of parts");
    json_array_foreach(c, i, part)
    {
        const json_t *text = json_object_get(part, "text");
        if (!json_is_string(text))
            return qw_fail(r->err, QW_EUSAGE,
                           "only text parts can be given to this model");
        qw_buf_add(buf, json_string_value(text), json_string_length(text));
    }
    return QW_OK;
}

static bool is_role(const json_t *message, const char *role)
{
    const char *s = json_string_value(json_object_get(message, "role"));
    return s != NULL && strcmp(s, role) == 0;
}

static bool begins(struct qw_str s, const char *text)
{
    const size_t n = strlen(text);
    return s.len >= n && memcmp(s.data, text, n) == 0;
}

static bool ends(struct qw_str s, const char *text)
{
    const size_t n = strlen(text);
    return s.len >= n && memcmp(s.data + s.len - n, text, n) == 0;
}

/* Index of the last user message that is a question, not a tool's answer; -1: none. */
static long last_query(const json_t *messages)
{
    for (long i = (long)json_array_size(messages) - 1; i >= 0; i--) {
        const json_t *m = json_array_get(messages, (size_t)i);
        const json_t *c = json_object_get(m, "content");
        if (!is_role(m, "user"))
            continue;
        const struct qw_str s =
            trim((struct qw_str){json_is_string(c) ? json_string_value(c) : "",
                                 json_is_string(c) ? json_string_length(c) : 0});
        if (!(begins(s, "<tool_response>") && ends(s, "</tool_response>")))
            return i;
    }
    return -1;
}

/* Split "<think>reasoning</think>content" typed into the content of an old answer. */
static struct qw_str split_reasoning(struct qw_str *content)
{
    struct qw_str reasoning = {"", 0};
    const char *close = memmem(content->data, content->len, "</think>", 8), *last = close;
    if (close == NULL)
        return reasoning;
    const char *end = content->data + content->len;
    for (const char *s = close; s != NULL;
         s = memmem(s + 8, (size_t)(end - s - 8), "</think>", 8))
        last = s;
    reasoning = (struct qw_str){content->data, (size_t)(close - content->data)};
    for (const char *s;
         (s = memmem(reasoning.data, reasoning.len, "<think>", 7)) != NULL;) {
        reasoning.len -= (size_t)(s + 7 - reasoning.data);
        reasoning.data = s + 7;
    }
    content->len = (size_t)(end - last - 8);
    content->data = last + 8;
    while (content->len > 0 && content->data[0] == '\n')
        content->data++, content->len--;
    return reasoning;
}

static int assistant(struct render *r, const json_t *message, struct qw_str text,
                     bool current)
{
    const json_t *given = json_object_get(message, "reasoning_content");
    struct qw_str content = trim(text), reasoning;
    if (json_array_size(json_object_get(message, "tool_calls")) > 0)
        return qw_fail(r->err, QW_EUSAGE, "this version cannot render tool calls yet");
    fixed(r, "<|im_start|>assistant\n");
    if (json_is_string(given))
        reasoning = (struct qw_str){json_string_value(given), json_string_length(given)};
    else
        reasoning = split_reasoning(&content);
    if (current) {
        reasoning = trim(reasoning);
        fixed(r, "<think>\n");
        piece(r, false, reasoning.data, reasoning.len);
        fixed(r, "\n</think>\n\n");
    }
    piece(r, false, content.data, content.len);
    fixed(r, "<|im_end|>\n");
    return QW_OK;
}

static void tool_answer(struct render *r, const json_t *messages, size_t i,
                        struct qw_str text)
{
    const json_t *next = json_array_get(messages, i + 1);
    const bool first = i == 0 || !is_role(json_array_get(messages, i - 1), "tool");
    fixed(r, first ? "<|im_start|>user\n<tool_response>\n" : "\n<tool_response>\n");
    piece(r, false, text.data, text.len);
    fixed(r, "\n</tool_response>");
    if (next == NULL || !is_role(next, "tool"))
        fixed(r, "<|im_end|>\n");
}

static int message_qwen36(struct render *r, const json_t *messages, size_t i,
                          struct qw_str text, long query)
{
    const json_t *m = json_array_get(messages, i);
    if (is_role(m, "assistant"))
        return assistant(r, m, text, r->p->preserve_thinking || (long)i > query);
    if (is_role(m, "tool")) {
        tool_answer(r, messages, i, trim(text));
        return QW_OK;
    }
    if (is_role(m, "system") && i > 0)
        return qw_fail(r->err, QW_EUSAGE, "System message must be at the beginning.");
    if (!is_role(m, "system") && !is_role(m, "user"))
        return qw_fail(r->err, QW_EUSAGE, "Unexpected message role.");
    text = trim(text);
    fixed(r, is_role(m, "system") ? "<|im_start|>system\n" : "<|im_start|>user\n");
    piece(r, false, text.data, text.len);
    fixed(r, "<|im_end|>\n");
    return QW_OK;
}

/* The shipped model's own short template: nothing is trimmed, old answers keep an empty
 * block. */
static int message_tiny(struct render *r, const json_t *m, struct qw_str text)
{
    if (is_role(m, "assistant"))
        fixed(r, "<|im_start|>assistant\n<think>\n\n</think>\n\n");
    else if (is_role(m, "tool"))
        fixed(r, "<|im_start|>user\n<tool_response>\n");
    else if (is_role(m, "system") || is_role(m, "user"))
        fixed(r, is_role(m, "system") ? "<|im_start|>system\n" : "<|im_start|>user\n");
    else
        return qw_fail(r->err, QW_EUSAGE, "Unexpected message role.");
    piece(r, false, text.data, text.len);
    fixed(r, is_role(m, "tool") ? "\n</tool_response><|im_end|>\n" : "<|im_end|>\n");
    return QW_OK;
}

static int render_all(struct render *r, const json_t *messages)
{
    const bool tiny = r->c->rule == QW_CHAT_TINY;
    const long query = last_query(messages);
    int rc = QW_OK;
    if (json_array_size(messages) == 0)
        return qw_fail(r->err, QW_EUSAGE, "No messages provided.");
    if (r->p->tools != NULL && json_array_size(r->p->tools) > 0)
        return qw_fail(r->err, QW_EUSAGE, "this version cannot render tools yet");
    for (size_t i = 0; rc == QW_OK && i < json_array_size(messages); i++) {
        struct qw_buf buf = {0};
        const json_t *m = json_array_get(messages, i);
        rc = content_of(r, m, &buf);
        const struct qw_str text = {buf.data, buf.len};
        if (rc == QW_OK)
            rc = tiny ? message_tiny(r, m, text)
                      : message_qwen36(r, messages, i, text, query);
        qw_buf_free(&buf);
    }
    if (rc == QW_OK && !tiny && query < 0)
        rc = qw_fail(r->err, QW_EUSAGE, "No user query found in messages.");
    if (rc == QW_OK && !r->p->no_generation_prompt) {
        const bool on =
            r->p->thinking == QW_THINK_ON || (r->p->thinking == QW_THINK_AUTO && !tiny);
        fixed(r, "<|im_start|>assistant\n");
        fixed(r, on ? "<think>\n" : "<think>\n\n</think>\n\n");
    }
    return rc;
}

int qw_chat_render(const struct qw_chat *c, const json_t *messages,
                   const struct qw_chat_params *p, struct qw_prompt *out,
                   struct qw_err *err)
{
    struct render r = {c, p, out, err};
    *out = (struct qw_prompt){0};
    int rc = render_all(&r, messages);
    if (rc != QW_OK)
        qw_prompt_free(out);
    return rc;
}

void qw_prompt_free(struct qw_prompt *p)
{
    qw_buf_free(&p->text);
    free(p->piece);
    *p = (struct qw_prompt){0};
}

void qw_chat_encode(const struct qw_tok *t, const struct qw_prompt *p, struct qw_ids *out)
{
    struct qw_span *span = qw_alloc(p->n_pieces + 1, sizeof(*span));
    size_t n = 0;
    for (size_t i = 0; i < p->n_pieces; i++)
        if (p->piece[i].trusted)
            span[n++] = (struct qw_span){p->piece[i].start, p->piece[i].len};
    if (p->text.len > 0)
        qw_tok_encode_spans(t, p->text.data, p->text.len, span, n, out);
    free(span);
}
