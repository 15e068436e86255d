/* SPDX-License-Identifier: MIT */
/* bench_order CL_DIR [REPEATS]: what the number of partial sums costs, and what it does
 * to the bits.
 *
 * Builds CL_DIR/generic/matmul.cl for P = 1, 2, 4, 8, 16 partial sums and times Q4_0
 * products of three true shapes; needs nothing but OpenCL: gcc -O2 bench_order.c -o
 * bench_order -lOpenCL. Prints one JSON object. `bits` is a hash of the product: equal
 * hashes are equal bits, between launch shapes, machines and runs (the data come from a
 * fixed seed). On a GPU only the GPU shape runs; elsewhere both, and the speed of the GPU
 * shape there says nothing about GPUs. */
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_ROWS = 8, GROUP = 2304, MAX_REPEATS = 200 };

static const int shapes[][2] = {{5120, 5120}, {17408, 5120}, {5120, 17408}}; /* N, K */
static const int partials[] = {1, 2, 4, 8, 16};
static const int rows_of[] = {1, 6, 8};
enum { N_SHAPES = 3, N_PARTIALS = 5, N_ROWS = 3 };

static cl_device_id device;
static cl_context context;
static cl_command_queue queue;
static bool is_gpu, first_line = true;
static int repeats = 15;

static void check(cl_int rc, const char *what)
{
    if (rc == CL_SUCCESS)
        return;
    fprintf(stderr, "bench_order: %s: OpenCL error %d\n", what, (int)rc);
    exit(4);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *get_memory(size_t size)
{
    void *p = malloc(size);
    if (p == NULL) {
        fprintf(stderr, "bench_order: no memory for %zu bytes\n", size);
        exit(1);
    }
    return p;
}

/* ---- device and programs ---- */

/* The first GPU, else the first device. */
static void open_device(void)
{
    cl_platform_id platform[8];
    cl_uint n = 0;
    check(clGetPlatformIDs(8, platform, &n), "clGetPlatformIDs");
    for (int want_gpu = 1; want_gpu >= 0 && device == NULL; want_gpu--)
        for (cl_uint i = 0; i < n && i < 8 && device == NULL; i++)
            if (clGetDeviceIDs(platform[i],
                               want_gpu ? CL_DEVICE_TYPE_GPU : CL_DEVICE_TYPE_ALL, 1,
                               &device, NULL) != CL_SUCCESS)
                device = NULL;
            else
                is_gpu = want_gpu;
    cl_int rc = device != NULL ? CL_SUCCESS : CL_DEVICE_NOT_FOUND;
    check(rc, "looking for a device");
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &rc);
    check(rc, "clCreateContext");
    queue = clCreateCommandQueue(context, device, 0, &rc);
    check(rc, "clCreateCommandQueue");
}

static void add_file(char **text, size_t *len, const char *dir, const char *name)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *f = fopen(path, "rb");
    if (f == NULL) {
        fprintf(stderr, "bench_order: cannot read %s\n", path);
        exit(2);
    }
    for (size_t n = 1; n > 0; *len += n) {
        *text = realloc(*text, *len + 65537);
        if (*text == NULL)
            exit(1);
        n = fread(*text + *len, 1, 65536, f);
    }
    (*text)[*len] = '\0';
    fclose(f);
}

static cl_program build(const char *dir, bool cpu_shape, int P)
{
    static const char read_kernel[] =
        "\nkernel void plain_read(global const uint4 *w, int n, global uint *out)\n"
        "{ uint4 s = 0; const int at = (int)get_global_id(0), all = "
        "(int)get_global_size(0);\n"
        "  for (int i = at; i < n; i += all) s ^= w[i];\n"
        "  out[at] = s.x ^ s.y ^ s.z ^ s.w; }\n"
        "kernel void plain_read_runs(global const uint8 *w, int n, global uint *out)\n"
        "{ uint8 a = 0, b = 0; const int at = (int)get_global_id(0); w += (size_t)at * "
        "n;\n"
        "  for (int i = 0; i + 1 < n; i += 2) { a ^= w[i]; b ^= w[i + 1]; }\n"
        "  a ^= b; out[at] = a.s0 ^ a.s1 ^ a.s2 ^ a.s3 ^ a.s4 ^ a.s5 ^ a.s6 ^ a.s7; }\n";
    char *text = get_memory(128), options[64];
    static char log[65536];
    size_t len = (size_t)snprintf(
        text, 128, "#pragma OPENCL FP_CONTRACT OFF\n#define QW_PARTIALS(K) %d\n", P);
    cl_int rc;
    add_file(&text, &len, dir, "cycle.h");
    add_file(&text, &len, dir, "common.clh");
    char *include = strstr(text, "#include \"cycle.h\"");
    if (include != NULL)
        memset(include, ' ',
               strlen("#include \"cycle.h\"")); /* it stands there already */
    add_file(&text, &len, dir, "blocks.clh");
    add_file(&text, &len, dir, "generic/matmul.cl");
    const char *parts[] = {text, read_kernel};
    cl_program p = clCreateProgramWithSource(context, 2, parts, NULL, &rc);
    check(rc, "clCreateProgramWithSource");
    snprintf(options, sizeof(options), "-cl-std=CL1.2 -DQW_CPU=%d", cpu_shape);
    rc = clBuildProgram(p, 1, &device, options, NULL, NULL);
    if (rc != CL_SUCCESS) {
        clGetProgramBuildInfo(p, device, CL_PROGRAM_BUILD_LOG, sizeof(log) - 1, log,
                              NULL);
        fprintf(stderr, "%s\n", log);
    }
    check(rc, "clBuildProgram");
    free(text);
    return p;
}

static cl_kernel kernel_of(cl_program p, const char *name)
{
    cl_int rc;
    cl_kernel k = clCreateKernel(p, name, &rc);
    check(rc, name);
    return k;
}

/* ---- data ---- */

static uint64_t state = 88172645463325252u;
static uint32_t random32(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 16);
}

struct data {
    int N, K;
    size_t bytes;
    cl_mem w, q, scale, sum, y, cycle, spare;
};

static cl_mem buffer(const void *src, size_t size)
{
    cl_int rc;
    cl_mem m =
        clCreateBuffer(context, CL_MEM_READ_WRITE | (src ? CL_MEM_COPY_HOST_PTR : 0),
                       size, (void *)(uintptr_t)src, &rc);
    check(rc, "clCreateBuffer");
    return m;
}

/* Groups of 2048 bytes of nibbles, then 128 half scales: 2^-8 .. 2^-7, of both signs. */
static cl_mem random_weights(size_t bytes)
{
    unsigned char *w = get_memory(bytes);
    for (size_t i = 0; i < bytes; i += 4) {
        uint32_t v = random32();
        if (i % GROUP >= 2048)
            v = (v & 0x83ff83ffu) | 0x1c001c00u;
        memcpy(w + i, &v, 4);
    }
    cl_mem m = buffer(w, bytes);
    free(w);
    return m;
}

static void make_data(struct data *d, int N, int K)
{
    const int blocks = MAX_ROWS * K / 32;
    int8_t *q = get_memory((size_t)blocks * 32);
    float *scale = get_memory((size_t)blocks * 4);
    int32_t *sum = get_memory((size_t)blocks * 4);
    for (int b = 0; b < blocks; b++) {
        int half[2] = {0, 0};
        for (int i = 0; i < 32; i++) {
            q[32 * b + i] = (int8_t)((int)(random32() % 255) - 127);
            half[i / 16] += q[32 * b + i];
        }
        scale[b] = (float)(random32() % 1000 + 24) / 65536.0f;
        sum[b] = (int32_t)((uint32_t)(half[0] & 0xffff) | (uint32_t)half[1] << 16);
    }
    d->N = N;
    d->K = K;
    d->bytes = (size_t)(N / 16) * (size_t)(K / 256) * GROUP;
    d->w = random_weights(d->bytes);
    d->q = buffer(q, (size_t)blocks * 32);
    d->scale = buffer(scale, (size_t)blocks * 4);
    d->sum = buffer(sum, (size_t)blocks * 4);
    d->y = buffer(NULL, (size_t)MAX_ROWS * (size_t)N * 4);
    d->cycle = buffer(NULL, 64);
    d->spare = buffer(NULL, 1 << 22);
    free(q);
    free(scale);
    free(sum);
}

static void free_data(struct data *d)
{
    cl_mem all[] = {d->w, d->q, d->scale, d->sum, d->y, d->cycle, d->spare};
    for (int i = 0; i < 7; i++)
        clReleaseMemObject(all[i]);
}

static uint64_t hash_product(const struct data *d, int rows)
{
    const size_t n = (size_t)rows * (size_t)d->N * 4;
    unsigned char *y = get_memory(n);
    uint64_t h = 14695981039346656037u;
    check(clEnqueueReadBuffer(queue, d->y, CL_TRUE, 0, n, y, 0, NULL, NULL),
          "reading back");
    for (size_t i = 0; i < n; i++)
        h = (h ^ y[i]) * 1099511628211u;
    free(y);
    return h;
}

/* ---- timing ---- */

struct timing {
    double median, best;
};

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* GPU: batches of 20 launches in flight, so that the launch cost is hidden as in a plan.
 */
static struct timing time_kernel(cl_kernel k, cl_uint dims, const size_t *global,
                                 const size_t *local)
{
    static double t[MAX_REPEATS];
    const int batch = is_gpu ? 20 : 1;
    for (int i = -2; i < repeats; i++) {
        const double start = now();
        for (int j = 0; j < batch; j++)
            check(clEnqueueNDRangeKernel(queue, k, dims, NULL, global, local, 0, NULL,
                                         NULL),
                  "clEnqueueNDRangeKernel");
        check(clFinish(queue), "clFinish");
        if (i >= 0)
            t[i] = (now() - start) / batch;
    }
    qsort(t, (size_t)repeats, sizeof(t[0]), by_value);
    return (struct timing){t[repeats / 2], t[0]};
}

static void print_line(const struct data *d, const char *what, int P, int rows,
                       struct timing t, uint64_t bits)
{
    printf("%s\n    {\"N\": %d, \"K\": %d, \"kernel\": \"%s\"", first_line ? "" : ",",
           d->N, d->K, what);
    if (P > 0)
        printf(", \"P\": %d, \"rows\": %d, \"bits\": \"%016llx\"", P, rows,
               (unsigned long long)bits);
    printf(", \"ms_median\": %.4f, \"ms_best\": %.4f, \"gb_s_median\": %.2f, "
           "\"gb_s_best\": %.2f}",
           1e3 * t.median, 1e3 * t.best, (double)d->bytes / t.median * 1e-9,
           (double)d->bytes / t.best * 1e-9);
    fflush(stdout);
    first_line = false;
}

static void run_read(const struct data *d, cl_program p)
{
    cl_kernel k = kernel_of(p, is_gpu ? "plain_read" : "plain_read_runs");
    const size_t global = is_gpu ? 1 << 18 : (size_t)d->N / 16, local = is_gpu ? 256 : 1;
    const int n = (int)(is_gpu ? d->bytes / 16 : d->bytes / 32 / global);
    clSetKernelArg(k, 0, sizeof(d->w), &d->w);
    clSetKernelArg(k, 1, sizeof(n), &n);
    check(clSetKernelArg(k, 2, sizeof(d->spare), &d->spare), "clSetKernelArg");
    print_line(d, "plain read", 0, 0, time_kernel(k, 1, &global, &local), 0);
    clReleaseKernel(k);
}

static void run_product(const struct data *d, cl_program p, bool cpu_shape, int P,
                        int rows)
{
    const char *name = cpu_shape   ? "qw_matmul_q4_0_c"
                       : rows == 1 ? "qw_matmul_q4_0_g1"
                                   : "qw_matmul_q4_0_g4";
    cl_kernel k = kernel_of(p, name);
    const cl_mem b[] = {d->w, d->q, d->scale, d->sum, d->y, d->cycle};
    const int ints[] = {d->K, d->N, d->N, 0, 0};
    const size_t lanes = cpu_shape ? 1 : 16, parts = cpu_shape ? 1 : (size_t)P;
    const size_t local[] = {lanes, parts, 1};
    const size_t global[] = {lanes * (size_t)d->N / 16, parts,
                             cpu_shape ? 1 : (size_t)(rows + 3) / 4};
    for (cl_uint i = 0; i < 6; i++)
        check(clSetKernelArg(k, i, sizeof(b[i]), &b[i]), "clSetKernelArg");
    for (cl_uint i = 0; i < 5; i++)
        check(clSetKernelArg(k, 6 + i, sizeof(ints[i]), &ints[i]), "clSetKernelArg");
    check(clEnqueueWriteBuffer(queue, d->cycle, CL_TRUE, 0, sizeof(rows), &rows, 0, NULL,
                               NULL),
          "clEnqueueWriteBuffer");
    struct timing t = time_kernel(k, 3, global, local);
    print_line(d, name, P, rows, t, hash_product(d, rows));
    clReleaseKernel(k);
}

static void print_text(const char *key, cl_device_info what)
{
    char text[256] = "";
    clGetDeviceInfo(device, what, sizeof(text) - 1, text, NULL);
    for (char *s = text; *s != '\0'; s++)
        if (*s == '"' || *s == '\\' || (unsigned char)*s < 32)
            *s = ' ';
    printf("  \"%s\": \"%s\",\n", key, text);
}

int main(int argc, char **argv)
{
    cl_program cpu[N_PARTIALS] = {NULL}, gpu;
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: bench_order CL_DIR [REPEATS]\n");
        return 2;
    }
    if (argc == 3)
        repeats = atoi(argv[2]);
    if (repeats < 1 || repeats > MAX_REPEATS) {
        fprintf(stderr, "bench_order: REPEATS is 1..%d\n", MAX_REPEATS);
        return 2;
    }
    open_device();
    gpu = build(argv[1], false, 16); /* takes P from its work-group */
    for (int i = 0; i < N_PARTIALS && !is_gpu; i++)
        cpu[i] = build(argv[1], true, partials[i]);
    printf("{\n");
    print_text("device", CL_DEVICE_NAME);
    print_text("driver", CL_DRIVER_VERSION);
    print_text("version", CL_DEVICE_VERSION);
    printf("  \"repeats\": %d,\n  \"runs\": [", repeats);
    for (int s = 0; s < N_SHAPES; s++) {
        struct data d;
        make_data(&d, shapes[s][0], shapes[s][1]);
        run_read(&d, gpu);
        for (int i = 0; i < N_PARTIALS; i++)
            for (int r = 0; r < N_ROWS; r++) {
                if (!is_gpu)
                    run_product(&d, cpu[i], true, partials[i], rows_of[r]);
                run_product(&d, gpu, false, partials[i], rows_of[r]);
            }
        run_read(&d, gpu);
        free_data(&d);
    }
    printf("\n  ]\n}\n");
    clReleaseProgram(gpu);
    for (int i = 0; i < N_PARTIALS && cpu[i] != NULL; i++)
        clReleaseProgram(cpu[i]);
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
    return 0;
}
