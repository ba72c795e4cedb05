/* TIFF as bytes: constants, and the directory reader that files and pipes share (internal to stack/). */
#pragma once

#include "stack/form.h"

enum {
    TAG_NEW_SUBFILE_TYPE = 254, TAG_SUBFILE_TYPE = 255, TAG_IMAGE_WIDTH = 256,
    TAG_IMAGE_LENGTH = 257, TAG_BITS_PER_SAMPLE = 258, TAG_COMPRESSION = 259,
    TAG_PHOTOMETRIC = 262, TAG_FILL_ORDER = 266, TAG_IMAGE_DESCRIPTION = 270, TAG_STRIP_OFFSETS = 273,
    TAG_ORIENTATION = 274, TAG_SAMPLES_PER_PIXEL = 277, TAG_ROWS_PER_STRIP = 278, TAG_STRIP_BYTE_COUNTS = 279,
    TAG_X_RESOLUTION = 282, TAG_Y_RESOLUTION = 283, TAG_PLANAR = 284, TAG_RESOLUTION_UNIT = 296,
    TAG_PAGE_NUMBER = 297, TAG_SOFTWARE = 305,
    TAG_COLOR_MAP = 320, TAG_TILE_WIDTH = 322, TAG_TILE_LENGTH = 323, TAG_TILE_OFFSETS = 324,
    TAG_TILE_BYTE_COUNTS = 325, TAG_EXTRA_SAMPLES = 338, TAG_SAMPLE_FORMAT = 339,
    TAG_UIC2 = 33629, /* MetaMorph's, with a value for each plane */
    TAG_NIH_IMAGE = 43314 /* its header */
};

enum { FIELD_BYTE = 1, FIELD_ASCII = 2, FIELD_SHORT = 3, FIELD_LONG = 4, FIELD_RATIONAL = 5, FIELD_IFD = 13,
      FIELD_LONG8 = 16, FIELD_IFD8 = 18 };

enum { RESOLUTION_CM = 3, VERSION_CLASSIC = 42, VERSION_BIG = 43 };

/* Returns the tag 339 of a type: unsigned, signed, floating point. */
static inline uint16_t vp_sample_format(enum vp_type t)
{
    return vp_type_is_float(t) ? 3 : t >= VP_I8 && t <= VP_I64 ? 2 : 1;
}

struct vp_input;

/* A TIFF whose directories are read. */
struct vp_tiff {
    struct vp_input *in;
    bool big, swap;             /* BigTIFF; the other byte order */
    bool ahead;                 /* look at what comes next in a pipe, but do not take it */
    bool colours, shown_white;  /* options of the form of its pages */
    int64_t page;               /* the page whose directory is read, for messages; -1: none yet */
    int64_t first;              /* the page that all are to be like */
    uint64_t need;              /* memory that looking ahead took */
    unsigned char *front;       /* on a pipe: what lies between the header and the first directory; malloc'd, or NULL */
    uint64_t front_at, front_end;
    /* Bytes of directories and tables that may still be read: what an honest file holds, and some more. Directories
     * that share their tables, or overlap, cost more than the file's size; 0 of `allowed`: not counted. */
    uint64_t allowed, spent;
};

struct vp_ifd {
    uint64_t next;              /* offset of the next directory; 0: none */
    uint64_t end;               /* past the last byte that belongs to the directory */
    struct vp_form form;
    uint32_t fill_order;
    bool tiled, minor;          /* minor: a thumbnail, or a mask of another image */
    bool sparse;                /* strips are left out: those of no bytes, or of no place; they are zeros */
    int64_t tile_nx, tile_ny;
    int64_t rows_per_strip, n_strips;
    uint64_t *offset, *count;   /* n_strips each; malloc'd; tiles if tiled */
    char *text;                 /* tag 270, malloc'd, or NULL */
    uint64_t text_cost;         /* memory that a run may take for it */
    uint16_t *palette;          /* tag 320 of a page of up to 8 bits, 3 << bits numbers, malloc'd, or NULL */
    uint32_t *uic2;             /* VP_UIC2_NUMBERS for each of `planes`, malloc'd, or NULL */
    int64_t planes;             /* as MetaMorph and NIH Image count them; 0: they do not */
    int64_t images;             /* that text or planes announce; 0: they do not (by vp_ifd_stack) */
    uint16_t announcer;         /* the tag that does */
    double xres, yres;
    uint32_t resolution_unit;
    uint32_t page_number, page_total;
    const char *lost;           /* part that lies too far after a stream's samples ("description"), or NULL */
};

/* vp_fail with VP_ERUN and "NAME: page N: " before it, for the page whose directory is read. */
#define vp_tiff_fail(t, err, ...) vp_page_fail((t)->in->name, (t)->page, err, __VA_ARGS__)

/* Fails: a pipe has samples, or a directory, before what is needed to read them. */
int vp_tiff_disorder(const struct vp_tiff *t, bool directory, struct vp_err *err);

/* Reads 8 (or 16) bytes of header; *first is the offset of the first directory. */
int vp_tiff_header(struct vp_tiff *t, uint64_t *first, struct vp_err *err);
/* Keeps what a pipe has in front of its first directory, if that is little: values of it may lie there. */
int vp_tiff_keep_front(struct vp_tiff *t, uint64_t first, struct vp_err *err);
/* Reads a directory. `text`: also the tags that say what the page means. Free it whatever is returned. */
int vp_tiff_ifd(struct vp_tiff *t, uint64_t offset, bool text, struct vp_ifd *ifd, struct vp_err *err);
void vp_ifd_free(struct vp_ifd *ifd);

/* True if the samples lie in strips as they are (but that zero may be white), and need no decoder. */
bool vp_ifd_plain(const struct vp_ifd *ifd);
/* Checks that the strip table covers the page (plain pages), which is one of a stack. */
int vp_ifd_check_strips(const struct vp_tiff *t, const struct vp_ifd *ifd, struct vp_err *err);
/* Fills a header from a directory read with `text`. pages is left -1. Free it whatever is returned. */
int vp_ifd_stack(const struct vp_tiff *t, struct vp_ifd *ifd, struct vp_stack *s, struct vp_err *err);
/* Checks that the page is one of stack `s`, of `channels` channels. */
int vp_ifd_check_page(const struct vp_tiff *t, const struct vp_ifd *ifd, const struct vp_stack *s, int64_t channels,
                      struct vp_err *err);
