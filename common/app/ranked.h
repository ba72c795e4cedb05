/* SPDX-License-Identifier: BSD-3-Clause */
/* A session (app/session.h) on one of several ranks: the same input, geometry and volume on each; a part of the work,
 * and of the output file. */
#pragma once

#include "ct/mesh.h"

struct vp_ranks;
struct vp_run;
struct vp_session;
struct vp_stack;

struct vp_ranked_params {
    struct vp_size grid;
    int64_t ranks;
    const char *model;
    int gather;       /* auto, yes, no */
    bool slab_files;
};
extern const struct vp_opt vp_ranked_options[];

struct vp_ranked;

/* Finds the other ranks, before the input is opened. *r stays NULL if this process is alone and no plan for several is
 * requested. Threads and memory without a number on the command line are shared with the other ranks of the host.
 * Returns what vp_ranked_run() does. */
int vp_ranked_open(struct vp_ranked **r, struct vp_run *run, const struct vp_ranked_params *p, struct vp_err *err);
/* Returns the number of ranks. NULL: one. */
int vp_ranked_count(const struct vp_ranked *r);
/* Checks that all ranks can read the input. NULL is fine. */
int vp_ranked_input(const struct vp_ranked *r, const struct vp_run *run, struct vp_err *err);

/* Plans, shows the plan, reconstructs and writes. Collective: all ranks learn whether each has come this far (rc,
 * *err). 0; -1 if this rank reports *err; or an exit status if another rank reports. */
int vp_ranked_run(struct vp_ranked *r, struct vp_session *s, struct vp_run *run, int rc, struct vp_err *err);
void vp_ranked_close(struct vp_ranked *r);
