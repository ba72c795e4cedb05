/* Non-local means (Buades, Coll and Morel 2005): every voxel becomes the weighted mean of the voxels in a search window
 * around it, those with similar surroundings weighing most.
 *
 *     d2(x, y) = mean over the offsets o of the patch of (v(x + o) - v(y + o))^2
 *     w(x, y) = exp(-max(d2 - 2 sigma^2, 0) / h^2)
 *     result(x) = sum over y of w(x, y) v(y) / sum over y of w(x, y)
 *
 * Patch and search window are boxes. At the edge of the image the mean is over the offsets for which both samples
 * exist, and y runs over the voxels that exist. A NaN or an infinity reaches all voxels within search + patch.
 *
 * Order of operations (binary32): offsets y - x ascending, x fastest, then y, z. Of each the squared differences are
 * summed along y, then z, then x, each from the lowest offset up; pairs that do not exist count as 0. Then
 * d2 = sum * (rx * (ry * rz)) with the binary32 reciprocals of the pairs along each axis, and
 * a = min((2 sigma^2 - d2) * h^-2, 0), w = exp(a) (nlmeans_isa.c; relative error below 3e-7; 0 for a < -87),
 * total += w, value += w * (v(y) - v(x)), and result = v(x) + value / total: constants stay exactly. On the CPU also in binary64, of
 * f64 (relative error of w below 1e-15; 0 for a < -700). */
#pragma once

#include "engine/op.h"

enum { VP_NLMEANS_RADIUS = 64 }; /* maximum radius of search and patch */
/* Types of all devices; the CPU takes f64, too. */
#define VP_NLMEANS_TYPES (1u << VP_U8 | 1u << VP_U16 | 1u << VP_I16 | 1u << VP_F32)

/* op->params of "nlmeans". */
struct vp_nlmeans_params {
    double h, sigma;       /* in samples */
    int64_t search[3], patch[3];
    enum vp_type in, out;  /* out: f32, or `in`, of f64 also u32 and i32: rounded to the nearest, halves to even, clamped */
};

/* Functions of the operation on the CPU in f64 (nlmeans_f64.c). */
struct vp_nlmeans_cpu {
    uint64_t (*scratch)(const struct vp_op *op, const struct vp_box *in, const struct vp_box *out, int threads);
    int (*run)(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, void *mem, int threads,
               struct vp_err *err);
};
extern const struct vp_nlmeans_cpu vp_nlmeans_f64;

/* Fills *op; op->free releases its params. h > 0, sigma >= 0. The input is stack 0; set op->from[0] for another.
 * VP_EUSAGE or VP_ERESOURCE. */
int vp_nlmeans_local(struct vp_op *op, double h, double sigma, const int64_t search[3], const int64_t patch[3],
                     const int64_t image[3], enum vp_type in, enum vp_type out, struct vp_err *err);
