/* SPDX-License-Identifier: BSD-3-Clause */
/* Back-projection for any matrices: lines and depths change along a column of voxels; compiled once for each
 * instruction set. */
#include "ct/backproject_lanes.h"

enum { PARTS = GROUP / PLACES };

/* The views of a group, PLACES at once; absent ones are zero and see nothing. */
struct general_group {
    vdouble P[12][PARTS];
    const float *line0[GROUP];
};

/* Positions at which the views of a group see a voxel. */
struct view_rows { vdouble u[PARTS], v[PARTS], w[PARTS], f[PARTS]; };

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

INLINE void sight_at(const struct general_group *g, const vdouble base[3][PARTS], double k, struct view_rows *out)
{
    for (int p = 0; p < PARTS; p++) {
        const vdouble w = base[2][p] + k * g->P[10][p], f = 1 / select(w > VP_ORBIT_NEAREST, w, (vdouble){} + 1);
        out->w[p] = w;
        out->f[p] = f;
        out->u[p] = (base[0][p] + k * g->P[2][p]) * f;
        out->v[p] = (base[1][p] + k * g->P[6][p]) * f;
    }
}

/* Fills a block from the sights of the first voxel and of the one after the last. */
INLINE void general_block_of(const struct general_group *g, const struct view_rows *a, const struct view_rows *z,
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

/* Adds a view voxel by voxel, in double precision. */
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
/* Returns one view's share of LANES voxels: the rows of each line that is met are looked up; along u linear
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
    struct view_rows at, next;
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

void PASTE(vp_bp_matrices_, VP_ISA)(const struct vp_backproject *b, int64_t tile, int slot0, int s0, int s1)
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
