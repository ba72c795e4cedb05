/* SPDX-License-Identifier: BSD-3-Clause */
/* The TIFF library that this process has loaded. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Returns its version: "4.5.0". */
const char *vp_tiff_version(char *text, size_t size);
/* Returns the i-th of the compressions that matter to us and sets if it is built in; NULL after the last. */
const char *vp_tiff_codec(int i, bool *there);
