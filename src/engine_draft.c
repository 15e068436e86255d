/* SPDX-License-Identifier: MIT */
/* engine_draft.c - options -> the drafter of an engine's sessions. */
#include "engine.h"

#include <string.h>

#include "spec.h"

bool qw_engine_drafts(const struct qw_engine *e, const char *method)
{
    return strcmp(e->opt->speculation.method, method) == 0;
}

/* What a session of these parameters drafts with; a script stands in for any method. */
static bool takes(const struct qw_drafting *d, const char *method)
{
    return d->p.script == NULL && !d->p.scoring && strcmp(d->p.method, method) == 0;
}

static struct qw_draft_params draft_params(const struct qw_drafting *d)
{
    return (struct qw_draft_params){
        .n_max = d->p.n_max, .n_min = d->p.n_min, .p_min = d->p.p_min};
}

static struct qw_mtp_params mtp_params(const struct qw_drafting *d, int context, int rows)
{
    return (struct qw_mtp_params){.draft = draft_params(d),
                                  .context = context,
                                  .rows = rows,
                                  .kv_bits = qw_kv_bits(d->e->opt->kv.draft),
                                  .attn = d->e->draft_kern};
}

static struct qw_dflash_params dflash_params(const struct qw_drafting *d, int context,
                                             int rows)
{
    return (struct qw_dflash_params){.draft = draft_params(d),
                                     .context = context,
                                     .rows = rows,
                                     .kv_bits = qw_kv_bits(d->e->opt->kv.draft),
                                     .attn = d->e->draft_kern};
}

int qw_engine_draft_file(struct qw_engine *e, struct qw_err *err)
{
    const struct qw_options *o = e->opt;
    if (qw_engine_drafts(e, "mtp") && !e->hp.mtp)
        return qw_fail(err, QW_EUSAGE, "speculation.method = mtp: %s: %s",
                       o->model.target, e->hp.mtp_why);
    if (!qw_engine_drafts(e, "dflash"))
        return QW_OK;
    int rc = qw_gguf_open(&e->draft_file, o->model.draft, err);
    if (rc == QW_OK)
        rc = qw_draft_hparams_read(e->draft_file, &e->hp, &e->draft_hp, err);
    if (rc == QW_OK && o->speculation.n_max >= e->draft_hp.block_size)
        rc =
            qw_fail(err, QW_EUSAGE,
                    "speculation.n_max = %d: %s drafts at most %d tokens (block_size %d)",
                    o->speculation.n_max, o->model.draft, e->draft_hp.block_size - 1,
                    e->draft_hp.block_size);
    return rc;
}

int qw_engine_draft_plan(struct qw_engine *e, struct qw_err *err)
{
    return qw_engine_drafts(e, "dflash")
               ? qw_draft_model_plan(&e->draft, e->draft_file, &e->hp, e->dev->max_alloc,
                                     err)
               : QW_OK;
}

int qw_engine_draft_kernels(struct qw_engine *e, struct qw_err *err)
{
    struct qw_kern_params p = qw_engine_kern_params(e);
    const int bits = qw_kv_bits(e->opt->kv.draft);
    const bool dflash = qw_engine_drafts(e, "dflash"), mtp = qw_engine_drafts(e, "mtp");
    if (!dflash && !(mtp && bits != p.kv_bits)) /* an MTP block has the target's heads */
        return QW_OK;
    if (dflash)
        p.hd = e->draft_hp.head_dim;
    p.kv_bits = bits;
    p.attn_only = true;
    return qw_kern_open(&e->draft_kern, e->dev, &p, err);
}

int qw_engine_draft_load(struct qw_engine *e, bool show, struct qw_err *err)
{
    return e->draft != NULL
               ? qw_draft_model_load(e->draft, e->kern, e->pack[QW_PACK_DRAFT], show, err)
               : QW_OK;
}

void qw_engine_draft_close(struct qw_engine *e)
{
    qw_kern_close(e->draft_kern);
    qw_draft_model_close(e->draft);
    qw_gguf_close(e->draft_file);
}

static uint64_t drafter_bytes(const void *arg, int context, int rows)
{
    const struct qw_drafting *d = arg;
    const struct qw_engine *e = d->e;
    uint64_t bytes = 0;
    if (takes(d, "dflash")) {
        const struct qw_dflash_params p = dflash_params(d, context, rows);
        qw_dflash_bytes(&bytes, e->draft, e->model, &p, e->dev->max_alloc, NULL);
        bytes += e->draft->bytes;
    }
    if (takes(d, "mtp")) {
        const struct qw_mtp_params p = mtp_params(d, context, rows);
        qw_mtp_bytes(&bytes, e->model, &p, e->dev->max_alloc, NULL);
    }
    return bytes + qw_spec_bytes(takes(d, "dflash") || takes(d, "mtp"));
}

void qw_engine_draft_target(const struct qw_drafting *d, struct qw_target_params *p)
{
    const struct qw_engine *e = d->e;
    if (takes(d, "none") || d->p.scoring)
        return;
    p->verify = d->p.n_max + 1;
    p->drafter_bytes = drafter_bytes;
    p->drafter_arg = d;
    p->hidden = takes(d, "mtp");
    if (takes(d, "dflash")) {
        p->tap = e->draft->hp.tap;
        p->n_taps = e->draft->hp.n_taps;
        p->tap_want = e->draft->fc.want;
        p->drafter_loaded = e->draft->dev != NULL ? e->draft->bytes : 0;
    }
}

int qw_engine_drafter(const struct qw_drafting *d, struct qw_target *t,
                      struct qw_drafter **out, struct qw_err *err)
{
    const struct qw_engine *e = d->e;
    const int context = qw_engine_context(e), rows = qw_target_rows(t);
    const struct qw_draft_params draft = draft_params(d);
    const struct qw_dflash_params dflash = dflash_params(d, context, rows);
    const struct qw_mtp_params mtp = mtp_params(d, context, rows);
    if (d->p.script != NULL)
        return qw_script_open(out, t, d->p.script, d->p.n_max, e->model->hp.n_vocab);
    if (takes(d, "ngram"))
        return qw_ngram_open(out, t, &draft, err);
    if (takes(d, "dflash"))
        return qw_dflash_open(out, e->draft, e->model, t, &dflash, err);
    if (takes(d, "mtp"))
        return qw_mtp_open(out, e->model, t, &mtp, err);
    return QW_OK;
}
