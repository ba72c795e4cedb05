/* What the plan of a reconstruction (reconstruct_plan.c, reconstruct_cut.c) and its stages share: passes (reconstruct.c), views in
 * (reconstruct_views.c), slices out (reconstruct_slices.c). */
#ifndef VP_RECONSTRUCT_INTERNAL_H
#define VP_RECONSTRUCT_INTERNAL_H

#include "base/ring.h"
#include "ct/reconstruct.h"
#include "ct/volume.h"
#include "device/device.h"
#include "run/thread.h"

#include <stdatomic.h>

enum { VP_RECONSTRUCT_SLOTS = 6 }; /* of the ring of views, at most */

/* The devices that make one slab: as many as there are subsets of views. */
struct vp_crew {
    double speed;
    uint64_t free, total; /* bytes, of the device that has the least */
    int64_t most, depth;  /* slices a pass: that fit, and that it makes */
};

/* Views a batch (a device wants pieces that are worth a copy and all threads, but short ones, for the first has to come
 * before anything else can begin), and buffers of views and of slices: how many. */
struct vp_reconstruct_buffers {
    int least, most, in, out;
};
struct vp_reconstruct_buffers vp_reconstruct_buffers(const struct vp_reconstruct_plan *p);
int vp_reconstruct_wide_slots(const struct vp_reconstruct_plan *p); /* of views that the host filters into longer rows */
int64_t vp_reconstruct_in_width(const struct vp_reconstruct_plan *p); /* columns of the views in a slot */

/* Share `slices` out to n crews in whole units, in proportion to their speed and at most `most` to each, so that the
 * slowest is done as early as can be. Sets `depth`; returns the units that nobody has room for. */
int64_t vp_reconstruct_share(struct vp_crew *crew, int n, int64_t slices, int64_t unit);

/* Slices that are still to be made: [lo, hi), of the lower half if slabs are mirrored. */
struct vp_reconstruct_domain {
    int64_t lo, hi;
};
struct vp_reconstruct_domain vp_reconstruct_domain(const struct vp_reconstruct_plan *p);
struct vp_bp_job vp_reconstruct_job(const struct vp_reconstruct_plan *p, const struct vp_bp_part *part);

/* ---- the parts of a pass (reconstruct_cut.c): who makes which slices from which views, and what that takes ---- */

/* Slices that are copied together: enough to write in large pieces, but only a small part of the memory. */
int64_t vp_cut_group(const struct vp_reconstruct_plan *p);
struct vp_bp_part vp_cut_part(const struct vp_reconstruct_plan *p, int crew, int subset, int64_t z0, int64_t z1);
/* Devices are asked side by side: each takes a while to answer. */
int vp_cut_ask(struct vp_reconstruct_plan *p, struct vp_bp_part *part, int n, struct vp_err *err);
/* All parts of the pass, with what each takes. */
int vp_cut_place(struct vp_reconstruct_plan *p, struct vp_err *err);
/* Whole units that a crew can make: the last one may be cut short by the end of the volume. */
int64_t vp_cut_units(const struct vp_crew *crew, int64_t slices, int64_t unit);
/* The devices in crews of `subsets`, of which every one could make all slices. */
void vp_cut_muster(struct vp_reconstruct_plan *p, const struct vp_crew *device, int subsets);
/* Slabs for one pass (or a part of it) from the crews' shares of `slices`; again: by what each took for its last one. */
void vp_cut(struct vp_reconstruct_plan *p, int64_t slices, int64_t unit);
void vp_cut_again(struct vp_reconstruct_plan *p, const struct vp_reconstruct_plan *before, const double *took);
/* What a pass with these parts takes, into p->bytes and p->device_bytes, and whether that is there. */
bool vp_cut_fits(struct vp_reconstruct_plan *p, const struct vp_bp_part *part, int n);
/* The slabs as they are cut: 1 if they fit, 0 if not, -1 on errors. */
int vp_cut_check(struct vp_reconstruct_plan *p, struct vp_err *err);
/* The numbers of the last count against their limits. */
int vp_cut_too_large(const struct vp_reconstruct_plan *p, const char *what, struct vp_err *err);

/* ---- the stages ---- */

/* Slots are kept from one pass to the next, and to the end: to free memory that a device copies from, it would have to
 * stop. `wide`: views that the host filters into longer rows. `partial`: slices of the second and later subsets. */
struct vp_stages_buffers {
    float *in[VP_RECONSTRUCT_SLOTS], *wide[VP_RECONSTRUCT_SLOTS];
    float **out, **partial; /* of p->group slices each */
};

/* A reader thread fills slots with batches of views. */
struct vp_stages_source {
    int64_t v0, v1; /* rows that are read */
    struct vp_ring ring;
    int64_t first[VP_RECONSTRUCT_SLOTS];
    int count[VP_RECONSTRUCT_SLOTS];
    int partners[VP_RECONSTRUCT_SLOTS]; /* that many more follow, from view first + partner on */
    bool count_bad;  /* the first pass counts, the others see the same samples */
    double begun, done; /* when the first view was there, and the last */
    struct vp_thread thread;
};

/* A thread makes the slots of the output while views are worked on. */
struct vp_stages_maker {
    atomic_bool enough;
    struct vp_thread thread;
};

/* Slices for the writer. */
struct vp_stages_filled {
    const float *slices;
    int count;
    int64_t page; /* of the first */
};

/* A writer thread empties slots of slices, pass after pass. */
struct vp_stages_sink {
    struct vp_writer *writer;
    struct vp_ring ring;
    struct vp_stages_filled *slot; /* in any order if `any_order` */
    bool any_order;
    atomic_bool failed;
    struct vp_thread thread;
};

/* Of all passes. */
struct vp_stages_totals {
    struct vp_bp_stats sum;
    double start, busy, first_view, first_kernel, last_view;
};

struct vp_stages {
    const struct vp_reconstruct *r;
    const struct vp_reconstruct_plan *p; /* of this pass: that of the beginning, or `own` */
    struct vp_reconstruct_plan own;
    struct vp_reconstruct_result *result;
    struct vp_volume volume; /* what the pass makes: a slab for each part of its plan */
    uint64_t *ticket;      /* of the views in each slot, n_devices of each, */
    double *took;          /* and what the kernels of each took in the last pass; 0: not measured */
    struct vp_stages_buffers buffers;
    struct vp_stages_source source;
    struct vp_stages_maker maker;
    struct vp_stages_sink sink;
    struct vp_stages_totals all;
    int64_t together; /* views that are handed over before their partners */
    double start;     /* of the pass */
};

static inline bool vp_stages_on_host(const struct vp_stages *w)
{
    return w->r->kind->on_host;
}

/* A buffer that the devices copy fast from and to, and back. */
float *vp_stages_take(const struct vp_stages *w, uint64_t count, const char *what, struct vp_err *err);
void vp_stages_give_back(const struct vp_stages *w, float **p);
/* Page-locked memory belongs to the device of the thread that asks for it. */
void vp_stages_join_device(const struct vp_stages *w);

/* Start the reader thread. `now` to stop it: do not wait for views that are not wanted any more; the reader may wait for
 * a pipe that has nothing to say. */
int vp_stages_read(struct vp_stages *w, struct vp_err *err);
int vp_stages_stop_reading(struct vp_stages *w, bool now, struct vp_err *err);
/* All views through the stages into the slabs of one pass. */
int vp_stages_accumulate(struct vp_stages *w, struct vp_err *err);

/* A slot of the output, if it is not there. */
int vp_stages_output(const struct vp_stages *w, float **slot, struct vp_err *err);
/* All slices of a pass to the writer thread; and wait for what is still to be written. */
int vp_stages_store(struct vp_stages *w, struct vp_err *err);
int vp_stages_finish(struct vp_stages *w, struct vp_err *err);

#endif
