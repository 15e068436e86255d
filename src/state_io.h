/* SPDX-License-Identifier: MIT */
/* state_io.h - what the committed tokens have made of a session's device state: to a
 * file, from a file, to another session, as a digest. All need a settled state (pos ==
 * stored, qw_target_settle), whose tape is empty. The content depends on the tokens
 * alone, neither on the context nor on how the cache is cut into pages. */
#ifndef QW_STATE_IO_H
#define QW_STATE_IO_H

#include "save.h"
#include "state.h"
#include "state_kv.h"

/* Adds sections: "state" (its numbers, 8 bytes each; state_io.c lists them), and for each
 * layer i "kv.i" (state_kv.h) or "s.i" and "conv.i" (the rows that the convolution still
 * reads, oldest first). */
int qw_state_write(const struct qw_state *s, struct qw_save_writer *w,
                   struct qw_err *err);
/* *pos: the positions that the file's state holds. QW_EFILE with both numbers where its
 * sizes are not those of s, or its position is beyond the context. */
int qw_state_check(const struct qw_state *s, const struct qw_save_reader *r, int *pos,
                   struct qw_err *err);
/* QW_EFILE with both numbers, and s as it was, where the file's sizes do not match or its
 * position is beyond the context. After a device error s is empty. */
int qw_state_read(struct qw_state *s, const struct qw_save_reader *r, struct qw_err *err);
/* src into dst, on their device; contexts may differ. QW_EUSAGE with both numbers, and
 * dst as it was, where it cannot hold src. After a device error dst is empty. */
int qw_state_copy(struct qw_state *dst, const struct qw_state *src, struct qw_err *err);
/* SHA-256 of the content; the same for every way that led to the same tokens. */
int qw_state_digest(const struct qw_state *s, char hex[65], struct qw_err *err);
/* The target's cache of layer i, positions [0, last). */
struct qw_kv_span qw_state_span(const struct qw_state *s, int layer, int last);
#endif
