/* SPDX-License-Identifier: MIT */
/* kern_xe2.c - may a device run the kernels of cl/xe2, and does it run them right? */
#include "kern_xe2.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cycle.h"
#include "ops.h"
#include "quant.h"

/* cl_intel_required_subgroup_size; not in all copies of the headers */
#ifndef CL_DEVICE_SUB_GROUP_SIZES_INTEL
#define CL_DEVICE_SUB_GROUP_SIZES_INTEL 0x4108
#endif

/* ---- what a device says of itself ---- */

char *qw_xe2_missing(const struct qw_dev *dev)
{
    static const char *const need[] = {
        "cl_intel_subgroup_matrix_multiply_accumulate",
        "cl_intel_subgroup_2d_block_io",
        "cl_intel_required_subgroup_size",
        "cl_intel_subgroups",
        "cl_intel_subgroups_char",
        "cl_intel_subgroups_short",
        "cl_khr_fp16",
    };
    size_t size[16], bytes = 0, least = SIZE_MAX;
    for (size_t i = 0; i < sizeof(need) / sizeof(need[0]); i++)
        if (!qw_dev_has(dev, need[i]))
            return qw_sprintf("%s has no %s", dev->name, need[i]);
    if (clGetDeviceInfo(dev->id, CL_DEVICE_SUB_GROUP_SIZES_INTEL, sizeof(size), size,
                        &bytes) != CL_SUCCESS)
        return qw_sprintf("%s does not say its sub-group sizes", dev->name);
    for (size_t i = 0; i < bytes / sizeof(size[0]); i++)
        least = size[i] < least ? size[i] : least;
    /* another matrix unit has another width: older ones 8 */
    return least == 16
               ? NULL
               : qw_sprintf("%s has no sub-groups of 16 as its smallest", dev->name);
}

/* ---- one tile ----
 * Five groups of 256 columns: one partial has two groups, the others one. */
enum { N = 16, K = 1280, BLOCKS = K / 32, ROWS = 16, MAX_BLOCK_BYTES = 34 };

struct tile {
    int8_t q[N][K]; /* weights as numbers */
    uint16_t d[N][BLOCKS], m[N][BLOCKS];
    int8_t a[ROWS][K];
    float scale[ROWS][BLOCKS];
    int32_t sum[ROWS][BLOCKS];
};

static uint32_t next(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static int between(uint32_t *seed, int lo, int hi)
{
    return lo + (int)(next(seed) % (uint32_t)(hi - lo + 1));
}

/* Numbers of all sizes, subnormal halves and products that are subnormal too: a device
 * must not flush them. */
static void fill(struct tile *t, int lo, int hi, bool minimum)
{
    uint32_t seed = 2027;
    for (int n = 0; n < N; n++)
        for (int b = 0; b < BLOCKS; b++) {
            for (int i = 0; i < 32; i++)
                t->q[n][32 * b + i] = (int8_t)between(&seed, lo, hi);
            t->d[n][b] =
                (uint16_t)(between(&seed, 0, 0x3bff) | between(&seed, 0, 1) << 15);
            t->m[n][b] = minimum ? (uint16_t)between(&seed, 0, 0x3bff) : 0;
        }
    for (int r = 0; r < ROWS; r++)
        for (int b = 0; b < BLOCKS; b++) {
            t->scale[r][b] = ldexpf((float)between(&seed, 1, 65535),
                                    r % 4 == 3 ? -150 : between(&seed, -24, -8));
            t->sum[r][b] = 0;
            for (int i = 0; i < 32; i++)
                t->a[r][32 * b + i] = (int8_t)between(&seed, -127, 127);
        }
}

/* The tile's rows as blocks of a type of GGUF. */
static void encode(const struct tile *t, uint32_t type, unsigned char *rows)
{
    for (int n = 0; n < N; n++)
        for (int b = 0; b < BLOCKS; b++) {
            const int8_t *q = t->q[n] + 32 * b;
            memcpy(rows, &t->d[n][b], 2);
            rows += 2;
            if (type == QW_Q8_0) {
                memcpy(rows, q, 32);
                rows += 32;
                continue;
            }
            if (type == QW_Q4_1) {
                memcpy(rows, &t->m[n][b], 2);
                rows += 2;
            }
            const int offset = type == QW_Q4_0 ? 8 : 0;
            for (int i = 0; i < 16; i++)
                *rows++ = (unsigned char)((q[i] + offset) | (q[i + 16] + offset) << 4);
        }
}

/* Element (row r, column n) of the product, in the one order of sums. */
static float product(const struct tile *t, int r, int n, bool minimum)
{
    float part[8] = {0};
    const int P = qw_partials(K);
    for (int b = 0; b < BLOCKS; b++) {
        float *acc = &part[b / 8 % P];
        int dot = 0, sum = 0;
        for (int i = 32 * b; i < 32 * b + 32; i++) {
            dot += t->q[n][i] * t->a[r][i];
            sum += t->a[r][i];
        }
        const float d = qw_half_to_float(t->d[n][b]) * t->scale[r][b];
        const float m = qw_half_to_float(t->m[n][b]) * t->scale[r][b];
        *acc = fmaf((float)dot, d, *acc);
        if (minimum)
            *acc = fmaf((float)sum, m, *acc);
    }
    for (int p = 1; p < P; p++)
        part[0] += part[p];
    return part[0];
}

/* What the launches of a tile share on the device. */
struct run {
    struct qw_kern *k;
    cl_mem w, q, scale, sum, y, cycle;
};

static int put(struct qw_dev *dev, const void *data, size_t bytes, cl_mem *out,
               struct qw_err *err)
{
    int rc = qw_dev_buffer_raw(dev, bytes, "self-test", out, err);
    return rc == QW_OK ? qw_dev_write(dev, *out, 0, data, bytes, true, err) : rc;
}

/* Live rows of a plan that is `width` wide. */
static int one_width(struct run *u, const struct tile *t, enum qw_layout layout,
                     bool minimum, int width, struct qw_err *err)
{
    const int live = width == 1 ? 1 : width - 3; /* dead rows must do no harm */
    const int32_t control[QW_CYC_IDS] = {[QW_CYC_ROWS] = live};
    float y[ROWS][N];
    struct qw_slab slab = {.buf = u->w, .tiles = 1};
    const struct qw_mat m = {
        .K = K,
        .cols = N,
        .part = {{.layout = layout, .tiles = 1, .slab = &slab, .n_slabs = 1}},
        .n_parts = 1};
    const struct qw_acts acts = {u->q, u->scale, u->sum, NULL};
    struct qw_plan p;
    memset(y, 0xff, sizeof(y)); /* NaN */
    qw_plan_init(&p, u->k);
    int rc = qw_dev_write(u->k->dev, u->cycle, 0, control, sizeof(control), true, err);
    if (rc == QW_OK)
        rc = qw_dev_write(u->k->dev, u->y, 0, y, sizeof(y), true, err);
    if (rc == QW_OK)
        rc = qw_op_matmul(&p, &m, &acts, u->cycle, u->y, N, false, width, err);
    if (rc == QW_OK)
        rc = qw_plan_run(&p, err);
    if (rc == QW_OK)
        rc = qw_dev_read(u->k->dev, u->y, 0, y, sizeof(y), err);
    qw_plan_free(&p);
    for (int r = 0; rc == QW_OK && r < ROWS; r++)
        for (int n = 0; rc == QW_OK && n < N; n++) {
            const float want = r < live ? product(t, r, n, minimum) : NAN;
            const bool same =
                r < live ? memcmp(&y[r][n], &want, sizeof(want)) == 0 : isnan(y[r][n]);
            if (!same)
                rc = qw_fail(err, QW_EDEVICE,
                             "self-test of the product with %s weights: row %d of %d, "
                             "column %d is %.9g, not %.9g",
                             qw_layout_name(qw_kern_layout(u->k, layout, K)), r, width, n,
                             (double)y[r][n], (double)want);
        }
    return rc;
}

/* One type of weights through its kernels of all widths, in a set that does the product
 * in the variant. */
static int one_type(struct qw_kern *xe2, struct tile *t, uint32_t type,
                    enum qw_variant variant, struct qw_err *err)
{
    static const int width[] = {1, 8, 16};
    const enum qw_layout base = qw_pack_layout(type);
    const bool minimum = type == QW_Q4_1;
    const size_t row = (size_t)(BLOCKS * (type == QW_Q4_0   ? 18
                                          : type == QW_Q4_1 ? 20
                                                            : 34));
    struct qw_kern view = {.dev = xe2->dev, .xe2 = xe2};
    struct run u = {.k = &view};
    unsigned char *rows = qw_alloc(N * row, 1);
    view.variant[qw_kern_matmul(base)] = variant;
    const enum qw_layout layout = qw_kern_layout(&view, base, K);
    const size_t bytes = qw_pack_tile_bytes(layout, K);
    void *packed = qw_alloc(bytes, 1);
    fill(t,
         type == QW_Q4_0   ? -8
         : type == QW_Q4_1 ? 0
                           : -128,
         type == QW_Q4_0   ? 7
         : type == QW_Q4_1 ? 15
                           : 127,
         minimum);
    encode(t, type, rows);
    qw_pack_tiles(layout, type, rows, row, N, K, 1, packed);
    int rc = put(xe2->dev, packed, bytes, &u.w, err);
    if (rc == QW_OK)
        rc = put(xe2->dev, t->a, sizeof(t->a), &u.q, err);
    if (rc == QW_OK)
        rc = put(xe2->dev, t->scale, sizeof(t->scale), &u.scale, err);
    if (rc == QW_OK)
        rc = put(xe2->dev, t->sum, sizeof(t->sum), &u.sum, err);
    if (rc == QW_OK)
        rc =
            qw_dev_buffer_raw(xe2->dev, ROWS * N * sizeof(float), "self-test", &u.y, err);
    if (rc == QW_OK)
        rc = qw_dev_buffer_raw(xe2->dev, QW_CYC_IDS * 4, "self-test", &u.cycle, err);
    for (int i = 0; rc == QW_OK && i < 3; i++)
        rc = one_width(&u, t, base, minimum, width[i], err);
    cl_mem *all[] = {&u.w, &u.q, &u.scale, &u.sum, &u.y, &u.cycle};
    for (int i = 0; i < 6; i++)
        qw_dev_release(xe2->dev, all[i]);
    free(packed);
    free(rows);
    return rc;
}

int qw_xe2_test(struct qw_kern *xe2, bool int4, bool int8, struct qw_err *err)
{
    struct tile *t = qw_alloc(1, sizeof(*t));
    int rc = one_type(xe2, t, QW_Q8_0, QW_XE2, err);
    if (rc == QW_OK && int4)
        rc = one_type(xe2, t, QW_Q4_0, QW_XE2, err);
    if (rc == QW_OK && int4)
        rc = one_type(xe2, t, QW_Q4_1, QW_XE2, err);
    if (rc == QW_OK && int8)
        rc = one_type(xe2, t, QW_Q4_0, QW_XE2_INT8, err);
    free(t);
    return rc;
}
