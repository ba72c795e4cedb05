/* SPDX-License-Identifier: BSD-3-Clause */
/* A volume that stays on its devices: back-projected to twice, with slices put in and volumes added up in between,
 * against sums of the definition in float64; on the CPU, and on pretended devices in slabs of random thickness. On real
 * devices, too, where $VOXPIPE_DEVICES names them in the words of --device: "cuda". */
#include "pretend.h"
#include "backproject_ref.h"

#include "ct/backproject.h"
#include "ct/slab_kernels.h"
#include "ct/volume.h"

#include <stdatomic.h>

enum { MOST_SLABS = 4 };

/* ---- scans ---- */

struct scan {
    const char *name;
    int64_t views, nu, nv, n[3];
    double lean; /* of the detector's rows: no two voxels of a column lie in one of its columns */
};

static const struct scan SCANS[] = {
    {"a circle", 24, 30, 26, {21, 18, 37}, 0},
    {"even slices", 16, 24, 20, {16, 24, 20}, 0},
    {"two slices", 12, 24, 20, {19, 17, 2}, 0},
    {"tilted", 13, 22, 24, {15, 12, 19}, 0.2},
};

static struct vp_view *make_views(const struct scan *s)
{
    struct vp_view *views = calloc((size_t)s->views, sizeof *views);
    for (int64_t k = 0; k < s->views; k++) {
        const double b = 2 * M_PI * (double)k / (double)s->views, sod = 100, f = 1.4 * (double)s->nu;
        const double cu = (double)(s->nu - 1) / 2, cv = (double)(s->nv - 1) / 2, c = cos(s->lean), t = sin(s->lean);
        const double u[3] = {c * cos(b), c * sin(b), t}, v[3] = {-t * cos(b), -t * sin(b), c};
        const double w[3] = {sin(b), -cos(b), 0};
        views[k] = (struct vp_view){.angle = b, .fu = f, .fv = f, .cu = cu, .cv = cv, .sod = sod};
        for (int i = 0; i < 4; i++) {
            const double depth = i == 3 ? sod : w[i];
            views[k].P[i] = (i < 3 ? f * u[i] : 0) + cu * depth;
            views[k].P[4 + i] = (i < 3 ? f * v[i] : 0) + cv * depth;
            views[k].P[8 + i] = depth;
        }
    }
    return views;
}

static float *random_floats(int64_t n)
{
    float *p = malloc((size_t)n * sizeof *p);
    for (int64_t i = 0; i < n; i++)
        p[i] = (float)dice(-1000, 1000) / 1000;
    return p;
}

/* ---- a device that back-projects by definition ---- */

static const struct vp_view *known_views; /* by the devices */
static const struct vp_grid *known_grid;
static bool known_pairs;
static atomic_int wrong;

enum { K = 3 }; /* slices of a piece */

struct vp_devbp {
    struct vp_devbp_problem p;
    struct vp_devbp_plan plan;
    struct vp_devbp_memory memory;
    struct vp_queue *queue;
};

static int64_t page_of(const struct vp_devbp_problem *p)
{
    return p->n[0] * p->n[1];
}

static int devbp_plan(const struct vp_devbp_problem *p, struct vp_devbp_plan *plan, struct vp_err *err)
{
    (void)err;
    memset(plan, 0, sizeof *plan);
    snprintf(plan->kernel, sizeof plan->kernel, "by definition");
    plan->views_per_orbit = known_pairs && !p->single ? 2 : 1;
    plan->orbits = p->n_views / plan->views_per_orbit;
    plan->mirror = true;
    plan->v1 = p->nv;
    plan->z_step = K;
    plan->good_batch = 4;
    plan->bytes_volume = (uint64_t)(page_of(p) * (p->z1 - p->z0) * (p->mirrored ? 2 : 1)) * sizeof(float);
    plan->bytes_orbit = (uint64_t)(plan->views_per_orbit * p->nu * p->nv) * sizeof(float);
    plan->bytes_fixed = 8;
    return 0;
}

static int devbp_open(struct vp_devbp **out, const struct vp_devbp_problem *p, const struct vp_devbp_memory *memory,
                      struct vp_queue *queue, struct vp_err *err)
{
    *out = calloc(1, sizeof **out);
    **out = (struct vp_devbp){.p = *p, .memory = *memory, .queue = queue};
    return devbp_plan(p, &(*out)->plan, err);
}

/* Slice i of those that the slab stores, of the grid. */
static int64_t slice_of(const struct vp_devbp_problem *p, int64_t i)
{
    const int64_t depth = p->z1 - p->z0;
    return i < depth ? p->z0 + i : p->n[2] - p->z1 + i - depth;
}

struct step {
    struct vp_devbp *b;
    int64_t first, n;
    const float *q[2], *x;
    float a, keep;
    int part, parts;
    bool fresh;
};

static float *packed(const struct vp_devbp *b, int64_t orbit, int half)
{
    const int64_t view = b->p.nu * b->p.nv;
    return (float *)b->memory.packed + (orbit % b->p.orbits * b->plan.views_per_orbit + half) * view;
}

static int pack_late(void *arg, struct vp_err *err)
{
    const struct step *s = arg;
    const int64_t view = s->b->p.nu * s->b->p.nv;
    (void)err;
    for (int64_t i = 0; i < s->n; i++)
        for (int h = 0; h < 2; h++)
            if (s->q[h])
                memcpy(packed(s->b, s->first + i, h), s->q[h] + i * view, (size_t)view * sizeof(float));
    return 0;
}

static int devbp_pack(struct vp_devbp *b, int64_t first, int64_t n, int64_t v0, int64_t v1, const float *q,
                      const float *half_turn, struct vp_err *err)
{
    const struct step s = {.b = b, .first = first, .n = n, .q = {q, half_turn}};
    (void)err;
    wrong += v0 != 0 || v1 != b->p.nv;
    return pretend_call(b->queue, pack_late, &s, sizeof s);
}

static int run_late(void *arg, struct vp_err *err)
{
    const struct step *s = arg;
    const struct vp_devbp_problem *p = &s->b->p;
    const int64_t depth = p->z1 - p->z0, pieces = (depth + K - 1) / K, page = page_of(p);
    (void)err;
    for (int64_t i = 0; i < depth * (p->mirrored ? 2 : 1); i++) {
        const int64_t piece = i % depth / K;
        if (piece < pieces * s->part / s->parts || piece >= pieces * (s->part + 1) / s->parts)
            continue;
        for (int64_t at = 0; at < page; at++) {
            float *to = (float *)s->b->memory.volume + i * page + at, sum = s->fresh ? 0 : *to;
            for (int64_t o = s->first; o < s->first + s->n; o++)
                for (int h = 0; h < s->b->plan.views_per_orbit; h++)
                    sum += (float)backproject_ref(&known_views[o + h * s->b->plan.orbits], 1, p->nu, p->nv,
                                                  known_grid, packed(s->b, o, h), at % p->n[0], at / p->n[0],
                                                  slice_of(p, i));
            *to = sum;
        }
    }
    return 0;
}

static int devbp_run(struct vp_devbp *b, int64_t first, int64_t n, int part, int parts, bool fresh, struct vp_err *err)
{
    const struct step s = {.b = b, .first = first, .n = n, .part = part, .parts = parts, .fresh = fresh};
    (void)err;
    return pretend_call(b->queue, run_late, &s, sizeof s);
}

static int devbp_parts(const struct vp_devbp *b, int most)
{
    return (int)vp_min64(dice(1, most), (b->p.z1 - b->p.z0 + K - 1) / K);
}

static int devbp_part_of(const struct vp_devbp *b, int64_t z, int parts)
{
    const int64_t pieces = (b->p.z1 - b->p.z0 + K - 1) / K, k = z < b->p.z0 || z >= b->p.z1 ? z - (b->p.n[2] - b->p.z1)
                                                                                            : z - b->p.z0;
    int part = 0;
    while (part < parts - 1 && k / K >= pieces * (part + 1) / parts)
        part++;
    return part;
}

static float *devbp_where(const struct vp_devbp *b, int64_t z, int64_t *run)
{
    const int64_t depth = b->p.z1 - b->p.z0;
    for (int64_t i = 0; i < depth * (b->p.mirrored ? 2 : 1); i++)
        if (slice_of(&b->p, i) == z) {
            *run = depth - i % depth;
            return (float *)b->memory.volume + i * page_of(&b->p);
        }
    return NULL;
}

static int blend_late(void *arg, struct vp_err *err)
{
    const struct step *s = arg;
    float *y = s->b->memory.volume;
    (void)err;
    for (size_t i = 0; i < s->b->plan.bytes_volume / sizeof *y; i++) {
        const float kept = s->keep != 0 ? s->keep * y[i] : 0;
        y[i] = !s->x ? kept : s->keep != 0 ? s->a * s->x[i] + kept : s->a * s->x[i];
    }
    return 0;
}

static int devbp_blend(struct vp_devbp *b, float a, const float *x, float keep, struct vp_err *err)
{
    const struct step s = {.b = b, .a = a, .x = x, .keep = keep};
    (void)err;
    return pretend_call(b->queue, blend_late, &s, sizeof s);
}

static void devbp_close(struct vp_devbp *b)
{
    free(b);
}

static const struct vp_backproject_kernels kernels = {
    .plan = devbp_plan, .open = devbp_open, .pack = devbp_pack, .run = devbp_run, .parts = devbp_parts,
    .part_of = devbp_part_of, .where = devbp_where, .blend = devbp_blend, .close = devbp_close,
};

static const void *kernels_of(const char *name)
{
    return strcmp(name, "backproject") ? NULL : &kernels;
}

/* ---- what a volume should hold ---- */

struct scene {
    const struct scan *scan;
    struct vp_view *views;
    struct vp_grid grid;
    int64_t samples, voxels;
    float *proj[2], *image; /* two sets of projections, and a volume */
    double *seen[2];        /* what the definition makes of those */
    struct vp_bp_job job[MOST_SLABS];
    int slabs;
    int64_t partner; /* the devices want views in pairs so far apart; 0: one after the other */
};

/* Slabs from below, or of mirrored pairs from outside. */
static void cut(struct scene *s, const struct vp_backend *backend, const int *device, int devices)
{
    const int64_t nz = s->grid.n[2];
    struct vp_bp_job job = {.views = s->views, .n_views = s->scan->views, .last = s->scan->views, .nu = s->scan->nu,
                            .nv = s->scan->nv, .in_nu = s->scan->nu, .grid = &s->grid, .z1 = nz, .any_order = true,
                            .threads = 2, .device = device[0], .stay = !backend->on_host && dice(0, 1)};
    struct vp_err err = VP_ERR_INIT;
    struct vp_bp_plan plan;

    CHECK_INT(vp_slab_plan(backend, &job, &plan, &err), 0);
    s->partner = plan.partner;
    job.mirrored = plan.mirror && nz % 2 == 0 && dice(0, 1);
    const int64_t end = job.mirrored ? nz / 2 : nz;
    for (s->slabs = 0, job.z1 = 0; job.z1 < end; s->slabs++) {
        job.z0 = job.z1;
        job.z1 = s->slabs == devices - 1 ? end : vp_min64(job.z0 + dice(1, end), end);
        job.device = device[s->slabs];
        s->job[s->slabs] = job;
    }
}

static void make_scene(struct scene *s, const struct scan *scan)
{
    *s = (struct scene){.scan = scan, .views = make_views(scan)};
    s->grid = (struct vp_grid){.n = {scan->n[0], scan->n[1], scan->n[2]}, .voxel = {1.3, 1.2, 1.1}};
    s->samples = scan->views * scan->nu * scan->nv;
    s->voxels = scan->n[0] * scan->n[1] * scan->n[2];
    s->image = random_floats(s->voxels);
    for (int p = 0; p < 2; p++) {
        s->proj[p] = random_floats(s->samples);
        s->seen[p] = malloc((size_t)s->voxels * sizeof *s->seen[p]);
        for (int64_t i = 0; i < s->voxels; i++)
            s->seen[p][i] = backproject_ref(s->views, scan->views, scan->nu, scan->nv, &s->grid, s->proj[p],
                                            i % scan->n[0], i / scan->n[0] % scan->n[1],
                                            i / (scan->n[0] * scan->n[1]));
    }
    known_views = s->views;
    known_grid = &s->grid;
}

static void free_scene(struct scene *s)
{
    for (int p = 0; p < 2; p++) {
        free(s->proj[p]);
        free(s->seen[p]);
    }
    free(s->image);
    free(s->views);
}

/* All slices, in pieces. */
static float *get(struct vp_volume *v, const struct scene *s)
{
    struct vp_err err = VP_ERR_INIT;
    const int64_t nz = s->grid.n[2], page = s->grid.n[0] * s->grid.n[1];
    float *out = malloc((size_t)s->voxels * sizeof *out);
    for (int64_t z = 0, n; z < nz; z += n) {
        n = vp_min64(dice(1, 9), nz - z);
        CHECK_INT(vp_volume_get(v, z, n, out + z * page, &err), 0);
    }
    CHECK_STR(err.msg, "");
    return out;
}

/* What it holds is a seen[0] + b seen[1] + c image, to float's rounding. */
static void check(struct vp_volume *v, const struct scene *s, double a, double b, double c, const char *when)
{
    float *got = get(v, s);
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < s->voxels; i++) {
        const double want = a * s->seen[0][i] + b * s->seen[1][i] + c * (double)s->image[i];
        difference += (got[i] - want) * (got[i] - want);
        norm += want * want;
    }
    test_checks++;
    if (!(sqrt(difference) <= 3e-6 * sqrt(norm))) {
        test_failures++;
        printf("%s, %s: relative error %g\n", s->scan->name, when, sqrt(difference / norm));
    }
    free(got);
}

/* Projections p, some views at a time, in pairs where the device wants that. */
static void add(struct vp_volume *v, const struct scene *s, int p)
{
    struct vp_err err = VP_ERR_INIT;
    const int64_t view = s->scan->nu * s->scan->nv, half = s->partner;
    const int64_t end = half ? half : s->scan->views;
    uint64_t ticket[MOST_SLABS];
    for (int64_t k = 0, n; k < end; k += n) {
        n = vp_min64(dice(1, 5), end - k);
        for (int64_t first = k; first < s->scan->views; first += half ? half : s->scan->views) {
            float *copy = malloc((size_t)(n * view) * sizeof *copy);
            memcpy(copy, s->proj[p] + first * view, (size_t)(n * view) * sizeof *copy);
            const struct vp_projections q = {.first = first, .n = n, .v1 = s->scan->nv, .samples = copy};
            CHECK_INT(vp_adjoint(&q, v, VP_WEIGHT_FDK, ticket, &err), 0);
            CHECK_INT(vp_volume_wait(v, ticket, &err), 0);
            memset(copy, 0xA5, (size_t)(n * view) * sizeof *copy);
            free(copy);
        }
    }
    float slice;
    CHECK_INT(vp_volume_get(v, 0, 1, &slice, &err), -1); /* not now */
    CHECK_STR(err.msg, "the volume was asked for while views come");
    err = (struct vp_err)VP_ERR_INIT;
    CHECK_INT(vp_adjoint_end(v, &err), 0);
    CHECK_STR(err.msg, "");
}

static void same_floats(float *a, float *b, int64_t n)
{
    CHECK(!memcmp(a, b, (size_t)n * sizeof *a));
    free(a);
    free(b);
}

/* ---- the tests ---- */

static void twice_into_one(struct scene *s, const struct vp_backend *backend, const int *device, int devices)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_volume y, x;
    const int64_t nz = s->grid.n[2], page = s->grid.n[0] * s->grid.n[1];

    cut(s, backend, device, (int)vp_min64(devices, MOST_SLABS));
    CHECK_INT(vp_volume_open(&y, backend, s->job, s->slabs, &err), 0);
    CHECK_INT(vp_volume_open(&x, backend, s->job, s->slabs, &err), 0);
    check(&y, s, 0, 0, 0, "nothing yet");
    add(&y, s, 0);
    check(&y, s, 1, 0, 0, "once");
    float *once = get(&y, s);

    /* into x, whose other slices stay 0 until they come */
    const int64_t middle = dice(0, nz);
    float *image = malloc((size_t)s->voxels * sizeof *image);
    memcpy(image, s->image, (size_t)s->voxels * sizeof *image);
    CHECK_INT(vp_volume_put(&x, middle, nz - middle, image + middle * page, &err), 0);
    memset(image + middle * page, 0xA5, (size_t)((nz - middle) * page) * sizeof *image);
    CHECK_INT(vp_volume_put(&x, 0, middle, image, &err), 0);
    memcpy(image, s->image, (size_t)s->voxels * sizeof *image);
    same_floats(get(&x, s), image, s->voxels);

    CHECK_INT(vp_volume_blend(&y, -2, &x, 0.5f, &err), 0);
    check(&y, s, 0.5, 0, -2, "blended");
    add(&y, s, 1);
    check(&y, s, 0.5, 1, -2, "twice");
    CHECK_INT(vp_volume_blend(&y, 0, NULL, 3, &err), 0);
    check(&y, s, 1.5, 3, -6, "scaled");
    CHECK_INT(vp_volume_blend(&y, 1, &y, 1, &err), 0);
    check(&y, s, 3, 6, -12, "doubled");
    add(&x, s, 1);
    check(&x, s, 0, 1, 1, "on top of what was put there");

    /* nothing is waited for in between */
    add(&x, s, 0);
    CHECK_INT(vp_volume_blend(&y, 1, &x, 0, &err), 0);
    CHECK_INT(vp_volume_blend(&x, 0, NULL, 0, &err), 0);
    check(&y, s, 1, 1, 1, "copied");
    check(&x, s, 0, 0, 0, "cleared");

    /* from the beginning: the same bits */
    CHECK_INT(vp_volume_blend(&y, 0, NULL, 0, &err), 0);
    add(&y, s, 0);
    same_floats(get(&y, s), once, s->voxels);
    vp_volume_close(&x);

    float slice;
    CHECK_INT(vp_volume_get(&y, nz, 1, &slice, &err), -1);
    CHECK(strstr(err.msg, "is not in the volume"));
    const bool thinner = s->slabs == 1 && s->job[0].z1 > 1;
    s->job[0].z1 -= thinner;
    err = (struct vp_err)VP_ERR_INIT;
    CHECK_INT(vp_volume_open(&x, backend, s->job, 1, &err), 0);
    if (s->slabs > 1 || thinner) {
        CHECK_INT(vp_volume_blend(&y, 1, &x, 1, &err), -1);
        CHECK(strstr(err.msg, s->slabs > 1 ? "slabs" : "lie differently"));
    }
    vp_volume_close(&x);
    vp_volume_close(&y);
    CHECK_INT(wrong, 0);
}

int main(void)
{
    static const int numbers[MOST_SLABS] = {0, 3, 1, 2};
    struct vp_backend devices = pretended;
    const struct vp_backend *real = NULL;
    struct vp_err err = VP_ERR_INIT;
    int *number = NULL, n = 0;

    devices.kernels = kernels_of;
    if (getenv("VOXPIPE_DEVICES") && vp_devices_find(&real, &number, &n, getenv("VOXPIPE_DEVICES"), &err))
        CHECK_STR(err.msg, "");
    for (size_t i = 0; i < sizeof SCANS / sizeof *SCANS; i++) {
        struct scene s;
        make_scene(&s, &SCANS[i]);
        for (int round = 0; round < 4; round++) {
            twice_into_one(&s, &vp_cpu, numbers, MOST_SLABS);
            known_pairs = s.scan->views % 2 == 0 && dice(0, 1);
            twice_into_one(&s, &devices, numbers, MOST_SLABS);
            if (real)
                twice_into_one(&s, real, number, n);
        }
        free_scene(&s);
    }
    free(number);
    CHECK_INT(pretend.open, 0);
    return test_done();
}
