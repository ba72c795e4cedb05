/* SPDX-License-Identifier: BSD-3-Clause */
/* The matched pair on the devices that $VOXPIPE_DEVICES names as --device does ("cuda"), against that of the CPU: values
 * within 2e-6, the transpose exact, the same bits each time. Without devices: the CPU has no such kernels. */
#include "test.h"
#include "geometry.h"
#include "ct/pair.h"
#include "ct/pair_device.h"
#include "device/device.h"

struct scan { const char *text; int64_t n[3]; double voxel[3]; bool refused, mirrored, turned; };

#define CONE "beam = cone\nsod = 100\nsdd = 150\n"
static const struct scan SCANS[] = {
    {CONE "detector = 40x36\npitch = 1.5\nviews = 19\n", {24, 21, 30}, {1, 1, 1}, false, false, false},
    {CONE "detector = 30x260\npitch = 1.5\noffset-u = 6.3\noffset-v = -2.7\nviews = 5\n", {33, 18, 140}, {1, 1.1, 1.2}, false, false, false},
    {CONE "detector = 30x24\npitch = -1.3,-1.7\nviews = 8\n", {20, 18, 20}, {1, 1, 1}, false, false, false},
    {CONE "detector = 24x20\npitch = 2.6\nviews = 7\n", {24, 21, 30}, {1, 1, 1}, false, false, false},
    {CONE "detector = 60x50\npitch = 0.7\nviews = 7\n", {24, 21, 30}, {1, 1, 1}, false, false, false},
    {"beam = parallel\ndetector = 30x24\npitch = 0.9\nviews = 8\n", {22, 20, 23}, {1, 1, 1}, false, false, false},
    {"beam = parallel\ndetector = 30x24\npitch = 0.9\nviews = 8\n", {22, 20, 23}, {1, 1, 1}, false, true, false},
    {CONE "detector = 40x36\npitch = 1.5\nviews = 75\n", {24, 21, 30}, {1, 1, 1}, false, true, false},
    {CONE "detector = 40x35\npitch = 2.6\nviews = 9\n", {16, 15, 21}, {1, 1, 1}, false, true, false},
    {CONE "detector = 40x36\npitch = 2.6\nviews = 8\n", {16, 15, 20}, {1, 1, 1}, false, false, false},
    {CONE "detector = 60x50\npitch = 0.75\nviews = 7\n", {24, 21, 30}, {1, 1, 1}, false, true, false},
    {CONE "detector = 60x50\npitch = 0.75\nviews = 7\n", {24, 21, 30}, {1, 1, 1}, false, false, false},
    {CONE "detector = 30x260\npitch = 1.5\noffset-u = 6.3\nviews = 40\n", {70, 18, 140}, {1, 1.1, 1.2}, false, true, false},
    {CONE "detector = 40x36\npitch = 1.5\noffset-v = 27\nviews = 6\n", {24, 21, 30}, {1, 1, 1}, false, false, false}, /* few rows */
    {CONE "detector = 40x36\npitch = 2.6\noffset-v = 3.1\nviews = 6\n", {16, 15, 20}, {1, 1, 1}, false, false, false}, /* high boxes */
    /* opposite views in one slot, the last ones alone */
    {CONE "detector = 41x36\npitch = 1.5\nviews = 20\n", {24, 21, 30}, {1, 1, 1}, false, true, true},
    {CONE "detector = 30x24\npitch = 1.4,-1.6\noffset-u = 3.3\noffset-v = 2\nviews = 18\n", {21, 20, 20}, {1, 1, 1.05}, false, false, true},
    {CONE "detector = 40x36\npitch = 2.6\nviews = 160\n", {17, 16, 20}, {1, 1, 1}, false, true, true},
    {CONE "detector = 60x50\npitch = 0.75\nviews = 8\n", {24, 21, 30}, {1, 1, 1}, false, true, true},
    {"beam = parallel\ndetector = 30x24\npitch = 0.9\nviews = 8\narc = 360\n", {22, 20, 23}, {1, 1, 1}, false, true, true},
    /* any matrices, and fans */
    {CONE "detector = 30x26\npitch = 1.5\ntilt = 4\nviews = 3\n", {14, 15, 16}, {1, 1, 1}, false, false, false},
    {CONE "detector = 30x26\npitch = 1.5,-1.2\ntilt = 44\nviews = 3\n", {14, 15, 16}, {1, 1, 0.8}, false, false, false},
    {CONE "detector = 40x40\npitch = 1.5\nlamino = 50\nviews = 5\n", {16, 16, 7}, {1, 1, 1}, false, false, false},
    {CONE "detector = 40x40\npitch = 1.5\nlamino = 80\nviews = 3\n", {40, 39, 4}, {1, 1, 1}, false, false, false},
    {CONE "detector = 30x26\npitch = 0.1\nviews = 3\n", {14, 15, 16}, {1, 1, 1}, false, false, false},
    {CONE "detector = 9x8\npitch = 5\nviews = 3\n", {44, 45, 46}, {0.7, 0.7, 0.7}, false, false, false},
    {CONE "detector = 30x26\npitch = 1.5\nviews = 4\n", {40, 30, 10}, {8, 8, 2}, false, false, false},
    {CONE "detector = 400x1\npitch = 0.2\nviews = 11\n", {30, 31, 1}, {1, 1, 1}, false, false, false},
    {"beam = parallel\ndetector = 60x1\npitch = 1\nviews = 9\n", {30, 31, 1}, {1, 1, 1}, false, false, false},
    {"beam = parallel\ndetector = 30x24\npitch = 0.9\ntilt = 3\nviews = 4\n", {12, 10, 13}, {1, 1, 1}, false, false, false},
};

static unsigned seed = 5;

static float *random_floats(int64_t n)
{
    float *x = malloc((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 8) * 0x1p-24f;
    }
    return x;
}

static double error_of(const float *got, const float *want, int64_t n)
{
    double e = 0, q = 0;
    for (int64_t i = 0; i < n; i++) {
        e += ((double)got[i] - (double)want[i]) * ((double)got[i] - (double)want[i]);
        q += (double)want[i] * (double)want[i];
    }
    return sqrt(e / q);
}

static double dot(const float *a, const float *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

static void compare(const struct scan *s, const struct vp_backend *backend, int device)
{
    struct vp_geom geom;
    struct vp_view *views;
    struct vp_scan kind;
    struct vp_err err = VP_ERR_INIT;
    struct vp_pair *cpu;
    struct vp_pair_device *gpu;
    const struct vp_grid grid = {.n = {s->n[0], s->n[1], s->n[2]}, .voxel = {s->voxel[0], s->voxel[1], s->voxel[2]},
                                 .center = {s->turned ? 0 : 0.7, s->turned ? 0 : -0.4, s->mirrored ? 0 : 0.3}};
    if (parse_geometry(&geom, s->text, strlen(s->text), "scan", &err) || vp_geom_views(&geom, &views, &kind, &err))
        CHECK_STR(err.msg, "");
    const struct vp_projections scan = {.views = views, .n_views = geom.views, .nu = geom.nu, .nv = geom.nv};
    const int64_t voxels = s->n[0] * s->n[1] * s->n[2], view = geom.nu * geom.nv, n = geom.views < 16 ? geom.views : 16;
    CHECK_INT(vp_pair_open(&cpu, &scan, &grid, 2, NULL, &err), 0);
    const int rc = vp_pair_device_open(&gpu, cpu, backend, device, &err);
    CHECK_INT(rc, s->refused ? -1 : 0);
    if (!rc) {
        float *x = random_floats(voxels), *y = random_floats(n * view), *Ax = random_floats(n * view);
        float *got = random_floats(n * view), *again = random_floats(n * view);
        float *back = calloc((size_t)voxels, sizeof *back), *sum = calloc((size_t)voxels, sizeof *sum);
        float *parts = calloc((size_t)voxels, sizeof *parts), *whole = calloc((size_t)voxels, sizeof *whole);
        int64_t list[VP_PAIR_VIEWS];
        for (int64_t i = 0; i < n; i++)
            list[i] = geom.views - 1 - i;
        vp_pair_forward(cpu, x, list, (int)n, Ax);
        vp_pair_adjoint(cpu, y, list, (int)n, 0, s->n[2], back);
        CHECK_INT(vp_pair_device_load(gpu, x, &err), 0);
        CHECK_INT(vp_pair_device_forward(gpu, list, (int)n, got, &err), 0);
        CHECK_INT(vp_pair_device_forward(gpu, list, 1, again, &err), 0);
        CHECK_INT(vp_pair_device_forward(gpu, list + 1, (int)n - 1, again + view, &err), 0);
        CHECK_INT(vp_pair_device_clear(gpu, &err), 0);
        CHECK_INT(vp_pair_device_adjoint(gpu, y, list, (int)n, &err), 0);
        CHECK_INT(vp_pair_device_add(gpu, 0, s->n[2], sum, &err), 0);
        const double e = error_of(got, Ax, n * view), f = error_of(sum, back, voxels);
        const double left = dot(got, y, n * view), right = dot(x, sum, voxels);
        if (e > 2e-6 || f > 2e-6 || fabs(left / right - 1) > 1e-7)
            printf("%s: forward %.2e, transpose %.2e, adjoint %.2e\n", s->text, e, f, left / right - 1);
        CHECK(e <= 2e-6);
        CHECK(f <= 2e-6);
        CHECK_NEAR(left / right, 1, 1e-7);
        CHECK(!memcmp(got, again, (size_t)(n * view) * sizeof *got));
        /* all views: their sum, whose bits do not depend on the calls */
        memset(back, 0, (size_t)voxels * sizeof *back);
        for (int64_t i = 0; i < geom.views; i += n) {
            const int64_t step = i + n < geom.views ? n : geom.views - i;
            for (int64_t k = 0; k < step; k++)
                list[k] = i + k;
            vp_pair_adjoint(cpu, y, list, (int)step, 0, s->n[2], back);
        }
        for (int split = 0; split < 2; split++) {
            CHECK_INT(vp_pair_device_clear(gpu, &err), 0);
            for (int64_t i = 0, step; i < geom.views; i += step) {
                step = n - i % n;
                step = split && step > 5 ? 5 : step;
                step = i + step < geom.views ? step : geom.views - i;
                for (int64_t k = 0; k < step; k++)
                    list[k] = i + k;
                CHECK_INT(vp_pair_device_adjoint(gpu, y + i % n * view, list, (int)step, &err), 0);
            }
            CHECK_INT(vp_pair_device_add(gpu, 0, s->n[2], split ? parts : whole, &err), 0);
        }
        CHECK(error_of(whole, back, voxels) <= 2e-6);
        CHECK(!memcmp(parts, whole, (size_t)voxels * sizeof *parts));
        CHECK_STR(err.msg, "");
        free(parts);
        free(whole);
        free(x);
        free(y);
        free(Ax);
        free(got);
        free(again);
        free(back);
        free(sum);
    }
    vp_pair_device_close(gpu);
    vp_pair_close(cpu);
    vp_geom_free(&geom);
    free(views);
}

/* Keeps the slices of a sum. */
struct kept { float *x; int64_t z0, page; };

static void keep(void *ctx, int64_t z, int64_t n, const float *sum)
{
    const struct kept *k = ctx;
    memcpy(k->x + (z - k->z0) * k->page, sum, (size_t)(n * k->page) * sizeof *sum);
}

/* A way of holding the volume: the number of devices, their memory (0: all that is free, 1: one slab, 2: two slabs), and
 * the views of which there is memory. */
struct way { int devices, memory, views; bool given; };

/* Runs the pair of a place, in blocks, and keeps the projections and the transpose. A small volume, whose slabs share memory
 * for views, may be held by less than two slabs that travel take: then nothing goes ahead. `whole`: a block may be the pass. */
static void through(const struct vp_projections *scan, const struct vp_grid *grid, struct vp_pair_place *place,
                    const struct way *way, bool whole, const float *x, const float *y, const int64_t *list, int n, float *Ax, float *back)
{
    const int64_t view = scan->nu * scan->nv, z0 = grid->n[2] / 5, z1 = grid->n[2] - 1, page = grid->n[0] * grid->n[1];
    struct vp_pair *p;
    struct vp_err err = VP_ERR_INIT;
    bool ahead = false;
    CHECK_INT(vp_pair_open(&p, scan, grid, 2, NULL, &err), 0);
    if (way->memory) { /* less and less until one slab does not fit */
        uint64_t least = 0, two = 0;
        for (place->memory = 64 << 20; !vp_pair_plan(p, place, &err); place->memory = place->memory / 50 * 49) {
            CHECK(place->bytes <= place->memory && place->bytes <= place->room);
            least = place->travels ? place->memory : least;
            two = place->ahead ? place->memory : two;
            vp_pair_close(p);
            CHECK_INT(vp_pair_open(&p, scan, grid, 2, NULL, &err), 0);
        }
        CHECK(strstr(err.msg, "a slab of 13 of ") != NULL);
        err = (struct vp_err)VP_ERR_INIT;
        place->memory = way->memory == 1 ? least : two;
        ahead = way->memory == 2 && two;
        vp_pair_close(p);
        CHECK_INT(vp_pair_open(&p, scan, grid, 2, NULL, &err), 0);
    }
    CHECK_INT(vp_pair_use(p, place, &err), 0);
    CHECK(place->used == (place->backend != NULL));
    CHECK(place->travels == (way->memory == 1 || ahead) && place->ahead == ahead);
    const int64_t block = vp_pair_block(p, n, (uint64_t)(way->views * view) * sizeof(float));
    CHECK(block <= n && (place->travels || block == VP_PAIR_VIEWS));
    if (place->travels && way->views == 0)
        CHECK(block < n || grid->center[0] == 0 || whole);
    CHECK_INT(vp_pair_load(p, x, &err), 0);
    for (int64_t at = 0; at < n; at += block)
        CHECK_INT(vp_pair_project(p, list + at, at + block < n ? block : n - at, Ax + at * view, &err), 0);
    memset(back, 0, (size_t)((z1 - z0) * page) * sizeof *back);
    CHECK_INT(vp_pair_begin(p, z0, z1, way->given ? NULL : back, &err), 0);
    CHECK(!way->given || vp_pair_gives(p, n, block));
    for (int64_t at = 0; at < n; at += block)
        CHECK_INT(vp_pair_back(p, y + at * view, list + at, at + block < n ? block : n - at, &err), 0);
    if (way->given)
        CHECK_INT(vp_pair_give(p, keep, &(struct kept){back, z0, page}, &err), 0);
    else
        CHECK_INT(vp_pair_end(p, &err), 0);
    CHECK_STR(err.msg, "");
    vp_pair_close(p);
}

/* Slabs: near the CPU, and the same bits on one device and on all of them, wherever the volume is. */
static void test_slabs(const struct vp_backend *backend, const int *number, int devices)
{
    /* opposite views of the last one wait for one another, if the volume is centred: a block is then a whole pass */
    static const struct { const char *text; int64_t n[3]; double center; bool whole; } scans[] = {
        {CONE "detector = 40x60\npitch = 1.5\noffset-v = 3.1\nviews = 75\n", {24, 21, 50}, 0.3, false},
        {CONE "detector = 30x44\npitch = 1.5,-1.4\nviews = 70\n", {18, 21, 37}, 0.3, false},
        {CONE "detector = 30x44\npitch = 1.5\nviews = 70\n", {18, 21, 37}, 0, false},
        {CONE "detector = 20x24\npitch = 1.5\noffset-v = 20\nviews = 66\n", {12, 11, 45}, 0.3, true}, /* a slab is not met */
    };
    static const struct way ways[] = {
        {0, 0, 0, false}, {1, 0, 0, false}, {9, 0, 0, false}, {9, 0, 0, true}, {1, 1, 0, false}, {1, 2, 0, false},
        {9, 1, 0, false}, {9, 2, 0, false}, {1, 1, 99, true}, {9, 2, 99, true}, {9, 2, 99, false},
    };
    enum { WAYS = sizeof ways / sizeof *ways };
    for (size_t k = 0; k < sizeof scans / sizeof *scans; k++) {
        const int64_t *const size = scans[k].n, voxels = size[0] * size[1] * size[2];
        const struct vp_grid grid = {.n = {size[0], size[1], size[2]}, .voxel = {1, 1, 1.1}, .center = {scans[k].center, 0, -1}};
        struct vp_geom geom;
        struct vp_view *views;
        struct vp_scan kind;
        struct vp_err err = VP_ERR_INIT;
        if (parse_geometry(&geom, scans[k].text, strlen(scans[k].text), "scan", &err)
            || vp_geom_views(&geom, &views, &kind, &err))
            CHECK_STR(err.msg, "");
        const struct vp_projections scan = {.views = views, .n_views = geom.views, .nu = geom.nu, .nv = geom.nv};
        const int n = (int)geom.views;
        const int64_t view = geom.nu * geom.nv;
        float *x = random_floats(voxels), *y = random_floats(n * view);
        float *Ax[WAYS], *back[WAYS];
        int64_t *list = malloc((size_t)n * sizeof *list);
        for (int i = 0; i < n; i++)
            list[i] = i;
        for (int w = 0; w < WAYS; w++) {
            struct vp_pair_place place = {.backend = ways[w].devices ? backend : NULL, .slab = 13};
            for (; place.n_devices < ways[w].devices && place.n_devices < devices; place.n_devices++)
                place.devices[place.n_devices] = number[place.n_devices];
            through(&scan, &grid, &place, &ways[w], scans[k].whole, x, y, list, n, Ax[w] = random_floats(n * view),
                    back[w] = random_floats(voxels));
        }
        const int64_t slices = size[2] - 1 - size[2] / 5, some = slices * size[0] * size[1];
        CHECK(error_of(Ax[1], Ax[0], n * view) < 2e-6);
        CHECK(error_of(back[1], back[0], some) < 2e-6);
        for (int w = 2; w < WAYS; w++) {
            CHECK(!memcmp(Ax[1], Ax[w], (size_t)(n * view) * sizeof **Ax));
            CHECK(!memcmp(back[1], back[w], (size_t)some * sizeof **back));
        }
        for (int w = 0; w < WAYS; w++) {
            free(Ax[w]);
            free(back[w]);
        }
        free(list);
        free(x);
        free(y);
        vp_geom_free(&geom);
        free(views);
    }
}

int main(void)
{
    const struct vp_backend *backend = &vp_cpu;
    struct vp_err err = VP_ERR_INIT;
    int *number = NULL, n = 0;
    if (getenv("VOXPIPE_DEVICES") && vp_devices_find(&backend, &number, &n, getenv("VOXPIPE_DEVICES"), &err))
        CHECK_STR(err.msg, "");
    for (size_t i = 0; i < sizeof SCANS / sizeof *SCANS; i++) {
        struct scan s = SCANS[i];
        s.refused |= backend->on_host;
        compare(&s, backend, n ? number[0] : 0);
    }
    if (!backend->on_host)
        test_slabs(backend, number, n);
    free(number);
    return test_done();
}
