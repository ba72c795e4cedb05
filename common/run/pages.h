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
    /* Where pages come from: `reader` from its position on, or `read`, or neither: then pages are made. */
    struct vp_reader *reader;
    bool as_f32;                  /* pages of the reader are handed over as f32, else in its type */
    /* n pages from `page` on, page i into to[i], which has in_bytes. How many came: fewer than n only at the end of
     * what had no known length. From a pipe it is asked for one at a time. */
    int64_t (*read)(void *source, int64_t page, int64_t n, void *const *to, int threads, struct vp_err *err);
    void *source;
    size_t in_bytes;              /* of an input page; 0: the reader's */
    bool waits;                   /* read() may have to wait for a pipe (with `reader` that is known) */
    int64_t count;                /* pages; -1: to the end. With `reader` -1 means all that it has */
    struct vp_writer *writer;     /* NULL: nothing is written (`out` is NULL then) */
    size_t out_bytes;             /* of an output page */
    bool in_place;                /* out[i] is in[i] */
    int threads;                  /* of reading and writing; 0: as many as OpenMP has */
    uint64_t memory;              /* bytes that the buffers may take; 0: no limit */
    int64_t batch;                /* pages a call, at most; 0: chosen from page size and memory */
    struct vp_stats *stats;       /* stages "read", `stage`, "write"; may be NULL */
    struct vp_progress *progress; /* may be NULL */
    const char *stage;            /* "filter" */
    /* n pages, the first being page `page`, in[i] to out[i]; in[i] may be overwritten. In order, one call at a time;
     * may use OpenMP. NULL: pages go on as they are (in_place). */
    int (*work)(void *ctx, int64_t page, int64_t n, void *const *in, void *const *out, struct vp_err *err);
    void *ctx;
    int64_t bad;                  /* out: NaN and infinite samples seen (as_f32) */
    int64_t done;                 /* out: pages handed to work */
};

/* 0, or -1 (VP_ERESOURCE before anything is read if not even one page fits `memory`). */
int vp_pages_run(struct vp_pages *p, struct vp_err *err);

/* That alone, for --plan. */
int vp_pages_fit(const struct vp_pages *p, struct vp_err *err);

#endif
