/* SPDX-License-Identifier: BSD-3-Clause */
#include "family.h"
#include "convolution.h"

static struct convolution own;

static void adapt(struct scene *s)
{
    if (draw_int(0, 3) == 0) { /* higher than blocks and tiles */
        s->n[0] = draw_int(1, ONE_OF(24, 9, 3));
        s->n[1] = draw_int(100, 600);
        s->n[2] = draw_int(1, 3);
    }
    adapt_convolution(s);
}

static void draw(struct params *p, const struct scene *s)
{
    draw_convolution(p, s, &own);
}

static int chain(struct vp_chain *c, struct request *r, struct vp_err *err)
{
    struct vp_convolve_given given = own.given;
    struct vp_op op;
    return vp_convolve_local(&op, &given, r->im.size, r->im.type, r->out, err) || vp_chain_add(c, &op, err);
}

FAMILY(.program = "img-convolve", .adapt = adapt, .draw = draw, .chain = chain)
