/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels of cuda/ on the CPU, so that tests without a GPU run them: translate.pl makes C++ of a source, this
 * header comes before it, emulate.cpp has the threads and the runtime.
 * A kernel's blocks run one after the other; the threads of a block are fibers. A warp goes on until it waits for
 * others (a barrier, an exchange between lanes, numbers that others tell), then the next one does. On devices with odd
 * numbers the last warp comes first, and who is the last to arrive at a barrier in shared memory goes on after those
 * who waited for that; on even ones the last lane of a warp comes first. What is copied in the background, by threads or
 * by the bulk copy engine, comes as late as it may, and until then its place holds rubbish, as does what is allotted. So
 * a wait that is missing is found out sooner than on a GPU; where all wait for ever, a line says so and the program
 * aborts.
 * The devices have one multiprocessor and compute capability 8.0 or, with EMULATED_CAPABILITY=9, 9.0: barriers in
 * shared memory and boxes of tensor maps, whose arguments have to be what the hardware demands. EMULATED_DEVICES: how
 * many devices there are (2). EMULATED_LOG: a file to which each launch adds a line.
 * Not seen: what only several blocks, or two kernels, at the same time can do wrong; orders of memory (fences); shared
 * memory that is declared with its size, registers and launch bounds; speed.
 * Functions that are CUDA's do what its programming guide says, for the types that cuda/ calls them with. */
#ifndef VP_EMULATE_H
#define VP_EMULATE_H

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
    void *stack; /* where it left */
    uint3 index;
    int lane, warp;
    uint32_t mask;             /* of the lanes that it exchanges with */
    uint64_t got[LANES];       /* what they gave */
    const void *phased;        /* the barrier in shared memory that it waits for, */
    unsigned parity;           /* and the phase of it */
    std::vector<later> copies; /* that have not come */
    std::vector<size_t> closed; /* how many of them each group that is closed ends with */
};

/* Who is running in this thread of the system. */
struct place {
    thread *at;
    uint3 block;
    dim3 blocks, threads;
    char *shared; /* what the launch allots to a block */
};
extern thread_local place now;

static inline const uint3 &threadIdx() { return now.at->index; }
static inline const uint3 &blockIdx() { return now.block; }
static inline const dim3 &blockDim() { return now.threads; }
static inline const dim3 &gridDim() { return now.blocks; }

/* Let the other threads of the block go on. */
void yield();
/* Wait for all threads of the block: the OR of their values. */
int barrier(int value);
/* Wait for the lanes of the mask; their values are in now.at->got. */
void exchange(uint32_t mask, uint64_t value);
/* All blocks, one after the other; or what a device says of such a launch. `f`: the kernel's address. */
cudaError_t launch(const cudaLaunchConfig_t *c, const void *f, const std::function<void()> &kernel);
/* Time that always goes on. */
uint64_t tick();
/* Ends the program with a line. */
[[noreturn]] void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- what is copied in the background ---- */

/* A thread's own copies, in groups, of which the last few may stay on their way. */
void copy_later(void *to, const void *from, size_t bytes);
void close_copies();
void await_copies(int left);

/* Barriers in shared memory ("mbarrier"): a phase is over when so many have arrived and all bytes have come. */
void phases_init(void *b, int arrivals);
void phases_arrive(void *b);
void phases_expect(void *b, int bytes); /* and arrive */
void phases_wait(void *b, unsigned parity);

/* The bulk copy engine: bytes in a row, and the box at (x, y, z) of a map; the barrier is told when they have come. */
void copy_bulk(void *to, const void *from, size_t bytes, void *full);
void copy_box(void *to, const CUtensorMap *map, int x, int y, int z, void *full);

/* A warp from now on has so many registers a thread. */
void set_registers(int n);

/* In the shared memory of the block. */
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

/* What lane `from` has, or one's own. */
template <class T> T given(uint32_t mask, T v, int from, bool valid)
{
    exchange(mask, word(v));
    return valid ? as<T>(now.at->got[from & (LANES - 1)]) : v;
}

/* What the lane `d` before has, `none` where there is none. */
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

/* op of the values of all lanes of the mask, in their order. */
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

/* Threads of a block are not interrupted; blocks do not overlap. */
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
/* these two are waited with */
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

/* Words of two or four numbers. */
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

/* Of numbers of different types, too; of floats the one that is no NaN. */
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

#endif
