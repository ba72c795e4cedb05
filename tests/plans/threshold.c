/* SPDX-License-Identifier: BSD-3-Clause */
#include "family.h"
#include "app/adaptive.h"
#include "global/threshold.h"
#include "local/moments.h"

static struct { struct vp_adaptive_params adaptive; double at; bool given, below; } own;

static void draw(struct params *p, const struct scene *s)
{
    own.given = draw_int(0, 4) == 0;
    own.below = draw_int(0, 2) == 0;
    own.at = (double)ONE_OF(-3, 0, 60, 100) * grey(s) + (double)draw_int(0, 1) / 2;
    own.adaptive = (struct vp_adaptive_params){.method = (int)draw_int(0, 3), .shape = draw_int(0, 4) == 0,
                                              .r = 30 * grey(s), .offset = (double)draw_int(-1, 1) * grey(s)};
    own.adaptive.edge = own.given ? VP_EDGE_RENORMALIZE : draw_edge(p);
    own.adaptive.window.n = 1;
    own.adaptive.window.v[0] = (double)(own.adaptive.shape ? ONE_OF(3, 5) : ONE_OF(1, 3, 5, 41));
    if (own.given)
        say(p, " --at %g%s", own.at, own.below ? " --below" : "");
    else
        say(p, " --local %d --window %g --shape %d --r %g --offset %g%s", own.adaptive.method,
            own.adaptive.window.v[0], own.adaptive.shape, own.adaptive.r, own.adaptive.offset,
            own.below ? " --below" : "");
}

static int chain(struct vp_chain *c, struct request *r, struct vp_err *err)
{
    struct vp_footprint f = {0};
    struct vp_limit limit;
    struct vp_op op;
    if (own.given) {
        const struct vp_threshold_params t = {.method = VP_AT, .limit = own.at, .below = own.below, .mark = 255};
        return vp_threshold_op(&op, &t, r->im.size, r->im.type, err) || vp_chain_add(c, &op, err);
    }
    const int rc = vp_adaptive_limit(&limit, &own.adaptive, &r->im, 0, own.below, 255, err)
                   || vp_adaptive_window(&f, &own.adaptive, &r->im, err)
                   || vp_moments_above(&op, &limit, &f, (enum vp_edge)own.adaptive.edge, r->im.size, r->im.type, err)
                   || vp_chain_add(c, &op, err);
    vp_footprint_free(&f);
    return rc;
}

FAMILY(.program = "img-threshold", .draw = draw, .chain = chain)
