/* SPDX-License-Identifier: BSD-3-Clause */
/* Passes of separable filters over a box; separable.h has the arithmetic.
 *
 * A box is divided into tiles of columns and rows that march along z. Of each new plane 16 rows at a time are
 * transposed so that x runs along memory in steps of 16 columns, filtered along x and transposed back into a small ring
 * of rows; rows of the ring are filtered along y into a ring of planes, whose planes are filtered along z. So each
 * sample is filtered once along each axis (except rows shared by neighbouring tiles), and intermediate results stay in
 * the caches; the rings of planes of all tiles are the state that a stream carries from part to part. Edge rules select
 * pointers: a row or plane outside the image is the one that the rule names. */
#include "local/separable.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/isa.h"
#include "base/size.h"
#include "local/separable_isa.h"

enum {
    BLOCK = VP_SEPARABLE_BLOCK,
    COLUMNS = VP_SEPARABLE_COLUMNS,
    PIECE = 256,                   /* columns of a piece, more where the radius is large */
    NEAR = 512 << 10,              /* target size of a ring of rows, bytes: sets the width of blocks */
    RING = 6 << 20,                /* target size of a ring of planes, bytes a thread: sets the height of tiles */
    LARGE = 16 << 20               /* outputs of more bytes stay in no cache */
};

static int64_t round_up(int64_t a, int64_t step) { return vp_div_up(a, step) * step; }
/* Returns the samples between rows of n: an odd number of cache lines, so that a column of many rows does not fall into
 * one set of the cache. */
static int64_t row_step(int64_t n) { return round_up(n, 16) + vp_div_up(n, 16) % 2 * 16 + 16; }

/* ---- layout ---- */

struct separable_layout {
    int64_t span, tile;           /* output columns and rows of a tile, which runs along z */
    int64_t across;               /* tiles along x */
    int64_t blocks, block, piece; /* blocks of columns of a tile; their width; pieces of a block (a multiple of 16) */
    bool alone;                   /* each tile by one thread, with a ring of planes of its own */
    int64_t step_planes;          /* output planes made together */
    int64_t row_ring, plane_ring; /* capacity of the rings, in rows and planes */
    int64_t row_width, ring_width, made_width; /* samples from row to row */
    int64_t column_rows;          /* capacity of a thread's transposed rows, in columns */
    int64_t reach;                /* maximum rows or planes that a block of outputs reads */
    size_t tables, planes;        /* bytes: taps of short axes, ring of planes */
};

/* True if some voxels of the axis have less than R voxels on both sides. */
static bool is_short(const struct vp_separable *p, const struct vp_op *op, int axis)
{
    return p->edge == VP_EDGE_RENORMALIZE && op->image[axis] < 2 * (int64_t)p->radius[axis];
}

/* Returns the number of edge taps of one filter along a short axis: 2 R for each output. Along z always, because the
 * depth may be unknown. */
static size_t short_taps(const struct vp_separable *p, const struct vp_op *op, const struct vp_box *out, int axis)
{
    const int64_t r = p->radius[axis];

    if (p->edge != VP_EDGE_RENORMALIZE || (axis < 2 && !is_short(p, op, axis)))
        return 0;
    return (size_t)(vp_min64(vp_box_size(out, axis), 2 * r) * 2 * r);
}

/* kept: the ring of planes outlives the part and does not depend on its depth. */
static struct separable_layout layout_of(const struct vp_separable *p, const struct vp_op *op, const struct vp_box *out,
                               int threads, bool kept)
{
    struct separable_layout l = {0};
    const int64_t *const image = op->image, w = vp_box_size(out, 0), rows = vp_box_size(out, 1);
    const int64_t planes = vp_box_size(out, 2), rx = p->radius[0], ry = p->radius[1], rz = p->radius[2];

    const int64_t pieces = vp_max64(1, (w + PIECE / 2) / vp_max64(PIECE, 4 * rx));
    l.piece = round_up((w + pieces - 1) / pieces, COLUMNS);
    l.span = rz ? vp_min64(w, l.piece) : w;
    l.across = (w + l.span - 1) / l.span;
    l.row_ring = p->edge == VP_EDGE_WRAP && ry ? image[1] : 2 * ry + BLOCK + COLUMNS;
    l.block = l.piece * vp_max64(1, NEAR / (p->channels_x * l.row_ring * l.piece * (int64_t)sizeof(float)));
    l.block = vp_min64(l.block, round_up(l.span, l.piece));
    l.blocks = (l.span + l.block - 1) / l.block;
    l.row_width = row_step(l.block);
    l.made_width = row_step(l.piece);
    l.ring_width = row_step(l.blocks * l.block);
    l.step_planes = round_up(vp_max64(rz, 8), 8);
    if (!kept)
        l.step_planes = vp_min64(l.step_planes, round_up(planes, 8));
    l.plane_ring = !rz ? 0 : p->edge == VP_EDGE_WRAP ? image[2] : 2 * rz + l.step_planes;
    l.tile = rows;
    if (!rz)
        l.step_planes = planes;
    else {
        /* a tile for each thread, without barriers, unless most of its rows would be those shared with neighbours */
        const int64_t row = l.plane_ring * l.ring_width * p->channels_y * (int64_t)sizeof(float);
        const int64_t own = vp_min64(round_up(RING / row, 8), (rows * l.across + threads - 1) / threads);
        l.alone = own > 0 && own >= 6 * ry;
        const int64_t fits = l.alone ? own : vp_max64(round_up(RING * (int64_t)threads / row, 8), vp_max64(4 * ry, 32));
        int64_t tiles = (rows + fits - 1) / fits;
        while (l.alone && tiles * l.across % threads && tiles * l.across < 8 * threads)
            tiles++;
        l.tile = (rows + tiles - 1) / tiles;
    }
    l.column_rows = l.piece + 2 * rx + BLOCK;
    for (int a = 0; a < 3; a++)
        l.tables += 2 * short_taps(p, op, out, a) * sizeof(float);
    l.tables = vp_round64(l.tables);
    l.planes = (size_t)(l.plane_ring * l.tile * l.ring_width * p->channels_y) * sizeof(float);
    l.reach = 2 * vp_max64(ry, rz) + BLOCK;
    return l;
}

/* Returns the number of tiles. */
static int64_t tiles_of(const struct separable_layout *l, const struct vp_box *out)
{
    return (vp_box_size(out, 1) + l->tile - 1) / l->tile * l->across;
}

/* Memory of one thread. */
struct separable_work {
    int64_t left;                 /* first column of the current tile */
    float *planes;                /* ring of planes; the team's unless layout.alone */
    float *rows;                  /* ring of rows filtered along x */
    float *columns, *filtered;    /* transposed rows, before and after the filter along x */
    float *read;                  /* rows of the input as floats */
    float *made, *input;          /* finished rows; their input, for high-pass */
    float *zero, *discard;        /* row of zeros; target of rows that are not wanted */
    const float **g[2], **column; /* rows or planes of each channel that a block reads; pointers to columns */
};

/* Fills w with pointers into mem (NULL: none). Returns the bytes. */
static size_t workspace_layout(struct separable_work *w, const struct separable_layout *l, int channels, void *mem)
{
    const size_t column = COLUMNS * sizeof(float), made = (size_t)l->made_width * sizeof(float);
    size_t bytes = 0;

    w->rows = vp_place(mem, &bytes, (size_t)(channels * l->row_ring * l->row_width) * sizeof(float));
    w->columns = vp_place(mem, &bytes, (size_t)(l->column_rows + COLUMNS) * column);
    w->filtered = vp_place(mem, &bytes, (size_t)(l->column_rows + COLUMNS + BLOCK) * column);
    w->read = vp_place(mem, &bytes, (size_t)row_step(l->column_rows) * column);
    w->zero = vp_place(mem, &bytes, (size_t)l->row_width * sizeof(float));
    w->made = vp_place(mem, &bytes, BLOCK * made);
    w->discard = vp_place(mem, &bytes, made);
    w->input = vp_place(mem, &bytes, made);
    w->g[0] = vp_place(mem, &bytes, (size_t)l->reach * sizeof *w->g[0]);
    w->g[1] = vp_place(mem, &bytes, (size_t)l->reach * sizeof *w->g[1]);
    w->column = vp_place(mem, &bytes, (size_t)l->column_rows * sizeof *w->column);
    for (int64_t v = 0; mem && v < l->column_rows; v++)
        w->column[v] = w->columns + v * COLUMNS;
    if (mem)
        memset(w->zero, 0, (size_t)l->row_width * sizeof *w->zero);
    return bytes;
}

static uint64_t scratch(const struct vp_op *op, const struct vp_box *in, const struct vp_box *out, int threads)
{
    const struct vp_separable *const p = op->params;
    const struct separable_layout l = layout_of(p, op, out, threads, false);
    struct separable_work w;

    (void)in;
    return l.tables + (uint64_t)(l.alone ? threads : 1) * l.planes
           + (uint64_t)threads * workspace_layout(&w, &l, p->channels_x, NULL);
}

static uint64_t state_bytes(const struct vp_op *op, const struct vp_box *out, int threads)
{
    const struct vp_separable *const p = op->params;

    if (!p->radius[2] || p->edge == VP_EDGE_WRAP || p->highpass)
        return 0;
    const struct separable_layout l = layout_of(p, op, out, threads, true);
    return (uint64_t)tiles_of(&l, out) * l.planes;
}

/* One call of run() or advance(). */
struct separable_job {
    const struct vp_separable *p;
    const struct vp_op *op;
    const struct vp_part *in, *out;
    const struct vp_separable_isa *isa;
    struct separable_layout l;
    char *kept;                   /* rings of planes of all tiles, or NULL */
    struct { const struct vp_taps *taps; float *table; } short_axis[6]; /* edge taps of every output */
    int short_axes;
    bool cut[3];                  /* some outputs of the axis have taps of their own */
    bool bypass;                  /* output larger than the caches */
};

/* ---- lines ---- */

/* VP_EDGE_RENORMALIZE: true if the outputs of the block that begins at i have taps of their own. */
static bool own_taps(const struct separable_job *j, const struct vp_taps *t, int axis, int64_t i)
{
    const int64_t r = t->radius, before = i, after = j->op->image[axis] - 1 - i;

    return t->order == 0 ? before < r && after < r : before < r || after < r;
}

/* Returns the end of the block of outputs that begins at i: at most `end`, and at most where another kind of taps may
 * begin. */
static int64_t block_end(const struct separable_job *j, int axis, int64_t i, int64_t end)
{
    const int64_t r = j->p->radius[axis], n = j->op->image[axis];
    const int64_t first = vp_min64(r, n - r), second = vp_max64(r, n - r);

    end = vp_min64(end, i + j->isa->block);
    if (!j->cut[axis])
        return end;
    return i < first ? vp_min64(end, first) : i < second ? vp_min64(end, second) : end;
}

/* Returns the taps of output i of an axis. */
static struct vp_separable_edge with_taps(const struct separable_job *j, const struct vp_taps *t, int axis, int64_t i)
{
    const int64_t r = t->radius, after = j->op->image[axis] - 1 - i;

    for (int s = 0; s < j->short_axes; s++)
        if (j->short_axis[s].taps == t) {
            const float *const row = j->short_axis[s].table + (i - j->out->box.lo[axis]) * 2 * r;
            return (struct vp_separable_edge){.up = row, .down = row + r};
        }
    return i < r ? (struct vp_separable_edge){.up = t->up + i * r, .down = t->down + i * r}
                 : (struct vp_separable_edge){.up = t->far_up + after * r, .down = t->far_down + after * r};
}

/* Order 0: returns the edge correction of output i of a block that begins at `first`. */
static struct vp_separable_edge with_scale(const struct separable_job *j, const struct vp_taps *t, int axis, int64_t i,
                                           int64_t first)
{
    const int64_t last = j->op->image[axis] - 1, e = vp_min64(i, last - i);

    if (e >= t->radius)
        return (struct vp_separable_edge){.scale = 0};
    return (struct vp_separable_edge){.at = (int)((i == e ? 0 : last) - first), .weight = -t->t[e], .scale = t->scale[e]};
}

/* Filters along the axis: outputs i ... i + count - 1 (one block), n samples of each, from sample `at` on of the rows
 * g[c], of which g[c][0] is sample i of channel c. */
static void filter(const struct separable_job *j, const struct vp_separable_sum *sum, int axis, int64_t i,
                   int64_t count, const float *const *const *g, int64_t at, float *out, int64_t step, int64_t n)
{
    const bool inside = j->p->edge != VP_EDGE_RENORMALIZE
                        || vp_min64(i, j->op->image[axis] - i - count) >= j->p->radius[axis];

    for (int s = 0; s < sum->n; s++) {
        const struct vp_taps *const t = sum->term[s].taps;
        struct vp_separable_line line = {.g = g[sum->term[s].from], .order = t->order, .radius = t->radius, .t = t->t,
                               .count = (int)count, .add = s > 0,
                               .out = out, .step = step, .at = at, .n = round_up(n, COLUMNS)};
        struct vp_separable_edge edge[BLOCK];
        if (!inside) {
            const bool own = own_taps(j, t, axis, i);
            for (int b = 0; b < BLOCK; b++) {
                const int64_t here = b < count ? i + b : i;
                edge[b] = own ? with_taps(j, t, axis, here) : with_scale(j, t, axis, here, i);
            }
            line.edge = edge;
            if (own)
                line.t = NULL;
        }
        j->isa->line(&line);
    }
}

/* Fills taps[] with the filters along an axis. Returns their number. */
static int taps_along(const struct vp_separable *p, int axis, const struct vp_taps *taps[4])
{
    int n = 0;

    for (int c = 0; axis == 0 && c < p->channels_x; c++)
        taps[n++] = p->x[c];
    for (int c = 0; axis > 0 && c < (axis == 1 ? p->channels_y : 1); c++) {
        const struct vp_separable_sum *const s = axis == 1 ? &p->y[c] : &p->z;
        for (int i = 0; i < s->n; i++)
            taps[n++] = s->term[i].taps;
    }
    return n;
}

/* Fills `table` with the taps of each output along short axes. */
static void fill_tables(struct separable_job *j, float *table)
{
    const struct vp_separable *const p = j->p;

    for (int a = 0; a < 3; a++) {
        const int64_t lo = j->out->box.lo[a], n = vp_box_size(&j->out->box, a), r = p->radius[a];
        const struct vp_taps *taps[4];
        const int count = taps_along(p, a, taps);
        const bool all = is_short(p, j->op, a);
        if (!r || p->edge != VP_EDGE_RENORMALIZE)
            continue;
        j->cut[a] = all;
        for (int t = 0; t < count; t++) {
            bool known = !all;
            j->cut[a] |= taps[t]->order > 0;
            for (int s = 0; s < j->short_axes; s++)
                known |= j->short_axis[s].taps == taps[t];
            if (known)
                continue;
            j->short_axis[j->short_axes].taps = taps[t];
            j->short_axis[j->short_axes++].table = table;
            for (int64_t i = 0; i < n; i++, table += 2 * r)
                vp_taps_edge(taps[t], lo + i, j->op->image[a] - 1 - lo - i, table, table + r);
        }
    }
}

/* ---- passes ---- */

/* Returns the address of sample (x, y, z) of the input. */
static const void *input(const struct separable_job *j, int64_t x, int64_t y, int64_t z)
{
    return vp_part_at(j->in, vp_type_size(j->op->in), x, y, z);
}

/* Stores n finished samples of output row (y, z), from column x on. */
static void finish(const struct separable_job *j, struct separable_work *w, int64_t x, int64_t n, int64_t y, int64_t z,
                   const float *made)
{
    if (j->p->highpass) {
        j->isa->load(w->input, input(j, x, y, z), j->op->in, n);
        for (int64_t i = 0; i < n; i++)
            w->input[i] -= made[i];
        made = w->input;
    }
    j->isa->store(vp_part_at(j->out, vp_type_size(j->op->out), x, y, z), j->op->out, made, n, j->bypass);
}

static float *ring_row(const struct separable_job *j, const struct separable_work *w, int c, int64_t y)
{
    return w->rows + (c * j->l.row_ring + y % j->l.row_ring) * j->l.row_width;
}

/* Points w->g[c] at the samples that a block of outputs from i on of the axis reads: rows of a ring of `slots` rows,
 * `pitch` samples apart, `channel` samples from channel to channel. Samples from `made` on are read only by outputs
 * that are discarded. */
static void point_rows(const struct separable_job *j, struct separable_work *w, int axis, int64_t i, int64_t made,
                       int channels, const float *ring, int64_t slots, int64_t pitch, int64_t channel)
{
    const int64_t r = j->p->radius[axis], n = j->op->image[axis];
    int64_t last = -2, slot = 0;

    for (int64_t v = 0; v < 2 * r + BLOCK; v++) {
        const int64_t p = i - r + v, s = p >= 0 && p < n ? p : vp_edge_from(j->p->edge, p, n);
        if (s == last + 1 && slot + 1 < slots)
            slot++;
        else if (s >= 0 && s != last)
            slot = s % slots;
        last = s < 0 ? -2 : s;
        for (int c = 0; c < channels; c++)
            w->g[c][v] = s < 0 || s >= made ? w->zero : ring + c * channel + slot * pitch;
    }
}

static float *plane_row(const struct separable_job *j, const struct separable_work *w, int c, int64_t x, int64_t row,
                        int64_t z)
{
    const struct separable_layout *const l = &j->l;
    return w->planes + ((c * l->plane_ring + z % l->plane_ring) * l->tile + row) * l->ring_width
           + x - w->left;
}

/* Prefetches samples of the next rows while columns `done` ... `end` - 1 of a piece are in work: a cache line for each
 * column, spread out so that the loads overlap with arithmetic. */
static void prefetch(const void *const *next, enum vp_type type, int64_t done, int64_t end)
{
    const int64_t line = 64 / (int64_t)vp_type_size(type);
    for (int64_t q = done; q < end && q / COLUMNS * line < end; q++)
        __builtin_prefetch((const char *)next[q % COLUMNS] + q / COLUMNS * 64, 0, 2);
}

/* Filters a piece along x: columns x ... x + n - 1 of `count` rows from y on, into the ring of rows of the block of
 * columns that begins at x - at. */
static void make_rows(const struct separable_job *j, struct separable_work *w, int64_t x, int64_t at, int64_t n,
                      int64_t y, int64_t count, int64_t z)
{
    const int64_t r = j->p->radius[0], width = j->op->image[0], first = x - r;
    const int64_t from = vp_max64(first, 0), to = vp_min64(x + n + r, width), step = row_step(j->l.column_rows);

    if (r == 0) {
        for (int64_t i = 0; i < count; i++)
            j->isa->load(ring_row(j, w, 0, y + i) + at, input(j, x, y + i, z), j->op->in, n);
        return;
    }
    /* f32 is transposed directly from the input, except an incomplete last group of 16 columns */
    const int64_t direct = j->op->in == VP_F32 ? (to - from) / COLUMNS * COLUMNS : 0;
    const float *rows[COLUMNS], *read[COLUMNS];
    const void *next[COLUMNS];
    for (int64_t i = 0; i < COLUMNS; i++) {
        const int64_t row = i < count ? i : 0, later = y + count + i < j->in->box.hi[1] ? y + count + i : y;
        next[i] = input(j, from, later, z);
        rows[i] = direct ? input(j, from, y + row, z) : NULL;
        read[i] = w->read + row * step;
        if (i < count && from + direct < to)
            j->isa->load(w->read + i * step, input(j, from + direct, y + i, z), j->op->in, to - from - direct);
    }
    j->isa->columns(w->columns + (from - first) * COLUMNS, rows, direct);
    j->isa->columns(w->columns + (from + direct - first) * COLUMNS, read, to - from - direct);
    for (int64_t v = first; v < x + n + r; v++) {
        if (v == from)
            v = to;
        if (v >= x + n + r)
            break;
        float *const column = w->columns + (v - first) * COLUMNS;
        const int64_t s = vp_edge_from(j->p->edge, v, width);
        if (s < 0)
            memset(column, 0, COLUMNS * sizeof *column);
        else if (s >= from && s < to)
            memcpy(column, w->columns + (s - first) * COLUMNS, COLUMNS * sizeof *column);
        else
            for (int64_t i = 0; i < COLUMNS; i++)
                j->isa->load(column + i, input(j, s, y + (i < count ? i : 0), z), j->op->in, 1);
    }
    for (int c = 0; c < j->p->channels_x; c++) {
        const struct vp_separable_sum sum = {.n = 1, .term = {{j->p->x[c], 0}}};
        float *back[COLUMNS];
        for (int64_t i = x, end; i < x + n; i = end) {
            end = block_end(j, 0, i, x + n);
            const float *const *const g = w->column + (i - first);
            if (c == 0)
                prefetch(next, j->op->in, i - x, end - x);
            filter(j, &sum, 0, i, end - i, &g, 0, w->filtered + (i - x) * COLUMNS, COLUMNS, COLUMNS);
        }
        for (int64_t i = 0; i < COLUMNS; i++)
            back[i] = i < count ? ring_row(j, w, c, y + i) + at : w->discard;
        j->isa->rows(back, w->filtered, n);
    }
}

/* Filters along x and y: columns x ... x + n - 1 of rows y0 ... y1 - 1 of plane z, into the ring of planes of the tile
 * that begins at row `tile`, or into the output if there is no ring. */
static void make_plane(const struct separable_job *j, struct separable_work *w, int64_t x, int64_t n, int64_t y0,
                       int64_t y1, int64_t z, int64_t tile)
{
    const struct separable_layout *const l = &j->l;
    const int64_t r = j->p->radius[1], height = j->op->image[1];
    const bool wrap = j->p->edge == VP_EDGE_WRAP && r;
    const int64_t limit = wrap ? height : vp_min64(height, y1 + r);
    int64_t next = wrap ? 0 : vp_max64(0, y0 - r);

    for (int64_t y = y0, end; y < y1; y = end) {
        end = block_end(j, 1, y, y1);
        for (const int64_t need = wrap ? limit : vp_min64(limit, end + r); next < need;) {
            const int64_t count = vp_min64(COLUMNS, limit - next);
            for (int64_t at = 0; at < n; at += l->piece)
                make_rows(j, w, x + at, at, vp_min64(l->piece, n - at), next, count, z);
            next += count;
        }
        point_rows(j, w, 1, y, next, j->p->channels_x, ring_row(j, w, 0, 0), l->row_ring, l->row_width,
             l->row_ring * l->row_width);
        const float *const *const g[2] = {w->g[0] + r, w->g[1] + r};
        if (l->plane_ring) {
            for (int c = 0; c < j->p->channels_y; c++)
                filter(j, &j->p->y[c], 1, y, end - y, g, 0, plane_row(j, w, c, x, y - tile, z), l->ring_width, n);
            continue;
        }
        for (int64_t at = 0; at < n; at += l->piece) {
            const int64_t m = vp_min64(l->piece, n - at);
            filter(j, &j->p->y[0], 1, y, end - y, g, at, w->made, l->made_width, m);
            for (int64_t i = y; i < end; i++)
                finish(j, w, x + at, m, i, z, w->made + (i - y) * l->made_width);
        }
    }
}

/* Filters the ring of planes along z: columns x ... x + n - 1 of row y of planes z0 ... z1 - 1, into the output. Planes
 * before `made` are in the ring, or have been. */
static void make_depth(const struct separable_job *j, struct separable_work *w, int64_t x, int64_t n, int64_t y,
                       int64_t z0, int64_t z1, int64_t tile, int64_t made)
{
    const struct separable_layout *const l = &j->l;
    const int64_t r = j->p->radius[2];

    for (int64_t z = z0, end; z < z1; z = end) {
        end = block_end(j, 2, z, z1);
        point_rows(j, w, 2, z, made, j->p->channels_y, plane_row(j, w, 0, x, y - tile, 0), l->plane_ring,
             l->tile * l->ring_width, l->plane_ring * l->tile * l->ring_width);
        const float *const *const g[2] = {w->g[0] + r, w->g[1] + r};
        for (int64_t at = 0; at < n; at += l->piece) {
            const int64_t m = vp_min64(l->piece, n - at);
            filter(j, &j->p->z, 2, z, end - z, g, at, w->made, l->made_width, m);
            for (int64_t i = z; i < end; i++)
                finish(j, w, x + at, m, y, i, w->made + (i - z) * l->made_width);
        }
    }
}

/* Step of a tile: makes columns x0 ... x1 - 1 of rows t0 ... t1 - 1 of planes z0 ... z1 - 1, for which `planes` planes
 * from `next` on enter the ring, in `strips` strips of `strip` rows. */
struct separable_march { int64_t x0, x1, t0, t1, z0, z1, next, planes, strips, strip; };

/* Strip, block and plane number i of the step: along x and y. */
static void make_strip(const struct separable_job *j, struct separable_work *w, const struct separable_march *m,
                       int64_t i)
{
    const struct separable_layout *const l = &j->l;
    const int64_t b = i % l->blocks, s = i / l->blocks % m->strips, z = m->next + i / l->blocks / m->strips;
    const int64_t y0 = m->t0 + s * m->strip, y1 = vp_min64(m->t1, y0 + m->strip), x = m->x0 + b * l->block;

    if (y0 < y1 && x < m->x1)
        make_plane(j, w, x, vp_min64(l->block, m->x1 - x), y0, y1, z, m->t0);
}

/* Row and block number i of the step: along z. */
static void make_row(const struct separable_job *j, struct separable_work *w, const struct separable_march *m,
                     int64_t i)
{
    const struct separable_layout *const l = &j->l;
    const int64_t x = m->x0 + i % l->blocks * l->block;

    if (x < m->x1)
        make_depth(j, w, x, vp_min64(l->block, m->x1 - x), m->t0 + i / l->blocks, m->z0, m->z1, m->t0,
                   m->next + m->planes);
}

/* Makes tile i, all planes: by this thread alone (layout.alone), or by the team, all of whose threads call it. */
static void make_tile(const struct separable_job *j, struct separable_work *w, int64_t i, int threads)
{
    const struct separable_layout *const l = &j->l;
    const struct vp_box *const out = &j->out->box;
    const int64_t r = j->p->radius[2], ry = j->p->radius[1], depth = j->op->image[2];
    const bool wrap = j->p->edge == VP_EDGE_WRAP;
    const int64_t end = !r ? out->hi[2] : wrap ? depth : vp_min64(depth, out->hi[2] + r);
    struct separable_march m = {.next = !r ? out->lo[2] : wrap ? 0 : vp_max64(0, out->lo[2] - r)};

    if (j->kept) {
        w->planes = (float *)(void *)(j->kept + (size_t)i * l->planes);
        m.next = vp_max64(m.next, j->in->box.lo[2]); /* planes before are in the ring */
    }

    m.x0 = w->left = out->lo[0] + i % l->across * l->span;
    m.x1 = vp_min64(out->hi[0], m.x0 + l->span);
    m.t0 = out->lo[1] + i / l->across * l->tile;
    m.t1 = vp_min64(out->hi[1], m.t0 + l->tile);
    const int64_t rows = m.t1 - m.t0;
    for (m.z0 = out->lo[2]; m.z0 < out->hi[2]; m.z0 = m.z1, m.next += m.planes) {
        m.z1 = vp_min64(out->hi[2], m.z0 + l->step_planes);
        m.planes = (r && wrap ? end : vp_min64(end, m.z1 + r)) - m.next;
        /* strips where planes and blocks are too few for the threads; each fills a ring of rows of its own */
        const int64_t wanted = l->alone || threads == 1 || m.planes < 1 ? 1
                               : (4 * threads - 1) / (m.planes * l->blocks) + 1;
        m.strips = wrap ? 1 : vp_max64(1, vp_min64(wanted, rows / vp_max64(2 * ry, 16)));
        m.strip = (rows + m.strips - 1) / m.strips;
        const int64_t strips = m.planes * m.strips * l->blocks, lines = r ? rows * l->blocks : 0;
        if (l->alone) {
            for (int64_t s = 0; s < strips; s++)
                make_strip(j, w, &m, s);
            for (int64_t s = 0; s < lines; s++)
                make_row(j, w, &m, s);
        } else {
            #pragma omp for schedule(dynamic)
            for (int64_t s = 0; s < strips; s++)
                make_strip(j, w, &m, s);
            #pragma omp for schedule(dynamic, 4)
            for (int64_t s = 0; s < lines; s++)
                make_row(j, w, &m, s);
        }
    }
}

/* kept: rings of planes of all tiles; NULL: they are in the scratch. */
static int advance(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, void *scratch,
                   void *kept, int threads, struct vp_err *err)
{
    struct separable_job j = {.p = op->params, .op = op, .in = in, .out = out, .isa = VP_ISA_FIND(vp_separable, NULL), .kept = kept};
    struct separable_work w;

    (void)err;
    j.l = layout_of(j.p, op, &out->box, threads, kept);
    j.bypass = op->out == VP_F32
             && vp_box_size(&out->box, 0) * vp_box_size(&out->box, 1) >= LARGE / 4 / vp_box_size(&out->box, 2);
    const int64_t tiles = tiles_of(&j.l, &out->box);
    fill_tables(&j, scratch);
    char *const planes = (char *)scratch + j.l.tables;
    char *const workspaces = planes + (kept ? 0 : j.l.planes * (size_t)(j.l.alone ? threads : 1));
    const size_t each = workspace_layout(&w, &j.l, j.p->channels_x, NULL);
    #pragma omp parallel num_threads(threads) private(w)
    {
        const size_t me = (size_t)omp_get_thread_num();

        workspace_layout(&w, &j.l, j.p->channels_x, workspaces + me * each);
        w.planes = (float *)(void *)(planes + (j.l.alone ? me * j.l.planes : 0));
        if (j.l.alone) {
            #pragma omp for schedule(dynamic)
            for (int64_t t = 0; t < tiles; t++)
                make_tile(&j, &w, t, threads);
        } else {
            for (int64_t t = 0; t < tiles; t++)
                make_tile(&j, &w, t, threads);
        }
        __atomic_thread_fence(__ATOMIC_SEQ_CST); /* completes non-temporal stores */
    }
    return 0;
}

static int run(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, void *scratch,
               int threads, struct vp_err *err)
{
    return advance(op, in, out, scratch, NULL, threads, err);
}

/* ---- the operation ---- */

int vp_separable_check(const double sigma[3], double truncate, const double spacing[3], struct vp_err *err)
{
    for (int a = 0; a < 3; a++) {
        if (!(sigma[a] >= 0 && isfinite(sigma[a])))
            return vp_fail(err, VP_EUSAGE, "--sigma: expected 0 or more along %c, got %g", "xyz"[a], sigma[a]);
        if (!(spacing[a] > 0 && isfinite(spacing[a])))
            return vp_fail(err, VP_EUSAGE, "the voxel size along %c is %g: expected more than 0", "xyz"[a], spacing[a]);
    }
    if (!(truncate > 0 && isfinite(truncate)))
        return vp_fail(err, VP_EUSAGE, "--truncate: expected more than 0, got %g", truncate);
    return 0;
}

static void add(struct vp_separable_sum *s, const struct vp_taps *taps, int from)
{
    s->term[s->n].taps = taps;
    s->term[s->n++].from = from;
}

void vp_separable_connect(struct vp_separable *p)
{
    struct vp_separable_sum curved = {0}, smooth = {0}; /* p and q of log.h; a single filter has q alone */
    const int last = p->filters - 1;

    p->edge = p->taps[0][0].edge;
    for (int a = 0; a < 3; a++)
        p->radius[a] = p->taps[a][last].radius;
    p->x[p->channels_x++] = &p->taps[0][0];
    if (last && p->radius[0]) {
        p->x[p->channels_x++] = &p->taps[0][1];
        add(&curved, &p->taps[1][0], 1);
    }
    if (last && p->radius[1])
        add(&curved, &p->taps[1][1], 0);
    add(&smooth, &p->taps[1][0], 0);
    if (curved.n) {
        add(&p->z, &p->taps[2][0], p->channels_y);
        p->y[p->channels_y++] = curved;
    }
    if (!last || p->radius[2]) {
        add(&p->z, &p->taps[2][last], p->channels_y);
        p->y[p->channels_y++] = smooth;
    }
}

void vp_separable_free(void *params)
{
    struct vp_separable *const p = params;

    if (!p || --p->users > 0)
        return;
    for (int a = 0; a < 3; a++)
        for (int f = 0; f < p->filters; f++)
            vp_taps_free(&p->taps[a][f]);
    free(p);
}

static const struct vp_carry carry = {.state_bytes = state_bytes, .advance = advance};

void vp_separable_stage(struct vp_op *op, const int64_t size[3], const double sigma[3], const char *more)
{
    const struct vp_separable *const p = op->params;
    const int *const radius = p->radius;
    double steps = 0;

    op->inputs = 1;
    for (int a = 0; a < 3; a++) {
        const struct vp_taps *taps[4];
        op->image[a] = size[a];
        op->halo[a] = p->radius[a];
        if (p->edge == VP_EDGE_WRAP && p->radius[a])
            op->halo[a] = VP_UNKNOWN;
        for (int t = taps_along(p, a, taps) - 1; t >= 0; t--)
            op->holds += vp_taps_edge_floats(taps[t]) * sizeof *taps[t]->up;
    }
    for (int c = 0; c < p->channels_x; c++)
        steps += p->radius[0];
    for (int c = 0; c < p->channels_y; c++)
        steps += p->y[c].n * p->radius[1];
    op->cost = 1.15 * p->channels_x + 0.036 * (steps + p->z.n * p->radius[2]);
    op->scratch = scratch;
    op->run = run;
    op->carry = &carry;
    snprintf(op->text, sizeof op->text, "%s sigma %g %g %g, %d x %d x %d taps%s, %s, %s", op->kernel, sigma[0], sigma[1],
             sigma[2], 2 * radius[0] + 1, 2 * radius[1] + 1, 2 * radius[2] + 1, more, vp_edge_name(p->edge),
             vp_isa_name());
}
