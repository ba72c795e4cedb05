/* SPDX-License-Identifier: BSD-3-Clause */
/* Results from sums, for the kernels of moments.cu: means, variances, deviations, Wiener's estimate, marks. */
#pragma once

#include "footprint.cuh"
#include "local/moments.h"

#include <type_traits>

namespace
{

/* Partial moments: the sum, and for N = 2 the sum of squares (integers) or of squared deviations (floats). */
template <class T, int N> struct state {
    T v[N];
};

struct result_args {
    enum vp_moment moment;
    bool sample;
    double noise;
    struct vp_limit limit;
};

/* Returns k q - s^2 as a double, rounded once. */
__device__ double spread_of(uint64_t k, uint64_t q, int64_t s)
{
    const uint64_t a = (uint64_t)(s < 0 ? -s : s);
    const uint64_t lo1 = k * q, hi1 = __umul64hi(k, q), lo2 = a * a, hi2 = __umul64hi(a, a);
    const uint64_t lo = lo1 - lo2, hi = hi1 - hi2 - (lo1 < lo2); /* never negative */
    if (!hi)
        return (double)lo;
    const int shift = 64 - __clzll((long long)hi);
    const uint64_t top = hi << (64 - shift) | (shift < 64 ? lo >> shift : 0),
                   rest = shift < 64 ? lo << (64 - shift) : lo;
    return ldexp((double)(top | (rest != 0)), shift);
}

/* True if results are rounded to integers. */
template <class O> constexpr bool WHOLE = !std::is_same<O, float>::value;

template <class O> __device__ O stored(double v)
{
    if constexpr (WHOLE<O>) {
        constexpr double lo = vp_limits<O>::LEAST, hi = vp_limits<O>::MOST;
        v = v != v ? 0 : rint(v > lo ? (v < hi ? v : hi) : lo);
        return (O)(int)v;
    }
    return (O)v;
}

/* Returns v / by, as on the CPU: for float32 output by the reciprocal. */
__device__ double divided(double v, double by, bool exact)
{
    return exact ? v / by : v * (1 / by);
}

/* Returns n^2 times the variance. */
template <int N> __device__ double spread(const state<uint64_t, N> &s, double n)
{
    return spread_of((uint64_t)n, s.v[N - 1], (int64_t)s.v[0]);
}
template <int N> __device__ double spread(const state<double, N> &s, double n)
{
    return s.v[N - 1] * n;
}

template <int N> __device__ double variance(const state<uint64_t, N> &s, double n, double less, bool exact)
{
    const double left = n - less > 0 ? n - less : 1;
    return divided(spread(s, n), left * n, exact);
}
template <int N> __device__ double variance(const state<double, N> &s, double n, double less, bool exact)
{
    return divided(s.v[N - 1], n - less > 0 ? n - less : 1, exact);
}
__device__ double total(uint64_t s)
{
    return (double)(int64_t)s;
}
__device__ double total(double s)
{
    return s;
}

template <class T, int N>
__device__ double result(const result_args &f, const state<T, N> &s, double n, double x, bool exact)
{
    if (f.moment == VP_ABOVE)
        return vp_limit_mark(&f.limit, N == 2, n, total(s.v[0]), N == 2 ? spread(s, n) : 0, x);
    const double mean = divided(total(s.v[0]), n, exact);
    if (N == 1)
        return mean;
    const double var = variance(s, n, f.sample ? 1 : 0, exact);
    if (f.moment == VP_WIENER)
        return var > f.noise ? fma((var - f.noise) / var, x - mean, mean) : mean;
    return f.moment == VP_STD ? sqrt(var) : var;
}

} // namespace
