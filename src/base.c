/* SPDX-License-Identifier: MIT */
#include "base.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static FILE *log_file;
static enum qw_level log_level = QW_WARN;

static void escape_controls(char *s, bool keep_newlines)
{
    for (; *s; s++)
        if (((unsigned char)*s < 0x20 &&
             !(keep_newlines && (*s == '\n' || *s == '\t'))) ||
            *s == 0x7f)
            *s = '?';
}

int qw_fail(struct qw_err *err, int code, const char *fmt, ...)
{
    if (err != NULL) {
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
        va_end(ap);
        escape_controls(err->msg, false);
    }
    return code;
}

int qw_fail_log(struct qw_err *err, int code, const char *text, const char *fmt, ...)
{
    if (err != NULL) {
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
        va_end(ap);
        size_t n = strlen(err->msg);
        snprintf(err->msg + n, sizeof(err->msg) - n, ": %s", text);
        n = strlen(err->msg);
        while (n > 0 && err->msg[n - 1] == '\n')
            err->msg[--n] = '\0';
        escape_controls(err->msg, true);
    }
    return code;
}

int qw_exit_status(int code)
{
    return code == QW_EINTR ? 130 : code < 0 ? -code : code;
}

/* Length of the UTF-8 character at s (n bytes left), 0 when it is not one. */
static size_t utf8_len(const unsigned char *s, size_t n)
{
    size_t want = s[0] < 0x80                    ? 1
                  : s[0] >= 0xc2 && s[0] <= 0xdf ? 2
                  : (s[0] & 0xf0) == 0xe0        ? 3
                  : s[0] >= 0xf0 && s[0] <= 0xf4 ? 4
                                                 : 0;
    if (want == 0 || want > n)
        return 0;
    for (size_t i = 1; i < want; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90)) /* overlong */
        return 0;
    if ((s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf4 && s[1] > 0x8f)) /* no character */
        return 0;
    return want;
}

/* Length of the character at s, 0 where a terminal must not see it. */
static size_t printable_len(const unsigned char *s, size_t n)
{
    const bool c1 = n > 1 && s[0] == 0xc2 && s[1] < 0xa0;
    return s[0] < 0x20 || s[0] == 0x7f || c1 ? 0 : utf8_len(s, n);
}

void qw_escape(char *dst, size_t size, const void *src, size_t len)
{
    const unsigned char *s = src;
    size_t o = 0, i = 0;
    if (size == 0)
        return;
    while (i < len) {
        size_t n = printable_len(s + i, len - i);
        size_t need = n ? n : 4;
        if (o + need + 4 > size) {
            if (o + 4 <= size) {
                memcpy(dst + o, "...", 3);
                o += 3;
            }
            break;
        }
        if (n) {
            memcpy(dst + o, s + i, n);
            o += n;
            i += n;
        } else {
            snprintf(dst + o, 5, "\\x%02x", s[i]);
            o += 4;
            i++;
        }
    }
    dst[o] = '\0';
}

int qw_log_open(enum qw_level level, const char *file, struct qw_err *err)
{
    log_level = level;
    if (file == NULL || *file == '\0' || strcmp(file, "stderr") == 0)
        return QW_OK;
    FILE *f = fopen(file, "a");
    if (f == NULL)
        return qw_fail(err, QW_EUSAGE, "log.file: %s: %s", file, strerror(errno));
    setvbuf(f, NULL, _IOLBF, 0);
    log_file = f;
    return QW_OK;
}

void qw_log(enum qw_level level, const char *fmt, ...)
{
    if (level > log_level)
        return;
    char line[2400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    escape_controls(line, true);
    fprintf(log_file ? log_file : stderr, "qwenrun: %s\n", line);
}

static void out_of_memory(size_t count, size_t size)
{
    fprintf(stderr, "qwenrun: out of host memory: %zu times %zu bytes\n", count, size);
    exit(4);
}

void *qw_alloc(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size ? size : 1);
    if (p == NULL)
        out_of_memory(count, size);
    return p;
}

void *qw_realloc(void *p, size_t count, size_t size)
{
    size_t n;
    if (__builtin_mul_overflow(count, size, &n))
        out_of_memory(count, size);
    p = realloc(p, n ? n : 1);
    if (p == NULL)
        out_of_memory(count, size);
    return p;
}

char *qw_strdup(const char *s)
{
    size_t n = strlen(s) + 1;
    return memcpy(qw_alloc(n, 1), s, n);
}

char *qw_sprintf(const char *fmt, ...)
{
    struct qw_buf b = {0};
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    b.data = qw_alloc((size_t)n + 1, 1);
    va_start(ap, fmt);
    vsnprintf(b.data, (size_t)n + 1, fmt, ap);
    va_end(ap);
    return b.data;
}

static void buf_room(struct qw_buf *b, size_t more)
{
    if (b->len + more + 1 <= b->cap)
        return;
    b->cap = (b->len + more + 1) * 2;
    b->data = qw_realloc(b->data, b->cap, 1);
}

void qw_buf_add(struct qw_buf *b, const void *data, size_t len)
{
    buf_room(b, len);
    if (len > 0)
        memcpy(b->data + b->len, data, len);
    b->len += len;
    b->data[b->len] = '\0';
}

void qw_buf_printf(struct qw_buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    buf_room(b, (size_t)n);
    va_start(ap, fmt);
    vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->len += (size_t)n;
}

void qw_buf_add_utf8(struct qw_buf *b, const void *data, size_t len)
{
    const unsigned char *s = data;
    size_t done = 0, i = 0;
    buf_room(b, len);
    while (i < len) {
        const size_t n = utf8_len(s + i, len - i);
        if (n == 0) {
            qw_buf_add(b, s + done, i - done);
            qw_buf_printf(b, "\\x%02x", s[i]);
            done = i + 1;
        }
        i += n > 0 ? n : 1;
    }
    qw_buf_add(b, s + done, i - done);
}

void qw_buf_free(struct qw_buf *b)
{
    free(b->data);
    *b = (struct qw_buf){0};
}

double qw_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void qw_progress_start(struct qw_progress *p, const char *what, bool on)
{
    *p = (struct qw_progress){.what = what, .start = qw_now(), .on = on && isatty(2)};
    p->shown = p->start;
}

void qw_progress_step(struct qw_progress *p, uint64_t done, uint64_t total)
{
    double now = qw_now();
    if (!p->on || now - p->shown < 0.1)
        return;
    p->shown = now;
    fprintf(stderr, "\r%s: %3.0f %%  %.1f s \033[K", p->what,
            total ? 100.0 * (double)done / (double)total : 0.0, now - p->start);
    fflush(stderr);
}

void qw_progress_end(struct qw_progress *p)
{
    if (p->on && p->shown > p->start)
        fprintf(stderr, "\r\033[K");
    p->on = false;
}
