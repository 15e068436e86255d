/* SPDX-License-Identifier: MIT */
#include "plan.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void qw_plan_init(struct qw_plan *p, struct qw_kern *kern)
{
    *p = (struct qw_plan){.kern = kern};
}

void qw_plan_free(struct qw_plan *p)
{
    for (int i = 0; i < p->n; i++) {
        if (p->step[i].kernel != NULL)
            clReleaseKernel(p->step[i].kernel);
        free(p->step[i].arg);
    }
    free(p->step);
    *p = (struct qw_plan){0};
}

int qw_plan_add(struct qw_plan *p, const char *entry, int dims, const size_t *global,
                const size_t *local, const struct qw_arg *arg, int n_args,
                struct qw_err *err)
{
    return qw_plan_add_from(p, p->kern, entry, dims, global, local, arg, n_args, err);
}

static struct qw_step_arg *describe(const struct qw_arg *arg, int n)
{
    struct qw_step_arg *out = qw_alloc((size_t)n, sizeof(*out));
    for (int i = 0; i < n; i++) {
        out[i] = (struct qw_step_arg){
            .kind = arg[i].kind, .read = arg[i].read, .written = arg[i].written};
        if (arg[i].kind == QW_ARG_INT && arg[i].size == sizeof(int))
            memcpy(&out[i].value, arg[i].value, sizeof(int));
    }
    return out;
}

int qw_plan_add_from(struct qw_plan *p, struct qw_kern *kern, const char *entry, int dims,
                     const size_t *global, const size_t *local, const struct qw_arg *arg,
                     int n_args, struct qw_err *err)
{
    struct qw_step s = {
        .kern = kern, .entry = entry, .dims = (cl_uint)dims, .any_local = local == NULL};
    int rc = qw_kern_make(kern, entry, &s.kernel, err);
    if (rc != QW_OK)
        return rc;
    for (int i = 0; i < dims; i++) {
        s.global[i] = global[i];
        s.local[i] = local ? local[i] : 0;
    }
    for (int i = 0; s.kernel != NULL && i < n_args; i++) {
        cl_int cl = clSetKernelArg(s.kernel, (cl_uint)i, arg[i].size, arg[i].value);
        if (cl != CL_SUCCESS) {
            clReleaseKernel(s.kernel);
            return qw_fail(err, QW_EDEVICE, "clSetKernelArg(%s, %d): %s", entry, i,
                           qw_cl_error(cl));
        }
    }
    s.arg = describe(arg, n_args);
    s.n_args = n_args;
    if (p->n == p->cap) {
        p->cap = p->cap ? 2 * p->cap : 128;
        p->step = qw_realloc(p->step, (size_t)p->cap, sizeof(*p->step));
    }
    p->step[p->n++] = s;
    return QW_OK;
}

int qw_plan_run(const struct qw_plan *p, struct qw_err *err)
{
    cl_command_queue queue = p->kern->dev->queue;
    assert(!p->kern->dev->paper);
    for (int i = 0; i < p->n; i++) {
        const struct qw_step *s = &p->step[i];
        cl_int rc = clEnqueueNDRangeKernel(queue, s->kernel, s->dims, NULL, s->global,
                                           s->any_local ? NULL : s->local, 0, NULL, NULL);
        if (rc == CL_SUCCESS && i % QW_PLAN_FLUSH == QW_PLAN_FLUSH - 1)
            rc = clFlush(queue);
        if (rc != CL_SUCCESS)
            return qw_fail(err, QW_EDEVICE, "%s (step %d of %d): %s", s->entry, i + 1,
                           p->n, qw_cl_error(rc));
    }
    return QW_OK;
}

void qw_plan_list_add(struct qw_plan_list *l, const char *name, const struct qw_plan *p)
{
    assert(l->n < (int)(sizeof(l->item) / sizeof(l->item[0])));
    if (p->n == 0)
        return;
    l->item[l->n].name = name;
    l->item[l->n++].plan = p;
}
