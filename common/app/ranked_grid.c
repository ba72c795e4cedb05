/* SPDX-License-Identifier: BSD-3-Clause */
/* Chooses the grid of slabs by subsets on which ranks work: the fastest that fits on all of them. */
#include "app/ranked_internal.h"

#include "base/size.h"
#include "device/device.h"
#include "engine/rates.h"
#include "stack/reader.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Fills the model from the table of rates and the scan. */
static void guess_model(struct vp_ranked *r, const struct vp_session *s, const struct vp_bp_plan *probe)
{
    const struct vp_reconstruct *job = &s->job;
    const struct vp_rates *rates = job->rates ? job->rates : &vp_rates;
    const bool on_host = job->backend->on_host;
    struct vp_device_info info = {.speed = 0};
    struct vp_err ignored = VP_ERR_INIT;
    double filter = job->filter ? vp_filter_seconds(job->filter, rates) : 0;
    if (!on_host && !job->backend->info(job->devices[0], &info, &ignored) && r->problem.filter_device)
        filter = probe->filter.seconds;
    const double speed = info.speed > 0 ? info.speed / rates->gpu_speed : 1;
    r->model = (struct vp_model){
        .load = rates->views_read, .filter = filter > 0 ? 1 / filter : 0, .exchange = rates->ranks_exchange,
        .upload = on_host ? 0 : rates->views_up, .download = on_host ? 0 : rates->views_up,
        .backproject = on_host ? rates->cpu_updates * job->threads : rates->gpu_updates * speed * job->n_devices,
        .reduce = rates->ranks_exchange, .store = rates->volume_write, .start = on_host ? 0 : rates->device_start};
}

int vp_ranked_problem(struct vp_ranked *r, struct vp_session *s, const struct vp_run *run, struct vp_err *err)
{
    struct vp_bp_plan probe;
    bool filter_device;
    if (!vp_views_seekable(s->source))
        return vp_ranked_no_file(vp_views_name(s->source), err);
    if (s->job.in_nv)
        return vp_fail_hint(err, VP_EUSAGE,
                            "filter first: ct-filter -o FILTERED, then this with ct-backproject on one host",
                            "ranks do not turn views, whose rows do not follow the source");
    if (s->job.want_subsets > 1)
        return vp_fail(err, VP_EUSAGE, "--subsets %d: with ranks the columns of --grid are the subsets",
                       s->job.want_subsets);
    if (vp_reconstruct_probe(&s->job, &probe, &filter_device, err))
        return -1;
    r->whole = s->job;
    const bool whole = s->job.z0 == 0 && s->job.z1 == s->grid.n[2] && s->grid.n[2] > 1;
    r->problem = (struct vp_mesh_problem){
        .of = &r->whole, .sample_bytes = (int)vp_type_size(vp_reader_stack(s->reader)->type), .ranks = r->size,
        .hosts = r->hosts, .unit = s->job.backend->on_host ? 1 : probe.z_step, .mirror = probe.mirror && whole,
        .pair = probe.opposite, .discards = vp_ranked_discards(run->common.output), .on_host = s->job.backend->on_host,
        .filter_device = filter_device};
    guess_model(r, s, &probe);
    if (r->params->model && vp_model_read(&r->model, r->params->model, err))
        return -1;
    if (!r->ranks && r->model.host_ranks > 0)
        r->problem.hosts = r->hosts = (int)ceil(r->size / r->model.host_ranks);
    if (!r->ranks && r->params->model && r->model.upload > 0) /* ranks with a device each, planned on a machine without */
        r->problem.on_host = false;
    return 0;
}

/* Sets this rank's part with a grid. */
static void take_part(struct vp_ranked *r, struct vp_session *s, const struct vp_mesh *m)
{
    struct vp_reconstruct *job = &s->job;
    r->mesh = *m;
    r->row = r->rank % m->rows;
    r->column = r->rank / m->rows;
    *job = r->whole;
    job->ranks = r->ranks;
    job->want_subsets = 1;
    job->half = m->half;
    job->column = r->column;
    job->columns = m->columns;
    vp_mesh_slab(&r->problem, m, r->row, &job->z0, &job->z1);
    r->out = (struct vp_volume){.grid = job->grid, .put = vp_adding_put, .ctx = &r->adding,
                                .any_order = m->columns == 1};
    job->projections.read = m->gather ? vp_sharing_read : NULL;
    job->projections.ctx = &r->sharing;
    const int batch = job->backend->on_host ? VP_RECONSTRUCT_HOST_BATCH : VP_RECONSTRUCT_BATCH;
    const uint64_t more = (m->gather ? vp_sharing_bytes(job, m->rows, batch) : 0)
                          + vp_adding_bytes(job, m->columns, vp_reconstruct_group(job->grid, job->memory));
    job->memory = more < job->memory / 2 ? job->memory - more : job->memory / 2;
}

/* Reason why a grid does not fit. */
struct text { char s[320]; };

/* Plan of a rank, as exchanged with the others. */
struct plan_entry {
    int64_t batch, group, opposite, passes, v0, v1;
    bool fits, filter_device, mirrored, on_host;
    char why[200], host[64]; /* set if the plan does not fit */
};

static void plan_words(const struct vp_session *s, struct plan_entry *w)
{
    const struct vp_reconstruct_plan *p = &s->plan;
    *w = (struct plan_entry){.batch = p->batch, .group = p->group, .opposite = p->probe.opposite, .passes = p->passes,
                            .fits = p->passes == 1, .filter_device = p->filter_device, .mirrored = p->mirrored,
                            .on_host = s->job.backend->on_host, .v0 = s->job.projections.nv};
    if (!w->fits)
        snprintf(w->why, sizeof w->why, "its slab takes %lld passes over the projections, expected 1",
                 (long long)p->passes);
    for (int i = 0; i < p->parts; i++) {
        w->v0 = vp_min64(w->v0, p->part[i].plan.v0);
        w->v1 = vp_max64(w->v1, p->part[i].plan.v1);
    }
}

/* Settles the choices that all ranks of a column, and of a row, have to share. */
static int reconcile(struct vp_ranked *r, struct vp_session *s, const struct plan_entry *all, struct vp_err *err)
{
    struct vp_reconstruct_plan *p = &s->plan;
    for (int i = 0; i < r->size; i++) {
        if (all[i].opposite != all->opposite || all[i].filter_device != all->filter_device
            || all[i].mirrored != all->mirrored || all[i].on_host != all->on_host)
            return vp_fail_hint(err, VP_ERESOURCE, "give --device and --filter-on, so that they agree",
                                "ranks 0 and %d work differently: their devices differ", i);
        if (i / r->mesh.rows == r->column)
            p->batch = (int)vp_min64(p->batch, all[i].batch);
        if (i % r->mesh.rows == r->row)
            p->group = vp_min64(p->group, all[i].group);
    }
    free(r->rows);
    if (!(r->rows = vp_alloc((size_t)r->mesh.rows, sizeof *r->rows, "detector rows", err)))
        return -1;
    for (int i = 0; i < r->mesh.rows; i++) {
        r->rows[i][0] = all[r->column * r->mesh.rows + i].v0;
        r->rows[i][1] = all[r->column * r->mesh.rows + i].v1;
    }
    return 0;
}

/* Plans a grid. Returns 1 if it fits all ranks; 0 if not, with the reason; -1 on errors. */
static int try_mesh(struct vp_ranked *r, struct vp_session *s, const struct vp_mesh *m, struct text *why,
                    struct vp_err *err)
{
    struct plan_entry mine, *all;
    int bad = -1;
    take_part(r, s, m);
    int rc = vp_reconstruct_plan(&s->plan, &s->job, NULL, err);
    memset(&mine, 0, sizeof mine);
    if (!rc) {
        plan_words(s, &mine);
    } else if (s->plan.too_large) {
        snprintf(mine.why, sizeof mine.why, "%.*s", (int)sizeof mine.why - 1, err->msg);
        *err = (struct vp_err)VP_ERR_INIT;
        rc = 0;
    }
    if (r->ranks)
        memcpy(mine.host, r->ranks->host, sizeof mine.host);
    if (!(all = vp_ranked_gather(r, rc, &mine, sizeof mine, "the plans of ranks", err)))
        return -1;
    for (int i = 0; i < (r->ranks ? r->size : 1) && bad < 0; i++)
        bad = all[i].fits ? -1 : i;
    if (bad >= 0)
        snprintf(why->s, sizeof why->s, "%dx%d: rank %d%s%s%s: %s", m->rows, m->columns, bad, r->ranks ? " (" : "",
                 all[bad].host, r->ranks ? ")" : "", all[bad].why);
    else if (r->ranks)
        rc = vp_ranked_agree(r, reconcile(r, s, all, err), NULL, 0, NULL, err);
    free(all);
    return rc ? -1 : bad < 0;
}

/* Does the same for a model that gives the memory of a rank: only that counts. */
static int model_holds(const struct vp_ranked *r, const struct vp_mesh *m, struct text *why)
{
    int64_t z0, z1;
    vp_mesh_slab(&r->problem, m, 0, &z0, &z1);
    const double bytes = (double)(m->half ? 2 : 1) * (double)(z1 - z0) * (double)r->whole.grid->n[0]
                         * (double)r->whole.grid->n[1] * sizeof(float);
    if (bytes > r->model.memory)
        snprintf(why->s, sizeof why->s,
                 "%dx%d: a slab takes %s, expected at most %s, the memory of a rank in the model",
                 m->rows, m->columns, vp_bytes_text((uint64_t)bytes).text,
                 vp_bytes_text((uint64_t)r->model.memory).text);
    return bytes <= r->model.memory;
}

static int no_grid(const struct vp_ranked *r, const struct text *why, struct vp_err *err)
{
    return vp_fail_hint(err, VP_ERESOURCE, "start more ranks, on more hosts or devices, allow more --memory or "
                        "--device-memory, or take several runs with --slab", "%s %s",
                        r->params->grid.n ? "--grid" : "no grid of the ranks fits, for example", why->s);
}

static int check_grid(const struct vp_ranked *r, struct vp_err *err)
{
    const struct vp_size *g = &r->params->grid;
    if (g->n == 0 || (g->n == 2 && g->v[0] <= r->size && g->v[0] * g->v[1] == r->size))
        return 0;
    vp_fail(err, VP_EUSAGE, "--grid: expected RxC, with R times C the number of ranks, %d", r->size);
    return vp_hint(err, "for example --grid %dx1", r->size);
}

int vp_ranked_choose(struct vp_ranked *r, struct vp_session *s, struct vp_err *err)
{
    const struct vp_size *g = &r->params->grid;
    const int gather = r->params->gather == 0 ? -1 : r->params->gather == 1;
    int n = 0, rc = 0;
    struct vp_mesh *m = NULL;
    struct text why = {""};
    if (!check_grid(r, err))
        m = vp_mesh_choices(&r->problem, &r->model, gather, r->params->slab_files, &n);
    if (!m && !err->code)
        vp_fail(err, VP_EUSAGE, "%d ranks are more than there is work for", r->size);
    rc = vp_ranked_agree(r, m ? 0 : -1, NULL, 0, NULL, err);
    for (int i = 0; i < n && !rc; i++) {
        if (g->n && m[i].rows != g->v[0])
            continue;
        if (!r->ranks && r->model.memory > 0) {
            rc = model_holds(r, &m[i], &why);
            take_part(r, s, &m[i]);
        } else {
            rc = try_mesh(r, s, &m[i], &why, err);
        }
    }
    free(m);
    if (!rc && *why.s)
        rc = no_grid(r, &why, err);
    else if (!rc) /* the grid was required */
        rc = vp_fail(err, VP_EUSAGE, "--grid %lldx%lld: more slabs than slices, or more subsets than views",
                     (long long)g->v[0], (long long)g->v[1]);
    if (rc > 0) {
        r->mesh.parts = s->plan.resident ? VP_BP_PARTS : 1;
        vp_mesh_times(&r->times, &r->problem, &r->model, &r->mesh);
    }
    return rc < 0 ? -1 : 0;
}

void vp_ranked_show(const struct vp_ranked *r, struct vp_run *run)
{
    const struct vp_mesh *m = &r->mesh;
    const struct vp_mesh_times *t = &r->times;
    vp_report_plan(run, "ranks", "%d on %d host%s%s%s%s", r->size, r->hosts, r->hosts == 1 ? "" : "s",
                   r->ranks ? " (" : "", r->ranks ? r->ranks->library : "", r->ranks ? ")" : ", if they were started");
    vp_report_plan(run, "grid", "%d slab%s%s x %d subset%s of the views%s", m->rows, m->rows == 1 ? "" : "s",
                   m->half ? " with their mirror images" : "", m->columns, m->columns == 1 ? "" : "s",
                   m->columns == 1 ? ": the bits of one process" : ", added in their order");
    vp_report_plan(run, "views", m->gather ? "read once, shared by the %d ranks of a column"
                   : "each rank reads what it needs", m->rows);
    const struct { const char *key; double seconds; const char *more; } steps[] = {
        {"T_load", t->load, ""}, {"T_filter", t->filter, ""}, {"T_allgather", t->gather, ""},
        {"T_upload", t->upload, ""}, {"T_bp", t->backproject, ""}, {"T_compute", t->compute, ", these overlap"},
        {"T_download", t->download, ""}, {"T_reduce", t->reduce, ""}, {"T_store", t->store, ""},
        {"T_run", t->run, " expected"}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        vp_report_plan(run, steps[i].key, "%.3g s%s", steps[i].seconds, steps[i].more);
}
