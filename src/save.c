/* SPDX-License-Identifier: MIT */
#include "save.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "save_format.h"

struct qw_save_writer {
    char *path, *temp;
    char label[1024];
    int fd; /* -1 when closed */
    struct qw_save_kind kind;
    struct qw_hash *hash;
    uint64_t at; /* bytes written so far, front included */
    uint64_t header_bytes, n_sections, section_at;
    char name[QW_SAVE_NAME + 1]; /* of the open section; empty: none */
    struct qw_buf index;
    bool bad; /* a write failed */
};

static void put32(unsigned char *at, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(v >> 8 * i);
}

static void put64(unsigned char *at, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        at[i] = (unsigned char)(v >> 8 * i);
}

static int broken(struct qw_save_writer *w, const char *what, struct qw_err *err)
{
    const int reason = errno;
    w->bad = true;
    return qw_fail(err, QW_EFILE, "%s: cannot %s: %s", w->label, what, strerror(reason));
}

/* Into the file and the running hash. */
static int write_bytes(struct qw_save_writer *w, const void *data, uint64_t bytes,
                       struct qw_err *err)
{
    const uint64_t most = (uint64_t)1 << 30;
    const unsigned char *at = data;
    if (w->bad)
        return qw_fail(err, QW_EFILE, "%s: writing it failed before", w->label);
    while (bytes > 0) {
        const ssize_t n = write(w->fd, at, (size_t)(bytes < most ? bytes : most));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return broken(w, "write it", err);
        qw_hash_add(w->hash, at, (size_t)n);
        at += n;
        bytes -= (uint64_t)n;
        w->at += (uint64_t)n;
    }
    return QW_OK;
}

static int pad_to(struct qw_save_writer *w, uint64_t unit, struct qw_err *err)
{
    static const unsigned char zeros[SAVE_ALIGN];
    return write_bytes(w, zeros, (unit - w->at % unit) % unit, err);
}

/* A new file beside path. Its permissions follow the umask, which mkstemp's would not. */
static int create_temp(struct qw_save_writer *w, struct qw_err *err)
{
    enum { TRIES = 100 };
    for (int i = 0; w->fd < 0 && i < TRIES; i++) {
        free(w->temp);
        w->temp = qw_sprintf("%s.%ld-%d.tmp", w->path, (long)getpid(), i);
        w->fd = open(w->temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, w->kind.mode);
        if (w->fd < 0 && errno != EEXIST)
            break;
    }
    if (w->fd >= 0)
        return QW_OK;
    const int rc = broken(w, "create a file beside it", err);
    free(w->temp); /* not ours to remove */
    w->temp = NULL;
    return rc;
}

static int write_front(struct qw_save_writer *w, const json_t *header, struct qw_err *err)
{
    char *text = !json_is_object(header)
                     ? NULL
                     : json_dumps(header, JSON_COMPACT | JSON_SORT_KEYS);
    if (text == NULL || strlen(text) > QW_SAVE_HEADER) {
        free(text);
        w->bad = true;
        return qw_fail(err, QW_EFILE,
                       "%s: its header is no JSON object of at most %d bytes", w->label,
                       (int)QW_SAVE_HEADER);
    }
    w->header_bytes = strlen(text);
    w->at = SAVE_FRONT; /* the front is written at the end; until then it is a hole */
    int rc = lseek(w->fd, SAVE_FRONT, SEEK_SET) < 0
                 ? broken(w, "write it", err)
                 : write_bytes(w, text, w->header_bytes, err);
    free(text);
    return rc;
}

int qw_save_create(struct qw_save_writer **out, const char *path,
                   const struct qw_save_kind *kind, const json_t *header,
                   struct qw_err *err)
{
    struct stat st;
    struct qw_save_writer *w = qw_alloc(1, sizeof(*w));
    w->path = qw_strdup(path);
    qw_escape(w->label, sizeof(w->label), path, strlen(path));
    w->kind = *kind;
    w->fd = -1;
    w->hash = qw_hash_open();
    /* a device or a folder must not be replaced by a file */
    int rc = stat(path, &st) == 0 && !S_ISREG(st.st_mode)
                 ? qw_fail(err, QW_EFILE, "%s: not a regular file", w->label)
                 : create_temp(w, err);
    if (rc == QW_OK)
        rc = write_front(w, header, err);
    if (rc != QW_OK)
        qw_save_close_writer(w);
    else
        *out = w;
    return rc;
}

int qw_save_begin(struct qw_save_writer *w, const char *name, struct qw_err *err)
{
    assert(w->name[0] == '\0' && name[0] != '\0' && strlen(name) <= QW_SAVE_NAME);
    assert(w->n_sections < QW_SAVE_SECTIONS);
    int rc = pad_to(w, SAVE_ALIGN, err);
    if (rc == QW_OK) {
        snprintf(w->name, sizeof(w->name), "%s", name);
        w->section_at = w->at;
    }
    return rc;
}

int qw_save_append(struct qw_save_writer *w, const void *data, uint64_t bytes,
                   struct qw_err *err)
{
    assert(w->bad || w->name[0] != '\0');
    return write_bytes(w, data, bytes, err);
}

int qw_save_end(struct qw_save_writer *w, struct qw_err *err)
{
    static const unsigned char zeros[8];
    unsigned char entry[SAVE_ENTRY];
    const size_t len = strlen(w->name);
    if (w->bad)
        return qw_fail(err, QW_EFILE, "%s: writing it failed before", w->label);
    assert(len > 0);
    put64(entry, w->section_at);
    put64(entry + 8, w->at - w->section_at);
    put64(entry + 16, len);
    qw_buf_add(&w->index, entry, sizeof(entry));
    qw_buf_add(&w->index, w->name, len);
    qw_buf_add(&w->index, zeros, (8 - len % 8) % 8);
    w->n_sections++;
    w->name[0] = '\0';
    return QW_OK;
}

int qw_save_add(struct qw_save_writer *w, const char *name, const void *data,
                uint64_t bytes, struct qw_err *err)
{
    int rc = qw_save_begin(w, name, err);
    if (rc == QW_OK)
        rc = qw_save_append(w, data, bytes, err);
    return rc == QW_OK ? qw_save_end(w, err) : rc;
}

/* The index, then the front, which knows the rest. */
static int finish(struct qw_save_writer *w, struct qw_err *err)
{
    unsigned char front[SAVE_FRONT] = {0};
    int rc = pad_to(w, 8, err);
    const uint64_t index_at = w->at;
    if (rc == QW_OK)
        rc = write_bytes(w, w->index.data, w->index.len, err);
    if (rc != QW_OK)
        return rc;
    memcpy(front, w->kind.magic, 8);
    put32(front + SAVE_LAYOUT_AT, SAVE_LAYOUT);
    put32(front + SAVE_VERSION_AT, w->kind.version);
    put64(front + SAVE_TOTAL_AT, w->at);
    put64(front + SAVE_HEADER_AT, w->header_bytes);
    put64(front + SAVE_INDEX_AT, index_at);
    put64(front + SAVE_SECTIONS_AT, w->n_sections);
    qw_hash_add(w->hash, front, SAVE_SUM_AT);
    const bool hashed = qw_hash_end(w->hash, front + SAVE_SUM_AT);
    w->hash = NULL;
    if (!hashed) {
        w->bad = true;
        return qw_fail(err, QW_EFAIL, "%s: SHA-256 failed in libcrypto", w->label);
    }
    errno = EIO; /* the reason when less than all is written */
    return pwrite(w->fd, front, sizeof(front), 0) != (ssize_t)sizeof(front)
               ? broken(w, "write it", err)
               : QW_OK;
}

/* Without this a power cut may lose the rename; a file system that cannot do it is still
 * fine otherwise. */
static void sync_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *dir = slash == NULL   ? qw_strdup(".")
                : slash == path ? qw_strdup("/")
                                : qw_sprintf("%.*s", (int)(slash - path), path);
    const int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    free(dir);
}

int qw_save_commit(struct qw_save_writer *w, struct qw_err *err)
{
    assert(w->bad || w->name[0] == '\0');
    int rc = finish(w, err);
    if (rc != QW_OK)
        return rc;
    if (fsync(w->fd) != 0)
        return broken(w, "write it", err);
    const int closed = close(w->fd);
    w->fd = -1;
    if (closed != 0)
        return broken(w, "write it", err);
    if (rename(w->temp, w->path) != 0)
        return broken(w, "put it in its place", err);
    sync_folder(w->path);
    free(w->temp);
    w->temp = NULL;
    w->bad = true; /* nothing more goes in */
    return QW_OK;
}

void qw_save_close_writer(struct qw_save_writer *w)
{
    unsigned char md[QW_HASH_BYTES];
    if (w == NULL)
        return;
    if (w->fd >= 0)
        close(w->fd);
    if (w->temp != NULL)
        unlink(w->temp);
    if (w->hash != NULL)
        qw_hash_end(w->hash, md);
    qw_buf_free(&w->index);
    free(w->temp);
    free(w->path);
    free(w);
}
