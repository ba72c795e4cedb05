/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels that a device other than the host offers to projectors (ct/projector.h), found by name in
 * vp_backend.kernels(): "backproject" and "filter". Functions work on a queue and in memory of the device that they are
 * given, and return 0 or -1.
 *
 * Back-projection with FDK's weight: vol(i, j, k) += sum over views of q(u, v) / w^2, bilinear in q, zero outside the
 * detector and where w <= 1 / 1024, with (u w, v w, w) = P (i, j, k, 1). Views pass through a packed buffer of `slots`
 * slots: pack() fills slots, run() adds them to the volume. A slot holds what the kernel works on at once, an orbit:
 * one view, or, if the plan has opposite views, views o and o + plan.opposite.
 *
 * Orbits are added in the order in which run() is called, so a voxel's bits depend neither on the slab nor on how the
 * orbits are cut into calls. They do depend on the kernel (plan.kernel): devices of one architecture agree.
 *
 * A slab lies in device memory slice after slice, nx x ny samples each: [z0, z1), and if the job is mirrored then those
 * of [nz - z1, nz - z0) that are not among them (ct/volume.h). */
#pragma once

#include "ct/backproject.h"

struct vp_queue;
struct vp_devbp;
struct vp_devfilter;

struct vp_backproject_kernels {
    /* Chooses the kernel by the matrices and the device: kernel, v0 and v1 (counted with the job's margin), opposite,
     * batch, z_step, mirror, slot and fixed of the plan. Allocates nothing that stays. */
    int (*plan)(const struct vp_bp_job *job, struct vp_bp_plan *plan, struct vp_err *err);
    /* `packed` (job->slots slots) and `fixed`: device memory aligned to VP_ALIGN, which may hold anything. *job and
     * what it points to stay. Everything is queued on `queue`. */
    int (*open)(struct vp_devbp **b, const struct vp_bp_job *job, void *packed, void *fixed, struct vp_queue *queue,
                struct vp_err *err);
    /* Queues the packing of n filtered views in device memory, rows [v0, v1) of each (at least the plan's, counted with
     * the margin), row major. `q` holds views first .. first + n - 1; with pairs `opposite` holds the views opposite to
     * them; either may be NULL, both at once are fastest. Orbit o lies in slot o % slots. 0 <= first, first + n <=
     * orbits, n <= slots. */
    int (*pack)(struct vp_devbp *b, int64_t first, int64_t n, int64_t v0, int64_t v1, const float *q,
                const float *opposite, struct vp_err *err);
    /* Queues the back-projection of n packed orbits, in increasing order, into part `part` of `parts` of the slab in
     * `volume`, which are numbered from its lowest slices on (0 of 1: all of it): its slices are then complete while
     * others are worked on. `set`: the part holds nothing yet (beta = 0). */
    int (*run)(struct vp_devbp *b, float *volume, int64_t first, int64_t n, int part, int parts, bool set,
               struct vp_err *err);
    /* Returns the number of parts to use, at most `most`; and the part that slice z of the slab belongs to. */
    int (*parts)(const struct vp_devbp *b, int most);
    int (*part_of)(const struct vp_devbp *b, int64_t z, int parts);
    void (*close)(struct vp_devbp *b); /* once nothing of it is queued any more */
};

/* The filter of ct/filter.h: the same weights, the same kernel (taps, not only its shape). A row's bits depend on
 * nothing but that row; they differ from the CPU's by less than 5e-7 (relative L2). */
struct vp_filter_kernels {
    /* Plans the filter on the device; allocates nothing there. Fails where rows are too long for its shared memory
     * (with their padding 16384 samples fit on most cards, 8192 on all): filter on the CPU then. */
    int (*plan)(const struct vp_filter *host, int device, struct vp_devfilter_plan *plan, struct vp_err *err);
    /* Tables into `memory`, plan.bytes of the device, aligned to VP_ALIGN. Call it after vp_filter_widen, if that is
     * called at all. `host` may be closed afterwards. Everything is queued on `queue`. */
    int (*open)(struct vp_devfilter **f, const struct vp_filter *host, int device, void *memory,
                struct vp_queue *queue, struct vp_err *err);
    /* Queues the filter: n views from view `first` of the scan, rows [v0, v1) of each. `in` and `out` are device
     * memory: in is n x (v1 - v0) x nu, out is n x (v1 - v0) x nu_out; they may be the same if nu_out = nu, and must
     * not overlap otherwise. Samples that are not finite count as 0. */
    int (*run)(struct vp_devfilter *f, int64_t first, int64_t n, int64_t v0, int64_t v1, const float *in, float *out,
               struct vp_err *err);
    void (*close)(struct vp_devfilter *f); /* once nothing of it is queued any more */
};
