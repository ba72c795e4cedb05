/* SPDX-License-Identifier: BSD-3-Clause */
/* A stack as an HDF5 file, a page a chunk. */
#include "stack/hdf5.h"
#include "base/err.h"
#include "base/size.h"
#include "stack/hdf5_out.h"
#include <stdlib.h>
#include <string.h>

struct vp_h5_writer {
    const struct vp_h5_plugin *lib;
    struct vp_h5_out *out;
    int64_t pages; /* written so far */
};

/* Writes the metadata: all of it for us, and the size of voxels for Fiji and ilastik. */
static int describe(struct vp_h5_writer *w, const struct vp_stack *s, const char *name, struct vp_err *err)
{
    const char *const unit = vp_meta_get(&s->meta, "unit");
    double v[3], um[3];
    char *const text = vp_meta_format(&s->meta, "");
    int rc = text ? w->lib->note(w->out, text, err) : vp_fail(err, VP_ERESOURCE, "%s: out of memory", name);
    free(text);
    if (rc || !unit || strcmp(unit, "mm") || !vp_meta_numbers(&s->meta, "voxel", 3, v))
        return rc;
    for (int i = 0; i < 3; i++)
        um[i] = 1000 * v[2 - i];
    return w->lib->label(w->out, "element_size_um", 3, um, err);
}

int vp_h5_writer_open(struct vp_h5_writer **out, const char *path, const char *name, const struct vp_stack *s,
                      enum vp_compress compress, struct vp_err *err)
{
    char why[1024];
    if (!path)
        return vp_fail(err, VP_EUSAGE, "%s: HDF5 cannot be written to a pipe or device; use -o FILE", name);
    if (compress == VP_COMPRESS_ZSTD)
        return vp_fail(err, VP_EUSAGE, "%s: HDF5 is written with --compress deflate, got zstd", name);
    struct vp_h5_writer *const w = vp_alloc(1, sizeof *w, name, err);
    if (!w)
        return -1;
    w->lib = vp_h5_open(why, sizeof why);
    int rc = w->lib ? 0
                    : vp_fail_hint(err, VP_ERESOURCE,
                                   "install libhdf5-dev and run make again; voxpipe doctor shows what is there",
                                   "%s: HDF5 needs a plugin: %s", name, why);
    rc = rc || w->lib->create(&w->out, path, name, s, compress == VP_COMPRESS_DEFLATE, err) || describe(w, s, name, err)
             ? -1 : 0;
    if (rc)
        (void)vp_h5_writer_close(w, NULL);
    else
        *out = w;
    return rc;
}

int vp_h5_writer_page(struct vp_h5_writer *w, const void *samples, struct vp_err *err)
{
    return w->lib->page(w->out, w->pages++, samples, err);
}

int vp_h5_writer_close(struct vp_h5_writer *w, struct vp_err *err)
{
    const int rc = w && w->out ? w->lib->finish(w->out, err) : 0;
    free(w);
    return rc;
}
