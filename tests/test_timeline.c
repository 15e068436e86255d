/* SPDX-License-Identifier: MIT */
/* What a session may be put through in any order: interrupts, other prompts, random
 * numbers that go on. Whatever came before, an answer is that of a session that was fed
 * the same tokens and nothing else, and what is saved can be restored. */
#include <stdlib.h>
#include <string.h>

#include "session.h"
#include "session_util.h"

enum { TOKENS = 32 };
static const struct setting settings[] = {
    {"plain", {"speculation.method=none"}, 1},
    {"dflash", {"speculation.method=dflash"}, 1},
    {"dflash, adaptive, Q8_0 cache, sampled",
     {"speculation.method=dflash", "speculation.adaptive=yes", "kv.target=q8_0",
      "sampling.temperature=0.8", "sampling.seed=11"},
     5},
    {"ngram, sampled",
     {"speculation.method=ngram", "speculation.n_max=8", "sampling.temperature=0.3",
      "sampling.presence_penalty=0.5"},
     4},
};
enum { N_SETTINGS = sizeof(settings) / sizeof(settings[0]) };

static void open_tiny(struct opened *p, const struct setting *s)
{
    open_engine(p, s, TOKENS, "model.context=512");
}

/* ---- interrupts ---- */

struct stopper {
    size_t after, seen; /* bytes of text */
};

static int stop_after(void *arg, const char *text, size_t len)
{
    struct stopper *s = arg;
    (void)text;
    s->seen += len;
    return s->seen >= s->after;
}

/* What the session is now goes to a file and comes back in a session of its own. */
static void check_saved(struct qw_session *s, const struct opened *p, const char *what)
{
    char *path = qw_sprintf("%s/saved", session_dir()), here[65], there[65];
    struct qw_session *t;
    struct qw_err why = {""};
    size_t n, m;
    OK(qw_session_open(&t, p->e, NULL, &err));
    OK(qw_session_snapshot(s, path, &err));
    const int rc = qw_session_restore(t, path, &why);
    CHECK(rc == QW_OK, "%s: %s", what, why.msg);
    OK(qw_session_digest(s, here, &err));
    OK(qw_session_digest(t, there, &err));
    const int32_t *a = qw_session_ids(s, &n), *b = qw_session_ids(t, &m);
    CHECK(strcmp(here, there) == 0, "%s: another state", what);
    CHECK(n == m && (n == 0 || memcmp(a, b, n * sizeof(*a)) == 0), "%s: other tokens",
          what);
    qw_session_close(t);
    free(path);
}

/* Ended in the middle of an answer, anywhere in an accepted run: resumed, it is the
 * answer. */
static void check_stopped(const struct opened *p, const struct qw_result *whole,
                          size_t after, const char *label)
{
    struct stopper stop = {.after = after};
    const struct qw_generate g = {.emit = stop_after, .arg = &stop};
    struct qw_session *s;
    struct qw_result first;
    struct qw_err why = {""};
    OK(qw_session_open(&s, p->e, NULL, &err));
    const int rc = qw_session_generate(s, p->prompt.id, p->prompt.n, &g, &first, &why);
    CHECK(rc == QW_EINTR && strcmp(first.finish_reason, "interrupted") == 0, "%d %s", rc,
          first.finish_reason);
    check_saved(s, p, label);
    struct qw_result rest = resume(s);
    const size_t k = first.ids.n, left = whole->ids.n - k;
    CHECK(k > 0 && k < whole->ids.n && rest.ids.n >= left &&
              memcmp(first.ids.id, whole->ids.id, k * sizeof(int32_t)) == 0 &&
              memcmp(rest.ids.id, whole->ids.id + k, left * sizeof(int32_t)) == 0,
          "%s: stopped after %zu tokens and resumed", label, k);
    qw_result_free(&first);
    qw_result_free(&rest);
    qw_session_close(s);
}

static void stopped_answers(void)
{
    for (int i = 0; i < N_SETTINGS; i++) {
        struct opened p;
        struct qw_session *s;
        open_tiny(&p, &settings[i]);
        OK(qw_session_open(&s, p.e, NULL, &err));
        struct qw_result whole = generate(s, p.prompt.id, p.prompt.n, false);
        for (size_t after = 1; after < whole.text_len / 2; after += 37)
            check_stopped(&p, &whole, after, settings[i].label);
        qw_result_free(&whole);
        qw_session_close(s);
        close_engine(&p);
    }
}

/* A prompt that goes on from what is held, and another one: interrupted before the first
 * token is fed, then asked again. */
static void stopped_prompts(void)
{
    static const volatile sig_atomic_t now = 1;
    const struct qw_generate g = {.interrupt = &now};
    struct opened p;
    struct qw_session *s, *fresh;
    struct qw_result r;
    open_tiny(&p, &settings[1]);
    OK(qw_session_open(&s, p.e, NULL, &err));
    OK(qw_session_open(&fresh, p.e, NULL, &err));
    r = generate(s, p.prompt.id, p.prompt.n, false);
    qw_result_free(&r);
    for (int other = 0; other < 2; other++) {
        size_t n;
        const int32_t *held = qw_session_ids(s, &n);
        int32_t *id = qw_alloc(n + 3, sizeof(*id));
        memcpy(id, held, n * sizeof(*id));
        id[0] += other;
        CHECK(qw_session_generate(s, id, n + 3, &g, &r, NULL) == QW_EINTR);
        CHECK(other ? r.cached_tokens == 0 : r.cached_tokens == n - 1, "%zu of %zu",
              r.cached_tokens, n);
        qw_result_free(&r);
        check_saved(s, &p, "an interrupted prompt");
        r = generate(s, id, n + 3, false);
        struct qw_result want = generate(fresh, id, n + 3, false);
        CHECK(same(&r, &want), "after an interrupted prompt: another answer");
        qw_result_free(&r);
        qw_result_free(&want);
        free(id);
    }
    qw_session_close(fresh);
    qw_session_close(s);
    close_engine(&p);
}

/* ---- random numbers ---- */

/* resume goes on with them also where the prompt is another one. */
static void random_numbers(void)
{
    struct opened p;
    struct qw_session *s, *other, *fresh;
    open_tiny(&p, &settings[2]);
    OK(qw_session_open(&s, p.e, NULL, &err));
    OK(qw_session_open(&other, p.e, NULL, &err));
    OK(qw_session_open(&fresh, p.e, NULL, &err));
    struct qw_result first = generate(s, p.prompt.id, p.prompt.n, false);
    *qw_sampler_rng(other->sampler) = *qw_sampler_rng(s->sampler);
    struct qw_result a = generate(s, p.prompt.id + 1, p.prompt.n - 1, true);
    struct qw_result b = generate(other, p.prompt.id + 1, p.prompt.n - 1, true);
    struct qw_result c = generate(fresh, p.prompt.id + 1, p.prompt.n - 1, false);
    CHECK(a.cached_tokens == 0 && same(&a, &b), "the numbers began anew");
    CHECK(!same(&a, &c), "these seeds tell nothing");
    qw_result_free(&first);
    qw_result_free(&a);
    qw_result_free(&b);
    qw_result_free(&c);
    qw_session_close(s);
    qw_session_close(other);
    qw_session_close(fresh);
    close_engine(&p);
}

/* ---- drafts that come to nothing ---- */

static const struct qw_drafter_ops *real_ops;
static int proposals;

static int counted(struct qw_drafter *d, const int32_t *id, size_t n, int *count,
                   struct qw_err *err)
{
    proposals++;
    return real_ops->propose(d, id, n, count, err);
}

/* A drafter that is asked and has nothing to say costs what it costs: adaptive drafting
 * lets it be. */
static void silent_drafter(void)
{
    enum { MANY = 160 };
    static const struct setting silent = {
        "p_min that cuts all",
        {"speculation.method=dflash", "speculation.adaptive=yes", "speculation.p_min=1"},
        3};
    struct opened p;
    struct qw_session *s;
    open_engine(&p, &silent, MANY, "model.context=512");
    OK(qw_session_open(&s, p.e, NULL, &err));
    struct qw_drafter_ops ops = *(real_ops = s->drafter->ops);
    ops.propose = counted;
    s->drafter->ops = &ops;
    struct qw_result r = generate(s, p.prompt.id, p.prompt.n, false);
    s->drafter->ops = real_ops;
    CHECK(r.ids.n > MANY / 2 && r.speculation.drafted < MANY / 8,
          "%zu tokens, %lld drafted", r.ids.n, r.speculation.drafted);
    CHECK(proposals > 0 && proposals < MANY / 4, "asked %d times for %zu tokens",
          proposals, r.ids.n);
    qw_result_free(&r);
    qw_session_close(s);
    close_engine(&p);
}

/* ---- thoughts ---- */

static int closed(const char *text)
{
    int n = 0;
    for (; (text = strstr(text, "</think>")) != NULL; text++)
        n++;
    return n;
}

static struct qw_tokens ask_why(struct qw_engine *e)
{
    struct qw_tokens ids;
    json_t *chat =
        json_pack("[{s:s, s:s}]", "role", "user", "content", "Why is the sky blue?");
    OK(qw_engine_chat_prompt(e, chat, NULL, &ids, &err));
    json_decref(chat);
    return ids;
}

/* The budget of thoughts is for the answer that thinks: not for another session's whose
 * prompt is no question, not again when the answer goes on; and it is still there where
 * an answer ended inside its thought, also through a file. */
static void thoughts(void)
{
    enum { BUDGET = 3 };
    static const struct setting on = {
        "a budget for thoughts", {"chat.thinking=on", "chat.thinking_budget=3"}, 2};
    struct opened p;
    struct qw_session *s, *plain, *file;
    open_engine(&p, &on, 3 * BUDGET, "model.context=512");
    char *path = qw_sprintf("%s/thought", session_dir());
    OK(qw_session_open(&s, p.e, NULL, &err));
    OK(qw_session_open(&plain, p.e, NULL, &err));
    OK(qw_session_open(&file, p.e, NULL, &err));
    struct qw_result before = generate(plain, p.prompt.id, p.prompt.n, false);
    struct qw_tokens why = ask_why(p.e);
    struct qw_result first = generate(s, why.id, why.n, false);
    struct qw_result then = generate(plain, p.prompt.id, p.prompt.n, false);
    CHECK(same(&before, &then), "a question to one session changed another's answer");
    CHECK(closed(before.text) == 0 && closed(first.text) == 1, "%s", first.text);
    struct qw_result more = resume(s);
    CHECK(more.ids.n > BUDGET && closed(more.text) == 0,
          "%zu tokens, closed %d times: %s", more.ids.n, closed(more.text), more.text);
    struct stopper stop = {.after = 1};
    const struct qw_generate g = {.emit = stop_after, .arg = &stop};
    struct qw_result piece;
    CHECK(qw_session_generate(plain, why.id, why.n, &g, &piece, NULL) == QW_EINTR);
    CHECK(piece.ids.n < BUDGET && closed(piece.text) == 0, "%s", piece.text);
    OK(qw_session_snapshot(plain, path, &err));
    OK(qw_session_restore(file, path, &err));
    struct qw_result rest = resume(file);
    CHECK(closed(rest.text) == 1, "not closed: %s", rest.text);
    qw_result_free(&before);
    qw_result_free(&first);
    qw_result_free(&then);
    qw_result_free(&more);
    qw_result_free(&piece);
    qw_result_free(&rest);
    free(why.id);
    free(path);
    qw_session_close(s);
    qw_session_close(plain);
    qw_session_close(file);
    close_engine(&p);
}

/* ---- scoring ---- */

/* The ids that were scored are the session's tokens: it can be saved and gone on from. */
static void scored(void)
{
    enum { N = 20 };
    struct opened p;
    struct qw_session_params params;
    struct qw_session *s;
    size_t n;
    open_tiny(&p, &settings[0]);
    qw_session_defaults(&params, p.e);
    params.scoring = true;
    OK(qw_session_open(&s, p.e, &params, &err));
    const size_t V = (size_t)qw_engine_n_vocab(p.e);
    float *in_two = qw_alloc(N * V, sizeof(float)),
          *at_once = qw_alloc(N * V, sizeof(float));
    OK(qw_session_score(s, p.prompt.id, N, at_once, NULL, &err));
    OK(qw_session_reset(s, &err));
    OK(qw_session_score(s, p.prompt.id, 7, in_two, NULL, &err));
    OK(qw_session_score(s, p.prompt.id + 7, N - 7, in_two + 7 * V, NULL, &err));
    CHECK(memcmp(in_two, at_once, N * V * sizeof(float)) == 0, "another score in two");
    const int32_t *id = qw_session_ids(s, &n);
    CHECK(n == N && memcmp(id, p.prompt.id, N * sizeof(*id)) == 0, "%zu tokens", n);
    check_saved(s, &p, "a scored text");
    free(in_two);
    free(at_once);
    qw_session_close(s);
    close_engine(&p);
}

/* ---- two sessions ---- */

/* A session that makes its answer a few tokens at a time, while another is in the middle
 * of a step: decided, not committed, its next draft under way. */
struct guest {
    struct qw_session *s;
    struct qw_tokens made;
    size_t n_prompt;
};

static int a_piece(void *arg, const char *text, size_t len)
{
    struct guest *b = arg;
    struct stopper at_once = {.after = 1};
    const struct qw_generate g = {.emit = stop_after, .arg = &at_once, .resume = true};
    struct qw_result r;
    size_t n;
    const int32_t *id = qw_session_ids(b->s, &n);
    (void)text;
    (void)len;
    if (n >= b->n_prompt + TOKENS)
        return 0;
    CHECK(qw_session_generate(b->s, id, n, &g, &r, NULL) == QW_EINTR);
    b->made.id = qw_realloc(b->made.id, b->made.n + r.ids.n, sizeof(int32_t));
    memcpy(b->made.id + b->made.n, r.ids.id, r.ids.n * sizeof(int32_t));
    b->made.n += r.ids.n;
    qw_result_free(&r);
    return 0;
}

static void check_two(struct opened *p, const struct qw_session_params *host,
                      const struct qw_session_params *guest)
{
    struct qw_session *a, *alone;
    struct guest b = {.n_prompt = p->prompt.n - 4};
    const int32_t *id = p->prompt.id;
    OK(qw_session_open(&a, p->e, host, &err));
    OK(qw_session_open(&b.s, p->e, guest, &err));
    OK(qw_session_open(&alone, p->e, guest, &err));
    struct qw_result want_a = generate(a, id, p->prompt.n, false);
    struct qw_result want_b = generate(alone, id, b.n_prompt, false), r;
    OK(qw_session_reset(a, &err));
    struct stopper stop = {.after = 1};
    const struct qw_generate start = {.emit = stop_after, .arg = &stop};
    CHECK(qw_session_generate(b.s, id, b.n_prompt, &start, &r, NULL) == QW_EINTR);
    b.made = r.ids;
    r.ids.id = NULL;
    qw_result_free(&r);
    const struct qw_generate both = {.emit = a_piece, .arg = &b, .hash_logits = true};
    OK(qw_session_generate(a, id, p->prompt.n, &both, &r, &err));
    const size_t n = b.made.n < want_b.ids.n ? b.made.n : want_b.ids.n;
    CHECK(same(&r, &want_a), "%s with a guest: another answer", host->method);
    CHECK(n > 8 && memcmp(b.made.id, want_b.ids.id, n * sizeof(*id)) == 0,
          "%s as a guest: another answer", guest->method);
    qw_result_free(&want_a);
    qw_result_free(&want_b);
    qw_result_free(&r);
    free(b.made.id);
    qw_session_close(a);
    qw_session_close(b.s);
    qw_session_close(alone);
}

static void two_sessions(void)
{
    static const char *const method[] = {"none", "ngram", "dflash"};
    struct qw_session_params host, guest;
    struct opened p;
    open_tiny(&p, &settings[1]);
    qw_session_defaults(&host, p.e);
    qw_session_defaults(&guest, p.e);
    guest.n_max = 7;
    guest.temperature = 0.5;
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 3; b++) {
            host.method = method[a];
            guest.method = method[b];
            if (a == 2 || b == 2)
                check_two(&p, &host, &guest);
        }
    close_engine(&p);
}

QW_TESTS(T(stopped_answers), T(stopped_prompts), T(random_numbers), T(silent_drafter),
         T(thoughts), T(scored), T(two_sessions), T(session_done))
