/* SPDX-License-Identifier: BSD-3-Clause */
/* What convolve.cu and its companions share on the host: how an operation's axes are cut, what lies where, and the
 * three ways: one kernel (convolve.cu), grids with weights of the output (convolve_grid.cu) and of the source
 * (convolve_source.cu). */
#ifndef VP_CONVOLVE_CUDA_H
#define VP_CONVOLVE_CUDA_H

#include "convolve_pass.h"
#include "launch.cuh"
#include "local/convolve.h"

#include <algorithm>
#include <vector>

namespace vp
{

constexpr auto params_of = vp_params<vp_convolve_params>;

/* Along an axis, with tiles of so many outputs. */
convolve_axis axis_of(const vp_op *op, int axis, int valid);

/* All kernels, their sums, those of the planes of one, and where edges clip kernels those of vp_convolve_params.sums
 * (NULL: they do not). */
struct kernel_table {
    float *kernels;
    double *total, *planes, *sums;

    void take(vp_pieces &all, const vp_convolve_params *p, bool summed);
    void fill(const vp_convolve_params *p) const;
};

/* W(T)^(k1 n2) at k1 * R2 + n2. */
void fill_twiddle(int T, int R1, int R2, cx *to);

/* The lengths of the transforms along the axes (z: NULL for images) and the outputs of a tile. */
struct convolve_cut {
    const convolve_length *length[3];
    int valid[3];
};

void steps_of(const vp_op *op, const convolve_cut &c, int64_t step[3]);

/* The spectrum of a kernel, by the passes of an image that is a kernel. `work`: for its lines on the way. */
int make_spectrum(const vp_op *op, const convolve_cut &c, const float *kernel, cx *const twiddle[3], cx *work,
                  cx *spectrum, vp_queue *queue, vp_err *err);

/* A part in tiles: the samples and outputs of it, the pairs of tiles along x, the tiles along y. */
struct convolve_part {
    convolve_axis axis[3];
    int in_lo[3], in_n[3]; /* samples that exist in the input */
    int out_lo[3], out_n[3];
    int pair0, pairs, tile0, tiles;
    int group[2];              /* the rows of outputs that have their constants in common */
};

convolve_part part_of(const vp_op *op, const vp_work *work, const convolve_cut &c);

/* The first group of rows of a part, and the one after `p`; false: there is none. */
convolve_part first_group(const vp_op *op, const convolve_cut &c, const convolve_part &all);
bool next_group(const vp_op *op, const convolve_cut &c, const convolve_part &all, convolve_part &p);

/* What the passes of images work in: as many planes at once, or else as many pairs of one, as WORK bytes hold. */
struct convolve_room {
    int pairs, planes;
    cx *lines, *back;
    float *base, *more, *most; /* see convolve_ending and rows_args */
};

constexpr uint64_t WORK = (uint64_t)768 << 20;

/* Of `slots` lines for each row of the input. */
convolve_room room_of_images(vp_pieces &all, int T, int slots, int64_t pairs, const int64_t in[3],
                             const int64_t out[3]);

back_args back_of(const vp_op *op, const vp_work *work, const convolve_part &p, int T, const convolve_room &r);

/* Makes the constants of pairs of tiles from pair0 on, of planes[0] planes of samples and planes[1] of results. */
int launch_base(const vp_op *op, const vp_work *work, const convolve_part &p, int pair0, const convolve_ending &e,
                const int planes[2], vp_err *err);

/* Bytes for `count` of what takes `one` (with its share of everything) when at most `most` bytes are worked on at a
 * time, but one at least: enough for any smaller part, too, where more fit at a time. */
inline uint64_t room_for(uint64_t one, uint64_t count, uint64_t most)
{
    const uint64_t all = one * count, some = all < most ? all : most;
    return (one > some ? one : some) + 16 * VP_ALIGN;
}

/* What convolve.cu asks of a way; as in struct vp_kernel. The scratch begins with the flag of samples that are not
 * finite, which is 0. demand() adds to a halo that has the kernel. */
struct convolve_way {
    bool (*fits)(const vp_op *op);
    uint64_t (*table)(const vp_op *op, bool made); /* bytes of the table, or of what is made */
    void (*fill)(const vp_op *op, void *table);
    int (*make)(const vp_op *op, void *table, vp_queue *queue, vp_err *err);
    void (*demand)(const vp_op *op, int64_t step[3], int64_t halo[3]);
    uint64_t (*scratch)(const vp_op *op, const int64_t in[3], const int64_t out[3]);
    int (*launch)(const vp_op *op, const vp_work *work, vp_err *err);
};

extern const convolve_way convolve_grid, convolve_source;

/* How a grid is cut is asked for thousands of times while a plan is made: each thread keeps the last answer, with all
 * that it depends on. */
template <class Cut> const Cut &cut_kept(const vp_op *op, Cut (*make)(const vp_op *op))
{
    static thread_local std::vector<double> kept;
    static thread_local Cut cut;
    const vp_convolve_params *const p = params_of(op);
    std::vector<double> all;
    for (int a = 0; a < 2; a++) {
        for (const int64_t n : {p->n[a], p->centre[a], op->image[a], p->nodes[a]})
            all.push_back((double)n);
        all.insert(all.end(), p->node[a], p->node[a] + p->nodes[a]);
    }
    if (all != kept) {
        cut = make(op);
        kept = all;
    }
    return cut;
}

}

#endif
