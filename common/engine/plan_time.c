/* SPDX-License-Identifier: BSD-3-Clause */
/* The expected time of a command. The stages of the engine overlap, but for the first planes in and the last ones out:
 *
 *     CPU:     time = process + first + last + steps + solve + max((work + fresh) / threads + kept + files, pipe)
 *     devices: time = process + start + pinned + first + last + steps + solve + max(files, pipe, copies and kernels)
 *
 * steps: passing slabs on and starting threads on their parts; fresh: touching new memory; solve: the entries of an
 * operation with two passes; kept: the state of a stream, through memory; files: reading
 * and writing by all threads, which also do the work, so that on the CPU it comes on top; pipe: reading it by one thread. If
 * the threads take longer for the files than memory does, the rates of one thread count. */
#include "engine/plan_internal.h"

#include "base/err.h"
#include "base/size.h"

#include <math.h>
#include <stdlib.h>

static double share(int64_t part, int64_t all)
{
    return fmin(1, (double)part / (double)all);
}

static double time_of(struct vp_plan_model *m, const struct vp_problem *p, const struct vp_plan *plan)
{
    const struct vp_rates *r = m->rates;
    const double threads = p->threads, passes = m->twice || plan->held ? 2 : 1, images = (double)p->inner * (double)m->n;
    const int64_t planes = vp_plan_planes(m, plan, m->n), few = plan->slab + (plan->flow ? 0 : m->halo[2]);
    struct vp_plan copy = *plan; /* the work on devices fills in what is copied */
    const double in = plan->read * m->voxels * (double)p->stored_in, out = m->voxels * (double)p->stored_out;
    const double moved = fmin((double)plan->host, in + out); /* memory of the host that is new to the process */
    /* threads that read or write at once (execute.c) */
    const double io = m->device ? ceil(threads / 2) : ceil(threads / 4);
    const double begin = share(few, planes), end = share(plan->slab, planes);
    const double first = in * begin * fmax(r->read / io, r->read_all), last = out * end * fmax(r->write / io, r->write_all);
    const double pipe = p->once ? in * (1 - begin) * r->read : 0;
    const double files = fmax(in * (1 - begin) * r->read_all + out * (1 - end) * r->write_all,
                              (in * (1 - begin) * r->read + out * (1 - end) * r->write) / threads);
    const double columns = (double)plan->parts[0] * (double)vp_div_up(m->image[1], vp_min64(plan->part[1], plan->band))
                           * images / (double)m->image[2], deep = (double)vp_div_up(m->image[2], plan->part[2]);
    const double slabs = passes * (double)vp_div_up(planes, plan->slab) * (double)(plan->flow ? 1 : plan->bands);
    const double steps = slabs * r->slab + (m->device ? 0 : columns * deep * r->part / plan->together);
    const double solve = m->twice ? (double)plan->entries * r->solve / threads : 0;
    if (!m->device) {
        const double work = passes * vp_plan_work(m, plan, plan->stream ? m->image[2] : plan->part[2]) * r->cpu;
        /* the state that a stream keeps goes through memory for each part */
        const double kept = (double)plan->kept * (double)plan->bands * deep * images / (double)m->image[2] * r->move;
        return r->process + first + last + steps + solve
               + fmax((work + moved * r->fresh) / threads + kept + files, pipe);
    }
    const double start = r->process + r->device_start + (double)plan->host * r->pinned + first + last + steps + solve;
    return start + fmax(fmax(files, pipe), vp_plan_on_devices(m, &copy, passes, columns));
}

double vp_plan_time(const struct vp_problem *p, const struct vp_plan *plan)
{
    struct vp_plan_model m;
    struct vp_err ignored = VP_ERR_INIT;
    if (p->image[2] >= VP_UNKNOWN || p->outer >= VP_UNKNOWN)
        return 0;
    double seconds = 0;
    if (!vp_plan_model(&m, p, plan->twice, &ignored) && (!plan->held || vp_plan_hold(&m)))
        seconds = time_of(&m, p, plan);
    free(m.made);
    return seconds;
}
