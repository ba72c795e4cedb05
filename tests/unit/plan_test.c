/* SPDX-License-Identifier: BSD-3-Clause */
/* The planner: limits are kept, boxes tile the image and hold the whole support; there is a plan wherever an exhaustive
 * search finds one, and its price is within a few percent of the cheapest; a plan depends on the problem alone. */
#include "base/err.h"
#include "base/size.h"
#include "engine/plan_internal.h"
#include "test.h"
#include "try.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

static uint64_t state = 88172645463325252u;

static int64_t dice(int64_t lo, int64_t hi) /* both included */
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return lo + (int64_t)(state % (uint64_t)(hi - lo + 1));
}

static int no_run(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, void *scratch,
                  int threads, struct vp_err *err)
{
    (void)op, (void)in, (void)out, (void)scratch, (void)threads;
    return vp_fail(err, VP_ERUN, "nothing to run");
}

/* As much as the input of the halo, and some planes more. */
static uint64_t keeps_planes(const struct vp_op *op, const struct vp_box *out, int threads)
{
    (void)threads;
    return (uint64_t)(vp_box_size(out, 0) * vp_box_size(out, 1) * (2 * op->halo[2] + 2)) * sizeof(float);
}

static const struct vp_carry keeping = {.state_bytes = keeps_planes};

static void add(struct vp_chain *c, const int64_t image[3], int64_t hx, int64_t hy, int64_t hz, int from, double cost)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_op op = {.kernel = "none", .image = {image[0], image[1], image[2]}, .inputs = 1, .from = {from},
                          .in = VP_F32, .out = VP_F32, .halo = {hx, hy, hz}, .cost = cost, .run = no_run};
    CHECK_INT(vp_chain_add(c, &op, &err), 0);
}

/* A device whose operations keep a copy of their input beside the worker's buffers. */
static uint64_t scratch_bytes(const struct vp_op *op, const int64_t in[3], const int64_t out[3])
{
    (void)op, (void)out;
    return 4 * (uint64_t)(in[0] * in[1] * in[2]);
}

static const struct vp_kernel *a_kernel(const char *name)
{
    static const struct vp_kernel k = {.name = "none", .scratch = scratch_bytes};
    (void)name;
    return &k;
}

static const struct vp_backend gpu = {.name = "pretended", .kernel = a_kernel};

static struct vp_problem problem_of(const struct vp_chain *c, const int64_t image[3])
{
    return (struct vp_problem){.chain = c, .image = {image[0], image[1], image[2]}, .inner = 1, .outer = 1,
                               .stored_in = 4, .stored_out = 4, .threads = 4, .memory = UINT64_C(64) << 30};
}

/* Appends one operation with these halos and returns a problem of it. */
static struct vp_problem with_halo(struct vp_chain *c, const int64_t image[3], int64_t hx, int64_t hy, int64_t hz)
{
    add(c, image, hx, hy, hz, ~0, 4);
    return problem_of(c, image);
}

static void on_devices(struct vp_problem *p, int devices, uint64_t bytes)
{
    p->backend = devices ? &gpu : NULL;
    p->devices = devices;
    for (int d = 0; d < devices; d++)
        p->free[d] = bytes;
}

/* ---- boxes ---- */

/* Walk over the output boxes of a plan as the executor does: each voxel once, the input whole and as large as said. */
static void check_boxes(const struct vp_plan *plan, const struct vp_problem *p, uint8_t *seen)
{
    const int64_t nx = p->image[0], ny = p->image[1], nz = p->image[2];
    int64_t halo[3], wrong = 0, large = 0;
    vp_chain_halo(p->chain, halo);
    memset(seen, 0, (size_t)(nx * ny * nz));
    for (int64_t b = 0; b < plan->bands; b++)
        for (int64_t s = 0; s < nz; s += plan->slab)
            for (int64_t z = s; z < nz && z < s + plan->slab; z += plan->part[2])
                for (int64_t y = b * plan->band; y < ny && y < (b + 1) * plan->band; y += plan->part[1])
                    for (int64_t x = 0; x < nx; x += plan->part[0]) {
                        struct vp_box out = {{x, y, z}, {x + plan->part[0], y + plan->part[1], z + plan->part[2]}};
                        struct vp_box made[8], given[VP_MAX_INPUTS];
                        const int64_t end[3] = {nx, (b + 1) * plan->band < ny ? (b + 1) * plan->band : ny,
                                                s + plan->slab < nz ? s + plan->slab : nz};
                        for (int a = 0; a < 3; a++)
                            out.hi[a] = out.hi[a] < end[a] ? out.hi[a] : end[a];
                        vp_chain_boxes(p->chain, &out, made, given);
                        for (int a = 0; a < 3; a++) {
                            const int64_t lo = out.lo[a] - halo[a], hi = out.hi[a] + halo[a];
                            wrong += given[0].lo[a] != (lo < 0 ? 0 : lo) ||
                                     given[0].hi[a] != (hi > p->image[a] ? p->image[a] : hi);
                            large += vp_box_size(&given[0], a) > plan->in[a];
                        }
                        for (int64_t k = out.lo[2]; k < out.hi[2]; k++)
                            for (int64_t j = out.lo[1]; j < out.hi[1]; j++)
                                for (int64_t i = out.lo[0]; i < out.hi[0]; i++)
                                    seen[(k * ny + j) * nx + i]++;
                    }
    for (int64_t i = 0; i < nx * ny * nz; i++)
        wrong += seen[i] != 1;
    CHECK_INT(wrong, 0);
    CHECK_INT(large, 0);
}

/* ---- against all plans ---- */

/* The next size of equal parts of n below `size`; 0: none. */
static int64_t below(int64_t n, int64_t size)
{
    if (size == 1)
        return 0;
    const int64_t parts = (n + size - 2) / (size - 1);
    return (n + parts - 1) / parts;
}

/* Returns the seconds of the cheapest of all plans: every number of equal parts of every axis. INFINITY: none fits. */
static double exhaustive(const struct vp_problem *p, int *tried)
{
    double best = INFINITY;
    int64_t halo[3];
    vp_chain_halo(p->chain, halo);
    const int64_t nx = p->image[0], ny = p->image[1], nz = p->image[2];
    const bool device = p->backend, streams = device || (p->chain->n == 1 && p->chain->stage[0].carry);
    const bool apart = p->flow && (!halo[2] || nz == 1);
    for (int64_t band = ny; band > 0; band = p->rows || apart ? below(ny, band) : 0) {
        const bool flow = apart && band < ny;
        const int64_t planes = flow ? nz * ((ny + band - 1) / band) : nz;
        for (int64_t slab = flow ? 1 : nz; slab > 0; slab = below(nz, slab))
            for (int64_t px = nx; px > 0; px = device ? below(nx, px) : 0)
                for (int64_t py = band; py > 0; py = device ? below(band, py) : 0)
                    for (int64_t d = slab; d > 0; d = device ? below(slab, d) : 0)
                        for (int i = 0; i < (device ? 3 : 1) * 2 * 4 * (1 + streams); i++, ++*tried) {
                            /* i: full window or least, slabs of output, lanes, stream */
                            const int lanes = device ? 1 + i / 8 % 3 : 0, slabs = 1 + i / 2 % 4;
                            const bool stream = streams && i / (device ? 24 : 8) % 2;
                            const int64_t least = flow ? 1 : slab + (stream ? 1 : 2) * halo[2];
                            struct vp_plan plan = {.bands = (ny + band - 1) / band, .band = band, .slab = slab,
                                                   .part = {px, py, d}, .lanes = lanes, .stream = stream,
                                                   .slabs = slabs};
                            plan.window = vp_min64(least, planes);
                            plan.window += i % 2 ? 0 : stream && device ? lanes * slab : slab;
                            plan.window = vp_min64(plan.window, planes);
                            if (slabs <= (!device ? 2 : stream ? 4 : 3) && vp_plan_try(&plan, p))
                                best = fmin(best, plan.seconds);
                        }
    }
    return best;
}

/* Each device holds its workers; the roomiest has the largest parts. */
static void check_devices(const struct vp_plan *plan, const struct vp_problem *p)
{
    int64_t halo[3], deepest = 0;
    vp_chain_halo(p->chain, halo);
    for (int d = 0; d < p->devices; d++) {
        const int workers = plan->stream ? plan->workers / p->devices + (d < plan->workers % p->devices) : 1;
        const int64_t depth = plan->depth[d], all = depth + 2 * halo[2];
        const int64_t in[3] = {plan->in[0], plan->in[1], all < p->image[2] ? all : p->image[2]};
        const int64_t out[3] = {plan->part[0], plan->part[1], depth};
        CHECK(depth <= plan->part[2]);
        if (depth && workers)
            CHECK(vp_lanes_bytes(&gpu, p->chain, in, out, plan->lanes, false) * (uint64_t)workers <= p->free[d]);
        if (plan->stream && workers)
            CHECK(depth > 0);
        deepest = depth > deepest ? depth : deepest;
    }
    if (p->devices)
        CHECK_INT(deepest, plan->part[2]);
}

/* A small device beside a large one takes smaller parts, or none, and does not make the large one's small. */
static void test_unequal(void)
{
    static const int64_t image[3] = {512, 512, 4096};
    struct vp_chain c = {0};
    struct vp_err err = VP_ERR_INIT;
    struct vp_plan plan;
    struct vp_problem p = with_halo(&c, image, 5, 5, 20);
    memcpy(p.chunk, (int64_t[3]){512, 512, 512}, sizeof p.chunk); /* slabs with parts of any depth */
    p.chunk[2] = 0;
    on_devices(&p, 3, UINT64_C(4) << 30);
    p.free[1] = 200 << 20;
    CHECK_INT(vp_plan_make(&plan, &p, &err), 0);
    check_devices(&plan, &p);
    printf("4 GiB, 200 MiB, 4 GiB: parts of %lld, %lld, %lld planes\n", (long long)plan.depth[0],
           (long long)plan.depth[1], (long long)plan.depth[2]);
    p.free[1] = 1 << 20; /* not even one plane */
    CHECK_INT(vp_plan_make(&plan, &p, &err), 0);
    check_devices(&plan, &p);
    CHECK(plan.depth[0] > 0 && plan.depth[1] == 0 && plan.depth[2] > 0);
    vp_chain_free(&c);
}

/* Many short planes: thin slabs are found, too. */
static void test_many_planes(void)
{
    static const int64_t image[3] = {142, 191, 12040};
    struct vp_chain c = {0};
    struct vp_err err = VP_ERR_INIT;
    struct vp_plan plan;
    struct vp_problem p = with_halo(&c, image, 75, 117, 13);
    p.outer = 86;
    p.memory = 4500000;
    CHECK_INT(vp_plan_make(&plan, &p, &err), 0);
    CHECK(plan.host <= p.memory);
    vp_chain_free(&c);
}

static int by_value(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

/* A plan exists wherever the exhaustive search finds one, and 19 of 20 cost at most 1 % more than the cheapest. The
 * rest cost at most 5 % more, on devices at most 50 %: tiles of at most 8 voxels a side, where one voxel is much. */
static void test_optimum(int problems, bool device)
{
    int feasible = 0, tried = 0, streams = 0, flows = 0;
    double *ratio = malloc((size_t)problems * sizeof *ratio);
    uint8_t *seen = malloc(40 * 40 * 40 * 64);
    for (int i = 0; i < problems; i++) {
        const int64_t most = device ? 8 : 40;
        const int stages = (int)dice(1, 3);
        const bool keeps = !device && stages == 1 && dice(0, 1); /* with parts for all threads together */
        const bool apart = dice(0, 2) == 0; /* no halo between pages */
        const int64_t image[3] = {dice(1, most) * (keeps ? 64 : 1), dice(1, most), dice(1, most)};
        struct vp_chain c = {0};
        struct vp_err err = VP_ERR_INIT;
        struct vp_plan plan;
        for (int s = 0; s < stages; s++)
            add(&c, image, dice(0, 2), dice(0, 2), apart ? 0 : dice(0, 2), s ? s - 1 : ~0, (double)dice(1, 2000) * 1e3);
        if (keeps)
            c.stage[0].carry = &keeping;
        struct vp_problem p = problem_of(&c, image);
        const uint64_t bytes = (uint64_t)(image[0] * image[1] * image[2]) * 4;
        p.memory = bytes * (uint64_t)dice(2, 40) / 8;
        p.rows = dice(0, 3) == 0;
        p.flow = dice(0, 1);
        p.threads = (int)dice(1, 4);
        if (device) {
            p.backend = &gpu;
            p.devices = (int)dice(1, 3);
            for (int d = 0; d < p.devices; d++)
                p.free[d] = bytes * (uint64_t)dice(3, 100) / 8;
        }
        int64_t halo[3];
        vp_chain_halo(&c, halo);
        const double best = exhaustive(&p, &tried);
        const int rc = vp_plan_make(&plan, &p, &err);
        CHECK((rc == 0) == isfinite(best));
        if (rc) {
            CHECK_INT(err.code, VP_ERESOURCE);
        } else {
            struct vp_plan same = plan;
            CHECK(vp_plan_try(&same, &p)); /* with what it needs beside its buffers, as in the exhaustive search */
            ratio[feasible++] = same.seconds / best;
            CHECK(same.seconds <= (device ? 1.5 : 1.05) * best);
            CHECK(plan.host <= p.memory);
            check_devices(&plan, &p);
            streams += plan.stream;
            flows += plan.flow;
            CHECK_INT(plan.flow, plan.bands > 1 && p.flow && (!halo[2] || image[2] == 1));
            CHECK(!plan.flow || (plan.slab == 1 && plan.read <= 1));
            CHECK(plan.flow || plan.bands == 1 || p.rows);
            check_boxes(&plan, &p, seen);
        }
        vp_chain_free(&c);
    }
    CHECK(feasible > problems / 2);
    CHECK(streams >= problems / 25);
    CHECK(flows >= problems / 100);
    qsort(ratio, (size_t)feasible, sizeof *ratio, by_value);
    CHECK(ratio[feasible * 95 / 100] <= 1.01);
    printf("%d problems, %d feasible, %d with bands that follow each other, %d plans tried; 95 %% at most %.2f %% "
           "above the cheapest, all at most %.2f %%\n", problems, feasible, flows, tried,
           100 * (ratio[feasible * 95 / 100] - 1), 100 * (ratio[feasible - 1] - 1));
    free(ratio);
    free(seen);
}

/* ---- chains whose last stage maps ---- */

/* The output is half as long as the input along each axis. */
static int64_t half_length(const struct vp_op *op, int axis, int64_t n)
{
    (void)op, (void)axis;
    return n / 2;
}

static struct vp_box half_region(const struct vp_op *op, const struct vp_box *out)
{
    struct vp_box in = *out;
    (void)op;
    for (int a = 0; a < 3; a++) {
        in.lo[a] *= 2;
        in.hi[a] *= 2;
    }
    return in;
}

static int64_t half_extent(const struct vp_op *op, int axis, int64_t n)
{
    return vp_min64(op->input[axis], 2 * n);
}

static const struct vp_mapping half = {half_length, half_region, half_extent, false};

/* Work of a stage before the mapping, in the coordinates of its own image: without a halo no part repeats any, and with one
 * on x, each part of `part` columns adds a halo of both sides to the 2 part columns of the input. */
static void test_mapped_work(void)
{
    static const int64_t input[3] = {4096, 512, 64}, image[3] = {2048, 256, 32};
    enum { PART = 128 };
    for (int64_t halo = 0; halo <= 16; halo += 8) {
        struct vp_chain c = {0};
        struct vp_err err = VP_ERR_INIT;
        struct vp_plan_model m;
        add(&c, input, halo, 0, 0, ~0, 1e9); /* so that nothing else counts */
        struct vp_op op = {.kernel = "half", .image = {image[0], image[1], image[2]}, .input = {input[0], input[1], input[2]},
                           .inputs = 1, .in = VP_F32, .out = VP_F32, .cost = 1e-6, .run = no_run, .mapping = &half};
        CHECK_INT(vp_chain_add(&c, &op, &err), 0);
        const struct vp_problem p = problem_of(&c, image);
        CHECK_INT(vp_plan_model(&m, &p, false, &err), 0);
        const struct vp_plan whole = {.bands = 1, .band = image[1], .part = {image[0], image[1], image[2]}},
                             parts = {.bands = 1, .band = image[1], .part = {PART, image[1], image[2]}};
        /* half of the work is done on the input's box, which has the halo */
        CHECK_NEAR(vp_plan_bound(&m, &parts) / vp_plan_bound(&m, &whole), 1 + (double)halo / (2 * PART), 1e-6);
        free(m.made);
        vp_chain_free(&c);
    }
}

/* ---- sizes of real work ---- */

static void test_large(void)
{
    static const int64_t image[3] = {4096, 4096, 4096};
    struct vp_chain c = {0};
    struct vp_err err = VP_ERR_INIT;
    struct vp_plan plan;
    struct vp_problem p = with_halo(&c, image, 25, 25, 25);
    p.memory = UINT64_C(8) << 30;
    CHECK_INT(vp_plan_make(&plan, &p, &err), 0);
    CHECK_INT(plan.bands, 1);
    CHECK_NEAR(plan.read, 1, 0);
    on_devices(&p, 1, UINT64_C(8) << 30);
    p.rows = true;
    CHECK_INT(vp_plan_make(&plan, &p, &err), 0);
    CHECK(plan.read <= 1.03);
    CHECK(plan.copied <= 1.03);
    CHECK(plan.on_device <= p.free[0]);
    printf("4096^3, halo 25, 8 GiB: read %.4f, copied %.4f, %lld bands, parts %lld x %lld x %lld\n", plan.read,
           plan.copied, (long long)plan.bands, (long long)plan.part[0], (long long)plan.part[1],
           (long long)plan.part[2]);
    p.rows = false;
    p.memory = UINT64_C(128) << 30;
    CHECK_INT(vp_plan_make(&plan, &p, &err), 0);
    /* a short memory on the CPU: what the operation can keep it does not do again */
    on_devices(&p, 0, 0);
    p.memory = UINT64_C(16) << 30;
    c.stage[0].carry = &keeping;
    struct vp_plan again;
    CHECK_INT(vp_plan_make(&plan, &p, &err), 0);
    CHECK(plan.stream && plan.kept > 0 && plan.host <= p.memory);
    c.stage[0].carry = NULL;
    CHECK_INT(vp_plan_make(&again, &p, &err), 0);
    CHECK(!again.stream && again.seconds > 1.1 * plan.seconds);
    on_devices(&p, 1, UINT64_C(8) << 30);
    p.memory = UINT64_C(128) << 30;
    CHECK_INT(vp_plan_make(&plan, &p, &err), 0);
    printf("the same from a pipe, 128 GiB on the host: copied %.4f, %s, parts %lld x %lld x %lld\n", plan.copied,
           plan.stream ? "stream" : "slabs", (long long)plan.part[0], (long long)plan.part[1], (long long)plan.part[2]);
    vp_chain_free(&c);
}

/* The length of a pipe is not known: the plan is there all the same, and bounded. */
static void test_endless(void)
{
    static const int64_t image[3] = {1024, 1024, VP_UNKNOWN};
    struct vp_chain c = {0};
    struct vp_err err = VP_ERR_INIT;
    struct vp_plan plan;
    struct vp_problem p = with_halo(&c, image, 12, 12, 12);
    p.memory = UINT64_C(1) << 30;
    for (int device = 0; device < 2; device++) {
        on_devices(&p, device, UINT64_C(1) << 30);
        CHECK_INT(vp_plan_make(&plan, &p, &err), 0);
        CHECK(plan.host <= p.memory);
        CHECK(plan.window >= plan.slab + 12);
    }
    vp_chain_free(&c);
}

/* --chunk: boxes of the size that is asked for. */
static void test_given(void)
{
    static const int64_t image[3] = {100, 80, 60};
    struct vp_chain c = {0};
    struct vp_err err = VP_ERR_INIT;
    struct vp_plan plan;
    struct vp_problem p = with_halo(&c, image, 2, 2, 2);
    memcpy(p.chunk, (int64_t[3]){33, 200, 7}, sizeof p.chunk);
    for (int device = 0; device < 2; device++) {
        on_devices(&p, device, UINT64_C(1) << 30);
        CHECK_INT(vp_plan_make(&plan, &p, &err), 0);
        CHECK_INT(plan.part[0], 33);
        CHECK_INT(plan.part[1], 80);
        CHECK_INT(plan.part[2], 7);
    }
    vp_chain_free(&c);
}

static void test_refused(void)
{
    static const int64_t image[3] = {4096, 4096, 100};
    struct vp_chain c = {0};
    struct vp_err err = VP_ERR_INIT;
    struct vp_plan plan;
    struct vp_problem p = with_halo(&c, image, 5, 5, 5);
    p.memory = 64 << 20; /* 11 planes of 64 MiB and a page */
    CHECK_INT(vp_plan_make(&plan, &p, &err), -1);
    CHECK_INT(err.code, VP_ERESOURCE);
    CHECK(strstr(err.msg, "expected at most 64.0 MiB") != NULL);
    err = (struct vp_err)VP_ERR_INIT;
    p.rows = true;
    CHECK_INT(vp_plan_make(&plan, &p, &err), 0);
    CHECK(plan.bands > 1 && plan.host <= p.memory);
    CHECK(plan.read > 1);
    vp_chain_free(&c);
}

static int64_t anything(double lo, double hi)
{
    return (int64_t)(lo * pow(hi / lo, (double)dice(0, 1000000) / 1e6));
}

/* Extreme problems: how long planning takes is printed, not tested. */
static void test_speed(int problems)
{
    double longest = 0;
    for (int i = 0; i < problems; i++) {
        const int64_t image[3] = {anything(1, 40000), anything(1, 40000), anything(1, 40000)};
        struct vp_chain c = {0};
        struct vp_err err = VP_ERR_INIT;
        struct vp_plan plan;
        const int stages = (int)dice(1, 6);
        for (int s = 0; s < stages; s++)
            add(&c, image, dice(0, 60), dice(0, 60), dice(0, 60), s ? s - 1 : ~0, (double)anything(1, 4000));
        struct vp_problem p = problem_of(&c, image);
        p.memory = (uint64_t)anything(1e6, 1e12);
        p.inner = dice(0, 3) ? 1 : dice(1, 5);
        p.outer = dice(0, 3) ? 1 : anything(1, 200);
        p.threads = (int)dice(1, 64);
        p.rows = i & 1;
        if (i & 2) {
            p.backend = &gpu;
            p.devices = (int)dice(1, 8);
            for (int d = 0; d < p.devices; d++)
                p.free[d] = d && dice(0, 2) ? p.free[0] : (uint64_t)anything(1e8, 1e11);
        }
        const clock_t t = clock();
        if (!vp_plan_make(&plan, &p, &err)) {
            CHECK(plan.host <= p.memory);
            check_devices(&plan, &p);
        }
        const double took = (double)(clock() - t) / CLOCKS_PER_SEC;
        longest = took > longest ? took : longest;
        vp_chain_free(&c);
    }
    printf("the slowest of %d plans took %.1f ms\n", problems, 1e3 * longest);
}

/* ---- a pure function ---- */

enum { ASKED = 24 };

/* Plans of a list of problems, made in one order of several. */
struct answers {
    const struct vp_problem *problem;
    int step; /* from one problem to the next; coprime to ASKED */
    struct { struct vp_plan plan; struct vp_err err; } of[ASKED];
};

static void *answer(void *arg)
{
    struct answers *a = arg;
    for (int i = 0, k = 0; i < ASKED; i++, k = (k + a->step) % ASKED) {
        a->of[k].err = (struct vp_err)VP_ERR_INIT;
        (void)vp_plan_make(&a->of[k].plan, &a->problem[k], &a->of[k].err);
    }
    return NULL;
}

/* True if all fields are equal. */
static bool is_same(const struct answers *a, const struct answers *b, int k)
{
    const struct vp_plan *p = &a->of[k].plan, *q = &b->of[k].plan;
    if (a->of[k].err.code || b->of[k].err.code)
        return a->of[k].err.code == b->of[k].err.code && !strcmp(a->of[k].err.msg, b->of[k].err.msg);
    return p->device == q->device && p->stream == q->stream && p->twice == q->twice && p->offset == q->offset
           && p->flow == q->flow && p->bands == q->bands && p->band == q->band && p->slab == q->slab
           && p->window == q->window && p->slabs == q->slabs && !memcmp(p->part, q->part, sizeof p->part)
           && !memcmp(p->parts, q->parts, sizeof p->parts) && !memcmp(p->in, q->in, sizeof p->in)
           && !memcmp(p->depth, q->depth, (size_t)a->problem[k].devices * sizeof *p->depth)
           && p->workers == q->workers && p->lanes == q->lanes && p->together == q->together && p->input == q->input
           && p->output == q->output && p->scratch == q->scratch && p->kept == q->kept && p->entries == q->entries
           && p->host == q->host && p->on_device == q->on_device && p->read == q->read && p->copied == q->copied
           && p->seconds == q->seconds && !strcmp(p->limit, q->limit);
}

/* Plans are the same a second time, in another order, from two threads at once, and with rates that are given. */
static void test_pure(void)
{
    static struct answers first, again, other, given;
    static struct vp_problem problem[ASKED], with_rates[ASKED];
    static struct vp_chain chain[ASKED];
    const struct vp_rates copy = vp_rates;
    struct vp_rates slow = vp_rates;
    pthread_t thread;

    for (int k = 0; k < ASKED; k++) {
        const int64_t image[3] = {anything(1, 3000), anything(1, 3000), anything(1, 3000)};
        add(&chain[k], image, dice(0, 20), dice(0, 20), dice(0, 20), ~0, (double)anything(1, 400));
        if (k % 3 == 0)
            chain[k].stage[0].carry = &keeping;
        problem[k] = problem_of(&chain[k], image);
        problem[k].memory = (uint64_t)anything(1e7, 1e11);
        problem[k].rows = k % 4 == 1;
        if (k % 2) {
            problem[k].backend = &gpu;
            problem[k].devices = (int)dice(1, 4);
            for (int d = 0; d < problem[k].devices; d++)
                problem[k].free[d] = (uint64_t)anything(1e8, 1e11);
        }
        with_rates[k] = problem[k];
        with_rates[k].rates = &copy;
    }
    first = (struct answers){.problem = problem, .step = 1};
    again = (struct answers){.problem = problem, .step = 7};
    other = (struct answers){.problem = problem, .step = 11};
    given = (struct answers){.problem = with_rates, .step = 5};
    answer(&first);
    const int rc = pthread_create(&thread, NULL, answer, &other);
    answer(&again);
    CHECK_INT(rc, 0);
    if (!rc)
        pthread_join(thread, NULL);
    answer(&given);
    for (int k = 0; k < ASKED; k++)
        CHECK(is_same(&again, &first, k) && is_same(&other, &first, k) && is_same(&given, &first, k));

    /* rates that are given count: where what is read again costs nothing, and memory a great deal, it is read again */
    int differ = 0;
    slow.again = 0;
    slow.fresh = slow.pinned = 1e-6;
    for (int k = 0; k < ASKED; k++)
        with_rates[k].rates = &slow;
    given = (struct answers){.problem = with_rates, .step = 5};
    answer(&given);
    for (int k = 0; k < ASKED; k++)
        differ += !is_same(&given, &first, k);
    CHECK(differ > ASKED / 2);
    for (int k = 0; k < ASKED; k++)
        vp_chain_free(&chain[k]);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    test_mapped_work();
    test_large();
    test_endless();
    test_given();
    test_refused();
    test_unequal();
    test_many_planes();
    test_optimum(700, false);
    test_optimum(300, true);
    test_pure();
    test_speed(400);
    return test_done();
}
