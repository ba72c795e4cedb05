/* SPDX-License-Identifier: BSD-3-Clause */
/* Passes of a convolution with transforms of 384 values: 24 in registers, 16 threads. */
#include "convolve_pass.cuh"

namespace vp
{

const convolve_length convolve_384 = length_of<line<24, 16>, 8, 4, 8, 4>::table;

}
