/* SPDX-License-Identifier: MIT */
#include "draft_io.h"

#include <stdlib.h>
#include <string.h>

static struct qw_draft_part *parts_of(struct qw_drafter *d, int pos, int *n)
{
    *n = 0;
    return d != NULL && d->ops->parts != NULL ? d->ops->parts(d, pos, n) : NULL;
}

static int settle(struct qw_drafter *d, struct qw_err *err)
{
    return d != NULL && d->ops->settle != NULL ? d->ops->settle(d, err) : QW_OK;
}

static uint64_t part_bytes(const struct qw_draft_part *p)
{
    return p->span.page != NULL ? qw_kv_span_bytes(&p->span) : p->bytes;
}

static void section(const struct qw_draft_part *p, char name[QW_SAVE_NAME])
{
    snprintf(name, QW_SAVE_NAME, "draft.%s", p->name);
}

static int put(void *arg, const void *data, uint64_t bytes, struct qw_err *err)
{
    return qw_save_append(arg, data, bytes, err);
}

static int save_part(struct qw_dev *dev, const struct qw_draft_part *p,
                     struct qw_save_writer *w, struct qw_err *err)
{
    char name[QW_SAVE_NAME];
    section(p, name);
    int rc = qw_save_begin(w, name, err);
    if (rc == QW_OK && p->span.page != NULL) {
        rc = qw_kv_span_read(dev, &p->span, put, w, err);
    } else if (rc == QW_OK) {
        void *data = qw_alloc(p->bytes, 1);
        rc = qw_dev_read(dev, p->buf, p->at, data, p->bytes, err);
        if (rc == QW_OK)
            rc = qw_save_append(w, data, p->bytes, err);
        free(data);
    }
    return rc == QW_OK ? qw_save_end(w, err) : rc;
}

int qw_draft_save(struct qw_drafter *d, int pos, struct qw_save_writer *w,
                  struct qw_err *err)
{
    int n, rc = settle(d, err);
    struct qw_draft_part *p = parts_of(d, pos, &n);
    for (int i = 0; rc == QW_OK && i < n; i++)
        rc = save_part(qw_target_dev(d->target), &p[i], w, err);
    free(p);
    return rc;
}

static int load_part(struct qw_dev *dev, const struct qw_draft_part *p,
                     const struct qw_save_reader *r, bool apply, struct qw_err *err)
{
    char name[QW_SAVE_NAME];
    const void *data;
    uint64_t bytes;
    section(p, name);
    int rc = qw_save_section(r, name, &data, &bytes, err);
    if (rc != QW_OK)
        return rc;
    if (bytes != part_bytes(p))
        return qw_fail(err, QW_EFILE, "%s: %s has %llu bytes, this drafter's has %llu",
                       qw_save_name(r), name, (unsigned long long)bytes,
                       (unsigned long long)part_bytes(p));
    if (!apply)
        return QW_OK;
    return p->span.page != NULL
               ? qw_kv_span_write(dev, &p->span, data, err)
               : qw_dev_write(dev, p->buf, p->at, data, bytes, true, err);
}

int qw_draft_load(struct qw_drafter *d, int pos, const struct qw_save_reader *r,
                  bool apply, struct qw_err *err)
{
    int n, rc = QW_OK;
    struct qw_draft_part *p = parts_of(d, pos, &n);
    for (int i = 0; rc == QW_OK && i < n; i++)
        rc = load_part(qw_target_dev(d->target), &p[i], r, apply, err);
    free(p);
    return rc;
}

int qw_draft_copy(struct qw_drafter *to, struct qw_drafter *from, int pos,
                  struct qw_err *err)
{
    int n, m, rc = settle(from, err);
    struct qw_draft_part *p = parts_of(from, pos, &n), *q = parts_of(to, pos, &m);
    for (int i = 0; rc == QW_OK && i < n && i < m; i++) {
        struct qw_dev *dev = qw_target_dev(to->target);
        rc = p[i].span.page != NULL ? qw_kv_span_copy(dev, &q[i].span, &p[i].span, err)
                                    : qw_dev_copy(dev, q[i].buf, q[i].at, p[i].buf,
                                                  p[i].at, p[i].bytes, err);
    }
    free(p);
    free(q);
    return rc;
}
