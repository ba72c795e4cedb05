/* SPDX-License-Identifier: BSD-3-Clause */
/* Back-projection along columns of voxels for which u does not change; compiled once for each instruction set.
 *
 * One column of voxels and one view meet two neighbouring lines of the transposed view (u is constant), in
 * rows that advance evenly. A kernel takes a unit of four vectors of voxels, interpolates the two lines
 * once for all rows that the unit meets, and looks the voxels' rows up in registers; the sums over GROUP
 * views stay in registers too. Positions along the line are fixed point, 2^-32 rows, from the
 * double-precision geometry of the column, so a voxel's bits do not depend on where the work was cut. */
#include "ct/backproject_lanes.h"

/* --- a tile's columns ----------------------------------------------------------------------------------- */

enum { MISS = INT32_MIN };

/* Coefficients of GROUP views for the columns of a tile, in walking order. */
struct columns {
    int n;                              /* views present */
    const float *line0[GROUP];
    _Alignas(64) int64_t v0[GROUP][COLUMNS]; /* row at k = 0, 2^-32 */
    int64_t dv[GROUP][COLUMNS];         /* rows per voxel, 2^-STEP_BITS */
    int32_t line[GROUP][COLUMNS];       /* the nearer of the two lines, or MISS: the detector is not met */
    int32_t other[GROUP][COLUMNS];      /* the other one: +1 or -1 */
    float ratio[GROUP][COLUMNS];        /* weight of the other line over that of the nearer */
    float weight[GROUP][COLUMNS];       /* weight of the nearer line, with 1 / w^2 */
    int64_t pitch, row0, rows;          /* floats from line to line; stored rows */
    vdouble dv_lo, dv_hi;               /* extremes over the columns that hit, in each place of the vectors */
};

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

/* UNIT voxels of column n from k on, in the halves of the volume. */
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

/* True if loads of [row, row + PAD) miss all stored rows (and perhaps the buffer). */
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

/* Interpolates the two lines, LANES rows from p on. Without the nearer line's weight. */
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

/* Returns the rows by which the base must precede the unit's first position, so that every vector's window begins early
 * enough: the largest of LANES (start - b step), which is linear in the step; both 2^-STEP_BITS. Rounded down, it is
 * enough. */
INLINE int64_t lead_of(enum shape shape, int64_t step)
{
    const int64_t one = INT64_C(1) << STEP_BITS, spare = (int64_t)(1.001 * 0x1p40);
    const int64_t lead = shape == CHAIN ? (VECTORS - 1) * LANES * (one - step) + spare
                       : shape == PAIRS ? LANES * (one - 2 * step) + spare : 0;
    return lead > 0 ? lead : 0;
}

/* True if the shape does for dv rows a voxel. Convex in dv: if it is true for two values, it is true between them. */
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

/* Gathers: the kernel for any number of rows per voxel. */
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

/* Returns the fastest kernel for all of a tile's rows per voxel. */
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

/* Adds to one column of one segment. */
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

/* Fills the coefficients of a group of the batch in segment s of a tile. Returns the kernels for it, NULL if no voxel
 * meets the detector. */
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

/* Adds a group of the batch to segments [s0, s1) of a tile, which see its views alike. */
void PASTE(vp_bp_columns_, VP_ISA)(const struct vp_backproject *b, int64_t tile, int slot, int s0, int s1)
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
