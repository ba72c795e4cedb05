/* SPDX-License-Identifier: BSD-3-Clause */
/* A projector between a volume and the projections of a scan: views, batch after batch, are projected back to the slabs
 * of a volume, each on a device, with FDK's weight (the kernels "backproject"; ct/backproject.h on the CPU). Plans,
 * rings of views and the order of the work belong to the projector, voxels to the volume: it serves any volume whose
 * slabs are those of its jobs, one after the other. All from one thread, but for slices of different slabs.
 *
 *     open, vp_volume_open, begin(VP_SET), back, back, ..., end, slices
 */
#pragma once

#include "ct/volume.h"

struct vp_bp_stats {
    double kernel, filter;       /* seconds that the device back-projected and filtered; 0: not measured */
    double first, phase;         /* seconds from the call of open to the first kernel, and to the end of the last */
    uint64_t uploaded, downloaded; /* bytes */
};

enum { VP_BP_PARTS = 16 }; /* parts in which the slices of a slab are finished, at most */

/* y = A'x, or y += A'x. */
enum vp_projector_mode { VP_SET, VP_ADD };

struct vp_projector;

/* Plans one slab: its kernel and all that it takes. Nothing stays allocated. VP_ERESOURCE if memory falls short. */
int vp_projector_plan(const struct vp_backend *backend, const struct vp_bp_job *job, struct vp_bp_plan *plan,
                      struct vp_err *err);
/* Opens one for the slabs of n jobs, side by side. The jobs' grid, projections and filter stay the caller's. */
int vp_projector_open(struct vp_projector **p, const struct vp_backend *backend, const struct vp_bp_part *part, int n,
                      struct vp_err *err);
/* Begins: views that follow are projected back to v, an open volume of the same jobs, which stays until the projector
 * is closed or begins another. Any view may be the first. */
int vp_projector_begin(struct vp_projector *p, struct vp_volume *v, enum vp_projector_mode mode, struct vp_err *err);
/* Projects views back to all slabs whose jobs want them; rows [v0, v1) are at least those of the plans. They come in
 * increasing order, or in that of the plans. The samples stay as they are until vp_projector_wait() has returned for
 * `ticket`, n numbers. */
int vp_projector_back(struct vp_projector *p, const struct vp_batch *views, uint64_t *ticket, struct vp_err *err);
int vp_projector_wait(struct vp_projector *p, const uint64_t *ticket, struct vp_err *err);
/* Finishes the views. After it slices can be read, and another begin follows. */
int vp_projector_end(struct vp_projector *p, struct vp_err *err);
/* Copies slices [z, z + n) of slab i to the host, once they are complete: the lowest are so first. */
int vp_projector_slices(struct vp_projector *p, int i, int64_t z, int64_t n, float *slices, struct vp_err *err);
/* Returns the parts in which slab i is finished, from part 0 on, and the part that slice z belongs to. */
int vp_projector_parts(const struct vp_projector *p, int i);
int vp_projector_part_of(const struct vp_projector *p, int i, int64_t z);
void vp_projector_stats(struct vp_projector *p, int i, struct vp_bp_stats *stats); /* after the last slice */
void vp_projector_close(struct vp_projector *p); /* waits until nothing is queued any more. NULL is fine */
