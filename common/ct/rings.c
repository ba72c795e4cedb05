/* SPDX-License-Identifier: BSD-3-Clause */
/* Means over blocks of views, and what of them belongs to the pixels. */
#include "ct/rings.h"

#include "base/err.h"
#include "base/size.h"
#include "base/sort.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum { STRIP = 16 /* columns that are filtered together */ };

struct vp_rings {
    struct vp_rings_params p;
    int64_t pixels;
    float *map;        /* blocks x pixels: means, then maps */
    int64_t maps;      /* that are left */
    double *sum;       /* sums of the block that is added to */
    int32_t *count;
};

uint64_t vp_rings_bytes(const struct vp_rings_params *p)
{
    const double bytes = (double)p->nu * (double)p->nv * (4 * (double)p->blocks + 8 + 4 + 2 * 4);
    return (uint64_t)fmin(bytes, 0x1p62);
}

static int open_pages(struct vp_rings **out, const struct vp_rings_params *p, int64_t maps, struct vp_err *err)
{
    struct vp_rings *r = *out = vp_alloc(1, sizeof *r, "the maps", err);

    if (!r)
        return -1;
    r->p = *p;
    r->p.blocks = vp_min64(p->blocks, p->views > 0 ? p->views : p->blocks);
    r->pixels = p->nu * p->nv;
    r->maps = maps > 0 ? maps : r->p.blocks;
    r->map = vp_alloc((size_t)r->pixels, (size_t)r->maps * sizeof *r->map, "the maps of all blocks", err);
    if (r->map)
        return 0;
    vp_rings_close(r);
    *out = NULL;
    return -1;
}

int vp_rings_open(struct vp_rings **out, const struct vp_rings_params *p, struct vp_err *err)
{
    if (open_pages(out, p, 0, err))
        return -1;
    struct vp_rings *r = *out;
    r->sum = vp_alloc((size_t)r->pixels, sizeof *r->sum, "the sums", err);
    r->count = vp_alloc((size_t)r->pixels, sizeof *r->count, "the sums", err);
    if (r->sum && r->count)
        return 0;
    vp_rings_close(r);
    *out = NULL;
    return -1;
}

int vp_rings_open_maps(struct vp_rings **out, const struct vp_rings_params *p, const float *maps, int64_t n,
                       struct vp_err *err)
{
    if (open_pages(out, p, n, err))
        return -1;
    memcpy((*out)->map, maps, (size_t)((*out)->pixels * n) * sizeof *maps);
    return 0;
}

void vp_rings_close(struct vp_rings *r)
{
    if (!r)
        return;
    free(r->map);
    free(r->sum);
    free(r->count);
    free(r);
}

/* Returns the first view of a block; of block `blocks` the number of views. */
static int64_t begin_of(const struct vp_rings *r, int64_t block)
{
    return block * r->p.views / r->p.blocks;
}

static int64_t block_of(const struct vp_rings *r, int64_t view)
{
    int64_t block = vp_min64(view * r->p.blocks / r->p.views, r->p.blocks - 1);

    while (begin_of(r, block) > view)
        block--;
    while (begin_of(r, block + 1) <= view)
        block++;
    return block;
}

void vp_rings_add(struct vp_rings *r, int64_t first, int64_t n, const float *in)
{
    for (int64_t k = 0; k < n; k++) {
        const float *const view = in + k * r->pixels;
        const int64_t block = block_of(r, first + k);
        const bool opens = first + k == begin_of(r, block), ends = first + k + 1 == begin_of(r, block + 1);
        float *const mean = r->map + block * r->pixels;
        #pragma omp parallel for num_threads(r->p.threads) schedule(static)
        for (int64_t i = 0; i < r->pixels; i++) {
            const bool is = isfinite(view[i]);
            r->sum[i] = (opens ? 0 : r->sum[i]) + (is ? (double)view[i] : 0);
            r->count[i] = (opens ? 0 : r->count[i]) + is;
            if (ends)
                mean[i] = r->count[i] ? (float)(r->sum[i] / r->count[i]) : 0;
        }
    }
}

void vp_rings_add_sinograms(struct vp_rings *r, int64_t first, int64_t n, const float *in)
{
    const int64_t nu = r->p.nu, views = r->p.views;

    for (int64_t k = 0; k < n; k++) {
        #pragma omp parallel for num_threads(r->p.threads) schedule(static)
        for (int64_t b = 0; b < r->p.blocks; b++)
            for (int64_t u = 0; u < nu; u++) {
                double sum = 0;
                int64_t count = 0;
                for (int64_t v = begin_of(r, b); v < begin_of(r, b + 1); v++) {
                    const float x = in[(k * views + v) * nu + u];
                    if (isfinite(x)) {
                        sum += (double)x;
                        count++;
                    }
                }
                r->map[b * r->pixels + (first + k) * nu + u] = count ? (float)(sum / (double)(int32_t)count) : 0;
            }
    }
}

/* ---- medians ---- */

/* Returns the median of n sorted samples, the mean of the middle two of an even number. */
static float middle(const float *sorted, int64_t n)
{
    return n % 2 ? sorted[n / 2] : 0.5f * (sorted[n / 2 - 1] + sorted[n / 2]);
}

/* Returns the place of x, or the one it would take, in a sorted row of n. */
static int64_t place_of(const float *sorted, int64_t n, float x)
{
    int64_t lo = 0, hi = n;

    while (lo < hi) {
        const int64_t mid = (lo + hi) / 2;
        if (sorted[mid] < x)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Subtracts from each of n samples, or puts in its place, the median of the window about it; at the ends of the samples
 * that are there. */
static void moving_median(const float *in, int64_t n, int64_t window, bool subtract, float *out)
{
    float sorted[VP_RINGS_WINDOW];
    const int64_t half = window / 2;
    int64_t have = 0;

    for (int64_t i = -half; i < n; i++) {
        if (i - half - 1 >= 0) {
            const int64_t at = place_of(sorted, have, in[i - half - 1]);
            memmove(sorted + at, sorted + at + 1, (size_t)(--have - at) * sizeof *sorted);
        }
        if (i + half < n) {
            const int64_t at = place_of(sorted, have, in[i + half]);
            memmove(sorted + at + 1, sorted + at, (size_t)(have++ - at) * sizeof *sorted);
            sorted[at] = in[i + half];
        }
        if (i >= 0)
            out[i] = subtract ? in[i] - middle(sorted, have) : middle(sorted, have);
    }
}

/* Takes from a page its median along columns, and from the rest its median along rows. work: as large. */
static void high_pass(const struct vp_rings_params *p, float *page, float *work)
{
    const int64_t nu = p->nu, nv = p->nv;

    #pragma omp parallel num_threads(p->threads)
    {
        #pragma omp for schedule(static)
        for (int64_t s = 0; s < vp_div_up(nu, STRIP); s++) {
            float *const column = work + s * STRIP * nv; /* STRIP columns, one after the other */
            const int64_t u0 = s * STRIP, n = vp_min64(STRIP, nu - u0);
            for (int64_t v = 0; v < nv; v++)
                for (int64_t k = 0; k < n; k++)
                    column[k * nv + v] = page[v * nu + u0 + k];
        }
        #pragma omp for schedule(static)
        for (int64_t u = 0; u < nu; u++) {
            const float *const column = work + u * nv;
            if (p->rows == 1)
                continue;
            float *const out = page + u * nv; /* the page for a while holds columns */
            moving_median(column, nv, p->rows, true, out);
        }
        #pragma omp single
        if (p->rows > 1)
            memcpy(work, page, (size_t)(nu * nv) * sizeof *page);
        #pragma omp for schedule(static)
        for (int64_t v = 0; v < nv; v++)
            for (int64_t u = 0; u < nu; u++)
                page[v * nu + u] = work[u * nv + v];
        #pragma omp for schedule(static)
        for (int64_t v = 0; v < nv; v++) {
            moving_median(page + v * nu, nu, p->columns, true, work + v * nu);
            memcpy(page + v * nu, work + v * nu, (size_t)nu * sizeof *page);
        }
    }
}

static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return x < y ? -1 : x > y;
}

/* Computes the median of every step-th of blocks [first, last) at a pixel. */
static float median_of(const struct vp_rings *r, int64_t i, int64_t first, int64_t last, int64_t step)
{
    float sample[VP_RINGS_BLOCKS];
    int64_t n = 0;

    for (int64_t b = first; b < last; b += step)
        sample[n++] = r->map[b * r->pixels + i];
    vp_sort(sample, (size_t)n, sizeof *sample, by_value);
    return middle(sample, n);
}

/* Computes how far the maps of odd and even blocks agree, row by row, in order. */
static double agreement(const struct vp_rings *r, double *sums)
{
    const int64_t nu = r->p.nu, nv = r->p.nv, blocks = r->p.blocks;

    #pragma omp parallel for num_threads(r->p.threads) schedule(static)
    for (int64_t v = 0; v < nv; v++) {
        double *const s = sums + 3 * v;
        s[0] = s[1] = s[2] = 0;
        for (int64_t i = v * nu; i < (v + 1) * nu; i++) {
            const double a = (double)median_of(r, i, 0, blocks, 2), b = (double)median_of(r, i, 1, blocks, 2);
            s[0] += a * b;
            s[1] += a * a;
            s[2] += b * b;
        }
    }
    double all[3] = {0, 0, 0};
    for (int64_t v = 0; v < nv; v++)
        for (int k = 0; k < 3; k++)
            all[k] += sums[3 * v + k];
    return all[1] > 0 && all[2] > 0 ? all[0] / sqrt(all[1] * all[2]) : 0;
}

/* Replaces the blocks' maps by one for the scan, or by medians of three blocks next to each other. */
static void join_blocks(struct vp_rings *r)
{
    const int64_t blocks = r->p.blocks;

    #pragma omp parallel for num_threads(r->p.threads) schedule(static)
    for (int64_t i = 0; i < r->pixels; i++) {
        float joined[VP_RINGS_BLOCKS];
        if (!r->p.drift) {
            r->map[i] = median_of(r, i, 0, blocks, 1);
            continue;
        }
        for (int64_t b = 0; b < blocks; b++)
            joined[b] = median_of(r, i, vp_max64(b - 1, 0), vp_min64(b + 2, blocks), 1);
        for (int64_t b = 0; b < blocks; b++)
            r->map[b * r->pixels + i] = joined[b];
    }
    r->maps = r->p.drift ? blocks : 1;
}

int vp_rings_finish(struct vp_rings *r, struct vp_rings_facts *facts, struct vp_err *err)
{
    float *work = vp_alloc_raw((size_t)r->pixels, sizeof *work, "a page", err);
    double *sums = vp_alloc_raw((size_t)r->p.nv, 3 * sizeof *sums, "sums", err), squares = 0;

    if (!work || !sums) {
        free(work);
        free(sums);
        return -1;
    }
    for (int64_t b = 0; b < r->p.blocks; b++)
        high_pass(&r->p, r->map + b * r->pixels, work);
    *facts = (struct vp_rings_facts){.agreement = r->p.blocks > 1 ? agreement(r, sums) : (double)NAN};
    join_blocks(r);
    for (int64_t i = 0; i < r->maps * r->pixels; i++) {
        squares += (double)r->map[i] * (double)r->map[i];
        facts->most = fmax(facts->most, fabs((double)r->map[i]));
    }
    facts->rms = sqrt(squares / (double)(r->maps * r->pixels));
    facts->maps = r->maps;
    free(work);
    free(sums);
    return 0;
}

const float *vp_rings_maps(const struct vp_rings *r, int64_t *n)
{
    *n = r->maps;
    return r->map;
}

/* ---- taking them away ---- */

/* Two maps next to a view, and the part of the second. */
struct ring_blend { const float *map[2]; float part; };

static struct ring_blend blend_of(const struct vp_rings *r, int64_t view)
{
    if (r->maps == 1)
        return (struct ring_blend){{r->map, r->map}, 0};
    const int64_t n = r->maps, views = r->p.views;
    int64_t b = 0;
    /* centre of block b: half the sum of its ends */
    while (b + 1 < n && 2 * view + 1 > (b + 1) * views / n + (b + 2) * views / n)
        b++;
    const double c0 = 0.5 * (double)(b * views / n + (b + 1) * views / n);
    const int64_t next = vp_min64(b + 1, n - 1);
    const double c1 = 0.5 * (double)(next * views / n + (next + 1) * views / n);
    const double at = next > b ? ((double)view + 0.5 - c0) / (c1 - c0) : 0;
    return (struct ring_blend){{r->map + b * r->pixels, r->map + next * r->pixels}, (float)fmin(fmax(at, 0), 1)};
}

static void subtract_row(const struct ring_blend *m, int64_t at, int64_t n, float *row)
{
    const float *const a = m->map[0] + at, *const b = m->map[1] + at;

    if (m->part == 0)
        for (int64_t u = 0; u < n; u++)
            row[u] -= a[u];
    else
        for (int64_t u = 0; u < n; u++)
            row[u] -= a[u] + m->part * (b[u] - a[u]);
}

void vp_rings_subtract(const struct vp_rings *r, int64_t first, int64_t n, float *views)
{
    const int64_t nu = r->p.nu, nv = r->p.nv;

    #pragma omp parallel for num_threads(r->p.threads) schedule(static)
    for (int64_t k = 0; k < n * nv; k++) {
        const struct ring_blend m = blend_of(r, first + k / nv);
        subtract_row(&m, k % nv * nu, nu, views + k * nu);
    }
}

void vp_rings_subtract_sinograms(const struct vp_rings *r, int64_t first, int64_t n, float *rows)
{
    const int64_t nu = r->p.nu, views = r->p.views;

    #pragma omp parallel for num_threads(r->p.threads) schedule(static)
    for (int64_t k = 0; k < n * views; k++) {
        const struct ring_blend m = blend_of(r, k % views);
        subtract_row(&m, (first + k / views) * nu, nu, rows + k * nu);
    }
}

/* ---- sorting ---- */

struct ranked_sample { float value; int32_t view; };

static int by_rank(const void *a, const void *b)
{
    const struct ranked_sample *const x = a, *const y = b;
    return x->value < y->value ? -1 : x->value > y->value ? 1 : x->view < y->view ? -1 : x->view > y->view;
}

int vp_rings_sort(float *sinogram, int64_t nu, int64_t views, int64_t window, int threads, double *squares,
                  struct vp_err *err)
{
    /* columns */
    struct ranked_sample *s = vp_alloc_raw((size_t)nu, (size_t)views * sizeof *s, "a sorted sinogram", err);
    double *sums = vp_alloc_raw((size_t)views, sizeof *sums, "sums", err);
    float *rows = vp_alloc_raw((size_t)threads * 2, (size_t)nu * sizeof *rows, "rows", err);
    int rc = s && sums && rows ? 0 : -1;

    if (!rc) {
        #pragma omp parallel for num_threads(threads) schedule(dynamic, STRIP)
        for (int64_t u = 0; u < nu; u++) {
            for (int64_t v = 0; v < views; v++)
                s[u * views + v] = (struct ranked_sample){sinogram[v * nu + u], (int32_t)v};
            vp_sort(s + u * views, (size_t)views, sizeof *s, by_rank);
        }
        #pragma omp parallel num_threads(threads)
        {
            float *const in = rows + (int64_t)omp_get_thread_num() * 2 * nu, *const out = in + nu;
            #pragma omp for schedule(static)
            for (int64_t v = 0; v < views; v++) {
                sums[v] = 0;
                for (int64_t u = 0; u < nu; u++)
                    in[u] = s[u * views + v].value;
                moving_median(in, nu, window, false, out);
                for (int64_t u = 0; u < nu; u++) {
                    sinogram[s[u * views + v].view * nu + u] = out[u];
                    sums[v] += ((double)out[u] - (double)in[u]) * ((double)out[u] - (double)in[u]);
                }
            }
        }
        for (int64_t v = 0; v < views; v++)
            *squares += sums[v];
    }
    free(s);
    free(sums);
    free(rows);
    return rc;
}
