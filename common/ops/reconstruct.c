/* SPDX-License-Identifier: BSD-3-Clause */
/* The stages of a reconstruction and the two threads around them. The order of the stages is that of
 * iFDK (Chen et al. 2019, fig. 3): load, filter, back-project, store, each overlapping its neighbours. */
#include "ops/reconstruct.h"

#include "backend.h"
#include "base/err.h"
#include "base/progress.h"
#include "base/ring.h"
#include "base/size.h"
#include "base/stats.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { IN_SLOTS = 3, OUT_SLOTS = 2, BATCH = 16, SLAB_STEP = 64, SLICES = 32 /* copied together */ };
static const uint64_t SLOT_BYTES = 32 << 20;
static const uint64_t PROCESS_BYTES = 7 << 20; /* code, stacks and small things; 5.4 MiB were seen */

/* A reader thread fills slots with batches of views. */
struct source {
    struct vp_reconstruct *job;
    struct vp_ring ring;
    float *slot[IN_SLOTS];
    int64_t first[IN_SLOTS];
    int count[IN_SLOTS];
    bool count_bad; /* the first pass counts, the others see the same samples */
    int wake[2]; /* a pipe: what is written into it ends a read that waits for the input */
    struct vp_err err;
    bool failed;
};

/* A writer thread empties slots of slices. */
struct sink {
    struct vp_writer *writer;
    struct vp_stats *stats;
    struct vp_ring ring;
    float *slot[OUT_SLOTS];
    int count[OUT_SLOTS];
    int threads;
    struct vp_err err;
    atomic_bool failed;
};

/* Slices that one output slot holds, in a pass that makes `depth`: enough to write in large pieces, but only a
 * small part of the memory, which the volume needs. */
static int64_t slices_a_slot(const struct vp_reconstruct *r, int64_t depth)
{
    const uint64_t page = (uint64_t)r->grid->n[0] * (uint64_t)r->grid->n[1] * sizeof(float);
    const uint64_t most = r->memory / 32 < SLOT_BYTES ? r->memory / 32 : SLOT_BYTES;
    int64_t n = (int64_t)(most / (page > 0 ? page : 1));
    n = n < 1 ? 1 : n >= SLICES ? n / SLICES * SLICES : n;
    return n < depth ? n : depth;
}

static struct vp_bp_job slab_job(const struct vp_reconstruct *r, int64_t z0, int64_t z1)
{
    return (struct vp_bp_job){.views = r->views, .n_views = r->n_views, .first = r->first, .last = r->last,
                              .nu = r->nu, .nv = r->nv, .grid = r->grid, .z0 = z0, .z1 = z1,
                              .threads = r->threads, .device = r->device};
}

/* What a pass that makes `depth` slices from z0 on takes, into r->bytes and r->device_bytes. The device's share
 * counts only against what is free there. */
static int pass_bytes(struct vp_reconstruct *r, int64_t z0, int64_t depth, struct vp_err *err)
{
    const uint64_t in = (uint64_t)r->in_nu * (uint64_t)r->nv * sizeof(float);
    const uint64_t widened = r->nu > r->in_nu ? (uint64_t)r->nu * (uint64_t)r->nv * sizeof(float) : 0;
    const uint64_t slice = (uint64_t)r->grid->n[0] * (uint64_t)r->grid->n[1] * sizeof(float);
    const struct vp_bp_job job = slab_job(r, z0, z0 + depth);
    struct vp_bp_plan plan;

    if (r->backend->bp_plan(&job, &plan, err))
        return -1;
    /* where the halves of a mirrored volume meet, a slab may take more than the first one */
    const int64_t middle = z0 + (r->grid->n[2] / 2 - z0) / depth * depth;
    if (middle > z0 && middle < r->z1) {
        const struct vp_bp_job across = slab_job(r, middle, middle + depth < r->z1 ? middle + depth : r->z1);
        struct vp_bp_plan most;
        if (r->backend->bp_plan(&across, &most, err))
            return -1;
        plan.host = most.host > plan.host ? most.host : plan.host;
        plan.device = most.device > plan.device ? most.device : plan.device;
    }
    snprintf(r->kernel, sizeof r->kernel, "%s", plan.kernel);
    r->device_bytes = plan.device;
    r->bytes = PROCESS_BYTES + vp_views_bytes(r->source) + plan.host +
               (uint64_t)r->batch * (IN_SLOTS * in + widened) +
               OUT_SLOTS * (uint64_t)slices_a_slot(r, depth) * slice +
               (r->filter ? vp_filter_bytes(r->filter) : 0) +
               (r->normalize ? vp_normalize_bytes(r->normalize) : 0);
    return 0;
}

static bool fits(const struct vp_reconstruct *r, const struct vp_device *device)
{
    return r->bytes <= r->memory && (!r->device_bytes || r->device_bytes <= device->free);
}

/* The numbers of the last pass_bytes against their limits. */
static int too_large(const struct vp_reconstruct *r, const struct vp_device *device, const char *what,
                     struct vp_err *err)
{
    char need[16], have[16];
    const bool host = r->bytes > r->memory;
    vp_format_bytes(need, sizeof need, host ? r->bytes : r->device_bytes);
    vp_format_bytes(have, sizeof have, host ? r->memory : device->free);
    return vp_fail(err, VP_ERESOURCE, "%s needs %s, %s %s%s", what, need,
                   host ? "the memory limit is" : device->name, host ? "" : "has ", have);
}

/* The most slices of `all` that one pass can make with r->batch, 0 if not even one. The bytes grow with the depth:
 * bisect on whole steps, then try the fractions of one. */
static int largest_slab(struct vp_reconstruct *r, const struct vp_device *device, int64_t all, int64_t *depth,
                        struct vp_err *err)
{
    int64_t lo = 0, hi = (all + SLAB_STEP - 1) / SLAB_STEP;
    while (lo < hi) {
        const int64_t mid = (lo + hi + 1) / 2;
        if (pass_bytes(r, r->z0, mid * SLAB_STEP < all ? mid * SLAB_STEP : all, err))
            return -1;
        if (fits(r, device))
            lo = mid;
        else
            hi = mid - 1;
    }
    *depth = lo * SLAB_STEP;
    for (int64_t d = SLAB_STEP / 2; !*depth && d >= 1; d /= 2) {
        if (d > all)
            continue;
        if (pass_bytes(r, r->z0, d, err))
            return -1;
        if (fits(r, device))
            *depth = d;
    }
    return 0;
}

int vp_reconstruct_plan(struct vp_reconstruct *r, struct vp_err *err)
{
    struct vp_device device;
    char what[96];
    const int64_t all = r->z1 - r->z0;

    if (r->backend->device(r->device, &device, err))
        return -1;
    r->slab = all;
    r->passes = 1;
    /* one pass if any batch allows it */
    for (r->batch = BATCH;; r->batch /= 2) {
        if (pass_bytes(r, r->z0, all, err))
            return -1;
        if (fits(r, &device))
            return 0;
        if (r->batch == 1)
            break;
    }
    if (!vp_views_seekable(r->source)) {
        snprintf(what, sizeof what, "volume of %lld x %lld x %lld", (long long)r->grid->n[0],
                 (long long)r->grid->n[1], (long long)all);
        too_large(r, &device, what, err);
        return vp_hint(err, "give the projections as files (they are then read several times), --slab for a "
                            "part, a coarser --voxel, or more --memory");
    }
    /* else the fewest passes, and of the batches that allow those the largest */
    int best = 0;
    int64_t slab = 0;
    for (r->batch = BATCH; r->batch >= 1; r->batch /= 2) {
        int64_t depth;
        if (largest_slab(r, &device, all, &depth, err))
            return -1;
        if (depth > 0 && (!slab || (all + depth - 1) / depth < (all + slab - 1) / slab)) {
            slab = depth;
            best = r->batch;
        }
    }
    r->batch = best ? best : 1;
    r->slab = slab ? slab : 1;
    if (pass_bytes(r, r->z0, r->slab, err))
        return -1;
    if (!slab) {
        too_large(r, &device, "one slice at a time", err);
        return vp_hint(err, "allow more --memory");
    }
    r->passes = (all + r->slab - 1) / r->slab;
    return 0;
}

static void read_views(struct source *s)
{
    struct vp_reconstruct *r = s->job;
    const size_t view = (size_t)r->in_nu * (size_t)r->nv;

    for (int64_t k = r->first; k < r->last;) {
        const int slot = vp_ring_fill(&s->ring);
        if (slot < 0)
            return;
        /* batches end at multiples of the batch, so that the back-projection can take each at once */
        int64_t end = (k / r->batch + 1) * r->batch;
        if (end > r->last)
            end = r->last;
        const double t = vp_now();
        s->first[slot] = k;
        s->count[slot] = 0;
        for (; k < end; k++) {
            const int got =
                vp_views_read(r->source, k, 0, r->nv, s->slot[slot] + (size_t)s->count[slot] * view,
                              s->count_bad ? &r->bad : NULL, &s->err);
            if (got != 1) {
                if (!got)
                    vp_fail(&s->err, VP_ERUN, "%s ends after %lld views, expected %lld",
                            vp_views_name(r->source), (long long)k, (long long)r->n_views);
                s->failed = true;
                vp_ring_end(&s->ring);
                return;
            }
            s->count[slot]++;
        }
        vp_stats_time(r->stats, "read", vp_now() - t);
        vp_ring_filled(&s->ring);
    }
    vp_ring_end(&s->ring);
}

static void *read_main(void *arg)
{
    struct source *s = arg;
    vp_input_wake(s->wake[0]);
    read_views(s);
    return NULL;
}

static void *write_slices(void *arg)
{
    struct sink *s = arg;
    int slot;

    while ((slot = vp_ring_take(&s->ring)) >= 0) {
        const double t = vp_now();
        if (!s->failed && vp_writer_pages(s->writer, s->count[slot], s->slot[slot], s->threads, &s->err))
            s->failed = true;
        vp_stats_time(s->stats, "write", vp_now() - t);
        /* after a failure the slots are still taken, so that the producer is not left waiting */
        vp_ring_taken(&s->ring);
    }
    return NULL;
}

/* All views through the stages into one slab. */
static int accumulate(struct vp_reconstruct *r, void *bp, bool first_pass, struct vp_err *err)
{
    const size_t view = (size_t)r->in_nu * (size_t)r->nv;
    struct source s = {.job = r, .err = VP_ERR_INIT, .count_bad = first_pass, .wake = {-1, -1}};
    float *widened = NULL;
    pthread_t thread;
    int rc = -1, slot;

    vp_ring_init(&s.ring, IN_SLOTS);
    for (int i = 0; i < IN_SLOTS; i++)
        if (!(s.slot[i] =
                  vp_alloc_raw((size_t)r->batch * view, sizeof(float), "the projection buffers", err)))
            goto out;
    if (r->nu > r->in_nu && !(widened = vp_alloc_raw((size_t)r->batch * (size_t)r->nu * (size_t)r->nv,
                                                     sizeof(float), "the filtered projections", err)))
        goto out;
    if (pipe2(s.wake, O_CLOEXEC)) {
        vp_fail_errno(err, "a pipe cannot be made");
        goto out;
    }
    if (pthread_create(&thread, NULL, read_main, &s)) {
        vp_fail(err, VP_ERESOURCE, "cannot start a reader thread");
        goto out;
    }
    rc = 0;
    while ((slot = vp_ring_take(&s.ring)) >= 0) {
        float *p = s.slot[slot];
        const int64_t k0 = s.first[slot];
        const int n = s.count[slot];
        double t = vp_now(), t1;
        if (r->normalize) {
#pragma omp parallel for schedule(dynamic) num_threads(r->threads)
            for (int i = 0; i < n; i++)
                vp_normalize_view(r->normalize, k0 + i, p + (size_t)i * view,
                                  first_pass ? &r->repaired : NULL);
            t1 = vp_now();
            vp_stats_time(r->stats, "normalize", t1 - t);
            t = t1;
        }
        if (r->filter) {
            float *q = widened ? widened : p;
            vp_filter_views(r->filter, k0, n, p, q);
            p = q;
            t1 = vp_now();
            vp_stats_time(r->stats, "filter", t1 - t);
            t = t1;
        }
        rc = r->backend->bp_add(bp, k0, n, p, err);
        vp_stats_time(r->stats, "backproject", vp_now() - t);
        vp_ring_taken(&s.ring);
        if (rc)
            break;
        vp_progress_add(r->progress, n);
    }
    vp_ring_stop(&s.ring);
    /* after an error the reader may wait for a pipe that has nothing to say */
    if (rc)
        (void)!write(s.wake[1], "", 1);
    pthread_join(thread, NULL);
    if (!rc && s.failed) {
        *err = s.err;
        rc = -1;
    }
    if (!rc) {
        const double t = vp_now();
        rc = r->backend->bp_flush(bp, err);
        vp_stats_time(r->stats, "backproject", vp_now() - t);
    }
out:
    for (int i = 0; i < IN_SLOTS; i++)
        free(s.slot[i]);
    free(widened);
    for (int i = 0; i < 2; i++)
        if (s.wake[i] >= 0)
            close(s.wake[i]);
    vp_ring_destroy(&s.ring);
    return rc;
}

static int store(struct vp_reconstruct *r, void *bp, int64_t z0, int64_t z1, struct vp_writer *writer,
                 struct vp_err *err)
{
    const int64_t group = slices_a_slot(r, z1 - z0);
    struct sink s = {.writer = writer,
                     .stats = r->stats,
                     .err = VP_ERR_INIT,
                     .threads = r->threads};
    const size_t page = (size_t)r->grid->n[0] * (size_t)r->grid->n[1];
    pthread_t thread;
    int rc = -1;

    vp_ring_init(&s.ring, OUT_SLOTS);
    for (int i = 0; i < OUT_SLOTS; i++)
        if (!(s.slot[i] = vp_alloc_raw((size_t)group * page, sizeof(float), "the slice buffers", err)))
            goto out;
    if (pthread_create(&thread, NULL, write_slices, &s)) {
        vp_fail(err, VP_ERESOURCE, "cannot start a writer thread");
        goto out;
    }
    rc = 0;
    for (int64_t z = z0; z < z1 && !s.failed; z += group) {
        const int slot = vp_ring_fill(&s.ring);
        const int n = (int)(z + group < z1 ? group : z1 - z);
        const double t = vp_now();
        if ((rc = r->backend->bp_slices(bp, z, n, s.slot[slot], err)))
            break;
        s.count[slot] = n;
        vp_stats_time(r->stats, "slice", vp_now() - t);
        vp_ring_filled(&s.ring);
    }
    vp_ring_end(&s.ring);
    pthread_join(thread, NULL);
    if (!rc && s.failed) {
        *err = s.err;
        rc = -1;
    }
out:
    for (int i = 0; i < OUT_SLOTS; i++)
        free(s.slot[i]);
    vp_ring_destroy(&s.ring);
    return rc;
}

int vp_reconstruct_run(struct vp_reconstruct *r, struct vp_writer *writer, struct vp_err *err)
{
    const double updates = (double)r->grid->n[0] * (double)r->grid->n[1] * (double)(r->z1 - r->z0) *
                           (double)(r->last - r->first);
    double busy = 0;

    r->bad = 0;
    memset(&r->repaired, 0, sizeof r->repaired);
    vp_progress_start(r->progress, "reconstructing", "views", (r->last - r->first) * r->passes);
    for (int64_t z = r->z0; z < r->z1; z += r->slab) {
        const int64_t end = z + r->slab < r->z1 ? z + r->slab : r->z1;
        const struct vp_bp_job job = slab_job(r, z, end);
        void *bp = NULL;
        int rc = r->backend->bp_open(&bp, &job, err);
        if (!rc) {
            const double t = vp_now();
            rc = accumulate(r, bp, z == r->z0, err);
            busy += vp_now() - t;
        }
        /* the end of the input is checked before the volume is called good */
        if (!rc && z == r->z0 && r->last == r->n_views)
            rc = vp_views_finish(r->source, err);
        if (!rc)
            rc = store(r, bp, z, end, writer, err);
        if (bp)
            r->backend->bp_close(bp);
        if (rc)
            return -1;
    }
    vp_stats_text(r->stats, "kernel", r->kernel);
    vp_stats_number(r->stats, "passes", (double)r->passes);
    vp_stats_number(r->stats, "gups", busy > 0 ? updates / busy / 1073741824.0 : 0);
    return 0;
}
