/* The engine: runs a plan (plan.h). A reader thread fills the window, workers fill the parts of slabs, a writer
 * thread passes slabs on in page order, all at the same time. */
#pragma once

#include "engine/plan.h"
#include "stack/reader.h"
#include "stack/writer.h"

struct lanes;
struct vp_pages;
struct vp_stats;
struct vp_progress;

struct vp_execute {
    const struct vp_problem *problem;
    const struct vp_plan *plan;
    struct vp_chain *chain;                  /* image[2] of the stages is set when the end of a pipe has come */
    struct vp_reader *reader[VP_MAX_INPUTS]; /* at their first page; none: pages are made */
    enum vp_type held;                       /* type of samples in the window; stored ones are converted to it */
    struct vp_writer *writer;                /* or NULL: `page` gets them */
    enum vp_type stored_out;                 /* type of the output: the last stage's, or converted from it */
    /* Gets the pages in order, in several calls where the plan has bands in order. 0 or -1 */
    int (*page)(void *ctx, int64_t page, const void *samples, int64_t n, struct vp_err *err);
    void *ctx;
    /* The same for the second output, where there is one. */
    struct vp_writer *second_writer;
    int (*second_page)(void *ctx, int64_t page, const void *samples, int64_t n, struct vp_err *err);
    int device[VP_MAX_DEVICES];              /* numbers of the plan's devices */
    struct vp_stats *stats;                  /* may be NULL */
    struct vp_progress *progress;            /* may be NULL */
    /* The pass of a chain that needs two (VP_SUMMARY, then VP_FINISH), and the entries of its boxes; else VP_MAKE. */
    enum vp_pass pass;
    struct vp_store *store;
    struct lanes *lanes;                     /* the device that holds the image between VP_GATHER and VP_SCATTER */
    /* Called between them, with `ctx`; may open the writer. NULL: nothing to do. -1: it failed. */
    int (*solved)(void *ctx, struct vp_execute *e, struct vp_err *err);
    /* Pages through a function (pages.h), in the stored type, instead of a chain: */
    struct vp_pages *pages;
    size_t page_in, page_out;                /* bytes of a page */
    double began;                            /* start of the first of two passes, in seconds */
    int smaller;                             /* out: number of times that a device ran short of memory */
};

/* Runs the plan. 0 or -1. *full (may be NULL) is set if a device had less memory than planned, before anything was
 * read: plan with less and run again. */
int vp_execute(struct vp_execute *e, bool *full, struct vp_err *err);

/* Runs a plan that holds the image on a device: gathers it, settles it, scatters the result. As vp_execute(); *full is
 * set, too, if the image took more memory than planned, after it was read: then the readers are at their first page
 * again, and nothing was written. */
int vp_execute_held(struct vp_execute *e, bool *full, struct vp_err *err);

/* Runs any plan, in the passes that it has. */
int vp_execute_plan(struct vp_execute *e, bool *full, struct vp_err *err);

/* Runs both passes: the readers are read to the end, taken back to their first page, and read again. Entries beyond the
 * memory that the plan has for them go to a file. */
int vp_execute_twice(struct vp_execute *e, bool *full, struct vp_err *err);
