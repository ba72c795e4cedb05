/* Metadata of other programs (internal to stack/). */
#pragma once

#include "stack/stack.h"

/* Reads a text of tag 270 that is not ours: `description`, and axes, sizes, voxel, unit and scale where it is ImageJ's,
 * OME-XML or tifffile's. Where axes cannot be understood the pages are of axis `page`. t: may be NULL. */
int vp_meta_foreign(struct vp_meta *m, const char *text, const struct vp_page_tags *t);

/* Reads OME-XML: axes, sizes, voxel and unit. 1: it was; 0: it is something else; -1. */
int vp_meta_ome(struct vp_meta *m, const char *text);

/* Counts the images that the file has according to a foreign text; 0: the text does not say. samples: of a pixel. */
int64_t vp_foreign_images(const char *text, const struct vp_page_tags *t);
int64_t vp_ome_images(const char *text, int64_t samples);

/* Sets the axis of a MetaMorph stack of n planes, out of its tag UIC2: six numbers a plane, the first two the distance
 * from the plane before it (a fraction), the next two the day (Julian) and the time (ms) at which it was taken. It is z
 * if each plane has a distance, else time if each was taken at another time, else page. -1 if out of memory. */
int vp_meta_metamorph(struct vp_meta *m, const uint32_t *uic2, int64_t n);
enum { VP_UIC2_NUMBERS = 6 };

/* Sets `palette` from the numbers of tag 320: all of red, of green, of blue, n of each (at most VP_PALETTE). A ramp
 * from black to white of VP_PALETTE greys is none. -1 if out of memory. */
enum { VP_PALETTE = 256 };
int vp_meta_palette(struct vp_meta *m, const uint16_t *map, int64_t n);
/* Reads it back, colours that it lacks as black; false if there is none, or it is malformed. */
bool vp_palette_get(const struct vp_meta *m, uint16_t map[3 * VP_PALETTE]);

/* Sets axes of those of `n` names whose size is above one, fastest first; their sizes must make `pages` (0: the number
 * is unknown). */
int vp_meta_axes(struct vp_meta *m, const char *const *name, const double *size, int n, double pages);

/* Millimetres in a unit of length as ImageJ and OME write it; 0 if it is none. */
double vp_unit_mm(const char *unit);

/* Returns the text of tag 270 of a stack: axes and sizes of voxels for ImageJ and readers like it, and
 * after it our lines. malloc'd. */
char *vp_description(const struct vp_stack *s);

/* Sets the size of a voxel in mm; z <= 0: it is not known. -1 if out of memory. */
int vp_meta_voxel(struct vp_meta *m, double x, double y, double z);
/* Reads the size of a voxel in mm, for the resolution tags; false if it is not known. */
bool vp_voxel_mm(const struct vp_meta *m, double v[2]);

/* True if a description begins as ImageJ's does. */
bool vp_is_imagej(const char *text);
