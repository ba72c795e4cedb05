/* SPDX-License-Identifier: BSD-3-Clause */
/* Describes a geometry in words and numbers, and warns of implausible ones. */
#include "base/text.h"
#include "geom/draft.h"
#include "base/err.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

/* Derived quantities that descriptions and warnings share. */
struct facts {
    struct vp_fov fov;
    double fan, cone, magnification, sod;
    double raised;       /* elevation of the source above the plane z = 0 in degrees, average; helix: 0 */
    double arc, step;    /* degrees, of the scan */
    double sense;        /* sum of the steps in order of acquisition, degrees: > 0 counter-clockwise */
    double advised;      /* directions that sample the rim of the field of view as finely as the detector */
};

static struct facts gather(const struct vp_geom *g, const struct vp_view *views, const struct vp_scan *scan)
{
    struct facts f = {.fov = vp_geom_fov(g, views, scan), .arc = scan->arc * VP_DEGREES,
                      .step = scan->step * VP_DEGREES};
    const struct vp_view *v = &views[0];
    if (g->beam == VP_CONE) {
        f.fan = (vp_view_fan(v, vp_view_column(g, v, (double)g->nu - 0.5)) -
                 vp_view_fan(v, vp_view_column(g, v, -0.5))) * (v->fu < 0 ? -1 : 1) * VP_DEGREES;
        const double a = atan((-0.5 - v->cv) / v->fv), b = atan(((double)g->nv - 0.5 - v->cv) / v->fv);
        f.cone = fabs(b - a) * VP_DEGREES;
        for (int64_t k = 0; k < g->views; k++)
            f.sod += views[k].sod / (double)g->views;
        f.magnification = g->sdd > 0 ? g->sdd / f.sod : 0;
    }
    for (int64_t k = 0; k < g->views && scan->helix.pitch == 0; k++) {
        double s[3];
        vp_view_source(&views[k], s);
        f.raised += atan2(s[2], hypot(s[0], s[1])) * VP_DEGREES / (double)g->views;
    }
    for (int64_t k = 1; k < g->views; k++)
        f.sense += remainder((views[k].angle - views[k - 1].angle) * VP_DEGREES, 360);
    f.advised = 1.5707963267948966 * (scan->offset ? 2 * scan->larger : (double)g->nu) /
                (scan->kind == VP_SCAN_FULL ? 1 : 2);
    return f;
}

/* --- words --------------------------------------------------------------------------------------- */

__attribute__((format(printf, 3, 4)))
static void line(FILE *f, const char *key, const char *fmt, ...)
{
    va_list ap;
    fprintf(f, "%-14s ", key);
    va_start(ap, fmt);
    vfprintf(f, fmt, ap);
    va_end(ap);
    fputc('\n', f);
}

static void explain_detector(FILE *f, const struct vp_geom *g, const struct vp_view *v)
{
    if (g->du != 0)
        line(f, "detector", "%lld x %lld pixels of %g x %g mm: %g x %g mm", (long long)g->nu,
             (long long)g->nv, fabs(g->du), fabs(g->dv), (double)g->nu * fabs(g->du),
             (double)g->nv * fabs(g->dv));
    else
        line(f, "detector", "%lld x %lld pixels, pitch unknown", (long long)g->nu, (long long)g->nv);
    if (g->curved)
        line(f, "", "curved about the source: columns at equal angles of %.6g degrees", VP_DEGREES / fabs(v->fu));
    if (v->fu < 0 || v->fv < 0)
        line(f, "", "%s%s%s", v->fu < 0 ? "columns are mirrored" : "", v->fu < 0 && v->fv < 0 ? ", " : "",
             v->fv < 0 ? "the first row is on top (+z)" : "");
    /* Hide rounding errors of values derived from matrices. */
    const double u = fabs(g->offset_u) < 1e-6 ? 0 : g->offset_u,
                 row = fabs(g->offset_v) < 1e-6 ? 0 : g->offset_v;
    line(f, "axis", "at column %.10g, row %.10g", (double)(g->nu - 1) / 2 + u, (double)(g->nv - 1) / 2 + row);
    if (u == 0 && row == 0)
        line(f, "", "the centre of the detector");
    else
        line(f, "", "%+.6g columns and %+.6g rows from the centre of the detector", u, row);
    if (fabs(g->tilt) > 1e-6)
        line(f, "tilt", "%g degrees: its image leans towards %s columns", g->tilt,
             g->tilt > 0 ? "larger" : "smaller");
}

static void explain_volume(FILE *f, const struct vp_geom *g, const struct vp_view *views, const struct vp_scan *scan,
                           const struct facts *facts)
{
    struct vp_grid grid;
    int64_t z0, z1;
    struct vp_err err = VP_ERR_INIT;
    const struct vp_fov *fov = &facts->fov;
    line(f, "field of view", "%.6g mm across, %.6g mm high at the axis", 2 * fov->radius, fov->hi - fov->lo);
    if (scan->helix.pitch != 0)
        line(f, "", "z from %.6g to %.6g mm: there all directions are measured", fov->lo, fov->hi);
    else if (fabs(fov->lo + fov->hi) > 1e-6 * (fov->hi - fov->lo))
        line(f, "", "z from %.6g to %.6g mm%s", fov->lo, fov->hi,
             fov->lo < 0 && fov->hi > 0 ? "" : ": the detector does not see the plane of the orbit");
    if (vp_grid_make(&grid, &z0, &z1, &(struct vp_grid_params){0}, g, views, scan, &err))
        line(f, "volume", "%s", err.msg);
    else
        line(f, "volume", "%lld x %lld x %lld voxels of %.6g mm (a pixel at the axis)", (long long)grid.n[0],
             (long long)grid.n[1], (long long)grid.n[2], grid.voxel[0]);
    if (fabs(grid.center[2]) > 1e-6 * grid.voxel[2])
        line(f, "", "centred on z = %.6g mm", grid.center[2]);
}

/* Describes the angles in the order of the views; those of matrices are unwrapped. */
static void explain_views(FILE *f, const struct vp_geom *g, const struct facts *facts)
{
    const double tiny = 1e-6 * fmax(facts->step, 1e-3);
    double angle = g->angle[0], last = angle, lo = angle, hi = angle, least = INFINITY, most = 0;
    bool up = false, down = false;
    for (int64_t k = 1; k < g->views; k++) {
        const double by = g->angle[k] - g->angle[k - 1], step = g->matrix ? remainder(by, 360) : by;
        angle += step;
        up |= step > tiny;
        down |= step < -tiny;
        least = fmin(least, fabs(step));
        most = fmax(most, fabs(step));
        lo = fmin(lo, angle);
        hi = fmax(hi, angle);
        last = angle;
    }
    if (up && down)
        line(f, "views", "%lld, between %.6g and %.6g degrees, not in order, step %.6g", (long long)g->views, lo, hi,
             facts->step);
    else if (g->views > 2 && most > least + 1e-3 * facts->step)
        line(f, "views", "%lld, from %.6g to %.6g degrees, steps of %.6g to %.6g", (long long)g->views, g->angle[0],
             last, least, most);
    else
        line(f, "views", "%lld, from %.6g to %.6g degrees, step %.6g", (long long)g->views, g->angle[0], last,
             facts->step);
}

/* True if a range of directions of a parallel beam's half circle is missing, not only single views. */
static bool lacks_directions(const struct vp_scan *scan)
{
    return scan->kind == VP_SCAN_PARALLEL && scan->directions > 1
           && scan->largest_gap > fmax(5 / VP_DEGREES, 4 * scan->step) * (1 + 1e-9);
}

static void explain_weights(FILE *f, const struct vp_scan *scan)
{
    if (scan->offset)
        line(f, "weights", "Wang: the detector's sides overlap by %.6g columns about the axis", 2 * scan->overlap);
    else if (scan->kind == VP_SCAN_SHORT)
        line(f, "weights", "Parker: rays measured twice share one weight");
    else if (!lacks_directions(scan))
        line(f, "weights", "none needed: all rays are measured equally often");
    else if (scan->gaps)
        line(f, "weights", "scaled by 180 / %.6g: directions that are measured stand for the others",
             180 - scan->missing * VP_DEGREES);
    else
        line(f, "weights", "by the angles between views: those at its ends stand for the gap of %.6g degrees",
             scan->largest_gap * VP_DEGREES);
    if (scan->offset && scan->gaps)
        line(f, "", "ray by ray: one that is measured from the other side counts for one in a gap, the views at the "
                    "gap's ends stand for the rest");
}

static void explain_scan(FILE *f, const struct vp_geom *g, const struct vp_scan *scan,
                         const struct facts *facts)
{
    const bool clockwise = facts->sense < 0 || (facts->sense == 0 && g->clockwise);
    explain_views(f, g, facts);
    line(f, "direction", "seen from +z the source turns %s around the object",
         clockwise ? "clockwise" : "counter-clockwise");
    if (scan->helix.pitch != 0)
        line(f, "scan", "helix, %.6g turns of %.6g mm%s; the detector sees %.6g mm of the axis",
             scan->helix.hi - scan->helix.lo, fabs(scan->helix.pitch), scan->offset ? ", offset detector" : "",
             scan->helix.below + scan->helix.above);
    else if (scan->kind == VP_SCAN_FULL)
        line(f, "scan", "full, 360 degrees%s", scan->offset ? ", offset detector" : "");
    else if (scan->offset)
        line(f, "scan", "full, 360 degrees but for %lld gap%s, %.6g degrees in all, offset detector",
             (long long)scan->gaps, scan->gaps > 1 ? "s" : "", scan->missing * VP_DEGREES);
    else if (scan->kind == VP_SCAN_SHORT)
        line(f, "scan", "short, %.6g degrees (180 + fan is %.6g)", facts->arc, 180 + facts->fan);
    else
        line(f, "scan", "parallel beam, %.6g degrees of the half circle",
             lacks_directions(scan) ? 180 - scan->largest_gap * VP_DEGREES : facts->arc);
    if (scan->helix.pitch == 0 || scan->offset)
        explain_weights(f, scan);
    if (scan->helix.pitch != 0)
        line(f, scan->offset ? "" : "weights", "helix: a slice counts the views of %.4g turns about its height, every "
             "direction once", 1 + scan->helix.slope);
    if (fabs(facts->raised) > 1)
        line(f, "laminography", "the source is %.6g degrees %s the plane z = 0", fabs(facts->raised),
             facts->raised > 0 ? "above" : "below");
    if (scan->curved)
        line(f, "rows", "are flattened before they are filtered");
    if (vp_scan_turned(scan))
        line(f, "rows", "deviate by up to %.4g degrees from the source path: views are turned before they are filtered",
             scan->turned * VP_DEGREES);
}

char *vp_geom_explain(const struct vp_geom *g, const struct vp_view *views, const struct vp_scan *scan)
{
    const struct facts facts = gather(g, views, scan);
    const bool cone = g->beam == VP_CONE;
    FILE *f = vp_text_open();
    if (!f)
        return NULL;
    line(f, "beam", "%s", !cone ? "parallel" : g->nv == 1 ? "fan (a cone beam on one detector row)" : "cone");
    if (cone) {
        line(f, "source", "%.10g mm to the axis (sod)", facts.sod);
        if (g->sdd > 0) {
            line(f, "", "%.10g mm to the detector (sdd)", g->sdd);
            line(f, "magnification", "%.6g", facts.magnification);
        }
    }
    explain_detector(f, g, &views[0]);
    if (cone)
        line(f, "fan angle", "%.6g degrees; cone angle %.6g degrees", facts.fan, facts.cone);
    explain_volume(f, g, views, scan, &facts);
    explain_scan(f, g, scan, &facts);
    line(f, "sampling", "%lld directions; about %.0f sample the rim of the field as finely as the detector",
         (long long)scan->directions, ceil(facts.advised));
    line(f, "matrices", "%s",
         scan->helix.pitch != 0           ? "a helix: back-projection by sections of slices"
         : scan->circular && scan->untilted ? "circular orbit, untilted detector: the fast back-projection"
         : scan->circular                 ? "circular orbit, tilted detector: the general back-projection"
                                          : "general 3x4 matrices: the general back-projection");
    return vp_text_close(f, NULL);
}

/* --- warnings ------------------------------------------------------------------------------------ */

struct listener { void (*report)(void *ctx, const char *text); void *ctx; };

__attribute__((format(printf, 2, 3)))
static void warn(const struct listener *l, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    l->report(l->ctx, text);
}

static void warn_of_sizes(const struct listener *l, const struct vp_geom *g, const struct vp_scan *scan,
                          const struct facts *f)
{
    if (f->magnification > 200)
        warn(l, "the magnification is %.4g: are sod and sdd in the same unit?", f->magnification);
    if (f->fov.pixel > 10)
        warn(l, "a pixel at the axis is %.4g mm: is the pitch in mm?", f->fov.pixel);
    if (f->fov.pixel < 1e-5)
        warn(l, "a pixel at the axis is %.4g mm: are the lengths in mm?", f->fov.pixel);
    if (g->matrix && g->beam == VP_CONE && g->sod > 0 && fabs(g->sod - f->sod) > 0.01 * f->sod)
        warn(l, "sod is %g mm, but the matrices put the axis %g mm from the source", g->sod, f->sod);
    if (scan->overlap <= 0)
        warn(l, "the rotation axis is outside the detector (offset-u %g of %lld columns)", g->offset_u,
             (long long)g->nu);
    if (f->fan > 120)
        warn(l, "the fan angle is %.4g degrees: check pitch and distances", f->fan);
    const double seen = scan->helix.below + scan->helix.above;
    struct vp_err refused = VP_ERR_INIT;
    if (fabs(scan->helix.pitch) > seen * (1 + 1e-6) && !vp_scan_check(scan, &refused))
        warn(l, "the helix moves %.6g mm per turn, more than the %.6g mm of the axis that the detector sees: what it "
                "misses is filled in from its first and last rows", fabs(scan->helix.pitch), seen);
}

bool vp_geom_missing(char *text, size_t size, const struct vp_view *views, const struct vp_scan *scan)
{
    const struct vp_view *v = &views[0];
    const double tangent = scan->overlap / fabs(v->fu);
    const double seen = vp_view_parallel(v) ? tangent : v->sod * sin(atan(tangent));

    if (scan->offset && scan->gaps)
        snprintf(text, size, "no views over %.5g degrees (%lld gap%s): rays farther than %.4g mm from the axis are "
                 "never measured there, expect streaks and, in large gaps, values that are some percent off",
                 scan->missing * VP_DEGREES, (long long)scan->gaps, scan->gaps > 1 ? "s" : "", seen);
    else if (lacks_directions(scan))
        snprintf(text, size, "a parallel scan of %.5g degrees, less than 180: directions are missing: values hold on "
                 "average, edges along these directions are lost in streaks", 180 - scan->largest_gap * VP_DEGREES);
    else
        return false;
    return true;
}

static void warn_of_angles(const struct listener *l, const struct vp_geom *g, const struct vp_view *views,
                           const struct vp_scan *scan, const struct facts *f)
{
    const int64_t repeats = g->views - scan->directions;
    if (g->views == 1) {
        warn(l, "a single view: nothing can be reconstructed from it");
        return;
    }
    if (scan->directions == 1) {
        warn(l, "all %lld views have the same angle", (long long)g->views);
        return;
    }
    /* A turn that ends where it began is common, and so are several whole turns. */
    if (scan->helix.pitch == 0 && repeats > 1 && g->views % scan->directions > 1)
        warn(l, "%lld views repeat the angle of another one; they share its weight", (long long)repeats);
    char missing[256];
    const bool lacks = vp_geom_missing(missing, sizeof missing, views, scan);
    if (lacks)
        warn(l, "%s", missing);
    if (scan->kind == VP_SCAN_SHORT && !scan->offset) {
        if (f->arc + f->step < 180 + f->fan - 1e-6)
            warn(l,
                 "a short scan of %.5g degrees: less than 180 + fan angle, %.5g: part of the field is not "
                 "fully measured",
                 f->arc, 180 + f->fan);
        if (scan->overlap < 0.9 * scan->larger)
            warn(l,
                 "the detector is off centre in a short scan: rays of its smaller side are never measured");
    }
    if (scan->kind == VP_SCAN_SHORT && scan->gaps == 1 && scan->largest_gap * VP_DEGREES < 30)
        warn(l,
             "the views cover %.5g degrees, not a full turn: if it was one, the angles are wrong (their list, or the "
             "arc)",
             f->arc + f->step);
    const bool half = scan->kind == VP_SCAN_PARALLEL;
    const double widest = (half ? scan->largest_gap : scan->widest) * VP_DEGREES;
    if (!(half && lacks) && widest > 2 * f->step && scan->directions > 3)
        warn(l, "uneven steps: the largest gap between views is %.4g degrees, the median %.4g", widest, f->step);
    if ((double)scan->directions < f->advised / 4)
        warn(l, "%lld directions for %lld columns: expect streaks (about %.0f sample the field fully)",
             (long long)scan->directions, (long long)g->nu, ceil(f->advised));
}

void vp_geom_warn(const struct vp_geom *g, const struct vp_view *views, const struct vp_scan *scan,
                  void (*report)(void *ctx, const char *text), void *ctx)
{
    const struct facts f = gather(g, views, scan);
    const struct listener l = {report, ctx};
    if (g->doubt[0])
        warn(&l, "%s", g->doubt);
    warn_of_sizes(&l, g, scan, &f);
    warn_of_angles(&l, g, views, scan, &f);
}
