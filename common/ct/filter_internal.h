/* Shared by the filter (filter.c), its weights for rays that are measured twice (filter_weights.c) and its inner part
 * (filter_isa.c). */
#pragma once

#include "base/fft.h"
#include "ct/filter.h"
#include "ct/truncation.h"
#include "ct/turn.h"

/* ---- the inner part: convolution of many detector rows with one even kernel ---- */

struct vp_filter;

enum { VP_FILTER_LANES = 16 };

/* A transform, and the real spectrum that it is multiplied by. */
struct vp_filter_method {
    struct vp_line line;
    float *spectrum;
    int64_t pad; /* samples on each side that are not zero */
};

struct vp_filter_job {
    const struct vp_filter *filter;
    const struct vp_filter_method *method;
    int rows; /* 1 ... lanes, anywhere; in[i] may equal out[i] if output rows are not longer */
    const float *in[VP_FILTER_LANES];
    float *out[VP_FILTER_LANES];
    const float *gain[VP_FILTER_LANES];  /* nu weights of the row; or NULL for all rows */
    const float *gain2[VP_FILTER_LANES]; /* nu more weights; or NULL for all rows */
    float scale[VP_FILTER_LANES];
    struct vp_row_end end[VP_FILTER_LANES][2]; /* weighted and scaled; if `extended`, instead of the filter's fall */
    bool extended;
};

struct vp_filter_isa {
    const char *name;
    int lanes;                        /* rows of a job */
    /* out = (in * gain * gain2 * scale) conv kernel; samples that are not finite count as 0. A row's result
     * depends on this row alone. `scratch`: 2 n * lanes floats (n that of
     * the line), aligned to 64 bytes. */
    void (*rows)(const struct vp_filter_job *job, float *scratch);
    /* out[i] = (head + lean i) / sqrt(1 + (i + u0)^2 / f^2 + t): the cosine weight of column i. */
    void (*cosine)(float *out, int64_t n, double u0, double f, double t, double head, double lean);
};

extern const struct vp_filter_isa vp_filter_avx512, vp_filter_avx2, vp_filter_generic;

/* ---- the filter ---- */

struct vp_filter {
    struct vp_filter_tables t;
    struct vp_filter_method plain;    /* rows as they are, or with the same fall for all */
    struct vp_filter_method extended; /* rows that are extended beyond the detector by their slope; or nothing */
    const struct vp_line_isa *fft; /* code of the transforms; same number of lanes as isa */
    const struct vp_filter_isa *isa;
    int64_t before, after;         /* columns that wang adds on the side that sees less; the other one is 0 */
    bool smooth;                   /* the arc is too short for Parker's weights */
    bool by_ray;                   /* Wang's weights, but there are gaps between the views */
    int threads;
    struct vp_turn turn;           /* turns whole views, before all else, if tables.turns */
    struct vp_geom turned;         /* their detector then, until vp_filter_widen */
    float *turned_view;            /* one turned view */
    float *cosine;                 /* nv x nu if all views have the same */
    bool folded;                   /* `cosine` holds the redundancy weights, too, if all views have the same */
    double *center;                /* column of the axis, one a view, for rows that are extended by their ends */
    float *scratch;
    size_t scratch_step;           /* floats a thread */
};

/* Allocates memory that counts as the filter's. */
void *vp_filter_take(struct vp_filter *f, int64_t count, size_t size, const char *what, struct vp_err *err);

/* Chooses the weights and the reach of their tails; then, once the cosine is made, makes them. */
int vp_filter_resolve(struct vp_filter *f, int asked, const struct vp_view *views, const struct vp_scan *scan,
                      struct vp_err *err);
int vp_filter_make_weights(struct vp_filter *f, const struct vp_view *views, const struct vp_scan *scan,
                           struct vp_err *err);
/* Fills the weights of columns [u0, u1) of row v. */
void vp_filter_weight_row(const struct vp_filter *f, int64_t view, int64_t v, int64_t u0, int64_t u1, float *out);
