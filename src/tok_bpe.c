/* SPDX-License-Identifier: MIT */
#include "tok_bpe.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "tok_split.h"

enum {
    SHORT_WORD = 40, /* bytes; up to here a scan beats the heap */
    ARENA = 1 << 16, /* bytes of a block for texts that only merges make */
    NO_SYMBOL = -1,
};
#define LONG_WORD                                                                        \
    ((size_t)1 << 31) /* bytes; a longer word is cut there: places fit 32 bits */

/* A symbol is a distinct text: a token, or one that only merges know (id -1). */
struct slot {
    const char *text; /* NULL where free */
    uint32_t len;
    int32_t symbol;
};
struct pair {
    uint64_t key; /* left symbol << 32 | right symbol */
    int32_t rank, result;
};
static const struct pair no_pair = {0, INT32_MAX, NO_SYMBOL};

struct block {
    struct block *next;
    size_t used, size;
    char data[];
};

struct qw_bpe {
    uint64_t seed; /* drawn at random: a file must not be able to aim at the hash */
    struct pair *pair;
    size_t pair_mask;
    int32_t *id;       /* of each symbol */
    int32_t byte[256]; /* symbol of each byte */
    size_t n_symbols, cap_symbols;
    struct slot *slot;   /* texts to symbols; while building */
    struct qw_str *text; /* of each symbol; while building */
    size_t slot_mask;
    int32_t expected;     /* the symbol that the next merge should make; while building */
    struct block *blocks; /* texts of our own; while building */
};

/* ---- alphabet ---- */

static bool stands_for_itself(unsigned b)
{
    return (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
}

/* The bytes that do not stand for themselves, in order, are the characters from U+0100
 * on. */
static uint32_t letter_of(unsigned b)
{
    if (stands_for_itself(b))
        return b;
    return 0x100 + (b <= 0x20 ? b : b <= 0xa0 ? b - 0x7f + 0x21 : 0x43);
}

size_t qw_bpe_spell(unsigned char byte, char out[4])
{
    return qw_tok_put_char(letter_of(byte), out);
}

int qw_bpe_byte(uint32_t cp)
{
    if (cp < 0x100)
        return stands_for_itself(cp) ? (int)cp : -1;
    cp -= 0x100;
    return cp <= 0x20   ? (int)cp
           : cp < 0x43  ? (int)(cp - 0x21 + 0x7f)
           : cp == 0x43 ? 0xad
                        : -1;
}

/* ---- texts to symbols ---- */

static uint64_t mix(uint64_t h)
{
    h ^= h >> 32;
    h *= UINT64_C(0xd6e8feb86659fd93);
    return h ^ (h >> 32);
}

static size_t hash_text(const struct qw_bpe *b, struct qw_str s)
{
    uint64_t h = b->seed + s.len;
    for (size_t i = 0; i < s.len; i += 8) {
        uint64_t word = 0;
        memcpy(&word, s.data + i, s.len - i < 8 ? s.len - i : 8);
        h = mix(h ^ word) + b->seed;
    }
    return (size_t)mix(h);
}

/* Where the text is, or the free slot where it belongs. */
static struct slot *find_slot(const struct qw_bpe *b, struct qw_str text)
{
    size_t i = hash_text(b, text) & b->slot_mask;
    while (b->slot[i].text != NULL && (b->slot[i].len != text.len ||
                                       memcmp(b->slot[i].text, text.data, text.len) != 0))
        i = (i + 1) & b->slot_mask;
    return &b->slot[i];
}

static size_t power_of_two(size_t n)
{
    size_t p = 16;
    while (p < n)
        p *= 2;
    return p;
}

/* Room for cap symbols, half of the slots free. */
static void grow(struct qw_bpe *b, size_t cap)
{
    struct slot *old = b->slot;
    size_t n_old = old != NULL ? b->slot_mask + 1 : 0;
    b->cap_symbols = cap;
    b->id = qw_realloc(b->id, cap, sizeof(*b->id));
    b->text = qw_realloc(b->text, cap, sizeof(*b->text));
    b->slot_mask = power_of_two(cap * 2) - 1;
    b->slot = qw_alloc(b->slot_mask + 1, sizeof(*b->slot));
    for (size_t i = 0; i < n_old; i++)
        if (old[i].text != NULL)
            *find_slot(b, (struct qw_str){old[i].text, old[i].len}) = old[i];
    free(old);
}

static int32_t symbol_of(struct qw_bpe *b, struct qw_str text)
{
    struct slot *s = find_slot(b, text);
    if (s->text != NULL)
        return s->symbol;
    if (b->n_symbols == b->cap_symbols) {
        grow(b, b->cap_symbols * 2);
        s = find_slot(b, text);
    }
    *s = (struct slot){text.data, (uint32_t)text.len, (int32_t)b->n_symbols};
    b->id[b->n_symbols] = -1;
    b->text[b->n_symbols] = text;
    return (int32_t)b->n_symbols++;
}

static char *room(struct qw_bpe *b, size_t len)
{
    if (b->blocks == NULL || b->blocks->size - b->blocks->used < len) {
        size_t size = len > ARENA ? len : ARENA;
        struct block *k = qw_alloc(1, sizeof(*k) + size);
        *k = (struct block){.next = b->blocks, .size = size};
        b->blocks = k;
    }
    return b->blocks->data + b->blocks->used;
}

/* Whether a symbol's text is that of the two texts in a row. */
static bool is_joined(const struct qw_bpe *b, int32_t symbol, struct qw_str left,
                      struct qw_str right)
{
    if ((size_t)symbol >= b->n_symbols)
        return false;
    struct qw_str text = b->text[symbol];
    return text.len == left.len + right.len &&
           memcmp(text.data, left.data, left.len) == 0 &&
           memcmp(text.data + left.len, right.data, right.len) == 0;
}

/* The symbol of two texts in a row; a copy is kept only when it is new. Files have tokens
 * in the order of their merges, so the one after the last result is tried first. */
static int32_t joined_symbol(struct qw_bpe *b, struct qw_str left, struct qw_str right)
{
    int32_t symbol = b->expected;
    if (!is_joined(b, symbol, left, right)) {
        size_t n = b->n_symbols;
        struct qw_str text = {room(b, left.len + right.len), left.len + right.len};
        memcpy(b->blocks->data + b->blocks->used, left.data, left.len);
        memcpy(b->blocks->data + b->blocks->used + left.len, right.data, right.len);
        symbol = symbol_of(b, text);
        if (b->n_symbols > n)
            b->blocks->used += text.len;
    }
    b->expected = symbol + 1;
    return symbol;
}

/* ---- pairs ---- */

static uint64_t pair_key(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

static struct pair *find_pair(const struct qw_bpe *b, uint64_t key)
{
    size_t i = (size_t)mix((key ^ b->seed) * UINT64_C(0x9e3779b97f4a7c15)) & b->pair_mask;
    while (b->pair[i].result != NO_SYMBOL && b->pair[i].key != key)
        i = (i + 1) & b->pair_mask;
    return &b->pair[i];
}

/* What two neighbours become; rank INT32_MAX where they do not merge. */
static const struct pair *merge_of(const struct qw_bpe *b, int32_t left, int32_t right)
{
    const struct pair *p = find_pair(b, pair_key(left, right));
    return p->result != NO_SYMBOL ? p : &no_pair;
}

/* ---- building ---- */

static uint64_t draw_seed(const void *fallback)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != (ssize_t)sizeof(seed))
        seed = (uint64_t)(uintptr_t)fallback; /* better than none */
    return seed | 1;
}

struct qw_bpe *qw_bpe_new(size_t n_tokens, size_t n_merges)
{
    struct qw_bpe *b = qw_alloc(1, sizeof(*b));
    b->seed = draw_seed(b);
    grow(b, n_tokens + 256);
    b->pair_mask = power_of_two(n_merges * 2) - 1;
    b->pair = qw_alloc(b->pair_mask + 1, sizeof(*b->pair));
    for (size_t i = 0; i <= b->pair_mask; i++)
        b->pair[i] = no_pair;
    return b;
}

static void free_building(struct qw_bpe *b)
{
    for (struct block *k = b->blocks, *next; k != NULL; k = next) {
        next = k->next;
        free(k);
    }
    free(b->slot);
    free(b->text);
    b->blocks = NULL;
    b->slot = NULL;
    b->text = NULL;
}

void qw_bpe_free(struct qw_bpe *b)
{
    if (b == NULL)
        return;
    free_building(b);
    free(b->pair);
    free(b->id);
    free(b);
}

void qw_bpe_token(struct qw_bpe *b, struct qw_str text, int32_t id)
{
    int32_t s = symbol_of(b, text);
    if (b->id[s] < 0)
        b->id[s] = id;
}

void qw_bpe_merge(struct qw_bpe *b, struct qw_str left, struct qw_str right, int32_t rank)
{
    uint64_t key = pair_key(symbol_of(b, left), symbol_of(b, right));
    struct pair *p = find_pair(b, key);
    if (p->result == NO_SYMBOL)
        *p = (struct pair){key, rank, joined_symbol(b, left, right)};
}

int qw_bpe_ready(struct qw_bpe *b)
{
    int missing = -1;
    for (int i = 255; i >= 0; i--) {
        char c[4];
        const struct qw_str text = {c, qw_bpe_spell((unsigned char)i, c)};
        const struct slot *s = find_slot(b, text);
        b->byte[i] = s->text != NULL ? s->symbol : NO_SYMBOL;
        if (s->text == NULL || b->id[s->symbol] < 0)
            missing = i;
    }
    free_building(b);
    return missing;
}

/* ---- encoding ---- */

static void emit(const struct qw_bpe *b, int32_t symbol, const char *bytes, size_t len,
                 struct qw_ids *out)
{
    if (b->id[symbol] >= 0) {
        qw_ids_add(out, b->id[symbol]);
        return;
    }
    for (size_t i = 0; i < len; i++)
        qw_ids_add(out, b->id[b->byte[(unsigned char)bytes[i]]]);
}

/* Symbols side by side; merge[i] joins i and i + 1. */
struct row {
    size_t n;
    int32_t symbol[SHORT_WORD];
    size_t start[SHORT_WORD + 1];
    const struct pair *merge[SHORT_WORD];
};

static void close_gap(struct row *r, size_t i)
{
    size_t after = r->n - i - 2; /* symbols to the right of the pair */
    memmove(&r->symbol[i + 1], &r->symbol[i + 2], after * sizeof(r->symbol[0]));
    memmove(&r->start[i + 1], &r->start[i + 2], (after + 1) * sizeof(r->start[0]));
    memmove(&r->merge[i], &r->merge[i + 1], (after + 1) * sizeof(r->merge[0]));
    r->n--;
}

static void encode_short(const struct qw_bpe *b, const char *word, size_t len,
                         struct qw_ids *out)
{
    struct row r = {.n = len};
    for (size_t i = 0; i < len; i++) {
        r.symbol[i] = b->byte[(unsigned char)word[i]];
        r.start[i] = i;
        if (i > 0)
            r.merge[i - 1] = merge_of(b, r.symbol[i - 1], r.symbol[i]);
    }
    r.start[len] = len;
    r.merge[len - 1] = &no_pair;
    for (;;) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < r.n; i++)
            if (r.merge[i]->rank < r.merge[best]->rank)
                best = i;
        const struct pair *p = r.merge[best];
        if (p == &no_pair)
            break;
        close_gap(&r, best);
        r.symbol[best] = p->result;
        if (best > 0)
            r.merge[best - 1] = merge_of(b, r.symbol[best - 1], r.symbol[best]);
        r.merge[best] =
            best + 1 < r.n ? merge_of(b, r.symbol[best], r.symbol[best + 1]) : &no_pair;
    }
    for (size_t i = 0; i < r.n; i++)
        emit(b, r.symbol[i], word + r.start[i], r.start[i + 1] - r.start[i], out);
}

/* A symbol of a long word stands at the place of its first byte. */
struct node {
    uint32_t prev, next; /* places; the word's length where there is none */
    int32_t symbol;      /* NO_SYMBOL once it went into its left neighbour */
};
/* Merges to try, lowest rank and then leftmost first: rank << 32 | place. An entry whose
 * pair has changed since is passed over when it comes up. Four children a node: fewer far
 * reads. */
struct heap {
    uint64_t *entry;
    size_t n, cap;
};

static void sift_down(struct heap *h, size_t i)
{
    uint64_t e = h->entry[i];
    for (;;) {
        size_t child = 4 * i + 1, end = child + 4 < h->n ? child + 4 : h->n,
               least = child;
        if (child >= h->n)
            break;
        for (size_t k = child + 1; k < end; k++)
            if (h->entry[k] < h->entry[least])
                least = k;
        if (h->entry[least] >= e)
            break;
        h->entry[i] = h->entry[least];
        i = least;
    }
    h->entry[i] = e;
}

static void append(struct heap *h, uint64_t e)
{
    if (h->n == h->cap) {
        h->cap = h->cap ? h->cap + h->cap / 2 : 256;
        h->entry = qw_realloc(h->entry, h->cap, sizeof(*h->entry));
    }
    h->entry[h->n++] = e;
}

static void push(struct heap *h, uint64_t e)
{
    append(h, e);
    size_t i = h->n - 1;
    for (; i > 0 && h->entry[(i - 1) / 4] > e; i = (i - 1) / 4)
        h->entry[i] = h->entry[(i - 1) / 4];
    h->entry[i] = e;
}

static uint64_t pop(struct heap *h)
{
    uint64_t e = h->entry[0];
    h->entry[0] = h->entry[--h->n];
    if (h->n > 0)
        sift_down(h, 0);
    return e;
}

static uint64_t heap_entry(const struct pair *p, size_t place)
{
    return (uint64_t)(uint32_t)p->rank << 32 | place;
}

/* The merge of a place with what is right of it now. */
static const struct pair *merge_at(const struct qw_bpe *b, const struct node *node,
                                   size_t len, size_t i)
{
    if (node[i].symbol == NO_SYMBOL || node[i].next >= len)
        return &no_pair;
    return merge_of(b, node[i].symbol, node[node[i].next].symbol);
}

static void try_later(const struct qw_bpe *b, const struct node *node, size_t len,
                      size_t i, struct heap *h)
{
    const struct pair *p = merge_at(b, node, len, i);
    if (p != &no_pair)
        push(h, heap_entry(p, i));
}

static void merge_long(const struct qw_bpe *b, struct node *node, size_t len,
                       struct heap *h)
{
    while (h->n > 0) {
        uint64_t e = pop(h);
        size_t i = (uint32_t)e;
        const struct pair *p = merge_at(b, node, len, i);
        if (p == &no_pair || heap_entry(p, i) != e)
            continue;
        size_t gone = node[i].next;
        node[i].symbol = p->result;
        node[i].next = node[gone].next;
        node[gone].symbol = NO_SYMBOL;
        if (node[i].next < len)
            node[node[i].next].prev = (uint32_t)i;
        if (node[i].prev < len)
            try_later(b, node, len, node[i].prev, h);
        try_later(b, node, len, i, h);
    }
}

static void encode_long(const struct qw_bpe *b, const char *word, size_t len,
                        struct qw_ids *out)
{
    struct node *node = qw_alloc(len, sizeof(*node));
    struct heap h = {0};
    for (size_t i = 0; i < len; i++)
        node[i] = (struct node){(uint32_t)(i > 0 ? i - 1 : len), (uint32_t)i + 1,
                                b->byte[(unsigned char)word[i]]};
    for (size_t i = 0; i < len; i++) {
        const struct pair *p = merge_at(b, node, len, i);
        if (p != &no_pair)
            append(&h, heap_entry(p, i));
    }
    for (size_t i = h.n / 4 + 1; i-- > 0;)
        if (i < h.n)
            sift_down(&h, i);
    merge_long(b, node, len, &h);
    for (size_t i = 0; i < len; i = node[i].next)
        emit(b, node[i].symbol, word + i, node[i].next - i, out);
    free(node);
    free(h.entry);
}

void qw_bpe_encode(const struct qw_bpe *b, const char *word, size_t len,
                   struct qw_ids *out)
{
    for (; len > LONG_WORD; word += LONG_WORD, len -= LONG_WORD)
        encode_long(b, word, LONG_WORD, out);
    if (len > SHORT_WORD)
        encode_long(b, word, len, out);
    else if (len > 0)
        encode_short(b, word, len, out);
}
