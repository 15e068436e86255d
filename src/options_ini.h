/* SPDX-License-Identifier: MIT */
/* options_ini.h - INI text through inih, with every line checked before inih sees it. */
#ifndef QW_OPTIONS_INI_H
#define QW_OPTIONS_INI_H

#include "base.h"

/* Both return NULL, or what is wrong (good until the next call). After a bad section its
 * keys are passed over. */
struct qw_ini_reader {
    void *arg;
    const char *(*section)(void *arg, int line, const char *name);
    const char *(*key)(void *arg, int line, const char *section, const char *key,
                       const char *value);
};

/* The whole text is read; all that is wrong with it becomes one message, each thing with
 * its line, and QW_EUSAGE. What the callbacks were given counts only when the result is
 * QW_OK. A pair of quotes around a value is taken off; blanks inside it stay. */
int qw_ini_read(const char *name, const char *data, size_t len,
                const struct qw_ini_reader *r, struct qw_err *err);
#endif
