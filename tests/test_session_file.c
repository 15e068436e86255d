/* SPDX-License-Identifier: MIT */
/* Session files whose checksum is right and whose content is not: each is refused by the
 * name of what is wrong, the session stays as it was, and goes on as if nothing had been
 * asked. */
#include <stdlib.h>
#include <string.h>

#include "save.h"
#include "session_util.h"

enum { TOKENS = 12 };
static const struct qw_save_kind kind = {"QWSESSIO", "session file", 1, 0600};
static const struct setting dflash = {"dflash", {"speculation.method=dflash"}, 1};

/* One change to a good file: a key of the header gets this JSON value, or entry `number`
 * of the list there does; or a section gets `bytes` more or fewer, or its 64-bit number
 * `number` this value. "none": left out. */
struct edit {
    const char *key, *section, *json;
    bool entry;
    int bytes, number;
    unsigned long long value;
    const char *why; /* part of the message */
};

static bool is_none(const char *text)
{
    return text != NULL && strcmp(text, "none") == 0;
}

static json_t *edited_header(const struct qw_save_reader *r, const struct edit *e)
{
    json_t *h = json_deep_copy(qw_save_header(r));
    if (e->key == NULL)
        return h;
    json_t *v = is_none(e->json) ? NULL : json_loads(e->json, JSON_DECODE_ANY, NULL);
    if (e->entry)
        MUST(json_array_set_new(json_object_get(h, e->key), (size_t)e->number, v) == 0,
             "%s[%d]", e->key, e->number);
    else if (v != NULL)
        MUST(json_object_set_new(h, e->key, v) == 0, "%s", e->key);
    else
        MUST(json_object_del(h, e->key) == 0, "no key %s", e->key);
    return h;
}

/* The section's bytes with the change; *size follows. The caller frees. */
static unsigned char *edited_section(const void *data, uint64_t *size,
                                     const struct edit *e)
{
    const uint64_t was = *size;
    *size = (uint64_t)((long long)was + e->bytes);
    unsigned char *copy = qw_alloc(*size + 1, 1);
    memcpy(copy, data, was < *size ? was : *size);
    for (int i = 0; e->bytes == 0 && i < 8; i++)
        copy[8 * e->number + i] = (unsigned char)(e->value >> 8 * i);
    return copy;
}

/* The header of one file and the sections of another or the same, with a change. */
static void rewrite(const char *head, const char *body, const char *to,
                    const struct edit *e)
{
    struct qw_save_reader *h, *r;
    struct qw_save_writer *w;
    OK(qw_save_open(&h, head, &kind, &err));
    OK(qw_save_open(&r, body, &kind, &err));
    json_t *header = edited_header(h, e);
    OK(qw_save_create(&w, to, &kind, header, &err));
    for (size_t i = 0; i < qw_save_n_sections(r); i++) {
        const char *name = qw_save_section_name(r, i);
        const bool this = e->section != NULL && strcmp(name, e->section) == 0;
        const void *data;
        uint64_t size;
        OK(qw_save_section(r, name, &data, &size, &err));
        if (this && is_none(e->json))
            continue;
        unsigned char *copy = this ? edited_section(data, &size, e) : NULL;
        OK(qw_save_add(w, name, this ? copy : data, size, &err));
        free(copy);
    }
    OK(qw_save_commit(w, &err));
    qw_save_close_writer(w);
    qw_save_close(r);
    qw_save_close(h);
    json_decref(header);
}

/* A session of its own history, and what it must still be after each refusal. */
struct victim {
    struct opened p;
    struct qw_session *s;
    char digest[65];
};

static void open_victim(struct victim *v, const char *more)
{
    open_engine(&v->p, &dflash, TOKENS, more);
    OK(qw_session_open(&v->s, v->p.e, NULL, &err));
    struct qw_result r = generate(v->s, v->p.prompt.id + 1, v->p.prompt.n - 1, false);
    OK(qw_session_digest(v->s, v->digest, &err));
    qw_result_free(&r);
}

static void close_victim(struct victim *v)
{
    qw_session_close(v->s);
    close_engine(&v->p);
}

static void check_refused(struct victim *v, const char *path, const char *why)
{
    struct qw_err got = {""};
    char after[65];
    const int rc = qw_session_restore(v->s, path, &got);
    CHECK(rc == QW_EFILE && strncmp(got.msg, path, strlen(path)) == 0 &&
              strstr(got.msg, why) != NULL,
          "code %d, want '%s', got '%s'", rc, why, got.msg);
    OK(qw_session_digest(v->s, after, &err));
    CHECK(strcmp(after, v->digest) == 0, "%s: the session is another", why);
}

/* A session of the prompt's tokens from `first` on, saved. The caller frees. */
static char *file_of(const struct setting *with, const char *name, size_t first)
{
    char *path = qw_sprintf("%s/%s", session_dir(), name);
    struct opened p;
    struct qw_session *s;
    open_engine(&p, with, TOKENS, "model.context=512");
    OK(qw_session_open(&s, p.e, NULL, &err));
    struct qw_result r = generate(s, p.prompt.id + first, p.prompt.n - first, false);
    OK(qw_session_snapshot(s, path, &err));
    qw_result_free(&r);
    qw_session_close(s);
    close_engine(&p);
    return path;
}

#define KEY(k, j, w)                                                                     \
    {                                                                                    \
        .key = k, .json = j, .why = w                                                    \
    }
#define ENTRY(k, n, j, w)                                                                \
    {                                                                                    \
        .key = k, .entry = true, .number = n, .json = j, .why = w                        \
    }
#define GONE(s)                                                                          \
    {                                                                                    \
        .section = s, .json = "none", .why = "no section " s                             \
    }
#define RESIZED(s, n, w)                                                                 \
    {                                                                                    \
        .section = s, .bytes = n, .why = w                                               \
    }
#define NUMBER(n, v, w)                                                                  \
    {                                                                                    \
        .section = "state", .number = n, .value = v, .why = w                            \
    }

static const struct edit edits[] = {
    KEY("position", "none", "header says otherwise"),
    KEY("position", "-1", "header says otherwise"),
    KEY("position", "0", "header says otherwise"),
    KEY("position", "1e3", "header says otherwise"),
    KEY("position", "\"52\"", "header says otherwise"),
    KEY("position", "1099511627776", "header says otherwise"),
    KEY("position", "9223372036854775807", "header says otherwise"),
    NUMBER(8, 0, "header says otherwise"),
    NUMBER(8, 1, "header says otherwise"),
    NUMBER(8, 511, "header says otherwise"),
    NUMBER(8, 513, "more than the context of 512"),
    NUMBER(8, 1ull << 32, "more than the context"),
    NUMBER(8, 1ull << 63, "more than the context"),
    NUMBER(0, 7, "layers: 7 in the file"),
    NUMBER(1, 3, "full-attention layers"),
    NUMBER(2, 2, "KV heads"),
    NUMBER(3, 128, "head size"),
    NUMBER(4, 8, "bits of the cache"),
    NUMBER(5, 4, "bytes of GDN state"),
    NUMBER(6, ~0ull, "bytes of a history row"),
    NUMBER(7, 5, "convolution taps"),
    KEY("ids", "none", "do not fit its position"),
    KEY("ids", "[]", "do not fit its position"),
    KEY("ids", "[1, 2]", "do not fit its position"),
    KEY("ids", "{\"0\": 1}", "do not fit its position"),
    ENTRY("ids", 0, "-1", "do not fit its position"),
    ENTRY("ids", 1, "4096", "do not fit its position"),
    ENTRY("ids", 2, "4294967296", "do not fit its position"),
    ENTRY("ids", 3, "1.0", "do not fit its position"),
    ENTRY("ids", 4, "\"7\"", "do not fit its position"),
    ENTRY("ids", 5, "[7]", "do not fit its position"),
    KEY("rng_state", "none", "no state of the random numbers"),
    KEY("rng_state", "\"12\"", "no state of the random numbers"),
    KEY("rng_stream", "\"0123456789ABCDEF0123456789abcdef\"", "no state of the random"),
    KEY("model_sha256", "\"\\u001b[2J\"", "model_sha256 is"),
    KEY("model_sha256", "none", "model_sha256 is missing"),
    KEY("kernels", "\"xe2\"", "kernels is \"xe2\""),
    KEY("order_of_sums", "2", "order_of_sums is 2"),
    KEY("kv", "[\"f16\"]", "kv is"),
    GONE("state"),
    GONE("s.0"),
    GONE("conv.1"),
    GONE("kv.3"),
    GONE("draft.dflash.kv.1"),
    RESIZED("state", -1, "section state has 71 bytes"),
    RESIZED("state", 8, "section state has 80 bytes"),
    RESIZED("s.2", -4, "section s.2 has"),
    RESIZED("conv.0", 4, "section conv.0 has"),
    RESIZED("kv.7", -1, "section kv.7 has"),
    RESIZED("kv.7", 1, "section kv.7 has"),
    RESIZED("draft.dflash.kv.0", 1, "draft.dflash.kv.0 has"),
    RESIZED("draft.dflash.kv.1", -32, "draft.dflash.kv.1 has"),
};

static void refused(void)
{
    struct victim v;
    char *good = file_of(&dflash, "good", 0), *bad = qw_sprintf("%s/bad", session_dir());
    open_victim(&v, "model.context=512");
    for (size_t i = 0; i < sizeof(edits) / sizeof(edits[0]); i++) {
        rewrite(good, good, bad, &edits[i]);
        check_refused(&v, bad, edits[i].why);
    }
    close_victim(&v);
    free(good);
    free(bad);
}

/* The parts of two good files in one. */
static void crossed(void)
{
    static const struct edit none = {.why = ""};
    struct victim v;
    char *longer = file_of(&dflash, "longer", 0),
         *shorter = file_of(&dflash, "shorter", 20),
         *bad = qw_sprintf("%s/bad", session_dir());
    open_victim(&v, "model.context=512");
    rewrite(longer, shorter, bad, &none);
    check_refused(&v, bad, "header says otherwise");
    rewrite(shorter, longer, bad, &none);
    check_refused(&v, bad, "header says otherwise");
    close_victim(&v);
    free(longer);
    free(shorter);
    free(bad);
}

/* A context is filled up to its last position, not beyond, whatever the cache's blocks
 * leave room for. */
static void context(void)
{
    char *good = file_of(&dflash, "good", 0);
    for (int more = 0; more < 2; more++) {
        struct qw_save_reader *r;
        struct victim v;
        OK(qw_save_open(&r, good, &kind, &err));
        const int pos =
            (int)json_integer_value(json_object_get(qw_save_header(r), "position"));
        char *context = qw_sprintf("model.context=%d", pos - more);
        qw_save_close(r);
        open_victim(&v, context);
        if (more)
            check_refused(&v, good, "more than model.context = ");
        else
            OK(qw_session_restore(v.s, good, &err));
        OK(qw_session_digest(v.s, v.digest, &err));
        close_victim(&v);
        free(context);
    }
    free(good);
}

/* ---- drafters ---- */

/* The shipped drafter with one bit of a weight turned. The caller frees. */
static char *other_drafter(void)
{
    const char *src = getenv("srcdir") ? getenv("srcdir") : ".";
    char *from = qw_sprintf("%s/models/tiny/tiny-qwen35-dflash-q8_0.gguf", src),
         *to = qw_sprintf("%s/draft.gguf", session_dir());
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    MUST(in != NULL && out != NULL && fseek(in, 0, SEEK_END) == 0, "%s", from);
    const long last = ftell(in) - 1;
    rewind(in);
    for (long i = 0, c; (c = getc(in)) != EOF; i++)
        putc(i == last ? (int)c ^ 1 : (int)c, out);
    MUST(fclose(in) == 0 && fclose(out) == 0, "%s", to);
    free(from);
    return to;
}

/* What was logged since the last call. */
static bool logged(FILE *log, const char *what)
{
    char text[4096];
    const size_t n = fread(text, 1, sizeof(text) - 1, log);
    text[n] = '\0';
    clearerr(log);
    return strstr(text, what) != NULL;
}

/* Saved with one drafter or none, a session goes on with any: the same answer, and a
 * warning where the file has nothing for the drafter. */
static void drafters(void)
{
    enum { N = 4 };
    char *draft = other_drafter(), *set = qw_sprintf("model.draft=%s", draft),
         *name = qw_sprintf("%s/log", session_dir()), *path[N];
    const struct setting all[N] = {
        {"the shipped one", {"speculation.method=dflash"}, 1},
        {"another file", {"speculation.method=dflash", set}, 2},
        {"another cache type",
         {"speculation.method=dflash", "kv.draft=f32", "kv.allow_lossy_draft=yes"},
         3},
        {"none", {"speculation.method=none"}, 1}};
    struct qw_result want = {0};
    OK(qw_log_open(QW_WARN, name, &err));
    FILE *log = fopen(name, "rb");
    MUST(log != NULL, "%s", name);
    for (int i = 0; i < N; i++) {
        char label[16];
        snprintf(label, sizeof(label), "by%d", i);
        path[i] = file_of(&all[i], label, 0);
    }
    logged(log, "");
    for (int i = 0; i < N; i++) {
        struct opened p;
        struct qw_session *s;
        open_engine(&p, &all[i], TOKENS, "model.context=512");
        OK(qw_session_open(&s, p.e, NULL, &err));
        for (int k = 0; k < N; k++) {
            logged(log, "");
            OK(qw_session_restore(s, path[k], &err));
            CHECK(logged(log, "made without this dflash drafter") ==
                      (i != k && i < N - 1),
                  "saved with %s, restored with %s", all[k].label, all[i].label);
            struct qw_result r = resume(s);
            if (want.text == NULL)
                want = r;
            CHECK(same(&r, &want), "saved with %s, restored with %s: another answer",
                  all[k].label, all[i].label);
            if (r.text != want.text)
                qw_result_free(&r);
        }
        qw_session_close(s);
        close_engine(&p);
    }
    OK(qw_log_open(QW_WARN, NULL, &err));
    fclose(log);
    qw_result_free(&want);
    for (int i = 0; i < N; i++)
        free(path[i]);
    free(name);
    free(set);
    free(draft);
}

QW_TESTS(T(refused), T(crossed), T(context), T(drafters), T(session_done))
