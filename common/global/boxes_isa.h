/* Inner part of the sums over boxes, built once for each instruction set. Private to boxes.c and its tests. */
#ifndef VP_BOXES_ISA_H
#define VP_BOXES_ISA_H

#include "stack/stack.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    VP_BOXES_GROUP = 8,  /* columns that are summed up together */
    VP_BOXES_SUM = 2,    /* numbers in f64 that a sum of samples is kept in, */
    VP_BOXES_SQUARES = 3, /* and one of squares, which are twice as long */
    VP_BOXES_ROWS = 8    /* at most, at a time */
};

/* Of each column of a group: the sum of the numbers of a lane is the sum of its samples, or of their squares. */
struct vp_box_columns {
    double sum[VP_BOXES_SUM][VP_BOXES_GROUP], squares[VP_BOXES_SQUARES][VP_BOXES_GROUP];
};

struct vp_boxes_isa {
    const char *name;
    /* `rows` rows, `stride` samples apart, of groups `first` to `groups` - 1. The first group that cannot take its
     * samples without rounding, and has not: also where one of them is not finite. Types that have no function are
     * converted. */
    int64_t (*rows[VP_N_TYPES])(const void *src, int64_t stride, int rows, int64_t first, int64_t groups,
                                struct vp_box_columns *to);
    /* The same for sums: n groups of numbers, `stride` apart, are added to `to`. False: it is left as it was. */
    bool (*fold)(const double *src, int64_t stride, int64_t n, double (*to)[VP_BOXES_GROUP]);
};

extern const struct vp_boxes_isa vp_boxes_avx512, vp_boxes_avx2, vp_boxes_generic;

#endif
