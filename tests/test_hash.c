/* SPDX-License-Identifier: MIT */
/* test_hash.c - SHA-256 of files and the cache of hashes. */
#include "check.h"
#include "hash.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char dir[256], file[300], cache[300], hex[65];

static void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    MUST(f != NULL && fputs(text, f) >= 0 && fclose(f) == 0, "%s", path);
}

static void known_answer(void)
{
    put(file, "abc"); /* FIPS 180-2, appendix B.1 */
    CHECK(qw_hash_file(file, NULL, false, hex));
    CHECK_STR(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    CHECK(!qw_hash_file("/nonexistent/file", NULL, false, hex));
    CHECK(!qw_hash_file(dir, NULL, false, hex)); /* a folder cannot be read */
}

static void only_known(void)
{
    put(file, "abc");
    unlink(cache);
    CHECK(!qw_hash_file(file, cache, true, hex));
    CHECK(qw_hash_file(file, cache, false, hex));
    memset(hex, 0, sizeof(hex));
    CHECK(qw_hash_file(file, cache, true, hex));
    CHECK_STR(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

/* The cache is believed for the very file alone: another time or size is another file. */
static void changed_file(void)
{
    put(file, "abc");
    CHECK(qw_hash_file(file, cache, false, hex));
    const struct timespec t[2] = {{0, 0}, {1000000, 5}};
    utimensat(AT_FDCWD, file, t, 0);
    CHECK(!qw_hash_file(file, cache, true, hex));
    put(file, "abcd");
    utimensat(AT_FDCWD, file, t, 0);
    CHECK(!qw_hash_file(file, cache, true, hex));
}

static void bad_cache(void)
{
    put(file, "abc");
    put(cache, "no hash here\n\n1:2:3 abc\n");
    CHECK(!qw_hash_file(file, cache, true, hex));
    CHECK(qw_hash_file(file, cache, false, hex));
    CHECK(qw_hash_file(file, cache, true, hex));
    char *nowhere =
        qw_sprintf("%s/folder/cache", file);        /* below a file that is no folder */
    CHECK(qw_hash_file(file, nowhere, false, hex)); /* just computed */
    free(nowhere);
}

static void old_lines_go(void)
{
    char line[256];
    int n = 0;
    for (int i = 0; i < 70; i++) {
        const struct timespec t[2] = {{0, 0}, {i, 0}};
        utimensat(AT_FDCWD, file, t, 0);
        CHECK(qw_hash_file(file, cache, false, hex));
    }
    FILE *f = fopen(cache, "r");
    MUST(f != NULL);
    while (fgets(line, sizeof(line), f) != NULL)
        n++;
    fclose(f);
    CHECK(n == 64, "%d lines", n);
}

static void set_up(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof(dir), "%s/qw-hash-XXXXXX", tmp ? tmp : "/var/tmp");
    MUST(mkdtemp(dir) != NULL);
    snprintf(file, sizeof(file), "%s/file", dir);
    snprintf(cache, sizeof(cache), "%s/deep/er/cache", dir);
}

static void clean_up(void)
{
    char path[300];
    unlink(file);
    unlink(cache);
    snprintf(path, sizeof(path), "%s/deep/er", dir);
    rmdir(path);
    snprintf(path, sizeof(path), "%s/deep", dir);
    rmdir(path);
    CHECK(rmdir(dir) == 0, "something was left in %s", dir);
}

QW_TESTS(T(set_up), T(known_answer), T(only_known), T(changed_file), T(bad_cache),
         T(old_lines_go), T(clean_up))
