/* SPDX-License-Identifier: MIT */
/* script.c - a drafter that knows the answer: for tests and `verify lossless`. It drafts
 * what it is told to, right tokens and then wrong ones, so that every pattern of
 * acceptance can be forced. */
#include <stdlib.h>
#include <string.h>

#include "cycle.h"
#include "drafter.h"

struct script {
    struct qw_drafter d;
    const struct qw_script *s;
    int step, n_vocab;
    int32_t block[QW_DRAFT_IDS + QW_MAX_DRAFT];
};

static int propose(struct qw_drafter *base, const int32_t *id, size_t n, int *count,
                   struct qw_err *err)
{
    struct script *c = (struct script *)base;
    const struct qw_script *s = c->s;
    const int at = c->step++ % s->n_steps, drafted = s->drafted[at];
    (void)id;
    *count = 0;
    for (int i = 0; i < drafted && i < base->n_max && n + (size_t)i < s->n; i++) {
        const int32_t next = s->id[n + (size_t)i];
        c->block[QW_DRAFT_IDS + i] = i < s->right[at] ? next : (next + 1) % c->n_vocab;
        ++*count;
    }
    c->block[QW_DRAFT_COUNT] = *count;
    return *count == 0 ? QW_OK
                       : qw_dev_write(qw_target_dev(base->target),
                                      qw_target_draft(base->target), 0, c->block,
                                      4 * (uint64_t)(QW_DRAFT_IDS + *count), false, err);
}

static void rewind_script(struct qw_drafter *base, size_t pos)
{
    (void)pos;
    ((struct script *)base)->step = 0;
}

static void close_script(struct qw_drafter *base)
{
    free(base);
}

static const struct qw_drafter_ops ops = {
    .name = "script", .propose = propose, .rewind = rewind_script, .close = close_script};

int qw_script_open(struct qw_drafter **out, struct qw_target *t,
                   const struct qw_script *script, int n_max, int n_vocab)
{
    struct script *c = qw_alloc(1, sizeof(*c));
    c->d = (struct qw_drafter){.ops = &ops, .target = t, .n_max = n_max};
    c->s = script;
    c->n_vocab = n_vocab;
    *out = &c->d;
    return QW_OK;
}
