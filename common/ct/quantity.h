/* Quantities of samples, recorded in the metadata of a stack, against the needs of a program. */
#pragma once

struct vp_stack;
struct vp_err;

enum vp_need {
    VP_NEED_COUNTS,   /* with flats, or an open beam: ct-normalize */
    VP_NEED_UNIT,     /* the same with an open beam of 1, so that a transmission will do as well */
    VP_NEED_FLATS,    /* the counts of flats and darks */
    VP_NEED_LINES,    /* line integrals */
    VP_NEED_FILTERED, /* filtered projections, or anything that may be summed along rays */
    VP_NEED_VOLUME,   /* a volume: ct-project */
};

/* Checks the quantity: 0 if it is the needed one or may be it: none at all, or an unknown word, in images of one
 * channel. -1: VP_EUSAGE with the quantity and the way out. `name` is that of the input. */
int vp_quantity_check(const struct vp_stack *s, enum vp_need need, const char *name, struct vp_err *err);
