/* SPDX-License-Identifier: MIT */
/* plan.h - a fixed list of kernel launches: recorded once with all arguments, then only
 * run. */
#ifndef QW_PLAN_H
#define QW_PLAN_H

#include "kern.h"

struct qw_step {
    cl_kernel kernel;
    const char
        *entry; /* for messages and timings; a literal or owned by the plan's maker */
    cl_uint dims;
    size_t global[3], local[3];
    bool any_local; /* local size is the runtime's choice */
};

struct qw_plan {
    struct qw_kern *kern;
    struct qw_step *step;
    int n, cap;
};

struct qw_arg {
    size_t size;
    const void *value;
};
#define QW_ARG(x)                                                                        \
    {                                                                                    \
        sizeof(x), &(x)                                                                  \
    }
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
/* Enqueue every step in order; does not wait. */
int qw_plan_run(const struct qw_plan *p, struct qw_err *err);
#endif
