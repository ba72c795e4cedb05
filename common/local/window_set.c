/* SPDX-License-Identifier: BSD-3-Clause */
/* Sets of offsets swept over an image: see window.h. Of each input row there is a row of states for 1, 2, 4 ... samples
 * from every position on. A span is merged of these, largest first, at fixed places in the span: two that overlap if a
 * sample may be merged twice, else one for each bit of its length. So the order depends on the set alone. Samples
 * outside the image are neutral in x; their rows and planes are left out. */
#include "local/window.h"

#include "engine/chain.h"

#include <assert.h>
#include <omp.h>
#include <stdbool.h>
#include <string.h>

/* Target size of a tile's rows of states, bytes. */
enum { SET_NEAR = 3 << 19 };
/* Minimum voxels of a tile along x. */
enum { SET_WIDE = 512 };
/* Rows merged in one call. */
enum { SET_LIST = 64 };

/* Layout of a tile: addresses, and sizes in bytes. */
struct set_layout {
    size_t lane, row, total;    /* row: with room to read beyond its end */
    int64_t wide;               /* samples of an input row under all windows of a row */
    int64_t rows, planes;       /* input in memory at once */
    int levels;
    void *load, *made;          /* rows private to the operation: on loading, on finishing */
    char *none, *state, *table;
    int32_t *count;
};

struct set_march {
    const struct vp_part *in;
    struct set_layout l;
    struct vp_sweep wide;       /* without halo: its rows are those of the input */
    struct vp_op wide_op;
    struct vp_tile load, made;
    int64_t first[2];           /* first row and plane of input */
};

static int64_t span_of(const struct vp_sweep *w, int axis)
{
    return w->f->hi[axis] - w->f->lo[axis];
}

/* Returns the largest power of two up to n, as its exponent. */
static int power_in(int64_t n)
{
    int k = 0;

    while (n >> (k + 1))
        k++;
    return k;
}

static struct vp_sweep without_halo(const struct vp_sweep *w, struct vp_op *op)
{
    struct vp_sweep wide = *w;

    *op = *w->op;
    memset(op->halo, 0, sizeof op->halo);
    wide.op = op;
    return wide;
}

/* Fills the layout of a tile in mem (NULL: sizes only). */
static struct set_layout layout_of(const struct vp_sweep *w, const int64_t n[3], void *mem)
{
    struct set_layout l = {.wide = n[0] + span_of(w, 0), .rows = vp_min64(n[1] + span_of(w, 1), w->op->image[1]),
                           .planes = span_of(w, 2) + 1};
    struct vp_op op;
    const struct vp_sweep wide = without_halo(w, &op);
    int64_t longest = 1;

    for (int64_t i = 0; i < w->f->spans; i++)
        longest = vp_max64(longest, w->f->span[i].x1 - w->f->span[i].x0 + 1);
    l.levels = power_in(longest) + 1;
    l.lane = vp_round64((size_t)l.wide * w->lane_size);
    l.row = vp_round64(l.lane * (size_t)w->lanes + (size_t)span_of(w, 0) * w->lane_size);
    l.load = vp_place(mem, &l.total, w->row_bytes(&wide, l.wide));
    l.made = vp_place(mem, &l.total, w->row_bytes(w, n[0]));
    l.count = vp_place(mem, &l.total, w->counts ? (size_t)n[0] * sizeof *l.count : 0);
    l.none = vp_place(mem, &l.total, l.row);
    l.state = vp_place(mem, &l.total, l.row);
    l.table = vp_place(mem, &l.total, l.row * (size_t)(l.levels * l.rows * l.planes));
    return l;
}

/* Divides `out` into tiles: enough for the threads, of a size whose states are in the cache if they can be, but
 * not much smaller than the set. */
static void split(const struct vp_sweep *w, const struct vp_box *out, int threads, int64_t side[3])
{
    const int64_t least = vp_max64(SET_WIDE, 4 * span_of(w, 0)), rows = vp_max64(8, span_of(w, 1));

    for (int a = 0; a < 3; a++)
        side[a] = vp_box_size(out, a);
    side[0] = vp_div_up(side[0], vp_max64(1, side[0] / least));
    while (side[1] > rows && layout_of(w, side, NULL).total > SET_NEAR)
        side[1] = vp_div_up(side[1], 2);
    while (vp_box_tiles(out, side) < 4 * threads && (side[1] > rows || side[2] > span_of(w, 2) + 1)) {
        const int a = side[2] > span_of(w, 2) + 1 ? 2 : 1;
        side[a] = vp_div_up(side[a], 2);
    }
}

/* Returns the states of 1 << level samples of input row y, z, from the first column on. */
static char *level_of(const struct set_march *m, int64_t y, int64_t z, int level)
{
    const struct set_layout *l = &m->l;
    const int64_t row = z % l->planes * l->rows + y - m->first[0];

    return l->table + (size_t)(row * l->levels + level) * l->row;
}

/* Makes all states of row y, z. */
static void load_row(struct set_march *m, int64_t y, int64_t z)
{
    struct vp_tile *const t = &m->load;
    const struct vp_sweep_rows *rows = t->w->rows;

    rows->load(t, vp_part_at(m->in, t->w->size, vp_min64(t->in.lo[0], m->in->box.hi[0] - 1), y, z));
    rows->grow(t, level_of(m, y, z, 0), NULL, 0);
    for (int k = 1; k < m->l.levels; k++) {
        const char *const half = level_of(m, y, z, k - 1);
        const void *const list[] = {half, half + (t->w->lane_size << (k - 1))};
        rows->gather(t, level_of(m, y, z, k), list, 2, true);
    }
}

struct merger { const struct set_march *m; const void *list[SET_LIST]; int64_t n; bool first; };

static void flush(struct merger *g)
{
    if (!g->n)
        return;
    g->m->load.w->rows->gather(&g->m->load, g->m->l.state, g->list, g->n, g->first);
    g->first = false;
    g->n = 0;
}

/* Adds 1 << level samples from column `at` on. */
static void add_piece(struct merger *g, int64_t y, int64_t z, int64_t at, int level)
{
    if (g->n == SET_LIST)
        flush(g);
    g->list[g->n++] = level_of(g->m, y, z, level) + (size_t)at * g->m->load.w->lane_size;
}

/* Merges the states of all windows of output row y, z. */
static void merge_row(const struct set_march *m, int64_t y, int64_t z)
{
    const struct vp_sweep *w = m->made.w;
    const struct vp_footprint *f = w->f;
    struct merger g = {.m = m, .n = 0, .first = true};

    for (int64_t i = 0; i < f->spans; i++) {
        const struct vp_span *s = &f->span[i];
        const int64_t sy = y + s->dy, sz = z + s->dz;
        if (sy < 0 || sy >= w->op->image[1] || sz < 0 || sz >= w->op->image[2])
            continue;
        int64_t at = s->x0 - f->lo[0], n = s->x1 - s->x0 + 1;
        while (n > 0) {
            const int k = power_in(n);
            add_piece(&g, sy, sz, at, k);
            at += (int64_t)1 << k;
            n -= (int64_t)1 << k;
            if (w->idempotent && n > 0) {
                add_piece(&g, sy, sz, at + n - ((int64_t)1 << k), k);
                n = 0;
            }
        }
    }
    flush(&g);
    if (g.first)
        memcpy(m->l.state, m->l.none, m->l.row);
}

/* Makes the neutral row: one without samples in the image. */
static void make_none(struct set_march *m)
{
    struct vp_tile *const t = &m->load;
    const struct vp_box in = t->in;

    t->in.lo[0] = t->in.hi[0] = t->out.hi[0];
    if (t->w->rows->begin)
        t->w->rows->begin(t);
    t->w->rows->load(t, NULL);
    t->w->rows->grow(t, m->l.none, NULL, 0);
    t->in = in;
    if (t->w->rows->begin)
        t->w->rows->begin(t);
}

static void open_tile(struct set_march *m, const struct vp_sweep *w, const struct vp_box *box, char *scratch)
{
    const int64_t size[3] = {vp_box_size(box, 0), vp_box_size(box, 1), vp_box_size(box, 2)};
    const struct vp_footprint *f = w->f;

    m->l = layout_of(w, size, scratch);
    m->wide = without_halo(w, &m->wide_op);
    m->load = (struct vp_tile){.w = &m->wide, .n = m->l.wide, .lane = m->l.lane, .rows = m->l.load};
    m->made = (struct vp_tile){.w = w, .out = *box, .in = *box, .n = size[0], .lane = m->l.lane, .rows = m->l.made,
                               .count = m->l.count};
    for (int a = 0; a < 3; a++) {
        m->load.out.lo[a] = box->lo[a] + f->lo[a];
        m->load.out.hi[a] = box->hi[a] + f->hi[a];
        m->load.in.lo[a] = vp_max64(m->load.out.lo[a], 0);
        m->load.in.hi[a] = vp_min64(m->load.out.hi[a], w->op->image[a]);
    }
    if (m->load.in.lo[0] >= m->load.in.hi[0]) /* all windows lie beside the image */
        m->load.in.hi[0] = m->load.in.lo[0] = m->load.out.hi[0];
    m->first[0] = m->load.in.lo[1];
    m->first[1] = m->load.in.lo[2];
    make_none(m);
}

static void run_tile(const struct vp_sweep *w, const struct vp_part *in, const struct vp_part *out,
                     const struct vp_box *box, char *scratch)
{
    struct set_march m = {.in = in};
    int64_t counted[4] = {INT64_MIN};

    open_tile(&m, w, box, scratch);
    int64_t next = m.first[1]; /* plane */
    for (int64_t z = box->lo[2]; z < box->hi[2]; z++) {
        for (; next < vp_min64(z + w->f->hi[2] + 1, m.load.in.hi[2]); next++)
            for (int64_t y = m.load.in.lo[1]; y < m.load.in.hi[1]; y++)
                load_row(&m, y, next);
        for (int64_t y = box->lo[1]; y < box->hi[1]; y++) {
            merge_row(&m, y, z);
            if (w->counts)
                vp_sweep_count(&m.made, counted, m.l.count, y, z);
            w->rows->finish(&m.made, vp_part_at(out, w->out_size, box->lo[0], y, z), m.l.state,
                            vp_part_at(in, w->size, box->lo[0], y, z), 1);
        }
    }
}

uint64_t vp_sweep_set_scratch(const struct vp_sweep *w, const struct vp_box *out, int threads)
{
    int64_t side[3];

    split(w, out, threads, side);
    return (uint64_t)layout_of(w, side, NULL).total * (uint64_t)threads;
}

void vp_sweep_set_run(const struct vp_sweep *w, const struct vp_part *in, const struct vp_part *out, void *scratch,
                      int threads)
{
    int64_t side[3];

    assert(!w->edge);
    split(w, &out->box, threads, side);
    const size_t step = layout_of(w, side, NULL).total;
    const int64_t total = vp_box_tiles(&out->box, side);
    #pragma omp parallel num_threads((int)vp_min64(threads, total))
    {
        char *mine = (char *)scratch + step * (size_t)omp_get_thread_num();
        #pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < total; i++) {
            const struct vp_box box = vp_box_tile(&out->box, side, i);
            run_tile(w, in, out, &box, mine);
        }
    }
}
