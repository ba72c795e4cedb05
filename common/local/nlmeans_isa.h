/* SPDX-License-Identifier: BSD-3-Clause */
/* Inner loops of nlmeans.c, built once for each instruction set. Rows of floats or doubles: n is a multiple of VP_NLMEANS_LANES,
 * so that every voxel goes through the same instructions wherever it lies in its row; they need not be aligned.
 * Private to nlmeans.c. */
#pragma once

#include <stdint.h>

enum { VP_NLMEANS_LANES = 16 };

#define REAL float
#define TAG(name) vp_nlmeans_##name
#include "local/nlmeans_isa.inc"
#undef REAL
#undef TAG
#define REAL double
#define TAG(name) vp_nlmeans_f64_##name
#include "local/nlmeans_isa.inc"
#undef REAL
#undef TAG

extern const struct vp_nlmeans_isa vp_nlmeans_avx512, vp_nlmeans_avx2, vp_nlmeans_generic;
extern const struct vp_nlmeans_f64_isa vp_nlmeans_f64_avx512, vp_nlmeans_f64_avx2, vp_nlmeans_f64_generic;
