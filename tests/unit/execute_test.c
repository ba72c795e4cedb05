/* SPDX-License-Identifier: BSD-3-Clause */
/* The executor: whatever the plan, the bytes are those of one chunk. The operation is a small stencil that is not
 * symmetric and knows where the edges of the image are; the devices are pretended ones, which copy as real ones do. */
#include "base/progress.h"
#include "base/stats.h"
#include "app/tool.h"
#include "app/image_run.h"
#include "plans.h"

#include <stdatomic.h>

static char dir[] = "/tmp/execute_test.XXXXXX";
/* ---- the operation ---- */

struct stencil {
    int seed;
    int *count; /* of writes, for every voxel of one image; or NULL */
    int fail_at; /* plane at which it fails; < 0: never */
    int64_t reach[3]; /* of axes that wrap */
};

/* An axis whose halo is the whole of it wraps. */
static int64_t reach_of(const struct vp_op *op, int a)
{
    return op->halo[a] >= VP_UNKNOWN ? ((const struct stencil *)op->params)->reach[a] : op->halo[a];
}

static float sample(const struct vp_part *p, int64_t x, int64_t y, int64_t z)
{
    const struct vp_box *b = &p->box;
    if (x < b->lo[0] || x >= b->hi[0] || y < b->lo[1] || y >= b->hi[1] || z < b->lo[2] || z >= b->hi[2])
        return NAN; /* not given: spoils the result */
    return ((const float *)p->plane[z - b->lo[2]])[(y - b->lo[1]) * p->stride + x - b->lo[0]];
}

static int stencil_run(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, void *scratch,
                       int threads, struct vp_err *err)
{
    const struct stencil *s = op->params;
    const struct vp_box *b = &out->box;
    memset(scratch, 0xff, 64 + (size_t)threads * 16);
    for (int64_t z = b->lo[2]; z < b->hi[2]; z++) {
        if (z == s->fail_at)
            return vp_fail(err, VP_ERUN, "plane %d is cursed", s->fail_at);
        #pragma omp parallel for num_threads(threads)
        for (int64_t y = b->lo[1]; y < b->hi[1]; y++) {
            for (int64_t x = b->lo[0]; x < b->hi[0]; x++) {
                const int64_t at[3] = {x, y, z};
                float sum = (float)((x * 3 + y * 5 + z * 7 + s->seed) % 11);
                for (int i = 0; i < op->inputs; i++)
                    for (int a = 0; a < 3; a++)
                        for (int64_t d = -reach_of(op, a); d <= reach_of(op, a); d++) {
                            int64_t p[3] = {x, y, z};
                            p[a] += d;
                            if (op->halo[a] >= VP_UNKNOWN)
                                p[a] = (p[a] + op->image[a]) % op->image[a];
                            if (p[a] < 0 || p[a] >= op->image[a])
                                continue;
                            sum += sample(&in[i], p[0], p[1], p[2]) * (float)((d + reach_of(op, a) + 1 + 2 * i) % 5);
                        }
                if (reach_of(op, 2) && op->image[2] - at[2] <= reach_of(op, 2)) /* near the end of the stream */
                    sum += (float)(op->image[2] - at[2]);
                /* keep numbers small, so that every sum is exact */
                ((float *)out->plane[z - b->lo[2]])[(y - b->lo[1]) * out->stride + x - b->lo[0]] = fmodf(sum, 61.0f);
                if (s->count) {
                    #pragma omp atomic
                    s->count[(z * op->image[1] + y) * op->image[0] + x]++;
                }
            }
        }
    }
    return 0;
}

static uint64_t stencil_scratch(const struct vp_op *op, const struct vp_box *in, const struct vp_box *out,
                                int threads)
{
    (void)op, (void)in, (void)out;
    return 64 + (uint64_t)threads * 16;
}

/* Its state of a column is the input that it got, all planes of it. */
struct kept { int64_t planes; float sample[]; };

enum { MOST_PLANES = 64 };

static uint64_t stencil_bytes(const struct vp_op *op, const struct vp_box *out, int threads)
{
    const int64_t plane = vp_op_extent(op, 0, vp_box_size(out, 0)) * vp_op_extent(op, 1, vp_box_size(out, 1));
    (void)threads;
    return op->halo[2] >= VP_UNKNOWN ? 0 : sizeof(struct kept) + (uint64_t)(plane * MOST_PLANES) * sizeof(float);
}

static int stencil_advance(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, void *scratch,
                           void *kept, int threads, struct vp_err *err)
{
    struct kept *k = kept;
    void *planes[MOST_PLANES];
    struct vp_part all = {.box = in->box, .stride = vp_box_size(&in->box, 0), .plane = planes};
    const int64_t rows = vp_box_size(&in->box, 1);

    if (out->box.lo[2] == 0)
        k->planes = 0;
    if (in->box.lo[2] != k->planes || in->box.hi[2] > MOST_PLANES)
        return vp_fail(err, VP_ERUN, "given planes from %lld on, expected them from %lld", (long long)in->box.lo[2],
                       (long long)k->planes);
    all.box.lo[2] = 0;
    for (int64_t z = 0; z < in->box.hi[2]; z++) {
        planes[z] = k->sample + z * all.stride * rows;
        for (int64_t y = 0; z >= k->planes && y < rows; y++)
            memcpy((float *)planes[z] + y * all.stride,
                   (const float *)in->plane[z - in->box.lo[2]] + y * in->stride, (size_t)all.stride * sizeof(float));
    }
    k->planes = in->box.hi[2];
    return stencil_run(op, &all, out, scratch, threads, err);
}

static int stencil_add(struct vp_chain *c, const int64_t image[3], const int64_t halo[3], int from0, int from1,
                       int seed, int *counts)
{
    static const struct vp_carry carry = {.state_bytes = stencil_bytes, .advance = stencil_advance};
    struct vp_err err = VP_ERR_INIT;
    struct stencil *s = malloc(sizeof *s);
    struct vp_op op = {.kernel = "stencil", .inputs = from1 == 99 ? 1 : 2, .from = {from0, from1}, .in = VP_F32,
                          .out = VP_F32, .cost = 5, .params = s, .free = free, .scratch = stencil_scratch,
                          .run = stencil_run, .carry = &carry};
    *s = (struct stencil){seed, counts, -1, {0}};
    memcpy(op.image, image, sizeof op.image);
    memcpy(op.halo, halo, sizeof op.halo);
    return vp_chain_add(c, &op, &err);
}

/* ---- a scene: stacks on disk and the result of one chunk ---- */

struct scene {
    int64_t n[3], inner, outer;
    int stacks;
    bool single;               /* the second stack is one page */
    float *data[2], *want;
    char path[2][80];
    struct vp_chain chain;
    int *counts;
};

static int64_t pages_of(const struct scene *s)
{
    return s->inner * s->n[2] * s->outer;
}

static void write_stack(const char *path, const struct vp_stack *stack, const void *data)
{
    struct vp_writer *w = NULL;
    struct vp_err err = VP_ERR_INIT;
    const struct vp_writer_options o = {0};
    CHECK_INT(vp_writer_open(&w, path, stack, &o, &err), 0);
    for (int64_t i = 0; i < stack->pages; i++)
        CHECK_INT(vp_writer_page(w, (const char *)data + (size_t)i * vp_page_bytes(stack), &err), 0);
    CHECK_INT(vp_writer_close(w, &err), 0);
}

/* Pages of image (c, t), in z order, of a stack in page order; or back. */
static void gather(const struct scene *s, float *image, float *stack, int64_t c, int64_t t, bool back, bool single)
{
    const int64_t page = s->n[0] * s->n[1];
    for (int64_t z = 0; z < s->n[2]; z++) {
        float *p = stack + (single ? 0 : ((t * s->n[2] + z) * s->inner + c) * page);
        if (back)
            memcpy(p, image + z * page, (size_t)page * sizeof(float));
        else
            memcpy(image + z * page, p, (size_t)page * sizeof(float));
    }
}

static void make_want(struct scene *s)
{
    const int64_t image = s->n[0] * s->n[1] * s->n[2];
    float *in[2], *out = malloc((size_t)image * sizeof(float));
    for (int k = 0; k < 2; k++)
        in[k] = malloc((size_t)image * sizeof(float));
    for (int64_t t = 0; t < s->outer; t++)
        for (int64_t c = 0; c < s->inner; c++) {
            struct vp_err err = VP_ERR_INIT;
            const void *given[2] = {in[0], in[1]};
            for (int k = 0; k < s->stacks; k++)
                gather(s, in[k], s->data[k], c, t, false, k == 1 && s->single);
            CHECK_INT(vp_chain_apply(&s->chain, given, out, 2, &err), 0);
            gather(s, out, s->want, c, t, true, false);
        }
    free(in[0]);
    free(in[1]);
    free(out);
}

static void make_scene(struct scene *s, int64_t nx, int64_t ny, int64_t nz, int64_t inner, int64_t outer, int kind)
{
    static int number;
    const int64_t image[3] = {nx, ny, nz};
    *s = (struct scene){.n = {nx, ny, nz}, .inner = inner, .outer = outer, .stacks = kind == 2 ? 2 : 1};
    s->single = kind == 2 && dice(0, 2) == 0;
    const int64_t pages = pages_of(s), samples = pages * nx * ny;
    s->want = malloc((size_t)samples * sizeof(float));
    s->counts = calloc((size_t)(nx * ny * nz), sizeof(int));
    for (int k = 0; k < s->stacks; k++) {
        struct vp_stack stack = {.nx = nx, .ny = ny, .pages = k == 1 && s->single ? 1 : pages, .type = VP_F32};
        s->data[k] = malloc((size_t)samples * sizeof(float));
        for (int64_t i = 0; i < samples; i++)
            s->data[k][i] = (float)dice(0, 60);
        snprintf(s->path[k], sizeof s->path[k], "%s/%d.tif", dir, number++);
        write_stack(s->path[k], &stack, s->data[k]);
    }
    /* 0: one stage; 1: three in a row, 2: two stacks, and results used twice */
    const int64_t h0[3] = {dice(0, 3), dice(0, 3), dice(0, 3)}, h1[3] = {dice(0, 2), dice(0, 2), dice(0, 2)},
                  none[3] = {0};
    stencil_add(&s->chain, image, h0, ~0, 99, 1, NULL);
    if (kind == 1) {
        stencil_add(&s->chain, image, h1, 0, 99, 2, NULL);
        stencil_add(&s->chain, image, h0, 1, ~0, 3, NULL);
    } else if (kind == 2) {
        stencil_add(&s->chain, image, h1, ~1, ~0, 4, NULL);
        stencil_add(&s->chain, image, none, 0, 1, 5, NULL);
    }
    make_want(s);
}

static void free_scene(struct scene *s)
{
    for (int k = 0; k < s->stacks; k++) {
        unlink(s->path[k]);
        free(s->data[k]);
    }
    free(s->want);
    free(s->counts);
    vp_chain_free(&s->chain);
}

/* ---- runs ---- */

/* Run the scene; 0 if the bytes are right. out == NULL: pages are taken by a function, else a file is written. */
static int run_scene(const struct scene *s, struct vp_problem *p, struct vp_plan *plan, bool piped, const char *out,
                     struct vp_err *err)
{
    struct vp_execute e = {.problem = p, .plan = plan, .chain = (struct vp_chain *)&s->chain, .held = VP_F32,
                           .stored_out = VP_F32, .device = {5, 6, 7, 8}};
    const int64_t page = s->n[0] * s->n[1], pages = pages_of(s);
    struct got got = {.data = malloc((size_t)(page * pages) * sizeof(float)), .size = sizeof(float), .page = page,
                      .fail_at = -1};
    struct source source[2];
    const struct vp_writer_options o = {0};
    struct vp_stack stack = {.nx = s->n[0], .ny = s->n[1], .pages = pages, .type = VP_F32};
    int rc = 0;

    for (int k = 0; k < s->stacks; k++) {
        rc = source_open(&source[k], s->path[k], NULL, piped && !(k == 1 && s->single), err);
        e.reader[k] = source[k].reader;
        CHECK_INT(rc, 0);
    }
    e.page = take_page;
    e.ctx = &got;
    if (out && vp_writer_open(&e.writer, out, &stack, &o, err))
        rc = -1;
    if (!rc)
        rc = vp_execute(&e, NULL, err);
    if (!rc && out) {
        rc = vp_writer_close(e.writer, err);
        struct vp_reader *r = NULL;
        CHECK_INT(vp_reader_open(&r, &out, 1, NULL, err), 0);
        CHECK_INT(vp_reader_stack(r)->pages, pages);
        for (int64_t i = 0; i < pages; i++)
            CHECK_INT(vp_reader_next(r, (float *)got.data + i * page, err), 1);
        vp_reader_close(r, NULL);
    } else if (out) {
        vp_writer_abort(e.writer);
    }
    for (int k = 0; k < s->stacks; k++)
        source_close(&source[k]);
    if (!rc)
        rc = memcmp(got.data, s->want, (size_t)(page * pages) * sizeof(float)) ? 1 : 0;
    free(got.data);
    return rc;
}

/* The length of a pipe is not known; the chain must be as the program would make it. */
static void set_depth(struct scene *s, int64_t nz)
{
    for (int i = 0; i < s->chain.n; i++)
        s->chain.stage[i].image[2] = nz;
}

static struct vp_problem problem_of(const struct scene *s, bool unknown)
{
    struct vp_problem p = {.chain = &s->chain, .image = {s->n[0], s->n[1], s->n[2]}, .inner = s->inner,
                           .outer = s->outer, .single = {false, s->single}, .stored_in = 4u * (unsigned)s->stacks,
                           .stored_out = 4, .threads = (int)dice(1, 3), .memory = 1 << 30};
    if (unknown && s->outer == 1)
        p.image[2] = VP_UNKNOWN;
    else if (unknown)
        p.outer = VP_UNKNOWN;
    return p;
}

static void test_random_plans(void)
{
    static const struct { int64_t n[3], inner, outer; } shape[] = {
        {{23, 17, 19}, 1, 1}, {{9, 31, 12}, 3, 1}, {{14, 11, 7}, 1, 4}, {{12, 10, 6}, 2, 3}, {{16, 13, 1}, 1, 9},
        {{5, 6, 40}, 1, 1}, {{1, 30, 8}, 1, 2},
    };
    char out[96];
    int runs = 0, streams[2] = {0}, flows[2] = {0}, uneven = 0;
    snprintf(out, sizeof out, "%s/out.tif", dir);
    for (int round = 0; round < 21; round++) {
        struct scene s;
        const int i = round % 7;
        make_scene(&s, shape[i].n[0], shape[i].n[1], shape[i].n[2], shape[i].inner, shape[i].outer, round / 7);
        pretend.tables = round % 2;
        for (int trial = 0; trial < 24; trial++) {
            const bool device = trial % 2, piped = trial % 3 == 0,
                       unknown = piped && dice(0, 1) && (s.outer == 1 || s.n[2] > 0);
            struct vp_problem p = problem_of(&s, unknown);
            p.flow = !unknown && dice(0, 1);
            const bool bands = (!piped || (p.flow && s.n[2] == 1)) && dice(0, 2) == 0;
            struct vp_plan plan;
            struct vp_err err = VP_ERR_INIT;
            if (device) {
                p.backend = &pretended;
                p.devices = (int)dice(1, 3);
                for (int d = 0; d < p.devices; d++)
                    p.free[d] = d && dice(0, 1) ? (uint64_t)dice(2000, 40000) : 1 << 30;
            }
            else if (dice(0, 1))
                p.threads = 1; /* several would take parts as small as these at once */
            if (unknown && s.outer == 1)
                set_depth(&s, VP_UNKNOWN);
            if (random_plan(&plan, &p, s.n, s.outer, bands)) {
                const int rc = run_scene(&s, &p, &plan, piped, trial % 4 == 1 || bands ? out : NULL, &err);
                CHECK_INT(rc, 0);
                if (rc)
                    printf("  round %d trial %d: %s\n", round, trial, err.msg);
                runs++;
                flows[device] += plan.flow;
                streams[device] += plan.stream;
                for (int d = 1; d < p.devices; d++)
                    uneven += plan.depth[d] != plan.depth[0];
            }
            set_depth(&s, s.n[2]);
        }
        free_scene(&s);
    }
    pretend.tables = false;
    CHECK(runs >= 200);
    CHECK(streams[false] >= 20);
    CHECK(streams[true] >= 20);
    CHECK(flows[false] >= 3);
    CHECK(flows[true] >= 3);
    CHECK(uneven > 0);
    CHECK_INT(pretend.open, 0);
    unlink(out);
}

/* Every voxel of the output is made once, and written once: the writer and take_page() count pages. */
static void test_once(void)
{
    for (int trial = 0; trial < 40; trial++) {
        struct scene s;
        make_scene(&s, dice(1, 20), dice(1, 20), dice(1, 20), 1, 1, 0);
        struct stencil *op = s.chain.stage[s.chain.n - 1].params;
        op->count = s.counts;
        struct vp_problem p = problem_of(&s, false);
        struct vp_plan plan;
        struct vp_err err = VP_ERR_INIT;
        p.backend = trial & 1 ? &pretended : NULL;
        p.devices = 2;
        p.free[0] = p.free[1] = 1 << 30;
        while (!random_plan(&plan, &p, s.n, s.outer, false))
            ; /* more columns than workers */
        CHECK_INT(run_scene(&s, &p, &plan, false, NULL, &err), 0);
        int64_t wrong = 0;
        for (int64_t i = 0; i < s.n[0] * s.n[1] * s.n[2]; i++)
            wrong += s.counts[i] != 1;
        CHECK_INT(wrong, 0);
        free_scene(&s);
    }
}

/* What a worker takes that has one lane, for parts of one plane. */
static uint64_t least_bytes(const struct vp_problem *p, const struct vp_plan *plan)
{
    int64_t in[3] = {plan->in[0], plan->in[1], plan->in[2]}, halo[3];
    vp_chain_halo(p->chain, halo);
    in[2] = vp_min64(in[2], 1 + 2 * halo[2]);
    return vp_lanes_bytes(p->backend, p->chain, in, (const int64_t[3]){plan->part[0], plan->part[1], 1}, 1,
                          false);
}

/* A device runs out of memory in the middle: the run goes on with smaller parts, and every page comes once (take_page
 * insists on their order). A stream cannot where planes that it carried along are lost; then it says so. */
static void test_shortage(void)
{
    int runs = 0, shrunk = 0, refused = 0, flows = 0;
    for (int trial = 0; trial < 60; trial++) {
        struct scene s;
        make_scene(&s, dice(4, 20), dice(4, 20), trial % 4 ? dice(8, 30) : 1, dice(1, 2), dice(1, 2), trial % 3);
        struct vp_problem p = problem_of(&s, false);
        struct vp_plan plan;
        struct vp_err err = VP_ERR_INIT;
        p.backend = &pretended;
        p.devices = (int)dice(1, 3);
        for (int d = 0; d < p.devices; d++)
            p.free[d] = 1 << 30;
        p.flow = s.n[2] == 1;
        if (random_plan(&plan, &p, s.n, s.outer, p.flow)) {
            flows += plan.flow;
            const int shortages = (int)dice(1, 3);
            pretend.shortages = shortages;
            const int rc = run_scene(&s, &p, &plan, false, NULL, &err);
            const bool smallest = pretend.last <= least_bytes(&p, &plan);
            const bool short_of = pretend.shortages < shortages;
            pretend.shortages = 0;
            runs++;
            shrunk += !rc && short_of;
            if (rc) {
                refused++;
                CHECK_INT(err.code, VP_ERESOURCE);
                CHECK(strstr(err.msg, "has no memory left: the work takes ") != NULL);
                CHECK(plan.stream || smallest);
            }
        }
        free_scene(&s);
    }
    printf("%d runs (%d in bands that follow each other): %d went on with smaller parts, %d could not\n", runs, flows,
           shrunk, refused);
    CHECK(shrunk >= 10);
    CHECK(flows > 0);
    CHECK_INT(pretend.open, 0);
}

/* The planner's own choice under any memory. */
static void test_planned(void)
{
    int refused = 0;
    for (int trial = 0; trial < 60; trial++) {
        struct scene s;
        make_scene(&s, dice(1, 20), dice(1, 20), dice(1, 20), dice(1, 3), dice(1, 3), trial % 3);
        struct vp_problem p = problem_of(&s, trial % 4 == 0);
        struct vp_plan plan;
        struct vp_err err = VP_ERR_INIT;
        const uint64_t bytes = (uint64_t)(s.n[0] * s.n[1] * pages_of(&s)) * 4;
        if (p.image[2] >= VP_UNKNOWN)
            set_depth(&s, VP_UNKNOWN);
        p.memory = bytes * (uint64_t)dice(4, 60) / 8 + 4096;
        p.rows = trial % 4 && dice(0, 1);
        p.flow = p.image[2] < VP_UNKNOWN && p.outer < VP_UNKNOWN && dice(0, 1);
        if (trial & 1) {
            p.backend = &pretended;
            p.devices = (int)dice(1, 3);
            for (int d = 0; d < p.devices; d++)
                p.free[d] = bytes * (uint64_t)dice(4, 60) / 8;
        }
        char out[96];
        snprintf(out, sizeof out, "%s/planned.tif", dir);
        if (vp_plan_make(&plan, &p, &err)) {
            CHECK_INT(err.code, VP_ERESOURCE);
            refused++;
        } else {
            const int rc = run_scene(&s, &p, &plan, trial % 4 == 0, plan.bands > 1 ? out : NULL, &err);
            CHECK_INT(rc, 0);
            if (rc)
                printf("  trial %d: %s\n", trial, err.msg);
        }
        unlink(out);
        free_scene(&s);
    }
    CHECK(refused < 30);
}

/* Copies of several rows step from row to row of the image, never from page to page: devices have a limit there. */
static void test_pitch(void)
{
    struct scene s;
    make_scene(&s, 20, 15, 8, 2, 1, 0);
    struct vp_problem p = problem_of(&s, false);
    struct vp_plan plan = {.bands = 1, .band = 15, .slab = 4, .slabs = 2, .window = 8, .part = {20, 1, 4}, .lanes = 2};
    struct vp_err err = VP_ERR_INIT;
    p.backend = &pretended;
    p.devices = 1;
    p.free[0] = 1 << 30;
    pretend.widest = 0;
    CHECK(vp_plan_try(&plan, &p));
    CHECK_INT(run_scene(&s, &p, &plan, false, NULL, &err), 0);
    CHECK(pretend.widest <= 20 * (int64_t)sizeof(float));
    free_scene(&s);
}

/* What a device is to make of its tables may fail while what it makes it of is on its way. */
static void test_no_table(void)
{
    struct scene s;
    make_scene(&s, 20, 15, 8, 1, 1, 0);
    struct vp_problem p = problem_of(&s, false);
    struct vp_plan plan;
    struct vp_err err = VP_ERR_INIT;
    p.backend = &pretended;
    p.devices = 1;
    p.free[0] = 1 << 30;
    pretend.tables = pretend.no_tables = true;
    CHECK_INT(vp_plan_make(&plan, &p, &err), 0);
    for (int i = 0; i < 20; i++) {
        err = (struct vp_err)VP_ERR_INIT;
        CHECK_INT(run_scene(&s, &p, &plan, false, NULL, &err), -1);
        CHECK_STR(err.msg, "a pretended device cannot make a table");
    }
    pretend.tables = pretend.no_tables = false;
    CHECK_INT(pretend.open, 0);
    free_scene(&s);
}

/* Where the length is known the end of the input holds nothing up: while the first page is written it waits for the
 * work on the third, which begins after the last has been read. */
struct overlap { atomic_int begun; struct got got; };

static int begin_plane(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, void *scratch,
                       int threads, struct vp_err *err)
{
    struct overlap *o = op->params;
    (void)in, (void)scratch, (void)threads, (void)err;
    usleep(20000); /* the last page is read meanwhile, when the first is done */
    o->begun = (int)out->box.hi[2];
    for (int64_t z = 0; z < vp_box_size(&out->box, 2); z++)
        memset(out->plane[z], 0, sizeof(float));
    return 0;
}

static int wait_for_plane(void *ctx, int64_t page, const void *samples, int64_t n, struct vp_err *err)
{
    struct overlap *o = ctx;
    for (int i = 0; i < 2000 && page == 0 && o->begun < 3; i++)
        usleep(1000);
    CHECK(o->begun >= 3);
    return take_page(&o->got, page, samples, n, err);
}

static void test_overlap(void)
{
    struct vp_chain chain = {0};
    struct vp_err err = VP_ERR_INIT;
    float samples[6] = {0}, out[6];
    struct overlap o = {.got = {.data = out, .size = sizeof(float), .page = 1, .fail_at = -1}};
    struct vp_op op = {.kernel = "wait", .image = {1, 1, 6}, .inputs = 1, .from = {~0}, .in = VP_F32, .out = VP_F32,
                       .params = &o, .run = begin_plane};
    char path[96];
    snprintf(path, sizeof path, "%s/overlap.tif", dir);
    write_stack(path, &(struct vp_stack){.nx = 1, .ny = 1, .pages = 6, .type = VP_F32}, samples);
    CHECK_INT(vp_chain_add(&chain, &op, &err), 0);
    struct vp_problem p = {.chain = &chain, .image = {1, 1, 6}, .inner = 1, .outer = 1, .stored_in = 4,
                           .stored_out = 4, .threads = 1, .memory = 1 << 30};
    struct vp_plan plan = {.bands = 1, .band = 1, .slab = 1, .slabs = 3, .window = 5, .part = {1, 1, 1}};
    CHECK(vp_plan_try(&plan, &p));
    struct vp_execute e = {.problem = &p, .plan = &plan, .chain = &chain, .held = VP_F32, .stored_out = VP_F32,
                           .page = wait_for_plane, .ctx = &o};
    CHECK_INT(vp_reader_open(&e.reader[0], (const char *const[]){path}, 1, NULL, &err), 0);
    CHECK_INT(vp_execute(&e, NULL, &err), 0);
    CHECK_INT(o.got.next, 6);
    vp_reader_close(e.reader[0], NULL);
    vp_chain_free(&chain);
    unlink(path);
}

static void test_trouble(void)
{
    struct scene s;
    make_scene(&s, 20, 15, 40, 1, 1, 0);
    for (int trial = 0; trial < 6; trial++) {
        const int backend = trial < 5 ? trial : 2;
        struct vp_problem p = problem_of(&s, false);
        struct vp_plan plan = {
            .bands = 1, .band = 15, .slab = 4, .slabs = 2, .window = 14, .part = {20, 15, 2}, .lanes = 2};
        struct vp_err err = VP_ERR_INIT;
        struct stencil *op = s.chain.stage[0].params;
        struct vp_reader *r = NULL;
        const char *path = s.path[0];
        struct got got = {.data = malloc(20 * 15 * 40 * sizeof(float)), .size = sizeof(float), .page = 300,
                          .fail_at = backend == 1 ? 9 : -1};
        struct vp_execute e = {.problem = &p, .plan = &plan, .chain = &s.chain, .held = VP_F32, .stored_out = VP_F32,
                               .page = take_page, .ctx = &got};
        bool full = false;
        op->fail_at = backend == 0 ? 7 : -1;
        if (backend >= 2) {
            p.backend = &pretended;
            p.devices = 2;
            p.free[0] = p.free[1] = 1 << 30;
            pretend.launched = 0;
            pretend.fail_at = backend == 2 ? 5 : -1;
            pretend.late = trial == 5;
            pretend.refuse = backend == 3 ? 1 : 0;
        }
        CHECK(vp_plan_try(&plan, &p));
        CHECK_INT(vp_reader_open(&r, &path, 1, NULL, &err), 0);
        e.reader[0] = r;
        if (backend == 4) /* the file promises less than the problem says */
            p.image[2] = 41, set_depth(&s, 41);
        const int rc = vp_execute(&e, &full, &err);
        set_depth(&s, 40);
        CHECK_INT(rc, -1);
        CHECK_INT(full, backend == 3);
        static const char *const says[] = {"plane 7 is cursed", "page 9 is not wanted", "fell off the bus",
                                           "out of memory", "expected 41 pages, got 40"};
        CHECK(strstr(err.msg, says[backend]) != NULL);
        if (!strstr(err.msg, says[backend]))
            printf("  got: %s\n", err.msg);
        CHECK_INT(pretend.open, 0);
        vp_reader_close(r, NULL);
        free(got.data);
    }
    pretend.fail_at = -1;
    pretend.late = false;
    /* a run that fails does not wait for a pipe that stays open and silent */
    int fd[2];
    char name[64];
    CHECK_INT(pipe(fd), 0);
    const int in = open(s.path[0], O_RDONLY);
    char buf[30000];
    const ssize_t n = read(in, buf, sizeof buf);
    CHECK(write(fd[1], buf, (size_t)n) == n);
    close(in);
    snprintf(name, sizeof name, "/dev/fd/%d", fd[0]);
    struct vp_problem p = problem_of(&s, true);
    struct vp_plan plan;
    struct vp_err err = VP_ERR_INIT;
    struct got got = {.data = malloc(20 * 15 * 40 * sizeof(float)), .size = sizeof(float), .page = 300,
                      .fail_at = 2};
    struct vp_execute e = {.problem = &p, .plan = &plan, .chain = &s.chain, .held = VP_F32, .stored_out = VP_F32,
                           .page = take_page, .ctx = &got};
    set_depth(&s, VP_UNKNOWN);
    plan = (struct vp_plan){.bands = 1, .band = 15, .slab = 2, .slabs = 2, .window = 10, .part = {20, 15, 2}};
    CHECK(vp_plan_try(&plan, &p));
    CHECK_INT(vp_reader_open(&e.reader[0], (const char *const[]){name}, 1, NULL, &err), 0);
    CHECK_INT(vp_execute(&e, NULL, &err), -1);
    CHECK(strstr(err.msg, "page 2 is not wanted") != NULL);
    vp_reader_close(e.reader[0], NULL);
    close(fd[0]);
    close(fd[1]);
    free(got.data);
    free_scene(&s);
}

/* Channels and times in any order among the page axes, through vp_images_run(), metadata included. */
static void test_axes(void)
{
    static const struct { const char *axes; int64_t n[3]; int z;
    } order[] = {
        {"x y z", {7}, 0},
        {"x y channel z", {3, 5}, 1},
        {"x y z channel", {5, 3}, 0},
        {"x y channel z time", {2, 5, 3}, 1},
        {"x y time channel z", {3, 2, 5}, 2},
        {"x y z time", {4, 3}, 0},
        {"x y time", {6}, -1},
        {"x y view channel", {3, 2}, -1},
    };
    static const struct vp_tool tool = {.name = "test", .flags = 0};
    for (int i = 0; i < 8; i++) {
        struct scene s;
        int64_t inner = 1, nz = 1, outer = 1;
        int n = 0;
        char in_path[96], out_path[96], text[96];
        for (; n < 3 && order[i].n[n]; n++)
            *(n < order[i].z ? &inner : n == order[i].z ? &nz : &outer) *= order[i].n[n];
        make_scene(&s, 9, 8, nz, inner, outer, 1);
        struct vp_stack stack = {.nx = 9, .ny = 8, .pages = pages_of(&s), .type = VP_F32};
        struct vp_err err = VP_ERR_INIT;
        snprintf(in_path, sizeof in_path, "%s/in.tif", dir);
        snprintf(out_path, sizeof out_path, "%s/axes.tif", dir);
        vp_meta_set(&stack.meta, "axes", order[i].axes);
        snprintf(text, sizeof text, n == 1 ? "9 8 %d" : n == 2 ? "9 8 %d %d" : "9 8 %d %d %d", (int)order[i].n[0],
                 (int)order[i].n[1], (int)order[i].n[2]);
        vp_meta_set(&stack.meta, "sizes", text);
        vp_meta_set(&stack.meta, "voxel", "0.5 0.25 2");
        vp_meta_set(&stack.meta, "description", "kept");
        vp_meta_set(&stack.meta, "scale", "0.25 7");
        write_stack(in_path, &stack, s.data[0]);

        const char *operands[] = {in_path};
        struct vp_run run = {.tool = &tool,
                             .common = {.output = out_path, .device = "cpu", .threads = 2, .memory = 1 << 24},
                             .parsed = {.n_operands = 1, .operands = operands},
                             .stats = vp_stats_new(),
                             .progress = vp_progress_new("test", false, true),
                             .history = (char[]){"test run"}};
        struct vp_image_params params = {.chunk = {3, {4, 3, 2}}, .physical = true};
        struct vp_images im;
        CHECK_INT(vp_images_open(&im, &run, &params, 1, ~0u, &err), 0);
        CHECK_INT(im.flat, order[i].z < 0);
        CHECK_INT(im.size[2], nz);
        CHECK(im.has_voxel && im.voxel[1] == 0.25);
        double length[3];
        CHECK_INT(vp_image_lengths(&im, "sigma", &(struct vp_reals){1, {2}}, length, &err), 0);
        CHECK_NEAR(length[0], 4, 0);
        CHECK_NEAR(length[2], im.flat ? 0 : 1, 0);
        CHECK_INT(vp_image_lengths(&im, "sigma", &(struct vp_reals){3, {2, 2, 2}}, length, &err), im.flat ? -1 : 0);
        err = (struct vp_err)VP_ERR_INIT;
        struct vp_images joined; /* for operations on single voxels */
        int64_t side, slices;
        CHECK_INT(vp_images_open(&joined, &run, &params, 1, ~0u, &err), 0);
        vp_images_join(&joined, &side, &slices);
        CHECK_INT(side, inner);
        CHECK_INT(slices, nz);
        CHECK_INT(joined.size[2], pages_of(&s));
        vp_images_close(&joined);
        for (int pass = 0; pass < 2; pass++) { /* passes before the run: the result, as often as one likes */
            struct got got = {.data = malloc((size_t)(72 * pages_of(&s)) * sizeof(float)), .size = sizeof(float),
                              .page = 72, .fail_at = -1};
            CHECK_INT(vp_images_scan(&im, &run, &s.chain, take_page, &got, &err), 0);
            CHECK_INT(got.next, pages_of(&s));
            CHECK(!memcmp(got.data, s.want, (size_t)(72 * pages_of(&s)) * sizeof(float)));
            free(got.data);
        }
        double range[2], lo = INFINITY, hi = -INFINITY;
        for (int64_t k = 0; k < 72 * pages_of(&s); k++) {
            lo = fmin(lo, (double)((const float *)s.data[0])[k]);
            hi = fmax(hi, (double)((const float *)s.data[0])[k]);
        }
        CHECK_INT(vp_images_range(&im, &run, range, &err), 0);
        CHECK(range[0] == lo && range[1] == hi);
        CHECK_INT(vp_images_run(&im, &run, &s.chain, &(struct vp_result){VP_DIFFERENCES, "smoothed"}, &err), 0);
        if (err.code)
            printf("  %s: %s\n", order[i].axes, err.msg);
        vp_images_close(&im);

        struct vp_reader *r = NULL;
        const char *path = out_path;
        float page[72];
        CHECK_INT(vp_reader_open(&r, &path, 1, NULL, &err), 0);
        const struct vp_meta *m = &vp_reader_stack(r)->meta;
        CHECK_STR(vp_meta_get(m, "axes"), order[i].axes);
        CHECK_STR(vp_meta_get(m, "sizes"), text);
        CHECK_STR(vp_meta_get(m, "voxel"), "0.5 0.25 2");
        CHECK_STR(vp_meta_get(m, "description"), "kept");
        CHECK_STR(vp_meta_get(m, "quantity"), "smoothed");
        CHECK_STR(vp_meta_get(m, "scale"), "0.25 0");
        CHECK_STR(vp_meta_get(m, "history"), "test run");
        int64_t wrong = 0;
        for (int64_t k = 0; k < pages_of(&s); k++) {
            CHECK_INT(vp_reader_next(r, page, &err), 1);
            wrong += memcmp(page, s.want + k * 72, sizeof page) != 0;
        }
        CHECK_INT(wrong, 0);
        vp_reader_close(r, NULL);
        vp_stats_free(run.stats);
        vp_progress_free(run.progress);
        vp_stack_free(&stack);
        unlink(in_path);
        unlink(out_path);
        free_scene(&s);
    }
}

/* A chain gives what its stages give one by one. */
static void test_chain(void)
{
    for (int backend = 1; backend < 3; backend++) {
        struct scene s;
        struct vp_err err = VP_ERR_INIT;
        make_scene(&s, 15, 14, 13, 1, 1, backend);
        const size_t samples = 15 * 14 * 13;
        float *result[3] = {NULL};
        float *second = malloc(samples * sizeof(float));
        if (s.stacks > 1)
            gather(&s, second, s.data[1], 0, 0, false, s.single);
        for (int i = 0; i < s.chain.n; i++) {
            struct vp_op op = s.chain.stage[i];
            struct vp_chain one = {0};
            const void *in[2];
            result[i] = malloc(samples * sizeof(float));
            for (int k = 0; k < op.inputs; k++) {
                in[k] = op.from[k] >= 0 ? result[op.from[k]] : op.from[k] == ~0 ? s.data[0] : second;
                op.from[k] = ~k;
            }
            op.free = NULL;
            CHECK_INT(vp_chain_add(&one, &op, &err), 0);
            CHECK_INT(vp_chain_apply(&one, in, result[i], 1, &err), 0);
            vp_chain_free(&one);
        }
        CHECK(!memcmp(result[s.chain.n - 1], s.want, samples * sizeof(float)));
        for (int i = 0; i < s.chain.n; i++)
            free(result[i]);
        free(second);
        free_scene(&s);
    }
}

/* Whole axes (wrap) are handed over whole. */
static void test_whole(void)
{
    for (int trial = 0; trial < 16; trial++) {
        struct scene s;
        make_scene(&s, 12, 10, 9, dice(1, 2), dice(1, 2), 0);
        for (int a = 0; a < 3; a++)
            if (trial >> a & 1) {
                ((struct stencil *)s.chain.stage[0].params)->reach[a] = s.chain.stage[0].halo[a];
                s.chain.stage[0].halo[a] = VP_UNKNOWN;
            }
        make_want(&s);
        struct vp_problem p = problem_of(&s, false);
        struct vp_plan plan;
        struct vp_err err = VP_ERR_INIT;
        p.backend = trial & 8 ? &pretended : NULL;
        p.devices = 2;
        p.free[0] = p.free[1] = 1 << 30;
        CHECK_INT(vp_plan_make(&plan, &p, &err), 0);
        CHECK_INT(run_scene(&s, &p, &plan, false, NULL, &err), 0);
        free_scene(&s);
    }
}

/* ---- outputs that are not as large as the input, or whose voxels come from elsewhere ---- */

static int64_t half_length(const struct vp_op *op, int axis, int64_t n)
{
    (void)op, (void)axis;
    return n >= VP_UNKNOWN ? n : n / 2;
}

static struct vp_box half_region(const struct vp_op *op, const struct vp_box *out)
{
    struct vp_box in;
    (void)op;
    for (int a = 0; a < 3; a++) {
        in.lo[a] = 2 * out->lo[a];
        in.hi[a] = 2 * out->hi[a];
    }
    return in;
}

static int64_t half_extent(const struct vp_op *op, int axis, int64_t n)
{
    return vp_min64(op->input[axis], 2 * n);
}

static int64_t flip_length(const struct vp_op *op, int axis, int64_t n)
{
    (void)op, (void)axis;
    return n;
}

/* x and y are flipped. */
static struct vp_box flip_region(const struct vp_op *op, const struct vp_box *out)
{
    struct vp_box in = *out;
    for (int a = 0; a < 2; a++) {
        in.lo[a] = op->input[a] - out->hi[a];
        in.hi[a] = op->input[a] - out->lo[a];
    }
    return in;
}

static int64_t flip_extent(const struct vp_op *op, int axis, int64_t n)
{
    return vp_min64(op->input[axis], n);
}

static int64_t third_length(const struct vp_op *op, int axis, int64_t n)
{
    (void)op;
    return axis == 2 ? n : n / 3;
}

/* The second of every three columns and rows: rows before, between and after are not needed. */
static struct vp_box third_region(const struct vp_op *op, const struct vp_box *out)
{
    struct vp_box in = *out;
    (void)op;
    for (int a = 0; a < 2; a++) {
        in.lo[a] = 3 * out->lo[a] + 1;
        in.hi[a] = 3 * out->hi[a] - 1;
    }
    return in;
}

static int64_t third_extent(const struct vp_op *op, int axis, int64_t n)
{
    return vp_min64(op->input[axis], axis == 2 ? n : 3 * n - 2);
}

static const struct vp_mapping half = {half_length, half_region, half_extent, false},
                               flip = {flip_length, flip_region, flip_extent, true},
                               third = {third_length, third_region, third_extent, false};

/* The sum of all samples of the region of each voxel. */
static int region_run(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, void *scratch,
                      int threads, struct vp_err *err)
{
    const struct vp_box *b = &out->box;
    (void)scratch, (void)threads, (void)err;
    for (int64_t z = b->lo[2]; z < b->hi[2]; z++)
        for (int64_t y = b->lo[1]; y < b->hi[1]; y++)
            for (int64_t x = b->lo[0]; x < b->hi[0]; x++) {
                const struct vp_box of = op->mapping->region(op, &(struct vp_box){{x, y, z}, {x + 1, y + 1, z + 1}});
                float sum = 0;
                for (int64_t k = of.lo[2]; k < of.hi[2]; k++)
                    for (int64_t j = of.lo[1]; j < of.hi[1]; j++)
                        for (int64_t i = of.lo[0]; i < of.hi[0]; i++)
                            sum += sample(in, i, j, k);
                *(float *)vp_part_at(out, sizeof(float), x, y, z) = sum;
            }
    return 0;
}

/* Scene whose output has another size, its result made voxel by voxel. */
static void make_mapped(struct scene *s, const struct vp_mapping *mapping, const int64_t n[3], int64_t inner, int64_t outer)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_op op = {.kernel = "region", .input = {n[0], n[1], n[2]}, .inputs = 1, .from = {~0}, .in = VP_F32,
                       .out = VP_F32, .cost = 1, .run = region_run, .mapping = mapping};
    *s = (struct scene){.inner = inner, .outer = outer, .stacks = 1};
    for (int a = 0; a < 3; a++)
        s->n[a] = op.image[a] = mapping->length(&op, a, n[a]);
    CHECK_INT(vp_chain_add(&s->chain, &op, &err), 0);
    const struct vp_stack stack = {.nx = n[0], .ny = n[1], .pages = inner * n[2] * outer, .type = VP_F32};
    const int64_t page = n[0] * n[1], made = s->n[0] * s->n[1];
    s->data[0] = malloc((size_t)(page * stack.pages) * sizeof(float));
    s->want = calloc((size_t)(made * pages_of(s)), sizeof(float));
    for (int64_t i = 0; i < page * stack.pages; i++)
        s->data[0][i] = (float)dice(0, 60);
    for (int64_t i = 0; i < made * pages_of(s); i++) {
        const int64_t p = i / made, x = i % s->n[0], y = i % made / s->n[0], z = p / inner % s->n[2],
                      first = p / inner / s->n[2] * n[2];
        for (int64_t k = 0; k < (mapping == &half ? 8 : 1); k++) {
            const int64_t from[3] = {mapping == &half    ? 2 * x + (k & 1)
                                     : mapping == &third ? 3 * x + 1
                                                         : n[0] - 1 - x,
                                     mapping == &half    ? 2 * y + (k >> 1 & 1)
                                     : mapping == &third ? 3 * y + 1
                                                         : n[1] - 1 - y,
                                     mapping == &half ? 2 * z + (k >> 2) : z};
            s->want[i] += s->data[0][((first + from[2]) * inner + p % inner) * page + from[1] * n[0] + from[0]];
        }
    }
    snprintf(s->path[0], sizeof s->path[0], "%s/mapped.tif", dir);
    write_stack(s->path[0], &stack, s->data[0]);
}

static void test_mapped(void)
{
    char out[96];
    int runs = 0, planned = 0, banded = 0, flows = 0, unknowns = 0, on_devices = 0;
    snprintf(out, sizeof out, "%s/out.tif", dir);
    for (int trial = 0; trial < 320; trial++) {
        const struct vp_mapping *const kind[] = {&half, &flip, &third}, *mapping = kind[trial % 3];
        const bool page = dice(0, 3) == 0, piped = dice(0, 2) == 0, device = dice(0, 1);
        const int64_t n[3] = {dice(3, 24), dice(3, 24), mapping == &half ? dice(2, 15) : page ? 1 : dice(1, 12)};
        struct scene s;
        struct vp_plan plan;
        struct vp_err err = VP_ERR_INIT;
        bool made = false;
        make_mapped(&s, mapping, n, dice(1, 2), dice(1, 3));
        const bool unknown = piped && dice(0, 1);
        struct vp_problem p = problem_of(&s, unknown);
        p.flow = !unknown && dice(0, 1);
        const bool bands = (!piped || (p.flow && mapping == &third)) && dice(0, 1);
        p.rows = bands && !piped;
        p.backend = device ? &pretended : NULL;
        p.devices = device ? (int)dice(1, 3) : 0;
        for (int d = 0; d < p.devices; d++)
            p.free[d] = d && dice(0, 1) ? (uint64_t)dice(2000, 40000) : 1 << 30;
        if (unknown && s.outer == 1)
            s.chain.stage[0].input[2] = s.chain.stage[0].image[2] = VP_UNKNOWN;
        if (trial % 4 == 0)
            CHECK_INT(made = !vp_plan_make(&plan, &p, &err), 1);
        planned += made;
        for (int i = 0; i < 100 && !made; i++)
            made = random_plan(&plan, &p, s.n, s.outer, bands);
        if (made) {
            const int rc = run_scene(&s, &p, &plan, piped, bands ? out : NULL, &err);
            CHECK_INT(rc, 0);
            if (rc)
                printf("  trial %d: %s\n", trial, err.msg);
            runs++;
            banded += plan.bands > 1;
            flows += plan.flow;
            unknowns += unknown;
            on_devices += device;
        }
        free_scene(&s);
    }
    printf("%d runs of other sizes: %d planned, %d in bands (%d in order), %d of unknown length, %d on devices\n", runs,
           planned, banded, flows, unknowns, on_devices);
    CHECK(runs >= 240);
    CHECK(planned >= 60 && banded >= 20 && flows >= 10 && unknowns >= 20 && on_devices >= 80);
    CHECK_INT(pretend.open, 0);
}

int main(void)
{
    pretend.fail_at = -1;
    if (!mkdtemp(dir))
        return 1;
    test_chain();
    test_random_plans();
    test_once();
    test_shortage();
    test_planned();
    test_pitch();
    test_no_table();
    test_overlap();
    test_trouble();
    test_axes();
    test_whole();
    test_mapped();
    rmdir(dir);
    return test_done();
}
