/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes one stack of the views, flats and darks of a scan. */
#include "app/whole_scan.h"
#include "app/open.h"
#include "base/size.h"
#include "ct/quantity.h"
#include "geom/geom.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const struct vp_opt vp_whole_scan_options[] = {
    VP_FILE(struct vp_whole_scan, geometry, "geometry", 'g', .metavar = "FILE", .group = "Scans",
            .help = "scan geometry for the metadata",
            .more = "Any format that ct-geom(1) reads. It replaces the geometry of the input."),
    VP_FILES(struct vp_whole_scan, flat, "flat", 0, .metavar = "FILES",
             .help = "append flat fields, for one HDF5 file (NXtomo) with the whole scan",
             .more = "Needs -o FILE.h5 and a geometry, from -g or the metadata. The images must have the size and type "
                     "of the views, and must be in files, not in a pipe. In the file, image_key is 0 for views, 1 for "
                     "flats and 2 for darks. ct-normalize(1) and ct-fdk(1) then need no other file."),
    VP_FILES(struct vp_whole_scan, dark, "dark", 0, .metavar = "FILES", .help = "append dark fields, likewise"),
    VP_OPT_END,
};

static int reject_pipe(const char *option, const char *path, struct vp_err *err)
{
    struct stat st;
    if (strcmp(path, "-") && (stat(path, &st) || !S_ISFIFO(st.st_mode)))
        return 0;
    return vp_fail_hint(err, VP_EUSAGE, "write it to a file first", "--%s %s: read twice: expected a file, got a pipe",
                        option, path);
}

/* Counts the pages of flats or darks and appends their files to the inputs. */
static int append(struct vp_run *run, const char *option, const struct vp_strings *files, const char **inputs,
                  int64_t *pages, struct vp_err *err)
{
    struct vp_reader *reader = NULL;
    const char *path;
    int rc = 0;

    if (!files->n)
        return 0;
    for (int i = 0; i < files->n; i++) /* before anything is taken from a pipe */
        if (reject_pipe(option, files->v[i], err))
            return -1;
    if (vp_open_joined(run, files->v, files->n, &reader, err))
        return -1;
    for (int64_t i = 0; !rc && (path = vp_reader_path(reader, i)); i++) /* those of lists, too */
        rc = reject_pipe(option, path, err);
    *pages = vp_reader_stack(reader)->pages;
    rc = rc ? rc : vp_quantity_check(vp_reader_stack(reader), VP_NEED_FLATS, vp_reader_name(reader), err);
    if (!rc && *pages < 0)
        rc = vp_fail(err, VP_EUSAGE, "%s: the number of pages is not known: expected a file", vp_reader_name(reader));
    if (vp_reader_close(reader, NULL) || rc)
        return -1;
    for (int i = 0; i < files->n; i++)
        inputs[run->parsed.n_operands++] = files->v[i];
    return 0;
}

int vp_whole_scan_append(struct vp_run *run, const struct vp_whole_scan *p, const char ***inputs, struct vp_err *err)
{
    const int n = run->parsed.n_operands, most = n + p->flat.n + p->dark.n + 1;
    const char *const format = run->common.output ? vp_output_format(run->common.output) : NULL;

    if (!p->flat.n && !p->dark.n)
        return 0;
    if (!format || strcmp(format, "HDF5") || run->common.raw_out || strchr(run->common.output, '%'))
        return vp_fail(err, VP_EUSAGE, "--flat and --dark need the name of one HDF5 file: -o FILE.h5");
    *inputs = vp_alloc((size_t)most, sizeof **inputs, "the names of inputs", err);
    if (!*inputs)
        return -1;
    for (int i = 0; i < n; i++)
        (*inputs)[i] = run->parsed.operands[i];
    if (!n)
        (*inputs)[run->parsed.n_operands++] = "-";
    run->parsed.operands = *inputs;
    run->common.join = true;
    return append(run, "flat", &p->flat, *inputs, &run->flats, err)
           || append(run, "dark", &p->dark, *inputs, &run->darks, err) ? -1 : 0;
}

int vp_whole_scan_left_out(const struct vp_run *run, struct vp_err *err)
{
    const char *const name = run->parsed.n_operands == 1 ? run->parsed.operands[0] : "";
    const char *const formats[] = {vp_output_format(name), run->common.output ? vp_output_format(run->common.output) : NULL};
    struct vp_fields f = {0};

    for (int i = 0; i < 2; i++)
        if (!formats[i] || strcmp(formats[i], "HDF5"))
            return 0;
    if (vp_fields_find(name, &f, err))
        return -1;
    if (f.flats || f.darks)
        vp_warn(run, "%s: its flats and darks are left out: --flat %s:flats.0 --dark %s:darks append them", name, name, name);
    free(f.at);
    return 0;
}

int vp_whole_scan_header(const struct vp_run *run, const struct vp_whole_scan *p, const char *name,
                         struct vp_stack *out, struct vp_err *err)
{
    const bool fields = run->flats || run->darks, views_known = out->pages >= 0;
    const int64_t views = out->pages - run->flats - run->darks;
    struct vp_geom geom = {0};
    int rc = 0, found = 0;

    if (!p->geometry && !fields)
        return 0;
    if (p->geometry)
        found = vp_geom_make(&geom, p->geometry, NULL, err) ? -1 : 1;
    else
        found = vp_geom_from_meta(&geom, &out->meta, name, err);
    if (found < 0)
        return -1;
    if (!found)
        return vp_fail_hint(err, VP_EUSAGE, "give -g FILE", "%s: --flat and --dark need a scan geometry", name);
    const char *const axes = vp_meta_get(&out->meta, "axes");
    if (geom.nu != out->nx || geom.nv != out->ny || (views_known && geom.views != views))
        rc = vp_fail(err, VP_ERUN, "%s: expected %lld views of %lldx%lld as in the scan geometry, got %lld of %lldx%lld",
                     name, (long long)geom.views, (long long)geom.nu, (long long)geom.nv, (long long)views,
                     (long long)out->nx, (long long)out->ny);
    else if (axes && strcmp(axes, "u v view"))
        rc = vp_fail_hint(err, VP_EUSAGE, "--set axes=u,v,view, if they are views",
                          "%s: expected views (axes u v view), got axes %s", name, axes);
    else if (fields && vp_quantity_check(out, VP_NEED_COUNTS, name, err))
        rc = -1;
    if (!rc && p->geometry) {
        vp_meta_remove_prefix(&out->meta, "geom.");
        rc = vp_geom_to_meta(&geom, &out->meta, err);
    }
    if (!rc && (vp_meta_set(&out->meta, "axes", "u v view") || (fields && vp_meta_set(&out->meta, "quantity", "counts"))))
        rc = vp_fail(err, VP_ERESOURCE, "out of memory");
    vp_geom_free(&geom);
    return rc;
}

int vp_whole_scan_counts(const struct vp_run *run, const char *name, const struct vp_stack *out, struct vp_err *err)
{
    if ((!run->flats && !run->darks) || !vp_meta_get(&out->meta, "scale"))
        return 0;
    return vp_fail_hint(err, VP_EUSAGE, "img-convert --unscale stores the counts of each as they are",
                        "%s: --flat and --dark need counts without a scale: ct-normalize reads flats and darks as they are "
                        "stored", name);
}
