/* SPDX-License-Identifier: BSD-3-Clause */
/* Slices that rays cross before and after they pass the slices of a volume. */
#pragma once

#include "ct/projections.h"

/* Sets the slices to be added below and above, so that rays that meet the cylinder in the volume leave it through its
 * side. Views whose rays are inclined (laminography) need none. */
void vp_margin_of(const struct vp_projections *scan, const struct vp_grid *grid, int64_t *below, int64_t *above);
