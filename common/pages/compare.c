/* SPDX-License-Identifier: BSD-3-Clause */
/* Comparing stacks. As in statistics.c, blocks of fixed length are measured by themselves and merged in
 * order (Chan, Golub, LeVeque 1983), so that threads change no bits and large common offsets do not spoil
 * the correlation. */
#include "pages/compare.h"

#include <math.h>
#include <string.h>

enum { BLOCK = VP_COMPARE_BLOCK, GROUP = 256, LANES = 4 };

struct inputs {
    const void *a, *b, *mask;
    enum vp_type type_a, type_b, type_mask;
    int64_t nx;
};

static const char *at(const void *samples, enum vp_type type, int64_t i)
{
    return (const char *)samples + (size_t)i * vp_type_size(type);
}

/* Returns a - b where doubles would lose digits: both of the same 64-bit integer type. */
static void exact_difference(double *d, const struct inputs *in, int64_t first, int n)
{
    const uint64_t *a = in->a, *b = in->b, flip = in->type_a == VP_I64 ? 1ull << 63 : 0; /* to the same order */
    for (int i = 0; i < n; i++) {
        const uint64_t x = a[first + i] ^ flip, y = b[first + i] ^ flip;
        d[i] = x >= y ? (double)(x - y) : -(double)(y - x);
    }
}

/* Leaves out what is masked; judge and leave out what is not finite. index[] says where the rest was. */
static int keep_comparable(struct vp_compare *c, double *a, double *b, double *d, const double *mask,
                           int *index, int n)
{
    int kept = 0;

    for (int i = 0; i < n; i++) {
        if (mask && !(mask[i] < 0 || mask[i] > 0))
            continue;
        c->samples++;
        if (isfinite(a[i]) && isfinite(b[i])) {
            a[kept] = a[i];
            b[kept] = b[i];
            d[kept] = d[i];
            index[kept++] = i;
        } else if (!(a[i] == b[i] || (c->nan_equal && isnan(a[i]) && isnan(b[i])))) {
            c->differing++;
            c->beyond++;
            c->odd++;
        }
    }
    return kept;
}

/* Sums over lanes, in order. */
static double total(const double *lane)
{
    double s = 0;

    for (int l = 0; l < LANES; l++)
        s += lane[l];
    return s;
}

static void block_compare(struct vp_compare *c, const struct inputs *in, int64_t first, int n)
{
    double a[BLOCK], b[BLOCK], d[BLOCK], m[BLOCK];
    int index[BLOCK];

    vp_convert(a, VP_F64, at(in->a, in->type_a, first), in->type_a, n, 1, 0);
    vp_convert(b, VP_F64, at(in->b, in->type_b, first), in->type_b, n, 1, 0);
    if (c->scale != 1)
        for (int i = 0; i < n; i++)
            a[i] *= c->scale;
    if (c->scale == 1 && in->type_a == in->type_b && (in->type_a == VP_U64 || in->type_a == VP_I64))
        exact_difference(d, in, first, n);
    else
        for (int i = 0; i < n; i++)
            d[i] = a[i] - b[i];

    double odd = 0;
    if (vp_type_is_float(in->type_a) || vp_type_is_float(in->type_b))
        for (int i = 0; i < n; i++)
            odd += d[i] - d[i]; /* NaN for good if any of a, b, a - b is not finite */
    const bool moved = in->mask || odd != 0;
    if (moved) {
        if (in->mask)
            vp_convert(m, VP_F64, at(in->mask, in->type_mask, first), in->type_mask, n, 1, 0);
        n = keep_comparable(c, a, b, d, in->mask ? m : NULL, index, n);
    } else {
        c->samples = n;
    }
    c->n = n;
    if (n == 0)
        return;

    double max[LANES], lo[LANES], hi[LANES];
    double sa[LANES] = {0}, sb[LANES] = {0}, d2[LANES] = {0}, b2[LANES] = {0};
    int64_t differing[LANES] = {0}, beyond[LANES] = {0};
    const int whole = n - n % LANES;
    for (int l = 0; l < LANES; l++) {
        max[l] = 0;
        lo[l] = hi[l] = b[0];
    }
    for (int i = 0; i < n; i += LANES)
        for (int l = 0; l < (i < whole ? LANES : n - whole); l++) {
            const double e = fabs(d[i + l]), v = b[i + l];
            max[l] = e > max[l] ? e : max[l];
            lo[l] = v < lo[l] ? v : lo[l];
            hi[l] = v > hi[l] ? v : hi[l];
            sa[l] += a[i + l];
            sb[l] += v;
            d2[l] += e * e;
            b2[l] += v * v;
            differing[l] += e != 0;
            beyond[l] += e > c->atol + c->rtol * fabs(v);
        }
    c->min_b = lo[0];
    c->max_b = hi[0];
    for (int l = 0; l < LANES; l++) {
        c->max = max[l] > c->max ? max[l] : c->max;
        c->min_b = lo[l] < c->min_b ? lo[l] : c->min_b;
        c->max_b = hi[l] > c->max_b ? hi[l] : c->max_b;
        c->differing += differing[l];
        c->beyond += beyond[l];
    }
    c->d2 = total(d2);
    c->b2 = total(b2);
    c->mean_a = total(sa) / n;
    c->mean_b = total(sb) / n;
    double aa[LANES] = {0}, ab[LANES] = {0}, bb[LANES] = {0};
    for (int i = 0; i < n; i += LANES)
        for (int l = 0; l < (i < whole ? LANES : n - whole); l++) {
            const double da = a[i + l] - c->mean_a, db = b[i + l] - c->mean_b;
            aa[l] += da * da;
            ab[l] += da * db;
            bb[l] += db * db;
        }
    c->a_a = total(aa);
    c->a_b = total(ab);
    c->b_b = total(bb);

    int i = 0;
    while (fabs(d[i]) != c->max)
        i++;
    c->a = a[i];
    c->b = b[i];
    const int64_t place = first + (moved ? index[i] : i);
    c->y = place / in->nx;
    c->x = place % in->nx;
}

static void merge(struct vp_compare *c, const struct vp_compare *p, int64_t page)
{
    c->samples += p->samples;
    c->differing += p->differing;
    c->beyond += p->beyond;
    c->odd += p->odd;
    if (p->n == 0)
        return;
    if (c->n == 0 || p->max > c->max) {
        c->max = p->max;
        c->a = p->a;
        c->b = p->b;
        c->x = p->x;
        c->y = c->row + p->y;
        c->page = page;
    }
    c->min_b = c->n == 0 || p->min_b < c->min_b ? p->min_b : c->min_b;
    c->max_b = c->n == 0 || p->max_b > c->max_b ? p->max_b : c->max_b;
    const double nc = (double)c->n, np = (double)p->n, n = nc + np;
    const double da = p->mean_a - c->mean_a, db = p->mean_b - c->mean_b, w = nc / n * np;
    c->a_a += p->a_a + da * da * w;
    c->a_b += p->a_b + da * db * w;
    c->b_b += p->b_b + db * db * w;
    c->mean_a += da * (np / n);
    c->mean_b += db * (np / n);
    c->d2 += p->d2;
    c->b2 += p->b2;
    c->n += p->n;
}

void vp_compare_page(struct vp_compare *c, int64_t page, int64_t nx, int64_t ny, const void *a,
                     enum vp_type type_a, const void *b, enum vp_type type_b, const void *mask,
                     enum vp_type type_mask)
{
    const struct inputs in = {a, b, mask, type_a, type_b, type_mask, nx};
    const int64_t n = nx * ny;

    if (c->n == 0)
        c->page = -1;
    for (int64_t start = 0; start < n; start += (int64_t)BLOCK * GROUP) {
        struct vp_compare part[GROUP];
        const int64_t end = n - start < (int64_t)BLOCK * GROUP ? n : start + (int64_t)BLOCK * GROUP;
        const int blocks = (int)((end - start + BLOCK - 1) / BLOCK);

        #pragma omp parallel for schedule(static) if (blocks > 8)
        for (int i = 0; i < blocks; i++) {
            const int64_t first = start + (int64_t)i * BLOCK;
            part[i] = (struct vp_compare){.scale = c->scale, .atol = c->atol, .rtol = c->rtol,
                                          .nan_equal = c->nan_equal};
            block_compare(&part[i], &in, first, (int)(end - first < BLOCK ? end - first : BLOCK));
        }
        for (int i = 0; i < blocks; i++)
            merge(c, &part[i], page);
    }
}

double vp_compare_rms(const struct vp_compare *c)
{
    return c->n ? sqrt(c->d2 / (double)c->n) : 0;
}

double vp_compare_rel_l2(const struct vp_compare *c)
{
    return c->d2 == 0 ? 0 : sqrt(c->d2 / c->b2);
}

double vp_compare_psnr(const struct vp_compare *c, double peak)
{
    return c->d2 == 0 ? INFINITY : 20 * log10((peak > 0 ? peak : c->max_b - c->min_b) / vp_compare_rms(c));
}

double vp_compare_correlation(const struct vp_compare *c)
{
    if (c->d2 == 0)
        return 1;
    if (c->a_a == 0 || c->b_b == 0)
        return NAN;
    const double r = c->a_b / sqrt(c->a_a) / sqrt(c->b_b);
    return r > 1 ? 1 : r < -1 ? -1 : r;
}
