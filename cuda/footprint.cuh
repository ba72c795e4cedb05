/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the window operations on a device: addresses, spans in device memory, boxes, grids. */
#pragma once

#include "launch.cuh"
#include "local/footprint.h"

#include <cstring>

/* Return the index and the address of sample (x, y, z) of the image in an area. */
__device__ __forceinline__ int64_t vp_place(const vp_area &p, int64_t x, int64_t y, int64_t z)
{
    return (z - p.box.lo[2]) * p.plane + (y - p.box.lo[1]) * p.pitch + (x - p.box.lo[0]);
}

template <class S> __device__ __forceinline__ S *vp_at(const vp_area &p, int64_t x, int64_t y, int64_t z)
{
    return (S *)p.data + vp_place(p, x, y, z);
}

/* Table of the spans of a ball or a set as (dz, dy, x0, x1), for operations whose params begin with the footprint:
 * `table` and `fill` of a vp_kernel that needs nothing else. */
static inline uint64_t vp_spans_bytes(const struct vp_op *op)
{
    return (uint64_t)vp_params<vp_footprint>(op)->spans * sizeof(int4); /* a box has none */
}

static inline void vp_spans_fill(const struct vp_op *op, void *table)
{
    static_assert(sizeof(struct vp_span) == sizeof(int4), "a span is four numbers");
    memcpy(table, vp_params<vp_footprint>(op)->span, vp_spans_bytes(op));
}

/* A window as lines along x: the spans of a ball or a set, or all rows of a box. */
struct vp_lines {
    const int4 *span; /* NULL for a box */
    int3 reach;
    int n;            /* lines */

    /* Returns line i as (dz, dy, x0, x1). */
    template <bool BALL> __device__ __forceinline__ int4 line(int i) const
    {
        const int rows = 2 * reach.y + 1;
        return BALL ? __ldg(span + i) : make_int4(i / rows - reach.z, i % rows - reach.y, -reach.x, reach.x);
    }

    /* Calls f(first sample, count) for the lines around a voxel, clipped to `in`; count may be negative. */
    template <class S, bool BALL, class F>
    __device__ __forceinline__ void each(const vp_area &in, int64_t x, int64_t y, int64_t z, const F &f) const
    {
        for (int i = 0; i < n; i++) {
            const int4 e = line<BALL>(i);
            if (z + e.x < in.box.lo[2] || z + e.x >= in.box.hi[2] || y + e.y < in.box.lo[1] || y + e.y >= in.box.hi[1])
                continue;
            const int64_t x0 = max(x + e.z, in.box.lo[0]);
            f(vp_at<S>(in, x0, y + e.y, z + e.x), (int)(min(x + e.w, in.box.hi[0] - 1) - x0) + 1);
        }
    }
};

/* Returns the reach of a window, cut to the size of the image, beyond which it has no effect. */
static inline int3 vp_reach(const struct vp_footprint *f, const int64_t image[3])
{
    int r[3];
    for (int a = 0; a < 3; a++)
        r[a] = (int)vp_min64(f->reach[a], image[a]);
    return make_int3(r[0], r[1], r[2]);
}

/* Returns the lines of a footprint; `spans`: the table of a ball or a set, whose reach is not cut. */
static inline vp_lines vp_lines_of(const struct vp_footprint *f, const int64_t image[3], const void *spans)
{
    const int3 r = vp_reach(f, image);
    if (f->shape == VP_BOX)
        return {NULL, r, (2 * r.y + 1) * (2 * r.z + 1)};
    return {(const int4 *)spans, make_int3((int)f->reach[0], (int)f->reach[1], (int)f->reach[2]), (int)f->spans};
}

/* Grows `box` by n on both sides of an axis, within `all`. */
static inline void vp_box_grow(struct vp_box *box, int axis, int64_t n, const struct vp_box &all)
{
    box->lo[axis] = vp_max64(box->lo[axis] - n, all.lo[axis]);
    box->hi[axis] = vp_min64(box->hi[axis] + n, all.hi[axis]);
}

/* Returns an area at `data` for the box, without gaps except that rows are padded to a multiple of `unit` samples. */
static inline vp_area vp_packed_part(const struct vp_box &box, int64_t unit, void *data)
{
    const int64_t pitch = vp_round_up(vp_box_size(&box, 0), unit);
    return {box, pitch, pitch * vp_box_size(&box, 1), data};
}

/* Returns the part of an area that a box within it covers; samples have `size` bytes. */
static inline vp_area vp_part_of(const vp_area &a, const struct vp_box &box, int64_t size)
{
    const int64_t from = (box.lo[2] - a.box.lo[2]) * a.plane + (box.lo[1] - a.box.lo[1]) * a.pitch +
                         (box.lo[0] - a.box.lo[0]);
    return {box, a.pitch, a.plane, (char *)a.data + from * size};
}

static inline int64_t vp_box_voxels(const struct vp_box &b)
{
    return vp_box_size(&b, 0) * vp_box_size(&b, 1) * vp_box_size(&b, 2);
}

/* Largest extent of a grid along y and along z. */
enum { VP_GRID_MOST = 65535 };

static inline unsigned vp_grid_depth(int64_t n)
{
    return (unsigned)vp_min64(n, VP_GRID_MOST);
}

/* True if thread blocks of `rows` rows cover the box within the limit along y. */
static inline bool vp_grid_holds(const struct vp_box &b, int64_t rows)
{
    return vp_box_size(&b, 1) <= VP_GRID_MOST * rows;
}

/* Returns a block of 256 threads for voxels of a plane, `wide` of them along x, or fewer if the grid is too high
 * then. */
static inline dim3 vp_threads(const struct vp_box &b, int wide)
{
    while (wide > 1 && !vp_grid_holds(b, 256 / wide))
        wide /= 2;
    return dim3(wide, 256 / wide);
}

/* Returns the grid of thread blocks of x * y * z voxels each. */
static inline dim3 vp_grid(const struct vp_box &b, int64_t x, int64_t y, int64_t z)
{
    return dim3((unsigned)vp_div_up(vp_box_size(&b, 0), x), (unsigned)vp_div_up(vp_box_size(&b, 1), y),
                vp_grid_depth(vp_div_up(vp_box_size(&b, 2), z)));
}

/* Calls f(x, y, z) for this thread's voxels of a box: a column along z, in steps of gridDim.z. */
template <class F> __device__ __forceinline__ void vp_each_voxel(const vp_box &b, const F &f)
{
    const int64_t x = b.lo[0] + (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const int64_t y = b.lo[1] + (int64_t)blockIdx.y * blockDim.y + threadIdx.y;
    if (x < b.hi[0] && y < b.hi[1])
        for (int64_t z = b.lo[2] + blockIdx.z; z < b.hi[2]; z += gridDim.z)
            f(x, y, z);
}

/* Launches a kernel that calls vp_each_voxel(). Returns 0 or -1. */
template <class... P, class... A>
int vp_start_voxels(struct vp_err *err, const struct vp_work *work, const vp_box &b, void (*kernel)(P...),
                    const A &...args)
{
    const dim3 threads = vp_threads(b, vp_box_size(&b, 0) >= 32 ? 32 : 4);
    return vp_start(err, work->queue->stream, kernel, vp_grid(b, threads.x, threads.y, 1), threads, 0, args...);
}
