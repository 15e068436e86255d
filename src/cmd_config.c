/* SPDX-License-Identifier: MIT */
/* cmd_config.c - the settings in force, each with what set it. */
#include "cmd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *json_value(const struct qw_options *o, enum qw_option_id id)
{
    const struct qw_option_desc *d = qw_option_desc(id);
    const void *field = (const char *)o + d->at;
    if (o->word[id] == NULL && d->type == QW_TYPE_INT)
        return json_integer(*(const int *)field);
    if (o->word[id] == NULL && d->type == QW_TYPE_REAL)
        return json_real(*(const double *)field);
    if (d->type == QW_TYPE_BOOL)
        return json_boolean(*(const bool *)field);
    if (d->type == QW_TYPE_SEED && *(const uint64_t *)field <= INT64_MAX)
        return json_integer((json_int_t) * (const uint64_t *)field);
    char *text = qw_option_format(o, id); /* as an INI file would have it */
    json_t *value = qw_cmd_json_text(text, strlen(text));
    free(text);
    return value;
}

static json_t *json_setting(const struct qw_options *o, enum qw_option_id id)
{
    json_t *s = json_object();
    const struct qw_option_source *from = &o->source[id];
    char *origin = qw_option_origin(o, id);
    json_object_set_new(s, "value", json_value(o, id));
    if (qw_option_desc(id)->type == QW_TYPE_SIZE && o->word[id] == NULL)
        json_object_set_new(
            s, "bytes",
            json_integer((json_int_t) *
                         (const uint64_t *)((const char *)o + qw_option_desc(id)->at)));
    json_object_set_new(s, "origin", qw_cmd_json_text(origin, strlen(origin)));
    json_object_set_new(s, "file",
                        from->file ? qw_cmd_json_text(from->file, strlen(from->file))
                                   : json_null());
    json_object_set_new(s, "line", from->file ? json_integer(from->line) : json_null());
    free(origin);
    return s;
}

static int print_json(const struct qw_options *o, struct qw_err *err)
{
    json_t *root = json_object(), *files = json_array(), *settings = json_object();
    for (int i = 0; i < o->n_files; i++)
        json_array_append_new(files, qw_cmd_json_text(o->file[i], strlen(o->file[i])));
    for (int i = 0; i < QW_N_OPTIONS; i++) {
        const struct qw_option_desc *d = qw_option_desc((enum qw_option_id)i);
        json_t *section = json_object_get(settings, d->section);
        if (section == NULL) {
            section = json_object();
            json_object_set_new(settings, d->section, section);
        }
        json_object_set_new(section, d->key, json_setting(o, (enum qw_option_id)i));
    }
    json_object_set_new(root, "files", files);
    json_object_set_new(root, "settings", settings);
    return qw_cmd_print_json(root, err);
}

/* An INI file again: the origin is a comment. */
static void print_text(const struct qw_options *o)
{
    const char *section = "";
    for (int i = 0; i < QW_N_OPTIONS; i++) {
        const struct qw_option_desc *d = qw_option_desc((enum qw_option_id)i);
        char *value = qw_option_format(o, (enum qw_option_id)i);
        char *origin = qw_option_origin(o, (enum qw_option_id)i);
        const size_t nv = 4 * strlen(value) + 8, no = 4 * strlen(origin) + 8;
        char *v = qw_alloc(nv, 1), *from = qw_alloc(no, 1);
        qw_escape(v, nv, value, strlen(value));
        qw_escape(from, no, origin, strlen(origin));
        if (strcmp(d->section, section) != 0)
            printf("%s[%s]\n", *section ? "\n" : "", d->section);
        section = d->section;
        printf("%s = %s ; %s\n", d->key, v, from);
        free(v);
        free(from);
        free(value);
        free(origin);
    }
}

static int run(struct qw_cmd *c)
{
    if (c->json)
        return print_json(c->options, &c->err);
    print_text(c->options);
    return QW_OK;
}

const struct qw_command qw_command_config = {
    .name = "config",
    .summary = "show the settings in force, each with what set it",
    .run = run,
};
