/* SPDX-License-Identifier: BSD-3-Clause */
/* A session (app/session.h) that is one of several ranks: the same input, geometry and volume on each; this one's
 * part of the work, and of the file. */
#ifndef VP_RANKED_H
#define VP_RANKED_H

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

/* The rest of the run, of which all ranks know whether it has come so far (rc, *err): plan, show the plan, reconstruct,
 * write. 0; -1 where this rank has to say what is in *err; or an exit status where another one says it. */
int vp_ranked_run(struct vp_ranked *r, struct vp_session *s, struct vp_run *run, int rc, struct vp_err *err);
void vp_ranked_close(struct vp_ranked *r);

#endif
