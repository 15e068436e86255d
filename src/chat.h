/* SPDX-License-Identifier: MIT */
/* chat.h - the family's prompt rules: messages -> pieces -> ids; parsing of replies. */
#ifndef QW_CHAT_H
#define QW_CHAT_H

#include <jansson.h>

#include "tok.h"

enum qw_chat_rule { QW_CHAT_QWEN36, QW_CHAT_TINY };
enum qw_thinking { QW_THINK_AUTO, QW_THINK_ON, QW_THINK_OFF };

struct qw_chat {
    enum qw_chat_rule rule;
    bool known;        /* the file's template was recognised by its hash */
    char *tools_fixed; /* the instruction behind a tool list, from the file or our own */
};

/* Choose the rule: "auto" by the SHA-256 of tokenizer.chat_template (unknown: qwen3.6,
 * with one warning in the log), or a rule's name. A file without a template counts as
 * unknown, no warning. */
int qw_chat_open(struct qw_chat *c, const struct qw_gguf *g, const char *name,
                 struct qw_err *err);
void qw_chat_close(struct qw_chat *c);

struct qw_chat_params {
    enum qw_thinking thinking;
    bool preserve_thinking;
    bool no_generation_prompt;
    const json_t *tools; /* array of OpenAI tool objects, or NULL */
};

/* A prompt as pieces: trusted (template) text may make special tokens, the rest never. */
struct qw_piece {
    bool trusted;
    size_t start, len; /* in text */
};
struct qw_prompt {
    struct qw_buf text; /* the whole rendered prompt */
    struct qw_piece *piece;
    size_t n_pieces;
};
/* messages: OpenAI array (role, content text or list of text parts, reasoning_content,
 * tool_calls). What the template refuses is QW_EUSAGE with its reason. */
int qw_chat_render(const struct qw_chat *c, const json_t *messages,
                   const struct qw_chat_params *p, struct qw_prompt *out,
                   struct qw_err *err);
void qw_prompt_free(struct qw_prompt *p);
void qw_chat_encode(const struct qw_tok *t, const struct qw_prompt *p,
                    struct qw_ids *out);

/* Split a finished reply into reasoning, content and tool calls. thinking: the prompt
 * ended inside an open think block. Returns a new object {reasoning_content?, content,
 * tool_calls?} owned by the caller; malformed calls stay in content. tools may be NULL.
 */
json_t *qw_chat_parse(const char *text, size_t len, bool thinking, const json_t *tools);
#endif
