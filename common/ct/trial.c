/* SPDX-License-Identifier: BSD-3-Clause */
/* Trial slices by the filter and the back-projection of every reconstruction, on the rows that one slice needs. */
#include "ct/trial.h"

#include "base/err.h"
#include "base/size.h"
#include "base/sort.h"
#include "ct/backproject.h"
#include "ct/filter.h"
#include "stack/views.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BINS = 256 };

/* Samples of all views that the slice needs, and its grid. */
struct trial_scan {
    const struct vp_center_request *q;
    struct vp_grid grid;
    int64_t v0, v1;
    float *samples;
};

/* Reads rows v0 to v1 of all views as line integrals: counts without a flat field are compared with the largest one. */
static int read_all(struct trial_scan *s, struct vp_err *err)
{
    const struct vp_geom *g = s->q->geom;
    const size_t view = (size_t)(g->nu * (s->v1 - s->v0));
    size_t bytes;

    if (!vp_mul_size(&bytes, view * sizeof(float), (size_t)g->views) || bytes > s->q->memory / 3)
        return vp_fail(err, VP_ERESOURCE, "the rows of trial slices need %s, twice, the memory limit is %s",
                       vp_bytes_text((uint64_t)g->views * view * sizeof(float)).text, vp_bytes_text(s->q->memory).text);
    if (!(s->samples = vp_alloc_raw((size_t)g->views, view * sizeof(float), "rows of all views", err)))
        return -1;
    if (vp_views_read(s->q->source, 0, g->views, s->v0, s->v1, s->samples, NULL, s->q->threads, err) != g->views)
        return vp_fail(err, VP_ERUN, "%s: fewer views than the %lld of its geometry", vp_views_name(s->q->source),
                       (long long)g->views);
    #pragma omp parallel for num_threads(s->q->threads)
    for (int64_t k = 0; k < g->views; k++) {
        float *const x = s->samples + (size_t)k * view;
        float least = INFINITY;
        for (size_t i = 0; i < view && s->q->logarithm; i++) {
            x[i] = isfinite(x[i]) ? -logf(fmaxf(x[i], 1e-6f)) : x[i];
            least = fminf(least, x[i]);
        }
        for (size_t i = 0; i < view && isfinite(least); i++)
            x[i] -= least;
    }
    return 0;
}

/* Filters the samples for an axis, and projects them back to the slice. */
static int reconstruct(const struct trial_scan *s, double offset, float *slice, struct vp_err *err)
{
    const struct vp_center_request *q = s->q;
    const struct vp_filter_params filter = {.window = VP_HANN, .cutoff = 1};
    struct vp_geom g = *q->geom, wide = {0}; /* g shares its angles */
    struct vp_view *views = NULL;
    struct vp_scan scan;
    struct vp_filter *f = NULL;
    struct vp_backproject *b = NULL;
    float *filtered = NULL, *voxels = NULL;
    int rc = -1;

    g.offset_u = offset;
    g.nv = s->v1 - s->v0;
    g.offset_v = 0.5 * (double)(q->geom->nv - 1) + q->geom->offset_v - (double)s->v0 - 0.5 * (double)(g.nv - 1);
    if (vp_geom_views(&g, &views, &scan, err) || vp_filter_open(&f, &filter, &g, views, &scan, q->threads, err))
        goto out;
    wide = g;
    if (!(wide.angle = vp_alloc_raw((size_t)g.views, sizeof *wide.angle, "angles", err)))
        goto out;
    memcpy(wide.angle, g.angle, (size_t)g.views * sizeof *wide.angle);
    const struct vp_filter_tables *t = vp_filter_tables(f);
    const bool turns = t->turns;
    vp_filter_widen(f, &wide);
    if (wide.nu != g.nu || turns) {
        free(views);
        views = NULL;
        if (vp_geom_views(&wide, &views, &scan, err))
            goto out;
    }
    filtered = vp_alloc_raw((size_t)(wide.views * wide.nv), (size_t)wide.nu * sizeof *filtered, "filtered rows", err);
    if (!filtered)
        goto out;
    vp_filter_rows(f, 0, g.views, 0, turns ? wide.nv : g.nv, s->samples, filtered);
    const struct vp_projections of = {.views = views, .n_views = wide.views, .nu = wide.nu, .nv = wide.nv};
    const struct vp_bp_job job = {.projections = &of, .last = wide.views, .grid = &s->grid, .z1 = 1,
                                  .threads = q->threads};
    if (vp_backproject_open(&b, &job, NULL, err))
        goto out;
    const struct vp_tiles *tiles = vp_backproject_tiles(b);
    if (!(voxels = vp_alloc_raw((size_t)vp_tiles_floats(tiles), sizeof *voxels, "a slice", err)))
        goto out;
    vp_backproject_begin(b, voxels, true);
    rc = vp_backproject_add(b, &(struct vp_batch){0, wide.views, 0, wide.nv, filtered}, err);
    if (!rc)
        vp_tiles_get(tiles, voxels, 0, 1, q->threads, slice);
out:
    vp_backproject_close(b);
    vp_filter_close(f);
    vp_geom_free(&wide);
    free(views);
    free(filtered);
    free(voxels);
    return rc;
}

static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return x < y ? -1 : x > y;
}

/* Moves the grid to what a slice shows, in smaller voxels, if that is less than the slice. */
static int zoom(struct trial_scan *s, const float *slice, double finest, struct vp_err *err)
{
    const int64_t size = s->grid.n[0], n = size * size;
    float *sorted = vp_alloc_raw((size_t)n, sizeof *sorted, "a slice", err);
    int64_t lo[2] = {size, size}, hi[2] = {-1, -1};

    if (!sorted)
        return -1;
    memcpy(sorted, slice, (size_t)n * sizeof *sorted);
    vp_sort(sorted, (size_t)n, sizeof *sorted, by_value);
    const double dark = (double)sorted[n / 100], bright = (double)sorted[n - 1 - n / 200];
    free(sorted);
    for (int64_t i = 0; i < n; i++)
        if ((double)slice[i] > dark + 0.4 * (bright - dark)) {
            lo[0] = vp_min64(lo[0], i % size);
            hi[0] = vp_max64(hi[0], i % size);
            lo[1] = vp_min64(lo[1], i / size);
            hi[1] = vp_max64(hi[1], i / size);
        }
    const double side = 1.15 * (double)(vp_max64(hi[0] - lo[0], hi[1] - lo[1]) + 1);
    if (hi[0] < 0 || side > 0.8 * (double)size)
        return 0;
    for (int i = 0; i < 2; i++)
        s->grid.center[i] += (0.5 * (double)(lo[i] + hi[i]) - 0.5 * (double)(size - 1)) * s->grid.voxel[i];
    for (int i = 0; i < 2; i++)
        s->grid.voxel[i] = fmax(s->grid.voxel[i] * side / (double)size, fmin(finest, s->grid.voxel[i]));
    return 0;
}

/* True if a pixel is in the field that the picture of a slice shows for certain. */
static bool in_field(int64_t size, int64_t i)
{
    const double x = (double)(i % size) - 0.5 * (double)(size - 1), y = (double)(i / size) - 0.5 * (double)(size - 1);
    return hypot(x, y) < 0.45 * (double)size;
}

/* Computes the entropies, and finds the least. */
static int judge_slices(struct vp_trial *t, struct vp_err *err)
{
    const int64_t n = t->size * t->size;
    float *inside = vp_alloc_raw((size_t)n, sizeof *inside, "a slice", err);
    int64_t count = 0;

    if (!inside)
        return -1;
    for (int64_t i = 0; i < n; i++)
        if (in_field(t->size, i))
            inside[count++] = t->slice[(t->n / 2) * n + i];
    vp_sort(inside, (size_t)count, sizeof *inside, by_value);
    const double low = (double)inside[count / 500], high = (double)inside[count - 1 - count / 500];
    const double lo = low - 0.3 * (high - low), scale = (double)BINS / (1.6 * (high - low) + 1e-30);
    free(inside);
    for (int k = 0; k < t->n; k++) {
        int64_t bin[BINS] = {0};
        for (int64_t i = 0; i < n; i++)
            if (in_field(t->size, i)) {
                const double at = ((double)t->slice[k * n + i] - lo) * scale;
                bin[(int)fmin(fmax(isnan(at) ? 0 : at, 0), BINS - 1)]++;
            }
        t->entropy[k] = 0;
        for (int i = 0; i < BINS; i++)
            if (bin[i])
                t->entropy[k] -= (double)bin[i] / (double)count * log2((double)bin[i] / (double)count);
        t->best = t->entropy[k] < t->entropy[t->best] ? k : t->best;
    }
    t->end = t->best == 0 || t->best == t->n - 1;
    t->least = t->offset[t->best];
    if (!t->end) {
        const double *const e = t->entropy + t->best, bend = e[-1] - 2 * e[0] + e[1];
        if (bend > 0)
            t->least += 0.5 * (e[-1] - e[1]) / bend * (t->offset[t->best] - t->offset[t->best - 1]);
    }
    return 0;
}

int vp_trial_make(struct vp_trial *t, const struct vp_center_request *q, double middle, double step, int n,
                  int64_t size,
                  struct vp_err *err)
{
    const struct vp_grid_params grid = {.volume = {3, {size, size, 1}}};
    struct trial_scan s = {.q = q};
    struct vp_geom g = *q->geom;
    struct vp_view *views = NULL;
    struct vp_scan scan;
    int64_t z0, z1;

    *t = (struct vp_trial){.n = n, .size = size};
    t->offset = vp_alloc_raw((size_t)n, sizeof *t->offset, "trials", err);
    t->entropy = vp_alloc_raw((size_t)n, sizeof *t->entropy, "trials", err);
    t->slice = vp_alloc_raw((size_t)n, (size_t)(size * size) * sizeof *t->slice, "trial slices", err);
    g.offset_u = middle;
    int rc = !t->offset || !t->entropy || !t->slice || vp_geom_views(&g, &views, &scan, err) ||
             vp_scan_check(&scan, err) || vp_grid_make(&s.grid, &z0, &z1, &grid, &g, views, &scan, err) ? -1 : 0;
    if (!rc) {
        const struct vp_projections of = {.views = views, .n_views = g.views, .nu = g.nu, .nv = g.nv};
        vp_backproject_rows(&of, &s.grid, 0, 1, false, &s.v0, &s.v1);
        if (vp_scan_turned(&scan) || s.v0 >= s.v1) {
            s.v0 = 0;
            s.v1 = g.nv;
        }
        rc = read_all(&s, err);
    }
    const double finest = fabs(g.du) * (g.beam == VP_CONE ? g.sod / g.sdd : 1);
    if (!rc)
        rc = reconstruct(&s, middle, t->slice, err) || zoom(&s, t->slice, finest, err) ? -1 : 0;
    for (int k = 0; k < n && !rc; k++) {
        t->offset[k] = middle + (k - n / 2) * step;
        rc = reconstruct(&s, t->offset[k], t->slice + (int64_t)k * size * size, err);
    }
    if (!rc)
        rc = judge_slices(t, err);
    free(s.samples);
    free(views);
    return rc;
}

void vp_trial_free(struct vp_trial *t)
{
    free(t->offset);
    free(t->entropy);
    free(t->slice);
    *t = (struct vp_trial){0};
}
