/* SPDX-License-Identifier: BSD-3-Clause */
/* Median and percentiles, by three methods with the same result:
 *
 * - network: windows of moderate size by selection networks over many voxels of a row at once (rank_network.c). Boxes
 *   march along y in strips of x: each row of a box is sorted once and merged into all windows that contain it.
 *   A box clipped in y or z is a smaller box with a network of its own. In x it is padded with samples below and above
 *   all others, in numbers that map the full box's rank to that of the clipped one: column c outside the image gets
 *   rank(full less c - 1 columns) - rank(full less c columns) low samples, spread over rows and planes with the period
 *   of the box so that every window that contains the column contains that number. A ball is padded wherever it is
 *   clipped (ball_rows). Of a set of offsets only windows inside the image are made so, those at edges by the third.
 * - columns: large boxes of u8 by a histogram for every column of the box, moved along y, and their sum, moved along x.
 * - moving: any window by a histogram that moves along x (rank_moving.c). */
#include "local/rank.h"

#include "base/err.h"
#include "base/isa.h"
#include "base/size.h"
#include "local/rank_internal.h"
#include "engine/chain.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TAPS_MAX = 1200,         /* maximum steps of a network */
    CACHE = 512 * 1024,      /* bytes for registers: the L2 cache */
    ROWS = 64,               /* voxels of a unit of work */
    AHEAD = 4,               /* rows prefetched ahead */
    LINE = 64                /* bytes of a cache line */
};

/* Program with operands in bytes. */
struct code { int64_t n, cost; struct vp_rank_op *op; };

enum method { METHOD_BOX, METHOD_BALL, METHOD_SET, METHOD_COLUMNS, METHOD_MOVING };
static const char *const METHOD_NAME[] = {"network", "network", "network", "column histograms", "moving histogram"};

struct vp_rank_cpu {
    const struct vp_rank_isa *isa;
    enum method method;
    int size;                    /* bytes of a sample */
    int width, height, depth;    /* size of the unclipped box */
    int tile;                    /* windows along y made together */
    int vectors;                 /* vectors of a register */
    int registers;               /* in file 0 */
    size_t stride;               /* bytes of a register */
    struct code *code;           /* code_at() */
    int64_t codes;
};

/* ---- networks into code ---- */

static uint32_t place_of(const struct vp_rank_cpu *c, struct vp_rank_place p)
{
    return (uint32_t)p.file << VP_RANK_FILE | (uint32_t)((size_t)p.reg * c->stride + (size_t)(p.dx * c->size));
}

/* Returns the program for boxes of height h and depth d: a sorted slab (h = 0), one window of slabs, or (h = height +
 * 1) a tile of windows not clipped in y. Balls have one program, the first. */
static struct code *code_at(const struct vp_rank_cpu *c, int64_t d, int64_t h)
{
    return &c->code[(d - 1) * (c->height + 2) + h];
}

/* Returns the slots for sorted rows: those of a tile of windows. */
static int slots(const struct vp_rank_cpu *c)
{
    return c->height + c->tile - 1;
}

/* Returns the vectors of a register: many, but limited by a row and the cache. */
static void set_vectors(struct vp_rank_cpu *c, int64_t registers, int64_t nx)
{
    static const int made[] = {12, 9, 8, 6, 5, 4, 3, 2, 1};
    const int bytes = c->isa->bytes, lanes = bytes / c->size;
    double best = INFINITY;

    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        const int64_t out = made[i] * lanes - (c->width - 1);
        if (out < 1 || (out < c->width && made[i] < VP_RANK_VECTORS))
            continue;
        const int64_t strips = (nx + out - 1) / out;
        /* overhead of a step: about three vectors; beyond the cache all is slower */
        const bool fits = registers * made[i] * bytes <= CACHE;
        const double cost = (double)strips * (made[i] + 3) * (fits ? 1 : 2);
        if (cost < best) {
            best = cost;
            c->vectors = made[i];
        }
    }
    c->stride = (size_t)(c->vectors * bytes);
}

/* Converts programs to code, with registers of the best length; `others`: registers in other files. */
static int translate(struct vp_rank_cpu *c, const struct vp_rank_program *program, int64_t others, int64_t nx)
{
    for (int64_t i = 0; i < c->codes; i++)
        c->registers = (int)vp_max64(c->registers, program[i].registers);
    set_vectors(c, c->registers + others, nx);
    for (int64_t i = 0; i < c->codes; i++) {
        const struct vp_rank_program *p = &program[i];
        struct code *code = &c->code[i];
        *code = (struct code){p->n, p->cost, malloc((size_t)(p->n + 1) * sizeof *code->op)};
        if (!code->op)
            return -1;
        for (int64_t k = 0; k < p->n; k++) {
            const struct vp_rank_step *s = &p->step[k];
            code->op[k] = (struct vp_rank_op){s->kind, place_of(c, s->a), place_of(c, s->b), place_of(c, s->lo),
                                              place_of(c, s->hi)};
        }
    }
    return 0;
}

/* Makes all programs for windows of this box in an image. */
static int make_box(struct vp_rank_cpu *c, struct vp_rank_program *all, const struct vp_rank_params *p,
                    const int64_t image[3])
{
    const int64_t h_min = vp_min64((c->height + 1) / 2, image[1]), h_max = vp_min64(c->height, image[1]);
    const bool known = image[2] != VP_UNKNOWN;
    const int64_t d_min = known ? vp_min64((c->depth + 1) / 2, image[2]) : 1;
    const int64_t d_max = known ? vp_min64(c->depth, image[2]) : c->depth;

    /* tile with the cheapest windows */
    double best = INFINITY;
    for (int tile = 1; h_max == c->height && tile <= 8 && tile <= c->height; tile *= 2) {
        struct vp_rank_program trial = {0};
        if (vp_rank_join(&trial, c->width * (int)d_max, c->height, tile,
                         vp_rank_index(p->millionths, c->width * c->height * d_max)))
            return -1;
        if ((double)trial.cost / tile < best) {
            best = (double)trial.cost / tile;
            c->tile = tile;
        }
        vp_rank_program_free(&trial);
    }
    for (int64_t d = d_min; d <= d_max; d++) {
        struct vp_rank_program *of = all + (code_at(c, d, 0) - c->code);
        const int slab = c->width * (int)d;
        if (vp_rank_slab(&of[0], c->width, (int)d))
            return -1;
        for (int64_t h = h_min; h <= h_max; h++)
            if (vp_rank_join(&of[h], slab, (int)h, 1, vp_rank_index(p->millionths, slab * h)))
                return -1;
        if (h_max == c->height && c->tile > 1
            && vp_rank_join(&of[c->height + 1], slab, c->height, c->tile,
                            vp_rank_index(p->millionths, slab * c->height)))
            return -1;
    }
    return translate(c, all, (int64_t)slots(c) * c->width * c->depth + c->tile, image[0]);
}

/* Returns nanoseconds of a core for a voxel. */
static double cost_of(const struct vp_rank_params *p)
{
    const struct vp_rank_cpu *c = p->cpu;
    double steps = 0;

    /* minimum; the search in sparse histograms of 16 bits or floats takes up to 150 more */
    if (c->method == METHOD_MOVING)
        return (p->type == VP_U8 ? 50 : 150) + 1.6 * (double)vp_footprint_rows(&p->f);
    if (c->method == METHOD_COLUMNS)
        return 30 + 4.0 * (double)(2 * p->f.reach[2] + 1);
    for (int d = 1; d <= c->depth; d++)
        if (code_at(c, d, 0)->n)
            steps = (double)code_at(c, d, 0)->cost
                  + (c->tile > 1 ? (double)code_at(c, d, c->height + 1)->cost / c->tile
                                 : (double)code_at(c, d, c->height)->cost);
    return 0.5 + 0.5 * steps * (1 + 2.0 / c->vectors) * c->size / c->isa->bytes;
}

/* Allocates and makes all programs. */
static int make_network(struct vp_rank_cpu *c, const struct vp_rank_params *p, const int64_t image[3])
{
    int rc = -1;

    c->codes = (int64_t)c->depth * (c->height + 2);
    c->code = calloc((size_t)c->codes, sizeof *c->code);
    struct vp_rank_program *const all = calloc((size_t)c->codes, sizeof *all);
    if (c->code && all && c->method == METHOD_BOX)
        rc = make_box(c, all, p, image);
    else if (c->code && all && !vp_rank_rows(&all[0], &p->f, vp_rank_index(p->millionths, p->f.count)))
        rc = translate(c, all, 1, image[0]);
    for (int64_t i = 0; all && i < c->codes; i++)
        vp_rank_program_free(&all[i]);
    free(all);
    return rc;
}

static void free_network(struct vp_rank_cpu *c)
{
    for (int64_t i = 0; c->code && i < c->codes; i++)
        free(c->code[i].op);
    free(c->code);
    c->code = NULL;
    c->codes = 0;
}

static void free_params(void *params)
{
    struct vp_rank_params *const p = params;

    if (p->cpu)
        free_network(p->cpu);
    free(p->cpu);
    vp_footprint_op_free(p);
}

/* ---- samples ---- */

/* Returns the lowest or the highest key. */
static void put_end(char *to, enum vp_type type, bool high)
{
    if (type == VP_F64)
        *(int64_t *)(void *)to = high ? INT64_MAX : INT64_MIN;
    else if (vp_rank_is_sorted(type))
        *(int32_t *)(void *)to = high ? INT32_MAX : INT32_MIN;
    else
        vp_rank_put(to, (int32_t)(high ? vp_type_max(type) : vp_type_min(type)), type);
}

struct strip {
    const struct vp_rank_params *p;
    const struct vp_rank_cpu *c;
    const struct vp_part *in, *out;
    const int64_t *image;
    int64_t x;                /* first voxel made */
    int64_t n;                /* number of voxels */
    char *base[256];          /* the files */
    char *file0, *slot, *result;
    int32_t *low;             /* set_low(), set_rings() */
    struct vp_rank_column *column;
    int32_t *rank;            /* rank for each number of columns */
};

/* Prefetches the next row: strips are too short for the hardware prefetcher. */
static void fetch(const char *at, int64_t bytes, bool write)
{
    for (int64_t i = 0; i < bytes; i += LINE) {
        if (write)
            __builtin_prefetch(at + i, 1);
        else
            __builtin_prefetch(at + i, 0);
    }
}

/* Loads the samples from x - reach on of an input row as keys, up to a register, inside the image. */
static void load(const struct strip *s, char *to, int64_t y, int64_t z)
{
    const struct vp_rank_cpu *c = s->c;
    const int64_t reach = s->p->f.reach[0], first = s->x - reach;
    const int64_t from = vp_max64(first, s->in->box.lo[0]), to_x = vp_min64(s->x + s->n + reach, s->in->box.hi[0]);
    const char *row = vp_part_at(s->in, (size_t)c->size, from, y, z);
    char *at = to + (from - first) * c->size;

    if (y + AHEAD < s->in->box.hi[1])
        fetch(row + (size_t)(AHEAD * s->in->stride) * (size_t)c->size, (to_x - from) * c->size, false);
    if (c->isa->to_keys[s->p->type])
        c->isa->to_keys[s->p->type](at, row, to_x - from);
    else
        memcpy(at, row, (size_t)((to_x - from) * c->size));
}

/* Fills column c outside the image, on both sides of a row within reach of windows, with the lowest or the highest key. */
static void put_ends(const struct strip *s, char *row, int64_t c, bool high)
{
    const int64_t first = s->x - s->p->f.reach[0], end = s->x + s->n + s->p->f.reach[0], right = s->image[0] - 1 + c;

    if (-c >= first)
        put_end(row + (-c - first) * s->c->size, s->p->type, high);
    if (right < end)
        put_end(row + (right - first) * s->c->size, s->p->type, high);
}

static void save(const struct strip *s, int64_t y, int64_t z, const char *from)
{
    char *to = vp_part_at(s->out, (size_t)s->c->size, s->x, y, z);

    if (y + AHEAD < s->out->box.hi[1])
        fetch(to + (size_t)(AHEAD * s->out->stride) * (size_t)s->c->size, s->n * s->c->size, true);
    if (s->c->isa->from_keys[s->p->type])
        s->c->isa->from_keys[s->p->type](to, from, s->n);
    else
        memcpy(to, from, (size_t)(s->n * s->c->size));
}

/* ---- boxes by networks ---- */

/* Computes the number of low samples in each column outside a box of height h and depth d. */
static void set_low(const struct strip *s, int64_t h, int64_t d)
{
    const int64_t column = h * d, *const reach = s->p->f.reach;

    for (int64_t i = 0; i < reach[0]; i++)
        s->low[i] = (int32_t)(vp_rank_index(s->p->millionths, (s->c->width - i) * column)
                              - vp_rank_index(s->p->millionths, (s->c->width - i - 1) * column));
}

/* Sorts row y of the box z0 ... z0 + d - 1 into a slot. */
static void sort_row(struct strip *s, int64_t y, int64_t z0, int64_t h, int64_t d, int slot)
{
    const struct vp_rank_cpu *c = s->c;
    const size_t slab = (size_t)(c->width * c->depth) * c->stride;
    const struct code *code = code_at(c, d, 0);
    char *const base[] = {s->file0, s->slot + (size_t)slot * slab};

    for (int64_t z = 0; z < d; z++) {
        char *const row = s->file0 + (size_t)z * c->stride;
        load(s, row, y, z0 + z);
        for (int64_t k = 1; k <= s->p->f.reach[0]; k++)
            put_ends(s, row, k, y % h * d + z >= s->low[k - 1]);
    }
    c->isa->run[s->p->type](code->op, code->n, base, c->vectors);
}

/* Makes the `tile` windows over the slabs in slots first, first + 1, ... of a ring. */
static void join_rows(struct strip *s, const struct code *code, int64_t h, int tile, int first)
{
    const struct vp_rank_cpu *c = s->c;
    const size_t slab = (size_t)(c->width * c->depth) * c->stride;
    const int ring = slots(c);

    s->base[0] = s->file0;
    for (int i = 0; i < h + tile - 1; i++)
        s->base[1 + i] = s->slot + (size_t)((first + i) % ring) * slab;
    s->base[h + tile] = s->result;
    c->isa->run[s->p->type](code->op, code->n, s->base, c->vectors);
}

/* Makes a strip of x, rows y0 ... y1 - 1 of plane z. */
static void box_rows(struct strip *s, int64_t y0, int64_t y1, int64_t z)
{
    const struct vp_rank_cpu *c = s->c;
    const int64_t *reach = s->p->f.reach, ny = s->image[1];
    const int64_t z0 = vp_max64(z - reach[2], 0), d = vp_min64(z + reach[2], s->image[2] - 1) - z0 + 1;
    const int ring = slots(c);
    int64_t height = 0, ready = 0; /* rows below this are sorted for boxes of that height, row r in slot r % ring */

    for (int64_t y = y0; y < y1;) {
        const int64_t first = vp_max64(y - reach[1], 0), h = vp_min64(y + reach[1], ny - 1) - first + 1;
        const int tile = h == c->height && vp_min64(y1, ny - reach[1]) - y >= c->tile ? c->tile : 1;
        if (h != height) { /* its slabs have other padding */
            set_low(s, h, d);
            height = h;
            ready = first;
        }
        for (; ready < first + h + tile - 1; ready++)
            sort_row(s, ready, z0, h, d, (int)(ready % ring));
        join_rows(s, code_at(c, d, tile > 1 ? h + 1 : h), h, tile, (int)(first % ring));
        for (int i = 0; i < tile; i++)
            save(s, y++, z, s->result + (size_t)i * c->stride);
    }
}

/* ---- balls by networks ---- */

static bool is_there(const struct strip *s, const struct vp_span *span, int64_t y, int64_t z)
{
    y += span->dy;
    z += span->dz;
    return y >= 0 && y < s->image[1] && z >= 0 && z < s->image[2];
}

/* Computes low[]: a window whose voxel is e from the last column lacks, in each row of half length h > e, one sample
 * more than the window of the next voxel inwards, the padding of column h - e outside. low[e] of these are low, so that
 * the ranks agree. Returns the number of low samples that all rows outside the image have together. */
static int64_t set_rings(const struct strip *s, int64_t y, int64_t z)
{
    const struct vp_footprint *f = &s->p->f;
    int64_t n = 0;

    memset(s->low, 0, (size_t)f->reach[0] * sizeof *s->low);
    for (int64_t i = 0; i < f->spans; i++)
        if (is_there(s, &f->span[i], y, z)) {
            n += 2 * f->span[i].x1 + 1;
            for (int64_t e = 0; e < f->span[i].x1; e++)
                s->low[e]++;
        }
    const int64_t all = n;
    for (int64_t e = f->reach[0] - 1; e >= 0; e--) {
        const int64_t rank = vp_rank_index(s->p->millionths, n);
        n -= s->low[e];
        s->low[e] = (int32_t)(rank - vp_rank_index(s->p->millionths, n));
    }
    return vp_rank_index(s->p->millionths, f->count) - vp_rank_index(s->p->millionths, all);
}

/* Fills a row outside the image such that any `length` consecutive samples contain `low` low ones. */
static void make_up(const struct strip *s, char *to, int64_t length, int64_t low)
{
    const int64_t size = s->c->size, end = (s->n + 2 * s->p->f.reach[0]) * size;

    for (int64_t i = 0; i < length; i++)
        put_end(to + i * size, s->p->type, i >= low);
    for (int64_t made = length * size; made < end; made *= 2)
        memcpy(to + made, to, (size_t)vp_min64(made, end - made));
}

static void ball_rows(struct strip *s, int64_t y0, int64_t y1, int64_t z)
{
    const struct vp_rank_cpu *c = s->c;
    const struct vp_footprint *f = &s->p->f;
    char *const base[] = {s->file0, s->result};

    for (int64_t y = y0; y < y1; y++) {
        int64_t left = set_rings(s, y, z);
        for (int64_t i = 0; i < f->spans; i++) {
            const struct vp_span *span = &f->span[i];
            char *const row = s->file0 + (size_t)i * c->stride;
            const int64_t length = 2 * span->x1 + 1, low = vp_min64(left, length);
            if (!is_there(s, span, y, z)) {
                make_up(s, row, length, low);
                left -= low;
                continue;
            }
            load(s, row, y + span->dy, z + span->dz);
            for (int64_t k = span->x1; k > 0; k--)
                put_ends(s, row, k, s->low[span->x1 - k]-- <= 0);
        }
        c->isa->run[s->p->type](c->code[0].op, c->code[0].n, base, c->vectors);
        save(s, y, z, s->result);
    }
}

/* ---- sets by networks ---- */

static void set_rows(struct strip *s, int64_t y0, int64_t y1, int64_t z)
{
    const struct vp_rank_cpu *c = s->c;
    const struct vp_footprint *f = &s->p->f;
    char *const base[] = {s->file0, s->result};

    for (int64_t y = y0; y < y1; y++) {
        for (int64_t i = 0; i < f->spans; i++)
            load(s, s->file0 + (size_t)i * c->stride, y + f->span[i].dy, z + f->span[i].dz);
        c->isa->run[s->p->type](c->code[0].op, c->code[0].n, base, c->vectors);
        save(s, y, z, s->result);
    }
}

/* ---- large boxes of u8 ---- */

enum { COLUMNS = 512 };

/* Adds (by = 1) or removes (by = -1) the samples of row y under the windows of plane z, in columns x0 ... x1 - 1. */
static void count_row(const struct strip *s, int64_t x0, int64_t x1, int64_t y, int64_t z, int by)
{
    const int64_t reach = s->p->f.reach[2];

    for (int64_t at = vp_max64(z - reach, 0); at <= vp_min64(z + reach, s->image[2] - 1); at++) {
        const uint8_t *row = vp_part_at(s->in, 1, x0, y, at);
        for (int64_t i = 0; i < x1 - x0; i++) {
            s->column[i].fine[row[i]] += (uint16_t)by;
            s->column[i].coarse[row[i] / 16] += (uint16_t)by;
        }
    }
}

static void column_rows(struct strip *s, int64_t y0, int64_t y1, int64_t z)
{
    const int64_t *reach = s->p->f.reach, *n = s->image;
    const int64_t x0 = vp_max64(s->x - reach[0], 0), x1 = vp_min64(s->x + s->n + reach[0], n[0]);
    const int64_t depth = vp_min64(z + reach[2], n[2] - 1) - vp_max64(z - reach[2], 0) + 1;
    int64_t top = vp_max64(y0 - reach[1], 0), end = top; /* rows that are counted */

    memset(s->column, 0, (size_t)(x1 - x0) * sizeof *s->column);
    for (int64_t y = y0; y < y1; y++) {
        for (; top < y - reach[1]; top++)
            count_row(s, x0, x1, top, z, -1);
        for (; end <= vp_min64(y + reach[1], n[1] - 1); end++)
            count_row(s, x0, x1, end, z, 1);
        for (int64_t c = 1; c <= 2 * reach[0] + 1; c++)
            s->rank[c] = (int32_t)vp_rank_index(s->p->millionths, c * depth * (end - top));
        s->c->isa->columns(vp_part_at(s->out, 1, s->x, y, z), s->n, s->column, x1 - x0, s->x - x0, reach[0], s->rank);
    }
}

/* ---- scratch ---- */

/* Returns the voxels of a row made together. */
static int64_t strip_length(const struct vp_rank_params *p)
{
    const struct vp_rank_cpu *c = p->cpu;

    if (c->method == METHOD_COLUMNS)
        return vp_max64(COLUMNS, 4 * p->f.reach[0]);
    return c->vectors * (c->isa->bytes / c->size) - (c->width - 1);
}

/* Returns the bytes of a thread. */
static size_t workspace_layout(struct strip *s, const struct vp_rank_params *p, void *mem)
{
    const struct vp_rank_cpu *c = p->cpu;
    const size_t slack = (size_t)(c->width * c->size); /* read, but not used, by operands that begin later */
    size_t bytes = 0;

    if (c->method == METHOD_COLUMNS) {
        s->column = vp_place(mem, &bytes, (size_t)(strip_length(p) + 2 * p->f.reach[0]) * sizeof *s->column);
        s->rank = vp_place(mem, &bytes, (size_t)(2 * p->f.reach[0] + 2) * sizeof *s->rank);
        return bytes;
    }
    s->file0 = vp_place(mem, &bytes, (size_t)c->registers * c->stride + slack);
    if (c->method == METHOD_BOX)
        s->slot = vp_place(mem, &bytes, (size_t)(slots(c) * c->width * c->depth) * c->stride + slack);
    s->result = vp_place(mem, &bytes, (size_t)c->tile * c->stride);
    s->low = vp_place(mem, &bytes, (size_t)p->f.reach[0] * sizeof *s->low);
    return bytes;
}

static uint64_t scratch(const struct vp_op *op, const struct vp_box *in, const struct vp_box *out, int threads)
{
    const struct vp_rank_params *p = op->params;
    const enum method method = p->cpu->method;
    struct strip s;
    const uint64_t moving = method == METHOD_MOVING || method == METHOD_SET ? vp_rank_moving_bytes(op, in, out) : 0;
    const uint64_t strips = method == METHOD_MOVING ? 0 : workspace_layout(&s, p, NULL);

    return (moving > strips ? moving : strips) * (uint64_t)threads;
}

/* ---- run ---- */

static void run_strips(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out,
                       const struct vp_box *box, char *mem, int threads)
{
    const struct vp_rank_params *p = op->params;
    const struct vp_rank_cpu *c = p->cpu;
    const int64_t length = strip_length(p), strips = vp_div_up(vp_box_size(box, 0), length);
    /* whole columns of rows, if there are enough for all threads: the first rows of each piece are sorted again */
    const int64_t least = c->method == METHOD_COLUMNS ? vp_max64(ROWS, 8 * p->f.reach[1]) : ROWS;
    const bool enough = strips * vp_box_size(box, 2) >= 8 * threads;
    const int64_t side[3] = {length, enough ? vp_box_size(box, 1) : least, 1}, n = vp_box_tiles(box, side);
    const size_t bytes = workspace_layout(&(struct strip){0}, p, NULL);

    #pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (int64_t u = 0; u < n; u++) {
        const struct vp_box t = vp_box_tile(box, side, u);
        struct strip s = {.p = p, .c = c, .in = in, .out = out, .image = op->image, .x = t.lo[0],
                          .n = vp_box_size(&t, 0)};
        workspace_layout(&s, p, mem + (size_t)omp_get_thread_num() * bytes);
        if (c->method == METHOD_COLUMNS)
            column_rows(&s, t.lo[1], t.hi[1], t.lo[2]);
        else if (c->method == METHOD_BOX)
            box_rows(&s, t.lo[1], t.hi[1], t.lo[2]);
        else if (c->method == METHOD_SET)
            set_rows(&s, t.lo[1], t.hi[1], t.lo[2]);
        else
            ball_rows(&s, t.lo[1], t.hi[1], t.lo[2]);
    }
}

/* Makes the voxels whose windows lie in the image by the network, and the frame around them by the histogram. */
static void run_set(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, char *mem, int threads)
{
    const struct vp_footprint *f = op->params;
    struct vp_box left = out->box;

    for (int a = 2; a >= 0; a--) { /* a box on each side, as long as there is something between them */
        const int64_t lo = vp_min64(vp_max64(left.lo[a], -f->lo[a]), left.hi[a]);
        const int64_t hi = vp_max64(vp_min64(left.hi[a], op->image[a] - f->hi[a]), lo);
        struct vp_box below = left, above = left;
        below.hi[a] = left.lo[a] = lo;
        above.lo[a] = left.hi[a] = hi;
        if (vp_box_size(&below, a) > 0)
            vp_rank_moving_run(op, in, out, &below, mem, threads);
        if (vp_box_size(&above, a) > 0)
            vp_rank_moving_run(op, in, out, &above, mem, threads);
        if (vp_box_size(&left, a) <= 0)
            return;
    }
    run_strips(op, in, out, &left, mem, threads);
}

static int run(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, void *mem, int threads,
               struct vp_err *err)
{
    const struct vp_rank_params *p = op->params;

    (void)err;
    if (p->cpu->method == METHOD_SET)
        run_set(op, in, out, mem, threads);
    else
        (p->cpu->method == METHOD_MOVING ? vp_rank_moving_run : run_strips)(op, in, out, &out->box, mem, threads);
    return 0;
}

/* ---- make ---- */

/* Chooses a network where it is faster, else the moving histogram. */
static int choose(struct vp_rank_params *p, const int64_t image[3], bool moving, struct vp_err *err)
{
    struct vp_rank_cpu *c = p->cpu;
    c->isa = VP_ISA_FIND(vp_rank, NULL);
    c->size = (int)vp_type_size(p->type);
    const int64_t w = 2 * p->f.reach[0] + 1, h = 2 * p->f.reach[1] + 1, d = 2 * p->f.reach[2] + 1;
    const bool box = p->f.shape == VP_BOX;
    const int64_t lanes = VP_RANK_VECTORS * (c->isa->bytes / c->size);

    c->method = METHOD_MOVING;
    if (moving)
        return 0;
    double other = cost_of(p);
    if (box && p->type == VP_U8 && p->f.count <= UINT16_MAX) {
        c->method = METHOD_COLUMNS;
        if (cost_of(p) > other)
            c->method = METHOD_MOVING;
        else
            other = cost_of(p);
    }
    const enum method without = c->method;
    if (p->f.count > TAPS_MAX || w > lanes / 2 || w > image[0] || h > 200 || d > 200)
        return 0;
    c->method = box ? METHOD_BOX : p->f.shape == VP_BALL ? METHOD_BALL : METHOD_SET;
    c->tile = 1;
    c->width = (int)w;
    c->height = box ? (int)h : 1;
    c->depth = box ? (int)d : 1;
    if (make_network(c, p, image))
        return vp_fail(err, VP_ERESOURCE, "out of memory: a selection network");
    if (cost_of(p) > other) {
        c->method = without;
        free_network(c);
    }
    return 0;
}

int vp_rank_local(struct vp_op *op, double percentile, const struct vp_footprint *f, const int64_t image[3],
                  enum vp_type type, bool moving, struct vp_err *err)
{
    char shape[96];

    if (!((VP_RANK_TYPES | VP_TYPES_WIDE) & 1u << type))
        return vp_fail(err, VP_EUSAGE, "median and percentiles take u8, u16, u32, i16, i32, f32 and f64, not %s",
                       vp_type_name(type));
    if (!(percentile >= 0 && percentile <= 100))
        return vp_fail(err, VP_EUSAGE, "percentile: expected 0 to 100, got %g", percentile);
    struct vp_rank_params *const p = vp_footprint_op(op, "rank", sizeof *p, f, image, type, type, err);
    if (!p)
        return -1;
    op->free = free_params;
    p->type = type;
    p->millionths = llround(percentile * 1e6);
    p->cpu = vp_alloc(1, sizeof *p->cpu, "the plan of a rank filter", err);
    if (!p->cpu || choose(p, image, moving, err)) {
        free_params(p);
        return -1;
    }
    for (int64_t i = 0; i < p->cpu->codes; i++)
        op->holds += (uint64_t)p->cpu->code[i].n * sizeof *p->cpu->code[i].op;
    op->cost = cost_of(p);
    op->scratch = scratch;
    op->run = run;
    if (percentile == 50)
        snprintf(op->text, sizeof op->text, "median, %s", vp_footprint_text(f, shape, sizeof shape));
    else
        snprintf(op->text, sizeof op->text, "percentile %.9g, %s", percentile,
                 vp_footprint_text(f, shape, sizeof shape));
    const size_t used = strlen(op->text);
    snprintf(op->text + used, sizeof op->text - used, ", %s%s%s", METHOD_NAME[p->cpu->method],
             p->cpu->method == METHOD_MOVING ? "" : ", ", p->cpu->method == METHOD_MOVING ? "" : vp_isa_name());
    return 0;
}
