/* SPDX-License-Identifier: BSD-3-Clause */
/* The axis from centres of mass: in parallel beam that of the object moves along a + b cos(angle) + c sin(angle), a being the
 * axis (Helgason-Ludwig, first moment), if nothing leaves the detector. All views count, where a half turn has one pair of
 * opposite views; but what is not part of the object counts, too. So it refines what the pairs have found. */
#include "ct/center_internal.h"

#include "base/err.h"
#include "base/size.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_VIEWS = 64, FEWEST_VIEWS = 8 };

/* Samples at the ends, relative to the mean of the rows, and deviation of masses, relative to their mean, up to which nothing is
 * taken to leave the detector; noise of masses, likewise, up to which their centers are of use; the error that is of use, in
 * pixels. */
static const double MOST_AT_ENDS = 0.1, MOST_DEVIATION = 0.03, MOST_NOISE = 0.06, MOST_ERROR = 0.5;
/* Difference from the axis of the pairs up to which both agree: pixels, and standard deviations beyond the error of a parabola. */
static const double MOST_APART = 1, MOST_SIGMAS = 3, PARABOLA = 0.02;

/* Sums over the views of a row: of its ends, and of masses. */
struct line_sums { double left, right, mass; bool empty; };

/* Sets the mass of a row above the line through its ends, and the centre of it; adds to the sums. */
static void moment(const float *f, int64_t n, double *mass, double *centre, struct line_sums *s)
{
    const int64_t edge = vp_max64(4, n / 32);
    double left = 0, right = 0, sum = 0, first = 0;
    for (int64_t i = 0; i < edge; i++) {
        left += (double)f[i] / (double)edge;
        right += (double)f[n - 1 - i] / (double)edge;
    }
    for (int64_t i = 0; i < n; i++) {
        const double along = (double)i - 0.5 * (double)(n - 1);
        const double above = (double)f[i] - 0.5 * (left + right) - (right - left) * along / (double)(n - edge);
        sum += above;
        first += above * along;
    }
    *mass = sum;
    *centre = sum > 0 ? first / sum + 0.5 * (double)(n - 1) : 0;
    s->left += left;
    s->right += right;
    s->mass += sum;
    s->empty |= !(sum > 0);
}

/* Weights of the constant of the fit for each view, whose squares have the sum `square`. False if angles leave it open. */
static bool fit_weights(const double *angle, int64_t n, double *weight, double *square)
{
    double c = 0, s = 0, cc = 0, cs = 0, ss = 0;
    for (int64_t i = 0; i < n; i++) {
        const double x = cos(angle[i]), y = sin(angle[i]);
        c += x, s += y, cc += x * x, cs += x * y, ss += y * y;
    }
    /* first row of the inverse of the normal equations */
    const double m0 = cc * ss - cs * cs, m1 = s * cs - c * ss, m2 = c * cs - s * cc, det = (double)n * m0 + c * m1 + s * m2;
    if (!(det > 1e-6 * (double)(n * n * n)))
        return false;
    *square = m0 / det;
    for (int64_t i = 0; i < n; i++)
        weight[i] = (m0 + m1 * cos(angle[i]) + m2 * sin(angle[i])) / det;
    return true;
}

/* Fits one line: centre[i * stride] of view i. Returns the mean square of what is left. */
static double left_over(const double *angle, const double *centre, int64_t n, int64_t stride, double axis)
{
    double cc = 0, cs = 0, ss = 0, cd = 0, sd = 0, sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const double x = cos(angle[i]), y = sin(angle[i]), d = centre[i * stride] - axis;
        cc += x * x, cs += x * y, ss += y * y, cd += x * d, sd += y * d;
    }
    const double det = cc * ss - cs * cs, b = (cd * ss - sd * cs) / det, e = (sd * cc - cd * cs) / det;
    for (int64_t i = 0; i < n; i++) {
        const double d = centre[i * stride] - axis - b * cos(angle[i]) - e * sin(angle[i]);
        sum += d * d;
    }
    return sum / (double)vp_max64(1, n - 3);
}

/* Sorts the views by their angles. */
static void sort_views(const double *angle, int64_t n, int64_t *order)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t k = i;
        for (; k > 0 && angle[order[k - 1]] > angle[i]; k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
}

/* True if the masses of a line are alike, but for noise: an object that leaves the detector changes them slowly, so noise is
 * what neighbouring views differ in (von Neumann, Ann. Math. Stat. 12 (1941) 367), within 3 standard deviations of that.
 * *noise: its variance, relative to the squared mean. */
static bool constant(const double *mass, const int64_t *order, int64_t n, int64_t stride, double mean, double *noise)
{
    double square = 0;
    *noise = 0;
    for (int64_t i = 0; i < n; i++) {
        const double d = mass[i * stride] / mean - 1;
        const double step = i ? (mass[order[i] * stride] - mass[order[i - 1] * stride]) / mean : 0;
        square += d * d / (double)n;
        *noise += step * step / (double)(2 * (n - 1));
    }
    return *noise <= MOST_NOISE * MOST_NOISE
           && square <= MOST_DEVIATION * MOST_DEVIATION + *noise * (1 + 3 / sqrt((double)n));
}

/* Computes the axis and its error from the lines that stay on the detector, or error = infinity. The error is the larger of
 * two: what the fits leave, and the differences of lines, in which a detector's own pattern shows. */
static void fit(const double *angle, const double *mass, const double *centre, const struct line_sums *sums, int64_t n,
                int64_t lines, int64_t nu, double *weight, double *axis, double *error)
{
    double square, sum = 0, squares = 0, noise = 0;
    int64_t used = 0, order[MOST_VIEWS];
    const double middle = 0.5 * (double)(nu - 1);
    sort_views(angle, n, order);
    *error = INFINITY;
    if (!fit_weights(angle, n, weight, &square))
        return;
    for (int64_t j = 0; j < lines; j++) {
        double at = 0, of_mass;
        const double ends = fmax(fabs(sums[j].left), fabs(sums[j].right)), mean = sums[j].mass / (double)n;
        if (sums[j].empty || ends > MOST_AT_ENDS * sums[j].mass / (double)nu
            || !constant(mass + j, order, n, lines, mean, &of_mass))
            continue;
        for (int64_t i = 0; i < n; i++)
            at += weight[i] * centre[i * lines + j];
        at = middle + (at - middle) / (1 + of_mass); /* the mean of a quotient by a noisy mass is larger by that */
        sum += at;
        squares += at * at;
        noise += left_over(angle, centre + j, n, lines, at);
        used++;
    }
    if (2 * used < lines)
        return;
    const double m = (double)used, within = sqrt(noise / m * square / m);
    *axis = sum / m;
    *error = used > 1 ? fmax(within, sqrt(fmax(0, squares / m - *axis * *axis) / (m - 1))) : hypot(within, 0.1);
    *error = fmax(*error, 0.02);
}

int vp_center_mass(const struct vp_center_request *q, const struct vp_center_place *p, struct vp_center *c, struct vp_err *err)
{
    const int64_t n = vp_min64(q->geom->views, MOST_VIEWS), lines = p->lines;
    if (n < FEWEST_VIEWS)
        return 0;
    const size_t items = (size_t)(n * lines);
    float *const image = vp_alloc_raw((size_t)(p->nu * q->geom->nv), sizeof *image, "a view", err);
    float *const work = vp_alloc_raw((size_t)(p->nu * (q->geom->nv + 1)), sizeof *work, "a view", err);
    float *const line = vp_alloc_raw((size_t)(lines * p->nu), sizeof *line, "rows", err);
    double *const values = vp_alloc_raw(2 * items + 2 * (size_t)n, sizeof *values, "centres of mass", err);
    struct line_sums *const sums = vp_alloc((size_t)lines, sizeof *sums, "rows", err);
    int rc = image && work && line && values && sums ? 0 : -1;
    double *const mass = values, *const centre = values + items, *const angle = centre + items, *const weight = angle + n;

    for (int64_t i = 0; i < n && !rc; i++) {
        const int64_t view = i * q->geom->views / n;
        angle[i] = q->views[view].angle;
        rc = vp_center_take_lines(q, p, &(struct vp_between){{view, view}, {1, 0}, false}, image, work, line, err);
        for (int64_t j = 0; j < lines && !rc; j++)
            moment(line + j * p->nu, p->nu, &mass[i * lines + j], &centre[i * lines + j], &sums[j]);
    }
    if (!rc) {
        double axis = 0, error;
        fit(angle, mass, centre, sums, n, lines, p->nu, weight, &axis, &error);
        const double apart = fabs(axis - c->axis), both = hypot(error, c->error);
        /* an axis of pairs that may be chance has no weight */
        const double a = 1 / (error * error), b = c->z >= q->p->least ? 1 / (c->error * c->error) : 0;
        const double mean = (a * axis + b * c->axis) / (a + b), middle = 0.5 * (double)(q->geom->nu - 1);
        const bool inside = q->p->search.n != 2
                         || (mean >= middle + q->p->search.v[0] && mean <= middle + q->p->search.v[1]);
        if (error <= MOST_ERROR && apart <= fmin(MOST_APART, MOST_SIGMAS * both + PARABOLA) && inside) {
            c->axis = mean;
            c->error = fmax(1, apart / both) / sqrt(a + b);
            c->mass = true;
        }
    }
    free(image);
    free(work);
    free(line);
    free(values);
    free(sums);
    return rc;
}
