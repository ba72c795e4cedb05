/* SPDX-License-Identifier: BSD-3-Clause */
#include "app/ending.h"

#include <stdio.h>
#include <string.h>

static const char others[] = " png jpg jpeg jp2 bmp gif webp tif tiff btf tf8 raw mha mhd nrrd nhdr nii h5 hdf "
                             "hdf5 dcm npy npz zarr vtk vti vtr pdf txt csv xml json geom zip gz zst xz bz2 7z ";

enum promise { NOTHING, FITS, ANOTHER };

static bool is_picture(const struct vp_run *run)
{
    return run->tool->flags & VP_TOOL_NO_STACK;
}

/* Returns the extensions that fit the output, the usual one first. */
static const char *fitting(const struct vp_run *run)
{
    return vp_writes_text(run)     ? (vp_given(run, "json") ? " json txt " : " txt csv json ")
           : is_picture(run)       ? " png "
           : run->common.raw_out   ? " raw "
                                   : " tif tiff btf tf8 ";
}

/* Returns the dot before the extension; NULL if there is none. */
static const char *dot_of(const char *name)
{
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name, *dot = strrchr(base, '.');
    return dot == base ? NULL : dot;
}

static enum promise promise(const char *name, const char *good, char word[12])
{
    const char *dot = dot_of(name);
    if (!dot || strlen(dot + 1) >= 8 || strchr(dot, ' '))
        return NOTHING;
    snprintf(word, 12, " %s ", dot + 1);
    return strcasestr(good, word) ? FITS : strcasestr(others, word) ? ANOTHER : NOTHING;
}

int vp_ending_check(const struct vp_run *run, const char *name, struct vp_err *err)
{
    const bool picture = is_picture(run), raw_out = run->common.raw_out;
    char word[12];
    if (vp_writes_text(run) || promise(name, fitting(run), word) != ANOTHER)
        return 0;
    const bool is_tiff = strcasestr(" tif tiff btf tf8 ", word), is_raw = strcasestr(" raw ", word);
    vp_fail(err, VP_EUSAGE, "%s: the output is %s", name,
            picture ? "a PNG" : raw_out ? "samples without a header" : "TIFF");
    return picture              ? vp_hint(err, "give a name that ends in .png; img-cat writes TIFF")
           : raw_out && is_tiff ? vp_hint(err, "leave out --raw-out, or give a name that ends in .raw")
           : is_raw             ? vp_hint(err, "add --raw-out, or give a name that ends in .tif")
           : !raw_out && strcasestr(" png jpg jpeg bmp gif webp jp2 pdf ", word)
               ? vp_hint(err, "give a name that ends in .tif; img-view makes pictures of it")
               : vp_hint(err, "give a name that ends in %s", raw_out ? ".raw" : ".tif");
}

char *vp_ending_name(const struct vp_run *run, const char *folder, const char *input)
{
    const char *slash = strrchr(input, '/'), *base = slash ? slash + 1 : input, *good = fitting(run);
    const size_t length = strlen(folder);
    char word[12], ending[8], *name = NULL;
    sscanf(good, "%7s", ending);
    const enum promise what = promise(base, good, word);
    const int keep = (int)(what == ANOTHER ? (size_t)(dot_of(base) - base) : strlen(base));
    const bool as_it_is = what == FITS || (what == NOTHING && *ending == 't' && !vp_writes_text(run));
    return asprintf(&name, "%s%s%.*s%s%s", folder, length && folder[length - 1] == '/' ? "" : "/", keep, base,
                    as_it_is ? "" : ".", as_it_is ? "" : ending) < 0 ? NULL : name;
}
