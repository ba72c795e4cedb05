/* Wiener's adaptive filter (Lee 1980; Lim 1990, as in scipy.signal.wiener): with m and v the mean and variance of the
 * neighbourhood (cut at the image's edge), out = m where v <= noise, else m + (v - noise) / v (x - m). */
#ifndef VP_WIENER_H
#define VP_WIENER_H

#include "local/moments.h"

/* Types as vp_moments_local. Kernel "wiener", params struct vp_moments_params. */
int vp_wiener_local(struct vp_op *op, double noise, const struct vp_footprint *f, const int64_t image[3],
                    enum vp_type in, enum vp_type out, struct vp_err *err);

#endif
