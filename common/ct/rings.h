/* SPDX-License-Identifier: BSD-3-Clause */
/* Rings: a pixel that is off in every view. Its error differs from the object in the detector's plane: it is small
 * in both directions and the same in all parts of the scan, as a wall about the axis, narrow along rows only, is
 * not. (Boin and Haibel, Opt. Express 14 (2006) 12071: means over the views; Van Nieuwenhove et al., Opt. Express 23
 * (2015): flats.) For stripes in a part of the views a sinogram is sorted (Vo, Atwood and Drakopoulos, Opt. Express
 * 26 (2018) 28396, algorithm 3). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vp_err;

struct vp_rings;

struct vp_rings_params {
    int64_t nu, nv, views;
    int64_t blocks;          /* parts of the scan, at most `views` */
    int64_t rows, columns;   /* windows of the medians, odd; rows 1: along rows only */
    bool drift;              /* a map for each block instead of one */
    int threads;
};

enum { VP_RINGS_BLOCKS = 1024, VP_RINGS_WINDOW = 255 };

/* Returns the bytes that vp_rings_open and vp_rings_finish allocate. */
uint64_t vp_rings_bytes(const struct vp_rings_params *p);

/* Makes sums of no view. VP_ERESOURCE. */
int vp_rings_open(struct vp_rings **r, const struct vp_rings_params *p, struct vp_err *err);
/* Opens maps that exist: `maps` pages of nu x nv, 1 or one a block; copied. */
int vp_rings_open_maps(struct vp_rings **r, const struct vp_rings_params *p, const float *maps, int64_t n,
                       struct vp_err *err);
/* Adds n views from `first` on; in increasing order, all of them, from one thread. Samples that are not finite do not
 * count. Sinograms: n detector rows, each views x nu. Bits do not depend on threads nor on how views are grouped. */
void vp_rings_add(struct vp_rings *r, int64_t first, int64_t n, const float *in);
void vp_rings_add_sinograms(struct vp_rings *r, int64_t first, int64_t n, const float *in);

/* Facts about the maps. */
struct vp_rings_facts {
    double rms, most;      /* deviation of the maps from 0, and their largest sample */
    /* Correlation of what odd and even blocks alone give: 1 if all of it is in the pixels, 0 if all is noise; of a
     * single block NaN. */
    double agreement;
    int64_t maps;
};
/* Makes the maps after the last view. */
int vp_rings_finish(struct vp_rings *r, struct vp_rings_facts *facts, struct vp_err *err);
/* Returns the maps, nu x nv each: 1, or with `drift` one a block. */
const float *vp_rings_maps(const struct vp_rings *r, int64_t *n);
/* Subtracts the map from n views (sinograms: detector rows) from `first` on, in place; of several maps that between
 * the two whose blocks' centres are next to the view. Thread safe. */
void vp_rings_subtract(const struct vp_rings *r, int64_t first, int64_t n, float *views);
void vp_rings_subtract_sinograms(const struct vp_rings *r, int64_t first, int64_t n, float *rows);
void vp_rings_close(struct vp_rings *r);

/* Sorts the samples of each column of a sinogram, takes the median of `window` along the rows of the sorted one, and
 * puts the samples back. In place. *squares is increased by the sum of the squares of what was taken away. Bits do
 * not depend on threads. Samples must be finite. */
int vp_rings_sort(float *sinogram, int64_t nu, int64_t views, int64_t window, int threads, double *squares,
                  struct vp_err *err);
