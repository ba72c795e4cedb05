/* One input of a stack: a file, a pipe, a part of a chain of files (internal to stack/).
 *
 * A source hands over rows of pages in the host's byte order. A seekable one takes any page at any time, and
 * from several threads at once if it is also by_rows; others take pages, and rows inside a page, in increasing
 * order. */
#pragma once

#include "stack/ahead.h"
#include "stack/reader.h"
#include <stdatomic.h>
#include <stdio.h>

/* A file or a block of memory, whose bytes are read in any order; or a pipe, whose bytes come once, with a small buffer
 * for headers. */
struct vp_input {
    int fd;
    bool anywhere;
    const char *name;        /* for messages; lives longer */
    char *memory;            /* in the place of a file; free()d in the end */
    uint64_t size;           /* bytes of the file when it was opened */
    _Atomic uint64_t *read;  /* counter of bytes read: all of a pipe, samples of a file; or NULL */
    uint64_t position;       /* offset of the next byte of a pipe */
    size_t start, fill, room; /* unread part of buf, and its size */
    bool eof;
    unsigned char *buf;
    struct vp_relay relay;
    struct vp_ahead *ahead;  /* reads the pipe while a device starts; NULL: nothing does */
};

/* Takes the descriptor, also on failure. A file that was already read from goes on from there, like a pipe. */
int vp_input_open(struct vp_input *in, int fd, const char *name, _Atomic uint64_t *read, struct vp_err *err);
void vp_input_close(struct vp_input *in);
/* Reads n bytes at `offset` into buf (NULL: passes over them); a pipe is passed over up to there. Returns how many
 * there were before the end of the input, or -1. */
int64_t vp_input_at(struct vp_input *in, uint64_t offset, void *buf, size_t n, struct vp_err *err);
/* Reads the next n bytes of a pipe. */
int64_t vp_input_read(struct vp_input *in, void *buf, size_t n, struct vp_err *err);
/* Peeks at them; *start points at them until the next call. */
int64_t vp_input_peek(struct vp_input *in, const unsigned char **start, size_t n, struct vp_err *err);

/* vp_fail with VP_ERUN and "NAME: page N: " before it. */
int vp_page_fail(const char *name, int64_t page, struct vp_err *err, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Reads by pread until n bytes or the end; returns their number, or -1 with errno. */
int64_t vp_pread_all(int fd, void *buf, size_t n, uint64_t offset);

struct vp_source;

/* A format of inputs: one file that defines it, and one line in the table below. open() fills the header of the source,
 * and may keep a state of its own in `own`, which close() frees; close() is called once, also after a failed open().
 * Returns are 0, or -1 with an error, unless said otherwise. */
struct vp_format {
    const char *name;
    /* 1: the input is of this format; 0: it is not; -1. Reads no more of it than vp_source_starts() does. */
    int (*sniff)(struct vp_input *in, const struct vp_reader_options *o, struct vp_err *err);
    int (*open)(struct vp_source *s, const struct vp_reader_options *o, struct vp_err *err);
    /* Needed if sources are not seekable: see vp_source_begin. */
    int (*begin)(struct vp_source *s, int64_t page, struct vp_err *err);
    /* Reads rows [y0, y1) of a page, samples in the host's byte order. */
    int (*rows)(struct vp_source *s, int64_t page, int64_t y0, int64_t y1, void *buf, struct vp_err *err);
    void (*rest)(struct vp_source *s); /* see vp_source_rest; NULL: it keeps nothing */
    void (*close)(struct vp_source *s); /* NULL: it has no state */
    bool parts; /* a file holds several data sets: vp_reader_options.part */
    /* Formats that are written, too: */
    const char *endings; /* extensions of files, as " h5 hdf5 "; NULL: it is not written */
    /* Writes the header before the samples (little endian, page after page); its length does not depend on s->pages,
     * which may be -1. NULL: it is no header alone, see writer.c. */
    int (*head)(const struct vp_stack *s, const char *name, FILE *to, struct vp_err *err);
};

/* Returns the format in which a file of that name is written; NULL: it is a TIFF. */
const struct vp_format *vp_format_of(const char *path);
struct vp_outfile;
/* Writes the header of a stack, of *lead bytes: where the file begins, or again, now that the pages are counted. */
int vp_format_lead(const struct vp_format *format, const struct vp_stack *s, struct vp_outfile *file, bool again,
                   uint64_t *lead, struct vp_err *err);

/* The table, in the order in which formats are tried. */
#define VP_FORMATS(F)                                                                                                  \
    F(vp_raw_samples) /* first: with --raw-in nothing else is meant */                                                 \
    F(vp_tiff_file)                                                                                                    \
    F(vp_tiff_pipe)                                                                                                    \
    F(vp_hdf5)                                                                                                         \
    F(vp_txrm)                                                                                                         \
    F(vp_npy)                                                                                                          \
    F(vp_nrrd)                                                                                                         \
    F(vp_meta_image)                                                                                                   \
    F(vp_nifti)                                                                                                        \
    F(vp_png)                                                                                                          \
    F(vp_edf)

#define VP_FORMAT(format) extern const struct vp_format format;
VP_FORMATS(VP_FORMAT)

struct vp_source {
    const struct vp_format *format;
    struct vp_input in;
    void *own;               /* state of the format */
    const char *name;        /* name of the input */
    /* the header, as open() fills it; at first a seekable source of images of one channel */
    struct vp_stack stack;   /* pages -1: unknown until the end */
    bool seekable;
    bool by_rows;            /* a few rows cost no more than their bytes */
    int64_t channels;        /* pages made of each image, one after the other (1, but for colours) */
    const char *lost;        /* part that cannot be read from the pipe ("description"), or NULL */
    const char *remark;      /* sentence about what the metadata lack or assume, or NULL */
    struct vp_fields fields; /* flats and darks in the same file */
    uint64_t need;           /* bytes of memory while it is open: tables and metadata */
    uint64_t decoding[2];    /* the same while rows [0] or whole pages [1] are read, beside theirs */
    /* set by the reader */
    bool scaled;             /* the reader makes values of its samples: vp_type_of_values, vp_unscale with */
    double scale[2];
    bool turned;             /* the reader inverts its samples (vp_form_invert) */
};

/* Opens the input, which it takes, also on failure, as the first format of the table that recognises it. */
int vp_source_open(struct vp_source **s, struct vp_input *in, const struct vp_reader_options *o, struct vp_err *err);
/* True if a file of this format may hold flats and darks beside views: 1, 0 or -1. */
int vp_source_holds_fields(struct vp_input *in, const struct vp_reader_options *o, struct vp_err *err);
/* Opens the input, which it takes, also on failure, as the samples alone of `pages` pages like those of `like`. */
int vp_source_samples(struct vp_source **s, struct vp_input *in, const struct vp_stack *like, int64_t pages,
                      struct vp_err *err);

/* 1: the page is there, and rows of it may be read; 0: it lies past the end; -1. */
int vp_source_begin(struct vp_source *s, int64_t page, struct vp_err *err);
int vp_source_rows(struct vp_source *s, int64_t page, int64_t y0, int64_t y1, void *buf, struct vp_err *err);
/* Frees what reading keeps, such as decoded strips: another source is read next. */
void vp_source_rest(struct vp_source *s);
void vp_source_close(struct vp_source *s);

/* ---- what formats are made of ---- */

/* Copies the first n bytes (VP_HEAD at most) of an input that is still unread, without taking them from a pipe.
 * Returns their number, or -1. */
enum { VP_HEAD = 132 };
int64_t vp_source_starts(struct vp_input *in, unsigned char head[VP_HEAD], size_t n, struct vp_err *err);
/* Reads n bytes of a page at `at`. 0; 1: a pipe ends before; -1, also where a pipe is past `at`. */
int vp_source_read(struct vp_source *s, int64_t page, uint64_t at, void *buf, size_t n, struct vp_err *err);
/* Fails: of the page's bytes only `got` are there. */
int vp_source_cut(const struct vp_source *s, int64_t page, uint64_t got, struct vp_err *err);
/* Reverses the bytes of n samples of 1, 2, 4 or 8 bytes in place. */
void vp_source_swap(void *buf, size_t size, size_t n);
/* Returns how many of n bytes at `at` lie before `end`. */
static inline uint64_t vp_bytes_before(uint64_t at, uint64_t n, uint64_t end)
{
    return at >= end ? 0 : n < end - at ? n : end - at;
}

/* Bytes written from front to end: in memory, but from `memory` on in a file without a name in $TMPDIR. */
struct vp_kept { const char *name; int fd; char *data; size_t room; uint64_t bytes, memory; }; /* fd -1: in `data` */
/* Opens it with room for `count` pieces of n bytes. name: of what is kept, for messages. */
int vp_kept_open(struct vp_kept *k, const char *name, uint64_t memory, size_t count, size_t n, struct vp_err *err);
/* Return a place for the next n bytes, and add them: 1 if the memory is not enough, and no `file` is allowed. */
void *vp_kept_next(struct vp_kept *k, size_t n, struct vp_err *err);
int vp_kept_add(struct vp_kept *k, size_t n, bool file, struct vp_err *err);
/* Makes it an input that can be read anywhere; nothing is left to be freed. */
struct vp_input vp_kept_input(struct vp_kept *k);
void vp_kept_free(struct vp_kept *k);

/* Copies all that a pipe has into such a file, which becomes that input. */
int vp_spool(struct vp_input *in, struct vp_err *err);

/* Calls work(ctx, page, y0, y1) for all rows [0, height) of `pages` pages, in pieces that keep every thread busy
 * but do not cross pages; row: bytes of a row. After a failure no more is started than what comes before it;
 * the error of the first piece in order is the one that is kept. 0 or -1. */
int vp_share_rows(int64_t pages, int64_t height, size_t row, int threads,
                  int (*work)(void *ctx, int64_t page, int64_t y0, int64_t y1, struct vp_err *err), void *ctx,
                  struct vp_err *err);

/* Returns the part that page `at` is in, of n parts of which part i begins with page first[i]. */
int64_t vp_pages_part(const int64_t *first, int64_t n, int64_t at);

/* Counts NaN and infinities among n samples. */
int64_t vp_count_bad(const float *v, size_t n);
