/* SPDX-License-Identifier: BSD-3-Clause */
/* The stages of a reconstruction with pretended devices: how slabs, mirrored slabs, passes and devices are planned,
 * that a slot is not used again before a device has copied it, and that the volume is that of the CPU to the bit. A
 * pretended device keeps the views that it is given and back-projects them on the CPU in the end. */
#include "test.h"

#include "backend.h"
#include "base/err.h"
#include "base/size.h"
#include "ops/backproject.h"
#include "ops/reconstruct.h"
#include "stack/reader.h"

#include <stdlib.h>
#include <unistd.h>

/* What the devices are like. */
static struct {
    uint64_t memory;
    bool mirror, pairs, filters;
    int lost;    /* that many bp_open find no memory */
    int opened;  /* at the same time, now and at most */
    int most;
} pretend;

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

static int bp_plan(const struct vp_bp_job *j, struct vp_bp_plan *p, struct vp_err *err)
{
    memset(p, 0, sizeof *p);
    if (j->filter && !pretend.filters)
        return vp_fail(err, VP_ERUN, "rows are too long");
    p->device = (uint64_t)(j->grid->n[0] * j->grid->n[1] * (j->z1 - j->z0)) * sizeof(float) * (j->mirrored ? 2 : 1);
    p->room = j->device_memory ? j->device_memory : pretend.memory;
    p->z_step = 4;
    p->mirror = pretend.mirror;
    p->partner = pretend.pairs && j->first == 0 && j->last == j->n_views ? j->n_views / 2 : 0;
    p->together = TOGETHER;
    rows_of(j, &p->v0, &p->v1);
    return 0;
}

static int bp_open(void **out, const struct vp_bp_job *j, struct vp_err *err)
{
    struct device_bp *b = NULL;
    int rc = 0;
    *out = NULL;
#pragma omp critical(pretend)
    {
        if (pretend.lost > 0) {
            pretend.lost--;
            rc = vp_fail(err, VP_ERESOURCE, "memory is gone");
        } else {
            pretend.opened++;
            pretend.most = pretend.opened > pretend.most ? pretend.opened : pretend.most;
        }
    }
    if (rc)
        return rc;
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

/* Nothing is copied before it must be. */
static int bp_add(void *bp, int64_t first, int64_t n, int64_t v0, int64_t v1, const float *proj, uint64_t *ticket,
                  struct vp_err *err)
{
    struct device_bp *b = bp;
    (void)err;
    CHECK(v0 <= b->v0 && v1 >= b->v1 && b->added < 256);
    if (pretend.pairs && b->job.first == 0 && b->job.last == b->job.n_views && b->job.any_order) {
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
        for (int64_t k = b->job.first; b->half[half] && k < b->job.last; k++) {
            CHECK(b->have[k]);
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
    (void)err;
    for (int64_t i = 0; i < n; i++)
        vp_backproject_slice(b->half[z + i >= b->job.z1], z + i, out + i * b->job.grid->n[0] * b->job.grid->n[1]);
    return 0;
}

static void bp_stats(void *bp, struct vp_bp_stats *stats)
{
    (void)bp;
    memset(stats, 0, sizeof *stats);
}

static void bp_close(void *bp)
{
    struct device_bp *b = bp;
    pretend.opened--;
    vp_backproject_close(b->half[0]);
    vp_backproject_close(b->half[1]);
    free(b->views);
    free(b->have);
    free(b);
}

static int device_info(int device, struct vp_device *info, struct vp_err *err)
{
    (void)err;
    snprintf(info->name, sizeof info->name, "pretended device %d", device);
    info->free = info->total = pretend.memory;
    return 0;
}

static void *host_alloc(size_t bytes)
{
    return malloc(bytes);
}

static const struct vp_backend devices = {
    .abi = VP_BACKEND_ABI,
    .name = "pretended",
    .device = device_info,
    .bp_plan = bp_plan,
    .bp_open = bp_open,
    .bp_add = bp_add,
    .bp_wait = bp_wait,
    .bp_flush = bp_flush,
    .bp_slices = bp_slices,
    .bp_stats = bp_stats,
    .bp_close = bp_close,
    .host_alloc = host_alloc,
    .host_free = free,
};

/* ---- scans ---- */

enum { NU = 20, NV = 16, NX = 12, NY = 10 };
static char dir[] = "/tmp/voxpipe-reconstruct-XXXXXX";
static char scan_path[64], volume_path[64];

static void write_scan(int64_t views)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_stack s = {NU, NV, views, VP_F32, {0, NULL, NULL}};
    const struct vp_writer_options plain = {false, VP_COMPRESS_NONE};
    struct vp_writer *w;
    float page[NU * NV];
    uint32_t state = 1;
    CHECK(!vp_writer_open(&w, scan_path, &s, &plain, &err));
    for (int64_t k = 0; k < views; k++) {
        for (int i = 0; i < NU * NV; i++) {
            state = state * 1664525u + 1013904223u;
            page[i] = (float)(state >> 8) / 16777216.0f;
        }
        CHECK(!vp_writer_page(w, page, &err));
    }
    CHECK(!vp_writer_close(w, &err));
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
    *s = (struct scene){.geom = {.beam = VP_CONE, .sod = 100, .sdd = 150, .nu = NU, .nv = NV, .du = 1.5, .dv = 1.5,
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
    const struct vp_backend *backend;
    int n_devices;
    uint64_t device_memory;
    enum vp_filter_on filter_on;
    bool any_order;
    int64_t z0, z1; /* 0, 0: all */
};

/* Plan and run; the volume (malloc'd) or NULL with the reason in err. */
static float *reconstruct(struct scene *s, const struct ask *a, struct vp_reconstruct *r, struct vp_err *err)
{
    static const int numbers[] = {0, 1, 2, 3, 4, 5, 6, 7};
    const char *const path = scan_path;
    const struct vp_reader_options plain = {NULL, false};
    const struct vp_writer_options stream = {false, VP_COMPRESS_NONE};
    const int64_t z1 = a->z1 ? a->z1 : s->grid.n[2];
    struct vp_stack out = {NX, NY, z1 - a->z0, VP_F32, {0, NULL, NULL}};
    struct vp_reader *reader = NULL;
    struct vp_views *source = NULL;
    struct vp_writer *w = NULL;
    float *volume = NULL;

    if (vp_reader_open(&reader, &path, 1, &plain, err) || vp_views_open(&source, reader, false, 0, err))
        goto out;
    *r = (struct vp_reconstruct){.source = source, .views = s->views, .n_views = s->geom.views, .last = s->geom.views,
                                 .in_nu = NU, .nu = s->geom.nu, .nv = NV, .filter = s->filter,
                                 .filter_on = a->filter_on, .grid = &s->grid, .z0 = a->z0, .z1 = z1,
                                 .memory = 1 << 30, .device_memory = a->device_memory, .threads = 1,
                                 .any_order = a->any_order, .backend = a->backend, .devices = numbers,
                                 .n_devices = a->n_devices};
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
    vp_views_close(source);
    vp_reader_close(reader, NULL);
    return volume;
}

static void check_same(struct scene *s, const struct ask *a, const float *want, struct vp_reconstruct *r)
{
    struct vp_err err = VP_ERR_INIT;
    const int64_t n = (a->z1 ? a->z1 : s->grid.n[2]) - a->z0;
    float *got = reconstruct(s, a, r, &err);
    CHECK_STR(err.msg, "");
    CHECK(got && !memcmp(got, want, (size_t)(NX * NY * n) * sizeof *got));
    CHECK_INT(pretend.opened, 0);
    free(got);
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
            struct vp_err err = VP_ERR_INIT;
            struct vp_reconstruct r;
            make_scene(&s, views, slices[i], 0);
            float *want = reconstruct(&s, &(struct ask){.backend = &vp_backend_cpu, .n_devices = 1}, &r, &err);
            CHECK(want);
            for (int way = 0; way < 32; way++) {
                pretend.memory = 1 << 30;
                pretend.mirror = way & 1;
                pretend.pairs = way & 2 && views % 2 == 0;
                pretend.filters = true;
                struct ask a = {.backend = &devices, .n_devices = 1 + way % 5, .any_order = way & 4,
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
    struct ask a = {.backend = &devices, .n_devices = 3, .any_order = true};
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
    write_scan(24);
    make_scene(&s, 24, 16, 0);
    pretend.memory = 1 << 30;
    pretend.mirror = pretend.pairs = pretend.filters = true;
    struct ask a = {.backend = &vp_backend_cpu, .n_devices = 1};
    float *want = reconstruct(&s, &a, &r, &err);
    a = (struct ask){.backend = &devices, .n_devices = 2, .any_order = true};
    pretend.lost = 1; /* planned again */
    check_same(&s, &a, want, &r);
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

static void rows_that_a_device_cannot_filter(void)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_reconstruct r;
    struct scene s;
    write_scan(24);
    pretend.memory = 1 << 30;
    pretend.mirror = pretend.pairs = true;
    make_scene(&s, 24, 16, 6); /* wider when filtered */
    struct ask a = {.backend = &vp_backend_cpu, .n_devices = 1};
    float *want = reconstruct(&s, &a, &r, &err);
    for (int filters = 0; filters < 2; filters++) {
        pretend.filters = filters;
        a = (struct ask){.backend = &devices, .n_devices = 2, .filter_on = VP_FILTER_ON_AUTO};
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
    rows_that_a_device_cannot_filter();
    unlink(scan_path);
    unlink(volume_path);
    rmdir(dir);
    return test_done();
}
