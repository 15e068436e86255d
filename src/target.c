/* SPDX-License-Identifier: MIT */
#include "target.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cycle.h"
#include "layer.h"
#include "target_size.h"

static const char *const work_name[N_WORK] = {[CYCLE] = "cycle block",
                                              [HEAD_CYCLE] = "head block",
                                              [DRAFT] = "draft block",
                                              [X] = "residual rows",
                                              [Y] = "products",
                                              [C] = "convolution rows",
                                              [O] = "GDN rows",
                                              [SPEC_S] = "GDN state of rows not certain",
                                              [Q] = "queries",
                                              [QSCALE] = "query scales",
                                              [ML] = "attention sums",
                                              [PO] = "attention rows",
                                              [CS] = "rope rows",
                                              [LOGITS] = "logits",
                                              [PART] = "argmax parts",
                                              [BEST] = "argmax",
                                              [AQ] = "int8 activations",
                                              [ASCALE] = "activation scales",
                                              [ASUM] = "activation sums",
                                              [AF] = "float activations",
                                              [FQ] = "int8 features",
                                              [FSCALE] = "feature scales",
                                              [FSUM] = "feature sums",
                                              [FF] = "float features",
                                              [HIDDEN] = "hidden rows"};

struct qw_target {
    struct qw_model *m;
    struct qw_kern *kern;
    struct qw_state *state;
    struct target_sizes z;
    struct qw_target_params p;
    cl_mem w[N_WORK]; /* one allocation at open, none per token */
    struct qw_acts acts, features;
    struct qw_layer_work work;
    cl_mem *rope; /* pages of the cos/sin table */
    struct qw_plan one, many, head, verify;
    int32_t *control; /* host side of the cycle block; lives until the next wait */
    int32_t head_control[QW_CYC_IDS];
    int32_t *best; /* [head_rows][2] read back */
    int head_live;
    int tap_row;
    int pending; /* rows of a verify step not yet committed */
};

static uint64_t u(int n)
{
    return (uint64_t)n;
}

/* ---- the forward pass ---- */

/* x += GDN(x): norm and round once, the sibling products, convolution, delta rule, out
 * product. */
static int emit_gdn(struct qw_target *t, struct qw_plan *p, int i, int rows,
                    struct qw_err *err)
{
    const struct qw_layer *l = &t->m->layer[i];
    const struct qw_hparams *hp = &t->m->hp;
    const struct qw_gdn_shape s = {.nk = hp->ssm_nk,
                                   .nv = hp->ssm_nv,
                                   .dk = hp->ssm_dk,
                                   .taps = hp->ssm_conv,
                                   .z0 = l->in.col[1],
                                   .a0 = l->in.col[2],
                                   .b0 = l->in.col[3],
                                   .ldu = l->in.cols,
                                   .eps = hp->eps};
    const struct qw_gdn_state state = {.S = t->state->S[i],
                                       .X = t->w[SPEC_S],
                                       .tape = t->state->tape[i],
                                       .ring = t->state->ring[i]};
    int rc = qw_op_norm(p, t->w[X], l->attn_norm, t->w[CYCLE], hp->n_embd, hp->eps,
                        l->in.want, &t->acts, rows, err);
    if (rc == QW_OK)
        rc = qw_op_matmul(p, &l->in, &t->acts, t->w[CYCLE], t->w[Y], l->in.cols, false,
                          rows, err);
    if (rc == QW_OK)
        rc = qw_op_conv(p, &s, t->w[Y], state.ring, l->conv, t->w[CYCLE], t->w[C], rows,
                        err);
    if (rc == QW_OK)
        rc = qw_op_gdn(p, &s, l, t->w[C], t->w[Y], &state, t->w[CYCLE], l->out.want,
                       t->w[O], &t->acts, rows, err);
    return rc == QW_OK ? qw_op_matmul(p, &l->out, &t->acts, t->w[CYCLE], t->w[X],
                                      hp->n_embd, true, rows, err)
                       : rc;
}

/* x += ATTN(x) */
static int emit_attn(struct qw_target *t, struct qw_plan *p, int i, int rows,
                     struct qw_err *err)
{
    const struct qw_state *s = t->state;
    const struct qw_layer_cache cache = {
        .kv_bits = s->kv_bits, .n_pages = s->n_pages, .page = &s->page[i * s->n_pages]};
    return qw_layer_attn(p, &t->work, &t->m->layer[i], &t->z.attn, &cache, rows, err);
}

static int emit_ffn(struct qw_target *t, struct qw_plan *p, int i, int rows,
                    struct qw_err *err)
{
    const struct qw_layer *l = &t->m->layer[i];
    return qw_layer_ffn(p, &t->work, l->post_norm, &l->gate_up, &l->down, rows, err);
}

/* Residual rows as they enter layer i become features. */
static int emit_taps(struct qw_target *t, struct qw_plan *p, int i, int rows,
                     struct qw_err *err)
{
    const int E = t->m->hp.n_embd;
    int rc = QW_OK;
    for (int k = 0; rc == QW_OK && k < t->p.n_taps; k++)
        if (t->p.tap[k] == i)
            rc = qw_op_tap(p, t->w[X], t->w[CYCLE], E, k * E, t->p.n_taps * E,
                           t->p.tap_want, &t->features, rows, err);
    return rc;
}

/* ids -> x: the trunk for `rows` rows. */
static int emit_trunk(struct qw_target *t, struct qw_plan *p, int rows,
                      struct qw_err *err)
{
    const struct qw_hparams *hp = &t->m->hp;
    const struct qw_acts hidden = {
        .q = t->acts.q, .scale = t->acts.scale, .sum = t->acts.sum, .f = t->w[HIDDEN]};
    int rc = qw_op_embed(p, &t->m->embed, hp->n_vocab, t->w[CYCLE], t->w[X], rows, err);
    for (int i = 0; rc == QW_OK && i < t->z.n_rope; i++)
        rc = qw_op_rope_rows(p, t->rope[i], t->w[CYCLE], hp->n_rot, i * t->z.rope_page,
                             (i + 1) * t->z.rope_page, t->w[CS], rows, err);
    for (int i = 0; rc == QW_OK && i < hp->n_layer; i++) {
        rc = emit_taps(t, p, i, rows, err);
        if (rc == QW_OK)
            rc = hp->full[i] ? emit_attn(t, p, i, rows, err)
                             : emit_gdn(t, p, i, rows, err);
        if (rc == QW_OK)
            rc = emit_ffn(t, p, i, rows, err);
    }
    if (rc == QW_OK)
        rc = emit_taps(t, p, hp->n_layer, rows, err);
    return rc == QW_OK && t->p.hidden
               ? qw_op_norm(p, t->w[X], t->m->out_norm, t->w[CYCLE], hp->n_embd, hp->eps,
                            2, &hidden, rows, err)
               : rc;
}

/* x -> logits, argmax, for the head block's rows. Hidden rows are kept as floats when all
 * logits are asked for. */
static int emit_head(struct qw_target *t, struct qw_plan *p, int rows, struct qw_err *err)
{
    const struct qw_hparams *hp = &t->m->hp;
    const struct qw_mat *head = qw_model_head(t->m);
    cl_mem cycle = t->w[HEAD_CYCLE];
    int rc = qw_op_norm(p, t->w[X], t->m->out_norm, cycle, hp->n_embd, hp->eps,
                        head->want | (t->p.all_logits ? 2 : 0), &t->acts, rows, err);
    if (rc == QW_OK)
        rc = qw_op_matmul(p, head, &t->acts, cycle, t->w[LOGITS], head->cols, false, rows,
                          err);
    return rc == QW_OK ? qw_op_argmax(p, t->w[LOGITS], cycle, hp->n_vocab, head->cols,
                                      t->w[PART], t->w[BEST], rows, err)
                       : rc;
}

static int emit_verify(struct qw_target *t, struct qw_err *err)
{
    struct qw_plan *p = &t->verify;
    int rc = qw_op_verify_begin(p, t->w[DRAFT], t->w[CYCLE], t->w[HEAD_CYCLE], err);
    if (rc == QW_OK)
        rc = emit_trunk(t, p, t->z.verify, err);
    return rc == QW_OK ? emit_head(t, p, t->z.verify, err) : rc;
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

int qw_rope_table(struct qw_dev *dev, int page, int n_pages, int n_rot, float base,
                  cl_mem **out, struct qw_err *err)
{
    const uint64_t size = u(page) * u(n_rot) * 4;
    float *row = qw_alloc(size, 1);
    cl_mem *table = *out = qw_alloc((size_t)n_pages, sizeof(cl_mem));
    int rc = QW_OK;
    for (int i = 0; rc == QW_OK && i < n_pages; i++) {
        for (int r = 0; r < page; r++)
            qw_rope_row(row + (size_t)r * (size_t)n_rot, i * page + r, n_rot, base);
        rc = qw_dev_buffer_raw(dev, size, "rope table", &table[i], err);
        if (rc == QW_OK)
            rc = qw_dev_write(dev, table[i], 0, row, size, true, err);
    }
    free(row);
    return rc;
}

static int open_work(struct qw_target *t, struct qw_err *err)
{
    int rc = QW_OK;
    for (int i = 0; rc == QW_OK && i < N_WORK; i++)
        if (t->z.bytes[i] > 0)
            rc = qw_dev_buffer(t->kern->dev, t->z.bytes[i], work_name[i], &t->w[i], err);
    t->acts = (struct qw_acts){t->w[AQ], t->w[ASCALE], t->w[ASUM], t->w[AF]};
    t->features = (struct qw_acts){t->w[FQ], t->w[FSCALE], t->w[FSUM], t->w[FF]};
    t->work = (struct qw_layer_work){.cycle = t->w[CYCLE],
                                     .x = t->w[X],
                                     .y = t->w[Y],
                                     .cs = t->w[CS],
                                     .q = t->w[Q],
                                     .qscale = t->w[QSCALE],
                                     .ml = t->w[ML],
                                     .po = t->w[PO],
                                     .acts = t->acts,
                                     .n_embd = t->m->hp.n_embd,
                                     .n_ff = t->m->hp.n_ff,
                                     .eps = t->m->hp.eps};
    t->control = qw_alloc((size_t)(QW_CYC_IDS + t->z.rows), sizeof(int32_t));
    t->best = qw_alloc((size_t)t->z.head_rows, 2 * sizeof(int32_t));
    return rc;
}

static int record(struct qw_target *t, struct qw_err *err)
{
    int rc = emit_trunk(t, &t->one, 1, err);
    if (rc == QW_OK && t->z.prefill > 1)
        rc = emit_trunk(t, &t->many, t->z.prefill, err);
    if (rc == QW_OK)
        rc = emit_head(t, &t->head, t->p.all_logits ? t->z.head_rows : 1, err);
    return rc == QW_OK && t->z.verify > 1 ? emit_verify(t, err) : rc;
}

int qw_target_open(struct qw_target **out, struct qw_model *m, struct qw_kern *k,
                   const struct qw_target_params *p, struct qw_err *err)
{
    struct qw_target *t = qw_alloc(1, sizeof(*t));
    assert(p->verify <= QW_MAX_DRAFT + 1);
    t->m = m;
    t->kern = k;
    t->p = *p;
    qw_plan_init(&t->one, k);
    qw_plan_init(&t->many, k);
    qw_plan_init(&t->head, k);
    qw_plan_init(&t->verify, k);
    int rc = target_sizes(&t->z, m, p, k->dev->max_alloc, err);
    if (rc == QW_OK)
        rc = target_refuse(&t->z, m, p, k->dev, err);
    if (rc == QW_OK)
        rc = qw_state_open(&t->state, k->dev, &m->hp, &t->z.attn, t->z.context,
                           p->kv_bits, err);
    if (rc == QW_OK)
        rc = open_work(t, err);
    if (rc == QW_OK)
        rc = qw_rope_table(k->dev, t->z.rope_page, t->z.n_rope, m->hp.n_rot,
                           m->hp.rope_base, &t->rope, err);
    if (rc == QW_OK)
        rc = record(t, err);
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
    for (int i = 0; i < N_WORK; i++)
        qw_dev_release(t->kern->dev, &t->w[i]);
    for (int i = 0; t->rope != NULL && i < t->z.n_rope; i++)
        qw_dev_release(t->kern->dev, &t->rope[i]);
    qw_plan_free(&t->one);
    qw_plan_free(&t->many);
    qw_plan_free(&t->head);
    qw_plan_free(&t->verify);
    qw_state_close(t->state);
    free(t->rope);
    free(t->control);
    free(t->best);
    free(t);
}

void qw_target_plans(const struct qw_target *t, struct qw_plan_list *out)
{
    qw_plan_list_add(out, "step", &t->one);
    qw_plan_list_add(out, "prefill", &t->many);
    qw_plan_list_add(out, "head", &t->head);
    qw_plan_list_add(out, "verify", &t->verify);
}

struct qw_dev *qw_target_dev(const struct qw_target *t)
{
    return t->kern->dev;
}

struct qw_kern *qw_target_kern(const struct qw_target *t)
{
    return t->kern;
}

struct qw_state *qw_target_state(struct qw_target *t)
{
    return t->state;
}

int qw_target_reset(struct qw_target *t, struct qw_err *err)
{
    t->pending = 0;
    return qw_state_reset(t->state, err);
}

int qw_target_prefill_rows(const struct qw_target *t)
{
    return t->z.prefill;
}

int qw_target_rows(const struct qw_target *t)
{
    return t->z.rows;
}

int qw_target_verify_rows(const struct qw_target *t)
{
    return t->z.verify;
}

cl_mem qw_target_cycle(const struct qw_target *t)
{
    return t->w[CYCLE];
}

cl_mem qw_target_draft(const struct qw_target *t)
{
    return t->w[DRAFT];
}

cl_mem qw_target_best(const struct qw_target *t)
{
    return t->w[BEST];
}

const struct qw_acts *qw_target_features(const struct qw_target *t)
{
    return &t->features;
}

void qw_target_tap_row(struct qw_target *t, int row)
{
    assert(row >= 0 && row <= QW_TAP_BACKLOG);
    t->tap_row = row;
}

cl_mem qw_target_hidden(const struct qw_target *t)
{
    return t->w[HIDDEN];
}

/* ---- running ---- */

/* The cycle block's header and its n ids; sure: rows that stay whatever happens. */
static int write_cycle(struct qw_target *t, const int32_t *id, int n, int rows, int sure,
                       struct qw_err *err)
{
    struct qw_state *s = t->state;
    if (rows < 0 || rows > t->z.rows || s->pos + rows > t->z.budget.context)
        return qw_fail(err, QW_EUSAGE,
                       "%d rows at position %d do not fit a context of %d", rows, s->pos,
                       t->z.budget.context);
    assert(t->pending == 0 && s->stored <= s->pos);
    t->control[QW_CYC_ROWS] = rows;
    t->control[QW_CYC_POS] = s->pos;
    t->control[QW_CYC_FIRST] = 0;
    t->control[QW_CYC_SURE] = sure;
    t->control[QW_CYC_STORED] = s->stored;
    t->control[QW_CYC_TAP] = t->tap_row;
    for (int i = 0; i < n; i++)
        t->control[QW_CYC_IDS + i] = id[i];
    return qw_dev_write(t->kern->dev, t->w[CYCLE], 0, t->control, 4 * u(QW_CYC_IDS + n),
                        false, err);
}

static int write_head(struct qw_target *t, int rows, int first, struct qw_err *err)
{
    t->head_live = rows;
    t->head_control[QW_CYC_ROWS] = rows;
    t->head_control[QW_CYC_POS] = t->state->pos;
    t->head_control[QW_CYC_FIRST] = first;
    return qw_dev_write(t->kern->dev, t->w[HEAD_CYCLE], 0, t->head_control,
                        sizeof(t->head_control), false, err);
}

int qw_target_forward(struct qw_target *t, const int32_t *id, int n, bool head,
                      struct qw_err *err)
{
    const int live = t->p.all_logits ? n : 1;
    int rc =
        n < 1 || n > t->z.prefill
            ? qw_fail(err, QW_EUSAGE, "%d rows in a step of at most %d", n, t->z.prefill)
            : write_cycle(t, id, n, n, n, err);
    if (rc == QW_OK)
        rc = qw_plan_run(n == 1 ? &t->one : &t->many, err);
    if (rc == QW_OK && head)
        rc = write_head(t, live, n - live, err);
    if (rc == QW_OK && head)
        rc = qw_plan_run(&t->head, err);
    if (rc == QW_OK) {
        qw_state_stored(t->state, n);
        qw_state_commit(t->state, n);
    }
    return rc;
}

int qw_target_verify(struct qw_target *t, int32_t id, int most, struct qw_err *err)
{
    assert(most >= 0 && most < t->z.verify);
    int rc = write_cycle(t, &id, 1, most + 1, 1, err);
    if (rc == QW_OK)
        rc = write_head(t, most + 1, 0, err);
    if (rc == QW_OK)
        rc = qw_plan_run(&t->verify, err);
    if (rc == QW_OK) {
        qw_state_stored(t->state, 1);
        t->pending = most + 1;
    }
    return rc;
}

void qw_target_commit(struct qw_target *t, int count)
{
    assert(count >= 1 && count <= t->pending);
    t->pending = 0;
    qw_state_commit(t->state, count);
}

int qw_target_settle(struct qw_target *t, struct qw_err *err)
{
    int rc = write_cycle(t, NULL, 0, 0, 0, err);
    if (rc == QW_OK)
        rc = qw_plan_run(&t->one, err);
    if (rc == QW_OK)
        qw_state_stored(t->state, 0);
    return rc == QW_OK ? qw_target_wait(t, err) : rc;
}

int qw_target_read_argmax(struct qw_target *t, int32_t *id, int rows, struct qw_err *err)
{
    int rc = qw_dev_read(t->kern->dev, t->w[BEST], 0, t->best, 8 * u(rows), err);
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
        rc = qw_dev_read(t->kern->dev, t->w[LOGITS], u(r) * ld * 4, logits + u(r) * n,
                         n * 4, err);
    return rc;
}

int qw_target_read_fed(struct qw_target *t, int32_t *id, int *rows, struct qw_err *err)
{
    int32_t block[QW_CYC_IDS + QW_MAX_DRAFT + 1];
    int rc = qw_dev_read(t->kern->dev, t->w[CYCLE], 0, block,
                         4 * u(QW_CYC_IDS + t->z.verify), err);
    if (rc == QW_OK) {
        *rows = block[QW_CYC_ROWS];
        memcpy(id, block + QW_CYC_IDS, (size_t)*rows * sizeof(*id));
    }
    return rc;
}

int qw_target_read_hidden(struct qw_target *t, float *hidden, int rows,
                          struct qw_err *err)
{
    return qw_dev_read(t->kern->dev, t->w[AF], 0, hidden,
                       u(rows) * u(t->m->hp.n_embd) * 4, err);
}

int qw_target_wait(struct qw_target *t, struct qw_err *err)
{
    return qw_dev_finish(t->kern->dev, err);
}
