/* SPDX-License-Identifier: MIT */
/* session_save.c - a session to a file and back, to another session, as a digest. The
 * header says what the state belongs to; it restores nowhere else. */
#include "session.h"

#include <stdlib.h>
#include <string.h>

#include "draft_io.h"
#include "state_io.h"

static const struct qw_save_kind kind = {
    .magic = "QWSESSIO", .what = "session file", .version = 1, .mode = 0666};

/* What must be equal for the state's bits to mean the same. */
static json_t *belongs_to(const struct qw_session *s)
{
    char model[65];
    if (!qw_engine_target_hash(s->e, true, model))
        return NULL;
    return json_pack("{s:s, s:s, s:i, s:s}", "model_sha256", model, "kernels", "generic",
                     "order_of_sums", 1, "kv", s->e->opt->kv.target);
}

/* What the parts of the drafter's cache belong to; JSON null where it keeps none. */
static json_t *drafter_of(const struct qw_session *s)
{
    const struct qw_drafter *d = s->drafter;
    char hex[65] = ""; /* an MTP block is in the model's file */
    if (d == NULL || d->ops->parts == NULL)
        return json_null();
    if (s->e->draft != NULL && !qw_engine_draft_hash(s->e, true, hex))
        return NULL;
    return json_pack("{s:s, s:s, s:s}", "method", d->ops->name, "sha256", hex, "kv",
                     s->e->opt->kv.draft);
}

static json_t *hex128(unsigned __int128 v)
{
    char text[33];
    snprintf(text, sizeof(text), "%016llx%016llx", (unsigned long long)(v >> 64),
             (unsigned long long)v);
    return json_string(text);
}

static bool from_hex128(const json_t *j, unsigned __int128 *v)
{
    const char *s = json_string_value(j);
    *v = 0;
    if (s == NULL || strlen(s) != 32 || strspn(s, "0123456789abcdef") != 32)
        return false;
    for (int i = 0; i < 32; i++)
        *v = *v << 4 | (unsigned)(s[i] <= '9' ? s[i] - '0' : s[i] - 'a' + 10);
    return true;
}

static json_t *make_header(const struct qw_session *s, const struct qw_state *state)
{
    const struct qw_pcg64 *rng = qw_sampler_rng(s->sampler);
    json_t *h = belongs_to(s), *ids = json_array(), *drafter = drafter_of(s);
    for (size_t i = 0; i < s->n; i++)
        json_array_append_new(ids, json_integer(s->id[i]));
    if (h == NULL || drafter == NULL) {
        json_decref(h);
        json_decref(ids);
        json_decref(drafter);
        return NULL;
    }
    json_object_set_new(h, "drafter", drafter);
    json_object_set_new(h, "position", json_integer(state->pos));
    json_object_set_new(h, "ids", ids);
    json_object_set_new(h, "thinking", json_boolean(s->thinking));
    json_object_set_new(h, "rng_state", hex128(rng->state));
    json_object_set_new(h, "rng_stream", hex128(rng->inc));
    return h;
}

/* S as of the position. What breaks off in between has changed a part of it. */
static int settle(struct qw_session *s, struct qw_err *err)
{
    int rc = session_ready(s, err);
    return session_result(s, rc == QW_OK ? qw_target_settle(s->target, err) : rc);
}

int qw_session_snapshot(struct qw_session *s, const char *path, struct qw_err *err)
{
    const struct qw_state *state = qw_target_state(s->target);
    struct qw_save_writer *w = NULL;
    int rc = settle(s, err);
    if (rc != QW_OK)
        return rc;
    json_t *header = make_header(s, state);
    rc = header == NULL
             ? qw_fail(err, QW_EFILE, "%s or its drafter cannot be read to name it in %s",
                       s->e->opt->model.target, path)
             : qw_save_create(&w, path, &kind, header, err);
    if (rc == QW_OK)
        rc = qw_state_write(state, w, err);
    if (rc == QW_OK)
        rc = qw_draft_save(s->drafter, state->pos, w, err);
    if (rc == QW_OK)
        rc = qw_save_commit(w, err);
    qw_save_close_writer(w);
    json_decref(header);
    return rc;
}

/* The header against this session: the same model, cache type and kernels. */
static int check_header(const struct qw_session *s, const struct qw_save_reader *r,
                        struct qw_err *err)
{
    json_t *here = belongs_to(s);
    const json_t *file = qw_save_header(r), *value;
    const char *key;
    int rc = here != NULL ? QW_OK
                          : qw_fail(err, QW_EFILE, "%s: cannot be read to compare it",
                                    s->e->opt->model.target);
    json_object_foreach(here, key, value)
    {
        const json_t *there = json_object_get(file, key);
        if (rc != QW_OK || json_equal(value, there))
            continue;
        char *a = json_dumps(there, JSON_ENCODE_ANY),
             *b = json_dumps(value, JSON_ENCODE_ANY);
        rc = qw_fail(err, QW_EFILE, "%s: %s is %s, this session's is %s", qw_save_name(r),
                     key, a ? a : "missing", b);
        free(a);
        free(b);
    }
    json_decref(here);
    return rc;
}

/* Positions held: as many as the state has, and as fit this session. */
static int read_position(const struct qw_session *s, const struct qw_save_reader *r,
                         int *pos, struct qw_err *err)
{
    const json_t *v = json_object_get(qw_save_header(r), "position");
    const int context = qw_engine_context(s->e);
    int rc = qw_state_check(qw_target_state(s->target), r, pos, err);
    if (rc != QW_OK)
        return rc;
    if (!json_is_integer(v) || json_integer_value(v) != *pos)
        return qw_fail(err, QW_EFILE,
                       "%s: its state has %d positions, its header says otherwise",
                       qw_save_name(r), *pos);
    if (*pos > context)
        return qw_fail(err, QW_EFILE, "%s: %d positions, more than model.context = %d",
                       qw_save_name(r), *pos, context);
    return QW_OK;
}

/* Tokens of the timeline: as many as positions held, or one more that is not fed yet. */
static int read_ids(const struct qw_session *s, const struct qw_save_reader *r, int pos,
                    int32_t **out, size_t *n, struct qw_err *err)
{
    const json_t *h = qw_save_header(r), *ids = json_object_get(h, "ids");
    const size_t count = json_array_size(ids);
    int32_t *id = qw_alloc(count + 1, sizeof(*id));
    bool good = count == (size_t)pos || count == (size_t)pos + 1;
    for (size_t i = 0; good && i < count; i++) {
        const json_t *v = json_array_get(ids, i);
        const json_int_t x = json_integer_value(v);
        good = json_is_integer(v) && x >= 0 && x < s->e->hp.n_vocab;
        id[i] = good ? (int32_t)x : 0;
    }
    if (!good) {
        free(id);
        return qw_fail(err, QW_EFILE, "%s: its tokens do not fit its position",
                       qw_save_name(r));
    }
    *out = id;
    *n = count;
    return QW_OK;
}

/* The drafter whose parts the file has: this session's, or NULL. It then has no history,
 * which costs acceptance and nothing else. */
static struct qw_drafter *of_file(const struct qw_session *s,
                                  const struct qw_save_reader *r)
{
    json_t *mine = drafter_of(s);
    const bool here = mine != NULL && !json_is_null(mine);
    const bool same =
        here && json_equal(mine, json_object_get(qw_save_header(r), "drafter"));
    json_decref(mine);
    if (s->drafter != NULL && s->drafter->ops->parts != NULL && !same)
        qw_log(QW_WARN,
               "%s was made without this %s drafter: drafts will be poor at first",
               qw_save_name(r), s->drafter->ops->name);
    return same ? s->drafter : NULL;
}

static int restore(struct qw_session *s, const struct qw_save_reader *r,
                   struct qw_err *err)
{
    const json_t *h = qw_save_header(r);
    struct qw_drafter *d = NULL;
    struct qw_pcg64 rng;
    int32_t *id = NULL;
    size_t n = 0;
    int pos = 0, rc = check_header(s, r, err);
    if (rc == QW_OK)
        rc = read_position(s, r, &pos, err);
    if (rc == QW_OK)
        rc = read_ids(s, r, pos, &id, &n, err);
    if (rc == QW_OK && (!from_hex128(json_object_get(h, "rng_state"), &rng.state) ||
                        !from_hex128(json_object_get(h, "rng_stream"), &rng.inc)))
        rc =
            qw_fail(err, QW_EFILE, "%s: no state of the random numbers", qw_save_name(r));
    if (rc == QW_OK)
        rc = qw_draft_load(d = of_file(s, r), pos, r, false, err);
    if (rc == QW_OK) /* changes nothing when it refuses */
        rc = qw_state_read(qw_target_state(s->target), r, err);
    if (rc == QW_OK) {
        qw_spec_reset(s->spec);
        for (s->n = 0; s->n < n;)
            session_push(s, id[s->n]);
        s->thinking = json_is_true(json_object_get(h, "thinking"));
        session_sampler(s, n);
        *qw_sampler_rng(s->sampler) = rng;
    }
    if (rc == QW_OK)
        rc = qw_draft_load(d, pos, r, true, err);
    free(id);
    return rc;
}

int qw_session_restore(struct qw_session *s, const char *path, struct qw_err *err)
{
    struct qw_save_reader *r;
    int rc = session_ready(s, err);
    if (rc == QW_OK)
        rc = session_result(s, qw_target_wait(s->target, err));
    if (rc == QW_OK)
        rc = qw_save_open(&r, path, &kind, err);
    if (rc != QW_OK)
        return rc;
    rc = session_result(s, restore(s, r, err));
    qw_save_close(r);
    return rc;
}

int qw_session_fork(struct qw_session **out, struct qw_session *s, struct qw_err *err)
{
    struct qw_session *f;
    int rc = qw_session_open(&f, s->e, &s->drafting.p, err);
    if (rc != QW_OK)
        return rc;
    rc = settle(s, err);
    if (rc == QW_OK)
        rc = qw_state_copy(qw_target_state(f->target), qw_target_state(s->target), err);
    if (rc == QW_OK)
        rc = qw_draft_copy(f->drafter, s->drafter, qw_target_state(s->target)->pos, err);
    if (rc == QW_OK)
        rc = qw_target_wait(f->target, err);
    for (size_t i = 0; i < s->n; i++)
        session_push(f, s->id[i]);
    f->thinking = s->thinking;
    session_sampler(f, f->n);
    *qw_sampler_rng(f->sampler) = *qw_sampler_rng(s->sampler);
    if (rc != QW_OK)
        qw_session_close(f);
    else
        *out = f;
    return rc;
}

int qw_session_digest(struct qw_session *s, char hex[65], struct qw_err *err)
{
    int rc = settle(s, err);
    return rc == QW_OK ? qw_state_digest(qw_target_state(s->target), hex, err) : rc;
}

const int32_t *qw_session_ids(const struct qw_session *s, size_t *n)
{
    *n = s->n;
    return s->id;
}
