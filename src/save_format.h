/* SPDX-License-Identifier: MIT */
/* save_format.h - places in the front of a container, see save.h; private to save*.c. */
#ifndef QW_SAVE_FORMAT_H
#define QW_SAVE_FORMAT_H

#include "hash.h"

enum {
    SAVE_LAYOUT = 1,
    SAVE_ALIGN = 64, /* of a section */
    SAVE_ENTRY = 24, /* bytes of an index entry before its name */
    SAVE_LAYOUT_AT = 8,
    SAVE_VERSION_AT = 12,
    SAVE_TOTAL_AT = 16,
    SAVE_HEADER_AT = 24,
    SAVE_INDEX_AT = 32,
    SAVE_SECTIONS_AT = 40,
    SAVE_ZEROS_AT = 48,
    SAVE_SUM_AT = 64,
    SAVE_FRONT = SAVE_SUM_AT + QW_HASH_BYTES
};
#endif
