/* Samples of a TIFF directory, and their conversion to those of pages (internal to stack/).
 *
 * A directory holds one image of one or more samples a pixel; each of them becomes a page of its own, in the
 * smallest type that holds it, with the first row on top and the first column on the left. */
#pragma once

#include "stack/stack.h"

enum { PHOTO_WHITE_IS_ZERO = 0, PHOTO_BLACK_IS_ZERO = 1, PHOTO_RGB = 2, PHOTO_PALETTE = 3, PHOTO_CMYK = 5,
       PHOTO_YCBCR = 6, PHOTO_LAB = 8, PHOTO_LOGL = 32844, PHOTO_LOGLUV = 32845,
       PHOTO_NOT_SAID = 1 << 16 /* no value of a tag of 16 bits */ };

enum { CODEC_NONE = 1, CODEC_RLE = 2, CODEC_FAX3 = 3, CODEC_FAX4 = 4, CODEC_OLD_JPEG = 6, CODEC_JPEG = 7,
       CODEC_RLEW = 32771, CODEC_LOG = 34676, CODEC_LOG24 = 34677 };

struct vp_form {
    /* As the directory says. */
    int64_t nx, ny;
    uint32_t bits, samples, format, photometric, planar, orientation, compression;
    uint32_t extra;             /* the first of ExtraSamples */
    bool mixed;                 /* samples of a pixel differ in width or format */
    bool coarse_map, wide_map;  /* the colours of a palette: all below 256; more than 8 bits in them */
    /* Options of reading. */
    bool colours;               /* a palette is looked up; else its index is the sample */
    bool shown_white;           /* zero is white on the screen only, as ImageJ has it: samples stay */
    /* Derived by vp_form_judge. */
    enum vp_type type;          /* valid if problem is "" */
    int64_t channels;           /* pages that the directory becomes */
    bool direct;                /* one sample a pixel, in `type` as it lies there, rows and columns in order */
    bool invert;                /* zero is white */
    bool rgba;                  /* colours are computed by libtiff's RGBA interface */
    bool turned;                /* rows are stored as columns */
    char problem[160];          /* why no page can be made of it ("complex samples: ..."), or "" */
    const char *hint;           /* the way out of that */
};

void vp_form_judge(struct vp_form *f);
/* Return columns and rows of a page. */
static inline int64_t vp_form_nx(const struct vp_form *f) { return f->turned ? f->ny : f->nx; }
static inline int64_t vp_form_ny(const struct vp_form *f) { return f->turned ? f->nx : f->ny; }

/* Adds a number of a palette, before the form is judged, `coarse_map` being true at first. 8 bits come as
 * v * 257, or as v * 256. */
static inline void vp_form_colour(struct vp_form *f, uint64_t v)
{
    f->coarse_map = f->coarse_map && v < 256;
    f->wide_map = f->wide_map || ((v & 0xff) && (v & 0xff) != v >> 8);
}

/* True if samples are looked up in a palette. */
static inline bool vp_form_mapped(const struct vp_form *f) { return f->colours && f->photometric == PHOTO_PALETTE; }

/* Returns the bytes of a row of n stored pixels, of all their samples or (planar) of one; 0 if too many. */
size_t vp_form_row_bytes(const struct vp_form *f, int64_t n);
/* Decodes one channel of n decoded pixels of a row into out[0], out[stride], ... of the form's type. map: the three
 * columns of the palette, if there is one. */
void vp_form_row(const struct vp_form *f, const unsigned char *row, int64_t channel, const uint16_t *const map[3],
                 int64_t n, void *out, ptrdiff_t stride);
/* Finds the place of stored pixel (0, 0) of rows [b0, ...) in a plane of `rows` output rows, and how far the next
 * column and the next row are from it, in samples. */
void vp_form_place(const struct vp_form *f, int64_t rows, ptrdiff_t *origin, ptrdiff_t *dx, ptrdiff_t *dy);
/* Inverts n samples of a type, those of a direct form whose zero is white: in place. */
void vp_form_invert(void *buf, enum vp_type type, size_t n);

/* Sets metadata of a stack whose `images` directories became the form's channels as pages each: their names, and
 * axes. */
int vp_form_axes(struct vp_meta *m, const struct vp_form *f, int64_t images);
