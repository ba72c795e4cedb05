/* SPDX-License-Identifier: BSD-3-Clause */
/* Samples of the types that local operations take, as numbers. */
#pragma once

#include "stack/stack.h"

static inline double sample(const void *p, enum vp_type type, int64_t i)
{
    switch (type) {
    case VP_U8: return ((const uint8_t *)p)[i];
    case VP_U16: return ((const uint16_t *)p)[i];
    case VP_I16: return ((const int16_t *)p)[i];
    case VP_U32: return ((const uint32_t *)p)[i];
    case VP_I32: return ((const int32_t *)p)[i];
    case VP_F64: return ((const double *)p)[i];
    default: return ((const float *)p)[i];
    }
}

static inline void put(void *p, enum vp_type type, int64_t i, double v)
{
    switch (type) {
    case VP_U8: ((uint8_t *)p)[i] = (uint8_t)v; break;
    case VP_U16: ((uint16_t *)p)[i] = (uint16_t)v; break;
    case VP_I16: ((int16_t *)p)[i] = (int16_t)v; break;
    case VP_U32: ((uint32_t *)p)[i] = (uint32_t)v; break;
    case VP_I32: ((int32_t *)p)[i] = (int32_t)v; break;
    case VP_F64: ((double *)p)[i] = v; break;
    default: ((float *)p)[i] = (float)v;
    }
}
