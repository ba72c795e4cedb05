/* What the filter (filter.c) and its weights for rays that are measured twice (filter_weights.c) share. */
#ifndef VP_FILTER_INTERNAL_H
#define VP_FILTER_INTERNAL_H

#include "base/fft.h"
#include "ct/filter.h"
#include "ct/filter_isa.h"

static const double PI = 3.14159265358979323846;

struct vp_filter {
    struct vp_line line;           /* the transform, */
    float *weigh;                  /* what it multiplies with, */
    const struct vp_line_isa *fft; /* and its code, of as many lanes as */
    const struct vp_filter_isa *isa;
    int64_t m;                     /* the window is sampled at the frequencies of 2 m samples */
    int64_t nu, nv, views, pad;
    int64_t before, after;         /* columns that wang adds on the side that sees less; the other one is 0 */
    bool wide;                     /* they are put out */
    int threads;
    enum vp_redundancy redundancy;
    float *fall;
    float *scale;                  /* one a view */
    float *weight;                 /* n_weight a view, or NULL */
    int64_t n_weight;
    struct vp_filter_fan *fan;     /* one a view, or NULL: weights belong to columns */
    float *cosine;                 /* nv x nu if all views have the same, */
    bool folded;                   /* with the redundancy weights if all views have the same of these too; else */
    struct vp_filter_lens *lens;   /* one a view; both NULL: no cosine */
    double *response;              /* of the kernel, m + 1 */
    float *scratch;
    size_t scratch_step;           /* floats a thread */
    size_t bytes;
    char text[80], describe[128], warning[192];
};

/* Memory that counts as the filter's. */
void *vp_filter_take(struct vp_filter *f, int64_t count, size_t size, const char *what, struct vp_err *err);

/* Which weights; *smooth: the arc is too short for Parker's. */
int vp_filter_resolve(struct vp_filter *f, int asked, const struct vp_scan *scan, bool *smooth, struct vp_err *err);
/* The ramp's tails on the side that the detector does not see belong to the result, as far out as the other side
 * sees. */
void vp_filter_extend(struct vp_filter *f, const struct vp_view *views, bool tilted);
int vp_filter_make_weights(struct vp_filter *f, const struct vp_view *views, const struct vp_scan *scan, bool smooth,
                           struct vp_err *err);
/* Of columns [u0, u1) of row v. */
void vp_filter_weight_row(const struct vp_filter *f, int64_t view, int64_t v, int64_t u0, int64_t u1, float *out);
/* One table for all views saves finding the weights of every row. */
int vp_filter_fold(struct vp_filter *f, struct vp_err *err);

#endif
