/* SPDX-License-Identifier: BSD-3-Clause */
/* The work of the CPU: all threads on one part after the other, or each on parts of its own. */
#include "engine/execute_internal.h"

#include "engine/pages.h"
#include "engine/store.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

struct workspace { /* buffers of a thread */
    void **pointers;
    void *scratch;
    size_t bytes;
};

/* Makes the next part of a column of a stream. */
static int advance(struct vp_engine *r, const struct column *c, const struct vp_part *in, const struct vp_part *out,
                 void *scratch, int threads, struct vp_err *err)
{
    void **const state = &vp_engine_carried(r, c)->value;
    const bool anew = r->scan && out->box.lo[2] == 0;
    const uint64_t bytes = *state && !anew ? 0 : vp_chain_state_bytes(r->e->chain, &out->box, threads);
    if (!*state && !(*state = vp_alloc_raw(1, (size_t)bytes, "the state of a column", err)))
        return -1;
    if (anew)
        memset(*state, 0, (size_t)bytes);
    return vp_chain_advance(r->e->chain, in, out, scratch, *state, threads, err);
}

static int run_pass(struct vp_engine *r, const struct column *c, const struct vp_part *in, const struct vp_part *out,
                    void *scratch, int threads, struct vp_err *err)
{
    const struct vp_op *op = vp_chain_twice(r->e->chain);
    const int64_t box = vp_engine_box(r, c, &out->box);
    const bool first = r->e->pass == VP_SUMMARY;
    uint64_t bytes = first ? op->two_pass->summary(op, &out->box) : vp_store_bytes(r->e->store, box);
    void *entry = vp_alloc_raw(1, (size_t)bytes, "the entry of a box", err);
    int rc = !entry || (!first && vp_store_get(r->e->store, box, entry, err))
             || vp_chain_pass(r->e->chain, r->e->pass, in, out, entry, scratch, threads, err) ? -1 : 0;
    if (!rc && first) {
        memcpy(&bytes, entry, sizeof bytes);
        rc = vp_store_put(r->e->store, box, entry, bytes, err);
    }
    free(entry);
    return rc;
}

/* Makes all parts of a column with `threads`. */
static int run_column(struct vp_engine *r, struct column *c, struct workspace *b, int threads, struct vp_err *err)
{
    struct vp_part in[VP_MAX_INPUTS], out[2];
    if (!b->pointers && !(b->pointers = vp_engine_pointers(r, err)))
        return -1;
    while (c->z < c->z1) {
        vp_engine_next_part(r, c, r->plan->part[2], in, out, b->pointers);
        const uint64_t need = vp_chain_bytes(r->e->chain, &out->box, threads);
        if (need > b->bytes) {
            free(b->scratch);
            b->bytes = 0;
            b->scratch = vp_alloc_raw(1, (size_t)need, "buffers between operations", err);
            if (!b->scratch)
                return -1;
            b->bytes = (size_t)need;
        }
        if (r->e->pass != VP_MAKE ? run_pass(r, c, in, out, b->scratch, threads, err)
            : r->goes_on           ? advance(r, c, in, out, b->scratch, threads, err)
                                   : vp_chain_run(r->e->chain, in, out, b->scratch, threads, err))
            return -1;
    }
    return 0;
}

static int work_on_pages(struct vp_engine *r, struct out_slab *s, struct vp_err *err)
{
    struct vp_pages *p = r->e->pages;
    const int64_t n = s->g1 - s->g0;
    if (r->flow) {
        p->row = s->rows.y0;
        p->rows = s->rows.y1 - p->row;
    }
    s->pages = p->work ? p->work(p->ctx, r->flow ? s->g0 / r->plan->bands : s->g0, (int)n, vp_engine_pages_in(r, s),
                                 r->e->writer ? vp_engine_pages_out(r, s) : NULL, err) : n;
    p->done += r->flow ? s->rows.y1 == r->ny : n;
    return s->pages < 0 ? -1 : 0;
}

static int run_slab(struct vp_engine *r, struct out_slab *s, struct workspace *work, struct vp_err *err)
{
    const int together = r->plan->together;
    int rc = 0;
    if (r->e->pages)
        return work_on_pages(r, s, err);
    if (together < 2) {
        for (int64_t i = 0; i < s->all && !rc; i++) {
            struct column c = vp_engine_column(r, s, i);
            rc = run_column(r, &c, &work[0], r->p->threads, err);
        }
        return rc;
    }
    #pragma omp parallel for num_threads(together) schedule(dynamic)
    for (int64_t i = 0; i < s->all; i++) {
        struct vp_err own = VP_ERR_INIT;
        struct column c = vp_engine_column(r, s, i);
        int before;
        #pragma omp atomic read
        before = rc;
        if (before || !run_column(r, &c, &work[omp_get_thread_num()], 1, &own))
            continue;
        vp_err_keep(err, &own);
        #pragma omp atomic write
        rc = -1;
    }
    return rc;
}

/* Makes one slab after the other with all threads. */
int vp_engine_cpu(struct worker *w, struct vp_err *err)
{
    struct vp_engine *r = w->r;
    struct workspace *work = calloc((size_t)r->plan->together, sizeof *work);
    int rc = work ? 0 : vp_fail(err, VP_ERESOURCE, "out of memory");
    struct column c;

    for (;;) {
        pthread_mutex_lock(&r->lock);
        const bool go = !rc && vp_engine_await(r, w, true, &c);
        if (go)
            c.slab->taken = c.slab->all;
        pthread_mutex_unlock(&r->lock);
        if (!go)
            break;
        const double t = vp_now();
        rc = run_slab(r, c.slab, work, err);
        w->work_s += vp_now() - t;
        w->parts += c.slab->all;
        if (rc)
            break;
        pthread_mutex_lock(&r->lock);
        c.slab->done = c.slab->all - 1;
        vp_engine_column_done(r, c.slab);
        pthread_mutex_unlock(&r->lock);
    }
    for (int i = 0; work && i < r->plan->together; i++) {
        free(work[i].pointers);
        free(work[i].scratch);
    }
    free(work);
    return rc;
}
