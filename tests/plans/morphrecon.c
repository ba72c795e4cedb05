/* SPDX-License-Identifier: BSD-3-Clause */
#include "family.h"
#include "global/morphrecon_derive.h"

static struct vp_morphrecon_want own;

static void draw(struct params *p, const struct scene *s)
{
    static const char *const text[] = {"", "fill-holes", "clear-border", "hmax", "hmin", "hdome", "regional-max",
                                       "regional-min", "open", "close", "seed"};
    static const int connectivity[] = {0, 0, 6, 18, 26, 0, 0, 4, 8, 8};
    struct vp_morphrecon_want *w = &own;
    *w = (struct vp_morphrecon_want){.what = (enum vp_derived)draw_int(VP_FILL_HOLES, VP_SEED)};
    w->connectivity = connectivity[draw_int(0, 4) + (s->flat ? 5 : 0)];
    w->h = (double)draw_int(0, 90) * grey(s);
    w->erosion = w->what == VP_SEED && draw_int(0, 1);
    for (int a = 0; a < 3; a++) {
        w->radius[a] = a == 2 && s->flat ? 0 : draw_tenth(0, 3);
        w->seed[a] = a == 2 && s->flat ? 0 : draw_int(0, s->n[a] - 1);
    }
    say(p, " --%s (h %g, radius %g,%g,%g, seed %d,%d,%d) --connectivity %d%s", text[w->what], w->h, w->radius[0],
        w->radius[1], w->radius[2], (int)w->seed[0], (int)w->seed[1], (int)w->seed[2], w->connectivity,
        w->erosion ? " --by erosion" : "");
}

static int chain(struct vp_chain *c, struct request *r, struct vp_err *err)
{
    return vp_morphrecon_chain(c, &own, r->im.size, r->scene->flat, r->im.type, err);
}

FAMILY(.program = "img-morphrecon", .draw = draw, .chain = chain, .alone = true)
