/* SPDX-License-Identifier: BSD-3-Clause */
#include "ct/projector.h"

#include "base/err.h"
#include "base/size.h"
#include "ct/backproject_schedule.h"
#include "device/device.h"

#include <assert.h>
#include <stdlib.h>

/* One slab: on the CPU, or on a device with memory of its own. */
struct share {
    struct vp_bp_job job;
    struct vp_backproject *host;
    struct vp_bp_schedule *device;
};

struct vp_projector {
    const struct vp_backend *backend;
    struct vp_volume *volume;
    bool adding; /* between begin and end */
    int shares;
    struct share share[];
};

int vp_projector_plan(const struct vp_backend *backend, const struct vp_bp_job *job, struct vp_bp_plan *plan,
                      struct vp_err *err)
{
    if (!backend->on_host)
        return vp_bp_schedule_plan(backend, job, plan, err);
    const int rc = vp_backproject_plan(job, plan, err);
    vp_bp_keep_row(plan, job->projections->nv);
    return rc;
}

int vp_projector_open(struct vp_projector **out, const struct vp_backend *backend, const struct vp_bp_part *part, int n,
                      struct vp_err *err)
{
    int rc = 0;
    struct vp_projector *p = *out = vp_alloc(1, sizeof *p + (size_t)n * sizeof *p->share, "the projector", err);
    if (!p)
        return -1;
    p->backend = backend;
    p->shares = n;
#pragma omp parallel for num_threads(n) schedule(static, 1) reduction(min : rc) if (n > 1)
    for (int i = 0; i < n; i++) {
        struct share *s = &p->share[i];
        struct vp_err why = VP_ERR_INIT;
        s->job = part[i].job;
        s->job.batch = part[i].plan.batch;
        assert(!backend->on_host || (!s->job.filter && !s->job.mirrored));
        if (backend->on_host ? vp_backproject_open(&s->host, &s->job, NULL, &why)
                             : vp_bp_schedule_open(&s->device, backend, &s->job, &why))
            rc = vp_err_keep(err, &why);
    }
    if (rc) {
        vp_projector_close(p);
        *out = NULL;
    }
    return rc;
}

void vp_projector_close(struct vp_projector *p)
{
    for (int i = 0; p && i < p->shares; i++) {
        vp_backproject_close(p->share[i].host);
        vp_bp_schedule_close(p->share[i].device);
    }
    free(p);
}

int vp_projector_begin(struct vp_projector *p, struct vp_volume *v, enum vp_projector_mode mode, struct vp_err *err)
{
    if (v->slabs != p->shares)
        return vp_fail(err, VP_ERUN, "a volume of %d slabs, a projector for %d", v->slabs, p->shares);
    p->volume = v;
    p->adding = true;
    for (int i = 0; i < p->shares; i++)
        if (p->share[i].host)
            vp_backproject_begin(p->share[i].host, v->slab[i].voxels, mode == VP_SET);
        else
            vp_bp_schedule_begin(p->share[i].device, v->slab[i].voxels, mode == VP_SET);
    return 0;
}

/* True if views [first, ...) are of the job, by themselves or as opposite views. */
static bool wants(const struct share *s, int64_t first)
{
    const int64_t orbits = s->job.pairs ? s->job.projections->n_views / 2 : s->job.projections->n_views;
    const int64_t orbit = first >= orbits ? first - orbits : first;
    return orbit >= s->job.first && orbit < s->job.last;
}

int vp_projector_back(struct vp_projector *p, const struct vp_batch *views, uint64_t *ticket, struct vp_err *err)
{
    for (int i = 0; i < p->shares; i++) {
        struct share *s = &p->share[i];
        ticket[i] = 0;
        if (wants(s, views->first)
            && (s->host ? vp_backproject_add(s->host, views, err)
                        : vp_bp_schedule_add(s->device, views, &ticket[i], err)))
            return -1;
    }
    return 0;
}

int vp_projector_wait(struct vp_projector *p, const uint64_t *ticket, struct vp_err *err)
{
    for (int i = 0; i < p->shares; i++)
        if (ticket[i] && vp_bp_schedule_wait(p->share[i].device, ticket[i], err))
            return -1;
    return 0;
}

int vp_projector_end(struct vp_projector *p, struct vp_err *err)
{
    for (int i = 0; i < p->shares; i++)
        if (p->share[i].host)
            vp_backproject_end(p->share[i].host);
        else if (vp_bp_schedule_end(p->share[i].device, err))
            return -1;
    p->adding = false;
    return 0;
}

int vp_projector_parts(const struct vp_projector *p, int i)
{
    return p->share[i].host ? 1 : vp_bp_schedule_parts(p->share[i].device);
}

int vp_projector_part_of(const struct vp_projector *p, int i, int64_t z)
{
    return p->share[i].host ? 0 : vp_bp_schedule_part_of(p->share[i].device, z);
}

int vp_projector_slices(struct vp_projector *p, int i, int64_t z, int64_t n, float *slices, struct vp_err *err)
{
    int last = 0;
    if (p->adding)
        return vp_fail(err, VP_ERUN, "slices are read while views come");
    for (int64_t k = z; k < z + n; k++)
        last = (int)vp_max64(last, vp_projector_part_of(p, i, k));
    struct vp_event *const after = p->share[i].host ? NULL : vp_bp_schedule_ready(p->share[i].device, last);
    return vp_volume_get(p->volume, i, z, n, after, slices, err);
}

void vp_projector_stats(struct vp_projector *p, int i, struct vp_bp_stats *stats)
{
    *stats = (struct vp_bp_stats){.kernel = 0};
    if (p->share[i].device)
        vp_bp_schedule_stats(p->share[i].device, stats);
    stats->downloaded = p->volume->slab[i].downloaded;
}
