/* The normalisation of counts (ct/normalize.h) as programs take it: its options, and flats, darks and a mask in
 * files. */
#ifndef VP_FLATS_H
#define VP_FLATS_H

#include "base/opt.h"
#include "ct/normalize.h"

struct vp_run;

extern const struct vp_opt vp_normalize_options[]; /* of struct vp_normalize_params */

/* vp_normalize_open with the files of the options, read and averaged; for ct-normalize and ct-fdk. nv and
 * views may be -1: nv is then that of the flats. In layout sinograms flats and darks are sinograms too: a
 * page a detector row, its rows averaged. */
int vp_normalize_load(struct vp_normalize **n, struct vp_run *run, const struct vp_normalize_params *p,
                      int64_t nu, int64_t nv, int64_t views, bool sinograms, struct vp_err *err);

/* Warn of pages without a usable sample; `page` is "view" or "detector row". */
void vp_blank_report(const struct vp_blank *b, const char *page, const struct vp_run *run);
/* Say (warnings, notes) what was repaired of `samples` samples, `bad` of which were NaN or infinite. */
void vp_normalize_tell(const struct vp_normalize *n, const struct vp_run *run,
                       const struct vp_normalize_report *rep, int64_t samples, int64_t bad);

#endif
