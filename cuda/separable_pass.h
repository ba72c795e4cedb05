/* SPDX-License-Identifier: BSD-3-Clause */
/* The passes of the separable filters, each with its kernels: what they are given, and who does which.
 *
 *   separable_fused.cu   x, y and z at once, one small radius                  no volume in between
 *   separable_xy.cu      x and then y, any filters; x alone                    of one filter: y's radius up to UNIT
 *   separable_z.cu       z, or y alone, any filters
 *   separable_long.cu    one axis, order 0, a radius above UNIT, not thin      turns the volume for the next axis
 *
 * The order of operations is that of local/separable.h, voxel by voxel, so results equal those of a CPU with fused
 * multiply-add to the bit, whichever does it. */
#ifndef VP_SEPARABLE_PASS_H
#define VP_SEPARABLE_PASS_H

#include "launch.cuh"

extern "C" {
#include "local/separable.h"
}

#include <type_traits>

namespace vp
{

/* filters = 1: filter[axis][0]. filters = 2: the sum of second derivatives of local/log.h, [0] smooth, [1] second. */
struct separable {
    int filters;
    const vp_taps *filter[3][2];
    bool highpass;
};

constexpr int UNIT = 16;       /* outputs of a thread */
constexpr int LONGEST = 40;    /* the largest radius that has code of its own */
constexpr int STEP = 2 * UNIT; /* rows of a step */

/* Samples (taps) that a line has room for beside the outputs on either side. */
__host__ __device__ constexpr int padded(int radius)
{
    return (radius + 7) / 8 * 8;
}

/* A filter along an axis. */
struct taps {
    const float *t;     /* padded(R) */
    const float2 *clip; /* VP_EDGE_RENORMALIZE, order 0: -t[e], scale[e] of a voxel e < R from the edge: of the first R
                           voxels, then of the last R ones; NULL: none */
    const float2 *edge; /* rows of padded(R) pairs up, down of voxels that have taps of their own; NULL: none */
    int radius, order;
    float sign;         /* of the difference on the left: -1, or 1 for order 1 */
    float few[LONGEST]; /* t where the radius is not larger: operands of instructions, not loads */
};

/* An axis of the image. */
struct axis {
    int n;     /* voxels of the image */
    int rule;  /* enum vp_edge */
    bool thin; /* VP_EDGE_RENORMALIZE, n < 2 R: there is a row of edge taps for every voxel, else R at each end */
};

/* A box of samples in device memory, with any order of axes; kernels of rows have step[0] = 1. */
struct volume {
    char *data; /* voxel lo[0], lo[1], lo[2] */
    int type;   /* enum vp_type */
    long long step[3]; /* samples */
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

/* Where a voxel of rows is, in samples. */
__device__ __forceinline__ long long place_of(const volume &v, int x, int y, int z)
{
    return (long long)(z - v.lo[2]) * v.step[2] + (long long)(y - v.lo[1]) * v.step[1] + (x - v.lo[0]);
}

/* What all passes of a launch share. */
struct pass {
    const vp_op *op;
    const separable *s;
    const vp_work *args;
    taps f[3][2];
    volume source;
    char *free; /* scratch that is left */
};

inline axis axis_at(const pass &p, int a)
{
    return axis_of(p.op, p.s->filter[a][0], a);
}

/* Radii that have code of their own. */
template <int... R> struct radii {
};

/* of(R), a kernel, for the radius if it is one of these, else of(the first); 0: the code for any. */
template <int Else, int... R, class Of> auto code_for(int radius, radii<Else, R...>, const Of &of)
{
    auto kernel = of(std::integral_constant<int, Else>());
    ((void)(radius == R ? kernel = of(std::integral_constant<int, R>()) : kernel), ...);
    return kernel;
}

/* Into how many pieces of whole steps a march over n rows is cut, so that every multiprocessor has work. */
int march_length(int64_t others, int n, int radius, int sms);
/* Shared memory of a block where two share a multiprocessor of the device in use. */
size_t half_of_shared();

/* Where lines lie in memory. */
enum line_form {
    ROWS,    /* samples of a line side by side, in the input and in the output */
    COLUMNS, /* lines side by side in both */
    TURNED   /* samples of a line in the input, lines in the output: the next axis is the fastest one there */
};

/* Whether separable_long.cu does the axis. */
bool by_line(const pass &p, int a);
int run_line(const pass &p, const volume &in, const volume &out, int along, bool highpass, vp_err *err);
/* Along x and, with `along_y`, y, from the source to `one`. Of two filters `one` is p, `two` q of local/log.h; either
 * may be NULL. */
int run_xy(const pass &p, const volume *one, const volume *two, bool along_y, bool highpass, vp_err *err);
/* Along z, or along y, which is the same with another step, from `one`. Of two filters it is p (may be NULL), `two` is
 * q. */
int run_z(const pass &p, const volume *one, const volume *two, const volume &out, int along, bool highpass,
          vp_err *err);
/* The least shared memory that a block of these takes. */
size_t line_least(line_form form, int radius);
size_t xy_least(int filters, int rx, int ry);
size_t z_least(int filters, int radius);

/* Along x, y and z in one kernel, which needs no scratch. Whether it does op, whose image[2] may not be known yet: then
 * it does if that turns out to be 2 R or more. */
constexpr int FUSED_LONGEST = 6;
bool fused_does(const vp_op *op, const separable &s);
int fused_launch(const vp_op *op, const separable &s, const vp_work *args, vp_err *err);

}

#endif
