/* SPDX-License-Identifier: BSD-3-Clause */
/* A value carried along z: the exclusive sum of the planes below, whose bits in f32 are those of its segments, whoever
 * makes them: the CPU part after part, a device part after part, several devices segments side by side. */
#include "sums.h"

#include <signal.h>

static char dir[] = "/tmp/carry_test.XXXXXX";

/* ---- the operation ---- */

static uint64_t sum_bytes(const struct vp_op *op, const struct vp_box *out, int threads)
{
    (void)op, (void)threads;
    return (uint64_t)(vp_box_size(out, 0) * vp_box_size(out, 1)) * 2 * sizeof(float);
}

/* For each column of voxels what the segments before have left, and the sum within this one. */
static int sum_advance(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, void *scratch,
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
            if (op->second)
                ((double *)out[1].plane[z - out->box.lo[2]])[i / w * out[1].stride + i % w] =
                    2 * (double)(before[i] + local[i]);
            local[i] += v;
        }
    return 0;
}

static void sum_combine(const struct vp_op *op, void *before, const void *total, uint64_t bytes)
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
            if (op->second)
                ((double *)out[1].data)[z * out[1].plane + i / w * out[1].pitch + i % w] = 2 * (double)*p;
        }
}

/* ---- scenes ---- */

/* The definition, plane by plane. */
static void make_want(struct scene *s, int64_t step)
{
    const int64_t page = s->n[0] * s->n[1];
    for (int64_t c = 0; c < s->inner * s->outer; c++) {
        const int64_t channel = c % s->inner, time = c / s->inner;
        for (int64_t i = 0; i < page; i++) {
            float before = 0, local = 0;
            for (int64_t z = 0; z < s->n[2]; z++) {
                const int64_t at = ((time * s->n[2] + z) * s->inner + channel) * page + i;
                if (z % step == 0) {
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
    static const struct vp_carry carry = {sum_bytes, sum_advance, true, sum_combine};
    static const enum vp_type doubles = VP_F64;
    struct vp_err err = VP_ERR_INIT;
    const int64_t step = dice(1, 9);
    const bool lines = dice(0, 2) == 0;
    *s = (struct scene){.n = {dice(1, 20), lines ? 1 : dice(1, 20), dice(1, 50)}, .inner = lines ? 1 : dice(1, 2),
                        .outer = dice(1, 3), .lines = lines, .second = dice(0, 1)};
    write_scene(s, dir);
    make_want(s, step);
    const struct vp_op op = {.kernel = "sum", .image = {s->n[0], s->n[1], s->n[2]}, .inputs = 1, .from = {~0},
                             .in = VP_F32, .out = VP_F32, .second = s->second ? &doubles : NULL, .cost = 1,
                             .step = {1, 1, step}, .carry = &carry};
    CHECK_INT(vp_chain_add(&s->chain, &op, &err), 0);
}

static void show(const struct scene *s, const struct vp_plan *plan)
{
    printf("%lld x %lld x %lld, %lld x %lld images, step %lld: slab %lld, part %lld x %lld x %lld, "
           "%d workers, %d lanes, %d slabs, window %lld%s%s%s\n", (long long)s->n[0], (long long)s->n[1], (long long)s->n[2],
           (long long)s->inner, (long long)s->outer, (long long)s->chain.stage[0].step[2], (long long)plan->slab,
           (long long)plan->part[0], (long long)plan->part[1], (long long)plan->part[2], plan->workers, plan->lanes,
           plan->slabs, (long long)plan->window, plan->stream ? ", stream" : "", s->lines ? ", rows" : "", plan->offset ? ", side by side" : "");
}

static void test_plans(void)
{
    int runs = 0, offset = 0, streams = 0, planned = 0, side = 0, troubles = 0;
    pretend_apply = sum_apply;
    for (int trial = 0; trial < 400; trial++) {
        struct scene s;
        make_scene(&s);
        struct vp_problem p = problem_of_scene(&s, trial % 3);
        const int64_t step = s.chain.stage[0].step[2];
        struct vp_plan plan;
        struct vp_err err = VP_ERR_INIT;
        const bool piped = dice(0, 2) == 0;
        bool made = false;
        if (piped && dice(0, 1)) {
            *(s.outer == 1 && !s.lines ? &p.image[2] : &p.outer) = VP_UNKNOWN;
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
            if (!made && p.backend && i % 2) { /* rarely met at random */
                plan = (struct vp_plan){.bands = 1, .band = s.n[1], .slab = vp_min64(step, s.n[2]),
                                        .slabs = (int)dice(1, 4), .lanes = (int)dice(1, 3),
                                        .part = {dice(1, s.n[0]), dice(1, s.n[1]), vp_min64(step, s.n[2])}};
                plan.window = plan.slab * dice(1, 3);
                made = vp_plan_try(&plan, &p);
            }
        }
        if (made) {
            CHECK(plan.slab % step == 0 || plan.slab >= s.n[2]);
            CHECK(plan.stream != plan.offset);
            const int rc = run_scene_plan(&s, &p, &plan, &(struct way){.piped = piped});
            CHECK_INT(rc, 0);
            if (rc)
                show(&s, &plan);
            runs++;
            offset += plan.offset;
            side += plan.offset && plan.workers > 1;
            streams += plan.stream;
            struct way way = {.piped = piped};
            way.says = make_trouble(trial, p.backend, pages_of_scene(&s), &way.fail_at);
            s.chain.stage[0].image[2] = p.image[2];
            const int failed = run_scene_plan(&s, &p, &plan, &way);
            CHECK_INT(failed != 0, way.fail_at >= 0 || pretend.launched > pretend.fail_at);
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
