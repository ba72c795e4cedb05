/* What the plan of a reconstruction (reconstruct_plan.c) and its stages (reconstruct.c) share. */
#ifndef VP_RECONSTRUCT_INTERNAL_H
#define VP_RECONSTRUCT_INTERNAL_H

#include "device/device.h"
#include "ct/slab.h"
#include "ct/reconstruct.h"

enum { VP_RECONSTRUCT_SLOTS = 6 }; /* of the ring of views, at most */

/* What one device makes in a pass: a slab, from a subset of the views. */
struct vp_bp_part {
    int device, subset;
    int64_t z0, z1;      /* slices (of the lower half, if mirrored) */
    int64_t first, last; /* views; of the first half of the scan, and their partners, if those come together */
    struct vp_bp_plan plan;
};

/* The devices that make one slab: as many as there are subsets of views. */
struct vp_crew {
    double speed;
    uint64_t free, total; /* bytes, of the device that has the least */
    int64_t most, depth;  /* slices a pass: that fit, and that it makes */
};

/* Buffers: how many. `wide`: views that the host filters into longer rows. */
int vp_reconstruct_in_slots(const struct vp_reconstruct_plan *p);
int vp_reconstruct_wide_slots(const struct vp_reconstruct_plan *p);
int64_t vp_reconstruct_in_width(const struct vp_reconstruct_plan *p); /* columns of the views in a slot */

/* Share `slices` out to n crews in whole units, in proportion to their speed and at most `most` to each, so that the
 * slowest is done as early as can be. Sets `depth`; returns the units that nobody has room for. */
int64_t vp_reconstruct_share(struct vp_crew *crew, int n, int64_t slices, int64_t unit);

/* Slices that are still to be made: [*lo, *hi), of the lower half if slabs are mirrored. */
void vp_reconstruct_domain(const struct vp_reconstruct_plan *p, int64_t *lo, int64_t *hi);
struct vp_bp_job vp_reconstruct_job(const struct vp_reconstruct_plan *p, const struct vp_bp_part *part);

#endif
