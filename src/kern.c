/* SPDX-License-Identifier: MIT */
#include "kern.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl_sources.h"

/* One row per (op, variant): the first that fits is taken. Every op has its generic row;
 * the launch shape (cpu or gpu) is a build constant of the whole set, since activations
 * are laid out for it. */
static const struct {
    const char *op, *variant, *file;
} table[] = {
    {"embed", "generic", "generic/embed.cl"},
    {"norm_quant", "generic", "generic/norm.cl"},
    {"tap", "generic", "generic/norm.cl"},
    {"matmul_f32", "generic", "generic/matmul.cl"},
    {"matmul_q4_0", "generic", "generic/matmul.cl"},
    {"matmul_q4_1", "generic", "generic/matmul.cl"},
    {"matmul_q4_k", "generic", "generic/matmul.cl"},
    {"matmul_q8_0", "generic", "generic/matmul.cl"},
    {"matmul_q8_1", "generic", "generic/matmul.cl"},
    {"matmul_q8_k", "generic", "generic/matmul.cl"},
    {"matmul_q6_k", "generic", "generic/matmul.cl"},
    {"conv", "generic", "generic/conv.cl"},
    {"gdn", "generic", "generic/gdn.cl"},
    {"qk", "generic", "generic/rope.cl"},
    {"attn", "generic", "generic/attn.cl"},
    {"merge", "generic", "generic/attn.cl"},
    {"swiglu", "generic", "generic/swiglu.cl"},
    {"argmax", "generic", "generic/argmax.cl"},
    {"accept", "generic", "generic/accept.cl"},
};
enum { N_OPS = sizeof(table) / sizeof(table[0]) };

static const char *const shared_files[] = {"cycle.h", "common.clh", "blocks.clh"};
enum { N_SHARED = sizeof(shared_files) / sizeof(shared_files[0]) };

int qw_kern_n_ops(void)
{
    return N_OPS;
}

const char *qw_kern_op(int i)
{
    return table[i].op;
}

const char *qw_kern_variant(const struct qw_kern *k, int i)
{
    (void)i;
    return k->cpu_shape ? "generic (cpu shape)" : "generic (gpu shape)";
}

const char *qw_kern_why(const struct qw_kern *k, int i)
{
    (void)i;
    return k->dev->cpu == k->cpu_shape
               ? "the only kernel set in this version; shape of the device"
               : "the only kernel set in this version; shape by the settings";
}

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

/* Check the user's word for an op. The host lays buffers out and sizes launches by what
 * the generic kernels are built with, so none of that is for the user to say. */
static int check_choice(const struct qw_kern_params *p, int op, struct qw_err *err)
{
    const char *word = p->choice ? p->choice(p->choice_arg, table[op].op) : NULL;
    if (word == NULL || strcmp(word, "auto") == 0)
        return QW_OK;
    const size_t n = strcspn(word, ":");
    if (n != strlen(table[op].variant) || strncmp(word, table[op].variant, n) != 0)
        return qw_fail(err, QW_EUSAGE,
                       "kernels.%s = %s: no such variant here (known: auto, %s)",
                       table[op].op, word, table[op].variant);
    if (word[n] != '\0')
        return qw_fail(err, QW_EUSAGE, "kernels.%s = %s: %s has no build parameters",
                       table[op].op, word, table[op].variant);
    return QW_OK;
}

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

static bool is_attn(const char *op)
{
    return strcmp(op, "qk") == 0 || strcmp(op, "attn") == 0 || strcmp(op, "merge") == 0;
}

static int assemble(struct qw_kern *k, const struct qw_kern_params *p, struct qw_buf *src,
                    struct qw_err *err)
{
    struct qw_buf opt = {0};
    int rc = QW_OK;
    qw_buf_printf(
        &opt,
        "-cl-std=CL1.2 -w -DQW_CPU=%d -DQW_DK=%d -DQW_TAPS=%d -DQW_HD=%d -DQW_KV=%d "
        "-DQW_ROW_WG=%d%s",
        p->cpu_shape, p->dk, p->taps, p->hd, p->kv_bits, k->row_group,
        k->dev->exact_div ? " -cl-fp32-correctly-rounded-divide-sqrt" : "");
    for (int i = 0; rc == QW_OK && i < N_SHARED; i++)
        rc = add_source(src, p->kernel_dir, shared_files[i], err);
    for (int i = 0; rc == QW_OK && i < N_OPS; i++) {
        if (p->attn_only && !is_attn(table[i].op))
            continue;
        if (i == 0 ||
            strcmp(table[i].file, table[i - 1].file) != 0) /* a file stands together */
            rc = add_source(src, p->kernel_dir, table[i].file, err);
        if (rc == QW_OK)
            rc = check_choice(p, i, err);
    }
    k->options = opt.data;
    return rc;
}

int qw_kern_open(struct qw_kern **out, struct qw_dev *dev, const struct qw_kern_params *p,
                 struct qw_err *err)
{
    if (p->backend != NULL && strcmp(p->backend, "auto") != 0 &&
        strcmp(p->backend, "generic") != 0)
        return qw_fail(err, QW_EUSAGE,
                       "device.backend = %s: this build has the generic kernels only",
                       p->backend);
    struct qw_kern *k = qw_alloc(1, sizeof(*k));
    struct qw_buf src = {0};
    const double start = qw_now();
    k->dev = dev;
    k->cpu_shape = p->cpu_shape;
    k->row_group = 64;
    int rc = assemble(k, p, &src, err);
    if (rc == QW_OK)
        rc = build(k, src.data, err);
    qw_buf_free(&src);
    k->build_s = qw_now() - start;
    if (rc != QW_OK)
        qw_kern_close(k);
    else
        *out = k;
    return rc;
}

void qw_kern_close(struct qw_kern *k)
{
    if (k == NULL)
        return;
    if (k->program != NULL)
        clReleaseProgram(k->program);
    free(k->options);
    free(k);
}

int qw_kern_make(struct qw_kern *k, const char *entry, cl_kernel *out, struct qw_err *err)
{
    cl_int rc;
    cl_kernel made = clCreateKernel(k->program, entry, &rc);
    if (made == NULL)
        return qw_fail(err, QW_EDEVICE, "clCreateKernel(%s): %s", entry, qw_cl_error(rc));
    *out = made;
    return QW_OK;
}
