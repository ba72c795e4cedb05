/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels for convolution: point spread functions by formula, and measured ones from stars or beads. All sum to one,
 * and have an odd size, so that a voxel is in the middle. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct vp_err;

/* ---- by formula ---- */

enum vp_psf_shape {
    VP_PSF_GAUSSIAN, /* width: sigma along x, y, z */
    VP_PSF_MOFFAT,   /* (1 + (r/a)^2)^-beta; width: full width at half maximum along x, y */
    VP_PSF_AIRY,     /* Airy pattern of a circular aperture; width[0]: radius of the first dark ring */
    VP_PSF_MOTION    /* uniform linear motion; width[0]: its length */
};

struct vp_psf {
    enum vp_psf_shape shape;
    double width[3];
    double beta;        /* VP_PSF_MOFFAT: above 1 */
    double obstruction; /* VP_PSF_AIRY: diameter of the central obstruction, relative to the aperture */
    double angle;       /* degrees from x towards y by which the x axis of the shape (the motion) is turned */
    double shift[3];    /* centre, relative to the middle voxel */
    int64_t size[3];    /* odd; size[2] is 1 except for a Gaussian */
    int samples;        /* points along each axis, of which a voxel is the mean (VP_PSF_MOTION: exact) */
};

/* Computes the default size: four sigma, four widths, four dark rings, or the motion; plus the shift. */
void vp_psf_size(struct vp_psf *p);
/* Fills kernel[z][y][x] of p->size, sum 1. VP_EUSAGE: it is 0 at all sampled points. */
int vp_psf_make(const struct vp_psf *p, float *kernel, struct vp_err *err);

/* ---- from stars or beads ---- */

enum { VP_STAR_MARGIN = 6 }; /* margin cut out around the kernel, voxels */

struct vp_star {
    double at[3];    /* listed position, voxels from 0; later the measured one */
    float *cut;      /* the kernel's size and a margin on both sides (no margin along z if that is 1) */
    const char *out; /* why it is not used, or NULL */
};

struct vp_stars {
    int64_t n;
    struct vp_star *star;
    int64_t size[3]; /* size of the kernel */
    uint64_t bytes;  /* memory until vp_stars_average() returns, bytes */
    int64_t used;
};

/* Reads a list of stars, one a line: x y, or x y z, separated by blanks, tabs or commas. Text after # and a first line
 * of names are ignored. VP_ERUN. */
int vp_stars_read(struct vp_stars *s, const char *path, struct vp_err *err);
/* Allocates memory for the cutouts, from an image of size[] voxels (INT64_MAX planes: unknown until vp_stars_end());
 * excludes stars too near its edge. VP_ERESOURCE. */
int vp_stars_open(struct vp_stars *s, const int64_t size[3], const int64_t image[3], uint64_t memory,
                  struct vp_err *err);
/* Takes page z of the image. */
void vp_stars_page(struct vp_stars *s, const float *page, int64_t nx, int64_t z);
/* Ends the image after `pages` pages: excludes stars too near the last one. */
void vp_stars_end(struct vp_stars *s, int64_t pages);
/* Computes the kernel (of s->size), after vp_stars_end(). For each star: subtracts the background (the median of its
 * margin), finds its centre (given: takes that of the list), shifts it onto a voxel and scales it to sum 1; then
 * averages them, weighted by brightness, without samples that deviate by more than three sigma. Values below 0 become 0
 * unless `negative`. VP_ERUN: no star is left. */
int vp_stars_average(struct vp_stars *s, bool given, bool negative, float *kernel, struct vp_err *err);
void vp_stars_free(struct vp_stars *s);
