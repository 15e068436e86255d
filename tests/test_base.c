/* SPDX-License-Identifier: MIT */
/* What every module leans on: text made fit for a terminal and for JSON, and the end of a
 * program whose mapped file is cut short. */
#include "base.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "gguf_watch.h"

static const struct {
    const char *bytes, *terminal, *json;
} texts[] = {
    {"plain", "plain", "plain"},
    {"a\nb\x1b[31m\x7f", "a\\x0ab\\x1b[31m\\x7f", "a\nb\x1b[31m\x7f"},
    {"\xc3\xa9 \xe5\x8d\x83 \xf0\x9f\x98\x80", "\xc3\xa9 \xe5\x8d\x83 \xf0\x9f\x98\x80",
     "\xc3\xa9 \xe5\x8d\x83 \xf0\x9f\x98\x80"},
    {"\xc2\x9b", "\\xc2\\x9b", "\xc2\x9b"},                 /* a C1 control */
    {"\xff\xfe", "\\xff\\xfe", "\\xff\\xfe"},               /* never in UTF-8 */
    {"\xed\xa0\x80", "\\xed\\xa0\\x80", "\\xed\\xa0\\x80"}, /* a surrogate */
    {"\xed\x9f\xbf\xee\x80\x80", "\xed\x9f\xbf\xee\x80\x80", "\xed\x9f\xbf\xee\x80\x80"},
    {"\xe0\x9f\xbf", "\\xe0\\x9f\\xbf", "\\xe0\\x9f\\xbf"}, /* overlong */
    {"\xf0\x8f\xbf\xbf", "\\xf0\\x8f\\xbf\\xbf", "\\xf0\\x8f\\xbf\\xbf"},
    {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80", "\\xf4\\x90\\x80\\x80"}, /* too large */
    {"\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf"},
    {"a\xe5\x8d", "a\\xe5\\x8d", "a\\xe5\\x8d"}, /* cut */
    {"\xe5\x8d\x61", "\\xe5\\x8d\x61", "\\xe5\\x8d\x61"},
    {"", "", ""},
};

static void safe_texts(void)
{
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        char shown[100];
        struct qw_buf b = {0};
        qw_escape(shown, sizeof(shown), texts[i].bytes, strlen(texts[i].bytes));
        CHECK_STR(shown, texts[i].terminal);
        qw_buf_add_utf8(&b, texts[i].bytes, strlen(texts[i].bytes));
        CHECK_STR(b.data, texts[i].json);
        qw_buf_free(&b);
    }
}

static void zero_bytes(void)
{
    struct qw_buf b = {0};
    qw_buf_add_utf8(&b, "a\0\xff\0b", 5);
    CHECK(b.len == 8 && memcmp(b.data, "a\0\\xff\0b", 8) == 0, "%zu bytes", b.len);
    qw_buf_free(&b);
}

/* A text that does not fit is cut between characters, and the dots say so. */
static void cut_texts(void)
{
    for (size_t size = 0; size < 24; size++) {
        char shown[32];
        memset(shown, 'x', sizeof(shown));
        qw_escape(shown, size, "\xc3\xa9\xff\xe5\x8d\x83 and more", 15);
        CHECK(shown[size] == 'x', "wrote past %zu bytes", size);
        if (size > 0)
            CHECK(memchr(shown, '\0', size) != NULL, "size %zu", size);
    }
}

/* The status of a child that reads a file of two pages after it was cut to one. */
static int read_cut_file(int fd, bool watched)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    MUST(ftruncate(fd, (off_t)(2 * page)) == 0);
    fflush(stdout);
    const pid_t child = fork();
    MUST(child >= 0);
    if (child == 0) {
        const volatile unsigned char *map =
            mmap(NULL, 2 * page, PROT_READ, MAP_PRIVATE, fd, 0);
        MUST(map != MAP_FAILED && freopen("/dev/null", "w", stderr) != NULL);
        signal(SIGBUS, SIG_DFL); /* a sanitizer has its own handler */
        qw_watch_add((const void *)map, 2 * page, "file");
        if (!watched)
            qw_watch_drop((const void *)map);
        MUST(ftruncate(fd, (off_t)page) == 0);
        _exit(map[0] + map[2 * page - 1]);
    }
    int status;
    MUST(waitpid(child, &status, 0) == child);
    return status;
}

static void cut_file(void)
{
    const char *tmp = getenv("TMPDIR");
    char *path = qw_sprintf("%s/qwenrun-cut.XXXXXX", tmp ? tmp : "/tmp");
    const int fd = mkstemp(path);
    MUST(fd >= 0, "%s", path);
    unlink(path);
    int status = read_cut_file(fd, true);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3, "status %x", (unsigned)status);
    status = read_cut_file(fd, false); /* not ours: it ends as it would without us */
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS, "status %x",
          (unsigned)status);
    close(fd);
    free(path);
}

#ifdef __SANITIZE_ADDRESS__
/* A program that loses memory ends with the status of tests/leaks.c. */
static void leaks_are_found(void)
{
    int status;
    fflush(stdout);
    const pid_t child = fork();
    MUST(child >= 0);
    if (child == 0) {
        MUST(freopen("/dev/null", "w", stderr) != NULL);
        for (int i = 0; i < 100; i++) {
            char *volatile lost = qw_alloc(1, (size_t)(100 + i));
            lost[0] = 1;
            lost = NULL;
        }
        exit(0);
    }
    MUST(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 23, "status %d", status);
}
QW_TESTS(T(safe_texts), T(zero_bytes), T(cut_texts), T(cut_file), T(leaks_are_found))
#else
QW_TESTS(T(safe_texts), T(zero_bytes), T(cut_texts), T(cut_file))
#endif
