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
};

void session_push(struct qw_session *s, int32_t id);
/* A fresh sampler that has seen the first n tokens of the timeline. */
void session_sampler(struct qw_session *s, size_t n);
#endif
