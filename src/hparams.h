/* SPDX-License-Identifier: MIT */
/* hparams.h - numbers of a qwen35 file and the tensors it must hold, checked before any
 * device is touched. Host only. */
#ifndef QW_HPARAMS_H
#define QW_HPARAMS_H

#include "gguf.h"

enum { QW_MAX_LAYERS = 512 };

struct qw_hparams {
    int n_layer;           /* trunk layers = block_count - nextn_predict_layers */
    int n_nextn;           /* MTP blocks declared (0 or 1) */
    int n_embd;            /* E */
    int n_ff;              /* FFN width, one for all layers */
    int n_head, n_head_kv; /* full attention */
    int head_dim;          /* key_length = value_length */
    int n_rot;             /* rotated dims a head */
    int n_ctx_train;       /* context_length */
    int n_vocab;           /* rows of token_embd */
    int ssm_conv;          /* taps */
    int ssm_dk;            /* head size of K and V in GDN */
    int ssm_nk, ssm_nv;    /* key heads, value heads */
    float eps, rope_base;
    bool tied;                /* no output.weight: the head reads token_embd */
    bool full[QW_MAX_LAYERS]; /* layer i is full attention (else GDN) */
    bool mtp;                 /* block n_layer is a whole MTP block */
    char mtp_why[160];        /* why not, where mtp is false */
};

/* Tensors of the MTP block beside those of a full-attention layer; the last three are
 * optional. */
#define QW_MTP_EH_PROJ "nextn.eh_proj.weight"
#define QW_MTP_ENORM "nextn.enorm.weight"
#define QW_MTP_HNORM "nextn.hnorm.weight"
#define QW_MTP_HEAD_NORM "nextn.shared_head_norm.weight"
#define QW_MTP_HEAD "nextn.shared_head_head.weight"
#define QW_MTP_EMBED "nextn.embed_tokens.weight"

/* Read and range-check every key of spec section 1; refuse other architectures (naming
 * the supported ones), rope scaling other than none or linear factor 1, NVFP4 scales.
 * Then check that every tensor of the trunk is there with its shape and a decodable type;
 * a missing or mis-shaped one is named. A nextn block sets mtp where it is declared and
 * whole; otherwise it is ignored with one log line. Full-attention layers may have fused
 * attn_qkv in place of attn_q/k/v. */
int qw_hparams_read(const struct qw_gguf *g, struct qw_hparams *hp, struct qw_err *err);

/* Tensor "blk.<layer>.<suffix>" (layer < 0: suffix alone is the name); NULL when absent.
 */
const struct qw_gguf_tensor *qw_tensor(const struct qw_gguf *g, int layer,
                                       const char *suffix);
#endif
