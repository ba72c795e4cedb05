/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums of products of stacks, and the normal equations. */
#include "pages/fit.h"

#include "base/err.h"
#include "base/size.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SUMS = VP_FIT_TERMS * VP_FIT_TERMS + VP_FIT_TERMS + 4 };

void vp_fit_open(struct vp_fit *f, int stacks, bool constant, int threads)
{
    *f = (struct vp_fit){.stacks = stacks, .terms = stacks + constant, .threads = threads};
}

void vp_fit_close(struct vp_fit *f)
{
    free(f->rows);
    f->rows = NULL;
}

/* Adds up a row: products of terms, products with the target, the target and its square, samples, and those left
 * out. */
static void add_row(const struct vp_fit *f, const float *target, const float *const *stack, const float *mask,
                    int64_t at,
                    int64_t nx, double *sum)
{
    const int n = f->terms;
    double x[VP_FIT_TERMS];

    memset(sum, 0, MOST_SUMS * sizeof *sum);
    for (int64_t i = at; i < at + nx; i++) {
        if (mask && !(mask[i] != 0))
            continue;
        const double y = (double)target[i];
        bool is = isfinite(y);
        for (int k = 0; k < n; k++) {
            x[k] = k < f->stacks ? (double)stack[k][i] : 1;
            is = is && isfinite(x[k]);
        }
        if (!is) {
            sum[MOST_SUMS - 1]++;
            continue;
        }
        for (int k = 0; k < n; k++) {
            for (int l = 0; l <= k; l++)
                sum[k * VP_FIT_TERMS + l] += x[k] * x[l];
            sum[VP_FIT_TERMS * VP_FIT_TERMS + k] += x[k] * y;
        }
        sum[MOST_SUMS - 4] += y * y;
        sum[MOST_SUMS - 3] += y;
        sum[MOST_SUMS - 2]++;
    }
}

int vp_fit_page(struct vp_fit *f, const float *target, const float *const *stack, const float *mask, int64_t nx,
                int64_t ny, struct vp_err *err)
{
    if (f->room < ny) {
        free(f->rows);
        f->rows = vp_alloc_raw((size_t)ny, MOST_SUMS * sizeof *f->rows, "sums of rows", err);
        f->room = f->rows ? ny : 0;
        if (!f->rows)
            return -1;
    }
    #pragma omp parallel for num_threads(f->threads) schedule(static)
    for (int64_t y = 0; y < ny; y++)
        add_row(f, target, stack, mask, y * nx, nx, f->rows + y * MOST_SUMS);
    for (int64_t y = 0; y < ny; y++) {
        const double *const s = f->rows + y * MOST_SUMS;
        for (int k = 0; k < f->terms; k++) {
            for (int l = 0; l <= k; l++)
                f->product[k][l] += s[k * VP_FIT_TERMS + l];
            f->with[k] += s[VP_FIT_TERMS * VP_FIT_TERMS + k];
        }
        f->squares += s[MOST_SUMS - 4];
        f->sum += s[MOST_SUMS - 3];
        f->count += (int64_t)s[MOST_SUMS - 2];
        f->skipped += (int64_t)s[MOST_SUMS - 1];
    }
    return 0;
}

int vp_fit_solve(const struct vp_fit *f, struct vp_fit_result *r, struct vp_err *err)
{
    const int n = f->terms;
    double root[VP_FIT_TERMS][VP_FIT_TERMS] = {0}, length[VP_FIT_TERMS], half[VP_FIT_TERMS];

    *r = (struct vp_fit_result){.rms = 0};
    if (f->count < n)
        return vp_fail(err, VP_ERUN, "expected %d samples or more, got %lld", n, (long long)f->count);
    for (int k = 0; k < n; k++) {
        length[k] = sqrt(f->product[k][k]);
        if (!(length[k] > 0))
            return vp_fail(err, VP_ERUN, "stack %c is 0 at all samples", 'a' + k);
    }
    for (int k = 0; k < n; k++)
        for (int l = 0; l <= k; l++) {
            double sum = f->product[k][l] / (length[k] * length[l]);
            for (int i = 0; i < l; i++)
                sum -= root[k][i] * root[l][i];
            if (k > l)
                root[k][l] = sum / root[l][l];
            else if (sum > 1e-11)
                root[k][k] = sqrt(sum);
            else
                return vp_fail(err, VP_ERUN, "%s%.*s is a combination of the stacks before it: expected independent "
                                             "ones",
                               k < f->stacks ? "stack " : "the constant", k < f->stacks, &"abcdefghijklmnop"[k % VP_FIT_MOST]);
        }
    for (int k = 0; k < n; k++) {
        half[k] = f->with[k] / length[k];
        for (int i = 0; i < k; i++)
            half[k] -= root[k][i] * half[i];
        half[k] /= root[k][k];
    }
    double rest = f->squares;
    for (int k = n - 1; k >= 0; k--) {
        double sum = half[k];
        rest -= half[k] * half[k];
        for (int i = k + 1; i < n; i++)
            sum -= root[i][k] * r->factor[i] * length[i];
        r->factor[k] = sum / root[k][k] / length[k];
    }
    rest = fmax(rest, 0);
    r->rms = sqrt(rest / (double)f->count);
    const double whole = n > f->stacks ? f->squares - f->sum * f->sum / (double)f->count : f->squares;
    r->of = whole > 0 ? 1 - rest / whole : 1;
    /* the diagonal of the inverse: squares of the columns of the root's inverse */
    for (int k = 0; k < n; k++) {
        double column[VP_FIT_TERMS] = {0}, sum = 0;
        for (int i = k; i < n; i++) {
            column[i] = i == k;
            for (int j = k; j < i; j++)
                column[i] -= root[i][j] * column[j];
            column[i] /= root[i][i];
            sum += column[i] * column[i];
        }
        r->error[k] = f->count > n ? sqrt(rest / (double)(f->count - n) * sum) / length[k] : (double)NAN;
    }
    return 0;
}
