/* SPDX-License-Identifier: MIT */
/* kern_build.h - the files of the ops, put together and compiled. */
#ifndef QW_KERN_BUILD_H
#define QW_KERN_BUILD_H

#include "kern.h"

struct qw_kern_row {
    const char *op;      /* also its key in [kernels] */
    const char *generic; /* file below cl/ */
    const char *xe2;     /* the same, or NULL */
    bool int4; /* xe2 has two forms: weights as int4, and unpacked (QW_XE2_INT8) */
};
extern const struct qw_kern_row qw_kern_table[QW_N_OPS];

/* Does a set of these parameters have the op? */
bool qw_kern_has(const struct qw_kern_params *p, int op);
/* Compile a set. All ops generic: the whole generic set. Otherwise the files of cl/xe2
 * that the others need; emulated, int4, int8: how these are built. */
int qw_kern_build(struct qw_kern **out, struct qw_dev *dev,
                  const struct qw_kern_params *p, const enum qw_variant *variant,
                  bool emulated, bool int4, bool int8, struct qw_err *err);
#endif
