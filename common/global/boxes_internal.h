/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of boxes share: printing. */
#ifndef VP_BOXES_INTERNAL_H
#define VP_BOXES_INTERNAL_H

#include "global/boxes.h"

/* What comes before the first box; the boxes of an image that has gone by; what comes behind the last, and the end. */
int vp_boxes_print_head(struct vp_boxes *b, struct vp_err *err);
int vp_boxes_print(struct vp_boxes *b, int64_t image, struct vp_err *err);
int vp_boxes_print_end(struct vp_boxes *b, struct vp_err *err);

#endif
