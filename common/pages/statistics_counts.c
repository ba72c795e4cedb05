/* SPDX-License-Identifier: BSD-3-Clause */
/* Statistics by counting samples: histograms and quantiles.
 *
 * Quantiles: radix selection on order-preserving integer keys of the samples, 16 bits a pass: a pass
 * counts the next digit of those samples whose leading digits are those of a wanted rank. */
#include "pages/statistics.h"

#include "base/err.h"
#include "base/order.h"
#include "base/size.h"

#include <float.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = VP_MOMENTS_BLOCK };

/* ---- counting ---- */

/* Each thread has its own counters; above this many bytes in all, fewer threads count. */
static const size_t COUNTER_BYTES = (size_t)64 << 20;

static int counter_parts(int64_t bins)
{
    const size_t fit = COUNTER_BYTES / ((size_t)bins * sizeof(int64_t));
    const int threads = omp_get_max_threads();

    return fit < 1 ? 1 : fit < (size_t)threads ? (int)fit : threads;
}

static int counter_init(struct vp_counter *c, int64_t bins, struct vp_err *err)
{
    c->bins = bins;
    c->parts = counter_parts(bins);
    c->count = vp_alloc((size_t)bins * (size_t)c->parts, sizeof(int64_t), "histogram", err);
    return c->count ? 0 : -1;
}

static uint64_t counter_bytes(const struct vp_counter *c)
{
    return (uint64_t)c->bins * (uint64_t)c->parts * sizeof *c->count;
}

/* Brings the counts of all threads together in the first `bins` counters. */
static void counter_sum(struct vp_counter *c)
{
    for (int p = 1; p < c->parts; p++) {
        int64_t *part = c->count + p * c->bins;
        for (int64_t i = 0; i < c->bins; i++)
            c->count[i] += part[i];
        memset(part, 0, (size_t)c->bins * sizeof *part);
    }
}

/* Counts samples [0, n): `index` gives the bins of a block of samples, negative for those that are not
 * counted. */
static void counter_add(struct vp_counter *c,
                        void (*index)(const void *ctx, const void *block, int n, int32_t *bin),
                        const void *ctx, const void *samples, enum vp_type type, int64_t n)
{
    const int64_t blocks = (n + BLOCK - 1) / BLOCK;

    #pragma omp parallel num_threads(c->parts) if (blocks > 8)
    {
        int64_t *count = c->count + omp_get_thread_num() * c->bins;
        #pragma omp for schedule(static)
        for (int64_t b = 0; b < blocks; b++) {
            int32_t bin[BLOCK];
            const int len = (int)vp_min64(BLOCK, n - b * BLOCK);
            index(ctx, (const char *)samples + (size_t)(b * BLOCK) * vp_type_size(type), len, bin);
            for (int i = 0; i < len; i++)
                if (bin[i] >= 0)
                    count[bin[i]]++;
        }
    }
}

/* ---- histogram ---- */

/* Three counters after the bins. */
enum { BELOW, ABOVE, IS_NAN, EXTRA };

int vp_histogram_init(struct vp_histogram *h, const double ends[2], const double scale[2], int bins,
                      struct vp_err *err)
{
    const double lo = ends[0], hi = ends[1];

    *h = (struct vp_histogram){.lo = lo, .hi = hi, .scale = {scale[0], scale[1]}, .bins = bins};
    if (bins < 1 || bins > 1 << 20)
        return vp_fail(err, VP_EUSAGE, "histogram: expected 1 to %d bins, got %d", 1 << 20, bins);
    if (!(lo < hi) || !isfinite(hi - lo) || !isfinite(bins / (hi - lo)))
        return vp_fail(err, VP_EUSAGE, "histogram: expected a range lo < hi, got %g, %g", lo, hi);
    h->edge = vp_alloc_raw((size_t)bins + 1, sizeof *h->edge, "histogram", err);
    if (!h->edge || counter_init(&h->counter, bins + EXTRA, err) < 0) {
        vp_histogram_free(h);
        return -1;
    }
    for (int i = 0; i < bins; i++)
        h->edge[i] = lo + (hi - lo) * i / bins;
    h->edge[bins] = hi;
    h->count = h->counter.count;
    return 0;
}

uint64_t vp_histogram_bytes(const struct vp_histogram *h)
{
    return counter_bytes(&h->counter) + ((uint64_t)h->bins + 1) * sizeof *h->edge;
}

struct histogram_block { const struct vp_histogram *h; enum vp_type type; };

static void histogram_index(const void *ctx, const void *block, int n, int32_t *bin)
{
    const struct histogram_block *c = ctx;
    const struct vp_histogram *h = c->h;
    const double per = h->bins / (h->hi - h->lo);
    double x[BLOCK];

    vp_unscale(x, VP_F64, block, c->type, n, h->scale);
    for (int i = 0; i < n; i++) {
        if (x[i] < h->lo) {
            bin[i] = h->bins + BELOW;
        } else if (x[i] > h->hi) {
            bin[i] = h->bins + ABOVE;
        } else if (isnan(x[i])) {
            bin[i] = h->bins + IS_NAN;
        } else {
            int b = (int)((x[i] - h->lo) * per);
            b = b < h->bins ? b : h->bins - 1;
            /* the product may have been rounded across an edge */
            while (x[i] < h->edge[b])
                b--;
            while (b + 1 < h->bins && x[i] >= h->edge[b + 1])
                b++;
            bin[i] = b;
        }
    }
}

void vp_histogram_add(struct vp_histogram *h, const void *samples, enum vp_type type, int64_t n)
{
    const struct histogram_block c = {h, type};

    counter_add(&h->counter, histogram_index, &c, samples, type, n);
    counter_sum(&h->counter);
    h->below = h->count[h->bins + BELOW];
    h->above = h->count[h->bins + ABOVE];
    h->nan = h->count[h->bins + IS_NAN];
}

void vp_histogram_free(struct vp_histogram *h)
{
    free(h->edge);
    free(h->counter.count);
    *h = (struct vp_histogram){0};
}

/* ---- quantiles ---- */

enum { DIGIT = 16, DIGITS = 1 << DIGIT, COARSE = 20, RANKS = 2 * VP_QUANTILES_MAX };

struct vp_quantiles {
    enum vp_type type, of; /* type of the samples, and the one that keys are made of: */
    bool coarse;           /* their values as f32, one pass over the leading COARSE bits */
    int n;
    double percent[VP_QUANTILES_MAX];
    int bits;              /* bits of a key */
    uint64_t first, last;  /* keys of what is finite */
    int pass;
    int64_t total;         /* finite samples; known after the first pass */
    /* Ranks wanted, two a quantile; `key` holds the leading digits found so far, `rest` the rank among
     * their holders. */
    uint64_t key[RANKS];
    int64_t rest[RANKS];
    int slots;             /* distinct prefixes among the keys */
    uint64_t prefix[RANKS];
    int slot[RANKS];       /* slot of each rank */
    uint8_t *hit;          /* by leading digit: some prefix starts with it */
    struct vp_counter counter;
    struct vp_sample_range extent; /* if coarse: the inside of a bin is guessed, the ends are not */
    double value[VP_QUANTILES_MAX];
};

/* Makes keys, which grow with the sample. */
static void block_keys(const void *block, enum vp_type type, int n, uint64_t *key)
{
    const uint64_t flip = type >= VP_I8 && type <= VP_I64 ? (uint64_t)1 << (8 * vp_type_size(type) - 1) : 0;

#define KEYS(T, expr) do { const T *x = block; for (int i = 0; i < n; i++) key[i] = (expr); } while (0)
    if (type == VP_F32)
        KEYS(float, vp_key_f32(x[i], false));
    else if (type == VP_F64)
        KEYS(double, vp_key_f64(x[i], false));
    else if (vp_type_size(type) == 1)
        KEYS(uint8_t, x[i] ^ flip);
    else if (vp_type_size(type) == 2)
        KEYS(uint16_t, x[i] ^ flip);
    else if (vp_type_size(type) == 4)
        KEYS(uint32_t, x[i] ^ flip);
    else
        KEYS(uint64_t, x[i] ^ flip);
#undef KEYS
}

static double key_value(enum vp_type type, uint64_t key)
{
    if (type == VP_F32)
        return (double)vp_f32_of_key((uint32_t)key, false);
    if (type == VP_F64)
        return vp_f64_of_key(key, false);
    return type >= VP_I8 ? (double)(int64_t)(key - ((uint64_t)1 << (8 * vp_type_size(type) - 1))) : (double)key;
}

static int64_t quantile_bins(enum vp_type type, int n, bool single)
{
    const bool wide = vp_type_size(type) * 8 > DIGIT;

    return single && wide ? (int64_t)1 << COARSE : (int64_t)DIGITS * (wide ? 2 * n : 1);
}

uint64_t vp_quantiles_bytes(enum vp_type type, int n, bool single)
{
    const int64_t bins = quantile_bins(type, n, single);

    return (uint64_t)bins * (uint64_t)counter_parts(bins) * sizeof(int64_t);
}

int vp_quantiles_open(struct vp_quantiles **out, enum vp_type type, const double *percent, int n, bool single,
                      struct vp_err *err)
{
    *out = NULL;
    if (n < 1 || n > VP_QUANTILES_MAX)
        return vp_fail(err, VP_EUSAGE, "percentiles: expected 1 to %d numbers, got %d", VP_QUANTILES_MAX, n);
    for (int i = 0; i < n; i++)
        if (!(percent[i] >= 0 && percent[i] <= 100))
            return vp_fail(err, VP_EUSAGE, "percentiles: expected 0 to 100, got %g", percent[i]);

    struct vp_quantiles *q = vp_alloc(1, sizeof *q, "percentiles", err);
    if (!q)
        return -1;
    q->type = type;
    q->n = n;
    memcpy(q->percent, percent, (size_t)n * sizeof *percent);
    q->coarse = single && vp_type_size(type) * 8 > DIGIT;
    q->of = q->coarse ? VP_F32 : type;
    q->bits = (int)vp_type_size(q->of) * 8;
    q->first = q->of == VP_F32 ? VP_KEY_LOWEST_F32 + 1 : q->of == VP_F64 ? VP_KEY_LOWEST_F64 + 1 : 0;
    q->last = (q->of == VP_F32 ? UINT32_MAX : UINT64_MAX) - q->first;
    q->slots = 1;
    if (counter_init(&q->counter, quantile_bins(type, n, single), err) < 0
        || !(q->hit = vp_alloc(DIGITS, 1, "percentiles", err))) {
        vp_quantiles_close(q);
        return -1;
    }
    *out = q;
    return 0;
}

static void quantile_index(const void *ctx, const void *block, int n, int32_t *bin)
{
    const struct vp_quantiles *q = ctx;
    uint64_t key[BLOCK];
    float x[BLOCK];

    if (q->of != q->type)
        vp_convert(x, q->of, block, q->type, n, 1, 0);
    for (int i = 0; i < n && q->of != q->type && q->type == VP_F64; i++)
        if (isinf(x[i]) && isfinite(((const double *)block)[i])) /* it counts as the largest there is */
            x[i] = copysignf(FLT_MAX, x[i]);
    block_keys(q->of != q->type ? x : block, q->of, n, key);
    if (q->pass == 0) {
        const int digit = q->coarse ? COARSE : DIGIT, shift = q->bits > digit ? q->bits - digit : 0;
        for (int i = 0; i < n; i++)
            bin[i] = key[i] >= q->first && key[i] <= q->last ? (int32_t)(key[i] >> shift) : -1;
        return;
    }
    const int top = q->bits - DIGIT, shift = q->bits - (q->pass + 1) * DIGIT;
    for (int i = 0; i < n; i++) {
        bin[i] = -1;
        if (key[i] < q->first || key[i] > q->last || !q->hit[key[i] >> top])
            continue;
        const uint64_t prefix = key[i] >> (shift + DIGIT);
        for (int s = 0; s < q->slots; s++)
            if (q->prefix[s] == prefix) {
                bin[i] = s * DIGITS + (int32_t)(key[i] >> shift & (DIGITS - 1));
                break;
            }
    }
}

void vp_quantiles_add(struct vp_quantiles *q, const void *samples, int64_t n)
{
    counter_add(&q->counter, quantile_index, q, samples, q->type, n);
    if (q->coarse)
        vp_sample_range_add(&q->extent, samples, q->type, n);
}

/* Returns the bin among count[0..bins) that holds rank *rest, which becomes the rank inside the bin. */
static int64_t find_rank(const int64_t *count, int64_t bins, int64_t *rest)
{
    int64_t b = 0;

    while (b < bins - 1 && *rest >= count[b])
        *rest -= count[b++];
    return b;
}

/* Returns the value of a rank in a coarse histogram: linear inside its bin. */
static double coarse_value(const struct vp_quantiles *q, int64_t rank)
{
    const int drop = 32 - COARSE;
    int64_t rest = rank;
    const int64_t b = find_rank(q->counter.count, (int64_t)1 << COARSE, &rest);
    const double lo = key_value(VP_F32, (uint64_t)b << drop);
    const double hi = key_value(VP_F32, ((uint64_t)b << drop) | ((1u << drop) - 1));
    double v = lo + (hi - lo) * ((double)rest + 0.5) / (double)q->counter.count[b];

    if (fabs(lo) < FLT_MIN || fabs(hi) < FLT_MIN)
        v = 0; /* next to nothing is zero, which is what such a bin holds most often */
    return fmin(fmax(v, q->extent.min), q->extent.max);
}

/* Returns the lower rank of quantile i and the weight of the rank after it. */
static int64_t rank_of(const struct vp_quantiles *q, int i, double *weight)
{
    const double h = (double)(q->total - 1) * (q->percent[i] / 100);
    const double k = floor(h);

    *weight = h - k;
    return (int64_t)k;
}

/* Computes the values that the ranks of the pass just made lead to. */
static void finish(struct vp_quantiles *q)
{
    for (int i = 0; i < q->n; i++) {
        double weight, a = NAN, b = NAN;
        const int64_t rank = rank_of(q, i, &weight);
        if (q->total && q->coarse) {
            a = coarse_value(q, rank);
            b = weight > 0 ? coarse_value(q, rank + 1) : a;
        } else if (q->total) {
            a = key_value(q->type, q->key[2 * i]);
            b = key_value(q->type, q->key[2 * i + 1]);
        }
        q->value[i] = weight > 0 && a != b ? a + (b - a) * weight : a;
    }
}

bool vp_quantiles_again(struct vp_quantiles *q)
{
    const int digit = q->bits < DIGIT ? q->bits : DIGIT;

    counter_sum(&q->counter);
    if (q->pass == 0) {
        q->total = 0;
        for (int64_t b = 0; b < q->counter.bins; b++)
            q->total += q->counter.count[b];
        for (int i = 0; i < q->n && q->total; i++) {
            double weight;
            q->rest[2 * i] = rank_of(q, i, &weight);
            q->rest[2 * i + 1] = q->rest[2 * i] + (weight > 0 ? 1 : 0);
        }
    }
    for (int r = 0; r < 2 * q->n && !q->coarse; r++) {
        const int64_t *count = q->counter.count + (int64_t)q->slot[r] * DIGITS;
        q->key[r] = q->key[r] << digit | (uint64_t)find_rank(count, (int64_t)1 << digit, &q->rest[r]);
    }
    q->pass++;
    if (!q->total || q->coarse || q->pass * DIGIT >= q->bits) {
        finish(q);
        return false;
    }
    memset(q->counter.count, 0, (size_t)q->counter.bins * sizeof(int64_t));
    memset(q->hit, 0, DIGITS);
    q->slots = 0;
    for (int r = 0; r < 2 * q->n; r++) {
        int s = 0;
        while (s < q->slots && q->prefix[s] != q->key[r])
            s++;
        if (s == q->slots)
            q->prefix[q->slots++] = q->key[r];
        q->slot[r] = s;
        q->hit[q->key[r] >> (q->pass - 1) * DIGIT] = 1;
    }
    return true;
}

double vp_quantiles_get(const struct vp_quantiles *q, int i)
{
    return q->value[i];
}

bool vp_quantiles_exact(const struct vp_quantiles *q)
{
    return !q->coarse;
}

void vp_quantiles_close(struct vp_quantiles *q)
{
    if (!q)
        return;
    free(q->counter.count);
    free(q->hit);
    free(q);
}
