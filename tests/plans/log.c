/* SPDX-License-Identifier: BSD-3-Clause */
#include "family.h"
#include "local/log.h"

static struct { struct vp_reals sigma; struct vp_log_params log; } own;

static void draw(struct params *p, const struct scene *s)
{
    own.log = (struct vp_log_params){.truncate = 4, .spacing = {1, 1, 1}, .normalize = draw_int(0, 2) == 0};
    own.log.edge = draw_edge(p);
    own.sigma = draw_lengths(p, s, "sigma", draw_int(0, 2) ? 1 : 0.3, (double)ONE_OF(2, 4, 8));
    if (own.log.normalize)
        say(p, " --scale-normalize");
}

static int chain(struct vp_chain *c, struct request *r, struct vp_err *err)
{
    struct vp_log_params log = own.log;
    return vp_image_lengths(&r->im, "sigma", &own.sigma, log.sigma, err)
           || vp_log_chain(c, &log, r->im.size, r->im.type, err);
}

FAMILY(.program = "img-log", .draw = draw, .chain = chain, .keeps = true)
