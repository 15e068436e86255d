/* SPDX-License-Identifier: MIT */
/* state.h - device state of a session. Everything but S is indexed by absolute position
 * and simply overwritten later. S holds the GDN state as of `stored`; the tape has what
 * the rows [stored, pos) did to it, and the next forward replays them. A forward may take
 * into S only rows that stay whatever happens; commit, which alone moves pos, decides
 * about the others. So there is nothing to roll back. */
#ifndef QW_STATE_H
#define QW_STATE_H

#include "hparams.h"
#include "ops.h"

struct qw_state {
    struct qw_dev *dev;
    int n_layer, context; /* context: positions, a multiple of QW_ATTN_BLOCK */
    int kv_bits;
    struct qw_attn_shape attn; /* of the cache: KV heads and head size */
    int taps;                  /* of the convolution: it reads taps - 1 rows back */
    int page_positions, n_pages;
    struct qw_kv_page *page; /* [n_layer][n_pages]; unused rows for GDN layers */
    cl_mem *S, *ring, *tape; /* [n_layer]; NULL for full-attention layers */
    uint64_t s_bytes, ring_bytes, tape_bytes;
    int pos;    /* committed positions */
    int stored; /* positions in S: at most pos between forwards */
};

/* What a session's state will take, by part; no device touched. */
struct qw_state_sizes {
    int page_positions, n_pages;
    uint64_t page_bytes; /* of one K or V page; the last may be less */
    uint64_t s_bytes, ring_bytes, tape_bytes; /* of one GDN layer */
    uint64_t kv, gdn, conv;                   /* totals over layers; gdn: S and tape */
};
int qw_state_plan(struct qw_state_sizes *s, const struct qw_hparams *hp,
                  const struct qw_attn_shape *a, int context, int kv_bits,
                  uint64_t max_alloc, struct qw_err *err);

int qw_state_open(struct qw_state **out, struct qw_dev *dev, const struct qw_hparams *hp,
                  const struct qw_attn_shape *a, int context, int kv_bits,
                  struct qw_err *err);
void qw_state_close(struct qw_state *s);
/* Back to position 0: S and the rings are zeroed, the cache is simply overwritten. */
int qw_state_reset(struct qw_state *s, struct qw_err *err);
/* The rows from pos on that a forward just queued takes into S for good. */
void qw_state_stored(struct qw_state *s, int sure);
/* Keep `count` rows of the last forward, at least those it was sure of. */
void qw_state_commit(struct qw_state *s, int count);
#endif
