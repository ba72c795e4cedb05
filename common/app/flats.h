/* The options of normalization (ct/normalize.h), shared by programs, and its flats, darks and mask in files. */
#pragma once

#include "base/opt.h"
#include "ct/normalize.h"

struct vp_run;

extern const struct vp_opt vp_normalize_options[]; /* fields of struct vp_normalize_params */

/* Flats and darks of a scan that are in the file of its views. */
struct vp_own_fields { char **name; int names; const char **list; };
/* Adds those of the one operand to the options, as far as these give none: flats without --flat and --i0, darks without
 * --dark. They are valid until vp_own_fields_free(own), which may be called twice. */
int vp_own_fields(struct vp_normalize_params *p, struct vp_own_fields *own, struct vp_run *run, struct vp_err *err);
void vp_own_fields_free(struct vp_own_fields *own);

/* Calls vp_normalize_open with the files of the options, read and averaged; for ct-normalize and ct-fdk. nv and views
 * may be -1: nv is then that of the flats. In sinogram layout, flats and darks are sinograms too: a page per detector
 * row, whose rows are averaged. */
int vp_normalize_load(struct vp_normalize **n, struct vp_run *run, const struct vp_normalize_params *p,
                      int64_t nu, int64_t nv, int64_t views, bool sinograms, struct vp_err *err);

/* Warns of pages without a usable sample; `page` is "view" or "detector row". */
void vp_blank_report(const struct vp_blank *b, const char *page, const struct vp_run *run);
/* Reports (warnings, notes) the repairs among `samples` samples, `bad` of which were NaN or infinite. */
void vp_normalize_warn(const struct vp_normalize *n, const struct vp_run *run,
                       const struct vp_normalize_report *rep, int64_t samples, int64_t bad);
