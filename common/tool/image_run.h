/* SPDX-License-Identifier: BSD-3-Clause */
/* A chain of operations on open inputs: planned, shown or run, and the result written. */
#ifndef VP_IMAGE_RUN_H
#define VP_IMAGE_RUN_H

#include "tool/image_result.h"

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
