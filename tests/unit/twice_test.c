/* SPDX-License-Identifier: BSD-3-Clause */
/* Two visits to every box: the exact mean of an image is subtracted from it, and at each voxel the largest sample of
 * the boxes beside its own is told, so that entries of many lengths go from one visit to the next. The sum is a
 * float's: it is the same only if boxes and their order are. */
#include "sums.h"
#include "engine/store.h"

static char dir[] = "/tmp/twice_test.XXXXXX";

struct mean { float value; int64_t n[3], per_image; };

/* An entry: its bytes, the sum of the box, and samples of it (as many as its place says), later the mean. */
struct entry { uint64_t bytes; float sum; float sample[]; };

static uint64_t mean_summary(const struct vp_op *op, const struct vp_box *box)
{
    (void)op;
    return sizeof(struct entry) + (uint64_t)(vp_box_size(box, 0) * vp_box_size(box, 1)) * sizeof(float);
}

static float at(const struct vp_part *p, int64_t x, int64_t y, int64_t z)
{
    return ((const float *)p->plane[z - p->box.lo[2]])[(y - p->box.lo[1]) * p->stride + x - p->box.lo[0]];
}

static int mean_summarize(const struct vp_op *op, const struct vp_part *in, const struct vp_box *b, void *entry,
                          void *scratch, int threads, struct vp_err *err)
{
    struct entry *e = entry;
    const int64_t most = vp_box_size(b, 0) * vp_box_size(b, 1), kept = (b->lo[0] * 7 + b->lo[2] * 3) % (most + 1);
    (void)op, (void)scratch, (void)threads, (void)err;
    e->sum = 0;
    for (int64_t z = b->lo[2]; z < b->hi[2]; z++)
        for (int64_t y = b->lo[1]; y < b->hi[1]; y++)
            for (int64_t x = b->lo[0]; x < b->hi[0]; x++)
                e->sum += at(in, x, y, z);
    for (int64_t i = 0; i < kept; i++)
        e->sample[i] = at(in, b->lo[0] + i % vp_box_size(b, 0), b->lo[1] + i / vp_box_size(b, 0), b->lo[2]);
    e->bytes = sizeof *e + (uint64_t)kept * sizeof(float);
    return 0;
}

/* The mean of each image, into the entries of its boxes, whose samples stay. */
static int mean_solve(struct vp_op *op, struct vp_store *s, const int64_t box[3], uint64_t memory, int threads,
                      struct vp_err *err)
{
    const struct mean *m = op->params;
    (void)threads, (void)memory, (void)box;
    for (int64_t first = 0; first < vp_store_count(s); first += m->per_image) {
        float sum = 0;
        for (int way = 0; way < 2; way++)
            for (int64_t i = first; i < first + m->per_image; i++) {
                struct entry *e = malloc(vp_store_bytes(s, i));
                int rc = vp_store_get(s, i, e, err);
                CHECK_INT(e->bytes, vp_store_bytes(s, i));
                if (!way)
                    sum += e->sum;
                e->sum = sum / (float)(op->image[0] * op->image[1] * op->image[2]);
                rc = rc || (way && vp_store_put(s, i, e, e->bytes, err)) ? -1 : 0;
                free(e);
                if (rc)
                    return -1;
            }
    }
    return 0;
}

static int mean_finish(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out,
                       const void *entry, void *scratch, int threads, struct vp_err *err)
{
    const struct entry *e = entry;
    const struct vp_box *b = &out->box;
    float most = 0;
    (void)op, (void)scratch, (void)threads, (void)err;
    for (uint64_t i = 0; i < (e->bytes - sizeof *e) / sizeof(float); i++)
        most = e->sample[i] > most ? e->sample[i] : most;
    for (int64_t z = b->lo[2]; z < b->hi[2]; z++)
        for (int64_t y = b->lo[1]; y < b->hi[1]; y++)
            for (int64_t x = b->lo[0]; x < b->hi[0]; x++)
                ((float *)out->plane[z - b->lo[2]])[(y - b->lo[1]) * out->stride + x - b->lo[0]] =
                    at(in, x, y, z) - e->sum + most;
    return 0;
}

/* ---- scenes ---- */

/* The definition: boxes of the step in their order, in an image that lies in one piece. */
static void make_want(struct scene *s, const int64_t step[3])
{
    const int64_t *n = s->n, page = n[0] * n[1];
    float *image = malloc((size_t)(page * n[2]) * sizeof *image);
    void **plane = malloc((size_t)n[2] * sizeof *plane), **made = malloc((size_t)n[2] * sizeof *made);
    const struct vp_op *op = &s->chain.stage[0];
    for (int64_t k = 0; k < s->inner * s->outer; k++) {
        float sum = 0;
        for (int64_t z = 0; z < n[2]; z++) {
            const int64_t at_page = ((k / s->inner * n[2] + z) * s->inner + k % s->inner) * page;
            plane[z] = image + z * page;
            made[z] = s->want + at_page;
            memcpy(plane[z], s->data + at_page, (size_t)page * sizeof(float));
        }
        const struct vp_part all = {{{0}, {n[0], n[1], n[2]}}, n[0], plane};
        for (int way = 0; way < 2; way++)
            for (int64_t z = 0; z < n[2]; z += step[2])
                for (int64_t y = 0; y < n[1]; y += step[1])
                    for (int64_t x = 0; x < n[0]; x += step[0]) {
                        const struct vp_box b = {{x, y, z}, {vp_min64(x + step[0], n[0]), vp_min64(y + step[1], n[1]),
                                                             vp_min64(z + step[2], n[2])}};
                        struct entry *e = malloc(mean_summary(op, &b));
                        mean_summarize(op, &all, &b, e, NULL, 1, NULL);
                        sum += way ? 0 : e->sum;
                        e->sum = sum / (float)(page * n[2]);
                        const struct vp_part out = {{{0, 0, z}, {n[0], n[1], n[2]}}, n[0], made + z};
                        struct vp_part box = out;
                        void **rows = malloc((size_t)vp_box_size(&b, 2) * sizeof *rows);
                        for (int64_t i = 0; i < vp_box_size(&b, 2); i++)
                            rows[i] = (float *)made[z + i] + y * n[0] + x;
                        box.box = b;
                        box.plane = rows;
                        if (way)
                            mean_finish(op, &all, &box, e, NULL, 1, NULL);
                        free(rows);
                        free(e);
                    }
    }
    free(made);
    free(plane);
    free(image);
}

static void make_scene(struct scene *s)
{
    static const struct vp_two_pass two_pass = {mean_summary, mean_summarize, mean_solve, mean_finish, NULL};
    struct vp_err err = VP_ERR_INIT;
    const int64_t step[3] = {dice(1, 12), dice(1, 12), dice(1, 9)};
    *s = (struct scene){.n = {dice(1, 20), dice(1, 20), dice(1, 20)}, .inner = dice(1, 2), .outer = dice(1, 2)};
    write_scene(s, dir);
    struct mean *m = calloc(1, sizeof *m);
    m->per_image = 1;
    for (int a = 0; a < 3; a++)
        m->per_image *= (s->n[a] + step[a] - 1) / step[a];
    const struct vp_op op = {.kernel = "mean", .image = {s->n[0], s->n[1], s->n[2]}, .inputs = 1, .from = {~0},
                             .in = VP_F32, .out = VP_F32, .cost = 1, .step = {step[0], step[1], step[2]},
                             .params = m, .free = free, .halo = {dice(0, 1), 0, dice(0, 2)},
                             .two_pass = &two_pass};
    CHECK_INT(vp_chain_add(&s->chain, &op, &err), 0);
    make_want(s, step);
}

static void test_plans(void)
{
    int runs = 0, planned = 0, troubles = 0, on[2] = {0};
    for (int trial = 0; trial < 300; trial++) {
        struct scene s;
        make_scene(&s);
        struct vp_problem p = problem_of_scene(&s, trial % 3);
        const int64_t *step = s.chain.stage[0].step;
        struct vp_plan plan;
        struct vp_err err = VP_ERR_INIT;
        bool made = false;
        if (trial % 5 == 0) {
            made = !vp_plan_make(&plan, &p, &err);
            CHECK(made);
            if (!made)
                printf("no plan: %s\n", err.msg);
            planned += made;
        }
        for (int i = 0; i < 400 && !made; i++) {
            const int64_t n = s.n[2] * s.outer, slabs = (n + step[2] - 1) / step[2];
            plan = (struct vp_plan){.bands = 1, .band = s.n[1], .slab = vp_min64(n, step[2] * dice(1, slabs)),
                                    .slabs = (int)dice(1, 4), .lanes = (int)dice(1, 3),
                                    .part = {vp_min64(step[0], s.n[0]), vp_min64(step[1], s.n[1]),
                                             vp_min64(step[2], s.n[2])}};
            plan.window = vp_min64(n, plan.slab + 2 * s.chain.stage[0].halo[2] + dice(0, 4));
            made = vp_plan_try(&plan, &p);
        }
        CHECK(made);
        if (made) {
            struct way way = {.twice = true, .memory = (uint64_t)dice(0, 2) * 200};
            const int rc = run_scene_plan(&s, &p, &plan, &way);
            CHECK_INT(rc, 0);
            runs++;
            on[p.backend != NULL]++;
            way.says = make_trouble(trial, p.backend, pages_of_scene(&s), &way.fail_at);
            const int failed = run_scene_plan(&s, &p, &plan, &way);
            CHECK_INT(failed != 0, way.fail_at >= 0 || pretend.launched > pretend.fail_at);
            troubles += failed != 0;
            end_trouble();
        }
        free_scene(&s);
    }
    printf("%d runs: %d on the CPU, %d on devices; %d planned\n", runs, on[0], on[1], planned);
    CHECK(troubles >= 150);
    CHECK(on[0] >= 80 && on[1] >= 150);
    CHECK_INT(pretend.open, 0);
}

/* A device that runs short of memory is told of, in whichever visit that was. */
static void test_shortage(void)
{
    int told = 0;
    for (int trial = 0; trial < 60; trial++) {
        struct scene s;
        make_scene(&s);
        struct vp_problem p = problem_of_scene(&s, true);
        struct vp_plan plan;
        struct vp_err err = VP_ERR_INIT;
        int smaller = -1;
        CHECK_INT(vp_plan_make(&plan, &p, &err), 0);
        pretend.shortages = 1;
        struct way way = {.twice = true, .says = "has no memory left", .fail_at = -1, .smaller = &smaller};
        if (!run_scene_plan(&s, &p, &plan, &way)) {
            CHECK_INT(smaller, 1 - pretend.shortages);
            told += smaller;
        }
        pretend.shortages = 0;
        free_scene(&s);
    }
    printf("%d went on with fewer buffers\n", told);
    CHECK(told >= 10);
    CHECK_INT(pretend.open, 0);
}

int main(void)
{
    if (!mkdtemp(dir))
        return 1;
    end_trouble();
    test_plans();
    test_shortage();
    rmdir(dir);
    return test_done();
}
