/* SPDX-License-Identifier: BSD-3-Clause */
/* The passes of separable filters in f64. */
#include "local/separable.h"

#include <omp.h>
#include <string.h>

#include "base/isa.h"
#include "base/size.h"
#include "local/separable_isa.h"

#define REAL double
#define REAL_TYPE VP_F64
#define TAG(name) vp_separable_f64_##name
#define KERNELS VP_ISA_FIND(vp_separable_f64, NULL)
#define TAPS(t) ((t)->f64)
#define EDGE_TAPS vp_taps_edge_f64
#include "local/separable_passes.inc"

const struct vp_separable_cpu vp_separable_f64 = {scratch, run, &carry};
