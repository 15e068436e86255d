/* SPDX-License-Identifier: MIT */
#include "pack_file.h"

#include <stdlib.h>
#include <string.h>

struct qw_pack_file {
    struct qw_save_reader *r;
};

static const struct qw_save_kind kind = {
    .magic = "QWENPACK", .what = "pack file", .version = 1, .mode = 0666};

char *qw_pack_path(const char *folder, const char sha256[65])
{
    return qw_sprintf("%s/%.32s.qwpack", folder, sha256);
}

/* ---- reading ---- */

static int check_source(const struct qw_save_reader *r, const char *sha256,
                        struct qw_err *err)
{
    const json_t *h = qw_save_header(r), *number = json_object_get(h, "layouts");
    const char *source = json_string_value(json_object_get(h, "source_sha256"));
    if (source == NULL || strcmp(source, sha256) != 0)
        return qw_fail(err, QW_EFILE, "%s: the pack of another model file",
                       qw_save_name(r));
    if (!json_is_integer(number) || json_integer_value(number) != QW_PACK_NUMBER)
        return qw_fail(err, QW_EFILE, "%s: its layouts are not number %d, this program's",
                       qw_save_name(r), (int)QW_PACK_NUMBER);
    return QW_OK;
}

int qw_pack_open(struct qw_pack_file **out, const char *path, const char sha256[65],
                 struct qw_err *err)
{
    struct qw_save_reader *r;
    int rc = qw_save_open(&r, path, &kind, err);
    if (rc != QW_OK)
        return rc;
    rc = check_source(r, sha256, err);
    if (rc != QW_OK) {
        qw_save_close(r);
        return rc;
    }
    *out = qw_alloc(1, sizeof(**out));
    (*out)->r = r;
    return QW_OK;
}

void qw_pack_close(struct qw_pack_file *p)
{
    if (p == NULL)
        return;
    qw_save_close(p->r);
    free(p);
}

static bool section_name(char name[QW_SAVE_NAME + 1], enum qw_layout l,
                         struct qw_str tensor)
{
    return snprintf(name, QW_SAVE_NAME + 1, "%s %.*s", qw_layout_name(l), (int)tensor.len,
                    tensor.data) <= QW_SAVE_NAME;
}

const unsigned char *qw_pack_tensor(const struct qw_pack_file *p, enum qw_layout l,
                                    struct qw_str name, uint64_t bytes)
{
    char section[QW_SAVE_NAME + 1];
    const void *data;
    uint64_t have;
    struct qw_err none;
    if (!section_name(section, l, name) ||
        qw_save_section(p->r, section, &data, &have, &none) != QW_OK || have != bytes)
        return NULL;
    return data;
}

/* ---- writing ---- */

int qw_pack_create(struct qw_save_writer **out, const char *path, const char sha256[65],
                   struct qw_err *err)
{
    json_t *header =
        json_pack("{s:s, s:i}", "source_sha256", sha256, "layouts", (int)QW_PACK_NUMBER);
    int rc = qw_save_create(out, path, &kind, header, err);
    json_decref(header);
    return rc;
}

int qw_pack_begin(struct qw_save_writer *w, enum qw_layout l, struct qw_str name,
                  struct qw_err *err)
{
    char section[QW_SAVE_NAME + 1];
    if (!section_name(section, l, name))
        return qw_fail(err, QW_EFILE, "%.*s: a name too long for a pack file",
                       (int)name.len, name.data);
    return qw_save_begin(w, section, err);
}
