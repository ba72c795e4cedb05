/* SPDX-License-Identifier: BSD-3-Clause */
/* The plan of a run of pages: how many a call, and how many calls' worth are in flight. */
#include "run/pages.h"
#include "base/err.h"
#include "base/size.h"
#include "run/execute.h"

#include <omp.h>

enum { IN_FLIGHT = 3, BATCH_BYTES = 8 << 20 };
/* Pages up to this size are given out one a core: work on one alone has too little to share. */
enum { SMALL_PAGE = 4 << 20 };

static const char *name_of(const struct vp_pages *p)
{
    return p->reader ? vp_reader_name(p->reader) : "the output";
}

static int64_t pages_left(const struct vp_reader *r)
{
    const int64_t all = vp_reader_stack(r)->pages;
    return all < 0 ? -1 : vp_max64(all - vp_reader_position(r), 0);
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

/* Pages (with those of output) that the memory can hold: 1 or more. */
static int count_pages(const struct vp_pages *p, uint64_t *pages, struct vp_err *err)
{
    const size_t in = in_bytes(p);
    size_t both;
    uint64_t room = UINT64_MAX;
    const uint64_t beside = p->beside + (p->reader ? vp_reader_holds(p->reader, !p->as_f32) : 0);
    if ((p->reader && !in) ||
        !vp_add_size(&both, in, (p->writer || !p->reader) && !p->in_place ? p->out_bytes : 0) || !both)
        return vp_fail(err, VP_ERESOURCE, "%s: pages of this size cannot be held", name_of(p));
    if (p->memory)
        room = p->memory > beside ? p->memory - beside : 0;
    *pages = p->memory ? room / both : UINT64_MAX;
    if (*pages == 0) {
        char need[32], have[32];
        vp_fail(err, VP_ERESOURCE, "%s: the smallest portion, a page, takes %s: expected at most %s", name_of(p),
                vp_format_bytes(need, sizeof need, both + beside), vp_format_bytes(have, sizeof have, p->memory));
        return vp_hint(err, "allow more with --memory");
    }
    return 0;
}

int vp_pages_fit(const struct vp_pages *p, struct vp_err *err)
{
    uint64_t pages;
    return count_pages(p, &pages, err);
}

int vp_pages_run(struct vp_pages *p, struct vp_err *err)
{
    const size_t in = in_bytes(p), page = in ? in : p->out_bytes;
    const int64_t total = p->count > 0 ? p->count : p->reader ? pages_left(p->reader) : 0;
    uint64_t fit = 0;

    p->bad = p->done = 0;
    if (count_pages(p, &fit, err))
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
    const struct vp_problem problem = {.image = {1, 1, n}, .inner = 1, .outer = 1, .threads = threads};
    const struct vp_plan plan = {.bands = 1, .band = 1, .slab = batch, .window = flight * batch, .slabs = flight,
                                 .part = {1, 1, batch}, .parts = {1, 1, 1}, .workers = 1, .together = 1, .limit = ""};
    struct vp_execute e = {.problem = &problem, .plan = &plan, .pages = p, .page_in = in, .page_out = p->out_bytes,
                           .writer = p->writer, .stats = p->stats, .progress = p->progress};
    return vp_execute(&e, NULL, err);
}
