/* Writes a stack as an HDF5 file (internal to stack/). */
#pragma once

#include "stack/writer.h"

struct vp_h5_writer;

/* Makes the file at `path` (NULL: the output is none; VP_EUSAGE), which exists; name: for messages, lives longer.
 * s->pages may be -1. frames: NULL, or of a scan. */
int vp_h5_writer_open(struct vp_h5_writer **w, const char *path, const char *name, const struct vp_stack *s,
                      enum vp_compress compress, const struct vp_frames *frames, struct vp_err *err);
int vp_h5_writer_page(struct vp_h5_writer *w, const void *samples, struct vp_err *err);
/* Frees w; err NULL: the file is thrown away. */
int vp_h5_writer_close(struct vp_h5_writer *w, struct vp_err *err);
