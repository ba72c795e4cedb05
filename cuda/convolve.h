/* SPDX-License-Identifier: BSD-3-Clause */
/* Host side of the convolutions by overlap-save: tiles, workspaces, and the three methods: a single kernel
 * (convolve_single.cu), grids of kernels whose weights belong to the output (convolve_grid.cu) or to the source
 * (convolve_source.cu). */
#pragma once

#include "convolve_pass.h"
#include "launch.cuh"
#include "local/convolve.h"

#include <algorithm>
#include <vector>

namespace vp
{

constexpr auto params_of = vp_params<vp_convolve_params>;

inline bool is_volume(const vp_op *op)
{
    return params_of(op)->n[2] > 1;
}

/* Describes an axis of op with tiles of `valid` outputs. */
convolve_axis axis_of(const vp_op *op, int axis, int valid);

/* The kernels in the table of an operation. */
struct kernel_table {
    float *kernels; /* taps of all kernels */
    double *total;  /* sum of each kernel */
    double *planes; /* sum of each plane of a single kernel */
    double *sums;   /* vp_convolve_params.sums; NULL: edges do not clip kernels */

    void take(vp_arena &all, const vp_convolve_params *p, bool summed);
    void fill(const vp_convolve_params *p) const;
};

/* Fills T = R1 * R2 twiddle factors W(T)^(k1 n2), at k1 * R2 + n2. */
void fill_twiddle(int T, int R1, int R2, cx *to);

/* Division of the axes into tiles. */
struct convolve_tiling {
    const convolve_length *length[3]; /* transforms along x, y, z; z is NULL for images */
    int valid[3];                     /* outputs of a tile */
};

/* Sets step[] to the multiples at which parts must begin. */
void steps_of(const vp_op *op, const convolve_tiling &c, int64_t step[3]);

/* Computes the spectrum of a kernel, with `work` as workspace for its lines. Returns 0 or -1. */
int make_spectrum(const vp_op *op, const convolve_tiling &c, const float *kernel, cx *const twiddle[3], cx *work,
                  cx *spectrum, vp_queue *queue, vp_err *err);

/* A part of the outputs in tiles. */
struct convolve_part {
    convolve_axis axis[3];
    int in_lo[3], in_n[3];   /* samples of the input that exist */
    int out_lo[3], out_n[3]; /* outputs */
    int pair0, pairs;        /* first pair of tiles along x, pairs */
    int tile0, tiles;        /* first tile along y, tiles */
    int group[2];            /* rows [lo, hi) of the outputs that share their offsets */
};

convolve_part part_of(const vp_op *op, const vp_work *work, const convolve_tiling &c);

/* Return the first group of rows of a part, and advance `p` to the next one; false if there is none. */
convolve_part first_group(const vp_op *op, const convolve_tiling &c, const convolve_part &all);
bool next_group(const vp_op *op, const convolve_tiling &c, const convolve_part &all, convolve_part &p);

/* Workspace of the passes over images, for `planes` planes at a time, or for `pairs` pairs of tiles of one plane. */
struct convolve_workspace {
    int pairs, planes;
    cx *lines;                     /* transformed rows of samples */
    cx *results;                   /* transformed rows of results */
    float *base, *restore, *peaks; /* as in convolve_offset and rows_args */
};

constexpr uint64_t WORK = (uint64_t)768 << 20; /* bytes of such a workspace, if one pair fits */

/* Lays out the workspace with `slots` lines for each row of the input. */
convolve_workspace workspace_of_images(vp_arena &all, int T, int slots, int64_t pairs, const int64_t in[3],
                                       const int64_t out[3]);

inverse_args inverse_args_of(const vp_op *op, const vp_work *work, const convolve_part &p, int T,
                             const convolve_workspace &r);

/* Launches the kernels that choose the offsets of pairs of tiles from pair0 on, for planes[0] planes of samples and
 * planes[1] planes of results. Returns 0 or -1. */
int launch_base(const vp_op *op, const vp_work *work, const convolve_part &p, int pair0, const convolve_offset &e,
                const int planes[2], vp_err *err);

/* Returns the bytes of a workspace for `count` units of `one` byte each (all arrays included), of which the largest
 * number that fits in `most` bytes, at least one, is processed at a time. Enough for any smaller part, too. */
inline uint64_t workspace_bytes(uint64_t one, uint64_t count, uint64_t most)
{
    const uint64_t all = one * count, some = all < most ? all : most;
    return (one > some ? one : some) + 16 * VP_ALIGN;
}

/* A method of convolution, with entries like those of struct vp_kernel. */
struct convolve_method {
    bool (*fits)(const vp_op *op);                   /* the kernels are not too large */
    uint64_t (*table)(const vp_op *op, bool made);   /* bytes of the table, or `made`: of its part made on the device */
    void (*fill)(const vp_op *op, void *table);
    int (*make)(const vp_op *op, void *table, vp_queue *queue, vp_err *err);
    void (*demand)(const vp_op *op, int64_t step[3], int64_t halo[3]); /* halo[] holds the kernel's, to be enlarged */
    uint64_t (*scratch)(const vp_op *op, const int64_t in[3], const int64_t out[3]);
    int (*launch)(const vp_op *op, const vp_work *work, vp_err *err); /* first in the scratch: the nonfinite flag, 0 */
};

extern const convolve_method convolve_single, convolve_grid, convolve_source;

/* Returns make(op) from a cache of one entry for each thread: the planner needs the tiling of a grid thousands of
 * times. The key is all that a tiling depends on. */
template <class Tiling> const Tiling &cached_tiling(const vp_op *op, Tiling (*make)(const vp_op *op))
{
    static thread_local std::vector<double> key;
    static thread_local Tiling tiling;
    const vp_convolve_params *const p = params_of(op);
    std::vector<double> all;
    for (int a = 0; a < 2; a++) {
        for (const int64_t n : {p->n[a], p->centre[a], op->image[a], p->nodes[a]})
            all.push_back((double)n);
        all.insert(all.end(), p->node[a], p->node[a] + p->nodes[a]);
    }
    if (all != key) {
        tiling = make(op);
        key = all;
    }
    return tiling;
}

}
