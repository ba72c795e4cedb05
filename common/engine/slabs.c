/* SPDX-License-Identifier: BSD-3-Clause */
/* The slabs of the engine: the scheduling of columns and parts, and the thread that writes. */
#include "engine/execute_internal.h"

#include "base/progress.h"
#include "engine/pages.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- scheduling ---- */

static bool all_made(const struct vp_engine *r)
{
    return r->settled && r->next == r->total;
}

/* Opens the next slab if its input and a buffer are there. `patient`: only a full one, as long as more input may come.
 * Under the lock. */
static bool make_slab(struct vp_engine *r, bool patient)
{
    if (r->end && !r->settled) {
        if (r->written < r->made) /* no worker and no writer may see the length change */
            return false;
        r->input_total = r->have;
        if (r->nz >= VP_UNKNOWN) {
            r->input_n[2] = r->have;
            r->nz = r->e->chain ? vp_chain_end(r->e->chain, r->have) : r->have;
        }
        r->total = r->flow ? r->have : r->nz > 0 ? r->have / r->input_n[2] * r->nz : 0;
        r->settled = true;
        pthread_cond_broadcast(&r->moved);
    }
    if (r->made - r->written >= r->plan->slabs)
        return false;
    int64_t g1 = vp_min64(r->next + r->plan->slab, r->total);
    if (r->e->pages) /* one after the other */
        g1 = vp_min64(g1, (r->next / r->plan->window + 1) * r->plan->window);
    if (vp_engine_needed(r, g1) > r->have) {
        if (patient)
            return false;
        while (g1 > r->next && vp_engine_needed(r, g1) > r->have)
            g1--;
    }
    if (r->step > 1 && g1 < r->total) { /* the next slab begins at a step of its image, too */
        const int64_t z1 = g1 - vp_engine_start(r, vp_engine_time(r, g1));
        g1 -= z1 % r->step;
    }
    if (g1 <= r->next)
        return false;
    struct out_slab *s = &r->slab[r->made % r->plan->slabs];
    const struct band_rows rows = r->flow ? vp_engine_rows(r, r->next % r->plan->bands) : r->rows;
    const int64_t times = r->flow ? 1 : vp_engine_time(r, g1 - 1) - vp_engine_time(r, r->next) + 1;
    *s = (struct out_slab){.g0 = r->next, .g1 = g1, .rows = rows, .out = {s->out[0], s->out[1]},
                       .all = times * r->inner * r->across * vp_div_up(rows.y1 - rows.y0, r->plan->part[1])};
    r->next = g1;
    r->made++;
    pthread_cond_broadcast(&r->moved);
    return true;
}

struct column vp_engine_column(const struct vp_engine *r, struct out_slab *s, int64_t i)
{
    const int64_t n = r->across * r->along;
    struct column c = {.slab = s, .ix = i % r->across, .iy = i / r->across % r->along, .channel = i / n % r->inner,
                       .time = vp_engine_time(r, s->g0) + i / n / r->inner};
    if (r->flow) {
        c.z = s->g0 / r->plan->bands / r->p->inner % r->nz;
        c.z1 = c.z + 1;
        return c;
    }
    const int64_t start = vp_engine_start(r, c.time);
    c.z = vp_max64(s->g0 - start, 0);
    c.z1 = vp_min64(s->g1 - start, r->nz);
    return c;
}

/* Gets the next column for a worker. Under the lock. */
static bool take_column(struct vp_engine *r, struct worker *w, bool patient, struct column *c)
{
    if (!r->plan->stream || r->goes_on) {
        for (int64_t i = r->done; i <= r->made; i++) {
            if (i == r->made && !make_slab(r, patient))
                return false;
            struct out_slab *s = &r->slab[i % r->plan->slabs];
            if (s->taken < s->all) {
                *c = vp_engine_column(r, s, s->taken++);
                return true;
            }
        }
        return false;
    }
    const int64_t columns = r->inner * r->across * r->along;
    if (w->index >= columns || (w->slab == r->made && !make_slab(r, patient))) /* the last band may have fewer */
        return false;
    struct out_slab *s = &r->slab[w->slab % r->plan->slabs];
    *c = vp_engine_column(r, s, w->segment * columns + w->index);
    s->taken++;
    if (++w->segment * columns >= s->all) {
        w->segment = 0;
        w->slab++;
    }
    return true;
}

void vp_engine_column_done(struct vp_engine *r, struct out_slab *s)
{
    if (++s->done < s->all)
        return;
    while (r->done < r->made) {
        const struct out_slab *oldest = &r->slab[r->done % r->plan->slabs];
        if (oldest->done < oldest->all)
            break;
        r->done++;
    }
    pthread_cond_broadcast(&r->moved);
}

bool vp_engine_await(struct vp_engine *r, struct worker *w, bool block, struct column *c)
{
    bool patient = true;
    while (!r->stop) {
        if (take_column(r, w, patient, c))
            return true;
        if (!block || all_made(r) || (r->plan->stream && w->index >= r->inner * r->across * r->along))
            return false;
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += r->patience;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        const int64_t had = r->have;
        if (r->pipe && !r->end && vp_engine_needed(r, r->next + 1) <= had)
            patient = !pthread_cond_timedwait(&r->moved, &r->lock, &until) || r->have != had;
        else
            pthread_cond_wait(&r->moved, &r->lock);
    }
    return false;
}

void vp_engine_next_part(const struct vp_engine *r, struct column *c, int64_t depth, struct vp_part *in,
                         struct vp_part *out, void **pointers)
{
    const struct vp_plan *plan = r->plan;
    const struct band_rows *rows = &c->slab->rows;
    struct vp_box o;
    o.lo[0] = c->ix * plan->part[0];
    o.hi[0] = vp_min64(o.lo[0] + plan->part[0], r->nx);
    o.lo[1] = rows->y0 + c->iy * plan->part[1];
    o.hi[1] = vp_min64(o.lo[1] + plan->part[1], rows->y1);
    o.lo[2] = c->z;
    o.hi[2] = vp_min64(c->z + depth, c->z1);
    c->z = o.hi[2];
    struct vp_box i = vp_engine_region(r, &o);
    if (r->goes_on && o.lo[2] > 0) { /* the part before got the others */
        struct vp_box before = o;
        before.hi[2] = o.lo[2];
        before.lo[2] = o.lo[2] - 1;
        i.lo[2] = vp_engine_region(r, &before).hi[2];
    }
    /* planes of the stream: of input, and of the slab */
    const int64_t first = r->flow ? c->slab->g0 : vp_engine_input_start(r, c->time) + i.lo[2];
    const int64_t made = r->flow ? 0 : vp_engine_start(r, c->time) + o.lo[2] - c->slab->g0;
    const int64_t deep = vp_box_size(&i, 2);
    const size_t in_at = (size_t)((i.lo[1] - rows->ya) * r->input_n[0] + i.lo[0]) * r->in_size;
    for (int k = 0; k < r->stacks; k++, pointers += deep) {
        for (int64_t z = 0; z < deep; z++)
            pointers[z] = r->input[k] + in_at
                          + (r->p->single[k] && !r->flow ? 0 : (size_t)((first + z) % plan->window) * r->slot
                                                               + (size_t)c->channel * r->page_in);
        in[k] = (struct vp_part){i, r->input_n[0], pointers};
    }
    const size_t at = (size_t)((o.lo[1] - rows->y0) * r->nx + o.lo[0]);
    for (int t = 0; t < r->outputs; t++, pointers += vp_box_size(&o, 2)) {
        char *const to = c->slab->out[t]; /* NULL: the pass has no output */
        for (int64_t z = 0; z < vp_box_size(&o, 2); z++)
            pointers[z] = to ? to + at * r->out_size[t]
                               + (size_t)((made + z) * r->inner + c->channel) * r->page_out[t] : NULL;
        out[t] = (struct vp_part){o, r->nx, pointers};
    }
}

void **vp_engine_pointers(const struct vp_engine *r, struct vp_err *err)
{
    const int64_t out = r->plan->part[2], in = vp_chain_extent(r->e->chain, 2, out);
    return vp_alloc_raw((size_t)(in * r->stacks + out * r->outputs), sizeof(void *), "a part", err);
}

/* ---- writing ---- */

void *vp_engine_pages_in(const struct vp_engine *r, const struct out_slab *s)
{
    return r->from_nothing ? NULL : r->input[0] + (size_t)(s->g0 % r->plan->window) * r->slot;
}

void *vp_engine_pages_out(const struct vp_engine *r, const struct out_slab *s)
{
    return r->e->pages->in_place ? vp_engine_pages_in(r, s) : s->out[0];
}

/* Destination of an output: a writer, or a function that gets the pages one by one (flow: the bands of a page). */
struct sink {
    struct vp_writer *writer;
    int (*page)(void *ctx, int64_t page, const void *samples, int64_t n, struct vp_err *err);
    enum vp_type type;
};

static int put_pages(struct vp_engine *r, const struct sink *to, const struct band_rows *of, int64_t page, int64_t n,
                     const char *samples, struct vp_err *err)
{
    const int64_t rows = of->y1 - of->y0, size = r->nx * rows;
    int rc = 0;
    if (!to->writer) {
        for (int64_t i = 0; i < n && !rc; i++)
            rc = to->page(r->e->ctx, page + i, samples + (size_t)(i * size) * vp_type_size(to->type), size, err);
        return rc;
    }
    if (r->plan->bands > 1 && !r->flow)
        return vp_writer_bands(to->writer, page, n, of->y0, of->y1, samples, r->io_threads, err);
    if (r->e->pages && !r->flow)
        return vp_writer_pages(to->writer, n, samples, r->io_threads, err);
    return vp_writer_lines(to->writer, n * rows, samples, r->io_threads, err);
}

/* Writes one output of a slab. */
static int write_result(struct vp_engine *r, const struct out_slab *s, int which, const struct sink *to,
                        struct vp_err *err)
{
    const int64_t page = r->flow ? s->g0 / r->plan->bands : s->g0 * r->inner;
    return put_pages(r, to, &s->rows, page, (s->g1 - s->g0) * r->inner, s->out[which], err);
}

static int write_slab(struct vp_engine *r, const struct out_slab *s, struct vp_err *err)
{
    struct vp_execute *e = r->e;
    if (e->pass == VP_SUMMARY || e->pass == VP_GATHER || (e->pages && !e->writer))
        return 0;
    if (e->pages)
        return put_pages(r, &(struct sink){.writer = e->writer}, &s->rows, 0, s->pages, vp_engine_pages_out(r, s), err);
    const struct vp_op *last = &e->chain->stage[e->chain->n - 1];
    const int64_t samples = r->nx * (s->rows.y1 - s->rows.y0);
    if (last->out != e->stored_out) /* never wider, so that it can be done in place from the front */
        vp_convert(s->out[0], e->stored_out, s->out[0], last->out, (s->g1 - s->g0) * r->inner * samples, 1, 0);
    if (write_result(r, s, 0, &(struct sink){e->writer, e->page, e->stored_out}, err))
        return -1;
    return !last->second ? 0
           : write_result(r, s, 1, &(struct sink){e->second_writer, e->second_page, *last->second}, err);
}

int vp_engine_write(void *ctx, struct vp_err *err)
{
    struct vp_engine *r = ctx;
    for (int64_t i = 0;; i++) {
        pthread_mutex_lock(&r->lock);
        while (!r->stop && r->done == i && !(all_made(r) && r->made == i))
            pthread_cond_wait(&r->moved, &r->lock);
        const bool go = !r->stop && r->done > i;
        pthread_mutex_unlock(&r->lock);
        if (!go)
            return 0;
        const struct out_slab *s = &r->slab[i % r->plan->slabs];
        const double t = vp_now();
        if (write_slab(r, s, err))
            return -1;
        r->write_s += vp_now() - t;
        vp_progress_add(r->e->progress, (s->g1 - s->g0) * r->inner);
        pthread_mutex_lock(&r->lock);
        r->written = i + 1;
        pthread_cond_broadcast(&r->moved);
        pthread_mutex_unlock(&r->lock);
    }
}
