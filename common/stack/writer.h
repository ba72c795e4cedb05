/* Writing a stack: stream TIFF strictly forwards (pipe, `>` and -o alike), raw, compressed TIFF
 * through libtiff (-o only), or another format by the ending of the file's name (struct vp_format). */
#pragma once

#include "stack/stack.h"

struct vp_writer;

enum { VP_WRITER_HOLD = 4 << 20 };

enum vp_compress { VP_COMPRESS_NONE, VP_COMPRESS_DEFLATE, VP_COMPRESS_ZSTD };

/* Returns the name of the format that the ending of a file's name stands for, as "HDF5"; NULL: it is TIFF. */
const char *vp_output_format(const char *path);
/* True if pages of that format must come in order. */
bool vp_output_in_order(const char *path);

/* A scan as HDF5 describes it (NXtomo). The last pages of the stack may be flats, then darks. */
struct vp_frames {
    int64_t flats, darks;
    int64_t views;       /* number of angles; 0: unknown */
    const double *angle; /* degrees, counter-clockwise */
    double pitch[2];     /* size of a pixel, mm */
    double sod, sdd;     /* source to axis and to detector, mm; 0: parallel beam */
};

struct vp_writer_options {
    bool raw;                    /* samples only, little endian */
    enum vp_compress compress;   /* not with pipes or raw */
    bool pyramid;                /* smaller sizes of each page, too, as OME-TIFF; compressed */
    bool shared;                 /* several processes write one file, see vp_writer_temporary */
    const char *temporary;       /* another of them has opened it under this name; or NULL */
    bool gives;                  /* pages of memory may be given to a pipe (stack/given.h) */
    uint64_t memory;             /* bytes that the program may take; 0: no limit */
    const struct vp_frames *frames; /* copied; NULL: no scan. Formats other than HDF5 have no place for flats */
};

/* Opens the output. path NULL or "-": standard output. A regular file (or a new one) is written to a temporary file
 * beside it and renamed by close; other targets (/dev/null, a FIFO) are opened directly. Classic
 * TIFF if the total is known and stays below 4 GiB, else BigTIFF; the same bytes whatever the target. Where the
 * page count is unknown (stack->pages = -1) pages of VP_WRITER_HOLD bytes are held back: a stack that ends within them
 * is the one that a known count gives; a longer one is BigTIFF, of which one page is held back to the end. On
 * tmpfs the memory of a file of known length is allocated from now on, in the background: open the output
 * before the input is read. */
int vp_writer_open(struct vp_writer **w, const char *path, const struct vp_stack *stack,
                   const struct vp_writer_options *o, struct vp_err *err);

/* Returns the bytes that a writer of such a stack keeps, beside the pages that it is given: what a compressor needs,
 * the pages that are held back, and those that a pipe holds. Of these a single one where `memory` is so little that the
 * others would be missed (they are held nevertheless, for memory may not change a byte of the output). */
uint64_t vp_writer_holds(const struct vp_stack *stack, const struct vp_writer_options *o, uint64_t memory);

/* Appends n pages in the stack's type (vp_page_bytes) that lie one after the other. More than promised is an error.
 * Several threads write to a regular file, whose pages a kernel allocates slower than memory copies: the same bytes. */
int vp_writer_pages(struct vp_writer *w, int64_t n, const void *pages, int threads, struct vp_err *err);
static inline int vp_writer_page(struct vp_writer *w, const void *page, struct vp_err *err)
{
    return vp_writer_pages(w, 1, page, 1, err);
}

/* Appends n rows, to this page and to those that follow it: the same bytes. Where pages are compressed, or their
 * number is unknown, a page is collected first. */
int vp_writer_lines(struct vp_writer *w, int64_t n, const void *rows, int threads, struct vp_err *err);

/* Append n rows, or pages, as the functions above do, from memory of vp_alloc_raw that no other thread touches
 * meanwhile. Its contents are undefined afterwards, for a pipe may get the memory itself (stack/given.h). */
int vp_writer_give_lines(struct vp_writer *w, int64_t n, void *rows, int threads, struct vp_err *err);
int vp_writer_give_pages(struct vp_writer *w, int64_t n, void *pages, int threads, struct vp_err *err);

/* Zeros before what is appended from now on, which is smaller by them than the stack: columns before each row, rows
 * before each page, and pages before each `every` pages, themselves included (0: before all). 0 or -1. */
struct vp_padding { int64_t columns, rows, pages, every; };
int vp_writer_pad(struct vp_writer *w, const struct vp_padding *pad, struct vp_err *err);

/* True if those rows are written as they come; otherwise pages are collected. */
bool vp_writer_by_rows(const struct vp_writer *w);

/* One file that several processes write (`shared`), on hosts that share its folder. One opens it and sends the others
 * the name that it has until it is complete (NULL: it is no file whose pieces can come in any order); they open that
 * (as `temporary`) with the same stack and options, and put rows. All close; then the one that opened it first says how
 * many rows the others have put (of vp_writer_rows_put), and closes. A process that aborts, or is ended by a signal,
 * removes the file. */
const char *vp_writer_temporary(const struct vp_writer *w);
int64_t vp_writer_rows_put(const struct vp_writer *w);
void vp_writer_others(struct vp_writer *w, int64_t rows);

/* True if pieces may be written in any order: an uncompressed regular file with -o, its length known. */
static inline bool vp_writer_random(const struct vp_writer *w) { return vp_writer_temporary(w) != NULL; }
/* Writes rows [y0, y1) of n pages from `page` on, those of one after those of the other in `rows`, in any order and
 * from several threads at once; only if vp_writer_random, and not mixed with the functions above. That every row is
 * written exactly once is the caller's promise; close checks how many were. The bytes of the file are those of pages
 * written in order. */
int vp_writer_bands(struct vp_writer *w, int64_t page, int64_t n, int64_t y0, int64_t y1, const void *rows, int threads,
                    struct vp_err *err);

/* Returns the bytes of the file, if it ended here. */
uint64_t vp_writer_bytes(struct vp_writer *w);

/* Finishes: checks the page count (an error if it is not what was promised), flushes, closes, checks, renames.
 * Frees w whatever happens. */
int vp_writer_close(struct vp_writer *w, struct vp_err *err);

/* Throws it away: unlinks the temporary file. NULL is allowed. */
void vp_writer_abort(struct vp_writer *w);
