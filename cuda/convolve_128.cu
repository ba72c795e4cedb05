/* SPDX-License-Identifier: BSD-3-Clause */
/* Passes of a convolution with transforms of 128 values: 16 in registers, 8 threads. */
#include "convolve_pass.cuh"

namespace vp
{

const convolve_length convolve_128 = length_of<line<16, 8>, 16, 4, 8, 6>::table;

}
