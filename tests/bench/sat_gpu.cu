/* SPDX-License-Identifier: BSD-3-Clause */
/* Summed area tables on a GPU. Compares the bits with the CPU's for random types, sizes and schedules (parts in order;
 * segments without carry, which is added afterwards), and tables of more than 2^31 samples with their closed form. Then
 * measures tables in device memory, the clearing of the published words included, beside a kernel that only reads,
 * converts and writes the same types. Two algorithms: the single pass of cuda/sat.cuh, and the reduce-then-scan of
 * sat_three.cuh, which reads the samples twice and so reaches at most (in + out) / (2 in + out) of the bandwidth. Built
 * by hand:
 *     nvcc -O3 -std=c++17 -arch=sm_90 -Icommon -Icuda tests/bench/sat_gpu.cu cuda/sat.cu cuda/sat_volume.cu \
 *         cuda/sat_volume_floats.cu build/obj-.../libvoxpipe.a -lgomp -o sat_gpu
 * usage: sat_gpu [TRIALS [LARGEST]]
 *        sat_gpu sizes: tables of 64^2 to 2048^2 beside other ways (Ha et al. 2012, figure 5) */
#include "gpu.h"

extern "C" {
#include "global/sat.h"
}

extern "C" const struct vp_kernel vp_gpu_sat;

#include "sat_three.cuh"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

static void must(cudaError_t e, const char *what)
{
    if (e == cudaSuccess)
        return;
    printf("%s: %s\n", what, cudaGetErrorString(e));
    exit(1);
}

static uint64_t state = 88172645463325252u;
static uint64_t next_random()
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}
static int64_t dice(int64_t lo, int64_t hi) { return lo + (int64_t)(next_random() % (uint64_t)(hi - lo + 1)); }

static void fill(void *a, enum vp_type t, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const uint64_t v = next_random();
        if (t == VP_F32)
            ((float *)a)[i] = (float)((double)(v >> 40) * exp2((double)(v % 9)) * (v & 512 ? 1 : -0.37));
        else if (t == VP_F64)
            ((double *)a)[i] = (double)(v >> 11) * exp2((double)(v % 9) - 40);
        else
            memcpy((char *)a + i * vp_type_size(t), &v, vp_type_size(t));
    }
}

/* ---- bits ---- */

struct scene {
    bool volume;
    int64_t n[3]; /* width, rows, planes or 1 */
    struct vp_op op;
    std::vector<char> in, want[2], got[2];
};

static int64_t along(const scene &s) { return s.volume ? s.n[2] : s.n[1]; }
static int64_t plane(const scene &s) { return s.volume ? s.n[0] * s.n[1] : s.n[0]; }

static void on_cpu(scene &s)
{
    const int64_t n = along(s);
    const vp_box box = {{0, 0, 0}, {s.n[0], s.volume ? s.n[1] : 1, n}};
    std::vector<void *> p((size_t)(3 * n));
    for (int64_t z = 0; z < n; z++) {
        p[z] = s.in.data() + z * plane(s) * vp_type_size(s.op.in);
        p[n + z] = s.want[0].data() + z * plane(s) * vp_type_size(s.op.out);
        p[2 * n + z] = s.want[1].data() + z * plane(s) * (s.op.second ? vp_type_size(*s.op.second) : 0);
    }
    const vp_part in = {box, s.n[0], p.data()}, out[2] = {{box, s.n[0], p.data() + n}, {box, s.n[0], p.data() + 2 * n}};
    void *kept = aligned_alloc(64, s.op.carry->state_bytes(&s.op, &box, 2));
    memset(kept, 0, s.op.carry->state_bytes(&s.op, &box, 2));
    void *scratch = aligned_alloc(64, (s.op.scratch(&s.op, &box, &box, 2) + 63) / 64 * 64);
    s.op.carry->advance(&s.op, &in, out, scratch, kept, 2, NULL);
    free(kept);
    free(scratch);
}

struct room { void *p = NULL; size_t n = 0; void *get(size_t want)
{
    if (want > n) {
        cudaFree(p);
        must(cudaMalloc(&p, want), "memory");
        n = want;
    }
    return p;
} };

static int64_t pitch_of(int64_t nx, enum vp_type t) { return (int64_t)((nx * vp_type_size(t) + 15) / 16 * 16 / vp_type_size(t)); }

/* Computes the tables in parts of random size, or in one. */
static void on_gpu(scene &s, bool side_by_side, vp_queue *q, bool three_passes)
{
    static room in, out[2], scratch, kept;
    const int64_t n = along(s), rows = s.volume ? s.n[1] : 1, step = s.op.step[2];
    const vp_box whole = {{0, 0, 0}, {s.n[0], rows, n}};
    const int64_t at_once = dice(0, 3) ? dice(1, 3) : n / step + 1;
    const uint64_t bytes = s.op.carry->state_bytes(&s.op, &whole, 1);
    void *const k = kept.get(bytes);
    std::vector<char> carried(bytes), total(bytes);
    must(cudaMemset(k, 0x5a, bytes), "memset");
    for (int64_t z = 0; z < n;) {
        const int64_t end = std::min(n, z + step * (side_by_side ? 1 : at_once));
        const vp_box box = {{0, 0, z}, {s.n[0], rows, end}};
        const int64_t size[3] = {s.n[0], rows, end - z};
        const int64_t pi = pitch_of(s.n[0], s.op.in);
        const size_t is = vp_type_size(s.op.in);
        const vp_area a = {box, pi, pi * rows, in.get(pi * rows * (end - z) * is)};
        must(cudaMemset(a.data, 0xa5, pi * rows * (end - z) * is), "memset");
        must(cudaMemcpy2D(a.data, pi * is, s.in.data() + z * plane(s) * is, s.n[0] * is, s.n[0] * is, rows * (end - z),
                          cudaMemcpyHostToDevice), "up");
        vp_area b[2];
        for (int i = 0; i < (s.op.second ? 2 : 1); i++) {
            const enum vp_type t = i ? *s.op.second : s.op.out;
            const int64_t p = pitch_of(s.n[0], t);
            b[i] = {box, p, p * rows, out[i].get(p * rows * (end - z) * vp_type_size(t))};
        }
        const uint64_t sb = three_passes ? vp::three::bytes_of<float, double, vp::sat::BASE_WARPS>(
                                               (const vp_sat *)s.op.params, size)
                                         : vp_gpu_sat.scratch(&s.op, size, size);
        void *const sc = scratch.get(sb);
        must(cudaMemset(sc, 0x77, sb), "memset");
        vp_work w = {side_by_side ? VP_LOCAL : VP_MAKE, k, &a, b, NULL, sc, q};
        struct vp_err err = VP_ERR_INIT;
        must(cudaDeviceSynchronize(), "rubbish");
        const auto three = s.volume ? vp::three::run<float, double, double, vp::sat::BASE_WARPS, false>
                                    : vp::three::run<float, double, double, vp::sat::TALL_WARPS, false>;
        if (three_passes ? three(vp::sat::part_of(&s.op, &w, 0, (char *)k), &w, &err)
                     : vp_gpu_sat.launch(&s.op, &w, &err))
            printf("%s\n", err.msg), exit(1);
        if (side_by_side) {
            must(cudaStreamSynchronize(q->stream), "kernel");
            must(cudaMemcpy(total.data(), k, bytes, cudaMemcpyDeviceToHost), "down");
            if (z == 0)
                memset(carried.data(), 0, bytes);
            must(cudaMemcpy(k, carried.data(), bytes, cudaMemcpyHostToDevice), "up");
            must(cudaDeviceSynchronize(), "up");
            w.pass = VP_APPLY;
            if (vp_gpu_sat.launch(&s.op, &w, &err))
                printf("%s\n", err.msg), exit(1);
            s.op.carry->combine(&s.op, carried.data(), total.data(), bytes);
        }
        must(cudaStreamSynchronize(q->stream), "kernel");
        for (int i = 0; i < (s.op.second ? 2 : 1); i++) {
            const size_t os = vp_type_size(i ? *s.op.second : s.op.out);
            must(cudaMemcpy2D(s.got[i].data() + z * plane(s) * os, s.n[0] * os, b[i].data, b[i].pitch * os, s.n[0] * os,
                              rows * (end - z), cudaMemcpyDeviceToHost), "down");
        }
        z = end;
    }
}

static int compare(int trials, vp_queue *q)
{
    int runs = 0, bad = 0, joined = 0, in_three = 0, kinds[4] = {0};
    for (int trial = 0; trial < trials; trial++) {
        static const enum vp_type outs[] = {VP_U32, VP_U64, VP_I32, VP_I64, VP_F64, VP_F32};
        scene s;
        vp_sat_request r = {};
        r.volume = dice(0, 2) == 0;
        r.squares = dice(0, 2) == 0;
        r.out = outs[dice(0, 5)];
        const enum vp_type in = (enum vp_type)(trial % VP_N_TYPES);
        struct vp_err err = VP_ERR_INIT;
        s.volume = r.volume;
        s.n[0] = dice(0, 2) ? dice(1, 1500) : dice(1, 70);
        s.n[1] = dice(0, 2) ? dice(1, 300) : dice(1, 1000);
        s.n[2] = r.volume ? dice(1, 12) : 1;
        if (r.volume && dice(0, 2) == 0) { /* many slabs */
            s.n[0] = dice(1, 300);
            s.n[1] = dice(1, 150);
            s.n[2] = dice(9, 100);
        } else if (r.volume && in == VP_F32) { /* many tiles */
            s.n[0] = dice(1281, 1500);
            s.n[1] = dice(577, 900);
            s.n[2] = dice(1, 5);
        } else if (r.volume && dice(0, 20) == 0) { /* more planes than one launch takes */
            s.n[0] = dice(1, 4);
            s.n[1] = dice(1, 3);
            s.n[2] = dice(65530, 66000);
        }
        const int64_t size[3] = {s.n[0], r.volume ? s.n[1] : 1, r.volume ? s.n[2] : s.n[1]};
        char why[160];
        if (vp_sat_check(in, r.out, &err) || vp_sat_op(&s.op, &r, size, in, &err) || !vp_gpu_sat.has(&s.op, why, sizeof why))
            continue;
        const int64_t all = s.n[0] * s.n[1] * s.n[2];
        s.in.resize(all * 8);
        fill(s.in.data(), in, all);
        for (int i = 0; i < 2; i++) {
            s.want[i].resize(all * 8);
            s.got[i].resize(all * 8);
        }
        on_cpu(s);
        const bool three = in == VP_F32 && r.out == VP_F64 && !r.squares && dice(0, 1);
        const bool side = !three && s.op.carry->combine && dice(0, 2) == 0;
        on_gpu(s, side, q, three);
        in_three += three;
        int64_t differ = 0;
        for (int i = 0; i < (s.op.second ? 2 : 1); i++) {
            const size_t os = vp_type_size(i ? *s.op.second : s.op.out);
            for (int64_t k = 0; k < all; k++)
                differ += memcmp(s.want[i].data() + k * os, s.got[i].data() + k * os, os) != 0;
        }
        runs++;
        joined += side;
        kinds[s.volume]++;
        bad += differ > 0;
        if (differ && bad < 12)
            printf("DIFFER %lld of %lld: %s to %s%s, %s %lld x %lld x %lld%s\n", (long long)differ, (long long)all,
                   vp_type_name(in), vp_type_name(r.out), r.squares ? " and squares" : "", s.volume ? "volume" : "image",
                   (long long)s.n[0], (long long)s.n[1], (long long)s.n[2], side ? ", segments" : three ? ", three passes" : "");
        free(s.op.params);
    }
    printf("bits: %d tables (%d volumes, %d in segments, %d in three passes), %d differ from the CPU\n", runs, kinds[1], joined,
           in_three, bad);
    fflush(stdout);
    return bad;
}

/* ---- more than 2^31 samples ---- */

/* a(z, y, x) = f(z) g(y) h(x) + a second such product of random numbers; with F, G, H the prefix sums of f, g, h the
 * table is F(z) G(y) H(x) + the same of the second. Each array holds both, one after the other. */
struct product { uint8_t *of[3]; uint64_t *sum[3]; int64_t n[3]; };

__global__ void make_product(product p, uint8_t *out, int64_t n)
{
    for (int64_t i = blockIdx.x * (int64_t)256 + threadIdx.x; i < n; i += (int64_t)gridDim.x * 256) {
        const int64_t at[3] = {i % p.n[0], i / p.n[0] % p.n[1], i / p.n[0] / p.n[1]};
        unsigned v = 0;
        for (int k = 0; k < 2; k++)
            v += p.of[0][k * p.n[0] + at[0]] * p.of[1][k * p.n[1] + at[1]] * p.of[2][k * p.n[2] + at[2]];
        out[i] = (uint8_t)v;
    }
}

template <class T> __global__ void check_product(product p, const T *table, int64_t n, unsigned long long *bad)
{
    for (int64_t i = blockIdx.x * (int64_t)256 + threadIdx.x; i < n; i += (int64_t)gridDim.x * 256) {
        const int64_t at[3] = {i % p.n[0], i / p.n[0] % p.n[1], i / p.n[0] / p.n[1]};
        uint64_t v = 0;
        for (int k = 0; k < 2; k++)
            v += p.sum[0][k * p.n[0] + at[0]] * p.sum[1][k * p.n[1] + at[1]] * p.sum[2][k * p.n[2] + at[2]];
        if (table[i] != (T)v)
            atomicAdd(bad, 1ull);
    }
}

template <class T> static int64_t beyond(bool volume, int64_t nx, int64_t ny, int64_t nz, vp_queue *q)
{
    product p = {{}, {}, {nx, ny, nz}};
    const int64_t n = nx * ny * nz, size[3] = {nx, volume ? ny : 1, volume ? nz : ny};
    for (int a = 0; a < 3; a++) {
        must(cudaMallocManaged(&p.of[a], 2 * p.n[a]), "memory");
        must(cudaMallocManaged(&p.sum[a], 2 * p.n[a] * 8), "memory");
        for (int64_t i = 0; i < 2 * p.n[a]; i++) {
            p.of[a][i] = (uint8_t)dice(p.n[a] == 1, p.n[a] == 1 ? 1 : 5); /* 2 * 5^3 is a byte */
            p.sum[a][i] = (i % p.n[a] ? p.sum[a][i - 1] : 0) + p.of[a][i];
        }
    }
    vp_sat_request r = {};
    r.volume = volume;
    r.out = sizeof(T) == 4 ? VP_U32 : VP_U64;
    vp_op op;
    struct vp_err err = VP_ERR_INIT;
    uint8_t *from;
    T *to;
    char *scratch, *kept;
    unsigned long long *bad;
    const vp_box box = {{0, 0, 0}, {size[0], size[1], size[2]}};
    if (vp_sat_op(&op, &r, size, VP_U8, &err))
        printf("%s\n", err.msg), exit(1);
    must(cudaMalloc(&from, n + 4096), "memory");
    must(cudaMalloc(&to, n * sizeof(T) + 4096), "memory");
    must(cudaMalloc(&scratch, vp_gpu_sat.scratch(&op, size, size)), "memory");
    must(cudaMalloc(&kept, op.carry->state_bytes(&op, &box, 1)), "memory");
    must(cudaMallocManaged(&bad, 8), "memory");
    *bad = 0;
    make_product<<<4096, 256, 0, q->stream>>>(p, from, n);
    const vp_area ia = {box, nx, nx * size[1], from}, oa = {box, nx, nx * size[1], to};
    vp_work w = {VP_MAKE, kept, &ia, &oa, NULL, scratch, q};
    if (vp_gpu_sat.launch(&op, &w, &err))
        printf("%s\n", err.msg), exit(1);
    check_product<T><<<4096, 256, 0, q->stream>>>(p, to, n, bad);
    must(cudaStreamSynchronize(q->stream), "kernel");
    const int64_t differ = (int64_t)*bad;
    printf("%s of %lld x %lld x %lld u8 to %zu bits: %lld of %lld differ\n", volume ? "volume" : "image", (long long)nx,
           (long long)ny, (long long)nz, sizeof(T) * 8, (long long)differ, (long long)n);
    for (int a = 0; a < 3; a++)
        cudaFree(p.of[a]), cudaFree(p.sum[a]);
    cudaFree(from), cudaFree(to), cudaFree(scratch), cudaFree(kept), cudaFree(bad);
    free(op.params);
    return differ;
}

/* ---- seconds ---- */

template <class In, class Out, int N> __global__ void __launch_bounds__(256) convert(const In *in, Out *out, size_t n)
{
    struct alignas(sizeof(In) * N) from { In v[N]; };
    struct alignas(16) to { Out v[N]; };
    for (size_t i = blockIdx.x * (size_t)256 + threadIdx.x; i < n / N; i += (size_t)gridDim.x * 256) {
        const from a = ((const from *)in)[i];
        to b;
        for (int k = 0; k < N; k++)
            b.v[k] = (Out)a.v[k];
        if (sizeof(b) == 16)
            __stcs((uint4 *)out + i, *(uint4 *)&b);
        else
            ((to *)out)[i] = b;
    }
}

static double median(std::vector<float> v)
{
    std::sort(v.begin(), v.end());
    return v[v.size() / 2];
}

template <class F> static double measure(cudaStream_t stream, int rounds, const F &f)
{
    cudaEvent_t a, b;
    cudaEventCreate(&a);
    cudaEventCreate(&b);
    std::vector<float> ms;
    for (int i = -1; i < rounds; i++) {
        cudaEventRecord(a, stream);
        f();
        cudaEventRecord(b, stream);
        must(cudaEventSynchronize(b), "kernel");
        float t;
        cudaEventElapsedTime(&t, a, b);
        if (i >= 0)
            ms.push_back(t);
    }
    cudaEventDestroy(a);
    cudaEventDestroy(b);
    return median(ms);
}

__global__ void noise(uint32_t *p, size_t n, bool floats)
{
    for (size_t i = blockIdx.x * (size_t)256 + threadIdx.x; i < n; i += (size_t)gridDim.x * 256) {
        uint32_t v = (uint32_t)i * 2654435761u;
        v = (v ^ v >> 15) * 0x846ca68bu;
        p[i] = floats ? __float_as_uint((float)(v >> 8) * 8.166e-8f) : v;
    }
}

template <class In, class Out>
static void time_of(const char *name, int64_t nx, int64_t ny, int64_t nz, enum vp_type in, enum vp_type out, bool volume,
                    vp_queue *q)
{
    static room a, b, scratch, kept;
    const size_t n = (size_t)(nx * ny * nz);
    const int64_t size[3] = {nx, volume ? ny : 1, volume ? nz : ny};
    vp_sat_request r = {};
    r.volume = volume;
    r.out = out;
    vp_op op;
    struct vp_err err = VP_ERR_INIT;
    if (vp_sat_op(&op, &r, size, in, &err))
        printf("%s\n", err.msg), exit(1);
    void *const from = a.get(n * sizeof(In) + 4096), *const to = b.get(n * sizeof(Out) + 4096);
    noise<<<2048, 256, 0, q->stream>>>((uint32_t *)from, n * sizeof(In) / 4, in == VP_F32);
    const vp_box box = {{0, 0, 0}, {size[0], size[1], size[2]}};
    const vp_area ia = {box, nx, nx * size[1], from}, oa = {box, nx, nx * size[1], to};
    vp_work w = {VP_MAKE, kept.get(op.carry->state_bytes(&op, &box, 1)), &ia, &oa, NULL, scratch.get(vp_gpu_sat.scratch(&op, size, size)), q};
    const double table = measure(q->stream, 9, [&] {
        if (vp_gpu_sat.launch(&op, &w, &err))
            printf("%s\n", err.msg), exit(1);
    });
    double passes = NAN;
    if constexpr (std::is_same<In, float>::value || sizeof(Out) == 4) {
        using A = std::conditional_t<std::is_same<In, float>::value, double, Out>;
        constexpr int WARPS = std::is_same<In, float>::value ? vp::sat::TALL_WARPS : vp::sat::BASE_WARPS;
        const auto three = volume ? vp::three::run<In, A, Out, vp::sat::BASE_WARPS, false>
                                  : vp::three::run<In, A, Out, WARPS, false>;
        w.scratch = scratch.get(vp::three::bytes_of<In, A, vp::sat::BASE_WARPS>((const vp_sat *)op.params, size));
        passes = measure(q->stream, 9, [&] {
            if (three(vp::sat::part_of(&op, &w, 0, (char *)w.state), &w, &err))
                printf("%s\n", err.msg), exit(1);
        });
    }
    double plain = 1e9;
    for (int blocks : {q->sms * 8, q->sms * 16, q->sms * 64, (int)(n / 1024)})
        plain = std::min(plain, measure(q->stream, 9, [&] {
            convert<In, Out, (sizeof(Out) <= 4 ? 4 : 2)><<<blocks, 256, 0, q->stream>>>((const In *)from, (Out *)to, n);
        }));
    const double bytes = (double)n * (sizeof(In) + sizeof(Out));
    printf("%-11s %5lld x %5lld x %4lld: table %8.4f ms %5.0f GB/s; plain kernel %8.4f ms %5.0f GB/s: %.3f of it; three passes %8.4f ms\n",
           name,
           (long long)nx, (long long)ny, (long long)nz, table, bytes / table * 1e-6, plain, bytes / plain * 1e-6,
           plain / table, passes);
    fflush(stdout);
    free(op.params);
}

/* ---- small tables, beside other ways ---- */

/* Sums each row: a block a row, its threads in turns of the row, warps by shuffles. */
template <class In, class A> __global__ void __launch_bounds__(256) scan_rows(const In *in, A *out, int nx)
{
    __shared__ A ends[8];
    A carry = 0;

    for (int x0 = 0; x0 < nx; x0 += 256) {
        const int x = x0 + (int)threadIdx.x, lane = threadIdx.x & 31, warp = threadIdx.x / 32;
        A v = x < nx ? (A)in[(size_t)blockIdx.x * nx + x] : 0;
        for (int d = 1; d < 32; d *= 2) {
            const A left = __shfl_up_sync(~0u, v, d);
            v += lane >= d ? left : 0;
        }
        __syncthreads();
        if (lane == 31)
            ends[warp] = v;
        __syncthreads();
        for (int w = 0; w < warp; w++)
            v += ends[w];
        if (x < nx)
            out[(size_t)blockIdx.x * nx + x] = carry + v;
        for (int w = 0; w < 8; w++)
            carry += ends[w];
    }
}

template <class A> __global__ void __launch_bounds__(256) transpose(const A *in, A *out, int n)
{
    __shared__ A tile[32][33];
    const int x = threadIdx.x & 31, y0 = threadIdx.x / 32;

    for (int y = y0; y < 32; y += 8)
        tile[y][x] = in[(size_t)(blockIdx.y * 32 + y) * n + blockIdx.x * 32 + x];
    __syncthreads();
    for (int y = y0; y < 32; y += 8)
        out[(size_t)(blockIdx.x * 32 + y) * n + blockIdx.y * 32 + x] = tile[x][y];
}

/* Measures a table of n x n, n a multiple of 32, by one thread of the host, by transposition, three passes and one; the
 * mean of many in a row. Returns the numbers that differ (of integers: of all ways). */
template <class In, class A, class Out>
static int64_t size_of(const char *name, int64_t n, enum vp_type in, enum vp_type out, vp_queue *q)
{
    static room a, b, c, d, scratch, kept;
    const int many = n <= 512 ? 200 : 50;
    const size_t all = (size_t)(n * n);
    const int64_t size[3] = {n, 1, n};
    vp_sat_request r = {};
    r.out = out;
    vp_op op;
    struct vp_err err = VP_ERR_INIT;
    if (vp_sat_op(&op, &r, size, in, &err))
        printf("%s\n", err.msg), exit(1);
    In *const from = (In *)a.get(all * sizeof(In) + 4096);
    Out *const to = (Out *)b.get(all * sizeof(Out) + 4096);
    A *const one = (A *)c.get(all * sizeof(A)), *const other = (A *)d.get(all * sizeof(A));
    noise<<<2048, 256, 0, q->stream>>>((uint32_t *)from, all * sizeof(In) / 4, in == VP_F32);
    must(cudaStreamSynchronize(q->stream), "noise");
    std::vector<In> samples(all);
    std::vector<Out> serial(all), got(all);
    std::vector<A> turned(all);
    must(cudaMemcpy(samples.data(), from, all * sizeof(In), cudaMemcpyDeviceToHost), "down");
    std::vector<float> cpu;
    for (int k = 0; k < 9; k++) {
        const auto start = std::chrono::steady_clock::now();
        for (int64_t y = 0; y < n; y++) {
            A sum = 0;
            for (int64_t x = 0; x < n; x++) {
                sum += (A)samples[y * n + x];
                serial[y * n + x] = (Out)(sum + (y ? (A)serial[(y - 1) * n + x] : 0));
            }
        }
        cpu.push_back(std::chrono::duration<float, std::milli>(std::chrono::steady_clock::now() - start).count());
    }
    const vp_box box = {{0, 0, 0}, {n, 1, n}};
    const vp_area ia = {box, n, n, from}, oa = {box, n, n, to};
    vp_work w = {VP_MAKE, kept.get(op.carry->state_bytes(&op, &box, 1)), &ia, &oa, NULL, scratch.get(vp_gpu_sat.scratch(&op, size, size)), q};
    const auto launched = [&](int rc) {
        if (rc)
            printf("%s\n", err.msg), exit(1);
    };
    const double table = measure(q->stream, 9, [&] {
        for (int k = 0; k < many; k++)
            launched(vp_gpu_sat.launch(&op, &w, &err));
    }) / many;
    must(cudaMemcpy(got.data(), to, all * sizeof(Out), cudaMemcpyDeviceToHost), "down");
    w.scratch = scratch.get(vp::three::bytes_of<In, A, vp::sat::BASE_WARPS>((const vp_sat *)op.params, size));
    constexpr int WARPS = std::is_same<In, float>::value ? vp::sat::TALL_WARPS : vp::sat::BASE_WARPS;
    const double passes = measure(q->stream, 9, [&] {
        for (int k = 0; k < many; k++)
            launched((vp::three::run<In, A, Out, WARPS, false>)(vp::sat::part_of(&op, &w, 0, (char *)w.state), &w, &err));
    }) / many;
    int64_t bad = 0;
    std::vector<Out> three(all);
    must(cudaMemcpy(three.data(), to, all * sizeof(Out), cudaMemcpyDeviceToHost), "down");
    const dim3 tiles((unsigned)(n / 32), (unsigned)(n / 32));
    const double transposed = measure(q->stream, 9, [&] {
        for (int k = 0; k < many; k++) {
            scan_rows<In, A><<<(unsigned)n, 256, 0, q->stream>>>(from, one, (int)n);
            transpose<A><<<tiles, 256, 0, q->stream>>>(one, other, (int)n);
            scan_rows<A, A><<<(unsigned)n, 256, 0, q->stream>>>(other, one, (int)n);
            transpose<A><<<tiles, 256, 0, q->stream>>>(one, other, (int)n);
        }
    }) / many;
    must(cudaMemcpy(turned.data(), other, all * sizeof(A), cudaMemcpyDeviceToHost), "down");
    for (size_t i = 0; i < all; i++) {
        bad += memcmp(&three[i], &got[i], sizeof(Out)) != 0;
        if (in == VP_F32)
            bad += !(std::fabs((double)turned[i] - (double)got[i]) <= 1e-12 * std::fabs((double)got[i])) ||
                   !(std::fabs((double)serial[i] - (double)got[i]) <= 1e-12 * std::fabs((double)got[i]));
        else
            bad += (Out)turned[i] != got[i] || serial[i] != got[i];
    }
    std::sort(cpu.begin(), cpu.end());
    printf("| %s %lld^2 | %.4f | %.4f | %.4f | %.4f |%s\n", name, (long long)n, cpu[4], transposed, passes, table,
           bad ? " DIFFERS" : "");
    free(op.params);
    return bad;
}

static int64_t sizes(vp_queue *q)
{
    int64_t bad = 0;

    printf("| ms | serial, one core | transposition | three passes | one pass |\n|---|---|---|---|---|\n");
    for (int64_t n = 64; n <= 2048; n *= 2)
        bad += size_of<uint8_t, uint32_t, uint32_t>("u8 -> u32", n, VP_U8, VP_U32, q);
    for (int64_t n = 64; n <= 2048; n *= 2)
        bad += size_of<float, double, double>("f32 -> f64", n, VP_F32, VP_F64, q);
    return bad;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    const int trials = argc > 1 ? atoi(argv[1]) : 400;
    const int64_t most = argc > 2 ? atoll(argv[2]) : 16384;
    vp_queue q = {};
    cudaDeviceProp prop;
    must(cudaGetDeviceProperties(&prop, 0), "device");
    must(cudaStreamCreateWithFlags(&q.stream, cudaStreamNonBlocking), "stream");
    q.sms = prop.multiProcessorCount;
    printf("%s\n", prop.name);
    if (argc > 1 && !strcmp(argv[1], "sizes"))
        return sizes(&q) > 0;
    int64_t bad = compare(trials, &q);
    if (most > 8192)
        bad += beyond<uint64_t>(true, 2000, 1999, 600, &q) + beyond<uint32_t>(true, 2000, 1999, 600, &q)
               + beyond<uint64_t>(false, 50000, 50000, 1, &q) + beyond<uint32_t>(false, 50000, 50000, 1, &q);
    for (int64_t n = 8192; n <= most; n *= 2) {
        time_of<float, double>("f32 -> f64", n, n, 1, VP_F32, VP_F64, false, &q);
        time_of<float, float>("f32 -> f32", n, n, 1, VP_F32, VP_F32, false, &q);
        time_of<uint8_t, uint32_t>("u8 -> u32", n, n, 1, VP_U8, VP_U32, false, &q);
        time_of<uint8_t, uint64_t>("u8 -> u64", n, n, 1, VP_U8, VP_U64, false, &q);
    }
    time_of<uint8_t, uint64_t>("u8 -> u64", 1024, 1024, 1024, VP_U8, VP_U64, true, &q);
    time_of<uint8_t, uint32_t>("u8 -> u32", 1024, 1024, 1024, VP_U8, VP_U32, true, &q);
    time_of<uint16_t, uint64_t>("u16 -> u64", 1024, 1024, 1024, VP_U16, VP_U64, true, &q);
    time_of<uint32_t, uint64_t>("u32 -> u64", 1024, 1024, 512, VP_U32, VP_U64, true, &q);
    time_of<uint64_t, uint64_t>("u64 -> u64", 1024, 1024, 512, VP_U64, VP_U64, true, &q);
    time_of<float, double>("f32 -> f64", 1024, 1024, 512, VP_F32, VP_F64, true, &q);
    return bad > 0;
}
