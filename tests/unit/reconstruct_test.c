/* SPDX-License-Identifier: BSD-3-Clause */
/* The stages of a reconstruction with pretended devices: how slabs, mirrored slabs, passes and devices are planned,
 * that buffers are as large as what is put there and no more than the memory allows, that a slot is not used again
 * before a device has copied it, and that the volume is that of the CPU to the bit. A pretended device keeps the views
 * that it is given and back-projects them on the CPU in the end. */
#include "test.h"

#include "device/device.h"
#include "ops/slab.h"
#include "base/err.h"
#include "base/size.h"
#include "ops/backproject.h"
#include "ops/reconstruct_internal.h"
#include "stack/reader.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/* What the devices are like. */
static struct {
    _Atomic uint64_t memory;
    bool mirror, pairs, filters;
    double speed[8];  /* 0: all alike */
    double rate[8];   /* slices that each makes in a second, by its own account; 0: it does not say */
    uint64_t less[8]; /* memory that is taken, of each */
    atomic_int lost; /* that many bp_open find no memory, */
    int good;    /* after so many that do, */
    uint64_t after; /* have this then, if not 0, */
    int slow;    /* and tell so after so many milliseconds */
    int breaks;  /* the so-manieth bp_add fails; 0: none does */
    int tears;   /* and the so-manieth bp_slices */
    int opened;  /* at the same time */
    uint64_t row; /* bytes that each detector row of a slab takes */
    atomic_int made[8]; /* slices, of each */
} pretend;

/* What the devices copy from. */
static struct {
    pthread_mutex_t lock;
    struct {
        char *p;
        size_t bytes;
    } of[512];
    int n; /* never as many */
    size_t held, most; /* bytes, now and at most */
} buffers = {.lock = PTHREAD_MUTEX_INITIALIZER};

enum { TOGETHER = 3 };

struct piece {
    const float *proj;
    int64_t first, n, v0, v1;
};

struct device_bp {
    struct vp_bp_job job;
    struct vp_backproject *half[2];
    float *views;
    char *have;
    struct piece piece[256];
    uint64_t added, copied;
    int64_t v0, v1, waiting; /* for their partners */
};

static int64_t upper_first(const struct vp_bp_job *j)
{
    const int64_t z = j->grid->n[2] - j->z1;
    return z > j->z1 ? z : j->z1;
}

static void rows_of(const struct vp_bp_job *j, int64_t *v0, int64_t *v1)
{
    const int64_t nz = j->grid->n[2];
    vp_backproject_rows(j->views, j->n_views, j->nv, j->grid, j->z0, j->z1, v0, v1);
    if (j->mirrored) {
        int64_t w0, w1;
        vp_backproject_rows(j->views, j->n_views, j->nv, j->grid, nz - j->z1, nz - j->z0, &w0, &w1);
        *v0 = w0 < *v0 ? w0 : *v0;
        *v1 = w1 > *v1 ? w1 : *v1;
    }
}

static uint64_t device_bytes(const struct vp_bp_job *j)
{
    int64_t v0, v1;
    rows_of(j, &v0, &v1);
    return (uint64_t)(j->grid->n[0] * j->grid->n[1] * (j->z1 - j->z0)) * sizeof(float) * (j->mirrored ? 2 : 1) +
           pretend.row * (uint64_t)(v1 - v0);
}

static int bp_plan(const struct vp_bp_job *j, struct vp_bp_plan *p, struct vp_err *err)
{
    memset(p, 0, sizeof *p);
    if (j->filter && !pretend.filters)
        return vp_fail(err, VP_ERUN, "rows are too long");
    p->room = pretend.memory - pretend.less[j->device];
    p->room = j->device_memory && j->device_memory < p->room ? j->device_memory : p->room;
    p->z_step = 4;
    p->mirror = pretend.mirror;
    p->partner = pretend.pairs && j->first == 0 && j->last == j->n_views ? j->n_views / 2 : 0;
    p->together = TOGETHER;
    rows_of(j, &p->v0, &p->v1);
    p->device = device_bytes(j);
    return 0;
}

static int bp_open(void **out, const struct vp_bp_job *j, struct vp_err *err)
{
    struct device_bp *b = NULL;
    int rc = 0;
    *out = NULL;
#pragma omp critical(pretend)
    {
        if (pretend.lost > 0 && --pretend.good < 0) {
            pretend.lost--;
            pretend.memory = pretend.after ? pretend.after : pretend.memory;
            rc = vp_fail(err, VP_ERESOURCE, "memory is gone");
        } else {
            pretend.opened++;
            CHECK(!j->device_memory || device_bytes(j) <= j->device_memory);
        }
    }
    if (rc) {
        usleep(1000 * (useconds_t)pretend.slow);
        return rc;
    }
    pretend.made[j->device] += (int)(j->z1 - j->z0);
    b = calloc(1, sizeof *b);
    b->job = *j;
    rows_of(j, &b->v0, &b->v1);
    b->views = calloc((size_t)(j->n_views * j->nu * j->nv), sizeof *b->views);
    b->have = calloc((size_t)j->n_views, 1);
    rc = vp_backproject_open(&b->half[0], j->views, j->n_views, j->nu, j->nv, j->grid, j->z0, j->z1, 1, NULL, err);
    if (!rc && j->mirrored && upper_first(j) < j->grid->n[2] - j->z0)
        rc = vp_backproject_open(&b->half[1], j->views, j->n_views, j->nu, j->nv, j->grid, upper_first(j),
                                 j->grid->n[2] - j->z0, 1, NULL, err);
    *out = b;
    return rc;
}

/* Are n samples from p on in one buffer? */
static bool held(const float *p, size_t n)
{
    bool found = false;
    pthread_mutex_lock(&buffers.lock);
    for (int i = 0; i < buffers.n; i++)
        found |= (const char *)p >= buffers.of[i].p && (const char *)(p + n) <= buffers.of[i].p + buffers.of[i].bytes;
    pthread_mutex_unlock(&buffers.lock);
    return found;
}

/* Nothing is copied before it must be. */
static int bp_add(void *bp, int64_t first, int64_t n, int64_t v0, int64_t v1, const float *proj, uint64_t *ticket,
                  struct vp_err *err)
{
    struct device_bp *b = bp;
    CHECK(v0 <= b->v0 && v1 >= b->v1 && b->added < 256);
    CHECK(held(proj, (size_t)(n * (v1 - v0) * b->job.in_nu)));
    CHECK(first % (b->job.n_views / 2) >= (b->job.pairs ? b->job.first : 0));
    if (pretend.breaks && --pretend.breaks == 0)
        return vp_fail(err, VP_ERUN, "the device failed: it fell off the bus");
    if (pretend.pairs && b->job.any_order && (b->job.pairs || b->job.last - b->job.first == b->job.n_views)) {
        b->waiting += first < b->job.n_views / 2 ? n : -n;
        CHECK(b->waiting >= 0 && b->waiting <= TOGETHER);
    }
    b->piece[b->added++] = (struct piece){proj, first, n, v0, v1};
    *ticket = b->added;
    return 0;
}

static int bp_wait(void *bp, uint64_t ticket, struct vp_err *err)
{
    struct device_bp *b = bp;
    const int64_t nu = b->job.nu, nv = b->job.nv, in = b->job.in_nu;
    (void)err;
    for (; b->copied < ticket; b->copied++) {
        const struct piece *p = &b->piece[b->copied];
        for (int64_t i = 0; i < p->n; i++) {
            float *to = b->views + ((p->first + i) * nv + b->v0) * nu;
            const float *from = p->proj + (i * (p->v1 - p->v0) + b->v0 - p->v0) * in;
            CHECK(!b->have[p->first + i]);
            b->have[p->first + i] = 1;
            if (b->job.filter)
                vp_filter_rows((struct vp_filter *)b->job.filter, p->first + i, 1, b->v0, b->v1, from, to);
            else
                memcpy(to, from, (size_t)((b->v1 - b->v0) * nu) * sizeof *to);
        }
    }
    return 0;
}

static int bp_flush(void *bp, struct vp_err *err)
{
    struct device_bp *b = bp;
    bp_wait(b, b->added, err);
    for (int half = 0; half < 2; half++) {
        for (int64_t k = 0; b->half[half] && k < b->job.n_views; k++) {
            const int64_t turn = b->job.pairs ? k % (b->job.n_views / 2) : k;
            CHECK_INT(b->have[k], turn >= b->job.first && turn < b->job.last);
            if (!b->have[k])
                continue;
            if (vp_backproject_add(b->half[half], k, 1, b->views + k * b->job.nu * b->job.nv, err))
                return -1;
        }
        if (b->half[half] && vp_backproject_flush(b->half[half], err))
            return -1;
    }
    return 0;
}

static int bp_slices(void *bp, int64_t z, int64_t n, float *out, struct vp_err *err)
{
    struct device_bp *b = bp;
    bool torn;
#pragma omp critical(pretend)
    torn = pretend.tears && --pretend.tears == 0;
    if (torn)
        return vp_fail(err, VP_ERUN, "the device failed: it fell off the bus");
    for (int64_t i = 0; i < n; i++)
        vp_backproject_slice(b->half[z + i >= b->job.z1], z + i, out + i * b->job.grid->n[0] * b->job.grid->n[1]);
    return 0;
}

static void bp_stats(void *bp, struct vp_bp_stats *stats)
{
    const struct vp_bp_job *j = &((const struct device_bp *)bp)->job;
    memset(stats, 0, sizeof *stats);
    stats->kernel = pretend.rate[j->device] > 0 ? (double)(j->z1 - j->z0) / pretend.rate[j->device] : 0;
}

static void bp_close(void *bp)
{
    struct device_bp *b = bp;
    struct vp_err ignored = VP_ERR_INIT;
    pretend.opened--;
    bp_wait(b, b->added, &ignored); /* what was added may be read to the end */
    vp_backproject_close(b->half[0]);
    vp_backproject_close(b->half[1]);
    free(b->views);
    free(b->have);
    free(b);
}

static int device_info(int device, struct vp_device_info *info, struct vp_err *err)
{
    (void)err;
    snprintf(info->name, sizeof info->name, "pretended device %d", device);
    info->total = pretend.memory;
    info->free = pretend.memory - pretend.less[device];
    info->speed = pretend.speed[device];
    return 0;
}

static void *host_alloc(size_t bytes)
{
    char *p = malloc(bytes);
    pthread_mutex_lock(&buffers.lock);
    buffers.of[buffers.n].p = p;
    buffers.of[buffers.n++].bytes = bytes;
    buffers.held += bytes;
    buffers.most = buffers.held > buffers.most ? buffers.held : buffers.most;
    pthread_mutex_unlock(&buffers.lock);
    return p;
}

static void host_free(void *p)
{
    int i = 0;
    pthread_mutex_lock(&buffers.lock);
    while (i < buffers.n && buffers.of[i].p != p)
        i++;
    CHECK(i < buffers.n);
    buffers.held -= buffers.of[i].bytes;
    buffers.of[i] = buffers.of[--buffers.n];
    pthread_mutex_unlock(&buffers.lock);
    free(p);
}

static const struct vp_slabs slabs = {.plan = bp_plan, .open = bp_open, .add = bp_add, .wait = bp_wait, .flush = bp_flush,
                                      .slices = bp_slices, .stats = bp_stats, .close = bp_close};
static const struct vp_kind devices = {.name = "pretended", .info = device_info, .host_alloc = host_alloc,
                                       .host_free = host_free, .slabs = &slabs};

/* ---- scans ---- */

enum { PROCESS = 7 << 20 }; /* bytes of the memory that are for other things */
enum { NU = 20, NV = 16, NX = 12, NY = 10 };
static char dir[] = "/tmp/voxpipe-reconstruct-XXXXXX";
static char scan_path[64], volume_path[64];

static void write_pages(int64_t nx, int64_t ny, int64_t pages)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_stack s = {nx, ny, pages, VP_F32, {0, NULL, NULL}};
    const struct vp_writer_options plain = {false, VP_COMPRESS_NONE};
    struct vp_writer *w;
    float *page = malloc((size_t)(nx * ny) * sizeof *page);
    uint32_t state = 1;
    CHECK(!vp_writer_open(&w, scan_path, &s, &plain, &err));
    for (int64_t k = 0; k < pages; k++) {
        for (int64_t i = 0; i < nx * ny; i++) {
            state = state * 1664525u + 1013904223u;
            page[i] = (float)(state >> 8) / 16777216.0f;
        }
        CHECK(!vp_writer_page(w, page, &err));
    }
    CHECK(!vp_writer_close(w, &err));
    free(page);
}

static void write_scan(int64_t views)
{
    write_pages(NU, NV, views);
}

struct scene {
    struct vp_geom geom;
    struct vp_view *views;
    struct vp_scan scan;
    struct vp_grid grid;
    struct vp_filter *filter;
};

static void make_scene(struct scene *s, int64_t views, int64_t slices, double offset_u)
{
    struct vp_err err = VP_ERR_INIT;
    const struct vp_filter_params filter = {.cutoff = 1};
    *s = (struct scene){.geom = {.beam = VP_CONE, .sod = 30, .sdd = 45, .nu = NU, .nv = NV, .du = 1.5, .dv = 1.5,
                                 .offset_u = offset_u, .views = views},
                        .grid = {.n = {NX, NY, slices}, .voxel = {1, 1, 1}}};
    s->geom.angle = malloc((size_t)views * sizeof *s->geom.angle);
    for (int64_t k = 0; k < views; k++)
        s->geom.angle[k] = 360.0 * (double)k / (double)views;
    CHECK(!vp_geom_views(&s->geom, &s->views, &s->scan, &err));
    CHECK(!vp_filter_open(&s->filter, &filter, &s->geom, s->views, &s->scan, 1, &err));
    if (offset_u != 0) {
        vp_filter_widen(s->filter, &s->geom);
        free(s->views);
        CHECK(!vp_geom_views(&s->geom, &s->views, &s->scan, &err));
    }
}

static void free_scene(struct scene *s)
{
    vp_filter_close(s->filter);
    vp_geom_free(&s->geom);
    free(s->views);
}

/* How a reconstruction is asked for. */
struct ask {
    const struct vp_kind *kind;
    int n_devices;
    uint64_t device_memory;
    enum vp_filter_on filter_on;
    bool any_order;
    int64_t z0, z1; /* 0, 0: all */
    int subsets;
    uint64_t memory; /* 0: much */
    const char *sinograms; /* read from there, not from the scan */
};

/* Plan and run; the volume (malloc'd) or NULL with the reason in err. */
static float *reconstruct(struct scene *s, const struct ask *a, struct vp_reconstruct *r, struct vp_err *err)
{
    static const int numbers[] = {0, 1, 2, 3, 4, 5, 6, 7};
    const char *const path = a->sinograms ? a->sinograms : scan_path;
    const struct vp_reader_options plain = {0};
    const struct vp_writer_options stream = {false, VP_COMPRESS_NONE};
    const int64_t z1 = a->z1 ? a->z1 : s->grid.n[2];
    struct vp_stack out = {NX, NY, z1 - a->z0, VP_F32, {0, NULL, NULL}};
    struct vp_reader *reader = NULL;
    struct vp_views *source = NULL;
    struct vp_writer *w = NULL;
    float *volume = NULL;

    if (vp_reader_open(&reader, &path, 1, &plain, err) || vp_views_open(&source, reader, a->sinograms, 0, err))
        goto out;
    *r = (struct vp_reconstruct){.source = source, .views = s->views, .n_views = s->geom.views, .last = s->geom.views,
                                 .in_nu = NU, .nu = s->geom.nu, .nv = NV, .filter = s->filter,
                                 .filter_on = a->filter_on, .grid = &s->grid, .z0 = a->z0, .z1 = z1,
                                 .memory = a->memory ? a->memory : 1 << 30, .device_memory = a->device_memory,
                                 .threads = 1, .any_order = a->any_order, .kind = a->kind, .devices = numbers,
                                 .n_devices = a->n_devices, .want_subsets = a->subsets};
    if (vp_reconstruct_plan(r, err) || vp_writer_open(&w, volume_path, &out, &stream, err))
        goto out;
    if (vp_reconstruct_run(r, w, err)) {
        vp_writer_abort(w);
        goto out;
    }
    if (vp_writer_close(w, err))
        goto out;
    vp_views_close(source);
    vp_reader_close(reader, NULL);
    source = NULL;
    reader = NULL;
    const char *const made = volume_path;
    if (vp_reader_open(&reader, &made, 1, &plain, err))
        goto out;
    volume = malloc((size_t)(NX * NY * (z1 - a->z0)) * sizeof *volume);
    for (int64_t z = 0; z < z1 - a->z0; z++)
        CHECK_INT(vp_reader_next_f32(reader, volume + z * NX * NY, NULL, err), 1);
out:
    vp_reconstruct_free(r);
    vp_views_close(source);
    vp_reader_close(reader, NULL);
    return volume;
}

static void check_same(struct scene *s, const struct ask *a, const float *want, struct vp_reconstruct *r)
{
    struct vp_err err = VP_ERR_INIT;
    const int64_t n = (a->z1 ? a->z1 : s->grid.n[2]) - a->z0;
    buffers.most = 0;
    float *got = reconstruct(s, a, r, &err);
    CHECK_STR(err.msg, "");
    CHECK(buffers.most + PROCESS <= r->memory && r->bytes <= r->memory);
    CHECK(got && !memcmp(got, want, (size_t)(NX * NY * n) * sizeof *got));
    CHECK_INT(pretend.opened, 0);
    CHECK_INT(buffers.n, 0);
    free(got);
}

/* The volume that all devices have to make. */
static float *by_cpu(struct scene *s)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_reconstruct r;
    float *volume = reconstruct(s, &(struct ask){.kind = &vp_cpu, .n_devices = 1}, &r, &err);
    CHECK_STR(err.msg, "");
    return volume;
}

/* A scan of 24 views, devices that can do everything, and the volume. */
static float *begin(struct scene *s, int64_t slices, uint64_t memory)
{
    write_scan(24);
    make_scene(s, 24, slices, 0);
    pretend.memory = memory;
    pretend.mirror = pretend.pairs = pretend.filters = true;
    return by_cpu(s);
}

/* ---- tests ---- */

static void same_bits_whatever_the_devices(void)
{
    static const int64_t slices[] = {1, 2, 7, 16, 33};
    const uint64_t plane = NX * NY * sizeof(float);
    for (int views = 24; views <= 25; views++) {
        write_scan(views);
        for (int i = 0; i < 5; i++) {
            struct scene s;
            struct vp_reconstruct r;
            make_scene(&s, views, slices[i], 0);
            float *want = by_cpu(&s);
            CHECK(want);
            for (int way = 0; way < 32; way++) {
                pretend.memory = 1 << 30;
                pretend.mirror = way & 1;
                pretend.pairs = way & 2 && views % 2 == 0;
                pretend.filters = true;
                struct ask a = {.kind = &devices, .n_devices = 1 + way % 5, .any_order = way & 4,
                                .filter_on = way & 8 ? VP_FILTER_ON_GPU : VP_FILTER_ON_CPU,
                                .device_memory = way & 16 ? 5 * plane : 0};
                check_same(&s, &a, want, &r);
                CHECK_INT(r.filter_device, (way & 8) != 0);
                CHECK(r.used <= a.n_devices && (r.passes == 1 || way & 16));
            }
            free(want);
            free_scene(&s);
        }
    }
}

static void slabs_of_the_plan(void)
{
    struct vp_err err = VP_ERR_INIT;
    const uint64_t plane = NX * NY * sizeof(float);
    struct vp_reconstruct r;
    struct scene s;
    write_scan(24);
    make_scene(&s, 24, 32, 0);
    pretend.memory = 1 << 30;
    pretend.mirror = pretend.pairs = pretend.filters = true;
    struct ask a = {.kind = &devices, .n_devices = 3, .any_order = true};
    free(reconstruct(&s, &a, &r, &err)); /* 16 slices of a half in steps of 4: two devices of 8 or three of 8, 8, 0 */
    CHECK_INT(r.passes, 1);
    CHECK_INT(r.used, 2);
    CHECK_INT(r.slab, 8);
    CHECK(r.mirrored);
    a.n_devices = 1;
    free(reconstruct(&s, &a, &r, &err));
    CHECK(!r.mirrored && r.slab == 32 && r.passes == 1);
    a.device_memory = 10 * plane; /* 4 pairs of slices are the most, in steps of 4 */
    free(reconstruct(&s, &a, &r, &err));
    CHECK(r.mirrored && r.slab == 4 && r.passes == 4);
    a.device_memory = plane; /* room for a slice, but for no pair */
    free(reconstruct(&s, &a, &r, &err));
    CHECK(!r.mirrored && r.slab == 1 && r.passes == 32);
    a.device_memory = 10 * plane;
    a.any_order = false; /* to a pipe: slices in order, so 8 of them */
    free(reconstruct(&s, &a, &r, &err));
    CHECK(!r.mirrored && r.slab == 8 && r.passes == 4);
    a.z0 = 3;
    a.z1 = 20;
    a.device_memory = 0;
    a.n_devices = 4;
    free(reconstruct(&s, &a, &r, &err));
    CHECK(!r.mirrored && r.passes == 1 && r.slab * r.used >= 17);
    CHECK_STR(err.msg, "");
    free_scene(&s);
}

static void memory_that_goes_away(void)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_reconstruct r;
    struct scene s;
    struct ask a;
    float *want = begin(&s, 16, 1 << 30);
    a = (struct ask){.kind = &devices, .n_devices = 2, .any_order = true};
    int found = 0;
    pretend.lost = 1; /* planned again */
    check_same(&s, &a, want, &r);
    for (int good = 1; good < 8; good++) { /* in a later pass, or on the second device */
        struct ask small = a;
        small.device_memory = NX * NY * sizeof(float) * (good % 2 ? 2 : 4);
        small.any_order = good % 3;
        pretend.lost = 1;
        pretend.good = good;
        check_same(&s, &small, want, &r);
        found += pretend.lost == 0;
        pretend.lost = 0;
    }
    CHECK(found >= 3);
    pretend.good = 0;
    pretend.lost = 100;
    CHECK(!reconstruct(&s, &a, &r, &err));
    CHECK_INT(err.code, VP_ERESOURCE);
    CHECK_INT(pretend.opened, 0);
    pretend.lost = 0;
    err = (struct vp_err)VP_ERR_INIT;
    a.device_memory = NX * NY; /* a quarter of a slice */
    CHECK(!reconstruct(&s, &a, &r, &err));
    CHECK_INT(err.code, VP_ERESOURCE);
    CHECK(strstr(err.msg, "the device has"));
    free(want);
    free_scene(&s);
}

/* Slabs of a later pass that are planned anew: what is read into and copied from is large enough for the passes after
 * that one, and all of it within the memory. */
static void memory_that_goes_away_later(void)
{
    struct vp_reconstruct r;
    struct scene s;
    int found = 0;
    float *want = begin(&s, 12, 1 << 30);
    for (int way = 0; way < 48; way++) {
        struct ask a = {.kind = &devices, .n_devices = 1 + way % 2, .any_order = way & 4, .z0 = way & 8 ? 6 : 0,
                        .z1 = 12, .device_memory = (uint64_t)(1 + way / 16) * NX * NY * sizeof(float),
                        .memory = PROCESS + 65536 * (1 + (uint64_t)way % 7)};
        pretend.good = 1 + way % 5;
        pretend.lost = 1;
        check_same(&s, &a, want + a.z0 * NX * NY, &r);
        found += pretend.lost == 0;
        pretend.lost = 0;
    }
    CHECK(found >= 24);
    free(want);
    free_scene(&s);
    /* slices that wait for the writer keep their memory, though thinner slabs alone would leave room for more views */
    write_scan(400);
    make_scene(&s, 400, 320, 0);
    want = by_cpu(&s);
    for (uint64_t kib = 550; kib < 750; kib += 100) {
        struct ask a = {.kind = &devices, .n_devices = 1, .memory = PROCESS + (kib << 10)};
        pretend.memory = 200 * NX * NY * sizeof(float);
        pretend.after = 5 * NX * NY * sizeof(float);
        pretend.good = 1;
        pretend.lost = 1;
        check_same(&s, &a, want, &r);
        CHECK(!pretend.lost && r.passes > 10);
    }
    pretend.after = 0;
    free(want);
    free_scene(&s);
}

/* A slab of a later pass that sees more rows, and takes more than the device may use: a thinner one. */
static void slabs_that_take_more(void)
{
    struct vp_reconstruct r;
    struct scene s;
    pretend.row = 1000;
    float *want = begin(&s, 12, 1 << 30);
    for (uint64_t bytes = 7000; bytes < 15000; bytes += 500) {
        struct ask a = {.kind = &devices, .n_devices = 1, .z0 = 6, .z1 = 12, .device_memory = bytes};
        check_same(&s, &a, want + a.z0 * NX * NY, &r);
    }
    pretend.row = 0;
    free(want);
    free_scene(&s);
}

/* Into a pipe: the second half when a device was found to have lost its memory. Not NULL if all went well. */
static void *feed(void *fd)
{
    char bytes[1 << 16];
    const int to = *(int *)fd;
    FILE *f = fopen(scan_path, "rb");
    const size_t n = f ? fread(bytes, 1, sizeof bytes, f) : 0;
    bool good = n > 0 && n < sizeof bytes && !fclose(f) && write(to, bytes, n / 2) == (ssize_t)(n / 2);
    for (int i = 0; pretend.lost && i < 5000; i++)
        usleep(1000);
    usleep(20000);
    good = good && write(to, bytes + n / 2, n - n / 2) == (ssize_t)(n - n / 2);
    close(to);
    return good ? fd : NULL;
}

/* Sinograms from a pipe are held, and read while the devices allocate: to plan anew must not lose them. */
static void memory_that_goes_away_while_a_pipe_is_read(void)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_reconstruct r;
    struct scene s;
    pthread_t feeder;
    char path[32];
    int fd[2];
    write_pages(NU, 24, NV);
    make_scene(&s, 24, 12, 0);
    pretend.memory = 1 << 30;
    pretend.mirror = pretend.pairs = pretend.filters = true;
    struct ask a = {.kind = &vp_cpu, .n_devices = 1, .sinograms = scan_path};
    float *want = reconstruct(&s, &a, &r, &err);
    CHECK(want && !pipe2(fd, O_CLOEXEC));
    snprintf(path, sizeof path, "/dev/fd/%d", fd[0]);
    a = (struct ask){.kind = &devices, .n_devices = 1, .sinograms = path};
    pretend.good = 0;
    pretend.lost = 1;
    pretend.slow = 20; /* the reader is at work by then */
    CHECK(!pthread_create(&feeder, NULL, feed, &fd[1]));
    check_same(&s, &a, want, &r);
    void *fed = NULL;
    CHECK(!pthread_join(feeder, &fed) && fed);
    close(fd[0]);
    pretend.slow = 0;
    free(want);
    free_scene(&s);
}

/* The views of the scan that was written. */
static struct vp_views *open_scan(struct vp_reader **reader)
{
    const char *const path = scan_path;
    const struct vp_reader_options plain = {0};
    struct vp_err err = VP_ERR_INIT;
    struct vp_views *views = NULL;
    CHECK(!vp_reader_open(reader, &path, 1, &plain, &err) && !vp_views_open(&views, *reader, false, 0, &err));
    return views;
}

/* On the CPU, whose slab in the middle of the volume takes more than the first: what is enough memory stays enough. */
static void more_memory_is_never_too_little(void)
{
    static const int numbers[] = {0};
    struct vp_reader *reader = NULL;
    struct scene s;
    int64_t passes = 0;
    write_scan(24);
    make_scene(&s, 24, 200, 0);
    s.grid.n[0] = s.grid.n[1] = 200;
    s.grid.voxel[0] = s.grid.voxel[1] = s.grid.voxel[2] = 0.06;
    struct vp_views *const source = open_scan(&reader);
    for (uint64_t mib = 8; mib < 80; mib++) {
        struct vp_reconstruct r = {.source = source, .views = s.views, .n_views = 24, .last = 24, .in_nu = NU, .nu = NU,
                                   .nv = NV, .grid = &s.grid, .z1 = 200, .memory = mib << 20, .threads = 2,
                                   .kind = &vp_cpu, .devices = numbers, .n_devices = 1};
        struct vp_err why = VP_ERR_INIT;
        if (!vp_reconstruct_plan(&r, &why)) {
            CHECK(!passes || r.passes <= passes);
            passes = r.passes;
        } else {
            CHECK_INT(passes, 0);
        }
        vp_reconstruct_free(&r);
    }
    CHECK_INT(passes, 1);
    vp_views_close(source);
    vp_reader_close(reader, NULL);
    free_scene(&s);
}

/* Relative L2 of the difference. */
static double apart(const float *a, const float *b, int64_t n)
{
    double d = 0, sum = 0;
    for (int64_t i = 0; i < n; i++) {
        d += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        sum += (double)b[i] * b[i];
    }
    return sqrt(d / sum);
}

/* Subsets of the views, whose volumes are added: the same bits for one number of subsets, whatever the slabs, and close
 * to those of all views together. */
static void subsets_of_views(void)
{
    static const int64_t slices[] = {1, 7, 16};
    pretend.memory = 1 << 30;
    pretend.mirror = pretend.filters = true;
    for (int views = 24; views <= 25; views++) {
        write_scan(views);
        pretend.pairs = views == 24;
        for (int i = 0; i < 3; i++) {
            struct vp_err err = VP_ERR_INIT;
            struct vp_reconstruct r;
            struct scene s;
            const int64_t n = NX * NY * slices[i];
            make_scene(&s, views, slices[i], 0);
            float *all = by_cpu(&s);
            for (int subsets = 2; subsets <= 4; subsets++) {
                struct ask a = {.kind = &devices, .n_devices = subsets, .any_order = true, .subsets = subsets,
                                .filter_on = VP_FILTER_ON_GPU};
                float *want = reconstruct(&s, &a, &r, &err);
                CHECK_STR(err.msg, "");
                CHECK_INT(r.subsets, subsets);
                CHECK_INT(r.used, subsets);
                CHECK(want && apart(want, all, n) < 3e-7 && memcmp(want, all, (size_t)n * sizeof *want));
                for (a.n_devices = subsets; a.n_devices <= 8; a.n_devices += 2) {
                    a.any_order = a.n_devices % 4;
                    a.device_memory = a.n_devices % 3 ? 0 : 3 * NX * NY * sizeof(float);
                    check_same(&s, &a, want, &r);
                    CHECK(r.used % subsets == 0 && (r.passes == 1 || a.device_memory));
                }
                free(want);
            }
            free(all);
            free_scene(&s);
        }
    }
}

static void subsets_only_where_they_pay(void)
{
    static const int numbers[] = {0, 1, 2, 3};
    struct vp_err err = VP_ERR_INIT;
    struct vp_reader *reader = NULL;
    struct scene s;
    write_scan(24);
    make_scene(&s, 24, 1, 0);
    pretend.memory = 1 << 30;
    pretend.mirror = pretend.filters = pretend.pairs = true;
    struct vp_views *const source = open_scan(&reader);
    for (int slow = 0; slow < 2; slow++)
        for (int64_t slices = 1; slices <= 64; slices *= 64) {
            for (int i = 0; i < 4; i++)
                pretend.speed[i] = slow ? 0.1 : 0;
            s.grid.n[0] = s.grid.n[1] = slices == 1 ? 16384 : 2048;
            s.grid.n[2] = slices;
            struct vp_reconstruct r = {.source = source, .views = s.views, .n_views = 24, .last = 24, .in_nu = NU,
                                       .nu = NU, .nv = NV, .grid = &s.grid, .z1 = slices, .memory = (uint64_t)1 << 36,
                                       .threads = 1, .kind = &devices, .devices = numbers, .n_devices = 4};
            CHECK(!vp_reconstruct_plan(&r, &err));
            CHECK_STR(err.msg, "");
            /* one slice is too thin to be cut; 64 give every device a slab; and what is done at once needs nothing */
            CHECK_INT(r.subsets, slow && slices == 1 ? 4 : 1);
            CHECK_INT(r.used, slices == 1 && !slow ? 1 : 4);
            vp_reconstruct_free(&r);
            r.last = 3; /* too few views */
            CHECK(!vp_reconstruct_plan(&r, &err));
            CHECK_INT(r.subsets, 1);
            vp_reconstruct_free(&r);
        }
    struct vp_reconstruct r;
    struct ask a = {.kind = &devices, .n_devices = 2, .subsets = 3};
    free_scene(&s);
    make_scene(&s, 24, 1, 0);
    CHECK(!reconstruct(&s, &a, &r, &err));
    CHECK_INT(err.code, VP_ERESOURCE);
    CHECK_STR(err.msg, "3 subsets of the views need as many GPUs, there are 2");
    memset(pretend.speed, 0, sizeof pretend.speed);
    vp_views_close(source);
    vp_reader_close(reader, NULL);
    free_scene(&s);
}

static void shares(void)
{
    struct vp_crew even[4] = {{.speed = 2, .most = 100}, {.speed = 2, .most = 100}, {.speed = 2, .most = 100},
                              {.speed = 2, .most = 100}};
    CHECK_INT(vp_reconstruct_share(even, 4, 100, 8), 0); /* 13 units */
    CHECK(even[0].depth == 32 && even[1].depth == 32 && even[2].depth == 32 && even[3].depth == 8);
    CHECK_INT(vp_reconstruct_share(even, 4, 5, 8), 0);
    CHECK(even[0].depth == 8 && even[1].depth == 0 && even[3].depth == 0);
    struct vp_crew odd[3] = {{.speed = 1, .most = 1000}, {.speed = 3, .most = 1000}, {.speed = 2, .most = 1000}};
    CHECK_INT(vp_reconstruct_share(odd, 3, 96, 16), 0);
    CHECK(odd[0].depth == 16 && odd[1].depth == 48 && odd[2].depth == 32);
    odd[1].most = 20;
    CHECK_INT(vp_reconstruct_share(odd, 3, 96, 16), 0);
    CHECK(odd[0].depth == 32 && odd[1].depth == 16 && odd[2].depth == 48);
    odd[0].most = odd[2].most = 20;
    CHECK_INT(vp_reconstruct_share(odd, 3, 96, 16), 3);
    CHECK(odd[0].depth == 16 && odd[1].depth == 16 && odd[2].depth == 16);
    odd[0].most = 0;
    CHECK_INT(vp_reconstruct_share(odd, 3, 16, 16), 0);
    CHECK(odd[0].depth == 0 && odd[1].depth + odd[2].depth == 16);
    /* against every way to cut: none is done earlier */
    for (int k = 0; k < 500; k++) {
        struct vp_crew c[3];
        const int64_t slices = 1 + k * 7 % 41, unit = 1 + k % 3;
        int64_t room = 0;
        for (int i = 0; i < 3; i++) {
            c[i] = (struct vp_crew){.speed = 1 + (k * 5 + i * 11) % 7, .most = (k * 13 + i * 17) % 40};
            room += c[i].most >= slices ? (slices + unit - 1) / unit : c[i].most / unit;
        }
        const int64_t steps = (slices + unit - 1) / unit, left = vp_reconstruct_share(c, 3, slices, unit);
        CHECK_INT(left, steps > room ? steps - room : 0);
        double time = 0, best = 1e9;
        for (int i = 0; i < 3; i++) {
            CHECK(c[i].depth % unit == 0 && (c[i].depth <= c[i].most || c[i].most >= slices));
            time = fmax(time, (double)(c[i].depth / unit) / c[i].speed);
        }
        for (int64_t a = 0; a <= steps; a++)
            for (int64_t b = 0; a + b <= steps; b++) {
                const int64_t n[3] = {a, b, steps - left - a - b};
                double t = n[2] < 0 ? 1e9 : 0;
                for (int i = 0; i < 3; i++) {
                    const int64_t most = c[i].most >= slices ? steps : c[i].most / unit;
                    t = n[i] > most ? 1e9 : fmax(t, (double)n[i] / c[i].speed);
                }
                best = fmin(best, t);
            }
        CHECK_NEAR(time, best, 1e-9);
    }
}

static void unequal_devices(void)
{
    const uint64_t plane = NX * NY * sizeof(float);
    struct vp_reconstruct r;
    struct scene s;
    struct ask a;
    float *want = begin(&s, 32, 1 << 20);
    for (int way = 0; way < 64; way++) {
        for (int i = 0; i < 3; i++) {
            pretend.speed[i] = 1 + way * (i + 1) % 5;
            pretend.rate[i] = way & 16 ? 1 + way * (i + 2) % 7 : 0;
            pretend.less[i] = way & 8 ? pretend.memory - (uint64_t)(4 + (way * (i + 2)) % 13) * plane : 0;
        }
        a = (struct ask){.kind = &devices, .n_devices = 3, .any_order = way & 1};
        check_same(&s, &a, want, &r);
    }
    memset(pretend.speed, 0, sizeof pretend.speed);
    memset(pretend.rate, 0, sizeof pretend.rate);
    /* one has little memory left: from a pipe too, the others make up for it */
    memset(pretend.less, 0, sizeof pretend.less);
    pretend.less[1] = pretend.memory - 5 * plane;
    check_same(&s, &a, want, &r);
    CHECK_INT(r.passes, 1);
    memset(pretend.less, 0, sizeof pretend.less);
    free(want);
    free_scene(&s);
}

/* Devices that are not what they say: the second pass of two is shared out by what they did in the first. */
static void shares_of_what_was_measured(void)
{
    const uint64_t plane = NX * NY * sizeof(float);
    struct vp_reconstruct r;
    struct scene s;
    write_scan(24);
    make_scene(&s, 24, 40, 0);
    pretend.memory = 12 * plane;
    pretend.mirror = pretend.pairs = false;
    pretend.filters = true;
    struct ask a;
    float *want = by_cpu(&s);
    for (int fast = -1; fast < 3; fast++) {
        for (int i = 0; i < 3; i++) {
            pretend.rate[i] = fast < 0 ? 0 : i == fast ? 9 : 3;
            pretend.made[i] = 0;
        }
        a = (struct ask){.kind = &devices, .n_devices = 3};
        check_same(&s, &a, want, &r);
        CHECK_INT(r.passes, 2);
        /* 8, 8 and 4; then the same, or 12 for the fast one and 4 for the others */
        for (int i = 0; i < 3; i++)
            CHECK_INT(pretend.made[i], (i < 2 ? 8 : 4) + (fast < 0 ? (i < 2 ? 8 : 4) : i == fast ? 12 : 4));
    }
    memset(pretend.rate, 0, sizeof pretend.rate);
    free(want);
    free_scene(&s);
}

/* A device that fails in the middle: one error, everything closed, nobody left waiting. */
static void device_that_breaks(void)
{
    struct vp_reconstruct r;
    struct scene s;
    write_scan(240);
    make_scene(&s, 240, 16, 0);
    pretend.memory = 1 << 30;
    pretend.mirror = pretend.pairs = pretend.filters = true;
    for (int n = 1; n < 60; n += 1 + n / 4) {
        struct vp_err err = VP_ERR_INIT;
        struct ask a = {.kind = &devices, .n_devices = 1 + n % 3, .any_order = true,
                        .device_memory = n % 2 ? 0 : 6 * NX * NY * sizeof(float)};
        a.subsets = n % 5 == 0 && a.n_devices > 1 ? 2 : 0;
        pretend.breaks = n % 4 ? n : 0;
        pretend.tears = n % 4 ? 0 : 1 + n % 3;
        CHECK(!reconstruct(&s, &a, &r, &err));
        CHECK_STR(err.msg, "the device failed: it fell off the bus");
        CHECK_INT(err.code, VP_ERUN);
        CHECK_INT(pretend.opened, 0);
    }
    pretend.breaks = pretend.tears = 0;
    free_scene(&s);
}

static void rows_that_a_device_cannot_filter(void)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_reconstruct r;
    struct scene s;
    write_scan(24);
    pretend.memory = 1 << 30;
    pretend.mirror = pretend.pairs = true;
    make_scene(&s, 24, 16, 6); /* wider when filtered */
    struct ask a;
    float *want = by_cpu(&s);
    for (int filters = 0; filters < 2; filters++) {
        pretend.filters = filters;
        a = (struct ask){.kind = &devices, .n_devices = 2, .filter_on = VP_FILTER_ON_AUTO};
        check_same(&s, &a, want, &r);
        CHECK_INT(r.filter_device, filters);
    }
    pretend.filters = false;
    a.filter_on = VP_FILTER_ON_GPU;
    CHECK(!reconstruct(&s, &a, &r, &err));
    CHECK_STR(err.msg, "rows are too long");
    free(want);
    free_scene(&s);
}

int main(void)
{
    if (!mkdtemp(dir))
        return 1;
    snprintf(scan_path, sizeof scan_path, "%s/scan.tif", dir);
    snprintf(volume_path, sizeof volume_path, "%s/volume.tif", dir);
    same_bits_whatever_the_devices();
    slabs_of_the_plan();
    memory_that_goes_away();
    memory_that_goes_away_later();
    memory_that_goes_away_while_a_pipe_is_read();
    slabs_that_take_more();
    more_memory_is_never_too_little();
    rows_that_a_device_cannot_filter();
    shares();
    unequal_devices();
    shares_of_what_was_measured();
    subsets_of_views();
    subsets_only_where_they_pay();
    device_that_breaks();
    unlink(scan_path);
    unlink(volume_path);
    rmdir(dir);
    return test_done();
}
