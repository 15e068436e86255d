/* SPDX-License-Identifier: MIT */
#include "dev.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_PLATFORMS = 16, MAX_DEVICES = 32, GPU_RESERVE = 512 << 20 };

const char *qw_cl_error(cl_int rc)
{
    static const struct {
        cl_int code;
        const char *name;
    } names[] = {
        {CL_DEVICE_NOT_FOUND, "CL_DEVICE_NOT_FOUND"},
        {CL_DEVICE_NOT_AVAILABLE, "CL_DEVICE_NOT_AVAILABLE"},
        {CL_COMPILER_NOT_AVAILABLE, "CL_COMPILER_NOT_AVAILABLE"},
        {CL_MEM_OBJECT_ALLOCATION_FAILURE, "CL_MEM_OBJECT_ALLOCATION_FAILURE"},
        {CL_OUT_OF_RESOURCES, "CL_OUT_OF_RESOURCES"},
        {CL_OUT_OF_HOST_MEMORY, "CL_OUT_OF_HOST_MEMORY"},
        {CL_BUILD_PROGRAM_FAILURE, "CL_BUILD_PROGRAM_FAILURE"},
        {CL_INVALID_VALUE, "CL_INVALID_VALUE"},
        {CL_INVALID_DEVICE, "CL_INVALID_DEVICE"},
        {CL_INVALID_CONTEXT, "CL_INVALID_CONTEXT"},
        {CL_INVALID_COMMAND_QUEUE, "CL_INVALID_COMMAND_QUEUE"},
        {CL_INVALID_MEM_OBJECT, "CL_INVALID_MEM_OBJECT"},
        {CL_INVALID_BUILD_OPTIONS, "CL_INVALID_BUILD_OPTIONS"},
        {CL_INVALID_PROGRAM_EXECUTABLE, "CL_INVALID_PROGRAM_EXECUTABLE"},
        {CL_INVALID_KERNEL_NAME, "CL_INVALID_KERNEL_NAME"},
        {CL_INVALID_KERNEL, "CL_INVALID_KERNEL"},
        {CL_INVALID_ARG_INDEX, "CL_INVALID_ARG_INDEX"},
        {CL_INVALID_ARG_VALUE, "CL_INVALID_ARG_VALUE"},
        {CL_INVALID_ARG_SIZE, "CL_INVALID_ARG_SIZE"},
        {CL_INVALID_KERNEL_ARGS, "CL_INVALID_KERNEL_ARGS"},
        {CL_INVALID_WORK_GROUP_SIZE, "CL_INVALID_WORK_GROUP_SIZE"},
        {CL_INVALID_WORK_ITEM_SIZE, "CL_INVALID_WORK_ITEM_SIZE"},
        {CL_INVALID_GLOBAL_OFFSET, "CL_INVALID_GLOBAL_OFFSET"},
        {CL_INVALID_BUFFER_SIZE, "CL_INVALID_BUFFER_SIZE"},
        {CL_INVALID_GLOBAL_WORK_SIZE, "CL_INVALID_GLOBAL_WORK_SIZE"},
        {-1001, "CL_PLATFORM_NOT_FOUND_KHR"},
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (names[i].code == rc)
            return names[i].name;
    return "unknown OpenCL error";
}

int qw_dev_fail(struct qw_err *err, cl_int rc, const char *call)
{
    return qw_fail(err, QW_EDEVICE, "%s: %s (%d)", call, qw_cl_error(rc), (int)rc);
}

/* A folder that can be written to, or one that is not there yet and can be made. */
static bool usable(const char *folder)
{
    struct stat st;
    if (stat(folder, &st) == 0)
        return S_ISDIR(st.st_mode) && access(folder, W_OK | X_OK) == 0;
    if (errno != ENOENT || strcmp(folder, ".") == 0)
        return false;
    char *up = qw_strdup(folder), *slash = strrchr(up, '/');
    if (slash != NULL)
        slash[slash == up] = '\0';
    const bool fine = usable(slash != NULL ? up : ".");
    free(up);
    return fine;
}

/* Where PoCL would keep its kernels; NULL where it knows no place, or only one below a
 * folder that is not there: nobody's home is made here. */
static char *pocl_folder(void)
{
    const char *own = getenv("POCL_CACHE_DIR"), *xdg = getenv("XDG_CACHE_HOME"),
               *home = getenv("HOME");
    if (own != NULL)
        return qw_strdup(own);
    if (xdg != NULL)
        return access(xdg, F_OK) == 0 ? qw_sprintf("%s/pocl/kcache", xdg) : NULL;
    return home != NULL && *home == '/' && access(home, F_OK) == 0
               ? qw_sprintf("%s/.cache/pocl/kcache", home)
               : NULL;
}

/* PoCL keeps compiled kernels in a folder and starts a linker found on PATH. Where it
 * cannot write to its folder, it finds no device at all or none that builds: give it one
 * of our user's own. */
static void help_pocl(void)
{
    if (getenv("PATH") == NULL)
        setenv("PATH", "/usr/local/bin:/usr/bin:/bin", 1);
    char *standing = pocl_folder();
    const bool fine = standing != NULL && usable(standing);
    const char *tmp = getenv("TMPDIR");
    if (fine) {
        free(standing);
        return;
    }
    char *dir =
        qw_sprintf("%s/qwenrun-pocl-%u", tmp ? tmp : "/var/tmp", (unsigned)geteuid());
    struct stat st;
    mkdir(dir, 0700);
    /* somebody else's folder, or a link, is not to be trusted with code that we run */
    if (lstat(dir, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
        (st.st_mode & 022) == 0)
        setenv("POCL_CACHE_DIR", dir, 1);
    free(standing);
    free(dir);
}

static void info_text(cl_device_id id, cl_device_info what, char *out, size_t size)
{
    size_t n = 0;
    out[0] = '\0';
    char *text = NULL;
    if (clGetDeviceInfo(id, what, 0, NULL, &n) == CL_SUCCESS && n > 0) {
        text = qw_alloc(n + 1, 1);
        if (clGetDeviceInfo(id, what, n, text, NULL) == CL_SUCCESS)
            qw_escape(out, size, text, strlen(text));
        free(text);
    }
}

static void platform_text(cl_platform_id id, char *out, size_t size)
{
    char text[256] = "";
    clGetPlatformInfo(id, CL_PLATFORM_NAME, sizeof(text) - 1, text, NULL);
    qw_escape(out, size, text, strlen(text));
}

/* Does a user's choice (index or part of a name) mean this one? */
static bool chosen(const char *want, int index, const char *name)
{
    if (want == NULL || strcmp(want, "auto") == 0)
        return true;
    char *end;
    long n = strtol(want, &end, 10);
    return *want != '\0' && *end == '\0' ? n == index : strcasestr(name, want) != NULL;
}

static int all_platforms(cl_platform_id p[MAX_PLATFORMS], cl_uint *n, struct qw_err *err)
{
    help_pocl();
    cl_int rc = clGetPlatformIDs(MAX_PLATFORMS, p, n);
    if (rc != CL_SUCCESS || *n == 0)
        return qw_fail(
            err, QW_EDEVICE,
            "no OpenCL platform found: install a driver (any CPU: pocl-opencl-icd; "
            "Intel GPU: intel-opencl-icd)");
    if (*n > MAX_PLATFORMS)
        *n = MAX_PLATFORMS;
    return QW_OK;
}

static void describe(struct qw_dev_desc *d, cl_platform_id p, cl_device_id id)
{
    cl_device_type type = 0;
    cl_ulong mem = 0, max = 0;
    cl_uint units = 0;
    platform_text(p, d->platform_name, sizeof(d->platform_name));
    info_text(id, CL_DEVICE_NAME, d->name, sizeof(d->name));
    info_text(id, CL_DEVICE_VERSION, d->version, sizeof(d->version));
    info_text(id, CL_DRIVER_VERSION, d->driver, sizeof(d->driver));
    clGetDeviceInfo(id, CL_DEVICE_TYPE, sizeof(type), &type, NULL);
    clGetDeviceInfo(id, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof(mem), &mem, NULL);
    clGetDeviceInfo(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof(max), &max, NULL);
    clGetDeviceInfo(id, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(units), &units, NULL);
    d->mem = mem;
    d->max_alloc = max;
    d->units = units;
    d->cpu = (type & CL_DEVICE_TYPE_CPU) != 0;
    d->gpu = (type & CL_DEVICE_TYPE_GPU) != 0;
}

int qw_dev_list(void (*each)(void *arg, const struct qw_dev_desc *d), void *arg,
                struct qw_err *err)
{
    cl_platform_id platform[MAX_PLATFORMS];
    cl_device_id id[MAX_DEVICES];
    cl_uint np = 0, nd;
    int rc = all_platforms(platform, &np, err);
    for (cl_uint p = 0; rc == QW_OK && p < np; p++) {
        if (clGetDeviceIDs(platform[p], CL_DEVICE_TYPE_ALL, MAX_DEVICES, id, &nd) !=
            CL_SUCCESS)
            continue;
        for (cl_uint i = 0; i < nd && i < MAX_DEVICES; i++) {
            struct qw_dev_desc d = {.platform = (int)p, .device = (int)i};
            describe(&d, platform[p], id[i]);
            each(arg, &d);
        }
    }
    return rc;
}

/* Pick: the first GPU among those the user's words allow, else the first device of any
 * kind. */
static int pick(struct qw_dev *d, const char *want_p, const char *want_d,
                struct qw_err *err)
{
    cl_platform_id platform[MAX_PLATFORMS];
    cl_device_id id[MAX_DEVICES];
    cl_uint np = 0, nd;
    struct qw_dev_desc best = {0};
    bool found = false;
    int rc = all_platforms(platform, &np, err);
    for (cl_uint p = 0; rc == QW_OK && p < np; p++) {
        char name[128];
        platform_text(platform[p], name, sizeof(name));
        if (!chosen(want_p, (int)p, name) ||
            clGetDeviceIDs(platform[p], CL_DEVICE_TYPE_ALL, MAX_DEVICES, id, &nd) !=
                CL_SUCCESS)
            continue;
        for (cl_uint i = 0; i < nd && i < MAX_DEVICES; i++) {
            struct qw_dev_desc s = {0};
            describe(&s, platform[p], id[i]);
            if (!chosen(want_d, (int)i, s.name) || (found && !(s.gpu && !best.gpu)))
                continue;
            best = s;
            found = true;
            d->platform = platform[p];
            d->id = id[i];
        }
    }
    if (rc != QW_OK)
        return rc;
    if (!found)
        return qw_fail(
            err, QW_EDEVICE,
            "no OpenCL device matches device.platform = %s, device.device = %s "
            "(`qwenrun info` lists them)",
            want_p ? want_p : "auto", want_d ? want_d : "auto");
    d->cpu = best.cpu;
    d->mem = best.mem;
    d->max_alloc = best.max_alloc;
    memcpy(d->name, best.name, sizeof(d->name));
    memcpy(d->driver, best.driver, sizeof(d->driver));
    memcpy(d->version, best.version, sizeof(d->version));
    memcpy(d->platform_name, best.platform_name, sizeof(d->platform_name));
    return QW_OK;
}

static void capabilities(struct qw_dev *d)
{
    size_t n = 0;
    cl_device_fp_config fp = 0;
    info_text(d->id, CL_DEVICE_VENDOR, d->vendor, sizeof(d->vendor));
    if (clGetDeviceInfo(d->id, CL_DEVICE_EXTENSIONS, 0, NULL, &n) != CL_SUCCESS)
        n = 0;
    d->extensions = qw_alloc(n + 1, 1);
    if (n > 0)
        clGetDeviceInfo(d->id, CL_DEVICE_EXTENSIONS, n, d->extensions, NULL);
    clGetDeviceInfo(d->id, CL_DEVICE_SINGLE_FP_CONFIG, sizeof(fp), &fp, NULL);
    d->exact_div = (fp & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
    clGetDeviceInfo(d->id, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof(d->max_group),
                    &d->max_group, NULL);
}

int qw_dev_open(struct qw_dev **out, const char *platform, const char *device,
                uint64_t reserve, struct qw_err *err)
{
    struct qw_dev *d = qw_alloc(1, sizeof(*d));
    cl_int cl;
    int rc = pick(d, platform, device, err);
    if (rc != QW_OK) {
        qw_dev_close(d);
        return rc;
    }
    capabilities(d);
    d->reserve = reserve != QW_RESERVE_AUTO ? reserve : d->cpu ? 0 : GPU_RESERVE;
    d->ctx = clCreateContext(NULL, 1, &d->id, NULL, NULL, &cl);
    if (d->ctx == NULL) {
        qw_dev_close(d);
        return qw_dev_fail(err, cl, "clCreateContext");
    }
    d->queue = clCreateCommandQueue(d->ctx, d->id, 0, &cl);
    if (d->queue == NULL) {
        qw_dev_close(d);
        return qw_dev_fail(err, cl, "clCreateCommandQueue");
    }
    *out = d;
    return QW_OK;
}

/* Sizes as the data sheet has them. The largest buffer is a guess on the low side; ours
 * are no larger than 2 GiB anyway. */
struct qw_dev *qw_dev_paper(uint64_t reserve)
{
    struct qw_dev *d = qw_alloc(1, sizeof(*d));
    snprintf(d->name, sizeof(d->name), "Intel Arc Pro B70 (on paper)");
    snprintf(d->vendor, sizeof(d->vendor), "none");
    snprintf(d->driver, sizeof(d->driver), "none");
    snprintf(d->platform_name, sizeof(d->platform_name), "none");
    snprintf(d->version, sizeof(d->version), "OpenCL 3.0");
    d->extensions = qw_strdup(
        "cl_khr_fp16 cl_intel_subgroups cl_intel_subgroups_char cl_intel_subgroups_short "
        "cl_intel_required_subgroup_size "
        "cl_intel_subgroup_matrix_multiply_accumulate "
        "cl_intel_subgroup_2d_block_io");
    d->paper = d->exact_div = true;
    d->mem = 32000000000;
    d->max_alloc = (uint64_t)4 << 30;
    d->max_group = 1024;
    d->reserve = reserve != QW_RESERVE_AUTO ? reserve : GPU_RESERVE;
    return d;
}

void qw_dev_close(struct qw_dev *d)
{
    if (d == NULL)
        return;
    if (d->queue != NULL)
        clReleaseCommandQueue(d->queue);
    if (d->ctx != NULL)
        clReleaseContext(d->ctx);
    free(d->extensions);
    free(d);
}

bool qw_dev_has(const struct qw_dev *d, const char *extension)
{
    size_t n = strlen(extension);
    for (const char *s = d->extensions; (s = strstr(s, extension)) != NULL; s += n)
        if ((s == d->extensions || s[-1] == ' ') && (s[n] == ' ' || s[n] == '\0'))
            return true;
    return false;
}

uint64_t qw_dev_free_bytes(const struct qw_dev *d)
{
    uint64_t taken = d->reserve + d->used;
    return taken < d->mem ? d->mem - taken : 0;
}

int qw_dev_buffer_raw(struct qw_dev *d, uint64_t size, const char *what, cl_mem *out,
                      struct qw_err *err)
{
    cl_int rc = CL_INVALID_BUFFER_SIZE;
    cl_mem m = NULL;
    if (d->paper && size > 0 && size <= d->max_alloc) {
        *out = NULL;
        return QW_OK;
    }
    if (size > 0 && size <= d->max_alloc)
        m = clCreateBuffer(d->ctx, CL_MEM_READ_WRITE, size, NULL, &rc);
    if (m == NULL)
        return qw_fail(err, QW_EDEVICE,
                       "%s: no device buffer of %llu bytes (%llu free, largest %llu): %s",
                       what, (unsigned long long)size,
                       (unsigned long long)qw_dev_free_bytes(d),
                       (unsigned long long)d->max_alloc, qw_cl_error(rc));
    d->used += size;
    d->n_buffers++;
    *out = m;
    return QW_OK;
}

int qw_dev_zero(struct qw_dev *d, cl_mem buf, uint64_t size, struct qw_err *err)
{
    const cl_uint zero = 0; /* all our buffers are whole words */
    if (d->paper)
        return QW_OK;
    cl_int rc =
        clEnqueueFillBuffer(d->queue, buf, &zero, sizeof(zero), 0, size, 0, NULL, NULL);
    return rc == CL_SUCCESS ? QW_OK : qw_dev_fail(err, rc, "clEnqueueFillBuffer");
}

int qw_dev_buffer(struct qw_dev *d, uint64_t size, const char *what, cl_mem *out,
                  struct qw_err *err)
{
    size = (size + 3) / 4 * 4;
    int rc = qw_dev_buffer_raw(d, size, what, out, err);
    if (rc == QW_OK && (rc = qw_dev_zero(d, *out, size, err)) != QW_OK)
        qw_dev_release(d, out);
    return rc;
}

void qw_dev_release(struct qw_dev *d, cl_mem *buf)
{
    size_t size = 0;
    if (*buf == NULL)
        return;
    clGetMemObjectInfo(*buf, CL_MEM_SIZE, sizeof(size), &size, NULL);
    clReleaseMemObject(*buf);
    d->used -= size;
    d->n_buffers--;
    *buf = NULL;
}

int qw_dev_write(struct qw_dev *d, cl_mem buf, uint64_t at, const void *src,
                 uint64_t size, bool wait, struct qw_err *err)
{
    if (d->paper)
        return QW_OK;
    cl_int rc = clEnqueueWriteBuffer(d->queue, buf, wait ? CL_TRUE : CL_FALSE, at, size,
                                     src, 0, NULL, NULL);
    return rc == CL_SUCCESS ? QW_OK : qw_dev_fail(err, rc, "clEnqueueWriteBuffer");
}

int qw_dev_read(struct qw_dev *d, cl_mem buf, uint64_t at, void *dst, uint64_t size,
                struct qw_err *err)
{
    cl_int rc = clEnqueueReadBuffer(d->queue, buf, CL_TRUE, at, size, dst, 0, NULL, NULL);
    return rc == CL_SUCCESS ? QW_OK : qw_dev_fail(err, rc, "clEnqueueReadBuffer");
}

int qw_dev_copy(struct qw_dev *d, cl_mem dst, uint64_t to, cl_mem src, uint64_t from,
                uint64_t size, struct qw_err *err)
{
    cl_int rc = clEnqueueCopyBuffer(d->queue, src, dst, from, to, size, 0, NULL, NULL);
    return rc == CL_SUCCESS ? QW_OK : qw_dev_fail(err, rc, "clEnqueueCopyBuffer");
}

int qw_dev_read_later(struct qw_dev *d, cl_mem buf, uint64_t at, void *dst, uint64_t size,
                      cl_event *done, struct qw_err *err)
{
    cl_int rc =
        clEnqueueReadBuffer(d->queue, buf, CL_FALSE, at, size, dst, 0, NULL, done);
    return rc == CL_SUCCESS ? QW_OK : qw_dev_fail(err, rc, "clEnqueueReadBuffer");
}

int qw_dev_wait(struct qw_dev *d, cl_event done, struct qw_err *err)
{
    cl_int rc = clFlush(d->queue); /* what stands behind it starts as well */
    if (rc == CL_SUCCESS)
        rc = clWaitForEvents(1, &done);
    clReleaseEvent(done);
    return rc == CL_SUCCESS ? QW_OK : qw_dev_fail(err, rc, "clWaitForEvents");
}

int qw_dev_finish(struct qw_dev *d, struct qw_err *err)
{
    if (d->paper)
        return QW_OK;
    cl_int rc = clFinish(d->queue);
    return rc == CL_SUCCESS ? QW_OK : qw_dev_fail(err, rc, "clFinish");
}
