/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of the detector convolved with the ramp, one pass over memory: weights, transform, kernel, transform
 * back, all in registers and shared memory.
 *
 * Right-angle convolution (Nussbaumer, Fast Fourier Transform and Convolution Algorithms, 1982): a row x of N real
 * samples (zeros included) is turned by exp(-2 pi i n / (4 N)) before a complex transform of length N and turned back
 * after it. What wraps round then comes back a quarter turn away, in the imaginary part, and the real part is the plain
 * convolution with any taps up to N - 1: the length that a real transform of 2 N would need, but without its unpacking,
 * and since the kernel is even, its spectrum at k + 1/4 is real. So the order of the frequencies does not matter and
 * the last stage there, the multiplication and the first stage back stay in registers (forward by decimation in
 * frequency, back by decimation in time; Gentleman & Sande 1966, Cooley & Tukey 1965). Two rows as one complex row
 * would be cheaper still, but a row's bits would depend on its neighbour.
 *
 * Registers: a thread has the elements of one butterfly of the first stage, for all others some butterflies one after
 * the other. Shared memory: one complex row, with one place in seventeen free. Global: a row is read and written once,
 * twiddle factors, response and weights come from the caches.
 * Cost: 8 bytes a sample and two transforms of complex length N, two or three stages each; see `methods` in filter.cu.
 * Limits: N up to 16384, and what a thread block may have of shared memory. */
#ifndef VP_FILTER_ROWS_CUH
#define VP_FILTER_ROWS_CUH

extern "C" {
#include "ct/filter.h"
}

#include "transform.cuh"

#include <cfloat>
#include <cstdint>

namespace
{

using namespace vp;

__host__ __device__ constexpr int inner(int r) /* of the two factors that r is done in */
{
    return r % 4 == 0 && r > 4 ? 4 : r % 2 == 0 && r > 2 ? 2 : r;
}

/* Transform in place, in order; BACK has the sign +. */
template <int R, bool BACK> __device__ inline void dft(cx *y)
{
    constexpr int A = inner(R), C = R / A;
    if constexpr (C > 1) {
        cx t[R];
        each<C>([&](auto c) {
            cx z[A];
            each<A>([&](auto a) { z[a] = y[c + C * a]; });
            dft<A, BACK>(z);
            each<A>([&](auto a) {
                t[a * C + c] = turn_by<(int)decltype(a)::value * (int)decltype(c)::value, R, BACK>(z[a]);
            });
        });
        each<A>([&](auto a) {
            dft<C, BACK>(t + a * C);
            each<C>([&](auto c) { y[a + A * c] = t[a * C + c]; });
        });
    } else {
        small_dft<R, BACK>(y);
    }
}

/* ---- the kernel ---- */

struct lens {
    float center, cv, slope, inv_f, bend, head, lean, rise, tip;
};

enum { MAX_STAGES = 3 };

struct row_args {
    const float *in;
    float *out;
    int64_t rows; /* of all views together */
    int rows_per_view, v0;
    int nu, nu_out;
    int left, left_out; /* where column 0 of an input row, and of an output row, lie in the transform */
    int pad;
    const float *fall;
    const float *scale, *weight; /* from the first view on; weight may be NULL */
    int n_weight;                /* a view */
    const struct vp_filter_fan *fan; /* likewise; NULL: a weight belongs to a column */
    const struct lens *lens;     /* likewise */
    const cx *twiddle[MAX_STAGES];
    const float *response;
};

/* Element x of a row in shared memory: one place in seventeen stays free, so that neither neighbours nor elements 16
 * apart share a bank. place(base + i q) = place(base) + place(i q) holds for all strides q that are used. */
__host__ __device__ constexpr int place(int x)
{
    return x + (x >> 4);
}

/* T threads a row, B rows a block, registers for M blocks at a time, N = product of the radices R; stage s works on
 * sub-transforms of length(s). */
template <int T, int B, int M, int... R> struct shape {
    static constexpr int threads = T, rows = B, blocks = M, stages = sizeof...(R), radix[] = {R...}, N = (R * ...);
    __host__ __device__ static constexpr int length(int s) { return s == 0 ? N : length(s - 1) / radix[s - 1]; }
    static constexpr size_t shared = sizeof(cx) * B * place(N);
    static_assert(N / radix[0] == T && stages <= MAX_STAGES && stages >= 2);
};

template <class S> __device__ inline void meet()
{
    if (S::threads <= 32)
        __syncwarp();
    else
        __syncthreads();
}

/* The butterflies of stage s that thread t does: f(number, place of its first element). */
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

template <class S, int s, bool BACK> __device__ inline void middle_stage(cx *row, int t, const cx *twiddle)
{
    constexpr int r = S::radix[s], q = S::length(s) / r;
    butterflies<S, s>(t, [&](int b, int at) {
        cx y[r];
        const cx *const w = twiddle + b % q;
        each<r>([&](auto i) {
            y[i] = row[at + place(i * q)];
            if (BACK && i > 0) {
                const cx wi = fetch(w + (i - 1) * q);
                y[i] = turn<true>(y[i], wi.re, wi.im);
            }
        });
        dft<r, BACK>(y);
        each<r>([&](auto i) {
            if (!BACK && i > 0) {
                const cx wi = fetch(w + (i - 1) * q);
                y[i] = turn<false>(y[i], wi.re, wi.im);
            }
            row[at + place(i * q)] = y[i];
        });
    });
}

/* *p, which is not needed again, or 0; a predicate instead of a branch */
__device__ inline float load_if(const float *p, bool yes)
{
    float x;
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %2, 0; mov.f32 %0, 0f00000000; @p ld.global.cs.f32 %0, [%1]; }"
                 : "=f"(x)
                 : "l"(p), "r"((int)yes));
    return x;
}

/* The samples of thread t, weighted: elements t + i q of the transform. */
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
        const float depth = 1 / fmaf(l.tip, dv, 1), head = fmaf(l.rise, dv, l.head) * depth, lean = l.lean * depth;
        each<R>([&](auto i) {
            const float u = (float)column(u0 + i * q), y = fmaf(u, l.inv_f, start);
            x[i] *= fmaf(u, lean, head) * rsqrtf(fmaf(y, y, one));
        });
    }
    if (a.weight && a.fan) {
        /* the host's arithmetic (vp_filter_weight_row), operation by operation */
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

template <class S> __global__ void __launch_bounds__(S::threads * S::rows, S::blocks) filter_rows(const row_args a)
{
    constexpr int r0 = S::radix[0], q0 = S::length(1), last = S::stages - 1, rl = S::radix[last];
    extern __shared__ cx shared[];
    const int t = threadIdx.x % S::threads, line = threadIdx.x / S::threads;
    const int64_t index = (int64_t)blockIdx.x * S::rows + line;
    const bool here = index < a.rows; /* all threads meet, also those without a row */
    cx *const row = shared + line * place(S::N);

    {
        float x[r0];
        cx y[r0];
        if (here) {
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
            y[i] = here ? cx{x[i] * c, x[i] * s} : cx{0, 0};
        });
        dft<r0, false>(y);
        each<r0>([&](auto i) {
            const cx w = fetch(a.twiddle[0] + i * q0 + t);
            row[place(t) + place(i * q0)] = turn<false>(y[i], w.re, w.im);
        });
    }
    meet<S>();
    if constexpr (S::stages > 2) {
        middle_stage<S, 1, false>(row, t, a.twiddle[1]);
        meet<S>();
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
    meet<S>();
    if constexpr (S::stages > 2) {
        middle_stage<S, 1, true>(row, t, unknown(a.twiddle[1]));
        meet<S>();
    }
    cx y[r0];
    const cx *const twiddle = unknown(a.twiddle[0]);
    each<r0>([&](auto i) {
        const cx w = fetch(twiddle + i * q0 + t);
        y[i] = turn<true>(row[place(t) + place(i * q0)], w.re, w.im);
    });
    dft<r0, true>(y);
    if (!here)
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

#endif
