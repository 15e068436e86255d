/* SPDX-License-Identifier: MIT */
#include "chat_json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add(struct qw_buf *out, const char *s)
{
    qw_buf_add(out, s, strlen(s));
}

static void add_string(struct qw_buf *out, const char *s, size_t len)
{
    static const char named[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt";
    size_t done = 0;
    qw_buf_add(out, "\"", 1);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[i];
        const char *at = c != '\0' ? strchr(named, c) : NULL;
        if (c >= 0x20 && at == NULL)
            continue;
        qw_buf_add(out, s + done, i - done);
        if (at != NULL)
            qw_buf_printf(out, "\\%c", letter[at - named]);
        else
            qw_buf_printf(out, "\\u%04x", c);
        done = i + 1;
    }
    qw_buf_add(out, s + done, len - done);
    qw_buf_add(out, "\"", 1);
}

/* The fewest digits that read back as the same number: as a plain decimal between 1e-4
 * and 1e16, with an exponent elsewhere. */
static void add_real(struct qw_buf *out, double v)
{
    char e[40], digit[24];
    int precision = 0, n = 0;
    if (!isfinite(v)) { /* JSON has none; jansson makes none from a text */
        add(out, "null");
        return;
    }
    do
        snprintf(e, sizeof(e), "%.*e", precision, fabs(v));
    while (strtod(e, NULL) != fabs(v) && ++precision < 17);
    const char *mark = strchr(e, 'e');
    for (const char *p = e; p < mark; p++)
        if (*p >= '0' && *p <= '9') /* whatever the decimal point of the locale */
            digit[n++] = *p;
    digit[n] = '\0';
    int exponent = atoi(mark + 1);
    if (signbit(v))
        add(out, "-");
    if (exponent < -4 || exponent >= 16)
        qw_buf_printf(out, "%c%s%se%c%02d", digit[0], n > 1 ? "." : "", digit + 1,
                      exponent < 0 ? '-' : '+', abs(exponent));
    else if (exponent < 0)
        qw_buf_printf(out, "0.%.*s%s", -exponent - 1, "000", digit);
    else if (n <= exponent + 1)
        qw_buf_printf(out, "%s%.*s.0", digit, exponent + 1 - n, "0000000000000000");
    else
        qw_buf_printf(out, "%.*s.%s", exponent + 1, digit, digit + exponent + 1);
}

static void add_array(struct qw_buf *out, const json_t *v)
{
    qw_buf_add(out, "[", 1);
    for (size_t i = 0; i < json_array_size(v); i++) {
        if (i > 0)
            add(out, ", ");
        qw_chat_json(out, json_array_get(v, i));
    }
    qw_buf_add(out, "]", 1);
}

static void add_object(struct qw_buf *out, const json_t *v)
{
    json_t *o = (json_t *)(uintptr_t)v; /* jansson's iterators only read */
    const char *between = "";
    qw_buf_add(out, "{", 1);
    for (void *it = json_object_iter(o); it != NULL; it = json_object_iter_next(o, it)) {
        const char *key = json_object_iter_key(it);
        add(out, between);
        add_string(out, key, strlen(key));
        add(out, ": ");
        qw_chat_json(out, json_object_iter_value(it));
        between = ", ";
    }
    qw_buf_add(out, "}", 1);
}

void qw_chat_json(struct qw_buf *out,
                  const json_t *v) /* as deep as the parser lets texts be */
{
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        add_object(out, v);
        break;
    case JSON_ARRAY:
        add_array(out, v);
        break;
    case JSON_STRING:
        add_string(out, json_string_value(v), json_string_length(v));
        break;
    case JSON_INTEGER:
        qw_buf_printf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
        break;
    case JSON_REAL:
        add_real(out, json_real_value(v));
        break;
    case JSON_TRUE:
        add(out, "true");
        break;
    case JSON_FALSE:
        add(out, "false");
        break;
    case JSON_NULL:
        add(out, "null");
        break;
    }
}
