/* SPDX-License-Identifier: MIT */
#include "net_util.h"

#include <ftw.h>
#include <math.h>
#include <sys/stat.h>

#include "cycle.h"

/* ---- device, kernels, networks ---- */

enum { MAX_PROGRAMS = 16 };
static struct {
    struct qw_kern_params params;
    struct qw_kern *kern;
} programs[MAX_PROGRAMS];
static int n_programs;
static struct qw_dev *device;
static char *folder;

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

static void clean_up(void)
{
    for (int i = 0; i < n_programs; i++)
        qw_kern_close(programs[i].kern);
    if (device != NULL)
        qw_dev_close(device);
    if (folder != NULL)
        nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    free(folder);
}

static void clean_up_later(void)
{
    static bool asked;
    if (!asked)
        atexit(clean_up);
    asked = true;
}

struct qw_dev *net_dev(void)
{
    clean_up_later();
    if (device == NULL)
        OK(qw_dev_open(&device, "auto", "auto", 0, &err));
    return device;
}

struct qw_kern *net_program(const struct qw_kern_params *want)
{
    for (int i = 0; i < n_programs; i++) {
        const struct qw_kern_params *p = &programs[i].params;
        if (p->dk == want->dk && p->taps == want->taps && p->hd == want->hd &&
            p->kv_bits == want->kv_bits && p->cpu_shape == want->cpu_shape &&
            p->attn_only == want->attn_only)
            return programs[i].kern;
    }
    MUST(n_programs < MAX_PROGRAMS, "too many kernel programs");
    programs[n_programs].params = *want;
    OK(qw_kern_open(&programs[n_programs].kern, net_dev(), want, &err));
    return programs[n_programs++].kern;
}

static struct qw_kern *program_for(const struct qw_hparams *hp, const struct net_opts *o)
{
    return net_program(&(struct qw_kern_params){.dk = hp->ssm_dk,
                                                .taps = hp->ssm_conv,
                                                .hd = hp->head_dim,
                                                .kv_bits = o->kv_bits,
                                                .cpu_shape = !o->gpu_shape});
}

void net_open(struct net *n, const char *path, const struct net_opts *o)
{
    const struct qw_target_params p = {.context = o->context,
                                       .prefill = o->prefill,
                                       .kv_bits = o->kv_bits,
                                       .all_logits = o->all_logits,
                                       .verify = o->verify,
                                       .hidden = o->mtp,
                                       .tap = o->tap,
                                       .n_taps = o->n_taps,
                                       .tap_want = o->tap_want};
    OK(qw_gguf_open(&n->file, path, &err));
    OK(qw_model_plan(&n->model, n->file, net_dev()->max_alloc, o->mtp, &err));
    struct qw_kern *kern = program_for(&n->model->hp, o);
    OK(qw_model_load(n->model, kern, NULL, false, &err));
    OK(qw_target_open(&n->t, n->model, kern, &p, &err));
    n->n_vocab = n->model->hp.n_vocab;
    n->n_embd = n->model->hp.n_embd;
}

void net_close(struct net *n)
{
    qw_target_close(n->t);
    qw_model_close(n->model);
    qw_gguf_close(n->file);
}

void net_reset(struct net *n)
{
    OK(qw_state_reset(qw_target_state(n->t), &err));
}

void net_feed(struct net *n, const int32_t *id, int count, int chunk, float *logits)
{
    for (int at = 0, rows; at < count; at += rows) {
        rows = count - at < chunk ? count - at : chunk;
        OK(qw_target_forward(n->t, id + at, rows, logits != NULL, &err));
        if (logits != NULL)
            OK(qw_target_read_logits(n->t, logits + (size_t)at * (size_t)n->n_vocab, rows,
                                     &err));
        else
            OK(qw_target_wait(n->t, &err));
    }
}

void net_verify(struct net *n, int32_t id, const int32_t *draft, int drafts, int count,
                float *logits)
{
    int32_t block[QW_DRAFT_IDS + QW_MAX_DRAFT] = {drafts};
    memcpy(block + QW_DRAFT_IDS, draft, (size_t)drafts * sizeof(*draft));
    OK(qw_dev_write(net_dev(), qw_target_draft(n->t), 0, block, sizeof(block), true,
                    &err));
    OK(qw_target_verify(n->t, id, drafts, &err));
    if (logits != NULL)
        OK(qw_target_read_logits(n->t, logits, drafts + 1, &err));
    OK(qw_target_wait(n->t, &err));
    qw_target_commit(n->t, count);
}

/* ---- files and programs ---- */

char *net_source(const char *name)
{
    const char *src = getenv("srcdir");
    return qw_sprintf("%s/%s", src != NULL ? src : ".", name);
}

char *net_temp(const char *name)
{
    if (folder == NULL) {
        const char *tmp = getenv("TMPDIR");
        folder = qw_sprintf("%s/qwenrun-net-XXXXXX", tmp != NULL ? tmp : "/tmp");
        MUST(mkdtemp(folder) != NULL, "%s", folder);
        clean_up_later();
    }
    return qw_sprintf("%s/%s", folder, name);
}

float *net_floats(const char *path, size_t count)
{
    float *x = qw_alloc(count + 1, sizeof(*x));
    FILE *f = fopen(path, "rb");
    MUST(f != NULL, "%s", path);
    MUST(fread(x, sizeof(*x), count + 1, f) == count, "%s: not %zu floats", path, count);
    fclose(f);
    return x;
}

FILE *net_start(const char *command)
{
    fflush(NULL);
    FILE *f = popen(command, "r");
    MUST(f != NULL, "%s", command);
    return f;
}

void net_wait(FILE *child)
{
    char line[512];
    while (fgets(line, sizeof(line), child) != NULL)
        printf("  %s", line);
    MUST(pclose(child) == 0, "the reference needs Python 3 with numpy (PYTHON names it)");
}

char *net_script(const char *name)
{
    const char *python = getenv("PYTHON");
    char *dir = net_source("tests/oracle");
    char *text = qw_sprintf("PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 '%s' '%s/%s'",
                            python != NULL ? python : "/usr/bin/python3", dir, name);
    free(dir);
    return text;
}

void net_oracle_ids(int32_t *id, int count)
{
    for (int i = 0; i < count; i++)
        id[i] = (i * 37 + 11) % 300;
}

struct net_error net_compare(const float *got, const float *want, size_t count)
{
    struct net_error e = {0, 0};
    for (size_t i = 0; i < count; i++) {
        const double d = fabs((double)got[i] - (double)want[i]);
        e.max = d <= e.max ? e.max : d; /* a NaN stays */
        e.mean += d / (double)count;
    }
    return e;
}

int net_argmax(const float *x, int n)
{
    int best = 0;
    for (int i = 1; i < n; i++)
        best = x[i] > x[best] ? i : best;
    return best;
}

/* ---- model files in memory ---- */

static size_t scalar_bytes(enum qw_gguf_type t)
{
    static const size_t bytes[] = {
        [QW_GGUF_U8] = 1,  [QW_GGUF_I8] = 1,  [QW_GGUF_U16] = 2, [QW_GGUF_I16] = 2,
        [QW_GGUF_U32] = 4, [QW_GGUF_I32] = 4, [QW_GGUF_F32] = 4, [QW_GGUF_BOOL] = 1,
        [QW_GGUF_U64] = 8, [QW_GGUF_I64] = 8, [QW_GGUF_F64] = 8};
    return bytes[t];
}

/* First byte and size of a value as the file holds it, without an array's head. */
static const unsigned char *value_bytes(const struct qw_gguf_key *k, size_t *size)
{
    const unsigned char *at = k->data;
    if (k->elem != QW_GGUF_STR) {
        *size = k->count * scalar_bytes(k->elem);
        return k->data;
    }
    for (uint64_t i = 0; i < k->count; i++)
        qw_gguf_next_string(&at);
    *size = (size_t)(at - k->data);
    return k->data;
}

static void copy_key(struct ggufw *w, const struct qw_gguf_key *k)
{
    char name[256];
    size_t size;
    const unsigned char *v = value_bytes(k, &size);
    MUST(k->name.len < sizeof(name), "long key");
    memcpy(name, k->name.data, k->name.len);
    name[k->name.len] = '\0';
    if (strcmp(name, "general.alignment") == 0)
        return; /* net_image_write has its own */
    if (k->type == QW_GGUF_ARR)
        gw_key_arr(w, name, k->elem, k->count, v, size);
    else
        gw_key(w, name, k->type, v, size);
}

static size_t tensor_bytes(uint32_t type, uint64_t ne0, uint64_t ne1)
{
    const struct qw_type_info *t = qw_type_info(type);
    MUST(t != NULL && ne0 % t->block == 0, "type %u for rows of %llu", type,
         (unsigned long long)ne0);
    return ne0 / t->block * t->bytes * ne1;
}

struct net_tensor *net_image_add(struct net_image *m, const char *name, uint32_t type,
                                 uint64_t ne0, uint64_t ne1)
{
    m->tensor = qw_realloc(m->tensor, (size_t)m->n + 1, sizeof(*m->tensor));
    struct net_tensor *t = &m->tensor[m->n++];
    *t = (struct net_tensor){.type = type, .ne = {ne0, ne1}};
    MUST(strlen(name) < sizeof(t->name), "%s", name);
    strcpy(t->name, name);
    t->size = tensor_bytes(type, ne0, ne1);
    t->data = qw_alloc(t->size, 1);
    return t;
}

void net_image_read(struct net_image *m, const char *path)
{
    struct qw_gguf *g;
    *m = (struct net_image){.n = 0};
    OK(qw_gguf_open(&g, path, &err));
    gw_init(&m->head);
    for (size_t i = 0; i < qw_gguf_n_keys(g); i++)
        copy_key(&m->head, qw_gguf_key_at(g, i));
    for (size_t i = 0; i < qw_gguf_n_tensors(g); i++) {
        const struct qw_gguf_tensor *t = qw_gguf_tensor_at(g, i);
        char *name = qw_sprintf("%.*s", (int)t->name.len, t->name.data);
        memcpy(net_image_add(m, name, t->type, t->ne[0], t->ne[1])->data, t->data,
               t->size);
        free(name);
    }
    qw_gguf_close(g);
}

void net_image_write(const struct net_image *m, const char *path, uint32_t align)
{
    struct ggufw w;
    struct qw_buf out = {0};
    gw_init(&w);
    w.align = align;
    if (m->head.keys.len > 0)
        qw_buf_add(&w.keys, m->head.keys.data, m->head.keys.len);
    w.n_keys = m->head.n_keys;
    if (align != 32)
        gw_key_u32(&w, "general.alignment", align);
    for (int i = 0; i < m->n; i++)
        gw_tensor(&w, m->tensor[i].name, m->tensor[i].type, m->tensor[i].ne[0],
                  m->tensor[i].ne[1]);
    gw_head(&w, &out);
    FILE *f = fopen(path, "wb");
    MUST(f != NULL && fwrite(out.data, 1, out.len, f) == out.len, "%s", path);
    for (int i = 0; i < m->n; i++) {
        const size_t size = m->tensor[i].size, pad = (align - size % align) % align;
        MUST(fwrite(m->tensor[i].data, 1, size, f) == size, "%s", path);
        for (size_t p = 0; p < pad; p++)
            fputc(0, f);
    }
    MUST(fclose(f) == 0, "%s", path);
    qw_buf_free(&out);
    gw_free(&w);
}

void net_image_free(struct net_image *m)
{
    for (int i = 0; i < m->n; i++)
        free(m->tensor[i].data);
    free(m->tensor);
    gw_free(&m->head);
}

struct net_tensor *net_image_find(struct net_image *m, const char *name)
{
    int i = 0;
    while (i < m->n && strcmp(m->tensor[i].name, name) != 0)
        i++;
    MUST(i < m->n, "no tensor %s", name);
    return &m->tensor[i];
}

void net_image_drop(struct net_image *m, const char *name)
{
    struct net_tensor *t = net_image_find(m, name);
    free(t->data);
    memmove(t, t + 1, (size_t)(&m->tensor[m->n] - (t + 1)) * sizeof(*t));
    m->n--;
}

void net_tensor_retype(struct net_tensor *t, uint32_t type)
{
    t->type = type;
    t->size = tensor_bytes(type, t->ne[0], t->ne[1]);
    t->data = qw_realloc(t->data, t->size, 1);
}

void net_tensor_convert(struct net_tensor *t, uint32_t type)
{
    const size_t n = t->ne[0] * t->ne[1];
    float *x = qw_alloc(n, sizeof(*x));
    MUST(qw_decode(t->type, t->data, x, n), "%s", t->name);
    net_tensor_retype(t, type);
    MUST(qw_encode(type, x, t->data, n), "%s", t->name);
    free(x);
}
