/* SPDX-License-Identifier: BSD-3-Clause */
/* The plan of a run of pages: how many a call, or how many rows of one, and how many calls' worth are in flight. */
#include "engine/pages.h"
#include "base/err.h"
#include "base/size.h"
#include "engine/execute.h"

#include <omp.h>

enum { IN_FLIGHT = 3, BATCH_BYTES = 8 << 20 };
/* Rows of larger pages come one after the other, and of pages of which the memory holds few. */
enum { LARGE_PAGE = 2 * BATCH_BYTES };
/* Pages up to this size are given out one a core: work on one alone has too little to share. */
enum { SMALL_PAGE = 4 << 20 };

static const char *name_of(const struct vp_pages *p)
{
    return p->reader ? vp_reader_name(p->reader) : "the output";
}

static size_t in_bytes(const struct vp_pages *p)
{
    size_t n;
    if (p->in_bytes || !p->reader)
        return p->in_bytes;
    const struct vp_stack *s = vp_reader_stack(p->reader);
    if (!p->as_f32)
        return vp_page_bytes(s);
    return vp_mul_size(&n, (size_t)s->nx, (size_t)s->ny) && vp_mul_size(&n, n, sizeof(float)) ? n : 0;
}

bool vp_pages_by_rows(const struct vp_pages *p)
{
    if (p->height < 2 || p->whole || !p->reader || p->as_f32 || (p->writer && !vp_writer_by_rows(p->writer)))
        return false;
    const size_t own = in_bytes(p), of = vp_page_bytes(vp_reader_stack(p->reader)), page = own > of ? own : of;
    return page > LARGE_PAGE || (p->memory && page > p->memory / 4);
}

/* Returns the rows of the smallest portion of a page of `page` bytes. */
static int64_t least_rows(const struct vp_pages *p, size_t page)
{
    const int64_t row = (int64_t)(page / (size_t)p->height / vp_type_size(vp_reader_stack(p->reader)->type));
    int64_t rows = 1;
    while (rows < p->height && p->step > 0 && rows * row % p->step)
        rows++;
    return rows;
}

/* Pages (with those of output), or portions of `rows` rows of one, that the memory can hold: 1 or more. */
static int count_pages(const struct vp_pages *p, uint64_t *pages, int64_t *rows, struct vp_err *err)
{
    size_t in = in_bytes(p), both, out = (p->writer || !p->reader) && !p->in_place ? p->out_bytes : 0;
    uint64_t room = UINT64_MAX, other = p->other_bytes;
    *rows = 0;
    if (vp_pages_by_rows(p)) {
        *rows = least_rows(p, in);
        in = in / (size_t)p->height * (size_t)*rows;
        out = out / (size_t)p->height * (size_t)*rows + other / (size_t)p->height * (size_t)*rows;
        other = 0;
    }
    const bool whole = p->reader && !p->as_f32 && !*rows && in >= vp_page_bytes(vp_reader_stack(p->reader));
    const uint64_t beside = p->beside + other + (p->reader ? vp_reader_holds(p->reader, whole) : 0);
    if ((p->reader && !in) || !vp_add_size(&both, in, out) || !both)
        return vp_fail(err, VP_ERESOURCE, "%s: pages of this size cannot be held", name_of(p));
    if (p->memory)
        room = p->memory > beside ? p->memory - beside : 0;
    *pages = p->memory ? room / both : UINT64_MAX;
    if (*pages == 0) {
        vp_fail(err, VP_ERESOURCE, "%s: the smallest portion, %s, takes %s: expected at most %s", name_of(p),
                *rows ? "some rows" : "a page",
                vp_bytes_text(both + beside).text, vp_bytes_text(p->memory).text);
        return vp_hint(err, "allow more with --memory");
    }
    return 0;
}

int vp_pages_fit(const struct vp_pages *p, struct vp_err *err)
{
    uint64_t pages;
    int64_t rows;
    return count_pages(p, &pages, &rows, err);
}

int vp_pages_run(struct vp_pages *p, struct vp_err *err)
{
    const size_t in = in_bytes(p), page = in ? in : p->out_bytes;
    const int64_t all = p->reader ? vp_reader_stack(p->reader)->pages : 0; /* below 0: unknown */
    const int64_t left = all > 0 ? vp_max64(all - vp_reader_position(p->reader), 0) : all;
    const int64_t total = p->count > 0 ? p->count : left;
    uint64_t fit = 0;
    int64_t rows = 0;

    p->bad = p->done = 0;
    p->rows = p->height;
    if (count_pages(p, &fit, &rows, err))
        return -1;
    const int flight = fit < IN_FLIGHT ? (int)fit : IN_FLIGHT;
    int64_t batch = p->batch;
    if (batch <= 0) {
        batch = (int64_t)((BATCH_BYTES - 1) / page + 1);
        batch = vp_max64(batch, page <= SMALL_PAGE ? vp_cores() : 1);
    }
    batch = (int64_t)(fit / (uint64_t)flight) < batch ? (int64_t)(fit / (uint64_t)flight) : batch;
    if (total >= 0)
        batch = vp_min64(batch, vp_max64(total, 1));
    const int threads = p->threads > 0 ? p->threads : omp_get_max_threads();
    const int64_t n = total < 0 ? VP_UNKNOWN : total;
    struct vp_problem problem = {.image = {1, 1, n}, .inner = 1, .outer = 1, .threads = threads};
    struct vp_plan plan = {.bands = 1, .band = 1, .slab = batch, .window = flight * batch, .slabs = flight,
                           .part = {1, 1, batch}, .parts = {1, 1, 1}, .workers = 1, .together = 1, .limit = ""};
    struct vp_execute e = {.problem = &problem, .plan = &plan, .pages = p, .reader = {p->reader}, .page_in = in,
                           .page_out = p->out_bytes, .writer = p->writer, .stats = p->stats, .progress = p->progress,
                           .held = p->reader ? vp_reader_stack(p->reader)->type : VP_U8};
    if (rows) { /* `fit` counts the smallest portions; a band has enough of them for a batch */
        const size_t row = in / (size_t)p->height, least = row * (size_t)rows;
        const int64_t most = vp_max64(1, (int64_t)(fit / (uint64_t)flight));
        problem.image[1] = p->height;
        plan.band = plan.part[1] = vp_min64(p->height, rows * vp_min64(most, (int64_t)((BATCH_BYTES - 1) / least + 1)));
        plan.bands = vp_div_up(p->height, plan.band);
        plan.flow = true;
        plan.slab = plan.part[2] = 1;
        plan.window = flight;
        e.page_in = row * (size_t)plan.band;
        e.page_out = p->out_bytes / (size_t)p->height * (size_t)plan.band;
    }
    return vp_execute(&e, NULL, err);
}
