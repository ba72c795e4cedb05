/* SPDX-License-Identifier: BSD-3-Clause */
/* The pair along columns of voxels for which u and the depth do not change; compiled once for each instruction set.
 *
 * Voxels of a column and rows of a line of the detector are two divisions of one axis, and each is a multiple of the
 * other's step wide. One function does both directions: the mean of evenly spaced intervals over samples of unit
 * width. In a projection samples are voxels and intervals rows, in its transpose samples are rows and intervals voxels.
 * LANES intervals are looked up in 2 LANES samples with up to three taps each; where intervals are too wide for that,
 * they are differences of a running sum in float64. Positions are fixed point, 2^-32 samples. */
#include "ct/pair_internal.h"

#include "base/isa.h"
#include "ct/orbit.h"

#include <math.h>
#include <string.h>

#define LOG_LANES (LANES == 16 ? 4 : LANES == 8 ? 3 : 2)
#define HAVE_PERMUTE (LANES >= 8)
/* Widest interval of a lookup, in samples: the last of LANES, three taps wide, lies in the window. */
#define WIDEST ((2 * LANES - 3.001) / (LANES - 1))

#if LANES == 16
#define LANE_NUMBERS {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
#elif LANES == 8
#define LANE_NUMBERS {0, 1, 2, 3, 4, 5, 6, 7}
#else
#define LANE_NUMBERS {0, 1, 2, 3}
#endif

enum { PLACE_SHIFT = 32 - LOG_LANES - 1 }; /* fraction bits of a position in the window */

/* Lines that a column meets, and its rows: row edge = e0 + k step for the voxels' lower edges. */
struct pair_sight {
    int64_t u0, u1;     /* lines [u0, u1) with weight, */
    double lo, hi;      /* ends of the column's image */
    double e0, step;
};

INLINE void put(float *p, vf x)
{
    *(vf_u *)p = x;
}

/* Returns the column's sight, of lines [u0, u1). False: it meets none. */
INLINE bool sight_of(const struct vp_pair *p, const struct vp_pair_view *view, int64_t i, int64_t j, int64_t u0,
                     int64_t u1, struct pair_sight *s)
{
    const double *P = view->P;
    const int across = view->march == 0 ? 1 : 0;
    const double u = P[0] * (double)i + P[1] * (double)j + P[3], w = P[8] * (double)i + P[9] * (double)j + P[11];
    const double near = w - 0.5 * P[8 + across], far = w + 0.5 * P[8 + across];
    if (!(near > VP_ORBIT_NEAREST && far > VP_ORBIT_NEAREST))
        return false;
    const double a = (u - 0.5 * P[across]) / near + 0.5, b = (u + 0.5 * P[across]) / far + 0.5;
    s->lo = a < b ? a : b;
    s->hi = a < b ? b : a;
    if (!(s->hi > (double)u0 && s->lo < (double)u1))
        return false;
    s->u0 = s->lo > (double)u0 ? (int64_t)s->lo : u0;
    s->u1 = s->hi < (double)u1 ? (int64_t)ceil(s->hi) : u1;
    const double v = P[4] * (double)i + P[5] * (double)j + P[7];
    s->step = p->flat ? 1 : P[6] / w;
    s->e0 = p->flat ? 0 : (v - 0.5 * P[6]) / w + 0.5;
    return s->step > 0;
}

/* Returns the overlap of the column with a line. */
INLINE float weight_of(const struct pair_sight *s, int64_t u)
{
    const double lo = s->lo > (double)u ? s->lo : (double)u, hi = s->hi < (double)(u + 1) ? s->hi : (double)(u + 1);
    return hi > lo ? (float)(hi - lo) : 0;
}

/* Evenly spaced intervals over samples: the first one begins at `start`. */
struct division {
    const float *samples;   /* with PAIR_PAD zeros around, */
    int64_t n;              /* n of them */
    double start, step;     /* samples */
};

#if HAVE_PERMUTE
INLINE vf positive(vf x)
{
    return (vf)((vi)x & (x > 0));
}

/* Returns the sums of LANES intervals that begin at `at`, 2^-32 samples. */
INLINE vf look_up(const float *samples, int64_t at, uint32_t step, float width, bool three)
{
    const vu lane = LANE_NUMBERS;
    const vu pos = lane * step + ((uint32_t)at >> (32 - PLACE_SHIFT));
    const vi index = (vi)(pos >> PLACE_SHIFT);
    const vf from = __builtin_convertvector((vi)((pos << (32 - PLACE_SHIFT)) >> 1), vf) * 0x1p-31f;
    const float *const p = samples + (at >> 32);
    const vf a = vf_at(p), b = vf_at(p + LANES);
    const vf second = positive(from + (width - 1)); /* part beyond the first sample */
    const vf sum = (width - second) * shuffle(a, b, index);
    if (!three)
        return sum + second * shuffle(a, b, index + 1);
    const vf third = positive(from + (width - 2));
    return sum + (second - third) * shuffle(a, b, index + 1) + third * shuffle(a, b, index + 2);
}
#endif

/* Returns the sum of the samples below x. */
INLINE double sum_below(const struct division *d, const double *running, double x)
{
    x = x > 0 ? x : 0;
    x = x < (double)d->n ? x : (double)d->n;
    const int64_t k = (int64_t)x;
    return running[k] + (x - (double)k) * (double)d->samples[k];
}

/* Fills to[0 .. n) with the sums of intervals; `running` has room for one number a sample and one more. Intervals
 * [first, last) that meet a sample count, the others may be set to anything. */
INLINE void divide_by_sums(const struct division *d, double *running, int64_t first, int64_t last, float *to)
{
    running[0] = 0;
    for (int64_t k = 0; k < d->n; k++)
        running[k + 1] = running[k] + (double)d->samples[k];
    double below = sum_below(d, running, d->start + (double)first * d->step);
    for (int64_t r = first; r < last; r++) {
        const double next = sum_below(d, running, d->start + (double)(r + 1) * d->step);
        to[r] = (float)(next - below);
        below = next;
    }
}

/* Returns the column of a tile at position n of a walk along the marching axis. */
INLINE int place_of(const struct vp_pair_view *view, int n)
{
    return view->march == 1 ? n % PAIR_TILE * PAIR_TILE + n / PAIR_TILE : n;
}

/* ---- projection ---- */

#if HAVE_PERMUTE
/* Adds rows [r0, r1) to `taps` lines. */
INLINE void spread_rows(const struct division *d, int64_t r0, int64_t r1, const float *weight, int taps, bool three,
                        float *line, int64_t pitch)
{
    int64_t at = (int64_t)floor(d->start * 0x1p32);
    const int64_t advance = llround(d->step * LANES * 0x1p32);
    const uint32_t step = (uint32_t)llround(d->step * (1u << PLACE_SHIFT));
    const float width = (float)d->step;
    for (int64_t r = r0; r < r1; r += LANES, at += advance) {
        const vf rows = look_up(d->samples, at, step, width, three);
#pragma GCC unroll 3
        for (int t = 0; t < taps; t++)
            put(line + t * pitch + r, vf_at(line + t * pitch + r) + weight[t] * rows);
    }
}

static void spread_looked_up(const struct division *d, int64_t r0, int64_t r1, const float *weight, int64_t taps,
                             float *line, int64_t pitch)
{
    const bool three = d->step > 1;
    if (taps == 1)
        spread_rows(d, r0, r1, weight, 1, three, line, pitch);
    else if (taps == 2 && !three)
        spread_rows(d, r0, r1, weight, 2, false, line, pitch);
    else if (taps == 2)
        spread_rows(d, r0, r1, weight, 2, true, line, pitch);
    else if (!three)
        spread_rows(d, r0, r1, weight, 3, false, line, pitch);
    else
        spread_rows(d, r0, r1, weight, 3, true, line, pitch);
}
#endif

static void spread_column(const struct vp_pair *p, const struct pair_sight *s, const struct vp_pair_tile *t, const float *in,
                          int64_t first_line, float *lines, float *scratch)
{
    const int64_t n = t->n;
    float *const line = lines + (s->u0 - first_line) * p->pitch;
    if (p->flat) {
        for (int64_t u = s->u0; u < s->u1; u++)
            line[(u - s->u0) * p->pitch] += in[0] * weight_of(s, u);
        return;
    }
    const double lo = s->e0 + (double)t->k0 * s->step, hi = s->e0 + (double)(t->k0 + n) * s->step;
    if (!(hi > 0 && lo < (double)p->nv))
        return;
    const int64_t r0 = lo > 0 ? (int64_t)lo / LANES * LANES : 0, r1 = hi < (double)p->nv ? (int64_t)ceil(hi) : p->nv;
    const double width = 1 / s->step;
    const struct division d = {in, n, ((double)r0 - s->e0) * width - (double)t->k0, width};
#if HAVE_PERMUTE
    if (width <= WIDEST && ceil(s->hi) - floor(s->lo) <= 3) { /* whatever part of the lines this is, for the bits */
        float weight[3];
        for (int64_t u = s->u0; u < s->u1; u++)
            weight[u - s->u0] = weight_of(s, u) * (float)s->step;
        spread_looked_up(&d, r0, r1, weight, s->u1 - s->u0, line, p->pitch);
        return;
    }
#endif
    float *const rows = scratch + 2 * (p->pitch + PAIR_PITCH);
    divide_by_sums(&d, (double *)scratch, 0, r1 - r0, rows);
    for (int64_t u = s->u0; u < s->u1; u++) {
        const float weight = weight_of(s, u) * (float)s->step;
        float *const to = line + (u - s->u0) * p->pitch;
        for (int64_t r = r0; r < r1; r++)
            to[r] += weight * rows[r - r0];
    }
}

static void spread_tile(const struct vp_pair *p, const struct vp_pair_view *view, const struct vp_pair_tile *t,
                        int64_t u0, int64_t u1, float *lines, float *scratch)
{
    for (int n = 0; n < PAIR_COLUMNS; n++) {
        const int place = place_of(view, n), ii = place % PAIR_TILE, jj = place / PAIR_TILE;
        struct pair_sight s;
        if (ii < t->ni && jj < t->nj && sight_of(p, view, t->i0 + ii, t->j0 + jj, u0, u1, &s))
            spread_column(p, &s, t, t->samples + place * PAIR_PITCH + PAIR_PAD, u0, lines, scratch);
    }
}

/* ---- transpose ---- */

/* Fills `mixed` with rows [r0, r1) of the lines, weighted, r1 - r0 a multiple of LANES. */
INLINE void mix_lines(const struct pair_sight *s, const float *line, int64_t pitch, int64_t r0, int64_t r1, float *mixed)
{
    const int64_t taps = s->u1 - s->u0;
    const float a = weight_of(s, s->u0), b = taps > 1 ? weight_of(s, s->u0 + 1) : 0;
    const float c = taps > 2 ? weight_of(s, s->u0 + 2) : 0;
    const float *const second = taps > 1 ? line + pitch : line, *const third = taps > 2 ? line + 2 * pitch : line;
    if (taps <= 2)
        for (int64_t r = r0; r < r1; r += LANES)
            put(mixed + r - r0, a * vf_at(line + r) + b * vf_at(second + r));
    else
        for (int64_t r = r0; r < r1; r += LANES)
            put(mixed + r - r0, a * vf_at(line + r) + b * vf_at(second + r) + c * vf_at(third + r));
    for (int64_t u = s->u0 + 3; u < s->u1; u++) {
        const float weight = weight_of(s, u), *const q = line + (u - s->u0) * pitch;
        for (int64_t r = r0; r < r1; r += LANES)
            put(mixed + r - r0, vf_at(mixed + r - r0) + weight * vf_at(q + r));
    }
}

#if HAVE_PERMUTE
INLINE void collect_rows(const struct division *d, int64_t first, int64_t last, bool three, float *out)
{
    int64_t at = (int64_t)floor(d->start * 0x1p32) + first / LANES * llround(d->step * LANES * 0x1p32);
    const int64_t advance = llround(d->step * LANES * 0x1p32);
    const uint32_t step = (uint32_t)llround(d->step * (1u << PLACE_SHIFT));
    const float width = (float)d->step;
    for (int64_t k = first / LANES * LANES; k < last; k += LANES, at += advance)
        put(out + k, vf_at(out + k) + look_up(d->samples, at, step, width, three));
}
#endif

static void collect_column(const struct vp_pair *p, const struct pair_sight *s, const struct vp_pair_tile *t,
                           const float *lines, float *scratch, float *out)
{
    const float *const line = lines + s->u0 * p->pitch;
    if (p->flat) {
        for (int64_t u = s->u0; u < s->u1; u++)
            out[0] += weight_of(s, u) * line[(u - s->u0) * p->pitch];
        return;
    }
    const double start = s->e0 + (double)t->k0 * s->step;
    const double lo = start, hi = start + t->n * s->step; /* the whole segment, whatever the slab, for the bits */
    if (!(hi > 0 && lo < (double)p->nv))
        return;
    const int64_t r0 = lo > 0 ? (int64_t)lo / LANES * LANES : 0, r1 = hi < (double)p->nv ? (int64_t)ceil(hi) : p->nv;
    const int64_t rows = (r1 - r0 + LANES - 1) / LANES * LANES;
    float *const mixed = scratch + 2 * (p->pitch + PAIR_PITCH) + PAIR_PAD;
    mix_lines(s, line, p->pitch, r0, r0 + rows, mixed);
    for (int z = 0; z < PAIR_PAD; z += LANES)
        put(mixed + rows + z, (vf){});
    /* voxels of the segment that see a row */
    const double before = -start / s->step, after = ((double)p->nv - start) / s->step;
    const int first = before > t->first ? (int)before : t->first, last = after < t->last ? (int)ceil(after) : t->last;
    const struct division d = {mixed, rows, start - (double)r0, s->step};
#if HAVE_PERMUTE
    if (s->step <= WIDEST) {
        if (s->step > 1)
            collect_rows(&d, first, last, true, out);
        else
            collect_rows(&d, first, last, false, out);
        return;
    }
#endif
    float voxels[VP_PAIR_SEGMENT];
    divide_by_sums(&d, (double *)scratch, first, last, voxels);
    for (int k = first; k < last; k++)
        out[k] += voxels[k];
}

static void collect_tile(const struct vp_pair *p, const struct vp_pair_view *view, const struct vp_pair_tile *t,
                         const float *lines, float *scratch)
{
    memset(scratch + 2 * (p->pitch + PAIR_PITCH), 0, PAIR_PAD * sizeof *scratch);
    for (int n = 0; n < PAIR_COLUMNS; n++) {
        const int place = place_of(view, n), ii = place % PAIR_TILE, jj = place / PAIR_TILE;
        struct pair_sight s;
        if (ii < t->ni && jj < t->nj && sight_of(p, view, t->i0 + ii, t->j0 + jj, 0, p->nu, &s))
            collect_column(p, &s, t, lines, scratch, t->samples + place * PAIR_PITCH + PAIR_PAD);
    }
}

const struct vp_pair_isa PASTE(vp_pair_isa_, VP_ISA) = {
    .name = TEXT(VP_ISA),
    .spread = spread_tile,
    .collect = collect_tile,
};
