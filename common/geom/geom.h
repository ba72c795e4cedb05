/* Scan geometry: the parameters of a file (struct vp_geom), and the form that all later stages use: one 3x4 matrix per
 * view (struct vp_view).
 *
 * Frame: right-handed, mm, degrees; z is the rotation axis. At gantry angle b (counter-clockwise seen
 * from +z) the source is at sod * (-sin b, cos b, 0), the depth of (x, y, z) is
 * w = sod + x sin b - y cos b, and
 *     u = cu + (sdd / du) (x cos b + y sin b) / w,   v = cv + (sdd / dv) z / w       (cone)
 *     u = cu + (x cos b + y sin b) / du,             v = cv + z / dv                 (parallel)
 * with pixel centres at integers and cu = (nu - 1) / 2 + offset_u, cv = (nv - 1) / 2 + offset_v.
 * `clockwise` takes b = -angle. (iFDK, Chen et al. 2019, eq. 2-3, up to index flips.) On a helix z is counted from the
 * source's height; in laminography source and detector are turned by `lamino` about the u axis at the isocentre. */
#pragma once

#include "stack/stack.h"
#include "base/opt.h"
#include <math.h>

enum vp_beam { VP_CONE, VP_PARALLEL };

struct vp_geom {
    enum vp_beam beam;
    double sod, sdd; /* source to axis and source to detector, mm; cone only */
    int64_t nu, nv;  /* detector columns and rows */
    /* Pixel pitch, mm; negative if columns (rows) are numbered in the opposite direction: dv < 0 is an image whose
     * first row is at the top. 0: unknown, only with `matrix`. */
    double du, dv;
    /* Pixels from the detector's centre to the point where the central ray (through the axis, in the orbit plane) meets
     * it. */
    double offset_u, offset_v;
    /* Degrees by which the detector is turned in its own plane about the central ray; the image of +z turns from +v
     * towards +u. */
    double tilt;
    /* Travel of source and detector along z in mm per turn (360 degrees of increasing angle); 0: a circle. z is 0 at
     * the middle of the angles. */
    double pitch_z;
    double lamino;  /* degrees from the axis to the plane of the detector's columns; > 0: the source is above */
    /* The detector is part of a cylinder about the line through the source parallel to its columns: columns are at
     * equal angles, du apart along the arc. Matrices are those of the flat detector that touches it at the central ray
     * (cone only). */
    bool curved;
    /* The detector moves with the source but does not turn: columns along x, rows along y, perpendicular to z. */
    bool fixed;
    bool clockwise;
    int64_t views;
    double *angle;  /* degrees, one per view, as given (before `clockwise`); malloc'd */
    /* 12 per view, row major, mm -> pixels (any scale), or NULL; malloc'd. If set, it takes precedence; sod, sdd,
     * angle, ... are then derived from it. */
    double *matrix;
    char doubt[400]; /* implausible numbers in the input, one line; or empty */
};

void vp_geom_free(struct vp_geom *g);

/* Options of ct-geom, as text in the syntax of the file's keys. */
struct vp_geom_params {
    const char *beam, *sod, *sdd, *detector, *pitch, *offset_u, *offset_v, *tilt, *pitch_z, *lamino, *views, *arc,
        *start, *angles, *shifts;
    bool curved, fixed, clockwise, counterclockwise;
};
extern const struct vp_opt vp_geom_options[];
/* Makes a geometry from a file: our text, plain rows of 12 numbers (one matrix per view), RTK XML, Nikon .xtekct,
 * Bruker .log, or a TIFF stack that carries a geometry, recognized by content; "-" is standard input (text only).
 * Options (or NULL) override the file; path NULL: options only. Free with vp_geom_free(). */
int vp_geom_make(struct vp_geom *g, const char *path, const struct vp_geom_params *o, struct vp_err *err);

/* Returns the text of a geometry file, malloc'd: parameters, or with `matrices` one `matrix =` line per view (plus
 * detector and distances). Reading it gives the same bits. NULL if out of memory. */
char *vp_geom_format(const struct vp_geom *g, bool matrices);

/* Convert to and from metadata (keys geom.*). vp_geom_from_meta: 1 found, 0 no geometry there, -1 malformed. */
int vp_geom_to_meta(const struct vp_geom *g, struct vp_meta *m, struct vp_err *err);
int vp_geom_from_meta(struct vp_geom *g, const struct vp_meta *m, const char *name, struct vp_err *err);

/* A view, in the form that all later stages use. */
struct vp_view {
    /* (u w, v w, w) = P (x, y, z, 1); mm -> pixels; w is the depth in mm along the central ray (the third row's
     * direction has unit length, w > 0 at the isocentre). Parallel: w = 1. */
    double P[12];
    /* Radians in [0, 2 pi]: angle b of the source, counter-clockwise from +y; parallel: of the direction towards the
     * source. */
    double angle;
    /* sdd / du, sdd / dv in pixels (parallel: 1 / du, 1 / dv); negative if u runs against (cos b, sin b, 0), v against
     * +z (a mirrored image), so that the fan angle is atan((u - cu) / fu). */
    double fu, fv;
    double cu, cv; /* principal point, pixels (parallel: image of the origin) */
    double sod;    /* depth of the isocentre (origin), mm; parallel: 0 */
    /* Angular weight, radians: half the gaps to both neighbours on the circle (helix: along the path); see vp_scan. */
    double weight;
    double turn;   /* angle / 2 pi; on a helix it grows from turn to turn */
};

/* A helix: the source is at height z0 + pitch turn. A voxel takes the views of a window about the turn at which it is
 * in the middle of the detector, so that all directions have equal weight: those of a turn, with slopes at both ends
 * where views of one turn are blended with those of the next (ct/helix.h). */
struct vp_helix {
    double pitch;            /* mm per turn; 0: no helix */
    double z0;               /* mm */
    double lo, hi;           /* first and last view, and half a step beyond, in turns */
    double below, above;     /* part of the axis that a view sees below and above its source, mm */
    double rim;              /* radius of the field of view / radius of the helix */
    /* Length of the slopes in turns, at the ends of the scan and at most: the detector sees the whole window at the rim
     * of the field, unless that is too short. */
    double shortest, slope;
    double z_lo, z_hi;       /* slices that see all directions, mm */
};

/* Equal angles share one weight. The largest gap between neighbours is open if it exceeds 2.75 times the median gap and
 * 1 degree (offset detector: four times and 20 degrees, and all such gaps; parallel beam on the half circle: four times
 * and 50 degrees); the views at its ends then have the weight of a full local step. */
enum vp_scan_kind {
    /* 360 degrees: weights sum to 2 pi. Also a parallel beam with an offset detector over 360 degrees, and a helix,
     * whose weights sum to 2 pi per turn. */
    VP_SCAN_FULL,
    /* An arc of less than 360 degrees: the largest gap is left open, with an offset detector all gaps. A parallel beam
     * only with such a detector. */
    VP_SCAN_SHORT,
    /* Parallel beam: weights on the half circle, which sum to pi (opposite views share), less an open gap. */
    VP_SCAN_PARALLEL
};

struct vp_scan {
    enum vp_scan_kind kind;
    double arc;   /* radians covered: the circle (half circle) less an open gap */
    /* Angle of the first view of the arc in the direction of increasing b, radians; angle - start modulo 2 pi is in [0,
     * arc] except for rounding and near-equal angles. */
    double start;
    double largest_gap;              /* radians */
    double gap;      /* radians between neighbours beyond which a gap is open; INFINITY: no gap is open */
    int64_t gaps;    /* number of open gaps */
    double missing;  /* sum of the open gaps, radians: the circle (half circle) less the views' weights */
    /* Fan angles of the outermost detector columns' centres, radians (lo < 0 < hi), over all views; parallel: 0. */
    double half_fan_lo, half_fan_hi;
    /* Half width, in pixels, around the central ray that both sides of the detector cover, to the edge of the outermost
     * pixel; < 0 if the ray misses the detector. */
    double overlap;
    double larger;  /* the larger side over all views, pixels */
    int64_t directions;  /* number of different angles on the full circle */
    double step, widest; /* radians: median of the gaps between directions, and the largest that is not open */
    /* Offset-detector weights apply: a full scan (or one with gaps of less than 120 degrees in all) whose smaller side
     * of the detector, from the central ray, is less than 90 % of the larger. */
    bool offset;
    /* Sources on a circle in z = 0, equal distances, principal rays through the axis, within 1e-6. */
    bool circular;
    bool curved;   /* the detector is curved, see vp_geom */
    bool untilted; /* P[2] = P[10] = 0 (relative 1e-9): u and depth do not depend on z */
    struct vp_helix helix; /* pitch 0: no helix */
    double turned; /* largest angle between the detector's rows and the image of the circle about z, radians */
    /* Angle, seen on the detector, between the source path and the circle about z, radians: the median over the views;
     * or half of the range of the source's elevation above z = 0. */
    double astray;
    double travel; /* range of the source's height if the path is no helix, mm */
};

/* Bytes per view for numbers, matrices and weights. */
enum { VP_GEOM_VIEW_BYTES = 400 };

/* Computes the matrices and their decomposition, and the scan that the views form. *views is malloc'd (g->views
 * entries). */
int vp_geom_views(const struct vp_geom *g, struct vp_view **views, struct vp_scan *scan, struct vp_err *err);

/* True if the detector's rows do not follow the source path, so that views must be turned before filtering. */
bool vp_scan_turned(const struct vp_scan *scan);
/* Checks that the filter supports the scan: the source path is a circle or a helix about z, sampled often enough. */
int vp_scan_check(const struct vp_scan *scan, struct vp_err *err);
/* Makes the same scan on a detector that turns with the source, as matrices: perpendicular to the ray from the source
 * to the axis, rows along the source path, large enough for any view, sampled as finely. *to, malloc'd, has 9 numbers
 * per view: (u w, v w, w) = to (u', v', 1) is the position on g's detector of pixel (u', v'). */
int vp_geom_turned(const struct vp_geom *g, const struct vp_view *views, const struct vp_scan *scan,
                   struct vp_geom *out, double **to, struct vp_err *err);
/* Returns the direction in which the source moves on a circle about z; on a helix, without its z component. */
void vp_view_tangent(const struct vp_view *view, double t[3]);
/* Moves the origin of the frame to (0, 0, z). */
void vp_view_raise(struct vp_view *view, double z);
/* Returns the position of the source (cone), or the unit vector towards it (parallel). */
void vp_view_source(const struct vp_view *view, double s[3]);
/* Returns the angle about z at the source, in radians, from the ray through the origin to that of detector column u (at
 * the row of the origin), positive along (cos b, sin b, 0); any matrices. Parallel: the distance of that ray from the
 * origin, mm. */
double vp_view_fan(const struct vp_view *view, double u);
/* Returns the ray of pixel (u, v) as y[0] u + y[1] v + y[2]. Cone: its direction at the source, with depth 1. Parallel:
 * its intersection with the plane through the origin perpendicular to the rays. */
void vp_view_rays(const struct vp_view *view, double y[3][3]);
static inline bool vp_view_parallel(const struct vp_view *v)
{
    return v->P[8] == 0 && v->P[9] == 0 && v->P[10] == 0;
}

/* Maps pixel (u, v) of a curved detector to the flat one that touches it at the central ray, and back. */
static inline void vp_view_flatten(const struct vp_view *view, double *u, double *v)
{
    const double fan = (*u - view->cu) / view->fu;
    *u = view->cu + view->fu * tan(fan);
    *v = view->cv + (*v - view->cv) / cos(fan);
}
static inline void vp_view_bend(const struct vp_view *view, double *u, double *v)
{
    const double fan = atan((*u - view->cu) / view->fu);
    *u = view->cu + view->fu * fan;
    *v = view->cv + (*v - view->cv) * cos(fan);
}

/* A volume: voxel index (i, j, k) has its centre at center + (index - (n - 1) / 2) * voxel, per axis. */
struct vp_grid {
    int64_t n[3];
    double voxel[3];
    double center[3];
};

/* The volume options, shared by ct-backproject, ct-fdk and ct-phantom: --volume --voxel --center --slab */
struct vp_grid_params {
    struct vp_size volume;
    struct vp_reals voxel, center;
    struct vp_range slab;
};
extern const struct vp_opt vp_grid_options[];

/* Makes the grid from options and geometry (g, views and scan may be NULL: then --volume WxHxD is required). Default:
 * the field of view at the detector's sampling (voxel = pitch * sod / sdd). With --volume alone, the voxel size is that
 * which fits the field of view; with --voxel alone, the size covers it. `slab` is checked against n[2] and returned as
 * [z0, z1) (all slices if not given). */
int vp_grid_make(struct vp_grid *grid, int64_t *z0, int64_t *z1, const struct vp_grid_params *o,
                 const struct vp_geom *g, const struct vp_view *views, const struct vp_scan *scan,
                 struct vp_err *err);
/* Sets nx, ny, pages, axes, voxel, unit, origin in the stack header of a volume or slab. */
int vp_grid_to_stack(const struct vp_grid *grid, int64_t z0, int64_t z1, struct vp_stack *s,
                     struct vp_err *err);

/* Returns P of a view in voxel indices of a grid: Pv such that (u w, v w, w) = Pv (i, j, k, 1). */
void vp_view_on_grid(const struct vp_view *view, const struct vp_grid *grid, double Pv[12]);

/* Describe a geometry for ct-geom --show. vp_geom_explain returns text, malloc'd, or NULL if out of memory;
 * vp_geom_warn calls `report` with one line for each implausible finding. */
char *vp_geom_explain(const struct vp_geom *g, const struct vp_view *views, const struct vp_scan *scan);
void vp_geom_warn(const struct vp_geom *g, const struct vp_view *views, const struct vp_scan *scan,
                  void (*report)(void *ctx, const char *text), void *ctx);
/* Writes one line about rays that no view measures because directions are missing; false if there are none. */
bool vp_geom_missing(char *text, size_t size, const struct vp_view *views, const struct vp_scan *scan);

/* -g and --layout, shared by the ct- programs that read projections. */
enum vp_layout { VP_LAYOUT_VIEWS, VP_LAYOUT_SINOGRAMS };
struct vp_projection_params {
    const char *geometry;
    int layout;
};
extern const struct vp_opt vp_projection_options[];

/* Makes the geometry of a stack of projections from -g FILE, else from the metadata; without either an error with a
 * hint. Checks it against the stack's size in this layout (nu x nv pages, or nu x views pages, and the number of pages
 * if known). */
int vp_geom_of(struct vp_geom *g, const struct vp_projection_params *o, const struct vp_stack *s,
               const char *name, struct vp_err *err);
