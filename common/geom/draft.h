/* SPDX-License-Identifier: BSD-3-Clause */
/* Internal to geom/: a geometry under construction from a file, an importer and options. */
#pragma once

#include "geom/geom.h"

enum vp_geom_key {
    VP_GK_BEAM, VP_GK_SOD, VP_GK_SDD, VP_GK_DETECTOR, VP_GK_PITCH, VP_GK_SHAPE, VP_GK_OFFSET_U, VP_GK_OFFSET_V,
    VP_GK_TILT, VP_GK_PITCH_Z, VP_GK_LAMINO, VP_GK_MOTION, VP_GK_DIRECTION, VP_GK_ANGLES, VP_GK_VIEWS, VP_GK_ARC,
    VP_GK_START, VP_GK_MATRIX, VP_GK_SHIFTS, VP_GK_COUNT
};

/* Limits the length of the lists of angles and matrices, so that a typo does not request terabytes. */
#define VP_GEOM_MAX_VIEWS 10000000
/* Largest length, in mm or pixels. */
#define VP_GEOM_LARGEST 1e15
/* Keys that replace a list of angles. */
#define VP_GEOM_COUNTED (1u << VP_GK_VIEWS | 1u << VP_GK_ARC | 1u << VP_GK_START)
/* Degrees in a radian. */
#define VP_DEGREES (180 / 3.14159265358979323846)

struct vp_draft {
    unsigned given;        /* keys set by any source so far, bits 1 << key */
    unsigned seen;         /* keys set by the current source (a file, or the options) */
    unsigned mm;           /* keys whose offsets are in mm, still to be divided by the pitch */
    bool matrix_mm;        /* matrices map to mm on the detector from its centre (RTK), not to pixels */
    struct vp_geom g;      /* the result, except for the lists below */
    double views, arc, start;                                   /* replace a list of angles */
    /* Numbers: an angle per view, 12 of a matrix per view, 2 shifts per view. */
    struct vp_geom_list { double *v; int64_t n, room; } angle, matrix, shift;
    /* Entries of a SkyScan log: Postalignment in columns, Image Rotation in degrees, Camera X/Y Ratio, number of
     * horizontal positions of the camera. */
    struct vp_skyscan_log { double aligned, rotated, ratio; int64_t positions; } log;
    const char *moved, *spiral; /* keys of a file for shifts and a helix that it does not specify; NULL: none */
    int64_t commas, words; /* words among the angles with a comma, such as 12,5; all words between blanks */
    char comma[24];        /* the first word with a comma */
};

/* A key of a geometry file. The table is in the order in which keys are written. */
struct vp_geom_field {
    const char *name, *note;  /* note: a comment beside the value in a file */
    const char *words[2];     /* allowed values, if the value is a word */
    size_t offset;            /* offset in struct vp_draft of one or two doubles */
    int most;
    const char *units;        /* first letters of the units (mm, px) that may follow a number */
    const char *expected;     /* for messages, e.g. "a distance in mm" */
};
extern const struct vp_geom_field vp_geom_fields[VP_GK_COUNT];

/* Finds the key called `name`. Unknown names are an error, with a suggestion. */
int vp_geom_key_find(const char *name, enum vp_geom_key *key, const char *where, struct vp_err *err);

void vp_draft_free(struct vp_draft *d);

/* Sets `key = value`; `where` is the prefix of messages ("scan.geom: line 7"). */
int vp_draft_set(struct vp_draft *d, enum vp_geom_key key, const char *value, const char *where,
                 struct vp_err *err);
/* Appends a number to the angles or matrices. */
int vp_draft_append(struct vp_draft *d, enum vp_geom_key key, double number, const char *where, struct vp_err *err);
void vp_draft_mark(struct vp_draft *d, enum vp_geom_key key);

/* Reads text of any known kind, recognized by its content; text[len] is 0. Modifies the text. */
int vp_draft_text(struct vp_draft *d, char *text, size_t len, const char *name, struct vp_err *err);
/* Replaces the list of angles (one per line) or of shifts (two numbers per line). */
int vp_draft_list(struct vp_draft *d, enum vp_geom_key key, char *text, size_t len, const char *name,
                  struct vp_err *err);
/* Reads a foreign format: 1, 0 if the text is in none of them, -1 on errors. */
int vp_draft_import(struct vp_draft *d, const char *text, const char *name, struct vp_err *err);

/* Makes a validated geometry; it takes over the draft's lists. */
int vp_draft_finish(struct vp_draft *d, struct vp_geom *g, const char *name, struct vp_err *err);

/* The shortest decimal that reads back as the same double; as an argument of a call: vp_geom_number(x).text. */
struct vp_geom_number { char text[32]; };
struct vp_geom_number vp_geom_number(double x);
/* Reads the number at *s after blanks. It must be finite and end at a blank, a comma or one of `stops`. */
bool vp_geom_scan(const char **s, double *out, const char *stops);

/* Returns sine and cosine of an angle in degrees, exact at multiples of 90. */
void vp_sincosd(double degrees, double *s, double *c);

static inline double vp_dot3(const double *a, const double *b)
{
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

/* Returns the matrix column for detector column u; the detector may be curved. */
double vp_view_column(const struct vp_geom *g, const struct vp_view *view, double u);

/* Decomposes the matrix `m`. Returns NULL, or a description of the error. */
const char *vp_view_from_matrix(struct vp_view *view, const double m[12]);
/* Makes view k of a geometry; `middle` (vp_geom_middle) is the angle of z = 0 on a helix. Returns NULL, or a
 * description of the error. */
const char *vp_view_of(const struct vp_geom *g, int64_t k, double middle, struct vp_view *view);
double vp_geom_middle(const struct vp_geom *g);
/* Finds the smallest and the largest angle. */
void vp_geom_range(const struct vp_geom *g, double *lo, double *hi);

/* True if the source path is a helix: fills *h and the weights of the views. Sets h->below, h->above and scan->travel
 * in any case. `scratch`: 2 doubles per view. */
bool vp_path_helix(const struct vp_geom *g, struct vp_view *views, struct vp_scan *scan, double *scratch,
                  struct vp_helix *h);
/* Fills scan->turned and scan->astray. */
int vp_path_turned(const struct vp_geom *g, const struct vp_view *views, struct vp_scan *scan, struct vp_err *err);

/* Sets [lo, hi] to the part of the axis (0, 0, z) that a view sees, in mm; lo > hi: nothing. */
void vp_view_axis(const struct vp_geom *g, const struct vp_view *view, double *lo, double *hi);

/* The field of view in mm: its radius, the pixel size at the axis, and the part [lo, hi] of the axis that is seen;
 * `exact`: the volume must not be larger. */
struct vp_fov { double radius, pixel, lo, hi; bool exact; };
struct vp_fov vp_geom_fov(const struct vp_geom *g, const struct vp_view *views, const struct vp_scan *scan);
