/* SPDX-License-Identifier: BSD-3-Clause */
/* The grid of ranks: slabs tile the volume, the times are those of formulas worked out by hand, and what is chosen is
 * what they say. */
#include "test.h"

#include "base/err.h"
#include "base/size.h"
#include "ct/mesh.h"

#include <stdlib.h>
#include <unistd.h>

static struct vp_geom geom = {.beam = VP_CONE, .sod = 400, .sdd = 800, .nu = 64, .nv = 48, .du = 2, .dv = 2, .views = 90};
static struct vp_view *views;
static struct vp_grid grid = {.n = {50, 40, 30}, .voxel = {1, 1, 1}};

static struct vp_reconstruct whole(int64_t slices)
{
    grid.n[2] = slices;
    return (struct vp_reconstruct){.projections = {.views = views, .n_views = geom.views, .nu = geom.nu, .nv = geom.nv},
                                   .last = geom.views, .in_nu = geom.nu, .grid = &grid, .z1 = slices};
}

static void slabs_tile_the_volume(void)
{
    for (int64_t slices = 1; slices <= 70; slices += slices < 20 ? 1 : 7)
        for (int64_t unit = 1; unit <= 16; unit *= 4)
            for (int half = 0; half <= 1; half++)
                for (int rows = 1; rows <= 9; rows++) {
                    const struct vp_reconstruct r = whole(slices);
                    const struct vp_mesh_problem p = {.of = &r, .ranks = rows, .hosts = 1, .unit = unit, .mirror = half};
                    const struct vp_mesh m = {.rows = rows, .columns = 1, .half = half};
                    const int64_t end = half ? (slices + 1) / 2 : slices, units = (end + unit - 1) / unit;
                    int64_t z = 0, z0, z1, least = INT64_MAX, most = 0;
                    for (int row = 0; row < rows; row++) {
                        CHECK(vp_mesh_slab(&p, &m, row, &z0, &z1) == (units >= rows) || units < rows);
                        CHECK_INT(z0, z);
                        CHECK(z0 % unit == 0 || z0 == end);
                        const int64_t n = (z1 - z0 + unit - 1) / unit;
                        least = vp_min64(least, n);
                        most = vp_max64(most, n);
                        z = z1;
                    }
                    CHECK_INT(z, end);
                    CHECK(most - least <= 1);
                    CHECK(least >= 1 || units < rows);
                }
}

static const struct vp_model model = {.load = 1e6, .filter = 2e6, .exchange = 3e6, .backproject = 5e6, .reduce = 7e6,
                                      .store = 11e6};

static void times_are_those_of_the_paper(void)
{
    const struct vp_reconstruct r = whole(30);
    struct vp_mesh_problem p = {.of = &r, .sample_bytes = 2, .ranks = 6, .hosts = 2, .unit = 1, .on_host = true};
    struct vp_model m = model;
    struct vp_mesh_times t;
    int64_t v0, v1, most = 0, all = 0;
    const double samples = 90.0 * 64, voxels = 50.0 * 40 * 30;
    struct vp_mesh mesh = {.rows = 3, .columns = 2};
    for (int row = 0; row < 3; row++) {
        vp_mesh_rows(&p, &mesh, row, &v0, &v1);
        CHECK(v0 >= 0 && v1 <= 48 && v1 - v0 < 48);
        most = vp_max64(most, v1 - v0);
        all += v1 - v0;
    }
    /* each of the three ranks of a host reads half of the views' rows that it needs */
    vp_mesh_times(&t, &p, &m, &mesh);
    CHECK_NEAR(t.load, samples / 2 * 2 * (double)all / 3 * 3 / 1e6, 1e-12);
    CHECK_NEAR(t.gather, 0, 0);
    CHECK_NEAR(t.filter, samples / 2 * (double)most / 2e6, 1e-12);
    CHECK_NEAR(t.backproject, voxels / 3 * 45 / 5e6, 1e-12);
    /* detectors finer than the volume, by a part of an octave */
    m.backproject_fine = 2e6;
    m.backproject_coarse = 1e6;
    vp_mesh_times(&t, &p, &m, &mesh);
    CHECK_NEAR(t.backproject, voxels / 3 * 45 / (5e6 * pow(0.4, log2(sqrt(64.0 * 48) / cbrt(voxels)))), 1e-9);
    m = model;
    vp_mesh_times(&t, &p, &m, &mesh);
    CHECK_NEAR(t.compute, fmax(t.load, t.filter + t.backproject), 1e-12);
    CHECK_NEAR(t.reduce, voxels / 3 * 4 / 2 / 7e6, 1e-12);
    CHECK_NEAR(t.store, voxels * 4 / 2 / 11e6, 1e-12);
    CHECK_NEAR(t.run, t.compute + t.reduce + t.store, 1e-12);
    /* slices that leave while others are made: the first part as soon as it is made, the last at the end */
    mesh.parts = 10;
    m.load = 1e9;
    for (int quick = 0; quick < 2; quick++) {
        m.store = quick ? 11e9 : 11e4;
        m.reduce = quick ? 7e9 : 7e6;
        vp_mesh_times(&t, &p, &m, &mesh);
        const double leave = t.reduce + t.store, feed = fmax(t.load, t.filter);
        CHECK((quick != 0) == (t.compute + leave / 10 > feed + t.compute / 10 + leave));
        CHECK_NEAR(t.run, fmax(t.compute + leave / 10, feed + t.compute / 10 + leave), 1e-12);
    }
    m = model;
    mesh.parts = 0;
    /* read once, each rank a sixth, and filtered there; two thirds of a subset's rows come from the others */
    mesh.gather = true;
    vp_mesh_times(&t, &p, &m, &mesh);
    CHECK_NEAR(t.load, samples * 48 * 2 / 2 / 1e6, 1e-12);
    CHECK_NEAR(t.gather, samples / 2 * (double)most * 4 * 2 / 3 / 3e6, 1e-12);
    CHECK_NEAR(t.filter, samples / 6 * 48 / 2e6, 1e-12);
    /* on devices they are filtered where they are wanted, beside nothing; or by the CPU, beside the device */
    p.on_host = false;
    p.filter_device = true;
    m.upload = 13e6;
    m.download = 17e6;
    vp_mesh_times(&t, &p, &m, &mesh);
    CHECK_NEAR(t.filter, samples / 2 * (double)most / 2e6, 1e-12);
    CHECK_NEAR(t.upload, samples / 2 * (double)most * 4 / 13e6, 1e-12);
    CHECK_NEAR(t.download, voxels / 3 * 4 / 17e6, 1e-12);
    CHECK_NEAR(t.compute, fmax(fmax(t.load, t.gather), t.filter + t.backproject), 1e-12);
    p.filter_device = false;
    vp_mesh_times(&t, &p, &m, &mesh);
    CHECK_NEAR(t.compute, fmax(fmax(t.load, t.gather), fmax(t.filter, t.backproject)), 1e-12);
    /* limits of what all hosts share; nothing is stored that nobody wants */
    m.load_all = m.store_all = 1e5;
    vp_mesh_times(&t, &p, &m, &mesh);
    CHECK_NEAR(t.load, samples * 48 * 2 / 1e5, 1e-12);
    CHECK_NEAR(t.store, voxels * 4 / 1e5, 1e-12);
    p.discards = true;
    vp_mesh_times(&t, &p, &m, &mesh);
    CHECK_NEAR(t.store, 0, 0);
}

static void the_best_grid_comes_first(void)
{
    struct vp_reconstruct r = whole(30);
    struct vp_mesh_problem p = {.of = &r, .sample_bytes = 4, .ranks = 12, .hosts = 12, .unit = 1, .on_host = true};
    struct vp_model m = {.load = 1e12, .filter = 1e12, .exchange = 1e12, .backproject = 1e6, .reduce = 1e12, .store = 1e12};
    int n;
    /* the work is what counts: slabs give the same as subsets, and the bits of one process */
    struct vp_mesh *c = vp_mesh_choices(&p, &m, -1, false, &n);
    CHECK_INT(n, 6);
    CHECK_INT(c[0].rows, 12);
    for (int i = 0; i < n; i++)
        CHECK_INT(c[i].rows * c[i].columns, 12);
    free(c);
    /* slices are made in eights: four slabs are as many as there can be, and subsets make the rest */
    p.unit = 8;
    c = vp_mesh_choices(&p, &m, -1, false, &n);
    CHECK_INT(c[0].rows * c[0].columns, 12);
    CHECK_INT(c[0].rows, 4);
    CHECK_INT(n, 4);
    free(c);
    /* a network that is slow makes each rank read what it needs, a slow storage the other way round */
    p.unit = 1;
    m.load = 1e6;
    m.load_all = 1e6;
    for (int slow = 0; slow <= 1; slow++) {
        m.exchange = slow ? 1e3 : 1e12;
        c = vp_mesh_choices(&p, &m, -1, false, &n);
        CHECK_INT(c[0].gather, !slow);
        free(c);
        c = vp_mesh_choices(&p, &m, slow, false, &n); /* as it is asked for */
        for (int i = 0; i < n; i++)
            CHECK_INT(c[i].gather, slow && c[i].rows > 1);
        free(c);
    }
    /* nothing for some ranks to do */
    r = whole(2);
    r.last = 3;
    p.ranks = 12;
    CHECK(!vp_mesh_choices(&p, &m, -1, false, &n));
    CHECK_INT(n, 0);
    /* mirrored slabs where they can be had and are wanted */
    r = whole(30);
    p.mirror = true;
    c = vp_mesh_choices(&p, &m, -1, false, &n);
    CHECK(c[0].half == (c[0].rows > 1));
    free(c);
    c = vp_mesh_choices(&p, &m, -1, true, &n);
    for (int i = 0; i < n; i++)
        CHECK(!c[i].half);
    free(c);
}

static void reads(const char *text, const char *want)
{
    char path[] = "/tmp/voxpipe-mesh-XXXXXX";
    struct vp_err err = VP_ERR_INIT;
    struct vp_model m = model;
    const int fd = mkstemp(path);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    CHECK_INT(vp_model_read(&m, path, &err), want ? -1 : 0);
    CHECK(!want || strstr(err.msg, want));
    if (!want) {
        CHECK_NEAR(m.load, 5e9, 0);
        CHECK_NEAR(m.host_ranks, 4, 0);
        CHECK_NEAR(m.store, model.store, 0);
    }
    unlink(path);
}

static void files_of_models(void)
{
    reads("# rates\n\nload = 5e9 # bytes\nhost_ranks = 4\n", NULL);
    reads("load = 5e9\nspeed = 4\n", ":2: 'speed' is not a key of a model");
    reads("load 5e9\n", ":1: expected `key = number`");
    reads("load = 5e9 or so\n", ":1: expected `key = number`");
    reads("load = -1\n", ":1: expected `key = number`");
    reads("load = nan\n", ":1: expected `key = number`");
    reads("load = 0\n", "expected load, filter");
}

int main(void)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_scan scan;
    geom.angle = calloc((size_t)geom.views, sizeof *geom.angle);
    for (int64_t i = 0; i < geom.views; i++)
        geom.angle[i] = 360.0 * (double)i / (double)geom.views;
    CHECK(!vp_geom_views(&geom, &views, &scan, &err));
    slabs_tile_the_volume();
    times_are_those_of_the_paper();
    the_best_grid_comes_first();
    files_of_models();
    free(views);
    vp_geom_free(&geom);
    return test_done();
}
