/* Volumes of programs that hold them whole: their grid, out of the metadata, and their samples. */
#pragma once

#include "geom/geom.h"

struct vp_reader;
struct vp_run;

/* Sets the grid of a stack whose pages are slices, in mm. VP_EUSAGE if they are none, or of unknown size. Pages of a
 * pipe that does not give their number are kept until its end, at most `memory` bytes. */
int vp_volumes_grid(struct vp_reader *reader, uint64_t memory, struct vp_grid *grid, struct vp_err *err);
/* Rejects (VP_EUSAGE) a stack that is not nx x ny x nz. `option` and `what` are for the message: "--mask". */
int vp_volumes_match(const struct vp_reader *reader, const char *option, const int64_t n[3], struct vp_err *err);
/* Reads the slices from the front to the end as f32, and checks that it is the end. *bad (may be NULL) counts NaN and
 * infinities. */
int vp_volumes_read(struct vp_reader *reader, int64_t slices, int threads, float *to, int64_t *bad, struct vp_err *err);
