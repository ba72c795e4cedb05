/* SPDX-License-Identifier: BSD-3-Clause */
/* What the window operations on a device have in common: addresses, the spans of a ball in device memory,
 * grids. */
#ifndef VP_FOOTPRINT_CUH
#define VP_FOOTPRINT_CUH

#include "launch.cuh"
#include "ops/footprint.h"

/* Sample (x, y, z) of the image. */
template <class S> __device__ __forceinline__ S *vp_at(const vp_area &p, int64_t x, int64_t y, int64_t z)
{
    return (S *)p.data + (z - p.box.lo[2]) * p.plane + (y - p.box.lo[1]) * p.pitch + (x - p.box.lo[0]);
}

static inline uint64_t vp_spans_bytes(const struct vp_footprint *f)
{
    return f->shape == VP_BOX ? 0 : (uint64_t)f->spans * sizeof(int4);
}

/* As (dz, dy, x0, x1). */
static inline void vp_spans_fill(const struct vp_footprint *f, void *table)
{
    int4 *const t = (int4 *)table;
    for (int64_t s = 0; s < f->spans; s++)
        t[s] = make_int4(f->span[s].dz, f->span[s].dy, f->span[s].x0, f->span[s].x1);
}

/* A window longer than the image sees no more than the image. */
static inline int3 vp_reach(const struct vp_footprint *f, const int64_t image[3])
{
    int r[3];
    for (int a = 0; a < 3; a++)
        r[a] = (int)(f->reach[a] < image[a] ? f->reach[a] : image[a]);
    return make_int3(r[0], r[1], r[2]);
}

static inline int64_t vp_groups(int64_t n, int64_t size)
{
    return (n + size - 1) / size;
}

static inline bool vp_box_empty(const struct vp_box *b)
{
    return b->hi[0] <= b->lo[0] || b->hi[1] <= b->lo[1] || b->hi[2] <= b->lo[2];
}

/* One thread a voxel of the box in x and y; z goes in steps of gridDim.z, which has a limit. */
struct vp_grid_of {
    dim3 grid, threads;
    explicit vp_grid_of(const struct vp_box &b)
    {
        const int wide = vp_box_size(&b, 0) >= 32 ? 32 : 4;
        const int64_t depth = vp_box_size(&b, 2);
        threads = dim3(wide, 256 / wide);
        grid = dim3((unsigned)vp_groups(vp_box_size(&b, 0), threads.x),
                    (unsigned)vp_groups(vp_box_size(&b, 1), threads.y),
                    (unsigned)(depth < 65535 ? depth : 65535));
    }
};

/* The voxels of `out` that are at least reach[] from every edge of the image, and what is left around them.
 */
static inline void vp_split(const int64_t image[3], const int64_t reach[3], const struct vp_box *out,
                            struct vp_box *inner, struct vp_box faces[6])
{
    struct vp_box rest = *out;
    for (int a = 2; a >= 0; a--) {
        const int64_t least = reach[a], most = image[a] - reach[a];
        struct vp_box low = rest, high = rest;
        low.hi[a] = least > rest.lo[a] ? least : rest.lo[a];
        low.hi[a] = low.hi[a] < rest.hi[a] ? low.hi[a] : rest.hi[a];
        high.lo[a] = most < rest.hi[a] ? most : rest.hi[a];
        high.lo[a] = high.lo[a] > low.hi[a] ? high.lo[a] : low.hi[a];
        rest.lo[a] = low.hi[a];
        rest.hi[a] = high.lo[a];
        faces[2 * a] = low;
        faces[2 * a + 1] = high;
    }
    *inner = rest;
}

#endif
