/* SPDX-License-Identifier: BSD-3-Clause */
/* An expression over one or more stacks: kernel "math" of local/math.h.
 *
 * Overview: interprets the program of local/math.c in float64, for EACH voxels a thread, which share the decoding of a
 *   step. + - * / sqrt % floor ceil round equal the CPU's to the bit; pow, exp and log are the device's (within 2 ulp).
 * Registers: the operands of one step for EACH voxels.
 * Shared memory: the program's places, EACH doubles of every thread.
 * Global memory: each input is read once, the output is written once, the program comes from the caches.
 * Cost: two or three reads and a write of shared memory for each step and voxel, besides its arithmetic.
 * Limits: 96 places. */
#include "convert.cuh"
#include "footprint.cuh"
#include "local/math.h"

#include <algorithm>

namespace
{

enum {
    THREADS = 128, /* threads of a block, or half or a quarter of them if there are many places */
    EACH = 4       /* voxels of a thread */
};

/* The table: the program, with its used places renumbered. */
struct step {
    uint8_t code, to, from[3], unused[3];
};

struct program {
    int steps, places, constants, result;
    int stack[VP_MAX_INPUTS], position[4]; /* places of inputs and of coordinates, -1: not used */
    double value[VP_MATH_PLACES];          /* constants, which have the first places */
    struct step step[VP_MATH_LONGEST];
};

struct inputs {
    vp_area part[VP_MAX_INPUTS];
    int n;
};

__device__ double modulo(double a, double b)
{
    const double r = fmod(a, b);
    return r == 0 ? copysign(0.0, b) : (r < 0) != (b < 0) ? r + b : r;
}

/* A thread's places in shared memory: EACH doubles each. */
struct places {
    double *own;
    __device__ double &at(int place, int k) const { return own[(place * EACH + k) * blockDim.x]; }
};

__device__ void run_step(const struct step s, const places &v)
{
    double p[EACH], q[EACH], d[EACH];
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        p[k] = v.at(s.from[0], k);
        q[k] = v.at(s.from[1], k);
    }
#define OF_EACH(name, value)                                                                                           \
    case VP_MATH_##name:                                                                                               \
        _Pragma("unroll") for (int k = 0; k < EACH; k++) {                                                             \
            const double a = p[k], b = q[k];                                                                           \
            (void)a, (void)b;                                                                                          \
            d[k] = (value);                                                                                            \
        }                                                                                                              \
        break;
#define OF_EACH_IN_TURN(name, value)                                                                                   \
    case VP_MATH_##name:                                                                                               \
        _Pragma("unroll 1") for (int k = 0; k < EACH; k++) {                                                           \
            const double &a = v.at(s.from[0], k), &b = v.at(s.from[1], k);                                             \
            (void)a, (void)b;                                                                                          \
            v.at(s.to, k) = (value);                                                                                   \
        }                                                                                                              \
        return;
    switch (s.code) {
    VP_MATH_CODES(OF_EACH, OF_EACH_IN_TURN)
    default:
#pragma unroll
        for (int k = 0; k < EACH; k++)
            d[k] = p[k] != 0 ? q[k] : v.at(s.from[2], k);
    }
#undef OF_EACH
#undef OF_EACH_IN_TURN
#pragma unroll
    for (int k = 0; k < EACH; k++)
        v.at(s.to, k) = d[k];
}

/* Evaluates the program; in each turn every thread of a block has EACH voxels of a row. `lost` counts samples
 * out of range; of floats, those that are NaN or infinite. */
__global__ void __launch_bounds__(THREADS, 8)
    math_kernel(inputs in, vp_area out, int type, int out_type, const struct program *p, int64_t inner, int64_t nz,
                unsigned long long *lost)
{
    extern __shared__ double memory[];
    const places v = {memory + threadIdx.x};
    const int64_t nx = out.box.hi[0] - out.box.lo[0], ny = out.box.hi[1] - out.box.lo[1];
    const int threads = blockDim.x, one_turn = threads * EACH;
    const int64_t in_a_row = (nx + one_turn - 1) / one_turn, turns = in_a_row * ny * (out.box.hi[2] - out.box.lo[2]);
    const int steps = p->steps, result = p->result;
    const bool floats = out_type == VP_F32;
    int bad = 0;

    for (int i = 0; i < p->constants; i++)
#pragma unroll
        for (int k = 0; k < EACH; k++)
            v.at(i, k) = p->value[i];
    for (int64_t turn = blockIdx.x; turn < turns; turn += gridDim.x) {
        const int64_t row = turn / in_a_row, y = out.box.lo[1] + row % ny, z = out.box.lo[2] + row / ny;
        const int64_t x = out.box.lo[0] + turn % in_a_row * one_turn + threadIdx.x;
        const int n = (int)min((out.box.hi[0] - x + threads - 1) / threads, (int64_t)EACH); /* may be negative */
#pragma unroll
        for (int i = 0; i < VP_MAX_INPUTS; i++)
            for (int k = 0; i < in.n && p->stack[i] >= 0 && k < n; k++)
                v.at(p->stack[i], k) = vp::convert_load(in.part[i].data,
                                                        vp_place(in.part[i], x + k * threads, y, z), type);
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            if (p->position[0] >= 0)
                v.at(p->position[0], k) = (double)(x + k * threads);
            if (p->position[1] >= 0)
                v.at(p->position[1], k) = (double)y;
            if (p->position[2] >= 0)
                v.at(p->position[2], k) = (double)(z / inner % nz);
            if (p->position[3] >= 0)
                v.at(p->position[3], k) = (double)z;
        }
        for (int i = 0; i < steps; i++)
            run_step(p->step[i], v);
        for (int k = 0; k < n; k++)
            bad += vp::convert_store(out.data, vp_place(out, x + k * threads, y, z), out_type, v.at(result, k)) ||
                   (floats && !isfinite(v.at(result, k)));
    }
    if (bad)
        atomicAdd(lost, (unsigned long long)bad);
}

/* ---- host ---- */

constexpr auto params = vp_params<vp_math>;

bool is_copy(const struct vp_op *op)
{
    return params(op)->n == 0 && params(op)->result < VP_MAX_INPUTS && op->in == op->out;
}

/* Renumbers places: constants first, then those that are read or written. */
void number(const struct vp_math *m, int of[VP_MATH_PLACES], struct program *p)
{
    bool used[VP_MATH_PLACES] = {};

    p->places = 0;
    std::fill(of, of + VP_MATH_PLACES, -1);
    for (int i = 0; i < m->n; i++) {
        used[m->step[i].to] = true;
        for (int k = 0; k < 3; k++)
            used[m->step[i].from[k]] = true;
    }
    used[m->result] = true;
    for (const bool constant : {true, false}) {
        for (int i = 0; i < VP_MATH_PLACES; i++)
            if (used[i] && m->constant[i] == constant)
                of[i] = p->places++;
        if (constant)
            p->constants = p->places;
    }
}

size_t shared_bytes(int places, int threads)
{
    return (size_t)places * (size_t)(threads * EACH) * sizeof(double);
}

int places_of(const struct vp_op *op)
{
    struct program p;
    int of[VP_MATH_PLACES];
    number(params(op), of, &p);
    return p.places;
}

bool has(const struct vp_op *op, char *why, size_t size)
{
    enum { PLACES = 96 };
    if (places_of(op) <= PLACES)
        return true;
    snprintf(why, size, "the expression holds more than %d values at a time", PLACES);
    return false;
}

uint64_t state(const struct vp_op *op, const int64_t[3])
{
    return op->report ? op->report->bytes : 0;
}

uint64_t table(const struct vp_op *)
{
    return sizeof(struct program);
}

void fill(const struct vp_op *op, void *to)
{
    const struct vp_math *m = params(op);
    struct program *p = (struct program *)to;
    int of[VP_MATH_PLACES];

    number(m, of, p);
    p->steps = m->n;
    p->result = of[m->result];
    for (int i = 0; i < VP_MAX_INPUTS; i++)
        p->stack[i] = of[i];
    for (int i = 0; i < 4; i++)
        p->position[i] = of[VP_MATH_X + i];
    for (int i = 0; i < VP_MATH_PLACES; i++)
        if (m->constant[i] && of[i] >= 0)
            p->value[of[i]] = m->value[i];
    for (int i = 0; i < m->n; i++) {
        p->step[i].code = m->step[i].code;
        p->step[i].to = (uint8_t)of[m->step[i].to];
        for (int k = 0; k < 3; k++)
            p->step[i].from[k] = (uint8_t)of[m->step[i].from[k]];
    }
}

int copy(const struct vp_op *op, const struct vp_work *args, struct vp_err *err)
{
    const int64_t size = (int64_t)vp_type_size(op->in);
    const vp_area out = *args->out, in = vp_part_of(args->in[params(op)->result], out.box, size);

    for (int64_t z = 0; z < vp_box_size(&out.box, 2); z++)
        if (vp_gpu_check(err, cudaMemcpy2DAsync((char *)out.data + z * out.plane * size, (size_t)(out.pitch * size),
                                                (const char *)in.data + z * in.plane * size, (size_t)(in.pitch * size),
                                                (size_t)(vp_box_size(&out.box, 0) * size),
                                                (size_t)vp_box_size(&out.box, 1), cudaMemcpyDeviceToDevice,
                                                args->queue->stream), "cannot copy within the CUDA device"))
            return -1;
    return 0;
}

int launch(const struct vp_op *op, const struct vp_work *args, struct vp_err *err)
{
    const struct vp_math *m = params(op);
    const struct vp_area *out = args->out;
    struct inputs in;

    if (is_copy(op))
        return copy(op, args, err);
    in.n = op->inputs;
    for (int i = 0; i < op->inputs; i++)
        in.part[i] = args->in[i];
    const int places = places_of(op);
    int threads = THREADS;
    while (threads > THREADS / 4 && shared_bytes(places, threads) > (size_t)96 << 10)
        threads /= 2;
    if (vp_gpu_check(err, cudaMemsetAsync(args->state, 0, op->report->bytes, args->queue->stream),
                     "cannot start an expression on the CUDA device"))
        return -1;
    const int64_t turns =
        vp_div_up(vp_box_size(&out->box, 0), threads * EACH) * vp_box_size(&out->box, 1) * vp_box_size(&out->box, 2);
    const dim3 blocks((unsigned)vp_min64(turns, args->queue->sms * 16));
    return vp_start(err, args->queue->stream, math_kernel, blocks, dim3(threads), shared_bytes(places, threads), in,
                    *out, op->in, op->out, (const struct program *)args->table, m->inner, m->nz,
                    (unsigned long long *)args->state);
}

} // namespace

VP_GPU_KERNEL(math, has, NULL, table, fill, launch, state);
