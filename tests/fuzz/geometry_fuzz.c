/* SPDX-License-Identifier: BSD-3-Clause */
/* A scan geometry of any known format: an accepted one has finite views, and reads back to the same bits. */
#include "../unit/geometry.h"
#include "fuzz.h"

#include <math.h>
#include <string.h>

enum { MANY = 100 };

static void hear(void *ctx, const char *text)
{
    (void)ctx;
    MUST(*text);
}

static void check_views(const struct vp_geom *g)
{
    struct vp_view *views = NULL;
    struct vp_scan scan;
    struct vp_err err = VP_ERR_INIT;

    if (vp_geom_views(g, &views, &scan, &err)) {
        fuzz_refused(&err);
        return;
    }
    for (int64_t i = 0; i < g->views; i++) {
        for (int k = 0; k < 12; k++)
            MUST(isfinite(views[i].P[k]));
        MUST(isfinite(views[i].weight) && views[i].weight >= 0 && isfinite(views[i].angle));
    }
    char *const said = vp_geom_explain(g, views, &scan);
    MUST(said);
    vp_geom_warn(g, views, &scan, hear, NULL);
    free(said);
    free(views);
}

static void check_text(const struct vp_geom *g, bool matrices)
{
    struct vp_geom again;
    struct vp_err err = VP_ERR_INIT;
    char *const one = vp_geom_format(g, matrices);

    MUST(one);
    if (parse_geometry(&again, one, strlen(one), "again", &err)) {
        if (!matrices)
            fprintf(stderr, "%s\n%s", err.msg, one);
        MUST(matrices); /* those of an absurd geometry may fail */
    } else {
        char *const two = vp_geom_format(&again, matrices);
        if (!matrices && strcmp(one, two))
            fprintf(stderr, "%s---\n%s", one, two);
        MUST(two && (matrices || !strcmp(one, two)));
        free(two);
        vp_geom_free(&again);
    }
    free(one);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct vp_geom g;
    struct vp_err err = VP_ERR_INIT;
    char *const text = fuzz_text(data, n);

    if (parse_geometry(&g, text, n, "fuzz", &err)) {
        fuzz_refused(&err);
    } else {
        MUST(g.views > 0 && g.nu > 0 && g.nv > 0);
        fuzz_accepted();
        if (g.views <= MANY) {
            check_views(&g);
            check_text(&g, false);
            check_text(&g, true);
        }
        vp_geom_free(&g);
    }
    free(text);
    return 0;
}
