/* SPDX-License-Identifier: BSD-3-Clause */
/* Folders that the environment names. */
#include "base/size.h"
#include <stdlib.h>

const char *vp_tmpdir(void)
{
    const char *dir = getenv("TMPDIR"); /* ENVVAR TMPDIR: folder of the copy that --spool makes */
    return dir && *dir ? dir : "/tmp";
}

const char *vp_plugins(void)
{
    const char *dir = getenv("VOXPIPE_PLUGINS"); /* ENVVAR VOXPIPE_PLUGINS: folder of voxpipe-cuda.so */
    return dir && *dir ? dir : NULL;
}
