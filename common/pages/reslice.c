/* SPDX-License-Identifier: BSD-3-Clause */
/* Samples of a stack in another order. A page of the result is a page of the input, or a row or a column of all of its
 * pages. Rows are read in bands, so files are read once; columns come with whole rows, so a file is read once for each
 * batch of them, and batches are as large as the memory allows. */
#include "pages/reslice.h"

#include "base/err.h"
#include "base/size.h"
#include "pages/reframe.h"
#include "stack/axes.h"

#include <stdlib.h>
#include <string.h>

void vp_reslice_flip(struct vp_reslice *r, int a)
{
    r->flip[a] = !r->flip[a];
}

void vp_reslice_turn(struct vp_reslice *r, int a)
{
    const int b = (a + 1) % 3, c = (a + 2) % 3, from = r->from[b];
    const bool flip = r->flip[b];

    r->from[b] = r->from[c];
    r->flip[b] = !r->flip[c];
    r->from[c] = from;
    r->flip[c] = flip;
}

int vp_reslice_make(struct vp_reslice *r, const struct vp_stack *in, bool flat, const char *name, struct vp_err *err)
{
    struct vp_axes axes;

    vp_axes_get(in, &axes);
    const int z = vp_axes_z(&axes);
    r->in[0] = in->nx;
    r->in[1] = in->ny;
    r->in[2] = in->pages;
    r->inner = r->outer = 1;
    r->volume = z >= 0 || !axes.n;
    if (flat || (axes.n > 1 && z < 0 && r->from[2] == 2 && !r->flip[2])) {
        r->in[2] = 1;
        r->outer = in->pages;
        if (r->from[2] != 2 || r->flip[2])
            return vp_fail_hint(err, VP_EUSAGE, "without --2d pages are the third axis",
                                "--2d: the pages of the result are along another axis: expected x and y alone");
    } else if (axes.n > 1) {
        if (!axes.sized || z < 0)
            return vp_fail_hint(err, VP_ERUN, "img-cat --pages picks some of them",
                                "%s: pages along %s axes: expected their sizes, and z among them", name,
                                axes.n == 2 ? "two" : "several");
        for (int i = 0; i < axes.n; i++)
            if (i != z)
                *(i < z ? &r->inner : &r->outer) *= axes.size[i];
        r->in[2] = axes.size[z];
    }
    for (int a = 0; a < 3; a++)
        r->out[a] = r->in[r->from[a]];
    r->streams = r->from[2] == 2 && !r->flip[2];
    return 0;
}

int vp_reslice_stack(const struct vp_reslice *r, const struct vp_stack *in, struct vp_stack *out, char *note, size_t n,
                     struct vp_err *err)
{
    if (vp_stack_copy(out, in))
        return vp_fail(err, VP_ERESOURCE, "out of memory: the metadata");
    out->nx = r->out[0];
    out->ny = r->out[1];
    out->pages = in->pages < 0 ? -1 : r->inner * r->out[2] * r->outer;
    if (!vp_reframe_turned(r->from, r->flip, r->in, r->volume, in, out, note, n, err))
        return 0;
    vp_stack_free(out);
    return -1;
}

/* ---- copies ---- */

enum { TILE = 32, GROUP = 32, BUFFER = 8 << 20, ROWS_BYTES = 256 << 10 };

/* Samples of a box in memory: sample (i, j) is at from + i * step[0] + j * step[1], counted in samples. */
#define COPY(T)                                                                                                        \
    do {                                                                                                               \
        const T *const s = from;                                                                                       \
        T *const d = to;                                                                                               \
        for (int64_t j0 = 0; j0 < n[1]; j0 += TILE)                                                                    \
            for (int64_t i0 = 0; i0 < n[0]; i0 += TILE)                                                                \
                for (int64_t j = j0; j < j0 + TILE && j < n[1]; j++)                                                   \
                    for (int64_t i = i0; i < i0 + TILE && i < n[0]; i++)                                               \
                        d[j * stride + i] = s[i * step[0] + j * step[1]];                                              \
    } while (0)

/* Copies n[0] x n[1] samples into rows `stride` samples apart, by tiles that stay in the first-level cache. */
static void copy(void *to, int64_t stride, const void *from, const int64_t step[2], const int64_t n[2], size_t size)
{
    if (step[0] == 1) {
        for (int64_t j = 0; j < n[1]; j++)
            memcpy((char *)to + (size_t)(j * stride) * size, (const char *)from + j * step[1] * (int64_t)size,
                   (size_t)n[0] * size);
        return;
    }
    switch (size) {
    case 1: COPY(uint8_t); break;
    case 2: COPY(uint16_t); break;
    case 4: COPY(uint32_t); break;
    default: COPY(uint64_t); break;
    }
}

/* A box of an image of the input in memory: samples [lo, lo + n) of each axis, `step` samples apart. */
struct block {
    const void *data;
    int64_t lo[3], n[3], step[3];
};

/* Copies what the block has of pages [z0, z1) of the result, every `every`-th of `page`: tile after tile of rows, so
 * that neighbours along x in the block, which may be pages of the result, are read while they are in the caches. */
static void copy_pages(const struct vp_reslice *r, const struct block *b, int64_t z0, int64_t z1, void *const *page,
                       int64_t every, size_t size, int threads)
{
    const int across = r->from[2];
    const char *from = b->data;
    int64_t step[2], n[2], first[2];

    for (int a = 0; a < 2; a++) {
        const int f = r->from[a];
        n[a] = b->n[f];
        step[a] = r->flip[a] ? -b->step[f] : b->step[f];
        first[a] = r->flip[a] ? r->in[f] - b->lo[f] - b->n[f] : b->lo[f];
        if (r->flip[a])
            from += (b->n[f] - 1) * b->step[f] * (int64_t)size;
    }
    #pragma omp parallel for num_threads(threads) schedule(static) if (n[0] * n[1] * (z1 - z0) > 1 << 18)
    for (int64_t j = 0; j < n[1]; j += TILE)
        for (int64_t z = z0; z < z1; z++) {
            const int64_t at = (r->flip[2] ? r->in[across] - 1 - z : z) - b->lo[across];
            char *const to = (char *)page[(z - z0) * every] + (size_t)((first[1] + j) * r->out[0] + first[0]) * size;
            copy(to, r->out[0], from + (at * b->step[across] + j * step[1]) * (int64_t)size, step,
                 (const int64_t[]){n[0], vp_min64(TILE, n[1] - j)}, size);
        }
}

/* ---- reading ---- */

struct reslicer {
    const struct vp_reslice *r;
    struct vp_reader *reader;
    size_t size;
    void *buffer;
    size_t bytes;        /* size of the buffer: a page or more */
};

/* Reads pages [page, page + n) of the result, which are pages of the input. */
static int64_t read_pages(void *source, int64_t page, int64_t n, void *const *to, int threads, struct vp_err *err)
{
    const struct reslicer *k = source;
    const struct vp_reslice *r = k->r;
    const bool same = r->from[0] == 0 && !r->flip[0] && !r->flip[1];

    for (int64_t i = 0; i < n; i++) {
        const int64_t c = (page + i) % r->inner, z = (page + i) / r->inner % r->out[2],
                      t = (page + i) / r->inner / r->out[2];
        const struct vp_wanted w = {r->streams ? VP_NEXT : (t * r->in[2] + r->in[2] - 1 - z) * r->inner + c, 1,
                                    .threads = threads};
        const struct block b = {k->buffer, {0, 0, z}, {r->in[0], r->in[1], 1}, {1, r->in[0], 0}};
        const int64_t got = vp_reader_read(k->reader, &w, same ? &to[i] : &k->buffer, err);
        if (got <= 0)
            return got < 0 ? -1 : i;
        if (!same)
            copy_pages(r, &b, z, z + 1, &to[i], 1, k->size, threads);
    }
    return n;
}

/* Reads pages [z0, z1) of the result, of the image of channel c at time t: rows or columns of all of its pages. */
static int read_slab(const struct reslicer *k, int64_t c, int64_t t, int64_t z0, int64_t z1, int64_t page,
                     void *const *to, int threads, struct vp_err *err)
{
    const struct vp_reslice *r = k->r;
    const int s = r->from[2];
    struct block b = {.data = k->buffer, .n = {r->in[0], r->in[1], 0}};

    b.lo[s] = r->flip[2] ? r->in[s] - z1 : z0;
    b.n[s] = z1 - z0;
    const int64_t plane = b.n[0] * b.n[1];
    b.step[0] = 1;
    b.step[1] = b.n[0];
    b.step[2] = plane;
    const int64_t most = vp_max64(1, vp_min64(GROUP, (int64_t)(k->bytes / ((size_t)plane * k->size))));
    for (b.lo[2] = 0; b.lo[2] < r->in[2]; b.lo[2] += b.n[2]) {
        void *place[GROUP];
        b.n[2] = vp_min64(most, r->in[2] - b.lo[2]);
        for (int64_t i = 0; i < b.n[2]; i++)
            place[i] = (char *)k->buffer + (size_t)(i * plane) * k->size;
        struct vp_wanted w = {.n = r->inner == 1 ? b.n[2] : 1, .y0 = b.lo[1], .y1 = b.lo[1] + b.n[1], .x0 = b.lo[0],
                              .x1 = b.lo[0] + b.n[0], .threads = threads};
        for (int64_t i = 0; i < b.n[2]; i += w.n) {
            w.page = (t * r->in[2] + b.lo[2] + i) * r->inner + c;
            if (vp_reader_read(k->reader, &w, place + i, err) < w.n)
                return -1;
        }
        copy_pages(r, &b, z0, z1, to + (t * r->out[2] + z0) * r->inner + c - page, r->inner, k->size, threads);
    }
    return 0;
}

static int64_t read_slabs(void *source, int64_t page, int64_t n, void *const *to, int threads, struct vp_err *err)
{
    const struct reslicer *k = source;
    const struct vp_reslice *r = k->r;

    for (int64_t t = page / r->inner / r->out[2]; t * r->out[2] * r->inner < page + n; t++)
        for (int64_t c = 0; c < r->inner; c++) {
            const int64_t first = t * r->out[2] * r->inner + c; /* page of slice 0 */
            const int64_t z0 = first < page ? vp_div_up(page - first, r->inner) : 0,
                          z1 = first < page + n ? vp_min64(r->out[2], vp_div_up(page + n - first, r->inner)) : 0;
            if (z0 < z1 && read_slab(k, c, t, z0, z1, page, to, threads, err))
                return -1;
        }
    return n;
}

static size_t buffer_bytes(const struct vp_pages *p)
{
    const size_t page = vp_page_bytes(vp_reader_stack(p->reader)),
                 most = p->memory && p->memory / 16 < BUFFER ? (size_t)(p->memory / 16) : BUFFER;
    return page > most ? page : most;
}

int64_t vp_reslice_passes(const struct vp_reslice *r, struct vp_pages *p)
{
    const size_t size = vp_type_size(vp_reader_stack(p->reader)->type);
    const uint64_t page = (uint64_t)(r->out[0] * r->out[1]) * size, beside = p->beside + buffer_bytes(p);
    const int64_t pages = r->inner * r->out[2] * r->outer;

    if (r->from[2] == 2)
        return 1;
    const uint64_t room = p->memory > beside ? (p->memory - beside) / 3 : 0; /* three batches in flight */
    const bool bands = r->from[2] == 1 && vp_reader_concurrent(p->reader);
    p->batch = p->memory ? vp_max64(1, (int64_t)(room / page)) : pages;
    if (bands) /* each is read once anyhow: only as large as reading needs */
        p->batch = vp_min64(p->batch, vp_max64(1, ROWS_BYTES / (r->in[0] * (int64_t)size)) * r->inner);
    p->batch = vp_min64(p->batch, pages);
    return bands ? 1 : vp_div_up(pages, p->batch);
}

int vp_reslice_run(const struct vp_reslice *r, struct vp_pages *p, struct vp_err *err)
{
    const struct vp_stack *in = vp_reader_stack(p->reader);
    struct reslicer k = {.r = r, .reader = p->reader, .size = vp_type_size(in->type)};

    vp_reslice_passes(r, p);
    k.bytes = buffer_bytes(p);
    k.buffer = vp_alloc_raw(k.bytes, 1, "pages", err);
    if (!k.buffer)
        return -1;
    p->beside += k.bytes;
    p->read = r->from[2] == 2 ? read_pages : read_slabs;
    p->source = &k;
    p->in_bytes = p->out_bytes = (size_t)(r->out[0] * r->out[1]) * k.size;
    p->in_place = true;
    p->count = in->pages < 0 ? 0 : r->inner * r->out[2] * r->outer;
    p->stage = "reslice";
    const int rc = vp_pages_run(p, err);
    free(k.buffer);
    return rc;
}
