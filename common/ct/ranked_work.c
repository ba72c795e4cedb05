/* SPDX-License-Identifier: BSD-3-Clause */
#include "ct/ranked_work.h"

#include "base/err.h"
#include "base/size.h"
#include "device/ranks.h"

#include <stdlib.h>
#include <string.h>

/* ---- views ---- */

/* Returns the first of n items that belongs to part i of `of` parts. */
static int64_t begin_of(int64_t n, int i, int of)
{
    return n * i / of;
}

static int64_t width_of(const struct vp_sharing *s)
{
    return s->filter ? s->of->projections.nu : s->of->in_nu;
}

/* Sets the rows that are read: those that any rank needs; normalisation needs whole views. */
static void rows_read(const struct vp_sharing *s, int64_t *v0, int64_t *v1)
{
    *v0 = s->of->projections.nv;
    *v1 = 0;
    for (int i = 0; i < s->n; i++) {
        *v0 = vp_min64(*v0, s->rows[i][0]);
        *v1 = vp_max64(*v1, s->rows[i][1]);
    }
    if (s->of->normalize) {
        *v0 = 0;
        *v1 = s->of->projections.nv;
    }
}

/* Returns the samples of `views` views, and of the wider rows that the filter makes of them. */
static size_t samples_of(const struct vp_reconstruct *r, bool filter, int64_t views)
{
    const int64_t wide = filter && r->projections.nu > r->in_nu ? r->projections.nu : 0;
    return (size_t)(views * r->projections.nv * (r->in_nu + wide));
}

uint64_t vp_sharing_bytes(const struct vp_reconstruct *r, int ranks, int batch)
{
    return 2 * samples_of(r, r->filter, vp_div_up(batch, ranks)) * sizeof(float);
}

static int make_room(struct vp_sharing *s, int64_t views, struct vp_err *err)
{
    const size_t room = samples_of(s->of, s->filter, views);
    float **const own = &s->own[s->turn];
    if (s->room[s->turn] >= room)
        return 0;
    free(*own);
    *own = vp_alloc_raw(room, sizeof(float), "the views to be shared", err);
    s->room[s->turn] = *own ? room : 0;
    return *own ? 0 : -1;
}

/* Reads and prepares views [first, first + n) of this rank. Returns them, rows [u0, u1) of each. */
static float *read_own(struct vp_sharing *s, int64_t first, int64_t n, int64_t u0, int64_t u1, struct vp_err *err)
{
    const struct vp_reconstruct *r = s->of;
    if (make_room(s, n, err))
        return NULL;
    float *const own = s->own[s->turn];
    float *const out = width_of(s) > r->in_nu ? own + n * (u1 - u0) * r->in_nu : own;
    double t = vp_now();
    if (vp_reconstruct_read(r, first, n, u0, u1, own, &s->bad, err))
        return NULL;
    s->load += vp_now() - t;
    t = vp_now();
    if (r->normalize)
        vp_normalize_pages(r->normalize, 0, first, n, own, own, s->repaired);
    else
        vp_blank_look(&s->repaired->blank, own, first, n, r->in_nu * (u1 - u0));
    if (r->filter)
        vp_filter_look(r->filter, first, n, u0, u1, own, &s->truncation);
    if (s->filter)
        vp_filter_rows(r->filter, first, n, u0, u1, own, out);
    s->work += vp_now() - t;
    return out;
}

static int make_messages(struct vp_sharing *s, int n, struct vp_err *err)
{
    if (s->most >= n)
        return 0;
    struct vp_message ***const all[] = {&s->message[0], &s->message[1], &s->taken};
    for (int i = 0; i < 3; i++) {
        struct vp_message **more = realloc(*all[i], (size_t)n * (size_t)s->n * sizeof *more);
        if (!more)
            return vp_fail(err, VP_ERESOURCE, "out of memory");
        *all[i] = more;
    }
    s->most = n;
    return 0;
}

int vp_sharing_read(void *arg, int64_t first, int n, int64_t v0, int64_t v1, float *to, struct vp_err *err)
{
    struct vp_sharing *s = arg;
    const int64_t width = width_of(s), bytes = (v1 - v0) * width * (int64_t)sizeof(float);
    const int64_t mine = begin_of(n, s->it, s->n), end = begin_of(n, s->it + 1, s->n);
    int64_t u0, u1;
    int sent = 0, taken = 0;

    rows_read(s, &u0, &u1);
    if (v0 != s->rows[s->it][0] || v1 != s->rows[s->it][1])
        return vp_fail(err, VP_ERUN, "rank %d requests other detector rows than it announced", s->ranks->rank);
    /* the buffer of the batch before the last */
    s->turn = !s->turn;
    if (make_messages(s, n, err) || vp_ranks_wait(s->ranks, s->message[s->turn], s->messages[s->turn], err))
        return -1;
    s->messages[s->turn] = 0;
    for (int k = 0; k < s->n; k++)
        for (int64_t i = begin_of(n, k, s->n); i < begin_of(n, k + 1, s->n) && k != s->it; i++)
            if (s->ranks->take(s->ranks, s->first + k, VP_LANE_VIEWS, to + i * (v1 - v0) * width, (size_t)bytes,
                               &s->taken[taken++], err))
                return -1;
    const float *own = mine < end ? read_own(s, first + mine, end - mine, u0, u1, err) : NULL;
    if (mine < end && !own)
        return -1;
    /* to the next rank first, so that not all send to the same one */
    for (int d = 1; d < s->n; d++) {
        const int k = (s->it + d) % s->n;
        const int64_t w0 = s->rows[k][0], w1 = s->rows[k][1];
        for (int64_t i = 0; i < end - mine; i++) {
            const size_t part = (size_t)((w1 - w0) * width) * sizeof(float);
            if (s->ranks->send(s->ranks, s->first + k, VP_LANE_VIEWS, own + (i * (u1 - u0) + w0 - u0) * width, part,
                               &s->message[s->turn][sent++], err))
                return -1;
            s->messages[s->turn] = sent;
            s->sent += part;
        }
    }
    for (int64_t i = mine; i < end; i++)
        memcpy(to + i * (v1 - v0) * width, own + ((i - mine) * (u1 - u0) + v0 - u0) * width, (size_t)bytes);
    const double t = vp_now();
    const int rc = vp_ranks_wait(s->ranks, s->taken, taken, err);
    s->gather += vp_now() - t;
    return rc;
}

int vp_sharing_finish(struct vp_sharing *s, struct vp_err *err)
{
    if (vp_ranks_wait(s->ranks, s->message[0], s->messages[0], err)
        || vp_ranks_wait(s->ranks, s->message[1], s->messages[1], err))
        return -1;
    s->messages[0] = s->messages[1] = 0;
    return 0;
}

void vp_sharing_free(struct vp_sharing *s, bool well)
{
    /* after a failure messages may still be on their way: from memory that stays */
    for (int i = 0; i < 2; i++) {
        if (well)
            free(s->own[i]);
        free(s->message[i]);
    }
    free(s->taken);
}

/* ---- slices ---- */

/* Returns the first row of an image that a column of the grid adds up. */
static int64_t y_of(const struct vp_adding *a, int column)
{
    return begin_of(a->of->grid->n[1], column, a->columns);
}

static int64_t most_rows(const struct vp_reconstruct *r, int columns)
{
    return vp_div_up(r->grid->n[1], columns);
}

uint64_t vp_adding_bytes(const struct vp_reconstruct *r, int columns, int64_t group)
{
    const uint64_t rows = (uint64_t)(group * most_rows(r, columns));
    return columns > 1 ? (uint64_t)columns * rows * (uint64_t)r->grid->n[0] * sizeof(float) : 0;
}

static int write_rows(struct vp_adding *a, int64_t z, int64_t n, int64_t y0, int64_t y1, const float *rows,
                      struct vp_err *err)
{
    const double t = vp_now();
    const int rc = a->writer && y1 > y0
                       ? vp_writer_bands(a->writer, z - a->z0, n, y0, y1, rows, a->of->threads, err) : 0;
    a->store += vp_now() - t;
    return rc;
}

/* Adds up this rank's rows of n slices, those of all columns in their order, into the last of the partial ones. */
static const float *add_up(struct vp_adding *a, int64_t n, int64_t y0, int64_t y1, const float *slices, size_t part)
{
    const int64_t nx = a->of->grid->n[0], ny = a->of->grid->n[1], count = (y1 - y0) * nx;
    float *const sum = a->partial + (size_t)(a->columns - 1) * part;
#pragma omp parallel for num_threads(a->of->threads) schedule(static) collapse(2)
    for (int64_t i = 0; i < n; i++)
        for (int64_t row = 0; row < y1 - y0; row++)
            for (int c = 0; c < a->columns; c++) {
                const float *from = c == a->it ? slices + (i * ny + y0 + row) * nx
                                               : a->partial + (size_t)(c - (c > a->it)) * part + i * count + row * nx;
                float *const to = sum + i * count + row * nx;
                for (int64_t x = 0; x < nx; x++)
                    to[x] = c ? to[x] + from[x] : from[x];
            }
    return sum;
}

static int exchange(struct vp_adding *a, int64_t n, int64_t y0, int64_t y1, const float *slices, size_t part,
                    struct vp_err *err)
{
    const int64_t nx = a->of->grid->n[0], ny = a->of->grid->n[1];
    const size_t mine = (size_t)((y1 - y0) * nx);
    int k = 0;
    for (int d = 1; d < a->columns; d++) {
        const int c = (a->it + d) % a->columns, other = c * a->rows + a->row;
        const int64_t w0 = y_of(a, c), w1 = y_of(a, c + 1);
        float *const to = a->partial + (size_t)(c - (c > a->it)) * part;
        for (int64_t i = 0; i < n; i++) {
            if (a->ranks->take(a->ranks, other, VP_LANE_SLICES, to + (size_t)i * mine, mine * sizeof(float),
                               &a->message[k++], err)
                || a->ranks->send(a->ranks, other, VP_LANE_SLICES, slices + (i * ny + w0) * nx,
                                  (size_t)((w1 - w0) * nx) * sizeof(float), &a->message[k++], err))
                return -1;
        }
    }
    return vp_ranks_wait(a->ranks, a->message, k, err);
}

int vp_adding_put(void *arg, int64_t z, int64_t n, const float *slices, struct vp_err *err)
{
    struct vp_adding *a = arg;
    if (vp_ranks_check(a->ranks, err))
        return -1;
    if (a->columns == 1)
        return write_rows(a, z, n, 0, a->of->grid->n[1], slices, err);
    const size_t part = (size_t)(a->group * most_rows(a->of, a->columns) * a->of->grid->n[0]);
    const double t = vp_now();
    if (!a->partial && (!(a->partial = vp_alloc_raw((size_t)a->columns * part, sizeof(float), "partial sums", err))
                        || !(a->message = vp_alloc((size_t)(2 * (a->columns - 1) * a->group), sizeof *a->message,
                                                   "messages", err))))
        return -1;
    const int64_t y0 = y_of(a, a->it), y1 = y_of(a, a->it + 1);
    if (exchange(a, n, y0, y1, slices, part, err))
        return -1;
    const float *sum = add_up(a, n, y0, y1, slices, part);
    a->reduce += vp_now() - t;
    return write_rows(a, z, n, y0, y1, sum, err);
}

void vp_adding_free(struct vp_adding *a, bool well)
{
    if (well)
        free(a->partial);
    free(a->message);
}
