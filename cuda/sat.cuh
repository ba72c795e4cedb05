/* SPDX-License-Identifier: BSD-3-Clause */
/* Summed area tables in one pass over the image: a two-dimensional scan with decoupled look-back (Merrill and Garland
 * 2016; CUB's single_pass_scan_operators is the one-dimensional case).
 *
 * Overview: a thread block computes one tile of the table. With a the samples, the tile's output is
 *
 *     out(y, x) = p(x) + (r(y, x) + h(y))
 *
 *   where r is the table of the tile's own samples, h(y) the sum of all samples to the left of the tile in its rows
 *   down to y, and p(x) the last row of the finished table of the tile above. h and p are exclusive prefixes over
 *   tiles: of one scan along x for each row, and of one along y for each column. A tile publishes its own sums (its
 *   aggregate) and reads those of the tiles before it (look_back).
 *     1. Load the tile into shared memory, sum its columns and its rows.
 *     2. Publish the aggregate of each row. Look back along x: h.
 *     3. Publish the aggregate of each column: the last row of r + h. Look back along y: p.
 *     4. Read the samples again from shared memory; scan down and along x, add h and p, store row by row.
 * Mapping: a tile has up to 256 rows of 128 or 256 columns (tile_shape); a warp has consecutive rows, a lane four
 *   neighbouring columns of each 128. Sums of rows are reduced by a tree over the lanes, scans along x use shuffles.
 * Publication: every fourth tile publishes the inclusive prefix in place of its aggregate, so a look-back reads that
 *   prefix and at most three aggregates, wherever the tile lies. They are 8-byte words, written and read by single
 *   relaxed accesses: a word whose upper half is all ones is not published yet (init_kernel sets them so). So value and
 *   status cannot be torn apart and no fence is needed. 64-bit integers take two words, each with its own status.
 * Order: blocks take tiles along diagonals within bands of tile rows (place_of). All tiles that a tile waits for belong
 *   to blocks with lower indices. Forward progress takes for granted, as every decoupled look-back does, that blocks
 *   start in the order of their indices.
 * Determinism: look_back adds in tile order whichever tiles were published first, so floats are summed in the order of
 *   global/sat.h.
 * Shared memory: the tile's samples, one row of sums for each warp, p and h (shared_sums).
 * Global memory: samples are read once and the table is written once; published words are 8 (1 / 128 + 1 / 128) bytes a
 *   sample for images of f32.
 * Cost: a tile of f32 occupies a block for about 10 us: a quarter for loading samples, a quarter for look-back, a third
 *   for the rows of the table (about 60 instructions of a warp for 128 samples).
 * Limits: rows begin at multiples of 16 bytes. The planes of a volume are scanned independently, and added up along z
 *   in a second kernel (accumulate_kernel).
 *
 * sat_scan.cuh has the published words, look_back and the scans of a warp; sat_tile.cuh the tiles and their order. */
#pragma once

#include "sat_tile.cuh"

namespace vp::sat
{

/* ---- the kernel ---- */

/* Waits until the writes of the preceding kernel in the stream are visible (programmatic dependent launch). */
__device__ __forceinline__ void grid_wait()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* Lets the next kernel in the stream start; it must not read what this kernel writes before its grid_wait(). */
__device__ __forceinline__ void grid_launch_dependents()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

/* Computes one tile of the table in each block; see the head of this file. SQUARE: of squared samples. */
template <class In, class A, class Out, int WARPS, bool SQUARE>
__global__ void __launch_bounds__(32 * WARPS, blocks_per_sm<In, A, Out, WARPS>()) table_kernel(const table_job j)
{
    constexpr int R = tile_shape<In, A>::rows, TW = tile_columns<In, A>(), W = words_of<A>::words;
    extern __shared__ __align__(16) char staged[];
    __shared__ shared_sums<In, A, WARPS> s;
    const tile_place tile = place_of(j, blockIdx.x);
    if (!tile.exists)
        return;
    load_tile<In, A, WARPS>(j, tile, staged);
    thread_tile<In, A, WARPS, SQUARE> t(staged);
    const int tid = threadIdx.x, warp = t.warp, lane = t.lane;
    copies_wait<0>();
    __syncwarp();
    A own = t.sum_columns(s);
    __syncthreads();
    t.sum_above(s);
    own = t.row_prefix(s, own);

    const bool has_right = tile.x < (int)j.tiles_x - 1, has_below = tile.y < (int)j.tiles_y - 1;
    const bool x_prefix = tile.x % PREFIX_TILES == PREFIX_TILES - 1; /* publish inclusive prefixes */
    const bool y_prefix = tile.y % PREFIX_TILES == PREFIX_TILES - 1;
    uint64_t *const rows = j.rows + tile.plane * j.per_plane + (size_t)((tile.y * WARPS + warp) * R + lane) * W;
    uint64_t *const columns = j.columns + tile.plane * j.per_plane + (size_t)(tile.x * TW) * W;
    uint64_t *const row_word = rows + (size_t)((unsigned)(tile.x + 1) * j.padded_rows) * W;
    uint64_t *const column_words = columns + (size_t)((unsigned)(tile.y + 1) * j.padded_columns) * W;
    A last[t.G][LANE_COLUMNS];
    look_back<A> left, above;
    grid_wait();
    if (lane < R && !x_prefix && has_right)
        publish(row_word, own);
    if (warp == WARPS - 1)
        t.last_row(last);
    /* elsewhere the prefetch comes too early and finds nothing */
    constexpr bool prefetch_both = WARPS > BASE_WARPS && sizeof(Out) < sizeof(A);
    if (prefetch_both && tid < TW)
        above.prefetch(columns + tid * W, j.padded_columns, tile.y);
    if (lane < R) {
        left.prefetch(rows, j.padded_rows, tile.x);
        const A h = left.wait();
        if (x_prefix && has_right)
            publish(row_word, h + own);
        s.left[warp][lane] = h;
    }
    __syncwarp();
    if (warp == WARPS - 1) {
        const A h = s.left[warp][R - 1];
#pragma unroll
        for (int g = 0; g < t.G; g++) {
#pragma unroll
            for (int k = 0; k < LANE_COLUMNS; k++)
                last[g][k] = last[g][k] + h;
            s.store(s.column_sum[WARPS - 1], g, lane, last[g]);
            if (has_below && !y_prefix)
#pragma unroll
                for (int k = 0; k < LANE_COLUMNS; k += 2) {
                    const int at = s.offset_of(g, lane, k / s.PIECE * s.PIECE) + k % s.PIECE;
                    uint64_t *const to = column_words + at * W;
                    if constexpr (W == 1) {
                        store_relaxed(to, words_of<A>::word(last[g][k], 0), words_of<A>::word(last[g][k + 1], 0));
                    } else {
                        publish(to, last[g][k]);
                        publish(to + W, last[g][k + 1]);
                    }
                }
        }
    }
    A p = 0;
    if (tid < TW) {
        if (!prefetch_both)
            above.prefetch(columns + tid * W, j.padded_columns, tile.y);
        s.above[tid] = p = above.wait();
    }
    __syncthreads();
    if (tid < TW && y_prefix && has_below)
        publish(column_words + tid * W, p + s.column_sum[WARPS - 1][tid]);
    t.template store_rows<Out>(j, tile, s);
}

/* Marks all words as not published, except entries 0, which are the carry-in: 0 for rows, j.carry for columns. */
template <class A> __global__ void __launch_bounds__(256) init_kernel(const table_job j)
{
    constexpr int W = words_of<A>::words, N = 2 / W; /* N: sums in 16 bytes */
    grid_launch_dependents();
    for (int64_t plane = blockIdx.y; plane < j.planes; plane += gridDim.y) {
        const int64_t first = j.columns - j.rows;
        const int64_t high = (int64_t)j.padded_rows * W, wide = (int64_t)j.padded_columns * W;
        ulonglong2 *const words = (ulonglong2 *)(j.rows + plane * j.per_plane);
        const int64_t step = gridDim.x * (int64_t)512;
        for (int64_t i = (blockIdx.x * (int64_t)256 + threadIdx.x) * 2; i < j.per_plane; i += step) {
            uint64_t v[2] = {~0ull, ~0ull};
            if (i < high || (i >= first && i < first + wide))
#pragma unroll
                for (int k = 0; k < 2; k++) {
                    const int64_t x = column_of<A>((i - first) / 2 * N + k / W);
                    const bool kept = i >= first && !j.no_carry && !j.volume && x < j.nx;
                    v[k] = words_of<A>::word(kept ? ((const A *)j.carry)[x] : (A)0, k % W);
                }
            words[i / 2] = make_ulonglong2(v[0], v[1]);
        }
    }
}

/* ---- launching ---- */

/* Sizes of a grid of tiles and its published words. */
struct table_sizes {
    int64_t tiles_x, tiles_y, padded_columns, padded_rows; /* as in struct table_job */
    int64_t rows, per_plane, words; /* words of the sums of rows; of a plane; of all planes */
};

template <class In, class A, int WARPS> table_sizes table_sizes_of(int64_t nx, int64_t ny, int64_t planes)
{
    table_sizes s;
    s.tiles_x = (nx + tile_columns<In, A>() - 1) / tile_columns<In, A>();
    s.tiles_y = (ny + tile_rows<In, A, WARPS>() - 1) / tile_rows<In, A, WARPS>();
    s.padded_columns = s.tiles_x * tile_columns<In, A>();
    s.padded_rows = s.tiles_y * tile_rows<In, A, WARPS>();
    s.rows = (s.tiles_x + 1) * s.padded_rows * words_of<A>::words;
    s.per_plane = s.rows + (s.tiles_y + 1) * s.padded_columns * words_of<A>::words;
    s.words = s.per_plane * planes;
    return s;
}

template <class In, class A, int WARPS> uint64_t bytes_of(const struct vp_sat *p, const int64_t out[3])
{
    const int64_t ny = p->volume ? out[1] : out[2], planes = p->volume ? out[2] : 1;
    return (uint64_t)table_sizes_of<In, A, WARPS>(out[0], ny, planes).words * 8;
}

/* Turns the tables of single planes into that of the volume, by an inclusive scan along z that begins with the carry;
 * 16 bytes of a row for each thread. */
template <class A> __global__ void __launch_bounds__(128) accumulate_kernel(const table_job j)
{
    enum { N = 16 / sizeof(A), AHEAD = 8 };
    const int64_t x = (blockIdx.x * (int64_t)128 + threadIdx.x) * N;
    if (x >= j.nx)
        return;
    const bool all = x + N <= j.nx;
    for (int64_t y = blockIdx.y; y < j.ny; y += gridDim.y) {
        A *const kept = (A *)j.carry + y * j.carry_pitch + x, *out = (A *)j.out + y * j.out_row + x;
        vec<A, N> sum, next[AHEAD];
        if (j.no_carry)
            memset(&sum, 0, sizeof sum);
        else
            sum = *(const vec<A, N> *)kept;
        for (int64_t z = 0; z < j.planes; z += AHEAD) {
#pragma unroll
            for (int i = 0; i < AHEAD; i++) /* rows are padded to whole vectors */
                if (z + i < j.planes)
                    next[i] = *(const vec<A, N> *)(out + i * j.out_plane);
#pragma unroll
            for (int i = 0; i < AHEAD; i++)
                if (z + i < j.planes) {
#pragma unroll
                    for (int k = 0; k < N; k++)
                        sum.v[k] = sum.v[k] + next[i].v[k];
                    if (all)
                        store_once<A, N>(out + i * j.out_plane, sum);
                    else
                        for (int k = 0; k < N && x + k < j.nx; k++)
                            out[i * j.out_plane + k] = sum.v[k];
                }
            out += AHEAD * j.out_plane;
        }
        for (int k = 0; k < N && x + k < j.nx; k++)
            kept[k] = sum.v[k];
    }
}

/* Adds the carry to a part that was computed without it: a row to all rows, in volumes a plane to all planes. */
template <class A> __global__ void __launch_bounds__(256) add_carry_kernel(const table_part j)
{
    const int64_t row = (int64_t)blockIdx.y + (int64_t)blockIdx.z * gridDim.y, rows = j.ny * j.planes;
    if (row >= rows)
        return;
    const int64_t y = row % j.ny, plane = row / j.ny;
    A *const out = (A *)j.out + plane * j.out_plane + y * j.out_row;
    const A *const before = (const A *)j.carry + (j.volume ? y * j.carry_pitch : 0);
    for (int64_t x = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; x < j.nx; x += (int64_t)gridDim.x * blockDim.x)
        out[x] = before[x] + out[x];
}

/* Describes the part of table `which` of op that `work` requests, with its carry at `state`. */
static inline table_part part_of(const struct vp_op *op, const struct vp_work *work, int which, char *state)
{
    const struct vp_sat *const p = vp_params<vp_sat>(op);
    const vp_area &out = work->out[which], &in = work->pass == VP_APPLY ? out : *work->in;
    const int64_t deep = vp_box_size(&out.box, 2);
    table_part j;
    j.volume = p->volume;
    j.nx = op->image[0];
    j.ny = p->volume ? op->image[1] : deep;
    j.planes = p->volume ? deep : 1;
    j.in = (const char *)in.data + (out.box.lo[2] - in.box.lo[2]) * in.plane * (int64_t)vp_type_size(op->in);
    j.out = out.data;
    j.in_row = p->volume ? in.pitch : in.plane;
    j.out_row = p->volume ? out.pitch : out.plane;
    j.in_plane = in.plane;
    j.out_plane = out.plane;
    j.no_carry = work->pass == VP_LOCAL || out.box.lo[2] == 0;
    j.carry = state;
    j.carry_pitch = p->width;
    return j;
}

template <class A> int add_carry(const table_part &j, const struct vp_work *work, struct vp_err *err)
{
    const int64_t rows = j.ny * j.planes, high = rows < 32768 ? rows : 32768;
    const dim3 grid((unsigned)((j.nx + 1023) / 1024), (unsigned)high, (unsigned)((rows + high - 1) / high));
    return vp_start(err, work->queue->stream, add_carry_kernel<A>, grid, dim3(256), 0, j);
}

/* Fills the tiles of j. Returns the number of blocks; blocks below the last row of tiles return at once. */
template <class In, class A> unsigned set_tiles(table_job &j, const table_sizes &s)
{
    enum { BAND = 128 };
    j.tiles_x = (unsigned)s.tiles_x;
    j.tiles_y = (unsigned)s.tiles_y;
    j.padded_columns = (unsigned)s.padded_columns;
    j.padded_rows = (unsigned)s.padded_rows;
    j.per_plane = s.per_plane;
    /* a band has no more rows of tiles than a row has tiles, lest it wait for itself */
    const unsigned most = (unsigned)vp_min64(BAND, s.tiles_x), bands = (j.tiles_y + most - 1) / most;
    j.band = (j.tiles_y + bands - 1) / bands;
    j.by_planes = divisor_of((unsigned)j.planes);
    j.by_band = divisor_of(j.band);
    j.by_tiles_x = divisor_of(j.tiles_x);
    j.tiles = bands * j.tiles_x * j.band;
    j.corner = j.band * (j.band - 1) / 2;
    return j.tiles * (unsigned)j.planes;
}

/* Launches accumulate_kernel. */
template <class A, class Out> int accumulate(const table_job &j, cudaStream_t stream, struct vp_err *err)
{
    enum { SPAN = 128 * 16 / sizeof(A), ROWS = 32768 };
    const dim3 grid((unsigned)((j.nx + SPAN - 1) / SPAN), (unsigned)vp_min64(j.ny, ROWS));
    if constexpr (std::is_same<A, Out>::value)
        return vp_start(err, stream, accumulate_kernel<A>, grid, dim3(128), 0, j);
    else
        return vp_fail(err, VP_ERUN, "no kernel for volumes of rounded sums"); /* refused by has() */
}

template <class In, class A, class Out, int WARPS, bool SQUARE>
int run(const table_part &made, const struct vp_work *work, struct vp_err *err)
{
    const cudaStream_t stream = work->queue->stream;
    table_job j = {made};
    const table_sizes s = table_sizes_of<In, A, WARPS>(j.nx, j.ny, j.planes);
    const unsigned blocks = set_tiles<In, A>(j, s);
    j.rows = (uint64_t *)work->scratch;
    j.columns = j.rows + s.rows;
    const dim3 inits((unsigned)vp_min64((s.per_plane + 511) / 512, 4 * work->queue->sms), /* half of the threads */
                     (unsigned)vp_min64(j.planes, 32768));
    const auto kernel = table_kernel<In, A, Out, WARPS, SQUARE>;
    const size_t shared = sizeof(In) * tile_rows<In, A, WARPS>() * tile_columns<In, A>();
    int code = 0;
    if (vp_gpu_check(err, vp_allow_shared(kernel, shared, &code), "cannot start a CUDA kernel")
        || vp_start(err, stream, init_kernel<A>, inits, dim3(256), 0, j)
        || vp_start_early(err, code, stream, kernel, dim3(blocks), dim3(32 * WARPS), shared, j))
        return -1;
    return j.volume ? accumulate<A, Out>(j, stream, err) : 0;
}

/* Returns f(sample, sum, squared) with values of the types of table `which` of integers. */
template <class F> auto of_integers(const struct vp_op *op, int which, const F &f)
{
    constexpr unsigned SMALL = 1u << VP_U8 | 1u << VP_U16 | 1u << VP_I8 | 1u << VP_I16;
    constexpr unsigned MOST = SMALL | 1u << VP_U32 | 1u << VP_I32;
    if (which)
        return vp_by_type_of<MOST, uint64_t>(op->in, [&](auto s) { return f(s, uint64_t(), std::true_type()); });
    if (vp_params<vp_sat>(op)->sum[0] == VP_SAT_U32)
        return vp_by_type_of<SMALL, uint32_t>(op->in, [&](auto s) { return f(s, uint32_t(), std::false_type()); });
    return vp_by_type_of<MOST, uint64_t>(op->in, [&](auto s) { return f(s, uint64_t(), std::false_type()); });
}

/* Volumes of integers (sat_volume.cu), except for VP_APPLY. */
int volume(const struct vp_op *op, int which, const table_part &j, const struct vp_work *work, struct vp_err *err);
uint64_t volume_bytes(const struct vp_op *op, int which, const int64_t out[3]);

/* Volumes of floats (sat_volume_floats.cu), those for which marches() is true. */
bool marches(const struct vp_op *op);
int march(const table_part &made, int which, const struct vp_work *work, struct vp_err *err);
uint64_t march_bytes(const int64_t out[3]);

} // namespace vp::sat
