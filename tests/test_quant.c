/* SPDX-License-Identifier: MIT */
/* test_quant.c - block formats against the reference's bytes (tests/golden/quant.bin),
 * the traps spelled out, and numbers that are not finite. */
#include "quant.h"

#include <math.h>

#include "check.h"

enum { DECODE, ENCODE, ACT, TRAP, N_KINDS };

struct record {
    uint32_t kind, type, n, in, out;
    const unsigned char *src, *dst;
};

static unsigned char *golden;
static size_t golden_size;

static void test_load(void)
{
    char path[4096];
    const char *top = getenv("srcdir");
    snprintf(path, sizeof(path), "%s/tests/golden/quant.bin", top ? top : ".");
    FILE *f = fopen(path, "rb");
    MUST(f != NULL, "%s", path);
    golden = malloc(1 << 20);
    MUST(golden != NULL, "memory");
    golden_size = fread(golden, 1, 1 << 20, f);
    fclose(f);
    CHECK(golden_size > 100000 && golden_size < 300000, "%zu bytes", golden_size);
}

static size_t next_record(size_t pos, struct record *r)
{
    MUST(pos + 20 <= golden_size, "golden file ends at %zu", pos);
    memcpy(r, golden + pos, 20);
    r->src = golden + pos + 20;
    r->dst = r->src + r->in;
    pos += 20 + (size_t)r->in + r->out;
    MUST(pos <= golden_size, "golden file ends inside a record");
    return pos;
}

static void check_decode(const struct record *r)
{
    float *x = malloc(r->out);
    MUST(x != NULL && r->out == r->n * sizeof(float), "record");
    CHECK(qw_decode(r->type, r->src, x, r->n), "type %u", r->type);
    for (uint32_t i = 0; i < r->n; i++)
        if (memcmp(&x[i], r->dst + 4 * i, 4) != 0) {
            float want;
            memcpy(&want, r->dst + 4 * i, 4);
            CHECK(0, "type %u, element %u: %a, want %a", r->type, i, (double)x[i],
                  (double)want);
            break;
        }
    free(x);
}

static void check_encode(const struct record *r)
{
    unsigned char *b = malloc(r->out);
    float *x = malloc(r->in);
    MUST(b != NULL && x != NULL, "memory");
    memcpy(x, r->src, r->in);
    CHECK(qw_encode(r->type, x, b, r->n), "type %u", r->type);
    for (uint32_t i = 0; i < r->out; i++)
        if (b[i] != r->dst[i]) {
            CHECK(0, "type %u, byte %u: %d, want %d", r->type, i, b[i], r->dst[i]);
            break;
        }
    free(x);
    free(b);
}

static void check_act(const struct record *r)
{
    for (uint32_t i = 0; i < r->n / 32; i++) {
        float x[32], scale;
        int8_t q[32];
        memcpy(x, r->src + 128 * i, sizeof(x));
        qw_quant_act(x, q, &scale);
        CHECK(memcmp(q, r->dst + 36 * i, 32) == 0, "quants of block %u", i);
        CHECK(memcmp(&scale, r->dst + 36 * i + 32, 4) == 0, "scale of block %u: %a", i,
              (double)scale);
    }
}

/* Every record of one kind; says how many elements that were, so that none is lost
 * unseen. */
static void check_kind(uint32_t kind, uint32_t want_records)
{
    static void (*const check[N_KINDS])(const struct record *) = {
        check_decode, check_encode, check_act, check_decode};
    struct record r;
    uint32_t seen = 0;
    for (size_t pos = 0; pos < golden_size;) {
        pos = next_record(pos, &r);
        if (r.kind != kind)
            continue;
        check[kind](&r);
        seen++;
    }
    CHECK(seen == want_records, "%u records", seen);
}

static void test_decode(void)
{
    check_kind(DECODE, 11);
}

static void test_traps(void)
{
    check_kind(TRAP, 2 + 64 + 4);
}

static void test_encode(void)
{
    check_kind(ENCODE, 5);
}

static void test_act(void)
{
    check_kind(ACT, 1);
}

/* ---- the same traps in words, without the reference ---- */

static void test_nibble_order(void)
{
    unsigned char b[18] = {0x00, 0x3c, 0x10, 0x32, 0x54}; /* d = 1 */
    float x[32];
    CHECK(qw_decode(QW_Q4_0, b, x, 32));
    CHECK(x[0] == 0 - 8 && x[1] == 2 - 8 && x[2] == 4 - 8 && x[16] == 1 - 8 &&
          x[17] == 3 - 8);
}

static void test_q4_k_order(void)
{
    unsigned char b[144] = {0x00, 0x3c};
    float x[256];
    memset(b + 4, 1, 4); /* scales of sub-blocks 0..3 */
    for (int i = 0; i < 128; i++)
        b[16 + i] = (unsigned char)(i * 2);
    CHECK(qw_decode(QW_Q4_K, b, x, 256));
    CHECK(x[31] == (62 & 15) && x[32] == 0 && x[32 + 31] == 62 >> 4, "%g %g %g",
          (double)x[31], (double)x[32], (double)x[63]);
}

static void test_fifth_bits(void)
{
    for (int e = 0; e < 32; e++) {
        unsigned char b[22] = {0x00, 0x3c};
        float x[32];
        b[2 + e / 8] = (unsigned char)(1 << e % 8);
        CHECK(qw_decode(QW_Q5_0, b, x, 32));
        for (int i = 0; i < 32; i++)
            CHECK(x[i] == (i == e ? 0.0f : -16.0f), "bit %d, element %d", e, i);
    }
}

static void test_subnormal_scale(void)
{
    unsigned char b[34] = {0x01, 0x00, 1, 0xff};
    float x[32];
    CHECK(qw_decode(QW_Q8_0, b, x, 32));
    CHECK(x[0] == 0x1p-24f && x[1] == -0x1p-24f);
}

/* 0.5 of a step: the encoder of weights rounds it away from zero, activations to even. */
static void test_ties(void)
{
    float x[32] = {127.0f, 0.5f, -0.5f, 1.5f, 2.5f}, scale;
    unsigned char b[34];
    int8_t q[32];
    CHECK(qw_encode(QW_Q8_0, x, b, 32));
    CHECK((int8_t)b[3] == 1 && (int8_t)b[4] == -1 && (int8_t)b[5] == 2 &&
          (int8_t)b[6] == 3);
    qw_quant_act(x, q, &scale);
    CHECK(scale == 1.0f && q[1] == 0 && q[2] == 0 && q[3] == 2 && q[4] == 2 &&
          q[0] == 127);
}

static void test_zero_row(void)
{
    float x[32] = {0}, scale = 1.0f;
    int8_t q[32];
    unsigned char b[34];
    memset(q, 1, sizeof(q));
    qw_quant_act(x, q, &scale);
    CHECK(scale == 0.0f && q[0] == 0 && q[31] == 0);
    CHECK(qw_encode(QW_Q8_0, x, b, 32) && b[0] == 0 && b[1] == 0 && b[33] == 0);
}

/* ---- halves ---- */

/* What a half is, by its definition. */
static double half_value(unsigned h)
{
    int e = (int)(h >> 10 & 31), m = (int)(h & 0x3ff);
    double v = e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return h & 0x8000 ? -v : v;
}

static void test_all_halves(void)
{
    for (unsigned h = 0; h < 0x10000; h++) {
        float f = qw_half_to_float((uint16_t)h);
        if ((h & 0x7c00) == 0x7c00)
            CHECK(h & 0x3ff ? isnan(f) : isinf(f) && (f < 0) == (h >> 15), "%04x", h);
        else
            CHECK((double)f == half_value(h) && !signbit(f) == !(h >> 15), "%04x: %a", h,
                  (double)f);
        uint16_t back = qw_float_to_half(f);
        CHECK(isnan(f) ? (back & 0x7e00) == 0x7e00 : back == h, "%04x came back as %04x",
              h, back);
    }
}

/* Between two neighbours: below the middle, on it, above it. */
static void test_half_rounding(void)
{
    for (unsigned h = 0; h < 0x7bff; h++) {
        double lo = half_value(h), hi = half_value(h + 1);
        float mid = (float)((lo + hi) / 2);
        uint16_t even = (uint16_t)(h & 1 ? h + 1 : h);
        CHECK(qw_float_to_half(mid) == even, "%04x", h);
        CHECK(qw_float_to_half(nextafterf(mid, 0.0f)) == h, "below, %04x", h);
        CHECK(qw_float_to_half(nextafterf(mid, 1e9f)) == h + 1, "above, %04x", h);
        CHECK(qw_float_to_half(-mid) == (even | 0x8000), "negative, %04x", h);
    }
    CHECK(qw_float_to_half(65519.996f) == 0x7bff && qw_float_to_half(65520.0f) == 0x7c00);
    CHECK(qw_float_to_half(1e30f) == 0x7c00 && qw_float_to_half(-INFINITY) == 0xfc00);
    CHECK(qw_float_to_half(-0.0f) == 0x8000 && qw_float_to_half(0x1p-149f) == 0);
}

/* ---- numbers that are not finite, and sizes that do not fit ---- */

static void test_not_finite(void)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY, 0x1p-149f, 3e38f, -3e38f};
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
        for (int at = 0; at < 32; at += 31) {
            float x[32] = {0.5f, -2.0f, [31] = 3.0f}, scale;
            unsigned char b[128];
            int8_t q[32];
            x[at] = odd[i];
            CHECK(qw_encode(QW_Q8_0, x, b, 32) && qw_encode(QW_Q4_0, x, b, 32));
            CHECK(qw_encode(QW_F16, x, b, 32) && qw_encode(QW_BF16, x, b, 32));
            qw_quant_act(x, q, &scale);
            bool overflows = !(fabsf(odd[i]) <= 65519.0f * 127.0f);
            CHECK(isfinite(scale) == !overflows, "%g at %d: scale %g", (double)odd[i], at,
                  (double)scale);
            CHECK(isnan(scale) == isnan(odd[i]));
        }
    float tiny[32] = {0x1p-149f, -0x1p-149f}, scale;
    int8_t q[32];
    qw_quant_act(tiny, q, &scale); /* 127 / max|x| overflows */
    CHECK(scale == 0.0f && q[0] == 127 && q[1] == -127 && q[2] == 0);
}

static void test_bf16_nan(void)
{
    const uint32_t bits = 0x7f800001; /* cutting it off would leave an infinity */
    float x, y;
    unsigned char b[2];
    memcpy(&x, &bits, sizeof(x));
    CHECK(qw_encode(QW_BF16, &x, b, 1) && qw_decode(QW_BF16, b, &y, 1) && isnan(y));
}

static void test_refusals(void)
{
    float x[64] = {0};
    unsigned char b[400] = {0};
    CHECK(!qw_decode(QW_Q4_0, b, x, 31) && !qw_decode(10, b, x, 256) &&
          !qw_decode(4, b, x, 32));
    CHECK(!qw_decode(UINT32_MAX, b, x, 32));
    CHECK(!qw_encode(QW_Q6_K, x, b, 0) && !qw_encode(QW_Q8_0, x, b, 33));
    CHECK(!qw_encode(39, x, b, 32));
    CHECK(qw_decode(QW_Q4_K, b, x, 0));
}

static void test_table(void)
{
    static const uint32_t withdrawn[] = {4, 5, 31, 32, 33, 36, 37, 38, 43, 250};
    int decodes = 0, known = 0;
    for (size_t i = 0; i < sizeof(withdrawn) / sizeof(withdrawn[0]); i++)
        CHECK(qw_type_info(withdrawn[i]) == NULL, "%u", withdrawn[i]);
    for (uint32_t id = 0; id < 64; id++) {
        const struct qw_type_info *t = qw_type_info(id);
        if (t == NULL)
            continue;
        known++;
        decodes += t->decodes;
        CHECK(t->id == id && t->block > 0 && t->bytes > 0 && t->name[0] != '\0', "%u",
              id);
    }
    CHECK(decodes == 11 && known == 33, "%d of %d", decodes, known);
    const struct qw_type_info *q6 = qw_type_info(QW_Q6_K);
    CHECK(q6 && q6->block == 256 && q6->bytes == 210 && strcmp(q6->name, "Q6_K") == 0);
}

static void test_unload(void)
{
    free(golden);
}

QW_TESTS(T(test_load), T(test_decode), T(test_traps), T(test_encode), T(test_act),
         T(test_nibble_order), T(test_q4_k_order), T(test_fifth_bits),
         T(test_subnormal_scale), T(test_ties), T(test_zero_row), T(test_all_halves),
         T(test_half_rounding), T(test_not_finite), T(test_bf16_nan), T(test_refusals),
         T(test_table), T(test_unload))
