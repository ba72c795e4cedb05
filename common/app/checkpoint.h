/* Checkpoints of an iteration: a stack of its volumes, one after the other, whose metadata hold the rest. */
#pragma once

#include "ct/iterate.h"

struct vp_run;

struct vp_checkpoint {
    struct vp_run *run;         /* its command line must stay the same, but for --iterations, --stop and files */
    const struct vp_grid *grid; /* size of the volumes */
    enum vp_iterate_method method;
    struct vp_share share;      /* ranks, each with a part of the slices of each volume; rank 0 writes. Zeros: one process */
    int64_t unit;               /* parts begin at multiples of it */
};

/* Replaces the file at `path` once it is complete. 0 or -1. Collective. */
int vp_checkpoint_save(const struct vp_checkpoint *c, const char *path, const struct vp_iterate_state *state,
                       struct vp_err *err);
/* Fills the state, of ranks its own slices, whose volumes are allocated. 1 or -1: VP_EUSAGE for a checkpoint of another run,
 * with what differs. */
int vp_checkpoint_load(const struct vp_checkpoint *c, const char *path, struct vp_iterate_state *state,
                       struct vp_err *err);
