/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks in any window by a histogram that moves along x, and the rank with it (Huang, Yang and Tang 1979). Floats are
 * replaced by their places among the sorted samples of a tile. */
#include "local/rank_moving.h"

#include "base/size.h"
#include "local/moving.h"
#include "local/rank_isa.h"
#include "run/chain.h"

#include <omp.h>
#include <string.h>

/* Tiles of the output, each one unit of work. Floats are ranked within what a tile reads. */
struct tiles { int64_t side[3]; };

static struct tiles cut(const struct vp_rank_params *p, const struct vp_box *out)
{
    return p->type == VP_F32 ? (struct tiles){{128, 64, 64}} : (struct tiles){{vp_box_size(out, 0), 8, 1}};
}

struct moving {
    const struct vp_rank_params *p;
    const int64_t *image;
    uint32_t *fine, *coarse;
    int64_t bins;
    int shift;               /* bins of a coarse one: 1 << shift */
    int64_t bin, less;       /* where the rank was last; samples in bins below it */
    int64_t first_x;         /* of the rows */
    struct vp_line *line;
    int64_t lines;
};

enum bin_of { BIN_U8, BIN_U16, BIN_I16, BIN_PLACE };

static inline __attribute__((always_inline)) uint32_t bin_at(const char *row, int64_t i, enum bin_of how)
{
    switch (how) {
    case BIN_U8:
        return ((const uint8_t *)row)[i];
    case BIN_U16:
        return ((const uint16_t *)(const void *)row)[i];
    case BIN_I16:
        return (uint32_t)(((const int16_t *)(const void *)row)[i] - INT16_MIN);
    default:
        return ((const uint32_t *)(const void *)row)[i];
    }
}

static inline __attribute__((always_inline)) void count(struct moving *m, uint32_t bin, uint32_t by)
{
    m->fine[bin] += by;
    m->coarse[bin >> m->shift] += by;
    m->less += bin < m->bin ? (int32_t)by : 0;
}

static void seek(struct moving *m, int64_t rank)
{
    const int64_t wide = 1 << m->shift;

    while (m->less > rank) {
        const uint32_t whole = m->bin & (wide - 1) ? 0 : m->coarse[(m->bin >> m->shift) - 1];
        if (whole && m->less - whole > rank) {
            m->less -= whole;
            m->bin -= wide;
        } else {
            m->less -= m->fine[--m->bin];
        }
    }
    while (m->less + m->fine[m->bin] <= rank) {
        if (!(m->bin & (wide - 1)) && m->less + m->coarse[m->bin >> m->shift] <= rank) {
            m->less += m->coarse[m->bin >> m->shift];
            m->bin += wide;
        } else {
            m->less += m->fine[m->bin++];
        }
    }
}

/* Voxels x0 ... x1 - 1 of the row that m->line was made for; values: of the bins of floats. */
static inline __attribute__((always_inline)) void move_along(struct moving *m, int64_t x0, int64_t x1, char *out,
                                                             const int32_t *values, enum bin_of how)
{
    const int64_t nx = m->image[0];
    int64_t n = 0;

    for (int64_t i = 0; i < m->lines; i++) {
        const int64_t from = vp_max64(x0 + m->line[i].x0, 0), to = vp_min64(x0 + m->line[i].x1, nx - 1);
        for (int64_t x = from; x <= to; x++)
            count(m, bin_at(m->line[i].row, x - m->first_x, how), 1);
        n += vp_max64(to - from + 1, 0);
    }
    for (int64_t x = x0; x < x1; x++) {
        seek(m, vp_rank_index(m->p->millionths, n));
        if (how == BIN_PLACE)
            vp_rank_put(out, values[m->bin], VP_F32);
        else
            vp_rank_put(out, (int32_t)m->bin + (how == BIN_I16 ? INT16_MIN : 0), m->p->type);
        out += vp_type_size(m->p->type);
        if (x + 1 == x1)
            break;
        const bool inside = x >= m->p->f.reach[0] && x + 1 + m->p->f.reach[0] < nx;
        for (int64_t i = 0; inside && i < m->lines; i++) {
            const struct vp_line *l = &m->line[i];
            count(m, bin_at(l->row, x + l->x0 - m->first_x, how), (uint32_t)-1);
            count(m, bin_at(l->row, x + 1 + l->x1 - m->first_x, how), 1);
        }
        for (int64_t i = 0; !inside && i < m->lines; i++) {
            const struct vp_line *l = &m->line[i];
            if (x + l->x0 >= 0 && x + l->x0 < nx) {
                count(m, bin_at(l->row, x + l->x0 - m->first_x, how), (uint32_t)-1);
                n--;
            }
            if (x + 1 + l->x1 >= 0 && x + 1 + l->x1 < nx) {
                count(m, bin_at(l->row, x + 1 + l->x1 - m->first_x, how), 1);
                n++;
            }
        }
    }
    if (m->bins < 2 * n) {
        memset(m->fine, 0, (size_t)m->bins * sizeof *m->fine);
        memset(m->coarse, 0, (size_t)((m->bins >> m->shift) + 1) * sizeof *m->coarse);
        m->less = 0;
        return;
    }
    for (int64_t i = 0; i < m->lines; i++)
        for (int64_t x = vp_max64(x1 - 1 + m->line[i].x0, 0); x <= vp_min64(x1 - 1 + m->line[i].x1, nx - 1); x++)
            count(m, bin_at(m->line[i].row, x - m->first_x, how), (uint32_t)-1);
}

static void move_row(struct moving *m, int64_t x0, int64_t x1, char *out, const int32_t *values)
{
    switch (m->p->type) {
    case VP_U8:
        move_along(m, x0, x1, out, NULL, BIN_U8);
        break;
    case VP_U16:
        move_along(m, x0, x1, out, NULL, BIN_U16);
        break;
    case VP_I16:
        move_along(m, x0, x1, out, NULL, BIN_I16);
        break;
    default:
        move_along(m, x0, x1, out, values, BIN_PLACE);
    }
}

/* What a tile of floats reads, as places among its distinct keys. LSD radix sort by 3 x 11 bits of pairs. */
static int64_t rank_floats(const struct vp_part *in, const struct vp_box *box, uint64_t *a, uint64_t *b,
                           uint32_t *place, int32_t *values)
{
    enum { BITS = 11, BINS = 1 << BITS };
    int64_t n = 0, distinct = 0;

    for (int64_t z = box->lo[2]; z < box->hi[2]; z++)
        for (int64_t y = box->lo[1]; y < box->hi[1]; y++) {
            const float *row = (const float *)(const void *)vp_part_row(in, y, z, sizeof *row);
            for (int64_t x = box->lo[0]; x < box->hi[0]; x++, n++)
                a[n] = (uint64_t)((uint32_t)vp_rank_key(row[x - in->box.lo[0]]) ^ 0x80000000u) << 32 | (uint32_t)n;
        }
    for (int pass = 0; pass < 3; pass++) {
        uint32_t at[BINS + 1] = {0};
        const int shift = 32 + pass * BITS;
        for (int64_t i = 0; i < n; i++)
            at[(a[i] >> shift & (BINS - 1)) + 1]++;
        for (int i = 0; i < BINS; i++)
            at[i + 1] += at[i];
        for (int64_t i = 0; i < n; i++)
            b[at[a[i] >> shift & (BINS - 1)]++] = a[i];
        uint64_t *const t = a;
        a = b;
        b = t;
    }
    for (int64_t i = 0; i < n; i++) {
        const int32_t key = (int32_t)((uint32_t)(a[i] >> 32) ^ 0x80000000u);
        if (!i || key != values[distinct - 1])
            values[distinct++] = key;
        place[(uint32_t)a[i]] = (uint32_t)(distinct - 1);
    }
    return distinct;
}

/* Places of a thread's memory, in bytes; `bytes` is all of it. For floats fine lies over pairs. */
struct memory {
    size_t fine, coarse, line, pairs, pairs2, place, values, planes;
    int64_t bins, samples;
    int shift;
    size_t bytes;
};

static struct memory memory_of(const struct vp_rank_params *p, const struct vp_box *in, const struct vp_box *out)
{
    struct memory m = {0};

    m.bins = p->type == VP_U8 ? 256 : 65536;
    m.shift = p->type == VP_U8 ? 4 : 7;
    m.line = vp_take(&m.bytes, (size_t)vp_lines_most(&p->f, in) * sizeof(struct vp_line));
    if (p->type != VP_F32) {
        m.fine = vp_take(&m.bytes, (size_t)m.bins * sizeof(uint32_t));
    } else {
        const struct tiles t = cut(p, out);
        m.samples = 1;
        for (int a = 0; a < 3; a++)
            m.samples *= vp_min64(vp_min64(t.side[a], vp_box_size(out, a)) + 2 * p->f.reach[a], vp_box_size(in, a));
        m.bins = m.samples;
        m.fine = m.pairs = vp_take(&m.bytes, (size_t)m.samples * sizeof(uint64_t));
        m.pairs2 = vp_take(&m.bytes, (size_t)m.samples * sizeof(uint64_t));
        m.place = vp_take(&m.bytes, (size_t)m.samples * sizeof(uint32_t));
        m.values = vp_take(&m.bytes, (size_t)m.samples * sizeof(int32_t));
        m.planes = vp_take(&m.bytes, (size_t)vp_box_size(in, 2) * sizeof(void *));
    }
    m.coarse = vp_take(&m.bytes, (size_t)((m.bins >> m.shift) + 1) * sizeof(uint32_t));
    return m;
}

uint64_t vp_rank_moving_bytes(const struct vp_rank_params *p, const struct vp_box *in, const struct vp_box *out)
{
    return memory_of(p, in, out).bytes;
}

/* One tile of the moving histogram. */
static void move_tile(const struct vp_rank_params *p, const int64_t *image, const struct vp_part *in,
                      const struct vp_part *out, const struct vp_box *tile, const struct memory *at, char *mem)
{
    struct moving m = {.p = p, .image = image, .fine = (uint32_t *)(void *)(mem + at->fine),
                       .coarse = (uint32_t *)(void *)(mem + at->coarse), .bins = at->bins, .shift = at->shift,
                       .line = (struct vp_line *)(void *)(mem + at->line)};
    const int32_t *values = NULL;
    struct vp_part rows = *in;
    size_t size = vp_type_size(p->type);

    if (p->type == VP_F32) {
        struct vp_box box;
        for (int a = 0; a < 3; a++) {
            box.lo[a] = vp_max64(tile->lo[a] - p->f.reach[a], 0);
            box.hi[a] = vp_min64(tile->hi[a] + p->f.reach[a], image[a]);
        }
        uint32_t *place = (uint32_t *)(void *)(mem + at->place);
        m.bins = rank_floats(in, &box, (uint64_t *)(void *)(mem + at->pairs), (uint64_t *)(void *)(mem + at->pairs2),
                             place, (int32_t *)(void *)(mem + at->values));
        values = (const int32_t *)(void *)(mem + at->values);
        void **plane = (void **)(void *)(mem + at->planes);
        for (int64_t z = 0; z < vp_box_size(&box, 2); z++)
            plane[z] = place + z * vp_box_size(&box, 0) * vp_box_size(&box, 1);
        rows = (struct vp_part){box, vp_box_size(&box, 0), plane};
        size = sizeof *place;
    }
    m.first_x = rows.box.lo[0];
    memset(m.fine, 0, (size_t)m.bins * sizeof *m.fine);
    memset(m.coarse, 0, (size_t)((m.bins >> m.shift) + 1) * sizeof *m.coarse);
    for (int64_t z = tile->lo[2]; z < tile->hi[2]; z++)
        for (int64_t y = tile->lo[1]; y < tile->hi[1]; y++) {
            m.lines = vp_lines(m.line, &p->f, image, &rows, size, y, z);
            char *const to = (char *)out->plane[z - out->box.lo[2]]
                             + (size_t)((y - out->box.lo[1]) * out->stride + tile->lo[0] - out->box.lo[0])
                                   * vp_type_size(p->type);
            move_row(&m, tile->lo[0], tile->hi[0], to, values);
        }
}

void vp_rank_moving_run(const struct vp_op *op, const struct vp_part *in, const struct vp_part *out, char *mem,
                        int threads)
{
    const struct vp_rank_params *p = op->params;
    const struct memory at = memory_of(p, &in->box, &out->box);
    const struct tiles t = cut(p, &out->box);
    const int64_t units = vp_box_tiles(&out->box, t.side);

    #pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (int64_t u = 0; u < units; u++) {
        const struct vp_box tile = vp_box_tile(&out->box, t.side, u);
        move_tile(p, op->image, in, out, &tile, &at, mem + (size_t)omp_get_thread_num() * at.bytes);
    }
}
