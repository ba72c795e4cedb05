/* SPDX-License-Identifier: BSD-3-Clause */
/* Inner part of filter.c: convolution of many detector rows with one even kernel, built once for each
 * instruction set. Private to filter.c and its benchmark. */
#ifndef VP_FILTER_ISA_H
#define VP_FILTER_ISA_H

#include <stddef.h>
#include <stdint.h>

struct vp_line;
struct vp_line_isa;

enum { VP_FILTER_LANES = 16 };

struct vp_filter_job {
    const struct vp_line *line;       /* of at least all columns with their padding */
    const struct vp_line_isa *fft;    /* with as many lanes */
    const float *response;            /* of the kernel, for the elements of the transform */
    int64_t nu, left;                 /* columns; where the first lies in the transform */
    int64_t pad;                      /* samples on each side that fall off from the edge */
    const float *fall;                /* pad factors, from the edge outwards */
    int64_t nu_out, before;           /* columns of `out`; how many come before the input's first */
    int rows;                         /* 1 ... lanes, anywhere; in[i] may equal out[i] if nu_out = nu */
    const float *in[VP_FILTER_LANES];
    float *out[VP_FILTER_LANES];
    const float *gain[VP_FILTER_LANES];  /* nu weights of the row; or NULL for all rows */
    const float *gain2[VP_FILTER_LANES]; /* nu more weights; or NULL for all rows */
    float scale[VP_FILTER_LANES];
};

struct vp_filter_isa {
    const char *name;
    int lanes;                        /* rows that are worked on together */
    /* out = (in * gain * gain2 * scale) conv kernel; samples that are not finite count as 0. A row's result
     * depends on this row alone. `scratch`: 2 n * lanes floats (n that of
     * the line), aligned to 64 bytes. */
    void (*rows)(const struct vp_filter_job *job, float *scratch);
    /* out[i] = (head + lean i) / sqrt(1 + (i + u0)^2 / f^2 + t): the cosine weight of column i. */
    void (*cosine)(float *out, int64_t n, double u0, double f, double t, double head, double lean);
};

extern const struct vp_filter_isa vp_filter_avx512, vp_filter_avx2, vp_filter_generic;

#endif
