/* SPDX-License-Identifier: BSD-3-Clause */
/* The tiles of non-local means in f64. */
#include "local/nlmeans.h"

#include "base/isa.h"
#include "base/size.h"
#include "engine/chain.h"
#include "local/nlmeans_isa.h"

#include <omp.h>
#include <string.h>

#define REAL double
#define REAL_TYPE VP_F64
#define TAG(name) vp_nlmeans_f64_##name
#define KERNELS VP_ISA_FIND(vp_nlmeans_f64, NULL)
#include "local/nlmeans_tiles.inc"

const struct vp_nlmeans_cpu vp_nlmeans_f64 = {scratch, run};
