/* SPDX-License-Identifier: MIT */
/* kern_util.h - what the kernel tests share: one device, kernel sets opened when first
 * asked for, buffers that live until the end of a test, comparisons by bits. */
#ifndef KERN_UTIL_H
#define KERN_UTIL_H

#include "check.h"
#include "cycle.h"
#include "ops.h"

/* What a kernel set is built for; the tests of a config run in both launch shapes. */
struct ku_config {
    int dk, taps, hd, kv;
    bool attn_only;
};
enum {
    KU_64_F16,
    KU_256_Q8,
    KU_128_F32,
    KU_192_Q8,
    KU_96_Q8,
    KU_64_Q8,
    KU_DRAFT_F16, /* the attention of a drafter: head size 128, a set without the rest */
    KU_DRAFT_Q8,
    KU_DRAFT_F32,
    KU_CONFIGS
};
extern const struct ku_config ku_config[KU_CONFIGS];
extern unsigned long long ku_seed;
extern bool ku_small;      /* a checking interpreter runs the kernels: few rows */
extern const char *ku_dir; /* kernels from this folder, or NULL: the embedded ones */
extern struct qw_dev *ku_dev;

/* Arguments of a test program: --small, --kernels FOLDER, names of tests. pick gets those
 * of all[n_all] that are named, all of them without a name; how many. */
int ku_pick(int argc, char **argv, const struct check_test *all, int n_all,
            struct check_test *pick);

void ku_open(void);
void ku_close(void);
/* The kernel set of a config; opened once. generic: in a launch shape; KU_XE2: what
 * cl/xe2 has but the products, emulated, the rest as in KU_CPU. */
enum { KU_GPU, KU_CPU, KU_XE2, KU_SETS };
extern const char *const ku_set_name[KU_SETS];
struct qw_kern *ku_kern(int config, int set);
/* Text of a kernel file, from where the sets come from. */
char *ku_source(const char *name);

/* Host and device memory of a test: ku_reset gives all of it back. */
void *ku_alloc(size_t bytes); /* filled with 0xff: NaN as floats */
cl_mem ku_new(size_t bytes);  /* the same on the device */
cl_mem ku_put(const void *data, size_t bytes);
void *ku_get(cl_mem buf, size_t bytes);
float *ku_floats(size_t n, float scale); /* in (-scale, scale) */
float ku_uniform(float scale);
int ku_int(int lo, int hi); /* lo..hi */
cl_mem ku_cycle(int rows, int pos, int first, const int32_t *ids, int n_ids);
void ku_reset(void);
void ku_must(int rc, const struct qw_err *err, const char *what);
void ku_run(struct qw_plan *p); /* run, wait, free the plan */

/* Equal bits (any NaN is a NaN); one failure at most, the first place. */
void ku_same(const char *what, const float *got, const float *want, size_t n);
void ku_same_bytes(const char *what, const void *got, const void *want, size_t n);
/* |got - want| <= tol * (1 + |want|) */
void ku_near(const char *what, const float *got, const double *want, size_t n,
             double tol);
void ku_poison(const char *what, const void *got, size_t n); /* still 0xff */

/* Activation outputs of rows x n, all poison. */
struct qw_acts ku_acts(int rows, int n);
/* Live rows are the rounding (quant.h) of `want_f`, the rest is still poison. */
void ku_acts_check(const char *what, const struct qw_acts *a, int rows, int live, int n,
                   int want, const float *want_f);
#endif
