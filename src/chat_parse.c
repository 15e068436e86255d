/* SPDX-License-Identifier: MIT */
/* chat_parse.c - a finished reply: reasoning, content, tool calls. */
#include <stdlib.h>
#include <string.h>

#include "chat.h"
#include "chat_json.h"
#include "tok_split.h"

/* After so many broken calls the rest of a reply is content: parsing stays linear. */
enum { MAX_BROKEN = 64 };

static const char think_end[] = "</think>", call_open[] = "<tool_call>",
                  call_close[] = "</tool_call>",
                  function_open[] = "<function=", function_close[] = "</function>",
                  parameter_open[] = "<parameter=", parameter_close[] = "</parameter>";

/* What is left of the reply. */
struct view {
    const char *p, *end;
};

static const char *find(struct view v, const char *what)
{
    return memmem(v.p, (size_t)(v.end - v.p), what, strlen(what));
}

static bool take(struct view *v, const char *what)
{
    size_t n = strlen(what);
    if ((size_t)(v->end - v->p) < n || memcmp(v->p, what, n) != 0)
        return false;
    v->p += n;
    return true;
}

static void skip_newlines(struct view *v)
{
    while (v->p < v->end && *v->p == '\n')
        v->p++;
}

static void skip_blanks(struct view *v)
{
    while (v->p < v->end && (*v->p == ' ' || (*v->p >= '\t' && *v->p <= '\r')))
        v->p++;
}

/* A name up to ">": at least one byte, no control bytes. The caller frees it. */
static char *take_name(struct view *v)
{
    struct qw_buf b = {0};
    const char *close = find(*v, ">");
    if (close == NULL || close == v->p)
        return NULL;
    for (const char *p = v->p; p < close; p++)
        if ((unsigned char)*p < 0x20)
            return NULL;
    qw_buf_add(&b, v->p, (size_t)(close - v->p));
    v->p = close + 1;
    return b.data;
}

/* ---- types ---- */

/* The schema of a parameter of a function in the tool list, NULL where it is not known.
 */
static const json_t *schema_of(const json_t *tools, const char *function,
                               const char *parameter)
{
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *f = json_object_get(json_array_get(tools, i), "function");
        const char *name = json_string_value(json_object_get(f, "name"));
        if (name != NULL && strcmp(name, function) == 0)
            return json_object_get(
                json_object_get(json_object_get(f, "parameters"), "properties"),
                parameter);
    }
    return NULL;
}

static bool names_string(const json_t *type)
{
    return json_is_string(type) && strcmp(json_string_value(type), "string") == 0;
}

/* Whether a value is wanted as text: one of the schema's types is "string". */
static bool wants_text(const json_t *schema)
{
    const json_t *type = json_object_get(schema, "type");
    for (size_t i = 0; i < json_array_size(type); i++)
        if (names_string(json_array_get(type, i)))
            return true;
    return names_string(type);
}

static json_t *typed_value(const json_t *schema, const char *s, size_t len)
{
    json_error_t e;
    json_t *v = NULL;
    if (!wants_text(schema))
        v = json_loadb(s, len, JSON_DECODE_ANY | JSON_ALLOW_NUL, &e);
    return v != NULL ? v : json_stringn(s, len);
}

/* ---- calls ---- */

/* The end of a value: with a newline of its own before the tag when it began with one. */
static bool take_value(struct view *v, const char **value, size_t *len)
{
    static const char own_line[] = "\n</parameter>";
    const bool lines = v->p < v->end && *v->p == '\n';
    const char *close = find(*v, lines ? own_line : parameter_close);
    if (close == NULL)
        return false;
    *value = lines && close > v->p ? v->p + 1 : v->p;
    *len = (size_t)(close - *value);
    v->p = close + strlen(lines ? own_line : parameter_close);
    return true;
}

static bool take_parameter(struct view *v, const char *function, const json_t *tools,
                           json_t *arguments)
{
    const char *value;
    size_t len;
    char *name = take_name(v);
    bool good = name != NULL && take_value(v, &value, &len);
    if (good)
        good = json_object_set_new(
                   arguments, name,
                   typed_value(schema_of(tools, function, name), value, len)) == 0;
    free(name);
    return good;
}

/* What follows <tool_call>. The function's name and arguments on success, for the caller.
 */
static bool take_call(struct view *v, const json_t *tools, char **name,
                      json_t **arguments)
{
    bool good = true;
    skip_blanks(v);
    if (!take(v, function_open) || (*name = take_name(v)) == NULL)
        return false;
    *arguments = json_object();
    for (skip_blanks(v); good && take(v, parameter_open); skip_blanks(v))
        good = take_parameter(v, *name, tools, *arguments);
    good = good && take(v, function_close);
    skip_blanks(v);
    if (good && take(v, call_close))
        return true;
    free(*name);
    json_decref(*arguments);
    return false;
}

static json_t *call_object(const char *name, const json_t *arguments, size_t number)
{
    struct qw_buf text = {0};
    char *id = qw_sprintf("call_%zu", number);
    qw_chat_json(&text, arguments);
    json_t *call = json_pack("{s:s, s:s, s:{s:s, s:s#}}", "id", id, "type", "function",
                             "function", "name", name, "arguments", text.data, text.len);
    free(id);
    qw_buf_free(&text);
    return call;
}

static void add_content(struct qw_buf *content, const char *from, const char *to)
{
    qw_buf_add(content, from, (size_t)(to - from));
}

/* Cut the well-formed calls out of v; the rest is content. NULL when there are none. */
static json_t *take_calls(struct view v, const json_t *tools, struct qw_buf *content)
{
    json_t *calls = json_array();
    const char *open;
    for (int broken = 0; broken < MAX_BROKEN && (open = find(v, call_open)) != NULL;) {
        struct view call = {open + strlen(call_open), v.end};
        const char *after = call.p;
        char *name;
        json_t *arguments;
        if (!take_call(&call, tools, &name, &arguments)) {
            broken++;
            add_content(content, v.p, after);
            v.p = after;
            continue;
        }
        add_content(content, v.p, open);
        while (content->len > 0 && content->data[content->len - 1] == '\n')
            content->data[--content->len] = '\0'; /* they part content and call */
        json_array_append_new(calls,
                              call_object(name, arguments, json_array_size(calls)));
        free(name);
        json_decref(arguments);
        skip_newlines(&call);
        v.p = call.p;
    }
    add_content(content, v.p, v.end);
    if (json_array_size(calls) > 0)
        return calls;
    json_decref(calls);
    return NULL;
}

/* ---- replies ---- */

/* Take the reasoning off the front; false when the reply ends inside it. */
static bool take_reasoning(struct view *v, json_t *reply)
{
    struct view r = *v;
    const char *end = find(*v, think_end);
    if (end != NULL)
        r.end = end;
    v->p = end != NULL ? end + strlen(think_end) : v->end;
    skip_newlines(v);
    skip_newlines(&r);
    while (r.end > r.p && r.end[-1] == '\n')
        r.end--;
    json_object_set_new(reply, "reasoning_content",
                        json_stringn(r.p, (size_t)(r.end - r.p)));
    return end != NULL;
}

json_t *qw_chat_parse(const char *text, size_t len, bool thinking, const json_t *tools)
{
    json_t *reply = json_object();
    struct qw_buf valid = {0}, content = {0};
    qw_tok_valid(text, len, &valid);
    struct view v = {valid.data, valid.data + valid.len};
    json_t *calls = NULL;
    qw_buf_add(&content, "", 0);
    if (!thinking || take_reasoning(&v, reply))
        calls = take_calls(v, tools, &content);
    json_object_set_new(reply, "content", json_stringn(content.data, content.len));
    if (calls != NULL)
        json_object_set_new(reply, "tool_calls", calls);
    qw_buf_free(&valid);
    qw_buf_free(&content);
    return reply;
}
