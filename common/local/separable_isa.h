/* SPDX-License-Identifier: BSD-3-Clause */
/* Inner loops of separable filters (separable.h has the arithmetic), built once for each instruction set. Private to
 * separable.c, to convolve_isa.c (conversion of samples), tests and benchmarks. */
#pragma once

#include "local/separable.h"

/* Maximum of outputs made together; columns side by side where the filter runs along x. */
enum { VP_SEPARABLE_BLOCK = 8, VP_SEPARABLE_COLUMNS = 16 };

#define REAL float
#define TAG(name) vp_separable_##name
#include "local/separable_isa.inc"
#undef REAL
#undef TAG
#define REAL double
#define TAG(name) vp_separable_f64_##name
#include "local/separable_isa.inc"
#undef REAL
#undef TAG

extern const struct vp_separable_isa vp_separable_avx512, vp_separable_avx2, vp_separable_generic;
extern const struct vp_separable_f64_isa vp_separable_f64_avx512, vp_separable_f64_avx2, vp_separable_f64_generic;
