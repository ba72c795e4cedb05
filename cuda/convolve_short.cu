/* SPDX-License-Identifier: BSD-3-Clause */
/* Passes of a convolution with transforms of 128 to 320 values, those of line<> in registers by threads; longer ones
 * are in convolve_long.cu, so that both are compiled at the same time. */
#include "convolve_pass.cuh"

namespace vp
{

const convolve_length convolve_128 = length_of<line<16, 8>, 16, 4, 8, 6>::table,
                      convolve_256 = length_of<line<16, 16>, 8, 6, 8, 6>::table,
                      convolve_288 = length_of<line<16, 18>, 8, 5, 16, 2>::table,
                      convolve_320 = length_of<line<16, 20>, 8, 4, 16, 2>::table;

}
