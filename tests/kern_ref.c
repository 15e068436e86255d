/* SPDX-License-Identifier: MIT */
/* The file includes itself twice: R is float, then double. */
#ifndef R
#include "kern_ref.h"

#include <string.h>
#include <tgmath.h>

enum { MAX_HD = 256, BLOCK = 128 };

/* The polynomials of common.clh, number by number. */
float ref_exp_f(float x)
{
    static const float c[] = {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                              4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f};
    if (x > 89.0f)
        return INFINITY;
    if (x < -104.0f)
        return 0.0f;
    if (isnan(x))
        return x;
    const float n = rint(x * 1.44269504f);
    const float r = fma(n, 2.12194440e-4f, fma(n, -0.693359375f, x));
    float p = c[0];
    for (int i = 1; i < 6; i++)
        p = fma(p, r, c[i]);
    p = fma(p, r * r, r) + 1.0f;
    const int i = (int)n, h = i >> 1;
    return p * ldexp(1.0f, h) * ldexp(1.0f, i - h);
}

double ref_exp_d(double x)
{
    return exp(x);
}

float ref_log1p_f(float y)
{
    const float u = 1.0f + y;
    if (u == 1.0f)
        return y;
    int e;
    float m = 2.0f * frexp(u, &e);
    e--;
    if (m > 1.41421356f) {
        m *= 0.5f;
        e++;
    }
    const float f = m - 1.0f, s = f / (2.0f + f), z = s * s;
    float p = fma(z, 0.2222222222f, 0.2857142857f);
    p = fma(z, p, 0.4f);
    p = fma(z, p, 0.6666666667f);
    return fma((float)e, 0.693147181f, fma(s * z, p, 2.0f * s)) * (y / (u - 1.0f));
}

double ref_log1p_d(double y)
{
    return log1p(y);
}

/* Sylvester's matrix by butterflies, as kernels do, and entry by entry. */
void ref_hadamard_f(float *x, int n, int size, float factor)
{
    for (int h = 1; h < size; h *= 2)
        for (int i = 0; i < n; i++)
            if (i % (2 * h) < h) {
                const float a = x[i], b = x[i + h];
                x[i] = a + b;
                x[i + h] = a - b;
            }
    for (int i = 0; i < n; i++)
        x[i] *= factor;
}

void ref_hadamard_d(double *x, int n, int size, double factor)
{
    double y[MAX_HD] = {0};
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < size; j++)
            y[i] += x[i / size * size + j] *
                    (__builtin_popcount((unsigned)(i % size & j)) % 2 ? -factor : factor);
    }
    memcpy(x, y, (size_t)n * sizeof(*x));
}

#define R float
#define NAME(x) x##_f
#include "kern_ref.c"
#undef R
#undef NAME
#define R double
#define NAME(x) x##_d
#include "kern_ref.c"
#else

static R NAME(silu)(R x)
{
    return x / (1 + NAME(ref_exp)(-x));
}

static R NAME(sigmoid)(R x)
{
    return 1 / (1 + NAME(ref_exp)(-x));
}

static R NAME(softplus)(R x)
{
    return x > 20 ? x : NAME(ref_log1p)(NAME(ref_exp)(x));
}

void NAME(ref_norm)(const float *x, const float *w, int n, int items, float eps, R *y)
{
    R part[256] = {0};
    for (int i = 0; i < items; i++) {
        for (int j = i; j < n; j += items)
            part[i] = fma((R)x[j], (R)x[j], part[i]);
    }
    for (int step = items / 2; step > 0; step /= 2)
        for (int i = 0; i < step; i++)
            part[i] += part[i + step];
    const R r = 1 / sqrt(part[0] / n + eps);
    for (int i = 0; i < n; i++)
        y[i] = x[i] * r * w[i];
}

void NAME(ref_swiglu)(const float *g, const float *u, int n, R *y)
{
    for (int i = 0; i < n; i++)
        y[i] = NAME(silu)(g[i]) * u[i];
}

/* Sum of squares, four at a time, then in order. */
static R NAME(squares)(const R *x, int n)
{
    R s = 0;
    for (int i = 0; i < n; i += 4)
        s += fma(x[i + 3], x[i + 3],
                 fma(x[i + 2], x[i + 2], fma(x[i + 1], x[i + 1], x[i] * x[i])));
    return s;
}

void NAME(ref_conv)(const float *hist, int ld, const float *w, int width, int taps,
                    int pos, int dk, bool normed, float eps, R *y)
{
    for (int i = 0; i < dk; i++) {
        R c = 0;
        for (int back = taps - 1; back >= 0; back--)
            if (back <= pos) /* before the first position: zeros */
                c = fma((R)w[(taps - 1 - back) * width + i], (R)hist[i - back * ld], c);
        y[i] = NAME(silu)(c);
    }
    if (!normed)
        return;
    const R r = 1 / sqrt(NAME(squares)(y, dk) + eps);
    for (int i = 0; i < dk; i++)
        y[i] *= r;
}

void NAME(ref_gdn)(const struct ref_gdn *g, int head, const float *c, const float *u,
                   R *S, R *y)
{
    const int dk = g->dk, e = head % g->nk;
    const float *q = c + e * dk, *k = c + (g->nk + e) * dk,
                *v = c + (2 * g->nk + head) * dk;
    const R sum = (R)u[g->a0 + head] + g->dt[head];
    const R decay = NAME(ref_exp)(g->a[head] * NAME(softplus)(sum));
    const R beta = NAME(sigmoid)(u[g->b0 + head]), root = 1 / sqrt((R)dk);
    R square[16] = {0}, total = 0;
    for (int i = 0; i < dk; i++) {
        R *s = S + i * dk, chain[4] = {0, 0, 0, 0};
        for (int j = 0; j < dk; j++) {
            s[j] *= decay;
            chain[j % 4] = fma(s[j], (R)k[j], chain[j % 4]);
        }
        const R d = beta * (v[i] - ((chain[0] + chain[1]) + (chain[2] + chain[3])));
        memset(chain, 0, sizeof(chain));
        for (int j = 0; j < dk; j++) {
            s[j] = fma(d, (R)k[j], s[j]);
            chain[j % 4] = fma(s[j], (R)q[j], chain[j % 4]);
        }
        y[i] = ((chain[0] + chain[1]) + (chain[2] + chain[3])) * root;
        square[i % 16] = fma(y[i], y[i], square[i % 16]);
    }
    for (int i = 0; i < 16; i++)
        total += square[i];
    const R r = 1 / sqrt(total / dk + g->eps);
    for (int i = 0; i < dk; i++)
        y[i] = y[i] * r * g->w[i] * NAME(silu)(u[g->z0 + head * dk + i]);
}

void NAME(ref_rotate)(const float *x, const float *w, const float *cs, int hd, int n_rot,
                      float eps, R *y)
{
    for (int i = 0; i < hd; i++)
        y[i] = x[i];
    if (w == NULL)
        return;
    const R r = 1 / sqrt(NAME(squares)(y, hd) / hd + eps);
    for (int i = 0; i < hd; i++)
        y[i] = y[i] * r * w[i];
    const int half = n_rot / 2;
    for (int i = 0; i < half; i++) {
        const R a = y[i], b = y[i + half], co = cs[i], si = cs[half + i];
        y[i] = fma(a, co, -(b * si));
        y[i + half] = fma(a, si, b * co);
    }
}

static R NAME(score)(const struct ref_kv *k, size_t at, const float *q, const int8_t *q8,
                     const float *qs)
{
    R s = 0;
    if (k->bits != 8) {
        for (int i = 0; i < k->hd; i++)
            s = fma((R)q[i], (R)k->val[at * (size_t)k->hd + (size_t)i], s);
        return s;
    }
    for (int b = 0; b < k->hd / 32; b++) {
        int sum = 0;
        for (int i = 32 * b; i < 32 * b + 32; i++)
            sum += k->q[at * (size_t)k->hd + (size_t)i] * q8[i];
        s = fma((R)sum, (R)k->scale[at * (size_t)k->hd / 32 + (size_t)b] * qs[b], s);
    }
    return s;
}

static R NAME(value)(const struct ref_kv *v, size_t at)
{
    return v->bits == 8 ? (R)v->q[at] * v->scale[at / 32] : (R)v->val[at];
}

/* Online softmax over fixed blocks of positions. */
void NAME(ref_attn)(const struct ref_kv *k, const struct ref_kv *v, int kv, int from,
                    int to, const float *q, const int8_t *q8, const float *qs,
                    const float *gate, R *y)
{
    enum { MAX_BLOCKS = 8 };
    const int hd = k->hd, first = from / BLOCK, n_blocks = (to + BLOCK - 1) / BLOCK;
    static R o[MAX_BLOCKS][MAX_HD];
    R top[MAX_BLOCKS], l[MAX_BLOCKS], most = -INFINITY, sum = 0;
    for (int b = first; b < n_blocks; b++) {
        const int n = to - b * BLOCK < BLOCK ? to - b * BLOCK : BLOCK;
        const int j0 = b == first ? from - b * BLOCK : 0;
        R p[BLOCK], chain[16] = {0};
        top[b] = -INFINITY;
        l[b] = 0;
        for (int j = j0; j < n; j++) {
            const size_t at = (size_t)((b * BLOCK + j) * k->heads + kv);
            p[j] = 1 / sqrt((R)hd) * NAME(score)(k, at, q, q8, qs);
            top[b] = fmax(top[b], p[j]);
        }
        memset(o[b], 0, sizeof(o[b]));
        for (int j = j0; j < n; j++) {
            const size_t at = (size_t)((b * BLOCK + j) * k->heads + kv) * (size_t)hd;
            p[j] = NAME(ref_exp)(p[j] - top[b]);
            chain[j % 16] += p[j];
            for (int d = 0; d < hd; d++)
                o[b][d] = fma(p[j], NAME(value)(v, at + (size_t)d), o[b][d]);
        }
        for (int j = 0; j < 16; j++)
            l[b] += chain[j];
        most = fmax(most, top[b]);
    }
    for (int d = 0; d < hd; d++)
        y[d] = 0;
    for (int b = first; b < n_blocks; b++) {
        const R w = NAME(ref_exp)(top[b] - most);
        sum = fma(l[b], w, sum);
        for (int d = 0; d < hd; d++)
            y[d] = fma(o[b][d], w, y[d]);
    }
    for (int d = 0; d < hd; d++)
        y[d] /= sum;
    if (v->bits == 8 && hd % 64 == 0)
        NAME(ref_hadamard)(y, hd, 64, (R)0.125);
    for (int d = 0; gate != NULL && d < hd; d++)
        y[d] *= NAME(sigmoid)(gate[d]);
}
#endif
