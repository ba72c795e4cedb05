/* A volume on devices, each of which holds a slab of it: what views are back-projected to, in one go or again and
 * again. Between back-projections its slices can be read and set, and volumes of one kind added up; so an iteration
 * is a few calls of the functions here, and projections of a volume have their place beside vp_adjoint. All from one
 * thread. */
#ifndef VP_VOLUME_H
#define VP_VOLUME_H

#include "ct/slab.h"

/* Slabs of different slices, or, where each gets only a subset of the views, of the same ones: then the volume is their
 * sum, which is for the caller to take, slab by slab. */
struct vp_volume {
    const struct vp_backend *backend;
    int64_t page; /* samples of a slice */
    int slabs;
    struct vp_slab **slab;
};

/* How the views' contributions are weighted: as FDK does, by the inverse square of the voxel's depth. */
enum vp_weight { VP_WEIGHT_FDK };

/* Rows [v0, v1) of views [first, first + n) of the scan, one after the other. */
struct vp_projections {
    int64_t first, n, v0, v1;
    const float *samples;
};

/* A slab for each job, which its device allocates, all at once; zero, until something is added. The jobs' grid and
 * views stay the caller's, and must stay. On an error nothing is open. */
int vp_volume_open(struct vp_volume *v, const struct vp_backend *backend, const struct vp_bp_job *job, int n,
                   struct vp_err *err);
/* Waits until nothing is copied any more. One that is all zero is fine. */
void vp_volume_close(struct vp_volume *v);

/* Add what the views see: the adjoint of projecting, but for the weight. Views come in increasing order, or in that of
 * the slabs' plans (vp_slab_plan); to each slab those of its job. The samples must stay as they are until
 * vp_volume_wait has returned for `ticket`, of v->slabs entries. vp_adjoint_end: those were all; the next view may
 * be any, and is added to what there is. */
int vp_adjoint(const struct vp_projections *views, struct vp_volume *v, enum vp_weight weight, uint64_t *ticket,
               struct vp_err *err);
int vp_volume_wait(struct vp_volume *v, const uint64_t *ticket, struct vp_err *err);
int vp_adjoint_end(struct vp_volume *v, struct vp_err *err);

/* While no views come: slices [z, z + n) out and in, from slabs of different slices. */
int vp_volume_get(struct vp_volume *v, int64_t z, int64_t n, float *slices, struct vp_err *err);
int vp_volume_put(struct vp_volume *v, int64_t z, int64_t n, const float *slices, struct vp_err *err);
/* y = a x + b y, each product rounded, where the slabs of both are alike. x NULL: none; b 0: what y holds does not
 * count. */
int vp_volume_blend(struct vp_volume *y, float a, struct vp_volume *x, float b, struct vp_err *err);

#endif
