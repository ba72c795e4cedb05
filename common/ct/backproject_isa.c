/* SPDX-License-Identifier: BSD-3-Clause */
/* Transposition of views, and back-projection to volumes of few slices; compiled once for each instruction set. */
#include "ct/backproject_lanes.h"

#include "base/transpose.h"

#include <string.h>

/* Returns the row of the frame (not flipped) whose samples row v has: on a helix the detector goes on with its edge
 * rows. */
INLINE int64_t row_within(const struct vp_backproject *b, int64_t v)
{
    const int64_t last = b->nv - 1 - b->margin;
    return b->margin == 0 ? v : v < b->margin ? b->margin : v > last ? last : v;
}

/* Returns LANES detector columns from u on in row m of the lines' frame (not refined); zero where the view has no rows.
 * */
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

/* Returns the same for row m of the frame as stored: refined, mirrored. */
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

/* --- few slices ----------------------------------------------------------------------------------------- */

typedef int64_t pair __attribute__((may_alias)); /* two floats: a row of a line and the next */
typedef int64_t pair_u __attribute__((aligned(4), may_alias));
typedef uint32_t vuint_half __attribute__((vector_size(4 * PLACES), may_alias));
typedef uint64_t vulong __attribute__((vector_size(8 * PLACES), may_alias));

/* Returns a[0], b[0], a[1], b[1], ... in single precision. */
INLINE vf interleave(vdouble a, vdouble b)
{
    const vfloat_half x = __builtin_convertvector(a, vfloat_half);
    const vfloat_half y = __builtin_convertvector(b, vfloat_half);
    return (vf)(__builtin_convertvector((vuint_half)x, vulong)
                    | __builtin_convertvector((vuint_half)y, vulong) << 32);
}

/* A tile's slice and one view. */
struct neighbours {
    _Alignas(64) int64_t offset[COLUMNS];               /* floats from line 0 to the first of four neighbours */
    vf across[COLUMNS / PLACES], along[COLUMNS / PLACES];   /* weights, in pairs */
    _Alignas(64) pair near[COLUMNS], far[COLUMNS];
};

/* Finds the neighbours of a tile's voxels. P is folded for the slice: columns x, y, 1. */
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
            (b->fast ? PASTE(vp_bp_columns_, VP_ISA) : PASTE(vp_bp_matrices_, VP_ISA))(b, tile, slot, from, to);
        }
}

const struct vp_bp_isa PASTE(vp_bp_isa_, VP_ISA) = {
    .name = TEXT(VP_ISA),
    .want_refine = LANES < 16,
    .transpose = transpose_view,
    .tile = add_to_tile,
};
