/* SPDX-License-Identifier: BSD-3-Clause */
/* Convolution by transforms: overlap-save in tiles whose position is fixed relative to the image, not to the box.
 * Spectra, and the tasks of a box; convolve_cells.c and convolve_general.c make the tiles.
 *
 * A tile has tile[] samples; of its product with a kernel (or a piece of one) of piece[] samples the results from piece
 * - 1 on are those of a linear convolution, without wrap-around. Along the first axis (y; z of volumes) columns of real
 * samples are transformed, 16 (or 8, or 4) side by side, then along y of volumes the frequencies of z. For x, blocks of
 * frequencies are transposed, so that rows lie in the lanes, transformed, multiplied, transformed back and transposed
 * back while they are in the first-level cache.
 *
 * Rounding errors of a transform scale with its largest value. So a constant is subtracted first (one for each tile of
 * volumes and grids, one for each VP_RUN tiles side by side of a single kernel's strips, which share columns), and a
 * tile with samples far above the others is computed by vp_convolve_sum(). */
#include "local/convolve_internal.h"

#include "base/err.h"
#include "base/size.h"
#include "base/team.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum { PAST = 64 }; /* floats after a row that may be touched */

/* Returns the sizes of a tile. */
static struct vp_convolve_sizes sizes_of(const struct vp_convolve_cpu *c, int64_t lanes)
{
    struct vp_convolve_sizes s = {.lanes = lanes, .e = 2 * lanes, .blocks = c->tile[0] / lanes,
                                  .half = c->tile[c->first] / 2, .mid = c->first == 2 ? c->tile[1] : 1, .x = c->tile[0]};

    s.groups = (s.half + lanes - 1) / lanes;
    s.rows = s.groups * lanes;
    s.spectrum = s.mid * s.groups * s.x * s.e;
    /* an odd number of cache lines: no two rows in one set of the cache */
    s.load = c->tiles == VP_GENERAL ? (c->tile[0] / 16 | 1) * 16 : (VP_CONVOLVE_CHUNK + 1) * 16;
    return s;
}

static void *take(void *mem, size_t *at, int64_t floats)
{
    return vp_place(mem, at, (size_t)(floats + PAST) * sizeof(float));
}

bool vp_convolve_needs_sum(const struct vp_convolve_params *p)
{
    const struct vp_convolve_cpu *c = p->cpu;

    return c->tiles == VP_GENERAL && p->nodes[0] * p->nodes[1] * c->pieces[0] * c->pieces[1] * c->pieces[2] > 1;
}

/* Fills *w with pointers into mem (NULL: none). Returns the bytes. */
static size_t workspace_layout(struct vp_convolve_work *w, const struct vp_convolve_params *p, void *mem)
{
    const struct vp_convolve_cpu *c = p->cpu;
    const struct vp_convolve_sizes s = sizes_of(c, c->fft->lanes);
    const bool grid = c->tiles == VP_CELLS, general = c->tiles == VP_GENERAL;
    const bool sources = p->weights == VP_WEIGHTS_SOURCE;
    const int64_t f = s.blocks * s.mid * s.rows * s.e, rows = c->tile[c->first];
    size_t at = 0;

    *w = (struct vp_convolve_work){.s = s};
    w->f = take(mem, &at, f);
    w->g[0] = take(mem, &at, general ? 0 : f);
    w->g[1] = take(mem, &at, grid ? f : 0);
    w->x = take(mem, &at, s.x * s.e);
    w->y[0] = take(mem, &at, grid ? s.x * s.e : 0);
    w->y[1] = take(mem, &at, grid ? s.x * s.e : 0);
    w->sum = take(mem, &at, vp_convolve_needs_sum(p) ? s.spectrum : 0);
    w->load = take(mem, &at, rows * s.load);
    w->store[0] = take(mem, &at, rows * s.load);
    w->store[1] = take(mem, &at, grid ? rows * s.load : 0);
    w->most = take(mem, &at, 2 * (general ? rows * s.mid : c->tile[0]));
    w->less = take(mem, &at, 16);
    w->along = take(mem, &at, general ? c->tile[0] : 0);
    if (mem)
        memset(w->less, 0, 16 * sizeof *w->less);
    w->row = take(mem, &at, general ? 0 : rows * (int64_t)(sizeof *w->row / sizeof(float)));
    w->image = take(mem, &at, sources ? c->out[0] * c->out[1] : 0);
    vp_convolve_ones_place(&w->ones, p, mem, &at);
    return vp_round64(at);
}

/* Returns the number of rows of nodes whose spectra are in memory at a time: few, so that they stay in the caches, but
 * more for several threads, which otherwise wait for the rows of tiles before theirs. */
static int64_t node_rows(const struct vp_convolve_params *p, int threads)
{
    const int64_t rows = threads > 1 ? vp_min64(vp_max64(4, threads / 2 + 2), 16) : 2;

    return p->cpu->keeps ? p->nodes[1] : vp_min64(p->nodes[1], rows);
}

/* Returns the bytes of the spectra in the scratch. */
static uint64_t rows_bytes(const struct vp_convolve_params *p, int threads)
{
    const struct vp_convolve_cpu *c = p->cpu;

    if (c->keeps)
        return 0;
    return vp_round64((size_t)(node_rows(p, threads) * p->nodes[0] * sizes_of(c, c->fft->lanes).spectrum) * sizeof(float));
}

uint64_t vp_convolve_fft_scratch(const struct vp_op *op, int threads)
{
    enum { SOME = 1 << 20, LARGE = 4 << 20 }; /* memory of that size gets large pages, without which 5 % are lost */
    struct vp_convolve_work w;
    const uint64_t bytes = workspace_layout(&w, op->params, NULL) * (uint64_t)threads + rows_bytes(op->params, threads);

    return bytes > SOME && bytes < LARGE ? LARGE : bytes;
}

uint64_t vp_convolve_spectra(const struct vp_convolve_params *p)
{
    const struct vp_convolve_cpu *c = p->cpu;
    const struct vp_convolve_sizes s = sizes_of(c, c->fft->lanes);

    return (uint64_t)(p->nodes[0] * p->nodes[1] * c->pieces[0] * c->pieces[1] * c->pieces[2] * s.spectrum) * sizeof(float);
}

/* ---- loops ---- */

struct convolve_turns { void (*turn)(const void *of, struct vp_convolve_work *w, int64_t i); const void *of; };

static void take_turn(const void *ctx, void *thread, int64_t i)
{
    const struct convolve_turns *const t = ctx;

    t->turn(t->of, thread, i);
}

void vp_convolve_together(struct vp_convolve_work *w, int64_t n,
                          void (*turn)(const void *of, struct vp_convolve_work *w, int64_t i), const void *of)
{
    vp_team_run(w->loop, n, take_turn, &(struct convolve_turns){turn, of}, w);
}

/* ---- spectra ---- */

void vp_convolve_along_y(const void *of, struct vp_convolve_work *w, int64_t b)
{
    const struct vp_convolve_along_y *const t = of;
    const struct vp_line_isa *const isa = t->c->fft;

    (t->back ? isa->back : isa->forward)(&t->c->along[1], t->f + b * w->s.mid * w->s.rows * w->s.e, w->s.rows);
}

void vp_convolve_blocks_at(const struct vp_convolve_sizes *s, float *f, int64_t mid, float **at, int64_t blocks)
{
    for (int64_t b = 0; b < blocks; b++)
        at[b] = f + (b * s->mid + mid) * s->rows * s->e;
}

static void spectrum_of(const struct vp_convolve_params *p, struct vp_convolve_work *w, int64_t node,
                        const int64_t piece[3], float *to)
{
    const struct vp_convolve_cpu *c = p->cpu;
    const struct vp_convolve_sizes *s = &w->s;
    const int first = c->first;
    const int64_t rows = c->tile[first];
    const float scale = (float)(1 / ((double)s->half * (double)s->mid * (double)s->x));
    int64_t at[3], n[3];
    float *from[VP_CONVOLVE_MAX_BLOCKS];

    for (int a = 0; a < 3; a++) {
        at[a] = piece[a] * c->piece[a];
        n[a] = vp_min64(c->piece[a], p->n[a] - at[a]);
    }
    const int64_t blocks = (n[0] + s->lanes - 1) / s->lanes, mids = s->mid > 1 ? n[1] : 1, some = VP_CONVOLVE_CHUNK * 16;
    if (s->mid > 1)
        memset(w->f, 0, (size_t)(blocks * s->mid * s->rows * s->e) * sizeof *w->f);
    for (int64_t x = 0; x < n[0]; x += some) {
        const int64_t m = vp_min64(some, n[0] - x), b0 = x / s->lanes, b1 = vp_min64((x + some) / s->lanes, blocks);
        for (int64_t r = 0; r < rows; r++) { /* zeros beside and below the kernel */
            const int64_t i = r < n[first] ? m : 0;
            memset(w->load + r * s->load + i, 0, (size_t)((b1 - b0) * s->lanes - i) * sizeof *w->load);
        }
        for (int64_t mid = 0; mid < mids; mid++) {
            for (int64_t r = 0; r < n[first]; r++) {
                const int64_t y = first == 1 ? r : mid, z = first == 1 ? 0 : r;
                const float *k = p->kernels + ((node * p->n[2] + at[2] + z) * p->n[1] + at[1] + y) * p->n[0] + at[0] + x;
                for (int64_t i = 0; i < m; i++)
                    w->load[r * s->load + i] = k[i] * scale;
            }
            for (int64_t b = b0; b < b1; b++) {
                float *const f = w->f + (b * s->mid + mid) * s->rows * s->e;
                c->fft->columns(&c->along[first], w->load + (b - b0) * s->lanes, s->load, w->less, f);
                memset(f + s->half * s->e, 0, (size_t)((s->rows - s->half) * s->e) * sizeof *f);
            }
        }
        for (int64_t b = b0; b < b1 && s->mid > 1; b++)
            vp_convolve_along_y(&(struct vp_convolve_along_y){c, w->f, false}, w, b);
    }
    for (int64_t mid = 0; mid < s->mid; mid++) {
        vp_convolve_blocks_at(s, w->f, mid, from, blocks);
        for (int64_t g = 0; g < s->groups; g++, to += s->x * s->e) {
            c->fft->gather(to, (const float *const *)from, g * s->lanes, blocks);
            memset(to + blocks * s->lanes * s->e, 0, (size_t)((s->x - blocks * s->lanes) * s->e) * sizeof *to);
            c->fft->forward(&c->along[0], to, 1);
        }
    }
}

/* ---- all of a box ---- */

/* Finds the tiles of cells that intersect the box: a ... b - 1. */
static void cells_of(const struct vp_convolve_cpu *c, const struct vp_box *out, int axis, int64_t *a, int64_t *b)
{
    *a = 0;
    while (c->at[axis][*a + 1] <= out->lo[axis])
        ++*a;
    *b = *a;
    while (*b < c->n_at[axis] && c->at[axis][*b] < out->hi[axis])
        ++*b;
}

/* Pending work of a box: runs of tiles along x. The thread that takes one first makes those spectra that it needs and
 * no thread has begun, so that they are in its caches, then waits for the others. It waits only for tiles taken before
 * its own, so there is no deadlock, and there is no barrier. */
struct convolve_tasks {
    const struct vp_convolve_job *j;
    int64_t from[3], n[3];     /* first tile (cells: its number; general: its voxel); number of tiles */
    int threads;
    bool make;                 /* spectra are still to be made */
    float *spectra;
    int64_t kinds;             /* spectra of a row of nodes */
    int64_t ring;              /* rows of nodes in memory */
    pthread_mutex_t lock;      /* protects the next line */
    int64_t y, z, x, left;     /* next tile; tiles left */
    int64_t *made;             /* state of each spectrum: 0, BEGUN or MADE */
    int64_t *done, tiles;      /* finished tiles of each row of tiles, and of all */
    struct vp_team_loop *loop; /* one for each thread */
};

enum { BEGUN = 1, MADE };

struct convolve_task { int64_t row, i, z, n; };

/* Finds the rows of nodes that row y of tiles needs: v[0] ... v[1]. */
static void rows_of(const struct convolve_tasks *t, int64_t y, int64_t v[2])
{
    const struct vp_convolve_cpu *c = t->j->c;
    const int64_t last = t->j->p->nodes[1] - 1, cell = c->tiles == VP_GENERAL ? 0 : c->cell[1][t->from[1] + y];

    v[0] = vp_max64(cell - 1, 0);
    v[1] = c->tiles == VP_GENERAL ? last : vp_min64(cell, last);
}

static bool next_task(struct convolve_tasks *t, struct convolve_task *k)
{
    pthread_mutex_lock(&t->lock);
    const bool any = t->left > 0;
    if (any) { /* long runs first: they share columns and spectra */
        int64_t n = t->threads > 1 ? t->left / t->threads : t->n[0];
        if (t->threads > 1 && t->ring < t->j->p->nodes[1]) /* all threads are within half of the rows whose spectra are in */
            n = vp_min64(n, t->n[0] * t->n[2] * (t->ring - 3) / t->threads / 2); /* memory: one may be late by the others */
        n = t->j->c->tiles == VP_GENERAL ? 1 : vp_min64(vp_max64(n, 1), t->n[0] - t->x);
        *k = (struct convolve_task){.row = t->y, .i = t->x, .z = t->z, .n = n};
        t->left -= n;
        t->x += n;
        if (t->x == t->n[0]) {
            t->x = 0;
            t->z++;
        }
        if (t->z == t->n[2]) {
            t->z = 0;
            t->y++;
        }
    }
    pthread_mutex_unlock(&t->lock);
    return any;
}

/* Waits until *count has reached n, and meanwhile takes turns of other threads' loops with the memory w. */
static void await_count(struct convolve_tasks *t, struct vp_convolve_work *w, const int64_t *count, int64_t n)
{
    for (int64_t idle = 0; __atomic_load_n(count, __ATOMIC_ACQUIRE) < n;) {
        idle = vp_team_help(t->loop, t->threads, w) ? 0 : idle + 1;
        vp_team_pause(idle);
    }
}

static void make_spectrum(struct convolve_tasks *t, struct vp_convolve_work *w, int64_t row, int64_t i)
{
    const struct vp_convolve_params *p = t->j->p;
    const int64_t *pieces = t->j->c->pieces, some = pieces[0] * pieces[1] * pieces[2], q = i % some;
    int64_t v[2];

    for (int64_t y = 0; y < t->n[1] && row >= t->ring; y++) { /* users of the spectra that it replaces */
        rows_of(t, y, v);
        if (v[0] > row - t->ring)
            break;
        await_count(t, w, &t->done[y], t->n[0] * t->n[2]);
    }
    spectrum_of(p, w, row * p->nodes[0] + i / some,
                (const int64_t[3]){q % pieces[0], q / pieces[0] % pieces[1], q / pieces[0] / pieces[1]},
                t->spectra + (row % t->ring * t->kinds + i) * w->s.spectrum);
}

/* Makes spectra a ... b of rows v[0] ... v[1] of nodes, except those that other threads have begun. */
static void make_spectra(struct convolve_tasks *t, struct vp_convolve_work *w, const int64_t v[2], int64_t a, int64_t b)
{
    for (int64_t row = v[0]; row <= v[1]; row++)
        for (int64_t i = a; i <= b; i++) {
            int64_t *const made = &t->made[row * t->kinds + i], none = 0;
            if (__atomic_compare_exchange_n(made, &none, BEGUN, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
                make_spectrum(t, w, row, i);
                __atomic_store_n(made, MADE, __ATOMIC_RELEASE);
            }
        }
}

/* Waits for those of nodes u[0] ... u[1]: a tile waits for its own only, since the others may still be in the making. */
static void await_spectra(struct vp_convolve_work *w, const int64_t u[2], const int64_t v[2])
{
    struct convolve_tasks *const t = w->tasks;
    const int64_t some = t->kinds / t->j->p->nodes[0]; /* pieces of a kernel */

    for (int64_t row = v[0]; row <= v[1]; row++)
        for (int64_t i = u[0] * some; i < (u[1] + 1) * some; i++)
            await_count(t, w, &t->made[row * t->kinds + i], MADE);
}

static int do_tiles(struct convolve_tasks *t, struct vp_convolve_work *w, const struct convolve_task *k,
                    struct vp_err *err)
{
    const struct vp_convolve_job *j = t->j;
    const struct vp_convolve_cpu *c = j->c;
    const int64_t x = t->from[0] + k->i, y = t->from[1] + k->row, z = t->from[2] + k->z;
    const bool cut = c->tiles != VP_GENERAL;
    const int64_t all[2] = {0, j->p->nodes[0] - 1};
    int64_t v[2];
    int rc;

    rows_of(t, k->row, v);
    if (t->make)
        make_spectra(t, w, v, cut ? vp_max64(c->cell[0][x] - 1, 0) : 0,
                     cut ? vp_min64(c->cell[0][x + k->n - 1], t->kinds - 1) : t->kinds - 1);
    if (t->make && !cut)
        await_spectra(w, all, v);
    if (cut) {
        rc = vp_convolve_cells(j, w, x, x + k->n, y, z, err);
    } else {
        const int64_t at[3] = {t->from[0] + k->i * c->out[0], t->from[1] + k->row * c->out[1], t->from[2] + k->z * c->out[2]};
        rc = vp_convolve_general(j, w, at, err);
    }
    __atomic_add_fetch(&t->done[k->row], k->n, __ATOMIC_RELEASE);
    __atomic_add_fetch(&t->tiles, k->n, __ATOMIC_RELAXED);
    return rc;
}

/* Runs turns of other threads' loops until all tiles are done, or there has been none for some milliseconds. */
static void help(struct convolve_tasks *t, struct vp_convolve_work *w)
{
    enum { ENOUGH = 20000 };
    const int64_t all = t->n[0] * t->n[1] * t->n[2];

    for (int idle = 0; idle < ENOUGH && __atomic_load_n(&t->tiles, __ATOMIC_RELAXED) < all;) {
        idle = vp_team_help(t->loop, t->threads, w) ? 0 : idle + 1;
        vp_team_pause(idle);
    }
}

static int run_tasks(struct convolve_tasks *t, char *scratch, size_t bytes, struct vp_err *err)
{
    const struct vp_convolve_params *p = t->j->p;
    const int64_t rows[2] = {0, p->nodes[1] - 1};
    int rc = 0;

    t->left = t->n[0] * t->n[1] * t->n[2];
    t->made = vp_alloc((size_t)(p->nodes[1] * t->kinds + t->n[1]), sizeof *t->made, "a list of tiles", err);
    t->loop = vp_alloc((size_t)t->threads, sizeof *t->loop, "a list of loops", err);
    if (!t->made || !t->loop) {
        free(t->made);
        free(t->loop);
        return -1;
    }
    t->done = t->made + p->nodes[1] * t->kinds;
    pthread_mutex_init(&t->lock, NULL);
    #pragma omp parallel num_threads(t->threads)
    {
        struct vp_err own = VP_ERR_INIT;
        struct convolve_task task;
        struct vp_convolve_work w;
        workspace_layout(&w, p, scratch + (size_t)omp_get_thread_num() * bytes);
        w.spectra = t->spectra;
        w.node_rows = t->ring;
        w.loop = t->threads > 1 ? &t->loop[omp_get_thread_num()] : NULL;
        w.await = t->make ? await_spectra : NULL;
        w.tasks = t;
        while (next_task(t, &task))
            if (do_tiles(t, &w, &task, &own)) {
                vp_err_keep(err, &own);
                #pragma omp atomic write
                rc = -1;
            }
        if (t->make && t->ring == p->nodes[1]) /* all, since they stay: later boxes need the others */
            make_spectra(t, &w, rows, 0, t->kinds - 1);
        if (t->threads > 1)
            help(t, &w);
    }
    pthread_mutex_destroy(&t->lock);
    free(t->loop);
    free(t->made);
    return rc;
}

/* Runs the tasks with spectra that stay: the first call makes them. */
static int run_keeping(struct convolve_tasks *t, char *scratch, size_t bytes, struct vp_err *err)
{
    struct vp_convolve_cpu *c = t->j->p->cpu;
    int rc = 0;

    pthread_mutex_lock(&c->lock);
    const bool make = t->make = !c->made;
    if (!c->spectra)
        c->spectra = vp_alloc_raw(1, (size_t)vp_convolve_spectra(t->j->p), "the kernels' transforms", err);
    t->spectra = c->spectra;
    if (!make)
        pthread_mutex_unlock(&c->lock);
    rc = t->spectra ? run_tasks(t, scratch, bytes, err) : -1;
    if (make) {
        c->made = !rc;
        pthread_mutex_unlock(&c->lock);
    }
    return rc;
}

int vp_convolve_fft(struct vp_convolve_job *j, void *scratch, int threads, struct vp_err *err)
{
    const struct vp_convolve_params *p = j->p;
    const struct vp_convolve_cpu *c = j->c;
    const struct vp_box *out = &j->out->box;
    struct vp_convolve_work ignored;
    const size_t bytes = workspace_layout(&ignored, p, NULL);
    struct convolve_tasks t = {.j = j, .from = {out->lo[0], out->lo[1], out->lo[2]}, .threads = threads, .ring = node_rows(p, threads),
                      .kinds = p->nodes[0] * c->pieces[0] * c->pieces[1] * c->pieces[2]};

    for (int a = 0; a < 3; a++)
        t.n[a] = (vp_box_size(out, a) + c->out[a] - 1) / c->out[a];
    for (int a = 0; c->tiles != VP_GENERAL && a < 2; a++) {
        cells_of(c, out, a, &t.from[a], &t.n[a]);
        t.n[a] -= t.from[a];
    }
    if (c->keeps)
        return run_keeping(&t, scratch, bytes, err);
    t.make = true;
    t.spectra = scratch;
    return run_tasks(&t, (char *)scratch + rows_bytes(p, threads), bytes, err);
}
