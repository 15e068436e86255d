/* SPDX-License-Identifier: MIT */
#include "model.h"

#include <stdlib.h>
#include <string.h>

#include "weights.h"

static const char *const embed_name = "token_embd.weight", *const head_name =
                                                               "output.weight";
static const char *const mtp_proj = QW_MTP_EH_PROJ, *const mtp_embed = QW_MTP_EMBED,
                         *const mtp_head = QW_MTP_HEAD;

/* ---- layout, no device ---- */

/* What the plan of a model is made from. */
struct planner {
    struct qw_model *m;
    uint64_t max_alloc;
    struct qw_err *err;
};

static int plan_mat(const struct planner *p, struct qw_mat *mat, int layer,
                    const char *const *suffix, int n)
{
    return qw_weights_plan(mat, p->m->file, layer, suffix, n, p->max_alloc, &p->m->bytes,
                           p->err);
}

/* A matrix whose input and product need room in the scratch that layers share. */
static int plan_inner(const struct planner *p, struct qw_mat *mat, int layer,
                      const char *const *suffix, int n)
{
    struct qw_model *m = p->m;
    int rc = plan_mat(p, mat, layer, suffix, n);
    m->max_k = mat->K > m->max_k ? mat->K : m->max_k;
    m->max_cols = mat->cols > m->max_cols ? mat->cols : m->max_cols;
    return rc;
}

static int plan_layer(const struct planner *p, struct qw_layer *l, int i, bool full)
{
    static const char *const gdn[] = {"attn_qkv.weight", "attn_gate.weight",
                                      "ssm_alpha.weight", "ssm_beta.weight"};
    static const char *const split[] = {"attn_q.weight", "attn_k.weight",
                                        "attn_v.weight"};
    static const char *const gu[] = {"ffn_gate.weight", "ffn_up.weight"};
    static const char *const down = "ffn_down.weight", *const ssm_out = "ssm_out.weight",
                             *const attn_out = "attn_output.weight";
    struct qw_model *m = p->m;
    const struct qw_hparams *hp = &m->hp;
    const bool fused = full && qw_tensor(m->file, i, "attn_qkv.weight") != NULL;
    l->full = full;
    int rc = plan_inner(p, &l->in, i, !full || fused ? gdn : split,
                        !full   ? 4
                        : fused ? 1
                                : 3);
    if (rc == QW_OK)
        rc = plan_inner(p, &l->out, i, full ? &attn_out : &ssm_out, 1);
    if (rc == QW_OK)
        rc = plan_inner(p, &l->gate_up, i, gu, 2);
    if (rc == QW_OK)
        rc = plan_inner(p, &l->down, i, &down, 1);
    if (rc == QW_OK && fused) { /* one tensor, three readers */
        l->in.col[1] = hp->n_head * 2 * hp->head_dim;
        l->in.col[2] = l->in.col[1] + hp->n_head_kv * hp->head_dim;
    }
    const uint64_t conv = (uint64_t)(2 * hp->ssm_nk + hp->ssm_nv) * (uint64_t)hp->ssm_dk;
    m->bytes += 4 * (uint64_t)(2 * hp->n_embd);
    m->bytes += full ? 4 * (uint64_t)(2 * hp->head_dim)
                     : 4 * (conv * (uint64_t)hp->ssm_conv + 2 * (uint64_t)hp->ssm_nv +
                            (uint64_t)hp->ssm_dk);
    return rc;
}

static bool mtp_has(const struct qw_model *m, const char *suffix)
{
    return qw_tensor(m->file, m->hp.n_layer, suffix) != NULL;
}

static int plan_mtp(const struct planner *p)
{
    struct qw_model *m = p->m;
    const int i = m->hp.n_layer;
    if (!m->hp.mtp) {
        char path[512];
        const char *name = qw_gguf_path(m->file);
        qw_escape(path, sizeof(path), name, strlen(name));
        return qw_fail(p->err, QW_EFILE, "%s: it cannot draft by MTP: %s", path,
                       m->hp.mtp_why);
    }
    m->mtp = qw_alloc(1, sizeof(*m->mtp));
    int rc = plan_layer(p, &m->mtp->layer, i, true);
    if (rc == QW_OK)
        rc = plan_inner(p, &m->mtp->eh_proj, i, &mtp_proj, 1);
    if (rc == QW_OK && mtp_has(m, mtp_embed))
        rc = plan_mat(p, &m->mtp->embed, i, &mtp_embed, 1);
    if (rc == QW_OK && mtp_has(m, mtp_head))
        rc = plan_mat(p, &m->mtp->head, i, &mtp_head, 1);
    const uint64_t norms = mtp_has(m, QW_MTP_HEAD_NORM) ? 3 : 2;
    m->bytes += 4 * norms * (uint64_t)m->hp.n_embd;
    return rc;
}

int qw_model_plan(struct qw_model **out, const struct qw_gguf *g, uint64_t max_alloc,
                  bool mtp, struct qw_err *err)
{
    struct qw_model *m = qw_alloc(1, sizeof(*m));
    const struct planner p = {m, max_alloc, err};
    m->file = g;
    int rc = qw_hparams_read(g, &m->hp, err);
    if (rc == QW_OK) {
        m->layer = qw_alloc((size_t)m->hp.n_layer, sizeof(*m->layer));
        rc = plan_mat(&p, &m->embed, -1, &embed_name, 1);
    }
    if (rc == QW_OK && !m->hp.tied)
        rc = plan_mat(&p, &m->head, -1, &head_name, 1);
    for (int i = 0; rc == QW_OK && i < m->hp.n_layer; i++)
        rc = plan_layer(&p, &m->layer[i], i, m->hp.full[i]);
    if (rc == QW_OK && mtp)
        rc = plan_mtp(&p);
    m->bytes += 4 * (uint64_t)m->hp.n_embd;
    if (rc != QW_OK)
        qw_model_close(m);
    else
        *out = m;
    return rc;
}

const struct qw_mat *qw_model_head(const struct qw_model *m)
{
    return m->hp.tied ? &m->embed : &m->head;
}

/* ---- loading ---- */

static int load_layer(struct qw_loader *l, struct qw_layer *y, int i, int taps)
{
    int rc = qw_loader_mat(l, &y->in);
    if (rc == QW_OK)
        rc = qw_loader_mat(l, &y->out);
    if (rc == QW_OK)
        rc = qw_loader_mat(l, &y->gate_up);
    if (rc == QW_OK)
        rc = qw_loader_mat(l, &y->down);
    const struct {
        const char *suffix;
        int taps;
        cl_mem *out;
    } all[] = {{"attn_norm.weight", 0, &y->attn_norm},
               {"post_attention_norm.weight", 0, &y->post_norm},
               {"attn_q_norm.weight", 0, &y->q_norm},
               {"attn_k_norm.weight", 0, &y->k_norm},
               {"ssm_conv1d.weight", taps, &y->conv},
               {"ssm_dt.bias", 0, &y->dt},
               {"ssm_a", 0, &y->a},
               {"ssm_norm.weight", 0, &y->ssm_norm}};
    for (int k = 0; rc == QW_OK && k < 8; k++)
        if (k < 2 || (k < 4) == y->full)
            rc = qw_loader_vector(l, i, all[k].suffix, all[k].taps, all[k].out);
    return rc;
}

static int load_mtp(struct qw_loader *l, struct qw_model *m)
{
    struct qw_mtp *y = m->mtp;
    const int i = m->hp.n_layer;
    int rc = load_layer(l, &y->layer, i, 0);
    if (rc == QW_OK)
        rc = qw_loader_mat(l, &y->eh_proj);
    if (rc == QW_OK)
        rc = qw_loader_mat(l, &y->embed);
    if (rc == QW_OK)
        rc = qw_loader_mat(l, &y->head);
    if (rc == QW_OK)
        rc = qw_loader_vector(l, i, QW_MTP_ENORM, 0, &y->enorm);
    if (rc == QW_OK)
        rc = qw_loader_vector(l, i, QW_MTP_HNORM, 0, &y->hnorm);
    if (rc == QW_OK && mtp_has(m, QW_MTP_HEAD_NORM))
        rc = qw_loader_vector(l, i, QW_MTP_HEAD_NORM, 0, &y->head_norm);
    return rc;
}

static int walk(struct qw_loader *l, struct qw_model *m)
{
    int rc = qw_loader_mat(l, &m->embed);
    if (rc == QW_OK)
        rc = qw_loader_mat(l, &m->head);
    if (rc == QW_OK)
        rc = qw_loader_vector(l, -1, "output_norm.weight", 0, &m->out_norm);
    for (int i = 0; rc == QW_OK && i < m->hp.n_layer; i++)
        rc = load_layer(l, &m->layer[i], i, m->hp.ssm_conv);
    if (rc == QW_OK && m->mtp != NULL)
        rc = load_mtp(l, m);
    return qw_loader_close(l, rc);
}

int qw_model_load(struct qw_model *m, const struct qw_kern *kern,
                  const struct qw_pack_file *pack, bool show, struct qw_err *err)
{
    struct qw_loader l;
    m->dev = kern->dev;
    qw_loader_open(&l, m->file, kern, kern->dev, pack, NULL, m->bytes, show, err);
    return walk(&l, m);
}

int qw_model_pack(struct qw_model *m, const struct qw_kern *kern,
                  struct qw_save_writer *to, bool show, struct qw_err *err)
{
    struct qw_loader l;
    qw_loader_open(&l, m->file, kern, NULL, NULL, to, m->bytes, show, err);
    return walk(&l, m);
}

int qw_model_packed(struct qw_model *m, const struct qw_kern *kern,
                    const struct qw_pack_file *pack, struct qw_err *err)
{
    struct qw_loader l;
    qw_loader_open(&l, m->file, kern, NULL, pack, NULL, m->bytes, false, err);
    return walk(&l, m);
}

/* ---- closing ---- */

static void close_layer(struct qw_dev *dev, struct qw_layer *l)
{
    cl_mem *v[] = {&l->attn_norm, &l->post_norm, &l->q_norm, &l->k_norm,
                   &l->conv,      &l->dt,        &l->a,      &l->ssm_norm};
    qw_weights_close(dev, &l->in);
    qw_weights_close(dev, &l->out);
    qw_weights_close(dev, &l->gate_up);
    qw_weights_close(dev, &l->down);
    for (int k = 0; k < 8; k++)
        qw_dev_release(dev, v[k]);
}

static void close_mtp(struct qw_dev *dev, struct qw_mtp *y)
{
    if (y == NULL)
        return;
    close_layer(dev, &y->layer);
    qw_weights_close(dev, &y->eh_proj);
    qw_weights_close(dev, &y->embed);
    qw_weights_close(dev, &y->head);
    qw_dev_release(dev, &y->enorm);
    qw_dev_release(dev, &y->hnorm);
    qw_dev_release(dev, &y->head_norm);
    free(y);
}

void qw_model_close(struct qw_model *m)
{
    if (m == NULL)
        return;
    qw_weights_close(m->dev, &m->embed);
    qw_weights_close(m->dev, &m->head);
    for (int i = 0; m->layer != NULL && i < m->hp.n_layer; i++)
        close_layer(m->dev, &m->layer[i]);
    close_mtp(m->dev, m->mtp);
    qw_dev_release(m->dev, &m->out_norm);
    free(m->layer);
    free(m);
}
