/* SPDX-License-Identifier: MIT */
/* generate.c - a session: prefill, then one token after the other, text out as it becomes
 * final. */
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "session.h"

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
    bool thinking; /* the answer begins inside an open think block */
    double start, first, last;
};

static bool interrupted(const struct qw_generate *g)
{
    return g->interrupt != NULL && *g->interrupt;
}

/* Feed ids in steps of at most the plan's width; logits of the last one. */
static int prefill(struct qw_session *s, const int32_t *id, size_t n,
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
        rc = qw_spec_feed(s->spec, id + at, (int)step, at + step == n, err);
        at += step;
        if (rc == QW_OK && at < n) /* the step's control block is free again */
            rc = qw_target_wait(s->target, err);
        qw_progress_step(&bar, at, n);
    }
    qw_progress_end(&bar);
    return rc;
}

/* Whether rows of logits come to the host: to be sampled, or to be hashed. */
static bool on_host(const struct run *run)
{
    return !qw_sampler_is_argmax(run->s->sampler) || run->hash != NULL;
}

/* The rows of the step just made, where the host decides. */
static int read_rows(struct run *run, const struct qw_step_rows *rows, struct qw_err *err)
{
    return on_host(run)
               ? qw_target_read_logits(run->s->target, run->s->logits, rows->rows, err)
               : QW_OK;
}

/* The token that row r decides: the device's argmax, or the host's sampler on the row. */
static int decide(struct run *run, const struct qw_step_rows *rows, int r, int32_t *id,
                  struct qw_err *err)
{
    const size_t V = (size_t)run->s->e->model->hp.n_vocab;
    const float *row = run->s->logits + (size_t)r * V;
    if (!on_host(run)) {
        *id = rows->best[r];
        return QW_OK;
    }
    int rc = qw_sampler_pick(run->s->sampler, row, id, err);
    if (rc == QW_OK && run->hash != NULL)
        EVP_DigestUpdate(run->hash, row, V * sizeof(float));
    return rc;
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
    session_push(run->s, id);
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

static bool in_thought(const struct run *run)
{
    return run->thinking &&
           (run->text.data == NULL ||
            memmem(run->text.data, run->text.len, "</think>", 8) == NULL);
}

/* The thinking budget is spent inside an open think block. */
static bool must_close_thinking(const struct run *run)
{
    const int budget = qw_engine_thinking_budget(run->s->e);
    return budget > 0 && (int)run->r->ids.n == budget && in_thought(run) &&
           run->s->n + 8 < (size_t)qw_engine_context(run->s->e);
}

/* max_tokens are made, or the context is full. */
static bool used_up(struct run *run)
{
    if (run->r->ids.n < (size_t)qw_engine_max_tokens(run->s->e) &&
        run->s->n <= (size_t)qw_engine_context(run->s->e))
        return false;
    run->r->finish_reason = "length";
    return true;
}

enum more { GO_ON, NEXT_STEP, ALL };

/* Close the block as the model would; its last token is then the newest. What ends an
 * answer ends it here too. */
static enum more close_thinking(struct run *run, int *rc, struct qw_err *err)
{
    struct qw_session *s = run->s;
    struct qw_tokens end = {0};
    enum more more = NEXT_STEP;
    *rc = qw_engine_tokenize(s->e, "\n</think>\n\n", 11, true, &end, err);
    for (size_t i = 0; *rc == QW_OK && more == NEXT_STEP && i < end.n; i++) {
        *rc = qw_spec_feed(s->spec, &s->id[s->n - 1], 1, false, err);
        if (*rc == QW_OK)
            *rc = qw_target_wait(s->target, err);
        if (*rc != QW_OK)
            break;
        if (take(run, end.id[i], rc)) {
            run->r->finish_reason = "stop";
            more = ALL;
        } else if (*rc == QW_OK && used_up(run)) {
            more = ALL;
        }
    }
    free(end.id);
    return *rc == QW_OK ? more : ALL;
}

/* Row r's token, emitted; whether the row behind it counts, a new step is due, or all is
 * said. */
static enum more emit_row(struct run *run, const struct qw_step_rows *rows, int r,
                          int32_t *id, int *rc, struct qw_err *err)
{
    struct qw_engine *e = run->s->e;
    *rc = decide(run, rows, r, id, err);
    run->last = qw_now();
    if (run->first == 0.0)
        run->first = run->last;
    if (*rc != QW_OK)
        return ALL;
    if ((e->tok != NULL && qw_tok_is_eog(e->tok, *id)) || take(run, *id, rc)) {
        run->r->finish_reason = "stop";
        return ALL;
    }
    if (*rc != QW_OK)
        return ALL;
    if (used_up(run))
        return ALL;
    if (must_close_thinking(run))
        return NEXT_STEP;
    return r + 1 < rows->rows && rows->fed[r + 1] == *id ? GO_ON : NEXT_STEP;
}

/* Steps until something ends it. The rows of a step are taken one by one, so that a stop
 * text, the budgets and the sampler see what they would see without a draft. */
static int decode(struct run *run, struct qw_err *err)
{
    struct qw_session *s = run->s;
    const size_t limit = (size_t)qw_engine_max_tokens(s->e),
                 context = (size_t)qw_engine_context(s->e);
    struct qw_step_rows rows = {.rows = 1, .decided = 1};
    int rc = on_host(run) ? QW_OK : qw_target_read_argmax(s->target, rows.best, 1, err);
    for (bool prompt = true; rc == QW_OK; prompt = false) {
        enum more more = GO_ON;
        int32_t id = 0;
        int count = 0;
        rc = read_rows(run, &rows, err);
        if (rc != QW_OK)
            break;
        while (more == GO_ON)
            more = emit_row(run, &rows, count++, &id, &rc, err);
        if (!prompt)
            qw_spec_commit(s->spec, count, id);
        if (more != ALL && must_close_thinking(run))
            more = close_thinking(run, &rc, err);
        if (more == ALL)
            break;
        if (interrupted(run->g))
            rc = qw_fail(err, QW_EINTR, "interrupted");
        if (rc != QW_OK)
            break;
        const size_t wanted = limit - run->r->ids.n, left = context - s->n;
        rc = qw_spec_step(s->spec, s->id, s->n,
                          (int)(wanted - 1 < left ? wanted - 1 : left), on_host(run),
                          &rows, err);
    }
    return rc;
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

/* Does the prompt end inside a think block: just behind its opening, or as the answer did
 * that it goes on from? */
static bool opens_thought(const struct qw_session *s, const int32_t *prompt, size_t n)
{
    static const char opening[] = "<think>\n";
    const size_t len = sizeof(opening) - 1;
    struct qw_detok d;
    struct qw_buf tail = {0};
    if (s->e->tok == NULL)
        return false;
    if (n == s->n && n > 0 && memcmp(s->id, prompt, n * sizeof(*prompt)) == 0)
        return s->thinking;
    qw_detok_init(&d, s->e->tok, true);
    for (size_t i = n > len ? n - len : 0; i < n; i++)
        qw_detok_feed(&d, prompt[i], &tail);
    const bool opens =
        tail.len >= len && memcmp(tail.data + tail.len - len, opening, len) == 0;
    qw_buf_free(&tail);
    return opens;
}

/* Tokens of the prompt that the caches hold already: all they hold, when the prompt goes
 * on from there; else the timeline starts anew. */
static int reuse(struct qw_session *s, const int32_t *prompt, size_t n, size_t *cached,
                 struct qw_err *err)
{
    const size_t held = (size_t)qw_target_state(s->target)->pos;
    *cached = held;
    if (held < n && (held == 0 || memcmp(s->id, prompt, held * sizeof(*prompt)) == 0))
        return QW_OK;
    *cached = 0;
    return qw_session_reset(s, err);
}

static int check_prompt(const struct qw_session *s, const int32_t *prompt, size_t n,
                        struct qw_err *err)
{
    const int context = qw_engine_context(s->e), n_vocab = s->e->model->hp.n_vocab;
    if (n == 0)
        return qw_fail(err, QW_EUSAGE,
                       "the prompt is empty: there is nothing to go on from");
    if (n >= (size_t)context)
        return qw_fail(err, QW_EUSAGE,
                       "the prompt has %zu tokens, model.context = %d leaves room for %d "
                       "and an answer",
                       n, context, context - 1);
    for (size_t i = 0; i < n; i++)
        if (prompt[i] < 0 || prompt[i] >= n_vocab)
            return qw_fail(err, QW_EUSAGE, "token id %d is outside the vocabulary of %d",
                           prompt[i], n_vocab);
    return QW_OK;
}

static void speculation(const struct qw_session *s, const struct qw_spec_stats *before,
                        struct qw_result *r)
{
    const struct qw_spec_stats *now = qw_spec_stats(s->spec);
    struct qw_speculation *p = &r->speculation;
    p->method = s->drafter != NULL ? s->drafter->ops->name : "none";
    p->n_max = s->drafter != NULL ? s->drafter->n_max : 0;
    p->cycles = now->cycles - before->cycles;
    p->drafted = now->drafted - before->drafted;
    p->accepted = now->accepted - before->accepted;
    p->mean_emitted = p->cycles > 0
                          ? (double)(now->emitted - before->emitted) / (double)p->cycles
                          : 0.0;
    for (int i = 0; i < QW_MAX_DRAFT; i++) {
        p->tried[i] = now->tried[i] - before->tried[i];
        p->per_position[i] = now->kept[i] - before->kept[i];
    }
}

/* The prompt's tokens from `cached` on, then the answer. rng: NULL, or the random numbers
 * to go on with. */
static int answer(struct run *run, const int32_t *prompt, size_t n, size_t cached,
                  const struct qw_pcg64 *rng, struct qw_err *err)
{
    struct qw_session *s = run->s;
    for (s->n = 0; s->n < n;)
        session_push(s, prompt[s->n]);
    session_sampler(s, n);
    if (rng != NULL)
        *qw_sampler_rng(s->sampler) = *rng;
    int rc = prefill(s, prompt + cached, n - cached, run->g, err);
    if (rc == QW_EINTR) /* what was not fed is no part of the timeline */
        s->n = (size_t)qw_target_state(s->target)->pos;
    if (rc == QW_OK)
        rc = decode(run, err);
    s->thinking = s->n >= n && in_thought(run);
    return rc;
}

int qw_session_generate(struct qw_session *s, const int32_t *prompt, size_t n,
                        const struct qw_generate *g, struct qw_result *r,
                        struct qw_err *err)
{
    struct run run = {.s = s, .g = g, .r = r, .start = qw_now()};
    struct qw_spec_stats before;
    size_t cached = 0;
    *r = (struct qw_result){.finish_reason = "error", .prompt_tokens = n};
    if (s->e->tok != NULL)
        qw_detok_init(&run.detok, s->e->tok, false);
    if (g->hash_logits) {
        run.hash = EVP_MD_CTX_new();
        EVP_DigestInit_ex(run.hash, EVP_sha256(), NULL);
    }
    int rc = check_prompt(s, prompt, n, err);
    if (rc == QW_OK)
        rc = session_ready(s, err);
    if (rc == QW_OK)
        run.thinking = opens_thought(s, prompt, n);
    const struct qw_pcg64 rng = *qw_sampler_rng(s->sampler); /* a reset seeds it anew */
    if (rc == QW_OK)
        rc = reuse(s, prompt, n, &cached, err);
    r->cached_tokens = cached;
    before = *qw_spec_stats(s->spec);
    if (rc == QW_OK)
        rc = answer(&run, prompt, n, cached, g->resume ? &rng : NULL, err);
    if (rc == QW_EINTR) {
        r->finish_reason = "interrupted";
        qw_fail(err, rc, "interrupted");
    }
    finish(&run, n - cached, rc);
    speculation(s, &before, r);
    return session_result(s, rc);
}

void qw_result_free(struct qw_result *r)
{
    free(r->ids.id);
    free(r->text);
    *r = (struct qw_result){0};
}
