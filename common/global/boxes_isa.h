/* Inner loops of the sums over boxes, built once for each instruction set. Private to boxes.c and its tests. */
#pragma once

#include "stack/stack.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    VP_BOXES_GROUP = 8,  /* columns summed together */
    VP_BOXES_SUM = 2,    /* numbers in f64 of a sum of samples */
    VP_BOXES_SQUARES = 3, /* and of a sum of squares */
    VP_BOXES_ROWS = 8    /* maximum rows of a call */
};

/* Columns of a group: the numbers of a lane add up to the sum of its samples, or of their squares. */
struct vp_box_columns {
    double sum[VP_BOXES_SUM][VP_BOXES_GROUP], squares[VP_BOXES_SQUARES][VP_BOXES_GROUP];
};

struct vp_boxes_isa {
    const char *name;
    /* Adds `rows` rows, `stride` samples apart, to groups `first` ... `groups` - 1. Returns the first group that could
     * not take its samples without rounding, or one of which is not finite; it is unchanged. NULL: samples of the type
     * are converted. */
    int64_t (*rows[VP_N_TYPES])(const void *src, int64_t stride, int rows, int64_t first, int64_t groups,
                                struct vp_box_columns *to);
    /* Adds n groups of numbers, `stride` apart, to `to`. False: a sum would round; it is unchanged. */
    bool (*fold)(const double *src, int64_t stride, int64_t n, double (*to)[VP_BOXES_GROUP]);
};

extern const struct vp_boxes_isa vp_boxes_avx512, vp_boxes_avx2, vp_boxes_generic;
