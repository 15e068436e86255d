/* SPDX-License-Identifier: MIT */
/* ggufw.h - put a GGUF file together in memory, right or wrong, and write it out. */
#ifndef QW_GGUFW_H
#define QW_GGUFW_H

#include <fcntl.h>
#include <unistd.h>

#include "base.h"
#include "check.h"
#include "gguf.h"
#include "quant.h"

struct ggufw {
    uint32_t version;
    uint64_t align, offset; /* offset: where the next tensor's data go */
    uint64_t n_keys, n_tensors;
    struct qw_buf keys, infos;
};

static inline void gw_init(struct ggufw *w)
{
    *w = (struct ggufw){.version = 3, .align = 32};
}

static inline void gw_free(struct ggufw *w)
{
    qw_buf_free(&w->keys);
    qw_buf_free(&w->infos);
}

static inline void gw_u32(struct qw_buf *b, uint32_t v)
{
    qw_buf_add(b, &v, sizeof(v));
}

static inline void gw_u64(struct qw_buf *b, uint64_t v)
{
    qw_buf_add(b, &v, sizeof(v));
}

static inline void gw_str(struct qw_buf *b, const char *s)
{
    gw_u64(b, strlen(s));
    qw_buf_add(b, s, strlen(s));
}

/* A key with a value of raw bytes. */
static inline void gw_key(struct ggufw *w, const char *name, uint32_t type, const void *v,
                          size_t n)
{
    gw_str(&w->keys, name);
    gw_u32(&w->keys, type);
    qw_buf_add(&w->keys, v, n);
    w->n_keys++;
}

static inline void gw_key_u32(struct ggufw *w, const char *name, uint32_t v)
{
    gw_key(w, name, QW_GGUF_U32, &v, sizeof(v));
}

static inline void gw_key_f32(struct ggufw *w, const char *name, float v)
{
    gw_key(w, name, QW_GGUF_F32, &v, sizeof(v));
}

static inline void gw_key_str(struct ggufw *w, const char *name, const char *v)
{
    gw_key(w, name, QW_GGUF_STR, NULL, 0);
    gw_str(&w->keys, v);
}

/* An array; n bytes of elements follow the head. */
static inline void gw_key_arr(struct ggufw *w, const char *name, uint32_t elem,
                              uint64_t count, const void *v, size_t n)
{
    gw_key(w, name, QW_GGUF_ARR, NULL, 0);
    gw_u32(&w->keys, elem);
    gw_u64(&w->keys, count);
    qw_buf_add(&w->keys, v, n);
}

/* A tensor at a given offset; its bytes are not part of what is written here. */
static inline void gw_tensor_at(struct ggufw *w, const char *name, uint32_t type,
                                uint32_t n_dims, const uint64_t *ne, uint64_t offset)
{
    gw_str(&w->infos, name);
    gw_u32(&w->infos, n_dims);
    for (uint32_t d = 0; d < n_dims; d++)
        gw_u64(&w->infos, ne[d]);
    gw_u32(&w->infos, type);
    gw_u64(&w->infos, offset);
    w->n_tensors++;
}

/* A tensor right behind the one before it. */
static inline void gw_tensor(struct ggufw *w, const char *name, uint32_t type,
                             uint64_t ne0, uint64_t ne1)
{
    const uint64_t ne[2] = {ne0, ne1};
    const struct qw_type_info *t = qw_type_info(type);
    gw_tensor_at(w, name, type, ne1 == 1 ? 1 : 2, ne, w->offset);
    uint64_t size = t == NULL ? 0 : ne0 / t->block * t->bytes * ne1;
    w->offset += (size + w->align - 1) / w->align * w->align;
}

/* Header, keys and tensor entries, padded to the alignment. */
static inline void gw_head(const struct ggufw *w, struct qw_buf *out)
{
    qw_buf_add(out, "GGUF", 4);
    gw_u32(out, w->version);
    gw_u64(out, w->n_tensors);
    gw_u64(out, w->n_keys);
    if (w->keys.len > 0)
        qw_buf_add(out, w->keys.data, w->keys.len);
    if (w->infos.len > 0)
        qw_buf_add(out, w->infos.data, w->infos.len);
    while (out->len % w->align != 0)
        qw_buf_add(out, "", 1);
}

/* Write the head and, as a hole, room for the data. more: bytes to add (or, negative, to
 * cut). */
static inline void gw_write(const struct ggufw *w, const char *path, int64_t more)
{
    struct qw_buf out = {0};
    gw_head(w, &out);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    MUST(fd >= 0, "%s", path);
    MUST(write(fd, out.data, out.len) == (ssize_t)out.len, "%s", path);
    MUST(ftruncate(fd, (off_t)((int64_t)(out.len + w->offset) + more)) == 0, "%s", path);
    close(fd);
    qw_buf_free(&out);
}
#endif
