/* SPDX-License-Identifier: MIT */
/* test_state.c - a session's device state to a file, back, and to another session: what
 * goes on from it must go on as if nothing had happened, bit for bit. The program also is
 * the other process that a file is restored in: test_state FILE IDS LOGITS. */
#include "net_util.h"

#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cycle.h"
#include "state_io.h"

extern char **environ;

enum { MORE = 64, AT = 397, SMALL = 393216 };
static const struct qw_save_kind kind = {"QWTEST\r\n", "test file", 3, 0600};
static char *program;
static unsigned long long seed = 271828;

static struct net_opts opts(int kv_bits, bool gpu_shape, int context)
{
    return (struct net_opts){.kv_bits = kv_bits,
                             .gpu_shape = gpu_shape,
                             .context = context,
                             .prefill = 64,
                             .all_logits = true,
                             .verify = 4};
}

static void open_tiny(struct net *n, const struct net_opts *o)
{
    char *path = net_source("models/tiny/tiny-qwen35-q4_0.gguf");
    net_open(n, path, o);
    free(path);
}

static struct qw_state *state_of(struct net *n)
{
    return qw_target_state(n->t);
}

static void digest_of(struct net *n, char hex[65])
{
    OK(qw_target_settle(n->t, &err));
    OK(qw_state_digest(state_of(n), hex, &err));
}

static void draw(struct net *n, int32_t *id, int count)
{
    for (int i = 0; i < count; i++)
        id[i] = (int32_t)(check_rand(&seed) % (unsigned long long)n->n_vocab);
}

static float *logits_for(const struct net *n, int rows)
{
    return qw_alloc((size_t)rows * (size_t)n->n_vocab, sizeof(float));
}

static bool same_logits(const struct net *n, const float *a, const float *b, int rows)
{
    return memcmp(a, b, (size_t)rows * (size_t)n->n_vocab * sizeof(float)) == 0;
}

/* AT - 1 tokens, then a verify step of 4 rows that keeps one: rows behind the position,
 * S behind it, and a cache tile that is not full. */
static void tell_story(struct net *n, const int32_t *id)
{
    const int32_t wrong[3] = {1, 2, 3};
    net_feed(n, id, AT - 1, 64, NULL);
    net_verify(n, id[AT - 1], wrong, 3, 1, NULL);
}

static void save(struct net *n, const char *path)
{
    struct qw_save_writer *w;
    json_t *header = json_pack("{s:i}", "position", state_of(n)->pos);
    OK(qw_target_settle(n->t, &err));
    OK(qw_save_create(&w, path, &kind, header, &err));
    OK(qw_state_write(state_of(n), w, &err));
    OK(qw_save_commit(w, &err));
    qw_save_close_writer(w);
    json_decref(header);
}

static int restore(struct net *n, const char *path, struct qw_err *err)
{
    struct qw_save_reader *r;
    int rc = qw_save_open(&r, path, &kind, err);
    if (rc == QW_OK) {
        rc = qw_state_read(state_of(n), r, err);
        qw_save_close(r);
    }
    return rc;
}

/* ---- another process ---- */

static void write_all(const char *path, const void *data, size_t bytes)
{
    FILE *f = fopen(path, "wb");
    MUST(f != NULL && fwrite(data, 1, bytes, f) == bytes && fclose(f) == 0, "%s", path);
}

static int other_process(char **arg)
{
    struct net n;
    int32_t id[MORE];
    const struct net_opts o = opts(16, false, 512);
    FILE *f = fopen(arg[1], "rb");
    MUST(f != NULL && fread(id, sizeof(id), 1, f) == 1, "%s", arg[1]);
    fclose(f);
    open_tiny(&n, &o);
    float *got = logits_for(&n, MORE);
    OK(restore(&n, arg[0], &err));
    net_feed(&n, id, MORE, 1, got);
    write_all(arg[2], got, (size_t)MORE * (size_t)n.n_vocab * sizeof(float));
    free(got);
    net_close(&n);
    return 0;
}

static void check_process(struct net *n, const char *file, const int32_t *next,
                          const float *want)
{
    char *ids = net_temp("ids"), *out = net_temp("logits");
    char *arg[] = {program, (char *)file, ids, out, NULL};
    pid_t child;
    int status = -1;
    write_all(ids, next, MORE * sizeof(*next));
    fflush(NULL);
    MUST(posix_spawn(&child, program, NULL, NULL, arg, environ) == 0, "%s", program);
    MUST(waitpid(child, &status, 0) == child, "waitpid");
    MUST(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %d", status);
    float *got = net_floats(out, (size_t)MORE * (size_t)n->n_vocab);
    CHECK(same_logits(n, got, want, MORE), "in a new process");
    free(got);
    free(ids);
    free(out);
}

/* ---- restore ---- */

static void check_restore(const char *label, const struct net_opts *o, uint64_t max_alloc,
                          const char *file, const char *digest, const int32_t *next,
                          const float *want)
{
    struct net n;
    int32_t noise[30];
    char hex[65];
    const uint64_t whole = net_dev()->max_alloc;
    if (max_alloc > 0)
        net_dev()->max_alloc = max_alloc;
    open_tiny(&n, o);
    net_dev()->max_alloc = whole;
    printf("  %s: %d pages\n", label, state_of(&n)->n_pages);
    CHECK((max_alloc > 0) == (state_of(&n)->n_pages > 1), "%s", label);
    float *got = logits_for(&n, MORE);
    draw(&n, noise, 30); /* a session that was at another place, with a tape */
    net_feed(&n, noise, 20, 10, NULL);
    net_verify(&n, noise[20], noise + 21, 3, 2, NULL);
    OK(restore(&n, file, &err));
    digest_of(&n, hex);
    CHECK(strcmp(hex, digest) == 0, "%s: digest", label);
    net_feed(&n, next, MORE, 7, got);
    CHECK(same_logits(&n, got, want, MORE), "%s: logits", label);
    free(got);
    net_close(&n);
}

static void restores(int kv_bits, bool gpu_shape)
{
    struct net n;
    int32_t id[AT + MORE];
    char digest[65], again[65];
    char *file = net_temp("session"), *second = net_temp("second");
    const struct net_opts o = opts(kv_bits, gpu_shape, 640);
    const struct net_opts less = opts(kv_bits, gpu_shape, 480);
    const struct net_opts more = opts(kv_bits, gpu_shape, 2048);
    open_tiny(&n, &o);
    draw(&n, id, AT + MORE);
    tell_story(&n, id);
    save(&n, file);
    digest_of(&n, digest);
    float *want = logits_for(&n, MORE);
    net_feed(&n, id + AT, MORE, 64, want);
    check_restore("same sizes", &o, 0, file, digest, id + AT, want);
    check_restore("smaller context", &less, 0, file, digest, id + AT, want);
    check_restore("larger context, small pages", &more, SMALL, file, digest, id + AT,
                  want);
    if (kv_bits == 16 && !gpu_shape)
        check_process(&n, file, id + AT, want);
    /* back in time in the same session; and the file is the same file again */
    OK(restore(&n, file, &err));
    save(&n, second);
    digest_of(&n, again);
    CHECK_STR(again, digest);
    FILE *a = fopen(file, "rb"), *b = fopen(second, "rb");
    MUST(a != NULL && b != NULL, "%s", second);
    for (int x = 0; x != EOF;) {
        x = getc(a);
        if (x != getc(b)) {
            CHECK(false, "saved again, the file is another");
            break;
        }
    }
    fclose(a);
    fclose(b);
    free(want);
    free(file);
    free(second);
    net_close(&n);
}

static void f16(void)
{
    restores(16, false);
}

static void f32(void)
{
    restores(32, false);
}

static void q8_0(void)
{
    restores(8, false);
}

static void gpu_shape(void)
{
    restores(8, true);
}

/* Positions at which the history or a tile is short, empty or just full. */
static void edges(void)
{
    static const int at[] = {0, 1, 2, 3, 15, 16, 17, 63, 64, 65, 128, 129, 384, 385, 500};
    struct net n, m;
    int32_t id[500];
    char one[65], two[65];
    char *file = net_temp("edge");
    const struct net_opts o = opts(32, false, 512), small = opts(32, false, 512);
    const uint64_t whole = net_dev()->max_alloc;
    open_tiny(&n, &o);
    net_dev()->max_alloc = SMALL;
    open_tiny(&m, &small);
    net_dev()->max_alloc = whole;
    draw(&n, id, 500);
    for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
        net_reset(&n);
        net_feed(&n, id, at[i], 64, NULL);
        save(&n, file);
        digest_of(&n, one);
        OK(restore(&m, file, &err));
        digest_of(&m, two);
        CHECK(strcmp(one, two) == 0, "restored at %d", at[i]);
        net_reset(&m);
        OK(qw_state_copy(state_of(&m), state_of(&n), &err));
        digest_of(&m, two);
        CHECK(strcmp(one, two) == 0, "copied at %d", at[i]);
    }
    free(file);
    net_close(&n);
    net_close(&m);
}

/* ---- fork ---- */

static void fork_with(int kv_bits, int context, uint64_t max_alloc)
{
    struct net n, m;
    int32_t id[AT + 2 * MORE];
    char before[65], after[65], copy[65];
    const struct net_opts o = opts(kv_bits, false, 640),
                          p = opts(kv_bits, false, context);
    const uint64_t whole = net_dev()->max_alloc;
    open_tiny(&n, &o);
    net_dev()->max_alloc = max_alloc > 0 ? max_alloc : whole;
    open_tiny(&m, &p);
    net_dev()->max_alloc = whole;
    float *want = logits_for(&n, MORE), *got = logits_for(&n, MORE);
    draw(&n, id, AT + 2 * MORE);
    tell_story(&n, id);
    digest_of(&n, before);
    OK(qw_state_copy(state_of(&m), state_of(&n), &err));
    digest_of(&m, copy);
    CHECK_STR(copy, before);
    /* the copy goes another way; the source is as it was */
    net_feed(&m, id + AT + MORE, MORE, 16, NULL);
    digest_of(&n, after);
    CHECK_STR(after, before);
    OK(qw_state_copy(state_of(&m), state_of(&n), &err));
    net_feed(&n, id + AT, MORE, 16, want);
    digest_of(&m, copy);
    CHECK_STR(copy, before);
    net_feed(&m, id + AT, MORE, 1, got);
    CHECK(same_logits(&n, got, want, MORE), "both go on alike");
    free(want);
    free(got);
    net_close(&n);
    net_close(&m);
}

static void forks(void)
{
    fork_with(16, 640, 0);
    fork_with(16, 2048, SMALL);
    fork_with(8, 2048, SMALL);
    fork_with(32, 480, 0);
    fork_with(32, 640, SMALL);
}

/* ---- refusals ---- */

static void refused(struct net *n, const char *file, const char *reason)
{
    struct qw_err err = {""};
    char before[65], after[65];
    const int pos = state_of(n)->pos;
    digest_of(n, before);
    CHECK(restore(n, file, &err) == QW_EFILE, "%s", reason);
    CHECK(strstr(err.msg, reason) != NULL && strstr(err.msg, file) != NULL &&
              strchr(err.msg, '\n') == NULL,
          "want '%s', got '%s'", reason, err.msg);
    digest_of(n, after);
    CHECK(strcmp(before, after) == 0 && state_of(n)->pos == pos, "%s: touched", reason);
}

static void change_byte(const char *file, long at)
{
    FILE *f = fopen(file, "r+b");
    MUST(f != NULL && fseek(f, at, SEEK_SET) == 0, "%s", file);
    const int c = getc(f);
    MUST(fseek(f, at, SEEK_SET) == 0 && putc(c ^ 4, f) != EOF && fclose(f) == 0, "%s",
         file);
}

static void truncate_by(const char *file, long bytes)
{
    struct stat st;
    MUST(stat(file, &st) == 0 && truncate(file, st.st_size - bytes) == 0, "%s", file);
}

/* The sections of file into another, `what` changed at byte `at` or cut by `cut` bytes,
 * or left out (cut < 0). */
static void rewrite(const char *file, const char *what, int at, int cut, const char *to)
{
    struct qw_save_reader *r;
    struct qw_save_writer *w;
    OK(qw_save_open(&r, file, &kind, &err));
    OK(qw_save_create(&w, to, &kind, qw_save_header(r), &err));
    for (size_t i = 0; i < qw_save_n_sections(r); i++) {
        const char *name = qw_save_section_name(r, i);
        const bool it = strcmp(name, what) == 0;
        const void *data;
        uint64_t bytes;
        OK(qw_save_section(r, name, &data, &bytes, &err));
        unsigned char *copy = qw_alloc(bytes + 1, 1);
        memcpy(copy, data, bytes);
        if (it && at >= 0)
            copy[at] ^= 3;
        if (it && cut > 0)
            bytes -= (uint64_t)cut;
        if (!it || cut >= 0)
            OK(qw_save_add(w, name, copy, bytes, &err));
        free(copy);
    }
    OK(qw_save_commit(w, &err));
    qw_save_close_writer(w);
    qw_save_close(r);
}

/* Whole files of another model: each number, then sections that are not as they should.
 */
static void refused_sizes(struct net *n, const char *file)
{
    static const char *const number[] = {"layers",
                                         "full-attention layers",
                                         "KV heads",
                                         "head size",
                                         "bits of the cache",
                                         "bytes of GDN state",
                                         "bytes of a history row",
                                         "convolution taps"};
    char *other = net_temp("other"), kv[32], gdn[32], conv[32];
    int full = 0, linear = 0;
    for (int i = 0; i < state_of(n)->n_layer; i++)
        *(state_of(n)->S[i] == NULL ? &full : &linear) = i;
    for (int i = 0; i < 8; i++) {
        char *reason = qw_sprintf(": %s: ", number[i]);
        rewrite(file, "state", 8 * i, 0, other);
        refused(n, other, reason);
        rewrite(file, "state", 8 * i + 7, 0, other);
        refused(n, other, reason);
        free(reason);
    }
    rewrite(file, "state", 8 * 8 + 3, 0, other);
    refused(n, other, "more than the context of");
    rewrite(file, "state", 8 * 8 + 7, 0, other);
    refused(n, other, "more than the context of");
    rewrite(file, "state", 8 * 8, 0, other); /* a position more or less */
    refused(n, other, " bytes, this session's ");
    rewrite(file, "state", -1, 8, other);
    refused(n, other, "section state has 64 bytes instead of 72");
    snprintf(kv, sizeof(kv), "kv.%d", full);
    snprintf(gdn, sizeof(gdn), "s.%d", linear);
    snprintf(conv, sizeof(conv), "conv.%d", linear);
    const char *const section[] = {"state", kv, gdn, conv};
    for (int i = 0; i < 4; i++) {
        rewrite(file, section[i], -1, -1, other);
        refused(n, other, "it has no section");
        rewrite(file, section[i], -1, 1, other);
        refused(n, other, "bytes");
    }
    free(other);
}

static void refusals(void)
{
    struct net n, m;
    struct qw_err why = {""};
    int32_t id[AT];
    char before[65], after[65];
    char *file = net_temp("refused");
    const struct net_opts o = opts(16, false, 512), q = opts(8, false, 512);
    const struct net_opts little = opts(16, false, 128);
    open_tiny(&n, &o);
    draw(&n, id, AT);
    tell_story(&n, id);
    save(&n, file);
    open_tiny(&m, &q);
    refused(&m, file, "bits of the cache: 16 in the file, 8 in this session");
    digest_of(&m, before);
    OK(qw_target_settle(n.t, &err));
    CHECK(qw_state_copy(state_of(&m), state_of(&n), &why) == QW_EUSAGE &&
          strstr(why.msg, "16 in one session, 8 in the other") != NULL);
    digest_of(&m, after);
    CHECK_STR(after, before);
    net_close(&m);
    open_tiny(&m, &little);
    net_feed(&m, id, 9, 9, NULL);
    refused(&m, file, "397 in the file, more than the context of 128");
    OK(qw_target_settle(n.t, &err));
    CHECK(qw_state_copy(state_of(&m), state_of(&n), &why) == QW_EUSAGE &&
          strstr(why.msg, "397 positions, more than the context of 128") != NULL);
    net_close(&m);
    refused_sizes(&n, file);
    truncate_by(file, 1);
    refused(&n, file, "cut at byte ");
    save(&n, file);
    change_byte(file, 5000);
    refused(&n, file, "its checksum differs");
    net_close(&n);
    free(file);
}

/* ---- cache groups: pages of any cut, rings ---- */

struct group {
    struct qw_kv_page page[4];
    struct qw_kv_span span;
};

static void open_group(struct group *g, int kv_bits, int slots, int page, int first,
                       int last)
{
    const struct qw_attn_shape shape = {.kv_heads = 3, .hd = 64};
    *g = (struct group){.span = {.kv_heads = 3,
                                 .hd = 64,
                                 .kv_bits = kv_bits,
                                 .slots = slots,
                                 .first = first,
                                 .last = last}};
    const uint64_t bytes = qw_kv_page_bytes(&shape, kv_bits, page);
    unsigned char *noise = qw_alloc(bytes, 1);
    for (int at = 0; at < slots; at += page) {
        struct qw_kv_page *p = &g->page[g->span.n_pages++];
        p->p0 = at;
        p->p1 = at + page;
        for (int v = 0; v < 2; v++) {
            for (uint64_t i = 0; i < bytes; i++)
                noise[i] = (unsigned char)check_rand(&seed);
            OK(qw_dev_buffer(net_dev(), bytes, "page", v ? &p->v : &p->k, &err));
            OK(qw_dev_write(net_dev(), v ? p->v : p->k, 0, noise, bytes, true, &err));
        }
    }
    free(noise);
    g->span.page = g->page;
}

static void close_group(struct group *g)
{
    for (int i = 0; i < g->span.n_pages; i++) {
        qw_dev_release(net_dev(), &g->page[i].k);
        qw_dev_release(net_dev(), &g->page[i].v);
    }
}

static int put_buf(void *arg, const void *data, uint64_t bytes, struct qw_err *err)
{
    (void)err;
    qw_buf_add(arg, data, (size_t)bytes);
    return QW_OK;
}

static struct qw_buf stream_of(const struct qw_kv_span *s)
{
    struct qw_buf b = {0};
    OK(qw_kv_span_read(net_dev(), s, put_buf, &b, &err));
    CHECK(b.len == qw_kv_span_bytes(s), "%zu", b.len);
    return b;
}

static bool same_stream(const struct qw_kv_span *a, const struct qw_kv_span *b)
{
    struct qw_buf x = stream_of(a), y = stream_of(b);
    const bool same =
        x.len == y.len && (x.len == 0 || memcmp(x.data, y.data, x.len) == 0);
    qw_buf_free(&x);
    qw_buf_free(&y);
    return same;
}

/* A byte of K or V as the kernels find it: of `part` bytes a position, from `base` on. */
static unsigned char byte_at(const struct group *g, bool v, uint64_t base, int elem,
                             int lines, int head, int pos, int line, int byte)
{
    const struct qw_kv_page *p = g->page;
    const int slot = pos % g->span.slots;
    while (p->p1 <= slot)
        p++;
    const int n = p->p1 - p->p0, at = slot - p->p0;
    const int k = ((head * n + at / 16 * 16) * lines + line * 16 + at % 16) * elem;
    unsigned char c;
    OK(qw_dev_read(
        net_dev(), v ? p->v : p->k,
        base * (uint64_t)n +
            (uint64_t)((v ? ((head * n + at) * lines + line) * elem : k) + byte),
        &c, 1, &err));
    return c;
}

/* Some bytes of the stream against the layout in the kernels' head comments. */
static void check_layout(const struct group *g)
{
    const struct qw_kv_span *s = &g->span;
    struct qw_buf b = stream_of(s);
    const unsigned char *at = (const unsigned char *)b.data;
    for (int plane = 0; plane < 4; plane++) {
        const bool v = plane >= 2, scales = plane % 2 == 1;
        const int elem = scales ? 2 : s->kv_bits / 8, lines = scales ? 2 : 64;
        const int unit = v ? 1 : 16, from = s->first / unit * unit;
        const int to = (s->last + unit - 1) / unit * unit;
        if (scales && s->kv_bits != 8)
            continue;
        for (int i = 0; i < 300 && to > from; i++) {
            const int head = (int)(check_rand(&seed) % 3);
            const int pos = from + (int)(check_rand(&seed) % (unsigned)(to - from));
            const int line = (int)(check_rand(&seed) % (unsigned)lines);
            const int byte = (int)(check_rand(&seed) % (unsigned)elem);
            const bool in = pos >= s->first && pos < s->last;
            const int rel = head * (to - from) + pos - from;
            const int k = (rel / 16 * 16 * lines + line * 16 + rel % 16) * elem;
            const unsigned char got = at[(v ? (rel * lines + line) * elem : k) + byte];
            const unsigned char want =
                byte_at(g, v, scales ? 3 * 64 : 0, elem, lines, head, pos, line, byte);
            CHECK(got == (in ? want : 0), "plane %d head %d position %d line %d", plane,
                  head, pos, line);
        }
        at += (size_t)(3 * (to - from) * lines * elem);
    }
    qw_buf_free(&b);
}

static void group_case(int kv_bits, int slots, int first, int last)
{
    struct group g, h;
    open_group(&g, kv_bits, slots, 128, first, last);
    open_group(&h, kv_bits, slots, slots, first, last);
    struct qw_kv_span others = h.span; /* what must stay: the rest of the ring */
    others.first = last;
    others.last = first + slots;
    check_layout(&g);
    struct qw_buf stream = stream_of(&g.span), rest = stream_of(&others);
    OK(qw_kv_span_write(net_dev(), &h.span, stream.data, &err));
    CHECK(same_stream(&g.span, &h.span), "bits %d, [%d, %d) of %d", kv_bits, first, last,
          slots);
    struct qw_buf after = stream_of(&others);
    CHECK(after.len == rest.len &&
              (rest.len == 0 || memcmp(after.data, rest.data, rest.len) == 0),
          "bits %d, [%d, %d) of %d: beside it", kv_bits, first, last, slots);
    close_group(&h);
    open_group(&h, kv_bits, slots, slots, first, last);
    OK(qw_kv_span_copy(net_dev(), &h.span, &g.span, &err));
    CHECK(same_stream(&g.span, &h.span), "copy: bits %d, [%d, %d) of %d", kv_bits, first,
          last, slots);
    qw_buf_free(&stream);
    qw_buf_free(&rest);
    qw_buf_free(&after);
    close_group(&g);
    close_group(&h);
}

static void groups(void)
{
    static const int range[][2] = {{0, 0},     {0, 1},     {0, 384},    {5, 9},
                                   {15, 17},   {100, 300}, {370, 390},  {777, 1161},
                                   {384, 768}, {765, 801}, {1000, 1000}};
    for (size_t i = 0; i < sizeof(range) / sizeof(range[0]); i++)
        for (int bits = 8; bits <= 32; bits *= 2)
            group_case(bits, 384, range[i][0], range[i][1]);
}

int main(int argc, char **argv)
{
    static const struct check_test all[] = {T(f16),   T(f32),   T(q8_0),     T(gpu_shape),
                                            T(edges), T(forks), T(refusals), T(groups)};
    program = argv[0];
    if (argc == 4)
        return other_process(argv + 1);
    printf("seed %llu\n", seed);
    return check_run(all, (int)(sizeof(all) / sizeof(all[0])));
}
