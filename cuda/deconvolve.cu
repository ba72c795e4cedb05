/* SPDX-License-Identifier: BSD-3-Clause */
/* Deconvolution: kernel "deconvolve" of local/deconvolve.h, with the same steps. All volumes stay on the device between
 * iterations. The host needs a few sums of each iteration and waits for them, so unlike other kernels this one returns
 * from its launch when most of the work is done.
 *
 * Convolutions: by kernel "convolve"; its tables are copied and its spectra recomputed for each launch, at the end of
 *   the scratch.
 * Sums: a block reduces SPAN voxels in a fixed order, one block reduces the sums of all blocks. So results do not
 *   depend on the device.
 * Layout: rows of volumes are padded to a multiple of four voxels; padding is 0 (in the data NaN, which marks unknown
 *   voxels) and stays so. */
#include "convolve.h"
#include "local/deconvolve.h"
#include "sample.cuh"

#include <cfloat>
#include <cmath>
#include <cstdio>

extern "C" const vp_kernel vp_gpu_convolve; /* convolve.cu */

namespace vp
{
namespace
{

enum { SPAN = 8192, THREADS = 256, SUMS = 4 };
enum { DATA, X, Y, T, U, NORM, BEFORE, STEP, VOLUMES };
/* As in local/deconvolve.c. */
constexpr float LEAST = 1e-3f, FLOOR = 1e-6f;

/* The volumes of an iteration: the image and its surroundings that the kernel reaches. */
struct frame {
    int64_t n[3], pitch, voxels; /* voxels: padding of rows included */
    int64_t before[3];           /* voxels before the image */
    vp_area image;               /* the output */
    float *v[VOLUMES];
};

__device__ __forceinline__ bool known(float v)
{
    return v == v;
}

/* ---- sums ---- */

struct sums {
    double s[SUMS]; /* the last is a maximum */
};

__device__ __forceinline__ void combine(sums &a, const sums &b)
{
    for (int i = 0; i < SUMS - 1; i++)
        a.s[i] += b.s[i];
    a.s[SUMS - 1] = fmax(a.s[SUMS - 1], b.s[SUMS - 1]);
}

/* Reduces the sums of a block; `mine` of the first thread receives them. */
__device__ __forceinline__ void reduce_block(sums &mine, sums *shared)
{
    shared[threadIdx.x] = mine;
    for (int n = THREADS / 2; n; n >>= 1) {
        __syncthreads();
        if (threadIdx.x < n)
            combine(shared[threadIdx.x], shared[threadIdx.x + n]);
    }
    mine = shared[0];
}

/* Base of an operation on a frame, which defines at(i, sums of this thread) for voxel i; HAS_SUMS: it computes sums. */
template <bool HAS_SUMS> struct voxel_op {
    static constexpr bool has_sums = HAS_SUMS;
    frame f;
};

/* Applies operation f to n voxels; block[] receives the sums of each block. */
template <class F> __global__ void __launch_bounds__(THREADS) voxels_kernel(const F f, int64_t n, sums *block)
{
    extern __shared__ sums shared[];
    const int64_t from = (int64_t)blockIdx.x * SPAN, to = min(from + SPAN, n);
    sums mine = {};
    for (int64_t i = from + threadIdx.x; i < to; i += THREADS)
        f.at(i, mine.s);
    if (!F::has_sums)
        return;
    reduce_block(mine, shared);
    if (threadIdx.x == 0)
        block[blockIdx.x] = mine;
}

/* Reduces the sums of all blocks, in one block. */
__global__ void __launch_bounds__(THREADS) sums_kernel(const sums *block, int64_t blocks, sums *all)
{
    extern __shared__ sums shared[];
    sums mine = {};
    for (int64_t i = threadIdx.x; i < blocks; i += THREADS)
        combine(mine, block[i]);
    reduce_block(mine, shared);
    if (threadIdx.x == 0)
        *all = mine;
}

/* ---- operations on voxels ---- */

__device__ __forceinline__ void place(const frame &f, int64_t i, int64_t at[3])
{
    at[0] = i % f.pitch;
    at[1] = i / f.pitch % f.n[1];
    at[2] = i / f.pitch / f.n[1];
}

/* True if voxel i of the frame is in the image; `at` is then its index in area a, whose plane `z` is the frame's
 * first. */
__device__ __forceinline__ bool in_image(const frame &f, int64_t i, const vp_area &a, int64_t z, int64_t &at)
{
    int64_t p[3];
    place(f, i, p);
    const int64_t x = p[0] - f.before[0], y = p[1] - f.before[1], q = p[2] - f.before[2];
    const int64_t nz = f.n[2] == 1 ? 1 : f.image.box.hi[2];
    at = (q + z - a.box.lo[2]) * a.plane + (y - a.box.lo[1]) * a.pitch + (x - a.box.lo[0]);
    return x >= 0 && y >= 0 && q >= 0 && x < f.image.box.hi[0] && y < f.image.box.hi[1] && q < nz;
}

/* Loads the data into the frame, unknown elsewhere, and clears the other volumes. Sums: of the data, of their squares,
 * their number, the largest magnitude. */
struct load_data : voxel_op<true> {
    vp_area in;
    int type, volumes;
    int64_t z; /* first plane of the input */

    __device__ void at(int64_t i, double *s) const
    {
        int64_t from;
        for (int v = 1; v < volumes; v++)
            f.v[v][i] = 0;
        float d = __int_as_float(0x7fc00000);
        if (in_image(f, i, in, z, from)) {
            const float e = load_sample((const char *)in.data, from, type);
            if (fabsf(e) <= FLT_MAX) {
                d = e;
                s[0] += e;
                s[1] += (double)e * e;
                s[2] += 1;
                s[3] = fmax(s[3], fabs((double)e));
            }
        }
        f.v[DATA][i] = d;
    }
};

/* t = 1 where data are known, else 0; x = previous x = start. */
struct begin : voxel_op<false> {
    float start;
    bool keeps;

    __device__ void at(int64_t i, double *) const
    {
        const bool inside = i % f.pitch < f.n[0];
        f.v[T][i] = known(f.v[DATA][i]) ? 1 : 0;
        f.v[X][i] = inside ? start : 0;
        if (keeps)
            f.v[BEFORE][i] = inside ? start : 0;
    }
};

/* x = NaN, for images without any data. */
struct no_data : voxel_op<false> {
    __device__ void at(int64_t i, double *) const { f.v[X][i] = __int_as_float(0x7fc00000); }
};

/* y = x + alpha (x - previous x), not negative: the extrapolation of the accelerated iteration. */
struct extrapolate : voxel_op<false> {
    float alpha;

    __device__ void at(int64_t i, double *) const
    {
        const float x = f.v[X][i];
        f.v[Y][i] = fmaxf(fmaf(alpha, x - f.v[BEFORE][i], x), 0);
        f.v[BEFORE][i] = x;
    }
};

/* t = data / (t + background). Sum: squares of the residual. */
struct compare : voxel_op<true> {
    float background, floor;

    __device__ void at(int64_t i, double *s) const
    {
        const float d = f.v[DATA][i], made = f.v[T][i] + background;
        if (known(d))
            s[0] += ((double)made - d) * ((double)made - d);
        f.v[T][i] = known(d) && d > 0 ? __fdiv_rn(d, fmaxf(made, floor)) : 0;
    }
};

/* to = from * u / norm with u the adjoint of the ratio, damped by total variation. */
struct update : voxel_op<false> {
    const float *from;
    float *to;
    float tv, least;

    __device__ float direction(const int64_t p[3], int axis) const
    {
        const int64_t step[3] = {1, f.pitch, f.pitch * f.n[1]};
        const float *const here = from + p[2] * step[2] + p[1] * step[1] + p[0];
        float squares = least * least, wanted = 0;
        for (int a = 0; a < 3; a++) {
            const float d = p[a] + 1 < f.n[a] ? here[step[a]] - here[0] : 0;
            squares = fmaf(d, d, squares);
            if (a == axis)
                wanted = d;
        }
        return __fdiv_rn(wanted, sqrtf(squares));
    }

    __device__ void at(int64_t i, double *) const
    {
        const float norm = f.v[NORM][i], u = f.v[U][i];
        float v = norm <= LEAST ? from[i] : u > 0 ? from[i] * __fdiv_rn(u, norm) : 0;
        if (tv > 0) {
            float curvature = 0;
            int64_t p[3];
            place(f, i, p);
            for (int a = 0; a < 3 && p[0] < f.n[0]; a++) {
                curvature += direction(p, a);
                if (p[a] == 0)
                    continue;
                p[a]--;
                curvature -= direction(p, a);
                p[a]++;
            }
            v = __fdiv_rn(v, fmaxf(1 - tv * curvature, 0.1f));
        }
        to[i] = v;
    }
};

/* step = x - y. Sums: product with the previous step, its square. */
struct measure_step : voxel_op<true> {
    __device__ void at(int64_t i, double *s) const
    {
        const float t = f.v[X][i] - f.v[Y][i], before = f.v[STEP][i];
        s[0] += (double)t * before;
        s[1] += (double)before * before;
        f.v[STEP][i] = t;
    }
};

/* Least squares: residual (volume STEP) = data - background - t. Sum: its square. */
struct residual_of : voxel_op<true> {
    float background;

    __device__ void at(int64_t i, double *s) const
    {
        const float d = f.v[DATA][i], l = known(d) ? d - background - f.v[T][i] : 0;
        f.v[STEP][i] = l;
        s[0] += (double)l * l;
    }
};

/* Search direction (volume Y) = gradient (volume NORM). Sum: square of the gradient. */
struct first_step : voxel_op<true> {
    __device__ void at(int64_t i, double *s) const
    {
        const float r = f.v[NORM][i];
        f.v[Y][i] = r;
        s[0] += (double)r * r;
    }
};

/* t = 0 where data are unknown. */
struct mask : voxel_op<false> {
    __device__ void at(int64_t i, double *) const
    {
        if (!known(f.v[DATA][i]))
            f.v[T][i] = 0;
    }
};

/* q += noise * direction, with q in volume U. Sum: product of direction and q. */
struct along_step : voxel_op<true> {
    float noise;

    __device__ void at(int64_t i, double *s) const
    {
        const float p = f.v[Y][i], q = fmaf(noise, p, f.v[U][i]);
        f.v[U][i] = q;
        s[0] += (double)p * q;
    }
};

/* x += a * direction, gradient -= a q, residual -= a t. Sums: squares of gradient and residual. */
struct take_step : voxel_op<true> {
    float a;

    __device__ void at(int64_t i, double *s) const
    {
        const float r = fmaf(-a, f.v[U][i], f.v[NORM][i]), l = fmaf(-a, f.v[T][i], f.v[STEP][i]);
        f.v[X][i] = fmaf(a, f.v[Y][i], f.v[X][i]);
        f.v[NORM][i] = r;
        f.v[STEP][i] = l;
        s[0] += (double)r * r;
        s[1] += (double)l * l;
    }
};

/* direction = gradient + b * direction. */
struct next_step : voxel_op<false> {
    float b;

    __device__ void at(int64_t i, double *) const { f.v[Y][i] = fmaf(b, f.v[Y][i], f.v[NORM][i]); }
};

/* Stores the image part of x from plane `z` of the output on. */
struct store_data : voxel_op<false> {
    int type;
    int64_t z;

    __device__ void at(int64_t i, double *) const
    {
        int64_t to;
        if (in_image(f, i, f.image, z, to))
            store_sample((char *)f.image.data, to, type, f.v[X][i]);
    }
};

/* ---- host ---- */

constexpr auto deconvolve_params = vp_params<vp_deconvolve_params>;

int volumes_of(const vp_deconvolve_params *p)
{
    return p->g.method == VP_LEAST_SQUARES || p->g.accelerate ? VOLUMES : NORM + 1;
}

/* The two convolutions. All planes of the frame are present, so their number is known. */
struct operator_pair {
    vp_op forward, adjoint;

    explicit operator_pair(const vp_op *op)
        : forward(deconvolve_params(op)->forward), adjoint(deconvolve_params(op)->adjoint)
    {
        forward.halo[2] = adjoint.halo[2] = VP_UNKNOWN;
    }
};

bool has(const vp_op *op, char *why, size_t size)
{
    const operator_pair b(op);
    return vp_has_types(VP_CONVOLVE_TYPES & 1u << op->in, op, why, size) &&
           vp_gpu_convolve.has(&b.forward, why, size) && vp_gpu_convolve.has(&b.adjoint, why, size);
}

uint64_t table(const vp_op *op)
{
    const operator_pair b(op);
    return vp_gpu_convolve.table(&b.forward) + vp_gpu_convolve.table(&b.adjoint);
}

void fill(const vp_op *op, void *to)
{
    const operator_pair b(op);
    vp_gpu_convolve.fill(&b.forward, to);
    vp_gpu_convolve.fill(&b.adjoint, (char *)to + vp_gpu_convolve.table(&b.forward));
}

/* A convolution and its table on the device. */
struct convolution {
    vp_op op;
    char *table;
    uint64_t filled; /* bytes of the table that the host fills */
};

struct deconvolve_workspace {
    frame f;
    sums *block, *all;
    convolution forward, adjoint;
    char *rest;
    uint64_t bytes;
};

deconvolve_workspace workspace_of(const vp_op *op, void *base)
{
    const vp_deconvolve_params *const p = deconvolve_params(op);
    vp_arena all = {(char *)base, 0};
    deconvolve_workspace r = {};
    for (int a = 0; a < 3; a++) {
        r.f.n[a] = p->frame[a];
        r.f.before[a] = a == 2 && p->frame[2] == 1 ? 0 : p->before[a];
    }
    r.f.pitch = vp_round_up(p->frame[0], 4);
    r.f.voxels = r.f.pitch * p->frame[1] * p->frame[2];
    for (int v = 0; v < volumes_of(p); v++)
        all.take(r.f.v[v], (uint64_t)r.f.voxels);
    all.take(r.block, (uint64_t)vp_div_up(r.f.voxels, SPAN));
    all.take(r.all, 1);
    const operator_pair b(op);
    const auto take = [&](const vp_op &c) {
        const uint64_t filled = vp_gpu_convolve.table(&c);
        return convolution{c, all.take<char>(filled + vp_gpu_convolve.made(&c)), filled};
    };
    r.forward = take(b.forward);
    r.adjoint = take(b.adjoint);
    all.take(r.rest, std::max(vp_gpu_convolve.scratch(&b.forward, p->frame, p->frame),
                              vp_gpu_convolve.scratch(&b.adjoint, p->frame, p->frame)));
    r.bytes = all.used;
    return r;
}

uint64_t scratch(const vp_op *op, const int64_t[3], const int64_t[3])
{
    return workspace_of(op, nullptr).bytes;
}

/* The iterations for one image after another. */
class deconvolution {
    const vp_op *const op;
    const vp_deconvolve_params *const p;
    const vp_work *const work;
    vp_err *const err;
    const cudaStream_t stream;
    deconvolve_workspace r;
    int64_t page;
    double norm; /* root of the sum of squares of the data */

    template <class F> int each_voxel(const F &f, sums *to = nullptr)
    {
        const int64_t blocks = vp_div_up(r.f.voxels, SPAN);
        if (vp_start(err, stream, voxels_kernel<F>, dim3((unsigned)blocks), dim3(THREADS),
                     F::has_sums ? THREADS * sizeof(sums) : 0, f, r.f.voxels, r.block))
            return -1;
        if (!F::has_sums)
            return 0;
        if (vp_start(err, stream, sums_kernel, dim3(1), dim3(THREADS), THREADS * sizeof(sums), r.block, blocks, r.all))
            return -1;
        cudaError_t e = cudaMemcpyAsync(to, r.all, sizeof *to, cudaMemcpyDeviceToHost, stream);
        if (e == cudaSuccess)
            e = cudaStreamSynchronize(stream);
        return vp_gpu_check(err, e, "the CUDA device failed");
    }

    int apply(const convolution &c, int from, int to)
    {
        const vp_box all = {{0, 0, 0}, {r.f.n[0], r.f.n[1], r.f.n[2]}};
        const vp_area in = {all, r.f.pitch, r.f.pitch * r.f.n[1], r.f.v[from]},
                      out = {all, in.pitch, in.plane, r.f.v[to]};
        vp_work w = {};
        w.in = &in;
        w.out = &out;
        w.table = c.table;
        w.scratch = r.rest;
        w.queue = work->queue;
        return vp_gpu_convolve.launch(&c.op, &w, err);
    }

    int prepare(const convolution &c, const char *filled)
    {
        return vp_gpu_check(err, cudaMemcpyAsync(c.table, filled, c.filled, cudaMemcpyDeviceToDevice, stream),
                            "cannot copy within the CUDA device")
                       || vp_gpu_convolve.make(&c.op, c.table, work->queue, err)
                   ? -1 : 0;
    }

    void report(int64_t iteration, double residual, bool last) const
    {
        if (p->g.tell)
            p->g.tell(p->g.ctx, page, iteration, residual, last);
    }

    double relative(double squares) const { return norm > 0 ? sqrt(squares) / norm : 0; }

    int richardson_lucy(double mean, double most)
    {
        const vp_deconvolve_given &g = p->g;
        const double floor = fmax(most * FLOOR, 1e-35);
        const float background = (float)g.background;
        double residual = INFINITY, alpha = 0;
        int64_t k = 0;
        sums s;

        const float start = (float)fmax(mean - g.background, floor);
        if (each_voxel(begin{{r.f}, start, g.accelerate}) || apply(r.adjoint, T, NORM))
            return -1;
        for (; k < g.iterations; k++) {
            const int y = g.accelerate ? Y : X;
            if (g.accelerate && each_voxel(extrapolate{{r.f}, (float)alpha}))
                return -1;
            if (apply(r.forward, y, T) || each_voxel(compare{{r.f}, background, (float)floor}, &s))
                return -1;
            const double now = relative(s.s[0]);
            if (k > 0)
                report(k, now, false);
            if (k > 1 && residual - now < g.stop * residual && g.stop > 0)
                break;
            residual = now;
            const int to = g.tv > 0 ? T : X; /* damping reads neighbours, so not in place */
            if (apply(r.adjoint, T, U)
                || each_voxel(update{{r.f}, r.f.v[y], r.f.v[to], (float)g.tv, (float)(1e-4 * mean) + 1e-30f}))
                return -1;
            if (to == T) {
                float *const was = r.f.v[X];
                r.f.v[X] = r.f.v[T];
                r.f.v[T] = was;
            }
            if (g.accelerate) {
                if (each_voxel(measure_step{{r.f}}, &s))
                    return -1;
                alpha = k > 0 && s.s[1] > 0 ? fmin(fmax(s.s[0] / s.s[1], 0), 0.99) : 0;
            }
        }
        if (apply(r.forward, X, T) || each_voxel(compare{{r.f}, background, (float)floor}, &s))
            return -1;
        report(k, relative(s.s[0]), true);
        return 0;
    }

    int least_squares(double mean)
    {
        const vp_deconvolve_given &g = p->g;
        int64_t k = 0;
        sums s;

        if (each_voxel(begin{{r.f}, (float)(mean - g.background), false}) || apply(r.forward, X, T)
            || each_voxel(residual_of{{r.f}, (float)g.background}, &s))
            return -1;
        double residual = relative(s.s[0]);
        if (apply(r.adjoint, STEP, NORM) || each_voxel(first_step{{r.f}}, &s))
            return -1;
        double squares = s.s[0];
        const double first = squares;
        for (; k < g.iterations && squares > 1e-13 * first; k++) {
            if (apply(r.forward, Y, T) || each_voxel(mask{{r.f}}) || apply(r.adjoint, T, U)
                || each_voxel(along_step{{r.f}, (float)g.noise}, &s))
                return -1;
            if (each_voxel(take_step{{r.f}, (float)(s.s[0] > 0 ? squares / s.s[0] : 0)}, &s))
                return -1;
            if (each_voxel(next_step{{r.f}, (float)(squares > 0 ? s.s[0] / squares : 0)}))
                return -1;
            squares = s.s[0];
            const double now = relative(s.s[1]);
            report(k + 1, now, false);
            const bool enough = k > 0 && residual - now < g.stop * residual && g.stop > 0;
            residual = now;
            if (enough) {
                k++;
                break;
            }
        }
        report(k, residual, true);
        return 0;
    }

  public:
    deconvolution(const vp_op *operation, const vp_work *w, vp_err *e)
        : op(operation), p(deconvolve_params(operation)), work(w), err(e), stream(w->queue->stream),
          r(workspace_of(operation, w->scratch)), page(0), norm(0)
    {
        r.f.image = *w->out;
    }

    int begin_all()
    {
        const char *const filled = (const char *)work->table;
        return prepare(r.forward, filled) || prepare(r.adjoint, filled + r.forward.filled) ? -1 : 0;
    }

    int solve(int64_t z)
    {
        sums s;
        page = z;
        if (each_voxel(load_data{{r.f}, work->in[0], op->in, volumes_of(p), z}, &s))
            return -1;
        const double mean = s.s[2] > 0 ? s.s[0] / s.s[2] : 0;
        norm = sqrt(s.s[1]);
        if (s.s[2] == 0 ? each_voxel(no_data{{r.f}})
                        : p->g.method == VP_LEAST_SQUARES ? least_squares(mean) : richardson_lucy(mean, s.s[3]))
            return -1;
        return each_voxel(store_data{{r.f}, op->out, z});
    }
};

int launch(const vp_op *op, const vp_work *work, vp_err *err)
{
    const vp_box &out = work->out->box;
    deconvolution d(op, work, err);
    if (d.begin_all())
        return -1;
    if (deconvolve_params(op)->frame[2] > 1)
        return d.solve(out.lo[2]);
    for (int64_t z = out.lo[2]; z < out.hi[2]; z++)
        if (d.solve(z))
            return -1;
    return 0;
}

}
}

VP_GPU_KERNEL(deconvolve, vp::has, vp::scratch, vp::table, vp::fill, vp::launch);
