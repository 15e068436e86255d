/* SPDX-License-Identifier: MIT */
/* tok.h - byte-level BPE with the qwen35 word rule. */
#ifndef QW_TOK_H
#define QW_TOK_H

#include "gguf.h"

struct qw_tok;

struct qw_ids {
    int32_t *id;
    size_t len, cap;
};
void qw_ids_add(struct qw_ids *ids, int32_t id);
void qw_ids_free(struct qw_ids *ids);

/* Build from tokenizer.ggml.*; a file without tensors will do. Checks lengths, merges,
 * types. A file with tokenizer.ggml.model = "none" gives QW_OK and *out = NULL: ids only.
 * The tokenizer copies what it needs: the file may be closed afterwards. nfc: normalise
 * text before splitting. */
int qw_tok_open(struct qw_tok **out, const struct qw_gguf *g, bool nfc,
                struct qw_err *err);
void qw_tok_close(struct qw_tok *t);

/* Append the ids of text (any bytes). specials: texts of control and user-defined tokens
 * become those tokens (template text, --specials); otherwise never. Linear time, any
 * length. */
void qw_tok_encode(const struct qw_tok *t, const char *text, size_t len, bool specials,
                   struct qw_ids *out);
/* The same where only some stretches of the text (ascending, apart) may hold special
 * tokens, each wholly inside one. Words are split as in the whole text: who wrote what
 * leaves no trace there. */
struct qw_span {
    size_t start, len;
};
void qw_tok_encode_spans(const struct qw_tok *t, const char *text, size_t len,
                         const struct qw_span *trusted, size_t n_trusted,
                         struct qw_ids *out);

int qw_tok_n_vocab(const struct qw_tok *t);
/* Bytes of a token: normal tokens decoded, control and user-defined ones as their text.
 */
struct qw_str qw_tok_bytes(const struct qw_tok *t, int32_t id);
bool qw_tok_is_control(const struct qw_tok *t, int32_t id);
bool qw_tok_is_eog(const struct qw_tok *t,
                   int32_t id); /* ends generation; never printed */
int32_t qw_tok_find(const struct qw_tok *t,
                    const char *text); /* exact special text; -1 when absent */

/* Streaming decode: feed ids, get bytes out that end on whole characters. Control tokens
 * print nothing unless show_control. */
struct qw_detok {
    const struct qw_tok *tok;
    bool show_control;
    unsigned char held[4];
    int n_held;
};
void qw_detok_init(struct qw_detok *d, const struct qw_tok *t, bool show_control);
void qw_detok_feed(struct qw_detok *d, int32_t id, struct qw_buf *out);
void qw_detok_flush(struct qw_detok *d,
                    struct qw_buf *out); /* a cut character as U+FFFD */
#endif
