/* SPDX-License-Identifier: MIT */
/* dev.h - one OpenCL device: choice, capabilities, queue, buffers. The only place that
 * includes CL/cl.h. */
#ifndef QW_DEV_H
#define QW_DEV_H

#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>

#include "base.h"

#define QW_RESERVE_AUTO UINT64_MAX /* 512 MiB on a GPU, 0 on a CPU */

struct qw_dev {
    cl_platform_id platform;
    cl_device_id id;
    cl_context ctx;
    cl_command_queue queue;
    char name[128], vendor[128], driver[128], platform_name[128], version[128];
    char *extensions;
    bool cpu;       /* CL_DEVICE_TYPE_CPU: picks the launch shape */
    bool exact_div; /* divide and sqrt can be asked to round correctly */
    bool paper;     /* no device at all: see qw_dev_paper */
    uint64_t mem, max_alloc;
    uint64_t reserve; /* memory_reserve: kept out of what plans may use */
    size_t max_group;
    uint64_t used; /* bytes of live buffers */
    int n_buffers;
};

/* platform, device: "auto", an index, or part of a name (any case). reserve: bytes kept
 * free on a GPU. PoCL finds no device without a PATH and a writable cache: both are given
 * when missing. */
int qw_dev_open(struct qw_dev **out, const char *platform, const char *device,
                uint64_t reserve, struct qw_err *err);
/* What stands for an Arc Pro B70 where there is none, with the card's sizes: buffers are
 * NULL, what is written to them is dropped, kernels are not built. Plans can be recorded
 * on it and looked at, not run. */
struct qw_dev *qw_dev_paper(uint64_t reserve);
void qw_dev_close(struct qw_dev *d);
bool qw_dev_has(const struct qw_dev *d, const char *extension);
uint64_t qw_dev_free_bytes(const struct qw_dev *d); /* mem - reserve - used */

/* A zeroed device buffer of size bytes (> 0); what names it in the message. */
int qw_dev_buffer(struct qw_dev *d, uint64_t size, const char *what, cl_mem *out,
                  struct qw_err *err);
/* The same, contents undefined. */
int qw_dev_buffer_raw(struct qw_dev *d, uint64_t size, const char *what, cl_mem *out,
                      struct qw_err *err);
void qw_dev_release(struct qw_dev *d, cl_mem *buf); /* *buf becomes NULL; NULL is fine */
int qw_dev_zero(struct qw_dev *d, cl_mem buf, uint64_t size, struct qw_err *err);
/* Blocking unless wait is false (then src must live until the next wait). */
int qw_dev_write(struct qw_dev *d, cl_mem buf, uint64_t at, const void *src,
                 uint64_t size, bool wait, struct qw_err *err);
int qw_dev_read(struct qw_dev *d, cl_mem buf, uint64_t at, void *dst, uint64_t size,
                struct qw_err *err); /* waits */
/* Between buffers that do not overlap; enqueued only. */
int qw_dev_copy(struct qw_dev *d, cl_mem dst, uint64_t to, cl_mem src, uint64_t from,
                uint64_t size, struct qw_err *err);
/* As qw_dev_read, without waiting: dst is filled once *done has been waited for. */
int qw_dev_read_later(struct qw_dev *d, cl_mem buf, uint64_t at, void *dst, uint64_t size,
                      cl_event *done, struct qw_err *err);
int qw_dev_wait(struct qw_dev *d, cl_event done, struct qw_err *err); /* and release */
int qw_dev_finish(struct qw_dev *d, struct qw_err *err);

/* QW_EDEVICE with the call's and the error's name. */
int qw_dev_fail(struct qw_err *err, cl_int rc, const char *call);
const char *qw_cl_error(cl_int rc);

/* Every device of every platform, for `info`: calls back with a freshly filled
 * description. */
struct qw_dev_desc {
    int platform, device;
    char platform_name[128], name[128], version[128], driver[128];
    uint64_t mem, max_alloc;
    unsigned units;
    bool cpu, gpu;
};
int qw_dev_list(void (*each)(void *arg, const struct qw_dev_desc *d), void *arg,
                struct qw_err *err);
#endif
