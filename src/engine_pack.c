/* SPDX-License-Identifier: MIT */
/* engine_pack.c - which pack files belong to an engine's files; they are made where they
 * are missing or bad. */
#include "engine.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *source_of(const struct qw_engine *e, enum qw_pack_of which)
{
    return which == QW_PACK_TARGET ? e->opt->model.target : e->opt->model.draft;
}

static bool has(const struct qw_engine *e, enum qw_pack_of which)
{
    return which == QW_PACK_TARGET || e->draft != NULL;
}

/* The path of a pack, to be freed, and the hash of its source. */
static int name_pack(const struct qw_engine *e, enum qw_pack_of which, char sha256[65],
                     char **path, struct qw_err *err)
{
    const bool known = which == QW_PACK_TARGET ? qw_engine_target_hash(e, true, sha256)
                                               : qw_engine_draft_hash(e, true, sha256);
    if (!known)
        return qw_fail(err, QW_EFILE, "%s: cannot be hashed", source_of(e, which));
    *path = qw_pack_path(e->opt->model.pack, sha256);
    return QW_OK;
}

/* An MTP block is packed too, whether or not this run drafts with it. */
static int pack_target(const struct qw_engine *e, struct qw_save_writer *to, bool show,
                       struct qw_err *err)
{
    struct qw_model *m;
    int rc = qw_model_plan(&m, e->file, e->dev->max_alloc, e->hp.mtp, err);
    if (rc != QW_OK)
        return rc;
    rc = qw_model_pack(m, e->kern, to, show, err);
    qw_model_close(m);
    return rc;
}

static int make(const struct qw_engine *e, enum qw_pack_of which, const char *path,
                const char sha256[65], bool show, struct qw_err *err)
{
    struct qw_save_writer *to;
    mkdir(e->opt->model.pack, 0777); /* where that fails, so does the next line */
    int rc = qw_pack_create(&to, path, sha256, err);
    if (rc != QW_OK)
        return rc;
    rc = which == QW_PACK_TARGET ? pack_target(e, to, show, err)
                                 : qw_draft_model_pack(e->draft, e->kern, to, show, err);
    if (rc == QW_OK)
        rc = qw_save_commit(to, err);
    qw_save_close_writer(to);
    return rc;
}

/* A pack that is whole, made from this source, and has all that this engine needs. */
static int open_good(const struct qw_engine *e, enum qw_pack_of which, const char *path,
                     const char sha256[65], struct qw_pack_file **out, struct qw_err *err)
{
    int rc = qw_pack_open(out, path, sha256, err);
    if (rc != QW_OK)
        return rc;
    rc = which == QW_PACK_TARGET ? qw_model_packed(e->model, e->kern, *out, err)
                                 : qw_draft_model_packed(e->draft, e->kern, *out, err);
    if (rc != QW_OK) {
        qw_pack_close(*out);
        *out = NULL;
    }
    return rc;
}

/* Make the pack in place of the one that open_good has just refused. */
static int replace(const struct qw_engine *e, enum qw_pack_of which, const char *path,
                   const char sha256[65], const char *why, bool show, struct qw_err *err)
{
    if (access(path, F_OK) == 0)
        qw_log(QW_WARN, "%s; it is made anew", why);
    else
        qw_log(QW_INFO, "%s: not there yet, it is made", path);
    return make(e, which, path, sha256, show, err);
}

static void find(struct qw_engine *e, enum qw_pack_of which, const char *path,
                 const char sha256[65], bool show)
{
    struct qw_err why = {""}, err = {""};
    struct qw_pack_file **pack = &e->pack[which];
    if (open_good(e, which, path, sha256, pack, &why) == QW_OK)
        return;
    int rc = replace(e, which, path, sha256, why.msg, show, &err);
    if (rc == QW_OK)
        rc = open_good(e, which, path, sha256, pack, &err);
    if (rc != QW_OK)
        qw_log(QW_WARN, "%s; loading without a pack file", err.msg);
}

int qw_engine_packs(struct qw_engine *e, bool show, struct qw_err *err)
{
    int rc = QW_OK;
    for (int i = 0; rc == QW_OK && e->opt->model.pack != NULL && i < QW_N_PACKS; i++) {
        char sha256[65], *path = NULL;
        if (!has(e, (enum qw_pack_of)i))
            continue;
        rc = name_pack(e, (enum qw_pack_of)i, sha256, &path, err);
        if (rc == QW_OK)
            find(e, (enum qw_pack_of)i, path, sha256, show);
        free(path);
    }
    return rc;
}

void qw_engine_close_packs(struct qw_engine *e)
{
    for (int i = 0; i < QW_N_PACKS; i++) {
        qw_pack_close(e->pack[i]);
        e->pack[i] = NULL;
    }
}

/* ---- the command ---- */

static int pack_one(struct qw_engine *e, enum qw_pack_of which, bool again, bool show,
                    json_t *report, struct qw_err *err)
{
    const double start = qw_now();
    char sha256[65], *path = NULL;
    struct qw_pack_file *pack = NULL;
    struct qw_err why = {""};
    struct stat st = {0};
    int rc = name_pack(e, which, sha256, &path, err);
    if (rc != QW_OK)
        return rc;
    const bool good = !again && open_good(e, which, path, sha256, &pack, &why) == QW_OK;
    qw_pack_close(pack);
    if (again)
        rc = make(e, which, path, sha256, show, err);
    else if (!good)
        rc = replace(e, which, path, sha256, why.msg, show, err);
    if (rc == QW_OK && stat(path, &st) != 0)
        rc = qw_fail(err, QW_EFILE, "%s: it is gone again", path);
    if (rc == QW_OK)
        json_array_append_new(report,
                              json_pack("{s:s, s:s, s:s, s:I, s:b, s:f}", "path", path,
                                        "source", source_of(e, which), "source_sha256",
                                        sha256, "bytes", (json_int_t)st.st_size,
                                        "written", !good, "seconds", qw_now() - start));
    free(path);
    return rc;
}

int qw_engine_pack(struct qw_engine *e, bool again, bool show, json_t **report,
                   struct qw_err *err)
{
    int rc = QW_OK;
    if (e->opt->model.pack == NULL)
        return qw_fail(err, QW_EUSAGE,
                       "model.pack is off: set it to the folder of pack files");
    *report = json_array();
    for (int i = 0; rc == QW_OK && i < QW_N_PACKS; i++)
        if (has(e, (enum qw_pack_of)i))
            rc = pack_one(e, (enum qw_pack_of)i, again, show, *report, err);
    if (rc != QW_OK)
        json_decref(*report);
    return rc;
}
