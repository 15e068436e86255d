/* SPDX-License-Identifier: MIT */
/* tok_bpe.h - the merge table and byte-pair encoding of one word. */
#ifndef QW_TOK_BPE_H
#define QW_TOK_BPE_H

#include "tok.h"

struct qw_bpe;

/* Building: add the tokens text can become (the first of a text wins) and the merges in
 * the order of their ranks (the first of a pair wins), all spelled in the byte alphabet;
 * then qw_bpe_ready. The strings must live until then. n_tokens and n_merges: how many
 * will come, at most. */
struct qw_bpe *qw_bpe_new(size_t n_tokens, size_t n_merges);
void qw_bpe_free(struct qw_bpe *b);
void qw_bpe_token(struct qw_bpe *b, struct qw_str text, int32_t id);
void qw_bpe_merge(struct qw_bpe *b, struct qw_str left, struct qw_str right,
                  int32_t rank);
/* The byte that has no token of its own, or -1 when all is well. */
int qw_bpe_ready(struct qw_bpe *b);

/* Append the ids of a word of plain bytes: lowest rank first, leftmost among equals,
 * until nothing merges; a symbol that is no token becomes the tokens of its bytes. O(n
 * log n). */
void qw_bpe_encode(const struct qw_bpe *b, const char *word, size_t len,
                   struct qw_ids *out);

/* The byte alphabet: UTF-8 of the character of a byte, and back (-1: not one of the
 * alphabet). */
size_t qw_bpe_spell(unsigned char byte, char out[4]);
int qw_bpe_byte(uint32_t cp);
#endif
