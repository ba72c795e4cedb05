/* SPDX-License-Identifier: BSD-3-Clause */
/* Boxes and ellipsoids as neighbourhoods: their voxels as spans along x. */
#include "local/footprint.h"

#include "base/err.h"
#include "base/size.h"

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
        f->reach[a] = (int64_t)floor(r[a]);
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

const char *vp_footprint_text(const struct vp_footprint *f, char *text, size_t size)
{
    if (f->shape == VP_BOX)
        snprintf(text, size, "box %lld x %lld x %lld", (long long)(2 * f->reach[0] + 1),
                 (long long)(2 * f->reach[1] + 1), (long long)(2 * f->reach[2] + 1));
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
