/* SPDX-License-Identifier: BSD-3-Clause */
/* A pipe as a file that can be read anywhere: a copy without a name, gone with the process. */
#include "base/err.h"
#include "base/places.h"
#include "base/size.h"
#include "stack/source.h"
#include "stack/writer.h"
#include <stdlib.h>
#include <unistd.h>

enum { BLOCK = 1 << 20 };

int vp_spool(int fd, const char *name, struct vp_err *err)
{
    const char *dir = vp_tmpdir();
    struct vp_input in = {0};
    char *block = vp_alloc_raw(1, BLOCK, "a spool buffer", err);
    int out = -1, rc = block ? vp_input_init(&in, fd, name, err) : -1;
    if (!rc) {
        out = vp_unnamed_file(dir);
        rc = out < 0 ? vp_fail_errno(err, "%s: cannot be copied to %s", name, dir) : 0;
    }
    while (!rc) {
        const int64_t n = vp_input_read(&in, block, BLOCK, err);
        if (n <= 0) {
            rc = (int)n;
            break;
        }
        rc = vp_write_all(out, block, (size_t)n, dir, err);
    }
    if (!rc && lseek(out, 0, SEEK_SET) < 0)
        rc = vp_fail_errno(err, "%s", dir);
    vp_input_free(&in);
    free(block);
    close(fd);
    if (rc && out >= 0)
        close(out);
    return rc ? -1 : out;
}
