/* SPDX-License-Identifier: MIT */
/* cmd.c - the command line and the help texts, both from the same tables. */
#include "cmd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum common { PRESET, SETTING, JSON, QUIET, VERBOSE, HELP, VERSION, N_COMMON };

static const struct qw_cmd_option common[N_COMMON + 1] = {
    [PRESET] = {'c', NULL, "FILE",
                "read an INI file; a bare name is a preset of that name"},
    [SETTING] = {'o', NULL, "SECTION.KEY=VALUE",
                 "set one key, over all files (repeatable)"},
    [JSON] = {0, "json", NULL, "one JSON document on stdout instead of text"},
    [QUIET] = {'q', NULL, NULL, "no messages but errors"},
    [VERBOSE] = {'v', NULL, NULL, "say more; twice: everything"},
    [HELP] = {0, "help", NULL, "show this help"},
    [VERSION] = {0, "version", NULL, "show the version"},
};

static const struct qw_cmd_option no_options[] = {{0}};

static const struct qw_cmd_option *options_of(const struct qw_command *c)
{
    return c != NULL && c->options != NULL ? c->options : no_options;
}

static bool is_end(const struct qw_cmd_option *o)
{
    return o->letter == 0 && o->name == NULL;
}

static int count_options(const struct qw_cmd_option *o)
{
    int n = 0;
    while (!is_end(&o[n]))
        n++;
    return n;
}

/* ---- parsing ---- */

struct parse {
    struct qw_args *a;
    int argc, at;
    char **argv;
    const struct qw_command *const *commands;
    struct qw_err *err;
};

static const struct qw_cmd_option *find(const struct qw_cmd_option *list,
                                        const char *name, size_t n, char letter)
{
    for (; !is_end(list); list++)
        if (letter ? list->letter == letter
                   : name != NULL && list->name != NULL && strlen(list->name) == n &&
                         memcmp(list->name, name, n) == 0)
            return list;
    return NULL;
}

static void take_common(struct qw_args *a, enum common which, const char *value)
{
    switch (which) {
    case PRESET:
        a->file[a->n_files++] = value;
        break;
    case SETTING:
        a->set[a->n_sets++] = value;
        break;
    case JSON:
        a->json = true;
        break;
    case QUIET:
        a->verbosity = -1;
        break;
    case VERBOSE:
        a->verbosity = a->verbosity < 0 ? 1 : a->verbosity + (a->verbosity < 2);
        break;
    case HELP:
        a->help = true;
        break;
    case VERSION:
        a->version = true;
        break;
    case N_COMMON:
        break;
    }
}

/* attached: what stands behind = or the letter, NULL when nothing does. */
static int take(struct parse *p, const struct qw_cmd_option *o, const char *shown,
                const char *attached)
{
    const char *value = "";
    if (o->value != NULL) {
        value = attached != NULL      ? attached
                : p->at + 1 < p->argc ? p->argv[++p->at]
                                      : NULL;
        if (value == NULL)
            return qw_fail(p->err, QW_EUSAGE, "option %s needs %s", shown, o->value);
    } else if (attached != NULL) {
        return qw_fail(p->err, QW_EUSAGE, "option %s takes no value", shown);
    }
    if (o >= common && o < common + N_COMMON)
        take_common(p->a, (enum common)(o - common), value);
    else
        p->a->value[o - options_of(p->a->command)] = value;
    return QW_OK;
}

static int unknown_option(struct parse *p, const char *shown)
{
    const char *names[64];
    const struct qw_cmd_option *lists[] = {common, options_of(p->a->command)};
    int n = 0;
    for (int l = 0; l < 2; l++)
        for (const struct qw_cmd_option *o = lists[l]; !is_end(o) && n < 64; o++)
            if (o->name != NULL)
                names[n++] = o->name;
    const char *near = shown[1] == '-' ? qw_nearest(shown + 2, names, n) : NULL;
    char safe[120];
    qw_escape(safe, sizeof(safe), shown, strlen(shown));
    const char *where = p->a->command ? p->a->command->name : "no command";
    if (near != NULL)
        return qw_fail(p->err, QW_EUSAGE, "%s: unknown option %s; did you mean --%s?",
                       where, safe, near);
    if (p->a->command == NULL)
        return qw_fail(
            p->err, QW_EUSAGE,
            "unknown option %s before a command (its own options come behind it)", safe);
    return qw_fail(p->err, QW_EUSAGE,
                   "%s: unknown option %s; `qwenrun %s --help` lists them", where, safe,
                   where);
}

static int long_option(struct parse *p, const char *arg)
{
    const size_t n = strcspn(arg + 2, "=");
    char shown[80];
    snprintf(shown, sizeof(shown), "--%.*s", (int)(n < 70 ? n : 70), arg + 2);
    const struct qw_cmd_option *o = find(common, arg + 2, n, 0);
    if (o == NULL)
        o = find(options_of(p->a->command), arg + 2, n, 0);
    if (o == NULL)
        return unknown_option(p, shown);
    return take(p, o, shown, arg[2 + n] == '=' ? arg + 3 + n : NULL);
}

/* -v, -qv, -cFILE, -c FILE */
static int short_options(struct parse *p, const char *arg)
{
    for (const char *s = arg + 1; *s; s++) {
        const char shown[3] = {'-', *s, '\0'};
        const struct qw_cmd_option *o = find(common, NULL, 0, *s);
        if (o == NULL)
            o = find(options_of(p->a->command), NULL, 0, *s);
        if (o == NULL)
            return unknown_option(p, shown);
        const bool rest = o->value != NULL && s[1] != '\0';
        const int rc = take(p, o, shown, rest ? s + 1 : NULL);
        if (rc != QW_OK || rest)
            return rc;
    }
    return QW_OK;
}

static int name_command(struct parse *p, const char *name)
{
    const char *names[32];
    char safe[120];
    int n = 0;
    for (; n < 32 && p->commands[n] != NULL; n++) {
        names[n] = p->commands[n]->name;
        if (strcmp(names[n], name) == 0) {
            p->a->command = p->commands[n];
            p->a->value = qw_alloc((size_t)count_options(options_of(p->a->command)),
                                   sizeof(char *));
            return QW_OK;
        }
    }
    qw_escape(safe, sizeof(safe), name, strlen(name));
    const char *near = qw_nearest(name, names, n);
    if (near != NULL)
        return qw_fail(p->err, QW_EUSAGE, "unknown command '%s'; did you mean '%s'?",
                       safe, near);
    return qw_fail(p->err, QW_EUSAGE, "unknown command '%s'; `qwenrun --help` lists them",
                   safe);
}

static int take_word(struct parse *p, char *word)
{
    struct qw_args *a = p->a;
    char safe[120];
    if (a->command == NULL)
        return name_command(p, word);
    if (a->command->operands == NULL) {
        qw_escape(safe, sizeof(safe), word, strlen(word));
        return qw_fail(p->err, QW_EUSAGE, "%s: '%s' is one word too many",
                       a->command->name, safe);
    }
    a->operand[a->n_operands++] = word;
    return QW_OK;
}

int qw_args_parse(struct qw_args *a, int argc, char **argv,
                  const struct qw_command *const *commands, struct qw_err *err)
{
    struct parse p = {a, argc, 1, argv, commands, err};
    const size_t n = argc > 0 ? (size_t)argc : 0;
    bool words_only = false;
    int rc = QW_OK;
    *a = (struct qw_args){.command = NULL};
    a->file = qw_alloc(n, sizeof(char *));
    a->set = qw_alloc(n, sizeof(char *));
    a->operand = qw_alloc(n, sizeof(char *));
    for (; p.at < argc && rc == QW_OK; p.at++) {
        char *arg = argv[p.at];
        if (words_only || arg[0] != '-' || arg[1] == '\0')
            rc = take_word(&p, arg);
        else if (strcmp(arg, "--") == 0)
            words_only = true;
        else if (arg[1] == '-')
            rc = long_option(&p, arg);
        else
            rc = short_options(&p, arg);
    }
    if (rc == QW_OK && a->command == NULL && !a->help && !a->version)
        return qw_fail(err, QW_EUSAGE, "no command; `qwenrun --help` lists them");
    return rc;
}

void qw_args_free(struct qw_args *a)
{
    free(a->file);
    free(a->set);
    free(a->value);
    free(a->operand);
    *a = (struct qw_args){.command = NULL};
}

const char *qw_cmd_value(const struct qw_cmd *c, const char *name)
{
    const struct qw_cmd_option *list = options_of(c->command);
    const struct qw_cmd_option *o = find(list, name, strlen(name), name[1] ? 0 : name[0]);
    return o != NULL ? c->value[o - list] : NULL;
}

/* ---- JSON ---- */

int qw_cmd_print_json(json_t *root, struct qw_err *err)
{
    char *text = root ? json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) : NULL;
    json_decref(root);
    if (text == NULL) /* half a document would look like a whole one to nobody */
        return qw_fail(err, QW_EFAIL, "the JSON document could not be made");
    const bool lost = puts(text) == EOF || fflush(stdout) != 0;
    const int why = errno;
    free(text);
    return lost ? qw_fail(err, QW_EFAIL, "standard output: %s", strerror(why)) : QW_OK;
}

json_t *qw_cmd_json_text(const char *s, size_t len)
{
    struct qw_buf b = {NULL, 0, 0};
    qw_buf_add_utf8(&b, s, len);
    json_t *text = json_stringn(b.data, b.len);
    qw_buf_free(&b);
    return text;
}

/* ---- help ---- */

static void help_options(const struct qw_cmd_option *list)
{
    for (const struct qw_cmd_option *o = list; !is_end(o); o++) {
        char left[64] = "";
        size_t n = 0;
        if (o->letter)
            n += (size_t)snprintf(left, sizeof(left), "-%c", o->letter);
        if (o->name != NULL)
            n += (size_t)snprintf(left + n, sizeof(left) - n, "%s--%s", n ? ", " : "",
                                  o->name);
        if (o->value != NULL)
            snprintf(left + n, sizeof(left) - n, " %s", o->value);
        printf("  %-22s %s\n", left, o->help);
    }
}

static void help_settings(void)
{
    const char *section = "";
    printf("\nSettings, for -o and INI files, with their defaults (qwenrun.ini(5) says "
           "more):\n");
    for (int i = 0; i < QW_N_OPTIONS; i++) {
        const struct qw_option_desc *d = qw_option_desc((enum qw_option_id)i);
        char left[80];
        if (strcmp(d->section, section) != 0)
            printf("[%s]  %s\n", d->section, qw_section_help(d->section));
        section = d->section;
        snprintf(left, sizeof(left), "%s = %s", d->key, d->dflt);
        printf("  %-22s %s\n", left, d->help);
    }
}

void qw_help_program(const struct qw_command *const *commands)
{
    printf("Usage: qwenrun [OPTION]... COMMAND [OPTION]...\n"
           "Run a Qwen3.5/3.6 model with its drafter through OpenCL.\n\nCommands:\n");
    for (; *commands != NULL; commands++)
        printf("  %-22s %s\n", (*commands)->name, (*commands)->summary);
    printf("\nOptions, before or behind the command:\n");
    help_options(common);
    help_settings();
}

void qw_help_command(const struct qw_command *c)
{
    printf("Usage: qwenrun %s [OPTION]...%s%s\n%c%s.\n", c->name, c->operands ? " " : "",
           c->operands ? c->operands : "", c->summary[0] - 'a' + 'A', c->summary + 1);
    if (!is_end(options_of(c))) {
        printf("\nOptions:\n");
        help_options(options_of(c));
    }
    printf("\nOptions of all commands:\n");
    help_options(common);
    printf("\n`qwenrun --help` lists the settings that -o and INI files take.\n");
}
