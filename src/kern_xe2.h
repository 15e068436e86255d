/* SPDX-License-Identifier: MIT */
/* kern_xe2.h - may a device run the kernels of cl/xe2, and does it run them right? */
#ifndef QW_KERN_XE2_H
#define QW_KERN_XE2_H

#include "kern.h"

/* NULL when the device says that it has all that the kernels use, else what is missing,
 * for a message; the text is the caller's. */
char *qw_xe2_missing(const struct qw_dev *dev);
/* One tile of each kind of product of a set of cl/xe2 against the host, bit for bit.
 * int4, int8: the set has four-bit weights as int4, unpacked. QW_EDEVICE when one
 * differs. */
int qw_xe2_test(struct qw_kern *xe2, bool int4, bool int8, struct qw_err *err);
#endif
