/* Shared by TIFF in files and on pipes: directories as images, images as pages (internal to stack/). */
#pragma once

#include "stack/source.h"
#include "stack/tiff.h"

/* The place of the samples of an image. */
struct vp_tiff_image {
    uint64_t ifd : 63;
    uint64_t apart : 1;  /* in strips that do not follow each other: its directory has their places */
    uint64_t data : 62;  /* or all of them in one piece from here on */
    uint64_t sparse : 1; /* some strips are left out */
    uint64_t invert : 1; /* zero is white */
};

struct vp_tiff_images {
    struct vp_tiff tiff;
    int64_t images;        /* pages that follow each other without a directory at the first one's (ImageJ's), else 1 */
    int64_t announced;     /* images that the first page announces, or 0 */
    uint16_t announcer;    /* the tag that does */
    struct vp_form form;   /* form of the first page */
    bool unlike;           /* the last image that could not be added is not like the first, or cannot be read at all */
};

/* Reads the header of a source, whose first directory lies at *first. */
int vp_tiff_begin(struct vp_source *s, struct vp_tiff_images *t, bool colours, uint64_t *first, struct vp_err *err);
/* Checks that the image of directory d, image tiff.page, is one of the stack; the first one makes its header. */
int vp_tiff_check(struct vp_source *s, struct vp_tiff_images *t, struct vp_ifd *d, struct vp_err *err);
/* Fills p with the place of plain strips: in a file inside of it, on a pipe in order. */
int vp_tiff_place(struct vp_source *s, struct vp_tiff_images *t, const struct vp_ifd *d, struct vp_tiff_image *p,
                  struct vp_err *err);
/* Sets what the directory of the first image, which was placed, says of those after it. */
void vp_tiff_first(struct vp_source *s, struct vp_tiff_images *t, const struct vp_ifd *d,
                   const struct vp_tiff_image *p);
/* Refuses fewer images than the first page announces. */
int vp_tiff_check_announced(const struct vp_source *s, const struct vp_tiff_images *t, int64_t images,
                            struct vp_err *err);
/* Settles the axes of a header that is complete. */
int vp_tiff_settle(struct vp_source *s, struct vp_err *err);

/* Returns the bytes of an image's strips that lie before `end`. */
uint64_t vp_ifd_bytes_before(const struct vp_ifd *d, uint64_t end);
/* Reads rows out of strips of `per` rows: as vp_source_read. */
int vp_tiff_read_strips(struct vp_source *s, int64_t page, const uint64_t *offset, int64_t per, int64_t y0, int64_t y1,
                        char *buf, struct vp_err *err);
/* Makes samples of rows of the image p as they were read: in the host's byte order, zero black. */
void vp_tiff_finish_rows(const struct vp_source *s, const struct vp_tiff_images *t, const struct vp_tiff_image *p,
                         void *buf, int64_t rows);

/* 1: the input begins as a TIFF does, or is too short to say; 0; -1. */
int vp_tiff_sniff(struct vp_input *in, struct vp_err *err);
