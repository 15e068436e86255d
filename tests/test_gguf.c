/* SPDX-License-Identifier: MIT */
/* test_gguf.c - the container: what is read, and that each broken file is refused for its
 * own fault, without memory and without delay. */
#include "gguf.h"

#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "ggufw.h"
#include "hparams.h"

#if defined(__SANITIZE_ADDRESS__)
#define UNDER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UNDER_ASAN 1
#endif
#endif

static char dir[4096], file[4200];
static struct qw_err err;

static const char *src(const char *path)
{
    static char name[4096];
    const char *top = getenv("srcdir");
    snprintf(name, sizeof(name), "%s/%s", top ? top : ".", path);
    return name;
}

/* Open what w describes; NULL and a message in err when it is refused. */
static struct qw_gguf *open_written(struct ggufw *w, int64_t more)
{
    struct qw_gguf *g = NULL;
    gw_write(w, file, more);
    gw_free(w);
    err.msg[0] = '\0';
    int rc = qw_gguf_open(&g, file, &err);
    CHECK(rc == (g ? QW_OK : QW_EFILE), "code %d", rc);
    return g;
}

static void refused(struct ggufw *w, int64_t more, const char *why)
{
    struct qw_gguf *g = open_written(w, more);
    CHECK(g == NULL, "accepted, should say: %s", why);
    CHECK(strstr(err.msg, why) != NULL, "'%s' does not say '%s'", err.msg, why);
    CHECK(strncmp(err.msg, file, strlen(file)) == 0, "no file in '%s'", err.msg);
    qw_gguf_close(g);
}

/* ---- what is read ---- */

static void fill_keys(struct ggufw *w)
{
    const int32_t three[] = {-1, 2, INT32_MAX};
    const uint8_t flags[] = {0, 1, 7};
    gw_key(w, "u8", QW_GGUF_U8, "\xff", 1);
    gw_key(w, "i8", QW_GGUF_I8, "\xff", 1);
    gw_key(w, "u16", QW_GGUF_U16, "\xff\xff", 2);
    gw_key(w, "i16", QW_GGUF_I16, "\xff\xff", 2);
    gw_key(w, "u32", QW_GGUF_U32, "\xff\xff\xff\xff", 4);
    gw_key(w, "i32", QW_GGUF_I32, "\xff\xff\xff\xff", 4);
    gw_key(w, "u64", QW_GGUF_U64, "\xff\xff\xff\xff\xff\xff\xff\xff", 8);
    gw_key(w, "i64", QW_GGUF_I64, "\xff\xff\xff\xff\xff\xff\xff\xff", 8);
    gw_key(w, "true", QW_GGUF_BOOL, "\x02", 1);
    gw_key_f32(w, "f32", 0.5f);
    gw_key(w, "f64", QW_GGUF_F64, &(double){0.1}, 8);
    gw_key_str(w, "text", "a\nb");
    gw_key_str(w, "empty", "");
    gw_key_arr(w, "three", QW_GGUF_I32, 3, three, sizeof(three));
    gw_key_arr(w, "flags", QW_GGUF_BOOL, 3, flags, sizeof(flags));
    gw_key_arr(w, "none", QW_GGUF_U64, 0, NULL, 0);
    gw_key_arr(w, "words", QW_GGUF_STR, 2, NULL, 0);
    gw_str(&w->keys, "one");
    gw_str(&w->keys, "");
}

static struct qw_gguf *open_keys(void)
{
    struct ggufw w;
    gw_init(&w);
    fill_keys(&w);
    struct qw_gguf *g = open_written(&w, 0);
    MUST(g != NULL, "%s", err.msg);
    return g;
}

static void test_integers(void)
{
    static const struct {
        const char *name;
        int64_t want;
    } rows[] = {{"u8", 255}, {"i8", -1},          {"u16", 65535}, {"i16", -1},
                {"i32", -1}, {"u32", UINT32_MAX}, {"i64", -1},    {"u64", INT64_MAX}};
    struct qw_gguf *g = open_keys();
    int64_t v, seven = 7;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        CHECK(qw_gguf_int(g, rows[i].name, NULL, INT64_MIN, INT64_MAX, &v, &err) == QW_OK,
              "%s", err.msg);
        CHECK(v == rows[i].want, "%s: %lld", rows[i].name, (long long)v);
    }
    v = 1;
    CHECK(qw_gguf_int(g, "u64", NULL, 0, 100, &v, &err) == QW_EFILE && v == 1);
    CHECK(strstr(err.msg, "'u64'") != NULL && strstr(err.msg, "0 to 100") != NULL, "%s",
          err.msg);
    CHECK(qw_gguf_int(g, "absent", &seven, 0, 1, &v, &err) == QW_OK && v == 7);
    CHECK(qw_gguf_int(g, "absent", NULL, 0, 1, &v, &err) == QW_EFILE);
    CHECK(strstr(err.msg, "key 'absent' is missing") != NULL, "%s", err.msg);
    CHECK(qw_gguf_int(g, "three", &seven, 0, 9, &v, &err) == QW_EFILE);
    CHECK(strstr(err.msg, "array of i32") && strstr(err.msg, "integer"), "%s", err.msg);
    CHECK(qw_gguf_int(g, "true", &seven, 0, 9, &v, &err) == QW_EFILE);
    qw_gguf_close(g);
}

static void test_other_scalars(void)
{
    struct qw_gguf *g = open_keys();
    double x, half = 0.25;
    bool b;
    struct qw_str s;
    CHECK(qw_gguf_float(g, "f32", NULL, &x, &err) == QW_OK && x == 0.5);
    CHECK(qw_gguf_float(g, "f64", NULL, &x, &err) == QW_OK && x == 0.1);
    CHECK(qw_gguf_float(g, "absent", &half, &x, &err) == QW_OK && x == 0.25);
    CHECK(qw_gguf_float(g, "absent", NULL, &x, &err) == QW_EFILE);
    CHECK(qw_gguf_float(g, "u32", NULL, &x, &err) == QW_EFILE);
    CHECK(strstr(err.msg, "u32") && strstr(err.msg, "f32 or f64"), "%s", err.msg);
    CHECK(qw_gguf_bool(g, "true", false, &b, &err) == QW_OK && b);
    CHECK(qw_gguf_bool(g, "absent", true, &b, &err) == QW_OK && b);
    CHECK(qw_gguf_bool(g, "u8", true, &b, &err) == QW_EFILE);
    CHECK(qw_gguf_string(g, "text", &s, &err) == QW_OK && s.len == 3);
    CHECK(memcmp(s.data, "a\nb", 3) == 0);
    CHECK(qw_gguf_string(g, "empty", &s, &err) == QW_OK && s.len == 0);
    CHECK(qw_gguf_string(g, "u8", &s, &err) == QW_EFILE);
    CHECK(strstr(err.msg, "has type u8, must be string"), "%s", err.msg);
    qw_gguf_close(g);
}

static void test_arrays(void)
{
    struct qw_gguf *g = open_keys();
    const struct qw_gguf_key *k = qw_gguf_find(g, "three");
    MUST(k != NULL, "three");
    CHECK(k->type == QW_GGUF_ARR && k->elem == QW_GGUF_I32 && k->count == 3);
    CHECK(qw_gguf_elem_int(k, 0) == -1 && qw_gguf_elem_int(k, 2) == INT32_MAX);
    k = qw_gguf_find(g, "flags");
    CHECK(k && qw_gguf_elem_int(k, 0) == 0 && qw_gguf_elem_int(k, 2) == 1);
    k = qw_gguf_find(g, "f32");
    CHECK(k && k->count == 1 && qw_gguf_elem_int(k, 0) == 0);
    k = qw_gguf_find(g, "none");
    CHECK(k && k->count == 0);
    k = qw_gguf_find(g, "words");
    MUST(k != NULL, "words");
    const unsigned char *pos = k->data;
    struct qw_str s = qw_gguf_next_string(&pos);
    CHECK(s.len == 3 && memcmp(s.data, "one", 3) == 0);
    CHECK(qw_gguf_next_string(&pos).len == 0);
    CHECK(qw_gguf_find(g, "") == NULL && qw_gguf_find(g, "thre") == NULL);
    CHECK(qw_gguf_n_keys(g) == 17 && qw_gguf_key_at(g, 17) == NULL);
    CHECK(qw_gguf_key_at(g, 13) == qw_gguf_find(g, "three"));
    CHECK_STR(qw_gguf_type_name(QW_GGUF_F64), "f64");
    CHECK_STR(qw_gguf_type_name((enum qw_gguf_type)99), "unknown");
    qw_gguf_close(g);
}

/* Alignment a, version v: each tensor where it belongs. */
static void check_places(uint32_t version, uint32_t align, int64_t more)
{
    struct ggufw w;
    gw_init(&w);
    w.version = version;
    w.align = align;
    if (align != 32)
        gw_key_u32(&w, "general.alignment", align);
    gw_tensor(&w, "a", QW_F32, 5, 1);
    gw_tensor(&w, "b", QW_Q6_K, 512, 3);
    gw_tensor(&w, "c", QW_Q8_0, 32, 2);
    uint64_t padded = (68 + align - 1) / align * align;
    struct qw_gguf *g = open_written(&w, more - (int64_t)(padded - 68));
    MUST(g != NULL, "%s", err.msg);
    const struct qw_gguf_tensor *a = qw_gguf_tensor(g, "a"), *b = qw_gguf_tensor(g, "b"),
                                *c = qw_gguf_tensor(g, "c");
    MUST(a && b && c, "tensors");
    CHECK(qw_gguf_version(g) == version);
    CHECK(a->size == 20 && b->size == 1260 && c->size == 68);
    CHECK((uintptr_t)a->data % align == 0); /* the mapping begins a page */
    CHECK((uintptr_t)b->data - (uintptr_t)a->data == (20 + align - 1) / align * align);
    CHECK((uintptr_t)c->data - (uintptr_t)b->data == (1260 + align - 1) / align * align);
    CHECK(b->n_dims == 2 && b->ne[0] == 512 && b->ne[1] == 3 && b->ne[2] == 1 &&
          b->ne[3] == 1);
    CHECK(qw_gguf_n_tensors(g) == 3 && qw_gguf_tensor_at(g, 2) == c &&
          qw_gguf_tensor_at(g, 3) == NULL);
    qw_gguf_close(g);
}

static void test_places(void)
{
    static const uint32_t aligns[] = {8, 32, 64, 4096};
    for (size_t i = 0; i < sizeof(aligns) / sizeof(aligns[0]); i++) {
        check_places(3, aligns[i], 0);
        check_places(2, aligns[i], 0);
        check_places(3, aligns[i], 1000); /* bytes behind the end are nobody's */
    }
}

static void test_no_tensors(void)
{
    struct ggufw w;
    gw_init(&w);
    struct qw_gguf *g = open_written(&w, -8); /* 24 bytes, without the padding */
    MUST(g != NULL, "%s", err.msg);
    CHECK(qw_gguf_n_keys(g) == 0 && qw_gguf_n_tensors(g) == 0);
    CHECK(qw_gguf_find(g, "x") == NULL && qw_gguf_tensor(g, "x") == NULL);
    qw_gguf_close(g);
}

/* Sizes beyond 2^32, in a file that is one hole. */
static void test_giant(void)
{
    struct ggufw w;
    gw_init(&w);
    gw_tensor(&w, "head", QW_Q6_K, 5120, 248320);
    gw_tensor(&w, "wide", QW_F32, 5120, 248320);
    gw_tensor(&w, "last", QW_F32, 4, 1);
    struct qw_gguf *g = open_written(&w, 0);
    MUST(g != NULL, "%s", err.msg);
    const struct qw_gguf_tensor *wide = qw_gguf_tensor(g, "wide"),
                                *last = qw_gguf_tensor(g, "last");
    CHECK(qw_gguf_tensor(g, "head")->size == UINT64_C(1042944000));
    CHECK(wide->size == UINT64_C(5085593600));
    CHECK((uintptr_t)last->data - (uintptr_t)wide->data == UINT64_C(5085593600));
    CHECK(((const unsigned char *)last->data)[15] == 0);
    qw_gguf_release_pages(g, wide->data, wide->size);
    qw_gguf_release_pages(g, last->data, UINT64_MAX);
    CHECK(((const unsigned char *)wide->data)[4096] == 0);
    qw_gguf_close(g);
}

static void test_unchanged(void)
{
    struct ggufw w;
    gw_init(&w);
    gw_tensor(&w, "a", QW_F32, 4096, 1);
    struct qw_gguf *g = open_written(&w, 0);
    MUST(g != NULL, "%s", err.msg);
    CHECK(qw_gguf_unchanged(g, &err) == QW_OK, "%s", err.msg);
    CHECK_STR(qw_gguf_path(g), file);
    CHECK(qw_gguf_file_size(g) > 4 * 4096);
    MUST(truncate(file, 100) == 0, "%s", file);
    CHECK(qw_gguf_unchanged(g, &err) == QW_EFILE);
    CHECK(strstr(err.msg, "changed while it was read") && strstr(err.msg, "100"), "%s",
          err.msg);
    qw_gguf_close(g);
}

/* ---- what is refused ---- */

static void test_bad_alignment(void)
{
    static const uint32_t wrong[] = {0, 1, 4, 48, 1 << 21, UINT32_MAX};
    struct ggufw w;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        gw_init(&w);
        gw_key_u32(&w, "general.alignment", wrong[i]);
        refused(&w, 0, "'general.alignment'");
    }
    gw_init(&w);
    gw_key(&w, "general.alignment", QW_GGUF_U64, &(uint64_t){64}, 8);
    refused(&w, 0, "has type u64, must be u32");
}

static void bad_offset(uint64_t offset, const char *why)
{
    struct ggufw w;
    const uint64_t ne[] = {16};
    gw_init(&w);
    gw_tensor(&w, "a", QW_F32, 16, 1);
    gw_tensor_at(&w, "b", QW_F32, 1, ne, offset);
    refused(&w, 256, why);
}

static void test_bad_offsets(void)
{
    bad_offset(32, "overlaps");
    bad_offset(0, "overlaps");
    bad_offset(65, "multiple of the alignment");
    bad_offset(96, "gap");
    bad_offset(1 << 20, "outside the file");
    bad_offset(UINT64_MAX - 31, "outside the file"); /* 2^64 - 32: the end wraps to 32 */
}

static void test_cut_data(void)
{
    struct ggufw w;
    gw_init(&w);
    gw_tensor(&w, "a", QW_F32, 16, 1);
    gw_tensor(&w, "b", QW_F32, 16, 1);
    refused(&w, -1, "tensor 'b': its data are cut short");
    gw_init(&w);
    gw_tensor(&w, "a", QW_F32, 16, 1);
    gw_tensor(&w, "b", QW_F32, 16, 1);
    refused(&w, -100, "tensor 'a'");
    CHECK(strstr(err.msg, "100 are missing") != NULL, "%s", err.msg);
}

/* Counts that are wrong in a way of their own: past the limits of the reader in a file
 * with room for them (a hole), and just past the end of a small one. */
static void test_counts(void)
{
    static const struct {
        uint64_t keys, tensors;
        int64_t room;
        const char *why;
    } rows[] = {{3, 0, 8, "it says 3 keys, but"},
                {0, 2, 40, "it says 2 tensors, but"},
                {65537, 0, 1 << 24, "at most 65536 keys"},
                {0, 65537, 1 << 24, "at most 65536 tensors"}};
    struct ggufw w;
    const uint64_t many = (UINT64_C(1) << 40) + 1;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        gw_init(&w);
        w.n_keys = rows[i].keys;
        w.n_tensors = rows[i].tensors;
        refused(&w, rows[i].room, rows[i].why);
    }
    gw_init(&w);
    gw_tensor_at(&w, "t", QW_F32, 1, &many, 0);
    refused(&w, 64, "more than 2^40 elements");
    gw_init(&w);
    gw_key_arr(&w, "x", QW_GGUF_U8, (1 << 30) + 1, NULL, 0);
    refused(&w, INT64_C(1) << 31, "at most 2^30 elements");
    gw_init(&w);
    gw_key(&w, "x", QW_GGUF_STR, &(uint64_t){(1 << 30) + 1}, 8);
    refused(&w, INT64_C(1) << 31, "said to have 1073741825 bytes");
}

static void test_split(void)
{
    struct ggufw w;
    gw_init(&w);
    gw_key(&w, "split.no", QW_GGUF_U16, "\1\0", 2);
    gw_key(&w, "split.count", QW_GGUF_U16, "\3\0", 2);
    refused(&w, 0, "'split.count': part 2 of a model in 3 files");
    gw_init(&w);
    gw_key(&w, "split.count", QW_GGUF_U16, "\1\0", 2);
    struct qw_gguf *g = open_written(&w, 0);
    CHECK(g != NULL, "%s", err.msg);
    qw_gguf_close(g);
}

static void test_bad_entries(void)
{
    static const struct {
        uint32_t type;
        uint64_t ne0;
        const char *why;
    } types[] = {{31, 32, "type 31"},    {33, 32, "type 33"},
                 {36, 32, "type 36"},    {5, 32, "type 5"},
                 {41, 32, "type 41"},    {UINT32_MAX, 32, "type 4294967295"},
                 {QW_Q8_0, 33, "whole"}, {QW_F32, 0, "zero"}};
    struct ggufw w;
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        gw_init(&w);
        gw_tensor_at(&w, "t", types[i].type, 1, &types[i].ne0, 0);
        refused(&w, 4096, types[i].why);
        CHECK(strstr(err.msg, "tensor 't'") != NULL, "%s", err.msg);
    }
    gw_init(&w);
    gw_tensor_at(&w, "t", QW_F32, 0, NULL, 0);
    refused(&w, 64, "0 dimensions");
    gw_init(&w);
    gw_tensor(&w, "", QW_F32, 4, 1);
    refused(&w, 64, "name has 0 bytes");
    gw_init(&w);
    gw_tensor(&w, "1234567890123456789012345678901234567890123456789012345678901234",
              QW_F32, 4, 1);
    refused(&w, 64, "name has 64 bytes");
    gw_init(&w);
    gw_key_u32(&w, "", 1);
    refused(&w, 64, "name has 0 bytes");
    gw_init(&w);
    gw_key_u32(&w, "x\033[31m", 1);
    gw_key_u32(&w, "x\033[31m", 2);
    refused(&w, 64, "'x\\x1b[31m' is there twice");
}

/* Cut after every byte of the header: refused each time, nothing read behind the end. */
static void test_every_cut(void)
{
    struct ggufw w;
    struct qw_buf head = {0};
    gw_init(&w);
    fill_keys(&w);
    gw_tensor(&w, "a", QW_Q4_K, 256, 2);
    gw_head(&w, &head);
    size_t used = 24 + w.keys.len + w.infos.len;
    gw_free(&w);
    for (size_t n = 0; n < used; n++) {
        struct qw_gguf *g = NULL;
        FILE *f = fopen(file, "wb");
        MUST(f != NULL && fwrite(head.data, 1, n, f) == n && fclose(f) == 0, "%s", file);
        CHECK(qw_gguf_open(&g, file, &err) == QW_EFILE, "cut at %zu", n);
        qw_gguf_close(g);
    }
    qw_buf_free(&head);
}

static void test_no_file(void)
{
    struct qw_gguf *g = NULL;
    char long_path[6000];
    CHECK(qw_gguf_open(&g, "no/such/file.gguf", &err) == QW_EFILE && g == NULL);
    CHECK(strstr(err.msg, "no/such/file.gguf: cannot open it: No such file"), "%s",
          err.msg);
    CHECK(qw_gguf_open(&g, dir, &err) == QW_EFILE && strstr(err.msg, "regular"), "%s",
          err.msg);
    memset(long_path, 'a', sizeof(long_path) - 1);
    long_path[sizeof(long_path) - 1] = '\0';
    CHECK(qw_gguf_open(&g, long_path, &err) == QW_EFILE && strstr(err.msg, "too long"),
          "%s", err.msg);
    unlink(file);
    MUST(mkfifo(file, 0600) == 0, "%s", file);
    CHECK(qw_gguf_open(&g, file, &err) == QW_EFILE, "a pipe was read");
    unlink(file);
    qw_gguf_close(NULL);
}

/* Of this process: a busy machine does not make a reader slow. */
static double cpu_seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

/* 60,000 keys: names are found and compared by hash, so this is quick. */
static void test_many(void)
{
    struct ggufw w;
    char name[32];
    gw_init(&w);
    for (int i = 0; i < 60000; i++) {
        snprintf(name, sizeof(name), "some.key.%d", i);
        gw_key_u32(&w, name, (uint32_t)i);
    }
    const double start = cpu_seconds();
    struct qw_gguf *g = open_written(&w, 0);
    MUST(g != NULL, "%s", err.msg);
    for (int i = 0; i < 60000; i++) {
        int64_t v = -1;
        snprintf(name, sizeof(name), "some.key.%d", i);
        CHECK(qw_gguf_int(g, name, NULL, 0, 60000, &v, &err) == QW_OK && v == i, "%s",
              name);
    }
    CHECK(cpu_seconds() - start < 1.0, "%.2f s", cpu_seconds() - start);
    qw_gguf_close(g);
}

/* ---- the shipped cases ---- */

static const struct {
    const char *name;
    const char *why[3]; /* words of the message */
    bool parses;        /* the container is good, the model is not */
} cases[] = {
    {"g00-control", {"tensor 'blk.0.attn_norm.weight' is missing"}, true},
    {"g01-empty", {"0 bytes", "too short"}, false},
    {"g02-magic-only", {"4 bytes", "too short"}, false},
    {"g03-wrong-magic", {"byte 0", "GGML"}, false},
    {"g04-version-99", {"byte 4", "version 99"}, false},
    {"g05-version-big-endian", {"byte 4", "big-endian"}, false},
    {"g06-header-cut-at-20", {"20 bytes", "too short"}, false},
    {"g07-nkv-huge", {"header", "9223372036854775807 keys"}, false},
    {"g08-ntensors-huge", {"header", "2305843009213693952 tensors"}, false},
    {"g09-key-length-max", {"key 0 at byte 24", "18446744073709551615 bytes"}, false},
    {"g10-string-says-1GiB", {"key 'x'", "1073741824 bytes"}, false},
    {"g11-array-count-wraps", {"key 'x'", "2305843009213693952 elements of u64"}, false},
    {"g12-array-nested-1000", {"key 'x'", "array of arrays"}, false},
    {"g13-kv-type-99", {"key 'x'", "type 99"}, false},
    {"g14-ndims-9", {"'token_embd.weight'", "9 dimensions"}, false},
    {"g15-ndims-max", {"'token_embd.weight'", "4294967295 dimensions"}, false},
    {"g16-dims-product-wraps", {"'token_embd.weight'", "2^40"}, false},
    {"g17-dim-zero", {"'token_embd.weight'", "dimension 1 is zero"}, false},
    {"g18-tensor-type-250", {"'token_embd.weight'", "type 250"}, false},
    {"g19-tensor-type-4-withdrawn", {"'token_embd.weight'", "type 4"}, false},
    {"g20-row-not-whole-blocks", {"'token_embd.weight'", "row of 100", "256"}, false},
    {"g21-offset-past-end", {"'token_embd.weight'", "1099511627776", "outside"}, false},
    {"g22-offset-not-aligned", {"'token_embd.weight'", "offset 4", "alignment"}, false},
    {"g23-tensors-overlap", {"'output_norm.weight'", "offset 1024", "overlaps"}, false},
    {"g24-tensor-twice", {"tensor 'token_embd.weight'", "twice"}, false},
    {"g25-key-twice", {"key 'qwen35.block_count'", "twice"}, false},
    {"g26-architecture-is-a-number", {"'general.architecture'", "u32", "string"}, true},
    {"g27-tokens-are-numbers", {"'tokenizer.ggml.tokens'", "u32", "string"}, true},
    {"g28-data-cut-short", {"'output_norm.weight'", "100 are missing"}, false},
    {"g29-tensor-name-70000", {"tensor 0", "70000 bytes"}, false},
    {"g30-key-not-utf8", {"key 26", "zero byte", "a\\xff\\x00b\\x0a\\x1b[31m"}, false},
    {"g31-block-count-zero", {"'qwen35.block_count'", "0 is out of range"}, true},
    {"g32-block-count-max", {"'qwen35.block_count'", "4294967295 is out of range"}, true},
    {"g33-block-count-is-text", {"'qwen35.block_count'", "string", "integer"}, true},
    {"g34-other-architecture", {"'general.architecture'", "llama", "qwen35"}, true},
};
enum { N_CASES = sizeof(cases) / sizeof(cases[0]) };

static void check_case(int i)
{
    struct qw_gguf *g = NULL;
    struct qw_hparams hp;
    char path[128];
    snprintf(path, sizeof(path), "tests/cases/gguf/%s.gguf", cases[i].name);
    err.msg[0] = '\0';
    const double start = cpu_seconds();
    int rc = qw_gguf_open(&g, src(path), &err);
    CHECK((rc == QW_OK) == cases[i].parses, "%s: code %d: %s", cases[i].name, rc,
          err.msg);
    if (rc == QW_OK)
        rc = qw_hparams_read(g, &hp, &err);
    CHECK(rc == QW_EFILE, "%s: code %d", cases[i].name, rc);
    CHECK(cpu_seconds() - start < 1.0, "%s: %.2f s", cases[i].name,
          cpu_seconds() - start);
    for (int w = 0; w < 3 && cases[i].why[w] != NULL; w++)
        CHECK(strstr(err.msg, cases[i].why[w]) != NULL, "%s: '%s' lacks '%s'",
              cases[i].name, err.msg, cases[i].why[w]);
    CHECK(strstr(err.msg, cases[i].name) != NULL, "no file in '%s'", err.msg);
    for (const char *p = err.msg; *p; p++)
        CHECK((unsigned char)*p >= 0x20 && *p != 0x7f, "%s: byte %d", cases[i].name, *p);
    qw_gguf_close(g);
}

static void test_cases(void)
{
    for (int i = 0; i < N_CASES; i++)
        check_case(i);
}

static void test_control(void)
{
    struct qw_gguf *g = NULL;
    int rc = qw_gguf_open(&g, src("tests/cases/gguf/g00-control.gguf"), &err);
    MUST(rc == QW_OK, "%s", err.msg);
    CHECK(qw_gguf_n_keys(g) == 26 && qw_gguf_n_tensors(g) == 2);
    const struct qw_gguf_key *k = qw_gguf_find(g, "tokenizer.ggml.tokens");
    CHECK(k && k->count == 262 && k->elem == QW_GGUF_STR);
    qw_gguf_close(g);
}

/* All of them again with hardly any memory to be had: nothing is sized by what a file
 * says. */
static void test_little_memory(void)
{
#ifdef UNDER_ASAN
    printf("  left out: the sanitizer itself needs the address space\n");
#else
    pid_t child = fork();
    MUST(child >= 0, "fork");
    if (child == 0) {
        struct rlimit limit = {32 << 20, 32 << 20};
        MUST(setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit");
        test_cases();
        _exit(check_now);
    }
    int status;
    MUST(waitpid(child, &status, 0) == child, "waitpid");
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %d", status);
#endif
}

static void test_setup(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof(dir), "%s/qw_gguf_XXXXXX", tmp && *tmp ? tmp : P_tmpdir);
    MUST(mkdtemp(dir) != NULL, "%s", dir);
    snprintf(file, sizeof(file), "%s/t.gguf", dir);
}

static void test_clean_up(void)
{
    unlink(file);
    CHECK(rmdir(dir) == 0, "%s", dir);
}

QW_TESTS(T(test_setup), T(test_integers), T(test_other_scalars), T(test_arrays),
         T(test_places), T(test_no_tensors), T(test_giant), T(test_unchanged),
         T(test_bad_alignment), T(test_bad_offsets), T(test_cut_data), T(test_counts),
         T(test_split), T(test_bad_entries), T(test_every_cut), T(test_many),
         T(test_control), T(test_cases), T(test_little_memory), T(test_no_file),
         T(test_clean_up))
