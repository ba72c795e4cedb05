/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/rates.h"

#define VALUE(name, value, unit, what, where) .name = value,
const struct vp_rates vp_rates = {VP_RATES(VALUE)};
