/* SPDX-License-Identifier: MIT */
/* kern.c - which variant an op takes. */
#include "kern.h"

#include <stdlib.h>
#include <string.h>

#include "kern_build.h"
#include "kern_xe2.h"

static const char *const variant_name[] = {
    [QW_GENERIC] = "generic", [QW_XE2] = "xe2", [QW_XE2_INT8] = "xe2-int8"};

int qw_kern_n_ops(void)
{
    return QW_N_OPS;
}

const char *qw_kern_op(int i)
{
    return qw_kern_table[i].op;
}

const char *qw_kern_variant(const struct qw_kern *k, int i)
{
    static const char *const name[][2] = {
        [QW_GENERIC] = {"generic (gpu shape)", "generic (cpu shape)"},
        [QW_XE2] = {"xe2", "xe2 (emulated)"},
        [QW_XE2_INT8] = {"xe2-int8", "xe2-int8 (emulated)"}};
    const enum qw_variant v = k->variant[i];
    if (k->why[i] == NULL)
        return NULL;
    return name[v][v == QW_GENERIC ? k->cpu_shape : k->emulated];
}

const char *qw_kern_why(const struct qw_kern *k, int i)
{
    return k->why[i];
}

struct qw_kern *qw_kern_of(struct qw_kern *k, enum qw_op op)
{
    return k->variant[op] == QW_GENERIC ? k : k->xe2;
}

enum qw_op qw_kern_matmul(enum qw_layout l)
{
    return (enum qw_op)(QW_OP_MATMUL_F32 + (int)l);
}

bool qw_kern_matmul_xe2(const struct qw_kern *k, enum qw_layout l, int K)
{
    return k->variant[qw_kern_matmul(l)] != QW_GENERIC && K % 256 == 0;
}

enum qw_layout qw_kern_layout(const struct qw_kern *k, enum qw_layout l, int K)
{
    return qw_kern_matmul_xe2(k, l, K) && k->variant[qw_kern_matmul(l)] == QW_XE2
               ? qw_pack_int4(l)
               : l;
}

/* ---- the choice ---- */

/* What is decided for a set before anything is built. */
struct choice {
    const struct qw_kern_params *p;
    enum qw_variant variant[QW_N_OPS];
    bool named[QW_N_OPS]; /* by the user */
    bool emulated;
    bool backend;  /* the backend is xe2 by the user's word */
    char *missing; /* what the device lacks for xe2; NULL: nothing */
};

/* Do the table's files have a variant of an op? */
static bool has_variant(int op, enum qw_variant v)
{
    if (v == QW_GENERIC)
        return true;
    return qw_kern_table[op].xe2 != NULL && (v == QW_XE2 || qw_kern_table[op].int4);
}

static int unknown_variant(int op, const char *word, struct qw_err *err)
{
    char known[128] = "auto";
    for (int v = 0; v < QW_N_VARIANTS; v++)
        if (has_variant(op, (enum qw_variant)v)) {
            strcat(known, ", ");
            strcat(known, variant_name[v]);
        }
    return qw_fail(err, QW_EUSAGE, "kernels.%s = %s: no such variant here (known: %s)",
                   qw_kern_table[op].op, word, known);
}

/* The user's word for an op. The host lays buffers out and sizes launches by what the
 * kernels are built with, so none of that is for the user to say. */
static int read_word(struct choice *c, int op, struct qw_err *err)
{
    const char *word =
        c->p->choice ? c->p->choice(c->p->choice_arg, qw_kern_table[op].op) : NULL;
    if (word == NULL || strcmp(word, "auto") == 0)
        return QW_OK;
    const size_t n = strcspn(word, ":");
    int v = 0;
    while (v < QW_N_VARIANTS &&
           (n != strlen(variant_name[v]) || strncmp(word, variant_name[v], n) != 0 ||
            !has_variant(op, (enum qw_variant)v)))
        v++;
    if (v == QW_N_VARIANTS)
        return unknown_variant(op, word, err);
    if (word[n] != '\0')
        return qw_fail(err, QW_EUSAGE, "kernels.%s = %s: %s has no build parameters",
                       qw_kern_table[op].op, word, variant_name[v]);
    if (v != QW_GENERIC && c->missing != NULL)
        return qw_fail(err, QW_EUSAGE, "kernels.%s = %s: %s", qw_kern_table[op].op, word,
                       c->missing);
    c->variant[op] = (enum qw_variant)v;
    c->named[op] = true;
    return QW_OK;
}

static int choose(struct choice *c, const struct qw_dev *dev, struct qw_err *err)
{
    const char *backend = c->p->backend ? c->p->backend : "generic";
    const bool automatic = strcmp(backend, "auto") == 0;
    int rc = QW_OK;
    c->emulated = strcmp(backend, "xe2-emulated") == 0;
    c->backend = c->emulated || strcmp(backend, "xe2") == 0;
    c->missing = c->emulated ? NULL : qw_xe2_missing(dev);
    if (c->backend && c->missing != NULL)
        return qw_fail(err, QW_EUSAGE, "device.backend = %s: %s", backend, c->missing);
    for (int i = 0; rc == QW_OK && i < QW_N_OPS; i++) {
        if (!qw_kern_has(c->p, i))
            continue;
        if ((c->backend || (automatic && c->missing == NULL)) &&
            qw_kern_table[i].xe2 != NULL)
            c->variant[i] = QW_XE2;
        rc = read_word(c, i, err);
    }
    return rc;
}

static bool is_product(int op)
{
    return op >= QW_OP_MATMUL_F32 && op <= QW_OP_MATMUL_Q6_K;
}

static bool any_xe2(const struct choice *c)
{
    for (int i = 0; i < QW_N_OPS; i++)
        if (c->variant[i] != QW_GENERIC)
            return true;
    return false;
}

/* Did the user ask for xe2, so that nothing else may stand in for it? */
static bool asked_xe2(const struct choice *c)
{
    bool asked = c->backend;
    for (int i = 0; i < QW_N_OPS; i++)
        asked = asked || (c->named[i] && c->variant[i] != QW_GENERIC);
    return asked;
}

/* Put one variant in place of another where the user named none; false when he named it
 * somewhere, or there is nothing to replace. */
static bool replace(struct choice *c, enum qw_variant from, enum qw_variant to)
{
    bool any = false;
    for (int i = 0; i < QW_N_OPS; i++)
        if (c->variant[i] == from && has_variant(i, to)) {
            if (c->named[i])
                return false;
            any = true;
        }
    for (int i = 0; any && i < QW_N_OPS; i++)
        if (c->variant[i] == from && has_variant(i, to))
            c->variant[i] = to;
    return any;
}

/* Build what cl/xe2 has of the chosen ops, and test it. */
static int open_xe2(struct qw_kern **out, struct qw_dev *dev, const struct choice *c,
                    struct qw_err *err)
{
    struct qw_kern *k = NULL;
    bool int4 = false, int8 = false, products = false;
    for (int i = 0; i < QW_N_OPS; i++) {
        int4 = int4 || (c->variant[i] == QW_XE2 && qw_kern_table[i].int4);
        int8 = int8 || c->variant[i] == QW_XE2_INT8;
        products = products || (c->variant[i] != QW_GENERIC && is_product(i));
    }
    int rc = qw_kern_build(&k, dev, c->p, c->variant, c->emulated, int4, int8, err);
    if (rc == QW_OK && products)
        rc = qw_xe2_test(k, int4, int8, err);
    if (rc != QW_OK)
        qw_kern_close(k);
    else
        *out = k;
    return rc;
}

/* Once in a process. */
static void say(const struct qw_dev *dev, const char *what, const struct qw_err *err)
{
    static bool said;
    if (!said)
        qw_log(QW_WARN, "%s: %s: %s", dev->name, what, err->msg);
    said = true;
}

/* The xe2 set with int4, else with int8, else none. */
static int open_best(struct qw_kern **out, struct qw_dev *dev, struct choice *c,
                     struct qw_err *err)
{
    int rc = open_xe2(out, dev, c, err);
    if (rc == QW_OK)
        return rc;
    if (replace(c, QW_XE2, QW_XE2_INT8)) {
        struct qw_err first = *err;
        rc = open_xe2(out, dev, c, err);
        if (rc == QW_OK) {
            say(dev, "four-bit weights take xe2-int8, as xe2 fails", &first);
            return rc;
        }
    }
    if (asked_xe2(c)) {
        const struct qw_err why = *err;
        return qw_fail(err, QW_EUSAGE, "xe2 was asked for and cannot run: %s", why.msg);
    }
    say(dev, "the generic kernels stand in for xe2, which fails", err);
    memset(c->variant, 0, sizeof(c->variant));
    return QW_OK;
}

/* ---- the reasons ---- */

static char *reason(const struct qw_kern *k, const struct choice *c, int op, bool failed)
{
    const char *backend = c->p->backend ? c->p->backend : "generic";
    const bool generic = c->variant[op] == QW_GENERIC;
    const char *tail = !generic ? is_product(op) ? "; its self-test passed" : ""
                       : k->dev->cpu == k->cpu_shape ? "; shape of the device"
                                                     : "; shape by the settings";
    if (c->named[op])
        return qw_sprintf("named in [kernels]%s", tail);
    if (generic && qw_kern_table[op].xe2 == NULL)
        return qw_sprintf("the only variant%s", tail);
    if (strcmp(backend, "auto") != 0)
        return qw_sprintf("device.backend = %s%s", backend, tail);
    if (!generic)
        return qw_sprintf("the device has what it needs%s", tail);
    if (failed)
        return qw_sprintf("xe2 fails on this device%s", tail);
    return qw_sprintf("no xe2: %s%s", c->missing ? c->missing : "", tail);
}

int qw_kern_open(struct qw_kern **out, struct qw_dev *dev, const struct qw_kern_params *p,
                 struct qw_err *err)
{
    struct choice c = {.p = p};
    static const enum qw_variant generic[QW_N_OPS];
    struct qw_kern *k = NULL, *xe2 = NULL;
    int rc = choose(&c, dev, err);
    const bool wanted = any_xe2(&c);
    if (rc == QW_OK)
        rc = qw_kern_build(&k, dev, p, generic, false, false, false, err);
    if (rc == QW_OK && wanted)
        rc = open_best(&xe2, dev, &c, err);
    if (rc == QW_OK) {
        k->xe2 = xe2;
        k->emulated = c.emulated;
        k->build_s += xe2 ? xe2->build_s : 0.0;
        memcpy(k->variant, c.variant, sizeof(k->variant));
        for (int i = 0; i < QW_N_OPS; i++)
            if (qw_kern_has(p, i))
                k->why[i] = reason(k, &c, i, wanted && xe2 == NULL);
    }
    free(c.missing);
    if (rc != QW_OK)
        qw_kern_close(k);
    else
        *out = k;
    return rc;
}

void qw_kern_close(struct qw_kern *k)
{
    if (k == NULL)
        return;
    qw_kern_close(k->xe2);
    if (k->program != NULL)
        clReleaseProgram(k->program);
    for (int i = 0; i < QW_N_OPS; i++)
        free(k->why[i]);
    free(k->options);
    free(k);
}

int qw_kern_make(struct qw_kern *k, const char *entry, cl_kernel *out, struct qw_err *err)
{
    cl_int rc;
    if (k->dev->paper) {
        *out = NULL;
        return QW_OK;
    }
    cl_kernel made = clCreateKernel(k->program, entry, &rc);
    if (made == NULL)
        return qw_fail(err, QW_EDEVICE, "clCreateKernel(%s): %s", entry, qw_cl_error(rc));
    *out = made;
    return QW_OK;
}
