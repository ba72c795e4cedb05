/* SPDX-License-Identifier: BSD-3-Clause */
/* A value carried along z: the exclusive sum of the planes below, whose bits in f32 are those of its segments, whoever
 * makes them: the CPU part after part, a device part after part, several devices segments side by side. */
#include "plans.h"

#include <signal.h>

static char dir[] = "/tmp/carry_test.XXXXXX";

/* ---- the operation ---- */

static uint64_t sum_keeps(const struct vp_op *op, const struct vp_box *out, int threads)
{
    (void)op, (void)threads;
    return (uint64_t)(vp_box_size(out, 0) * vp_box_size(out, 1)) * 2 * sizeof(float);
}

/* For each column of voxels what the segments before have left, and the sum within this one. */
static int sum_go_on(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, void *scratch,
                     void *kept, int threads, struct vp_err *err)
{
    const int64_t w = vp_box_size(&out->box, 0), h = vp_box_size(&out->box, 1);
    float *before = kept, *local = before + w * h;
    (void)scratch, (void)threads, (void)err;
    CHECK_INT(in[0].box.lo[2], out->box.lo[2]);
    for (int64_t z = out->box.lo[2]; z < out->box.hi[2]; z++)
        for (int64_t i = 0; i < w * h; i++) {
            const float v = ((const float *)in[0].plane[z - out->box.lo[2]])[i / w * in[0].stride + i % w];
            if (z % op->step[2] == 0 && (z > 0 || local[i] > 0)) {
                before[i] += local[i];
                local[i] = 0;
            }
            ((float *)out->plane[z - out->box.lo[2]])[i / w * out->stride + i % w] = before[i] + local[i];
            local[i] += v;
        }
    return 0;
}

static void sum_join(const struct vp_op *op, void *before, const void *total, uint64_t bytes)
{
    float *to = before;
    const float *from = total;
    const uint64_t n = bytes / (2 * sizeof(float));
    (void)op;
    for (uint64_t i = 0; i < n; i++)
        to[i] += from[n + i];
}

static void sum_apply(const struct vp_op *op, const struct vp_area *out, const void *state)
{
    const int64_t w = vp_box_size(&out->box, 0), h = vp_box_size(&out->box, 1);
    const float *before = state;
    (void)op;
    for (int64_t z = 0; z < vp_box_size(&out->box, 2); z++)
        for (int64_t i = 0; i < w * h; i++) {
            float *p = (float *)out->data + z * out->plane + i / w * out->pitch + i % w;
            *p = before[i] + *p;
        }
}

/* ---- scenes ---- */

struct scene { int64_t n[3], inner, outer, step; float *data, *want; char path[80]; struct vp_chain chain; };

static int64_t pages_of(const struct scene *s)
{
    return s->inner * s->n[2] * s->outer;
}

/* The definition, plane by plane. */
static void make_want(struct scene *s)
{
    const int64_t page = s->n[0] * s->n[1];
    for (int64_t c = 0; c < s->inner * s->outer; c++) {
        const int64_t channel = c % s->inner, time = c / s->inner;
        for (int64_t i = 0; i < page; i++) {
            float before = 0, local = 0;
            for (int64_t z = 0; z < s->n[2]; z++) {
                const int64_t at = ((time * s->n[2] + z) * s->inner + channel) * page + i;
                if (z % s->step == 0) {
                    before += local;
                    local = 0;
                }
                s->want[at] = before + local;
                local += s->data[at];
            }
        }
    }
}

static void make_scene(struct scene *s)
{
    static int number;
    struct vp_err err = VP_ERR_INIT;
    struct vp_writer *w = NULL;
    const struct vp_writer_options o = {0};
    *s = (struct scene){.n = {dice(1, 20), dice(1, 20), dice(1, 50)}, .inner = dice(1, 2), .outer = dice(1, 3),
                        .step = dice(1, 9)};
    const int64_t samples = pages_of(s) * s->n[0] * s->n[1];
    s->data = malloc((size_t)samples * sizeof(float));
    s->want = malloc((size_t)samples * sizeof(float));
    for (int64_t i = 0; i < samples; i++) /* sums that depend on their order */
        s->data[i] = (float)dice(1, 1 << 24) * (dice(0, 3) ? 1e-6f : 1.3f);
    make_want(s);
    snprintf(s->path, sizeof s->path, "%s/%d.tif", dir, number++);
    const struct vp_stack stack = {.nx = s->n[0], .ny = s->n[1], .pages = pages_of(s), .type = VP_F32};
    CHECK_INT(vp_writer_open(&w, s->path, &stack, &o, &err), 0);
    for (int64_t i = 0; i < stack.pages; i++)
        CHECK_INT(vp_writer_page(w, s->data + i * s->n[0] * s->n[1], &err), 0);
    CHECK_INT(vp_writer_close(w, &err), 0);
    const struct vp_op op = {.kernel = "sum", .image = {s->n[0], s->n[1], s->n[2]}, .inputs = 1, .from = {~0},
                                .in = VP_F32, .out = VP_F32, .cost = 1, .step = {1, 1, s->step}, .keeps = sum_keeps,
                                .go_on = sum_go_on, .carries = true, .join = sum_join};
    CHECK_INT(vp_chain_add(&s->chain, &op, &err), 0);
}

static void free_scene(struct scene *s)
{
    unlink(s->path);
    vp_chain_free(&s->chain);
    free(s->data);
    free(s->want);
}

/* says: what fails in it, at page `fail_at` if it is a page; NULL: nothing. */
static int run_scene(struct scene *s, struct vp_problem *p, struct vp_plan *plan, bool piped, const char *says,
                     int64_t fail_at)
{
    const int64_t page = s->n[0] * s->n[1];
    struct vp_execute e = {.problem = p, .plan = plan, .chain = &s->chain, .held = VP_F32, .stored_out = VP_F32,
                           .device = {1, 2, 3, 4}, .page = take_page};
    struct got got = {.data = malloc((size_t)(page * pages_of(s)) * sizeof(float)), .size = sizeof(float),
                      .page = page, .fail_at = fail_at};
    struct source source;
    struct vp_err err = VP_ERR_INIT;
    CHECK_INT(source_open(&source, s->path, NULL, piped, &err), 0);
    e.reader[0] = source.reader;
    e.ctx = &got;
    int rc = vp_execute(&e, NULL, &err);
    if (rc && !(says && strstr(err.msg, says)))
        printf("%s\n", err.msg);
    CHECK(!rc || (says && strstr(err.msg, says)));
    source_close(&source);
    s->chain.stage[0].image[2] = s->n[2];
    rc = rc || memcmp(got.data, s->want, (size_t)(page * pages_of(s)) * sizeof(float));
    free(got.data);
    return rc;
}

static void show(const struct scene *s, const struct vp_plan *plan)
{
    printf("%lld x %lld x %lld, %lld x %lld images, step %lld: slab %lld, part %lld x %lld x %lld, "
           "%d workers, %d lanes, %d slabs, window %lld%s%s\n", (long long)s->n[0], (long long)s->n[1], (long long)s->n[2],
           (long long)s->inner, (long long)s->outer, (long long)s->step, (long long)plan->slab,
           (long long)plan->part[0], (long long)plan->part[1], (long long)plan->part[2], plan->workers, plan->lanes,
           plan->slabs, (long long)plan->window, plan->stream ? ", stream" : "", plan->offset ? ", side by side" : "");
}

static void test_plans(void)
{
    int runs = 0, offset = 0, streams = 0, planned = 0, side = 0, troubles = 0;
    pretend_apply = sum_apply;
    for (int trial = 0; trial < 400; trial++) {
        struct scene s;
        make_scene(&s);
        struct vp_problem p = {.chain = &s.chain, .image = {s.n[0], s.n[1], s.n[2]}, .inner = s.inner,
                               .outer = s.outer, .stored_in = 4, .stored_out = 4, .threads = (int)dice(1, 3),
                               .memory = 1 << 30};
        struct vp_plan plan;
        struct vp_err err = VP_ERR_INIT;
        const bool piped = dice(0, 2) == 0;
        bool made = false;
        if (trial % 3) {
            p.kind = &pretended;
            p.devices = (int)dice(1, 4);
            for (int d = 0; d < p.devices; d++)
                p.free[d] = 1 << 30;
        }
        if (piped && dice(0, 1)) {
            *(s.outer == 1 ? &p.image[2] : &p.outer) = VP_UNKNOWN;
            s.chain.stage[0].image[2] = p.image[2];
        }
        if (trial % 5 == 0) { /* the planner's own choice */
            made = !vp_plan_make(&plan, &p, &err);
            CHECK(made);
            if (!made)
                printf("no plan: %s\n", err.msg);
            planned += made;
        }
        for (int i = 0; i < 400 && !made; i++) {
            made = random_plan(&plan, &p, s.n, s.outer, false);
            if (!made && p.kind && i % 2) { /* rarely met at random */
                plan = (struct vp_plan){.bands = 1, .band = s.n[1], .slab = vp_min64(s.step, s.n[2]),
                                        .slabs = (int)dice(1, 4), .lanes = (int)dice(1, 3),
                                        .part = {dice(1, s.n[0]), dice(1, s.n[1]), vp_min64(s.step, s.n[2])}};
                plan.window = plan.slab * dice(1, 3);
                made = vp_plan_try(&plan, &p);
            }
        }
        if (made) {
            CHECK(plan.slab % s.step == 0 || plan.slab >= s.n[2]);
            CHECK(plan.stream != plan.offset);
            const int rc = run_scene(&s, &p, &plan, piped, NULL, -1);
            CHECK_INT(rc, 0);
            if (rc)
                show(&s, &plan);
            runs++;
            offset += plan.offset;
            side += plan.offset && plan.workers > 1;
            streams += plan.stream;
            int64_t fail_at;
            const char *says = make_trouble(trial, p.kind, pages_of(&s), &fail_at);
            s.chain.stage[0].image[2] = p.image[2];
            const int failed = run_scene(&s, &p, &plan, piped, says, fail_at);
            CHECK_INT(failed != 0, fail_at >= 0 || pretend.launched > pretend.fail_at);
            troubles += failed != 0;
            end_trouble();
        }
        free_scene(&s);
    }
    printf("%d runs, %d planned, %d in turn, %d in segments, %d of them by several devices\n", runs, planned, streams,
           offset, side);
    CHECK(runs >= 300);
    CHECK(side >= 50);
    CHECK(streams >= 100);
    CHECK(troubles >= 200);
    CHECK_INT(pretend.open, 0);
}

int main(void)
{
    if (!mkdtemp(dir))
        return 1;
    signal(SIGPIPE, SIG_IGN); /* of pipes whose reader has failed */
    end_trouble();
    test_plans();
    rmdir(dir);
    return test_done();
}
