/* SPDX-License-Identifier: MIT */
#include "matmul_ref.h"

#include <math.h>

#include "base.h"
#include "check.h"
#include "quant.h"

enum { BLOCK = 32, MAX_ROWS = 64 };

unsigned long long mr_seed = 20261;

/* ---- random weights and activations ---- */

static uint16_t random_half(void)
{
    const float v = ((float)(check_rand(&mr_seed) % 2001) - 1000.0f) * 1e-4f;
    return check_rand(&mr_seed) % 50 == 0 ? (uint16_t)(check_rand(&mr_seed) % 1024)
                                          : /* subnormal */
               qw_float_to_half(v);
}

static void put_half(unsigned char *at)
{
    const uint16_t h = random_half();
    memcpy(at, &h, 2);
}

void mr_random_rows(uint32_t type, unsigned char *w, size_t n_blocks)
{
    const struct qw_type_info *info = qw_type_info(type);
    for (size_t i = 0; i < n_blocks; i++, w += info->bytes) {
        for (uint32_t j = 0; j < info->bytes; j++)
            w[j] = (unsigned char)(check_rand(&mr_seed) >> 24);
        const float v = (float)(int)(check_rand(&mr_seed) % 65536) * 1e-4f - 3.0f;
        switch (type) {
        case QW_F32:
            memcpy(w, &v, 4);
            break;
        case QW_BF16:
            memcpy(w, (const unsigned char *)&v + 2, 2);
            break;
        case QW_Q6_K:
            put_half(w + 208);
            break;
        case QW_Q4_1:
        case QW_Q5_1:
        case QW_Q4_K:
        case QW_Q5_K:
            put_half(w + 2);
            put_half(w);
            break;
        default:
            put_half(w);
        }
    }
}

size_t mr_row_bytes(uint32_t type, int K)
{
    const struct qw_type_info *info = qw_type_info(type);
    return (size_t)K / info->block * info->bytes;
}

void mr_acts_random(struct mr_acts *a, int rows, int K)
{
    const size_t n = (size_t)rows * (size_t)K;
    MUST(rows <= MAX_ROWS);
    *a = (struct mr_acts){.rows = rows,
                          .K = K,
                          .x = qw_alloc(n, sizeof(float)),
                          .q = qw_alloc(n, 1),
                          .scale = qw_alloc(n / BLOCK, sizeof(float)),
                          .sum = qw_alloc(n / BLOCK, sizeof(int32_t))};
    for (size_t i = 0; i < n; i++) {
        a->x[i] = ((float)(check_rand(&mr_seed) % 20001) - 10000.0f) * 3e-4f;
        if (i / BLOCK % 5 == 4)
            a->x[i] = i / BLOCK % 2 ? 1.0f : -1.0f;
    }
    for (size_t b = 0; b < n / BLOCK; b++) {
        int half[2] = {0, 0};
        qw_quant_act(a->x + b * BLOCK, a->q + b * BLOCK, &a->scale[b]);
        for (int i = 0; i < BLOCK; i++)
            half[i / 16] += a->q[b * BLOCK + (size_t)i];
        a->sum[b] = (int32_t)((unsigned)half[1] << 16 | (unsigned)(half[0] & 0xffff));
    }
}

void mr_acts_free(struct mr_acts *a)
{
    free(a->x);
    free(a->q);
    free(a->scale);
    free(a->sum);
}

/* ---- one 32-block of a row ---- */

struct block {
    int q[BLOCK];
    int sub[2]; /* integer scale of each half */
    float sw, mw;
    bool minimum;
};

static float half_at(const unsigned char *p)
{
    uint16_t h;
    memcpy(&h, p, 2);
    return qw_half_to_float(h);
}

static void read_small(uint32_t type, const unsigned char *p, struct block *b)
{
    const bool five = type == QW_Q5_0 || type == QW_Q5_1;
    uint32_t high = 0;
    b->sw = half_at(p);
    p += 2;
    if (b->minimum) {
        b->mw = half_at(p);
        p += 2;
    }
    if (five) {
        memcpy(&high, p, 4);
        p += 4;
    }
    for (int e = 0; e < BLOCK; e++) {
        if (type == QW_Q8_0) {
            b->q[e] = (signed char)p[e];
            continue;
        }
        b->q[e] = e < 16 ? p[e] % 16 : p[e - 16] / 16;
        b->q[e] += five && (high >> e & 1) ? 16 : 0;
        b->q[e] -= type == QW_Q4_0 ? 8 : type == QW_Q5_0 ? 16 : 0;
    }
}

static void read_k45(uint32_t type, const unsigned char *p, int j, struct block *b)
{
    const unsigned char *s = p + 4, *qs = p + (type == QW_Q5_K ? 48 : 16) + 32 * (j / 2);
    const int sc = j < 4 ? s[j] & 63 : (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
    const int mn = j < 4 ? s[j + 4] & 63 : (s[j + 4] >> 4) | (s[j] >> 6) << 4;
    b->sw = half_at(p) * (float)sc;
    b->mw = -(half_at(p + 2) * (float)mn);
    for (int e = 0; e < BLOCK; e++) {
        b->q[e] = j % 2 ? qs[e] / 16 : qs[e] % 16;
        if (type == QW_Q5_K && (p[16 + e] >> j & 1))
            b->q[e] += 16;
    }
}

static void read_q6(const unsigned char *p, int j, struct block *b)
{
    b->sw = half_at(p + 208);
    for (int i = 0; i < BLOCK; i++) {
        const int e = 32 * j + i, k = e / 128, g = e % 128 / 32, l = e % 32;
        const int lo = p[64 * k + 32 * (g & 1) + l] >> 4 * (g >> 1) & 15;
        const int hi = p[128 + 32 * k + l] >> 2 * g & 3;
        b->q[i] = (lo | hi << 4) - 32;
        b->sub[i / 16] = (signed char)p[192 + e / 16];
    }
}

static void read_block(uint32_t type, const unsigned char *row, int k, struct block *b)
{
    const struct qw_type_info *info = qw_type_info(type);
    const unsigned char *p = row + (size_t)(k / (int)info->block) * info->bytes;
    b->mw = 0.0f;
    b->minimum = type == QW_Q4_1 || type == QW_Q5_1 || type == QW_Q4_K || type == QW_Q5_K;
    b->sub[0] = b->sub[1] = 1;
    if (type == QW_Q6_K)
        read_q6(p, k % 256 / 32, b);
    else if (type == QW_Q4_K || type == QW_Q5_K)
        read_k45(type, p, k % 256 / 32, b);
    else
        read_small(type, p, b);
}

/* ---- the product ---- */

static float block_step(const struct block *b, const int8_t *a, float sa, float acc)
{
    int sum[2] = {0, 0}, asum = 0;
    for (int e = 0; e < BLOCK; e++) {
        sum[e / 16] += b->q[e] * a[e];
        asum += a[e];
    }
    const float sw = b->sw * sa, mw = b->mw * sa;
    acc = fmaf((float)(b->sub[0] * sum[0] + b->sub[1] * sum[1]), sw, acc);
    return b->minimum ? fmaf((float)asum, mw, acc) : acc;
}

/* One row of w with all rows of a. */
static void row_product(uint32_t type, const unsigned char *row, const struct mr_acts *a,
                        float *y, int ldy)
{
    const int K = a->K, P = K < 6144 ? 4 : 8;
    const struct qw_type_info *info = qw_type_info(type);
    float part[MAX_ROWS][8] = {{0}};
    for (int k = 0; k < K; k += info->block == 1 ? 1 : BLOCK) {
        struct block b = {.minimum = false};
        float w = 0.0f;
        if (info->block == 1)
            MUST(qw_decode(type, row + (size_t)k * info->bytes, &w, 1));
        else
            read_block(type, row, k, &b);
        for (int r = 0; r < a->rows; r++) {
            const size_t at = (size_t)r * (size_t)K + (size_t)k;
            float *acc = &part[r][k / 256 % P];
            *acc = info->block == 1
                       ? fmaf(w, a->x[at], *acc)
                       : block_step(&b, a->q + at, a->scale[at / BLOCK], *acc);
        }
    }
    for (int r = 0; r < a->rows; r++) {
        float sum = part[r][0];
        for (int p = 1; p < P; p++)
            sum += part[r][p];
        y[(size_t)r * (size_t)ldy] = sum;
    }
}

void mr_product(uint32_t type, const unsigned char *w, int N, const struct mr_acts *a,
                float *y, int ldy)
{
    for (int n = 0; n < N; n++)
        row_product(type, w + (size_t)n * mr_row_bytes(type, a->K), a, y + n, ldy);
}
