/* File name extensions: the formats that they stand for, and the extension of a result. */
#ifndef VP_ENDING_H
#define VP_ENDING_H

#include "app/tool.h"

/* Rejects an output name whose extension stands for a format that is not the output's (VP_EUSAGE). Extensions that are
 * not listed are allowed. */
int vp_ending_check(const struct vp_run *run, const char *name, struct vp_err *err);

/* Returns the name in `folder` for the result of the file `input`: its own name, with an extension that fits. malloc'd;
 * NULL if out of memory. */
char *vp_ending_name(const struct vp_run *run, const char *folder, const char *input);

#endif
