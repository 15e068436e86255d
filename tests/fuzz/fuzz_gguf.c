/* SPDX-License-Identifier: MIT */
/* fuzz_gguf.c - any bytes as a GGUF file: open it, read every key, string and tensor it
 * admits, and its hyperparameters. To fuzz (clang):
 *   clang -std=gnu11 -g -O1 -Isrc -fsanitize=fuzzer,address,undefined \
 *       -fno-sanitize-recover=undefined tests/fuzz/fuzz_gguf.c \
 *       src/base.c src/gguf.c src/quant.c src/hparams*.c -lm -o fuzz_gguf
 *   ./fuzz_gguf -max_len=32768 NEW tests/fuzz/corpus/gguf tests/cases/gguf */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gguf.h"
#include "hparams.h"
#include "quant.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint64_t sink; /* reads must not be optimised away */

static void touch(const void *data, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += ((const unsigned char *)data)[i];
    sink += sum;
}

static void must(int good)
{
    if (!good)
        abort();
}

static void read_key(const struct qw_gguf *g, const struct qw_gguf_key *k)
{
    const unsigned char *pos = k->data;
    char name[512];
    qw_escape(name, sizeof(name), k->name.data, k->name.len);
    touch(name, strlen(name));
    for (uint64_t i = 0; i < k->count; i++) {
        if (k->elem == QW_GGUF_STR) {
            struct qw_str s = qw_gguf_next_string(&pos);
            touch(s.data, s.len);
        } else {
            sink += (uint64_t)qw_gguf_elem_int(k, i);
        }
    }
    if (k->name.len >= sizeof(name))
        return;
    memcpy(name, k->name.data, k->name.len);
    name[k->name.len] = '\0';
    must(qw_gguf_find(g, name) == k);
    int64_t v, lo = INT64_MIN;
    double d;
    bool b;
    struct qw_str s;
    struct qw_err err;
    sink += (uint64_t)qw_gguf_int(g, name, &lo, -100, 100, &v, &err);
    sink += (uint64_t)qw_gguf_float(g, name, NULL, &d, &err);
    sink += (uint64_t)qw_gguf_bool(g, name, false, &b, &err);
    sink += (uint64_t)qw_gguf_string(g, name, &s, &err);
}

static void read_tensor(const struct qw_gguf *g, const struct qw_gguf_tensor *t)
{
    char name[64];
    float x[256];
    const struct qw_type_info *info = qw_type_info(t->type);
    must(info != NULL && t->name.len < sizeof(name));
    memcpy(name, t->name.data, t->name.len);
    name[t->name.len] = '\0';
    must(qw_gguf_tensor(g, name) == t);
    touch(t->data, (size_t)t->size);
    if (qw_decode(t->type, t->data, x, info->block))
        touch(x, info->block * sizeof(x[0]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct qw_gguf *g = NULL;
    struct qw_err err = {""};
    struct qw_hparams hp;
    char path[64];
    int fd = memfd_create("fuzz.gguf", MFD_CLOEXEC);
    must(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (qw_gguf_open(&g, path, &err) == QW_OK) {
        for (size_t i = 0; i < qw_gguf_n_keys(g); i++)
            read_key(g, qw_gguf_key_at(g, i));
        for (size_t i = 0; i < qw_gguf_n_tensors(g); i++)
            read_tensor(g, qw_gguf_tensor_at(g, i));
        sink += (uint64_t)qw_hparams_read(g, &hp, &err);
    } else {
        must(err.msg[0] != '\0' && g == NULL);
    }
    qw_gguf_close(g);
    close(fd);
    return 0;
}
