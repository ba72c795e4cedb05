/* SPDX-License-Identifier: BSD-3-Clause */
/* Summed area tables of volumes of integers: reduce, scan the sums, scan the samples. No block waits for another. The
 * samples are read twice, the table is written once. A tile is WIDE columns of some rows, a slab some planes.
 *
 * 1. sums_kernel reduces every tile of every plane to the sums of its rows and of its columns; and every tile of every
 *    slab to its samples summed over z, with the sums of rows and of columns of these.
 * 2. slabs_kernel turns the sums of slabs into exclusive prefixes over the slabs.
 * 3. sides_kernel: within a tile the table f of a plane is the table of the tile's own samples + `left`, the sum of all
 *    samples to the left of the tile in its rows down to this one, + `above`, the sum of all samples above the tile in
 *    the columns up to this one. `left` is an exclusive prefix over tiles of the sums of rows, `above` of those of
 *    columns.
 * 4. table_kernel: a block keeps the tile of out(z - 1) in registers and walks through a slab, out(z) = out(z - 1) +
 *    f(z). Before the slab's first plane the tile is the table of the sums over all planes before, computed as f is, +
 *    the carry.
 *
 * Sums within a tile are 32-bit where that suffices. */
#include "sat_volume.cuh"

namespace vp::sat
{
namespace
{

enum {
    ROWS = 4,           /* rows of a lane, 16 bytes of each */
    SHALLOW = 8,        /* planes of a slab at least, unless the part has fewer */
    DEEP = 256,         /* planes of a slab at most: the sum of 256 bytes fits 16 bits */
    MOST_PLANES = 65536 /* planes of a launch: the sum of 65536 samples of 16 bits fits 32 bits */
};

/* Type of the sums within a tile. */
template <class In, class A, bool SQUARE> struct local_of {
    using word = std::conditional_t<std::is_signed<In>::value && !SQUARE, int32_t, uint32_t>;
    using type = std::conditional_t<sizeof(A) == 4, uint32_t,
                                    std::conditional_t<sizeof(In) == 1 || (sizeof(In) == 2 && !SQUARE), word, A>>;
};
template <class In, class A, bool SQUARE> using local_t = typename local_of<In, A, SQUARE>::type;

struct volume_job : tiled_part {
    int64_t depth, slabs;           /* planes of a slab; slabs */
    void *rows, *columns;           /* L: sums of tiles, [plane][tile along x][row], [plane][tile along y][column] */
    void *slab_rows, *slab_columns; /* A: sums of slabs, [slab] in place of [plane] */
    void *before;                   /* L: samples summed over the slabs before, [slab][row][column] */
    void *left, *above;             /* A: as rows and columns, for planes and then slabs */
};

/* Mapping of sums_kernel: a lane loads 16 bytes (`each` samples) of ROWS rows, `lanes` lanes a row in `pieces` steps;
 * a warp has `groups` such groups of lanes, `high` rows. */
template <class In> struct load_shape {
    enum { each = 16 / sizeof(In), lanes = WIDE / each < 32 ? WIDE / each : 32, pieces = WIDE / each / lanes,
           groups = 32 / lanes, high = ROWS * groups };
};

/* Stores the sums of columns of a tile, minus `less`, from those of each of its W warps in of[]. */
template <int W, class T, class S>
__device__ __forceinline__ void store_columns(T *columns_at, S (*of)[WIDE], S less)
{
    __syncthreads();
    for (int x = (int)threadIdx.x; x < WIDE; x += W * 32) {
        S sum = 0;
#pragma unroll
        for (int w = 0; w < W; w++)
            sum += of[w][x];
        columns_at[x] = (T)(sum - less);
    }
}

/* Stores the sums of rows (rows_at: the warp's first row) and of columns of a tile of W warps. */
template <class In, int W, class T>
__device__ __forceinline__ void store_sums(T (&row)[ROWS], T (&column)[load_shape<In>::pieces][load_shape<In>::each],
                                           T *rows_at, T *columns_at, T (*of)[WIDE])
{
    using S = load_shape<In>;
    constexpr int LEFT = S::each / S::groups; /* columns of a lane after sum_lanes() */
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, place = lane % S::lanes;
    const int first = place * S::each + (S::groups > 1 ? left_of<S::each, S::lanes>(lane) : 0);
    sum_lanes<ROWS, 1, S::lanes>(row, lane);
    if (place < ROWS)
        rows_at[lane / S::lanes * ROWS + left_of<ROWS, 1>(place)] = row[0];
#pragma unroll
    for (int g = 0; g < S::pieces; g++) {
        sum_lanes<S::each, S::lanes, 32>(column[g], lane);
#pragma unroll
        for (int k = 0; k < LEFT; k++)
            of[warp][g * (32 * S::each) + first + k] = column[g][k];
    }
    store_columns<W, T, T>(columns_at, of, 0);
}

/* Does the same for bytes, two sums a word: row[] holds rows 0 and 1, 2 and 3; column[2 i] columns 4 i and 4 i + 2,
 * column[2 i + 1] the other two. Subtracts the BIAS that made each sample unsigned. */
template <int W, int BIAS, class T>
__device__ __forceinline__ void store_pairs(unsigned (&row)[2], unsigned (&column)[8], T *rows_at, T *columns_at,
                                            unsigned (*of)[WIDE])
{
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    sum_lanes<2, 1, 8>(row, lane);
    if (lane % 8 < 2) {
        vec<T, 2> r;
        r.v[0] = (T)((row[0] & 0xffff) - BIAS * WIDE);
        r.v[1] = (T)((row[0] >> 16) - BIAS * WIDE);
        *(vec<T, 2> *)&rows_at[lane / 8 * 4 + lane % 2 * 2] = r;
    }
    sum_lanes<8, 8, 32>(column, lane);
    uint4 c;
    c.x = column[0] & 0xffff;
    c.y = column[1] & 0xffff;
    c.z = column[0] >> 16;
    c.w = column[1] >> 16;
    *(uint4 *)&of[warp][lane % 8 * 16 + left_of<8, 8>(lane) * 2] = c;
    store_columns<W, T, unsigned>(columns_at, of, BIAS * W * 16);
}

/* Step 1. A block has one tile of one slab. */
template <class In, class A, bool SQUARE, int W, int B>
__global__ void __launch_bounds__(W * 32, B) sums_kernel(const volume_job j)
{
    using L = local_t<In, A, SQUARE>;
    using S = load_shape<In>;
    constexpr int V = S::each, G = S::pieces, TH = W * S::high, BIAS = std::is_signed<In>::value ? 128 : 0;
    constexpr bool PAIRS = sizeof(In) == 1 && !SQUARE; /* two sums in a word */
    __shared__ __align__(16) A exchange[2][W][WIDE];
    const int tid = (int)threadIdx.x, warp = tid >> 5, lane = tid & 31;
    const int64_t tiles = j.tiles_x * j.tiles_y, tile = blockIdx.x % tiles, slab = blockIdx.x / tiles,
                  tx = tile % j.tiles_x, ty = tile / j.tiles_x, x0 = tx * WIDE + lane % S::lanes * V,
                  top = ty * TH + warp * S::high,
                  y0 = top + lane / S::lanes * ROWS, z0 = slab * j.depth, z1 = min(z0 + j.depth, j.planes);
    const In *in = (const In *)j.in + z0 * j.in_plane + y0 * j.in_row + x0;
    packed<In, V> raw[ROWS][G];
    memset(raw, 0, sizeof raw);
    bool exists[ROWS][G];
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int g = 0; g < G; g++) {
            exists[r][g] = y0 + r < j.ny && x0 + g * (32 * V) < j.nx;
            if (exists[r][g])
                raw[r][g].load(in + r * j.in_row + g * (32 * V));
        }
    constexpr int DEEP = PAIRS ? V / 2 : V;
    using D = std::conditional_t<PAIRS, unsigned, L>;
    D deep[ROWS][G][DEEP];
    memset(deep, 0, sizeof deep);
    for (int64_t z = z0; z < z1; z++) {
        packed<In, V> now[ROWS][G];
#pragma unroll
        for (int i = 0; i < ROWS * G; i++)
            now[i / G][i % G] = raw[i / G][i % G];
        in += j.in_plane;
        if (z + 1 < z1)
#pragma unroll
            for (int r = 0; r < ROWS; r++)
#pragma unroll
                for (int g = 0; g < G; g++)
                    if (exists[r][g])
                        raw[r][g].load(in + r * j.in_row + g * (32 * V));
        L *const rows_at = (L *)j.rows + (z * j.tiles_x + tx) * j.padded_rows + top;
        L *const columns_at = (L *)j.columns + (z * j.tiles_y + ty) * j.padded_columns + tx * WIDE;
        if constexpr (PAIRS) {
            unsigned row[ROWS], column[8];
            memset(column, 0, sizeof column);
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                row[r] = 0;
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const unsigned w = now[r][0].word[i] ^ (BIAS ? 0x80808080u : 0),
                                   even = __byte_perm(w, 0, 0x4240), odd = __byte_perm(w, 0, 0x4341);
                    deep[r][0][2 * i] += even;
                    deep[r][0][2 * i + 1] += odd;
                    column[2 * i] += even;
                    column[2 * i + 1] += odd;
                    row[r] = __dp4a(w, 0x01010101u, row[r]);
                }
            }
            unsigned pair[2] = {row[0] | row[1] << 16, row[2] | row[3] << 16};
            store_pairs<W, BIAS>(pair, column, rows_at, columns_at, (unsigned (*)[WIDE])exchange[z & 1]);
        } else {
            L row[ROWS], column[G][V];
            memset(column, 0, sizeof column);
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                row[r] = 0;
#pragma unroll
                for (int g = 0; g < G; g++)
#pragma unroll
                    for (int k = 0; k < V; k++) {
                        const L a = value_of<In, L, SQUARE>(now[r][g].at(k));
                        deep[r][g][k] += a;
                        column[g][k] += a;
                        row[r] += a;
                    }
            }
            store_sums<In, W, L>(row, column, rows_at, columns_at, (L (*)[WIDE])exchange[z & 1]);
        }
    }
    if (slab == j.slabs - 1)
        return;
    __syncthreads();
    A row[ROWS], column[G][V];
    memset(column, 0, sizeof column);
    L *const before = (L *)j.before + (slab * j.padded_rows + y0) * j.padded_columns + x0;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        row[r] = 0;
#pragma unroll
        for (int g = 0; g < G; g++) {
            L all[V];
#pragma unroll
            for (int k = 0; k < V; k++) {
                if constexpr (PAIRS) {
                    const unsigned two = deep[r][0][k / 4 * 2 + k % 2];
                    all[k] = (L)((k % 4 < 2 ? two & 0xffff : two >> 16) - (unsigned)(BIAS * (z1 - z0)));
                } else {
                    all[k] = deep[r][g][k];
                }
                column[g][k] += (A)all[k];
                row[r] += (A)all[k];
            }
#pragma unroll
            for (int k = 0; k < V; k += 2) {
                vec<L, 2> two = {{all[k], all[k + 1]}};
                *(vec<L, 2> *)(before + r * j.padded_columns + g * (32 * V) + k) = two;
            }
        }
    }
    store_sums<In, W, A>(row, column, (A *)j.slab_rows + (slab * j.tiles_x + tx) * j.padded_rows + top,
                         (A *)j.slab_columns + (slab * j.tiles_y + ty) * j.padded_columns + tx * WIDE, exchange[0]);
}

/* Step 2: an exclusive scan over slabs, n sums of each. */
template <class T> __global__ void __launch_bounds__(128) slabs_kernel(T *p, int64_t n, int64_t slabs)
{
    enum { AHEAD = 8 };
    const int64_t i = blockIdx.x * (int64_t)128 + threadIdx.x;
    if (i >= n)
        return;
    p += i;
    T sum = 0, next[AHEAD];
    for (int64_t s = 0; s < slabs; s += AHEAD, p += AHEAD * n) {
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            if (s + k < slabs - 1)
                next[k] = p[k * n];
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            if (s + k < slabs) {
                p[k * n] = sum;
                sum += next[k];
            }
    }
}

/* Step 3: `left`, or ABOVE: `above`, which needs `left`. A warp scans a row of tiles, or a column of tiles. */
template <class L, class A, int TH, bool ABOVE> __global__ void __launch_bounds__(128) sides_kernel(const volume_job j)
{
    enum { LINE = ABOVE ? (int)WIDE : TH, K = LINE / 32, AHEAD = 4 };
    const int lane = threadIdx.x & 31;
    const int64_t others = ABOVE ? j.tiles_x : j.tiles_y, n = ABOVE ? j.tiles_y : j.tiles_x,
                  pitch = ABOVE ? j.padded_columns : j.padded_rows;
    const int64_t i = blockIdx.x * (int64_t)4 + (threadIdx.x >> 5), plane = i / others, at = i % others;
    if (plane >= j.planes + j.slabs)
        return;
    const bool slab = plane >= j.planes;
    const A *const of_slab = (const A *)(ABOVE ? j.slab_columns : j.slab_rows);
    const L *const of_plane = (const L *)(ABOVE ? j.columns : j.rows);
    const int64_t from = (slab ? plane - j.planes : plane) * n * pitch + at * LINE + lane * K;
    const A *const left = (const A *)j.left + (plane * j.tiles_x + at) * j.padded_rows + TH - 1;
    A *to = (A *)(ABOVE ? j.above : j.left) + plane * n * pitch + at * LINE + lane * K;
    A sum[K], next[AHEAD][K], corner = 0, next_corner[AHEAD];
    memset(sum, 0, sizeof sum);
    for (int64_t t = 0; t < n; t += AHEAD) {
#pragma unroll
        for (int a = 0; a < AHEAD; a++)
            if (t + a < n - 1) {
#pragma unroll
                for (int k = 0; k < K; k++)
                    next[a][k] = slab ? of_slab[from + (t + a) * pitch + k] : (A)of_plane[from + (t + a) * pitch + k];
                if (ABOVE)
                    next_corner[a] = left[(t + a) * TH];
            }
#pragma unroll
        for (int a = 0; a < AHEAD; a++)
            if (t + a < n) {
                A s[K];
#pragma unroll
                for (int k = 0; k < K; k++)
                    s[k] = k ? s[k - 1] + sum[k] : sum[k];
                const A e = scan_lanes(s[K - 1], lane) - s[K - 1] + corner;
#pragma unroll
                for (int k = 0; k < K; k++) {
                    to[k] = e + s[k];
                    sum[k] += next[a][k];
                }
                if (ABOVE)
                    corner += next_corner[a];
                to += pitch;
            }
    }
}

/* Step 4: W warps with R rows each. A ring of STAGES planes, with their `left` and `above`, is copied asynchronously to
 * shared memory ahead of the computation. */
template <class In, class A, int TH> VP_ANYWHERE constexpr int stage_bytes()
{
    return TH * WIDE * (int)sizeof(In) + (WIDE + TH) * (int)sizeof(A);
}

template <class In, class A, bool SQUARE, int R, int W, int B, int STAGES>
__global__ void __launch_bounds__(W * 32, B) table_kernel(const volume_job j)
{
    using L = local_t<In, A, SQUARE>;
    constexpr int V = 16 / sizeof(A), G = WIDE / 32 / V, TH = R * W, BYTES = stage_bytes<In, A, TH>();
    constexpr int PIECE = 16 / sizeof(In), PIECES = WIDE / PIECE; /* samples of a copy, copies of a row */
    static_assert((WIDE + TH) * (int)sizeof(A) / 16 <= W * 32, "");
    extern __shared__ __align__(16) char stages[];
    __shared__ __align__(16) A exchange[2][W][WIDE];
    const int tid = (int)threadIdx.x, warp = tid >> 5, lane = tid & 31;
    const int64_t tiles = j.tiles_x * j.tiles_y, tile = blockIdx.x % tiles, slab = blockIdx.x / tiles,
                  tx = tile % j.tiles_x, ty = tile / j.tiles_x, x0 = tx * WIDE,
                  y0 = ty * TH + warp * R, z0 = slab * j.depth,
                  z1 = min(z0 + j.depth, j.planes);

    const auto load_plane = [&](int64_t z) {
        if (z < z1) {
            char *const to = stages + (z - z0) % STAGES * BYTES;
            const In *const from = (const In *)j.in + z * j.in_plane;
#pragma unroll
            for (int i = 0; i < R * PIECES / 32; i++) {
                const int n = i * 32 + lane, r = n / PIECES, x = n % PIECES * PIECE;
                if (y0 + r < j.ny && x0 + x < j.nx)
                    copy_async<16>(to + ((warp * R + r) * WIDE + x) * sizeof(In), from + (y0 + r) * j.in_row + x0 + x);
            }
            char *const edges = to + TH * WIDE * sizeof(In);
            constexpr int N = 16 / sizeof(A);
            const A *const above = (const A *)j.above + (z * j.tiles_y + ty) * j.padded_columns + x0,
                    *const left = (const A *)j.left + (z * j.tiles_x + tx) * j.padded_rows + ty * TH;
            if (tid < (WIDE + TH) / N)
                copy_async<16>(edges + tid * 16, tid < WIDE / N ? above + tid * N : left + tid * N - WIDE);
        }
        copies_close();
    };
#pragma unroll
    for (int i = 0; i < STAGES - 1; i++)
        load_plane(z0 + i);

    A out[R][G][V]; /* the table of the previous plane */
    /* Adds the table of a plane to `out`, of samples get(), summed within the tile in the type of `zero`. Calls
     * between() after the barrier of this plane, and done() when a vector of `out` is complete. `turn` selects the
     * exchange buffer: 0 and 1 in alternation. */
    const auto add = [&](auto zero, const auto &get, const A *above, const A *left, int turn, const auto &between,
                         const auto &done) {
        using T = decltype(zero);
        T w[G][V];
        memset(w, 0, sizeof w);
#pragma unroll
        for (int r = 0; r < R; r++)
#pragma unroll
            for (int g = 0; g < G; g++) {
                T a[V];
                get(r, g, a);
#pragma unroll
                for (int k = 0; k < V; k++)
                    w[g][k] += a[k];
            }
        T (*const of)[WIDE] = (T (*)[WIDE])exchange[turn];
#pragma unroll
        for (int g = 0; g < G; g++) {
            vec<T, V> v;
            memcpy(&v, w[g], sizeof v);
            *(vec<T, V> *)&of[warp][(g * 32 + lane) * V] = v;
        }
        __syncthreads();
        between();
        memset(w, 0, sizeof w);
#pragma unroll
        for (int i = 0; i < W - 1; i++)
            if (i < warp)
#pragma unroll
                for (int g = 0; g < G; g++) {
                    const vec<T, V> v = *(const vec<T, V> *)&of[i][(g * 32 + lane) * V];
#pragma unroll
                    for (int k = 0; k < V; k++)
                        w[g][k] += v.v[k];
                }
        A p[G][V];
#pragma unroll
        for (int g = 0; g < G; g++) {
            const vec<A, V> v = *(const vec<A, V> *)&above[(g * 32 + lane) * V];
            memcpy(p[g], &v, sizeof v);
        }
#pragma unroll
        for (int r = 0; r < R; r++) {
            const A l = left[r];
            T e = 0;
#pragma unroll
            for (int g = 0; g < G; g++) {
                T a[V], s[V];
                get(r, g, a);
#pragma unroll
                for (int k = 0; k < V; k++) {
                    w[g][k] += a[k];
                    s[k] = k ? s[k - 1] + w[g][k] : w[g][k];
                }
                const T all = scan_lanes(s[V - 1], lane);
                const T before = all - s[V - 1] + e;
#pragma unroll
                for (int k = 0; k < V; k++)
                    out[r][g][k] += p[g][k] + (l + (A)(T)(before + s[k]));
                if (g + 1 < G)
                    e += __shfl_sync(~0u, all, 31);
                done(r, g);
            }
        }
    };

    memset(out, 0, sizeof out);
    if (slab) {
        const L *const before = (const L *)j.before + (slab * j.padded_rows + y0) * j.padded_columns + x0;
        add((A)0, [&](int r, int g, A *a) {
                const vec<L, V> v = *(const vec<L, V> *)(before + r * j.padded_columns + (g * 32 + lane) * V);
#pragma unroll
                for (int k = 0; k < V; k++)
                    a[k] = (A)v.v[k];
            }, (const A *)j.above + ((j.planes + slab) * j.tiles_y + ty) * j.padded_columns + x0,
            (const A *)j.left + ((j.planes + slab) * j.tiles_x + tx) * j.padded_rows + y0, 1, [] {}, [](int, int) {});
    }
    if (const A *const carried = (const A *)j.carry)
#pragma unroll
        for (int r = 0; r < R; r++)
#pragma unroll
            for (int g = 0; g < G; g++) {
                const int64_t x = x0 + (g * 32 + lane) * V;
                if (y0 + r < j.ny && x < j.nx) { /* rows of the carry are padded to whole vectors */
                    const vec<A, V> v = *(const vec<A, V> *)(carried + (y0 + r) * j.carry_pitch + x);
#pragma unroll
                    for (int k = 0; k < V; k++)
                        out[r][g][k] += v.v[k];
                }
            }

    unsigned whole = 0, some = 0; /* bits of the vectors of `out` that lie inside the image wholly, or in part */
#pragma unroll
    for (int i = 0; i < R * G; i++) {
        const int64_t x = x0 + (i % G * 32 + lane) * V, y = y0 + i / G;
        whole |= y < j.ny && x + V <= j.nx ? 1u << i : 0;
        some |= y < j.ny && x < j.nx ? 1u << i : 0;
    }
    A *first = (A *)j.out + z0 * j.out_plane + y0 * j.out_row + x0 + lane * V;
    for (int64_t z = z0; z < z1; z++, first += j.out_plane) {
        copies_wait<STAGES - 2>();
        __syncwarp();
        const char *const stage = stages + (z - z0) % STAGES * BYTES;
        const In *const raw = (const In *)stage + warp * R * WIDE;
        const A *const above = (const A *)(stage + TH * WIDE * sizeof(In)), *const left = above + WIDE + warp * R;
        A *at = first;
        add((L)0, [&](int r, int g, L *a) {
                packed<In, V> v;
                v.load(raw + r * WIDE + (g * 32 + lane) * V);
#pragma unroll
                for (int k = 0; k < V; k++)
                    a[k] = value_of<In, L, SQUARE>(v.at(k));
            }, above, left, (int)((z - z0) & 1), [&] { load_plane(z + STAGES - 1); },
            [&](int r, int g) {
                A *const to = at + g * (32 * V);
                const unsigned bit = 1u << (r * G + g);
                if (whole & bit) {
                    vec<A, V> v;
                    memcpy(&v, out[r][g], sizeof v);
                    store_once<A, V>(to, v);
                } else if (some & bit) {
                    const int64_t n = j.nx - x0 - (g * 32 + lane) * V;
#pragma unroll
                    for (int k = 0; k < V; k++)
                        if (k < n)
                            to[k] = out[r][g][k];
                }
                if (g == G - 1)
                    at += j.out_row;
            });
    }
}

/* ---- launching ---- */

/* Launch shapes. table_kernel: `rows` of a warp, `warps`, resident `blocks` of a multiprocessor, `stages` of the ring;
 * `enough` blocks keep a device busy. sums_kernel: `sum_warps`, `sum_blocks`. */
template <class In, class A, bool SQUARE> struct volume_shape {
    enum { bytes = sizeof(In), wide = sizeof(A) == 8,
           rows = bytes > 2 ? 4 : bytes == 1 && !wide ? 16 : 8, warps = bytes == 1 && wide ? 16 : 8,
           high = rows * warps,
           blocks = bytes > 2 ? 3 : bytes == 1 && wide ? 1 : 2, stages = wide && bytes < 8 ? 3 : 2,
           enough = (wide ? 512 : 256) * blocks,
           sum_warps = high / load_shape<In>::high, sum_blocks = bytes <= 2 && SQUARE ? 1 : 16 / sum_warps };
};

/* Chooses the slabs of a job and places its arrays in `scratch` (NULL: only sizes). Returns their bytes. */
template <class In, class A, bool SQUARE> uint64_t lay_out_arrays(volume_job *j, void *scratch)
{
    using L = local_t<In, A, SQUARE>;
    vp_arena all = {(char *)scratch, 0};
    constexpr int ENOUGH = volume_shape<In, A, SQUARE>::enough;
    j->cut(volume_shape<In, A, SQUARE>::high);
    const int64_t tiles = j->tiles_x * j->tiles_y;
    j->slabs = vp_min64((ENOUGH + tiles - 1) / tiles, (j->planes + SHALLOW - 1) / SHALLOW);
    j->slabs = vp_max64(j->slabs, (j->planes + DEEP - 1) / DEEP);
    j->depth = (j->planes + j->slabs - 1) / j->slabs;
    const int64_t slabs = j->slabs; /* an upper bound for this many planes or fewer */
    j->slabs = (j->planes + j->depth - 1) / j->depth;
    const int64_t rows = j->tiles_x * j->padded_rows, columns = j->tiles_y * j->padded_columns;
    j->rows = all.take<L>(j->planes * rows);
    j->columns = all.take<L>(j->planes * columns);
    j->slab_rows = all.take<A>(slabs * rows);
    j->slab_columns = all.take<A>(slabs * columns);
    j->left = all.take<A>((j->planes + slabs) * rows);
    j->above = all.take<A>((j->planes + slabs) * columns);
    j->before = all.take<L>(slabs > 1 ? slabs * j->padded_rows * j->padded_columns : 0);
    return all.used;
}

/* Launches slabs_kernel on n sums of each slab. */
template <class T> int add_slabs(const volume_job &j, void *sums, int64_t n, cudaStream_t stream, struct vp_err *err)
{
    const dim3 blocks((unsigned)((n + 127) / 128));
    return vp_start(err, stream, slabs_kernel<T>, blocks, dim3(128), 0, (T *)sums, n, j.slabs);
}

template <class In, class A, bool SQUARE> int make(const volume_job &j, cudaStream_t stream, struct vp_err *err)
{
    using L = local_t<In, A, SQUARE>;
    using T = volume_shape<In, A, SQUARE>;
    constexpr int W = T::sum_warps;
    const int64_t tiles = j.tiles_x * j.tiles_y, planes = j.planes + j.slabs;
    const dim3 blocks((unsigned)(tiles * j.slabs)), left((unsigned)((planes * j.tiles_y + 3) / 4)),
        above((unsigned)((planes * j.tiles_x + 3) / 4));
    if (vp_start(err, stream, sums_kernel<In, A, SQUARE, W, T::sum_blocks>, blocks, dim3(W * 32), 0, j))
        return -1;
    if (j.slabs > 1
        && (add_slabs<L>(j, j.before, j.padded_rows * j.padded_columns, stream, err)
            || add_slabs<A>(j, j.slab_rows, j.tiles_x * j.padded_rows, stream, err)
            || add_slabs<A>(j, j.slab_columns, j.tiles_y * j.padded_columns, stream, err)))
        return -1;
    if (vp_start(err, stream, sides_kernel<L, A, T::high, false>, left, dim3(128), 0, j)
        || vp_start(err, stream, sides_kernel<L, A, T::high, true>, above, dim3(128), 0, j))
        return -1;
    return vp_start(err, stream, table_kernel<In, A, SQUARE, T::rows, T::warps, T::blocks, T::stages>, blocks,
                    dim3(T::warps * 32), T::stages * stage_bytes<In, A, T::high>(), j);
}

/* Runs all planes, at most MOST_PLANES in each launch; the carry links them. */
template <class In, class A, bool SQUARE>
int run_volume(const table_part &all, const struct vp_work *work, struct vp_err *err)
{
    const cudaStream_t stream = work->queue->stream;
    volume_job j = {all};
    if (all.no_carry)
        j.carry = NULL; /* the kernel tests this alone: with no_carry as well, squares of u16 spill registers */
    for (int64_t z = 0; z < all.planes; z += j.planes) {
        j.planes = vp_min64(MOST_PLANES, all.planes - z);
        lay_out_arrays<In, A, SQUARE>(&j, work->scratch);
        if (make<In, A, SQUARE>(j, stream, err))
            return -1;
        j.carry = all.carry;
        if (carry_on<A>(j, stream, err))
            return -1;
        j.in = (const In *)j.in + j.planes * j.in_plane;
        j.out = (A *)j.out + j.planes * j.out_plane;
    }
    return 0;
}

} // namespace

uint64_t volume_bytes(const struct vp_op *op, int which, const int64_t out[3])
{
    volume_job j = {};
    j.nx = out[0];
    j.ny = out[1];
    j.planes = vp_min64(out[2], MOST_PLANES);
    return of_integers(op, which, [&](auto sample, auto sum, auto square) {
        return lay_out_arrays<decltype(sample), decltype(sum), square.value>(&j, NULL);
    });
}

int volume(const struct vp_op *op, int which, const table_part &j, const struct vp_work *work, struct vp_err *err)
{
    return of_integers(op, which, [&](auto sample, auto sum, auto square) {
        return run_volume<decltype(sample), decltype(sum), square.value>(j, work, err);
    });
}

} // namespace vp::sat
