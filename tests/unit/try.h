/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans that are given, for tests that compare the planner's choice with all others. */
#pragma once

#include "base/err.h"
#include "engine/plan_internal.h"

#include <stdlib.h>

/* Complete a candidate of which bands, slab, part[], window, slabs, stream, lanes, twice are given. False if it is
 * over a limit. */
static inline bool vp_plan_try(struct vp_plan *plan, const struct vp_problem *p)
{
    struct vp_plan_model m;
    struct vp_err ignored = VP_ERR_INIT;
    if (vp_plan_model(&m, p, plan->twice, &ignored))
        return false;
    const bool ok = (!plan->held || vp_plan_hold(&m)) && vp_plan_derive(&m, plan) && vp_plan_fits(&m, plan);
    if (ok)
        vp_plan_price(&m, plan);
    free(m.made);
    return ok;
}
