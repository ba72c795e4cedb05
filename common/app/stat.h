/* Local statistics of img-local: mean, median, min, max, std, var, entropy or percentile:P over a neighbourhood, with
 * iterations. Computed by local/rank.h, extremum.h, moments.h and entropy.h. */
#pragma once

#include "app/footprint.h"
#include "app/image.h"

struct vp_result;

struct vp_stat_params {
    const char *stat;       /* "median", "percentile:25" */
    struct vp_footprint_params window;
    int64_t iterations;
    int type;               /* index into auto|same|f32|f64 */
    bool sample;
    int64_t bins;
    struct vp_reals range;
};
extern const struct vp_opt vp_stat_options[];

#define VP_STAT_TYPES (1u << VP_U8 | 1u << VP_U16 | 1u << VP_I16 | 1u << VP_F32 | VP_TYPES_WIDE)

/* Checks everything that does not depend on the input: names, numbers, combinations of options. -1: VP_EUSAGE. */
int vp_stat_check(const struct vp_stat_params *p, struct vp_err *err);

/* Sets the treatment of a scale: undone if the result's scale is undefined (a variance of a variance, a sum), for a histogram
 * only for floats. */
void vp_stat_scale(const struct vp_stat_params *p, struct vp_image_params *image);
/* True if all is to be computed in f64. */
bool vp_stat_is_f64(const struct vp_stat_params *p);
/* True if the range of the whole stack must be known before (entropy without --range, except for u8). */
bool vp_stat_needs_range(const struct vp_stat_params *p, enum vp_type type);

/* Returns the type of the result for an input of `type`. */
enum vp_type vp_stat_type(const struct vp_stat_params *p, enum vp_type type);

/* Appends the stages over the neighbourhood. `range`: smallest and largest sample of the stack, if needed; NULL if
 * unknown (--plan). *result: meaning of its samples. */
int vp_stat_chain(struct vp_chain *c, const struct vp_stat_params *p, const struct vp_footprint *f,
                  const struct vp_images *im, const double *range, struct vp_result *result, struct vp_err *err);
