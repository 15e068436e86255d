/* SPDX-License-Identifier: MIT */
/* generate.c - a session: prefill, then one token after the other, text out as it becomes
 * final. */
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"

struct qw_session {
    struct qw_engine *e;
    struct qw_target *target;
    struct qw_sampler *sampler;
    float *logits; /* one row, read back only when a row is needed on the host */
};

/* What is made so far: text that is final, text held back for a stop text, the hash. */
struct run {
    struct qw_session *s;
    const struct qw_generate *g;
    struct qw_result *r;
    struct qw_detok detok;
    struct qw_buf text; /* all of it; [0, sent) is out */
    size_t sent;
    EVP_MD_CTX *hash;
    size_t cap;
    double start, first, last;
};

static int open_session(struct qw_session **out, struct qw_engine *e, bool scoring,
                        struct qw_err *err)
{
    struct qw_session *s = qw_alloc(1, sizeof(*s));
    struct qw_target_params p = qw_engine_target_params(e);
    struct qw_sampling sampling = qw_engine_sampling(e);
    s->e = e;
    p.all_logits = scoring;
    int rc = qw_target_open(&s->target, e->model, e->kern, &p, err);
    if (rc == QW_OK) {
        s->sampler = qw_sampler_open(&sampling, e->model->hp.n_vocab);
        s->logits = qw_alloc((size_t)e->model->hp.n_vocab, sizeof(float));
        rc = qw_target_wait(s->target, err);
    }
    if (rc != QW_OK)
        qw_session_close(s);
    else
        *out = s;
    return rc;
}

int qw_session_open(struct qw_session **out, struct qw_engine *e, struct qw_err *err)
{
    return open_session(out, e, false, err);
}

int qw_session_open_scoring(struct qw_session **out, struct qw_engine *e,
                            struct qw_err *err)
{
    return open_session(out, e, true, err);
}

void qw_session_close(struct qw_session *s)
{
    if (s == NULL)
        return;
    qw_target_close(s->target);
    qw_sampler_close(s->sampler);
    free(s->logits);
    free(s);
}

int qw_session_reset(struct qw_session *s, struct qw_err *err)
{
    struct qw_sampling sampling = qw_engine_sampling(s->e);
    qw_sampler_close(s->sampler);
    s->sampler = qw_sampler_open(&sampling, s->e->model->hp.n_vocab);
    return qw_state_reset(qw_target_state(s->target), err);
}

static bool interrupted(const struct qw_generate *g)
{
    return g->interrupt != NULL && *g->interrupt;
}

/* Feed ids in steps of at most the plan's width; logits of the last one when head. */
static int prefill(struct qw_session *s, const int32_t *id, size_t n, bool head,
                   const struct qw_generate *g, struct qw_err *err)
{
    const size_t most = (size_t)qw_target_prefill_rows(s->target);
    struct qw_progress bar;
    int rc = QW_OK;
    qw_progress_start(&bar, "prefill", g->show);
    bar.shown += 2.0; /* only when it takes longer than that */
    for (size_t at = 0; rc == QW_OK && at < n;) {
        const size_t step = n - at < most ? n - at : most;
        if (interrupted(g)) {
            rc = qw_fail(err, QW_EINTR, "interrupted");
            break;
        }
        rc =
            qw_target_forward(s->target, id + at, (int)step, head && at + step == n, err);
        at += step;
        if (rc == QW_OK && at < n) /* the step's control block is free again */
            rc = qw_target_wait(s->target, err);
        qw_progress_step(&bar, at, n);
    }
    qw_progress_end(&bar);
    return rc;
}

/* The token the last head decided: the device's argmax, or the host's sampler on the row.
 */
static int next_token(struct run *run, int32_t *id, struct qw_err *err)
{
    struct qw_session *s = run->s;
    const bool greedy = qw_sampler_is_argmax(s->sampler);
    int rc = QW_OK;
    if (!greedy || run->hash != NULL) {
        rc = qw_target_read_logits(s->target, s->logits, 1, err);
        if (rc == QW_OK)
            rc = qw_sampler_pick(s->sampler, s->logits, id, err);
        if (rc == QW_OK && run->hash != NULL)
            EVP_DigestUpdate(run->hash, s->logits,
                             (size_t)s->e->model->hp.n_vocab * sizeof(float));
        return rc;
    }
    return qw_target_read_argmax(s->target, id, 1, err);
}

/* Length of the longest tail of text[from..] that begins a stop text; *found where one is
 * whole. */
static size_t held_back(const struct qw_engine *e, const struct qw_buf *text, size_t from,
                        size_t *found)
{
    size_t hold = 0, first = (size_t)-1;
    for (size_t i = 0; i < e->n_stop; i++) {
        const char *stop = e->stop[i];
        const size_t n = strlen(stop), have = text->len - from;
        const char *hit =
            n > 0 && have >= n ? memmem(text->data + from, have, stop, n) : NULL;
        if (hit != NULL && (size_t)(hit - text->data) < first)
            first = (size_t)(hit - text->data);
        for (size_t k = n > 0 && n - 1 < have ? n - 1 : have; k > hold; k--)
            if (k < n && memcmp(text->data + text->len - k, stop, k) == 0) {
                hold = k;
                break;
            }
    }
    *found = first;
    return hold;
}

static int send(struct run *run, size_t end)
{
    int stop = 0;
    if (end > run->sent && run->g->emit != NULL)
        stop = run->g->emit(run->g->arg, run->text.data + run->sent, end - run->sent);
    if (end > run->sent)
        run->sent = end;
    return stop ? QW_EINTR : QW_OK;
}

/* Take one token: its text goes out as far as no stop text may begin in it. True at a
 * stop text. */
static bool take(struct run *run, int32_t id, int *rc)
{
    struct qw_tokens *ids = &run->r->ids;
    size_t found;
    if (ids->n == run->cap) {
        run->cap = run->cap ? 2 * run->cap : 256;
        ids->id = qw_realloc(ids->id, run->cap, sizeof(int32_t));
    }
    ids->id[ids->n++] = id;
    qw_sampler_accept(run->s->sampler, id);
    if (run->s->e->tok == NULL)
        return false;
    qw_detok_feed(&run->detok, id, &run->text);
    if (run->text.data == NULL)
        return false;
    const size_t hold = held_back(run->s->e, &run->text, run->sent, &found);
    if (found != (size_t)-1) {
        run->text.len = found;
        run->text.data[found] = '\0';
        run->detok.n_held = 0;
        *rc = send(run, found);
        return true;
    }
    *rc = send(run, run->text.len - hold);
    return false;
}

/* The thinking budget is spent inside an open think block: close it as the model would.
 */
static int close_thinking(struct run *run, struct qw_err *err)
{
    struct qw_tokens end;
    int rc = qw_engine_tokenize(run->s->e, "\n</think>\n\n", 11, true, &end, err);
    for (size_t i = 0; rc == QW_OK && i < end.n; i++) {
        take(run, end.id[i], &rc);
        if (rc == QW_OK && i + 1 < end.n) {
            rc = qw_target_forward(run->s->target, &end.id[i], 1, false, err);
            if (rc == QW_OK)
                rc = qw_target_wait(run->s->target, err);
        }
    }
    if (rc == QW_OK)
        free(end.id);
    return rc;
}

static bool in_thought(const struct run *run)
{
    return run->s->e->thinking &&
           (run->text.data == NULL ||
            memmem(run->text.data, run->text.len, "</think>", 8) == NULL);
}

static int decode(struct run *run, struct qw_err *err)
{
    struct qw_engine *e = run->s->e;
    struct qw_state *state = qw_target_state(run->s->target);
    const size_t limit = (size_t)qw_engine_max_tokens(e);
    const int budget = qw_engine_thinking_budget(e);
    for (;;) {
        int32_t id;
        int rc = next_token(run, &id, err);
        run->last = qw_now();
        if (run->first == 0.0)
            run->first = run->last;
        if (rc != QW_OK)
            return rc;
        if (e->tok != NULL && qw_tok_is_eog(e->tok, id)) {
            run->r->finish_reason = "stop";
            return QW_OK;
        }
        if (take(run, id, &rc)) {
            run->r->finish_reason = "stop";
            return rc;
        }
        if (rc == QW_OK && budget > 0 && (int)run->r->ids.n == budget &&
            in_thought(run) && state->pos + 8 < qw_engine_context(e)) {
            rc = qw_target_forward(run->s->target, &id, 1, false, err);
            if (rc == QW_OK)
                rc = qw_target_wait(run->s->target, err);
            if (rc == QW_OK)
                rc = close_thinking(run, err);
            id = run->r->ids.id[run->r->ids.n - 1];
        }
        if (rc != QW_OK)
            return rc;
        if (run->r->ids.n >= limit || state->pos >= qw_engine_context(e)) {
            run->r->finish_reason = "length";
            return QW_OK;
        }
        if (interrupted(run->g))
            return qw_fail(err, QW_EINTR, "interrupted");
        rc = qw_target_forward(run->s->target, &id, 1, true, err);
        if (rc != QW_OK)
            return rc;
    }
}

static void finish(struct run *run, size_t n_prompt, int rc)
{
    struct qw_result *r = run->r;
    unsigned char md[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    if (run->s->e->tok != NULL && strcmp(r->finish_reason, "stop") != 0)
        qw_detok_flush(&run->detok, &run->text);
    if (rc != QW_EDEVICE) /* no text after an error of the device */
        send(run, run->text.len);
    if (run->hash != NULL) {
        EVP_DigestFinal_ex(run->hash, md, &len);
        for (unsigned i = 0; i < len; i++)
            snprintf(r->logits_sha256 + 2 * i, 3, "%02x", md[i]);
        EVP_MD_CTX_free(run->hash);
    }
    r->text = run->text.data ? run->text.data : qw_strdup("");
    r->text_len = run->text.len;
    if (run->first > 0.0) {
        const double ttft = run->first - run->start, rest = run->last - run->first;
        r->ttft_ms = 1e3 * ttft;
        r->prefill_tok_s = ttft > 0.0 ? (double)n_prompt / ttft : 0.0;
        r->decode_tok_s =
            rest > 0.0 && r->ids.n > 1 ? (double)(r->ids.n - 1) / rest : 0.0;
    }
}

int qw_session_generate(struct qw_session *s, const int32_t *prompt, size_t n,
                        const struct qw_generate *g, struct qw_result *r,
                        struct qw_err *err)
{
    struct run run = {.s = s, .g = g, .r = r, .start = qw_now()};
    const int context = qw_engine_context(s->e), pos = qw_target_state(s->target)->pos;
    *r = (struct qw_result){.finish_reason = "error", .prompt_tokens = n};
    if (s->e->tok != NULL)
        qw_detok_init(&run.detok, s->e->tok, false);
    if (g->hash_logits) {
        run.hash = EVP_MD_CTX_new();
        EVP_DigestInit_ex(run.hash, EVP_sha256(), NULL);
    }
    int rc = QW_OK;
    if (n == 0)
        rc = qw_fail(err, QW_EUSAGE,
                     "the prompt is empty: there is nothing to go on from");
    else if (n >= (size_t)(context - pos))
        rc = qw_fail(err, QW_EUSAGE,
                     "the prompt has %zu tokens, model.context = %d leaves room for %d "
                     "and an answer",
                     n, context, context - pos - 1);
    for (size_t i = 0; rc == QW_OK && i < n; i++)
        if (prompt[i] < 0 || prompt[i] >= s->e->model->hp.n_vocab)
            rc = qw_fail(err, QW_EUSAGE, "token id %d is outside the vocabulary of %d",
                         prompt[i], s->e->model->hp.n_vocab);
    for (size_t i = 0; rc == QW_OK && i < n; i++)
        qw_sampler_accept(s->sampler, prompt[i]);
    if (rc == QW_OK)
        rc = prefill(s, prompt, n, true, g, err);
    if (rc == QW_OK)
        rc = decode(&run, err);
    if (rc == QW_EINTR) {
        r->finish_reason = "interrupted";
        qw_fail(err, rc, "interrupted");
    }
    finish(&run, n, rc);
    return rc;
}

void qw_result_free(struct qw_result *r)
{
    free(r->ids.id);
    free(r->text);
    *r = (struct qw_result){0};
}

int qw_session_score(struct qw_session *s, const int32_t *id, size_t n, float *logits,
                     float *hidden, struct qw_err *err)
{
    const size_t most = (size_t)qw_target_prefill_rows(s->target);
    const size_t V = (size_t)s->e->model->hp.n_vocab, E = (size_t)s->e->model->hp.n_embd;
    int rc = QW_OK;
    for (size_t at = 0; rc == QW_OK && at < n;) {
        const size_t step = n - at < most ? n - at : most;
        rc = qw_target_forward(s->target, id + at, (int)step, true, err);
        if (rc == QW_OK)
            rc = qw_target_read_logits(s->target, logits + at * V, (int)step, err);
        if (rc == QW_OK && hidden != NULL)
            rc = qw_target_read_hidden(s->target, hidden + at * E, (int)step, err);
        at += step;
    }
    return rc;
}
