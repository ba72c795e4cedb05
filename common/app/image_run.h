/* SPDX-License-Identifier: BSD-3-Clause */
/* A chain of operations on open inputs: planned, shown or run, and the result written. */
#pragma once

#include "app/image.h"

/* Meaning of a result's samples relative to those of the input: determines the metadata `scale`. */
enum vp_values {
    VP_VALUES,      /* values of the same scale: smoothed, selected, interpolated */
    VP_DIFFERENCES, /* differences of such values, without offset */
    VP_SPREADS,     /* differences that are never negative */
    VP_SQUARES,     /* products of two differences */
    VP_NO_VALUES,   /* not on the scale */
};
struct vp_result {
    enum vp_values values;
    const char *quantity; /* replaces that of the metadata and removes its unit; "": unknown; NULL: unchanged */
};

/* Plans the chain (with --plan prints it and returns 0 without further work), opens the output, runs, closes
 * everything. If the number of planes is unknown (a pipe), the executor sets the stages' image[2] once it is known.
 * `result` describes the samples (NULL: same as the input's). Output samples have the last stage's `out` type,
 * converted back to i8 if i16 replaced it. */
int vp_images_run(struct vp_images *im, struct vp_run *run, struct vp_chain *chain, const struct vp_result *result,
                  struct vp_err *err);

/* Runs the images' own chain like that, unless a step before it failed (rc). Closes and frees the images; 0 or -1. */
int vp_images_end(struct vp_images *im, struct vp_run *run, int rc, const struct vp_result *result,
                  struct vp_err *err);

/* Makes a pass before the run, over seekable input only (VP_EUSAGE with a hint otherwise): calls `page` with the
 * chain's output pages (of its last type), or rows of them, in order. With --plan nothing is read, and `page` is not
 * called. */
int vp_images_scan(struct vp_images *im, struct vp_run *run, struct vp_chain *chain,
                   int (*page)(void *ctx, int64_t page, const void *samples, int64_t n, struct vp_err *err), void *ctx,
                   struct vp_err *err);

/* Statistics of all samples that an operation needs before it begins, from a separate pass over a seekable input. */

/* Computes the smallest and the largest finite sample of the first stack. -1: VP_EUSAGE with a hint (a pipe needs
 * --range LO,HI), VP_ERUN (no sample is finite). With --plan nothing is read, and range is unchanged. */
int vp_images_range(struct vp_images *im, struct vp_run *run, double range[2], struct vp_err *err);

/* Estimates the noise if no option gives it: the mean of the local variances (the finite ones) over all images. With
 * --plan nothing is read and it is -1, unknown. */
int vp_images_noise(struct vp_images *im, struct vp_run *run, const struct vp_footprint *f, double *noise,
                    struct vp_err *err);
