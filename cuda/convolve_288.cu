/* SPDX-License-Identifier: BSD-3-Clause */
/* Passes of a convolution with transforms of 288 values: 16 in registers, 18 threads. */
#include "convolve_pass.cuh"

namespace vp
{

const convolve_length convolve_288 = length_of<line<16, 18>, 8, 5, 16, 2>::table;

}
