/* SPDX-License-Identifier: BSD-3-Clause */
/* The passes of the separable filters: their arguments and launchers.
 *
 *   separable_fused.cu   x, y and z at once, one small radius                  no intermediate volume
 *   separable_xy.cu      x and then y, any filters; x alone                    for a single filter radii of y up to UNIT
 *   separable_z.cu       z, or y alone, any filters
 *   separable_long.cu    one axis, order 0, a radius above UNIT, not thin      transposes the volume for the next axis
 *
 * All follow the order of operations of local/separable.h for each voxel, so results equal those of a CPU with fused
 * multiply-add to the bit, whichever pass computes them. */
#pragma once

#include "launch.cuh"

extern "C" {
#include "local/separable.h"
}

#include <type_traits>

namespace vp
{

constexpr int UNIT = 16;       /* outputs of a thread */
constexpr int LONGEST = 40;    /* largest radius with specialised code */
constexpr int STEP = 2 * UNIT; /* rows of a step */

/* Returns the padding of a line on either side of the outputs, and the padded number of taps. */
__host__ __device__ constexpr int padded(int radius)
{
    return (radius + 7) / 8 * 8;
}

/* A filter along an axis. */
struct taps {
    const float *t;     /* padded(R) taps */
    const float2 *clip; /* VP_EDGE_RENORMALIZE, order 0: (-t[e], scale[e]) of a voxel at distance e < R from the edge,
                           for the first R voxels and then the last R ones; else NULL */
    const float2 *edge; /* rows of padded(R) pairs (up, down) for voxels with individual taps, or NULL */
    int radius, order;
    float sign;         /* sign of the left difference: -1, or 1 for order 1 */
    float few[LONGEST]; /* t as kernel arguments, for radii up to LONGEST: instruction operands instead of loads */
};

/* An axis of the image. */
struct axis {
    int n;     /* voxels */
    int rule;  /* enum vp_edge */
    bool thin; /* VP_EDGE_RENORMALIZE and n < 2 R: every voxel has a row of edge taps; else R voxels at each end */
};

/* A box of samples in device memory, with any order of axes; kernels for rows need step[0] = 1. */
struct volume {
    char *data; /* voxel (lo[0], lo[1], lo[2]) */
    int type;   /* enum vp_type */
    long long step[3]; /* pitches in samples */
    int lo[3], hi[3];
};

inline axis axis_of(const vp_op *op, const vp_taps *t, int a)
{
    const int n = op->image[a] < VP_FAR ? (int)op->image[a] : VP_FAR;
    return {n, (int)t->edge, t->edge == VP_EDGE_RENORMALIZE && n < 2 * t->radius};
}

inline volume volume_of(const vp_area &p, vp_type type)
{
    volume v = {(char *)p.data, (int)type, {1, p.pitch, p.plane}, {}, {}};
    for (int a = 0; a < 3; a++) {
        v.lo[a] = (int)p.box.lo[a];
        v.hi[a] = (int)p.box.hi[a];
    }
    return v;
}

/* Returns the index of a voxel, for step[0] = 1. */
__device__ __forceinline__ long long place_of(const volume &v, int x, int y, int z)
{
    return (long long)(z - v.lo[2]) * v.step[2] + (long long)(y - v.lo[1]) * v.step[1] + (x - v.lo[0]);
}

/* Shared by all passes of a launch. */
struct pass {
    const vp_op *op;
    const vp_separable *s;
    const vp_work *args;
    taps f[3][2];
    volume source;
    char *free; /* unused part of the scratch */
};

inline axis axis_at(const pass &p, int a)
{
    return axis_of(p.op, &p.s->taps[a][0], a);
}

/* Radii with specialised code. */
template <int... R> struct radii {
};

/* Returns the kernel of(R) for the radius if it is in the list, else of(the first in the list); R = 0: any radius. */
template <int Else, int... R, class Of> auto code_for(int radius, radii<Else, R...>, const Of &of)
{
    auto kernel = of(std::integral_constant<int, Else>());
    ((void)(radius == R ? kernel = of(std::integral_constant<int, R>()) : kernel), ...);
    return kernel;
}

/* Returns the rows of a block that marches along an axis of n rows, a multiple of STEP, such that every multiprocessor
 * has work. */
int march_length(int64_t others, int n, int radius, int sms);
/* Returns the shared memory of a block if two share a multiprocessor of the current device. */
size_t half_of_shared();

/* Layout of lines in memory. */
enum line_form {
    ROWS,      /* samples of a line are adjacent in the input and in the output */
    COLUMNS,   /* lines are adjacent in both */
    TRANSPOSED /* samples of a line are adjacent in the input, lines in the output: the next axis becomes the fastest */
};

/* True if separable_long.cu filters axis a. */
bool by_line(const pass &p, int a);
/* Launch a filter along axis `along` from `in` to `out`. Return 0 or -1, as all run_ functions. */
int run_line(const pass &p, const volume &in, const volume &out, int along, bool highpass, vp_err *err);
/* Filters along x and, with `along_y`, y, from the source to `one`. For a pair of filters `one` is p, `two` is q of
 * local/log.h; either may be NULL. */
int run_xy(const pass &p, const volume *one, const volume *two, bool along_y, bool highpass, vp_err *err);
/* Filters along z, or along y, which differs in the step only, from `one` to `out`. For a pair of filters `one` is p
 * (may be NULL), `two` is q. */
int run_z(const pass &p, const volume *one, const volume *two, const volume &out, int along, bool highpass,
          vp_err *err);
/* Return the least shared memory of a block of these. */
size_t line_least(line_form form, int radius);
size_t xy_least(int filters, int rx, int ry);
size_t z_least(int filters, int radius);

/* Filters along x, y and z in one kernel without scratch. fused_handles() is true if it handles op; image[2] may be
 * unknown yet, and must then turn out to be at least 2 R. */
constexpr int FUSED_LONGEST = 6;
bool fused_handles(const vp_op *op, const vp_separable &s);
int fused_launch(const vp_op *op, const vp_separable &s, const vp_work *args, vp_err *err);

}
