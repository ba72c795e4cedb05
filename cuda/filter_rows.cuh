/* SPDX-License-Identifier: BSD-3-Clause */
/* Convolution of detector rows with the ramp in one pass over memory: weights, forward transform, product with the
 * response, inverse transform, all in registers and shared memory.
 *
 * Overview: right-angle convolution (Nussbaumer, Fast Fourier Transform and Convolution Algorithms, 1982). A row x of N
 *   real samples, zero padding included, is multiplied by exp(-2 pi i n / (4 N)) before a complex transform of length
 *   N, and by the conjugate after the inverse transform. Terms that wrap around are thereby rotated by a quarter turn
 *   into the imaginary part, and the real part is the linear convolution with any taps up to N - 1. A real transform of
 *   length 2 N would do the same, but needs an unpacking step. The kernel is even, so its spectrum at frequencies k +
 *   1/4 is real. The order of frequencies does not matter for the product. So forward is decimation in frequency
 *   (Gentleman and Sande 1966), inverse is decimation in time (Cooley and Tukey 1965), and the last forward stage, the
 *   product and the first inverse stage stay in registers. Two rows as one complex row would be cheaper, but the bits
 *   of a row would depend on its neighbour.
 * Registers: one butterfly of the first stage; the butterflies of other stages one after another.
 * Shared memory: one complex row, with every seventeenth element unused (place()).
 * Global memory: a row is read and written once; twiddle factors, response and weights come from the caches.
 * Cost: 8 bytes a sample and two transforms of complex length N, two or three stages each; see `methods` in filter.cu.
 * Limits: N up to 16384, and the shared memory of a thread block. */
#pragma once

extern "C" {
#include "ct/filter.h"
}

#include "transform.cuh"

#include <cfloat>
#include <cstdint>

namespace
{

using namespace vp;

/* Returns the first of the two factors into which radix r is split. */
__host__ __device__ constexpr int inner(int r)
{
    return r % 4 == 0 && r > 4 ? 4 : r % 2 == 0 && r > 2 ? 2 : r;
}

/* Transforms R values in place, in natural order; INVERSE has the sign +. */
template <int R, bool INVERSE> __device__ inline void dft(cx *y)
{
    constexpr int A = inner(R), C = R / A;
    if constexpr (C > 1) {
        cx t[R];
        each<C>([&](auto c) {
            cx z[A];
            each<A>([&](auto a) { z[a] = y[c + C * a]; });
            dft<A, INVERSE>(z);
            each<A>([&](auto a) {
                t[a * C + c] = times_root<(int)decltype(a)::value * (int)decltype(c)::value, R, INVERSE>(z[a]);
            });
        });
        each<A>([&](auto a) {
            dft<C, INVERSE>(t + a * C);
            each<C>([&](auto c) { y[a + A * c] = t[a * C + c]; });
        });
    } else {
        small_dft<R, INVERSE>(y);
    }
}

/* ---- the kernel ---- */

/* Cosine weights of a view, as vp_filter_lens. */
struct lens {
    float center, cv, slope, inv_f, bend, head, apply, rise, tip;
};

enum { MAX_STAGES = 3 };

struct row_args {
    const float *in;
    float *out;
    int64_t rows;                /* rows of all views together */
    int rows_per_view, v0;       /* detector row of the first row of a view */
    int nu, nu_out;              /* samples of an input row, of an output row */
    int left, left_out;          /* position of their first samples in the transform */
    int pad;                     /* samples that are extrapolated on either side */
    const float *fall;           /* factors of extrapolated samples */
    const float *scale, *weight; /* factors and redundancy weights, from the first view on; weight may be NULL */
    int n_weight;                /* weights of a view */
    const struct vp_filter_fan *fan; /* positions in the weights, from the first view on; NULL: one for each column */
    const struct lens *lens;     /* cosine weights, from the first view on, or NULL */
    const cx *twiddle[MAX_STAGES];
    const float *response;
};

/* Returns the index of element x of a row in shared memory. One in seventeen is unused, so that neither neighbours nor
 * elements 16 apart share a bank. place(base + i q) = place(base) + place(i q) holds for all strides q in use. */
__host__ __device__ constexpr int place(int x)
{
    return x + (x >> 4);
}

/* Shape of a transform: T threads a row, B rows a block, M resident blocks of a multiprocessor; N is the product of the
 * radices R; stage s has sub-transforms of length(s). */
template <int T, int B, int M, int... R> struct filter_shape {
    static constexpr int threads = T, rows = B, blocks = M, stages = sizeof...(R), radix[] = {R...}, N = (R * ...);
    __host__ __device__ static constexpr int length(int s) { return s == 0 ? N : length(s - 1) / radix[s - 1]; }
    static constexpr size_t shared = sizeof(cx) * B * place(N);
    static_assert(N / radix[0] == T && stages <= MAX_STAGES && stages >= 2);
};

/* Synchronises the threads of a row. */
template <class S> __device__ inline void sync_row()
{
    if (S::threads <= 32)
        __syncwarp();
    else
        __syncthreads();
}

/* Calls f(index, place of its first element) for the butterflies of stage s that belong to thread t. */
template <class S, int s, class F> __device__ inline void butterflies(int t, F f)
{
    constexpr int r = S::radix[s], len = S::length(s), q = len / r, count = S::N / r, T = S::threads;
    static_assert((q % 16 == 0 || 16 % q == 0) && (len % 16 == 0 || 16 % len == 0));
    each<(count + T - 1) / T>([&](auto i) {
        const int b = t + T * i;
        if (count % T == 0 || i < count / T || b < count)
            f(b, place(b / q * len + b % q));
    });
}

template <class S, int s, bool INVERSE> __device__ inline void middle_stage(cx *row, int t, const cx *twiddle)
{
    constexpr int r = S::radix[s], q = S::length(s) / r;
    butterflies<S, s>(t, [&](int b, int at) {
        cx y[r];
        const cx *const w = twiddle + b % q;
        each<r>([&](auto i) {
            y[i] = row[at + place(i * q)];
            if (INVERSE && i > 0) {
                const cx wi = fetch(w + (i - 1) * q);
                y[i] = times_twiddle<true>(y[i], wi.re, wi.im);
            }
        });
        dft<r, INVERSE>(y);
        each<r>([&](auto i) {
            if (!INVERSE && i > 0) {
                const cx wi = fetch(w + (i - 1) * q);
                y[i] = times_twiddle<false>(y[i], wi.re, wi.im);
            }
            row[at + place(i * q)] = y[i];
        });
    });
}

/* Returns `yes` ? *p : 0 by a predicated streaming load. */
__device__ inline float load_if(const float *p, bool yes)
{
    float x;
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %2, 0; mov.f32 %0, 0f00000000; @p ld.global.cs.f32 %0, [%1]; }"
                 : "=f"(x)
                 : "l"(p), "r"((int)yes));
    return x;
}

/* Loads and weights the samples of thread t: elements t + i q of the transform. PAD: extrapolates. */
template <int R, int q, bool PAD>
__device__ inline void load_row(const row_args &a, int64_t view, int v, const float *in, int t, float *x)
{
    const int u0 = t - a.left;
    const auto column = [&](int u) { return PAD ? min(max(u, 0), a.nu - 1) : u; };
    const float scale = __ldg(a.scale + view);

    each<R>([&](auto i) {
        const int u = u0 + i * q;
        x[i] = PAD ? load_if(in + column(u), true) : load_if(in + u0 + i * q, (unsigned)u < (unsigned)a.nu);
    });
    each<R>([&](auto i) { x[i] = fabsf(x[i]) <= FLT_MAX ? x[i] : 0; });
    if (a.lens) {
        const struct lens l = a.lens[view];
        const float dv = (float)v - l.cv, start = (l.slope * dv - l.center) * l.inv_f, one = fmaf(l.bend * dv, dv, 1);
        const float depth = 1 / fmaf(l.tip, dv, 1), head = fmaf(l.rise, dv, l.head) * depth, apply = l.apply * depth;
        each<R>([&](auto i) {
            const float u = (float)column(u0 + i * q), y = fmaf(u, l.inv_f, start);
            x[i] *= fmaf(u, apply, head) * rsqrtf(fmaf(y, y, one));
        });
    }
    if (a.weight && a.fan) {
        /* the arithmetic of vp_filter_weight_row(), operation by operation */
        const float *const w = a.weight + view * a.n_weight, last = (float)(a.n_weight - 1), row = (float)v;
        const struct vp_filter_fan f = a.fan[view];
        each<R>([&](auto i) {
            const float u = (float)min(max(u0 + i * q, 0), a.nu - 1);
            const float top = __fadd_rn(__fadd_rn(f.a0, __fmul_rn(f.au, u)), __fmul_rn(f.av, row));
            const float bottom = __fadd_rn(__fadd_rn(f.b0, __fmul_rn(f.bu, u)), __fmul_rn(f.bv, row));
            const float at = fminf(fmaxf(__fdiv_rn(top, bottom), 0), last);
            const int k = min((int)at, a.n_weight - 2);
            const float lo = __ldg(w + k);
            x[i] *= __fadd_rn(lo, __fmul_rn(at - (float)k, __fadd_rn(__ldg(w + k + 1), -lo)));
        });
    } else if (a.weight) {
        const float *const w = a.weight + view * a.nu;
        each<R>([&](auto i) {
            const int u = u0 + i * q;
            x[i] *= PAD ? __ldg(w + column(u)) : (unsigned)u < (unsigned)a.nu ? __ldg(w + u0 + i * q) : 0;
        });
    }
    each<R>([&](auto i) {
        x[i] *= scale;
        if (PAD) {
            const int u = u0 + i * q, beyond = abs(u - column(u));
            if (beyond > 0)
                x[i] *= beyond <= a.pad ? __ldg(a.fall + beyond - 1) : 0;
        }
    });
}

/* Filters S::rows rows in each block. */
template <class S> __global__ void __launch_bounds__(S::threads * S::rows, S::blocks) filter_rows(const row_args a)
{
    constexpr int r0 = S::radix[0], q0 = S::length(1), last = S::stages - 1, rl = S::radix[last];
    extern __shared__ cx shared[];
    const int t = threadIdx.x % S::threads, line = threadIdx.x / S::threads;
    const int64_t index = (int64_t)blockIdx.x * S::rows + line;
    const bool live = index < a.rows; /* threads without a row take part in the barriers */
    cx *const row = shared + line * place(S::N);

    {
        float x[r0];
        cx y[r0];
        if (live) {
            const int64_t view = index / a.rows_per_view;
            const int v = a.v0 + (int)(index - view * a.rows_per_view);
            const float *const in = a.in + index * a.nu;
            if (a.pad)
                load_row<r0, q0, true>(a, view, v, in, t, x);
            else
                load_row<r0, q0, false>(a, view, v, in, t, x);
        }
        each<r0>([&](auto i) {
            constexpr float c = (float)cos_turn(i, 4 * r0), s = (float)-sin_turn(i, 4 * r0);
            y[i] = live ? cx{x[i] * c, x[i] * s} : cx{0, 0};
        });
        dft<r0, false>(y);
        each<r0>([&](auto i) {
            const cx w = fetch(a.twiddle[0] + i * q0 + t);
            row[place(t) + place(i * q0)] = times_twiddle<false>(y[i], w.re, w.im);
        });
    }
    sync_row<S>();
    if constexpr (S::stages > 2) {
        middle_stage<S, 1, false>(row, t, a.twiddle[1]);
        sync_row<S>();
    }
    butterflies<S, last>(t, [&](int b, int at) {
        cx y[rl];
        each<rl>([&](auto i) { y[i] = row[at + place(i)]; });
        dft<rl, false>(y);
        each<rl>([&](auto i) {
            const float h = __ldg(a.response + i * (S::N / rl) + b);
            y[i] = {y[i].re * h, y[i].im * h};
        });
        dft<rl, true>(y);
        each<rl>([&](auto i) { row[at + place(i)] = y[i]; });
    });
    sync_row<S>();
    if constexpr (S::stages > 2) {
        middle_stage<S, 1, true>(row, t, reloaded(a.twiddle[1]));
        sync_row<S>();
    }
    cx y[r0];
    const cx *const twiddle = reloaded(a.twiddle[0]);
    each<r0>([&](auto i) {
        const cx w = fetch(twiddle + i * q0 + t);
        y[i] = times_twiddle<true>(row[place(t) + place(i * q0)], w.re, w.im);
    });
    dft<r0, true>(y);
    if (!live)
        return;
    float *const out = a.out + index * a.nu_out;
    each<r0>([&](auto i) {
        constexpr float c = (float)cos_turn(i, 4 * r0), s = (float)sin_turn(i, 4 * r0);
        const int u = t + i * q0 - a.left_out;
        if ((unsigned)u < (unsigned)a.nu_out)
            out[u] = fmaf(-s, y[i].im, c * y[i].re);
    });
}

}
