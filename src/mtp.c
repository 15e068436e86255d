/* SPDX-License-Identifier: MIT */
/* mtp.c - drafting with the target file's MTP block. Its row of position p is made from
 * the token of p and the target's normed hidden row of p - 1, and predicts token p + 1. A
 * proposal is one pass after the other over a single row: what a pass makes, the row
 * after the head's norm and the best token, is the input of the next. Cache and hidden
 * rows are indexed by position. A proposal writes both from its first position on, as if
 * its tokens were decided; the target's next step, which starts there, writes the true
 * ones over them ("catch up"). So nothing is rolled back. */
#include "mtp.h"

#include <assert.h>
#include <stdlib.h>

#include "cycle.h"
#include "layer.h"

enum {
    X,       /* [rows][E] residual rows */
    Y,       /* [rows][ld] products */
    RING,    /* [QW_HIDDEN_RING][E] hidden rows by position */
    Q,       /* [1][heads][hd] */
    QSCALE,  /* of a Q8_0 cache */
    ML,      /* partial attention results */
    PO,      /* */
    CS,      /* [rows][n_rot] cos and sin */
    PART,    /* keys of the head's tiles [tiles][2] */
    LOGITS,  /* [1][cols], with p_min only */
    PROB,    /* [1] */
    BEST,    /* [1][2] */
    PROBS,   /* [n_max] of all passes */
    BESTS,   /* [n_max][2] */
    NEXT,    /* cycle block of a proposal */
    STEP,    /* of a pass */
    DRAFTED, /* its rows count the passes made */
    AQ,      /* activations [rows][max K] */
    ASCALE,  /* */
    ASUM,    /* */
    AF,      /* */
    N_BUFFERS
};
static const char *const buffer_name[N_BUFFERS] = {[X] = "draft rows",
                                                   [Y] = "draft products",
                                                   [RING] = "hidden rows by position",
                                                   [Q] = "draft queries",
                                                   [QSCALE] = "draft query scales",
                                                   [ML] = "draft attention sums",
                                                   [PO] = "draft attention rows",
                                                   [CS] = "draft rope rows",
                                                   [PART] = "draft head tiles",
                                                   [LOGITS] = "draft logits",
                                                   [PROB] = "draft probability",
                                                   [BEST] = "draft argmax",
                                                   [PROBS] = "draft probabilities",
                                                   [BESTS] = "draft tokens",
                                                   [NEXT] = "draft cycle block",
                                                   [STEP] = "draft pass block",
                                                   [DRAFTED] = "draft count block",
                                                   [AQ] = "draft activations",
                                                   [ASCALE] = "draft activation scales",
                                                   [ASUM] = "draft activation sums",
                                                   [AF] = "draft float activations"};

struct sizes {
    struct qw_attn_shape shape;
    struct qw_layer_cache cache; /* its pages' sizes */
    uint64_t bytes[N_BUFFERS], total;
    int few, rows; /* of a verify step of the target, and of its widest step */
    int rope_page, n_rope;
};

struct mtp {
    struct qw_drafter d;
    const struct qw_model *m;
    struct qw_dev *dev;
    struct qw_mtp_params p;
    struct sizes z;
    cl_mem b[N_BUFFERS];
    struct qw_acts acts;
    cl_mem *rope;
    struct qw_layer_cache cache;
    struct qw_plan catch_few, catch_many, begin, pass, end;
};

static uint64_t u(int n)
{
    return (uint64_t)n;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* ---- sizes ---- */

static const struct qw_mat *head_of(const struct qw_model *m)
{
    return m->mtp->head.n_parts > 0 ? &m->mtp->head : qw_model_head(m);
}

static const struct qw_mat *embed_of(const struct qw_model *m)
{
    return m->mtp->embed.n_parts > 0 ? &m->mtp->embed : &m->embed;
}

static void size_buffers(struct sizes *z, const struct qw_model *m,
                         const struct qw_mtp_params *p)
{
    const struct qw_hparams *hp = &m->hp;
    const struct qw_mat *head = head_of(m);
    const uint64_t rows = u(z->rows), n = u(p->draft.n_max), E = u(hp->n_embd);
    const uint64_t heads = u(hp->n_head) * u(hp->head_dim), blocks = u(z->shape.blocks);
    /* catching up goes as far as keys and values; the rest is for one row */
    const uint64_t y = most(rows * u(m->mtp->layer.in.cols), u(m->max_cols));
    const uint64_t k = most(rows * 2 * E, u(m->max_k));
    const bool cut = p->draft.p_min > 0;
    uint64_t *b = z->bytes;
    b[X] = rows * E * 4;
    b[Y] = y * 4;
    b[RING] = QW_HIDDEN_RING * E * 4;
    b[Q] = heads * (p->kv_bits == 8 ? 1 : 4);
    b[QSCALE] = heads / 32 * 4;
    b[ML] = u(hp->n_head) * blocks * 8;
    b[PO] = heads * blocks * 4;
    b[CS] = rows * u(hp->n_rot) * 4;
    b[PART] = cut ? (u(head->cols) + QW_ARGMAX_CHUNK - 1) / QW_ARGMAX_CHUNK * 8
                  : u(head->part[0].tiles) * 8;
    b[LOGITS] = cut ? u(head->cols) * 4 : 0;
    b[PROB] = 4;
    b[BEST] = 8;
    b[PROBS] = n * 4;
    b[BESTS] = n * 8;
    b[NEXT] = b[STEP] = 4 * (QW_CYC_IDS + 1);
    b[DRAFTED] = 4 * QW_CYC_IDS;
    b[AQ] = k;
    b[ASCALE] = b[ASUM] = k / 32 * 4;
    b[AF] = k * 4;
}

static int find_sizes(struct sizes *z, const struct qw_model *m,
                      const struct qw_mtp_params *p, uint64_t max_alloc,
                      struct qw_err *err)
{
    const struct qw_hparams *hp = &m->hp;
    const int positions = p->context + p->draft.n_max;
    const uint64_t limit = least(max_alloc, (uint64_t)1 << 31);
    *z = (struct sizes){.rows = p->rows};
    z->few = p->draft.n_max + 1 < p->rows ? p->draft.n_max + 1 : p->rows;
    z->shape =
        (struct qw_attn_shape){.heads = hp->n_head,
                               .kv_heads = hp->n_head_kv,
                               .hd = hp->head_dim,
                               .n_rot = hp->n_rot,
                               .blocks = (positions + QW_ATTN_BLOCK - 1) / QW_ATTN_BLOCK,
                               .rows = 1,
                               .eps = hp->eps,
                               .gated = true,
                               .causal = true,
                               .kern = p->attn};
    int rc = qw_layer_cache_plan(&z->cache, &z->shape, p->kv_bits, max_alloc,
                                 "the drafter's cache", err);
    if (rc != QW_OK)
        return rc;
    size_buffers(z, m, p);
    z->rope_page = (int)least(limit / (u(hp->n_rot) * 4), u(positions));
    z->n_rope = (positions + z->rope_page - 1) / z->rope_page;
    for (int i = 0; i < N_BUFFERS; i++) {
        z->total += z->bytes[i];
        if (z->bytes[i] > max_alloc)
            return qw_fail(err, QW_EDEVICE,
                           "%s: a buffer of %llu bytes, the device allows %llu: lower "
                           "batch.prefill or model.context",
                           buffer_name[i], (unsigned long long)z->bytes[i],
                           (unsigned long long)max_alloc);
    }
    z->total += u(z->n_rope) * u(z->rope_page) * u(hp->n_rot) * 4 +
                qw_layer_cache_bytes(&z->cache);
    return QW_OK;
}

int qw_mtp_bytes(uint64_t *bytes, const struct qw_model *m, const struct qw_mtp_params *p,
                 uint64_t max_alloc, struct qw_err *err)
{
    struct sizes z;
    int rc = find_sizes(&z, m, p, max_alloc, err);
    *bytes = z.total;
    return rc;
}

/* ---- plans ---- */

static struct qw_layer_work work(const struct mtp *f, cl_mem cycle)
{
    return (struct qw_layer_work){.cycle = cycle,
                                  .x = f->b[X],
                                  .y = f->b[Y],
                                  .cs = f->b[CS],
                                  .q = f->b[Q],
                                  .qscale = f->b[QSCALE],
                                  .ml = f->b[ML],
                                  .po = f->b[PO],
                                  .acts = f->acts,
                                  .n_embd = f->m->hp.n_embd,
                                  .n_ff = f->m->hp.n_ff,
                                  .eps = f->m->hp.eps};
}

/* x = W_eh [RMS(embedding of the row's token) | RMS(hidden row before)]; the halves pass
 * through x one after the other. Also the rows' rope. */
static int emit_join(struct mtp *f, struct qw_plan *p, cl_mem cycle, int rows,
                     struct qw_err *err)
{
    const struct qw_hparams *hp = &f->m->hp;
    const struct qw_mtp *y = f->m->mtp;
    const int E = hp->n_embd, want = y->eh_proj.want;
    cl_mem x = f->b[X];
    int rc = qw_op_embed(p, embed_of(f->m), hp->n_vocab, cycle, x, rows, err);
    if (rc == QW_OK)
        rc = qw_op_norm_into(p, x, y->enorm, cycle, E, hp->eps, 0, 2 * E, want, &f->acts,
                             rows, err);
    if (rc == QW_OK)
        rc = qw_op_hidden_before(p, qw_target_hidden(f->d.target), f->b[RING], cycle, E,
                                 x, rows, err);
    if (rc == QW_OK)
        rc = qw_op_norm_into(p, x, y->hnorm, cycle, E, hp->eps, E, 2 * E, want, &f->acts,
                             rows, err);
    if (rc == QW_OK)
        rc = qw_op_matmul(p, &y->eh_proj, &f->acts, cycle, x, E, false, rows, err);
    for (int i = 0; rc == QW_OK && i < f->z.n_rope; i++)
        rc = qw_op_rope_rows(p, f->rope[i], cycle, hp->n_rot, i * f->z.rope_page,
                             (i + 1) * f->z.rope_page, f->b[CS], rows, err);
    return rc;
}

/* Rows of the target's step -> keys and values; its hidden rows are kept. */
static int emit_catch_up(struct mtp *f, struct qw_plan *p, int rows, struct qw_err *err)
{
    cl_mem cycle = qw_target_cycle(f->d.target);
    const struct qw_layer_work w = work(f, cycle);
    int rc = emit_join(f, p, cycle, rows, err);
    if (rc == QW_OK)
        rc = qw_layer_kv(p, &w, &f->m->mtp->layer, &f->z.shape, &f->cache, rows, err);
    return rc == QW_OK ? qw_op_hidden_keep(p, qw_target_hidden(f->d.target), f->b[RING],
                                           cycle, f->m->hp.n_embd, rows, err)
                       : rc;
}

/* x -> hidden row for the next pass, best token. Without p_min no logits are written. */
static int emit_head(struct mtp *f, struct qw_plan *p, struct qw_err *err)
{
    const struct qw_hparams *hp = &f->m->hp;
    const struct qw_mat *head = head_of(f->m);
    const bool cut = f->p.draft.p_min > 0;
    cl_mem norm = f->m->mtp->head_norm ? f->m->mtp->head_norm : f->m->out_norm;
    cl_mem cycle = f->b[STEP];
    int rc = qw_op_norm(p, f->b[X], norm, cycle, hp->n_embd, hp->eps, head->want | 2,
                        &f->acts, 1, err);
    if (rc == QW_OK)
        rc = qw_op_hidden_keep(p, f->acts.f, f->b[RING], cycle, hp->n_embd, 1, err);
    if (rc == QW_OK && !cut)
        return qw_op_top(p, head, &f->acts, cycle, f->b[PART], f->b[BEST], 1, err);
    if (rc == QW_OK)
        rc = qw_op_matmul(p, head, &f->acts, cycle, f->b[LOGITS], head->cols, false, 1,
                          err);
    if (rc == QW_OK)
        rc = qw_op_argmax(p, f->b[LOGITS], cycle, hp->n_vocab, head->cols, f->b[PART],
                          f->b[BEST], 1, err);
    return rc == QW_OK ? qw_op_top10(p, f->b[LOGITS], cycle, hp->n_vocab, head->cols,
                                     f->b[PROB], 1, err)
                       : rc;
}

static int emit_pass(struct mtp *f, struct qw_plan *p, struct qw_err *err)
{
    const struct qw_layer *l = &f->m->mtp->layer;
    const struct qw_layer_work w = work(f, f->b[STEP]);
    int rc = emit_join(f, p, w.cycle, 1, err);
    if (rc == QW_OK)
        rc = qw_layer_attn(p, &w, l, &f->z.shape, &f->cache, 1, err);
    if (rc == QW_OK)
        rc = qw_layer_ffn(p, &w, l->post_norm, &l->gate_up, &l->down, 1, err);
    if (rc == QW_OK)
        rc = emit_head(f, p, err);
    return rc == QW_OK ? qw_op_draft_next(p, f->b[BEST], f->b[PROB],
                                          (float)f->p.draft.p_min, f->b[STEP],
                                          f->b[DRAFTED], f->b[BESTS], f->b[PROBS], err)
                       : rc;
}

static int record(struct mtp *f, struct qw_err *err)
{
    int rc = emit_catch_up(f, &f->catch_few, f->z.few, err);
    if (rc == QW_OK && f->z.rows > f->z.few)
        rc = emit_catch_up(f, &f->catch_many, f->z.rows, err);
    if (rc == QW_OK)
        rc = qw_op_draft_begin(&f->begin, f->b[NEXT], f->b[STEP], f->b[DRAFTED], err);
    if (rc == QW_OK)
        rc = emit_pass(f, &f->pass, err);
    return rc == QW_OK ? qw_op_draft_end(&f->end, f->b[BESTS], f->b[PROBS], f->b[DRAFTED],
                                         (float)f->p.draft.p_min, f->p.draft.n_min,
                                         qw_target_draft(f->d.target), err)
                       : rc;
}

/* ---- running ---- */

static int observe(struct qw_drafter *base, int rows, int pos, bool later,
                   struct qw_err *err)
{
    (void)pos;
    (void)later; /* the hidden rows are gone after the next step */
    struct mtp *f = (struct mtp *)base;
    return qw_plan_run(rows <= f->z.few ? &f->catch_few : &f->catch_many, err);
}

/* All passes are queued at once; those behind the end of the draft find no row. */
static int propose(struct qw_drafter *base, const int32_t *id, size_t n, int *count,
                   struct qw_err *err)
{
    struct mtp *f = (struct mtp *)base;
    (void)id;
    (void)n;
    (void)count;
    int rc = qw_plan_run(&f->begin, err);
    for (int i = 0; rc == QW_OK && i < base->n_max; i++)
        rc = qw_plan_run(&f->pass, err);
    return rc == QW_OK ? qw_plan_run(&f->end, err) : rc;
}

int qw_mtp_read(struct qw_drafter *d, float *logits, float *hidden, struct qw_err *err)
{
    struct mtp *f = (struct mtp *)d;
    const struct qw_hparams *hp = &f->m->hp;
    assert(logits == NULL || f->p.draft.p_min > 0);
    int rc = qw_dev_read(f->dev, f->b[AF], 0, hidden, u(hp->n_embd) * 4, err);
    return rc == QW_OK && logits != NULL
               ? qw_dev_read(f->dev, f->b[LOGITS], 0, logits, u(hp->n_vocab) * 4, err)
               : rc;
}

/* ---- open and close ---- */

static void close_mtp(struct qw_drafter *base)
{
    struct mtp *f = (struct mtp *)base;
    clFinish(f->dev->queue);
    qw_plan_free(&f->catch_few);
    qw_plan_free(&f->catch_many);
    qw_plan_free(&f->begin);
    qw_plan_free(&f->pass);
    qw_plan_free(&f->end);
    for (int i = 0; i < N_BUFFERS; i++)
        qw_dev_release(f->dev, &f->b[i]);
    for (int i = 0; f->rope != NULL && i < f->z.n_rope; i++)
        qw_dev_release(f->dev, &f->rope[i]);
    qw_layer_cache_close(&f->cache, f->dev);
    free(f->rope);
    free(f);
}

static struct qw_draft_part *parts(struct qw_drafter *base, int pos, int *n)
{
    const struct mtp *f = (const struct mtp *)base;
    const uint64_t row = 4 * u(f->m->hp.n_embd);
    struct qw_draft_part *p = qw_alloc(2, sizeof(*p));
    *n = pos > 0 ? 2 : 1;
    snprintf(p[0].name, sizeof(p[0].name), "mtp.kv");
    p[0].span = qw_layer_cache_span(&f->cache, &f->z.shape, pos);
    snprintf(p[1].name, sizeof(p[1].name), "mtp.hidden");
    p[1].buf = f->b[RING];
    p[1].at = pos > 0 ? u((pos - 1) % QW_HIDDEN_RING) * row : 0;
    p[1].bytes = row;
    return p;
}

/* A proposal is begin, n_max times draft, end. */
static void plans(const struct qw_drafter *base, struct qw_plan_list *out)
{
    const struct mtp *f = (const struct mtp *)base;
    qw_plan_list_add(out, "begin", &f->begin);
    qw_plan_list_add(out, "draft", &f->pass);
    qw_plan_list_add(out, "end", &f->end);
    qw_plan_list_add(out, "inject", &f->catch_few);
}

static const struct qw_drafter_ops ops = {.name = "mtp",
                                          .observe = observe,
                                          .propose = propose,
                                          .parts = parts,
                                          .plans = plans,
                                          .close = close_mtp};

static int open_buffers(struct mtp *f, struct qw_err *err)
{
    const struct qw_hparams *hp = &f->m->hp;
    int rc = QW_OK;
    for (int i = 0; rc == QW_OK && i < N_BUFFERS; i++)
        if (f->z.bytes[i] > 0)
            rc = qw_dev_buffer(f->dev, f->z.bytes[i], buffer_name[i], &f->b[i], err);
    f->acts = (struct qw_acts){f->b[AQ], f->b[ASCALE], f->b[ASUM], f->b[AF]};
    f->d.next = f->b[NEXT];
    f->cache = f->z.cache;
    if (rc == QW_OK)
        rc =
            qw_layer_cache_open(&f->cache, f->dev, "draft K cache", "draft V cache", err);
    return rc == QW_OK ? qw_rope_table(f->dev, f->z.rope_page, f->z.n_rope, hp->n_rot,
                                       hp->rope_base, &f->rope, err)
                       : rc;
}

int qw_mtp_open(struct qw_drafter **out, const struct qw_model *m, struct qw_target *t,
                const struct qw_mtp_params *p, struct qw_err *err)
{
    struct mtp *f = qw_alloc(1, sizeof(*f));
    struct qw_kern *k = qw_target_kern(t);
    assert(m->mtp != NULL && p->draft.n_max <= QW_MAX_DRAFT);
    f->d = (struct qw_drafter){.ops = &ops, .target = t, .n_max = p->draft.n_max};
    f->m = m;
    f->dev = k->dev;
    f->p = *p;
    qw_plan_init(&f->catch_few, k);
    qw_plan_init(&f->catch_many, k);
    qw_plan_init(&f->begin, k);
    qw_plan_init(&f->pass, k);
    qw_plan_init(&f->end, k);
    int rc = find_sizes(&f->z, m, p, k->dev->max_alloc, err);
    if (rc == QW_OK)
        rc = open_buffers(f, err);
    if (rc == QW_OK)
        rc = record(f, err);
    if (rc != QW_OK)
        close_mtp(&f->d);
    else
        *out = &f->d;
    return rc;
}
