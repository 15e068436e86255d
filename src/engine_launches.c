/* SPDX-License-Identifier: MIT */
/* engine_launches.c - the plans of a session as JSON, for those who look at them. */
#include "session.h"

#include <assert.h>

/* An int as it is, a buffer as the bytes it moves; other numbers are left out (null). */
static json_t *argument(const struct qw_step_arg *a)
{
    if (a->kind == QW_ARG_INT)
        return json_integer(a->value);
    if (a->kind == QW_ARG_FLOAT)
        return json_null();
    return json_pack("{s:I, s:I}", "read_bytes", (json_int_t)a->read, "written_bytes",
                     (json_int_t)a->written);
}

static json_t *sizes(const size_t *n, int dims)
{
    json_t *out = json_array();
    for (int i = 0; i < dims; i++)
        json_array_append_new(out, json_integer((json_int_t)n[i]));
    return out;
}

/* The programs that a session's kernels come from. */
struct programs {
    const struct qw_kern *kern[8];
    int n;
};

/* The number of a kernel set's program, which is told by what it was built with. */
static int program(struct programs *p, const struct qw_kern *kern)
{
    int i = 0;
    while (i < p->n && p->kern[i] != kern)
        i++;
    assert(i < (int)(sizeof(p->kern) / sizeof(p->kern[0])));
    if (i == p->n)
        p->kern[p->n++] = kern;
    return i;
}

static json_t *launch(const struct qw_step *s, struct programs *p)
{
    json_t *args = json_array();
    uint64_t read = 0, written = 0;
    for (int i = 0; i < s->n_args; i++) {
        json_array_append_new(args, argument(&s->arg[i]));
        read += s->arg[i].read;
        written += s->arg[i].written;
    }
    return json_pack("{s:s, s:i, s:o, s:o, s:I, s:I, s:o}", "kernel", s->entry, "program",
                     program(p, s->kern), "global", sizes(s->global, (int)s->dims),
                     "local", s->any_local ? json_null() : sizes(s->local, (int)s->dims),
                     "read_bytes", (json_int_t)read, "written_bytes", (json_int_t)written,
                     "arguments", args);
}

static json_t *describe(const struct qw_plan_list *list)
{
    struct programs p = {0};
    json_t *plans = json_object(), *options = json_array();
    for (int i = 0; i < list->n; i++) {
        json_t *steps = json_array();
        for (int k = 0; k < list->item[i].plan->n; k++)
            json_array_append_new(steps, launch(&list->item[i].plan->step[k], &p));
        json_object_set_new(plans, list->item[i].name, steps);
    }
    for (int i = 0; i < p.n; i++)
        json_array_append_new(options, json_string(p.kern[i]->options));
    return json_pack("{s:o, s:o}", "programs", options, "launches", plans);
}

int qw_engine_launches(struct qw_engine *e, json_t **out, struct qw_err *err)
{
    struct qw_session *s;
    struct qw_plan_list list = {0};
    int rc = qw_session_open(&s, e, NULL, err);
    if (rc != QW_OK)
        return rc;
    qw_target_plans(s->target, &list);
    if (s->drafter != NULL && s->drafter->ops->plans != NULL)
        s->drafter->ops->plans(s->drafter, &list);
    qw_spec_plans(s->spec, &list);
    *out = describe(&list);
    qw_session_close(s);
    return QW_OK;
}
