/* SPDX-License-Identifier: MIT */
/* cmd_pack.c - qwenrun pack: pack files of the models in force. */
#include <stdio.h>

#include "cmd.h"
#include "qwenrun.h"

static void print_pack(const json_t *p)
{
    printf("%s: %lld bytes, %s %s\n", json_string_value(json_object_get(p, "path")),
           (long long)json_integer_value(json_object_get(p, "bytes")),
           json_is_true(json_object_get(p, "written")) ? "made from"
                                                       : "there already for",
           json_string_value(json_object_get(p, "source")));
}

static int run(struct qw_cmd *c)
{
    struct qw_engine *e;
    json_t *report, *p;
    size_t i;
    int rc = qw_engine_open(&e, c->options, QW_OPEN_KERNELS, false, &c->err);
    if (rc != QW_OK)
        return rc;
    rc = qw_engine_pack(e, qw_cmd_value(c, "again") != NULL, !c->quiet, &report, &c->err);
    qw_engine_close(e);
    if (rc != QW_OK)
        return rc;
    if (c->json)
        return qw_cmd_print_json(json_pack("{s:o}", "packs", report), &c->err);
    json_array_foreach(report, i, p) print_pack(p);
    json_decref(report);
    return QW_OK;
}

static const struct qw_cmd_option options[] = {
    {0, "again", NULL, "write pack files also where good ones are there"},
    {0},
};

const struct qw_command qw_command_pack = {
    .name = "pack",
    .summary = "write the packed weights once, to load them from there",
    .options = options,
    .run = run,
};
