/* SPDX-License-Identifier: BSD-3-Clause */
#include "family.h"
#include "global/sat.h"

static struct vp_sat_request own;

/* Types that img-sat alone takes; mostly flat, large images. */
static void adapt(struct scene *s)
{
    s->stored[0] = (enum vp_type)ONE_OF(VP_U8, VP_U16, VP_U32, VP_I8, VP_I16, VP_I32, VP_F32, VP_F64);
    s->flat = false;
    if (draw_int(0, 2)) {
        s->n[0] = draw_int(1, ONE_OF(300, 300, 70, 9, 1));
        s->n[1] = 1;
        s->n[2] = draw_int(1, ONE_OF(400, 400, 150, 9, 1));
    }
    s->held = s->stored[0];
}

/* An image is a stack of its rows here, as the engine has it. */
static void draw(struct params *p, const struct scene *s)
{
    struct vp_err err = VP_ERR_INIT;
    struct vp_sat_request *t = &own;
    t->volume = s->n[1] > 1;
    do
        t->out = (enum vp_type)ONE_OF(VP_U32, VP_U64, VP_I32, VP_I64, VP_F64, VP_F32);
    while (vp_sat_check(s->held, t->out, &err) || vp_type_is_float(t->out) != vp_type_is_float(s->held)
           || (t->volume && t->out == VP_F32)); /* of which devices have no kernel */
    say(p, "%s --type %s (%s)", t->volume ? " --3d" : "", vp_type_name(t->out), vp_type_name(s->held));
}

static int chain(struct vp_chain *c, struct request *r, struct vp_err *err)
{
    struct vp_op op;
    return vp_sat_op(&op, &own, r->im.size, r->im.type, err) || vp_chain_add(c, &op, err);
}

FAMILY(.program = "img-sat", .adapt = adapt, .draw = draw, .chain = chain, .unbanded = true)
