/* SPDX-License-Identifier: BSD-3-Clause */
/* The place and shape of slices in one picture, known before anything is read. */
#pragma once

#include "pages/render.h"

enum { VP_MOSAIC_GAP = 2 }; /* pixels between slices */

struct vp_mosaic {
    /* wanted */
    bool ortho;          /* three cuts: z (x right, y down), below it y (x right, z down), to its right x (z right, y
                            down) */
    bool square;         /* one pixel for each sample */
    bool labels;         /* samples are not to be mixed */
    int64_t columns;     /* slices side by side; 0: about the number of rows of slices */
    int64_t fit[2];      /* size that the picture is shrunk to; 0: none */
    /* made */
    int64_t picture[2];  /* size of all slices together */
    int64_t fitted[2];   /* size of the picture, shrunk to fit */
    double pixel;        /* width of a pixel of the fitted picture in the unit of the voxel size; 0: unknown, or not the
                            same everywhere */
};
/* Sets the shapes of the cuts and the layout. False: the voxel size of `in` is so odd that shapes are those of
 * squares. */
bool vp_mosaic_make(struct vp_mosaic *l, const struct vp_stack *in, struct vp_slices *s);
/* Composes the cuts, which are read, into one picture, or one for each colour, and frees them. */
int vp_mosaic_compose(const struct vp_mosaic *l, struct vp_slices *s, struct vp_picture *out, struct vp_err *err);
/* Shrinks a picture to the fitted size. */
int vp_mosaic_fit(const struct vp_mosaic *l, struct vp_picture *p, struct vp_err *err);
