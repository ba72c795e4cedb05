/* SPDX-License-Identifier: BSD-3-Clause */
/* The passes of a convolution by overlap-save, for each length of transform: their arguments and launchers. The order
 * of the passes is in convolve_single.cu and convolve_source.cu. */
#pragma once

#include "gpu.h"
#include "transform.cuh"

namespace vp
{

/* An axis, cut into tiles: tile i computes outputs [i * valid, (i + 1) * valid) of [0, size) from samples that begin
 * pad_before() before its first output. Positions outside [first, first + count) get their samples by the edge rule. */
struct convolve_axis {
    int size;         /* outputs */
    int first, count; /* samples that exist */
    int rule;         /* enum vp_edge */
    int taps, centre; /* kernel; index of the tap at its origin */
    int valid;        /* outputs of a tile */

    __host__ __device__ int pad_before() const { return taps - 1 - centre; }
};

/* Offsets that are subtracted from the samples of a pair of tiles before the transforms, one for each plane of a group
 * of rows, and restored in the results. Samples that are 0 beyond the edge count as the offset in the transforms. */
struct convolve_offset {
    float *base;          /* offsets, [plane][pair], from plane base_z0 on */
    int base_z0;
    float *restore;       /* added to results whose kernel no edge clips, [plane][pair], from plane restore_z0 on */
    int restore_z0;
    int pairs;
    const double *sums;   /* summed area table of the kernel; NULL: no edge clips kernels */
    const double *planes; /* sums of the planes of the kernel */
    double total;         /* sum of the kernel */
    bool renormalize;     /* clipped results are renormalised; else samples beyond the edge are 0 */
};

/* Forward transform of rows: tiles 2 p and 2 p + 1 of a row minus the offset as one complex line, in natural order. */
struct rows_args {
    vp_area in;
    int type;                    /* enum vp_type */
    convolve_axis x;
    int pair0, y0, rows, z0;     /* first pair and row; rows of a plane; first plane */
    cx *out;                     /* line of (z0, pair0, y0); the rows of a plane are consecutive lines */
    int64_t out_pair, out_plane; /* pitches in complex values */
    const float *base;           /* offsets, [plane][pair] */
    float *peaks;                /* peaks: largest magnitude of a line, [plane][pair][row]; NULL: not wanted */
    int *nonfinite;              /* set to 1 if a sample is not finite, which then counts as the offset */
    const cx *twiddle;
};

/* Forward transform of a kernel's rows: tap k at position (k - centre) mod T, the imaginary part is 0. */
struct taps_args {
    const float *taps;
    int n, centre, pitch;
    int64_t rows;
    cx *out;
    const cx *twiddle;
};

/* Transforms along y or z of many columns ("lanes"), adjacent in memory. */
struct columns_args {
    const cx *in;
    cx *out;
    int64_t in_pitch, out_pitch; /* from one row to the next, in complex values */
    int64_t in_outer, out_outer; /* from one image of lanes to the next */
    int in_first, out_first;     /* row at which `in` (samples) and `out` (outputs) begin; for spectra, the tile */
    cx *spectrum;                /* spectrum of `lanes` lanes, in the order of the threads' registers */
    const cx *twiddle;
    convolve_axis axis;
    int lanes;                   /* lanes with a spectrum of their own */
    int repeats;                 /* groups of `lanes` lanes side by side that share the spectrum, 1 or more */
    int tile0, tiles, outers;
    bool reversed;               /* last tiles first: their input was written last and is still in the L2 cache */
    float scale;                 /* factor of a spectrum */
};

/* Inverse transform of rows, of the results of the columns. */
struct inverse_args {
    const cx *in;
    int64_t in_pair, in_plane;   /* pitches in complex values */
    vp_area out;
    int type;                    /* enum vp_type */
    convolve_axis axis[3];
    int pair0, y0, rows, z0;     /* as in rows_args */
    convolve_offset offset;
    /* weights of the source, in place of offset.restore: [y][x] of `out` with `pitch` */
    const double *ones;          /* sum of weights by which the offset enters a result; NULL: offset.restore */
    const float *factor;         /* factor of a result before that; NULL: 1 */
    int64_t pitch;
    const cx *twiddle;
};

/* TAPS and SPECTRUM are forward transforms of a kernel; row i is tap (i + centre) mod T. */
enum columns_mode { COLUMNS_CONVOLVE, COLUMNS_FORWARD, COLUMNS_INVERSE, COLUMNS_TAPS, COLUMNS_SPECTRUM };

/* Launchers of the passes for one length of transform. */
struct convolve_length {
    int T, R1, R2; /* a twiddle table has T values, W(T)^(k1 n2) at k1 * R2 + n2 */
    bool in_warp;  /* a line belongs to one warp; else `peaks` must be 0 before the rows */
    int group;     /* lanes of a block of the columns; divides all lanes */
    int spectrum;  /* complex values of the spectra of `group` lanes */
    int (*rows)(vp_err *err, cudaStream_t stream, const rows_args &a, int pairs, int planes);
    int (*taps)(vp_err *err, cudaStream_t stream, const taps_args &a);
    int (*columns)(vp_err *err, cudaStream_t stream, const columns_args &a, columns_mode mode);
    int (*inverse)(vp_err *err, cudaStream_t stream, const inverse_args &a, int pairs, int planes);
};

extern const convolve_length convolve_128, convolve_256, convolve_288, convolve_320, convolve_384, convolve_512,
    convolve_640, convolve_1024;
}
