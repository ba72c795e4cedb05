/* SPDX-License-Identifier: BSD-3-Clause */
/* Corrections of normalised views: a beam that changes from view to view, by what passes the object or by a monitor,
 * and a beam that hardens, by a measured curve. */
#pragma once

#include "base/opt.h"

#include <stdint.h>

struct vp_correct_params {
    struct vp_strings air;   /* --air C0:C1[,R0:R1]: at most two */
    const char *monitor;     /* --monitor FILE: a number a view */
    const char *curve;       /* --curve FILE: measured and true line integrals */
};

/* Columns and rows of a region: [c0, c1) x [r0, r1). */
struct vp_air { int64_t c0, c1, r0, r1; };

struct vp_correct {
    int n_air;
    struct vp_air air[2];    /* from left to right */
    double *monitor;         /* one a view, or NULL */
    int64_t n_monitor;
    double *curve;           /* pairs, increasing, or NULL */
    int64_t n_curve;
    bool transmission;       /* samples are transmissions, not line integrals */
    double drift[2];         /* out: least and largest mean transmission of the regions, before the correction */
};

/* Reads the parameters for views of nu x nv. VP_EUSAGE for regions that are not on the detector or overlap, and for
 * a curve of transmissions; VP_ERUN for files that do not hold what they should. Free with vp_correct_free() in any
 * case. */
int vp_correct_open(struct vp_correct *c, const struct vp_correct_params *p, int64_t nu, int64_t nv, bool transmission,
                    struct vp_err *err);
/* Corrects n views of nu x nv from `first` on, in place; with sinogram_views > 0 n detector rows, each
 * sinogram_views x nu, without regions. Sums are added in f64, row by row. -1: VP_ERUN if the monitor has fewer
 * numbers, or a region has no beam. Bits do not depend on threads nor on how views are grouped. */
int vp_correct_views(struct vp_correct *c, int64_t first, int64_t n, int64_t nu, int64_t nv, int64_t sinogram_views,
                     float *samples, struct vp_err *err);
void vp_correct_free(struct vp_correct *c);
