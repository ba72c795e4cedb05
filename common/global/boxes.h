/* Sums, means and deviations over boxes that a file lists, thousands in one pass over the rows of a stack, exact:
 * they are added up in numbers that are not rounded, so no order of additions, and no sample beside a box, changes a
 * digit. */
#pragma once

#include "base/exact.h"
#include "base/json.h"
#include "engine/op.h"

struct vp_outfile;
struct vp_pages;
struct vp_boxes_isa;
struct vp_box_columns;

struct vp_box_wanted {
    char *name;
    int64_t image;          /* VP_EVERY: one result of each */
    int64_t lo[3], hi[3];   /* x, y, z, half open; an image has z 0:1 */
};

/* Sums of the finite samples and of their squares; counts of NaN, infinite samples (of either sign), and squares beyond
 * f64. */
struct vp_box_sums {
    struct vp_exact sum, squares;
    int64_t added, carried; /* additions; additions when digits were last carried */
    int64_t nan, inf[2], beyond;
};

/* A box begins, or ends, before this row. */
struct vp_box_event { int64_t at, box; bool ends; };

/* Strip of columns: next event, number of open boxes. */
struct vp_box_strip { int64_t next, open; };

struct vp_boxes {
    int64_t n;
    struct vp_box_wanted *box;
    struct vp_box_event *event; /* 2 n, ordered by `at` */
    bool volume, json;
    int64_t size[3], inner;     /* pages of an image; images that alternate */
    enum vp_type type;          /* type of the samples */
    double scale[2];            /* recorded scale of integers; gain 0: none */
    int threads;
    struct vp_outfile *out;
    struct vp_box_sums *sums;   /* sums of the boxes of each of the `inner` images */
    struct vp_json print;       /* its `out` is a text in memory, written to the file at the end of an image */
    int64_t planes;             /* pages of an image */
    const struct vp_boxes_isa *isa;
    struct vp_box_columns *columns;
    int64_t strip_columns, strips;
    struct vp_box_strip *strip;
    int64_t *edge, pieces;      /* first column of each piece; end of the last one */
    struct vp_box_sums **rest;  /* digits of each piece, then of each strip, or NULL */
    bool failed;                /* out of memory */
    const struct vp_pages *pages; /* rows read so far */
};

enum { VP_EVERY = -1 };

/* Reads the list for images of `size`: lines of fields with tabs, commas or blanks between them: a name (optional),
 * X0:X1, Y0:Y1, in volumes Z0:Z1, and the number of an image (optional: every one). Empty lines and those that begin
 * with # are skipped; so is a first line of words. */
int vp_boxes_read(struct vp_boxes *b, const char *path, const int64_t size[3], bool volume, struct vp_err *err);
/* Begins, before the first row. `in`: type of the samples; `images`: their number, or VP_UNKNOWN. */
int vp_boxes_begin(struct vp_boxes *b, enum vp_type in, int64_t inner, int64_t images, int threads, struct vp_err *err);
/* Adds n rows, the first being row `row` of the stack. */
int vp_boxes_rows(struct vp_boxes *b, int64_t row, int64_t n, const void *samples, struct vp_err *err);
/* Ends, after the last row: boxes of missing pages are an error. */
int vp_boxes_end(struct vp_boxes *b, struct vp_err *err);
/* Passes rows of pages->reader to vp_boxes_rows. */
void vp_boxes_pages(struct vp_boxes *b, int64_t inner, struct vp_pages *pages);
void vp_boxes_free(struct vp_boxes *b);
