/* SPDX-License-Identifier: MIT */
#include "tok_split.h"

#include <string.h>
#include <utf8proc.h>

enum class { END, LETTER, MARK, NUMBER, SPACE, OTHER };

/* A character in its text; END with no bytes behind the last one. */
struct at {
    uint32_t cp;
    enum class class;
    size_t pos, bytes;
};

size_t qw_tok_char(const char *text, size_t len, uint32_t *cp)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t n = s[0] < 0x80                    ? 1
               : s[0] >= 0xc0 && s[0] <= 0xdf ? 2
               : s[0] >= 0xe0 && s[0] <= 0xef ? 3
               : s[0] >= 0xf0 && s[0] <= 0xf7 ? 4
                                              : 0;
    uint32_t v = n == 1 ? s[0] : s[0] & (0x7fu >> n);
    bool good = n > 0 && n <= len;
    for (size_t i = 1; good && i < n; i++) {
        good = (s[i] & 0xc0) == 0x80;
        v = v << 6 | (s[i] & 0x3f);
    }
    *cp = good ? v : 0xfffd;
    return good ? n : 1;
}

size_t qw_tok_put_char(uint32_t cp, char out[4])
{
    size_t n = cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (cp & 0x3f));
        cp >>= 6;
    }
    out[0] = (char)(lead[n] | cp);
    return n;
}

/* Bytes of the character, 0 unless writing it anew gives the same bytes. */
static size_t clean_char(const char *text, size_t len)
{
    uint32_t cp;
    char again[4];
    size_t n = qw_tok_char(text, len, &cp);
    return qw_tok_put_char(cp, again) == n && memcmp(again, text, n) == 0 ? n : 0;
}

/* Length of the clean beginning of text. */
static size_t clean_part(const char *text, size_t len)
{
    size_t i = 0, n;
    while (i < len) {
        n = (unsigned char)text[i] < 0x80 ? 1 : clean_char(text + i, len - i);
        if (n == 0)
            break;
        i += n;
    }
    return i;
}

bool qw_tok_is_clean(const char *text, size_t len)
{
    return clean_part(text, len) == len;
}

void qw_tok_clean(const char *text, size_t len, struct qw_buf *out)
{
    while (len > 0) {
        uint32_t cp;
        char c[4];
        size_t n = clean_part(text, len);
        qw_buf_add(out, text, n);
        text += n;
        len -= n;
        if (len == 0)
            break;
        n = qw_tok_char(text, len, &cp);
        qw_buf_add(out, c, qw_tok_put_char(cp, c));
        text += n;
        len -= n;
    }
}

void qw_tok_valid(const char *text, size_t len, struct qw_buf *out)
{
    qw_buf_add(out, "", 0);
    while (len > 0) {
        int32_t cp;
        utf8proc_ssize_t n = utf8proc_iterate((const unsigned char *)text,
                                              len > 4 ? 4 : (utf8proc_ssize_t)len, &cp);
        if (n > 0)
            qw_buf_add(out, text, (size_t)n);
        else
            qw_buf_add(out, "\xef\xbf\xbd", 3);
        n = n > 0 ? n : 1;
        text += n;
        len -= (size_t)n;
    }
}

/* White space of the word rule: a fixed set, not a category. */
static bool is_space(uint32_t c)
{
    return (c >= 0x09 && c <= 0x0d) || c == 0x20 || c == 0x85 || c == 0xa0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}

bool qw_tok_is_strippable(uint32_t cp)
{
    return is_space(cp) || (cp >= 0x1c && cp <= 0x1f);
}

static enum class class_of(uint32_t c) {
    if (c < 0x80){uint32_t letter = c | 0x20; return letter >= 'a' && letter <= 'z'
                                                         ? LETTER
                                                     : c >= '0' && c <= '9' ? NUMBER
                                                     : is_space(c)          ? SPACE
                                                                            : OTHER;}
if (is_space(c)) return SPACE;
switch (utf8proc_category((utf8proc_int32_t)c)) {
case UTF8PROC_CATEGORY_LU:
case UTF8PROC_CATEGORY_LL:
case UTF8PROC_CATEGORY_LT:
case UTF8PROC_CATEGORY_LM:
case UTF8PROC_CATEGORY_LO:
    return LETTER;
case UTF8PROC_CATEGORY_MN:
case UTF8PROC_CATEGORY_MC:
case UTF8PROC_CATEGORY_ME:
    return MARK;
case UTF8PROC_CATEGORY_ND:
case UTF8PROC_CATEGORY_NL:
case UTF8PROC_CATEGORY_NO:
    return NUMBER;
default:
    return OTHER;
}
}

static struct at look(const char *text, size_t len, size_t pos)
{
    struct at a = {0, END, pos, 0};
    if (pos < len) {
        a.bytes = qw_tok_char(text + pos, len - pos, &a.cp);
        a.class = class_of(a.cp);
    }
    return a;
}

static struct at next(const char *text, size_t len, struct at a)
{
    return look(text, len, a.pos + a.bytes);
}

static bool is_letter(struct at a) /* marks go with letters */
{
    return a.class == LETTER || a.class == MARK;
}

static bool is_newline(struct at a)
{
    return a.class == SPACE && (a.cp == '\r' || a.cp == '\n');
}

static uint32_t fold(struct at a)
{
    if (a.cp >= 'A' && a.cp <= 'Z')
        return a.cp | 0x20;
    return a.cp == 0x212a ? 'k'
                          : a.cp; /* the Kelvin sign, as the rule's case folding has it */
}

/* 's 't 'm 'd 're 've 'll at the beginning, in either case; 0 where there is none. */
static size_t contraction(const char *text, size_t len)
{
    struct at a = look(text, len, 1);
    if (a.class == END)
        return 0;
    struct at b = next(text, len, a);
    uint32_t f = fold(a), g = b.class == END ? 0 : fold(b);
    if (f == 's' || f == 't' || f == 'm' || f == 'd')
        return b.pos;
    if ((f == 'r' && g == 'e') || (f == 'v' && g == 'e') || (f == 'l' && g == 'l'))
        return b.pos + b.bytes;
    return 0;
}

/* A run of white space: up to its last line break; else all but its last blank, which
 * goes with the next word; else all of it. */
static size_t spaces(const char *text, size_t len, struct at a)
{
    size_t broken = 0, last = 0;
    for (; a.class == SPACE; a = next(text, len, a)) {
        if (is_newline(a))
            broken = a.pos + a.bytes;
        last = a.pos;
    }
    if (broken > 0)
        return broken;
    return last > 0 && a.class != END ? last : a.pos;
}

size_t qw_tok_word(const char *text, size_t len)
{
    struct at a = look(text, len, 0), b = next(text, len, a);
    size_t n = a.cp == '\'' ? contraction(text, len) : 0;
    if (n > 0)
        return n;
    if (!is_newline(a) && a.class != NUMBER && (is_letter(a) || is_letter(b))) {
        while (is_letter(b))
            b = next(text, len, b);
        return b.pos;
    }
    if (a.class == NUMBER)
        return a.bytes;
    struct at c = a.cp == ' ' ? b : a;
    if (c.class == OTHER) {
        while (c.class == OTHER)
            c = next(text, len, c);
        while (is_newline(c))
            c = next(text, len, c);
        return c.pos;
    }
    return spaces(text, len, a); /* nothing but white space gets here */
}
