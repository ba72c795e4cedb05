/* SPDX-License-Identifier: BSD-3-Clause */
/* What people use morphological reconstruction for, as chains of operations: what img-morphrecon does. */
#ifndef VP_MORPHRECON_DERIVE_H
#define VP_MORPHRECON_DERIVE_H

#include "global/morphrecon.h"
#include "engine/chain.h"

enum vp_derived {
    VP_RECONSTRUCT,  /* a marker (stack 0) under a mask (stack 1); all others have the mask alone */
    VP_FILL_HOLES,   /* dark regions that no way out of the image leads from, up to the lowest wall */
    VP_CLEAR_BORDER, /* the image without the bright structures that touch its border */
    VP_HMAX,         /* without maxima that rise less than h above what surrounds them */
    VP_HMIN,         /* without minima that are less deep */
    VP_HDOME,        /* what VP_HMAX takes away */
    VP_REGIONAL_MAX, /* 1 on plateaus that have no higher neighbour, else 0 */
    VP_REGIONAL_MIN,
    VP_OPEN_BY,      /* what an erosion by a ball leaves something of, as it was */
    VP_CLOSE_BY,
    VP_SEED          /* what a voxel reaches: the best that the ways from it have */
};

struct vp_morphrecon_want {
    enum vp_derived what;
    bool erosion;         /* VP_RECONSTRUCT, VP_SEED */
    bool staged;          /* VP_RECONSTRUCT: of the last two stages of the chain instead */
    int connectivity;     /* 0: all neighbours, but faces only for VP_FILL_HOLES */
    double h, radius[3];
    bool i8;              /* the samples are of i16, but in the file of i8: none is below -128 */
    int64_t seed[3];
    struct vp_morphrecon_told *told; /* lives as long as the chain */
};

/* Append the stages. `flat`: pages stand alone. -1: VP_EUSAGE (what fits not the images), VP_ERESOURCE. */
int vp_morphrecon_chain(struct vp_chain *chain, const struct vp_morphrecon_want *w, const int64_t image[3], bool flat,
                        enum vp_type type, struct vp_err *err);

#endif
