/* One input of a stack: a file, a pipe, a part of a chain of files (internal to stack/).
 *
 * A source hands over rows of pages in the host's byte order. A seekable one takes any page at any time, and
 * from several threads at once if it is also by_rows; others take pages, and rows inside a page, in increasing
 * order. */
#ifndef VP_SOURCE_H
#define VP_SOURCE_H

#include "stack/reader.h"
#include <stdatomic.h>

/* Bytes of a file or of a block of memory, which can be had from anywhere; or those of a pipe, which come once, with a
 * small buffer in front for headers. */
struct vp_input {
    int fd;
    bool anywhere;
    const char *name;        /* for messages; lives longer */
    char *memory;            /* in the place of a file; free()d in the end */
    uint64_t size;           /* of the file when it was opened */
    _Atomic uint64_t *read;  /* counts bytes: all of a pipe, of a file those of samples; or NULL */
    uint64_t position;       /* of the next byte that comes out of a pipe */
    size_t start, fill, room; /* unread part of buf, and its size */
    bool eof;
    unsigned char *buf;
};

/* Takes the descriptor, also on failure. A file that was already read from goes on from there, like a pipe. */
int vp_input_open(struct vp_input *in, int fd, const char *name, _Atomic uint64_t *read, struct vp_err *err);
void vp_input_close(struct vp_input *in);
/* n bytes at `offset` into buf (NULL: passed over), and of a pipe all before them passed over; returns how many there
 * were before the end of the input, or -1. */
int64_t vp_input_at(struct vp_input *in, uint64_t offset, void *buf, size_t n, struct vp_err *err);
/* The next n bytes of a pipe. */
int64_t vp_input_read(struct vp_input *in, void *buf, size_t n, struct vp_err *err);
/* The same without taking them; *start points at them until the next call. */
int64_t vp_input_peek(struct vp_input *in, const unsigned char **start, size_t n, struct vp_err *err);

/* vp_fail with VP_ERUN and "NAME: page N: " before it. */
int vp_page_fail(const char *name, int64_t page, struct vp_err *err, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* pread until n bytes or the end; returns how many, or -1 with errno. */
int64_t vp_pread_all(int fd, void *buf, size_t n, uint64_t offset);

struct vp_source {
    struct vp_stack stack;   /* pages -1: unknown until the end */
    const char *name;        /* of the input */
    bool seekable;
    bool by_rows;            /* a few rows cost no more than their bytes */
    int64_t channels;        /* pages that come out of each image, one behind the other (1, but for colours) */
    const char *lost;        /* what a pipe has where it cannot give it ("description"), or NULL */
    uint64_t need;           /* memory that it takes while it is open: tables and metadata */
    uint64_t decoding[2];    /* the same while rows [0] or whole pages [1] are read, beside theirs */
    bool scaled;             /* the reader makes values of it: vp_type_of_values, vp_unscale with */
    double scale[2];
    bool turned;             /* the reader inverts its samples (vp_form_invert) */
};

/* Options of reading a TIFF. */
struct vp_tiff_options {
    bool colours;            /* palettes are looked up; else their index is the sample */
    vp_pick *pick;           /* of a file whose pages are not all alike; NULL: it is refused */
    void *picks;             /* its context */
};

/* Each takes the input, also on failure: TIFF; samples that lie as `spec` says; */
int vp_source_tiff(struct vp_source **s, struct vp_input *in, const struct vp_tiff_options *o, struct vp_err *err);
int vp_source_raw(struct vp_source **s, struct vp_input *in, const char *spec, size_t hold, struct vp_err *err);
/* nothing but samples of pages, one behind the other, from byte `skip` on. Where it is not known how many a pipe has,
 * and a page takes at most `hold` bytes, it is looked whether there is a single one: that is an image, several are a
 * volume, and some must know that at once, as they do of a file. */
struct vp_samples_at { struct vp_stack stack; uint64_t skip; bool swap; };
int vp_source_samples(struct vp_source **s, struct vp_input *in, const struct vp_samples_at *at, size_t hold,
                      struct vp_err *err);

/* 1: the page is there, and rows of it may be asked for; 0: it lies past the end; -1 */
int vp_source_begin(struct vp_source *s, int64_t page, struct vp_err *err);
int vp_source_rows(struct vp_source *s, int64_t page, int64_t y0, int64_t y1, void *buf, struct vp_err *err);
/* Let go of what reading takes, for it is the turn of another. */
void vp_source_rest(struct vp_source *s);
void vp_source_close(struct vp_source *s);

/* Bytes that are written from front to end: in memory, but from `memory` on in a file without a name in $TMPDIR. */
struct vp_kept { const char *name; int fd; char *data; size_t room; uint64_t bytes, memory; }; /* fd -1: in `data` */
/* With room for `count` pieces of n bytes. name: of what is kept, for messages. */
int vp_kept_open(struct vp_kept *k, const char *name, uint64_t memory, size_t count, size_t n, struct vp_err *err);
/* A place for the next n bytes; then they are added: 1 if the memory is not enough, and no `file` is allowed. */
void *vp_kept_next(struct vp_kept *k, size_t n, struct vp_err *err);
int vp_kept_add(struct vp_kept *k, size_t n, bool file, struct vp_err *err);
/* Becomes an input that can be read anywhere; nothing is left to be freed. */
struct vp_input vp_kept_input(struct vp_kept *k);
void vp_kept_free(struct vp_kept *k);

/* All that a pipe has to give, in such a file: it becomes that input. */
int vp_spool(struct vp_input *in, struct vp_err *err);

/* Call work(ctx, page, y0, y1) for all rows [0, height) of `pages` pages, in pieces that keep every thread busy
 * but do not cross pages; row: bytes of a row. After a failure no more is started than what comes before it;
 * the error of the first piece in order is the one that is kept. 0 or -1. */
int vp_share_rows(int64_t pages, int64_t height, size_t row, int threads,
                  int (*work)(void *ctx, int64_t page, int64_t y0, int64_t y1, struct vp_err *err), void *ctx,
                  struct vp_err *err);

/* NaN and infinities among n samples. */
int64_t vp_count_bad(const float *v, size_t n);

#endif
