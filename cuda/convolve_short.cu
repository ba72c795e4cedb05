/* SPDX-License-Identifier: BSD-3-Clause */
/* Passes of a convolution with transforms of 128 to 320 values; fft_shape<R1, R2> has R1 values a thread and R2 threads
 * a line. Longer ones are in convolve_long.cu, so that both compile in parallel. */
#include "convolve_pass.cuh"

namespace vp
{

const convolve_length convolve_128 = length_of<fft_shape<16, 8>, 16, 4, 8, 6>::table,
                      convolve_256 = length_of<fft_shape<16, 16>, 8, 6, 8, 6>::table,
                      convolve_288 = length_of<fft_shape<16, 18>, 8, 5, 16, 2>::table,
                      convolve_320 = length_of<fft_shape<16, 20>, 8, 4, 16, 2>::table;

}
