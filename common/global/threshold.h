/* SPDX-License-Identifier: BSD-3-Clause */
/* One threshold for an image, given or found in its histogram, and the mask of the samples above it.
 *
 * Integers of 8 and 16 bits have a bin for every value of their type, so the histogram is exact; floats and integers of
 * 32 bits have `bins` equal parts of a range. A threshold is the middle of a bin, which is still below it. The formulas are those of
 * scikit-image, in float64; of several equally good thresholds the lowest is taken. */
#pragma once

#include "engine/op.h"

#include <math.h>

enum vp_threshold { VP_AT, VP_OTSU, VP_TRIANGLE, VP_LI, VP_YEN, VP_ISODATA };

enum { VP_THRESHOLD_BINS = 65536 };
/* Types of all devices; the CPU takes VP_TYPES_WIDE, too. */
#define VP_THRESHOLD_TYPES (1u << VP_U8 | 1u << VP_U16 | 1u << VP_I16 | 1u << VP_F32)

/* count[0 .. bins): bin i is at first + i * width. */
struct vp_levels { const uint64_t *count; int64_t bins; double first, width; };

/* Returns the threshold; NaN if all counts are 0, the level itself if only one has counts. */
double vp_threshold_find(enum vp_threshold method, const struct vp_levels *levels);

/* Thresholds of the images of a run, in samples, in order; NaN: no finite sample. Zero-initialised by the user. */
struct vp_found { int64_t n, room; double *limit; };
void vp_found_free(struct vp_found *f);

/* op->params of "threshold". */
struct vp_threshold_params {
    enum vp_type type;
    enum vp_threshold method;
    double limit;           /* VP_AT */
    bool below;             /* marks samples not above the limit, instead of those above it; never NaN */
    uint8_t mark;           /* value of marked samples; others become 0 */
    int64_t bins;           /* bins of the histogram */
    double lo, hi;          /* f32 f64 u32 i32: their range */
    double per_bin;         /* bins / (hi - lo), 0 if hi = lo */
    struct vp_found *found; /* may be NULL */
};

/* Entry of a box: its histogram (without infinities and NaN), and after the solve the limit. */
struct vp_threshold_entry {
    uint64_t bytes;
    double limit;
    uint64_t first;   /* not 0: first box of an image, whose entries begin here */
    uint32_t count[]; /* `bins` */
};

/* Returns the bin of a sample of f32; `bins` if it is not finite. */
VP_ANYWHERE static inline int64_t vp_threshold_bin(const struct vp_threshold_params *p, float v)
{
    const double at = ((double)v - p->lo) * p->per_bin;

    if (!(v - v == 0))
        return p->bins;
    return at >= (double)(p->bins - 1) ? p->bins - 1 : at >= 1 ? (int64_t)at : 0;
}

/* Does the same for a sample of another type that has a range. */
static inline int64_t vp_threshold_bin_of(const struct vp_threshold_params *p, double v)
{
    const double at = (v - p->lo) * p->per_bin;

    if (!(v - v == 0))
        return p->bins;
    return at >= (double)(p->bins - 1) ? p->bins - 1 : at >= 1 ? (int64_t)at : 0;
}

/* True if the histogram of a type has equal parts of a range. */
static inline bool vp_threshold_ranges(enum vp_type type)
{
    return type == VP_F32 || VP_TYPES_WIDE & 1u << type;
}

/* Returns the limit for integers, and for f32: samples above it are those above `limit`. NaN: no sample is marked. */
VP_ANYWHERE static inline int32_t vp_threshold_int(double limit)
{
    return limit >= 65536 ? 65536 : limit >= -32769 ? (int32_t)floor(limit) : -32769;
}

VP_ANYWHERE static inline float vp_threshold_float(double limit)
{
    const float f = (float)limit;
    return (double)f > limit ? nextafterf(f, -INFINITY) : f;
}

/* Fills *op from method, limit, below, mark, bins, lo, hi and found of `want`; op->free releases its params. The input
 * is stack 0; set op->from[0] for another. VP_EUSAGE (type, bins, range) or VP_ERESOURCE. */
int vp_threshold_op(struct vp_op *op, const struct vp_threshold_params *want, const int64_t image[3],
                    enum vp_type type, struct vp_err *err);
