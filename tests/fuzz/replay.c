/* SPDX-License-Identifier: MIT */
/* replay.c - run a fuzz target on files that are kept: each argument is a file or a
 * folder. Linked with one fuzz_*.c; without libFuzzer, so that every build can do it. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    struct stat st;
    if (f == NULL || fstat(fileno(f), &st) != 0) {
        perror(path);
        return -1;
    }
    size_t size = (size_t)st.st_size;
    uint8_t *data =
        malloc(size ? size : 1); /* its own block: a read past the end is seen */
    if (data == NULL || fread(data, 1, size, f) != size) {
        fprintf(stderr, "%s: cannot read it\n", path);
        free(data);
        fclose(f);
        return -1;
    }
    fclose(f);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    return 1;
}

/* How many files were replayed, or -1. */
static int replay(const char *path)
{
    struct stat st;
    int n = 0;
    if (stat(path, &st) != 0) {
        perror(path);
        return -1;
    }
    if (!S_ISDIR(st.st_mode))
        return replay_file(path);
    DIR *d = opendir(path);
    if (d == NULL) {
        perror(path);
        return -1;
    }
    for (struct dirent *e; n >= 0 && (e = readdir(d)) != NULL;) {
        char name[8192];
        if (e->d_name[0] == '.')
            continue;
        snprintf(name, sizeof(name), "%s/%s", path, e->d_name);
        int rc = replay(name);
        n = rc < 0 ? -1 : n + rc;
    }
    closedir(d);
    return n;
}

int main(int argc, char **argv)
{
    int total = 0;
    for (int i = 1; i < argc; i++) {
        int n = replay(argv[i]);
        if (n < 0)
            return 99;
        total += n;
    }
    printf("%d passed, 0 failed\n", total);
    return total > 0 ? 0 : 99;
}
