/* Metadata by the user: metadata set by hand, for plain TIFFs and raw files that bring none. */
#pragma once

#include "base/opt.h"
#include "stack/stack.h"

struct vp_set_params { struct vp_strings set; };   /* "voxel=0.5,0.5,2mm" */
extern const struct vp_opt vp_set_options[];       /* --set */

/* Sets what is given in the header of the output. VP_EUSAGE for what cannot be. */
int vp_set_stack(const struct vp_set_params *p, struct vp_stack *out, struct vp_err *err);
/* Sets at most four numbers as the value of a key, as short as they read back the same. 0 or -1 (out of memory). */
int vp_set_numbers(struct vp_meta *m, const char *key, int n, const double *v);
