/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to center.c, center_mass.c, center_score.c and center_roll.c. */
#pragma once

#include "ct/center.h"

/* Directions of the views on the circle, in increasing order, and how to get from an angle to them. */
struct vp_circle {
    int64_t n;
    double *angle;      /* radians in [0, 2 pi), increasing */
    int64_t *view;      /* number of the view of each */
    int64_t *start;     /* first direction that is not below each of CELLS parts of the circle */
    double step;        /* median of the gaps that are not 0 */
};

/* A view at any angle: w[0] view[0] + w[1] view[1]. */
struct vp_between { int64_t view[2]; float w[2]; bool beyond; /* extrapolated */ };

int vp_circle_open(struct vp_circle *c, const struct vp_view *views, int64_t n, struct vp_err *err);
void vp_circle_close(struct vp_circle *c);
/* Interpolates between the views on both sides; beyond the end of an arc by at most one step. False if there is
 * none. */
bool vp_circle_at(const struct vp_circle *c, double angle, struct vp_between *b);

/* Lines across views: rows of the detector as it would be without its tilt, `height` of them averaged. Line j begins
 * with row first + j * stride. */
struct vp_center_place {
    int64_t nu, lines, first, stride, height;
    double cu, cv;      /* centre of the rotation, pixels */
    double shift;       /* columns by which samples lie to the right of the pixels */
    double down;        /* rows by which they lie below */
    double tilt;        /* radians */
    double aspect;      /* row pitch by column pitch */
};

/* Computes line j of the view whose rows v0 to v1 are `image`: the mean of its rows, turned back by the tilt. */
void vp_center_line(const struct vp_center_place *p, int64_t j, const float *image, int64_t v0, int64_t v1, float *out);

/* Lines of samples and their opposites, as they are read. */
struct vp_center_lines {
    int64_t nu, lines, pairs, items;  /* item = pair * lines + line */
    const double *fan;     /* NULL: parallel beam; else fan angles of 4 nu distances from the axis in half pixels: */
                           /* fan[2 nu + d] belongs to d / 2 columns */
    const struct vp_circle *circle;
    const int64_t *view;   /* fan: view of each pair */
    const double *angle;   /* fan: its angle */
    float *near, *far;     /* parallel: items x nu */
    float *all;            /* fan: views x lines x nu */
    int64_t views;
};

/* The same in fewer columns, ready to be correlated. */
struct vp_center_level {
    const struct vp_center_lines *of;
    int64_t bin, m;
    double shift;          /* columns by which samples lie to the right of those, -0.5 to 0.5 */
    int sense;             /* 1, or -1: as if the scan turned the other way */
    float *near, *far;     /* band-passed; far only in parallel beam, mirrored */
    float *whole;          /* near and mirrored far of each item, not band-passed; in a fan only near */
    float *all;            /* fan: not band-passed */
    double *sums[4];       /* sums of near, near^2, far, far^2 up to each column, (m + 1) an item */
    double *fan;           /* as of the lines, for these columns */
};

int vp_center_level_open(struct vp_center_level *l, const struct vp_center_lines *of, int64_t bin, double shift,
                         int threads, struct vp_err *err);
void vp_center_level_close(struct vp_center_level *l);

/* Correlation of an item with its opposite for shift t: column u meets column m - 1 + t - u, so that the axis is at
 * (m - 1 + t) / 2. n: columns; 0 if there are too few or they are constant. */
struct vp_match { double r; int64_t n; };

/* Fills z[t - lo] for shifts lo to hi: the sum of Fisher's z over all items, divided by the root of their number;
 * and match[(t - lo) * items + item] unless that is NULL: then rows are band-passed on what both see, which takes
 * longer and has no error at their ends. */
int vp_center_curve(const struct vp_center_level *l, int64_t lo, int64_t hi, int threads, double *z,
                    struct vp_match *match, struct vp_err *err);
/* Returns the shift of the best match about shift t, between samples, for every step-th group of items from `first`
 * on: the vertex of the parabola through three values of what Fisher's z is to first order. match is that of shifts
 * t - 1 to t + 1. */
double vp_center_vertex(const struct vp_match *match, int64_t items, int64_t group, int64_t first, int64_t step,
                        int64_t t);
/* Computes that for `parts` parts of the data, and returns the standard deviation of their mean; 0: there is one part.
 * Parts are views, because what is next to each other in a view has the same noise; else lines. */
double vp_center_spread(const struct vp_match *match, const struct vp_center_lines *l, int64_t t);
/* Returns Fisher's z of a match, of a correlation a little less: no row of almost 1 decides alone. */
double vp_center_fisher(struct vp_match m);

/* Band-pass of a row: deviations of 1 to 8 samples. work: 2 n floats. */
void vp_center_band(const float *in, int64_t n, float *out, float *work);

/* Replaces samples that are not finite by their neighbours, takes the logarithm if it is wanted, and the median of
 * three along the row. */
void vp_center_clean(float *row, int64_t n, bool logarithm, float *work);

/* Reads a whole view or a mean of two. image: nv x nu. */
int vp_center_view(const struct vp_center_request *q, const struct vp_between *b, int64_t v0, int64_t v1, float *image,
                   float *work, struct vp_err *err);

/* Reads the lines of a view, or of the mean of two. image: nv x nu, work: (nv + 1) x nu, out: lines x nu. */
int vp_center_take_lines(const struct vp_center_request *q, const struct vp_center_place *p, const struct vp_between *b,
                         float *image, float *work, float *out, struct vp_err *err);

/* Refines the axis of a parallel beam by centres of mass of all views, if nothing leaves the detector. */
int vp_center_mass(const struct vp_center_request *q, const struct vp_center_place *p, struct vp_center *c,
                   struct vp_err *err);

/* Estimates the roll from views and their opposites, about `axis`. */
int vp_center_roll(const struct vp_center_request *q, const struct vp_circle *circle, double axis, double *tilt,
                   double *error, struct vp_err *err);

/* Picks at most `most` pairs of views and their opposites, spread over the scan: measured ones before extrapolated
 * ones. Returns their number. */
int64_t vp_center_pick(const struct vp_circle *circle, const struct vp_view *views, int64_t n, int64_t most,
                       int64_t *view, struct vp_between *opposite);
