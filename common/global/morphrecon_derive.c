/* SPDX-License-Identifier: BSD-3-Clause */
#include "global/morphrecon_derive.h"

#include "base/err.h"
#include "local/morph.h"

#include <math.h>

static int neighbours(const struct vp_morphrecon_want *w, bool flat, struct vp_err *err)
{
    const int c = w->connectivity, faces = w->what == VP_FILL_HOLES;
    if (c == 0)
        return flat ? (faces ? 4 : 8) : faces ? 6 : 26;
    if (flat == (c == 4 || c == 8))
        return c;
    vp_fail(err, VP_EUSAGE, "--connectivity %d: %s", c,
            flat ? "single images have 4 or 8 neighbours per pixel"
                 : "volumes have 6, 18 or 26 neighbours per voxel");
    return flat ? -1 : vp_hint(err, "with --2d every page is an image of its own");
}

/* The key of zero, for the ground that structures stand on. */
static uint64_t zero(enum vp_type type)
{
    return type == VP_I16 ? vp_key_i16(0, false) : type == VP_I32 ? vp_key_i32(0, false) : type == VP_F32 ? vp_key_f32(0, false)
           : type == VP_F64 ? vp_key_f64(0, false) : 0;
}

/* The marker of an opening or closing: the erosion or dilation, as a stage before. */
static int add_extremum(struct vp_chain *chain, const struct vp_morphrecon_want *w, const int64_t image[3],
                        enum vp_type type, struct vp_err *err)
{
    if (w->window)
        return vp_morph_chain(chain, w->what == VP_CLOSE_BY ? VP_DILATE : VP_ERODE, 1, w->window, image, type, err);
    struct vp_footprint ball = {0};
    const int rc = vp_footprint_init(&ball, VP_BALL, w->radius, err)
                   || vp_morph_chain(chain, w->what == VP_CLOSE_BY ? VP_DILATE : VP_ERODE, 1, &ball, image, type, err);
    vp_footprint_free(&ball);
    return rc ? -1 : 0;
}

int vp_morphrecon_chain(struct vp_chain *chain, const struct vp_morphrecon_want *w, const int64_t image[3], bool flat,
                        enum vp_type type, struct vp_err *err)
{
    struct vp_morphrecon_params p = {.type = type, .erosion = w->erosion, .h = w->h, .counts = w->counts,
                                     .connectivity = neighbours(w, flat, err)};
    const bool opens = w->what == VP_OPEN_BY || w->what == VP_CLOSE_BY;
    struct vp_op op;

    if (p.connectivity < 0)
        return -1;
    p.floor = vp_key_lowest_of(type);
    switch (w->what) {
    case VP_RECONSTRUCT: break;
    case VP_FILL_HOLES:
        p.erosion = true;
        p.marker = VP_MARKER_BORDER;
        break;
    case VP_CLEAR_BORDER:
        p.marker = VP_MARKER_BORDER;
        p.floor = zero(type);
        p.result = VP_RECON_DIFFERENCE;
        break;
    case VP_HMAX:
    case VP_HMIN:
    case VP_HDOME:
        if (!vp_type_is_float(type) && w->h != floor(w->h))
            return vp_fail(err, VP_EUSAGE, "samples are %s: expected a height of whole steps, got %g",
                           vp_type_name(type), w->h);
        p.erosion = w->what == VP_HMIN;
        p.floor = w->i8 && !p.erosion ? vp_key_i16(INT8_MIN, false) : p.floor;
        p.marker = VP_MARKER_SHIFT;
        p.result = w->what == VP_HDOME ? VP_RECON_DIFFERENCE : VP_RECON_VALUE;
        break;
    case VP_REGIONAL_MAX:
    case VP_REGIONAL_MIN:
        p.erosion = w->what == VP_REGIONAL_MIN;
        p.marker = VP_MARKER_LESS;
        p.result = VP_RECON_MARK;
        break;
    case VP_OPEN_BY:
    case VP_CLOSE_BY:
        if (w->window && !vp_footprint_centered(w->window))
            return vp_fail_hint(err, VP_EUSAGE, "add the centre to it",
                                "--footprint: expected a footprint that contains its centre");
        p.erosion = w->what == VP_CLOSE_BY;
        break;
    case VP_SEED:
        p.marker = VP_MARKER_SEED;
        for (int a = 0; a < 3; a++) {
            p.seed[a] = w->seed[a];
            if (p.seed[a] < 0 || (image[a] < VP_UNKNOWN && p.seed[a] >= image[a]))
                return vp_fail(err, VP_EUSAGE, "--seed: %lld along %c: expected 0 to %lld", (long long)p.seed[a],
                               "xyz"[a], (long long)image[a] - 1);
        }
        break;
    }
    if ((opens && add_extremum(chain, w, image, type, err)) || vp_morphrecon_op(&op, &p, image, err))
        return -1;
    if (opens) {
        op.from[0] = 0;
        op.from[1] = ~0;
    }
    if (w->staged) {
        op.from[0] = chain->n - 2;
        op.from[1] = chain->n - 1;
    }
    return vp_chain_add(chain, &op, err);
}
