/* Plans at random and what they run on in tests: inputs that are files or pipes, pages that must come once, pretended
 * devices, which copy as real ones do and run the CPU's code on their copies. */
#ifndef VP_PLANS_H
#define VP_PLANS_H

#include "base/err.h"
#include "base/size.h"
#include "plan/execute.h"
#include "test.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static _Thread_local uint64_t state = 88172645463325252u;

static uint64_t next_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static int64_t dice(int64_t lo, int64_t hi) /* both included */
{
    return lo + (int64_t)(next_random() % (uint64_t)(hi - lo + 1));
}

/* ---- pretended devices ---- */

enum { FAKE_LANES = 4 };

struct fake {
    const struct vp_chain *chain;
    int device, lanes;
    int64_t in[3], out[3];
    size_t in_size, out_size; /* of a sample */
    struct vp_part before;  /* input of the part that ran last, in own[] */
    char *own[VP_MAX_INPUTS], *result, *old;
    void **planes;
    int64_t queued, ran;    /* parts submitted, run */
    struct job { struct vp_part in[VP_MAX_INPUTS], out; int64_t carry; } job[FAKE_LANES];
    uint64_t up, down;
};

static struct {
    uint64_t memory;
    int open, refuse, most_open, opened;
    int64_t least; /* depth of a worker's parts */
    uint64_t up;
    bool out_of_lane;
    int64_t submitted, fail_at;
    int shortages; /* of memory, that come at random from now on */
} fakes;
static pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;

static bool fake_has(const struct vp_chain *chain, char *why, size_t size)
{
    (void)chain, (void)why, (void)size;
    return true;
}

/* Bytes of a sample of the stacks, which are of one type. */
static size_t fake_in_size(const struct vp_chain *c)
{
    for (int s = 0; s < c->n; s++)
        for (int i = 0; i < c->stage[s].inputs; i++)
            if (c->stage[s].from[i] < 0)
                return vp_type_size(c->stage[s].in);
    return 1;
}

static uint64_t fake_bytes(const struct vp_chain *c, const int64_t in[3], const int64_t out[3], int lanes)
{
    return (uint64_t)(in[0] * in[1] * in[2] * (c->stacks + 1)) * fake_in_size(c)
           + (uint64_t)(lanes * out[0] * out[1] * out[2]) * vp_type_size(c->stage[c->n - 1].out);
}

static void fake_close(void *worker)
{
    struct fake *f = worker;
    for (int k = 0; k < f->chain->stacks; k++)
        free(f->own[k]);
    free(f->result);
    free(f->old);
    free(f->planes);
    pthread_mutex_lock(&fake_lock);
    fakes.open--;
    fakes.up += f->up;
    pthread_mutex_unlock(&fake_lock);
    free(f);
}

static int fake_open(void **worker, const struct vp_chain *chain, int device, const int64_t in[3], const int64_t out[3],
                     int lanes, struct vp_err *err)
{
    pthread_mutex_lock(&fake_lock);
    const bool full = fakes.refuse > 0 && fakes.refuse-- > 0;
    fakes.least = fakes.opened && out[2] >= fakes.least ? fakes.least : out[2];
    fakes.opened++;
    if (!full && ++fakes.open > fakes.most_open)
        fakes.most_open = fakes.open;
    pthread_mutex_unlock(&fake_lock);
    if (full)
        return vp_fail(err, VP_ERESOURCE, "pretended device %d: out of memory", device);
    struct fake *f = calloc(1, sizeof *f);
    f->chain = chain;
    f->device = device;
    f->lanes = lanes;
    memcpy(f->in, in, sizeof f->in);
    memcpy(f->out, out, sizeof f->out);
    f->in_size = fake_in_size(chain);
    f->out_size = vp_type_size(chain->stage[chain->n - 1].out);
    const size_t room = (size_t)(in[0] * in[1] * in[2]) * f->in_size;
    for (int k = 0; k < chain->stacks; k++)
        f->own[k] = malloc(room);
    f->old = malloc(room);
    f->result = malloc((size_t)(out[0] * out[1] * out[2]) * f->out_size);
    f->planes = malloc((size_t)(in[2] * chain->stacks + out[2]) * sizeof(void *));
    *worker = f;
    return 0;
}

static int fake_run(struct fake *f, struct job *j, struct vp_err *err)
{
    const struct vp_box *b = &j->in[0].box, *o = &j->out.box;
    const int64_t w = vp_box_size(b, 0), h = vp_box_size(b, 1), d = vp_box_size(b, 2);
    void **const out_planes = f->planes + d * f->chain->stacks;
    struct vp_part in[VP_MAX_INPUTS], out = {*o, vp_box_size(o, 0), out_planes};
    for (int a = 0; a < 3; a++)
        if (vp_box_size(b, a) > f->in[a] || vp_box_size(o, a) > f->out[a])
            return vp_fail(err, VP_ERUN, "a part is larger than was agreed");
    if (j->carry > 0) { /* the last planes of the part before: the same box but for z */
        const struct vp_box *p = &f->before.box;
        if (memcmp(p->lo, b->lo, 2 * sizeof *p->lo) || memcmp(p->hi, b->hi, 2 * sizeof *p->hi)
            || p->hi[2] - j->carry != b->lo[2])
            return vp_fail(err, VP_ERUN, "these planes are not on the device");
    }
    const size_t row = (size_t)w * f->in_size, page = row * (size_t)h;
    for (int k = 0; k < f->chain->stacks; k++) {
        if (j->carry)
            memcpy(f->old, f->own[k], page * (size_t)vp_box_size(&f->before.box, 2));
        const char *last = f->old + page * (size_t)(vp_box_size(&f->before.box, 2) - j->carry);
        for (int64_t z = 0; z < d; z++) {
            char *to = f->own[k] + (size_t)z * page;
            f->planes[k * d + z] = to;
            for (int64_t y = 0; y < h; y++)
                memcpy(to + (size_t)y * row,
                       z < j->carry ? last + (size_t)z * page + (size_t)y * row
                                    : (char *)j->in[k].plane[z] + (size_t)(y * j->in[k].stride) * f->in_size,
                       row);
        }
        f->up += page * (uint64_t)(d - j->carry);
        in[k] = (struct vp_part){*b, w, f->planes + k * d};
    }
    f->before.box = *b;
    const size_t out_row = (size_t)vp_box_size(o, 0) * f->out_size, out_page = out_row * (size_t)vp_box_size(o, 1);
    for (int64_t z = 0; z < vp_box_size(o, 2); z++)
        out_planes[z] = f->result + (size_t)z * out_page;
    void *scratch = vp_alloc_raw(1, vp_chain_bytes(f->chain, o, 1), "", err);
    const int rc = scratch ? vp_chain_run(f->chain, in, &out, scratch, 1, err) : -1;
    free(scratch);
    for (int64_t z = 0; !rc && z < vp_box_size(o, 2); z++)
        for (int64_t y = 0; y < vp_box_size(o, 1); y++)
            memcpy((char *)j->out.plane[z] + (size_t)(y * j->out.stride) * f->out_size,
                   (char *)out.plane[z] + (size_t)y * out_row, out_row);
    f->down += out_page * (uint64_t)vp_box_size(o, 2);
    return rc;
}

static bool runs_short(void)
{
    pthread_mutex_lock(&fake_lock);
    const bool yes = fakes.shortages > 0 && dice(0, 5) == 0;
    fakes.shortages -= yes;
    pthread_mutex_unlock(&fake_lock);
    return yes;
}

static int fake_submit(void *worker, int lane, const struct vp_part *in, const struct vp_part *out, int64_t carry,
                       struct vp_err *err)
{
    struct fake *f = worker;
    pthread_mutex_lock(&fake_lock);
    const bool fails = fakes.submitted++ == fakes.fail_at;
    pthread_mutex_unlock(&fake_lock);
    if (fails)
        return vp_fail(err, VP_ERUN, "pretended device %d fell off the bus", f->device);
    if (runs_short())
        return vp_fail(err, VP_ERESOURCE, "pretended device %d has no memory left", f->device);
    if (lane != f->queued % f->lanes || f->queued - f->ran >= f->lanes)
        fakes.out_of_lane = true;
    struct job *j = &f->job[f->queued++ % f->lanes];
    memcpy(j->in, in, (size_t)f->chain->stacks * sizeof *in);
    j->out = *out;
    j->carry = carry;
    while (f->ran < f->queued && dice(0, 1)) /* some at once, some only when waited for */
        if (fake_run(f, &f->job[f->ran++ % f->lanes], err))
            return -1;
    return 0;
}

static int fake_wait(void *worker, int lane, struct vp_err *err)
{
    struct fake *f = worker;
    usleep((useconds_t)dice(0, 50));
    if (runs_short())
        return vp_fail(err, VP_ERESOURCE, "pretended device %d has no memory left", f->device);
    while (f->ran < f->queued) {
        const bool mine = f->ran % f->lanes == lane;
        if (fake_run(f, &f->job[f->ran++ % f->lanes], err))
            return -1;
        if (mine)
            break;
    }
    return 0;
}

static void fake_stats(void *worker, double *seconds, uint64_t *up, uint64_t *down)
{
    const struct fake *f = worker;
    *seconds = 0;
    *up = f->up;
    *down = f->down;
}

static void *fake_alloc(size_t n)
{
    char *p = dice(0, 9) ? malloc(n + 64) : NULL;
    return p ? p + 64 : NULL; /* free() would crash on it */
}

static void fake_free(void *p)
{
    free((char *)p - 64);
}

static const struct vp_backend fake_backend = {
    .abi = VP_BACKEND_ABI, .name = "fake", .local_has = fake_has, .local_bytes = fake_bytes, .local_open = fake_open,
    .local_submit = fake_submit, .local_wait = fake_wait, .local_close = fake_close, .local_stats = fake_stats,
    .host_alloc = fake_alloc, .host_free = fake_free,
};

/* ---- inputs and output ---- */

struct feed { int fd; const char *path; bool slow; uint64_t seed; };

static void *feeder(void *arg)
{
    const struct feed *f = arg;
    enum { ROOM = 1 << 16 };
    char *own = malloc(ROOM);
    state = f->seed;
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

static void source_close(struct source *s)
{
    vp_reader_close(s->reader, NULL);
    if (s->piped)
        pthread_join(s->thread, NULL);
}

/* Pages of `page` samples of `size` bytes each, which must come once and in order. */
struct got { void *data; size_t size; int64_t page, next, fail_at; };

static int take_page(void *ctx, int64_t page, const void *samples, int64_t n, struct vp_err *err)
{
    struct got *g = ctx;
    if (page == g->fail_at)
        return vp_fail(err, VP_ERUN, "page %lld is not wanted", (long long)page);
    if (page != g->next || n != g->page)
        return vp_fail(err, VP_ERUN, "expected page %lld, got %lld", (long long)g->next, (long long)page);
    memcpy((char *)g->data + (size_t)(page * n) * g->size, samples, (size_t)n * g->size);
    g->next++;
    return 0;
}

/* ---- plans ---- */

/* A plan at random that keeps the rules, for images of n[] voxels; the planner only completes it. */
static bool random_plan(struct vp_plan *plan, const struct vp_problem *p, const int64_t n[3], int64_t outer, bool bands)
{
    const struct vp_chain *c = p->chain;
    const int64_t planes = n[2] * outer;
    bool whole[3] = {false};
    int64_t halo[3];
    vp_chain_halo(c, halo);
    for (int s = 0; s < c->n; s++)
        for (int a = 0; a < 3; a++)
            whole[a] = whole[a] || c->stage[s].whole[a];
    *plan = (struct vp_plan){.bands = 1, .band = n[1], .slabs = (int)dice(1, 4)};
    if (bands && !whole[1]) {
        plan->band = dice(1, n[1]);
        plan->bands = (n[1] + plan->band - 1) / plan->band;
    }
    plan->slab = dice(1, planes);
    plan->stream = (p->backend || c->n == 1) && !whole[2] && dice(0, 1);
    plan->lanes = (int)dice(1, 3);
    plan->part[0] = dice(1, n[0]);
    plan->part[1] = dice(1, plan->band);
    plan->part[2] = dice(1, plan->slab < n[2] ? plan->slab : n[2]);
    const int64_t images = (plan->slab + n[2] - 1) / n[2];
    const int64_t least = whole[2] ? (images + 1) * n[2] : plan->slab + (plan->stream ? 1 : 2) * halo[2];
    plan->window = (least < planes ? least : planes) + dice(0, 5);
    return vp_plan_try(plan, p);
}

#endif
