/* SPDX-License-Identifier: MIT */
/* tok_split.h - UTF-8 as the tokenizer reads it, and the qwen35 word rule. */
#ifndef QW_TOK_SPLIT_H
#define QW_TOK_SPLIT_H

#include "base.h"

/* One character of text (len > 0): its bytes, *cp its code point. A byte that begins
 * nothing well formed is U+FFFD by itself; overlong forms, surrogates and values above
 * U+10FFFF pass. */
size_t qw_tok_char(const char *text, size_t len, uint32_t *cp);
/* UTF-8 of any value below 2^21; returns the bytes written. */
size_t qw_tok_put_char(uint32_t cp, char out[4]);
/* Append text with each character written anew: what was not UTF-8 becomes U+FFFD. */
void qw_tok_clean(const char *text, size_t len, struct qw_buf *out);
/* Whether qw_tok_clean would change it. */
bool qw_tok_is_clean(const char *text, size_t len);

/* Append text as strict UTF-8: each byte that is no part of a valid character becomes
 * U+FFFD. */
void qw_tok_valid(const char *text, size_t len, struct qw_buf *out);

/* Bytes of the first word of clean text (len > 0): never 0. Calling it over and over on
 * the rest takes time linear in the text. */
size_t qw_tok_word(const char *text, size_t len);

/* What str.strip() of Python takes off: white space of Unicode and the separators 1C to
 * 1F. */
bool qw_tok_is_strippable(uint32_t cp);

/* Append the canonical composition (NFC) of text. Bytes that are not UTF-8 stay as they
 * are and end the stretch that is normalised. Time and memory are linear, whatever the
 * run of marks. */
void qw_tok_nfc(const char *text, size_t len, struct qw_buf *out);
#endif
