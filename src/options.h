/* SPDX-License-Identifier: MIT */
/* options.h - the settings: built-in defaults, INI files, -o SECTION.KEY=VALUE; later
 * wins. */
#ifndef QW_OPTIONS_H
#define QW_OPTIONS_H

#include "base.h"

enum qw_option_type { /* what each means: options.def */
                      QW_TYPE_INT,
                      QW_TYPE_SEED,
                      QW_TYPE_REAL,
                      QW_TYPE_BOOL,
                      QW_TYPE_SIZE,
                      QW_TYPE_TEXT,
                      QW_TYPE_PATH,
                      QW_TYPE_WORD,
                      QW_TYPE_KERNEL,
                      QW_TYPE_LIST,
};

struct qw_texts {
    char **item; /* escapes resolved; no text is empty */
    int n;
};

#define QW_SIZE_WORD UINT64_MAX /* memory_reserve = auto */

typedef int qw_field_INT;
typedef uint64_t qw_field_SEED;
typedef double qw_field_REAL;
typedef bool qw_field_BOOL;
typedef uint64_t qw_field_SIZE;
typedef char *qw_field_TEXT;
typedef char *qw_field_PATH;
typedef const char *qw_field_WORD;
typedef char *qw_field_KERNEL;
typedef struct qw_texts qw_field_LIST;

enum qw_option_id { /* QW_OPT_model_target ... */
#define QW_SECTION(section, help)
#define QW_OPTION(section, key, ...) QW_OPT_##section##_##key,
#define QW_SECTION_END(section)
#include "options.def"
                    QW_N_OPTIONS
};

struct qw_option_source {
    const char *file; /* borrowed from the list of files; NULL: default, or -o */
    int line;         /* QW_LINE_DEFAULT, QW_LINE_ARGUMENT or a line of file */
};
enum { QW_LINE_DEFAULT = 0, QW_LINE_ARGUMENT = -1 };

struct qw_options {
    /* options->model.target and so on: one member a key */
#define QW_SECTION(section, help) struct {
#define QW_OPTION(section, key, type, ...) qw_field_##type key;
#define QW_SECTION_END(section)                                                          \
    }                                                                                    \
    section;
#include "options.def"
    const char
        *word[QW_N_OPTIONS];  /* set to a word instead of a value (auto, none, ...) */
    char *text[QW_N_OPTIONS]; /* the value as it was written */
    struct qw_option_source source[QW_N_OPTIONS];
    char **file; /* the INI files read, in order */
    int n_files;
    char **warning; /* for the log, once it is open */
    int n_warnings;
};

/* Built-in defaults. Everything else here works on options that went through this. */
void qw_options_init(struct qw_options *o);
void qw_options_close(struct qw_options *o); /* NULL is fine */

/* Read an INI file over what is set; on failure nothing is changed. */
int qw_options_file(struct qw_options *o, const char *path, struct qw_err *err);
/* The same from memory, as the file name says; data need not end in NUL. */
int qw_options_read(struct qw_options *o, const char *name, const char *data, size_t len,
                    struct qw_err *err);
/* One "section.key=value" of the command line. */
int qw_options_set(struct qw_options *o, const char *assignment, struct qw_err *err);
/* The whole order: defaults, system and user qwenrun.ini, the files of -c (a bare name is
 * a preset), the assignments of -o; then qw_options_resolve. Opens o; close it on failure
 * too. */
int qw_options_load(struct qw_options *o, const char *const *files, int n_files,
                    const char *const *sets, int n_sets, struct qw_err *err);
/* Put the shipped model and drafter in place of their words, choose the drafting method,
 * and refuse settings that contradict each other. */
int qw_options_resolve(struct qw_options *o, struct qw_err *err);

/* Path of a file in the user's cache folder, which need not exist yet; the caller frees
 * it. NULL where the user has no such folder. */
char *qw_options_cache(const char *name);

/* The list behind it all, for help texts and `config`. */
struct qw_option_desc {
    const char *section, *key;
    enum qw_option_type type;
    double least, most;
    const char *const *words; /* ends with NULL; NULL: none */
    const char *dflt, *help;
    size_t at; /* offset of the field in struct qw_options */
};
const struct qw_option_desc *qw_option_desc(enum qw_option_id id);
int qw_option_find(const char *section, const char *key); /* its id, -1 when unknown */
const char *qw_section_help(const char *section);         /* NULL when unknown */
/* "unknown key ...; did you mean ...?"; without a key it is the section that is unknown.
 */
void qw_option_unknown(const char *section, const char *key, char *msg, size_t size);
/* The values a key takes, as a phrase. */
void qw_option_allowed(enum qw_option_id id, char *buf, size_t size);
/* The value in force as a file would have it, and where it comes from: "default",
 * "FILE:LINE" or
 * "-o". The caller frees them. */
char *qw_option_format(const struct qw_options *o, enum qw_option_id id);
char *qw_option_origin(const struct qw_options *o, enum qw_option_id id);

/* The name most like word (any letter case), NULL when none is near. */
const char *qw_nearest(const char *word, const char *const *names, int n);
#endif
