/* SPDX-License-Identifier: MIT */
#include "spec.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "adapt.h"

struct qw_spec {
    struct qw_target *t;
    struct qw_drafter *d;
    struct qw_dev *dev;
    struct qw_plan accept;
    cl_mem result, spare;   /* spare: stands in for the block of a drafter on the host */
    struct qw_adapt *adapt; /* NULL: always as many as asked for */
    bool queued;            /* a proposal for `next` below is on its way */
    int next_pos;
    int32_t next_id;
    int32_t seed[2]; /* position and id on their way to `next` */
    int32_t read[QW_RES_IDS + QW_MAX_DRAFT + 1];
    struct qw_step_rows rows; /* of the step not yet committed */
    bool verified;            /* that step was a verify step */
    int asked;                /* tokens its draft was asked for; 0: a plain step */
    double began;
    struct qw_spec_stats stats;
};

void qw_drafter_close(struct qw_drafter *d)
{
    if (d != NULL)
        d->ops->close(d);
}

int qw_spec_open(struct qw_spec **out, struct qw_target *t, struct qw_drafter *drafter,
                 bool adaptive, struct qw_err *err)
{
    struct qw_spec *s = qw_alloc(1, sizeof(*s));
    int rc = QW_OK;
    s->t = t;
    s->d = drafter;
    s->dev = qw_target_dev(t);
    qw_plan_init(&s->accept, qw_target_kern(t));
    if (drafter != NULL) {
        rc = qw_dev_buffer(s->dev, sizeof(s->read), "accepted tokens", &s->result, err);
        if (rc == QW_OK && drafter->next == NULL)
            rc = qw_dev_buffer(s->dev, 4 * (QW_CYC_IDS + 1), "accepted tokens", &s->spare,
                               err);
        if (rc == QW_OK)
            rc = qw_op_accept(&s->accept, qw_target_cycle(t), qw_target_best(t),
                              s->result, drafter->next ? drafter->next : s->spare, err);
        if (adaptive)
            s->adapt = qw_adapt_open(drafter->n_max);
    }
    if (rc != QW_OK)
        qw_spec_close(s);
    else
        *out = s;
    return rc;
}

void qw_spec_plans(const struct qw_spec *s, struct qw_plan_list *out)
{
    qw_plan_list_add(out, "accept", &s->accept);
}

uint64_t qw_spec_bytes(bool on_device)
{
    return 4 * (QW_RES_IDS + QW_MAX_DRAFT + 1) + (on_device ? 0 : 4 * (QW_CYC_IDS + 1));
}

void qw_spec_close(struct qw_spec *s)
{
    if (s == NULL)
        return;
    clFinish(s->dev->queue);
    qw_plan_free(&s->accept);
    qw_dev_release(s->dev, &s->result);
    qw_dev_release(s->dev, &s->spare);
    qw_adapt_close(s->adapt);
    free(s);
}

void qw_spec_reset(struct qw_spec *s)
{
    s->queued = s->verified = false;
    s->rows = (struct qw_step_rows){0};
    s->stats = (struct qw_spec_stats){0};
    if (s->d != NULL && s->d->ops->rewind != NULL)
        s->d->ops->rewind(s->d, 0);
}

const struct qw_spec_stats *qw_spec_stats(const struct qw_spec *s)
{
    return &s->stats;
}

/* The drafter takes in the last step's rows, which start at position pos. */
static int observe(struct qw_spec *s, int rows, int pos, bool later, struct qw_err *err)
{
    if (s->d == NULL || s->d->ops->observe == NULL)
        return QW_OK;
    return s->d->ops->observe(s->d, rows, pos, later, err);
}

int qw_spec_feed(struct qw_spec *s, const int32_t *id, int n, bool head,
                 struct qw_err *err)
{
    const int pos = qw_target_state(s->t)->pos;
    int rc = qw_target_forward(s->t, id, n, head, err);
    s->queued = s->verified = false;
    s->rows.rows = 1;
    s->rows.decided = 0;
    s->began = qw_now();
    return rc == QW_OK ? observe(s, n, pos, false, err) : rc;
}

/* A proposal on the device for the token `id` at position pos, unless it is queued. */
static int propose_on_device(struct qw_spec *s, int pos, int32_t id, struct qw_err *err)
{
    int rc = QW_OK;
    if (s->queued && s->next_pos == pos && s->next_id == id)
        return rc;
    s->seed[0] = pos;
    s->seed[1] = id;
    rc = qw_dev_write(s->dev, s->d->next, 4 * QW_CYC_POS, &s->seed[0], 4, false, err);
    if (rc == QW_OK)
        rc = qw_dev_write(s->dev, s->d->next, 4 * QW_CYC_IDS, &s->seed[1], 4, false, err);
    return rc == QW_OK ? s->d->ops->propose(s->d, NULL, 0, NULL, err) : rc;
}

static int plain_step(struct qw_spec *s, int32_t id, bool host, struct qw_step_rows *r,
                      struct qw_err *err)
{
    const int pos = qw_target_state(s->t)->pos;
    const bool rests = s->adapt != NULL && qw_adapt_choose(s->adapt) == 0;
    int rc = qw_target_forward(s->t, &id, 1, true, err);
    s->queued = s->verified = false;
    r->rows = 1;
    r->fed[0] = id;
    r->decided = host ? 0 : 1;
    if (rc == QW_OK)
        rc = observe(s, 1, pos, rests, err);
    return rc == QW_OK && !host ? qw_target_read_argmax(s->t, r->best, 1, err) : rc;
}

/* What the accept kernel found, in one read; behind it the drafter's rows and the next
 * proposal are queued already. */
static int read_result(struct qw_spec *s, bool draft_on, struct qw_step_rows *r,
                       struct qw_err *err)
{
    cl_event done = NULL;
    int rc = qw_plan_run(&s->accept, err);
    if (rc == QW_OK)
        rc =
            qw_dev_read_later(s->dev, s->result, 0, s->read, sizeof(s->read), &done, err);
    if (rc == QW_OK)
        rc = observe(s, r->rows, qw_target_state(s->t)->pos, false, err);
    if (rc == QW_OK && draft_on)
        rc = s->d->ops->propose(s->d, NULL, 0, NULL, err);
    const int waited =
        done != NULL ? qw_dev_wait(s->dev, done, rc == QW_OK ? err : NULL) : QW_OK;
    if (rc == QW_OK)
        rc = waited;
    if (rc != QW_OK)
        return rc;
    if (s->read[QW_RES_FINITE] != 1)
        return qw_fail(err, QW_EDEVICE,
                       "%s gave logits that are not finite at position %d", s->dev->name,
                       qw_target_state(s->t)->pos);
    r->rows = s->read[QW_RES_DRAFTED] + 1;
    r->decided = s->read[QW_RES_COUNT];
    for (int i = 0; i < r->decided; i++)
        r->best[i] = s->read[QW_RES_IDS + i];
    for (int i = 0; i + 1 < r->decided; i++)
        r->fed[i + 1] = r->best[i];
    if (r->decided < r->rows)
        r->fed[r->decided] = -1; /* what it was fed is not what it should have been */
    s->queued = draft_on;
    s->next_pos = qw_target_state(s->t)->pos + r->decided;
    s->next_id = r->best[r->decided - 1];
    return QW_OK;
}

static int verify_step(struct qw_spec *s, int32_t id, int most, bool host,
                       struct qw_step_rows *r, struct qw_err *err)
{
    const bool on_device = s->d->next != NULL;
    const bool draft_on =
        on_device && (s->adapt == NULL || qw_adapt_choose(s->adapt) > 0);
    int rc = qw_target_verify(s->t, id, most, err);
    s->queued = false;
    s->verified = true;
    r->rows = most + 1;
    r->fed[0] = id;
    r->decided = 0;
    if (rc != QW_OK)
        return rc;
    if (!host)
        return read_result(s, draft_on, r, err);
    rc = observe(s, r->rows, qw_target_state(s->t)->pos, false, err);
    return rc == QW_OK ? qw_target_read_fed(s->t, r->fed, &r->rows, err) : rc;
}

int qw_spec_step(struct qw_spec *s, const int32_t *id, size_t n, int most, bool host,
                 struct qw_step_rows *rows, struct qw_err *err)
{
    struct qw_step_rows *r = &s->rows;
    const int32_t newest = id[n - 1];
    int rc = QW_OK, count = s->d != NULL ? s->d->n_max : 0;
    assert(n == (size_t)qw_target_state(s->t)->pos + 1);
    s->began = qw_now();
    if (s->adapt != NULL && qw_adapt_choose(s->adapt) < count)
        count = qw_adapt_choose(s->adapt);
    if (most < count)
        count = most;
    if (count > 0 && s->d->next != NULL) {
        rc = propose_on_device(s, qw_target_state(s->t)->pos, newest, err);
    } else if (count > 0) {
        int found = 0;
        rc = s->d->ops->propose(s->d, id, n, &found, err);
        count = found < count ? found : count;
    }
    s->asked = count;
    if (rc == QW_OK)
        rc = count > 0 ? verify_step(s, newest, count, host, r, err)
                       : plain_step(s, newest, host, r, err);
    *rows = *r;
    return rc;
}

void qw_spec_commit(struct qw_spec *s, int count, int32_t newest)
{
    struct qw_spec_stats *st = &s->stats;
    const int drafted = s->rows.rows - 1, kept = count - 1;
    if (s->verified)
        qw_target_commit(s->t, count);
    if (s->queued && (s->next_pos != qw_target_state(s->t)->pos || s->next_id != newest))
        s->queued = false;
    st->cycles++;
    st->emitted += count;
    st->drafted += drafted;
    st->accepted += kept;
    for (int i = 0; i < drafted; i++) {
        st->tried[i]++;
        st->kept[i] += i < kept;
    }
    if (s->adapt != NULL)
        qw_adapt_note(s->adapt, s->asked, kept, qw_now() - s->began);
    s->verified = false;
}
