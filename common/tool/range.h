/* SPDX-License-Identifier: BSD-3-Clause */
/* The smallest and the largest value of a stack, where an operation must know them before it begins. */
#ifndef VP_RANGE_H
#define VP_RANGE_H

struct vp_err;
struct vp_images;
struct vp_run;

/* Of the finite samples of the first stack, in a pass of its own over a seekable input. -1: VP_EUSAGE with a hint (a
 * pipe; --range LO,HI is the way out), VP_ERUN (no sample is finite). With --plan nothing is read, and range stays as
 * it is. */
int vp_images_range(struct vp_images *im, struct vp_run *run, double range[2], struct vp_err *err);

#endif
