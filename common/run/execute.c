/* SPDX-License-Identifier: BSD-3-Clause */
/* The executor. Planes of the stream are numbered through: plane g holds the pages of slice g % nz of the images of
 * time g / nz. Plane g lies in slot g % window; what the oldest unfinished slab needs is the low end of what must
 * stay. All waiting is on one condition, all state that threads share is under one lock. */
#include "run/execute_internal.h"
#include "base/err.h"
#include "base/progress.h"
#include "base/size.h"
#include "base/stats.h"
#include "run/pages.h"
#include "run/store.h"

#include <fcntl.h>
#include <omp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    BATCH_BYTES = 16 << 20,
    /* A slab that is cut short does its halo again; a page does not. */
    PATIENCE_NS = 500 * 1000 * 1000,
    PATIENCE_OF_PAGES_NS = 10 * 1000 * 1000
};

static void stop(struct run *r, const struct vp_err *err)
{
    pthread_mutex_lock(&r->lock);
    if (!r->stop)
        r->err = *err;
    r->stop = true;
    pthread_cond_broadcast(&r->moved);
    pthread_mutex_unlock(&r->lock);
    (void)!write(r->wake[1], "", 1);
}

/* ---- planes ---- */

static int64_t time_of(const struct run *r, int64_t g)
{
    return r->nz >= VP_UNKNOWN ? 0 : g / r->nz;
}

/* The first plane after those that output up to plane g1 needs. */
static int64_t needed(const struct run *r, int64_t g1)
{
    if (g1 == 0)
        return 0;
    const int64_t t = time_of(r, g1 - 1), z1 = r->nz >= VP_UNKNOWN ? g1 : g1 - t * r->nz;
    const int64_t z = r->whole[2] ? r->nz : vp_min64(r->nz, z1 + r->halo[2]);
    return r->nz >= VP_UNKNOWN ? z : t * r->nz + z;
}

/* The first plane that output from plane g on needs. What a stream has on its devices, or its operation has kept of it,
 * need not stay here. */
int64_t vp_run_kept(const struct run *r, int64_t g)
{
    const int64_t t = time_of(r, g), start = r->nz >= VP_UNKNOWN ? 0 : t * r->nz, z = g - start;
    if (z == 0)
        return start;
    if (r->plan->stream)
        return needed(r, g);
    return r->whole[2] ? start : start + vp_max64(0, z - r->halo[2]);
}

/* The lowest plane that must stay. Under the lock. */
static int64_t low_plane(const struct run *r)
{
    if (r->e->pages && r->e->pages->in_place && r->e->writer) /* the window is the output, too */
        return r->written < r->made ? r->slab[r->written % r->plan->slabs].g0 : r->next;
    return vp_run_kept(r, r->done < r->made ? r->slab[r->done % r->plan->slabs].g0 : r->next);
}

/* ---- reading ---- */

/* Stored samples lie at the end of the room of `n` held ones: spread them. */
static void spread(char *room, enum vp_type held, enum vp_type stored, int64_t n)
{
    enum { BLOCK = 4096 };
    char block[BLOCK * 8];
    const size_t wide = vp_type_size(held), narrow = vp_type_size(stored);
    const char *from = room + (size_t)n * (wide - narrow);
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t m = vp_min64(BLOCK, n - i);
        memcpy(block, from + (size_t)i * narrow, (size_t)m * narrow);
        vp_convert(room + (size_t)i * wide, held, block, stored, m, 1, 0);
    }
}

/* n pages from page g on into the window. Returns how many came. */
static int64_t read_pages(struct run *r, int64_t g, int64_t n, struct vp_err *err)
{
    struct vp_pages *p = r->e->pages;
    void **to = vp_alloc_raw((size_t)n, sizeof *to, "a list of pages", err);
    int64_t got = -1;
    for (int64_t i = 0; to && i < n; i++)
        to[i] = r->input[0] + (size_t)((g + i) % r->plan->window) * r->slot;
    if (to)
        got = p->read     ? p->read(p->source, g, n, to, r->io_threads, err)
              : p->as_f32 ? vp_reader_pages_f32(p->reader, n, (float **)to, &p->bad, r->io_threads, err)
                          : vp_reader_pages(p->reader, n, to, r->io_threads, err);
    free(to);
    return got;
}

/* n planes of stack k, the first being plane g. Returns how many came. */
static int64_t read_planes(struct run *r, int k, int64_t g, int64_t n, bool single, struct vp_err *err)
{
    const struct vp_execute *e = r->e;
    if (e->pages)
        return read_pages(r, g, n, err);
    struct vp_reader *reader = e->reader[k];
    const enum vp_type stored = vp_reader_stack(reader)->type;
    const int64_t inner = single ? 1 : r->inner, pages = n * inner, samples = r->nx * (r->yb - r->ya);
    const size_t shift = (size_t)samples * (r->in_size - vp_type_size(stored));
    const int threads = r->io_threads;
    int64_t got = pages;
    void **to = malloc((size_t)pages * sizeof *to);

    if (!to)
        return vp_fail(err, VP_ERESOURCE, "not enough memory");
    for (int64_t i = 0; i < pages; i++)
        to[i] = r->input[k] + (single ? 0 : (size_t)((g + i / inner) % r->plan->window) * r->slot)
                + (size_t)(i % inner) * r->page_in + shift;
    if (r->plan->bands > 1)
        got = vp_reader_bands(reader, g * inner, pages, r->ya, r->yb, to, NULL, NULL, threads, err) ? -1 : pages;
    else
        got = vp_reader_pages(reader, pages, to, threads, err);
    if (got > 0 && stored != e->held) {
        #pragma omp parallel for num_threads(threads) schedule(dynamic) if (pages > 1)
        for (int64_t i = 0; i < got; i++)
            spread((char *)to[i] - shift, e->held, stored, samples);
    }
    free(to);
    if (got > 0 && got % inner)
        return vp_fail(err, VP_ERUN, "%s: the pages end inside slice %lld: expected %lld pages a slice",
                       vp_reader_name(reader), (long long)(g + got / inner), (long long)inner);
    return got < 0 ? -1 : got / inner;
}

/* All planes are there. A pipe that did not say how many it has must end here as well. */
static int check_ends(struct run *r, struct vp_err *err)
{
    const char *known = "its sizes"; /* in its metadata */
    for (int k = r->stacks - 1; k >= 0; k--)
        if (!r->p->single[k] && vp_reader_stack(r->e->reader[k])->pages > 0)
            known = vp_reader_name(r->e->reader[k]);
    for (int k = 0; k < r->stacks; k++) {
        struct vp_reader *reader = r->e->reader[k];
        const int more = vp_reader_stack(reader)->pages < 0 ? vp_reader_skip(reader, 1, err) : 0;
        if (more)
            return more < 0 ? -1 : vp_fail(err, VP_ERUN, "%s has more pages than the %lld of %s",
                                           vp_reader_name(reader), (long long)(r->total * r->inner), known);
    }
    return 0;
}

static const char *name_of(const struct run *r)
{
    const struct vp_reader *reader = r->e->pages ? r->e->pages->reader : r->e->reader[0];
    return reader ? vp_reader_name(reader) : "the input";
}

static int read_all(struct run *r, struct vp_err *err)
{
    const struct vp_problem *p = r->p;

    for (int k = 0; k < r->stacks; k++) {
        const double t = vp_now();
        if (p->single[k]) {
            const int64_t got = read_planes(r, k, 0, 1, true, err);
            if (got != 1)
                return got < 0 ? -1 : vp_fail(err, VP_ERUN, "%s: no page", vp_reader_name(r->e->reader[k]));
        }
        r->read_s += vp_now() - t;
    }
    const int64_t batch = r->pipe ? 1 : vp_max64(1, (int64_t)(BATCH_BYTES / (r->slot * (size_t)r->stacks)));
    for (;;) {
        pthread_mutex_lock(&r->lock);
        int64_t room = 0;
        while (!r->stop && r->have < r->total && (room = low_plane(r) + r->plan->window - r->have) <= 0)
            pthread_cond_wait(&r->moved, &r->lock);
        const bool go = !r->stop && r->have < r->total;
        const int64_t g = r->have, n = go ? vp_min64(vp_min64(room, batch), r->total - g) : 0;
        pthread_mutex_unlock(&r->lock);
        if (!go)
            break;
        const double t = vp_now();
        int64_t got = n;
        for (int k = 0, first = -1; k < r->stacks; k++) {
            if (p->single[k])
                continue;
            const int64_t here = read_planes(r, k, g, n, false, err);
            if (here < 0)
                return -1;
            if (first >= 0 && here != got)
                return vp_fail(err, VP_ERUN, "%s has %s pages than %s",
                               vp_reader_name(r->e->reader[k]), here < got ? "fewer" : "more",
                               vp_reader_name(r->e->reader[first]));
            got = here;
            first = first < 0 ? k : first;
        }
        r->read_s += vp_now() - t;
        pthread_mutex_lock(&r->lock);
        r->have = g + got;
        pthread_cond_broadcast(&r->moved);
        pthread_mutex_unlock(&r->lock);
        if (got < n)
            break;
    }
    pthread_mutex_lock(&r->lock);
    const bool stopped = r->stop;
    pthread_mutex_unlock(&r->lock);
    if (stopped)
        return 0;
    if (r->total < VP_UNKNOWN && r->have < r->total)
        return vp_fail(err, VP_ERUN, "%s: expected %lld pages, got %lld", name_of(r),
                       (long long)(r->total * r->inner), (long long)(r->have * r->inner));
    if (r->nz < VP_UNKNOWN && r->have % r->nz)
        return vp_fail(err, VP_ERUN, "%s: the pages end inside an image: expected a multiple of %lld, got %lld",
                       vp_reader_name(r->e->reader[0]), (long long)(r->nz * r->inner),
                       (long long)(r->have * r->inner));
    if (r->total < VP_UNKNOWN && !r->e->pages && check_ends(r, err))
        return -1;
    pthread_mutex_lock(&r->lock);
    r->end = true;
    pthread_cond_broadcast(&r->moved);
    pthread_mutex_unlock(&r->lock);
    return 0;
}

static void *reader_main(void *arg)
{
    struct run *r = arg;
    struct vp_err err = VP_ERR_INIT;
    vp_input_wake(r->wake[0]);
    if (read_all(r, &err))
        stop(r, &err);
    vp_input_wake(-1);
    return NULL;
}

/* ---- writing ---- */

/* Where the pages of a slab are in the window, one after the other; NULL if they are made. */
static char *pages_in(const struct run *r, const struct slab *s)
{
    return r->from_nothing ? NULL : r->input[0] + (size_t)(s->g0 % r->plan->window) * r->slot;
}

static char *pages_out(const struct run *r, const struct slab *s)
{
    return r->e->pages->in_place ? pages_in(r, s) : s->out;
}

static int write_slab(struct run *r, const struct slab *s, struct vp_err *err)
{
    if (r->e->visit == VP_SUMMARY)
        return 0;
    if (r->e->pages)
        return r->e->writer ? vp_writer_pages(r->e->writer, s->pages, pages_out(r, s), r->io_threads, err) : 0;
    struct vp_execute *e = r->e;
    const enum vp_type made = e->chain->stage[e->chain->n - 1].out;
    const int64_t pages = (s->g1 - s->g0) * r->inner, first = s->g0 * r->inner;
    const int64_t samples = r->nx * (r->y1 - r->y0);
    const size_t bytes = (size_t)samples * vp_type_size(e->stored_out);
    int rc = 0;

    if (made != e->stored_out) /* never wider, so that it can be done in place from the front */
        vp_convert(s->out, e->stored_out, s->out, made, pages * samples, 1, 0);
    if (!e->writer) {
        for (int64_t i = 0; i < pages && !rc; i++)
            rc = e->page(e->ctx, first + i, s->out + (size_t)i * bytes, samples, err);
        return rc;
    }
    if (r->plan->bands == 1)
        return vp_writer_pages(e->writer, pages, s->out, r->io_threads, err);
    return vp_writer_bands(e->writer, first, pages, r->y0, r->y1, s->out, r->io_threads, err);
}

static bool all_made(const struct run *r)
{
    return r->end && r->next == r->have;
}

static void *writer_main(void *arg)
{
    struct run *r = arg;
    struct vp_err err = VP_ERR_INIT;
    for (int64_t i = 0;; i++) {
        pthread_mutex_lock(&r->lock);
        while (!r->stop && r->done == i && !(all_made(r) && r->made == i))
            pthread_cond_wait(&r->moved, &r->lock);
        const bool go = !r->stop && r->done > i;
        pthread_mutex_unlock(&r->lock);
        if (!go)
            return NULL;
        const struct slab *s = &r->slab[i % r->plan->slabs];
        const double t = vp_now();
        if (write_slab(r, s, &err)) {
            stop(r, &err);
            return NULL;
        }
        r->write_s += vp_now() - t;
        vp_progress_add(r->e->progress, (s->g1 - s->g0) * r->inner);
        pthread_mutex_lock(&r->lock);
        r->written = i + 1;
        pthread_cond_broadcast(&r->moved);
        pthread_mutex_unlock(&r->lock);
    }
}

/* ---- slabs and their parts ---- */

/* Make the next slab if its input and a buffer are there. `patient`: only a full one, as long as more input may come.
 * Under the lock. */
static bool make_slab(struct run *r, bool patient)
{
    if (r->end && !r->settled) {
        if (r->done < r->made) /* nothing that runs may see the length change */
            return false;
        r->total = r->have;
        if (r->nz >= VP_UNKNOWN) {
            r->nz = r->total;
            for (int s = 0; r->e->chain && s < r->e->chain->n; s++)
                r->e->chain->stage[s].image[2] = r->nz;
        }
        r->settled = true;
        pthread_cond_broadcast(&r->moved);
    }
    if (r->made - r->written >= r->plan->slabs)
        return false;
    int64_t g1 = vp_min64(r->next + r->plan->slab, r->total);
    if (r->e->pages) /* one after the other */
        g1 = vp_min64(g1, (r->next / r->plan->window + 1) * r->plan->window);
    if (needed(r, g1) > r->have) {
        if (patient)
            return false;
        while (g1 > r->next && needed(r, g1) > r->have)
            g1--;
    }
    if (r->step > 1 && g1 < r->total) { /* the next slab begins at a step of its image, too */
        const int64_t z1 = g1 - (r->nz >= VP_UNKNOWN ? 0 : time_of(r, g1) * r->nz);
        g1 -= z1 % r->step;
    }
    if (g1 <= r->next)
        return false;
    struct slab *s = &r->slab[r->made % r->plan->slabs];
    const int64_t times = time_of(r, g1 - 1) - time_of(r, r->next) + 1;
    *s = (struct slab){.g0 = r->next, .g1 = g1, .out = s->out,
                       .all = times * r->inner * r->across * r->along};
    r->next = g1;
    r->made++;
    pthread_cond_broadcast(&r->moved);
    return true;
}

/* Column i of a slab. */
static struct column column_of(const struct run *r, struct slab *s, int64_t i)
{
    const int64_t n = r->across * r->along;
    struct column c = {.slab = s, .ix = i % r->across, .iy = i / r->across % r->along, .channel = i / n % r->inner,
                       .time = time_of(r, s->g0) + i / n / r->inner};
    const int64_t start = r->nz >= VP_UNKNOWN ? 0 : c.time * r->nz;
    c.z = vp_max64(s->g0 - start, 0);
    c.z1 = vp_min64(s->g1 - start, r->nz);
    return c;
}

/* Nothing more will come. Under the lock. */
static bool finished(const struct run *r)
{
    return r->stop || (all_made(r) && r->settled);
}

/* The next column for a worker. Under the lock. */
static bool take_column(struct run *r, struct worker *w, bool patient, struct column *c)
{
    if (!r->plan->stream || r->kept) {
        for (int64_t i = r->done; i <= r->made; i++) {
            if (i == r->made && !make_slab(r, patient))
                return false;
            struct slab *s = &r->slab[i % r->plan->slabs];
            if (s->taken < s->all) {
                *c = column_of(r, s, s->taken++);
                return true;
            }
        }
        return false;
    }
    const int64_t columns = r->inner * r->across * r->along;
    if (w->index >= columns || (w->slab == r->made && !make_slab(r, patient))) /* the last band may have fewer */
        return false;
    struct slab *s = &r->slab[w->slab % r->plan->slabs];
    *c = column_of(r, s, w->segment * columns + w->index);
    s->taken++;
    if (++w->segment * columns >= s->all) {
        w->segment = 0;
        w->slab++;
    }
    return true;
}

/* Under the lock. */
void vp_run_column_done(struct run *r, struct slab *s)
{
    if (++s->done < s->all)
        return;
    while (r->done < r->made) {
        const struct slab *oldest = &r->slab[r->done % r->plan->slabs];
        if (oldest->done < oldest->all)
            break;
        r->done++;
    }
    pthread_cond_broadcast(&r->moved);
}

/* The next column, waited for. False: there is none, now (if not `block`) or ever. Under the lock. */
bool vp_run_await(struct run *r, struct worker *w, bool block, struct column *c)
{
    bool patient = true;
    while (!r->stop) {
        if (take_column(r, w, patient, c))
            return true;
        if (!block || finished(r) || (r->plan->stream && w->index >= r->inner * r->across * r->along))
            return false;
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += r->patience;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        const int64_t had = r->have;
        if (r->pipe && !r->end && needed(r, r->next + 1) <= had)
            patient = !pthread_cond_timedwait(&r->moved, &r->lock, &until) || r->have != had;
        else
            pthread_cond_wait(&r->moved, &r->lock);
    }
    return false;
}

/* Boxes and planes of the next part of a column, `depth` planes at most; `pointers` has room for them. */
void vp_run_next_part(const struct run *r, struct column *c, int64_t depth, struct vp_part *in, struct vp_part *out,
                      void **pointers)
{
    const struct vp_plan *plan = r->plan;
    const int64_t start = r->nz >= VP_UNKNOWN ? 0 : c->time * r->nz;
    const int64_t image[3] = {r->nx, r->ny, r->nz};
    struct vp_box o, i;
    o.lo[0] = c->ix * plan->part[0];
    o.hi[0] = vp_min64(o.lo[0] + plan->part[0], r->nx);
    o.lo[1] = r->y0 + c->iy * plan->part[1];
    o.hi[1] = vp_min64(o.lo[1] + plan->part[1], r->y1);
    o.lo[2] = c->z;
    o.hi[2] = vp_min64(c->z + depth, c->z1);
    c->z = o.hi[2];
    for (int a = 0; a < 3; a++) {
        i.lo[a] = r->whole[a] ? 0 : vp_max64(0, o.lo[a] - r->halo[a]);
        i.hi[a] = r->whole[a] ? image[a] : vp_min64(image[a], o.hi[a] + r->halo[a]);
    }
    if (r->kept && o.lo[2] > 0)
        i.lo[2] = vp_min64(image[2], o.lo[2] + r->halo[2]); /* the part before has had the others */
    const int64_t deep = vp_box_size(&i, 2);
    const size_t in_at = (size_t)((i.lo[1] - r->ya) * r->nx + i.lo[0]) * r->in_size;
    const size_t out_at = (size_t)((o.lo[1] - r->y0) * r->nx + o.lo[0]) * r->out_size;
    for (int k = 0; k < r->stacks; k++, pointers += deep) {
        for (int64_t z = 0; z < deep; z++)
            pointers[z] = r->input[k] + in_at
                          + (r->p->single[k] ? 0 : (size_t)((start + i.lo[2] + z) % plan->window) * r->slot
                                                   + (size_t)c->channel * r->page_in);
        in[k] = (struct vp_part){i, r->nx, pointers};
    }
    for (int64_t z = 0; z < vp_box_size(&o, 2); z++)
        pointers[z] = c->slab->out + out_at
                      + (size_t)((start + o.lo[2] + z - c->slab->g0) * r->inner + c->channel) * r->page_out;
    *out = (struct vp_part){o, r->nx, pointers};
}

static size_t pointers_of_part(const struct run *r)
{
    return (size_t)((r->plan->part[2] + 2 * r->halo[2]) * r->stacks + r->plan->part[2]);
}

/* Room for the pointers of one part: where an axis must be whole the input is. */
void **vp_run_pointers(const struct run *r, struct vp_err *err)
{
    size_t n = pointers_of_part(r);
    if (r->whole[2])
        n = (size_t)(r->nz * r->stacks + r->plan->part[2]);
    return vp_alloc_raw(n, sizeof(void *), "a part", err);
}

/* ---- the CPU ---- */

struct bench { /* what a thread has to work with */
    void **pointers;
    void *scratch;
    size_t bytes;
};

/* The next part of a column of a stream. */
static int go_on(struct run *r, const struct column *c, const struct vp_part *in, const struct vp_part *out,
                 void *scratch, int threads, struct vp_err *err)
{
    void **const kept = &r->kept[(c->channel * r->along + c->iy) * r->across + c->ix];
    const bool anew = r->carries && out->box.lo[2] == 0;
    const uint64_t bytes = *kept && !anew ? 0 : vp_chain_keeps(r->e->chain, &out->box, threads);
    if (!*kept && !(*kept = vp_alloc_raw(1, (size_t)bytes, "what is kept of a column", err)))
        return -1;
    if (anew)
        memset(*kept, 0, (size_t)bytes);
    return vp_chain_go_on(r->e->chain, in, out, scratch, *kept, threads, err);
}

/* ---- two visits ---- */

static int64_t boxes_of(const struct vp_problem *p, int64_t n[3])
{
    for (int a = 0; a < 3; a++)
        n[a] = (p->image[a] + p->chain->stage[0].step[a] - 1) / p->chain->stage[0].step[a];
    return n[0] * n[1] * n[2];
}

int64_t vp_run_box(const struct run *r, const struct column *c, const struct vp_box *box)
{
    const int64_t *step = r->e->chain->stage[0].step;
    int64_t n[3];
    const int64_t image = boxes_of(r->p, n);
    return (c->time * r->inner + c->channel) * image
           + (box->lo[2] / step[2] * n[1] + box->lo[1] / step[1]) * n[0] + box->lo[0] / step[0];
}

void *vp_run_entry(const struct run *r, int64_t box, struct vp_err *err)
{
    void *entry = vp_alloc_raw(1, (size_t)vp_store_bytes(r->e->store, box), "what is known of a box", err);
    if (entry && !vp_store_get(r->e->store, box, entry, err))
        return entry;
    free(entry);
    return NULL;
}

static int visit(struct run *r, const struct column *c, const struct vp_part *in, const struct vp_part *out,
                 void *scratch, int threads, struct vp_err *err)
{
    const struct vp_local *op = &r->e->chain->stage[0];
    const int64_t box = vp_run_box(r, c, &out->box);
    const bool first = r->e->visit == VP_SUMMARY;
    struct vp_part args[VP_MAX_INPUTS];
    uint64_t bytes;
    void *entry = first ? vp_alloc_raw(1, (size_t)op->summary(op, &out->box), "what is known of a box", err)
                        : vp_run_entry(r, box, err);
    int rc = -1;
    for (int i = 0; i < op->inputs; i++)
        args[i] = in[~op->from[i]];
    if (entry && first && !op->summarize(op, args, &out->box, entry, scratch, threads, err)) {
        memcpy(&bytes, entry, sizeof bytes);
        rc = vp_store_put(r->e->store, box, entry, bytes, err);
    } else if (entry && !first) {
        rc = op->finish(op, args, out, entry, scratch, threads, err);
    }
    free(entry);
    return rc;
}

/* All parts of a column; the chain's threads are `threads`. */
static int run_column(struct run *r, struct column *c, struct bench *b, int threads, struct vp_err *err)
{
    struct vp_part in[VP_MAX_INPUTS], out;
    if (!b->pointers && !(b->pointers = vp_run_pointers(r, err)))
        return -1;
    while (c->z < c->z1) {
        vp_run_next_part(r, c, r->plan->part[2], in, &out, b->pointers);
        const uint64_t need = vp_chain_bytes(r->e->chain, &out.box, threads);
        if (need > b->bytes) {
            free(b->scratch);
            b->bytes = 0;
            b->scratch = vp_alloc_raw(1, (size_t)need, "buffers between operations", err);
            if (!b->scratch)
                return -1;
            b->bytes = (size_t)need;
        }
        if (r->e->visit != VP_MAKE ? visit(r, c, in, &out, b->scratch, threads, err)
            : r->kept              ? go_on(r, c, in, &out, b->scratch, threads, err)
                                   : vp_chain_run(r->e->chain, in, &out, b->scratch, threads, err))
            return -1;
    }
    return 0;
}

static int work_on_pages(struct run *r, struct slab *s, struct vp_err *err)
{
    struct vp_pages *p = r->e->pages;
    const int64_t n = s->g1 - s->g0;
    s->pages = p->work ? p->work(p->ctx, s->g0, (int)n, pages_in(r, s), r->e->writer ? pages_out(r, s) : NULL, err) : n;
    p->done += n;
    return s->pages < 0 ? -1 : 0;
}

static int run_slab(struct run *r, struct slab *s, struct bench *bench, struct vp_err *err)
{
    const int together = r->plan->together;
    int rc = 0;
    if (r->e->pages)
        return work_on_pages(r, s, err);
    if (together < 2) {
        for (int64_t i = 0; i < s->all && !rc; i++) {
            struct column c = column_of(r, s, i);
            rc = run_column(r, &c, &bench[0], r->p->threads, err);
        }
        return rc;
    }
    #pragma omp parallel for num_threads(together) schedule(dynamic)
    for (int64_t i = 0; i < s->all; i++) {
        struct vp_err own = VP_ERR_INIT;
        struct column c = column_of(r, s, i);
        int before;
        #pragma omp atomic read
        before = rc;
        if (before || !run_column(r, &c, &bench[omp_get_thread_num()], 1, &own))
            continue;
        vp_err_keep(err, &own);
        #pragma omp atomic write
        rc = -1;
    }
    return rc;
}

/* All threads of the CPU work on one slab after the other. */
static int cpu_loop(struct worker *w, struct vp_err *err)
{
    struct run *r = w->r;
    struct bench *bench = calloc((size_t)r->plan->together, sizeof *bench);
    int rc = bench ? 0 : vp_fail(err, VP_ERESOURCE, "not enough memory");
    struct column c;

    for (;;) {
        pthread_mutex_lock(&r->lock);
        const bool go = !rc && vp_run_await(r, w, true, &c);
        if (go)
            c.slab->taken = c.slab->all;
        pthread_mutex_unlock(&r->lock);
        if (!go)
            break;
        const double t = vp_now();
        rc = run_slab(r, c.slab, bench, err);
        w->work_s += vp_now() - t;
        w->parts += c.slab->all;
        if (rc)
            break;
        pthread_mutex_lock(&r->lock);
        c.slab->done = c.slab->all - 1;
        vp_run_column_done(r, c.slab);
        pthread_mutex_unlock(&r->lock);
    }
    for (int i = 0; bench && i < r->plan->together; i++) {
        free(bench[i].pointers);
        free(bench[i].scratch);
    }
    free(bench);
    return rc;
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    struct vp_err err = VP_ERR_INIT;
    if (!w->r->plan->device ? cpu_loop(w, &err)
        : !w->device        ? 0
        : w->r->plan->offset ? vp_run_segments(w, &err)
                             : vp_run_device(w, &err))
        stop(w->r, &err);
    return NULL;
}

/* ---- all of it ---- */

static void *host_alloc(struct run *r, size_t n, size_t bytes, const char *what, struct vp_err *err)
{
    size_t all;
    if (!r->by_device)
        return vp_alloc_raw(n, bytes, what, err);
    return vp_mul_size(&all, n, bytes) ? r->p->kind->host_alloc(all) : NULL;
}

static void release(struct run *r)
{
    void (*const give_back)(void *) = r->by_device ? r->p->kind->host_free : free;
    for (int k = 0; k < r->stacks; k++) {
        if (r->input[k])
            give_back(r->input[k]);
        r->input[k] = NULL;
    }
    for (int i = 0; r->slab && i < r->plan->slabs; i++) {
        if (r->slab[i].out)
            give_back(r->slab[i].out);
        r->slab[i].out = NULL;
    }
}

static int allocate(struct run *r, struct vp_err *err)
{
    const struct vp_plan *plan = r->plan;
    const int64_t rows = plan->bands > 1 ? vp_min64(r->ny, plan->band + 2 * r->halo[1]) : r->ny;
    const size_t page = (size_t)(r->nx * rows) * r->in_size;
    const size_t out = (size_t)(r->nx * plan->band * r->inner) * r->out_size;
    bool ok = true;

    if (r->e->pages) {
        const struct vp_pages *p = r->e->pages;
        r->slot = r->e->page_in;
        if (!r->from_nothing && !(r->input[0] = vp_alloc_raw((size_t)plan->window, r->slot, "input pages", err)))
            return -1;
        for (int i = 0; i < plan->slabs && p->writer && !p->in_place; i++)
            if (!(r->slab[i].out = vp_alloc_raw((size_t)plan->slab, r->e->page_out, "output pages", err)))
                return -1;
        return 0;
    }
    r->slot = page * (size_t)r->inner;
    for (int k = 0; k < r->stacks && ok; k++) {
        r->input[k] = r->p->single[k] ? host_alloc(r, 1, page, "a page", err)
                                      : host_alloc(r, (size_t)plan->window, r->slot, "the window of input", err);
        ok = r->input[k];
    }
    for (int i = 0; i < plan->slabs && ok; i++) {
        r->slab[i].out = host_alloc(r, (size_t)plan->slab, out, "slabs of output", err);
        ok = r->slab[i].out;
    }
    if (ok || !r->by_device)
        return ok ? 0 : -1;
    release(r); /* not enough of that kind: the device copies from ordinary memory, only slower */
    r->by_device = false;
    return allocate(r, err);
}

/* One worker for the CPU, or the plan's for devices. *full: a device had not the memory. */
static int open_workers(struct run *r, bool *full, struct vp_err *err)
{
    const struct vp_plan *plan = r->plan;
    for (int i = 0; i < plan->workers; i++) {
        struct worker *w = &r->worker[i];
        w->r = r;
        w->index = i;
        if (!plan->device)
            continue;
        w->number = r->e->device[i % r->p->devices];
        w->depth = plan->depth[i % r->p->devices];
        w->lanes = plan->lanes;
        if (w->depth && vp_run_open_device(w, err)) {
            if (full && err->code == VP_ERESOURCE)
                *full = true;
            return -1;
        }
    }
    return 0;
}

static int run_threads(struct run *r, struct vp_err *err)
{
    pthread_t reader, writer;
    struct vp_err why = VP_ERR_INIT;
    int rc = r->from_nothing ? 0 : pthread_create(&reader, NULL, reader_main, r);
    const bool have_reader = !rc && !r->from_nothing;
    if (!rc)
        rc = pthread_create(&writer, NULL, writer_main, r);
    const bool have_writer = !rc;
    for (int i = 1; i < r->plan->workers && !rc; i++) {
        rc = pthread_create(&r->worker[i].thread, NULL, worker_main, &r->worker[i]);
        r->worker[i].started = !rc;
    }
    if (rc) {
        vp_fail(&why, VP_ERESOURCE, "a thread cannot be started: %s", strerror(rc));
        stop(r, &why);
    } else {
        worker_main(&r->worker[0]);
    }
    for (int i = 1; i < r->plan->workers; i++)
        if (r->worker[i].started)
            pthread_join(r->worker[i].thread, NULL);
    if (have_reader)
        pthread_join(reader, NULL);
    if (have_writer)
        pthread_join(writer, NULL);
    if (!r->stop)
        return 0;
    vp_fail(err, r->err.code ? r->err.code : VP_ERUN, "%s", r->err.msg[0] ? r->err.msg : "the work failed");
    return r->err.hint[0] ? vp_hint(err, "%s", r->err.hint) : -1;
}

static int run_band(struct run *r, int64_t band, struct vp_err *err)
{
    r->y0 = band * r->plan->band;
    r->y1 = vp_min64(r->y0 + r->plan->band, r->ny);
    r->ya = r->whole[1] ? 0 : vp_max64(0, r->y0 - r->halo[1]);
    r->yb = r->whole[1] ? r->ny : vp_min64(r->ny, r->y1 + r->halo[1]);
    r->page_in = (size_t)(r->nx * (r->yb - r->ya)) * r->in_size;
    r->page_out = (size_t)(r->nx * (r->y1 - r->y0)) * r->out_size;
    r->across = (r->nx + r->plan->part[0] - 1) / r->plan->part[0];
    r->along = (r->y1 - r->y0 + r->plan->part[1] - 1) / r->plan->part[1];
    r->have = r->from_nothing ? r->total : 0;
    r->next = r->made = r->done = r->written = 0;
    r->end = r->from_nothing;
    r->settled = false;
    if (r->e->pages)
        r->page_out = r->e->page_out;
    for (int i = 0; i < r->plan->workers; i++)
        r->worker[i].slab = r->worker[i].segment = 0;
    const int64_t columns = r->across * r->along * r->inner;
    if (r->plan->stream && !r->plan->device && !(r->kept = calloc((size_t)columns, sizeof *r->kept)))
        return vp_fail(err, VP_ERESOURCE, "not enough memory");
    if (r->plan->offset && !(r->carried = calloc((size_t)columns, sizeof *r->carried)))
        return vp_fail(err, VP_ERESOURCE, "not enough memory");
    const int rc = run_threads(r, err);
    for (int64_t i = 0; r->carried && i < columns; i++)
        free(r->carried[i].value);
    free(r->carried);
    r->carried = NULL;
    for (int64_t i = 0; r->kept && i < columns; i++)
        free(r->kept[i]);
    free(r->kept);
    r->kept = NULL;
    return rc;
}

static void tell(struct run *r, double elapsed)
{
    struct vp_stats *stats = r->e->stats;
    double work = 0;
    int64_t parts = 0;

    for (int i = 0; i < r->plan->workers; i++) {
        struct worker *w = &r->worker[i];
        vp_run_close_device(w);
        work += w->work_s;
        parts += w->parts;
        if (!r->plan->device)
            continue;
        vp_stats_time(stats, "device", w->device_s);
        vp_stats_count(stats, "bytes_up", w->up);
        vp_stats_count(stats, "bytes_down", w->down);
    }
    if (!r->from_nothing)
        vp_stats_time(stats, "read", r->read_s);
    vp_stats_time(stats, !r->e->pages ? "compute" : r->e->pages->stage ? r->e->pages->stage : "work", work);
    if (!r->e->pages || r->e->writer)
        vp_stats_time(stats, "write", r->write_s);
    if (r->e->pages)
        return;
    vp_stats_count(stats, "parts", (uint64_t)parts);
    const double voxels = (double)r->total * (double)r->inner * (double)r->nx * (double)r->ny;
    const double bytes = voxels * (double)(r->p->stored_in + r->p->stored_out);
    vp_stats_count(stats, "voxels", (uint64_t)voxels);
    if (elapsed > 0) {
        vp_stats_number(stats, "voxels_per_second", voxels / elapsed);
        vp_stats_number(stats, "megabytes_per_second", bytes / elapsed * 1e-6); /* in and out */
    }
}

static void describe_chain(struct run *r)
{
    const struct vp_chain *c = r->e->chain;
    r->patience = PATIENCE_NS;
    r->stacks = c->stacks;
    r->in_size = vp_type_size(r->e->held);
    r->out_size = vp_type_size(c->stage[c->n - 1].out);
    vp_chain_halo(c, r->halo);
    r->step = 1;
    for (int s = 0; s < c->n; s++) {
        r->step = vp_max64(r->step, c->stage[s].step[2]);
        r->carries = c->stage[s].carries ? &c->stage[s] : r->carries;
        for (int a = 0; a < 3; a++)
            r->whole[a] = r->whole[a] || c->stage[s].whole[a];
    }
    for (int k = 0; k < r->stacks; k++)
        r->pipe = r->pipe || (!r->p->single[k] && !vp_reader_seekable(r->e->reader[k]));
    /* all threads reading, all writing, and all working would wait for each other at every barrier */
    const int busy = r->plan->device ? 2 : 4;
    r->io_threads = (r->p->threads + busy - 1) / busy;
}

static void describe_pages(struct run *r)
{
    const struct vp_pages *p = r->e->pages;
    r->patience = PATIENCE_OF_PAGES_NS;
    r->from_nothing = !p->reader;
    r->stacks = r->from_nothing ? 0 : 1;
    r->pipe = p->reader && !vp_reader_seekable(p->reader);
    r->io_threads = r->p->threads;
}

int vp_execute(struct vp_execute *e, bool *full, struct vp_err *err)
{
    const struct vp_problem *p = e->problem;
    struct run *r = calloc(1, sizeof *r);
    pthread_condattr_t attr;
    int rc = -1;

    if (full)
        *full = false;
    e->smaller = 0;
    if (!r)
        return vp_fail(err, VP_ERESOURCE, "not enough memory");
    r->e = e;
    r->p = p;
    r->plan = e->plan;
    r->nx = p->image[0];
    r->ny = p->image[1];
    r->nz = p->image[2];
    r->inner = p->inner;
    r->total = r->nz >= VP_UNKNOWN || p->outer >= VP_UNKNOWN ? VP_UNKNOWN : r->nz * p->outer;
    if (e->pages)
        describe_pages(r);
    else
        describe_chain(r);
    r->wake[0] = r->wake[1] = -1;
    r->by_device = e->plan->device;
    pthread_mutex_init(&r->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&r->moved, &attr);
    pthread_condattr_destroy(&attr);
    r->slab = calloc((size_t)e->plan->slabs, sizeof *r->slab);

    if (!r->slab)
        vp_fail(err, VP_ERESOURCE, "not enough memory");
    else if (pipe2(r->wake, O_CLOEXEC | O_NONBLOCK))
        vp_fail_errno(err, "a pipe cannot be made");
    else if (!open_workers(r, full, err) && !allocate(r, err)) {
        vp_progress_start(e->progress, e->pages ? e->pages->stage : e->chain->stage[0].kernel, "pages",
                          r->total >= VP_UNKNOWN ? -1 : r->total * r->inner * e->plan->bands);
        const double t = vp_now();
        rc = 0;
        for (int64_t b = 0; b < e->plan->bands && !rc; b++)
            rc = run_band(r, b, err);
        if (!rc)
            tell(r, vp_now() - t);
    }
    for (int i = 0; i < VP_MAX_WORKERS; i++) {
        struct worker *w = &r->worker[i];
        vp_run_close_device(w);
        for (int l = 0; l < VP_MAX_LANES; l++)
            free(w->lane[l].pointers);
    }
    release(r);
    for (int i = 0; i < 2; i++)
        if (r->wake[i] >= 0)
            close(r->wake[i]);
    pthread_cond_destroy(&r->moved);
    pthread_mutex_destroy(&r->lock);
    free(r->slab);
    free(r);
    return rc;
}

int vp_execute_twice(struct vp_execute *e, uint64_t memory, bool *full, struct vp_err *err)
{
    struct vp_local *op = &e->chain->stage[0];
    int64_t n[3];
    const int64_t boxes = boxes_of(e->problem, n) * e->problem->inner * e->problem->outer;
    int rc = vp_store_open(&e->store, boxes, memory, err);
    if (!rc) {
        e->visit = VP_SUMMARY;
        rc = vp_execute(e, full, err);
    }
    for (int k = 0; k < e->chain->stacks && !rc; k++)
        rc = vp_reader_seek(e->reader[k], 0, err);
    rc = rc || (op->solve && op->solve(op, e->store, e->problem->threads, err)) ? -1 : 0;
    if (!rc) {
        e->visit = VP_FINISH;
        rc = vp_execute(e, full, err);
    }
    vp_store_close(e->store);
    e->store = NULL;
    e->visit = VP_MAKE;
    return rc;
}
