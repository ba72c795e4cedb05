/* Plugins: shared libraries that are opened where a program needs them and they are there. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* A plugin exports `const void *vp_plugin(void)`, which returns its table. The table begins with the build: a hash of
 * all headers that plugin and programs share (VP_BUILD). */
#define VP_PLUGIN_SYMBOL "vp_plugin"

/* Opens the plugin `name` and returns its table. `global`: its symbols are visible to other libraries. Searches
 * $VOXPIPE_PLUGINS, or else ../lib/voxpipe beside the programs and their own folder, so that a tree that was moved
 * still finds its plugins. NULL with the reason in `why` if it does not exist, is of another build or is not trusted
 * (vp_plugin_refused). It is never closed. */
const void *vp_plugin_open(const char *name, bool global, char *why, size_t size);

/* Returns the reason why the existing plugin `name` was not trusted, or "". */
const char *vp_plugin_refused(const char *name);
