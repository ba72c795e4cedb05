/* SPDX-License-Identifier: BSD-3-Clause */
/* A reconstruction run, shared by ct-backproject and ct-fdk: input, geometry, volume and output. */
#pragma once

#include "ct/reconstruct.h"
#include "ct/quantity.h"

struct vp_run;
struct vp_ranked;

struct vp_reconstruct_params {
    struct vp_projection_params projections;
    struct vp_range views;
    struct vp_grid_params grid;
    uint64_t device_memory;
    int64_t subsets;
};
extern const struct vp_opt vp_reconstruct_options[];

struct vp_session {
    struct vp_reader *reader;
    struct vp_views *source;
    struct vp_geom geom;
    struct vp_view *views;
    struct vp_scan scan;
    struct vp_grid grid;
    int *devices;
    struct vp_reconstruct job;
    struct vp_reconstruct_plan plan;
    struct vp_ranked *ranked; /* set before open if this is one of several ranks (app/ranked.h); NULL: one process */
};

/* Opens the operands, whose samples must be compatible with `need`, and fills `s` (zero it first). */
int vp_session_open(struct vp_session *s, struct vp_run *run, const struct vp_reconstruct_params *p, enum vp_need need,
                    struct vp_err *err);
/* Filters the input, between open and run; the session owns and closes the filter and job.normalize. */
int vp_session_filter(struct vp_session *s, const struct vp_filter_params *p, enum vp_filter_on on,
                      struct vp_err *err);
/* Plan, show the plan, and unless that is all, reconstruct into the output. */
int vp_session_run(struct vp_session *s, struct vp_run *run, struct vp_err *err);
/* The same with the exact transpose of ct-project in place of FDK's weight (ct/adjoint.h). */
int vp_session_adjoint(struct vp_session *s, struct vp_run *run, struct vp_err *err);
/* Reconstructs the slices of the job into their place in a whole volume, nx x ny a slice. The reader stays open. */
int vp_session_fill(struct vp_session *s, struct vp_run *run, float *x, struct vp_err *err);
/* Adds the plan to the report and the statistics. */
void vp_session_show(const struct vp_session *s, struct vp_run *run);
/* Warns of truncated rows, if there are enough of them. */
void vp_session_truncated(const struct vp_session *s, struct vp_run *run, const struct vp_truncation *seen);
/* The header of slices [z0, z1) of the volume, with this run's history. */
int vp_session_header(const struct vp_session *s, const struct vp_run *run, int64_t z0, int64_t z1,
                      struct vp_stack *out,
                      struct vp_err *err);
/* Makes the header of slices [z0, z1) of a volume: the metadata of the projections without the keys that describe
 * projections. */
int vp_session_volume(const struct vp_reader *reader, const struct vp_grid *grid, int64_t z0, int64_t z1,
                      struct vp_stack *out, struct vp_err *err);
void vp_session_close(struct vp_session *s);
