/* SPDX-License-Identifier: BSD-3-Clause */
#include "local/rotate.h"

#include "base/err.h"
#include "base/isa.h"
#include "base/size.h"
#include "local/resize_isa.h"
#include "local/rotate_isa.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Tiles of voxels whose samples are gathered from one copy, in the first or second level of the caches. */
enum { TILE_ROWS = 32, TILE_SAMPLES = 12288, MARGIN = 6, LINE = 512 };

/* The turn is in the plane of two axes: the inner one is x, or y if the turn is about x; the other one is the outer. */
enum { INNER, OUTER, THIRD };

struct rotate {
    struct vp_rotate_params p;
    int axis[3];
    /* Position k (INNER, OUTER) of voxel (i, o): m[k][INNER] (i - to[INNER]) + m[k][OUTER] (o - to[OUTER]) + from[k]. */
    double m[2][2], from[2], to[2];
    int64_t size[2];          /* samples of the input along the two axes */
    bool pick;                /* samples are copied */
    double *step[2];          /* first product, for every column of the output */
    int64_t tile[2];          /* voxels of a tile */
    size_t tile_bytes;
    const struct vp_rotate_isa *isa;
    const struct vp_resize_isa *lines;
};

static void free_rotate(void *params)
{
    struct rotate *r = params;
    free(r->step[0]);
    free(r->step[1]);
    free(r);
}

/* ---- positions ---- */

/* Sets the cosine and sine of an angle, exact for quarter turns. */
static void turn_of(double degrees, double *c, double *s)
{
    int quarter;
    const double rest = remquo(degrees, 90, &quarter) * (M_PI / 180), x = cos(rest), y = sin(rest);
    switch (quarter & 3) {
    case 0: *c = x; *s = y; break;
    case 1: *c = -y; *s = x; break;
    case 2: *c = -x; *s = -y; break;
    default: *c = y; *s = -x; break;
    }
}

void vp_rotate_same(struct vp_rotate_params *p)
{
    memcpy(p->out, p->in, sizeof p->out);
}

void vp_rotate_whole(struct vp_rotate_params *p)
{
    double c, s;
    turn_of(p->degrees, &c, &s);
    vp_rotate_same(p);
    for (int k = 1; k <= 2; k++) {
        const int a = (p->about + k) % 3, b = (p->about + 3 - k) % 3;
        const double size = fabs(c) * (double)p->in[a] + fabs(s) * (double)p->in[b] * p->voxel[b] / p->voxel[a];
        /* roundings must not add a voxel */
        p->out[a] = vp_max64(1, (int64_t)fmin(1e15, ceil(size * (1 - 1e-12) - 1e-9)));
    }
}

/* Fills the matrix. */
static void make_turn(struct rotate *r, const struct vp_rotate_params *p)
{
    const int b = (p->about + 1) % 3; /* the turn is from b to the axis after it */
    double x, y;

    turn_of(p->degrees, &x, &y);
    r->p = *p;
    r->axis[INNER] = p->about == 0 ? 1 : 0;
    r->axis[OUTER] = p->about == 2 ? 1 : 2;
    r->axis[THIRD] = p->about;
    const double sign = r->axis[INNER] == b ? 1 : -1; /* about y, z is first */
    const int in = r->axis[INNER], out = r->axis[OUTER];
    r->m[INNER][INNER] = r->m[OUTER][OUTER] = x;
    r->m[INNER][OUTER] = sign * y * (p->voxel[out] / p->voxel[in]);
    r->m[OUTER][INNER] = -sign * y * (p->voxel[in] / p->voxel[out]);
    for (int k = 0; k < 2; k++) {
        r->size[k] = p->in[r->axis[k]];
        r->from[k] = (double)(p->in[r->axis[k]] - 1) / 2;
        r->to[k] = (double)(p->out[r->axis[k]] - 1) / 2;
    }
}

static double step_of(const struct rotate *r, int k, int64_t i)
{
    return r->m[k][INNER] * ((double)i - r->to[INNER]);
}

static double start_of(const struct rotate *r, int k, int64_t o)
{
    return r->m[k][OUTER] * ((double)o - r->to[OUTER]) + r->from[k];
}

static double clamped(const struct rotate *r, int k, double at)
{
    return fmin(fmax(at, -0.5), (double)r->size[k] - 0.5);
}

static bool within(const struct rotate *r, int k, double at)
{
    return at >= -0.5 && at <= (double)r->size[k] - 0.5;
}

/* True if all positions are whole numbers. */
static bool exact(const struct rotate *r)
{
    for (int k = 0; k < 2; k++) {
        const double at = step_of(r, k, 0) + start_of(r, k, 0);
        for (int j = 0; j < 2; j++)
            if (r->m[k][j] != 0 && fabs(r->m[k][j]) != 1)
                return false;
        if (at != floor(at))
            return false;
    }
    return true;
}

bool vp_rotate_exact(const struct vp_rotate_params *p)
{
    struct rotate r;
    make_turn(&r, p);
    return exact(&r);
}

/* Sets the samples that voxels [i0, i1) x [o0, o1) need along axis k, which may lie outside the image. */
static void reach(const struct rotate *r, int k, int64_t i0, int64_t i1, int64_t o0, int64_t o1, int64_t *lo,
                  int64_t *hi)
{
    const double i = step_of(r, k, i0), j = step_of(r, k, i1 - 1), o = start_of(r, k, o0), p = start_of(r, k, o1 - 1);
    const double first = clamped(r, k, fmin(i, j) + fmin(o, p)), last = clamped(r, k, fmax(i, j) + fmax(o, p));
    const int more = r->p.method == VP_ROTATE_CUBIC && !r->pick;
    *lo = (int64_t)floor(first) - more;
    *hi = (int64_t)floor(last) + 2 + more;
}

static int64_t length(const struct vp_op *op, int axis, int64_t n)
{
    const struct rotate *r = op->params;
    return axis == r->axis[THIRD] ? n : r->p.out[axis];
}

/* Planes that come in the reverse order need all of the input, since regions must grow with the output. */
static bool backwards(const struct rotate *r, int axis)
{
    return axis == 2 && r->axis[OUTER] == 2 && r->m[OUTER][OUTER] < 0;
}

static struct vp_box region(const struct vp_op *op, const struct vp_box *out)
{
    const struct rotate *r = op->params;
    const int i = r->axis[INNER], o = r->axis[OUTER];
    struct vp_box in = *out;

    for (int k = 0; k < 2; k++) {
        const int a = r->axis[k];
        int64_t lo = 0, hi = r->size[k];
        if (!backwards(r, a))
            reach(r, k, out->lo[i], out->hi[i], out->lo[o], out->hi[o], &lo, &hi);
        in.lo[a] = vp_max64(0, vp_min64(lo, r->size[k] - 1));
        in.hi[a] = vp_min64(r->size[k], vp_max64(hi, in.lo[a] + 1));
    }
    return in;
}

static int64_t extent(const struct vp_op *op, int axis, int64_t n)
{
    const struct rotate *r = op->params;
    const int k = axis == r->axis[INNER] ? INNER : OUTER;

    if (axis == r->axis[THIRD])
        return vp_min64(op->input[axis], n);
    if (backwards(r, axis))
        return op->input[axis];
    const int64_t own = vp_min64(n, r->p.out[axis]), other = r->p.out[r->axis[!k]];
    const double most = fabs(r->m[k][k]) * (double)(own - 1) + fabs(r->m[k][!k]) * (double)(other - 1) + MARGIN;
    return most < (double)op->input[axis] ? vp_max64(1, (int64_t)ceil(most)) : op->input[axis];
}

static const struct vp_mapping in_order = {length, region, extent, false}, any_order = {length, region, extent, true};

/* ---- samples ---- */

static void *sample_at(const struct rotate *r, const struct vp_part *p, size_t size, int64_t i, int64_t o, int64_t t)
{
    int64_t at[3];
    at[r->axis[INNER]] = i;
    at[r->axis[OUTER]] = o;
    at[r->axis[THIRD]] = t;
    return vp_part_at(p, size, at[0], at[1], at[2]);
}

/* Fills the samples of an axis of n that make the voxel at a clamped position, those with a weight; returns their
 * number. `near` is the one next to the position. */
static int taps_of(enum vp_rotate_method method, double at, int64_t n, int64_t *first, double weight[4], int *near)
{
    const double whole = floor(at), t = at - whole;
    int64_t lo = (int64_t)whole, hi = lo + 2;
    double w[4] = {1 - t, t}, sum = 0;

    if (method == VP_ROTATE_NEAREST) {
        lo = vp_min64((int64_t)floor(at + 0.5), n - 1);
        hi = lo + 1;
        w[0] = 1;
    } else if (method == VP_ROTATE_CUBIC) {
        lo--;
        hi++;
        w[0] = ((-0.5 * t + 1) * t - 0.5) * t;
        w[1] = (1.5 * t - 2.5) * t * t + 1;
        w[2] = ((-1.5 * t + 2) * t + 0.5) * t;
        w[3] = (0.5 * t - 0.5) * t * t;
    }
    *first = lo;
    while (*first < 0 || w[*first - lo] == 0) /* samples without a weight must not spoil the voxel if they are NaN */
        ++*first;
    while (hi > n || w[hi - 1 - lo] == 0)
        hi--;
    for (int64_t i = *first; i < hi; i++)
        sum += weight[i - *first] = w[i - lo];
    for (int64_t i = 0; i < hi - *first; i++)
        weight[i] /= sum;
    *near = (int)(vp_max64(*first, vp_min64((int64_t)floor(at + 0.5), hi - 1)) - *first);
    return (int)(hi - *first);
}

/* Returns a voxel, sample by sample. */
static double value_of(const struct vp_op *op, const struct vp_part *in, int64_t third, const double at[2])
{
    const struct rotate *r = op->params;
    const size_t size = vp_type_size(op->in);
    int64_t first[2];
    double w[2][4], centre, sum = 0, value;
    int n[2], near[2];

    for (int k = 0; k < 2; k++)
        n[k] = taps_of(r->p.method, at[k], r->size[k], &first[k], w[k], &near[k]);
    vp_convert(&centre, VP_F64, sample_at(r, in, size, first[0] + near[0], first[1] + near[1], third), op->in, 1, 1, 0);
    for (int j = 0; j < n[1]; j++)
        for (int i = 0; i < n[0]; i++)
            if (i != near[0] || j != near[1]) {
                vp_convert(&value, VP_F64, sample_at(r, in, size, first[0] + i, first[1] + j, third), op->in, 1, 1, 0);
                sum += w[0][i] * w[1][j] * (value - centre);
            }
    return centre + sum;
}

/* Rounds n voxels to the type of the output. */
static void put(const struct vp_op *op, void *to, const double *from, int64_t n)
{
    const struct rotate *r = op->params;
    if (op->out == VP_F32)
        r->lines->narrow(to, from, n);
    else
        vp_convert(to, op->out, from, VP_F64, n, 1, 0);
}

/* Fills n voxels with the value outside. */
static void put_outside(const struct vp_op *op, void *to, int64_t n)
{
    const size_t size = vp_type_size(op->out);
    vp_convert(to, op->out, &((const struct rotate *)op->params)->p.outside, VP_F64, 1, 1, 0);
    for (int64_t i = 1; i < n; i *= 2)
        memcpy((char *)to + (size_t)i * size, to, (size_t)vp_min64(i, n - i) * size);
}

/* ---- turns about x: whole rows have the same weights ---- */

static void turn_line(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, int64_t y, int64_t z)
{
    const struct rotate *r = op->params;
    const size_t size = vp_type_size(op->in);
    double at[2], w[2][4], centre[LINE], row[LINE], sum[LINE];
    int64_t first[2];
    int n[2], near[2];
    bool inside = true;

    for (int k = 0; k < 2; k++) {
        at[k] = step_of(r, k, y) + start_of(r, k, z);
        inside = inside && within(r, k, at[k]);
        n[k] = taps_of(r->pick ? VP_ROTATE_NEAREST : r->p.method, clamped(r, k, at[k]), r->size[k], &first[k], w[k],
                       &near[k]);
    }
    for (int64_t x = out->box.lo[0]; x < out->box.hi[0]; x += LINE) {
        const int64_t m = vp_min64(LINE, out->box.hi[0] - x);
        void *const to = vp_part_at(out, size, x, y, z);
        if (!inside && !r->p.edge) {
            put_outside(op, to, m);
            continue;
        }
        const void *const nearest = vp_part_at(in, size, x, first[0] + near[0], first[1] + near[1]);
        if (n[0] * n[1] == 1) {
            memcpy(to, nearest, (size_t)m * size);
            continue;
        }
        r->lines->widen(centre, nearest, op->in, m);
        memcpy(sum, centre, (size_t)m * sizeof *sum);
        for (int j = 0; j < n[1]; j++)
            for (int i = 0; i < n[0]; i++)
                if (i != near[0] || j != near[1]) {
                    r->lines->widen(row, vp_part_at(in, size, x, first[0] + i, first[1] + j), op->in, m);
                    r->lines->tap(sum, row, centre, w[0][i] * w[1][j], m);
                }
        put(op, to, sum, m);
    }
}

/* ---- turns about z and y: tiles of voxels ---- */

/* Voxels of a row: those inside the image, and those of them whose samples all exist. */
struct span { int64_t lo, hi, full_lo, full_hi; };

/* Returns the first i of [lo, hi) with sign * (step[i] + at) >= limit (beyond: > limit); the left side rises. */
static int64_t first_at(const double *step, double at, double sign, double limit, bool beyond, int64_t lo, int64_t hi)
{
    while (lo < hi) {
        const int64_t i = lo + (hi - lo) / 2;
        const double p = sign * (step[i] + at);
        if (beyond ? p > limit : p >= limit)
            hi = i;
        else
            lo = i + 1;
    }
    return lo;
}

/* Shrinks [lo, hi) to the voxels whose position along axis k lies in [least, most]. */
static void shrink(const struct rotate *r, int k, int64_t o, double least, double most, int64_t *lo, int64_t *hi)
{
    const double at = start_of(r, k, o), sign = r->m[k][INNER] < 0 ? -1 : 1;
    const int64_t first = first_at(r->step[k], at, sign, sign > 0 ? least : -most, false, *lo, *hi);
    *hi = first_at(r->step[k], at, sign, sign > 0 ? most : -least, true, first, *hi);
    *lo = first;
}

static struct span span_of(const struct rotate *r, int64_t o, int64_t lo, int64_t hi)
{
    struct span s = {lo, hi, 0, 0};
    for (int k = 0; k < 2 && !r->p.edge; k++)
        shrink(r, k, o, -0.5, (double)r->size[k] - 0.5, &s.lo, &s.hi);
    s.full_lo = s.lo;
    s.full_hi = s.hi;
    for (int k = 0; k < 2 && r->p.method == VP_ROTATE_CUBIC; k++)
        shrink(r, k, o, 1, nextafter((double)r->size[k] - 2, 0), &s.full_lo, &s.full_hi);
    return s;
}

/* Fills pieces of rows by copies. */
#define PICK(T)                                                                                                        \
    for (int64_t i = 0; i < n; i++)                                                                                    \
        ((T *)to)[i] = *(const T *)sample_at(r, in, sizeof(T), u[i], v[i], third)

static void pick(const struct vp_op *op, const struct vp_part *in, int64_t third, const struct vp_rotate_axis axis[2],
                 void *to, int64_t n)
{
    const struct rotate *r = op->params;
    struct vp_rotate_taps k;
    int64_t u[VP_ROTATE_PIECE], v[VP_ROTATE_PIECE];

    r->isa->place(&k, axis, 0, n);
    for (int64_t i = 0; i < n; i++) {
        u[i] = vp_min64((int64_t)k.f[0][i] + (k.t[0][i] >= 0.5), r->size[0] - 1);
        v[i] = vp_min64((int64_t)k.f[1][i] + (k.t[1][i] >= 0.5), r->size[1] - 1);
    }
    switch (vp_type_size(op->in)) {
    case 1: PICK(uint8_t); break;
    case 2: PICK(uint16_t); break;
    case 4: PICK(uint32_t); break;
    default: PICK(uint64_t); break;
    }
}

/* Copies samples [lo, hi) into a tile of f32 or f64; beyond the image are those of its edge. */
static void copy_tile(const struct vp_op *op, const struct vp_part *in, int64_t third, const int64_t lo[2],
                      const int64_t hi[2], bool wide, void *tile)
{
    const struct rotate *r = op->params;
    const size_t size = vp_type_size(op->in), unit = wide ? sizeof(double) : sizeof(float);
    const int64_t n = hi[0] - lo[0], a = vp_max64(lo[0], 0) - lo[0], b = vp_min64(hi[0], r->size[0]) - lo[0];

    for (int64_t o = lo[1]; o < hi[1]; o++) {
        char *const to = (char *)tile + (size_t)((o - lo[1]) * n) * unit;
        const int64_t row = vp_max64(0, vp_min64(o, r->size[1] - 1));
        const void *const from = sample_at(r, in, size, lo[0] + a, row, third);
        if (wide)
            r->lines->widen((double *)to + a, from, op->in, b - a);
        else
            r->isa->widen((float *)to + a, from, op->in, b - a);
        for (int64_t i = 0; i < a; i++)
            memcpy(to + (size_t)i * unit, to + (size_t)a * unit, unit);
        for (int64_t i = b; i < n; i++)
            memcpy(to + (size_t)i * unit, to + (size_t)(b - 1) * unit, unit);
    }
}

/* Fills n voxels from a tile; full: all their samples exist. */
static void interpolate(const struct rotate *r, const struct vp_rotate_axis axis[2], const void *tile, int64_t stride,
                        bool wide, bool full, double *to, int64_t n)
{
    struct vp_rotate_taps k;
    if (n <= 0)
        return;
    r->isa->place(&k, axis, stride, n);
    if (r->p.method == VP_ROTATE_LINEAR)
        r->isa->linear[wide](to, tile, stride, &k, n);
    else
        r->isa->cubic[wide](to, tile, stride, &k, full ? NULL : r->size, n);
}

/* Makes voxels [a, b) of row o anew whose NaN may be that of a sample without a weight. */
static void mend(const struct vp_op *op, const struct vp_part *in, int64_t third, int64_t o, int64_t a, int64_t b,
                 double *row)
{
    const struct rotate *r = op->params;
    for (int64_t i = a; i < b; i++) {
        const double at[2] = {clamped(r, 0, r->step[0][i] + start_of(r, 0, o)),
                              clamped(r, 1, r->step[1][i] + start_of(r, 1, o))};
        if (isnan(row[i - a]) && (at[0] == floor(at[0]) || at[1] == floor(at[1])))
            row[i - a] = value_of(op, in, third, at);
    }
}

/* Makes voxels [i0, i0 + n) of row o, of which [s->lo, s->hi) are inside. */
static void turn_piece(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, int64_t third,
                       int64_t o, int64_t i0, int64_t n, const struct span *s, const void *tile, const int64_t lo[2],
                       int64_t stride, bool wide)
{
    const struct rotate *r = op->params;
    const size_t size = vp_type_size(op->out);
    char *const to = sample_at(r, out, size, i0, o, third);
    const int64_t a = vp_max64(s->lo, i0), b = vp_min64(s->hi, i0 + n);
    struct vp_rotate_axis axis[2];
    double row[VP_ROTATE_PIECE + 4];

    if (a >= b) {
        put_outside(op, to, n);
        return;
    }
    const int64_t ends[4] = {a, vp_max64(a, vp_min64(b, s->full_lo)), vp_max64(a, vp_min64(b, s->full_hi)), b};
    for (int j = 0; j < 3; j++) {
        if (ends[j] >= ends[j + 1])
            continue;
        for (int k = 0; k < 2; k++)
            axis[k] = (struct vp_rotate_axis){r->step[k] + ends[j], start_of(r, k, o), r->size[k], lo[k]};
        if (r->pick)
            pick(op, in, third, axis, to + (size_t)(ends[j] - i0) * size, ends[j + 1] - ends[j]);
        else
            interpolate(r, axis, tile, stride, wide, j == 1, row + (ends[j] - a), ends[j + 1] - ends[j]);
    }
    if (!r->pick) {
        if (vp_type_is_float(op->in) && r->isa->has_nan(row, b - a))
            mend(op, in, third, o, a, b, row);
        put(op, to + (size_t)(a - i0) * size, row, b - a);
    }
    if (a > i0)
        put_outside(op, to, a - i0);
    if (b < i0 + n)
        put_outside(op, to + (size_t)(b - i0) * size, i0 + n - b);
}

/* Makes rows [o0, o1) of the plane of the turn. */
static void turn_rows(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, int64_t third,
                      int64_t o0, int64_t o1, void *tile)
{
    const struct rotate *r = op->params;
    const bool wide = op->in == VP_F64 || op->in == VP_U32 || op->in == VP_I32;
    const int64_t x0 = out->box.lo[0], x1 = out->box.hi[0];
    struct span span[TILE_ROWS];

    for (int64_t o = o0; o < o1; o++)
        span[o - o0] = span_of(r, o, x0, x1);
    for (int64_t x = x0; x < x1; x += r->tile[0]) {
        const int64_t n = vp_min64(r->tile[0], x1 - x);
        int64_t lo[2] = {0}, hi[2] = {0};
        bool some = false;
        for (int64_t o = o0; o < o1; o++)
            some = some || vp_max64(x, span[o - o0].lo) < vp_min64(x + n, span[o - o0].hi);
        if (some && !r->pick) {
            for (int k = 0; k < 2; k++)
                reach(r, k, x, x + n, o0, o1, &lo[k], &hi[k]);
            copy_tile(op, in, third, lo, hi, wide, tile);
        }
        for (int64_t o = o0; o < o1; o++)
            turn_piece(op, in, out, third, o, x, n, &span[o - o0], tile, lo, hi[0] - lo[0], wide);
    }
}

static uint64_t scratch_bytes(const struct vp_op *op, const struct vp_box *in, const struct vp_box *out, int threads)
{
    (void)in;
    (void)out;
    return (uint64_t)threads * ((const struct rotate *)op->params)->tile_bytes;
}

static int run(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, void *scratch, int threads,
               struct vp_err *err)
{
    const struct rotate *r = op->params;
    const struct vp_box *b = &out->box;
    const bool lines = r->axis[THIRD] == 0;
    const int outer = lines ? 1 : r->axis[OUTER], third = lines ? 2 : r->axis[THIRD];
    const int64_t rows = lines ? 1 : r->tile[1], groups = vp_div_up(vp_box_size(b, outer), rows);
    (void)err;

    #pragma omp parallel for num_threads(threads) schedule(dynamic, 1 + groups * vp_box_size(b, third) / 1024)
    for (int64_t i = 0; i < groups * vp_box_size(b, third); i++) {
        const int64_t o = b->lo[outer] + i % groups * rows, t = b->lo[third] + i / groups;
        if (lines)
            turn_line(op, in, out, o, t);
        else
            turn_rows(op, in, out, t, o, vp_min64(o + rows, b->hi[outer]),
                      (char *)scratch + (size_t)omp_get_thread_num() * r->tile_bytes);
    }
    return 0;
}

/* ---- construction ---- */

/* Chooses tiles whose samples fit. */
static void choose_tile(struct rotate *r)
{
    r->tile[0] = VP_ROTATE_PIECE;
    r->tile[1] = TILE_ROWS;
    for (;;) {
        double samples = 1;
        for (int k = 0; k < 2; k++)
            samples *= ceil(fabs(r->m[k][INNER]) * (double)(r->tile[0] - 1)
                            + fabs(r->m[k][OUTER]) * (double)(r->tile[1] - 1)) + MARGIN;
        if (samples <= TILE_SAMPLES || r->tile[0] * r->tile[1] == 1) {
            r->tile_bytes = ((size_t)samples * sizeof(double) + 63) / 64 * 64;
            return;
        }
        r->tile[r->tile[0] < r->tile[1]] /= 2;
    }
}

static int make_steps(struct rotate *r, uint64_t *bytes, struct vp_err *err)
{
    const size_t n = (size_t)r->p.out[0];
    for (int k = 0; k < 2; k++) {
        r->step[k] = vp_alloc_raw(n, sizeof *r->step[k], "positions", err);
        if (!r->step[k])
            return -1;
        for (size_t i = 0; i < n; i++)
            r->step[k][i] = step_of(r, k, (int64_t)i);
    }
    *bytes = 2 * n * sizeof(double);
    return 0;
}

int vp_rotate_chain(struct vp_chain *c, const struct vp_rotate_params *p, enum vp_type type, struct vp_err *err)
{
    static const char *const methods[] = {"nearest", "linear", "cubic"};
    struct vp_op op = {.kernel = "rotate", .inputs = 1, .from = {~0}, .in = type, .out = type, .free = free_rotate,
                       .run = run, .scratch = scratch_bytes};

    for (int a = 0; a < 3; a++) {
        op.input[a] = p->in[a];
        op.image[a] = p->out[a];
        if (a != p->about && (p->in[a] > INT32_MAX || p->out[a] > INT32_MAX))
            return vp_fail(err, VP_ERESOURCE, "expected at most %d voxels along %c", INT32_MAX, 'x' + a);
    }
    struct rotate *r = vp_alloc(1, sizeof *r, "an operation", err);
    if (!r)
        return -1;
    make_turn(r, p);
    r->pick = p->method == VP_ROTATE_NEAREST || exact(r);
    r->isa = VP_ISA_FIND(vp_rotate, NULL);
    r->lines = VP_ISA_FIND(vp_resize, NULL);
    if (!r->pick && (type == VP_U64 || type == VP_I64)) {
        free_rotate(r);
        return vp_fail_hint(err, VP_EUSAGE, "--method nearest does, or convert first: img-convert --type f64",
                            "interpolation of %s samples: expected at most 32 bits, or f64", vp_type_name(type));
    }
    choose_tile(r);
    if (p->about && make_steps(r, &op.holds, err)) {
        free_rotate(r);
        return -1;
    }
    op.params = r;
    op.mapping = p->about != 1 && r->m[INNER][INNER] < 0 ? &any_order : &in_order;
    op.cost = r->pick ? 2 : p->method == VP_ROTATE_LINEAR ? 3 : 6;
    snprintf(op.text, sizeof op.text, "rotate by %.9g degrees about %c, %s", p->degrees, 'x' + p->about,
             r->pick && p->method != VP_ROTATE_NEAREST ? "samples are copied" : methods[p->method]);
    return vp_chain_add(c, &op, err);
}
