/* SPDX-License-Identifier: BSD-3-Clause */
/* Voxel-driven cone-beam back-projection: vol(x) += sum over views of (sod / w)^2 * q(u, v), bilinear in
 * q, zero outside the detector. Parallel beam: weight 1. Voxels on the far side of the source, or nearer to its plane
 * than sod / 1024, get nothing. Here the job and the plan of one slab on any device, and the back-projection on the
 * CPU. */
#pragma once

#include "ct/projections.h"
#include "ct/tiles.h"

struct vp_filter;

/* A slab of a volume on one device, and the views that are projected back to it. */
struct vp_bp_job {
    const struct vp_projections *projections; /* geometry of the whole scan */
    int64_t first, last;     /* views [first, last) will come */
    bool pairs;              /* with their opposite views; only for a plan of the whole scan that has such */
    const struct vp_grid *grid;
    int64_t z0, z1;          /* slices of the slab */
    bool mirrored;           /* slices [nz - z1, nz - z0) as well; z1 <= (nz + 1) / 2, only if the plan has `mirror` */
    const struct vp_filter *filter; /* filter of the device; NULL: views come filtered */
    int64_t in_nu;           /* columns of the views that come: with a filter those of its input */
    bool any_order;          /* views come in the order that the plan prefers, else in increasing order */
    bool resident;           /* all views stay on the device, so that parts of the slab are finished before others and
                                their slices leave while others are made */
    int64_t batch;           /* views that come before their opposite ones, as planned; of open; 0: none */
    int threads;             /* threads of the host */
    int device;
    uint64_t device_memory;  /* limit in bytes of the device's own memory; 0: all that is free */

    /* Set for the kernels of a device (ct/kernels.h) by those that call them: */
    const double *P;         /* n_views x 12, row major: voxel indices to pixels, rows counted with the margin */
    int64_t margin;          /* rows added at either end of the detector: copies of the nearest row */
    bool single;             /* opposite views are not paired */
    int64_t slots;           /* views, or pairs, in the packed buffer; 0: all of the scan */
};

/* The filter of a device for a job (ct/kernels.h). */
struct vp_devfilter_plan {
    char kernel[160];    /* "ramp ram-lak, cutoff 1, no weights, complex fft length 1024 (16x16x4), one pass" */
    int64_t nu_out;      /* samples of an output row: as vp_filter_widen left it */
    uint64_t bytes;      /* device memory for tables; input and output are the caller's */
    /* Expected for one input sample, from rates measured on an H100, by multiprocessors and clock (1024 projections of
     * 1024x1024: 4.7 ms; 16 cores: 0.29 s). So the CPU pays only if its filtering is hidden by the back-projection
     * and the GPUs would filter the same rows many times over (slabs, passes). */
    double seconds;
};

struct vp_bp_plan {
    char kernel[160];      /* kernel that the matrices and the device led to */
    int64_t v0, v1;        /* detector rows that the slab needs; other rows need not come */
    int64_t opposite;      /* > 0: views v and v + opposite lie half a turn apart and are projected back as a pair; if
                              the order is free, views [v, v + n) come first, then their opposite ones */
    int64_t batch;         /* views, or pairs, from which on a run hides the traffic of the volume; of a slab's plan the
                              most views that come before their opposite ones */
    int64_t z_step;        /* slabs that begin and end at multiples of it waste nothing (with a mirror plane: counted
                              from the nearer end of the grid) */
    bool mirror;           /* the scan has a mirror plane: slabs may be `mirrored` */
    struct vp_tile_layout layout; /* layout in host memory; on a device slices lie one after the other */
    uint64_t slot, fixed;  /* bytes of device memory for a packed view or pair, and beside them */
    uint64_t host, device; /* bytes in all of an open job and its slab */
    uint64_t room;         /* bytes of its own memory that the device has for it; 0: it has none of its own */
    struct vp_devfilter_plan filter; /* if the job has a filter */
};

/* One device's share of a volume. */
struct vp_bp_part {
    struct vp_bp_job job;
    struct vp_bp_plan plan;
};

/* Widens the rows of a slab that sees nothing to one row, which has no effect. */
static inline void vp_bp_keep_row(struct vp_bp_plan *plan, int64_t nv)
{
    if (plan->v0 >= plan->v1) {
        plan->v0 = plan->v0 < nv - 1 ? plan->v0 : nv - 1;
        plan->v1 = plan->v0 + 1;
    }
}

/* Sets *err to VP_ERESOURCE, with the sizes that the plan requested and found. Returns -1. */
int vp_bp_shortage(const struct vp_bp_job *job, const struct vp_bp_plan *plan, struct vp_err *err);

/* Computes a view's matrix on voxel indices, scaled so that the weight is 1 / w^2: w = 1 at the isocentre. */
void vp_backproject_matrix(const struct vp_view *view, const struct vp_grid *grid, double P[12]);

/* Opens the back-projection of a job on the CPU; views, grid, z0, z1 and threads of the job count, and nothing of it is
 * used later. The result of a voxel does not depend on the slab, the threads, or the calls of _add. `isa` is NULL (best
 * of this CPU) or "avx512", "avx2", "generic" for tests and benchmarks. VP_ERESOURCE, VP_EUSAGE for an empty job. */
struct vp_backproject;
int vp_backproject_open(struct vp_backproject **b, const struct vp_bp_job *job, const char *isa, struct vp_err *err);
/* Returns the kernel that the test of the matrices chose: "circular orbit, z mirror, avx512", "parallel beam, avx2",
 * "few slices, avx2", "3x4 matrices, generic". */
const char *vp_backproject_describe(const struct vp_backproject *b);
/* Returns the layout of the slab. */
const struct vp_tiles *vp_backproject_tiles(const struct vp_backproject *b);
/* Plans the same: the kernel, the rows, and the memory that vp_backproject_open and the slab take. */
int vp_backproject_plan(const struct vp_bp_job *job, struct vp_bp_plan *plan, struct vp_err *err);
/* Begins: views that follow are added to `voxels`, a slab in the layout of vp_backproject_tiles(); with `set` it is
 * cleared first. Any view may be the first. */
void vp_backproject_begin(struct vp_backproject *b, float *voxels, bool set);
/* Adds n filtered views from `first` on, rows [v0, v1) of each (at least those that the slab needs), row major. Calls
 * come in increasing order of views; gaps are allowed (--views). */
int vp_backproject_add(struct vp_backproject *b, const struct vp_batch *views, struct vp_err *err);
/* Finishes the views that are still buffered. */
void vp_backproject_end(struct vp_backproject *b);
/* Sets [*v0, *v1), the rows of the detector that slab [z0, z1), and if `mirrored` its mirror image, needs in any view,
 * with the interpolation margin. */
void vp_backproject_rows(const struct vp_projections *p, const struct vp_grid *grid, int64_t z0, int64_t z1,
                         bool mirrored, int64_t *v0, int64_t *v1);
void vp_backproject_close(struct vp_backproject *b);
