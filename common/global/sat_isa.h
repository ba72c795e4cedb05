/* Inner part of summed area tables (sat.h says in what order they add up), built once for each instruction set. Private
 * to sat.c, its tests and benchmarks. */
#ifndef VP_SAT_ISA_H
#define VP_SAT_ISA_H

#include "global/sat.h"

enum { VP_SAT_GROUP = VP_SAT_WIDE + 8 }; /* numbers of a tile */

/* Up to VP_SAT_ROWS rows of a table from a column that begins a tile on; `columns` are whole tiles. All arrays are of
 * the type that sums are taken in, begin at that column, and may be read and written to the end of these. */
struct vp_sat_rows {
    const void *src[VP_SAT_ROWS];
    void *dst[VP_SAT_ROWS];
    int64_t columns;
    int rows;
    bool square;             /* of squares */
    bool f32;                /* the result of sums in f64 */
    bool past;               /* past the caches: all of dst[] begin where a line of them does */
    void *left;              /* of each row: the sum of what is left of here; then of all to the end */
    void *above;             /* the last row of the tiles above (integers: the last row) */
    void *plane[VP_SAT_ROWS];/* the plane before, which becomes this one; NULL: there is none */
    double *group;           /* floats: sums of the rows above in each tile, VP_SAT_GROUP numbers that are private */
    bool ends_tile;          /* with these rows */
};

/* [type of samples]; NULL where that cannot be */
struct vp_sat_isa {
    const char *name;
    int line;                /* bytes that dst[] must be a multiple of for `past` */
    void (*u32[VP_N_TYPES])(const struct vp_sat_rows *r);
    void (*u64[VP_N_TYPES])(const struct vp_sat_rows *r);
    void (*f64[VP_N_TYPES])(const struct vp_sat_rows *r);
};

extern const struct vp_sat_isa vp_sat_avx512, vp_sat_avx2, vp_sat_generic;

#endif
