/* SPDX-License-Identifier: MIT */
/* draft_io.h - what a drafter keeps of a settled timeline, to a session file, from one,
 * to another drafter of its kind. d NULL, or one that keeps nothing: nothing to do. */
#ifndef QW_DRAFT_IO_H
#define QW_DRAFT_IO_H

#include "drafter.h"
#include "save.h"

/* Adds a section "draft.<part>" for each part. */
int qw_draft_save(struct qw_drafter *d, int pos, struct qw_save_writer *w,
                  struct qw_err *err);
/* The parts of a file that this drafter made. QW_EFILE where one is missing or has
 * another size; apply false: only that check. */
int qw_draft_load(struct qw_drafter *d, int pos, const struct qw_save_reader *r,
                  bool apply, struct qw_err *err);
/* Both made by the same parameters. Enqueues; the caller waits. */
int qw_draft_copy(struct qw_drafter *to, struct qw_drafter *from, int pos,
                  struct qw_err *err);
#endif
