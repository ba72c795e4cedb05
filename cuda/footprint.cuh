/* SPDX-License-Identifier: BSD-3-Clause */
/* What the window operations on a device have in common: addresses, types, the spans of a ball in device memory,
 * boxes, grids. */
#ifndef VP_FOOTPRINT_CUH
#define VP_FOOTPRINT_CUH

#include "launch.cuh"
#include "local.h"
#include "local/footprint.h"
#include "gpu_size.h"

/* Sample (x, y, z) of the image. */
template <class S> __device__ __forceinline__ S *vp_at(const vp_area &p, int64_t x, int64_t y, int64_t z)
{
    return (S *)p.data + (z - p.box.lo[2]) * p.plane + (y - p.box.lo[1]) * p.pitch + (x - p.box.lo[0]);
}

/* f(a sample of the type): what to launch for u8, u16, i16 or else f32. */
template <class F> auto vp_by_type(enum vp_type type, const F &f)
{
    switch (type) {
    case VP_U8: return f(uint8_t());
    case VP_U16: return f(uint16_t());
    case VP_I16: return f(int16_t());
    default: return f(float());
    }
}

template <class Params> const Params *vp_params(const struct vp_op *op)
{
    return (const Params *)op->params;
}

/* The spans of a ball in a table, as (dz, dy, x0, x1). */
static inline uint64_t vp_spans_bytes(const struct vp_footprint *f)
{
    return f->shape == VP_BOX ? 0 : (uint64_t)f->spans * sizeof(int4);
}

static inline void vp_spans_fill(const struct vp_footprint *f, void *table)
{
    int4 *const t = (int4 *)table;
    for (int64_t s = 0; s < f->spans; s++)
        t[s] = make_int4(f->span[s].dz, f->span[s].dy, f->span[s].x0, f->span[s].x1);
}

/* The table and the fill of a vp_kernel that needs nothing else. */
template <class Params> uint64_t vp_spans_table(const struct vp_op *op)
{
    return vp_spans_bytes(&vp_params<Params>(op)->f);
}

template <class Params> void vp_spans_table_fill(const struct vp_op *op, void *table)
{
    vp_spans_fill(&vp_params<Params>(op)->f, table);
}

/* A window longer than the image sees no more than the image. */
static inline int3 vp_reach(const struct vp_footprint *f, const int64_t image[3])
{
    int r[3];
    for (int a = 0; a < 3; a++)
        r[a] = (int)vp_min64(f->reach[a], image[a]);
    return make_int3(r[0], r[1], r[2]);
}

static inline bool vp_box_empty(const struct vp_box *b)
{
    return b->hi[0] <= b->lo[0] || b->hi[1] <= b->lo[1] || b->hi[2] <= b->lo[2];
}

/* `box` grown by n on both sides of an axis, within `all`. */
static inline void vp_box_grow(struct vp_box *box, int axis, int64_t n, const struct vp_box &all)
{
    box->lo[axis] = vp_max64(box->lo[axis] - n, all.lo[axis]);
    box->hi[axis] = vp_min64(box->hi[axis] + n, all.hi[axis]);
}

/* A part without gaps for the box, its rows of a whole number of `unit` samples. */
static inline vp_area vp_packed_part(const struct vp_box &box, int64_t unit, void *data)
{
    const int64_t pitch = vp_round_up(vp_box_size(&box, 0), unit);
    return {box, pitch, pitch * vp_box_size(&box, 1), data};
}

/* A grid is at most so deep. */
static inline unsigned vp_grid_depth(int64_t n)
{
    return (unsigned)vp_min64(n, 65535);
}

/* One thread a voxel of the box in x and y; z goes in steps of gridDim.z, which has a limit. */
struct vp_grid_of {
    dim3 grid, threads;
    explicit vp_grid_of(const struct vp_box &b)
    {
        const int wide = vp_box_size(&b, 0) >= 32 ? 32 : 4;
        threads = dim3(wide, 256 / wide);
        grid = dim3((unsigned)vp_groups(vp_box_size(&b, 0), threads.x),
                    (unsigned)vp_groups(vp_box_size(&b, 1), threads.y), vp_grid_depth(vp_box_size(&b, 2)));
    }
};

/* This thread's column of a box, in such a grid; false: none. */
__device__ __forceinline__ bool vp_own_column(const vp_box &b, int64_t &x, int64_t &y)
{
    x = b.lo[0] + (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    y = b.lo[1] + (int64_t)blockIdx.y * blockDim.y + threadIdx.y;
    return x < b.hi[0] && y < b.hi[1];
}

/* The voxels of `out` that are at least reach[] from every edge of the image, and what is left around them.
 */
static inline void vp_split(const int64_t image[3], const int64_t reach[3], const struct vp_box *out,
                            struct vp_box *inner, struct vp_box faces[6])
{
    struct vp_box rest = *out;
    for (int a = 2; a >= 0; a--) {
        struct vp_box low = rest, high = rest;
        low.hi[a] = vp_min64(vp_max64(reach[a], rest.lo[a]), rest.hi[a]);
        high.lo[a] = vp_max64(vp_min64(image[a] - reach[a], rest.hi[a]), low.hi[a]);
        rest.lo[a] = low.hi[a];
        rest.hi[a] = high.lo[a];
        faces[2 * a] = low;
        faces[2 * a + 1] = high;
    }
    *inner = rest;
}

#endif
