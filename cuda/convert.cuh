/* SPDX-License-Identifier: BSD-3-Clause */
/* Samples of every type as doubles, as vp_convert() converts them. */
#pragma once

#include "launch.cuh"

#include <type_traits>

namespace vp
{

template <class F> __device__ __forceinline__ auto by_any_type(int type, const F &f)
{
    return vp_by_type_of<~0u, double>(type, f);
}

__device__ __forceinline__ double convert_load(const void *data, int64_t i, int type)
{
    return by_any_type(type, [=](auto s) { return (double)((const decltype(s) *)data)[i]; });
}

/* Stores v: integers are rounded to nearest even and clamped, NaN becomes 0. True if v was out of range, as vp_convert
 * counts. */
__device__ __forceinline__ bool convert_store(void *data, int64_t i, int type, double v)
{
    return by_any_type(type, [=](auto s) {
        using T = decltype(s);
        T *const to = (T *)data + i;
        if constexpr (std::is_floating_point<T>::value) {
            *to = (T)v;
            return isinf((T)v) && !isinf(v);
        } else {
            constexpr T LEAST = vp_limits<T>::LEAST, MOST = vp_limits<T>::MOST;
            const double r = rint(v);
            const bool fits = r >= (double)LEAST && r < 2.0 * (double)(MOST / 2 + 1);
            *to = fits ? (T)r : r > 0 ? MOST : r < 0 ? LEAST : (T)0;
            return !fits;
        }
    });
}

}
