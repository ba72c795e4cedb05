/* SPDX-License-Identifier: BSD-3-Clause */
/* Medians of 3 x 3 come from a network, for all samples. Of larger squares only those samples are looked at that are
 * above T times the least one of the square, for no median is below that: few, beside edges of the object. */
#include "ct/despike.h"

#include "base/clones.h"
#include "base/err.h"
#include "base/size.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

INLINE float least(float a, float b) { return a < b ? a : b; }
INLINE float most(float a, float b) { return a > b ? a : b; }
INLINE float middle(float a, float b, float c) { return most(least(a, b), least(most(a, b), c)); }

/* Despikes columns 1 .. n - 2 of row b between rows a and c. The median of nine is that of the largest of the columns'
 * minima, the middle of their medians, and the smallest of their maxima. NaN gives anything. */
CLONES static void despike_nine(float *restrict out, const float *restrict a, const float *restrict b,
                                const float *restrict c, float times, float floor, int64_t n)
{
    for (int64_t i = 1; i < n - 1; i++) {
        const float *const x = a + i - 1, *const y = b + i - 1, *const z = c + i - 1;
        const float lo = most(most(least(least(x[0], y[0]), z[0]), least(least(x[1], y[1]), z[1])),
                              least(least(x[2], y[2]), z[2]));
        const float hi = least(least(most(most(x[0], y[0]), z[0]), most(most(x[1], y[1]), z[1])),
                               most(most(x[2], y[2]), z[2]));
        const float mid =
            middle(middle(x[0], y[0], z[0]), middle(x[1], y[1], z[1]), middle(x[2], y[2], z[2]));
        const float median = middle(lo, mid, hi);
        out[i] = b[i] > times * most(median, floor) ? median : b[i];
    }
}

/* Despikes one sample by the samples that exist. */
static float despike_one(const struct vp_despike *d, const float *const *rows, int64_t i, int64_t n)
{
    const int64_t half = d->size / 2, left = vp_max64(i - half, 0), right = vp_min64(i + half, n - 1);
    float v[VP_DESPIKE_MOST * VP_DESPIKE_MOST];
    const float x = rows[half][i];
    int m = 0, below = 0;

    for (int r = 0; r < d->size; r++)
        for (int64_t j = left; rows[r] && j <= right; j++)
            if (!isnan(rows[r][j])) {
                v[m++] = rows[r][j];
                below += x > d->times * most(rows[r][j], d->floor);
            }
    if (2 * below < m || !m)   /* the median, or the upper of the middle two, is not so low */
        return x;
    for (int k = 1; k < m; k++) {
        const float one = v[k];
        int at = k;
        for (; at > 0 && v[at - 1] > one; at--)
            v[at] = v[at - 1];
        v[at] = one;
    }
    const float median = m % 2 ? v[m / 2] : 0.5f * (v[m / 2 - 1] + v[m / 2]);
    return x > d->times * most(median, d->floor) ? median : x;
}

/* True if any of the nine samples around column i is NaN. */
static bool near_nan(const float *const *rows, int64_t i)
{
    float sum = 0;

    for (int r = 0; r < 3; r++)
        sum += rows[r][i - 1] + rows[r][i] + rows[r][i + 1];
    return isnan(sum);
}

static void despike_small(const struct vp_despike *d, float *out, const float *const *rows, int64_t n, bool bad)
{
    const bool inside = rows[0] && rows[2] && n > 2;

    if (inside)
        despike_nine(out, rows[0], rows[1], rows[2], d->times, d->floor, n);
    for (int64_t i = 0; i < n; i++) {
        if (inside && !bad && i == 1)
            i = n - 1;
        if (!inside || i == 0 || i == n - 1 || near_nan(rows, i))
            out[i] = despike_one(d, rows, i, n);
    }
}

/* Lowers lo to the row where that is less; NaN is not. */
CLONES static void lower(float *restrict lo, const float *restrict row, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        lo[i] = row[i] < lo[i] ? row[i] : lo[i];
}

/* Sets out to the least of 2 half + 1 neighbours in lo, those that exist. */
CLONES static void lowest(float *restrict out, const float *restrict lo, int64_t n, int64_t half)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = lo[i];
    for (int64_t k = 1; k <= half && k < n; k++) {
        for (int64_t i = 0; i < n - k; i++)
            out[i] = lo[i + k] < out[i] ? lo[i + k] : out[i];
        for (int64_t i = k; i < n; i++)
            out[i] = lo[i - k] < out[i] ? lo[i - k] : out[i];
    }
}

static void despike_large(const struct vp_despike *d, float *out, const float *const *rows, int64_t n, float *work)
{
    const float *const row = rows[d->size / 2];

    for (int64_t i = 0; i < n; i++)
        work[i] = INFINITY;
    for (int r = 0; r < d->size; r++)
        if (rows[r])
            lower(work, rows[r], n);
    lowest(out, work, n, d->size / 2);
    for (int64_t i = 0; i < n; i++)
        out[i] = row[i] > d->times * most(out[i], d->floor) ? despike_one(d, rows, i, n) : row[i];
}

int64_t vp_despike_row(const struct vp_despike *d, float *out, const float *const *rows, int64_t n, bool bad,
                       float *work)
{
    const float *const row = rows[d->size / 2];
    int64_t found = 0;

    if (d->size == 3)
        despike_small(d, out, rows, n, bad);
    else
        despike_large(d, out, rows, n, work);
    for (int64_t i = 0; i < n; i++)
        found += row[i] > out[i];
    return found;
}

int64_t vp_despike_across(const struct vp_despike *d, bool transmission, float *out, const float *view,
                          const float *const three[3], int64_t n)
{
    const float above = logf(d->times), last = -logf(d->floor);
    int64_t found = 0;

    #pragma omp parallel for schedule(static) reduction(+ : found)
    for (int64_t i = 0; i < n; i++) {
        const float median = middle(three[0][i], three[1][i], three[2][i]), x = view[i];
        const bool zinger = transmission ? x > d->times * most(median, d->floor) : least(median, last) - x > above;
        out[i] = zinger ? median : x;
        found += zinger;
    }
    return found;
}

int64_t vp_despike_sinogram(const struct vp_despike *d, bool transmission, float *page, int64_t views, int64_t n,
                            float *work)
{
    const size_t bytes = (size_t)n * sizeof *page;
    int64_t found = 0;

    if (views < 3)
        return 0;
    /* rows before are kept as they were: row r in work[r % 3] */
    for (int64_t r = 0; r < 3; r++)
        memcpy(work + r * n, page + r * n, bytes);
    for (int64_t r = 0; r < views; r++) {
        if (r > 1 && r < views - 1)
            memcpy(work + (r + 1) % 3 * n, page + (r + 1) * n, bytes);
        found += vp_despike_across(d, transmission, page + r * n, work + r % 3 * n,
                                   (const float *const[3]){work, work + n, work + 2 * n}, n);
    }
    return found;
}

int vp_despike_views_open(struct vp_despike_views *s, const struct vp_despike *d, bool transmission, int64_t n,
                          struct vp_err *err)
{
    *s = (struct vp_despike_views){.despike = *d, .transmission = transmission, .n = n};
    for (int k = 0; k < 3; k++)
        if (!(s->last[k] = vp_alloc_raw((size_t)n, sizeof(float), "the views before and after", err)))
            return -1;
    return 0;
}

static void give(struct vp_despike_views *s, int64_t view, float *out)
{
    s->zingers += vp_despike_across(&s->despike, s->transmission, out, s->last[view % 3],
                                    (const float *const *)s->last, s->n);
}

void vp_despike_views(struct vp_despike_views *s, int64_t count, const float *in, float *out)
{
    for (int64_t k = 0; k < count; k++, s->seen++) {
        /* view seen - 2 goes out between its neighbours before the one that comes takes the place of seen - 3; the
         * first waits for the third */
        if (s->seen > 2) {
            give(s, s->seen - 2, out);
            out += s->n;
        }
        memcpy(s->last[s->seen % 3], in + k * s->n, (size_t)s->n * sizeof *in);
        if (s->seen == 2) {
            give(s, 0, out);
            out += s->n;
        }
    }
}

int64_t vp_despike_rest(struct vp_despike_views *s, float *out)
{
    const int64_t rest = s->seen < 2 ? s->seen : 2;

    for (int64_t view = s->seen - rest; view < s->seen; view++, out += s->n)
        if (s->seen > 2)
            give(s, view, out);
        else
            memcpy(out, s->last[view % 3], (size_t)s->n * sizeof *out);
    return rest;
}

void vp_despike_views_free(struct vp_despike_views *s)
{
    for (int k = 0; k < 3; k++) {
        free(s->last[k]);
        s->last[k] = NULL;
    }
}
