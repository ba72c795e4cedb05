/* SPDX-License-Identifier: BSD-3-Clause */
#include "family.h"
#include "local/moments.h"

static struct { double noise; struct window window; } own;

static void draw(struct params *p, const struct scene *s)
{
    own.noise = (double)ONE_OF(0, 30, 500) * grey(s) * grey(s);
    say(p, " --noise %g", own.noise);
    p->out = draw_type(p);
    own.window = draw_window(p, s);
}

static int chain(struct vp_chain *c, struct request *r, struct vp_err *err)
{
    struct vp_footprint f = {0};
    struct vp_op op;
    const int rc = make_window(&f, &own.window, &r->im, err)
                   || vp_moments_wiener(&op, own.noise, &f, r->im.size, r->im.type, r->out, err) || vp_chain_add(c, &op, err);
    vp_footprint_free(&f);
    return rc;
}

FAMILY(.program = "img-wiener", .draw = draw, .chain = chain)
