/* SPDX-License-Identifier: MIT */
/* tok_nfc.c - canonical composition as a stream: one starter and the marks behind it are
 * held. utf8proc gives the data and composes pairs; the order of marks is ours, because a
 * library call on a whole text sorts a run of marks in quadratic time. */
#include "tok_split.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum {
    SMALL = 32, /* marks up to here are sorted by insertion */
    MAX_DECOMPOSED = 32,
};

/* Both ways: what comes apart is put together again below. */
static const utf8proc_option_t nfc_option =
    (utf8proc_option_t)(UTF8PROC_COMPOSE | UTF8PROC_STABLE);

struct mark {
    int32_t cp;
    uint8_t order; /* combining class, not 0 */
};
struct nfc {
    struct qw_buf *out;
    bool have_starter, whole; /* whole: the starter is not yet decomposed */
    int32_t starter;
    struct mark *mark, *spare; /* room for cap each */
    size_t n, cap;
};

static void put(struct nfc *s, int32_t cp)
{
    char c[4];
    qw_buf_add(s->out, c, qw_tok_put_char((uint32_t)cp, c));
}

/* Stable, by combining class, in linear time. */
static void count_marks(struct nfc *s)
{
    size_t at[257] = {0};
    for (size_t i = 0; i < s->n; i++)
        at[s->mark[i].order + 1]++;
    for (int c = 1; c < 257; c++)
        at[c] += at[c - 1];
    for (size_t i = 0; i < s->n; i++)
        s->spare[at[s->mark[i].order]++] = s->mark[i];
    memcpy(s->mark, s->spare, s->n * sizeof(s->mark[0]));
}

/* The same: insertion for what people write, counting for what they don't. */
static void sort_marks(struct nfc *s)
{
    if (s->n > SMALL) {
        count_marks(s);
        return;
    }
    for (size_t i = 1; i < s->n; i++) {
        struct mark m = s->mark[i];
        size_t j = i;
        for (; j > 0 && s->mark[j - 1].order > m.order; j--)
            s->mark[j] = s->mark[j - 1];
        s->mark[j] = m;
    }
}

/* The primary composite of two characters, 0 where there is none. */
static int32_t compose(int32_t a, int32_t b)
{
    int32_t pair[2] = {a, b};
    if (b == 0x11a7) /* one below the Hangul finals: not one of them */
        return 0;
    return utf8proc_normalize_utf32(pair, 2, nfc_option) == 1 ? pair[0] : 0;
}

/* Put the held marks in order and join to the starter what is not blocked. */
static void settle_marks(struct nfc *s)
{
    size_t kept = 0;
    uint8_t last = 0;
    sort_marks(s);
    for (size_t i = 0; i < s->n; i++) {
        struct mark m = s->mark[i];
        int32_t joined =
            s->have_starter && last < m.order ? compose(s->starter, m.cp) : 0;
        if (joined != 0) {
            s->starter = joined;
        } else {
            s->mark[kept++] = m;
            last = m.order;
        }
    }
    s->n = kept;
}

static void release(struct nfc *s)
{
    if (s->have_starter)
        put(s, s->starter);
    for (size_t i = 0; i < s->n; i++)
        put(s, s->mark[i].cp);
    s->have_starter = s->whole = false;
    s->n = 0;
}

static void flush(struct nfc *s)
{
    if (s->n > 0)
        settle_marks(s);
    release(s);
}

static void hold_mark(struct nfc *s, int32_t cp, uint8_t order)
{
    if (s->n == s->cap) {
        s->cap = s->cap ? s->cap * 2 : SMALL;
        s->mark = qw_realloc(s->mark, s->cap, sizeof(*s->mark));
        s->spare = qw_realloc(s->spare, s->cap, sizeof(*s->spare));
    }
    s->mark[s->n++] = (struct mark){cp, order};
}

static void add_decomposed(struct nfc *s, int32_t cp)
{
    uint8_t order = (uint8_t)utf8proc_get_property(cp)->combining_class;
    int32_t joined = 0;
    if (order != 0) {
        hold_mark(s, cp, order);
        return;
    }
    if (s->n > 0)
        settle_marks(s);
    if (s->have_starter && s->n == 0)
        joined = compose(s->starter, cp);
    if (joined != 0) {
        s->starter = joined;
        return;
    }
    release(s);
    s->starter = cp;
    s->have_starter = true;
}

/* Its own NFC, a starter, and never the second of a pair: what is before it is done. So
 * are ASCII, Latin, most of Cyrillic, punctuation, kana, Han, Hangul syllables. */
static bool is_plain(int32_t c)
{
    return c < 0x300 || (c >= 0x400 && c <= 0x482) || (c >= 0x2010 && c <= 0x205f) ||
           (c >= 0x3001 && c <= 0x3029) || (c >= 0x3041 && c <= 0x3096) ||
           (c >= 0x30a1 && c <= 0x30fa) || (c >= 0x4e00 && c <= 0x9fff) ||
           (c >= 0xac00 && c <= 0xd7a3) || (c >= 0xff01 && c <= 0xff60);
}

static void decompose(struct nfc *s, int32_t cp)
{
    int32_t part[MAX_DECOMPOSED];
    utf8proc_ssize_t n =
        utf8proc_decompose_char(cp, part, MAX_DECOMPOSED, nfc_option, NULL);
    if (n < 1 || n > MAX_DECOMPOSED) { /* no canonical mapping is that long */
        part[0] = cp;
        n = 1;
    }
    for (utf8proc_ssize_t i = 0; i < n; i++)
        add_decomposed(s, part[i]);
}

static void add(struct nfc *s, int32_t cp)
{
    if (is_plain(cp)) {
        flush(s);
        s->starter = cp;
        s->have_starter = s->whole = true;
        return;
    }
    if (s->whole) { /* a mark may come between the parts of the starter */
        s->whole = s->have_starter = false;
        decompose(s, s->starter);
    }
    decompose(s, cp);
}

/* Plain ASCII at the beginning, without its last character: that one may take a mark. */
static size_t ascii_run(const char *text, size_t len)
{
    size_t n = 0;
    while (n < len && (unsigned char)text[n] < 0x80)
        n++;
    return n == len ? n : n > 0 ? n - 1 : 0;
}

void qw_tok_nfc(const char *text, size_t len, struct qw_buf *out)
{
    struct nfc s = {.out = out};
    while (len > 0) {
        size_t n = ascii_run(text, len);
        if (n > 0) {
            flush(&s);
            qw_buf_add(out, text, n);
        } else {
            int32_t cp;
            utf8proc_ssize_t got = utf8proc_iterate(
                (const unsigned char *)text, len > 4 ? 4 : (utf8proc_ssize_t)len, &cp);
            n = got > 0 ? (size_t)got : 1;
            if (got > 0) {
                add(&s, cp);
            } else {
                flush(&s);
                qw_buf_add(out, text, 1);
            }
        }
        text += n;
        len -= n;
    }
    flush(&s);
    free(s.mark);
    free(s.spare);
}
