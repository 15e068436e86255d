/* SPDX-License-Identifier: MIT */
/* list_options.c - write what is generated from options.def: `ini` is conf/qwenrun.ini,
 * `mdoc` the key table of qwenrun.ini(5). `make update-options` puts them in place. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "options.h"

static void sentence(const char *s)
{
    printf("%c%s.\n", toupper((unsigned char)s[0]), s + 1);
}

static void ini_key(enum qw_option_id id, const struct qw_option_desc *d)
{
    char allowed[200];
    qw_option_allowed(id, allowed, sizeof(allowed));
    printf("\n# ");
    sentence(d->help);
    printf("# Allowed: %s.\n;%s = %s\n", allowed, d->key, d->dflt);
}

static void mdoc_key(enum qw_option_id id, const struct qw_option_desc *d)
{
    char allowed[200];
    qw_option_allowed(id, allowed, sizeof(allowed));
    printf(".It Ic %s Pq default Cm %s\n", d->key, d->dflt);
    sentence(d->help);
    printf("Allowed: %s.\n", allowed);
}

static void ini_head(void)
{
    printf("# SPDX-License-Identifier: MIT\n"
           "# Every setting of qwenrun with its default, all commented out: see "
           "qwenrun.ini(5).\n"
           "# A qwenrun.ini in the system's configuration folder is read first, then the "
           "one in\n"
           "# ~/.config/qwenrun/, then the files of -c, then -o SECTION.KEY=VALUE; later "
           "wins.\n"
           "# This text is written from src/options.def by `make update-options`.\n");
}

int main(int argc, char **argv)
{
    const char *section = "";
    const bool ini = argc == 2 && strcmp(argv[1], "ini") == 0;
    if (argc != 2 || (!ini && strcmp(argv[1], "mdoc") != 0))
        return fprintf(stderr, "usage: list_options ini | mdoc\n"), 99;
    if (ini)
        ini_head();
    for (int i = 0; i < QW_N_OPTIONS; i++) {
        const struct qw_option_desc *d = qw_option_desc((enum qw_option_id)i);
        const bool first = strcmp(d->section, section) != 0;
        section = d->section;
        if (first && ini) {
            printf("\n[%s]\n# ", section);
            sentence(qw_section_help(section));
        } else if (first) {
            printf("%s.Ss [%s]\n", i ? ".El\n" : "", section);
            sentence(qw_section_help(section));
            printf(".Bl -tag -width Ds\n");
        }
        if (ini)
            ini_key((enum qw_option_id)i, d);
        else
            mdoc_key((enum qw_option_id)i, d);
    }
    if (!ini)
        printf(".El\n");
    return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}
