/* SPDX-License-Identifier: BSD-3-Clause */
/* Inputs of an iterative reconstruction: projections, weights of pixels, the initial volume and the mask. */
#pragma once

#include "geom/geom.h"
#include "base/opt.h"
#include "ct/projections.h"

struct vp_err;
struct vp_iterate;
struct vp_reader;
struct vp_ranked;
struct vp_run;
struct vp_stack;
struct vp_views;
struct vp_writer;

struct vp_iterate_input_params {
    struct vp_projection_params projections;
    struct vp_range views;
    struct vp_grid_params grid;
    int64_t margin;             /* slices at both ends; -1: those that rays need */
    const char *pixel_weights, *dead, *mask, *initial; /* NULL: none */
};

struct vp_iterate_inputs {
    const struct vp_iterate_input_params *params;
    struct vp_run *run;
    struct vp_iterate *job;     /* gets the inputs; has the share of this rank */
    struct vp_ranked *ranked;   /* NULL: one process */

    struct vp_reader *reader, *weights, *dead, *mask, *initial;
    struct vp_views *source, *weight_views;
    struct vp_geom geom;
    struct vp_view *views;
    struct vp_scan scan;
    struct vp_grid grid;        /* with the margin */
    int64_t below, slices;      /* the result is slices [below, below + slices) */
    struct vp_projections projections;
    uint64_t kept;              /* bytes of views of a pipe that are read again */
    uint64_t bytes;             /* bytes that they take beside volumes */
    float *x, *pixels, *mask_samples;
};

/* Checks their options, opens them and checks their sizes; sets the views, the grid and the projections of the job. 0 or -1. */
int vp_iterate_inputs_open(struct vp_iterate_inputs *in, struct vp_err *err);
/* Computes `kept` and `bytes`, once the method is set. */
void vp_iterate_inputs_measure(struct vp_iterate_inputs *in);
/* Makes the header of the result. 0 or -1. */
int vp_iterate_inputs_header(const struct vp_iterate_inputs *in, struct vp_stack *out, struct vp_err *err);
/* Reads weights, mask and initial volume into memory, and the views of a pipe that are read again. 0 or -1. Collective. */
int vp_iterate_inputs_load(struct vp_iterate_inputs *in, struct vp_err *err);
/* Writes the result by the writer of the first rank. 0 or -1. Collective. */
int vp_iterate_inputs_write(const struct vp_iterate_inputs *in, struct vp_writer *writer, struct vp_err *err);
/* Closes all but the reader of the projections, and frees; if not all went well without the volume, in which messages of other
 * ranks may still arrive. */
void vp_iterate_inputs_close(struct vp_iterate_inputs *in, bool well);
