/* SPDX-License-Identifier: BSD-3-Clause */
/* Trial slices: the slice in the plane of the orbit, reconstructed for several positions of the axis. */
#pragma once

#include "ct/center.h"

struct vp_trial {
    int n;             /* slices */
    int64_t size;      /* columns and rows of each */
    double *offset;    /* offset-u of each, pixels, increasing; malloc'd, as the others */
    float *slice;      /* n x size x size, attenuation in 1/mm */
    /* Shannon entropy of the histogram inside the field, bits; limits are those of the middle slice. A slice with the
     * right axis has few shades of grey. */
    double *entropy;
    int best;          /* the slice of least entropy, */
    double least;      /* the minimum of the parabola through it and its neighbours, pixels, */
    bool end;          /* and if it is the first or the last one */
};

enum { VP_TRIAL_MOST = 99 };

/* Reconstructs n slices of size x size voxels (the field of view) for offsets `step` apart, the middle one `middle`.
 * 0, or -1 (VP_ERESOURCE, VP_ERUN); free with vp_trial_free() in any case. Bits do not depend on threads. */
int vp_trial_make(struct vp_trial *t, const struct vp_center_request *q, double middle, double step, int n,
                  int64_t size,
                  struct vp_err *err);
void vp_trial_free(struct vp_trial *t);
