/* Pictures of slices: composing, resizing, windowing to 8-bit gray. */
#pragma once

#include "stack/stack.h"

struct vp_reader;

enum { VP_SIDE_MAX = 65535 }; /* pixels on a side of a picture */

/* Samples of a picture, row major; NaN is background (black, and not counted for the window). */
struct vp_picture { float *v; int64_t w, h; };

/* Allocates a picture, all NaN. VP_ERESOURCE if it is larger than 65535 on a side or does not fit memory. */
int vp_picture_new(struct vp_picture *p, int64_t w, int64_t h, struct vp_err *err);
void vp_picture_free(struct vp_picture *p);
/* Resizes in place to w x h: mean over the area of each new pixel where it shrinks, linear where it grows; both
 * are exact for constants and do not shift the picture. NaN spreads to the pixels it touches. */
int vp_picture_resize(struct vp_picture *p, int64_t w, int64_t h, struct vp_err *err);
/* Resizes in place to w x h: each pixel is the sample nearest to its centre, as labels need. */
int vp_picture_pick(struct vp_picture *p, int64_t w, int64_t h, struct vp_err *err);
/* Copies src into dst with its corner at (x, y); it must fit. */
void vp_picture_put(struct vp_picture *dst, int64_t x, int64_t y, const struct vp_picture *src);
/* Percentiles lo_percent and hi_percent of what is not NaN in n pictures; hi > lo always. */
int vp_picture_window(const struct vp_picture *p, int n, double lo_percent, double hi_percent, double *lo,
                      double *hi, struct vp_err *err);
/* Computes the gray value of samples: round(255 (v - lo) / (hi - lo)) clamped to 0..255, or 255 less that; NaN is 0.
 * The pixels are dst[0], dst[step], ... */
void vp_picture_gray(const struct vp_picture *p, double lo, double hi, bool invert, uint8_t *dst, int step);

/* Cuts through a stack; where pictures come from. */
enum vp_cut { VP_CUT_Z, VP_CUT_Y, VP_CUT_X };
struct vp_slice {
    enum vp_cut axis;
    int64_t channel;         /* channel of the pages that it is cut from */
    int64_t at;              /* its number along the axis */
    struct vp_picture out;   /* z: nx x ny; y: nx x pages; x: pages x ny; samples made by vp_slices_read */
    int64_t shape[2];        /* width and height that it is resized to then */
};
/* A projection along the axis of a cut, instead of the cut. */
enum vp_slices_project { VP_PROJECT_NONE, VP_PROJECT_MAX, VP_PROJECT_MEAN, VP_PROJECT_MIN };
struct vp_slices {
    enum vp_slices_project project; /* then `at` of the cuts is not used */
    int n;                   /* cuts wanted */
    int colours;             /* 3: the first third of them are red, the next green, the last blue; else 1 */
    int64_t stride, count;   /* axis of the channels: page s + stride * (c + count * t) of the stack is page
                                s + stride * t of channel c; 1 and 1 if there is none */
    struct vp_slice *slice;  /* malloc'd */
    int64_t pages;           /* pages of each channel; -1: unknown, then only cuts across z can be made */
    uint64_t held;           /* bytes of the stack that the reader keeps, see vp_slices_count */
};
/* Sets s->pages to those of the stack. If unknown, the pipe is read to its end and kept in memory
 * (vp_reader_keep), or, if that does not fit `memory`, refused (VP_ERESOURCE). */
int vp_slices_count(struct vp_slices *s, struct vp_reader *r, uint64_t memory, struct vp_err *err);
/* Checks before anything is read that the cuts fit `memory` (0: no limit; else VP_ERESOURCE), and sizes them. Each
 * cut is resized to its shape, all together are one picture, its window is `measured` or given, and it is resized to
 * `fitted`; width and height each. */
int vp_slices_fit(const struct vp_slices *s, struct vp_reader *r, const int64_t picture[2], const int64_t fitted[2],
                  bool measured, uint64_t memory, struct vp_err *err);
/* Makes all cuts in one go through the stack, touching no more of a seekable file than needed; a pipe is
 * read (and checked) to its end. *bad counts NaN and infinities shown. */
int vp_slices_read(struct vp_slices *s, struct vp_reader *r, int64_t *bad, struct vp_err *err);
/* Frees what the functions above allocated, and `slice`. */
void vp_slices_free(struct vp_slices *s);
