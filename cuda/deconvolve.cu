/* SPDX-License-Identifier: BSD-3-Clause */
/* Richardson-Lucy deconvolution: kernel "deconvolve" of local/deconvolve.h. All iterations are one launch: what is
 * between them stays on the device. The quotient and the product are taken where convolutions store their results
 * (back_kernel in convolve_pass.cuh), so an iteration is two convolutions and no pass more. The estimate is the output.
 *
 * Global memory: beside what a convolution takes, a volume of quotients and one of 1 / w. */
#include "convolve.h"
#include "launch.cuh"

extern "C" {
#include "local/deconvolve.h"
}

#include <cstdio>

namespace vp
{
namespace
{

/* Sample i of an image without gaps. */
struct image_args {
    vp_area out, in;
    vp_box data; /* of `in` */
    float least;
};

template <class F> __device__ __forceinline__ void each_voxel(const vp_area &a, const F &f)
{
    const int64_t nx = vp_box_size(&a.box, 0), ny = vp_box_size(&a.box, 1), n = nx * ny * vp_box_size(&a.box, 2);
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x) {
        const int64_t x = i % nx, y = i / nx % ny, z = i / nx / ny;
        f(((float *)a.data)[z * a.plane + y * a.pitch + x], x + a.box.lo[0], y + a.box.lo[1], z + a.box.lo[2]);
    }
}

__device__ __forceinline__ bool holds(const vp_box &b, int64_t x, int64_t y, int64_t z)
{
    return x >= b.lo[0] && x < b.hi[0] && y >= b.lo[1] && y < b.hi[1] && z >= b.lo[2] && z < b.hi[2];
}

__global__ void __launch_bounds__(256) mask_kernel(const image_args a)
{
    each_voxel(a.out, [&](float &to, int64_t x, int64_t y, int64_t z) { to = holds(a.data, x, y, z) ? 1 : 0; });
}

__global__ void __launch_bounds__(256) ones_kernel(const image_args a)
{
    each_voxel(a.out, [&](float &to, int64_t, int64_t, int64_t) { to = 1; });
}

__global__ void __launch_bounds__(256) inverse_kernel(const image_args a)
{
    each_voxel(a.out, [&](float &to, int64_t, int64_t, int64_t) { to = to > a.least ? __fdiv_rn(1, to) : 0; });
}

/* ---- host ---- */

const vp_deconvolve_params *deconvolve_params(const vp_op *op)
{
    return (const vp_deconvolve_params *)op->params;
}

/* One of the two convolutions as an operation. */
vp_op convolution_of(const vp_op *op, const vp_convolve_params *p)
{
    vp_op c = {};
    c.kernel = "convolve";
    for (int a = 0; a < 3; a++)
        c.image[a] = op->image[a];
    c.inputs = 1;
    c.in = c.out = VP_F32;
    c.params = (void *)p;
    return c;
}

struct both {
    vp_op blur, back;
    explicit both(const vp_op *op)
        : blur(convolution_of(op, &deconvolve_params(op)->blur)), back(convolution_of(op, &deconvolve_params(op)->back))
    {
    }
};

/* Tables of both, then what is made of both. */
uint64_t table(const vp_op *op)
{
    const both b(op);
    return kernel_table_bytes(&b.blur) + kernel_table_bytes(&b.back);
}

uint64_t made(const vp_op *op)
{
    const both b(op);
    return kernel_made_bytes(&b.blur) + kernel_made_bytes(&b.back);
}

void fill(const vp_op *op, void *to)
{
    const both b(op);
    vp_gpu_convolve.fill(&b.blur, to);
    vp_gpu_convolve.fill(&b.back, (char *)to + kernel_table_bytes(&b.blur));
}

int make(const vp_op *op, void *base, vp_queue *queue, vp_err *err)
{
    const both b(op);
    char *const first = (char *)base + table(op);
    return kernel_make(&b.blur, base, first, queue, err)
                   || kernel_make(&b.back, (char *)base + kernel_table_bytes(&b.blur), first + kernel_made_bytes(&b.blur), queue,
                                  err)
               ? -1 : 0;
}

bool has(const vp_op *op, char *why, size_t size)
{
    const vp_deconvolve_params *const p = deconvolve_params(op);
    const both b(op);
    if (op->in != VP_F32 || op->out != VP_F32)
        snprintf(why, size, "no kernel for %s", vp_type_name(op->in));
    else if (!kernel_fits(&b.blur) || !kernel_fits(&b.back))
        snprintf(why, size, "no kernel for %lld x %lld kernels of %lld x %lld x %lld", (long long)p->blur.nodes[0],
                 (long long)p->blur.nodes[1], (long long)p->blur.n[0], (long long)p->blur.n[1], (long long)p->blur.n[2]);
    else
        return true;
    return false;
}

struct deconvolve_room {
    float *quotient, *inverse;
    void *rest; /* of a convolution */
    int64_t pitch;
    uint64_t bytes;
};

deconvolve_room room_of(const vp_op *op, const int64_t out[3], void *base)
{
    const both b(op);
    pieces all = {(char *)base, 0};
    deconvolve_room r = {};
    r.pitch = vp_round_up(out[0], 4);
    const uint64_t n = (uint64_t)(r.pitch * out[1] * out[2]);
    r.quotient = all.take<float>(n);
    r.inverse = all.take<float>(n);
    r.rest = all.take<char>(vp_max64((int64_t)vp_gpu_convolve.scratch(&b.blur, out, out),
                                     (int64_t)vp_gpu_convolve.scratch(&b.back, out, out)));
    r.bytes = all.used;
    return r;
}

uint64_t scratch(const vp_op *op, const int64_t[3], const int64_t out[3])
{
    return room_of(op, out, nullptr).bytes;
}

int launch(const vp_op *op, const vp_work *work, vp_err *err)
{
    const vp_deconvolve_params *const p = deconvolve_params(op);
    const both b(op);
    const vp_area data = work->in[0], estimate = *work->out;
    const int64_t size[3] = {vp_box_size(&estimate.box, 0), vp_box_size(&estimate.box, 1), vp_box_size(&estimate.box, 2)};
    const deconvolve_room r = room_of(op, size, work->scratch);
    const vp_area quotient = {estimate.box, r.pitch, r.pitch * size[1], r.quotient};
    const vp_area inverse = {estimate.box, r.pitch, r.pitch * size[1], r.inverse};
    const cudaStream_t stream = work->queue->stream;
    const dim3 grid((unsigned)work->queue->sms * 16), block(256);
    char *const base = (char *)work->table, *const first = base + table(op);
    image_args mask = {};
    convolve_ending ratio = {}, product = {};
    vp_work forward = *work, backward = *work;

    ratio.with = CONVOLVE_RATIO;
    ratio.other = data;
    ratio.dark = p->dark;
    for (int a = 0; a < 3; a++) {
        ratio.box.lo[a] = p->before[a];
        ratio.box.hi[a] = op->image[a] - p->behind[a];
    }
    product.with = CONVOLVE_PRODUCT;
    product.other = estimate;
    product.third = inverse;
    forward.in = &estimate;
    forward.out = &quotient;
    forward.scratch = backward.scratch = r.rest;
    backward.in = &quotient;
    backward.table = base + kernel_table_bytes(&b.blur);
    void *const made_back = first + kernel_made_bytes(&b.blur);

    mask.out = quotient;
    mask.data = ratio.box;
    image_args weights = {}, ones = {};
    weights.out = inverse;
    weights.least = p->least;
    ones.out = estimate;
    backward.out = &inverse;
    if (vp_start(err, stream, mask_kernel, grid, block, 0, mask) || kernel_launch(&b.back, &backward, made_back, {}, err)
        || vp_start(err, stream, inverse_kernel, grid, block, 0, weights)
        || vp_start(err, stream, ones_kernel, grid, block, 0, ones))
        return -1;
    backward.out = &estimate;
    for (int i = 0; i < p->iterations; i++)
        if (kernel_launch(&b.blur, &forward, first, ratio, err) || kernel_launch(&b.back, &backward, made_back, product, err))
            return -1;
    return 0;
}

}
}

extern "C" const vp_kernel vp_gpu_deconvolve = {"deconvolve", vp::has, vp::scratch, vp::table, vp::fill, vp::launch,
                                                  nullptr, nullptr, vp::made, vp::make};
