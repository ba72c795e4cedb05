/* SPDX-License-Identifier: BSD-3-Clause */
#include "pages/reframe.h"

#include "base/err.h"
#include "pages/select_internal.h"
#include "stack/set.h"

#include <stdio.h>

/* Moves and stretches voxel and origin. */
static int resize_frame(const struct vp_reframe *f, struct vp_meta *meta)
{
    double voxel[3], origin[3];
    const int n = vp_meta_numbers(meta, "voxel", 3, voxel) ? 3 : vp_meta_numbers(meta, "voxel", 2, voxel) ? 2 : 0;

    if (n && vp_meta_numbers(meta, "origin", n, origin)) {
        for (int a = 0; a < n; a++)
            origin[a] += f->first[a] * voxel[a];
        if (vp_set_numbers(meta, "origin", n, origin))
            return -1;
    }
    for (int a = 0; a < n; a++)
        voxel[a] *= f->step[a];
    return n ? vp_set_numbers(meta, "voxel", n, voxel) : 0;
}

int vp_reframe_resized(const struct vp_reframe *f, const struct vp_stack *in, struct vp_stack *out, char *note,
                       size_t n, struct vp_err *err)
{
    struct vp_geom g = {0};
    int rc = -1;

    note[0] = '\0';
    if (resize_frame(f, &out->meta))
        return vp_fail(err, VP_ERESOURCE, "out of memory: the metadata");
    const int layout = vp_select_layout(in, &g, "metadata", err);
    if (layout == VP_NO_GEOMETRY)
        return 0;
    if (layout < 0)
        goto out;
    vp_meta_remove_prefix(&out->meta, "geom.");
    const bool turns = f->step[layout == VP_SINOGRAMS ? 1 : 2] != 1;
    if (layout == VP_MISFIT || turns) {
        snprintf(note, n, "the scan geometry is left out: %s",
                 turns ? "views are merged, or made between those that were measured"
                       : "it is not that of these pages");
        rc = 0;
        goto out;
    }
    vp_select_columns(&g, 0, f->first[0], f->step[0], out->nx);
    if (layout == VP_VIEWS)
        vp_select_columns(&g, 1, f->first[1], f->step[1], out->ny);
    else
        vp_select_columns(&g, 1, f->first[2], f->step[2], out->pages);
    rc = vp_geom_to_meta(&g, &out->meta, err);
out:
    vp_geom_free(&g);
    return rc;
}
