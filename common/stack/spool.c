/* SPDX-License-Identifier: BSD-3-Clause */
/* A pipe as a file that can be read anywhere: a copy without a name, gone with the process. */
#include "base/err.h"
#include "base/places.h"
#include "base/size.h"
#include "stack/outfile.h"
#include "stack/source.h"
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
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

int vp_kept_open(struct vp_kept *k, uint64_t memory, struct vp_err *err)
{
    *k = (struct vp_kept){.memory = memory, .in_memory = true};
    k->fd = memfd_create("voxpipe", MFD_CLOEXEC);
    return k->fd < 0 ? vp_fail_errno(err, "a file in memory") : 0;
}

/* What is in memory, to the file that takes its place. */
static int move_out(struct vp_kept *k, struct vp_err *err)
{
    const char *dir = vp_tmpdir();
    const int out = vp_unnamed_file(dir);
    int rc = out < 0 ? vp_fail_errno(err, "%s: the input cannot be copied to it", dir) : 0;
    for (off_t at = 0; !rc && (uint64_t)at < k->bytes;)
        if (sendfile(out, k->fd, &at, k->bytes - (uint64_t)at) <= 0)
            rc = vp_fail_errno(err, "%s", dir);
    if (rc) {
        if (out >= 0)
            close(out);
        return -1;
    }
    close(k->fd);
    k->fd = out;
    k->in_memory = false;
    return 0;
}

int vp_kept_write(struct vp_kept *k, const void *data, size_t n, struct vp_err *err)
{
    if (k->in_memory && k->bytes + n > k->memory && move_out(k, err))
        return -1;
    k->bytes += n;
    return vp_write_all(k->fd, data, n, k->in_memory ? "a file in memory" : vp_tmpdir(), err);
}
