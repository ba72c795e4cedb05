/* The options of normalization (ct/normalize.h), shared by programs, and its flats, darks and mask in files. */
#pragma once

#include "base/opt.h"
#include "ct/normalize.h"

struct vp_run;

extern const struct vp_opt vp_normalize_options[]; /* fields of struct vp_normalize_params */

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
