/* SPDX-License-Identifier: BSD-3-Clause */
/* What Fourier transforms in registers are made of: complex numbers, turns by constants, loops whose index the compiler
 * knows. */
#ifndef VP_TRANSFORM_CUH
#define VP_TRANSFORM_CUH

#include <cstdint>
#include <utility>

namespace vp
{

constexpr double PI = 3.14159265358979323846;

/* ---- arithmetic ---- */

struct __align__(8) cx {
    float re, im;
};

__device__ inline cx operator+(cx a, cx b) { return {a.re + b.re, a.im + b.im}; }
__device__ inline cx operator-(cx a, cx b) { return {a.re - b.re, a.im - b.im}; }
__device__ inline cx fetch(const cx *p)
{
    const float2 v = __ldg((const float2 *)p);
    return {v.x, v.y};
}
/* p, but the compiler does not know: or it would keep what it fetched before in registers all the time */
__device__ inline const cx *unknown(const cx *p)
{
    asm volatile("" : "+l"(p));
    return p;
}
/* a times w, or its conjugate */
template <bool BACK> __device__ inline cx turn(cx a, float wr, float wi)
{
    if (BACK)
        return {fmaf(a.im, wi, a.re * wr), fmaf(-a.re, wi, a.im * wr)};
    return {fmaf(-a.im, wi, a.re * wr), fmaf(a.re, wi, a.im * wr)};
}

/* cos(2 pi k / n) to the last bits of double, 0 <= k, for the compiler */
__host__ __device__ constexpr double cos_turn(int64_t k, int64_t n)
{
    k %= n;
    if (2 * k > n)
        k = n - k;
    if (4 * k > n)
        return -cos_turn(n - 2 * k, 2 * n);
    const bool far = 8 * k > n; /* the sine of the rest is the shorter series */
    const double x = 2 * PI * (far ? (double)(n - 4 * k) / 4 : (double)k) / (double)n;
    double term = far ? x : 1, sum = 0;
    for (int i = far ? 1 : 0; i < 22; i += 2) {
        sum += term;
        term *= -x * x / ((i + 1) * (i + 2));
    }
    return sum;
}
__host__ __device__ constexpr double sin_turn(int64_t k, int64_t n)
{
    return cos_turn(4 * k + 3 * n, 4 * n);
}

/* f(0), ..., f(N - 1), with numbers that the compiler knows */
template <int I> struct number {
    enum { value = I };
    __host__ __device__ constexpr operator int() const { return I; }
};
template <int... I, class F> __device__ inline void each(std::integer_sequence<int, I...>, F f)
{
    (f(number<I>()), ...);
}
template <int N, class F> __device__ inline void each(F f)
{
    each(std::make_integer_sequence<int, N>(), f);
}

/* a exp(-+ 2 pi i K / N) */
template <int K, int N, bool BACK> __device__ inline cx turn_by(cx a)
{
    if constexpr (K % N == 0)
        return a;
    else if constexpr (4 * K % N == 0 && 4 * K / N % 4 == 2)
        return {-a.re, -a.im};
    else if constexpr (4 * K % N == 0)
        return (4 * K / N % 4 == 1) != BACK ? cx{a.im, -a.re} : cx{-a.im, a.re};
    else if constexpr (8 * K % N == 0) {
        constexpr float c = (float)cos_turn(K, N), s = (float)(BACK ? sin_turn(K, N) : -sin_turn(K, N));
        if constexpr ((c > 0) == (s > 0))
            return {c * (a.re - a.im), c * (a.re + a.im)};
        else
            return {c * (a.re + a.im), c * (a.im - a.re)};
    } else {
        constexpr float c = (float)cos_turn(K, N), s = (float)-sin_turn(K, N);
        return turn<BACK>(a, c, s);
    }
}

}

#endif
