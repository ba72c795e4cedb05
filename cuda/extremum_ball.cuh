/* SPDX-License-Identifier: BSD-3-Clause */
/* Minimum and maximum over a ball, taken as a set of chords along x.
 *
 * Overview: a thread block walks along z with LANES words of BALL_ROWS rows. For each plane it computes windows along x
 *   of all chord lengths, from the shortest to the longest, then from these the maxima over the ball's cross sections,
 *   and merges them into the outputs of all planes in reach.
 * Registers: BALL_ROWS / WARPS rows of one word, for each the longest window so far or the cross section.
 * Shared memory: the rows of a plane and its halo, windows of `slots` lengths for them, the outputs of 2 reach.z + 1
 *   planes. If the windows of all lengths do not fit, they are computed in batches.
 * Cost: one three-way maximum for each half length and for each chord of a quarter of the ball, row and word.
 * Limits: shared memory for one length at least; ball_kernel handles larger balls sample by sample. */
#pragma once

#include "extremum_strip.cuh"

#include <algorithm>
#include <type_traits>

namespace
{

enum {
    BALL_ROWS = 16, /* multiple of ROWS */
    BALL_DEEP = 8   /* reach along z from which on 8 warps are used instead of 4, as few thread blocks fit (H100) */
};

struct ball_job {
    extremum_line l;      /* in, out: first row of the first plane; _step: to the next row, _other: to the next plane */
    int3 reach;
    int in_ny, in_nz;     /* rows, planes of the input */
    int y_shift, z_shift; /* from its first row and plane to the output's */
    int ny;               /* rows of the output */
    int slots, batches;   /* half lengths of a batch, batches */
    const int4 *chord;    /* for each batch (first, end, 0, 0), indices into this array; then the chords:
                             (|dz|, |dy|, slot, 1 if it is the last of its |dz|) */
};

template <int SIZE, int WARPS> __global__ void __launch_bounds__(WARPS *LANES) ball_rows_kernel(ball_job j)
{
    enum { MINE = BALL_ROWS / WARPS, IN_WORD = keys<SIZE>::IN_WORD };
    extern __shared__ uint4 shared[];
    const extremum_line &l = j.l;
    const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
    const int rows = (BALL_ROWS + 2 * j.reach.y + ROWS - 1) / ROWS * ROWS, around = 2 * j.reach.z + 1;
    uint32_t *const raw = (uint32_t *)shared, *const windows = raw + rows * l.x_pitch + lane,
                    *const made =
                        windows + j.slots * rows * LANES + warp * MINE * LANES; /* [around][BALL_ROWS][LANES] */
    const strip<SIZE> x(l, raw, blockIdx.x * LANES * IN_WORD);
    const int word_of = blockIdx.x * LANES + lane, y0 = blockIdx.y * BALL_ROWS, z0 = blockIdx.z * l.segment;
    const int planes = min(l.segment, l.n - z0) + 2 * j.reach.z;
    const int in_y = y0 - j.reach.y + j.y_shift, in_z = z0 - j.reach.z + j.z_shift;
    uint32_t *out = (uint32_t *)l.out + z0 * l.out_other + (y0 + warp * MINE) * l.out_step + word_of;
    const int outputs = word_of < l.words ? min((int)MINE, j.ny - y0 - warp * MINE) : 0;
    const int middle = x.off + j.reach.x;

    const auto load = [&](int p) {
        const int z = in_z + p;
        if (p < planes && z >= 0 && z < j.in_nz)
            for (int r = warp * MINE; r < rows; r += WARPS * MINE)
                for (int q = r; q < r + MINE; q++)
                    if (in_y + q >= 0 && in_y + q < j.in_ny)
                        x.load(q, 1, (const uint32_t *)l.in + z * l.in_other + (in_y + q) * l.in_step, 0);
        __pipeline_commit();
    };

    for (int i = 0; i < around; i++)
        for (int q = 0; q < MINE; q++)
            made[(i * BALL_ROWS + q) * LANES] = 0;
    load(0);
    /* slot p % around holds the output that plane p is the first to reach */
    for (int p = 0, last = 0; p < planes; p++, last = last + 1 == around ? 0 : last + 1) {
        const bool exists = in_z + p >= 0 && in_z + p < j.in_nz;
        __pipeline_wait_prior(0);
        __syncwarp();
        if (exists) {
            for (int r = warp * MINE; r < rows; r += WARPS * MINE)
                for (int i = lane; i < l.x_words; i += LANES) {
                    uint32_t *const w = raw + r * l.x_pitch + i, mask = x.inside(i), k[MINE];
#pragma unroll
                    for (int q = 0; q < MINE; q++)
                        k[q] = w[q * l.x_pitch];
#pragma unroll
                    for (int q = 0; q < MINE; q++) {
                        const int y = in_y + r + q;
                        w[q * l.x_pitch] = x.key(k[q], y >= 0 && y < j.in_ny ? mask : 0);
                    }
                }
            __syncwarp();
        }
        for (int b = 0; exists && b < j.batches; b++) {
            const int4 part = __ldg(j.chord + b);
            for (int r = warp * MINE; r < rows; r += WARPS * MINE) {
                keys<SIZE> best[MINE];
                uint32_t *const to = windows + r * LANES;
                if (b > 0) /* continue with the longest window of the previous batch */
#pragma unroll
                    for (int q = 0; q < MINE; q++)
                        best[q] = keys<SIZE>(to[((j.slots - 1) * rows + q) * LANES]);
                for (int h = b * j.slots; h < min((b + 1) * j.slots, j.reach.x + 1); h++) {
                    const int o1 = middle - h, o2 = middle + h, w1 = o1 / IN_WORD, w2 = o2 / IN_WORD;
                    const uint32_t s1 = x.select_at(o1), s2 = x.select_at(o2);
#pragma unroll
                    for (int q = 0; q < MINE; q++) {
                        const uint32_t *const row = raw + (r + q) * l.x_pitch;
                        best[q].take(keys<SIZE>(x.keys_at(row, lane, w1, s1)),
                                     keys<SIZE>(x.keys_at(row, lane, w2, s2)));
                        to[((h - b * j.slots) * rows + q) * LANES] = best[q].word();
                    }
                }
            }
            __syncthreads();
            if (b == j.batches - 1)
                load(p + 1);
            keys<SIZE> cut[MINE];
            for (int e = part.x; e < part.y; e++) {
                const int4 t = __ldg(j.chord + e);
                const uint32_t *const w = windows + (t.z * rows + j.reach.y + warp * MINE) * LANES;
#pragma unroll
                for (int q = 0; q < MINE; q++)
                    cut[q].take(keys<SIZE>(w[(q - t.y) * LANES]), keys<SIZE>(w[(q + t.y) * LANES]));
                if (!t.w)
                    continue;
                const auto put = [&](int slot) {
                    uint32_t *const a = made + (slot < 0 ? slot + around : slot) * BALL_ROWS * LANES;
#pragma unroll
                    for (int q = 0; q < MINE; q++) {
                        keys<SIZE> k(a[q * LANES]);
                        k.take(cut[q]);
                        a[q * LANES] = k.word();
                    }
                };
                put(last - j.reach.z - t.x);
                if (t.x)
                    put(last - j.reach.z + t.x);
#pragma unroll
                for (int q = 0; q < MINE; q++)
                    cut[q] = keys<SIZE>(0);
            }
            __syncthreads();
        }
        if (!exists)
            load(p + 1);
        uint32_t *const ready = made + (last + 1 == around ? 0 : last + 1) * BALL_ROWS * LANES;
        for (int q = 0; q < MINE; q++) {
            if (p >= 2 * j.reach.z && q < outputs)
                out[q * l.out_step] = from_keys<SIZE>(ready[q * LANES], l.flip);
            ready[q * LANES] = 0;
        }
        if (p >= 2 * j.reach.z)
            out += l.out_other;
    }
}

/* Sets, larger balls, and images with too many rows: a thread for each voxel, samples from global memory. */
template <int SIZE>
using sample_of =
    std::conditional_t<SIZE == 1, uint8_t, std::conditional_t<SIZE == 2, uint16_t, uint32_t>>;

template <int SIZE>
__global__ void __launch_bounds__(256) ball_kernel(vp_area in, vp_area out, vp_lines ball, uint32_t flip)
{
    using sample_t = sample_of<SIZE>;
    vp_each_voxel(out.box, [&](int64_t x, int64_t y, int64_t z) {
        uint32_t best = 0;
        ball.each<sample_t, true>(in, x, y, z, [&](const sample_t *row, int n) {
            for (int i = 0; i < n; i++)
                best = max(best, (uint32_t)(sample_t)to_keys<SIZE>(row[i], flip));
        });
        *vp_at<sample_t>(out, x, y, z) = (sample_t)from_keys<SIZE>(best, flip);
    });
}

/* ---- host ---- */

/* Returns the words of shared memory for a ball with windows of `slots` lengths. */
size_t ball_words(const struct vp_footprint *f, int bytes, int64_t slots)
{
    const int64_t rows = vp_round_up(BALL_ROWS + 2 * f->reach[1], ROWS), block = 16 / bytes;
    const int64_t pitch = LANES + 4 * vp_div_up(2 * f->reach[0] + block, block) + 4;
    return (size_t)(rows * pitch + slots * rows * LANES + (2 * f->reach[2] + 1) * BALL_ROWS * LANES);
}

/* Returns the half lengths of a batch, 0 if the ball is too large: all, or at least four such that the number of
 * resident thread blocks of a multiprocessor is largest. */
int ball_slots(const struct vp_footprint *f, int bytes)
{
    const size_t most = vp_shared_most(), wanted[3] = {SHARED_GPU / 4 - 1024, SHARED_GPU / 2 - 1024, most};
    const size_t none = ball_words(f, bytes, 0), one = ball_words(f, bytes, 1) - none;
    const int64_t all = f->reach[0] + 1;
    int64_t n = 0;
    for (int i = 0; i < 3 && n < vp_min64(all, 4); i++) {
        const size_t words = std::min(wanted[i], most) / sizeof(uint32_t);
        n = words < none ? 0 : (int64_t)((words - none) / one);
    }
    return (int)vp_min64(n, all);
}

template <int SIZE> int ball(const setting &s, const struct vp_op *op, const struct vp_work *args)
{
    const struct vp_footprint *f = &vp_params<vp_extremum_params>(op)->f;
    const vp_area &in = args->in[0], &out = *args->out;
    ball_job j = {};

    j.slots = f->shape == VP_BALL ? ball_slots(f, SIZE) : 0;
    if (j.slots == 0 || !vp_grid_holds(out.box, BALL_ROWS))
        return vp_start_voxels(s.err, args, out.box, ball_kernel<SIZE>, in, out,
                               vp_lines_of(f, op->image, args->table), s.flip);
    const size_t shared = sizeof(uint32_t) * ball_words(f, SIZE, j.slots);
    extremum_line &l = j.l;
    l = line_of<SIZE>(s, in, out, 1, true, true);
    l.n = (int)vp_box_size(&out.box, 2);
    l.x_strip = LANES;
    set_strip<SIZE>(l, (int)f->reach[0]);
    j.reach = make_int3((int)f->reach[0], (int)f->reach[1], (int)f->reach[2]);
    j.in_ny = (int)vp_box_size(&in.box, 1);
    j.in_nz = (int)vp_box_size(&in.box, 2);
    j.y_shift = (int)(out.box.lo[1] - in.box.lo[1]);
    j.z_shift = (int)(out.box.lo[2] - in.box.lo[2]);
    j.ny = (int)vp_box_size(&out.box, 1);
    j.batches = (int)vp_div_up(f->reach[0] + 1, j.slots);
    j.chord = (const int4 *)((const char *)args->table + vp_spans_bytes(op));
    const int64_t strips = vp_div_up(l.words, LANES), tiles = vp_div_up(j.ny, BALL_ROWS);
    l.segment = choose_segment(l.n, strips * tiles, j.reach.z, blocks_at_once(shared, PLANE_BLOCKS), s.sms, 1);
    const dim3 grid((unsigned)strips, (unsigned)tiles, (unsigned)vp_div_up(l.n, l.segment));
    const bool deep = j.reach.z >= BALL_DEEP;
    return vp_start(s.err, s.stream, deep ? ball_rows_kernel<SIZE, 8> : ball_rows_kernel<SIZE, 4>, grid,
                    dim3((deep ? 8 : 4) * LANES), shared, j);
}

/* The table of a ball: its spans, and its chords by batches (ball_job.chord); of a set its spans. */
uint64_t table(const struct vp_op *op)
{
    const struct vp_footprint *f = &vp_params<vp_extremum_params>(op)->f;
    return f->shape == VP_BALL ? 2 * vp_spans_bytes(op) + (uint64_t)(f->reach[0] + 1) * sizeof(int4)
                               : vp_spans_bytes(op);
}

void fill(const struct vp_op *op, void *to)
{
    const struct vp_footprint *f = &vp_params<vp_extremum_params>(op)->f;
    int4 *const chord = (int4 *)((char *)to + vp_spans_bytes(op));

    vp_spans_fill(op, to);
    const int slots = f->shape == VP_BALL ? ball_slots(f, (int)vp_type_size(op->in)) : 0;
    if (slots == 0)
        return;
    const int batches = (int)vp_div_up(f->reach[0] + 1, slots);
    int n = batches;
    for (int b = 0; b < batches; b++) {
        chord[b] = make_int4(n, n, 0, 0);
        for (int64_t i = 0; i < f->spans; i++) {
            const struct vp_span *s = &f->span[i];
            if (s->dz < 0 || s->dy < 0 || s->x1 / slots != b)
                continue;
            if (n > chord[b].x)
                chord[n - 1].w = chord[n - 1].x != s->dz;
            chord[n++] = make_int4(s->dz, s->dy, s->x1 % slots, 1);
        }
        chord[b].y = n;
    }
}

}
