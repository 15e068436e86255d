/* SPDX-License-Identifier: MIT */
/* kern_build.c - the files of the ops, put together and compiled. */
#include "kern_build.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl_sources.h"

/* The launch shape (cpu or gpu) is a build constant of the whole generic set. */
const struct qw_kern_row qw_kern_table[QW_N_OPS] = {
    [QW_OP_EMBED] = {"embed", "generic/embed.cl", NULL, false},
    [QW_OP_NORM] = {"norm_quant", "generic/norm.cl", NULL, false},
    [QW_OP_TAP] = {"tap", "generic/norm.cl", NULL, false},
    [QW_OP_MATMUL_F32] = {"matmul_f32", "generic/matmul.cl", NULL, false},
    [QW_OP_MATMUL_Q4_0] = {"matmul_q4_0", "generic/matmul.cl", "xe2/matmul.cl", true},
    [QW_OP_MATMUL_Q4_1] = {"matmul_q4_1", "generic/matmul.cl", "xe2/matmul.cl", true},
    [QW_OP_MATMUL_Q4_K] = {"matmul_q4_k", "generic/matmul.cl", "xe2/matmul.cl", true},
    [QW_OP_MATMUL_Q8_0] = {"matmul_q8_0", "generic/matmul.cl", "xe2/matmul.cl", false},
    [QW_OP_MATMUL_Q8_1] = {"matmul_q8_1", "generic/matmul.cl", "xe2/matmul.cl", false},
    [QW_OP_MATMUL_Q8_K] = {"matmul_q8_k", "generic/matmul.cl", "xe2/matmul.cl", false},
    [QW_OP_MATMUL_Q6_K] = {"matmul_q6_k", "generic/matmul.cl", "xe2/matmul.cl", false},
    [QW_OP_CONV] = {"conv", "generic/conv.cl", NULL, false},
    [QW_OP_GDN] = {"gdn", "generic/gdn.cl", "xe2/gdn.cl", false},
    [QW_OP_QK] = {"qk", "generic/rope.cl", NULL, false},
    [QW_OP_ATTN] = {"attn", "generic/attn.cl", NULL, false},
    [QW_OP_MERGE] = {"merge", "generic/attn.cl", NULL, false},
    [QW_OP_SWIGLU] = {"swiglu", "generic/swiglu.cl", NULL, false},
    [QW_OP_ARGMAX] = {"argmax", "generic/argmax.cl", NULL, false},
    [QW_OP_ACCEPT] = {"accept", "generic/accept.cl", NULL, false},
};

static const char *const shared_files[] = {"cycle.h", "common.clh",    "blocks.clh",
                                           "gdn.clh", "xe2/emulate.h", "xe2/quant.clh"};
enum { N_SHARED = 4, N_SHARED_XE2 = sizeof(shared_files) / sizeof(shared_files[0]) };

bool qw_kern_has(const struct qw_kern_params *p, int op)
{
    return !p->attn_only || op == QW_OP_QK || op == QW_OP_ATTN || op == QW_OP_MERGE;
}

/* ---- sources ---- */

/* Append one source file without its #include lines: the files are put together in order.
 */
static void add_text(struct qw_buf *src, const char *name, const char *text, size_t len)
{
    qw_buf_printf(src, "#line 1 \"%s\"\n", name);
    for (const char *end = text + len; text < end;) {
        const char *nl = memchr(text, '\n', (size_t)(end - text));
        const size_t n = nl ? (size_t)(nl - text) + 1 : (size_t)(end - text);
        if (n > 10 && memcmp(text, "#include \"", 10) == 0)
            qw_buf_add(src, "\n", 1);
        else
            qw_buf_add(src, text, n);
        text += n;
    }
    qw_buf_add(src, "\n", 1);
}

static int add_file(struct qw_buf *src, const char *dir, const char *name,
                    struct qw_err *err)
{
    char *path = qw_sprintf("%s/%s", dir, name), chunk[4096];
    struct qw_buf text = {0};
    FILE *f = fopen(path, "rb");
    int rc = QW_OK;
    if (f == NULL) {
        rc = qw_fail(err, QW_EUSAGE, "device.kernel_dir: %s: %s", path, strerror(errno));
    } else {
        for (size_t n; (n = fread(chunk, 1, sizeof(chunk), f)) > 0;)
            qw_buf_add(&text, chunk, n);
        if (ferror(f))
            rc = qw_fail(err, QW_EUSAGE, "device.kernel_dir: %s: %s", path,
                         strerror(errno));
        else
            add_text(src, name, text.data ? text.data : "", text.len);
        fclose(f);
    }
    qw_buf_free(&text);
    free(path);
    return rc;
}

static int add_source(struct qw_buf *src, const char *dir, const char *name,
                      struct qw_err *err)
{
    if (dir != NULL && *dir != '\0')
        return add_file(src, dir, name, err);
    for (const struct qw_cl_source *s = qw_cl_sources; s->name != NULL; s++)
        if (strcmp(s->name, name) == 0) {
            add_text(src, name, (const char *)s->data, s->size);
            return QW_OK;
        }
    return qw_fail(err, QW_EDEVICE, "kernel file %s is not in this binary", name);
}

/* The file of an op in the set that is built, or NULL. */
static const char *file_of(const struct qw_kern_params *p, const enum qw_variant *variant,
                           bool xe2, int op)
{
    if (!qw_kern_has(p, op) || (xe2 && variant[op] == QW_GENERIC))
        return NULL;
    return xe2 ? qw_kern_table[op].xe2 : qw_kern_table[op].generic;
}

static int add_files(struct qw_buf *src, const struct qw_kern_params *p,
                     const enum qw_variant *variant, bool xe2, struct qw_err *err)
{
    const char *last = NULL;
    int rc = QW_OK;
    for (int i = 0; rc == QW_OK && i < (xe2 ? N_SHARED_XE2 : N_SHARED); i++)
        rc = add_source(src, p->kernel_dir, shared_files[i], err);
    for (int i = 0; rc == QW_OK && i < QW_N_OPS; i++) {
        const char *file = file_of(p, variant, xe2, i);
        if (file == NULL || (last != NULL && strcmp(file, last) == 0))
            continue; /* a file stands together */
        rc = add_source(src, p->kernel_dir, file, err);
        last = file;
    }
    return rc;
}

/* ---- compiling ---- */

static int build(struct qw_kern *k, const char *text, struct qw_err *err)
{
    cl_int rc;
    k->program = clCreateProgramWithSource(k->dev->ctx, 1, &text, NULL, &rc);
    if (k->program == NULL)
        return qw_dev_fail(err, rc, "clCreateProgramWithSource");
    rc = clBuildProgram(k->program, 1, &k->dev->id, k->options, NULL, NULL);
    if (rc == CL_SUCCESS)
        return QW_OK;
    size_t n = 0;
    char *log = NULL;
    if (clGetProgramBuildInfo(k->program, k->dev->id, CL_PROGRAM_BUILD_LOG, 0, NULL,
                              &n) == CL_SUCCESS &&
        n > 0) {
        log = qw_alloc(n + 1, 1);
        clGetProgramBuildInfo(k->program, k->dev->id, CL_PROGRAM_BUILD_LOG, n, log, NULL);
    }
    int code =
        qw_fail_log(err, QW_EDEVICE, log && *log ? log : "no build log",
                    "kernels do not build on %s (%s)", k->dev->name, qw_cl_error(rc));
    free(log);
    return code;
}

int qw_kern_build(struct qw_kern **out, struct qw_dev *dev,
                  const struct qw_kern_params *p, const enum qw_variant *variant,
                  bool emulated, bool int4, bool int8, struct qw_err *err)
{
    struct qw_kern *k = qw_alloc(1, sizeof(*k));
    struct qw_buf src = {0}, opt = {0};
    const double start = qw_now();
    bool xe2 = false;
    for (int i = 0; i < QW_N_OPS; i++)
        xe2 = xe2 || variant[i] != QW_GENERIC;
    k->dev = dev;
    k->cpu_shape = p->cpu_shape;
    k->row_group = 64;
    qw_buf_printf(
        &opt,
        "-cl-std=CL1.2 -w -DQW_CPU=%d -DQW_DK=%d -DQW_TAPS=%d -DQW_HD=%d -DQW_KV=%d "
        "-DQW_ROW_WG=%d%s",
        p->cpu_shape, p->dk, p->taps, p->hd, p->kv_bits, k->row_group,
        dev->exact_div ? " -cl-fp32-correctly-rounded-divide-sqrt" : "");
    if (xe2)
        qw_buf_printf(&opt, " -DQW_EMULATED=%d -DQW_INT4=%d -DQW_INT8=%d", emulated, int4,
                      int8);
    k->options = opt.data;
    int rc = add_files(&src, p, variant, xe2, err);
    if (rc == QW_OK && !dev->paper)
        rc = build(k, src.data, err);
    qw_buf_free(&src);
    k->build_s = qw_now() - start;
    if (rc != QW_OK)
        qw_kern_close(k);
    else
        *out = k;
    return rc;
}
