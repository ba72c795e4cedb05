/* SPDX-License-Identifier: BSD-3-Clause */
/* Building blocks of the scans in sat.cuh: sums published between thread blocks and the look-back over them, vectors of
 * samples, sums and scans over the lanes of a warp. */
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace vp::sat
{

enum { LANE_COLUMNS = 4 }; /* columns of a lane */

/* ---- published words ---- */

enum { PREFIX_TILES = 4 }; /* every PREFIX_TILES-th tile publishes an inclusive prefix, all others their aggregate */

__device__ __forceinline__ uint64_t load_relaxed(const uint64_t *p)
{
    uint64_t v;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}

__device__ __forceinline__ void store_relaxed(uint64_t *p, uint64_t v)
{
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

__device__ __forceinline__ void store_relaxed(uint64_t *p, uint64_t v, uint64_t w)
{
    asm volatile("st.relaxed.gpu.global.v2.u64 [%0], {%1, %2};" ::"l"(p), "l"(v), "l"(w) : "memory");
}

/* A sum as published words; the upper half of a published word is never all ones. */
template <class A> struct words_of;
template <> struct words_of<double> {
    enum { words = 1 };
    static __device__ __forceinline__ uint64_t word(double v, int)
    {
        const uint64_t bits = (uint64_t)__double_as_longlong(v);
        return bits >> 32 == 0xffffffffu ? 0x7fffffffffffffffull : bits; /* another NaN */
    }
    static __device__ __forceinline__ double sum(const uint64_t *w) { return __longlong_as_double((long long)*w); }
};
template <> struct words_of<uint32_t> {
    enum { words = 1 };
    static __device__ __forceinline__ uint64_t word(uint32_t v, int) { return v; }
    static __device__ __forceinline__ uint32_t sum(const uint64_t *w) { return (uint32_t)*w; }
};
template <> struct words_of<uint64_t> {
    enum { words = 2 };
    static __device__ __forceinline__ uint64_t word(uint64_t v, int k) { return k ? v >> 32 : v & 0xffffffffu; }
    static __device__ __forceinline__ uint64_t sum(const uint64_t *w) { return w[1] << 32 | w[0]; }
};

/* Publishes a sum at `at`. */
template <class A> __device__ __forceinline__ void publish(uint64_t *at, A v)
{
    if constexpr (words_of<A>::words == 2)
        store_relaxed(at, words_of<A>::word(v, 0), words_of<A>::word(v, 1));
    else
        store_relaxed(at, words_of<A>::word(v, 0));
}

/* Exclusive prefix of tile i of a row or column of tiles: the sum over tiles 0 ... i - 1 and the carry-in. Entry 0 of
 * the published sums is the carry-in, entry k + 1 belongs to tile k. prefetch() issues the loads; wait() polls until
 * all are published and returns the prefix. */
template <class A> struct look_back {
    enum { W = words_of<A>::words };
    const uint64_t *w; /* entry of the last inclusive prefix before tile i */
    unsigned step;     /* entries from one tile to the next */
    int n;             /* aggregates after that prefix */
    uint64_t v[PREFIX_TILES][W];

    __device__ __forceinline__ void prefetch()
    {
#pragma unroll
        for (int k = 0; k < PREFIX_TILES; k++) /* repeats the last one rather than branch */
#pragma unroll
            for (int h = 0; h < W; h++)
                v[k][h] = load_relaxed(w + (size_t)(step * min(k, n)) * W + h);
    }
    __device__ __forceinline__ void prefetch(const uint64_t *first, unsigned stride, int i)
    {
        n = i % PREFIX_TILES;
        step = stride;
        w = first + (size_t)((unsigned)(i - n) * step) * W;
        prefetch();
    }
    __device__ __forceinline__ A wait()
    {
        for (;;) {
            bool published = true;
#pragma unroll
            for (int k = 0; k < PREFIX_TILES; k++)
#pragma unroll
                for (int h = 0; h < W; h++)
                    published = published && (unsigned)(v[k][h] >> 32) != 0xffffffffu;
            if (published)
                break;
            prefetch();
        }
        A all = words_of<A>::sum(v[0]);
#pragma unroll
        for (int k = 1; k < PREFIX_TILES; k++)
            if (k <= n)
                all += words_of<A>::sum(v[k]);
        return all;
    }
};

/* ---- vectors of samples ---- */

template <class T, int N> struct alignas(sizeof(T) * N) vec { T v[N]; };

template <class T, int N> __device__ __forceinline__ void store_once(T *p, const vec<T, N> &r)
{
    static_assert(sizeof r == 16, "");
    uint4 x;
    memcpy(&x, &r, 16);
    __stcs((uint4 *)p, x);
}

/* Four samples of a lane; bytes as one word, for __dp4a. */
template <class In> struct quad { using type = vec<In, LANE_COLUMNS>; };
template <> struct quad<uint8_t> { using type = uint32_t; };
template <> struct quad<int8_t> { using type = uint32_t; };

template <class In, class A, bool SQUARE> __device__ __forceinline__ A value_of(In v)
{
    const A a = (A)v;
    if constexpr (!SQUARE)
        return a;
    else if constexpr (std::is_same<A, double>::value)
        return __dmul_rn(a, a);
    else
        return a * a;
}

template <class In, class A, bool SQUARE> __device__ __forceinline__ A value_of(const typename quad<In>::type &q, int k)
{
    if constexpr (sizeof(In) == 1)
        return value_of<In, A, SQUARE>((In)(q >> (8 * k)));
    else
        return value_of<In, A, SQUARE>(q.v[k]);
}

/* Adds the sum of samples 0 ... k to t[k], or sets t[k] to it if `first`. Returns the sum of all four. */
template <class In, class A, bool SQUARE>
__device__ __forceinline__ A add_sums(A (&t)[LANE_COLUMNS], const typename quad<In>::type &q, bool first)
{
    A all = 0;
    if constexpr (sizeof(In) == 1 && !SQUARE) {
#pragma unroll
        for (int k = 0; k < LANE_COLUMNS; k++) {
            const unsigned ones = 0x01010101u >> (24 - 8 * k);
            all = std::is_signed<In>::value ? (A)__dp4a((int)q, (int)ones, 0) : (A)__dp4a(q, ones, 0u);
            t[k] = sizeof(A) == 4 && !std::is_signed<In>::value ? (A)__dp4a(q, ones, (unsigned)t[k]) : t[k] + all;
        }
    } else {
#pragma unroll
        for (int k = 0; k < LANE_COLUMNS; k++) {
            const A a = value_of<In, A, SQUARE>(q, k);
            all = k ? all + a : a;
            t[k] = first ? all : t[k] + all;
        }
    }
    return all;
}

/* ---- sums over the lanes of a warp ---- */

/* Returns s of the lane D below this one, 0 in the first D lanes. */
template <int D> __device__ __forceinline__ uint64_t shuffle_up(uint64_t s)
{
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 ".reg .b32 l, h;\n"
                 "mov.b64 {l, h}, %0;\n"
                 "shfl.sync.up.b32 l|p, l, %1, 0, 0xffffffff;\n"
                 "shfl.sync.up.b32 h|p, h, %1, 0, 0xffffffff;\n"
                 "selp.b32 l, l, 0, p;\n"
                 "selp.b32 h, h, 0, p;\n"
                 "mov.b64 %0, {l, h};\n"
                 "}"
                 : "+l"(s)
                 : "n"(D));
    return s;
}
template <int D> __device__ __forceinline__ double shuffle_up(double s)
{
    return __longlong_as_double((long long)shuffle_up<D>((uint64_t)__double_as_longlong(s)));
}
/* Adds s of the lane D below this one, except in the first D lanes. */
template <int D> __device__ __forceinline__ void add_shuffled_up(double &s)
{
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 ".reg .b32 l, h;\n"
                 ".reg .f64 d;\n"
                 "mov.b64 {l, h}, %0;\n"
                 "shfl.sync.up.b32 l|p, l, %1, 0, 0xffffffff;\n"
                 "shfl.sync.up.b32 h|p, h, %1, 0, 0xffffffff;\n"
                 "mov.b64 d, {l, h};\n"
                 "@p add.rn.f64 %0, %0, d;\n"
                 "}"
                 : "+d"(s)
                 : "n"(D));
}
template <int D> __device__ __forceinline__ void add_shuffled_up(uint64_t &s)
{
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 ".reg .b32 l, h;\n"
                 ".reg .b64 d;\n"
                 "mov.b64 {l, h}, %0;\n"
                 "shfl.sync.up.b32 l|p, l, %1, 0, 0xffffffff;\n"
                 "shfl.sync.up.b32 h|p, h, %1, 0, 0xffffffff;\n"
                 "mov.b64 d, {l, h};\n"
                 "@p add.u64 %0, %0, d;\n"
                 "}"
                 : "+l"(s)
                 : "n"(D));
}
template <int D> __device__ __forceinline__ void add_shuffled_up(uint32_t &s)
{
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 ".reg .b32 d;\n"
                 "shfl.sync.up.b32 d|p, %0, %1, 0, 0xffffffff;\n"
                 "@p add.u32 %0, %0, d;\n"
                 "}"
                 : "+r"(s)
                 : "n"(D));
}

/* Returns the inclusive prefix sum over the lanes, by doubling. (No value is -0 here, so 0 need not be added.) */
template <class A> __device__ __forceinline__ A warp_scan(A s)
{
    add_shuffled_up<1>(s);
    add_shuffled_up<2>(s);
    add_shuffled_up<4>(s);
    add_shuffled_up<8>(s);
    add_shuffled_up<16>(s);
    return s;
}

/* tree_sums() returns in lane l the sum over all lanes of f(l % N), by a tree; HALVES: in the order of global/sat.h,
 * which adds halves of the warp. f is called with 0, 1 ... N - 1 in this order. */
template <int N, bool HALVES, class F> __device__ __forceinline__ auto tree_sum(const F &f, int first, int lane)
{
    if constexpr (N == 1) {
        return f(first);
    } else {
        constexpr int D = HALVES ? 32 / N : N / 2;
        const auto a = tree_sum<N / 2, HALVES>(f, first, lane);
        const auto b = tree_sum<N / 2, HALVES>(f, first + N / 2, lane);
        const bool up = lane & D;
        return (up ? b : a) + __shfl_xor_sync(~0u, up ? a : b, D);
    }
}
template <int N, bool HALVES, class F> __device__ __forceinline__ auto tree_sums(const F &f, int lane)
{
    auto v = tree_sum<N, HALVES>(f, 0, lane);
#pragma unroll
    for (int n = N; n < 32; n *= 2)
        v += __shfl_xor_sync(~0u, v, HALVES ? 16 / n : n);
    return HALVES ? __shfl_sync(~0u, v, __brev(lane) >> 27) : v;
}

} // namespace vp::sat
