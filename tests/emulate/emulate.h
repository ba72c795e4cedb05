/* SPDX-License-Identifier: BSD-3-Clause */
/* Emulates the kernels of cuda/ on the CPU, for tests without a GPU: translate.pl turns a source into C++, this header
 * is included before it, emulate.cpp has the threads and the runtime.
 *
 * Scheduling: the blocks of a kernel run one after another; the threads of a block are fibers. A warp runs until it
 *   waits (for a barrier, an exchange between lanes, words that others publish), then the next one does. On devices
 *   with odd numbers warps run in reverse order, and the last thread to arrive at a barrier in shared memory resumes
 *   after those that waited for it; on even ones the lanes of a warp run in reverse order.
 * Copies: asynchronous copies, by threads or by the bulk copy engine, complete as late as possible. Until then their
 *   destination holds rubbish, as does allocated memory. So a missing wait shows sooner than on a GPU. A deadlock is
 *   reported, and the program aborts.
 * Devices: one multiprocessor, compute capability 8.0 or, with EMULATED_CAPABILITY=9, 9.0: barriers in shared memory
 *   and boxes of tensor maps, whose arguments are checked as by the hardware. EMULATED_DEVICES: number of devices (2).
 *   EMULATED_LOG: file to which each launch appends a line. EMULATED_FULL: number of the cudaMalloc that fails.
 * Not emulated: races between blocks or kernels; memory order (fences); the size of statically declared shared memory,
 *   registers and launch bounds; speed.
 *
 * Functions of CUDA behave as its programming guide specifies, for the types with which cuda/ calls them. */
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <type_traits>
#include <vector>

#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __forceinline__
#undef __noinline__
#undef __launch_bounds__
#undef __grid_constant__
#undef __align__
#define __global__
#define __device__
#define __host__
#define __shared__ static thread_local
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_assume(x) ((void)0)

using std::isfinite;
using std::isinf;
using std::isnan;
using std::signbit;

namespace emulate
{

enum { LANES = 32 };

struct later {
    void *to;
    const void *from;
    size_t bytes;
};

struct thread {
    void *stack; /* top of the stack while suspended */
    uint3 index;
    int lane, warp;
    uint32_t mask;             /* lanes that it exchanges with */
    uint64_t got[LANES];       /* values received from them */
    const void *phased;        /* barrier in shared memory that it waits for */
    unsigned parity;           /* phase of that barrier */
    std::vector<later> copies; /* pending copies */
    std::vector<size_t> closed; /* end of each committed group in `copies` */
};

/* The fiber that runs in this operating-system thread. */
struct place {
    thread *at;
    uint3 block;
    dim3 blocks, threads;
    char *shared; /* dynamic shared memory of the block */
};
extern thread_local place now;

static inline const uint3 &threadIdx() { return now.at->index; }
static inline const uint3 &blockIdx() { return now.block; }
static inline const dim3 &blockDim() { return now.threads; }
static inline const dim3 &gridDim() { return now.blocks; }

/* Lets the other threads of the block run. */
void yield();
/* Waits for all threads of the block. Returns the OR of their values. */
int barrier(int value);
/* Waits for the lanes of the mask; their values are in now.at->got. */
void exchange(uint32_t mask, uint64_t value);
/* Runs all blocks one after another, or returns the error of an invalid launch. `f`: the kernel's address. */
cudaError_t launch(const cudaLaunchConfig_t *c, const void *f, const std::function<void()> &kernel);
/* Returns a time that increases with every call. */
uint64_t tick();
/* Prints a line and aborts. */
[[noreturn]] void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- asynchronous copies ---- */

/* A thread's own copies, in groups; await_copies() completes all but the last `left` groups. */
void copy_later(void *to, const void *from, size_t bytes);
void close_copies();
void await_copies(int left);

/* Barriers in shared memory (mbarrier): a phase is over after `arrivals` arrivals and all expected bytes. */
void phases_init(void *b, int arrivals);
void phases_arrive(void *b);
void phases_expect(void *b, int bytes); /* arrives as well */
void phases_wait(void *b, unsigned parity);

/* The bulk copy engine: copies contiguous bytes, or the box at (x, y, z) of a map; arrives at `full` with the bytes. */
void copy_bulk(void *to, const void *from, size_t bytes, void *full);
void copy_box(void *to, const CUtensorMap *map, int x, int y, int z, void *full);

/* Sets the registers of a thread of the calling warp to n. */
void set_registers(int n);

/* Fails unless [p, p + bytes) is in the shared memory of the block, and aligned. */
void check_shared(const void *p, size_t bytes, size_t align, const char *what);
template <class T> T load_shared(unsigned at)
{
    check_shared((const void *)(uintptr_t)at, sizeof(T), sizeof(T), "a load");
    return *(const T *)(uintptr_t)at;
}

template <class... P, class... A> cudaError_t start(const cudaLaunchConfig_t *c, void (*kernel)(P...), const A &...args)
{
    return launch(c, (const void *)kernel, [&] { kernel(P(args)...); });
}

template <class T> uint64_t word(T v)
{
    static_assert(sizeof(T) <= 8, "lanes exchange eight bytes at most");
    uint64_t w = 0;
    memcpy(&w, &v, sizeof v);
    return w;
}

template <class T, class From> T as(From w)
{
    T v;
    memcpy(&v, &w, sizeof v);
    return v;
}

/* Returns v of lane `from`, or of the calling lane if not `valid`. */
template <class T> T given(uint32_t mask, T v, int from, bool valid)
{
    exchange(mask, word(v));
    return valid ? as<T>(now.at->got[from & (LANES - 1)]) : v;
}

/* Returns v of the lane d below, `none` in the first d lanes. */
template <class T> T from_left(T v, int d, T none)
{
    const T left = given(~0u, v, now.at->lane - d, now.at->lane >= d);
    return now.at->lane >= d ? left : none;
}

static inline float rounded(float v, float lo, float hi)
{
    return v == v ? std::nearbyint(std::fmax(std::fmin(v, hi), lo)) : 0;
}

}

/* ---- the runtime's templates ---- */

template <class... P> cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *a, void (*kernel)(P...))
{
    return cudaFuncGetAttributes(a, (const void *)kernel);
}
template <class... P> cudaError_t cudaFuncSetAttribute(void (*kernel)(P...), enum cudaFuncAttribute which, int value)
{
    return cudaFuncSetAttribute((const void *)kernel, which, value);
}
template <class... P>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *n, void (*kernel)(P...), int threads, size_t shared)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(n, (const void *)kernel, threads, shared);
}

/* ---- threads of a block, lanes of a warp ---- */

static inline void __syncthreads() { emulate::barrier(0); }
static inline int __syncthreads_or(int v) { return emulate::barrier(v != 0); }
static inline void __syncwarp(unsigned mask = ~0u) { emulate::exchange(mask, 0); }
static inline void __threadfence() {}
static inline void __nanosleep(unsigned) { emulate::yield(); }

template <class T> T __shfl_sync(unsigned mask, T v, int from, int width = 32)
{
    const int lane = emulate::now.at->lane;
    return emulate::given(mask, v, (lane & ~(width - 1)) | (from & (width - 1)), true);
}
template <class T> T __shfl_xor_sync(unsigned mask, T v, int with, int width = 32)
{
    const int lane = emulate::now.at->lane, from = lane ^ with;
    return emulate::given(mask, v, from, from / width == lane / width);
}
template <class T> T __shfl_up_sync(unsigned mask, T v, unsigned by, int width = 32)
{
    const int lane = emulate::now.at->lane;
    return emulate::given(mask, v, lane - (int)by, lane % width >= (int)by);
}
template <class T> T __shfl_down_sync(unsigned mask, T v, unsigned by, int width = 32)
{
    const int lane = emulate::now.at->lane;
    return emulate::given(mask, v, lane + (int)by, lane % width + (int)by < width);
}

/* Returns the values of all lanes of the mask, reduced by op in lane order. */
template <class T, class Op> T emulate_reduce(unsigned mask, T v, const Op &op)
{
    bool first = true;
    T all = v;
    emulate::exchange(mask, emulate::word(v));
    for (int i = 0; i < emulate::LANES; i++) {
        if (!(mask >> i & 1))
            continue;
        const T one = emulate::as<T>(emulate::now.at->got[i]);
        all = first ? one : (T)op(all, one);
        first = false;
    }
    return all;
}
template <class T> T __reduce_min_sync(unsigned mask, T v)
{
    return emulate_reduce(mask, v, [](T a, T b) { return std::min(a, b); });
}
template <class T> T __reduce_add_sync(unsigned mask, T v)
{
    return emulate_reduce(mask, v, [](T a, T b) { return a + b; });
}
static inline unsigned __ballot_sync(unsigned mask, int yes)
{
    const unsigned mine = yes ? 1u << emulate::now.at->lane : 0;
    return emulate_reduce(mask, mine, [](unsigned a, unsigned b) { return a | b; });
}
static inline int __any_sync(unsigned mask, int yes) { return __ballot_sync(mask, yes) != 0; }
static inline int __all_sync(unsigned mask, int yes) { return __ballot_sync(mask, !yes) == 0; }

/* ---- memory ---- */

template <class T> T __ldg(const T *p) { return *p; }
template <class T> T __ldcg(const T *p) { return *p; }
template <class T> T __ldcs(const T *p) { return *p; }
template <class T> void __stcs(T *p, T v) { *p = v; }
template <class T> void __stcg(T *p, T v) { *p = v; }

/* Atomic without further measures, since fibers are not preempted and blocks do not overlap. */
template <class T, class F> T emulate_atomic(T *p, const F &next)
{
    const T old = *p;
    *p = next(old);
    return old;
}
template <class T, class V> T atomicAdd(T *p, V v) { return emulate_atomic(p, [=](T old) { return (T)(old + (T)v); }); }
template <class T, class V> T atomicSub(T *p, V v) { return emulate_atomic(p, [=](T old) { return (T)(old - (T)v); }); }
template <class T, class V> T atomicMax(T *p, V v)
{
    return emulate_atomic(p, [=](T old) { return std::max(old, (T)v); });
}
template <class T, class V> T atomicOr(T *p, V v) { return emulate_atomic(p, [=](T old) { return (T)(old | (T)v); }); }
template <class T, class V> T atomicAnd(T *p, V v) { return emulate_atomic(p, [=](T old) { return (T)(old & (T)v); }); }
/* these two are used for waiting, so they yield */
template <class T, class V> T atomicExch(T *p, V v)
{
    const T old = emulate_atomic(p, [=](T) { return (T)v; });
    emulate::yield();
    return old;
}
template <class T, class C, class V> T atomicCAS(T *p, C expected, V v)
{
    const T old = emulate_atomic(p, [=](T is) { return is == (T)expected ? (T)v : is; });
    emulate::yield();
    return old;
}

static inline size_t __cvta_generic_to_shared(const void *p) { return (size_t)p; }
template <class T> void __pipeline_memcpy_async(T *to, const void *from, size_t n)
{
    emulate::copy_later((void *)to, from, n);
}
static inline void __pipeline_commit() { emulate::close_copies(); }
static inline void __pipeline_wait_prior(int left) { emulate::await_copies(left); }

/* ---- numbers ---- */

static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fmaf_rn(float a, float b, float c) { return std::fmaf(a, b, c); }
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline float __fadd_rd(float a, float b)
{
    const double x = a, y = b, sum = x + y, part = sum - x, rest = (x - (sum - part)) + (y - part); /* exact */
    const float near = (float)sum;
    return (double)near > sum || ((double)near == sum && rest < 0) ? std::nextafterf(near, -INFINITY) : near;
}
static inline float __saturatef(float v) { return v > 0 ? std::min(v, 1.0f) : 0; }
static inline float rsqrtf(float v) { return 1 / std::sqrt(v); }
static inline int __float_as_int(float v) { return emulate::as<int>(v); }
static inline unsigned __float_as_uint(float v) { return emulate::as<unsigned>(v); }
static inline float __int_as_float(int v) { return emulate::as<float>(v); }
static inline float __uint_as_float(unsigned v) { return emulate::as<float>(v); }
static inline double __longlong_as_double(long long v) { return emulate::as<double>(v); }
static inline long long __double_as_longlong(double v) { return emulate::as<long long>(v); }
static inline int __double2loint(double v) { return (int)(uint32_t)emulate::word(v); }
static inline int __double2hiint(double v) { return (int)(emulate::word(v) >> 32); }
static inline double __hiloint2double(int hi, int lo)
{
    return emulate::as<double>((uint64_t)(uint32_t)hi << 32 | (uint32_t)lo);
}
static inline int __float2int_rn(float v) { return (int)std::nearbyint(v); }
static inline int __popc(unsigned v) { return __builtin_popcount(v); }
static inline int __clzll(long long v) { return v ? __builtin_clzll((unsigned long long)v) : 64; }
static inline int __ffs(int v) { return __builtin_ffs(v); }
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((uint64_t)a * b >> 32); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
static inline unsigned __brev(unsigned v)
{
    unsigned reversed = 0;
    for (int i = 0; i < 32; i++)
        reversed |= (v >> i & 1) << (31 - i);
    return reversed;
}
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by)
{
    return (unsigned)(((uint64_t)high << 32 | low) >> (by & 31));
}
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned select)
{
    const uint64_t both = (uint64_t)b << 32 | a;
    unsigned bytes = 0;
    for (int i = 0; i < 4; i++) {
        const unsigned which = select >> 4 * i & 15, byte = (unsigned)(both >> 8 * (which & 7)) & 255;
        bytes |= (which & 8 ? byte >> 7 ? 255 : 0 : byte) << 8 * i;
    }
    return bytes;
}

/* Words of two or four packed integers. */
template <class Part, class F> unsigned emulate_parts(unsigned a, unsigned b, const F &f)
{
    unsigned all = 0;
    for (unsigned i = 0; i < 32; i += 8 * sizeof(Part))
        all |= (unsigned)f((Part)(a >> i), (Part)(b >> i)) << i;
    return all;
}
static inline unsigned __vmaxu2(unsigned a, unsigned b)
{
    return emulate_parts<uint16_t>(a, b, [](uint16_t x, uint16_t y) { return std::max(x, y); });
}
static inline unsigned __vminu2(unsigned a, unsigned b)
{
    return emulate_parts<uint16_t>(a, b, [](uint16_t x, uint16_t y) { return std::min(x, y); });
}
static inline unsigned __vmaxu4(unsigned a, unsigned b)
{
    return emulate_parts<uint8_t>(a, b, [](uint8_t x, uint8_t y) { return std::max(x, y); });
}
static inline unsigned __vminu4(unsigned a, unsigned b)
{
    return emulate_parts<uint8_t>(a, b, [](uint8_t x, uint8_t y) { return std::min(x, y); });
}
static inline unsigned __vimax3_u16x2(unsigned a, unsigned b, unsigned c) { return __vmaxu2(__vmaxu2(a, b), c); }
static inline unsigned __vimin3_u16x2(unsigned a, unsigned b, unsigned c) { return __vminu2(__vminu2(a, b), c); }
static inline int __vimin3_s32(int a, int b, int c) { return std::min(std::min(a, b), c); }
static inline int __vimax3_s32(int a, int b, int c) { return std::max(std::max(a, b), c); }
static inline unsigned __vimax3_u32(unsigned a, unsigned b, unsigned c) { return std::max(std::max(a, b), c); }
template <class A, class C> C __dp4a(A a, A b, C c)
{
    typedef typename std::conditional<std::is_signed<A>::value, int8_t, uint8_t>::type byte;
    for (int i = 0; i < 32; i += 8)
        c += (C)((byte)(a >> i) * (byte)(b >> i));
    return c;
}

/* Also for numbers of different types; of floats the one that is not NaN. */
template <class A, class B> static inline typename std::common_type<A, B>::type min(A a, B b)
{
    typedef typename std::common_type<A, B>::type both;
    if constexpr (std::is_floating_point<both>::value)
        return std::fmin((both)a, (both)b);
    else
        return std::min((both)a, (both)b);
}
template <class A, class B> static inline typename std::common_type<A, B>::type max(A a, B b)
{
    typedef typename std::common_type<A, B>::type both;
    if constexpr (std::is_floating_point<both>::value)
        return std::fmax((both)a, (both)b);
    else
        return std::max((both)a, (both)b);
}
