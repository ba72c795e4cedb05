/* SPDX-License-Identifier: BSD-3-Clause */
/* Layout of a slab of a volume in host memory, as the kernels of the CPU walk it.
 *
 * Tiles of VP_TILE x VP_TILE columns; in a tile, segments along z; in a segment, the columns; in a column, the blocks
 * of VP_TILE_BLOCK voxels that the slab needs, of the low half and then, if `mirror`, of the mirrored half. z is
 * counted from the low end in the low half and from the high end in the mirrored one, and segments start at multiples
 * of `segment` of the whole volume, whatever the slab. With segments of one slice a column has one voxel. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct vp_err;

enum {
    VP_TILE = 8,
    VP_TILE_COLUMNS = VP_TILE * VP_TILE,
    VP_TILE_BLOCK = 16
};

/* The choice of a layout: slices of a segment (1, or a multiple of VP_TILE_BLOCK), and mirrored halves. */
struct vp_tile_layout {
    int64_t segment;
    bool mirror;
};

struct vp_tile_segment {
    int64_t k;          /* first voxel, counted from the end of its half */
    int first, count;   /* first block that the slab needs, and number of blocks */
    int halves;         /* 1 or 2 */
    bool high;          /* the first half is the mirrored one */
    int64_t offset;     /* floats from the start of a tile */
};

struct vp_tiles {
    int64_t n[3], z0, z1;       /* size of the grid; slices [z0, z1) of it are the slab */
    struct vp_tile_layout layout;
    int64_t tiles_x, tiles;     /* tiles of a row, and in all */
    int64_t tile_floats;
    struct vp_tile_segment *segments;
    int n_segments;
};

/* Fills *t; vp_tiles_close() frees its segments. 0, or -1 with VP_ERESOURCE. */
int vp_tiles_open(struct vp_tiles *t, const int64_t n[3], int64_t z0, int64_t z1, struct vp_tile_layout layout,
                  struct vp_err *err);
void vp_tiles_close(struct vp_tiles *t);
/* Returns the size of the slab in floats. */
static inline int64_t vp_tiles_floats(const struct vp_tiles *t)
{
    return t->tiles * t->tile_floats;
}
/* Sets [*lo, *hi), the slices of half h (0: low, 1: mirrored) that the slab needs, counted from the end of that half.
 * */
void vp_tiles_half(const struct vp_tiles *t, int h, int64_t *lo, int64_t *hi);
/* Sets all voxels to zero. */
void vp_tiles_clear(const struct vp_tiles *t, float *voxels, int threads);
/* Copies slices [z, z + n) of the grid to `out`, ny x nx each, x fastest. Fastest for n of 32 or more: single slices
 * read the tiles with gaps. Thread safe. */
void vp_tiles_get(const struct vp_tiles *t, const float *voxels, int64_t z, int64_t n, int threads, float *out);
