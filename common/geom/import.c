/* SPDX-License-Identifier: BSD-3-Clause */
/* Geometries that scanners and other programs write: RTK XML, Nikon .xtekct, Bruker (SkyScan) .log.
 *
 * RTK: ThreeDCircularProjectionGeometry, its frame and matrix as in RTK's documentation of the geometry. Its
 * rotation axis is y, and its projections are images seen from the detector's back; we take x = X, y = Z, z =
 * -Y, a proper rotation in which u keeps running along the orbit and detector rows run against z. Nikon:
 * angles, centre of rotation and roll as CIL's reader understands them. The radiograph's first row is on top
 * (+z) and its columns run along (cos b, sin b, 0); the source turns counter-clockwise from InitialAngle.
 * Bruker: as the scanner's log names them; the calibrated size of a pixel at the object is trusted first. */
#include "geom/draft.h"
#include "base/err.h"
#include "base/xml.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Sets a key to a formatted value; numbers keep their bits as text. */
__attribute__((format(printf, 5, 6)))
static int set(struct vp_draft *d, enum vp_geom_key key, const char *name, struct vp_err *err, const char *fmt, ...)
{
    char text[128];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return vp_draft_set(d, key, text, name, err);
}

#define N(x) vp_geom_number(x).text

static int set_detector(struct vp_draft *d, double nu, double nv, const char *name, struct vp_err *err)
{
    if (!(nu >= 1 && nu < 1e9 && nv >= 1 && nv < 1e9))
        return vp_fail(err, VP_ERUN, "%s: the detector is %gx%g pixels", name, nu, nv);
    return set(d, VP_GK_DETECTOR, name, err, "%.0fx%.0f", nu, nv);
}

/* --- INI files ----------------------------------------------------------------------------------- */

/* Returns the value of a line `key = value`, case-insensitive, with or without a unit "(mm)" after the key; NULL if
 * none. */
static const char *ini_text(const char *text, const char *key)
{
    const size_t n = strlen(key);
    for (; text; text = strchr(text, '\n') ? strchr(text, '\n') + 1 : NULL) {
        const char *p = text + strspn(text, " \t");
        if (strncasecmp(p, key, n))
            continue;
        p += n;
        p += strspn(p, " \t");
        if (*p == '(') {
            p += strcspn(p, ")\n");
            p += *p == ')';
            p += strspn(p, " \t");
        }
        if (*p == '=')
            return p + 1 + strspn(p + 1, " \t");
    }
    return NULL;
}

static bool ini_number(const char *text, const char *key, double *out)
{
    const char *value = ini_text(text, key);
    return value && vp_geom_scan(&value, out, ";");
}

static double ini_or(const char *text, const char *key, double otherwise)
{
    double x;
    return ini_number(text, key, &x) ? x : otherwise;
}

static int ini_need(const char *text, const char *const *keys, double *out, int n, const char *name,
                    struct vp_err *err)
{
    for (int i = 0; i < n; i++)
        if (!ini_number(text, keys[i], &out[i]))
            return vp_fail(err, VP_ERUN, "%s: '%s' is missing or not a number", name, keys[i]);
    return 0;
}

static int import_nikon(struct vp_draft *d, const char *text, const char *name, struct vp_err *err)
{
    enum { SOD, SDD, NU, NV, DU, DV, VIEWS, STEP, N };
    static const char *const keys[N] = {"SrcToObject",     "SrcToDetector",      "DetectorPixelsX",
                                        "DetectorPixelsY", "DetectorPixelSizeX", "DetectorPixelSizeY",
                                        "Projections",     "AngularStep"};
    double x[N], at_object, roll;
    if (ini_need(text, keys, x, N, name, err))
        return -1;
    if (fabs(ini_or(text, "ObjectTilt", 0)) > 0.01)
        return vp_fail(err, VP_ERUN,
                       "%s: ObjectTilt is %g degrees: an axis that leans along the beam needs matrices", name,
                       ini_or(text, "ObjectTilt", 0));

    /* Older files give the image of the axis at the top and bottom of the detector, newer ones the object's
     * offset. */
    const double top = ini_or(text, "CentreOfRotationTop", 0),
                 bottom = ini_or(text, "CentreOfRotationBottom", 0);
    double offset = 0.5 * (top + bottom);
    double tilt = atan2(top - bottom, x[NV] * x[DV]) * VP_DEGREES;
    if (ini_number(text, "ObjectOffsetX", &at_object))
        offset = at_object * x[SDD] / x[SOD];
    if (ini_number(text, "ObjectRoll", &roll))
        tilt = -roll;
    offset -= ini_or(text, "DetectorOffsetX", 0);
    const double offset_v = ini_or(text, "DetectorOffsetY", 0) / x[DV];

    return set(d, VP_GK_SOD, name, err, "%s", N(x[SOD])) || set(d, VP_GK_SDD, name, err, "%s", N(x[SDD])) ||
                   set_detector(d, x[NU], x[NV], name, err) ||
                   set(d, VP_GK_PITCH, name, err, "%s %s", N(x[DU]), N(-x[DV])) ||
                   set(d, VP_GK_OFFSET_U, name, err, "%s", N(offset / x[DU] + 0.0)) ||
                   set(d, VP_GK_OFFSET_V, name, err, "%s", N(offset_v + 0.0)) ||
                   set(d, VP_GK_TILT, name, err, "%s", N(tilt + 0.0)) ||
                   set(d, VP_GK_ANGLES, name, err, "%s:%s:%s", N(ini_or(text, "InitialAngle", 0)), N(x[STEP]),
                       N(x[VIEWS]))
               ? -1
               : 0;
}

static double binning(const char *text)
{
    const char *value = ini_text(text, "Camera binning");
    const double b = value ? strtod(value, NULL) : 1;
    return b >= 1 ? b : 1;
}

static int import_bruker(struct vp_draft *d, const char *text, const char *name, struct vp_err *err)
{
    enum { SOD, NU, NV, VIEWS, STEP, N };
    static const char *const keys[N] = {"Object to Source", "Number Of Columns", "Number Of Rows",
                                        "Number Of Files", "Rotation Step"};
    double x[N], sdd, pixel, camera, line;
    if (ini_need(text, keys, x, N, name, err))
        return -1;
    const bool has_sdd = ini_number(text, "Camera to Source", &sdd);
    const bool has_pixel = ini_number(text, "Image Pixel Size", &pixel);
    const bool has_camera = ini_number(text, "Camera Pixel Size", &camera);
    /* The scanner writes more than 10 m for a parallel beam. */
    const bool parallel = x[SOD] > 10000;
    double pitch;
    if (!parallel && !has_sdd)
        return vp_fail(err, VP_ERUN, "%s: 'Camera to Source' is missing or not a number", name);
    if (has_pixel)
        pitch = parallel ? pixel * 1e-3 : pixel * 1e-3 * sdd / x[SOD];
    else if (has_camera)
        pitch = camera * 1e-3 * binning(text);
    else
        return vp_fail(err, VP_ERUN, "%s: neither 'Image Pixel Size' nor 'Camera Pixel Size' is there", name);

    const char *direction = ini_text(text, "Rotation Direction"), *moved = ini_text(text, "Random Movement");
    const char *trajectory = ini_text(text, "Scanning Trajectory");
    d->moved = moved && !strncasecmp(moved, "ON", 2) ? "Random Movement=ON" : NULL;
    d->spiral = trajectory && !strncasecmp(trajectory, "SPIRAL", 6) ? "Scanning Trajectory=SPIRAL"
              : trajectory && !strncasecmp(trajectory, "HELICAL", 7) ? "Scanning Trajectory=HELICAL" : NULL;
    d->log = (struct vp_skyscan_log){ini_or(text, "Postalignment", 0), ini_or(text, "Image Rotation", 0),
                             ini_or(text, "Camera X/Y Ratio", 1),
                             (int64_t)fmin(fmax(ini_or(text, "Number Of Horizontal Offset Positions", 1), 0), 99)};
    if (fabs(d->log.aligned) > x[NU])
        return vp_fail(err, VP_ERUN, "%s: Postalignment is %g columns of %g", name, d->log.aligned, x[NU]);
    return (parallel ? set(d, VP_GK_BEAM, name, err, "parallel")
                     : set(d, VP_GK_SOD, name, err, "%s", N(x[SOD])) || set(d, VP_GK_SDD, name, err, "%s", N(sdd))) ||
                   (ini_number(text, "Optical Axis", &line) && !parallel &&
                    set(d, VP_GK_OFFSET_V, name, err, "%s", N(line - (x[NV] - 1) / 2))) ||
                   (direction && !strncasecmp(direction, "CW", 2) &&
                    set(d, VP_GK_DIRECTION, name, err, "clockwise")) ||
                   (d->log.aligned != 0 && set(d, VP_GK_OFFSET_U, name, err, "%s", N(-d->log.aligned))) ||
                   set_detector(d, x[NU], x[NV], name, err) ||
                   set(d, VP_GK_PITCH, name, err, "%s %s", N(pitch), N(-pitch)) ||
                   set(d, VP_GK_ANGLES, name, err, "%s:%s:%s", N(0), N(x[STEP]), N(x[VIEWS]))
               ? -1
               : 0;
}

/* --- RTK ----------------------------------------------------------------------------------------- */

enum rtk_tag {
    RTK_SID, RTK_SDD, GANTRY, OUT_OF_PLANE, IN_PLANE, SRC_X, SRC_Y, PROJ_X, PROJ_Y, RADIUS, RTK_TAGS
};
static const char *const rtk_tags[RTK_TAGS] = {
    "SourceToIsocenterDistance", "SourceToDetectorDistance", "GantryAngle", "OutOfPlaneAngle", "InPlaneAngle",
    "SourceOffsetX", "SourceOffsetY", "ProjectionOffsetX", "ProjectionOffsetY", "RadiusCylindricalDetector",
};

/* c = a b for 4x4 matrices; c may be a or b. */
static void multiply(const double a[16], const double b[16], double c[16])
{
    double t[16];
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            t[4 * i + j] = 0;
            for (int k = 0; k < 4; k++)
                t[4 * i + j] += a[4 * i + k] * b[4 * k + j];
        }
    memcpy(c, t, sizeof t);
}

/* Returns RTK's matrix, world mm to detector mm. */
static void rtk_matrix(const double p[RTK_TAGS], double m[12])
{
    double s, c, all[16];
    vp_sincosd(-p[IN_PLANE], &s, &c);
    const double rz[16] = {c, -s, 0, 0, s, c, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};
    vp_sincosd(-p[OUT_OF_PLANE], &s, &c);
    const double rx[16] = {1, 0, 0, 0, 0, c, -s, 0, 0, s, c, 0, 0, 0, 0, 1};
    vp_sincosd(-p[GANTRY], &s, &c);
    const double ry[16] = {c, 0, s, 0, 0, 1, 0, 0, -s, 0, c, 0, 0, 0, 0, 1};
    const double to_source[16] = {1, 0, 0, -p[SRC_X], 0, 1, 0, -p[SRC_Y], 0, 0, 1, 0, 0, 0, 0, 1};
    const double f = p[RTK_SDD];
    const double cone[16] = {-f, 0, 0, 0, 0, -f, 0, 0, 0, 0, 1, -p[RTK_SID], 0, 0, 0, 1};
    const double parallel[16] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1};
    const double to_detector[16] = {1, 0, p[SRC_X] - p[PROJ_X], 0, 0, 1, p[SRC_Y] - p[PROJ_Y], 0,
                                    0, 0, 1, 0, 0, 0, 0, 1};
    multiply(rz, rx, all);
    multiply(all, ry, all);
    multiply(to_source, all, all);
    multiply(f == 0 ? parallel : cone, all, all);
    multiply(to_detector, all, all);
    memcpy(m, all, 12 * sizeof *m);
}

static int rtk_view(struct vp_draft *d, const double values[RTK_TAGS], const double *given, const char *where,
                    struct vp_err *err)
{
    double m[12];
    const bool curved = values[RADIUS] != 0;
    if (curved && fabs(values[RADIUS] - values[RTK_SDD]) > 1e-6 * fabs(values[RTK_SDD]))
        return vp_fail(err, VP_ERUN, "%s: the detector is a cylinder of radius %g mm: expected %g mm, about the source",
                       where, values[RADIUS], values[RTK_SDD]);
    if (d->matrix.n && d->g.curved != curved)
        return vp_fail(err, VP_ERUN, "%s: the detector is %s, in the views before %s", where,
                       curved ? "curved" : "flat", curved ? "flat" : "curved");
    d->g.curved = curved;
    if (curved)
        vp_draft_mark(d, VP_GK_SHAPE);
    if (given)
        memcpy(m, given, sizeof m);
    else
        rtk_matrix(values, m);
    /* RTK's depth is negative in front of the source; + 0.0 turns -0 into 0. */
    const double sign = m[11] < 0 ? -1 : 1;
    for (int row = 0; row < 3; row++) {
        const double *r = m + 4 * row;
        const double ours[4] = {r[0], r[2], -r[1], r[3]};
        for (int i = 0; i < 4; i++)
            if (vp_draft_append(d, VP_GK_MATRIX, sign * ours[i] + 0.0, where, err))
                return -1;
    }
    return 0;
}

static int import_rtk(struct vp_draft *d, const char *text, const char *name, struct vp_err *err)
{
    double common[RTK_TAGS] = {0}, here[RTK_TAGS], matrix[12];
    double *values = common;
    bool has_matrix = false, inside = false;
    int64_t view = 0;
    char where[512];
    struct vp_xml_tag tag;

    vp_draft_mark(d, VP_GK_MATRIX);
    d->matrix_mm = true;
    snprintf(where, sizeof where, "%.400s", name);
    while (vp_xml_next(&text, &tag)) {
        if (!tag.stop && !*text)
            break;
        if (!tag.stop)
            return vp_fail(err, VP_ERUN, "%s: a tag that does not end: '<%s%.*s'", where, tag.end ? "/" : "",
                           (int)(tag.length < 64 ? tag.length : 64), tag.name);
        const bool projection = vp_xml_is(&tag, "Projection");
        const char *body = tag.stop + 1;
        if (tag.empty || (tag.end && !(projection && inside)))
            continue;
        if (projection && !tag.end) {
            memcpy(here, common, sizeof here);
            values = here;
            has_matrix = false;
            inside = true;
            snprintf(where, sizeof where, "%.400s: view %lld", name, (long long)view++);
        } else if (projection) {
            if (rtk_view(d, here, has_matrix ? matrix : NULL, where, err))
                return -1;
            values = common;
            inside = false;
        } else if (inside && vp_xml_is(&tag, "Matrix")) {
            for (int i = 0; i < 12; i++)
                if (!vp_geom_scan(&body, &matrix[i], "<"))
                    return vp_fail(err, VP_ERUN, "%s: Matrix: expected 12 numbers, got %d", where, i);
            has_matrix = true;
        } else {
            for (int i = 0; i < RTK_TAGS; i++)
                if (vp_xml_is(&tag, rtk_tags[i]) && !vp_geom_scan(&body, &values[i], "<"))
                    return vp_fail(err, VP_ERUN, "%s: %s is not a number", where, rtk_tags[i]);
        }
    }
    if (inside)
        return vp_fail(err, VP_ERUN, "%s: truncated: the last Projection does not end", where);
    if (view == 0)
        return vp_fail(err, VP_ERUN, "%s: no Projection in it", name);
    return 0;
}

int vp_draft_import(struct vp_draft *d, const char *text, const char *name, struct vp_err *err)
{
    const char *start = text + strspn(text, " \t\r\n");
    int rc;
    if (*start != '<' && *start != '[')
        return 0;
    if (*start == '<' && strstr(start, "<RTKThreeDCircularGeometry"))
        rc = import_rtk(d, start, name, err);
    else if (*start == '<')
        rc = vp_fail(err, VP_ERUN, "%s: XML, but not an RTKThreeDCircularGeometry", name);
    else if (!strncasecmp(start, "[XTekCT]", 8))
        rc = import_nikon(d, start, name, err);
    else if (!strncasecmp(start, "[System]", 8) && strcasestr(start, "[Acquisition]"))
        rc = import_bruker(d, start, name, err);
    else
        rc = vp_fail(err, VP_ERUN, "%s: expected a Nikon .xtekct ([XTekCT]) or a Bruker .log ([System])", name);
    return rc ? -1 : 1;
}
