/* SPDX-License-Identifier: BSD-3-Clause */
/* Summed area tables: kernel "sat" of global/sat.h. Chooses the kernels of sat.cuh, sat_volume.cu or
 * sat_volume_floats.cu. Sums of integers are modulo 2^32 or 2^64, so unsigned sums serve signed outputs as well. */
#include "sat.cuh"

using namespace vp::sat;

namespace
{

constexpr auto params = vp_params<vp_sat>;

bool has(const struct vp_op *op, char *why, size_t size)
{
    if (params(op)->volume && op->out == VP_F32)
        snprintf(why, size, "no kernel for volumes of f32 sums");
    else if (params(op)->sum[0] == VP_SAT_F64 && op->in != VP_F32 && op->in != VP_F64)
        snprintf(why, size, "no kernel for tables of %s in %s", vp_type_name(op->in), vp_type_name(op->out));
    else
        return true;
    return false;
}

/* Returns f(sample, warps of a block) for sums in f64. */
template <class F> auto of_floats(const struct vp_op *op, const F &f)
{
    const std::integral_constant<int, BASE_WARPS> few;
    return params(op)->high == VP_SAT_TALL ? f(float(), std::integral_constant<int, TALL_WARPS>())
           : op->in == VP_F32              ? f(float(), few)
                                           : f(double(), few);
}

uint64_t bytes_of_table(const struct vp_op *op, int which, const int64_t out[3])
{
    const struct vp_sat *const p = params(op);
    if (p->sum[which] == VP_SAT_F64)
        return marches(op) ? march_bytes(out) : of_floats(op, [&](auto sample, auto warps) {
            return bytes_of<decltype(sample), double, warps.value>(p, out);
        });
    return p->volume ? volume_bytes(op, which, out) : of_integers(op, which, [&](auto sample, auto sum, auto) {
        return bytes_of<decltype(sample), decltype(sum), BASE_WARPS>(p, out);
    });
}

uint64_t scratch(const struct vp_op *op, const int64_t[3], const int64_t out[3])
{
    uint64_t most = 0;
    for (int k = 0; k < params(op)->tables; k++) { /* tables are computed in turn */
        const uint64_t bytes = bytes_of_table(op, k, out);
        most = bytes > most ? bytes : most;
    }
    return most;
}

uint64_t state(const struct vp_op *op, const int64_t out[3])
{
    const struct vp_box box = {{0, 0, 0}, {out[0], out[1], out[2]}};
    return op->keeps(op, &box, 1);
}

/* Parts of integers may begin anywhere; larger ones than the CPU's suit several devices. */
void demand(const struct vp_op *op, int64_t step[3], int64_t[3])
{
    enum { ROWS = 256, PLANES = 16, VOXELS = 1 << 24 };
    const struct vp_sat *const p = params(op);
    for (int k = 0; k < p->tables; k++)
        if (p->sum[k] == VP_SAT_F64)
            return;
    step[2] = p->volume ? vp_max64(1, vp_min64(PLANES, VOXELS / (op->image[0] * op->image[1]))) : (int64_t)ROWS;
}

int floats(const struct vp_op *op, const struct vp_work *work, int which, const table_part &j, struct vp_err *err)
{
    if (work->visit == VP_APPLY)
        return add_carry<double>(j, work, err);
    if (marches(op))
        return march(j, which, work, err);
    return of_floats(op, [&](auto sample, auto warps) {
        using In = decltype(sample);
        return which               ? run<In, double, double, warps.value, true>(j, work, err)
               : op->out == VP_F32 ? run<In, double, float, warps.value, false>(j, work, err)
                                   : run<In, double, double, warps.value, false>(j, work, err);
    });
}

int integers(const struct vp_op *op, const struct vp_work *work, int which, const table_part &j, struct vp_err *err)
{
    if (work->visit == VP_APPLY)
        return params(op)->sum[which] == VP_SAT_U32 ? add_carry<uint32_t>(j, work, err)
                                                    : add_carry<uint64_t>(j, work, err);
    if (j.volume)
        return volume(op, which, j, work, err);
    return of_integers(op, which, [&](auto sample, auto sum, auto square) {
        return run<decltype(sample), decltype(sum), decltype(sum), BASE_WARPS, square.value>(j, work, err);
    });
}

int launch(const struct vp_op *op, const struct vp_work *work, struct vp_err *err)
{
    char *at = (char *)work->state;
    for (int k = 0; k < params(op)->tables; k++) {
        const table_part j = part_of(op, work, k, at);
        if (params(op)->sum[k] == VP_SAT_F64 ? floats(op, work, k, j, err) : integers(op, work, k, j, err))
            return -1;
        at += vp_sat_carried(op, k);
    }
    return 0;
}

} // namespace

VP_GPU_KERNEL(sat, has, scratch, NULL, NULL, launch, state, demand);
