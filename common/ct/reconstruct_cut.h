/* The parts of a pass: which crew of devices makes which slices from which views, in what batches, and what that takes.
 * For the plan (reconstruct_plan.c), which looks for the best of them. */
#ifndef VP_RECONSTRUCT_CUT_H
#define VP_RECONSTRUCT_CUT_H

#include "ct/reconstruct_internal.h"

/* At least; once slices were made they stay as they are, for the writer may be at work on them. */
int vp_cut_out_slots(const struct vp_reconstruct_plan *p);
/* Enough to write in large pieces, but only a small part of the memory, which the volume needs. */
int64_t vp_cut_group(const struct vp_reconstruct_plan *p);
/* Views a batch, at most: a device wants pieces that are worth a copy and all threads, but short ones, for the first
 * has to come before anything else can begin. */
int vp_cut_largest_batch(const struct vp_reconstruct_plan *p);
int vp_cut_smallest_batch(const struct vp_reconstruct_plan *p);
struct vp_bp_part vp_cut_part(const struct vp_reconstruct_plan *p, int crew, int subset, int64_t z0, int64_t z1);
/* Devices are asked side by side: each takes a while to answer. */
int vp_cut_ask(struct vp_reconstruct_plan *p, struct vp_bp_part *part, int n, struct vp_err *err);
/* All parts of the pass, with what each takes. */
int vp_cut_place(struct vp_reconstruct_plan *p, struct vp_err *err);
/* Whole units that a crew can make: the last one may be cut short by the end of the volume. */
int64_t vp_cut_units(const struct vp_crew *crew, int64_t slices, int64_t unit);
/* The devices in crews of `subsets`, of which every one could make all slices. */
void vp_cut_muster(struct vp_reconstruct_plan *p, const struct vp_crew *device, int subsets);
/* Slabs for one pass (or a part of it) from the crews' shares of `slices`. */
void vp_cut(struct vp_reconstruct_plan *p, int64_t slices, int64_t unit);
/* Share the slices of the next pass out by what each crew took for its slab of the last one. */
void vp_cut_again(struct vp_reconstruct_plan *p, const struct vp_reconstruct_plan *before, const double *took);
/* What a pass with these parts takes, into p->bytes and p->device_bytes. The devices' share counts only against what is
 * free there. */
void vp_cut_count(struct vp_reconstruct_plan *p, const struct vp_bp_part *part, int n);
bool vp_cut_fits(const struct vp_reconstruct_plan *p);
/* The slabs as they are cut: 1 if they fit, 0 if not, -1 on errors. */
int vp_cut_check(struct vp_reconstruct_plan *p, struct vp_err *err);
/* The numbers of the last count against their limits. */
int vp_cut_too_large(const struct vp_reconstruct_plan *p, const char *what, struct vp_err *err);

#endif
