/* SPDX-License-Identifier: BSD-3-Clause */
/* The total variation, isotropic, of differences between neighbours (not divided by the voxel's size), 0 at the faces;
 * and its proximal operator by projected gradients on the dual (Chambolle 2004, Beck and Teboulle 2009). */
#include "ct/iterate_internal.h"

#include "base/size.h"

#include <math.h>

struct smoothing {
    struct vp_iteration *it;
    const float *z;
    float *x, *const *p;
    float weight, step;     /* step on the dual: 1 / (4 weight, number of axes) */
};

/* Sets x = the part of z - weight (transposed differences of p) that the bounds allow, in row y of slice z. */
static void primal_row(const void *ctx, int64_t row)
{
    const struct smoothing *s = ctx;
    const struct vp_iterate *job = s->it->job;
    const int64_t *n = job->grid->n, at = row * n[0], j = row % n[1], k = row / n[1];
    const float lo = (float)job->min, hi = (float)job->max;
    const float *px = s->p[0] + at, *py = s->p[1] + at, *pz = s->p[2] + at;
    for (int64_t i = 0; i < n[0]; i++) {
        float sum = -px[i] - py[i] - pz[i];
        sum += i > 0 ? px[i - 1] : 0;
        sum += j > 0 ? py[i - n[0]] : 0;
        sum += k > 0 ? pz[i - s->it->page] : 0;
        const float x = s->z[at + i] - s->weight * sum;
        const bool free = !job->mask || job->mask[at + i] != 0;
        s->x[at + i] = free ? fminf(fmaxf(x, lo), hi) : s->z[at + i];
    }
}

static void dual_row(const void *ctx, int64_t row)
{
    const struct smoothing *s = ctx;
    const int64_t *n = s->it->job->grid->n, at = row * n[0], j = row % n[1], k = row / n[1];
    const float *x = s->x + at;
    float *px = s->p[0] + at, *py = s->p[1] + at, *pz = s->p[2] + at;
    for (int64_t i = 0; i < n[0]; i++) {
        const float a = px[i] + s->step * (i + 1 < n[0] ? x[i + 1] - x[i] : 0);
        const float b = py[i] + s->step * (j + 1 < n[1] ? x[i + n[0]] - x[i] : 0);
        const float c = pz[i] + s->step * (k + 1 < n[2] ? x[i + s->it->page] - x[i] : 0);
        const float size = sqrtf(a * a + b * b + c * c), by = size > 1 ? 1 / size : 1;
        px[i] = a * by;
        py[i] = b * by;
        pz[i] = c * by;
    }
}

void vp_iterate_smooth(struct vp_iteration *it, const float *z, double weight, float *const p[3], float *x)
{
    const int64_t *n = it->job->grid->n;
    const int axes = (n[0] > 1) + (n[1] > 1) + (n[2] > 1);
    const struct smoothing s = {.it = it, .z = z, .x = x, .p = p, .weight = (float)weight,
                          .step = (float)(1 / (4 * weight * (axes > 0 ? axes : 1)))};
    const struct vp_slice_use to_x = {.read = {z, p[0], p[1], p[2], it->job->mask}, .write = {x}};
    const struct vp_slice_use to_p = {.read = {x}, .write = {p[0], p[1], p[2]}};
    for (int step = 0; step <= VP_ITERATE_INNER; step++) {
        vp_iterate_next(it, p[2], false);
        vp_iterate_rows(it, &to_x, primal_row, &s);
        if (step == VP_ITERATE_INNER || !(weight > 0))
            break;
        vp_iterate_next(it, x, true);
        vp_iterate_rows(it, &to_p, dual_row, &s);
    }
}

struct variation { const struct vp_iteration *it; const float *x; };

static void add_variation(void *ctx, int64_t at, int64_t count, struct vp_volume_sums *sums)
{
    const struct variation *v = ctx;
    const int64_t *n = v->it->job->grid->n, page = v->it->page;
    for (int64_t m = at; m < at + count; m++) {
        const int64_t i = m % n[0], j = m % page / n[0], k = m / page;
        const double x = (double)v->x[m];
        const double a = i + 1 < n[0] ? (double)v->x[m + 1] - x : 0, b = j + 1 < n[1] ? (double)v->x[m + n[0]] - x : 0;
        const double c = k + 1 < n[2] ? (double)v->x[m + page] - x : 0;
        sums->sum += sqrt(a * a + b * b + c * c);
    }
}

double vp_iterate_variation(struct vp_iteration *it, const float *x)
{
    return vp_iterate_slices(it, &(struct vp_slice_use){.read = {x}}, add_variation, &(struct variation){it, x}).sum;
}
