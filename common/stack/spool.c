/* SPDX-License-Identifier: BSD-3-Clause */
/* A pipe as a file that can be read anywhere: a copy without a name, gone with the process. */
#include "base/err.h"
#include "base/places.h"
#include "base/size.h"
#include "stack/outfile.h"
#include "stack/source.h"
#include <stdlib.h>
#include <unistd.h>

int vp_kept_open(struct vp_kept *k, const char *name, uint64_t memory, size_t count, size_t n, struct vp_err *err)
{
    *k = (struct vp_kept){.name = name, .fd = -1, .memory = memory};
    k->data = vp_alloc_raw(count, n, "copy of the input", err);
    k->room = count * n; /* vp_alloc_raw has checked it */
    return k->data ? 0 : -1;
}

void *vp_kept_next(struct vp_kept *k, size_t n, struct vp_err *err)
{
    const size_t used = k->fd < 0 ? (size_t)k->bytes : 0;
    if (n > k->room - used) {
        char *more = realloc(k->data, 2 * k->room + n);
        if (!more) {
            vp_fail(err, VP_ERESOURCE, "out of memory: the copy of the input");
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
    const bool beyond = k->fd >= 0 || n > k->memory - k->bytes;
    if (beyond && !file)
        return 1;
    if (beyond && vp_scratch_allow(k->bytes + n, vp_memory_most() / 2, k->name, err))
        return -1;
    if (beyond && k->fd < 0) {
        k->fd = vp_unnamed_file(dir);
        if (k->fd < 0)
            return vp_fail_errno(err, "%s: cannot be copied to %s", k->name, dir);
        fresh = (size_t)k->bytes + n;
    }
    k->bytes += n;
    return k->fd < 0 ? 0 : vp_write_two(k->fd, -1, k->data, fresh, NULL, 0, dir, err);
}

struct vp_input vp_kept_input(struct vp_kept *k)
{
    const struct vp_input in = {.fd = k->fd, .name = k->name, .anywhere = true, .size = k->bytes,
                                .memory = k->fd < 0 ? k->data : NULL};
    if (k->fd < 0)
        k->data = NULL;
    k->fd = -1;
    vp_kept_free(k);
    return in;
}

void vp_kept_free(struct vp_kept *k)
{
    free(k->data);
    if (k->fd >= 0)
        close(k->fd);
}

int vp_spool(struct vp_input *in, struct vp_err *err)
{
    enum { BLOCK = 1 << 20 };
    struct vp_kept k;
    int64_t n = vp_kept_open(&k, in->name, 0, 1, BLOCK, err) ? -1 : BLOCK;
    while (n > 0) {
        n = vp_input_read(in, k.data, BLOCK, err);
        if (n > 0 && vp_kept_add(&k, (size_t)n, true, err))
            n = -1;
    }
    _Atomic uint64_t *const read = in->read;
    vp_input_close(in);
    if (n < 0) {
        vp_kept_free(&k);
        return -1;
    }
    *in = vp_kept_input(&k);
    in->read = read;
    return 0;
}
