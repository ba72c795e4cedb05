/* SPDX-License-Identifier: BSD-3-Clause */
#include "family.h"
#include "local/morph.h"

static struct { enum vp_morph morph; int64_t iterations; struct window window; } own;

static void draw(struct params *p, const struct scene *s)
{
    static const char *const morph[] = {"erode", "dilate", "open", "close", "tophat", "bothat", "gradient"};

    own.morph = (enum vp_morph)draw_int(VP_ERODE, VP_GRADIENT);
    say(p, " --op %s", morph[own.morph]);
    own.iterations = draw_iterations(p, 3);
    own.window = draw_window(p, s);
    if (own.morph == VP_GRADIENT) { /* others are refused */
        const int64_t *n = own.window.n, *c = own.window.center;
        own.window.sample[(c[2] * n[1] + c[1]) * n[0] + c[0]] = 1;
    }
}

static int chain(struct vp_chain *c, struct request *r, struct vp_err *err)
{
    struct vp_footprint f = {0};
    const int rc = make_window(&f, &own.window, &r->im, err)
                   || vp_morph_chain(c, own.morph, own.iterations, &f, r->im.size, r->im.type, err);
    vp_footprint_free(&f);
    return rc;
}

FAMILY(.program = "img-morph", .draw = draw, .chain = chain)
