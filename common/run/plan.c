/* SPDX-License-Identifier: BSD-3-Clause */
/* The planner: every way to cut the axes into equal parts is priced, the cheapest that fits is taken.
 *
 * The price is a rough time at the rates of one table (rates.h): bytes read, written and copied, work on halos that more
 * than one part does, the first planes in and the last ones out (nothing overlaps those), and memory that must be
 * made. Only ratios matter: results do not depend on the plan.
 *
 * The plan is a function of the problem alone: no clock, no state, the same from every thread. */
#include "run/plan.h"
#include "base/err.h"
#include "base/size.h"

#include <assert.h>
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
/* Parts of fewer voxels are given to a thread each. */
enum { SMALL_PART = 1 << 17, GUESS_PLANES = 2048, MAX_SIZES = 4096, EVERY_SIZE = 1024, FEW = 8 };

struct model {
    const struct vp_problem *p;
    const struct vp_rates *rates;
    bool device;
    int64_t looks;              /* so far, at plans and at what a device needs */
    int64_t image[3], n;        /* guessed where unknown; planes of the stream */
    int64_t input[3], input_n;  /* the same of the input, but VP_UNKNOWN where unknown */
    int64_t less;               /* planes that the image has less than the input */
    int64_t halo[3], step[3];
    bool whole[3];
    bool carries;               /* a value along z: no part by itself */
    const struct vp_op *twice;  /* parts are boxes that this operation visits twice */
    bool boxed;                 /* that are given: those of its step */
    uint64_t entries;           /* the most bytes for what it finds that are in memory */
    bool border;                /* of zeros: no bands */
    int stacks;                 /* that are not single */
    size_t in_size, out_size;
    double voxels;              /* of the stream */
    /* stages: halo around their results, of their own; cost of a voxel in seconds of one core */
    int stages;
    double (*reach)[3], (*own)[3], *cost;
    /* how much more than the image the parts of each axis make and look at, for each stage, when cut as in `cut` */
    int64_t cut[3];
    double (*made)[3], (*looked)[3];
};

static int64_t parts_of(int64_t n, int64_t part)
{
    return (n + part - 1) / part;
}

/* Sum of the lengths of all parts of an axis with a halo on both sides, clipped. */
static double sum_with_halo(int64_t n, int64_t part, double halo, bool whole)
{
    const int64_t count = parts_of(n, part), h = (int64_t)halo;
    if (count <= 1 || whole)
        return (double)count * (double)n;
    /* ends that lie inside, and starts */
    const int64_t inside = n > h ? vp_min64((n - h) / part, count) : 0, before = vp_min64(h / part + 1, count),
                  after = count - before;
    const double ends = (double)part * (double)inside * (double)(inside + 1) / 2 + (double)inside * halo
                        + (double)(count - inside) * (double)n;
    const double starts =
        (double)part * ((double)(count - 1) * (double)count - (double)(before - 1) * (double)before) / 2 -
        (double)after * halo;
    return ends - starts;
}

static int make_model(struct model *m, const struct vp_problem *p, bool twice, struct vp_err *err)
{
    const struct vp_chain *c = p->chain;
    const struct vp_op *can = vp_chain_twice(c);
    const bool whole = can && can->run && !twice; /* parts are images */
    const size_t n = (size_t)c->n;
    *m = (struct model){.p = p, .rates = p->rates ? p->rates : &vp_rates, .stages = c->n,
                        .device = p->kind && !p->kind->on_host};
    memcpy(m->image, p->image, sizeof m->image);
    const struct vp_op *last = &c->stage[c->n - 1];
    for (int a = 0; a < 3; a++)
        m->input[a] = p->image[a] >= VP_UNKNOWN ? VP_UNKNOWN : p->image[a] - last->before[a] - last->behind[a];
    m->less = vp_max64(0, -last->before[2]) + vp_max64(0, -last->behind[2]);
    const bool endless = p->image[2] >= VP_UNKNOWN;
    if (endless)
        m->image[2] = GUESS_PLANES;
    const int64_t outer = p->outer < VP_UNKNOWN ? p->outer : parts_of(GUESS_PLANES, m->image[2]);
    m->n = m->image[2] * outer;
    m->input_n = endless || p->outer >= VP_UNKNOWN ? VP_UNKNOWN : m->input[2] * outer;
    m->voxels = (double)m->image[0] * (double)m->image[1] * (double)m->n * (double)p->inner;
    m->reach = calloc(n, 4 * sizeof *m->reach + sizeof *m->cost);
    if (!m->reach)
        return vp_fail(err, VP_ERESOURCE, "not enough memory");
    m->own = m->reach + n;
    m->made = m->own + n;
    m->looked = m->made + n;
    m->cost = (double *)(m->looked + n);
    for (int s = c->n - 1; s >= 0; s--) {
        const struct vp_op *op = &c->stage[s];
        m->carries = m->carries || op->carries;
        for (int a = 0; a < 3; a++)
            m->step[a] = whole ? m->image[a] : vp_max64(m->step[a], vp_max64(op->step[a], 1));
        m->cost[s] = (op->cost > 0 ? op->cost : 1) * 1e-9;
        for (int a = 0; a < 3; a++) {
            m->own[s][a] = (double)op->halo[a];
            m->whole[a] = m->whole[a] || op->whole[a];
            const double reach = m->reach[s][a] + (double)op->halo[a];
            for (int i = 0; i < op->inputs; i++)
                if (op->from[i] >= 0)
                    m->reach[op->from[i]][a] = fmax(m->reach[op->from[i]][a], reach);
        }
        for (int i = 0; i < op->inputs; i++)
            if (op->from[i] < 0)
                m->in_size = vp_type_size(op->in);
    }
    for (int k = 0; k < c->stacks; k++)
        m->stacks += !p->single[k];
    m->out_size = vp_type_size(last->out) + (last->twin ? vp_type_size(last->twin_out) : 0);
    m->border = last->border[0] || last->border[1] || last->border[2];
    m->twice = whole ? NULL : can;
    m->boxed = m->twice && m->twice->step[0] > 0;
    m->entries = p->memory / 4;
    vp_chain_halo(c, m->halo);
    return 0;
}

/* Seconds of one core for all stages, with what is done again on the halos of parts of so many planes. */
static double work(struct model *m, const struct vp_plan *plan, int64_t depth)
{
    const int64_t part[3] = {plan->part[0], vp_max64(1, vp_min64(plan->part[1], plan->band)), depth};
    for (int a = 0; a < 3; a++) {
        const int64_t n = m->image[a], cut = vp_min64(part[a], n);
        if (cut == m->cut[a])
            continue;
        m->cut[a] = cut;
        for (int s = 0; s < m->stages; s++) {
            m->made[s][a] = sum_with_halo(n, cut, m->reach[s][a], m->whole[a]) / (double)n;
            m->looked[s][a] = sum_with_halo(n, cut, m->reach[s][a] + m->own[s][a], m->whole[a]) / (double)n;
        }
    }
    double sum = 0;
    for (int s = 0; s < m->stages; s++) /* half of an operation that goes axis by axis is done where it looks */
        sum += m->cost[s] * (m->made[s][0] * m->made[s][1] * m->made[s][2]
                             + m->looked[s][0] * m->looked[s][1] * m->looked[s][2]) / 2;
    return sum * m->voxels;
}

/* Part of at most part[] in the middle of the image, where no halo is clipped if that can be. */
static struct vp_box middle(const struct model *m, const int64_t part[3])
{
    struct vp_box b;
    for (int a = 0; a < 3; a++) {
        const int64_t n = m->p->image[a], size = vp_min64(part[a], n);
        b.lo[a] = n >= VP_UNKNOWN ? vp_min64(VP_UNKNOWN / 2, m->halo[a]) : (n - size) / 2;
        b.hi[a] = b.lo[a] + size;
    }
    return b;
}

static int64_t with_halo(const struct model *m, int a, int64_t part)
{
    return m->whole[a] ? m->input[a] : vp_min64(m->input[a], part + 2 * m->halo[a]);
}

/* Planes of the window that a slab must have; of `depth` planes of output. */
static int64_t least_window(const struct model *m, const struct vp_plan *plan)
{
    const int64_t images = parts_of(plan->slab, m->image[2]);
    if (m->whole[2])
        return vp_min64(m->input_n, (images + 1) * vp_min64(m->input[2], m->image[2] + m->less));
    /* where one image follows another more planes of input than of output do */
    const int64_t between = m->p->outer == 1 ? 0 : images * m->less;
    return vp_min64(m->input_n, plan->slab + between + (plan->stream ? m->halo[2] + m->less : 2 * m->halo[2] + m->less));
}

static void add_bytes(uint64_t *sum, double a, double b, double c, double d)
{
    const double n = a * b * c * d;
    *sum = n >= 1e18 || *sum > (uint64_t)1e18 ? (uint64_t)2e18 : *sum + (uint64_t)n;
}

/* Memory for what the first of two visits finds. False: not with these boxes. */
static bool add_entries(const struct model *m, struct vp_plan *plan)
{
    const struct vp_problem *p = m->p;
    const struct vp_box box = middle(m, plan->part);
    double voxels = 1, boxes = (double)p->inner * (double)p->outer;
    for (int a = 0; a < 3; a++) {
        voxels *= (double)plan->part[a];
        boxes *= (double)parts_of(m->image[a], plan->part[a]);
    }
    if (voxels > INT32_MAX)
        return false;
    add_bytes(&plan->entries, (double)m->twice->summary(m->twice, &box), boxes, 1, 1);
    plan->entries = plan->entries < m->entries ? plan->entries : m->entries;
    return true;
}

/* Workers, parts, and the bytes that follow from them alone. False: not a plan. */
static bool derive(const struct model *m, struct vp_plan *plan)
{
    const struct vp_problem *p = m->p;
    const double nx = (double)m->image[0], inner = (double)p->inner, input_nx = (double)m->input[0];
    const double rows = (double)(plan->bands > 1 ? with_halo(m, 1, plan->band) : m->input[1]);
    const int64_t columns = parts_of(m->image[0], plan->part[0]) * parts_of(plan->band, plan->part[1]) * p->inner;

    const int64_t ends[3] = {m->image[0], plan->band, vp_min64(plan->slab, m->image[2])};
    for (int a = 0; a < 3; a++)
        if (plan->part[a] % m->step[a] && plan->part[a] < ends[a])
            return false;
    for (int a = 0; m->boxed && a < 3; a++)
        if (plan->part[a] != vp_min64(m->step[a], m->image[a]))
            return false;
    plan->twice = m->twice;
    plan->entries = 0;
    if (m->twice && (plan->stream || (plan->bands > 1 && plan->band % plan->part[1]) || !add_entries(m, plan)))
        return false;
    if (((plan->band % m->step[1] || m->border) && plan->bands > 1) || (plan->slab % m->step[2] && plan->slab < m->image[2]))
        return false;
    plan->offset = m->carries && m->device && !plan->stream;
    if (m->carries && !plan->stream && !(plan->offset && m->p->chain->stage[0].join && plan->slab == plan->part[2]
                                         && plan->slab == vp_min64(m->step[2], m->image[2])))
        return false;
    plan->device = m->device;
    plan->together = 1;
    plan->workers = 1;
    plan->kept = 0;
    if (m->device) {
        if (plan->stream && columns > VP_MAX_WORKERS)
            return false;
        plan->workers = plan->stream ? (int)columns : p->devices;
    } else {
        const double voxels = (double)plan->part[0] * (double)plan->part[1] * (double)plan->part[2];
        const int64_t all = columns * parts_of(plan->slab, m->image[2]);
        plan->lanes = 0;
        if ((voxels <= SMALL_PART || m->twice) && all > 1 && !m->carries)
            plan->together = (int)vp_min64(p->threads, all);
        if (plan->stream) {
            const struct vp_box box = middle(m, plan->part);
            const uint64_t one = plan->together > 1 ? 0 : vp_chain_keeps(p->chain, &box, p->threads);
            if (one == 0)
                return false;
            add_bytes(&plan->kept, (double)one, (double)columns, 1, 1);
        }
    }
    if (plan->window < least_window(m, plan))
        return false;
    plan->parts[0] = parts_of(m->image[0], plan->part[0]);
    plan->parts[1] = parts_of(plan->band, plan->part[1]);
    plan->parts[2] = parts_of(plan->slab, plan->part[2]);
    for (int a = 0; a < 3; a++)
        plan->in[a] = with_halo(m, a, plan->part[a]);
    for (int d = 0; d < p->devices; d++)
        plan->depth[d] = plan->part[2]; /* until fits() knows better */
    plan->input = plan->output = plan->scratch = plan->on_device = 0;
    add_bytes(&plan->input, (double)plan->window, inner, input_nx * rows, (double)(m->in_size * (size_t)m->stacks));
    add_bytes(&plan->input, input_nx, rows, (double)m->in_size, (double)(p->chain->stacks - m->stacks));
    const int64_t *border = p->chain->stage[p->chain->n - 1].border;
    add_bytes(&plan->output, plan->slabs * (double)plan->slab, inner,
              (nx + (double)border[0]) * (double)(plan->band + border[1]), (double)m->out_size);
    plan->host = plan->input + plan->output + plan->kept + plan->entries;
    return true;
}

/* Workers of device d. */
static int workers_of(const struct vp_problem *p, const struct vp_plan *plan, int d)
{
    return plan->stream ? plan->workers / p->devices + (d < plan->workers % p->devices) : 1;
}

/* Bytes of a worker whose parts have so many planes of output. */
static uint64_t part_bytes(struct model *m, const struct vp_plan *plan, int64_t depth)
{
    const int64_t in[3] = {with_halo(m, 0, plan->part[0]), with_halo(m, 1, plan->part[1]), with_halo(m, 2, depth)};
    const int64_t out[3] = {plan->part[0], plan->part[1], depth};
    m->looks++;
    return vp_lanes_bytes(m->p->kind, m->p->chain, in, out, plan->lanes);
}

/* The deepest part of these columns, at most `most` planes, that fits a device with so much room; 0: none does. */
static int64_t deepest_part(struct model *m, const struct vp_plan *plan, uint64_t room, int64_t most)
{
    if (part_bytes(m, plan, most) <= room)
        return most;
    int64_t lo = 0, hi = m->whole[2] ? 0 : most - 1;
    while (lo < hi) {
        const int64_t depth = lo + (hi - lo + 1) / 2;
        if (part_bytes(m, plan, depth) <= room)
            lo = depth;
        else
            hi = depth - 1;
    }
    return lo;
}

static const char *const limits[] = {"memory", "device memory"};

/* Whether it is under all limits; what stands in the way is in `limit`. */
static bool fits(struct model *m, struct vp_plan *plan)
{
    const struct vp_problem *p = m->p;
    plan->limit = limits[0];
    if (plan->host > p->memory)
        return false;
    if (!m->device) {
        const struct vp_box box = middle(m, plan->part);
        const uint64_t host = plan->host;
        for (;;) {
            const uint64_t one = vp_chain_bytes(p->chain, &box, plan->together > 1 ? 1 : p->threads);
            plan->scratch = 0;
            add_bytes(&plan->scratch, (double)one, plan->together, 1, 1);
            plan->host = host + plan->scratch;
            plan->scratch += plan->kept;
            if (plan->host <= p->memory || plan->together == 1 || !m->twice)
                return plan->host <= p->memory;
            plan->together = 1; /* large parts: all threads on one at a time will do */
        }
    }
    plan->limit = limits[1];
    bool fit = false;
    for (int d = 0; d < p->devices; d++) {
        const int workers = workers_of(p, plan, d);
        plan->depth[d] = 0;
        if (!workers)
            continue;
        plan->depth[d] = deepest_part(m, plan, p->free[d] / (uint64_t)workers, plan->part[2]);
        if (plan->depth[d] < plan->part[2])
            plan->depth[d] = plan->offset || m->twice ? 0 : plan->depth[d] / m->step[2] * m->step[2];
        if (plan->depth[d] == 0 && plan->stream)
            return false;
        if (plan->depth[d] == 0)
            continue; /* the others do without it */
        const uint64_t all = part_bytes(m, plan, plan->depth[d]) * (uint64_t)workers;
        plan->on_device = all > plan->on_device ? all : plan->on_device;
        fit = fit || plan->depth[d] == plan->part[2];
    }
    return fit;
}

/* Parts of a column through one image. */
static double parts_along(const struct model *m, const struct vp_plan *plan, int64_t depth)
{
    const int64_t slab = vp_min64(plan->slab, m->image[2]);
    return (double)parts_of(m->image[2], slab) * (double)parts_of(slab, depth);
}

/* Seconds to solve what the first of two visits has found. */
static double solved(const struct model *m, const struct vp_plan *plan)
{
    const struct vp_box box = middle(m, plan->part);
    double boxes = (double)m->p->inner * (double)m->p->outer;
    for (int a = 0; a < 3; a++)
        boxes *= (double)parts_of(m->image[a], plan->part[a]);
    return boxes * (double)m->twice->summary(m->twice, &box) * m->rates->solve;
}

static void price(struct model *m, struct vp_plan *plan)
{
    const struct vp_problem *p = m->p;
    const struct vp_rates *rates = m->rates;
    const double ny = (double)m->image[1], n = (double)m->n;
    const double rows = sum_with_halo(m->image[1], plan->band, (double)m->halo[1], m->whole[1]);
    const double visits = m->twice ? 2 : 1, read = visits * m->voxels * rows / ny * (double)p->stored_in * rates->read;
    const double write = m->voxels * (double)p->stored_out * rates->write;
    const double slabs = visits * (double)parts_of(m->n, plan->slab) * (double)plan->bands, share = (double)plan->slab / n;
    const double ahead = fmin(1, (double)(plan->window - least_window(m, plan)) / (double)plan->slab);
    const bool all_at_once = plan->window >= vp_min64(m->n, m->input_n);
    const double blocked = plan->slabs > 1 || plan->slab >= m->n ? 0 : write; /* work waits for it */
    const double waited = all_at_once ? 0 : (1 - ahead) * read; /* of the reading */
    const double first = read * fmin(1, (double)(plan->slab + m->halo[2]) / n), last = write * share;
    const double found = m->twice ? solved(m, plan) : 0;
    /* bands are read and written in pieces that do not follow each other */
    const double pieces = plan->bands > 1 ? (double)plan->bands * n * (double)p->inner * rates->piece : 0;

    plan->read = visits * rows / ny;
    plan->copied = 0;
    if (!m->device) {
        double busy = visits * work(m, plan, plan->stream ? m->image[2] : plan->part[2]);
        const double deep = (double)parts_of(m->image[2], plan->part[2]) * n / (double)m->image[2];
        /* what is kept goes through memory for each part; threads do not make that quicker */
        const double again = (double)plan->kept * (double)plan->bands * deep * rates->move;
        const double parts = (double)plan->parts[0] *
                             (double)parts_of(m->image[1], vp_min64(plan->part[1], plan->band)) *
                             deep * (double)p->inner;
        /* reading and writing take the cores, too */
        const double all = (busy + read + write) / p->threads + again;
        busy = busy / p->threads + again + parts * (plan->together > 1 ? rates->small_part : rates->part);
        /* what is not overlapped costs more than it seems where storage is slower than assumed; and so does work where
         * it is faster, or where the cores have the other programs of a pipe to run */
        plan->seconds = fmax(fmax(fmax(busy + waited + blocked, read), write), all) + (waited + blocked) * 0.25 + busy
                        + first + last + pieces + found
                        + (plan->read - 1) * m->voxels * (double)p->stored_in * rates->again
                        + slabs * rates->slab + (double)plan->host * rates->fresh;
    } else {
        const double lx = sum_with_halo(m->image[0], plan->part[0], (double)m->halo[0], m->whole[0]);
        const double ly =
            sum_with_halo(m->image[1], vp_min64(plan->part[1], plan->band), (double)m->halo[1], m->whole[1]);
        const double lz = plan->stream ? (double)m->image[2]
                                       : sum_with_halo(m->image[2], vp_min64(plan->slab, m->image[2]),
                                                       (double)m->halo[2], m->whole[2]);
        plan->copied = lx * ly * lz / ((double)m->image[0] * ny * (double)m->image[2]);
        const double in = (double)(m->in_size * (size_t)p->chain->stacks), out = (double)m->out_size;
        plan->copied *= visits;
        const double copies = m->voxels * (plan->copied * in + out) * rates->bus;
        const double columns = (double)plan->parts[0] * (double)p->inner * n / (double)m->image[2]
                               * (double)parts_of(m->image[1], vp_min64(plan->part[1], plan->band));
        double alone = 0;
        const double part = (double)plan->in[0] * (double)plan->in[1] * (double)plan->in[2] * in
                            + (double)plan->part[0] * (double)plan->part[1] * (double)plan->part[2] * out;
        /* parts of a worker under way: beside a slab that is written; upload, work and download want one each */
        double own = (double)plan->parts[2];
        if (!plan->stream)
            own *= (double)(plan->parts[0] * plan->parts[1] * p->inner) / p->devices;
        const double flight = fmin(plan->lanes, own * (plan->slabs > 1 ? plan->slabs - 1 : 1));
        const double serial = flight > 2 ? 1 : flight > 1 ? 1.2 : 2;
        double rate = 0, slowest = 0;
        for (int d = 0; d < p->devices; d++) {
            const int workers = workers_of(p, plan, d);
            if (workers && plan->depth[d] > 0) {
                /* of all the work, if this device did it alone */
                if (d == 0 || plan->depth[d] != plan->depth[d - 1])
                    alone = copies * serial + visits * work(m, plan, plan->depth[d]) / rates->device_cores
                            + (plan->offset ? m->voxels * out * rates->offset : 0)
                            + visits * columns * parts_along(m, plan, plan->depth[d]) * rates->bus_call;
                rate += 1 / alone;
                slowest = fmax(slowest, alone * workers / plan->workers);
            }
        }
        const double busy = (plan->stream ? slowest : 1 / rate) + part * rates->bus;
        plan->seconds = busy + (read + write) * 0.1 + waited + blocked + first + last + pieces + found
                        + slabs * rates->slab + (double)plan->host * rates->pinned;
    }
}

bool vp_plan_try(struct vp_plan *plan, const struct vp_problem *p)
{
    struct model m;
    struct vp_err ignored = VP_ERR_INIT;
    if (make_model(&m, p, plan->twice, &ignored))
        return false;
    const bool ok = derive(&m, plan) && fits(&m, plan);
    if (ok)
        price(&m, plan);
    free(m.reach);
    return ok;
}

/* ---- the search ---- */

/* As large as that, or more, and a multiple of the step or all of n. */
static int64_t snap(int64_t size, int64_t step, int64_t n)
{
    return vp_min64(n, parts_of(size, step) * step);
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
        const int64_t s = parts_of(n, parts), snapped = snap(s, step, n);
        if (!count || snapped != size[count - 1])
            size[count++] = snapped;
        if (s == 1)
            break;
        parts = parts_of(n, s > EVERY_SIZE ? s - s / 128 : s - 1); /* the least number that makes them so small */
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
    struct model *m;
    struct vp_plan best;
    bool found, rough;
    const char *limit;      /* of the smallest plan that was over one */
    uint64_t host;          /* bytes that it takes */
    double bound;           /* plans that cost more are of no use */
    double refused[2];      /* seconds of the cheapest plan that was over the limit */
    int64_t enough;         /* looks */
};

/* A plan is there, and the looks are used up. */
static bool tired(const struct search *s)
{
    return (s->found || s->bound < INFINITY) && s->m->looks >= s->enough;
}

static void refuse(struct search *s, const struct vp_plan *plan, int by, double seconds)
{
    if (!s->limit || plan->host < s->host) {
        s->host = plan->host;
        s->limit = limits[by];
    }
    s->refused[by] = fmin(s->refused[by], seconds);
}

static bool consider(struct search *s, struct vp_plan *plan)
{
    s->m->looks++;
    if (!derive(s->m, plan))
        return false;
    price(s->m, plan);
    if (plan->seconds >= s->bound || (s->found && plan->seconds >= s->best.seconds))
        return false;
    if (!fits(s->m, plan)) {
        refuse(s, plan, plan->limit == limits[1], plan->seconds);
        return false;
    }
    for (int d = 0; d < s->m->p->devices; d++)
        if (plan->depth[d] != plan->part[2]) { /* dearer than it looked */
            price(s->m, plan);
            if (plan->seconds >= s->bound || (s->found && plan->seconds >= s->best.seconds))
                return false;
            break;
        }
    s->best = *plan;
    s->found = true;
    return true;
}

/* Windows and numbers of slabs, roomiest first. */
static void consider_buffers(struct search *s, struct vp_plan plan)
{
    struct model *m = s->m;
    const int64_t most = m->input_n, least = least_window(m, &plan);
    const int64_t full = plan.stream && m->device ? plan.lanes * plan.slab : plan.slab;
    const int64_t ahead[] = {full, 0, parts_of(full, 2), parts_of(full, 8)};
    const int kinds = s->rough ? 2 : (int)(sizeof ahead / sizeof *ahead);
    const int most_slabs =
        (int)vp_min64(!m->device ? 2 : plan.stream ? plan.lanes + 1 : 3, parts_of(m->n, plan.slab));
    for (int i = 0; i < kinds; i++)
        for (int slabs = most_slabs; slabs > 0; slabs -= s->rough && slabs > 1 ? slabs - 1 : 1) {
            plan.window = vp_min64(most, least + ahead[i]);
            plan.slabs = slabs;
            const bool better = consider(s, &plan);
            /* with less room it would only be slower, but for the memory that it does not take */
            const double at_least = plan.seconds - (double)plan.host * m->rates->pinned;
            if (i == 0 && slabs == most_slabs &&
                (better || at_least >= (s->found ? fmin(s->bound, s->best.seconds) : s->bound)))
                return;
        }
}

static struct vp_plan cpu_plan(const struct model *m, int64_t band)
{
    const int64_t *chunk = m->p->chunk;
    struct vp_plan plan = {.band = band, .bands = parts_of(m->image[1], band),
                           .part = {snap(chunk[0] ? chunk[0] : m->image[0], m->step[0], m->image[0]),
                                    snap(chunk[1] ? chunk[1] : band, m->step[1], band), 1}};
    /* boxes that are visited twice have much to do that only goes one after the other: a box for each thread */
    if (m->twice && !m->boxed && !chunk[0])
        plan.part[0] = parts_of(plan.part[0], m->p->threads);
    return plan;
}

/* Whether there are streams on the CPU. */
static bool can_go_on(const struct model *m)
{
    return !m->device && m->stages == 1 && m->p->chain->stage[0].keeps && !m->whole[2];
}

static void search_cpu(struct search *s, struct vp_plan plan, const int64_t *slab, int slabs)
{
    const struct model *m = s->m;
    for (int i = 0; i < slabs; i++) {
        plan.slab = slab[i];
        plan.part[2] = vp_min64(slab[i], m->image[2]);
        plan.stream = false;
        consider_buffers(s, plan);
        plan.stream = can_go_on(m);
        if (plan.stream)
            consider_buffers(s, plan);
    }
}

/* What columns cost at least if their parts are no deeper than `depth`. */
static double least_cost(struct model *m, const struct vp_plan *plan, int64_t depth)
{
    const struct vp_problem *p = m->p;
    const struct vp_rates *rates = m->rates;
    const double ny = (double)m->image[1];
    const double rows = sum_with_halo(m->image[1], plan->band, (double)m->halo[1], m->whole[1]);
    const double read = m->voxels * rows / ny * (double)p->stored_in * rates->read;
    const double write = m->voxels * (double)p->stored_out * rates->write;
    if (!m->device) {
        const double busy = work(m, plan, depth);
        return fmax(fmax((busy + read + write) / p->threads, read), write) + busy / p->threads;
    }
    const double lx = sum_with_halo(m->image[0], plan->part[0], (double)m->halo[0], m->whole[0]);
    const double ly = sum_with_halo(m->image[1], plan->part[1], (double)m->halo[1], m->whole[1]);
    const double in = (double)(m->in_size * (size_t)p->chain->stacks);
    return (m->voxels * (lx * ly / ((double)m->image[0] * ny) * in + (double)m->out_size) * rates->bus
            + work(m, plan, depth) / rates->device_cores) / p->devices + (read + write) * 0.1;
}

/* Whether the host can hold slabs of so many planes of these columns. */
static bool host_holds(struct search *s, struct vp_plan plan, int64_t slab)
{
    struct model *m = s->m;
    plan.slab = snap(slab, m->step[2], m->n);
    plan.part[2] = m->whole[2] ? m->image[2] : vp_min64(m->image[2], vp_min64(plan.slab, m->step[2]));
    plan.slabs = 1;
    for (int stream = m->carries || (m->device && !m->whole[2]); stream >= 0; stream--) {
        plan.stream = stream;
        plan.window = least_window(m, &plan);
        s->m->looks++;
        if (!derive(m, &plan))
            continue;
        if (plan.host <= m->p->memory)
            return true;
    }
    struct vp_plan roomy = plan; /* as it would be with more memory */
    roomy.stream = m->carries;
    roomy.slabs = 2;
    roomy.window = vp_min64(least_window(m, &roomy) + slab, vp_min64(m->n, m->input_n));
    if (derive(m, &roomy)) {
        price(m, &roomy);
        refuse(s, &plan, 0, roomy.seconds);
    }
    return false;
}

static void search_slabs(struct search *s, struct vp_plan plan, int64_t deepest, const int64_t *slab, int slabs)
{
    const struct model *m = s->m;
    const int64_t given = m->p->chunk[2];
    const int most_cuts = s->rough ? 2 : 5;
    for (int i = 0; i < slabs && !tired(s); i++) {
        const int64_t length = vp_min64(slab[i], m->image[2]), least = parts_of(length, deepest);
        plan.slab = slab[i];
        plan.part[2] = 0;
        if (!host_holds(s, plan, slab[i]))
            continue;
        for (int64_t cuts = least; cuts < least + most_cuts; cuts++) {
            const int64_t depth = m->whole[2] ? m->image[2]
                                              : snap(given ? given : parts_of(length, cuts), m->step[2], length);
            if (depth == plan.part[2])
                continue;
            plan.part[2] = depth;
            plan.stream = false;
            consider_buffers(s, plan);
            plan.stream = (cuts == 1 || cuts == least) && !m->whole[2];
            if (plan.stream)
                consider_buffers(s, plan);
        }
    }
}

/* Every depth and number of buffers for given columns. */
static void search_depths(struct search *s, struct vp_plan plan, const int64_t *slab, int slabs)
{
    struct model *m = s->m;
    const struct vp_problem *p = m->p;
    for (plan.lanes = 3; plan.lanes > 0; plan.lanes--) {
        int64_t deepest[VP_MAX_DEVICES];
        for (int d = 0; d < p->devices; d++) { /* each its own: not every plan uses all devices */
            bool known = false;
            for (int i = 0; i < d && !known; i++)
                known = p->free[i] == p->free[d];
            deepest[d] = known ? 0 : deepest_part(m, &plan, p->free[d], m->image[2]);
            if (deepest[d] < m->image[2])
                deepest[d] = deepest[d] / m->step[2] * m->step[2];
            for (int i = 0; i < d && !known; i++)
                known = deepest[i] == deepest[d];
            if (deepest[d] == 0 && !known)
                refuse(s, &plan, 1, least_cost(m, &plan, m->image[2]));
            if (deepest[d] && !known
                && least_cost(m, &plan, deepest[d]) < (s->found ? fmin(s->bound, s->best.seconds) : s->bound))
                search_slabs(s, plan, deepest[d], slab, slabs);
        }
    }
}

struct sizes { int64_t wide[MAX_SIZES], high[MAX_SIZES], band[MAX_SIZES], slab[MAX_SIZES]; };

/* The plan with one of its sizes changed. */
static void change(const struct model *m, struct vp_plan *plan, int axis, int64_t size)
{
    const struct vp_problem *p = m->p;
    const int64_t cuts = plan->parts[2];
    if (axis == 4) {
        plan->part[1] = plan->part[1] == plan->band ? size : vp_min64(plan->part[1], size);
        plan->band = size;
        plan->bands = parts_of(m->image[1], size);
    } else if (axis == 2) {
        plan->slab = size;
        const int64_t length = vp_min64(size, m->image[2]);
        plan->part[2] = snap(p->chunk[2]                  ? p->chunk[2]
                             : m->device && !plan->stream ? parts_of(length, cuts)
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
    const struct model *m = s->m;
    const struct vp_problem *p = m->p;
    for (bool better = true; better && !tired(s);) {
        const double before = s->best.seconds;
        for (int axis = 0; axis < 5; axis++) {
            const struct vp_plan from = s->best;
            const int64_t length = vp_min64(from.slab, m->image[2]);
            const int64_t n[5] = {m->image[0], from.band, m->n, length, m->image[1]};
            const int64_t now[5] = {from.part[0], from.part[1], from.slab, from.part[2], from.band};
            const bool fixed[5] = {!m->device || m->whole[0] || p->chunk[0], !m->device || m->whole[1] || p->chunk[1],
                                   m->whole[2] || (!m->device && p->chunk[2]),
                                   !m->device || from.stream || m->whole[2] || p->chunk[2], m->whole[1] || !p->rows};
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
                const bool both = m->device ? !m->whole[2] && !p->chunk[2] : can_go_on(m);
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
    struct model *m = s->m;
    const struct vp_problem *p = m->p;
    const int slabs = thin(l->slab, sizes_of(m->n, 0, m->step[2], l->slab), ROUGH);
    const int64_t wide = m->whole[0] ? m->image[0] : p->chunk[0];
    const int64_t high = p->rows && !m->whole[1] ? 0 : m->image[1];
    const int wides = thin(l->wide, sizes_of(m->image[0], wide, m->step[0], l->wide), step);
    const int bands = thin(l->band, sizes_of(m->image[1], high, m->step[1], l->band), step);
    for (int b = 0; b < bands && !tired(s); b++) {
        struct vp_plan plan = {.band = l->band[b], .bands = parts_of(m->image[1], l->band[b])};
        const int64_t given = m->whole[1] ? plan.band : p->chunk[1];
        const int highs = thin(l->high, sizes_of(plan.band, given, m->step[1], l->high), step);
        for (int x = 0; x < wides && !tired(s); x++) {
            int y = 0;
            for (; y < highs && !tired(s); y++) {
                plan.part[0] = l->wide[x];
                plan.part[1] = l->high[y];
                if (s->found && least_cost(m, &plan, m->image[2]) >= s->best.seconds)
                    break; /* smaller ones cost more */
                plan.lanes = 1;
                if (!host_holds(s, plan, m->whole[2] ? m->image[2] : 1))
                    continue;
                struct search here = *s;
                here.found = false;
                here.bound = s->found ? s->best.seconds * NEARLY : INFINITY;
                search_depths(&here, plan, l->slab, slabs);
                s->limit = here.limit;
                s->host = here.host;
                memcpy(s->refused, here.refused, sizeof s->refused);
                if (!here.found)
                    continue;
                if (!s->found || here.best.seconds < s->best.seconds)
                    s->best = here.best;
                s->found = true;
                keep(kept, &here.best);
            }
            if (y == 0)
                break;
        }
    }
}

/* Columns of every size roughly, first with wide steps; the best of these closely. */
static void search_device(struct search *s, struct sizes *l)
{
    struct model *m = s->m;
    struct best kept = {.n = 0};
    s->rough = true;
    s->enough = WIDE_LOOKS;
    search_columns(s, l, WIDE, &kept);
    s->enough = m->looks + ROUGH_LOOKS;
    search_columns(s, l, COARSE, &kept);
    s->rough = false;
    const int slabs = thin(l->slab, sizes_of(m->n, 0, m->step[2], l->slab), FINE);
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
}

static int search(struct search *s, struct vp_err *err)
{
    struct model *m = s->m;
    const struct vp_problem *p = m->p;
    struct sizes *l = malloc(sizeof *l);
    if (!l)
        return vp_fail(err, VP_ERESOURCE, "not enough memory");
    if (m->device) {
        search_device(s, l);
    } else {
        const int slabs = thin(l->slab, sizes_of(m->n, p->chunk[2], m->step[2], l->slab), FINE);
        const int64_t whole = p->rows && !m->whole[1] ? 0 : m->image[1];
        const int bands = thin(l->band, sizes_of(m->image[1], whole, m->step[1], l->band), FINE);
        s->enough = ROUGH_LOOKS;
        for (int b = 0; b < bands && !tired(s); b++) {
            const struct vp_plan plan = cpu_plan(m, l->band[b]);
            if (s->found && least_cost(m, &plan, m->image[2]) >= s->best.seconds)
                break; /* smaller ones cost more */
            if (host_holds(s, plan, m->whole[2] ? m->image[2] : 1))
                search_cpu(s, plan, l->slab, slabs);
        }
    }
    s->enough = m->looks + CLOSE_LOOKS;
    if (s->found && !m->device)
        refine(s, l->high);
    free(l);
    return 0;
}

/* Bytes that the smallest plan for the CPU takes, all in all. */
static uint64_t least_memory(struct model *m)
{
    const struct vp_problem *const given = m->p;
    struct vp_problem roomy = *given;
    uint64_t least = UINT64_MAX;

    roomy.memory = UINT64_MAX;
    m->p = &roomy;
    const int64_t given_slab = m->whole[2] ? m->image[2] : vp_min64(roomy.chunk[2], m->n);
    for (int64_t slab = given_slab ? given_slab : 1; slab <= m->n; slab += slab < 32 ? 1 : slab) {
        for (int stream = can_go_on(m); stream >= 0; stream--) {
            const int64_t band = roomy.rows && !m->whole[1] ? vp_min64(m->step[1], m->image[1]) : m->image[1];
            struct vp_plan plan = cpu_plan(m, band);
            plan.slab = snap(slab, m->step[2], m->n);
            plan.part[2] = vp_min64(plan.slab, m->image[2]);
            plan.slabs = 1;
            plan.stream = stream;
            plan.window = least_window(m, &plan);
            if (derive(m, &plan) && fits(m, &plan) && plan.host < least)
                least = plan.host;
        }
        if (given_slab)
            break;
    }
    m->p = given;
    return least;
}

static int make_plan(struct vp_plan *plan, const struct vp_problem *given, bool twice, struct vp_err *err)
{
    struct vp_problem own = *given;
    const struct vp_problem *const p = &own;
    struct model m;
    struct search s = {.m = &m, .host = UINT64_MAX, .bound = INFINITY, .refused = {INFINITY, INFINITY}};

    if (make_model(&m, p, twice, err))
        return -1;
    if (m.boxed)
        memcpy(own.chunk, m.twice->step, sizeof own.chunk);
    const int rc = search(&s, err);
    if (!rc && !s.found && !m.device)
        s.host = least_memory(&m);
    free(m.reach);
    if (rc)
        return -1;
    if (s.found) {
        *plan = s.best;
        const int by = s.refused[1] < s.refused[0];
        plan->limit = s.refused[by] < plan->seconds * MATTERS ? limits[by] : "";
        return 0;
    }
    char need[16], have[16];
    if (s.limit && !strcmp(s.limit, "device memory"))
        return vp_fail(err, VP_ERESOURCE, "the smallest portion does not fit the memory of the device");
    return vp_fail(err, VP_ERESOURCE, "the smallest portion takes %s: expected at most %s",
                   vp_format_bytes(need, sizeof need, s.host + p->beside),
                   vp_format_bytes(have, sizeof have, p->memory + p->beside));
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
