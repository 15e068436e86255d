/* SPDX-License-Identifier: MIT */
/* Sessions of the shipped pair through qwenrun.h: saved, restored in a new process,
 * forked, prompts that go on from what a session holds; limits inside an accepted run. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "session_util.h"

enum { FIRST = 40, REST = 64 };
static const char *self;

static const struct setting settings[] = {
    {"plain", {"speculation.method=none"}, 1},
    {"dflash", {"speculation.method=dflash"}, 1},
    {"dflash, Q8_0 cache, sampled",
     {"speculation.method=dflash", "kv.target=q8_0", "sampling.temperature=0.7",
      "sampling.seed=5"},
     4},
    {"ngram", {"speculation.method=ngram", "speculation.n_max=8"}, 2},
};
enum { N_SETTINGS = sizeof(settings) / sizeof(settings[0]) };

/* ---- a new process ---- */

static int child(const char *setting, const char *path)
{
    struct opened p;
    struct qw_session *s;
    open_engine(&p, &settings[atoi(setting)], REST, NULL);
    OK(qw_session_open(&s, p.e, NULL, &err));
    OK(qw_session_restore(s, path, &err));
    struct qw_result r = resume(s);
    printf("%s %lld %lld", r.logits_sha256, r.speculation.drafted,
           r.speculation.accepted);
    for (size_t i = 0; i < r.ids.n; i++)
        printf(" %d", r.ids.id[i]);
    printf("\n");
    qw_result_free(&r);
    qw_session_close(s);
    close_engine(&p);
    return 0;
}

static void check_child(int setting, const char *path, const struct qw_result *want)
{
    struct qw_buf line = {0};
    char got[8192] = "", *cmd = qw_sprintf("'%s' --child %d '%s'", self, setting, path);
    qw_buf_printf(&line, "%s %lld %lld", want->logits_sha256, want->speculation.drafted,
                  want->speculation.accepted);
    for (size_t i = 0; i < want->ids.n; i++)
        qw_buf_printf(&line, " %d", want->ids.id[i]);
    FILE *f = popen(cmd, "r");
    MUST(f != NULL && fgets(got, sizeof(got), f) != NULL, "%s gave nothing", cmd);
    const int status = pclose(f);
    got[strcspn(got, "\n")] = '\0';
    CHECK(status == 0 && strcmp(got, line.data) == 0,
          "%s: in a new process\n%s\nhere\n%s", settings[setting].label, got, line.data);
    qw_buf_free(&line);
    free(cmd);
}

/* Saved after the first tokens, the uninterrupted run equals one restored elsewhere: ids,
 * logits and what the drafter proposes. */
static void save_and_restore(void)
{
    for (int i = 0; i < N_SETTINGS; i++) {
        char *path = qw_sprintf("%s/s%d", session_dir(), i);
        struct opened p;
        struct qw_session *s;
        char before[65], after[65];
        open_engine(&p, &settings[i], REST, NULL);
        OK(qw_session_open(&s, p.e, NULL, &err));
        struct qw_result first = generate(s, p.prompt.id, p.prompt.n, false);
        OK(qw_session_digest(s, before, &err));
        OK(qw_session_snapshot(s, path, &err));
        OK(qw_session_digest(s, after, &err));
        CHECK(strcmp(before, after) == 0, "saving changed the state");
        struct qw_result rest = resume(s);
        CHECK(rest.ids.n == REST && rest.cached_tokens > p.prompt.n,
              "%s: %zu tokens, %zu cached", settings[i].label, rest.ids.n,
              rest.cached_tokens);
        check_child(i, path, &rest);
        qw_result_free(&first);
        qw_result_free(&rest);
        qw_session_close(s);
        close_engine(&p);
        free(path);
    }
}

static void forks(void)
{
    for (int i = 1; i < 3; i++) {
        struct opened p;
        struct qw_session *s, *f;
        char before[65], after[65], forked[65];
        open_engine(&p, &settings[i], FIRST, NULL);
        OK(qw_session_open(&s, p.e, NULL, &err));
        struct qw_result first = generate(s, p.prompt.id, p.prompt.n, false);
        OK(qw_session_digest(s, before, &err));
        OK(qw_session_fork(&f, s, &err));
        OK(qw_session_digest(f, forked, &err));
        struct qw_result there = resume(f);
        OK(qw_session_digest(s, after, &err));
        CHECK(strcmp(before, forked) == 0, "the fork has another state");
        CHECK(strcmp(before, after) == 0, "the fork's run changed its source");
        struct qw_result here = resume(s);
        CHECK(same(&here, &there) &&
                  here.speculation.accepted == there.speculation.accepted,
              "%s: source and fork go on differently", settings[i].label);
        qw_result_free(&first);
        qw_result_free(&here);
        qw_result_free(&there);
        qw_session_close(f);
        qw_session_close(s);
        close_engine(&p);
    }
}

static void refuse(struct opened *p, const char *path, const char *why)
{
    struct qw_session *s;
    struct qw_err why_not = {""};
    char before[65], after[65];
    OK(qw_session_open(&s, p->e, NULL, &err));
    struct qw_result r = generate(s, p->prompt.id, p->prompt.n, false);
    OK(qw_session_digest(s, before, &err));
    CHECK(qw_session_restore(s, path, &why_not) == QW_EFILE &&
              strstr(why_not.msg, why) != NULL,
          "refused for %s? %s", why, why_not.msg);
    OK(qw_session_digest(s, after, &err));
    CHECK(strcmp(before, after) == 0, "a refused file changed the session");
    qw_result_free(&r);
    qw_session_close(s);
}

static void damage(const char *from, const char *to, long cut, long flip)
{
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    MUST(in != NULL && out != NULL, "no %s", from);
    for (long i = 0, c; (c = getc(in)) != EOF && (cut < 0 || i < cut); i++)
        putc(i == flip ? (int)c ^ 1 : (int)c, out);
    fclose(in);
    fclose(out);
}

static void refused(void)
{
    struct opened p;
    struct qw_session *s;
    char *path = qw_sprintf("%s/whole", session_dir()),
         *bad = qw_sprintf("%s/bad", session_dir());
    open_engine(&p, &settings[1], 8, NULL);
    OK(qw_session_open(&s, p.e, NULL, &err));
    struct qw_result r = generate(s, p.prompt.id, p.prompt.n, false);
    OK(qw_session_snapshot(s, path, &err));
    qw_result_free(&r);
    qw_session_close(s);
    damage(path, bad, 5000, -1);
    refuse(&p, bad, "cut");
    damage(path, bad, -1, 20000);
    refuse(&p, bad, "checksum");
    refuse(&p, "/dev/null", "regular file");
    close_engine(&p);
    open_engine(&p, &settings[1], 8, "kv.target=q8_0");
    refuse(&p, path, "kv is");
    close_engine(&p);
    char *other = qw_sprintf("model.target=%s/models/tiny/tiny-qwen35-q8_0.gguf",
                             getenv("srcdir") ? getenv("srcdir") : ".");
    open_engine(&p, &settings[0], 8, other);
    refuse(&p, path, "model_sha256 is");
    close_engine(&p);
    free(other);
    free(bad);
    free(path);
}

/* A prompt that goes on from what the session holds is not read again, and gives what a
 * fresh session gives; another prompt starts anew. */
static void prompts(void)
{
    struct opened p;
    struct qw_session *s, *fresh;
    int32_t *id, more[3] = {40, 41, 42};
    size_t n;
    open_engine(&p, &settings[1], 24, NULL);
    OK(qw_session_open(&s, p.e, NULL, &err));
    OK(qw_session_open(&fresh, p.e, NULL, &err));
    struct qw_result a = generate(s, p.prompt.id, p.prompt.n, false);
    n = p.prompt.n + a.ids.n;
    id = qw_alloc(n + 3, sizeof(*id));
    memcpy(id, p.prompt.id, p.prompt.n * sizeof(*id));
    memcpy(id + p.prompt.n, a.ids.id, a.ids.n * sizeof(*id));
    memcpy(id + n, more, sizeof(more));
    struct qw_result b = generate(s, id, n + 3, false);
    struct qw_result c = generate(fresh, id, n + 3, false);
    CHECK(b.cached_tokens == n - 1 && c.cached_tokens == 0, "%zu and %zu cached of %zu",
          b.cached_tokens, c.cached_tokens, n);
    CHECK(same(&b, &c), "a longer prompt gives another answer than in a fresh session");
    struct qw_result d = generate(s, p.prompt.id, p.prompt.n, false);
    CHECK(d.cached_tokens == 0 && same(&d, &a), "the first prompt again: another answer");
    qw_result_free(&a);
    qw_result_free(&b);
    qw_result_free(&c);
    qw_result_free(&d);
    free(id);
    qw_session_close(s);
    qw_session_close(fresh);
    close_engine(&p);
}

/* One run of a setting, alone. */
static struct qw_result alone(const struct setting *s, int max_tokens, const char *more,
                              size_t prompt)
{
    struct opened p;
    struct qw_session *session;
    open_engine(&p, s, max_tokens, more);
    OK(qw_session_open(&session, p.e, NULL, &err));
    int32_t *id = qw_alloc(prompt + p.prompt.n, sizeof(*id));
    for (size_t i = 0; i < prompt + p.prompt.n; i++)
        id[i] = p.prompt.id[i % p.prompt.n];
    struct qw_result r = generate(session, id, prompt > 0 ? prompt : p.prompt.n, false);
    free(id);
    qw_session_close(session);
    close_engine(&p);
    return r;
}

/* max_tokens, a stop text and the end of the context inside an accepted run: what a plain
 * run makes, not a token more. */
static void limits(void)
{
    static const struct {
        const char *what, *more;
        int max_tokens;
        size_t prompt;
    } cases[] = {{"max_tokens 1", NULL, 1, 0},
                 {"max_tokens 2", NULL, 2, 0},
                 {"max_tokens 3", NULL, 3, 0},
                 {"max_tokens 7", NULL, 7, 0},
                 {"a stop text", "sampling.stop=return", 60, 0},
                 {"a stop text of blanks", "sampling.stop=  ", 60, 0},
                 {"context, 3 left", "model.context=64", 60, 61},
                 {"context, 1 left", "model.context=64", 60, 63},
                 {"context, 9 left", "model.context=64", 60, 55},
                 {"a short context", "model.context=3", 60, 1}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct qw_result want =
            alone(&settings[0], cases[i].max_tokens, cases[i].more, cases[i].prompt);
        for (int k = 1; k < N_SETTINGS; k += 2) {
            struct qw_result got =
                alone(&settings[k], cases[i].max_tokens, cases[i].more, cases[i].prompt);
            CHECK(same(&got, &want) && strcmp(got.text, want.text) == 0 &&
                      strcmp(got.finish_reason, want.finish_reason) == 0,
                  "%s, %s: %zu tokens (%s), plain %zu (%s)", cases[i].what,
                  settings[k].label, got.ids.n, got.finish_reason, want.ids.n,
                  want.finish_reason);
            qw_result_free(&got);
        }
        qw_result_free(&want);
    }
}

static const struct check_test all[] = {T(save_and_restore), T(forks),  T(refused),
                                        T(prompts),          T(limits), T(session_done)};

int main(int argc, char **argv)
{
    self = argv[0];
    if (argc == 4 && strcmp(argv[1], "--child") == 0)
        return child(argv[2], argv[3]);
    return check_run(all, (int)(sizeof(all) / sizeof(all[0])));
}
