/* SPDX-License-Identifier: BSD-3-Clause */
/* Rays that miss a volume: rows against tests of each pixel. */
#include "test.h"
#include "geometry.h"
#include "ct/missed.h"

static int64_t met, rows;

static void compare(const char *scan, const struct vp_grid *grid)
{
    struct vp_geom geom;
    struct vp_scan kind;
    struct vp_view *views;
    struct vp_err err = VP_ERR_INIT;
    if (parse_geometry(&geom, scan, strlen(scan), "scan", &err) || vp_geom_views(&geom, &views, &kind, &err)) {
        CHECK_STR(err.msg, "");
        return;
    }
    for (int64_t s = 0; s < geom.views; s++) {
        struct vp_missed m;
        vp_missed_open(&m, &views[s], grid);
        for (int64_t v = 0; v < geom.nv; v++) {
            int64_t u0, u1, wrong = 0;
            vp_missed_row(&m, v, geom.nu, &u0, &u1);
            for (int64_t u = 0; u < geom.nu; u++)
                wrong += (u >= u0 && u < u1) == vp_missed(&m, (double)u, (double)v);
            CHECK_INT(wrong, 0);
            CHECK(u0 >= 0 && u0 <= u1 && u1 <= geom.nu);
            met += u1 - u0;
            rows += u1 > u0;
        }
    }
    free(views);
    vp_geom_free(&geom);
}

int main(void)
{
    static const char *const scans[] = {
        "beam = cone\nsod = 90\nsdd = 150\ndetector = 101x70\npitch = 1.5\nviews = 7\n",
        "beam = cone\nsod = 90\nsdd = 150\ndetector = 101x70\npitch = 1.5\nviews = 7\ntilt = 20\noffset-u = 30\noffset-v = -25\n",
        "beam = cone\nsod = 20\nsdd = 60\ndetector = 101x70\npitch = 1.5\nviews = 7\n", /* the source is near the box, or in it */
        "beam = parallel\ndetector = 101x70\npitch = 1.5\nviews = 7\n",
        "beam = cone\nsod = 900\nsdd = 1500\ndetector = 300x4\npitch = 0.9\nviews = 5\n",
    };
    static const struct vp_grid grids[] = {
        {.n = {40, 30, 20}, .voxel = {1.1, 1.1, 1.1}},
        {.n = {4, 3, 2}, .voxel = {1, 1, 1}, .center = {7, -9, 11}}, /* narrower than a step between tests */
        {.n = {200, 200, 1}, .voxel = {1, 1, 0.1}},
        {.n = {1, 1, 90}, .voxel = {0.3, 0.3, 1}, .center = {-14, 0, 0}},
    };
    for (size_t s = 0; s < sizeof scans / sizeof *scans; s++)
        for (size_t g = 0; g < sizeof grids / sizeof *grids; g++)
            compare(scans[s], &grids[g]);
    CHECK(met > 10000);
    CHECK(rows > 500);
    return test_done();
}
