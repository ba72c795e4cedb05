/* SPDX-License-Identifier: BSD-3-Clause */
/* What an operation must know of all samples before it begins, from a pass of its own over a seekable input. */
#ifndef VP_IMAGE_MEASURE_H
#define VP_IMAGE_MEASURE_H

struct vp_err;
struct vp_footprint;
struct vp_images;
struct vp_run;

/* The smallest and the largest of the finite samples of the first stack. -1: VP_EUSAGE with a hint (a pipe; --range
 * LO,HI is the way out), VP_ERUN (no sample is finite). With --plan nothing is read, and range stays as it is. */
int vp_images_range(struct vp_images *im, struct vp_run *run, double range[2], struct vp_err *err);

/* The noise that nobody gives: the mean of the local variances over all images (those that are finite). With --plan it
 * is -1, unknown, and nothing is read. */
int vp_images_noise(struct vp_images *im, struct vp_run *run, const struct vp_footprint *f, double *noise,
                    struct vp_err *err);

#endif
