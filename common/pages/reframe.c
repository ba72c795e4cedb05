/* SPDX-License-Identifier: BSD-3-Clause */
#include "pages/reframe.h"

#include "base/err.h"
#include "pages/select_internal.h"
#include "stack/axes.h"
#include "stack/set.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

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

/* ---- axes exchanged and reversed ---- */

/* Moves voxel and origin; the origin of a reversed axis stays if the image lies symmetrically about 0. */
static int turn_frame(const int from[3], const bool flip[3], const int64_t size[3], struct vp_meta *meta, char *note,
                      size_t n)
{
    double voxel[3], origin[3], to[3];
    bool placed = true;

    if (!vp_meta_numbers(meta, "voxel", 3, voxel)) {
        const bool two = vp_meta_numbers(meta, "voxel", 2, voxel) && from[2] == 2;
        return two ? vp_set_numbers(meta, "voxel", 2, (const double[]){voxel[from[0]], voxel[from[1]]})
                   : vp_meta_set(meta, "voxel", NULL) || vp_meta_set(meta, "origin", NULL);
    }
    for (int a = 0; a < 3; a++)
        to[a] = voxel[from[a]];
    if (vp_set_numbers(meta, "voxel", 3, to))
        return -1;
    if (!vp_meta_numbers(meta, "origin", 3, origin))
        return 0;
    for (int a = 0; a < 3; a++) {
        const int f = from[a];
        const double last = origin[f] + (double)(size[f] - 1) * voxel[f];
        placed = placed && (!flip[a] || fabs(origin[f] + last) <= 1e-6 * fabs(voxel[f]));
        to[a] = origin[f];
    }
    if (placed)
        return vp_set_numbers(meta, "origin", 3, to);
    snprintf(note, n, "the origin is left out: an axis is reversed");
    return vp_meta_set(meta, "origin", NULL);
}

/* Names the axes anew. */
static int turn_axes(const int from[3], const struct vp_stack *in, struct vp_meta *meta)
{
    const char *text = vp_meta_get(&in->meta, "axes");
    char name[3][VP_AXIS_NAME], more[VP_AXIS_NAME], out[4 * VP_AXIS_NAME];

    if (!text || sscanf(text, "%31s %31s %31s %31s", name[0], name[1], name[2], more) != 3)
        return 0; /* only x and y of pages with several axes change places, or it is not known what they are */
    snprintf(out, sizeof out, "%s %s %s", name[from[0]], name[from[1]], name[from[2]]);
    return vp_meta_set(meta, "axes", out);
}

/* Reverses the views. */
static void reverse_views(struct vp_geom *g)
{
    for (int64_t i = 0; i < g->views / 2; i++) {
        const int64_t j = g->views - 1 - i;
        if (g->angle) {
            const double angle = g->angle[i];
            g->angle[i] = g->angle[j];
            g->angle[j] = angle;
        }
        for (int k = 0; g->matrix && k < 12; k++) {
            const double one = g->matrix[i * 12 + k];
            g->matrix[i * 12 + k] = g->matrix[j * 12 + k];
            g->matrix[j * 12 + k] = one;
        }
    }
}

/* Turns the geometry of views or sinograms: both are the same scan, and each axis may be reversed. */
static int turn_geometry(const int from[3], const bool flip[3], const struct vp_stack *in, struct vp_stack *out,
                         char *note, size_t n, struct vp_err *err)
{
    struct vp_geom g = {0};
    const int layout = vp_select_layout(in, &g, "metadata", err);
    int rc = -1;

    if (layout == VP_NO_GEOMETRY)
        return 0;
    if (layout < 0)
        goto out;
    vp_meta_remove_prefix(&out->meta, "geom.");
    if (layout == VP_MISFIT || from[0] != 0) {
        snprintf(note, n, "the scan geometry is left out: %s",
                 layout == VP_MISFIT ? "it is not that of these pages" : "rows are not those of a detector");
        rc = 0;
        goto out;
    }
    /* the axes are u, view and v in some order with u first */
    const int v = (layout == VP_VIEWS) == (from[1] == 1) ? 1 : 2; /* axis of the result that is v */
    if (flip[0])
        vp_select_columns(&g, 0, (double)(g.nu - 1), -1, g.nu);
    if (flip[v])
        vp_select_columns(&g, 1, (double)(g.nv - 1), -1, g.nv);
    if (flip[3 - v])
        reverse_views(&g);
    rc = vp_geom_to_meta(&g, &out->meta, err);
    if (!rc && vp_meta_set(&out->meta, "axes", v == 1 ? "u v view" : "u view v"))
        rc = vp_fail(err, VP_ERESOURCE, "out of memory: the metadata");
out:
    vp_geom_free(&g);
    return rc;
}

int vp_reframe_turned(const int from[3], const bool flip[3], const int64_t size[3], bool volume,
                      const struct vp_stack *in, struct vp_stack *out, char *note, size_t n, struct vp_err *err)
{
    struct vp_axes axes;

    note[0] = '\0';
    if (turn_frame(from, flip, size, &out->meta, note, n) || (!volume && turn_axes(from, in, &out->meta)))
        return vp_fail(err, VP_ERESOURCE, "out of memory: the metadata");
    vp_axes_get(in, &axes);
    const int z = vp_axes_z(&axes);
    if (axes.n > 1 && axes.sized && z >= 0 && from[2] != 2) {
        axes.size[z] = size[from[2]];
        if (vp_axes_set(&out->meta, &axes))
            return vp_fail(err, VP_ERESOURCE, "out of memory: the metadata");
    }
    return turn_geometry(from, flip, in, out, note, n, err);
}
