/* SPDX-License-Identifier: MIT */
/* gguf_watch.h - a mapped file that is cut short behind our back. A page that is no
 * longer in the file raises SIGBUS where it is read, and there is no way to go on from
 * there: the program ends with QW_EFILE's status and one line that names the file. */
#ifndef QW_GGUF_WATCH_H
#define QW_GGUF_WATCH_H

#include "base.h"

/* label: the file's name, fit for a message. A few files at once; any more are read all
 * the same, but a cut ends the program by the signal. */
void qw_watch_add(const void *map, size_t size, const char *label);
void qw_watch_drop(const void *map);
#endif
