/* SPDX-License-Identifier: MIT */
#include "draft_util.h"

#include <unistd.h>

static struct qw_kern *attention_for(const struct qw_draft_hparams *hp, int bits,
                                     bool gpu_shape)
{
    return net_program(&(struct qw_kern_params){
        .hd = hp->head_dim, .kv_bits = bits, .cpu_shape = !gpu_shape, .attn_only = true});
}

static struct qw_hparams target_of(const char *path)
{
    struct qw_gguf *g;
    struct qw_hparams hp;
    OK(qw_gguf_open(&g, path, &err));
    OK(qw_hparams_read(g, &hp, &err));
    qw_gguf_close(g);
    return hp;
}

void pair_open(struct pair *p, const char *target, const char *draft,
               const struct pair_opts *o)
{
    const struct qw_hparams hp = target_of(target);
    const int bits = o->draft_bits > 0 ? o->draft_bits : 16;
    struct qw_dev *dev = net_dev();
    const uint64_t largest = dev->max_alloc;
    *p = (struct pair){.d = NULL};
    OK(qw_gguf_open(&p->file, draft, &err));
    OK(qw_draft_model_plan(&p->model, p->file, &hp, dev->max_alloc, &err));
    OK(qw_draft_model_load(p->model, &(struct qw_kern){.dev = dev}, NULL, false, &err));
    net_open(&p->net, target,
             &(struct net_opts){.kv_bits = o->kv_bits > 0 ? o->kv_bits : 16,
                                .context = o->context,
                                .prefill = o->prefill,
                                .gpu_shape = o->gpu_shape,
                                .all_logits = o->all_logits,
                                .verify = o->n_max + 1,
                                .tap = p->model->hp.tap,
                                .n_taps = p->model->hp.n_taps,
                                .tap_want = p->model->fc.want});
    const struct qw_dflash_params params = {
        .draft = {.n_max = o->n_max, .n_min = o->n_min, .p_min = o->p_min},
        .context = o->context,
        .rows = o->no_rings ? o->context : qw_target_rows(p->net.t),
        .kv_bits = bits,
        .attn = attention_for(&p->model->hp, bits, o->gpu_shape)};
    if (o->largest > 0)
        dev->max_alloc = o->largest;
    OK(qw_dflash_open(&p->d, p->model, p->net.model, p->net.t, &params, &err));
    dev->max_alloc = largest;
}

void pair_close(struct pair *p)
{
    qw_drafter_close(p->d);
    net_close(&p->net);
    qw_draft_model_close(p->model);
    qw_gguf_close(p->file);
}

void pair_reset(struct pair *p)
{
    net_reset(&p->net);
    p->d->ops->rewind(p->d, 0);
}

int pair_pos(const struct pair *p)
{
    return qw_target_state(p->net.t)->pos;
}

void pair_feed(struct pair *p, const int32_t *id, int n, int chunk)
{
    for (int at = 0, rows; at < n; at += rows) {
        rows = n - at < chunk ? n - at : chunk;
        const int pos = pair_pos(p);
        OK(qw_target_forward(p->net.t, id + at, rows, false, &err));
        OK(p->d->ops->observe(p->d, rows, pos, p->rests, &err));
        OK(qw_target_wait(p->net.t, &err));
    }
}

int pair_propose(struct pair *p, int32_t id, int32_t *draft)
{
    const int32_t pos = pair_pos(p);
    int32_t block[QW_DRAFT_IDS + QW_MAX_DRAFT];
    OK(qw_dev_write(net_dev(), p->d->next, 4 * QW_CYC_POS, &pos, 4, true, &err));
    OK(qw_dev_write(net_dev(), p->d->next, 4 * QW_CYC_IDS, &id, 4, true, &err));
    OK(p->d->ops->propose(p->d, NULL, 0, NULL, &err));
    OK(qw_dev_read(net_dev(), qw_target_draft(p->net.t), 0, block, sizeof(block), &err));
    const int n = block[QW_DRAFT_COUNT];
    MUST(n >= 0 && n <= p->d->n_max, "a draft of %d tokens", n);
    memcpy(draft, block + QW_DRAFT_IDS, (size_t)n * sizeof(*draft));
    return n;
}

void pair_verify(struct pair *p, int32_t id, const int32_t *draft, int drafts, int count)
{
    int32_t block[QW_DRAFT_IDS + QW_MAX_DRAFT] = {drafts};
    memcpy(block + QW_DRAFT_IDS, draft, (size_t)drafts * sizeof(*draft));
    OK(qw_dev_write(net_dev(), qw_target_draft(p->net.t), 0, block, sizeof(block), true,
                    &err));
    OK(qw_target_verify(p->net.t, id, drafts, &err));
    OK(p->d->ops->observe(p->d, drafts + 1, pair_pos(p), false, &err));
    OK(qw_target_wait(p->net.t, &err));
    qw_target_commit(p->net.t, count);
}

float *pair_logits(const struct pair *p)
{
    int ld;
    const size_t V = (size_t)p->net.n_vocab, rows = (size_t)p->d->n_max;
    cl_mem buf = qw_dflash_logits(p->d, &ld);
    MUST(buf != NULL, "a drafter without logits");
    float *all = qw_alloc(rows * (size_t)ld, sizeof(*all));
    OK(qw_dev_read(net_dev(), buf, 0, all, rows * (size_t)ld * sizeof(*all), &err));
    for (size_t r = 1; r < rows; r++)
        memmove(all + r * V, all + r * (size_t)ld, V * sizeof(*all));
    return all;
}

/* ---- files ---- */

char *pair_oracle(const char *type, const char *name)
{
    char *dir = net_temp(type), *path = qw_sprintf("%s/%s", dir, name);
    if (access(dir, F_OK) != 0) {
        char *make = net_script("make_tiny.py"), *ref = net_script("ref.py");
        char *command = qw_sprintf("exec 2>&1; mkdir '%s' && %s '%s' %s && %s '%s'", dir,
                                   make, dir, type, ref, dir);
        net_wait(net_start(command));
        free(command);
        free(make);
        free(ref);
    }
    free(dir);
    return path;
}

char *pair_draft_path(void)
{
    return net_source("models/tiny/tiny-qwen35-dflash-q8_0.gguf");
}

char *pair_target_path(const char *which)
{
    char *name = qw_sprintf("models/tiny/tiny-qwen35-%s.gguf", which);
    char *path = net_source(name);
    free(name);
    return path;
}
