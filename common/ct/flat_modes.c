/* SPDX-License-Identifier: BSD-3-Clause */
/* Components by Jacobi's rotations of the small matrix of the flats' products. Weights by least total variation of the
 * transmission, to first order in the weights, as a few weighted least squares: each gradient counts by one over its
 * length, so that edges of the object have little to say. */
#include "ct/flat_modes.h"

#include "base/err.h"
#include "base/size.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BIN = 2, ROUNDS = 3, STEPS = 12, SWEEPS = 60, MOST = VP_FLAT_MODES_MOST };
/* Sums of a row: the matrix, the right side, and the gradients' length. */
enum { SUMS = MOST * MOST + MOST + 2 };

/* ---- components ---- */

/* Diagonalises the symmetric a, n x n, in place; columns of v become its vectors. */
static void jacobi(double *a, double *v, int64_t n)
{
    for (int64_t i = 0; i < n * n; i++)
        v[i] = i % (n + 1) == 0;
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        double off = 0, all = 0;
        for (int64_t i = 0; i < n * n; i++) {
            all += a[i] * a[i];
            off += i % (n + 1) ? a[i] * a[i] : 0;
        }
        if (!(off > 1e-28 * all))
            return;
        for (int64_t p = 0; p < n; p++)
            for (int64_t q = p + 1; q < n; q++) {
                if (a[p * n + q] == 0)
                    continue;
                const double theta = (a[q * n + q] - a[p * n + p]) / (2 * a[p * n + q]);
                const double t = (theta >= 0 ? 1 : -1) / (fabs(theta) + sqrt(theta * theta + 1));
                const double c = 1 / sqrt(t * t + 1), s = t * c;
                for (int64_t k = 0; k < n; k++) {
                    const double x = a[k * n + p], y = a[k * n + q];
                    a[k * n + p] = c * x - s * y;
                    a[k * n + q] = s * x + c * y;
                }
                for (int64_t k = 0; k < n; k++) {
                    const double x = a[p * n + k], y = a[q * n + k], vx = v[k * n + p], vy = v[k * n + q];
                    a[p * n + k] = c * x - s * y;
                    a[q * n + k] = s * x + c * y;
                    v[k * n + p] = c * vx - s * vy;
                    v[k * n + q] = s * vx + c * vy;
                }
            }
    }
}

/* Turns counts into ratios to the mean less 1, at the mean's intensity; dead pixels into 0. */
static int make_ratios(float *pages, int64_t flats, const float *range, const float *dark, int64_t pixels, struct vp_err *err)
{
    for (int64_t f = 0; f < flats; f++) {
        float *const page = pages + f * pixels;
        double sum = 0, all = 0;
        for (int64_t i = 0; i < pixels; i++) {
            page[i] -= dark ? dark[i] : 0;
            if (!(range[i] > 0) || !isfinite(page[i]))
                continue;
            sum += (double)page[i];
            all += (double)range[i];
        }
        if (!(sum > 0))
            return vp_fail(err, VP_ERUN, "--flat-modes: flat %lld is not above the dark field", (long long)f);
        const double level = sum / all;
        for (int64_t i = 0; i < pixels; i++)
            page[i] = range[i] > 0 && isfinite(page[i]) ? (float)((double)page[i] / (level * (double)range[i]) - 1) : 0;
    }
    return 0;
}

/* Fills the products of all pairs of ratios, weighted with the mean. */
static void multiply(const float *pages, int64_t flats, const float *range, int64_t pixels, double *product)
{
    #pragma omp parallel for schedule(dynamic, 1)
    for (int64_t pair = 0; pair < flats * flats; pair++) {
        const int64_t i = pair / flats, j = pair % flats;
        double sum = 0;
        for (int64_t k = 0; j <= i && k < pixels; k++)
            sum += range[k] > 0 ? (double)range[k] * (double)pages[i * pixels + k] * (double)pages[j * pixels + k] : 0;
        if (j <= i)
            product[i * flats + j] = product[j * flats + i] = sum;
    }
}

/* Returns how many of the values, in decreasing order, stand out of those of noise: above the mean of the smaller ones by
 * more than the edge of Marchenko and Pastur's law, for a tenth of the pixels, since neighbours share noise. The last
 * value is 0, for the mean was taken away. */
static int stand_out(const double *value, int64_t flats, int64_t pixels, int most)
{
    const double edge = 1 + sqrt(10 * (double)flats / (double)pixels);
    int n = 0;

    for (; n < most && n < flats - 3; n++) {
        double rest = 0;
        for (int64_t i = n + 1; i < flats - 1; i++)
            rest += value[i] / (double)(flats - 2 - n);
        if (!(value[n] > edge * edge * rest))
            break;
    }
    return n;
}

/* Sorts the values, and makes pages of the vectors of those that stand out. */
static int choose(struct vp_flat_modes *m, const float *pages, const float *range, double *product, double *vector,
                  int most, struct vp_err *err)
{
    const int64_t flats = m->flats, pixels = m->nu * m->nv;
    int64_t *const at = vp_alloc((size_t)flats, sizeof *at, "the flats", err);
    double *const value = vp_alloc((size_t)flats, sizeof *value, "the flats", err), weights = 0, all = 0, own = 0;
    int rc = at && value ? 0 : -1;

    for (int64_t i = 0; i < flats && !rc; i++) {
        const double one = product[i * (flats + 1)];
        int64_t k = i;
        for (; k > 0 && value[k - 1] < one; k--) {
            value[k] = value[k - 1];
            at[k] = at[k - 1];
        }
        value[k] = one;
        at[k] = i;
        all += one;
    }
    m->n = rc ? 0 : stand_out(value, flats, pixels, most);
    if (m->n && !(m->ratio = vp_alloc_raw((size_t)pixels, (size_t)m->n * sizeof(float), "the modes of the flats", err)))
        rc = -1;
    for (int64_t i = 0; i < pixels; i++)
        weights += range[i] > 0 ? (double)range[i] : 0;
    for (int k = 0; k < m->n && !rc; k++) {
        const double scale = sqrt(weights / value[k]);
        own += value[k];
        #pragma omp parallel for schedule(static)
        for (int64_t i = 0; i < pixels; i++) {
            double sum = 0;
            for (int64_t f = 0; f < flats; f++)
                sum += vector[f * flats + at[k]] * (double)pages[f * pixels + i];
            m->ratio[k * pixels + i] = (float)(scale * sum);
        }
    }
    m->part = all > 0 ? own / all : 0;
    free(at);
    free(value);
    return rc;
}

uint64_t vp_flat_modes_bytes(int64_t nu, int64_t nv, int n)
{
    const uint64_t small = (uint64_t)((nu / BIN) * (nv / BIN));
    return (uint64_t)n * (uint64_t)(nu * nv) * sizeof(float) + (uint64_t)(n + 1) * small * sizeof(float)
         + (uint64_t)(nv / BIN) * SUMS * sizeof(double);
}

int vp_flat_modes_open(struct vp_flat_modes *m, float *pages, int64_t flats, const float *mean, const float *dark,
                       int64_t nu, int64_t nv, int most, struct vp_err *err)
{
    const int64_t pixels = nu * nv;

    *m = (struct vp_flat_modes){.nu = nu, .nv = nv, .flats = flats};
    if (flats < VP_FLAT_MODES_LEAST)
        return vp_fail(err, VP_ERUN, "--flat-modes: expected %d flats or more, got %lld", VP_FLAT_MODES_LEAST,
                       (long long)flats);
    if (nu < 4 * BIN || nv < 4 * BIN)
        return vp_fail(err, VP_ERUN, "--flat-modes: expected views of %d x %d pixels or more, got %lld x %lld", 4 * BIN,
                       4 * BIN, (long long)nu, (long long)nv);
    float *const range = vp_alloc_raw((size_t)pixels, sizeof *range, "the flats", err);
    double *const product = vp_alloc((size_t)flats, (size_t)flats * sizeof *product, "the flats", err);
    double *const vector = vp_alloc((size_t)flats, (size_t)flats * sizeof *vector, "the flats", err);
    int rc = range && product && vector ? 0 : -1;
    for (int64_t i = 0; i < pixels && !rc; i++) {
        range[i] = mean[i] - (dark ? dark[i] : 0);
        range[i] = isfinite(range[i]) ? range[i] : 0;
    }
    rc = rc ? rc : make_ratios(pages, flats, range, dark, pixels, err);
    if (!rc) {
        multiply(pages, flats, range, pixels, product);
        jacobi(product, vector, flats);
        rc = choose(m, pages, range, product, vector, most, err);
    }
    free(range);
    free(product);
    free(vector);
    if (!rc && m->n
        && (!(m->small = vp_alloc_raw((size_t)((nu / BIN) * (nv / BIN)), (size_t)(m->n + 1) * sizeof *m->small,
                                      "the modes of the flats", err))
            || !(m->sums = vp_alloc_raw((size_t)(nv / BIN), SUMS * sizeof *m->sums, "the modes of the flats", err))))
        rc = -1;
    return rc;
}

void vp_flat_modes_free(struct vp_flat_modes *m)
{
    free(m->ratio);
    free(m->small);
    free(m->sums);
    m->ratio = m->small = NULL;
    m->sums = NULL;
}

/* ---- weights of a view ---- */

/* Fills the binned transmission with these weights, and its change by each of them to first order. */
static void shrink(struct vp_flat_modes *m, const float *range, const float *dark, const float *view, const double *weight)
{
    const int64_t nx = m->nu / BIN, ny = m->nv / BIN, pixels = m->nu * m->nv;

    #pragma omp parallel for schedule(static)
    for (int64_t y = 0; y < ny; y++)
        for (int64_t x = 0; x < nx; x++) {
            double sum[MOST + 1] = {0};
            for (int64_t b = 0; b < BIN * BIN; b++) {
                const int64_t i = (y * BIN + b / BIN) * m->nu + x * BIN + b % BIN;
                double level = 1;
                for (int k = 0; k < m->n; k++)
                    level += weight[k] * (double)m->ratio[k * pixels + i];
                const double t = ((double)view[i] - (dark ? (double)dark[i] : 0)) / ((double)range[i] * level);
                sum[0] += t;
                for (int k = 0; k < m->n; k++)
                    sum[k + 1] += t * (double)m->ratio[k * pixels + i] / level;
            }
            for (int k = 0; k <= m->n; k++)
                m->small[k * nx * ny + y * nx + x] = (float)sum[k];
        }
}

/* Adds a row's gradients to its sums: the matrix, the right side, the length of the gradients and their number. */
static void sum_row(const struct vp_flat_modes *m, int64_t y, const double *step, double soft, double *sums)
{
    const int64_t nx = m->nu / BIN, size = nx * (m->nv / BIN);

    memset(sums, 0, SUMS * sizeof *sums);
    for (int64_t x = 0; x + 1 < nx; x++) {
        const float *const at = m->small + y * nx + x;
        double g[MOST + 1][2] = {{0}}, rest[2];
        for (int k = 0; k <= m->n; k++) {
            g[k][0] = (double)at[k * size + 1] - (double)at[k * size];
            g[k][1] = (double)at[k * size + nx] - (double)at[k * size];
        }
        for (int a = 0; a < 2; a++) {
            rest[a] = g[0][a];
            for (int k = 0; k < m->n; k++)
                rest[a] -= step[k] * g[k + 1][a];
        }
        const double square = rest[0] * rest[0] + rest[1] * rest[1];
        if (!isfinite(square))
            continue;
        const double w = 1 / sqrt(square + soft * soft);
        for (int j = 0; j < m->n; j++) {
            for (int k = 0; k <= j; k++)
                sums[j * MOST + k] += w * (g[j + 1][0] * g[k + 1][0] + g[j + 1][1] * g[k + 1][1]);
            sums[MOST * MOST + j] += w * (g[j + 1][0] * g[0][0] + g[j + 1][1] * g[0][1]);
        }
        sums[SUMS - 2] += sqrt(square);
        sums[SUMS - 1]++;
    }
}

/* Solves a x = b, of which the lower half is given and overwritten, by Cholesky; x stays where a is singular. */
static void solve(double *a, const double *b, int n, double *x)
{
    double y[MOST] = {0};

    for (int j = 0; j < n; j++)
        for (int k = 0; k <= j; k++) {
            double sum = a[j * MOST + k];
            for (int i = 0; i < k; i++)
                sum -= a[j * MOST + i] * a[k * MOST + i];
            if (j == k && !(sum > 0))
                return;
            a[j * MOST + k] = j == k ? sqrt(sum) : sum / a[k * MOST + k];
        }
    for (int j = 0; j < n; j++) {
        y[j] = b[j];
        for (int k = 0; k < j; k++)
            y[j] -= a[j * MOST + k] * y[k];
        y[j] /= a[j * MOST + j];
    }
    for (int j = n - 1; j >= 0; j--) {
        x[j] = y[j];
        for (int k = j + 1; k < n; k++)
            x[j] -= a[k * MOST + j] * x[k];
        x[j] /= a[j * MOST + j];
    }
}

void vp_flat_modes_fit(struct vp_flat_modes *m, const float *range, const float *dark, const float *view,
                       double weight[VP_FLAT_MODES_MOST])
{
    const int64_t ny = m->nv / BIN;

    memset(weight, 0, MOST * sizeof *weight);
    for (int round = 0; round < ROUNDS; round++) {
        double step[MOST] = {0}, soft = INFINITY;
        shrink(m, range, dark, view, weight);
        for (int i = 0; i <= STEPS; i++) { /* the first finds the gradients' length alone */
            double sums[SUMS] = {0};
            #pragma omp parallel for schedule(static)
            for (int64_t y = 0; y < ny - 1; y++)
                sum_row(m, y, step, soft, m->sums + y * SUMS);
            for (int64_t y = 0; y < ny - 1; y++)
                for (int k = 0; k < SUMS; k++)
                    sums[k] += m->sums[y * SUMS + k];
            if (!(sums[SUMS - 1] > 0))
                return;
            if (i > 0)
                solve(sums, sums + MOST * MOST, m->n, step);
            else
                soft = 0.01 * sums[SUMS - 2] / sums[SUMS - 1] + 1e-30;
        }
        for (int k = 0; k < m->n; k++)
            weight[k] += step[k];
    }
}

void vp_flat_modes_range(const struct vp_flat_modes *m, const double *weight, int64_t at, int count, const float *range,
                         float *out)
{
    const int64_t pixels = m->nu * m->nv;

    for (int i = 0; i < count; i++) {
        double level = 1;
        for (int k = 0; k < m->n; k++)
            level += weight[k] * (double)m->ratio[k * pixels + at + i];
        out[i] = (float)((double)range[i] * level);
    }
}
