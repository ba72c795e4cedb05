/* Summed area tables: out(y, x) is the sum of all samples at or before y and x, or in volumes at or before z, y and x.
 * Integers are summed modulo 2^32 or 2^64. Floats are summed in f64, for any type of the table, in one order on every
 * device:
 *
 * A tile has 64 rows (128 in images, not volumes, of f32) of 128 columns, the first tile at row 0 and column 0; samples
 * beyond the image's width count as 0. Its rows are in groups of 8, its columns in quads. Within a tile
 *
 * - along x: q_0 = a(4 i), q_k = q_(k - 1) + a(4 i + k), in each row.
 * - along y: w_k is the sum of q_k over the rows of the group so far, in order; o_k that of the last w_k of the groups
 *   before in the tile, in order from 0; t_k that of o_k and of q_k over the rows of the group so far, in order, but in the
 *   tile's last row o_k + w_k.
 * - along x again: s_i = t_3 of quad i, their 32 prefix sums by doubling (for d = 1, 2, 4, 8, 16: s_i = s_i + s_(i - d)
 *   for i >= d), then with e_i = s_(i - 1), where s_(-1) is 0, r(4 i + k) = t_k + e_i.
 * - of a row: v is the sum of w_3 over the quads, by halves (that of i is added to that of i + 16, then to that of i + 8
 *   and so on), and b the sum of the last v of the groups before, in order from 0, and v.
 *
 * h, of each row of a tile, is the sum of b over the tiles to the left, in order from 0. Then
 *
 *     out = p + (r + h)
 *
 * with p the last row of the tile above, 0 in the first. In a volume that is the table f of a plane, and
 * out(z) = out(z - 1) + f(z), out(-1) being 0. Zeros are added, too, so a table has no -0. */
#pragma once

#include "engine/op.h"

/* Rows and columns of a tile, rows of a group. */
enum { VP_SAT_HIGH = 64, VP_SAT_TALL = 128, VP_SAT_WIDE = 128, VP_SAT_ROWS = 8 };

/* Type of the sums. */
enum vp_sat_sum { VP_SAT_U32, VP_SAT_U64, VP_SAT_F64, VP_SAT_SUMS };

/* params of kernel "sat". In images the rows of a page are the planes of the engine (vp_problem.lines): image[] is its
 * width, 1, its height. */
struct vp_sat {
    bool volume;
    int tables;               /* 2: the second output is the table of squares */
    enum vp_sat_sum sum[2];
    int64_t high;             /* rows of a tile of floats */
    int64_t width;            /* numbers of a carried row: the image's width, rounded up to VP_SAT_WIDE */
};

struct vp_sat_request {
    bool volume, exclusive, squares;
    enum vp_type out;         /* type of the first table */
};

/* Returns the default type of a table of `in`: f64 for floats; for integers 32 bits if no sum of `samples` samples (0:
 * any number) exceeds that range, else 64. */
enum vp_type vp_sat_type(enum vp_type in, double samples);
/* Checks that a table of type `out` of samples `in` exists; VP_EUSAGE with a hint. */
int vp_sat_check(enum vp_type in, enum vp_type out, struct vp_err *err);
/* Returns the type of the table of squares beside one of type `out`. */
enum vp_type vp_sat_squares(enum vp_type out);

/* Fills *op for images of size[] (2-D: width, 1, height); op->free releases its params. VP_EUSAGE or VP_ERESOURCE. */
int vp_sat_op(struct vp_op *op, const struct vp_sat_request *r, const int64_t size[3], enum vp_type in,
              struct vp_err *err);

/* Returns the bytes of a sum. */
static inline size_t vp_sat_size(enum vp_sat_sum s)
{
    return s == VP_SAT_U32 ? 4 : 8;
}

/* Returns the carried bytes of a table: its last row, in volumes its last plane. The second table's follow the first's. */
static inline uint64_t vp_sat_carried(const struct vp_op *op, int table)
{
    const struct vp_sat *p = (const struct vp_sat *)op->params;
    const uint64_t n = (uint64_t)(p->width * (p->volume ? op->image[1] : 1));
    return (n * vp_sat_size(p->sum[table]) + 63) / 64 * 64;
}
