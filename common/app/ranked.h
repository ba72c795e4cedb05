/* SPDX-License-Identifier: BSD-3-Clause */
/* A session (app/session.h) on one of several ranks: the same input, geometry and volume on each; a part of the work,
 * and of the output file. */
#pragma once

#include "ct/mesh.h"
#include "ct/share.h"

struct vp_ranks;
struct vp_backend;
struct vp_pair_place;
struct vp_reader;
struct vp_run;
struct vp_session;
struct vp_stack;
struct vp_writer;

struct vp_ranked_params {
    struct vp_size grid;
    int64_t ranks;
    const char *model;
    int gather;       /* auto, yes, no */
    bool slab_files;
};
extern const struct vp_opt vp_ranked_options[];
extern const struct vp_opt vp_ranks_option[]; /* only the field `ranks`: VP_OPTIONS(P, ranked.ranks, vp_ranks_option) */

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
/* Chooses this rank's devices among those that it found, *own of them from *first on: ranks of a host that see the same share
 * them, and their memory (*memory, 0: no limit is given). backend NULL: none. Collective, with rc and *err as above; 0 or
 * -1. */
int vp_ranked_devices(struct vp_ranked *r, const struct vp_backend *backend, const int *devices, int *own, int *first,
                      uint64_t *memory, int rc, struct vp_err *err);
/* The same for the devices of a session that it opened alone. */
int vp_ranked_session(struct vp_ranked *r, struct vp_session *s, int rc, struct vp_err *err);
/* The following are for programs that divide items (ct/share.h). r NULL: one process, nothing is collective. */
struct vp_share vp_ranked_share(const struct vp_ranked *r);
/* True for the rank that writes files and reports. */
bool vp_ranked_leads(const struct vp_ranked *r);
/* Rejects an input that ranks cannot read parts of. */
int vp_ranked_file(const struct vp_ranked *r, const struct vp_reader *reader, struct vp_err *err);
/* Chooses this rank's devices for the pair. Collective, with rc and *err as in vp_ranked_run(); 0 or -1 on all. */
int vp_ranked_place(struct vp_ranked *r, struct vp_pair_place *place, int rc, struct vp_err *err);
/* Ends a step of all ranks that may have failed on some: 0 or -1 on all. Collective. */
int vp_ranked_together(struct vp_ranked *r, int rc, struct vp_err *err);
/* The same after work in which ranks wait for messages of each other, which is stopped on all if it has failed on one. */
int vp_ranked_worked(struct vp_ranked *r, int rc, struct vp_err *err);
/* Opens the output on the first rank. Collective, with rc and *err as in vp_ranked_run(); 0 or -1 on all. */
int vp_ranked_output(struct vp_ranked *r, struct vp_run *run, const struct vp_stack *out, struct vp_writer **writer, int rc,
                     struct vp_err *err);
/* Adds to the plan how many ranks there are, and which of n items ("slices") are those of each. */
void vp_ranked_plan(const struct vp_ranked *r, struct vp_run *run, const char *items, int64_t n, int64_t unit);
/* Adds the ranks to the statistics. */
void vp_ranked_count_in(const struct vp_ranked *r, struct vp_run *run);
/* Closes the input and the output as vp_close() does, and ends the run with vp_ranked_end() if that or `rc`, on which all have
 * agreed, is a failure. */
int vp_ranked_close_output(struct vp_ranked *r, struct vp_run *run, struct vp_reader *reader, struct vp_writer *writer, int rc,
                           struct vp_err *err);
/* Ends a run in which vp_ranked_together() or another collective function has failed, after its outputs are discarded: one rank
 * reports. Returns the exit status, or -1 if this process is alone. */
int vp_ranked_end(struct vp_ranked *r, struct vp_run *run, struct vp_err *err);
void vp_ranked_close(struct vp_ranked *r);
