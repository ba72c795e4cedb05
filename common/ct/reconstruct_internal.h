/* SPDX-License-Identifier: BSD-3-Clause */
/* The stages of a reconstruction: views in and the passes (reconstruct.c), and slices out (reconstruct_store.c). */
#pragma once

#include "base/ring.h"
#include "ct/reconstruct.h"
#include "device/device.h"
#include "engine/thread.h"

#include <stdatomic.h>

/* Views [first, first + n), and their opposite ones. `wide`: those that the host filters into longer rows. */
struct vp_stages_batch {
    int64_t first;
    int n;
    float *in, *wide;
    uint64_t ticket[VP_RECONSTRUCT_DEVICES];
};

/* Slices [z, z + count) for the writer; p->group at most. */
struct vp_stages_slices {
    float *slices;
    int count;
    int64_t z;
};

struct vp_stages {
    const struct vp_reconstruct *r;
    const struct vp_reconstruct_plan *p; /* plan of this pass: that of the beginning, or `own` */
    struct vp_reconstruct_plan own;
    struct vp_reconstruct_buffers need;
    struct vp_reconstruct_result *result;
    struct vp_projector *projector;      /* projector and slabs of the pass: one for each part of the plan */
    struct vp_volume volume;
    double took[VP_RECONSTRUCT_DEVICES]; /* seconds of the kernels of each in the last pass; 0: not measured */

    /* Views in. Slots, of views and of slices, are kept from one pass to the next, and to the end: to free memory that
     * a device copies from, it would have to stop. */
    struct vp_thread reader;
    struct vp_ring views;
    struct vp_stages_batch batch[VP_RECONSTRUCT_SLOTS];
    int64_t v0, v1;   /* rows that are read */
    int64_t run_views; /* views that are projected back before their opposite ones */
    bool count_bad;   /* in the first pass; the others see the same samples */

    /* Slices out. */
    struct vp_thread maker; /* makes their first slots while views are worked on, */
    atomic_bool made;       /* until all views are in the slabs */
    struct vp_thread storer;
    struct vp_volume *out;
    struct vp_ring slices;
    struct vp_stages_slices *filled;        /* p->out_slots of them */
    int64_t stored;                         /* slots that were filled, in turn, */
    _Atomic int64_t written;                /* and those that the writer is done with */
    bool any_order;                         /* slices leave in any order */
    float *partial[VP_RECONSTRUCT_DEVICES]; /* p->group slices each, of the second and later subsets */
    atomic_bool failed;

    /* Times of the start, of the start of the pass, of its first and last view and first kernel; seconds of all passes.
     * */
    double begun, start, first_view, last_view, first_kernel, busy;
    struct vp_bp_stats sum;
};

static inline bool vp_stages_on_host(const struct vp_stages *w)
{
    return w->r->backend->on_host;
}

/* Adds the time since then to a stage's; returns the time now. */
double vp_stages_lap(const struct vp_stages *w, const char *stage, double since);
/* Allocates a buffer of floats that the devices copy fast from and to, unless it exists. VP_ERESOURCE. */
int vp_stages_take(const struct vp_stages *w, float **p, uint64_t count, const char *what, struct vp_err *err);
/* Makes a device current: page-locked memory belongs to that of the thread that allocates it. */
void vp_stages_join_device(const struct vp_stages *w);
/* Starts a thread at one end of a ring. */
int vp_stages_start(struct vp_stages *w, struct vp_thread *t, struct vp_ring *ring, int slots,
                    int (*work)(void *, struct vp_err *), struct vp_err *err);

/* Allocates the first slots of slices, until `made`: the work of a thread. */
int vp_stages_make_slots(void *stages, struct vp_err *err);
/* Passes all slices of a pass to the writer thread, which it starts. */
int vp_stages_store(struct vp_stages *w, struct vp_err *err);
