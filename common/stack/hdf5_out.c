/* SPDX-License-Identifier: BSD-3-Clause */
/* A stack as an HDF5 file, a page a chunk; a scan of counts as an NXtomo, too. */
#include "stack/hdf5.h"
#include "base/err.h"
#include "base/size.h"
#include "stack/hdf5_out.h"
#include <stdlib.h>
#include <string.h>

struct vp_h5_writer {
    const struct vp_h5_plugin *lib;
    struct vp_h5_out *out;
    const char *name;
    int64_t pages; /* written so far */
    bool counts;
    struct vp_frames frames;
    double *angle; /* those of the frames */
};

/* Writes the metadata: all of it for us, and the size of voxels for Fiji and ilastik. */
static int describe(struct vp_h5_writer *w, const struct vp_stack *s, const char *name, struct vp_err *err)
{
    const char *const unit = vp_meta_get(&s->meta, "unit");
    double v[3], um[3];
    char *const text = vp_meta_format(&s->meta, "");
    int rc = text ? w->lib->add_text(w->out, VP_H5_NOTE, text, err)
                  : vp_fail(err, VP_ERESOURCE, "%s: out of memory", name);
    free(text);
    if (rc || !unit || strcmp(unit, "mm") || !vp_meta_numbers(&s->meta, "voxel", 3, v))
        return rc;
    for (int i = 0; i < 3; i++)
        um[i] = 1000 * v[2 - i];
    return w->lib->label(w->out, "element_size_um", 3, um, err);
}

/* Keeps the description of a scan until the number of pages is known. */
static int keep_frames(struct vp_h5_writer *w, const struct vp_stack *s, const struct vp_frames *f, struct vp_err *err)
{
    const char *const quantity = vp_meta_get(&s->meta, "quantity");
    if (!f)
        return 0;
    w->frames = *f;
    w->counts = quantity && !strcmp(quantity, "counts");
    w->angle = f->views ? vp_alloc_raw((size_t)f->views, sizeof *w->angle, "the angles", err) : NULL;
    if (f->views && !w->angle)
        return -1;
    if (f->views)
        memcpy(w->angle, f->angle, (size_t)f->views * sizeof *w->angle);
    return 0;
}

/* Writes the angles of all frames, and their kinds; flats and darks have the last angle. */
static int describe_frames(struct vp_h5_writer *w, struct vp_err *err)
{
    const int64_t views = w->frames.views;
    double *const of = vp_alloc_raw((size_t)w->pages, sizeof *of, "the angles", err);
    if (!of)
        return -1;
    for (int64_t i = 0; i < w->pages; i++)
        of[i] = w->angle[vp_min64(i, views - 1)];
    int rc = w->lib->add_numbers(w->out, VP_H5_GROUP "/rotation_angle", "degree", false, w->pages, of, err);
    for (int64_t i = 0; i < w->pages; i++)
        of[i] = i < views ? VP_H5_VIEW : i < views + w->frames.flats ? VP_H5_FLAT : VP_H5_DARK;
    if (!rc && w->counts)
        rc = w->lib->add_numbers(w->out, VP_H5_GROUP "/image_key", NULL, true, w->pages, of, err);
    free(of);
    return rc;
}

/* Writes what makes an NXtomo of the file. */
static int describe_instrument(struct vp_h5_writer *w, struct vp_err *err)
{
    static const struct { const char *path, *class; } groups[] = {
        {"/entry/instrument", "NXinstrument"}, {"/entry/instrument/detector", "NXdetector"},
        {"/entry/instrument/source", "NXsource"}, {"/entry/sample", "NXsample"}};
    static const struct { const char *path, *to; } links[] = {
        {"/entry/instrument/detector/data", VP_H5_OUTPUT},
        {"/entry/instrument/detector/image_key", VP_H5_GROUP "/image_key"},
        {"/entry/sample/rotation_angle", VP_H5_GROUP "/rotation_angle"}};
    const struct vp_frames *const f = &w->frames;
    const double to_source = -f->sod, to_detector = f->sdd - f->sod;
    const struct { const char *path; double mm; bool has; } lengths[] = {
        {"/entry/instrument/detector/x_pixel_size", f->pitch[0], f->pitch[0] > 0},
        {"/entry/instrument/detector/y_pixel_size", f->pitch[1], f->pitch[1] > 0},
        {"/entry/instrument/detector/distance", to_detector, f->sod > 0},
        {"/entry/instrument/source/distance", to_source, f->sod > 0}};
    int rc = w->lib->add_text(w->out, "/entry/definition", "NXtomo", err);
    for (size_t i = 0; !rc && i < sizeof groups / sizeof *groups; i++)
        rc = w->lib->add_group(w->out, groups[i].path, groups[i].class, err);
    for (size_t i = 0; !rc && i < sizeof links / sizeof *links; i++)
        rc = w->lib->add_link(w->out, links[i].path, links[i].to, err);
    for (size_t i = 0; !rc && i < sizeof lengths / sizeof *lengths; i++)
        if (lengths[i].has)
            rc = w->lib->add_numbers(w->out, lengths[i].path, "mm", false, 0, &lengths[i].mm, err);
    return rc || !(f->sod > 0) ? rc : w->lib->add_text(w->out, "/entry/instrument/source/type", "X-ray tube", err);
}

int vp_h5_writer_open(struct vp_h5_writer **out, const char *path, const char *name, const struct vp_stack *s,
                      enum vp_compress compress, const struct vp_frames *frames, struct vp_err *err)
{
    char why[1024];
    if (!path)
        return vp_fail(err, VP_EUSAGE, "%s: HDF5 cannot be written to a pipe or device; use -o FILE", name);
    if (compress == VP_COMPRESS_ZSTD)
        return vp_fail(err, VP_EUSAGE, "%s: HDF5 is written with --compress deflate, got zstd", name);
    struct vp_h5_writer *const w = vp_alloc(1, sizeof *w, name, err);
    if (!w)
        return -1;
    w->name = name;
    w->lib = vp_h5_open(why, sizeof why);
    int rc = w->lib ? 0
                    : vp_fail_hint(err, VP_ERESOURCE,
                                   "install libhdf5-dev and run make again; voxpipe doctor shows what is there",
                                   "%s: HDF5 needs a plugin: %s", name, why);
    rc = rc || w->lib->create(&w->out, path, name, s, compress == VP_COMPRESS_DEFLATE, err) || describe(w, s, name, err)
                 || keep_frames(w, s, frames, err) ? -1 : 0;
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
    int rc = 0;
    if (!w)
        return 0;
    const struct vp_frames *const f = &w->frames;
    const int64_t views = w->pages - f->flats - f->darks;
    if (w->out && err && f->views && f->views == views)
        rc = describe_frames(w, err) || (w->counts && describe_instrument(w, err)) ? -1 : 0;
    else if (w->out && err && f->flats + f->darks)
        rc = vp_fail(err, VP_ERUN, "%s: expected %lld views as in the scan geometry, got %lld", w->name,
                     (long long)f->views, (long long)views);
    if (w->out && w->lib->finish(w->out, rc ? NULL : err))
        rc = -1;
    free(w->angle);
    free(w);
    return rc;
}
