/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gguf_watch.h"
#include "save.h"
#include "save_format.h"

struct section {
    uint64_t at, bytes;
    char name[QW_SAVE_NAME + 1];
};

struct qw_save_reader {
    char label[1024];
    const unsigned char *data;
    uint64_t bytes;
    void *map; /* NULL: the bytes are borrowed */
    json_t *header;
    struct section *section;
    size_t n;
};

static uint32_t get32(const unsigned char *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static uint64_t get64(const unsigned char *at)
{
    return get32(at) | (uint64_t)get32(at + 4) << 32;
}

static unsigned long long ull(uint64_t n)
{
    return n;
}

/* Magic, versions, length: what can be told before the checksum is looked at. */
static int check_front(const struct qw_save_reader *r, const struct qw_save_kind *kind,
                       struct qw_err *err)
{
    const uint64_t n = r->bytes;
    if (memcmp(r->data, kind->magic, n < 8 ? n : 8) != 0 || n == 0)
        return qw_fail(err, QW_EFILE, "%s: not a %s: it starts otherwise", r->label,
                       kind->what);
    if (n < SAVE_FRONT)
        return qw_fail(err, QW_EFILE, "%s: cut at byte %llu, inside the first %d bytes",
                       r->label, ull(n), (int)SAVE_FRONT);
    const uint32_t layout = get32(r->data + SAVE_LAYOUT_AT);
    const uint32_t version = get32(r->data + SAVE_VERSION_AT);
    const uint64_t total = get64(r->data + SAVE_TOTAL_AT);
    if (layout != SAVE_LAYOUT || version != kind->version)
        return qw_fail(err, QW_EFILE,
                       "%s: a %s of another version: %lu.%lu, this program reads %d.%lu",
                       r->label, kind->what, (unsigned long)layout,
                       (unsigned long)version, (int)SAVE_LAYOUT,
                       (unsigned long)kind->version);
    if (n < total)
        return qw_fail(err, QW_EFILE, "%s: cut at byte %llu of %llu", r->label, ull(n),
                       ull(total));
    if (n > total)
        return qw_fail(err, QW_EFILE, "%s: %llu bytes follow its end at byte %llu",
                       r->label, ull(n - total), ull(total));
    return QW_OK;
}

static int check_sum(const struct qw_save_reader *r, struct qw_err *err)
{
    const uint64_t piece = (uint64_t)1 << 30;
    unsigned char md[QW_HASH_BYTES];
    struct qw_hash *h = qw_hash_open();
    for (uint64_t at = SAVE_FRONT, n; at < r->bytes; at += n) {
        n = r->bytes - at < piece ? r->bytes - at : piece;
        qw_hash_add(h, r->data + at, (size_t)n);
    }
    qw_hash_add(h, r->data, SAVE_SUM_AT);
    if (!qw_hash_end(h, md))
        return qw_fail(err, QW_EFAIL, "%s: SHA-256 failed in libcrypto", r->label);
    return memcmp(md, r->data + SAVE_SUM_AT, QW_HASH_BYTES) == 0
               ? QW_OK
               : qw_fail(err, QW_EFILE, "%s: its checksum differs: the file is damaged",
                         r->label);
}

static int read_header(struct qw_save_reader *r, struct qw_err *err)
{
    const uint64_t bytes = get64(r->data + SAVE_HEADER_AT);
    json_error_t at;
    if (bytes > r->bytes - SAVE_FRONT || bytes > QW_SAVE_HEADER)
        return qw_fail(err, QW_EFILE, "%s: a header of %llu bytes is too long", r->label,
                       ull(bytes));
    r->header = json_loadb((const char *)r->data + SAVE_FRONT, (size_t)bytes,
                           JSON_REJECT_DUPLICATES, &at);
    return json_is_object(r->header)
               ? QW_OK
               : qw_fail(err, QW_EFILE, "%s: its header is no JSON object", r->label);
}

/* The entry at *at; sections lie in order between the header and the index. */
static int read_entry(struct qw_save_reader *r, struct section *s, uint64_t *at,
                      uint64_t from, uint64_t index_at, struct qw_err *err)
{
    const unsigned char *e = r->data + *at;
    uint64_t left = r->bytes - *at, end;
    const uint64_t len = left < SAVE_ENTRY ? 0 : get64(e + 16);
    const uint64_t room = (len + 7) / 8 * 8;
    if (len < 1 || len > QW_SAVE_NAME || room > left - SAVE_ENTRY)
        return qw_fail(err, QW_EFILE, "%s: no index entry at byte %llu", r->label,
                       ull(*at));
    s->at = get64(e);
    s->bytes = get64(e + 8);
    memcpy(s->name, e + SAVE_ENTRY, (size_t)len);
    if (strlen(s->name) != len || s->at % SAVE_ALIGN != 0 || s->at < from ||
        !qw_add(s->at, s->bytes, &end) || end > index_at)
        return qw_fail(err, QW_EFILE,
                       "%s: the index entry at byte %llu names no place for a section",
                       r->label, ull(*at));
    for (const struct section *o = r->section; o < s; o++)
        if (strcmp(o->name, s->name) == 0)
            return qw_fail(err, QW_EFILE, "%s: the index entry at byte %llu is a repeat",
                           r->label, ull(*at));
    *at += SAVE_ENTRY + room;
    return QW_OK;
}

static int read_index(struct qw_save_reader *r, struct qw_err *err)
{
    const uint64_t n = get64(r->data + SAVE_SECTIONS_AT);
    const uint64_t index_at = get64(r->data + SAVE_INDEX_AT);
    uint64_t from = SAVE_FRONT + get64(r->data + SAVE_HEADER_AT), at = index_at;
    int rc = QW_OK;
    if ((get64(r->data + SAVE_ZEROS_AT) | get64(r->data + SAVE_ZEROS_AT + 8)) != 0)
        return qw_fail(err, QW_EFILE, "%s: bytes 48 to 63 are not zeros", r->label);
    if (index_at % 8 != 0 || index_at < from || index_at > r->bytes ||
        n > QW_SAVE_SECTIONS || n > (r->bytes - index_at) / (SAVE_ENTRY + 8))
        return qw_fail(err, QW_EFILE, "%s: no index of %llu sections at byte %llu",
                       r->label, ull(n), ull(index_at));
    r->section = qw_alloc((size_t)n + 1, sizeof(*r->section));
    for (; rc == QW_OK && r->n < n; r->n += rc == QW_OK) {
        struct section *s = &r->section[r->n];
        rc = read_entry(r, s, &at, from, index_at, err);
        from = s->at + s->bytes;
    }
    if (rc == QW_OK && at != r->bytes)
        rc = qw_fail(err, QW_EFILE, "%s: its index ends at byte %llu of %llu", r->label,
                     ull(at), ull(r->bytes));
    return rc;
}

static int parse(struct qw_save_reader *r, const struct qw_save_kind *kind,
                 struct qw_err *err)
{
    int rc = check_front(r, kind, err);
    if (rc == QW_OK)
        rc = check_sum(r, err);
    if (rc == QW_OK)
        rc = read_header(r, err);
    return rc == QW_OK ? read_index(r, err) : rc;
}

static int map_file(struct qw_save_reader *r, const char *path, struct qw_err *err)
{
    struct stat st;
    /* O_NONBLOCK: a FIFO must not hang us */
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int rc = QW_OK;
    if (fd < 0 || fstat(fd, &st) != 0)
        rc = qw_fail(err, QW_EFILE, "%s: cannot open it: %s", r->label, strerror(errno));
    else if (!S_ISREG(st.st_mode))
        rc = qw_fail(err, QW_EFILE, "%s: not a regular file", r->label);
    if (rc == QW_OK && st.st_size > 0) {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        r->bytes = (uint64_t)st.st_size;
        r->data = r->map = p == MAP_FAILED ? NULL : p;
        if (r->map == NULL)
            rc = qw_fail(err, QW_EFILE, "%s: cannot map %llu bytes: %s", r->label,
                         ull(r->bytes), strerror(errno));
        else
            qw_watch_add(r->map, (size_t)r->bytes, r->label);
    }
    if (fd >= 0)
        close(fd);
    return rc;
}

static struct qw_save_reader *new_reader(const char *name)
{
    struct qw_save_reader *r = qw_alloc(1, sizeof(*r));
    qw_escape(r->label, sizeof(r->label), name, strlen(name));
    r->data = (const unsigned char *)"";
    return r;
}

static int give(struct qw_save_reader **out, struct qw_save_reader *r, int rc)
{
    if (rc != QW_OK)
        qw_save_close(r);
    else
        *out = r;
    return rc;
}

int qw_save_parse(struct qw_save_reader **out, const char *name, const void *data,
                  uint64_t bytes, const struct qw_save_kind *kind, struct qw_err *err)
{
    struct qw_save_reader *r = new_reader(name);
    if (bytes > 0)
        r->data = data;
    r->bytes = bytes;
    return give(out, r, parse(r, kind, err));
}

int qw_save_open(struct qw_save_reader **out, const char *path,
                 const struct qw_save_kind *kind, struct qw_err *err)
{
    struct qw_save_reader *r = new_reader(path);
    int rc = map_file(r, path, err);
    if (rc == QW_OK)
        rc = parse(r, kind, err);
    return give(out, r, rc);
}

void qw_save_close(struct qw_save_reader *r)
{
    if (r == NULL)
        return;
    if (r->map != NULL) {
        qw_watch_drop(r->map);
        munmap(r->map, (size_t)r->bytes);
    }
    json_decref(r->header);
    free(r->section);
    free(r);
}

const char *qw_save_name(const struct qw_save_reader *r)
{
    return r->label;
}

const json_t *qw_save_header(const struct qw_save_reader *r)
{
    return r->header;
}

size_t qw_save_n_sections(const struct qw_save_reader *r)
{
    return r->n;
}

const char *qw_save_section_name(const struct qw_save_reader *r, size_t i)
{
    return r->section[i].name;
}

int qw_save_section(const struct qw_save_reader *r, const char *name, const void **data,
                    uint64_t *bytes, struct qw_err *err)
{
    for (size_t i = 0; i < r->n; i++)
        if (strcmp(r->section[i].name, name) == 0) {
            *data = r->data + r->section[i].at;
            *bytes = r->section[i].bytes;
            return QW_OK;
        }
    return qw_fail(err, QW_EFILE, "%s: it has no section %s", r->label, name);
}
