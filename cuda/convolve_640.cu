/* SPDX-License-Identifier: BSD-3-Clause */
/* Passes of a convolution with transforms of 640 values: 20 in registers, 32 threads. */
#include "convolve_pass.cuh"

namespace vp
{

const convolve_length convolve_640 = length_of<line<20, 32>, 4, 4, 8, 2>::table;

}
