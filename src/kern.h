/* SPDX-License-Identifier: MIT */
/* kern.h - the kernel table: one program per kernel set, built once, and which variant an
 * op takes. */
#ifndef QW_KERN_H
#define QW_KERN_H

#include "dev.h"

/* What a model fixes about its kernels; the rest are kernel arguments. */
struct qw_kern_params {
    int dk;         /* GDN head size */
    int taps;       /* convolution taps */
    int hd;         /* attention head size */
    int kv_bits;    /* cache type: 8, 16 or 32 */
    bool cpu_shape; /* launch shape: one item per tile, or work-groups */
    bool attn_only; /* build rope_rows, qk, attn and merge alone: an attention of another
                       head size or cache type beside a whole set */
    const char *backend; /* "auto" or "generic" */
    const char
        *kernel_dir; /* read kernels from here instead of the binary; NULL: embedded */
    /* [kernels]: the user's word for an op, "auto" or "variant[:QW_X=n,...]"; may be NULL
     */
    const char *(*choice)(const void *arg, const char *op);
    const void *choice_arg;
};

struct qw_kern {
    struct qw_dev *dev;
    cl_program program;
    bool cpu_shape;
    int row_group; /* QW_ROW_WG: items a row of the row-wise kernels */
    char *options; /* what the program was built with */
    double build_s;
};

/* Compile the set; the build log is part of the message when it fails. */
int qw_kern_open(struct qw_kern **out, struct qw_dev *dev, const struct qw_kern_params *p,
                 struct qw_err *err);
void qw_kern_close(struct qw_kern *k);
/* A new kernel object of the program, for one step. */
int qw_kern_make(struct qw_kern *k, const char *entry, cl_kernel *out,
                 struct qw_err *err);

/* The ops of the table and the variant each takes, for `info` and identity cards. */
int qw_kern_n_ops(void);
const char *qw_kern_op(int i);
const char *qw_kern_variant(const struct qw_kern *k, int i);
const char *qw_kern_why(const struct qw_kern *k, int i);
#endif
