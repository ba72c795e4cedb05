/* SPDX-License-Identifier: BSD-3-Clause */
/* Moments, squares and extents of samples.
 *
 * Moments: samples are cut in blocks of fixed length; a block's mean and squared deviations take two passes
 * in cache; blocks are merged in order (Chan, Golub, LeVeque, Am. Stat. 37, 1983, eq. 2.1), so that huge
 * offsets cost no digits and threads change no bits. The sum is kept in two words (Neumaier 1974). */
#include "pages/statistics.h"

#include "base/size.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { BLOCK = VP_MOMENTS_BLOCK, GROUP = 256, LANES = 8, EXTENT_PART = 1 << 16 };

static const char *at(const void *samples, enum vp_type type, int64_t i)
{
    return (const char *)samples + (size_t)i * vp_type_size(type);
}

/* ---- moments ---- */

/* Drops what is not finite from x[0..n), counting it; returns how many are left. */
static int keep_finite(struct vp_moments *m, double *x, int n)
{
    int kept = 0;

    for (int i = 0; i < n; i++) {
        if (isnan(x[i]))
            m->nan++;
        else if (isinf(x[i]))
            m->inf++;
        else
            x[kept++] = x[i];
    }
    return kept;
}

/* Computes moments of one block, in LANES accumulators whatever the vector length of the machine. x has LANES spare
 * entries. */
static void block_moments(struct vp_moments *m, double *x, int n, bool is_float)
{
    double s[LANES] = {0}, lo[LANES], hi[LANES], d1[LANES] = {0}, d2[LANES] = {0};

    *m = (struct vp_moments){0};
    if (is_float) {
        double odd[LANES] = {0};
        for (int i = n; i < n + LANES; i++)
            x[i] = 0;
        for (int i = 0; i < n; i += LANES)
            for (int l = 0; l < LANES; l++)
                odd[l] += x[i + l] - x[i + l]; /* 0, or NaN for good */
        double any = 0;
        for (int l = 0; l < LANES; l++)
            any += odd[l];
        if (any != 0)
            n = keep_finite(m, x, n);
    }
    if (n == 0)
        return;

    const int whole = n - n % LANES;
    for (int l = 0; l < LANES; l++)
        lo[l] = hi[l] = x[0];
    for (int i = 0; i < whole; i += LANES)
        for (int l = 0; l < LANES; l++) {
            const double v = x[i + l];
            s[l] += v;
            lo[l] = v < lo[l] ? v : lo[l];
            hi[l] = v > hi[l] ? v : hi[l];
        }
    for (int i = whole; i < n; i++) {
        s[i - whole] += x[i];
        lo[0] = x[i] < lo[0] ? x[i] : lo[0];
        hi[0] = x[i] > hi[0] ? x[i] : hi[0];
    }
    m->n = n;
    m->min = lo[0];
    m->max = hi[0];
    for (int l = 0; l < LANES; l++) {
        m->sum += s[l];
        m->min = lo[l] < m->min ? lo[l] : m->min;
        m->max = hi[l] > m->max ? hi[l] : m->max;
    }
    if (m->min == m->max) { /* a constant has no deviations, not even rounding errors */
        m->mean = m->min;
        return;
    }
    m->mean = m->sum / n;
    for (int i = 0; i < whole; i += LANES)
        for (int l = 0; l < LANES; l++) {
            const double d = x[i + l] - m->mean;
            d1[l] += d;
            d2[l] += d * d;
        }
    for (int i = whole; i < n; i++) {
        const double d = x[i] - m->mean;
        d1[i - whole] += d;
        d2[i - whole] += d * d;
    }
    double e1 = 0, e2 = 0;
    for (int l = 0; l < LANES; l++) {
        e1 += d1[l];
        e2 += d2[l];
    }
    /* e1 is the rounding error of the mean times n */
    m->mean_low = e1 / n;
    m->m2 = e2 - e1 * m->mean_low;
    if (m->m2 < 0)
        m->m2 = 0;
}

static void two_word_add(double *sum, double *low, double v)
{
    const double t = *sum + v;

    *low += fabs(*sum) >= fabs(v) ? *sum - t + v : v - t + *sum;
    *sum = t;
}

/* Adds all of `b` to `m`. */
static void merge(struct vp_moments *m, const struct vp_moments *b)
{
    m->nan += b->nan;
    m->inf += b->inf;
    if (b->n == 0)
        return;
    if (m->n == 0) {
        const int64_t nan = m->nan, inf = m->inf;
        *m = *b;
        m->nan = nan;
        m->inf = inf;
        return;
    }
    const double na = (double)m->n, nb = (double)b->n, delta = b->mean - m->mean + (b->mean_low - m->mean_low);
    m->n += b->n;
    m->min = b->min < m->min ? b->min : m->min;
    m->max = b->max > m->max ? b->max : m->max;
    m->m2 += b->m2 + delta * delta * (na / (na + nb)) * nb;
    two_word_add(&m->sum, &m->sum_low, b->sum);
    m->sum_low += b->sum_low;
    two_word_add(&m->mean, &m->mean_low, delta * (nb / (na + nb)));
}

void vp_moments_add(struct vp_moments *m, const void *samples, enum vp_type type, int64_t n)
{
    const bool is_float = vp_type_is_float(type);

    for (int64_t start = 0; start < n; start += (int64_t)BLOCK * GROUP) {
        struct vp_moments part[GROUP];
        const int64_t end = vp_min64(n, start + (int64_t)BLOCK * GROUP);
        const int blocks = (int)((end - start + BLOCK - 1) / BLOCK);

        #pragma omp parallel for schedule(static) if (blocks > 8)
        for (int b = 0; b < blocks; b++) {
            double x[BLOCK + LANES] __attribute__((aligned(64)));
            const int64_t first = start + (int64_t)b * BLOCK;
            const int len = (int)vp_min64(BLOCK, end - first);
            vp_convert(x, VP_F64, at(samples, type, first), type, len, 1, 0);
            block_moments(&part[b], x, len, is_float);
        }
        for (int b = 0; b < blocks; b++)
            merge(m, &part[b]);
    }
}

double vp_moments_sum(const struct vp_moments *m, const double scale[2])
{
    const double n = (double)m->n, offsets = n * scale[1];

    return (m->sum - offsets + (m->sum_low - fma(n, scale[1], -offsets))) / scale[0];
}

double vp_moments_std(const struct vp_moments *m)
{
    return m->n ? sqrt(m->m2 / (double)m->n) : NAN;
}

/* ---- squares ---- */

#define SQUARES(NAME, T, MAX)                                                          \
    static void NAME(double *sum, int *finite, const T *v, int n)                      \
    {                                                                                  \
        double s[LANES] = {0};                                                         \
        int32_t count[LANES] = {0};                                                    \
                                                                                       \
        for (int i = 0; i < n; i += LANES) {                                           \
            const int lanes = n - i < LANES ? n - i : LANES;                           \
            for (int l = 0; l < lanes; l++) {                                          \
                const bool is_finite = v[i + l] <= MAX && v[i + l] >= -MAX;            \
                const double x = is_finite ? (double)v[i + l] : 0;                     \
                s[l] += x * x;                                                         \
                count[l] += is_finite;                                                 \
            }                                                                          \
        }                                                                              \
        *sum = 0;                                                                      \
        *finite = 0;                                                                   \
        for (int l = 0; l < LANES; l++) {                                              \
            *sum += s[l];                                                              \
            *finite += count[l];                                                       \
        }                                                                              \
    }
SQUARES(block_squares, float, FLT_MAX)
SQUARES(block_squares_f64, double, DBL_MAX)

void vp_squares_add(struct vp_squares *s, const void *samples, enum vp_type type, int64_t n)
{
    enum { MANY = 1024 };

    for (int64_t start = 0; start < n; start += (int64_t)BLOCK * MANY) {
        double sum[MANY];
        int finite[MANY];
        const int64_t end = vp_min64(n, start + (int64_t)BLOCK * MANY);
        const int blocks = (int)((end - start + BLOCK - 1) / BLOCK);

        #pragma omp parallel for schedule(static) if (blocks > 8)
        for (int b = 0; b < blocks; b++) {
            const int64_t first = start + (int64_t)b * BLOCK;
            const int count = (int)vp_min64(BLOCK, end - first);
            if (type == VP_F64)
                block_squares_f64(&sum[b], &finite[b], (const double *)samples + first, count);
            else
                block_squares(&sum[b], &finite[b], (const float *)samples + first, count);
        }
        for (int b = 0; b < blocks; b++) {
            two_word_add(&s->sum, &s->low, sum[b]);
            s->n += finite[b];
        }
    }
}

double vp_squares_mean(const struct vp_squares *s)
{
    return s->n ? (s->sum + s->low) / (double)s->n : NAN;
}

/* ---- extent ---- */

/* Finds the extremes of n samples; false if none is finite. In lanes of a cache line, to become vector code. NaN fails
 * every comparison; SEEN keeps infinities out, which integers do not have. */
#define EXTENT(NAME, T, LEAST, MOST, SEEN)                                          \
    static bool NAME(const void *samples, int64_t n, double *min, double *max)      \
    {                                                                               \
        enum { LINE = 64 / sizeof(T) };                                             \
        const T *v = samples;                                                       \
        T lo[LINE], hi[LINE];                                                       \
        for (int l = 0; l < LINE; l++) {                                            \
            lo[l] = MOST;                                                           \
            hi[l] = LEAST;                                                          \
        }                                                                           \
        for (int64_t i = 0; i < n; i += LINE) {                                     \
            const int lanes = (int)vp_min64(LINE, n - i);                           \
            for (int l = 0; l < lanes; l++) {                                       \
                const T x = v[i + l];                                               \
                lo[l] = SEEN(x >= LEAST) && x < lo[l] ? x : lo[l];                  \
                hi[l] = SEEN(x <= MOST) && x > hi[l] ? x : hi[l];                   \
            }                                                                       \
        }                                                                           \
        for (int l = 1; l < LINE; l++) {                                            \
            lo[0] = lo[l] < lo[0] ? lo[l] : lo[0];                                  \
            hi[0] = hi[l] > hi[0] ? hi[l] : hi[0];                                  \
        }                                                                           \
        *min = (double)lo[0];                                                       \
        *max = (double)hi[0];                                                       \
        return lo[0] <= hi[0];                                                      \
    }
#define FINITE(c) (c)
#define ANY(c) true
EXTENT(extent_u8, uint8_t, 0, UINT8_MAX, ANY)
EXTENT(extent_u16, uint16_t, 0, UINT16_MAX, ANY)
EXTENT(extent_u32, uint32_t, 0, UINT32_MAX, ANY)
EXTENT(extent_u64, uint64_t, 0, UINT64_MAX, ANY)
EXTENT(extent_i8, int8_t, INT8_MIN, INT8_MAX, ANY)
EXTENT(extent_i16, int16_t, INT16_MIN, INT16_MAX, ANY)
EXTENT(extent_i32, int32_t, INT32_MIN, INT32_MAX, ANY)
EXTENT(extent_i64, int64_t, INT64_MIN, INT64_MAX, ANY)
EXTENT(extent_f32, float, -FLT_MAX, FLT_MAX, FINITE)
EXTENT(extent_f64, double, -DBL_MAX, DBL_MAX, FINITE)

void vp_sample_range_add(struct vp_sample_range *e, const void *samples, enum vp_type type, int64_t n)
{
    static bool (*const extent[VP_N_TYPES])(const void *, int64_t, double *, double *) = {
        [VP_U8] = extent_u8, [VP_U16] = extent_u16, [VP_U32] = extent_u32, [VP_U64] = extent_u64,
        [VP_I8] = extent_i8, [VP_I16] = extent_i16, [VP_I32] = extent_i32, [VP_I64] = extent_i64,
        [VP_F32] = extent_f32, [VP_F64] = extent_f64,
    };
    double min = e->any ? e->min : INFINITY, max = e->any ? e->max : -INFINITY;

    #pragma omp parallel for schedule(static) reduction(min : min) reduction(max : max) if (n > 8 * EXTENT_PART)
    for (int64_t i = 0; i < n; i += EXTENT_PART) {
        double lo, hi;
        if (extent[type](at(samples, type, i), vp_min64(EXTENT_PART, n - i), &lo, &hi)) {
            min = lo < min ? lo : min;
            max = hi > max ? hi : max;
        }
    }
    e->any = min <= max;
    e->min = min + 0.0; /* one zero, whichever of -0 and 0 a thread saw first */
    e->max = max + 0.0;
}

void vp_flatness_add(struct vp_flatness *f, const void *samples, enum vp_type type, int64_t n)
{
    const char *const s = samples;
    const size_t size = vp_type_size(type);
    if (n < 1 || f->varies)
        return;
    f->varies = (f->seen && memcmp(f->first, s, size)) || memcmp(s, s + size, (size_t)(n - 1) * size);
    memcpy(f->first, s, size);
    f->seen = true;
}
