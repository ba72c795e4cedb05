/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/iterate_record.h"

#include "app/iterate_inputs.h"
#include "app/place.h"
#include "app/tool.h"
#include "base/size.h"
#include "base/stats.h"
#include "device/ranks.h"
#include "pages/png.h"
#include "pages/render.h"
#include "stack/outfile.h"

#include <stdlib.h>

/* Warns once of an object that reaches beyond the volume. A hundredth: noise of rays through air has a mean of 0. */
static void look_beside(const struct vp_iterate_record *r)
{
    const double missed = r->in->job->missed;
    if (r->lines > 1 || missed < 0.01)
        return;
    vp_warn(r->in->run, "%.3g %% of what was measured is on rays that miss the volume: the object is larger, and the rest of "
                        "it appears at the volume's faces: choose a larger --volume", 100 * missed);
}

/* Writes the picture of the middle slice. */
static int draw(const struct vp_iterate_record *r, struct vp_err *err)
{
    const struct vp_iterate_inputs *const in = r->in;
    const int64_t nx = in->grid.n[0], ny = in->grid.n[1];
    const struct vp_picture slice = {in->x + (in->below + in->slices / 2) * nx * ny, nx, ny};
    struct vp_outfile *file = NULL;
    double lo, hi;
    uint8_t *const pixels = vp_alloc((size_t)nx, (size_t)ny, "the picture", err);
    int rc = pixels ? vp_picture_window(&slice, 1, 0.5, 99.5, &lo, &hi, err) : -1;
    if (!rc) {
        vp_picture_gray(&slice, lo, hi, false, pixels, 1);
        rc = vp_outfile_open(&file, r->params->preview, err);
    }
    if (!rc)
        rc = vp_outfile_end(file, vp_png_write(file, pixels, 1, nx, ny, 1, err), err);
    free(pixels);
    return rc;
}

static int log_line(struct vp_iterate_record *r, const struct vp_iterate_line *l, struct vp_err *err)
{
    const struct vp_iterate *const job = r->in->job;
    if (r->lines == r->room) {
        double *residuals = vp_grow(r->residuals, r->lines, &r->room, sizeof *residuals, "the history", "ct-iterate", err);
        if (!residuals)
            return -1;
        r->residuals = residuals;
        double *objectives = realloc(r->objectives, (size_t)r->room * sizeof *objectives);
        if (!objectives)
            return vp_fail(err, VP_ERESOURCE, "out of memory: the history");
        r->objectives = objectives;
    }
    r->residuals[r->lines] = l->residual;
    r->objectives[r->lines++] = l->objective;
    vp_note(r->in->run, "%s %lld/%lld: residual %.4g (%.4g of the data), change %.3g, %.1f s", vp_iterate_name(job->method),
            (long long)l->iteration, (long long)job->iterations, l->residual, l->relative, l->change, l->seconds);
    if (!r->history)
        return 0;
    fprintf(r->history, "%lld\t%.3f\t%.9g\t%.9g\t%.9g\t%.9g\t%.9g\t%.9g\t%.9g\t%.9g\n", (long long)l->iteration, l->seconds,
            l->residual, l->relative, l->objective, l->step, l->min, l->mean, l->max, l->change);
    return fflush(r->history) ? vp_fail_errno(err, "%s", r->params->history) : 0;
}

static int each(void *ctx, const struct vp_iterate_line *line, const struct vp_iterate_state *state, struct vp_err *err)
{
    struct vp_iterate_record *const r = ctx;
    const struct vp_iterate_record_params *const p = r->params;
    struct vp_run *const run = r->in->run;
    struct vp_err unseen = VP_ERR_INIT;
    const struct vp_iterate *const job = r->in->job;
    const struct vp_share *const share = &job->share;
    const int64_t *n = r->in->grid.n;
    if (log_line(r, line, err))
        return -1;
    look_beside(r);
    if (p->preview && vp_share_one(share, r->in->x, n[2], vp_iterate_unit(job), (uint64_t)(n[0] * n[1]) * sizeof *r->in->x,
                                   r->in->below + r->in->slices / 2, err))
        return -1;
    if (p->preview && share->rank == 0 && draw(r, &unseen))
        vp_warn(run, "no picture after iteration %lld: %s", (long long)line->iteration, unseen.msg);
    if (p->checkpoint && (line->iteration % p->every == 0 || line->iteration == job->iterations)) {
        struct vp_err why = VP_ERR_INIT;
        r->checkpoint.unit = vp_iterate_unit(job);
        const int rc = vp_checkpoint_save(&r->checkpoint, p->checkpoint, state, &why);
        if (rc && share->ranks && share->ranks->stopped)
            return vp_err_keep(err, &why);
        if (rc)
            vp_warn(run, "no checkpoint after iteration %lld: %s", (long long)line->iteration, why.msg);
    }
    return 0;
}

static int resume(void *ctx, struct vp_iterate_state *state, struct vp_err *err)
{
    struct vp_iterate_record *const r = ctx;
    r->checkpoint.unit = vp_iterate_unit(r->in->job);
    return r->params->resume ? vp_checkpoint_load(&r->checkpoint, r->params->resume, state, err) : 0;
}

void vp_iterate_record_start(struct vp_iterate_record *r)
{
    struct vp_iterate *const job = r->in->job;
    r->checkpoint = (struct vp_checkpoint){.run = r->in->run, .grid = &r->in->grid, .method = job->method,
                                            .share = job->share};
    job->each = each;
    job->resume = resume;
    job->ctx = r;
}

int vp_iterate_record_open(struct vp_iterate_record *r, struct vp_err *err)
{
    const char *path = r->params->history;
    if (!path || r->in->job->share.rank > 0)
        return 0;
    if (!(r->history = fopen(path, "w")))
        return vp_fail_errno(err, "%s", path);
    fprintf(r->history, "iteration\tseconds\tresidual\trelative\tobjective\tstep\tmin\tmean\tmax\tchange\n");
    return 0;
}

void vp_iterate_record_report(const struct vp_iterate_record *r)
{
    struct vp_run *const run = r->in->run;
    const struct vp_iterate *const job = r->in->job;
    vp_place_report(run, &job->place);
    vp_stats_text(run->stats, "method", vp_iterate_name(job->method));
    vp_stats_number(run->stats, "iterations", (double)job->done);
    vp_stats_text(run->stats, "stopped_by", job->stopped_by);
    vp_stats_list(run->stats, "residuals", r->residuals, r->lines);
    vp_stats_list(run->stats, "objective", r->objectives, r->lines);
    if (job->norm > 0)
        vp_stats_number(run->stats, "norm", job->norm);
    vp_note(run, "%lld iterations, ended by %s", (long long)job->done, job->stopped_by);
    if (job->least_norm > 0)
        vp_note(run, "norm at most %.9g, at least %.9g", job->norm, job->least_norm);
}

int vp_iterate_record_close(struct vp_iterate_record *r, int rc, struct vp_err *err)
{
    if (r->history && fclose(r->history) && !rc)
        rc = vp_fail_errno(err, "%s", r->params->history);
    free(r->residuals);
    free(r->objectives);
    return rc;
}
