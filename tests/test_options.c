/* SPDX-License-Identifier: MIT */
/* test_options.c - the list of settings, its values at their borders, files, order,
 * contradictions. */
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "kern.h"
#include "options.h"

static struct qw_err err;

static int set(struct qw_options *o, const char *s)
{
    err.msg[0] = '\0';
    return qw_options_set(o, s, &err);
}

static int read_text(struct qw_options *o, const char *name, const char *text)
{
    err.msg[0] = '\0';
    return qw_options_read(o, name, text, strlen(text), &err);
}

static bool has(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

static void check_value(const struct qw_options *o, const char *section, const char *key,
                        const char *want)
{
    const int id = qw_option_find(section, key);
    MUST(id >= 0, "%s.%s", section, key);
    char *got = qw_option_format(o, (enum qw_option_id)id);
    CHECK_STR(got, want);
    free(got);
}

static void defaults(void)
{
    struct qw_options o;
    qw_options_init(&o);
    for (int i = 0; i < QW_N_OPTIONS; i++) {
        const struct qw_option_desc *d = qw_option_desc((enum qw_option_id)i);
        char *origin = qw_option_origin(&o, (enum qw_option_id)i), line[256];
        check_value(&o, d->section, d->key, d->dflt);
        CHECK_STR(origin, "default");
        snprintf(line, sizeof(line), "%s.%s=%s", d->section, d->key, d->dflt);
        CHECK(set(&o, line) == QW_OK, "%s: %s", line, err.msg);
        CHECK(qw_section_help(d->section) != NULL, "%s", d->section);
        CHECK(strlen(d->key) + strlen(d->dflt) + strlen(d->help) < 190, "%s", d->key);
        free(origin);
    }
    CHECK(o.model.context == 4096 && o.sampling.top_k == 20 && o.sampling.seed == 0,
          "fields");
    CHECK(o.sampling.top_p == 0.95 && o.speculation.n_max == 5 && !o.speculation.adaptive,
          "fields");
    CHECK(o.chat.thinking_budget == -1 && o.chat.system == NULL && o.sampling.stop.n == 0,
          "words");
    CHECK(o.device.memory_reserve == QW_SIZE_WORD && o.log.file == NULL, "words");
    qw_options_close(&o);
    qw_options_close(NULL);
}

/* One step outside a range is refused by name, with the range; the border itself is
 * taken. */
static void try_border(struct qw_options *o, const struct qw_option_desc *d, double at,
                       int want)
{
    char line[256], allowed[200];
    const bool real = d->type == QW_TYPE_REAL;
    const int id = qw_option_find(d->section, d->key);
    snprintf(line, sizeof(line), real ? "%s.%s=%.3f" : "%s.%s=%.0f", d->section, d->key,
             at);
    CHECK(set(o, line) == want, "%s: %s", line, err.msg);
    if (want == QW_OK)
        return;
    qw_option_allowed((enum qw_option_id)id, allowed, sizeof(allowed));
    CHECK(has(err.msg, d->key) && has(err.msg, allowed), "%s: %s", line, err.msg);
}

static void borders(void)
{
    struct qw_options o;
    qw_options_init(&o);
    for (int i = 0; i < QW_N_OPTIONS; i++) {
        const struct qw_option_desc *d = qw_option_desc((enum qw_option_id)i);
        if (d->type != QW_TYPE_INT && d->type != QW_TYPE_REAL && d->type != QW_TYPE_SIZE)
            continue;
        const double step = d->type == QW_TYPE_REAL ? 0.01 : 1;
        try_border(&o, d, d->least, QW_OK);
        try_border(&o, d, d->most, QW_OK);
        try_border(&o, d, d->least - step, QW_EUSAGE);
        try_border(&o, d, d->most + step, QW_EUSAGE);
    }
    qw_options_close(&o);
}

static void refused_values(void)
{
    static const char *const bad[] = {
        "model.context=12abc",
        "model.context=1e3",
        "model.context=0x10",
        "model.context= 5",
        "model.context=+5",
        "model.context=",
        "model.context=--5",
        "model.context=5.0",
        "model.context=99999999999999999999",
        "sampling.seed=-1",
        "sampling.seed=18446744073709551616",
        "sampling.seed=nan",
        "sampling.temperature=nan",
        "sampling.temperature=inf",
        "sampling.temperature=1e-1",
        "sampling.temperature=.5",
        "sampling.temperature=1.",
        "sampling.temperature=0x1",
        "sampling.temperature=1,5",
        "speculation.adaptive=2",
        "speculation.adaptive=maybe",
        "speculation.adaptive=y",
        "device.memory_reserve=1 MB",
        "device.memory_reserve=1.5 GiB",
        "device.memory_reserve=GiB",
        "device.memory_reserve=99999999999 GiB",
        "device.backend=opencl",
        "kv.target=F16",
        "kernels.attn=xe2:",
        "kernels.attn=xe2:QW_=1",
        "kernels.attn=xe2:QW_WG=",
        "kernels.attn=a b",
        "kernels.attn=xe2:QW_WG=64,",
        "kernels.attn=xe2:QW_WG=-1",
        "sampling.stop=a||b",
        "sampling.stop=|",
        "sampling.stop=a\\",
        "sampling.stop=\\q",
        "sampling.stop=\\0",
        "sampling.stop=\\x",
        "sampling.stop=\\777",
        "nosuch",
        "nosuch=1",
        "model.nosuch=1",
        ".=",
        "=",
        "model=1",
    };
    struct qw_options o;
    qw_options_init(&o);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK(set(&o, bad[i]) == QW_EUSAGE && err.msg[0], "%s was taken", bad[i]);
    for (int i = 0; i < QW_N_OPTIONS; i++)
        CHECK(o.source[i].line == QW_LINE_DEFAULT, "a refused value has left a trace");
    qw_options_close(&o);
}

static void accepted_values(void)
{
    static const char *const words[] = {"yes", "ON",  "True",  "1",
                                        "no",  "oFF", "FALSE", "0"};
    struct qw_options o;
    char line[64];
    qw_options_init(&o);
    for (int i = 0; i < 8; i++) {
        snprintf(line, sizeof(line), "speculation.adaptive=%s", words[i]);
        CHECK(set(&o, line) == QW_OK && o.speculation.adaptive == (i < 4), "%s", line);
    }
    CHECK(set(&o, "device.memory_reserve=3 GiB") == QW_OK, "%s", err.msg);
    CHECK(o.device.memory_reserve == 3ull << 30, "3 GiB");
    check_value(&o, "device", "memory_reserve", "3 GiB");
    CHECK(set(&o, "device.memory_reserve=1536KiB") == QW_OK, "%s", err.msg);
    check_value(&o, "device", "memory_reserve", "1536 KiB");
    CHECK(set(&o, "device.memory_reserve=1025") == QW_OK, "%s", err.msg);
    check_value(&o, "device", "memory_reserve", "1025");
    CHECK(set(&o, "sampling.seed=18446744073709551615") == QW_OK, "%s", err.msg);
    CHECK(o.sampling.seed == UINT64_MAX, "seed");
    CHECK(set(&o, "sampling.presence_penalty=-1.25") == QW_OK, "%s", err.msg);
    CHECK(o.sampling.presence_penalty == -1.25, "penalty");
    CHECK(set(&o, "kernels.matmul_q4_0=xe2:QW_WG=64,QW_ROWS=2") == QW_OK, "%s", err.msg);
    CHECK_STR(o.kernels.matmul_q4_0, "xe2:QW_WG=64,QW_ROWS=2");
    CHECK(set(&o, "chat.system=a = b; \"c\" ") == QW_OK, "%s", err.msg);
    CHECK_STR(o.chat.system, "a = b; \"c\" "); /* as it is */
    CHECK(set(&o, "sampling.stop=\\n\\n|</s>|a\\|b\\x7c\\101\\\\| x") == QW_OK, "%s",
          err.msg);
    MUST(o.sampling.stop.n == 4, "%d texts", o.sampling.stop.n);
    CHECK_STR(o.sampling.stop.item[0], "\n\n");
    CHECK_STR(o.sampling.stop.item[1], "</s>");
    CHECK_STR(o.sampling.stop.item[2], "a|b|A\\");
    CHECK_STR(o.sampling.stop.item[3], " x");
    CHECK(set(&o, "sampling.stop=none") == QW_OK && o.sampling.stop.n == 0, "none");
    qw_options_close(&o);
}

static void near_names(void)
{
    static const char *const names[] = {"run", "info", "plan", "tokenize", "config"};
    struct qw_options o;
    CHECK_STR(qw_nearest("rnu", names, 5), "run");
    CHECK_STR(qw_nearest("INFO", names, 5), "info");
    CHECK_STR(qw_nearest("tokenise", names, 5), "tokenize");
    CHECK(qw_nearest("benchmark", names, 5) == NULL, "benchmark is near nothing");
    CHECK(qw_nearest("", names, 5) == NULL && qw_nearest("x", names, 5) == NULL, "short");
    qw_options_init(&o);
    set(&o, "model.contextt=1");
    CHECK(has(err.msg, "model.context?"), "%s", err.msg);
    set(&o, "modell.context=1");
    CHECK(has(err.msg, "[model]?"), "%s", err.msg);
    set(&o, "MODEL.context=1");
    CHECK(has(err.msg, "[model]?"), "%s", err.msg);
    set(&o, "model.temperature=1");
    CHECK(has(err.msg, "sampling.temperature?"), "%s", err.msg);
    qw_options_close(&o);
}

static void file_values(void)
{
    struct qw_options o;
    qw_options_init(&o);
    CHECK(read_text(
              &o, "dir/f.ini",
              "\xef\xbb\xbf[model]\r\ntarget = a;b.gguf ; comment\r\n  draft: /abs\r\n"
              "[chat] ; comment\nsystem = \"  two words \"\n# [nosuch]\n\t; nosuch = 1\n"
              "[model]\npack = './off'") == QW_OK,
          "%s", err.msg);
    CHECK_STR(o.model.target, "dir/a;b.gguf");
    CHECK_STR(o.model.draft, "/abs");
    CHECK_STR(o.chat.system, "  two words ");
    CHECK_STR(o.model.pack, "dir/./off");
    char *origin = qw_option_origin(&o, QW_OPT_chat_system);
    CHECK_STR(origin, "dir/f.ini:5");
    free(origin);
    CHECK(read_text(&o, "f.ini", "[model]\ntarget=x\ncontext=1\ncontext=2\n") == QW_OK,
          "%s", err.msg);
    CHECK_STR(o.model.target, "x");
    CHECK(o.model.context == 2 && o.n_warnings == 1, "last wins, with a warning");
    CHECK(has(o.warning[0], "f.ini:4:") && has(o.warning[0], "line 3"), "%s",
          o.warning[0]);
    CHECK(read_text(&o, "g.ini", "[model]\ncontext=3\n") == QW_OK && o.n_warnings == 1,
          "another file is no reason to warn");
    CHECK(set(&o, "model.target=y") == QW_OK, "%s", err.msg);
    CHECK_STR(o.model.target, "y");
    CHECK(read_text(&o, "e.ini", "") == QW_OK && o.n_files == 4, "an empty file");
    qw_options_close(&o);
}

static void file_faults(void)
{
    static const struct {
        const char *text, *place;
    } bad[] = {
        {"[model]\ncontext = 1\n[model\n", "f.ini:3: "},
        {"\n[model] x\n", "f.ini:2: "},
        {"[]\ncontext=1\n", "f.ini:1: unknown section"},
        {"context=1\n[model]\n", "f.ini:1: "},
        {"[model]\nseed\n", "f.ini:2: neither"},
        {"[model]\n\n\n=5\n", "f.ini:4: "},
        {"[model]\ncontext=\n", "f.ini:2: model.context"},
        {"[model]\ncontext=7\n continued\n", "f.ini:3: neither"},
        {"[chat]\nsystem=\"a ; b\"\n", "f.ini:2: "},
        {"[chat]\nsystem=\"\n", "f.ini:2: "},
        {"[chat]\nsystem='a' b\n", "f.ini:2: "},
        {"[chat]\nsystem=\"\"\n", "f.ini:2: "},
        {"[model]\ncontext=0\nprefill=1\ncontext=x\n", "line 4: "},
        {"[a_section_name_that_is_longer_than_the_forty_nine_bytes_of_inih]\n",
         "f.ini:1: unknown"},
        {"[model]\ntarget\x01=1\n", "\\x01"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct qw_options o;
        qw_options_init(&o);
        CHECK(read_text(&o, "f.ini", bad[i].text) == QW_EUSAGE, "%s was taken",
              bad[i].text);
        CHECK(has(err.msg, bad[i].place), "want %s, got %s", bad[i].place, err.msg);
        CHECK(o.model.context == 4096 && o.n_files == 0,
              "something of a bad file was used");
        qw_options_close(&o);
    }
}

static void line_lengths(void)
{
    char text[600];
    for (int n = 150; n < 450; n++) {
        struct qw_options o;
        qw_options_init(&o);
        const int head = snprintf(text, sizeof(text), "[chat]\nsystem=");
        memset(text + head, 'x', (size_t)n);
        strcpy(text + head + n, "\n[model]\ncontext=5\n");
        const int rc = read_text(&o, "f.ini", text);
        if (n + 7 <= 197)
            CHECK(rc == QW_OK && strlen(o.chat.system) == (size_t)n &&
                      o.model.context == 5,
                  "%d", n);
        else
            CHECK(rc == QW_EUSAGE && has(err.msg, "f.ini:2: "), "%d: %s", n, err.msg);
        qw_options_close(&o);
    }
}

static void write_file(const char *dir, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    MUST(f != NULL && fputs(text, f) >= 0 && fclose(f) == 0, "%s", path);
}

static void order(void)
{
    char dir[256], sub[300], file[300];
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof(dir), "%s/qwenrun-options.XXXXXX", tmp ? tmp : "/tmp");
    MUST(mkdtemp(dir) != NULL, "%s", dir);
    snprintf(sub, sizeof(sub), "%s/qwenrun", dir);
    snprintf(file, sizeof(file), "%s/own.ini", dir);
    MUST(mkdir(sub, 0700) == 0, "%s", sub);
    write_file(sub, "qwenrun.ini",
               "[model]\ncontext=100\n[batch]\nprefill=1\n[log]\nlevel=info\n");
    write_file(sub, "mine.ini", "[model]\ncontext=200\n[batch]\nprefill=2\n");
    write_file(dir, "own.ini", "[model]\ncontext=300\ntarget=m.gguf\n");
    MUST(setenv("XDG_CONFIG_HOME", dir, 1) == 0, "setenv");
    struct qw_options o;
    const char *files[] = {"mine", file},
               *sets[] = {"model.context=400", "model.context=500"};
    CHECK(qw_options_load(&o, files, 2, sets, 2, &err) == QW_OK, "%s", err.msg);
    CHECK(o.model.context == 500 && o.batch.prefill == 2 && o.n_files >= 3, "order");
    CHECK_STR(o.log.level, "info");
    CHECK(o.model.draft == NULL && strcmp(o.speculation.method, "none") == 0,
          "no drafter is the shipped one's match for another model");
    CHECK(has(o.model.target, "/m.gguf") && o.model.target[0] == '/', "%s",
          o.model.target);
    qw_options_close(&o);
    const char *missing[] = {"nosuch"};
    CHECK(qw_options_load(&o, missing, 1, NULL, 0, &err) == QW_EUSAGE &&
              has(err.msg, "nosuch.ini"),
          "%s", err.msg);
    qw_options_close(&o);
    MUST(unsetenv("XDG_CONFIG_HOME") == 0 && setenv("HOME", dir, 1) == 0, "setenv");
    const char *home[] = {"model.target=~/x"};
    CHECK(qw_options_load(&o, NULL, 0, home, 1, &err) == QW_OK, "%s", err.msg);
    CHECK(strncmp(o.model.target, dir, strlen(dir)) == 0 && has(o.model.target, "/x"),
          "%s", o.model.target);
    qw_options_close(&o);
    MUST(unsetenv("HOME") == 0, "unsetenv");
    CHECK(qw_options_load(&o, NULL, 0, home, 1, &err) == QW_EUSAGE &&
              has(err.msg, "HOME"),
          "%s", err.msg);
    qw_options_close(&o);
    char path[400];
    static const char *const names[] = {"qwenrun/qwenrun.ini", "qwenrun/mine.ini",
                                        "own.ini"};
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        unlink(path);
    }
    rmdir(sub);
    rmdir(dir);
}

static void together(void)
{
    static const struct {
        const char *set[2], *why;
    } bad[] = {
        {{"speculation.n_max=2", "speculation.n_min=3"}, "n_min = 3 (-o)"},
        {{"speculation.method=dflash", "model.draft=none"}, "model.draft = none (-o)"},
        {{"kv.draft=q8_0", "kv.target=f16"}, "allow_lossy_draft = no (default)"},
    };
    struct qw_options o;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        CHECK(qw_options_load(&o, NULL, 0, bad[i].set, 2, &err) == QW_EUSAGE, "%s",
              bad[i].set[0]);
        CHECK(has(err.msg, bad[i].why), "%s", err.msg);
        qw_options_close(&o);
    }
    const char *lossy[] = {"kv.draft=q8_0", "kv.allow_lossy_draft=yes"};
    CHECK(qw_options_load(&o, NULL, 0, lossy, 2, &err) == QW_OK && o.n_warnings == 1,
          "%s", err.msg);
    qw_options_close(&o);
    CHECK(qw_options_load(&o, NULL, 0, NULL, 0, &err) == QW_OK, "%s", err.msg);
    CHECK(has(o.model.target, "tiny-qwen35-q4_0.gguf") && has(o.model.draft, "dflash"),
          "shipped");
    CHECK_STR(o.speculation.method, "dflash");
    qw_options_close(&o);
}

/* An op without a key could not be chosen, and a key without an op would do nothing. */
static void kernel_ops(void)
{
    int n = 0;
    for (int i = 0; i < QW_N_OPTIONS; i++)
        n += qw_option_desc((enum qw_option_id)i)->type == QW_TYPE_KERNEL;
    CHECK(n == qw_kern_n_ops(), "%d keys, %d ops", n, qw_kern_n_ops());
    for (int i = 0; i < qw_kern_n_ops(); i++)
        CHECK(qw_option_find("kernels", qw_kern_op(i)) >= 0, "%s has no key",
              qw_kern_op(i));
}

QW_TESTS(T(defaults), T(borders), T(refused_values), T(accepted_values), T(near_names),
         T(file_values), T(file_faults), T(line_lengths), T(order), T(together),
         T(kernel_ops))
