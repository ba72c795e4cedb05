/* SPDX-License-Identifier: BSD-3-Clause */
/* The window of the engine: which planes of the input must be there, and the thread that reads them. */
#include "engine/execute_internal.h"

#include "engine/pages.h"

#include <stdlib.h>
#include <string.h>

enum { BATCH_BYTES = 16 << 20, PIPE_BYTES = 1 << 18 };

/* ---- planes ---- */

int64_t vp_run_needed(const struct run *r, int64_t g1)
{
    if (g1 == 0 || r->flow)
        return g1;
    const int64_t t = vp_run_time(r, g1 - 1), z1 = g1 - vp_run_start(r, t);
    return vp_run_input_start(r, t) + (r->whole[2] ? r->input_n[2] : vp_run_input_z(r, z1 + r->halo[2]));
}

int64_t vp_run_kept(const struct run *r, int64_t g)
{
    if (r->flow)
        return g;
    const int64_t t = vp_run_time(r, g), z = g - vp_run_start(r, t);
    if (z > 0 && r->plan->stream)
        return vp_run_needed(r, g);
    return vp_run_input_start(r, t) + (r->whole[2] || z == 0 ? 0 : vp_run_input_z(r, z - r->halo[2]));
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

/* The next n rows of stack k. Returns how many came. */
static int64_t read_rows(struct run *r, int k, int64_t n, char *to, struct vp_err *err)
{
    struct vp_reader *reader = r->e->reader[k];
    const enum vp_type stored = vp_reader_stack(reader)->type;
    const size_t shift = (size_t)(n * r->input_n[0]) * (r->in_size - vp_type_size(stored));
    const int64_t got = vp_reader_lines(reader, n, 0, 0, to + shift, r->io_threads, err);
    if (got > 0 && stored != r->e->held)
        spread(to, r->e->held, stored, n * r->input_n[0]); /* fewer than n: nobody looks at the rest */
    return got;
}

/* n rows of stack k, the first being plane g. Returns how many came. */
static int64_t read_lines(struct run *r, int k, int64_t g, int64_t n, struct vp_err *err)
{
    int64_t done = 0;
    while (done < n) { /* to where the window begins anew */
        const int64_t slot = (g + done) % r->plan->window, m = vp_min64(n - done, r->plan->window - slot);
        const int64_t got = read_rows(r, k, m, r->input[k] + (size_t)slot * r->slot, err);
        if (got < 0)
            return -1;
        done += got;
        if (got < m)
            break;
    }
    return done;
}

/* n bands of pages of stack k, the first being plane g: what the band before has of a page's rows is copied. Returns
 * how many came. */
static int64_t read_bands(struct run *r, int k, int64_t g, int64_t n, struct vp_err *err)
{
    const struct vp_pages *p = r->e->pages;
    const int64_t bands = r->plan->bands;
    const size_t row = (size_t)r->input_n[0] * r->in_size;
    for (int64_t i = g; i < g + n; i++) {
        const struct rows now = vp_run_rows(r, i % bands);
        char *to = r->input[k] + (size_t)(i % r->plan->window) * r->slot;
        int64_t had = 0;
        if (i % bands > 0) {
            const struct rows before = vp_run_rows(r, i % bands - 1);
            const char *from = r->input[k] + (size_t)((i - 1) % r->plan->window) * r->slot;
            had = before.yb - now.ya;
            memmove(to, from + (size_t)(now.ya - before.ya) * row, (size_t)had * row);
        } else if (i > 0 && r->p->single[k] && vp_reader_seek(r->e->reader[k], 0, err)) {
            return -1; /* it comes with every page */
        }
        const int64_t more = now.yb - now.ya - had;
        const int64_t got = p && p->read_rows ? more * p->read_rows(p->source, i / bands, now.y0, now.y1, to,
                                                                    r->io_threads, err)
                                              : read_rows(r, k, more, to + (size_t)had * row, err);
        if (got < more)
            return got < 0 ? -1 : i - g;
    }
    return n;
}

/* n planes of stack k, the first being plane g. Returns how many came. */
static int64_t read_planes(struct run *r, int k, int64_t g, int64_t n, struct vp_err *err)
{
    struct vp_pages *p = r->e->pages;
    struct vp_reader *reader = r->e->reader[k];
    const enum vp_type stored = vp_reader_stack(reader)->type, held = r->e->held;
    const bool single = r->p->single[k];
    const int64_t inner = single ? 1 : r->inner, pages = n * inner, samples = r->input_n[0] * (r->rows.yb - r->rows.ya);
    const size_t shift = (size_t)samples * (r->in_size - vp_type_size(stored));
    const int threads = r->io_threads;
    if (r->p->lines)
        return read_lines(r, k, g, n, err);
    if (r->flow)
        return read_bands(r, k, g, n, err);
    void **to = malloc((size_t)pages * sizeof *to);
    if (!to)
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    for (int64_t i = 0; i < pages; i++)
        to[i] = r->input[k] + (single ? 0 : (size_t)((g + i / inner) % r->plan->window) * r->slot)
                + (size_t)(i % inner) * r->page_in + shift;
    struct vp_wanted w = {VP_NEXT, pages, .f32 = p && p->as_f32, .bad = p ? &p->bad : NULL, .threads = threads};
    if (r->plan->bands > 1) {
        w.page = g * inner;
        w.y0 = r->rows.ya - r->before[1];
        w.y1 = r->rows.yb - r->before[1];
    }
    const int64_t got = p && p->read ? p->read(p->source, g, n, to, threads, err) : vp_reader_read(reader, &w, to, err);
    if (got > 0 && stored != held) {
        #pragma omp parallel for num_threads(threads) schedule(dynamic) if (pages > 1)
        for (int64_t i = 0; i < got; i++)
            spread((char *)to[i] - shift, held, stored, samples);
    }
    free(to);
    if (got > 0 && got % inner)
        return vp_fail(err, VP_ERUN, "%s: the pages end inside slice %lld: expected %lld pages a slice",
                       vp_reader_name(reader), (long long)(g + got / inner), (long long)inner);
    return got < 0 ? -1 : got / inner;
}

/* So many planes of input as pages. */
static int64_t pages_of(const struct run *r, int64_t planes)
{
    return r->flow ? planes / r->plan->bands : planes * r->inner;
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
                                           vp_reader_name(reader), (long long)pages_of(r, r->input_total), known);
    }
    return 0;
}

static const char *name_of(const struct run *r)
{
    return r->e->reader[0] ? vp_reader_name(r->e->reader[0]) : "the input";
}

int vp_run_read(void *ctx, struct vp_err *err)
{
    struct run *r = ctx;
    const struct vp_problem *p = r->p;

    const double start = vp_now();
    for (int k = 0; k < r->stacks; k++) {
        const int64_t got = p->single[k] && !r->flow ? read_planes(r, k, 0, 1, err) : 1;
        if (got != 1)
            return got < 0 ? -1 : vp_fail(err, VP_ERUN, "%s: no page", vp_reader_name(r->e->reader[k]));
    }
    r->read_s += vp_now() - start;
    const int64_t few = r->p->lines ? vp_max64(1, PIPE_BYTES / (int64_t)r->slot) : 1;
    const int64_t batch = r->pipe || r->flow ? few
                                             : vp_max64(1, (int64_t)(BATCH_BYTES / (r->slot * (size_t)r->stacks)));
    for (;;) {
        pthread_mutex_lock(&r->lock);
        int64_t room = 0;
        while (!r->stop && r->have < r->input_total && (room = low_plane(r) + r->plan->window - r->have) <= 0)
            pthread_cond_wait(&r->moved, &r->lock);
        const bool go = !r->stop && r->have < r->input_total;
        const int64_t g = r->have, n = go ? vp_min64(vp_min64(room, batch), r->input_total - g) : 0;
        pthread_mutex_unlock(&r->lock);
        if (!go)
            break;
        const double t = vp_now();
        int64_t got = n;
        for (int k = 0, first = -1; k < r->stacks; k++) {
            if (p->single[k] && !r->flow)
                continue;
            const int64_t here = read_planes(r, k, g, n, err);
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
    const int64_t total = r->input_total, nz = r->input_n[2], shrinks = -r->before[2] - r->behind[2];
    if (total < VP_UNKNOWN && r->have < total)
        return vp_fail(err, VP_ERUN, "%s: expected %lld pages, got %lld", name_of(r), (long long)pages_of(r, total),
                       (long long)pages_of(r, r->have));
    if (nz < VP_UNKNOWN && !r->flow && r->have % nz)
        return vp_fail(err, VP_ERUN, "%s: the pages end inside an image: expected a multiple of %lld, got %lld",
                       vp_reader_name(r->e->reader[0]), (long long)(nz * r->inner), (long long)(r->have * r->inner));
    if (nz >= VP_UNKNOWN && r->have > 0 && r->have <= shrinks)
        return vp_fail(err, VP_ERUN, "%s has %lld pages: expected at least %lld, for a result of one", name_of(r),
                       (long long)(r->have * r->inner), (long long)((shrinks + 1) * r->inner));
    if (total < VP_UNKNOWN && !r->e->pages && check_ends(r, err))
        return -1;
    pthread_mutex_lock(&r->lock);
    r->end = true;
    pthread_cond_broadcast(&r->moved);
    pthread_mutex_unlock(&r->lock);
    return 0;
}
