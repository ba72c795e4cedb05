/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels for convolution: point spread functions by formula, and measured ones from stars or beads. All sum to one,
 * and have an odd size, so that a voxel is in the middle. */
#ifndef VP_PSF_H
#define VP_PSF_H

#include <stdbool.h>
#include <stdint.h>

struct vp_err;

/* ---- by formula ---- */

enum vp_psf_shape {
    VP_PSF_GAUSSIAN, /* width: sigma along x, y, z */
    VP_PSF_MOFFAT,   /* (1 + (r/a)^2)^-beta; width: full width at half maximum along x, y */
    VP_PSF_AIRY,     /* of a round aperture; width[0]: radius of the first dark ring */
    VP_PSF_MOTION    /* a straight, even motion; width[0]: its length */
};

struct vp_psf {
    enum vp_psf_shape shape;
    double width[3];
    double beta;        /* VP_PSF_MOFFAT: above 1 */
    double obstruction; /* VP_PSF_AIRY: diameter of what covers the middle of the aperture, in its own */
    double angle;       /* degrees from x towards y by which the x axis of the shape (the motion) is turned */
    double shift[3];    /* of the centre from the middle voxel */
    int64_t size[3];    /* odd; size[2] is 1 but for a Gaussian */
    int samples;        /* each voxel is the mean of so many points along each axis (VP_PSF_MOTION: of all) */
};

/* The size that holds all that matters: four sigma, four widths, four dark rings, the motion; with the shift. */
void vp_psf_size(struct vp_psf *p);
/* kernel[z][y][x]. -1: VP_EUSAGE, it is 0 at all points that are looked at. */
int vp_psf_make(const struct vp_psf *p, float *kernel, struct vp_err *err);

/* ---- from stars or beads ---- */

enum { VP_STAR_MARGIN = 6 }; /* voxels around the kernel's that are cut out with it */

struct vp_star {
    double at[3];    /* voxels from 0; later as it was found */
    float *cut;      /* the kernel's size and a margin on both sides (no margin along z if that is 1) */
    const char *out; /* why it is not used, or NULL */
};

struct vp_stars {
    int64_t n;
    struct vp_star *star;
    int64_t size[3]; /* of the kernel */
    uint64_t bytes;  /* that all of it takes, until vp_stars_average() is done */
    int64_t used;
};

/* A line for each: x y, or x y z; what follows # does not count, nor does a first line of names. Numbers are separated
 * by blanks, tabs or commas. -1: VP_ERUN. */
int vp_stars_read(struct vp_stars *s, const char *path, struct vp_err *err);
/* Room for what is cut out, of an image of that many voxels (INT64_MAX planes: until vp_stars_end() says); stars too near
 * to its edge are out. -1: VP_ERESOURCE. */
int vp_stars_open(struct vp_stars *s, const int64_t size[3], const int64_t image[3], uint64_t memory,
                  struct vp_err *err);
/* Page z of the image. */
void vp_stars_page(struct vp_stars *s, const float *page, int64_t nx, int64_t z);
/* All `pages` of the image have come (with vp_stars_open their number may be unknown): stars too near to the last one
 * are out. */
void vp_stars_end(struct vp_stars *s, int64_t pages);
/* After that: the kernel (of s->size). From each star the background is taken (the median of its margin), its
 * centre found (unless `given`, then it is where the list says), it is moved onto a voxel and scaled to a sum of one;
 * then they are averaged, brighter ones counting more, without samples that deviate by more than three sigma. What is
 * below 0 becomes 0 unless `negative`. -1: VP_ERUN, none is left. */
int vp_stars_average(struct vp_stars *s, bool given, bool negative, float *kernel, struct vp_err *err);
void vp_stars_free(struct vp_stars *s);

#endif
