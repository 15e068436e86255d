/* SPDX-License-Identifier: MIT */
/* cmd.h - what a command is, and what main gives it. A command is one cmd_X.c with a
 * `const struct qw_command qw_command_X` and a row in main.c. */
#ifndef QW_CMD_H
#define QW_CMD_H

#include <jansson.h>

#include "base.h"
#include "options.h"

/* One option of a command; a list ends with {0}. */
struct qw_cmd_option {
    char letter;       /* 0: none */
    const char *name;  /* long name, NULL: none */
    const char *value; /* what the help calls its value, NULL: a flag */
    const char *help;
};

struct qw_cmd;

struct qw_command {
    const char *name, *summary; /* one line of `qwenrun --help` */
    const char *operands;       /* "[TEXT]"; NULL: takes none */
    const struct qw_cmd_option *options;
    /* QW_OK or a code with the message in c->err; stdout is flushed and checked by main.
     */
    int (*run)(struct qw_cmd *c);
};

struct qw_cmd {
    const struct qw_command *command;
    const struct qw_options *options; /* resolved; lives as long as the command */
    int argc;                         /* operands */
    char **argv;
    const char **value; /* for each of command->options: its value, "" for a flag, NULL:
                           not given */
    bool json, quiet, verbose;
    struct qw_err err;
};

/* The value of an option by its long name or its letter ("p"); "" for a flag, NULL: not
 * given. */
const char *qw_cmd_value(const struct qw_cmd *c, const char *name);

/* One JSON document and a newline on stdout, or QW_EFAIL and nothing. Takes the
 * reference.
 */
int qw_cmd_print_json(json_t *root, struct qw_err *err);
/* A string of any bytes: those that are no UTF-8 become \xNN. */
json_t *qw_cmd_json_text(const char *s, size_t len);

/* The command line, split. */
struct qw_args {
    const struct qw_command *command; /* NULL: none was named */
    const char **file, **set, **value;
    char **operand;
    int n_files, n_sets, n_operands;
    bool json, help, version;
    int verbosity; /* of -q and -v: -1, 0, 1, 2 */
};
/* Common options may stand before and after the command. commands ends with NULL; strings
 * are borrowed from argv. Free with qw_args_free, also after a failure. */
int qw_args_parse(struct qw_args *a, int argc, char **argv,
                  const struct qw_command *const *commands, struct qw_err *err);
void qw_args_free(struct qw_args *a);

void qw_help_program(const struct qw_command *const *commands);
void qw_help_command(const struct qw_command *command);

extern const struct qw_command qw_command_run, qw_command_info, qw_command_plan,
    qw_command_tokenize, qw_command_config, qw_command_verify, qw_command_pack;
#endif
