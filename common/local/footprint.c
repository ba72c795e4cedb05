/* SPDX-License-Identifier: BSD-3-Clause */
/* Neighbourhoods: boxes, ellipsoids and sets of offsets, their voxels as spans along x. */
#include "local/footprint.h"

#include "base/err.h"
#include "base/size.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLACK 1e-6

/* Spans of an ellipsoid. */
static void list_spans(struct vp_footprint *f, const double r[3])
{
    f->count = 0;
    for (int64_t dz = -f->reach[2]; dz <= f->reach[2]; dz++) {
        const double z = (double)dz / r[2];
        for (int64_t dy = -f->reach[1]; dy <= f->reach[1]; dy++) {
            const double y = (double)dy / r[1], left = 1 - z * z - y * y;
            if (left < 0)
                continue;
            const int64_t h = (int64_t)floor(r[0] * sqrt(left));
            f->span[f->spans++] = (struct vp_span){(int32_t)dz, (int32_t)dy, (int32_t)-h, (int32_t)h};
            f->count += 2 * h + 1;
        }
    }
}

int vp_footprint_init(struct vp_footprint *f, enum vp_shape shape, const double radius[3], struct vp_err *err)
{
    double r[3];

    *f = (struct vp_footprint){.shape = shape, .count = 1};
    for (int a = 0; a < 3; a++) {
        if (!(radius[a] >= 0 && radius[a] <= VP_RADIUS_MAX))
            return vp_fail(err, VP_EUSAGE, "a neighbourhood of radius %g: expected 0 to %.0f voxels", radius[a],
                           VP_RADIUS_MAX);
        f->radius[a] = radius[a];
        r[a] = radius[a] + SLACK;
        f->reach[a] = f->hi[a] = (int64_t)floor(r[a]);
        f->lo[a] = -f->reach[a];
        f->count *= 2 * f->reach[a] + 1;
    }
    if (shape == VP_BOX)
        return 0;
    if (f->count > INT32_MAX) /* radii of the box around it */
        return vp_fail(err, VP_EUSAGE, "a ball of %lld x %lld x %lld voxels is too large",
                       (long long)(2 * f->reach[0] + 1), (long long)(2 * f->reach[1] + 1),
                       (long long)(2 * f->reach[2] + 1));
    f->span = malloc((size_t)((2 * f->reach[1] + 1) * (2 * f->reach[2] + 1)) * sizeof *f->span);
    if (!f->span)
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    list_spans(f, r);
    return 0;
}

void vp_footprint_free(struct vp_footprint *f)
{
    free(f->span);
    f->span = NULL;
    f->spans = 0;
}

/* ---- sets ---- */

/* Returns the spans of a grid's samples; stores them unless `to` is NULL. */
static int64_t find_spans(struct vp_span *to, const uint8_t *sample, const int64_t n[3], const int64_t center[3])
{
    int64_t spans = 0;

    for (int64_t i = 0; i < n[1] * n[2]; i++)
        for (int64_t x = 0, end; x < n[0]; x = end + 1) {
            const uint8_t *const row = sample + i * n[0];
            while (x < n[0] && !row[x])
                x++;
            for (end = x; end < n[0] && row[end]; end++)
                ;
            if (end == x)
                break;
            if (to)
                to[spans] = (struct vp_span){(int32_t)(i / n[1] - center[2]), (int32_t)(i % n[1] - center[1]),
                                             (int32_t)(x - center[0]), (int32_t)(end - 1 - center[0])};
            spans++;
        }
    return spans;
}

/* Completes the footprint from its spans. */
static void measure(struct vp_footprint *f)
{
    f->count = 0;
    for (int64_t i = 0; i < f->spans; i++) {
        const struct vp_span *s = &f->span[i];
        const int64_t from[3] = {s->x0, s->dy, s->dz}, to[3] = {s->x1, s->dy, s->dz};
        for (int a = 0; a < 3; a++) {
            f->lo[a] = i ? vp_min64(f->lo[a], from[a]) : from[a];
            f->hi[a] = i ? vp_max64(f->hi[a], to[a]) : to[a];
            f->reach[a] = vp_max64(-f->lo[a], f->hi[a]);
        }
        f->count += s->x1 - s->x0 + 1;
    }
}

/* Tries a ball in place of the set: 1 if it has the same voxels and replaces it, 0 if not, -1: an error. */
static int try_ball(struct vp_footprint *f, const double radius[3], struct vp_err *err)
{
    struct vp_footprint ball;

    if (vp_footprint_init(&ball, VP_BALL, radius, err))
        return -1;
    const bool same = ball.spans == f->spans && !memcmp(ball.span, f->span, (size_t)f->spans * sizeof *f->span);
    if (same) {
        struct vp_footprint set = *f;
        *f = ball;
        ball = set;
    }
    vp_footprint_free(&ball);
    return same;
}

/* Replaces the set by the box or the ball that it is. */
static int simplify(struct vp_footprint *f, struct vp_err *err)
{
    double most = 0, radius[3][3];
    int64_t box = 1;

    for (int a = 0; a < 3; a++) {
        if (f->lo[a] != -f->hi[a])
            return 0;
        box *= 2 * f->reach[a] + 1;
    }
    if (f->count == box) {
        const double r[3] = {(double)f->reach[0], (double)f->reach[1], (double)f->reach[2]};
        vp_footprint_free(f);
        return vp_footprint_init(f, VP_BOX, r, err);
    }
    for (int64_t i = 0; i < f->spans; i++) {
        const struct vp_span *s = &f->span[i];
        const double x = fmax(-s->x0, s->x1), y = s->dy, z = s->dz;
        most = fmax(most, x * x + y * y + z * z);
    }
    for (int a = 0; a < 3; a++) {
        radius[0][a] = (double)f->reach[a];
        radius[1][a] = f->reach[a] ? (double)f->reach[a] + .5 : 0;
        radius[2][a] = f->reach[a] ? sqrt(most) : 0;
    }
    for (int k = 0; k < 3; k++) {
        const int is = try_ball(f, radius[k], err);
        if (is)
            return is < 0 ? -1 : 0;
    }
    return 0;
}

int vp_footprint_set(struct vp_footprint *f, const uint8_t *sample, const int64_t n[3], const int64_t center[3],
                     struct vp_err *err)
{
    *f = (struct vp_footprint){.shape = VP_OFFSETS, .spans = find_spans(NULL, sample, n, center)};
    assert(f->spans > 0);
    f->span = vp_alloc_raw((size_t)f->spans, sizeof *f->span, "a footprint", err);
    if (!f->span)
        return -1;
    find_spans(f->span, sample, n, center);
    measure(f);
    return simplify(f, err);
}

int vp_footprint_reflect(struct vp_footprint *to, const struct vp_footprint *f, struct vp_err *err)
{
    *to = *f;
    to->span = NULL;
    if (!f->spans)
        return 0;
    to->span = vp_alloc_raw((size_t)f->spans, sizeof *to->span, "a footprint", err);
    if (!to->span)
        return -1;
    for (int64_t i = 0; i < f->spans; i++) {
        const struct vp_span *s = &f->span[f->spans - 1 - i];
        to->span[i] = (struct vp_span){-s->dz, -s->dy, -s->x1, -s->x0};
    }
    measure(to);
    return 0;
}

bool vp_footprint_centered(const struct vp_footprint *f)
{
    bool is = f->shape != VP_OFFSETS;

    for (int64_t i = 0; i < f->spans; i++) {
        const struct vp_span *s = &f->span[i];
        is = is || (s->dz == 0 && s->dy == 0 && s->x0 <= 0 && s->x1 >= 0);
    }
    return is;
}

const char *vp_footprint_text(const struct vp_footprint *f, char *text, size_t size)
{
    if (f->shape == VP_BOX)
        snprintf(text, size, "box %lld x %lld x %lld", (long long)(2 * f->reach[0] + 1),
                 (long long)(2 * f->reach[1] + 1), (long long)(2 * f->reach[2] + 1));
    else if (f->shape == VP_OFFSETS)
        snprintf(text, size, "footprint %lld x %lld x %lld, %lld voxels", (long long)(f->hi[0] - f->lo[0] + 1),
                 (long long)(f->hi[1] - f->lo[1] + 1), (long long)(f->hi[2] - f->lo[2] + 1), (long long)f->count);
    else
        snprintf(text, size, "ball of radius %g %g %g, %lld voxels", f->radius[0], f->radius[1], f->radius[2],
                 (long long)f->count);
    return text;
}

void *vp_footprint_op(struct vp_op *op, const char *kernel, size_t size, const struct vp_footprint *f,
                      const int64_t image[3], enum vp_type in, enum vp_type out, struct vp_err *err)
{
    struct vp_footprint *const own = calloc(1, size);
    struct vp_span *const span = malloc((size_t)(f->spans + 1) * sizeof *span);

    if (!own || !span) {
        free(own);
        free(span);
        vp_fail(err, VP_ERESOURCE, "out of memory");
        return NULL;
    }
    *own = *f;
    own->span = span;
    if (f->spans)
        memcpy(span, f->span, (size_t)f->spans * sizeof *span);
    *op = (struct vp_op){.kernel = kernel, .inputs = 1, .from = {~0}, .in = in, .out = out, .params = own,
                         .free = vp_footprint_op_free, .holds = (uint64_t)f->spans * sizeof *span};
    for (int a = 0; a < 3; a++) {
        op->image[a] = image[a];
        op->halo[a] = vp_min64(f->reach[a], image[a] - 1);
    }
    return own;
}

double vp_footprint_most(const struct vp_footprint *f, const struct vp_op *op)
{
    double n = 1;

    for (int a = 0; a < 3; a++)
        n *= (double)vp_min64(2 * op->halo[a] + 1, op->image[a]);
    return fmin(n, (double)f->count);
}

void vp_footprint_op_free(void *params)
{
    if (params)
        vp_footprint_free(params);
    free(params);
}
