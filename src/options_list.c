/* SPDX-License-Identifier: MIT */
/* options_list.c - the rows of options.def, and the name that was probably meant. */
#include "options.h"

#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define QW_WORDS(...)                                                                    \
    (const char *const[])                                                                \
    {                                                                                    \
        __VA_ARGS__, NULL                                                                \
    }
static const struct qw_option_desc desc[QW_N_OPTIONS] = {
#define QW_SECTION(section, help)
#define QW_OPTION(section, key, type, least, most, words, dflt, help)                    \
    {#section, #key, QW_TYPE_##type,                                                     \
     least,    most, words,                                                              \
     dflt,     help, offsetof(struct qw_options, section.key)},
#define QW_SECTION_END(section)
#include "options.def"
};

static const struct {
    const char *name, *help;
} sections[] = {
#define QW_SECTION(section, help) {#section, help},
#define QW_OPTION(...)
#define QW_SECTION_END(section)
#include "options.def"
};
enum { N_SECTIONS = sizeof(sections) / sizeof(sections[0]) };

const struct qw_option_desc *qw_option_desc(enum qw_option_id id)
{
    return &desc[id];
}

const char *qw_section_help(const char *section)
{
    for (int i = 0; i < N_SECTIONS; i++)
        if (strcmp(sections[i].name, section) == 0)
            return sections[i].help;
    return NULL;
}

enum { MAX_NAME = 40 };

/* Edit distance in any letter case, where exchanging two neighbours costs one. */
static int edit_distance(const char *a, const char *b)
{
    int d[MAX_NAME + 1][MAX_NAME + 1];
    const int na = (int)strnlen(a, MAX_NAME), nb = (int)strnlen(b, MAX_NAME);
    for (int i = 0; i <= na; i++)
        for (int j = 0; j <= nb; j++) {
            if (i == 0 || j == 0) {
                d[i][j] = i + j;
                continue;
            }
            const int x = tolower((unsigned char)a[i - 1]),
                      y = tolower((unsigned char)b[j - 1]);
            int best = d[i - 1][j - 1] + (x != y);
            best = d[i - 1][j] + 1 < best ? d[i - 1][j] + 1 : best;
            best = d[i][j - 1] + 1 < best ? d[i][j - 1] + 1 : best;
            if (i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) &&
                y == tolower((unsigned char)a[i - 2]) && d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    return d[na][nb];
}

const char *qw_nearest(const char *word, const char *const *names, int n)
{
    const int len = (int)strnlen(word, MAX_NAME);
    int best = (len < 6 ? 1 : len / 3) + 1; /* from here on it is another word */
    const char *found = NULL;
    if (best > len)
        best = len;
    for (int i = 0; i < n; i++) {
        const int d = edit_distance(word, names[i]);
        if (d < best) {
            best = d;
            found = names[i];
        }
    }
    return found;
}

int qw_option_find(const char *section, const char *key)
{
    for (int i = 0; i < QW_N_OPTIONS; i++)
        if (strcmp(desc[i].section, section) == 0 && strcmp(desc[i].key, key) == 0)
            return i;
    return -1;
}

static void unknown_section(char *msg, size_t size, const char *name)
{
    const char *names[N_SECTIONS];
    char shown[120];
    for (int i = 0; i < N_SECTIONS; i++)
        names[i] = sections[i].name;
    const char *near = qw_nearest(name, names, N_SECTIONS);
    qw_escape(shown, sizeof(shown), name, strlen(name));
    if (near != NULL) {
        snprintf(msg, size, "unknown section [%s]; did you mean [%s]?", shown, near);
        return;
    }
    int n = snprintf(msg, size, "unknown section [%s]; there are", shown);
    for (int i = 0; i < N_SECTIONS && (size_t)n < size; i++)
        n += snprintf(msg + n, size - (size_t)n, " [%s]", names[i]);
}

/* A near key of the same section, else a key of that name or a near one elsewhere. */
static void unknown_key(char *msg, size_t size, const char *section, const char *key)
{
    const char *here[QW_N_OPTIONS], *all[QW_N_OPTIONS], *where = section;
    int n = 0;
    char shown[120];
    for (int i = 0; i < QW_N_OPTIONS; i++) {
        all[i] = desc[i].key;
        if (strcmp(desc[i].section, section) == 0)
            here[n++] = desc[i].key;
    }
    const char *near = qw_nearest(key, here, n);
    if (near == NULL && (near = qw_nearest(key, all, QW_N_OPTIONS)) != NULL)
        for (int i = QW_N_OPTIONS - 1; i >= 0; i--)
            where = desc[i].key == near ? desc[i].section : where;
    qw_escape(shown, sizeof(shown), key, strlen(key));
    if (near != NULL)
        snprintf(msg, size, "unknown key '%s' in [%s]; did you mean %s.%s?", shown,
                 section, where, near);
    else
        snprintf(msg, size, "unknown key '%s' in [%s]; `qwenrun --help` lists all keys",
                 shown, section);
}

void qw_option_unknown(const char *section, const char *key, char *msg, size_t size)
{
    if (key == NULL)
        unknown_section(msg, size, section);
    else
        unknown_key(msg, size, section, key);
}
