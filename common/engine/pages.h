/* SPDX-License-Identifier: BSD-3-Clause */
/* Pages, each by itself or one after the other, through a function in bounded memory; or made from nothing. Reading,
 * work and writing overlap (execute.h). */
#ifndef VP_PAGES_H
#define VP_PAGES_H

#include "stack/reader.h"
#include "stack/writer.h"

struct vp_stats;
struct vp_progress;

struct vp_pages {
    /* Where pages come from: `reader` from its position on; by `read`, which
     * takes them from that reader; or without a reader from nowhere: then work() makes them, and `in` is NULL. */
    struct vp_reader *reader;
    bool as_f32;                  /* pages of the reader are handed over as f32, else in its type */
    /* n pages from `page` on, page i into to[i]. How many came: fewer than n only at the end of what has no known
     * length. From a pipe it is asked for one at a time. */
    int64_t (*read)(void *source, int64_t page, int64_t n, void *const *to, int threads, struct vp_err *err);
    void *source;
    /* Rows [y0, y1) of a page, in order. 1, 0 at the end of what has no known length, or -1. */
    int (*read_rows)(void *source, int64_t page, int64_t y0, int64_t y1, void *to, int threads, struct vp_err *err);
    size_t in_bytes;              /* of an input page; 0: the reader's */
    /* Of who can do with some rows of a page at a time, where pages are large: how many a page has that work() gets (0:
     * whole pages only; else read_rows goes with read), and of how many samples all but the last rows must be a
     * multiple (for sums over blocks of them; 0: any). */
    int64_t height, step;
    bool whole;                   /* pages must be whole all the same */
    size_t other_bytes;           /* of a page, or its rows, of another stack that work() holds beside those in hand */
    int64_t count;                /* pages; 0: to the end of the input */
    struct vp_writer *writer;     /* NULL: nothing is written (`out` is NULL then) */
    size_t out_bytes;             /* of an output page */
    bool in_place;                /* out is in */
    int threads;                  /* of reading and writing; 0: as many as OpenMP has */
    uint64_t memory;              /* bytes that all of it may take; 0: no limit */
    uint64_t beside;              /* of those, what the caller holds: another stack, an output that holds back */
    int64_t batch;                /* pages a call, at most; 0: chosen from page size and memory */
    struct vp_stats *stats;       /* stages "read", `stage`, "write"; may be NULL */
    struct vp_progress *progress; /* may be NULL */
    const char *stage;            /* "filter" */
    /* n pages one after the other, the first being page `page`, from `in` to `out`; `in` may be overwritten. In
     * order, one call at a time; may use OpenMP. How many pages of output it made (n, or fewer, at the front of
     * `out`), or -1. NULL: pages go on as they are (in_place). Where there is a height the n pages have `rows` rows
     * each: all, or n is 1 and they are those from `row` on. */
    int (*work)(void *ctx, int64_t page, int n, void *in, void *out, struct vp_err *err);
    void *ctx;
    int64_t row, rows;
    int64_t bad;                  /* out: NaN and infinite samples seen (as_f32) */
    int64_t done;                 /* out: pages handed to work */
};

/* 0, or -1 (VP_ERESOURCE before anything is read if not even one page fits `memory`). */
int vp_pages_run(struct vp_pages *p, struct vp_err *err);

/* That alone, for --plan. */
int vp_pages_fit(const struct vp_pages *p, struct vp_err *err);

/* Whether rows come instead of whole pages. */
bool vp_pages_by_rows(const struct vp_pages *p);

#endif
