/* SPDX-License-Identifier: MIT */
/* Sessions on a device that fails (tests/clfault.c, linked in): whichever OpenCL call of
 * a run, a save, a restore or a fork fails, the call ends with QW_EDEVICE and a message,
 * leaves no file behind, and what the session does next is right: nothing of a step that
 * broke off stays. */
#include <stdlib.h>
#include <string.h>

#include "session.h"
#include "session_util.h"

enum { TOKENS = 10, PROMPT = 12 };
static const struct setting settings[] = {
    {"dflash", {"speculation.method=dflash"}, 1},
    {"ngram, sampled",
     {"speculation.method=ngram", "sampling.temperature=0.4", "batch.prefill=16"},
     3},
};
enum { N_SETTINGS = sizeof(settings) / sizeof(settings[0]) };
static const char *const kinds[] = {
    "CLF_FAIL_ENQUEUE", "CLF_FAIL_READ", "CLF_FAIL_WRITE",  "CLF_FAIL_COPY",
    "CLF_FAIL_FILL",    "CLF_FAIL_WAIT", "CLF_FAIL_KERNEL", "CLF_FAIL_BUFFER"};
enum { N_KINDS = sizeof(kinds) / sizeof(kinds[0]) };

struct subject {
    struct opened p;
    const char *label;
    struct qw_session *s;
    struct qw_result want, rest; /* the prompt's answer, what follows it */
    char digest[65];             /* after the answer */
    char *saved;                 /* the session after the answer */
};

/* An act on the session under test; what it opens it closes. */
typedef int act(struct subject *t, struct qw_err *err);

static int answer(struct subject *t, const int32_t *id, size_t n, bool resume,
                  struct qw_err *err)
{
    const struct qw_generate g = {.hash_logits = true, .resume = resume};
    struct qw_result r;
    const int rc = qw_session_generate(t->s, id, n, &g, &r, err);
    qw_result_free(&r);
    return rc;
}

static int ask(struct subject *t, struct qw_err *err)
{
    return answer(t, t->p.prompt.id, PROMPT, false, err);
}

static int go_on(struct subject *t, struct qw_err *err)
{
    size_t n;
    const int32_t *id = qw_session_ids(t->s, &n);
    return answer(t, id, n, true, err);
}

static int save(struct subject *t, struct qw_err *err)
{
    char *path = qw_sprintf("%s/new", session_dir());
    const int files = session_files(), rc = qw_session_snapshot(t->s, path, err);
    CHECK(session_files() == files + (rc == QW_OK), "%d files, now %d", files,
          session_files());
    remove(path);
    free(path);
    return rc;
}

static int load(struct subject *t, struct qw_err *err)
{
    return qw_session_restore(t->s, t->saved, err);
}

static int fork_it(struct subject *t, struct qw_err *err)
{
    struct qw_session *f = NULL;
    const int rc = qw_session_fork(&f, t->s, err);
    qw_session_close(f);
    return rc;
}

static int digest(struct subject *t, struct qw_err *err)
{
    char hex[65];
    return qw_session_digest(t->s, hex, err);
}

static const struct {
    const char *name;
    act *run;
    bool settles; /* takes the rows behind S in */
} acts[] = {{"ask", ask, false},   {"go on", go_on, false}, {"save", save, true},
            {"load", load, false}, {"fork", fork_it, true}, {"digest", digest, true}};
enum { N_ACTS = sizeof(acts) / sizeof(acts[0]) };

/* The session has made its answer; S is behind its position where that matters. */
static void bring_back(struct subject *t, bool behind)
{
    if (!behind) {
        OK(qw_session_restore(t->s, t->saved, &err));
        return;
    }
    OK(qw_session_reset(t->s, &err));
    struct qw_result r = generate(t->s, t->p.prompt.id, PROMPT, false);
    const struct qw_state *state = qw_target_state(t->s->target);
    MUST(same(&r, &t->want), "%s: another answer", t->label);
    MUST(state->stored < state->pos, "%s: the last step accepted no draft", t->label);
    qw_result_free(&r);
}

static void open_subject(struct subject *t, const struct setting *s)
{
    *t = (struct subject){.label = s->label};
    open_engine(&t->p, s, TOKENS, "model.context=256");
    OK(qw_session_open(&t->s, t->p.e, NULL, &err));
    t->want = generate(t->s, t->p.prompt.id, PROMPT, false);
    OK(qw_session_digest(t->s, t->digest, &err));
    t->saved = qw_sprintf("%s/saved", session_dir());
    OK(qw_session_snapshot(t->s, t->saved, &err));
    t->rest = resume(t->s);
}

static void close_subject(struct subject *t)
{
    qw_result_free(&t->want);
    qw_result_free(&t->rest);
    qw_session_close(t->s);
    close_engine(&t->p);
    remove(t->saved);
    free(t->saved);
}

/* An empty timeline, or the one that was, and right in either case. */
static void check_after(struct subject *t, const char *what, const char *kind, int at)
{
    char hex[65];
    size_t n;
    qw_session_ids(t->s, &n);
    if (n > 0) {
        OK(qw_session_digest(t->s, hex, &err));
        CHECK(strcmp(hex, t->digest) == 0, "%s, %s: %s %d: the state is another",
              t->label, what, kind, at);
        struct qw_result r = resume(t->s);
        CHECK(same(&r, &t->rest), "%s, %s: %s %d: goes on otherwise", t->label, what,
              kind, at);
        qw_result_free(&r);
    } else {
        struct qw_result r = generate(t->s, t->p.prompt.id, PROMPT, false);
        CHECK(same(&r, &t->want), "%s, %s: %s %d: another answer", t->label, what, kind,
              at);
        qw_result_free(&r);
    }
}

/* Call number `at` of this kind fails, alone or with all after it. False: the act makes
 * fewer of them. */
static bool strike(struct subject *t, int i, const char *kind, int at, bool once)
{
    struct qw_err err = {""};
    char number[16];
    snprintf(number, sizeof(number), "%d", at);
    bring_back(t, acts[i].settles);
    if (once)
        setenv("CLF_ONCE", "1", 1);
    setenv(kind, number, 1);
    const int rc = acts[i].run(t, &err);
    unsetenv(kind);
    unsetenv("CLF_ONCE");
    if (rc == QW_OK)
        return false;
    CHECK(rc == QW_EDEVICE && strstr(err.msg, "CL_") != NULL, "%s, %s: %s %d: %d %s",
          t->label, acts[i].name, kind, at, rc, err.msg);
    check_after(t, acts[i].name, kind, at);
    return true;
}

static void strikes(struct subject *t, int i, int *struck)
{
    for (int k = 0; k < N_KINDS; k++) {
        bool once = (i + k) % 2;
        for (int at = 1; strike(t, i, kinds[k], at, once); at += 6 * at + 1) {
            ++*struck;
            once = !once;
        }
    }
}

static void every_call(void)
{
    for (int s = 0; s < N_SETTINGS; s++) {
        struct subject t;
        open_subject(&t, &settings[s]);
        for (int i = 0; i < N_ACTS; i++) {
            int struck = 0;
            if (s == 0 || acts[i].settles)
                strikes(&t, i, &struck);
            printf("  %s, %s: %d failures\n", t.label, acts[i].name, struck);
            CHECK(struck > 3 || s > 0, "%s hardly failed", acts[i].name);
        }
        close_subject(&t);
    }
}

QW_TESTS(T(every_call), T(session_done))
