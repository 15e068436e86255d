/* SPDX-License-Identifier: MIT */
/* cmd_run.c - one prompt: the answer streams to stdout, a statistics line goes to stderr.
 */
#include "cmd.h"
#include "qwenrun.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_PROMPT = 256 << 20 }; /* bytes: far beyond what any context holds */

static volatile sig_atomic_t answering, stop;
static int lost; /* errno of a write that failed */

/* Before there is an answer nothing is worth waiting for: loading, and the compiler
 * inside the driver, are left at once (it has taken its temporary files away by then). */
static void on_signal(int sig)
{
    static const char said[] = "qwenrun: interrupted\n";
    if (!answering) {
        (void)!write(2, said, sizeof(said) - 1);
        _exit(130);
    }
    stop = 1;
    signal(sig, SIG_DFL); /* a second one ends the program at once */
}

/* The whole of a file or stdin ("-"); the caller frees it. */
static int read_all(const char *path, struct qw_buf *out, struct qw_err *err)
{
    const bool from_stdin = strcmp(path, "-") == 0;
    const int fd = from_stdin ? 0 : open(path, O_RDONLY | O_CLOEXEC);
    char safe[512], chunk[1 << 16];
    ssize_t n = 0;
    qw_escape(safe, sizeof(safe), from_stdin ? "stdin" : path,
              strlen(from_stdin ? "stdin" : path));
    if (fd < 0)
        return qw_fail(err, QW_EUSAGE, "prompt file %s: %s", safe, strerror(errno));
    while (out->len <= MAX_PROMPT &&
           ((n = read(fd, chunk, sizeof(chunk))) > 0 || (n < 0 && errno == EINTR)))
        if (n > 0)
            qw_buf_add(out, chunk, (size_t)n);
    const int why = errno;
    if (!from_stdin)
        close(fd);
    if (out->len > MAX_PROMPT)
        return qw_fail(err, QW_EUSAGE, "prompt file %s: more than %d MiB", safe,
                       MAX_PROMPT >> 20);
    return n < 0 ? qw_fail(err, QW_EUSAGE, "prompt file %s: %s", safe, strerror(why))
                 : QW_OK;
}

static int read_prompt(const struct qw_cmd *c, struct qw_buf *text, struct qw_err *err)
{
    const char *given = qw_cmd_value(c, "p"), *file = qw_cmd_value(c, "f");
    if (given != NULL && file != NULL)
        return qw_fail(err, QW_EUSAGE, "run: -p and -f give two prompts; use one");
    if (given == NULL)
        return read_all(file ? file : "-", text, err);
    qw_buf_add(text, given, strlen(given));
    return QW_OK;
}

/* One message more. */
static int add_message(json_t *messages, const char *role, const char *text, size_t len,
                       const char *what, struct qw_err *err)
{
    json_t *content = json_stringn(text, len);
    if (content == NULL)
        return qw_fail(err, QW_EUSAGE, "%s is not UTF-8", what);
    json_array_append_new(messages,
                          json_pack("{s:s, s:o}", "role", role, "content", content));
    return QW_OK;
}

/* The prompt's ids: the text as it is, or as a user message behind the system message. */
static int prompt_ids(const struct qw_cmd *c, struct qw_engine *e,
                      const struct qw_buf *text, struct qw_tokens *out,
                      struct qw_err *err)
{
    const bool specials = qw_cmd_value(c, "specials") != NULL;
    const char *data = text->data ? text->data : "";
    if (qw_cmd_value(c, "raw") != NULL)
        return qw_engine_tokenize(e, data, text->len, specials, out, err);
    if (specials)
        return qw_fail(err, QW_EUSAGE, "run: --specials goes with --raw");
    const char *system = c->options->chat.system;
    json_t *messages = json_array();
    int rc = QW_OK;
    if (system != NULL)
        rc = add_message(messages, "system", system, strlen(system), "chat.system", err);
    if (rc == QW_OK)
        rc = add_message(messages, "user", data, text->len,
                         "run: without --raw a prompt is text, and this one", err);
    if (rc == QW_OK)
        rc = qw_engine_chat_prompt(e, messages, NULL, out, err);
    json_decref(messages);
    return rc;
}

static int emit(void *arg, const char *text, size_t len)
{
    (void)arg;
    if (fwrite(text, 1, len, stdout) == len && fflush(stdout) == 0)
        return 0;
    lost = errno;
    return 1;
}

static json_t *json_ids(const struct qw_tokens *t)
{
    json_t *a = json_array();
    for (size_t i = 0; i < t->n; i++)
        json_array_append_new(a, json_integer(t->id[i]));
    return a;
}

static json_t *json_speculation(const struct qw_speculation *p)
{
    json_t *each = json_array();
    for (int i = 0; i < p->n_max; i++)
        json_array_append_new(each, json_integer(p->per_position[i]));
    return json_pack("{s:s, s:I, s:I, s:I, s:o, s:f}", "method", p->method, "cycles",
                     (json_int_t)p->cycles, "drafted", (json_int_t)p->drafted, "accepted",
                     (json_int_t)p->accepted, "per_position", each, "mean_emitted",
                     p->mean_emitted);
}

static int print_json(struct qw_engine *e, const struct qw_tokens *prompt,
                      const struct qw_result *r, struct qw_err *err)
{
    json_t *usage =
        json_pack("{s:I, s:I, s:I}", "prompt_tokens", (json_int_t)r->prompt_tokens,
                  "completion_tokens", (json_int_t)r->ids.n, "cached_tokens",
                  (json_int_t)r->cached_tokens);
    json_t *timings = json_pack("{s:f, s:f, s:f, s:f}", "load_ms", qw_engine_load_ms(e),
                                "ttft_ms", r->ttft_ms, "decode_tok_s", r->decode_tok_s,
                                "prefill_tok_s", r->prefill_tok_s);
    json_t *root = json_pack("{s:o, s:o, s:o, s:s, s:o, s:o, s:o}", "text",
                             qw_cmd_json_text(r->text, r->text_len), "prompt_ids",
                             json_ids(prompt), "ids", json_ids(&r->ids), "finish_reason",
                             r->finish_reason, "usage", usage, "timings", timings,
                             "speculation", json_speculation(&r->speculation));
    if (r->logits_sha256[0] != '\0')
        json_object_set_new(root, "logits_sha256", json_string(r->logits_sha256));
    json_object_set_new(root, "identity", qw_engine_identity(e, false));
    return qw_cmd_print_json(root, err);
}

static void print_statistics(const struct qw_cmd *c, struct qw_engine *e,
                             const struct qw_result *r)
{
    const struct qw_speculation *p = &r->speculation;
    if (!c->json && r->text_len > 0 && r->text[r->text_len - 1] != '\n' && isatty(1))
        putchar('\n');
    fflush(stdout);
    if (c->quiet)
        return;
    fprintf(
        stderr,
        "qwenrun: %zu prompt tokens, %zu made (%s); load %.0f ms, first token %.0f ms, "
        "prefill %.1f tok/s, decode %.1f tok/s\n",
        r->prompt_tokens, r->ids.n, r->finish_reason, qw_engine_load_ms(e), r->ttft_ms,
        r->prefill_tok_s, r->decode_tok_s);
    if (strcmp(p->method, "none") != 0)
        fprintf(stderr,
                "qwenrun: %s drafts: %lld of %lld accepted in %lld cycles, %.2f tokens "
                "a cycle\n",
                p->method, p->accepted, p->drafted, p->cycles, p->mean_emitted);
    if (r->logits_sha256[0] != '\0' && !c->json)
        fprintf(stderr, "qwenrun: logits_sha256 %s\n", r->logits_sha256);
}

static int generate(struct qw_cmd *c, struct qw_engine *e, const struct qw_tokens *prompt)
{
    struct qw_session *s;
    struct qw_result r = {0};
    const struct qw_generate g = {.emit = c->json ? NULL : emit,
                                  .interrupt = &stop,
                                  .hash_logits = qw_cmd_value(c, "logits-hash") != NULL,
                                  .show = !c->quiet};
    int rc = qw_session_open(&s, e, NULL, &c->err);
    if (rc != QW_OK)
        return rc;
    answering = 1;
    rc = qw_session_generate(s, prompt->id, prompt->n, &g, &r, &c->err);
    if (rc == QW_EINTR && !stop) { /* stdout has gone, not the user */
        rc = qw_fail(&c->err, QW_EFAIL, "standard output: %s", strerror(lost));
    } else if (rc == QW_OK || rc == QW_EINTR) {
        struct qw_err err;
        if (c->json && print_json(e, prompt, &r, &err) != QW_OK) {
            rc = QW_EFAIL;
            c->err = err;
        } else {
            print_statistics(c, e, &r);
        }
    } else if (!c->json && r.text_len > 0) {
        putchar('\n'); /* the error starts on a line of its own */
        fflush(stdout);
    }
    qw_result_free(&r);
    qw_session_close(s);
    return rc;
}

static int run(struct qw_cmd *c)
{
    struct qw_engine *e;
    struct qw_buf text = {0};
    struct qw_tokens prompt = {0};
    struct sigaction sa = {.sa_handler = on_signal};
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);
    int rc = read_prompt(c, &text, &c->err);
    if (rc == QW_OK)
        rc = qw_engine_open(&e, c->options, QW_OPEN_MODEL, !c->quiet, &c->err);
    if (rc == QW_OK) {
        rc = prompt_ids(c, e, &text, &prompt, &c->err);
        if (rc == QW_OK)
            rc = generate(c, e, &prompt);
        qw_engine_close(e);
    }
    free(prompt.id);
    qw_buf_free(&text);
    return rc;
}

static const struct qw_cmd_option options[] = {
    {'p', NULL, "TEXT", "the prompt"},
    {'f', NULL, "FILE", "read the prompt from a file; - or no option: from stdin"},
    {0, "raw", NULL, "go on from the text as it is, without the chat template"},
    {0, "specials", NULL, "with --raw: texts of control tokens become those tokens"},
    {0, "logits-hash", NULL, "SHA-256 over the logits rows that decided a token"},
    {0},
};

const struct qw_command qw_command_run = {
    .name = "run",
    .summary = "answer one prompt",
    .options = options,
    .run = run,
};
