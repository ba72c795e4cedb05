/* SPDX-License-Identifier: BSD-3-Clause */
/* Boxes and balls swept over an image: see window.h. */
#include "local/window.h"

#include "engine/chain.h"

#include <omp.h>
#include <stdbool.h>
#include <string.h>

/* Target size of a tile's state between planes, bytes. */
enum { NEAR = 3 << 19 };
/* Memory of a thread above which twice the work is preferred, bytes. */
enum { MUCH = 1 << 28 };
/* Minimum voxels of a tile. */
enum { SMALL = 1 << 12 };

static bool is_ball(const struct vp_sweep *w)
{
    return w->f->shape == VP_BALL;
}

/* ---- memory ---- */

/* Layout of a tile: addresses, and sizes in bytes. */
struct window_layout {
    size_t lane, row, kept, total;       /* kept: from plane to plane */
    int64_t yslots, zslots, widths;
    void *rows;
    char *room, *line;                   /* row of states; row of samples made by the edge rule */
    int32_t *count;
    char *yring, *yprefix, *zring, *zprefix; /* box */
    char *wide, *acc, *seen;                 /* ball */
    const void **list;
    int64_t *level;
};

/* Fills the layout of a tile in mem (NULL: sizes only). */
static struct window_layout layout_of(const struct vp_sweep *w, const int64_t n[3], void *mem)
{
    const int64_t *r = w->op->halo;
    struct window_layout l = {.lane = vp_round64((size_t)n[0] * w->lane_size)};
    /* image[2] may not be known yet, and must not change this when it is */
    const int64_t rows = vp_min64(n[1] + 2 * r[1], w->op->image[1]), planes = n[2] + 2 * r[2];

    l.row = l.lane * (size_t)w->lanes;
    l.rows = vp_place(mem, &l.total, w->row_bytes(w, n[0]));
    l.room = vp_place(mem, &l.total, l.row);
    l.line = vp_place(mem, &l.total, w->edge ? (size_t)(n[0] + 2 * r[0]) * w->size : 0);
    l.count = vp_place(mem, &l.total, w->counts ? (size_t)n[0] * sizeof *l.count : 0);
    const size_t before = l.total;
    if (is_ball(w)) {
        l.widths = r[0] + 1;
        l.zslots = vp_min64(2 * r[2] + 1, n[2]);
        l.wide = vp_place(mem, &l.total, l.row * (size_t)(l.widths * rows));
        l.acc = vp_place(mem, &l.total, l.row * (size_t)(n[1] * l.zslots));
        l.kept = l.total - before;
        l.seen = vp_place(mem, &l.total, (size_t)l.zslots);
        l.list = vp_place(mem, &l.total, (size_t)(2 * r[1] + 1) * sizeof *l.list);
        l.level = vp_place(mem, &l.total, (size_t)(r[2] + 2) * sizeof *l.level);
        return l;
    }
    if (r[1] > 0) {
        l.yslots = vp_min64(2 * r[1] + 1, rows);
        l.yring = vp_place(mem, &l.total, l.row * (size_t)l.yslots);
        l.yprefix = vp_place(mem, &l.total, l.row);
    }
    if (r[2] > 0) {
        l.zslots = vp_min64(2 * r[2] + 1, planes);
        l.zring = vp_place(mem, &l.total, l.row * (size_t)(n[1] * l.zslots));
        l.zprefix = vp_place(mem, &l.total, l.row * (size_t)n[1]);
    }
    l.kept = l.total - before;
    return l;
}

/* ---- tiles ---- */

static double work_of(const struct vp_sweep *w, const int64_t n[3], const struct window_layout *l)
{
    const int64_t *r = w->op->halo;
    const double x = (double)n[0] + 16, wide = x + 2 * (double)r[0];
    const double rows = (double)n[1] + 2 * (double)r[1], planes = (double)n[2] + 2 * (double)r[2];
    const double far = (double)l->kept > NEAR ? 2 : 1;

    if (is_ball(w))
        return planes * far * (wide * rows * 3 * (double)(r[0] + 1) + x * (double)n[1] * (double)w->f->spans * .5);
    return planes * (rows * (2 * wide + 2 * x) + (r[2] > 0 ? 2 * far * x * (double)n[1] : 0));
}

/* Divides `out` into tiles, with minimum work for the busiest thread. */
static void split(const struct vp_sweep *w, const struct vp_box *out, int threads, int64_t side[3])
{
    static const int64_t tries[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128};
    enum { N = sizeof tries / sizeof *tries };
    const int64_t full[3] = {vp_box_size(out, 0), vp_box_size(out, 1), vp_box_size(out, 2)};
    double least = -1;

    memcpy(side, full, sizeof full);
    if (full[0] * full[1] * full[2] < 2 * SMALL)
        return;
    for (int i = 0; i < 3 * N * N; i++) {
        const int64_t parts[3] = {(int64_t)1 << i % 3 * 2, tries[i / 3 % N], tries[i / 3 / N]};
        int64_t n[3];
        bool sane = true;
        for (int a = 0; a < 3; a++) {
            sane = sane && parts[a] <= full[a] && (a > 0 || parts[a] == 1 || full[a] / parts[a] >= 256);
            n[a] = vp_div_up(full[a], parts[a]);
        }
        if (!sane || (i > 0 && n[0] * n[1] * n[2] < SMALL))
            continue;
        const struct window_layout l = layout_of(w, n, NULL);
        const int64_t count = vp_box_tiles(out, n);
        const double turns = count <= threads ? 1
                           : count < 8 * threads ? (double)vp_div_up(count, threads)
                           : (double)count / threads + .5;
        const double work = turns * (work_of(w, n, &l) + 1000) * (1 + (double)l.total / MUCH);
        if (least < 0 || work < least) {
            least = work;
            memcpy(side, n, sizeof n);
        }
    }
}

/* ---- boxes ---- */

/* One axis: windows of w = 2 r + 1 positions, clipped to [0, n); blocks of w from 0. */
struct window_axis { int64_t r, w, n, first, last, slots; };

/* [first, last]: positions that enter. */
static struct window_axis axis_of(const struct vp_tile *t, int a, int64_t slots)
{
    const int64_t r = t->w->op->halo[a];

    return (struct window_axis){r, 2 * r + 1, t->w->op->image[a], t->in.lo[a], t->in.hi[a] - 1, slots};
}

static int64_t slot(const struct window_axis *a, int64_t i)
{
    return (i - a->first) % a->slots;
}

static int64_t extent(const struct window_axis *a, int64_t p)
{
    return vp_min64(p + a->r, a->n - 1) - vp_max64(p - a->r, 0) + 1;
}

/* Returns the state of the window at p: from the end of a block (in its slot), the start of one (`prefix`), or both
 * (into `room`). step: bytes between slots. */
static const void *window_at(const struct vp_tile *t, const struct window_axis *a, int64_t p, const char *ring,
                             size_t step, const void *prefix, void *room, double unit)
{
    const int64_t lo = vp_max64(p - a->r, 0), hi = vp_min64(p + a->r, a->n - 1);
    const int64_t start = hi - hi % a->w;
    const char *end_part = ring + (size_t)slot(a, lo) * step;

    if (lo == start)
        return prefix;
    if (lo > start)
        return end_part;
    t->w->rows->combine(t, room, end_part, prefix, (double)(start - lo), (double)(hi - start + 1), unit);
    return room;
}

/* Takes the state at position i, in its slot: merges it into the prefix of its block, and at the end of the block turns
 * the slots into suffixes. */
static void take_in(const struct vp_tile *t, const struct window_axis *a, int64_t i, char *ring, size_t step,
                    void *prefix, size_t row, double unit)
{
    const int64_t in = i % a->w;
    const char *const place = ring + (size_t)slot(a, i) * step;

    if (in == 0)
        memcpy(prefix, place, row);
    else if (i - in >= a->first)
        t->w->rows->combine(t, prefix, prefix, place, (double)in, 1, unit);
    if (in < a->w - 1 && i < a->n - 1)
        return;
    for (int64_t j = i - 1; j >= vp_max64(i - in, a->first); j--) {
        char *here = ring + (size_t)slot(a, j) * step;
        t->w->rows->combine(t, here, here, ring + (size_t)slot(a, j + 1) * step, 1, (double)(i - j), unit);
    }
}

struct window_march {
    struct vp_tile *t;
    const struct vp_part *in, *out;
    const int64_t *image;                    /* that there is */
    int64_t shift[3];                        /* extended coordinates minus those of the image */
    struct window_layout l;
    struct window_axis y, z;
    int64_t counted[4];                      /* row that l.count is for */
};

/* Returns the samples of row (y, z) from t->in.lo[0] on, made by the edge rule if need be. */
static const char *source(const struct window_march *m, int64_t y, int64_t z)
{
    const struct vp_sweep *w = m->t->w;
    const int64_t lo = m->t->in.lo[0] - m->shift[0], hi = m->t->in.hi[0] - m->shift[0];
    if (!w->edge)
        return vp_part_at(m->in, w->size, lo, y, z);
    y = vp_edge_from(w->edge, y - m->shift[1], m->image[1]);
    z = vp_edge_from(w->edge, z - m->shift[2], m->image[2]);
    if (y < 0 || z < 0)
        return memset(m->l.line, 0, (size_t)(hi - lo) * w->size);
    if (lo >= 0 && hi <= m->image[0])
        return vp_part_at(m->in, w->size, lo, y, z);
    const int64_t from = vp_max64(lo, 0), end = vp_min64(hi, m->image[0]);
    memcpy(m->l.line + (size_t)(from - lo) * w->size, vp_part_at(m->in, w->size, from, y, z),
           (size_t)(end - from) * w->size);
    for (int64_t x = lo; x < hi; x = x + 1 == from ? end : x + 1) {
        const int64_t other = vp_edge_from(w->edge, x, m->image[0]);
        if (other < 0)
            memset(m->l.line + (size_t)(x - lo) * w->size, 0, w->size);
        else
            memcpy(m->l.line + (size_t)(x - lo) * w->size, vp_part_at(m->in, w->size, other, y, z), w->size);
    }
    return m->l.line;
}

/* Finishes row (y, z) of the output; `times` rows have t->count samples each. */
static void finish(const struct window_march *m, const void *state, int64_t y, int64_t z, int64_t times)
{
    const struct vp_sweep *w = m->t->w;
    const int64_t x = m->t->out.lo[0] - m->shift[0], row = y - m->shift[1], plane = z - m->shift[2];

    w->rows->finish(m->t, vp_part_at(m->out, w->out_size, x, row, plane), state,
                    vp_part_at(m->in, w->size, x, row, plane), times);
}

static void finish_box(const struct window_march *m, const void *state, int64_t y, int64_t z)
{
    finish(m, state, y, z, extent(&m->y, y) * extent(&m->z, z));
}

/* Returns the bytes between planes of states complete in x and y; the address of row y of the first slot. */
static size_t plane_bytes(const struct window_march *m)
{
    return m->l.row * (size_t)vp_box_size(&m->t->out, 1);
}

static char *zring(const struct window_march *m, int64_t y)
{
    return m->l.zring + (size_t)(y - m->t->out.lo[1]) * m->l.row;
}

static char *zprefix(const struct window_march *m, int64_t y)
{
    return m->l.zprefix + (size_t)(y - m->t->out.lo[1]) * m->l.row;
}

/* Finishes row y of plane z, once its last plane has entered. */
static void finish_row(const struct window_march *m, int64_t y, int64_t z)
{
    finish_box(m, window_at(m->t, &m->z, z, zring(m, y), plane_bytes(m), zprefix(m, y), m->l.room,
                            (double)extent(&m->y, y)), y, z);
}

/* Takes row y of plane z, complete in x and y, to `place` along z. */
static void row_done(const struct window_march *m, const void *state, char *place, int64_t y, int64_t z)
{
    if (m->z.r == 0) {
        finish_box(m, state, y, z);
        return;
    }
    if (state != place)
        memcpy(place, state, m->l.row);
    take_in(m->t, &m->z, z, zring(m, y), plane_bytes(m), zprefix(m, y), m->l.row, (double)extent(&m->y, y));
    if (z - m->z.r >= m->t->out.lo[2])
        finish_row(m, y, z - m->z.r);
}

static void march_plane(const struct window_march *m, int64_t z)
{
    const struct vp_tile *t = m->t;
    const struct window_axis *a = &m->y;

    for (int64_t y = a->first; y < t->out.hi[1] + a->r; y++) { /* no row enters after the image's last */
        const int64_t p = y - a->r;
        char *const ring = m->l.yring, *place = m->l.room;
        if (m->z.r && p >= t->out.lo[1])
            place = zring(m, p) + (size_t)slot(&m->z, z) * plane_bytes(m);
        if (y <= a->last)
            t->w->rows->across(t, source(m, y, z), a->r ? ring + (size_t)slot(a, y) * m->l.row : place);
        if (y <= a->last && a->r)
            take_in(t, a, y, ring, m->l.row, m->l.yprefix, m->l.row, 1);
        if (p >= t->out.lo[1])
            row_done(m, a->r ? window_at(t, a, p, ring, m->l.row, m->l.yprefix, place, 1) : place, place, p, z);
    }
}

static void march_box(const struct window_march *m)
{
    const struct vp_box *out = &m->t->out;

    for (int64_t z = m->z.first; z < out->hi[2] + m->z.r; z++)
        if (z <= m->z.last)
            march_plane(m, z);
        else
            for (int64_t y = out->lo[1]; z - m->z.r >= out->lo[2] && y < out->hi[1]; y++)
                finish_row(m, y, z - m->z.r);
}

/* ---- balls ---- */

void vp_sweep_count(const struct vp_tile *t, int64_t counted[4], int32_t *count, int64_t y, int64_t z)
{
    const struct vp_footprint *f = t->w->f;
    const int64_t *image = t->w->op->image;
    const int64_t cut[4] = {vp_max64(f->lo[1], -y), vp_min64(f->hi[1], image[1] - 1 - y),
                            vp_max64(f->lo[2], -z), vp_min64(f->hi[2], image[2] - 1 - z)};
    const int32_t end = (int32_t)(image[0] - 1);

    if (!memcmp(cut, counted, sizeof cut))
        return;
    memcpy(counted, cut, sizeof cut);
    memset(count, 0, (size_t)t->n * sizeof *count);
    for (int64_t i = 0; i < f->spans; i++) {
        const struct vp_span *s = &f->span[i];
        if (s->dy < cut[0] || s->dy > cut[1] || s->dz < cut[2] || s->dz > cut[3])
            continue;
        const int32_t x0 = (int32_t)vp_max64(s->x0, -image[0]), x1 = (int32_t)vp_min64(s->x1, image[0]);
        for (int32_t j = 0, x = (int32_t)t->out.lo[0]; j < (int32_t)t->n; j++, x++) {
            const int32_t n = (x + x1 < end ? x + x1 : end) - (x + x0 > 0 ? x + x0 : 0) + 1;
            count[j] += n > 0 ? n : 0;
        }
    }
}

static char *wide_row(const struct window_march *m, int64_t y, int64_t h)
{
    return m->l.wide + (size_t)((y - m->t->in.lo[1]) * m->l.widths + h) * m->l.row;
}

static char *acc_row(const struct window_march *m, int64_t y, int64_t p)
{
    const struct vp_box *o = &m->t->out;

    return m->l.acc + (size_t)((p - o->lo[2]) % m->l.zslots * vp_box_size(o, 1) + y - o->lo[1]) * m->l.row;
}

static void finish_ball(struct window_march *m, int64_t p)
{
    const struct vp_tile *t = m->t;

    for (int64_t y = t->out.lo[1]; y < t->out.hi[1]; y++) {
        if (t->w->counts)
            vp_sweep_count(t, m->counted, m->l.count, y, p);
        finish(m, acc_row(m, y, p), y, p, 1);
    }
    m->l.seen[(p - t->out.lo[2]) % m->l.zslots] = 0;
}

/* Merges plane z into the states of the planes k below and above it. */
static void discs(struct window_march *m, int64_t z, int64_t k)
{
    const struct vp_tile *t = m->t;
    const struct vp_sweep *w = t->w;
    const int64_t to[2] = {z - k, z + k};

    for (int64_t y = t->out.lo[1]; y < t->out.hi[1]; y++) {
        int64_t n = 0;
        for (int64_t i = m->l.level[k]; i < m->l.level[k + 1]; i++) {
            const struct vp_span *s = &w->f->span[i];
            if (y + s->dy >= t->in.lo[1] && y + s->dy < t->in.hi[1])
                m->l.list[n++] = wide_row(m, y + s->dy, vp_min64(s->x1, w->op->halo[0]));
        }
        w->rows->gather(t, m->l.room, m->l.list, n, true);
        for (int j = 0; j < (k ? 2 : 1); j++) {
            if (to[j] < t->out.lo[2] || to[j] >= t->out.hi[2])
                continue;
            const void *one = m->l.room;
            if (m->l.seen[(to[j] - t->out.lo[2]) % m->l.zslots])
                w->rows->gather(t, acc_row(m, y, to[j]), &one, 1, false);
            else
                memcpy(acc_row(m, y, to[j]), one, m->l.row);
        }
    }
    for (int j = 0; j < 2; j++)
        if (to[j] >= t->out.lo[2] && to[j] < t->out.hi[2])
            m->l.seen[(to[j] - t->out.lo[2]) % m->l.zslots] = 1;
}

/* level[k]: first span with dz = k */
static void find_levels(const struct window_march *m)
{
    const struct vp_footprint *f = m->t->w->f;
    int64_t i = 0;

    for (int64_t k = 0; k <= m->t->w->op->halo[2] + 1; k++) {
        while (i < f->spans && f->span[i].dz < k)
            i++;
        m->l.level[k] = i;
    }
}

static void march_ball(struct window_march *m)
{
    const struct vp_tile *t = m->t;
    const struct vp_sweep *w = t->w;
    const int64_t r = w->op->halo[2];

    memset(m->l.seen, 0, (size_t)m->l.zslots);
    find_levels(m);
    for (int64_t z = t->in.lo[2]; z < t->in.hi[2]; z++) {
        for (int64_t y = t->in.lo[1]; y < t->in.hi[1]; y++) {
            w->rows->load(t, source(m, y, z));
            for (int64_t h = 0; h < m->l.widths; h++)
                w->rows->grow(t, wide_row(m, y, h), h ? wide_row(m, y, h - 1) : NULL, h);
        }
        for (int64_t k = 0; k <= r; k++)
            if ((z - k >= t->out.lo[2] && z - k < t->out.hi[2]) || (z + k >= t->out.lo[2] && z + k < t->out.hi[2]))
                discs(m, z, k);
        if (z - r >= t->out.lo[2])
            finish_ball(m, z - r);
    }
    for (int64_t p = vp_max64(t->out.lo[2], t->in.hi[2] - r); p < t->out.hi[2]; p++)
        finish_ball(m, p);
}

/* ---- all tiles ---- */

static void count_box(const struct window_march *m)
{
    const struct vp_tile *t = m->t;
    const struct window_axis x = axis_of(t, 0, 1);

    for (int64_t i = 0; i < t->n; i++)
        m->l.count[i] = (int32_t)extent(&x, t->out.lo[0] + i);
}

/* image: the real one; box: in w's extended coordinates. */
static void run_tile(const struct vp_sweep *w, const int64_t image[3], const struct vp_part *in,
                     const struct vp_part *out, const struct vp_box *box, char *scratch)
{
    struct vp_tile t = {.w = w, .out = *box, .n = vp_box_size(box, 0)};
    const int64_t size[3] = {vp_box_size(box, 0), vp_box_size(box, 1), vp_box_size(box, 2)};
    const int64_t *r = w->op->halo;

    for (int a = 0; a < 3; a++) {
        t.in.lo[a] = vp_max64(box->lo[a] - r[a], 0);
        t.in.hi[a] = vp_min64(box->hi[a] + r[a], w->op->image[a]);
    }
    struct window_march m = {.t = &t, .in = in, .out = out, .image = image, .l = layout_of(w, size, scratch),
                             .counted = {INT64_MIN}};
    for (int a = 0; a < 3; a++)
        m.shift[a] = w->edge ? r[a] : 0;
    m.y = axis_of(&t, 1, m.l.yslots);
    m.z = axis_of(&t, 2, m.l.zslots);
    t.lane = m.l.lane;
    t.rows = m.l.rows;
    t.count = m.l.count;
    if (w->counts && !is_ball(w))
        count_box(&m);
    if (w->rows->begin)
        w->rows->begin(&t);
    if (is_ball(w))
        march_ball(&m);
    else
        march_box(&m);
}

/* Makes the window on the image extended by its edge rule, and turns `op` into its operation. */
static struct vp_sweep extended(const struct vp_sweep *w, struct vp_op *op)
{
    struct vp_sweep all = *w;

    if (!w->edge)
        return all;
    *op = *w->op;
    for (int a = 0; a < 3; a++) {
        op->halo[a] = w->f->reach[a];
        op->image[a] += 2 * op->halo[a];
    }
    all.op = op;
    return all;
}

uint64_t vp_sweep_scratch(const struct vp_sweep *w, const struct vp_box *out, int threads)
{
    struct vp_op op;
    const struct vp_sweep all = extended(w, &op);
    int64_t side[3];

    if (w->f->shape == VP_OFFSETS)
        return vp_sweep_set_scratch(w, out, threads);
    split(&all, out, threads, side);
    return (uint64_t)layout_of(&all, side, NULL).total * (uint64_t)threads;
}

void vp_sweep_run(const struct vp_sweep *w, const struct vp_part *in, const struct vp_part *out, void *scratch,
                   int threads)
{
    struct vp_op op;
    const struct vp_sweep all = extended(w, &op);
    int64_t side[3];

    if (w->f->shape == VP_OFFSETS) {
        vp_sweep_set_run(w, in, out, scratch, threads);
        return;
    }
    split(&all, &out->box, threads, side);
    const size_t step = layout_of(&all, side, NULL).total;
    const int64_t total = vp_box_tiles(&out->box, side);
    #pragma omp parallel num_threads((int)vp_min64(threads, total))
    {
        char *mine = (char *)scratch + step * (size_t)omp_get_thread_num();
        #pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < total; i++) {
            struct vp_box box = vp_box_tile(&out->box, side, i);
            for (int a = 0; w->edge && a < 3; a++) {
                box.lo[a] += all.op->halo[a];
                box.hi[a] += all.op->halo[a];
            }
            run_tile(&all, w->op->image, in, out, &box, mine);
        }
    }
}
