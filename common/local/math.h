/* A small expression over the samples of one or more stacks: img-math. */
#ifndef VP_MATH_H
#define VP_MATH_H

#include "engine/chain.h"

enum vp_math_code {
    VP_MATH_ADD, VP_MATH_SUB, VP_MATH_MUL, VP_MATH_DIV, VP_MATH_MOD, VP_MATH_POW,
    VP_MATH_LT, VP_MATH_LE, VP_MATH_GT, VP_MATH_GE, VP_MATH_EQ, VP_MATH_NE, VP_MATH_AND, VP_MATH_OR,
    VP_MATH_MIN, VP_MATH_MAX,
    VP_MATH_NEG, VP_MATH_NOT, VP_MATH_ABS, VP_MATH_SQRT, VP_MATH_EXP, VP_MATH_LOG, VP_MATH_FLOOR, VP_MATH_CEIL,
    VP_MATH_ROUND, VP_MATH_ISNAN,
    VP_MATH_IF
};

/* The places of a program: samples of the stacks, then position, constants, results in between. */
enum {
    VP_MATH_X = VP_MAX_INPUTS,
    VP_MATH_Y,
    VP_MATH_Z,
    VP_MATH_PAGE,
    VP_MATH_FIRST,
    VP_MATH_PLACES = 128,
    VP_MATH_LONGEST = 1024
};

struct vp_math {
    int n;                                           /* steps; 0: the result is place `result` as it is */
    struct vp_math_step { uint8_t code, to, from[3]; } step[VP_MATH_LONGEST];
    int places, result;
    bool used[VP_MATH_PLACES], constant[VP_MATH_PLACES];
    double value[VP_MATH_PLACES];                    /* of constants */
    double lo, hi;                                   /* the result lies between these, for samples of type `of` */
    bool whole;                                      /* and is a whole number */
    enum vp_type of;
    int64_t inner, nz;                               /* page p is slice p / inner % nz */
    int64_t lost;                                    /* samples clamped, or NaN, on their way to an integer type */
};

/* Parse for stacks a, b, ... (as many as `stacks`) of type `type`. VP_EUSAGE with the position of the mistake. */
int vp_math_parse(struct vp_math **m, const char *text, int stacks, enum vp_type type, struct vp_err *err);

void vp_math_free(struct vp_math *m); /* one that no chain has */

/* The type of the result if none is asked for: that of the samples if they are floats or no result can leave its
 * range or need a fraction; else f32. */
enum vp_type vp_math_type(const struct vp_math *m);

/* Add to a chain whose image is all pages along z. m becomes the chain's. */
int vp_math_add(struct vp_chain *c, struct vp_math *m, const int64_t image[3], int stacks, enum vp_type out,
                struct vp_err *err);

#endif
