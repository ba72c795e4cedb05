/* SPDX-License-Identifier: BSD-3-Clause */
/* Passes of a convolution with transforms of 512 values: 32 in registers, 16 threads. */
#include "convolve_pass.cuh"

namespace vp
{

const convolve_length convolve_512 = length_of<line<32, 16>, 8, 4, 8, 4>::table;

}
