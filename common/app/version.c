/* SPDX-License-Identifier: BSD-3-Clause */
/* The version, in an object of its own: a commit compiles nothing else again. */
#include "app/tool.h"

#ifndef VP_VERSION
#define VP_VERSION "unknown"
#endif

const char vp_version[] = VP_VERSION;
