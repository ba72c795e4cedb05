/* SPDX-License-Identifier: BSD-3-Clause */
#include "pages/mosaic.h"

#include "base/err.h"
#include "base/size.h"

#include <math.h>

enum { GAP = VP_MOSAIC_GAP, MAX_STRETCH = 100 };

/* Returns the axis of the stack that a cut shows to the right, or down: 0 is x. */
static int axis_of(const struct vp_slice *c, bool down)
{
    return down ? (c->axis == VP_CUT_Y ? 2 : 1) : c->axis == VP_CUT_X ? 2 : 0;
}

/* Sets the shape of the slices, with pixels of the finest sampling among them; false if that would stretch them
 * absurdly. */
static bool true_shape(const double voxel[3], struct vp_slices *s, double *finest)
{
    double coarsest = 0;

    *finest = HUGE_VAL;
    for (int i = 0; i < s->n; i++)
        for (int down = 0; down < 2; down++) {
            const double v = voxel[axis_of(&s->slice[i], down)];
            *finest = fmin(*finest, v);
            coarsest = fmax(coarsest, v);
        }
    if (!(*finest > 0) || coarsest > *finest * MAX_STRETCH)
        return false;
    for (int i = 0; i < s->n; i++)
        for (int down = 0; down < 2; down++) {
            struct vp_slice *c = &s->slice[i];
            c->shape[down] = llround((double)c->shape[down] * voxel[axis_of(c, down)] / *finest);
        }
    return true;
}

/* Returns the width of the samples of all cuts; 0 if it is unknown or differs. */
static double common_width(const struct vp_stack *in, const struct vp_slices *s)
{
    double voxel[3] = {0}, width = 0;

    if (!vp_meta_numbers(&in->meta, "voxel", 3, voxel) && !vp_meta_numbers(&in->meta, "voxel", 2, voxel))
        return 0;
    for (int i = 0; i < s->n; i++) {
        const double v = voxel[axis_of(&s->slice[i], false)];
        if (!(v > 0) || (i && v != width))
            return 0;
        width = v;
    }
    return width;
}

bool vp_mosaic_make(struct vp_mosaic *l, const struct vp_stack *in, struct vp_slices *s)
{
    double voxel[3], finest = 0;
    const bool shaped = !l->square && vp_meta_numbers(&in->meta, "voxel", 3, voxel);
    const bool done = shaped && true_shape(voxel, s, &finest);
    const int64_t cuts = s->n / s->colours;

    l->pixel = done ? finest : common_width(in, s);
    l->columns = l->columns ? l->columns : (int64_t)ceil(sqrt((double)cuts));
    l->columns = vp_min64(l->columns, cuts);
    const int64_t rows = (cuts + l->columns - 1) / l->columns, *one = s->slice[0].shape;
    l->picture[0] = l->ortho ? one[0] + GAP + s->slice[2].shape[0] : l->columns * (one[0] + GAP) - GAP;
    l->picture[1] = l->ortho ? one[1] + GAP + s->slice[1].shape[1] : rows * (one[1] + GAP) - GAP;
    const double w = (double)l->picture[0], h = (double)l->picture[1];
    const double f = l->fit[0] ? fmin(1, fmin((double)l->fit[0] / w, (double)l->fit[1] / h)) : 1;
    l->fitted[0] = llround(w * f) < 1 ? 1 : llround(w * f);
    l->fitted[1] = llround(h * f) < 1 ? 1 : llround(h * f);
    l->pixel *= w / (double)l->fitted[0];
    return done || !shaped;
}

static int resize(const struct vp_mosaic *l, struct vp_picture *p, const int64_t size[2], struct vp_err *err)
{
    return l->labels ? vp_picture_pick(p, size[0], size[1], err) : vp_picture_resize(p, size[0], size[1], err);
}

int vp_mosaic_compose(const struct vp_mosaic *l, struct vp_slices *s, struct vp_picture *out, struct vp_err *err)
{
    const int cuts = s->n / s->colours;

    for (int i = 0; i < s->n; i++) {
        struct vp_picture *const one = &s->slice[i].out;
        if (resize(l, one, s->slice[i].shape, err))
            return -1;
        if (cuts == 1) {
            out[i] = *one;
            *one = (struct vp_picture){0};
        }
    }
    for (int i = 0; i < s->n && cuts > 1; i++) {
        const struct vp_picture *const one = &s->slice[i].out, *const corner = &s->slice[0].out;
        const int64_t cut = i % cuts;
        const int64_t column = l->ortho ? cut == 2 : cut % l->columns, row = l->ortho ? cut == 1 : cut / l->columns;
        if (cut == 0 && vp_picture_new(&out[i / cuts], l->picture[0], l->picture[1], err))
            return -1;
        vp_picture_put(&out[i / cuts], column * (corner->w + GAP), row * (corner->h + GAP), one);
    }
    for (int i = 0; i < s->n; i++)
        vp_picture_free(&s->slice[i].out);
    return 0;
}

int vp_mosaic_fit(const struct vp_mosaic *l, struct vp_picture *p, struct vp_err *err)
{
    return resize(l, p, l->fitted, err);
}
