/* SPDX-License-Identifier: BSD-3-Clause */
/* Mean, variance, standard deviation, Wiener's filter and local thresholds: kernels "mean", "var", "std", "wiener" and
 * "above" of local/moments.h.
 *
 * Overview: boxes of integers in one plane use sliding sums (moments_slide.cuh). Other boxes take a pass along each
 *   axis, which combines the states (partial moments) of the window. Integers: sums and sums of squares, exact modulo
 *   2^64, so results equal the CPU's to the bit. Floats: sums and squared deviations d in float64. m parts of u samples
 *   each with sums s_i, total S and deviations d_i from their own means deviate from the common mean by
 *
 *     sum d_i + sum (m s_i - S)^2 / (u m^2)
 *
 *   which has no cancellation (Chan, Golub and LeVeque 1983), and is exactly 0 if all samples are equal. The order of
 *   summation is that of the window, from its lowest sample up. Balls and sets are summed sample by sample, twice for
 *   deviations.
 * Registers: the state of one voxel.
 * Shared memory: none, windows are read through the caches.
 * Global memory: the states after the x pass and after the y pass, 8 (mean) or 16 bytes a voxel each.
 * Cost: 2 radius + 1 states read for each voxel and pass, twice for deviations of floats; for a ball or a set all its samples.
 * Limits: memory for the states. */
#include "moments_result.cuh"
#include "moments_slide.cuh"

namespace
{

/* ---- boxes ---- */

/* Type of samples that are summed in T. */
template <class T> using value_of = std::conditional_t<std::is_same<T, double>::value, double, int64_t>;

template <class T, int N> __device__ __forceinline__ void take(state<T, N> &s, value_of<T> v)
{
    s.v[0] += (T)v;
    if (N == 2 && !std::is_same<T, double>::value)
        s.v[N - 1] += (T)(v * v);
}

/* Returns the first sample or state in [lo, hi) of the window around p; sets m to their number. */
__device__ __forceinline__ int64_t first_in(int64_t p, int reach, int64_t lo, int64_t hi, int &m)
{
    const int64_t first = max(p - reach, lo);
    m = (int)(min(p + reach, hi - 1) - first) + 1;
    return first;
}

/* Pass along x, from samples to states. `out` has the rows of `in`. */
template <class S, class T, int N>
__global__ void __launch_bounds__(256) first_kernel(vp_area in, vp_area out, int reach)
{
    vp_each_voxel(out.box, [&](int64_t x, int64_t y, int64_t z) {
        int m;
        const S *const p = vp_at<S>(in, first_in(x, reach, in.box.lo[0], in.box.hi[0], m), y, z);
        state<T, N> s = {};
        for (int i = 0; i < m; i++)
            take(s, (value_of<T>)p[i]);
        if (N == 2 && sizeof(S) == 4) { /* f32: the squares of m v - sum, over m^2 */
            double d = 0;
            for (int i = 0; i < m; i++) {
                const double e = m * (double)p[i] - (double)s.v[0];
                d += e * e;
            }
            s.v[N - 1] = (T)(d / ((double)m * m));
        }
        *vp_at<state<T, N>>(out, x, y, z) = s;
    });
}

/* Combines m states of u samples each; deviations of f32 as in the head of this file. */
template <class T, int N>
__device__ __forceinline__ void gather(state<T, N> &s, const state<T, N> *p, int64_t step, int m, double u)
{
    for (int i = 0; i < m; i++) {
        s.v[0] += p[i * step].v[0];
        if (N == 2)
            s.v[N - 1] += p[i * step].v[N - 1];
    }
    if constexpr (N == 2 && std::is_same<T, double>::value) {
        double d = 0;
        for (int i = 0; i < m; i++) {
            const double e = m * p[i * step].v[0] - s.v[0];
            d += e * e;
        }
        s.v[1] += d / (u * m * m);
    }
}

/* Returns the number of samples of a window around p along an axis of n. */
__device__ __forceinline__ int inside(int64_t p, int reach, int64_t n)
{
    int m;
    first_in(p, reach, 0, n, m);
    return m;
}

/* Pass along y, from states to states. */
template <class T, int N>
__global__ void __launch_bounds__(256) next_kernel(vp_area in, vp_area out, int3 reach, int64_t image_x)
{
    vp_each_voxel(out.box, [&](int64_t x, int64_t y, int64_t z) {
        int m;
        const int64_t y0 = first_in(y, reach.y, in.box.lo[1], in.box.hi[1], m);
        state<T, N> s = {};
        gather(s, vp_at<state<T, N>>(in, x, y0, z), in.pitch, m, inside(x, reach.x, image_x));
        *vp_at<state<T, N>>(out, x, y, z) = s;
    });
}

/* Pass along z, from states to results. */
template <class S, class O, class T, int N>
__global__ void __launch_bounds__(256) last_kernel(vp_area in, vp_area samples, vp_area out, int3 reach,
                                                   int64_t image_x, int64_t image_y, result_args f)
{
    vp_each_voxel(out.box, [&](int64_t x, int64_t y, int64_t z) {
        int m;
        const double u = (double)inside(x, reach.x, image_x) * inside(y, reach.y, image_y);
        const int64_t z0 = first_in(z, reach.z, in.box.lo[2], in.box.hi[2], m);
        state<T, N> s = {};
        gather(s, vp_at<state<T, N>>(in, x, y, z0), in.plane, m, u);
        *vp_at<O>(out, x, y, z) = stored<O>(result(f, s, u * m, (double)*vp_at<S>(samples, x, y, z), WHOLE<O>));
    });
}

/* ---- balls and sets ---- */

template <class S, class O, class T, int N>
__global__ void __launch_bounds__(256) ball_kernel(vp_area in, vp_area out, vp_lines ball, result_args f)
{
    vp_each_voxel(out.box, [&](int64_t x, int64_t y, int64_t z) {
        state<T, N> s = {};
        int64_t n = 0;
        ball.each<S, true>(in, x, y, z, [&](const S *p, int m) {
            for (int i = 0; i < m; i++)
                take(s, (value_of<T>)p[i]);
            n += max(m, 0);
        });
        if (N == 2 && sizeof(S) == 4) {
            const double mean = total(s.v[0]) / (double)n;
            double d = 0;
            ball.each<S, true>(in, x, y, z, [&](const S *p, int m) {
                for (int i = 0; i < m; i++) {
                    const double off = (double)p[i] - mean;
                    d += off * off;
                }
            });
            s.v[N - 1] = (T)d;
        }
        *vp_at<O>(out, x, y, z) = stored<O>(result(f, s, (double)n, (double)*vp_at<S>(in, x, y, z), WHOLE<O>));
    });
}

/* ---- host ---- */

constexpr auto params = vp_params<vp_moments_params>;

bool has(const struct vp_op *op, char *why, size_t size)
{
    if (params(op)->edge != VP_EDGE_RENORMALIZE) {
        snprintf(why, size, "no kernel for voxels beyond the edge");
        return false;
    }
    if (params(op)->moment == VP_ABOVE && op->out == VP_U8 && (VP_MOMENTS_TYPES & 1u << op->in))
        return true;
    if ((VP_MOMENTS_TYPES & 1u << op->in) && (VP_MOMENTS_TYPES & 1u << op->out) &&
        (op->out == op->in || op->out == VP_F32 || op->in == VP_F32))
        return true;
    snprintf(why, size, "no kernel from %s to %s", vp_type_name(op->in), vp_type_name(op->out));
    return false;
}

uint64_t states_bytes(const struct vp_op *op, const struct vp_box &b)
{
    return (uint64_t)vp_round_up(vp_box_voxels(b) * (params(op)->spreads ? 16 : 8), VP_ALIGN);
}

uint64_t scratch(const struct vp_op *op, const int64_t in[3], const int64_t out[3])
{
    if (params(op)->f.shape != VP_BOX || slides(op))
        return 0;
    const struct vp_box x = {{0, 0, 0}, {out[0], in[1], in[2]}}, y = {{0, 0, 0}, {out[0], out[1], in[2]}};
    return states_bytes(op, x) + states_bytes(op, y);
}

template <class S, class O, class T, int N>
int run(const struct vp_op *op, const struct vp_work *args, struct vp_err *err)
{
    const struct vp_moments_params *p = params(op);
    const result_args f = {p->moment, p->sample, p->noise, p->limit};
    const struct vp_area in = args->in[0], out = *args->out;
    if (p->f.shape != VP_BOX)
        return vp_start_voxels(err, args, out.box, ball_kernel<S, O, T, N>, in, out,
                               vp_lines_of(&p->f, op->image, args->table), f);
    const int3 reach = vp_reach(&p->f, op->image);
    if constexpr (!std::is_same<S, float>::value)
        if (slides(op))
            return slide<S, O, N>(op, in, out, reach, f, args->queue->stream, err);
    struct vp_box bx = out.box, by = out.box;
    vp_box_grow(&bx, 1, reach.y, in.box); /* the rows and planes that later passes read */
    vp_box_grow(&bx, 2, reach.z, in.box);
    vp_box_grow(&by, 2, reach.z, in.box);
    const vp_area sx = vp_packed_part(bx, 1, args->scratch);
    const vp_area sy = vp_packed_part(by, 1, (char *)args->scratch + states_bytes(op, bx));
    if (vp_start_voxels(err, args, bx, first_kernel<S, T, N>, in, sx, reach.x) ||
        vp_start_voxels(err, args, by, next_kernel<T, N>, sx, sy, reach, op->image[0]))
        return -1;
    return vp_start_voxels(err, args, out.box, last_kernel<S, O, T, N>, sy, in, out, reach, op->image[0], op->image[1],
                           f);
}

template <class S, class O> int lanes(const struct vp_op *op, const struct vp_work *args, struct vp_err *err)
{
    using T = std::conditional_t<std::is_same<S, float>::value, double, uint64_t>;
    return params(op)->spreads ? run<S, O, T, 2>(op, args, err) : run<S, O, T, 1>(op, args, err);
}

int launch(const struct vp_op *op, const struct vp_work *args, struct vp_err *err)
{
    if (params(op)->moment == VP_ABOVE)
        return vp_by_type(op->in, [=](auto in) { return lanes<decltype(in), uint8_t>(op, args, err); });
    if (op->in == VP_F32) /* the last of several iterations may have any output type */
        return vp_by_type(op->out, [=](auto out) { return lanes<float, decltype(out)>(op, args, err); });
    return vp_by_type(op->in, [=](auto in) {
        return op->out == VP_F32 ? lanes<decltype(in), float>(op, args, err)
                                 : lanes<decltype(in), decltype(in)>(op, args, err);
    });
}

} // namespace

VP_GPU_KERNEL(mean, has, scratch, vp_spans_bytes, vp_spans_fill, launch);
VP_GPU_KERNEL(var, has, scratch, vp_spans_bytes, vp_spans_fill, launch);
VP_GPU_KERNEL(std, has, scratch, vp_spans_bytes, vp_spans_fill, launch);
VP_GPU_KERNEL(wiener, has, scratch, vp_spans_bytes, vp_spans_fill, launch);
VP_GPU_KERNEL(above, has, scratch, vp_spans_bytes, vp_spans_fill, launch);
