/* SPDX-License-Identifier: MIT */
/*
 * The settings. A value goes one way, whoever gives it: its text is parsed against the
 * row of options.def into a struct value, and only what has passed is stored. What an INI
 * file says waits in a list until the whole file has proved good.
 */
#include "options_ini.h"
#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_FILE = 1 << 20 };

struct value {
    int64_t i;
    uint64_t u;
    double d;
    char *s;          /* owned */
    const char *word; /* static: the word it was set to */
    struct qw_texts list;
};

/* ---- values ---- */

/* The lasting word that text is, NULL when it is none of them. */
static const char *find_word(const char *const *words, const char *text)
{
    for (; words != NULL && *words != NULL; words++)
        if (strcmp(*words, text) == 0)
            return *words;
    return NULL;
}

static bool digits_only(const char *s)
{
    return *s != '\0' && s[strspn(s, "0123456789")] == '\0';
}

static const char *parse_int(const struct qw_option_desc *d, const char *text,
                             struct value *v)
{
    errno = 0;
    v->i = strtoll(text, NULL, 10);
    if (!digits_only(text + (*text == '-')))
        return "not a whole number";
    return errno != 0 || (double)v->i < d->least || (double)v->i > d->most
               ? "out of range"
               : NULL;
}

static const char *parse_seed(const char *text, struct value *v)
{
    errno = 0;
    v->u = strtoull(text, NULL, 10);
    if (!digits_only(text + (*text == '-')))
        return "not a whole number";
    return errno != 0 || *text == '-' ? "out of range" : NULL;
}

/* Plain decimals only: no exponent, no hexadecimal, no nan, and a point whatever the
 * locale. */
static const char *parse_real(const struct qw_option_desc *d, const char *text,
                              struct value *v)
{
    const char *s = text + (*text == '-');
    const size_t whole = strspn(s, "0123456789");
    const size_t part = s[whole] == '.' ? strspn(s + whole + 1, "0123456789") : 0;
    if (whole == 0 || (s[whole] == '.' && part == 0) ||
        s[whole + (s[whole] == '.') + part] != '\0')
        return "not a plain decimal number";
    v->d = strtod(text, NULL);
    return v->d >= d->least && v->d <= d->most ? NULL : "out of range";
}

static const struct {
    const char *name;
    uint64_t bytes;
} units[] = {{"GiB", 1u << 30}, {"MiB", 1u << 20}, {"KiB", 1u << 10}, {"", 1}};

static const char *parse_size(const struct qw_option_desc *d, const char *text,
                              struct value *v)
{
    const size_t n = strspn(text, "0123456789");
    const char *unit = text + n + strspn(text + n, " \t");
    errno = 0;
    v->u = strtoull(text, NULL, 10);
    for (size_t i = 0; n > 0 && i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(unit, units[i].name) != 0)
            continue;
        if (errno != 0 || !qw_mul(v->u, units[i].bytes, &v->u) ||
            (double)v->u < d->least || (double)v->u > d->most)
            return "out of range";
        return NULL;
    }
    return "not a size";
}

static const char *parse_bool(const char *text, struct value *v)
{
    static const char *const yes[] = {"yes", "on", "true", "1"};
    static const char *const no[] = {"no", "off", "false", "0"};
    for (int i = 0; i < 4; i++) {
        if (strcasecmp(text, yes[i]) == 0)
            return v->i = 1, NULL;
        if (strcasecmp(text, no[i]) == 0)
            return v->i = 0, NULL;
    }
    return "neither yes nor no";
}

static const char *parse_kernel(const char *text)
{
    static const char *const wrong = "not auto or variant[:QW_X=n,...]";
    const char *s = text + strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_-");
    if (s == text)
        return wrong;
    for (bool first = true; *s; first = false) {
        if (*s != (first ? ':' : ',') || strncmp(s + 1, "QW_", 3) != 0)
            return wrong;
        s += 4;
        const size_t name = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
        const size_t number = s[name] == '=' ? strspn(s + name + 1, "0123456789") : 0;
        if (name == 0 || number == 0)
            return wrong;
        s += name + 1 + number;
    }
    return NULL;
}

/* One C escape at s (behind the backslash) appended to b; bytes read, 0 when it is none.
 */
static size_t add_escape(struct qw_buf *b, const char *s)
{
    static const char names[] = "abfnrtv\\\"'?|", bytes[] = "\a\b\f\n\r\t\v\\\"'?|";
    const char *simple = *s ? strchr(names, *s) : NULL;
    if (simple != NULL) {
        qw_buf_add(b, &bytes[simple - names], 1);
        return 1;
    }
    const bool hex = *s == 'x';
    size_t n = hex ? 1 : 0;
    unsigned byte = 0;
    for (; n < 3 && (hex ? isxdigit((unsigned char)s[n]) : s[n] >= '0' && s[n] <= '7');
         n++) {
        const int c = tolower((unsigned char)s[n]);
        byte = byte * (hex ? 16 : 8) + (unsigned)(c > '9' ? c - 'a' + 10 : c - '0');
    }
    const unsigned char out = (unsigned char)byte;
    if (byte == 0 || byte > 255) /* no digits, or a NUL that would end the text */
        return 0;
    qw_buf_add(b, &out, 1);
    return n;
}

static void free_list(struct qw_texts *l)
{
    for (int i = 0; i < l->n; i++)
        free(l->item[i]);
    free(l->item);
    *l = (struct qw_texts){NULL, 0};
}

static const char *parse_list(const char *text, struct value *v)
{
    struct qw_buf b = {NULL, 0, 0};
    for (const char *s = text;; s++) {
        if (*s == '\0' || *s == '|') {
            if (b.len == 0)
                return "one of the texts is empty";
            v->list.item =
                qw_realloc(v->list.item, (size_t)v->list.n + 1, sizeof(char *));
            v->list.item[v->list.n++] = b.data;
            b = (struct qw_buf){NULL, 0, 0};
            if (*s == '\0')
                return NULL;
        } else if (*s == '\\') {
            const size_t n = add_escape(&b, s + 1);
            if (n == 0) {
                qw_buf_free(&b);
                return "unknown escape after a backslash";
            }
            s += n;
        } else {
            qw_buf_add(&b, s, 1);
        }
    }
}

/* ~/ is the home folder; another relative path starts where the file is that names it. */
static const char *parse_path(const char *text, const char *file, struct value *v)
{
    const char *slash = file ? strrchr(file, '/') : NULL;
    if (strncmp(text, "~/", 2) == 0) {
        const char *home = getenv("HOME");
        if (home == NULL || *home == '\0')
            return "~/ cannot be expanded, HOME is not set";
        v->s = qw_sprintf("%s/%s", home, text + 2);
    } else if (*text != '/' && slash != NULL) {
        v->s = qw_sprintf("%.*s%s", (int)(slash - file) + 1, file, text);
    } else {
        v->s = qw_strdup(text);
    }
    return NULL;
}

/* file: the INI file that says so, NULL for the command line. NULL, or what is wrong. */
static const char *parse_value(const struct qw_option_desc *d, const char *text,
                               const char *file, struct value *v)
{
    *v = (struct value){.i = -1, .u = QW_SIZE_WORD};
    if (*text == '\0')
        return "no value";
    v->word = find_word(d->words, text);
    if (v->word != NULL)
        return NULL;
    switch (d->type) {
    case QW_TYPE_INT:
        return parse_int(d, text, v);
    case QW_TYPE_SEED:
        return parse_seed(text, v);
    case QW_TYPE_REAL:
        return parse_real(d, text, v);
    case QW_TYPE_BOOL:
        return parse_bool(text, v);
    case QW_TYPE_SIZE:
        return parse_size(d, text, v);
    case QW_TYPE_PATH:
        return parse_path(text, file, v);
    case QW_TYPE_LIST:
        return parse_list(text, v);
    case QW_TYPE_WORD:
        return "not one of its words";
    case QW_TYPE_KERNEL:
    case QW_TYPE_TEXT:
        break;
    }
    v->s = qw_strdup(text);
    return d->type == QW_TYPE_KERNEL ? parse_kernel(text) : NULL;
}

static void free_value(struct value *v)
{
    free(v->s);
    free_list(&v->list);
}

/* Move a parsed value into its field. */
static void store(struct qw_options *o, int id, struct value *v, const char *text,
                  struct qw_option_source source)
{
    void *field = (char *)o + qw_option_desc(id)->at;
    switch (qw_option_desc(id)->type) {
    case QW_TYPE_INT:
        *(int *)field = (int)v->i;
        break;
    case QW_TYPE_BOOL:
        *(bool *)field = v->i == 1;
        break;
    case QW_TYPE_SEED:
    case QW_TYPE_SIZE:
        *(uint64_t *)field = v->u;
        break;
    case QW_TYPE_REAL:
        *(double *)field = v->d;
        break;
    case QW_TYPE_WORD:
        *(const char **)field = v->word;
        break;
    case QW_TYPE_TEXT:
    case QW_TYPE_PATH:
    case QW_TYPE_KERNEL:
        free(*(char **)field);
        *(char **)field = v->s;
        break;
    case QW_TYPE_LIST:
        free_list(field);
        *(struct qw_texts *)field = v->list;
        break;
    }
    free(o->text[id]);
    o->text[id] = qw_strdup(text);
    o->word[id] = v->word;
    o->source[id] = source;
}

/* ---- text of what is in force ---- */

static char *format_size(uint64_t bytes)
{
    size_t i = 0;
    while (units[i].bytes > 1 && (bytes < units[i].bytes || bytes % units[i].bytes != 0))
        i++;
    return qw_sprintf("%llu%s%s", (unsigned long long)(bytes / units[i].bytes),
                      units[i].bytes > 1 ? " " : "", units[i].name);
}

char *qw_option_format(const struct qw_options *o, enum qw_option_id id)
{
    const void *field = (const char *)o + qw_option_desc(id)->at;
    if (o->word[id] != NULL)
        return qw_strdup(o->word[id]);
    switch (qw_option_desc(id)->type) {
    case QW_TYPE_INT:
        return qw_sprintf("%d", *(const int *)field);
    case QW_TYPE_SEED:
        return qw_sprintf("%llu", (unsigned long long)*(const uint64_t *)field);
    case QW_TYPE_BOOL:
        return qw_strdup(*(const bool *)field ? "yes" : "no");
    case QW_TYPE_SIZE:
        return format_size(*(const uint64_t *)field);
    case QW_TYPE_TEXT:
    case QW_TYPE_PATH:
    case QW_TYPE_KERNEL:
        return qw_strdup(*(char *const *)field);
    case QW_TYPE_REAL:
    case QW_TYPE_LIST:
    case QW_TYPE_WORD:
        break;
    }
    return qw_strdup(o->text[id]);
}

char *qw_option_origin(const struct qw_options *o, enum qw_option_id id)
{
    const struct qw_option_source *s = &o->source[id];
    if (s->file != NULL)
        return qw_sprintf("%s:%d", s->file, s->line);
    return qw_strdup(s->line == QW_LINE_ARGUMENT ? "-o" : "default");
}

static void list_words(struct qw_buf *b, const char *const *words, const char *last)
{
    for (int i = 0; words != NULL && words[i] != NULL; i++) {
        if (b->len > 0)
            qw_buf_printf(b, "%s", words[i + 1] == NULL ? last : ", ");
        qw_buf_printf(b, "%s", words[i]);
    }
}

void qw_option_allowed(enum qw_option_id id, char *buf, size_t size)
{
    const struct qw_option_desc *d = qw_option_desc(id);
    struct qw_buf b = {NULL, 0, 0};
    char *lo = NULL, *hi = NULL;
    switch (d->type) {
    case QW_TYPE_INT:
    case QW_TYPE_REAL:
        qw_buf_printf(&b, "%.10g to %.10g", d->least, d->most);
        break;
    case QW_TYPE_SEED:
        qw_buf_printf(&b, "0 to %llu", (unsigned long long)UINT64_MAX);
        break;
    case QW_TYPE_BOOL:
        qw_buf_printf(&b, "yes, no, on, off, true, false, 1 or 0");
        break;
    case QW_TYPE_SIZE:
        lo = format_size((uint64_t)d->least);
        hi = format_size((uint64_t)d->most);
        qw_buf_printf(&b, "%s to %s", lo, hi);
        break;
    case QW_TYPE_PATH:
        qw_buf_printf(&b, "a path");
        break;
    case QW_TYPE_TEXT:
        qw_buf_printf(&b, "a text");
        break;
    case QW_TYPE_LIST:
        qw_buf_printf(&b, "texts split by |");
        break;
    case QW_TYPE_KERNEL:
        qw_buf_printf(&b, "auto or variant[:QW_X=n,...]");
        break;
    case QW_TYPE_WORD:
        break;
    }
    list_words(&b, d->words, " or ");
    snprintf(buf, size, "%s", b.data);
    free(lo);
    free(hi);
    qw_buf_free(&b);
}

/* ---- setting ---- */

static void wrong_value(char *msg, size_t size, int id, const char *text, const char *why)
{
    char allowed[200], shown[120];
    qw_option_allowed(id, allowed, sizeof(allowed));
    qw_escape(shown, sizeof(shown), text, strlen(text));
    snprintf(msg, size, "%s.%s = %s: %s; allowed: %s", qw_option_desc(id)->section,
             qw_option_desc(id)->key, shown, why, allowed);
}

void qw_options_init(struct qw_options *o)
{
    memset(o, 0, sizeof(*o));
    for (int i = 0; i < QW_N_OPTIONS; i++) {
        struct value v;
        const char *wrong =
            parse_value(qw_option_desc(i), qw_option_desc(i)->dflt, NULL, &v);
        if (wrong != NULL) { /* our own mistake in options.def */
            fprintf(stderr, "qwenrun: default of %s.%s: %s\n", qw_option_desc(i)->section,
                    qw_option_desc(i)->key, wrong);
            abort();
        }
        store(o, i, &v, qw_option_desc(i)->dflt,
              (struct qw_option_source){NULL, QW_LINE_DEFAULT});
    }
}

static void free_strings(char **s, int n)
{
    for (int i = 0; i < n; i++)
        free(s[i]);
    free(s);
}

void qw_options_close(struct qw_options *o)
{
    if (o == NULL)
        return;
    for (int i = 0; i < QW_N_OPTIONS; i++) {
        void *field = (char *)o + qw_option_desc(i)->at;
        free(o->text[i]);
        if (qw_option_desc(i)->type == QW_TYPE_LIST)
            free_list(field);
        else if (qw_option_desc(i)->type == QW_TYPE_TEXT ||
                 qw_option_desc(i)->type == QW_TYPE_PATH ||
                 qw_option_desc(i)->type == QW_TYPE_KERNEL)
            free(*(char **)field);
    }
    free_strings(o->file, o->n_files);
    free_strings(o->warning, o->n_warnings);
    memset(o, 0, sizeof(*o));
}

static void warn(struct qw_options *o, char *text)
{
    o->warning = qw_realloc(o->warning, (size_t)o->n_warnings + 1, sizeof(char *));
    o->warning[o->n_warnings++] = text;
}

int qw_options_set(struct qw_options *o, const char *assignment, struct qw_err *err)
{
    char msg[600], shown[120];
    const char *equals = strchr(assignment, '='), *dot = strchr(assignment, '.');
    if (equals == NULL || dot == NULL || dot > equals) {
        qw_escape(shown, sizeof(shown), assignment, strlen(assignment));
        return qw_fail(err, QW_EUSAGE, "-o %s: expected SECTION.KEY=VALUE", shown);
    }
    char *section = qw_sprintf("%.*s", (int)(dot - assignment), assignment);
    char *key = qw_sprintf("%.*s", (int)(equals - dot) - 1, dot + 1);
    const char *wrong = NULL;
    struct value v;
    const int id = qw_option_find(section, key);
    *msg = '\0';
    if (qw_section_help(section) == NULL) {
        qw_option_unknown(section, NULL, msg, sizeof(msg));
    } else if (id < 0) {
        qw_option_unknown(section, key, msg, sizeof(msg));
    } else if ((wrong = parse_value(qw_option_desc(id), equals + 1, NULL, &v)) != NULL) {
        wrong_value(msg, sizeof(msg), id, equals + 1, wrong);
        free_value(&v);
    } else {
        store(o, id, &v, equals + 1, (struct qw_option_source){NULL, QW_LINE_ARGUMENT});
    }
    free(section);
    free(key);
    return *msg ? qw_fail(err, QW_EUSAGE, "-o: %s", msg) : QW_OK;
}

/* ---- INI files ---- */

struct pending {
    int id, line;
    char *text;
    struct value value;
};

struct ini {
    const char *name;
    struct pending *list;
    int n;
    char msg[600];
};

static const char *ini_section(void *arg, int line, const char *name)
{
    struct ini *f = arg;
    (void)line;
    if (qw_section_help(name) != NULL)
        return NULL;
    qw_option_unknown(name, NULL, f->msg, sizeof(f->msg));
    return f->msg;
}

static const char *ini_key(void *arg, int line, const char *section, const char *key,
                           const char *text)
{
    struct ini *f = arg;
    struct value v;
    const int id = qw_option_find(section, key);
    if (id < 0) {
        qw_option_unknown(section, key, f->msg, sizeof(f->msg));
        return f->msg;
    }
    const char *wrong = parse_value(qw_option_desc(id), text, f->name, &v);
    if (wrong != NULL) {
        wrong_value(f->msg, sizeof(f->msg), id, text, wrong);
        free_value(&v);
        return f->msg;
    }
    f->list = qw_realloc(f->list, (size_t)f->n + 1, sizeof(*f->list));
    f->list[f->n++] = (struct pending){id, line, qw_strdup(text), v};
    return NULL;
}

/* The file proved good: store it all, in order, so that the last of two wins. */
static void ini_apply(struct qw_options *o, struct ini *f)
{
    o->file = qw_realloc(o->file, (size_t)o->n_files + 1, sizeof(char *));
    const char *name = o->file[o->n_files++] = qw_strdup(f->name);
    for (int i = 0; i < f->n; i++) {
        struct pending *p = &f->list[i];
        const struct qw_option_source *before = &o->source[p->id];
        if (before->file == name)
            warn(o,
                 qw_sprintf("%s:%d: %s.%s is set again, the value of line %d is dropped",
                            name, p->line, qw_option_desc(p->id)->section,
                            qw_option_desc(p->id)->key, before->line));
        store(o, p->id, &p->value, p->text, (struct qw_option_source){name, p->line});
        p->value = (struct value){.i = 0};
    }
}

int qw_options_read(struct qw_options *o, const char *name, const char *data, size_t len,
                    struct qw_err *err)
{
    struct ini f = {.name = name};
    const struct qw_ini_reader reader = {&f, ini_section, ini_key};
    const int rc = qw_ini_read(name, data, len, &reader, err);
    if (rc == QW_OK)
        ini_apply(o, &f);
    for (int i = 0; i < f.n; i++) {
        free_value(&f.list[i].value);
        free(f.list[i].text);
    }
    free(f.list);
    return rc;
}

int qw_options_file(struct qw_options *o, const char *path, struct qw_err *err)
{
    char shown[512], chunk[4096];
    struct qw_buf b = {NULL, 0, 0};
    size_t n;
    qw_escape(shown, sizeof(shown), path, strlen(path));
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        return qw_fail(err, QW_EUSAGE, "%s: %s", shown, strerror(errno));
    errno = 0;
    while (b.len <= MAX_FILE && (n = fread(chunk, 1, sizeof(chunk), f)) > 0)
        qw_buf_add(&b, chunk, n);
    int rc = QW_OK;
    if (ferror(f))
        rc = qw_fail(err, QW_EUSAGE, "%s: %s", shown, strerror(errno));
    else if (b.len > MAX_FILE)
        rc = qw_fail(err, QW_EUSAGE, "%s: more than 1 MiB, this is no INI file", shown);
    fclose(f);
    if (rc == QW_OK)
        rc = qw_options_read(o, path, b.len ? b.data : "", b.len, err);
    qw_buf_free(&b);
    return rc;
}

/* ---- where files are ---- */

enum { N_FOLDERS = 3 };

/* Configuration folders, the user's first; an entry is NULL where there is none. */
static void config_folders(char *folder[N_FOLDERS])
{
    const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    folder[0] = NULL;
    if (xdg != NULL && *xdg == '/') /* a relative one is to be ignored */
        folder[0] = qw_sprintf("%s/qwenrun", xdg);
    else if (home != NULL && *home != '\0')
        folder[0] = qw_sprintf("%s/.config/qwenrun", home);
    folder[1] = qw_strdup(QW_SYSCONFDIR "/qwenrun");
    folder[2] = qw_strdup(QW_BUILD_CONF); /* the build that is not installed */
}

static bool exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

char *qw_options_cache(const char *name)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (xdg != NULL && *xdg == '/')
        return qw_sprintf("%s/qwenrun/%s", xdg, name);
    if (home == NULL || *home != '/' || !exists(home)) /* nobody's home is made here */
        return NULL;
    return qw_sprintf("%s/.cache/qwenrun/%s", home, name);
}

/* A qwenrun.ini is read when it is there. */
static int read_standing(struct qw_options *o, const char *folder, struct qw_err *err)
{
    if (folder == NULL)
        return QW_OK;
    char *path = qw_sprintf("%s/qwenrun.ini", folder);
    const int rc = exists(path) ? qw_options_file(o, path, err) : QW_OK;
    free(path);
    return rc;
}

static int read_preset(struct qw_options *o, char *const folder[N_FOLDERS],
                       const char *name, struct qw_err *err)
{
    for (int i = 0; i < N_FOLDERS; i++) {
        if (folder[i] == NULL)
            continue;
        char *path = qw_sprintf("%s/%s.ini", folder[i], name);
        const bool found = exists(path);
        const int rc = found ? qw_options_file(o, path, err) : QW_OK;
        free(path);
        if (found)
            return rc;
    }
    char shown[120];
    qw_escape(shown, sizeof(shown), name, strlen(name));
    return qw_fail(err, QW_EUSAGE,
                   "-c %s: no preset %s.ini in %s%s%s (a file is named with a / or .ini)",
                   shown, shown, folder[0] ? folder[0] : "", folder[0] ? " or " : "",
                   folder[1]);
}

static bool is_preset_name(const char *name)
{
    const size_t n = strlen(name);
    return n > 0 && strchr(name, '/') == NULL &&
           (n < 4 || strcmp(name + n - 4, ".ini") != 0);
}

int qw_options_load(struct qw_options *o, const char *const *files, int n_files,
                    const char *const *sets, int n_sets, struct qw_err *err)
{
    char *folder[N_FOLDERS];
    config_folders(folder);
    qw_options_init(o);
    int rc = read_standing(o, folder[1], err);
    if (rc == QW_OK)
        rc = read_standing(o, folder[0], err);
    for (int i = 0; i < n_files && rc == QW_OK; i++)
        rc = *files[i] == '\0'          ? qw_fail(err, QW_EUSAGE, "-c: no file is named")
             : is_preset_name(files[i]) ? read_preset(o, folder, files[i], err)
                                        : qw_options_file(o, files[i], err);
    for (int i = 0; i < n_sets && rc == QW_OK; i++)
        rc = qw_options_set(o, sets[i], err);
    for (int i = 0; i < N_FOLDERS; i++)
        free(folder[i]);
    return rc == QW_OK ? qw_options_resolve(o, err) : rc;
}

/* ---- what settings mean together ---- */

/* The installed file, or the one beside the build where nothing is installed. */
static char *shipped(const char *name)
{
    char *installed = qw_sprintf("%s/tiny/%s", QW_DATADIR, name);
    char *built = qw_sprintf("%s/%s", QW_BUILD_MODELS, name);
    char *take = !exists(installed) && exists(built) ? built : installed;
    free(take == built ? installed : built);
    return take;
}

static int contradiction(const struct qw_options *o, int a, int b, const char *why,
                         struct qw_err *err)
{
    char *va = qw_option_format(o, a), *vb = qw_option_format(o, b);
    char *oa = qw_option_origin(o, a), *ob = qw_option_origin(o, b);
    qw_fail(err, QW_EUSAGE, "%s.%s = %s (%s) %s %s.%s = %s (%s)",
            qw_option_desc(a)->section, qw_option_desc(a)->key, va, oa, why,
            qw_option_desc(b)->section, qw_option_desc(b)->key, vb, ob);
    free(va);
    free(vb);
    free(oa);
    free(ob);
    return QW_EUSAGE;
}

static bool is_word(const struct qw_options *o, int id, const char *word)
{
    return o->word[id] != NULL && strcmp(o->word[id], word) == 0;
}

int qw_options_resolve(struct qw_options *o, struct qw_err *err)
{
    const bool tiny = is_word(o, QW_OPT_model_target, "tiny");
    if (tiny) {
        o->model.target = shipped("tiny-qwen35-q4_0.gguf");
        o->word[QW_OPT_model_target] = NULL;
    }
    if (is_word(o, QW_OPT_model_draft, "auto") && tiny) {
        o->model.draft = shipped("tiny-qwen35-dflash-q8_0.gguf");
        o->word[QW_OPT_model_draft] = NULL;
    } else if (is_word(o, QW_OPT_model_draft, "auto")) {
        o->word[QW_OPT_model_draft] = "none";
    }
    if (strcmp(o->speculation.method, "auto") == 0)
        o->speculation.method = o->word[QW_OPT_speculation_method] =
            o->model.draft ? "dflash" : "none";
    if (strcmp(o->speculation.method, "dflash") == 0 && o->model.draft == NULL)
        return contradiction(o, QW_OPT_speculation_method, QW_OPT_model_draft,
                             "needs a drafter, but", err);
    if (o->speculation.n_min > o->speculation.n_max)
        return contradiction(o, QW_OPT_speculation_n_min, QW_OPT_speculation_n_max,
                             "is more than", err);
    if (strcmp(o->kv.draft, "f16") != 0) {
        if (!o->kv.allow_lossy_draft)
            return contradiction(o, QW_OPT_kv_draft, QW_OPT_kv_allow_lossy_draft,
                                 "is refused by", err);
        warn(o,
             qw_sprintf(
                 "kv.draft = %s: acceptance of drafted tokens is known to collapse with "
                 "anything but f16",
                 o->kv.draft));
    }
    return QW_OK;
}
