/* SPDX-License-Identifier: MIT */
/* pack_file.h - the packed weights of one GGUF file in a container (save.h). A section is
 * one tensor: its tiles as pack.h lays them out, 16 rows each, the last one filled up.
 * Its name is layout and tensor, "q4_0 blk.0.ffn_up.weight". A pack belongs to the file
 * whose SHA-256 its header names, and to one numbering of the layouts. */
#ifndef QW_PACK_FILE_H
#define QW_PACK_FILE_H

#include "gguf.h"
#include "pack.h"
#include "save.h"

/* Of the layouts of pack.h and blocks.clh: raise it when one of them changes. */
enum { QW_PACK_NUMBER = 1 };

/* Where the pack of a source is kept in a folder: a text of the caller's. */
char *qw_pack_path(const char *folder, const char sha256[65]);

struct qw_pack_file;
/* Maps the file and checks all of it (QW_EFILE: file and reason): its checksum, the
 * source it was made from, the numbering of the layouts. */
int qw_pack_open(struct qw_pack_file **out, const char *path, const char sha256[65],
                 struct qw_err *err);
void qw_pack_close(struct qw_pack_file *p); /* NULL is fine */
/* The tiles of a tensor, `bytes` of them, in the map; NULL where the pack has no such
 * section. */
const unsigned char *qw_pack_tensor(const struct qw_pack_file *p, enum qw_layout l,
                                    struct qw_str name, uint64_t bytes);

/* A new pack, which takes its place at commit (save.h). */
int qw_pack_create(struct qw_save_writer **out, const char *path, const char sha256[65],
                   struct qw_err *err);
/* Begin a tensor's section; its tiles are appended, then it is ended. */
int qw_pack_begin(struct qw_save_writer *w, enum qw_layout l, struct qw_str name,
                  struct qw_err *err);
#endif
