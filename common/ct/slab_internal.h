/* What a slab's plan (slab_plan.c) and the slab (slab.c) share. */
#ifndef VP_SLAB_INTERNAL_H
#define VP_SLAB_INTERNAL_H

#include "ct/slab.h"
#include "ct/slab_kernels.h"
#include "device/device.h"

/* What a slab takes of a device, and where. */
struct vp_slab_layout {
    struct vp_devbp_problem problem;
    struct vp_devbp_plan plan;
    struct vp_devfilter_plan filter;
    int64_t o0, o1;      /* orbits that come */
    int64_t run;         /* orbits from which on a run pays */
    int64_t slots;       /* orbits that are packed and not yet run, at most */
    int64_t v0, v1;      /* rows on the device */
    int64_t piece_views, pieces;
    uint64_t piece_bytes, wide_bytes, bytes;
    uint64_t room;       /* bytes that the device has */
};

/* Matrices of all views; malloc'd. */
double *vp_slab_matrices(const struct vp_bp_job *job, struct vp_err *err);
/* The problem as the kernels see it, and what it takes: rings as large as they are useful if there is room for them,
 * smaller ones otherwise. Pairs of views half a turn apart need the whole scan on the device if the views come in
 * increasing order; where it cannot hold them, or a part of the views is wanted, views go alone. */
int vp_slab_lay_out(const struct vp_kind *kind, const struct vp_bp_job *job, const double *P, struct vp_slab_layout *l,
                    struct vp_err *err);

#endif
