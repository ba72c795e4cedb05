/* --each-file: a run of the program for each input file. File name extensions: the formats that they stand for. */
#pragma once

#include "app/tool.h"

/* Runs the program for each input file, in order, until the first failure. Errors before that (VP_EUSAGE): no file,
 * standard input, an option that cannot be read twice or names another output, two results of one name, a result that
 * is an input. `params`: the program's parameters, copied for each run. Returns as tool->run does. */
int vp_each_file(const struct vp_run *run, const void *params, struct vp_err *err);

/* Rejects an output name whose extension stands for a format that is not the output's (VP_EUSAGE). Extensions that are
 * not listed are allowed. */
int vp_ending_check(const struct vp_run *run, const char *name, struct vp_err *err);
