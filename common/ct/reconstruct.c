/* SPDX-License-Identifier: BSD-3-Clause */
/* The passes of a reconstruction; the order of their stages is that of iFDK (Chen et al. 2019, fig. 3). The first
 * views are read while the devices allocate their slabs, and a pass begins while the slices of the one before it are
 * written. */
#include "ct/reconstruct_internal.h"

#include "base/err.h"
#include "base/progress.h"
#include "base/size.h"
#include "base/stats.h"

#include <stdlib.h>
#include <string.h>

enum { ATTEMPTS = 3 }; /* to open a pass */

/* ---- buffers ---- */

float *vp_stages_take(const struct vp_stages *w, uint64_t count, const char *what, struct vp_err *err)
{
    if (vp_stages_on_host(w))
        return vp_alloc_raw(count, sizeof(float), what, err);
    const double t = vp_now();
    float *p = w->r->kind->host_alloc(count * sizeof(float));
    vp_stats_time(w->r->stats, "buffers", vp_now() - t);
    if (!p)
        vp_fail(err, VP_ERESOURCE, "no page-locked memory for %s: expected %s", what,
                vp_bytes_text(count * sizeof(float)).text);
    return p;
}

void vp_stages_join_device(const struct vp_stages *w)
{
    struct vp_device_info ignored;
    struct vp_err err = VP_ERR_INIT;
    if (!vp_stages_on_host(w))
        w->r->kind->info(w->r->devices[0], &ignored, &err);
}

void vp_stages_give_back(const struct vp_stages *w, float **p)
{
    if (*p)
        w->r->kind->host_free(*p);
    *p = NULL;
}

static void free_inputs(struct vp_stages *w)
{
    for (int i = 0; i < VP_RECONSTRUCT_SLOTS; i++) {
        vp_stages_give_back(w, &w->buffers.in[i]);
        vp_stages_give_back(w, &w->buffers.wide[i]);
    }
}

static void free_outputs(struct vp_stages *w)
{
    for (int i = 0; w->sink.slot && i < w->p->out_slots; i++)
        vp_stages_give_back(w, &w->sink.slot[i].slices);
    for (int i = 0; i < VP_RECONSTRUCT_DEVICES; i++)
        vp_stages_give_back(w, &w->buffers.partial[i]);
    free(w->sink.slot);
}

/* ---- the beginning of a pass ---- */

static int open_volume(struct vp_stages *w, struct vp_err *err)
{
    struct vp_bp_job *job = vp_alloc((size_t)w->p->parts, sizeof *job, "the slabs", err);
    for (int i = 0; job && i < w->p->parts; i++)
        job[i] = vp_reconstruct_job(w->p, &w->p->part[i]);
    const int rc = job ? vp_volume_open(&w->volume, w->r->kind, job, w->p->parts, err) : -1;
    free(job);
    return rc;
}

static void begin_source(struct vp_stages *w)
{
    struct vp_stages_source *s = &w->source;
    *s = (struct vp_stages_source){.v0 = w->r->nv, .count_bad = w->p->made == 0};
    w->together = w->r->n_views;
    for (int i = 0; i < w->p->parts; i++) {
        const struct vp_bp_plan *plan = &w->p->part[i].plan;
        s->v0 = vp_min64(s->v0, plan->v0);
        s->v1 = vp_max64(s->v1, plan->v1);
        w->together = vp_min64(w->together, plan->together);
    }
    /* normalisation looks at whole views; and every sample is looked at once */
    if (!w->r->feed && (w->r->normalize || (w->p->made == 0 && w->p->passes > 1))) {
        s->v0 = 0;
        s->v1 = w->r->nv;
    }
}

/* For the slices that are left after the last pass, or instead of a plan for which memory fell short. */
static int plan_again(struct vp_stages *w, int64_t made, bool shortage, struct vp_err *err)
{
    const struct vp_reconstruct_done done = {.plan = w->p, .made = made, .took = shortage ? NULL : w->took,
                                             .shortage = shortage};
    struct vp_reconstruct_plan next;
    if (shortage)
        *err = (struct vp_err)VP_ERR_INIT;
    if (vp_reconstruct_plan(&next, w->r, &done, err))
        return -1;
    if (shortage || next.batch != w->p->batch || next.partner != w->p->partner
        || next.filter_device != w->p->filter_device)
        free_inputs(w);
    w->own = next;
    w->p = &w->own;
    return 0;
}

/* The slabs of a pass, opened, and the reader at work: what can be read again is read from the beginning while the
 * devices allocate. Memory of a device may have gone since the plan was made: then a smaller one. */
static int open_pass(struct vp_stages *w, struct vp_err *err)
{
    const bool early = vp_views_seekable(w->r->source) && !vp_stages_on_host(w);

    w->start = vp_now();
    for (int attempt = 1;; attempt++) {
        begin_source(w);
        if (early && vp_stages_read(w, err))
            return -1;
        if (!open_volume(w, err))
            return early ? 0 : vp_stages_read(w, err);
        const bool again = err->code == VP_ERESOURCE && !vp_stages_on_host(w) && attempt < ATTEMPTS;
        /* what a pipe has brought of sinograms, which are held, must not be lost */
        vp_stages_stop_reading(w, !again, err);
        w->result->bad = w->p->made ? w->result->bad : 0;
        if (!again || plan_again(w, w->p->made, true, err))
            return -1;
    }
}

/* ---- all of it ---- */

/* Sums over devices; of the seconds of kernels and of the phase, those of the slowest device in each pass. */
static void add_stats(struct vp_stages *w)
{
    struct vp_stages_totals *all = &w->all;
    double kernel = 0, phase = 0, first = 0;
    for (int i = 0; i < w->p->parts; i++) {
        struct vp_bp_stats one;
        vp_slab_stats(w->volume.slab[i], &one);
        w->took[i] = one.kernel;
        all->sum.filter += one.filter;
        all->sum.uploaded += one.uploaded;
        all->sum.downloaded += one.downloaded;
        kernel = one.kernel > kernel ? one.kernel : kernel;
        phase = one.phase > phase ? one.phase : phase;
        first = one.first > first ? one.first : first;
    }
    all->sum.kernel += kernel;
    all->sum.phase += phase;
    if (w->p->made == 0) {
        all->first_view = w->source.begun - all->start;
        all->first_kernel = w->start + first - all->start;
    }
    all->last_view = w->source.done;
    w->result->used = w->p->used > w->result->used ? w->p->used : w->result->used;
    w->result->passes++;
}

static int run_pass(struct vp_stages *w, struct vp_err *err)
{
    struct vp_err ignored = VP_ERR_INIT;
    double t = vp_now();
    int rc = open_pass(w, err);

    vp_stats_time(w->r->stats, "prepare", vp_now() - t);
    t = vp_now();
    rc = rc || vp_stages_accumulate(w, err) ? -1 : 0;
    /* the end of the input is checked before the volume is called good */
    if (!rc && w->p->made == 0 && w->r->last == w->r->n_views)
        rc = vp_views_finish(w->r->source, err);
    w->all.busy += vp_now() - t;
    if (!rc)
        rc = vp_stages_store(w, err);
    if (!rc)
        add_stats(w);
    t = vp_now();
    vp_stages_stop_reading(w, true, &ignored);
    vp_volume_close(&w->volume);
    vp_stats_time(w->r->stats, "close", vp_now() - t);
    return rc;
}

/* Pass after pass, until nothing is left. */
static int run_passes(struct vp_stages *w, struct vp_err *err)
{
    for (;;) {
        if (run_pass(w, err))
            return -1;
        const struct vp_reconstruct_domain d = vp_reconstruct_domain(w->p);
        const int64_t end = w->p->part[w->p->parts - 1].z1;
        if (end >= d.hi)
            return 0;
        if (plan_again(w, w->p->made + end - d.lo, false, err))
            return -1;
    }
}

static void tell(const struct vp_stages *w)
{
    const struct vp_reconstruct *r = w->r;
    const struct vp_stages_totals *all = &w->all;
    const double slices = (double)((r->half ? 2 : 1) * (r->z1 - r->z0));
    const double gigaupdates = (double)r->grid->n[0] * (double)r->grid->n[1] * slices * (double)(r->last - r->first) /
                               w->p->columns / 1073741824.0;
    vp_stats_text(r->stats, "kernel", w->p->kernel);
    vp_stats_number(r->stats, "passes", (double)w->result->passes);
    vp_stats_number(r->stats, "gups", all->busy > 0 ? gigaupdates / all->busy : 0);
    vp_stats_number(r->stats, "gups_end_to_end", gigaupdates / (vp_now() - all->start));
    vp_stats_number(r->stats, "seconds_to_first_view", all->first_view);
    if (!vp_stages_on_host(w))
        vp_stats_number(r->stats, "seconds_to_first_kernel", all->first_kernel);
    vp_stats_number(r->stats, "seconds_to_last_view", all->last_view - all->start);
    vp_stats_number(r->stats, "seconds_after_last_view", vp_now() - all->last_view);
    if (vp_stages_on_host(w))
        return;
    vp_stats_number(r->stats, "devices", w->result->used);
    vp_stats_number(r->stats, "subsets", w->p->subsets);
    vp_stats_number(r->stats, "kernel_seconds", all->sum.kernel);
    vp_stats_number(r->stats, "kernel_gups", all->sum.kernel > 0 ? gigaupdates / all->sum.kernel : 0);
    vp_stats_number(r->stats, "compute_seconds", all->sum.phase);
    vp_stats_number(r->stats, "device_filter_seconds", all->sum.filter);
    vp_stats_count(r->stats, "bytes_uploaded", all->sum.uploaded);
    vp_stats_count(r->stats, "bytes_downloaded", all->sum.downloaded);
}

int vp_reconstruct_run(const struct vp_reconstruct_plan *p, struct vp_writer *writer,
                       struct vp_reconstruct_result *result, struct vp_err *err)
{
    const struct vp_reconstruct *r = p->of;
    struct vp_stages w = {.r = r, .p = p, .result = result, .sink = {.writer = writer}, .all = {.start = vp_now()}};

    memset(result, 0, sizeof *result);
    vp_progress_start(r->progress, "reconstructing", "views", (r->last - r->first) * p->passes);
    int rc = run_passes(&w, err);
    if (vp_stages_finish(&w, err))
        rc = -1;
    free_inputs(&w);
    free_outputs(&w);
    if (!rc) {
        result->read = w.all.last_view - w.all.start;
        result->compute = vp_stages_on_host(&w) ? w.all.busy : w.all.sum.phase;
        tell(&w);
    }
    return rc;
}
