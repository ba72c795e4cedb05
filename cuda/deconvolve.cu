/* SPDX-License-Identifier: BSD-3-Clause */
/* Deconvolution: kernel "deconvolve" of local/deconvolve.h, step by step as there. The unknown and all that is between
 * iterations stay on the device; what the host needs to know of an iteration are a few sums, and it waits for them: so
 * unlike other kernels this one comes back from its launch when most is done.
 *
 * The convolutions are those of kernel "convolve", whose tables are copied and whose spectra are made anew for each
 * launch, behind everything else in the scratch. Sums: SPAN voxels by each block, in one order, and those of all blocks
 * by one, so no bit depends on the device. Rows of volumes have a multiple of four voxels; those beyond the row are 0
 * (of the data NaN: unknown) and stay so. */
#include "convolve.h"
#include "local/deconvolve.h"
#include "sample.cuh"

#include <cfloat>
#include <cmath>
#include <cstdio>

namespace vp
{
namespace
{

enum { SPAN = 8192, THREADS = 256, SUMS = 4 };
enum { DATA, X, Y, T, U, NORM, BEFORE, STEP, VOLUMES };
/* As local/deconvolve.c has them. */
constexpr float LEAST = 1e-3f, FLOOR = 1e-6f;

struct frame {
    int64_t n[3], pitch, voxels; /* with what is beyond the rows */
    int64_t before[3];
    vp_area image;               /* of the output */
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

__device__ __forceinline__ void gather(sums &a, const sums &b)
{
    for (int i = 0; i < SUMS - 1; i++)
        a.s[i] += b.s[i];
    a.s[SUMS - 1] = fmax(a.s[SUMS - 1], b.s[SUMS - 1]);
}

/* Of a block, in its first thread. */
__device__ __forceinline__ void gather_block(sums &mine, sums *shared)
{
    shared[threadIdx.x] = mine;
    for (int n = THREADS / 2; n; n >>= 1) {
        __syncthreads();
        if (threadIdx.x < n)
            gather(shared[threadIdx.x], shared[threadIdx.x + n]);
    }
    mine = shared[0];
}

/* What is done to a frame: at(i, sums of this thread) for every voxel; COUNTS: it makes sums. */
template <bool COUNTS> struct over {
    static constexpr bool counts = COUNTS;
    frame f;
};

template <class F> __global__ void __launch_bounds__(THREADS) voxels_kernel(const F f, int64_t n, sums *block)
{
    extern __shared__ sums shared[];
    const int64_t from = (int64_t)blockIdx.x * SPAN, to = min(from + SPAN, n);
    sums mine = {};
    for (int64_t i = from + threadIdx.x; i < to; i += THREADS)
        f.at(i, mine.s);
    if (!F::counts)
        return;
    gather_block(mine, shared);
    if (threadIdx.x == 0)
        block[blockIdx.x] = mine;
}

__global__ void __launch_bounds__(THREADS) sums_kernel(const sums *block, int64_t blocks, sums *all)
{
    extern __shared__ sums shared[];
    sums mine = {};
    for (int64_t i = threadIdx.x; i < blocks; i += THREADS)
        gather(mine, block[i]);
    gather_block(mine, shared);
    if (threadIdx.x == 0)
        *all = mine;
}

/* ---- what is done to voxels ---- */

__device__ __forceinline__ void place(const frame &f, int64_t i, int64_t at[3])
{
    at[0] = i % f.pitch;
    at[1] = i / f.pitch % f.n[1];
    at[2] = i / f.pitch / f.n[1];
}

/* Whether voxel i of the frame is one of the image, and then where it is in an area whose plane `z` is the frame's
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

/* The data into the frame, all other voxels are unknown; everything else is 0. Sums: of the data, their squares, their
 * number; the largest. */
struct take_data : over<true> {
    vp_area in;
    int type, volumes;
    int64_t z; /* plane of the input that is the first */

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

/* t = 1 where data are; x and what x was = start. */
struct begin : over<false> {
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

/* Without any data. */
struct unknown : over<false> {
    __device__ void at(int64_t i, double *) const { f.v[X][i] = __int_as_float(0x7fc00000); }
};

struct look_ahead : over<false> {
    float alpha;

    __device__ void at(int64_t i, double *) const
    {
        const float x = f.v[X][i];
        f.v[Y][i] = fmaxf(fmaf(alpha, x - f.v[BEFORE][i], x), 0);
        f.v[BEFORE][i] = x;
    }
};

/* t becomes the ratio of the data to it. Sum: of squares of the difference. */
struct compare : over<true> {
    float background, floor;

    __device__ void at(int64_t i, double *s) const
    {
        const float d = f.v[DATA][i], made = f.v[T][i] + background;
        if (known(d))
            s[0] += ((double)made - d) * ((double)made - d);
        f.v[T][i] = known(d) && d > 0 ? __fdiv_rn(d, fmaxf(made, floor)) : 0;
    }
};

/* `to` from `from` and A' of the ratio, damped. */
struct update : over<false> {
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

/* The step that was made from y, on the one before, which it replaces. Sums: their product, the square of the latter.
 */
struct learn : over<true> {
    __device__ void at(int64_t i, double *s) const
    {
        const float t = f.v[X][i] - f.v[Y][i], before = f.v[STEP][i];
        s[0] += (double)t * before;
        s[1] += (double)before * before;
        f.v[STEP][i] = t;
    }
};

/* Least squares. left = data - background - t; sum: its square */
struct lack : over<true> {
    float background;

    __device__ void at(int64_t i, double *s) const
    {
        const float d = f.v[DATA][i], l = known(d) ? d - background - f.v[T][i] : 0;
        f.v[STEP][i] = l;
        s[0] += (double)l * l;
    }
};

/* step = rest (volumes Y and NORM); sum: the square of rest */
struct first_step : over<true> {
    __device__ void at(int64_t i, double *s) const
    {
        const float r = f.v[NORM][i];
        f.v[Y][i] = r;
        s[0] += (double)r * r;
    }
};

/* t where data are, else 0 */
struct mask : over<false> {
    __device__ void at(int64_t i, double *) const
    {
        if (!known(f.v[DATA][i]))
            f.v[T][i] = 0;
    }
};

/* q += noise step; sum: step q */
struct along_step : over<true> {
    float noise;

    __device__ void at(int64_t i, double *s) const
    {
        const float p = f.v[Y][i], q = fmaf(noise, p, f.v[U][i]);
        f.v[U][i] = q;
        s[0] += (double)p * q;
    }
};

/* x += a step, rest -= a q, left -= a t; sums: squares of rest and of left */
struct go : over<true> {
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

struct next_step : over<false> {
    float b;

    __device__ void at(int64_t i, double *) const { f.v[Y][i] = fmaf(b, f.v[Y][i], f.v[NORM][i]); }
};

/* The image out of the frame: x to plane `z` and on. */
struct give_data : over<false> {
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

/* The two convolutions, whose frame is there as a whole: its planes are known. */
struct both {
    vp_op forward, adjoint;

    explicit both(const vp_op *op) : forward(deconvolve_params(op)->forward), adjoint(deconvolve_params(op)->adjoint)
    {
        forward.halo[2] = adjoint.halo[2] = VP_UNKNOWN;
    }
};

bool has(const vp_op *op, char *why, size_t size)
{
    const both b(op);
    return vp_has_types(VP_CONVOLVE_TYPES & 1u << op->in, op, why, size) &&
           vp_gpu_convolve.has(&b.forward, why, size) && vp_gpu_convolve.has(&b.adjoint, why, size);
}

uint64_t table(const vp_op *op)
{
    const both b(op);
    return vp_gpu_convolve.table(&b.forward) + vp_gpu_convolve.table(&b.adjoint);
}

void fill(const vp_op *op, void *to)
{
    const both b(op);
    vp_gpu_convolve.fill(&b.forward, to);
    vp_gpu_convolve.fill(&b.adjoint, (char *)to + vp_gpu_convolve.table(&b.forward));
}

/* A convolution on the device, as the engine would have it. */
struct convolution {
    vp_op op;
    char *table;
    uint64_t filled;
};

struct deconvolve_room {
    frame f;
    sums *block, *all;
    convolution forward, adjoint;
    char *rest;
    uint64_t bytes;
};

deconvolve_room room_of(const vp_op *op, void *base)
{
    const vp_deconvolve_params *const p = deconvolve_params(op);
    vp_pieces all = {(char *)base, 0};
    deconvolve_room r = {};
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
    const both b(op);
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
    return room_of(op, nullptr).bytes;
}

/* One image. */
class deconvolution {
    const vp_op *const op;
    const vp_deconvolve_params *const p;
    const vp_work *const work;
    vp_err *const err;
    const cudaStream_t stream;
    deconvolve_room r;
    int64_t page;
    double norm; /* root of the sum of squares of the data */

    template <class F> int each_voxel(const F &f, sums *to = nullptr)
    {
        const int64_t blocks = vp_div_up(r.f.voxels, SPAN);
        if (vp_start(err, stream, voxels_kernel<F>, dim3((unsigned)blocks), dim3(THREADS),
                     F::counts ? THREADS * sizeof(sums) : 0, f, r.f.voxels, r.block))
            return -1;
        if (!F::counts)
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

    void tell(int64_t iteration, double residual, bool last) const
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
            if (g.accelerate && each_voxel(look_ahead{{r.f}, (float)alpha}))
                return -1;
            if (apply(r.forward, y, T) || each_voxel(compare{{r.f}, background, (float)floor}, &s))
                return -1;
            const double now = relative(s.s[0]);
            if (k > 0)
                tell(k, now, false);
            if (k > 1 && residual - now < g.stop * residual && g.stop > 0)
                break;
            residual = now;
            const int to = g.tv > 0 ? T : X; /* damping looks at neighbours */
            if (apply(r.adjoint, T, U)
                || each_voxel(update{{r.f}, r.f.v[y], r.f.v[to], (float)g.tv, (float)(1e-4 * mean) + 1e-30f}))
                return -1;
            if (to == T) {
                float *const was = r.f.v[X];
                r.f.v[X] = r.f.v[T];
                r.f.v[T] = was;
            }
            if (g.accelerate) {
                if (each_voxel(learn{{r.f}}, &s))
                    return -1;
                alpha = k > 0 && s.s[1] > 0 ? fmin(fmax(s.s[0] / s.s[1], 0), 0.99) : 0;
            }
        }
        if (apply(r.forward, X, T) || each_voxel(compare{{r.f}, background, (float)floor}, &s))
            return -1;
        tell(k, relative(s.s[0]), true);
        return 0;
    }

    int least_squares(double mean)
    {
        const vp_deconvolve_given &g = p->g;
        int64_t k = 0;
        sums s;

        if (each_voxel(begin{{r.f}, (float)(mean - g.background), false}) || apply(r.forward, X, T)
            || each_voxel(lack{{r.f}, (float)g.background}, &s))
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
            if (each_voxel(go{{r.f}, (float)(s.s[0] > 0 ? squares / s.s[0] : 0)}, &s))
                return -1;
            if (each_voxel(next_step{{r.f}, (float)(squares > 0 ? s.s[0] / squares : 0)}))
                return -1;
            squares = s.s[0];
            const double now = relative(s.s[1]);
            tell(k + 1, now, false);
            const bool enough = k > 0 && residual - now < g.stop * residual && g.stop > 0;
            residual = now;
            if (enough) {
                k++;
                break;
            }
        }
        tell(k, residual, true);
        return 0;
    }

  public:
    deconvolution(const vp_op *operation, const vp_work *w, vp_err *e)
        : op(operation), p(deconvolve_params(operation)), work(w), err(e), stream(w->queue->stream),
          r(room_of(operation, w->scratch)), page(0), norm(0)
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
        if (each_voxel(take_data{{r.f}, work->in[0], op->in, volumes_of(p), z}, &s))
            return -1;
        const double mean = s.s[2] > 0 ? s.s[0] / s.s[2] : 0;
        norm = sqrt(s.s[1]);
        if (s.s[2] == 0 ? each_voxel(unknown{{r.f}})
                        : p->g.method == VP_LEAST_SQUARES ? least_squares(mean) : richardson_lucy(mean, s.s[3]))
            return -1;
        return each_voxel(give_data{{r.f}, op->out, z});
    }
};

int launch(const vp_op *op, const vp_work *work, vp_err *err)
{
    const vp_box &out = work->out->box;
    deconvolution d(op, work, err);
    if (d.begin_all())
        return -1;
    if (op->halo[2])
        return d.solve(out.lo[2]);
    for (int64_t z = out.lo[2]; z < out.hi[2]; z++)
        if (d.solve(z))
            return -1;
    return 0;
}

}
}

extern "C" const vp_kernel vp_gpu_deconvolve = {"deconvolve", vp::has, vp::scratch, vp::table, vp::fill, vp::launch};
