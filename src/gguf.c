/* SPDX-License-Identifier: MIT */
#include "gguf.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gguf_watch.h"
#include "quant.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the reader takes numbers from the file as they lie: it needs a little-endian host"
#endif

enum {
    HEADER_BYTES = 24,
    MAX_ENTRIES = 65536,   /* keys, and tensors */
    MIN_KEY_BYTES = 14,    /* length, one letter, type, one byte of value */
    MIN_TENSOR_BYTES = 33, /* length, one letter, n_dims, one dim, type, offset */
    MAX_KEY_NAME = 65535,
    MAX_TENSOR_NAME = 63,
    MAX_DIMS = 4,
    SHOWN = 256, /* bytes of a name in a message, escapes included */
};
#define MAX_VALUE (UINT64_C(1) << 30)    /* bytes of a string, elements of an array */
#define MAX_ELEMENTS (UINT64_C(1) << 40) /* of a tensor */

/* Open addressing over names; at = index + 1, 0 where free. */
struct slot {
    uint32_t tag, at;
};
struct index {
    struct slot *slot;
    size_t mask;
};

struct qw_gguf {
    char *path;
    char label[512]; /* the path, fit for a message */
    int fd;
    const unsigned char *map;
    uint64_t size, alignment, seed;
    struct timespec written;
    uint32_t version;
    struct qw_gguf_key *keys;
    struct qw_gguf_tensor *tensors;
    uint64_t *offsets; /* as the file gives them; only needed while it is checked */
    size_t n_keys, n_tensors;
    struct index key_index, tensor_index;
};

/* A place in the file; left() bytes may still be read. */
struct cursor {
    const unsigned char *map;
    uint64_t pos, size;
};

static const struct {
    const char *name;
    uint8_t bytes; /* of an element; of a string at least, 0 where it cannot be one */
} value_types[] = {
    [QW_GGUF_U8] = {"u8", 1},      [QW_GGUF_I8] = {"i8", 1},
    [QW_GGUF_U16] = {"u16", 2},    [QW_GGUF_I16] = {"i16", 2},
    [QW_GGUF_U32] = {"u32", 4},    [QW_GGUF_I32] = {"i32", 4},
    [QW_GGUF_F32] = {"f32", 4},    [QW_GGUF_BOOL] = {"bool", 1},
    [QW_GGUF_STR] = {"string", 8}, [QW_GGUF_ARR] = {"array", 0},
    [QW_GGUF_U64] = {"u64", 8},    [QW_GGUF_I64] = {"i64", 8},
    [QW_GGUF_F64] = {"f64", 8},
};
enum { N_VALUE_TYPES = sizeof(value_types) / sizeof(value_types[0]) };

static int bad(const struct qw_gguf *g, struct qw_err *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static int bad(const struct qw_gguf *g, struct qw_err *err, const char *fmt, ...)
{
    char text[1400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    return qw_fail(err, QW_EFILE, "%s: %s", g->label, text);
}

const char *qw_gguf_type_name(enum qw_gguf_type t)
{
    return (unsigned)t < N_VALUE_TYPES ? value_types[t].name : "unknown";
}

/* "u32" or "array of u32", for messages. */
static const char *describe(const struct qw_gguf_key *k, char text[32])
{
    snprintf(text, 32, "%s%s", k->type == QW_GGUF_ARR ? "array of " : "",
             qw_gguf_type_name(k->elem));
    return text;
}

/* ---- bytes ---- */

static uint64_t left(const struct cursor *c)
{
    return c->size - c->pos;
}

static const unsigned char *take(struct cursor *c, uint64_t n)
{
    if (n > left(c))
        return NULL;
    const unsigned char *p = c->map + c->pos;
    c->pos += n;
    return p;
}

static bool take_u32(struct cursor *c, uint32_t *out)
{
    const unsigned char *p = take(c, sizeof(*out));
    if (p != NULL)
        memcpy(out, p, sizeof(*out));
    return p != NULL;
}

static bool take_u64(struct cursor *c, uint64_t *out)
{
    const unsigned char *p = take(c, sizeof(*out));
    if (p != NULL)
        memcpy(out, p, sizeof(*out));
    return p != NULL;
}

static int cut(const struct qw_gguf *g, const char *place, struct qw_err *err)
{
    return bad(g, err, "%s: the file ends inside it (%" PRIu64 " bytes)", place, g->size);
}

static int take_name(const struct qw_gguf *g, struct cursor *c, const char *place,
                     uint64_t max, struct qw_str *out, struct qw_err *err)
{
    uint64_t len;
    if (!take_u64(c, &len))
        return cut(g, place, err);
    if (len > left(c))
        return bad(g, err,
                   "%s: its name is said to have %" PRIu64 " bytes, %" PRIu64 " are left",
                   place, len, left(c));
    if (len == 0 || len > max)
        return bad(g, err,
                   "%s: its name has %" PRIu64 " bytes (allowed: 1 to %" PRIu64 ")",
                   place, len, max);
    out->len = (size_t)len;
    out->data = (const char *)take(c, len);
    if (memchr(out->data, '\0', out->len) != NULL) {
        char shown[SHOWN];
        qw_escape(shown, sizeof(shown), out->data, out->len);
        return bad(g, err, "%s: its name '%s' holds a zero byte", place, shown);
    }
    return QW_OK;
}

/* A count of the header, before anything is sized by it. */
static int check_count(const struct qw_gguf *g, const struct cursor *c, const char *what,
                       uint64_t n, uint64_t min_bytes, struct qw_err *err)
{
    if (n <= MAX_ENTRIES && n <= left(c) / min_bytes)
        return QW_OK;
    return bad(g, err,
               "header: it says %" PRIu64 " %s, but %" PRIu64
               " bytes are left in the file (at most %d %s are read)",
               n, what, left(c), MAX_ENTRIES, what);
}

/* ---- names to indices ---- */

/* The seed is drawn for each open, so that no file can be made whose names all collide.
 */
static uint64_t hash(uint64_t seed, const char *s, size_t len)
{
    uint64_t h = seed ^ (len * UINT64_C(0x9e3779b97f4a7c15));
    while (len > 0) {
        uint64_t word = 0;
        size_t n = len < sizeof(word) ? len : sizeof(word);
        memcpy(&word, s, n);
        h = (h ^ word) * UINT64_C(0xd6e8feb86659fd93);
        h = (h ^ (h >> 32)) + seed;
        s += n;
        len -= n;
    }
    h *= UINT64_C(0xd6e8feb86659fd93);
    return h ^ (h >> 29);
}

static uint64_t draw_seed(const struct qw_gguf *g)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != (ssize_t)sizeof(seed))
        seed = (uint64_t)(uintptr_t)g->map ^
               (uint64_t)g->written.tv_nsec; /* better than none */
    return seed | 1;
}

/* Every entry begins with its name. */
static const struct qw_str *name_at(const void *entries, size_t stride, size_t i)
{
    return (const struct qw_str *)((const char *)entries + i * stride);
}

/* The slot of a name: the one that holds it, or the free one where it would go. */
static size_t find(const struct index *x, const void *entries, size_t stride,
                   struct qw_str name, uint64_t h)
{
    size_t i = (size_t)h & x->mask;
    for (; x->slot[i].at != 0; i = (i + 1) & x->mask) {
        const struct qw_str *s = name_at(entries, stride, x->slot[i].at - 1);
        if (x->slot[i].tag == (uint32_t)(h >> 32) && s->len == name.len &&
            memcmp(s->data, name.data, name.len) == 0)
            break;
    }
    return i;
}

/* Index n entries by name; QW_EFILE for the first one that is there twice. */
static int build_index(const struct qw_gguf *g, struct index *x, const void *entries,
                       size_t stride, size_t n, const char *what, struct qw_err *err)
{
    size_t slots = 8;
    while (slots < 2 * n)
        slots *= 2;
    x->slot = qw_alloc(slots, sizeof(*x->slot));
    x->mask = slots - 1;
    for (size_t i = 0; i < n; i++) {
        const struct qw_str *name = name_at(entries, stride, i);
        uint64_t h = hash(g->seed, name->data, name->len);
        size_t at = find(x, entries, stride, *name, h);
        if (x->slot[at].at != 0) {
            char shown[SHOWN];
            qw_escape(shown, sizeof(shown), name->data, name->len);
            return bad(g, err, "%s '%s' is there twice (entries %u and %zu)", what, shown,
                       x->slot[at].at - 1, i);
        }
        x->slot[at] = (struct slot){(uint32_t)(h >> 32), (uint32_t)i + 1};
    }
    return QW_OK;
}

/* ---- keys ---- */

static int check_array(const struct qw_gguf *g, struct cursor *c, const char *place,
                       struct qw_gguf_key *k, struct qw_err *err)
{
    uint32_t elem;
    if (!take_u32(c, &elem) || !take_u64(c, &k->count))
        return cut(g, place, err);
    if (elem == QW_GGUF_ARR)
        return bad(g, err, "%s: an array of arrays, which is not supported", place);
    if (elem >= N_VALUE_TYPES)
        return bad(g, err, "%s: unknown type %" PRIu32 " of array elements", place, elem);
    k->elem = elem;
    uint64_t bytes;
    if (k->count > MAX_VALUE || !qw_mul(k->count, value_types[elem].bytes, &bytes) ||
        bytes > left(c))
        return bad(g, err,
                   "%s: an array of %" PRIu64 " elements of %s, but %" PRIu64
                   " bytes are left in the file (and at most 2^30 elements are read)",
                   place, k->count, qw_gguf_type_name(k->elem), left(c));
    k->data = c->map + c->pos;
    if (elem != QW_GGUF_STR)
        c->pos += bytes;
    return QW_OK;
}

static int check_strings(const struct qw_gguf *g, struct cursor *c, const char *place,
                         const struct qw_gguf_key *k, struct qw_err *err)
{
    for (uint64_t i = 0; i < k->count; i++) {
        uint64_t len;
        if (!take_u64(c, &len))
            return cut(g, place, err);
        if (len > left(c) || len > MAX_VALUE)
            return bad(g, err,
                       "%s: string %" PRIu64 " is said to have %" PRIu64
                       " bytes, %" PRIu64 " are left in the file",
                       place, i, len, left(c));
        c->pos += len;
    }
    return QW_OK;
}

static int read_key(const struct qw_gguf *g, struct cursor *c, size_t i,
                    struct qw_gguf_key *k, struct qw_err *err)
{
    char place[SHOWN + 64], shown[SHOWN];
    snprintf(place, sizeof(place), "key %zu at byte %" PRIu64, i, c->pos);
    int rc = take_name(g, c, place, MAX_KEY_NAME, &k->name, err);
    if (rc != QW_OK)
        return rc;
    qw_escape(shown, sizeof(shown), k->name.data, k->name.len);
    snprintf(place, sizeof(place), "key '%s'", shown);
    uint32_t type;
    if (!take_u32(c, &type))
        return cut(g, place, err);
    if (type >= N_VALUE_TYPES)
        return bad(g, err, "%s: unknown type %" PRIu32 " of its value", place, type);
    k->type = k->elem = type;
    k->count = 1;
    k->data = c->map + c->pos;
    if (type == QW_GGUF_ARR && (rc = check_array(g, c, place, k, err)) != QW_OK)
        return rc;
    if (k->elem == QW_GGUF_STR)
        return check_strings(g, c, place, k, err);
    if (type != QW_GGUF_ARR && take(c, value_types[type].bytes) == NULL)
        return cut(g, place, err);
    return QW_OK;
}

static int read_keys(struct qw_gguf *g, struct cursor *c, uint64_t n, struct qw_err *err)
{
    int rc = check_count(g, c, "keys", n, MIN_KEY_BYTES, err);
    if (rc != QW_OK)
        return rc;
    g->keys = qw_alloc((size_t)n, sizeof(*g->keys));
    g->n_keys = (size_t)n;
    for (size_t i = 0; i < g->n_keys; i++) {
        rc = read_key(g, c, i, &g->keys[i], err);
        if (rc != QW_OK)
            return rc;
    }
    return build_index(g, &g->key_index, g->keys, sizeof(*g->keys), g->n_keys, "key",
                       err);
}

/* Keys that say how the rest of the file is laid out. */
static int read_layout_keys(struct qw_gguf *g, struct qw_err *err)
{
    const struct qw_gguf_key *k = qw_gguf_find(g, "general.alignment");
    g->alignment = 32;
    if (k != NULL) {
        char text[32];
        if (k->type != QW_GGUF_U32)
            return bad(g, err, "key 'general.alignment': has type %s, must be u32",
                       describe(k, text));
        g->alignment = (uint64_t)qw_gguf_elem_int(k, 0);
        if (g->alignment < 8 || g->alignment > 1 << 20 ||
            (g->alignment & (g->alignment - 1)) != 0)
            return bad(g, err,
                       "key 'general.alignment': %" PRIu64
                       " is not a power of two from 8 to 1048576",
                       g->alignment);
    }
    int64_t parts, part, one = 1, zero = 0;
    int rc = qw_gguf_int(g, "split.count", &one, 0, 65535, &parts, err);
    if (rc == QW_OK)
        rc = qw_gguf_int(g, "split.no", &zero, 0, 65535, &part, err);
    if (rc == QW_OK && parts > 1)
        return bad(g, err,
                   "key 'split.count': part %" PRId64 " of a model in %" PRId64
                   " files; merge them into one file first",
                   part + 1, parts);
    return rc;
}

/* ---- tensors ---- */

static int read_shape(const struct qw_gguf *g, struct cursor *c, const char *place,
                      struct qw_gguf_tensor *t, struct qw_err *err)
{
    uint64_t elements = 1;
    if (!take_u32(c, &t->n_dims))
        return cut(g, place, err);
    if (t->n_dims < 1 || t->n_dims > MAX_DIMS)
        return bad(g, err, "%s: %" PRIu32 " dimensions (allowed: 1 to %d)", place,
                   t->n_dims, MAX_DIMS);
    for (uint32_t d = 0; d < MAX_DIMS; d++) {
        t->ne[d] = 1;
        if (d < t->n_dims && !take_u64(c, &t->ne[d]))
            return cut(g, place, err);
        if (t->ne[d] == 0)
            return bad(g, err, "%s: dimension %" PRIu32 " is zero", place, d);
        if (!qw_mul(elements, t->ne[d], &elements) || elements > MAX_ELEMENTS)
            return bad(
                g, err,
                "%s: its dimensions give more than 2^40 elements (dimension %" PRIu32
                " is %" PRIu64 ")",
                place, d, t->ne[d]);
    }
    return QW_OK;
}

static int read_tensor(const struct qw_gguf *g, struct cursor *c, size_t i,
                       struct qw_gguf_tensor *t, uint64_t *offset, struct qw_err *err)
{
    char place[SHOWN + 64], shown[SHOWN];
    snprintf(place, sizeof(place), "tensor %zu at byte %" PRIu64, i, c->pos);
    int rc = take_name(g, c, place, MAX_TENSOR_NAME, &t->name, err);
    if (rc != QW_OK)
        return rc;
    qw_escape(shown, sizeof(shown), t->name.data, t->name.len);
    snprintf(place, sizeof(place), "tensor '%s'", shown);
    if ((rc = read_shape(g, c, place, t, err)) != QW_OK)
        return rc;
    if (!take_u32(c, &t->type) || !take_u64(c, offset))
        return cut(g, place, err);
    const struct qw_type_info *info = qw_type_info(t->type);
    if (info == NULL)
        return bad(g, err, "%s: type %" PRIu32 " is unknown or withdrawn", place,
                   t->type);
    if (t->ne[0] % info->block != 0)
        return bad(g, err,
                   "%s: a row of %" PRIu64 " is not whole blocks of %" PRIu32
                   " (type %s)",
                   place, t->ne[0], info->block, info->name);
    /* At most 2^40 elements of at most 8 bytes: no product here can wrap. */
    t->size = t->ne[0] / info->block * info->bytes * t->ne[1] * t->ne[2] * t->ne[3];
    return QW_OK;
}

static int read_tensors(struct qw_gguf *g, struct cursor *c, uint64_t n,
                        struct qw_err *err)
{
    int rc = check_count(g, c, "tensors", n, MIN_TENSOR_BYTES, err);
    if (rc != QW_OK)
        return rc;
    g->tensors = qw_alloc((size_t)n, sizeof(*g->tensors));
    g->offsets = qw_alloc((size_t)n, sizeof(*g->offsets));
    g->n_tensors = (size_t)n;
    for (size_t i = 0; i < g->n_tensors; i++) {
        rc = read_tensor(g, c, i, &g->tensors[i], &g->offsets[i], err);
        if (rc != QW_OK)
            return rc;
    }
    return build_index(g, &g->tensor_index, g->tensors, sizeof(*g->tensors), g->n_tensors,
                       "tensor", err);
}

/* Up to the next multiple of the alignment. Positions stay below 2^63: 65,536 tensors of
 * at most 2^43 bytes lie behind a header that is in memory. */
static uint64_t align_up(const struct qw_gguf *g, uint64_t n)
{
    return (n + g->alignment - 1) & ~(g->alignment - 1);
}

static int wrong_offset(const struct qw_gguf *g, const char *name, uint64_t offset,
                        uint64_t want, uint64_t start, struct qw_err *err)
{
    const char *why = offset % g->alignment != 0 ? "it is not a multiple of the alignment"
                      : offset < want            ? "it overlaps the tensor before it"
                      : g->size < start || offset > g->size - start
                          ? "it lies outside the file"
                          : "it leaves a gap after the tensor before it";
    return bad(g, err, "tensor '%s': offset %" PRIu64 ", must be %" PRIu64 ": %s", name,
               offset, want, why);
}

/* Each offset must be the padded sum of the sizes before it: that one test excludes
 * overlaps, gaps and wrapped sums. */
static int place_tensors(struct qw_gguf *g, uint64_t start, struct qw_err *err)
{
    uint64_t next = 0;
    size_t outside = g->n_tensors;
    char shown[SHOWN];
    for (size_t i = 0; i < g->n_tensors; i++) {
        struct qw_gguf_tensor *t = &g->tensors[i];
        if (g->offsets[i] != next) {
            qw_escape(shown, sizeof(shown), t->name.data, t->name.len);
            return wrong_offset(g, shown, g->offsets[i], next, start, err);
        }
        if (outside == g->n_tensors && start + next + t->size > g->size)
            outside = i;
        if (outside == g->n_tensors)
            t->data = g->map + start + next;
        next = align_up(g, next + t->size);
    }
    if (outside == g->n_tensors)
        return QW_OK;
    const struct qw_gguf_tensor *cut_one = &g->tensors[outside];
    const struct qw_gguf_tensor *last = &g->tensors[g->n_tensors - 1];
    uint64_t end = start + g->offsets[g->n_tensors - 1] + last->size;
    qw_escape(shown, sizeof(shown), cut_one->name.data, cut_one->name.len);
    return bad(g, err,
               "tensor '%s': its data are cut short: the file has %" PRIu64
               " bytes, %" PRIu64 " are missing",
               shown, g->size, end - g->size);
}

/* ---- opening ---- */

static int map_file(struct qw_gguf *g, struct qw_err *err)
{
    struct stat st;
    g->fd =
        open(g->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not hang us */
    if (g->fd < 0 || fstat(g->fd, &st) != 0)
        return bad(g, err, "cannot open it: %s", strerror(errno));
    if (!S_ISREG(st.st_mode))
        return bad(g, err, "not a regular file");
    g->size = (uint64_t)st.st_size;
    g->written = st.st_mtim;
    if (g->size < HEADER_BYTES)
        return bad(g, err, "%" PRIu64 " bytes are too short for a GGUF file", g->size);
    if (g->size > SIZE_MAX / 2)
        return bad(g, err, "%" PRIu64 " bytes are more than this machine can map",
                   g->size);
    void *p = mmap(NULL, (size_t)g->size, PROT_READ, MAP_PRIVATE, g->fd, 0);
    if (p == MAP_FAILED)
        return bad(g, err, "cannot map %" PRIu64 " bytes: %s", g->size, strerror(errno));
    g->map = p;
    qw_watch_add(g->map, (size_t)g->size, g->label);
    g->seed = draw_seed(g);
    return QW_OK;
}

static int check_version(struct qw_gguf *g, struct cursor *c, struct qw_err *err)
{
    char magic[17];
    const unsigned char *p = take(c, 4);
    qw_escape(magic, sizeof(magic), p, 4);
    if (memcmp(p, "GGUF", 4) != 0)
        return bad(g, err, "byte 0: not a GGUF file: it begins with '%s'", magic);
    take_u32(c, &g->version);
    if ((g->version & 0xffff) == 0)
        return bad(g, err,
                   "byte 4: version field 0x%08" PRIx32
                   ": a big-endian file (other byte order) cannot be read",
                   g->version);
    if (g->version != 2 && g->version != 3)
        return bad(g, err, "byte 4: GGUF version %" PRIu32 " (supported: 2 and 3)",
                   g->version);
    return QW_OK;
}

static int parse(struct qw_gguf *g, struct qw_err *err)
{
    struct cursor c = {.map = g->map, .size = g->size};
    uint64_t n_tensors = 0, n_keys = 0;
    int rc = check_version(g, &c, err);
    if (rc != QW_OK)
        return rc;
    take_u64(&c, &n_tensors); /* the 24 bytes of the header are there */
    take_u64(&c, &n_keys);
    rc = check_count(g, &c, "tensors", n_tensors, MIN_TENSOR_BYTES, err);
    if (rc != QW_OK)
        return rc;
    if ((rc = read_keys(g, &c, n_keys, err)) != QW_OK)
        return rc;
    if ((rc = read_layout_keys(g, err)) != QW_OK)
        return rc;
    if ((rc = read_tensors(g, &c, n_tensors, err)) != QW_OK)
        return rc;
    rc = place_tensors(g, align_up(g, c.pos), err);
    free(g->offsets);
    g->offsets = NULL;
    return rc;
}

int qw_gguf_open(struct qw_gguf **out, const char *path, struct qw_err *err)
{
    struct qw_gguf *g = qw_alloc(1, sizeof(*g));
    g->path = qw_strdup(path);
    qw_escape(g->label, sizeof(g->label), path, strlen(path));
    int rc = map_file(g, err);
    if (rc == QW_OK)
        rc = parse(g, err);
    if (rc != QW_OK) {
        qw_gguf_close(g);
        return rc;
    }
    *out = g;
    return QW_OK;
}

void qw_gguf_close(struct qw_gguf *g)
{
    if (g == NULL)
        return;
    if (g->map != NULL) {
        qw_watch_drop(g->map);
        munmap((void *)(uintptr_t)g->map, (size_t)g->size);
    }
    if (g->fd >= 0)
        close(g->fd);
    free(g->keys);
    free(g->tensors);
    free(g->offsets);
    free(g->key_index.slot);
    free(g->tensor_index.slot);
    free(g->path);
    free(g);
}

int qw_gguf_unchanged(const struct qw_gguf *g, struct qw_err *err)
{
    struct stat st;
    if (fstat(g->fd, &st) != 0)
        return bad(g, err, "cannot ask for its size again: %s", strerror(errno));
    if ((uint64_t)st.st_size != g->size)
        return bad(g, err,
                   "changed while it was read: it had %" PRIu64
                   " bytes, now it has %" PRIu64,
                   g->size, (uint64_t)st.st_size);
    if (st.st_mtim.tv_sec != g->written.tv_sec ||
        st.st_mtim.tv_nsec != g->written.tv_nsec)
        return bad(g, err, "changed while it was read: it was written to");
    return QW_OK;
}

void qw_gguf_release_pages(const struct qw_gguf *g, const void *data, uint64_t size)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), map = (uintptr_t)g->map;
    uintptr_t begin = (uintptr_t)data, end = begin + (uintptr_t)size;
    if (begin < map || end < begin || end > map + g->size)
        return;
    begin = (begin + page - 1) & ~(page - 1); /* pages shared with neighbours stay */
    end &= ~(page - 1);
    if (begin < end) /* only advice: a failure costs nothing but memory */
        (void)madvise((void *)begin, end - begin, MADV_DONTNEED);
}

/* ---- views ---- */

const char *qw_gguf_path(const struct qw_gguf *g)
{
    return g->path;
}

uint64_t qw_gguf_file_size(const struct qw_gguf *g)
{
    return g->size;
}

uint32_t qw_gguf_version(const struct qw_gguf *g)
{
    return g->version;
}

size_t qw_gguf_n_keys(const struct qw_gguf *g)
{
    return g->n_keys;
}

size_t qw_gguf_n_tensors(const struct qw_gguf *g)
{
    return g->n_tensors;
}

const struct qw_gguf_key *qw_gguf_key_at(const struct qw_gguf *g, size_t i)
{
    return i < g->n_keys ? &g->keys[i] : NULL;
}

const struct qw_gguf_tensor *qw_gguf_tensor_at(const struct qw_gguf *g, size_t i)
{
    return i < g->n_tensors ? &g->tensors[i] : NULL;
}

const struct qw_gguf_key *qw_gguf_find(const struct qw_gguf *g, const char *name)
{
    const struct index *x = &g->key_index;
    struct qw_str s = {name, strlen(name)};
    size_t i = find(x, g->keys, sizeof(*g->keys), s, hash(g->seed, name, s.len));
    return x->slot[i].at ? &g->keys[x->slot[i].at - 1] : NULL;
}

const struct qw_gguf_tensor *qw_gguf_tensor(const struct qw_gguf *g, const char *name)
{
    const struct index *x = &g->tensor_index;
    struct qw_str s = {name, strlen(name)};
    size_t i = find(x, g->tensors, sizeof(*g->tensors), s, hash(g->seed, name, s.len));
    return x->slot[i].at ? &g->tensors[x->slot[i].at - 1] : NULL;
}

/* ---- values ---- */

static bool is_integer(enum qw_gguf_type t)
{
    return t <= QW_GGUF_I32 || t == QW_GGUF_U64 || t == QW_GGUF_I64;
}

int64_t qw_gguf_elem_int(const struct qw_gguf_key *k, uint64_t i)
{
    const unsigned char *p = k->data + i * value_types[k->elem].bytes;
    uint64_t raw = 0;
    if (!is_integer(k->elem) && k->elem != QW_GGUF_BOOL)
        return 0;
    memcpy(&raw, p, value_types[k->elem].bytes);
    switch (k->elem) {
    case QW_GGUF_I8:
        return (int8_t)raw;
    case QW_GGUF_I16:
        return (int16_t)raw;
    case QW_GGUF_I32:
        return (int32_t)raw;
    case QW_GGUF_BOOL: /* any byte but 0 is true */
        return raw != 0;
    case QW_GGUF_U64: /* what does not fit must not turn negative */
        return raw > INT64_MAX ? INT64_MAX : (int64_t)raw;
    default:
        return (int64_t)raw;
    }
}

static int absent(const struct qw_gguf *g, const char *name, struct qw_err *err)
{
    return bad(g, err, "key '%s' is missing", name);
}

static int wrong_type(const struct qw_gguf *g, const char *name,
                      const struct qw_gguf_key *k, const char *want, struct qw_err *err)
{
    char text[32];
    return bad(g, err, "key '%s': has type %s, must be %s", name, describe(k, text),
               want);
}

int qw_gguf_int(const struct qw_gguf *g, const char *name, const int64_t *dflt,
                int64_t lo, int64_t hi, int64_t *out, struct qw_err *err)
{
    const struct qw_gguf_key *k = qw_gguf_find(g, name);
    if (k == NULL && dflt == NULL)
        return absent(g, name, err);
    if (k != NULL && !is_integer(k->type))
        return wrong_type(g, name, k, "an integer (such as u32)", err);
    int64_t v = k != NULL ? qw_gguf_elem_int(k, 0) : *dflt;
    if (k != NULL && (v < lo || v > hi))
        return bad(g, err,
                   "key '%s': %" PRId64 " is out of range (allowed: %" PRId64
                   " to %" PRId64 ")",
                   name, v, lo, hi);
    *out = v;
    return QW_OK;
}

int qw_gguf_float(const struct qw_gguf *g, const char *name, const double *dflt,
                  double *out, struct qw_err *err)
{
    const struct qw_gguf_key *k = qw_gguf_find(g, name);
    float single;
    if (k == NULL && dflt == NULL)
        return absent(g, name, err);
    if (k == NULL) {
        *out = *dflt;
    } else if (k->type == QW_GGUF_F32) {
        memcpy(&single, k->data, sizeof(single));
        *out = (double)single;
    } else if (k->type == QW_GGUF_F64) {
        memcpy(out, k->data, sizeof(*out));
    } else {
        return wrong_type(g, name, k, "f32 or f64", err);
    }
    return QW_OK;
}

int qw_gguf_bool(const struct qw_gguf *g, const char *name, bool dflt, bool *out,
                 struct qw_err *err)
{
    const struct qw_gguf_key *k = qw_gguf_find(g, name);
    if (k != NULL && k->type != QW_GGUF_BOOL)
        return wrong_type(g, name, k, "bool", err);
    *out = k != NULL ? qw_gguf_elem_int(k, 0) != 0 : dflt;
    return QW_OK;
}

int qw_gguf_string(const struct qw_gguf *g, const char *name, struct qw_str *out,
                   struct qw_err *err)
{
    const struct qw_gguf_key *k = qw_gguf_find(g, name);
    if (k == NULL)
        return absent(g, name, err);
    if (k->type != QW_GGUF_STR)
        return wrong_type(g, name, k, "string", err);
    const unsigned char *pos = k->data;
    *out = qw_gguf_next_string(&pos);
    return QW_OK;
}

struct qw_str qw_gguf_next_string(const unsigned char **pos)
{
    uint64_t len;
    memcpy(&len, *pos, sizeof(len));
    struct qw_str s = {(const char *)*pos + sizeof(len), (size_t)len};
    *pos += sizeof(len) + len;
    return s;
}
