/* SPDX-License-Identifier: BSD-3-Clause */
/* Laplacian of Gaussian: operation "log" of local/log.h. */
#include "separable.h"

extern "C" {
#include "local/log.h"
}

namespace vp
{
namespace
{

separable filters(const vp_op *op)
{
    const vp_log *l = static_cast<const vp_log *>(op->params);
    separable s = {};
    s.filters = 2;
    for (int a = 0; a < 3; a++) {
        s.filter[a][0] = &l->smooth[a];
        s.filter[a][1] = &l->second[a];
    }
    return s;
}

using kernel = separable_kernel<filters>;

}
}

extern "C" const vp_kernel vp_gpu_log = {"log", vp::kernel::has, vp::kernel::scratch, vp::kernel::table,
                                             vp::kernel::fill, vp::kernel::launch};
