/* SPDX-License-Identifier: BSD-3-Clause */
/* Richardson-Lucy deconvolution (Richardson 1972, Lucy 1974) with one kernel: kernel "deconvolve" of run/op.h.
 *
 * An estimate e of the whole image is blurred, compared with the data d, and corrected, again and again. It has margins
 * that no datum lies in, for what is outside shines into the image, too (Bertero & Boccacci 2005): so nothing has to be
 * made up at the edges, and nothing rings there. m is 1 where data are and 0 in the margins, K the blur, K' its
 * transpose, both with zeros outside the image:
 *
 *     w = K' m       e = 1       then each time       r = m d / (K e)  (0 where K e is not above `dark`)
 *                                                     e = e (K' r) / w  (0 where w is not above `least`) */
#ifndef VP_DECONVOLVE_H
#define VP_DECONVOLVE_H

#include "local/convolve.h"

/* op->params. f32 to f32; op->whole[] is set on all axes that the kernel blurs: one box is the whole of them. */
struct vp_deconvolve_params {
    /* The blur, and the same turned round: its kernels mirrored along all axes, centre n - 1 - centre. Both with
     * VP_EDGE_ZERO, one node, and neither before nor behind. */
    struct vp_convolve_params blur, back;
    int64_t before[3], behind[3]; /* voxels of op->image before and behind the data */
    int iterations;
    float least, dark;
};

#endif
