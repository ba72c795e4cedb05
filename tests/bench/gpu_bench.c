/* SPDX-License-Identifier: BSD-3-Clause */
/* Back-projection and copies on every GPU there is: GUPS = nx ny nz views / (seconds 2^30), where the seconds are
 * those of the device (events), packing included, and the error is that of 4096 random voxels against the float64
 * formula, on white noise, which is the hardest case. usage: gpu_bench [LARGEST [REPEATS]]; gpu_bench table4 [REPEATS]:
 * the sizes of iFDK's kernel (Chen et al. 2019, table 4), which astra_bench.py measures of ASTRA */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "ct/projector.h"
#include "base/err.h"
#include "base/size.h"
#include "../unit/backproject_ref.h"

struct setup {
    const char *name;
    int64_t detector, views, volume;
    double offset_v, tilt;
    double finer; /* voxels than the detector is at the axis */
};

static const struct setup SETUPS[] = {
    {"full circle", 512, 1024, 512, 0, 0, 1},
    {"full circle", 1024, 1024, 1024, 0, 0, 1},
    {"full circle", 512, 1024, 1024, 0, 0, 1},
    {"full circle", 2048, 1024, 1024, 0, 0, 1},
    {"full circle, s to 1.25", 2048, 256, 2048, 0, 0, 0.99},
    {"odd number of views", 512, 1023, 512, 0, 0, 1},
    {"odd number of views", 1024, 1023, 1024, 0, 0, 1},
    {"detector off centre in v", 512, 1023, 512, 5.5, 0, 1},
    {"tilted detector, 3 degrees", 512, 1024, 512, 0, 3, 1},
    {"tilted detector, 3 degrees", 1024, 1024, 1024, 0, 3, 1},
};
enum { N_SETUPS = sizeof SETUPS / sizeof *SETUPS, SAMPLES = 4096, BATCH = 16, SLICES = 16 };

static void die(const struct vp_err *err)
{
    fprintf(stderr, "gpu_bench: error: %s\n", err->msg);
    exit(1);
}

static uint32_t scramble(uint32_t x)
{
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

/* Detector 400 mm wide, source to axis 1000 mm, to the detector 1500 mm; the cube around the field of view. */
static struct vp_view *make_views(const struct setup *s, struct vp_grid *grid)
{
    struct vp_err err = VP_ERR_INIT;
    const double pitch = 400.0 / (double)s->detector;
    struct vp_geom g = {.beam = VP_CONE, .sod = 1000, .sdd = 1500, .nu = s->detector, .nv = s->detector, .du = pitch,
                        .dv = pitch, .offset_v = s->offset_v, .tilt = s->tilt, .views = s->views};
    struct vp_scan scan;
    struct vp_view *views;
    g.angle = vp_alloc((size_t)s->views, sizeof *g.angle, "angles", &err);
    if (!g.angle)
        die(&err);
    for (int64_t v = 0; v < s->views; v++)
        g.angle[v] = 360.0 * (double)v / (double)s->views;
    if (vp_geom_views(&g, &views, &scan, &err))
        die(&err);
    *grid = (struct vp_grid){.n = {s->volume, s->volume, s->volume}};
    for (int a = 0; a < 3; a++)
        grid->voxel[a] = 400.0 / 1.5 / (double)s->volume / s->finer;
    vp_geom_free(&g);
    return views;
}

/* The voxels that are compared, by slice. */
struct sample {
    int64_t i, j, k;
    float got;
};

static int by_slice(const void *a, const void *b)
{
    const struct sample *p = a, *q = b;
    return (p->k > q->k) - (p->k < q->k);
}

/* One reconstruction; seconds of the kernels. */
static double run(const struct vp_backend *gpu, const struct vp_bp_part *part, const float *proj, float *slices,
                  struct sample *sample)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_bp_stats stats;
    const struct vp_bp_job *job = &part->job;
    const int64_t nv = job->projections->nv, view = job->projections->nu * nv, page = job->grid->n[0] * job->grid->n[1];
    const int64_t opposite = part->plan.opposite, half = opposite ? opposite : job->projections->n_views;
    uint64_t ticket = 0;
    struct vp_projector *p;
    struct vp_volume volume;

    if (vp_projector_open(&p, gpu, part, 1, &err) || vp_volume_open(&volume, gpu, part, 1, &err)
        || vp_projector_begin(p, &volume, VP_SET, &err))
        die(&err);
    for (int64_t k = 0; k < half; k += BATCH) {
        const int64_t n = k + BATCH < half ? BATCH : half - k;
        const struct vp_batch first = {k, n, 0, nv, proj + k * view};
        const struct vp_batch second = {k + half, n, 0, nv, proj + (k + half) * view};
        if (vp_projector_back(p, &first, &ticket, &err) || (opposite && vp_projector_back(p, &second, &ticket, &err)))
            die(&err);
    }
    if (vp_projector_end(p, &err) || vp_projector_wait(p, &ticket, &err))
        die(&err);
    int at = 0;
    for (int64_t z = 0; z < job->grid->n[2]; z += SLICES) {
        const int64_t n = z + SLICES < job->grid->n[2] ? SLICES : job->grid->n[2] - z;
        if (vp_projector_slices(p, 0, z, n, slices, &err))
            die(&err);
        for (; at < SAMPLES && sample[at].k < z + n; at++)
            sample[at].got = slices[(sample[at].k - z) * page + sample[at].j * job->grid->n[0] + sample[at].i];
    }
    vp_projector_stats(p, 0, &stats);
    vp_projector_close(p);
    vp_volume_close(&volume);
    return stats.kernel;
}

static double error_of(const struct vp_bp_job *job, const float *proj, const struct sample *sample)
{
    const struct vp_projections *p = job->projections;
    double wrong = 0, all = 0;
#pragma omp parallel for reduction(+ : wrong, all) schedule(dynamic, 16)
    for (int i = 0; i < SAMPLES; i++) {
        const double right = backproject_ref(p->views, p->n_views, p->nu, p->nv, job->grid, proj, sample[i].i,
                                             sample[i].j, sample[i].k);
        wrong += (sample[i].got - right) * (sample[i].got - right);
        all += right * right;
    }
    return sqrt(wrong / all);
}

static void measure(const struct vp_backend *gpu, int device, const struct setup *s, int repeats)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_grid grid;
    struct vp_view *views = make_views(s, &grid);
    const struct vp_projections projections = {.views = views, .n_views = s->views, .nu = s->detector,
                                               .nv = s->detector};
    struct vp_bp_part part = {.job = {.projections = &projections, .last = s->views, .grid = &grid, .z1 = s->volume,
                                      .in_nu = s->detector, .any_order = true, .threads = 1, .device = device}};
    const struct vp_bp_plan *plan = &part.plan;
    const size_t count = (size_t)(s->views * s->detector * s->detector);
    const size_t page = (size_t)(s->volume * s->volume);
    char size[64];
    float *proj = NULL, *slices = NULL;
    struct sample *sample = calloc(SAMPLES, sizeof *sample);

    snprintf(size, sizeof size, "%lld^2 x %lld -> %lld^3", (long long)s->detector, (long long)s->views,
             (long long)s->volume);
    printf("%-27s %-24s ", s->name, size);
    fflush(stdout);
    if (vp_projector_plan(gpu, &part.job, &part.plan, &err))
        die(&err);
    if (plan->device > plan->room || 4 * count + 4 * page * SLICES > vp_memory_available() / 2) {
        printf("skipped: not enough memory\n");
        goto out;
    }
    proj = gpu->host_alloc(count * sizeof *proj);
    slices = gpu->host_alloc(page * SLICES * sizeof *slices);
    if (!proj || !slices || !sample) {
        printf("skipped: no page-locked memory\n");
        goto out;
    }
#pragma omp parallel for
    for (size_t i = 0; i < count; i++)
        proj[i] = (float)scramble((uint32_t)i + 12345u) / 2147483648.0f - 1;
    for (int i = 0; i < SAMPLES; i++) {
        const uint32_t n = (uint32_t)s->volume;
        sample[i] = (struct sample){.i = scramble(3u * (uint32_t)i) % n, .j = scramble(3u * (uint32_t)i + 1) % n,
                                    .k = scramble(3u * (uint32_t)i + 2) % n};
    }
    qsort(sample, SAMPLES, sizeof *sample, by_slice);
    double best = INFINITY, worst = 0;
    for (int i = 0; i < repeats; i++) {
        const double seconds = run(gpu, &part, proj, slices, sample);
        best = seconds < best ? seconds : best;
        worst = seconds > worst ? seconds : worst;
    }
    printf("%7.1f GUPS (%.1f to %.1f ms), error %.2e, %s\n",
           (double)page * (double)s->volume * (double)s->views / best / 1073741824.0, 1e3 * best, 1e3 * worst,
           error_of(&part.job, proj, sample), plan->kernel);
out:
    gpu->host_free(proj);
    gpu->host_free(slices);
    free(sample);
    free(views);
}

/* 1e9 bytes a second, the fastest of a few copies: within the device (read and written), to it, from it. */
static int copy_speed(const struct vp_backend *gpu, int device, double speed[3], struct vp_err *err)
{
    const int64_t bytes = INT64_C(256) << 20, n[3] = {bytes, 1, 1};
    struct vp_event *start = NULL, *end = NULL;
    struct vp_queue *q = NULL;
    void *a = NULL, *b = NULL, *host = NULL;
    int rc = gpu->alloc(device, (uint64_t)bytes, &a, err) || gpu->alloc(device, (uint64_t)bytes, &b, err) ||
             !(host = gpu->host_alloc((size_t)bytes)) || gpu->queue_create(device, &q, err) ||
             gpu->event_create(device, false, &start, err) || gpu->event_create(device, false, &end, err);

    for (int i = 0; i < 12 && !rc; i++) {
        static const enum vp_way ways[] = {VP_WITHIN, VP_UP, VP_DOWN};
        const int way = i % 3;
        const struct vp_pitched to = {way == 2 ? host : b, bytes, bytes}, from = {way == 1 ? host : a, bytes, bytes};
        rc = gpu->event_record(q, start, err) || gpu->copy(q, &to, &from, n, ways[way], err) ||
             gpu->event_record(q, end, err) || gpu->event_synchronize(end, err);
        const double seconds = rc ? 0 : gpu->event_elapsed(start, end), rate = 1e-9 * (double)bytes / seconds;
        if (seconds > 0 && rate * (way ? 1 : 2) > speed[way])
            speed[way] = rate * (way ? 1 : 2);
    }
    gpu->queue_destroy(q);
    gpu->event_destroy(start);
    gpu->event_destroy(end);
    if (a)
        gpu->release(device, a);
    if (b)
        gpu->release(device, b);
    gpu->host_free(host);
    return rc ? -1 : 0;
}

int main(int argc, char **argv)
{
    const bool table4 = argc > 1 && !strcmp(argv[1], "table4");
    const int64_t largest = argc > 1 ? atoll(argv[1]) : 2048;
    const int repeats = argc > 2 ? atoi(argv[2]) : 3;
    struct vp_err err = VP_ERR_INIT;
    const struct vp_backend *gpu;
    int *devices, n;

    if (vp_devices_find(&gpu, &devices, &n, "cuda", &err)) {
        printf("skipped: %s\n", err.msg);
        return 0;
    }
    for (int d = 0; d < n; d++) {
        struct vp_device_info info;
        double speed[3] = {0};
        if (gpu->info(devices[d], &info, &err) || copy_speed(gpu, devices[d], speed, &err))
            die(&err);
        printf("device %d: %s, %s; copies: %.0f GB/s on the device (read and write), %.1f to it, %.1f from it\n",
               devices[d], info.name, vp_bytes_text(info.total).text, speed[0], speed[1], speed[2]);
    }
    for (int64_t detector = 512; detector <= 2048 && table4; detector *= 2)
        for (int64_t volume = 128; volume <= 1024; volume *= 2)
            measure(gpu, devices[0], &(struct setup){"table 4", detector, 1024, volume, 0, 0, 1}, repeats);
    for (int i = 0; i < N_SETUPS && !table4; i++)
        if (SETUPS[i].detector <= largest && SETUPS[i].volume <= largest)
            measure(gpu, devices[0], &SETUPS[i], repeats);
    free(devices);
    return 0;
}
