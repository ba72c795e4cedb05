/* SPDX-License-Identifier: BSD-3-Clause */
/* Complex transforms of one line of R1 * R2 values by R2 threads: R1 values a thread, a transform of these in
 * registers, one exchange through shared memory, transforms of R2 values. With n = n2 + R2 j and k = k1 + R1 k2:
 *
 *     X[k1 + R1 k2] = sum over n2 of W(T)^(n2 k1) W(R2)^(n2 k2) sum over j of W(R1)^(j k1) x[n2 + R2 j]
 *
 * Thread t has x[t + R2 j] on one side ("samples") and X[t + R2 b + R1 k2] on the other ("frequencies"); back is the
 * same in reverse. What is done between the two sides needs no order, so a convolution along a line never leaves the
 * registers but for two exchanges.
 *
 * Twiddle factors come by plain loads behind a pointer that the compiler does not know: those it can see through it
 * fetches before the barrier, and then has no registers for. */
#ifndef VP_CONVOLVE_LINE_CUH
#define VP_CONVOLVE_LINE_CUH

#include "transform.cuh"

namespace vp
{
namespace
{

/* A pointer to global memory that the compiler cannot work out again: with a predicate in front of every access it
 * otherwise makes the 64-bit address anew each time. */
template <class T> __device__ __forceinline__ T *hidden(T *p)
{
    asm volatile("" : "+l"(p));
#ifdef __CUDA_ARCH__
    __builtin_assume(__isGlobal(p));
#endif
    return p;
}

/* The same of an index, in a loop: what is worked out from it is not kept in registers for the next round. */
__device__ __forceinline__ int hidden_index(int i)
{
    asm volatile("" : "+r"(i));
    return i;
}

/* From the second cache, where another kernel put it. */
__device__ __forceinline__ cx load_far(const cx *p)
{
    const float2 v = __ldcg((const float2 *)p);
    return {v.x, v.y};
}

__device__ __forceinline__ cx times(cx a, cx w)
{
    return turn<false>(a, w.re, w.im);
}

__device__ __forceinline__ cx times_conj(cx a, cx w)
{
    return turn<true>(a, w.re, w.im);
}

__device__ __forceinline__ cx times_plus(cx a, cx w, cx c)
{
    return {fmaf(-a.im, w.im, fmaf(a.re, w.re, c.re)), fmaf(a.re, w.im, fmaf(a.im, w.re, c.im))};
}

/* ---- transforms in registers ---- */

/* a exp(-+ 2 pi i K / N) = factor * lean(a): two operations, and the factor goes into the additions that follow. */
template <int N, int K, bool BACK> struct leaning {
    static constexpr double c = cos_turn(K, N), s = BACK ? sin_turn(K, N) : -sin_turn(K, N);
    static constexpr bool by_cos = c * c >= s * s;
    static constexpr float factor = (float)(by_cos ? c : s), q = (float)(by_cos ? s / c : c / s);
    __device__ static __forceinline__ cx lean(cx a)
    {
        if constexpr (K % N == 0)
            return a;
        else if constexpr (by_cos)
            return {fmaf(-q, a.im, a.re), fmaf(q, a.re, a.im)};
        else
            return {fmaf(q, a.re, -a.im), fmaf(q, a.im, a.re)};
    }
};

/* Transforms of v[b] exp(-+ 2 pi i b K / N), b = 0, 1 or 0 ... 3. */
template <int N, int K, bool BACK> __device__ __forceinline__ void turned_2(cx *v)
{
    using l1 = leaning<N, K, BACK>;
    const cx a = v[0], b = l1::lean(v[1]);
    v[0] = scaled_plus(l1::factor, b, a);
    v[1] = scaled_plus(-l1::factor, b, a);
}

template <int N, int K, bool BACK> __device__ __forceinline__ void turned_4(cx *v)
{
    using l1 = leaning<N, K, BACK>;
    using l2 = leaning<N, 2 * K, BACK>;
    using l3 = leaning<N, 3 * K, BACK>;
    constexpr float f1 = l1::factor, f2 = l2::factor, f3 = (float)(l3::factor / (double)l1::factor),
                    g = BACK ? f1 : -f1;
    const cx x1 = l1::lean(v[1]), x2 = l2::lean(v[2]), x3 = l3::lean(v[3]);
    const cx a = scaled_plus(f2, x2, v[0]), b = scaled_plus(-f2, x2, v[0]);
    const cx c = scaled_plus(f3, x3, x1), d = scaled_plus(-f3, x3, x1);
    v[0] = scaled_plus(f1, c, a);
    v[2] = scaled_plus(-f1, c, a);
    v[1] = {fmaf(-g, d.im, b.re), fmaf(g, d.re, b.im)};
    v[3] = {fmaf(g, d.im, b.re), fmaf(-g, d.re, b.im)};
}

__host__ __device__ constexpr int last_factor(int n)
{
    return n % 4 == 0 ? 4 : n % 2 == 0 ? 2 : n % 3 == 0 ? 3 : 5;
}

/* In place, in order; BACK has the sign + and no factor. */
template <int N, bool BACK> __device__ __forceinline__ void fourier(cx *v)
{
    if constexpr (N <= 5) {
        small_dft<N, BACK>(v);
    } else {
        constexpr int B = last_factor(N), A = N / B;
        cx u[B][A];
        each<B>([&](auto b) {
            each<A>([&](auto a) { u[b][a] = v[b + B * a]; });
            fourier<A, BACK>(u[b]);
        });
        each<A>([&](auto a) {
            constexpr int k = (int)decltype(a)::value;
            cx w[B];
            each<B>([&](auto b) { w[b] = u[b][a]; });
            if constexpr (k > 0 && B == 4) {
                turned_4<N, k, BACK>(w);
            } else if constexpr (k > 0 && B == 2) {
                turned_2<N, k, BACK>(w);
            } else {
                each<B>([&](auto b) { w[b] = turn_by<k * (int)decltype(b)::value, N, BACK>(w[b]); });
                fourier<B, BACK>(w);
            }
            each<B>([&](auto b) { v[a + A * b] = w[b]; });
        });
    }
}

/* ---- a line ---- */

template <int R1_, int R2_> struct line {
    static constexpr int R1 = R1_, R2 = R2_, T = R1 * R2, threads = R2;
    static constexpr int batches = (R1 + R2 - 1) / R2; /* of transforms of R2 values that a thread does */
    static constexpr int frequencies = batches * R2;
    static constexpr int values = R1 > frequencies ? R1 : frequencies;
    static constexpr bool even = R1 % R2 == 0;   /* all threads have a transform in each batch */
    static constexpr bool in_warp = 32 % R2 == 0; /* all threads of a line are in one warp */
    /* Where value (k1, n2) is in the exchange of lines that lie one after another: an odd pitch meets all banks. */
    static constexpr int row_pitch = R2 + 1 - R2 % 2, row_size = (R1 * row_pitch + 1) / 2 * 2;
    static_assert(R1 % 4 == 0);
};

/* The same for G lines side by side, a line in every Gth place: two halves of a warp meet different banks. */
template <class L, int G> struct columns_of {
    static constexpr int pitch = L::R2 * G + (G < 16 ? (16 + G - L::R2 * G % 16) % 16 : 0), size = L::R1 * pitch;
};

/* Value (k1, n2) at k1 * P + n2 * Q of `sm`; `twiddle` is W(T)^(k1 n2) at k1 * R2 + n2. A barrier belongs between the
 * two halves of each way. */
template <class L, int P, int Q> __device__ __forceinline__ void samples_out(cx *v, cx *sm, int t, const cx *twiddle)
{
    twiddle = hidden(twiddle + t);
    sm += t * Q;
    fourier<L::R1, false>(v);
    sm[0] = v[0];
    each<L::R1 - 1>([&](auto i) {
        constexpr int k = (int)decltype(i)::value + 1;
        sm[k * P] = times(v[k], twiddle[k * L::R2]);
    });
}

template <class L, int P, int Q> __device__ __forceinline__ void frequencies_in(cx *v, const cx *sm, int t)
{
    each<L::batches>([&](auto b) {
        const int k1 = t + b * L::R2;
        if (L::even || k1 < L::R1) {
            each<L::R2>([&](auto n) { v[b * L::R2 + n] = sm[k1 * P + n * Q]; });
            fourier<L::R2, false>(v + b * L::R2);
        }
    });
}

template <class L, int P, int Q> __device__ __forceinline__ void frequencies_out(cx *v, cx *sm, int t)
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
__device__ __forceinline__ void samples_in(cx *v, const cx *sm, int t, const cx *twiddle)
{
    twiddle = hidden(twiddle + t);
    sm += t * Q;
    v[0] = sm[0];
    each<L::R1 - 1>([&](auto i) {
        constexpr int k = (int)decltype(i)::value + 1;
        v[k] = times_conj(sm[k * P], twiddle[k * L::R2]);
    });
    fourier<L::R1, true>(v);
}

/* All threads of one line meet. */
template <class L> __device__ __forceinline__ void meet_line()
{
    if (L::in_warp)
        __syncwarp();
    else
        __syncthreads();
}

}
}

#endif
