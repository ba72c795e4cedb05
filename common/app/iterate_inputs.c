/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/iterate_inputs.h"

#include "app/open.h"
#include "app/ranked.h"
#include "app/session.h"
#include "app/tool.h"
#include "app/volumes.h"
#include "base/size.h"
#include "base/spill.h"
#include "ct/iterate.h"
#include "ct/margin.h"
#include "stack/views.h"

#include <stdlib.h>
#include <string.h>

/* True if the initial volume is this word. */
static bool begins(const struct vp_iterate_inputs *in, const char *word)
{
    return in->params->initial && !strcmp(in->params->initial, word);
}

static int open_scan(struct vp_iterate_inputs *in, struct vp_err *err)
{
    const struct vp_iterate_input_params *p = in->params;
    const bool sinograms = p->projections.layout == VP_LAYOUT_SINOGRAMS;
    if (vp_ranked_input(in->ranked, in->run, err) || vp_open_input(in->run, 0, VP_AS_VALUES, &in->reader, err))
        return -1;
    const struct vp_stack *s = vp_reader_stack(in->reader);
    const char *const name = vp_reader_name(in->reader);
    int64_t z0, z1, above = p->margin;
    if (vp_quantity_check(s, VP_NEED_LINES, name, err) || vp_geom_of(&in->geom, &p->projections, s, name, err)
        || vp_geom_views(&in->geom, &in->views, &in->scan, err)
        || vp_grid_make(&in->grid, &z0, &z1, &p->grid, &in->geom, in->views, &in->scan, err)
        || vp_views_open(&in->source, in->reader, sinograms, in->run->common.memory, err))
        return -1;
    if (in->scan.curved)
        return vp_fail(err, VP_EUSAGE, "%s: the detector is curved: expected a flat one", name);
    in->projections = (struct vp_projections){.views = in->views, .n_views = in->geom.views, .nu = in->geom.nu,
                                             .nv = in->geom.nv, .source = in->source};
    in->job->first = p->views.given ? p->views.lo : 0;
    in->job->last = p->views.given && p->views.hi != INT64_MAX ? p->views.hi : in->geom.views;
    if (in->job->first >= in->job->last || in->job->last > in->geom.views)
        return vp_fail(err, VP_EUSAGE, "--views %lld:%lld: the scan has %lld views", (long long)in->job->first,
                       (long long)in->job->last, (long long)in->geom.views);
    in->slices = in->grid.n[2];
    in->below = p->margin;
    if (p->margin < 0)
        vp_margin_of(&in->projections, &in->grid, &in->below, &above);
    in->grid.n[2] += in->below + above;
    in->grid.center[2] += 0.5 * (double)(above - in->below) * in->grid.voxel[2];
    return 0;
}

/* Opens weights, dead pixels, the mask and the initial volume, and checks their sizes. */
static int open_others(struct vp_iterate_inputs *in, struct vp_err *err)
{
    const struct vp_iterate_input_params *p = in->params;
    const bool sinograms = p->projections.layout == VP_LAYOUT_SINOGRAMS;
    const int64_t size[3] = {in->grid.n[0], in->grid.n[1], in->slices};
    const int64_t nu = in->geom.nu, nv = in->geom.nv, n = in->geom.views;
    const int64_t page[3] = {nu, nv, 1}, all[3] = {nu, sinograms ? n : nv, sinograms ? nv : n};
    if (p->pixel_weights) {
        if (vp_open_values(in->run, p->pixel_weights, &in->weights, err))
            return -1;
        const struct vp_stack *s = vp_reader_stack(in->weights);
        if (!vp_reader_seekable(in->weights))
            return vp_fail(err, VP_EUSAGE, "--pixel-weights %s: expected a file, which can be read again", p->pixel_weights);
        const bool single = s->nx == nu && s->ny == nv && s->pages == 1 && n > 1;
        if (!single && (vp_volumes_match(in->weights, "--pixel-weights", all, err)
                        || vp_views_open(&in->weight_views, in->weights, sinograms, in->run->common.memory, err)))
            return -1;
    }
    if (p->dead && (vp_open_mask(in->run, p->dead, &in->dead, err) || vp_volumes_match(in->dead, "--dead", page, err)))
        return -1;
    if (p->mask && (vp_open_mask(in->run, p->mask, &in->mask, err) || vp_volumes_match(in->mask, "--mask", size, err)))
        return -1;
    if (!p->initial || begins(in, "zero") || begins(in, "fdk"))
        return 0;
    return vp_open_values(in->run, p->initial, &in->initial, err) || vp_volumes_match(in->initial, "--initial", size, err) ? -1 : 0;
}

/* Makes one page of weights: of a single page of weights, and of dead pixels. */
static int load_pixels(struct vp_iterate_inputs *in, struct vp_err *err)
{
    const int64_t n = in->geom.nu * in->geom.nv;
    const bool single = in->weights && !in->weight_views;
    in->job->weights = in->weight_views;
    if (!single && !in->dead)
        return 0;
    float *const pixels = in->pixels = vp_alloc_raw((size_t)n, sizeof *pixels, "the weights", err);
    float *const dead = vp_alloc((size_t)n, sizeof *dead, "the dead pixels", err);
    int rc = !pixels || !dead ? -1 : 0;
    for (int64_t i = 0; i < n && !rc; i++)
        pixels[i] = 1;
    if (!rc && single)
        rc = vp_volumes_read(in->weights, 1, 1, pixels, NULL, err);
    if (!rc && in->dead)
        rc = vp_volumes_read(in->dead, 1, 1, dead, NULL, err);
    for (int64_t i = 0; i < n && !rc; i++)
        pixels[i] = dead[i] != 0 ? 0 : pixels[i]; /* NaN is dead, too */
    free(dead);
    in->job->pixels = in->pixels;
    return rc;
}

/* Makes the initial volume as ct-fdk does, of the same projections. */
static int load_fdk(struct vp_iterate_inputs *in, struct vp_err *err)
{
    const struct vp_iterate_input_params *p = in->params;
    const struct vp_reconstruct_params of = {.projections = p->projections, .views = p->views, .grid = p->grid};
    struct vp_filter_params filter;
    struct vp_session s = {0};
    const struct vp_share *const share = &in->job->share;
    int rc = vp_opt_defaults(vp_filter_options, &filter, err) || vp_session_open(&s, in->run, &of, VP_NEED_LINES, err) ? -1 : 0;
    if (in->ranked)
        rc = vp_ranked_session(in->ranked, &s, rc, err);
    const int64_t unit = vp_iterate_unit(in->job);
    s.grid = in->grid; /* and the margin */
    vp_share_own(share, in->grid.n[2], unit, &s.job.z0, &s.job.z1);
    if (!rc && s.job.z0 < s.job.z1) {
        const uint64_t volume = (uint64_t)(in->grid.n[0] * in->grid.n[1] * in->grid.n[2]) * sizeof(float);
        const bool mask = in->mask && !in->job->spilled; /* in memory: it is the first that leaves it */
        const uint64_t held = in->bytes + volume * ((vp_spill_holds(in->x) ? 0 : 1) + (mask ? 1 : 0));
        s.job.memory = in->run->common.memory > held ? in->run->common.memory - held : 0;
        rc = vp_session_filter(&s, &filter, VP_FILTER_ON_AUTO, err) || vp_session_fill(&s, in->run, in->x, err) ? -1 : 0;
    }
    vp_session_close(&s);
    return rc;
}

/* Reads the initial volume and the mask between the slices of the margin. */
static int load_volumes(struct vp_iterate_inputs *in, struct vp_err *err)
{
    const int64_t page = in->grid.n[0] * in->grid.n[1], all = page * in->grid.n[2];
    const int threads = (int)in->run->common.threads;
    int64_t bad = 0, used = 0;
    if (begins(in, "fdk") && load_fdk(in, err))
        return -1;
    if (in->initial && vp_volumes_read(in->initial, in->slices, threads, in->x + in->below * page, &bad, err))
        return -1;
    for (int64_t i = 0; in->initial && i < all && vp_iterate_positive(in->job->method); i++)
        if (in->x[i] < 0)
            return vp_fail_hint(err, VP_EUSAGE, "img-math 'max(a, 1e-6)' makes it so",
                                "--initial %s: %s expects values above 0", in->params->initial, vp_iterate_name(in->job->method));
    if (bad)
        return vp_fail(err, VP_ERUN, "--initial %s: %lld voxels are NaN or infinite", in->params->initial, (long long)bad);
    in->job->x = in->x;
    in->job->started = in->initial || begins(in, "fdk");
    vp_spill_leave(in->x, (uint64_t)all * sizeof *in->x, in->job->started);
    if (!in->mask)
        return 0;
    if (!(in->mask_samples = vp_iterate_open_mask(in->job, err)))
        return -1;
    for (int64_t i = 0; i < all; i++)
        in->mask_samples[i] = 1;
    if (vp_volumes_read(in->mask, in->slices, threads, in->mask_samples + in->below * page, NULL, err))
        return -1;
    for (int64_t i = in->below * page; i < (in->below + in->slices) * page; i++) {
        in->mask_samples[i] = in->mask_samples[i] != 0 ? 1 : 0;
        used += in->mask_samples[i] != 0;
    }
    in->job->mask = in->mask_samples;
    vp_spill_leave(in->mask_samples, (uint64_t)all * sizeof *in->x, true);
    return used ? 0 : vp_fail(err, VP_ERUN, "--mask %s: no voxel may change", in->params->mask);
}

/* Reads pages of a pipe that are read again. */
static int keep_input(struct vp_iterate_inputs *in, struct vp_err *err)
{
    if (!in->kept)
        return 0;
    const int rc = vp_reader_keep(in->reader, in->kept + (1 << 20), NULL, err);
    return rc <= 0 ? rc : vp_fail(err, VP_ERUN, "%s: expected %lld views, got more", vp_reader_name(in->reader),
                                  (long long)in->geom.views);
}

/* Rejects options that the method, the input or any iteration contradicts. */
static int check_options(const struct vp_iterate_inputs *in, struct vp_err *err)
{
    if (begins(in, "fdk") && vp_iterate_positive(in->job->method))
        return vp_fail(err, VP_EUSAGE, "--initial fdk and --method %s cannot be combined", vp_iterate_name(in->job->method));
    if (begins(in, "fdk") && vp_standard_input(in->run))
        return vp_fail_hint(err, VP_EUSAGE, "give the name of a file", "--initial fdk: the projections come from a pipe");
    if (in->params->grid.slab.given)
        return vp_fail_hint(err, VP_EUSAGE, "img-cat --pages cuts the result", "--slab: rays pass other slices as well");
    return 0;
}

int vp_iterate_inputs_open(struct vp_iterate_inputs *in, struct vp_err *err)
{
    if (check_options(in, err) || open_scan(in, err) || open_others(in, err))
        return -1;
    if (vp_ranked_file(in->ranked, in->reader, err) || vp_ranked_file(in->ranked, in->dead, err)
        || vp_ranked_file(in->ranked, in->mask, err) || vp_ranked_file(in->ranked, in->initial, err))
        return -1;
    in->job->scan = &in->projections;
    in->job->grid = &in->grid;
    return 0;
}

/* Pages of a pipe are kept if they are read again; sinograms of one are kept as they are opened. */
static bool keeps(const struct vp_iterate_inputs *in)
{
    return !vp_views_seekable(in->source) && vp_iterate_rereads(in->job)
        && in->params->projections.layout != VP_LAYOUT_SINOGRAMS;
}

void vp_iterate_inputs_measure(struct vp_iterate_inputs *in)
{
    in->kept = keeps(in) ? (uint64_t)in->geom.views * vp_page_bytes(vp_reader_stack(in->reader)) : 0;
    in->bytes = in->kept + vp_reader_holds(in->reader, false) + vp_views_bytes(in->source);
}

int vp_iterate_inputs_header(const struct vp_iterate_inputs *in, struct vp_stack *out, struct vp_err *err)
{
    return vp_session_volume(in->reader, &in->grid, in->below, in->below + in->slices, out, err);
}

int vp_iterate_inputs_load(struct vp_iterate_inputs *in, struct vp_err *err)
{
    const int rc = keep_input(in, err) || load_pixels(in, err) || !(in->x = vp_iterate_open_result(in->job, err)) ? -1 : 0;
    return vp_ranked_together(in->ranked, rc, err) || load_volumes(in, err) ? -1 : 0; /* ranks meet in load_fdk() */
}

int vp_iterate_inputs_write(const struct vp_iterate_inputs *in, struct vp_writer *writer, struct vp_err *err)
{
    const int64_t *n = in->grid.n;
    return vp_share_write(&in->job->share, writer, in->x, n[2], vp_iterate_unit(in->job),
                          (uint64_t)(n[0] * n[1]) * sizeof *in->x, in->below, in->below + in->slices, in->job->threads, err);
}

void vp_iterate_inputs_close(struct vp_iterate_inputs *in, bool well)
{
    vp_views_close(in->source);
    vp_views_close(in->weight_views);
    vp_reader_close(in->weights, NULL);
    vp_reader_close(in->dead, NULL);
    vp_reader_close(in->mask, NULL);
    vp_reader_close(in->initial, NULL);
    vp_geom_free(&in->geom);
    free(in->views);
    if (well || !in->job->share.ranks)
        vp_spill_close(in->x);
    free(in->pixels);
    vp_spill_close(in->mask_samples);
}
