/* SPDX-License-Identifier: BSD-3-Clause */
/* Summed area tables of integers, modulo 2^32 and 2^64: signed types of the width of the sums are as good as
 * unsigned. */
#include "sat.cuh"

namespace vp
{
namespace sat
{

template <class A, bool SQUARE>
static int make(const struct vp_op *op, const struct vp_work *args, const struct vp_area *out, char *state,
                struct vp_err *err)
{
    return of_type<A>(op->in, [&](auto sample) {
        return run<decltype(sample), A, A, FEW, SQUARE>(op, args, out, state, err);
    });
}

int integers(const struct vp_op *op, const struct vp_work *args, int which, char *state, struct vp_err *err)
{
    const struct vp_sat *const p = (const struct vp_sat *)op->params;
    const struct vp_area *out = &args->out[which];
    const bool small = p->sum[which] == VP_SAT_U32;
    if (args->visit == VP_APPLY)
        return small ? add<uint32_t>(op, args, out, state, err) : add<uint64_t>(op, args, out, state, err);
    if (p->volume)
        return volume(op, args, which, state, err);
    if (which)
        return make<uint64_t, true>(op, args, out, state, err);
    return small ? make<uint32_t, false>(op, args, out, state, err) : make<uint64_t, false>(op, args, out, state, err);
}

uint64_t bytes_of_integers(const struct vp_op *op, int which, const int64_t out[3])
{
    const struct vp_sat *const p = (const struct vp_sat *)op->params;
    if (p->volume)
        return volume_bytes(op, which, out);
    if (p->sum[which] == VP_SAT_U32)
        return of_type<uint32_t>(op->in, [&](auto sample) { return bytes_of<decltype(sample), uint32_t, FEW>(p, out); });
    return of_type<uint64_t>(op->in, [&](auto sample) { return bytes_of<decltype(sample), uint64_t, FEW>(p, out); });
}

} // namespace sat
} // namespace vp
