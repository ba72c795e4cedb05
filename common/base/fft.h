/* SPDX-License-Identifier: BSD-3-Clause */
/* Fourier transforms in float32 for convolution (local/convolve.c, ct/filter.c), made of lines: LANES transforms
 * side by side, one in each lane of the vectors. An element of a line is a complex vector, 2 * lanes floats: real
 * parts, then imaginary ones. As lanes never meet, the bits of one do not depend on what is in the others.
 *
 * Forward is an evaluation of a polynomial of n coefficients at the n roots of x^n = 1 (cyclic) or x^n = i, back the
 * interpolation, without the factor 1 / n; both in place. The values come in an order of their own, the same for every
 * polynomial of a line, which is all that a product needs. With the roots of x^n = i a real column of 2 n samples is
 * one line: samples j and n + j are real and imaginary part of coefficient j (the right-angle convolution of Nussbaumer
 * 1976; products are modulo x^2n = -1, so that what wraps around comes with the other sign; overlap-save does not look
 * at it). Nothing has to be untangled, no root is special.
 *
 * A stage turns x^L = c into the r equations x^(L/r) = c_s, where c_s^r = c: all its twiddles are powers of one number,
 * constant over a block. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct vp_err;

enum { VP_LINE_STAGES = 10 };

struct vp_line {
    int64_t n;
    int stages, radix[VP_LINE_STAGES];
    float *turn[VP_LINE_STAGES]; /* twiddles: radix - 1 complex numbers for each block; NULL: all 1 */
};

/* Makes a line of n elements, a product of 2, 3, 5 and 7, from 2 on. radix: the stages, ended by 0, of 2 to 10, 12,
 * 15 and 16; NULL: those that are quick. */
int vp_line_make(struct vp_line *l, int64_t n, bool cyclic, const int *radix, struct vp_err *err);
void vp_line_free(struct vp_line *l);
/* Nanoseconds of a forward transform and one back for an element of 16 lanes, where n is one of the lengths that are
 * quick; else 0. Measured once: for choices, which must not differ from machine to machine. */
double vp_line_cost(int64_t n);
/* Makes a line for vp_line_isa.weigh, of the quickest length of at least `least` elements. */
int vp_line_make_rows(struct vp_line *l, int64_t least, struct vp_err *err);
/* Returns k, where element i after forward is the value at the root exp(2 pi i (k + 1/4) / n), cyclic exp(2 pi i k /
 * n): this k. */
int64_t vp_line_root(const struct vp_line *l, int64_t i);

/* The transforms for one instruction set. Everything is aligned to 64 bytes unless it is said. */
struct vp_line_isa {
    const char *name;
    int lanes;
    /* Lines of which `inner` elements lie side by side: element i of the first is x[i * inner]. */
    void (*forward)(const struct vp_line *l, float *x, int64_t inner);
    void (*back)(const struct vp_line *l, float *x, int64_t inner);
    /* `lanes` real columns of 2 n rows, not aligned, `pitch` floats apart, each minus its `less`, forward into x. And
     * back: rows lo ... hi - 1 of them to `to`, which is where row 0 would be. */
    void (*columns)(const struct vp_line *l, const float *from, int64_t pitch, const float *less, float *x);
    void (*columns_back)(const struct vp_line *l, float *x, float *to, int64_t pitch, int64_t lo, int64_t hi);
    /* Elements at ... at + lanes - 1 of `blocks` columns of vectors become lanes: element lanes * b + i of x is of
     * column i of block b. */
    void (*gather)(float *x, const float *const *from, int64_t at, int64_t blocks);
    void (*scatter)(const float *x, float *const *to, int64_t at, int64_t blocks);
    /* The same of x u + y v, with u and v for each element. */
    void (*scatter_sum)(const float *x, const float *y, const float *u, const float *v, float *const *to, int64_t at,
                        int64_t blocks);
    /* Forward, times k, back. */
    void (*convolve)(const struct vp_line *l, float *x, const float *k);
    /* The same of n real rows, with one real factor k[] for each element (the spectrum of a symmetric kernel has them):
     * only the real parts are read and written, the others are taken as 0 and left as rubbish. Not cyclic. */
    void (*weigh)(const struct vp_line *l, float *x, const float *k);
    /* y = x k, back; meanwhile the n elements at `next` (or NULL) are fetched. */
    void (*product_back)(const struct vp_line *l, const float *x, const float *k, float *y, const float *next);
    /* y = x k, or y += x k */
    void (*product)(float *y, const float *x, const float *k, int64_t n, bool add);
};

/* Returns the transforms for "avx512", "avx2" or "generic", NULL: the best; NULL if this processor lacks it. */
const struct vp_line_isa *vp_line_isa(const char *name);

/* Computes out[k] = sum of in[i] exp(-2 pi i k i / n) in double, for tables: n complex numbers each, quick if n is a
 * product of small ones. */
int vp_dft(const double *in, double *out, int64_t n, struct vp_err *err);
