/* SPDX-License-Identifier: BSD-3-Clause */
/* Back-projection kernels, compiled once for each instruction set (VP_ISA = avx512, avx2, generic); GCC
 * vector extensions, no intrinsics.
 *
 * One column of voxels and one view meet two neighbouring lines of the transposed view (u is constant), in
 * rows that advance evenly. A kernel takes a unit of four vectors of voxels, interpolates the two lines
 * once for all rows that the unit meets, and looks the voxels' rows up in registers; the sums over GROUP
 * views stay in registers too. Positions along the line are fixed point, 2^-32 rows, from the
 * double-precision geometry of the column, so a voxel's bits do not depend on where the work was cut. */
#include "ct/backproject_internal.h"

#include "base/isa.h"
#include "base/transpose.h"

#include <string.h>

#define LOG_LANES (LANES == 16 ? 4 : LANES == 8 ? 3 : 2)
#define HAVE_PERMUTE (LANES >= 8)

enum {
    VECTORS = 4,                        /* a unit */
    UNIT = VECTORS * LANES,
    WINDOW = 2 * LANES,                 /* rows that one lookup reaches */
    LOOKUP_SHIFT = 32 - LOG_LANES - 1,  /* fraction bits of a position in a lookup's window */
    STEP_BITS = 40                      /* fraction bits of rows per voxel */
};

#if LANES == 16
#define LANE_NUMBERS {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
#elif LANES == 8
#define LANE_NUMBERS {0, 1, 2, 3, 4, 5, 6, 7}
#else
#define LANE_NUMBERS {0, 1, 2, 3}
#endif

INLINE void store(float *p, vf x)
{
    *(vf_u *)p = x;
}

/* Geometry is in double: PLACES columns at a time. */
enum { PLACES = LANES / 2 };
typedef double vdouble __attribute__((vector_size(8 * PLACES), may_alias));
typedef int64_t vlong __attribute__((vector_size(8 * PLACES), may_alias));
typedef int32_t vint_half __attribute__((vector_size(4 * PLACES), may_alias));
typedef float vfloat_half __attribute__((vector_size(4 * PLACES), may_alias));

INLINE vdouble select(vlong mask, vdouble yes, vdouble no)
{
    return (vdouble)(((vlong)yes & mask) | ((vlong)no & ~mask));
}

/* To integers, |x| < 2^51: the sum's low bits are the number. */
INLINE vlong round_vector(vdouble x)
{
    const vdouble shift = (vdouble){} + 0x1.8p52;
    return (vlong)(x + shift) - (vlong)shift;
}

/* Largest integer not above x, for -least <= x < 2^31 - least. */
INLINE vint_half floor_int(vdouble x, int least)
{
    return __builtin_convertvector(x + least, vint_half) - least;
}

/* --- views of a helix ----------------------------------------------------------------------------------- */

/* The row of the frame (not flipped) whose samples row v has. */
INLINE int64_t row_within(const struct vp_backproject *b, int64_t v)
{
    const int64_t last = b->nv - 1 - b->margin;
    return b->margin == 0 ? v : v < b->margin ? b->margin : v > last ? last : v;
}

/* The matrix of the view in a slot, for segment s. NULL: the view is not there, or has no share. */
INLINE const double *matrix_in(const struct vp_backproject *b, int slot, int s, double scaled[12])
{
    const double *P = b->views[b->batch_first + slot].P;
    if (!b->present[slot])
        return NULL;
    if (!b->scale)
        return P;
    const double scale = b->scale[s * BATCH + slot];
    for (int c = 0; c < 12; c++)
        scaled[c] = scale * P[c];
    return scale > 0 ? scaled : NULL;
}

/* --- transposition -------------------------------------------------------------------------------------- */

/* LANES detector columns from u on under row m of the lines' frame (not refined); zero where the view has no rows. */
INLINE vf detector_samples(const struct vp_backproject *b, const struct vp_bp_view *view,
                               const float *proj, int64_t m, int64_t u)
{
    const int64_t v = row_within(b, view->flip ? b->rows - 1 - m : m);
    if (v < b->v0 || v >= b->v1)
        return (vf){};
    const float *q = proj + (v - b->v0) * b->nu + u;
    if (u + LANES <= b->nu)
        return vf_at(q);
    float part[LANES] = {0};
    memcpy(part, q, (size_t)(b->nu - u) * sizeof *part);
    return vf_at(part);
}

/* The same at row m of the frame as stored: refined, mirrored. */
INLINE vf frame_samples(const struct vp_backproject *b, const struct vp_bp_view *view, const float *proj,
                            int64_t m, int64_t u, bool mirror)
{
    if (m >= b->row1)
        return (vf){};
    if (mirror)
        m = b->mirror_sum - m;
    if (b->refine == 1)
        return detector_samples(b, view, proj, m, u);
    const int64_t below = m >> 1;
    const vf x = detector_samples(b, view, proj, below, u);
    return m & 1 ? 0.5f * (x + detector_samples(b, view, proj, below + 1, u)) : x;
}

static void transpose_view(const struct vp_backproject *b, int slot, const struct vp_bp_view *view,
                      const float *proj, int64_t l0, int64_t l1)
{
    float *const line0 = vp_bp_line0(b, slot);
    if (b->swap) {
        const size_t bytes = (size_t)(b->row1 - b->row0) * sizeof *proj;
        for (int64_t l = l0; l < l1; l++) {
            const int64_t v = row_within(b, l);
            if (v >= b->v0 && v < b->v1)
                memcpy(line0 + l * b->pitch + b->row0, proj + (v - b->v0) * b->nu + b->row0, bytes);
            else
                memset(line0 + l * b->pitch + b->row0, 0, bytes);
        }
        return;
    }
    for (int mirror = 0; mirror <= b->tiles.layout.mirror; mirror++)
        for (int64_t m = b->row0; m < b->row1; m += LANES)
            for (int64_t u = l0; u < l1; u += LANES) {
                vf r[LANES];
                for (int a = 0; a < LANES; a++)
                    r[a] = frame_samples(b, view, proj, m + a, u, mirror);
                transpose(r, r, 1);
                float *dst = line0 + u * b->pitch + mirror * b->mirror_offset + m;
                for (int a = 0; a < LANES && u + a < l1; a++)
                    store(dst + a * b->pitch, r[a]);
            }
}

/* --- a tile's columns ----------------------------------------------------------------------------------- */

enum { MISS = INT32_MIN };

/* What GROUP views are to the columns of a tile, the columns in walking order. */
struct columns {
    int n;                              /* views present */
    const float *line0[GROUP];
    _Alignas(64) int64_t v0[GROUP][COLUMNS]; /* row at k = 0, 2^-32 */
    int64_t dv[GROUP][COLUMNS];         /* rows per voxel, 2^-STEP_BITS */
    int32_t line[GROUP][COLUMNS];       /* the nearer of the two lines, or MISS: the detector is not met */
    int32_t other[GROUP][COLUMNS];      /* the other one: +1 or -1 */
    float ratio[GROUP][COLUMNS];        /* weight of the other line over that of the nearer */
    float weight[GROUP][COLUMNS];       /* of the nearer line, with 1 / w^2 */
    int64_t pitch, row0, rows;          /* of the lines; stored rows */
    vdouble dv_lo, dv_hi;               /* of the columns that hit, in each place of the vectors */
};

/* A group's walk through a tile: back and forth along the axis along which u changes less, so that columns
 * that follow each other use the same lines. Position n of it, as the column's place in the tile. */
INLINE int walk_place(bool inner_y, int n)
{
    const int outer = n / TILE, inner = outer & 1 ? TILE - 1 - n % TILE : n % TILE;
    return inner_y ? inner * TILE + outer : outer * TILE + inner;
}

static void columns_of_view(const struct vp_backproject *b, const double P[12], bool inner_y, int64_t i0, int64_t j0,
                            struct columns *c, int s)
{
    const vdouble none = {};
    vdouble place = {};
    for (int p = 0; p < PLACES; p++)
        place[p] = p;
    const int inner = inner_y ? 1 : 0;
    for (int n = 0; n < COLUMNS; n += PLACES) {
        const int at = walk_place(inner_y, n);
        const double i = (double)(i0 + at % TILE), j = (double)(j0 + at / TILE);
        const vdouble along = n / TILE & 1 ? -place : place;
        const vdouble w = along * P[8 + inner] + (P[8] * i + P[9] * j + P[11]);
        const vlong in_front = w > VP_ORBIT_NEAREST;
        const vdouble f = 1 / select(in_front, w, none + 1), dv = P[6] * f;
        const vdouble u_all = (along * P[inner] + (P[0] * i + P[1] * j + P[3])) * f;
        const vlong hit = in_front & (u_all > -1) & (u_all < (double)b->lines);
        const vdouble u = select(hit, u_all, none);
        const vdouble v = select(hit, (along * P[4 + inner] + (P[4] * i + P[5] * j + P[7])) * f, none);
        const vint_half left = floor_int(u, 1);
        const vdouble a = u - __builtin_convertvector(left, vdouble);
        const vlong right = a > 0.5;
        const vdouble big = select(right, a, 1 - a);
        const vint_half right_half = __builtin_convertvector(right, vint_half);
        *(vlong *)&c->v0[s][n] = round_vector(v * 0x1p32);
        *(vlong *)&c->dv[s][n] = round_vector(select(hit, dv, none) * 0x1p40);
        const vint_half hit_half = __builtin_convertvector(hit, vint_half);
        *(vint_half *)&c->line[s][n] = ((left - right_half) & hit_half) | (~hit_half & MISS);
        *(vint_half *)&c->other[s][n] = right_half * 2 + 1;
        *(vfloat_half *)&c->ratio[s][n] = __builtin_convertvector((1 - big) / big, vfloat_half);
        *(vfloat_half *)&c->weight[s][n] = __builtin_convertvector(f * f * big, vfloat_half);
        c->dv_lo = select(hit & (dv < c->dv_lo), dv, c->dv_lo);
        c->dv_hi = select(hit & (dv > c->dv_hi), dv, c->dv_hi);
    }
}

/* --- column kernels ------------------------------------------------------------------------------------- */

/* One view's part of a unit. */
struct beam {
    const float *p;         /* nearer line, row 0 of the stored frame + shift of the half */
    ptrdiff_t other;        /* to the other line */
    int64_t v, dv;          /* position at the unit's first voxel and step, 2^-32 */
    int64_t step;           /* 2^-STEP_BITS */
    float ratio, weight;
};

/* UNIT voxels of column n from k on, in the halves of the volume: where their sums are. */
struct unit {
    const struct columns *c;
    int n, first;            /* first: the first vector that is wanted */
    int64_t k;
    ptrdiff_t shift, mirror; /* floats from a row to the lower half's, and on to the other half's */
    float *half[2];
};

INLINE struct beam beam_of(const struct unit *u, int s)
{
    const struct columns *c = u->c;
    const int n = u->n;
    const int64_t step = c->dv[s][n];
    return (struct beam){
        .p = c->line0[s] + c->line[s][n] * c->pitch + u->shift,
        .other = c->other[s][n] * c->pitch,
        .v = c->v0[s][n] + ((u->k * step) >> (STEP_BITS - 32)),
        .dv = step >> (STEP_BITS - 32),
        .step = step,
        .ratio = c->ratio[s][n],
        .weight = c->weight[s][n],
    };
}

/* Do loads of [row, row + PAD) miss all stored rows (and perhaps the buffer)? */
INLINE bool beyond_rows(const struct columns *c, int64_t row)
{
    return (uint64_t)(row - c->row0 + PAD) >= (uint64_t)(c->rows + PAD);
}

INLINE void add_to_voxels(const struct unit *u, vf sum[2][VECTORS], int halves, int count, float scale)
{
#pragma GCC unroll 4
    for (int b = 0; b < count; b++)
#pragma GCC unroll 2
        for (int h = 0; h < halves; h++)
            store(u->half[h] + LANES * b, vf_at(u->half[h] + LANES * b) + sum[h][b] * scale);
}

/* The two lines interpolated, LANES rows from p on. Without the nearer line's weight. */
INLINE vf lerp_lines(const float *p, ptrdiff_t other, float ratio)
{
    return vf_at(p) + ratio * vf_at(p + other);
}

#if HAVE_PERMUTE
/* A lookup's fraction as an integer has this value at one; sums are kept in this scale. */
#define FRACTION_ONE (LANES == 16 ? 0x1p32f : 0x1p31f) /* (AVX2 converts signed integers only) */

/* Lookup kernel. Vector b of a unit is looked up in the 2 LANES rows that start start_of(b) vectors after
 * the unit's base: x = rows at its positions, y = the rows after. Which starts serve depends on the rows
 * per voxel: */
enum shape {
    ONE,    /* all vectors in the same two: few rows per voxel */
    PAIRS,  /* two by two: around 1/2 */
    CHAIN,  /* one after the other: around 1 */
    FREE,   /* each in its own, found anew: up to nearly 2 */
};

INLINE int start_of(enum shape shape, int b)
{
    return shape == CHAIN ? b : shape == PAIRS ? b / 2 : 0;
}

/* Rows by which the base must precede the unit's first position, so that every vector's window begins early enough:
 * the largest of LANES (start - b step), which is linear in the step; both 2^-STEP_BITS. Rounded down, it is enough. */
INLINE int64_t lead_of(enum shape shape, int64_t step)
{
    const int64_t one = INT64_C(1) << STEP_BITS, spare = (int64_t)(1.001 * 0x1p40);
    const int64_t lead = shape == CHAIN ? (VECTORS - 1) * LANES * (one - step) + spare
                       : shape == PAIRS ? LANES * (one - 2 * step) + spare : 0;
    return lead > 0 ? lead : 0;
}

/* Convex in dv, so it holds between two values where it holds. */
static bool shape_fits(enum shape shape, double dv)
{
    if (shape == FREE)
        return (LANES - 1) * dv + 1.01 < WINDOW - 1;
    const double lead = (double)lead_of(shape, (int64_t)(dv * 0x1p40)) * 0x1p-40;
    for (int b = 0; b < VECTORS; b++) {
        const double last = lead + 1.01 + (LANES * b + LANES - 1) * dv;
        if (!(last < LANES * start_of(shape, b) + WINDOW - 1))
            return false;
    }
    return true;
}

INLINE void lookup_unit(const struct unit *u, int halves, int first, int count, enum shape shape)
{
    const struct columns *c = u->c;
    const vu lane = LANE_NUMBERS;
    vf sum[2][VECTORS] = {};

    for (int s = 0; s < c->n; s++) {
        if (c->line[s][u->n] == MISS)
            continue;
        const struct beam beam = beam_of(u, s);
        const int64_t lead = lead_of(shape, beam.step) >> STEP_BITS, row = (beam.v >> 32) - lead;
        if (beyond_rows(c, row))
            continue;
        const int drop = STEP_BITS - LOOKUP_SHIFT;
        const uint32_t step = (uint32_t)((beam.step + (1 << (drop - 1))) >> drop);
        const uint32_t begin = ((uint32_t)beam.v >> (32 - LOOKUP_SHIFT)) + ((uint32_t)lead << LOOKUP_SHIFT);
        const uint32_t vector_step = step * LANES, window = (uint32_t)LANES << LOOKUP_SHIFT;
        const vu ramp = lane * step;
        vu pos = ramp + (begin + (uint32_t)first * vector_step - (uint32_t)start_of(shape, first) * window);
        const float *p = beam.p + row;
        vf a[2], z[2];
#pragma GCC unroll 4
        for (int b = 0; b < count; b++) {
            const int v = first + b, start = start_of(shape, v);
            const bool moved = b > 0 && start != start_of(shape, v - 1);
            if (shape == FREE) {
                const int64_t at = beam.v + v * LANES * beam.dv;
                p = beam.p + (at >> 32);
                pos = ramp + ((uint32_t)at >> (32 - LOOKUP_SHIFT));
            } else if (b > 0) {
                pos += moved ? vector_step - window : vector_step;
            }
            if (shape == FREE || b == 0 || moved) {
#pragma GCC unroll 2
                for (int h = 0; h < halves; h++) {
                    const float *q = p + h * u->mirror + LANES * start;
                    a[h] = shape == FREE || b == 0 ? lerp_lines(q, beam.other, beam.ratio) : z[h];
                    z[h] = lerp_lines(q + LANES, beam.other, beam.ratio);
                }
            }
            /* lookups use the low bits only */
            const vu index = (pos >> LOOKUP_SHIFT) | (pos << (32 - LOOKUP_SHIFT));
#if LANES == 16
            const vf fraction = __builtin_convertvector(index, vf);
#else
            const vf fraction = __builtin_convertvector((vi)(index >> 1), vf);
#endif
            const vf w1 = fraction * beam.weight, w0 = beam.weight * FRACTION_ONE - w1;
#pragma GCC unroll 2
            for (int h = 0; h < halves; h++) {
                sum[h][b] += w0 * shuffle(a[h], z[h], (vi)index);
                sum[h][b] += w1 * shuffle(a[h], z[h], (vi)(index + 1));
            }
        }
    }
    add_to_voxels(u, sum, halves, count, 1 / FRACTION_ONE);
}
#endif

#if LANES < 16
/* March kernel, for about one row per voxel. Lane l of a vector lies at c + l + t, |t| <= 1, where c is an
 * integer and t = f - 1/2 + (l - (LANES - 1) / 2) (dv - 1), f the fraction of the vector's middle; so it
 * takes its share of rows c + l - 1, c + l, c + l + 1 with weights max(0, -t), 1 - |t|, max(0, t): three
 * shifted loads, no lookup. */
#define MARCH_REACH (0.9999 / (LANES - 1)) /* from one row */
/* Vectors of rows that `count` vectors of voxels meet. */
#define MARCH_ROWS(count) ((((count) - 1) * LANES * LANES / (LANES - 1) + 1 + LANES + 2 + LANES - 1) / LANES)

INLINE void march_unit(const struct unit *u, int halves, int first, int count)
{
    const struct columns *c = u->c;
    const int vectors = MARCH_ROWS(count);
    struct {
        vf line[2][MARCH_ROWS(VECTORS)];
        float start[VECTORS], slope, weight;
        int32_t offset[VECTORS];
    } view[GROUP];
    int n_views = 0;

    /* all lines first: when they are read back, unaligned, they have left the store buffer */
    for (int s = 0; s < c->n; s++) {
        if (c->line[s][u->n] == MISS)
            continue;
        const struct beam beam = beam_of(u, s);
        const int64_t middle = beam.v + first * LANES * beam.dv + (LANES - 1) * beam.dv / 2;
        const int64_t row = (middle >> 32) - LANES / 2;
        if (beyond_rows(c, row))
            continue;
#pragma GCC unroll 2
        for (int h = 0; h < halves; h++)
#pragma GCC unroll 8
            for (int m = 0; m < vectors; m++)
                view[n_views].line[h][m] = lerp_lines(beam.p + row + h * u->mirror + m * LANES, beam.other,
                                                      beam.ratio);
#pragma GCC unroll 4
        for (int b = 0; b < count; b++) {
            const int64_t pos = middle + b * LANES * beam.dv;
            view[n_views].start[b] = beam.weight * 0x1p-33f * (float)(int32_t)((uint32_t)pos - 0x80000000u);
            view[n_views].offset[b] = (int32_t)((pos >> 32) - (middle >> 32));
        }
        view[n_views].slope = beam.weight * 0x1p-41f * (float)(beam.step - (INT64_C(1) << STEP_BITS));
        view[n_views++].weight = beam.weight;
    }

    const vf lane = LANE_NUMBERS, from_middle = lane - 0.5f * (LANES - 1);
    vf sum[2][VECTORS] = {};
    for (int s = 0; s < n_views; s++) {
        const vf ramp = from_middle * view[s].slope;
        const float weight = view[s].weight;
#pragma GCC unroll 4
        for (int b = 0; b < count; b++) {
            const vf t = ramp + view[s].start[b]; /* half of it, times the weight */
            const vf size = (vf)((vi)t & 0x7fffffff);
            const vf before = size - t, at = weight - 2 * size, after = size + t;
#pragma GCC unroll 2
            for (int h = 0; h < halves; h++) {
                const float *q = (const float *)view[s].line[h] + view[s].offset[b];
                sum[h][b] += before * vf_at(q);
                sum[h][b] += at * vf_at(q + 1);
                sum[h][b] += after * vf_at(q + 2);
            }
        }
    }
    add_to_voxels(u, sum, halves, count, 1);
}

#endif

/* Gather kernel: any number of rows per voxel. */
INLINE void gather_unit(const struct unit *u, int halves, int first, int count)
{
    const struct columns *c = u->c;
    float sum[2][UNIT] = {};
    for (int s = 0; s < c->n; s++) {
        if (c->line[s][u->n] == MISS)
            continue;
        const struct beam beam = beam_of(u, s);
        for (int h = 0; h < halves; h++) {
            const float *p = beam.p + h * u->mirror;
#pragma omp simd
            for (int l = 0; l < count * LANES; l++) {
                const int64_t pos = beam.v + (((first * LANES + l) * beam.step) >> (STEP_BITS - 32));
                int64_t row = pos >> 32; /* kept in the zeros around the line */
                row = row < c->row0 - 2 ? c->row0 - 2 : row;
                row = row > c->row0 + c->rows ? c->row0 + c->rows : row;
                const float x = p[row] + beam.ratio * p[row + beam.other];
                const float y = p[row + 1] + beam.ratio * p[row + 1 + beam.other];
                const float w1 = beam.weight * 0x1p-31f * (float)(int32_t)((uint32_t)pos >> 1);
                const float w0 = beam.weight - w1;
                sum[h][l] += w0 * x + w1 * y;
            }
        }
    }
    for (int h = 0; h < halves; h++)
        for (int l = 0; l < count * LANES; l++)
            u->half[h][l] += sum[h][l];
}

/* The kernels, for a whole unit or one block of it, for one half or both. */
typedef void unit_kernel(const struct unit *u);

struct kernels { unit_kernel *whole[2], *block[2]; }; /* [halves - 1] */

enum { BLOCK_VECTORS = BLOCK / LANES };

#define KERNELS(name, body, ...) \
    static void name##_whole_1(const struct unit *u) { body(u, 1, 0, VECTORS __VA_ARGS__); } \
    static void name##_whole_2(const struct unit *u) { body(u, 2, 0, VECTORS __VA_ARGS__); } \
    static void name##_block_1(const struct unit *u) { body(u, 1, u->first, BLOCK_VECTORS __VA_ARGS__); } \
    static void name##_block_2(const struct unit *u) { body(u, 2, u->first, BLOCK_VECTORS __VA_ARGS__); } \
    static const struct kernels name = {{name##_whole_1, name##_whole_2}, {name##_block_1, name##_block_2}};

KERNELS(gather, gather_unit)
#if HAVE_PERMUTE
KERNELS(lookup_one, lookup_unit, , ONE)
KERNELS(lookup_pairs, lookup_unit, , PAIRS)
KERNELS(lookup_chain, lookup_unit, , CHAIN)
KERNELS(lookup_free, lookup_unit, , FREE)
#endif
#if LANES < 16
KERNELS(march, march_unit)
#endif

/* The fastest kernel for all of a tile's rows per voxel. */
static const struct kernels *pick_kernels(double lo, double hi)
{
#if LANES < 16
    if (lo >= 1 - MARCH_REACH && hi <= 1 + MARCH_REACH)
        return &march;
#endif
#if HAVE_PERMUTE
    static const struct { enum shape shape; const struct kernels *kernels; } lookup[] = {
        {ONE, &lookup_one}, {PAIRS, &lookup_pairs}, {CHAIN, &lookup_chain}, {FREE, &lookup_free}
    };
    for (size_t i = 0; i < sizeof lookup / sizeof *lookup; i++)
        if (shape_fits(lookup[i].shape, lo) && shape_fits(lookup[i].shape, hi))
            return lookup[i].kernels;
#endif
    return &gather;
}

/* One column of one segment. */
INLINE void column_segment(const struct kernels *kernels, const struct vp_tile_segment *seg, struct unit *u)
{
    const int end = (seg->first + seg->count) * BLOCK;
    for (int at = seg->first * BLOCK, step; at < end; at += step) {
        const int unit = at / UNIT * UNIT;
        const bool whole = at == unit && at + UNIT <= end;
        u->k = seg->k + unit;
        u->first = (at - unit) / LANES;
        (whole ? kernels->whole : kernels->block)[seg->halves - 1](u);
        step = whole ? UNIT : BLOCK;
        u->half[0] += step;
        u->half[1] += step;
    }
}

/* A group of the batch in segment s of a tile; the kernels for it, NULL if no voxel meets the detector. */
static const struct kernels *tile_columns(const struct vp_backproject *b, int slot0, int s, bool *inner_y,
                                          int64_t i0, int64_t j0, struct columns *c)
{
    c->n = 0;
    c->pitch = b->pitch;
    c->row0 = b->row0;
    c->rows = b->row1 - b->row0;
    c->dv_lo = (vdouble){} + 1e300;
    c->dv_hi = (vdouble){} - 1;
    for (int slot = slot0; slot < slot0 + GROUP; slot++) {
        double scaled[12];
        const double *P = matrix_in(b, slot, s, scaled);
        if (!P)
            continue;
        if (c->n == 0)
            *inner_y = P[0] * P[0] > P[1] * P[1];
        c->line0[c->n] = vp_bp_line0(b, slot);
        columns_of_view(b, P, *inner_y, i0, j0, c, c->n);
        c->n++;
    }
    double lo = c->dv_lo[0], hi = c->dv_hi[0];
    for (int p = 1; p < PLACES; p++) {
        lo = c->dv_lo[p] < lo ? c->dv_lo[p] : lo;
        hi = c->dv_hi[p] > hi ? c->dv_hi[p] : hi;
    }
    return hi < 0 ? NULL : pick_kernels(lo, hi);
}

/* A group of the batch into segments [s0, s1) of a tile, which see its views alike. */
static void fast_group(const struct vp_backproject *b, int64_t tile, int slot, int s0, int s1)
{
    struct columns columns;
    bool inner_y = false;
    const int64_t i0 = tile % b->tiles.tiles_x * TILE, j0 = tile / b->tiles.tiles_x * TILE;
    const struct kernels *kernels = tile_columns(b, slot, s0, &inner_y, i0, j0, &columns);
    if (!kernels)
        return;
    for (int s = s0; s < s1; s++) {
        const struct vp_tile_segment *seg = &b->tiles.segments[s];
        const ptrdiff_t depth = (ptrdiff_t)seg->count * BLOCK, column = depth * seg->halves;
        float *const start = b->volume + tile * b->tiles.tile_floats + seg->offset;
        for (int n = 0; n < COLUMNS; n++) {
            const int place = walk_place(inner_y, n), next = walk_place(inner_y, n < COLUMNS - 1 ? n + 1 : n);
            if (i0 + place % TILE >= b->tiles.n[0] || j0 + place / TILE >= b->tiles.n[1])
                continue;
            for (ptrdiff_t z = 0; z < column; z += 16)
                __builtin_prefetch(start + next * column + z, 1);
            float *const voxels = start + place * column;
            column_segment(kernels, seg,
                           &(struct unit){.c = &columns, .n = n, .shift = seg->high ? b->mirror_offset : 0,
                                          .mirror = b->mirror_offset,
                                          .half = {voxels, seg->halves == 2 ? voxels + depth : voxels}});
        }
    }
}

/* --- any matrices --------------------------------------------------------------------------------------- */

enum { PARTS = GROUP / PLACES };

/* The views of a group, PLACES at once; absent ones are zero and see nothing. */
struct general_group {
    vdouble P[12][PARTS];
    const float *line0[GROUP];
};

/* Where a voxel is seen by the views of a group. */
struct sight { vdouble u[PARTS], v[PARTS], w[PARTS], f[PARTS]; };

/* LANES voxels of a column, for one view: not seen; between two lines; between more; to be taken voxel by
 * voxel. */
enum { OUTSIDE, PAIR, SEVERAL, SINGLE };

/* The views' parts of LANES voxels of a column. Lane l is at depth w0 (1 + l e), so with g = 1 / (1 + l e):
 * u = u0 + l du g, v = v0 + l dv g. */
struct general_block {
    _Alignas(64) int32_t kind[GROUP];
    int32_t row[GROUP];                 /* first of the window */
    int32_t line[GROUP], last[GROUP];   /* lines that are met */
    int32_t start[GROUP], step[GROUP];  /* v0 - row and dv, 2^-LOOKUP_SHIFT, modulo 2^32 */
    float e[GROUP], u[GROUP], du[GROUP], dv[GROUP], weight[GROUP];  /* u from `line` on; dv as step */
};

INLINE vdouble select_min(vdouble a, vdouble b)
{
    return select(a < b, a, b);
}

INLINE vdouble select_max(vdouble a, vdouble b)
{
    return select(a > b, a, b);
}

INLINE void sight_at(const struct general_group *g, const vdouble base[3][PARTS], double k, struct sight *out)
{
    for (int p = 0; p < PARTS; p++) {
        const vdouble w = base[2][p] + k * g->P[10][p], f = 1 / select(w > VP_ORBIT_NEAREST, w, (vdouble){} + 1);
        out->w[p] = w;
        out->f[p] = f;
        out->u[p] = (base[0][p] + k * g->P[2][p]) * f;
        out->v[p] = (base[1][p] + k * g->P[6][p]) * f;
    }
}

/* From the sights of the first voxel and of the one after the last. */
INLINE void general_block_of(const struct general_group *g, const struct sight *a, const struct sight *z,
                             int64_t lines, int64_t rows, struct general_block *out)
{
    const double spare = 1e-4;
    const vdouble none = {}, before = none - 1, after_lines = none + (double)lines, after_rows = none + (double)rows;
    for (int p = 0; p < PARTS; p++) {
        const vdouble u0 = select_min(a->u[p], z->u[p]) - spare, u1 = select_max(a->u[p], z->u[p]) + spare;
        const vdouble v0 = select_min(a->v[p], z->v[p]) - spare, v1 = select_max(a->v[p], z->v[p]) + spare;
        const vlong in_front = select_min(a->w[p], z->w[p]) > VP_ORBIT_NEAREST;
        const vlong behind = select_max(a->w[p], z->w[p]) <= VP_ORBIT_NEAREST;
        const vlong misses = (u1 <= before) | (u0 >= after_lines) | (v1 <= before) | (v0 >= after_rows);
        const vint_half row = floor_int(select_min(select_max(v0, none - 64), after_rows), 1024);
        const vdouble row_d = __builtin_convertvector(row, vdouble);
        const vlong windowed = in_front & (v1 - row_d < WINDOW - 1) & (v0 >= row_d);
        const vint_half line = floor_int(select_min(select_max(u0, before), after_lines), 1024);
        const vint_half last = floor_int(select_min(select_max(u1, before), after_lines - 1), 1024) + 1;
        const vdouble line_d = __builtin_convertvector(line, vdouble);
        const vint_half pair = __builtin_convertvector((u0 >= line_d) & (u1 <= line_d + 1), vint_half);
        const vint_half seen = ~__builtin_convertvector(behind | (in_front & misses), vint_half);
        const vint_half windowed_half = __builtin_convertvector(windowed, vint_half);

        const int n = p * PLACES;
        const vdouble f = a->f[p], scale = none + (double)(1 << LOOKUP_SHIFT);
        const vdouble dv = select(windowed, (g->P[6][p] - a->v[p] * g->P[10][p]) * f * scale, none);
        const vdouble v = select(windowed, (a->v[p] - row_d) * scale, none);
        const vint_half lookup = SEVERAL + (pair & (PAIR - SEVERAL));
        *(vint_half *)&out->kind[n] = seen & ((windowed_half & lookup) | (~windowed_half & SINGLE));
        *(vint_half *)&out->row[n] = row;
        *(vint_half *)&out->line[n] = line;
        *(vint_half *)&out->last[n] = last;
        *(vint_half *)&out->start[n] = __builtin_convertvector(round_vector(v), vint_half);
        *(vint_half *)&out->step[n] = __builtin_convertvector(round_vector(dv), vint_half);
        *(vfloat_half *)&out->e[n] = __builtin_convertvector(g->P[10][p] * f, vfloat_half);
        *(vfloat_half *)&out->u[n] = __builtin_convertvector(a->u[p] - line_d, vfloat_half);
        const vdouble du = (g->P[2][p] - a->u[p] * g->P[10][p]) * f;
        *(vfloat_half *)&out->du[n] = __builtin_convertvector(du, vfloat_half);
        *(vfloat_half *)&out->dv[n] = __builtin_convertvector(dv, vfloat_half);
        *(vfloat_half *)&out->weight[n] = __builtin_convertvector(f * f, vfloat_half);
    }
}

/* Voxel by voxel, in double. */
static void single_voxels(const struct vp_backproject *b, const float *line0, const double P[12], double i,
                          double j, double k, float *sum)
{
    for (int l = 0; l < LANES; l++) {
        const double z = k + l, w = P[8] * i + P[9] * j + P[10] * z + P[11];
        if (!(w > VP_ORBIT_NEAREST))
            continue;
        const double f = 1 / w, u = (P[0] * i + P[1] * j + P[2] * z + P[3]) * f;
        const double v = (P[4] * i + P[5] * j + P[6] * z + P[7]) * f;
        if (!(u > -1 && u < (double)b->lines && v > (double)(b->row0 - 1) && v < (double)b->row1))
            continue;
        const int64_t m = (int64_t)(u + 1) - 1, r = (int64_t)(v - (double)b->row0 + 1) + b->row0 - 1;
        const double c = u - (double)m, d = v - (double)r;
        const float *p = line0 + m * b->pitch + r, *q = p + b->pitch;
        sum[l] += (float)(f * f * ((1 - c) * ((1 - d) * p[0] + d * p[1]) + c * ((1 - d) * q[0] + d * q[1])));
    }
}

#if HAVE_PERMUTE
/* One view's share of LANES voxels: the rows of each line that is met are looked up; along u linear
 * between two lines, or the hat function of the distance from each of several. */
INLINE vf windowed_voxels(const struct general_block *g, int s, const float *line0, ptrdiff_t pitch)
{
    const vu lane = LANE_NUMBERS;
    const vf lane_f = LANE_NUMBERS;
    const vf le = lane_f * g->e[s];
    const float end = g->e[s] * LANES;
    const vf near = end > -0.01f && end < 0.01f ? 1 - le * (1 - le * (1 - le)) : 1 / (1 + le);
    const vf along = lane_f * near;
    vf u = along * g->du[s] + g->u[s];
    const vi bend = __builtin_convertvector((along - lane_f) * g->dv[s], vi);
    const vu pos = lane * (uint32_t)g->step[s] + (uint32_t)g->start[s] + (vu)bend;
    const vu index = (pos >> LOOKUP_SHIFT) | (pos << (32 - LOOKUP_SHIFT)), next = index + 1;
    const vf d = __builtin_convertvector((vi)(index >> 1), vf) * 0x1p-31f;
    const float *p = line0 + g->line[s] * pitch + g->row[s];
    vf x, y; /* interpolated along u, at a voxel's row and at the next */
    if (g->kind[s] == PAIR) {
        const vf a = vf_at(p), b = vf_at(p + LANES), c = vf_at(p + pitch), e = vf_at(p + pitch + LANES);
        const vf x0 = shuffle(a, b, (vi)index), y0 = shuffle(a, b, (vi)next);
        x = x0 + u * (shuffle(c, e, (vi)index) - x0);
        y = y0 + u * (shuffle(c, e, (vi)next) - y0);
    } else {
        x = y = (vf){};
        for (int line = g->line[s]; line <= g->last[s]; line++, p += pitch) {
            const vf a = vf_at(p), b = vf_at(p + LANES);
            const vf hat = 1 - (vf)((vi)u & 0x7fffffff);
            const vf weight = (vf)((vi)hat & (hat > 0));
            x += weight * shuffle(a, b, (vi)index);
            y += weight * shuffle(a, b, (vi)next);
            u -= 1;
        }
    }
    return (x + d * (y - x)) * (near * near * g->weight[s]);
}
#endif

static void general_column(const struct vp_backproject *b, const struct general_group *g,
                           const struct vp_tile_segment *seg, double i, double j, float *out)
{
    vdouble base[3][PARTS];
    for (int row = 0; row < 3; row++)
        for (int p = 0; p < PARTS; p++)
            base[row][p] = g->P[4 * row][p] * i + g->P[4 * row + 1][p] * j + g->P[4 * row + 3][p];
    struct sight at, next;
    struct general_block block;
    const double k0 = (double)(seg->k + (int64_t)seg->first * BLOCK);
    sight_at(g, base, k0, &at);
    for (int l = 0; l < seg->count * BLOCK; l += LANES) {
        sight_at(g, base, k0 + l + LANES, &next);
        general_block_of(g, &at, &next, b->lines, b->rows, &block);
        vf sum = {};
        for (int s = 0; s < GROUP; s++) {
            if (block.kind[s] == OUTSIDE)
                continue;
#if HAVE_PERMUTE
            if (block.kind[s] != SINGLE) {
                sum += windowed_voxels(&block, s, g->line0[s], b->pitch);
                continue;
            }
#endif
            double P[12];
            for (int c = 0; c < 12; c++)
                P[c] = g->P[c][s / PLACES][s % PLACES];
            float one[LANES] = {0};
            single_voxels(b, g->line0[s], P, i, j, k0 + l, one);
            sum += vf_at(one);
        }
        store(out + l, vf_at(out + l) + sum);
        at = next;
    }
}

static void general_group(const struct vp_backproject *b, int64_t tile, int slot0, int s0, int s1)
{
    const int64_t i0 = tile % b->tiles.tiles_x * TILE, j0 = tile / b->tiles.tiles_x * TILE;
    struct general_group g;
    bool any = false;
    for (int s = 0; s < GROUP; s++) {
        double scaled[12];
        const double *P = matrix_in(b, slot0 + s, s0, scaled);
        for (int c = 0; c < 12; c++)
            g.P[c][s / PLACES][s % PLACES] = P ? P[c] : 0;
        g.line0[s] = vp_bp_line0(b, slot0 + s);
        any = any || P;
    }
    if (!any)
        return;
    for (int s = s0; s < s1; s++) {
        const struct vp_tile_segment *seg = &b->tiles.segments[s];
        float *const start = b->volume + tile * b->tiles.tile_floats + seg->offset;
        for (int n = 0; n < COLUMNS; n++) {
            const int place = walk_place(true, n);
            const int64_t i = i0 + place % TILE, j = j0 + place / TILE;
            if (i < b->tiles.n[0] && j < b->tiles.n[1])
                general_column(b, &g, seg, (double)i, (double)j, start + (ptrdiff_t)place * seg->count * BLOCK);
        }
    }
}

/* --- few slices ----------------------------------------------------------------------------------------- */

typedef int64_t pair __attribute__((may_alias)); /* of floats: a row of a line and the next */
typedef int64_t pair_u __attribute__((aligned(4), may_alias));
typedef uint32_t vuint_half __attribute__((vector_size(4 * PLACES), may_alias));
typedef uint64_t vulong __attribute__((vector_size(8 * PLACES), may_alias));

/* a[0], b[0], a[1], b[1], ... in single precision */
INLINE vf interleave(vdouble a, vdouble b)
{
    const vfloat_half x = __builtin_convertvector(a, vfloat_half);
    const vfloat_half y = __builtin_convertvector(b, vfloat_half);
    return (vf)(__builtin_convertvector((vuint_half)x, vulong)
                    | __builtin_convertvector((vuint_half)y, vulong) << 32);
}

/* A tile's slice and one view. */
struct neighbours {
    _Alignas(64) int64_t offset[COLUMNS];               /* of the first of four neighbours, from line 0 */
    vf across[COLUMNS / PLACES], along[COLUMNS / PLACES];   /* weights, in pairs */
    _Alignas(64) pair near[COLUMNS], far[COLUMNS];
};

/* P is folded for the slice: columns x, y, 1. */
INLINE void find_neighbours(const struct vp_backproject *b, const double P[3][3], int64_t i0, int64_t j0,
                            struct neighbours *out)
{
    vdouble x = {};
    for (int p = 0; p < PLACES; p++)
        x[p] = p;
    const vdouble none = {};
    const double lines = (double)b->lines, rows = (double)b->rows, pitch = (double)b->pitch;
    const double row0 = (double)b->row0;
    for (int n = 0; n < COLUMNS; n += PLACES) {
        const double i = (double)(i0 + n % TILE), j = (double)(j0 + n / TILE);
        const vdouble w = x * P[2][0] + (P[2][0] * i + P[2][1] * j + P[2][2]);
        const vlong in_front = w > VP_ORBIT_NEAREST;
        const vdouble f = 1 / select(in_front, w, none + 1);
        const vdouble u_all = (x * P[0][0] + (P[0][0] * i + P[0][1] * j + P[0][2])) * f;
        const vdouble v_all = (x * P[1][0] + (P[1][0] * i + P[1][1] * j + P[1][2])) * f;
        const vlong hit = in_front & (u_all > -1) & (u_all < lines) & (v_all > -1) & (v_all < rows);
        const vdouble u = select(hit, u_all, none), v = select(hit, v_all, none);
        const vdouble line = __builtin_convertvector(floor_int(u, 1), vdouble), a = u - line;
        const vdouble row = __builtin_convertvector(floor_int(v, 1), vdouble), c = v - row;
        const vdouble zeros = none + (row0 - 2); /* before line 0 */
        *(vlong *)&out->offset[n] = round_vector(select(hit, line * pitch + row, zeros));
        out->across[n / PLACES] = interleave(a, a);
        out->along[n / PLACES] = interleave(f * f * (1 - c), f * f * c);
    }
}

static void few_slices_tile(const struct vp_backproject *b, int64_t tile, int s0, int s1)
{
    const int64_t i0 = tile % b->tiles.tiles_x * TILE, j0 = tile / b->tiles.tiles_x * TILE;
    struct neighbours at;
    for (int z = s0; z < s1; z++)
        for (int slot0 = 0; slot0 < b->batch; slot0 += GROUP) {
            vf sum[COLUMNS / PLACES] = {};
            for (int slot = slot0; slot < slot0 + GROUP; slot++) {
                double scaled[12];
                const double *M = matrix_in(b, slot, z, scaled), k = (double)b->tiles.segments[z].k;
                if (!M)
                    continue;
                const double P[3][3] = {{M[0], M[1], M[2] * k + M[3]}, {M[4], M[5], M[6] * k + M[7]},
                                        {M[8], M[9], M[10] * k + M[11]}};
                const float *line0 = vp_bp_line0(b, slot);
                find_neighbours(b, P, i0, j0, &at);
                for (int n = 0; n < COLUMNS; n++) {
                    const float *q = line0 + at.offset[n];
                    at.near[n] = *(const pair_u *)q;
                    at.far[n] = *(const pair_u *)(q + b->pitch);
                }
                for (int m = 0; m < COLUMNS / PLACES; m++) {
                    const vf near = vf_at((const float *)(at.near + m * PLACES));
                    const vf far = vf_at((const float *)(at.far + m * PLACES));
                    sum[m] += (near + at.across[m] * (far - near)) * at.along[m];
                }
            }
            float *out = b->volume + tile * b->tiles.tile_floats + b->tiles.segments[z].offset;
            for (int n = 0; n < COLUMNS; n++)
                out[n] += sum[n / PLACES][n % PLACES * 2] + sum[n / PLACES][n % PLACES * 2 + 1];
        }
}

/* -------------------------------------------------------------------------------------------------------- */

static void add_to_tile(const struct vp_backproject *b, int64_t tile, int s0, int s1)
{
    if (b->few) {
        few_slices_tile(b, tile, s0, s1);
        return;
    }
    for (int slot = 0; slot < b->batch; slot += GROUP)
        for (int from = s0, to; from < s1; from = to) {
            to = b->scale ? from + 1 : s1;
            (b->fast ? fast_group : general_group)(b, tile, slot, from, to);
        }
}

const struct vp_bp_isa PASTE(vp_bp_isa_, VP_ISA) = {
    .name = TEXT(VP_ISA),
    .want_refine = LANES < 16,
    .transpose = transpose_view,
    .tile = add_to_tile,
};
