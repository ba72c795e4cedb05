/* SPDX-License-Identifier: BSD-3-Clause */
/* Global thresholds: histograms of boxes, the threshold of their sum, and the comparison. */
#include "global/threshold.h"

#include "base/err.h"
#include "base/size.h"
#include "engine/store.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Tables of a histogram, used in turn: increments of equal bins then do not wait for each other. */
enum { TURNS = 4 };

static const char *const METHODS[] = {"at", "otsu", "triangle", "li", "yen", "isodata"};

/* ---- from a histogram to a threshold ---- */

/* Finds the first and the last level that have counts. */
struct span { const uint64_t *count; int64_t n; double all, sum; };

static struct span span_of(const struct vp_levels *l)
{
    int64_t lo = 0, hi = l->bins;
    struct span s = {0};

    while (lo < hi && !l->count[lo])
        lo++;
    while (hi > lo && !l->count[hi - 1])
        hi--;
    s = (struct span){l->count + lo, hi - lo, 0, 0};
    for (int64_t i = 0; i < s.n; i++) {
        s.all += (double)s.count[i];
        s.sum += (double)s.count[i] * (double)i;
    }
    return s;
}

/* Maximises the variance between the two classes: w1 w2 (m1 - m2)^2. */
static double otsu(const struct span *s)
{
    double best = -1, n = 0, sum = 0;
    int64_t at = 0;

    for (int64_t i = 0; i < s->n - 1; i++) {
        n += (double)s->count[i];
        sum += (double)s->count[i] * (double)i;
        const double rest = s->all - n, d = sum / n - (s->sum - sum) / rest, between = n * rest * d * d;
        if (between > best) {
            best = between;
            at = i;
        }
    }
    return (double)at;
}

/* Finds the level farthest from the line between the peak and the end of its longer tail. */
static double triangle(const struct span *s)
{
    int64_t peak = 0;

    for (int64_t i = 1; i < s->n; i++)
        if (s->count[i] > s->count[peak])
            peak = i;
    const bool flip = peak < s->n - 1 - peak;
    const int64_t width = flip ? s->n - 1 - peak : peak;
    const double height = (double)s->count[peak];
    double best = -INFINITY;
    int64_t at = 0;
    for (int64_t i = 0; i < width; i++) {
        const double far = height * (double)i - (double)width * (double)s->count[flip ? s->n - 1 - i : i];
        if (far > best) {
            best = far;
            at = i;
        }
    }
    return (double)(flip ? s->n - 1 - at : at);
}

/* Computes the means of the levels above t and of the others (0 if there are none). */
static void means(const struct span *s, double t, double *lower, double *upper)
{
    double n = 0, sum = 0;

    for (int64_t i = 0; i < s->n && (double)i <= t; i++) {
        n += (double)s->count[i];
        sum += (double)s->count[i] * (double)i;
    }
    *lower = n > 0 ? sum / n : 0;
    *upper = s->all > n ? (s->sum - sum) / (s->all - n) : 0;
}

/* Minimises the cross entropy by Li and Tam's iteration from the mean. */
static double li(const struct span *s)
{
    double t = s->sum / s->all, before = -1;

    for (int i = 0; i < 10000 && fabs(t - before) > .5; i++) {
        double lower, upper;
        before = t;
        means(s, t, &lower, &upper);
        if (lower == 0)
            break;
        t = (lower - upper) / (log(lower) - log(upper));
    }
    return t;
}

/* Maximises Yen's correlation criterion. */
static double yen(const struct span *s)
{
    double squares = 0, below = 0, n = 0, best = -1;
    int64_t at = 0;

    for (int64_t i = 0; i < s->n; i++)
        squares += (double)s->count[i] * (double)s->count[i];
    for (int64_t i = 0; i < s->n - 1; i++) {
        n += (double)s->count[i];
        below += (double)s->count[i] * (double)s->count[i];
        const double p = n / s->all, balance = p * (1 - p);
        const double is = balance * balance / (below / squares * ((squares - below) / squares));
        if (is > best) {
            best = is;
            at = i;
        }
    }
    return (double)at;
}

/* Finds the lowest level half-way between the means of the levels above it and of the others. */
static double isodata(const struct span *s)
{
    double n = 0, sum = 0;

    for (int64_t i = 0; i < s->n - 1; i++) {
        n += (double)s->count[i];
        sum += (double)s->count[i] * (double)i;
        const double far = (sum / n + (s->sum - sum) / (s->all - n)) / 2 - (double)i;
        if (far >= 0 && far < 1)
            return (double)i;
    }
    return 0; /* not reached: from the first level to the last but one, `far` falls through 0 in steps of less than 1 */
}

double vp_threshold_find(enum vp_threshold method, const struct vp_levels *l)
{
    double (*const find[])(const struct span *) = {NULL, otsu, triangle, li, yen, isodata};
    const struct span s = span_of(l);

    if (!s.n)
        return NAN;
    return l->first + l->width * ((double)(s.count - l->count) + (s.n > 1 ? find[method](&s) : 0));
}

/* ---- the mask ---- */

#define MASK(T, name, limit_of)                                                                                        \
    static void name(const struct vp_threshold_params *p, const void *in, uint8_t *out, int64_t n, double t)           \
    {                                                                                                                  \
        const T *v = in;                                                                                               \
        const __typeof__(limit_of(t)) limit = limit_of(t);                                                             \
        const uint8_t yes = p->below ? 0 : p->mark, no = p->below ? p->mark : 0;                                       \
        for (int64_t i = 0; i < n; i++)                                                                                \
            out[i] = v[i] > limit ? yes : v[i] <= limit ? no : 0;                                                      \
    }
MASK(uint8_t, mask_u8, vp_threshold_int)
MASK(uint16_t, mask_u16, vp_threshold_int)
MASK(int16_t, mask_i16, vp_threshold_int)
MASK(float, mask_f32, vp_threshold_float)

/* Returns the address of row i of the box b. */
static void *row_of(const struct vp_part *p, size_t size, const struct vp_box *b, int64_t i)
{
    const int64_t rows = vp_box_size(b, 1);

    return vp_part_at(p, size, b->lo[0], b->lo[1] + i % rows, b->lo[2] + i / rows);
}

static void mask(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, double limit, int threads)
{
    const struct vp_threshold_params *p = op->params;
    const struct vp_box *b = &out->box;
    const int64_t n = vp_box_size(b, 0), rows = vp_box_size(b, 1) * vp_box_size(b, 2);
    void (*const mask_row)(const struct vp_threshold_params *, const void *, uint8_t *, int64_t, double) =
        op->in == VP_U8 ? mask_u8 : op->in == VP_U16 ? mask_u16 : op->in == VP_I16 ? mask_i16 : mask_f32;

    #pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < rows; i++) {
        uint8_t *to = row_of(out, 1, b, i);
        if (isnan(limit))
            memset(to, 0, (size_t)n);
        else
            mask_row(p, row_of(in, vp_type_size(op->in), b, i), to, n, limit);
    }
}

static int run(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, void *scratch, int threads,
               struct vp_err *err)
{
    const struct vp_threshold_params *p = op->params;

    (void)scratch, (void)err;
    mask(op, in, out, p->limit, threads);
    return 0;
}

static int finish(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, const void *entry,
                  void *scratch, int threads, struct vp_err *err)
{
    const struct vp_threshold_entry *e = entry;

    (void)scratch, (void)err;
    mask(op, in, out, e->limit, threads);
    return 0;
}

/* ---- histograms ---- */

static int64_t table_of(const struct vp_threshold_params *p)
{
    return p->bins + 16; /* one more for samples that are not finite; threads do not share a cache line */
}

static int turns_of(const struct vp_threshold_params *p)
{
    return p->bins <= 1024 ? TURNS : 1;
}

static uint64_t scratch_of(const struct vp_op *op, const struct vp_box *in, const struct vp_box *out, int threads)
{
    const struct vp_threshold_params *p = op->params;

    (void)in, (void)out;
    return (uint64_t)(table_of(p) * turns_of(p) * threads) * sizeof(uint32_t);
}

static uint64_t summary(const struct vp_op *op, const struct vp_box *box)
{
    const struct vp_threshold_params *p = op->params;

    (void)box;
    return sizeof(struct vp_threshold_entry) + (uint64_t)p->bins * sizeof(uint32_t);
}

static void count_row(const struct vp_threshold_params *p, const void *row, int64_t n, uint32_t *table)
{
    const int64_t step = turns_of(p) > 1 ? table_of(p) : 0;

    if (p->type == VP_U8)
        for (int64_t i = 0; i < n; i++)
            table[i % TURNS * step + ((const uint8_t *)row)[i]]++;
    else if (p->type == VP_U16)
        for (int64_t i = 0; i < n; i++)
            table[((const uint16_t *)row)[i]]++;
    else if (p->type == VP_I16)
        for (int64_t i = 0; i < n; i++)
            table[((const int16_t *)row)[i] - INT16_MIN]++;
    else
        for (int64_t i = 0; i < n; i++)
            table[i % TURNS * step + vp_threshold_bin(p, ((const float *)row)[i])]++;
}

static int summarize(const struct vp_op *op, const struct vp_part *in, const struct vp_box *box, void *entry,
                     void *scratch, int threads, struct vp_err *err)
{
    const struct vp_threshold_params *p = op->params;
    const int64_t n = vp_box_size(box, 0), rows = vp_box_size(box, 1) * vp_box_size(box, 2);
    const int64_t each = table_of(p) * turns_of(p);
    struct vp_threshold_entry *e = entry;
    uint32_t *tables = scratch;

    (void)err;
    e->bytes = summary(op, box);
    e->limit = NAN;
    e->first = !box->lo[0] && !box->lo[1] && !box->lo[2];
    #pragma omp parallel num_threads(threads)
    {
        uint32_t *mine = tables + omp_get_thread_num() * each;
        const int64_t all = omp_get_num_threads() * (each / table_of(p));
        memset(mine, 0, (size_t)each * sizeof *mine);
        #pragma omp for schedule(static)
        for (int64_t i = 0; i < rows; i++)
            count_row(p, row_of(in, vp_type_size(p->type), box, i), n, mine);
        #pragma omp for schedule(static)
        for (int64_t b = 0; b < p->bins; b++) {
            uint32_t sum = 0;
            for (int64_t t = 0; t < all; t++)
                sum += tables[t * table_of(p) + b];
            e->count[b] = sum;
        }
    }
    return 0;
}

static int keep(struct vp_found *f, double limit, struct vp_err *err)
{
    if (f->n == f->room) {
        const int64_t room = 2 * f->room + 1;
        double *grown = realloc(f->limit, (size_t)room * sizeof *grown);
        if (!grown)
            return vp_fail(err, VP_ERESOURCE, "out of memory: the thresholds");
        f->limit = grown;
        f->room = room;
    }
    f->limit[f->n++] = limit;
    return 0;
}

void vp_found_free(struct vp_found *f)
{
    free(f->limit);
    *f = (struct vp_found){0};
}

/* Writes the threshold of the image whose entries begin with i into all of them. Returns the first entry of the next
 * image, or -1 on failure. */
static int64_t solve_image(const struct vp_threshold_params *p, struct vp_store *s, int64_t i, uint64_t *count,
                           struct vp_threshold_entry *e, struct vp_err *err)
{
    const double width = p->type == VP_F32 ? (p->hi - p->lo) / (double)p->bins : 1;
    const double first = p->type == VP_F32 ? p->lo + width / 2 : vp_type_min(p->type);
    const int64_t begin = i;

    memset(count, 0, (size_t)p->bins * sizeof *count);
    for (; i < vp_store_count(s); i++) {
        if (vp_store_get(s, i, e, err))
            return -1;
        if (i > begin && e->first)
            break;
        for (int64_t b = 0; b < p->bins; b++)
            count[b] += e->count[b];
    }
    const double limit = vp_threshold_find(p->method, &(struct vp_levels){count, p->bins, first, width});
    if (p->found && keep(p->found, limit, err))
        return -1;
    *e = (struct vp_threshold_entry){sizeof *e, limit, 0};
    for (int64_t k = begin; k < i; k++)
        if (vp_store_put(s, k, e, e->bytes, err))
            return -1;
    return i;
}

static int solve(struct vp_op *op, struct vp_store *s, const int64_t box[3], uint64_t memory, int threads,
                 struct vp_err *err)
{
    const struct vp_threshold_params *p = op->params;
    uint64_t *count = vp_alloc_raw((size_t)p->bins, sizeof *count, "histogram", err);
    struct vp_threshold_entry *e = count ? vp_alloc_raw(1, (size_t)summary(op, NULL), "histogram", err) : NULL;
    int64_t i = 0;

    (void)box, (void)memory, (void)threads;
    if (p->found)
        p->found->n = 0;
    while (e && i >= 0 && i < vp_store_count(s))
        i = solve_image(p, s, i, count, e, err);
    const int rc = e && i >= 0 ? 0 : -1;
    free(e);
    free(count);
    return rc;
}

static const struct vp_two_pass two_pass = {summary, summarize, solve, finish, NULL};

/* ---- make ---- */

int vp_threshold_op(struct vp_op *op, const struct vp_threshold_params *want, const int64_t image[3],
                    enum vp_type type, struct vp_err *err)
{
    *op = (struct vp_op){0};
    if (!(VP_THRESHOLD_TYPES & 1u << type))
        return vp_fail(err, VP_EUSAGE, "threshold: expected u8, u16, i16 or f32, got %s", vp_type_name(type));
    if (type == VP_F32 && want->method != VP_AT && (want->bins < 2 || want->bins > VP_THRESHOLD_BINS))
        return vp_fail(err, VP_EUSAGE, "--bins: expected 2 to %d, got %lld", VP_THRESHOLD_BINS, (long long)want->bins);
    if (type == VP_F32 && want->method != VP_AT && !(want->lo <= want->hi && isfinite(want->hi - want->lo)))
        return vp_fail(err, VP_EUSAGE, "--range: expected two finite numbers in ascending order, got %g and %g",
                       want->lo, want->hi);
    struct vp_threshold_params *p = malloc(sizeof *p);
    if (!p)
        return vp_fail(err, VP_ERESOURCE, "out of memory");
    *p = *want;
    p->type = type;
    if (type != VP_F32)
        p->bins = type == VP_U8 ? 256 : 65536;
    p->per_bin = p->hi > p->lo ? (double)p->bins / (p->hi - p->lo) : 0;
    *op = (struct vp_op){.kernel = "threshold", .image = {image[0], image[1], image[2]}, .inputs = 1, .from = {~0},
                         .in = type, .out = VP_U8, .cost = .3, .params = p, .free = free, .run = run};
    if (p->method == VP_AT) {
        snprintf(op->text, sizeof op->text, "threshold, %s %.9g", p->below ? "up to" : "above", p->limit);
        return 0;
    }
    op->scratch = scratch_of;
    op->two_pass = &two_pass;
    op->run = NULL;
    op->cost = 1;
    if (type == VP_F32)
        snprintf(op->text, sizeof op->text, "threshold, %s that of %s, %lld bins over %.9g to %.9g",
                 p->below ? "up to" : "above", METHODS[p->method], (long long)p->bins, p->lo, p->hi);
    else
        snprintf(op->text, sizeof op->text, "threshold, %s that of %s", p->below ? "up to" : "above",
                 METHODS[p->method]);
    return 0;
}
