/* SPDX-License-Identifier: BSD-3-Clause */
/* Passes of a convolution with transforms of 320 values: 16 in registers, 20 threads. */
#include "convolve_pass.cuh"

namespace vp
{

const convolve_length convolve_320 = length_of<line<16, 20>, 8, 4, 16, 2>::table;

}
