/* SPDX-License-Identifier: BSD-3-Clause */
/* Local thresholds: their options, and the threshold as a function of mean and standard deviation. */
#include "app/adaptive.h"

#include "base/err.h"
#include "stack/stack.h"
#include "app/image.h"

#include <math.h>

static const char *const METHODS[] = {"mean", "niblack", "sauvola", "bradley"};

const struct vp_opt vp_adaptive_options[] = {
    VP_CHOICE(struct vp_adaptive_params, method, "local", 'l', VP_ADAPTIVE_CHOICES, .metavar = "METHOD",
              .def = "mean",
              .help = "local threshold from the neighbourhood: mean|niblack|sauvola|bradley",
              .more = "With m the mean and s the standard deviation of the neighbourhood, the threshold is\n\n"
                      "- mean: m\n"
                      "- niblack: m - k s\n"
                      "- sauvola: m (1 + k (s / r - 1))\n"
                      "- bradley: m (1 - k)\n\n"
                      "minus --offset."),
    VP_REALS(struct vp_adaptive_params, window, "window", 0, .metavar = "W|WX,WY,WZ", .def = "15", .min = 0,
             .max = 2e6, .group = "Local thresholds",
             .help = "size of the neighbourhood, an odd number of voxels",
             .more = "One number for all axes, or one for each of x, y, z. 1 leaves an axis out. With --physical in "
                     "the unit of the voxel size; the neighbourhood is then the voxels whose centres are at most "
                     "half of it away. The time does not depend on the size of a box: on the CPU always, on a GPU "
                     "for integers and windows of one plane."),
    VP_CHOICE(struct vp_adaptive_params, shape, "shape", 0, "box|ball", .metavar = "SHAPE", .def = "box",
              .help = "box or ball (an ellipsoid if the sizes differ; slower)"),
    VP_CHOICE(struct vp_adaptive_params, edge, "edge", 0, VP_EDGE_CHOICES, .metavar = "RULE", .def = "renormalize",
              .help = "rule beyond the edge: renormalize|nearest|mirror|zero|wrap",
              .more = "See voxpipe(7), Edges. All rules except renormalize run on the CPU."),
    VP_REALS(struct vp_adaptive_params, k, "k", 0, .metavar = "K",
             .help = "factor of niblack and sauvola (default: 0.2) and of bradley (default: 0.15)"),
    VP_REAL(struct vp_adaptive_params, r, "r", 0, .metavar = "R", .min = 0, .max = INFINITY,
            .help = "sauvola: largest possible standard deviation",
            .more = "The default is half of the range of the sample type (127.5 for u8), for samples as they are "
                    "stored. For f32 it must be given, in the unit of the values; half of their range is a good "
                    "choice."),
    VP_REAL(struct vp_adaptive_params, offset, "offset", 0, .metavar = "V", .def = "0", .min = -INFINITY,
            .max = INFINITY,
            .help = "subtract V from every threshold",
            .more = "In the unit of the values. With --offset -3, a voxel must be brighter than its neighbourhood by "
                    "3."),
    VP_INSTEAD("old-w", 'w', "window"),
    VP_INSTEAD("old-k", 'k', "k"),
    VP_INSTEAD("old-r", 'r', "r"),
    VP_OPT_END,
};

int vp_adaptive_check(const struct vp_adaptive_params *p, struct vp_err *err)
{
    const enum vp_adaptive m = (enum vp_adaptive)p->method;

    if (p->k.n && m == VP_LOCAL_MEAN)
        return vp_fail(err, VP_EUSAGE, "--k needs --local niblack, sauvola or bradley, got mean");
    if (p->k.n > 1)
        return vp_fail(err, VP_EUSAGE, "--k: expected one number, got %d", p->k.n);
    if (p->r > 0 && m != VP_LOCAL_SAUVOLA)
        return vp_fail(err, VP_EUSAGE, "--r needs --local sauvola, got %s", METHODS[m]);
    if (!isfinite(p->offset) || !isfinite(p->r) || (p->k.n && !isfinite(p->k.v[0])))
        return vp_fail(err, VP_EUSAGE, "--%s: expected a finite number",
                       !isfinite(p->offset) ? "offset" : !isfinite(p->r) ? "r" : "k");
    return 0;
}

int vp_adaptive_limit(struct vp_limit *l, const struct vp_adaptive_params *p, const struct vp_images *im,
                      double nearer, bool below, uint8_t mark, struct vp_err *err)
{
    const enum vp_adaptive m = (enum vp_adaptive)p->method;
    const double k = p->k.n ? p->k.v[0] : m == VP_LOCAL_BRADLEY ? .15 : .2;
    const bool of_values = m == VP_LOCAL_BRADLEY || (m == VP_LOCAL_SAUVOLA && p->r > 0);
    const double zero = of_values ? vp_scale_stored(im->scale, 0) : 0; /* origin of the mean */
    double r = vp_scale_steps(im->scale, p->r);

    if (m == VP_LOCAL_SAUVOLA && r == 0) {
        if (im->type == VP_F32)
            return vp_fail_hint(err, VP_EUSAGE,
                                "half of the range of the values; scikit-image's 1 is for images from -1 to 1",
                                "--local sauvola: f32 needs --r, the largest standard deviation there can be");
        r = im->all_i8 ? 127.5 : (vp_type_max(im->type) - vp_type_min(im->type)) / 2;
    }
    *l = (struct vp_limit){.base = -vp_scale_steps(im->scale, p->offset) - vp_scale_steps(im->scale, nearer), .mean = 1,
                           .below = below, .mark = mark};
    if (m == VP_LOCAL_NIBLACK)
        l->std = -k;
    if (m == VP_LOCAL_SAUVOLA || m == VP_LOCAL_BRADLEY) {
        l->mean = 1 - k;
        l->base += k * zero;
    }
    if (m == VP_LOCAL_SAUVOLA) {
        l->both = k / r;
        l->std = -l->both * zero;
    }
    return 0;
}

int vp_adaptive_window(struct vp_footprint *f, const struct vp_adaptive_params *p, const struct vp_images *im,
                       struct vp_err *err)
{
    struct vp_reals window = p->window;
    double size[3];

    if (im->flat && window.n == 3 && window.v[2] == 1 && !im->params.physical)
        window.n = 2; /* z is one sample thick in any case */
    if (vp_image_lengths(im, "window", &window, size, err))
        return -1;
    for (int a = 0; a < 3; a++) {
        if (im->flat && a == 2)
            size[a] = 1;
        if (!im->params.physical && (size[a] < 1 || fmod(size[a], 2) != 1)) {
            vp_fail(err, VP_EUSAGE, "--window: expected an odd number of voxels, got %g", size[a]);
            return vp_hint(err, "as %.0f, so that the voxel itself is the middle one",
                           size[a] < 1 ? 1 : 2 * floor(size[a] / 2) + 1);
        }
        /* Whole radii for sizes in voxels: half a voxel more has no effect except on a ball. */
        size[a] = im->params.physical ? size[a] / 2 : (size[a] - 1) / 2;
    }
    if (im->size[2] == 1 && p->edge == VP_EDGE_RENORMALIZE) /* the other rules add voxels before and after the only
                                                               page, too */
        size[2] = 0;
    return vp_footprint_init(f, p->shape ? VP_BALL : VP_BOX, size, err);
}
