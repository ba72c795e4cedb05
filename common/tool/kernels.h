/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels of convolution as programs take them: a file with one, or with a page for each node of a grid. */
#ifndef VP_KERNELS_H
#define VP_KERNELS_H

#include "base/opt.h"
#include "tool/image.h"

struct vp_run;

struct vp_kernel_params {
    const char *kernel;    /* --kernel */
    struct vp_size grid;   /* --grid */
    const char *positions; /* --positions */
    int weights;           /* --weights: enum vp_weights */
};
extern const struct vp_opt vp_kernel_options[];

struct vp_kernels {
    int64_t n[3], nodes[2];
    float *samples;        /* [node down][node across][z][y][x]; */
    double *exact;         /* instead for images of f64 */
    double *node[2];       /* where nodes are along x and y; NULL: in the middles of equal parts */
};

/* Of p, for images as they were opened: one of several planes is for volumes. */
int vp_kernels_read(struct vp_kernels *k, struct vp_run *run, const struct vp_kernel_params *p,
                    const struct vp_images *im, struct vp_err *err);
void vp_kernels_free(struct vp_kernels *k);

#endif
