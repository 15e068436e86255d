/* SPDX-License-Identifier: MIT */
/* state_kv.h - the committed part of a layer's cache as a stream of bytes that depends on
 * nothing but the tokens: neither on how the cache is cut into pages, nor on its size,
 * nor on what lies beside the positions asked for. Serves any cache group, also one that
 * is a ring: position p stands in slot p mod slots.
 *
 * The stream: K, its scales (Q8_0), V, its scales; each head after head; K in tiles of 16
 * positions as on the device (ops.h), from the tile of the first position to that of the
 * last, with zeros for positions not asked for; V position by position. */
#ifndef QW_STATE_KV_H
#define QW_STATE_KV_H

#include "ops.h"

struct qw_kv_span {
    int kv_heads, hd, kv_bits;
    const struct qw_kv_page *page; /* in order of slots, [0, slots) in all */
    int n_pages, slots;            /* slots: a multiple of QW_ATTN_BLOCK */
    int first, last;               /* positions [first, last), at most slots */
};

/* Takes the next bytes of a stream; a failure ends it. */
typedef int qw_kv_put(void *arg, const void *data, uint64_t bytes, struct qw_err *err);

uint64_t qw_kv_span_bytes(const struct qw_kv_span *s);
/* The stream, in pieces of a few MiB at most. Waits. */
int qw_kv_span_read(struct qw_dev *d, const struct qw_kv_span *s, qw_kv_put *put,
                    void *arg, struct qw_err *err);
/* Put back what a stream of qw_kv_span_bytes says; other positions stay as they are.
 * Waits.
 */
int qw_kv_span_write(struct qw_dev *d, const struct qw_kv_span *s, const void *stream,
                     struct qw_err *err);
/* The positions of src into dst's pages, on the device; dst says where, src which. Both
 * have the same shape, and the same slots where a ring has come round. Enqueued only. */
int qw_kv_span_copy(struct qw_dev *d, const struct qw_kv_span *dst,
                    const struct qw_kv_span *src, struct qw_err *err);
#endif
