/* SPDX-License-Identifier: BSD-3-Clause */
/* The planner: prices some ways to cut the axes into equal parts and takes the cheapest that fits (plan_price.c:
 * bytes and seconds of a plan).
 *
 * Candidates are pages, whole or in bands; on devices these whole or in tiles; slabs of every depth of a ladder of
 * sizes, and the deepest that fits; each with buffers of a few sizes. A ladder is left after some sizes that are no
 * cheaper. The plan is a function of the problem alone. */
#include "engine/plan_internal.h"

#include "base/err.h"
#include "base/size.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A limit is reported if without it the plan would take less than MATTERS of the seconds. */
static const double MATTERS = 0.95;
/* A ladder has every size up to SMALL and is left after PATIENCE sizes; NEAR sizes are tried above the best band. */
enum { MAX_SIZES = 96, SMALL = 12, PATIENCE = 3, NEAR = 8 };

/* Sizes of the buffers: OVERLAP lets every lane read ahead, AHEAD one slab, while one or more are written; WAIT reads
 * nothing ahead; LEAST waits for the writer, too. */
enum buffers { OVERLAP, AHEAD, WAIT, LEAST };

struct search {
    struct vp_plan_model *m;
    struct vp_plan best;        /* the cheapest plan that fits; seconds INFINITY: none yet */
    uint64_t least;             /* bytes of host memory of the smallest plan that exceeds it */
    double refused[2];          /* seconds of the cheapest plan over each of vp_plan_limits */
};

/* Rounds `size` up to a multiple of `step`, at most n. */
static int64_t snap(int64_t size, int64_t step, int64_t n)
{
    return vp_min64(n, vp_div_up(size, step) * step);
}

/* Fills size[] with a ladder of sizes of equal parts of n, largest first, each about 2/3 of the one before; with
 * `given` alone if it is not 0. Returns their number. */
static int sizes_of(int64_t n, int64_t given, int64_t step, int64_t size[MAX_SIZES])
{
    int count = 0;
    if (given) {
        size[0] = snap(given, step, n);
        return 1;
    }
    for (int64_t parts = 1; parts > 0 && count < MAX_SIZES;) {
        const int64_t exact = vp_div_up(n, parts), next = snap(exact, step, n);
        if (!count || next < size[count - 1])
            size[count++] = next;
        parts = exact == 1 ? 0 : vp_div_up(n, exact > SMALL ? exact * 2 / 3 : exact - 1);
    }
    return count;
}

/* Completes, checks and prices a candidate; keeps it if it is the cheapest. Returns its seconds, INFINITY if it exceeds
 * a limit; what is no cheaper than the best is not checked against the memory of devices. */
static double consider(struct search *s, struct vp_plan *plan)
{
    struct vp_plan_model *m = s->m;
    if (!vp_plan_derive(m, plan))
        return INFINITY;
    vp_plan_price(m, plan);
    if (m->device && plan->host <= m->p->memory && plan->seconds >= s->best.seconds)
        return plan->seconds;
    if (!vp_plan_fits(m, plan)) {
        const int by = plan->limit == vp_plan_limits[1];
        s->refused[by] = fmin(s->refused[by], plan->seconds);
        if (by == 0 && plan->host < s->least)
            s->least = plan->host;
        return INFINITY;
    }
    if (m->device) /* some devices may take shallower parts */
        vp_plan_price(m, plan);
    if (plan->seconds < s->best.seconds)
        s->best = *plan;
    return plan->seconds;
}

/* Considers slabs of `slab` planes: on devices in the fewest equal parts of at most `deepest` planes, and in one part
 * more, so that more are in flight. Returns the seconds of the cheapest. */
static double consider_slab(struct search *s, struct vp_plan plan, int64_t slab, enum buffers buffers, int64_t deepest)
{
    const struct vp_plan_model *m = s->m;
    const int64_t length = vp_min64(slab, m->image[2]), cuts = vp_div_up(length, deepest);
    const bool cut = m->device && !m->whole[2];
    double seconds = INFINITY;
    plan.slab = slab;
    for (int more = 0; more <= (cut && !m->given[2]); more++) {
        const int64_t depth = cut && m->given[2] ? m->given[2] : vp_div_up(length, cuts + more);
        plan.part[2] = m->device && m->whole[2] ? m->image[2] : snap(depth, m->step[2], length);
        const int64_t ahead = buffers == OVERLAP && (plan.stream || m->held) ? plan.lanes * slab : buffers <= AHEAD ? slab : 0;
        const int most = !m->device || buffers != OVERLAP ? 2 : plan.stream ? plan.lanes + 1 : 3;
        plan.window = vp_min64(vp_plan_planes(m, &plan, m->input_n), vp_plan_window(m, &plan) + ahead);
        plan.slabs = buffers == LEAST ? 1 : (int)vp_min64(most, vp_div_up(vp_plan_planes(m, &plan, m->n), slab));
        seconds = fmin(seconds, consider(s, &plan));
    }
    return seconds;
}

/* Updates the least seconds of a ladder. True if it may be left: PATIENCE sizes in turn were no cheaper. */
static bool is_enough(double seconds, double *best, int *since)
{
    *since = seconds < *best ? 0 : *since + isfinite(*best);
    *best = fmin(*best, seconds);
    return *since >= PATIENCE;
}

/* Considers all depths of slabs for given columns, lanes and stream, shallow ones first. Returns the least seconds. */
static double consider_depths(struct search *s, const struct vp_plan *plan, int64_t deepest)
{
    const struct vp_plan_model *m = s->m;
    int64_t slab[MAX_SIZES];
    const int slabs = plan->flow ? sizes_of(1, 1, 1, slab)
                                 : sizes_of(m->n, m->device ? 0 : m->given[2], m->step[2], slab);
    double all = INFINITY;
    for (enum buffers b = m->device ? OVERLAP : AHEAD; b <= LEAST; b++) {
        double best = INFINITY;
        for (int i = slabs - 1, since = 0; i >= 0; i--) {
            const double seconds = consider_slab(s, *plan, slab[i], b, deepest);
            if (isfinite(seconds) ? is_enough(seconds, &best, &since) : m->device && !isfinite(best))
                break;
            if (isfinite(seconds) || !isfinite(best))
                continue;
            for (int64_t lo = slab[i + 1], hi = slab[i]; hi - lo > m->step[2];) { /* the deepest that fits */
                const int64_t middle = vp_min64(snap(lo + (hi - lo) / 2, m->step[2], m->n), hi - m->step[2]);
                const double deeper = consider_slab(s, *plan, middle, b, deepest);
                best = fmin(best, deeper);
                *(isfinite(deeper) ? &lo : &hi) = middle;
            }
            break;
        }
        all = fmin(all, best);
    }
    return all;
}

/* Considers given columns as slabs and as streams, on devices with every number of lanes. Returns the least seconds. */
static double consider_columns(struct search *s, struct vp_plan plan)
{
    struct vp_plan_model *m = s->m;
    const struct vp_problem *p = m->p;
    double best = INFINITY;
    uint64_t room = 0; /* free bytes of the roomiest device */
    for (int d = 0; d < p->devices; d++)
        room = room > p->free[d] ? room : p->free[d];
    for (int stream = 0; stream <= m->streams; stream++) {
        plan.stream = stream;
        if (!m->device)
            best = fmin(best, consider_depths(s, &plan, m->image[2]));
        for (plan.lanes = m->device ? 3 : 0; plan.lanes > 0; plan.lanes--) {
            const int64_t deepest = vp_plan_deepest(m, &plan, room, m->image[2]);
            if (deepest)
                best = fmin(best, consider_depths(s, &plan, deepest));
            else /* its price is what the limit costs */
                consider_slab(s, plan, snap(64, m->step[2], m->n), AHEAD, m->image[2]);
        }
    }
    return best;
}

/* Considers a band: whole on the CPU, on devices also in tiles, cut along the axis where that costs less. Returns the
 * least seconds. */
static double consider_band(struct search *s, int64_t band)
{
    struct vp_plan_model *m = s->m;
    int64_t wide[MAX_SIZES], high[MAX_SIZES];
    const int wides = sizes_of(m->image[0], m->given[0], m->step[0], wide);
    const int highs = sizes_of(band, m->given[1], m->step[1], high);
    struct vp_plan plan = {.part = {0, 0, 1}, .lanes = 1, .band = band, .bands = vp_div_up(m->image[1], band)};
    double best = INFINITY;
    plan.flow = m->flow && plan.bands > 1;
    for (int x = 0, y = 0, since = 0; x < wides && y < highs;) {
        plan.part[0] = wide[x];
        plan.part[1] = high[y];
        if (vp_plan_bound(m, &plan) >= s->best.seconds || is_enough(consider_columns(s, plan), &best, &since))
            break;
        struct vp_plan narrow = plan, low = plan;
        narrow.part[0] = wide[vp_min64(x + 1, wides - 1)];
        low.part[1] = high[vp_min64(y + 1, highs - 1)];
        const double more = vp_plan_across(m, &narrow) - vp_plan_across(m, &low);
        if (y + 1 == highs || (x + 1 < wides && (more < 0 || (more <= 0 && plan.part[0] > plan.part[1]))))
            x++;
        else
            y++;
    }
    return best;
}

static void search(struct search *s)
{
    const struct vp_plan_model *m = s->m;
    int64_t band[MAX_SIZES];
    const int bands = sizes_of(m->image[1], m->bands ? 0 : m->image[1], m->step[1], band);
    double best = INFINITY;
    for (int b = 0, since = 0; b < bands && !is_enough(consider_band(s, band[b]), &best, &since); b++)
        ;
    const int64_t found = s->best.band;
    for (int i = 1; i < NEAR && isfinite(s->best.seconds) && s->best.bands > 1; i++)
        consider_band(s, snap(found + found * i / (2 * NEAR), m->step[1], m->image[1]));
}

enum passes { ONCE, TWICE, HELD };

/* Makes the cheapest plan with these passes. -1: there is none; plan->seconds is then the price of the cheapest that
 * only exceeds the memory of devices, or INFINITY. */
static int make_plan(struct vp_plan *plan, const struct vp_problem *p, enum passes passes, struct vp_err *err)
{
    struct vp_plan_model m;
    struct search s = {.m = &m, .best.seconds = INFINITY, .least = UINT64_MAX, .refused = {INFINITY, INFINITY}};

    if (vp_plan_model(&m, p, passes == TWICE, err))
        return -1;
    if (passes != HELD || vp_plan_hold(&m))
        search(&s);
    free(m.made);
    if (isfinite(s.best.seconds)) {
        *plan = s.best;
        const int by = s.refused[1] < s.refused[0];
        plan->limit = s.refused[by] < plan->seconds * MATTERS ? vp_plan_limits[by] : "";
        return 0;
    }
    plan->seconds = s.refused[1];
    if (m.device && isfinite(s.refused[1]))
        return vp_fail(err, VP_ERESOURCE, "the smallest portion does not fit the memory of the device");
    if (s.least == UINT64_MAX && p->chunk[0])
        return vp_fail(err, VP_EUSAGE, "--chunk: boxes of %lld x %lld x %lld are too large",
                       (long long)vp_min64(p->chunk[0], p->image[0]), (long long)vp_min64(p->chunk[1], p->image[1]),
                       (long long)vp_min64(p->chunk[2], p->image[2]));
    return vp_fail(err, VP_ERESOURCE, "the smallest portion takes %s: expected at most %s",
                   vp_bytes_text(s.least + p->beside).text, vp_bytes_text(p->memory + p->beside - p->over).text);
}

int vp_plan_make(struct vp_plan *plan, const struct vp_problem *p, struct vp_err *err)
{
    const struct vp_op *op = vp_chain_twice(p->chain);
    struct vp_err why = VP_ERR_INIT;
    const bool unknown = p->image[2] >= VP_UNKNOWN || p->outer >= VP_UNKNOWN;
    const bool device = p->backend && !p->backend->on_host;
    if (!op || (op->run && (p->once || unknown || (device && !vp_lanes_twice(p->backend, p->chain)))))
        return make_plan(plan, p, ONCE, err);
    if (!op->run)
        return make_plan(plan, p, TWICE, err);
    /* images that are one part, or held on a device, or parts in two passes: the quickest */
    bool made = false;
    for (enum passes passes = ONCE; passes <= HELD; passes++) {
        struct vp_plan other = {.seconds = INFINITY};
        const bool failed = (passes == ONCE && p->chunk[0]) || make_plan(&other, p, passes, passes == TWICE ? err : &why);
        if (failed && passes == HELD && made && other.seconds < plan->seconds * MATTERS)
            plan->limit = vp_plan_limits[1];
        if (failed || (made && plan->seconds <= other.seconds))
            continue;
        *plan = other;
        made = true;
    }
    if (made)
        *err = (struct vp_err)VP_ERR_INIT;
    return made ? 0 : -1;
}
