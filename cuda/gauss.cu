/* SPDX-License-Identifier: BSD-3-Clause */
/* Gaussian filter and its derivatives: operation "gauss" of local/gauss.h. */
#include "separable.h"

namespace vp
{
namespace
{

separable filters(const vp_op *op)
{
    const vp_gauss *g = static_cast<const vp_gauss *>(op->params);
    separable s = {};
    s.filters = 1;
    s.highpass = g->passes.highpass;
    for (int a = 0; a < 3; a++)
        s.filter[a][0] = &g->axis[a];
    return s;
}

using kernel = separable_kernel<filters>;

}
}

extern "C" const vp_kernel vp_gpu_gauss = {"gauss", vp::kernel::has, vp::kernel::scratch, vp::kernel::table,
                                             vp::kernel::fill, vp::kernel::launch};
