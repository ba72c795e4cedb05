/* SPDX-License-Identifier: BSD-3-Clause */
/* Medians of square windows of one plane, 5 x 5 to 11 x 11, by a selection network in registers.
 *
 * Overview: the network of local/rank_network.c, with tiles of windows along y (the hierarchical tiling of Sugy,
 *   SIGGRAPH 2025, in one axis): each row of a window is sorted; the rows that all windows of a tile share are merged
 *   first, then those of halves of the tile, down to one window. Merges are Batcher's; compilers drop the
 *   comparators whose results are not used. Keys of 8 and 16 bits are processed in pairs, two windows at once.
 * Edges: samples that do not exist are replaced by the lowest and the highest key, in numbers that make the median of
 *   every window that of its samples that exist (network_padding).
 * Mapping: a thread has TILE windows along y, of a pair two of these, BAND rows apart; lanes lie along x.
 * Registers: the tile's lists.
 * Shared memory: the samples, as keys; a pair is a word.
 * Cost: minima and maxima of a pair of windows: 79 for 5 x 5, 190 for 7 x 7, 370 for 9 x 9, 615 for 11 x 11. H100,
 *   4096 x 4096 u8: 0.086, 0.15, 0.24 and 0.38 ms; at the rate of minima (64 a clock) it would be 0.045 to 0.35.
 * Limits: the median; images of network_block_rows() + K - 1 rows and K columns. The code of larger windows outgrows
 *   the instruction cache. */
#pragma once

#include "rank_median.cuh"

namespace
{

/* ---- keys: one in an int, or two in an unsigned ---- */

/* Samples of 8 and 16 bits as unsigned keys. */
template <class S> struct short_keys {
    enum { SIGN = (S)-1 < 0 ? 0x8000 : 0 };
    static __device__ unsigned of(S v) { return (unsigned short)((unsigned short)v ^ SIGN); }
    static __device__ S value(unsigned k) { return (S)(k ^ SIGN); }
};

__device__ __forceinline__ int lower(int a, int b) { return min(a, b); }
__device__ __forceinline__ int upper(int a, int b) { return max(a, b); }
__device__ __forceinline__ unsigned lower(unsigned a, unsigned b) { return __vminu2(a, b); }
__device__ __forceinline__ unsigned upper(unsigned a, unsigned b) { return __vmaxu2(a, b); }

__device__ __forceinline__ int lower(int a, int b, int c) { return __vimin3_s32(a, b, c); }
__device__ __forceinline__ unsigned lower(unsigned a, unsigned b, unsigned c) { return __vimin3_u16x2(a, b, c); }

/* ---- merges ---- */

VP_ANYWHERE constexpr int least_of(int a, int b) { return a < b ? a : b; }
VP_ANYWHERE constexpr int most_of(int a, int b) { return a > b ? a : b; }

/* Merges A keys a[0], a[SA] ... with B keys b[0], b[SB] ... (Batcher). */
template <int A, int SA, int B, int SB, class V>
__device__ __forceinline__ void network_merge(const V *a, const V *b, V *out)
{
    if constexpr (A == 0) {
#pragma unroll
        for (int i = 0; i < B; i++)
            out[i] = b[i * SB];
    } else if constexpr (B == 0) {
#pragma unroll
        for (int i = 0; i < A; i++)
            out[i] = a[i * SA];
    } else if constexpr (A == 1 && B == 1) {
        out[0] = lower(a[0], b[0]);
        out[1] = upper(a[0], b[0]);
    } else {
        constexpr int EVEN = (A + 1) / 2 + (B + 1) / 2, ODD = A / 2 + B / 2, PAIRS = least_of(EVEN - 1, ODD);
        V even[EVEN], odd[ODD];
        network_merge<(A + 1) / 2, 2 * SA, (B + 1) / 2, 2 * SB>(a, b, even);
        network_merge<A / 2, 2 * SA, B / 2, 2 * SB>(a + SA, b + SB, odd);
        out[0] = even[0];
#pragma unroll
        for (int i = 0; i < PAIRS; i++) {
            out[2 * i + 1] = lower(even[i + 1], odd[i]);
            out[2 * i + 2] = upper(even[i + 1], odd[i]);
        }
        if constexpr (EVEN - 1 > PAIRS)
            out[A + B - 1] = even[EVEN - 1];
        else if constexpr (ODD > PAIRS)
            out[A + B - 1] = odd[ODD - 1];
    }
}

/* Makes positions LO ... HI of the merge of two lists, of which only positions LO - (length of the other) ... HI are
 * defined. */
template <int LO, int HI, int A, int B, class V>
__device__ __forceinline__ void merge_range(const V (&a)[A], const V (&b)[B], V (&out)[A + B])
{
    constexpr int FROM_A = most_of(LO - B, 0), FROM_B = most_of(LO - A, 0);
    constexpr int N_A = most_of(least_of(A, HI + 1) - FROM_A, 0), N_B = most_of(least_of(B, HI + 1) - FROM_B, 0);
    V m[N_A + N_B];
    network_merge<N_A, 1, N_B, 1>(a + FROM_A, b + FROM_B, m);
#pragma unroll
    for (int i = 0; i < N_A + N_B; i++)
        out[FROM_A + FROM_B + i] = m[i];
}

/* Sorts N keys. */
template <int N, class V> __device__ __forceinline__ void network_sort(V *k)
{
    if constexpr (N > 1) {
        constexpr int HALF = N / 2;
        V out[N];
        network_sort<HALF>(k);
        network_sort<N - HALF>(k + HALF);
        network_merge<HALF, 1, N - HALF, 1>(k, k + HALF, out);
#pragma unroll
        for (int i = 0; i < N; i++)
            k[i] = out[i];
    }
}

/* ---- a tile of windows ---- */

/* The median of K rows of K keys each: rows j ... j + K - 1 for window j. `at`: the first key of row 0, rows are PITCH
 * apart. */
template <class V, int K, int PITCH> struct network_windows {
    enum { RANK = K * K / 2 };
    const V *at;

    /* Makes positions LO ... HI of rows FIRST ... FIRST + N - 1, merged. */
    template <int FIRST, int N, int LO, int HI> __device__ __forceinline__ void rows(V (&out)[N * K]) const
    {
        if constexpr (N == 1) {
#pragma unroll
            for (int i = 0; i < K; i++)
                out[i] = at[FIRST * PITCH + i];
            network_sort<K>(out);
        } else {
            constexpr int LEFT = N / 2, RIGHT = N - LEFT;
            V a[LEFT * K], b[RIGHT * K];
            rows<FIRST, LEFT, most_of(LO - RIGHT * K, 0), HI>(a);
            rows<FIRST + LEFT, RIGHT, most_of(LO - LEFT * K, 0), HI>(b);
            merge_range<LO, HI>(a, b, out);
        }
    }

    /* Makes windows FIRST ... END - 1 from the rows that they share. */
    template <int FIRST, int END>
    __device__ __forceinline__ void make(const V (&shared)[(K - (END - FIRST) + 1) * K], V *out) const
    {
        half<FIRST, END, FIRST, (FIRST + END) / 2, (FIRST + END) / 2 - 1>(shared, out);
        half<FIRST, END, (FIRST + END) / 2, END, FIRST + K>(shared, out);
    }

    /* Returns the larger one of more[I - 1] and shared[RANK - I], if both exist. */
    template <int I, int N, int M> __device__ __forceinline__ static V pair(const V (&shared)[N], const V (&more)[M])
    {
        if constexpr (I == 0)
            return shared[RANK];
        else if constexpr (I > RANK)
            return more[I - 1];
        else
            return upper(more[I - 1], shared[RANK - I]);
    }

    /* Lowers `best` to the smallest of pairs I ... LAST. */
    template <int I, int LAST, int N, int M>
    __device__ __forceinline__ static void smallest(const V (&shared)[N], const V (&more)[M], V &best)
    {
        if constexpr (I < LAST) {
            best = lower(best, pair<I>(shared, more), pair<I + 1>(shared, more));
            smallest<I + 2, LAST>(shared, more, best);
        } else if constexpr (I == LAST) {
            best = lower(best, pair<I>(shared, more));
        }
    }

    /* Makes windows LO ... HI - 1 of FIRST ... END - 1, which share the rows from FROM on in addition. */
    template <int FIRST, int END, int LO, int HI, int FROM>
    __device__ __forceinline__ void half(const V (&shared)[(K - (END - FIRST) + 1) * K], V *out) const
    {
        constexpr int N = (K - (END - FIRST) + 1) * K, MORE = END - FIRST - (HI - LO);
        constexpr int LEAST = most_of(RANK - (HI - LO - 1) * K, 0);
        V more[MORE * K];
        rows<FROM, MORE, most_of(LEAST - N, 0), RANK>(more);
        if constexpr (HI - LO == 1) {
            /* the smallest of the maxima of pairs whose places add up to the rank */
            constexpr int LEFT = most_of(RANK + 1 - N, 0), RIGHT = least_of(MORE * K, RANK + 1);
            V best = pair<LEFT>(shared, more);
            smallest<LEFT + 1, RIGHT>(shared, more, best);
            out[LO] = best;
        } else {
            V both[N + MORE * K];
            merge_range<LEAST, RANK>(shared, more, both);
            make<LO, HI>(both, out);
        }
    }
};

/* ---- the kernel ---- */

enum { NETWORK_TILE = 4, NETWORK_WARPS = 8, NETWORK_BAND = NETWORK_TILE * NETWORK_WARPS };

struct network_job {
    vp_area in, out;
    struct vp_box box;
    int64_t image[2];
    int type;
};

/* Returns the rows of a thread block. */
constexpr int network_block_rows(bool pairs)
{
    return NETWORK_BAND * (pairs ? 2 : 1);
}

/* True if the sample at (x, y) beyond the image is the lowest key, else it is the highest. A window that lacks m of
 * K * K samples must get (m + 1) / 2 low ones. Row d outside (d = 1 is next to the image) has (K + 1) / 2 low ones in
 * any K consecutive samples if d is odd, else (K - 1) / 2; so has column c, in rows of the image. Its rows are counted
 * from the edge (`turned`: the last one), so that the first h of them have (h + 1) / 2 low ones, or h / 2. */
template <int K> __device__ bool network_padding(int64_t x, int64_t y, const int64_t (&image)[2], bool turned)
{
    const int64_t d = y < 0 ? -y : y - image[1] + 1, c = x < 0 ? -x : x - image[0] + 1;
    const int64_t along = d > 0 ? x + K : turned ? image[1] - 1 - y : y;
    return ((along % K + (d > 0 ? d : c)) & 1) != 0;
}

template <int K> struct network_tile {
    enum { R = K / 2, PITCH = 32 + K - 1, ROWS = NETWORK_BAND + K - 1 };
};

/* Fills a tile with the keys of samples from (x0, y0) on, of pairs with those NETWORK_BAND rows below, too. LEAST,
 * MOST: the keys of samples that do not exist. */
template <class S, int K, int HALVES, int LEAST, int MOST, class V, class F>
__device__ __forceinline__ void network_fill(V *tile, const network_job &j, int64_t x0, int64_t y0, int64_t z,
                                             const F &key_of)
{
    enum { PITCH = network_tile<K>::PITCH, ROWS = network_tile<K>::ROWS, LAST = (HALVES - 1) * NETWORK_BAND };
    const struct vp_box &all = j.in.box;
    const S *const from = vp_at<S>(j.in, x0, y0, z), *const below = from + LAST * j.in.pitch;
    const int first = threadIdx.y * 32 + threadIdx.x;

    if (x0 >= all.lo[0] && x0 + PITCH <= all.hi[0] && y0 >= all.lo[1] && y0 + ROWS + LAST <= all.hi[1]) {
#pragma unroll 6
        for (int i = first; i < ROWS * PITCH; i += 32 * NETWORK_WARPS) {
            const int64_t at = i / PITCH * j.in.pitch + i % PITCH;
            tile[i] = HALVES == 1 ? key_of(from[at]) : key_of(from[at]) | key_of(below[at]) << 16;
        }
        return;
    }
#pragma unroll 1
    for (int i = first; i < ROWS * PITCH; i += 32 * NETWORK_WARPS) {
        const int64_t x = x0 + i % PITCH;
        V w = 0;
        for (int h = 0; h < HALVES; h++) {
            const int64_t y = y0 + i / PITCH + h * NETWORK_BAND;
            const bool is = x >= all.lo[0] && x < all.hi[0] && y >= all.lo[1] && y < all.hi[1];
            w |= (is                                                 ? key_of(*vp_at<S>(j.in, x, y, z))
                  : network_padding<K>(x, y, j.image, y0 >= 0) ? (V)LEAST
                                                                     : (V)MOST)
                 << 16 * h;
        }
        tile[i] = w;
    }
}

/* Stores the windows of a thread. */
template <class S, int HALVES, class V, class F>
__device__ __forceinline__ void network_store(const V (&result)[NETWORK_TILE], const network_job &j, int64_t x,
                                              int64_t y0, int64_t z, const F &value_of)
{
    S *const to = vp_at<S>(j.out, x, y0, z);
    const int rows = (int)min(j.box.hi[1] - y0, (int64_t)2 * NETWORK_BAND);

    if (x >= j.box.hi[0])
        return;
#pragma unroll
    for (int i = 0; i < NETWORK_TILE; i++)
#pragma unroll
        for (int h = 0; h < HALVES; h++)
            if (i + h * NETWORK_BAND < rows)
                to[(int64_t)(i + h * NETWORK_BAND) * j.out.pitch] = value_of(result[i], h);
}

/* V: int for f32, unsigned for pairs of other samples. */
template <class V, int K>
__global__ void __launch_bounds__(32 * NETWORK_WARPS, K == 5 ? 5 : K == 7 ? 4 : K == 9 ? 3 : 2)
    network_kernel(network_job j)
{
    enum { PAIRS = (V)-1 > 0, HALVES = PAIRS ? 2 : 1, R = K / 2, PITCH = network_tile<K>::PITCH };
    __shared__ V tile[network_tile<K>::ROWS * PITCH];
    const int64_t x0 = j.box.lo[0] + (int64_t)blockIdx.x * 32;
    const int64_t y0 = j.box.lo[1] + (int64_t)blockIdx.y * (NETWORK_BAND * HALVES);
    const int row = threadIdx.y * NETWORK_TILE;

    for (int64_t z = j.box.lo[2] + blockIdx.z; z < j.box.hi[2]; z += gridDim.z) {
        const auto fill = [&](auto s) {
            using S = decltype(s);
            network_fill<S, K, HALVES, 0, sizeof(S) == 1 ? 0xff : 0xffff>(tile, j, x0 - R, y0 - R, z,
                                                                        [](S v) { return short_keys<S>::of(v); });
        };
        const auto store = [&](auto s, const V(&result)[NETWORK_TILE]) {
            using S = decltype(s);
            network_store<S, HALVES>(result, j, x0 + threadIdx.x, y0 + row, z, [](V k, int h) {
                return short_keys<S>::value((unsigned)k >> 16 * h & 0xffff);
            });
        };
        __syncthreads();
        if constexpr (!PAIRS)
            network_fill<float, K, 1, keys<float>::LEAST, keys<float>::MOST>(tile, j, x0 - R, y0 - R, z,
                                                                             [](float v) { return key(v); });
        else if (j.type == VP_U8)
            fill((uint8_t)0);
        else if (j.type == VP_U16)
            fill((uint16_t)0);
        else
            fill((int16_t)0);
        __syncthreads();
        const network_windows<V, K, PITCH> windows = {tile + row * PITCH + threadIdx.x};
        V result[NETWORK_TILE], shared[(K - NETWORK_TILE + 1) * K];
        windows.template rows<NETWORK_TILE - 1, K - NETWORK_TILE + 1,
                              most_of(K * K / 2 - (NETWORK_TILE - 1) * K, 0), K * K / 2>(shared);
        windows.template make<0, NETWORK_TILE>(shared, result);
        if constexpr (!PAIRS)
            network_store<float, 1>(result, j, x0 + threadIdx.x, y0 + row, z,
                                    [](int k, int) { return keys<float>::value(k); });
        else if (j.type == VP_U8)
            store((uint8_t)0, result);
        else if (j.type == VP_U16)
            store((uint16_t)0, result);
        else
            store((int16_t)0, result);
    }
}

}
