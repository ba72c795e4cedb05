/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/footprint.h"

#include "app/image.h"
#include "app/open.h"
#include "app/tool.h"
#include "base/err.h"
#include "base/size.h"
#include "stack/stack.h"

#include <math.h>
#include <stdlib.h>

const struct vp_opt vp_footprint_file_options[] = {
    VP_FILE(struct vp_footprint_params, file, "footprint", 0, .metavar = "FILE", .group = "Neighbourhood",
            .help = "use the samples of this stack that are not 0 as the neighbourhood",
            .more = "One page is a neighbourhood within a page; several pages are one for volumes. Sample p of FILE "
                    "stands for the voxel at offset p - c. The centre c is sample n / 2 along each axis of n "
                    "samples, counted from 0, unless --center is given. At the edge of the image only voxels that "
                    "exist are used. Boxes and ellipsoids are recognised and are as fast as with lengths; other "
                    "footprints run on the CPU. FILE has at most 1048576 samples."),
    VP_REALS(struct vp_footprint_params, center, "center", 0, .metavar = "X,Y[,Z]", .min = 0, .max = VP_FOOTPRINT_MAX,
             .help = "sample of the footprint that is the centre (default: n / 2)",
             .more = "Counted from 0. Z is n / 2 if it is omitted."),
    VP_OPT_END,
};

const struct vp_opt vp_footprint_options[] = {
    VP_REALS(struct vp_footprint_params, radius, "radius", 'r', .metavar = "R|RX,RY,RZ", .def = "1",
             .min = 0, .max = VP_RADIUS_MAX, .group = "Neighbourhood",
             .help = "radius of the neighbourhood, in voxels",
             .more = "One number for all axes, or one for each of x, y, z. 0 leaves an axis out. The neighbourhood "
                     "contains the voxels whose centres are at most this far away: with --radius 1, a box has 3 x 3 "
                     "x 3 voxels, and a ball has the voxel and its six neighbours. With --physical in the unit of "
                     "the voxel size. At the edge of the image only voxels that exist are used."),
    VP_CHOICE(struct vp_footprint_params, shape, "shape", 0, "box|ball", .metavar = "SHAPE", .def = "box",
              .help = "box or ball (an ellipsoid if the radii differ)"),
    {.type = VP_T_TABLE, .table = vp_footprint_file_options},
    VP_OPT_END,
};

int vp_footprint_make(struct vp_footprint *f, const struct vp_footprint_params *p, const struct vp_images *im,
                      struct vp_err *err)
{
    double radius[3];

    if (vp_image_lengths(im, "radius", &p->radius, radius, err))
        return -1;
    if (im->size[2] == 1)
        radius[2] = 0;
    return vp_footprint_init(f, p->shape ? VP_BALL : VP_BOX, radius, err);
}

static int check(const struct vp_stack *s, const char *name, const struct vp_images *im, struct vp_err *err)
{
    if (s->pages < 0)
        return vp_fail_hint(err, VP_ERUN, "give a file", "%s: the number of pages is unknown", name);
    if (s->nx > VP_FOOTPRINT_MAX || s->ny > VP_FOOTPRINT_MAX / s->nx
        || s->pages > VP_FOOTPRINT_MAX / (s->nx * s->ny))
        return vp_fail(err, VP_ERUN, "%s: a footprint of %lld x %lld x %lld samples: expected at most %d", name,
                       (long long)s->nx, (long long)s->ny, (long long)s->pages, VP_FOOTPRINT_MAX);
    if (s->pages > 1 && im->flat)
        return vp_fail_hint(err, VP_ERUN, "take one page of it: img-cat --pages N",
                            "%s: %lld pages are a footprint for volumes, but the pages of the input are single images",
                            name, (long long)s->pages);
    return 0;
}

static int find_center(int64_t center[3], const struct vp_reals *given, const int64_t n[3], struct vp_err *err)
{
    if (given->n != 0 && given->n != 2 && given->n != 3)
        return vp_fail(err, VP_EUSAGE, "--center: expected X,Y or X,Y,Z, got %d number%s", given->n,
                       given->n == 1 ? "" : "s");
    for (int a = 0; a < 3; a++) {
        center[a] = n[a] / 2;
        if (a >= given->n)
            continue;
        const double at = given->v[a];
        if (at != floor(at) || at >= (double)n[a])
            return vp_fail(err, VP_EUSAGE, "--center: %g along %c: expected a whole number of 0 to %lld", at, "xyz"[a],
                           (long long)n[a] - 1);
        center[a] = (int64_t)at;
    }
    return 0;
}

/* Marks the samples that are not 0; `page` has room for one, in float64 after that in its own type. */
static int read_samples(uint8_t *sample, struct vp_reader *reader, const int64_t n[3], void *page, struct vp_err *err)
{
    const enum vp_type type = vp_reader_stack(reader)->type;
    const int64_t count = n[0] * n[1];
    double *const value = page;
    void *const own = value + count;
    int64_t set = 0;

    for (int64_t z = 0; z < n[2]; z++) {
        const int got = vp_reader_next(reader, own, err);
        if (got < 0)
            return -1;
        if (!got)
            return vp_fail(err, VP_ERUN, "%s: expected %lld pages, got %lld", vp_reader_name(reader), (long long)n[2],
                           (long long)z);
        vp_convert(value, VP_F64, own, type, count, 1, 0);
        for (int64_t i = 0; i < count; i++) {
            if (isnan(value[i]))
                return vp_fail(err, VP_ERUN, "%s: page %lld: sample %lld,%lld is NaN: expected numbers in a footprint",
                               vp_reader_name(reader), (long long)z, (long long)(i % n[0]), (long long)(i / n[0]));
            sample[z * count + i] = value[i] != 0;
            set += value[i] != 0;
        }
    }
    if (!set)
        return vp_fail(err, VP_ERUN, "%s: all samples are 0: expected a footprint with at least one that is not",
                       vp_reader_name(reader));
    return 0;
}

static int read_set(struct vp_footprint *f, struct vp_reader *reader, const struct vp_footprint_params *p,
                    const struct vp_images *im, struct vp_err *err)
{
    const struct vp_stack *s = vp_reader_stack(reader);

    if (check(s, vp_reader_name(reader), im, err))
        return -1;
    const int64_t n[3] = {s->nx, s->ny, s->pages};
    const size_t page = (size_t)(n[0] * n[1]);
    int64_t center[3];
    uint8_t *const sample = vp_alloc_raw(page, (size_t)n[2], "a footprint", err);
    void *const room = vp_alloc_raw(page, sizeof(double) + vp_type_size(s->type), "a footprint", err);
    const bool failed = !sample || !room || find_center(center, &p->center, n, err)
                        || read_samples(sample, reader, n, room, err) || vp_footprint_set(f, sample, n, center, err);

    free(sample);
    free(room);
    return failed ? -1 : 0;
}

int vp_footprint_open(struct vp_footprint *f, struct vp_run *run, const struct vp_footprint_params *p,
                      const struct vp_images *im, struct vp_err *err)
{
    static const char *const others[] = {"radius", "shape"};
    struct vp_reader *reader = NULL;

    if (!p->file && p->center.n)
        return vp_fail(err, VP_EUSAGE, "--center needs --footprint");
    if (!p->file)
        return vp_footprint_make(f, p, im, err);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (vp_given(run, others[i]))
            return vp_fail(err, VP_EUSAGE, "--footprint and --%s cannot be combined", others[i]);
    if (vp_open_mask(run, p->file, &reader, err))
        return -1;
    int rc = read_set(f, reader, p, im, err);
    if (vp_reader_close(reader, rc ? NULL : err))
        rc = -1;
    return rc;
}
