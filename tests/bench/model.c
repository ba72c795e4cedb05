/* SPDX-License-Identifier: BSD-3-Clause */
/* `make model`: micro-benchmarks of this machine in the form that `ct-fdk --model FILE` reads (common/ct/mesh.h).
 * Started by mpirun or srun, with as many ranks on a host as there will be, it measures them all at once: what ranks
 * of a host share (storage) is added up, of what each has for itself the slowest counts, and what passes between
 * ranks is there only then. Files lie in DIR ($TMPDIR or /tmp), which should be where projections and volumes will
 * be: they are read back from storage, not from memory, where the system can be told so. usage: model [DEVICE [DIR]] */
#include "base/err.h"
#include "base/size.h"
#include "ct/filter.h"
#include "ct/mesh.h"
#include "ct/projector.h"
#include "device/device.h"
#include "device/ranks.h"
#include "engine/rates.h"
#include "stack/writer.h"

#include <fcntl.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TIMES = 3, BYTES = 512 << 20, STEP = 4 << 20 };

static struct vp_model now;
static struct vp_ranks *ranks; /* NULL: alone */
static struct vp_err err = VP_ERR_INIT;

static void die(const char *what)
{
    fprintf(stderr, "model: error: %s\n", what);
    exit(1);
}

static void check(int rc)
{
    if (rc)
        die(err.msg);
}

static char *memory(size_t bytes)
{
    char *p = vp_alloc_raw(bytes, 1, "a buffer", &err);
    if (!p)
        die(err.msg);
    memset(p, 1, bytes);
    return p;
}

/* All ranks begin together. */
static double begin(void)
{
    if (ranks)
        check(vp_ranks_agree(ranks, 0, NULL, 0, NULL, &err));
    return vp_now();
}

/* ---- storage ---- */

/* A volume, as the writer of ct-fdk does it; where it makes the file's memory before, it is given the time for it that
 * reading views gives. */
static void write_volume(const char *path, const char *pages, double *best)
{
    const struct vp_stack stack = {.nx = 1024, .ny = 1024, .pages = BYTES / STEP, .type = VP_F32};
    struct vp_writer *w;
    check(vp_writer_open(&w, path, &stack, &(struct vp_writer_options){.raw = true}, &err));
    nanosleep(&(struct timespec){1, 0}, NULL);
    const double t = begin();
    check(vp_writer_bands(w, 0, stack.pages, 0, stack.ny, pages, omp_get_max_threads(), &err)
          || vp_writer_close(w, &err));
    const int fd = open(path, O_RDONLY);
    if (fd < 0 || fsync(fd))
        die("cannot write a file of 512 MiB");
    close(fd);
    *best = fmin(*best, vp_now() - t);
}

static void read_views(const char *path, char *pages, double *best)
{
    bool bad = false;
    const int fd = open(path, O_RDONLY);
    if (fd < 0)
        die("cannot read a file of 512 MiB");
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    const double t = begin();
#pragma omp parallel for schedule(dynamic) reduction(|| : bad)
    for (int k = 0; k < BYTES / STEP; k++)
        bad = bad || pread(fd, pages + (size_t)k * STEP, STEP, (off_t)k * STEP) != STEP;
    *best = fmin(*best, vp_now() - t);
    close(fd);
    if (bad)
        die("cannot read a file of 512 MiB");
}

static void measure_files(const char *dir)
{
    char path[4096], *pages = memory(BYTES);
    double in = INFINITY, out = INFINITY;

    snprintf(path, sizeof path, "%s/voxpipe-model.%d.%d", dir, (int)getpid(), ranks ? ranks->rank : 0);
    for (int i = 0; i < TIMES; i++) {
        write_volume(path, pages, &out);
        read_views(path, pages, &in);
        unlink(path);
    }
    free(pages);
    now.load = BYTES / in;
    now.store = BYTES / out;
}

/* ---- a filter and a back-projection, as a rank does them ---- */

static void measure_copies(const struct vp_backend *k, int device)
{
    struct vp_queue *q;
    struct vp_event *end;
    void *there;
    char *here = k->host_alloc(BYTES);
    if (!here)
        die("no memory that the device copies at full speed");
    memset(here, 1, BYTES);
    check(k->alloc(device, BYTES, &there, &err) || k->queue_create(device, &q, &err)
          || k->event_create(device, true, &end, &err));
    const struct vp_pitched host = {here, BYTES, BYTES}, own = {there, BYTES, BYTES};
    double took[2] = {INFINITY, INFINITY};
    for (int i = 0; i < 2 * TIMES; i++) {
        const double t = begin();
        check(k->copy(q, i % 2 ? &host : &own, i % 2 ? &own : &host, (const int64_t[3]){BYTES, 1, 1},
                      i % 2 ? VP_DOWN : VP_UP, &err)
              || k->event_record(q, end, &err) || k->event_synchronize(end, &err));
        took[i % 2] = fmin(took[i % 2], vp_now() - t);
    }
    now.upload = BYTES / took[0];
    now.download = BYTES / took[1];
    k->event_destroy(end);
    k->queue_destroy(q);
    k->release(device, there);
    k->host_free(here);
}

/* n^3 voxels from views of nu x nu samples. On the CPU half of the slices, as a slab: the volume as a whole has a
 * mirror plane that makes it faster. Returns voxels updated a second. */
static double measure_work(const struct vp_backend *k, int device, int n, int nu, int views)
{
    const int threads = omp_get_max_threads(), slices = k->on_host ? n / 2 : n;
    struct vp_geom g = {.beam = VP_CONE, .sod = 1000, .sdd = 1500, .nu = nu, .nv = nu, .du = 400.0 / nu,
                        .dv = 400.0 / nu, .views = views};
    /* the field of view, as most people take it: kernels are made for a detector and a volume of like fineness */
    const double voxel = 266.0 / n;
    const struct vp_grid grid = {.n = {n, n, n}, .voxel = {voxel, voxel, voxel}};
    struct vp_filter *f;
    struct vp_view *view = NULL;
    struct vp_scan scan;
    const size_t samples = (size_t)nu * (size_t)nu * (size_t)views;
    float *in = k->on_host ? (float *)memory(samples * sizeof *in) : k->host_alloc(samples * sizeof *in);

    if (!(g.angle = calloc((size_t)views, sizeof *g.angle)) || !in)
        die("not enough memory");
    for (int i = 0; i < views; i++)
        g.angle[i] = 360.0 * i / views;
    memset(in, 0, samples * sizeof *in);
    check(vp_geom_views(&g, &view, &scan, &err)
          || vp_filter_open(&f, &(struct vp_filter_params){.cutoff = 1}, &g, view, &scan, threads, &err));
    const bool filters = !k->on_host;
    double kernel = INFINITY, filter = INFINITY, start = INFINITY;
    for (int i = 0; i < TIMES; i++) {
        const struct vp_projections projections = {.views = view, .n_views = views, .nu = nu, .nv = nu};
        struct vp_bp_part part = {.job = {.projections = &projections, .last = views, .grid = &grid, .z1 = slices,
                                          .filter = filters ? f : NULL, .in_nu = nu, .threads = threads,
                                          .any_order = true, .device = device}};
        const struct vp_bp_plan *plan = &part.plan;
        struct vp_projector *p;
        struct vp_volume volume;
        struct vp_bp_stats stats;
        uint64_t ticket;
        check(vp_projector_plan(k, &part.job, &part.plan, &err));
        double t = begin();
        check(vp_projector_open(&p, k, &part, 1, &err) || vp_volume_open(&volume, k, &part, 1, &err)
              || vp_projector_begin(p, &volume, VP_SET, &err));
        start = fmin(start, vp_now() - t);
        t = vp_now();
        if (!filters) {
            vp_filter_rows(f, 0, views, 0, vp_filter_tables(f)->nv, in, in);
            filter = fmin(filter, vp_now() - t);
            t = vp_now();
        }
        /* views with their opposite ones, as ct-fdk reads them */
        const int64_t half = plan->opposite ? plan->opposite : views;
        const int64_t batch = plan->opposite ? vp_min64(plan->batch, 32) : views;
        for (int64_t v = 0; v < half; v += batch) {
            const int64_t m = vp_min64(batch, half - v);
            const float *at = in + (size_t)v * (size_t)nu * (size_t)nu;
            check(vp_projector_back(p, &(struct vp_batch){v, m, 0, nu, at}, &ticket, &err));
            at += (size_t)half * (size_t)nu * (size_t)nu;
            if (plan->opposite)
                check(vp_projector_back(p, &(struct vp_batch){v + half, m, 0, nu, at}, &ticket, &err));
        }
        check(vp_projector_end(p, &err) || vp_projector_wait(p, &ticket, &err));
        if (filters) { /* queued; the device has the times */
            vp_projector_stats(p, 0, &stats);
            kernel = fmin(kernel, stats.kernel);
            filter = fmin(filter, stats.filter);
        } else {
            kernel = fmin(kernel, vp_now() - t);
        }
        vp_projector_close(p);
        vp_volume_close(&volume);
    }
    now.filter = (double)samples / filter;
    now.start = start;
    vp_filter_close(f);
    free(view);
    vp_geom_free(&g);
    k->host_free(in);
    return (double)n * n * slices * views / kernel;
}

/* ---- between ranks ---- */

static void measure_messages(void)
{
    enum { MESSAGES = 64 };
    const int n = ranks->size, to = (ranks->rank + n / 2) % n, from = (ranks->rank + n - n / 2) % n;
    char *out = memory((size_t)MESSAGES * STEP), *in = memory((size_t)MESSAGES * STEP);
    double views = INFINITY, sums = INFINITY;
    for (int i = 0; i < 3 * TIMES; i++) {
        struct vp_message *m[2 * MESSAGES];
        const double t = begin();
        for (int k = 0; k < MESSAGES; k++)
            check(ranks->take(ranks, from, VP_LANE_VIEWS, in + (size_t)k * STEP, STEP, &m[k], &err)
                  || ranks->send(ranks, to, VP_LANE_VIEWS, out + (size_t)k * STEP, STEP, &m[MESSAGES + k], &err));
        check(vp_ranks_wait(ranks, m, 2 * MESSAGES, &err));
        views = fmin(views, vp_now() - t);
        float *a = (float *)out, *b = (float *)in;
#pragma omp parallel for
        for (size_t k = 0; k < (size_t)MESSAGES * STEP / sizeof *a; k++)
            a[k] += b[k];
        sums = fmin(sums, vp_now() - t);
        memset(out, 0, (size_t)MESSAGES * STEP);
    }
    now.exchange = (double)MESSAGES * STEP / views;
    now.reduce = (double)MESSAGES * STEP / sums;
    free(out);
    free(in);
}

/* Of all ranks: of a host, added up, or the slowest; then the slowest host. */
static void put_together(void)
{
    struct all {
        struct vp_model model;
        char host[64];
    } mine = {.model = now}, *all = calloc((size_t)ranks->size, sizeof *all);
    memcpy(mine.host, ranks->host, sizeof mine.host);
    if (!all)
        die("not enough memory");
    check(vp_ranks_gather(ranks, &mine, sizeof mine, all, &err));
    double load = INFINITY, store = INFINITY;
    for (int i = 0; i < ranks->size; i++) {
        double in = 0, out = 0;
        for (int k = 0; k < ranks->size; k++)
            if (!strcmp(all[i].host, all[k].host)) {
                in += all[k].model.load;
                out += all[k].model.store;
            }
        load = fmin(load, in);
        store = fmin(store, out);
        now.filter = fmin(now.filter, all[i].model.filter);
        now.backproject = fmin(now.backproject, all[i].model.backproject);
        now.backproject_fine = fmin(now.backproject_fine, all[i].model.backproject_fine);
        now.backproject_coarse = fmin(now.backproject_coarse, all[i].model.backproject_coarse);
        now.exchange = fmin(now.exchange, all[i].model.exchange);
        now.reduce = fmin(now.reduce, all[i].model.reduce);
        now.upload = fmin(now.upload, all[i].model.upload);
        now.download = fmin(now.download, all[i].model.download);
        now.start = fmax(now.start, all[i].model.start);
    }
    now.load = load;
    now.store = store;
    now.host_ranks = ranks->places;
    free(all);
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "auto", *tmp = getenv("TMPDIR"), *dir = argc > 2 ? argv[2] : tmp ? tmp : "/tmp";
    const struct vp_backend *backend;
    int *devices, n;

    check(vp_ranks_open(&ranks, &err) || vp_devices_find(&backend, &devices, &n, name, &err));
    omp_set_num_threads(vp_cores() > (ranks ? ranks->places : 1) ? vp_cores() / (ranks ? ranks->places : 1) : 1);
    const int device = devices[(ranks ? ranks->place : 0) % n];
    now.exchange = vp_rates.ranks_exchange;
    now.reduce = vp_rates.ranks_exchange;
    measure_files(dir);
    if (!backend->on_host)
        measure_copies(backend, device);
    const int side = backend->on_host ? 256 : 1024, views = backend->on_host ? 64 : 1024;
    now.backproject_fine = measure_work(backend, device, side / 2, side, views);
    now.backproject_coarse = measure_work(backend, device, side, side / 2, views);
    now.backproject = measure_work(backend, device, side, side, views);
    if (ranks) {
        measure_messages();
        put_together();
    }
    if (!ranks || ranks->rank == 0) {
        printf("# ct-fdk --model; %s, %d rank%s%s\n", backend->name, ranks ? ranks->size : 1, ranks ? "s, " : "",
               ranks ? ranks->library : ": exchange and reduce are guesses");
#define LINE(name, what) printf("%-18s = %-12.4g # %s\n", #name, now.name, what);
        VP_MODEL(LINE)
    }
    fflush(stdout);
    vp_ranks_close(ranks, true);
    free(devices);
    return 0;
}
