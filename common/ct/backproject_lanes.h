/* SPDX-License-Identifier: BSD-3-Clause */
/* Vectors and helpers of the back-projection kernels, which are compiled once for each instruction set (VP_ISA =
 * avx512, avx2, generic): backproject_isa.c (transposition, few slices), backproject_columns_isa.c and
 * backproject_matrix_isa.c. GCC vector extensions, no intrinsics. */
#pragma once

#include "ct/backproject_internal.h"

#include "base/isa.h"

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

/* Returns the matrix of the view in a slot, for segment s. NULL: the view is not there, or has no share. */
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

/* Returns the column's place in the tile at position n of a group's walk: back and forth along the axis along which u
 * changes less, so that columns that follow each other use the same lines. */
INLINE int walk_place(bool inner_y, int n)
{
    const int outer = n / TILE, inner = outer & 1 ? TILE - 1 - n % TILE : n % TILE;
    return inner_y ? inner * TILE + outer : outer * TILE + inner;
}

/* Adds the views of a group, those in slots from `slot` on, to segments [s0, s1) of a tile, which see them alike: by
 * the kernels of columns, or of any matrices. */
void PASTE(vp_bp_columns_, VP_ISA)(const struct vp_backproject *b, int64_t tile, int slot, int s0, int s1);
void PASTE(vp_bp_matrices_, VP_ISA)(const struct vp_backproject *b, int64_t tile, int slot, int s0, int s1);
