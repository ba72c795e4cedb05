/* SPDX-License-Identifier: BSD-3-Clause */
/* Passes of a convolution with transforms of 256 values: 16 in registers, 16 threads. */
#include "convolve_pass.cuh"

namespace vp
{

const convolve_length convolve_256 = length_of<line<16, 16>, 8, 6, 8, 6>::table;

}
