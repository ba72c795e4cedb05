/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes and seconds of a plan. The price is a rough time at the rates of one table (rates.h): bytes read, written and
 * copied, work on halos that parts share, the first planes in and the last ones out (nothing overlaps those), and
 * memory to allocate. Only ratios matter: results do not depend on the plan. */
#include "engine/plan_internal.h"

#include "base/err.h"
#include "base/size.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Parts of at most SMALL_PART voxels are given to one thread each. */
enum { SMALL_PART = 1 << 17, GUESS_PLANES = 2048 };

/* Returns a part of at most part[] in the middle of the image, where the edges clip its halo least. */
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

int vp_plan_model(struct vp_plan_model *m, const struct vp_problem *p, bool twice, struct vp_err *err)
{
    const struct vp_chain *c = p->chain;
    const struct vp_op *can = vp_chain_twice(c), *last = &c->stage[c->n - 1];
    const bool images = can && can->run && !twice; /* every part is an image */
    const bool endless = p->image[2] >= VP_UNKNOWN;
    *m = (struct vp_plan_model){.p = p, .rates = p->rates ? p->rates : &vp_rates,
                                .device = p->backend && !p->backend->on_host, .twice = images ? NULL : can};
    if (!(m->made = malloc(2 * (size_t)c->n * sizeof *m->made)))
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    for (int a = 0; a < 3; a++) {
        m->image[a] = p->image[a] >= VP_UNKNOWN ? GUESS_PLANES : p->image[a];
        m->input[a] = vp_op_input(last, a);
    }
    m->mapped = last->mapping ? last : NULL;
    m->n = m->image[2] * (p->outer < VP_UNKNOWN ? p->outer : vp_div_up(GUESS_PLANES, m->image[2]));
    m->input_n = endless || p->outer >= VP_UNKNOWN ? VP_UNKNOWN : m->input[2] * p->outer;
    m->voxels = (double)m->image[0] * (double)m->image[1] * (double)m->n * (double)p->inner;
    m->read = m->voxels * (double)p->stored_in * m->rates->read;
    m->write = m->voxels * (double)p->stored_out * m->rates->write;
    m->cores = can && can->run && m->device && vp_lanes_twice(p->backend, c) ? m->rates->recon_cores
                                                                             : m->rates->device_cores;
    vp_chain_halo(c, m->halo);
    for (const struct vp_op *op = c->stage; op <= last; op++) {
        m->carries = m->carries || vp_op_scans(op);
        for (int a = 0; a < 3; a++) {
            m->step[a] = images && (a < 2 || can->step[2] != 1) ? m->image[a]
                                                                : vp_max64(m->step[a], vp_max64(op->step[a], 1));
            m->whole[a] = m->whole[a] || op->halo[a] >= VP_UNKNOWN;
        }
    }
    struct vp_box given[VP_MAX_INPUTS];
    const struct vp_box all = middle(m, m->image);
    vp_chain_boxes(c, &all, m->made + c->n, given);
    m->in_size = vp_type_size(c->stage[0].in);
    m->out_size = vp_type_size(last->out) + (last->second ? vp_type_size(*last->second) : 0);
    for (int k = 0; k < c->stacks; k++)
        m->stacks += !p->single[k];
    m->least = m->twice && m->twice->two_pass->least ? m->twice->two_pass->least(m->twice, p->threads) : 0;
    m->boxed = m->twice && m->twice->step[0] > 0;
    m->entries = p->held ? UINT64_MAX : p->memory / 4;
    const bool same = !m->mapped || (m->input[2] == p->image[2] && vp_op_extent(last, 2, 1) == 1);
    const bool apart = same && !m->halo[2] && !m->whole[2] && m->step[2] == 1,
               alone = p->image[2] == 1 && m->input[2] == 1;
    m->flow = p->flow && !p->lines && !m->carries && !(m->mapped && last->mapping->any_order)
              && (alone || (apart && !m->twice));
    m->bands = (p->rows || m->flow) && !m->whole[1];
    m->streams = (m->device || (c->n == 1 && last->carry)) && !m->whole[2];
    for (int a = 0; a < 3; a++) {
        m->given[a] = m->boxed ? m->twice->step[a] : m->device && m->whole[a] && a < 2 ? m->image[a] : p->chunk[a];
        /* the passes of a box are serial in places: a box for each thread; one that is a whole image would get the
         * workspace of one pass */
        if (!m->device && !m->given[a] && a < 2)
            m->given[a] = vp_div_up(m->image[a], a == 0 && m->twice ? p->threads + (m->least && p->threads == 1) : 1);
    }
    return 0;
}

bool vp_plan_hold(struct vp_plan_model *m)
{
    const struct vp_problem *p = m->p;
    int64_t step = 1;
    if (!m->device || p->parted || p->once || p->lines || p->inner != 1 || p->outer != 1 || p->chunk[0])
        return false;
    m->held = vp_lanes_hold(p->backend, p->chain, &step);
    m->step[2] = step;
    m->bands = m->flow = m->streams = false;
    for (int a = 0; a < 2; a++)
        m->given[a] = m->step[a] = m->image[a];
    m->given[2] = 0;
    return m->held;
}

/* ---- input and work ---- */

int64_t vp_plan_need(struct vp_plan_model *m, int axis, int64_t size)
{
    return vp_chain_extent(m->p->chain, axis, vp_min64(size, m->p->image[axis]));
}

/* Returns the sum of the lengths of all parts of an axis, each grown from `part` to `grown` and clipped, over n. */
static double repeated(int64_t n, int64_t part, int64_t grown)
{
    const double more = (double)(vp_div_up(n, part) - 1);
    return fmax(1, 1 + fmin(more, (double)(grown - part) * more / (double)n));
}

/* Returns how often the voxels of a stage count, on average, if an axis is cut into parts that need `grown` of the `all` that
 * the whole image needs. */
static double shared_axis(struct vp_plan_model *m, int axis, int64_t part, int64_t grown, int64_t all)
{
    if (!m->mapped)
        return repeated(m->image[axis], part, grown);
    return fmax(1, (double)m->image[axis] / (double)part * (double)grown / (double)all);
}

/* Returns how often voxels of the input are read if an axis is cut into parts of `size`, on average. */
static double read_axis(struct vp_plan_model *m, int axis, int64_t size)
{
    return shared_axis(m, axis, size, vp_plan_need(m, axis, size), vp_plan_need(m, axis, m->image[axis]));
}

double vp_plan_across(struct vp_plan_model *m, const struct vp_plan *plan)
{
    return read_axis(m, 0, plan->part[0]) * read_axis(m, 1, vp_min64(plan->part[1], plan->band));
}

/* Returns the share of the input's rows that all bands read. */
static double read_rows(struct vp_plan_model *m, const struct vp_plan *plan)
{
    return plan->flow ? 1 : read_axis(m, 1, plan->band);
}

/* Returns the seconds of one core for all stages, with the work that parts of `depth` planes repeat on their halos. */
static double work_seconds(struct vp_plan_model *m, const struct vp_plan *plan, int64_t depth)
{
    const struct vp_chain *c = m->p->chain;
    const int64_t part[3] = {plan->part[0], vp_min64(plan->part[1], plan->band), vp_min64(depth, m->image[2])};
    if (!memcmp(part, m->worked, sizeof part))
        return m->work;
    struct vp_box given[VP_MAX_INPUTS];
    const struct vp_box box = middle(m, part);
    double sum = 0;
    vp_chain_boxes(c, &box, m->made, given);
    for (int s = 0; s < c->n; s++) { /* half of an operation that goes axis by axis is done on its input's box */
        const struct vp_box in = vp_op_region(&c->stage[s], &m->made[s]), *const whole = &m->made[c->n + s],
                            whole_in = vp_op_region(&c->stage[s], whole);
        double out_share = 1, in_share = 1;
        for (int a = 0; a < 3; a++) {
            out_share *= shared_axis(m, a, part[a], vp_box_size(&m->made[s], a), vp_box_size(whole, a));
            in_share *= shared_axis(m, a, part[a], vp_box_size(&in, a), vp_box_size(&whole_in, a));
        }
        sum += (c->stage[s].cost > 0 ? c->stage[s].cost : 1) * 1e-9 * (out_share + in_share) / 2;
    }
    memcpy(m->worked, part, sizeof part);
    return m->work = sum * m->voxels;
}

/* Returns the seconds of copies to and from devices, if `share` of the input is copied. */
static double copy_seconds(const struct vp_plan_model *m, double share)
{
    return m->voxels * (share * (double)m->in_size * m->p->chain->stacks + (double)m->out_size) * m->rates->bus;
}

double vp_plan_bound(struct vp_plan_model *m, const struct vp_plan *plan)
{
    const struct vp_problem *p = m->p;
    const double read = read_rows(m, plan) * m->read, work = work_seconds(m, plan, m->image[2]);
    if (!m->device)
        return fmax((work + read + m->write) / p->threads, fmax(read, m->write)) + work / p->threads;
    return (copy_seconds(m, vp_plan_across(m, plan)) + work / m->cores) / p->devices
           + (read + m->write) * 0.1;
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
    return vp_min64(m->input_n, plan->slab + (plan->stream ? 1 : 2) * m->halo[2]);
}

/* ---- bytes ---- */

static uint64_t to_bytes(double n)
{
    return n >= 1e18 ? (uint64_t)1e18 : (uint64_t)n;
}

/* Returns the bytes that the first of two passes finds in all boxes. */
static double found_bytes(const struct vp_plan_model *m, const struct vp_plan *plan)
{
    const struct vp_box box = middle(m, plan->part);
    double boxes = (double)m->p->inner * (double)m->p->outer;
    for (int a = 0; a < 3; a++)
        boxes *= (double)vp_div_up(m->image[a], plan->part[a]);
    return boxes * (double)m->twice->two_pass->summary(m->twice, &box);
}

/* True if the operation and the executor can work on parts of these sizes. */
static bool is_possible(const struct vp_plan_model *m, const struct vp_plan *plan)
{
    const int64_t ends[3] = {m->image[0], plan->band, vp_min64(plan->slab, m->image[2])}, *part = plan->part;
    for (int a = 0; a < 3; a++)
        if ((part[a] % m->step[a] && part[a] < ends[a]) || (m->boxed && part[a] != vp_min64(m->step[a], m->image[a])))
            return false;
    if (m->twice && (plan->stream || (plan->bands > 1 && plan->band % part[1])
                     || (double)part[0] * (double)part[1] * (double)part[2] > INT32_MAX))
        return false;
    if ((plan->bands > 1 && plan->band % m->step[1])
        || (plan->slab % m->step[2] && plan->slab < m->image[2]) || (plan->flow && (plan->slab > 1 || plan->stream)))
        return false;
    if (m->carries && !plan->stream && !(m->device && m->p->chain->stage[0].carry->combine && plan->slab == part[2]
                                         && plan->slab == vp_min64(m->step[2], m->image[2])))
        return false;
    return plan->window >= vp_plan_window(m, plan);
}

bool vp_plan_derive(struct vp_plan_model *m, struct vp_plan *plan)
{
    const struct vp_problem *p = m->p;
    plan->flow = m->flow && plan->bands > 1;
    if (!is_possible(m, plan))
        return false;
    const int64_t inner = plan->flow ? 1 : p->inner; /* pages of a plane */
    const int single = plan->flow ? 0 : p->chain->stacks - m->stacks;
    const double row = (double)m->input[0] * (double)(plan->bands > 1 ? vp_plan_need(m, 1, plan->band) : m->input[1]);
    for (int a = 0; a < 3; a++)
        plan->in[a] = vp_plan_need(m, a, plan->part[a]);
    plan->parts[0] = vp_div_up(m->image[0], plan->part[0]);
    plan->parts[1] = vp_div_up(plan->band, plan->part[1]);
    plan->parts[2] = vp_div_up(plan->slab, plan->part[2]);
    const int64_t columns = plan->parts[0] * plan->parts[1] * inner;

    plan->device = m->device;
    plan->twice = m->twice;
    plan->held = m->held;
    plan->offset = m->carries && m->device && !plan->stream;
    plan->together = plan->workers = 1;
    plan->kept = plan->scratch = plan->on_device = 0;
    if (m->device) {
        if (plan->stream && columns > VP_MAX_WORKERS)
            return false;
        plan->workers = plan->stream ? (int)columns : plan->held ? 1 : p->devices;
    } else {
        const int64_t all = columns * vp_div_up(plan->slab, m->image[2]);
        const double voxels = (double)plan->part[0] * (double)plan->part[1] * (double)plan->part[2];
        plan->lanes = 0;
        if ((voxels <= SMALL_PART || m->twice) && all > 1 && !m->carries)
            plan->together = (int)vp_min64(p->threads, all);
        if (plan->stream) {
            const struct vp_box box = middle(m, plan->part);
            const uint64_t one = plan->together > 1 ? 0 : vp_chain_state_bytes(p->chain, &box, p->threads);
            if (one == 0)
                return false;
            plan->kept = to_bytes((double)one * (double)columns);
        }
    }
    for (int d = 0; d < p->devices; d++)
        plan->depth[d] = plan->part[2]; /* vp_plan_fits() may find less */
    plan->entries = m->twice ? to_bytes(fmin(found_bytes(m, plan), (double)m->entries)) : 0;
    plan->input = to_bytes(((double)plan->window * (double)inner * (p->chain->stacks - single) + single)
                           * row * (double)m->in_size);
    plan->output = to_bytes((double)plan->slabs * (double)plan->slab * (double)inner * (double)m->image[0]
                            * (double)plan->band * (double)m->out_size);
    plan->host = plan->input + plan->output + plan->kept + plan->entries;
    return true;
}

/* Returns the number of workers on device d. */
static int workers_of(const struct vp_problem *p, const struct vp_plan *plan, int d)
{
    return plan->stream ? plan->workers / p->devices + (d < plan->workers % p->devices) : d == 0 || !plan->held;
}

/* Returns the bytes on the device of a worker with parts of `depth` planes of output. */
static uint64_t part_bytes(struct vp_plan_model *m, const struct vp_plan *plan, int64_t depth)
{
    const int64_t out[3] = {plan->part[0], plan->part[1], depth};
    const int64_t in[3] = {vp_plan_need(m, 0, out[0]), vp_plan_need(m, 1, out[1]), vp_plan_need(m, 2, depth)};
    return vp_lanes_bytes(m->p->backend, m->p->chain, in, out, plan->lanes, plan->held > 0);
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
    return lo / m->step[2] * m->step[2];
}

const char *const vp_plan_limits[] = {"memory", "device memory"};

bool vp_plan_fits(struct vp_plan_model *m, struct vp_plan *plan)
{
    const struct vp_problem *p = m->p;
    const uint64_t least = m->least ? plan->entries + m->least : 0;
    plan->limit = vp_plan_limits[0];
    if (!m->device) {
        const struct vp_box box = middle(m, plan->part);
        const uint64_t host = plan->host;
        for (;; plan->together = 1) { /* parts that are large may be worked on by all threads, one at a time */
            const uint64_t one = vp_chain_bytes(p->chain, &box, plan->together > 1 ? 1 : p->threads);
            plan->scratch = to_bytes((double)one * plan->together);
            plan->host = host + plan->scratch;
            plan->scratch += plan->kept;
            plan->host = plan->host > least ? plan->host : least;
            if (plan->host <= p->memory || plan->together == 1 || !m->twice)
                return plan->host <= p->memory;
        }
    }
    plan->host = plan->host > least ? plan->host : least;
    if (plan->host > p->memory)
        return false;
    plan->limit = vp_plan_limits[1];
    bool fit = false;
    for (int d = 0; d < p->devices; d++) {
        const int workers = workers_of(p, plan, d);
        plan->depth[d] = workers ? vp_plan_deepest(m, plan, p->free[d] / (uint64_t)workers, plan->part[2]) : 0;
        if (plan->depth[d] < plan->part[2] && (plan->offset || m->twice))
            plan->depth[d] = 0;
        if (workers && !plan->depth[d] && plan->stream)
            return false;
        if (!plan->depth[d])
            continue; /* the others do without it */
        const uint64_t all = part_bytes(m, plan, plan->depth[d]) * (uint64_t)workers;
        plan->on_device = all > plan->on_device ? all : plan->on_device;
        fit = fit || plan->depth[d] == plan->part[2];
    }
    return fit;
}

/* ---- seconds ---- */

/* Returns the seconds of the work on devices. */
static double device_seconds(struct vp_plan_model *m, struct vp_plan *plan, double passes, double columns)
{
    const struct vp_problem *p = m->p;
    const struct vp_rates *rates = m->rates;
    const int64_t slab = vp_min64(plan->slab, m->image[2]);
    plan->copied = passes * vp_plan_across(m, plan) * (plan->stream ? 1 : read_axis(m, 2, slab));
    const double copies = copy_seconds(m, plan->copied), out = (double)m->out_size;
    const double part = (double)plan->in[0] * (double)plan->in[1] * (double)plan->in[2] * (double)m->in_size
                        * p->chain->stacks
                        + (double)plan->part[0] * (double)plan->part[1] * (double)plan->part[2] * out;
    /* parts of a worker in flight, beside a slab that is written: upload, work and download take one each */
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
        const double along = (double)vp_div_up(m->image[2], slab) * (double)vp_div_up(slab, plan->depth[d]);
        if (d == 0 || plan->depth[d] != plan->depth[d - 1]) /* all the work, if this device did it alone */
            alone = copies * serial + passes * work_seconds(m, plan, plan->depth[d]) / m->cores
                    + (plan->offset ? m->voxels * out * rates->offset : 0) + passes * columns * along * rates->bus_call;
        rate += 1 / alone;
        slowest = fmax(slowest, alone * workers / plan->workers);
    }
    return (plan->stream ? slowest : 1 / rate) + part * rates->bus;
}

/* Returns the seconds of a device that holds the image: the result begins when the input is complete. Four threads or
 * more read, then write; the device copies and works meanwhile, both at once if there are three slabs in the window. */
static double held_seconds(struct vp_plan_model *m, struct vp_plan *plan)
{
    const double shared = read_axis(m, 2, plan->slab), rate = m->rates->bus, io = 1 / fmin(4, m->p->threads),
                 out = m->voxels * (double)m->out_size,
                 in = m->voxels * (double)(m->in_size * (size_t)m->p->chain->stacks) * shared;
    const double slabs = (double)vp_div_up(m->n, plan->slab), work = work_seconds(m, plan, plan->part[2]) / m->cores,
                 busy = plan->lanes > 2 && plan->window > 2 * plan->slab ? fmax(in * rate, work) : in * rate + work;
    plan->copied = shared;
    return fmax(busy, m->read * io) + fmax(out * rate, m->write * io) + ((in + out) * rate + work) / slabs
           + 2 * slabs * m->rates->bus_call;
}

void vp_plan_price(struct vp_plan_model *m, struct vp_plan *plan)
{
    const struct vp_problem *p = m->p;
    const struct vp_rates *rates = m->rates;
    const double n = (double)m->n, passes = m->twice || plan->held ? 2 : 1;
    const int64_t planes = vp_plan_planes(m, plan, m->n), input_n = vp_plan_planes(m, plan, m->input_n);
    const double slabs = passes * (double)vp_div_up(planes, plan->slab) * (double)(plan->flow ? 1 : plan->bands);
    plan->read = (m->twice ? 2 : 1) * read_rows(m, plan);
    plan->copied = 0;
    const double read = plan->read * m->read, write = m->write;
    /* seconds that work waits for reading and for writing, and those of the first planes in and the last ones out */
    const double ahead = fmin(1, (double)(plan->window - vp_plan_window(m, plan)) / (double)plan->slab);
    const double waited = plan->window >= vp_min64(planes, input_n) ? 0 : (1 - ahead) * read;
    const double blocked = plan->slabs > 1 || plan->slab >= planes ? 0 : write;
    const double first = read * fmin(1, (double)(plan->slab + (plan->flow ? 0 : m->halo[2])) / (double)planes);
    const double last = write * (double)plan->slab / (double)planes;
    /* bands are read and written in pieces that do not follow each other; or their shared rows are moved */
    const double shared = m->voxels * (read_axis(m, 1, plan->band) - 1);
    const double pieces = plan->bands == 1 ? 0
                          : plan->flow     ? shared * (double)m->in_size * rates->move
                                           : (double)plan->bands * n * (double)p->inner * rates->piece;
    const double columns = (double)plan->parts[0] * (double)vp_div_up(m->image[1], vp_min64(plan->part[1], plan->band))
                           * (double)p->inner * n / (double)m->image[2];

    plan->seconds = first + last + pieces + slabs * rates->slab
                    + (m->twice ? found_bytes(m, plan) * rates->solve / p->threads : 0);
    if (plan->held) {
        plan->seconds += held_seconds(m, plan) + waited + blocked + (double)plan->host * rates->pinned;
        return;
    }
    if (m->device) {
        plan->seconds += device_seconds(m, plan, passes, columns) + (read + write) * 0.1 + waited + blocked
                         + (double)plan->host * rates->pinned;
        return;
    }
    const double deep = (double)vp_div_up(m->image[2], plan->part[2]);
    /* the state that a stream keeps goes through memory for each part; threads do not make that quicker */
    const double kept = (double)plan->kept * (double)plan->bands * deep * n / (double)m->image[2] * rates->move;
    const double work = passes * work_seconds(m, plan, plan->stream ? m->image[2] : plan->part[2]);
    const double busy = work / p->threads + kept + columns * deep * rates->part / plan->together;
    const double all = (work + read + write) / p->threads + kept; /* reading and writing take the cores, too */
    /* reading and writing that nothing overlaps cost more if storage is slower than assumed; work costs more if it is
     * faster, or if the cores also run the other programs of a pipe */
    plan->seconds += fmax(fmax(fmax(busy + waited + blocked, read), write), all) + (waited + blocked) * 0.25 + busy
                     + (plan->read - 1) * m->voxels * (double)p->stored_in * rates->again
                     + (double)plan->host * rates->fresh;
}
