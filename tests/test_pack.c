/* SPDX-License-Identifier: MIT */
/* Packed weights through the product kernels of both launch shapes against a host
 * reference that reads the file's blocks: equal bit for bit, in the one order of sums.
 * --small: few shapes and rows, for a device that is slow (oclgrind); it knows no AVX2,
 * so the plain CPU kernels are all there are. */
#include "dev.h"

#include <math.h>

#include "check.h"
#include "cycle.h"
#include "matmul_ref.h"
#include "pack.h"
#include "quant.h"

enum { ROWS = 9, MAX_N = 40, MAX_K = 6144, BLOCK = 32, LD = MAX_N + 6, Y0 = 4 };
enum shape { CPU_SHAPE, CPU_PLAIN, GPU_SHAPE, N_SHAPES };
static const char *const shape_name[] = {"cpu", "cpu plain", "gpu"};
static const char *const shape_options[] = {"-cl-std=CL1.2 -DQW_CPU=1",
                                            "-cl-std=CL1.2 -DQW_CPU=1 -DQW_PLAIN",
                                            "-cl-std=CL1.2 -DQW_CPU=0"};
static const uint32_t types[] = {QW_F32,  QW_F16,  QW_BF16, QW_Q4_0, QW_Q4_1, QW_Q5_0,
                                 QW_Q5_1, QW_Q8_0, QW_Q4_K, QW_Q5_K, QW_Q6_K};
enum { N_TYPES = sizeof(types) / sizeof(types[0]) };

static bool small;
static struct qw_dev *dev;
static cl_program program[N_SHAPES];

static struct mr_acts act;
static unsigned char weights[MAX_N * MAX_K * 4];

static void random_acts(int K)
{
    mr_acts_free(&act);
    mr_acts_random(&act, ROWS, K);
}

static void random_rows(uint32_t type, int N, int K)
{
    mr_random_rows(type, weights, (size_t)N * (size_t)K / qw_type_info(type)->block);
}

/* ---- the device ---- */

static void add_file(struct qw_buf *src, const char *name)
{
    const char *dir = getenv("srcdir");
    char *path = qw_sprintf("%s/cl/%s", dir ? dir : ".", name), line[512];
    FILE *f = fopen(path, "r");
    MUST(f != NULL, "%s", path);
    while (fgets(line, sizeof(line), f) != NULL)
        if (strncmp(line, "#include \"", 10) != 0) /* the files are put together here */
            qw_buf_add(src, line, strlen(line));
    fclose(f);
    free(path);
}

/* qw_get_L: every value of a packed tile range through the accessors of blocks.clh. */
static const char *const getters =
    "#define GET(L) kernel void qw_get_##L(global const uchar *w, int K, global float "
    "*x) {\\\n"
    "    const int n = (int)get_global_id(0); \\\n"
    "    for (int k = 0; k < K; k++) \\\n"
    "        x[n * K + k] = qw_w_##L(w + ((size_t)(n / 16) * ((K + 255) / 256) + k / "
    "256) * \\\n"
    "                                    QW_GROUP_##L, k % 256 / 32, k % 32, n % 16); }\n"
    "GET(q4_0) GET(q4_1) GET(q4_k) GET(q8_0) GET(q8_1) GET(q8_k) GET(q6_k)\n";

static void setup(void)
{
    struct qw_err err;
    struct qw_buf src = {0};
    if (dev != NULL)
        return;
    MUST(qw_dev_open(&dev, "auto", "auto", 0, &err) == QW_OK, "%s", err.msg);
    printf("device %s\n", dev->name);
    qw_buf_printf(&src, "#pragma OPENCL FP_CONTRACT OFF\n");
    add_file(&src, "cycle.h");
    add_file(&src, "common.clh");
    add_file(&src, "blocks.clh");
    add_file(&src, "generic/matmul.cl");
    qw_buf_printf(&src, "%s", getters);
    for (int s = 0; s < N_SHAPES; s++) {
        const char *text = src.data;
        static char log[1 << 16];
        program[s] = clCreateProgramWithSource(dev->ctx, 1, &text, NULL, NULL);
        MUST(program[s] != NULL);
        if (clBuildProgram(program[s], 1, &dev->id, shape_options[s], NULL, NULL) !=
            CL_SUCCESS) {
            clGetProgramBuildInfo(program[s], dev->id, CL_PROGRAM_BUILD_LOG,
                                  sizeof(log) - 1, log, NULL);
            MUST(false, "%s", log);
        }
    }
    qw_buf_free(&src);
}

static cl_mem buffer(const void *data, size_t size)
{
    cl_mem m = clCreateBuffer(dev->ctx, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, size,
                              (void *)(uintptr_t)data, NULL);
    MUST(m != NULL);
    return m;
}

static cl_kernel kernel_of(enum shape s, const char *op, enum qw_layout l,
                           const char *suffix)
{
    char *name = qw_sprintf("qw_%s_%s%s", op, qw_layout_name(l), suffix);
    cl_kernel k = clCreateKernel(program[s], name, NULL);
    MUST(k != NULL, "%s", name);
    free(name);
    return k;
}

/* Pack into a fresh buffer, whose bytes were not zero before. */
static cl_mem packed(uint32_t type, int N, int K)
{
    const enum qw_layout l = qw_pack_layout(type);
    const struct qw_type_info *info = qw_type_info(type);
    const int tiles = (N + 15) / 16;
    const size_t size = qw_pack_tile_bytes(l, K) * (size_t)tiles;
    unsigned char *p = qw_alloc(size + 16, 1);
    memset(p, 0xa5, size + 16);
    qw_pack_tiles(l, type, weights, mr_row_bytes(type, K), N, K, tiles, p);
    for (int i = 0; i < 16; i++)
        CHECK(p[size + (size_t)i] == 0xa5, "%s: wrote past the end", info->name);
    cl_mem m = buffer(p, size);
    free(p);
    return m;
}

struct run {
    uint32_t type;
    int N, K, live, mode; /* cycle.h */
};

/* One launch; y has ROWS rows of LD columns, the product starts in column Y0. */
static void launch(enum shape s, const struct run *u, const char *suffix,
                   int tiles_of_rows, cl_mem w, float *y)
{
    const enum qw_layout l = qw_pack_layout(u->type);
    const int cycle[4] = {u->live, 0, 0, 0}, ldy = LD, y0 = Y0, tiles = (u->N + 15) / 16;
    const size_t bytes = sizeof(float) * ROWS * LD,
                 blocks = (size_t)(ROWS * u->K / BLOCK);
    cl_mem b[] = {w,
                  l == QW_L_F32 ? buffer(act.x, 4u * BLOCK * blocks)
                                : buffer(act.q, BLOCK * blocks),
                  buffer(act.scale, 4 * blocks),
                  buffer(act.sum, 4 * blocks),
                  buffer(y, bytes),
                  buffer(cycle, sizeof(cycle))};
    cl_kernel k = kernel_of(s, "matmul", l, suffix);
    cl_uint n = 0;
    for (int i = 0; i < 6; i++)
        if (l != QW_L_F32 || (i != 2 && i != 3))
            clSetKernelArg(k, n++, sizeof(cl_mem), &b[i]);
    const int last[] = {u->K, u->N, ldy, y0, u->mode};
    for (int i = 0; i < 5; i++)
        MUST(clSetKernelArg(k, n++, sizeof(int), &last[i]) == CL_SUCCESS);
    const size_t gpu = s == GPU_SHAPE, P = gpu ? (size_t)qw_partials(u->K) : 1;
    const size_t local[] = {gpu ? 16 : 1, P, 1};
    const size_t global[] = {local[0] * (size_t)tiles, P, (size_t)tiles_of_rows};
    MUST(clEnqueueNDRangeKernel(dev->queue, k, 3, NULL, global, local, 0, NULL, NULL) ==
         CL_SUCCESS);
    MUST(clEnqueueReadBuffer(dev->queue, b[4], CL_TRUE, 0, bytes, y, 0, NULL, NULL) ==
         CL_SUCCESS);
    clReleaseKernel(k);
    for (int i = 1; i < 6; i++)
        clReleaseMemObject(b[i]);
}

static bool same(float a, float b)
{
    return memcmp(&a, &b, sizeof(a)) == 0;
}

/* Live rows and the N columns are as wanted, all else is untouched. */
static void compare(const struct run *u, const char *what, const float *y,
                    const float *ref)
{
    int wrong = 0;
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < LD; c++) {
            const bool in = r < u->live && c >= Y0 && c < Y0 + u->N;
            const float before = (float)(r - c);
            float v = in ? ref[r * MAX_N + c - Y0] : before;
            if (in && u->mode == QW_ADD_TO)
                v = before + v;
            wrong += !same(v, y[r * LD + c]);
        }
    CHECK(wrong == 0, "%s %s: N %d K %d rows %d mode %d: %d differ", what,
          qw_type_info(u->type)->name, u->N, u->K, u->live, u->mode, wrong);
}

/* The best column of row r in tile t, the lowest of equals; -1 when one is not finite.
 * -0 and +0 are equal. */
static int best_column(const struct run *u, const float *ref, int r, int t)
{
    const float *y = ref + r * MAX_N + 16 * t;
    const int n = u->N - 16 * t < 16 ? u->N - 16 * t : 16;
    int best = 0;
    for (int i = 0; i < n; i++) {
        if (!isfinite(y[i]))
            return -1;
        best = y[i] > y[best] ? i : best;
    }
    return best;
}

/* QW_TOP: pairs (ordered value, column) of each tile, nothing else is written. */
static void compare_top(const struct run *u, const char *what, const float *y,
                        const float *ref)
{
    const int tiles = (u->N + 15) / 16;
    int wrong = 0;
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < LD; c++) {
            const int t = (c - Y0) / 2;
            if (r < u->live && c >= Y0 && t < tiles) {
                int32_t pair[2];
                memcpy(pair, y + r * LD + Y0 + 2 * t, sizeof(pair));
                const int best = best_column(u, ref, r, t);
                const float v = best < 0 ? 0.0f : ref[r * MAX_N + 16 * t + best] + 0.0f;
                uint32_t bits;
                memcpy(&bits, &v, 4);
                const uint32_t key = best < 0     ? 0
                                     : bits >> 31 ? ~bits
                                                  : bits | 0x80000000u;
                wrong += pair[1] != best || (uint32_t)pair[0] != key;
            } else {
                wrong += !same((float)(r - c), y[r * LD + c]);
            }
        }
    CHECK(wrong == 0, "%s %s: N %d K %d rows %d, best of tiles: %d differ", what,
          qw_type_info(u->type)->name, u->N, u->K, u->live, wrong);
}

static void one_shape(enum shape s, const struct run *u, cl_mem w, const float *ref)
{
    static const char *const suffix[N_SHAPES][2] = {
        {"_c", "_c"}, {"_c", "_c"}, {"_g1", "_g4"}};
    for (int i = 0; i < 2; i++) {
        float y[ROWS * LD];
        for (int j = 0; j < ROWS * LD; j++)
            y[j] = (float)(j / LD - j % LD);
        launch(s, u, suffix[s][i], i ? 3 : 1, w, y);
        if (u->mode == QW_TOP)
            compare_top(u, shape_name[s], y, ref);
        else
            compare(u, shape_name[s], y, ref);
    }
}

static void one_case(uint32_t type, int N, int K)
{
    static const int lives[] = {1, 2, 3, 4, 5, 6, 8, 9};
    const struct qw_type_info *info = qw_type_info(type);
    float ref[ROWS * MAX_N] = {0};
    if (K % (int)info->block != 0)
        return;
    random_rows(type, N, K);
    random_acts(K);
    mr_product(type, weights, N, &act, ref, MAX_N);
    cl_mem w = packed(type, N, K);
    for (int s = small ? CPU_PLAIN : 0; s < N_SHAPES; s++)
        for (int i = 0; i < 8; i++)
            if (small ? lives[i] == (N > 16 ? 5 : 2) : K < 1000 || i % 3 == N % 3) {
                const struct run u = {type, N, K, lives[i], i % 2 ? QW_ADD_TO : QW_STORE};
                one_shape((enum shape)s, &u, w, ref);
            }
    clReleaseMemObject(w);
}

static void products(void)
{
    static const int K[] = {32, 96, 128, 256, 288, 2560, 5152, 6144};
    setup();
    for (int t = 0; t < N_TYPES; t++)
        for (int i = 0; i < 8; i++)
            if (!small)
                one_case(types[t], i % 3 == 0 ? 17 : i % 3 == 1 ? 40 : 7, K[i]);
            else if (types[t] != QW_F16 && types[t] != QW_BF16 && /* packed as F32 */
                     (K[i] == 256 || K[i] == 288))
                one_case(types[t], K[i] == 256 ? 17 : 7, K[i]);
}

/* The best column of each tile: any, the first of equals, all equal, all zero (row 1),
 * one not finite (row 2), a tile that is not whole. */
static void tops(void)
{
    enum { N = 40, K = 256 };
    static const int same_as[][2] = {{5, 3}, {11, 3}, {34, 33}, {39, 33}};
    setup();
    for (int t = small ? 3 : 0; t < N_TYPES; t++) {
        const size_t bytes = mr_row_bytes(types[t], K);
        float ref[ROWS * MAX_N] = {0};
        random_rows(types[t], N, K);
        random_acts(K);
        for (int i = 0; i < 4; i++)
            memcpy(weights + (size_t)same_as[i][0] * bytes,
                   weights + (size_t)same_as[i][1] * bytes, bytes);
        for (int i = 17; i < 32; i++)
            memcpy(weights + (size_t)i * bytes, weights + 16 * bytes, bytes);
        for (int i = K; i < 2 * K; i++)
            act.x[i] = act.q[i] = 0;
        for (int i = K / BLOCK; i < 2 * K / BLOCK; i++)
            act.scale[i] = 0.0f, act.sum[i] = 0;
        act.x[2 * K + 70] = act.scale[2 * K / BLOCK + 2] = INFINITY;
        mr_product(types[t], weights, N, &act, ref, MAX_N);
        cl_mem w = packed(types[t], N, K);
        for (int s = small ? CPU_PLAIN : 0; s < N_SHAPES; s++)
            for (int live = small ? 4 : 1; live <= (small ? 4 : ROWS); live++) {
                const struct run u = {types[t], N, K, live, QW_TOP};
                one_shape((enum shape)s, &u, w, ref);
            }
        clReleaseMemObject(w);
    }
}

/* The accessors that row fetch uses give what qw_decode gives. */
static void values(void)
{
    enum { N = 20, K = 512 };
    static float x[32 * K], y[N * K];
    setup();
    for (int t = 3; t < N_TYPES; t++) {
        const struct qw_type_info *info = qw_type_info(types[t]);
        const enum qw_layout l = qw_pack_layout(types[t]);
        const int k = info->block == 256 ? K : K - 32;
        random_rows(types[t], N, k);
        MUST(qw_decode(types[t], weights, y, (size_t)(N * k)));
        cl_mem w = packed(types[t], N, k), out = buffer(x, sizeof(x));
        cl_kernel kern = kernel_of(CPU_SHAPE, "get", l, "");
        const size_t global = N, local = 1;
        clSetKernelArg(kern, 0, sizeof(w), &w);
        clSetKernelArg(kern, 1, sizeof(k), &k);
        clSetKernelArg(kern, 2, sizeof(out), &out);
        MUST(clEnqueueNDRangeKernel(dev->queue, kern, 1, NULL, &global, &local, 0, NULL,
                                    NULL) == CL_SUCCESS);
        MUST(clEnqueueReadBuffer(dev->queue, out, CL_TRUE, 0, sizeof(x), x, 0, NULL,
                                 NULL) == CL_SUCCESS);
        int wrong = 0;
        for (int i = 0; i < N * k; i++)
            wrong += !same(x[i], y[i]);
        CHECK(wrong == 0, "%s: %d of %d values differ", info->name, wrong, N * k);
        clReleaseKernel(kern);
        clReleaseMemObject(w);
        clReleaseMemObject(out);
    }
}

static void sizes(void)
{
    CHECK(qw_pack_tile_bytes(QW_L_Q4_0, 5120) == 20 * 2304);
    CHECK(qw_pack_tile_bytes(QW_L_Q6_K, 5120) == 16 * 4200);
    CHECK(qw_pack_tile_bytes(QW_L_Q8_0, 32) == 4352);
    CHECK(qw_pack_tile_bytes(QW_L_F32, 96) == 96 * 64);
    CHECK(qw_partials(6143) == 4);
    CHECK(qw_partials(6144) == 8);
}

static void closing(void)
{
    mr_acts_free(&act);
    for (int s = 0; s < N_SHAPES; s++)
        clReleaseProgram(program[s]);
    CHECK(dev->n_buffers == 0);
    qw_dev_close(dev);
}

int main(int argc, char **argv)
{
    static const struct check_test all[] = {T(sizes), T(products), T(tops), T(values),
                                            T(closing)};
    small = argc > 1 && strcmp(argv[1], "--small") == 0;
    return check_run(all, sizeof(all) / sizeof(all[0]));
}
