/* SPDX-License-Identifier: MIT */
/* qwenrun.h - the public interface: an engine is a loaded model, a session is one
 * timeline. An engine outlives its sessions. One thread at a time may use an engine and
 * its sessions. After QW_EDEVICE a session is an empty timeline, which the next call that
 * the device lets through begins anew. */
#ifndef QW_QWENRUN_H
#define QW_QWENRUN_H

#include <jansson.h>
#include <signal.h>

#include "base.h"

struct qw_options;
struct qw_engine;
struct qw_session;

/* How far to go: each step includes those before it. */
enum qw_open_level {
    QW_OPEN_TOKENIZER, /* the file and its tokenizer; tensors are not asked for */
    QW_OPEN_FILE,      /* the file as a model: hyperparameters and tensors checked */
    QW_OPEN_DEVICE,    /* a device chosen, the weights laid out for it: bytes are known */
    QW_OPEN_KERNELS,   /* the kernels built */
    QW_OPEN_MODEL      /* the weights on the device */
};

/* Open the model the options name. Files are checked before OpenCL is touched, and a
 * model that will not fit is refused before loading. options must outlive the engine.
 * show: progress lines on a terminal. */
int qw_engine_open(struct qw_engine **out, const struct qw_options *options,
                   enum qw_open_level level, bool show, struct qw_err *err);
/* The same, up to QW_OPEN_KERNELS, for an Arc Pro B70 that need not be there: what it
 * would hold and run can be described, nothing can run. */
int qw_engine_open_paper(struct qw_engine **out, const struct qw_options *options,
                         enum qw_open_level level, struct qw_err *err);
void qw_engine_close(struct qw_engine *e);
double qw_engine_load_ms(const struct qw_engine *e);

/* Token ids, owned by the caller (free). */
struct qw_tokens {
    int32_t *id;
    size_t n;
};
/* Ids of a text (specials: texts of control tokens become those tokens); QW_EFILE where
 * the file has no tokenizer. */
int qw_engine_tokenize(struct qw_engine *e, const char *text, size_t len, bool specials,
                       struct qw_tokens *out, struct qw_err *err);
/* Text of ids, owned by the caller; QW_EUSAGE for an id outside the vocabulary. */
int qw_engine_detokenize(struct qw_engine *e, const int32_t *id, size_t n, char **text,
                         size_t *len, struct qw_err *err);
/* Ids of a chat prompt: messages as in chat.h, ending where the model is to go on. */
int qw_engine_chat_prompt(struct qw_engine *e, const json_t *messages,
                          const json_t *tools, struct qw_tokens *out, struct qw_err *err);

/* JSON descriptions; new references. info: devices, model, kernels; plan: bytes by part;
 * identity: the card that goes into every record (sha256: compute the file's hash even
 * when it is large). */
json_t *qw_engine_info(struct qw_engine *e, bool sha256);
int qw_engine_plan(struct qw_engine *e, json_t **out, struct qw_err *err);
json_t *qw_engine_identity(struct qw_engine *e, bool sha256);
/* Every launch of a session's plans, by plan: kernel, sizes, arguments, bytes moved; and
 * what the kernels' programs are built with. Needs QW_OPEN_KERNELS. */
int qw_engine_launches(struct qw_engine *e, json_t **out, struct qw_err *err);
/* 1 when the plan fits the device's free memory. */
bool qw_engine_fits(struct qw_engine *e);

/* Write the pack files of the target and, when drafting needs one, of the drafter to the
 * folder model.pack (QW_OPEN_KERNELS suffices); again: also where a good one is there.
 * *report, a new reference: a list of {path, source, source_sha256, bytes, written,
 * seconds}. */
int qw_engine_pack(struct qw_engine *e, bool again, bool show, json_t **report,
                   struct qw_err *err);

/* What a scripted session drafts: step i proposes drafted[i mod n_steps] tokens, the
 * first right[..] of them those of id [n], the whole timeline, the others wrong. */
struct qw_script {
    const int32_t *id;
    size_t n;
    const int *drafted, *right;
    int n_steps;
};

/* What sessions of one engine may differ in; qw_session_defaults gives the options'. */
struct qw_session_params {
    const char *method; /* none ngram; dflash, mtp: when the engine was opened for it */
    int n_max, n_min;
    double p_min;
    bool adaptive;
    const struct qw_script *script; /* borrowed; drafts in place of the method */
    double temperature;
    uint64_t seed;
    bool scoring; /* logits of every row fed, no drafting */
};
void qw_session_defaults(struct qw_session_params *p, const struct qw_engine *e);
/* params NULL: the defaults. */
int qw_session_open(struct qw_session **out, struct qw_engine *e,
                    const struct qw_session_params *params, struct qw_err *err);
void qw_session_close(struct qw_session *s);
/* Back to an empty timeline. */
int qw_session_reset(struct qw_session *s, struct qw_err *err);

/* Everything the session is, with the tokens so far, into a checked file; from one, whose
 * model, kernels and cache type must be this session's (else QW_EFILE, and the session
 * stays as it was; made with another drafter it costs acceptance alone); into a new
 * session, the source unchanged; as a SHA-256 of the state, equal for every way that led
 * to the same tokens. */
int qw_session_snapshot(struct qw_session *s, const char *path, struct qw_err *err);
int qw_session_restore(struct qw_session *s, const char *path, struct qw_err *err);
int qw_session_fork(struct qw_session **out, struct qw_session *s, struct qw_err *err);
int qw_session_digest(struct qw_session *s, char hex[65], struct qw_err *err);
/* The tokens so far, borrowed until the next call on the session. */
const int32_t *qw_session_ids(const struct qw_session *s, size_t *n);

struct qw_generate {
    /* Called with text as it becomes final (whole characters, stop texts held back); a
     * non-zero return ends the run as interrupted. May be NULL. */
    int (*emit)(void *arg, const char *text, size_t len);
    void *arg;
    const volatile sig_atomic_t *interrupt; /* set to end the run cleanly; may be NULL */
    bool hash_logits; /* running SHA-256 over the rows that decided a token */
    bool show;        /* progress line for a long prefill */
    bool resume; /* go on with the random numbers where the session's last run ended */
};

enum { QW_DRAFT_POSITIONS = 15 };
/* What drafting did in a run. */
struct qw_speculation {
    const char *method; /* none, dflash, mtp, ngram */
    int n_max;
    long long cycles;            /* steps of the model that decided tokens */
    long long drafted, accepted; /* tokens verified; of them, emitted */
    long long tried[QW_DRAFT_POSITIONS], per_position[QW_DRAFT_POSITIONS];
    double mean_emitted; /* tokens per cycle */
};

struct qw_result {
    struct qw_tokens ids; /* made by the model, an end token not included */
    char *text;           /* all text, NUL-terminated */
    size_t text_len;
    const char *finish_reason; /* stop, length, interrupted, error */
    size_t prompt_tokens, cached_tokens;
    double ttft_ms, prefill_tok_s, decode_tok_s;
    char logits_sha256[65]; /* empty unless asked for */
    struct qw_speculation speculation;
};
/* Feed the prompt (of which what the session already holds is not fed again, when the
 * prompt goes on from there; else the session starts anew) and generate by the options'
 * sampling until an end token, a stop text, max_tokens, the end of the context or an
 * interrupt (QW_EINTR). *r is filled in every case, also with what was made before an
 * error; free it with qw_result_free. */
int qw_session_generate(struct qw_session *s, const int32_t *prompt, size_t n,
                        const struct qw_generate *g, struct qw_result *r,
                        struct qw_err *err);
void qw_result_free(struct qw_result *r);

/* Score ids: logits [n][n_vocab] of every position (for tests and quality checks); the
 * session must have been opened with scoring. hidden [n][n_embd] may be NULL. */
int qw_session_score(struct qw_session *s, const int32_t *id, size_t n, float *logits,
                     float *hidden, struct qw_err *err);
int qw_engine_n_vocab(const struct qw_engine *e);
#endif
