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
    int between;           /* --between: 0: a grid if it is one, else triangles */
};
extern const struct vp_opt vp_kernel_options[];

/* Reads the kernels, their grid and its nodes, and the kind of weights, for opened images (a kernel of several planes
 * is for volumes). */
int vp_kernels_read(struct vp_convolve_given *g, struct vp_run *run, const struct vp_kernel_params *p,
                    const struct vp_images *im, struct vp_err *err);
/* Reads a list of positions, one for each of `kernels` kernels. If *between is that of a grid and they form one, its n[0]
 * different x and n[1] different y go to at[0] and at[1] (room for `kernels` each), the node of each kernel, row by row,
 * to node[]; else their own x and y, n[] is {kernels, 1}, and *between becomes triangles, if it is that of a grid. */
int vp_kernel_places(double *const at[2], int64_t n[2], int64_t *node, enum vp_among *between, const char *path,
                     int64_t kernels, struct vp_err *err);
/* Returns the type of the result for a choice of auto|f32|same: auto is f64 for f64, else f32. */
enum vp_type vp_kernels_type(int choice, enum vp_type in);
void vp_kernels_free(struct vp_convolve_given *g);
