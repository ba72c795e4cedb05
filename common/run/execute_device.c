/* SPDX-License-Identifier: BSD-3-Clause */
/* The worker of a device: parts of columns into its lanes, and smaller ones where its memory runs short. */
#include "base/err.h"
#include "base/size.h"
#include "run/execute_internal.h"
#include "run/store.h"

#include <stdlib.h>
#include <string.h>

/* What is now known of the box that a lane has looked at. */
static int keep_summary(struct worker *w, int l, struct vp_err *err)
{
    uint64_t bytes;
    const void *entry = vp_lanes_total(w->device, l, &bytes, err);
    if (!entry)
        return -1;
    memcpy(&bytes, entry, sizeof bytes);
    return vp_store_put(w->r->e->store, w->lane[l].box, entry, bytes, err);
}

static int wait_lane(struct worker *w, int l, struct vp_err *err)
{
    struct lane *lane = &w->lane[l];
    if (!lane->busy)
        return 0;
    lane->busy = false;
    int rc = vp_lanes_wait(w->device, l, err);
    if (!rc && w->r->e->visit == VP_SUMMARY)
        rc = keep_summary(w, l, err);
    pthread_mutex_lock(&w->r->lock);
    if (!rc && lane->ends)
        vp_run_column_done(w->r, lane->ends);
    pthread_mutex_unlock(&w->r->lock);
    return rc;
}

/* Planes of `in` that the part before left on the device. */
static int64_t carried(const struct worker *w, const struct column *c, const struct vp_box *in)
{
    const struct run *r = w->r;
    const struct column *b = &w->before;
    if (!b->slab || b->time != c->time || b->channel != c->channel || b->ix != c->ix || b->iy != c->iy || b->z != c->z)
        return 0;
    const int64_t last = r->before[2] + r->input_n[2];
    const int64_t end = r->whole[2] ? last : vp_min64(last, c->z + r->halo[2]);
    return vp_max64(0, end - in->lo[2]);
}

static void size_of_parts(const struct worker *w, int64_t in[3], int64_t out[3])
{
    const struct run *r = w->r;
    memcpy(in, r->plan->in, sizeof r->plan->in);
    memcpy(out, r->plan->part, sizeof r->plan->part);
    out[2] = w->depth;
    if (!r->whole[2])
        in[2] = vp_min64(in[2], w->depth + 2 * r->halo[2]);
}

int vp_run_open_device(struct worker *w, struct vp_err *err)
{
    const struct run *r = w->r;
    int64_t in[3], out[3];
    size_of_parts(w, in, out);
    return vp_lanes_open(&w->device, r->p->kind, w->number, r->e->chain, in, out, w->lanes, err);
}

/* What it did is kept. */
void vp_run_close_device(struct worker *w)
{
    double seconds = 0;
    uint64_t up = 0, down = 0;
    if (!w->device)
        return;
    vp_lanes_stats(w->device, &seconds, &up, &down);
    vp_lanes_close(w->device);
    w->device = NULL;
    w->device_s += seconds;
    w->up += up;
    w->down += down;
}

/* Whether the input of a column is in the window, and stays there until the column is done: what a stream has carried
 * along on the device does not, even if it is still there because another device is behind. */
static bool is_here(const struct run *r, const struct column *c)
{
    if (r->flow)
        return true;
    if (r->carries && r->plan->stream && c->z > 0) /* the device had what was carried */
        return false;
    return vp_run_input_start(r, c->time) + (r->whole[2] ? 0 : vp_run_input_z(r, c->z - r->halo[2]))
           >= vp_run_kept(r, c->slab->g0);
}

/* It cannot go on with less. */
static int not_enough(const struct worker *w, const struct vp_err *why, struct vp_err *err)
{
    const struct run *r = w->r;
    int64_t in[3], out[3];
    size_of_parts(w, in, out);
    *err = (struct vp_err)VP_ERR_INIT;
    vp_fail(err, VP_ERESOURCE, "%s: the work takes %s of the device's memory", why->msg,
            vp_bytes_text(vp_lanes_bytes(r->p->kind, r->e->chain, in, out, w->lanes)).text);
    return vp_hint(err, "close what else uses the device, or use --device cpu");
}

/* The device has no memory left for what it does (others use it, too): open it anew for smaller parts, and begin again
 * with the oldest column under way (`busy` of them, and `now`, which could not be submitted, or NULL). Nothing of
 * these slabs has been written yet. -1 with the first error if that cannot be. */
static int make_smaller(struct worker *w, int64_t first, int busy, const struct column *now, struct vp_err *err)
{
    struct run *r = w->r;
    struct column all[VP_MAX_LANES + 1];
    const struct vp_err why = *err;
    int n = 0;

    for (int i = 0; i <= busy; i++) {
        const struct column *c = i < busy ? &w->lane[(first + i) % w->lanes].column : now;
        if (c && !(n && all[n - 1].slab == c->slab && all[n - 1].time == c->time && all[n - 1].channel == c->channel
                   && all[n - 1].ix == c->ix && all[n - 1].iy == c->iy))
            all[n++] = *c;
    }
    for (int i = 0; i < n; i++)
        if (!is_here(r, &all[i]))
            return not_enough(w, &why, err);
    vp_run_close_device(w);
    w->before.slab = NULL;
    for (int l = 0; l < VP_MAX_LANES; l++)
        w->lane[l].busy = false;
    do {
        if (w->depth > r->step && !r->whole[2])
            w->depth = ((w->depth + 1) / 2 + r->step - 1) / r->step * r->step;
        else if (w->lanes > 1)
            w->lanes--;
        else
            return not_enough(w, &why, err);
        *err = (struct vp_err)VP_ERR_INIT;
    } while (vp_run_open_device(w, err) && err->code == VP_ERESOURCE);
    if (!w->device)
        return -1;
    while (n > 0)
        w->again[w->n_again++] = all[--n];
    pthread_mutex_lock(&r->lock);
    r->e->smaller++;
    pthread_mutex_unlock(&r->lock);
    return 0;
}

/* The next column: one that is to be done again, or a new one. */
static bool get_column(struct worker *w, bool block, struct column *c)
{
    if (w->n_again) {
        *c = w->again[--w->n_again];
        return true;
    }
    pthread_mutex_lock(&w->r->lock);
    const bool go = vp_run_await(w->r, w, block, c);
    pthread_mutex_unlock(&w->r->lock);
    return go;
}

static int visit(struct worker *w, int l, const struct column *c, const struct vp_part *in, const struct vp_part *out,
                 struct vp_err *err)
{
    const int64_t box = w->lane[l].box = vp_run_box(w->r, c, &out->box);
    if (w->r->e->visit == VP_SUMMARY)
        return vp_lanes_state(w->device, l, VP_SUMMARY, in, &out->box, err);
    void *entry = vp_run_entry(w->r, box, err);
    const int rc = entry ? vp_lanes_finish(w->device, l, in, out, entry, err) : -1;
    free(entry);
    return rc;
}

/* Submit the next part of a column, when its lane is free. */
static int submit(struct worker *w, int l, struct column *c, struct vp_err *err)
{
    struct run *r = w->r;
    struct lane *lane = &w->lane[l];
    struct vp_part in[VP_MAX_INPUTS], out[2];
    const struct column start = *c;

    if (!lane->pointers && !(lane->pointers = vp_run_pointers(r, err)))
        return -1;
    vp_run_next_part(r, c, w->depth, in, out, lane->pointers);
    if (r->e->visit == VP_MAKE ? vp_lanes_submit(w->device, l, in, out, carried(w, &start, &in[0].box), err)
                               : visit(w, l, &start, in, out, err)) {
        *c = start;
        return -1;
    }
    w->before = *c;
    lane->busy = true;
    lane->column = start;
    lane->ends = c->z == c->z1 ? c->slab : NULL;
    return 0;
}

/* ---- a value carried along z, by several devices ---- */

/* A segment that is made but for what is carried into it. */
struct segment {
    struct vp_part out[2];
    struct column column;
};

/* What is carried into a segment, when it is known, plus its total is what is carried out of it. Segments are taken in
 * order, so those before it are with workers that wait for nothing but segments before theirs. */
static int join_segment(struct worker *w, const struct segment *s, const void *total, uint64_t bytes, void *before,
                        struct vp_err *err)
{
    struct run *r = w->r;
    const struct column *c = &s->column;
    const int64_t start = vp_run_start(r, c->time);
    struct carried *carried = &r->carried[(c->channel * r->along + c->iy) * r->across + c->ix];
    int rc = 0;
    pthread_mutex_lock(&r->lock);
    while (!r->stop && carried->g != start + s->out->box.lo[2])
        pthread_cond_wait(&r->moved, &r->lock);
    if (r->stop || (!carried->value && !(carried->value = malloc((size_t)bytes)))) {
        rc = r->stop ? vp_fail(err, VP_ERUN, "stopped") : vp_fail(err, VP_ERESOURCE, "not enough memory");
    } else {
        if (s->out->box.lo[2] == 0)
            memset(carried->value, 0, (size_t)bytes);
        memcpy(before, carried->value, (size_t)bytes);
        r->carries->join(r->carries, carried->value, total, bytes);
        carried->g = start + s->out->box.hi[2];
        pthread_cond_broadcast(&r->moved);
    }
    pthread_mutex_unlock(&r->lock);
    return rc;
}

static int apply_segment(struct worker *w, int l, struct segment *s, struct vp_err *err)
{
    uint64_t bytes;
    const void *total = vp_lanes_total(w->device, l, &bytes, err);
    void *before = total ? malloc((size_t)bytes) : NULL;
    if (total && !before)
        vp_fail(err, VP_ERESOURCE, "not enough memory");
    const int rc = !before || join_segment(w, s, total, bytes, before, err)
                   || vp_lanes_apply(w->device, l, s->out, before, err) ? -1 : 0;
    free(before);
    return rc;
}

int vp_run_segments(struct worker *w, struct vp_err *err)
{
    struct run *r = w->r;
    struct segment segment[VP_MAX_LANES] = {0};
    struct vp_part in[VP_MAX_INPUTS];
    int64_t taken = 0, applied = 0, done = 0; /* segments so far */
    int rc = 0;
    const double t = vp_now();

    while (!rc) {
        struct column c;
        const bool more = taken - done < w->lanes && get_column(w, taken == done, &c);
        if (more) {
            const int l = (int)(taken % w->lanes);
            struct lane *lane = &w->lane[l];
            segment[l] = (struct segment){.column = c};
            if (!lane->pointers && !(lane->pointers = vp_run_pointers(r, err)))
                rc = -1;
            if (!rc) {
                vp_run_next_part(r, &c, w->depth, in, segment[l].out, lane->pointers);
                rc = vp_lanes_state(w->device, l, VP_LOCAL, in, &segment[l].out->box, err);
            }
            taken += !rc;
            w->parts += !rc;
        } else if (applied < taken) {
            rc = apply_segment(w, (int)(applied % w->lanes), &segment[applied % w->lanes], err);
            applied += !rc;
        } else if (done < taken) {
            rc = vp_lanes_wait(w->device, (int)(done % w->lanes), err);
            pthread_mutex_lock(&r->lock);
            if (!rc)
                vp_run_column_done(r, segment[done % w->lanes].column.slab);
            pthread_mutex_unlock(&r->lock);
            done += !rc;
        } else {
            break;
        }
    }
    for (; done < taken && w->device; done++) /* what failed first is told */
        vp_lanes_wait(w->device, (int)(done % w->lanes), NULL);
    w->work_s += vp_now() - t;
    return rc;
}

int vp_run_device(struct worker *w, struct vp_err *err)
{
    struct column c = {0};
    int busy = 0, rc = 0;
    const double t = vp_now();

    while (!rc) {
        bool more = c.z < c.z1;
        if (!more)
            more = get_column(w, busy == 0, &c);
        if (!more && !busy)
            break;
        if (!more || busy == w->lanes) { /* finish the oldest part under way */
            rc = wait_lane(w, (int)((w->submitted - busy) % w->lanes), err);
            busy -= !rc;
        }
        if (!rc && more) {
            rc = submit(w, (int)(w->submitted % w->lanes), &c, err);
            w->parts += !rc;
            busy += !rc;
            w->submitted += !rc;
        }
        if (rc && err->code == VP_ERESOURCE && w->device
            && !make_smaller(w, w->submitted - busy, busy, more ? &c : NULL, err)) {
            rc = busy = 0;
            w->submitted = 0;
            c.z = c.z1;
        }
    }
    for (; busy && w->device; busy--) /* what failed first is told */
        wait_lane(w, (int)((w->submitted - busy) % w->lanes), NULL);
    w->before.slab = NULL;
    w->work_s += vp_now() - t;
    return rc;
}
