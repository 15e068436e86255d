/* SPDX-License-Identifier: MIT */
/* main.c - the commands, and what is the same for all of them: settings, log, exit
 * status. */
#include "cmd.h"
#include "src/commit.h"
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static const struct qw_command *const commands[] = {
    &qw_command_run,      &qw_command_info,   &qw_command_plan,   &qw_command_pack,
    &qw_command_tokenize, &qw_command_verify, &qw_command_config, NULL,
};

/* A closed descriptor 0, 1 or 2 would be given to the next file that is opened, and an
 * answer written into it. The stand-in is one that cannot be used the wrong way round. */
static void hold_standard_files(void)
{
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) == -1 && errno == EBADF)
            (void)!open("/dev/null", fd == 0 ? O_WRONLY : fd == 1 ? O_RDONLY : O_WRONLY);
}

static int log_level(const struct qw_args *a, const struct qw_options *o)
{
    const int level = strcmp(o->log.level, "debug") == 0  ? QW_DEBUG
                      : strcmp(o->log.level, "info") == 0 ? QW_INFO
                                                          : QW_WARN;
    return a->verbosity < 0 ? QW_QUIET : a->verbosity > level ? a->verbosity : level;
}

static int run_command(const struct qw_args *a, struct qw_err *err)
{
    struct qw_options options;
    int rc = qw_options_load(&options, a->file, a->n_files, a->set, a->n_sets, err);
    if (rc == QW_OK)
        rc = qw_log_open((enum qw_level)log_level(a, &options), options.log.file, err);
    if (rc == QW_OK) {
        struct qw_cmd c = {.command = a->command,
                           .options = &options,
                           .argc = a->n_operands,
                           .argv = a->operand,
                           .value = a->value,
                           .json = a->json,
                           .quiet = a->verbosity<0, .verbose = a->verbosity> 0};
        for (int i = 0; i < options.n_warnings; i++)
            qw_log(QW_WARN, "%s", options.warning[i]);
        rc = a->command->run(&c);
        *err = c.err;
    }
    qw_options_close(&options);
    return rc;
}

static int dispatch(const struct qw_args *a, struct qw_err *err)
{
    if (a->help && a->command != NULL)
        qw_help_command(a->command);
    else if (a->help)
        qw_help_program(commands);
    else if (a->version)
        printf("qwenrun %s (%s)\n", PACKAGE_VERSION, QW_COMMIT);
    else
        return run_command(a, err);
    return QW_OK;
}

int main(int argc, char **argv)
{
    struct qw_err err = {""};
    struct qw_args args = {.command = NULL};
    hold_standard_files();
    signal(SIGPIPE, SIG_IGN); /* a reader that has left shows as a failed write */
    int rc = qw_args_parse(&args, argc, argv, commands, &err);
    if (rc == QW_OK)
        rc = dispatch(&args, &err);
    errno = 0;
    const bool lost = fflush(stdout) != 0 || ferror(stdout);
    if (lost && rc == QW_OK)
        rc = qw_fail(&err, QW_EFAIL, "standard output: %s",
                     errno ? strerror(errno) : "the text could not be written");
    if (err.msg[0] != '\0' && rc != QW_OK)
        fprintf(stderr, "qwenrun: %s\n", err.msg);
    qw_args_free(&args);
    return qw_exit_status(rc);
}
