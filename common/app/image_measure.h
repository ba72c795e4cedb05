/* SPDX-License-Identifier: BSD-3-Clause */
/* Statistics of all samples that an operation needs before it begins, from a separate pass over a seekable input. */
#ifndef VP_IMAGE_MEASURE_H
#define VP_IMAGE_MEASURE_H

struct vp_err;
struct vp_footprint;
struct vp_images;
struct vp_run;

/* Computes the smallest and the largest finite sample of the first stack. -1: VP_EUSAGE with a hint (a pipe needs
 * --range LO,HI), VP_ERUN (no sample is finite). With --plan nothing is read, and range is unchanged. */
int vp_images_range(struct vp_images *im, struct vp_run *run, double range[2], struct vp_err *err);

/* Estimates the noise if no option gives it: the mean of the local variances (the finite ones) over all images. With
 * --plan nothing is read and it is -1, unknown. */
int vp_images_noise(struct vp_images *im, struct vp_run *run, const struct vp_footprint *f, double *noise,
                    struct vp_err *err);

#endif
