/* SPDX-License-Identifier: BSD-3-Clause */
/* Least squares: the factors with which stacks add up to another one. */
#pragma once

#include "base/opt.h"

#include <stdint.h>

enum { VP_FIT_MOST = 16 /* stacks */, VP_FIT_TERMS = VP_FIT_MOST + 1 /* and a constant */ };

/* Sums over all samples that count. Terms are the stacks, and the constant if there is one. */
struct vp_fit {
    int stacks, terms;               /* terms: stacks, or one more */
    double product[VP_FIT_TERMS][VP_FIT_TERMS]; /* sums of two terms' products */
    double with[VP_FIT_TERMS];       /* sums of products of a term and the target */
    double squares, sum;             /* sums of the target's squares, and of its samples */
    int64_t count, skipped;          /* samples that count, and those that are NaN or infinite */
    double *rows;                    /* sums of each row of a page */
    int64_t room;
    int threads;
};

struct vp_fit_result {
    double factor[VP_FIT_TERMS], error[VP_FIT_TERMS]; /* standard errors, if residuals are independent */
    double rms;                      /* root mean square of what is left */
    /* part of the target's variance about its mean (without a constant: about 0) that is explained */
    double of;
};

void vp_fit_open(struct vp_fit *f, int stacks, bool constant, int threads);
/* Adds a page of nx x ny: the target, the stacks, and NULL or a mask, where samples that are 0 do not count. Rows are
 * added in order, so bits do not depend on threads. VP_ERESOURCE. */
int vp_fit_page(struct vp_fit *f, const float *target, const float *const *stack, const float *mask, int64_t nx,
                int64_t ny, struct vp_err *err);
/* Solves the normal equations (Cholesky, on terms scaled to unit length). VP_ERUN: fewer samples than terms, or
 * stacks that are combinations of others. */
int vp_fit_solve(const struct vp_fit *f, struct vp_fit_result *r, struct vp_err *err);
void vp_fit_close(struct vp_fit *f);
