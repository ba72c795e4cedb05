/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by ct-backproject and ct-fdk around the stages of reconstruct.c: their options, and the way from operands to a
 * volume on the output. */
#include "base/size.h"
#include "base/stats.h"
#include "ct/adjoint.h"
#include "device/device.h"
#include "engine/rates.h"
#include "app/flats.h"
#include "app/open.h"
#include "app/place.h"
#include "app/ranked.h"
#include "app/session.h"
#include "app/tool.h"

#include <stdlib.h>
#include <string.h>

const struct vp_opt vp_reconstruct_options[] = {
    VP_OPTIONS(struct vp_reconstruct_params, projections, vp_projection_options),
    VP_RANGE(
        struct vp_reconstruct_params, views, "views", 0, .metavar = "A:B", .help = "use only views A to B-1",
        .more = "Each view keeps its weight in the whole scan, so the volumes of disjoint subsets add up to the "
                "volume of all views; see ct-reduce(1)."),
    VP_OPTIONS(struct vp_reconstruct_params, grid, vp_grid_options),
    VP_LIMIT(struct vp_reconstruct_params, device_memory, "device-memory", 0, .metavar = "SIZE",
             .group = "Limits",
             .help = "use at most SIZE of the memory of each GPU (default: what is free)",
             .more = "If the volume does not fit, it is made in slabs, in several passes over the projections. If "
                     "the filtered projections fit beside the volume, the first slices are written while the last "
                     "ones are computed; --plan shows whether this applies."),
    VP_INT(struct vp_reconstruct_params, subsets, "subsets", 0, .min = 0, .max = 1024, .metavar = "N", .def = "0",
           .help = "split the views into N subsets, each processed by its own GPUs (0: choose)",
           .more = "Without subsets, each GPU makes a slab of the volume from all views. With N subsets, N GPUs make "
                   "the same slab, each from a part of the views, and their sums are added in order.\n\n"
                   "- 0 uses subsets only if slabs would be so thin that they save little time; --plan shows the "
                   "choice.\n"
                   "- The same N always gives the same bits. Different N differ by rounding (less than 1e-6, "
                   "relative L2).\n"
                   "- Subsets need projections in files: they cannot be read from a pipe."),
    VP_OPT_END,
};

/* Estimates the effort for the choice of `auto`, from low rates of one thread and of a device. */
static struct vp_effort effort_of(const struct vp_reconstruct *job)
{
    const struct vp_rates *rates = job->rates ? job->rates : &vp_rates;
    const double views = (double)(job->last - job->first);
    const double samples = (double)job->in_nu * (double)job->projections.nv * views;
    const double updates = (double)job->grid->n[0] * (double)job->grid->n[1] * (double)(job->z1 - job->z0) * views;

    return (struct vp_effort){.on_cpu = (updates / rates->cpu_updates + samples / rates->cpu_samples) / job->threads,
                              .start = rates->device_start, .work = updates / rates->gpu_updates,
                              .each = rates->device_share, .asked = job->want_subsets};
}

static void warn(void *run, const char *text)
{
    vp_warn(run, "%s", text);
}

/* Warns of slices of a helix that are not measured from all directions. */
static void warn_of_ends(const struct vp_session *s, struct vp_run *run)
{
    const struct vp_helix *h = &s->scan.helix;
    const struct vp_grid *g = &s->grid;
    const double first = g->center[2] + ((double)s->job.z0 - 0.5 * (double)(g->n[2] - 1)) * g->voxel[2];
    const double last = first + (double)(s->job.z1 - s->job.z0 - 1) * g->voxel[2];
    if (h->pitch != 0 && (first < h->z_lo - g->voxel[2] / 2 || last > h->z_hi + g->voxel[2] / 2))
        vp_warn(run,
                "slices lie at z from %.6g to %.6g mm, the helix measures %.6g to %.6g: beyond that values are too low",
                first, last, h->z_lo, h->z_hi);
}

/* Subtracts the memory of the reader from the limit. */
static int take_memory(struct vp_run *run, const struct vp_reader *reader, struct vp_err *err)
{
    const uint64_t holds = vp_reader_holds(reader, false), memory = run->common.memory;
    if (holds < memory) {
        run->common.memory -= holds;
        return 0;
    }
    return vp_fail_hint(err, VP_ERESOURCE, "allow more with --memory", "%s: reading it takes %s: expected at most %s",
                        vp_reader_name(reader), vp_bytes_text(holds).text, vp_bytes_text(memory).text);
}

int vp_session_open(struct vp_session *s, struct vp_run *run, const struct vp_reconstruct_params *p, enum vp_need need,
                    struct vp_err *err)
{
    const bool automatic = !strcmp(run->common.device, "auto");
    vp_devices_only(run->common.device);
    if (!automatic)
        vp_devices_warm(run->common.device);
    if (vp_open_input(run, 0, VP_AS_VALUES, &s->reader, err))
        return -1;
    if (take_memory(run, s->reader, err))
        return -1;
    const struct vp_stack *in = vp_reader_stack(s->reader);
    const bool sinograms = p->projections.layout == VP_LAYOUT_SINOGRAMS;
    struct vp_reconstruct *job = &s->job;
    struct vp_projections *of = &job->projections;

    if (vp_quantity_check(in, need, vp_reader_name(s->reader), err) ||
        vp_geom_of(&s->geom, &p->projections, in, vp_reader_name(s->reader), err) ||
        vp_geom_views(&s->geom, &s->views, &s->scan, err) ||
        vp_grid_make(&s->grid, &job->z0, &job->z1, &p->grid, &s->geom, s->views, &s->scan, err) ||
        vp_views_open(&s->source, s->reader, sinograms, run->common.memory, err))
        return -1;

    if (s->scan.curved && need == VP_NEED_FILTERED)
        return vp_fail_hint(err, VP_EUSAGE, "ct-filter flattens the views and filters them; ct-fdk does all",
                            "%s: the detector is curved, and what is summed along rays needs a flat one",
                            vp_reader_name(s->reader));
    vp_geom_warn(&s->geom, s->views, &s->scan, warn, run);
    warn_of_ends(s, run);
    of->source = s->source;
    of->views = s->views;
    of->n_views = s->geom.views;
    job->in_nu = of->nu = s->geom.nu;
    of->nv = s->geom.nv;
    if (vp_views_nv(s->source) != of->nv) /* sinograms from a pipe without their number */
        return vp_fail(err, VP_ERUN, "%s has %lld pages, the geometry %lld sinograms",
                       vp_reader_name(s->reader), (long long)vp_views_nv(s->source), (long long)of->nv);
    job->last = of->n_views;
    if (p->views.given) {
        job->first = p->views.lo;
        job->last = p->views.hi < of->n_views ? p->views.hi : of->n_views;
        if (job->first >= of->n_views || (p->views.hi != INT64_MAX && p->views.hi > of->n_views))
            return vp_fail(
                err, VP_EUSAGE, "--views %lld:%lld: the scan has %lld views", (long long)p->views.lo,
                (long long)(p->views.hi == INT64_MAX ? of->n_views : p->views.hi), (long long)of->n_views);
    }
    job->grid = &s->grid;
    of->helix = s->scan.helix.pitch != 0 ? &s->scan.helix : NULL;
    job->memory = run->common.memory - vp_output_given(run, run->common.memory);
    if (of->n_views > 10000) /* fewer views take next to nothing */
        job->memory -= vp_min64((int64_t)(job->memory / 2), of->n_views * VP_GEOM_VIEW_BYTES);
    job->threads = (int)run->common.threads;
    job->device_memory = p->device_memory;
    job->want_subsets = (int)p->subsets;
    struct vp_effort effort = effort_of(job);
    effort.on_cpu /= vp_ranked_count(s->ranked);
    effort.work /= vp_ranked_count(s->ranked);
    const char *device = automatic && !vp_choose(&effort, 1) ? "cpu" : run->common.device;
    const uint64_t ahead = strcmp(device, "cpu") ? vp_reader_ahead(s->reader, job->memory, !run->common.plan) : 0;
    vp_devices_warm(device);
    const double t = vp_now();
    if (vp_devices_find(&job->backend, &s->devices, &job->n_devices, device, err))
        return -1;
    vp_stats_time(run->stats, "devices", vp_now() - t);
    job->memory -= job->backend->on_host ? vp_reader_ahead_stop(s->reader) : ahead;
    if (automatic && *vp_devices_refused())
        vp_warn(run, "on the CPU: %s", vp_devices_refused());
    job->devices = s->devices;
    if (automatic && !job->backend->on_host)
        job->n_devices = s->ranked ? job->n_devices : vp_choose(&effort, job->n_devices);
    job->any_order = vp_output_any_order(run);
    job->stats = run->stats;
    job->progress = run->progress;
    return 0;
}

int vp_session_filter(struct vp_session *s, const struct vp_filter_params *p, enum vp_filter_on on,
                      struct vp_err *err)
{
    struct vp_reconstruct *job = &s->job;
    struct vp_projections *of = &job->projections;

    job->filter_on = on;
    if (on == VP_FILTER_ON_GPU && job->backend->on_host)
        return vp_fail_hint(err, VP_ERESOURCE, "use --device cuda, or --filter-on auto",
                            "--filter-on gpu: the back-projection is on the CPU");

    if (vp_filter_open(&job->filter, p, &s->geom, s->views, &s->scan, job->threads, err))
        return -1;
    if (vp_filter_tables(job->filter)->by_slope) {
        if (on == VP_FILTER_ON_GPU)
            return vp_fail_hint(err, VP_EUSAGE, "use --filter-on auto, or a number for --pad",
                                "--filter-on gpu: with --pad auto views are filtered on the CPU");
        job->filter_on = VP_FILTER_ON_CPU;
    }
    const bool turns = vp_filter_tables(job->filter)->turns;
    job->in_nv = turns ? of->nv : 0;
    of->nu = vp_filter_widen(job->filter, &s->geom);
    of->nv = s->geom.nv;
    if (turns && on == VP_FILTER_ON_GPU)
        return vp_fail_hint(err, VP_ERESOURCE, "use --filter-on auto",
                            "--filter-on gpu: the views have to be turned first, which is done on the CPU");
    if (of->nu == job->in_nu && !turns)
        return 0;
    free(s->views);
    s->views = NULL;
    const int rc = vp_geom_views(&s->geom, &s->views, &s->scan, err);
    of->views = s->views;
    return rc;
}

void vp_session_show(const struct vp_session *s, struct vp_run *run)
{
    const struct vp_reconstruct *job = &s->job;
    const struct vp_projections *of = &job->projections;
    const struct vp_reconstruct_plan *p = &s->plan;

    vp_stats_text(run->stats, "device", job->backend->name);
    if (job->filter)
        vp_stats_text(run->stats, "filter_on", p->filter_device ? "gpu" : "cpu");
    vp_report_plan(run, "projections", "%lld x %lld, views %lld to %lld of %lld", (long long)job->in_nu,
                   (long long)(job->in_nv ? job->in_nv : of->nv), (long long)job->first, (long long)job->last - 1,
                   (long long)of->n_views);
    vp_report_plan(run, "volume", "%lld x %lld x %lld, voxel %g x %g x %g mm", (long long)s->grid.n[0],
                   (long long)s->grid.n[1], (long long)s->grid.n[2], s->grid.voxel[0], s->grid.voxel[1],
                   s->grid.voxel[2]);
    if (job->z1 - job->z0 != s->grid.n[2])
        vp_report_plan(run, "slab", "slices %lld to %lld", (long long)job->z0, (long long)job->z1 - 1);
    if (job->filter)
        vp_report_plan(run, "filter", "%s%s%s", vp_filter_tables(job->filter)->describe,
                       p->filter_device ? ", on the device: " : "",
                       p->filter_device ? p->part[0].plan.filter.kernel : "");
    if (job->in_nv)
        vp_report_plan(run, "turned", "to %lld x %lld, so that rows follow the source", (long long)of->nu, (long long)of->nv);
    if (p->passes == 0) /* ranks whose memory is given by a model */
        return;
    vp_report_plan(run, "kernel", "%s", p->part[0].plan.kernel);
    if (p->used > 1)
        vp_report_plan(run, "devices", "%d: %d slab%s%s", p->used, p->used / p->subsets,
                       p->used == p->subsets ? "" : "s a pass",
                       p->subsets > 1 ? "" : ", each of all views: the bits of one device");
    if (p->subsets > 1)
        vp_report_plan(run, "subsets", "%d of the views for each slab, added in float32 in their order: other rounding than "
                       "one device's (less than 1e-6, relative L2)", p->subsets);
    vp_report_plan(run, "passes", "%lld over the projections, %s%lld slices each%s, %d views a batch",
                   (long long)p->passes, p->parts > p->subsets ? "at most " : "", (long long)p->slab,
                   p->mirrored ? " and their mirror images" : "", p->batch);
    if (p->resident)
        vp_report_plan(run, "output", "written %s while the rest is made: all views stay on the device%s",
                       job->any_order ? "part by part" : "in order", p->used > 1 ? "s" : "");
    vp_report_plan(run, "memory", "%s of %s", vp_bytes_text(p->bytes).text, vp_bytes_text(job->memory).text);
    for (int i = 0; i < p->parts && p->device_bytes; i++) {
        const struct vp_bp_part *part = &p->part[i];
        struct vp_device_info device;
        struct vp_err ignored = VP_ERR_INIT;
        if (!job->backend->info(part->job.device, &device, &ignored))
            vp_report_plan(run, "device", "%d, %s: %s of %s free", part->job.device, device.name,
                           vp_bytes_text(p->parts > 1 ? part->plan.device : p->device_bytes).text,
                           vp_bytes_text(device.free).text);
    }
    vp_report_plan(run, "threads", "%d", job->threads);
}

int vp_session_volume(const struct vp_reader *reader, const struct vp_grid *grid, int64_t z0, int64_t z1,
                      struct vp_stack *out, struct vp_err *err)
{
    static const char *const of_projections[] = {"description", "quantity", "value-unit", "sizes",
                                                 "voxel",       "unit",     "axes"};

    if (vp_meta_copy(&out->meta, &vp_reader_stack(reader)->meta))
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    vp_meta_remove_prefix(&out->meta, "geom.");
    for (size_t i = 0; i < sizeof of_projections / sizeof *of_projections; i++)
        vp_meta_set(&out->meta, of_projections[i], NULL);
    out->type = VP_F32;
    if (vp_grid_to_stack(grid, z0, z1, out, err))
        return -1;
    if (vp_meta_set(&out->meta, "quantity", "attenuation") || vp_meta_set(&out->meta, "value-unit", "1/mm"))
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    return 0;
}

static int volume_header(const struct vp_session *s, int64_t z0, int64_t z1, struct vp_stack *out, struct vp_err *err)
{
    return vp_session_volume(s->reader, &s->grid, z0, z1, out, err);
}

int vp_session_header(const struct vp_session *s, const struct vp_run *run, int64_t z0, int64_t z1,
                      struct vp_stack *out, struct vp_err *err)
{
    return volume_header(s, z0, z1, out, err) || vp_output_history(run, out, err) ? -1 : 0;
}

static int plan(struct vp_session *s, struct vp_run *run, struct vp_err *err)
{
    struct vp_reconstruct *job = &s->job;
    const double t = vp_now();
    const int rc = vp_reconstruct_plan(&s->plan, job, NULL, err);

    vp_stats_time(run->stats, "devices", vp_now() - t);
    if (!rc)
        return 0;
    /* auto means any device that can */
    if (err->code != VP_ERESOURCE || strcmp(run->common.device, "auto") || job->backend->on_host ||
        job->filter_on == VP_FILTER_ON_GPU || job->want_subsets > 1)
        return -1;
    vp_note(run, "on the CPU: %s", err->msg);
    *err = (struct vp_err)VP_ERR_INIT;
    job->backend = &vp_cpu;
    job->n_devices = 1;
    return vp_reconstruct_plan(&s->plan, job, NULL, err);
}

void vp_session_truncated(const struct vp_session *s, struct vp_run *run, const struct vp_truncation *seen)
{
    char text[192];
    if (vp_filter_truncated(seen, text, sizeof text))
        vp_warn(run, "%s: %s", vp_reader_name(s->reader), text);
}

static int open_volume(const struct vp_session *s, struct vp_run *run, struct vp_writer **writer, struct vp_err *err)
{
    struct vp_stack out = {0};
    const int rc = volume_header(s, s->job.z0, s->job.z1, &out, err) || vp_open_output(run, &out, writer, err) ? -1 : 0;
    vp_stack_free(&out);
    return rc;
}

int vp_session_run(struct vp_session *s, struct vp_run *run, struct vp_err *err)
{
    struct vp_reconstruct *job = &s->job;
    struct vp_writer *writer = NULL;
    struct vp_volume out = {.grid = &s->grid, .threads = job->threads, .z0 = job->z0};
    struct vp_reconstruct_result result;
    const bool ahead = job->any_order && !run->common.plan;
    int rc = -1;

    /* Open a file first: allocating its memory ahead overlaps with starting a device. */
    if ((ahead && open_volume(s, run, &writer, err)) || plan(s, run, err))
        goto out;
    vp_session_show(s, run);
    if (vp_report_plan_done(run))
        return 0;
    if (!ahead && open_volume(s, run, &writer, err))
        goto out;
    out.writer = writer;
    rc = vp_reconstruct_run(&s->plan, &out, &result, err);
    if (!rc)
        vp_blank_report(&result.repaired.blank, "view", run);
    if (!rc && job->normalize)
        vp_normalize_warn(job->normalize, run, &result.repaired,
                          job->in_nu * (job->in_nv ? job->in_nv : job->projections.nv) * (job->last - job->first),
                          result.bad);
    else if (!rc && result.bad)
        vp_warn(run, "%s: %lld samples are NaN or infinite", vp_reader_name(s->reader), (long long)result.bad);
    if (!rc)
        vp_session_truncated(s, run, &result.truncation);
out:
    rc = vp_close(run, s->reader, writer, rc, err);
    s->reader = NULL;
    return rc;
}

/* Copies slices of the result: vp_volume.put. */
static int keep_slices(void *ctx, int64_t z, int64_t n, const float *slices, struct vp_err *err)
{
    const struct vp_volume *to = ctx;
    const int64_t page = to->grid->n[0] * to->grid->n[1];
    (void)err;
    memcpy(to->slab->voxels + z * page, slices, (size_t)(n * page) * sizeof *slices);
    return 0;
}

int vp_session_fill(struct vp_session *s, struct vp_run *run, float *x, struct vp_err *err)
{
    struct vp_slab memory = {.voxels = x};
    struct vp_volume out = {.grid = &s->grid, .threads = s->job.threads, .put = keep_slices, .slab = &memory};
    struct vp_reconstruct_result result;
    out.ctx = &out;
    s->job.any_order = true;
    return plan(s, run, err) || vp_reconstruct_run(&s->plan, &out, &result, err) ? -1 : 0;
}

/* Checks the memory, and adds the plan to the report. */
static int plan_adjoint(struct vp_session *s, struct vp_adjoint *a, struct vp_run *run, struct vp_err *err)
{
    const struct vp_projections *of = a->scan;
    const uint64_t others = vp_views_bytes(s->source);
    const double voxels = (double)a->grid->n[0] * (double)a->grid->n[1] * (double)(a->z1 - a->z0);
    if (vp_adjoint_plan(a, s->job.memory > others ? s->job.memory - others : 0, err))
        return -1;
    const uint64_t bytes = vp_adjoint_bytes(a) + others;
    if (bytes > s->job.memory)
        return vp_fail_hint(err, VP_ERESOURCE, "make it in parts with --slab, or allow more with --memory",
                            "the volume and its projections take %s: expected at most %s", vp_bytes_text(bytes).text,
                            vp_bytes_text(s->job.memory).text);
    vp_report_plan(run, "projections", "%lld x %lld, views %lld to %lld of %lld", (long long)of->nu, (long long)of->nv,
                   (long long)a->first, (long long)a->last - 1, (long long)of->n_views);
    vp_report_plan(run, "volume", "%lld x %lld x %lld, voxel %g x %g x %g mm", (long long)s->grid.n[0],
                   (long long)s->grid.n[1], (long long)s->grid.n[2], s->grid.voxel[0], s->grid.voxel[1], s->grid.voxel[2]);
    vp_report_plan(run, "kernel", "area weights");
    vp_report_plan(run, "memory", "%s of %s", vp_bytes_text(bytes).text, vp_bytes_text(s->job.memory).text);
    vp_place_plan(run, &a->place, a->block, "to add the views", (double)(a->last - a->first) * voxels, vp_adjoint_traffic(a));
    return 0;
}

/* Opens the output: what is summed has no quantity. */
static int open_adjoint(const struct vp_session *s, struct vp_run *run, struct vp_writer **writer, struct vp_err *err)
{
    struct vp_stack out = {0};
    int rc = volume_header(s, s->job.z0, s->job.z1, &out, err);
    if (!rc) {
        vp_meta_set(&out.meta, "quantity", NULL);
        vp_meta_set(&out.meta, "value-unit", NULL);
        rc = vp_open_output(run, &out, writer, err);
    }
    vp_stack_free(&out);
    return rc;
}

int vp_session_adjoint(struct vp_session *s, struct vp_run *run, struct vp_err *err)
{
    struct vp_adjoint a = {.scan = &s->job.projections, .grid = &s->grid, .z0 = s->job.z0, .z1 = s->job.z1,
                           .first = s->job.first, .last = s->job.last, .threads = s->job.threads, .stats = run->stats,
                           .progress = run->progress};
    if (!s->job.backend->on_host)
        a.place = vp_place_of(run, s->job.backend, s->devices, s->job.n_devices, s->job.device_memory);
    int rc = plan_adjoint(s, &a, run, err);
    const bool shown = !rc && vp_report_plan_done(run);
    rc = rc || shown ? rc : open_adjoint(s, run, &a.writer, err) || vp_adjoint_run(&a, err) ? -1 : 0;
    vp_pair_close(a.pair);
    if (shown)
        return 0;
    if (!rc)
        vp_place_report(run, &a.place);
    if (!rc && a.bad)
        vp_warn(run, "%s: %lld samples are NaN or infinite", vp_reader_name(s->reader), (long long)a.bad);
    rc = vp_close(run, s->reader, a.writer, rc, err);
    s->reader = NULL;
    return rc;
}

void vp_session_close(struct vp_session *s)
{
    vp_devices_settle();
    vp_ranked_close(s->ranked);
    vp_normalize_close(s->job.normalize);
    vp_filter_close(s->job.filter);
    vp_views_close(s->source);
    vp_reader_close(s->reader, NULL);
    vp_geom_free(&s->geom);
    free(s->views);
    free(s->devices);
}
