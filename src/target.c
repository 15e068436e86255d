/* SPDX-License-Identifier: MIT */
#include "target.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cycle.h"

/* Buffers of a step, shared by all plans: one allocation at open, none per token. */
struct work {
    cl_mem cycle, head_cycle;  /* blocks of cycle.h: the step's rows, the head's rows */
    cl_mem x;                  /* [rows][E] residual stream */
    cl_mem y;                  /* [rows][ld] products of sibling matrices */
    cl_mem c;                  /* [rows][2 kd + vd] after the convolution */
    cl_mem o;                  /* [rows][vd] scratch of qw_gdn */
    cl_mem q, qscale;          /* [rows][heads][hd] queries */
    cl_mem ml, po;             /* partial attention results */
    cl_mem cs;                 /* [rows][n_rot] cos and sin */
    cl_mem logits, part, best; /* [head rows][cols], argmax scratch, [head rows][2] */
    struct qw_acts acts;       /* [rows][max K] */
};

/* The size of every buffer above. A table of (size, buffer) drives both planning and
 * allocation. */
struct sizes {
    struct qw_state_sizes state;
    struct qw_attn_shape attn; /* columns are filled in layer by layer */
    int context, rows, head_rows, rope_page, n_rope;
    uint64_t bytes[17];
    struct qw_budget budget;
};
enum {
    CYCLE,
    HEAD_CYCLE,
    X,
    Y,
    C,
    O,
    Q,
    QSCALE,
    ML,
    PO,
    CS,
    LOGITS,
    PART,
    BEST,
    AQ,
    ASCALE,
    ASUM
};
static const char *const work_name[] = {
    "cycle block",      "head block",     "residual rows",    "products",
    "convolution rows", "GDN rows",       "queries",          "query scales",
    "attention sums",   "attention rows", "rope rows",        "logits",
    "argmax parts",     "argmax",         "int8 activations", "activation scales",
    "activation sums"};
enum { N_WORK = 17 };

struct qw_target {
    struct qw_model *m;
    struct qw_kern *kern;
    struct qw_state *state;
    struct sizes z;
    struct work w;
    cl_mem float_acts;
    cl_mem *rope; /* pages of the cos/sin table */
    struct qw_plan one, many, head;
    int32_t *control; /* host side of the cycle block; lives until the next wait */
    int32_t head_control[QW_CYC_IDS];
    int32_t *best; /* [head_rows][2] read back */
    int head_live;
    bool all_logits;
};

static uint64_t u(int n)
{
    return (uint64_t)n;
}

/* Sizes at a given number of prefill rows. */
static void size_work(struct sizes *z, const struct qw_model *m,
                      const struct qw_target_params *p, int rows, uint64_t max_alloc)
{
    const struct qw_hparams *hp = &m->hp;
    const uint64_t width = u(2 * hp->ssm_nk + hp->ssm_nv) * u(hp->ssm_dk);
    const uint64_t heads = u(hp->n_head) * u(hp->head_dim);
    const uint64_t k = u(m->max_k), head_cols = u(qw_model_head(m)->cols);
    const uint64_t per_row = heads * u(z->attn.blocks) * 4;
    const uint64_t room = max_alloc < (uint64_t)32 << 20 ? max_alloc : (uint64_t)32 << 20;
    uint64_t *b = z->bytes, fit = room / per_row;
    z->rows = rows;
    z->head_rows = p->all_logits ? rows : 1;
    z->attn.rows = fit < 1 ? 1 : fit < u(rows) ? (int)fit : rows;
    b[CYCLE] = 4 * u(QW_CYC_IDS + rows);
    b[HEAD_CYCLE] = 4 * QW_CYC_IDS;
    b[X] = u(rows) * u(hp->n_embd) * 4;
    b[Y] = u(rows) * u(m->max_cols) * 4;
    b[C] = u(rows) * width * 4;
    b[O] = u(rows) * u(hp->ssm_nv) * u(hp->ssm_dk) * 4;
    b[Q] = u(rows) * heads * (p->kv_bits == 8 ? 1 : 4);
    b[QSCALE] = u(rows) * heads / 32 * 4;
    b[ML] = u(z->attn.rows) * u(hp->n_head) * u(z->attn.blocks) * 8;
    b[PO] = u(z->attn.rows) * per_row;
    b[CS] = u(rows) * u(hp->n_rot) * 4;
    b[LOGITS] = u(z->head_rows) * head_cols * 4;
    b[PART] = u(z->head_rows) * ((head_cols + QW_ARGMAX_CHUNK - 1) / QW_ARGMAX_CHUNK) * 8;
    b[BEST] = u(z->head_rows) * 8;
    b[AQ] = u(rows) * k * 2;
    b[ASCALE] = b[ASUM] = u(rows) * k / 32 * 4;
}

static uint64_t float_acts_bytes(const struct sizes *z, const struct qw_model *m)
{
    return u(z->rows) * u(m->max_k) * 4;
}

static uint64_t largest(const struct sizes *z, const struct qw_model *m)
{
    uint64_t most = float_acts_bytes(z, m);
    for (int i = 0; i < N_WORK; i++)
        most = z->bytes[i] > most ? z->bytes[i] : most;
    return most;
}

static void attn_shape(struct qw_attn_shape *a, const struct qw_hparams *hp, int context)
{
    *a = (struct qw_attn_shape){.heads = hp->n_head,
                                .kv_heads = hp->n_head_kv,
                                .hd = hp->head_dim,
                                .n_rot = hp->n_rot,
                                .blocks = context / QW_ATTN_BLOCK,
                                .eps = hp->eps};
}

static int plan_sizes(struct sizes *z, const struct qw_model *m,
                      const struct qw_target_params *p, uint64_t max_alloc,
                      struct qw_err *err)
{
    const struct qw_hparams *hp = &m->hp;
    *z = (struct sizes){0};
    z->context = (p->context + QW_ATTN_BLOCK - 1) / QW_ATTN_BLOCK * QW_ATTN_BLOCK;
    attn_shape(&z->attn, hp, z->context);
    int rc =
        qw_state_plan(&z->state, hp, &z->attn, z->context, p->kv_bits, max_alloc, err);
    if (rc != QW_OK)
        return rc;
    int rows = p->prefill < p->context ? p->prefill : p->context;
    for (size_work(z, m, p, rows, max_alloc); largest(z, m) > max_alloc && rows > 1;)
        size_work(z, m, p, rows = (rows + 1) / 2, max_alloc);
    if (largest(z, m) > max_alloc)
        return qw_fail(
            err, QW_EDEVICE,
            "one row needs a buffer of %llu bytes, the device allows %llu: lower "
            "model.context",
            (unsigned long long)largest(z, m), (unsigned long long)max_alloc);
    const uint64_t limit = max_alloc < (uint64_t)1 << 31 ? max_alloc : (uint64_t)1 << 31;
    const uint64_t fit = limit / (u(hp->n_rot) * 4);
    z->rope_page = fit < u(z->context) ? (int)fit : z->context;
    z->n_rope = (z->context + z->rope_page - 1) / z->rope_page;
    struct qw_budget *b = &z->budget;
    b->context = p->context;
    b->prefill = z->rows;
    b->n_pages = z->state.n_pages;
    b->weights = m->bytes;
    b->kv = z->state.kv;
    b->gdn = z->state.gdn;
    b->conv = z->state.conv;
    b->attention = z->bytes[ML] + z->bytes[PO];
    b->logits = z->bytes[LOGITS] + z->bytes[PART] + z->bytes[BEST];
    b->rope = u(z->n_rope) * u(z->rope_page) * u(hp->n_rot) * 4 + z->bytes[CS];
    b->control = z->bytes[CYCLE] + z->bytes[HEAD_CYCLE];
    b->activations = z->bytes[X] + z->bytes[Y] + z->bytes[C] + z->bytes[O] + z->bytes[Q] +
                     z->bytes[QSCALE] + z->bytes[AQ] + z->bytes[ASCALE] + z->bytes[ASUM] +
                     float_acts_bytes(z, m);
    b->total = b->weights + b->kv + b->gdn + b->conv + b->attention + b->logits +
               b->rope + b->control + b->activations;
    return QW_OK;
}

int qw_target_plan(struct qw_budget *b, const struct qw_model *m,
                   const struct qw_target_params *p, uint64_t max_alloc,
                   struct qw_err *err)
{
    struct sizes z;
    int rc = plan_sizes(&z, m, p, max_alloc, err);
    *b = z.budget;
    return rc;
}

int qw_target_largest_context(const struct qw_model *m, const struct qw_target_params *p,
                              uint64_t max_alloc, uint64_t free_bytes)
{
    struct qw_target_params q = *p;
    struct qw_budget b;
    struct qw_err err;
    int low = 0, high = m->hp.n_ctx_train / QW_ATTN_BLOCK;
    while (low < high) { /* budgets grow with the context */
        const int mid = low + (high - low + 1) / 2;
        q.context = mid * QW_ATTN_BLOCK;
        if (qw_target_plan(&b, m, &q, max_alloc, &err) == QW_OK && b.total <= free_bytes)
            low = mid;
        else
            high = mid - 1;
    }
    return low * QW_ATTN_BLOCK;
}

/* ---- the forward pass ---- */

/* x += GDN(x): norm and round once, the sibling products, convolution, delta rule, out
 * product. */
static int emit_gdn(struct qw_target *t, struct qw_plan *p, int i, int rows,
                    struct qw_err *err)
{
    const struct qw_layer *l = &t->m->layer[i];
    const struct qw_hparams *hp = &t->m->hp;
    const struct work *w = &t->w;
    const struct qw_gdn_shape s = {.nk = hp->ssm_nk,
                                   .nv = hp->ssm_nv,
                                   .dk = hp->ssm_dk,
                                   .taps = hp->ssm_conv,
                                   .z0 = l->in.col[1],
                                   .a0 = l->in.col[2],
                                   .b0 = l->in.col[3],
                                   .ldu = l->in.cols,
                                   .eps = hp->eps};
    cl_mem S = t->state->S[i], ring = t->state->ring[i];
    int rc = qw_op_norm(p, w->x, l->attn_norm, w->cycle, hp->n_embd, hp->eps, l->in.want,
                        &w->acts, rows, err);
    if (rc == QW_OK)
        rc = qw_op_matmul(p, &l->in, &w->acts, w->cycle, w->y, l->in.cols, false, rows,
                          err);
    if (rc == QW_OK)
        rc = qw_op_conv(p, &s, w->y, ring, l->conv, w->cycle, w->c, rows, err);
    if (rc == QW_OK)
        rc = qw_op_gdn(p, &s, l, w->c, w->y, S, ring, w->cycle, l->out.want, w->o,
                       &w->acts, err);
    return rc == QW_OK ? qw_op_matmul(p, &l->out, &w->acts, w->cycle, w->x, hp->n_embd,
                                      true, rows, err)
                       : rc;
}

/* x += ATTN(x) */
static int emit_attn(struct qw_target *t, struct qw_plan *p, int i, int rows,
                     struct qw_err *err)
{
    const struct qw_layer *l = &t->m->layer[i];
    const struct qw_hparams *hp = &t->m->hp;
    const struct work *w = &t->w;
    struct qw_attn_shape s = t->z.attn;
    const struct qw_kv_page *page = &t->state->page[i * t->state->n_pages];
    const int pages = t->state->n_pages, bits = t->state->kv_bits;
    s.q0 = l->in.col[0];
    s.k0 = l->in.col[1];
    s.v0 = l->in.col[2];
    s.ldy = l->in.cols;
    int rc = qw_op_norm(p, w->x, l->attn_norm, w->cycle, hp->n_embd, hp->eps, l->in.want,
                        &w->acts, rows, err);
    if (rc == QW_OK)
        rc = qw_op_matmul(p, &l->in, &w->acts, w->cycle, w->y, l->in.cols, false, rows,
                          err);
    if (rc == QW_OK)
        rc = qw_op_qk(p, &s, l, w->y, w->cs, w->cycle, page, pages, bits, w->q, w->qscale,
                      rows, err);
    if (rc == QW_OK)
        rc = qw_op_attn(p, &s, w->y, w->q, w->qscale, w->cycle, page, pages, bits, w->ml,
                        w->po, l->out.want, &w->acts, rows, err);
    return rc == QW_OK ? qw_op_matmul(p, &l->out, &w->acts, w->cycle, w->x, hp->n_embd,
                                      true, rows, err)
                       : rc;
}

/* x += W_down(silu(W_gate g) * (W_up g)), g = RMS(x) */
static int emit_ffn(struct qw_target *t, struct qw_plan *p, int i, int rows,
                    struct qw_err *err)
{
    const struct qw_layer *l = &t->m->layer[i];
    const struct qw_hparams *hp = &t->m->hp;
    const struct work *w = &t->w;
    int rc = qw_op_norm(p, w->x, l->post_norm, w->cycle, hp->n_embd, hp->eps,
                        l->gate_up.want, &w->acts, rows, err);
    if (rc == QW_OK)
        rc = qw_op_matmul(p, &l->gate_up, &w->acts, w->cycle, w->y, l->gate_up.cols,
                          false, rows, err);
    if (rc == QW_OK)
        rc = qw_op_swiglu(p, w->y, w->cycle, hp->n_ff, l->gate_up.cols, l->gate_up.col[0],
                          l->gate_up.col[1], l->down.want, &w->acts, rows, err);
    return rc == QW_OK ? qw_op_matmul(p, &l->down, &w->acts, w->cycle, w->x, hp->n_embd,
                                      true, rows, err)
                       : rc;
}

/* ids -> x: the trunk for `rows` rows. */
static int emit_trunk(struct qw_target *t, struct qw_plan *p, int rows,
                      struct qw_err *err)
{
    const struct qw_hparams *hp = &t->m->hp;
    const struct work *w = &t->w;
    int rc = qw_op_embed(p, &t->m->embed, hp->n_vocab, w->cycle, w->x, rows, err);
    for (int i = 0; rc == QW_OK && i < t->z.n_rope; i++)
        rc = qw_op_rope_rows(p, t->rope[i], w->cycle, hp->n_rot, i * t->z.rope_page,
                             (i + 1) * t->z.rope_page, w->cs, rows, err);
    for (int i = 0; rc == QW_OK && i < hp->n_layer; i++) {
        rc = hp->full[i] ? emit_attn(t, p, i, rows, err) : emit_gdn(t, p, i, rows, err);
        if (rc == QW_OK)
            rc = emit_ffn(t, p, i, rows, err);
    }
    return rc;
}

/* x -> logits, argmax, for the head block's rows. Hidden rows are kept as floats when all
 * logits are asked for. */
static int emit_head(struct qw_target *t, struct qw_plan *p, int rows, struct qw_err *err)
{
    const struct qw_hparams *hp = &t->m->hp;
    const struct qw_mat *head = qw_model_head(t->m);
    const struct work *w = &t->w;
    int rc = qw_op_norm(p, w->x, t->m->out_norm, w->head_cycle, hp->n_embd, hp->eps,
                        head->want | (t->all_logits ? 2 : 0), &w->acts, rows, err);
    if (rc == QW_OK)
        rc = qw_op_matmul(p, head, &w->acts, w->head_cycle, w->logits, head->cols, false,
                          rows, err);
    return rc == QW_OK ? qw_op_argmax(p, w->logits, w->head_cycle, hp->n_vocab,
                                      head->cols, w->part, w->best, rows, err)
                       : rc;
}

/* ---- open and close ---- */

void qw_rope_row(float *cs, int pos, int n_rot, float base)
{
    const int half = n_rot / 2;
    const float step = powf(base, -2.0f / (float)n_rot);
    float angle = (float)pos;
    for (int k = 0; k < half; k++, angle *= step) {
        cs[k] = cosf(angle);
        cs[half + k] = sinf(angle);
    }
}

static int fill_rope(struct qw_target *t, struct qw_err *err)
{
    const struct qw_hparams *hp = &t->m->hp;
    const int page = t->z.rope_page;
    const uint64_t size = u(page) * u(hp->n_rot) * 4;
    float *row = qw_alloc(size, 1);
    int rc = QW_OK;
    t->rope = qw_alloc((size_t)t->z.n_rope, sizeof(cl_mem));
    for (int i = 0; rc == QW_OK && i < t->z.n_rope; i++) {
        for (int r = 0; r < page; r++)
            qw_rope_row(row + (size_t)r * (size_t)hp->n_rot, i * page + r, hp->n_rot,
                        hp->rope_base);
        rc = qw_dev_buffer_raw(t->kern->dev, size, "rope table", &t->rope[i], err);
        if (rc == QW_OK)
            rc = qw_dev_write(t->kern->dev, t->rope[i], 0, row, size, true, err);
    }
    free(row);
    return rc;
}

static void work_slots(struct qw_target *t, cl_mem *slot[N_WORK])
{
    struct work *w = &t->w;
    cl_mem *all[N_WORK] = {
        &w->cycle, &w->head_cycle, &w->x,      &w->y,          &w->c,       &w->o,
        &w->q,     &w->qscale,     &w->ml,     &w->po,         &w->cs,      &w->logits,
        &w->part,  &w->best,       &w->acts.q, &w->acts.scale, &w->acts.sum};
    memcpy(slot, all, sizeof(all));
}

static int open_work(struct qw_target *t, struct qw_err *err)
{
    cl_mem *slot[N_WORK];
    int rc = QW_OK;
    work_slots(t, slot);
    for (int i = 0; rc == QW_OK && i < N_WORK; i++)
        rc = qw_dev_buffer(t->kern->dev, t->z.bytes[i], work_name[i], slot[i], err);
    if (rc == QW_OK)
        rc = qw_dev_buffer(t->kern->dev, float_acts_bytes(&t->z, t->m),
                           "float activations", &t->w.acts.f, err);
    return rc;
}

static int refuse_too_large(const struct sizes *z, const struct qw_model *m,
                            const struct qw_target_params *p, const struct qw_dev *dev,
                            struct qw_err *err)
{
    const uint64_t loaded = m->dev != NULL ? m->bytes : 0,
                   need = z->budget.total - loaded;
    if (need <= qw_dev_free_bytes(dev))
        return QW_OK;
    return qw_fail(
        err, QW_EDEVICE,
        "%s has too little memory: %llu bytes needed, %llu free; lower model.context "
        "(largest that fits: %d), batch.prefill, kv.target = q8_0%s",
        dev->name, (unsigned long long)need, (unsigned long long)qw_dev_free_bytes(dev),
        qw_target_largest_context(m, p, dev->max_alloc, qw_dev_free_bytes(dev) + loaded),
        dev->reserve ? ", device.memory_reserve" : "");
}

int qw_target_fits(const struct qw_model *m, const struct qw_target_params *p,
                   const struct qw_dev *dev, struct qw_err *err)
{
    struct sizes z;
    int rc = plan_sizes(&z, m, p, dev->max_alloc, err);
    return rc == QW_OK ? refuse_too_large(&z, m, p, dev, err) : rc;
}

int qw_target_open(struct qw_target **out, struct qw_model *m, struct qw_kern *k,
                   const struct qw_target_params *p, struct qw_err *err)
{
    struct qw_target *t = qw_alloc(1, sizeof(*t));
    t->m = m;
    t->kern = k;
    t->all_logits = p->all_logits;
    qw_plan_init(&t->one, k);
    qw_plan_init(&t->many, k);
    qw_plan_init(&t->head, k);
    int rc = plan_sizes(&t->z, m, p, k->dev->max_alloc, err);
    if (rc == QW_OK)
        rc = refuse_too_large(&t->z, m, p, k->dev, err);
    if (rc == QW_OK)
        rc = qw_state_open(&t->state, k->dev, &m->hp, &t->z.attn, t->z.context,
                           p->kv_bits, err);
    if (rc == QW_OK)
        rc = open_work(t, err);
    if (rc == QW_OK)
        rc = fill_rope(t, err);
    if (rc == QW_OK)
        rc = emit_trunk(t, &t->one, 1, err);
    if (rc == QW_OK && t->z.rows > 1)
        rc = emit_trunk(t, &t->many, t->z.rows, err);
    if (rc == QW_OK)
        rc = emit_head(t, &t->head, t->z.head_rows, err);
    t->control = qw_alloc((size_t)(QW_CYC_IDS + t->z.rows), sizeof(int32_t));
    t->best = qw_alloc((size_t)t->z.head_rows, 2 * sizeof(int32_t));
    if (rc != QW_OK)
        qw_target_close(t);
    else
        *out = t;
    return rc;
}

void qw_target_close(struct qw_target *t)
{
    if (t == NULL)
        return;
    clFinish(t->kern->dev->queue); /* nothing may still read what is freed now */
    cl_mem *slot[N_WORK];
    work_slots(t, slot);
    for (int i = 0; i < N_WORK; i++)
        qw_dev_release(t->kern->dev, slot[i]);
    qw_dev_release(t->kern->dev, &t->w.acts.f);
    for (int i = 0; t->rope != NULL && i < t->z.n_rope; i++)
        qw_dev_release(t->kern->dev, &t->rope[i]);
    qw_plan_free(&t->one);
    qw_plan_free(&t->many);
    qw_plan_free(&t->head);
    qw_state_close(t->state);
    free(t->rope);
    free(t->control);
    free(t->best);
    free(t);
}

struct qw_state *qw_target_state(struct qw_target *t)
{
    return t->state;
}

int qw_target_prefill_rows(const struct qw_target *t)
{
    return t->z.rows;
}

/* ---- running ---- */

int qw_target_forward(struct qw_target *t, const int32_t *id, int n, bool head,
                      struct qw_err *err)
{
    struct qw_dev *dev = t->kern->dev;
    if (n < 1 || n > t->z.rows || t->state->pos + n > t->z.budget.context)
        return qw_fail(err, QW_EUSAGE,
                       "%d rows at position %d do not fit a context of %d", n,
                       t->state->pos, t->z.budget.context);
    t->control[QW_CYC_ROWS] = n;
    t->control[QW_CYC_POS] = t->state->pos;
    t->control[QW_CYC_FIRST] = 0;
    memcpy(t->control + QW_CYC_IDS, id, (size_t)n * sizeof(*id));
    int rc =
        qw_dev_write(dev, t->w.cycle, 0, t->control, 4 * u(QW_CYC_IDS + n), false, err);
    if (rc == QW_OK)
        rc = qw_plan_run(n == 1 ? &t->one : &t->many, err);
    if (rc == QW_OK && head) {
        t->head_live = t->all_logits ? n : 1;
        t->head_control[QW_CYC_ROWS] = t->head_live;
        t->head_control[QW_CYC_POS] = t->state->pos;
        t->head_control[QW_CYC_FIRST] = n - t->head_live;
        rc = qw_dev_write(dev, t->w.head_cycle, 0, t->head_control,
                          sizeof(t->head_control), false, err);
        if (rc == QW_OK)
            rc = qw_plan_run(&t->head, err);
    }
    if (rc == QW_OK)
        qw_state_commit(t->state, n);
    return rc;
}

int qw_target_read_argmax(struct qw_target *t, int32_t *id, int rows, struct qw_err *err)
{
    int rc = qw_dev_read(t->kern->dev, t->w.best, 0, t->best, 8 * u(rows), err);
    for (int r = 0; rc == QW_OK && r < rows; r++) {
        if (t->best[2 * r + 1] != 1)
            rc = qw_fail(err, QW_EDEVICE,
                         "%s gave logits that are not finite at position %d",
                         t->kern->dev->name, t->state->pos - rows + r);
        id[r] = t->best[2 * r];
    }
    return rc;
}

int qw_target_read_logits(struct qw_target *t, float *logits, int rows,
                          struct qw_err *err)
{
    const uint64_t n = u(t->m->hp.n_vocab), ld = u(qw_model_head(t->m)->cols);
    int rc = QW_OK;
    for (int r = 0; rc == QW_OK && r < rows; r++)
        rc = qw_dev_read(t->kern->dev, t->w.logits, u(r) * ld * 4, logits + u(r) * n,
                         n * 4, err);
    return rc;
}

int qw_target_read_hidden(struct qw_target *t, float *hidden, int rows,
                          struct qw_err *err)
{
    return qw_dev_read(t->kern->dev, t->w.acts.f, 0, hidden,
                       u(rows) * u(t->m->hp.n_embd) * 4, err);
}

int qw_target_wait(struct qw_target *t, struct qw_err *err)
{
    return qw_dev_finish(t->kern->dev, err);
}
