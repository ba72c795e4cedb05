/* The neighbourhood of a voxel (local/footprint.h) as programs take it. */
#ifndef VP_NEIGHBOURHOOD_H
#define VP_NEIGHBOURHOOD_H

#include "base/opt.h"
#include "local/footprint.h"

struct vp_images;

struct vp_footprint_params { struct vp_reals radius; int shape; };
extern const struct vp_opt vp_footprint_options[];

/* From a program's options (radii by vp_image_lengths). -1: VP_EUSAGE. */
int vp_footprint_make(struct vp_footprint *f, const struct vp_footprint_params *p, const struct vp_images *im,
                      struct vp_err *err);

#endif
