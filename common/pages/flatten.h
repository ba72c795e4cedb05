/* SPDX-License-Identifier: BSD-3-Clause */
/* Projections of a stack along its axes: the largest, smallest or mean sample of each line, instead of a slice. */
#pragma once

#include "pages/render.h"

/* Projects all cuts of `s` along their axes into their pictures, in one pass over the stack: page k is added when it is
 * read. NaN is left out of the largest and the smallest, and goes into the mean; sums are in float64, in the order of
 * the samples. */
struct vp_flatten;
int vp_flatten_open(struct vp_flatten **f, const struct vp_slices *s, int64_t nx, int64_t ny, struct vp_err *err);
/* Adds a page of channel c, the k-th of that channel. */
void vp_flatten_add(struct vp_flatten *f, int64_t channel, int64_t k, const float *page);
/* Writes the pictures that are complete only now. */
void vp_flatten_end(struct vp_flatten *f);
void vp_flatten_close(struct vp_flatten *f);
/* Returns the bytes of memory that it takes. */
uint64_t vp_flatten_bytes(const struct vp_slices *s, int64_t nx, int64_t ny);
