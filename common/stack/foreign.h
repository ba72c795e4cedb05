/* What other programs say about their images (internal to stack/). */
#ifndef VP_FOREIGN_H
#define VP_FOREIGN_H

#include "stack/stack.h"

/* A text of tag 270 (len bytes, no NUL) that is not ours: `description`, and for ImageJ's also axes, sizes,
 * voxel and unit. xres, yres: pixels per ImageJ unit from tags 282 and 283, 0 if absent. */
int vp_meta_foreign(struct vp_meta *m, const char *text, size_t len, double xres, double yres);

/* The page count that an ImageJ description announces ("images=120"), or 1. */
int64_t vp_imagej_images(const char *text, size_t len);

#endif
