/* SPDX-License-Identifier: MIT */
/* cmd_info.c - what is there (info), what it will take (plan), text to ids and back
 * (tokenize). */
#include "cmd.h"
#include "qwenrun.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- text form of a JSON description: "name  value", nested parts indented ---- */

static void print_value(const json_t *v)
{
    if (json_is_string(v)) {
        char safe[1024];
        qw_escape(safe, sizeof(safe), json_string_value(v), json_string_length(v));
        printf("%s", safe);
    } else if (json_is_integer(v)) {
        printf("%lld", (long long)json_integer_value(v));
    } else if (json_is_real(v)) {
        printf("%g", json_real_value(v));
    } else if (json_is_boolean(v)) {
        printf("%s", json_is_true(v) ? "yes" : "no");
    } else {
        printf("-");
    }
}

/* Bytes also in the unit a person reads. */
static void print_bytes_unit(const char *key, const json_t *v)
{
    const size_t n = strlen(key);
    if (json_is_integer(v) && n > 5 && strcmp(key + n - 5, "bytes") == 0 &&
        json_integer_value(v) >= 1 << 20)
        printf("  (%.1f MiB)", (double)json_integer_value(v) / (1 << 20));
}

static void print_tree(const json_t *j, int indent)
{
    const char *key;
    json_t *v;
    size_t i;
    if (json_is_array(j)) {
        json_array_foreach(j, i, v)
        {
            print_tree(v, indent);
            if (json_is_object(v) && i + 1 < json_array_size(j))
                putchar('\n');
        }
        return;
    }
    json_object_foreach((json_t *)j, key, v)
    {
        if (json_is_object(v) || json_is_array(v)) {
            printf("%*s%s\n", indent, "", key);
            print_tree(v, indent + 2);
        } else {
            printf("%*s%-*s ", indent, "", 26 - indent, key);
            print_value(v);
            print_bytes_unit(key, v);
            putchar('\n');
        }
    }
}

static int print(struct qw_cmd *c, json_t *j)
{
    if (c->json)
        return qw_cmd_print_json(j, &c->err);
    print_tree(j, 0);
    json_decref(j);
    return QW_OK;
}

/* ---- info ---- */

/* One line an op and a tensor type: the tree form would be long. */
static void print_info(json_t *info)
{
    const char *key;
    json_t *v;
    size_t i;
    json_t *model = json_object_get(info, "model"),
           *tensors = json_object_get(model, "tensors");
    printf("devices\n");
    print_tree(json_object_get(info, "devices"), 2);
    printf("\nmodel\n");
    json_incref(tensors);
    json_object_del(model, "tensors");
    print_tree(model, 2);
    printf("\ntensors (type, number, bytes, layout, kernel, variant)\n");
    json_object_foreach(tensors, key, v)
        printf("  %-8s %4lld %14lld  %-5s %-12s %s\n", key,
               (long long)json_integer_value(json_object_get(v, "tensors")),
               (long long)json_integer_value(json_object_get(v, "bytes")),
               json_string_value(json_object_get(v, "layout")),
               json_string_value(json_object_get(v, "kernel")),
               json_string_value(json_object_get(v, "variant")));
    json_decref(tensors);
    printf("\nkernels on %s\n", json_string_value(json_object_get(info, "device")));
    json_array_foreach(json_object_get(info, "kernels"), i, v)
        printf("  %-12s %-20s %s\n", json_string_value(json_object_get(v, "op")),
               json_string_value(json_object_get(v, "variant")),
               json_string_value(json_object_get(v, "why")));
    json_decref(info);
}

static int run_info(struct qw_cmd *c)
{
    struct qw_engine *e;
    int rc = qw_engine_open(&e, c->options, QW_OPEN_KERNELS, false, &c->err);
    if (rc != QW_OK)
        return rc;
    json_t *info = qw_engine_info(e, qw_cmd_value(c, "sha256") != NULL);
    if (c->json)
        rc = qw_cmd_print_json(info, &c->err);
    else
        print_info(info);
    qw_engine_close(e);
    return rc;
}

static const struct qw_cmd_option info_options[] = {
    {0, "sha256", NULL, "hash the model file even when it is large"},
    {0},
};

const struct qw_command qw_command_info = {
    .name = "info",
    .summary = "show devices, the model, and which kernel each op and tensor takes",
    .options = info_options,
    .run = run_info,
};

/* ---- plan ---- */

/* "256x6" */
static void print_sizes(const json_t *sizes, int width)
{
    char text[80] = "-";
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(sizes) && n < sizeof(text); i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%lld", i > 0 ? "x" : "",
                              (long long)json_integer_value(json_array_get(sizes, i)));
    printf(" %-*s", width, text);
}

/* One line a launch. */
static void print_launches(const json_t *plans)
{
    const char *name;
    json_t *steps, *step;
    size_t i;
    json_object_foreach((json_t *)plans, name, steps)
    {
        printf(
            "\nlaunches of %s (kernel, global and local size, bytes read and written)\n",
            name);
        json_array_foreach(steps, i, step)
        {
            printf("  %-20s", json_string_value(json_object_get(step, "kernel")));
            print_sizes(json_object_get(step, "global"), 14);
            print_sizes(json_object_get(step, "local"), 8);
            printf(" %12lld %12lld\n",
                   (long long)json_integer_value(json_object_get(step, "read_bytes")),
                   (long long)json_integer_value(json_object_get(step, "written_bytes")));
        }
    }
}

/* Takes the references. */
static int print_plan(struct qw_cmd *c, json_t *plan, json_t *launches)
{
    if (launches != NULL && c->json)
        json_object_update(plan, launches);
    int rc = print(c, plan);
    if (launches != NULL && !c->json)
        print_launches(json_object_get(launches, "launches"));
    json_decref(launches);
    return rc;
}

static int run_plan(struct qw_cmd *c)
{
    const bool each = qw_cmd_value(c, "launches") != NULL;
    const enum qw_open_level level = each ? QW_OPEN_KERNELS : QW_OPEN_DEVICE;
    struct qw_engine *e;
    json_t *plan = NULL, *launches = NULL;
    int rc = qw_cmd_value(c, "b70") != NULL
                 ? qw_engine_open_paper(&e, c->options, level, &c->err)
                 : qw_engine_open(&e, c->options, level, false, &c->err);
    if (rc != QW_OK)
        return rc;
    rc = qw_engine_plan(e, &plan, &c->err);
    if (rc == QW_OK && each)
        rc = qw_engine_launches(e, &launches, &c->err);
    if (rc == QW_OK)
        rc = print_plan(c, plan, launches);
    else
        json_decref(plan);
    qw_engine_close(e);
    return rc;
}

static const struct qw_cmd_option plan_options[] = {
    {0, "b70", NULL, "for an Arc Pro B70, which need not be there"},
    {0, "launches", NULL, "also every launch of a step, with the bytes it moves"},
    {0},
};

const struct qw_command qw_command_plan = {
    .name = "plan",
    .summary = "show bytes by part and the largest context that fits, loading nothing",
    .options = plan_options,
    .run = run_plan,
};

/* ---- tokenize ---- */

static int parse_ids(const struct qw_buf *text, struct qw_tokens *out, struct qw_err *err)
{
    size_t cap = 0;
    for (char *s = text->data ? text->data : (char *)"";;) {
        char *end, safe[64];
        s += strspn(s, " \t\r\n,[]");
        if (*s == '\0' && (text->data == NULL || s == text->data + text->len))
            return QW_OK;
        errno = 0;
        const long v = strtol(s, &end, 10);
        if (end == s || errno != 0 || v < 0 || v > INT32_MAX ||
            strchr(" \t\r\n,[]", *end) == NULL) {
            const size_t n = strcspn(s, " \t\r\n,[]");
            qw_escape(safe, sizeof(safe), s, n > 0 ? n : 1); /* 1: a NUL */
            return qw_fail(err, QW_EUSAGE, "tokenize --decode: '%s' is not a token id",
                           safe);
        }
        if (out->n == cap)
            out->id = qw_realloc(out->id, cap = cap ? 2 * cap : 64, sizeof(int32_t));
        out->id[out->n++] = (int32_t)v;
        s = end;
    }
}

/* Operands joined by blanks, or stdin. */
static int operands_or_stdin(const struct qw_cmd *c, struct qw_buf *text,
                             struct qw_err *err)
{
    char chunk[1 << 16];
    for (int i = 0; i < c->argc; i++) {
        qw_buf_add(text, " ", i > 0);
        qw_buf_add(text, c->argv[i], strlen(c->argv[i]));
    }
    if (c->argc > 0)
        return QW_OK;
    for (ssize_t n; (n = read(0, chunk, sizeof(chunk))) != 0;) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return qw_fail(err, QW_EUSAGE, "stdin: %s", strerror(errno));
        qw_buf_add(text, chunk, (size_t)n);
    }
    return QW_OK;
}

static int decode(struct qw_cmd *c, struct qw_engine *e, const struct qw_buf *in)
{
    struct qw_tokens ids = {0};
    char *text = NULL;
    size_t len = 0;
    int rc = parse_ids(in, &ids, &c->err);
    if (rc == QW_OK)
        rc = qw_engine_detokenize(e, ids.id, ids.n, &text, &len, &c->err);
    if (rc == QW_OK && c->json)
        rc =
            qw_cmd_print_json(json_pack("{s:o, s:I}", "text", qw_cmd_json_text(text, len),
                                        "tokens", (json_int_t)ids.n),
                              &c->err);
    else if (rc == QW_OK)
        fwrite(text, 1, len, stdout);
    free(text);
    free(ids.id);
    return rc;
}

static int encode(struct qw_cmd *c, struct qw_engine *e, const struct qw_buf *in)
{
    struct qw_tokens ids = {0};
    int rc = qw_engine_tokenize(e, in->data ? in->data : "", in->len,
                                qw_cmd_value(c, "specials") != NULL, &ids, &c->err);
    if (rc != QW_OK)
        return rc;
    if (c->json) {
        json_t *a = json_array();
        for (size_t i = 0; i < ids.n; i++)
            json_array_append_new(a, json_integer(ids.id[i]));
        rc = qw_cmd_print_json(
            json_pack("{s:o, s:I}", "ids", a, "tokens", (json_int_t)ids.n), &c->err);
    } else {
        for (size_t i = 0; i < ids.n; i++)
            printf("%s%d", i ? " " : "", ids.id[i]);
        putchar('\n');
    }
    free(ids.id);
    return rc;
}

static int run_tokenize(struct qw_cmd *c)
{
    struct qw_engine *e;
    struct qw_buf in = {0};
    const bool back = qw_cmd_value(c, "decode") != NULL;
    int rc = back && qw_cmd_value(c, "specials") != NULL
                 ? qw_fail(&c->err, QW_EUSAGE,
                           "tokenize: --decode and --specials exclude each other")
                 : operands_or_stdin(c, &in, &c->err);
    if (rc == QW_OK)
        rc = qw_engine_open(&e, c->options, QW_OPEN_TOKENIZER, false, &c->err);
    if (rc == QW_OK) {
        rc = back ? decode(c, e, &in) : encode(c, e, &in);
        qw_engine_close(e);
    }
    qw_buf_free(&in);
    return rc;
}

static const struct qw_cmd_option tokenize_options[] = {
    {0, "specials", NULL, "texts of control tokens become those tokens"},
    {0, "decode", NULL, "the other way: ids to text"},
    {0},
};

const struct qw_command qw_command_tokenize = {
    .name = "tokenize",
    .summary = "show the token ids of a text, or the text of ids",
    .operands = "[TEXT|ID]...",
    .options = tokenize_options,
    .run = run_tokenize,
};
