/* SPDX-License-Identifier: MIT */
/* tok_tool.c VOCAB.gguf nfc|none user|specials|decode - for scripts: texts from stdin,
 * each ended by a NUL byte, to a line of ids each. decode: a line of ids each to a text
 * ended by a NUL byte. A last line on stderr tells how long loading took and how long the
 * work. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tok.h"

static bool read_all(struct qw_buf *b)
{
    char chunk[65536];
    size_t n;
    qw_buf_add(b, "", 0);
    while ((n = fread(chunk, 1, sizeof(chunk), stdin)) > 0)
        qw_buf_add(b, chunk, n);
    return !ferror(stdin);
}

static void encode(const struct qw_tok *t, const struct qw_buf *in, bool specials)
{
    for (const char *p = in->data, *end = p + in->len; p < end; p += strlen(p) + 1) {
        struct qw_ids ids = {0};
        qw_tok_encode(t, p, strlen(p), specials, &ids);
        for (size_t i = 0; i < ids.len; i++)
            printf("%s%d", i ? " " : "", (int)ids.id[i]);
        putchar('\n');
        qw_ids_free(&ids);
    }
}

static void decode(const struct qw_tok *t, const struct qw_buf *in)
{
    for (char *p = in->data, *end = p + in->len; p < end; p++) {
        struct qw_detok d;
        struct qw_buf out = {0};
        qw_detok_init(&d, t, true);
        while (p < end && *p != '\n') {
            char *after = p;
            long id = strtol(p, &after, 10);
            if (after == p)
                break;
            qw_detok_feed(&d, (int32_t)id, &out);
            p = after;
        }
        qw_detok_flush(&d, &out);
        qw_buf_add(&out, "", 1);
        fwrite(out.data, 1, out.len, stdout);
        qw_buf_free(&out);
    }
}

int main(int argc, char **argv)
{
    struct qw_gguf *g = NULL;
    struct qw_tok *t = NULL;
    struct qw_err err;
    struct qw_buf in = {0};
    if (argc != 4) {
        fprintf(stderr, "usage: tok_tool VOCAB.gguf nfc|none user|specials|decode\n");
        return 2;
    }
    double start = qw_now();
    int rc = qw_gguf_open(&g, argv[1], &err);
    if (rc == QW_OK)
        rc = qw_tok_open(&t, g, strcmp(argv[2], "nfc") == 0, &err);
    qw_gguf_close(g);
    if (rc != QW_OK || t == NULL) {
        fprintf(stderr, "tok_tool: %s\n", rc != QW_OK ? err.msg : "no vocabulary");
        return 1;
    }
    double loaded = qw_now();
    if (!read_all(&in)) {
        perror("stdin");
        return 1;
    }
    double began = qw_now();
    if (strcmp(argv[3], "decode") == 0)
        decode(t, &in);
    else
        encode(t, &in, strcmp(argv[3], "specials") == 0);
    fprintf(stderr, "loading %.3f s, work %.3f s\n", loaded - start, qw_now() - began);
    qw_buf_free(&in);
    qw_tok_close(t);
    return fflush(stdout) == 0 ? 0 : 1;
}
