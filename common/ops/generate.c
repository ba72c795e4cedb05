/* SPDX-License-Identifier: BSD-3-Clause */
/* Two batches of pages: the threads share the parts of one, and the first of them to come writes the other
 * before it joins in. */
#include "ops/generate.h"

#include "base/err.h"
#include "base/progress.h"
#include "base/size.h"
#include "base/stats.h"

#include <stdlib.h>

enum { BATCH_BYTES = 16 << 20 };

int vp_generate_plan(struct vp_generate *g, struct vp_err *err)
{
    const size_t bytes = vp_page_bytes(g->out);

    if (!bytes || bytes > g->memory / 2) {
        char need[16], have[16];
        vp_fail(err, VP_ERESOURCE, "two pages need %s, the memory limit is %s",
                vp_format_bytes(need, sizeof need, 2 * (uint64_t)bytes),
                vp_format_bytes(have, sizeof have, g->memory));
        return vp_hint(err, "allow more with --memory");
    }
    g->batch = 1 + (int64_t)(BATCH_BYTES / bytes);
    if (g->batch < 2 * g->threads)
        g->batch = 2 * g->threads;
    g->batch = vp_min64(g->batch, vp_min64((int64_t)(g->memory / 2 / bytes), g->out->pages));
    return 0;
}

int vp_generate_run(const struct vp_generate *g, struct vp_writer *writer, struct vp_err *err)
{
    const size_t bytes = vp_page_bytes(g->out), samples = bytes / sizeof(float);
    const int64_t pages = g->out->pages, size = g->batch, tasks = g->tasks;
    float *batch[2] = {NULL, NULL};
    int rc = -1;

    for (int i = 0; i < 2; i++)
        if (!(batch[i] = vp_alloc_raw((size_t)size, bytes, "the pages", err)))
            goto out;
    vp_progress_start(g->progress, g->stage, "pages", pages);
    rc = 0;
    for (int64_t first = 0, which = 0; first < pages + size && !rc; first += size, which = !which) {
        const int64_t to_write = first ? vp_min64(size, pages - (first - size)) : 0;
        const int64_t to_make = first < pages ? vp_min64(size, pages - first) : 0;
        float *const now = batch[which], *const before = batch[!which];
        const double t = vp_now();
        #pragma omp parallel num_threads(g->threads)
        {
            #pragma omp single nowait
            for (int64_t k = 0; k < to_write && !rc; k++)
                rc = vp_writer_page(writer, before + (size_t)k * samples, err);
            #pragma omp for schedule(dynamic)
            for (int64_t k = 0; k < to_make * tasks; k++)
                g->make(g->ctx, first + k / tasks, k % tasks, now + (size_t)(k / tasks) * samples);
        }
        vp_progress_add(g->progress, to_write);
        vp_stats_time(g->stats, g->stage, vp_now() - t);
    }
out:
    free(batch[0]);
    free(batch[1]);
    return rc;
}
