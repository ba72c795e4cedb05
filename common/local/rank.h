/* Median and percentiles over a neighbourhood of any size and shape: the sample with the wanted rank among the samples
 * inside the image, so results are samples of the image, of its type, exact on every device.
 *
 * The percentile P of n samples is, in ascending order, number ceil(P n / 100) (nearest rank; at least number 1): the
 * median (50) of an even number of samples is the lower one of the two in the middle, 0 is the minimum and 100 the
 * maximum. P counts to 1e-6.
 *
 * Types u8, u16, i16, f32, and on the CPU u32, i32 and f64. Floats: -0 is smaller than +0; NaN, of either sign, is larger
 * than +infinity (and comes out as the NaN 0x7fc00000; f64: 0x7ff8000000000000). If no sample of a set lies in the image, the result is NaN (0 of integers). */
#pragma once

#include "local/footprint.h"

/* Types of all devices; the CPU takes VP_TYPES_WIDE, too. */
#define VP_RANK_TYPES (1u << VP_U8 | 1u << VP_U16 | 1u << VP_I16 | 1u << VP_F32)

struct vp_rank_cpu;

/* op->params of "rank". */
struct vp_rank_params {
    struct vp_footprint f;
    int64_t millionths;        /* percentile in millionths of a percent: 50,000,000 is the median */
    enum vp_type type;
    struct vp_rank_cpu *cpu;   /* plan of the CPU */
};

/* Returns the rank of the percentile, from 0, among n > 0 sorted samples. */
VP_ANYWHERE static inline int64_t vp_rank_index(int64_t millionths, int64_t n)
{
    const int64_t hundred = 100000000, whole = n / hundred, rest = n % hundred;
    const int64_t place = whole * millionths + (rest * millionths + hundred - 1) / hundred;

    return place > 0 ? place - 1 : 0;
}

/* Fills *op; op->free releases its params, `f` is copied. The input is stack 0; set op->from[0] for another. `moving`:
 * by the moving histogram only (for tests). VP_EUSAGE or VP_ERESOURCE. */
int vp_rank_local(struct vp_op *op, double percentile, const struct vp_footprint *f, const int64_t image[3],
                  enum vp_type type, bool moving, struct vp_err *err);
