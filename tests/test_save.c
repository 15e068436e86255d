/* SPDX-License-Identifier: MIT */
/* test_save.c - the container of session files: what goes in comes out; a file that is
 * cut or changed anywhere is refused; a write that fails leaves the old file and nothing
 * else. */
#include "check.h"
#include "save.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hash.h"

static const struct qw_save_kind kind = {"QWTEST\r\n", "test file", 3, 0640};
static char dir[256], path[300];
static struct qw_err err;

static const char *section_text = "0123456789 and so on";

/* Three sections: one whole, one empty, one in a hundred pieces. */
static int write_small(const char *to, const char *text, struct qw_err *e)
{
    struct qw_save_writer *w = NULL;
    json_t *header = json_pack("{s:s, s:[i,i,i]}", "name", text, "list", 1, 2, 3);
    int rc = qw_save_create(&w, to, &kind, header, e);
    json_decref(header);
    if (rc == QW_OK)
        rc = qw_save_add(w, "one", section_text, strlen(section_text), e);
    if (rc == QW_OK)
        rc = qw_save_add(w, "empty", NULL, 0, e);
    if (rc == QW_OK)
        rc = qw_save_begin(w, "pieces", e);
    for (int i = 0; rc == QW_OK && i < 100; i++)
        rc = qw_save_append(w, &section_text[i % 7], (uint64_t)(i % 5), e);
    if (rc == QW_OK)
        rc = qw_save_end(w, e);
    if (rc == QW_OK)
        rc = qw_save_commit(w, e);
    qw_save_close_writer(w);
    return rc;
}

static int files_in(const char *folder)
{
    DIR *d = opendir(folder);
    int n = 0;
    MUST(d != NULL, "%s", folder);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static unsigned char *slurp(const char *from, size_t *size)
{
    struct stat st;
    FILE *f = fopen(from, "rb");
    MUST(f != NULL && fstat(fileno(f), &st) == 0, "%s", from);
    *size = (size_t)st.st_size;
    unsigned char *data = qw_alloc(*size + 1, 1);
    MUST(fread(data, 1, *size, f) == *size && fclose(f) == 0, "%s", from);
    return data;
}

static void spill(const char *to, const void *data, size_t size)
{
    FILE *f = fopen(to, "wb");
    MUST(f != NULL && fwrite(data, 1, size, f) == size && fclose(f) == 0, "%s", to);
}

/* A copy in a block of its own, so that a sanitizer sees a read past its end. */
static int parse_copy(const unsigned char *data, size_t size, const char *reason)
{
    struct qw_save_reader *r = NULL;
    unsigned char *copy = malloc(size > 0 ? size : 1);
    MUST(copy != NULL, "memory");
    memcpy(copy, data, size);
    err.msg[0] = '\0';
    const int rc = qw_save_parse(&r, "a\nfile", copy, size, &kind, &err);
    qw_save_close(r);
    free(copy);
    if (rc != QW_OK)
        CHECK(rc == QW_EFILE && strncmp(err.msg, "a\\x0afile: ", 11) == 0 &&
                  strchr(err.msg, '\n') == NULL && strstr(err.msg, reason) != NULL,
              "want '%s', got '%s'", reason, err.msg);
    return rc;
}

static void round_trip(void)
{
    struct qw_save_reader *r = NULL;
    struct stat st;
    const void *data = NULL;
    uint64_t bytes = 0;
    CHECK(write_small(path, "h\xc3\xa9", &err) == QW_OK, "%s", err.msg);
    CHECK(stat(path, &st) == 0 && (st.st_mode & 0777) == 0640, "mode %o", st.st_mode);
    CHECK(files_in(dir) == 1);
    MUST(qw_save_open(&r, path, &kind, &err) == QW_OK, "%s", err.msg);
    CHECK_STR(json_string_value(json_object_get(qw_save_header(r), "name")), "h\xc3\xa9");
    CHECK_STR(qw_save_name(r), path);
    CHECK(qw_save_n_sections(r) == 3);
    CHECK_STR(qw_save_section_name(r, 2), "pieces");
    CHECK(qw_save_section(r, "one", &data, &bytes, &err) == QW_OK);
    CHECK(bytes == 20 && memcmp(data, section_text, 20) == 0 &&
          (uintptr_t)data % 64 == 0);
    CHECK(qw_save_section(r, "empty", &data, &bytes, &err) == QW_OK && bytes == 0);
    CHECK(qw_save_section(r, "pieces", &data, &bytes, &err) == QW_OK && bytes == 200);
    CHECK(memcmp(data, "1233454567", 10) == 0);
    CHECK(qw_save_section(r, "two", &data, &bytes, &err) == QW_EFILE);
    CHECK(strstr(err.msg, "no section two") != NULL, "%s", err.msg);
    qw_save_close(r);
}

static void every_cut(void)
{
    size_t size;
    MUST(write_small(path, "x", &err) == QW_OK, "%s", err.msg);
    unsigned char *data = slurp(path, &size);
    CHECK(parse_copy(data, size, "") == QW_OK, "%s", err.msg);
    for (size_t n = 0; n < size; n++)
        CHECK(parse_copy(data, n, n == 0 ? "not a test file" : "cut at byte ") != QW_OK,
              "%zu of %zu bytes", n, size);
    CHECK(parse_copy(data, size + 1, "1 bytes follow its end") != QW_OK);
    free(data);
}

static void every_flip(void)
{
    size_t size;
    MUST(write_small(path, "x", &err) == QW_OK, "%s", err.msg);
    unsigned char *data = slurp(path, &size);
    for (size_t i = 0; i < size; i++)
        for (int bit = 0; bit < 8; bit++) {
            const char *reason = i < 8    ? "not a test file"
                                 : i < 16 ? "of another version"
                                 : i < 24 ? "byte"
                                          : "its checksum differs";
            data[i] ^= (unsigned char)(1 << bit);
            CHECK(parse_copy(data, size, reason) != QW_OK, "byte %zu, bit %d", i, bit);
            data[i] ^= (unsigned char)(1 << bit);
        }
    free(data);
}

/* ---- numbers that are wrong although the checksum is right ---- */

static void seal(unsigned char *data, size_t size)
{
    struct qw_hash *h = qw_hash_open();
    for (int i = 0; i < 8; i++)
        data[16 + i] = (unsigned char)((uint64_t)size >> 8 * i);
    qw_hash_add(h, data + 96, size - 96);
    qw_hash_add(h, data, 64);
    MUST(qw_hash_end(h, data + 64), "hash");
}

static void set64(unsigned char *at, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        at[i] = (unsigned char)(v >> 8 * i);
}

static uint64_t get64(const unsigned char *at)
{
    uint64_t v = 0;
    for (int i = 7; i >= 0; i--)
        v = v << 8 | at[i];
    return v;
}

static void hostile_at(const unsigned char *good, size_t size, size_t at, uint64_t v,
                       const char *reason)
{
    unsigned char *data = qw_alloc(size, 1);
    memcpy(data, good, size);
    set64(data + at, v);
    seal(data, size);
    CHECK(parse_copy(data, size, reason) != QW_OK, "%llu at %zu", (unsigned long long)v,
          at);
    free(data);
}

static void hostile(void)
{
    static const uint64_t odd[] = {0x7fffffff,         0xffffffff, 0x7fffffffffffffff,
                                   0xffffffffffffffff, 1ull << 63, 0xffffffffffffffc0};
    size_t size;
    MUST(write_small(path, "x", &err) == QW_OK, "%s", err.msg);
    unsigned char *good = slurp(path, &size);
    const size_t index = (size_t)get64(good + 32), second = index + 32;
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        hostile_at(good, size, 24, odd[i], "header");
        hostile_at(good, size, 32, odd[i], "no index of 3 sections");
        hostile_at(good, size, 40, odd[i], "no index of");
        for (size_t k = 0; k < 16; k += 8)
            hostile_at(good, size, second + k, odd[i], "names no place");
        hostile_at(good, size, second + 16, odd[i], "no index entry at byte");
    }
    hostile_at(good, size, 24, 3, "no JSON object");
    hostile_at(good, size, 32, size, "no index of 3 sections");
    hostile_at(good, size, 32, index + 1, "no index of 3 sections");
    hostile_at(good, size, 40, 2, "its index ends at byte");
    hostile_at(good, size, 40, 4, "no index");
    hostile_at(good, size, 48, 1, "zeros");
    hostile_at(good, size, second, get64(good + second) + 1, "names no place");
    hostile_at(good, size, second, 128, "names no place"); /* in the one before */
    hostile_at(good, size, second + 8, index, "names no place");
    hostile_at(good, size, second + 16, 0, "no index entry");
    hostile_at(good, size, second + 16, 65, "no index entry");
    hostile_at(good, size, second + 16, 6, "names no place"); /* a NUL in the name */
    hostile_at(good, size, second + 24, 0x656e6f, "names no place");
    free(good);
}

static void repeated_name(void)
{
    struct qw_save_writer *w;
    struct qw_save_reader *r = NULL;
    json_t *header = json_object();
    MUST(qw_save_create(&w, path, &kind, header, &err) == QW_OK, "%s", err.msg);
    MUST(qw_save_add(w, "a", "1", 1, &err) == QW_OK, "%s", err.msg);
    MUST(qw_save_add(w, "a", "2", 1, &err) == QW_OK, "%s", err.msg);
    MUST(qw_save_commit(w, &err) == QW_OK, "%s", err.msg);
    qw_save_close_writer(w);
    json_decref(header);
    CHECK(qw_save_open(&r, path, &kind, &err) == QW_EFILE);
    CHECK(strstr(err.msg, "is a repeat") != NULL, "%s", err.msg);
}

/* ---- files that are none, writes that fail ---- */

static void no_file(void)
{
    struct qw_save_reader *r = NULL;
    char fifo[300], none[300];
    snprintf(fifo, sizeof(fifo), "%s/fifo", dir);
    snprintf(none, sizeof(none), "%s/none", dir);
    MUST(mkfifo(fifo, 0600) == 0, "%s", fifo);
    CHECK(qw_save_open(&r, none, &kind, &err) == QW_EFILE);
    CHECK(strstr(err.msg, "No such file") != NULL, "%s", err.msg);
    CHECK(qw_save_open(&r, fifo, &kind, &err) == QW_EFILE);
    CHECK(strstr(err.msg, "not a regular file") != NULL, "%s", err.msg);
    CHECK(qw_save_open(&r, dir, &kind, &err) == QW_EFILE);
    spill(none, "", 0);
    CHECK(qw_save_open(&r, none, &kind, &err) == QW_EFILE);
    CHECK(strstr(err.msg, "not a test file") != NULL, "%s", err.msg);
    CHECK(write_small(fifo, "x", &err) == QW_EFILE &&
          strstr(err.msg, "not a regular file") != NULL);
    CHECK(write_small(dir, "x", &err) == QW_EFILE);
    unlink(fifo);
    unlink(none);
    snprintf(none, sizeof(none), "%s/no/folder", dir);
    CHECK(write_small(none, "x", &err) == QW_EFILE &&
          strstr(err.msg, "No such file") != NULL);
    CHECK(files_in(dir) == 1, "%d", files_in(dir));
    qw_save_close(NULL);
    qw_save_close_writer(NULL);
}

/* With every limit on the size of a file up to what it takes, the old file stays. */
static void full_disk(void)
{
    size_t size, old_size, now_size;
    struct rlimit whole;
    MUST(write_small(path, "the old one, a little longer", &err) == QW_OK, "%s", err.msg);
    unsigned char *old = slurp(path, &old_size);
    char other[300];
    snprintf(other, sizeof(other), "%s/other", dir);
    MUST(write_small(other, "new", &err) == QW_OK, "%s", err.msg);
    free(slurp(other, &size));
    unlink(other);
    signal(SIGXFSZ, SIG_IGN);
    MUST(getrlimit(RLIMIT_FSIZE, &whole) == 0, "getrlimit");
    for (size_t limit = 0; limit <= size;
         limit += limit < 16 || limit >= size - 16 ? 1 : 7) {
        const struct rlimit small = {limit, whole.rlim_max};
        MUST(setrlimit(RLIMIT_FSIZE, &small) == 0, "setrlimit");
        const int rc = write_small(path, "new", &err);
        MUST(setrlimit(RLIMIT_FSIZE, &whole) == 0, "setrlimit");
        if (limit == size) {
            CHECK(rc == QW_OK, "%zu bytes are enough: %s", size, err.msg);
            break;
        }
        CHECK(rc == QW_EFILE, "limit %zu", limit);
        CHECK(strstr(err.msg, "File too large") != NULL, "%s", err.msg);
        unsigned char *now = slurp(path, &now_size);
        CHECK(now_size == old_size && memcmp(now, old, old_size) == 0, "limit %zu",
              limit);
        CHECK(files_in(dir) == 1, "limit %zu", limit);
        free(now);
    }
    signal(SIGXFSZ, SIG_DFL);
    free(old);
}

static void given_up(void)
{
    struct qw_save_writer *w;
    json_t *header = json_object(), *array = json_array(), *bad = json_string("x");
    size_t size, now_size;
    MUST(write_small(path, "old", &err) == QW_OK, "%s", err.msg);
    unsigned char *old = slurp(path, &size);
    MUST(qw_save_create(&w, path, &kind, header, &err) == QW_OK, "%s", err.msg);
    CHECK(files_in(dir) == 2);
    CHECK(qw_save_add(w, "a", "1", 1, &err) == QW_OK);
    qw_save_close_writer(w);
    CHECK(files_in(dir) == 1);
    CHECK(qw_save_create(&w, path, &kind, bad, &err) == QW_EFILE);
    CHECK(qw_save_create(&w, path, &kind, array, &err) == QW_EFILE);
    CHECK(files_in(dir) == 1);
    unsigned char *now = slurp(path, &now_size);
    CHECK(now_size == size && memcmp(old, now, size) == 0);
    free(old);
    free(now);
    json_decref(header);
    json_decref(array);
    json_decref(bad);
}

int main(void)
{
    static const struct check_test all[] = {
        T(round_trip),    T(every_cut), T(every_flip), T(hostile),
        T(repeated_name), T(no_file),   T(full_disk),  T(given_up)};
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof(dir), "%s/qwenrun-save-XXXXXX", tmp != NULL ? tmp : "/tmp");
    MUST(mkdtemp(dir) != NULL, "%s", dir);
    snprintf(path, sizeof(path), "%s/file", dir);
    umask(022);
    const int rc = check_run(all, (int)(sizeof(all) / sizeof(all[0])));
    unlink(path);
    rmdir(dir);
    return rc;
}
