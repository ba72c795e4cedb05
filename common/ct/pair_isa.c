/* SPDX-License-Identifier: BSD-3-Clause */
/* The pair along columns of voxels for which u and the depth do not change; compiled once for each instruction set.
 *
 * Voxels of a column and rows of a line of the detector are two divisions of one axis, and each is a multiple of the
 * other's step wide. One function does both directions: the mean of evenly spaced intervals over samples of unit
 * width. In a projection samples are voxels and intervals rows, in its transpose samples are rows and intervals voxels.
 * LANES intervals are looked up in 2 LANES samples with up to three taps each; where intervals are too wide for that,
 * they are differences of a running sum in float64. Positions are fixed point, 2^-32 samples.
 *
 * A lookup is 11 operations of a vector and a projection one more for each line, a transpose 3 or 4 more. Columns have 8
 * to 16 vectors in a segment, so all divisions are made for a tile at once. */
#include "ct/pair_internal.h"

#include "base/isa.h"
#include "base/transpose.h"
#include "ct/orbit.h"

#include <math.h>
#include <string.h>
#ifdef __AVX__
#include <immintrin.h>
#endif

#define LOG_LANES (LANES == 16 ? 4 : LANES == 8 ? 3 : 2)
#define HAVE_PERMUTE (LANES >= 8)
/* Widest interval of a lookup, in samples: the last of LANES, three taps wide, lies in the window. */
#define WIDEST ((2 * LANES - 3.001) / (LANES - 1))

enum { PLACE_SHIFT = 32 - LOG_LANES - 1 }; /* fraction bits of a position in the window */

/* Images of the columns of a tile: ends across, pixels from the detector's edge, both -1 without weight; rows from the
 * detector's edge, e0 + k step for the lower edge of voxel k; and 1 / step. The overlaps with the line of the lower end
 * and the two after it are those of columns that meet no others. */
struct sights {
    double lo[PAIR_COLUMNS], hi[PAIR_COLUMNS], e0[PAIR_COLUMNS], step[PAIR_COLUMNS], width[PAIR_COLUMNS];
    int first[PAIR_COLUMNS], near[PAIR_COLUMNS]; /* not 0: it meets two or three lines */
    float overlap[3][PAIR_COLUMNS];
};

/* A column among lines [u0, u1), all that it meets or those of a stripe, their overlaps if there are at most three, and its
 * rows. */
struct sight {
    int64_t u0, u1;
    float overlap[3];
    double lo, hi, e0, step, width;
};

INLINE void put(float *p, vf x)
{
    *(vf_u *)p = x;
}

typedef double vd __attribute__((vector_size(4 * LANES)));
typedef double vd_u __attribute__((vector_size(4 * LANES), aligned(8)));
typedef int64_t vl __attribute__((vector_size(4 * LANES)));
typedef int32_t vi_half __attribute__((vector_size(2 * LANES)));
typedef int32_t vi_half_u __attribute__((vector_size(2 * LANES), aligned(4)));
typedef float vf_half __attribute__((vector_size(2 * LANES)));
typedef float vf_half_u __attribute__((vector_size(2 * LANES), aligned(4)));

INLINE vd choose(vl mask, vd a, vd b)
{
    return (vd)(((vl)a & mask) | ((vl)b & ~mask));
}

INLINE void put_doubles(double *p, vd x)
{
    *(vd_u *)p = x;
}

INLINE void put_half(float *p, vd x)
{
    *(vf_half_u *)p = __builtin_convertvector(x, vf_half);
}

/* Fills all of *to, for columns beyond the grid, too. */
static void sights_of(const struct vp_pair_view *view, const struct vp_pair_tile *t, struct sights *to)
{
    enum { WIDE = LANES / 2 };
    const double *P = view->P, half_u = 0.5 * P[view->march == 0 ? 1 : 0], half_w = 0.5 * P[view->march == 0 ? 9 : 8];
    const double wide = 1 / P[6], half_v = 0.5 * P[6];
    vd lane;
    for (int l = 0; l < WIDE; l++)
        lane[l] = l;
    for (int n = 0; n < PAIR_COLUMNS; n += WIDE) {
        const vd i = lane + (double)(t->i0 + n % PAIR_TILE);
        const double j = (double)(t->j0 + n / PAIR_TILE);
        const vd u = P[0] * i + (P[1] * j + P[3]), v = P[4] * i + (P[5] * j + P[7]), w = P[8] * i + (P[9] * j + P[11]);
        const vd near = w - half_w, far = w + half_w, part = 1 / w;
        const vd a = (u - half_u) / near + 0.5, b = (u + half_u) / far + 0.5;
        const vl seen = (near > VP_ORBIT_NEAREST) & (far > VP_ORBIT_NEAREST), less = a < b;
        const vd lo = choose(seen, choose(less, a, b), lane * 0 - 1), hi = choose(seen, choose(less, b, a), lane * 0 - 1);
        const vd at = choose((lo > 0) & (lo < 1e9), lo, lane * 0); /* used where it is lo */
        const vi_half first = __builtin_convertvector(at, vi_half);
        const vd one = __builtin_convertvector(first, vd) + 1, two = one + 1;
        const vd end = choose(hi < one, hi, one), last = choose(hi < two, hi, two);
        const vl near_by = (hi > one) & (hi <= two + 1) & (lo >= 0) & (lo < 1e9);
        put_doubles(to->lo + n, lo);
        put_doubles(to->hi + n, hi);
        put_doubles(to->e0 + n, (v - half_v) * part + 0.5);
        put_doubles(to->step + n, P[6] * part);
        put_doubles(to->width + n, w * wide);
        put_half(to->overlap[0] + n, end - lo);
        put_half(to->overlap[1] + n, last - end);
        put_half(to->overlap[2] + n, hi - last);
        *(vi_half_u *)(to->first + n) = first;
        *(vi_half_u *)(to->near + n) = __builtin_convertvector(near_by, vi_half);
    }
}

/* Returns the overlap of the column with a line. */
INLINE float overlap_of(const struct sight *s, int64_t u)
{
    const double lo = s->lo > (double)u ? s->lo : (double)u, hi = s->hi < (double)(u + 1) ? s->hi : (double)(u + 1);
    return hi > lo ? (float)(hi - lo) : 0;
}

/* Sets the sight of a column, of lines [u0, u1). False: it meets none. */
INLINE bool sight_of(const struct sights *all, int place, int64_t u0, int64_t u1, struct sight *s)
{
    s->lo = all->lo[place];
    s->hi = all->hi[place];
    s->e0 = all->e0[place];
    s->step = all->step[place];
    s->width = all->width[place];
    if (all->near[place] != 0 && s->lo >= (double)u0 && all->first[place] + 3 <= u1) {
        s->u0 = all->first[place];
        for (int t = 0; t < 3; t++)
            s->overlap[t] = all->overlap[t][place];
        s->u1 = s->u0 + (s->overlap[2] > 0 ? 3 : 2);
        return true;
    }
    if (!(s->hi > (double)u0 && s->lo < (double)u1))
        return false;
    s->u0 = s->lo > (double)u0 ? (int64_t)s->lo : u0;
    s->u1 = s->hi < (double)u1 ? (int64_t)ceil(s->hi) : u1;
    for (int t = 0; t < 3; t++)
        s->overlap[t] = s->u0 + t < s->u1 ? overlap_of(s, s->u0 + t) : 0;
    return true;
}

/* Sets [*r0, *r1), the rows that n voxels from slice k0 on meet, of which *r0 is a multiple of LANES. False: none. */
INLINE bool rows_of(const struct sight *s, int64_t nv, double k0, double n, int64_t *r0, int64_t *r1)
{
    const double lo = s->e0 + k0 * s->step, hi = s->e0 + (k0 + n) * s->step;
    *r0 = lo > 0 ? (int64_t)lo / LANES * LANES : 0;
    *r1 = hi < (double)nv ? (int64_t)ceil(hi) : nv;
    return hi > 0 && lo < (double)nv;
}

/* Evenly spaced intervals over samples: the first one begins at `start`. */
struct division {
    const float *samples;   /* with zeros around, 48 before and 2 LANES after n, */
    int64_t n;              /* n of them */
    double start, step;     /* samples, */
    double per;             /* and intervals a sample */
};

#if HAVE_PERMUTE
INLINE vf above(vf x)
{
#if LANES == 16
    return (vf)_mm512_max_ps((__m512)x, _mm512_setzero_ps());
#else
    return (vf)_mm256_max_ps((__m256)x, _mm256_setzero_ps());
#endif
}

/* As shuffle(), for places that are not constant. */
INLINE vf pick(vf a, vf b, vi place)
{
#if LANES == 16
    return (vf)_mm512_permutex2var_ps((__m512)a, (__m512i)place, (__m512)b);
#else
    return (vf)_mm256_blendv_ps(_mm256_permutevar8x32_ps((__m256)a, (__m256i)place),
                                _mm256_permutevar8x32_ps((__m256)b, (__m256i)place), (__m256)(place << 28));
#endif
}

/* A division that is walked LANES intervals at a time. */
struct walk {
    int64_t at, advance;    /* 2^-32 samples */
    vu lanes;               /* places of the intervals after the first, 2^-PLACE_SHIFT samples */
    vf scale, second, third;
};

INLINE struct walk walk_of(const struct division *d)
{
    const vu lane = LANE_NUMBERS;
    const double per = d->per, fine = d->step * (double)(1u << PLACE_SHIFT);
    return (struct walk){.at = (int64_t)floor(d->start * 0x1p32), .advance = (int64_t)(d->step * (LANES * 0x1p32) + 0.5),
                         .lanes = lane * (uint32_t)(int64_t)(fine + 0.5), .scale = (vf){} + (float)(per / (1u << PLACE_SHIFT)),
                         .second = (vf){} + (float)(1 - per), .third = (vf){} + (float)(1 - 2 * per)};
}

/* Returns the means of LANES intervals, and advances. */
INLINE vf look_up(const float *samples, struct walk *w, bool three)
{
    const vu pos = w->lanes + ((uint32_t)w->at >> (32 - PLACE_SHIFT));
    const vi place = (vi)(pos >> PLACE_SHIFT);
    const vf from = __builtin_convertvector((vi)(pos & ((1u << PLACE_SHIFT) - 1)), vf);
    const float *const p = samples + (w->at >> 32);
    const vf a = vf_at(p), b = vf_at(p + LANES), x = pick(a, b, place), y = pick(a, b, place + 1);
    const vf second = above(from * w->scale + w->second); /* share beyond the first sample */
    const vf mean = x + second * (y - x);
    w->at += w->advance;
    if (!three)
        return mean;
    return mean + above(from * w->scale + w->third) * (pick(a, b, place + 2) - y);
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

/* Fills to[0 .. n) with the means of intervals; `running` has room for one number a sample and one more. Intervals
 * [first, last) that meet a sample count, the others may be set to anything. */
INLINE void divide_by_sums(const struct division *d, double *running, int64_t first, int64_t last, float *to)
{
    running[0] = 0;
    for (int64_t k = 0; k < d->n; k++)
        running[k + 1] = running[k] + (double)d->samples[k];
    double below = sum_below(d, running, d->start + (double)first * d->step);
    for (int64_t r = first; r < last; r++) {
        const double next = sum_below(d, running, d->start + (double)(r + 1) * d->step);
        to[r] = (float)((next - below) * d->per);
        below = next;
    }
}

/* Returns the column of a tile at position n of a walk along the marching axis. */
INLINE int place_of(const struct vp_pair_view *view, int n)
{
    return view->march == 1 ? n % PAIR_TILE * PAIR_TILE + n / PAIR_TILE : n;
}

/* ---- tiles and lines ---- */

/* Loads LANES columns of a tile from n on, of which all are in the grid: `rows` is their place in a slice. */
INLINE vf columns_at(const float *rows, int n, int64_t nx)
{
    const float *const p = rows + n / PAIR_TILE * nx + n % PAIR_TILE;
#if LANES == 16
    return (vf)_mm512_insertf32x8(_mm512_castps256_ps512(_mm256_loadu_ps(p)), _mm256_loadu_ps(p + nx), 1);
#else
    return vf_at(p);
#endif
}

INLINE void add_columns(float *rows, int n, int64_t nx, vf x)
{
    float *const p = rows + n / PAIR_TILE * nx + n % PAIR_TILE;
#if LANES == 16
    _mm256_storeu_ps(p, _mm256_add_ps(_mm256_loadu_ps(p), _mm512_castps512_ps256((__m512)x)));
    _mm256_storeu_ps(p + nx, _mm256_add_ps(_mm256_loadu_ps(p + nx), _mm512_extractf32x8_ps((__m512)x, 1)));
#else
    put(p, vf_at(p) + x);
#endif
}

static bool load_tile(const struct vp_pair *p, const struct vp_pair_tile *t, const float *x)
{
    const int64_t nx = p->n[0], page = nx * p->n[1];
    const float *const from = x + t->k0 * page + t->j0 * nx + t->i0;
    if (t->ni < PAIR_TILE || t->nj < PAIR_TILE) {
        bool any = false;
        for (int c = 0; c < PAIR_COLUMNS; c++)
            for (int k = 0; k < t->n && c % PAIR_TILE < t->ni && c / PAIR_TILE < t->nj; k++) {
                const float value = from[k * page + c / PAIR_TILE * nx + c % PAIR_TILE];
                t->samples[c * PAIR_PITCH + PAIR_PAD + k] = value;
                any = any || value != 0;
            }
        return any;
    }
    vi any = {};
    for (int k = 0; k < t->n; k += LANES)
        for (int c = 0; c < PAIR_COLUMNS; c += LANES) {
            vf r[LANES];
            for (int a = 0; a < LANES; a++) {
                r[a] = k + a < t->n ? columns_at(from + (k + a) * page, c, nx) : (vf){};
                any |= r[a] != 0;
            }
            transpose(r, r, 1);
            for (int a = 0; a < LANES; a++)
                put(t->samples + (c + a) * PAIR_PITCH + PAIR_PAD + k, r[a]);
        }
    for (int a = 0; a < LANES; a++)
        if (any[a])
            return true;
    return false;
}

static void add_tile(const struct vp_pair *p, const struct vp_pair_tile *t, int64_t z0, float *x)
{
    const int64_t nx = p->n[0], page = nx * p->n[1];
    float *const to = x + t->j0 * nx + t->i0;
    if (t->ni < PAIR_TILE || t->nj < PAIR_TILE) {
        for (int k = t->first; k < t->last; k++)
            for (int c = 0; c < PAIR_COLUMNS; c++)
                if (c % PAIR_TILE < t->ni && c / PAIR_TILE < t->nj)
                    to[(t->k0 + k - z0) * page + c / PAIR_TILE * nx + c % PAIR_TILE]
                        += t->samples[c * PAIR_PITCH + PAIR_PAD + k];
        return;
    }
    for (int k = t->first / LANES * LANES; k < t->last; k += LANES)
        for (int c = 0; c < PAIR_COLUMNS; c += LANES) {
            vf r[LANES];
            for (int a = 0; a < LANES; a++)
                r[a] = vf_at(t->samples + (c + a) * PAIR_PITCH + PAIR_PAD + k);
            transpose(r, r, 1);
            for (int a = 0; a < LANES; a++)
                if (k + a >= t->first && k + a < t->last)
                    add_columns(to + (t->k0 + k + a - z0) * page, c, nx, r[a]);
        }
}

enum { STRIP = 4 * LANES };

/* Sets the lengths of the rays of a row of pixels. */
INLINE void lengths_of(const struct vp_pair *p, const struct vp_pair_view *view, int64_t u0, int64_t v, float *to)
{
    for (int u = 0; u < STRIP; u++)
        to[u] = (float)vp_pair_length(p, view, (double)(u0 + u), (double)v);
}

/* Returns the row of the image that is row r of a line. */
INLINE int64_t row_of(const struct vp_pair *p, const struct vp_pair_view *view, int64_t r)
{
    return view->flip ? p->nv - 1 - r : r;
}

static void fill_lines(const struct vp_pair *p, const struct vp_pair_view *view, const float *y, int64_t u0, int64_t u1,
                       float *lines)
{
    for (int64_t u = u0; u < u1; u += STRIP) {
        const int n = (int)vp_min64(STRIP, u1 - u);
        for (int64_t r = 0; r < p->nv; r += LANES) {
            float block[LANES][STRIP] = {};
            for (int a = 0; a < LANES && r + a < p->nv; a++) {
                const int64_t v = row_of(p, view, r + a);
                float length[STRIP];
                lengths_of(p, view, u, v, length);
                for (int i = 0; i < n; i++)
                    block[a][i] = y[v * p->nu + u + i] * length[i];
            }
            for (int i = 0; i < n && p->pitch == 1; i++)
                lines[u + i] = block[0][i];
            for (int i = 0; i < n && p->pitch > 1; i += LANES) {
                vf c[LANES];
                for (int a = 0; a < LANES; a++)
                    c[a] = vf_at(&block[a][i]);
                transpose(c, c, 1);
                for (int a = 0; a < LANES && i + a < n; a++)
                    put(lines + (u + i + a) * p->pitch + r, c[a]);
            }
        }
        for (int64_t r = vp_div_up(p->nv, LANES) * LANES; r < p->pitch; r += LANES)
            for (int i = 0; i < n; i++)
                put(lines + (u + i) * p->pitch + r, (vf){});
    }
}

static void store_lines(const struct vp_pair *p, const struct vp_pair_view *view, int64_t u0, int64_t u1,
                        const float *lines, float *y)
{
    for (int64_t u = u0; u < u1; u += STRIP) {
        const int n = (int)vp_min64(STRIP, u1 - u);
        for (int64_t r = 0; r < p->nv; r += LANES) {
            float block[LANES][STRIP];
            for (int i = 0; i < n && p->pitch == 1; i++)
                block[0][i] = lines[u - u0 + i];
            for (int i = 0; i < n && p->pitch > 1; i += LANES) {
                vf c[LANES];
                for (int a = 0; a < LANES; a++)
                    c[a] = i + a < n ? vf_at(lines + (u - u0 + i + a) * p->pitch + r) : (vf){};
                transpose(c, c, 1);
                for (int a = 0; a < LANES; a++)
                    put(&block[a][i], c[a]);
            }
            for (int a = 0; a < LANES && r + a < p->nv; a++) {
                const int64_t v = row_of(p, view, r + a);
                float length[STRIP];
                lengths_of(p, view, u, v, length);
                for (int i = 0; i < n; i++)
                    y[v * p->nu + u + i] = block[a][i] * length[i];
            }
        }
    }
}

/* ---- fans: one slice, one row ---- */

/* Images of a row of columns of a tile. Those without weight are empty. */
struct fan_row { double lo[PAIR_TILE], hi[PAIR_TILE]; };

INLINE void fan_row_of(const struct vp_pair_view *view, double i0, double j, struct fan_row *to)
{
    const double *P = view->P, half_u = 0.5 * P[view->march == 0 ? 1 : 0], half_w = 0.5 * P[view->march == 0 ? 9 : 8];
    const double u0 = P[0] * i0 + P[1] * j + P[3], w0 = P[8] * i0 + P[9] * j + P[11];
    for (int n = 0; n < PAIR_TILE; n++) {
        const double u = u0 + n * P[0], w = w0 + n * P[8], near = w - half_w, far = w + half_w;
        const double a = (u - half_u) / near + 0.5, b = (u + half_u) / far + 0.5;
        const double least = near < far ? near : far, lo = a < b ? a : b, hi = a < b ? b : a;
        to->lo[n] = least > VP_ORBIT_NEAREST ? lo : -1;
        to->hi[n] = least > VP_ORBIT_NEAREST ? hi : -1;
    }
}

/* Sets the weights of three lines from *u on. False: there are more, or not all are within [u0, u1). */
INLINE bool fan_weights(double lo, double hi, int64_t u0, int64_t u1, int64_t *u, float weight[3])
{
    const int64_t first = (int64_t)lo;
    const double from = lo - (double)first, to = hi - (double)first;
    if (!(lo >= (double)u0 && first + 3 <= u1 && to <= 3))
        return false;
    const double end = to < 1 ? to : 1, more = to > 1 ? to - 1 : 0, most = to > 2 ? to - 2 : 0;
    *u = first;
    weight[0] = (float)(end - from);
    weight[1] = (float)(more - most);
    weight[2] = (float)most;
    return true;
}

INLINE float fan_overlap(double lo, double hi, int64_t u)
{
    const double from = lo > (double)u ? lo : (double)u, to = hi < (double)(u + 1) ? hi : (double)(u + 1);
    return to > from ? (float)(to - from) : 0;
}

static void spread_fan(const struct vp_pair_view *view, const struct vp_pair_tile *t, int64_t u0, int64_t u1, float *lines)
{
    for (int jj = 0; jj < t->nj; jj++) {
        struct fan_row row;
        fan_row_of(view, (double)t->i0, (double)(t->j0 + jj), &row);
        for (int ii = 0; ii < t->ni; ii++) {
            const float value = t->samples[(jj * PAIR_TILE + ii) * PAIR_PITCH + PAIR_PAD];
            const double lo = row.lo[ii], hi = row.hi[ii];
            int64_t u;
            float weight[3];
            if (fan_weights(lo, hi, u0, u1, &u, weight)) {
                for (int n = 0; n < 3; n++)
                    lines[u - u0 + n] += value * weight[n];
                continue;
            }
            for (u = lo > (double)u0 ? (int64_t)lo : u0; u < u1 && (double)u < hi; u++)
                lines[u - u0] += value * fan_overlap(lo, hi, u);
        }
    }
}

static void collect_fan(const struct vp_pair *p, const struct vp_pair_view *view, const struct vp_pair_tile *t,
                        const float *lines)
{
    for (int jj = 0; jj < t->nj; jj++) {
        struct fan_row row;
        fan_row_of(view, (double)t->i0, (double)(t->j0 + jj), &row);
        for (int ii = 0; ii < t->ni; ii++) {
            float *const to = &t->samples[(jj * PAIR_TILE + ii) * PAIR_PITCH + PAIR_PAD];
            const double lo = row.lo[ii], hi = row.hi[ii];
            int64_t u;
            float weight[3];
            if (fan_weights(lo, hi, 0, p->nu, &u, weight)) {
                *to += weight[0] * lines[u] + weight[1] * lines[u + 1] + weight[2] * lines[u + 2];
                continue;
            }
            for (u = lo > 0 ? (int64_t)lo : 0; u < p->nu && (double)u < hi; u++)
                *to += fan_overlap(lo, hi, u) * lines[u];
        }
    }
}

/* ---- projection ---- */

#if HAVE_PERMUTE
/* Adds rows [r0, r1) to `taps` lines. */
INLINE void spread_rows(const struct division *d, int64_t r0, int64_t r1, const float *weight, int taps, bool three,
                        float *line, int64_t pitch)
{
    struct walk w = walk_of(d);
    for (int64_t r = r0; r < r1; r += LANES) {
        const vf rows = look_up(d->samples, &w, three);
#pragma GCC unroll 3
        for (int t = 0; t < taps; t++)
            put(line + t * pitch + r, vf_at(line + t * pitch + r) + weight[t] * rows);
    }
}

INLINE void spread_looked_up(const struct division *d, int64_t r0, int64_t r1, const float *weight, int64_t taps,
                             float *line, int64_t pitch)
{
    const bool three = d->step > 1;
    if (taps == 1)
        spread_rows(d, r0, r1, weight, 1, true, line, pitch);
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

INLINE void spread_column(const struct vp_pair *p, const struct sight *s, const struct vp_pair_tile *t, const float *in,
                          int64_t first_line, float *lines, float *scratch)
{
    float *const line = lines + (s->u0 - first_line) * p->pitch;
    int64_t r0, r1;
    if (!rows_of(s, p->nv, (double)t->k0, t->n, &r0, &r1))
        return;
    const struct division d = {in, t->n, ((double)r0 - s->e0) * s->width - (double)t->k0, s->width, s->step};
#if HAVE_PERMUTE
    if (s->width <= WIDEST && ceil(s->hi) - floor(s->lo) <= 3) { /* whatever part of the lines this is, for the bits */
        spread_looked_up(&d, r0, r1, s->overlap, s->u1 - s->u0, line, p->pitch);
        return;
    }
#endif
    float *const rows = scratch + 2 * (p->pitch + PAIR_PITCH);
    divide_by_sums(&d, (double *)scratch, 0, r1 - r0, rows);
    for (int64_t u = s->u0; u < s->u1; u++) {
        const float weight = overlap_of(s, u);
        float *const to = line + (u - s->u0) * p->pitch;
        for (int64_t r = r0; r < r1; r++)
            to[r] += weight * rows[r - r0];
    }
}

static void spread_tile(const struct vp_pair *p, const struct vp_pair_view *view, const struct vp_pair_tile *t,
                        int64_t u0, int64_t u1, float *lines, float *scratch)
{
    if (p->flat) {
        spread_fan(view, t, u0, u1, lines);
        return;
    }
    struct sights all;
    sights_of(view, t, &all);
    for (int n = 0; n < PAIR_COLUMNS; n++) {
        const int place = place_of(view, n), ii = place % PAIR_TILE, jj = place / PAIR_TILE;
        struct sight s;
        if (ii < t->ni && jj < t->nj && sight_of(&all, place, u0, u1, &s))
            spread_column(p, &s, t, t->samples + place * PAIR_PITCH + PAIR_PAD, u0, lines, scratch);
    }
}

/* ---- transpose ---- */

/* Fills `mixed` with rows [r0, r1) of the lines, weighted, r1 - r0 a multiple of LANES. */
INLINE void mix_lines(const struct sight *s, const float *line, int64_t pitch, int64_t r0, int64_t r1, float *mixed)
{
    const int64_t taps = s->u1 - s->u0;
    const float step = (float)s->step;
    const float a = s->overlap[0] * step, b = s->overlap[1] * step, c = s->overlap[2] * step;
    const float *const second = taps > 1 ? line + pitch : line, *const third = taps > 2 ? line + 2 * pitch : line;
    if (taps <= 2)
        for (int64_t r = r0; r < r1; r += LANES)
            put(mixed + r - r0, a * vf_at(line + r) + b * vf_at(second + r));
    else
        for (int64_t r = r0; r < r1; r += LANES)
            put(mixed + r - r0, a * vf_at(line + r) + b * vf_at(second + r) + c * vf_at(third + r));
    for (int64_t u = s->u0 + 3; u < s->u1; u++) {
        const float weight = overlap_of(s, u) * step, *const q = line + (u - s->u0) * pitch;
        for (int64_t r = r0; r < r1; r += LANES)
            put(mixed + r - r0, vf_at(mixed + r - r0) + weight * vf_at(q + r));
    }
}

#if HAVE_PERMUTE
INLINE void collect_rows(const struct division *d, int64_t first, int64_t last, bool three, float *out)
{
    struct walk w = walk_of(d);
    const int64_t k0 = first / LANES * LANES;
    w.at += k0 / LANES * w.advance;
    for (int64_t k = k0; k < last; k += LANES)
        put(out + k, vf_at(out + k) + look_up(d->samples, &w, three));
}
#endif

/* A column whose lines are mixed, and voxels [first, last) of it that see a row. */
struct mixed {
    struct division d;
    int first, last;
    float *out;
};

/* Mixes the lines of a column into `rows`. False: it sees none. */
INLINE bool mix_column(const struct vp_pair *p, const struct sight *s, const struct vp_pair_tile *t, const float *lines,
                       float *rows, struct mixed *m)
{
    const double start = s->e0 + (double)t->k0 * s->step;
    int64_t r0, r1;
    if (!rows_of(s, p->nv, (double)t->k0, t->n, &r0, &r1)) /* the whole segment, whatever the slab, for the bits */
        return false;
    const int64_t n = (r1 - r0 + LANES - 1) / LANES * LANES;
    mix_lines(s, lines + s->u0 * p->pitch, p->pitch, r0, r0 + n, rows);
    put(rows + n, (vf){});
    put(rows + n + LANES, (vf){});
    const double before = -start * s->width, after = ((double)p->nv - start) * s->width;
    m->first = before > t->first ? (int)before : t->first;
    m->last = after < t->last ? (int)ceil(after) : t->last;
    m->d = (struct division){rows, n, start - (double)r0, s->step, s->width};
    return true;
}

/* Adds a mixed column to its voxels. */
INLINE void collect_column(const struct mixed *m, float *scratch)
{
#if HAVE_PERMUTE
    if (m->d.step <= WIDEST) {
        if (m->d.step > 1)
            collect_rows(&m->d, m->first, m->last, true, m->out);
        else
            collect_rows(&m->d, m->first, m->last, false, m->out);
        return;
    }
#endif
    float voxels[VP_PAIR_SEGMENT];
    divide_by_sums(&m->d, (double *)scratch, m->first, m->last, voxels);
    for (int k = m->first; k < m->last; k++)
        m->out[k] += voxels[k];
}

static void collect_tile(const struct vp_pair *p, const struct vp_pair_view *view, const struct vp_pair_tile *t,
                         const float *lines, float *scratch)
{
    if (p->flat) {
        collect_fan(p, view, t, lines);
        return;
    }
    const int64_t room = p->pitch + PAIR_PITCH;
    float *const rows[2] = {scratch + 2 * room, scratch + 3 * room};
    struct sights all;
    struct mixed m[2]; /* a column is looked up while the next one is mixed, when its rows have left the store buffer */
    int ready = -1;
    sights_of(view, t, &all);
    for (int i = 0; i < 2; i++)
        memset(rows[i], 0, PAIR_PAD * sizeof *rows[i]);
    for (int n = 0; n < PAIR_COLUMNS; n++) {
        const int place = place_of(view, n), ii = place % PAIR_TILE, jj = place / PAIR_TILE, now = ready == 0;
        struct sight s;
        if (!(ii < t->ni && jj < t->nj && sight_of(&all, place, 0, p->nu, &s)
              && mix_column(p, &s, t, lines, rows[now] + PAIR_PAD, &m[now])))
            continue;
        m[now].out = t->samples + place * PAIR_PITCH + PAIR_PAD;
        if (ready >= 0)
            collect_column(&m[ready], scratch);
        ready = now;
    }
    if (ready >= 0)
        collect_column(&m[ready], scratch);
}

const struct vp_pair_isa PASTE(vp_pair_isa_, VP_ISA) = {
    .name = TEXT(VP_ISA),
    .load = load_tile,
    .add = add_tile,
    .fill = fill_lines,
    .store = store_lines,
    .spread = spread_tile,
    .collect = collect_tile,
};
