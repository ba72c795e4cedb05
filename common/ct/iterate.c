/* SPDX-License-Identifier: BSD-3-Clause */
/* The methods, and the loop around them. */
#include "ct/iterate_internal.h"

#include "base/err.h"
#include "base/progress.h"
#include "base/size.h"
#include "base/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double TAU = 1.02;     /* factor of the noise in the discrepancy principle (Morozov 1966) */

/* A method. start() prepares it, unless `resumed` from the state; step() makes one iteration. */
struct method {
    const char *name;
    int volumes;        /* beside x */
    int kept, scalars;  /* volumes of the state, x and the first of these; and numbers */
    bool unit;          /* needs A 1 */
    int (*start)(struct vp_iteration *it, struct vp_iterate_state *state, bool resumed, struct vp_err *err);
    int (*step)(struct vp_iteration *it, struct vp_iterate_state *state, struct vp_iterate_line *line,
                struct vp_volume_sums *sums, struct vp_err *err);
};

/* ---- updates of voxels ---- */

struct update {
    const struct vp_iterate *job;
    float *x;
    const float *by, *over, *mask;
    float *to, *more;
    double factor, power;
};

static inline float bounded(const struct vp_iterate *job, double x)
{
    return (float)fmin(fmax(x, job->min), job->max);
}

static inline void count(struct vp_volume_sums *s, float before, float after)
{
    const double a = (double)after, d = a - (double)before;
    s->min = a < s->min ? a : s->min;
    s->max = a > s->max ? a : s->max;
    s->sum += a;
    s->square += a * a;
    s->change += d * d;
}

/* x += factor by / over */
static void add_weighted(void *ctx, int64_t at, int64_t n, struct vp_volume_sums *sums)
{
    const struct update *u = ctx;
    for (int64_t i = at; i < at + n; i++) {
        const float before = u->x[i];
        if (u->over[i] > 0 && (!u->mask || u->mask[i] != 0))
            u->x[i] = bounded(u->job, (double)before + u->factor * (double)u->by[i] / (double)u->over[i]);
        count(sums, before, u->x[i]);
    }
}

/* x *= by / over */
static void multiply_weighted(void *ctx, int64_t at, int64_t n, struct vp_volume_sums *sums)
{
    const struct update *u = ctx;
    for (int64_t i = at; i < at + n; i++) {
        const float before = u->x[i];
        if (u->over[i] > 0 && (!u->mask || u->mask[i] != 0))
            u->x[i] = bounded(u->job, (double)before * (double)u->by[i] / (double)u->over[i]);
        count(sums, before, u->x[i]);
    }
}

/* x += factor by */
static void add_multiple(void *ctx, int64_t at, int64_t n, struct vp_volume_sums *sums)
{
    const struct update *u = ctx;
    for (int64_t i = at; i < at + n; i++) {
        const float before = u->x[i];
        u->x[i] = (float)((double)before + u->factor * (double)u->by[i]);
        count(sums, before, u->x[i]);
    }
}

/* x = by + factor x */
static void scale_and_add(void *ctx, int64_t at, int64_t n, struct vp_volume_sums *sums)
{
    const struct update *u = ctx;
    (void)sums;
    for (int64_t i = at; i < at + n; i++)
        u->x[i] = (float)((double)u->by[i] + u->factor * (double)u->x[i]);
}

/* Sets x to zero elsewhere than in the mask. */
static void cut_out(void *ctx, int64_t at, int64_t n, struct vp_volume_sums *sums)
{
    const struct update *u = ctx;
    (void)sums;
    for (int64_t i = at; i < at + n && u->mask; i++)
        u->x[i] = u->mask[i] != 0 ? u->x[i] : 0;
}

/* Sets x to factor within the mask. */
static void fill(void *ctx, int64_t at, int64_t n, struct vp_volume_sums *sums)
{
    const struct update *u = ctx;
    (void)sums;
    for (int64_t i = at; i < at + n; i++)
        u->x[i] = !u->mask || u->mask[i] != 0 ? (float)u->factor : 0;
}

static struct vp_volume_sums on_slices(struct vp_iteration *it, vp_slice_work *work, struct update u)
{
    u.job = it->job;
    u.mask = it->job->mask;
    return vp_iterate_slices(it, work, &u);
}

/* ---- blocks of views ---- */

/* Returns the bits of b, of n numbers, in the opposite order. */
static int64_t reversed(int64_t b, int64_t n)
{
    int64_t r = 0;
    for (int64_t bit = 1; bit < n; bit *= 2, b /= 2)
        r = 2 * r + b % 2;
    return r;
}

/* Orders the views, block after block: block b has every views b, b + blocks, ..., and blocks far apart follow each
 * other, in the order of their reversed bits. */
static void order_views(struct vp_iteration *it)
{
    const int64_t blocks = it->job->blocks;
    int64_t power = 1, at = 0;
    while (power < blocks)
        power *= 2;
    for (int64_t i = 0; i < power; i++) {
        const int64_t b = reversed(i, power);
        for (int64_t s = b; b < blocks && s < it->views; s += blocks)
            it->order[at++] = it->job->first + s;
    }
}

/* Returns the views of the block that begins at `at` of the order. */
static int64_t block_views(const struct vp_iteration *it, int64_t at)
{
    const int64_t b = it->order[at] - it->job->first;
    return (it->views - b + it->job->blocks - 1) / it->job->blocks;
}

/* ---- sirt, os-sart, mlem, osem ---- */

/* Fills `to`, unless it is NULL, with A'W of n views. */
static int sum_weights(struct vp_iteration *it, const int64_t *view, int64_t n, float *to, struct vp_pass_sums *sums,
                       struct vp_err *err)
{
    if (to)
        vp_iterate_clear(it, to);
    return vp_iterate_pass(it, VP_ITERATE_WEIGHTS, view, n, NULL, to, sums, err);
}

/* Checks that there are weights, and rays that meet voxels that may change. */
static int check_weights(struct vp_iteration *it, const struct vp_pass_sums *sums, struct vp_err *err)
{
    if (!(sums->weights > 0))
        return vp_fail(err, VP_ERUN, "the weights of all pixels are 0");
    on_slices(it, cut_out, (struct update){.x = it->volume[1]});
    if (vp_iterate_dot(it, it->volume[1], it->volume[1]) > 0)
        return 0;
    return vp_fail_hint(err, VP_ERUN, "check --volume, --center, --mask and the geometry", "no ray meets the volume");
}

/* Volumes: the sum, and A'W. */
static int start_weighted(struct vp_iteration *it, struct vp_iterate_state *state, bool resumed, struct vp_err *err)
{
    struct vp_pass_sums sums;
    (void)state, (void)resumed;
    if (sum_weights(it, it->order, it->views, it->volume[1], &sums, err) || check_weights(it, &sums, err))
        return -1;
    return 0;
}

/* Begins with the uniform volume that has the sum of the projections. */
static int start_likelihood(struct vp_iteration *it, struct vp_iterate_state *state, bool resumed, struct vp_err *err)
{
    struct vp_pass_sums sums;
    if (start_weighted(it, state, resumed, err) || resumed || it->job->started)
        return err->code ? -1 : 0;
    vp_iterate_clear(it, it->volume[0]);
    if (vp_iterate_pass(it, VP_ITERATE_SCALED, it->order, it->views, NULL, it->volume[0], &sums, err))
        return -1;
    if (!(sums.total > 0 && sums.ones > 0))
        return vp_fail(err, VP_ERUN, "the sum of the projections is %g: expected more than 0", sums.total);
    on_slices(it, fill, (struct update){.x = it->job->x, .factor = sums.total / sums.ones});
    return 0;
}

static int step_weighted(struct vp_iteration *it, struct vp_iterate_state *state, struct vp_iterate_line *line,
                         struct vp_volume_sums *sums, struct vp_err *err)
{
    struct vp_iterate *const job = it->job;
    const bool additive = job->method == VP_SIRT || job->method == VP_OS_SART;
    const enum vp_iterate_kind pass = additive ? VP_ITERATE_SCALED : VP_ITERATE_RATIO;
    double square = 0, data = 0, likelihood = 0, change = 0;
    for (int64_t at = 0, n; at < it->views; at += n) {
        struct vp_pass_sums t, ignored;
        n = job->blocks > 1 ? block_views(it, at) : it->views;
        vp_iterate_clear(it, it->volume[0]);
        if (vp_iterate_pass(it, pass, it->order + at, n, job->x, it->volume[0], &t, err)
            || (job->blocks > 1 && sum_weights(it, it->order + at, n, it->volume[1], &ignored, err)))
            return -1;
        *sums = on_slices(it, additive ? add_weighted : multiply_weighted,
                          (struct update){.x = job->x, .by = it->volume[0], .over = it->volume[1], .factor = job->relax});
        square += t.square;
        data += t.data;
        likelihood += t.likelihood;
        change += sums->change;
    }
    sums->change = change;
    state->scalar[0] = data;
    line->residual = sqrt(square);
    line->relative = data > 0 ? sqrt(square / data) : 0;
    line->objective = additive ? square / 2 : likelihood;
    line->step = additive ? job->relax : 1;
    return 0;
}

/* ---- cgls ---- */

enum { CG_SQUARE, CG_DATA, CG_GAMMA, CG_FIRST }; /* |r|^2, |y|^2, |s|^2, and the first of these */

/* Makes s = A'W (y - A x), and |r|^2, of the samples. Volumes: p, s, and A'W A p unless the pair gives it. */
static int renew(struct vp_iteration *it, struct vp_iterate_state *state, bool zero, struct vp_err *err)
{
    struct vp_pass_sums sums;
    float *const s = it->volume[1];
    vp_iterate_clear(it, s);
    if (vp_iterate_pass(it, VP_ITERATE_RESIDUAL, it->order, it->views, zero ? NULL : it->job->x, s, &sums, err))
        return -1;
    if (!(sums.weights > 0))
        return vp_fail(err, VP_ERUN, "the weights of all pixels are 0");
    on_slices(it, cut_out, (struct update){.x = s});
    state->scalar[CG_SQUARE] = sums.square;
    state->scalar[CG_DATA] = sums.data;
    return 0;
}

static int start_gradients(struct vp_iteration *it, struct vp_iterate_state *state, bool resumed, struct vp_err *err)
{
    if (resumed)
        return 0;
    if (renew(it, state, !it->job->started, err))
        return -1;
    memcpy(it->volume[0], it->volume[1], (size_t)it->voxels * sizeof(float));
    state->scalar[CG_GAMMA] = state->scalar[CG_FIRST] = vp_iterate_dot(it, it->volume[1], it->volume[1]);
    return 0;
}

struct gradient {
    struct vp_iteration *it;
    float *s;
    double alpha;
};

/* s -= alpha w within the mask, for slices of w as they come from a device. */
static void subtract_slices(void *ctx, int64_t z, int64_t n, const float *w)
{
    const struct gradient *g = ctx;
    const float *const mask = g->it->job->mask;
    const int threads = vp_pair_give_threads(g->it->pair);
    const int64_t first = z * g->it->page;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < n * g->it->page; i++) {
        const float by = !mask || mask[first + i] != 0 ? 0.0f + w[i] : 0; /* no negative zeros */
        g->s[first + i] = (float)((double)g->s[first + i] - g->alpha * (double)by);
    }
}

static int step_gradients(struct vp_iteration *it, struct vp_iterate_state *state, struct vp_iterate_line *line,
                          struct vp_volume_sums *sums, struct vp_err *err)
{
    struct vp_iterate *const job = it->job;
    float *const p = it->volume[0], *const s = it->volume[1], *const w = it->volume[2];
    struct vp_pass_sums t = {0};
    double *const c = state->scalar, gamma = c[CG_GAMMA];
    if (w)
        vp_iterate_clear(it, w);
    if (gamma > 0 && vp_iterate_pass(it, VP_ITERATE_NORMAL, it->order, it->views, p, w, &t, err))
        return -1;
    const double alpha = t.square > 0 ? gamma / t.square : 0;
    if (!w && gamma > 0 && vp_pair_give(it->pair, subtract_slices, &(struct gradient){it, s, alpha}, err))
        return -1;
    *sums = on_slices(it, add_multiple, (struct update){.x = job->x, .by = p, .factor = alpha});
    if (w) {
        on_slices(it, cut_out, (struct update){.x = w});
        on_slices(it, add_multiple, (struct update){.x = s, .by = w, .factor = -alpha});
    }
    c[CG_SQUARE] = fmax(c[CG_SQUARE] - alpha * gamma, 0);
    if (state->iteration % VP_ITERATE_RENEWAL == 0 && alpha > 0 && vp_iterate_rereads(job) && renew(it, state, false, err))
        return -1;
    c[CG_GAMMA] = vp_iterate_dot(it, s, s);
    on_slices(it, scale_and_add, (struct update){.x = p, .by = s, .factor = gamma > 0 ? c[CG_GAMMA] / gamma : 0});
    line->residual = sqrt(c[CG_SQUARE]);
    line->relative = c[CG_DATA] > 0 ? sqrt(c[CG_SQUARE] / c[CG_DATA]) : 0;
    line->objective = c[CG_SQUARE] / 2;
    line->step = alpha;
    return 0;
}

/* ---- fista-tv ---- */

enum { TV_TIME, TV_NORM };

struct quotients { const float *z, *w; };

/* The largest quotient w / z as max, and the sums of squares of both. */
static void divide(void *ctx, int64_t at, int64_t n, struct vp_volume_sums *sums)
{
    const struct quotients *q = ctx;
    for (int64_t i = at; i < at + n; i++) {
        const double z = (double)q->z[i], w = (double)q->w[i];
        if (z > 0)
            sums->max = fmax(sums->max, w / z);
        sums->square += z * z;
        sums->product += w * w;
    }
}

/* Bounds the largest eigenvalue of A'W A from above. Volumes 0 and 1 are used. */
static int find_norm(struct vp_iteration *it, double *norm, struct vp_err *err)
{
    enum { STEPS = 5 };
    float *z = it->volume[0], *w = it->volume[1];
    *norm = INFINITY;
    on_slices(it, fill, (struct update){.x = z, .factor = 1});
    for (int step = 0; step < STEPS; step++) {
        struct vp_pass_sums sums;
        vp_iterate_clear(it, w);
        if (vp_iterate_pass(it, VP_ITERATE_NORMAL, it->order, it->views, z, w, &sums, err))
            return -1;
        if (!(sums.weights > 0))
            return vp_fail(err, VP_ERUN, "the weights of all pixels are 0");
        on_slices(it, cut_out, (struct update){.x = w});
        const struct vp_volume_sums q = vp_iterate_slices(it, divide, &(struct quotients){z, w});
        if (!(q.product > 0))
            return vp_fail_hint(err, VP_ERUN, "check --volume, --center, --mask and the geometry", "no ray meets the volume");
        *norm = fmin(*norm, q.max * (1 + 1e-5)); /* float32 rounds each of the two products */
        it->job->least_norm = sqrt(q.product / q.square);
        /* z = w, of the size of 1 */
        vp_iterate_clear(it, z);
        on_slices(it, add_multiple, (struct update){.x = z, .by = w, .factor = 1 / sqrt(q.product / q.square)});
    }
    return 0;
}

/* Volumes: v, three of the dual, z, and the next x. */
static int start_smooth(struct vp_iteration *it, struct vp_iterate_state *state, bool resumed, struct vp_err *err)
{
    struct vp_iterate *const job = it->job;
    if (resumed) {
        job->norm = state->scalar[TV_NORM];
        return 0;
    }
    if (!(job->norm > 0) && find_norm(it, &job->norm, err))
        return -1;
    state->scalar[TV_TIME] = 1;
    state->scalar[TV_NORM] = job->norm;
    memcpy(it->volume[0], job->x, (size_t)it->voxels * sizeof(float));
    for (int a = 1; a <= 3; a++)
        vp_iterate_clear(it, it->volume[a]);
    return 0;
}

/* z = v + factor z within the mask, elsewhere x. */
static void descend(void *ctx, int64_t at, int64_t n, struct vp_volume_sums *sums)
{
    const struct update *u = ctx;
    (void)sums;
    for (int64_t i = at; i < at + n; i++)
        u->to[i] = !u->mask || u->mask[i] != 0 ? (float)((double)u->by[i] + u->factor * (double)u->to[i]) : u->x[i];
}

/* The product of v - next and next - x, which is above 0 where the momentum points uphill. */
static void compare(void *ctx, int64_t at, int64_t n, struct vp_volume_sums *sums)
{
    const struct update *u = ctx;
    for (int64_t i = at; i < at + n; i++)
        sums->product += ((double)u->by[i] - (double)u->to[i]) * ((double)u->to[i] - (double)u->x[i]);
}

/* v = next + factor (next - x), x = next */
static void advance(void *ctx, int64_t at, int64_t n, struct vp_volume_sums *sums)
{
    const struct update *u = ctx;
    for (int64_t i = at; i < at + n; i++) {
        const float before = u->x[i], next = u->to[i];
        u->more[i] = (float)((double)next + u->factor * ((double)next - (double)before));
        u->x[i] = next;
        count(sums, before, next);
    }
}

static int step_smooth(struct vp_iteration *it, struct vp_iterate_state *state, struct vp_iterate_line *line,
                       struct vp_volume_sums *sums, struct vp_err *err)
{
    struct vp_iterate *const job = it->job;
    float *const v = it->volume[0], *const z = it->volume[4], *const next = it->volume[5];
    struct vp_pass_sums t;
    vp_iterate_clear(it, z);
    if (vp_iterate_pass(it, VP_ITERATE_RESIDUAL, it->order, it->views, v, z, &t, err))
        return -1;
    const double begun = vp_now(), variation = vp_iterate_variation(it, v);
    on_slices(it, descend, (struct update){.x = job->x, .by = v, .to = z, .factor = 1 / job->norm});
    vp_iterate_smooth(it, z, job->tv / job->norm, &it->volume[1], next);
    const double uphill = on_slices(it, compare, (struct update){.x = job->x, .by = v, .to = next}).product;
    const double time = uphill > 0 ? 1 : state->scalar[TV_TIME], later = (1 + sqrt(1 + 4 * time * time)) / 2;
    *sums = on_slices(it, advance, (struct update){.x = job->x, .to = next, .more = v, .factor = (time - 1) / later});
    vp_stats_time(job->stats, "prox", vp_now() - begun);
    state->scalar[TV_TIME] = later;
    line->residual = sqrt(t.square);
    line->relative = t.data > 0 ? sqrt(t.square / t.data) : 0;
    line->objective = t.square / 2 + job->tv * variation;
    line->step = 1 / job->norm;
    return 0;
}

static const struct method methods[] = {
    [VP_SIRT] = {"sirt", 2, 1, 1, true, start_weighted, step_weighted},
    [VP_OS_SART] = {"os-sart", 2, 1, 1, true, start_weighted, step_weighted},
    [VP_CGLS] = {"cgls", 3, 3, 4, false, start_gradients, step_gradients},
    [VP_MLEM] = {"mlem", 2, 1, 1, true, start_likelihood, step_weighted},
    [VP_OSEM] = {"osem", 2, 1, 1, true, start_likelihood, step_weighted},
    [VP_FISTA_TV] = {"fista-tv", 6, 5, 2, false, start_smooth, step_smooth},
};

const char *vp_iterate_name(enum vp_iterate_method method)
{
    return methods[method].name;
}

bool vp_iterate_rereads(const struct vp_iterate *it)
{
    return it->method != VP_CGLS || it->iterations >= VP_ITERATE_RENEWAL;
}

/* ---- memory ---- */

static uint64_t voxel_bytes(const struct vp_iterate *job)
{
    return (uint64_t)(job->grid->n[0] * job->grid->n[1] * job->grid->n[2]) * sizeof(float);
}

static uint64_t view_bytes(const struct vp_iterate *job)
{
    return (uint64_t)(job->scan->nu * job->scan->nv) * sizeof(float);
}

int vp_iterate_volumes(const struct vp_iterate *job)
{
    const struct method *m = &methods[job->method];
    return m->volumes - job->given + (m->unit && !job->mask && !job->mask_held ? 1 : 0);
}

/* Returns the bytes without the kept lengths of rays, of blocks of `block` views. */
static uint64_t bytes_of(const struct vp_iterate *job, int64_t block)
{
    const struct method *m = &methods[job->method];
    const int64_t turn = vp_iterate_turn(job, block);
    return vp_pair_holds(job->pair)
         + (uint64_t)(2 * VP_PAIR_VIEWS + (m->unit && !job->kept ? 2 : 1) * turn) * view_bytes(job)
         + (uint64_t)turn * sizeof(struct vp_pass_sums) + voxel_bytes(job)
         + (uint64_t)(vp_iterate_volumes(job) - 1) * vp_iterate_part_bytes(job) + (uint64_t)(job->last - job->first) * (sizeof(int64_t) + 1);
}

static uint64_t kept_bytes(const struct vp_iterate *job)
{
    return job->kept ? (uint64_t)(job->last - job->first) * view_bytes(job) : 0;
}

uint64_t vp_iterate_bytes(const struct vp_iterate *job)
{
    return bytes_of(job, job->block) + kept_bytes(job);
}

/* Returns the passes over all views, in both directions together: an ordered subset sums its weights anew, too, from lengths
 * of rays that are kept or are projections. */
static double passes_of(const struct vp_iterate *job)
{
    return job->blocks == 1 ? 2 : job->kept ? 3 : 4;
}

double vp_iterate_updates(const struct vp_iterate *job)
{
    return passes_of(job) * (double)(job->last - job->first) * (double)(voxel_bytes(job) / sizeof(float));
}

double vp_iterate_traffic(const struct vp_iterate *job)
{
    const int64_t views = job->last - job->first;
    const double blocks = job->place.travels ? (double)vp_div_up(views, job->block) : 1;
    const double visits = job->blocks > 1 ? (double)job->blocks : 1; /* passes over the volume */
    const double volumes = passes_of(job) * fmax(blocks, visits) + (blocks - 1); /* and the sum of the blocks before */
    return job->place.used ? volumes * (double)voxel_bytes(job)
                           + passes_of(job) * (double)views * (double)view_bytes(job) * (double)job->place.slabs : 0;
}

void vp_iterate_divide(struct vp_iterate *job)
{
    const int64_t views = job->last - job->first;
    const int64_t least = vp_pair_block(job->pair, views, 0);
    job->given = job->method == VP_CGLS && vp_pair_gives(job->pair, views, views);
    const int64_t all = vp_pair_gives(job->pair, views, least) ? least : views;
    job->kept = false;
    if (job->given && (all == least || bytes_of(job, all) <= job->memory)) {
        job->block = all;
        return;
    }
    /* lengths of rays are kept if there is room, else made anew in each iteration */
    job->given = false;
    job->kept = methods[job->method].unit;
    job->kept = job->kept && bytes_of(job, least) + kept_bytes(job) <= job->memory;
    const uint64_t rest = bytes_of(job, 0) + kept_bytes(job), shares = methods[job->method].unit && !job->kept ? 2 : 1;
    job->block = vp_pair_block(job->pair, views, job->memory > rest ? (job->memory - rest) / shares : 0);
}

static int open_buffers(struct vp_iteration *it, struct vp_err *err)
{
    struct vp_iterate *const job = it->job;
    const struct method *m = &methods[job->method];
    const size_t view = (size_t)it->view, group = VP_PAIR_VIEWS * sizeof(float);
    const int64_t parts = job->grid->n[2] * (it->page / (1 << 16) + 2);
    if (!job->pair && vp_iterate_plan(job, err))
        return -1;
    it->pair = job->pair;
    const bool planned = job->place.used;
    const int rc = vp_pair_use(it->pair, &job->place, err);
    if (planned && !job->place.used) /* the devices have failed: the CPU takes other memory */
        vp_iterate_divide(job);
    if (vp_iterate_agree(job, rc, err))
        return -1;
    if (planned && !job->place.used && vp_iterate_bytes(job) > job->memory)
        return vp_fail(err, VP_ERESOURCE, "%s takes %s: expected at most %s", vp_iterate_name(job->method),
                       vp_bytes_text(vp_iterate_bytes(job)).text, vp_bytes_text(job->memory).text);
    it->block = job->block;
    it->turn = job->turn;
    it->kept = job->kept;
    it->grain = vp_iterate_unit(job);
    it->z0 = vp_share_at(&job->share, job->share.rank, job->grid->n[2], it->grain);
    it->z1 = vp_share_at(&job->share, job->share.rank + 1, job->grid->n[2], it->grain);
    if (!(it->order = vp_alloc((size_t)it->views, sizeof *it->order, "the views", err))
        || !(it->y = vp_alloc_raw(view, group, "the projections", err))
        || !(it->projected = vp_pair_room(it->pair, it->turn, err))
        || !(it->weight = vp_alloc_raw(view, group, "the weights", err))
        || !(it->slices = vp_alloc((size_t)parts, sizeof *it->slices, "sums", err))
        || !(it->sums = vp_alloc((size_t)it->turn, sizeof *it->sums, "sums", err)))
        return -1;
    for (int64_t i = 0; !job->weights && !job->pixels && i < VP_PAIR_VIEWS * it->view; i++)
        it->weight[i] = 1;
    for (int i = 0; i < m->volumes - job->given; i++)
        if (!(it->volume[i] = vp_alloc_raw((size_t)it->voxels, sizeof(float), "a volume", err)))
            return -1;
    if (!m->unit)
        return 0;
    if (!(it->ones = vp_alloc_raw((size_t)(it->kept ? it->views : it->turn), view * sizeof(float), "the lengths of rays", err)))
        return -1;
    if (job->mask)
        it->unit = (float *)(uintptr_t)job->mask;
    else if (!(it->unit = vp_alloc_raw((size_t)it->voxels, sizeof(float), "a volume", err)))
        return -1;
    for (int64_t i = 0; !job->mask && i < it->voxels; i++)
        it->unit[i] = 1;
    return 0;
}

/* Frees the memory, but for what messages of ranks may still arrive in after a failure. */
static void close_buffers(struct vp_iteration *it, bool well)
{
    if (!well && it->job->share.ranks) {
        vp_pair_close(it->job->pair);
        it->job->pair = NULL;
        return;
    }
    vp_pair_leave(it->job->pair, it->projected);
    vp_pair_close(it->job->pair);
    it->job->pair = NULL;
    free(it->order);
    free(it->y);
    free(it->weight);
    free(it->slices);
    free(it->sums);
    free(it->ones);
    for (int i = 0; i < VP_ITERATE_VOLUMES; i++)
        free(it->volume[i]);
    if (it->unit != it->job->mask)
        free(it->unit);
}

/* ---- the loop ---- */

/* Returns the rule that ends the run, or NULL. */
static const char *stop_of(const struct vp_iteration *it, const struct vp_iterate_line *line,
                           const struct vp_iterate_state *state, double weights)
{
    const struct vp_iterate_stop *stop = &it->job->stop;
    if (stop->residual > 0 && line->relative < stop->residual)
        return "residual";
    if (stop->noise > 0 && line->residual < TAU * stop->noise * sqrt(weights))
        return "noise";
    if (stop->change > 0 && line->change < stop->change)
        return "change";
    if (it->job->method != VP_CGLS)
        return NULL;
    if (stop->gradient > 0 && state->scalar[CG_GAMMA] < stop->gradient * stop->gradient * state->scalar[CG_FIRST])
        return "gradient";
    return state->scalar[CG_GAMMA] > 0 && line->step > 0 ? NULL : "convergence";
}

/* Counts the weights of all pixels, for the noise. */
static int count_weights(struct vp_iteration *it, double *weights, struct vp_err *err)
{
    struct vp_pass_sums sums = {0};
    *weights = (double)(it->views * it->view);
    if (!(it->job->stop.noise > 0) || (!it->job->weights && !it->job->pixels))
        return 0;
    float *const last = it->volume[methods[it->job->method].volumes - 1]; /* holds nothing yet; NULL: no sum is wanted */
    const int rc = sum_weights(it, it->order, it->views, last, &sums, err);
    *weights = sums.weights;
    return rc;
}

static int iterate(struct vp_iteration *it, struct vp_iterate_state *state, bool resumed, struct vp_err *err)
{
    struct vp_iterate *const job = it->job;
    const struct method *m = &methods[job->method];
    double weights;
    vp_progress_start(job->progress, m->name, "views", -1);
    if (count_weights(it, &weights, err) || (m->unit && vp_iterate_ones(it, err)) || m->start(it, state, resumed, err))
        return -1;
    vp_progress_start(job->progress, m->name, "views", (job->iterations - state->iteration) * it->views);
    job->stopped_by = "iterations";
    while (state->iteration < job->iterations) {
        struct vp_volume_sums sums = {0};
        struct vp_iterate_line line = {.iteration = ++state->iteration};
        if (m->step(it, state, &line, &sums, err) || (it->trouble.code && vp_err_keep(err, &it->trouble)))
            return -1;
        line.seconds = vp_now() - it->begun;
        line.min = sums.min;
        line.max = sums.max;
        line.mean = sums.sum / (double)it->voxels;
        line.change = sums.square > 0 ? sqrt(sums.change / sums.square) : 0;
        job->done = state->iteration;
        job->missed = it->measured > 0 ? it->missed / it->measured : 0;
        const char *const stop = stop_of(it, &line, state, weights);
        if (job->each && job->each(job->ctx, &line, state, err))
            return -1;
        if (stop) {
            job->stopped_by = stop;
            break;
        }
    }
    return 0;
}

int vp_iterate_run(struct vp_iterate *job, struct vp_err *err)
{
    const int64_t *n = job->grid->n;
    struct vp_iteration it = {.job = job, .page = n[0] * n[1], .voxels = n[0] * n[1] * n[2],
                              .view = job->scan->nu * job->scan->nv, .views = job->last - job->first, .begun = vp_now()};
    struct vp_iterate_state state = {.volumes = methods[job->method].kept, .scalars = methods[job->method].scalars};
    int rc = -1;
    job->blocks = job->method == VP_OS_SART || job->method == VP_OSEM ? vp_min64(job->blocks, it.views) : 1;
    if (!open_buffers(&it, err)) {
        order_views(&it);
        state.volume[0] = job->x;
        for (int i = 1; i < state.volumes; i++)
            state.volume[i] = it.volume[i - 1];
        const int resumed = job->resume ? job->resume(job->ctx, &state, err) : 0;
        rc = resumed < 0 ? -1 : iterate(&it, &state, resumed > 0, err);
        double project, back;
        vp_pair_seconds(it.pair, &project, &back);
        if (project > 0)
            vp_stats_number(job->stats, "project_kernel_seconds", project);
        if (back > 0)
            vp_stats_number(job->stats, "back_project_kernel_seconds", back);
    }
    if (rc && it.trouble.code)
        *err = it.trouble;
    close_buffers(&it, !rc);
    return rc;
}
