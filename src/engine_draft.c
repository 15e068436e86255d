/* SPDX-License-Identifier: MIT */
/* engine_draft.c - options -> the drafter of an engine's sessions. */
#include "engine.h"

#include <string.h>

static bool method_is(const struct qw_engine *e, const char *name)
{
    return strcmp(e->opt->speculation.method, name) == 0;
}

bool qw_engine_adaptive(const struct qw_engine *e)
{
    return e->opt->speculation.adaptive;
}

static struct qw_draft_params draft_params(const struct qw_engine *e)
{
    return (struct qw_draft_params){.n_max = e->opt->speculation.n_max,
                                    .n_min = e->opt->speculation.n_min,
                                    .p_min = e->opt->speculation.p_min};
}

int qw_engine_draft_rows(const struct qw_engine *e)
{
    return method_is(e, "none") ? 0 : e->opt->speculation.n_max + 1;
}

int qw_engine_drafter(struct qw_engine *e, struct qw_target *t, struct qw_drafter **out,
                      struct qw_err *err)
{
    const struct qw_draft_params p = draft_params(e);
    if (method_is(e, "ngram"))
        return qw_ngram_open(out, t, &p, err);
    return QW_OK;
}
