/* Minimum and maximum over a neighbourhood: erosion and dilation with a flat structuring element. Exact for every type,
 * shape and size; of a box the cost does not depend on the radius.
 *
 * Types u8, u16, i16, f32, and on the CPU u32, i32 and f64; the output has the type of the input. Of floats, NaN is left out (the result is NaN where all
 * samples are), and -0 is smaller than +0. If no sample of a set lies in the image, the minimum is the largest value of
 * the type, the maximum the smallest, and both are NaN for floats. */
#pragma once

#include "local/footprint.h"

/* op->params of "min" and "max". */
struct vp_extremum_params {
    struct vp_footprint f;
    bool max;
    enum vp_type type;
};

/* Types of all devices; the CPU takes VP_TYPES_WIDE, too. */
#define VP_EXTREMUM_TYPES (1u << VP_U8 | 1u << VP_U16 | 1u << VP_I16 | 1u << VP_F32)

/* Fills *op; `f` is copied. The input is stack 0; set op->from[0] for another. VP_EUSAGE (type) or VP_ERESOURCE. */
int vp_extremum_local(struct vp_op *op, bool max, const struct vp_footprint *f, const int64_t image[3],
                      enum vp_type type, struct vp_err *err);
