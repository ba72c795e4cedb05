/* SPDX-License-Identifier: BSD-3-Clause */
/* A matched pair of projectors on the CPU: y = A x, the projections of a volume, and x += A'y, with the exact transpose
 * of A. Weights are areas seen from a voxel's column (distance-driven: De Man and Basu 2004; here the depth is taken at
 * the column):
 *
 *     A[(u, v), (column, k)] = len(u, v) |pixel u and [u(edge-), u(edge+)]| |pixel v and [v(k - 1/2), v(k + 1/2)]|
 *
 * with both overlaps in pixels. The edges are those of the column across the marching direction, at its middle; len is
 * the voxel's edge along the marching direction times the length of the pixel's ray over its component along it. The
 * marching direction is the axis of the grid nearest to the ray through the grid's centre, chosen for each view. With
 * one slice and one row the overlap along v is 1: a fan. Voxels with an edge on the far side of the source, or nearer to
 * its plane than sod / 1024, have no weight. Views whose u or depth changes along a column (any 3x4 matrix) project the
 * edges of each voxel; the area of the image, a parallelogram, is spread over the box of its two edges.
 *
 * Volumes are slice after slice, ny x nx floats each, projections view after view, nv x nu each. Sums over a volume run
 * in segments of VP_PAIR_SEGMENT slices, from zero each, in ascending order, sums over views in the order of the calls,
 * each call from zero: bits depend on neither threads nor slabs, only on the views of each call. */
#pragma once

#include "ct/projections.h"

struct vp_backend;
struct vp_err;
struct vp_pair;

enum { VP_PAIR_VIEWS = 16, VP_PAIR_SEGMENT = 256, VP_PAIR_SLAB = 512, VP_PAIR_DEVICES = 64 };

/* Opens the pair of a scan and a grid. The scan's views and the grid stay the caller's, and are not used later. `isa` is
 * NULL (best of this CPU) or "avx512", "avx2", "generic". VP_ERESOURCE. */
int vp_pair_open(struct vp_pair **p, const struct vp_projections *scan, const struct vp_grid *grid, int threads,
                 const char *isa, struct vp_err *err);
/* Returns the bytes that an open pair takes on the CPU. */
uint64_t vp_pair_bytes(const struct vp_projections *scan, const struct vp_grid *grid, int threads);
/* Returns "columns, avx512", "3x4 matrices, avx2", "fan, generic". */
const char *vp_pair_describe(const struct vp_pair *p);
/* Sets y, n views, to the projections of x, a whole volume, for views view[0 .. n), n <= VP_PAIR_VIEWS. */
void vp_pair_forward(struct vp_pair *p, const float *x, const int64_t *view, int n, float *y);
/* Adds the transpose of n views to slices [z0, z1) of the volume, which x holds. n <= VP_PAIR_VIEWS. */
void vp_pair_adjoint(struct vp_pair *p, const float *y, const int64_t *view, int n, int64_t z0, int64_t z1, float *x);
void vp_pair_close(struct vp_pair *p); /* NULL is fine */

/* The same on the CPU or, after vp_pair_use(), on devices, with whole volumes: load x once, then project views of it;
 * begin a sum of 0 in x, add views, and end it. A call takes n <= vp_pair_block() views. x holds no sum before the end; y
 * of vp_pair_back() and the views must stay until then if x is NULL. 0 or -1. */
int vp_pair_load(struct vp_pair *p, const float *x, struct vp_err *err);
int vp_pair_project(struct vp_pair *p, const int64_t *view, int64_t n, float *y, struct vp_err *err);
int vp_pair_begin(struct vp_pair *p, int64_t z0, int64_t z1, float *x, struct vp_err *err);
int vp_pair_back(struct vp_pair *p, const float *y, const int64_t *view, int64_t n, struct vp_err *err);
int vp_pair_end(struct vp_pair *p, struct vp_err *err);

/* Takes slices [z, z + n) of a sum; called for ascending slices, for those of several devices from several threads. */
typedef void vp_pair_slices(void *ctx, int64_t z, int64_t n, const float *sum);
/* Ends a sum whose x is NULL: its slices are given to take() and held nowhere. `threads` that a call may use: */
int vp_pair_give(struct vp_pair *p, vp_pair_slices *take, void *ctx, struct vp_err *err);
int vp_pair_give_threads(const struct vp_pair *p);

/* Parts of the work, which need memory of the device. */
enum { VP_PAIR_PROJECTS = 1, VP_PAIR_SUMS = 2 };

/* Devices for the pair, which hold slabs of `slab` slices (0: VP_PAIR_SLAB) of the volume; or, if their memory does not do
 * for all, one slab after the other (it travels): the block of views then bounds the number of journeys. backend NULL:
 * the CPU. `automatic`: the CPU if the devices do not do. Bits on devices depend on the size of slabs and on the views of a
 * pass, not on the number of devices, their memory or blocks. */
struct vp_pair_place {
    const struct vp_backend *backend;
    int devices[VP_PAIR_DEVICES], n_devices;
    int64_t slab;
    uint64_t memory;        /* limit in bytes of the memory of each device; 0: what is free */
    bool automatic;
    unsigned use;           /* VP_PAIR_PROJECTS, VP_PAIR_SUMS: what it will be used for; 0: both */
    bool used;              /* out: the work is on the devices */
    bool travels, ahead;    /* out: slabs travel, and while one is worked on the next one does */
    int64_t slabs;          /* out: number of slabs */
    uint64_t bytes, room;   /* out: memory that is taken of a device, at most, and what there is */
    char refused[200];      /* out: why it was not, or "" */
};
/* Plans the work on the devices, if there are any and it is not planned, without their memory. 0 or -1: VP_ERESOURCE, unless
 * automatic. */
int vp_pair_plan(struct vp_pair *p, struct vp_pair_place *place, struct vp_err *err);
/* Opens the devices, if there are any, which vp_pair_plan() planned or are planned now. 0 or -1, as vp_pair_plan(). */
int vp_pair_use(struct vp_pair *p, struct vp_pair_place *place, struct vp_err *err);
/* Takes the work back to the CPU, where it is planned for devices. */
void vp_pair_refuse(struct vp_pair *p, struct vp_pair_place *place, const char *why);
/* Returns the bytes of host memory that it takes where it is planned. */
uint64_t vp_pair_holds(const struct vp_pair *p);
/* Returns the number of views that a call takes, of `views` in a pass: if slabs travel the most that `bytes` of host
 * memory hold, at least what the devices need; else VP_PAIR_VIEWS. */
int64_t vp_pair_block(const struct vp_pair *p, int64_t views, uint64_t bytes);
/* True if a pass of `views`, in blocks, can end without a volume for its sum. */
bool vp_pair_gives(const struct vp_pair *p, int64_t views, int64_t block);
/* Returns memory for n views, which is copied to devices at full speed if it can be pinned; NULL and VP_ERESOURCE. */
float *vp_pair_room(const struct vp_pair *p, int64_t n, struct vp_err *err);
void vp_pair_leave(const struct vp_pair *p, float *room); /* NULL is fine */
/* Returns the seconds that the kernels of a device took for projections and for sums, the most of any; 0 on the CPU. */
void vp_pair_seconds(const struct vp_pair *p, double *project, double *back);
