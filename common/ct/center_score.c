/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows and their opposites, correlated for all shifts. */
#include "ct/center_internal.h"

#include "base/err.h"
#include "base/size.h"
#include "base/sort.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum { WIDE = 17, LANES = 16, CELLS = 4096, LEAST = 8 /* columns */, PARTS = 8 };
static const double PI = 3.14159265358979323846;

/* ---- directions ---- */

struct direction { double angle; int64_t view; };

static int by_angle(const void *a, const void *b)
{
    const struct direction *const x = a, *const y = b;
    return x->angle < y->angle ? -1 : x->angle > y->angle ? 1 : x->view < y->view ? -1 : x->view > y->view;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Reduces an angle to [0, 2 pi). */
static double turn_of(double angle)
{
    const double a = angle - floor(angle / (2 * PI)) * 2 * PI;
    return a >= 2 * PI || a < 0 ? 0 : a;
}

int vp_circle_open(struct vp_circle *c, const struct vp_view *views, int64_t n, struct vp_err *err)
{
    struct direction *d = vp_alloc_raw((size_t)n, sizeof *d, "directions", err);
    double *gap = vp_alloc_raw((size_t)n, sizeof *gap, "directions", err);

    *c = (struct vp_circle){.n = n, .angle = vp_alloc_raw((size_t)n, sizeof *c->angle, "directions", err),
                            .view = vp_alloc_raw((size_t)n, sizeof *c->view, "directions", err),
                            .start = vp_alloc_raw(CELLS, sizeof *c->start, "directions", err)};
    if (!d || !gap || !c->angle || !c->view || !c->start) {
        free(d);
        free(gap);
        vp_circle_close(c);
        return -1;
    }
    for (int64_t i = 0; i < n; i++)
        d[i] = (struct direction){turn_of(views[i].angle), i};
    vp_sort(d, (size_t)n, sizeof *d, by_angle);
    int64_t gaps = 0;
    for (int64_t i = 0; i < n; i++) {
        c->angle[i] = d[i].angle;
        c->view[i] = d[i].view;
        const double next = i + 1 < n ? d[i + 1].angle : d[0].angle + 2 * PI;
        if (next - d[i].angle > 1e-7)
            gap[gaps++] = next - d[i].angle;
    }
    vp_sort(gap, (size_t)gaps, sizeof *gap, by_value);
    c->step = gaps ? gap[(gaps - 1) / 2] : 2 * PI;
    for (int64_t k = 0, i = 0; k < CELLS; k++) {
        while (i < n && c->angle[i] < 2 * PI * (double)k / CELLS)
            i++;
        c->start[k] = i;
    }
    free(d);
    free(gap);
    return 0;
}

void vp_circle_close(struct vp_circle *c)
{
    free(c->angle);
    free(c->view);
    free(c->start);
    *c = (struct vp_circle){0};
}

/* Extrapolates from direction i, away from its neighbour on that side, by `by` radians. */
static bool extrapolate(const struct vp_circle *c, int64_t i, int64_t beside, double by, struct vp_between *b)
{
    const double d = fabs(c->angle[i] - c->angle[beside]), step = d > PI ? 2 * PI - d : d;

    if (!(step > 1e-7) || step > 2.75 * c->step + 1e-7 || by > 1.05 * step)
        return false;
    *b = (struct vp_between){{c->view[i], c->view[beside]}, {(float)(1 + by / step), (float)(-by / step)}, true};
    return true;
}

bool vp_circle_at(const struct vp_circle *c, double angle, struct vp_between *b)
{
    const double a = turn_of(angle);
    const int64_t n = c->n, cell = vp_min64((int64_t)(a / (2 * PI) * CELLS), CELLS - 1);
    int64_t i = c->start[cell];

    while (i < n && c->angle[i] < a)
        i++;
    const int64_t hi = i < n ? i : 0, lo = i > 0 ? i - 1 : n - 1;
    const double above = i < n ? c->angle[hi] - a : c->angle[hi] + 2 * PI - a;
    const double below = i > 0 ? a - c->angle[lo] : a + 2 * PI - c->angle[lo];
    const double gap = above + below;
    if (above < 1e-6 * c->step || below < 1e-6 * c->step) {
        *b = (struct vp_between){{c->view[above < below ? hi : lo], c->view[hi]}, {1, 0}, false};
        return true;
    }
    if (n < 2)
        return false;
    if (gap <= 2.75 * c->step) {
        *b = (struct vp_between){{c->view[lo], c->view[hi]}, {(float)(above / gap), (float)(below / gap)}, false};
        return true;
    }
    if (n < 3)
        return false;
    return below <= above ? extrapolate(c, lo, lo > 0 ? lo - 1 : n - 1, below, b)
                          : extrapolate(c, hi, hi + 1 < n ? hi + 1 : 0, above, b);
}

/* ---- rows ---- */

/* Computes the mean over `width` samples about each, fewer at the ends. */
static void box_mean(const float *in, int64_t n, int64_t width, float *out)
{
    const int64_t half = width / 2;
    double sum = 0;
    int64_t count = 0;

    for (int64_t i = 0; i < vp_min64(half, n); i++, count++)
        sum += (double)in[i];
    for (int64_t i = 0; i < n; i++) {
        if (i + half < n) {
            sum += (double)in[i + half];
            count++;
        }
        if (i - half > 0) {
            sum -= (double)in[i - half - 1];
            count--;
        }
        out[i] = (float)(sum / (double)count);
    }
}

void vp_center_band(const float *in, int64_t n, float *out, float *work)
{
    static const float tap[3] = {0.40262f, 0.24420f, 0.05449f}; /* Gaussian of one sample */
    float *const fine = work, *const other = work + n;

    for (int64_t i = 0; i < n; i++) {
        float sum = tap[0] * in[i], weight = tap[0];
        for (int64_t k = 1; k <= 2; k++) {
            if (i - k >= 0) {
                sum += tap[k] * in[i - k];
                weight += tap[k];
            }
            if (i + k < n) {
                sum += tap[k] * in[i + k];
                weight += tap[k];
            }
        }
        fine[i] = sum / weight;
    }
    box_mean(fine, n, WIDE, out);
    box_mean(out, n, WIDE, other);
    box_mean(other, n, WIDE, out);
    for (int64_t i = 0; i < n; i++)
        out[i] = fine[i] - out[i];
}

void vp_center_clean(float *row, int64_t n, bool logarithm, float *work)
{
    int64_t last = -1;

    for (int64_t i = 0; i < n; i++) {
        if (logarithm)
            row[i] = isfinite(row[i]) ? -logf(fmaxf(row[i], 1e-6f)) : row[i];
        if (!isfinite(row[i]))
            continue;
        for (int64_t k = last + 1; k < i; k++)
            row[k] = last < 0 ? row[i] : row[last];
        last = i;
    }
    for (int64_t k = last + 1; k < n; k++)
        row[k] = last < 0 ? 0 : row[last];
    memcpy(work, row, (size_t)n * sizeof *row);
    for (int64_t i = 1; i + 1 < n; i++) {
        const float a = work[i - 1], b = work[i], c = work[i + 1];
        row[i] = fmaxf(fminf(a, b), fminf(fmaxf(a, b), c));
    }
}

/* Averages `by` columns each, and moves the samples by `shift` of the new ones, between neighbours. */
static void bin(const float *in, int64_t rows, int64_t nu, int64_t by, double shift, float *out)
{
    const int64_t m = nu / by;
    const float w = (float)fabs(shift);

    for (int64_t r = 0; r < rows; r++) {
        float *const to = out + r * m;
        for (int64_t i = 0; i < m; i++) {
            float sum = 0;
            for (int64_t k = 0; k < by; k++)
                sum += in[r * nu + i * by + k];
            to[i] = sum / (float)by;
        }
        for (int64_t i = 0; i + 1 < m && shift > 0; i++)
            to[i] += w * (to[i + 1] - to[i]);
        for (int64_t i = m - 1; i > 0 && shift < 0; i--)
            to[i] += w * (to[i - 1] - to[i]);
    }
}

/* Adds up a row and its squares. */
static void prefix(const float *row, int64_t m, double *sum, double *squares)
{
    sum[0] = squares[0] = 0;
    for (int64_t i = 0; i < m; i++) {
        sum[i + 1] = sum[i] + (double)row[i];
        squares[i + 1] = squares[i] + (double)row[i] * (double)row[i];
    }
}

int vp_center_level_open(struct vp_center_level *l, const struct vp_center_lines *of, int64_t by, double shift,
                         int threads, struct vp_err *err)
{
    const int64_t m = of->nu / by, items = of->items;
    const size_t row = (size_t)m * sizeof(float), sums = (size_t)(m + 1) * sizeof(double);
    const bool parallel = !of->fan;
    bool short_of = false;

    *l = (struct vp_center_level){.of = of, .bin = by, .m = m, .shift = shift, .sense = 1};
    l->near = vp_alloc_raw((size_t)items, row, "rows", err);
    short_of |= !(l->whole = vp_alloc_raw((size_t)items * 2, row, "rows", err));
    for (int k = 0; k < 4; k++)
        short_of |= !(l->sums[k] = vp_alloc_raw((size_t)items, sums, "rows", err));
    if (parallel)
        l->far = vp_alloc_raw((size_t)items, row, "rows", err);
    else {
        l->all = vp_alloc_raw((size_t)(of->views * of->lines), row, "rows", err);
        l->fan = vp_alloc_raw((size_t)m, 4 * sizeof(double), "fan angles", err);
    }
    if (!l->near || short_of || (parallel ? !l->far : !l->all || !l->fan)) {
        vp_center_level_close(l);
        return -1;
    }
    if (!parallel) {
        bin(of->all, of->views * of->lines, of->nu, by, shift, l->all);
        for (int64_t d = -2 * m; d < 2 * m; d++)
            l->fan[2 * m + d] = of->fan[2 * of->nu + d * by];
    }
    #pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t k = 0; k < items; k++) {
        float *const near = l->whole + 2 * k * m, *const back = near + m, *const w = malloc(2 * row);
        if (!w) {
            #pragma omp atomic write
            short_of = true;
            continue;
        }
        if (parallel)
            bin(of->near + k * of->nu, 1, of->nu, by, shift, near);
        else
            memcpy(near, l->all + (of->view[k / of->lines] * of->lines + k % of->lines) * m, row);
        vp_center_band(near, m, l->near + k * m, w);
        prefix(l->near + k * m, m, l->sums[0] + k * (m + 1), l->sums[1] + k * (m + 1));
        if (parallel) {
            bin(of->far + k * of->nu, 1, of->nu, by, shift, back);
            for (int64_t i = 0; i < m / 2; i++) {
                const float x = back[i];
                back[i] = back[m - 1 - i];
                back[m - 1 - i] = x;
            }
            vp_center_band(back, m, l->far + k * m, w);
            prefix(l->far + k * m, m, l->sums[2] + k * (m + 1), l->sums[3] + k * (m + 1));
        }
        free(w);
    }
    if (!short_of)
        return 0;
    vp_center_level_close(l);
    return vp_fail(err, VP_ERESOURCE, "out of memory: rows");
}

void vp_center_level_close(struct vp_center_level *l)
{
    free(l->near);
    free(l->whole);
    free(l->far);
    free(l->all);
    free(l->fan);
    for (int k = 0; k < 4; k++)
        free(l->sums[k]);
    *l = (struct vp_center_level){0};
}

/* ---- matches ---- */

static double dot(const float *a, const float *b, int64_t n)
{
    float sum[LANES] = {0};
    double all = 0;
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++)
            sum[k] += a[i + k] * b[i + k];
    for (; i < n; i++)
        all += (double)(a[i] * b[i]);
    for (int k = 0; k < LANES; k++)
        all += (double)sum[k];
    return all;
}

static struct vp_match match_of(double n, double ab, double a, double aa, double b, double bb)
{
    const double va = aa - a * a / n, vb = bb - b * b / n;

    if (!(va > 1e-9 * aa) || !(vb > 1e-9 * bb))
        return (struct vp_match){0, 0};
    const double r = (ab - a * b / n) / sqrt(va * vb);
    return (struct vp_match){fmin(fmax(r, -0.9999995), 0.9999995), (int64_t)n};
}

/* Returns the columns that both rows must see. */
static int64_t least(int64_t m)
{
    return vp_max64(LEAST, m / 20);
}

/* Returns the columns to leave out at each end of n, where one of the rows ends and its band-pass differs. */
static int64_t margin(int64_t n)
{
    return vp_min64(WIDE - 1, n / 6);
}

static struct vp_match match_parallel(const struct vp_center_level *l, int64_t k, int64_t t)
{
    const int64_t m = l->m, both = m - llabs(t), skip = margin(both), u0 = vp_max64(0, t) + skip, n = both - 2 * skip;

    if (both < least(m))
        return (struct vp_match){0, 0};
    const double *s[4];
    for (int i = 0; i < 4; i++)
        s[i] = l->sums[i] + k * (m + 1) + (i < 2 ? u0 : u0 - t);
    return match_of((double)n, dot(l->near + k * m + u0, l->far + k * m + u0 - t, n), s[0][n] - s[0][0],
                    s[1][n] - s[1][0], s[2][n] - s[2][0], s[3][n] - s[3][0]);
}

/* Opposite rays of a view for a shift: columns [u0, u1), the longest run of those that have one. */
struct opposite_run { int64_t u0, u1; struct vp_between *ray; /* one a column */ };

static void find_rays(const struct vp_center_level *l, int64_t pair, int64_t t, struct opposite_run *run)
{
    const int64_t m = l->m, lo = vp_max64(0, t), hi = vp_min64(m, m + t);
    const double angle = l->of->angle[pair] + PI;
    int64_t begin = lo;

    run->u0 = run->u1 = lo;
    for (int64_t u = lo; u < hi; u++) {
        const double fan = l->fan[2 * m + 2 * u - (m - 1 + t)];
        if (!vp_circle_at(l->of->circle, angle + 2 * l->sense * fan, &run->ray[u]) || run->ray[u].beyond) {
            begin = u + 1;
            continue;
        }
        if (u + 1 - begin > run->u1 - run->u0) {
            run->u0 = begin;
            run->u1 = u + 1;
        }
    }
}

/* Collects the samples of opposite rays of an item, in to[u0 ... u1 - 1]. */
static void opposite_rays(const struct vp_center_level *l, int64_t k, int64_t t, const struct opposite_run *run,
                          float *to)
{
    const int64_t m = l->m, lines = l->of->lines, line = k % lines;

    for (int64_t u = run->u0; u < run->u1; u++) {
        const struct vp_between *const b = &run->ray[u];
        const float *const at = l->all + line * m + m - 1 + t - u;
        to[u] = b->w[0] * at[b->view[0] * lines * m] + b->w[1] * at[b->view[1] * lines * m];
    }
}

static struct vp_match match_fan(const struct vp_center_level *l, int64_t k, int64_t t, const struct opposite_run *run,
                                 float *work)
{
    const int64_t m = l->m, u1 = run->u1;
    float *const far = work, *band = work + m;
    int64_t u0 = run->u0;

    if (u1 - u0 < least(m))
        return (struct vp_match){0, 0};
    opposite_rays(l, k, t, run, far);
    vp_center_band(far + u0, u1 - u0, band, work + 2 * m);
    const int64_t skip = margin(u1 - u0), n = u1 - u0 - 2 * skip;
    band += skip;
    u0 += skip;
    double b = 0, bb = 0;
    for (int64_t i = 0; i < n; i++) {
        b += (double)band[i];
        bb += (double)band[i] * (double)band[i];
    }
    const double *const s = l->sums[0] + k * (m + 1) + u0, *const ss = l->sums[1] + k * (m + 1) + u0;
    return match_of((double)n, dot(l->near + k * m + u0, band, n), s[n] - s[0], ss[n] - ss[0], b, bb);
}

/* Matches rows that are band-passed on what both see alone, so that their ends are alike: for few shifts. */
static struct vp_match match_exact(const struct vp_center_level *l, int64_t k, int64_t t,
                                   const struct opposite_run *run,
                                   float *work)
{
    const int64_t m = l->m;
    const float *const near = l->whole + 2 * k * m, *back = near + m;
    float *const a = work + m, *const b = work + 2 * m;
    double s[4] = {0, 0, 0, 0};
    int64_t u0 = vp_max64(0, t), u1 = vp_min64(m, m + t);

    if (l->of->fan) {
        u0 = run->u0;
        u1 = run->u1;
        opposite_rays(l, k, t, run, work);
        back = work + t; /* column u - t of a mirrored row is column u */
    }
    const int64_t n = u1 - u0;
    if (n < least(m))
        return (struct vp_match){0, 0};
    vp_center_band(near + u0, n, a, work + 3 * m);
    vp_center_band(back + u0 - t, n, b, work + 3 * m);
    for (int64_t i = 0; i < n; i++) {
        s[0] += (double)a[i];
        s[1] += (double)a[i] * (double)a[i];
        s[2] += (double)b[i];
        s[3] += (double)b[i] * (double)b[i];
    }
    return match_of((double)n, dot(a, b, n), s[0], s[1], s[2], s[3]);
}

double vp_center_fisher(struct vp_match m)
{
    return m.n > 3 ? atanh(0.98 * m.r) * sqrt((double)m.n - 3) : 0;
}

int vp_center_curve(const struct vp_center_level *l, int64_t lo, int64_t hi, int threads, double *z,
                    struct vp_match *match, struct vp_err *err)
{
    const int64_t items = l->of->items, m = l->m, lines = l->of->lines;
    float *const work = vp_alloc_raw((size_t)threads * 5, (size_t)m * sizeof *work, "rows", err);
    struct vp_between *const rays = vp_alloc_raw((size_t)threads, (size_t)m * sizeof *rays, "rows", err);

    if (!work || !rays) {
        free(work);
        free(rays);
        return -1;
    }
    #pragma omp parallel for num_threads(threads) schedule(dynamic, 4)
    for (int64_t t = lo; t <= hi; t++) {
        float *const mine = work + (int64_t)omp_get_thread_num() * 5 * m;
        struct opposite_run run = {.ray = rays + (int64_t)omp_get_thread_num() * m};
        double sum = 0;
        for (int64_t k = 0; k < items; k++) {
            if (l->of->fan && k % lines == 0)
                find_rays(l, k / lines, t, &run);
            const struct vp_match one = match ? match_exact(l, k, t, &run, mine)
                                        : l->of->fan ? match_fan(l, k, t, &run, mine) : match_parallel(l, k, t);
            sum += vp_center_fisher(one);
            if (match)
                match[(t - lo) * items + k] = one;
        }
        z[t - lo] = sum / sqrt((double)items);
    }
    free(work);
    free(rays);
    return 0;
}

double vp_center_vertex(const struct vp_match *match, int64_t items, int64_t group, int64_t first, int64_t step,
                        int64_t t)
{
    double y[3] = {0, 0, 0};

    for (int64_t k = 0; k < items; k++) {
        const struct vp_match top = match[items + k];
        if (k / group % step != first || top.n <= 3 || match[k].n <= 3 || match[2 * items + k].n <= 3)
            continue;
        /* slope of atanh; 0.01: no row counts alone */
        const double slope = sqrt((double)top.n - 3) / (1 - top.r * top.r + 0.01);
        for (int i = 0; i < 3; i++)
            y[i] += slope * match[i * items + k].r;
    }
    const double bend = y[0] - 2 * y[1] + y[2];
    return bend < 0 ? (double)t + fmin(fmax(0.5 * (y[0] - y[2]) / bend, -1), 1) : (double)t;
}

/* Computes the error of the mean of parts, which are made of groups of items in turn. */
static double spread_of(const struct vp_match *match, const struct vp_center_lines *l, int64_t group, int64_t t)
{
    const int64_t parts = vp_min64(PARTS, l->items / group);
    double part[PARTS], mean = 0, sum = 0;

    for (int64_t i = 0; i < parts; i++)
        mean += (part[i] = vp_center_vertex(match, l->items, group, i, parts, t)) / (double)parts;
    for (int64_t i = 0; i < parts; i++)
        sum += (part[i] - mean) * (part[i] - mean);
    return parts > 1 ? sqrt(sum / (double)(parts - 1) / (double)parts) : 0;
}

double vp_center_spread(const struct vp_match *match, const struct vp_center_lines *l, int64_t t)
{
    const double of_pairs = spread_of(match, l, l->lines, t);
    /* few pairs: their rows; but rows that look alike share the error of views that are extrapolated, pairs do not */
    return l->pairs >= PARTS / 2 ? of_pairs : fmax(of_pairs, spread_of(match, l, 1, t));
}
