/* Flat morphology as chains of minima and maxima: the operators of img-morph. */
#pragma once

#include "local/extremum.h"
#include "engine/chain.h"

/* In the order of VP_MORPH_CHOICES. */
enum vp_morph { VP_ERODE, VP_DILATE, VP_OPEN, VP_CLOSE, VP_TOPHAT, VP_BOTHAT, VP_GRADIENT };
#define VP_MORPH_CHOICES "erode|dilate|open|close|tophat|bothat|gradient"

/* Appends the stages to `chain`, whose input is stack 0: `iterations` >= 1 erosions and `iterations` dilations;
 * iterations with a box are one stage with a larger box, with the same result. An erosion is the minimum over the
 * footprint, a dilation the maximum over the opposite footprint, so that openings are nowhere above the image and
 * closings nowhere below it (Serra 1982). A gradient needs a footprint that contains the voxel itself (VP_EUSAGE).
 * Differences (tophat: image minus opening; bothat: closing minus image; gradient: dilation minus erosion) are never
 * negative; they are exact for integers (u16 for i16, operation "subtract") and rounded to nearest for f32. VP_EUSAGE or
 * VP_ERESOURCE. */
int vp_morph_chain(struct vp_chain *chain, enum vp_morph op, int64_t iterations, const struct vp_footprint *f,
                   const int64_t image[3], enum vp_type type, struct vp_err *err);
