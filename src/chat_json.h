/* SPDX-License-Identifier: MIT */
/* chat_json.h - JSON on one line as the family's templates write it. */
#ifndef QW_CHAT_JSON_H
#define QW_CHAT_JSON_H

#include <jansson.h>

#include "base.h"

/* Append v with ", " and ": " between, keys in their order, characters as they are and
 * numbers in their shortest form (the way of Python's json.dumps without ASCII escapes).
 */
void qw_chat_json(struct qw_buf *out, const json_t *v);
#endif
