/* What the plan of a reconstruction (reconstruct_plan.c) and its stages share: passes (reconstruct.c), views in
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

/* Views a batch (a device wants pieces that are worth a copy and all threads, but short ones, for the first has to come
 * before anything else can begin), and buffers of views and of slices: how many. `wide`: of views that the host filters
 * into longer rows. */
struct vp_reconstruct_buffers {
    int least, most, in, wide, out;
    int64_t width; /* columns of the views that come in */
};
struct vp_reconstruct_buffers vp_reconstruct_buffers(const struct vp_reconstruct_plan *p);

/* Share `slices` out to n crews in whole units, in proportion to their speed and at most `most` to each, so that the
 * slowest is done as early as can be. Sets `depth`; returns the units that nobody has room for. */
int64_t vp_reconstruct_share(struct vp_crew *crew, int n, int64_t slices, int64_t unit);

/* Slices that are still to be made: [lo, hi), of the lower half if slabs are mirrored. */
struct vp_reconstruct_domain {
    int64_t lo, hi;
};
struct vp_reconstruct_domain vp_reconstruct_domain(const struct vp_reconstruct_plan *p);
struct vp_bp_job vp_reconstruct_job(const struct vp_reconstruct_plan *p, const struct vp_bp_part *part);

/* ---- the stages ---- */

/* Slots are kept from one pass to the next, and to the end: to free memory that a device copies from, it would have to
 * stop. `wide`: views that the host filters into longer rows. `partial`: slices of the second and later subsets. */
struct vp_stages_buffers {
    float *in[VP_RECONSTRUCT_SLOTS], *wide[VP_RECONSTRUCT_SLOTS];
    float *partial[VP_RECONSTRUCT_DEVICES]; /* of p->group slices each */
};

/* A reader thread fills slots with batches of views. */
struct vp_stages_source {
    int64_t v0, v1; /* rows that are read */
    struct vp_ring ring;
    int64_t first[VP_RECONSTRUCT_SLOTS];
    int count[VP_RECONSTRUCT_SLOTS];
    bool count_bad;  /* the first pass counts, the others see the same samples */
    double begun, done; /* when the first view was there, and the last */
    struct vp_thread thread;
};

/* p->group slices for the writer. */
struct vp_stages_filled {
    float *slices;
    int count;
    int64_t page; /* of the first */
};

/* A writer thread empties slots of slices, pass after pass. */
struct vp_stages_sink {
    struct vp_writer *writer;
    struct vp_ring ring;
    struct vp_stages_filled *slot; /* p->out_slots, in any order if `any_order` */
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
    uint64_t ticket[VP_RECONSTRUCT_SLOTS][VP_RECONSTRUCT_DEVICES]; /* of the views in each slot, */
    double took[VP_RECONSTRUCT_DEVICES]; /* and what the kernels of each took in the last pass; 0: not measured */
    struct vp_stages_buffers buffers;
    struct vp_stages_source source;
    struct vp_thread maker; /* makes the slots of the output while views are worked on, */
    atomic_bool made;       /* until all are */
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

/* Start the reader thread. `now` to stop it: do not wait for views that are not wanted any more; the reader may wait
 * for a pipe that has nothing to say. */
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
