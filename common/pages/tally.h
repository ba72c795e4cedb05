/* SPDX-License-Identifier: BSD-3-Clause */
/* The histogram of all samples of a stack, for a picture. */
#pragma once

#include "pages/statistics.h"

struct vp_reader;

/* Counts all samples of a stack that is seekable, in bands of its pages: one pass for the smallest and the largest,
 * unless `range` is not NULL, and one for the counts. There are at most 256 bins; those of integers hold equal numbers
 * of integers. VP_ERESOURCE: a band of rows does not fit `memory`. The caller frees h, also after a failure. */
int vp_tally(struct vp_reader *r, const double *range, uint64_t memory, struct vp_histogram *h, struct vp_err *err);
