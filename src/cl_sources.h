/* SPDX-License-Identifier: MIT */
/* cl_sources.h - the kernel files, embedded by cl/embed.sh. */
#ifndef QW_CL_SOURCES_H
#define QW_CL_SOURCES_H

#include <stddef.h>

struct qw_cl_source {
    const char *name;          /* path below cl/ */
    const unsigned char *data; /* NUL-terminated */
    size_t size;               /* without the NUL */
};
extern const struct qw_cl_source qw_cl_sources[]; /* ends with a NULL name */
#endif
