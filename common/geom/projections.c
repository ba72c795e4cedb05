/* SPDX-License-Identifier: BSD-3-Clause */
/* The geometry of a stack of projections: from -g or from its metadata, checked against its size. */
#include "geom/draft.h"
#include "base/err.h"
#include <string.h>

#define P struct vp_projection_params
const struct vp_opt vp_projection_options[] = {
    VP_FILE(P, geometry, "geometry", 'g', .metavar = "FILE", .group = "Projections",
            .help = "scan geometry (default: the one in the input's metadata)",
            .more = "A file as ct-geom(1) writes it, one 3x4 matrix a line, RTK XML, Nikon .xtekct, Bruker "
                    ".log, or a stack that carries a geometry; see ct-geometry(5)."),
    VP_CHOICE(P, layout, "layout", 0, "views|sinograms", .def = "views",
              .help = "what a page is: one view, or one detector row of all views",
              .more = "A page of sinograms has the detector's columns along x and the views along y; its "
                      "pages are the detector's rows."),
    VP_OPT_END,
};
#undef P

static int check_size(const struct vp_geom *g, bool sinograms, const struct vp_stack *s, const char *name,
                      struct vp_err *err)
{
    /* in layout views and in sinograms */
    const int64_t rows[2] = {g->nv, g->views}, pages[2] = {g->views, g->nv};
    bool fits[2];
    for (int i = 0; i < 2; i++)
        fits[i] = s->nx == g->nu && s->ny == rows[i] && (s->pages < 0 || s->pages == pages[i]);
    if (fits[sinograms])
        return 0;
    if (s->nx == g->nu && s->ny == rows[sinograms])
        vp_fail(err, VP_ERUN, "%s has %lld pages, the geometry %lld %s", name, (long long)s->pages,
                (long long)pages[sinograms], sinograms ? "sinograms" : "views");
    else if (sinograms)
        vp_fail(err, VP_ERUN, "%s is %lldx%lld, the geometry's sinograms %lldx%lld (%lld columns, %lld views)", name,
                (long long)s->nx, (long long)s->ny, (long long)g->nu, (long long)g->views, (long long)g->nu,
                (long long)g->views);
    else
        vp_fail(err, VP_ERUN, "%s is %lldx%lld, the geometry's detector %lldx%lld", name, (long long)s->nx,
                (long long)s->ny, (long long)g->nu, (long long)g->nv);
    return fits[!sinograms] ? vp_hint(err, "use --layout %s", sinograms ? "views" : "sinograms") : -1;
}

int vp_geom_of(struct vp_geom *g, const struct vp_projection_params *o, const struct vp_stack *s,
               const char *name, struct vp_err *err)
{
    *g = (struct vp_geom){0};
    if (o->geometry) {
        if (vp_geom_make(g, o->geometry, NULL, err))
            return -1;
    } else {
        const int found = vp_geom_from_meta(g, &s->meta, name, err);
        if (found < 0)
            return -1;
        if (!found)
            return vp_fail_hint(err, VP_EUSAGE, "give -g FILE (see ct-geom(1))", "%s carries no scan geometry", name);
    }
    if (check_size(g, o->layout == VP_LAYOUT_SINOGRAMS, s, name, err)) {
        vp_geom_free(g);
        return -1;
    }
    return 0;
}
