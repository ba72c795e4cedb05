/* Pages out of nothing: made a batch at a time by all threads, while one of them writes the batch before. */
#ifndef VP_GENERATE_H
#define VP_GENERATE_H

#include "stack/writer.h"

struct vp_progress;
struct vp_stats;

struct vp_generate {
    const struct vp_stack *out;   /* f32 pages, their number known */
    int64_t tasks;                /* parts that a page is made in */
    /* Make part `task` of page `page`, whose samples begin at `samples`. By any thread, in any order. */
    void (*make)(const void *ctx, int64_t page, int64_t task, float *samples);
    const void *ctx;
    uint64_t memory;              /* bytes that the buffers may take */
    int threads;
    struct vp_stats *stats;       /* stage `stage`; may be NULL */
    struct vp_progress *progress; /* may be NULL */
    const char *stage;            /* "simulate" */
    int64_t batch;                /* out, by vp_generate_plan: pages made at a time */
};

/* Choose the batch. VP_ERESOURCE if the memory does not hold even two pages. */
int vp_generate_plan(struct vp_generate *g, struct vp_err *err);
/* Make and write all pages. */
int vp_generate_run(const struct vp_generate *g, struct vp_writer *writer, struct vp_err *err);

#endif
