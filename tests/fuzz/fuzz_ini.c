/* SPDX-License-Identifier: MIT */
/* fuzz_ini.c - any bytes as an INI file, and their first line as a word of -o. A refused
 * file changes nothing; what is in force can be set again and stays the same. To fuzz
 * (clang):
 *   clang -std=gnu11 -D_GNU_SOURCE -g -O1 -Isrc -fsanitize=fuzzer,address,undefined \
 *       -DQW_SYSCONFDIR='"/x"' -DQW_DATADIR='"/x"' -DQW_BUILD_MODELS='"/x"'
 * -DQW_BUILD_CONF='"/x"' \
 *       tests/fuzz/fuzz_ini.c src/base.c src/options.c src/options_list.c
 * src/options_ini.c \ -linih -o fuzz_ini
 *   ./fuzz_ini -max_len=4096 NEW tests/fuzz/corpus/ini tests/cases/ini */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good)
{
    if (!good)
        abort();
}

static char *all_text(const struct qw_options *o)
{
    struct qw_buf b = {NULL, 0, 0};
    for (int i = 0; i < QW_N_OPTIONS; i++) {
        char *value = qw_option_format(o, (enum qw_option_id)i);
        qw_buf_printf(&b, "%s\n", value);
        free(value);
    }
    return b.data;
}

static void set_again(const struct qw_options *o)
{
    struct qw_options again;
    struct qw_err err;
    qw_options_init(&again);
    for (int i = 0; i < QW_N_OPTIONS; i++) {
        const struct qw_option_desc *d = qw_option_desc((enum qw_option_id)i);
        char *value = qw_option_format(o, (enum qw_option_id)i);
        char *line = qw_sprintf("%s.%s=%s", d->section, d->key, value);
        must(qw_options_set(&again, line, &err) == QW_OK);
        free(line);
        free(value);
    }
    char *a = all_text(o), *b = all_text(&again);
    must(strcmp(a, b) == 0);
    free(a);
    free(b);
    qw_options_close(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct qw_options o;
    struct qw_err err;
    char *line =
        qw_sprintf("%.*s", (int)strnlen((const char *)data, size), (const char *)data);
    line[strcspn(line, "\n")] = '\0';
    qw_options_init(&o);
    char *before = all_text(&o);
    int rc = qw_options_read(&o, "folder/file.ini", (const char *)data, size, &err);
    char *after = all_text(&o);
    must(rc == QW_OK ||
         (rc == QW_EUSAGE && strcmp(before, after) == 0 && err.msg[0] != '\0'));
    must(rc == QW_OK || strchr(err.msg, '\n') == NULL);
    set_again(&o);
    rc = qw_options_set(&o, line, &err);
    must(rc == QW_OK || rc == QW_EUSAGE);
    set_again(&o);
    rc = qw_options_resolve(&o, &err);
    must(rc == QW_OK || rc == QW_EUSAGE);
    qw_options_close(&o);
    free(line);
    free(before);
    free(after);
    return 0;
}
