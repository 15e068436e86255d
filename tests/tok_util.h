/* SPDX-License-Identifier: MIT */
/* tok_util.h - small vocabularies for tests: all bytes, then what a test adds. */
#ifndef QW_TOK_UTIL_H
#define QW_TOK_UTIL_H

#include "check.h"
#include "ggufw.h"
#include "tok.h"

enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };

struct vocab {
    uint32_t n_tokens, n_merges;
    struct qw_buf tokens, types, merges;
    const char *model, *pre;
    uint32_t eos; /* UINT32_MAX: no such key */
};

/* The character a byte is spelled with: UTF-8 of at most two bytes. */
static inline const char *spell(unsigned byte, char out[3])
{
    unsigned cp = byte, shifted = 0;
    for (unsigned b = 0; b <= byte; b++)
        if (!((b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae)) {
            shifted++;
            if (b == byte)
                cp = 255 + shifted;
        }
    memset(out, 0, 3);
    if (cp < 0x80) {
        out[0] = (char)cp;
    } else {
        out[0] = (char)(0xc0 | cp >> 6);
        out[1] = (char)(0x80 | (cp & 0x3f));
    }
    return out;
}

static inline uint32_t vocab_token(struct vocab *v, const char *text, uint32_t type)
{
    gw_str(&v->tokens, text);
    gw_u32(&v->types, type);
    return v->n_tokens++;
}

static inline void vocab_merge(struct vocab *v, const char *line)
{
    gw_str(&v->merges, line);
    v->n_merges++;
}

/* Ids 0 to 255 are the bytes. */
static inline void vocab_init(struct vocab *v)
{
    char c[3];
    *v = (struct vocab){.model = "gpt2", .pre = "qwen35", .eos = UINT32_MAX};
    for (unsigned b = 0; b < 256; b++)
        vocab_token(v, spell(b, c), NORMAL);
}

static inline void vocab_free(struct vocab *v)
{
    qw_buf_free(&v->tokens);
    qw_buf_free(&v->types);
    qw_buf_free(&v->merges);
}

static inline void vocab_write(const struct vocab *v, const char *path)
{
    struct ggufw w;
    gw_init(&w);
    if (v->model != NULL)
        gw_key_str(&w, "tokenizer.ggml.model", v->model);
    if (v->pre != NULL)
        gw_key_str(&w, "tokenizer.ggml.pre", v->pre);
    gw_key_arr(&w, "tokenizer.ggml.tokens", QW_GGUF_STR, v->n_tokens, v->tokens.data,
               v->tokens.len);
    gw_key_arr(&w, "tokenizer.ggml.token_type", QW_GGUF_I32, v->n_tokens, v->types.data,
               v->types.len);
    gw_key_arr(&w, "tokenizer.ggml.merges", QW_GGUF_STR, v->n_merges, v->merges.data,
               v->merges.len);
    if (v->eos != UINT32_MAX)
        gw_key_u32(&w, "tokenizer.ggml.eos_token_id", v->eos);
    gw_write(&w, path, 0);
    gw_free(&w);
}

/* A new file of this test program's own, to be removed by the caller. */
static inline void temp_path(char path[4096])
{
    const char *dir = getenv("TMPDIR");
    snprintf(path, 4096, "%s/qwenrun-tok.XXXXXX",
             dir != NULL && dir[0] != '\0' ? dir : "/tmp");
    int fd = mkstemp(path);
    MUST(fd >= 0, "%s", path);
    close(fd);
}

static inline int open_tok(const char *path, bool nfc, struct qw_tok **t,
                           struct qw_err *err)
{
    struct qw_gguf *g = NULL;
    int rc = qw_gguf_open(&g, path, err);
    if (rc == QW_OK)
        rc = qw_tok_open(t, g, nfc, err);
    qw_gguf_close(g);
    return rc;
}

/* The tokenizer of a vocabulary, which is freed. */
static inline struct qw_tok *vocab_open(struct vocab *v)
{
    char path[4096];
    struct qw_tok *t = NULL;
    struct qw_err err = {""};
    temp_path(path);
    vocab_write(v, path);
    MUST(open_tok(path, false, &t, &err) == QW_OK, "%s", err.msg);
    unlink(path);
    vocab_free(v);
    return t;
}

/* The tokenizer of the shipped tiny model. */
static inline struct qw_tok *tiny_tok(bool nfc)
{
    const char *top = getenv("srcdir");
    char path[4096];
    struct qw_tok *t = NULL;
    struct qw_err err = {""};
    snprintf(path, sizeof(path), "%s/models/tiny/tiny-qwen35-q4_0.gguf",
             top != NULL ? top : ".");
    MUST(open_tok(path, nfc, &t, &err) == QW_OK, "%s", err.msg);
    return t;
}

/* Compare ids with what is wanted, ended by -1. */
static inline bool same_ids(const struct qw_ids *ids, const int32_t *want)
{
    size_t n = 0;
    while (want[n] >= 0)
        n++;
    return ids->len == n && (n == 0 || memcmp(ids->id, want, n * sizeof(*want)) == 0);
}

static inline void show_ids(const struct qw_ids *ids)
{
    printf("  got");
    for (size_t i = 0; i < ids->len && i < 40; i++)
        printf(" %d", (int)ids->id[i]);
    printf("\n");
}
#endif
