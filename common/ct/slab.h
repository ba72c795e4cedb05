/* SPDX-License-Identifier: BSD-3-Clause */
/* A slab of a volume on one device, to which views are back-projected, once or more often; what it holds stays until it
 * is closed. On the CPU it is ct/backproject.h; on devices with memory of their own it is made with the verbs of
 * device/device.h and their kernels (ct/slab_kernels.h). From one thread a slab and device at a time. */
#ifndef VP_SLAB_H
#define VP_SLAB_H

#include "ct/backproject.h"

struct vp_bp_stats {
    double kernel, filter;       /* seconds that the device back-projected and filtered; 0: not measured */
    double first, phase;         /* seconds from the call of open to the first kernel, to the end of the last */
    uint64_t uploaded, downloaded; /* bytes */
};

struct vp_backend;
enum { VP_SLAB_PARTS = 16 }; /* in which its slices leave, at most */

struct vp_slab;

/* What a slab takes; nothing stays allocated. VP_ERESOURCE where memory falls short. */
int vp_slab_plan(const struct vp_backend *backend, const struct vp_bp_job *job, struct vp_bp_plan *plan, struct vp_err *err);
int vp_slab_open(struct vp_slab **s, const struct vp_backend *backend, const struct vp_bp_job *job, struct vp_err *err);
/* n views from `first`, rows [v0, v1) of each (at least the plan's), one after the other. Views come in increasing
 * order, or in that of the plan. proj must stay as it is until wait has returned for *ticket. */
int vp_slab_add(struct vp_slab *s, int64_t first, int64_t n, int64_t v0, int64_t v1, const float *proj,
                uint64_t *ticket, struct vp_err *err);
int vp_slab_wait(struct vp_slab *s, uint64_t ticket, struct vp_err *err);
/* No more views come. Slices can be asked for; what is not ready is waited for, so begin with the lowest. Views that
 * come later are added to what there is. */
int vp_slab_flush(struct vp_slab *s, struct vp_err *err);
int vp_slab_slices(struct vp_slab *s, int64_t z, int64_t n, float *out, struct vp_err *err);
/* While no views come: set slices; or make the slab a x + keep times what it is, each product rounded, of another slab
 * of the same device, grid, slices and kernel (NULL: none; keep 0: what it holds does not count). What nothing was
 * added to is zero. */
int vp_slab_put(struct vp_slab *s, int64_t z, int64_t n, const float *slices, struct vp_err *err);
int vp_slab_blend(struct vp_slab *s, float a, struct vp_slab *x, float keep, struct vp_err *err);
bool vp_slab_has(const struct vp_slab *s, int64_t z);
bool vp_slab_wants(const struct vp_slab *s, int64_t view); /* as the job says */
/* After flush: slices are ready part by part, from part 0 on, and the one that slice z belongs to. */
int vp_slab_parts(const struct vp_slab *s);
int vp_slab_part_of(const struct vp_slab *s, int64_t z);
void vp_slab_stats(struct vp_slab *s, struct vp_bp_stats *stats); /* after the last slice */
void vp_slab_close(struct vp_slab *s); /* waits until nothing is copied any more. NULL is fine */

#endif
