/* SPDX-License-Identifier: BSD-3-Clause */
/* The planner: every way to cut the axes into equal parts is priced, the cheapest that fits is taken (plan_price.c says
 * what a plan takes and costs).
 *
 * The plan is a function of the problem alone: no clock, no state, the same from every thread. */
#include "engine/plan_internal.h"

#include "base/err.h"
#include "base/size.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A limit that costs less is not worth a word. */
static const double MATTERS = 0.95;
/* Rough plans that cost so much more than the best may be the best when looked at closely. */
static const double NEARLY = 1.4;
static const double FINE = 1.12, COARSE = 1.5, ROUGH = 2, WIDE = 4;
/* How many looks (at a plan, at what a device needs) the steps of a search have: they keep it under 10 ms. */
enum { WIDE_LOOKS = 10000, ROUGH_LOOKS = 20000, CLOSE_LOOKS = 24000 };
enum { MAX_SIZES = 4096, EVERY_SIZE = 1024, FEW = 8 };

/* As large as that, or more, and a multiple of the step or all of n. */
static int64_t snap(int64_t size, int64_t step, int64_t n)
{
    return vp_min64(n, vp_div_up(size, step) * step);
}

/* Sizes of equal parts of n, largest first; of the large ones those that differ by 1 %. Only `given` if it is not 0. */
static int sizes_of(int64_t n, int64_t given, int64_t step, int64_t size[MAX_SIZES])
{
    int count = 0;
    if (given) {
        size[0] = snap(given, step, n);
        return 1;
    }
    for (int64_t parts = 1; count < MAX_SIZES;) {
        const int64_t s = vp_div_up(n, parts), snapped = snap(s, step, n);
        if (!count || snapped != size[count - 1])
            size[count++] = snapped;
        if (s == 1)
            break;
        parts = vp_div_up(n, s > EVERY_SIZE ? s - s / 128 : s - 1); /* the least number that makes them so small */
    }
    return count;
}

/* Only sizes that differ by some percent: the rest is looked at near the best of these. */
static int thin(int64_t *size, int count, double step)
{
    int kept = 0;
    if (count <= FEW)
        return count;
    for (int i = 0; i < count; i++)
        if (kept == 0 || (double)size[i] * step < (double)size[kept - 1] || i == count - 1)
            size[kept++] = size[i];
    return kept;
}

struct search {
    struct vp_plan_model *m;
    struct vp_plan best;    /* seconds INFINITY: there is none */
    bool rough;
    const char *limit;      /* of the smallest plan that was over one */
    uint64_t host;          /* bytes that it takes */
    double bound;           /* plans that cost more are of no use */
    double refused[2];      /* seconds of the cheapest plan that was over the limit */
    int64_t enough;         /* looks */
};

static double to_beat(const struct search *s)
{
    return fmin(s->bound, s->best.seconds);
}

/* A plan is there, and the looks are used up. */
static bool tired(const struct search *s)
{
    return isfinite(to_beat(s)) && s->m->looks >= s->enough;
}

static void refuse(struct search *s, const struct vp_plan *plan, int by, double seconds)
{
    if (!s->limit || plan->host < s->host) {
        s->host = plan->host;
        s->limit = vp_plan_limits[by];
    }
    s->refused[by] = fmin(s->refused[by], seconds);
}

static bool consider(struct search *s, struct vp_plan *plan)
{
    s->m->looks++;
    if (!vp_plan_derive(s->m, plan))
        return false;
    vp_plan_price(s->m, plan);
    if (plan->seconds >= to_beat(s))
        return false;
    if (!vp_plan_fits(s->m, plan)) {
        refuse(s, plan, plan->limit == vp_plan_limits[1], plan->seconds);
        return false;
    }
    if (s->m->device) /* that takes smaller parts makes it dearer than it looked */
        vp_plan_price(s->m, plan);
    if (plan->seconds >= to_beat(s))
        return false;
    s->best = *plan;
    return true;
}

/* Windows and numbers of slabs, roomiest first. */
static void consider_buffers(struct search *s, struct vp_plan plan)
{
    struct vp_plan_model *m = s->m;
    const int64_t most = vp_plan_planes(m, &plan, m->input_n), least = vp_plan_window(m, &plan);
    const int64_t full = plan.stream && m->device ? plan.lanes * plan.slab : plan.slab;
    const int64_t ahead[] = {full, 0, vp_div_up(full, 2), vp_div_up(full, 8)};
    const int kinds = s->rough ? 2 : (int)(sizeof ahead / sizeof *ahead);
    const int most_slabs =
        (int)vp_min64(!m->device ? 2 : plan.stream ? plan.lanes + 1 : 3,
                      vp_div_up(vp_plan_planes(m, &plan, m->n), plan.slab));
    for (int i = 0; i < kinds; i++)
        for (int slabs = most_slabs; slabs > 0; slabs -= s->rough && slabs > 1 ? slabs - 1 : 1) {
            plan.window = vp_min64(most, least + ahead[i]);
            plan.slabs = slabs;
            const bool better = consider(s, &plan);
            /* with less room it would only be slower, but for the memory that it does not take */
            const double at_least = plan.seconds - (double)plan.host * m->rates->pinned;
            if (i == 0 && slabs == most_slabs &&
                (better || at_least >= to_beat(s)))
                return;
        }
}

static void cut_bands(const struct vp_plan_model *m, struct vp_plan *plan, int64_t band)
{
    plan->band = band;
    plan->bands = vp_div_up(m->image[1], band);
    plan->flow = m->flow && plan->bands > 1;
}

static struct vp_plan columns_of(const struct vp_plan_model *m, int64_t band, int64_t wide, int64_t high)
{
    struct vp_plan plan = {.part = {wide, high, 1}, .lanes = 1};
    cut_bands(m, &plan, band);
    return plan;
}

/* What columns cost at least if their parts are no deeper than `depth`. */
static double least_cost(struct vp_plan_model *m, const struct vp_plan *plan, int64_t depth)
{
    const struct vp_problem *p = m->p;
    const double read = vp_plan_rows(m, plan) / (double)m->image[1] * m->read;
    if (!m->device) {
        const double busy = vp_plan_work(m, plan, depth);
        return fmax(fmax((busy + read + m->write) / p->threads, read), m->write) + busy / p->threads;
    }
    const double copied = vp_plan_across(m, plan) / ((double)m->image[0] * (double)m->image[1]);
    const double in = (double)(m->in_size * (size_t)p->chain->stacks);
    return (m->voxels * (copied * in + (double)m->out_size) * m->rates->bus
            + vp_plan_work(m, plan, depth) / m->rates->device_cores) / p->devices + (read + m->write) * 0.1;
}

/* Whether the host can hold slabs of so many planes of these columns. */
static bool host_holds(struct search *s, struct vp_plan plan, int64_t slab)
{
    struct vp_plan_model *m = s->m;
    plan.slab = snap(slab, m->step[2], m->n);
    plan.part[2] = m->whole[2] ? m->image[2] : vp_min64(m->image[2], vp_min64(plan.slab, m->step[2]));
    plan.slabs = 1;
    for (int stream = m->carries || (m->device && !m->whole[2]); stream >= 0; stream--) {
        plan.stream = stream;
        plan.window = vp_plan_window(m, &plan);
        s->m->looks++;
        if (!vp_plan_derive(m, &plan))
            continue;
        if (plan.host <= m->p->memory)
            return true;
    }
    struct vp_plan roomy = plan; /* as it would be with more memory */
    roomy.stream = m->carries;
    roomy.slabs = 2;
    roomy.window = vp_min64(vp_plan_window(m, &roomy) + slab,
                            vp_plan_planes(m, &plan, vp_min64(m->n, m->input_n)));
    if (vp_plan_derive(m, &roomy)) {
        vp_plan_price(m, &roomy);
        refuse(s, &plan, 0, roomy.seconds);
    }
    return false;
}

/* Parts no deeper than that. */
static void search_slabs(struct search *s, struct vp_plan plan, int64_t deepest, const int64_t *slab, int slabs)
{
    const struct vp_plan_model *m = s->m;
    const int64_t given = m->device ? m->given[2] : 0;
    const int most_cuts = !m->device ? 1 : s->rough ? 2 : 5;
    for (int i = 0; i < (plan.flow ? 1 : slabs) && !tired(s); i++) {
        plan.slab = plan.flow ? 1 : slab[i];
        plan.part[2] = 0;
        const int64_t length = vp_min64(plan.slab, m->image[2]), least = vp_div_up(length, deepest);
        if (m->device && !host_holds(s, plan, plan.slab))
            continue;
        for (int64_t cuts = least; cuts < least + most_cuts; cuts++) {
            const int64_t depth = m->device && m->whole[2]
                                      ? m->image[2]
                                      : snap(given ? given : vp_div_up(length, cuts), m->step[2], length);
            if (depth == plan.part[2])
                continue;
            plan.part[2] = depth;
            plan.stream = false;
            consider_buffers(s, plan);
            plan.stream = (cuts == 1 || cuts == least) && m->streams;
            if (plan.stream)
                consider_buffers(s, plan);
        }
    }
}

/* Every depth and number of buffers for given columns. */
static void search_depths(struct search *s, struct vp_plan plan, const int64_t *slab, int slabs)
{
    struct vp_plan_model *m = s->m;
    const struct vp_problem *p = m->p;
    if (!m->device)
        search_slabs(s, plan, m->image[2], slab, slabs);
    for (plan.lanes = m->device ? 3 : 0; plan.lanes > 0; plan.lanes--) {
        for (int d = 0; d < p->devices; d++) { /* each its own: not every plan uses all devices */
            int first = 0;
            while (p->free[first] != p->free[d])
                first++;
            if (first < d)
                continue;
            int64_t deepest = vp_plan_deepest(m, &plan, p->free[d], m->image[2]);
            if (deepest < m->image[2])
                deepest -= deepest % m->step[2];
            if (deepest == 0)
                refuse(s, &plan, 1, least_cost(m, &plan, m->image[2]));
            else if (least_cost(m, &plan, deepest) < to_beat(s))
                search_slabs(s, plan, deepest, slab, slabs);
        }
    }
}

struct sizes { int64_t wide[MAX_SIZES], high[MAX_SIZES], band[MAX_SIZES], slab[MAX_SIZES]; };

/* The plan with one of its sizes changed. */
static void change(const struct vp_plan_model *m, struct vp_plan *plan, int axis, int64_t size)
{
    const int64_t cuts = plan->parts[2];
    if (axis == 4) {
        plan->part[1] = plan->part[1] == plan->band ? size : vp_min64(plan->part[1], size);
        cut_bands(m, plan, size);
        if (plan->flow)
            plan->slab = plan->part[2] = 1;
    } else if (axis == 2) {
        plan->slab = size;
        const int64_t length = vp_min64(size, m->image[2]);
        plan->part[2] = snap(m->given[2]                  ? m->given[2]
                             : m->device && !plan->stream ? vp_div_up(length, cuts)
                                                          : length, m->step[2], length);
    } else {
        plan->part[axis == 3 ? 2 : axis] = size;
    }
}

/* All sizes near the best ones of the coarse search, one axis at a time: part in x and y, slab, depth of the part,
 * band. */
static void refine(struct search *s, int64_t size[MAX_SIZES])
{
    enum { NEAR = 8 };
    const struct vp_plan_model *m = s->m;
    for (bool better = true; better && !tired(s);) {
        const double before = s->best.seconds;
        for (int axis = 0; axis < 5; axis++) {
            const struct vp_plan from = s->best;
            const int64_t length = vp_min64(from.slab, m->image[2]);
            const int64_t n[5] = {m->image[0], from.band, m->n, length, m->image[1]};
            const int64_t now[5] = {from.part[0], from.part[1], from.slab, from.part[2], from.band};
            const bool fixed[5] = {m->given[0], m->given[1], m->whole[2] || (!m->device && m->given[2]) || from.flow,
                                   !m->device || from.stream || m->whole[2] || m->given[2], !m->bands};
            if (fixed[axis])
                continue;
            const int64_t step[5] = {m->step[0], m->step[1], m->step[2], m->step[2], m->step[1]};
            const int count = sizes_of(n[axis], 0, step[axis], size);
            int at = 0;
            while (at < count && size[at] > now[axis])
                at++;
            for (int i = at > NEAR ? at - NEAR : 0; i < count && i <= at + NEAR && !tired(s); i++) {
                struct vp_plan plan = from;
                change(m, &plan, axis, size[i]);
                const bool both = m->streams && !(m->device && m->given[2]);
                for (int way = 0; way <= both; way++) { /* along z */
                    if (way) {
                        plan.stream = !plan.stream;
                        if (plan.stream && m->device)
                            plan.part[2] = vp_min64(plan.slab, m->image[2]);
                    }
                    for (plan.lanes = m->device ? 3 : 0; plan.lanes >= m->device; plan.lanes--)
                        consider_buffers(s, plan);
                }
            }
        }
        better = s->best.seconds < before * 0.998;
    }
}

enum { KEPT = 4 };

struct best { struct vp_plan plan[KEPT]; int n; }; /* of different columns, cheapest first */

static void keep(struct best *b, const struct vp_plan *plan)
{
    for (int i = 0; i < b->n; i++) {
        const struct vp_plan *old = &b->plan[i];
        if (old->part[0] == plan->part[0] && old->part[1] == plan->part[1] && old->band == plan->band)
            return;
    }
    int at = b->n < KEPT ? b->n++ : KEPT - 1;
    if (at == KEPT - 1 && b->plan[at].band && b->plan[at].seconds <= plan->seconds)
        return;
    for (; at > 0 && b->plan[at - 1].seconds > plan->seconds; at--)
        b->plan[at] = b->plan[at - 1];
    b->plan[at] = *plan;
}

/* Columns whose sizes differ by `step`, each with a rough choice of slabs. */
static void search_columns(struct search *s, struct sizes *l, double step, struct best *kept)
{
    struct vp_plan_model *m = s->m;
    const int slabs = thin(l->slab, sizes_of(m->n, m->device ? 0 : m->given[2], m->step[2], l->slab),
                           s->rough ? ROUGH : FINE);
    const int wides = thin(l->wide, sizes_of(m->image[0], m->given[0], m->step[0], l->wide), step);
    const int bands = thin(l->band, sizes_of(m->image[1], m->bands ? 0 : m->image[1], m->step[1], l->band), step);
    for (int b = 0; b < bands && !tired(s); b++) {
        const int64_t band = l->band[b];
        const int highs = thin(l->high, sizes_of(band, m->given[1], m->step[1], l->high), step);
        for (int x = 0; x < wides && !tired(s); x++) {
            int y = 0;
            for (; y < highs && !tired(s); y++) {
                const struct vp_plan plan = columns_of(m, band, l->wide[x], l->high[y]);
                if (least_cost(m, &plan, m->image[2]) >= s->best.seconds)
                    break; /* smaller ones cost more */
                if (!host_holds(s, plan, m->whole[2] ? m->image[2] : 1))
                    continue;
                struct search here = *s;
                here.bound = s->best.seconds * NEARLY;
                here.best.seconds = INFINITY;
                search_depths(&here, plan, l->slab, slabs);
                s->limit = here.limit;
                s->host = here.host;
                memcpy(s->refused, here.refused, sizeof s->refused);
                if (!isfinite(here.best.seconds))
                    continue;
                if (here.best.seconds < s->best.seconds)
                    s->best = here.best;
                keep(kept, &here.best);
            }
            if (y == 0)
                break;
        }
    }
}

/* Columns of every size, on devices roughly and first with wide steps; the best of these closely. */
static int search(struct search *s, struct vp_err *err)
{
    struct vp_plan_model *m = s->m;
    struct best kept = {.n = 0};
    struct sizes *l = malloc(sizeof *l);
    if (!l)
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    s->rough = m->device;
    s->enough = WIDE_LOOKS;
    if (m->device)
        search_columns(s, l, WIDE, &kept);
    s->enough = m->looks + ROUGH_LOOKS;
    search_columns(s, l, m->device ? COARSE : FINE, &kept);
    s->rough = false;
    const int slabs = thin(l->slab, sizes_of(m->n, m->device ? 0 : m->given[2], m->step[2], l->slab), FINE);
    struct search best = *s;
    const int64_t from = m->looks;
    for (int i = 0; i < kept.n; i++) {
        s->enough = from + (i + 1) * (int64_t)CLOSE_LOOKS / kept.n;
        s->best = kept.plan[i];
        search_depths(s, kept.plan[i], l->slab, slabs);
        refine(s, l->high);
        if (s->best.seconds < best.best.seconds)
            best = *s;
    }
    s->best = best.best;
    free(l);
    return 0;
}

/* Bytes that the smallest plan for the CPU takes, all in all. */
static uint64_t least_memory(struct vp_plan_model *m)
{
    const struct vp_problem *const given = m->p;
    struct vp_problem roomy = *given;
    uint64_t least = UINT64_MAX;

    roomy.memory = UINT64_MAX;
    m->p = &roomy;
    const int64_t given_slab = m->whole[2] ? m->image[2] : vp_min64(m->given[2], m->n);
    for (int64_t slab = given_slab ? given_slab : 1; slab <= m->n; slab += slab < 32 ? 1 : slab) {
        for (int stream = m->streams; stream >= 0; stream--) {
            const int64_t band = m->bands ? vp_min64(m->step[1], m->image[1]) : m->image[1];
            struct vp_plan plan = columns_of(m, band, snap(m->given[0], m->step[0], m->image[0]),
                                             snap(m->given[1], m->step[1], band));
            plan.slab = plan.flow ? 1 : snap(slab, m->step[2], m->n);
            plan.part[2] = vp_min64(plan.slab, m->image[2]);
            plan.slabs = 1;
            plan.stream = stream;
            plan.window = vp_plan_window(m, &plan);
            if (vp_plan_derive(m, &plan) && vp_plan_fits(m, &plan) && plan.host < least)
                least = plan.host;
        }
        if (given_slab)
            break;
    }
    m->p = given;
    return least;
}

static int make_plan(struct vp_plan *plan, const struct vp_problem *p, bool twice, struct vp_err *err)
{
    struct vp_plan_model m;
    struct search s = {.m = &m, .best.seconds = INFINITY, .host = UINT64_MAX, .bound = INFINITY,
                       .refused = {INFINITY, INFINITY}};

    if (vp_plan_model(&m, p, twice, err))
        return -1;
    const int rc = search(&s, err);
    if (!rc && !isfinite(s.best.seconds) && !m.device)
        s.host = least_memory(&m);
    free(m.stage);
    if (rc)
        return -1;
    if (isfinite(s.best.seconds)) {
        *plan = s.best;
        const int by = s.refused[1] < s.refused[0];
        plan->limit = s.refused[by] < plan->seconds * MATTERS ? vp_plan_limits[by] : "";
        return 0;
    }
    if (s.limit && !strcmp(s.limit, "device memory"))
        return vp_fail(err, VP_ERESOURCE, "the smallest portion does not fit the memory of the device");
    if (s.host == UINT64_MAX && p->chunk[0])
        return vp_fail(err, VP_EUSAGE, "--chunk: boxes of %lld x %lld x %lld are larger than can be worked on",
                       (long long)vp_min64(p->chunk[0], p->image[0]), (long long)vp_min64(p->chunk[1], p->image[1]),
                       (long long)vp_min64(p->chunk[2], p->image[2]));
    return vp_fail(err, VP_ERESOURCE, "the smallest portion takes %s: expected at most %s",
                   vp_bytes_text(s.host + p->beside).text, vp_bytes_text(p->memory + p->beside - p->over).text);
}

int vp_plan_make(struct vp_plan *plan, const struct vp_problem *p, struct vp_err *err)
{
    const struct vp_op *op = vp_chain_twice(p->chain);
    struct vp_plan twice;
    struct vp_err why = VP_ERR_INIT;
    const bool unknown = p->image[2] >= VP_UNKNOWN || p->outer >= VP_UNKNOWN;
    if (!op || (op->run && (p->once || unknown)))
        return make_plan(plan, p, false, err);
    if (!op->run)
        return make_plan(plan, p, true, err);
    /* images that are one part, and parts that are visited twice: what is quicker */
    const bool whole = !p->chunk[0] && !make_plan(plan, p, false, &why);
    if (make_plan(&twice, p, true, whole ? &why : err))
        return whole ? 0 : -1;
    if (whole && plan->seconds <= twice.seconds)
        return 0;
    *plan = twice;
    return 0;
}
