/* SPDX-License-Identifier: MIT */
#include "session_util.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

static const char prompt_text[] =
    "def add(a, b):\n    return a + b\n\n\ndef sub(a, b):\n    return a - b\n\n\ndef ";

void open_engine(struct opened *p, const struct setting *s, int max_tokens,
                 const char *more)
{
    const char *set[10];
    char tokens[64];
    int n = 0;
    snprintf(tokens, sizeof(tokens), "sampling.max_tokens=%d", max_tokens);
    for (; n < s->n; n++)
        set[n] = s->set[n];
    set[n++] = tokens;
    if (more != NULL)
        set[n++] = more;
    OK(qw_options_load(&p->o, NULL, 0, set, n, &err));
    OK(qw_engine_open(&p->e, &p->o, QW_OPEN_MODEL, false, &err));
    OK(qw_engine_tokenize(p->e, prompt_text, sizeof(prompt_text) - 1, false, &p->prompt,
                          &err));
}

void close_engine(struct opened *p)
{
    free(p->prompt.id);
    qw_engine_close(p->e);
    qw_options_close(&p->o);
}

struct qw_result generate(struct qw_session *s, const int32_t *id, size_t n, bool resume)
{
    const struct qw_generate g = {.hash_logits = true, .resume = resume};
    struct qw_result r;
    OK(qw_session_generate(s, id, n, &g, &r, &err));
    return r;
}

struct qw_result resume(struct qw_session *s)
{
    size_t n;
    const int32_t *id = qw_session_ids(s, &n);
    return generate(s, id, n, true);
}

bool same(const struct qw_result *a, const struct qw_result *b)
{
    return a->ids.n == b->ids.n &&
           memcmp(a->ids.id, b->ids.id, a->ids.n * sizeof(int32_t)) == 0 &&
           strcmp(a->logits_sha256, b->logits_sha256) == 0;
}

static char dir[256];

const char *session_dir(void)
{
    const char *tmp = getenv("TMPDIR");
    if (dir[0] == '\0') {
        snprintf(dir, sizeof(dir), "%s/qw-session.XXXXXX", tmp && *tmp ? tmp : "/tmp");
        MUST(mkdtemp(dir) != NULL, "no folder like %s", dir);
    }
    return dir;
}

void session_done(void)
{
    char *cmd = qw_sprintf("rm -rf '%s'", session_dir());
    CHECK(system(cmd) == 0);
    free(cmd);
    dir[0] = '\0';
}

int session_files(void)
{
    DIR *d = opendir(session_dir());
    int n = 0;
    MUST(d != NULL, "%s", dir);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}
