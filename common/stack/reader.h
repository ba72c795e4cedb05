/* Reading a stack: stream TIFF from pipes, any TIFF from seekable files (libtiff), raw, and many
 * files as one stack. A reader belongs to one thread at a time, except where vp_reader_concurrent says more. */
#pragma once

#include "stack/stack.h"

/* Readings of the samples of a stack with a recorded `scale`; voxpipe-stack(5) says which program does what. */
enum vp_samples {
    VP_AS_STORED, /* as they are: the scale goes along in the metadata, and must be the same in all inputs */
    VP_UPRIGHT,   /* the same, but values where the gain is negative, so that more stored is always more */
    VP_AS_VALUES, /* values: each input's scale is undone, and none is left in the metadata */
    VP_AS_STEPS,  /* integers as they are stored, where all inputs have one type and scale, so that they are counted and
                   * added up exactly; those of a negative gain are turned round, and so is the scale, so that more
                   * stored is always more. Floats, and 64 bits with a negative gain, as values */
};

/* Picks images of a file whose pages are not all of one size and type. Image i is pages first[i] to first[i + 1] - 1 of
 * the file; keep[i] (false at first) is to be set where one of them is wanted. The stack is those images. 0 or -1. */
typedef int vp_pick(void *ctx, const char *name, const int64_t *first, int64_t images, bool *keep, struct vp_err *err);

/* Flats and darks of a scan that are in the file of its views: FILE:flats.0, FILE:flats.1 ... and FILE:darks name them
 * as inputs. */
struct vp_fields {
    int64_t flats; /* sets of flats */
    double *at;    /* view number of each; NULL: unknown */
    bool darks;
};

struct vp_reader_options {
    const char *raw;    /* "2048x2048:u16le[,skip=1024]" or NULL */
    bool spool;         /* copy non-seekable input that needs seeking to an unlinked file in $TMPDIR */
    size_t hold;        /* see vp_open_input */
    enum vp_samples samples;
    const char *output; /* see vp_paths_expand */
    const char *volumes; /* the hint with which several inputs are refused one of which is a volume by itself (several
                            slices); NULL: all are joined */
    bool views;          /* pages of which nothing is said are views, not slices */
    bool colours;       /* palettes are looked up: pages of red, green and blue. Else their index is the sample, and the
                           colours are in the metadata where samples are VP_AS_STORED */
    vp_pick *pick;      /* for a single file; NULL: pages that are not alike are refused */
    void *picks;        /* its context */
    const char *part;   /* name after FILE:, for paths without one; or NULL */
};

struct vp_reader {
    /* to be read by all */
    struct vp_stack stack;   /* the header; `pages` is -1 if unknown */
    struct vp_stack stored;  /* as the inputs have it: type and scale before that was undone */
    char *name;              /* "proj.tif", "standard input", or "1000 files (a.tif ... z.tif)" for messages */
    bool seekable;           /* any page, at any time */
    bool concurrent;         /* seekable and uncompressed: rows cost no more than their bytes, and any may be read from
                                several threads at once (also beside one thread that takes the next pages) */
    int64_t position;        /* the page that comes next */
    const char *disagrees;   /* key on which an input opened so far contradicts the first, which wins ("scan geometry",
                                "quantity"); NULL if none */
    const char *lost;        /* part of the first input that cannot be read from a pipe ("description",
                                "resolution"); NULL if none */
    const char *remark;      /* sentence about what the first input's metadata lack or assume; NULL if none */
    /* private to reader*.c */
    struct vp_reader_options options;
    bool failed;
    bool undone;             /* the first input's scale, and so those of all */
    bool turned;             /* its samples, likewise */
    int64_t channels;        /* see struct vp_source */
    uint64_t need, decoding[2]; /* the same, of all inputs that are open at a time */
    uint64_t spooled;           /* bytes that --spool has copied into memory */
    int64_t line;            /* rows of page `position` that vp_reader_lines has read */
    struct vp_inputs *in;
    struct vp_later *later;  /* the inputs as they come, while `in` is their copy; NULL: `in` is all */
    /* unless every input is seekable: the next page is page `page` of input `at` */
    struct vp_source *now;   /* NULL: not open */
    int64_t at, page;
};

/* Reads the scale that a header records, {1, 0} if none: gain and offset; -1 if it is none that can be undone. name: of
 * the stack, for messages. */
int vp_scale_of(const struct vp_meta *m, const char *name, double scale[2], struct vp_err *err);

/* Finds flats and darks in the file of the views, if that is of a format that holds them; the caller frees f->at. */
int vp_fields_find(const char *path, struct vp_fields *f, struct vp_err *err);

/* Opens inputs as one stack, in argument order; `options.volumes` says which are not joined (VP_EUSAGE). Each path is a
 * file, a part of one (FILE.h5:/PATH), a directory (its .tif and .tiff files in natural order), "@list" (one path a line) or
 * "-" (standard input, at most once).
 * n = 0 means standard input. Files after the first are opened when their turn comes, but all are stat'ed
 * now; the number of pages of the whole is counted from the headers when it is cheap (seekable).
 * Every file must have the size and type of the first. */
int vp_reader_open(struct vp_reader **r, const char *const *paths, int n,
                   const struct vp_reader_options *o, struct vp_err *err);

static inline const struct vp_stack *vp_reader_stack(const struct vp_reader *r) { return &r->stack; }
static inline const char *vp_reader_name(const struct vp_reader *r) { return r->name; }
static inline int64_t vp_reader_position(const struct vp_reader *r) { return r->position; }
static inline bool vp_reader_seekable(const struct vp_reader *r) { return r->seekable; }
static inline bool vp_reader_concurrent(const struct vp_reader *r) { return r->concurrent; }
/* Returns the i-th of the inputs that it was opened with, lists and directories expanded; NULL after the last. */
const char *vp_reader_path(const struct vp_reader *r, int64_t i);

/* A request of rows and of their type. */
enum { VP_NEXT = -1 };
struct vp_wanted {
    int64_t page;    /* the first one; VP_NEXT: the next one, and the stack goes on after what is read */
    int64_t n;       /* pages */
    int64_t y0, y1;  /* rows of each; y1 = 0: all */
    bool f32;        /* converted to f32; otherwise in the stack's own type */
    int64_t *bad;    /* for f32: increased by the number of NaN and infinite samples; NULL: they are not counted */
    int threads;     /* that read seekable uncompressed files; 0: one */
    size_t stride;   /* bytes from a row to the next where they are put; 0: one follows the other */
    int64_t x0, x1;  /* columns of each row; x1 = 0: all */
};

/* Reads rows of page i into to[i]. Returns the number of pages: of the next ones n or, at the end of the stack,
 * fewer (from a pipe it waits until they have come, so a caller that must not wait requests fewer); of any others,
 * which only a seekable reader has, all n. -1: cut data, trailing bytes, a page of another size, rows that are not
 * there. */
int64_t vp_reader_read(struct vp_reader *r, const struct vp_wanted *w, void *const *to, struct vp_err *err);

/* Reads the next page, in the stack's own type or as f32. 1, 0 at the end of the stack, or -1. */
static inline int vp_reader_next(struct vp_reader *r, void *buf, struct vp_err *err)
{
    return (int)vp_reader_read(r, &(struct vp_wanted){.page = VP_NEXT, .n = 1}, &buf, err);
}

static inline int vp_reader_next_f32(struct vp_reader *r, float *buf, struct vp_err *err)
{
    return (int)vp_reader_read(r, &(struct vp_wanted){VP_NEXT, 1, .f32 = true}, (void *const *)&buf, err);
}

/* Reads the next n rows, of this page and of those that follow it, columns x0 to x1 of them (x1 = 0: all), one after
 * the other into buf (NULL: nowhere): for callers that read a page in pieces, and then only rows to the page's
 * end. Returns the rows before the end of the stack, or -1. */
int64_t vp_reader_lines(struct vp_reader *r, int64_t n, int64_t x0, int64_t x1, void *buf, int threads,
                        struct vp_err *err);

/* Advances by `pages` pages, without reading them where possible. 1, 0 if the stack ends before, or -1. */
int vp_reader_skip(struct vp_reader *r, int64_t pages, struct vp_err *err);

/* Copies all pages that are still to come, of inputs that are read from the front, so that they can be read again and
 * anywhere: to memory, or, if there are more than `memory` bytes, to a file without a name in $TMPDIR: if their number is
 * known, that is done when they are read for the first time. *held: bytes in memory. Without `held` to memory only: 1
 * where that is not enough. */
int vp_reader_keep(struct vp_reader *r, uint64_t memory, uint64_t *held, struct vp_err *err);
/* Reads the input ahead in a thread of its own, if it is a pipe, until the samples that came are taken: for the time in which
 * a device starts. At most a sixteenth of `memory` is taken for it, and nothing where that is little. Returns the bytes
 * that it may take; only this number if not `begin`. */
uint64_t vp_reader_ahead(struct vp_reader *r, uint64_t memory, bool begin);
/* Ends that: no device starts. Returns the bytes of what was read. */
uint64_t vp_reader_ahead_stop(struct vp_reader *r);
/* Makes `page` the next one; only if seekable. */
int vp_reader_seek(struct vp_reader *r, int64_t page, struct vp_err *err);

/* Makes pages of one row, one column or one sample pages of nx x ny: the row, the column or the sample stands for all.
 * Only if seekable. */
void vp_reader_spread(struct vp_reader *r, int64_t nx, int64_t ny);
static inline bool vp_reader_is_spread(const struct vp_reader *r)
{
    return r->stack.nx != r->stored.nx || r->stack.ny != r->stored.ny;
}

/* Ends reads of pipes by the calling thread, with an error, as soon as `fd` becomes readable; -1:
 * never. */
void vp_input_wake(int fd);

/* Returns the bytes it takes beside those of the pages that are read: metadata and tables, where worth counting, and
 * what decoders keep. `whole`: pages are read whole and in their own type. */
uint64_t vp_reader_holds(const struct vp_reader *r, bool whole);

/* Returns the bytes read so far. */
uint64_t vp_reader_bytes(const struct vp_reader *r);

/* Closes it; errors seen late (trailing data after the last page) are reported. NULL is allowed. */
int vp_reader_close(struct vp_reader *r, struct vp_err *err);
