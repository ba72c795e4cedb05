/* Plans at random and what they run on in tests: inputs that are files or pipes, pages that must come once. */
#pragma once

#include "apply.h"
#include "pretend.h"
#include "engine/execute.h"
#include "try.h"

#include <fcntl.h>

/* ---- inputs and output ---- */

struct feed { int fd; const char *path; bool slow; uint64_t seed; };

static void *feeder(void *arg)
{
    const struct feed *f = arg;
    enum { ROOM = 1 << 16 };
    char *own = malloc(ROOM);
    dice_state = f->seed;
    const int in = open(f->path, O_RDONLY);
    for (ssize_t n; (n = read(in, own, f->slow ? (size_t)dice(1, 4000) : ROOM)) > 0;)
        if (write(f->fd, own, (size_t)n) != n)
            break;
    close(in);
    close(f->fd);
    free(own);
    return NULL;
}

/* An input of a run: a file, or a pipe through which the file comes. */
struct source { struct vp_reader *reader; bool piped; struct feed feed; pthread_t thread; };

__attribute__((unused))
static int source_open(struct source *s, const char *path, const struct vp_reader_options *o, bool piped,
                       struct vp_err *err)
{
    char name[64];
    int fd[2];
    *s = (struct source){.piped = piped};
    if (!piped)
        return vp_reader_open(&s->reader, &path, 1, o, err);
    CHECK_INT(pipe(fd), 0);
    s->feed = (struct feed){fd[1], path, dice(0, 1), next_random()};
    pthread_create(&s->thread, NULL, feeder, &s->feed);
    snprintf(name, sizeof name, "/dev/fd/%d", fd[0]);
    const int rc = vp_reader_open(&s->reader, (const char *const[]){name}, 1, o, err);
    close(fd[0]);
    return rc;
}

__attribute__((unused))
static void source_close(struct source *s)
{
    vp_reader_close(s->reader, NULL);
    if (s->piped)
        pthread_join(s->thread, NULL);
}

/* Pages of `page` samples of `size` bytes each, which must come once and in order; `part` samples of the next one have
 * come. */
struct got { void *data; size_t size; int64_t page, next, fail_at, part; };

static int take_page(void *ctx, int64_t page, const void *samples, int64_t n, struct vp_err *err)
{
    struct got *g = ctx;
    if (page == g->fail_at)
        return vp_fail(err, VP_ERUN, "page %lld is not wanted", (long long)page);
    if (page != g->next || n > g->page - g->part)
        return vp_fail(err, VP_ERUN, "expected page %lld, got %lld", (long long)g->next, (long long)page);
    memcpy((char *)g->data + (size_t)(page * g->page + g->part) * g->size, samples, (size_t)n * g->size);
    g->part = (g->part + n) % g->page;
    g->next += !g->part;
    return 0;
}

/* The run of that number fails: in what a device starts or has started, or in what takes the pages. What it has to say
 * then; `fail_at` of the pages that are got. */
__attribute__((unused))
static const char *make_trouble(int number, bool on_device, int64_t pages, int64_t *fail_at)
{
    *fail_at = -1;
    pretend.launched = 0;
    if (on_device && number % 3) {
        pretend.fail_at = number % 7;
        pretend.late = number % 3 == 1;
        return "fell off the bus";
    }
    *fail_at = number % pages;
    return "is not wanted";
}

__attribute__((unused))
static void end_trouble(void)
{
    pretend.fail_at = -1;
    pretend.late = false;
}

/* ---- plans ---- */

/* A multiple of the step of a part of n, or all. */
static int64_t random_part(int64_t n, int64_t step)
{
    const int64_t steps = step > 1 ? dice(1, (n + step - 1) / step) * step : dice(1, n);
    return vp_min64(steps, n);
}

/* The planes that a slab needs at most, wherever it begins: counted. */
static int64_t least_window(const struct vp_chain *c, const struct vp_plan *plan, const int64_t n[3], int64_t outer)
{
    struct vp_box all = {{0, 0, 0}, {n[0], n[1], n[2]}};
    const int64_t input = c->stage[0].mapping ? c->stage[0].input[2] : n[2],
                  deep = input < VP_UNKNOWN ? input : vp_chain_region(c, &all).hi[2];
    int64_t least = 1;
    for (int64_t g = 0; g < n[2] * outer; g++) {
        const int64_t last = vp_min64(g + plan->slab, n[2] * outer) - 1;
        const struct vp_box first = {{0, 0, g % n[2]}, {n[0], n[1], g % n[2] + 1}},
                            end = {{0, 0, last % n[2]}, {n[0], n[1], last % n[2] + 1}},
                            before = {{0, 0, g % n[2] - 1}, {n[0], n[1], g % n[2]}};
        const int64_t lo = plan->stream && g % n[2] ? vp_chain_region(c, &before).hi[2]
                                                    : vp_chain_region(c, &first).lo[2];
        const int64_t hi = last / n[2] * deep + vp_min64(deep, vp_chain_region(c, &end).hi[2]);
        least = vp_max64(least, hi - g / n[2] * deep - vp_min64(deep, lo));
    }
    return least;
}

/* A plan at random that keeps the rules, for images of n[] voxels; the planner only completes it. */
__attribute__((unused))
static bool random_plan(struct vp_plan *plan, const struct vp_problem *p, const int64_t n[3], int64_t outer, bool bands)
{
    const struct vp_chain *c = p->chain;
    const struct vp_op *const end = &c->stage[c->n - 1];
    const int64_t planes = n[2] * outer;
    int64_t halo[3];
    vp_chain_halo(c, halo);
    const bool whole[3] = {halo[0] >= VP_UNKNOWN, halo[1] >= VP_UNKNOWN, halo[2] >= VP_UNKNOWN};
    *plan = (struct vp_plan){.bands = 1, .band = n[1], .slabs = (int)dice(1, 4)};
    if (bands && !whole[1]) {
        plan->band = random_part(n[1], end->step[1]);
        plan->bands = (n[1] + plan->band - 1) / plan->band;
    }
    plan->slab = dice(1, planes);
    plan->stream = (p->backend || c->n == 1) && !whole[2] && dice(0, 1);
    plan->lanes = (int)dice(1, 3);
    plan->part[0] = random_part(n[0], end->step[0]);
    plan->part[1] = random_part(plan->band, end->step[1]);
    plan->part[2] = dice(1, plan->slab < n[2] ? plan->slab : n[2]);
    if (vp_chain_twice(c)) { /* boxes in two visits, or whole images in one */
        /* a device without kernels for two visits gets whole images, as from the planner */
        plan->twice = dice(0, 3) > 0 && (!p->backend || p->backend->on_host || vp_lanes_twice(p->backend, c));
        plan->stream = false;
        for (int a = 0; !plan->twice && a < 3; a++)
            plan->part[a] = n[a];
        int64_t step;
        if (!plan->twice && p->backend && plan->bands == 1 && outer == 1 && p->inner == 1 && !p->lines && !p->once
            && !p->chunk[0] && dice(0, 1) && vp_lanes_hold(p->backend, c, &step)) { /* an image that a device holds */
            plan->held = 1;
            plan->part[2] = random_part(n[2], step);
            plan->slab = vp_min64(n[2], plan->part[2] * dice(1, 3));
        }
    }
    for (int s = 0; s < c->n; s++)
        if (vp_op_scans(&c->stage[s])) { /* whole planes, a step or more of them */
            const int64_t step = c->stage[s].step[2];
            plan->stream = plan->stream || !p->backend || !c->stage[s].carry->combine;
            plan->part[0] = n[0];
            plan->part[1] = n[1];
            plan->band = n[1];
            plan->bands = 1;
            plan->part[2] = plan->stream ? dice(1, (n[2] + step - 1) / step) * step : step;
            plan->part[2] = plan->part[2] < n[2] ? plan->part[2] : n[2];
            plan->slab = plan->stream ? dice(1, (planes + step - 1) / step) * step : plan->part[2];
            plan->slab = plan->slab < planes ? plan->slab : planes;
        }
    const int64_t input = vp_op_region(end, &(struct vp_box){{0, 0, 0}, {n[0], n[1], n[2]}}).hi[2];
    const bool in_order = !end->mapping || !end->mapping->any_order, alone = n[2] == 1 && input == 1,
               apart = !halo[2] && (!end->mapping || (input == n[2] && vp_op_extent(end, 2, 1) == 1));
    if (p->flow && plan->bands > 1 && in_order && (alone || (apart && !vp_chain_twice(c)))) {
        plan->slab = plan->part[2] = 1;
        plan->stream = false;
        plan->window = dice(1, 5);
        return vp_plan_try(plan, p);
    }
    plan->window = least_window(c, plan, n, outer) + dice(0, 5);
    return vp_plan_try(plan, p);
}
