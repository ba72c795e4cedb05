/* SPDX-License-Identifier: BSD-3-Clause */
/* Summed area tables: kernel "sat" of image/sat.h, and the tables of sums in f64. */
#include "sat.cuh"

#include "base/size.h"

using namespace vp::sat;

namespace
{

/* What a float becomes f64 from. */
bool is_native(enum vp_type t)
{
    return t == VP_F32 || t == VP_F64;
}

bool has(const struct vp_op *op, char *why, size_t size)
{
    const struct vp_sat *const p = (const struct vp_sat *)op->params;
    if (p->volume && op->out == VP_F32) {
        snprintf(why, size, "no kernel for volumes of f32 sums");
        return false;
    }
    if (p->sum[0] != VP_SAT_F64 || is_native(op->in))
        return true;
    snprintf(why, size, "no kernel for tables of %s in %s", vp_type_name(op->in), vp_type_name(op->out));
    return false;
}

uint64_t scratch(const struct vp_op *op, const int64_t[3], const int64_t out[3])
{
    const struct vp_sat *const p = (const struct vp_sat *)op->params;
    uint64_t most = 0;
    for (int k = 0; k < p->tables; k++) { /* one after the other */
        const uint64_t bytes = p->sum[k] != VP_SAT_F64 ? bytes_of_integers(op, k, out)
                               : marches(op)           ? march_bytes(out)
                               : p->high == VP_SAT_TALL ? bytes_of<float, double, MANY>(p, out)
                               : op->in == VP_F32      ? bytes_of<float, double, FEW>(p, out)
                                                       : bytes_of<double, double, FEW>(p, out);
        most = bytes > most ? bytes : most;
    }
    return most;
}

uint64_t state(const struct vp_op *op, const int64_t out[3])
{
    const struct vp_box box = {{0, 0, 0}, {out[0], out[1], out[2]}};
    return op->keeps(op, &box, 1);
}

/* Integers may begin anywhere, and several devices want larger parts than the CPU. */
void demand(const struct vp_op *op, int64_t step[3], int64_t[3])
{
    enum { ROWS = 256, PLANES = 16, VOXELS = 1 << 24 };
    const struct vp_sat *const p = (const struct vp_sat *)op->params;
    for (int k = 0; k < p->tables; k++)
        if (p->sum[k] == VP_SAT_F64)
            return;
    step[2] = p->volume ? vp_max64(1, vp_min64(PLANES, VOXELS / (op->image[0] * op->image[1]))) : (int64_t)ROWS;
}

template <class In, int WARPS>
int floats(const struct vp_op *op, const struct vp_work *args, int which, char *state, struct vp_err *err)
{
    const struct vp_area *out = &args->out[which];
    if (marches(op))
        return march(op, args, which, state, err);
    if (which)
        return run<In, double, double, WARPS, true>(op, args, out, state, err);
    return op->out == VP_F32 ? run<In, double, float, WARPS, false>(op, args, out, state, err)
                             : run<In, double, double, WARPS, false>(op, args, out, state, err);
}

int launch(const struct vp_op *op, const struct vp_work *args, struct vp_err *err)
{
    const struct vp_sat *const p = (const struct vp_sat *)op->params;
    char *at = (char *)args->state;
    for (int k = 0; k < p->tables; k++) {
        const int rc = p->sum[k] != VP_SAT_F64  ? integers(op, args, k, at, err)
                       : args->visit == VP_APPLY ? add<double>(op, args, &args->out[k], at, err)
                       : p->high == VP_SAT_TALL  ? floats<float, MANY>(op, args, k, at, err)
                       : op->in == VP_F32        ? floats<float, FEW>(op, args, k, at, err)
                                                 : floats<double, FEW>(op, args, k, at, err);
        if (rc)
            return -1;
        at += vp_sat_carried(op, k);
    }
    return 0;
}

} // namespace

const struct vp_kernel vp_gpu_sat = {"sat", has, scratch, NULL, NULL, launch, state, demand};
