/* SPDX-License-Identifier: BSD-3-Clause */
/* Summed area tables in one pass: a block of threads makes a tile and learns by look-back what is left of it and above
 * it, in the order of global/sat.h whoever comes first.
 *
 * Samples come to shared memory and stay there as they are; a warp has some rows of the tile, a lane four neighbouring
 * columns. First the sums down the warp's rows, and of its rows, by a tree over the lanes; with those of the warps
 * above the sums of the tile's rows are told before anything is waited for. Then h, the sum of the rows to the left,
 * by which the last row of the tile (without what is above it) is known, and told, too; then p, what is above. In
 * the end row after row, from the samples once more: down, along x, + h, + p, to memory.
 *
 * A tile tells its own, every fourth the sum of all so far in its place. So a tile reads that and at most three more,
 * whatever its place; these are 8-byte words, and one that has not come has ones in its upper half (clear_kernel makes
 * them so). Tiles are taken in such an order that whatever a block waits for is with blocks of a lower number, and
 * blocks start in the order of their numbers, as all look-back on this hardware takes for granted.
 *
 * Kept for that: a word for each row of a tile, and for each column (of 64-bit integers two): 8 (1 / 128 + 1 / 128)
 * bytes a sample of images of f32. Samples are read once; what it costs beside memory is time: a tile of f32 is with
 * a block for about 10 us, of which the samples take a quarter, what is waited for another, and the rows of the
 * table, some 60 instructions of a warp for 128 samples, a third. Rows begin at multiples of 16 bytes. Of a volume
 * the planes are made side by side, and piled up in a second kernel. */
#ifndef VP_SAT_CUH
#define VP_SAT_CUH

#include "copy.cuh"
#include "launch.cuh"
#include "global/sat.h"

#include <cstring>
#include <type_traits>

namespace vp::sat
{

enum { EACH = 4 };  /* columns of a lane */
enum { TILES = 4 }; /* the last of so many tells the sum of all */

/* What a block of threads makes: `rows` of a warp, `groups` of 128 columns, by FEW warps, or of images of f32 by
 * MANY. For floats all that is part of their order. */
enum { FEW = 8, MANY = 16 };
template <class In, class A> struct shape {
    enum { rows = sizeof(In) < 4 ? 16 : 8, groups = 1 };
};
template <class In> struct shape<In, uint32_t> {
    enum { rows = sizeof(In) == 1 ? 32 : 16, groups = sizeof(In) < 4 ? 2 : 1 };
};
/* Blocks of a multiprocessor, as measured. */
template <class In, class A, class Out, int WARPS> constexpr int blocks()
{
    if (WARPS > FEW)
        return 2;
    return sizeof(In) < sizeof(A) && sizeof(A) == 8 && (sizeof(Out) == 4 || sizeof(In) < 4) ? 4 : 3;
}

template <class In, class A, int WARPS> VP_ANYWHERE constexpr int high() { return shape<In, A>::rows * WARPS; }
template <class In, class A> VP_ANYWHERE constexpr int wide() { return 32 * EACH * shape<In, A>::groups; }
static_assert(high<float, double, MANY>() == VP_SAT_TALL && high<float, double, FEW>() == VP_SAT_HIGH
              && high<double, double, FEW>() == VP_SAT_HIGH && wide<float, double>() == VP_SAT_WIDE
              && VP_SAT_HIGH / FEW == VP_SAT_ROWS, "");

/* ---- numbers that are waited for ---- */

__device__ __forceinline__ uint64_t look(const uint64_t *p)
{
    uint64_t v;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}

__device__ __forceinline__ void tell(uint64_t *p, uint64_t v)
{
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

__device__ __forceinline__ void tell(uint64_t *p, uint64_t v, uint64_t w)
{
    asm volatile("st.relaxed.gpu.global.v2.u64 [%0], {%1, %2};" ::"l"(p), "l"(v), "l"(w) : "memory");
}

/* A number as words. */
template <class A> struct slot;
template <> struct slot<double> {
    enum { words = 1 };
    static __device__ __forceinline__ uint64_t word(double v, int)
    {
        const uint64_t bits = (uint64_t)__double_as_longlong(v);
        return bits >> 32 == 0xffffffffu ? 0x7fffffffffffffffull : bits; /* one NaN for another */
    }
    static __device__ __forceinline__ double number(const uint64_t *w) { return __longlong_as_double((long long)*w); }
};
template <> struct slot<uint32_t> {
    enum { words = 1 };
    static __device__ __forceinline__ uint64_t word(uint32_t v, int) { return v; }
    static __device__ __forceinline__ uint32_t number(const uint64_t *w) { return (uint32_t)*w; }
};
template <> struct slot<uint64_t> {
    enum { words = 2 };
    static __device__ __forceinline__ uint64_t word(uint64_t v, int k) { return k ? v >> 32 : v & 0xffffffffu; }
    static __device__ __forceinline__ uint64_t number(const uint64_t *w) { return w[1] << 32 | w[0]; }
};

template <class A> __device__ __forceinline__ void put(uint64_t *at, A v)
{
    if constexpr (slot<A>::words == 2)
        tell(at, slot<A>::word(v, 0), slot<A>::word(v, 1));
    else
        tell(at, slot<A>::word(v, 0));
}

/* The sum of what tiles 0 to i - 1 have told: at w what was before tile 0, at w + step what tile 0 tells, and so on. It
 * is asked for first, and waited for when it is wanted. */
template <class A> struct look_back {
    enum { W = slot<A>::words };
    const uint64_t *w;
    unsigned step;
    int n;
    uint64_t v[TILES][W];

    __device__ __forceinline__ void ask()
    {
#pragma unroll
        for (int k = 0; k < TILES; k++) /* some twice rather than a test of each */
#pragma unroll
            for (int h = 0; h < W; h++)
                v[k][h] = look(w + (size_t)(step * min(k, n)) * W + h);
    }
    __device__ __forceinline__ void ask(const uint64_t *first, unsigned from_one, int i)
    {
        n = i % TILES;
        step = from_one;
        w = first + (size_t)((unsigned)(i - n) * step) * W;
        ask();
    }
    __device__ __forceinline__ A sum()
    {
        for (;;) {
            bool here = true;
#pragma unroll
            for (int k = 0; k < TILES; k++)
#pragma unroll
                for (int h = 0; h < W; h++)
                    here = here && (unsigned)(v[k][h] >> 32) != 0xffffffffu;
            if (here)
                break;
            ask();
        }
        A all = slot<A>::number(v[0]);
#pragma unroll
        for (int k = 1; k < TILES; k++)
            if (k <= n)
                all += slot<A>::number(v[k]);
        return all;
    }
};

/* ---- vectors of samples ---- */

template <class T, int N> struct alignas(sizeof(T) * N) vec { T v[N]; };

template <class T, int N> __device__ __forceinline__ void store_once(T *p, const vec<T, N> &r)
{
    static_assert(sizeof r == 16, "");
    uint4 x;
    memcpy(&x, &r, 16);
    __stcs((uint4 *)p, x);
}

/* Four samples of a lane; bytes as one word, whose sums one instruction takes. */
template <class In> struct four { using type = vec<In, EACH>; };
template <> struct four<uint8_t> { using type = uint32_t; };
template <> struct four<int8_t> { using type = uint32_t; };

template <class In, class A, bool SQUARE> __device__ __forceinline__ A value_of(In v)
{
    const A a = (A)v;
    if constexpr (!SQUARE)
        return a;
    else if constexpr (std::is_same<A, double>::value)
        return __dmul_rn(a, a);
    else
        return a * a;
}

template <class In, class A, bool SQUARE> __device__ __forceinline__ A value_of(const typename four<In>::type &q, int k)
{
    if constexpr (sizeof(In) == 1)
        return value_of<In, A, SQUARE>((In)(q >> (8 * k)));
    else
        return value_of<In, A, SQUARE>(q.v[k]);
}

/* To t[k] is added the sum of the first k + 1 samples; `first`: it is that. Returns the sum of all. */
template <class In, class A, bool SQUARE>
__device__ __forceinline__ A add_sums(A (&t)[EACH], const typename four<In>::type &q, bool first)
{
    A all = 0;
    if constexpr (sizeof(In) == 1 && !SQUARE) {
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            const unsigned ones = 0x01010101u >> (24 - 8 * k);
            all = std::is_signed<In>::value ? (A)__dp4a((int)q, (int)ones, 0) : (A)__dp4a(q, ones, 0u);
            t[k] = sizeof(A) == 4 && !std::is_signed<In>::value ? (A)__dp4a(q, ones, (unsigned)t[k]) : t[k] + all;
        }
    } else {
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            const A a = value_of<In, A, SQUARE>(q, k);
            all = k ? all + a : a;
            t[k] = first ? all : t[k] + all;
        }
    }
    return all;
}

/* ---- sums over the lanes of a warp ---- */

/* What the lane D before this one has, 0 where there is none. */
template <int D> __device__ __forceinline__ uint64_t from_left(uint64_t s)
{
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 ".reg .b32 l, h;\n"
                 "mov.b64 {l, h}, %0;\n"
                 "shfl.sync.up.b32 l|p, l, %1, 0, 0xffffffff;\n"
                 "shfl.sync.up.b32 h|p, h, %1, 0, 0xffffffff;\n"
                 "selp.b32 l, l, 0, p;\n"
                 "selp.b32 h, h, 0, p;\n"
                 "mov.b64 %0, {l, h};\n"
                 "}"
                 : "+l"(s)
                 : "n"(D));
    return s;
}
template <int D> __device__ __forceinline__ double from_left(double s)
{
    return __longlong_as_double((long long)from_left<D>((uint64_t)__double_as_longlong(s)));
}
/* What the lane D before this one has is added, where there is one. */
template <int D> __device__ __forceinline__ void add_left(double &s)
{
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 ".reg .b32 l, h;\n"
                 ".reg .f64 d;\n"
                 "mov.b64 {l, h}, %0;\n"
                 "shfl.sync.up.b32 l|p, l, %1, 0, 0xffffffff;\n"
                 "shfl.sync.up.b32 h|p, h, %1, 0, 0xffffffff;\n"
                 "mov.b64 d, {l, h};\n"
                 "@p add.rn.f64 %0, %0, d;\n"
                 "}"
                 : "+d"(s)
                 : "n"(D));
}
template <int D> __device__ __forceinline__ void add_left(uint64_t &s)
{
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 ".reg .b32 l, h;\n"
                 ".reg .b64 d;\n"
                 "mov.b64 {l, h}, %0;\n"
                 "shfl.sync.up.b32 l|p, l, %1, 0, 0xffffffff;\n"
                 "shfl.sync.up.b32 h|p, h, %1, 0, 0xffffffff;\n"
                 "mov.b64 d, {l, h};\n"
                 "@p add.u64 %0, %0, d;\n"
                 "}"
                 : "+l"(s)
                 : "n"(D));
}
template <int D> __device__ __forceinline__ void add_left(uint32_t &s)
{
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 ".reg .b32 d;\n"
                 "shfl.sync.up.b32 d|p, %0, %1, 0, 0xffffffff;\n"
                 "@p add.u32 %0, %0, d;\n"
                 "}"
                 : "+r"(s)
                 : "n"(D));
}

/* Prefix sums. (Nothing is -0 here, so 0 need not be added.) */
template <class A> __device__ __forceinline__ A scan(A s)
{
    add_left<1>(s);
    add_left<2>(s);
    add_left<4>(s);
    add_left<8>(s);
    add_left<16>(s);
    return s;
}

/* Lane l gets the sum over all lanes of f(l % N), by a tree, that of floats by halves. f is called with 0, 1 ... */
template <int N, bool HALVES, class F> __device__ __forceinline__ auto tree(const F &f, int first, int lane)
{
    if constexpr (N == 1) {
        return f(first);
    } else {
        constexpr int D = HALVES ? 32 / N : N / 2;
        const auto a = tree<N / 2, HALVES>(f, first, lane);
        const auto b = tree<N / 2, HALVES>(f, first + N / 2, lane);
        const bool up = lane & D;
        return (up ? b : a) + __shfl_xor_sync(~0u, up ? a : b, D);
    }
}
template <int N, bool HALVES, class F> __device__ __forceinline__ auto totals(const F &f, int lane)
{
    auto v = tree<N, HALVES>(f, 0, lane);
#pragma unroll
    for (int n = N; n < 32; n *= 2)
        v += __shfl_xor_sync(~0u, v, HALVES ? 16 / n : n);
    return HALVES ? __shfl_sync(~0u, v, __brev(lane) >> 27) : v;
}

/* ---- tiles ---- */

/* n / d for n below 2^31. */
struct divisor { unsigned magic, shift; };

static inline divisor divisor_of(unsigned d)
{
    unsigned l = 0;
    while (((uint64_t)1 << l) < d)
        l++;
    return {(unsigned)((((uint64_t)1 << (31 + l)) + d - 1) / d), l};
}

__device__ __forceinline__ unsigned over(unsigned n, divisor d)
{
    return __umulhi(2 * n, d.magic) >> d.shift;
}

/* A part of a table; images: rows are ny, planes 1. */
struct part {
    const void *in;
    void *out;
    int64_t nx, ny, planes;
    int64_t in_row, in_plane, out_row, out_plane; /* samples from one to the next */
    bool volume, nothing;          /* nothing was before: what is carried in counts as 0 */
    void *carried;                 /* a row, in volumes a plane of rows of carried_row numbers */
    int64_t carried_row;
};

struct job : part {
    unsigned across, down, band;   /* tiles; rows of tiles that go forward together */
    unsigned tiles, corner;        /* of a plane, with those below the last row; of them before all rows of a band go */
    divisor by_planes, by_band, by_across;
    unsigned wide, high;           /* of all tiles: numbers of a row, of a column of those that are told */
    uint64_t *rows, *columns;      /* what is told, of each plane: of rows by tile and y, of columns by tile and x */
    int64_t per_plane;             /* words */
};

struct place { int x, y; unsigned plane; bool here; };

/* Rows of tiles go forward in bands, each a tile behind the one above it, so by diagonals, which grow in the beginning
 * and shrink in the end; where a band ends, the next begins. The same tile of all planes is made one after the
 * other, for then what it waits for was made long ago. */
__device__ __forceinline__ place place_of(const job &j, unsigned t)
{
    unsigned plane = 0;
    if (j.planes > 1) {
        const unsigned n = over(t, j.by_planes);
        plane = t - n * (unsigned)j.planes;
        t = n;
    }
    unsigned c, i;
    const unsigned k = min(t, j.tiles - 1 - t);
    if (k < j.corner) {
        c = (unsigned)((sqrtf((float)(8 * k + 1)) - 1) / 2);
        c -= c * (c + 1) / 2 > k;
        c += (c + 1) * (c + 2) / 2 <= k;
        i = k - c * (c + 1) / 2;
        if (k < t) {
            c = j.tiles / j.band + j.band - 2 - c;
            i = j.band - 1 - i;
        }
    } else {
        const unsigned n = over(t - j.corner, j.by_band);
        c = j.band - 1 + n;
        i = t - j.corner - n * j.band;
    }
    const unsigned s = c - i, b = over(s, j.by_across), y = b * j.band + i;
    return place{(int)(s - b * j.across), (int)y, plane, y < j.down};
}

/* Asks for the samples of a tile, a warp for its rows, 16 bytes a lane. Of what is not there anything will do, for
 * nothing depends on it. */
template <class In, class A, int WARPS>
__device__ __forceinline__ void ask(const job &j, const place &t, char *waiting)
{
    constexpr int R = shape<In, A>::rows, TW = wide<In, A>(), E = 16 / sizeof(In), ROW = TW / E; /* lanes of a row */
    constexpr int STEP = ROW < 32 ? 32 / ROW : 1, PER = ROW > 32 ? ROW / 32 : 1;
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    const int c = lane % ROW * E, r0 = lane / ROW;
    const int64_t y0 = (int64_t)t.y * (R * WARPS) + warp * R + r0, x0 = (int64_t)t.x * TW + c;
    const In *in = (const In *)j.in + t.plane * j.in_plane + y0 * j.in_row + x0;
    char *const to = waiting + ((warp * R + r0) * TW + c) * sizeof(In);
    const bool all = (int64_t)(t.x + 1) * TW <= j.nx && (int64_t)(t.y + 1) * (R * WARPS) <= j.ny;
    if (all) {
#pragma unroll
        for (int r = 0; r < R; r += STEP) {
#pragma unroll
            for (int k = 0; k < PER; k++)
                copy_async<16>(to + (r * TW + k * 32 * E) * sizeof(In), in + k * 32 * E);
            in += STEP * j.in_row;
        }
    } else {
#pragma unroll 1
        for (int r = 0; r < R; r += STEP) {
#pragma unroll
            for (int k = 0; k < PER; k++)
                if (x0 + k * 32 * E < j.nx && y0 + r < j.ny)
                    copy_async<16>(to + (r * TW + k * 32 * E) * sizeof(In), in + k * 32 * E);
            in += STEP * j.in_row;
        }
    }
    copies_close();
}

/* What threads of a block share. The last warp's sums are of use to no other, so the last row has their place. */
template <class In, class A, int WARPS> struct common {
    alignas(16) A sum_of[WARPS][wide<In, A>()]; /* of the columns, over the rows of each warp */
    alignas(16) A above[wide<In, A>()];
    A left[WARPS][shape<In, A>::rows], total[WARPS];

    /* Numbers of the four columns of a lane, in pieces of 16 bytes, of which neighbours' are side by side. */
    static __device__ __forceinline__ void put(A *row, int g, int lane, const A (&v)[EACH])
    {
#pragma unroll
        for (int k = 0; k < EACH; k += PIECE) {
            vec<A, PIECE> x;
            memcpy(&x, &v[k], sizeof x);
            *(vec<A, PIECE> *)(row + place_in_row(g, lane, k)) = x;
        }
    }
    static __device__ __forceinline__ void get(A (&v)[EACH], const A *row, int g, int lane)
    {
#pragma unroll
        for (int k = 0; k < EACH; k += PIECE) {
            const vec<A, PIECE> x = *(const vec<A, PIECE> *)(row + place_in_row(g, lane, k));
            memcpy(&v[k], &x, sizeof x);
        }
    }
    enum { PIECE = 16 / sizeof(A) };
    static __device__ __forceinline__ int place_in_row(int g, int lane, int k)
    {
        return (g * EACH + k) * 32 + lane * PIECE;
    }
};

/* Which column the i-th number of such rows is of. */
template <class A> __device__ __forceinline__ int64_t column_of(int64_t i)
{
    constexpr int PIECE = 16 / sizeof(A);
    const int at = (int)(i % (32 * EACH)), lane = at / PIECE % 32, k = at / (32 * PIECE) * PIECE + at % PIECE;
    return i - at + lane * EACH + k;
}

/* A thread's part of a tile: in columns lane * EACH of each group, rows of its warp. Integers: column k of a lane
 * stands for columns 0 to k of it. */
template <class In, class A, int WARPS, bool SQUARE> struct piece {
    using four_t = typename four<In>::type;
    static constexpr bool FLOATS = std::is_same<A, double>::value;
    enum { R = shape<In, A>::rows, G = shape<In, A>::groups, TW = 32 * EACH * G };
    const char *mine;
    int warp, lane;
    A w[G][EACH], o[G][EACH]; /* sums down the warp's rows; down the rows above them */

    __device__ __forceinline__ piece(const char *waiting)
    {
        warp = threadIdx.x >> 5;
        lane = threadIdx.x & 31;
        mine = waiting + (warp * R * TW + lane * EACH) * sizeof(In);
    }
    __device__ __forceinline__ int column(int g) const { return (g * 32 + lane) * EACH; }
    __device__ __forceinline__ four_t samples(int r, int g) const
    {
        return *(const four_t *)(mine + (r * TW + g * 32 * EACH) * sizeof(In));
    }

    /* Sums down the warp's rows. Returns the sum over row `lane` and those above it in the warp. */
    __device__ __forceinline__ A go_down(common<In, A, WARPS> &s)
    {
        memset(w, 0, sizeof w);
        A own = totals<R, FLOATS>([&](int r) {
            A row = 0;
#pragma unroll
            for (int g = 0; g < G; g++)
                row += add_sums<In, A, SQUARE>(w[g], samples(r, g), FLOATS && r == 0);
            return FLOATS ? w[0][EACH - 1] : row;
        }, lane);
        if constexpr (!FLOATS) {
#pragma unroll
            for (int d = 1; d < R; d *= 2) {
                const A t = __shfl_up_sync(~0u, own, d, R);
                if (lane % R >= d)
                    own += t;
            }
        }
        if (lane == R - 1)
            s.total[warp] = own;
#pragma unroll
        for (int g = 0; g < G; g++)
            s.put(s.sum_of[warp], g, lane, w[g]);
        return own;
    }

    /* Then, when all warps have: what is above the warp's rows. Of floats, whose warps are many, by a thread for each
     * column. */
    __device__ __forceinline__ void take_above(common<In, A, WARPS> &s)
    {
        if constexpr (FLOATS) {
            if (threadIdx.x < TW) {
                A v[WARPS], sum = 0;
#pragma unroll
                for (int i = 0; i < WARPS - 1; i++)
                    v[i] = s.sum_of[i][threadIdx.x];
#pragma unroll
                for (int i = 0; i < WARPS - 1; i++) {
                    s.sum_of[i][threadIdx.x] = sum;
                    sum += v[i];
                }
                s.sum_of[WARPS - 1][threadIdx.x] = sum;
            }
            __syncthreads();
            s.get(o[0], s.sum_of[warp], 0, lane);
        } else {
            memset(o, 0, sizeof o);
#pragma unroll
            for (int i = 0; i < WARPS - 1; i++)
                if (i < warp)
#pragma unroll
                    for (int g = 0; g < G; g++) {
                        A a[EACH];
                        s.get(a, s.sum_of[i], g, lane);
#pragma unroll
                        for (int k = 0; k < EACH; k++)
                            o[g][k] += a[k];
                    }
        }
    }

    /* The sum along row `lane` of the tile, so far down. own: what go_down() has returned. */
    __device__ __forceinline__ A sum_along(const common<In, A, WARPS> &s, A own) const
    {
        A above = 0;
#pragma unroll
        for (int i = 0; i < WARPS - 1; i++)
            if (i < warp)
                above += s.total[i];
        return above + own;
    }

    /* Sums along x of a row of the tile. u: sums down, along the lane's columns already. `to_all` is added to integers
     * (floats have their own order). */
    static __device__ __forceinline__ void along(const A (&u)[G][EACH], A to_all, A (&r)[G][EACH])
    {
        if constexpr (FLOATS) {
            const A e = from_left<1>(scan(u[0][EACH - 1]));
#pragma unroll
            for (int k = 0; k < EACH; k++)
                r[0][k] = u[0][k] + e;
        } else {
#pragma unroll
            for (int g = 0; g < G; g++) {
                const A all = u[g][EACH - 1], s = scan(all), e = s - all + to_all;
                if (g < G - 1)
                    to_all += __shfl_sync(~0u, s, 31);
#pragma unroll
                for (int k = 0; k < EACH; k++)
                    r[g][k] = u[g][k] + e;
            }
        }
    }

    /* r: the last row of the tile as it is without what is left and above, by the last warp. */
    __device__ __forceinline__ void end(A (&r)[G][EACH]) const
    {
        A u[G][EACH];
#pragma unroll
        for (int g = 0; g < G; g++)
#pragma unroll
            for (int k = 0; k < EACH; k++)
                u[g][k] = o[g][k] + w[g][k];
        along(u, 0, r);
    }

    /* The rows of the table, with what is left and above. carried: where the last row of all goes, or NULL. */
    template <bool ALL, class Out>
    __device__ __forceinline__ void make(const job &j, const place &t, const common<In, A, WARPS> &s, A *carried)
    {
        const int64_t x0 = (int64_t)t.x * TW, y0 = ((int64_t)t.y * WARPS + warp) * R;
        Out *out = (Out *)j.out + t.plane * j.out_plane + y0 * j.out_row + x0 + lane * EACH;
        const int rows = ALL ? (int)R : (int)min((int64_t)R, j.ny - y0);
        A p[G][EACH];
#pragma unroll
        for (int g = 0; g < G; g++)
            s.get(p[g], s.above, g, lane);
        if constexpr (!FLOATS) { /* what is above is a sum along x, too: of its differences */
#pragma unroll
            for (int g = 0; g < G; g++) {
                const A first = __shfl_up_sync(~0u, p[g][EACH - 1], 1),
                        before = lane ? first : g ? s.above[g * 32 * EACH - 1] : (A)0;
#pragma unroll
                for (int k = 0; k < EACH; k++)
                    o[g][k] += p[g][k] - before;
            }
        }
#pragma unroll(ALL ? (int)R : 1)
        for (int r = 0; r < (ALL ? (int)R : rows); r++) {
            const A h = s.left[warp][r];
            A m[G][EACH];
            if constexpr (FLOATS) {
                if (r == R - 1 && warp == WARPS - 1) {
                    s.get(m[0], s.sum_of[WARPS - 1], 0, lane);
                } else {
                    add_sums<In, A, SQUARE>(o[0], samples(r, 0), false);
                    along(o, 0, m);
#pragma unroll
                    for (int k = 0; k < EACH; k++)
                        m[0][k] = m[0][k] + h;
                }
#pragma unroll
                for (int k = 0; k < EACH; k++)
                    m[0][k] = p[0][k] + m[0][k];
            } else {
#pragma unroll
                for (int g = 0; g < G; g++)
                    add_sums<In, A, SQUARE>(o[g], samples(r, g), false);
                along(o, h, m);
            }
#pragma unroll
            for (int g = 0; g < G; g++) {
                write<ALL, Out>(out + g * 32 * EACH, m[g], x0 + column(g), j.nx);
                if ((!ALL || r == R - 1) && carried && y0 + r == j.ny - 1)
#pragma unroll
                    for (int k = 0; k < EACH; k++)
                        if (ALL || x0 + column(g) + k < j.nx)
                            carried[x0 + column(g) + k] = m[g][k];
            }
            out += j.out_row;
        }
    }

    template <bool ALL, class Out>
    __device__ __forceinline__ void write(Out *out, const A (&m)[EACH], int64_t x, int64_t nx) const
    {
        constexpr int N = 16 / sizeof(Out);
        if constexpr (ALL && N == EACH) {
            vec<Out, N> v;
#pragma unroll
            for (int k = 0; k < N; k++)
                v.v[k] = (Out)m[k];
            store_once<Out, N>(out, v);
        } else if constexpr (ALL) { /* neighbours have each other's halves: what is stored at a time has no gaps */
            const bool odd = lane & 1;
            vec<Out, N> first, second;
#pragma unroll
            for (int k = 0; k < N; k++) {
                const A got = __shfl_xor_sync(~0u, odd ? m[k] : m[k + N], 1);
                first.v[k] = (Out)(odd ? got : m[k]);
                second.v[k] = (Out)(odd ? m[k + N] : got);
            }
            Out *const to = out - (odd ? N : 0);
            store_once<Out, N>(to, first);
            store_once<Out, N>(to + EACH, second);
        } else {
#pragma unroll
            for (int k = 0; k < EACH; k++)
                if (x + k < nx)
                    out[k] = (Out)m[k];
        }
    }

    template <class Out>
    __device__ __forceinline__ void make(const job &j, const place &t, const common<In, A, WARPS> &s)
    {
        A *const carried = j.volume ? NULL : (A *)j.carried;
        if ((int64_t)(t.x + 1) * TW <= j.nx && (int64_t)(t.y + 1) * (R * WARPS) <= j.ny)
            make<true, Out>(j, t, s, carried);
        else
            make<false, Out>(j, t, s, carried);
    }
};

/* ---- the kernel ---- */

/* What the kernel before in the stream has written can be read. */
__device__ __forceinline__ void kernel_wait()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* The next kernel in the stream may begin with what does not need what this one writes. */
__device__ __forceinline__ void kernel_go()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

template <class In, class A, class Out, int WARPS, bool SQUARE>
__global__ void __launch_bounds__(32 * WARPS, blocks<In, A, Out, WARPS>()) table_kernel(const job j)
{
    constexpr int R = shape<In, A>::rows, TW = wide<In, A>(), W = slot<A>::words;
    extern __shared__ __align__(16) char waiting[];
    __shared__ common<In, A, WARPS> s;
    const place tile = place_of(j, blockIdx.x);
    if (!tile.here)
        return;
    ask<In, A, WARPS>(j, tile, waiting);
    piece<In, A, WARPS, SQUARE> t(waiting);
    const int tid = threadIdx.x, warp = t.warp, lane = t.lane;
    copies_wait<0>();
    __syncwarp();
    A own = t.go_down(s);
    __syncthreads();
    t.take_above(s);
    own = t.sum_along(s, own);

    const bool beside = tile.x < (int)j.across - 1, below = tile.y < (int)j.down - 1;
    const bool x_end = tile.x % TILES == TILES - 1, y_end = tile.y % TILES == TILES - 1;
    uint64_t *const rows = j.rows + tile.plane * j.per_plane + (size_t)((tile.y * WARPS + warp) * R + lane) * W;
    uint64_t *const columns = j.columns + tile.plane * j.per_plane + (size_t)(tile.x * TW) * W;
    uint64_t *const row_told = rows + (size_t)((unsigned)(tile.x + 1) * j.high) * W;
    uint64_t *const columns_told = columns + (size_t)((unsigned)(tile.y + 1) * j.wide) * W;
    A end[t.G][EACH];
    look_back<A> left, above;
    kernel_wait();
    if (lane < R && !x_end && beside)
        put(row_told, own);
    if (warp == WARPS - 1)
        t.end(end);
    constexpr bool together = WARPS > FEW && sizeof(Out) < sizeof(A); /* else what was asked for too early comes late */
    if (together && tid < TW)
        above.ask(columns + tid * W, j.wide, tile.y);
    if (lane < R) {
        left.ask(rows, j.high, tile.x);
        const A h = left.sum();
        if (x_end && beside)
            put(row_told, h + own);
        s.left[warp][lane] = h;
    }
    __syncwarp();
    if (warp == WARPS - 1) {
        const A h = s.left[warp][R - 1];
#pragma unroll
        for (int g = 0; g < t.G; g++) {
#pragma unroll
            for (int k = 0; k < EACH; k++)
                end[g][k] = end[g][k] + h;
            s.put(s.sum_of[WARPS - 1], g, lane, end[g]);
            if (below && !y_end)
#pragma unroll
                for (int k = 0; k < EACH; k += 2) {
                    const int at = s.place_in_row(g, lane, k / s.PIECE * s.PIECE) + k % s.PIECE;
                    uint64_t *const to = columns_told + at * W;
                    if constexpr (W == 1) {
                        tell(to, slot<A>::word(end[g][k], 0), slot<A>::word(end[g][k + 1], 0));
                    } else {
                        put(to, end[g][k]);
                        put(to + W, end[g][k + 1]);
                    }
                }
        }
    }
    A p = 0;
    if (tid < TW) {
        if (!together)
            above.ask(columns + tid * W, j.wide, tile.y);
        s.above[tid] = p = above.sum();
    }
    __syncthreads();
    if (tid < TW && y_end && below)
        put(columns_told + tid * W, p + s.sum_of[WARPS - 1][tid]);
    t.template make<Out>(j, tile, s);
}

/* No number has come, but those before the first tiles: left of all 0, above what is carried in. */
template <class A> __global__ void __launch_bounds__(256) clear_kernel(const job j)
{
    constexpr int W = slot<A>::words, N = 2 / W; /* numbers of 16 bytes */
    kernel_go();
    for (int64_t plane = blockIdx.y; plane < j.planes; plane += gridDim.y) {
        const int64_t first = j.columns - j.rows, high = (int64_t)j.high * W, wide = (int64_t)j.wide * W;
        ulonglong2 *const words = (ulonglong2 *)(j.rows + plane * j.per_plane);
        const int64_t step = gridDim.x * (int64_t)512;
        for (int64_t i = (blockIdx.x * (int64_t)256 + threadIdx.x) * 2; i < j.per_plane; i += step) {
            uint64_t v[2] = {~0ull, ~0ull};
            if (i < high || (i >= first && i < first + wide))
#pragma unroll
                for (int k = 0; k < 2; k++) {
                    const int64_t x = column_of<A>((i - first) / 2 * N + k / W);
                    const bool kept = i >= first && !j.nothing && !j.volume && x < j.nx;
                    v[k] = slot<A>::word(kept ? ((const A *)j.carried)[x] : (A)0, k % W);
                }
            words[i / 2] = make_ulonglong2(v[0], v[1]);
        }
    }
}

/* ---- launching ---- */

struct sizes {
    int64_t across, down, wide, high;
    int64_t rows, per_plane, words;
};

template <class In, class A, int WARPS> sizes sizes_of(int64_t nx, int64_t ny, int64_t planes)
{
    sizes s;
    s.across = (nx + wide<In, A>() - 1) / wide<In, A>();
    s.down = (ny + high<In, A, WARPS>() - 1) / high<In, A, WARPS>();
    s.wide = s.across * wide<In, A>();
    s.high = s.down * high<In, A, WARPS>();
    s.rows = (s.across + 1) * s.high * slot<A>::words;
    s.per_plane = s.rows + (s.down + 1) * s.wide * slot<A>::words;
    s.words = s.per_plane * planes;
    return s;
}

template <class In, class A, int WARPS> uint64_t bytes_of(const struct vp_sat *p, const int64_t out[3])
{
    return (uint64_t)sizes_of<In, A, WARPS>(out[0], p->volume ? out[1] : out[2], p->volume ? out[2] : 1).words * 8;
}

/* The tables of planes become that of the volume, from the plane that is carried on; a thread has some columns of a
 * row. */
template <class A> __global__ void __launch_bounds__(128) pile_kernel(const job j)
{
    enum { N = 16 / sizeof(A), AHEAD = 8 };
    const int64_t x = (blockIdx.x * (int64_t)128 + threadIdx.x) * N;
    if (x >= j.nx)
        return;
    const bool all = x + N <= j.nx;
    for (int64_t y = blockIdx.y; y < j.ny; y += gridDim.y) {
        A *const kept = (A *)j.carried + y * j.carried_row + x, *out = (A *)j.out + y * j.out_row + x;
        vec<A, N> sum, next[AHEAD];
        if (j.nothing)
            memset(&sum, 0, sizeof sum);
        else
            sum = *(const vec<A, N> *)kept;
        for (int64_t z = 0; z < j.planes; z += AHEAD) {
#pragma unroll
            for (int i = 0; i < AHEAD; i++) /* rows are as long as vectors want */
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

/* What was before is added to a part that was made without: a row to all rows, in volumes a plane to all planes. */
template <class A> __global__ void __launch_bounds__(256) add_kernel(const part j)
{
    const int64_t row = (int64_t)blockIdx.y + (int64_t)blockIdx.z * gridDim.y, rows = j.ny * j.planes;
    if (row >= rows)
        return;
    const int64_t y = row % j.ny, plane = row / j.ny;
    A *const out = (A *)j.out + plane * j.out_plane + y * j.out_row;
    const A *const before = (const A *)j.carried + (j.volume ? y * j.carried_row : 0);
    for (int64_t x = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; x < j.nx; x += (int64_t)gridDim.x * blockDim.x)
        out[x] = before[x] + out[x];
}

/* Table `which` of op, of a part of the work. */
static inline part part_of(const struct vp_op *op, const struct vp_work *work, int which, char *state)
{
    const struct vp_sat *const p = vp_params<vp_sat>(op);
    const vp_area &out = work->out[which], &in = work->pass == VP_APPLY ? out : *work->in;
    const int64_t deep = vp_box_size(&out.box, 2);
    part j;
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
    j.nothing = work->pass == VP_LOCAL || out.box.lo[2] == 0;
    j.carried = state;
    j.carried_row = p->width;
    return j;
}

template <class A> int add(const part &j, const struct vp_work *work, struct vp_err *err)
{
    const int64_t rows = j.ny * j.planes, high = rows < 32768 ? rows : 32768;
    const dim3 grid((unsigned)((j.nx + 1023) / 1024), (unsigned)high, (unsigned)((rows + high - 1) / high));
    return vp_start(err, work->queue->stream, add_kernel<A>, grid, dim3(256), 0, j);
}

template <class In, class A> unsigned take_tiles(job &j, const sizes &s)
{
    enum { BAND = 128 };
    j.across = (unsigned)s.across;
    j.down = (unsigned)s.down;
    j.wide = (unsigned)s.wide;
    j.high = (unsigned)s.high;
    j.per_plane = s.per_plane;
    /* as many rows of tiles as a row has tiles at most, for a band must not meet its own end */
    const unsigned most = (unsigned)vp_min64(BAND, s.across), bands = (j.down + most - 1) / most;
    j.band = (j.down + bands - 1) / bands;
    j.by_planes = divisor_of((unsigned)j.planes);
    j.by_band = divisor_of(j.band);
    j.by_across = divisor_of(j.across);
    j.tiles = bands * j.across * j.band;
    j.corner = j.band * (j.band - 1) / 2;
    return j.tiles * (unsigned)j.planes; /* blocks: those below the last row have nothing to do */
}

/* The planes that were made become a volume. */
template <class A, class Out> int pile(const job &j, cudaStream_t stream, struct vp_err *err)
{
    enum { PILE = 128 * 16 / sizeof(A), ROWS = 32768 };
    const dim3 grid((unsigned)((j.nx + PILE - 1) / PILE), (unsigned)vp_min64(j.ny, ROWS));
    if constexpr (std::is_same<A, Out>::value)
        return vp_start(err, stream, pile_kernel<A>, grid, dim3(128), 0, j);
    else
        return vp_fail(err, VP_ERUN, "no kernel for volumes of rounded sums"); /* has() has refused them */
}

template <class In, class A, class Out, int WARPS, bool SQUARE>
int run(const part &made, const struct vp_work *work, struct vp_err *err)
{
    const cudaStream_t stream = work->queue->stream;
    job j = {made};
    const sizes s = sizes_of<In, A, WARPS>(j.nx, j.ny, j.planes);
    const unsigned blocks = take_tiles<In, A>(j, s);
    j.rows = (uint64_t *)work->scratch;
    j.columns = j.rows + s.rows;
    const dim3 clears((unsigned)vp_min64((s.per_plane + 511) / 512, 4 * work->queue->sms), /* half of all threads */
                      (unsigned)vp_min64(j.planes, 32768));
    const auto kernel = table_kernel<In, A, Out, WARPS, SQUARE>;
    const size_t shared = sizeof(In) * high<In, A, WARPS>() * wide<In, A>();
    int code = 0;
    if (vp_gpu_check(err, vp_allow_shared(kernel, shared, &code), "cannot start a CUDA kernel")
        || vp_start(err, stream, clear_kernel<A>, clears, dim3(256), 0, j)
        || vp_start_early(err, code, stream, kernel, dim3(blocks), dim3(32 * WARPS), shared, j))
        return -1;
    return j.volume ? pile<A, Out>(j, stream, err) : 0;
}

/* f of a sample, a sum, and whether samples are squared, for a table of integers. */
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

/* Volumes of integers (sat_volume.cu), but for VP_APPLY. */
int volume(const struct vp_op *op, int which, const part &j, const struct vp_work *work, struct vp_err *err);
uint64_t volume_bytes(const struct vp_op *op, int which, const int64_t out[3]);

/* Volumes of floats (sat_volume_floats.cu), of those that are made there. */
bool marches(const struct vp_op *op);
int march(const part &made, int which, const struct vp_work *work, struct vp_err *err);
uint64_t march_bytes(const int64_t out[3]);

} // namespace vp::sat

#endif
