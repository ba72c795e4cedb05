/* SPDX-License-Identifier: BSD-3-Clause */
/* A pipe as a file that can be read anywhere: a copy without a name, gone with the process. */
#include "base/err.h"
#include "base/places.h"
#include "base/size.h"
#include "stack/outfile.h"
#include "stack/source.h"
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

int vp_kept_open(struct vp_kept *k, uint64_t memory, size_t count, size_t n, struct vp_err *err)
{
    k->fd = -1;
    k->bytes = 0;
    k->memory = memory;
    k->room = count * n; /* which vp_alloc_raw has seen to fit */
    k->data = vp_alloc_raw(count, n, "what is kept of the input", err);
    return k->data ? 0 : -1;
}

void *vp_kept_next(struct vp_kept *k, size_t n, struct vp_err *err)
{
    const size_t used = k->fd < 0 ? (size_t)k->bytes : 0;
    if (n > k->room - used) {
        char *more = realloc(k->data, 2 * k->room + n);
        if (!more) {
            vp_fail(err, VP_ERESOURCE, "not enough memory for what is kept of the input");
            return NULL;
        }
        k->data = more;
        k->room = 2 * k->room + n;
    }
    return k->data + used;
}

int vp_kept_add(struct vp_kept *k, size_t n, bool file, struct vp_err *err)
{
    const char *dir = vp_tmpdir();
    size_t fresh = n;
    if (k->fd < 0 && n > k->memory - k->bytes) {
        if (!file)
            return 1;
        k->fd = vp_unnamed_file(dir);
        if (k->fd < 0)
            return vp_fail_errno(err, "%s: the input cannot be copied to it", dir);
        fresh = (size_t)k->bytes + n;
    }
    k->bytes += n;
    return k->fd < 0 ? 0 : vp_write_all(k->fd, k->data, fresh, dir, err);
}

void vp_kept_free(struct vp_kept *k)
{
    free(k->data);
    if (k->fd >= 0)
        close(k->fd);
}
