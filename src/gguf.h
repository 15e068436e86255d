/* SPDX-License-Identifier: MIT */
/* gguf.h - map a GGUF file (v2, v3), check every bound once, hand out const views.
 * Everything returned borrows from the mapping and lives until qw_gguf_close. */
#ifndef QW_GGUF_H
#define QW_GGUF_H

#include "base.h"

enum qw_gguf_type {
    QW_GGUF_U8,
    QW_GGUF_I8,
    QW_GGUF_U16,
    QW_GGUF_I16,
    QW_GGUF_U32,
    QW_GGUF_I32,
    QW_GGUF_F32,
    QW_GGUF_BOOL,
    QW_GGUF_STR,
    QW_GGUF_ARR,
    QW_GGUF_U64,
    QW_GGUF_I64,
    QW_GGUF_F64
};

/* A byte string of the file: not terminated, may hold anything. */
struct qw_str {
    const char *data;
    size_t len;
};

struct qw_gguf_key {
    struct qw_str name;
    enum qw_gguf_type type;    /* of the value */
    enum qw_gguf_type elem;    /* of the elements when type is QW_GGUF_ARR, else = type */
    uint64_t count;            /* elements; 1 for a scalar */
    const unsigned char *data; /* first byte of the value (unaligned) */
};

struct qw_gguf_tensor {
    struct qw_str name;
    uint32_t type; /* ggml type id, known to quant.h */
    uint32_t n_dims;
    uint64_t ne[4]; /* ne[0] contiguous; missing ones are 1 */
    uint64_t size;  /* bytes */
    const void *data;
};

struct qw_gguf;

/* Map and check path. Refuses with QW_EFILE and one line (file, place, reason) before
 * anything is allocated from a length of the file. Refuses split files by name
 * (split.count > 1). */
int qw_gguf_open(struct qw_gguf **out, const char *path, struct qw_err *err);
void qw_gguf_close(struct qw_gguf *g);

const char *qw_gguf_path(const struct qw_gguf *g);
uint64_t qw_gguf_file_size(const struct qw_gguf *g);
uint32_t qw_gguf_version(const struct qw_gguf *g);
size_t qw_gguf_n_keys(const struct qw_gguf *g);
size_t qw_gguf_n_tensors(const struct qw_gguf *g);
const struct qw_gguf_key *qw_gguf_key_at(const struct qw_gguf *g, size_t i);
const struct qw_gguf_tensor *qw_gguf_tensor_at(const struct qw_gguf *g, size_t i);
/* NULL when absent. Hashed: constant time. */
const struct qw_gguf_key *qw_gguf_find(const struct qw_gguf *g, const char *name);
const struct qw_gguf_tensor *qw_gguf_tensor(const struct qw_gguf *g, const char *name);

/* Scalars. Return QW_OK with *out set; where the key is absent *out = dflt when dflt is
 * not NULL, else QW_EFILE naming the key; wrong type: QW_EFILE naming both types; outside
 * lo..hi: QW_EFILE with the range. Integer keys accept any integer type, float keys f32
 * or f64. */
int qw_gguf_int(const struct qw_gguf *g, const char *name, const int64_t *dflt,
                int64_t lo, int64_t hi, int64_t *out, struct qw_err *err);
int qw_gguf_float(const struct qw_gguf *g, const char *name, const double *dflt,
                  double *out, struct qw_err *err);
int qw_gguf_bool(const struct qw_gguf *g, const char *name, bool dflt, bool *out,
                 struct qw_err *err);
int qw_gguf_string(const struct qw_gguf *g, const char *name, struct qw_str *out,
                   struct qw_err *err);
/* Element i of an integer or bool array key (scalar keys act as arrays of one); i <
 * count. */
int64_t qw_gguf_elem_int(const struct qw_gguf_key *k, uint64_t i);
const char *qw_gguf_type_name(enum qw_gguf_type t);

/* Walk an array of strings: *pos starts as k->data; returns each in turn, no bound to
 * check. */
struct qw_str qw_gguf_next_string(const unsigned char **pos);

/* The file may change behind our back: compare size and time again after upload, QW_EFILE
 * when they changed. (A read of what was cut off ends the program: gguf_watch.h.) */
int qw_gguf_unchanged(const struct qw_gguf *g, struct qw_err *err);
/* Tell the kernel the pages of [data, data + size) are not needed for now. */
void qw_gguf_release_pages(const struct qw_gguf *g, const void *data, uint64_t size);
#endif
