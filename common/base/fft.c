/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines of transforms: lengths, stages, twiddles. A transform in double for tables. */
#include "base/fft.h"

#include "base/err.h"
#include "base/isa.h"
#include "base/size.h"

#include <complex.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int RADICES[] = {2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 16};
/* Approximate costs per element of a stage of each radix, for lengths that were not measured. */
static const double COSTS[] = {1, 1.1, 1.05, 1.25, 1.2, 1.5, 1.2, 1.5, 1.4, 1.35, 1.6, 1.5};

struct quick { int n; double ns; int radix[VP_LINE_STAGES]; };

/* Quick lengths: their stages, and nanoseconds of vp_line_cost. Measured by `fft_bench 16 1200`. */
static const struct quick QUICK[] = {
#include "base/fft_table.inc"
};

/* The same of rows that are weighed: `fft_bench weigh 16 4096`. */
static const struct quick ROWS[] = {
#include "base/fft_rows_table.inc"
};

double vp_line_cost(int64_t n)
{
    for (size_t i = 0; i < sizeof QUICK / sizeof *QUICK; i++)
        if (QUICK[i].n == n)
            return QUICK[i].ns;
    return 0;
}

/* Finds the cheapest stages of n; returns the price, or infinity. */
static double search(int64_t n, int depth, int *now, double price, int *best, double least)
{
    if (n == 1) {
        if (price >= least)
            return least;
        memset(best, 0, VP_LINE_STAGES * sizeof *best);
        memcpy(best, now, (size_t)depth * sizeof *best);
        return price;
    }
    for (size_t i = 0; i < sizeof RADICES / sizeof *RADICES && depth < VP_LINE_STAGES; i++)
        if (n % RADICES[i] == 0) {
            now[depth] = RADICES[i];
            least = search(n / RADICES[i], depth + 1, now, price + COSTS[i], best, least);
        }
    return least;
}

static int stages_of(int64_t n, int best[VP_LINE_STAGES])
{
    int now[VP_LINE_STAGES];

    for (size_t i = 0; i < sizeof QUICK / sizeof *QUICK; i++)
        if (QUICK[i].n == n) {
            memcpy(best, QUICK[i].radix, sizeof QUICK[i].radix);
            return 0;
        }
    return n >= 2 && search(n, 0, now, 0, best, INFINITY) < INFINITY ? 0 : -1;
}

int64_t vp_line_root(const struct vp_line *l, int64_t i)
{
    int64_t k = 0, blocks = 1, rest = l->n;

    for (int s = 0; s < l->stages; s++) {
        rest /= l->radix[s];
        k += i / rest % l->radix[s] * blocks;
        blocks *= l->radix[s];
    }
    return k;
}

int vp_line_make(struct vp_line *l, int64_t n, bool cyclic, const int *radix, struct vp_err *err)
{
    int best[VP_LINE_STAGES] = {0};
    int64_t blocks = 1;

    *l = (struct vp_line){.n = n};
    if (!radix && stages_of(n, best))
        return vp_fail(err, VP_EUSAGE, "no transform of length %lld", (long long)n);
    /* x^L = exp(2 pi i theta[b]) is what block b of a stage solves */
    double *theta = vp_alloc_raw((size_t)n, sizeof *theta, "a transform", err);
    double *next = vp_alloc_raw((size_t)n, sizeof *next, "a transform", err);
    int rc = theta && next ? 0 : -1;
    for (int s = 0; !rc && s < VP_LINE_STAGES && (radix ? radix : best)[s]; s++) {
        const int r = l->radix[s] = (radix ? radix : best)[s];
        float *w = NULL;
        l->stages++;
        if (s == 0)
            theta[0] = cyclic ? 0 : 0.25;
        if (s > 0 || !cyclic) {
            w = l->turn[s] = vp_alloc_raw((size_t)blocks * (size_t)(r - 1), 2 * sizeof *w, "a transform", err);
            rc = w ? 0 : -1;
        }
        for (int64_t b = 0; !rc && b < blocks; b++)
            for (int i = 0; i < r; i++) {
                next[b * r + i] = (theta[b] + i) / r;
                if (!w || i == 0)
                    continue;
                *w++ = (float)cos(2 * M_PI * theta[b] * i / r);
                *w++ = (float)sin(2 * M_PI * theta[b] * i / r);
            }
        blocks *= r;
        double *const swap = theta;
        theta = next;
        next = swap;
    }
    free(theta);
    free(next);
    if (rc)
        vp_line_free(l);
    return rc;
}

void vp_line_free(struct vp_line *l)
{
    for (int s = 0; s < l->stages; s++)
        free(l->turn[s]);
    *l = (struct vp_line){0};
}

/* Transforms n numbers `step` apart; root[j] is exp(-2 pi i j / (n step)). */
static void dft(const double complex *in, int64_t step, double complex *out, int64_t n, const double complex *root)
{
    enum { SMALL = 16 };
    double complex part[SMALL];
    int64_t p = 2;

    while (p < n && n % p)
        p++;
    if (n <= p || p > SMALL) {
        for (int64_t k = 0; k < n; k++) {
            out[k] = 0;
            for (int64_t i = 0; i < n; i++)
                out[k] += in[i * step] * root[i * k % n * step];
        }
        return;
    }
    const int64_t q = n / p;
    for (int64_t r = 0; r < p; r++)
        dft(in + r * step, step * p, out + r * q, q, root);
    for (int64_t k = 0; k < q; k++) {
        for (int64_t r = 0; r < p; r++)
            part[r] = out[r * q + k];
        for (int64_t j = 0; j < p; j++) {
            double complex sum = 0;
            for (int64_t r = 0; r < p; r++)
                sum += part[r] * root[r * (k + j * q) % n * step];
            out[j * q + k] = sum;
        }
    }
}

int vp_dft(const double *in, double *out, int64_t n, struct vp_err *err)
{
    double complex *root = vp_alloc_raw((size_t)n, sizeof *root, "a transform", err);

    if (!root)
        return -1;
    for (int64_t k = 0; k < n; k++)
        root[k] = cos(-2 * M_PI * (double)k / (double)n) + sin(-2 * M_PI * (double)k / (double)n) * I;
    dft((const double complex *)in, 1, (double complex *)out, n, root);
    free(root);
    return 0;
}

int vp_line_make_rows(struct vp_line *l, int64_t least, struct vp_err *err)
{
    const int count = sizeof ROWS / sizeof *ROWS;
    int radix[VP_LINE_STAGES + 1] = {0}, eights = 0;
    const struct quick *best = NULL;
    int64_t times = 1;

    for (; least > times * ROWS[count - 1].n; times *= 8)
        radix[eights++] = 8;
    for (int i = 0; i < count; i++)
        if (ROWS[i].n * times >= least && (!best || ROWS[i].n * ROWS[i].ns < best->n * best->ns))
            best = &ROWS[i];
    for (int s = 0; best->radix[s]; s++)
        radix[eights + s] = best->radix[s];
    return vp_line_make(l, best->n * times, false, radix, err);
}

extern const struct vp_line_isa vp_line_avx512, vp_line_avx2, vp_line_generic;

const struct vp_line_isa *vp_line_isa(const char *name)
{
    return VP_ISA_FIND(vp_line, name);
}
