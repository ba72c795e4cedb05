/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of convolution kernels: a file with one kernel, or with a page for each node of a grid. */
#pragma once

#include "local/convolve.h"
#include "app/image.h"

struct vp_run;

struct vp_kernel_params {
    const char *kernel;    /* --kernel */
    struct vp_size grid;   /* --grid */
    const char *positions; /* --positions */
    int weights;           /* --weights: enum vp_weights */
};
extern const struct vp_opt vp_kernel_options[];

/* Reads the kernels, their grid and its nodes, and the kind of weights, for opened images (a kernel of several planes
 * is for volumes). */
int vp_kernels_read(struct vp_convolve_given *g, struct vp_run *run, const struct vp_kernel_params *p,
                    const struct vp_images *im, struct vp_err *err);
/* Reads a list of positions, one for each of `kernels` kernels: the n[0] different x and n[1] different y of their grid
 * go to at[0] and at[1] (room for `kernels` each), the node of each kernel, row by row, to node[]. */
int vp_kernel_places(double *const at[2], int64_t n[2], int64_t *node, const char *path, int64_t kernels,
                     struct vp_err *err);
/* Returns the type of the result for a choice of auto|f32|same: auto is f64 for f64, else f32. */
enum vp_type vp_kernels_type(int choice, enum vp_type in);
void vp_kernels_free(struct vp_convolve_given *g);
