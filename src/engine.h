/* SPDX-License-Identifier: MIT */
/* engine.h - what engine.c and generate.c share; commands use qwenrun.h. */
#ifndef QW_ENGINE_H
#define QW_ENGINE_H

#include "chat.h"
#include "dflash.h"
#include "mtp.h"
#include "options.h"
#include "qwenrun.h"
#include "sample.h"
#include "target.h"

/* The files of an engine that have a pack. */
enum qw_pack_of { QW_PACK_TARGET, QW_PACK_DRAFT, QW_N_PACKS };

struct qw_engine {
    const struct qw_options *opt; /* borrowed */
    enum qw_open_level level;
    bool paper; /* for a device that is not there */
    struct qw_gguf *file;
    struct qw_tok *tok; /* NULL: the file has none, ids only */
    struct qw_chat chat;
    struct qw_hparams hp; /* from QW_OPEN_FILE on */
    struct qw_dev *dev;
    struct qw_model *model;
    struct qw_kern *kern;
    struct qw_pack_file *pack[QW_N_PACKS]; /* while loading */
    struct qw_gguf *draft_file;            /* method dflash: the drafter's */
    struct qw_draft_hparams draft_hp;
    struct qw_draft_model *draft;
    struct qw_kern *draft_kern; /* attention of the drafter's head size and cache type */
    char **stop;                /* stop texts, escapes resolved */
    size_t n_stop;
    double load_ms;
};

/* How a session drafts; the target's budget asks it for the drafter's bytes. */
struct qw_drafting {
    const struct qw_engine *e;
    struct qw_session_params p;
};

int qw_kv_bits(const char *type); /* of the words of kv.target and kv.draft */
/* d is borrowed by the result. */
struct qw_target_params qw_engine_target_params(const struct qw_engine *e,
                                                const struct qw_drafting *d);
struct qw_drafting qw_engine_drafting(const struct qw_engine *e); /* the options' */
struct qw_sampling qw_engine_sampling(const struct qw_engine *e);
struct qw_kern_params qw_engine_kern_params(const struct qw_engine *e);
bool qw_engine_drafts(const struct qw_engine *e, const char *method);
/* The drafter's part of each step of opening an engine, and of closing it. */
int qw_engine_draft_file(struct qw_engine *e, struct qw_err *err);
int qw_engine_draft_plan(struct qw_engine *e, struct qw_err *err);
int qw_engine_draft_kernels(struct qw_engine *e, struct qw_err *err);
int qw_engine_draft_load(struct qw_engine *e, bool show, struct qw_err *err);
void qw_engine_draft_close(struct qw_engine *e);
/* What the drafter wants of the target. */
void qw_engine_draft_target(const struct qw_drafting *d, struct qw_target_params *p);
/* A drafter of that kind over t; *out stays as it is when there is none. */
int qw_engine_drafter(const struct qw_drafting *d, struct qw_target *t,
                      struct qw_drafter **out, struct qw_err *err);
/* SHA-256 of the target's file; always: also where it takes reading a large file. */
bool qw_engine_target_hash(const struct qw_engine *e, bool always, char hex[65]);
/* The same of the drafter's; false where there is none. */
bool qw_engine_draft_hash(const struct qw_engine *e, bool always, char hex[65]);
/* Open the pack files that model.pack asks for; one that is missing or bad is made first.
 * Where it cannot be made the weights are packed while they are loaded, as with off. */
int qw_engine_packs(struct qw_engine *e, bool show, struct qw_err *err);
void qw_engine_close_packs(struct qw_engine *e);
int qw_engine_context(const struct qw_engine *e);
int qw_engine_max_tokens(const struct qw_engine *e);
int qw_engine_thinking_budget(const struct qw_engine *e); /* 0: none */
#endif
