/* SPDX-License-Identifier: BSD-3-Clause */
/* Operators made of morphological reconstruction, as chains of operations: those of img-morphrecon. */
#pragma once

#include "global/morphrecon.h"
#include "engine/chain.h"

enum vp_derived {
    VP_RECONSTRUCT,  /* marker (stack 0) under a mask (stack 1); the others have the mask alone */
    VP_FILL_HOLES,   /* fills dark regions not connected to the border except across brighter samples */
    VP_CLEAR_BORDER, /* removes bright structures connected to the border */
    VP_HMAX,         /* h-maxima transform: removes maxima of dynamics below h */
    VP_HMIN,         /* h-minima transform */
    VP_HDOME,        /* the image minus its h-maxima transform */
    VP_REGIONAL_MAX, /* 1 on plateaus without a higher neighbour, else 0 */
    VP_REGIONAL_MIN,
    VP_OPEN_BY,      /* opening by reconstruction: erosion by a ball, reconstructed under the image */
    VP_CLOSE_BY,     /* closing by reconstruction */
    VP_SEED          /* at each voxel the maximin path from the seed */
};

struct vp_morphrecon_want {
    enum vp_derived what;
    bool erosion;         /* VP_RECONSTRUCT, VP_SEED */
    bool staged;          /* VP_RECONSTRUCT: marker and mask are the last two stages of the chain */
    int connectivity;     /* 0: all neighbours, but faces only for VP_FILL_HOLES */
    double h, radius[3];  /* radius: of the ball of VP_OPEN_BY and VP_CLOSE_BY */
    const struct vp_footprint *window; /* in place of the ball; contains the voxel itself. NULL: the ball */
    bool i8;              /* samples of i8 held as i16: none is below -128 */
    int64_t seed[3];
    struct vp_morphrecon_counts *counts; /* outlives the chain */
};

/* Appends the stages to the chain. `flat`: pages are images. VP_EUSAGE: parameters do not fit the image; VP_ERESOURCE. */
int vp_morphrecon_chain(struct vp_chain *chain, const struct vp_morphrecon_want *w, const int64_t image[3], bool flat,
                        enum vp_type type, struct vp_err *err);
