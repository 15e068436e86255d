/* SPDX-License-Identifier: MIT */
/* hparams_draft.h - numbers of a DFlash drafter and the tensors it must hold, checked
 * against its target before any device is touched. Host only. */
#ifndef QW_HPARAMS_DRAFT_H
#define QW_HPARAMS_DRAFT_H

#include "hparams.h"

enum { QW_MAX_TAPS = 16 };

struct qw_draft_hparams {
    int n_layer;
    int n_embd; /* the target's */
    int n_ff;
    int n_head, n_head_kv;
    int head_dim; /* key_length = value_length; all of it is rotated */
    int n_ctx_train;
    int block_size; /* rows of the block it was trained on: the last token and masks */
    int n_taps;
    int tap[QW_MAX_TAPS]; /* in the order fc wants; i is what enters the target's layer i,
                             n_layer of the target what leaves its last one */
    int window;           /* positions a sliding layer looks back; 0: none has one */
    bool sliding[QW_MAX_LAYERS];
    bool causal; /* inside the block */
    int mask_id;
    float eps, rope_base;
    bool own_embed, own_head; /* else the target's token_embd and head serve */
};

/* Read and range-check every key of a `dflash` or `dflash-draft` file and compare width,
 * vocabulary, taps and mask id with the target; refuse, naming the key or tensor, other
 * architectures, other kinds of block drafters and values that this network does not
 * compute with. Then check every tensor as qw_hparams_read does. */
int qw_draft_hparams_read(const struct qw_gguf *g, const struct qw_hparams *target,
                          struct qw_draft_hparams *out, struct qw_err *err);
#endif
