/* SPDX-License-Identifier: BSD-3-Clause */
#include "family.h"
#include "local/gauss.h"

static struct { struct vp_reals sigma; struct vp_gauss_params gauss; } own;

static void draw(struct params *p, const struct scene *s)
{
    static const int order[][3] = {{1, 0, 0}, {0, 2, 0}, {1, 1, 0}, {2, 1, 0}, {0, 0, 1}, {0, 1, 2}};
    struct vp_gauss_params *g = &own.gauss;
    const bool derivative = draw_int(0, 4) == 0;

    *g = (struct vp_gauss_params){.truncate = 4, .spacing = {1, 1, 1}, .iterations = 1};
    g->edge = draw_edge(p);
    own.sigma = draw_lengths(p, s, "sigma", derivative ? 1 : 0, derivative ? 4 : (double)ONE_OF(1, 3, 8));
    p->out = VP_N_TYPES;
    if (derivative) {
        memcpy(g->order, order[draw_int(0, s->flat ? 3 : 5)], sizeof g->order);
        say(p, " --derivative %d,%d,%d", g->order[0], g->order[1], g->order[2]);
        p->out = VP_F32;
    } else {
        g->highpass = draw_int(0, 3) == 0;
        if (g->highpass)
            say(p, " --highpass");
        if (draw_int(0, 4) == 0)
            say(p, " --truncate %g", g->truncate = 2.5);
        g->iterations = draw_iterations(p, 3);
        p->out = g->highpass && draw_int(0, 1) ? VP_F32 : draw_type(p);
    }
}

static int chain(struct vp_chain *c, struct request *r, struct vp_err *err)
{
    struct vp_gauss_params gauss = own.gauss;
    return vp_image_lengths(&r->im, "sigma", &own.sigma, gauss.sigma, err)
           || vp_gauss_chain(c, &gauss, r->im.size, r->im.type, r->out, err);
}

FAMILY(.program = "img-gauss", .draw = draw, .chain = chain, .keeps = true)
