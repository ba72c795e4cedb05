/* SPDX-License-Identifier: BSD-3-Clause */
/* Flat-field correction and logarithm. A page goes through in blocks that stay in the first cache:
 * transmission, zingers, floor, logarithm; samples that are not to be used travel as NaN and are filled in
 * at the end, so that no order of the steps matters.
 *
 * The loops over samples are cloned for the instruction sets of x86-64 and, as multiplications and
 * additions are not contracted, give the same bits on every one of them. The logarithm is the usual one
 * (argument reduced to m in [2/3, 4/3), ln(1 + f) = f - f^2 / 2 + f^3 Q(f), ln 2 in two parts); Q is the
 * weighted minimax polynomial of degree 7, 0.05 ulp by itself, and the whole stays below 1 ulp. */
#include "ct/normalize.h"

#include "base/clones.h"
#include "base/err.h"
#include "base/size.h"
#include "ct/despike.h"
#include "ct/flat_modes.h"

#include <assert.h>
#include <math.h>
#include <omp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

/* Samples worked on at a time, on the stack. */
enum { BLOCK = 512 };

struct vp_normalize {
    int64_t nu, nv;
    int64_t pixels;
    int n_flats, sets;
    float *range;         /* a page for each set: flat - dark, NaN where dead; with i0: one, or none: i0 alone */
    double *at;           /* view number of each set */
    float *dark;          /* or NULL */
    float i0, floor;
    struct vp_despike despike;   /* times is 0: none */
    bool transmission;
    struct vp_flat_modes *modes;   /* or NULL; with one set of flats */
    uint16_t *layer;      /* one a pixel: 0 live, else steps to the nearest live one; NULL: none is dead */
    int64_t *dead;        /* pixels by increasing layer */
    int64_t n_dead, n_unlit;
    int threads;
    /* For zingers: rows for each of them (vp_despike_rows), locked if several threads work. */
    int n_scratch;
    float *scratch;
    pthread_mutex_t *lock;
};

union word { float f; int32_t i; };
enum { NAN_BITS = 0x7fc00000 };

INLINE bool is_finite(float x)
{
    return (((union word){.f = x}).i & 0x7f800000) != 0x7f800000;
}

/* Computes t = (in - dark) / range, NaN if that is not finite. Returns the number of NaN. */
CLONES static int transmit(float *restrict t, const float *restrict in, const float *restrict dark,
                           const float *restrict range, int n)
{
    int bad = 0;

    for (int i = 0; i < n; i++) {
        const float x = (in[i] - dark[i]) / range[i];
        const bool ok = is_finite(x);
        t[i] = ok ? x : NAN;
        bad += !ok;
    }
    return bad;
}

CLONES static void interpolate(float *restrict out, const float *restrict a, const float *restrict b, float w,
                               int n)
{
    for (int i = 0; i < n; i++)
        out[i] = a[i] + w * (b[i] - a[i]);
}

/* Returns -ln of a positive, normal, finite number. */
INLINE float minus_log(float x)
{
    static const float Q[8] = {0.333332151f, -0.249997973f, 0.200104058f, -0.166804865f,
                               0.140058622f, -0.121842675f, 0.139844716f, -0.128916666f};
    const int32_t bits = ((union word){.f = x}).i, e = (bits - 0x3f2aaaab) >> 23;
    const float f = ((union word){.i = bits - (int32_t)((uint32_t)e << 23)}).f - 1, k = (float)e, f2 = f * f;
    float q = Q[7];

    for (int i = 6; i >= 0; i--)
        q = q * f + Q[i];
    /* the high part of ln 2 has 7 trailing zero bits to spare, so k times it is exact */
    return 0 - (k * 0.693145752f + (f - (0.5f * f2 - (f2 * f * q + k * 1.42860677e-6f))));
}

/* Computes p = -ln(max(t, floor)); NaN stays. Returns the number of samples that were raised to the floor. */
CLONES static int logarithm(float *restrict p, const float *restrict t, float floor, int64_t n)
{
    int raised = 0;

    for (int64_t i = 0; i < n; i++) {
        /* selected by bits, not by ?:, which would keep the loop from being vectorised */
        union word l = {.f = minus_log(t[i] > floor ? t[i] : floor)};
        l.i |= is_finite(t[i]) ? 0 : NAN_BITS;
        p[i] = l.f;
        raised += t[i] <= floor;
    }
    return raised;
}

/* Returns the set before a view, or the first, and sets the part of the way to the next. */
static int flat_of(const struct vp_normalize *n, double view, float *w)
{
    int i = 0;

    while (i + 1 < n->n_flats && n->at[i + 1] <= view)
        i++;
    *w = i + 1 < n->n_flats && view > n->at[i] ? (float)((view - n->at[i]) / (n->at[i + 1] - n->at[i])) : 0;
    return i;
}

/* Fills dead pixels with the mean of their neighbours that lie nearer to the live ones. */
static void fill_dead(const struct vp_normalize *n, float *page)
{
    for (int64_t d = 0; d < n->n_dead; d++) {
        const int64_t at = n->dead[d], u = at % n->nu, v = at / n->nu;
        double sum = 0;
        int count = 0;
        for (int64_t y = v > 0 ? v - 1 : 0; y <= v + 1 && y < n->nv; y++)
            for (int64_t x = u > 0 ? u - 1 : 0; x <= u + 1 && x < n->nu; x++) {
                const int64_t other = y * n->nu + x;
                if (n->layer[other] < n->layer[at] && !isnan(page[other])) {
                    sum += page[other];
                    count++;
                }
            }
        if (count)
            page[at] = (float)(sum / count);
    }
}

/* Fills runs of NaN with a line between the samples beside them, or with the only one. */
static void fill_row(float *row, int64_t n, float nothing)
{
    for (int64_t i = 0; i < n; i++) {
        if (!isnan(row[i]))
            continue;
        int64_t end = i + 1;
        while (end < n && isnan(row[end]))
            end++;
        const double before = i > 0 ? row[i - 1] : nothing, right = end < n ? row[end] : before;
        const double left = i > 0 ? before : right;
        const double slope = (right - left) / (double)(end - i + 1);
        for (int64_t j = i; j < end; j++)
            row[j] = (float)(left + slope * (double)(j - i + 1));
        i = end;
    }
}

/* A page, and how it maps to views and detector rows. */
struct page {
    bool sinogram;
    int64_t index, rows;   /* view or detector row; rows on the page */
    const float *in;
    float *out;            /* may be `in` */
    const double *weight;  /* one a mode of the flats; or NULL */
};

/* Turns `count` samples (a block at most) of row r of a page, from column u on, from counts to transmissions. Returns
 * the number of NaN. */
static int transmit_block(const struct vp_normalize *n, const struct page *p, int64_t r, int64_t u, int count,
                          float *t)
{
    static const float zero[BLOCK];
    const int64_t view = p->sinogram ? r : p->index, row = p->sinogram ? p->index : r, at = row * n->nu + u;
    float between[BLOCK], w = 0;
    const int set = n->sets ? flat_of(n, (double)view, &w) : 0;
    const float *before = n->sets ? n->range + set * n->pixels + at : between;

    if (!n->sets)
        for (int i = 0; i < count; i++)
            between[i] = n->i0;
    if (p->weight) {
        vp_flat_modes_range(n->modes, p->weight, at, count, before, between);
        before = between;
    }
    if (w != 0)
        interpolate(between, before, before + n->pixels, w, count);
    return transmit(t, p->in + r * n->nu + u, n->dark ? n->dark + at : zero, w != 0 ? between : before, count);
}

static int transmit_row(const struct vp_normalize *n, const struct page *p, int64_t r, float *t)
{
    int bad = 0;

    for (int64_t u = 0; u < n->nu; u += BLOCK)
        bad += transmit_block(n, p, r, u, (int)vp_min64(n->nu - u, BLOCK), t + u);
    return bad;
}

static int64_t finish(const struct vp_normalize *n, float *out, const float *t, int64_t count)
{
    if (!n->transmission)
        return logarithm(out, t, n->floor, count);
    memcpy(out, t, (size_t)count * sizeof *out);
    return 0;
}

static void plain_band(const struct vp_normalize *n, const struct page *p, int64_t r0, int64_t r1,
                       struct vp_normalize_report *f)
{
    float t[BLOCK];

    for (int64_t r = r0; r < r1; r++)
        for (int64_t u = 0; u < n->nu; u += BLOCK) {
            const int count = (int)vp_min64(n->nu - u, BLOCK);
            f->dead += transmit_block(n, p, r, u, count, t);
            f->floored += finish(n, p->out + r * n->nu + u, t, count);
        }
}

static void despiked_band(const struct vp_normalize *n, const struct page *p, int64_t r0, int64_t r1,
                          struct vp_normalize_report *f)
{
    const int mine = omp_get_thread_num() % n->n_scratch, size = n->despike.size, half = size / 2;
    const int64_t nu = n->nu;
    float *const scratch = n->scratch + vp_despike_rows(&n->despike) * mine * nu, *const result = scratch + size * nu;
    int64_t bad[VP_DESPIKE_MOST] = {0}, ready = vp_max64(r0 - half, 0);

    pthread_mutex_lock(&n->lock[mine]);
    for (int64_t r = r0; r < r1; r++) {
        const float *rows[VP_DESPIKE_MOST];
        int64_t near = 0;
        /* the rows below become transmissions before this one is written, perhaps in place */
        for (; ready <= r + half && ready < p->rows; ready++)
            bad[ready % size] = transmit_row(n, p, ready, scratch + ready % size * nu);
        for (int64_t y = r - half; y <= r + half; y++) {
            const bool there = y >= 0 && y < p->rows;
            rows[y - r + half] = there ? scratch + y % size * nu : NULL;
            near += there ? bad[y % size] : 0;
        }
        f->dead += bad[r % size];
        f->zingers += vp_despike_row(&n->despike, result, rows, nu, near > 0, result + nu);
        f->floored += finish(n, p->out + r * nu, result, nu);
    }
    pthread_mutex_unlock(&n->lock[mine]);
}

void vp_blank_add(struct vp_blank *b, int64_t pages, int64_t first)
{
    if (!pages)
        return;
    #pragma omp critical(blank)
    {
        b->first = b->pages ? vp_min64(b->first, first) : first;
        b->pages += pages;
    }
}

void vp_blank_look(struct vp_blank *b, const float *in, int64_t first, int64_t n, int64_t samples)
{
    for (int64_t k = 0; k < n; k++, in += samples) {
        int64_t i = 0;
        while (i < samples && !isfinite(in[i]))
            i++;
        if (i == samples)
            vp_blank_add(b, 1, first + k);
    }
}

static void report(struct vp_normalize_report *to, const struct vp_normalize_report *f)
{
    #pragma omp atomic
    to->floored += f->floored;
    #pragma omp atomic
    to->zingers += f->zingers;
    #pragma omp atomic
    to->dead += f->dead;
    vp_blank_add(&to->blank, f->blank.pages, f->blank.first);
}

/* Normalises a page by the calling thread; or, if the neighbours of a band's rows are still unchanged, by all. */
static void normalize_page(const struct vp_normalize *n, const struct page *p, bool all_threads,
                           struct vp_normalize_report *rep)
{
    void (*const band)(const struct vp_normalize *, const struct page *, int64_t, int64_t,
                       struct vp_normalize_report *) = n->despike.times > 0 ? despiked_band : plain_band;
    const int64_t height = n->nu < 32768 ? 65536 / n->nu : 2;
    struct vp_normalize_report f = {0};

    if (!all_threads)
        band(n, p, 0, p->rows, &f);
    #pragma omp parallel for schedule(dynamic) num_threads(n->threads) if (all_threads)
    for (int64_t r = 0; r < (all_threads ? p->rows : 0); r += height) {
        struct vp_normalize_report one = {0};
        band(n, p, r, vp_min64(r + height, p->rows), &one);
        report(&f, &one);
    }
    if (f.dead && !p->sinogram)
        fill_dead(n, p->out);
    if (f.dead && (p->sinogram || f.dead > n->n_dead))
        for (int64_t r = 0; r < p->rows; r++)
            fill_row(p->out + r * n->nu, n->nu, n->transmission ? 1 : 0);
    if (f.dead + f.floored == p->rows * n->nu)
        f.blank = (struct vp_blank){1, p->index};
    if (rep)
        report(rep, &f);
}

void vp_normalize_pages(const struct vp_normalize *n, int64_t sinogram_views, int64_t first, int64_t count,
                        const float *in, float *out, struct vp_normalize_report *rep)
{
    const int64_t rows = sinogram_views ? sinogram_views : n->nv, size = rows * n->nu;
    const bool few = count < n->threads && in != out;

    for (int64_t k = 0; k < count && n->modes; k++) {
        double weight[VP_FLAT_MODES_MOST];
        vp_flat_modes_fit(n->modes, n->range, n->dark, in + k * size, weight);
        normalize_page(n, &(struct page){false, first + k, rows, in + k * size, out + k * size, weight}, in != out, rep);
    }
    if (n->modes)
        return;
    #pragma omp parallel for schedule(dynamic) num_threads(n->threads) if (!few)
    for (int64_t k = 0; k < count; k++)
        normalize_page(n, &(struct page){sinogram_views > 0, first + k, rows, in + k * size, out + k * size, NULL}, few, rep);
}

int vp_normalize_check(const struct vp_normalize_params *p, struct vp_err *err)
{
    if (!p->flat.n && !(p->i0 > 0))
        return vp_fail_hint(err, VP_EUSAGE, "--flat FILES are pages of the open beam, --i0 N is a number of counts; an "
                            "input in HDF5 or txrm brings its flats, if it is named",
                            "neither --flat nor --i0 is given");
    if (p->flat.n && p->i0 > 0)
        return vp_fail(err, VP_EUSAGE, "--flat and --i0 cannot be combined");
    if (p->zinger_size % 2 == 0)
        return vp_fail(err, VP_EUSAGE, "--zinger-size: expected an odd number, got %lld", (long long)p->zinger_size);
    if (p->zinger_size > 3 && !(p->zinger > 0))
        return vp_fail(err, VP_EUSAGE, "--zinger-size needs --zinger");
    if (p->flat_modes > 0 && p->flat.n != 1)
        return vp_fail(err, VP_EUSAGE, "--flat-modes: expected all flats in one --flat, got %d", p->flat.n);
    if (!p->flat_at.n)
        return 0;
    if (p->flat_at.n != p->flat.n)
        return vp_fail(err, VP_EUSAGE, "--flat-at: expected %d numbers, one for each --flat, got %d",
                       p->flat.n, p->flat_at.n);
    for (int i = 1; i < p->flat_at.n; i++)
        if (!(p->flat_at.v[i] > p->flat_at.v[i - 1]))
            return vp_fail(err, VP_EUSAGE, "--flat-at: %g after %g: view numbers must increase",
                           p->flat_at.v[i], p->flat_at.v[i - 1]);
    return 0;
}

enum vp_need vp_normalize_need(const struct vp_normalize_params *p)
{
    return p->i0 >= 1 && p->i0 <= 1 && !p->dark.n ? VP_NEED_UNIT : VP_NEED_COUNTS;
}

/* Numbers the dead neighbours of pixel i that have no number yet, and appends them to the list. */
static void number_around(struct vp_normalize *n, int64_t i, int64_t *done)
{
    const int64_t u = i % n->nu, v = i / n->nu;

    for (int64_t y = v > 0 ? v - 1 : 0; y <= v + 1 && y < n->nv; y++)
        for (int64_t x = u > 0 ? u - 1 : 0; x <= u + 1 && x < n->nu; x++)
            if (n->layer[y * n->nu + x] == UINT16_MAX && n->layer[i] < UINT16_MAX - 1) {
                n->layer[y * n->nu + x] = (uint16_t)(n->layer[i] + 1);
                n->dead[(*done)++] = y * n->nu + x;
            }
}

/* Numbers the dead pixels by their distance (in steps to any of eight neighbours) from the live ones. */
static int find_layers(struct vp_normalize *n, struct vp_err *err)
{
    int64_t done = 0, n_dead = 0;

    for (int64_t i = 0; i < n->pixels; i++)
        n_dead += isnan(n->range[i]);
    if (!n_dead)
        return 0;
    if (n_dead == n->pixels)
        return vp_fail(err, VP_ERUN, "all %lld pixels are dead: the flat is nowhere above the dark field",
                       (long long)n_dead);
    if (!(n->layer = vp_alloc((size_t)n->pixels, sizeof *n->layer, "the dead pixels", err))
        || !(n->dead = vp_alloc((size_t)n_dead, sizeof *n->dead, "the dead pixels", err)))
        return -1;
    for (int64_t i = 0; i < n->pixels; i++)
        n->layer[i] = isnan(n->range[i]) ? UINT16_MAX : 0;

    for (int64_t i = 0; i < n->pixels; i++)
        if (!n->layer[i])
            number_around(n, i, &done);
    for (int64_t i = 0; i < done; i++)
        number_around(n, n->dead[i], &done);
    n->n_dead = done;   /* all, unless an area is so large that the numbers end */
    return 0;
}

static int set_ranges(struct vp_normalize *n, const float *const *flats, const uint8_t *dead,
                      struct vp_err *err)
{
    if (!n->n_flats && !dead && !n->dark)
        return 0;
    n->sets = n->n_flats ? n->n_flats : 1;
    if (!(n->range = vp_alloc_raw((size_t)n->pixels, (size_t)n->sets * sizeof(float), "the flats", err)))
        return -1;
    for (int64_t i = 0; i < n->pixels; i++) {
        bool lit = !n->dark || is_finite(n->dark[i]);
        for (int s = 0; s < n->sets; s++) {
            const float range = !n->n_flats ? n->i0 : n->dark ? flats[s][i] - n->dark[i] : flats[s][i];
            lit &= range > 0 && is_finite(range);
            n->range[s * n->pixels + i] = range;
        }
        n->n_unlit += !lit && !(dead && dead[i]);
        for (int s = 0; s < n->sets && (!lit || (dead && dead[i])); s++)
            n->range[s * n->pixels + i] = NAN;
    }
    return find_layers(n, err);
}

static int set_views(struct vp_normalize *n, const struct vp_normalize_params *p, int64_t views,
                     struct vp_err *err)
{
    if (!(n->at = vp_alloc((size_t)n->n_flats + 1, sizeof *n->at, "the flats", err)))
        return -1;
    if (n->n_flats > 1 && !p->flat_at.n && views <= 0)
        return vp_fail_hint(err, VP_EUSAGE, "give their views with --flat-at, or the geometry with -g FILE",
                            "the number of views is unknown, so %d flat sets cannot be spread over them",
                            n->n_flats);
    for (int s = 0; s < n->n_flats; s++)
        if (p->flat_at.n)
            n->at[s] = p->flat_at.v[s];
        else if (n->n_flats > 1)
            n->at[s] = (double)(views - 1) * s / (n->n_flats - 1);
    return 0;
}

static int set_scratch(struct vp_normalize *n, struct vp_err *err)
{
    n->scratch = vp_alloc_raw((size_t)(n->threads * n->nu), (size_t)vp_despike_rows(&n->despike) * sizeof(float),
                              "the zinger filter", err);
    n->lock = vp_alloc((size_t)n->threads, sizeof *n->lock, "the zinger filter", err);
    if (!n->scratch || !n->lock)
        return -1;
    while (n->n_scratch < n->threads)
        pthread_mutex_init(&n->lock[n->n_scratch++], NULL);
    return 0;
}

int vp_normalize_open(struct vp_normalize **out, const struct vp_normalize_params *p, int64_t nu, int64_t nv,
                      int64_t views, const float *const *flats, int n_flats, const float *dark,
                      const uint8_t *dead, struct vp_err *err)
{
    struct vp_normalize *n;
    size_t pixels;

    *out = NULL;
    assert(nu > 0 && nv > 0 && (n_flats > 0 || p->i0 > 0));
    if (!vp_mul_size(&pixels, (size_t)nu, (size_t)nv))
        return vp_fail(err, VP_ERESOURCE, "%lld x %lld pixels are too many", (long long)nu, (long long)nv);
    if (!(n = vp_alloc(1, sizeof *n, "the normalisation", err)))
        return -1;
    *n = (struct vp_normalize){.nu = nu, .nv = nv, .pixels = nu * nv, .n_flats = n_flats,
                               .i0 = (float)p->i0, .floor = (float)p->floor,
                               .despike = {(float)p->zinger, (float)p->floor, (int)p->zinger_size},
                               .transmission = p->transmission,
                               .threads = omp_get_max_threads()};
    if (dark) {
        if (!(n->dark = vp_alloc_raw(pixels, sizeof(float), "the dark field", err)))
            goto fail;
        memcpy(n->dark, dark, pixels * sizeof(float));
    }
    if (set_views(n, p, views, err) || set_ranges(n, flats, dead, err)
        || (p->zinger > 0 && set_scratch(n, err)))
        goto fail;
    *out = n;
    return 0;
fail:
    vp_normalize_close(n);
    return -1;
}

void vp_normalize_close(struct vp_normalize *n)
{
    if (!n)
        return;
    if (n->modes)
        vp_flat_modes_free(n->modes);
    free(n->modes);
    for (int s = 0; s < n->n_scratch; s++)
        pthread_mutex_destroy(&n->lock[s]);
    free(n->range);
    free(n->lock);
    free(n->at);
    free(n->dark);
    free(n->layer);
    free(n->dead);
    free(n->scratch);
    free(n);
}

void vp_normalize_modes(struct vp_normalize *n, struct vp_flat_modes *modes)
{
    assert(n->sets == 1 && n->n_flats == 1);
    n->modes = modes;
}

struct vp_normalize_facts vp_normalize_facts(const struct vp_normalize *n)
{
    return (struct vp_normalize_facts){
        .pixels = n->pixels, .dead = n->n_dead, .unlit = n->n_unlit, .floor = n->floor,
        .rows = n->sets || n->dark ? n->nv : -1,
        .bytes = (size_t)n->pixels * (((size_t)n->sets + !!n->dark) * sizeof(float) + (n->layer ? sizeof *n->layer : 0))
                 + (size_t)n->n_dead * sizeof *n->dead
                 + (size_t)n->n_scratch * (size_t)vp_despike_rows(&n->despike) * (size_t)n->nu * sizeof(float)
                 + (n->modes ? (size_t)vp_flat_modes_bytes(n->nu, n->nv, n->modes->n) : 0)};
}
