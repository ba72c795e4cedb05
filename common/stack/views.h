/* Projections view by view, whatever the layout of the stack: a view a page, or a detector row a page
 * (sinograms). From sinograms on a pipe everything is held in memory (refused if it does not fit). */
#pragma once

#include "stack/reader.h"

struct vp_views;

/* Opens views. sinograms: pages are nu x n_views, one a detector row. `memory`: bytes it may take. */
int vp_views_open(struct vp_views **v, struct vp_reader *reader, bool sinograms, uint64_t memory,
                  struct vp_err *err);
const char *vp_views_name(const struct vp_views *v); /* name of the reader, for messages */
/* -1: sinograms of unknown number (then held: known after open) */
int64_t vp_views_nv(const struct vp_views *v);
/* Returns the bytes it takes beside the caller's buffers: held sinograms, or the block that is read from a file of
 * them. */
uint64_t vp_views_bytes(const struct vp_views *v);
/* True if any view may be read again (several passes). */
bool vp_views_seekable(const struct vp_views *v);
/* Reads n views from `first`, rows [v0, v1) of each (row major), as f32 one after the other into out. They must be read
 * in increasing order unless seekable; seekable uncompressed files are read by `threads` threads; from a pipe it waits
 * until all n have come. *bad (may be NULL) counts NaN and infinities. Returns the views read (fewer at the end of the
 * input), or -1. */
int64_t vp_views_read(struct vp_views *v, int64_t first, int64_t n, int64_t v0, int64_t v1, float *out, int64_t *bad,
                      int threads, struct vp_err *err);
/* Finishes after the last view: an error if more pages follow. */
int vp_views_finish(struct vp_views *v, struct vp_err *err);
void vp_views_close(struct vp_views *v);   /* not the reader */
