/* SPDX-License-Identifier: MIT */
/* session.c - open, close, reset: a target, its drafter and the tokens so far. */
#include "session.h"

#include <stdlib.h>
#include <string.h>

void qw_session_defaults(struct qw_session_params *p, const struct qw_engine *e)
{
    const struct qw_options *o = e->opt;
    *p = (struct qw_session_params){.method = o->speculation.method,
                                    .n_max = o->speculation.n_max,
                                    .n_min = o->speculation.n_min,
                                    .p_min = o->speculation.p_min,
                                    .adaptive = o->speculation.adaptive,
                                    .temperature = o->sampling.temperature,
                                    .seed = o->sampling.seed};
}

int qw_session_open(struct qw_session **out, struct qw_engine *e,
                    const struct qw_session_params *params, struct qw_err *err)
{
    struct qw_session *s = qw_alloc(1, sizeof(*s));
    s->e = e;
    s->drafting.e = e;
    if (params != NULL)
        s->drafting.p = *params;
    else
        qw_session_defaults(&s->drafting.p, e);
    const struct qw_target_params p = qw_engine_target_params(e, &s->drafting);
    int rc = qw_target_open(&s->target, e->model, e->kern, &p, err);
    if (rc == QW_OK)
        rc = qw_engine_drafter(&s->drafting, s->target, &s->drafter, err);
    if (rc == QW_OK)
        rc = qw_spec_open(&s->spec, s->target, s->drafter, s->drafting.p.adaptive, err);
    if (rc == QW_OK) {
        const int rows = qw_target_verify_rows(s->target);
        s->logits = qw_alloc((size_t)(rows > 1 ? rows : 1) * (size_t)e->model->hp.n_vocab,
                             sizeof(float));
        session_sampler(s, 0);
        rc = qw_target_wait(s->target, err);
    }
    if (rc != QW_OK)
        qw_session_close(s);
    else
        *out = s;
    return rc;
}

void qw_session_close(struct qw_session *s)
{
    if (s == NULL)
        return;
    qw_spec_close(s->spec);
    qw_drafter_close(s->drafter);
    qw_target_close(s->target);
    qw_sampler_close(s->sampler);
    free(s->logits);
    free(s->id);
    free(s);
}

int qw_session_reset(struct qw_session *s, struct qw_err *err)
{
    /* commands of a step that broke off may still read the step's control block */
    int rc = s->broken ? qw_target_wait(s->target, err) : QW_OK;
    s->n = 0;
    s->thinking = false;
    session_sampler(s, 0);
    qw_spec_reset(s->spec);
    if (rc == QW_OK)
        rc = qw_target_reset(s->target, err);
    s->broken = rc != QW_OK;
    return rc;
}

int session_ready(struct qw_session *s, struct qw_err *err)
{
    return s->broken ? qw_session_reset(s, err) : QW_OK;
}

int session_result(struct qw_session *s, int rc)
{
    if (rc == QW_EDEVICE) {
        s->broken = true;
        s->n = 0;
    }
    return rc;
}

void session_push(struct qw_session *s, int32_t id)
{
    if (s->n == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 1024;
        s->id = qw_realloc(s->id, s->cap, sizeof(*s->id));
    }
    s->id[s->n++] = id;
}

void session_sampler(struct qw_session *s, size_t n)
{
    struct qw_sampling sampling = qw_engine_sampling(s->e);
    sampling.temperature = s->drafting.p.temperature;
    sampling.seed = s->drafting.p.seed;
    qw_sampler_close(s->sampler);
    s->sampler = qw_sampler_open(&sampling, s->e->model->hp.n_vocab);
    for (size_t i = 0; i < n; i++)
        qw_sampler_accept(s->sampler, s->id[i]);
}

int qw_session_score(struct qw_session *s, const int32_t *id, size_t n, float *logits,
                     float *hidden, struct qw_err *err)
{
    const size_t most = (size_t)qw_target_prefill_rows(s->target);
    const size_t V = (size_t)s->e->model->hp.n_vocab, E = (size_t)s->e->model->hp.n_embd;
    int rc = session_ready(s, err);
    for (size_t at = 0; rc == QW_OK && at < n;) {
        const size_t step = n - at < most ? n - at : most;
        rc = qw_target_forward(s->target, id + at, (int)step, true, err);
        if (rc == QW_OK)
            rc = qw_target_read_logits(s->target, logits + at * V, (int)step, err);
        if (rc == QW_OK && hidden != NULL)
            rc = qw_target_read_hidden(s->target, hidden + at * E, (int)step, err);
        for (size_t i = 0; rc == QW_OK && i < step; i++)
            session_push(s, id[at + i]);
        at += step;
    }
    return session_result(s, rc);
}
