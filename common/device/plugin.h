/* SPDX-License-Identifier: BSD-3-Clause */
/* The way to a plugin: looked for in $VOXPIPE_PLUGINS, or else in ../lib/voxpipe beside the programs and beside
 * them, so that a tree that was moved still finds its own. */
#ifndef VP_PLUGIN_H
#define VP_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>

/* Open `name` and let it be found by other libraries (`global`), or not. NULL with the reason in `why` if it is not
 * there or not to be trusted (then *refused, which may be NULL, is set). It stays open. */
void *vp_plugin_open(const char *name, bool global, bool *refused, char *why, size_t size);

#endif
