/* SPDX-License-Identifier: BSD-3-Clause */
/* Samples that do not exist, on a device: a part, its samples with their states, and the decision on a voxel. */
#pragma once

#include "convert.cuh"
#include "footprint.cuh"
#include "local/missing_internal.h"

/* Returns the kernel of an operation by its name, or NULL (device.c). */
extern "C" const struct vp_kernel *vp_gpu_kernel(const char *name);

namespace vp
{

/* Words of samples that are not present: no float that is no NaN has these bits, and no key. */
constexpr uint32_t MISSING_ABSENT = 0xffffffffu, MISSING_OUTSIDE = 0xfffffffeu;

/* Words of present samples: bits of the float, keys in the order of the values, bins of a histogram. */
enum missing_word { MISSING_VALUE, MISSING_KEY, MISSING_BIN };

/* A part of the result, with what its voxels need. Positions in `seen` count from its first sample. */
struct missing_part {
    vp_area in, mask, out;
    int in_type, out_type;
    int64_t image[3];            /* voxels of the input */
    int edge;
    int lo[3], hi[3];            /* offsets of the first and the last sample that a voxel needs */
    int64_t first[3];            /* position of seen[0] in the input */
    int64_t n[3];                /* sizes of `seen` */
    int64_t made[3];             /* those of the part */
    bool first_stage, valued, masked, keeps;
    double value, coverage, none;
    uint32_t *seen;
    uint8_t *near_x, *near_y;    /* 1 if something is missing along x; along x and y */
};

/* Returns a sample as a float, which holds all narrow types. */
__device__ __forceinline__ float missing_load(const vp_area &a, int type, int64_t x, int64_t y, int64_t z)
{
    const int64_t i = vp_place(a, x, y, z);
    return vp_by_type_of<1u << VP_U8 | 1u << VP_U16 | 1u << VP_I16, float>(
        type, [=](auto s) { return (float)((const decltype(s) *)a.data)[i]; });
}

/* Stores v as convert_store() does; every NaN is the same. */
__device__ __forceinline__ void missing_store(const vp_area &a, int type, int64_t x, int64_t y, int64_t z, double v)
{
    if (type == VP_F32)
        *vp_at<float>(a, x, y, z) = v != v ? __uint_as_float(0x7fc00000u) : (float)v;
    else
        convert_store(a.data, vp_place(a, x, y, z), type, v);
}

/* Returns the sample at a position of the input that exists, NaN if it is missing. */
__device__ __forceinline__ float missing_sample(const missing_part &p, int64_t x, int64_t y, int64_t z)
{
    const float v = missing_load(p.in, p.in_type, x, y, z);
    const bool gone = p.first_stage && ((p.valued && (double)v == p.value) ||
                                        (p.masked && missing_load(p.mask, p.in_type, x, y, z) == 0));
    return gone ? __uint_as_float(MISSING_ABSENT) : v;
}

/* Return the index in `seen`, and the word, of the sample at the offsets 0 of a voxel that is (x, y, z) of the part. */
__device__ __forceinline__ int64_t missing_at(const missing_part &p, int64_t x, int64_t y, int64_t z)
{
    return ((z - p.lo[2]) * p.n[1] + y - p.lo[1]) * p.n[0] + x - p.lo[0];
}

__device__ __forceinline__ float missing_float(uint32_t word)
{
    return word >= MISSING_OUTSIDE ? 0.0f : __uint_as_float(word);
}

/* True if something is missing within the reach of voxel (x, y, z) of the part. */
__device__ __forceinline__ bool missing_near(const missing_part &p, int64_t x, int64_t y, int64_t z)
{
    const uint8_t *const near = p.near_y + (z * p.made[1] + y) * p.made[0] + x;
    const int64_t plane = p.made[0] * p.made[1];
    bool any = false;
    for (int k = 0; k <= p.hi[2] - p.lo[2] && !any; k++)
        any = near[k * plane];
    return any;
}

/* Decides as vp_missing_decide() does; `self`: the word at the voxel's place. */
__device__ __forceinline__ vp_missing_result missing_decide(const missing_part &p, uint32_t self, double present,
                                                            double absent)
{
    if (!(present > 0) || present < __dmul_rn(__dmul_rn(p.coverage, present + absent), 1 - 1e-9))
        return VP_HOLE;
    return p.keeps && self == MISSING_ABSENT ? VP_HOLE : VP_MADE;
}

/* Calls make(x, y, z, index of its sample in `seen`, result) for the voxels of the part that have something missing
 * near, and stores what it returns. */
template <class F> __device__ __forceinline__ void missing_each(const missing_part &p, const F &make)
{
    vp_each_voxel(p.out.box, [&](int64_t ox, int64_t oy, int64_t oz) {
        const int64_t x = ox - p.out.box.lo[0], y = oy - p.out.box.lo[1], z = oz - p.out.box.lo[2];
        if (!missing_near(p, x, y, z))
            return;
        double result = 0;
        const vp_missing_result what = make(x, y, z, missing_at(p, x, y, z), result);
        if (what != VP_AS_IS)
            missing_store(p.out, p.out_type, ox, oy, oz, what == VP_MADE ? result : p.none);
    });
}

/* Run the rules for a part whose `seen` and marks are filled; `table` and `scratch` are those of the rule. */
typedef int missing_rule_launch(const missing_part &p, const struct vp_op *op, const struct vp_work *work,
                                const void *table, void *scratch, struct vp_err *err);

/* A rule on a device. */
struct missing_rule {
    const char *kernels[8];      /* operations that it is the rule of */
    enum missing_word word;
    uint64_t (*table)(const vp_missing_params *m);               /* bytes; NULL: none */
    void (*fill)(const vp_missing_params *m, void *table);
    uint64_t (*scratch)(const vp_missing_params *m, const int64_t seen[3], const int64_t made[3]); /* NULL: none */
    missing_rule_launch *launch;
    /* True if it can be done; NULL: always. */
    bool (*has)(const vp_missing_params *m, char *why, size_t size);
};

extern const missing_rule missing_rules_window[4], missing_rules_sums[3]; /* missing_window.cu, missing_sums.cu */

}
