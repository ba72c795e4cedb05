/* SPDX-License-Identifier: BSD-3-Clause */
/* Passes of a convolution with transforms of 384 to 1024 values (compare convolve_short.cu). */
#include "convolve_pass.cuh"

namespace vp
{

const convolve_length convolve_384 = length_of<fft_shape<24, 16>, 8, 4, 8, 4>::table,
                      convolve_512 = length_of<fft_shape<32, 16>, 8, 4, 8, 4>::table,
                      convolve_640 = length_of<fft_shape<20, 32>, 4, 4, 8, 2>::table,
                      convolve_1024 = length_of<fft_shape<32, 32>, 4, 4, 8, 2>::table;

}
