/* SPDX-License-Identifier: BSD-3-Clause */
/* Inner loops of convolution beside its transforms, built once for each instruction set. Private to convolve*.c. */
#ifndef VP_CONVOLVE_ISA_H
#define VP_CONVOLVE_ISA_H

#include "stack/stack.h"

#include <stdbool.h>
#include <stdint.h>

/* A sum of products that is made for four rows of output at once. */
struct vp_convolve_rows {
    const void *from;           /* the sample that tap (0, 0, 0) has for output (0, 0): taps go on from there */
    int64_t row, plane;         /* samples from a row, a plane to the next */
    const void *taps;           /* [nz][ny + 6][nx]: three rows of zeros before and behind those of each plane */
    int64_t nx, ny, nz;
    void *to[4];                /* NULL: not wanted, nor those behind */
    int64_t n;                  /* columns; as many as complete a whole number of 16 (f64: 32) are written */
};

struct vp_convolve_isa {
    /* n samples less a constant as floats (f64: as doubles); what is not finite becomes 0, and the result is true. */
    bool (*load)(void *to, const void *from, enum vp_type type, int64_t n, double less);
    /* The largest magnitude of n floats (wide: doubles). */
    double (*most)(const void *x, bool wide, int64_t n);
    /* Back: of f32 past the caches; of integers rounded and clamped. */
    void (*store)(void *to, enum vp_type type, const float *from, int64_t n);
    /* n columns (a multiple of 16) of all rows less a constant, which lie `pitch` floats apart; a row is zeros where row[i]
     * is NULL. The largest magnitudes of columns go to `most` (of integers 0). What is not finite is left, and makes one
     * that is not. */
    void (*load_rows)(float *to, int64_t pitch, const void *const *row, int64_t rows, int64_t at, enum vp_type type,
                      int64_t n, float less, float *most);
    /* f32 past the caches: rows of n, `stride` and `pitch` floats apart, each plus `more`. */
    void (*store_rows)(float *to, int64_t stride, const float *from, int64_t pitch, int64_t rows, float more, int64_t n);
    void (*add)(float *x, float more, int64_t n);                             /* x += more */
    void (*scale)(float *x, float s, int64_t n);                              /* x *= s */
    void (*blend)(float *to, const float *a, float u, const float *b, float v, int64_t n); /* to = a u + b v */
    void (*rows)(const struct vp_convolve_rows *r);     /* of floats */
    void (*rows_f64)(const struct vp_convolve_rows *r); /* of doubles */
};

extern const struct vp_convolve_isa vp_convolve_avx512, vp_convolve_avx2, vp_convolve_generic;

#endif
