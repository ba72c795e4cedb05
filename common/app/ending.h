/* Endings of file names: what they promise, and what they should be. */
#ifndef VP_ENDING_H
#define VP_ENDING_H

#include "app/tool.h"

/* Refuse a name for the output that promises another kind of file than what is written (VP_EUSAGE). Endings that are not
 * listed promise nothing. */
int vp_ending_check(const struct vp_run *run, const char *name, struct vp_err *err);

/* The name in `folder` of the result of the file `input`: its own, with an ending that fits. malloc'd; NULL without
 * memory. */
char *vp_ending_name(const struct vp_run *run, const char *folder, const char *input);

#endif
