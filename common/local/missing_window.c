/* SPDX-License-Identifier: BSD-3-Clause */
/* Statistics of the present samples of a neighbourhood: see missing.h. Each voxel is made from its own samples, in the
 * order of the footprint, so nothing depends on tiles. */
#include "base/order.h"
#include "base/size.h"
#include "local/entropy.h"
#include "local/extremum.h"
#include "local/missing_internal.h"
#include "local/moments.h"
#include "local/rank.h"
#include "stack/stack.h"

#include <math.h>
#include <string.h>

/* Memory of a window: sums along the rows of `seen`, each with one more number than samples; a list of numbers, or of
 * keys; the bins of a histogram. */
struct missing_window {
    int32_t *present, *absent;
    double *list;
    int64_t *key;
    uint32_t *bin;
};

static size_t place(const struct vp_missing_work *w, void *own, int64_t list, int64_t keys, int64_t bins)
{
    const size_t sums = (size_t)((w->n[0] + 1) * w->n[1] * w->n[2]);
    struct missing_window *kept, here = {0};
    size_t bytes = 0;

    kept = vp_place(own, &bytes, sizeof *kept);
    here.present = vp_place(own, &bytes, sums * sizeof *here.present);
    here.absent = vp_place(own, &bytes, sums * sizeof *here.absent);
    here.list = vp_place(own, &bytes, (size_t)list * sizeof *here.list);
    here.key = vp_place(own, &bytes, (size_t)keys * sizeof *here.key);
    here.bin = vp_place(own, &bytes, (size_t)bins * sizeof *here.bin);
    if (kept)
        *kept = here;
    return bytes;
}

static size_t layout(const struct vp_missing_work *w, void *own)
{
    return place(w, own, 0, 0, 0);
}

static size_t layout_keys(const struct vp_missing_work *w, void *own)
{
    return place(w, own, 0, w->m->count + 1, 0);
}

static size_t layout_bins(const struct vp_missing_work *w, void *own)
{
    const struct vp_entropy_params *p = w->m->inner.params;

    return place(w, own, 0, 0, p->bins);
}

/* Sums the numbers of present and of absent samples along each row. */
static void prepare(struct vp_missing_work *w)
{
    const struct missing_window *k = w->own;
    const int64_t n = w->n[0], rows = w->n[1] * w->n[2];

    for (int64_t r = 0; r < rows; r++) {
        int32_t *const present = k->present + r * (n + 1), *const absent = k->absent + r * (n + 1);
        const uint8_t *const state = w->state + r * n;
        present[0] = absent[0] = 0;
        for (int64_t i = 0; i < n; i++) {
            present[i + 1] = present[i] + (state[i] == VP_PRESENT);
            absent[i + 1] = absent[i] + (state[i] == VP_ABSENT);
        }
    }
}

/* Counts the samples of a voxel's footprint; `at`: its own sample in `seen`. */
static void count(const struct vp_missing_work *w, int64_t at, int64_t *present, int64_t *absent)
{
    const struct vp_missing_params *m = w->m;
    const struct missing_window *k = w->own;
    const int64_t n = w->n[0], row = at / n, x = at % n;

    *present = *absent = 0;
    for (int64_t i = 0; i < m->spans; i++) {
        const struct vp_span *s = &m->span[i];
        const int64_t to = (row + s->dz * w->n[1] + s->dy) * (n + 1) + x;
        *present += k->present[to + s->x1 + 1] - k->present[to + s->x0];
        *absent += k->absent[to + s->x1 + 1] - k->absent[to + s->x0];
    }
}

/* Makes a voxel from the number of its present samples. */
typedef double make_voxel(const struct vp_missing_work *w, int64_t at, int64_t n);

/* Makes the voxels of a row that have something missing near. `make` NULL: those that exist stay. */
static void each(struct vp_missing_work *w, int64_t y, int64_t z, make_voxel *make)
{
    const int32_t *const near = vp_missing_near(w, y, z);
    const int64_t n = vp_box_size(&w->tile, 0), first = vp_missing_at(w, w->tile.lo[0], y, z);

    for (int64_t x = 0; x < n; x++) {
        int64_t present, absent;
        if (!near[x])
            continue;
        count(w, first + x, &present, &absent);
        if (!absent && w->state[first + x] != VP_ABSENT)
            continue;
        w->what[x] = vp_missing_decide(w, first + x, (double)present, (double)absent);
        if (w->what[x] == VP_MADE && make)
            w->result[x] = make(w, first + x, present);
        else if (w->what[x] == VP_MADE)
            w->what[x] = VP_AS_IS;
    }
}

/* ---- extrema: the operation leaves NaN out itself ---- */

static void extremum_row(struct vp_missing_work *w, int64_t y, int64_t z)
{
    each(w, y, z, NULL);
}

const struct vp_missing_rule vp_missing_extremum = {layout, prepare, extremum_row};

/* ---- ranks ---- */

/* Returns the k-th smallest of n keys, which it reorders (Hoare's selection). */
static int64_t pick(int64_t *v, int64_t n, int64_t k)
{
    int64_t lo = 0, hi = n - 1;

    while (lo < hi) {
        const int64_t middle = v[lo + (hi - lo) / 2];
        int64_t i = lo, j = hi;
        while (i <= j) {
            while (v[i] < middle)
                i++;
            while (v[j] > middle)
                j--;
            if (i <= j) {
                const int64_t kept = v[i];
                v[i++] = v[j];
                v[j--] = kept;
            }
        }
        if (k <= j)
            hi = j;
        else if (k >= i)
            lo = i;
        else
            break;
    }
    return v[k];
}

static double rank(const struct vp_missing_work *w, int64_t at, int64_t n)
{
    const struct vp_rank_params *p = w->m->inner.params;
    int64_t *const key = ((const struct missing_window *)w->own)->key;
    int64_t i = 0;

    for (int64_t k = 0; k < w->m->spans; k++) {
        const struct vp_span *const s = &w->m->span[k];
        const int64_t from = at + (s->dz * w->n[1] + s->dy) * w->n[0];
        for (int64_t x = from + s->x0; x <= from + s->x1; x++) {
            key[i] = vp_signed_key_f64(w->v[x]);
            i += w->state[x] == VP_PRESENT;
        }
    }
    return vp_f64_of_signed_key(pick(key, n, vp_rank_index(p->millionths, n)));
}

static void rank_row(struct vp_missing_work *w, int64_t y, int64_t z)
{
    each(w, y, z, rank);
}

const struct vp_missing_rule vp_missing_rank = {layout_keys, prepare, rank_row};

/* ---- entropy ---- */

static double entropy(const struct vp_missing_work *w, int64_t at, int64_t n)
{
    const struct vp_entropy_params *p = w->m->inner.params;
    uint32_t *const bin = ((const struct missing_window *)w->own)->bin;
    int64_t sum = 0;

    memset(bin, 0, (size_t)p->bins * sizeof *bin);
    for (int64_t k = 0; k < w->m->spans; k++) {
        const struct vp_span *const s = &w->m->span[k];
        const int64_t from = at + (s->dz * w->n[1] + s->dy) * w->n[0];
        for (int64_t x = from + s->x0; x <= from + s->x1; x++)
            if (w->state[x] == VP_PRESENT)
                sum += p->step[bin[vp_entropy_bin(p, w->v[x])]++];
    }
    return (double)(float)((double)(p->t[n] - sum) / (4294967296.0 * (double)n)); /* the tables' unit is 2^-32 */
}

static void entropy_row(struct vp_missing_work *w, int64_t y, int64_t z)
{
    each(w, y, z, entropy);
}

const struct vp_missing_rule vp_missing_entropy = {layout_bins, prepare, entropy_row};

/* ---- mean, variance, deviation, Wiener's filter, local thresholds ---- */

/* Adds rows: of the samples of the footprint around each voxel of a row, the first of which is `at`. */
static void add_samples(const struct vp_missing_work *w, int64_t at, double *restrict sum, int64_t n)
{
    memset(sum, 0, (size_t)n * sizeof *sum);
    for (int64_t i = 0; i < w->m->spans; i++) {
        const struct vp_span *s = &w->m->span[i];
        const double *const row = w->v + at + (s->dz * w->n[1] + s->dy) * w->n[0];
        for (int64_t k = s->x0; k <= s->x1; k++)
            for (int64_t x = 0; x < n; x++)
                sum[x] += row[x + k];
    }
}

static void add_deviations(const struct vp_missing_work *w, int64_t at, const double *mean, double *restrict sum,
                           int64_t n)
{
    const double *const there = ((const struct missing_window *)w->own)->list;

    memset(sum, 0, (size_t)n * sizeof *sum);
    for (int64_t i = 0; i < w->m->spans; i++) {
        const struct vp_span *s = &w->m->span[i];
        const int64_t from = at + (s->dz * w->n[1] + s->dy) * w->n[0];
        for (int64_t k = s->x0; k <= s->x1; k++)
            for (int64_t x = 0; x < n; x++) {
                const double d = w->v[from + x + k] - mean[x];
                sum[x] += there[from + x + k] * (d * d);
            }
    }
}

static double moment(const struct vp_missing_work *w, int64_t at, double n, double sum, double deviations)
{
    const struct vp_moments_params *p = w->m->inner.params;
    const double mean = sum / n, by = p->sample ? n - 1 : n, var = by > 0 ? deviations / by : 0;

    switch (p->moment) {
    case VP_MEAN: return mean;
    case VP_VAR: return var;
    case VP_STD: return sqrt(var);
    case VP_ABOVE: return w->state[at] == VP_ABSENT ? 0 : vp_limit_mark(&p->limit, p->spreads, n, sum, n * deviations, w->v[at]);
    default: /* VP_WIENER: the mean stands for what is missing */
        return w->state[at] == VP_ABSENT || !(var > p->noise) ? mean
               : mean + (var - p->noise) / var * (w->v[at] - mean);
    }
}

static size_t layout_moments(const struct vp_missing_work *w, void *own)
{
    return place(w, own, w->n[0] * w->n[1] * w->n[2] + 4 * w->m->side[0], 0, 0);
}

static void prepare_moments(struct vp_missing_work *w)
{
    double *const there = ((const struct missing_window *)w->own)->list;

    prepare(w);
    for (int64_t i = 0; i < w->n[0] * w->n[1] * w->n[2]; i++)
        there[i] = w->state[i] == VP_PRESENT;
}

static void moments_row(struct vp_missing_work *w, int64_t y, int64_t z)
{
    const struct vp_moments_params *p = w->m->inner.params;
    const int32_t *const near = vp_missing_near(w, y, z);
    const int64_t n = vp_box_size(&w->tile, 0), first = vp_missing_at(w, w->tile.lo[0], y, z);
    double *const sum = ((const struct missing_window *)w->own)->list + w->n[0] * w->n[1] * w->n[2];
    double *const samples = sum + w->m->side[0], *const mean = samples + w->m->side[0];
    double *const deviations = mean + w->m->side[0];

    for (int64_t x = 0; x < n; x++) {
        int64_t present = 0, absent = 0;
        if (near[x])
            count(w, first + x, &present, &absent);
        samples[x] = (double)present;
        if (absent || (near[x] && w->state[first + x] == VP_ABSENT))
            w->what[x] = vp_missing_decide(w, first + x, (double)present, (double)absent);
    }
    add_samples(w, first, sum, n);
    for (int64_t x = 0; x < n; x++)
        mean[x] = sum[x] / samples[x];
    if (p->spreads)
        add_deviations(w, first, mean, deviations, n);
    for (int64_t x = 0; x < n; x++)
        if (w->what[x] == VP_MADE)
            w->result[x] = moment(w, first + x, samples[x], sum[x], p->spreads ? deviations[x] : 0);
}

const struct vp_missing_rule vp_missing_moments = {layout_moments, prepare_moments, moments_row};
