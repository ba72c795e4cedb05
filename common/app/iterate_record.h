/* SPDX-License-Identifier: BSD-3-Clause */
/* Records of an iterative reconstruction while it runs: history, pictures, checkpoints, statistics. */
#pragma once

#include "app/checkpoint.h"

#include <stdio.h>

struct vp_iterate_inputs;

struct vp_iterate_record_params {
    const char *history, *preview, *checkpoint, *resume; /* paths; NULL: none */
    int64_t every;              /* iterations between checkpoints */
};

struct vp_iterate_record {
    const struct vp_iterate_record_params *params;
    const struct vp_iterate_inputs *in; /* run, job, volume */

    struct vp_checkpoint checkpoint;
    FILE *history;
    double *residuals, *objectives;
    int64_t lines, room;
};

/* Sets the calls of the job for each iteration and for a checkpoint to resume. The record must stay in place. */
void vp_iterate_record_start(struct vp_iterate_record *r);
/* Creates the history. 0 or -1. */
int vp_iterate_record_open(struct vp_iterate_record *r, struct vp_err *err);
/* Adds the run, which has ended well, to the statistics. */
void vp_iterate_record_report(const struct vp_iterate_record *r);
/* Frees, and closes the history. Returns rc, or -1 if that fails. */
int vp_iterate_record_close(struct vp_iterate_record *r, int rc, struct vp_err *err);
