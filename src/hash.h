/* SPDX-License-Identifier: MIT */
/* hash.h - SHA-256 of bytes as they come, and of files, remembered by device, inode, size
 * and time of change. */
#ifndef QW_HASH_H
#define QW_HASH_H

#include "base.h"

/* A running hash: open, add, end. A failure of the library is kept and told by end. */
struct qw_hash;
enum { QW_HASH_BYTES = 32 };
struct qw_hash *qw_hash_open(void);
void qw_hash_add(struct qw_hash *h, const void *data, size_t bytes);
/* Frees h. False where the library failed; md is zeros then. */
bool qw_hash_end(struct qw_hash *h, unsigned char md[QW_HASH_BYTES]);
void qw_hash_hex(const unsigned char md[QW_HASH_BYTES], char hex[65]);

/* The hash of path as 64 hex digits. cache: a file of known hashes, read and updated
 * (replaced whole, so that readers see the old or the new one); NULL, or one that cannot
 * be written: the hash is just computed. only_known: do not compute. False where there is
 * none to give. */
bool qw_hash_file(const char *path, const char *cache, bool only_known, char hex[65]);
#endif
