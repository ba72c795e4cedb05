/* SPDX-License-Identifier: BSD-3-Clause */
/* Which back-projection kernel the matrices and the device allow, and what it is told. */
#ifndef VP_BACKPROJECT_CHOICE_CUH
#define VP_BACKPROJECT_CHOICE_CUH

#include "backproject_column.cuh"
#include "gpu.h"

#include <vector>

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
    column_kernel column;
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
};

/* A working copy of what outlives the call. */
struct scan {
    std::vector<double> P;
    int64_t n_views, n[3], nu, nv;
};

inline scan scan_of(const vp_devbp_problem *p)
{
    return {std::vector<double>(p->P, p->P + 12 * p->n_views), p->n_views, {p->nx, p->ny, p->nz}, p->nu, p->nv};
}

/* What is wrong with the problem; then which kernel it leads to. */
int validate(const vp_devbp_problem *p, vp_err *err);
int choose(const vp_devbp_problem *p, const scan &s, choice *c, vp_err *err);
void describe(const vp_devbp_problem *p, const choice &c, struct vp_devbp_plan *plan);

/* Arguments of the kernels but for the buffers and the views, and n views from `first` on. */
void fill_column_args(const scan &s, const choice &c, column_args *a);
void column_views(const scan &s, const choice &c, int64_t first, int n, column_args *a);
void fill_matrix_args(const scan &s, const choice &c, matrix_args *a);
void matrix_views(const scan &s, int64_t first, int n, matrix_args *a);

} // namespace vp
#endif
