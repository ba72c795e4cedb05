/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/size.h"
#include "family.h"
#include "local/resize.h"

static struct { int64_t bin[3], m[2]; int method; } own;

/* Of the planes only bins, since plans are made before their number is known. */
static void draw(struct params *p, const struct scene *s)
{
    own.method = -1;
    own.bin[2] = s->flat ? 1 : vp_min64(s->n[2], ONE_OF(1, 1, 2, 3));
    if (draw_int(0, 1)) {
        for (int a = 0; a < 2; a++)
            own.bin[a] = vp_min64(s->n[a], ONE_OF(1, 2, 3, 7));
        say(p, " --bin %d,%d,%d", (int)own.bin[0], (int)own.bin[1], (int)own.bin[2]);
    } else {
        own.method = (int)draw_int(VP_RESIZE_AREA, VP_RESIZE_NEAREST);
        for (int a = 0; a < 2; a++)
            own.m[a] = draw_int(1, 3) == 1 ? s->n[a] : draw_int(1, 2 * s->n[a] + 3);
        say(p, " (bins of %d planes) --size %dx%d --method %d", (int)own.bin[2], (int)own.m[0], (int)own.m[1],
            own.method);
    }
    p->out = draw_int(0, 1) ? VP_F32 : VP_N_TYPES;
    say(p, "%s", p->out == VP_F32 ? " --type f32" : "");
}

static int chain(struct vp_chain *c, struct request *r, struct vp_err *err)
{
    struct vp_resize_params p;
    for (int a = 0; a < 2; a++)
        if (own.method < 0)
            vp_resize_bins(&p.axis[a], r->im.size[a], own.bin[a]);
        else
            vp_resize_to(&p.axis[a], r->im.size[a], own.m[a], (enum vp_resize_method)own.method);
    vp_resize_bins(&p.axis[2], r->im.size[2], own.bin[2]);
    return vp_resize_chain(c, &p, r->im.type, r->out, err);
}

FAMILY(.program = "img-resize", .draw = draw, .chain = chain)
