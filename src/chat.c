/* SPDX-License-Identifier: MIT */
#include "chat.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "chat_json.h"
#include "tok_split.h"

static const struct {
    const char *name;
    enum qw_chat_rule rule;
} rules[] = {{"qwen3.6", QW_CHAT_QWEN36}, {"tiny", QW_CHAT_TINY}};
enum { N_RULES = sizeof(rules) / sizeof(rules[0]) };

/* Templates whose output a rule gives, by their SHA-256. */
static const struct {
    const char *sha256;
    enum qw_chat_rule rule;
} templates[] = {
    /* Qwen3.6, as published */
    {"e84f32a23fdda27689f868aa4a1a5621f41133e51a48d7f3efcbea2839574259", QW_CHAT_QWEN36},
    /* the tiny models that come with the program */
    {"02cb4e03a7125d573dcde7d529438c7d038908518186c597a9799cc9534a84b5", QW_CHAT_TINY},
};

/* The instruction behind a tool list that the family was trained on, known by its length
 * and hash. */
static const char fixed_sha256[] =
    "c618bf70de036a3337fbf9cfaf7171d7b700d3e116d61b6f4a40511e1ab4e25b";
enum { FIXED_LEN = 817 };

/* Ours, for files that do not carry it. */
static const char own_fixed[] =
    "\n\nTo use one of these functions, write nothing but blocks of this form at the end "
    "of the "
    "answer:\n\n<tool_call>\n<function=NAME>\n<parameter=FIRST>\nits "
    "value\n</parameter>\n"
    "<parameter=SECOND>\na value may go on\nover several "
    "lines\n</parameter>\n</function>\n"
    "</tool_call>\n\n<IMPORTANT>\n"
    "- one function in each tool_call block, with the tags exactly as shown\n"
    "- give every required parameter a value\n"
    "- say what the call is for, if at all, before the block and never behind it\n"
    "- when no function helps, answer as if there were none and do not speak of them\n"
    "</IMPORTANT>";

/* ---- opening ---- */

static void sha256_hex(const char *data, size_t len, char hex[65])
{
    unsigned char md[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    hex[0] = '\0';
    if (EVP_Digest(data, len, md, &n, EVP_sha256(), NULL) != 1)
        return; /* equal to no hash: taken as unknown */
    for (unsigned i = 0; i < n && i < 32; i++) {
        static const char digit[] = "0123456789abcdef";
        hex[2 * i] = digit[md[i] >> 4];
        hex[2 * i + 1] = digit[md[i] & 15];
        hex[2 * i + 2] = '\0';
    }
}

static const char *find(const char *from, const char *end, const char *what)
{
    return memmem(from, (size_t)(end - from), what, strlen(what));
}

/* The single-quoted literal that begins at s, with its escapes undone; NULL where it is
 * not closed. */
static char *literal(const char *s, const char *end)
{
    struct qw_buf b = {0};
    for (; s < end && *s != '\''; s++) {
        char c = *s;
        if (c == '\\' && s + 1 < end) {
            s++;
            c = *s == 'n' ? '\n' : *s == 't' ? '\t' : *s;
        }
        qw_buf_add(&b, &c, 1);
    }
    if (s < end && b.data != NULL)
        return b.data;
    qw_buf_free(&b);
    return NULL;
}

/* The instruction in a template: the literal after the one that closes the tool list. */
static char *find_fixed(struct qw_str text)
{
    static const char open[] = "{{- '";
    const char *end = text.data + text.len;
    const char *list = find(text.data, end, "\\n</tools>");
    const char *begin = list != NULL ? find(list, end, open) : NULL;
    return begin != NULL ? literal(begin + sizeof(open) - 1, end) : NULL;
}

/* The file's own instruction where it is the known one; it is trusted text, so nothing
 * else is. */
static void choose_fixed(struct qw_chat *c, const struct qw_gguf *g, struct qw_str text)
{
    char hex[65] = "";
    char *found = text.data != NULL ? find_fixed(text) : NULL;
    if (found != NULL)
        sha256_hex(found, strlen(found), hex);
    if (found != NULL && strlen(found) == FIXED_LEN && strcmp(hex, fixed_sha256) == 0) {
        c->tools_fixed = found;
        return;
    }
    if (found != NULL)
        qw_log(QW_WARN,
               "%s: the tool instruction of tokenizer.chat_template is not known (%zu "
               "bytes, "
               "SHA-256 %s): using our own",
               qw_gguf_path(g), strlen(found), hex);
    free(found);
    c->tools_fixed = qw_strdup(own_fixed);
}

static int rule_by_name(const char *name, enum qw_chat_rule *rule, struct qw_err *err)
{
    char shown[64];
    for (int i = 0; i < N_RULES; i++)
        if (strcmp(name, rules[i].name) == 0) {
            *rule = rules[i].rule;
            return QW_OK;
        }
    qw_escape(shown, sizeof(shown), name, strlen(name));
    return qw_fail(err, QW_EUSAGE,
                   "chat.template: '%s' is not known (auto, qwen3.6, tiny)", shown);
}

int qw_chat_open(struct qw_chat *c, const struct qw_gguf *g, const char *name,
                 struct qw_err *err)
{
    static const char key[] = "tokenizer.chat_template";
    const bool automatic = name == NULL || strcmp(name, "auto") == 0;
    struct qw_chat chat = {.rule = QW_CHAT_QWEN36};
    struct qw_str text = {NULL, 0};
    char hex[65] = "";
    int rc = qw_gguf_find(g, key) != NULL ? qw_gguf_string(g, key, &text, err) : QW_OK;
    if (rc != QW_OK)
        return rc;
    if (text.data != NULL)
        sha256_hex(text.data, text.len, hex);
    for (size_t i = 0; i < sizeof(templates) / sizeof(templates[0]); i++)
        if (strcmp(hex, templates[i].sha256) == 0) {
            chat.known = true;
            chat.rule = templates[i].rule;
        }
    if (!automatic && (rc = rule_by_name(name, &chat.rule, err)) != QW_OK)
        return rc;
    if (automatic && !chat.known && text.data != NULL)
        qw_log(QW_WARN,
               "%s: tokenizer.chat_template is not known (SHA-256 %s): using the rules "
               "of qwen3.6",
               qw_gguf_path(g), hex);
    if (chat.rule == QW_CHAT_QWEN36)
        choose_fixed(&chat, g, text);
    *c = chat;
    return QW_OK;
}

void qw_chat_close(struct qw_chat *c)
{
    free(c->tools_fixed);
    *c = (struct qw_chat){0};
}

/* ---- pieces ---- */

static void add(struct qw_prompt *out, bool trusted, const char *text, size_t len)
{
    struct qw_piece *last = out->n_pieces > 0 ? &out->piece[out->n_pieces - 1] : NULL;
    size_t start = out->text.len;
    if (len == 0)
        return;
    qw_buf_add(&out->text, text, len);
    if (last != NULL && last->trusted == trusted) {
        last->len += len;
        return;
    }
    if ((out->n_pieces & (out->n_pieces - 1)) == 0) /* full: room is a power of two */
        out->piece = qw_realloc(out->piece, out->n_pieces ? out->n_pieces * 2 : 1,
                                sizeof(*out->piece));
    out->piece[out->n_pieces++] = (struct qw_piece){trusted, start, len};
}

static void fixed(struct qw_prompt *out, const char *text)
{
    add(out, true, text, strlen(text));
}

static void given(struct qw_prompt *out, struct qw_str text)
{
    add(out, false, text.data, text.len);
}

static void given_json(struct qw_prompt *out, const json_t *v)
{
    struct qw_buf b = {0};
    qw_chat_json(&b, v);
    add(out, false, b.data, b.len);
    qw_buf_free(&b);
}

void qw_prompt_free(struct qw_prompt *p)
{
    qw_buf_free(&p->text);
    free(p->piece);
    *p = (struct qw_prompt){0};
}

void qw_chat_encode(const struct qw_tok *t, const struct qw_prompt *p, struct qw_ids *out)
{
    struct qw_span *span = qw_alloc(p->n_pieces, sizeof(*span));
    size_t n = 0;
    for (size_t i = 0; i < p->n_pieces; i++)
        if (p->piece[i].trusted)
            span[n++] = (struct qw_span){p->piece[i].start, p->piece[i].len};
    if (p->text.len > 0)
        qw_tok_encode_spans(t, p->text.data, p->text.len, span, n, out);
    free(span);
}

/* ---- texts ---- */

static size_t last_char(struct qw_str s, uint32_t *cp)
{
    size_t back = 1;
    while (back < s.len && back < 4 && (s.data[s.len - back] & 0xc0) == 0x80)
        back++;
    if (qw_tok_char(s.data + s.len - back, back, cp) == back)
        return back;
    *cp = 0xfffd;
    return 1;
}

/* White space off both ends, as Unicode sees it. */
static struct qw_str trim(struct qw_str s)
{
    uint32_t cp;
    while (s.len > 0) {
        size_t n = qw_tok_char(s.data, s.len, &cp);
        if (!qw_tok_is_strippable(cp))
            break;
        s.data += n;
        s.len -= n;
    }
    while (s.len > 0) {
        size_t n = last_char(s, &cp);
        if (!qw_tok_is_strippable(cp))
            break;
        s.len -= n;
    }
    return s;
}

static struct qw_str trim_newlines(struct qw_str s, bool front, bool back)
{
    for (; front && s.len > 0 && s.data[0] == '\n'; s.data++)
        s.len--;
    while (back && s.len > 0 && s.data[s.len - 1] == '\n')
        s.len--;
    return s;
}

static bool begins_with(struct qw_str s, const char *what)
{
    return s.len >= strlen(what) && memcmp(s.data, what, strlen(what)) == 0;
}

static bool ends_with(struct qw_str s, const char *what)
{
    size_t n = strlen(what);
    return s.len >= n && memcmp(s.data + s.len - n, what, n) == 0;
}

/* Part s at the first (or last) mark; false where it has none. */
static bool part(struct qw_str s, const char *mark, bool last, struct qw_str *before,
                 struct qw_str *after)
{
    const char *end = s.data + s.len;
    const char *at = s.len > 0 ? find(s.data, end, mark) : NULL;
    if (at == NULL)
        return false;
    for (const char *p = at; last && p != NULL; p = find(p + 1, end, mark))
        at = p;
    *before = (struct qw_str){s.data, (size_t)(at - s.data)};
    *after = (struct qw_str){at + strlen(mark), s.len - before->len - strlen(mark)};
    return true;
}

static struct qw_str text_of(const json_t *v)
{
    if (!json_is_string(v))
        return (struct qw_str){"", 0};
    return (struct qw_str){json_string_value(v), json_string_length(v)};
}

/* ---- messages ---- */

enum role { SYSTEM, USER, ASSISTANT, TOOL };

struct message {
    enum role role;
    struct qw_buf joined;  /* the text of a list of parts */
    struct qw_str content; /* trimmed where the rule does that; borrowed */
    struct qw_str reasoning;
    const json_t *calls; /* NULL where there are none */
};

struct render {
    const struct qw_chat *chat;
    const struct qw_chat_params *params;
    struct message *message;
    size_t n;
    struct qw_prompt *out;
    struct qw_err *err;
};

static int read_role(struct render *r, size_t i, const json_t *v)
{
    static const struct {
        const char *name;
        enum role role;
    } known[] = {{"system", SYSTEM},
                 {"developer", SYSTEM},
                 {"user", USER},
                 {"assistant", ASSISTANT},
                 {"tool", TOOL}};
    char shown[64];
    if (!json_is_string(v))
        return qw_fail(r->err, QW_EUSAGE, "messages[%zu]: role must be a string", i);
    for (size_t k = 0; k < sizeof(known) / sizeof(known[0]); k++)
        if (strcmp(json_string_value(v), known[k].name) == 0) {
            r->message[i].role = known[k].role;
            return QW_OK;
        }
    qw_escape(shown, sizeof(shown), json_string_value(v), json_string_length(v));
    return qw_fail(
        r->err, QW_EUSAGE,
        "messages[%zu]: role '%s' is not known (system, developer, user, assistant, "
        "tool)",
        i, shown);
}

/* A list of text parts, put together with nothing between. */
static int join_parts(struct render *r, size_t i, const json_t *list)
{
    static const char *const other[] = {"image", "image_url", "video", "video_url",
                                        "input_audio"};
    struct message *m = &r->message[i];
    for (size_t k = 0; k < json_array_size(list); k++) {
        const json_t *item = json_array_get(list, k),
                     *text = json_object_get(item, "text");
        for (size_t o = 0; o < sizeof(other) / sizeof(other[0]); o++)
            if (json_object_get(item, other[o]) != NULL ||
                strcmp(text_of(json_object_get(item, "type")).data, other[o]) == 0)
                return qw_fail(r->err, QW_EUSAGE,
                               "messages[%zu].content[%zu]: %s: only text is supported",
                               i, k, other[o]);
        if (!json_is_string(text))
            return qw_fail(
                r->err, QW_EUSAGE,
                "messages[%zu].content[%zu]: must be an object with a string 'text'", i,
                k);
        qw_buf_add(&m->joined, json_string_value(text), json_string_length(text));
    }
    if (m->joined.len > 0)
        m->content = (struct qw_str){m->joined.data, m->joined.len};
    return QW_OK;
}

static int read_content(struct render *r, size_t i, const json_t *v)
{
    r->message[i].content = text_of(v);
    if (json_is_array(v))
        return join_parts(r, i, v);
    if (v == NULL || json_is_null(v) || json_is_string(v))
        return QW_OK;
    return qw_fail(r->err, QW_EUSAGE,
                   "messages[%zu]: content must be a string or a list of text parts", i);
}

/* Reasoning stands in its own field, or before </think> in the content. */
static void read_reasoning(struct message *m, const json_t *field)
{
    struct qw_str before, rest, none;
    m->reasoning = text_of(field);
    if (!json_is_string(field) && part(m->content, "</think>", false, &before, &rest)) {
        before = trim_newlines(before, false, true);
        if (part(before, "<think>", true, &none, &rest))
            before = rest;
        m->reasoning = trim_newlines(before, true, false);
        part(m->content, "</think>", true, &none, &rest);
        m->content = trim_newlines(rest, true, false);
    }
    m->reasoning = trim(m->reasoning);
}

static int read_message(struct render *r, size_t i, const json_t *v)
{
    struct message *m = &r->message[i];
    const json_t *calls = json_object_get(v, "tool_calls");
    if (!json_is_object(v))
        return qw_fail(r->err, QW_EUSAGE, "messages[%zu]: must be an object", i);
    int rc = read_role(r, i, json_object_get(v, "role"));
    if (rc == QW_OK)
        rc = read_content(r, i, json_object_get(v, "content"));
    if (rc != QW_OK)
        return rc;
    if (r->chat->rule == QW_CHAT_QWEN36)
        m->content = trim(m->content);
    if (m->role != ASSISTANT)
        return QW_OK;
    if (r->chat->rule == QW_CHAT_QWEN36)
        read_reasoning(m, json_object_get(v, "reasoning_content"));
    if (calls != NULL && !json_is_null(calls) && !json_is_array(calls))
        return qw_fail(r->err, QW_EUSAGE, "messages[%zu]: tool_calls must be a list", i);
    m->calls = json_array_size(calls) > 0 ? calls : NULL;
    return QW_OK;
}

static int read_messages(struct render *r, const json_t *messages)
{
    if (json_array_size(messages) == 0) /* also where it is no array */
        return qw_fail(r->err, QW_EUSAGE, "No messages provided.");
    r->n = json_array_size(messages);
    r->message = qw_alloc(r->n, sizeof(*r->message));
    for (size_t i = 0; i < r->n; i++) {
        int rc = read_message(r, i, json_array_get(messages, i));
        if (rc != QW_OK)
            return rc;
    }
    return QW_OK;
}

static void add_turn(struct render *r, const char *role, struct qw_str content)
{
    fixed(r->out, "<|im_start|>");
    fixed(r->out, role);
    fixed(r->out, "\n");
    given(r->out, content);
    fixed(r->out, "<|im_end|>\n");
}

static void add_opening(struct render *r, bool thinking)
{
    if (!r->params->no_generation_prompt)
        fixed(r->out, thinking ? "<|im_start|>assistant\n<think>\n"
                               : "<|im_start|>assistant\n<think>\n\n</think>\n\n");
}

/* ---- qwen3.6 ---- */

static void add_system(struct render *r)
{
    struct qw_str system = {"", 0};
    const bool given_one = r->message[0].role == SYSTEM;
    if (given_one)
        system = r->message[0].content;
    if (json_array_size(r->params->tools) == 0) {
        if (given_one)
            add_turn(r, "system", system);
        return;
    }
    fixed(r->out,
          "<|im_start|>system\n# Tools\n\nYou have access to the following functions:\n\n"
          "<tools>");
    for (size_t i = 0; i < json_array_size(r->params->tools); i++) {
        fixed(r->out, "\n");
        given_json(r->out, json_array_get(r->params->tools, i));
    }
    fixed(r->out, "\n</tools>");
    fixed(r->out, r->chat->tools_fixed);
    if (system.len > 0) {
        fixed(r->out, "\n\n");
        given(r->out, system);
    }
    fixed(r->out, "<|im_end|>\n");
}

static int bad_call(struct render *r, size_t i, size_t k, const char *what)
{
    return qw_fail(r->err, QW_EUSAGE, "messages[%zu].tool_calls[%zu]: %s", i, k, what);
}

/* Arguments as an object: given as one or as its text. The caller drops the reference. */
static int read_arguments(struct render *r, size_t i, size_t k, const json_t *v,
                          json_t **out)
{
    json_error_t e;
    struct qw_str text = trim(text_of(v));
    if (v == NULL || json_is_null(v) || (json_is_string(v) && text.len == 0))
        *out = json_object();
    else if (json_is_object(v))
        *out = json_incref((json_t *)(uintptr_t)v);
    else
        *out = json_loadb(text.data, text.len, JSON_ALLOW_NUL, &e);
    if (json_is_object(*out))
        return QW_OK;
    json_decref(*out);
    return bad_call(r, i, k, "arguments must be an object, or the JSON text of one");
}

static void add_arguments(struct render *r, json_t *arguments)
{
    const char *name;
    json_t *v;
    json_object_foreach(arguments, name, v)
    {
        fixed(r->out, "<parameter=");
        given(r->out, (struct qw_str){name, strlen(name)});
        fixed(r->out, ">\n");
        if (json_is_string(v))
            given(r->out, text_of(v));
        else
            given_json(r->out, v);
        fixed(r->out, "\n</parameter>\n");
    }
}

static int add_call(struct render *r, size_t i, size_t k)
{
    const struct message *m = &r->message[i];
    const json_t *call = json_array_get(m->calls, k);
    const json_t *function = json_object_get(call, "function");
    if (function != NULL)
        call = function;
    const json_t *name = json_object_get(call, "name");
    json_t *arguments = NULL;
    if (!json_is_string(name))
        return bad_call(r, i, k, "the function needs a name");
    int rc = read_arguments(r, i, k, json_object_get(call, "arguments"), &arguments);
    if (rc != QW_OK)
        return rc;
    fixed(r->out, k > 0 ? "\n" : trim(m->content).len > 0 ? "\n\n" : "");
    fixed(r->out, "<tool_call>\n<function=");
    given(r->out, text_of(name));
    fixed(r->out, ">\n");
    add_arguments(r, arguments);
    fixed(r->out, "</function>\n</tool_call>");
    json_decref(arguments);
    return QW_OK;
}

static int add_answer(struct render *r, size_t i, bool current)
{
    const struct message *m = &r->message[i];
    fixed(r->out, "<|im_start|>assistant\n");
    if (current) {
        fixed(r->out, "<think>\n");
        given(r->out, m->reasoning);
        fixed(r->out, "\n</think>\n\n");
    }
    given(r->out, m->content);
    for (size_t k = 0; k < json_array_size(m->calls); k++) {
        int rc = add_call(r, i, k);
        if (rc != QW_OK)
            return rc;
    }
    fixed(r->out, "<|im_end|>\n");
    return QW_OK;
}

/* Results in a row share one turn. */
static void add_result(struct render *r, size_t i)
{
    if (i == 0 || r->message[i - 1].role != TOOL)
        fixed(r->out, "<|im_start|>user");
    fixed(r->out, "\n<tool_response>\n");
    given(r->out, r->message[i].content);
    fixed(r->out, "\n</tool_response>");
    if (i + 1 == r->n || r->message[i + 1].role != TOOL)
        fixed(r->out, "<|im_end|>\n");
}

/* The last message that a person wrote: not a tool's result in the user's place. */
static bool find_query(const struct render *r, size_t *at)
{
    for (size_t i = r->n; i-- > 0;) {
        struct qw_str c = r->message[i].content;
        if (r->message[i].role == USER &&
            !(begins_with(c, "<tool_response>") && ends_with(c, "</tool_response>"))) {
            *at = i;
            return true;
        }
    }
    return false;
}

static int render_qwen(struct render *r)
{
    size_t query = 0;
    int rc = QW_OK;
    if (!find_query(r, &query))
        return qw_fail(r->err, QW_EUSAGE, "No user query found in messages.");
    for (size_t i = 1; i < r->n; i++)
        if (r->message[i].role == SYSTEM)
            return qw_fail(r->err, QW_EUSAGE,
                           "messages[%zu]: System message must be at the beginning.", i);
    add_system(r);
    for (size_t i = 0; i < r->n && rc == QW_OK; i++) {
        if (r->message[i].role == USER)
            add_turn(r, "user", r->message[i].content);
        else if (r->message[i].role == TOOL)
            add_result(r, i);
        else if (r->message[i].role == ASSISTANT)
            rc = add_answer(r, i, i > query || r->params->preserve_thinking);
    }
    if (rc == QW_OK)
        add_opening(r, r->params->thinking != QW_THINK_OFF);
    return rc;
}

/* ---- tiny ---- */

/* Texts as they are; answers keep an empty think block; tools and calls have no place. */
static int render_tiny(struct render *r)
{
    if (json_array_size(r->params->tools) > 0)
        qw_log(QW_INFO,
               "the prompt rules of tiny have no place for tools: they are left out");
    for (size_t i = 0; i < r->n; i++) {
        const struct message *m = &r->message[i];
        if (m->role == TOOL) {
            fixed(r->out, "<|im_start|>user\n<tool_response>\n");
            given(r->out, m->content);
            fixed(r->out, "\n</tool_response><|im_end|>\n");
        } else if (m->role == ASSISTANT) {
            add_turn(r, "assistant\n<think>\n\n</think>\n", m->content);
        } else {
            add_turn(r, m->role == SYSTEM ? "system" : "user", m->content);
        }
    }
    add_opening(r, r->params->thinking == QW_THINK_ON);
    return QW_OK;
}

int qw_chat_render(const struct qw_chat *c, const json_t *messages,
                   const struct qw_chat_params *p, struct qw_prompt *out,
                   struct qw_err *err)
{
    struct qw_prompt prompt = {0};
    struct render r = {.chat = c, .params = p, .out = &prompt, .err = err};
    if (p->tools != NULL && !json_is_null(p->tools) && !json_is_array(p->tools))
        return qw_fail(err, QW_EUSAGE, "tools must be a list");
    int rc = read_messages(&r, messages);
    if (rc == QW_OK)
        rc = c->rule == QW_CHAT_TINY ? render_tiny(&r) : render_qwen(&r);
    for (size_t i = 0; i < r.n; i++)
        qw_buf_free(&r.message[i].joined);
    free(r.message);
    if (rc == QW_OK)
        *out = prompt;
    else
        qw_prompt_free(&prompt);
    return rc;
}
