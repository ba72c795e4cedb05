/* What the plan of a reconstruction (reconstruct_plan.c) and its stages (reconstruct.c) share. */
#ifndef VP_RECONSTRUCT_INTERNAL_H
#define VP_RECONSTRUCT_INTERNAL_H

#include "device/device.h"
#include "ops/slab.h"
#include "ops/reconstruct.h"

enum { VP_RECONSTRUCT_SLOTS = 6 }; /* of the ring of views, at most */

/* What one device makes in a pass: a slab, from a subset of the views. */
struct vp_bp_part {
    int device, subset;
    int64_t z0, z1;      /* slices (of the lower half, if mirrored) */
    int64_t first, last; /* views; of the first half of the scan, and their partners, if those come together */
    struct vp_bp_plan plan;
    struct vp_slab *slab;
    double began;                          /* to be opened */
    double took;                           /* seconds of its kernels, when it is done; 0: not measured */
    uint64_t ticket[VP_RECONSTRUCT_SLOTS]; /* of the views in each slot */
};

/* The devices that make one slab: as many as there are subsets of views. */
struct vp_crew {
    double speed;
    uint64_t free, total; /* bytes, of the device that has the least */
    int64_t most, depth;  /* slices a pass: that fit, and that it makes */
};

/* Devices with memory of their own work while the host goes on. */
bool vp_reconstruct_on_host(const struct vp_reconstruct *r);

/* Buffers: how many. `wide`: views that the host filters into longer rows. */
int vp_reconstruct_in_slots(const struct vp_reconstruct *r);
int vp_reconstruct_wide_slots(const struct vp_reconstruct *r);

/* Share `slices` out to n crews in whole units, in proportion to their speed and at most `most` to each, so that the
 * slowest is done as early as can be. Sets `depth`; returns the units that nobody has room for. */
int64_t vp_reconstruct_share(struct vp_crew *crew, int n, int64_t slices, int64_t unit);

/* Slices that are still to be made: [*lo, *hi), of the lower half if slabs are mirrored. */
void vp_reconstruct_domain(const struct vp_reconstruct *r, int64_t *lo, int64_t *hi);
/* Share the slices of the next pass out by what each crew took for its slab of the last one. */
void vp_reconstruct_share_again(struct vp_reconstruct *r);
/* r->part for the pass that begins with the first of them, each with its plan, and r->device_bytes. */
int vp_reconstruct_place(struct vp_reconstruct *r, struct vp_err *err);
struct vp_bp_job vp_reconstruct_job(const struct vp_reconstruct *r, const struct vp_bp_part *part);

#endif
