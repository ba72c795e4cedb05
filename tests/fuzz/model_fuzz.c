/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of models: of ellipsoids (ct-phantom --phantom), whose voxels and line integrals must be finite if the
 * parameters are, and of machines (ct-fdk --model). */
#include "../unit/geometry.h"
#include "ct/mesh.h"
#include "ct/phantom.h"
#include "fuzz.h"

#include <math.h>
#include <unistd.h>

enum { SIDE = 7, MANY = 50 };

static const char scan[] = "sod = 50\nsdd = 100\ndetector = 7x7\npitch = 4\nangles = 0:70:5\n";

static void check_pixels(const float *v, const struct vp_ellipsoid *list, int n)
{
    bool tame = true;
    for (int i = 0; i < n; i++) {
        tame = tame && fabs(list[i].density) < 1e6 && fabs(list[i].phi) < 1e6;
        for (int a = 0; a < 3; a++)
            tame = tame && list[i].axis[a] < 1e6 && list[i].axis[a] > 1e-6 && fabs(list[i].center[a]) < 1e6;
    }
    for (int i = 0; i < SIDE * SIDE; i++)
        MUST(isfinite(v[i]) || !tame);
}

static void check_phantom(const struct vp_ellipsoid *list, int n)
{
    const struct vp_grid grid = {.n = {SIDE, SIDE, SIDE}, .voxel = {4, 5, 6}};
    float pixels[SIDE * SIDE];
    struct vp_geom g;
    struct vp_view *views = NULL;
    struct vp_scan of;
    struct vp_err err = VP_ERR_INIT;

    for (int i = 0; i < n; i++)
        for (int a = 0; a < 3; a++)
            MUST(list[i].axis[a] > 0 && isfinite(list[i].axis[a]) && isfinite(list[i].center[a]));
    for (int64_t k = 0; k < SIDE; k++) {
        vp_phantom_slice(list, n, &grid, k, 1 + (int)(k % 2), pixels);
        check_pixels(pixels, list, n);
    }
    MUST(!parse_geometry(&g, scan, sizeof scan - 1, "scan", &err) && !vp_geom_views(&g, &views, &of, &err));
    const struct vp_phantom_scan s = {.list = list, .n = n, .views = views, .beam = g.beam, .nu = SIDE, .samples = 1};
    for (int64_t view = 0; view < g.views; view++) {
        vp_phantom_block(&s, view, 0, SIDE, pixels);
        check_pixels(pixels, list, n);
    }
    free(views);
    vp_geom_free(&g);
}

static void check_rates(const char *path)
{
    struct vp_model m = {0};
    struct vp_err err = VP_ERR_INIT;

    if (vp_model_read(&m, path, &err)) {
        fuzz_refused(&err);
        return;
    }
#define CHECK_RATE(name, what) MUST(m.name >= 0 && isfinite(m.name));
    VP_MODEL(CHECK_RATE)
#undef CHECK_RATE
    fuzz_accepted();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct vp_ellipsoid *list;
    struct vp_err err = VP_ERR_INIT;
    char path[32];
    int count;
    const int fd = fuzz_input(data, n, false, path);

    if (vp_phantom_load(&list, &count, path, 1, 1, &err)) {
        fuzz_refused(&err);
    } else {
        MUST(count > 0);
        if (count <= MANY)
            check_phantom(list, count);
        free(list);
        fuzz_accepted();
    }
    check_rates(path);
    close(fd);
    return 0;
}
