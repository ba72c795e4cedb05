/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to boxes.c and boxes_print.c. */
#ifndef VP_BOXES_INTERNAL_H
#define VP_BOXES_INTERNAL_H

#include "global/boxes.h"

/* Print the head, the boxes of a finished image, and the end. */
int vp_boxes_print_head(struct vp_boxes *b, struct vp_err *err);
int vp_boxes_print(struct vp_boxes *b, int64_t image, struct vp_err *err);
int vp_boxes_print_end(struct vp_boxes *b, struct vp_err *err);

#endif
