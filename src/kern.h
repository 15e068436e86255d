/* SPDX-License-Identifier: MIT */
/* kern.h - the kernel table: one program per kernel set, built once, and which variant an
 * op takes. */
#ifndef QW_KERN_H
#define QW_KERN_H

#include "dev.h"
#include "pack.h"

/* In the order of the table; the products in that of the layouts in pack.h. */
enum qw_op {
    QW_OP_EMBED,
    QW_OP_NORM,
    QW_OP_TAP,
    QW_OP_MATMUL_F32,
    QW_OP_MATMUL_Q4_0,
    QW_OP_MATMUL_Q4_1,
    QW_OP_MATMUL_Q4_K,
    QW_OP_MATMUL_Q8_0,
    QW_OP_MATMUL_Q8_1,
    QW_OP_MATMUL_Q8_K,
    QW_OP_MATMUL_Q6_K,
    QW_OP_CONV,
    QW_OP_GDN,
    QW_OP_QK,
    QW_OP_ATTN,
    QW_OP_MERGE,
    QW_OP_SWIGLU,
    QW_OP_ARGMAX,
    QW_OP_ACCEPT,
    QW_N_OPS
};

enum qw_variant {
    QW_GENERIC,
    QW_XE2,      /* cl/xe2; four-bit weights as int4 */
    QW_XE2_INT8, /* the same, four-bit weights unpacked to int8 */
    QW_N_VARIANTS
};

/* What a model fixes about its kernels; the rest are kernel arguments. */
struct qw_kern_params {
    int dk;         /* GDN head size */
    int taps;       /* convolution taps */
    int hd;         /* attention head size */
    int kv_bits;    /* cache type: 8, 16 or 32 */
    bool cpu_shape; /* launch shape: one item per tile, or work-groups */
    bool attn_only; /* build rope_rows, qk, attn and merge alone: an attention of another
                       head size or cache type beside a whole set */
    const char *backend; /* "auto", "generic", "xe2", "xe2-emulated"; NULL: generic */
    const char
        *kernel_dir; /* read kernels from here instead of the binary; NULL: embedded */
    /* [kernels]: the user's word for an op, "auto" or "variant[:QW_X=n,...]"; may be NULL
     */
    const char *(*choice)(const void *arg, const char *op);
    const void *choice_arg;
};

/* A kernel set, and with it the one of the ops that it does not do itself. */
struct qw_kern {
    struct qw_dev *dev;
    cl_program program;
    bool cpu_shape;
    int row_group; /* QW_ROW_WG: items a row of the row-wise kernels */
    char *options; /* what the program was built with */
    double build_s;
    struct qw_kern *xe2; /* the set of the ops whose variant is not generic; or NULL */
    bool emulated;       /* that set runs through cl/xe2/emulate.h */
    enum qw_variant variant[QW_N_OPS];
    char *why[QW_N_OPS]; /* NULL: not in this set */
};

/* Compile the set; the build log is part of the message when it fails. The kernels of
 * cl/xe2 are taken for what the user names or the device can, after a test of a tile; one
 * that was named and cannot run is QW_EUSAGE, else the generic one stands in for it, said
 * once in a process. */
int qw_kern_open(struct qw_kern **out, struct qw_dev *dev, const struct qw_kern_params *p,
                 struct qw_err *err);
void qw_kern_close(struct qw_kern *k);
/* A new kernel object of the program, for one step; NULL on paper. */
int qw_kern_make(struct qw_kern *k, const char *entry, cl_kernel *out,
                 struct qw_err *err);

/* The set that an op's entries come from, k or k->xe2. */
struct qw_kern *qw_kern_of(struct qw_kern *k, enum qw_op op);
/* The op that multiplies by weights of a layout (the layouts of qw_pack_layout). */
enum qw_op qw_kern_matmul(enum qw_layout l);
/* Whether it runs in cl/xe2 with K columns, which must be a multiple of 256 for that. */
bool qw_kern_matmul_xe2(const struct qw_kern *k, enum qw_layout l, int K);
/* The layout that its kernel wants for tensors of K columns: l, or the int4 form. */
enum qw_layout qw_kern_layout(const struct qw_kern *k, enum qw_layout l, int K);

/* The ops of the table, for `info` and identity cards: the variant an op takes in words,
 * and the reason; NULL where the set does not have the op. */
int qw_kern_n_ops(void);
const char *qw_kern_op(int i);
const char *qw_kern_variant(const struct qw_kern *k, int i);
const char *qw_kern_why(const struct qw_kern *k, int i);
#endif
