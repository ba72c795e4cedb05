/* SPDX-License-Identifier: BSD-3-Clause */
/* The roll of the detector. A line through the axes of single rows is not it: between opposite views a detail changes
 * rows, so rows match worse the wider they are. So both views are turned by each candidate, and matched as ever. */
#include "ct/center_internal.h"

#include "base/err.h"
#include "base/size.h"

#include <math.h>
#include <stdlib.h>

enum {
    MOST = 512,         /* columns and rows of the images that are turned */
    PAIRS = 128,        /* a parallel beam has an eighth of them */
    LINES = 48,
    ROUNDS = 3, ANGLES = 3, /* candidates on each side, in each round */
    REACH = 5, NEAR = 2, /* shifts on each side of the axis that is known; of the one found in the first round */
    RADIUS = 6          /* taps of the Gaussian of two pixels on each side; without it interpolation decides */
};
static const double STEP = 1, FINER = 0.3; /* degrees between candidates of the first round; and in the next */
/* Rows that lines without a roll lie below the rows of pixels: there interpolation smooths noise by 1 - 2 f (1 - f) = 2/3,
 * as it does in the mean over all places, where lines of other rolls lie. On the rows, no roll would match worst. */
static const double DOWN = 0.21132486540518712;

struct roll_images {
    struct vp_center_lines lines;
    int64_t bin, nu, nv;
    int64_t images;         /* parallel: each view and its opposite in turn; cone: all views */
    float *image;           /* images x nv x nu */
    int64_t band[2];        /* rows of the binned views that they hold */
    double cu, cv, aspect;
    int64_t first, stride;  /* rows that lines are made of */
    int64_t shift, reach;   /* shifts that are tried: from shift - reach to shift + reach */
    int threads;
};

/* Blurs an image in place. work: rows x columns. */
static void blur(float *image, int64_t nv, int64_t nu, float *work)
{
    float tap[RADIUS + 1], sum = 0;

    for (int k = 0; k <= RADIUS; k++)
        sum += (k ? 2 : 1) * (tap[k] = expf(-(float)(k * k) / 8));
    for (int k = 0; k <= RADIUS; k++)
        tap[k] /= sum;
    for (int way = 0; way < 2; way++) {
        const float *const from = way ? work : image;
        float *const to = way ? image : work;
        for (int64_t v = 0; v < nv; v++)
            for (int64_t u = 0; u < nu; u++) {
                float x = 0;
                for (int64_t k = -RADIUS; k <= RADIUS; k++) {
                    const int64_t a = vp_min64(vp_max64(u + (way ? 0 : k), 0), nu - 1);
                    const int64_t b = vp_min64(vp_max64(v + (way ? k : 0), 0), nv - 1);
                    x += tap[llabs(k)] * from[b * nu + a];
                }
                to[v * nu + u] = x;
            }
    }
}

static void shrink(const float *in, int64_t width, int64_t by, int64_t nu, int64_t nv, float *out)
{
    for (int64_t v = 0; v < nv; v++)
        for (int64_t u = 0; u < nu; u++) {
            double sum = 0;
            for (int64_t k = 0; k < by * by; k++)
                sum += (double)in[(v * by + k / by) * width + u * by + k % by];
            out[v * nu + u] = (float)(sum / (double)(by * by));
        }
}

/* Reads the views, smaller and blurred. */
static int read_images(const struct vp_center_request *q, struct roll_images *r, const int64_t *view,
                       const struct vp_between *far, struct vp_err *err)
{
    const int64_t width = q->geom->nu, rows = r->nv * r->bin, size = r->nu * r->nv, v0 = r->band[0] * r->bin;
    float *image = vp_alloc_raw((size_t)(width * rows), sizeof *image, "a view", err);
    float *work = vp_alloc_raw((size_t)(width * (rows + 1)), sizeof *work, "a view", err);
    int rc = image && work && (r->image = vp_alloc_raw((size_t)r->images, (size_t)size * sizeof(float), "views",
                                                       err)) ? 0 : -1;

    for (int64_t k = 0; k < r->images && !rc; k++) {
        const struct vp_between one = {{r->lines.fan ? k : view[k / 2], 0}, {1, 0}, false};
        rc = vp_center_view(q, !r->lines.fan && k % 2 ? &far[k / 2] : &one, v0, v0 + rows, image, work, err);
        if (!rc) {
            shrink(image, width, r->bin, r->nu, r->nv, r->image + k * size);
            blur(r->image + k * size, r->nv, r->nu, work);
        }
    }
    free(image);
    free(work);
    return rc;
}

/* Fills the lines of all views, turned back by `tilt` radians about the axis, which is in the middle of a sample or
 * between two: between others some rows would match better than others, and the roll that makes most of them do so
 * would win. */
static void turn(struct roll_images *r, double tilt)
{
    struct vp_center_lines *const l = &r->lines;

    #pragma omp parallel for num_threads(r->threads)
    for (int64_t k = 0; k < r->images; k++) {
        const struct vp_center_place p = {.nu = r->nu, .lines = l->lines, .first = r->first, .stride = r->stride,
                                          .height = 1, .cu = r->cu, .cv = r->cv, .down = DOWN, .tilt = tilt, .aspect = r->aspect,
                                          .shift = r->cu - 0.5 * (double)llround(2 * r->cu)};
        float *const to = l->fan ? l->all + k * l->lines * r->nu
                                 : (k % 2 ? l->far : l->near) + k / 2 * l->lines * r->nu;
        for (int64_t j = 0; j < l->lines; j++)
            vp_center_line(&p, j, r->image + k * r->nu * r->nv, 0, r->nv, to + j * r->nu);
    }
}

/* Scores a candidate: the height of the best shift, that shift, and the matches there. */
static int score(struct roll_images *r, double tilt, double *height, int64_t *shift, struct vp_match *match,
                 struct vp_err *err)
{
    const int n = (int)(2 * r->reach + 1);
    struct vp_center_level l;
    struct vp_match *all = vp_alloc_raw((size_t)r->lines.items, (size_t)n * sizeof *all, "matches", err);
    double z[2 * REACH + 1];

    turn(r, tilt * 0.017453292519943295);
    if (!all || vp_center_level_open(&l, &r->lines, 1, 0, r->threads, err)) {
        free(all);
        return -1;
    }
    const int rc = vp_center_curve(&l, r->shift - r->reach, r->shift + r->reach, r->threads, z, all, err);
    int best = 0;
    for (int i = 1; i < n && !rc; i++)
        best = z[i] > z[best] ? i : best;
    *height = z[best];
    *shift = r->shift - r->reach + best;
    if (!rc && best > 0 && best < n - 1) { /* the top of the parabola: shifts are whole, the best one is not */
        const double bend = z[best - 1] - 2 * z[best] + z[best + 1], slope = 0.5 * (z[best - 1] - z[best + 1]);
        *height -= bend < 0 ? 0.5 * slope * slope / bend : 0;
    }
    for (int64_t k = 0; k < r->lines.items && !rc; k++)
        match[k] = all[best * r->lines.items + k];
    vp_center_level_close(&l);
    free(all);
    return rc;
}

/* Searches the roll about *tilt, in rounds of finer steps. */
static int rounds(struct roll_images *r, double *tilt, double *error, struct vp_err *err)
{
    const int64_t items = r->lines.items;
    struct vp_match *match = vp_alloc_raw((size_t)items, (2 * ANGLES + 1) * sizeof *match, "matches", err);
    double height[2 * ANGLES + 1], step = STEP, at = *tilt;
    int64_t shift[2 * ANGLES + 1];
    int rc = match ? 0 : -1, best = 0;

    r->shift = llround(2 * r->cu) - (r->nu - 1);
    r->reach = REACH;

    for (int round = 0; round < ROUNDS && !rc; round++, step *= FINER) {
        for (int i = 0; i <= 2 * ANGLES && !rc; i++)
            rc = score(r, at + (i - ANGLES) * step, &height[i], &shift[i], match + i * items, err);
        if (rc)
            break;
        best = 0;
        for (int i = 1; i <= 2 * ANGLES; i++)
            best = height[i] > height[best] ? i : best;
        if (round == 0 && (best == 0 || best == 2 * ANGLES)) {
            rc = vp_fail_hint(err, VP_ERUN, "give a nearer one with ct-geom --tilt",
                              "the best roll is the end of the range that was searched, %g to %g degrees",
                              *tilt - ANGLES * STEP, *tilt + ANGLES * STEP);
            break;
        }
        r->shift = shift[best];
        r->reach = NEAR;
        if (round < ROUNDS - 1)
            at += (best - ANGLES) * step;
    }
    if (!rc) {
        best = best < 1 ? 1 : best > 2 * ANGLES - 1 ? 2 * ANGLES - 1 : best;
        step = STEP * FINER * FINER;
        const struct vp_match *const three = match + (best - 1) * items;
        const double bend = height[best - 1] - 2 * height[best] + height[best + 1];
        const double top = bend < 0 ? 0.5 * (height[best - 1] - height[best + 1]) / bend : 0;
        *tilt = at + ((double)(best - ANGLES) + fmin(fmax(top, -1), 1)) * step;
        /* the parabola alone errs by 0.02 degrees; in a cone beam rows have opposites only nearly, which costs 0.1 */
        *error = hypot(vp_center_spread(three, &r->lines, 0) * step, r->lines.fan ? 0.1 : 0.02);
    }
    free(match);
    return rc;
}

/* Chooses the rows that are compared, and those that turning them needs. */
static void place_rows(struct roll_images *r, const struct vp_geom *g, double tilt)
{
    const int64_t nv = g->nv / r->bin, side = (int64_t)((fabs(tilt) + ANGLES * STEP) / 57 * (double)r->nu / 2) + RADIUS;
    double middle = 0.5 * (double)(nv - 1);
    int64_t span = nv - nv / 8;

    if (r->lines.fan) { /* far from the plane of the orbit rays have no opposites */
        middle = (0.5 * (double)(g->nv - 1) + g->offset_v - 0.5 * (double)(r->bin - 1)) / (double)r->bin;
        middle = fmin(fmax(middle, 0), (double)(nv - 1));
        span = vp_min64(vp_max64(r->nu / 4, 8), nv);
    }
    int64_t first = vp_min64(vp_max64((int64_t)floor(middle - 0.5 * (double)(span - 1) + 0.5), 0), nv - span);
    r->lines.lines = vp_min64(LINES, span);
    r->stride = span / r->lines.lines;
    first += (span - (r->lines.lines - 1) * r->stride - 1) / 2;
    r->band[0] = r->lines.fan ? vp_max64(first - side, 0) : 0;
    r->band[1] = r->lines.fan ? vp_min64(first + span + side, nv) : nv;
    r->nv = r->band[1] - r->band[0];
    r->first = first - r->band[0];
    /* the axis is that of the rows' mean */
    r->cv = (double)r->first + 0.5 * (double)((r->lines.lines - 1) * r->stride);
}

/* Makes the fan angles of columns, as of struct vp_center_lines. */
static double *fan_of(const struct vp_center_request *q, int64_t nu, int64_t bin, struct vp_err *err)
{
    double *fan = vp_alloc_raw((size_t)nu, 4 * sizeof *fan, "fan angles", err);

    for (int64_t d = -2 * nu; fan && d < 2 * nu; d++) {
        const double x = 0.5 * (double)(d * bin) / q->views[0].fu;
        fan[2 * nu + d] = q->geom->curved ? x : atan(x);
    }
    return fan;
}

int vp_center_roll(const struct vp_center_request *q, const struct vp_circle *circle, double axis, double *tilt,
                   double *error, struct vp_err *err)
{
    const struct vp_geom *g = q->geom;
    struct roll_images r = {.bin = 1, .threads = q->threads, .aspect = g->dv / g->du};
    int64_t view[PAIRS];
    double angle[PAIRS], *fan = NULL;
    struct vp_between far[PAIRS];
    int rc = -1;

    while (vp_max64(g->nu, g->beam == VP_CONE ? 0 : g->nv) / r.bin > MOST)
        r.bin *= 2;
    r.nu = r.lines.nu = g->nu / r.bin;
    if (g->nv / r.bin < 16 || r.nu < 16)
        return vp_fail(err, VP_EUSAGE, "--roll: expected %lld detector rows or more, got %lld", (long long)(16 * r.bin),
                       (long long)g->nv);
    if (g->beam == VP_CONE) {
        if (!(fan = fan_of(q, r.nu, r.bin, err)))
            return -1;
        r.lines.fan = fan;
        r.lines.pairs = vp_min64(PAIRS, g->views);
        for (int64_t k = 0; k < r.lines.pairs; k++)
            angle[k] = q->views[view[k] = k * g->views / r.lines.pairs].angle;
    } else {
        r.lines.pairs = vp_center_pick(circle, q->views, g->views, PAIRS / 8, view, far);
    }
    r.lines.circle = circle;
    r.lines.view = view;
    r.lines.angle = angle;
    r.lines.views = g->views;
    r.images = fan ? g->views : 2 * r.lines.pairs;
    r.cu = (axis - 0.5 * (double)(r.bin - 1)) / (double)r.bin;
    place_rows(&r, g, *tilt);
    r.lines.items = r.lines.pairs * r.lines.lines;
    const size_t row = (size_t)r.nu * sizeof(float);
    const double bytes = (double)row * (double)r.images * (double)(r.nv + 2 * r.lines.lines) * 1.1;
    if (bytes > (double)q->memory) {
        vp_fail(err, VP_ERESOURCE, "--roll: the views that are turned need %s, the memory limit is %s",
                vp_bytes_text((uint64_t)bytes).text, vp_bytes_text(q->memory).text);
        goto out;
    }
    if (fan)
        r.lines.all = vp_alloc_raw((size_t)(g->views * r.lines.lines), row, "rows", err);
    else {
        r.lines.near = vp_alloc_raw((size_t)r.lines.items, row, "rows", err);
        r.lines.far = vp_alloc_raw((size_t)r.lines.items, row, "rows", err);
    }
    if (fan ? r.lines.all != NULL : r.lines.near && r.lines.far)
        rc = read_images(q, &r, view, far, err) || rounds(&r, tilt, error, err) ? -1 : 0;
out:
    free(r.lines.near);
    free(r.lines.far);
    free(r.lines.all);
    free(r.image);
    free(fan);
    return rc;
}
