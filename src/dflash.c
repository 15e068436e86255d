/* SPDX-License-Identifier: MIT */
/* dflash.c - the DFlash block-diffusion drafter (spec of the file and the maths:
 * MODEL.md). Features of every row the target processes become keys and values of all
 * layers at once
 * ("inject"); a proposal is one forward pass over the newest token and n_max mask tokens,
 * each of which predicts the token at its own place. Its cache is indexed by position:
 * rows the target refused, and the block's own, are simply overwritten. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "cycle.h"
#include "dflash.h"
#include "layer.h"

enum {
    X,      /* [rows][E] residual rows of a block */
    Y,      /* [rows][ld] products */
    G,      /* [rows][E] encoder rows */
    Q,      /* [rows][heads][hd] */
    QSCALE, /* of a Q8_0 cache */
    ML,     /* partial attention results */
    PO,     /* */
    CS,     /* [rows][hd] cos and sin */
    PART,   /* keys of the head's tiles [n_max][tiles][2] */
    LOGITS, /* [n_max][cols], with p_min only */
    PROB,   /* [n_max] */
    BEST,   /* [n_max][2] */
    NEXT,   /* cycle block of a proposal */
    HEAD,   /* the same for its head: rows 1.. */
    LATE,   /* the same for features that waited */
    AQ,     /* activations [rows][max K] */
    ASCALE, /* */
    ASUM,   /* */
    AF,     /* */
    N_BUFFERS
};
static const char *const buffer_name[N_BUFFERS] = {[X] = "draft rows",
                                                   [Y] = "draft products",
                                                   [G] = "encoder rows",
                                                   [Q] = "draft queries",
                                                   [QSCALE] = "draft query scales",
                                                   [ML] = "draft attention sums",
                                                   [PO] = "draft attention rows",
                                                   [CS] = "draft rope rows",
                                                   [PART] = "draft head tiles",
                                                   [LOGITS] = "draft logits",
                                                   [PROB] = "draft probabilities",
                                                   [BEST] = "draft argmax",
                                                   [NEXT] = "draft cycle block",
                                                   [HEAD] = "draft head block",
                                                   [LATE] = "draft backlog block",
                                                   [AQ] = "draft activations",
                                                   [ASCALE] = "draft activation scales",
                                                   [ASUM] = "draft activation sums",
                                                   [AF] = "draft float activations"};

/* The layers of one kind, sliding or full, and their caches. */
struct group {
    struct qw_attn_shape shape;
    struct qw_layer_cache cache; /* its pages' sizes */
};

struct sizes {
    struct group group[2]; /* full, sliding */
    uint64_t bytes[N_BUFFERS], total;
    int rows, block; /* injected in one batch at most; of a proposal */
    int positions, rope_page, n_rope;
};

struct dflash {
    struct qw_drafter d;
    const struct qw_draft_model *m;
    const struct qw_model *target;
    struct qw_dev *dev;
    struct qw_dflash_params p;
    struct sizes z;
    cl_mem b[N_BUFFERS];
    struct qw_acts acts;
    cl_mem *rope;
    struct qw_layer_cache *cache; /* [n_layer] */
    struct qw_plan inject_few, inject_many, inject_late, block;
    int waiting,
        wait_pos; /* rows of features not injected yet, and their first position */
    int32_t late[QW_CYC_IDS];
};

static uint64_t u(int n)
{
    return (uint64_t)n;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- sizes ---- */

static const struct qw_mat *head_of(const struct qw_draft_model *m,
                                    const struct qw_model *target)
{
    return m->head.n_parts > 0 ? &m->head : qw_model_head(target);
}

static const struct qw_mat *embed_of(const struct qw_draft_model *m,
                                     const struct qw_model *target)
{
    return m->embed.n_parts > 0 ? &m->embed : &target->embed;
}

/* A cache for `positions`, or where the layer slides for its window, the widest step and
 * one block more: what is older is seen by no row. */
static int size_group(struct group *g, const struct qw_draft_hparams *hp, bool sliding,
                      const struct sizes *z, int kv_bits, uint64_t max_alloc,
                      struct qw_err *err)
{
    const int all = (z->positions + QW_ATTN_BLOCK - 1) / QW_ATTN_BLOCK;
    const int widest = z->rows > z->block ? z->rows : z->block;
    const int some = (hp->window + widest) / QW_ATTN_BLOCK + 3;
    g->shape = (struct qw_attn_shape){.heads = hp->n_head,
                                      .kv_heads = hp->n_head_kv,
                                      .hd = hp->head_dim,
                                      .n_rot = hp->head_dim,
                                      .blocks = sliding && some < all ? some : all,
                                      .rows = z->block,
                                      .eps = hp->eps,
                                      .causal = hp->causal,
                                      .window = sliding ? hp->window : 0};
    return qw_layer_cache_plan(&g->cache, &g->shape, kv_bits, max_alloc,
                               "the drafter's cache", err);
}

static void size_buffers(struct sizes *z, const struct qw_draft_model *m,
                         const struct qw_model *target, const struct qw_dflash_params *p)
{
    const struct qw_draft_hparams *hp = &m->hp;
    const struct qw_mat *head = head_of(m, target);
    const uint64_t rows = u(z->rows), few = u(z->block), n = few - 1, E = u(hp->n_embd);
    const uint64_t heads = u(hp->n_head) * u(hp->head_dim);
    const uint64_t blocks = u(z->group[0].shape.blocks), k = u(m->max_k);
    const bool cut = p->draft.p_min > 0;
    uint64_t *b = z->bytes;
    b[X] = few * E * 4;
    b[Y] = rows * u(m->max_cols) * 4;
    b[G] = rows * E * 4;
    b[Q] = few * heads * (p->kv_bits == 8 ? 1 : 4);
    b[QSCALE] = few * heads / 32 * 4;
    b[ML] = few * u(hp->n_head) * blocks * 8;
    b[PO] = few * heads * blocks * 4;
    b[CS] = rows * u(hp->head_dim) * 4;
    b[PART] = cut ? n * ((u(head->cols) + QW_ARGMAX_CHUNK - 1) / QW_ARGMAX_CHUNK) * 8
                  : n * u(head->part[0].tiles) * 8;
    b[LOGITS] = cut ? n * u(head->cols) * 4 : 0;
    b[PROB] = n * 4;
    b[BEST] = n * 8;
    b[NEXT] = 4 * (QW_CYC_IDS + few);
    b[HEAD] = b[LATE] = 4 * QW_CYC_IDS;
    b[AQ] = rows * k;
    b[ASCALE] = b[ASUM] = rows * k / 32 * 4;
    b[AF] = rows * k * 4;
}

static int find_sizes(struct sizes *z, const struct qw_draft_model *m,
                      const struct qw_model *target, const struct qw_dflash_params *p,
                      uint64_t max_alloc, struct qw_err *err)
{
    const struct qw_draft_hparams *hp = &m->hp;
    int rc = QW_OK;
    *z = (struct sizes){.rows = p->rows + QW_TAP_BACKLOG, .block = p->draft.n_max + 1};
    z->positions = p->context + z->block;
    for (int s = 0; rc == QW_OK && s < 2; s++)
        rc = size_group(&z->group[s], hp, s == 1, z, p->kv_bits, max_alloc, err);
    if (rc != QW_OK)
        return rc;
    size_buffers(z, m, target, p);
    z->rope_page = (int)least(least(max_alloc, (uint64_t)1 << 31) / (u(hp->head_dim) * 4),
                              u(z->positions));
    z->n_rope = (z->positions + z->rope_page - 1) / z->rope_page;
    for (int i = 0; i < N_BUFFERS; i++) {
        z->total += z->bytes[i];
        if (z->bytes[i] > max_alloc)
            return qw_fail(err, QW_EDEVICE,
                           "%s: a buffer of %llu bytes, the device allows %llu: lower "
                           "batch.prefill or model.context",
                           buffer_name[i], (unsigned long long)z->bytes[i],
                           (unsigned long long)max_alloc);
    }
    z->total += u(z->n_rope) * u(z->rope_page) * u(hp->head_dim) * 4;
    for (int i = 0; i < hp->n_layer; i++)
        z->total += qw_layer_cache_bytes(&z->group[hp->sliding[i]].cache);
    return QW_OK;
}

int qw_dflash_bytes(uint64_t *bytes, const struct qw_draft_model *m,
                    const struct qw_model *target, const struct qw_dflash_params *p,
                    uint64_t max_alloc, struct qw_err *err)
{
    struct sizes z;
    int rc = find_sizes(&z, m, target, p, max_alloc, err);
    *bytes = z.total;
    return rc;
}

/* ---- plans ---- */

static int emit_rope(struct dflash *f, struct qw_plan *p, cl_mem cycle, int rows,
                     struct qw_err *err)
{
    int rc = QW_OK;
    for (int i = 0; rc == QW_OK && i < f->z.n_rope; i++)
        rc = qw_op_rope_rows(p, f->rope[i], cycle, f->m->hp.head_dim, i * f->z.rope_page,
                             (i + 1) * f->z.rope_page, f->b[CS], rows, err);
    return rc;
}

static struct qw_attn_shape shape_of(const struct dflash *f, int i)
{
    const struct qw_draft_layer *l = &f->m->layer[i];
    struct qw_attn_shape s = f->z.group[f->m->hp.sliding[i]].shape;
    s.kern = f->p.attn;
    s.q0 = l->q.col[0];
    s.k0 = l->kv.col[0];
    s.v0 = l->kv.col[1];
    s.ldy = l->q.cols + l->kv.cols;
    return s;
}

/* Features of the target's rows -> g -> keys and values of every layer. attn_norm has no
 * part in it, and nothing goes from layer to layer. */
static int emit_inject(struct dflash *f, struct qw_plan *p, cl_mem cycle, int rows,
                       struct qw_err *err)
{
    const struct qw_draft_hparams *hp = &f->m->hp;
    int want = 0;
    for (int i = 0; i < hp->n_layer; i++)
        want |= f->m->layer[i].kv.want;
    int rc = qw_op_matmul(p, &f->m->fc, qw_target_features(f->d.target), cycle, f->b[G],
                          hp->n_embd, false, rows, err);
    if (rc == QW_OK)
        rc = qw_op_norm(p, f->b[G], f->m->enc_norm, cycle, hp->n_embd, hp->eps, want,
                        &f->acts, rows, err);
    if (rc == QW_OK)
        rc = emit_rope(f, p, cycle, rows, err);
    for (int i = 0; rc == QW_OK && i < hp->n_layer; i++) {
        const struct qw_draft_layer *l = &f->m->layer[i];
        const struct qw_attn_shape s = shape_of(f, i);
        rc = qw_op_matmul(p, &l->kv, &f->acts, cycle, f->b[Y], s.ldy, false, rows, err);
        if (rc == QW_OK)
            rc = qw_op_kv(p, &s, l->k_norm, f->b[Y], f->b[CS], cycle, f->cache[i].page,
                          f->cache[i].n_pages, f->p.kv_bits, rows, err);
    }
    return rc;
}

/* x += W_o attention(x): bidirectional inside the block, in sliding layers too. */
static int emit_attention(struct dflash *f, int i, struct qw_err *err)
{
    struct qw_plan *p = &f->block;
    const struct qw_draft_hparams *hp = &f->m->hp;
    const struct qw_draft_layer *l = &f->m->layer[i];
    const struct qw_attn_shape s = shape_of(f, i);
    const struct qw_layer_cache *c = &f->cache[i];
    const int rows = f->z.block;
    cl_mem cycle = f->b[NEXT];
    int rc = qw_op_norm(p, f->b[X], l->attn_norm, cycle, hp->n_embd, hp->eps,
                        l->q.want | l->kv.want, &f->acts, rows, err);
    if (rc == QW_OK)
        rc = qw_op_matmul(p, &l->q, &f->acts, cycle, f->b[Y], s.ldy, false, rows, err);
    if (rc == QW_OK)
        rc = qw_op_matmul(p, &l->kv, &f->acts, cycle, f->b[Y], s.ldy, false, rows, err);
    if (rc == QW_OK)
        rc = qw_op_qk(p, &s, l->q_norm, l->k_norm, f->b[Y], f->b[CS], cycle, c->page,
                      c->n_pages, c->kv_bits, f->b[Q], f->b[QSCALE], rows, err);
    if (rc == QW_OK)
        rc = qw_op_attn(p, &s, f->b[Y], f->b[Q], f->b[QSCALE], cycle, c->page, c->n_pages,
                        c->kv_bits, f->b[ML], f->b[PO], l->out.want, &f->acts, rows, err);
    return rc == QW_OK ? qw_op_matmul(p, &l->out, &f->acts, cycle, f->b[X], hp->n_embd,
                                      true, rows, err)
                       : rc;
}

static int emit_ffn(struct dflash *f, int i, struct qw_err *err)
{
    const struct qw_draft_hparams *hp = &f->m->hp;
    const struct qw_draft_layer *l = &f->m->layer[i];
    const struct qw_layer_work w = {.cycle = f->b[NEXT],
                                    .x = f->b[X],
                                    .y = f->b[Y],
                                    .acts = f->acts,
                                    .n_embd = hp->n_embd,
                                    .n_ff = hp->n_ff,
                                    .eps = hp->eps};
    return qw_layer_ffn(&f->block, &w, l->ffn_norm, &l->gate_up, &l->down, f->z.block,
                        err);
}

/* Rows 1.. -> the draft block. Without p_min no logits are written. */
static int emit_head(struct dflash *f, struct qw_err *err)
{
    struct qw_plan *p = &f->block;
    const struct qw_mat *head = head_of(f->m, f->target);
    const int rows = f->d.n_max, n_vocab = head->rows[0];
    const bool cut = f->p.draft.p_min > 0;
    cl_mem cycle = f->b[HEAD];
    int rc = qw_op_norm(p, f->b[X], f->m->out_norm, cycle, f->m->hp.n_embd, f->m->hp.eps,
                        head->want, &f->acts, rows, err);
    if (rc == QW_OK && !cut)
        rc = qw_op_top(p, head, &f->acts, cycle, f->b[PART], f->b[BEST], rows, err);
    if (rc == QW_OK && cut)
        rc = qw_op_matmul(p, head, &f->acts, cycle, f->b[LOGITS], head->cols, false, rows,
                          err);
    if (rc == QW_OK && cut)
        rc = qw_op_argmax(p, f->b[LOGITS], cycle, n_vocab, head->cols, f->b[PART],
                          f->b[BEST], rows, err);
    if (rc == QW_OK && cut)
        rc = qw_op_top10(p, f->b[LOGITS], cycle, n_vocab, head->cols, f->b[PROB], rows,
                         err);
    return rc == QW_OK ? qw_op_draft_end(p, f->b[BEST], f->b[PROB], cycle,
                                         (float)f->p.draft.p_min, f->p.draft.n_min,
                                         qw_target_draft(f->d.target), err)
                       : rc;
}

static int emit_block(struct dflash *f, struct qw_err *err)
{
    struct qw_plan *p = &f->block;
    int rc = qw_op_embed(p, embed_of(f->m, f->target), embed_of(f->m, f->target)->rows[0],
                         f->b[NEXT], f->b[X], f->z.block, err);
    if (rc == QW_OK)
        rc = emit_rope(f, p, f->b[NEXT], f->z.block, err);
    for (int i = 0; rc == QW_OK && i < f->m->hp.n_layer; i++) {
        rc = emit_attention(f, i, err);
        if (rc == QW_OK)
            rc = emit_ffn(f, i, err);
    }
    return rc == QW_OK ? emit_head(f, err) : rc;
}

/* ---- running ---- */

/* Features that waited, in one batch. */
static int inject_waiting(struct dflash *f, struct qw_err *err)
{
    if (f->waiting == 0)
        return QW_OK;
    f->late[QW_CYC_ROWS] = f->waiting;
    f->late[QW_CYC_POS] = f->wait_pos;
    f->waiting = 0;
    qw_target_tap_row(f->d.target, 0);
    int rc = qw_dev_write(f->dev, f->b[LATE], 0, f->late, sizeof(f->late), false, err);
    return rc == QW_OK ? qw_plan_run(&f->inject_late, err) : rc;
}

static int observe(struct qw_drafter *base, int rows, int pos, bool later,
                   struct qw_err *err)
{
    struct dflash *f = (struct dflash *)base;
    if (f->waiting == 0 && !later)
        return qw_plan_run(rows <= f->z.block ? &f->inject_few : &f->inject_many, err);
    if (f->waiting == 0)
        f->wait_pos = pos;
    f->waiting += rows;
    qw_target_tap_row(base->target,
                      f->waiting < QW_TAP_BACKLOG ? f->waiting : QW_TAP_BACKLOG);
    return later && f->waiting < QW_TAP_BACKLOG ? QW_OK : inject_waiting(f, err);
}

static int propose(struct qw_drafter *base, const int32_t *id, size_t n, int *count,
                   struct qw_err *err)
{
    struct dflash *f = (struct dflash *)base;
    (void)id;
    (void)n;
    (void)count;
    int rc = inject_waiting(f, err);
    return rc == QW_OK ? qw_plan_run(&f->block, err) : rc;
}

static void rewind_dflash(struct qw_drafter *base, size_t pos)
{
    (void)pos; /* the cache is indexed by position */
    ((struct dflash *)base)->waiting = 0;
    qw_target_tap_row(base->target, 0);
}

cl_mem qw_dflash_logits(const struct qw_drafter *d, int *ld)
{
    const struct dflash *f = (const struct dflash *)d;
    *ld = head_of(f->m, f->target)->cols;
    return f->b[LOGITS];
}

/* ---- open and close ---- */

static void close_dflash(struct qw_drafter *base)
{
    struct dflash *f = (struct dflash *)base;
    clFinish(f->dev->queue);
    qw_plan_free(&f->inject_few);
    qw_plan_free(&f->inject_many);
    qw_plan_free(&f->inject_late);
    qw_plan_free(&f->block);
    for (int i = 0; i < N_BUFFERS; i++)
        qw_dev_release(f->dev, &f->b[i]);
    for (int i = 0; f->rope != NULL && i < f->z.n_rope; i++)
        qw_dev_release(f->dev, &f->rope[i]);
    for (int i = 0; f->cache != NULL && i < f->m->hp.n_layer; i++)
        qw_layer_cache_close(&f->cache[i], f->dev);
    free(f->cache);
    free(f->rope);
    free(f);
}

static int open_caches(struct dflash *f, struct qw_err *err)
{
    const struct qw_draft_hparams *hp = &f->m->hp;
    int rc = QW_OK;
    f->cache = qw_alloc((size_t)hp->n_layer, sizeof(*f->cache));
    for (int i = 0; rc == QW_OK && i < hp->n_layer; i++) {
        f->cache[i] = f->z.group[hp->sliding[i]].cache;
        rc = qw_layer_cache_open(&f->cache[i], f->dev, "draft K cache", "draft V cache",
                                 err);
    }
    return rc;
}

/* The blocks' parts that never change: rows, mask tokens. */
static int write_blocks(struct dflash *f, struct qw_err *err)
{
    int32_t next[QW_CYC_IDS + QW_MAX_DRAFT + 1] = {0}, head[QW_CYC_IDS] = {0};
    next[QW_CYC_ROWS] = f->z.block;
    for (int i = 0; i < f->z.block; i++)
        next[QW_CYC_IDS + i] = f->m->hp.mask_id;
    head[QW_CYC_ROWS] = f->d.n_max;
    head[QW_CYC_FIRST] = 1;
    int rc = qw_dev_write(f->dev, f->b[NEXT], 0, next, f->z.bytes[NEXT], true, err);
    return rc == QW_OK
               ? qw_dev_write(f->dev, f->b[HEAD], 0, head, sizeof(head), true, err)
               : rc;
}

static int record(struct dflash *f, struct qw_err *err)
{
    cl_mem cycle = qw_target_cycle(f->d.target);
    int rc = emit_inject(f, &f->inject_few, cycle, f->z.block, err);
    if (rc == QW_OK)
        rc = emit_inject(f, &f->inject_many, cycle, f->p.rows, err);
    if (rc == QW_OK)
        rc = emit_inject(f, &f->inject_late, f->b[LATE], f->z.rows, err);
    return rc == QW_OK ? emit_block(f, err) : rc;
}

static int settle(struct qw_drafter *base, struct qw_err *err)
{
    return inject_waiting((struct dflash *)base, err);
}

static struct qw_draft_part *parts(struct qw_drafter *base, int pos, int *n)
{
    const struct dflash *f = (const struct dflash *)base;
    struct qw_draft_part *p = qw_alloc((size_t)f->m->hp.n_layer, sizeof(*p));
    *n = f->m->hp.n_layer;
    for (int i = 0; i < *n; i++) {
        snprintf(p[i].name, sizeof(p[i].name), "dflash.kv.%d", i);
        p[i].span = qw_layer_cache_span(&f->cache[i],
                                        &f->z.group[f->m->hp.sliding[i]].shape, pos);
    }
    return p;
}

static void plans(const struct qw_drafter *base, struct qw_plan_list *out)
{
    const struct dflash *f = (const struct dflash *)base;
    qw_plan_list_add(out, "draft", &f->block);
    qw_plan_list_add(out, "inject", &f->inject_few);
}

static const struct qw_drafter_ops ops = {.name = "dflash",
                                          .observe = observe,
                                          .propose = propose,
                                          .rewind = rewind_dflash,
                                          .parts = parts,
                                          .settle = settle,
                                          .plans = plans,
                                          .close = close_dflash};

int qw_dflash_open(struct qw_drafter **out, const struct qw_draft_model *m,
                   const struct qw_model *target, struct qw_target *t,
                   const struct qw_dflash_params *p, struct qw_err *err)
{
    struct dflash *f = qw_alloc(1, sizeof(*f));
    struct qw_kern *k = qw_target_kern(t);
    assert(p->draft.n_max < m->hp.block_size && p->draft.n_max <= QW_MAX_DRAFT);
    f->d = (struct qw_drafter){.ops = &ops, .target = t, .n_max = p->draft.n_max};
    f->m = m;
    f->target = target;
    f->dev = k->dev;
    f->p = *p;
    qw_plan_init(&f->inject_few, k);
    qw_plan_init(&f->inject_many, k);
    qw_plan_init(&f->inject_late, k);
    qw_plan_init(&f->block, k);
    int rc = find_sizes(&f->z, m, target, p, k->dev->max_alloc, err);
    for (int i = 0; rc == QW_OK && i < N_BUFFERS; i++)
        if (f->z.bytes[i] > 0)
            rc = qw_dev_buffer(f->dev, f->z.bytes[i], buffer_name[i], &f->b[i], err);
    f->acts = (struct qw_acts){f->b[AQ], f->b[ASCALE], f->b[ASUM], f->b[AF]};
    f->d.next = f->b[NEXT];
    if (rc == QW_OK)
        rc = open_caches(f, err);
    if (rc == QW_OK)
        rc = qw_rope_table(f->dev, f->z.rope_page, f->z.n_rope, m->hp.head_dim,
                           m->hp.rope_base, &f->rope, err);
    if (rc == QW_OK)
        rc = write_blocks(f, err);
    if (rc == QW_OK)
        rc = record(f, err);
    if (rc != QW_OK)
        close_dflash(&f->d);
    else
        *out = &f->d;
    return rc;
}
