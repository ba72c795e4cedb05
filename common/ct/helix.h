/* SPDX-License-Identifier: BSD-3-Clause */
/* FDK for a helix: how the views of many turns share a voxel.
 *
 * A voxel counts the views of a window about the turn at which its height is in the middle of the detector. The window
 * is the difference of two steps a turn apart, so that the views of all turns from any one direction have shares that
 * sum to 1: what does not change along z is as exact as on a circle, whatever the pitch. (Generalised Feldkamp for
 * helices: Wang, Lin, Cheng and Shinozaki, IEEE Trans. Med. Imaging 12 (1993) 486; a window in the angle instead of the
 * row that a voxel is seen in keeps voxels off the axis from having a direction twice, or not at all.) Shares are those
 * of whole sections of slices, which are multiples of the volume's own, so they depend on no slab. Voxels on the
 * source's side of the axis may be seen above or below the detector while they are in the window: there its edge rows
 * go on. */
#pragma once

#include "geom/geom.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { VP_HELIX_SECTION = 16 }; /* slices, at most */

/* Returns the slices of a section: a power of two. */
int64_t vp_helix_section(const struct vp_helix *h, const struct vp_grid *grid);
/* Returns the rows by which the detector is extended at both ends. */
int64_t vp_helix_margin(const struct vp_helix *h, const struct vp_view *views, int64_t n_views, int64_t nv,
                        const struct vp_grid *grid);
/* Returns the share, 0 to 1, of the view at `turn` in the section of slice k; and the factor of its matrix that gives
 * it that weight, 0 if it has none. */
double vp_helix_share(const struct vp_helix *h, double turn, const struct vp_grid *grid, int64_t k);
double vp_helix_scale(const struct vp_helix *h, double turn, const struct vp_grid *grid, int64_t k);

#ifdef __cplusplus
}
#endif
