/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of sums and of squared deviations; from them means, variances, standard deviations and Wiener's estimate. */
#include "local/moments_isa.h"

#include "base/isa.h"

#include <math.h>
#include <string.h>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

/* 8 and 16 bits: fits 32. (Of 32 bits nothing uses the squares.) */
#define SQUARE(v) ((uint32_t)(v) * (uint32_t)(v))
#define A uint32_t
#define NAME u32
#include "local/moments_rows.inc"
SAMPLES(uint8_t, _u8)
SAMPLES(uint16_t, _u16)
SAMPLES(int16_t, _i16)
#undef A
#undef NAME

#define A uint64_t
#define NAME u64
#include "local/moments_rows.inc"
SAMPLES(uint8_t, _u8)
SAMPLES(uint16_t, _u16)
SAMPLES(int16_t, _i16)
SAMPLES(uint32_t, _u32)
SAMPLES(int32_t, _i32)
#undef A
#undef NAME
#undef SQUARE

#define SQUARE(v) ((double)(v) * (double)(v))
#define A double
#define NAME f64
#include "local/moments_rows.inc"
SAMPLES(float, _f32)
SAMPLES(double, _f64)
PAD(plain_f64_u32, uint32_t, (A)v, 0)
PAD(plain_f64_i32, int32_t, (A)v, 0)
#undef A
#undef NAME

/* ---- sums with squared deviations ----
 *
 * Merging parts of ka and kb samples with sums a and b increases the sum of squared deviations by
 * (kb a - ka b)^2 / (ka kb (ka + kb)): exactly 0 where the samples are one constant, as both products are exact. */

/* Returns a b + c, rounded once or twice in all loops alike: the loop of a voxel depends on the box, so the compiler
 * must not choose for each. */
INLINE double fused(double a, double b, double c)
{
#ifdef __FMA__
    return __builtin_fma(a, b, c);
#else
    return a * b + c;
#endif
}

/* 1 / (ka kb (ka + kb)), 0 / 0 being 0 here */
INLINE double weight_of(double ka, double kb)
{
    const double k = ka * kb * (ka + kb);

    return 1 / (k > 1 ? k : 1);
}

/* Along x the counts differ near the edges: ka, kb and the weight of every merge are in rows of their own, after the
 * rows of sums and deviations. */
static void begin_spread(const struct vp_tile *t)
{
    const int64_t r = t->w->op->halo[0], w = 2 * r + 1, n = (int64_t)(t->lane / sizeof(double));
    const int64_t left = vp_sweep_left(t), right = left + vp_box_size(&t->in, 0);
    const size_t step = vp_sweep_row(sizeof(double), t->n, r);
    double *row = (double *)t->rows + 2 * step;
    int64_t done = 1;

    if (t->w->f->shape != VP_BOX) { /* samples: 1 in the image */
        for (int64_t i = 0; i < n + 2 * r; i++)
            row[i - (int64_t)step] = i >= left && i < right;
        return;
    }
    for (int64_t length = 1; 2 * length <= w; length *= 2) {
        for (int part = 0; part < ((w & 2 * length) ? 2 : 1); part++, row += 3 * step) {
            const int64_t la = part ? done : length, lb = part ? 2 * length : length;
            for (int64_t i = 0; i < n + w - (part ? w : 2 * length); i++) {
                const int64_t a0 = i, a1 = i + la, b1 = a1 + lb;
                const double ka = (double)vp_max64(vp_min64(a1, right) - vp_max64(a0, left), 0);
                const double kb = (double)vp_max64(vp_min64(b1, right) - vp_max64(a1, left), 0);
                row[i] = ka;
                row[i + (int64_t)step] = kb;
                row[i + 2 * (int64_t)step] = weight_of(ka, kb);
            }
            if (part)
                done += lb;
        }
    }
}

static void begin(struct vp_tile *t)
{
    const struct vp_moments_params *p = t->w->op->params;

    *(double *)((char *)t->rows + vp_moments_kept(t->w, t->n)) = 0; /* every row has samples */
    if (p->sums == VP_SUM_SPREAD)
        begin_spread(t);
}

struct merge { int64_t n, full, end, step; double la, lb; const double *k; };

/* Merges (s, m) with (bs, bm), deviations times `count` if it is given. In [full, end) la and lb samples are merged,
 * with weights from rows elsewhere. `am`, `bm`: deviations exist. */
INLINE void merge_part(double *s, double *m, bool am, const double *bs, const double *bm, const struct merge *g,
                       const int32_t *count, int64_t from, int64_t to, bool full)
{
    const double *ka = g->k, *kb = ka + g->step, *c = kb + g->step;
    const double la = g->la, lb = g->lb, w = weight_of(la, lb);

    INDEPENDENT
    for (int64_t i = from; i < to; i++) {
        const double d = fused(full ? lb : kb[i], s[i], -((full ? la : ka[i]) * bs[i]));
        const double v = fused(d * d, full ? w : c[i], (am ? m[i] : 0) + (bm ? bm[i] : 0));
        m[i] = count ? v * (double)count[i] : v;
        s[i] += bs[i];
    }
}

INLINE void merge(double *s, double *m, bool am, const double *bs, const double *bm, const struct merge *g,
                  const int32_t *count)
{
    /* whole vectors of eight: rows are padded */
    const int64_t n = (g->n + 7) / 8 * 8, full = vp_min64((g->full + 7) / 8 * 8, n);
    const int64_t end = vp_max64(full, vp_min64(g->end, n) / 8 * 8);

    merge_part(s, m, am, bs, bm, g, count, 0, full, false);
    merge_part(s, m, am, bs, bm, g, count, full, end, true);
    merge_part(s, m, am, bs, bm, g, count, end, n, false);
}

/* Makes the row of samples, as f64, with its halo. */
static void load_spread(const struct vp_tile *t, const void *src)
{
    switch ((int)((const struct vp_moments_params *)t->w->op->params)->in) {
    case VP_F64: plain_f64_f64(t, src, t->rows); break;
    case VP_U32: plain_f64_u32(t, src, t->rows); break;
    case VP_I32: plain_f64_i32(t, src, t->rows); break;
    default: plain_f64_f32(t, src, t->rows);
    }
}

static void across_spread(const struct vp_tile *t, const void *src, void *state)
{
    const int64_t r = t->w->op->halo[0], w = 2 * r + 1, n = (int64_t)(t->lane / sizeof(double));
    const int64_t left = vp_sweep_left(t), right = left + vp_box_size(&t->in, 0);
    const size_t step = vp_sweep_row(sizeof(double), t->n, r);
    double *s = t->rows, *m = s + step, *sum = state, *dev = sum + n;
    struct merge g = {.full = left, .step = (int64_t)step, .k = m + step};
    int64_t done = 1;

    load_spread(t, src);
    memcpy(sum, s, (size_t)n * sizeof *sum);
    if (w == 1)
        memset(dev, 0, (size_t)n * sizeof *dev);
    for (int64_t length = 1; 2 * length <= w; length *= 2) {
        g.n = n + w - 2 * length;
        g.la = g.lb = (double)length;
        g.end = right - 2 * length + 1;
        if (length == 1)
            merge(s, m, false, s + 1, NULL, &g, NULL);
        else
            merge(s, m, true, s + length, m + length, &g, NULL);
        g.k += 3 * step;
        if (!(w & 2 * length))
            continue;
        g.n = n;
        g.la = (double)done;
        g.lb = (double)(2 * length);
        g.end = right - done - 2 * length + 1;
        if (4 * length <= w && done == 1)
            merge(sum, dev, false, s + done, m + done, &g, NULL);
        else if (4 * length <= w)
            merge(sum, dev, true, s + done, m + done, &g, NULL);
        else if (done == 1) /* the last one */
            merge(sum, dev, false, s + done, m + done, &g, t->count);
        else
            merge(sum, dev, true, s + done, m + done, &g, t->count);
        g.k += 3 * step;
        done += 2 * length;
    }
}

/* All columns of a row have the same number of samples along y, so deviations are times the samples along x. */
static void combine_spread(const struct vp_tile *t, void *dst, const void *a, const void *b, double ka, double kb,
                           double unit)
{
    const int64_t n = (int64_t)(t->lane / sizeof(double));
    const double c = 1 / (ka * kb * (ka + kb) * unit), *p = a, *q = b;
    double *d = dst;

    INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        const double e = fused(kb, p[i], -(ka * q[i]));
        d[n + i] = fused(e * e, c, p[n + i] + q[n + i]);
        d[i] = p[i] + q[i];
    }
}

/* Ball and set: sum, deviations and samples are each a lane. */
INLINE void add_counted(double *d, const double *p, const double *bs, const double *bm, const double *bk, int64_t n)
{
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        const double ka = p[2 * n + i], kb = bk[i], e = fused(kb, p[i], -(ka * bs[i]));
        d[n + i] = fused(e * e, weight_of(ka, kb), p[n + i] + (bm ? bm[i] : 0));
        d[i] = p[i] + bs[i];
        d[2 * n + i] = ka + kb;
    }
}

static void grow_spread(const struct vp_tile *t, void *state, const void *smaller, int64_t h)
{
    const int64_t n = (int64_t)(t->lane / sizeof(double)), r = t->w->op->halo[0];
    const double *s = (const double *)t->rows + r, *k = s + vp_sweep_row(sizeof(double), t->n, r);
    double *d = state;

    if (h == 0) {
        memcpy(d, s, (size_t)n * sizeof *d);
        memset(d + n, 0, (size_t)n * sizeof *d);
        memcpy(d + 2 * n, k, (size_t)n * sizeof *d);
        return;
    }
    add_counted(d, smaller, s - h, NULL, k - h, n);
    add_counted(d, d, s + h, NULL, k + h, n);
}

static void gather_spread(const struct vp_tile *t, void *dst, const void *const *row, int64_t rows, bool first)
{
    const int64_t n = (int64_t)(t->lane / sizeof(double));
    int64_t i = 0;

    if (first)
        memcpy(dst, row[i++], t->lane * 3);
    for (; i < rows; i++) {
        const double *b = row[i];
        add_counted(dst, dst, b, b + n, b + 2 * n, n);
    }
}

/* ---- results ---- */

enum { PART = 64 };
struct moments_part { double mean[PART], var[PART]; };

/* Fills, for the voxels of a row: number of samples, divisor of the squared deviations, and the inverses of both, for
 * results in float32. Consecutive rows mostly have the same counts, so they are cached after the other rows. */
struct moments_counts { double times; double *samples, *by, *per_sample, *per; };

static struct moments_counts counts_of(const struct vp_tile *t, int64_t times)
{
    const struct vp_moments_params *p = t->w->op->params;
    const bool ball = t->w->f->shape != VP_BOX;
    const double less = p->sample;
    double *kept = (double *)((char *)t->rows + vp_moments_kept(t->w, t->n)), *samples = kept + 8;
    const struct moments_counts k = {(double)times, samples, samples + t->n, samples + 2 * t->n, samples + 3 * t->n};

    if (!ball && kept[0] == k.times)
        return k;
    kept[0] = k.times;
    for (int64_t i = 0; i < t->n; i++) {
        const double n = (double)t->count[i] * k.times, left = n - less > 0 ? n - less : n > 0;
        k.samples[i] = n;
        k.by[i] = p->sums != VP_SUM_SPREAD ? left * n : ball ? left : left * (double)t->count[i];
        k.per_sample[i] = 1 / n;
        k.per[i] = 1 / k.by[i];
    }
    return k;
}

/* Returns n sum(x^2) - sum(x)^2 without rounding; sums are signed. */
#define EXACT(name, A, S, W) \
    INLINE void name(const struct vp_tile *t, const A *state, const struct moments_counts *k, int64_t at, int64_t n, \
                     bool mean, bool spread, struct moments_part *p) \
    { \
        const A *sum = state + at, *square = sum + t->lane / sizeof(A); \
        for (int64_t i = 0; mean && i < n; i++) \
            p->mean[i] = (double)(S)sum[i]; \
        for (int64_t i = 0; spread && i < n; i++) { \
            const W s = (S)sum[i]; \
            p->var[i] = (double)((W)(int64_t)k->samples[at + i] * (W)square[i] - s * s); \
        } \
    }
EXACT(exact_32, uint32_t, int32_t, int64_t)
EXACT(exact_64, uint64_t, int64_t, int64_t)
EXACT(exact_wide, uint64_t, int64_t, __int128)

INLINE void real(const struct vp_tile *t, const double *state, const struct moments_counts *k, int64_t at, int64_t n,
                 bool mean, bool spread, struct moments_part *p)
{
    const double *sum = state + at, *dev = sum + t->lane / sizeof *sum;
    const int64_t *const r = t->w->op->halo;
    const bool set = t->w->f->shape == VP_OFFSETS, alone = !set && r[0] + r[1] + r[2] == 0;

    /* a single sample: 0, or NaN if it is not finite */
    for (int64_t i = 0; mean && i < n; i++)
        p->mean[i] = sum[i];
    for (int64_t i = 0; spread && i < n; i++)
        p->var[i] = alone ? sum[i] - sum[i] : dev[i];
    for (int64_t i = 0; spread && set && i < n; i++) /* one of many samples may be left */
        if (k->samples[at + i] == 1)
            p->var[i] = sum[i] - sum[i];
}

INLINE void divide(double *v, const double *by, const double *inverse, int64_t n, bool exact)
{
    if (exact)
        for (int64_t i = 0; i < n; i++)
            v[i] /= by[i];
    else
        for (int64_t i = 0; i < n; i++)
            v[i] *= inverse[i];
}

/* Takes the roots of PART numbers. */
static void roots(double *v)
{
#ifdef __AVX512F__
    /* by two of Newton's steps from 14 bits, which is faster than the instruction; 0, infinity and NaN are
     * their own roots */
    for (int64_t i = 0; i < PART; i += 8) {
        const __m512d x = _mm512_loadu_pd(v + i), half = _mm512_set1_pd(.5), y0 = _mm512_rsqrt14_pd(x);
        const __m512d e = _mm512_fnmadd_pd(_mm512_mul_pd(_mm512_mul_pd(x, half), y0), y0, half);
        const __m512d y = _mm512_fmadd_pd(y0, e, y0), s = _mm512_mul_pd(x, y);
        const __m512d root = _mm512_fmadd_pd(_mm512_fnmadd_pd(s, s, x), _mm512_mul_pd(y, half), s);
        const __mmask8 usual = _mm512_cmp_pd_mask(x, _mm512_setzero_pd(), _CMP_GT_OQ)
                             & _mm512_cmp_pd_mask(x, _mm512_set1_pd(INFINITY), _CMP_LT_OQ);
        _mm512_storeu_pd(v + i, _mm512_mask_mov_pd(x, usual, root));
    }
#else
    for (int64_t i = 0; i < PART; i++)
        v[i] = sqrt(v[i]);
#endif
}

/* A loop for each type, which is vectorised. */
#define LOAD(T) \
    for (int64_t i = 0; i < n; i++) \
        x[i] = (double)((const T *)src)[at + i];

INLINE void load(enum vp_type type, const void *src, int64_t at, int64_t n, double *x)
{
    if (type == VP_U8)
        LOAD(uint8_t)
    else if (type == VP_U16)
        LOAD(uint16_t)
    else if (type == VP_I16)
        LOAD(int16_t)
    else if (type == VP_U32)
        LOAD(uint32_t)
    else if (type == VP_I32)
        LOAD(int32_t)
    else if (type == VP_F64)
        LOAD(double)
    else
        LOAD(float)
}

INLINE void wiener(const struct vp_moments_params *p, const void *src, int64_t at, int64_t n, struct moments_part *part)
{
    double x[PART];

    load(p->in, src, at, n, x);
    for (int64_t i = 0; i < n; i++) {
        const double v = part->var[i], m = part->mean[i], to = fused((v - p->noise) / v, x[i] - m, m);
        part->mean[i] = v > p->noise ? to : m;
    }
}

INLINE void above(const struct vp_moments_params *p, const struct moments_counts *k, const void *src, int64_t at,
                  int64_t n, const struct moments_part *part, uint8_t *out)
{
    const struct vp_limit l = p->limit;
    const double *const samples = k->samples + at;
    double x[PART], mark[PART];

    load(p->in, src, at, n, x);
    if (p->spreads) {
        INDEPENDENT
        for (int64_t i = 0; i < n; i++)
            mark[i] = vp_limit_mark(&l, true, samples[i], part->mean[i], part->var[i], x[i]);
    } else {
        INDEPENDENT
        for (int64_t i = 0; i < n; i++)
            mark[i] = vp_limit_mark(&l, false, samples[i], part->mean[i], 0, x[i]);
    }
    for (int64_t i = 0; i < n; i++)
        out[at + i] = (uint8_t)(int32_t)mark[i];
}

/* Rounds to nearest, halves to even, clamped; NaN is 0. */
#define STORE_BY(W, T, lo, hi) \
    for (int64_t i = 0; i < n; i++) { \
        const double v = value[i] > (lo) ? value[i] : (lo); \
        ((T *)out)[at + i] = value[i] != value[i] ? (T)0 : (T)(W)rint(v < (hi) ? v : (hi)); \
    }
#define STORE(T, lo, hi) STORE_BY(int32_t, T, lo, hi)

static void store(enum vp_type type, void *out, int64_t at, int64_t n, const double *value)
{
    if (type == VP_U8)
        STORE(uint8_t, 0., 255.)
    else if (type == VP_U16)
        STORE(uint16_t, 0., 65535.)
    else if (type == VP_I16)
        STORE(int16_t, -32768., 32767.)
    else if (type == VP_U32)
        STORE_BY(int64_t, uint32_t, 0., 4294967295.)
    else if (type == VP_I32)
        STORE(int32_t, -2147483648., 2147483647.)
    else if (type == VP_F64)
        memcpy((double *)out + at, value, (size_t)n * sizeof *value);
    else
        for (int64_t i = 0; i < n; i++)
            ((float *)out)[at + i] = (float)value[i];
}

static void finish(const struct vp_tile *t, void *out, const void *state, const void *src, int64_t times)
{
    const struct vp_moments_params *p = t->w->op->params;
    const bool limit = p->moment == VP_ABOVE, spread = p->spreads;
    const bool mean = p->moment == VP_MEAN || p->moment == VP_WIENER || limit;
    const struct moments_counts k = counts_of(t, times);
    struct moments_part part = {{0}, {0}};

    for (int64_t at = 0; at < t->n; at += PART) {
        const int64_t n = vp_min64(t->n - at, PART);
        if (p->sums == VP_SUM_U32)
            exact_32(t, state, &k, at, n, mean, spread, &part);
        else if (p->sums == VP_SUM_U64)
            exact_64(t, state, &k, at, n, mean, spread, &part);
        else if (p->sums == VP_SUM_WIDE)
            exact_wide(t, state, &k, at, n, mean, spread, &part);
        else
            real(t, state, &k, at, n, mean, spread, &part);
        if (limit) {
            if (p->sums == VP_SUM_SPREAD) /* V of them is n^2 dev / by */
                for (int64_t i = 0; i < n; i++)
                    part.var[i] = part.var[i] * (k.samples[at + i] * k.samples[at + i]) / k.by[at + i];
            above(p, &k, src, at, n, &part, out);
            continue;
        }
        if (mean)
            divide(part.mean, k.samples + at, k.per_sample + at, n, p->out != VP_F32);
        if (spread)
            divide(part.var, k.by + at, k.per + at, n, p->out != VP_F32);
        if (p->moment == VP_STD)
            roots(part.var);
        if (p->moment == VP_WIENER)
            wiener(p, src, at, n, &part);
        store(p->out, out, at, n, mean ? part.mean : part.var);
    }
}

#define ROWS(of, across, load) {begin, across, combine_##of, load, grow_##of, gather_##of, finish}
#define OF_TYPE(of, type) ROWS(of, PASTE(across_##of, type), PASTE(load_##of, type))
#define SPREAD ROWS(spread, across_spread, load_spread)
#define EACH(type) {OF_TYPE(u32, type), OF_TYPE(u64, type), OF_TYPE(u64, type)}

const struct vp_sweep_rows PASTE(vp_moments_, VP_ISA)[VP_N_TYPES][VP_SUM_N] = {
    [VP_U8] = EACH(_u8), [VP_U16] = EACH(_u16), [VP_I16] = EACH(_i16),
    [VP_F32] = {[VP_SUM_F64] = OF_TYPE(f64, _f32), [VP_SUM_SPREAD] = SPREAD},
    [VP_U32] = {[VP_SUM_U64] = OF_TYPE(u64, _u32), [VP_SUM_SPREAD] = SPREAD},
    [VP_I32] = {[VP_SUM_U64] = OF_TYPE(u64, _i32), [VP_SUM_SPREAD] = SPREAD},
    [VP_F64] = {[VP_SUM_F64] = OF_TYPE(f64, _f64), [VP_SUM_SPREAD] = SPREAD},
};
