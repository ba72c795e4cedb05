/* SPDX-License-Identifier: BSD-3-Clause */
/* The axis of rotation on the detector, and the detector's roll, from rays that are measured twice.
 *
 * Parallel beam: a view and the opposite one are mirror images about the axis. Fan and cone beam: the ray of fan
 * angle g at angle b is that of -g at b + 180 degrees + 2 g, on rows near the plane of the orbit. For each
 * candidate, rows and their opposites are correlated on what both see (masked normalised correlation, Padfield, IEEE
 * Trans. Image Process. 21 (2012) 2706). The best one has the largest sum of atanh(r) sqrt(n - 3) (Fisher's z), n
 * being the columns that both see: not the largest r, which a few columns of noise can have. */
#pragma once

#include "geom/geom.h"

struct vp_progress;
struct vp_views;

struct vp_center_params {
    struct vp_range rows;     /* --rows: detector rows that may be used */
    int64_t pairs;            /* --pairs: at most, of opposite views; cone: views */
    struct vp_reals search;   /* --search LO,HI: offset-u in pixels */
    bool roll;                /* --roll: estimate the roll, too */
    double least;             /* --least: significance below which there is no answer */
};

struct vp_center_request {
    const struct vp_center_params *p;
    const struct vp_geom *geom;      /* with its `offset_u` and `tilt` as far as they are known; no matrices */
    const struct vp_view *views;
    struct vp_views *source;         /* any view can be read at any time */
    bool logarithm;                  /* samples are counts or a transmission: -log is taken */
    bool pieces;                     /* rows cost no more than their bytes */
    struct vp_progress *progress;    /* may be NULL */
    uint64_t memory;                 /* bytes that it may take */
    int threads;
};

struct vp_center {
    double axis;            /* column of the axis at the row of the central ray, 0 is the centre of the first one */
    double offset_u, tilt;  /* as in struct vp_geom */
    double error;           /* standard deviation of the axis among parts of the data, pixels */
    double roll_error;      /* and of the roll, degrees; 0: not estimated */
    /* height of the best candidate above the mean of all others, in standard deviations of these */
    double z;
    double best_axis;       /* axis of that candidate, before it was refined */
    double second, second_axis; /* height of the next peak as a part of that, and its axis; 0 if there is none */
    double r;               /* correlation at the best candidate, the mean over rows */
    double drift;           /* axis in the upper half of the rows less that in the lower half, pixels */
    int64_t pairs, rows;    /* used */
    double overlap;         /* columns that both rows see there */
    bool mass;              /* centres of mass of the views agree, and have refined the axis */
};

/* Significance below which there is no answer; heights of a second peak from which on there is doubt, and no answer.
 * Measured, 256 and 1024 columns: of 120 pairs of views that do not belong together (other objects, wrong angles) 21 pass,
 * 20 of them in doubt; of 180 that do, down to 200 photons, 179 pass, 18 in doubt. */
#define VP_CENTER_LEAST 5.5
#define VP_CENTER_DOUBT 0.4
#define VP_CENTER_RIVAL 0.7

/* Estimates both. 0, or -1: VP_ERUN with a hint if there are no opposite rays, nothing is significant, the best
 * candidate is the first or the last one, or the rays agree better for the other sense of rotation. Its bits depend
 * on neither threads nor memory. */
int vp_center_find(const struct vp_center_request *q, struct vp_center *c, struct vp_err *err);
