/* SPDX-License-Identifier: BSD-3-Clause */
#include "family.h"
#include "app/image_run.h"
#include "app/stat.h"

static struct { struct vp_stat_params stat; struct window window; double range[2]; } own;

static void draw(struct params *p, const struct scene *s)
{
    struct vp_stat_params *t = &own.stat;
    *t = (struct vp_stat_params){.bins = 256, .iterations = 1};
    t->stat = ONE_TEXT("mean", "std", "var", "min", "max", "median", "percentile:20", "entropy");
    say(p, " --stat %s", t->stat);
    const bool moment = strchr("msv", t->stat[0]) && strcmp(t->stat, "min") && strcmp(t->stat, "max")
                        && strcmp(t->stat, "median");
    if (moment) {
        t->type = (int)draw_int(0, 2);
        say(p, " --type %s", ((const char *[]){"auto", "same", "f32"})[t->type]);
        t->sample = strcmp(t->stat, "mean") && draw_int(0, 1);
        if (t->sample)
            say(p, " --sample");
    }
    if (!strcmp(t->stat, "entropy")) {
        t->bins = ONE_OF(20, 256, 40000);
        own.range[0] = s->held == VP_F32 ? -12 : s->held == VP_I16 ? -100 * grey(s) : 0;
        own.range[1] = own.range[0] + 200 * grey(s);
        if (draw_int(0, 1))
            t->range = (struct vp_reals){2, {own.range[0], own.range[1]}};
        say(p, " --bins %d --range=%g,%g%s", (int)t->bins, own.range[0], own.range[1],
            t->range.n ? "" : " (u8: 0,255)");
    } else if (draw_int(0, 2) == 0) {
        t->iterations = draw_iterations(p, 3);
    }
    own.window = draw_window(p, s);
}

static int chain(struct vp_chain *c, struct request *r, struct vp_err *err)
{
    struct vp_result result;
    struct vp_footprint f = {0};
    const int rc = vp_stat_check(&own.stat, err) || make_window(&f, &own.window, &r->im, err)
                   || vp_stat_chain(c, &own.stat, &f, &r->im,
                                    vp_stat_needs_range(&own.stat, r->im.type) ? own.range : NULL, &result, err);
    vp_footprint_free(&f);
    return rc;
}

FAMILY(.program = "img-local", .draw = draw, .chain = chain)
