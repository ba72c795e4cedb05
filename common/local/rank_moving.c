/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks in any window by a histogram that moves along x, and the rank with it (Huang, Yang and Tang 1979). Floats and
 * integers of 32 bits are replaced by their places among the sorted samples of a tile. */
#include "local/rank_internal.h"

#include "base/size.h"
#include "local/moving.h"
#include "engine/chain.h"

#include <omp.h>
#include <string.h>

/* Tiles of the output, each one unit of work. Samples of 32 and 64 bits are ranked within what a tile reads. */
struct tiles { int64_t side[3]; };

static struct tiles cut(const struct vp_rank_params *p, const struct vp_box *out)
{
    return vp_rank_is_sorted(p->type) ? (struct tiles){{128, 64, 64}} : (struct tiles){{vp_box_size(out, 0), 8, 1}};
}

struct rank_counts {
    uint32_t *fine, *coarse;
    int shift;         /* bins of a coarse bin: 1 << shift */
    int64_t bin, less; /* last bin of the rank; samples in bins below it */
};

/* Memory of a thread. */
struct rank_histogram {
    const struct vp_rank_params *p;
    struct vp_moving window; /* over rows of the image, or of places */
    struct rank_counts c;
    int64_t bins;
    /* 32 and 64 bits: pairs of a key and where it is, twice (fine lies over them); places among the distinct keys, and
     * those */
    uint64_t *pairs, *pairs2;
    uint32_t *place;
    int32_t *values;
    /* f64: instead of the pairs and values, keys, places of them, twice, and the distinct keys */
    uint64_t *keys, *keys2;
    uint32_t *from, *from2;
    int64_t *wide;
    void **plane;
};

VP_MOVING void count(struct rank_counts *c, uint32_t bin, uint32_t by)
{
    c->fine[bin] += by;
    c->coarse[bin >> c->shift] += by;
    c->less += bin < c->bin ? (int32_t)by : 0;
}

/* One for each kind of bins. */
#define WINDOW(type, bin_at) \
    VP_MOVING uint32_t bin_##type(const char *row, int64_t i) { return (uint32_t)(bin_at); } \
    VP_MOVING void enter_##type(void *to, const char *row, int64_t i) { count(to, bin_##type(row, i), 1); } \
    VP_MOVING void leave_##type(void *to, const char *row, int64_t i) { count(to, bin_##type(row, i), (uint32_t)-1); } \
    VP_MOVING void both_##type(void *to, const char *row, int64_t leaves, int64_t enters) \
    { \
        const uint32_t old = bin_##type(row, leaves), new = bin_##type(row, enters); \
        count(to, old, (uint32_t)-1); \
        count(to, new, 1); \
    }
WINDOW(u8, ((const uint8_t *)row)[i])
WINDOW(u16, ((const uint16_t *)(const void *)row)[i])
WINDOW(i16, ((const int16_t *)(const void *)row)[i] - INT16_MIN)
WINDOW(f32, ((const uint32_t *)(const void *)row)[i])

static void seek(struct rank_counts *c, int64_t rank)
{
    const int64_t wide = 1 << c->shift;

    while (c->less > rank) {
        const uint32_t whole = c->bin & (wide - 1) ? 0 : c->coarse[(c->bin >> c->shift) - 1];
        if (whole && c->less - whole > rank) {
            c->less -= whole;
            c->bin -= wide;
        } else {
            c->less -= c->fine[--c->bin];
        }
    }
    while (c->less + c->fine[c->bin] <= rank) {
        if (!(c->bin & (wide - 1)) && c->less + c->coarse[c->bin >> c->shift] <= rank) {
            c->less += c->coarse[c->bin >> c->shift];
            c->bin += wide;
        } else {
            c->less += c->fine[c->bin++];
        }
    }
}

static void clear(struct rank_histogram *h)
{
    memset(h->c.fine, 0, (size_t)h->bins * sizeof *h->c.fine);
    memset(h->c.coarse, 0, (size_t)((h->bins >> h->c.shift) + 1) * sizeof *h->c.coarse);
    h->c.less = 0;
}

/* Makes voxels x0 ... x1 - 1 of the window's row. */
VP_MOVING void move_along(struct rank_histogram *h, int64_t x0, int64_t x1, char *out, enum vp_type type,
                          void (*enter)(void *to, const char *row, int64_t i),
                          void (*leave)(void *to, const char *row, int64_t i),
                          void (*both)(void *to, const char *row, int64_t leaves, int64_t enters))
{
    struct rank_counts *const c = &h->c, moved; /* the latter in registers only */

    h->window.n = vp_moving_all(&h->window, x0, enter, c);
    for (int64_t x = x0;; x++, out += vp_type_size(type)) {
        if (h->window.n) {
            seek(c, vp_rank_index(h->p->millionths, h->window.n));
            vp_rank_put(out, type == VP_F64 ? h->wide[c->bin] : vp_rank_is_sorted(type) ? h->values[c->bin]
                             : (int32_t)c->bin + (type == VP_I16 ? INT16_MIN : 0), type);
        } else {
            vp_rank_put(out, vp_rank_none(type), type);
        }
        if (x + 1 == x1)
            break;
        moved = *c;
        vp_moving_on(&h->window, x, h->p->f.reach[0], leave, enter, both, &moved);
        *c = moved;
    }
    if (h->bins < 2 * h->window.n)
        clear(h);
    else
        vp_moving_all(&h->window, x1 - 1, leave, c);
}

static void move_row(struct rank_histogram *h, int64_t x0, int64_t x1, char *out)
{
    switch ((int)h->p->type) {
    case VP_U8: move_along(h, x0, x1, out, VP_U8, enter_u8, leave_u8, both_u8); break;
    case VP_U16: move_along(h, x0, x1, out, VP_U16, enter_u16, leave_u16, both_u16); break;
    case VP_I16: move_along(h, x0, x1, out, VP_I16, enter_i16, leave_i16, both_i16); break;
    case VP_F32: move_along(h, x0, x1, out, VP_F32, enter_f32, leave_f32, both_f32); break;
    default: move_along(h, x0, x1, out, h->p->type, enter_f32, leave_f32, both_f32); /* places, too */
    }
}

enum { RADIX_BITS = 11, RADIX = 1 << RADIX_BITS };

/* Returns the key of sample i, as an unsigned number. */
static uint32_t key_at(enum vp_type type, const void *row, int64_t i)
{
    return type == VP_U32 ? ((const uint32_t *)row)[i]
           : (uint32_t)(type == VP_I32 ? ((const int32_t *)row)[i] : vp_signed_key_f32(((const float *)row)[i])) ^ 0x80000000u;
}

/* Replaces the samples read by a tile by ranks among its distinct keys. LSD radix sort by 3 x 11 bits of pairs. */
static void rank_samples(struct rank_histogram *h, const struct vp_part *in, const struct vp_box *box)
{
    uint64_t *a = h->pairs, *b = h->pairs2;
    int64_t n = 0, distinct = 0;

    for (int64_t z = box->lo[2]; z < box->hi[2]; z++)
        for (int64_t y = box->lo[1]; y < box->hi[1]; y++) {
            const void *row = vp_part_at(in, sizeof(uint32_t), box->lo[0], y, z);
            for (int64_t x = 0; x < vp_box_size(box, 0); x++, n++)
                a[n] = (uint64_t)key_at(h->p->type, row, x) << 32 | (uint32_t)n;
        }
    for (int pass = 0; pass < 3; pass++) {
        uint32_t at[RADIX + 1] = {0};
        const int shift = 32 + pass * RADIX_BITS;
        for (int64_t i = 0; i < n; i++)
            at[(a[i] >> shift & (RADIX - 1)) + 1]++;
        for (int i = 0; i < RADIX; i++)
            at[i + 1] += at[i];
        for (int64_t i = 0; i < n; i++)
            b[at[a[i] >> shift & (RADIX - 1)]++] = a[i];
        uint64_t *const t = a;
        a = b;
        b = t;
    }
    for (int64_t i = 0; i < n; i++) {
        const int32_t key = (int32_t)((uint32_t)(a[i] >> 32) ^ 0x80000000u);
        if (!i || key != h->values[distinct - 1])
            h->values[distinct++] = key;
        h->place[(uint32_t)a[i]] = (uint32_t)(distinct - 1);
    }
    h->bins = distinct;
}

/* Does the same for f64: by 6 x 11 bits. */
static void rank_doubles(struct rank_histogram *h, const struct vp_part *in, const struct vp_box *box)
{
    uint64_t *a = h->keys, *b = h->keys2;
    uint32_t *i_a = h->from, *i_b = h->from2;
    int64_t n = 0, distinct = 0;

    for (int64_t z = box->lo[2]; z < box->hi[2]; z++)
        for (int64_t y = box->lo[1]; y < box->hi[1]; y++) {
            const double *row = vp_part_at(in, sizeof *row, box->lo[0], y, z);
            for (int64_t x = 0; x < vp_box_size(box, 0); x++, n++) {
                a[n] = (uint64_t)vp_signed_key_f64(row[x]) ^ (uint64_t)1 << 63;
                i_a[n] = (uint32_t)n;
            }
        }
    for (int shift = 0; shift < 64; shift += RADIX_BITS) {
        uint32_t at[RADIX + 1] = {0};
        for (int64_t i = 0; i < n; i++)
            at[(a[i] >> shift & (RADIX - 1)) + 1]++;
        for (int i = 0; i < RADIX; i++)
            at[i + 1] += at[i];
        for (int64_t i = 0; i < n; i++) {
            const uint32_t to = at[a[i] >> shift & (RADIX - 1)]++;
            b[to] = a[i];
            i_b[to] = i_a[i];
        }
        uint64_t *const t = a;
        uint32_t *const i_t = i_a;
        a = b;
        b = t;
        i_a = i_b;
        i_b = i_t;
    }
    for (int64_t i = 0; i < n; i++) {
        const int64_t key = (int64_t)(a[i] ^ (uint64_t)1 << 63);
        if (!i || key != h->wide[distinct - 1])
            h->wide[distinct++] = key;
        h->place[i_a[i]] = (uint32_t)(distinct - 1);
    }
    h->bins = distinct;
}

/* Returns the bytes of a thread. */
static size_t workspace_layout(struct rank_histogram *h, const struct vp_rank_params *p, const struct vp_box *in,
                      const struct vp_box *out, void *mem)
{
    const struct tiles t = cut(p, out);
    size_t bytes = 0, samples = 1;

    *h = (struct rank_histogram){.p = p, .bins = p->type == VP_U8 ? 256 : 65536, .c.shift = p->type == VP_U8 ? 4 : 7};
    h->window.line = vp_place(mem, &bytes, (size_t)vp_lines_most(&p->f, in) * sizeof *h->window.line);
    if (vp_rank_is_sorted(p->type)) {
        const bool wide = p->type == VP_F64;
        for (int a = 0; a < 3; a++)
            samples *= (size_t)vp_min64(vp_min64(t.side[a], vp_box_size(out, a)) + 2 * p->f.reach[a],
                                        vp_box_size(in, a));
        h->pairs = h->keys = vp_place(mem, &bytes, samples * sizeof *h->pairs);
        h->pairs2 = h->keys2 = vp_place(mem, &bytes, samples * sizeof *h->pairs2);
        h->place = vp_place(mem, &bytes, samples * sizeof *h->place);
        h->values = vp_place(mem, &bytes, wide ? 0 : samples * sizeof *h->values);
        h->from = vp_place(mem, &bytes, wide ? samples * sizeof *h->from : 0);
        h->from2 = vp_place(mem, &bytes, wide ? samples * sizeof *h->from2 : 0);
        h->wide = vp_place(mem, &bytes, wide ? samples * sizeof *h->wide : 0);
        h->plane = vp_place(mem, &bytes, (size_t)vp_box_size(in, 2) * sizeof *h->plane);
        h->c.fine = (uint32_t *)h->pairs;
        h->bins = (int64_t)samples;
    } else {
        h->c.fine = vp_place(mem, &bytes, (size_t)h->bins * sizeof *h->c.fine);
    }
    h->c.coarse = vp_place(mem, &bytes, (size_t)((h->bins >> h->c.shift) + 1) * sizeof *h->c.coarse);
    return bytes;
}

uint64_t vp_rank_moving_bytes(const struct vp_op *op, const struct vp_box *in, const struct vp_box *out)
{
    struct rank_histogram h;

    return workspace_layout(&h, op->params, in, out, NULL);
}

static void move_tile(struct rank_histogram *h, const int64_t *image, const struct vp_part *in,
                      const struct vp_part *out, const struct vp_box *tile)
{
    const struct vp_rank_params *p = h->p;
    struct vp_part rows = *in;

    if (vp_rank_is_sorted(p->type)) {
        for (int a = 0; a < 3; a++) {
            rows.box.lo[a] = vp_max64(tile->lo[a] - p->f.reach[a], 0);
            rows.box.hi[a] = vp_min64(tile->hi[a] + p->f.reach[a], image[a]);
        }
        (p->type == VP_F64 ? rank_doubles : rank_samples)(h, in, &rows.box);
        rows.stride = vp_box_size(&rows.box, 0);
        for (int64_t z = 0; z < vp_box_size(&rows.box, 2); z++)
            h->plane[z] = h->place + z * rows.stride * vp_box_size(&rows.box, 1);
        rows.plane = h->plane;
    }
    clear(h);
    for (int64_t z = tile->lo[2]; z < tile->hi[2]; z++)
        for (int64_t y = tile->lo[1]; y < tile->hi[1]; y++) {
            vp_moving_row(&h->window, &p->f, image, &rows, p->type == VP_F64 ? sizeof *h->place : vp_type_size(p->type), y, z);
            move_row(h, tile->lo[0], tile->hi[0], vp_part_at(out, vp_type_size(p->type), tile->lo[0], y, z));
        }
}

void vp_rank_moving_run(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out,
                        const struct vp_box *box, char *mem, int threads)
{
    const struct vp_rank_params *p = op->params;
    const size_t bytes = vp_rank_moving_bytes(op, &in->box, box);
    const struct tiles t = cut(p, box);
    const int64_t units = vp_box_tiles(box, t.side);

    #pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (int64_t u = 0; u < units; u++) {
        const struct vp_box tile = vp_box_tile(box, t.side, u);
        struct rank_histogram h;
        workspace_layout(&h, p, &in->box, box, mem + (size_t)omp_get_thread_num() * bytes);
        move_tile(&h, op->image, in, out, &tile);
    }
}
