/* SPDX-License-Identifier: BSD-3-Clause */
/* FDK filtering: cosine weight, redundancy weight, band-limited ramp along detector rows, scaled so that
 * the plain sum over views of (sod / w)^2 * q(u, v) is the attenuation in 1/mm. */
#pragma once

#include "geom/geom.h"

enum vp_window { VP_RAM_LAK, VP_SHEPP_LOGAN, VP_COSINE, VP_HAMMING, VP_HANN };
enum vp_redundancy { VP_RED_AUTO, VP_RED_NONE, VP_RED_PARKER, VP_RED_WANG };

struct vp_filter_params {
    int window;          /* --window */
    double cutoff;       /* --cutoff: fraction of the Nyquist frequency, ]0, 1] */
    int redundancy;      /* --weights auto|none|parker|wang */
    double pad;          /* --pad: truncation: extend rows on each side by this fraction of the detector's
                            width, with a smooth fall from the edge value; -1, auto: each row that ends far from zero
                            by its slope there, by the detector's width at most */
    bool keep_cosine;    /* --no-cosine: input is weighted already */
};
extern const struct vp_opt vp_filter_options[];

struct vp_filter;
struct vp_rates;
struct vp_truncation;

/* Makes all tables. Resolves `auto` and refuses weights that are wrong for the scan (VP_EUSAGE). */
int vp_filter_open(struct vp_filter **f, const struct vp_filter_params *p, const struct vp_geom *g,
                   const struct vp_view *views, const struct vp_scan *scan, int threads, struct vp_err *err);
/* Returns the seconds expected for one input sample, on idle threads. `rates` NULL: vp_rates. */
double vp_filter_seconds(const struct vp_filter *f, const struct vp_rates *rates);

/* Widens the detector to the samples that the filter makes. If the detector's rows do not follow the source's way
 * (vp_scan_turned), views are turned before they are filtered, and the filter is made for the detector that turns with
 * the source: `g` becomes its geometry.
 *
 * Wang's weights leave the ramp's tails on the side that the detector does not see, and they belong to the
 * result: without them it is wrong by several percent. From this call on, output rows have them: returns
 * their length, and changes `g` (that of open) to the detector as it then is, symmetric. Without Wang's
 * weights, of views that are not turned, nothing changes. */
int64_t vp_filter_widen(struct vp_filter *f, struct vp_geom *g);

/* Filters rows [v0, v1) of n views from view `first`: in is n x (v1 - v0) x nu, or, if views are turned, n whole views;
 * in place (if not wider) or into out; all cores (OpenMP). Samples that are not finite count as 0. The bits of a row
 * depend on nothing but that row: not on threads, grouping or layout. */
void vp_filter_rows(struct vp_filter *f, int64_t first, int64_t n, int64_t v0, int64_t v1, const float *in,
                    float *out);
/* Filters n sinogram pages, each views x nu: the rows from `v` on of every view. */
void vp_filter_sinograms(struct vp_filter *f, int64_t v, int64_t n, const float *in, float *out);
/* Adds statistics of the ends of some of these rows to `seen`, unless the filter extends rows that break off. */
void vp_filter_look(const struct vp_filter *f, int64_t first, int64_t n, int64_t v0, int64_t v1, const float *in,
                    struct vp_truncation *seen);
/* Does the same for n sinogram pages from row `v` on. */
void vp_filter_look_sinograms(const struct vp_filter *f, int64_t v, int64_t n, const float *in,
                              struct vp_truncation *seen);
/* Writes one line about truncated rows. False if there are too few of them to mention. */
bool vp_filter_truncated(const struct vp_truncation *seen, char *text, size_t size);
void vp_filter_close(struct vp_filter *f);

/* The cosine weight of column u in row v is, with d = v - cv,
 *     (head + lean u + rise d) / (1 + tip d) / sqrt(1 + (u - center + slope d)^2 / f^2 + bend d^2);
 * head is 1 and lean, rise and tip are 0 where the detector is perpendicular to the ray through the axis. */
struct vp_filter_lens { double center, cv, slope, f, bend, head, lean, rise, tip; };

/* Position of column u in row v among the redundancy weights of its view: (a0 + au u + av v) / (b0 + bu u + bv v),
 * clamped to them; weights are interpolated linearly. In float32, computed in this order and without contraction, so
 * that every implementation takes the same weight. */
struct vp_filter_fan { float a0, au, av, b0, bu, bv; };

/* Tables of the filter, for other implementations of it. */
struct vp_filter_tables {
    int64_t nu, nv, views;
    bool turns;                  /* views are turned first, from another detector: only whole ones, on the host */
    int64_t pad;                 /* samples on each side that fall off from the edge ... */
    float *fall;                 /* ... by these factors, from the edge outwards */
    bool by_slope;               /* --pad auto: rows differ in how they go on, so only this filter can do it */
    int64_t before, after;       /* columns of an output row before and after those of the input */
    int64_t m;                   /* the kernel's taps reach to m - 1, as far as any output needs */
    double *response;            /* its transform of length 2 m, which is real and even: [0, m] */
    float *scale;                /* one a view */
    float *weight;               /* n_weight a view; NULL: none */
    int64_t n_weight;
    struct vp_filter_fan *fan;   /* one a view; NULL: a weight belongs to a column, n_weight = nu */
    struct vp_filter_lens *lens; /* one a view; NULL: no cosine */
    enum vp_redundancy redundancy;
    size_t bytes;                /* tables and scratch that it holds */
    char text[80];               /* "ramp ram-lak, cutoff 1, parker weights" */
    char describe[192];          /* ... with ", fft length 2048, avx512" */
    char warning[192];           /* warning about this scan (an arc too short for its fan); or "" */
};
const struct vp_filter_tables *vp_filter_tables(const struct vp_filter *f);
/* out[k], k = 0 ... n - 1: 1 / n times the response, at frequencies k + 1/4 of n, of the kernel's taps as far as any
 * output needs; they are the same for all n. */
int vp_filter_response(const struct vp_filter_tables *t, int64_t n, double *out, struct vp_err *err);

/* For tests and benchmarks: the code for "avx512", "avx2" or "generic"; false if this CPU has not got it. */
bool vp_filter_use(struct vp_filter *f, const char *isa);
