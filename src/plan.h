/* SPDX-License-Identifier: MIT */
/* plan.h - a fixed list of kernel launches: recorded once with all arguments, then only
 * run. */
#ifndef QW_PLAN_H
#define QW_PLAN_H

#include "kern.h"

enum qw_arg_kind { QW_ARG_INT, QW_ARG_FLOAT, QW_ARG_BUFFER };

/* What a step says of itself to those who look at plans. read, written: bytes of a buffer
 * that it has to move when every byte it needs is moved once, all the plan's rows are
 * live and the context is full; 0 also for what is too small to count. */
struct qw_step_arg {
    enum qw_arg_kind kind;
    int value; /* of an int */
    uint64_t read, written;
};

struct qw_step {
    cl_kernel kernel;           /* NULL on paper */
    const struct qw_kern *kern; /* the set it comes from */
    const char
        *entry; /* for messages and timings; a literal or owned by the plan's maker */
    cl_uint dims;
    size_t global[3], local[3];
    bool any_local; /* local size is the runtime's choice */
    struct qw_step_arg *arg;
    int n_args;
};

struct qw_plan {
    struct qw_kern *kern;
    struct qw_step *step;
    int n, cap;
};

struct qw_arg {
    size_t size;
    const void *value;
    enum qw_arg_kind kind;
    uint64_t read, written; /* as of qw_step_arg */
};
#define QW_MOVES(x, read, written)                                                       \
    {                                                                                    \
        sizeof(x), &(x),                                                                 \
            _Generic((x), cl_mem                                                         \
                     : QW_ARG_BUFFER, float                                              \
                     : QW_ARG_FLOAT, default                                             \
                     : QW_ARG_INT),                                                      \
            (read), (written)                                                            \
    }
#define QW_ARG(x) QW_MOVES(x, 0, 0)
#define QW_READS(x, bytes) QW_MOVES(x, bytes, 0)
#define QW_WRITES(x, bytes) QW_MOVES(x, 0, bytes)
enum { QW_PLAN_FLUSH = 64 }; /* launches between flushes, so that a device starts early */

void qw_plan_init(struct qw_plan *p, struct qw_kern *kern);
void qw_plan_free(struct qw_plan *p);
/* Append a launch. local may be NULL. Sizes are in work-items. */
int qw_plan_add(struct qw_plan *p, const char *entry, int dims, const size_t *global,
                const size_t *local, const struct qw_arg *arg, int n_args,
                struct qw_err *err);
/* The same from another kernel set of the same device, which must outlive the plan. */
int qw_plan_add_from(struct qw_plan *p, struct qw_kern *kern, const char *entry, int dims,
                     const size_t *global, const size_t *local, const struct qw_arg *arg,
                     int n_args, struct qw_err *err);
/* Enqueue every step in order; does not wait. Not on paper. */
int qw_plan_run(const struct qw_plan *p, struct qw_err *err);

/* Plans with their names, both borrowed, for those who look at them. */
struct qw_plan_list {
    struct {
        const char *name;
        const struct qw_plan *plan;
    } item[16];
    int n;
};
void qw_plan_list_add(struct qw_plan_list *l, const char *name, const struct qw_plan *p);
#endif
