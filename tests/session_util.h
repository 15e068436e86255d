/* SPDX-License-Identifier: MIT */
/* session_util.h - engines of the shipped models and runs of their sessions, for tests.
 * Whatever cannot be set up ends the program with 99. */
#ifndef QW_SESSION_UTIL_H
#define QW_SESSION_UTIL_H

#include "check.h"
#include "options.h"
#include "qwenrun.h"

/* A step that must work for the test to mean anything. */
#define OK(call)                                                                         \
    do {                                                                                 \
        struct qw_err err = {""};                                                        \
        MUST((call) == QW_OK, "%s", err.msg);                                            \
    } while (0)

/* Settings as after -o. */
struct setting {
    const char *label, *set[6];
    int n;
};

struct opened {
    struct qw_options o;
    struct qw_engine *e;
    struct qw_tokens prompt; /* a few lines of code */
};

/* more: one further setting, or NULL. */
void open_engine(struct opened *p, const struct setting *s, int max_tokens,
                 const char *more);
void close_engine(struct opened *p);

/* A run with hashed logits; the second goes on from what the session holds. */
struct qw_result generate(struct qw_session *s, const int32_t *id, size_t n, bool resume);
struct qw_result resume(struct qw_session *s);
/* The same ids and bits of logits. */
bool same(const struct qw_result *a, const struct qw_result *b);

/* A folder of the test's own below $TMPDIR, deleted by session_done(). */
const char *session_dir(void);
void session_done(void);
int session_files(void); /* in it */
#endif
