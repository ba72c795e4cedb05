/* SPDX-License-Identifier: BSD-3-Clause */
/* Complex Fourier transforms of a line of T = R1 * R2 values by R2 threads (Cooley and Tukey 1965, two factors): each
 * thread transforms R1 values in registers, the line is exchanged once through shared memory, and each thread does
 * transforms of R2 values. With n = n2 + R2 j and k = k1 + R1 k2:
 *
 *     X[k1 + R1 k2] = sum over n2 of W(T)^(n2 k1) W(R2)^(n2 k2) sum over j of W(R1)^(j k1) x[n2 + R2 j]
 *
 * Thread t holds the samples x[t + R2 j] before, and the frequencies X[t + R2 b + R1 k2] after the forward transform;
 * the inverse transform runs the same steps in reverse. A product of spectra does not depend on the order of
 * frequencies, so a convolution along a line stays in registers except for two exchanges.
 *
 * Twiddle factors are loaded through opaque pointers: otherwise the compiler hoists the loads above the barrier, and
 * then spills registers. */
#pragma once

#include "transform.cuh"

namespace vp
{
namespace
{

/* Returns p, opaque to the optimiser: it would recompute the 64-bit address for every predicated access. */
template <class T> __device__ __forceinline__ T *opaque(T *p)
{
    asm volatile("" : "+l"(p));
#ifdef __CUDA_ARCH__
    __builtin_assume(__isGlobal(p));
#endif
    return p;
}

/* Returns i, opaque to the optimiser: values derived from it in a loop are recomputed rather than kept in registers. */
__device__ __forceinline__ int opaque_index(int i)
{
    asm volatile("" : "+r"(i));
    return i;
}

/* Loads from the L2 cache, where another kernel has written. */
__device__ __forceinline__ cx load_l2(const cx *p)
{
    const float2 v = __ldcg((const float2 *)p);
    return {v.x, v.y};
}

__device__ __forceinline__ cx times(cx a, cx w)
{
    return times_twiddle<false>(a, w.re, w.im);
}

__device__ __forceinline__ cx times_conj(cx a, cx w)
{
    return times_twiddle<true>(a, w.re, w.im);
}

__device__ __forceinline__ cx times_plus(cx a, cx w, cx c)
{
    return {fmaf(-a.im, w.im, fmaf(a.re, w.re, c.re)), fmaf(a.re, w.im, fmaf(a.im, w.re, c.im))};
}

/* ---- transforms in registers ---- */

/* a exp(-+ 2 pi i K / N) = factor * apply(a), with the cosine or the sine factored out: apply() takes two fused
 * operations, and the factor is merged into the additions that follow. */
template <int N, int K, bool INVERSE> struct tangent_form {
    static constexpr double c = cos_turn(K, N), s = INVERSE ? sin_turn(K, N) : -sin_turn(K, N);
    static constexpr bool by_cos = c * c >= s * s;
    static constexpr float factor = (float)(by_cos ? c : s), q = (float)(by_cos ? s / c : c / s);
    __device__ static __forceinline__ cx apply(cx a)
    {
        if constexpr (K % N == 0)
            return a;
        else if constexpr (by_cos)
            return {fmaf(-q, a.im, a.re), fmaf(q, a.re, a.im)};
        else
            return {fmaf(q, a.re, -a.im), fmaf(q, a.im, a.re)};
    }
};

/* Transform v[b] exp(-+ 2 pi i b K / N), b = 0, 1 or 0 ... 3, in place. */
template <int N, int K, bool INVERSE> __device__ __forceinline__ void twiddled_2(cx *v)
{
    using l1 = tangent_form<N, K, INVERSE>;
    const cx a = v[0], b = l1::apply(v[1]);
    v[0] = scaled_plus(l1::factor, b, a);
    v[1] = scaled_plus(-l1::factor, b, a);
}

template <int N, int K, bool INVERSE> __device__ __forceinline__ void twiddled_4(cx *v)
{
    using l1 = tangent_form<N, K, INVERSE>;
    using l2 = tangent_form<N, 2 * K, INVERSE>;
    using l3 = tangent_form<N, 3 * K, INVERSE>;
    constexpr float f1 = l1::factor, f2 = l2::factor, f3 = (float)(l3::factor / (double)l1::factor),
                    g = INVERSE ? f1 : -f1;
    const cx x1 = l1::apply(v[1]), x2 = l2::apply(v[2]), x3 = l3::apply(v[3]);
    const cx a = scaled_plus(f2, x2, v[0]), b = scaled_plus(-f2, x2, v[0]);
    const cx c = scaled_plus(f3, x3, x1), d = scaled_plus(-f3, x3, x1);
    v[0] = scaled_plus(f1, c, a);
    v[2] = scaled_plus(-f1, c, a);
    v[1] = {fmaf(-g, d.im, b.re), fmaf(g, d.re, b.im)};
    v[3] = {fmaf(g, d.im, b.re), fmaf(-g, d.re, b.im)};
}

__host__ __device__ constexpr int last_radix(int n)
{
    return n % 4 == 0 ? 4 : n % 2 == 0 ? 2 : n % 3 == 0 ? 3 : 5;
}

/* Transforms N values in place, in natural order; INVERSE has the sign + and no factor 1 / N. */
template <int N, bool INVERSE> __device__ __forceinline__ void fourier(cx *v)
{
    if constexpr (N <= 5) {
        small_dft<N, INVERSE>(v);
    } else {
        constexpr int B = last_radix(N), A = N / B;
        cx u[B][A];
        each<B>([&](auto b) {
            each<A>([&](auto a) { u[b][a] = v[b + B * a]; });
            fourier<A, INVERSE>(u[b]);
        });
        each<A>([&](auto a) {
            constexpr int k = (int)decltype(a)::value;
            cx w[B];
            each<B>([&](auto b) { w[b] = u[b][a]; });
            if constexpr (k > 0 && B == 4) {
                twiddled_4<N, k, INVERSE>(w);
            } else if constexpr (k > 0 && B == 2) {
                twiddled_2<N, k, INVERSE>(w);
            } else {
                each<B>([&](auto b) { w[b] = times_root<k * (int)decltype(b)::value, N, INVERSE>(w[b]); });
                fourier<B, INVERSE>(w);
            }
            each<B>([&](auto b) { v[a + A * b] = w[b]; });
        });
    }
}

/* ---- a line ---- */

/* Shape of a transform. */
template <int R1_, int R2_> struct fft_shape {
    static constexpr int R1 = R1_, R2 = R2_, T = R1 * R2, threads = R2;
    static constexpr int batches = (R1 + R2 - 1) / R2;    /* transforms of R2 values of a thread */
    static constexpr int frequencies = batches * R2;      /* frequencies of a thread */
    static constexpr int values = R1 > frequencies ? R1 : frequencies; /* registers, in complex values */
    static constexpr bool even = R1 % R2 == 0;    /* all threads have a transform in each batch */
    static constexpr bool in_warp = 32 % R2 == 0; /* all threads of a line are in one warp */
    /* Layout of the exchange for rows, lines one after another: an odd pitch avoids bank conflicts. */
    static constexpr int row_pitch = R2 + 1 - R2 % 2, row_size = (R1 * row_pitch + 1) / 2 * 2;
    static_assert(R1 % 4 == 0);
};

/* Layout of the exchange for G columns side by side: the pitch puts the two halves of a warp on different banks. */
template <class L, int G> struct column_layout {
    static constexpr int pitch = L::R2 * G + (G < 16 ? (16 + G - L::R2 * G % 16) % 16 : 0), size = L::R1 * pitch;
};

/* Calls f(index in registers, frequency - t) for all frequencies of thread t. */
template <class L, class F> __device__ __forceinline__ void each_frequency(int t, const F &f)
{
    each<L::batches>([&](auto b) {
        if (L::even || t + b * L::R2 < L::R1)
            each<L::R2>([&](auto k) {
                constexpr int first = (int)decltype(b)::value * L::R2, i = (int)decltype(k)::value;
                f(number<first + i>(), number<first + L::R1 * i>());
            });
    });
}

/* The two halves of a forward transform, forward_begin and forward_end, and of an inverse one, inverse_begin and
 * inverse_end, with a barrier between them. The exchange has value (k1, n2) at sm[k1 * P + n2 * Q]; twiddle[k1 * R2 +
 * n2] is W(T)^(k1 n2). */
template <class L, int P, int Q> __device__ __forceinline__ void forward_begin(cx *v, cx *sm, int t, const cx *twiddle)
{
    twiddle = opaque(twiddle + t);
    sm += t * Q;
    fourier<L::R1, false>(v);
    sm[0] = v[0];
    each<L::R1 - 1>([&](auto i) {
        constexpr int k = (int)decltype(i)::value + 1;
        sm[k * P] = times(v[k], twiddle[k * L::R2]);
    });
}

template <class L, int P, int Q> __device__ __forceinline__ void forward_end(cx *v, const cx *sm, int t)
{
    each<L::batches>([&](auto b) {
        const int k1 = t + b * L::R2;
        if (L::even || k1 < L::R1) {
            each<L::R2>([&](auto n) { v[b * L::R2 + n] = sm[k1 * P + n * Q]; });
            fourier<L::R2, false>(v + b * L::R2);
        }
    });
}

template <class L, int P, int Q> __device__ __forceinline__ void inverse_begin(cx *v, cx *sm, int t)
{
    each<L::batches>([&](auto b) {
        const int k1 = t + b * L::R2;
        if (L::even || k1 < L::R1) {
            fourier<L::R2, true>(v + b * L::R2);
            each<L::R2>([&](auto n) { sm[k1 * P + n * Q] = v[b * L::R2 + n]; });
        }
    });
}

template <class L, int P, int Q>
__device__ __forceinline__ void inverse_end(cx *v, const cx *sm, int t, const cx *twiddle)
{
    twiddle = opaque(twiddle + t);
    sm += t * Q;
    v[0] = sm[0];
    each<L::R1 - 1>([&](auto i) {
        constexpr int k = (int)decltype(i)::value + 1;
        v[k] = times_conj(sm[k * P], twiddle[k * L::R2]);
    });
    fourier<L::R1, true>(v);
}

/* Synchronises the threads of a line. */
template <class L> __device__ __forceinline__ void sync_line()
{
    if (L::in_warp)
        __syncwarp();
    else
        __syncthreads();
}

}
}
