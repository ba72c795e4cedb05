/* SPDX-License-Identifier: BSD-3-Clause */
/* Passes of a convolution with transforms of 1024 values: 32 in registers, 32 threads. */
#include "convolve_pass.cuh"

namespace vp
{

const convolve_length convolve_1024 = length_of<line<32, 32>, 4, 4, 8, 2>::table;

}
