/* Scan geometry: what the file says (struct vp_geom), and what everything downstream sees: one 3x4
 * matrix a view (struct vp_view).
 *
 * Frame: right-handed, mm, degrees; z is the rotation axis. At gantry angle b (counter-clockwise seen
 * from +z) the source is at sod * (-sin b, cos b, 0), the depth of (x, y, z) is
 * w = sod + x sin b - y cos b, and
 *     u = cu + (sdd / du) (x cos b + y sin b) / w,   v = cv + (sdd / dv) z / w       (cone)
 *     u = cu + (x cos b + y sin b) / du,             v = cv + z / dv                 (parallel)
 * with pixel centres at integers and cu = (nu - 1) / 2 + offset_u, cv = (nv - 1) / 2 + offset_v.
 * `clockwise` takes b = -angle. (iFDK, Chen et al. 2019, eq. 2-3, up to index flips.) On a helix z is counted from the
 * source's height; in laminography source and detector are turned by `lamino` about the u axis at the isocentre. */
#ifndef VP_GEOM_H
#define VP_GEOM_H

#include "stack/stack.h"
#include "base/opt.h"
#include <math.h>

enum vp_beam { VP_CONE, VP_PARALLEL };

struct vp_geom {
    enum vp_beam beam;
    double sod, sdd; /* mm, source to axis and source to detector; cone only */
    int64_t nu, nv;  /* detector columns and rows */
    double du, dv; /* pixel pitch, mm; negative where columns (rows) are numbered the other way: dv < 0 is an
                      image whose first row is on top. 0: not known, only with `matrix` */
    double offset_u, offset_v; /* pixels: where the central ray (through the axis, in the orbit plane) meets
                                  the detector, relative to its centre */
    double tilt; /* degrees: the detector turned in its own plane about the central ray; the image of
                    +z turns from +v towards +u */
    double pitch_z; /* mm that the source (and the detector) move along z while the angle grows by 360; 0: a circle.
                       z is 0 in the middle of the angles */
    double lamino;  /* degrees: from the axis to the plane of the detector's columns; > 0: the source is above */
    bool curved;    /* the detector is a part of a cylinder about the line through the source along its columns: columns
                       are at equal angles, du apart along the arc. Matrices are those of the flat detector that touches
                       it at the central ray (cone only) */
    bool fixed;     /* the detector moves with the source but does not turn: columns along x, rows along y, across z */
    bool clockwise;
    int64_t views;
    double *angle;  /* degrees, one a view, as given (before `clockwise`); malloc'd */
    double *matrix; /* 12 a view, row major, mm -> pixels (any scale), or NULL; malloc'd. If set it
                       decides; sod, sdd, angle, ... then are what was derived from it. */
    char doubt[400]; /* what looked wrong with the numbers as they were written, one line; or empty */
};

void vp_geom_free(struct vp_geom *g);

/* Options of ct-geom, as text with the syntax of the file's keys. */
struct vp_geom_params {
    const char *beam, *sod, *sdd, *detector, *pitch, *offset_u, *offset_v, *tilt, *pitch_z, *lamino, *views, *arc,
        *start, *angles, *shifts;
    bool curved, fixed, clockwise, counterclockwise;
};
extern const struct vp_opt vp_geom_options[];
/* A geometry from a file: our text, plain rows of 12 numbers (one matrix a view), RTK XML, Nikon .xtekct, Bruker .log,
 * or a TIFF stack that carries a geometry, told apart by content; "-" is standard input (text only). With the options
 * (or NULL) put over it; path NULL: from them alone. */
int vp_geom_make(struct vp_geom *g, const char *path, const struct vp_geom_params *o, struct vp_err *err);

/* Text of a geometry file, malloc'd: parameters, or with `matrices` one `matrix =` line a view (plus detector
 * and distances). Reading it back gives the same bits. NULL if out of memory. */
char *vp_geom_format(const struct vp_geom *g, bool matrices);

/* To and from metadata (keys geom.*). vp_geom_from_meta: 1 found, 0 no geometry there, -1 malformed. */
int vp_geom_to_meta(const struct vp_geom *g, struct vp_meta *m, struct vp_err *err);
int vp_geom_from_meta(struct vp_geom *g, const struct vp_meta *m, const char *name, struct vp_err *err);

/* One view as everything downstream sees it. */
struct vp_view {
    double P[12];  /* (u w, v w, w) = P (x, y, z, 1); mm -> pixels; w is the depth in mm along the central ray
                      (third row's direction has unit length, w > 0 at the isocentre). Parallel: w = 1. */
    double angle;  /* radians in [0, 2 pi]: b, of the source position, counter-clockwise from +y; parallel: of
                      the  direction the rays come from */
    double fu, fv; /* sdd / du, sdd / dv: pixels (parallel: 1 / du, 1 / dv); negative where u runs against
                      (cos b, sin b, 0), v against +z (a mirrored image): the fan angle atan((u - cu) / fu) is
                      right */
    double cu, cv; /* principal point, pixels (parallel: image of the origin) */
    double sod;    /* depth of the isocentre (origin), mm; parallel: 0 */
    double weight; /* angular weight, radians: half the gaps to both neighbours on the circle (helix: along the way); see
                      vp_scan */
    double turn;   /* angle / 2 pi, which on a helix goes on to grow from turn to turn */
};

/* A helix: the source at height z0 + pitch turn. A voxel counts the views of a window about the turn at which it is in
 * the middle of the detector, so that all directions count alike: those of a turn, with slopes at both ends where one
 * turn's views give way to the next one's (ct/helix.h). */
struct vp_helix {
    double pitch;            /* mm; 0: no helix */
    double z0;               /* mm */
    double lo, hi;           /* turns: of the first and the last view, and half a step */
    double below, above;     /* mm of the axis that a view sees below and above its source */
    double rim;              /* radius of the field of view over that of the helix */
    double shortest, slope;  /* turns: length of the slopes, at the ends of the scan and at most: the detector sees all
                                of the window at the rim of the field, unless that is too short */
    double z_lo, z_hi;       /* mm: of the slices that see all directions */
};

/* Equal angles share one weight. The largest gap between neighbours is open if it exceeds 2.75 times the median gap
 * and 1 degree (offset detector: four times and 20 degrees, and all such gaps; parallel beam on the half circle: four
 * times and 50 degrees); the views at its ends then count for a full local step. */
enum vp_scan_kind {
    VP_SCAN_FULL,  /* 360 degrees: weights sum to 2 pi. Also a parallel beam with an offset detector over 360
                      degrees, and a helix: weights sum to 2 pi a turn */
    VP_SCAN_SHORT, /* an arc of less than 360 degrees: the largest gap is left open, or with an offset detector all
                      gaps; a parallel beam only with such a detector */
    VP_SCAN_PARALLEL /* parallel beam: weights on the half circle, sum to pi (opposite views share) less the gap if that
                        is open */
};

struct vp_scan {
    enum vp_scan_kind kind;
    double arc;   /* radians covered: the circle (half circle) less the gap if that is open */
    double start; /* radians: angle of the first view of the arc in the direction of increasing b; angle -
                     start modulo 2 pi is in [0, arc] but for rounding and near-equal angles */
    double largest_gap;              /* radians */
    double gap;      /* radians between neighbours, beyond which a gap is open; INFINITY: none is, */
    int64_t gaps;    /* open ones, */
    double missing;  /* radians that they leave out: the circle (half circle) less the views' weights */
    double half_fan_lo, half_fan_hi; /* fan angles of the outermost detector columns' centres, radians (lo < 0
                              < hi), over all views; parallel: 0 */
    double overlap; /* pixels: half width around the central ray that both sides of the detector cover, to the
                       edge of the outermost pixel; < 0 if the ray misses the detector */
    double larger;  /* pixels: the larger side, of all views */
    int64_t directions;  /* different angles on the full circle, */
    double step, widest; /* radians: the median of the gaps between, and the largest that is not open */
    bool offset;   /* offset-detector weights are wanted: a full scan, but for gaps of less than 120 degrees, whose
                      smaller side of the detector, from the central ray, is less than 90 % of the larger */
    bool circular; /* sources on a circle in z = 0, equal distances, principal rays through the axis, within
                      1e-6 */
    bool curved;   /* the detector is: see vp_geom */
    bool untilted; /* P[2] = P[10] = 0 (relative 1e-9): u and depth do not depend on z */
    struct vp_helix helix; /* pitch 0: none */
    double turned; /* radians: the largest angle of the detector's rows and the image of the circle about z */
    double astray; /* radians: by which the source's way leads out of that, seen on the detector: the median; or half of
                      what the source's elevation over z = 0 changes by */
    double travel; /* mm: by which the source's height changes, without a helix */
};

/* What a run takes for a view, in all: its numbers, matrices and weights. */
enum { VP_GEOM_VIEW_BYTES = 400 };

/* Matrices, decomposed, and the scan they make. *views is malloc'd (g->views entries). */
int vp_geom_views(const struct vp_geom *g, struct vp_view **views, struct vp_scan *scan, struct vp_err *err);

/* Do the detector's rows not follow the source's way, so that views have to be turned before they can be filtered? */
bool vp_scan_turned(const struct vp_scan *scan);
/* A scan that the filter can do, or an error: the source's way is a circle or a helix about z, seen often enough. */
int vp_scan_check(const struct vp_scan *scan, struct vp_err *err);
/* The same scan on a detector that turns with the source: matrices, perpendicular to the ray from the source to the axis,
 * rows along the source's way, as large as the detector is in any view, sampled as finely. *to, malloc'd, has 9 numbers a
 * view: (u w, v w, w) = to (u', v', 1) is where its pixel (u', v') lies on the detector of g. */
int vp_geom_turned(const struct vp_geom *g, const struct vp_view *views, const struct vp_scan *scan, struct vp_geom *out,
                   double **to, struct vp_err *err);
/* Direction in which the source moves on a circle about z; on a helix, but for z. */
void vp_view_way(const struct vp_view *view, double t[3]);
/* The same with the origin of the frame at (0, 0, z). */
void vp_view_raise(struct vp_view *view, double z);
/* Position of the source (cone), or unit vector towards it (parallel). */
void vp_view_source(const struct vp_view *view, double s[3]);
/* Angle about z at the source, in radians, from the ray through the origin to that of detector column u (at
 * the row of the origin), positive along (cos b, sin b, 0); any matrices. Parallel: that ray's distance from
 * the origin, mm. */
double vp_view_fan(const struct vp_view *view, double u);
/* The ray of pixel (u, v) is y[0] u + y[1] v + y[2]. Cone: its direction at the source, of depth 1. Parallel: where
 * it meets the plane through the origin across the rays. */
void vp_view_rays(const struct vp_view *view, double y[3][3]);
static inline bool vp_view_parallel(const struct vp_view *v)
{
    return v->P[8] == 0 && v->P[9] == 0 && v->P[10] == 0;
}

/* Pixel (u, v) of a curved detector on the flat one that touches it at the central ray, and back. */
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

/* Grid from options and geometry (g, views and scan may be NULL: then --volume WxHxD is needed): default the field
 * of view at the detector's sampling (voxel = pitch * sod / sdd); with --volume alone, the voxel makes the
 * field of view fit; with --voxel alone, the size covers it. `slab` is checked against n[2] and returned as
 * [z0, z1) (all if not given). */
int vp_grid_make(struct vp_grid *grid, int64_t *z0, int64_t *z1, const struct vp_grid_params *o,
                 const struct vp_geom *g, const struct vp_view *views, const struct vp_scan *scan,
                 struct vp_err *err);
/* Set nx, ny, pages, axes, voxel, unit, origin of a volume's (or slab's) stack header. */
int vp_grid_to_stack(const struct vp_grid *grid, int64_t z0, int64_t z1, struct vp_stack *s,
                     struct vp_err *err);

/* P of a view in voxel indices of a grid: Pv such that (u w, v w, w) = Pv (i, j, k, 1). */
void vp_view_on_grid(const struct vp_view *view, const struct vp_grid *grid, double Pv[12]);

/* ct-geom --show: explains in words and numbers; malloc'd, NULL without memory. And what looks wrong, each one line
 * that is given to `say`. */
char *vp_geom_explain(const struct vp_geom *g, const struct vp_view *views, const struct vp_scan *scan);
void vp_geom_warn(const struct vp_geom *g, const struct vp_view *views, const struct vp_scan *scan,
                  void (*say)(void *ctx, const char *text), void *ctx);
/* One line on rays that no view measures because directions are missing, if there are any: false if not. */
bool vp_geom_missing(char *text, size_t size, const struct vp_view *views, const struct vp_scan *scan);

/* -g and --layout, shared by the ct- programs that read projections. */
enum vp_layout { VP_LAYOUT_VIEWS, VP_LAYOUT_SINOGRAMS };
struct vp_projection_params {
    const char *geometry;
    int layout;
};
extern const struct vp_opt vp_projection_options[];

/* The geometry of a stack of projections: -g FILE, else the metadata, else an error with a hint. Checked
 * against the stack's size in this layout (nu x nv pages, or nu x views pages, and the number of pages if
 * known). */
int vp_geom_of(struct vp_geom *g, const struct vp_projection_params *o, const struct vp_stack *s,
               const char *name, struct vp_err *err);

#endif
