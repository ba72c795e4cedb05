/* SPDX-License-Identifier: BSD-3-Clause */
/* Projections view by view. A sinogram stack has detector row v as page v and view i as its row i; to hand
 * over views, a block of consecutive views is held for the rows requested. Of a pipe, which comes row by row of the
 * detector, all are kept in memory first. */
#include "stack/views.h"
#include "base/err.h"
#include "base/size.h"
#include "stack/source.h"
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 64 << 20 };

struct vp_views {
    struct vp_reader *reader;
    bool sinograms, held; /* held: the reader has kept those of a pipe */
    int64_t nu, nv, count;
    float *block; /* [view - first][row - v0][u] */
    int64_t first, views; /* views in the block; 0: none */
    int64_t v0, v1; /* its detector rows */
    int64_t room; /* samples that `block` has room for */
    uint64_t memory; /* bytes that may be taken */
};

/* Returns the bytes of all sinograms of a pipe, as they are kept. */
static uint64_t held_bytes(const struct vp_views *v)
{
    size_t bytes;
    return vp_mul_size(&bytes, vp_page_bytes(vp_reader_stack(v->reader)), (size_t)v->nv) ? bytes : UINT64_MAX;
}

static int too_large(const struct vp_views *v, struct vp_err *err)
{
    vp_fail(err, VP_ERESOURCE, "%s: sinograms from a pipe are held in memory: expected at most %s, got %s",
            vp_reader_name(v->reader), vp_bytes_text(v->memory).text,
            v->nv > 0 ? vp_bytes_text(held_bytes(v)).text : "more");
    return vp_hint(err, "give the file name instead, use --spool, or allow more with --memory");
}

/* Sinograms of a pipe are kept. */
static int hold(struct vp_views *v, struct vp_err *err)
{
    if (!v->sinograms || vp_reader_seekable(v->reader))
        return 0;
    const int rc = vp_reader_keep(v->reader, v->memory, NULL, err);
    if (rc)
        return rc > 0 ? too_large(v, err) : -1;
    v->nv = vp_reader_stack(v->reader)->pages;
    v->held = true;
    return 0;
}

int vp_views_open(struct vp_views **out, struct vp_reader *reader, bool sinograms, uint64_t memory,
                  struct vp_err *err)
{
    const struct vp_stack *s = vp_reader_stack(reader);
    struct vp_views *v = vp_alloc(1, sizeof *v, "views", err);
    if (!v)
        return -1;
    v->reader = reader;
    v->sinograms = sinograms;
    v->nu = s->nx;
    v->nv = sinograms ? s->pages : s->ny;
    v->count = sinograms ? s->ny : s->pages;
    v->memory = memory ? memory : UINT64_MAX;
    /* their number must be known now, their samples later: a plan reads none */
    if (sinograms && !vp_reader_seekable(reader) &&
        (v->nv < 0 ? hold(v, err) : held_bytes(v) > v->memory && too_large(v, err))) {
        vp_views_close(v);
        return -1;
    }
    *out = v;
    return 0;
}

const char *vp_views_name(const struct vp_views *v)
{
    return vp_reader_name(v->reader);
}

int64_t vp_views_nv(const struct vp_views *v)
{
    return v->nv;
}

bool vp_views_seekable(const struct vp_views *v)
{
    return v->sinograms || vp_reader_seekable(v->reader);
}

/* Returns the samples of the block that load() fills: all the views that it helps to read at once, but no more than an
 * eighth of the memory, for the block is only one of those who want it. */
static int64_t block_samples(const struct vp_views *v)
{
    return (int64_t)((v->memory / 8 < BLOCK_BYTES ? v->memory / 8 : BLOCK_BYTES) / sizeof(float));
}

uint64_t vp_views_bytes(const struct vp_views *v)
{
    if (!v->sinograms)
        return 0;
    const int64_t one = v->nu * v->nv, block = block_samples(v);
    if (v->held || !vp_reader_seekable(v->reader))
        return held_bytes(v);
    return (uint64_t)vp_min64(one > block ? one : block, one * v->count) * sizeof(float);
}

/* Views from `first` on (VP_NEXT: of a pipe, a page each): how many there were, or -1. A sinogram has a row of each,
 * which lie together there, and apart in `out`. */
static int64_t read_views(struct vp_views *v, int64_t first, int64_t n, int64_t v0, int64_t v1, float *out,
                          int64_t *bad, int threads, struct vp_err *err)
{
    const size_t nu = (size_t)v->nu, view = (size_t)(v1 - v0) * nu;
    const struct vp_wanted w =
        v->sinograms ? (struct vp_wanted){v0, v1 - v0, first, first + n, true, bad, threads,
                                          .stride = view * sizeof *out}
                     : (struct vp_wanted){first, n, v0, v1, true, bad, .threads = threads};
    void **to = vp_alloc_raw((size_t)w.n, sizeof *to, "a list of views", err);
    for (int64_t i = 0; to && i < w.n; i++)
        to[i] = out + (size_t)i * (v->sinograms ? nu : view);
    const int64_t got = to ? vp_reader_read(v->reader, &w, to, err) : -1;
    free(to);
    return got < 0 ? -1 : v->sinograms ? n : got;
}

/* Loads `view` and rows [v0, v1) into the block, with the views after it that memory allows. */
static int load(struct vp_views *v, int64_t view, int64_t v0, int64_t v1, struct vp_err *err)
{
    if (view >= v->first && view < v->first + v->views && v0 >= v->v0 && v1 <= v->v1)
        return 0;
    /* samples of a view; each is at most a page, so the product fits */
    const int64_t one = v->nu * (v1 - v0);
    int64_t views = block_samples(v) / one;
    views = vp_min64(views < 1 ? 1 : views, v->count - view);
    v->views = 0;
    if (v->room < views * one) {
        free(v->block);
        v->room = 0;
        v->block = vp_alloc_raw((size_t)(views * one), sizeof(float), "a block of views", err);
        if (!v->block)
            return -1;
        v->room = views * one;
    }
    if (read_views(v, view, views, v0, v1, v->block, NULL, 1, err) < 0)
        return -1;
    v->first = view;
    v->views = views;
    v->v0 = v0;
    v->v1 = v1;
    return 0;
}

/* Sinograms of a file in which rows cost more than their bytes: n, or -1. */
static int64_t blocks(struct vp_views *v, int64_t first, int64_t n, int64_t v0, int64_t v1, float *out, int64_t *bad,
                      struct vp_err *err)
{
    const size_t size = (size_t)((v1 - v0) * v->nu);
    const bool count = bad && vp_type_is_float(vp_reader_stack(v->reader)->type);
    for (int64_t view = first; view < first + n; view++, out += size) {
        if (load(v, view, v0, v1, err))
            return -1;
        const int64_t row = (view - v->first) * (v->v1 - v->v0) + v0 - v->v0;
        memcpy(out, v->block + (size_t)(row * v->nu), size * sizeof *out);
        if (count)
            *bad += vp_count_bad(out, size);
    }
    return n;
}

/* Advances a pipe to view `first`: 1, 0 if that ends before it, or -1. */
static int go_on_to(struct vp_views *v, int64_t first, struct vp_err *err)
{
    const int64_t next = vp_reader_position(v->reader);
    if (first < next)
        return vp_fail(err, VP_ERUN, "%s: view %lld cannot be read again from a pipe", vp_views_name(v),
                       (long long)first);
    return vp_reader_skip(v->reader, first - next, err);
}

int64_t vp_views_read(struct vp_views *v, int64_t first, int64_t n, int64_t v0, int64_t v1, float *out, int64_t *bad,
                      int threads, struct vp_err *err)
{
    if (hold(v, err))
        return -1;
    if (first < 0 || v0 < 0 || v1 > v->nv || v0 > v1) /* such a view may lie past the end */
        return vp_fail(err, VP_ERUN, "%s: rows %lld to %lld of view %lld: expected 0 to %lld", vp_views_name(v),
                       (long long)v0, (long long)v1, (long long)first, (long long)v->nv);
    if (v->count >= 0)
        n = vp_max64(vp_min64(n, v->count - first), 0);
    if (n == 0 || v0 == v1)
        return n;
    const bool pipe = !vp_reader_seekable(v->reader);
    const int rc = pipe ? go_on_to(v, first, err) : 1;
    if (rc <= 0)
        return rc;
    return v->sinograms && !vp_reader_concurrent(v->reader)
               ? blocks(v, first, n, v0, v1, out, bad, err)
               : read_views(v, pipe ? VP_NEXT : first, n, v0, v1, out, bad, threads, err);
}

int vp_views_finish(struct vp_views *v, struct vp_err *err)
{
    if (vp_reader_seekable(v->reader))
        return 0;
    const int64_t done = vp_reader_position(v->reader);
    const int rc = vp_reader_skip(v->reader, 1, err);
    return rc <= 0 ? rc : vp_fail(err, VP_ERUN, "%s: expected %lld pages, got more", vp_views_name(v), (long long)done);
}

void vp_views_close(struct vp_views *v)
{
    if (!v)
        return;
    free(v->block);
    free(v);
}
