/* SPDX-License-Identifier: MIT */
#include "target_size.h"

#include "cycle.h"

static uint64_t u(int n)
{
    return (uint64_t)n;
}

/* Sizes at a given number of prefill rows. */
static void size_work(struct target_sizes *z, const struct qw_model *m,
                      const struct qw_target_params *p, int prefill, uint64_t max_alloc)
{
    const struct qw_hparams *hp = &m->hp;
    const uint64_t width = u(2 * hp->ssm_nk + hp->ssm_nv) * u(hp->ssm_dk);
    const uint64_t heads = u(hp->n_head) * u(hp->head_dim), E = u(hp->n_embd);
    const uint64_t k = u(m->max_k), head_cols = u(qw_model_head(m)->cols);
    const uint64_t per_row = heads * u(z->attn.blocks) * 4;
    const uint64_t room = max_alloc < (uint64_t)32 << 20 ? max_alloc : (uint64_t)32 << 20;
    const uint64_t fit = room / per_row, taps = u(p->n_taps) * E;
    uint64_t *b = z->bytes;
    z->prefill = prefill;
    z->verify = p->verify < p->context ? p->verify : p->context;
    z->rows = prefill > z->verify ? prefill : z->verify;
    z->head_rows = p->all_logits ? z->rows : z->verify > 1 ? z->verify : 1;
    z->attn.rows = fit < 1 ? 1 : fit < u(z->rows) ? (int)fit : z->rows;
    const uint64_t rows = u(z->rows), head_rows = u(z->head_rows);
    b[CYCLE] = 4 * (QW_CYC_IDS + rows);
    b[HEAD_CYCLE] = 4 * QW_CYC_IDS;
    b[DRAFT] = z->verify > 1 ? 4 * (QW_DRAFT_IDS + QW_MAX_DRAFT) : 0;
    b[X] = rows * E * 4;
    b[Y] = rows * u(m->max_cols) * 4;
    b[C] = rows * width * 4;
    b[O] = rows * u(hp->ssm_nv) * u(hp->ssm_dk) * 4;
    b[SPEC_S] = z->state.s_bytes;
    b[Q] = rows * heads * (p->kv_bits == 8 ? 1 : 4);
    b[QSCALE] = rows * heads / 32 * 4;
    b[ML] = u(z->attn.rows) * u(hp->n_head) * u(z->attn.blocks) * 8;
    b[PO] = u(z->attn.rows) * per_row;
    b[CS] = rows * u(hp->n_rot) * 4;
    b[LOGITS] = head_rows * head_cols * 4;
    b[PART] = head_rows * ((head_cols + QW_ARGMAX_CHUNK - 1) / QW_ARGMAX_CHUNK) * 8;
    b[BEST] = head_rows * 8;
    b[AQ] = rows * k;
    b[ASCALE] = b[ASUM] = rows * k / 32 * 4;
    b[AF] = rows * k * 4;
    const uint64_t kept = rows + QW_TAP_BACKLOG;
    b[FQ] = p->tap_want & 1 ? kept * taps : 0;
    b[FSCALE] = b[FSUM] = b[FQ] / 32 * 4;
    b[FF] = p->tap_want & 2 ? kept * taps * 4 : 0;
    b[HIDDEN] = p->hidden ? rows * E * 4 : 0;
}

static uint64_t largest(const struct target_sizes *z)
{
    uint64_t most = 0;
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
                                .eps = hp->eps,
                                .gated = true,
                                .causal = true};
}

int target_sizes(struct target_sizes *z, const struct qw_model *m,
                 const struct qw_target_params *p, uint64_t max_alloc, struct qw_err *err)
{
    const struct qw_hparams *hp = &m->hp;
    *z = (struct target_sizes){0};
    z->context = (p->context + QW_ATTN_BLOCK - 1) / QW_ATTN_BLOCK * QW_ATTN_BLOCK;
    attn_shape(&z->attn, hp, z->context);
    int rc =
        qw_state_plan(&z->state, hp, &z->attn, z->context, p->kv_bits, max_alloc, err);
    if (rc != QW_OK)
        return rc;
    int rows = p->prefill < p->context ? p->prefill : p->context;
    for (size_work(z, m, p, rows, max_alloc); largest(z) > max_alloc && rows > 1;)
        size_work(z, m, p, rows = (rows + 1) / 2, max_alloc);
    if (largest(z) > max_alloc)
        return qw_fail(err, QW_EDEVICE,
                       "a step of %d rows needs a buffer of %llu bytes, the device "
                       "allows %llu: lower "
                       "model.context",
                       z->rows, (unsigned long long)largest(z),
                       (unsigned long long)max_alloc);
    const uint64_t limit = max_alloc < (uint64_t)1 << 31 ? max_alloc : (uint64_t)1 << 31;
    const uint64_t fit = limit / (u(hp->n_rot) * 4);
    z->rope_page = fit < u(z->context) ? (int)fit : z->context;
    z->n_rope = (z->context + z->rope_page - 1) / z->rope_page;
    struct qw_budget *b = &z->budget;
    b->context = p->context;
    b->prefill = z->prefill;
    b->n_pages = z->state.n_pages;
    b->weights = m->bytes;
    b->kv = z->state.kv;
    b->gdn = z->state.gdn + z->bytes[SPEC_S];
    b->conv = z->state.conv;
    b->attention = z->bytes[ML] + z->bytes[PO];
    b->logits = z->bytes[LOGITS] + z->bytes[PART] + z->bytes[BEST];
    b->rope = u(z->n_rope) * u(z->rope_page) * u(hp->n_rot) * 4 + z->bytes[CS];
    b->control = z->bytes[CYCLE] + z->bytes[HEAD_CYCLE] + z->bytes[DRAFT];
    b->activations = z->bytes[X] + z->bytes[Y] + z->bytes[C] + z->bytes[O];
    for (int i = Q; i <= HIDDEN; i++)
        b->activations += i < ML || i > BEST ? z->bytes[i] : 0;
    b->drafter =
        p->drafter_bytes ? p->drafter_bytes(p->drafter_arg, p->context, z->rows) : 0;
    b->total = b->drafter + b->weights + b->kv + b->gdn + b->conv + b->attention +
               b->logits + b->rope + b->control + b->activations;
    return QW_OK;
}

int qw_target_plan(struct qw_budget *b, const struct qw_model *m,
                   const struct qw_target_params *p, uint64_t max_alloc,
                   struct qw_err *err)
{
    struct target_sizes z;
    int rc = target_sizes(&z, m, p, max_alloc, err);
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

int target_refuse(const struct target_sizes *z, const struct qw_model *m,
                  const struct qw_target_params *p, const struct qw_dev *dev,
                  struct qw_err *err)
{
    const uint64_t loaded = (m->dev != NULL ? m->bytes : 0) + p->drafter_loaded,
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
    struct target_sizes z;
    int rc = target_sizes(&z, m, p, dev->max_alloc, err);
    return rc == QW_OK ? target_refuse(&z, m, p, dev, err) : rc;
}
