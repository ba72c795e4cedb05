/* SPDX-License-Identifier: BSD-3-Clause */
/* Minimum and maximum over a box, a ball or a set: kernels "min" and "max" of local/extremum.h.
 *
 * A box takes one pass along x and y together and one along z, or one pass along each axis if windows are long
 * (extremum_strip.cuh, extremum_line.cuh). A ball takes a single pass (extremum_ball.cuh), a set sample by sample. */
#include "extremum_ball.cuh"
#include "extremum_line.cuh"

namespace
{

enum {
    /* x and y are one pass up to this reach along x in bytes, and this shared memory: as measured (H100) */
    PLANE_REACH = 256,
    PLANE_SHARED = 52 << 10,
    PASS_RADIUS = 256,     /* larger radii are split into passes, windows of windows */
    PASSES = 64,           /* limit of these passes along an axis */
    PASS_RADIUS_MOST = 340 /* limit of a pass's radius, by SHARED_LEAST */
};

/* Pass along x and y.
 * Mapping: a warp computes windows along x of every fourth group of ROWS rows, and walks down its own columns along y.
 * Shared memory: a ring of plane_slots() rows, and a strip for each warp.
 * Global memory: reads the rows of a segment and its halo once, writes once. */
template <int SIZE> __global__ void __launch_bounds__(STRIP, PLANE_BLOCKS) plane_kernel(extremum_line l, int scratch)
{
    extern __shared__ uint4 shared[];
    uint32_t *const ring = (uint32_t *)shared;
    const int warp = threadIdx.x / LANES;
    const int group = blockIdx.x % l.groups, word_of = group * STRIP + threadIdx.x;
    const int64_t other = blockIdx.x / l.groups;
    const int start = blockIdx.y * l.segment, count = min(l.segment, l.n - start), origin = start - l.radius;
    const strip<SIZE> x(l, ring + l.slots * STRIP + warp * scratch, group * STRIP * keys<SIZE>::IN_WORD);
    line_walker<SIZE, STRIP> walk(l, ring + threadIdx.x,
                                  (uint32_t *)l.out + other * l.out_other + word_of + start * l.out_step, count,
                                  word_of < l.words);
    const uint32_t *const in = (const uint32_t *)l.in + other * l.in_other;
    unsigned exist = 0;

    for (int chunk = -PLANE_ROWS, slot = 0; chunk < walk.m; chunk += PLANE_ROWS) {
        if (chunk >= 0) {
            uint32_t *const to = ring + (slot + warp * ROWS) * STRIP;
            __pipeline_wait_prior(0);
            __syncwarp();
            if (exist)
                x.make([=](int r, int j, const auto &e) {
#pragma unroll
                    for (int k = 0; k < (int)(sizeof e / sizeof *e); k++)
                        to[r * STRIP + j + k * LANES] = exist >> r & 1 ? e[k] : 0;
                });
            else
#pragma unroll 1
                for (int j = threadIdx.x % LANES; j < ROWS * STRIP; j += LANES)
                    to[j] = 0;
            slot = walk.next(slot, PLANE_ROWS);
        }
        exist = 0;
        for (int r = 0; r < ROWS; r++) {
            const int i = chunk + PLANE_ROWS + warp * ROWS + r, y = origin + i;
            if (i >= walk.m || y < l.from || y >= l.to)
                continue;
            exist |= 1u << r;
            x.load(r, 1, in + y * l.in_step, 0);
        }
        __pipeline_commit();
        if (chunk < 0)
            continue;
        __syncthreads(); /* no second barrier: the ring has room for the next rows */
        walk.to(min(chunk + PLANE_ROWS, walk.m));
    }
}

/* Pass along x alone: a warp has x_rows rows of a strip; blockIdx.x counts groups of rows, blockIdx.y strips. */
template <int SIZE> __global__ void __launch_bounds__(STRIP) rows_kernel(extremum_line l, int scratch)
{
    extern __shared__ uint4 shared[];
    const int warp = threadIdx.x / LANES;
    const unsigned job = blockIdx.x * (STRIP / LANES) + warp, z = job / l.row_groups;
    const int y = (int)(job - z * l.row_groups) * l.x_rows, rows = min(l.x_rows, l.n - y);
    const int first = blockIdx.y * l.x_strip, words = l.words - first;
    if (z >= l.planes)
        return;
    const strip<SIZE> x(l, (uint32_t *)shared + warp * scratch, first * keys<SIZE>::IN_WORD);
    const uint32_t *const in = (const uint32_t *)l.in + z * l.in_other + y * l.in_step;
    uint32_t *const out = (uint32_t *)l.out + z * l.out_other + y * l.out_step + first;
    x.load(0, rows, in, l.in_step);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncwarp();
    x.make([&](int r, int j, const auto &e) {
        uint32_t *const to = out + (uint64_t)(uint32_t)r * (uint32_t)l.out_step + j;
#pragma unroll
        for (int k = 0; k < (int)(sizeof e / sizeof *e); k++)
            if (j + k * LANES < words && r < rows)
                to[k * LANES] = l.last ? from_keys<SIZE>(e[k], l.flip) : e[k];
    });
}

/* ---- host ---- */

constexpr auto params = vp_params<vp_extremum_params>;

bool has(const struct vp_op *op, char *why, size_t size)
{
    const struct vp_footprint *f = &params(op)->f;
    if (!vp_has_types(op->in == op->out && (VP_EXTREMUM_TYPES & 1u << op->in), op, why, size))
        return false;
    for (int a = 0; a < 3 && f->shape == VP_BOX; a++)
        if (f->reach[a] > PASSES * PASS_RADIUS_MOST && op->image[a] > PASSES * PASS_RADIUS_MOST) {
            snprintf(why, size, "no kernel for a radius above %d", PASSES * PASS_RADIUS_MOST);
            return false;
        }
    return true;
}

/* Returns the bytes of a buffer for the output of any pass over a part. */
uint64_t buffer_bytes(int64_t bytes, const int64_t n[3])
{
    return (uint64_t)vp_round_up(vp_round_up(n[0], VP_ROW_ALIGN / bytes) * n[1] * n[2] * bytes, VP_ALIGN);
}

uint64_t scratch(const struct vp_op *op, const int64_t in[3], const int64_t[3])
{
    return params(op)->f.shape == VP_BOX ? 2 * buffer_bytes((int64_t)vp_type_size(op->in), in) : 0;
}

/* A pass along `axis`: 0, 1, 2, or PLANE for x and y together, with radius x_radius along x. */
enum { PLANE = 3 };
struct extremum_pass {
    int axis, radius, x_radius;
};

int plane_slots(int radius)
{
    return (int)vp_round_up(2 * radius, PLANE_ROWS) + 2 * PLANE_ROWS;
}

template <int SIZE> size_t plane_shared(extremum_line &l, const extremum_pass &t)
{
    l.x_strip = STRIP;
    l.x_rows = ROWS;
    const size_t warps = STRIP / LANES, words = set_strip<SIZE>(l, t.x_radius);
    return sizeof(uint32_t) * (STRIP * (size_t)plane_slots(t.radius) + warps * words);
}

/* True if the windows are short enough for x and y together. */
template <int SIZE> bool plane_pays(const extremum_pass &t)
{
    extremum_line l = {};
    return t.x_radius * SIZE <= PLANE_REACH && plane_shared<SIZE>(l, t) <= PLANE_SHARED;
}

/* Launches a kernel with a thread block for each segment of l.n outputs along the pass's axis and `wide` words. */
template <class Kernel, class... More>
int launch_segments(const setting &s, extremum_line &l, Kernel *kernel, int64_t others, int wide, int most, int unit,
                    int threads, size_t shared, More... more)
{
    l.groups = (int)vp_div_up(l.words, wide);
    const int64_t lines = l.groups * others;
    l.segment = choose_segment(l.n, lines, l.radius, blocks_at_once(shared, most), s.sms, unit);
    const dim3 blocks((unsigned)lines, (unsigned)vp_div_up(l.n, l.segment));
    return vp_start(s.err, s.stream, kernel, blocks, dim3(threads), shared, l, more...);
}

/* Returns the bytes of shared memory for runs of N samples; sets l.slots. */
template <int N> size_t runs_shared(extremum_line &l, int warps)
{
    l.slots = 2 * l.radius / N + 1 + warps;
    return sizeof(uint32_t) * LANES * N * (size_t)(l.slots + 1);
}

template <int SIZE, int N> int runs_launch(const setting &s, extremum_line &l, int64_t others, int warps)
{
    const size_t shared = runs_shared<N>(l, warps);
    return launch_segments(s, l, runs_kernel<SIZE, N>, others, LANES, N > RUN ? LONG_RUN_BLOCKS : RUN_BLOCKS, warps * N,
                           warps * LANES, shared);
}

template <int SIZE> int runs_pass(const setting &s, extremum_line &l, int64_t others)
{
    if (l.radius >= LONG_RADIUS && runs_shared<LONG_RUN>(l, RUN_WARPS) <= SHARED_LEAST)
        return runs_launch<SIZE, LONG_RUN>(s, l, others, RUN_WARPS);
    const bool few = runs_shared<RUN>(l, RUN_WARPS) > SHARED_LEAST;
    return runs_launch<SIZE, RUN>(s, l, others, few ? RUN_WARPS / 2 : RUN_WARPS);
}

/* Launches a pass. `in` and `out` differ in extent along its axis or axes only; for y and z their rows have the same
 * alignment, too. */
template <int SIZE>
int pass(const setting &s, const extremum_pass &t, const vp_area *in, const vp_area *out, bool first, bool last)
{
    const int64_t ny = vp_box_size(&out->box, 1), nz = vp_box_size(&out->box, 2);
    const int axis = t.axis == 2 ? 2 : 1;
    extremum_line l = line_of<SIZE>(s, *in, *out, axis, first, last);

    l.from = (int)(in->box.lo[axis] - out->box.lo[axis]);
    l.to = (int)(in->box.hi[axis] - out->box.lo[axis]);
    l.n = (int)(out->box.hi[axis] - out->box.lo[axis]);
    l.radius = t.radius;
    l.in = (const char *)l.in - l.from * l.in_step * (int64_t)sizeof(uint32_t);
    if (t.axis == PLANE) {
        const size_t shared = plane_shared<SIZE>(l, t);
        l.slots = plane_slots(t.radius);
        return launch_segments(s, l, plane_kernel<SIZE>, nz, STRIP, PLANE_BLOCKS, PLANE_ROWS, STRIP, shared,
                               set_strip<SIZE>(l, t.x_radius));
    }
    if (t.axis == 0) {
        l.x_strip = STRIP;
        l.x_rows = ROWS;
        if (t.x_radius >= 16 / SIZE) { /* longer strips if rows are long: the windows' halo is computed as well */
            const int wide = (int)vp_max64(t.x_radius * SIZE / 4, l.words);
            while (l.x_rows > 1 && l.x_strip < wide) {
                l.x_strip *= 2;
                l.x_rows /= 2;
            }
        }
        const int scratch = set_strip<SIZE>(l, t.x_radius);
        const size_t shared = sizeof(uint32_t) * (size_t)scratch * (STRIP / LANES);
        l.row_groups = (unsigned)vp_div_up(ny, l.x_rows);
        l.planes = (unsigned)nz;
        const dim3 blocks((unsigned)vp_div_up((int64_t)l.row_groups * nz, STRIP / LANES),
                          (unsigned)vp_div_up(l.words, l.x_strip));
        return vp_start(s.err, s.stream, rows_kernel<SIZE>, blocks, dim3(STRIP), shared, l, scratch);
    }
    const int64_t others = axis == 1 ? nz : ny;
    if (t.radius >= RUN / 2)
        return runs_pass<SIZE>(s, l, others);
    l.slots = (int)vp_round_up(2 * t.radius, LANES) + LANES; /* a multiple of a chunk */
    return launch_segments(s, l, lines_kernel<SIZE>, others, LANES, LINE_BLOCKS, LANES, LANES,
                           sizeof(uint32_t) * LANES * (size_t)l.slots);
}

template <int SIZE> int box(const setting &s, const struct vp_op *op, const struct vp_work *args)
{
    const struct vp_footprint *f = &params(op)->f;
    extremum_pass passes[3 * PASSES];
    int64_t left[3];
    int n = 0;
    vp_area from = args->in[0];
    struct vp_box need = args->out->box;

    for (int a = 0; a < 3; a++) {
        /* a window longer than the image has no further effect */
        left[a] = vp_min64(f->reach[a], vp_box_size(&from.box, a));
        vp_box_grow(&need, a, left[a], from.box);
    }
    /* the pass along x is skipped only if the output's rows are word-aligned within the input's */
    const bool skip_x =
        left[0] == 0 && left[1] + left[2] > 0 && (need.lo[0] - from.box.lo[0]) % keys<SIZE>::IN_WORD == 0;
    if (!skip_x) {
        need.lo[0] = from.box.lo[0]; /* rows begin at words */
        need.hi[0] = from.box.hi[0];
    }
    const extremum_pass plane = {PLANE, (int)left[1], (int)left[0]};
    const bool together =
        !skip_x && left[1] > 0 && left[0] <= PASS_RADIUS && left[1] <= PASS_RADIUS && plane_pays<SIZE>(plane);
    if (together)
        passes[n++] = plane;
    for (int a = together ? 2 : 0; a < 3; a++) {
        int64_t r = left[a];
        const int64_t most = r > PASS_RADIUS * PASSES ? vp_div_up(r, PASSES) : (int64_t)PASS_RADIUS;
        for (bool once = a == 0 && !skip_x; r > 0 || once; once = false) {
            const int radius = (int)vp_min64(r, most);
            passes[n++] = {a, radius, radius};
            r -= radius;
        }
    }
    /* only the part of the input that is needed */
    from = vp_part_of(from, need, SIZE);
    const int64_t size[3] = {vp_box_size(&need, 0), vp_box_size(&need, 1), vp_box_size(&need, 2)};
    const uint64_t buffer = buffer_bytes(SIZE, size);
    for (int i = 0; i < n; i++) {
        const extremum_pass &t = passes[i];
        struct vp_box made = from.box;
        for (int a = 0; a < 3; a++) {
            if (t.axis != a && !(t.axis == PLANE && a < 2))
                continue;
            left[a] -= t.axis == PLANE && a == 0 ? t.x_radius : t.radius;
            made.lo[a] = args->out->box.lo[a];
            made.hi[a] = args->out->box.hi[a];
            vp_box_grow(&made, a, left[a], need); /* the halo of later passes along this axis */
        }
        const vp_area to = i == n - 1 ? *args->out
                                          : vp_packed_part(made, VP_ROW_ALIGN / SIZE,
                                                           (char *)args->scratch + (i & 1) * buffer);
        if (pass<SIZE>(s, t, &from, &to, i == 0, i == n - 1))
            return -1;
        from = to;
    }
    return 0;
}

int launch(const struct vp_op *op, const struct vp_work *args, struct vp_err *err)
{
    const setting s(op, args, err);
    const bool is_box = params(op)->f.shape == VP_BOX;
    return vp_by_type(op->in, [&](auto sample) {
        constexpr int SIZE = sizeof sample;
        return is_box ? box<SIZE>(s, op, args) : ball<SIZE>(s, op, args);
    });
}

} // namespace

VP_GPU_KERNEL(min, has, scratch, table, fill, launch);
VP_GPU_KERNEL(max, has, scratch, table, fill, launch);
