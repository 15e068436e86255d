/* SPDX-License-Identifier: MIT */
/* session.h - what session.c and generate.c share: one timeline of a loaded model. */
#ifndef QW_SESSION_H
#define QW_SESSION_H

#include "engine.h"
#include "spec.h"

struct qw_session {
    struct qw_engine *e;
    struct qw_drafting drafting; /* how it was opened */
    struct qw_target *target;
    struct qw_drafter *drafter; /* NULL: none */
    struct qw_spec *spec;
    struct qw_sampler *sampler;
    float *logits; /* rows of a step, read back only when the host needs them */
    int32_t *id;   /* the timeline: what the caches hold, then the newest token */
    size_t n, cap;
    bool thinking; /* it ends inside an open think block */
    bool broken;   /* a device call failed: what the state holds is not known */
};

void session_push(struct qw_session *s, int32_t id);
/* Before anything else a call does with the state: after a device error the timeline is
 * begun anew. */
int session_ready(struct qw_session *s, struct qw_err *err);
/* Give rc back; a device error leaves the session broken and empty. */
int session_result(struct qw_session *s, int rc);
/* A fresh sampler that has seen the first n tokens of the timeline. */
void session_sampler(struct qw_session *s, size_t n);
#endif
