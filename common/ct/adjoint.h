/* SPDX-License-Identifier: BSD-3-Clause */
/* The transpose of a projection (ct/pair.h) of a whole scan: views stream in, slices of a volume out. */
#pragma once

#include "ct/pair.h"

struct vp_err;
struct vp_progress;
struct vp_stats;
struct vp_writer;

struct vp_adjoint {
    struct vp_pair_place place;
    const struct vp_projections *scan; /* samples from its source */
    const struct vp_grid *grid;
    int64_t z0, z1;             /* slices [z0, z1) */
    int64_t first, last;        /* views [first, last) */
    struct vp_writer *writer;
    struct vp_pair *pair;       /* vp_adjoint_plan() opens it, vp_pair_close() closes it */
    int64_t block;              /* views that it takes at once */
    int threads;
    struct vp_stats *stats;
    struct vp_progress *progress;
    int64_t bad;                /* out: NaN and infinite samples */
};

/* Plans where to work, and the views at once, in `memory` bytes. 0 or -1. */
int vp_adjoint_plan(struct vp_adjoint *a, uint64_t memory, struct vp_err *err);
/* Return the bytes that a planned one takes, and those that are copied to and from devices. */
uint64_t vp_adjoint_bytes(const struct vp_adjoint *a);
double vp_adjoint_traffic(const struct vp_adjoint *a);
/* Sums all views and writes the slices, as planned. The bits of a voxel depend on the views, not on slices or threads. 0 or -1. */
int vp_adjoint_run(struct vp_adjoint *a, struct vp_err *err);
