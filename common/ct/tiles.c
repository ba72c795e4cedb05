/* SPDX-License-Identifier: BSD-3-Clause */
#include "ct/tiles.h"

#include "base/err.h"
#include "base/size.h"

#include <stdlib.h>
#include <string.h>

enum {
    TILE = VP_TILE,
    COLUMNS = VP_TILE_COLUMNS,
    BLOCK = VP_TILE_BLOCK,
    RUN = 2 * BLOCK,        /* slices that are copied at once: two cache lines of a column */
    WORTH_THREADS = 1 << 16 /* voxels below which waking other threads takes longer than the work */
};

void vp_tiles_half(const struct vp_tiles *t, int h, int64_t *lo, int64_t *hi)
{
    const bool mirror = t->layout.mirror;
    const int64_t low_end = mirror ? (t->n[2] + 1) / 2 : t->n[2];
    *lo = h == 0 ? t->z0 : t->n[2] - t->z1;
    *hi = h == 0 ? vp_min64(t->z1, low_end) : t->n[2] - vp_max64(t->z0, low_end);
    if (*hi <= *lo || (h == 1 && !mirror))
        *lo = *hi = 0;
}

int vp_tiles_open(struct vp_tiles *t, const int64_t n[3], int64_t z0, int64_t z1, struct vp_tile_layout layout,
                  struct vp_err *err)
{
    const int64_t step = layout.segment;
    int64_t lo[2], hi[2];
    *t = (struct vp_tiles){.n = {n[0], n[1], n[2]}, .z0 = z0, .z1 = z1, .layout = layout,
                           .tiles_x = vp_div_up(n[0], TILE)};
    t->tiles = t->tiles_x * vp_div_up(n[1], TILE);
    for (int h = 0; h < 2; h++)
        vp_tiles_half(t, h, &lo[h], &hi[h]);
    t->segments = vp_alloc((size_t)vp_div_up(n[2], step), sizeof *t->segments, "the segments", err);
    if (!t->segments)
        return -1;
    for (int64_t k = step == 1 ? z0 : 0; k < vp_max64(hi[0], hi[1]); k += step) {
        struct vp_tile_segment seg = {.k = k, .offset = t->tile_floats};
        int64_t first = step, last = 0;
        for (int h = 0; h < 2; h++) {
            const int64_t a = vp_max64(lo[h] - k, 0), e = vp_min64(hi[h] - k, step);
            if (a >= e)
                continue;
            seg.high = h && !seg.halves;
            seg.halves++;
            first = vp_min64(first, a);
            last = vp_max64(last, e);
        }
        if (!seg.halves)
            continue;
        seg.first = (int)(first / BLOCK);
        seg.count = (int)vp_div_up(last, BLOCK) - seg.first;
        t->tile_floats += step == 1 ? COLUMNS : (int64_t)COLUMNS * BLOCK * seg.count * seg.halves;
        t->segments[t->n_segments++] = seg;
    }
    return 0;
}

void vp_tiles_close(struct vp_tiles *t)
{
    free(t->segments);
    t->segments = NULL;
}

void vp_tiles_clear(const struct vp_tiles *t, float *voxels, int threads)
{
#pragma omp parallel for num_threads(threads)
    for (int64_t i = 0; i < t->tiles; i++)
        memset(voxels + i * t->tile_floats, 0, (size_t)t->tile_floats * sizeof(float));
}

/* Slices that lie next to each other in memory. */
struct run {
    int64_t n;
    bool down;           /* the last slice lies first */
    const float *voxels; /* column 0 of the first tile, in the slice that lies first */
    int64_t column;      /* floats from column to column */
};

/* Returns the run that begins at slice z, of at most n slices, and at most RUN. */
static struct run run_from(const struct vp_tiles *tiles, const float *voxels, int64_t z, int64_t n)
{
    const int64_t middle = (tiles->n[2] + 1) / 2;
    const bool high = tiles->layout.mirror && z >= middle;
    int64_t k = high ? tiles->n[2] - 1 - z : z;
    const struct vp_tile_segment *seg = tiles->segments;
    if (tiles->layout.segment == 1)
        return (struct run){.n = 1, .voxels = voxels + seg[z - tiles->z0].offset, .column = 1};
    n = vp_min64(tiles->layout.mirror && !high ? vp_min64(n, middle - z) : n, high ? k % RUN + 1 : RUN - k % RUN);
    k -= high ? n - 1 : 0;
    while (seg->k + tiles->layout.segment <= k)
        seg++;
    n = vp_min64(n, high ? n : seg->k + tiles->layout.segment - k);
    const int64_t depth = (int64_t)seg->count * BLOCK, other = seg->halves == 2 && high ? depth : 0;
    return (struct run){.n = n, .down = high, .column = depth * seg->halves,
                        .voxels = voxels + seg->offset + other + (k - seg->k - (int64_t)seg->first * BLOCK)};
}

typedef float four __attribute__((vector_size(16), aligned(4), may_alias));

/* Sets to[z][c] = from[c][z] for 4 columns c, `column` floats apart, and 4 z. */
static inline void turn_four(const float *from, int64_t column, float *to, int64_t row)
{
    const four a = *(const four *)from, b = *(const four *)(from + column);
    const four c = *(const four *)(from + 2 * column), d = *(const four *)(from + 3 * column);
    const four ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    const four ef = __builtin_shufflevector(a, b, 2, 6, 3, 7), gh = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    *(four *)to = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
    *(four *)(to + row) = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
    *(four *)(to + 2 * row) = __builtin_shufflevector(ef, gh, 0, 1, 4, 5);
    *(four *)(to + 3 * row) = __builtin_shufflevector(ef, gh, 2, 3, 6, 7);
}

/* Copies row y of the slices of a run. */
static void copy_row(const struct vp_tiles *tiles, const struct run *r, int64_t y, float *out)
{
    enum { STRIP = 16 * TILE, PITCH = STRIP + 16 };
    /* slices are often a power of two apart: written straight, they would collide in the cache */
    float strip[RUN * PITCH];
    const int64_t slice = tiles->n[0] * tiles->n[1], column = r->column, run = r->n;
    const float *src = r->voxels + y / TILE * tiles->tiles_x * tiles->tile_floats + y % TILE * TILE * column;
    for (int64_t x0 = 0; x0 < tiles->n[0]; x0 += STRIP) {
        const int64_t width = vp_min64(STRIP, tiles->n[0] - x0);
        for (int64_t x = 0; x < width; x += TILE, src += tiles->tile_floats) {
            if (x0 + x + TILE < tiles->n[0])
                for (int64_t t = 0; t < TILE; t++)
                    for (int64_t d = 0; d < run; d += BLOCK)
                        __builtin_prefetch(src + tiles->tile_floats + t * column + d);
            for (int64_t t = 0; t < TILE; t += 4) {
                const float *p = src + t * column;
                int64_t d = 0;
                for (; d + 4 <= run; d += 4)
                    turn_four(p + d, column, strip + d * PITCH + x + t, PITCH);
                for (; d < run; d++)
                    for (int64_t c = 0; c < 4; c++)
                        strip[d * PITCH + x + t + c] = p[c * column + d];
            }
        }
        for (int64_t d = 0; d < run; d++)
            memcpy(out + (r->down ? run - 1 - d : d) * slice + y * tiles->n[0] + x0, strip + d * PITCH,
                   (size_t)width * sizeof *out);
    }
}

void vp_tiles_get(const struct vp_tiles *t, const float *voxels, int64_t z, int64_t n, int threads, float *out)
{
    const int64_t slice = t->n[0] * t->n[1];
    struct run run;
    for (int64_t done = 0; done < n; done += run.n) {
        run = run_from(t, voxels, z + done, n - done);
        const bool worth = run.n * slice >= WORTH_THREADS;
#pragma omp parallel for num_threads(threads) schedule(static, TILE) if (worth)
        for (int64_t y = 0; y < t->n[1]; y++)
            copy_row(t, &run, y, out + done * slice);
    }
}
