/* Pyramids: each page in several sizes, as OME-TIFF (internal to stack/). Level k is the mean of bins of 2^k x 2^k
 * samples of the page, as `img-resize --2d --bin 2^k` makes it; what does not fill a bin is left out. */
#pragma once

#include "stack/stack.h"

enum { VP_PYRAMID_TILE = 512, VP_PYRAMID_MAX = 20 };

/* Returns the number of levels until the larger side fits into a tile. */
int vp_pyramid_levels(int64_t nx, int64_t ny);
/* Returns the bytes that the levels of a page take. */
uint64_t vp_pyramid_holds(const struct vp_stack *s);

/* Returns tag 270 as OME-XML: sizes, axes, the size of a voxel; malloc'd. NULL with VP_EUSAGE if OME has no word for a
 * stack like this one: axes besides z, channel and time, an unknown number of pages, a recorded scale, 64-bit integers. */
char *vp_pyramid_text(const struct vp_stack *s, struct vp_err *err);

/* Levels of the pages of a stack, one page after the other. */
struct vp_pyramid;
int vp_pyramid_open(struct vp_pyramid **p, const struct vp_stack *s, struct vp_err *err);
/* Makes the next level, the first one of `page`, the others (page NULL) of sums of the level before. Returns its
 * samples, in the stack's type, and its size. */
const void *vp_pyramid_next(struct vp_pyramid *p, const void *page, int64_t size[2]);
void vp_pyramid_close(struct vp_pyramid *p);
