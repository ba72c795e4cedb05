/* SPDX-License-Identifier: BSD-3-Clause */
/* Stacks with their axes in another order or direction: transpositions, turns by 90 degrees, flips, views and
 * sinograms. Samples are copied, never computed. */
#pragma once

#include "engine/pages.h"

struct vp_reslice {
    /* Axis of the input (0: x, 1: y, 2: pages) that becomes axis a of the result; true if it is reversed. */
    int from[3];
    bool flip[3];
    /* Set by vp_reslice_make(): */
    int64_t in[3], out[3];  /* voxels of an image; in[2] is -1 until the end of a pipe */
    int64_t inner, outer;   /* images side by side, and after one another */
    bool streams;           /* pages come and go in order */
    bool volume;            /* the axes are x, y and z */
};

static inline void vp_reslice_none(struct vp_reslice *r)
{
    *r = (struct vp_reslice){.from = {0, 1, 2}};
}
/* Appends a turn by 90 degrees about axis a, from the axis after it to the next (about z: from x to y, clockwise on the
 * screen); and a reversal of axis a. */
void vp_reslice_turn(struct vp_reslice *r, int a);
void vp_reslice_flip(struct vp_reslice *r, int a);

/* Fills sizes for the stack `in`. flat: every page is an image. -1: VP_ERUN, pages of several axes none of which is
 * z. */
int vp_reslice_make(struct vp_reslice *r, const struct vp_stack *in, bool flat, const char *name, struct vp_err *err);
/* Fills the header of the result, to be freed. `note` (of n bytes) is "" or states what is left out. */
int vp_reslice_stack(const struct vp_reslice *r, const struct vp_stack *in, struct vp_stack *out, char *note, size_t n,
                     struct vp_err *err);
/* Returns the number of times that all of the input is read, and sets pages->batch for it. pages as below. */
int64_t vp_reslice_passes(const struct vp_reslice *r, struct vp_pages *pages);
/* Writes the result. pages->reader, ->writer and ->memory are set; the reader is seekable unless r->streams. */
int vp_reslice_run(const struct vp_reslice *r, struct vp_pages *pages, struct vp_err *err);
