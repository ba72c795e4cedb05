/* SPDX-License-Identifier: BSD-3-Clause */
/* A projector and volumes that stay on their devices: views projected back to one (set), then to it again (add), then
 * to another, against sums of the definition in float64; on the CPU, and on pretended devices in slabs of random
 * thickness. On real devices, too, if $VOXPIPE_DEVICES names them as --device does: "cuda". */
#include "pretend.h"
#include "backproject_ref.h"

#include "ct/kernels.h"
#include "ct/projector.h"

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
    struct vp_bp_job p;
    struct vp_bp_plan plan;
    float *packed;
    struct vp_queue *queue;
};

static int64_t page_of(const struct vp_bp_job *p)
{
    return p->grid->n[0] * p->grid->n[1];
}

static int devbp_plan(const struct vp_bp_job *p, struct vp_bp_plan *plan, struct vp_err *err)
{
    (void)err;
    memset(plan, 0, sizeof *plan);
    snprintf(plan->kernel, sizeof plan->kernel, "by definition");
    const int64_t n = p->projections->n_views, pairs = known_pairs && !p->single;
    plan->opposite = pairs ? n / 2 : 0;
    plan->mirror = true;
    plan->v1 = p->projections->nv;
    plan->z_step = K;
    plan->batch = 4;
    plan->slot = (uint64_t)((pairs ? 2 : 1) * p->projections->nu * p->projections->nv) * sizeof(float);
    plan->fixed = 8;
    return 0;
}

static int devbp_open(struct vp_devbp **out, const struct vp_bp_job *p, void *packed, void *fixed,
                      struct vp_queue *queue, struct vp_err *err)
{
    (void)fixed;
    *out = calloc(1, sizeof **out);
    **out = (struct vp_devbp){.p = *p, .packed = packed, .queue = queue};
    return devbp_plan(p, &(*out)->plan, err);
}

/* Slice i of those that the slab stores, of the grid. */
static int64_t slice_of(const struct vp_bp_job *p, int64_t i)
{
    const int64_t depth = p->z1 - p->z0;
    return i < depth ? p->z0 + i : p->grid->n[2] - p->z1 + i - depth;
}

struct step {
    struct vp_devbp *b;
    int64_t first, n;
    const float *q[2];
    float *volume;
    int part, parts;
    bool set;
};

static int views_of(const struct vp_devbp *b)
{
    return b->plan.opposite ? 2 : 1;
}

static float *packed(const struct vp_devbp *b, int64_t orbit, int half)
{
    const int64_t view = b->p.projections->nu * b->p.projections->nv;
    return b->packed + (orbit % b->p.slots * views_of(b) + half) * view;
}

static int pack_late(void *arg, struct vp_err *err)
{
    const struct step *s = arg;
    const int64_t view = s->b->p.projections->nu * s->b->p.projections->nv;
    (void)err;
    for (int64_t i = 0; i < s->n; i++)
        for (int h = 0; h < 2; h++)
            if (s->q[h])
                memcpy(packed(s->b, s->first + i, h), s->q[h] + i * view, (size_t)view * sizeof(float));
    return 0;
}

static int devbp_pack(struct vp_devbp *b, int64_t first, int64_t n, int64_t v0, int64_t v1, const float *q,
                      const float *opposite, struct vp_err *err)
{
    const struct step s = {.b = b, .first = first, .n = n, .q = {q, opposite}};
    (void)err;
    wrong += v0 != 0 || v1 != b->p.projections->nv;
    return pretend_call(b->queue, pack_late, &s, sizeof s);
}

static int run_late(void *arg, struct vp_err *err)
{
    const struct step *s = arg;
    const struct vp_bp_job *p = &s->b->p;
    const int64_t depth = p->z1 - p->z0, pieces = (depth + K - 1) / K, page = page_of(p);
    (void)err;
    for (int64_t i = 0; i < depth * (p->mirrored ? 2 : 1); i++) {
        const int64_t piece = i % depth / K;
        if (piece < pieces * s->part / s->parts || piece >= pieces * (s->part + 1) / s->parts)
            continue;
        for (int64_t at = 0; at < page; at++) {
            float *to = s->volume + i * page + at, sum = s->set ? 0 : *to;
            for (int64_t o = s->first; o < s->first + s->n; o++)
                for (int h = 0; h < views_of(s->b); h++)
                    sum += (float)backproject_ref(&known_views[o + h * s->b->plan.opposite], 1, p->projections->nu,
                                                  p->projections->nv, known_grid, packed(s->b, o, h),
                                                  at % p->grid->n[0], at / p->grid->n[0], slice_of(p, i));
            *to = sum;
        }
    }
    return 0;
}

static int devbp_run(struct vp_devbp *b, float *volume, int64_t first, int64_t n, int part, int parts, bool set,
                     struct vp_err *err)
{
    const struct step s = {.b = b, .first = first, .n = n, .volume = volume, .part = part, .parts = parts,
                           .set = set};
    (void)err;
    return pretend_call(b->queue, run_late, &s, sizeof s);
}

static int devbp_parts(const struct vp_devbp *b, int most)
{
    return (int)vp_min64(dice(1, most), (b->p.z1 - b->p.z0 + K - 1) / K);
}

static int devbp_part_of(const struct vp_devbp *b, int64_t z, int parts)
{
    const int64_t pieces = (b->p.z1 - b->p.z0 + K - 1) / K;
    const int64_t k = z < b->p.z0 || z >= b->p.z1 ? z - (b->p.grid->n[2] - b->p.z1) : z - b->p.z0;
    int part = 0;
    while (part < parts - 1 && k / K >= pieces * (part + 1) / parts)
        part++;
    return part;
}

static void devbp_close(struct vp_devbp *b)
{
    free(b);
}

static const struct vp_backproject_kernels kernels = {
    .plan = devbp_plan, .open = devbp_open, .pack = devbp_pack, .run = devbp_run, .parts = devbp_parts,
    .part_of = devbp_part_of, .close = devbp_close,
};

static const void *kernels_of(const char *name)
{
    return strcmp(name, "backproject") ? NULL : &kernels;
}

/* ---- the expected volume ---- */

struct scene {
    const struct scan *scan;
    struct vp_view *views;
    struct vp_projections projections;
    struct vp_grid grid;
    int64_t samples, voxels;
    float *proj[2];  /* two sets of samples, */
    double *seen[2]; /* and what the definition makes of those */
    struct vp_bp_part part[MOST_SLABS];
    int slabs;
    int64_t opposite; /* the devices want views in pairs that far apart; 0: one after the other */
};

/* Cuts slabs from below, or of mirrored pairs from outside. */
static void cut(struct scene *s, const struct vp_backend *backend, const int *device, int devices)
{
    const int64_t nz = s->grid.n[2];
    struct vp_bp_job job = {.projections = &s->projections, .last = s->scan->views, .in_nu = s->scan->nu,
                            .grid = &s->grid, .z1 = nz, .any_order = true, .threads = 2, .device = device[0],
                            .resident = !backend->on_host && dice(0, 1)};
    struct vp_err err = VP_ERR_INIT;
    struct vp_bp_plan plan;

    CHECK_INT(vp_projector_plan(backend, &job, &plan, &err), 0);
    s->opposite = plan.opposite;
    job.mirrored = plan.mirror && nz % 2 == 0 && dice(0, 1);
    const int64_t end = job.mirrored ? nz / 2 : nz;
    for (s->slabs = 0, job.z1 = 0; job.z1 < end; s->slabs++) {
        struct vp_bp_part *part = &s->part[s->slabs];
        job.z0 = job.z1;
        job.z1 = s->slabs == devices - 1 ? end : vp_min64(job.z0 + dice(1, end), end);
        job.device = device[s->slabs];
        part->job = job;
        CHECK_INT(vp_projector_plan(backend, &job, &part->plan, &err), 0);
    }
}

static void make_scene(struct scene *s, const struct scan *scan)
{
    *s = (struct scene){.scan = scan, .views = make_views(scan)};
    s->projections = (struct vp_projections){.views = s->views, .n_views = scan->views, .nu = scan->nu, .nv = scan->nv};
    s->grid = (struct vp_grid){.n = {scan->n[0], scan->n[1], scan->n[2]}, .voxel = {1.3, 1.2, 1.1}};
    s->samples = scan->views * scan->nu * scan->nv;
    s->voxels = scan->n[0] * scan->n[1] * scan->n[2];
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
    free(s->views);
}

/* Returns the slab that has slice z. */
static int slab_of(const struct scene *s, int64_t z)
{
    int i = 0;
    for (; i < s->slabs; i++) {
        const struct vp_bp_job *job = &s->part[i].job;
        const int64_t mirrored = job->mirrored ? s->grid.n[2] - 1 - z : -1;
        if ((z >= job->z0 && z < job->z1) || (mirrored >= job->z0 && mirrored < job->z1))
            break;
    }
    return i;
}

/* Reads all slices, in pieces. */
static float *get(struct vp_projector *p, const struct scene *s)
{
    struct vp_err err = VP_ERR_INIT;
    const int64_t nz = s->grid.n[2], page = s->grid.n[0] * s->grid.n[1];
    float *out = malloc((size_t)s->voxels * sizeof *out);
    for (int64_t z = 0, n; z < nz; z += n) {
        const int64_t most = dice(1, 9);
        for (n = 1; n < most && z + n < nz && slab_of(s, z + n) == slab_of(s, z);)
            n++;
        CHECK_INT(vp_projector_slices(p, slab_of(s, z), z, n, out + z * page, &err), 0);
    }
    CHECK_STR(err.msg, "");
    return out;
}

/* The volume is a seen[0] + b seen[1], to float's rounding. Returns it. */
static float *check(struct vp_projector *p, const struct scene *s, double a, double b, const char *when)
{
    float *got = get(p, s);
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < s->voxels; i++) {
        const double want = a * s->seen[0][i] + b * s->seen[1][i];
        difference += (got[i] - want) * (got[i] - want);
        norm += want * want;
    }
    test_checks++;
    if (!(sqrt(difference) <= 3e-6 * sqrt(norm))) {
        test_failures++;
        printf("%s, %s: relative error %g\n", s->scan->name, when, sqrt(difference / norm));
    }
    return got;
}

/* Projects samples q back, some views at a time, in pairs if the device wants that. */
static void back(struct vp_projector *p, struct vp_volume *v, enum vp_projector_mode mode, const struct scene *s, int q)
{
    struct vp_err err = VP_ERR_INIT;
    const int64_t view = s->scan->nu * s->scan->nv, half = s->opposite;
    const int64_t end = half ? half : s->scan->views;
    uint64_t ticket[MOST_SLABS];
    float slice;
    CHECK_INT(vp_projector_begin(p, v, mode, &err), 0);
    for (int64_t k = 0, n; k < end; k += n) {
        n = vp_min64(dice(1, 5), end - k);
        for (int64_t first = k; first < s->scan->views; first += half ? half : s->scan->views) {
            float *copy = malloc((size_t)(n * view) * sizeof *copy);
            memcpy(copy, s->proj[q] + first * view, (size_t)(n * view) * sizeof *copy);
            const struct vp_batch batch = {.first = first, .n = n, .v1 = s->scan->nv, .samples = copy};
            CHECK_INT(vp_projector_back(p, &batch, ticket, &err), 0);
            CHECK_INT(vp_projector_wait(p, ticket, &err), 0);
            memset(copy, 0xA5, (size_t)(n * view) * sizeof *copy);
            free(copy);
        }
    }
    CHECK_INT(vp_projector_slices(p, 0, 0, 1, &slice, &err), -1); /* not now */
    CHECK_STR(err.msg, "slices are read while views come");
    err = (struct vp_err)VP_ERR_INIT;
    CHECK_INT(vp_projector_end(p, &err), 0);
    CHECK_STR(err.msg, "");
}

static void same_floats(float *a, float *b, int64_t n)
{
    CHECK(!memcmp(a, b, (size_t)n * sizeof *a));
    free(a);
    free(b);
}

/* ---- the tests ---- */

static void set_and_add(struct scene *s, const struct vp_backend *backend, const int *device, int devices)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_projector *p;
    struct vp_volume y, x;

    cut(s, backend, device, (int)vp_min64(devices, MOST_SLABS));
    CHECK_INT(vp_projector_open(&p, backend, s->part, s->slabs, &err), 0);
    CHECK_INT(vp_volume_open(&y, backend, s->part, s->slabs, &err), 0);
    CHECK_INT(vp_volume_open(&x, backend, s->part, s->slabs, &err), 0);
    back(p, &y, VP_SET, s, 0);
    float *once = check(p, s, 1, 0, "set");
    back(p, &y, VP_ADD, s, 1);
    float *both = check(p, s, 1, 1, "added");
    back(p, &x, VP_SET, s, 1);
    free(check(p, s, 0, 1, "another"));
    back(p, &x, VP_ADD, s, 1);
    free(check(p, s, 0, 2, "another, twice"));

    /* the same bits again, over what there was; x keeps its own */
    back(p, &y, VP_SET, s, 0);
    same_floats(get(p, s), once, s->voxels);
    back(p, &y, VP_ADD, s, 1);
    same_floats(get(p, s), both, s->voxels);
    back(p, &x, VP_ADD, s, 0);
    free(check(p, s, 1, 2, "another, three times"));

    float slice[32 * 32];
    if (!backend->on_host) {
        CHECK_INT(vp_projector_slices(p, 0, s->grid.n[2], 1, slice, &err), -1);
        CHECK(strstr(err.msg, "is not in the slab"));
    }
    err = (struct vp_err)VP_ERR_INIT;
    struct vp_volume more = {.slabs = s->slabs + 1};
    CHECK_INT(vp_projector_begin(p, &more, VP_SET, &err), -1);
    CHECK(strstr(err.msg, "slabs, a projector for"));
    vp_projector_close(p);
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
            set_and_add(&s, &vp_cpu, numbers, MOST_SLABS);
            known_pairs = s.scan->views % 2 == 0 && dice(0, 1);
            set_and_add(&s, &devices, numbers, MOST_SLABS);
            if (real)
                set_and_add(&s, real, number, n);
        }
        free_scene(&s);
    }
    free(number);
    CHECK_INT(pretend.open, 0);
    return test_done();
}
