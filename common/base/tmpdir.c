/* SPDX-License-Identifier: BSD-3-Clause */
/* The folder of temporary files. */
#include "base/size.h"
#include <stdlib.h>

const char *vp_tmpdir(void)
{
    const char *dir = getenv("TMPDIR"); /* ENVVAR TMPDIR: folder of the copy that --spool makes */
    return dir && *dir ? dir : "/tmp";
}
