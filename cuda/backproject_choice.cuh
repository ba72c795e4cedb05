/* SPDX-License-Identifier: BSD-3-Clause */
/* Which back-projection kernel the matrices and the device allow, and what it is told. */
#ifndef VP_BACKPROJECT_CHOICE_CUH
#define VP_BACKPROJECT_CHOICE_CUH

#include "backproject_column.cuh"
#include "gpu.h"

namespace vp
{

enum kind { COLUMN_TILED, COLUMN, MATRIX_TILED, MATRIX, PLAIN };

/* One set of slices in a row: [first, first + n), stored from slice `at` of the volume on. */
struct block {
    int64_t first, n, at;
};

struct choice {
    enum kind kind;
    vp_orbit_shape shape;
    int R, Z;
    bool upper; /* Z = 1 on a mirrored scan: the slab lies in the upper half and is worked on as its mirror */
    column_kernel column; /* for matrices its K, tile and batch */
    int box_pitch, box_rows, stages;
    block blocks[2];
    int64_t half_x;                       /* columns worked on */
    int segment0, segments, last_segment; /* pieces of K slices; last_segment: of the whole grid */
    int64_t row_base;                     /* detector row of packed row 0, working direction */
    int64_t rows, pitch, pad;             /* of a slot */
    int64_t slots, slot_floats;
    slab out; /* without vol */
    int processors;

    bool columns() const { return kind == COLUMN || kind == COLUMN_TILED; }
    bool tiled() const { return kind == COLUMN_TILED || kind == MATRIX_TILED; }
};

/* What is wrong with the problem; or which kernel it leads to. */
int choose(const vp_devbp_problem *p, choice *c, vp_devbp_plan *plan, vp_err *err);

/* Arguments of the kernels but for the buffers and the views, and n views from `first` on. */
template <class View> void fill_args(const vp_devbp_problem *p, const choice &c, view_args<View> *a)
{
    a->out = c.out;
    a->nz = (int)p->n[2], a->half_x = (int)c.half_x;
    a->nu = (int)p->nu, a->nv = (int)p->nv, a->row_base = (int)c.row_base;
    a->tiles_x = (int)vp_groups(c.half_x, c.column.tile_x), a->tiles_y = (int)vp_groups(p->n[1], c.column.tile_y);
    a->segment0 = c.segment0, a->segments = c.segments;
    a->pitch = (int)c.pitch, a->rows = (int)c.rows, a->pad = (int)c.pad;
    a->box_pitch = c.box_pitch, a->box_rows = c.box_rows;
}
void fill_views(const vp_devbp_problem *p, const choice &c, int64_t first, int n, column_args *a);
void fill_views(const vp_devbp_problem *p, const choice &c, int64_t first, int n, matrix_args *a);

} // namespace vp
#endif
