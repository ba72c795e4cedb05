/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by backproject.c (plan, buffers) and the kernels (backproject_isa.c and its neighbours, compiled once for each
 * instruction set). Everything here is const while the kernels run, but the two float arrays.
 *
 * Lines. A view is kept transposed: line l holds detector column l, the samples along v contiguous, so that
 * the samples which a column of voxels meets are neighbours. (`swap`: where z runs along u, lines are
 * detector rows.) A line's frame counts rows from its own end: v as it is, reversed (`flip`, where v falls as
 * z grows), and twice as fine (`refine`, midpoints put between the rows: linear interpolation does not
 * change). The view's matrix is in that frame. Rows [row0, row1) are stored, with PAD zeros before and after,
 * then, if the volume is mirrored, the same rows of the mirrored line: the sample of row m is that of row
 * mirror_sum - m.
 *
 * Volume. Tiles of columns (ct/tiles.h), in segments of SEGMENT slices, or of BLOCK on a helix. Of volumes with few
 * slices each slice is a segment of its own.
 *
 * Helix. A view's share of a section, by which segments then are cut, is in the scale of its matrix: the weight is 1 /
 * w^2. The frame's rows go on beyond the detector by `margin`, with its edge rows. */
#pragma once

#include "ct/backproject.h"
#include "ct/orbit.h"

enum {
    TILE = VP_TILE,
    COLUMNS = VP_TILE_COLUMNS,
    SEGMENT = 64,
    BLOCK = VP_TILE_BLOCK,
    GROUP = 8,      /* views summed in registers */
    BATCH = 16,     /* views transposed before the volume is walked */
    PAD = 128,      /* zeros around a line: the reach of any kernel's loads */
    FEW_SLICES = 3  /* volumes that are worked on across the columns, not along them */
};

struct vp_bp_view {
    double P[12];       /* voxel indices to (line w, row w, w), w = 1 at the isocentre */
    bool flip;
};

struct vp_bp_isa;

struct vp_backproject {
    const struct vp_bp_isa *isa;
    struct vp_bp_view *views;
    int64_t n_views, nu, nv;
    struct vp_tiles tiles;  /* layout of the slab */
    int threads;
    char text[64];

    bool few;               /* no more than FEW_SLICES: any matrices, no mirror, no swap, no refinement */
    bool fast;              /* lines and depths do not depend on k: the column kernels */
    bool swap;
    int refine;             /* 1 or 2 */
    int64_t mirror_sum;
    int64_t lines, rows;    /* size of the detector, after `swap`, before `refine` */
    int64_t v0, v1;         /* rows of the views that come */
    int64_t margin;         /* rows below the detector from which rows are counted */
    struct vp_helix helix;  /* pitch 0: no helix; else */
    struct vp_grid grid;    /* the grid, */
    double *turn;           /* the views' turns, */
    double *scale;          /* and factors of matrices, BATCH a segment: 0 where the view has no share; else NULL */

    int64_t row0, row1;     /* stored rows */
    int64_t pitch;          /* floats from line to line */
    int64_t mirror_offset;  /* floats from a row to the same row of the mirrored line */
    int64_t view_floats;
    int batch;              /* views a batch, BATCH / refine */
    float *transposed;      /* batch views */
    bool present[BATCH];
    int64_t batch_first;    /* view in slot 0 */
    int64_t next_view;
    bool pending;

    float *volume;
};

/* Returns the address of row 0 (which need not be stored) of line 0 in a batch's slot. Lines -1 and `lines` exist and
 * are zero. */
static inline float *vp_bp_line0(const struct vp_backproject *b, int slot)
{
    return b->transposed + slot * b->view_floats + b->pitch + PAD - b->row0;
}

struct vp_bp_isa {
    const char *name;
    bool want_refine;   /* its best kernel is for about one row a voxel */
    /* Transposes lines [l0, l1) of a view, of which `proj` has rows [v0, v1), into a slot. */
    void (*transpose)(const struct vp_backproject *b, int slot, const struct vp_bp_view *view,
                      const float *proj,
                      int64_t l0, int64_t l1);
    /* Adds the batch to segments [s0, s1) of a tile. */
    void (*tile)(const struct vp_backproject *b, int64_t tile, int s0, int s1);
};

extern const struct vp_bp_isa vp_bp_isa_avx512, vp_bp_isa_avx2, vp_bp_isa_generic;
