/* SPDX-License-Identifier: BSD-3-Clause */
#include "local/resize.h"

#include "base/err.h"
#include "base/isa.h"
#include "base/size.h"
#include "local/resize_isa.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- an axis ---- */

void vp_resize_bins(struct vp_resize_axis *a, int64_t n, int64_t bin)
{
    *a = (struct vp_resize_axis){.n = n, .m = n >= VP_UNKNOWN ? n : n / bin, .bin = bin, .ratio = (double)bin,
                                 .method = VP_RESIZE_AREA};
}

void vp_resize_to(struct vp_resize_axis *a, int64_t n, int64_t m, enum vp_resize_method method)
{
    if (m == n) {
        vp_resize_bins(a, n, 1);
        return;
    }
    *a = (struct vp_resize_axis){.n = n, .m = m, .ratio = (double)n / (double)m, .rational = true, .method = method};
}

void vp_resize_by(struct vp_resize_axis *a, int64_t n, double ratio, enum vp_resize_method method)
{
    const int64_t m = vp_max64(1, llrint((double)n / ratio));
    if ((double)m * ratio == (double)n) {
        vp_resize_to(a, n, m, method);
        return;
    }
    *a = (struct vp_resize_axis){.n = n, .m = m, .ratio = ratio, .edge = ((double)n - (double)m * ratio) / 2,
                                 .method = method};
}

/* Returns the place of the lower side of voxel i / 2, or its centre if i is odd. */
static double place(const struct vp_resize_axis *a, int64_t i)
{
    return a->rational ? (double)(i * a->n) / (double)(2 * a->m) : a->edge + (double)i * a->ratio / 2;
}

double vp_resize_centre(const struct vp_resize_axis *a, int64_t i)
{
    return place(a, 2 * i + 1) - 0.5;
}

static double cubic(double t)
{
    return t < 1 ? (1.5 * t - 2.5) * t * t + 1 : t < 2 ? ((-0.5 * t + 2.5) * t - 4) * t + 2 : 0;
}

static double stretch(const struct vp_resize_axis *a)
{
    return fmax(1, a->ratio);
}

/* Sets the samples that may have a weight: both ends grow with i. */
static void reach(const struct vp_resize_axis *a, int64_t i, int64_t *lo, int64_t *hi)
{
    if (a->bin) {
        *lo = i * a->bin;
        *hi = *lo + a->bin;
        return;
    }
    const double c = vp_resize_centre(a, i), s = stretch(a) * (a->method == VP_RESIZE_CUBIC ? 2 : 1);
    if (a->method == VP_RESIZE_NEAREST) {
        *lo = (int64_t)floor(c + 0.5);
        *hi = *lo + 1;
    } else if (a->method == VP_RESIZE_AREA) {
        *lo = (int64_t)floor(place(a, 2 * i));
        *hi = (int64_t)ceil(place(a, 2 * i + 2));
    } else {
        *lo = (int64_t)floor(c - s) + 1;
        *hi = (int64_t)ceil(c + s);
    }
    *lo = vp_max64(0, vp_min64(*lo, a->n - 1));
    *hi = vp_min64(a->n, vp_max64(*hi, *lo + 1));
}

static double weight_of(const struct vp_resize_axis *a, int64_t i, int64_t j)
{
    const double at = (double)j, t = fabs(at - vp_resize_centre(a, i)) / stretch(a);
    switch (a->method) {
    case VP_RESIZE_AREA: return fmin(at + 1, place(a, 2 * i + 2)) - fmax(at, place(a, 2 * i));
    case VP_RESIZE_LINEAR: return fmax(0, 1 - t);
    case VP_RESIZE_CUBIC: return cubic(t);
    default: return 1;
    }
}

int64_t vp_resize_taps(const struct vp_resize_axis *a, int64_t i, int64_t *first, double *weight)
{
    int64_t lo, hi;
    double sum = 0;

    reach(a, i, &lo, &hi);
    if (!a->bin) { /* samples without a weight must not spoil the voxel if they are NaN */
        while (hi - lo > 1 && weight_of(a, i, lo) == 0)
            lo++;
        while (hi - lo > 1 && weight_of(a, i, hi - 1) == 0)
            hi--;
    }
    *first = lo;
    if (!weight)
        return hi - lo;
    for (int64_t j = lo; j < hi; j++)
        sum += weight[j - lo] = a->bin || hi - lo == 1 ? 1 : weight_of(a, i, j);
    for (int64_t j = lo; j < hi; j++)
        weight[j - lo] /= sum;
    return hi - lo;
}

int64_t vp_resize_most(const struct vp_resize_axis *a)
{
    const double s = a->ratio < 1 ? 1 : a->ratio;
    const int64_t most = a->bin                             ? a->bin
                         : a->method == VP_RESIZE_NEAREST ? 1
                         : a->method == VP_RESIZE_AREA    ? (int64_t)ceil(a->ratio) + 1
                         : a->method == VP_RESIZE_LINEAR  ? (int64_t)ceil(2 * s) + 1
                                                            : (int64_t)ceil(4 * s) + 1;
    return vp_min64(most, a->n);
}

/* ---- the operation ---- */

struct resize {
    struct vp_resize_axis axis[3];
    enum { PICK, MEAN, TAPS } work;
    const struct vp_resize_isa *isa;
    /* Taps along x, `taps` for each voxel (those that it lacks have weight 0): tap k of voxel i at k * m + i; and the
     * sample next to its centre. */
    int64_t taps;
    int32_t *at, *mid;
    double *weight;
};

static void free_resize(void *params)
{
    struct resize *r = params;
    free(r->at);
    free(r->mid);
    free(r->weight);
    free(r);
}

static int64_t length(const struct vp_op *op, int axis, int64_t n)
{
    const struct vp_resize_axis *a = &((const struct resize *)op->params)->axis[axis];
    return n >= VP_UNKNOWN ? n : a->bin ? n / a->bin : a->m;
}

static struct vp_box region(const struct vp_op *op, const struct vp_box *out)
{
    const struct resize *r = op->params;
    struct vp_box in;
    for (int a = 0; a < 3; a++) {
        int64_t ignored;
        reach(&r->axis[a], out->lo[a], &in.lo[a], &ignored);
        reach(&r->axis[a], out->hi[a] - 1, &ignored, &in.hi[a]);
    }
    return in;
}

static int64_t extent(const struct vp_op *op, int axis, int64_t n)
{
    const struct vp_resize_axis *a = &((const struct resize *)op->params)->axis[axis];
    if (a->bin)
        return vp_min64(op->input[axis], n >= VP_UNKNOWN / a->bin ? VP_UNKNOWN : n * a->bin);
    const double more = (double)vp_min64(n, a->m) * a->ratio + 1; /* a rounding may add a sample */
    return vp_min64(op->input[axis], (int64_t)ceil(more) + vp_resize_most(a));
}

static const struct vp_mapping mapping = {length, region, extent, false};

/* Memory of a thread: rows of the input, added up along z; one row between y and x; one of the output; weights. */
struct work { double *rows, *line, *made, *wy, *wz; };

enum { ROWS_BYTES = 1 << 18 };

/* Returns the rows of output that a thread makes from one set of rows of input. */
static int64_t rows_at_once(const struct vp_op *op, int64_t columns)
{
    int64_t n = 16;
    while (n > 1 && vp_op_extent(op, 1, n) * columns * 8 > ROWS_BYTES)
        n /= 2;
    return n;
}

/* Lays out the memory of a thread for an output box of this width; returns the bytes. */
static size_t lay_out(const struct vp_op *op, const struct vp_box *out, void *block, struct work *w)
{
    const struct resize *r = op->params;
    const int64_t m = vp_box_size(out, 0), columns = vp_op_extent(op, 0, m);
    const int64_t rows = r->work == TAPS ? vp_op_extent(op, 1, rows_at_once(op, columns)) + 1 : 1;
    size_t used = 0;
    w->rows = vp_place(block, &used, (size_t)(rows * columns) * sizeof(double));
    w->line = vp_place(block, &used, (size_t)columns * sizeof(double));
    w->made = vp_place(block, &used, (size_t)m * sizeof(double));
    w->wy = vp_place(block, &used, r->work == TAPS ? (size_t)vp_resize_most(&r->axis[1]) * sizeof(double) : 0);
    w->wz = vp_place(block, &used, r->work == TAPS ? (size_t)vp_resize_most(&r->axis[2]) * sizeof(double) : 0);
    return used;
}

static uint64_t scratch_bytes(const struct vp_op *op, const struct vp_box *in, const struct vp_box *out, int threads)
{
    struct work w;
    (void)in;
    return ((const struct resize *)op->params)->work == PICK ? 0 : (uint64_t)threads * lay_out(op, out, NULL, &w);
}

/* ---- nearest ---- */

#define PICK_ROW(T)                                                                                                    \
    do {                                                                                                               \
        const T *const s = from;                                                                                       \
        T *const d = to;                                                                                               \
        for (int64_t i = 0; i < m; i++)                                                                                \
            d[i] = s[at[i] - x0];                                                                                      \
    } while (0)

static void pick_row(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, int64_t y, int64_t z)
{
    const struct resize *r = op->params;
    const size_t size = vp_type_size(op->in);
    int64_t fy, fz;
    vp_resize_taps(&r->axis[1], y, &fy, NULL);
    vp_resize_taps(&r->axis[2], z, &fz, NULL);
    const void *const from = vp_part_at(in, size, in->box.lo[0], fy, fz);
    void *const to = vp_part_at(out, size, out->box.lo[0], y, z);
    const int64_t m = vp_box_size(&out->box, 0);
    const int32_t *const at = r->at + out->box.lo[0], x0 = (int32_t)in->box.lo[0];
    switch (size) {
    case 1: PICK_ROW(uint8_t); break;
    case 2: PICK_ROW(uint16_t); break;
    case 4: PICK_ROW(uint32_t); break;
    default: PICK_ROW(uint64_t); break;
    }
}

/* Rounds a row to the type of the output. */
static void put(const struct vp_op *op, const struct vp_part *out, int64_t y, int64_t z, const double *row)
{
    const struct resize *r = op->params;
    void *const to = vp_part_at(out, vp_type_size(op->out), out->box.lo[0], y, z);
    if (op->out == VP_F32)
        r->isa->narrow(to, row, vp_box_size(&out->box, 0));
    else
        vp_convert(to, op->out, row, VP_F64, vp_box_size(&out->box, 0), 1, 0);
}

/* ---- whole bins ---- */

/* Makes a row of means. Sums of f64 are those of differences, so that a constant stays the same. */
static void mean_row(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, int64_t y, int64_t z,
                     const struct work *w)
{
    const struct resize *r = op->params;
    const int64_t bx = r->axis[0].bin, by = r->axis[1].bin, bz = r->axis[2].bin, m = vp_box_size(&out->box, 0),
                  x0 = out->box.lo[0] * bx, n = m * bx;
    const size_t size = vp_type_size(op->in);
    const double *const first = op->in == VP_F64 ? vp_part_at(in, size, x0, y * by, z * bz) : NULL;
    const double count = (double)bx * (double)by * (double)bz;

    if (first)
        memset(w->rows, 0, (size_t)n * sizeof *w->rows);
    for (int64_t k = z * bz; k < (z + 1) * bz; k++)
        for (int64_t j = y * by; j < (y + 1) * by; j++)
            if (!first && k == z * bz && j == y * by)
                r->isa->widen(w->rows, vp_part_at(in, size, x0, j, k), op->in, n);
            else
                r->isa->add(w->rows, first, vp_part_at(in, size, x0, j, k), op->in, n);
    if (first)
        for (int64_t i = 0; i < n; i++)
            w->rows[i] += (double)(by * bz) * (first[i] - first[i / bx * bx]);
    double *const made = bx > 1 ? w->made : w->rows;
    if (bx > 1)
        r->isa->bins(made, w->rows, bx, m);
    for (int64_t i = 0; i < m; i++)
        made[i] = first ? first[i * bx] + made[i] / count : made[i] / count;
    put(op, out, y, z, made);
}

/* ---- weights ---- */

/* Fills out = centre + sum of weight[k] (row k - centre), for n taps from `rows` on; row `near` is the centre. */
static void combine(const struct resize *r, double *out, const double *rows, int64_t stride, int64_t taps, int64_t near,
                    const double *weight, int64_t n)
{
    const double *const centre = rows + near * stride;
    memcpy(out, centre, (size_t)n * sizeof *out);
    for (int64_t k = 0; k < taps; k++)
        if (k != near)
            r->isa->tap(out, rows + k * stride, centre, weight[k], n);
}

/* Returns the tap of voxel i that is next to its centre. */
static int64_t nearest_tap(const struct vp_resize_axis *a, int64_t i, int64_t first, int64_t taps)
{
    const int64_t at = a->bin ? first : (int64_t)floor(vp_resize_centre(a, i) + 0.5);
    return vp_min64(vp_max64(at, first), first + taps - 1) - first;
}

/* Fills rows [y0, y1) of the input at voxel z, columns of in's box from x0 on. */
static void rows_of(const struct vp_op *op, const struct vp_part *in, int64_t z, int64_t y0, int64_t y1, int64_t x0,
                    int64_t n, const struct work *w)
{
    const struct resize *r = op->params;
    const size_t size = vp_type_size(op->in);
    int64_t first;
    const int64_t taps = vp_resize_taps(&r->axis[2], z, &first, w->wz), near = nearest_tap(&r->axis[2], z, first, taps);

    for (int64_t y = y0; y < y1; y++) {
        double *const centre = w->rows + (y - y0) * n, *const sum = w->line;
        r->isa->widen(centre, vp_part_at(in, size, x0, y, first + near), op->in, n);
        if (taps == 1)
            continue;
        memcpy(sum, centre, (size_t)n * sizeof *sum);
        for (int64_t k = 0; k < taps; k++) {
            const double *row = (const double *)vp_part_at(in, size, x0, y, first + k);
            if (k == near)
                continue;
            if (op->in != VP_F64) {
                double *const to = w->rows + (y - y0 + 1) * n; /* the next row is made later */
                r->isa->widen(to, row, op->in, n);
                row = to;
            }
            r->isa->tap(sum, row, centre, w->wz[k], n);
        }
        memcpy(centre, sum, (size_t)n * sizeof *sum);
    }
}

/* Makes rows [y0, y1) of plane z. */
static void tap_rows(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, int64_t y0,
                     int64_t y1, int64_t z, const struct work *w)
{
    const struct resize *r = op->params;
    const struct vp_box want = {{out->box.lo[0], y0, z}, {out->box.hi[0], y1, z + 1}}, need = region(op, &want);
    const int64_t x0 = need.lo[0], n = vp_box_size(&need, 0), m = vp_box_size(&want, 0), lo = want.lo[0];

    rows_of(op, in, z, need.lo[1], need.hi[1], x0, n, w);
    for (int64_t y = y0; y < y1; y++) {
        int64_t first;
        const int64_t taps = vp_resize_taps(&r->axis[1], y, &first, w->wy);
        const double *line = w->rows + (first - need.lo[1]) * n;
        if (taps > 1) {
            combine(r, w->line, line, n, taps, nearest_tap(&r->axis[1], y, first, taps), w->wy, n);
            line = w->line;
        }
        if (r->axis[0].bin != 1) {
            r->isa->across(w->made, line, r->at + lo, r->mid + lo, r->weight + lo, r->axis[0].m, r->taps,
                           (int32_t)x0, m);
            line = w->made;
        }
        put(op, out, y, z, line);
    }
}

static int run(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, void *scratch, int threads,
               struct vp_err *err)
{
    const struct resize *r = op->params;
    const struct vp_box *b = &out->box;
    const int64_t group = r->work == TAPS ? rows_at_once(op, vp_op_extent(op, 0, vp_box_size(b, 0))) : 1;
    const int64_t groups = vp_div_up(vp_box_size(b, 1), group);
    struct work all;
    const size_t bytes = r->work == PICK ? 0 : lay_out(op, b, NULL, &all);
    (void)err;

    #pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < groups * vp_box_size(b, 2); i++) {
        const int64_t z = b->lo[2] + i / groups, y0 = b->lo[1] + i % groups * group;
        struct work w;
        if (r->work == PICK) {
            pick_row(op, in, out, y0, z);
            continue;
        }
        lay_out(op, b, (char *)scratch + (size_t)omp_get_thread_num() * bytes, &w);
        if (r->work == MEAN)
            mean_row(op, in, out, y0, z, &w);
        else
            tap_rows(op, in, out, y0, vp_min64(y0 + group, b->hi[1]), z, &w);
    }
    return 0;
}

/* ---- construction ---- */

/* Fills the tables along x. */
static int make_tables(struct resize *r, uint64_t *bytes, struct vp_err *err)
{
    const struct vp_resize_axis *a = &r->axis[0];
    const size_t m = (size_t)a->m;
    size_t n;

    r->taps = vp_resize_most(a);
    if (!vp_mul_size(&n, m, (size_t)r->taps))
        return vp_fail(err, VP_ERESOURCE, "out of memory: the weights");
    double *const one = vp_alloc_raw((size_t)r->taps, sizeof *one, "the weights", err);
    r->at = one ? vp_alloc_raw(n, sizeof *r->at, "the weights", err) : NULL;
    r->mid = r->at ? vp_alloc_raw(m, sizeof *r->mid, "the weights", err) : NULL;
    r->weight = r->mid ? vp_alloc_raw(n, sizeof *r->weight, "the weights", err) : NULL;
    *bytes = n * (sizeof *r->at + sizeof *r->weight) + m * sizeof *r->mid;
    for (size_t i = 0; r->weight && i < m; i++) {
        int64_t first;
        const int64_t taps = vp_resize_taps(a, (int64_t)i, &first, one);
        r->mid[i] = (int32_t)(first + nearest_tap(a, (int64_t)i, first, taps));
        for (int64_t k = 0; k < r->taps; k++) {
            r->at[(size_t)k * m + i] = (int32_t)(first + vp_min64(k, taps - 1));
            r->weight[(size_t)k * m + i] = k < taps ? one[k] : 0;
        }
    }
    free(one);
    return r->weight ? 0 : -1;
}

static void describe(struct vp_op *op, const struct resize *r)
{
    static const char *const names[] = {"area", "linear", "cubic", "nearest"};
    size_t n = (size_t)snprintf(op->text, sizeof op->text, "resize");
    for (int a = 0; a < 3 && n < sizeof op->text; a++) {
        const struct vp_resize_axis *x = &r->axis[a];
        if (x->bin != 1)
            n += (size_t)snprintf(op->text + n, sizeof op->text - n, "%s %c by 1/%.6g %s", n > 6 ? "," : "", 'x' + a,
                                  x->ratio, x->bin ? "bins" : names[x->method]);
    }
}

int vp_resize_chain(struct vp_chain *c, const struct vp_resize_params *p, enum vp_type in, enum vp_type out,
                    struct vp_err *err)
{
    struct vp_op op = {.kernel = "resize", .inputs = 1, .from = {~0}, .in = in, .out = out, .free = free_resize,
                       .run = run, .scratch = scratch_bytes, .mapping = &mapping};
    bool bins = true, nearest = true;
    double taps = 1;

    for (int a = 0; a < 3; a++) {
        const struct vp_resize_axis *x = &p->axis[a];
        op.input[a] = x->n;
        op.image[a] = x->m;
        bins = bins && x->bin;
        nearest = nearest && (x->bin == 1 || x->method == VP_RESIZE_NEAREST);
        taps += x->bin == 1 ? 0 : (double)vp_resize_most(x) * fmin(1, x->ratio);
        if (x->m < 1)
            return vp_fail(err, VP_ERUN, "expected at least %lld voxels along %c, got %lld", (long long)x->bin, 'x' + a,
                           (long long)x->n);
        if (a < 2 && (x->n > INT32_MAX || x->m > INT32_MAX))
            return vp_fail(err, VP_ERESOURCE, "expected at most %d voxels along %c", INT32_MAX, 'x' + a);
    }
    if (!nearest && (in == VP_U64 || in == VP_I64))
        return vp_fail_hint(err, VP_EUSAGE, "--method nearest does, or convert first: img-convert --type f64",
                            "means of %s samples: expected at most 32 bits, or f64", vp_type_name(in));
    struct resize *r = vp_alloc(1, sizeof *r, "an operation", err);
    if (!r)
        return -1;
    memcpy(r->axis, p->axis, sizeof r->axis);
    r->work = nearest && in == out ? PICK : bins ? MEAN : TAPS;
    r->isa = VP_ISA_FIND(vp_resize, NULL);
    if (r->work != MEAN && make_tables(r, &op.holds, err)) {
        free_resize(r);
        return -1;
    }
    op.params = r;
    op.cost = r->work == PICK ? 0.5 : 1 + taps * (r->work == MEAN ? p->axis[0].ratio : 0.7);
    describe(&op, r);
    return vp_chain_add(c, &op, err);
}
