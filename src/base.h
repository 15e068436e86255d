/* SPDX-License-Identifier: MIT */
/* base.h - errors, log, checked allocation, clock, progress line. */
#ifndef QW_BASE_H
#define QW_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a function that can fail returns. The exit status of a command is
 * qw_exit_status(). */
enum qw_code {
    QW_OK = 0,
    QW_EFAIL = -1,   /* a check failed                                      exit 1 */
    QW_EUSAGE = -2,  /* wrong usage or configuration                        exit 2 */
    QW_EFILE = -3,   /* a file is bad: model, pack, session                 exit 3 */
    QW_EDEVICE = -4, /* no device, it failed, is too small, gave non-finite exit 4 */
    QW_EINTR = -5,   /* interrupted; what was made so far is out            exit 130 */
};

/* One message for the user: no newline, control bytes escaped, written where the cause is
 * known. */
struct qw_err {
    char msg[2048];
};

/* Write the message and give the code back, so that a failure is one return statement.
 * Control bytes in the result become "?" (a build log keeps its newlines
 * when it is passed through qw_fail_log); names from files go through qw_escape first. */
int qw_fail(struct qw_err *err, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The same with a multi-line text appended after ": ", cut to fit; newlines are kept. */
int qw_fail_log(struct qw_err *err, int code, const char *text, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* The process exit status of a qw_code. */
int qw_exit_status(int code);

/* Copy src to dst (size bytes with the terminator), escaping what a terminal must not see
 * (controls, DEL, bytes that are not UTF-8) as \xNN; cut with "..." where it does not
 * fit. */
void qw_escape(char *dst, size_t size, const void *src, size_t len);

enum qw_level { QW_QUIET = -1, QW_WARN = 0, QW_INFO = 1, QW_DEBUG = 2 };
/* Where the log goes: level, and a file name (NULL or "stderr" for stderr). */
int qw_log_open(enum qw_level level, const char *file, struct qw_err *err);
void qw_log(enum qw_level level, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Allocation that ends the process with a message when memory is out. Small host objects
 * only: mappings and device buffers return errors with their size instead. Counts are
 * checked. */
void *qw_alloc(size_t count, size_t size);            /* zeroed */
void *qw_realloc(void *p, size_t count, size_t size); /* new part is not zeroed */
char *qw_strdup(const char *s);
char *qw_sprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Growing byte buffer; data is always NUL-terminated after the first append. */
struct qw_buf {
    char *data;
    size_t len, cap;
};
void qw_buf_add(struct qw_buf *b, const void *data, size_t len);
void qw_buf_printf(struct qw_buf *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Text that is UTF-8 for certain: a byte that is none becomes \xNN, all else stays. */
void qw_buf_add_utf8(struct qw_buf *b, const void *data, size_t len);
void qw_buf_free(struct qw_buf *b);

double qw_now(void); /* seconds, monotonic */

/* Progress of long work: a line on a terminal, nothing in a pipe. done > total finishes
 * it. */
struct qw_progress {
    const char *what;
    double start, shown;
    bool on;
};
void qw_progress_start(struct qw_progress *p, const char *what, bool on);
void qw_progress_step(struct qw_progress *p, uint64_t done, uint64_t total);
void qw_progress_end(struct qw_progress *p);

/* a * b and a + b in 64 bits; false where the result does not fit. */
static inline bool qw_mul(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool qw_add(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}
#endif
