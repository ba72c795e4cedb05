/* SPDX-License-Identifier: BSD-3-Clause */
/* What a plan takes and what it costs. The price is a rough time at the rates of one table (rates.h): bytes read,
 * written and copied, work on halos that more than one part does, the first planes in and the last ones out (nothing
 * overlaps those), and memory that must be made. Only ratios matter: results do not depend on the plan. */
#include "engine/plan_internal.h"

#include "base/err.h"
#include "base/size.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Parts of fewer voxels are given to a thread each. */
enum { SMALL_PART = 1 << 17, GUESS_PLANES = 2048 };

/* Sum of the lengths of all parts of an axis with a halo on both sides, clipped. */
static double looked(int64_t n, int64_t part, int64_t halo, bool whole)
{
    const int64_t count = vp_div_up(n, part);
    if (count <= 1 || whole)
        return (double)count * (double)n;
    /* ends that lie inside, and starts */
    const int64_t inside = n > halo ? vp_min64((n - halo) / part, count) : 0;
    const int64_t before = vp_min64(halo / part + 1, count), after = count - before;
    const double ends = (double)part * (double)inside * (double)(inside + 1) / 2 + (double)inside * (double)halo
                        + (double)(count - inside) * (double)n;
    const double starts =
        (double)part * ((double)(count - 1) * (double)count - (double)(before - 1) * (double)before) / 2 -
        (double)after * (double)halo;
    return ends - starts;
}

int vp_plan_model(struct vp_plan_model *m, const struct vp_problem *p, bool twice, struct vp_err *err)
{
    const struct vp_chain *c = p->chain;
    const struct vp_op *can = vp_chain_twice(c);
    const bool whole = can && can->run && !twice; /* parts are images */
    *m = (struct vp_plan_model){.p = p, .rates = p->rates ? p->rates : &vp_rates,
                                .device = p->backend && !p->backend->on_host};
    memcpy(m->image, p->image, sizeof m->image);
    const struct vp_op *last = &c->stage[c->n - 1];
    for (int a = 0; a < 3; a++)
        m->input[a] = last->mapping ? last->input[a] : p->image[a];
    m->mapped = last->mapping ? last : NULL;
    const bool endless = p->image[2] >= VP_UNKNOWN;
    if (endless)
        m->image[2] = GUESS_PLANES;
    const int64_t outer = p->outer < VP_UNKNOWN ? p->outer : vp_div_up(GUESS_PLANES, m->image[2]);
    m->n = m->image[2] * outer;
    m->input_n = endless || p->outer >= VP_UNKNOWN ? VP_UNKNOWN : m->input[2] * outer;
    m->voxels = (double)m->image[0] * (double)m->image[1] * (double)m->n * (double)p->inner;
    m->read = m->voxels * (double)p->stored_in * m->rates->read;
    m->write = m->voxels * (double)p->stored_out * m->rates->write;
    if (!(m->stage = calloc((size_t)c->n, sizeof *m->stage)))
        return vp_fail(err, VP_ERESOURCE, "not enough memory");
    for (int s = c->n - 1; s >= 0; s--) {
        const struct vp_op *op = &c->stage[s];
        m->carries = m->carries || vp_op_scans(op);
        for (int a = 0; a < 3; a++) {
            m->step[a] = whole ? m->image[a] : vp_max64(m->step[a], vp_max64(op->step[a], 1));
            m->whole[a] = m->whole[a] || op->halo[a] >= VP_UNKNOWN;
            const int64_t reach = vp_min64(VP_UNKNOWN, m->stage[s].reach[a] + op->halo[a]);
            m->halo[a] = vp_max64(m->halo[a], reach);
            for (int i = 0; i < op->inputs; i++)
                if (op->from[i] >= 0)
                    m->stage[op->from[i]].reach[a] = vp_max64(m->stage[op->from[i]].reach[a], reach);
        }
    }
    m->in_size = vp_type_size(c->stage[0].in);
    for (int k = 0; k < c->stacks; k++)
        m->stacks += !p->single[k];
    m->out_size = vp_type_size(last->out) + (last->second ? vp_type_size(*last->second) : 0);
    m->twice = whole ? NULL : can;
    m->boxed = m->twice && m->twice->step[0] > 0;
    m->entries = p->held ? UINT64_MAX : p->memory / 4;
    const bool same = !m->mapped || (m->input[2] == p->image[2] && vp_op_extent(last, 2, 1) == 1);
    const bool apart = same && !m->halo[2] && !m->whole[2] && m->step[2] == 1,
               alone = p->image[2] == 1 && m->input[2] == 1;
    m->flow = p->flow && !p->lines && !m->carries && !(m->mapped && last->mapping->any_order)
              && (alone || (apart && !m->twice));
    m->bands = (p->rows || m->flow) && !m->whole[1];
    for (int a = 0; a < 3; a++)
        m->given[a] = m->boxed ? m->twice->step[a] : m->device && m->whole[a] && a < 2 ? m->image[a] : p->chunk[a];
    /* boxes that are visited twice have much to do that only goes one after the other: a box for each thread */
    if (!m->device && !m->given[0])
        m->given[0] = vp_div_up(m->image[0], m->twice ? p->threads : 1);
    if (!m->device && !m->given[1])
        m->given[1] = m->image[1];
    m->streams = (m->device || (c->n == 1 && last->carry)) && !m->whole[2];
    return 0;
}

double vp_plan_work(struct vp_plan_model *m, const struct vp_plan *plan, int64_t depth)
{
    const struct vp_chain *c = m->p->chain;
    const int64_t part[3] = {plan->part[0], vp_max64(1, vp_min64(plan->part[1], plan->band)), depth};
    for (int a = 0; a < 3; a++) {
        const int64_t n = m->image[a], cut = vp_min64(part[a], n);
        if (cut == m->cut[a])
            continue;
        m->cut[a] = cut;
        for (int s = 0; s < c->n; s++) {
            struct vp_plan_stage *to = &m->stage[s];
            to->made[a] = looked(n, cut, to->reach[a], m->whole[a]) / (double)n;
            to->looked[a] = looked(n, cut, to->reach[a] + c->stage[s].halo[a], m->whole[a]) / (double)n;
        }
    }
    double sum = 0;
    for (int s = 0; s < c->n; s++) { /* half of an operation that goes axis by axis is done where it looks */
        const double *made = m->stage[s].made, *look = m->stage[s].looked;
        const double cost = (c->stage[s].cost > 0 ? c->stage[s].cost : 1) * 1e-9;
        sum += cost * (made[0] * made[1] * made[2] + look[0] * look[1] * look[2]) / 2;
    }
    return sum * m->voxels;
}

/* Part of at most part[] in the middle of the image, where no halo is clipped if that can be. */
static struct vp_box middle(const struct vp_plan_model *m, const int64_t part[3])
{
    struct vp_box b;
    for (int a = 0; a < 3; a++) {
        const int64_t n = m->p->image[a], size = vp_min64(part[a], n);
        b.lo[a] = n >= VP_UNKNOWN ? vp_min64(VP_UNKNOWN / 2, m->halo[a]) : (n - size) / 2;
        b.hi[a] = b.lo[a] + size;
    }
    return b;
}

static int64_t with_halo(const struct vp_plan_model *m, int a, int64_t part)
{
    return m->mapped ? vp_op_extent(m->mapped, a, part)
           : m->whole[a] ? m->input[a] : vp_min64(m->input[a], part + 2 * m->halo[a]);
}

double vp_plan_rows(const struct vp_plan_model *m, const struct vp_plan *plan)
{
    return plan->flow ? (double)m->image[1]
                                  : looked(m->image[1], plan->band, m->halo[1], m->whole[1]);
}

double vp_plan_across(const struct vp_plan_model *m, const struct vp_plan *plan)
{
    return looked(m->image[0], plan->part[0], m->halo[0], m->whole[0])
           * looked(m->image[1], vp_min64(plan->part[1], plan->band), m->halo[1], m->whole[1]);
}

int64_t vp_plan_window(const struct vp_plan_model *m, const struct vp_plan *plan)
{
    if (plan->flow)
        return plan->slab;
    const int64_t images = vp_div_up(plan->slab, m->image[2]);
    if (m->whole[2])
        return vp_min64(m->input_n, (images + 1) * vp_min64(m->input[2], m->image[2]));
    if (m->mapped) { /* a slab within one image, across two, or across more */
        const int64_t one = vp_op_extent(m->mapped, 2, plan->slab), half = (plan->slab + 1) / 2, all = m->image[2];
        const int64_t two = 2 * vp_op_extent(m->mapped, 2, half) + m->input[2] - vp_op_extent(m->mapped, 2, all);
        return vp_min64(m->input_n, m->p->outer == 1 ? one : images > 1 ? (images + 1) * m->input[2] : two);
    }
    return vp_min64(m->input_n, plan->slab + (plan->stream ? m->halo[2] : 2 * m->halo[2]));
}

static void add_bytes(uint64_t *sum, double a, double b, double c, double d)
{
    const double n = a * b * c * d;
    *sum = n >= 1e18 || *sum > (uint64_t)1e18 ? (uint64_t)2e18 : *sum + (uint64_t)n;
}

/* Bytes of what the first of two visits finds in all boxes. */
static double found_bytes(const struct vp_plan_model *m, const struct vp_plan *plan)
{
    const struct vp_box box = middle(m, plan->part);
    double boxes = (double)m->p->inner * (double)m->p->outer;
    for (int a = 0; a < 3; a++)
        boxes *= (double)vp_div_up(m->image[a], plan->part[a]);
    return boxes * (double)m->twice->two_pass->summary(m->twice, &box);
}

bool vp_plan_derive(const struct vp_plan_model *m, struct vp_plan *plan)
{
    const struct vp_problem *p = m->p;
    plan->flow = m->flow && plan->bands > 1;
    const int64_t beside = plan->flow ? 1 : p->inner; /* pages of a plane */
    const double nx = (double)m->image[0], inner = (double)beside, input_nx = (double)m->input[0];
    const double rows = (double)(plan->bands > 1 ? with_halo(m, 1, plan->band) : m->input[1]);
    const double voxels = (double)plan->part[0] * (double)plan->part[1] * (double)plan->part[2];
    const int64_t ends[3] = {m->image[0], plan->band, vp_min64(plan->slab, m->image[2])};

    for (int a = 0; a < 3; a++)
        if ((plan->part[a] % m->step[a] && plan->part[a] < ends[a])
            || (m->boxed && plan->part[a] != vp_min64(m->step[a], m->image[a])))
            return false;
    if (m->twice && (plan->stream || (plan->bands > 1 && plan->band % plan->part[1]) || voxels > INT32_MAX))
        return false;
    if ((plan->band % m->step[1] && plan->bands > 1) || (plan->slab % m->step[2] && plan->slab < m->image[2]))
        return false;
    if (plan->flow && (plan->slab > 1 || plan->stream))
        return false;
    plan->offset = m->carries && m->device && !plan->stream;
    if (m->carries && !plan->stream && !(plan->offset && p->chain->stage[0].carry->combine && plan->slab == plan->part[2]
                                         && plan->slab == vp_min64(m->step[2], m->image[2])))
        return false;
    if (plan->window < vp_plan_window(m, plan))
        return false;
    for (int a = 0; a < 3; a++)
        plan->in[a] = with_halo(m, a, plan->part[a]);
    plan->parts[0] = vp_div_up(m->image[0], plan->part[0]);
    plan->parts[1] = vp_div_up(plan->band, plan->part[1]);
    plan->parts[2] = vp_div_up(plan->slab, plan->part[2]);
    const int64_t columns = plan->parts[0] * plan->parts[1] * beside;

    plan->device = m->device;
    plan->twice = m->twice;
    plan->together = plan->workers = 1;
    plan->kept = plan->entries = plan->input = plan->output = plan->scratch = plan->on_device = 0;
    if (m->device) {
        if (plan->stream && columns > VP_MAX_WORKERS)
            return false;
        plan->workers = plan->stream ? (int)columns : p->devices;
    } else {
        const int64_t all = columns * vp_div_up(plan->slab, m->image[2]);
        plan->lanes = 0;
        if ((voxels <= SMALL_PART || m->twice) && all > 1 && !m->carries)
            plan->together = (int)vp_min64(p->threads, all);
        if (plan->stream) {
            const struct vp_box box = middle(m, plan->part);
            const uint64_t one = plan->together > 1 ? 0 : vp_chain_state_bytes(p->chain, &box, p->threads);
            if (one == 0)
                return false;
            add_bytes(&plan->kept, (double)one, (double)columns, 1, 1);
        }
    }
    for (int d = 0; d < p->devices; d++)
        plan->depth[d] = plan->part[2]; /* until vp_plan_fits() knows better */
    if (m->twice)
        add_bytes(&plan->entries, fmin(found_bytes(m, plan), (double)m->entries), 1, 1, 1);
    const int64_t kept = plan->flow ? 0 : p->chain->stacks - m->stacks; /* stacks of one page */
    add_bytes(&plan->input, (double)plan->window, inner, input_nx * rows,
              (double)m->in_size * (double)(p->chain->stacks - kept));
    add_bytes(&plan->input, input_nx, rows, (double)m->in_size, (double)kept);
    add_bytes(&plan->output, plan->slabs * (double)plan->slab, inner,
              nx * (double)plan->band, (double)m->out_size);
    plan->host = plan->input + plan->output + plan->kept + plan->entries;
    return true;
}

/* Workers of device d. */
static int workers_of(const struct vp_problem *p, const struct vp_plan *plan, int d)
{
    return plan->stream ? plan->workers / p->devices + (d < plan->workers % p->devices) : 1;
}

/* Bytes of a worker whose parts have so many planes of output. */
static uint64_t part_bytes(struct vp_plan_model *m, const struct vp_plan *plan, int64_t depth)
{
    const int64_t in[3] = {with_halo(m, 0, plan->part[0]), with_halo(m, 1, plan->part[1]), with_halo(m, 2, depth)};
    const int64_t out[3] = {plan->part[0], plan->part[1], depth};
    m->looks++;
    return vp_lanes_bytes(m->p->backend, m->p->chain, in, out, plan->lanes);
}

int64_t vp_plan_deepest(struct vp_plan_model *m, const struct vp_plan *plan, uint64_t room, int64_t most)
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

const char *const vp_plan_limits[] = {"memory", "device memory"};

bool vp_plan_fits(struct vp_plan_model *m, struct vp_plan *plan)
{
    const struct vp_problem *p = m->p;
    plan->limit = vp_plan_limits[0];
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
    plan->limit = vp_plan_limits[1];
    bool fit = false;
    for (int d = 0; d < p->devices; d++) {
        const int workers = workers_of(p, plan, d);
        plan->depth[d] = 0;
        if (!workers)
            continue;
        plan->depth[d] = vp_plan_deepest(m, plan, p->free[d] / (uint64_t)workers, plan->part[2]);
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
static double parts_along(const struct vp_plan_model *m, const struct vp_plan *plan, int64_t depth)
{
    const int64_t slab = vp_min64(plan->slab, m->image[2]);
    return (double)vp_div_up(m->image[2], slab) * (double)vp_div_up(slab, depth);
}

/* Seconds of the work on devices. */
static double price_devices(struct vp_plan_model *m, struct vp_plan *plan, double visits, double columns)
{
    const struct vp_problem *p = m->p;
    const struct vp_rates *rates = m->rates;
    const double in = (double)(m->in_size * (size_t)p->chain->stacks), out = (double)m->out_size;
    const double lz = plan->stream ? (double)m->image[2] : looked(m->image[2], vp_min64(plan->slab, m->image[2]),
                                                                  m->halo[2], m->whole[2]);
    plan->copied = visits * vp_plan_across(m, plan) * lz
                   / ((double)m->image[0] * (double)m->image[1] * (double)m->image[2]);
    const double copies = m->voxels * (plan->copied * in + out) * rates->bus;
    const double part = (double)plan->in[0] * (double)plan->in[1] * (double)plan->in[2] * in
                        + (double)plan->part[0] * (double)plan->part[1] * (double)plan->part[2] * out;
    /* parts of a worker under way: beside a slab that is written; upload, work and download want one each */
    double own = (double)plan->parts[2];
    if (!plan->stream)
        own *= (double)(plan->parts[0] * plan->parts[1] * (plan->flow ? 1 : p->inner)) / p->devices;
    const double flight = fmin(plan->lanes, own * (plan->slabs > 1 ? plan->slabs - 1 : 1));
    const double serial = flight > 2 ? 1 : flight > 1 ? 1.2 : 2;
    double rate = 0, slowest = 0, alone = 0;
    for (int d = 0; d < p->devices; d++) {
        const int workers = workers_of(p, plan, d);
        if (!workers || plan->depth[d] == 0)
            continue;
        if (d == 0 || plan->depth[d] != plan->depth[d - 1]) /* all the work, if this device did it alone */
            alone = copies * serial + visits * vp_plan_work(m, plan, plan->depth[d]) / rates->device_cores
                    + (plan->offset ? m->voxels * out * rates->offset : 0)
                    + visits * columns * parts_along(m, plan, plan->depth[d]) * rates->bus_call;
        rate += 1 / alone;
        slowest = fmax(slowest, alone * workers / plan->workers);
    }
    return (plan->stream ? slowest : 1 / rate) + part * rates->bus;
}

void vp_plan_price(struct vp_plan_model *m, struct vp_plan *plan)
{
    const struct vp_problem *p = m->p;
    const struct vp_rates *rates = m->rates;
    const double ny = (double)m->image[1], n = (double)m->n, rows = vp_plan_rows(m, plan), visits = m->twice ? 2 : 1;
    const int64_t planes = vp_plan_planes(m, plan, m->n), input_n = vp_plan_planes(m, plan, m->input_n);
    const double read = visits * rows / ny * m->read, write = m->write;
    const double slabs = visits * (double)vp_div_up(planes, plan->slab) * (double)(plan->flow ? 1 : plan->bands);
    const double ahead = fmin(1, (double)(plan->window - vp_plan_window(m, plan)) / (double)plan->slab);
    const bool all_at_once = plan->window >= vp_min64(planes, input_n);
    const double blocked = plan->slabs > 1 || plan->slab >= planes ? 0 : write; /* work waits for it */
    const double waited = all_at_once ? 0 : (1 - ahead) * read; /* of the reading */
    const double first = read * fmin(1, (double)(plan->slab + (plan->flow ? 0 : m->halo[2])) / (double)planes);
    const double last = write * (double)plan->slab / (double)planes;
    /* bands are read and written in pieces that do not follow each other; or what two of them share is moved */
    const double shared = looked(m->image[1], plan->band, m->halo[1], false) / ny - 1;
    const double pieces = plan->bands == 1 ? 0
                          : plan->flow     ? m->voxels * shared * (double)m->in_size * rates->move
                                           : (double)plan->bands * n * (double)p->inner * rates->piece;
    const double columns = (double)plan->parts[0] * (double)vp_div_up(m->image[1], vp_min64(plan->part[1], plan->band))
                           * (double)p->inner * n / (double)m->image[2];

    plan->read = visits * rows / ny;
    plan->copied = 0;
    plan->seconds = first + last + pieces + slabs * rates->slab;
    if (m->twice)
        plan->seconds += found_bytes(m, plan) * rates->solve;
    if (m->device) {
        plan->seconds += price_devices(m, plan, visits, columns) + (read + write) * 0.1 + waited + blocked
                         + (double)plan->host * rates->pinned;
        return;
    }
    double busy = visits * vp_plan_work(m, plan, plan->stream ? m->image[2] : plan->part[2]);
    const double deep = (double)vp_div_up(m->image[2], plan->part[2]);
    /* what is kept goes through memory for each part; threads do not make that quicker */
    const double again = (double)plan->kept * (double)plan->bands * deep * n / (double)m->image[2] * rates->move;
    /* reading and writing take the cores, too */
    const double all = (busy + read + write) / p->threads + again;
    busy = busy / p->threads + again + columns * deep * (plan->together > 1 ? rates->small_part : rates->part);
    /* what is not overlapped costs more than it seems where storage is slower than assumed; and so does work where it
     * is faster, or where the cores have the other programs of a pipe to run */
    plan->seconds += fmax(fmax(fmax(busy + waited + blocked, read), write), all) + (waited + blocked) * 0.25 + busy
                     + (plan->read - 1) * m->voxels * (double)p->stored_in * rates->again
                     + (double)plan->host * rates->fresh;
}
