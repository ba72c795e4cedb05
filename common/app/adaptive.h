/* SPDX-License-Identifier: BSD-3-Clause */
/* Thresholds that follow the neighbourhood. With the mean m and the standard deviation s of the samples around a
 * voxel it is above its threshold where its sample is larger than
 *
 *     mean      m - offset
 *     niblack   m - k s - offset                    (Niblack 1986)
 *     sauvola   m (1 + k (s / r - 1)) - offset      (Sauvola and Pietikainen 2000)
 *     bradley   m (1 - k) - offset                  (Bradley and Roth 2007)
 *
 * The work is that of local/moments.h: in time independent of a box's size, integers exactly. */
#pragma once

#include "base/opt.h"
#include "local/moments.h"

struct vp_images;

enum vp_adaptive { VP_LOCAL_MEAN, VP_LOCAL_NIBLACK, VP_LOCAL_SAUVOLA, VP_LOCAL_BRADLEY };
#define VP_ADAPTIVE_CHOICES "mean|niblack|sauvola|bradley"

struct vp_adaptive_params {
    int method;
    struct vp_reals window;
    int shape, edge; /* enum vp_edge */
    struct vp_reals k; /* one, or none */
    double r, offset;  /* r: 0 if not given */
};
extern const struct vp_opt vp_adaptive_options[];

/* Checks everything that does not depend on the input. -1: VP_EUSAGE. */
int vp_adaptive_check(const struct vp_adaptive_params *p, struct vp_err *err);

/* Sets the limit for the images' type: a sample closer than `nearer` to its threshold counts as above it. `mark`: value
 * of voxels above (`below`: of those that are not). -1: VP_EUSAGE (an r is needed). */
int vp_adaptive_limit(struct vp_limit *l, const struct vp_adaptive_params *p, const struct vp_images *im,
                      double nearer, bool below, uint8_t mark, struct vp_err *err);

/* Makes the neighbourhood. -1: VP_EUSAGE. */
int vp_adaptive_window(struct vp_footprint *f, const struct vp_adaptive_params *p, const struct vp_images *im,
                       struct vp_err *err);
