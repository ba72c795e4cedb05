/* SPDX-License-Identifier: BSD-3-Clause */
/* The search for the axis: all shifts on few columns, then the best one on more and more columns. */
#include "ct/center_internal.h"

#include "base/err.h"
#include "base/progress.h"
#include "base/size.h"
#include "base/sort.h"
#include "stack/views.h"

#include <math.h>
#include <stdlib.h>

enum {
    MOST_PARALLEL = 1024, MOST_FAN = 512, FEWEST = 48, /* columns of the levels on which all shifts are tried */
    LEVELS = 3,                                        /* levels, each of half the columns of the one before */
    REACH = 6,                                         /* shifts on each side on a finer level */
    LINES = 16, LINES_FAN = 4, HEIGHT = 4,             /* lines of a view, and rows of each at most */
    FEW_PAIRS = 4                                      /* up to which other views are looked at, too */
};

/* ---- reading ---- */

/* Reads a view, or the mean of two; v0 to v1 of its rows. */
int vp_center_view(const struct vp_center_request *q, const struct vp_between *b, int64_t v0, int64_t v1, float *image,
                   float *work, struct vp_err *err)
{
    const int64_t nu = q->geom->nu, rows = v1 - v0;

    for (int i = 0; i < 2; i++) {
        float *const to = i ? work + nu : image;
        if (i && b->w[1] == 0)
            break;
        if (vp_views_read(q->source, b->view[i], 1, v0, v1, to, NULL, q->threads, err) != 1)
            return vp_fail(err, VP_ERUN, "%s: view %lld is missing", vp_views_name(q->source), (long long)b->view[i]);
        for (int64_t r = 0; r < rows; r++)
            vp_center_clean(to + r * nu, nu, q->logarithm, work);
    }
    for (int64_t i = 0; i < rows * nu && b->w[1] != 0; i++)
        image[i] = b->w[0] * image[i] + b->w[1] * work[nu + i];
    return 0;
}

void vp_center_line(const struct vp_center_place *p, int64_t j, const float *image, int64_t v0, int64_t v1, float *out)
{
    const double c = cos(p->tilt), s = sin(p->tilt) * p->aspect, back = -sin(p->tilt) / p->aspect;

    for (int64_t x = 0; x < p->nu; x++)
        out[x] = 0;
    for (int64_t k = 0; k < p->height; k++) {
        const double y = (double)(p->first + j * p->stride + k) + p->down - p->cv;
        for (int64_t x = 0; x < p->nu; x++) {
            if (p->tilt == 0 && p->shift == 0 && p->down == 0) {
                out[x] += image[(p->first + j * p->stride + k - v0) * p->nu + x];
                continue;
            }
            const double along = (double)x + p->shift - p->cu;
            const double u = p->cu + along * c + y * s, v = p->cv + along * back + y * c - (double)v0;
            const double iu = fmin(fmax(floor(u), 0), (double)p->nu - 2), fu = fmin(fmax(u - iu, 0), 1);
            const double iv = fmin(fmax(floor(v), 0), fmax((double)(v1 - v0) - 2, 0)), fv = fmin(fmax(v - iv, 0), 1);
            const float *const at = image + (int64_t)iv * p->nu + (int64_t)iu;
            const float *const below = v1 - v0 > 1 ? at + p->nu : at;
            out[x] += (float)((1 - fv) * ((1 - fu) * (double)at[0] + fu * (double)at[1]) +
                              fv * ((1 - fu) * (double)below[0] + fu * (double)below[1]));
        }
    }
    for (int64_t x = 0; x < p->nu; x++)
        out[x] /= (float)p->height;
}

int vp_center_take_lines(const struct vp_center_request *q, const struct vp_center_place *p, const struct vp_between *b,
                         float *image, float *work, float *out, struct vp_err *err)
{
    const int64_t last = p->first + (p->lines - 1) * p->stride + p->height;

    if (p->tilt != 0 || p->lines == 1 || !q->pieces) {
        const int64_t v0 = p->tilt != 0 ? 0 : p->first, v1 = p->tilt != 0 ? q->geom->nv : last;
        if (vp_center_view(q, b, v0, v1, image, work, err))
            return -1;
        #pragma omp parallel for num_threads(q->threads)
        for (int64_t j = 0; j < p->lines; j++)
            vp_center_line(p, j, image, v0, v1, out + j * p->nu);
        return 0;
    }
    for (int64_t j = 0; j < p->lines; j++) {
        const int64_t v0 = p->first + j * p->stride;
        if (vp_center_view(q, b, v0, v0 + p->height, image, work, err))
            return -1;
        vp_center_line(p, j, image, v0, v0 + p->height, out + j * p->nu);
    }
    return 0;
}

/* Places the lines: over the rows in the middle, or in a fan near the plane of the orbit. */
static int place_lines(const struct vp_center_request *q, double tilt, struct vp_center_place *p, struct vp_err *err)
{
    const struct vp_geom *g = q->geom;
    const struct vp_range *want = &q->p->rows;
    const bool fan = g->beam == VP_CONE;
    int64_t lo = want->given ? want->lo : 0, hi = want->given ? vp_min64(want->hi, g->nv) : g->nv;

    if (want->given && (lo >= g->nv || lo >= hi || (want->hi > g->nv && want->hi != INT64_MAX)))
        return vp_fail(err, VP_EUSAGE, "--rows: expected rows of 0:%lld", (long long)g->nv);
    p->nu = g->nu;
    p->cu = 0.5 * (double)(g->nu - 1) + g->offset_u;
    p->cv = 0.5 * (double)(g->nv - 1) + g->offset_v;
    p->tilt = tilt * 0.017453292519943295;
    p->aspect = g->dv / g->du;
    if (!want->given && fan) {
        const double half = fmax(1, (double)g->nu / 64);
        if (p->cv < -0.5 || p->cv > (double)g->nv - 0.5)
            return vp_fail_hint(err, VP_ERUN, "--rows A:B uses others all the same",
                                "the plane of the orbit, row %.6g, is not on the detector: rays of no row have "
                                "opposites",
                                p->cv);
        lo = vp_max64(0, (int64_t)ceil(p->cv - half));
        hi = vp_min64(g->nv, (int64_t)floor(p->cv + half) + 1);
    } else if (!want->given && g->nv >= 4 * LINES) {
        lo = g->nv / 8;
        hi = g->nv - lo;
    }
    const int64_t most = fan ? LINES_FAN : LINES;
    p->lines = vp_min64(most, hi - lo);
    p->stride = (hi - lo) / p->lines;
    p->height = fan ? p->stride : vp_min64(HEIGHT, p->stride);
    p->first = lo + (hi - lo - (p->lines - 1) * p->stride - p->height) / 2;
    return 0;
}

/* Checks that the lines and what is made of them fit the memory. */
static int check_memory(const struct vp_center_request *q, const struct vp_center_lines *l, struct vp_err *err)
{
    const double nu = (double)l->nu, view = nu * (double)q->geom->nv;
    const double bytes = 4 * (3 * view + nu * (double)l->items * (l->fan ? 3 : 14)
                              + (l->fan ? 2.5 * nu * (double)(l->views * l->lines) : 0));
    const struct vp_bytes_text need = vp_bytes_text((uint64_t)fmin(bytes, 0x1p62));

    if (bytes <= (double)q->memory)
        return 0;
    vp_fail(err, VP_ERESOURCE, "the rows that are compared need %s, the memory limit is %s", need.text,
            vp_bytes_text(q->memory).text);
    return vp_hint(err, "allow --memory %s, or use fewer --rows and --pairs", need.text);
}

/* A search and its data. */
struct axis_search {
    const struct vp_center_request *q;
    struct vp_circle circle;
    struct vp_center_place place;
    struct vp_center_lines lines;
    struct vp_between *far;    /* opposite view of each pair */
    int64_t *view;
    double *angle, *fan;
    double lo, hi;             /* columns of the axis */
    bool few;                  /* the scan has at most FEW_PAIRS pairs, whatever --pairs allows */
    int threads;
};

static int read_lines(struct axis_search *s, struct vp_err *err)
{
    const struct vp_center_request *q = s->q;
    struct vp_center_lines *l = &s->lines;
    const int64_t of_view = l->lines * l->nu;
    const bool fan = l->fan;
    float *image = vp_alloc_raw((size_t)(l->nu * q->geom->nv), sizeof *image, "a view", err);
    float *work = vp_alloc_raw((size_t)(l->nu * (q->geom->nv + 1)), sizeof *work, "a view", err);
    int rc = image && work ? 0 : -1;

    if (!rc && fan)
        rc = (l->all = vp_alloc_raw((size_t)(l->views * of_view), sizeof(float), "rows of all views", err)) ? 0 : -1;
    else if (!rc)
        rc = (l->near = vp_alloc_raw((size_t)(l->pairs * of_view), sizeof(float), "rows", err)) &&
             (l->far = vp_alloc_raw((size_t)(l->pairs * of_view), sizeof(float), "rows", err)) ? 0 : -1;
    vp_progress_start(q->progress, "reading", "views", fan ? l->views : l->pairs);
    for (int64_t k = 0; k < l->views && fan && !rc; k++, vp_progress_add(q->progress, 1))
        rc = vp_center_take_lines(q, &s->place, &(struct vp_between){{k, k}, {1, 0}, false}, image, work,
                                  l->all + k * of_view, err);
    for (int64_t k = 0; k < l->pairs && !fan && !rc; k++, vp_progress_add(q->progress, 1))
        rc = vp_center_take_lines(q, &s->place, &(struct vp_between){{s->view[k], 0}, {1, 0}, false}, image, work,
                                  l->near + k * of_view, err) ||
             vp_center_take_lines(q, &s->place, &s->far[k], image, work, l->far + k * of_view, err) ? -1 : 0;
    free(image);
    free(work);
    return rc;
}

/* ---- candidates ---- */

/* The shifts of a level, and the best of them. */
struct peak {
    int64_t lo, hi, best;
    double height;           /* sum of Fisher's z, divided by the root of the items */
    double z, second, at;    /* see struct vp_center; `at` in columns of the level */
    bool none;               /* no shift has two rows that are not constant */
};

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Finds the best of candidates from p->lo to p->hi, and the next peak, by their height above all n of z, which begin
 * with shift `first`. */
static int judge(const double *z, int64_t n, int64_t first, struct peak *p, struct vp_err *err)
{
    double *rest = vp_alloc_raw((size_t)n, sizeof *rest, "candidates", err);
    const int64_t from = p->lo - first, to = p->hi - first;
    int64_t best = from, count = 0, next = -1;

    if (!rest)
        return -1;
    for (int64_t i = from; i <= to; i++)
        best = z[i] > z[best] ? i : best;
    /* the peak ends where it has fallen to half, and does not go on falling */
    int64_t lo = best, hi = best;
    while (lo > 0 && (z[lo - 1] <= z[lo] || z[lo - 1] > 0.5 * z[best]))
        lo--;
    while (hi + 1 < n && (z[hi + 1] <= z[hi] || z[hi + 1] > 0.5 * z[best]))
        hi++;
    for (int64_t i = 0; i < n; i++)
        if (i < lo || i > hi) {
            rest[count++] = z[i];
            if (i >= from && i <= to)
                next = next < 0 || z[i] > z[next] ? i : next;
        }
    double mean = 0, spread = 1; /* 1: that of independent samples */
    if (count > 4) {
        vp_sort(rest, (size_t)count, sizeof *rest, by_value);
        mean = rest[count / 2];
        for (int64_t i = 0; i < count; i++)
            rest[i] = fabs(rest[i] - mean);
        vp_sort(rest, (size_t)count, sizeof *rest, by_value);
        spread = fmax(spread, 1.4826 * rest[count / 2]);
    }
    p->best = first + best;
    p->height = z[best];
    p->z = (z[best] - mean) / spread;
    p->second = next >= 0 && z[next] > mean ? (z[next] - mean) / (z[best] - mean) : 0;
    p->at = next >= 0 ? (double)(first + next) : (double)p->best;
    p->none = !(z[best] > 0);
    free(rest);
    return 0;
}

/* Converts between shifts of a level and columns of the detector. */
static double axis_of(const struct vp_center_level *l, double t)
{
    return (((double)(l->m - 1) + t) / 2 + l->shift) * (double)l->bin + 0.5 * (double)(l->bin - 1);
}

static double shift_of(const struct vp_center_level *l, double axis)
{
    return ((axis - 0.5 * (double)(l->bin - 1)) / (double)l->bin - l->shift) * 2 - (double)(l->m - 1);
}

/* Tries all shifts of a level. */
static int try_all(const struct axis_search *s, const struct vp_center_level *l, struct peak *p, struct vp_err *err)
{
    const int64_t margin = vp_max64(8, l->m / 20);

    const int64_t first = margin - l->m, last = l->m - margin;
    p->lo = vp_max64((int64_t)ceil(shift_of(l, s->lo) - 1e-9), first);
    p->hi = vp_min64((int64_t)floor(shift_of(l, s->hi) + 1e-9), last);
    if (p->lo + 2 > p->hi)
        return vp_fail(err, VP_EUSAGE, "--search: expected a range of %lld pixels or more on the detector",
                       (long long)(2 * l->bin));
    double *z = vp_alloc_raw((size_t)(last - first + 1), sizeof *z, "candidates", err);
    const int rc = z ? vp_center_curve(l, first, last, s->threads, z, NULL, err) ||
                       judge(z, last - first + 1, first, p, err) : -1;
    free(z);
    return rc ? -1 : 0;
}

/* ---- the answer ---- */

/* Measures the best shift of a level between samples: the axis, its error among parts of the data, its drift. */
static int measure(const struct axis_search *s, const struct vp_center_level *l, int64_t t, struct vp_center *c,
                   struct vp_err *err)
{
    const int64_t items = l->of->items, lines = l->of->lines;
    struct vp_match *match = vp_alloc_raw((size_t)items * 3, sizeof *match, "matches", err);
    struct vp_match *half = vp_alloc_raw((size_t)items * 3, sizeof *half, "matches", err);
    double z[3], sum = 0, columns = 0;
    int rc = match && half ? vp_center_curve(l, t - 1, t + 1, s->threads, z, match, err) : -1;

    if (!rc) {
        c->axis = axis_of(l, vp_center_vertex(match, items, 1, 0, 1, t));
        /* the parabola alone errs by about a fiftieth of a column */
        c->error = items > 1 ? hypot(0.5 * vp_center_spread(match, l->of, t),
                                     0.02) * (double)l->bin : 0.1 * (double)l->bin;
        int64_t used = 0;
        for (int64_t k = 0; k < items; k++)
            if (match[items + k].n > 0) {
                sum += match[items + k].r;
                columns += (double)match[items + k].n;
                used++;
            }
        c->r = used ? sum / (double)used : 0;
        c->overlap = used ? columns / (double)used * (double)l->bin : 0;
        for (int side = 0; side < 2 && lines > 1; side++) {
            for (int64_t k = 0; k < 3 * items; k++) {
                const bool upper = k % items % lines >= (lines + 1) / 2, lower = k % items % lines < lines / 2;
                half[k] = (side ? upper : lower) ? match[k] : (struct vp_match){0, 0};
            }
            const double at = axis_of(l, vp_center_vertex(half, items, 1, 0, 1, t));
            c->drift = side ? at - c->drift : at;
        }
    }
    free(match);
    free(half);
    return rc ? -1 : 0;
}

/* Measures about shift t, then again on samples that lie so that the axis is in the middle of one or between two: the
 * parabola errs least there. */
static int measure_twice(const struct axis_search *s, const struct vp_center_level *l, int64_t t, struct vp_center *c,
                         struct vp_err *err)
{
    struct vp_center_level moved;

    if (measure(s, l, t, c, err))
        return -1;
    const double twice = shift_of(l, c->axis), shift = 0.5 * (twice - round(twice));
    if (vp_center_level_open(&moved, l->of, l->bin, shift, s->threads, err))
        return -1;
    const int rc = measure(s, &moved, llround(twice), c, err);
    vp_center_level_close(&moved);
    return rc;
}

/* Goes from the best shift of a level to finer ones, as long as the peak is found there. */
static int refine(const struct axis_search *s, struct vp_center_level *l, const struct peak *coarse,
                  struct vp_center *c,
                  struct vp_err *err)
{
    struct peak p = *coarse;

    while (l->bin > 1) {
        struct vp_center_level fine;
        struct peak next = {0};
        double z[2 * REACH + 1];
        if (vp_center_level_open(&fine, l->of, l->bin / 2, 0, s->threads, err))
            return -1;
        const int64_t t = llround(shift_of(&fine, axis_of(l, (double)p.best)));
        int rc = vp_center_curve(&fine, t - REACH, t + REACH, s->threads, z, NULL, err);
        int best = 0;
        for (int i = 1; i <= 2 * REACH; i++)
            best = z[i] > z[best] ? i : best;
        next.best = t - REACH + best;
        next.height = z[best];
        if (rc || best == 0 || best == 2 * REACH || next.height < 0.5 * p.height) {
            vp_center_level_close(&fine);
            if (rc)
                return -1;
            break;
        }
        vp_center_level_close(l);
        *l = fine;
        p = next;
    }
    return measure_twice(s, l, p.best, c, err);
}

/* Opens the levels on which all shifts are tried, and keeps the one on which the best is most significant. */
static int search(struct axis_search *s, struct vp_center *c, struct peak *p, struct vp_err *err)
{
    const bool fan = s->lines.fan;
    struct vp_center_level best = {0};
    int64_t bin = 1;
    int rc = 0, level = 0;

    while (s->lines.nu / bin > (fan ? MOST_FAN : MOST_PARALLEL))
        bin *= 2;
    for (; level < LEVELS && (level == 0 || s->lines.nu / bin >= FEWEST) && !rc; level++, bin *= 2) {
        struct vp_center_level l;
        struct peak here = {0};
        rc = vp_center_level_open(&l, &s->lines, bin, 0, s->threads, err);
        if (!rc && !(rc = try_all(s, &l, &here, err)) && (level == 0 || here.z > 1.5 * p->z)) {
            vp_center_level_close(&best);
            best = l;
            *p = here;
        } else
            vp_center_level_close(&l);
    }
    if (!rc && p->none)
        rc = vp_fail(err, VP_ERUN, "%s: rows and their opposites are constant: there is nothing to compare",
                     vp_views_name(s->q->source));
    if (!rc) {
        c->z = p->z;
        c->second = p->second;
        c->second_axis = axis_of(&best, p->at);
        c->best_axis = axis_of(&best, (double)p->best);
    }
    if (!rc && fan) { /* the other sense of rotation */
        struct peak other = {0};
        best.sense = -1;
        rc = try_all(s, &best, &other, err);
        best.sense = 1;
        if (!rc && other.height > 1.08 * p->height && other.z >= VP_CENTER_LEAST)
            rc = vp_fail_hint(err, VP_ERUN, s->q->geom->clockwise ? "ct-geom --counterclockwise corrects the geometry"
                                                                  : "ct-geom --clockwise corrects the geometry",
                              "%s: opposite rays agree better if the scan turns the other way (%.3g against %.3g)",
                              vp_views_name(s->q->source), other.height, p->height);
    }
    if (!rc && (p->best == p->lo || p->best == p->hi))
        rc = vp_fail_hint(err, VP_ERUN, "give --search LO,HI, or see trial slices: --try FILE.png",
                          "%s: the best axis, column %.6g, is the end of the range that was searched, %.6g to %.6g",
                          vp_views_name(s->q->source), axis_of(&best, (double)p->best), axis_of(&best, (double)p->lo),
                          axis_of(&best, (double)p->hi));
    if (!rc)
        rc = refine(s, &best, p, c, err);
    vp_center_level_close(&best);
    return rc;
}

int64_t vp_center_pick(const struct vp_circle *circle, const struct vp_view *views, int64_t n, int64_t most,
                       int64_t *view, struct vp_between *opposite)
{
    const double half = 3.14159265358979323846;
    struct vp_between b;
    int64_t found[2] = {0, 0};

    /* views whose opposite is measured, then those whose opposite lies beyond the end of the arc; and for those that
     * are spread over the scan, the same again */
    for (int64_t i = 0; i < n; i++)
        if (vp_circle_at(circle, views[i].angle + half, &b))
            found[b.beyond]++;
    const bool beyond = found[0] == 0;
    const int64_t all = found[beyond], take = vp_min64(all, most);
    for (int64_t i = 0, k = 0, taken = 0; i < n && taken < take; i++) {
        if (!vp_circle_at(circle, views[i].angle + half, &b) || b.beyond != beyond)
            continue;
        if (k++ != taken * all / take)
            continue;
        view[taken] = i;
        opposite[taken++] = b;
    }
    return take;
}

/* Finds views with opposites, and counts what they are. */
static int find_pairs(struct axis_search *s, struct vp_err *err)
{
    const struct vp_center_request *q = s->q;
    struct vp_center_lines *l = &s->lines;
    const int64_t n = q->geom->views, most = q->p->pairs;
    int64_t some[FEW_PAIRS + 1];
    struct vp_between opposite[FEW_PAIRS + 1];

    s->view = vp_alloc_raw((size_t)most, sizeof *s->view, "pairs", err);
    s->far = vp_alloc_raw((size_t)most, sizeof *s->far, "pairs", err);
    s->angle = vp_alloc_raw((size_t)most, sizeof *s->angle, "pairs", err);
    if (!s->view || !s->far || !s->angle)
        return -1;
    if (q->geom->beam == VP_CONE) {
        l->pairs = vp_min64(most, n);
        for (int64_t k = 0; k < l->pairs; k++) {
            s->view[k] = k * n / l->pairs;
            s->angle[k] = q->views[s->view[k]].angle;
        }
        s->fan = vp_alloc_raw((size_t)l->nu, 4 * sizeof *s->fan, "fan angles", err);
        for (int64_t d = -2 * l->nu; s->fan && d < 2 * l->nu; d++) {
            const double x = 0.5 * (double)d / q->views[0].fu;
            s->fan[2 * l->nu + d] = q->geom->curved ? x : atan(x);
        }
        l->fan = s->fan;
        if (!s->fan)
            return -1;
    } else {
        l->pairs = vp_center_pick(&s->circle, q->views, n, most, s->view, s->far);
        s->few = vp_center_pick(&s->circle, q->views, n, FEW_PAIRS + 1, some, opposite) <= FEW_PAIRS;
    }
    l->view = s->view;
    l->angle = s->angle;
    l->circle = &s->circle;
    l->views = n;
    return 0;
}

/* Refuses an axis of pairs that may be chance, unless the centres of mass agree with it. */
static int check_chance(const struct vp_center_request *q, const struct vp_center *c, struct vp_err *err)
{
    if (c->mass && q->p->least <= VP_CENTER_LEAST)
        return 0;
    if (!(c->z >= q->p->least))
        return vp_fail_hint(err, VP_ERUN, "see trial slices: --try FILE.png",
                            "%s: no axis stands out: the best, column %.6g, is %.2g standard deviations above the others, "
                            "expected %g or more", vp_views_name(q->source), c->best_axis, c->z, q->p->least);
    if (c->second >= VP_CENTER_RIVAL && q->p->least > 0)
        return vp_fail_hint(err, VP_ERUN, "give --search LO,HI to leave the other out, or see trial slices: --try FILE.png",
                            "%s: no axis stands out: that of column %.6g is %.2f as high as the best, of column %.6g, "
                            "expected less than %g", vp_views_name(q->source), c->second_axis, c->second, c->best_axis,
                            VP_CENTER_RIVAL);
    return 0;
}

/* Searches the axis of views that are turned back by `tilt` degrees. */
static int find_axis(struct axis_search *s, double tilt, struct vp_center *c, struct vp_err *err)
{
    struct vp_center_lines *l = &s->lines;
    struct peak p = {0};

    c->mass = false;
    if (place_lines(s->q, tilt, &s->place, err))
        return -1;
    l->lines = s->place.lines;
    l->items = l->pairs * l->lines;
    int rc = check_memory(s->q, l, err) || read_lines(s, err) || search(s, c, &p, err) ? -1 : 0;
    if (!rc && !l->fan && s->far[0].beyond) /* details far from the axis move along arcs, not lines */
        c->error = hypot(c->error, (double)l->nu / 8 * s->circle.step * s->circle.step);
    if (!rc && s->few)
        rc = vp_center_mass(s->q, &s->place, c, err);
    rc = rc || check_chance(s->q, c, err) ? -1 : 0;
    free(l->near);
    free(l->far);
    free(l->all);
    l->near = l->far = l->all = NULL;
    if (rc)
        return -1;
    c->axis = s->place.cu + (c->axis - s->place.cu) / cos(s->place.tilt);
    c->tilt = tilt;
    c->rows = l->lines * s->place.height;
    c->pairs = l->pairs;
    return 0;
}

static int check(const struct vp_center_request *q, const struct axis_search *s, struct vp_err *err)
{
    const char *name = vp_views_name(q->source);

    if (q->geom->nu < 16)
        return vp_fail(err, VP_ERUN, "%s: expected 16 columns or more, got %lld", name, (long long)q->geom->nu);
    if (q->geom->beam == VP_PARALLEL && s->lines.pairs == 0) {
        const double arc = (s->circle.angle[s->circle.n - 1] - s->circle.angle[0]) * 57.29577951308232;
        return vp_fail_hint(err, VP_ERUN, "see trial slices: --try FILE.png",
                            "%s: no two views are half a turn apart (%lld views of %.6g degrees): the axis cannot be "
                            "found",
                            name, (long long)s->circle.n, arc);
    }
    return 0;
}

int vp_center_find(const struct vp_center_request *q, struct vp_center *c, struct vp_err *err)
{
    const double middle = 0.5 * (double)(q->geom->nu - 1);
    struct axis_search s = {.q = q, .threads = q->threads, .lines.nu = q->geom->nu};
    const bool given = q->p->search.n == 2;

    *c = (struct vp_center){0};
    s.lo = given ? middle + q->p->search.v[0] : -0.5;
    s.hi = given ? middle + q->p->search.v[1] : (double)q->geom->nu - 0.5;
    int rc = vp_circle_open(&s.circle, q->views, q->geom->views, err) || find_pairs(&s, err) || check(q, &s, err) ||
             find_axis(&s, q->geom->tilt, c, err) ? -1 : 0;
    if (!rc && q->p->roll) {
        double tilt = q->geom->tilt, error = 0;
        rc = vp_center_roll(q, &s.circle, c->axis, &tilt, &error, err) || find_axis(&s, tilt, c, err) ? -1 : 0;
        c->roll_error = error;
    }
    c->offset_u = c->axis - middle;
    vp_circle_close(&s.circle);
    free(s.far);
    free(s.view);
    free(s.angle);
    free(s.fan);
    return rc;
}
