/* SPDX-License-Identifier: MIT */
/* save.h - a checked container file: a JSON header and named sections. Session files are
 * such containers; what a file is for is said by its kind. All numbers little-endian:
 *
 *     0   8  magic of the kind
 *     8   4  layout of the container: 1
 *    12   4  version of the kind
 *    16   8  bytes of the file
 *    24   8  bytes of the header
 *    32   8  where the index starts
 *    40   8  number of sections
 *    48  16  zeros
 *    64  32  SHA-256 of bytes [96, end), then [0, 64)
 *    96      the header, a JSON object; sections in order, each at a multiple of 64; the
 *            index at a multiple of 8, to the end of the file. Gaps are zeros.
 *
 * An entry of the index: 8 bytes where, 8 bytes size, 8 bytes length of the name, the
 * name and zeros up to a multiple of 8.
 *
 * Writing goes to a new file beside the old one that takes its place when it is whole and
 * on the disk. Reading believes nothing before the checksum has been found right, and no
 * number after it. A file must not be changed in place while it is open. */
#ifndef QW_SAVE_H
#define QW_SAVE_H

#include <jansson.h>

#include "base.h"

enum {
    QW_SAVE_NAME = 64,            /* bytes a section's name may have */
    QW_SAVE_SECTIONS = 1 << 14,   /* sections a file may have */
    QW_SAVE_HEADER = 64 * 1 << 20 /* bytes a header may have */
};

struct qw_save_kind {
    char magic[9];    /* 8 bytes and a NUL */
    const char *what; /* "session file", for messages */
    uint32_t version;
    unsigned mode; /* permissions of a new file, less the umask */
};

/* ---- writing ---- */

struct qw_save_writer;
/* path may exist: it stays as it is until commit. The header is copied. Failure to write
 * is QW_EFILE, with the system's reason. */
int qw_save_create(struct qw_save_writer **out, const char *path,
                   const struct qw_save_kind *kind, const json_t *header,
                   struct qw_err *err);
/* A section, whole or in pieces: begin, append as often as needed, end. After a failure
 * all further calls fail too. Names are unique; that is the caller's to see to. */
int qw_save_add(struct qw_save_writer *w, const char *name, const void *data,
                uint64_t bytes, struct qw_err *err);
int qw_save_begin(struct qw_save_writer *w, const char *name, struct qw_err *err);
int qw_save_append(struct qw_save_writer *w, const void *data, uint64_t bytes,
                   struct qw_err *err);
int qw_save_end(struct qw_save_writer *w, struct qw_err *err);
/* Make the file whole and put it in its place. The writer is still to be closed. */
int qw_save_commit(struct qw_save_writer *w, struct qw_err *err);
/* Without a commit nothing is left of what was written. NULL is fine. */
void qw_save_close_writer(struct qw_save_writer *w);

/* ---- reading ---- */

struct qw_save_reader;
/* QW_EFILE with file, place and reason where the file is not one of this kind and
 * version, is cut, or differs from its checksum. */
int qw_save_open(struct qw_save_reader **out, const char *path,
                 const struct qw_save_kind *kind, struct qw_err *err);
/* The same of bytes in memory, which are borrowed; name stands in messages. */
int qw_save_parse(struct qw_save_reader **out, const char *name, const void *data,
                  uint64_t bytes, const struct qw_save_kind *kind, struct qw_err *err);
void qw_save_close(struct qw_save_reader *r);             /* NULL is fine */
const char *qw_save_name(const struct qw_save_reader *r); /* the path, fit for messages */
const json_t *qw_save_header(const struct qw_save_reader *r);
size_t qw_save_n_sections(const struct qw_save_reader *r);
const char *qw_save_section_name(const struct qw_save_reader *r, size_t i);
/* A view of a section, at a multiple of 64 bytes in a mapped file; QW_EFILE where there
 * is none. */
int qw_save_section(const struct qw_save_reader *r, const char *name, const void **data,
                    uint64_t *bytes, struct qw_err *err);
#endif
