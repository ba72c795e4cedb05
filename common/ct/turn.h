/* SPDX-License-Identifier: BSD-3-Clause */
/* Views as a detector would see them that turns with the source, so that its rows follow the source's way and can be
 * filtered: of a detector that keeps its direction in space (planar CT), or is mounted askew; and as a flat detector
 * would see them, of a curved one. */
#pragma once

#include "geom/geom.h"

struct vp_turn {
    int64_t in_nu, in_nv, nu, nv;
    const struct vp_view *curved; /* the views of a curved detector, or NULL; owned as `to` is */
    double *to; /* 9 a view: from pixels of the turned detector to those of the real one (vp_geom_turned) */
};

/* Fills rows [v0, v1) of the turned view, from a whole view. Interpolated by cubic convolution (Keys, IEEE Trans.
 * Acoust. Speech Signal Process. 29 (1981) 1153, a = -1/2), separable, with zeros around the detector; samples that are
 * not finite count as 0. A sample's bits do not depend on the rows that are requested or on `threads`. */
void vp_turn_view(const struct vp_turn *t, int64_t view, int64_t v0, int64_t v1, const float *in, float *out,
                  int threads);
