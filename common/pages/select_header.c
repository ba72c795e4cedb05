/* SPDX-License-Identifier: BSD-3-Clause */
/* Metadata and geometry of selected pages.
 *
 * The geometry follows the pixels: keeping columns first, first + step, ... of a detector moves the
 * principal point from c to (c - first) / step and makes the pitch step times as large; on matrices the
 * same is row' = (row - first * last row) / step. */
#include "pages/select_internal.h"

#include "base/err.h"
#include "base/size.h"
#include "stack/axes.h"
#include "stack/set.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- geometry in the metadata ---- */

int vp_select_layout(const struct vp_stack *in, struct vp_geom *g, const char *name, struct vp_err *err)
{
    const char *axes = vp_meta_get(&in->meta, "axes");
    const int found = vp_geom_from_meta(g, &in->meta, name, err);

    if (found <= 0)
        return found;
    const bool views = in->nx == g->nu && in->ny == g->nv && (in->pages < 0 || in->pages == g->views);
    const bool sinos = in->nx == g->nu && in->ny == g->views && (in->pages < 0 || in->pages == g->nv);
    if (sinos && (!views || (axes && !strcmp(axes, "u view v"))))
        return VP_SINOGRAMS;
    if (views)
        return VP_VIEWS;
    vp_geom_free(g);
    return VP_MISFIT;
}

void vp_select_columns(struct vp_geom *g, int axis, double first, double step, int64_t count)
{
    int64_t *n = axis ? &g->nv : &g->nu;
    double *offset = axis ? &g->offset_v : &g->offset_u, *pitch = axis ? &g->dv : &g->du;
    const double center = (double)(*n - 1) / 2 + *offset;

    if (first == 0 && step == 1 && count == *n)
        return;
    *n = count;
    *offset = (center - first) / step - (double)(count - 1) / 2;
    *pitch *= step;
    for (int64_t v = 0; g->matrix && v < g->views; v++) {
        double *row = g->matrix + v * 12 + axis * 4;
        const double *depth = g->matrix + v * 12 + 8;
        for (int c = 0; c < 4; c++)
            row[c] = (row[c] - first * depth[c]) / step;
    }
}

/* Keeps of `width` numbers for each view, if there are any, those of the n views that are selected. */
static int pick_views(double **numbers, size_t width, const struct vp_select *s, bool views, int64_t n,
                      struct vp_err *err)
{
    double *to = *numbers ? vp_alloc((size_t)n, width * sizeof *to, "views", err) : NULL;

    if (*numbers && !to)
        return -1;
    for (int64_t i = 0; to && i < n; i++)
        memcpy(to + width * (size_t)i, *numbers + width * (size_t)(views ? vp_select_page(s, i) : s->y0 + i),
               width * sizeof *to);
    free(*numbers);
    *numbers = to;
    return 0;
}

static int select_geometry(const struct vp_select *s, enum vp_page_layout layout, struct vp_geom *g,
                           struct vp_meta *meta, char *note, size_t size, struct vp_err *err)
{
    const bool views = layout == VP_VIEWS, one_span = s->n_spans == 1 && s->span[0].step > 0;
    const int64_t n = views ? s->pages : s->y1 - s->y0;

    vp_meta_remove_prefix(meta, "geom.");
    if (layout == VP_MISFIT || s->pages < 0 || (!views && !one_span)) {
        snprintf(note, size, "the scan geometry is left out: %s",
                 layout == VP_MISFIT ? "it is not that of these pages"
                 : s->pages < 0 ? "the number of pages is unknown" : "detector rows are not evenly spaced");
        return 0;
    }
    vp_select_columns(g, 0, (double)s->x0, 1, s->x1 - s->x0);
    if (views)
        vp_select_columns(g, 1, (double)s->y0, 1, s->y1 - s->y0);
    else
        vp_select_columns(g, 1, (double)s->span[0].first, (double)s->span[0].step, s->span[0].count);
    if (pick_views(&g->angle, 1, s, views, n, err) || pick_views(&g->matrix, 12, s, views, n, err))
        return -1;
    g->views = n;
    return vp_geom_to_meta(g, meta, err);
}

/* ---- metadata ---- */

/* Positions along an axis that are kept: first, first + step, ... */
struct along {
    int64_t first, step, count;
    bool even;
};

/* Finds the page axes of what is selected, if it is a grid: the same positions along one axis wherever one stands on
 * the others, as in every page of one channel. `kept` is filled then. False: it is none, or that is unknown. */
static bool select_grid(const struct vp_select *s, const struct vp_axes *axes, struct along *kept)
{
    int64_t stride = 1, n = 1; /* pages of the input, and of those selected, from one position to the next */
    const int64_t page0 = s->pages > 0 ? vp_select_page(s, 0) : -1;

    if (!axes->sized || page0 < 0)
        return false;
    for (int a = 0; a < axes->n; a++) {
        const int64_t block = stride * axes->size[a];
        struct along *k = &kept[a];
        *k = (struct along){.first = page0 / stride % axes->size[a], .step = 1, .count = 1, .even = true};
        for (; n * k->count < s->pages; k->count++) { /* along this axis, as long as the slower ones do not move */
            const int64_t page = vp_select_page(s, n * k->count), at = page / stride % axes->size[a];
            if (page / block != page0 / block)
                break;
            if (k->count == 1)
                k->step = at - k->first;
            k->even = k->even && k->step != 0 && at == k->first + k->count * k->step;
        }
        n *= k->count;
        stride = block;
    }
    if (n != s->pages || (s->in_pages >= 0 && stride != s->in_pages))
        return false;
    for (int64_t i = 0; i < s->pages; i++) {
        int64_t page = 0;
        stride = n = 1;
        for (int a = 0; a < axes->n; n *= kept[a].count, stride *= axes->size[a++])
            page += stride * (vp_select_page(s, i / n % kept[a].count * n) / stride % axes->size[a]);
        if (page != vp_select_page(s, i))
            return false;
    }
    return true;
}

/* Sets axes and sizes. *slices: pages are picked along z, those in *z. */
static int select_axes(const struct vp_select *s, const struct vp_stack *in, struct vp_meta *meta, bool *slices,
                       struct along *z, char *note, size_t size)
{
    struct vp_axes axes;
    struct along kept[VP_AXES_MAX];

    vp_axes_get(in, &axes);
    const int at = vp_axes_z(&axes);
    *slices = !vp_select_all_pages(s) && (axes.n ? at >= 0 : !vp_meta_get(meta, "axes"));
    if (axes.n < 2) { /* also where it is not known how many pages there are */
        const struct vp_page_range *span = &s->span[0];
        *z = (struct along){span->first, span->step, span->count, s->n_spans == 1};
        return 0;
    }
    if (vp_select_all_pages(s))
        return axes.sized ? vp_axes_set(meta, &axes) : 0;
    if (!select_grid(s, &axes, kept)) {
        snprintf(note, size, "the axes of the pages are left out: the selection is not a grid of them");
        *z = (struct along){.even = false};
        return vp_axes_lose(meta);
    }
    for (int a = 0; a < axes.n; a++)
        axes.size[a] = kept[a].count;
    *z = at >= 0 ? kept[at] : (struct along){.step = 1};
    return vp_axes_set(meta, &axes);
}

/* Sets voxel and origin: shifted and, where every n-th slice is kept, stretched. */
static int select_frame(const struct vp_select *s, bool slices, const struct along *z, struct vp_meta *meta,
                        char *note, size_t size)
{
    double voxel[3], origin[3];

    if (!vp_meta_numbers(meta, "voxel", 3, voxel))
        return 0;
    const bool placed = vp_meta_numbers(meta, "origin", 3, origin);
    const double slice = voxel[2];
    if (slices && !z->even) {
        if (!note[0])
            snprintf(note, size, "voxel and origin along z are left out: the slices are not evenly spaced");
        return vp_set_numbers(meta, "voxel", 2, voxel) || vp_meta_set(meta, "origin", NULL) ? -1 : 0;
    }
    if (slices && z->step != 1) {
        voxel[2] *= (double)(z->step > 0 ? z->step : -z->step);
        if (vp_set_numbers(meta, "voxel", 3, voxel))
            return -1;
    }
    if (!placed)
        return 0;
    if (slices && z->step < 0) {
        snprintf(note, size, "the origin is left out: the order of the slices is reversed");
        return vp_meta_set(meta, "origin", NULL);
    }
    origin[0] += (double)s->x0 * voxel[0];
    origin[1] += (double)s->y0 * voxel[1];
    if (slices)
        origin[2] += (double)z->first * slice;
    return vp_set_numbers(meta, "origin", 3, origin);
}

int vp_select_stack(const struct vp_select *s, const struct vp_stack *in, struct vp_stack *out, char *note,
                    size_t n, struct vp_err *err)
{
    struct vp_geom g = {0};
    struct along z = {.even = false};
    bool slices;
    int rc = -1;

    note[0] = '\0';
    if (vp_stack_copy(out, in) < 0)
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    if (vp_select_is_all(s))
        return 0;
    const int layout = vp_select_layout(in, &g, "metadata", err);
    if (layout < 0)
        goto out;
    out->nx = s->x1 - s->x0;
    out->ny = s->y1 - s->y0;
    out->pages = s->pages;
    if (select_axes(s, in, &out->meta, &slices, &z, note, n) < 0
        || select_frame(s, slices, &z, &out->meta, note, n) < 0) {
        vp_fail(err, VP_ERESOURCE, "out of memory");
        goto out;
    }
    if (layout != VP_NO_GEOMETRY && select_geometry(s, (enum vp_page_layout)layout, &g, &out->meta, note, n, err) < 0)
        goto out;
    rc = 0;
out:
    vp_geom_free(&g);
    if (rc < 0)
        vp_stack_free(out);
    return rc;
}
