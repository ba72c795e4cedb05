/* SPDX-License-Identifier: BSD-3-Clause */
/* Cone- and parallel-beam back-projection on one CUDA device: vol(i, j, k) += sum over views of q(u, v) /
 * w^2, bilinear in q, zero outside the detector and where w <= 1 / 1024, with (u w, v w, w) = P (i, j, k, 1).
 *
 * The volume slab stays on the device until it is read back. Projections pass through a packed buffer of
 * `orbits` slots: _pack fills slots, _run adds them to the volume. An orbit is what the kernel treats
 * together: one view, or, when the scan repeats itself after half a turn, view o and view o + n_views / 2.
 *
 * Order: the contribution of the orbits is added in the order in which _run is called, on top of the stored
 * volume, so a voxel's bits depend neither on the slab nor on how the orbits are cut into calls, as long as
 * their order is the same. They do depend on the kernel (see _describe): devices of one architecture agree.
 */
#ifndef VP_BACKPROJECT_CUDA_H
#define VP_BACKPROJECT_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vp_err;
struct vp_bpcuda;

/* What the choice of kernel may use; for tests and benchmarks. */
enum vp_bpcuda_limit {
    VP_BPCUDA_AUTO = 0,
    VP_BPCUDA_PORTABLE = 1,    /* no tensor-tile kernels */
    VP_BPCUDA_NO_ROTATION = 2, /* do not pair views half a turn apart */
    VP_BPCUDA_NO_MIRROR = 4,   /* do not pair slices k and nz - 1 - k */
    VP_BPCUDA_MATRIX = 8,      /* general matrices only */
    VP_BPCUDA_PLAIN = 16       /* float64 in every voxel: slow, needs nothing of the matrices */
};

struct vp_bpcuda_problem {
    /* n_views x 12, row major, voxel indices -> pixels, 1 / w^2 is the weight. Copied. */
    const double *P;
    int64_t n_views;
    int64_t nu, nv;     /* detector columns and rows */
    int64_t nx, ny, nz; /* the whole grid */
    int64_t z0, z1;     /* the slab [z0, z1) ... */
    /* ... and [nz - z1, nz - z0) too (z1 <= (nz + 1) / 2): both halves of a mirrored pair at the cost of one. Only for
     * scans with a mirror plane. */
    bool mirrored;
    int64_t orbits; /* slots of the packed buffer; 0: all orbits of the scan */
    unsigned limit; /* enum vp_bpcuda_limit bits */
    int device;
};

struct vp_bpcuda_plan {
    char kernel[128];    /* "columns, half-turn pairs, z mirror, s 1, 16 slices a thread, tensor tiles" */
    int views_per_orbit; /* 1 or 2 */
    bool mirror;         /* there is a mirror plane, and it may be used: slabs can be `mirrored` */
    int64_t orbits;      /* of the scan: n_views / views_per_orbit */
    int64_t v0, v1;      /* detector rows that are read */
    int64_t z_step;      /* slabs that begin and end at multiples of this waste nothing (mirror plane: counted from
                            the nearer end of the grid) */
    int64_t good_batch;  /* orbits a _run from which on the volume's traffic is hidden */
    uint64_t bytes_volume, bytes_orbit, bytes_fixed; /* device memory: volume + slots * orbit + fixed */
};

/* Functions return 0 or -1; VP_ERESOURCE: device memory fell short, a smaller slab or fewer orbits may do. */

/* Which kernel the matrices and the device lead to and what it takes; allocates nothing. */
int vp_bpcuda_plan(const struct vp_bpcuda_problem *p, struct vp_bpcuda_plan *plan, struct vp_err *err);
/* `stream` is a cudaStream_t on which everything is queued. The volume starts at zero. */
int vp_bpcuda_open(struct vp_bpcuda **b, const struct vp_bpcuda_problem *p, void *stream, struct vp_err *err);

/* Queue n filtered views in device memory, rows [v0, v1) of each (at least the plan's), row major. `q` holds views
 * first .. first + n - 1; with two views an orbit `half_turn` holds their partners (first + n_views / 2 ...); either
 * may be NULL, both together are fastest. Orbit o lives in slot o % orbits. 0 <= first, first + n <= plan.orbits,
 * n <= slots. */
int vp_bpcuda_pack(struct vp_bpcuda *b, int64_t first, int64_t n, int64_t v0, int64_t v1, const float *q,
                   const float *half_turn, struct vp_err *err);
/* Queue the back-projection of n packed orbits, in increasing order. */
int vp_bpcuda_run(struct vp_bpcuda *b, int64_t first, int64_t n, struct vp_err *err);
/* The same for a part of the slab, so that its slices are ready while the others are worked on: parts 0 .. parts - 1,
 * one after the other, with the same orbits and nothing in between, do what one _run does, to the bit. _parts: the
 * number of parts to use, at most `most`. _part_of: the part that slice z of the slab belongs to; the lowest slices
 * are in part 0. */
int vp_bpcuda_parts(const struct vp_bpcuda *b, int most);
int vp_bpcuda_run_part(struct vp_bpcuda *b, int64_t first, int64_t n, int part, int parts, struct vp_err *err);
int vp_bpcuda_part_of(const struct vp_bpcuda *b, int64_t z, int parts);
/* Queue the copy of slices [z, z + n) of the whole grid's numbering (n x ny x nx) to host memory, on `stream`; the
 * caller sees to it that they are ready. */
int vp_bpcuda_read(struct vp_bpcuda *b, int64_t z, int64_t n, float *out, void *stream, struct vp_err *err);
void vp_bpcuda_close(struct vp_bpcuda *b);

#ifdef __cplusplus
}
#endif
#endif
