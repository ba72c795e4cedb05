/* SPDX-License-Identifier: BSD-3-Clause */
/* Zingers: samples far above the median of those around them, on a page or in the views before and after. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct vp_err;

enum { VP_DESPIKE_MOST = 15 };

struct vp_despike {
    float times;   /* a sample above this many times the median, or times the floor, becomes the median */
    float floor;   /* least transmission that the median counts as */
    int size;      /* samples along a side of the square of the median: odd, at most VP_DESPIKE_MOST */
};

/* Returns the rows of n samples that a caller's scratch needs: `size` of transmissions, one of results, one to work
 * in. */
static inline int64_t vp_despike_rows(const struct vp_despike *d) { return d->size + 2; }

/* Despikes a row of transmissions into out: rows[size / 2], between those above and below, NULL where there is none.
 * NaN are no samples, and stay; `bad`: there may be some. `work` is a row. The median of an even number of samples is
 * the mean of the middle two. Returns the zingers. */
int64_t vp_despike_row(const struct vp_despike *d, float *out, const float *const *rows, int64_t n, bool bad,
                       float *work);

/* Despikes a row or view of n samples, one of the three, into out (none of them): line integrals, or transmissions. The
 * size is not used. Returns the zingers. Uses OpenMP. */
int64_t vp_despike_across(const struct vp_despike *d, bool transmission, float *out, const float *view,
                          const float *const three[3], int64_t n);

/* Despikes a page of successive views of n samples each, a sinogram, in place; `work` is three rows. Fewer than three
 * views stay as they are. Returns the zingers. */
int64_t vp_despike_sinogram(const struct vp_despike *d, bool transmission, float *page, int64_t views, int64_t n,
                            float *work);

/* Views that come one after the other, each despiked between that before and that after it; the first with the two that
 * follow, the last with the two before it. It gives views two later than it takes them. */
struct vp_despike_views {
    struct vp_despike despike;
    bool transmission;
    int64_t n;         /* samples of a view */
    float *last[3];    /* the last three, view k in last[k % 3] */
    int64_t seen;      /* views taken */
    int64_t zingers;   /* out */
};

int vp_despike_views_open(struct vp_despike_views *s, const struct vp_despike *d, bool transmission, int64_t n,
                          struct vp_err *err);
/* Takes `count` views, and gives those that are ready: vp_despike_ready(s, count), which is found first. */
static inline int64_t vp_despike_ready(const struct vp_despike_views *s, int64_t count)
{
    const int64_t before = s->seen > 2 ? s->seen - 2 : 0, after = s->seen + count;
    return (after > 2 ? after - 2 : 0) - before;
}
void vp_despike_views(struct vp_despike_views *s, int64_t count, const float *in, float *out);
/* Gives the two views (or the only one) that remain, into out. Returns their number. */
int64_t vp_despike_rest(struct vp_despike_views *s, float *out);
void vp_despike_views_free(struct vp_despike_views *s);
