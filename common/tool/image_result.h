/* SPDX-License-Identifier: BSD-3-Clause */
/* What the result is, for its metadata, and the file or pipe that it goes to. */
#ifndef VP_IMAGE_RESULT_H
#define VP_IMAGE_RESULT_H

#include "tool/image.h"

struct vp_writer;

/* What the samples of a result are, beside those they are made of: what becomes of the metadata `scale`. */
enum vp_values {
    VP_VALUES,      /* such values: smoothed, one of them, between them */
    VP_DIFFERENCES, /* of such values: an offset is gone */
    VP_SPREADS,     /* never negative ones */
    VP_SQUARES,     /* of differences */
    VP_NO_VALUES,   /* a scale says nothing of them */
};
struct vp_result {
    enum vp_values values;
    const char *quantity; /* replaces the metadata's, and its unit goes; "": nobody knows what it is; NULL: it stays */
};

/* The type of its samples in the file: the last stage's, or i8 again where i16 stood in for it. */
enum vp_type vp_images_stored(const struct vp_images *im, const struct vp_chain *chain);
/* Its metadata and length; then it is opened. With a twin writer[1] is that of the second. */
int vp_images_result(const struct vp_images *im, struct vp_run *run, const struct vp_chain *chain,
                     const struct vp_result *result, struct vp_writer *writer[2], struct vp_err *err);

#endif
