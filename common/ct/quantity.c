/* SPDX-License-Identifier: BSD-3-Clause */
/* Quantities that satisfy a need. */
#include "ct/quantity.h"

#include "base/err.h"
#include "stack/axes.h"

#include <string.h>

#define BIT(need) (1u << (need))
#define ANY_COUNTS (BIT(VP_NEED_COUNTS) | BIT(VP_NEED_UNIT) | BIT(VP_NEED_FLATS))
#define MADE "give the stack that it was made of"

/* The quantities that the programs write; `way` is what makes line integrals of them, or goes on from them. */
static const struct quantity { const char *name, *is, *way; unsigned fits; } known[] = {
    {"counts", "holds counts", "ct-normalize makes line integrals of them, or --flat FILES or --i0 N of ct-fdk",
     ANY_COUNTS},
    {"transmission", "holds a transmission", "--i0 1 of ct-normalize or ct-fdk takes the logarithm", BIT(VP_NEED_UNIT)},
    {"line integral", "holds line integrals", "ct-filter and ct-fdk take them without --flat and --i0",
     BIT(VP_NEED_LINES) | BIT(VP_NEED_FILTERED)},
    {"filtered projection", "is filtered already", "ct-backproject goes on from there", BIT(VP_NEED_FILTERED)},
    {"attenuation", "holds a reconstructed volume", "give the projections", BIT(VP_NEED_VOLUME)},
    {"derivative", "holds a derivative", MADE, BIT(VP_NEED_FILTERED) | BIT(VP_NEED_VOLUME)},
    {"Laplacian of Gaussian", "holds a Laplacian", MADE, BIT(VP_NEED_FILTERED) | BIT(VP_NEED_VOLUME)},
    {"local standard deviation", "holds standard deviations", MADE, BIT(VP_NEED_VOLUME)},
    {"local variance", "holds variances", MADE, BIT(VP_NEED_VOLUME)},
    {"local entropy (bits)", "holds entropies", MADE, BIT(VP_NEED_VOLUME)},
};

/* A channel would be taken for a view. */
static int check_channels(const struct vp_stack *s, const char *name, struct vp_err *err)
{
    struct vp_axes a;

    vp_axes_get(s, &a);
    const int which = vp_axes_find(&a, "channel");
    if (which >= 0 && a.size[which] != 1)
        return vp_fail_hint(err, VP_EUSAGE,
                            "img-convert --channel luminance makes one of them, --channel 0 takes the first",
                            "%s: the pages are channels: expected images of one channel", name);
    return 0;
}

int vp_quantity_check(const struct vp_stack *s, enum vp_need need, const char *name, struct vp_err *err)
{
    static const char *const wanted[] = {
        [VP_NEED_COUNTS] = "counts", [VP_NEED_UNIT] = "counts or a transmission", [VP_NEED_FLATS] = "counts",
        [VP_NEED_LINES] = "line integrals", [VP_NEED_FILTERED] = "filtered projections",
        [VP_NEED_VOLUME] = "a volume"};
    const char *quantity = vp_meta_get(&s->meta, "quantity");
    const struct quantity *q = NULL;

    if (check_channels(s, name, err))
        return -1;
    for (size_t i = 0; quantity && i < sizeof known / sizeof *known; i++)
        if (!strcmp(quantity, known[i].name))
            q = &known[i];
    if (!q || q->fits & BIT(need))
        return 0;
    vp_fail(err, VP_EUSAGE, "%s: %s, not %s", name, q->is, wanted[need]);
    return vp_hint(err, "%s", need == VP_NEED_FLATS ? "--flat takes counts of the open beam, --dark those of none"
                         : need == VP_NEED_VOLUME ? "ct-fdk and ct-iterate reconstruct one" : q->way);
}
