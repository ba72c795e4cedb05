/* SPDX-License-Identifier: BSD-3-Clause */
#include "family.h"
#include "local/nlmeans.h"

static struct { double h, noise; int64_t search[3], patch[3]; } own;

static void draw(struct params *p, const struct scene *s)
{
    own.h = (double)ONE_OF(5, 30) * grey(s);
    own.noise = draw_int(0, 1) ? 3 * grey(s) : 0;
    for (int a = 0; a < 3; a++) {
        own.search[a] = a == 2 && s->n[2] == 1 ? 0 : draw_int(0, s->n[2] == 1 ? 4 : 2);
        own.patch[a] = a == 2 && s->n[2] == 1 ? 0 : draw_int(0, 2);
    }
    say(p, " --h %g --sigma %g --search %d,%d,%d --patch %d,%d,%d", own.h, own.noise, (int)own.search[0],
        (int)own.search[1], (int)own.search[2], (int)own.patch[0], (int)own.patch[1], (int)own.patch[2]);
    p->out = draw_type(p);
}

static int chain(struct vp_chain *c, struct request *r, struct vp_err *err)
{
    struct vp_op op;
    return vp_nlmeans_local(&op, own.h, own.noise, own.search, own.patch, r->im.size, r->im.type, r->out, err)
           || vp_chain_add(c, &op, err);
}

FAMILY(.program = "img-nlmeans", .draw = draw, .chain = chain)
