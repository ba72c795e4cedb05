/* SPDX-License-Identifier: BSD-3-Clause */
/* Pages through a function, in order and in bounded memory; or pages that a function makes. Reading, work and writing
 * overlap (execute.h). */
#pragma once

#include "stack/reader.h"
#include "stack/writer.h"

struct vp_stats;
struct vp_progress;

struct vp_pages {
    /* Source of the pages: `reader` from its position on, by `read` if that is given. Without a reader work() makes
     * them, and `in` is NULL. */
    struct vp_reader *reader;
    bool as_f32;                  /* pages of the reader are handed over as f32, else in its type */
    /* Reads n pages from `page` on, page i into to[i]. Returns the number of pages that came, fewer than n only at the
     * end of a stack of unknown length, or -1. Pages of a pipe are requested one at a time. */
    int64_t (*read)(void *source, int64_t page, int64_t n, void *const *to, int threads, struct vp_err *err);
    void *source;
    /* Reads rows [y0, y1) of a page, in order. 1, 0 at the end of a stack of unknown length, or -1. */
    int (*read_rows)(void *source, int64_t page, int64_t y0, int64_t y1, void *to, int threads, struct vp_err *err);
    size_t in_bytes;              /* bytes of an input page; 0: the reader's */
    /* Rows per page if work() accepts bands of rows of large pages (read_rows goes with read); 0: whole pages only. All
     * bands but the last have a multiple of `step` samples (for sums over blocks; 0: any number). */
    int64_t height, step;
    bool whole;                   /* pages must be whole all the same */
    size_t other_bytes;           /* bytes of a page of another stack that work() holds beside those that it gets */
    int64_t count;                /* pages; 0: to the end of the input */
    struct vp_writer *writer;     /* NULL: nothing is written (`out` is NULL then) */
    size_t out_bytes;             /* bytes of an output page */
    bool in_place;                /* out is in */
    int threads;                  /* threads that read and write; 0: OpenMP's number */
    uint64_t memory;              /* bytes that all of it may take; 0: no limit */
    uint64_t beside;              /* bytes of those that the caller holds: another stack, held pages of an output */
    int64_t batch;                /* pages a call, at most; 0: chosen from page size and memory */
    struct vp_stats *stats;       /* stages "read", `stage`, "write"; may be NULL */
    struct vp_progress *progress; /* may be NULL */
    const char *stage;            /* "filter" */
    /* Makes n pages, the first being page `page`, from `in` to `out`; `in` may be overwritten. Called in order, once
     * at a time; may use OpenMP. Returns the number of output pages (n, or fewer, at the front of `out`), or -1.
     * NULL: pages are passed on (in_place). With a height the n pages have `rows` rows each: all, or n is 1 and they
     * start at `row`. */
    int (*work)(void *ctx, int64_t page, int n, void *in, void *out, struct vp_err *err);
    void *ctx;
    int64_t row, rows;
    int64_t bad;                  /* out: NaN and infinite samples seen (as_f32) */
    int64_t done;                 /* out: pages handed to work */
};

/* Runs it. 0, or -1 (VP_ERESOURCE before anything is read if not even one page fits `memory`). */
int vp_pages_run(struct vp_pages *p, struct vp_err *err);

/* Checks that alone, for --plan. */
int vp_pages_fit(const struct vp_pages *p, struct vp_err *err);

/* True if work() gets bands of rows instead of whole pages. */
bool vp_pages_by_rows(const struct vp_pages *p);
