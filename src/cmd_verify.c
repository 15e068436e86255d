/* SPDX-License-Identifier: MIT */
/* cmd_verify.c - what the program claims of itself, checked on the user's machine.
 * lossless: a drafted run has the bits of a plain one. */
#include "cmd.h"
#include "qwenrun.h"

#include <stdlib.h>
#include <string.h>

enum { DEFAULT_TOKENS = 64, MAX_N = QW_DRAFT_POSITIONS };

struct prompt {
    char *name;
    struct qw_tokens ids;
    struct qw_result plain; /* of the sampling in hand */
    int32_t *timeline;      /* prompt and answer, for scripts */
};

struct lossless {
    struct qw_cmd *c;
    struct qw_engine *e;
    struct prompt *prompt;
    size_t n_prompts;
    struct qw_session_params params; /* of the sampling in hand */
    const char *sampling;
    json_t *checks;
    bool all_equal;
};

/* ---- prompts ---- */

static const struct {
    const char *name, *text;
} built_in[] = {
    {"code", "class Stack:\n    \"\"\"A stack.\"\"\"\n    def __init__(self):\n        "
             "self.items = []\n\n    def push(self, item):\n"},
    {"prose",
     "The library is open from nine in the morning until six in the evening, and "
     "on Saturdays it"},
    {"repeat", "one two three four one two three four one two three four one two"},
    {"data", "{\"name\": \"alpha\", \"size\": 10}\n{\"name\": \"beta\", \"size\": 20}\n"
             "{\"name\": \"gamma\", \"size\":"},
};

static int add_prompt(struct lossless *l, const char *name, const char *text,
                      const json_t *ids)
{
    l->prompt = qw_realloc(l->prompt, l->n_prompts + 1, sizeof(*l->prompt));
    struct prompt *p = &l->prompt[l->n_prompts++];
    *p = (struct prompt){.name = qw_strdup(name)};
    if (text != NULL)
        return qw_engine_tokenize(l->e, text, strlen(text), false, &p->ids, &l->c->err);
    p->ids.n = json_array_size(ids);
    p->ids.id = qw_alloc(p->ids.n + 1, sizeof(int32_t));
    for (size_t i = 0; i < p->ids.n; i++) {
        const json_t *v = json_array_get(ids, i);
        const json_int_t id = json_is_integer(v) ? json_integer_value(v) : -1;
        if (id < 0 || id > INT32_MAX)
            return qw_fail(&l->c->err, QW_EUSAGE, "prompt %s: id %zu is no token id",
                           name, i);
        p->ids.id[i] = (int32_t)id;
    }
    return QW_OK;
}

/* {"prompts": [{"name": ..., "text": ... or "ids": [...]}, ...]} */
static int read_prompts(struct lossless *l, const char *path)
{
    json_error_t bad;
    json_t *root = json_load_file(path, 0, &bad), *all = json_object_get(root, "prompts");
    int rc = QW_OK;
    if (root == NULL)
        rc = qw_fail(&l->c->err, QW_EUSAGE, "%s:%d: %s", path, bad.line, bad.text);
    else if (!json_is_array(all) || json_array_size(all) == 0)
        rc = qw_fail(&l->c->err, QW_EUSAGE, "%s: no list \"prompts\"", path);
    for (size_t i = 0; rc == QW_OK && i < json_array_size(all); i++) {
        const json_t *p = json_array_get(all, i), *ids = json_object_get(p, "ids");
        const char *name = json_string_value(json_object_get(p, "name"));
        const char *text = json_string_value(json_object_get(p, "text"));
        if (!json_is_array(ids) && text == NULL)
            rc = qw_fail(&l->c->err, QW_EUSAGE, "%s: prompt %zu has neither ids nor text",
                         path, i + 1);
        else
            rc = add_prompt(l, name ? name : "unnamed", json_is_array(ids) ? NULL : text,
                            ids);
    }
    json_decref(root);
    return rc;
}

static int find_prompts(struct lossless *l)
{
    const char *path = qw_cmd_value(l->c, "prompts");
    int rc = QW_OK;
    if (path != NULL)
        return read_prompts(l, path);
    for (size_t i = 0; rc == QW_OK && i < sizeof(built_in) / sizeof(built_in[0]); i++)
        rc = add_prompt(l, built_in[i].name, built_in[i].text, NULL);
    return rc;
}

/* ---- runs ---- */

static int generate(struct lossless *l, struct qw_session *s, const struct prompt *p,
                    struct qw_result *r)
{
    const struct qw_generate g = {.hash_logits = true};
    int rc = qw_session_reset(s, &l->c->err);
    return rc == QW_OK ? qw_session_generate(s, p->ids.id, p->ids.n, &g, r, &l->c->err)
                       : rc;
}

/* Equal: the ids, the end, and every bit of the logits that decided them. */
static bool same(const struct lossless *l, const struct prompt *p, const char *what,
                 const struct qw_result *r)
{
    const struct qw_result *w = &p->plain;
    size_t i = 0;
    while (i < r->ids.n && i < w->ids.n && r->ids.id[i] == w->ids.id[i])
        i++;
    const bool ids =
        i == r->ids.n && i == w->ids.n && strcmp(r->finish_reason, w->finish_reason) == 0;
    const bool bits = strcmp(r->logits_sha256, w->logits_sha256) == 0;
    if (!ids)
        qw_log(QW_WARN, "%s, %s, prompt %s: differs from token %zu on (%zu and %zu made)",
               what, l->sampling, p->name, i + 1, r->ids.n, w->ids.n);
    else if (!bits)
        qw_log(QW_WARN, "%s, %s, prompt %s: same ids, other logits", what, l->sampling,
               p->name);
    return ids && bits;
}

struct tally {
    int runs, equal;
    long long drafted, accepted;
};

static void report(struct lossless *l, const char *drafter, const char *pattern,
                   int n_max, const struct tally *t)
{
    l->all_equal = l->all_equal && t->equal == t->runs;
    if (l->c->json) {
        json_t *j = json_pack("{s:s, s:i, s:s, s:i, s:i, s:I, s:I}", "drafter", drafter,
                              "n_max", n_max, "sampling", l->sampling, "runs", t->runs,
                              "equal", t->equal, "drafted", (json_int_t)t->drafted,
                              "accepted", (json_int_t)t->accepted);
        if (pattern != NULL)
            json_object_set_new(j, "pattern", json_string(pattern));
        json_array_append_new(l->checks, j);
        return;
    }
    printf("%s %s n_max %d%s%s, %s: %d of %d runs equal, %lld of %lld drafts accepted\n",
           t->equal == t->runs ? "ok" : "FAIL", drafter, n_max, pattern ? ", " : "",
           pattern ? pattern : "", l->sampling, t->equal, t->runs, t->accepted,
           t->drafted);
    fflush(stdout);
}

static int plain_runs(struct lossless *l)
{
    struct qw_session *s;
    struct qw_session_params p = l->params;
    p.method = "none";
    int rc = qw_session_open(&s, l->e, &p, &l->c->err);
    if (rc != QW_OK)
        return rc;
    for (size_t i = 0; rc == QW_OK && i < l->n_prompts; i++) {
        struct prompt *q = &l->prompt[i];
        qw_result_free(&q->plain);
        rc = generate(l, s, q, &q->plain);
        q->timeline = qw_realloc(q->timeline, q->ids.n + q->plain.ids.n, sizeof(int32_t));
        memcpy(q->timeline, q->ids.id, q->ids.n * sizeof(int32_t));
        for (size_t k = 0; k < q->plain.ids.n; k++)
            q->timeline[q->ids.n + k] = q->plain.ids.id[k];
    }
    qw_session_close(s);
    return rc;
}

static int one_run(struct lossless *l, struct qw_session *s, const struct prompt *q,
                   const char *what, struct tally *t)
{
    struct qw_result r = {0};
    int rc = generate(l, s, q, &r);
    if (rc == QW_OK) {
        t->runs++;
        t->equal += same(l, q, what, &r);
        t->drafted += r.speculation.drafted;
        t->accepted += r.speculation.accepted;
    }
    qw_result_free(&r);
    return rc;
}

/* A drafter at one n_max, every prompt in one session. */
static int drafted_runs(struct lossless *l, const char *method, int n_max)
{
    struct qw_session *s;
    struct qw_session_params p = l->params;
    struct tally t = {0};
    p.method = method;
    p.n_max = n_max;
    p.n_min = 0;
    int rc = qw_session_open(&s, l->e, &p, &l->c->err);
    if (rc != QW_OK)
        return rc;
    for (size_t i = 0; rc == QW_OK && i < l->n_prompts; i++)
        rc = one_run(l, s, &l->prompt[i], method, &t);
    qw_session_close(s);
    if (rc == QW_OK)
        report(l, method, NULL, n_max, &t);
    return rc;
}

/* A forced pattern of acceptance; whole: every drafted token must be accepted. */
static int scripted_runs(struct lossless *l, const char *pattern, int n_max,
                         const int *drafted, const int *right, int n_steps, bool whole)
{
    struct tally t = {0};
    int rc = QW_OK;
    for (size_t i = 0; rc == QW_OK && i < l->n_prompts; i++) {
        const struct prompt *q = &l->prompt[i];
        const struct qw_script script = {.id = q->timeline,
                                         .n = q->ids.n + q->plain.ids.n,
                                         .drafted = drafted,
                                         .right = right,
                                         .n_steps = n_steps};
        struct qw_session_params p = l->params;
        struct qw_session *s;
        p.script = &script;
        p.n_max = n_max;
        rc = qw_session_open(&s, l->e, &p, &l->c->err);
        if (rc != QW_OK)
            return rc;
        rc = one_run(l, s, q, pattern, &t);
        qw_session_close(s);
    }
    if (rc == QW_OK && whole && t.accepted != t.drafted) {
        qw_log(QW_WARN, "%s, %s: only %lld of %lld right drafts were accepted", pattern,
               l->sampling, t.accepted, t.drafted);
        t.equal = 0;
    }
    if (rc == QW_OK)
        report(l, "script", pattern, n_max, &t);
    return rc;
}

/* k right ids and then a wrong one, for every k; all right; and accepted drafts between
 * steps without any. */
static int scripts(struct lossless *l, int n_max)
{
    int drafted[2 * MAX_N + 2], right[2 * MAX_N + 2], n = 0;
    for (int k = 0; k <= n_max; k++, n++) {
        drafted[n] = n_max;
        right[n] = k;
    }
    int rc = scripted_runs(l, "k right, then wrong", n_max, drafted, right, n, false);
    for (int k = 0; k < n; k++)
        drafted[k] = right[k] = k % 2 ? 0 : n_max - k / 2;
    if (rc == QW_OK)
        rc = scripted_runs(l, "accepted, then no draft", n_max, drafted, right, n, true);
    drafted[0] = right[0] = n_max;
    return rc == QW_OK
               ? scripted_runs(l, "its own answer", n_max, drafted, right, 1, true)
               : rc;
}

static int check_sampling(struct lossless *l, const char *sampling, double temperature,
                          const int *n_max, int n)
{
    const char *method = l->params.method;
    l->sampling = sampling;
    l->params.temperature = temperature;
    int rc = plain_runs(l);
    for (int i = 0; rc == QW_OK && i < n; i++) {
        if (strcmp(method, "none") != 0 && strcmp(method, "ngram") != 0)
            rc = drafted_runs(l, method, n_max[i]);
        if (rc == QW_OK)
            rc = drafted_runs(l, "ngram", n_max[i]);
        if (rc == QW_OK)
            rc = scripts(l, n_max[i]);
    }
    return rc;
}

/* ---- the command ---- */

static int run_lossless(struct qw_cmd *c, struct lossless *l)
{
    static const int few[] = {1, 5, 7}, all[] = {1, 2, 3, 4, 5, 6, 7, 8, 15};
    const bool whole = qw_cmd_value(c, "all-lengths") != NULL;
    const double t = c->options->sampling.temperature;
    qw_session_defaults(&l->params, l->e);
    l->params.adaptive = false;
    int rc = find_prompts(l);
    if (rc == QW_OK)
        rc = check_sampling(l, "greedy", 0.0, whole ? all : few, whole ? 9 : 3);
    return rc == QW_OK ? check_sampling(l, "sampled", t > 0.0 ? t : 0.8,
                                        whole ? all : few, whole ? 9 : 3)
                       : rc;
}

static void close_lossless(struct lossless *l)
{
    for (size_t i = 0; i < l->n_prompts; i++) {
        free(l->prompt[i].name);
        free(l->prompt[i].ids.id);
        free(l->prompt[i].timeline);
        qw_result_free(&l->prompt[i].plain);
    }
    free(l->prompt);
    json_decref(l->checks);
}

static int run(struct qw_cmd *c)
{
    struct lossless l = {.c = c, .all_equal = true, .checks = json_array()};
    struct qw_options o = *c->options; /* a shallow copy: texts stay the command's */
    const char *tokens = qw_cmd_value(c, "tokens");
    int n = DEFAULT_TOKENS, rc = QW_OK;
    if (c->argc != 1 || strcmp(c->argv[0], "lossless") != 0)
        rc = qw_fail(&c->err, QW_EUSAGE, "verify: name what to verify: lossless");
    if (rc == QW_OK && tokens != NULL &&
        (sscanf(tokens, "%d", &n) != 1 || n < 1 || n > o.model.context))
        rc = qw_fail(&c->err, QW_EUSAGE, "verify: --tokens = %s: expected 1 to %d",
                     tokens, o.model.context);
    o.sampling.max_tokens = n;
    if (rc == QW_OK)
        rc = qw_engine_open(&l.e, &o, QW_OPEN_MODEL, !c->quiet, &c->err);
    if (rc == QW_OK) {
        rc = run_lossless(c, &l);
        if (rc == QW_OK && c->json)
            rc = qw_cmd_print_json(json_pack("{s:b, s:O, s:o}", "passed", l.all_equal,
                                             "lossless", l.checks, "identity",
                                             qw_engine_identity(l.e, true)),
                                   &c->err);
        if (rc == QW_OK && !l.all_equal)
            rc = qw_fail(&c->err, QW_EFAIL, "verify lossless: runs differ");
        qw_engine_close(l.e);
    }
    close_lossless(&l);
    return rc;
}

static const struct qw_cmd_option options[] = {
    {0, "prompts", "FILE",
     "prompts to use: JSON {\"prompts\": [{\"name\", \"text\" or \"ids\"}]}"},
    {0, "tokens", "N", "tokens to generate for each (64)"},
    {0, "all-lengths", NULL, "n_max 1 to 8 and 15 instead of 1, 5 and 7"},
    {0},
};

const struct qw_command qw_command_verify = {
    .name = "verify",
    .summary = "check that drafting changes no bit of an answer",
    .operands = "lossless",
    .options = options,
    .run = run,
};
