/* SPDX-License-Identifier: MIT */
/* ops.h - one typed emitter per op: appends its launches to a plan. rows is the width the
 * plan is made for; the live rows come from the cycle block. Buffers borrow. Nothing runs
 * here. */
#ifndef QW_OPS_H
#define QW_OPS_H

#include "gguf.h"
#include "pack.h"
#include "plan.h"

enum { QW_MAX_SIBLINGS = 4 };

/* Tiles [tile0, tile0 + tiles) of a part in one buffer no larger than the device allows.
 */
struct qw_slab {
    cl_mem buf;
    int tile0, tiles;
    uint64_t bytes;
};

/* Sibling tensors of one layout, their 16-row tiles one after the other: one launch per
 * slab. */
struct qw_part {
    enum qw_layout layout;
    int tiles, col; /* tiles in all; first column of the product it makes */
    int n_tensors, tensor[QW_MAX_SIBLINGS]; /* indices into qw_mat.tensor */
    struct qw_slab *slab;
    int n_slabs;
};

/* One or more matrices that multiply the same rows: y[r][col + n] = W[n] . x[r]. Each
 * tensor's columns start at a multiple of 16; the columns between hold zeros. */
struct qw_mat {
    int K, cols; /* columns of the product, padded */
    int n_tensors;
    const struct qw_gguf_tensor *tensor[QW_MAX_SIBLINGS];
    int rows[QW_MAX_SIBLINGS]; /* outputs of each tensor */
    int col[QW_MAX_SIBLINGS];  /* where they start */
    struct qw_part part[QW_MAX_SIBLINGS];
    int n_parts;
    int want; /* activations its parts read: 1 int8 blocks, 2 f32, 3 both */
};

struct qw_layer {
    bool full;
    cl_mem attn_norm, post_norm; /* [E] */
    struct qw_mat in; /* full: q|gate, k, v (or fused); GDN: qkv, z, alpha, beta */
    struct qw_mat out, gate_up, down;
    cl_mem q_norm, k_norm; /* full: [head_dim] */
    cl_mem conv;           /* GDN: [taps][2 kd + vd] */
    cl_mem dt, a;          /* [nv] */
    cl_mem ssm_norm;       /* [dk] */
};

/* Activations as products read them: int8 blocks of 32 with scale and sum, and plain f32.
 */
struct qw_acts {
    cl_mem q, scale, sum, f;
};

/* One page of a layer's KV cache: places [p0, p1) of its ring in a buffer for K and one
 * for V. The last page may have room beyond the ring's end, which is never used. */
struct qw_kv_page {
    cl_mem k, v;
    int p0, p1;
};

/* Sizes of an attention, where its parts stand in the product of qw_layer.in, and what a
 * row sees. The pages of a cache are a ring: position p lies at place p mod (blocks *
 * QW_ATTN_BLOCK). The caller sees to it that the ring covers the context (then a place is
 * a position), or else window > 0 and blocks * QW_ATTN_BLOCK >= window + rows +
 * QW_ATTN_BLOCK where rows is the most positions ever written from a reading row's own
 * on: by the launch itself, or before it and since given up. */
struct qw_attn_shape {
    int heads, kv_heads, hd, n_rot;
    int q0, k0, v0, ldy;
    int blocks;  /* of QW_ATTN_BLOCK positions in the ring */
    int rows;    /* rows one launch of partial results covers */
    int window;  /* > 0: a row does not see positions `window` or more before its own */
    bool causal; /* a row sees no position after its own; else all live rows see each
                    other */
    bool gated;  /* a query head is q | gate (2 hd columns), else q alone */
    float eps;
    /* for this head size and cache type, in the launch shape of the plan's; NULL: the
     * plan's own */
    struct qw_kern *kern;
};

struct qw_gdn_shape {
    int nk, nv, dk, taps;
    int z0, a0, b0, ldu;
    float eps;
};

/* x[r] = row ids[r] of the embedding (cycle block holds the ids). */
int qw_op_embed(struct qw_plan *p, const struct qw_mat *embed, int n_vocab, cl_mem cycle,
                cl_mem x, int rows, struct qw_err *err);
/* acts = round(RMS(x[first + r]) * w) */
int qw_op_norm(struct qw_plan *p, cl_mem x, cl_mem w, cl_mem cycle, int n, float eps,
               int want, const struct qw_acts *out, int rows, struct qw_err *err);
/* The same as columns [col, col + n) of rows of acts of width ld. */
int qw_op_norm_into(struct qw_plan *p, cl_mem x, cl_mem w, cl_mem cycle, int n, float eps,
                    int col, int ld, int want, const struct qw_acts *out, int rows,
                    struct qw_err *err);
/* y[r][0, cols) = W acts[r], or += when add. */
int qw_op_matmul(struct qw_plan *p, const struct qw_mat *m, const struct qw_acts *in,
                 cl_mem cycle, cl_mem y, int ldy, bool add, int rows, struct qw_err *err);
/* out[r] = as qw_op_argmax of y = W acts[r], which is not written; part: [rows][tiles of
 * 16 rows of W][2] ints of scratch. m holds one tensor. */
int qw_op_top(struct qw_plan *p, const struct qw_mat *m, const struct qw_acts *in,
              cl_mem cycle, cl_mem part, cl_mem out, int rows, struct qw_err *err);
/* acts = round(silu(gate) * up) */
int qw_op_swiglu(struct qw_plan *p, cl_mem y, cl_mem cycle, int n, int ldy, int g0,
                 int u0, int want, const struct qw_acts *out, int rows,
                 struct qw_err *err);
/* y = silu(conv(u)), q and k heads L2-normed; reads the ring, which qw_op_gdn moves on.
 */
int qw_op_conv(struct qw_plan *p, const struct qw_gdn_shape *s, cl_mem u, cl_mem ring,
               cl_mem w, cl_mem cycle, cl_mem y, int rows, struct qw_err *err);
/* What gdn keeps: S as of the cycle block's STORED, the tape and the history by position;
 * X is scratch of S's size. */
struct qw_gdn_state {
    cl_mem S, X, tape, ring;
};
/* Replays the tape up to POS and steps through the rows, the first SURE of them in S;
 * acts = round(RMS(o) * silu(z)); o is scratch [rows][nv dk]. */
int qw_op_gdn(struct qw_plan *p, const struct qw_gdn_shape *s, const struct qw_layer *l,
              cl_mem c, cl_mem u, const struct qw_gdn_state *state, cl_mem cycle,
              int want, cl_mem o, const struct qw_acts *out, int rows,
              struct qw_err *err);
/* Row r of x, rounded, becomes columns [col, col + n) of row TAP + r of acts of width ld.
 */
int qw_op_tap(struct qw_plan *p, cl_mem x, cl_mem cycle, int n, int col, int ld, int want,
              const struct qw_acts *out, int rows, struct qw_err *err);
/* Hidden rows [n] of the last positions in a ring [QW_HIDDEN_RING][n], indexed by
 * position. before: out[r] = the row of the position before row r's: r = 0 that of the
 * ring (zeros at position 0), else x[r - 1]. keep: rows of x go to the ring. */
int qw_op_hidden_before(struct qw_plan *p, cl_mem x, cl_mem ring, cl_mem cycle, int n,
                        cl_mem out, int rows, struct qw_err *err);
int qw_op_hidden_keep(struct qw_plan *p, cl_mem x, cl_mem ring, cl_mem cycle, int n,
                      int rows, struct qw_err *err);
/* cs[r] = cos and sin of position pos + r, from the page [p0, p1) of the table. */
int qw_op_rope_rows(struct qw_plan *p, cl_mem table, cl_mem cycle, int n_rot, int p0,
                    int p1, cl_mem cs, int rows, struct qw_err *err);
/* Norm, rotate, store: q to (q, qscale), k and v to the cache pages. */
int qw_op_qk(struct qw_plan *p, const struct qw_attn_shape *s, cl_mem q_norm,
             cl_mem k_norm, cl_mem y, cl_mem cs, cl_mem cycle,
             const struct qw_kv_page *page, int n_pages, int kv_bits, cl_mem q,
             cl_mem qscale, int rows, struct qw_err *err);
/* The same for rows that ask nothing: k and v alone; y has no query columns. */
int qw_op_kv(struct qw_plan *p, const struct qw_attn_shape *s, cl_mem k_norm, cl_mem y,
             cl_mem cs, cl_mem cycle, const struct qw_kv_page *page, int n_pages,
             int kv_bits, int rows, struct qw_err *err);
/* acts = round(attention [* sigmoid(gate)]); ml and po hold s->rows rows of s->blocks
 * partial results for each head; y is read for the gate alone. */
int qw_op_attn(struct qw_plan *p, const struct qw_attn_shape *s, cl_mem y, cl_mem q,
               cl_mem qscale, cl_mem cycle, const struct qw_kv_page *page, int n_pages,
               int kv_bits, cl_mem ml, cl_mem po, int want, const struct qw_acts *out,
               int rows, struct qw_err *err);
/* out[r] = (id of the largest of y[r][0, n), 1 when all are finite); part:
 * QW_ARGMAX_CHUNK scratch */
int qw_op_argmax(struct qw_plan *p, cl_mem y, cl_mem cycle, int n, int ldy, cl_mem part,
                 cl_mem out, int rows, struct qw_err *err);

/* prob[r] = probability of the largest of y[r][0, n) among the ten largest. */
int qw_op_top10(struct qw_plan *p, cl_mem y, cl_mem cycle, int n, int ldy, cl_mem prob,
                int rows, struct qw_err *err);
/* best [rows][2] becomes the draft block, cut at the first row below p_min (prob is read
 * only when p_min > 0); fewer than n_min tokens are none. */
int qw_op_draft_end(struct qw_plan *p, cl_mem best, cl_mem prob, cl_mem cycle,
                    float p_min, int n_min, cl_mem draft, struct qw_err *err);

/* For drafters that make one token after the other. begin: the block `step` becomes one
 * row, that of `next`; `drafted` has no rows. next: best [1][2] and prob [1] of step's
 * row are added to bests, probs and drafted's rows, and step moves on to that token;
 * after one that is not finite, or with p_min > 0 has a prob below it, step has no rows,
 * and neither adds. */
int qw_op_draft_begin(struct qw_plan *p, cl_mem next, cl_mem step, cl_mem drafted,
                      struct qw_err *err);
int qw_op_draft_next(struct qw_plan *p, cl_mem best, cl_mem prob, float p_min,
                     cl_mem step, cl_mem drafted, cl_mem bests, cl_mem probs,
                     struct qw_err *err);

/* cycle's rows = 1 + as many of the draft block's tokens as the rows already there allow;
 * their ids follow its first. */
int qw_op_verify_begin(struct qw_plan *p, cl_mem draft, cl_mem cycle, cl_mem head,
                       struct qw_err *err);
/* result = the tokens best[] decides for cycle's rows up to the first that the next row
 * does not hold; next's position and first id move on behind them. */
int qw_op_accept(struct qw_plan *p, cl_mem cycle, cl_mem best, cl_mem result, cl_mem next,
                 struct qw_err *err);

/* Byte offset of the scales in a Q8_0 K or V page of `positions`. */
uint64_t qw_kv_scales_at(const struct qw_attn_shape *s, int positions);
/* Bytes of a K or V page of `positions`. */
uint64_t qw_kv_page_bytes(const struct qw_attn_shape *s, int kv_bits, int positions);
#endif
