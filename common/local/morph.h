/* Flat morphology as chains of minima and maxima: what img-morph does. */
#ifndef VP_MORPH_H
#define VP_MORPH_H

#include "local/extremum.h"
#include "engine/chain.h"

/* In the order of VP_MORPH_CHOICES. */
enum vp_morph { VP_ERODE, VP_DILATE, VP_OPEN, VP_CLOSE, VP_TOPHAT, VP_BOTHAT, VP_GRADIENT };
#define VP_MORPH_CHOICES "erode|dilate|open|close|tophat|bothat|gradient"

/* Append the stages to `chain`, whose input is stack 0. `iterations` >= 1 erosions and as many dilations; those with a
 * box are one stage with a larger box, which is the same to the bit. Differences (tophat: the image less its opening;
 * bothat: its closing less the image; gradient: dilation less erosion) are never negative; they are exact for integers
 * (of i16 they are u16, kernel "subtract") and rounded to the nearest for f32. 0 or -1. */
int vp_morph_chain(struct vp_chain *chain, enum vp_morph op, int64_t iterations, const struct vp_footprint *f,
                   const int64_t image[3], enum vp_type type, struct vp_err *err);

#endif
