/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside geom/: a geometry while it is being put together from a file, an importer and options. */
#ifndef VP_DRAFT_H
#define VP_DRAFT_H

#include "geom/geom.h"

enum vp_geom_key {
    VP_GK_BEAM, VP_GK_SOD, VP_GK_SDD, VP_GK_DETECTOR, VP_GK_PITCH, VP_GK_SHAPE, VP_GK_OFFSET_U, VP_GK_OFFSET_V, VP_GK_TILT,
    VP_GK_PITCH_Z, VP_GK_LAMINO, VP_GK_MOTION, VP_GK_DIRECTION, VP_GK_ANGLES, VP_GK_VIEWS, VP_GK_ARC, VP_GK_START,
    VP_GK_MATRIX, VP_GK_SHIFTS, VP_GK_COUNT
};

/* Length of the angle and matrix lists is limited so that a typo does not ask for terabytes. */
#define VP_GEOM_MAX_VIEWS 10000000
/* Lengths in mm and pixels. */
#define VP_GEOM_LARGEST 1e15
/* What stands for a list of angles. */
#define VP_GEOM_COUNTED (1u << VP_GK_VIEWS | 1u << VP_GK_ARC | 1u << VP_GK_START)
/* In a radian. */
#define VP_DEGREES (180 / 3.14159265358979323846)

struct vp_draft {
    unsigned given;        /* bits 1 << key: set by any source so far */
    unsigned seen;         /* set by the present source (a file, or the options) */
    unsigned mm;           /* offsets that are in mm, to be divided by the pitch */
    bool matrix_mm;        /* matrices map to mm on the detector from its centre (RTK), not to pixels */
    struct vp_geom g;      /* what it becomes, but for the lists, which are here, */
    double views, arc, start;                                   /* and what stands for one */
    struct vp_geom_list { double *v; int64_t n, room; } angle, matrix, shift; /* numbers: of matrices 12 a view, of
                                                                               shifts 2 */
    struct vp_skyscan_log { double aligned, rotated, ratio; int64_t positions; } log; /* of a SkyScan log: Postalignment in
                              columns, Image Rotation in degrees, Camera X/Y Ratio, horizontal positions of the camera */
    const char *moved, *spiral; /* a file's own words for shifts and a helix that it does not specify; NULL: none */
    int64_t commas, words; /* of the angles: blank-separated words, and those like 12,5 */
    char comma[24];        /* the first of them */
};

/* The keys, in the order in which they are written. */
struct vp_geom_field {
    const char *name, *note;  /* note: for people, beside the value in a file */
    const char *words[2];     /* one of them is the value; else */
    size_t offset;            /* in a draft: of one double or two */
    int most;
    const char *units;        /* the first letters of units that may follow a number, mm and px */
    const char *expected;     /* "a distance in mm" */
};
extern const struct vp_geom_field vp_geom_fields[VP_GK_COUNT];

/* The key of that name, or an error with a suggestion. */
int vp_geom_key_find(const char *name, enum vp_geom_key *key, const char *where, struct vp_err *err);

void vp_draft_free(struct vp_draft *d);

/* One `key = value`; `where` begins the messages ("scan.geom: line 7"). */
int vp_draft_set(struct vp_draft *d, enum vp_geom_key key, const char *value, const char *where,
                 struct vp_err *err);
/* One number more of the angles or matrices. */
int vp_draft_append(struct vp_draft *d, enum vp_geom_key key, double number, const char *where, struct vp_err *err);
void vp_draft_mark(struct vp_draft *d, enum vp_geom_key key);

/* Text of any known kind, told apart by content; text[len] is 0. It is taken apart. */
int vp_draft_text(struct vp_draft *d, char *text, size_t len, const char *name, struct vp_err *err);
/* A list of angles, one a line, or of shifts, two numbers a line, in place of those before. */
int vp_draft_list(struct vp_draft *d, enum vp_geom_key key, char *text, size_t len, const char *name, struct vp_err *err);
/* The foreign kinds: 0 if it is none of them, 1, or -1. */
int vp_draft_import(struct vp_draft *d, const char *text, const char *name, struct vp_err *err);

/* What is put together becomes a geometry (validated); the draft's lists move into it. */
int vp_draft_finish(struct vp_draft *d, struct vp_geom *g, const char *name, struct vp_err *err);

/* Shortest decimal that reads back as the same double, for the arguments of a call: vp_geom_number(x).text. */
struct vp_geom_number { char text[32]; };
struct vp_geom_number vp_geom_number(double x);
/* The number at *s (blanks before it skipped), which must be finite and end at a blank, a comma or one of
 * `stops`. */
bool vp_geom_scan(const char **s, double *out, const char *stops);

/* Sine and cosine of an angle in degrees, exact at multiples of 90. */
void vp_sincosd(double degrees, double *s, double *c);

/* The column of the matrix for column u of the detector, which may be curved. */
double vp_view_column(const struct vp_geom *g, const struct vp_view *view, double u);

/* Matrix `m` of a view as everything downstream sees it. NULL, or what is wrong with it. */
const char *vp_view_from_matrix(struct vp_view *view, const double m[12]);
/* View k of a geometry, whose angles' middle (vp_geom_middle) is the z = 0 of a helix. NULL, or what is wrong with it. */
const char *vp_view_of(const struct vp_geom *g, int64_t k, double middle, struct vp_view *view);
double vp_geom_middle(const struct vp_geom *g);

/* Is the source's way a helix? Then *h is it, and the views have its weights; h->below and above are set in any case, and
 * scan->travel. `scratch`: 2 doubles a view. */
bool vp_way_helix(const struct vp_geom *g, struct vp_view *views, struct vp_scan *scan, double *scratch,
                  struct vp_helix *h);
/* Fills scan->turned and scan->astray. */
int vp_way_turned(const struct vp_geom *g, const struct vp_view *views, struct vp_scan *scan, struct vp_err *err);

/* The part of the axis (0, 0, z) that a view sees; lo > hi: nothing. */
void vp_view_axis(const struct vp_geom *g, const struct vp_view *view, double *lo, double *hi);

/* The field of view: its radius in mm, the pixel at the axis in mm, and [lo, hi] in mm, the part of the axis that is
 * seen; `exact`: the volume is to be no larger. */
struct vp_fov { double radius, pixel, lo, hi; bool exact; };
struct vp_fov vp_geom_fov(const struct vp_geom *g, const struct vp_view *views, const struct vp_scan *scan);

#endif
