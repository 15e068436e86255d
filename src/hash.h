/* SPDX-License-Identifier: MIT */
/* hash.h - SHA-256 of files, remembered by device, inode, size and time of change. */
#ifndef QW_HASH_H
#define QW_HASH_H

#include "base.h"

/* The hash of path as 64 hex digits. cache: a file of known hashes, read and updated
 * (replaced whole, so that readers see the old or the new one); NULL, or one that cannot
 * be written: the hash is just computed. only_known: do not compute. False where there is
 * none to give. */
bool qw_hash_file(const char *path, const char *cache, bool only_known, char hex[65]);
#endif
