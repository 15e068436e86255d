/* SPDX-License-Identifier: MIT */
/* test_tok.c - text to ids and back: golden ids, the word rule, merges, special tokens,
 * streams. */
#include <jansson.h>

#include "check.h"
#include "tok.h"
#include "tok_split.h"
#include "tok_util.h"

#define MiB ((size_t)1 << 20)
#if defined(__SANITIZE_ADDRESS__)
#define LONG_TEXT (1 * MiB)
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LONG_TEXT (1 * MiB)
#endif
#endif
#ifndef LONG_TEXT
#define LONG_TEXT (10 * MiB)
#endif

static struct qw_ids encode(const struct qw_tok *t, const char *text, size_t len,
                            bool specials)
{
    struct qw_ids ids = {0};
    qw_tok_encode(t, text, len, specials, &ids);
    return ids;
}

/* Decode through the stream, all at once. */
static struct qw_buf decode(const struct qw_tok *t, const struct qw_ids *ids)
{
    struct qw_detok d;
    struct qw_buf out = {0};
    qw_detok_init(&d, t, true);
    for (size_t i = 0; i < ids->len; i++)
        qw_detok_feed(&d, ids->id[i], &out);
    qw_detok_flush(&d, &out);
    qw_buf_add(&out, "", 0);
    return out;
}

static void check_ids(const struct qw_tok *t, const char *text, size_t len, bool specials,
                      const int32_t *want)
{
    struct qw_ids ids = encode(t, text, len, specials);
    CHECK(same_ids(&ids, want), "for '%s'", text);
    if (!same_ids(&ids, want))
        show_ids(&ids);
    qw_ids_free(&ids);
}
#define IDS(t, text, specials, ...)                                                      \
    check_ids(t, text, sizeof(text) - 1, specials, (const int32_t[]){__VA_ARGS__, -1})

/* ---- golden ---- */

static void golden_ids(void)
{
    const char *top = getenv("srcdir");
    char path[4096];
    json_error_t e;
    struct qw_tok *t = tiny_tok(false);
    snprintf(path, sizeof(path), "%s/tests/golden/tokenizer.json", top ? top : ".");
    json_t *all = json_load_file(path, JSON_ALLOW_NUL, &e);
    const json_t *cases = json_object_get(all, "cases");
    MUST(json_array_size(cases) == 80, "%s", path);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i), *text = json_object_get(c, "text");
        const json_t *want = json_object_get(c, "ids");
        size_t len = json_string_length(text);
        struct qw_ids ids = encode(t, json_string_value(text), len, true);
        bool same = ids.len == json_array_size(want);
        for (size_t k = 0; same && k < ids.len; k++)
            same = json_integer_value(json_array_get(want, k)) == ids.id[k];
        CHECK(same, "case %zu: '%s'", i, json_string_value(text));
        struct qw_buf back = decode(t, &ids);
        CHECK(back.len == len && memcmp(back.data, json_string_value(text), len) == 0,
              "case %zu: '%s' comes back as '%s'", i, json_string_value(text), back.data);
        qw_buf_free(&back);
        qw_ids_free(&ids);
    }
    json_decref(all);
    qw_tok_close(t);
}

/* ---- words ---- */

static void word_rule(void)
{
    static const struct {
        const char *text, *words; /* words parted by "|" */
    } row[] = {
        {"Hello, world!", "Hello|,| world|!"},
        {"I'LL don't 've 'x", "I|'LL| don|'t| '|ve| '|x"},
        {"'s't're've'm'll'd'S'RE", "'s|'t|'re|'ve|'m|'ll|'d|'S|'RE"},
        {"'\xc5\xbf'r'l", "'\xc5\xbf|'r|'l"}, /* a long s is no s here */
        {"'", "'"},
        {"  two  spaces\n\n x", " | two| | spaces|\n\n| x"},
        {"x   ", "x|   "},
        {" \n \n  x", " \n \n| | x"},
        {"a\t\tb\r\n\r\nc", "a|\t|\tb|\r\n\r\n|c"},
        {"1234 5", "1|2|3|4| |5"},
        {"a.\n\nb", "a|.\n\n|b"},
        {"!!!\r\n x", "!!!\r\n| x"},
        {"e\xcc\x81t na\xc3\xafve", "e\xcc\x81t| na\xc3\xafve"},
        {"\xcc\x81", "\xcc\x81"},
        {".\xcc\x81x", ".\xcc\x81x"},
        {"\xe0\xa4\xa8\xe0\xa4\xae\xe0\xa4\xb8\xe0\xa5\x8d\xe0\xa4\xa4\xe0\xa5\x87",
         "\xe0\xa4\xa8\xe0\xa4\xae\xe0\xa4\xb8\xe0\xa5\x8d\xe0\xa4\xa4\xe0\xa5\x87"},
        {"\xc2\xaa\xc2\xb5\xc3\x9f", "\xc2\xaa\xc2\xb5\xc3\x9f"},
        {"\xc2\xb2\xc2\xbd\xe2\x85\xa7\xd9\xa3",
         "\xc2\xb2|\xc2\xbd|\xe2\x85\xa7|\xd9\xa3"},
        {"a\xc2\xa0\xc2\x85\xe3\x80\x80\x62", "a|\xc2\xa0\xc2\x85|\xe3\x80\x80\x62"},
        {"\xc2\xa0.", "\xc2\xa0|."}, /* only U+0020 goes with punctuation */
        {"\x1c\x1f!", "\x1c\x1f!"},
        {"\xe2\x80\x8b-", "\xe2\x80\x8b-"},
        {"\xef\xbf\xbd\xef\xbf\xbd", "\xef\xbf\xbd\xef\xbf\xbd"},
        {"if (x) {\n\treturn;\n}\n", "if| (|x|)| {\n|\treturn|;\n|}\n"},
    };
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        struct qw_buf got = {0};
        const char *p = row[i].text, *end = p + strlen(p);
        while (p < end) {
            size_t n = qw_tok_word(p, (size_t)(end - p));
            MUST(n > 0 && n <= (size_t)(end - p), "row %zu", i);
            if (got.len > 0)
                qw_buf_add(&got, "|", 1);
            qw_buf_add(&got, p, n);
            p += n;
        }
        CHECK_STR(got.data, row[i].words);
        qw_buf_free(&got);
    }
}

static void broken_utf8(void)
{
    struct qw_tok *t = tiny_tok(false);
    static const struct {
        const char *broken, *same;
    } row[] = {
        {"\xff\xfe", "\xef\xbf\xbd\xef\xbf\xbd"},
        {"a\x80z", "a\xef\xbf\xbdz"},
        {"\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xf0\x9f\x9a", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xc3(", "\xef\xbf\xbd("},
        {"\xc1\x81", "A"},             /* overlong: the value counts */
        {"\xe0\x81\x82", "B"},         /* also in three bytes */
        {"x\xf0\x80\x80\xa0y", "x y"}, /* and it counts for the word rule */
        {"e\xcc\x81\xff", "e\xcc\x81\xef\xbf\xbd"},
    };
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        struct qw_ids a = encode(t, row[i].broken, strlen(row[i].broken), false);
        struct qw_ids b = encode(t, row[i].same, strlen(row[i].same), false);
        CHECK(a.len == b.len && memcmp(a.id, b.id, a.len * sizeof(*a.id)) == 0, "row %zu",
              i);
        qw_ids_free(&a);
        qw_ids_free(&b);
    }
    qw_tok_close(t);
}

/* ---- NFC ---- */

static void composition(void)
{
    static const struct {
        const char *text, *nfc;
    } row[] = {
        {"", ""},
        {"plain", "plain"},
        {"e\xcc\x81t\x65\xcc\x81", "\xc3\xa9t\xc3\xa9"},
        {"s\xcc\x87\xcc\xa3", "\xe1\xb9\xa9"}, /* marks in order of their class */
        {"\xe1\xb9\xa9\xcc\xa3", "\xe1\xb9\xa9\xcc\xa3"},
        {"\xc3\x80\xcc\xa3", "\xe1\xba\xa0\xcc\x80"}, /* a mark goes in between */
        {"\xe2\x84\xab \xe2\x84\xa6", "\xc3\x85 \xce\xa9"},
        {"\xef\xac\x81 \xc2\xbd \xe2\x91\xa1", "\xef\xac\x81 \xc2\xbd \xe2\x91\xa1"},
        {"\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8", "\xea\xb0\x81"}, /* Hangul L V T */
        {"\xea\xb0\x80\xe1\x86\xa8", "\xea\xb0\x81"},
        {"\xea\xb0\x80\xe1\x86\xa7", "\xea\xb0\x80\xe1\x86\xa7"}, /* no final */
        {"\xe0\xa4\x95\xe0\xa4\xbc", "\xe0\xa4\x95\xe0\xa4\xbc"}, /* excluded */
        {"\xe0\xa5\x98", "\xe0\xa4\x95\xe0\xa4\xbc"},
        {"\xe3\x81\x8b\xe3\x82\x99", "\xe3\x81\x8c"},
        {"\xcc\x81\x65\xcc\x81", "\xcc\x81\xc3\xa9"},
        {"e\xff\xcc\x81", "e\xff\xcc\x81"}, /* bytes that are no character part it */
        {"e\xcc\x81\xcc", "\xc3\xa9\xcc"},
        {"\xed\xa0\x80\x65\xcc\x81", "\xed\xa0\x80\xc3\xa9"},
    };
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        struct qw_buf out = {0};
        qw_tok_nfc(row[i].text, strlen(row[i].text), &out);
        CHECK(out.len == strlen(row[i].nfc) &&
                  (out.len == 0 || memcmp(out.data, row[i].nfc, out.len) == 0),
              "row %zu: '%s'", i, out.data ? out.data : "");
        qw_buf_free(&out);
    }
}

static void nfc_switch(void)
{
    struct qw_tok *off = tiny_tok(false), *on = tiny_tok(true);
    struct qw_ids a = encode(on, "caf\x65\xcc\x81", 6, false);
    struct qw_ids b = encode(off, "caf\xc3\xa9", 5, false);
    struct qw_ids c = encode(off, "caf\x65\xcc\x81", 6, false);
    CHECK(a.len == b.len && memcmp(a.id, b.id, a.len * sizeof(*a.id)) == 0, "nfc");
    CHECK(c.len != b.len || memcmp(c.id, b.id, c.len * sizeof(*c.id)) != 0, "none");
    qw_ids_free(&a);
    /* a mark behind a special token does not join its last character */
    a = encode(on, "<think>\xcc\xb8", 9, true);
    CHECK(a.len > 1 && a.id[0] == qw_tok_find(on, "<think>"), "cut before composing");
    qw_ids_free(&a);
    qw_ids_free(&b);
    qw_ids_free(&c);
    qw_tok_close(on);
    qw_tok_close(off);
}

static void many_marks(void)
{
    struct qw_buf text = {0}, out = {0};
    unsigned long long seed = 5;
    qw_buf_add(&text, "a", 1);
    while (text.len < LONG_TEXT) { /* U+0300 to U+033F: many classes */
        char c[2] = {(char)0xcc, (char)(0x80 | (check_rand(&seed) & 0x3f))};
        qw_buf_add(&text, c, 2);
    }
    qw_tok_nfc(text.data, text.len, &out);
    CHECK(out.len > text.len - 8 && out.len <= text.len, "%zu of %zu", out.len, text.len);
    text.len = 0;
    qw_tok_nfc(out.data, out.len, &text);
    CHECK(text.len == out.len && memcmp(text.data, out.data, out.len) == 0,
          "composing twice changes nothing");
    qw_buf_free(&text);
    qw_buf_free(&out);
}

/* ---- merges ---- */

static void merge_order(void)
{
    struct vocab v;
    vocab_init(&v);
    int32_t aa = (int32_t)vocab_token(&v, "aa", NORMAL);
    int32_t aaaa = (int32_t)vocab_token(&v, "aaaa", NORMAL);
    int32_t bc = (int32_t)vocab_token(&v, "bc", NORMAL);
    int32_t xyz = (int32_t)vocab_token(&v, "xyz", NORMAL); /* no merge makes it */
    int32_t blanks = (int32_t)vocab_token(&v, "\xc4\xa0\xc4\xa0", NORMAL);
    int32_t again = (int32_t)vocab_token(&v, "bc", NORMAL); /* the lower id wins */
    int32_t pqr = (int32_t)vocab_token(&v, "pqr", NORMAL);
    vocab_merge(&v, "a a");
    vocab_merge(&v, "aa aa");
    vocab_merge(&v, "\xc4\xa0 \xc4\xa0");
    vocab_merge(&v, "b c");
    vocab_merge(&v, "p q");  /* pq is no token */
    vocab_merge(&v, "pq r"); /* but it may become one */
    vocab_merge(&v, "a a");  /* the first of a pair counts */
    struct qw_tok *t = vocab_open(&v);
    IDS(t, "aaa", false, aa, 'a');
    IDS(t, "aaaaaaa", false, aaaa, aa, 'a');
    IDS(t, "bcbc", false, bc, bc);
    IDS(t, "xyz", false, 'x', 'y', 'z');
    IDS(t, "   ", false, blanks, ' ');
    IDS(t, "pq", false, 'p', 'q');
    IDS(t, "pqrpq", false, pqr, 'p', 'q');
    CHECK(again > bc && xyz >= 0, "ids");
    qw_tok_close(t);
}

/* No text makes a special or unused token, whatever the merges say. */
static void merges_to_special(void)
{
    struct vocab v;
    vocab_init(&v);
    uint32_t c = vocab_token(&v, "ab", CONTROL);
    vocab_token(&v, "cd", USER_DEFINED);
    vocab_token(&v, "ef", UNUSED);
    vocab_token(&v, "gh", UNKNOWN);
    int32_t gh = (int32_t)vocab_token(&v, "gh", NORMAL);
    vocab_merge(&v, "a b");
    vocab_merge(&v, "c d");
    vocab_merge(&v, "e f");
    vocab_merge(&v, "g h");
    struct qw_tok *t = vocab_open(&v);
    IDS(t, "abcdefgh", false, 'a', 'b', 'c', 'd', 'e', 'f', gh);
    IDS(t, "abcdefgh", true, (int32_t)c, (int32_t)c + 1, 'e', 'f', gh);
    qw_tok_close(t);
}

/* The rule word for word, in quadratic time: symbols are texts. */
enum { MAX_NAIVE = 256 };
struct naive {
    int n_merges, n_tokens;
    char left[64][48], right[64][48], token[64][48];
};

static int naive_rank(const struct naive *r, const char *a, size_t na, const char *b,
                      size_t nb)
{
    for (int i = 0; i < r->n_merges; i++)
        if (strlen(r->left[i]) == na && strlen(r->right[i]) == nb &&
            memcmp(r->left[i], a, na) == 0 && memcmp(r->right[i], b, nb) == 0)
            return i;
    return r->n_merges;
}

static void naive_encode(const struct naive *r, const char *word, size_t len,
                         struct qw_ids *out)
{
    size_t start[MAX_NAIVE + 1], n = len;
    for (size_t i = 0; i <= len; i++)
        start[i] = i;
    for (;;) {
        int best = r->n_merges;
        size_t at = 0;
        for (size_t i = 0; i + 1 < n; i++) {
            int k = naive_rank(r, word + start[i], start[i + 1] - start[i],
                               word + start[i + 1], start[i + 2] - start[i + 1]);
            if (k < best) {
                best = k;
                at = i;
            }
        }
        if (best == r->n_merges)
            break;
        memmove(&start[at + 1], &start[at + 2], (n - at - 1) * sizeof(start[0]));
        n--;
    }
    for (size_t i = 0; i < n; i++) {
        size_t m = start[i + 1] - start[i];
        int id = -1;
        for (int k = r->n_tokens - 1; k >= 0; k--)
            if (strlen(r->token[k]) == m && memcmp(r->token[k], word + start[i], m) == 0)
                id = 256 + k;
        for (size_t k = 0; id < 0 && k < m; k++)
            qw_ids_add(out, (unsigned char)word[start[i] + k]);
        if (id >= 0)
            qw_ids_add(out, id);
    }
}

/* Random merges over three letters; now and then the result is no token, or there
 * already. */
static struct qw_tok *random_vocab(struct naive *r, unsigned long long *seed)
{
    struct vocab v;
    char part[128][48] = {"a", "b", "c"};
    int parts = 3;
    *r = (struct naive){0};
    vocab_init(&v);
    for (int want = 1 + (int)(check_rand(seed) % 60); r->n_merges < want;) {
        const char *a = part[check_rand(seed) % (unsigned)parts];
        const char *b = part[check_rand(seed) % (unsigned)parts];
        char joined[100], line[100];
        if (strlen(a) + strlen(b) > 20)
            continue;
        snprintf(joined, sizeof(joined), "%s%s", a, b);
        snprintf(line, sizeof(line), "%s %s", a, b);
        snprintf(r->left[r->n_merges], 48, "%s", a);
        snprintf(r->right[r->n_merges++], 48, "%s", b);
        vocab_merge(&v, line);
        snprintf(part[parts++], 48, "%.47s", joined);
        if (check_rand(seed) % 8 != 0) {
            snprintf(r->token[r->n_tokens++], 48, "%.47s", joined);
            vocab_token(&v, joined, NORMAL);
        }
    }
    return vocab_open(&v);
}

static void random_merges(void)
{
    unsigned long long seed = 20261201;
    printf("  seed %llu\n", seed);
    for (int round = 0; round < 60; round++) {
        struct naive r;
        struct qw_tok *t = random_vocab(&r, &seed);
        for (int k = 0; k < 40; k++) {
            char word[MAX_NAIVE];
            size_t len = 1 + check_rand(&seed) % (k % 4 == 0 ? MAX_NAIVE - 1 : 48);
            for (size_t i = 0; i < len; i++)
                word[i] = (char)('a' + check_rand(&seed) % (k % 3 == 0 ? 2 : 3));
            struct qw_ids want = {0}, got = encode(t, word, len, false);
            naive_encode(&r, word, len, &want);
            CHECK(want.len == got.len &&
                      memcmp(want.id, got.id, want.len * sizeof(*want.id)) == 0,
                  "round %d: '%.*s'", round, (int)len, word);
            qw_ids_free(&want);
            qw_ids_free(&got);
        }
        qw_tok_close(t);
    }
}

static void long_words(void)
{
    struct vocab v;
    char *text = malloc(LONG_TEXT);
    MUST(text != NULL, "memory");
    memset(text, 'a', LONG_TEXT);
    vocab_init(&v);
    vocab_token(&v, "aa", NORMAL);
    int32_t four = (int32_t)vocab_token(&v, "aaaa", NORMAL);
    vocab_merge(&v, "a a");
    vocab_merge(&v, "aa aa");
    struct qw_tok *t = vocab_open(&v);
    double start = qw_now();
    struct qw_ids ids = encode(t, text, LONG_TEXT, false);
    printf("  one word of %zu MiB: %.2f s\n", LONG_TEXT / MiB, qw_now() - start);
    CHECK(ids.len == LONG_TEXT / 4 && ids.id[0] == four && ids.id[ids.len - 1] == four,
          "%zu ids", ids.len);
    qw_ids_free(&ids);
    memset(text, ' ', LONG_TEXT);
    start = qw_now();
    ids = encode(t, text, LONG_TEXT, false);
    printf("  as many blanks: %.2f s\n", qw_now() - start);
    CHECK(ids.len == LONG_TEXT, "%zu ids", ids.len);
    qw_ids_free(&ids);
    qw_tok_close(t);
    t = tiny_tok(true);
    for (size_t i = 0; i < LONG_TEXT; i++)
        text[i] = "<|im_start <|im_st"[i % 18];
    start = qw_now();
    ids = encode(t, text, LONG_TEXT, true);
    printf("  beginnings of special tokens: %.2f s\n", qw_now() - start);
    CHECK(ids.len > 0, "ids");
    qw_ids_free(&ids);
    qw_tok_close(t);
    free(text);
}

/* ---- special tokens ---- */

static void longest_first(void)
{
    struct vocab v;
    vocab_init(&v);
    int32_t a = (int32_t)vocab_token(&v, "<a>", CONTROL);
    int32_t ab = (int32_t)vocab_token(&v, "<a><b>", CONTROL);
    int32_t xab = (int32_t)vocab_token(&v, "xab", USER_DEFINED);
    int32_t bccc = (int32_t)vocab_token(&v, "bccc", USER_DEFINED);
    int32_t twice = (int32_t)vocab_token(&v, "<a>", USER_DEFINED);
    int32_t zz = (int32_t)vocab_token(&v, "zz", CONTROL);
    int32_t e1 = (int32_t)vocab_token(&v, "mn", CONTROL);
    int32_t e2 = (int32_t)vocab_token(&v, "no", CONTROL);
    vocab_token(&v, "", CONTROL); /* no text: never found */
    struct qw_tok *t = vocab_open(&v);
    IDS(t, "<a><b>", true, ab);
    IDS(t, "<a><a><b><a>", true, a, ab, a);
    IDS(t, "<a", true, '<', 'a');
    IDS(t, "<a><b", true, a, '<', 'b');
    IDS(t, "xabccc", true, 'x', 'a',
        bccc); /* the longer one cuts first, not the first one */
    IDS(t, "xabcc", true, xab, 'c', 'c');
    IDS(t, "zzz", true, zz, 'z');
    IDS(t, "mno", true, e1, 'o'); /* equal lengths: the lower id */
    IDS(t, "nomno", true, e2, e1, 'o');
    IDS(t, "x <a> y", true, 'x', ' ', a, ' ', 'y');
    IDS(t, "<a><b>", false, '<', 'a', '>', '<', 'b', '>');
    CHECK(twice > a && qw_tok_find(t, "<a>") == a, "the lower id of two");
    CHECK(qw_tok_find(t, "<b>") == -1 && qw_tok_find(t, "a") == -1, "absent");
    qw_tok_close(t);
}

static void user_text(void)
{
    static const char *const named[] = {
        "<|im_end|>",      "<|im_start|>",     "<think>",
        "</think>",        "<tool_call>",      "</tool_call>",
        "<tool_response>", "</tool_response>", "<|endoftext|>"};
    struct qw_tok *t = tiny_tok(true);
    for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++) {
        struct qw_ids ids = encode(t, named[i], strlen(named[i]), false);
        int32_t special = qw_tok_find(t, named[i]);
        CHECK(special >= 0, "%s", named[i]);
        for (size_t k = 0; k < ids.len; k++)
            CHECK(ids.id[k] < 4063, "%s gives %d", named[i], (int)ids.id[k]);
        qw_ids_free(&ids);
        ids = encode(t, named[i], strlen(named[i]), true);
        CHECK(ids.len == 1 && ids.id[0] == special, "%s", named[i]);
        qw_ids_free(&ids);
    }
    qw_tok_close(t);
}

/* Special tokens only inside trusted stretches; words as if one hand had written all. */
static void trusted_spans(void)
{
    struct qw_tok *t = tiny_tok(true);
    static const char text[] = "<think>\nDone.\n</think><think></thi"
                               "nk>";
    const struct qw_span span[] = {{0, 8}, {13, 9}, {29, 5}};
    struct qw_ids ids = {0}, whole = encode(t, text, 22, true);
    qw_tok_encode_spans(t, text, sizeof(text) - 1, span, 3, &ids);
    CHECK(ids.len > whole.len &&
              memcmp(ids.id, whole.id, whole.len * sizeof(*ids.id)) == 0,
          "the beginning");
    for (size_t i = whole.len; i < ids.len; i++)
        CHECK(ids.id[i] < 4063, "a token across the border: %d", (int)ids.id[i]);
    qw_ids_free(&ids);
    qw_ids_free(&whole);
    qw_tok_close(t);
}

static void ends_of_text(void)
{
    struct vocab v;
    vocab_init(&v);
    static const char *const text[] = {"<|endoftext|>", "<|im_end|>",   "<|fim_pad|>",
                                       "<|repo_name|>", "<|file_sep|>", "<|im_start|>"};
    for (size_t i = 0; i < 6; i++)
        vocab_token(&v, text[i], CONTROL);
    v.eos = 65;
    struct qw_tok *t = vocab_open(&v);
    for (int32_t i = 0; i < 5; i++)
        CHECK(qw_tok_is_eog(t, 256 + i), "%s", text[i]);
    CHECK(qw_tok_is_eog(t, 65) && !qw_tok_is_eog(t, 66) && !qw_tok_is_eog(t, 261), "eos");
    CHECK(!qw_tok_is_eog(t, -1) && !qw_tok_is_eog(t, 262), "no token");
    CHECK(qw_tok_is_control(t, 261) && !qw_tok_is_control(t, 65) &&
              !qw_tok_is_control(t, 999),
          "control");
    CHECK(qw_tok_n_vocab(t) == 262, "%d", qw_tok_n_vocab(t));
    qw_tok_close(t);
}

/* ---- streams ---- */

static void feed(struct qw_detok *d, int32_t id, struct qw_buf *out, const char *want)
{
    size_t before = out->len;
    qw_buf_add(out, "", 0);
    qw_detok_feed(d, id, out);
    CHECK(out->len - before == strlen(want) &&
              memcmp(out->data + before, want, strlen(want)) == 0,
          "id %d gives '%s', want '%s'", (int)id, out->data + before, want);
}

static void whole_characters(void)
{
    struct vocab v;
    vocab_init(&v);
    int32_t control = (int32_t)vocab_token(&v, "<|im_end|>", CONTROL);
    int32_t think = (int32_t)vocab_token(&v, "<think>", USER_DEFINED);
    int32_t pad = (int32_t)vocab_token(&v, "[PAD]", UNUSED);
    struct qw_tok *t = vocab_open(&v);
    struct qw_detok d;
    struct qw_buf out = {0};
    qw_detok_init(&d, t, false);
    feed(&d, 0xf0, &out, "");
    feed(&d, 0x9f, &out, "");
    feed(&d, 0x9a, &out, "");
    feed(&d, 0x80, &out, "\xf0\x9f\x9a\x80");
    feed(&d, 0x80, &out, "\x80"); /* can never be completed: out at once */
    feed(&d, 0xff, &out, "\xff");
    feed(&d, 0xc1, &out, "\xc1");
    feed(&d, 0xe2, &out, "");
    feed(&d, 'x', &out, "\xe2x");
    feed(&d, 0xed, &out, "");
    feed(&d, 0xa0, &out, "\xed\xa0"); /* would be a surrogate */
    feed(&d, 0xc3, &out, "");
    feed(&d, control, &out, "");
    feed(&d, pad, &out, "");
    feed(&d, -1, &out, "");
    feed(&d, 99999, &out, "");
    feed(&d, 0xa9, &out, "\xc3\xa9");
    feed(&d, think, &out, "<think>");
    feed(&d, 0xf0, &out, "");
    feed(&d, 0x9f, &out, "");
    out.len = 0;
    qw_detok_flush(&d, &out);
    CHECK_STR(out.data, "\xef\xbf\xbd");
    qw_detok_flush(&d, &out);
    CHECK(out.len == 3, "nothing is held after a flush");
    qw_detok_init(&d, t, true);
    feed(&d, control, &out, "<|im_end|>");
    feed(&d, pad, &out, "");
    qw_buf_free(&out);
    qw_tok_close(t);
}

/* Random valid text in NFC comes back as it was, and each piece of the stream is whole.
 */
static void round_trip(void)
{
    static const uint32_t from[] = {0x20,   0x20,   0x09,   0xa0,    0x3b1,
                                    0x400,  0x5d0,  0x905,  0x1f600, 0x4e00,
                                    0xac00, 0x3041, 0x2010, 0xe000};
    static const uint32_t span[] = {95, 1,  2,    95,   20, 80, 20,
                                    40, 60, 5000, 9000, 80, 20, 50};
    unsigned long long seed = 77;
    struct qw_tok *t = tiny_tok(true);
    printf("  seed %llu\n", seed);
    for (int round = 0; round < 500; round++) {
        struct qw_buf raw = {0}, text = {0};
        for (size_t i = check_rand(&seed) % 60; i > 0; i--) {
            char c[4];
            size_t k = check_rand(&seed) % (sizeof(from) / sizeof(from[0]));
            uint32_t cp = from[k] + (uint32_t)(check_rand(&seed) % span[k]);
            qw_buf_add(&raw, c, qw_tok_put_char(cp, c));
        }
        qw_buf_add(&raw, "", 0);
        qw_buf_add(&text, "", 0);
        qw_tok_nfc(raw.data, raw.len, &text);
        struct qw_ids ids = encode(t, raw.data, raw.len, round % 2 == 0);
        struct qw_buf back = decode(t, &ids);
        CHECK(back.len == text.len && memcmp(back.data, text.data, text.len) == 0,
              "round %d: '%s' comes back as '%s'", round, text.data, back.data);
        qw_buf_free(&raw);
        qw_buf_free(&text);
        qw_buf_free(&back);
        qw_ids_free(&ids);
    }
    qw_tok_close(t);
}

/* ---- files ---- */

static void refuse(const struct vocab *v, const char *what, const char *word)
{
    char path[4096];
    struct qw_tok *t = NULL;
    struct qw_err err = {""};
    temp_path(path);
    vocab_write(v, path);
    int rc = open_tok(path, false, &t, &err);
    CHECK(rc == QW_EFILE && t == NULL, "%s: %d", what, rc);
    CHECK(strstr(err.msg, path) != NULL && strstr(err.msg, what) != NULL &&
              strstr(err.msg, word) != NULL,
          "'%s' should name %s: %s", err.msg, what, word);
    unlink(path);
}

static void bad_vocabularies(void)
{
    struct vocab v;
    vocab_init(&v);
    v.model = "llama";
    refuse(&v, "tokenizer.ggml.model",
           "'llama' is not supported (supported: gpt2, none)");
    v.model = NULL;
    refuse(&v, "tokenizer.ggml.model", "missing");
    v.model = "gpt2";
    v.pre = "qwen2";
    refuse(&v, "tokenizer.ggml.pre", "'qwen2' is not supported (supported: qwen35)");
    v.pre = NULL;
    refuse(&v, "tokenizer.ggml.pre", "missing");
    v.pre = "qwen35";
    v.eos = 256;
    refuse(&v, "tokenizer.ggml.eos_token_id", "256 is out of range");
    v.eos = UINT32_MAX;
    vocab_merge(&v, "a b");
    vocab_merge(&v, "ab");
    refuse(&v, "tokenizer.ggml.merges", "entry 1 is 'ab'");
    vocab_free(&v);
    vocab_init(&v);
    vocab_merge(&v, "a ");
    refuse(&v, "tokenizer.ggml.merges", "entry 0");
    vocab_free(&v);
    vocab_init(&v);
    vocab_merge(&v, " b"); /* the blank is the first byte: it does not part */
    refuse(&v, "tokenizer.ggml.merges", "entry 0");
    vocab_free(&v);
    vocab_init(&v);
    vocab_token(&v, "x", 7);
    refuse(&v, "tokenizer.ggml.token_type", "token 256 has type 7 (allowed: 1 to 6)");
    vocab_free(&v);
    v = (struct vocab){.model = "gpt2", .pre = "qwen35", .eos = UINT32_MAX};
    vocab_token(&v, "a", NORMAL);
    refuse(&v, "tokenizer.ggml.tokens", "no token for byte 0x00");
    vocab_free(&v);
}

/* One key at a time is of another type or missing. */
static void bad_keys(void)
{
    static const char *const name[] = {
        "tokenizer.ggml.tokens", "tokenizer.ggml.token_type", "tokenizer.ggml.merges"};
    for (int bad = 0; bad < 9; bad++) {
        struct ggufw w;
        char path[4096];
        struct qw_tok *t = NULL;
        struct qw_err err = {""};
        const uint32_t one[4] = {1, 0, 0, 0};
        const char *want = bad % 3 == 0   ? "missing"
                           : bad / 3 == 1 ? "array of i32"
                                          : "array of string";
        const char *have = bad % 3 == 0 ? "" : bad % 3 == 1 ? "type u32" : "array of f32";
        gw_init(&w);
        gw_key_str(&w, "tokenizer.ggml.model", "gpt2");
        gw_key_str(&w, "tokenizer.ggml.pre", "qwen35");
        for (int k = 0; k < 3; k++) {
            if (k == bad / 3 && bad % 3 == 0)
                continue;
            if (k == bad / 3 && bad % 3 == 1)
                gw_key_u32(&w, name[k], 1);
            else if (k == bad / 3)
                gw_key_arr(&w, name[k], QW_GGUF_F32, 1, one, 4);
            else if (k == 1)
                gw_key_arr(&w, name[k], QW_GGUF_I32, 1, one, 4);
            else
                gw_key_arr(&w, name[k], QW_GGUF_STR, 1, "\3\0\0\0\0\0\0\0a b", 11);
        }
        temp_path(path);
        gw_write(&w, path, 0);
        CHECK(open_tok(path, false, &t, &err) == QW_EFILE, "%d", bad);
        CHECK(strstr(err.msg, name[bad / 3]) && strstr(err.msg, want) &&
                  strstr(err.msg, have),
              "%s", err.msg);
        unlink(path);
        gw_free(&w);
    }
}

static void ids_only(void)
{
    struct vocab v;
    char path[4096];
    struct qw_err err = {""};
    struct qw_tok *t = (struct qw_tok *)path; /* anything but NULL */
    vocab_init(&v);
    v.model = "none";
    temp_path(path);
    vocab_write(&v, path);
    CHECK(open_tok(path, true, &t, &err) == QW_OK && t == NULL, "%s", err.msg);
    unlink(path);
    vocab_free(&v);
    qw_tok_close(NULL);
}

QW_TESTS(T(golden_ids), T(word_rule), T(broken_utf8), T(composition), T(nfc_switch),
         T(many_marks), T(merge_order), T(merges_to_special), T(random_merges),
         T(long_words), T(longest_first), T(user_text), T(trusted_spans), T(ends_of_text),
         T(whole_characters), T(round_trip), T(bad_vocabularies), T(bad_keys),
         T(ids_only))
