/* SPDX-License-Identifier: BSD-3-Clause */
/* Summed area tables of volumes of integers: the samples are read twice, the table is written once, and no block waits
 * for another. A tile is WIDE columns of some rows, a slab some planes.
 *
 * 1. Of every tile and plane the sums of its rows and of its columns, and of every tile and slab its samples summed up
 *    over z, with the sums of rows and columns of that (sums_kernel).
 * 2. Those of slabs become sums over all slabs before (slabs_kernel).
 * 3. The table f of a plane is in a tile the table of the tile's own samples + what is left of the row and of the rows
 *    above it in the tile + what is above the column, with all that is left of it: prefix sums of rows' sums over the
 *    tiles to the left (left_kernel), of columns' sums over the tiles above (above_kernel).
 * 4. A block has a tile in a slab in registers, as it is in out(z - 1). Before the slab's first plane that is the table
 *    of the sums over all planes before, made as f is, + what is carried in. Then out(z) = out(z - 1) + f(z)
 *    (table_kernel).
 *
 * Sums of a tile are taken in 32 bits where they hold them. */
#include "sat_volume.cuh"

namespace vp::sat
{
namespace
{

enum {
    ROWS = 4,           /* of a lane that reads 16 bytes of each */
    SHALLOW = 8,        /* planes of a slab at least, where there are as many, */
    DEEP = 256,         /* at most: so many bytes add up to 16 bits */
    MOST_PLANES = 65536 /* at a time: so many samples of 16 bits add up to 32 */
};

/* What sums of a tile are taken in: 32 bits where they hold them. */
template <class In, class A, bool SQUARE> struct local_of {
    using word = std::conditional_t<std::is_signed<In>::value && !SQUARE, int32_t, uint32_t>;
    using type = std::conditional_t<sizeof(A) == 4, uint32_t,
                                    std::conditional_t<sizeof(In) == 1 || (sizeof(In) == 2 && !SQUARE), word, A>>;
};
template <class In, class A, bool SQUARE> using local_t = typename local_of<In, A, SQUARE>::type;

struct volume_job : tiled_part {
    int64_t depth, slabs;      /* planes of a slab */
    void *rows, *columns;      /* L: [plane][tile across][row], [plane][tile down][column] sums in a tile */
    void *slab_rows, *slab_columns; /* A: the same of slabs */
    void *before;              /* L: [slab][row][column] */
    void *left, *above;        /* A: as rows and columns, of planes + slabs */
};

/* How sums are read: 16 bytes a lane, ROWS rows of each lane, as many lanes as make a row. */
template <class In> struct reading {
    enum { each = 16 / sizeof(In), lanes = WIDE / each < 32 ? WIDE / each : 32, pieces = WIDE / each / lanes,
           groups = 32 / lanes, high = ROWS * groups /* of a warp */ };
};

/* The sums of columns of a tile of W warps, from those of each of them. */
template <int W, class T, class S>
__device__ __forceinline__ void tell_columns(T *columns_at, S (*of)[WIDE], S less)
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

/* Tell the sums of rows (at the warp's first one) and of columns of a tile, of W warps. */
template <class In, int W, class T>
__device__ __forceinline__ void tell_sums(T (&row)[ROWS], T (&column)[reading<In>::pieces][reading<In>::each],
                                          T *rows_at, T *columns_at, T (*of)[WIDE])
{
    using S = reading<In>;
    constexpr int LEFT = S::each / S::groups; /* columns of a lane in the end */
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
    tell_columns<W, T, T>(columns_at, of, 0);
}

/* The same of bytes, two sums a word: row[] holds rows 0 and 1, 2 and 3; column[2 i] columns 4 i and 4 i + 2,
 * column[2 i + 1] the other two. What was added to each sample to make it unsigned is taken away again. */
template <int W, int BIAS, class T>
__device__ __forceinline__ void tell_pairs(unsigned (&row)[2], unsigned (&column)[8], T *rows_at, T *columns_at,
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
    tell_columns<W, T, unsigned>(columns_at, of, BIAS * W * 16);
}

/* 1. Sums of the rows and columns of tiles: a block has a tile in a slab. */
template <class In, class A, bool SQUARE, int W, int B>
__global__ void __launch_bounds__(W * 32, B) sums_kernel(const volume_job j)
{
    using L = local_t<In, A, SQUARE>;
    using S = reading<In>;
    constexpr int V = S::each, G = S::pieces, TH = W * S::high, BIAS = std::is_signed<In>::value ? 128 : 0;
    constexpr bool PAIRS = sizeof(In) == 1 && !SQUARE; /* two sums in a word */
    __shared__ __align__(16) A exchange[2][W][WIDE];
    const int tid = (int)threadIdx.x, warp = tid >> 5, lane = tid & 31;
    const int64_t tiles = j.across * j.down, tile = blockIdx.x % tiles, slab = blockIdx.x / tiles, tx = tile % j.across,
                  ty = tile / j.across, x0 = tx * WIDE + lane % S::lanes * V, top = ty * TH + warp * S::high,
                  y0 = top + lane / S::lanes * ROWS, z0 = slab * j.depth, z1 = min(z0 + j.depth, j.planes);
    const In *in = (const In *)j.in + z0 * j.in_plane + y0 * j.in_row + x0;
    packed<In, V> raw[ROWS][G];
    memset(raw, 0, sizeof raw);
    bool here[ROWS][G];
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int g = 0; g < G; g++) {
            here[r][g] = y0 + r < j.ny && x0 + g * (32 * V) < j.nx;
            if (here[r][g])
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
                    if (here[r][g])
                        raw[r][g].load(in + r * j.in_row + g * (32 * V));
        L *const rows_at = (L *)j.rows + (z * j.across + tx) * j.high + top;
        L *const columns_at = (L *)j.columns + (z * j.down + ty) * j.width + tx * WIDE;
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
            tell_pairs<W, BIAS>(pair, column, rows_at, columns_at, (unsigned (*)[WIDE])exchange[z & 1]);
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
            tell_sums<In, W, L>(row, column, rows_at, columns_at, (L (*)[WIDE])exchange[z & 1]);
        }
    }
    if (slab == j.slabs - 1)
        return;
    __syncthreads();
    A row[ROWS], column[G][V];
    memset(column, 0, sizeof column);
    L *const before = (L *)j.before + (slab * j.high + y0) * j.width + x0;
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
                *(vec<L, 2> *)(before + r * j.width + g * (32 * V) + k) = two;
            }
        }
    }
    tell_sums<In, W, A>(row, column, (A *)j.slab_rows + (slab * j.across + tx) * j.high + top,
                   (A *)j.slab_columns + (slab * j.down + ty) * j.width + tx * WIDE, exchange[0]);
}

/* 2. Sums of slabs become those of all slabs before. */
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

/* 3. What is left of each row of a tile and of those above it in the tile; ABOVE: what is above each column, with all
 * that is left of it. A warp has tiles of a plane side by side, or one above the other. */
template <class L, class A, int TH, bool ABOVE> __global__ void __launch_bounds__(128) sides_kernel(const volume_job j)
{
    enum { EACH = ABOVE ? (int)WIDE : TH, K = EACH / 32, AHEAD = 4 };
    const int lane = threadIdx.x & 31;
    const int64_t others = ABOVE ? j.across : j.down, n = ABOVE ? j.down : j.across, pitch = ABOVE ? j.width : j.high;
    const int64_t i = blockIdx.x * (int64_t)4 + (threadIdx.x >> 5), plane = i / others, at = i % others;
    if (plane >= j.planes + j.slabs)
        return;
    const bool slab = plane >= j.planes;
    const A *const of_slab = (const A *)(ABOVE ? j.slab_columns : j.slab_rows);
    const L *const of_plane = (const L *)(ABOVE ? j.columns : j.rows);
    const int64_t from = (slab ? plane - j.planes : plane) * n * pitch + at * EACH + lane * K;
    const A *const left = (const A *)j.left + (plane * j.across + at) * j.high + TH - 1;
    A *to = (A *)(ABOVE ? j.above : j.left) + plane * n * pitch + at * EACH + lane * K;
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

/* 4. Tables: R rows of each of W warps. While a plane is made the next ones are on their way to shared memory, with
 * what is left and above. */
template <class In, class A, int TH> VP_ANYWHERE constexpr int stage_bytes()
{
    return TH * WIDE * (int)sizeof(In) + (WIDE + TH) * (int)sizeof(A);
}

template <class In, class A, bool SQUARE, int R, int W, int B, int STAGES>
__global__ void __launch_bounds__(W * 32, B) table_kernel(const volume_job j)
{
    using L = local_t<In, A, SQUARE>;
    constexpr int V = 16 / sizeof(A), G = WIDE / 32 / V, TH = R * W, BYTES = stage_bytes<In, A, TH>();
    constexpr int PIECE = 16 / sizeof(In), PIECES = WIDE / PIECE; /* of a row */
    static_assert((WIDE + TH) * (int)sizeof(A) / 16 <= W * 32, "");
    extern __shared__ __align__(16) char stages[];
    __shared__ __align__(16) A exchange[2][W][WIDE];
    const int tid = (int)threadIdx.x, warp = tid >> 5, lane = tid & 31;
    const int64_t tiles = j.across * j.down, tile = blockIdx.x % tiles, slab = blockIdx.x / tiles, tx = tile % j.across,
                  ty = tile / j.across, x0 = tx * WIDE, y0 = ty * TH + warp * R, z0 = slab * j.depth,
                  z1 = min(z0 + j.depth, j.planes);

    const auto ask = [&](int64_t z) {
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
            const A *const above = (const A *)j.above + (z * j.down + ty) * j.width + x0,
                    *const left = (const A *)j.left + (z * j.across + tx) * j.high + ty * TH;
            if (tid < (WIDE + TH) / N)
                copy_async<16>(edges + tid * 16, tid < WIDE / N ? above + tid * N : left + tid * N - WIDE);
        }
        copies_close();
    };
#pragma unroll
    for (int i = 0; i < STAGES - 1; i++)
        ask(z0 + i);

    A out[R][G][V]; /* of the plane before */
    /* Add the table of a plane to it, the sums of what get() says in the type of `zero`: between() when all warps have
     * come to this plane, done() when a vector is ready. Calls that follow each other take turns. */
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
        const L *const before = (const L *)j.before + (slab * j.high + y0) * j.width + x0;
        add((A)0, [&](int r, int g, A *a) {
                const vec<L, V> v = *(const vec<L, V> *)(before + r * j.width + (g * 32 + lane) * V);
#pragma unroll
                for (int k = 0; k < V; k++)
                    a[k] = (A)v.v[k];
            }, (const A *)j.above + ((j.planes + slab) * j.down + ty) * j.width + x0,
            (const A *)j.left + ((j.planes + slab) * j.across + tx) * j.high + y0, 1, [] {}, [](int, int) {});
    }
    if (const A *const carried = (const A *)j.carried)
#pragma unroll
        for (int r = 0; r < R; r++)
#pragma unroll
            for (int g = 0; g < G; g++) {
                const int64_t x = x0 + (g * 32 + lane) * V;
                if (y0 + r < j.ny && x < j.nx) { /* rows of it are as long as vectors want */
                    const vec<A, V> v = *(const vec<A, V> *)(carried + (y0 + r) * j.carried_row + x);
#pragma unroll
                    for (int k = 0; k < V; k++)
                        out[r][g][k] += v.v[k];
                }
            }

    unsigned whole = 0, some = 0; /* vectors of the result that are there, by bits */
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
            }, above, left, (int)((z - z0) & 1), [&] { ask(z + STAGES - 1); },
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

/* What a block of threads makes of tables: rows of a warp, warps; blocks of a multiprocessor; planes in shared memory;
 * how many blocks are enough. The warps of a block that makes sums, and its blocks. */
template <class In, class A, bool SQUARE> struct tile {
    enum { bytes = sizeof(In), wide = sizeof(A) == 8,
           rows = bytes > 2 ? 4 : bytes == 1 && !wide ? 16 : 8, warps = bytes == 1 && wide ? 16 : 8,
           high = rows * warps,
           blocks = bytes > 2 ? 3 : bytes == 1 && wide ? 1 : 2, stages = wide && bytes < 8 ? 3 : 2,
           enough = (wide ? 512 : 256) * blocks,
           sum_warps = high / reading<In>::high, sum_blocks = bytes <= 2 && SQUARE ? 1 : 16 / sum_warps };
};

/* The arrays of a job in `scratch` (NULL: none); what they take. */
template <class In, class A, bool SQUARE> uint64_t lay_out(volume_job *j, void *scratch)
{
    using L = local_t<In, A, SQUARE>;
    vp_pieces all = {(char *)scratch, 0};
    constexpr int ENOUGH = tile<In, A, SQUARE>::enough;
    j->cut(tile<In, A, SQUARE>::high);
    const int64_t tiles = j->across * j->down;
    j->slabs = vp_min64((ENOUGH + tiles - 1) / tiles, (j->planes + SHALLOW - 1) / SHALLOW);
    j->slabs = vp_max64(j->slabs, (j->planes + DEEP - 1) / DEEP);
    j->depth = (j->planes + j->slabs - 1) / j->slabs;
    const int64_t slabs = j->slabs; /* the most for as many planes or fewer */
    j->slabs = (j->planes + j->depth - 1) / j->depth;
    const int64_t rows = j->across * j->high, columns = j->down * j->width;
    j->rows = all.take<L>(j->planes * rows);
    j->columns = all.take<L>(j->planes * columns);
    j->slab_rows = all.take<A>(slabs * rows);
    j->slab_columns = all.take<A>(slabs * columns);
    j->left = all.take<A>((j->planes + slabs) * rows);
    j->above = all.take<A>((j->planes + slabs) * columns);
    j->before = all.take<L>(slabs > 1 ? slabs * j->high * j->width : 0);
    return all.used;
}

/* Sums of slabs, `n` of each. */
template <class T> int add_slabs(const volume_job &j, void *sums, int64_t n, cudaStream_t stream, struct vp_err *err)
{
    const dim3 blocks((unsigned)((n + 127) / 128));
    return vp_start(err, stream, slabs_kernel<T>, blocks, dim3(128), 0, (T *)sums, n, j.slabs);
}

template <class In, class A, bool SQUARE> int make(const volume_job &j, cudaStream_t stream, struct vp_err *err)
{
    using L = local_t<In, A, SQUARE>;
    using T = tile<In, A, SQUARE>;
    constexpr int W = T::sum_warps;
    const int64_t tiles = j.across * j.down, planes = j.planes + j.slabs;
    const dim3 blocks((unsigned)(tiles * j.slabs)), left((unsigned)((planes * j.down + 3) / 4)),
        above((unsigned)((planes * j.across + 3) / 4));
    if (vp_start(err, stream, sums_kernel<In, A, SQUARE, W, T::sum_blocks>, blocks, dim3(W * 32), 0, j))
        return -1;
    if (j.slabs > 1
        && (add_slabs<L>(j, j.before, j.high * j.width, stream, err)
            || add_slabs<A>(j, j.slab_rows, j.across * j.high, stream, err)
            || add_slabs<A>(j, j.slab_columns, j.down * j.width, stream, err)))
        return -1;
    if (vp_start(err, stream, sides_kernel<L, A, T::high, false>, left, dim3(128), 0, j)
        || vp_start(err, stream, sides_kernel<L, A, T::high, true>, above, dim3(128), 0, j))
        return -1;
    return vp_start(err, stream, table_kernel<In, A, SQUARE, T::rows, T::warps, T::blocks, T::stages>, blocks,
                    dim3(T::warps * 32), T::stages * stage_bytes<In, A, T::high>(), j);
}

/* As many planes at a time as sums of slabs hold; what is carried goes from one to the next. */
template <class In, class A, bool SQUARE>
int run_volume(const part &all, const struct vp_work *work, struct vp_err *err)
{
    const cudaStream_t stream = work->queue->stream;
    volume_job j = {all};
    if (all.nothing)
        j.carried = NULL; /* one thing for the kernel to know: with two, squares of u16 spill */
    for (int64_t z = 0; z < all.planes; z += j.planes) {
        j.planes = vp_min64(MOST_PLANES, all.planes - z);
        lay_out<In, A, SQUARE>(&j, work->scratch);
        if (make<In, A, SQUARE>(j, stream, err))
            return -1;
        j.carried = all.carried;
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
        return lay_out<decltype(sample), decltype(sum), square.value>(&j, NULL);
    });
}

int volume(const struct vp_op *op, int which, const part &j, const struct vp_work *work, struct vp_err *err)
{
    return of_integers(op, which, [&](auto sample, auto sum, auto square) {
        return run_volume<decltype(sample), decltype(sum), square.value>(j, work, err);
    });
}

} // namespace vp::sat
