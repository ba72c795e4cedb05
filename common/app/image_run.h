/* SPDX-License-Identifier: BSD-3-Clause */
/* A chain of operations on open inputs: planned, shown or run, and the result written. */
#ifndef VP_IMAGE_RUN_H
#define VP_IMAGE_RUN_H

#include "app/image.h"

/* What the samples of a result are, beside those they are made of: what becomes of the metadata `scale`. */
enum vp_values {
    VP_VALUES,      /* such values: smoothed, one of them, between them */
    VP_DIFFERENCES, /* of such values: an offset is gone */
    VP_SPREADS,     /* never negative ones */
    VP_SQUARES,     /* of differences */
    VP_NO_VALUES,   /* a scale says nothing of them */
};
struct vp_result {
    enum vp_values values;
    const char *quantity; /* replaces the metadata's, and its unit goes; "": nobody knows what it is; NULL: it stays */
};

/* Plan the chain (show it for --plan: then 0 is returned and nothing was done), open the output, run, close
 * everything. Where the number of planes is unknown (a pipe) the executor sets the stages' image[2] when it knows.
 * `result` says what the samples are now (NULL: what the input's were). Output samples are the last stage's `out`,
 * converted back to i8 where i16 stood in for it. */
int vp_images_run(struct vp_images *im, struct vp_run *run, struct vp_chain *chain, const struct vp_result *result,
                  struct vp_err *err);

/* A pass before the run, over seekable input only (VP_EUSAGE with a hint otherwise): the chain's output pages (of its
 * last type), or rows of them, in order to `page`. With --plan nothing is read, and `page` is not called. */
int vp_images_scan(struct vp_images *im, struct vp_run *run, struct vp_chain *chain,
                   int (*page)(void *ctx, int64_t page, const void *samples, int64_t n, struct vp_err *err), void *ctx,
                   struct vp_err *err);

#endif
