/* A scan as one HDF5 file: views, then flats, then darks, with the geometry. Used by img-convert. */
#pragma once

#include "base/opt.h"

struct vp_run;
struct vp_stack;

struct vp_whole_scan {
    const char *geometry;
    struct vp_strings flat, dark;
};
extern const struct vp_opt vp_whole_scan_options[];

/* Appends the files of flats and darks to the operands, and their numbers of pages to run->flats and run->darks, so that
 * the operands are one stack. *inputs holds the operands then, NULL if there is nothing to append; the caller frees it
 * and restores run->parsed. -1: VP_EUSAGE (pipes, since files are read twice; no HDF5 output), VP_ERUN (unreadable). */
int vp_whole_scan_append(struct vp_run *run, const struct vp_whole_scan *p, const char ***inputs, struct vp_err *err);

/* Warns of flats and darks of an HDF5 input that do not go into the HDF5 output. -1: VP_ERUN, unreadable. */
int vp_whole_scan_left_out(const struct vp_run *run, struct vp_err *err);

/* Adds the geometry to the output's header, and checks that it is that of the views. `name`: of the input. */
int vp_whole_scan_header(const struct vp_run *run, const struct vp_whole_scan *p, const char *name,
                         struct vp_stack *out, struct vp_err *err);

/* Checks that samples with flats and darks have no scale, once the header is complete. */
int vp_whole_scan_counts(const struct vp_run *run, const char *name, const struct vp_stack *out, struct vp_err *err);
