/* SPDX-License-Identifier: BSD-3-Clause */
/* The lines of --plan about a convolution. */
#pragma once

struct vp_err;
struct vp_images;
struct vp_op;
struct vp_run;

/* Reports the work of a convolution of images, its borders, and what it takes on 1, 2, 4 ... threads of the CPU, by the
 * rates in `model` (NULL: those of this instruction set). Nothing without --plan, and for volumes' kernels and f64. */
int vp_convolve_plan(struct vp_run *run, const struct vp_images *im, const struct vp_op *op, const char *model,
                     struct vp_err *err);
