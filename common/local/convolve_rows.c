/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of samples for convolution, with what lies beyond the edges, and rows of results. */
#include "local/convolve_internal.h"

#include "base/err.h"
#include "base/size.h"
#include "local/gauss.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int64_t vp_convolve_place(const struct vp_convolve_job *j, int axis, int64_t q)
{
    const struct vp_convolve_params *p = j->p;
    const int64_t n = j->op->image[axis];

    if (q >= j->lo[axis] && q < j->hi[axis])
        return q;
    /* no result depends on it: a tile goes on beyond the image */
    if (q < p->centre[axis] - (p->n[axis] - 1) || q >= n + p->centre[axis])
        return -1;
    if (p->edge == VP_EDGE_ZERO || p->edge == VP_EDGE_RENORMALIZE)
        return -1;
    return j->lo[axis] + vp_edge_from(p->edge, q - j->lo[axis], j->hi[axis] - j->lo[axis]);
}

static float sample(const struct vp_convolve_job *j, const void *row, int64_t i)
{
    switch (j->p->in) {
    case VP_U8: return ((const uint8_t *)row)[i];
    case VP_U16: return ((const uint16_t *)row)[i];
    case VP_I16: return ((const int16_t *)row)[i];
    default: return ((const float *)row)[i];
    }
}

/* Samples x + from ... x + end - 1 that the edge's rule makes up. */
static bool make_up(const struct vp_convolve_job *j, float *to, const void *plane, int64_t row, int64_t x, int64_t from,
                    int64_t end)
{
    bool bad = false;

    if (j->p->edge == VP_EDGE_ZERO || j->p->edge == VP_EDGE_RENORMALIZE) {
        memset(to + from, 0, (size_t)(end - from) * sizeof *to);
        return false;
    }
    for (int64_t i = from; i < end; i++) {
        const int64_t at = vp_convolve_place(j, 0, x + i);
        const float v = at < 0 ? 0 : sample(j, plane, row + at);
        to[i] = isfinite(v) ? v : 0;
        bad = bad || !isfinite(v);
    }
    return bad;
}

bool vp_convolve_load(const struct vp_convolve_job *j, void *row_, int64_t x, int64_t n, int64_t y, int64_t z)
{
    float *const to = row_;
    const int64_t from_y = vp_convolve_place(j, 1, y), from_z = vp_convolve_place(j, 2, z);
    const int64_t a = vp_min64(vp_max64(j->lo[0] - x, 0), n), b = vp_max64(vp_min64(j->hi[0] - x, n), a);

    if (from_y < 0 || from_z < 0) {
        memset(to, 0, (size_t)n * sizeof *to);
        return false;
    }
    const struct vp_box *box = &j->in->box;
    const int64_t row = (from_y - box->lo[1]) * j->in->stride - box->lo[0];
    const char *const plane = j->in->plane[from_z - box->lo[2]];
    bool bad = false;
    if (b > a)
        bad = j->c->isa->load(to + a, plane + (row + x + a) * (int64_t)vp_type_size(j->p->in), j->p->in, b - a);
    bad |= make_up(j, to, plane, row, x, 0, a);
    bad |= make_up(j, to, plane, row, x, b, n);
    return bad;
}

/* ---- results ---- */

/* Samples of a kernel that fall on those that exist, along one axis: indices a ... b - 1. */
static void inside(const struct vp_convolve_job *j, int axis, int64_t at, int64_t *a, int64_t *b)
{
    const struct vp_convolve_params *p = j->p;

    *a = vp_min64(vp_max64(at + p->centre[axis] - j->hi[axis] + 1, 0), p->n[axis]);
    *b = vp_max64(vp_min64(at + p->centre[axis] - j->lo[axis] + 1, p->n[axis]), *a);
}

static double sum_of(const struct vp_convolve_params *p, int64_t node, const int64_t a[3], const int64_t b[3])
{
    const int64_t row = p->n[0] + 1, plane = row * (p->n[1] + 1);
    const double *s = p->sums + node * plane * (p->n[2] + 1);
#define AT(x, y, z) s[(z) * plane + (y) * row + (x)]
#define FLAT(z) (AT(b[0], b[1], z) - AT(a[0], b[1], z) - AT(b[0], a[1], z) + AT(a[0], a[1], z))
    return FLAT(b[2]) - FLAT(a[2]);
}

static double weight_of(const struct vp_convolve_params *p, int axis, int64_t node, int64_t q)
{
    return p->nodes[axis] == 1 ? 1 : p->exact ? vp_convolve_weight_f64(p, axis, node, q) : vp_convolve_weight(p, axis, node, q);
}

/* S / S_inside of a voxel: of one kernel, or with weights of the output. */
static double scale_at(const struct vp_convolve_job *j, const int64_t at[3], const int64_t a[3], const int64_t b[3])
{
    const struct vp_convolve_params *p = j->p;
    double all = 0, in = 0;

    for (int64_t v = 0; v < p->nodes[1]; v++) {
        const double wy = weight_of(p, 1, v, at[1]);
        if (wy == 0)
            continue;
        for (int64_t u = 0; u < p->nodes[0]; u++) {
            const double w = wy * weight_of(p, 0, u, at[0]);
            if (w == 0)
                continue;
            all += w * j->c->total[v * p->nodes[0] + u];
            in += w * sum_of(p, v * p->nodes[0] + u, a, b);
        }
    }
    return in != 0 ? all / in : 0;
}

double vp_convolve_scale(const struct vp_convolve_job *j, const int64_t at[3])
{
    int64_t a[3], b[3];
    bool whole = true;

    for (int axis = 0; axis < 3; axis++) {
        inside(j, axis, at[axis], &a[axis], &b[axis]);
        whole = whole && b[axis] - a[axis] == j->p->n[axis];
    }
    return whole ? 1 : scale_at(j, at, a, b);
}

static void renormalize(const struct vp_convolve_job *j, float *v, int64_t x, int64_t n, int64_t y, int64_t z)
{
    const struct vp_convolve_params *p = j->p;
    const bool one = p->nodes[0] * p->nodes[1] == 1;
    int64_t a[3], b[3], at[3] = {x, y, z};
    float last = 0;
    bool known = false;

    inside(j, 1, y, &a[1], &b[1]);
    inside(j, 2, z, &a[2], &b[2]);
    const bool whole = b[1] - a[1] == p->n[1] && b[2] - a[2] == p->n[2];
    for (at[0] = x; at[0] < x + n; at[0]++) {
        inside(j, 0, at[0], &a[0], &b[0]);
        const bool row = b[0] - a[0] == p->n[0];
        if (row && whole) { /* on to where the row ends */
            at[0] = vp_min64(x + n, vp_max64(at[0] + 1, j->hi[0] - p->centre[0])) - 1;
            continue;
        }
        if (!(row && one && known))
            last = (float)scale_at(j, at, a, b);
        known = row;
        v[at[0] - x] *= last;
    }
}

void vp_convolve_store(const struct vp_convolve_job *j, void *row, int64_t x, int64_t n, int64_t y, int64_t z)
{
    float *const v = row;
    const struct vp_box *box = &j->out->box;
    const int64_t x0 = vp_max64(x, box->lo[0]), x1 = vp_min64(x + n, box->hi[0]);

    if (x1 <= x0 || y < box->lo[1] || y >= box->hi[1] || z < box->lo[2] || z >= box->hi[2])
        return;
    if (j->p->edge == VP_EDGE_RENORMALIZE && j->p->weights == VP_WEIGHTS_OUTPUT)
        renormalize(j, v + x0 - x, x0, x1 - x0, y, z);
    const int64_t at = (y - box->lo[1]) * j->out->stride + x0 - box->lo[0];
    char *const plane = j->out->plane[z - box->lo[2]];
    j->c->isa->store(plane + at * (int64_t)vp_type_size(j->p->out), j->p->out, v + x0 - x, x1 - x0);
}

/* The weight of node c that is after x, whose number is returned (nodes: there is none). */
static int64_t cell_at(const struct vp_convolve_params *p, int axis, double x, double *after)
{
    const double *at = p->node[axis];
    const int64_t n = p->nodes[axis];
    int64_t c = 0; /* nodes up to here */

    for (int64_t half = n; half > 0;) { /* the first node beyond q */
        const int64_t step = half / 2;
        if (at[c + step] <= x) {
            c += step + 1;
            half -= step + 1;
        } else {
            half = step;
        }
    }
    *after = c == 0 ? 1 : c == n ? 0 : (x - at[c - 1]) / (at[c] - at[c - 1]);
    return c;
}

float vp_convolve_weight(const struct vp_convolve_params *p, int axis, int64_t node, int64_t q)
{
    double exact;
    const int64_t c = cell_at(p, axis, (double)q, &exact);
    const float after = (float)exact;

    return node == c ? after : node == c - 1 ? 1 - after : 0;
}

double vp_convolve_weight_f64(const struct vp_convolve_params *p, int axis, int64_t node, int64_t q)
{
    double after;
    const int64_t c = cell_at(p, axis, (double)q, &after);

    return node == c ? after : node == c - 1 ? 1 - after : 0;
}

void vp_convolve_nodes_near(const struct vp_convolve_params *p, int axis, int64_t lo, int64_t hi, int64_t *a, int64_t *b)
{
    const int64_t n = p->nodes[axis];

    *a = 0;
    while (*a < n - 1 && p->node[axis][*a + 1] <= (double)lo)
        ++*a;
    *b = n - 1;
    while (*b > *a && p->node[axis][*b - 1] >= (double)(hi - 1))
        --*b;
}

/* ---- samples that are not finite ---- */

/* In place: whether one of n marks from here on is set; of `count` marks `step` apart. */
static void spread(unsigned char *mark, int64_t step, int64_t count, int64_t n)
{
    int64_t next = -1; /* the last one set so far, from the end */

    for (int64_t i = count - 1; i >= 0; i--) {
        if (mark[i * step])
            next = i;
        mark[i * step] = next >= 0 && next - i < n;
    }
}

static void mark_row(const struct vp_convolve_job *j, unsigned char *mark, int64_t x, int64_t n, int64_t y, int64_t z)
{
    const int64_t from_y = vp_convolve_place(j, 1, y), from_z = vp_convolve_place(j, 2, z);

    memset(mark, 0, (size_t)n);
    if (from_y < 0 || from_z < 0)
        return;
    const struct vp_box *box = &j->in->box;
    const void *const plane = j->in->plane[from_z - box->lo[2]];
    const int64_t row = (from_y - box->lo[1]) * j->in->stride - box->lo[0];
    for (int64_t i = 0; i < n; i++) {
        const int64_t from = vp_convolve_place(j, 0, x + i);
        mark[i] = from >= 0 && !(j->p->in == VP_F64 ? isfinite(((const double *)plane)[row + from])
                                                    : isfinite(((const float *)plane)[row + from]));
    }
}

int vp_convolve_spoil(const struct vp_convolve_job *j, const struct vp_box *box, struct vp_err *err)
{
    const struct vp_convolve_params *p = j->p;
    struct vp_box b;
    int64_t n[3];

    for (int a = 0; a < 3; a++) {
        b.lo[a] = vp_max64(box->lo[a], j->out->box.lo[a]);
        b.hi[a] = vp_min64(box->hi[a], j->out->box.hi[a]);
        if (b.hi[a] <= b.lo[a])
            return 0;
        n[a] = vp_box_size(&b, a) + p->n[a] - 1;
    }
    unsigned char *mark = vp_alloc_raw((size_t)(n[0] * n[1] * n[2]), 1, "marks of samples that are not finite", err);
    if (!mark)
        return -1;
    for (int64_t z = 0; z < n[2]; z++)
        for (int64_t y = 0; y < n[1]; y++) {
            unsigned char *const row = mark + (z * n[1] + y) * n[0];
            mark_row(j, row, b.lo[0] - (p->n[0] - 1 - p->centre[0]), n[0], b.lo[1] - (p->n[1] - 1 - p->centre[1]) + y,
                     b.lo[2] - (p->n[2] - 1 - p->centre[2]) + z);
            spread(row, 1, n[0], p->n[0]);
        }
    for (int64_t z = 0; z < n[2]; z++)
        for (int64_t x = 0; x < n[0]; x++)
            spread(mark + z * n[1] * n[0] + x, n[0], n[1], p->n[1]);
    for (int64_t i = 0; p->n[2] > 1 && i < n[1] * n[0]; i++)
        spread(mark + i, n[1] * n[0], n[2], p->n[2]);
    for (int64_t z = b.lo[2]; z < b.hi[2]; z++)
        for (int64_t y = b.lo[1]; y < b.hi[1]; y++) {
            const unsigned char *const row = mark + ((z - b.lo[2]) * n[1] + y - b.lo[1]) * n[0];
            void *const to = j->out->plane[z - j->out->box.lo[2]];
            const int64_t at = (y - j->out->box.lo[1]) * j->out->stride - j->out->box.lo[0];
            for (int64_t x = b.lo[0]; x < b.hi[0]; x++)
                if (row[x - b.lo[0]] && j->p->out == VP_F64)
                    ((double *)to)[at + x] = NAN;
                else if (row[x - b.lo[0]])
                    ((float *)to)[at + x] = NAN;
        }
    free(mark);
    return 0;
}
