/* SPDX-License-Identifier: MIT */
/* fuzz_tok.c - any bytes as a text: encode it every way with the shipped tiny vocabulary,
 * decode it, and parse it as a reply. The first byte picks a cut for trusted text. To
 * fuzz (clang):
 *   clang -std=gnu11 -g -O1 -Isrc -fsanitize=fuzzer,address,undefined \
 *       -fno-sanitize-recover=undefined tests/fuzz/fuzz_tok.c src/base.c src/gguf.c
 * src/quant.c \ src/tok*.c src/chat*.c -lutf8proc -ljansson -lcrypto -lm -o fuzz_tok
 *   ./fuzz_tok -max_len=4096 NEW tests/fuzz/corpus/tok */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chat.h"
#include "tok.h"
#include "tok_split.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct qw_tok *plain, *composing;

static void must(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "does not hold: %s\n", what);
    abort();
}

static struct qw_tok *open_tok(bool nfc)
{
    const char *top = getenv("srcdir");
    char path[4096];
    struct qw_gguf *g = NULL;
    struct qw_tok *t = NULL;
    struct qw_err err = {""};
    snprintf(path, sizeof(path), "%s/models/tiny/tiny-qwen35-q4_0.gguf", top ? top : ".");
    if (qw_gguf_open(&g, path, &err) != QW_OK || qw_tok_open(&t, g, nfc, &err) != QW_OK) {
        fprintf(stderr, "%s\n", err.msg);
        exit(99);
    }
    qw_gguf_close(g);
    return t;
}

static void close_toks(void)
{
    qw_tok_close(plain);
    qw_tok_close(composing);
}

static bool same(const struct qw_buf *a, const char *data, size_t len)
{
    return a->len == len && (len == 0 || memcmp(a->data, data, len) == 0);
}

/* The stream's pieces put together are the text; what it holds is at most 3 bytes. */
static void check_decode(const struct qw_tok *t, const struct qw_ids *ids,
                         const char *want, size_t len)
{
    struct qw_detok d;
    struct qw_buf out = {0};
    qw_detok_init(&d, t, true);
    for (size_t i = 0; i < ids->len; i++) {
        must(ids->id[i] >= 0 && ids->id[i] < qw_tok_n_vocab(t),
             "an id of the vocabulary");
        qw_detok_feed(&d, ids->id[i], &out);
        must(d.n_held >= 0 && d.n_held <= 3, "at most 3 bytes are held");
    }
    must(d.n_held == 0, "clean text ends on a whole character");
    qw_detok_flush(&d, &out);
    must(same(&out, want, len), "decoding gives the clean text");
    qw_buf_free(&out);
}

static void encode_all(const char *text, size_t len, size_t cut)
{
    struct qw_buf clean = {0}, composed = {0}, twice = {0};
    struct qw_ids user = {0}, special = {0}, part = {0}, nfc = {0};
    const struct qw_span span = {cut, len - cut};
    qw_tok_clean(text, len, &clean);
    qw_tok_encode(plain, text, len, false, &user);
    for (size_t i = 0; i < user.len; i++)
        must(user.id[i] < qw_tok_find(plain, "<|endoftext|>"),
             "user text has no special token");
    if (qw_tok_is_clean(text, len)) { /* else a sequence cut by a token differs */
        qw_tok_encode(plain, text, len, true, &special);
        qw_tok_encode_spans(plain, text, len, &span, 1, &part);
        check_decode(plain, &special, clean.data, clean.len);
        check_decode(plain, &part, clean.data, clean.len);
    }
    qw_tok_nfc(text, len, &composed);
    qw_tok_nfc(composed.data ? composed.data : "", composed.len, &twice);
    must(same(&twice, composed.data, composed.len), "NFC of NFC changes nothing");
    qw_tok_encode(composing, text, len, false, &nfc);
    qw_ids_free(&special);
    qw_tok_encode(plain, composed.data ? composed.data : "", composed.len, false,
                  &special);
    must(special.len == nfc.len &&
             (nfc.len == 0 || memcmp(special.id, nfc.id, nfc.len * sizeof(*nfc.id)) == 0),
         "composing first or inside is the same");
    qw_buf_free(&clean);
    qw_buf_free(&composed);
    qw_buf_free(&twice);
    qw_ids_free(&user);
    qw_ids_free(&special);
    qw_ids_free(&part);
    qw_ids_free(&nfc);
}

static void parse_reply(const char *text, size_t len)
{
    for (int thinking = 0; thinking < 2; thinking++) {
        json_t *r = qw_chat_parse(text, len, thinking, NULL);
        must(json_is_string(json_object_get(r, "content")), "a reply has content");
        must(!thinking == (json_object_get(r, "reasoning_content") == NULL),
             "reasoning where there was thinking");
        char *dump = json_dumps(r, 0);
        must(dump != NULL, "a reply can be written");
        free(dump);
        json_decref(r);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (plain == NULL) {
        plain = open_tok(false);
        composing = open_tok(true);
        atexit(close_toks);
    }
    if (size == 0)
        return 0;
    const char *text = (const char *)data + 1;
    size_t len = size - 1;
    encode_all(text, len, len > 0 ? data[0] % len : 0);
    parse_reply(text, len);
    return 0;
}
