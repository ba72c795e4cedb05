/* SPDX-License-Identifier: BSD-3-Clause */
/* Projections of a scan: the geometry of its views, and where their samples are. */
#pragma once

#include "geom/geom.h"

struct vp_views;

/* All projections of a scan. Samples come from a stack, or from a function; of geometry alone from neither. The
 * pointers stay the caller's. */
struct vp_projections {
    const struct vp_view *views;  /* n_views of them */
    int64_t n_views;
    int64_t nu, nv;               /* detector columns and rows that `views` project to */
    const struct vp_helix *helix; /* NULL: no helix */
    struct vp_views *source;      /* stack of files or of a pipe (stack/views.h); says also what can be read again */
    /* Fills `to` with rows [v0, v1) of n views from `first` on, in place of the source: views that are ready to be
     * filtered on a device or to be projected back. From one thread. NULL: the source. */
    int (*read)(void *ctx, int64_t first, int n, int64_t v0, int64_t v1, float *to, struct vp_err *err);
    void *ctx;
};

/* Rows [v0, v1) of views [first, first + n), one view after the other, in host memory. */
struct vp_batch {
    int64_t first, n, v0, v1;
    const float *samples;
};
