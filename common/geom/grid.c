/* SPDX-License-Identifier: BSD-3-Clause */
/* The volume: field of view, options, and the header of its stack. */
#include "geom/draft.h"
#include "base/err.h"
#include <math.h>

#define P struct vp_grid_params
const struct vp_opt vp_grid_options[] = {
    VP_SIZE(P, volume, "volume", 0, .metavar = "WxHxD", .group = "Volume",
            .help = "size in voxels (default: the field of view)",
            .more = "W is along x, H along y, D along z. W alone means W x W. Without D, the volume covers all that "
                    "the detector sees of the axis. With --volume alone, the voxel size is chosen so that the larger "
                    "of W and H covers the field of view."),
    VP_REALS(P, voxel, "voxel", 0, .metavar = "MM", .min = 1e-9, .max = 1e9,
             .help = "edge of a voxel in mm, or x,y,z (default: detector pitch scaled to the axis)",
             .more = "The default is pitch * sod / sdd. With --voxel alone, the volume covers the field of view."),
    VP_REALS(P, center, "center", 0, .metavar = "X,Y,Z", .min = -1e9, .max = 1e9,
             .help = "centre of the volume in mm (default: 0,0,Z, on the rotation axis)",
             .more = "Z is 0 if the detector sees the plane of the orbit (z = 0). Otherwise Z is the middle of the "
                     "part of the axis that the detector sees, and on a helix the middle of the slices that are seen "
                     "from all directions."),
    VP_RANGE(P, slab, "slab", 0, .metavar = "Z0:Z1",
             .help = "compute only slices Z0 to Z1 - 1 of the volume",
             .more = "Each slice has the same bits as in the whole volume, so slabs can be made separately and "
                     "joined with ct-reduce(1)."),
    VP_OPT_END,
};
#undef P

/* Sine of the elevation of rays beyond which the field of view has another shape. */
static const double TILTED = 0.05;

static bool is_visible(const struct vp_geom *g, const struct vp_view *v, double x, double y)
{
    const double w = v->P[8] * x + v->P[9] * y + v->P[11], u = (v->P[0] * x + v->P[1] * y + v->P[3]) / w;
    const double row = (v->P[4] * x + v->P[5] * y + v->P[7]) / w;
    return w > 0 && u >= -0.5 && u <= (double)g->nu - 0.5 && row >= -0.5 && row <= (double)g->nv - 0.5;
}

/* Returns the radius of the largest disc in the plane z = 0 that a tilted view sees, at most `most`. */
static double largest_disc(const struct vp_geom *g, const struct vp_view *v, double most)
{
    enum { AROUND = 64, STEPS = 40 };
    double lo = 0, hi = most;
    for (int step = 0; step < STEPS; step++) {
        const double r = step ? (lo + hi) / 2 : hi;
        bool all = true;
        for (int i = 0; i < AROUND && all; i++)
            all = is_visible(g, v, r * cos(2 * M_PI * i / AROUND), r * sin(2 * M_PI * i / AROUND));
        if (all && step == 0)
            return hi;
        *(all ? &lo : &hi) = r;
    }
    return lo;
}

/* Sets the field of view of tilted views (laminography): a disc in the plane z = 0, as high as the part of the axis
 * that the views see, but not higher than wide. */
static void tilted_fov(const struct vp_geom *g, const struct vp_view *views, struct vp_fov *fov)
{
    double most = INFINITY;
    for (int64_t k = 0; k < g->views; k++) {
        double s[3];
        vp_view_source(&views[k], s);
        most = fmin(most, vp_view_parallel(&views[k]) ? 1e3 * (double)(g->nu + g->nv) * fov->pixel : hypot(s[0], s[1]));
    }
    fov->radius = most;
    fov->lo = INFINITY;
    fov->hi = -INFINITY;
    for (int64_t k = 0; k < g->views; k++) {
        double lo, hi;
        fov->radius = largest_disc(g, &views[k], fov->radius);
        vp_view_axis(g, &views[k], &lo, &hi);
        if (lo <= hi) {
            fov->lo = fmin(fov->lo, lo);
            fov->hi = fmax(fov->hi, hi);
        }
    }
    if (fov->lo < 0 && fov->hi > 0) {
        fov->lo = fmax(fov->lo, -fov->radius);
        fov->hi = fmin(fov->hi, fov->radius);
    }
}

struct vp_fov vp_geom_fov(const struct vp_geom *g, const struct vp_view *views, const struct vp_scan *scan)
{
    struct vp_fov fov = {.radius = INFINITY, .lo = INFINITY, .hi = -INFINITY};
    const double edge[2] = {-0.5, (double)g->nv - 0.5};
    double pixel = 0;
    bool tilted = vp_scan_turned(scan);
    for (int64_t k = 0; k < g->views; k++) {
        const struct vp_view *v = &views[k];
        const bool parallel = vp_view_parallel(v);
        const double sign = v->fu < 0 ? -1 : 1;
        const double left = -sign * vp_view_fan(v, vp_view_column(g, v, -0.5));
        const double right = sign * vp_view_fan(v, vp_view_column(g, v, (double)g->nu - 0.5));
        const double side = scan->offset ? fmax(left, right) : fmin(left, right);
        double s[3];
        vp_view_source(v, s);
        tilted |= parallel ? fabs(s[2]) > TILTED : fabs(v->P[10]) > TILTED;
        const double r = parallel ? side : hypot(s[0], s[1]) * sin(fmin(side, 1.57));
        fov.radius = fmin(fov.radius, r);
        pixel += (parallel ? 1 : v->sod) / fabs(v->fu) / (double)g->views;
        for (int i = 0; i < 2; i++) {
            /* Intersection of the rotation axis (0, 0, z) with the first and the last edge of the detector's rows. */
            const double z = (edge[i] * v->P[11] - v->P[7]) / (v->P[6] - edge[i] * v->P[10]);
            if (!isfinite(z))
                continue;
            fov.lo = fmin(fov.lo, z);
            fov.hi = fmax(fov.hi, z);
        }
    }
    if (scan->helix.pitch != 0) {
        fov.lo = scan->helix.z_lo;
        fov.hi = scan->helix.z_hi;
        fov.exact = true;
    }
    if (!g->matrix)
        pixel = g->beam == VP_CONE ? fabs(g->du) * g->sod / g->sdd : fabs(g->du);
    fov.pixel = pixel;
    if (tilted && scan->helix.pitch == 0 && !scan->offset)
        tilted_fov(g, views, &fov);
    if (!(fov.hi - fov.lo >= pixel)) {
        const double middle = fov.lo <= fov.hi ? (fov.lo + fov.hi) / 2 : 0;
        fov.lo = middle - 0.5 * pixel;
        fov.hi = middle + 0.5 * pixel;
    }
    return fov;
}

/* Limits of voxels along an edge and in all; beyond, sizes in bytes could exceed 64 bits and loops would not end. */
static const double MOST_EDGE = 1e9, MOST_VOXELS = 0x1p50;

/* Returns the number of voxels that cover `length`, tolerating rounding; 0 if it is not sensible. */
static int64_t cover(double length, double voxel)
{
    const double n = ceil(length / voxel * (1 - 1e-12) - 1e-6);
    return n >= 0 && n < MOST_EDGE ? (n < 1 ? 1 : (int64_t)n) : 0;
}

/* Returns middle and height of the default volume: the part of the axis that is seen, or, if the plane of the orbit is
 * seen (except on a helix), the same extent on both sides of it. */
static void span_of(const struct vp_fov *fov, double *middle, double *height)
{
    const bool plane = fov->lo < 0 && fov->hi > 0 && !fov->exact;
    *middle = plane ? 0 : (fov->lo + fov->hi) / 2;
    *height = plane ? 2 * fmax(-fov->lo, fov->hi) : fov->hi - fov->lo;
}

static int choose_size(struct vp_grid *grid, const struct vp_grid_params *o, const struct vp_fov *fov,
                       struct vp_err *err)
{
    const struct vp_size *size = &o->volume;
    if (size->n) {
        grid->n[0] = size->v[0];
        grid->n[1] = size->n > 1 ? size->v[1] : size->v[0];
    }
    if (o->voxel.n) {
        for (int i = 0; i < 3; i++)
            grid->voxel[i] = o->voxel.v[o->voxel.n == 3 ? i : 0];
    } else {
        const double across = (double)(grid->n[0] > grid->n[1] ? grid->n[0] : grid->n[1]);
        const double voxel = !fov ? 1 : size->n ? 2 * fov->radius / across : fov->pixel;
        for (int i = 0; i < 3; i++)
            grid->voxel[i] = voxel;
    }
    if (!size->n)
        for (int i = 0; i < 2; i++) { /* an even number, or 1 */
            const int64_t n = cover(2 * fov->radius, grid->voxel[i]);
            grid->n[i] = n > 1 ? n + (n & 1) : n;
        }
    double height = 0;
    if (fov)
        span_of(fov, &grid->center[2], &height);
    grid->n[2] = size->n > 2 ? size->v[2] : cover(height, grid->voxel[2]);

    double voxels = 1;
    for (int i = 0; i < 3; i++)
        if (grid->n[i] <= 0 || (double)grid->n[i] > MOST_EDGE || (voxels *= (double)grid->n[i]) > MOST_VOXELS)
            return vp_fail(err, VP_EUSAGE,
                           "the volume would have too many voxels: voxel %g mm, field of view %g mm",
                           grid->voxel[0], fov ? 2 * fov->radius : 0);
    return 0;
}

int vp_grid_make(struct vp_grid *grid, int64_t *z0, int64_t *z1, const struct vp_grid_params *o,
                 const struct vp_geom *g, const struct vp_view *views, const struct vp_scan *scan,
                 struct vp_err *err)
{
    struct vp_fov fov;
    *grid = (struct vp_grid){0};
    if (o->voxel.n != 0 && o->voxel.n != 1 && o->voxel.n != 3)
        return vp_fail(err, VP_EUSAGE, "--voxel: expected 1 number or 3, got %d", o->voxel.n);
    if (o->center.n != 0 && o->center.n != 3)
        return vp_fail(err, VP_EUSAGE, "--center: expected 3 numbers, got %d", o->center.n);
    if (g) {
        fov = vp_geom_fov(g, views, scan);
        if (!(fov.radius > 0) && !(o->volume.n && o->voxel.n))
            return vp_fail_hint(err, VP_ERUN, "check offset-u, or give --volume and --voxel",
                                "the rotation axis is not on the detector: there is no field of view");
    } else if (o->volume.n < 3) {
        return vp_fail_hint(err, VP_EUSAGE, "give --volume WxHxD, or a geometry with -g FILE",
                            "the size of the volume is unknown without a geometry");
    }
    if (choose_size(grid, o, g ? &fov : NULL, err))
        return -1;
    for (int i = 0; i < 3 && o->center.n; i++)
        grid->center[i] = o->center.v[i];

    *z0 = o->slab.given ? o->slab.lo : 0;
    *z1 = o->slab.given && o->slab.hi != INT64_MAX ? o->slab.hi : grid->n[2];
    if (*z0 < 0 || *z0 >= *z1 || *z1 > grid->n[2])
        return vp_fail(err, VP_EUSAGE, "--slab: %lld:%lld is not within the volume's slices 0:%lld",
                       (long long)*z0, (long long)*z1, (long long)grid->n[2]);
    return 0;
}

int vp_grid_to_stack(const struct vp_grid *grid, int64_t z0, int64_t z1, struct vp_stack *s,
                     struct vp_err *err)
{
    double first[3];
    s->nx = grid->n[0];
    s->ny = grid->n[1];
    s->pages = z1 - z0;
    for (int i = 0; i < 3; i++)
        first[i] = grid->center[i] + ((i == 2 ? (double)z0 : 0) - (double)(grid->n[i] - 1) / 2) * grid->voxel[i];
    if (vp_meta_set(&s->meta, "axes", "x y z") || vp_meta_set(&s->meta, "sizes", NULL) ||
        vp_meta_setf(&s->meta, "voxel", "%s %s %s", vp_geom_number(grid->voxel[0]).text,
                     vp_geom_number(grid->voxel[1]).text, vp_geom_number(grid->voxel[2]).text) ||
        vp_meta_set(&s->meta, "unit", "mm") ||
        vp_meta_setf(&s->meta, "origin", "%s %s %s", vp_geom_number(first[0]).text, vp_geom_number(first[1]).text,
                     vp_geom_number(first[2]).text))
        return vp_fail(err, VP_ERESOURCE, "out of memory: the metadata");
    return 0;
}
