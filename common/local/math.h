/* Expressions over the samples of one or more stacks: img-math. */
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

/* Blocks of a program: samples of the stacks, then position, constants, intermediate results. */
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
    int n;                                           /* number of steps; 0: the result is block `result` unchanged */
    struct vp_math_step { uint8_t code, to, from[3]; } step[VP_MATH_LONGEST];
    int places, result;
    bool used[VP_MATH_PLACES], constant[VP_MATH_PLACES];
    double value[VP_MATH_PLACES];                    /* values of constants */
    double lo, hi;                                   /* interval of the result for samples of type `of` */
    bool whole;                                      /* the result is a whole number */
    enum vp_type of;
    int64_t inner, nz;                               /* page p is slice p / inner % nz */
    int64_t lost;                                    /* results clamped, or NaN, in conversion to an integer type */
};

/* Parses an expression over `stacks` stacks a, b, ... of type `type`. The caller owns *m until vp_math_add. VP_EUSAGE
 * with the position of the error; VP_ERESOURCE. */
int vp_math_parse(struct vp_math **m, const char *text, int stacks, enum vp_type type, struct vp_err *err);

void vp_math_free(struct vp_math *m); /* frees an expression that is in no chain */

/* Returns the default type of the result: that of the samples if they are floats, or if all results fit it without a
 * fraction; else f32. */
enum vp_type vp_math_type(const struct vp_math *m);

/* Appends m to a chain whose image is all pages along z. The chain owns m from then on, also on failure. */
int vp_math_add(struct vp_chain *c, struct vp_math *m, const int64_t image[3], int stacks, enum vp_type out,
                struct vp_err *err);

#endif
