/* SPDX-License-Identifier: MIT */
/* fuzz_save.c - any bytes as a container: as they are, then with front and checksum made
 * right, so that the numbers behind them are looked at. To fuzz (clang):
 *   clang -std=gnu11 -D_GNU_SOURCE -g -O1 -Isrc -fsanitize=fuzzer,address,undefined \
 *       tests/fuzz/fuzz_save.c src/base.c src/hash.c src/save.c src/save_read.c \
 *       -ljansson -lcrypto -o fuzz_save
 *   ./fuzz_save -max_len=4096 NEW tests/fuzz/corpus/save */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "hash.h"
#include "save.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct qw_save_kind kind = {"QWTEST\r\n", "test file", 3, 0600};
static volatile uint64_t sink; /* reads must not be optimised away */

static void must(bool good)
{
    if (!good)
        abort();
}

static void look(const uint8_t *data, size_t size)
{
    struct qw_save_reader *r = NULL;
    struct qw_err err = {""};
    const int rc = qw_save_parse(&r, "file", data, size, &kind, &err);
    if (rc != QW_OK) {
        must(rc == QW_EFILE && r == NULL && strncmp(err.msg, "file: ", 6) == 0 &&
             strchr(err.msg, '\n') == NULL);
        return;
    }
    must(json_is_object(qw_save_header(r)));
    for (size_t i = 0; i < qw_save_n_sections(r); i++) {
        const void *view;
        uint64_t bytes, sum = 0;
        must(qw_save_section(r, qw_save_section_name(r, i), &view, &bytes, &err) ==
             QW_OK);
        for (uint64_t k = 0; k < bytes; k++)
            sum += ((const unsigned char *)view)[k];
        sink += sum;
    }
    qw_save_close(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    look(data, size);
    if (size < 96)
        return 0;
    uint8_t *copy = malloc(size);
    must(copy != NULL);
    memcpy(copy, data, size);
    memcpy(copy, kind.magic, 8);
    memset(copy + 8, 0, 16);
    copy[8] = 1;
    copy[12] = 3;
    for (int i = 0; i < 8; i++)
        copy[16 + i] = (uint8_t)((uint64_t)size >> 8 * i);
    struct qw_hash *h = qw_hash_open();
    qw_hash_add(h, copy + 96, size - 96);
    qw_hash_add(h, copy, 64);
    must(qw_hash_end(h, copy + 64));
    look(copy, size);
    free(copy);
    return 0;
}
