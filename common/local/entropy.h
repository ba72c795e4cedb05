/* Entropy of a neighbourhood, in bits a sample, by the histogram of its samples inside the image.
 *
 *     H = log2 n - (1/n) sum c log2 c        n samples, c of them in a bin
 *
 * in fixed point: with t(c) = round(2^32 c log2 c), H = (t(n) - sum t(c)) / (2^32 n), the sum in integers (so any order
 * gives the same bits), the quotient in binary64, then rounded to f32. Constant neighbourhoods give 0 exactly. */
#pragma once

#include "local/footprint.h"

#include <math.h>

enum { VP_ENTROPY_BINS = 65535, VP_ENTROPY_VOXELS = 1 << 22 }; /* maxima; the latter of a neighbourhood */
/* Types of all devices; the CPU takes VP_TYPES_WIDE, too. */
#define VP_ENTROPY_TYPES (1u << VP_U8 | 1u << VP_U16 | 1u << VP_I16 | 1u << VP_F32)

/* op->params of "entropy". */
struct vp_entropy_params {
    struct vp_footprint f;
    enum vp_type type;
    int64_t bins;
    double lo, hi;
    double scale;        /* bins / (hi - lo), 0 if hi = lo */
    int64_t n;           /* maximum samples of a neighbourhood in this image */
    const int64_t *t;    /* n + 1 numbers t(c) */
    const int64_t *step; /* n + 1 numbers t(c + 1) - t(c); the last is 0 */
};

/* Returns the bin of a value: equal parts of [lo, hi], hi itself in the last one, values outside in the first and the
 * last; `bins` for NaN, which is left out. */
VP_ANYWHERE static inline uint16_t vp_entropy_bin(const struct vp_entropy_params *p, double value)
{
    const double at = (value - p->lo) * p->scale;

    if (value != value)
        return (uint16_t)p->bins;
    return at >= (double)(p->bins - 1) ? (uint16_t)(p->bins - 1) : at >= 1 ? (uint16_t)at : 0;
}

/* Fills *op, whose op->free releases its params; `f` is copied. lo <= hi, finite. Output f32 (NaN where all samples are,
 * or none is in the image). The input is stack 0; set op->from[0] for another. VP_EUSAGE (type, bins, range, more than
 * VP_ENTROPY_VOXELS) or VP_ERESOURCE. */
int vp_entropy_local(struct vp_op *op, const struct vp_footprint *f, int64_t bins, double lo, double hi,
                     const int64_t image[3], enum vp_type type, struct vp_err *err);
