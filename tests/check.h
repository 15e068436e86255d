/* SPDX-License-Identifier: MIT */
/* check.h - a test is a function; a program ends with QW_TESTS(...). Exit: 0 passed, 1
 * failed, 77 skipped, 99 the test could not be set up (Automake's codes). */
#ifndef QW_CHECK_H
#define QW_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Weak: one pair for all files of a test program. */
__attribute__((weak)) int check_failed, check_now;

#define CHECK(cond, ...)                                                                 \
    do {                                                                                 \
        if (!(cond)) {                                                                   \
            check_now = 1;                                                               \
            printf("  %s:%d: %s:", __FILE__, __LINE__, #cond);                           \
            printf(" " __VA_ARGS__);                                                     \
            printf("\n");                                                                \
        }                                                                                \
    } while (0)
#define CHECK_STR(got, want)                                                             \
    CHECK(strcmp(got, want) == 0, "got '%s', want '%s'", got, want)
/* Set-up that cannot go on: the program ends, and Automake reports an error. */
#define MUST(cond, ...)                                                                  \
    do {                                                                                 \
        if (!(cond)) {                                                                   \
            printf("  %s:%d: cannot go on: %s:", __FILE__, __LINE__, #cond);             \
            printf(" " __VA_ARGS__);                                                     \
            printf("\n");                                                                \
            exit(99);                                                                    \
        }                                                                                \
    } while (0)

struct check_test {
    const char *name;
    void (*run)(void);
};

static inline int check_run(const struct check_test *t, int n)
{
    int passed = 0;
    for (int i = 0; i < n; i++) {
        check_now = 0;
        t[i].run();
        printf("%s %s\n", check_now ? "FAIL" : "ok", t[i].name);
        check_failed += check_now;
        passed += !check_now;
        fflush(stdout);
    }
    printf("%d passed, %d failed\n", passed, check_failed);
    return check_failed ? 1 : 0;
}

#define T(f)                                                                             \
    {                                                                                    \
#f, f                                                                            \
    }
#define QW_TESTS(...)                                                                    \
    int main(void)                                                                       \
    {                                                                                    \
        static const struct check_test all[] = {__VA_ARGS__};                            \
        return check_run(all, (int)(sizeof(all) / sizeof(all[0])));                      \
    }

/* Small seeded generator for randomised tests: xorshift64*. Print the seed you start
 * from. */
static inline unsigned long long check_rand(unsigned long long *s)
{
    *s ^= *s >> 12;
    *s ^= *s << 25;
    *s ^= *s >> 27;
    return *s * 2685821657736338717ull;
}
#endif
