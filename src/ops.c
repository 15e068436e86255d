/* SPDX-License-Identifier: MIT */
#include "ops.h"

#include <assert.h>
#include <math.h>

#include "cycle.h"

#define N_ARGS(a) ((int)(sizeof(a) / sizeof((a)[0])))

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/* ---- bytes, for the notes of what a launch moves ---- */

static uint64_t product(int a, int b, int c)
{
    return (uint64_t)a * (uint64_t)b * (uint64_t)c;
}

/* Of n columns of activations: int8; scales, and as much for sums; f32. */
static uint64_t q_bytes(int want, int rows, int n)
{
    return want & 1 ? product(rows, n, 1) : 0;
}

static uint64_t scale_bytes(int want, int rows, int n)
{
    return q_bytes(want, rows, n) / 8;
}

static uint64_t f_bytes(int want, int rows, int n)
{
    return want & 2 ? product(rows, n, 4) : 0;
}

/* The notes of a launch that writes activations. */
#define QW_ACTS_OUT(out, want, rows, n)                                                  \
    QW_WRITES((out)->q, q_bytes(want, rows, n)),                                         \
        QW_WRITES((out)->scale, scale_bytes(want, rows, n)),                             \
        QW_WRITES((out)->sum, scale_bytes(want, rows, n)),                               \
        QW_WRITES((out)->f, f_bytes(want, rows, n))

/* ---- emitters ---- */

/* Kernel entries by layout and shape: the CPU shape has one for any number of rows, the
 * GPU shape one row and row tiles of 4, Xe2 one row, tiles of 8 and of 16. */
enum { CPU_SHAPE, GPU_SHAPE, XE2_SHAPE };
static const char *const matmul_entry[QW_N_LAYOUTS][3][3] = {
#define QW_ENTRY(L)                                                                      \
    {                                                                                    \
        {"qw_matmul_" L "_c", "qw_matmul_" L "_c", "qw_matmul_" L "_c"},                 \
            {"qw_matmul_" L "_g1", "qw_matmul_" L "_g4", "qw_matmul_" L "_g4"},          \
        {                                                                                \
            "qw_matmul_" L "_x1", "qw_matmul_" L "_x8", "qw_matmul_" L "_x16"            \
        }                                                                                \
    }
    [QW_L_F32] = QW_ENTRY("f32"),   [QW_L_Q4_0] = QW_ENTRY("q4_0"),
    [QW_L_Q4_1] = QW_ENTRY("q4_1"), [QW_L_Q4_K] = QW_ENTRY("q4_k"),
    [QW_L_Q8_0] = QW_ENTRY("q8_0"), [QW_L_Q8_1] = QW_ENTRY("q8_1"),
    [QW_L_Q8_K] = QW_ENTRY("q8_k"), [QW_L_Q6_K] = QW_ENTRY("q6_k"),
    [QW_L_X4_0] = QW_ENTRY("x4_0"), [QW_L_X4_1] = QW_ENTRY("x4_1"),
    [QW_L_X4_K] = QW_ENTRY("x4_k"),
};
static const char *const embed_entry[QW_N_LAYOUTS] = {
    [QW_L_F32] = "qw_embed_f32",   [QW_L_Q4_0] = "qw_embed_q4_0",
    [QW_L_Q4_1] = "qw_embed_q4_1", [QW_L_Q4_K] = "qw_embed_q4_k",
    [QW_L_Q8_0] = "qw_embed_q8_0", [QW_L_Q8_1] = "qw_embed_q8_1",
    [QW_L_Q8_K] = "qw_embed_q8_k", [QW_L_Q6_K] = "qw_embed_q6_k",
    [QW_L_X4_0] = "qw_embed_x4_0", [QW_L_X4_1] = "qw_embed_x4_1",
    [QW_L_X4_K] = "qw_embed_x4_k",
};

int qw_op_embed(struct qw_plan *p, const struct qw_mat *embed, int n_vocab, cl_mem cycle,
                cl_mem x, int rows, struct qw_err *err)
{
    const enum qw_layout layout =
        qw_kern_layout(p->kern, embed->part[0].layout, embed->K);
    const size_t local[] = {64, 1}, global[] = {64, (size_t)rows};
    int rc = QW_OK;
    for (int i = 0; rc == QW_OK && i < embed->part[0].n_slabs; i++) {
        const struct qw_slab *s = &embed->part[0].slab[i];
        const int first = s->tile0 * 16, last = first + s->tiles * 16;
        const int end = last < n_vocab ? last : n_vocab;
        /* all rows may lie in one slab */
        const struct qw_arg arg[] = {
            QW_READS(s->buf, s->bytes / (uint64_t)s->tiles / 16 * (uint64_t)rows),
            QW_ARG(cycle),
            QW_ARG(embed->K),
            QW_ARG(first),
            QW_ARG(end),
            QW_WRITES(x, product(rows, embed->K, 4))};
        rc = qw_plan_add(p, embed_entry[layout], 2, global, local, arg, N_ARGS(arg), err);
    }
    return rc;
}

int qw_op_norm(struct qw_plan *p, cl_mem x, cl_mem w, cl_mem cycle, int n, float eps,
               int want, const struct qw_acts *out, int rows, struct qw_err *err)
{
    return qw_op_norm_into(p, x, w, cycle, n, eps, 0, n, want, out, rows, err);
}

int qw_op_norm_into(struct qw_plan *p, cl_mem x, cl_mem w, cl_mem cycle, int n, float eps,
                    int col, int ld, int want, const struct qw_acts *out, int rows,
                    struct qw_err *err)
{
    const size_t local[] = {(size_t)p->kern->row_group},
                 global[] = {local[0] * (size_t)rows};
    const struct qw_arg arg[] = {QW_READS(x, product(rows, n, 4)),
                                 QW_READS(w, product(1, n, 4)),
                                 QW_ARG(cycle),
                                 QW_ARG(n),
                                 QW_ARG(eps),
                                 QW_ARG(col),
                                 QW_ARG(ld),
                                 QW_ARG(want),
                                 QW_ACTS_OUT(out, want, rows, n)};
    return qw_plan_add(p, "qw_norm", 1, global, local, arg, N_ARGS(arg), err);
}

/* The best of a row's pairs in part [rows][chunks]. */
static int best_of(struct qw_plan *p, cl_mem part, cl_mem cycle, int chunks, int step,
                   cl_mem out, int rows, struct qw_err *err)
{
    const size_t local[] = {(size_t)p->kern->row_group},
                 global[] = {local[0] * (size_t)rows};
    const struct qw_arg arg[] = {QW_READS(part, product(rows, chunks, 8)), QW_ARG(cycle),
                                 QW_ARG(chunks), QW_ARG(step),
                                 QW_WRITES(out, product(rows, 1, 8))};
    return qw_plan_add(p, "qw_argmax", 1, global, local, arg, N_ARGS(arg), err);
}

/* How a product of `rows` rows with K columns is launched. */
struct matmul {
    struct qw_kern *kern;
    const char *entry;
    size_t lanes, partials; /* of a work-group */
    size_t row_groups;
};

static struct matmul matmul_launch(const struct qw_plan *p, enum qw_layout base, int K,
                                   int rows)
{
    const bool xe2 = qw_kern_matmul_xe2(p->kern, base, K);
    const bool groups = xe2 || !p->kern->cpu_shape;
    const int shape = xe2 ? XE2_SHAPE : groups ? GPU_SHAPE : CPU_SHAPE;
    const int tall = rows == 1 ? 0 : rows <= 8 ? 1 : 2, step = xe2 ? 8 * tall : 4;
    return (struct matmul){
        .kern = xe2 ? p->kern->xe2 : p->kern,
        .entry = matmul_entry[qw_kern_layout(p->kern, base, K)][shape][tall],
        .lanes = groups ? 16 : 1,
        .partials = groups ? (size_t)qw_partials(K) : 1,
        .row_groups = groups && step > 0 ? (size_t)((rows + step - 1) / step) : 1};
}

static int matmul_slab(struct qw_plan *p, const struct qw_mat *m,
                       const struct qw_part *part, const struct qw_slab *s,
                       const struct qw_acts *in, cl_mem cycle, cl_mem y, int ldy,
                       int mode, int rows, struct qw_err *err)
{
    const struct matmul l = matmul_launch(p, part->layout, m->K, rows);
    const int top = mode == QW_TOP;
    const int left = (top ? m->rows[0] : part->tiles * 16) - s->tile0 * 16;
    const int n = left < s->tiles * 16 ? left : s->tiles * 16;
    const int y0 = top ? 2 * s->tile0 : part->col + s->tile0 * 16;
    const size_t local[] = {l.lanes, l.partials, 1};
    const size_t global[] = {l.lanes * (size_t)s->tiles, l.partials, l.row_groups};
    const uint64_t y_out = top ? product(rows, s->tiles, 8) : product(rows, n, 4);
    const uint64_t y_in = mode == QW_ADD_TO ? y_out : 0;
    if (part->layout == QW_L_F32) {
        const struct qw_arg arg[] = {QW_READS(s->buf, s->bytes),
                                     QW_READS(in->f, product(rows, m->K, 4)),
                                     QW_MOVES(y, y_in, y_out),
                                     QW_ARG(cycle),
                                     QW_ARG(m->K),
                                     QW_ARG(n),
                                     QW_ARG(ldy),
                                     QW_ARG(y0),
                                     QW_ARG(mode)};
        return qw_plan_add_from(p, l.kern, l.entry, 3, global, local, arg, N_ARGS(arg),
                                err);
    }
    const struct qw_arg arg[] = {QW_READS(s->buf, s->bytes),
                                 QW_READS(in->q, q_bytes(1, rows, m->K)),
                                 QW_READS(in->scale, scale_bytes(1, rows, m->K)),
                                 QW_READS(in->sum, scale_bytes(1, rows, m->K)),
                                 QW_MOVES(y, y_in, y_out),
                                 QW_ARG(cycle),
                                 QW_ARG(m->K),
                                 QW_ARG(n),
                                 QW_ARG(ldy),
                                 QW_ARG(y0),
                                 QW_ARG(mode)};
    return qw_plan_add_from(p, l.kern, l.entry, 3, global, local, arg, N_ARGS(arg), err);
}

int qw_op_matmul(struct qw_plan *p, const struct qw_mat *m, const struct qw_acts *in,
                 cl_mem cycle, cl_mem y, int ldy, bool add, int rows, struct qw_err *err)
{
    int rc = QW_OK;
    for (int i = 0; i < m->n_parts; i++)
        for (int s = 0; rc == QW_OK && s < m->part[i].n_slabs; s++)
            rc = matmul_slab(p, m, &m->part[i], &m->part[i].slab[s], in, cycle, y, ldy,
                             add ? QW_ADD_TO : QW_STORE, rows, err);
    return rc;
}

int qw_op_top(struct qw_plan *p, const struct qw_mat *m, const struct qw_acts *in,
              cl_mem cycle, cl_mem part, cl_mem out, int rows, struct qw_err *err)
{
    const int tiles = m->part[0].tiles, step = 16;
    int rc = QW_OK;
    assert(m->n_tensors == 1); /* its columns are the ids */
    for (int s = 0; rc == QW_OK && s < m->part[0].n_slabs; s++)
        rc = matmul_slab(p, m, &m->part[0], &m->part[0].slab[s], in, cycle, part,
                         2 * tiles, QW_TOP, rows, err);
    return rc == QW_OK ? best_of(p, part, cycle, tiles, step, out, rows, err) : rc;
}

int qw_op_swiglu(struct qw_plan *p, cl_mem y, cl_mem cycle, int n, int ldy, int g0,
                 int u0, int want, const struct qw_acts *out, int rows,
                 struct qw_err *err)
{
    const size_t group = p->kern->cpu_shape ? 1 : 32;
    const size_t local[] = {group, 1},
                 global[] = {round_up((size_t)n / 32, group), (size_t)rows};
    const struct qw_arg arg[] = {QW_READS(y, product(rows, n, 8)),
                                 QW_ARG(cycle),
                                 QW_ARG(n),
                                 QW_ARG(ldy),
                                 QW_ARG(g0),
                                 QW_ARG(u0),
                                 QW_ARG(want),
                                 QW_ACTS_OUT(out, want, rows, n)};
    return qw_plan_add(p, "qw_swiglu", 2, global, local, arg, N_ARGS(arg), err);
}

int qw_op_conv(struct qw_plan *p, const struct qw_gdn_shape *s, cl_mem u, cl_mem ring,
               cl_mem w, cl_mem cycle, cl_mem y, int rows, struct qw_err *err)
{
    const int heads = 2 * s->nk + s->nv, nq = 2 * s->nk;
    const size_t local[] = {(size_t)s->dk / 4, 1},
                 global[] = {local[0] * (size_t)heads, (size_t)rows};
    const int width = heads * s->dk;
    const struct qw_arg arg[] = {QW_READS(u, product(rows, width, 4)),
                                 QW_READS(ring, product(s->taps - 1, width, 4)),
                                 QW_READS(w, product(s->taps, width, 4)),
                                 QW_ARG(cycle),
                                 QW_ARG(s->ldu),
                                 QW_ARG(heads),
                                 QW_ARG(nq),
                                 QW_ARG(s->eps),
                                 QW_WRITES(y, product(rows, width, 4))};
    return qw_plan_add(p, "qw_conv", 2, global, local, arg, N_ARGS(arg), err);
}

int qw_op_gdn(struct qw_plan *p, const struct qw_gdn_shape *s, const struct qw_layer *l,
              cl_mem c, cl_mem u, const struct qw_gdn_state *state, cl_mem cycle,
              int want, cl_mem o, const struct qw_acts *out, int rows, struct qw_err *err)
{
    const bool xe2 = p->kern->variant[QW_OP_GDN] != QW_GENERIC;
    const size_t items = xe2 ? 16 : p->kern->cpu_shape ? 1 : (size_t)s->dk;
    const size_t local[] = {items, xe2 ? (size_t)s->dk / 4 : 1},
                 global[] = {items * (size_t)s->nv, local[1]};
    const int vd = s->nv * s->dk, width = 2 * s->nk * s->dk + vd;
    const uint64_t S = product(vd, s->dk, 4), X = rows > 1 ? S : 0,
                   O = product(rows, vd, 4);
    /* of a verify step all but the first row, kept or not: the last one's and this one's
     */
    const uint64_t tape = product(rows - 1, (s->nk + s->nv) * s->dk + s->nv, 4);
    const struct qw_arg arg[] = {QW_READS(c, product(rows, width, 4)),
                                 QW_READS(u, product(rows, width + vd + 2 * s->nv, 4)),
                                 QW_MOVES(state->S, S, S),
                                 QW_MOVES(state->X, X, X),
                                 QW_MOVES(state->tape, tape, tape),
                                 QW_WRITES(state->ring, product(rows, width, 4)),
                                 QW_ARG(l->dt),
                                 QW_ARG(l->a),
                                 QW_ARG(l->ssm_norm),
                                 QW_ARG(cycle),
                                 QW_ARG(s->nk),
                                 QW_ARG(s->nv),
                                 QW_ARG(s->ldu),
                                 QW_ARG(s->z0),
                                 QW_ARG(s->a0),
                                 QW_ARG(s->b0),
                                 QW_ARG(s->eps),
                                 QW_ARG(want),
                                 QW_MOVES(o, O, O),
                                 QW_ACTS_OUT(out, want, rows, vd)};
    return qw_plan_add_from(p, qw_kern_of(p->kern, QW_OP_GDN), "qw_gdn", 2, global, local,
                            arg, N_ARGS(arg), err);
}

int qw_op_tap(struct qw_plan *p, cl_mem x, cl_mem cycle, int n, int col, int ld, int want,
              const struct qw_acts *out, int rows, struct qw_err *err)
{
    const size_t group = p->kern->cpu_shape ? 1 : 32;
    const size_t local[] = {group, 1},
                 global[] = {round_up((size_t)n / 32, group), (size_t)rows};
    const struct qw_arg arg[] = {QW_READS(x, product(rows, n, 4)),
                                 QW_ARG(cycle),
                                 QW_ARG(n),
                                 QW_ARG(col),
                                 QW_ARG(ld),
                                 QW_ARG(want),
                                 QW_ACTS_OUT(out, want, rows, n)};
    return qw_plan_add(p, "qw_tap", 2, global, local, arg, N_ARGS(arg), err);
}

static int hidden_rows(struct qw_plan *p, const char *entry, cl_mem x, cl_mem ring,
                       cl_mem cycle, int n, cl_mem out, int rows, struct qw_err *err)
{
    const size_t local[] = {64, 1}, global[] = {64, (size_t)rows};
    const uint64_t bytes = product(rows, n, 4);
    const struct qw_arg arg[] = {QW_READS(x, bytes), QW_WRITES(ring, out ? 0 : bytes),
                                 QW_ARG(cycle), QW_ARG(n), QW_WRITES(out, bytes)};
    return qw_plan_add(p, entry, 2, global, local, arg, out != NULL ? 5 : 4, err);
}

int qw_op_hidden_before(struct qw_plan *p, cl_mem x, cl_mem ring, cl_mem cycle, int n,
                        cl_mem out, int rows, struct qw_err *err)
{
    return hidden_rows(p, "qw_hidden_before", x, ring, cycle, n, out, rows, err);
}

int qw_op_hidden_keep(struct qw_plan *p, cl_mem x, cl_mem ring, cl_mem cycle, int n,
                      int rows, struct qw_err *err)
{
    return hidden_rows(p, "qw_hidden_keep", x, ring, cycle, n, NULL, rows, err);
}

int qw_op_verify_begin(struct qw_plan *p, cl_mem draft, cl_mem cycle, cl_mem head,
                       struct qw_err *err)
{
    const size_t one[] = {1};
    const struct qw_arg arg[] = {QW_ARG(draft), QW_ARG(cycle), QW_ARG(head)};
    return qw_plan_add(p, "qw_verify_begin", 1, one, one, arg, N_ARGS(arg), err);
}

int qw_op_accept(struct qw_plan *p, cl_mem cycle, cl_mem best, cl_mem result, cl_mem next,
                 struct qw_err *err)
{
    const size_t one[] = {1};
    const struct qw_arg arg[] = {QW_ARG(cycle), QW_ARG(best), QW_ARG(result),
                                 QW_ARG(next)};
    return qw_plan_add(p, "qw_accept", 1, one, one, arg, N_ARGS(arg), err);
}

int qw_op_rope_rows(struct qw_plan *p, cl_mem table, cl_mem cycle, int n_rot, int p0,
                    int p1, cl_mem cs, int rows, struct qw_err *err)
{
    const size_t global[] = {(size_t)n_rot, (size_t)rows};
    const size_t local[] = {(size_t)n_rot, 1};
    const uint64_t bytes = product(rows, n_rot, 4);
    const struct qw_arg arg[] = {
        QW_READS(table, bytes), QW_ARG(cycle), QW_ARG(n_rot), QW_ARG(p0), QW_ARG(p1),
        QW_WRITES(cs, bytes)};
    return qw_plan_add(p, "qw_rope_rows", 2, global, local, arg, N_ARGS(arg), err);
}

uint64_t qw_kv_scales_at(const struct qw_attn_shape *s, int positions)
{
    return (uint64_t)s->kv_heads * (uint64_t)positions * (uint64_t)s->hd;
}

uint64_t qw_kv_page_bytes(const struct qw_attn_shape *s, int kv_bits, int positions)
{
    const uint64_t n = qw_kv_scales_at(s, positions);
    return kv_bits == 8 ? n + n / 32 * 2 : n * (uint64_t)kv_bits / 8;
}

static struct qw_kern *attn_kern(const struct qw_plan *p, const struct qw_attn_shape *s)
{
    return s->kern ? s->kern : p->kern;
}

/* Query heads go with the first page, or with none when q is NULL. */
static int store_rows(struct qw_plan *p, const struct qw_attn_shape *s, cl_mem q_norm,
                      cl_mem k_norm, cl_mem y, cl_mem cs, cl_mem cycle,
                      const struct qw_kv_page *page, int n_pages, int kv_bits, cl_mem q,
                      cl_mem qscale, int rows, struct qw_err *err)
{
    const int gated = s->gated;
    int rc = QW_OK;
    for (int i = 0; rc == QW_OK && i < n_pages; i++) {
        const struct qw_kv_page *g = &page[i];
        const int slot0 = i == 0 && q != NULL ? 0 : s->heads;
        const size_t slots = (size_t)(s->heads - slot0 + 2 * s->kv_heads);
        const size_t local[] = {(size_t)s->hd / 4, 1},
                     global[] = {local[0] * slots, (size_t)rows};
        const cl_uint off = kv_bits == 8 ? (cl_uint)qw_kv_scales_at(s, g->p1 - g->p0) : 0;
        const int n_q = (s->heads - slot0) * s->hd;
        /* all rows may lie in one page */
        const uint64_t kv = qw_kv_page_bytes(s, kv_bits, rows);
        const struct qw_arg arg[] = {
            QW_READS(y, product(rows, n_q + 2 * s->kv_heads * s->hd, 4)),
            QW_ARG(q_norm),
            QW_ARG(k_norm),
            QW_READS(cs, product(rows, s->n_rot, 4)),
            QW_ARG(cycle),
            QW_ARG(s->ldy),
            QW_ARG(s->q0),
            QW_ARG(s->k0),
            QW_ARG(s->v0),
            QW_ARG(s->heads),
            QW_ARG(s->kv_heads),
            QW_ARG(gated),
            QW_ARG(s->n_rot),
            QW_ARG(s->eps),
            QW_ARG(slot0),
            QW_ARG(s->blocks),
            QW_ARG(g->p0),
            QW_ARG(g->p1),
            QW_ARG(off),
            QW_ARG(off),
            QW_WRITES(q, product(rows, n_q, kv_bits == 8 ? 1 : 4)),
            QW_WRITES(qscale, kv_bits == 8 ? product(rows, n_q, 1) / 8 : 0),
            QW_WRITES(g->k, kv),
            QW_WRITES(g->v, kv)};
        rc = qw_plan_add_from(p, attn_kern(p, s), "qw_qk", 2, global, local, arg,
                              N_ARGS(arg), err);
    }
    return rc;
}

int qw_op_qk(struct qw_plan *p, const struct qw_attn_shape *s, cl_mem q_norm,
             cl_mem k_norm, cl_mem y, cl_mem cs, cl_mem cycle,
             const struct qw_kv_page *page, int n_pages, int kv_bits, cl_mem q,
             cl_mem qscale, int rows, struct qw_err *err)
{
    return store_rows(p, s, q_norm, k_norm, y, cs, cycle, page, n_pages, kv_bits, q,
                      qscale, rows, err);
}

int qw_op_kv(struct qw_plan *p, const struct qw_attn_shape *s, cl_mem k_norm, cl_mem y,
             cl_mem cs, cl_mem cycle, const struct qw_kv_page *page, int n_pages,
             int kv_bits, int rows, struct qw_err *err)
{
    return store_rows(p, s, NULL, k_norm, y, cs, cycle, page, n_pages, kv_bits, NULL,
                      NULL, rows, err);
}

/* Of `positions` those that n rows at the end of the context see. */
static int seen_of(const struct qw_attn_shape *s, int positions, int n)
{
    const int reach = s->window + n;
    return s->window > 0 && reach < positions ? reach : positions;
}

static int attn_rows(struct qw_plan *p, const struct qw_attn_shape *s, cl_mem q,
                     cl_mem qscale, cl_mem cycle, const struct qw_kv_page *g, int kv_bits,
                     cl_mem ml, cl_mem po, int row0, int n, struct qw_err *err)
{
    const size_t group = attn_kern(p, s)->cpu_shape ? 1 : QW_ATTN_BLOCK;
    const int causal = s->causal;
    const int end = g->p1 / QW_ATTN_BLOCK < s->blocks ? g->p1 / QW_ATTN_BLOCK : s->blocks;
    const size_t local[] = {group, 1, 1};
    const size_t global[] = {group * (size_t)(end - g->p0 / QW_ATTN_BLOCK),
                             (size_t)s->kv_heads, (size_t)n};
    const cl_uint off = kv_bits == 8 ? (cl_uint)qw_kv_scales_at(s, g->p1 - g->p0) : 0;
    const float root = 1.0f / sqrtf((float)s->hd);
    const int seen = seen_of(s, end * QW_ATTN_BLOCK - g->p0, n);
    const uint64_t kv = qw_kv_page_bytes(s, kv_bits, seen);
    const int n_q = s->heads * s->hd, parts = s->heads * ((seen - 1) / QW_ATTN_BLOCK + 1);
    const struct qw_arg arg[] = {
        QW_READS(q, product(n, n_q, kv_bits == 8 ? 1 : 4)),
        QW_READS(qscale, kv_bits == 8 ? product(n, n_q, 1) / 8 : 0),
        QW_READS(g->k, kv),
        QW_READS(g->v, kv),
        QW_ARG(cycle),
        QW_ARG(s->heads),
        QW_ARG(s->kv_heads),
        QW_ARG(row0),
        QW_ARG(g->p0),
        QW_ARG(g->p1),
        QW_ARG(off),
        QW_ARG(off),
        QW_ARG(s->blocks),
        QW_ARG(causal),
        QW_ARG(s->window),
        QW_ARG(root),
        QW_WRITES(ml, product(n, parts, 8)),
        QW_WRITES(po, product(n, parts, 4 * s->hd))};
    return qw_plan_add_from(p, attn_kern(p, s), "qw_attn", 3, global, local, arg,
                            N_ARGS(arg), err);
}

int qw_op_attn(struct qw_plan *p, const struct qw_attn_shape *s, cl_mem y, cl_mem q,
               cl_mem qscale, cl_mem cycle, const struct qw_kv_page *page, int n_pages,
               int kv_bits, cl_mem ml, cl_mem po, int want, const struct qw_acts *out,
               int rows, struct qw_err *err)
{
    const int causal = s->causal, gated = s->gated;
    int rc = QW_OK;
    for (int row0 = 0; rc == QW_OK && row0 < rows; row0 += s->rows) {
        const int n = rows - row0 < s->rows ? rows - row0 : s->rows;
        for (int i = 0; rc == QW_OK && i < n_pages; i++)
            rc = attn_rows(p, s, q, qscale, cycle, &page[i], kv_bits, ml, po, row0, n,
                           err);
        const size_t local[] = {(size_t)s->hd / 4, 1},
                     global[] = {local[0] * (size_t)s->heads, (size_t)n};
        const int n_q = s->heads * s->hd;
        const int seen = seen_of(s, s->blocks * QW_ATTN_BLOCK, n);
        const int parts = s->heads * ((seen - 1) / QW_ATTN_BLOCK + 1);
        const struct qw_arg arg[] = {QW_READS(ml, product(n, parts, 8)),
                                     QW_READS(po, product(n, parts, 4 * s->hd)),
                                     QW_READS(y, gated ? product(n, n_q, 4) : 0),
                                     QW_ARG(cycle),
                                     QW_ARG(s->heads),
                                     QW_ARG(row0),
                                     QW_ARG(s->blocks),
                                     QW_ARG(causal),
                                     QW_ARG(s->window),
                                     QW_ARG(gated),
                                     QW_ARG(s->ldy),
                                     QW_ARG(s->q0),
                                     QW_ARG(want),
                                     QW_ACTS_OUT(out, want, n, n_q)};
        if (rc == QW_OK)
            rc = qw_plan_add_from(p, attn_kern(p, s), "qw_merge", 2, global, local, arg,
                                  N_ARGS(arg), err);
    }
    return rc;
}

int qw_op_argmax(struct qw_plan *p, cl_mem y, cl_mem cycle, int n, int ldy, cl_mem part,
                 cl_mem out, int rows, struct qw_err *err)
{
    const int chunks = (n + QW_ARGMAX_CHUNK - 1) / QW_ARGMAX_CHUNK;
    const size_t group = (size_t)p->kern->row_group;
    const size_t local[] = {group, 1}, global[] = {group * (size_t)chunks, (size_t)rows};
    const struct qw_arg arg[] = {QW_READS(y, product(rows, n, 4)), QW_ARG(cycle),
                                 QW_ARG(n), QW_ARG(ldy),
                                 QW_WRITES(part, product(rows, chunks, 8))};
    int rc = qw_plan_add(p, "qw_argmax_part", 2, global, local, arg, N_ARGS(arg), err);
    return rc == QW_OK ? best_of(p, part, cycle, chunks, 0, out, rows, err) : rc;
}

int qw_op_top10(struct qw_plan *p, cl_mem y, cl_mem cycle, int n, int ldy, cl_mem prob,
                int rows, struct qw_err *err)
{
    const size_t local[] = {(size_t)p->kern->row_group},
                 global[] = {local[0] * (size_t)rows};
    const struct qw_arg arg[] = {QW_READS(y, product(rows, n, 4)), QW_ARG(cycle),
                                 QW_ARG(n), QW_ARG(ldy), QW_ARG(prob)};
    return qw_plan_add(p, "qw_top10", 1, global, local, arg, N_ARGS(arg), err);
}

int qw_op_draft_end(struct qw_plan *p, cl_mem best, cl_mem prob, cl_mem cycle,
                    float p_min, int n_min, cl_mem draft, struct qw_err *err)
{
    const size_t one[] = {1};
    const struct qw_arg arg[] = {QW_ARG(best),  QW_ARG(prob),  QW_ARG(cycle),
                                 QW_ARG(p_min), QW_ARG(n_min), QW_ARG(draft)};
    return qw_plan_add(p, "qw_draft_end", 1, one, one, arg, N_ARGS(arg), err);
}

int qw_op_draft_begin(struct qw_plan *p, cl_mem next, cl_mem step, cl_mem drafted,
                      struct qw_err *err)
{
    const size_t one[] = {1};
    const struct qw_arg arg[] = {QW_ARG(next), QW_ARG(step), QW_ARG(drafted)};
    return qw_plan_add(p, "qw_draft_begin", 1, one, one, arg, N_ARGS(arg), err);
}

int qw_op_draft_next(struct qw_plan *p, cl_mem best, cl_mem prob, float p_min,
                     cl_mem step, cl_mem drafted, cl_mem bests, cl_mem probs,
                     struct qw_err *err)
{
    const size_t one[] = {1};
    const struct qw_arg arg[] = {QW_ARG(best), QW_ARG(prob),    QW_ARG(p_min),
                                 QW_ARG(step), QW_ARG(drafted), QW_ARG(bests),
                                 QW_ARG(probs)};
    return qw_plan_add(p, "qw_draft_next", 1, one, one, arg, N_ARGS(arg), err);
}
