/* SPDX-License-Identifier: BSD-3-Clause */
/* `make rates`: the table of common/engine/rates.h as this machine has it, in the form of that header. What cannot be
 * measured here (a guess, or there is no device; back-projection on a GPU is gpu_bench's) stays as it is. Every figure
 * is the median of several runs, or the least where all threads work, with the other cores idle; what one thread does
 * is measured by its own clock; files lie in DIR ($TMPDIR or /tmp), which should be in
 * memory. With "model" it prints what it measured as lines of `name = number`, which VOXPIPE_RATES names.
 * The programs should be in the PATH.
 * usage: rates [model] [DIR] */
#include "base/err.h"
#include "base/size.h"
#include "base/stats.h"
#include "../unit/backproject_ref.h"
#include "ct/filter.h"
#include "device/device.h"
#include "engine/chain.h"
#include "engine/rates.h"
#include "engine/store.h"
#include "global/morphrecon.h"
#include "local/gauss.h"
#include "stack/writer.h"

#include <fcntl.h>
#include <math.h>
#include <omp.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TIMES = 5, BYTES = 256 << 20, STEP = 4 << 20 };

static struct vp_rates now;  /* 0: not measured */
static char cpu[160], gpu[160];

static void die(const char *what)
{
    fprintf(stderr, "rates: error: %s\n", what);
    exit(1);
}

static int by_value(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static double median(double t[TIMES])
{
    qsort(t, TIMES, sizeof *t, by_value);
    return t[TIMES / 2];
}

static double least(const double t[TIMES])
{
    double all = t[0];
    for (int i = 1; i < TIMES; i++)
        all = fmin(all, t[i]);
    return all;
}

/* Returns the seconds that this thread has had a processor: what one thread does, however busy the machine is. */
static double busy(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Memory that was never touched. */
static char *memory(size_t bytes)
{
    struct vp_err err = VP_ERR_INIT;
    char *p = vp_alloc_raw(bytes, 1, "a buffer", &err);
    if (!p)
        die(err.msg);
    return p;
}

/* ---- files and memory ---- */

static void measure_files(const char *dir)
{
    double in[TIMES], out[TIMES];
    char path[4096], *page = memory(STEP);

    memset(page, 1, STEP);
    snprintf(path, sizeof path, "%s/voxpipe-rates.XXXXXX", dir);
    for (int i = 0; i < TIMES; i++) {
        strcpy(path + strlen(path) - 6, "XXXXXX");
        const int fd = mkstemp(path);
        if (fd < 0)
            die("cannot make a file: expected a folder that can be written");
        unlink(path);
        double t = busy();
        for (off_t at = 0; at < BYTES; at += STEP)
            if (pwrite(fd, page, STEP, at) != STEP)
                die("cannot write a file of 256 MiB");
        out[i] = busy() - t;
        t = busy();
        for (off_t at = 0; at < BYTES; at += STEP)
            if (pread(fd, page, STEP, at) != STEP)
                die("cannot read a file of 256 MiB");
        in[i] = busy() - t;
        close(fd);
    }
    free(page);
    now.read = median(in) / BYTES;
    now.write = median(out) / BYTES;
}

/* All threads at once: a file that the writer of the programs writes, from opening to closing it, and reading it. */
static void measure_files_all(const char *dir)
{
    enum { PARTS = 4, PAGES = BYTES / STEP };
    const struct vp_stack stack = {.nx = 1024, .ny = STEP / 4096, .pages = (int64_t)PARTS * PAGES, .type = VP_F32};
    struct vp_err err = VP_ERR_INIT;
    double in[TIMES], out[TIMES];
    char path[4096], *const pages = memory(BYTES);
    bool bad = false;

    memset(pages, 1, BYTES);
    snprintf(path, sizeof path, "%s/voxpipe-rates.%d", dir, (int)getpid());
    for (int i = 0; i < TIMES; i++) {
        struct vp_writer *w;
        double t = vp_now();
        if (vp_writer_open(&w, path, &stack, &(struct vp_writer_options){.raw = true}, &err))
            die(err.msg);
        for (int k = 0; k < PARTS && !bad; k++)
            bad = vp_writer_bands(w, k * PAGES, PAGES, 0, stack.ny, pages, vp_cores(), &err);
        if (bad || vp_writer_close(w, &err))
            die(err.msg);
        out[i] = vp_now() - t;
        const int fd = open(path, O_RDONLY);
        if (fd < 0)
            die("cannot read a file of 1 GiB");
        t = vp_now();
#pragma omp parallel for schedule(dynamic) reduction(|| : bad)
        for (int k = 0; k < PARTS * PAGES; k++)
            bad = bad || pread(fd, pages + (size_t)(k % PAGES) * STEP, STEP, (off_t)k * STEP) != STEP;
        in[i] = vp_now() - t;
        close(fd);
        unlink(path);
        if (bad)
            die("cannot read a file of 1 GiB");
    }
    free(pages);
    now.read_all = least(in) / PARTS / BYTES;
    now.write_all = least(out) / PARTS / BYTES;
}

static void measure_memory(void)
{
    double first[TIMES], move[TIMES];

    for (int i = 0; i < TIMES; i++) {
        char *a = memory(BYTES), *b = memory(BYTES);
        double t = busy();
        for (size_t k = 0; k < BYTES; k += 4096)
            a[k] = 1;
        first[i] = busy() - t;
        memset(b, 1, BYTES);
        t = vp_now();
#pragma omp parallel for
        for (int k = 0; k < BYTES / STEP; k++)
            memcpy(a + (size_t)k * STEP, b + (size_t)k * STEP, STEP);
        move[i] = vp_now() - t;
        free(a);
        free(b);
    }
    now.fresh = median(first) / BYTES;
    now.move = least(move) / BYTES;
}

static void measure_threads(void)
{
    enum { CALLS = 2000 };
    double start[TIMES];
    int n = 0;

    for (int i = 0; i < TIMES; i++) {
        const double t = vp_now();
        for (int k = 0; k < CALLS; k++) {
#pragma omp parallel reduction(+ : n)
            n++;
        }
        start[i] = vp_now() - t;
    }
    if (n < 0)
        die("threads that do not count");
    now.part = median(start) / CALLS;
}

/* ---- the solve between two passes ---- */

/* An image of noise over three voxels, as u8. */
static uint8_t *noise(int64_t n)
{
    uint8_t *a = (uint8_t *)memory((size_t)(n * n * n));
    uint32_t s = 1;
    for (int64_t i = 0; i < n * n * n; i++) {
        s = s * 1664525 + 1013904223;
        const int before = i ? a[i - 1] : 128, below = i >= n ? a[i - n] : 128, under = i >= n * n ? a[i - n * n] : 128;
        a[i] = (uint8_t)((before + below + under + (int)(s >> 24)) / 4);
    }
    return a;
}

/* The h-maxima of an image of N^3 in boxes of BOX^3: all entries are made once, and solved TIMES times. */
static void measure_solve(void)
{
    enum { N = 256, BOX = 64, BOXES = N / BOX * (N / BOX) * (N / BOX) };
    const struct vp_morphrecon_params p = {.type = VP_U8, .marker = VP_MARKER_SHIFT, .connectivity = 26, .h = 10};
    const int64_t image[3] = {N, N, N}, size[3] = {BOX, BOX, BOX};
    struct vp_err err = VP_ERR_INIT;
    uint8_t *const a = noise(N);
    void *entry[BOXES], *plane[BOX], *scratch = NULL;
    double took[TIMES], bytes = 0;
    struct vp_op op;

    if (vp_morphrecon_op(&op, &p, image, &err))
        die(err.msg);
    for (int b = 0; b < BOXES; b++) {
        const struct vp_box all = {.hi = {N, N, N}}, box = vp_box_tile(&all, size, b);
        for (int z = 0; z < BOX; z++)
            plane[z] = a + ((box.lo[2] + z) * N + box.lo[1]) * N + box.lo[0];
        const struct vp_part in = {box, N, plane};
        const uint64_t most = op.two_pass->summary(&op, &box);
        bytes += (double)most;
        entry[b] = memory((size_t)most);
        free(scratch);
        scratch = memory((size_t)op.scratch(&op, &box, &box, vp_cores()));
        if (op.two_pass->summarize(&op, &in, &box, entry[b], scratch, vp_cores(), &err))
            die(err.msg);
    }
    for (int i = 0; i < TIMES; i++) {
        struct vp_store *store;
        if (vp_store_open(&store, BOXES, 0, &err))
            die(err.msg);
        for (int b = 0; b < BOXES; b++)
            if (vp_store_put(store, b, entry[b], *(uint64_t *)entry[b], &err))
                die(err.msg);
        const double t = vp_now();
        if (op.two_pass->solve(&op, store, size, UINT64_C(1) << 40, vp_cores(), &err))
            die(err.msg);
        took[i] = vp_now() - t;
        vp_store_close(store);
    }
    now.solve = median(took) * vp_cores() / bytes;
    for (int b = 0; b < BOXES; b++)
        free(entry[b]);
    free(scratch);
    free(a);
    op.free(op.params);
}

/* ---- programs, and operations on images ---- */

extern char **environ;

/* A run of img-gauss on a small image; 0: the program is not in the PATH. */
static void measure_process(const char *dir)
{
    enum { RUNS = 4 * TIMES };
    double all = INFINITY;
    char from[4096], to[4100];
    const int fd = (snprintf(from, sizeof from, "%s/voxpipe-rates.XXXXXX", dir), mkstemp(from));
    bool bad = fd < 0 || ftruncate(fd, 1 << 16);
    snprintf(to, sizeof to, "%s.tif", from);
    for (int i = 0; i < RUNS && !bad; i++) {
        const char *const arg[] = {"img-gauss", "--sigma", "1", "--device", "cpu", "--raw-in", "64x64:u8", from, "-o", to, NULL};
        int status = 1;
        pid_t id;
        const double t = vp_now();
        bad = posix_spawnp(&id, arg[0], NULL, NULL, (char *const *)arg, environ) || waitpid(id, &status, 0) != id || status;
        all = fmin(all, vp_now() - t);
    }
    if (fd >= 0)
        close(fd);
    unlink(from);
    unlink(to);
    if (bad)
        fprintf(stderr, "rates: img-gauss does not run from the PATH: the start of a program was not measured\n");
    else
        now.process = all;
}

/* Returns the seconds of a thread for an operation on a page of N^2, over those of vp_op.cost, while all threads do the
 * same: two of them may share a core, and all share the memory. */
static double over_cost(struct vp_op *op, int64_t n)
{
    enum { PAGES = 4 };
    const struct vp_box box = {.hi = {n, n, 1}};
    double sum = 0;
#pragma omp parallel reduction(+ : sum)
    {
        struct vp_err err = VP_ERR_INIT;
        char *const in = memory((size_t)(n * n) * 4), *const out = memory((size_t)(n * n) * 4);
        void *scratch = memory((size_t)op->scratch(op, &box, &box, 1)), *plane[1] = {in}, *to[1] = {out};
        const struct vp_part from = {box, n, plane}, result = {box, n, to};
        double took[TIMES];
        for (int64_t i = 0; i < n * n; i++)
            ((float *)(void *)in)[i] = (float)(i * 2654435761u % 1048576);
        memset(out, 1, (size_t)(n * n) * 4);
#pragma omp barrier
        for (int i = 0; i < TIMES; i++) {
            const double t = busy();
            for (int k = 0; k < PAGES; k++)
                if (op->run(op, &from, &result, scratch, 1, &err))
                    die(err.msg);
            took[i] = busy() - t;
        }
        sum += median(took) / PAGES;
        free(in);
        free(out);
        free(scratch);
    }
    return sum / vp_cores() / (1e-9 * op->cost * (double)(n * n));
}

static void measure_operations(void)
{
    const struct vp_gauss_params p = {.sigma = {2, 2}, .truncate = 4, .spacing = {1, 1, 1}, .edge = VP_EDGE_RENORMALIZE, .iterations = 1};
    const int64_t size[3] = {2048, 2048, 1};
    struct vp_err err = VP_ERR_INIT;
    struct vp_chain chain = {0};
    if (vp_gauss_chain(&chain, &p, size, VP_F32, VP_F32, &err))
        die(err.msg);
    now.cpu = over_cost(&chain.stage[0], size[0]);
    vp_chain_free(&chain);
}

/* ---- one filter, one back-projection, each with one thread ---- */

static void measure_ct(void)
{
    enum { N = 512, VIEWS = 32, SLICES = 256 };
    struct vp_err err = VP_ERR_INIT;
    struct vp_geom g = {.beam = VP_CONE, .sod = 1000, .sdd = 1500, .nu = N, .nv = N, .du = 0.78125, .dv = 0.78125,
                        .views = VIEWS};
    const struct vp_grid grid = {.n = {SLICES, SLICES, SLICES}, .voxel = {1, 1, 1}};
    const size_t samples = (size_t)N * N * VIEWS;
    float *in = (float *)memory(samples * sizeof *in), *out = (float *)memory(samples * sizeof *out);
    struct vp_view *views = NULL;
    struct vp_filter *f;
    struct vp_scan scan;
    double filter[TIMES], back[TIMES];

    if (!(g.angle = calloc(VIEWS, sizeof *g.angle)))
        die("not enough memory");
    for (int k = 0; k < VIEWS; k++)
        g.angle[k] = 360.0 * k / VIEWS;
    for (size_t i = 0; i < samples; i++)
        out[i] = in[i] = (float)(i * 2654435761u % 1048576) / 1048576;
    if (vp_geom_views(&g, &views, &scan, &err))
        die(err.msg);
    const struct { const char *isa; double *rate; } ways[] = {
        {"avx512", &now.filter_avx512}, {"avx2", &now.filter_avx2}, {"generic", &now.filter_generic}};
    const struct vp_rates one = {.filter_avx512 = 1, .filter_avx2 = 1, .filter_generic = 1};
    for (int w = 0; w < 3; w++) {
        if (vp_filter_open(&f, &(struct vp_filter_params){.cutoff = 1}, &g, views, &scan, 1, &err))
            die(err.msg);
        /* what a sample of a row is in the transform */
        const double longer = vp_filter_seconds(f, &one);
        if (vp_filter_use(f, ways[w].isa)) {
            for (int i = 0; i < TIMES; i++) {
                const double t = vp_now();
                vp_filter_rows(f, 0, VIEWS, 0, vp_filter_tables(f)->nv, in, out);
                filter[i] = (vp_now() - t) / (double)samples;
            }
            const double took = median(filter);
            *ways[w].rate = took / longer;
            now.cpu_samples = fmax(now.cpu_samples, 1 / took);
        }
        vp_filter_close(f);
    }
    for (int i = 0; i < TIMES; i++) {
        struct vp_backproject *b;
        const struct vp_projections p = {.views = views, .n_views = VIEWS, .nu = N, .nv = N};
        const struct vp_bp_job job = {.projections = &p, .grid = &grid, .z1 = SLICES, .threads = 1};
        float *voxels = NULL;
        if (vp_backproject_open(&b, &job, NULL, &err) || !(voxels = backproject_begin(b)))
            die(err.msg);
        const double t = vp_now();
        if (vp_backproject_add(b, &(struct vp_batch){0, VIEWS, 0, N, out}, &err))
            die(err.msg);
        vp_backproject_end(b);
        back[i] = vp_now() - t;
        vp_backproject_close(b);
        free(voxels);
    }
    now.cpu_updates = (double)SLICES * SLICES * SLICES * VIEWS / median(back);
    free(views);
    vp_geom_free(&g);
    free(in);
    free(out);
}

/* ---- a device ---- */

static double copied(const struct vp_backend *k, struct vp_queue *q, void *to, void *from, int64_t bytes, enum vp_way way)
{
    struct vp_err err = VP_ERR_INIT;
    const struct vp_pitched a = {to, bytes, bytes}, b = {from, bytes, bytes};
    const int64_t n[3] = {bytes, 1, 1};
    struct vp_event *end;
    double took[TIMES];

    if (k->event_create(0, true, &end, &err))
        die(err.msg);
    for (int i = 0; i < TIMES; i++) {
        const double t = vp_now();
        if (k->copy(q, &a, &b, n, way, &err) || k->event_record(q, end, &err) || k->event_synchronize(end, &err))
            die(err.msg);
        took[i] = vp_now() - t;
    }
    k->event_destroy(end);
    return median(took);
}

static void measure_device(void)
{
    struct vp_err err = VP_ERR_INIT;
    const struct vp_backend *k;
    struct vp_device_info info;
    struct vp_queue *q;
    void *a, *b;
    int *devices, n;
    double t = vp_now();

    if (vp_devices_find(&k, &devices, &n, "cuda:0", &err)) {
        snprintf(gpu, sizeof gpu, "%.120s", err.msg);
        return;
    }
    free(devices);
    if (k->info(0, &info, &err) || k->alloc(0, BYTES, &a, &err) || k->alloc(0, BYTES, &b, &err)
        || k->queue_create(0, &q, &err))
        die(err.msg);
    now.device_start = vp_now() - t;
    t = vp_now();
    char *host = k->host_alloc(BYTES);
    if (!host)
        die("no memory that the device copies at full speed");
    const double took = vp_now() - t;
    now.pinned = took / BYTES;
    now.device_start += took;
    const double up = copied(k, q, a, host, BYTES, VP_UP), down = copied(k, q, host, a, BYTES, VP_DOWN);
    now.bus = fmax(up, down) / BYTES;
    now.views_up = BYTES / up;
    now.bus_call = copied(k, q, a, host, 4, VP_UP);
    now.offset = copied(k, q, b, a, BYTES, VP_WITHIN) / BYTES; /* read and written, too */
    snprintf(gpu, sizeof gpu, "%.120s, speed %.4g GHz", info.name, info.speed);
    k->queue_destroy(q);
    k->release(0, a);
    k->release(0, b);
    k->host_free(host);
}

/* ---- the table ---- */

static void name_cpu(void)
{
    char line[256], model[120] = "a processor without a name";
    FILE *f = fopen("/proc/cpuinfo", "r");

    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, "model name", 10) && strchr(line, ':')) {
            snprintf(model, sizeof model, "%.100s", strchr(line, ':') + 2);
            model[strcspn(model, "\n")] = 0;
            break;
        }
    if (f)
        fclose(f);
    snprintf(cpu, sizeof cpu, "%d cores of %s", vp_cores(), model);
}

int main(int argc, char **argv)
{
    const char *tmp = getenv("TMPDIR");

    const bool lines = argc > 1 && !strcmp(argv[1], "model");
    argv += lines;
    argc -= lines;
    omp_set_num_threads(vp_cores());
    name_cpu();
    measure_device(); /* first: it is not started yet */
    measure_files(argc > 1 ? argv[1] : tmp ? tmp : "/tmp");
    measure_files_all(argc > 1 ? argv[1] : tmp ? tmp : "/tmp");
    measure_memory();
    measure_threads();
    measure_solve();
    measure_ct();
    measure_operations();
    measure_process(argc > 1 ? argv[1] : tmp ? tmp : "/tmp");
    if (lines) {
#define PAIR(name, value, unit, what, where) if (now.name > 0) printf("%s = %.4g\n", #name, now.name);
        printf("# %s; %s\n", cpu, gpu);
        VP_RATES(PAIR)
        return 0;
    }
    printf("/* CPU: %s; GPU: %s. */\n#define VP_RATES(X)", cpu, gpu);
#define LINE(name, value, unit, what, where) \
    printf(" \\\n    X(%s, %.3g, \"%s\", \"%s\", \"%s\")", #name, now.name > 0 ? now.name : (double)(value), unit, \
           what, now.name > 0 ? "measured here" : where);
    VP_RATES(LINE)
    printf("\n");
    return 0;
}
