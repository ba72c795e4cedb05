/* Expressions over the samples of one or more stacks: img-math. */
#pragma once

#include "engine/chain.h"

/* All steps of one or two operands: code and value of a and b; comparisons give 1 or 0. F: by a function of its own. */
#define VP_MATH_CODES(X, F) \
    X(ADD, a + b) \
    X(SUB, a - b) \
    X(MUL, a * b) \
    X(DIV, a / b) \
    F(MOD, modulo(a, b)) \
    F(POW, pow(a, b)) \
    X(LT, a < b ? 1.0 : 0.0) \
    X(LE, a <= b ? 1.0 : 0.0) \
    X(GT, a > b ? 1.0 : 0.0) \
    X(GE, a >= b ? 1.0 : 0.0) \
    X(EQ, a == b ? 1.0 : 0.0) \
    X(NE, a != b ? 1.0 : 0.0) \
    X(AND, ((a != 0) & (b != 0)) ? 1.0 : 0.0) \
    X(OR, ((a != 0) | (b != 0)) ? 1.0 : 0.0) \
    X(MIN, a < b || a != a ? a : b) /* NaN propagates */ \
    X(MAX, a > b || a != a ? a : b) \
    X(NEG, -a) \
    X(NOT, a == 0 ? 1.0 : 0.0) \
    X(ABS, fabs(a)) \
    F(SQRT, sqrt(a)) \
    F(EXP, exp(a)) \
    F(LOG, log(a)) \
    X(FLOOR, floor(a)) \
    X(CEIL, ceil(a)) \
    X(ROUND, rint(a)) \
    X(ISNAN, a != a ? 1.0 : 0.0)

#define VP_MATH_CODE(name, value) VP_MATH_##name,
enum vp_math_code { VP_MATH_CODES(VP_MATH_CODE, VP_MATH_CODE) VP_MATH_IF };

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
    int64_t lost;                                    /* results clamped, or NaN, in conversion to an integer type; of a
                                                        float type: results that are NaN or infinite */
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
