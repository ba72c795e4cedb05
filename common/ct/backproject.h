/* Voxel-driven cone-beam back-projection: vol(x) += sum over views of (sod / w)^2 * q(u, v), bilinear in
 * q, zero outside the detector. Parallel beam: weight 1. Voxels behind the source, or nearer to its plane
 * than sod / 1024, get nothing. */
#ifndef VP_BACKPROJECT_H
#define VP_BACKPROJECT_H

#include "geom/geom.h"

struct vp_backproject;
struct vp_filter;

/* A slab of a back-projection on one device (ct/slab.h). On the CPU views, nu, nv, grid,
 * helix, z0, z1 and threads count. */
struct vp_bp_job {
    const struct vp_view *views; /* of the whole scan */
    int64_t n_views;
    int64_t first, last; /* views [first, last) will come */
    bool pairs; /* and [first, last) + plan.partner too; only for a plan of the whole scan that has a partner */
    int64_t nu, nv;
    const struct vp_grid *grid;
    const struct vp_helix *helix; /* views count by the section (ct/helix.h); NULL: all views count for every slice */
    int64_t z0, z1;
    bool mirrored; /* slices [nz - z1, nz - z0) as well; z1 <= (nz + 1) / 2, and only where the plan says `mirror` */
    const struct vp_filter *filter; /* NULL: views come filtered; else in_nu columns wide, and the device filters */
    int64_t in_nu;
    bool any_order;         /* the caller hands views over in the order that the plan asks for, else increasing */
    int threads;            /* on the host */
    int device;
    uint64_t device_memory; /* bytes of its own memory that the device may use; 0: what is free */
    int64_t together; /* of open: so many views may come before their partners, as a plan said; else 0 */
    bool stay;        /* all views stay on the device, so that parts of the slab are done before others, not only at the
                         end: its slices leave while others are made */
};

struct vp_bp_plan {
    char kernel[160];      /* what the matrices and the device led to */
    uint64_t host, device; /* bytes that an open job takes */
    uint64_t room;         /* bytes of its own that the device has for it (0: it has none of its own) */
    int64_t v0, v1;        /* detector rows that the slab needs; others need not be given */
    int64_t partner;       /* > 0, and the order is free: best is views [o, o + n), then those from o + partner on */
    int64_t together;      /* so many views at most, before their partners come */
    int64_t z_step;        /* slabs that begin and end at multiples of this waste nothing */
    bool mirror;           /* there is a mirror plane: slabs may be `mirrored` */
    char filter[160];      /* how the device filters, if the job has a filter ... */
    double filter_seconds; /* ... and what a sample of the input is expected to take */
};

/* A view's matrix on voxel indices, scaled so that the weight is 1 / w^2: w = 1 at the isocentre. */
void vp_backproject_matrix(const struct vp_view *view, const struct vp_grid *grid, double P[12]);

/* The result of a voxel does not depend on the slab, the threads, or the calls of _add. `isa` is NULL (best of this
 * CPU) or "avx512", "avx2", "generic" for tests and benchmarks. Nothing of the job is looked at later. */
int vp_backproject_open(struct vp_backproject **b, const struct vp_bp_job *job, const char *isa, struct vp_err *err);
/* "circular orbit, z mirror, avx512", "parallel beam, avx2", "few slices, avx2", "3x4 matrices, generic":
 * which kernel the matrices' test chose. */
const char *vp_backproject_describe(const struct vp_backproject *b);
/* The same as plan->kernel, the rows, and the memory that vp_backproject_open would take. */
int vp_backproject_plan(const struct vp_bp_job *job, struct vp_bp_plan *plan, struct vp_err *err);
/* n filtered views starting with view `first`, rows [v0, v1) of each (at least those that the slab needs), row major.
 * Calls come in increasing order of views; gaps are allowed (--views). After flush any view may begin: what comes is
 * added to what there is. */
int vp_backproject_add(struct vp_backproject *b, int64_t first, int64_t n, int64_t v0, int64_t v1, const float *proj,
                       struct vp_err *err);
/* Rows of the detector that slab [z0, z1), and if `mirrored` its mirror image, needs in any view, with the
 * interpolation margin: [*v0, *v1). */
void vp_backproject_rows(const struct vp_view *views, int64_t n_views, int64_t nv, const struct vp_grid *grid,
                         int64_t z0, int64_t z1, bool mirrored, int64_t *v0, int64_t *v1);
/* Finish the views still buffered. */
void vp_backproject_flush(struct vp_backproject *b);
/* Slices z, ..., z + n - 1 (of the whole grid's numbering) after flush, each ny x nx, x fastest, with the threads of
 * `open`: by far the faster way for n = 32 or more (single slices read the volume with gaps). Thread safe. */
void vp_backproject_slices(const struct vp_backproject *b, int64_t z, int64_t n, float *out);
/* Between flush and the next view: as vp_slab_put and vp_slab_blend (ct/slab.h). -1 where the shapes differ. */
void vp_backproject_put(struct vp_backproject *b, int64_t z, int64_t n, const float *in);
int vp_backproject_blend(struct vp_backproject *b, float a, const struct vp_backproject *x, float keep,
                         struct vp_err *err);
void vp_backproject_close(struct vp_backproject *b);

#endif
