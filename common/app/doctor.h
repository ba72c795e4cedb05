/* SPDX-License-Identifier: BSD-3-Clause */
/* Report of what this machine offers to the programs: processor, memory, devices, plugins, libraries; and of what is
 * missing, with the way to get it. */
#pragma once

#include <stdio.h>

/* Prints it. `folder`: the programs'. Starts the devices. */
void vp_doctor(FILE *out, const char *folder);
