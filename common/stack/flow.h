/* Pages through a function in bounded memory: a reader thread, the caller's work, a writer thread,
 * overlapping, with three batches in flight. */
#ifndef VP_FLOW_H
#define VP_FLOW_H

#include "stack/reader.h"
#include "stack/writer.h"

struct vp_stats;
struct vp_progress;

struct vp_flow {
    struct vp_reader *reader;
    struct vp_writer *writer;     /* NULL: nothing is written (`out` is NULL then) */
    bool as_f32;                  /* pages are handed over as f32, else in the reader's type */
    size_t out_page_bytes;        /* bytes of an output page */
    bool in_place;
    /* pages [first, last) of the input are used; last < 0: all; those before are skipped */
    int64_t first, last;
    int threads;                  /* that read and write a file; 0: as many as the caller's OpenMP has */
    int batch;                    /* pages a call; 0: chosen from page size and memory */
    uint64_t memory;              /* bytes that the buffers may take; 0: no limit */
    uint64_t beside;              /* of those, what the caller holds: another stack, an output that holds back */
    struct vp_stats *stats;       /* stages "read", `stage`, "write"; may be NULL */
    struct vp_progress *progress; /* may be NULL */
    const char *stage;            /* "filter" */
    /* n pages, the first being page `page` of the input; in may be overwritten. May use OpenMP. Returns the
     * number of output pages it put into out (0..n; n unless it selects), or -1. in_place: out is in; pages of output
     * are not larger, and the first ones lie at its front. */
    int (*work)(void *ctx, int64_t page, int n, void *in, void *out, struct vp_err *err);
    void *ctx;
    int64_t bad;                  /* out: NaN and infinite samples seen (as_f32) */
    int64_t pages;                /* out: pages handed to work */
};

/* What of `memory` is left for pages of input and output: without what the caller and the reader of the input keep.
 * `need` bytes of them must fit, or -1 with the number that would do. UINT64_MAX without a limit. */
int vp_flow_room(const struct vp_flow *f, uint64_t need, uint64_t *room, struct vp_err *err);

/* 0, or -1 (VP_ERESOURCE before reading if not even one page fits `memory`). */
int vp_flow_run(struct vp_flow *f, struct vp_err *err);

/* That alone, for --plan. */
int vp_flow_fits(const struct vp_flow *f, struct vp_err *err);

#endif
