/* SPDX-License-Identifier: BSD-3-Clause */
/* Inner loops of convolution other than transforms, built once for each instruction set. Private to convolve*.c. */
#ifndef VP_CONVOLVE_ISA_H
#define VP_CONVOLVE_ISA_H

#include "stack/stack.h"

#include <stdbool.h>
#include <stdint.h>

/* Sum of products, for four rows of output at once. */
struct vp_convolve_rows {
    const void *from;           /* sample under tap (0, 0, 0) for output (0, 0) */
    int64_t row, plane;         /* samples between rows, planes */
    const void *taps;           /* [nz][ny + 6][nx]: three rows of zeros before and after those of each plane */
    int64_t nx, ny, nz;
    void *to[4];                /* NULL: this row and the following ones are not wanted */
    int64_t n;                  /* columns; rounded up to a multiple of 16 (f64: 32) on output */
};

struct vp_convolve_isa {
    /* Loads n samples minus a constant as floats (f64: as doubles). True if a sample is not finite; it becomes 0. */
    bool (*load)(void *to, const void *from, enum vp_type type, int64_t n, double less);
    /* Returns the largest magnitude of n floats (wide: doubles). */
    double (*most)(const void *x, bool wide, int64_t n);
    /* Stores n results: f32 with non-temporal stores; integers rounded and clamped. */
    void (*store)(void *to, enum vp_type type, const float *from, int64_t n);
    /* Loads n columns (a multiple of 16) of all rows minus a constant, to rows `pitch` floats apart; row[i] NULL:
     * zeros. most[]: largest magnitudes of columns (integers: 0), not finite where a sample is not; such samples are
     * kept. */
    void (*load_rows)(float *to, int64_t pitch, const void *const *row, int64_t rows, int64_t at, enum vp_type type,
                      int64_t n, float less, float *most);
    /* Stores rows of n, `stride` and `pitch` floats apart, plus `more`, as f32 with non-temporal stores. */
    void (*store_rows)(float *to, int64_t stride, const float *from, int64_t pitch, int64_t rows, float more, int64_t n);
    void (*add)(float *x, float more, int64_t n);                             /* x += more */
    void (*scale)(float *x, float s, int64_t n);                              /* x *= s */
    void (*blend)(float *to, const float *a, float u, const float *b, float v, int64_t n); /* to = a u + b v */
    void (*rows)(const struct vp_convolve_rows *r);     /* f32 */
    void (*rows_f64)(const struct vp_convolve_rows *r); /* f64 */
};

extern const struct vp_convolve_isa vp_convolve_avx512, vp_convolve_avx2, vp_convolve_generic;

#endif
