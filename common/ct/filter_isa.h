/* SPDX-License-Identifier: BSD-3-Clause */
/* Inner part of filter.c: convolution of many detector rows with one even kernel, built once for each
 * instruction set. Private to filter.c and its benchmark. */
#ifndef VP_FILTER_ISA_H
#define VP_FILTER_ISA_H

#include <stddef.h>
#include <stdint.h>

enum { VP_FFT_STAGES = 40, VP_FFT_LANES = 16 };

/* A real convolution of length 2 m, done as a complex transform of length m. */
struct vp_fft {
    int64_t m;                        /* a product of 2, 3, 5 */
    int stages, radix[VP_FFT_STAGES];
    /* stage s: (cos, sin) of -2 pi i j / length, i = 1 ... r - 1 fastest, then j */
    const float *twiddle[VP_FFT_STAGES];
    int64_t pairs;                    /* frequencies k and m - k, where they lie, and what to do with them */
    const int32_t *place;             /* 2 a pair */
    const float *coef;                /* 4 a pair: cos, sin of -pi k / m; kernel / (4 m) at k and at m - k */
};

struct vp_fft_job {
    const struct vp_fft *fft;
    int64_t nu, left;                 /* columns; where the first lies in the transform */
    int64_t pad;                      /* samples on each side that fall off from the edge */
    const float *fall;                /* pad factors, from the edge outwards */
    int64_t nu_out, before;           /* columns of `out`; how many come before the input's first */
    int rows;                         /* 1 ... lanes, anywhere; in[i] may equal out[i] if nu_out = nu */
    const float *in[VP_FFT_LANES];
    float *out[VP_FFT_LANES];
    const float *gain[VP_FFT_LANES];  /* nu weights of the row; or NULL for all rows */
    const float *gain2[VP_FFT_LANES]; /* nu more weights; or NULL for all rows */
    float scale[VP_FFT_LANES];
};

struct vp_filter_isa {
    const char *name;
    int lanes;                        /* rows that are worked on together */
    /* out = (in * gain * gain2 * scale) conv kernel; samples that are not finite count as 0. A row's result
     * depends on this row alone. `scratch`: 2 m * lanes floats, aligned to 64 bytes. */
    void (*rows)(const struct vp_fft_job *job, float *scratch);
    /* out[i] = (head + lean i) / sqrt(1 + (i + u0)^2 / f^2 + t): the cosine weight of column i. */
    void (*cosine)(float *out, int64_t n, double u0, double f, double t, double head, double lean);
};

extern const struct vp_filter_isa vp_filter_avx512, vp_filter_avx2, vp_filter_generic;

#endif
