/* SPDX-License-Identifier: MIT */
/*
 * inih must not be given raw lines: one longer than its buffer arrives at the handler in
 * pieces, the tail of a long comment is read as a setting, a NUL byte cuts a value, an
 * indented line continues the value above it, and section names are cut at 49 bytes. So
 * it reads through next_line(), which hands it clean lines, leaves out the bad ones and
 * counts them: the handler is called while a line is current, so each value knows its
 * line.
 */
#include "options_ini.h"

#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct state {
    const struct qw_ini_reader *reader;
    const char *name, *at, *end;
    int line;
    bool wants_key; /* this line must lead to a call of the handler */
    bool skipping;  /* keys of a section that is not known */
    bool in_section;
    struct qw_buf problems;
};

static void problem(struct state *s, int line, const char *what)
{
    if (s->problems.len == 0)
        qw_buf_printf(&s->problems, "%s:%d: %s", s->name, line, what);
    else
        qw_buf_printf(&s->problems, "; line %d: %s", line, what);
}

/* The line before led nowhere in inih. */
static void finish_line(struct state *s)
{
    if (s->wants_key)
        problem(s, s->line, "neither [section] nor key = value");
    s->wants_key = false;
}

static size_t strip(const char **line, size_t n)
{
    while (n > 0 && strchr(" \t\r\v\f", (*line)[n - 1]) != NULL)
        n--;
    while (n > 0 && strchr(" \t\r\v\f", **line) != NULL) {
        (*line)++;
        n--;
    }
    return n;
}

/* A section line is all inih gets to see of it when the reader knows the name. */
static bool section_line(struct state *s, const char *line, size_t n)
{
    const char *close = memchr(line, ']', n);
    s->skipping = true;
    if (close == NULL) {
        problem(s, s->line, "the section's [ is not closed by ]");
        return false;
    }
    const char *rest = close + 1;
    const size_t left = strip(&rest, (size_t)(line + n - rest));
    if (left > 0 && *rest != ';' && *rest != '#') {
        problem(s, s->line, "text behind the section's ]");
        return false;
    }
    char *name = qw_alloc(n, 1);
    memcpy(name, line + 1, (size_t)(close - line) - 1);
    const char *wrong = s->reader->section(s->reader->arg, s->line, name);
    free(name);
    if (wrong != NULL) {
        problem(s, s->line, wrong);
        return false;
    }
    s->in_section = true;
    s->skipping = false;
    return true;
}

/* May inih see this line? Says what is wrong with it. */
static bool good_line(struct state *s, const char *line, size_t n, size_t most)
{
    char what[80];
    if (n == 0 || *line == ';' || *line == '#') /* a comment may have any length */
        return false;
    if (n > most) {
        snprintf(what, sizeof(what), "the line has %zu bytes, at most %zu are read", n,
                 most);
        problem(s, s->line, what);
        return false;
    }
    if (*line == '[')
        return section_line(s, line, n);
    if (s->skipping)
        return false;
    if (!s->in_section) {
        problem(s, s->line, "no [section] before this line");
        s->skipping = true; /* once is enough */
        return false;
    }
    s->wants_key = true;
    return true;
}

/* The reader inih calls like fgets: one line of at most size - 1 bytes. */
static char *next_line(char *out, int size, void *arg)
{
    struct state *s = arg;
    finish_line(s);
    if (s->at == s->end)
        return NULL;
    const char *line = s->at, *eol = memchr(line, '\n', (size_t)(s->end - line));
    size_t n = (size_t)((eol ? eol : s->end) - line);
    s->at = eol ? eol + 1 : s->end;
    s->line++;
    *out = '\0';
    if (memchr(line, '\0', n) != NULL) {
        problem(s, s->line, "a NUL byte in the line");
        return out;
    }
    n = strip(&line, n);
    if (good_line(s, line, n, (size_t)size - 3)) {
        memcpy(out, line, n);
        strcpy(out + n, "\n");
    }
    return out;
}

/* Take off a pair of quotes; false when the first one has no partner at the end. */
static bool unquote(char *value)
{
    const size_t n = strlen(value);
    if (*value != '"' && *value != '\'')
        return true;
    if (strchr(value + 1, *value) != value + n - 1 || n < 2)
        return false;
    memmove(value, value + 1, n - 2);
    value[n - 2] = '\0';
    return true;
}

static int take_key(void *arg, const char *section, const char *key, const char *value)
{
    struct state *s = arg;
    const char *wrong = NULL;
    s->wants_key = false;
    char *text = qw_strdup(value ? value : "");
    if (*key == '\0')
        wrong = "no key before the =";
    else if (!unquote(text))
        wrong = "the value begins with a quote that is not closed at its end "
                "(a blank and ; begin a comment, also inside quotes)";
    else
        wrong = s->reader->key(s->reader->arg, s->line, section, key, text);
    if (wrong != NULL)
        problem(s, s->line, wrong);
    free(text);
    return 1;
}

int qw_ini_read(const char *name, const char *data, size_t len,
                const struct qw_ini_reader *r, struct qw_err *err)
{
    char shown[512];
    qw_escape(shown, sizeof(shown), name, strlen(name));
    struct state s = {.reader = r, .name = shown, .at = data, .end = data + len};
    if (len >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0)
        s.at += 3;
    const int rc = ini_parse_stream(next_line, &s, take_key, &s);
    finish_line(&s);
    if (rc != 0 && s.problems.len == 0) /* nothing of ours, yet inih is not content */
        problem(&s, rc > 0 ? rc : 0, "inih cannot read this");
    if (s.problems.len == 0)
        return QW_OK;
    qw_fail(err, QW_EUSAGE, "%s", s.problems.data);
    qw_buf_free(&s.problems);
    return QW_EUSAGE;
}
