/* SPDX-License-Identifier: BSD-3-Clause */
/* Non-local means: kernel "nlmeans" of local/nlmeans.h, in the order of operations defined there, with the fused
 * multiply-adds of processors with AVX2, so the results equal theirs to the bit.
 *
 * Overview: a thread has a column of D x R voxels along z and y. For each candidate offset it squares the differences
 *   between its column, grown by the patch, and the candidate's column, sums them along y and z in registers, and along
 *   x by shuffles. So each difference is computed once for all patches of the column that contain it. Patches and
 *   search windows too large for that are summed voxel by voxel.
 * Registers: the column with the margin of the patch, and for each of its voxels the sum, the weights and the value.
 * Shared memory: all samples that the block's columns and their candidates need.
 * Cost: (D + 2 PZ) (R + 2 PY) / (D R) differences, 2 px shuffles and one exponential for each voxel and candidate: 37
 *   instructions of volumes by default, of which an H200 issues 62 % of its peak. It has 12 warps on an SM for that, by
 *   168 registers and 70 KB of a block.
 * Limits: shared memory; along x patches of radius 8 (half of the lanes have outputs then); the radii (PY, PZ) that
 *   launch() instantiates. */
#include "footprint.cuh"
#include "local/nlmeans.h"
#include "nlmeans_exponential.cuh"
#include "sample.cuh"

namespace
{

enum { LANES = 32, WARPS = 4 };

struct nlmeans_job {
    vp_area in, out;
    int in_type, out_type;
    int search[3], patch[3];
    int64_t image[3];
    float noise, strength;
};

__device__ __forceinline__ float weight(const nlmeans_job &j, float sum, float share)
{
    const float a = __fmul_rn(fmaf(-sum, share, j.noise), j.strength);
    return vp::nlmeans_exponential(a > 0.0f ? 0.0f : a); /* NaN is preserved */
}

__device__ __forceinline__ void store(const nlmeans_job &j, int64_t x, int64_t y, int64_t z, float v)
{
    vp::store_sample((char *)j.out.data, vp_place(j.out, x, y, z), j.out_type, v);
}

__device__ __forceinline__ bool exists(int64_t at, int64_t n)
{
    return at >= 0 && at < n;
}

/* Return the range of offsets within a patch for which both samples of a pair `shift` apart exist, and one over their
 * number. */
__device__ __forceinline__ int2 offsets(int64_t at, int64_t shift, int patch, int64_t n)
{
    return make_int2((int)max(max((int64_t)-patch, -at), -at - shift),
                     (int)min(min((int64_t)patch, n - 1 - at), n - 1 - at - shift));
}

__device__ __forceinline__ float share_of(int64_t at, int64_t shift, int patch, int64_t n)
{
    const int2 o = offsets(at, shift, patch, n);
    return __fdiv_rn(1.0f, (float)(o.y - o.x + 1));
}

/* PX, PY, PZ: radii of the patch; PX -1: the one of the job. R, D: voxels of a thread along y and z. PITCH: samples
 * from one row to the next in shared memory; 0: the length of a row. With PX and PITCH as constants the sums along x have no
 * loop and the reads no arithmetic. */
template <int PX_, int PY_, int PZ_, int R_, int D_, int PITCH_> struct tile {
    enum { PX = PX_, PY = PY_, PZ = PZ_, R = R_, D = D_, PITCH = PITCH_, ROWS = R + 2 * PY, PLANES = D + 2 * PZ };
};

/* Samples of a block in shared memory: their size, and from row to row and plane to plane. */
struct tile_layout {
    int size[3], pitch, plane;
};

/* Returns the sum of a value over px lanes on both sides and between, the lowest first. */
template <class T> __device__ __forceinline__ float sum_along_x(float own, int px)
{
    const int lane = threadIdx.x;
    float s;
    if constexpr (T::PX < 0) {
        s = __shfl_sync(~0u, own, lane - px);
        for (int o = 1 - px; o <= px; o++)
            s = __fadd_rn(s, __shfl_sync(~0u, own, lane + o));
    } else {
        s = T::PX ? __shfl_sync(~0u, own, lane - T::PX) : own;
#pragma unroll
        for (int o = 1 - T::PX; o <= T::PX; o++)
            s = __fadd_rn(s, o ? __shfl_sync(~0u, own, lane + o) : own);
    }
    return s;
}

/* Compares the column `here` with all candidates, the voxel itself being at `middle`. INNER: all samples exist. */
template <class T, bool INNER>
__device__ __forceinline__ void compare(const nlmeans_job &j, const tile_layout &l, const float *middle, int64_t x,
                                        int64_t y, int64_t z, const float (&here)[T::PLANES][T::ROWS],
                                        float (&total)[T::D][T::R], float (&value)[T::D][T::R])
{
    constexpr int PY = T::PY, PZ = T::PZ, R = T::R, D = T::D;
    const int px = T::PX < 0 ? j.patch[0] : (int)T::PX, pitch = T::PITCH > 0 ? (int)T::PITCH : l.pitch;
    const float whole = __fmul_rn(__fdiv_rn(1.0f, (float)(2 * px + 1)),
                                  __fmul_rn(__fdiv_rn(1.0f, (float)(2 * PY + 1)),
                                            __fdiv_rn(1.0f, (float)(2 * PZ + 1))));
    for (int dz = -j.search[2]; dz <= j.search[2]; dz++)
        for (int dy = -j.search[1]; dy <= j.search[1]; dy++)
            for (int dx = -j.search[0]; dx <= j.search[0]; dx++) {
                const float *const there = middle + dz * l.plane + dy * pitch + dx;
                float off[D][R], sum[D][R];
                const bool x_pair = INNER || (exists(x, j.image[0]) && exists(x + dx, j.image[0]));
#pragma unroll
                for (int k = 0; k < D + 2 * PZ; k++) {
                    float d[R + 2 * PY], along_y[R];
                    const float *const row = there + k * l.plane;
#pragma unroll
                    for (int i = 0; i < R + 2 * PY; i++) {
                        const float e = row[i * pitch] - here[k][i];
                        d[i] = __fmul_rn(e, e);
                        if (!INNER) {
                            const int64_t py = y + i - PY, pz = z + k - PZ;
                            if (!(x_pair && exists(py, j.image[1]) && exists(py + dy, j.image[1]) &&
                                  exists(pz, j.image[2]) && exists(pz + dz, j.image[2])))
                                d[i] = 0;
                        }
                        if (k >= PZ && k < D + PZ && i >= PY && i < R + PY)
                            off[k >= PZ && k < D + PZ ? k - PZ : 0][i >= PY && i < R + PY ? i - PY : 0] = e;
                    }
#pragma unroll
                    for (int i = 0; i < R; i++) {
                        along_y[i] = d[i];
#pragma unroll
                        for (int o = 1; o <= 2 * PY; o++)
                            along_y[i] = __fadd_rn(along_y[i], d[i + o]);
                    }
                    /* this plane is the first of one sum, the second of the sum before, ... */
#pragma unroll
                    for (int m = 0; m < D; m++)
                        if (m <= k && k <= m + 2 * PZ)
#pragma unroll
                            for (int i = 0; i < R; i++)
                                sum[m][i] = k == m ? along_y[i] : __fadd_rn(sum[m][i], along_y[i]);
                }
                const float rx = INNER ? 0 : share_of(x, dx, px, j.image[0]);
#pragma unroll
                for (int m = 0; m < D; m++)
#pragma unroll
                    for (int i = 0; i < R; i++) {
                        float s = sum_along_x<T>(sum[m][i], px);
                        float share = whole;
                        if (!INNER) {
                            const int64_t cy = y + i + dy, cz = z + m + dz;
                            if (!x_pair || !exists(cy, j.image[1]) || !exists(cz, j.image[2]))
                                continue; /* no such candidate; all shuffles are done */
                            share = __fmul_rn(rx, __fmul_rn(share_of(y + i, dy, PY, j.image[1]),
                                                            share_of(z + m, dz, PZ, j.image[2])));
                        }
                        const float w = weight(j, s, share);
                        total[m][i] = __fadd_rn(total[m][i], w);
                        value[m][i] = fmaf(w, off[m][i], value[m][i]);
                    }
            }
}

/* Shared memory holds samples from `lo` on. */
template <class T>
__global__ void __launch_bounds__(LANES *WARPS, T::D > 1 ? 3 : 4) tile_kernel(nlmeans_job j, tile_layout l)
{
    extern __shared__ float seen[];
    constexpr int PY = T::PY, PZ = T::PZ, R = T::R, D = T::D;
    const int lane = threadIdx.x, px = T::PX < 0 ? j.patch[0] : (int)T::PX, wide = LANES - 2 * px;
    const int pitch = T::PITCH ? (int)T::PITCH : l.pitch;
    const int64_t deep = (int64_t)blockDim.z * D;
    int64_t lo[3];

    lo[0] = j.out.box.lo[0] + (int64_t)blockIdx.x * wide - px - j.search[0];
    lo[1] = j.out.box.lo[1] + (int64_t)blockIdx.y * blockDim.y * R - PY - j.search[1];
    const int64_t x = lo[0] + j.search[0] + lane;
    const int64_t y = j.out.box.lo[1] + ((int64_t)blockIdx.y * blockDim.y + threadIdx.y) * R;
    const bool stores = lane >= px && lane < LANES - px && x < j.out.box.hi[0];

    for (int64_t turn = blockIdx.z; j.out.box.lo[2] + turn * deep < j.out.box.hi[2]; turn += gridDim.z) {
        const int64_t z = j.out.box.lo[2] + turn * deep + (int64_t)threadIdx.z * D;
        lo[2] = j.out.box.lo[2] + turn * deep - PZ - j.search[2];
        __syncthreads();
        for (int row = threadIdx.z * blockDim.y + threadIdx.y; row < l.size[1] * l.size[2];
             row += blockDim.y * blockDim.z) {
            const int64_t sy = lo[1] + row % l.size[1], sz = lo[2] + row / l.size[1];
            const bool there =
                sy >= j.in.box.lo[1] && sy < j.in.box.hi[1] && sz >= j.in.box.lo[2] && sz < j.in.box.hi[2];
            for (int i = lane; i < l.size[0]; i += LANES) {
                const int64_t sx = lo[0] + i;
                float v = 0;
                if (there && sx >= j.in.box.lo[0] && sx < j.in.box.hi[0])
                    v = vp::load_sample((const char *)j.in.data, vp_place(j.in, sx, sy, sz), j.in_type);
                seen[row * pitch + i] = v;
            }
        }
        __syncthreads();
        bool inner = true; /* all samples exist */
#pragma unroll
        for (int a = 0; a < 3; a++)
            inner = inner && lo[a] >= 0 && lo[a] + l.size[a] <= j.image[a];

        const float *const column = seen + (threadIdx.z * D) * l.plane + (threadIdx.y * R) * pitch + lane;
        float here[D + 2 * PZ][R + 2 * PY], total[D][R] = {}, value[D][R] = {};
        const float *const middle = column + j.search[2] * l.plane + j.search[1] * pitch + j.search[0];
#pragma unroll
        for (int k = 0; k < D + 2 * PZ; k++)
#pragma unroll
            for (int i = 0; i < R + 2 * PY; i++)
                here[k][i] = middle[k * l.plane + i * pitch];
        if (inner)
            compare<T, true>(j, l, middle, x, y, z, here, total, value);
        else
            compare<T, false>(j, l, middle, x, y, z, here, total, value);
#pragma unroll
        for (int m = 0; m < D; m++)
#pragma unroll
            for (int i = 0; i < R; i++)
                if (stores && y + i < j.out.box.hi[1] && z + m < j.out.box.hi[2])
                    store(j, x, y + i, z + m,
                          __fadd_rn(here[m + PZ][i + PY], __fdiv_rn(value[m][i], total[m][i])));
    }
}

/* ---- any patch, any search window: one voxel a thread ---- */

template <class S> __global__ void __launch_bounds__(256) any_kernel(nlmeans_job j)
{
    vp_each_voxel(j.out.box, [&](int64_t x, int64_t y, int64_t z) {
        const float here = (float)*vp_at<S>(j.in, x, y, z);
        float total = 0, value = 0;
        for (int dz = -j.search[2]; dz <= j.search[2]; dz++)
            for (int dy = -j.search[1]; dy <= j.search[1]; dy++)
                for (int dx = -j.search[0]; dx <= j.search[0]; dx++) {
                    if (!exists(x + dx, j.image[0]) || !exists(y + dy, j.image[1]) || !exists(z + dz, j.image[2]))
                        continue;
                    const int2 px = offsets(x, dx, j.patch[0], j.image[0]);
                    const int2 py = offsets(y, dy, j.patch[1], j.image[1]);
                    const int2 pz = offsets(z, dz, j.patch[2], j.image[2]);
                    float sum = 0;
                    for (int ox = px.x; ox <= px.y; ox++) {
                        float in_plane = 0;
                        for (int oz = pz.x; oz <= pz.y; oz++) {
                            float along_y = 0;
                            const S *p = vp_at<S>(j.in, x + ox, y + py.x, z + oz);
                            const S *q = vp_at<S>(j.in, x + ox + dx, y + py.x + dy, z + oz + dz);
                            for (int oy = py.x; oy <= py.y; oy++, p += j.in.pitch, q += j.in.pitch) {
                                const float e = (float)*q - (float)*p;
                                along_y = __fadd_rn(along_y, __fmul_rn(e, e));
                            }
                            in_plane = __fadd_rn(in_plane, along_y);
                        }
                        sum = __fadd_rn(sum, in_plane);
                    }
                    const float share = __fmul_rn(
                        share_of(x, dx, j.patch[0], j.image[0]),
                        __fmul_rn(share_of(y, dy, j.patch[1], j.image[1]), share_of(z, dz, j.patch[2], j.image[2])));
                    const float w = weight(j, sum, share);
                    total = __fadd_rn(total, w);
                    value = fmaf(w, (float)*vp_at<S>(j.in, x + dx, y + dy, z + dz) - here, value);
                }
        store(j, x, y, z, __fadd_rn(here, __fdiv_rn(value, total)));
    });
}

/* ---- host ---- */

bool has(const struct vp_op *op, char *why, size_t size)
{
    if ((VP_NLMEANS_TYPES & 1u << op->in) && (op->out == op->in || op->out == VP_F32))
        return true;
    snprintf(why, size, "no kernel from %s to %s", vp_type_name(op->in), vp_type_name(op->out));
    return false;
}

/* Launches tile_kernel. Returns 1, 0 if the windows are too large for shared memory or the grid, or -1. */
template <class T> int start_tiles(const nlmeans_job &j, const struct vp_work *args, struct vp_err *err)
{
    const dim3 threads(LANES, T::D > 1 ? 2 : WARPS, T::D > 1 ? WARPS / 2 : 1);
    tile_layout l;
    l.size[0] = LANES + 2 * j.search[0];
    l.size[1] = (int)threads.y * T::R + 2 * (T::PY + j.search[1]);
    l.size[2] = (int)threads.z * T::D + 2 * (T::PZ + j.search[2]);
    l.pitch = T::PITCH > 0 ? (int)T::PITCH : l.size[0];
    l.plane = l.pitch * l.size[1];
    const size_t shared = sizeof(float) * (size_t)l.plane * (size_t)l.size[2];
    const int wide = LANES - 2 * j.patch[0];
    if (shared > vp_shared_most() || wide < LANES / 2 || !vp_grid_holds(j.out.box, (int64_t)threads.y * T::R))
        return 0;
    const dim3 grid = vp_grid(j.out.box, wide, (int64_t)threads.y * T::R, (int64_t)threads.z * T::D);
    return vp_start(err, args->queue->stream, tile_kernel<T>, grid, threads, shared, j, l) ? -1 : 1;
}

/* Launches it, with constants for the patches of the defaults and search windows up to theirs. */
template <int PY, int PZ, int R, int D>
int in_tiles(const nlmeans_job &j, const struct vp_work *args, struct vp_err *err)
{
    constexpr int PITCH = LANES + (D > 1 ? 2 * 6 : 2 * 10);
    if constexpr (PY == 1 || PY == 2)
        if (j.patch[0] == PY && LANES + 2 * j.search[0] <= PITCH)
            return start_tiles<tile<PY, PY, PZ, R, D, PITCH>>(j, args, err);
    return start_tiles<tile<-1, PY, PZ, R, D, 0>>(j, args, err);
}

int launch(const struct vp_op *op, const struct vp_work *args, struct vp_err *err)
{
    const struct vp_nlmeans_params *p = vp_params<vp_nlmeans_params>(op);
    nlmeans_job j;
    int done = 0;

    j.in = args->in[0];
    j.out = *args->out;
    j.in_type = op->in;
    j.out_type = op->out;
    for (int a = 0; a < 3; a++) {
        j.image[a] = op->image[a];
        /* candidates and pairs farther apart than the image is long do not exist */
        j.search[a] = (int)(p->search[a] < op->image[a] ? p->search[a] : op->image[a] - 1);
        j.patch[a] = (int)(p->patch[a] < op->image[a] ? p->patch[a] : op->image[a] - 1);
    }
    j.noise = (float)(2 * p->sigma * p->sigma);
    j.strength = (float)(1 / (p->h * p->h));
    const bool flat = j.search[2] == 0 && j.patch[2] == 0;
    if (flat && j.patch[1] <= 5)
        done = j.patch[1] == 0   ? in_tiles<0, 0, 8, 1>(j, args, err)
               : j.patch[1] == 1 ? in_tiles<1, 0, 8, 1>(j, args, err)
               : j.patch[1] == 2 ? in_tiles<2, 0, 8, 1>(j, args, err)
               : j.patch[1] == 3 ? in_tiles<3, 0, 8, 1>(j, args, err)
               : j.patch[1] == 4 ? in_tiles<4, 0, 8, 1>(j, args, err)
                                 : in_tiles<5, 0, 8, 1>(j, args, err);
    else if (j.patch[1] == 1 && j.patch[2] == 1)
        done = in_tiles<1, 1, 4, 4>(j, args, err);
    else if (j.patch[1] == 2 && j.patch[2] == 2)
        done = in_tiles<2, 2, 4, 2>(j, args, err);
    else if (j.patch[1] == 0 && j.patch[2] == 0)
        done = in_tiles<0, 0, 4, 4>(j, args, err);
    if (done)
        return done < 0 ? -1 : 0;
    return vp_by_type(op->in, [&](auto s) {
        return vp_start_voxels(err, args, j.out.box, any_kernel<decltype(s)>, j);
    });
}

} // namespace

VP_GPU_KERNEL(nlmeans, has, NULL, NULL, NULL, launch);
