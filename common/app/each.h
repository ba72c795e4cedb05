/* --each-file: a run of the program for each input file. */
#ifndef VP_EACH_H
#define VP_EACH_H

#include "app/tool.h"

/* Run the program for each file that the operands stand for, in order; the first failure ends it. Refused before that
 * (VP_EUSAGE): no file, standard input, an option that cannot be read twice or names another output, two results of one
 * name, a result that is an input. `params`: the program's, of which each run gets a copy. Returns as tool->run does. */
int vp_each_file(const struct vp_run *run, const void *params, struct vp_err *err);

#endif
