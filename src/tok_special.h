/* SPDX-License-Identifier: MIT */
/* tok_special.h - find the texts of special tokens. */
#ifndef QW_TOK_SPECIAL_H
#define QW_TOK_SPECIAL_H

#include "tok.h"

/* A special token found in a text. */
struct qw_match {
    size_t start, len;
    int32_t id;
};
struct qw_matches {
    struct qw_match *at; /* ascending, apart */
    size_t n, cap;
};

struct qw_special;

/* Texts and ids in the order of the ids; the texts are borrowed. Empty texts are never
 * found. */
struct qw_special *qw_special_new(const struct qw_str *text, const int32_t *id, size_t n);
void qw_special_free(struct qw_special *s);
/* The id of exactly this text, the lowest where several have it; -1 when absent. */
int32_t qw_special_id(const struct qw_special *s, const char *text, size_t len);

/* All matches inside the trusted stretches. As if each token, the longest first and among
 * equals the lowest id, cut what is left of the text from left to right. Free m->at. */
void qw_special_find(const struct qw_special *s, const char *text, size_t len,
                     const struct qw_span *trusted, size_t n_trusted,
                     struct qw_matches *m);
#endif
