/* SPDX-License-Identifier: BSD-3-Clause */
/* Projections of a volume, by the pair of ct/pair.h, batch after batch to a stack; or the residual, measured projections
 * less those of the volume. */
#pragma once

#include "ct/pair.h"
#include "ct/share.h"

struct vp_err;
struct vp_progress;
struct vp_stats;
struct vp_writer;

struct vp_forward {
    struct vp_pair_place place;
    const struct vp_projections *scan; /* `source`: measured projections from which they are subtracted, or NULL */
    const struct vp_grid *grid;
    const float *volume;        /* slice after slice, 1/mm */
    int64_t first, last;        /* views [first, last) */
    double i0;                  /* 0: no noise; else photons a pixel */
    uint64_t seed;
    bool counts;                /* photons, not line integrals */
    bool sinograms;             /* pages are detector rows, else views */
    struct vp_writer *writer;
    struct vp_pair *pair;       /* vp_forward_plan() opens it, vp_pair_close() closes it */
    int64_t block;              /* views that it takes at once, */
    int64_t turn;               /* and all ranks together */
    struct vp_share share;      /* ranks: each projects a part of the views, the first one writes them */
    int threads;
    struct vp_stats *stats;
    struct vp_progress *progress;
    int64_t bad;                /* out: NaN and infinite samples of the measured projections */
};

/* Ranks call these functions together. */

/* Plans where to work, and the views at once, in `memory` bytes beside the volume. `held`: sinograms that are written in order.
 * 0 or -1. */
int vp_forward_plan(struct vp_forward *f, uint64_t memory, bool held, struct vp_err *err);
/* Return the bytes that a planned one takes beside the volume, and those of all ranks that are copied to and from devices. */
uint64_t vp_forward_bytes(const struct vp_forward *f, bool held);
double vp_forward_traffic(const struct vp_forward *f);
/* Projects all views to the writer, as planned. 0 or -1. */
int vp_forward_run(struct vp_forward *f, struct vp_err *err);
