/* SPDX-License-Identifier: BSD-3-Clause */
/* The passes of a convolution by overlap-save (convolve.cu says which, in which order), for each length of transform:
 * what they are told, and how they start. */
#ifndef VP_CONVOLVE_PASS_H
#define VP_CONVOLVE_PASS_H

#include "gpu.h"
#include "transform.cuh"

namespace vp
{

/* An axis, cut into tiles: tile i makes outputs [i * valid, (i + 1) * valid) of [0, size), from samples that begin
 * `behind()` before its first. Samples are at [first, first + count); others are made by the rule, as far as an output
 * sees them. */
struct convolve_axis {
    int size, first, count, rule;
    int taps, centre;
    int valid;

    __host__ __device__ int behind() const { return taps - 1 - centre; }
};

/* Constants taken off samples of a pair of tiles before they are transformed, and what their results lack for that: a
 * constant of the pair, in some rows of tiles, for each plane; samples that are 0 beyond the edge count as it. */
struct convolve_ending {
    float *base;                   /* [plane][pair] of samples, from plane base_z0 on */
    int base_z0;
    float *more;                   /* [plane][pair] of results, from plane more_z0 on: what inner ones lack */
    int more_z0;
    int pairs;
    const double *sums;            /* of the kernel's samples; NULL: no edge clips kernels */
    const double *planes;          /* sums of its planes */
    double total;                  /* and of all */
    bool renormalize;              /* else samples beyond the edge are zeros */
};

/* Rows forward: tiles 2 p and 2 p + 1 of a row as one complex line, natural order, minus a constant. */
struct rows_args {
    vp_area in;
    int type;
    convolve_axis x;
    int pair0, y0, rows, z0;       /* the first pair, row and plane, and rows of a plane */
    cx *out;            /* of the first of each; a row of a plane is one line */
    int64_t out_pair, out_plane;   /* in complex values */
    const float *base;  /* [plane][pair] */
    float *most;        /* [plane][pair][row]: the largest magnitude of a line; NULL: not wanted */
    int *bad;                      /* 1 when a sample was not finite: it counts as 0 */
    const cx *twiddle;
};

/* The same of a kernel's rows: tap k at place (k - centre) mod T, nothing taken off, no second tile. */
struct taps_args {
    const float *taps;
    int n, centre, pitch;
    int64_t rows;
    cx *out;
    const cx *twiddle;
};

struct columns_args {
    const cx *in;
    cx *out;
    int64_t in_pitch, out_pitch;   /* from row to row; lanes are beside each other */
    int64_t in_outer, out_outer;   /* from one image of lanes to the next */
    int in_first, out_first;       /* the row that `in` (samples) and `out` (outputs) begin with; of tiles, the tile */
    cx *spectrum;       /* of `lanes` lanes, in the order in which threads have it */
    const cx *twiddle;
    convolve_axis axis;
    int lanes;                     /* with one spectrum */
    int repeats;                   /* as many lanes side by side, 1 or more */
    int tile0, tiles, outers;
    bool backwards;                /* the last tiles first: what they read was written last */
    float scale;                   /* of a spectrum */
};

/* Rows back, of what the columns made. */
struct back_args {
    const cx *in;
    int64_t in_pair, in_plane;
    vp_area out;
    int type;
    convolve_axis axis[3];
    int pair0, y0, rows, z0;
    convolve_ending ending;        /* without `more`: */
    const double *ones;            /* of weights of the source instead, [y][x] of `out`: how often the constant is in a
                                      result; and what it is multiplied with before, or NULL */
    const float *factor;
    int64_t pitch;
    const cx *twiddle;
};

/* TAPS and SPECTRUM: forward, of a kernel; row i is tap (i + centre) mod T. */
enum columns_mode { COLUMNS_CONVOLVE, COLUMNS_FORWARD, COLUMNS_BACK, COLUMNS_TAPS, COLUMNS_SPECTRUM };

struct convolve_length {
    int T, R1, R2;                 /* a twiddle table has T values, W(T)^(k1 n2) at k1 * R2 + n2 */
    bool in_warp;                  /* as a line is; else `most` must be 0 before the rows */
    int group;                     /* lanes that a block of the columns has: divides all lanes */
    int spectrum;                  /* complex values of `group` lanes of a spectrum */
    int (*rows)(vp_err *err, cudaStream_t stream, const rows_args &a, int pairs, int planes);
    int (*taps)(vp_err *err, cudaStream_t stream, const taps_args &a);
    int (*columns)(vp_err *err, cudaStream_t stream, const columns_args &a, columns_mode mode);
    int (*back)(vp_err *err, cudaStream_t stream, const back_args &a, int pairs, int planes);
};

extern const convolve_length convolve_128, convolve_256, convolve_288, convolve_320, convolve_384, convolve_512,
    convolve_640, convolve_1024;
}

#endif
