/* SPDX-License-Identifier: BSD-3-Clause */
/* Separable filters along z, or along y alone, which differs in the step only. */
#include "separable_ring.cuh"

#include <algorithm>
#include <utility>

namespace vp
{

constexpr int Z_WARPS = 4, Z_AHEAD = 2; /* Z_AHEAD: steps that are prefetched */

struct z_args {
    volume in[2]; /* f32; NF = 1: the samples; NF = 2: p (data NULL: none) and q of local/log.h */
    volume out, source; /* source: the samples for high-pass */
    axis z;
    taps f[2];
    int strips, chunk_planes;
    bool highpass;
};

__host__ __device__ constexpr int z_ring_rows(int r)
{
    return (1 + Z_AHEAD) * UNIT + 2 * padded(r);
}

__host__ __device__ constexpr size_t z_shared(int nf, int r)
{
    return sizeof(float) * nf * ((size_t)Z_WARPS * z_ring_rows(r) * 32 + padded(r));
}

/* Issues copies of UNIT planes from `plane` on, of 32 columns of row y, to a warp's ring; planes outside the image by
 * the edge rule. */
__device__ __forceinline__ void stage_planes(const z_args &a, const march &m, const volume &in, const ring &to, int x0,
                                             int y, int plane)
{
    const int lane = threadIdx.x % 32, q = lane % 8, x = x0 + 4 * q, width = min(4, a.out.hi[0] - x);
    float *slot = to.row(plane) + lane / 8 * 32 + 4 * q;
    const long long at = (long long)(y - in.lo[1]) * in.step[1] + (x - in.lo[0]);
    const bool whole = width == 4 && ((in.step[2] | at) & 3) == 0;
    if (width <= 0)
        return;
    if (whole && plane >= max(m.begin - a.f[0].radius, 0) && plane + UNIT <= min(m.end + a.f[0].radius, a.z.n)) {
        const char *p = in.data + 4 * ((long long)(plane + lane / 8 - in.lo[2]) * in.step[2] + at);
#pragma unroll
        for (int r = 0; r < UNIT; r += 4, slot += 4 * 32, p += 16 * in.step[2])
            copy_async<16>(slot, p);
        return;
    }
#pragma unroll 1
    for (int r = 0; r < UNIT; r += 4, slot += 4 * 32) {
        const int z = plane + r + lane / 8;
        if (z < m.begin - a.f[0].radius || z >= m.end + a.f[0].radius)
            continue;
        const int from = edge_from(a.z.rule, z, a.z.n);
        const char *const p = in.data + 4 * ((long long)(from - in.lo[2]) * in.step[2] + at);
        if (from < 0)
            *reinterpret_cast<float4 *>(slot) = make_float4(0, 0, 0, 0);
        else if (whole)
            copy_async<16>(slot, p);
        else
            for (int e = 0; e < width; e++)
                copy_async<4>(slot + e, p + 4 * e);
    }
}

/* Overview: a warp filters 32 columns of one row over chunk_planes planes, UNIT planes at a time, from a private ring
 *   that is Z_AHEAD steps ahead. Warps are independent.
 * Mapping: a lane is a column.
 * Registers: as in separable_line.cuh.
 * Shared memory: a ring of (1 + Z_AHEAD) UNIT + 2 R planes of 32 columns for each warp and filter; the taps unless the
 *   radius is a compile-time constant (z_shared()).
 * Global memory: reads NF volumes and writes one, in pieces of 128 bytes; 2 R planes are read twice where chunks meet.
 * Limits: shared memory for the ring. */
template <int NF, int R, bool ROWS>
__global__ void __launch_bounds__(32 * Z_WARPS, NF == 1 ? 4 : 3) k_z(const __grid_constant__ z_args a)
{
    extern __shared__ __align__(16) float shared[];
    const int radius = R ? R : a.f[0].radius, tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
    const int ring_rows = z_ring_rows(radius);
    const float *tz[NF];
    float *at = shared + NF * Z_WARPS * ring_rows * 32;
    if (R == 0) {
#pragma unroll
        for (int n = 0; n < NF; n++)
            tz[n] = share_taps(a.f[n], radius, at);
        __syncthreads();
    }
    const unsigned block = blockIdx.x;
    const int rows = a.out.hi[1] - a.out.lo[1];
    const int x0 = a.out.lo[0] + ((int)(block % a.strips) * Z_WARPS + warp) * 32;
    const int y = a.out.lo[1] + (int)(block / a.strips % rows), x = x0 + lane;
    const int begin = a.out.lo[2] + (int)(block / a.strips / rows) * a.chunk_planes;
    if (x0 >= a.out.hi[0])
        return;
    const march m = march_over(a.z, radius, begin, min(begin + a.chunk_planes, a.out.hi[2]), UNIT);
    ring mine = {shared + NF * warp * ring_rows * 32, ring_rows, 32, m.row(0)};
    const bool two = NF == 2 && a.in[0].data;
    const int steps = m.blocks + m.lag;
#pragma unroll 1
    for (int t = -Z_AHEAD; t < steps; t++) {
        copies_wait<Z_AHEAD - 1>();
        __syncwarp();
        if (t + Z_AHEAD < steps)
#pragma unroll 1
            for (int n = two ? 0 : NF - 1; n < NF; n++) {
                ring r = mine;
                r.data += n * ring_rows * 32;
                stage_planes(a, m, a.in[n], r, x0, y, m.row(t + Z_AHEAD));
            }
        copies_close();
        const int i = m.begin + (t - m.lag) * UNIT;
        if (t < m.lag || x >= a.out.hi[0])
            continue;
        const unsigned there = first_of(m.end - i);
        const samples to = samples_of(a.out, 2, x, y, i), from = samples_of(a.source, 2, x, y, i);
        const int slot = (i - mine.first) % ring_rows;
        const read_ring ring_a = {mine.data + lane, ring_rows, 32, slot};
        const read_ring ring_b = {ring_a.column + (NF - 1) * ring_rows * 32, ring_rows, 32, slot};
        filter_line<1, R, ROWS>(
            ring_b, a.z, a.f + NF - 1, tz + NF - 1, i,
            [&](unsigned mask, float(&v)[1][UNIT]) {
                float w[1][UNIT] = {};
                if (two) {
                    filter_unit<1, R>(ring_a, a.z, a.f, tz, i, w);
#pragma unroll
                    for (int j = 0; j < UNIT; j++)
                        v[0][j] = w[0][j] + v[0][j];
                }
                if (NF == 1 && a.highpass)
                    subtract_line(from, v[0], mask & there);
                store_line(to, v[0], mask & there);
            },
            [&](int j, unsigned mask, float(&v)[1][FEW]) {
                float w[1][FEW];
                if (two) {
                    filter_few<1>(ring_a, a.z, a.f, i, j, mask, w);
#pragma unroll
                    for (int e = 0; e < FEW; e++)
                        v[0][e] = w[0][e] + v[0][e];
                }
                store_few(to, NF == 1 && a.highpass, from, j, v[0], mask & there >> j);
            });
    }
}

static volume swapped(volume v, bool swap)
{
    if (swap) {
        std::swap(v.step[1], v.step[2]);
        std::swap(v.lo[1], v.lo[2]);
        std::swap(v.hi[1], v.hi[2]);
    }
    return v;
}

size_t z_least(int filters, int radius)
{
    return z_shared(filters, radius);
}

int run_z(const pass &p, const volume *one, const volume *two, const volume &out, int along, bool highpass, vp_err *err)
{
    const bool swap = along == 1;
    if (by_line(p, along))
        return run_line(p, *one, out, along, highpass, err);
    const volume to = swapped(out, swap);
    z_args a = {};
    if (one)
        a.in[0] = swapped(*one, swap);
    if (two)
        a.in[1] = swapped(*two, swap);
    a.out = to;
    a.z = axis_at(p, along);
    std::copy(p.f[along], p.f[along] + 2, a.f);
    const int r = a.f[0].radius, rows = to.hi[1] - to.lo[1], planes = to.hi[2] - to.lo[2];
    a.strips = (to.hi[0] - to.lo[0] + 32 * Z_WARPS - 1) / (32 * Z_WARPS);
    a.chunk_planes = march_length((int64_t)a.strips * rows, planes, r, p.args->queue->sms);
    const int64_t chunks = (planes + a.chunk_planes - 1) / a.chunk_planes;
    a.highpass = highpass;
    a.source = swapped(p.source, swap);
    void (*const kernel)(z_args) =
        p.s->filters == 2 ? code_for(r, radii<0, 4, 6, 8, 12>(),
                                     [](auto c) { return k_z<2, decltype(c)::value, true>; })
        : a.f[0].edge     ? k_z<1, 0, true>
                          : code_for(r, radii<0, 2, 3, 4, 6, 8, 10, 12, 16>(),
                                     [](auto c) { return k_z<1, decltype(c)::value, false>; });
    return vp_start(err, p.args->queue->stream, kernel, dim3((unsigned)(a.strips * rows * chunks)),
                    dim3(32 * Z_WARPS), z_shared(p.s->filters, r), a);
}

}
