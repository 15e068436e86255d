/* SPDX-License-Identifier: MIT */
/* Pack files with a right checksum that are not to be used: another source, another
 * numbering of layouts, no numbering, a tensor missing, too short, or in another layout.
 */
#include "check.h"
#include "net_util.h"
#include "pack_file.h"

static struct qw_err err;
static const char source[] =
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
static const struct qw_save_kind kind = {
    .magic = "QWENPACK", .what = "pack file", .version = 1, .mode = 0666};
static char *path;

static void start(void)
{
    path = net_temp("a.qwpack");
}

static void done(void)
{
    free(path);
}

static void save(json_t *header, const char *section, size_t bytes)
{
    struct qw_save_writer *w;
    char *data = qw_alloc(bytes + 1, 1);
    MUST(qw_save_create(&w, path, &kind, header, &err) == QW_OK, "%s", err.msg);
    MUST(qw_save_add(w, section, data, bytes, &err) == QW_OK, "%s", err.msg);
    MUST(qw_save_commit(w, &err) == QW_OK, "%s", err.msg);
    qw_save_close_writer(w);
    json_decref(header);
    free(data);
}

static void refused(const char *why)
{
    struct qw_pack_file *p = NULL;
    struct qw_err e = {""};
    CHECK(qw_pack_open(&p, path, source, &e) == QW_EFILE && p == NULL);
    CHECK(strstr(e.msg, why) != NULL && strstr(e.msg, path) != NULL, "'%s' lacks '%s'",
          e.msg, why);
    qw_pack_close(p);
}

static void headers(void)
{
    char other[65];
    memcpy(other, source, sizeof(other));
    other[63] = 'e';
    save(json_pack("{s:s, s:i}", "source_sha256", other, "layouts", 1), "q4_0 a", 64);
    refused("another model file");
    save(json_pack("{s:i}", "layouts", 1), "q4_0 a", 64);
    refused("another model file");
    save(json_pack("{s:i, s:i}", "source_sha256", 5, "layouts", 1), "q4_0 a", 64);
    refused("another model file");
    save(json_pack("{s:s, s:i}", "source_sha256", source, "layouts", QW_PACK_NUMBER + 1),
         "q4_0 a", 64);
    refused("layouts");
    save(json_pack("{s:s, s:s}", "source_sha256", source, "layouts", "1"), "q4_0 a", 64);
    refused("layouts");
    save(json_pack("{s:s}", "source_sha256", source), "q4_0 a", 64);
    refused("layouts");
}

static void sections(void)
{
    struct qw_pack_file *p;
    const struct qw_str a = {"a", 1}, b = {"b", 1},
                        longest = {source, sizeof(source) - 1};
    save(json_pack("{s:s, s:i}", "source_sha256", source, "layouts", QW_PACK_NUMBER),
         "q4_0 a", 640);
    MUST(qw_pack_open(&p, path, source, &err) == QW_OK, "%s", err.msg);
    CHECK(qw_pack_tensor(p, QW_L_Q4_0, a, 640) != NULL);
    CHECK(qw_pack_tensor(p, QW_L_Q4_0, a, 639) == NULL);
    CHECK(qw_pack_tensor(p, QW_L_Q4_0, a, 641) == NULL);
    CHECK(qw_pack_tensor(p, QW_L_Q4_1, a, 640) == NULL);
    CHECK(qw_pack_tensor(p, QW_L_Q4_0, b, 640) == NULL);
    CHECK(qw_pack_tensor(p, QW_L_Q4_0, longest, 640) == NULL);
    qw_pack_close(p);
}

/* A good pack of the shipped model, and one that lacks its last tensor. */
static void models(void)
{
    struct qw_gguf *g;
    struct qw_model *m;
    struct qw_save_writer *w;
    struct qw_pack_file *p;
    char *file = net_source("models/tiny/tiny-qwen35-q4_0.gguf");
    MUST(qw_gguf_open(&g, file, &err) == QW_OK, "%s", err.msg);
    MUST(qw_model_plan(&m, g, 1 << 20, false, &err) == QW_OK, "%s", err.msg);
    MUST(qw_pack_create(&w, path, source, &err) == QW_OK, "%s", err.msg);
    MUST(qw_model_pack(m, &(struct qw_kern){0}, w, false, &err) == QW_OK, "%s", err.msg);
    MUST(qw_save_commit(w, &err) == QW_OK, "%s", err.msg);
    qw_save_close_writer(w);
    MUST(qw_pack_open(&p, path, source, &err) == QW_OK, "%s", err.msg);
    CHECK(qw_model_packed(m, &(struct qw_kern){0}, p, &err) == QW_OK, "%s", err.msg);
    qw_pack_close(p);
    save(json_pack("{s:s, s:i}", "source_sha256", source, "layouts", QW_PACK_NUMBER),
         "q4_0 a", 640);
    MUST(qw_pack_open(&p, path, source, &err) == QW_OK, "%s", err.msg);
    CHECK(qw_model_packed(m, &(struct qw_kern){0}, p, &err) == QW_EFILE);
    CHECK(strstr(err.msg, "token_embd.weight") != NULL, "'%s'", err.msg);
    qw_pack_close(p);
    qw_model_close(m);
    qw_gguf_close(g);
    free(file);
}

QW_TESTS(T(start), T(headers), T(sections), T(models), T(done))
