/* SPDX-License-Identifier: BSD-3-Clause */
/* What a slab of a volume takes, on the CPU and on devices. */
#include "ct/slab_internal.h"

#include "base/err.h"
#include "base/size.h"
#include "ct/backproject.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PIECE = 64 }; /* views a piece */
static const uint64_t PIECE_BYTES = 32 << 20;  /* large enough for the bus */
static const uint64_t RUN_BYTES = (uint64_t)2 << 30;  /* raw views of a run, at most */
static const uint64_t RING_BYTES = (uint64_t)4 << 30; /* of the ring; orbits that wait are as many */

static void keep_a_row(int64_t nv, int64_t *v0, int64_t *v1)
{
    if (*v0 >= *v1) { /* the slab sees nothing: a row that nothing is taken from */
        *v0 = vp_min64(*v0, nv - 1);
        *v1 = *v0 + 1;
    }
}

static int plan_on_host(const struct vp_bp_job *j, struct vp_bp_plan *plan, struct vp_err *err)
{
    vp_backproject_rows(j->views, j->n_views, j->nv, j->grid, j->z0, j->z1, &plan->v0, &plan->v1);
    keep_a_row(j->nv, &plan->v0, &plan->v1);
    plan->z_step = 1;
    return vp_backproject_plan(j->views, j->n_views, j->nu, j->nv, j->grid, j->z0, j->z1, plan->kernel,
                               sizeof plan->kernel, &plan->host, err);
}

double *vp_slab_matrices(const struct vp_bp_job *job)
{
    double *P = malloc((size_t)job->n_views * 12 * sizeof *P);
    for (int64_t s = 0; P && s < job->n_views; s++)
        vp_backproject_matrix(&job->views[s], job->grid, P + 12 * s);
    return P;
}

/* Sizes of the rings, for runs of about `run` orbits, and for `ahead` orbits before them. */
static void size_rings(const struct vp_bp_job *job, struct vp_slab_layout *l, int64_t run, int64_t ahead)
{
    const int64_t R = l->plan.views_per_orbit, rows = l->v1 - l->v0, orbits = l->o1 - l->o0;
    const uint64_t view = (uint64_t)rows * (uint64_t)job->in_nu * sizeof(float);
    int64_t piece = (int64_t)(PIECE_BYTES / view);
    piece = piece < 1 ? 1 : vp_min64(piece, MOST_PIECE);
    l->run = vp_min64(run, orbits);
    l->piece_views = vp_min64(piece, l->run);
    ahead = vp_min64(ahead > l->run ? ahead : l->run, orbits);
    l->pieces = (ahead * R + l->piece_views - 1) / l->piece_views + 2;
    l->slots = job->stay || (R == 2 && !job->any_order) ? orbits : vp_min64(ahead + 2 * l->run, orbits);
    l->piece_bytes = (uint64_t)l->piece_views * view;
    l->wide_bytes = job->filter && l->filter.nu_out != job->in_nu
                        ? (uint64_t)(l->piece_views * rows * l->filter.nu_out) * sizeof(float)
                        : 0;
    l->bytes = l->plan.bytes_volume + (uint64_t)l->slots * l->plan.bytes_orbit + l->plan.bytes_fixed +
               (uint64_t)l->pieces * l->piece_bytes + l->wide_bytes + (job->filter ? l->filter.bytes : 0);
}

int vp_slab_lay_out(const struct vp_kind *kind, const struct vp_bp_job *job, const double *P, struct vp_slab_layout *l,
                   struct vp_err *err)
{
    struct vp_device_info device;
    if (!kind->backproject || (job->filter && !kind->filter)) {
        vp_fail(err, VP_ERESOURCE, "device %s: its plugin has no kernels for %s", kind->name,
                kind->backproject ? "filtering projections" : "back-projection");
        return vp_hint(err, "use --device cpu");
    }
    if (kind->info(job->device, &device, err))
        return -1;
    l->room = device.free > device.driver ? device.free - device.driver : 0;
    if (job->device_memory && job->device_memory < l->room)
        l->room = job->device_memory;

    struct vp_devbp_problem *p = &l->problem;
    *p = (struct vp_devbp_problem){.P = P, .n_views = job->n_views, .nu = job->nu, .nv = job->nv,
                                   .n = {job->grid->n[0], job->grid->n[1], job->grid->n[2]}, .z0 = job->z0,
                                   .z1 = job->z1, .mirrored = job->mirrored, .device = job->device,
                                   .single = !job->pairs && (job->first > 0 || job->last < job->n_views)};
    memset(&l->filter, 0, sizeof l->filter);
    if (job->filter && kind->filter->plan(job->filter, job->device, &l->filter, err))
        return -1;
    for (;;) {
        if (kind->backproject->plan(p, &l->plan, err))
            return -1;
        l->v0 = l->plan.v0, l->v1 = l->plan.v1;
        keep_a_row(job->nv, &l->v0, &l->v1);
        const int64_t R = l->plan.views_per_orbit;
        if (job->pairs && R != 2)
            return vp_fail(err, VP_ERUN, "pairs of views were given for a scan that has none");
        l->o0 = R == 1 || job->pairs ? job->first : 0;
        l->o1 = R == 1 || job->pairs ? job->last : l->plan.orbits;
        const uint64_t orbit = (uint64_t)(R * (l->v1 - l->v0) * job->in_nu) * sizeof(float);
        int64_t run = vp_min64(l->plan.good_batch, (int64_t)(RUN_BYTES / orbit));
        run = vp_min64(run, (l->o1 - l->o0) / 4); /* the last runs leave the device in parts */
        run = run < 8 ? 8 : run;
        size_rings(job, l, run, (int64_t)(RING_BYTES / orbit));
        if (l->bytes > l->room)
            size_rings(job, l, run, run);
        for (; l->bytes > l->room && run > 1; size_rings(job, l, run, run))
            run /= 2;
        if (l->bytes <= l->room || R == 1 || job->any_order)
            break;
        p->single = true;
    }
    p->orbits = l->slots;
    return 0;
}

static int plan_on_device(const struct vp_kind *kind, const struct vp_bp_job *job, struct vp_bp_plan *out,
                          struct vp_err *err)
{
    struct vp_slab_layout l = {.bytes = 0};
    double *P = vp_slab_matrices(job);
    if (!P)
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    const int rc = vp_slab_lay_out(kind, job, P, &l, err);
    free(P);
    if (rc)
        return -1;
    snprintf(out->kernel, sizeof out->kernel, "%s", l.plan.kernel);
    snprintf(out->filter, sizeof out->filter, "%s", l.filter.kernel);
    out->filter_seconds = l.filter.seconds;
    out->host = (uint64_t)job->n_views * 12 * sizeof *P;
    out->device = l.bytes;
    out->room = l.room;
    out->v0 = l.v0;
    out->v1 = l.v1;
    out->partner = l.plan.views_per_orbit == 2 ? l.plan.orbits : 0;
    out->together = l.run;
    out->z_step = l.plan.z_step;
    out->mirror = l.plan.mirror;
    return 0;
}

int vp_slab_plan(const struct vp_kind *kind, const struct vp_bp_job *job, struct vp_bp_plan *plan, struct vp_err *err)
{
    memset(plan, 0, sizeof *plan);
    return kind->on_host ? plan_on_host(job, plan, err) : plan_on_device(kind, job, plan, err);
}
