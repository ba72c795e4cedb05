/* SPDX-License-Identifier: BSD-3-Clause */
/* Summed area tables of integers, modulo 2^32 and 2^64: signed types of the width of the sums are as good as unsigned. */
#include "sat.cuh"

namespace vp
{
namespace sat
{

template <class A, bool SQUARE>
static int of_type(const struct vp_op *op, const struct vp_work *args, const struct vp_area *out, char *state,
                   struct vp_err *err)
{
    switch (op->in) {
    case VP_U8: return run<uint8_t, A, A, SQUARE>(op, args, out, state, err);
    case VP_U16: return run<uint16_t, A, A, SQUARE>(op, args, out, state, err);
    case VP_I8: return run<int8_t, A, A, SQUARE>(op, args, out, state, err);
    case VP_I16: return run<int16_t, A, A, SQUARE>(op, args, out, state, err);
    case VP_U32: return run<uint32_t, A, A, SQUARE>(op, args, out, state, err);
    default: break;
    }
    if constexpr (sizeof(A) == 8) {
        if (op->in == VP_I32)
            return run<int32_t, A, A, SQUARE>(op, args, out, state, err);
        return run<uint64_t, A, A, SQUARE>(op, args, out, state, err);
    } else {
        return run<uint32_t, A, A, SQUARE>(op, args, out, state, err);
    }
}

int integers(const struct vp_op *op, const struct vp_work *args, int which, char *state, struct vp_err *err)
{
    const struct vp_sat *const p = (const struct vp_sat *)op->params;
    const struct vp_area *out = &args->out[which];
    if (args->visit == VP_APPLY)
        return p->sum[which] == VP_SAT_U32 ? add<uint32_t>(op, args, out, state, err)
                                           : add<uint64_t>(op, args, out, state, err);
    if (which)
        return of_type<uint64_t, true>(op, args, out, state, err);
    return p->sum[which] == VP_SAT_U32 ? of_type<uint32_t, false>(op, args, out, state, err)
                                       : of_type<uint64_t, false>(op, args, out, state, err);
}

} // namespace sat
} // namespace vp
