/* SPDX-License-Identifier: BSD-3-Clause */
#include "family.h"
#include "local/rotate.h"

static struct vp_rotate_params own;
static bool whole;

/* About z only, since plans are made before the number of planes is known. */
static void draw(struct params *p, const struct scene *s)
{
    (void)s;
    own = (struct vp_rotate_params){.about = 2, .method = (enum vp_rotate_method)draw_int(0, 2),
                                    .edge = draw_int(0, 2) == 0, .outside = (double)draw_int(0, 9)};
    own.degrees = (double)(draw_int(0, 2) ? draw_int(-90, 90) : 10 * draw_int(-36, 36));
    whole = draw_int(0, 1);
    own.voxel[0] = own.voxel[2] = 1;
    own.voxel[1] = draw_int(0, 2) ? 1 : draw_tenth(0.4, 2.5);
    say(p, " --rotate %g --method %d%s --outside %s%g (pixels 1 x %g)", own.degrees, (int)own.method,
        whole ? " --enlarge" : "", own.edge ? "edge, not " : "", own.outside, own.voxel[1]);
}

static int chain(struct vp_chain *c, struct request *r, struct vp_err *err)
{
    memcpy(own.in, r->im.size, sizeof own.in);
    if (whole)
        vp_rotate_whole(&own);
    else
        vp_rotate_same(&own);
    return vp_rotate_chain(c, &own, r->im.type, err);
}

FAMILY(.program = "img-reslice", .draw = draw, .chain = chain)
