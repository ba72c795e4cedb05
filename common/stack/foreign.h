/* What other programs say about their images (internal to stack/). */
#ifndef VP_FOREIGN_H
#define VP_FOREIGN_H

#include "stack/stack.h"

/* A text of tag 270 that is not ours: `description`, and axes, sizes, voxel and unit where it is ImageJ's, OME-XML or
 * tifffile's. Where those tell axes that cannot be understood the pages are of axis `page`. r: may be NULL. */
int vp_meta_foreign(struct vp_meta *m, const char *text, const struct vp_resolution *r);

/* OME-XML: axes, sizes, voxel and unit. 1: it was; 0: it is something else; -1. */
int vp_meta_ome(struct vp_meta *m, const char *text);

/* Axes of `n` names, as many as say more than one, fastest first; their sizes must make `pages` (0: nobody says how
 * many there are). */
int vp_meta_axes(struct vp_meta *m, const char *const *name, const double *size, int n, double pages);

/* Millimetres in a unit of length as ImageJ and OME write it; 0 if it is none. */
double vp_unit_mm(const char *unit);

/* The text of tag 270 of a stack: what ImageJ and those who read like it want to know of axes and sizes of voxels, and
 * behind it our lines. malloc'd. */
char *vp_description(const struct vp_stack *s);

/* Say the size of a voxel in mm; z <= 0: it is not known. -1 if out of memory. */
int vp_meta_voxel(struct vp_meta *m, double x, double y, double z);
/* Size of a voxel in mm, for the resolution tags; false if it is not known. */
bool vp_voxel_mm(const struct vp_meta *m, double v[2]);

/* A description that begins as ImageJ's does, and the page count that it announces ("images=120"), or 1. */
bool vp_is_imagej(const char *text);
int64_t vp_imagej_images(const char *text);

#endif
