/* SPDX-License-Identifier: BSD-3-Clause */
#include "family.h"
#include "local/math.h"

static struct { const char *expression; enum vp_type out; } own;

/* One image of all pages along z, of one or two stacks. */
static void adapt(struct scene *s)
{
    s->stacks = (int)draw_int(1, 2);
    s->single = s->stacks == 2 && draw_int(0, 2) == 0;
    if (s->held != VP_I8 && draw_int(0, 2) == 0)
        s->stored[1] = VP_U8;
    s->slices = s->flat ? 1 : s->n[2];
    s->channels = s->inner;
    s->n[2] *= s->inner * s->outer;
    s->flat = false;
    s->inner = s->outer = 1;
}

static void draw(struct params *p, const struct scene *s)
{
    own.expression =
        s->stacks == 1 ? ONE_TEXT("a * 3 + x - y * z", "if(a > 100, page, sqrt(abs(a)))", "a",
                                  "clip(a, 10, 90) / (1 + page)", "a * 1000 - 20000")
                       : ONE_TEXT("a - b", "if(b > a, x, z + b)", "min(a, b, 7) + max(x, y, z, page)",
                                  "(a - b) / (abs(a) + abs(b) + 1)", "b * 1.5", "a % 7.5 - floor(b / 3)");
    own.out = (enum vp_type)ONE_OF(VP_N_TYPES, VP_N_TYPES, VP_F32, VP_U8, VP_I16, VP_F64);
    say(p, " '%s' --type %s", own.expression, own.out == VP_N_TYPES ? "auto" : vp_type_name(own.out));
}

static int chain(struct vp_chain *c, struct request *r, struct vp_err *err)
{
    struct vp_math *m = NULL;
    if (vp_math_parse(&m, own.expression, r->scene->stacks, r->im.type, err))
        return -1;
    m->inner = r->scene->channels;
    m->nz = r->im.size[2] == VP_UNKNOWN && r->scene->slices == r->scene->n[2] ? VP_UNKNOWN : r->scene->slices;
    r->lost = &m->lost;
    return vp_math_add(c, m, r->im.size, r->scene->stacks, own.out == VP_N_TYPES ? vp_math_type(m) : own.out, err);
}

FAMILY(.program = "img-math", .adapt = adapt, .draw = draw, .chain = chain, .pages = true)
