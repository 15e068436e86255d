/* SPDX-License-Identifier: MIT */
#include "draft_model.h"

#include <stdlib.h>

#include "weights.h"

/* ---- layout, no device ---- */

/* One matrix of the file: its place, and the tensors side by side in it. */
struct piece {
    struct qw_mat *mat;
    int layer, n;
    const char *suffix[2];
    bool shared; /* its row and product lie in the scratch that layers share */
};

static int plan_pieces(struct qw_draft_model *m, const struct piece *p, int n,
                       uint64_t max_alloc, struct qw_err *err)
{
    for (int i = 0; i < n; i++) {
        struct qw_mat *mat = p[i].mat;
        int rc = qw_weights_plan(mat, m->file, p[i].layer, p[i].suffix, p[i].n, max_alloc,
                                 &m->bytes, err);
        if (rc != QW_OK)
            return rc;
        if (p[i].shared) {
            m->max_k = mat->K > m->max_k ? mat->K : m->max_k;
            m->max_cols = mat->cols > m->max_cols ? mat->cols : m->max_cols;
        }
    }
    return QW_OK;
}

static int plan_layer(struct qw_draft_model *m, int i, uint64_t max_alloc,
                      struct qw_err *err)
{
    struct qw_draft_layer *l = &m->layer[i];
    const struct piece all[] = {
        {&l->q, i, 1, {"attn_q.weight"}, true},
        {&l->kv, i, 2, {"attn_k.weight", "attn_v.weight"}, true},
        {&l->out, i, 1, {"attn_output.weight"}, true},
        {&l->gate_up, i, 2, {"ffn_gate.weight", "ffn_up.weight"}, true},
        {&l->down, i, 1, {"ffn_down.weight"}, true},
    };
    m->bytes += 4 * (uint64_t)(2 * m->hp.n_embd + 2 * m->hp.head_dim);
    int rc = plan_pieces(m, all, 5, max_alloc, err);
    if (rc != QW_OK)
        return rc;
    const int ld = l->q.cols + l->kv.cols; /* k and v stand behind q in one product row */
    for (int p = 0; p < l->kv.n_parts; p++)
        l->kv.part[p].col += l->q.cols;
    for (int t = 0; t < l->kv.n_tensors; t++)
        l->kv.col[t] += l->q.cols;
    m->max_cols = ld > m->max_cols ? ld : m->max_cols;
    return QW_OK;
}

static int plan_top(struct qw_draft_model *m, uint64_t max_alloc, struct qw_err *err)
{
    const struct piece fc = {&m->fc, -1, 1, {"fc.weight"}, false};
    const struct piece embed = {&m->embed, -1, 1, {"token_embd.weight"}, false};
    const struct piece head = {&m->head, -1, 1, {"output.weight"}, false};
    int rc = plan_pieces(m, &fc, 1, max_alloc, err);
    if (rc == QW_OK && m->hp.own_embed)
        rc = plan_pieces(m, &embed, 1, max_alloc, err);
    if (rc == QW_OK && m->hp.own_head)
        rc = plan_pieces(m, &head, 1, max_alloc, err);
    m->bytes += 4 * (uint64_t)(2 * m->hp.n_embd);
    return rc;
}

int qw_draft_model_plan(struct qw_draft_model **out, const struct qw_gguf *g,
                        const struct qw_hparams *target, uint64_t max_alloc,
                        struct qw_err *err)
{
    struct qw_draft_model *m = qw_alloc(1, sizeof(*m));
    m->file = g;
    int rc = qw_draft_hparams_read(g, target, &m->hp, err);
    if (rc == QW_OK) {
        m->layer = qw_alloc((size_t)m->hp.n_layer, sizeof(*m->layer));
        rc = plan_top(m, max_alloc, err);
    }
    for (int i = 0; rc == QW_OK && i < m->hp.n_layer; i++)
        rc = plan_layer(m, i, max_alloc, err);
    if (rc != QW_OK)
        qw_draft_model_close(m);
    else
        *out = m;
    return rc;
}

/* ---- loading ---- */

static int load_layer(struct qw_loader *l, struct qw_draft_layer *y, int i)
{
    struct qw_mat *const mats[] = {&y->q, &y->kv, &y->out, &y->gate_up, &y->down};
    const struct {
        const char *suffix;
        cl_mem *out;
    } norms[] = {{"attn_norm.weight", &y->attn_norm},
                 {"ffn_norm.weight", &y->ffn_norm},
                 {"attn_q_norm.weight", &y->q_norm},
                 {"attn_k_norm.weight", &y->k_norm}};
    int rc = QW_OK;
    for (int k = 0; rc == QW_OK && k < 5; k++)
        rc = qw_loader_mat(l, mats[k]);
    for (int k = 0; rc == QW_OK && k < 4; k++)
        rc = qw_loader_vector(l, i, norms[k].suffix, 0, norms[k].out);
    return rc;
}

static int walk(struct qw_loader *l, struct qw_draft_model *m)
{
    int rc = qw_loader_mat(l, &m->fc);
    if (rc == QW_OK)
        rc = qw_loader_mat(l, &m->embed);
    if (rc == QW_OK)
        rc = qw_loader_mat(l, &m->head);
    if (rc == QW_OK)
        rc = qw_loader_vector(l, -1, "enc.output_norm.weight", 0, &m->enc_norm);
    if (rc == QW_OK)
        rc = qw_loader_vector(l, -1, "output_norm.weight", 0, &m->out_norm);
    for (int i = 0; rc == QW_OK && i < m->hp.n_layer; i++)
        rc = load_layer(l, &m->layer[i], i);
    return qw_loader_close(l, rc);
}

int qw_draft_model_load(struct qw_draft_model *m, const struct qw_kern *kern,
                        const struct qw_pack_file *pack, bool show, struct qw_err *err)
{
    struct qw_loader l;
    m->dev = kern->dev;
    qw_loader_open(&l, m->file, kern, kern->dev, pack, NULL, m->bytes, show, err);
    return walk(&l, m);
}

int qw_draft_model_pack(struct qw_draft_model *m, const struct qw_kern *kern,
                        struct qw_save_writer *to, bool show, struct qw_err *err)
{
    struct qw_loader l;
    qw_loader_open(&l, m->file, kern, NULL, NULL, to, m->bytes, show, err);
    return walk(&l, m);
}

int qw_draft_model_packed(struct qw_draft_model *m, const struct qw_kern *kern,
                          const struct qw_pack_file *pack, struct qw_err *err)
{
    struct qw_loader l;
    qw_loader_open(&l, m->file, kern, NULL, pack, NULL, m->bytes, false, err);
    return walk(&l, m);
}

/* ---- closing ---- */

void qw_draft_model_close(struct qw_draft_model *m)
{
    if (m == NULL)
        return;
    struct qw_mat *const top[] = {&m->fc, &m->embed, &m->head};
    for (int k = 0; k < 3; k++)
        qw_weights_close(m->dev, top[k]);
    qw_dev_release(m->dev, &m->enc_norm);
    qw_dev_release(m->dev, &m->out_norm);
    for (int i = 0; m->layer != NULL && i < m->hp.n_layer; i++) {
        struct qw_draft_layer *l = &m->layer[i];
        struct qw_mat *const mats[] = {&l->q, &l->kv, &l->out, &l->gate_up, &l->down};
        cl_mem *const norms[] = {&l->attn_norm, &l->ffn_norm, &l->q_norm, &l->k_norm};
        for (int k = 0; k < 5; k++)
            qw_weights_close(m->dev, mats[k]);
        for (int k = 0; k < 4; k++)
            qw_dev_release(m->dev, norms[k]);
    }
    free(m->layer);
    free(m);
}
