/* SPDX-License-Identifier: BSD-3-Clause */
/* The difference of two images, of which the first is nowhere smaller: kernel "subtract" of local/morph.h. One thread a
 * voxel. */
#include "footprint.cuh"
#include "local/extremum.h"

#include <type_traits>

namespace
{

template <class S, class D> __global__ void __launch_bounds__(256) subtract_kernel(vp_area a, vp_area b, vp_area out)
{
    vp_each_voxel(out.box, [&](int64_t x, int64_t y, int64_t z) {
        *vp_at<D>(out, x, y, z) = (D)(*vp_at<S>(a, x, y, z) - *vp_at<S>(b, x, y, z));
    });
}

bool has(const struct vp_op *op, char *why, size_t size)
{
    /* the difference of two i16 is a u16 */
    return vp_has_types((VP_EXTREMUM_TYPES & 1u << op->in) && op->out == (op->in == VP_I16 ? VP_U16 : op->in), op, why,
                        size);
}

int launch(const struct vp_op *op, const struct vp_work *args, struct vp_err *err)
{
    return vp_by_type(op->in, [=](auto s) {
        using S = decltype(s);
        using D = std::conditional_t<std::is_same<S, int16_t>::value, uint16_t, S>;
        return vp_start_voxels(err, args, args->out->box, subtract_kernel<S, D>, args->in[0], args->in[1], *args->out);
    });
}

} // namespace

VP_GPU_KERNEL(subtract, has, NULL, NULL, NULL, launch);
