/* SPDX-License-Identifier: BSD-3-Clause */
/* Headers of stacks whose samples were resampled, turned or flipped: voxel, origin, axes and scan geometry follow the
 * pixels. */
#pragma once

#include "stack/stack.h"

/* Voxel i along axis a of the result lies at position first[a] + step[a] i of the input, in its voxels. */
struct vp_reframe { double first[3], step[3]; };

/* Sets voxel, origin and geometry of `out`, a copy of the header `in` with the sizes of the result. `note` (of n bytes)
 * is "" or states what is left out. 0 or -1. */
int vp_reframe_resized(const struct vp_reframe *f, const struct vp_stack *in, struct vp_stack *out, char *note,
                       size_t n, struct vp_err *err);

/* The same after axes were exchanged and reversed: axis from[a] of the input, of size[] voxels, became axis a of the
 * result, reversed if flip[a]. `volume`: the axes are x, y and z, and stay so; else their names move with them. */
int vp_reframe_turned(const int from[3], const bool flip[3], const int64_t size[3], bool volume,
                      const struct vp_stack *in, struct vp_stack *out, char *note, size_t n, struct vp_err *err);
