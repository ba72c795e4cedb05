/* SPDX-License-Identifier: BSD-3-Clause */
/* The version, in an object file of its own, so that a commit recompiles nothing else. */
#include "app/tool.h"

#ifndef VP_VERSION
#define VP_VERSION "unknown"
#endif

const char vp_version[] = VP_VERSION;
