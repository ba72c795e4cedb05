/* SPDX-License-Identifier: BSD-3-Clause */
/* VP_APPLY of summed area tables for pretended devices: adds the preceding total to a part. */
#pragma once

#include "global/sat.h"

static void sat_apply(const struct vp_op *op, const struct vp_area *out, const void *state)
{
    const struct vp_sat *p = op->params;
    const char *before = state;
    for (int k = 0; k < p->tables; k++) {
        const int64_t w = vp_box_size(&out[k].box, 0), h = vp_box_size(&out[k].box, 1);
        for (int64_t z = 0; z < vp_box_size(&out[k].box, 2); z++)
            for (int64_t i = 0; i < w * h; i++) {
                const int64_t at = z * out[k].plane + i / w * out[k].pitch + i % w, from = i / w * p->width + i % w;
                if (p->sum[k] == VP_SAT_U32)
                    ((uint32_t *)out[k].data)[at] += ((const uint32_t *)before)[from];
                else if (p->sum[k] == VP_SAT_U64)
                    ((uint64_t *)out[k].data)[at] += ((const uint64_t *)before)[from];
                else
                    ((double *)out[k].data)[at] += ((const double *)before)[from];
            }
        before += vp_sat_carried(op, k);
    }
}
