/* Inner loops of summed area tables (sat.h has the order of additions), built once for each instruction set. Private to
 * sat.c, its tests and benchmarks. */
#pragma once

#include "global/sat.h"

enum { VP_SAT_GROUP = VP_SAT_WIDE + 8 }; /* numbers of a tile */

/* Up to VP_SAT_ROWS rows of a table from the first column of a tile on; `columns` are whole tiles. All arrays are of
 * the type of the sums, begin at that column, and may be read and written to the end of the tiles. */
struct vp_sat_rows {
    const void *src[VP_SAT_ROWS];
    void *dst[VP_SAT_ROWS];
    int64_t columns;
    int rows;
    bool square;             /* sums of squares */
    bool f32;                /* the result of sums in f64 */
    bool past;               /* non-temporal stores: every dst[] is aligned to a cache line */
    void *left;              /* for each row: the sum to the left of these columns; on return with these columns */
    void *above;             /* last row of the tiles above (integers: of the rows above) */
    void *plane[VP_SAT_ROWS];/* plane before, replaced by this one; NULL: none */
    double *group;           /* floats: sums of the rows above in each tile, VP_SAT_GROUP numbers of private layout */
    bool ends_tile;          /* the same with these rows */
};

/* [type of samples]; NULL: not supported */
struct vp_sat_isa {
    const char *name;
    int line;                /* alignment of dst[] for `past`, bytes */
    void (*u32[VP_N_TYPES])(const struct vp_sat_rows *r);
    void (*u64[VP_N_TYPES])(const struct vp_sat_rows *r);
    void (*f64[VP_N_TYPES])(const struct vp_sat_rows *r);
};

extern const struct vp_sat_isa vp_sat_avx512, vp_sat_avx2, vp_sat_generic;
