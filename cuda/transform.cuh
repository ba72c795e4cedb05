/* SPDX-License-Identifier: BSD-3-Clause */
/* Building blocks of Fourier transforms in registers: complex numbers, twiddle factors, loops with constant indices. */
#pragma once

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
/* Returns p, opaque to the optimiser: it would keep earlier loads in registers instead of repeating them. */
__device__ inline const cx *reloaded(const cx *p)
{
    asm volatile("" : "+l"(p));
    return p;
}
/* Returns a times w = (wr, wi), INVERSE: times its conjugate. */
template <bool INVERSE> __device__ inline cx times_twiddle(cx a, float wr, float wi)
{
    if (INVERSE)
        return {fmaf(a.im, wi, a.re * wr), fmaf(-a.re, wi, a.im * wr)};
    return {fmaf(-a.im, wi, a.re * wr), fmaf(a.re, wi, a.im * wr)};
}

/* Returns cos(2 pi k / n) to about one ulp at compile time, k >= 0. */
__host__ __device__ constexpr double cos_turn(int64_t k, int64_t n)
{
    k %= n;
    if (2 * k > n)
        k = n - k;
    if (4 * k > n)
        return -cos_turn(n - 2 * k, 2 * n);
    const bool far = 8 * k > n; /* the sine of the complement converges faster */
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

/* Calls f(0), ..., f(N - 1) with compile-time constants. */
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

/* Returns a exp(-+ 2 pi i K / N). */
template <int K, int N, bool INVERSE> __device__ inline cx times_root(cx a)
{
    if constexpr (K % N == 0)
        return a;
    else if constexpr (4 * K % N == 0 && 4 * K / N % 4 == 2)
        return {-a.re, -a.im};
    else if constexpr (4 * K % N == 0)
        return (4 * K / N % 4 == 1) != INVERSE ? cx{a.im, -a.re} : cx{-a.im, a.re};
    else if constexpr (8 * K % N == 0) {
        constexpr float c = (float)cos_turn(K, N), s = (float)(INVERSE ? sin_turn(K, N) : -sin_turn(K, N));
        if constexpr ((c > 0) == (s > 0))
            return {c * (a.re - a.im), c * (a.re + a.im)};
        else
            return {c * (a.re + a.im), c * (a.im - a.re)};
    } else {
        constexpr float c = (float)cos_turn(K, N), s = (float)-sin_turn(K, N);
        return times_twiddle<INVERSE>(a, c, s);
    }
}

__device__ inline cx scaled_plus(float f, cx a, cx c)
{
    return {fmaf(f, a.re, c.re), fmaf(f, a.im, c.im)};
}

/* Transforms 2 to 5 values in place, in natural order; INVERSE has the sign + and no factor 1 / N. */
template <int N, bool INVERSE> __device__ __forceinline__ void small_dft(cx *v)
{
    if constexpr (N == 2) {
        const cx a = v[0], b = v[1];
        v[0] = a + b;
        v[1] = a - b;
    } else if constexpr (N == 3) {
        constexpr float s = (float)(INVERSE ? -sin_turn(1, 3) : sin_turn(1, 3));
        const cx p = v[1] + v[2], d = v[1] - v[2], m = scaled_plus(-0.5f, p, v[0]);
        v[0] = v[0] + p;
        v[1] = {fmaf(s, d.im, m.re), fmaf(-s, d.re, m.im)};
        v[2] = {fmaf(-s, d.im, m.re), fmaf(s, d.re, m.im)};
    } else if constexpr (N == 4) {
        const cx a = v[0] + v[2], b = v[0] - v[2], c = v[1] + v[3], d = times_root<1, 4, INVERSE>(v[1] - v[3]);
        v[0] = a + c;
        v[1] = b + d;
        v[2] = a - c;
        v[3] = b - d;
    } else {
        static_assert(N == 5);
        constexpr float c1 = (float)cos_turn(1, 5), c2 = (float)cos_turn(2, 5);
        constexpr float s1 = (float)(INVERSE ? -sin_turn(1, 5) : sin_turn(1, 5));
        constexpr float s2 = (float)(INVERSE ? -sin_turn(2, 5) : sin_turn(2, 5));
        const cx p = v[1] + v[4], q = v[2] + v[3], d = v[1] - v[4], e = v[2] - v[3];
        const cx m = scaled_plus(c2, q, scaled_plus(c1, p, v[0])), n = scaled_plus(c1, q, scaled_plus(c2, p, v[0]));
        const cx r = {fmaf(s2, e.re, s1 * d.re), fmaf(s2, e.im, s1 * d.im)};
        const cx t = {fmaf(-s1, e.re, s2 * d.re), fmaf(-s1, e.im, s2 * d.im)};
        v[0] = v[0] + p + q;
        v[1] = {m.re + r.im, m.im - r.re};
        v[4] = {m.re - r.im, m.im + r.re};
        v[2] = {n.re + t.im, n.im - t.re};
        v[3] = {n.re - t.im, n.im + t.re};
    }
}

}
