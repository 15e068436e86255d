/* SPDX-License-Identifier: MIT */
/* Make OpenCL calls fail on purpose, to see what a program does then.
 *
 *   cc -shared -fPIC -o clfault.so clfault.c -ldl -lpthread
 *   CLF_MAX_ALLOC=268435456 LD_PRELOAD=./clfault.so PROGRAM ...
 *
 * CLF_MAX_ALLOC=BYTES   the device reports this as its largest buffer, and larger
 *                       ones are refused (CL_INVALID_BUFFER_SIZE)
 * CLF_TOTAL=BYTES       the device reports this as its memory, and a buffer that
 *                       would make the live ones exceed it is refused
 *                       (CL_MEM_OBJECT_ALLOCATION_FAILURE). Released buffers no
 *                       longer count; images, pipes and SVM never do.
 * CLF_FAIL_ENQUEUE=N    the Nth kernel launch and all after it fail
 *                       (CL_OUT_OF_RESOURCES, as after a lost device)
 * CLF_FAIL_READ=N       the same for the Nth clEnqueueReadBuffer,
 * CLF_FAIL_WRITE=N      clEnqueueWriteBuffer,
 * CLF_FAIL_COPY=N       clEnqueueCopyBuffer,
 * CLF_FAIL_FILL=N       clEnqueueFillBuffer,
 * CLF_FAIL_WAIT=N       clFinish or clWaitForEvents,
 * CLF_FAIL_KERNEL=N     clCreateKernel,
 * CLF_FAIL_BUFFER=N     clCreateBuffer
 * CLF_ONCE=1            of those, the Nth alone fails
 * CLF_FAIL_BUILD=1      clBuildProgram always fails; status and log say so
 * CLF_COUNT=FILE        at exit, write there what was asked of OpenCL: bytes and number
 * of buffers, kernels made, launches, writes, and waits (blocking reads and clFinish)
 *
 * A program may also have this file linked into it, and set the variables as it goes: a
 * count starts when its variable is set.
 *
 * CLF_NO_EXT=A[,B...]   hide extensions from the device's two lists. The compiler
 *                       still knows them: it is the program that must not ask.
 */
#define _GNU_SOURCE
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REFUSED "clfault: build refused"

static unsigned long long num(const char *k)
{
    const char *v = getenv(k);

    return v ? strtoull(v, NULL, 0) : 0;
}

/* Does the call that *i counts fail, by the variable `name`? */
static int fails(const char *name, unsigned long long *i)
{
    unsigned long long f = num(name);

    if (!f)
        return *i = 0;
    ++*i;
    return num("CLF_ONCE") ? *i == f : *i >= f;
}

static struct {
    unsigned long long bytes, buffers, kernels, launches, writes, waits;
} asked;

__attribute__((destructor)) static void report(void)
{
    const char *name = getenv("CLF_COUNT");
    FILE *f = name ? fopen(name, "w") : NULL;

    if (!f)
        return;
    fprintf(f,
            "bytes %llu\nbuffers %llu\nkernels %llu\nlaunches %llu\nwrites %llu\nwaits "
            "%llu\n",
            asked.bytes, asked.buffers, asked.kernels, asked.launches, asked.writes,
            asked.waits);
    fclose(f);
}

/* The compiler that a driver starts is not to be preloaded with us, nor with a sanitizer.
 */
__attribute__((constructor)) static void alone(void)
{
    unsetenv("LD_PRELOAD");
}

#define REAL(ret, name, ...)                                                             \
    static ret (*real)(__VA_ARGS__);                                                     \
    if (!real)                                                                           \
    real = (ret(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

/* The live buffers. A sub-buffer has size 0 and keeps its parent alive. */
struct buf {
    struct buf *next, *parent;
    cl_mem mem;
    unsigned long long size, refs;
};
static struct buf *bufs;
static unsigned long long live;
static pthread_mutex_t lock =
    PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP; /* destructor callbacks may release */

static struct buf *find(cl_mem m)
{
    struct buf *b = bufs;

    while (b && b->mem != m)
        b = b->next;
    return b;
}

static void add(cl_mem m, unsigned long long size, cl_mem parent)
{
    struct buf *b = calloc(1, sizeof *b);

    if (!b)
        abort();
    pthread_mutex_lock(&lock);
    b->mem = m;
    b->size = size;
    b->refs = 1;
    b->parent = parent ? find(parent) : NULL;
    if (b->parent)
        b->parent->refs++;
    b->next = bufs;
    bufs = b;
    pthread_mutex_unlock(&lock);
}

static void drop(struct buf *b)
{
    struct buf **p = &bufs;

    if (!b || --b->refs)
        return;
    while (*p != b)
        p = &(*p)->next;
    *p = b->next;
    live -= b->size;
    drop(b->parent);
    free(b);
}

/* Take n bytes, or say why not. */
static cl_int take(size_t n)
{
    unsigned long long m = num("CLF_MAX_ALLOC"), t = num("CLF_TOTAL");
    cl_int e = CL_SUCCESS;

    if (m && n > m)
        return CL_INVALID_BUFFER_SIZE;
    pthread_mutex_lock(&lock);
    if (t && (live > t || n > t - live))
        e = CL_MEM_OBJECT_ALLOCATION_FAILURE;
    else
        live += n;
    pthread_mutex_unlock(&lock);
    return e;
}

static cl_mem taken(cl_mem b, size_t n)
{
    if (b) {
        add(b, n, NULL);
        asked.bytes += n;
        asked.buffers++;
    } else {
        pthread_mutex_lock(&lock);
        live -= n;
        pthread_mutex_unlock(&lock);
    }
    return b;
}

cl_mem clCreateBuffer(cl_context c, cl_mem_flags f, size_t n, void *p, cl_int *e)
{
    static unsigned long long i;
    cl_int r = fails("CLF_FAIL_BUFFER", &i) ? CL_MEM_OBJECT_ALLOCATION_FAILURE : take(n);

    REAL(cl_mem, clCreateBuffer, cl_context, cl_mem_flags, size_t, void *, cl_int *);
    if (r == CL_SUCCESS)
        return taken(real(c, f, n, p, e), n);
    if (e)
        *e = r;
    return NULL;
}

cl_mem clCreateBufferWithProperties(cl_context c, const cl_mem_properties *o,
                                    cl_mem_flags f, size_t n, void *p, cl_int *e)
{
    cl_int r = take(n);

    REAL(cl_mem, clCreateBufferWithProperties, cl_context, const cl_mem_properties *,
         cl_mem_flags, size_t, void *, cl_int *);
    if (r == CL_SUCCESS)
        return taken(real(c, o, f, n, p, e), n);
    if (e)
        *e = r;
    return NULL;
}

cl_mem clCreateSubBuffer(cl_mem b, cl_mem_flags f, cl_buffer_create_type t, const void *i,
                         cl_int *e)
{
    cl_mem s;

    REAL(cl_mem, clCreateSubBuffer, cl_mem, cl_mem_flags, cl_buffer_create_type,
         const void *, cl_int *);
    s = real(b, f, t, i, e);
    if (s)
        add(s, 0, b);
    return s;
}

cl_int clRetainMemObject(cl_mem m)
{
    struct buf *b;
    cl_int e;

    REAL(cl_int, clRetainMemObject, cl_mem);
    e = real(m);
    pthread_mutex_lock(&lock);
    b = find(m);
    if (e == CL_SUCCESS && b)
        b->refs++;
    pthread_mutex_unlock(&lock);
    return e;
}

cl_int clReleaseMemObject(cl_mem m)
{
    cl_int e;

    REAL(cl_int, clReleaseMemObject, cl_mem);
    pthread_mutex_lock(&lock); /* over the call: the handle may be reused at once */
    e = real(m);
    if (e == CL_SUCCESS)
        drop(find(m));
    pthread_mutex_unlock(&lock);
    return e;
}

/* Is the word of n characters at s in CLF_NO_EXT? */
static int hidden(const char *s, size_t n)
{
    const char *x = getenv("CLF_NO_EXT");

    for (; x && *x; x += strcspn(x, ","), x += *x == ',')
        if (strcspn(x, ",") == n && !memcmp(x, s, n))
            return 1;
    return 0;
}

cl_int clGetDeviceInfo(cl_device_id d, cl_device_info w, size_t n, void *p, size_t *r)
{
    unsigned long long m = num("CLF_MAX_ALLOC"), t = num("CLF_TOTAL");
    size_t size = 0, k;
    cl_name_version *v = p;
    cl_int e;
    char *q = p;

    REAL(cl_int, clGetDeviceInfo, cl_device_id, cl_device_info, size_t, void *, size_t *);
    e = real(d, w, n, p, &size);
    if (e == CL_SUCCESS && r)
        *r = size;
    if (e != CL_SUCCESS || !p)
        return e;
    if (w == CL_DEVICE_GLOBAL_MEM_SIZE && t)
        *(cl_ulong *)p = t;
    if (w == CL_DEVICE_MAX_MEM_ALLOC_SIZE && t && t < *(cl_ulong *)p)
        *(cl_ulong *)p = t;
    if (w == CL_DEVICE_MAX_MEM_ALLOC_SIZE && m)
        *(cl_ulong *)p = m;
    if (w == CL_DEVICE_EXTENSIONS)
        for (; *q; q += k, q += *q == ' ') {
            k = strcspn(q, " ");
            if (k && hidden(q, k))
                memset(q, 'x', k);
        }
    if (w == CL_DEVICE_EXTENSIONS_WITH_VERSION)
        for (k = 0; k < size / sizeof *v; k++)
            if (hidden(v[k].name, strlen(v[k].name)))
                memset(v[k].name, 'x', strlen(v[k].name));
    return e;
}

cl_int clEnqueueNDRangeKernel(cl_command_queue q, cl_kernel k, cl_uint d, const size_t *o,
                              const size_t *g, const size_t *l, cl_uint n,
                              const cl_event *w, cl_event *ev)
{
    static unsigned long long i;

    REAL(cl_int, clEnqueueNDRangeKernel, cl_command_queue, cl_kernel, cl_uint,
         const size_t *, const size_t *, const size_t *, cl_uint, const cl_event *,
         cl_event *);
    if (fails("CLF_FAIL_ENQUEUE", &i))
        return CL_OUT_OF_RESOURCES;
    asked.launches++;
    return real(q, k, d, o, g, l, n, w, ev);
}

cl_int clEnqueueReadBuffer(cl_command_queue q, cl_mem b, cl_bool s, size_t o, size_t z,
                           void *p, cl_uint n, const cl_event *w, cl_event *ev)
{
    static unsigned long long i;

    REAL(cl_int, clEnqueueReadBuffer, cl_command_queue, cl_mem, cl_bool, size_t, size_t,
         void *, cl_uint, const cl_event *, cl_event *);
    if (fails("CLF_FAIL_READ", &i))
        return CL_OUT_OF_RESOURCES;
    asked.waits += s != CL_FALSE;
    return real(q, b, s, o, z, p, n, w, ev);
}

cl_int clEnqueueWriteBuffer(cl_command_queue q, cl_mem b, cl_bool s, size_t o, size_t z,
                            const void *p, cl_uint n, const cl_event *w, cl_event *ev)
{
    static unsigned long long i;

    REAL(cl_int, clEnqueueWriteBuffer, cl_command_queue, cl_mem, cl_bool, size_t, size_t,
         const void *, cl_uint, const cl_event *, cl_event *);
    if (fails("CLF_FAIL_WRITE", &i))
        return CL_OUT_OF_RESOURCES;
    asked.writes++;
    return real(q, b, s, o, z, p, n, w, ev);
}

cl_int clEnqueueCopyBuffer(cl_command_queue q, cl_mem a, cl_mem b, size_t oa, size_t ob,
                           size_t z, cl_uint n, const cl_event *w, cl_event *ev)
{
    static unsigned long long i;

    REAL(cl_int, clEnqueueCopyBuffer, cl_command_queue, cl_mem, cl_mem, size_t, size_t,
         size_t, cl_uint, const cl_event *, cl_event *);
    return fails("CLF_FAIL_COPY", &i) ? CL_OUT_OF_RESOURCES
                                      : real(q, a, b, oa, ob, z, n, w, ev);
}

cl_int clEnqueueFillBuffer(cl_command_queue q, cl_mem b, const void *p, size_t m,
                           size_t o, size_t z, cl_uint n, const cl_event *w, cl_event *ev)
{
    static unsigned long long i;

    REAL(cl_int, clEnqueueFillBuffer, cl_command_queue, cl_mem, const void *, size_t,
         size_t, size_t, cl_uint, const cl_event *, cl_event *);
    return fails("CLF_FAIL_FILL", &i) ? CL_OUT_OF_RESOURCES
                                      : real(q, b, p, m, o, z, n, w, ev);
}

/* The two ways to wait count together. One that fails has not waited. */
static int wait_fails(void)
{
    static unsigned long long i;

    return fails("CLF_FAIL_WAIT", &i);
}

cl_int clFinish(cl_command_queue q)
{
    REAL(cl_int, clFinish, cl_command_queue);
    if (wait_fails())
        return CL_OUT_OF_RESOURCES;
    asked.waits++;
    return real(q);
}

cl_int clWaitForEvents(cl_uint n, const cl_event *w)
{
    REAL(cl_int, clWaitForEvents, cl_uint, const cl_event *);
    return wait_fails() ? CL_OUT_OF_RESOURCES : real(n, w);
}

cl_kernel clCreateKernel(cl_program g, const char *name, cl_int *e)
{
    static unsigned long long i;

    REAL(cl_kernel, clCreateKernel, cl_program, const char *, cl_int *);
    if (fails("CLF_FAIL_KERNEL", &i)) {
        if (e)
            *e = CL_OUT_OF_RESOURCES;
        return NULL;
    }
    asked.kernels++;
    return real(g, name, e);
}

cl_int clBuildProgram(cl_program g, cl_uint n, const cl_device_id *d, const char *o,
                      void(CL_CALLBACK *f)(cl_program, void *), void *u)
{
    REAL(cl_int, clBuildProgram, cl_program, cl_uint, const cl_device_id *, const char *,
         void(CL_CALLBACK *)(cl_program, void *), void *);
    if (num("CLF_FAIL_BUILD"))
        return CL_BUILD_PROGRAM_FAILURE;
    return real(g, n, d, o, f, u);
}

cl_int clGetProgramBuildInfo(cl_program g, cl_device_id d, cl_program_build_info w,
                             size_t n, void *p, size_t *r)
{
    cl_build_status s = CL_BUILD_ERROR;
    const void *from = w == CL_PROGRAM_BUILD_LOG ? (const void *)REFUSED : &s;
    size_t size = w == CL_PROGRAM_BUILD_LOG ? sizeof REFUSED : sizeof s;

    REAL(cl_int, clGetProgramBuildInfo, cl_program, cl_device_id, cl_program_build_info,
         size_t, void *, size_t *);
    if (!num("CLF_FAIL_BUILD") ||
        (w != CL_PROGRAM_BUILD_LOG && w != CL_PROGRAM_BUILD_STATUS))
        return real(g, d, w, n, p, r);
    if (p && n < size)
        return CL_INVALID_VALUE;
    if (p)
        memcpy(p, from, size);
    if (r)
        *r = size;
    return CL_SUCCESS;
}
