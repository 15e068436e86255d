/* SPDX-License-Identifier: MIT */
/* adapt.h - how many tokens to draft, from what drafting was seen to cost and to bring.
 * It changes the time an answer takes, never the answer. */
#ifndef QW_ADAPT_H
#define QW_ADAPT_H

#include "base.h"

struct qw_adapt;

struct qw_adapt *qw_adapt_open(int n_max);
void qw_adapt_close(struct qw_adapt *a);
/* Tokens to draft in the coming step, 0..n_max; 0: a plain step. The same until the next
 * note. */
int qw_adapt_choose(const struct qw_adapt *a);
/* A step took so many seconds: `asked` tokens were drafted (0: a plain step), the first
 * `accepted` of them were right. A draft that ended before its time counts as asked for:
 * what it has not got is not right. */
void qw_adapt_note(struct qw_adapt *a, int asked, int accepted, double seconds);
#endif
