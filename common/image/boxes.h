/* Sums, means and deviations over boxes that a file lists, thousands in one pass: a table of sums and one of squares go by,
 * row by row (in volumes plane by plane), and each box takes its corners as they come. */
#ifndef VP_BOXES_H
#define VP_BOXES_H

#include "run/op.h"

struct vp_outfile;

struct vp_box_wanted {
    char *name;
    int64_t image;          /* VP_EVERY: one result of each */
    int64_t lo[3], hi[3];   /* x, y, z, half open; an image has z 0:1 */
};

/* So far, of the samples and of their squares: bits of a double in tables of floats. */
struct vp_box_sums { uint64_t of[2]; };

/* A box begins, or ends, before this row (plane). */
struct vp_box_event { int64_t at, box; bool ends; };

struct vp_boxes {
    int64_t n;
    struct vp_box_wanted *box;
    struct vp_box_event *event; /* 2 n of them, by `at` */
    bool volume, floats, signs, json;
    int64_t size[3], inner;     /* of an image; images that alternate */
    struct vp_outfile *out;
    struct vp_box_sums *sums;   /* of the boxes of each of the `inner` images */
    int64_t *next;              /* event of each of these; then those of the squares */
    int64_t written;
};

enum { VP_EVERY = -1 };

/* Read the list for images of `size`: lines of fields with tabs, commas or blanks between them: a name (optional), X0:X1,
 * Y0:Y1, in volumes Z0:Z1, and the number of an image (optional: every one). Empty lines and those that begin with #
 * are passed over; so is a first line of words. */
int vp_boxes_read(struct vp_boxes *b, const char *path, const int64_t size[3], bool volume, struct vp_err *err);
/* The operation for them: the type of its first table, so that nothing is lost: integers of up to 16 bits are summed up
 * as integers, others as floats. */
enum vp_type vp_boxes_table(enum vp_type in);
/* Before the first page. `in`: the type of the samples; `images`: how many there are, or VP_UNKNOWN. */
int vp_boxes_begin(struct vp_boxes *b, enum vp_type in, int64_t inner, int64_t images, struct vp_err *err);
/* Planes of the exclusive tables as they come (struct vp_execute): of the sums, and of the squares. */
int vp_boxes_sums(void *ctx, int64_t page, const void *samples, int64_t n, struct vp_err *err);
int vp_boxes_squares(void *ctx, int64_t page, const void *samples, int64_t n, struct vp_err *err);
/* After the last page: what has not come is missing. */
int vp_boxes_end(struct vp_boxes *b, struct vp_err *err);
void vp_boxes_free(struct vp_boxes *b);

#endif
